"""Tests of the server's settings: with any session defaults a world is dumped, drilled and restored, or --check has reported
the setting before. A setting that a server restart would lose is reported while it is still in effect."""
import os
import random
import re

import pytest
from wk.keeper import USER
from wk.server import MYSQL, RIGHTS, version
from wk.settings import LEFT_OUT, OPTIONS, Setting, Subject, groups_of, settings_of

pytestmark = pytest.mark.each_server

SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))
WHOLE = os.environ.get("WK_WHOLE") == "yes"
GROUPS = 3  # per run, unless WK_WHOLE=yes
PARTS = 16 if WHOLE else 1
# Settings that made a restore, a rollup or a write-back fail or behave differently.
KNOWN = [Setting("sql_safe_updates", "1"), Setting("completion_type", "'RELEASE'"), Setting("group_concat_max_len", "4"),
         Setting("query_alloc_block_size", "4294966272"), Setting("max_sort_length", "8"), Setting("sql_auto_is_null", "1"),
         *([Setting("session_track_gtids", "2"), Setting("default_table_encryption", "1")] if MYSQL else
           [Setting("sql_mode", "'EMPTY_STRING_IS_NULL'"), Setting("system_versioning_asof", "'2001-01-01 00:00:00'"),
            # MariaDB 11.5 and later have it read-only.
            *([Setting("alter_algorithm", "'INSTANT'")] if version() < (11, 5) else [])])]


@pytest.fixture
def subject(make_world, make_keeper, make_server):
    return Subject(make_world, make_keeper, make_server)


def test_settings_that_are_known_to_matter(subject):
    why = subject.case(KNOWN)
    assert len(subject.taken) == len(KNOWN), subject.taken
    assert why is None and not subject.failures, (why, subject.failures)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_world_comes_back_or_check_names_the_setting(subject, part):
    """Tries some groups of all settings, by a seed, or all of them with WK_WHOLE=yes. The cause of a group's failure is
    searched in its halves."""
    print("seed", SEED)
    groups = groups_of(settings_of(subject.server), random.Random("all" if WHOLE else SEED))
    for group in groups[part::PARTS] if WHOLE else groups[:GROUPS]:
        for setting, why in subject.faults(group):
            raise AssertionError(f"{setting}, which --check does not name: {why}")


# -- the next server -------------------------------------------------------------------------------


def findings(keeper, name="next start"):
    return [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == name]


@pytest.fixture
def triggered(make_world, make_keeper, make_server):
    """Returns a function that makes a world with a trigger on a server with a binary log."""
    def make(*options):
        server = make_server("--log-bin=log", "--binlog-format=ROW", *options)
        world = make_world("small", server)
        world.sql("CREATE TRIGGER counted AFTER INSERT ON chat FOR EACH ROW UPDATE mark SET v=v+1")
        keeper = make_keeper(world)
        for host in ("localhost", "127.0.0.1"):
            server.sql(f"GRANT SET USER ON *.* TO {USER}@{host}")
        return keeper.init()
    return make


def test_what_was_set_at_run_time_is_gone_with_the_server(triggered):
    """--check reports log_bin_trust_function_creators that was set only at run time: after a crash each restore would fail
    with 1419."""
    keeper = triggered()
    assert [c["level"] for c in findings(keeper, "triggers")] == ["fail"]
    hint = findings(keeper, "triggers")[0]["hint"]
    assert "SET GLOBAL log_bin_trust_function_creators=1" in hint and "my.cnf" in hint, hint
    keeper.server.sql("SET GLOBAL log_bin_trust_function_creators=1")
    found = findings(keeper)
    assert [c["level"] for c in found] == ["fail"], found
    assert "log_bin_trust_function_creators" in found[0]["text"] and "after a restart" in found[0]["text"]
    assert ("SET PERSIST log_bin_trust_function_creators=1" if MYSQL else "SET GLOBAL log_bin_trust_function_creators=1") in \
        found[0]["hint"] and "log_bin_trust_function_creators = 1 under [mysqld]" in found[0]["hint"], found


def test_what_the_next_server_has_as_well_is_no_failure(triggered, tmp):
    """--check accepts a setting that the command line or SET PERSIST gives the restarted server."""
    keeper = triggered("--log-bin-trust-function-creators=1")
    keeper.server.sql("SET GLOBAL log_bin_trust_function_creators=0", "SET GLOBAL log_bin_trust_function_creators=1")
    assert [c["level"] for c in findings(keeper)] == ["ok"]
    if MYSQL:
        other = triggered()
        other.server.sql("SET PERSIST log_bin_trust_function_creators=1")
        assert [c["level"] for c in findings(other)] == ["ok"]
        other.server.sql("RESET PERSIST")


def test_the_daily_check_says_so(triggered, http):
    keeper = triggered("--log-bin-trust-function-creators=1")
    keeper.configure(http.settings())
    keeper.server.sql("SET GLOBAL binlog_format=ROW") if not MYSQL else None
    keeper.start()
    keeper.stop()
    assert [c["level"] for c in findings(keeper)] == ["ok"]


@pytest.mark.parametrize("name, bad, good", [("read_only", "1", "0"), ("enforce_storage_engine", "InnoDB", "NULL")])
@pytest.mark.only("mariadb", why="enforce_storage_engine; read_only with MySQL needs another privilege")
def test_what_a_file_brings_back(make_world, make_keeper, make_server, name, bad, good):
    """--check reports a harmful setting of the server's configuration that was only changed at run time."""
    server = make_server(f"--{name.replace('_', '-')}={bad}")
    server.sql(f"SET GLOBAL {name}={good}")
    keeper = make_keeper(make_world("small", server)).init()
    found = findings(keeper)
    assert [c["level"] for c in found] == ["fail"] and name in found[0]["text"] and bad in found[0]["text"], found


# -- a drill -----------------------------------------------------------------------------------------


@pytest.fixture
def full(subject):
    """Returns a keeper of a world with all kinds of objects."""
    return subject.keeper


def statements(server, account, do):
    """Returns the kinds of statements that an account sends during do()."""
    server.sql("SET GLOBAL log_output='TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log=1")
    do()
    server.sql("SET GLOBAL general_log=0", "SET GLOBAL log_output='FILE'")
    rows = server.sql("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type IN "
                      f"('Query','Prepare') AND user_host LIKE '%{account}%'")
    return {kind(text) for (text,) in rows} - {None}


def kind(text):
    """Returns the kind of a statement that changes something, such as CREATE TABLE LIKE, or None."""
    text = re.sub(r"/\*.*?\*/", " ", text.decode() if isinstance(text, bytes) else text, flags=re.S).strip()
    head = re.match(r"(CREATE TEMPORARY TABLE|CREATE (?:DEFINER=\S+ )?TRIGGER|CREATE TABLE|ALTER TABLE|RENAME TABLE|LOCK TABLES|"
                    r"UNLOCK TABLES|DROP TRIGGER|DROP TABLE|INSERT INTO|INSERT IGNORE|LOAD DATA|UPDATE|DELETE|TRUNCATE|REPLACE)",
                    text, re.I)
    if not head:
        lock = re.match(r"(SELECT|DO).*\b(GET_LOCK)\b", text, re.S)
        return lock and "GET_LOCK"
    what = re.sub(r"DEFINER=\S+ ", "", head[1].upper())
    if what == "CREATE TABLE":
        what += " LIKE" if re.match(r"CREATE TABLE \S+ LIKE ", text) else ""
    if what == "ALTER TABLE":
        what += " " + (re.search(r"AUTO_INCREMENT|RENAME|MODIFY|ALTER|DROP|ADD", text[11:]) or [""])[0]
    return what


def test_a_drill_sends_each_kind_of_statement_of_a_restore(subject):
    keeper, server = subject.keeper, subject.server
    game = server.admin(subject.world.schema)
    subject.play(game)
    game.close()
    keeper.dump()
    before = subject.world.snapshot()
    position = server.sql("SHOW MASTER STATUS")[0][:2]
    drilled = statements(server, USER, lambda: keeper.ok("--drill"))
    assert server.sql("SHOW MASTER STATUS")[0][:2] == position or not keeper_unlogged(keeper), "a drill is not logged"
    assert not [s for (s,) in server.sql("SHOW DATABASES") if "drill" in s]
    subject.world.assert_is(before)
    server.crash()
    restored = statements(server, USER, lambda: keeper.ok("--restore"))
    assert {"RENAME TABLE", "CREATE TRIGGER", "CREATE TABLE LIKE", "ALTER TABLE AUTO_INCREMENT", "LOCK TABLES",
            "GET_LOCK"} <= restored, restored
    assert restored - drilled == set(), drilled


def keeper_unlogged(keeper):
    """Returns whether the account may keep its statements out of the binary log."""
    grants = " ".join(g for (g,) in keeper.server.sql(f"SHOW GRANTS FOR {USER}@localhost"))
    return ("SESSION_VARIABLES_ADMIN" if MYSQL else "BINLOG ADMIN") in grants


def test_a_drill_fails_where_a_restore_would(triggered):
    """A drill fails with 1419 or 1227 if the account cannot create the triggers."""
    keeper = triggered("--log-bin-trust-function-creators=1")
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    keeper.dump()
    keeper.ok("--drill")
    keeper.server.sql("SET GLOBAL log_bin_trust_function_creators=0")
    done = keeper.run("--drill")
    assert done.rc == 1 and "a restore would fail" in done.err + done.out and "1419" in done.err + done.out, done
    keeper.server.sql("SET GLOBAL log_bin_trust_function_creators=1")
    for host in ("localhost", "127.0.0.1"):
        keeper.server.sql(f"REVOKE {'SET_ANY_DEFINER, SYSTEM_USER' if MYSQL else 'SET USER'} ON *.* FROM {USER}@{host}")
    done = keeper.run("--drill")
    assert done.rc == 1 and "a restore would fail" in done.err + done.out and "trigger counted" in done.err + done.out, done
    assert not [s for (s,) in keeper.server.sql("SHOW DATABASES") if "drill" in s]


def test_a_drill_that_lacks_privileges_says_nothing_of_restores(triggered):
    keeper = triggered("--log-bin-trust-function-creators=1")
    rights = ", ".join(r for r in RIGHTS.split(", ") if r not in ("TRIGGER", "LOCK TABLES"))
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1", rights)
    keeper.dump()
    said = keeper.ok("--drill", "--json")["warning"]
    assert "not tested" in said and "LOCK TABLES" in said and "GRANT" in said, said
    assert "LOCK TABLES" in [c for c in findings(keeper, "drill")][0]["text"]


# -- zero ids ----------------------------------------------------------------------------------------


def test_a_zero_id_beside_an_enum(make_world, make_keeper, make_server):
    """A row with ID 0 beside an ENUM column keeps its ID in a restore with binlog_format = STATEMENT, where LOAD DATA … SET
    would generate one."""
    server = make_server("--log-bin=log", "--binlog-format=STATEMENT")
    world = make_world("empty", server)
    world.sql("CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, e ENUM('a','b')) ENGINE=MEMORY",
              "INSERT INTO t VALUES (7,'a'),(0,'b'),(9,NULL)")
    keeper = make_keeper(world).init()
    keeper.dump()
    before = world.snapshot()
    server.crash()
    keeper.ok("--restore")
    world.assert_is(before)
