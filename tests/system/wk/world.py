"""Game worlds: schemas that the tests fill, change and compare."""
import itertools
import os

from . import zoo
from .snapshot import assert_same, checksums, snapshot
from .util import CANARY, ident

counter = itertools.count(1)

SMALL = [
    "CREATE TABLE player (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, nick VARCHAR(40) "
    "CHARACTER SET utf8mb4 NOT NULL, points BIGINT NOT NULL, ratio FLOAT, UNIQUE KEY (nick)) "
    "ENGINE=MEMORY",
    "INSERT INTO player SELECT seq, CONCAT('játékos ',seq), seq*7919, seq/3 FROM seq_1_to_2000",
    "CREATE TABLE fleet (id INT NOT NULL, owner INT UNSIGNED NOT NULL, x INT, "
    "PRIMARY KEY (id,owner), KEY o (owner) USING BTREE) ENGINE=MEMORY",
    "INSERT INTO fleet SELECT seq, seq MOD 500, IF(seq MOD 3, seq, NULL) FROM seq_1_to_3000",
    "CREATE TABLE chat (who INT, what VARCHAR(80)) ENGINE=MEMORY",
    "INSERT INTO chat SELECT seq MOD 7, CONCAT('it''s line ',seq MOD 50) FROM seq_1_to_300",
    "CREATE TABLE mark (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=MEMORY",
    "INSERT INTO mark VALUES (1,1)",
]
BIG = [
    "CREATE TABLE planet (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, owner INT NOT NULL, "
    "name VARCHAR(60) CHARACTER SET utf8mb4 NOT NULL, size DOUBLE, KEY (owner) USING BTREE) "
    "ENGINE=MEMORY",
    "INSERT INTO planet SELECT seq, seq MOD 5000, CONCAT('Bolygó ',seq,' ★'), seq*1.5 "
    "FROM seq_1_to_60000",
    "CREATE TABLE factory (planet INT UNSIGNED NOT NULL, type SMALLINT NOT NULL, stock BIGINT "
    "NOT NULL, PRIMARY KEY (planet,type)) ENGINE=MEMORY",
    "INSERT INTO factory SELECT 1+FLOOR((seq-1)/12), seq MOD 12, seq*7919 FROM seq_1_to_200000",
    "CREATE TABLE chat (who INT, what VARCHAR(80)) ENGINE=MEMORY",
    "INSERT INTO chat SELECT seq MOD 7, CONCAT('line ',seq MOD 50) FROM seq_1_to_40000",
    "CREATE TABLE mark (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=MEMORY",
    "INSERT INTO mark VALUES (1,1)",
]
# Contents of each kind of world, made when needed, because the zoo's text takes longer than a small world.
FILLS = {"small": lambda: SMALL, "big": lambda: BIG, "empty": lambda: ["DO 0"], "zoo": zoo.memory_zoo,
         "all": lambda: [*zoo.memory_zoo(), *zoo.durable_zoo()]}


class World:
    """One schema on one server. `kind`: small, big, zoo, all (zoo and durable tables), empty."""

    def __init__(self, server, kind="small", schema=None):
        self.server = server
        self.schema = schema or f"w{os.getpid()}_{next(counter)}"
        server.sql(f"CREATE DATABASE {ident(self.schema)} CHARACTER SET utf8mb4")
        self.fill(kind)

    def fill(self, kind):
        heap = ["SET max_heap_table_size=512*1024*1024"] if kind == "big" else []
        self.sql(*heap, *FILLS[kind]())

    def sql(self, *statements):
        return self.server.sql(*statements, schema=self.schema)

    def value(self, statement):
        return self.sql(statement)[0][0]

    def mark(self, v):
        """Changes the world, so that pictures before and after differ."""
        self.sql(f"UPDATE mark SET v={v}", "INSERT INTO chat VALUES (9,'mark')",
                 f"UPDATE player SET points={v} WHERE id={v}")

    def marked(self):
        rows = self.sql("SELECT v FROM mark")
        return rows[0][0] if rows else None

    def rows(self, table="player"):
        return self.value(f"SELECT COUNT(*) FROM {ident(table)}")

    def snapshot(self, **kw):
        return snapshot(self.server, self.schema, **kw)

    def checksums(self):
        return checksums(self.server, self.schema)

    def assert_is(self, before, what="the world differs", **kw):
        assert_same(before, self.snapshot(**kw), what)

    def account(self, name, rights):
        """Makes an account of the game (with the canary password) with `rights` on this schema."""
        self.server.account(name, [self.schema], rights, server_rights=None)

    def connect(self, user="root"):
        return self.server.admin(self.schema, user=user, password=CANARY if user != "root" else "")

    def drop(self):
        """Ends sessions that hold locks, then drops the schema."""
        self.server.end_sessions()
        self.server.sql(f"DROP DATABASE IF EXISTS {ident(self.schema)}")
