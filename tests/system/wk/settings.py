"""Session defaults of the server, each at its extreme values, and what happens to a world under such a setting."""
from collections import namedtuple

import pymysql

from .keeper import USER
from .progress import RIGHTS as PROGRESS_RIGHTS, Central, made
from .server import MYSQL
from .util import CANARY

# Variables without a case, and the reason. The manual names each (tests/scripts/test_docs.py).
LEFT_OUT = {
    "debug_dbug": "of a debugging build",
    "secure_auth": "of old password formats",
    "pseudo_thread_id": "of one session",
    "last_insert_id": "of one session",
    "max_session_mem_used": "its extreme values end MariaDB itself",
}

Setting = namedtuple("Setting", "name value")  # value: SQL


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


# Values of variables that hold any text.
TEXTS = {
    "max_heap_table_size": ["16384", "1073741824"],  # with exabytes the first row of each table would take gigabytes
    "time_zone": ["'-12:59'", "'+14:00'"],
    "character_set_client": ["'latin1'", "'sjis'"], "character_set_connection": ["'ucs2'", "'latin1'"],
    "character_set_results": ["'ucs2'", "NULL"], "character_set_filesystem": ["'utf8mb4'"],
    "character_set_server": ["'ucs2'", "'cp1250'"], "character_set_database": ["'ucs2'"],
    "collation_connection": ["'ucs2_general_ci'", "'latin1_bin'"], "collation_server": ["'utf32_bin'"],
    "collation_database": ["'utf32_bin'"], "default_collation_for_utf8mb4": ["'utf8mb4_general_ci'"],
    "default_storage_engine": ["'MyISAM'", "'CSV'", "'MEMORY'"], "default_tmp_storage_engine": ["'MyISAM'", "'MEMORY'"],
    "enforce_storage_engine": ["'InnoDB'", "'MEMORY'"], "storage_engine": ["'MyISAM'"],
    "lc_messages": ["'hu_HU'", "'ja_JP'"], "lc_time_names": ["'hu_HU'", "'ar_SA'"],
    "session_track_system_variables": ["'*'", "''"], "system_versioning_asof": ["'2001-01-01 00:00:00'"],
    "optimizer_trace": ["'enabled=on'"], "block_encryption_mode": ["'aes-256-cbc'"], "default_week_format": ["7"],
    "default_regex_flags": ["'DOTALL,EXTENDED'"], "binlog_row_value_options": ["'PARTIAL_JSON'"],
    "character_set_collations": ["'utf8mb4=utf8mb4_bin'", "'latin1=latin1_bin'"],
    "redirect_url": ["'mysql://localhost:1'"],
    "terminology_use_previous": ["'BEFORE_8_0_26'"], "transaction_isolation": ["'READ-UNCOMMITTED'", "'SERIALIZABLE'"],
}
# MySQL does not list the members of enumerations and sets: numbers are tried.
MEMBERS = 40


def settings_of(server):
    """Returns the extreme values of all session variables that the server knows. It may refuse some of them."""
    if server.mysql:
        rows = server.sql(
            "SELECT m.VARIABLE_NAME, m.DATA_TYPE, m.MIN_VALUE, m.MAX_VALUE, NULL, g.VARIABLE_VALUE "
            "FROM performance_schema.variables_metadata m LEFT JOIN performance_schema.global_variables g "
            "USING (VARIABLE_NAME) WHERE m.VARIABLE_SCOPE='SESSION' ORDER BY 1")
    else:
        rows = server.sql(
            "SELECT LOWER(VARIABLE_NAME), VARIABLE_TYPE, NUMERIC_MIN_VALUE, NUMERIC_MAX_VALUE, ENUM_VALUE_LIST, GLOBAL_VALUE "
            "FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_SCOPE='SESSION' AND READ_ONLY='NO' ORDER BY 1")
    out = []
    for name, kind, least, most, members, now in rows:
        if name not in LEFT_OUT:
            values = values_of(name, kind.upper(), least, most, members, now)
            out += [Setting(name, value) for value in dict.fromkeys(values)]
    return out


def values_of(name, kind, least, most, members, now):
    if name in TEXTS:
        return TEXTS[name]
    if kind.startswith(("INT", "BIGINT", "DOUBLE", "NUMERIC")):
        return [v for v in (least, most) if v not in (None, "") and v != now]
    if kind == "BOOLEAN":
        return ["0" if str(now).upper() in ("ON", "1") else "1"]
    if kind in ("ENUM", "ENUMERATION"):
        return ([quoted(m) for m in members.split(",") if m != now] if members else
                [str(n) for n in range(MEMBERS)])
    if kind == "SET":
        if members:
            return [quoted(m) for m in members.split(",")] + [quoted(members), "''"]
        return ["''", *(str(1 << n) for n in range(MEMBERS))]
    if kind == "FLAGSET" or name == "optimizer_switch":
        return [quoted(flag.replace("=on", "=off") if flag.endswith("=on") else flag.replace("=off", "=on"))
                for flag in now.split(",")]
    return []


GROUP = 8


def groups_of(settings, rand):
    """Splits the settings into groups, with no variable twice in one."""
    mixed, groups = list(settings), []
    rand.shuffle(mixed)
    for setting in mixed:
        for group in groups:
            if len(group) < GROUP and all(s.name != setting.name for s in group):
                group.append(setting)
                break
        else:
            groups.append([setting])
    return groups


# A world with one object of each kind that a restore treats differently.
WORLD = [
    "CREATE TABLE hero (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, nick VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL, "
    "points BIGINT NOT NULL, ratio FLOAT, price DECIMAL(12,4), born TIMESTAMP NULL, at DATETIME(6), kind ENUM('a','é'), "
    "UNIQUE KEY (nick)) ENGINE=MEMORY",
    "INSERT INTO hero (id,nick,points,ratio,price,born,at,kind) VALUES "
    "(1,'ékes',7,1.1,0.1234,'2026-03-29 01:30:00','2026-03-29 02:30:00.123456','é'),"
    "(2,'''quoted\\\\',-9223372036854775808,16777215,99999999.9999,NULL,'0000-00-00 00:00:00','a'),"
    "(40,'',0,NULL,NULL,'1970-01-02 00:00:01',NULL,NULL),(0,'zero',1,-0.5,-1,NULL,NULL,'a')",
    "INSERT INTO hero (nick,points) SELECT CONCAT('n',seq),seq FROM seq_1_to_50",
    "DELETE FROM hero WHERE id>60",
    "CREATE TABLE tally (id INT NOT NULL PRIMARY KEY, seen INT NOT NULL DEFAULT 5, CONSTRAINT sane CHECK (seen >= 0)) ENGINE=MEMORY",
    "INSERT INTO tally (id) VALUES (0)",
    "CREATE TABLE chat (who INT, what VARCHAR(80) CHARACTER SET latin2) ENGINE=MEMORY",
    "INSERT INTO chat VALUES (1,'őű'),(1,'őű'),(NULL,NULL)",
    "CREATE TABLE map (id INT NOT NULL, y INT NOT NULL, PRIMARY KEY (id)) ENGINE=MEMORY",
    "CREATE TRIGGER counted AFTER INSERT ON hero FOR EACH ROW UPDATE tally SET seen=seen+1 WHERE id=0",
    "CREATE TRIGGER upper BEFORE UPDATE ON chat FOR EACH ROW SET NEW.what=UPPER(NEW.what)",
    "CREATE VIEW top AS SELECT nick FROM hero WHERE points>3",
    "CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
    "xp INT NOT NULL, at DATETIME NOT NULL, KEY k USING BTREE (player, mini, id)) ENGINE=MEMORY",
    "CREATE TABLE durable (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, v INT, twice BIGINT AS (v*2) VIRTUAL, t TEXT) ENGINE=InnoDB",
    "INSERT INTO durable (v,t) VALUES (1,'a'),(2,'őű')",
    "CREATE TABLE level (level INT NOT NULL PRIMARY KEY, amount INT) ENGINE=MEMORY",
    "INSERT INTO level VALUES (1,1),(2,3),(3,6)",
]
PARTITIONS = ["CREATE TABLE part (id INT NOT NULL, v INT, KEY (id)) ENGINE=MEMORY PARTITION BY HASH(id) PARTITIONS 3",
              "INSERT INTO part SELECT seq,seq FROM seq_1_to_9",
              "CREATE TABLE past (id INT PRIMARY KEY) ENGINE=InnoDB WITH SYSTEM VERSIONING", "INSERT INTO past VALUES (1)"]
OPTIONS = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=1"]
LIMITED = ["prlimit", f"--as={16 << 30}"]  # the system refuses a buffer of exabytes
LEDGER = {"table": "gains", "key": "player, mini", "value": "xp", "time": "at", "levels": "level", "rollup_after": "0"}


class Subject:
    """One world with all kinds of objects, under one setting after another."""

    def __init__(self, make_world, make_keeper, make_server):
        self.make_world, self.make_keeper = make_world, make_keeper
        self.server = make_server(*OPTIONS, wrapper=LIMITED)
        self.n = 0
        self.build()

    def build(self):
        """Makes a new world. What a failed case left is not used again."""
        self.world = self.make_world("empty", self.server)
        self.world.sql(*WORLD, *([] if MYSQL else PARTITIONS))
        self.keeper = keeper = self.make_keeper(self.world, {"journal": {"mode": "server"}, "ledger xp": LEDGER,
                                                            "dump": {"engines": "all"}})
        self.server.grant(USER + "@localhost", self.world.schema, "DELETE, CREATE VIEW")
        self.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
        for host in ("localhost", "127.0.0.1"):
            self.server.sql(f"GRANT SET USER ON *.* TO {USER}@{host}")
        self.central = Central(self.server)
        made(keeper, self.central).open("lock")

    def play(self, game):
        """Plays the game in a session that began before the setting was made."""
        self.n += 1
        n = self.n
        with game.cursor() as cur:
            for sql in (f"INSERT INTO hero (nick,points) VALUES ('g{n}',{n})", f"UPDATE hero SET points=points+{n} WHERE id<4",
                        f"INSERT INTO chat VALUES ({n},'x')", f"UPDATE chat SET what='y' WHERE who={n}",
                        "INSERT INTO hero (nick,points) VALUES ('goes',0)", "DELETE FROM hero WHERE nick='goes'",
                        f"REPLACE INTO map VALUES ({n % 7},{n})",
                        "INSERT INTO gains (player,mini,xp,at) VALUES (1,1,3,NOW()),(2,1,4,NOW())",
                        f"CALL wk_put('blob','lock',_binary 'saved {n}')"):
                cur.execute(sql)

    def case(self, settings):
        """Returns None if the world was restored as it was, else what went wrong. `taken` has the settings that the server
        accepted and that differ from the default; `failures` what --check said about them."""
        self.failures, self.taken, self.usual, self.ended = "", [], {}, False
        game = self.server.admin(self.world.schema)  # began before these settings were made
        try:
            self.give(settings)
            return self.under(game) if self.taken else None
        except (Failed, AssertionError, pymysql.err.Error) as e:
            return f"{type(e).__name__}: {e}"
        finally:
            game.close()
            self.take_back()

    def give(self, settings):
        con = self.server.admin()
        for name, value in settings:
            try:
                with con.cursor() as cur:
                    cur.execute(f"SELECT @@GLOBAL.{name}")
                    was = cur.fetchall()[0][0]
                    cur.execute(f"SET GLOBAL {name}={value}")
                    cur.execute(f"SELECT @@GLOBAL.{name}")
                    if cur.fetchall()[0][0] != was:
                        self.usual.setdefault(name, was)
                        self.taken.append(Setting(name, value))
            except pymysql.err.Error:  # an invalid value, or a variable that cannot be set
                pass
        con.close()

    def take_back(self):
        """Resets the settings. A server that a setting has ended, or that accepts no connections, is started without it."""
        if self.server.process.poll() is not None:
            self.ended = True
        try:
            con = self.server.admin()
            for name, was in self.usual.items():
                with con.cursor() as cur:
                    cur.execute(f"SET GLOBAL {name}=%s", (was,))
            con.close()
        except pymysql.err.Error:
            self.server.process.kill()
            self.server.process.wait()
            self.server.process = None
            self.server.start()

    def do(self, *args, good=(0,)):
        done = self.keeper.run(*args)
        if done.rc not in good:
            raise Failed(done)
        return done

    def faults(self, group):
        """Returns [(setting, what went wrong)] of those that --check does not name. A setting under which the server itself
        ends is not our fault."""
        why = self.case(group)
        if why is None and not self.failures:
            return []
        if why is not None:
            self.build()
        if len(group) > 1:
            half = len(group) // 2
            return self.faults(group[:half]) + self.faults(group[half:])
        named = self.ended or group[0].name in self.failures
        return [] if named else [(group[0], why or "it fails without a reason: " + self.failures)]

    def under(self, game):
        check = self.do("--check", "--json", good=(0, 1)).json
        self.failures = "; ".join(f"{c['name']}: {c['text']}" for c in check["result"]["checks"] if c["level"] == "fail")
        self.play(game)
        self.do("--dump")
        self.play(game)
        self.do("--rollup")
        self.play(game)
        self.do("--write-back")
        self.do("--drill")
        sent = self.n
        self.play(game)
        settings = self.taken
        self.take_back()
        before = self.world.snapshot()
        assert self.central.blobs()["blob"][1] == f"saved {sent}".encode(), "what was sent is not in the central store"
        self.server.crash()
        self.taken = []
        self.give(settings)
        done = self.do("--restore", "--json").result
        self.take_back()
        self.world.assert_is(before)
        assert not done["journal"].get("gap"), done["journal"]["gap"]
        return None


class Failed(Exception):
    """An action that did not succeed."""
