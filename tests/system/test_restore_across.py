"""A dump from MySQL is restored on MariaDB and the reverse, rows and definitions, as far as the target supports the
definitions. Otherwise the table's statement and the reason are reported before anything is changed. A run for MySQL has both
servers."""
import os

import pytest
from wk.keeper import DONE, FAILED
from wk.server import version
from wk.snapshot import assert_same
from wk.util import ident
from wk.world import World

pytestmark = pytest.mark.only("mysql", why="the one run that has both servers")

BOTH = pytest.mark.parametrize("source, goal", [("mariadb", "mysql"), ("mysql", "mariadb")])
# A character set that both have; the default of a schema differs.
TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
TABLES = [
    "CREATE TABLE numbers (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, t TINYINT, u TINYINT "
    "UNSIGNED, s SMALLINT, m MEDIUMINT, i INT(7) ZEROFILL, d DECIMAL(30,10), f FLOAT, g DOUBLE, b BIT(13), "
    "y YEAR, KEY (i) USING BTREE, KEY (s)) ENGINE=MEMORY",
    "INSERT INTO numbers VALUES (1,-128,255,-32768,8388607,42,-1234567890123456789.0123456789,16777215,1e300,"
    "b'1000000000001',1901),(18446744073709551614,NULL,0,0,0,0,0,-1e-30,-0.1,0,2155)",
    f"CREATE TABLE texts (id INT PRIMARY KEY, a VARCHAR(90) {TEXT}, l VARCHAR(40) CHARACTER SET latin1, "
    "c CHAR(9) CHARACTER SET ascii, v VARBINARY(300), b BINARY(4), KEY (a) USING BTREE, UNIQUE KEY (l)) "
    "ENGINE=MEMORY DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci COMMENT='it''s Ő'",
    "INSERT INTO texts VALUES (1,'Ő ★ 𝄞','játékos','x',x'000d0a1a5c2227ff','\\0a'),(2,'','','','',''),"
    "(3,NULL,NULL,NULL,NULL,NULL),(4,'back\\\\slash','ÿ','\\\\','\\'','\"')",
    "CREATE TABLE times (id INT PRIMARY KEY, d DATE, t TIME(3), dt DATETIME(6), ts TIMESTAMP NULL) "
    "ENGINE=MEMORY",
    "INSERT INTO times VALUES (1,'1000-01-01','-838:59:59','9999-12-31 23:59:59.999999','2037-12-31 "
    "00:00:00'),"
    "(2,'0000-00-00','00:00:00.001','0000-00-00 00:00:00',NULL)",
    f"CREATE TABLE choices (id INT PRIMARY KEY, e ENUM('a','it''s','Ő') {TEXT}, s SET('x','y','z') {TEXT}, "
    "h INT INVISIBLE DEFAULT 3) ENGINE=MEMORY",
    "INSERT INTO choices (id,e,s,h) VALUES (1,'Ő','x,z',1),(2,'it''s','',2),(3,NULL,NULL,NULL)",
    "CREATE TABLE pair (a INT, b INT, c INT, CONSTRAINT pair_sum CHECK (a+b<100), PRIMARY KEY (a,b)) "
    "ENGINE=MEMORY",
    "INSERT INTO pair SELECT seq MOD 90, 9, seq FROM seq_1_to_89",
    f"CREATE TABLE many (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) {TEXT} NOT NULL, who INT) "
    f"ENGINE=MEMORY",
    "INSERT INTO many SELECT seq, CONCAT('Bolygó ',seq), seq MOD 77 FROM seq_1_to_20000",
    "CREATE TABLE keyless (n INT) ENGINE=MEMORY", "INSERT INTO keyless VALUES (1),(1),(NULL)",
]
MODES = {
    "mariadb": "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
    "mysql": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
             "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
}
COLLATIONS = {"mariadb": "utf8mb4_general_ci", "mysql": "utf8mb4_0900_ai_ci"}
DEFINITIONS = [
    "CREATE DEFINER=keeper@localhost TRIGGER named BEFORE INSERT ON many FOR EACH ROW SET "
    "NEW.name=TRIM(NEW.name)",
    "CREATE DEFINER=keeper@localhost VIEW top AS SELECT id, name FROM many WHERE who=7 ORDER BY id",
    "CREATE DEFINER=keeper@localhost EVENT tick ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01 00:00:00' "
    "DISABLE DO "
    "DELETE FROM many WHERE id=0",
]


@pytest.fixture
def servers(make_server):
    """Returns a function that starts a server of each kind when it is first asked for."""
    made = {}

    def get(kind):
        if kind not in made:
            made[kind] = make_server(kind=kind)
        return made[kind]
    return get


def schema_on(server, name, *statements):
    world = World(server, "empty", name)
    world.sql(f"ALTER DATABASE {ident(name)} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci", *statements)
    return world


def rows_only(world):
    return {k: v for k, v in world.snapshot(engines={"MEMORY"}).items() if k.startswith("rows ")}


def unused_keys(world):
    """Returns the keys that the optimizer ignores: MySQL's INVISIBLE, MariaDB's IGNORED."""
    column, value = {"mysql": ("is_visible", "NO"), "mariadb": ("ignored", "YES")}[world.server.kind]
    return world.sql("SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE "
                     f"table_schema=DATABASE() AND {column}='{value}'")


def counters(world):
    return world.sql("SELECT table_name, auto_increment FROM information_schema.tables WHERE "
                     "table_schema=DATABASE() AND table_name IN ('many','numbers') ORDER BY 1")


@BOTH
def test_to_a_new_server(servers, make_keeper, source, goal):
    """A dump with triggers, views and events is restored on an empty server of the other kind."""
    unused = {"mariadb": "IGNORED", "mysql": "INVISIBLE"}[source]
    world = schema_on(servers(source), "across", *TABLES, f"ALTER TABLE many ADD KEY unused (who) {unused}")
    keeper = make_keeper(world).init()
    world.sql(f"SET sql_mode='{MODES[source]}', collation_connection={COLLATIONS[source]}", *DEFINITIONS)
    keeper.dump()
    there = schema_on(servers(goal), "across")
    moved = make_keeper(there, where=keeper.base)
    there.server.grant("keeper@localhost", there.schema, "CREATE VIEW")
    moved.ok("--restore", "--dry-run")
    result = moved.ok("--restore", "--json")
    # MariaDB before 11.4.5 has no utf8mb4_0900_ai_ci, by which MySQL compares the texts in a definition
    assert ("compare" in result.get("warning", "")) == (goal == "mariadb" and version("mariadb") < (11, 4, 5)), result
    assert "not restored" not in result.get("warning", "")
    assert_same(rows_only(world), rows_only(there), f"from {source} to {goal}")
    assert counters(world) == counters(there)
    assert unused_keys(there) == unused_keys(world) == (("many", "unused", "who"),)
    assert there.sql("SELECT * FROM top") == world.sql("SELECT * FROM top")
    there.sql("INSERT INTO many (name) VALUES (' trimmed ')")
    assert there.value("SELECT name FROM many WHERE id=20001") == "trimmed"
    assert there.value("SELECT COUNT(*) FROM information_schema.events WHERE event_schema='across'") == 1
    moved.dump()
    there.sql("TRUNCATE TABLE many", "TRUNCATE TABLE worldkeeper_sentinel")
    moved.ok("--restore", "--force")
    assert there.rows("many") == 20001


@BOTH
def test_over_the_same_tables_and_beside(servers, make_keeper, source, goal):
    """A dump is restored into existing tables, whose types the other server words differently, and into another schema."""
    world = schema_on(servers(source), "across", *TABLES)
    keeper = make_keeper(world).init()
    keeper.dump()
    there = schema_on(servers(goal), "across", *TABLES)
    tables = [t for t, in there.sql("SHOW TABLES")]
    there.sql(*(f"TRUNCATE TABLE {t}" for t in tables))
    moved = make_keeper(there, where=keeper.base)
    assert "warning" not in moved.ok("--restore", "--json")
    assert_same(rows_only(world), rows_only(there), f"from {source} to {goal}")
    beside = schema_on(servers(goal), "beside")
    there.server.grant("keeper@localhost", "beside")
    moved.ok("--restore", "--into", "beside")
    assert_same(rows_only(world), rows_only(beside), f"from {source} to {goal}, beside")
    assert moved.run("--verify").rc == DONE


REFUSED_THERE = {  # what only one of them has: source, target, statement, word of the error
    "uca1400": ("mariadb", "mysql", "CREATE TABLE z (v VARCHAR(9) COLLATE utf8mb4_uca1400_ai_ci)",
             "uca1400"),
    "nopad": ("mariadb", "mysql", "CREATE TABLE z (v VARCHAR(9) COLLATE utf8mb4_nopad_bin)",
             "utf8mb4_nopad_bin"),
    "uuid": ("mariadb", "mysql", "CREATE TABLE z (v UUID)", "uuid"),
    "inet6": ("mariadb", "mysql", "CREATE TABLE z (v INET6)", "inet6"),
    "default": ("mariadb", "mysql", "CREATE TABLE z (v INT DEFAULT (1+1))", "default"),
    # MariaDB 11.8 maps most other names of this kind to its own collations.
    "0900": ("mysql", "mariadb", "CREATE TABLE z (v VARCHAR(9) COLLATE utf8mb4_zh_0900_as_cs)",
             "utf8mb4_zh_0900_as_cs"),
}


@pytest.mark.parametrize("what", REFUSED_THERE)
def test_what_the_other_server_has_not(servers, make_keeper, what):
    """A restore of what the other server lacks names the table, its definition and the reason, and leaves nothing in the
    schema."""
    source, goal, statement, word = REFUSED_THERE[what]
    world = schema_on(servers(source), "across", *TABLES[-4:], statement + " ENGINE=MEMORY")
    keeper = make_keeper(world).init()
    keeper.dump()
    there = schema_on(servers(goal), "across")
    moved = make_keeper(there, where=keeper.base)
    for more in ((), ("--dry-run",)):
        done = moved.run("--restore", *more, fault="restore.loaded=exit")
        assert done.rc == FAILED and "table z" in done.err and word.lower() in done.err.lower(), done
        assert "definition" in done.err and "--into" not in done.err and "HINT" in done.err, done
        assert there.sql("SHOW TABLES") == ()
    assert os.listdir(moved.dumps_dir)
