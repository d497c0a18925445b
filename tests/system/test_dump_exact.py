"""A dump contains exactly the rows that the world had."""
import glob
import gzip
import os
import re

import pytest
from wk.keeper import DONE, FAILED, REFUSED, USER
from wk.server import MYSQL, stock_restore, version
from wk.snapshot import assert_same
from wk.util import wait_for
from wk.watch import Game

pytestmark = pytest.mark.third_on_mysql

# Server settings that change what SQL text means; a dump must not depend on them.
HOSTILE = ["--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE,"
           "NO_ZERO_IN_DATE,PIPES_AS_CONCAT,IGNORE_SPACE,PAD_CHAR_TO_FULL_LENGTH",
           "--default-time-zone=+05:30", "--character-set-server=latin1",
           "--collation-server=latin1_general_cs", "--explicit-defaults-for-timestamp=OFF",
           "--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
METHODS = pytest.mark.parametrize("method", ["copy", "lock"])
DURABLE = ["InnoDB", "MyISAM"] if MYSQL else ["InnoDB", "MyISAM", "Aria"]
ENGINES = pytest.mark.parametrize("engines", ["memory", "all"])


def durable(key):
    return key.split(" ", 1)[1].startswith(("d_", "a_child"))


def zoo_keeper(make_world, make_keeper, on=None, kind="all", **dump):
    world = make_world(kind, on=on)
    keeper = make_keeper(world, {"dump": dump}).init()
    world.server.sql("GRANT SELECT ON mysql.proc TO keeper@localhost",  # to read routines
                     "GRANT SET USER ON *.* TO keeper@localhost")  # to move root's triggers
    return keeper


def expected(world, engines):
    picture = world.snapshot()
    if engines == "memory":
        return {k: v for k, v in picture.items() if not durable(k)}
    return picture


def without_comments(picture):
    """Removes the comments of routines, which the stock client does not send; worldkeeper itself keeps them."""
    return {k: re.sub(r" -- ends; here$", "", v) if k.startswith("function") else v
            for k, v in picture.items()}


@pytest.mark.quick
@METHODS
@ENGINES
def test_stock_client_restores_on_an_empty_schema(make_world, make_keeper, method, engines):
    """Loading a dump with the stock client into an empty schema restores every byte and definition of the zoo."""
    keeper = zoo_keeper(make_world, make_keeper, method=method, engines=engines)
    before = expected(keeper.world, engines)
    dump = keeper.dump()
    empty = make_world("empty")
    stock_restore(empty.server, dump["path"], empty.schema)
    assert_same(without_comments(before), empty.snapshot(), "restored by the stock client")


def test_events_in_the_zone_of_their_maker(make_server, make_world, make_keeper):
    """An event is restored in the time zone of the session that created it."""
    server = make_server("--default-time-zone=+03:00", "--event-scheduler=ON")
    world = make_world(on=server)
    keeper = make_keeper(world).init()
    mine = "CREATE DEFINER=keeper@localhost EVENT "
    world.sql("SET time_zone=SYSTEM", mine + "daily ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 03:00:00' DO DO 1",
              "SET time_zone='-05:30'", mine + "once ON SCHEDULE AT '2037-01-01 03:00:00' DO DO 1")
    told = ("SELECT event_name, time_zone, CAST(starts AS CHAR), CAST(execute_at AS CHAR) FROM "
            "information_schema.events WHERE event_schema=DATABASE() ORDER BY 1")
    before = world.sql(told)
    assert [row[1] for row in before] == ["SYSTEM", "-05:30"]
    empty = make_world("empty", on=server)
    stock_restore(server, keeper.dump()["path"], empty.schema)
    assert empty.sql(told) == before
    world.sql("DROP EVENT daily", "DROP EVENT once", *(f"DROP TABLE {t}" for t, in world.sql("SHOW TABLES")))
    result = keeper.ok("--restore", "--json")
    assert result["warning"].startswith("events are disabled: "), result
    server.sql(*filter(None, (s.strip() for s in result["definitions"]["enable"].split(";"))))
    assert world.sql(told) == before


@pytest.mark.only("mariadb", why="packages of routines")
def test_packages_of_routines(make_world, make_keeper):
    """Packages of sql_mode ORACLE (specification and body) are restored by the stock client and by worldkeeper, and --check
    counts them."""
    world = make_world()
    keeper = make_keeper(world).init()
    world.server.sql("GRANT SELECT ON mysql.proc TO keeper@localhost", "GRANT SET USER ON *.* TO keeper@localhost")
    world.sql("SET sql_mode=ORACLE", "CREATE PACKAGE pk AS FUNCTION f RETURN INT; END",
              "CREATE PACKAGE BODY pk AS FUNCTION f RETURN INT AS `x;;` INT := 7; BEGIN RETURN `x;;`; END; END")
    called = "SET sql_mode=ORACLE", "SELECT pk.f()"
    assert world.sql(*called) == ((7,),)
    assert "2 views, triggers, events, functions and procedures are in dumps" in keeper.run("--check").out
    path = keeper.dump()["path"]
    empty = make_world("empty")
    stock_restore(empty.server, path, empty.schema)
    assert empty.sql(*called) == ((7,),)
    world.server.grant("keeper@localhost", world.schema, "CREATE ROUTINE, ALTER ROUTINE, EXECUTE")
    world.sql("SET sql_mode=ORACLE", "DROP PACKAGE pk", *(f"DROP TABLE {t}" for t, in world.sql("SHOW TABLES")))
    result = keeper.ok("--restore", "--json")
    assert result["warning"] == ("created with worldkeeper's own account as definer: package pk (root@localhost), "
                                 "package body pk (root@localhost)"), result
    assert world.sql(*called) == ((7,),)


def test_timestamps_without_a_default(make_server, make_world, make_keeper):
    """TIMESTAMP columns without a default are restored without one on a server with explicit_defaults_for_timestamp=OFF, by
    worldkeeper and, where the server allows it, by the stock client."""
    servers = [make_server(f"--explicit-defaults-for-timestamp={on}") for on in ("ON", "OFF")]
    world = make_world(on=servers[0], schema="stamps")
    keeper = make_keeper(world).init()
    world.sql("CREATE TABLE stamp (id INT PRIMARY KEY, t TIMESTAMP NOT NULL, u TIMESTAMP NULL) ENGINE=MEMORY",
              "INSERT INTO stamp VALUES (1,'2020-01-01',NULL)")
    before = world.snapshot()
    path = keeper.dump()["path"]
    there = make_world("empty", on=servers[1], schema="stamps")
    moved = make_keeper(there, where=keeper.base)
    if MYSQL:
        servers[1].sql("GRANT SESSION_VARIABLES_ADMIN ON *.* TO keeper@localhost")
    moved.ok("--restore")
    there.assert_is(before)
    if not MYSQL and version() < (10, 8, 4):
        return  # there the setting is global, so that a dump cannot set it
    empty = make_world("empty", on=servers[1])
    stock_restore(servers[1], path, empty.schema)
    assert_same(before, empty.snapshot(), "restored by the stock client")


@pytest.mark.parametrize("insert", ["INSERT_METHOD=LAST", ""])
def test_tables_whose_rows_are_those_of_others(make_world, make_keeper, victim, insert):
    """A MERGE table is restored as a definition only, because its rows are those of the tables that it merges."""
    world = make_world(on=victim)
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}}).init()
    victim.grant("keeper@localhost", world.schema, "DELETE")  # MERGE asks for all that its tables allow
    world.sql("CREATE TABLE a (n INT) ENGINE=MyISAM", "CREATE TABLE b (n INT) ENGINE=MyISAM",
              "INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2)",
              f"CREATE TABLE both_of_them (n INT) ENGINE=MERGE UNION=(a,b) {insert}")
    before = world.snapshot()
    path = keeper.dump()["path"]
    empty = make_world("empty", on=victim)
    stock_restore(victim, path, empty.schema)
    assert_same(before, empty.snapshot(), "restored by the stock client")
    keeper.ok("--restore", "--force")
    world.assert_is(before)


def test_what_stands_on_tables_that_are_not_in_the_dump(make_world, make_keeper):
    """Triggers of a durable table are not in a dump of the other tables, so that the dump can be loaded without that
    table. The view that reads the durable table fails, and with --force the client continues."""
    world = make_world()
    world.sql("CREATE TABLE account (id INT PRIMARY KEY) ENGINE=InnoDB",
              "CREATE TRIGGER counted AFTER INSERT ON account FOR EACH ROW SET @accounts=@accounts+1",
              "CREATE TRIGGER heard AFTER INSERT ON chat FOR EACH ROW SET @heard=1")
    keeper = make_keeper(world).init()
    before = {k: v for k, v in world.snapshot().items() if "account" not in k and "counted" not in k}
    empty = make_world("empty")
    stock_restore(empty.server, keeper.dump()["path"], empty.schema)
    assert_same(before, empty.snapshot(), "restored by the stock client")
    third = make_world("empty")
    third.server.grant("keeper@localhost", third.schema)
    third.server.sql("GRANT SET USER ON *.* TO keeper@localhost")
    assert "not restored" not in str(keeper.ok("--restore", "--into", third.schema, "--json"))
    world.sql("CREATE VIEW accounts AS SELECT id FROM account", "CREATE VIEW said AS SELECT * FROM chat")
    before = {k: v for k, v in world.snapshot().items() if "account" not in k and "counted" not in k}
    other = make_world("empty")
    stock_restore(other.server, keeper.dump()["path"], other.schema, "--force")
    assert_same(before, other.snapshot(), "restored by the stock client")


@METHODS
def test_stock_client_restores_over_an_existing_schema(make_world, make_keeper, method):
    """The stock client also restores a dump over a schema whose tables were changed, emptied or dropped meanwhile."""
    keeper = zoo_keeper(make_world, make_keeper, method=method, engines="all")
    before = keeper.world.snapshot()
    dump = keeper.dump()
    keeper.world.sql("DELETE FROM z_int", "INSERT INTO z_no_key VALUES (7,'new')",
                     "DROP TABLE z_bit", "DROP TRIGGER z_after", "DROP VIEW z_view",
                     "ALTER TABLE z_keys ADD COLUMN more INT", "UPDATE d_inno SET n=1",
                     "DROP FUNCTION z_function")
    stock_restore(keeper.server, dump["path"], keeper.world.schema)
    keeper.world.assert_is(without_comments(before), "restored by the stock client")


@pytest.mark.each_server
@METHODS
def test_worldkeeper_restores_the_zoo(make_world, make_keeper, victim, method):
    """After a crash worldkeeper restores every row, counter, trigger and view of the zoo."""
    keeper = zoo_keeper(make_world, make_keeper, on=victim, method=method)
    before = keeper.world.snapshot()
    keeper.dump()
    victim.crash()
    keeper.ok("--restore")
    keeper.world.assert_is(before, "restored by worldkeeper")
    assert keeper.world.sql("SELECT v FROM z_trigger ORDER BY id") == (("as written",), (None,))
    assert keeper.world.value("SELECT COUNT(*) FROM z_view") == 50


@METHODS
def test_worldkeeper_restores_durable_tables_when_asked(make_world, make_keeper, method):
    """scope = all also restores InnoDB, Aria and MyISAM tables, with BLOBs and generated columns."""
    keeper = zoo_keeper(make_world, make_keeper, method=method, engines="all")
    keeper.configure({"restore": {"scope": "all"}})
    keeper.world.sql("SET foreign_key_checks=0", "DROP TABLE a_child, d_parent")
    before = keeper.world.snapshot()
    keeper.dump()
    keeper.world.sql("DELETE FROM d_aria", "UPDATE d_inno SET b='x'", "DELETE FROM d_myisam")
    keeper.ok("--restore", "--force")
    keeper.world.assert_is(before, "restored with scope = all")


def test_durable_tables_where_changes_are_logged(make_server, make_world, make_keeper):
    """With GTIDs, MySQL forbids one statement on both kinds of tables. A restore with scope = all works there, and rows that the
    game wrote meanwhile are saved from both."""
    server = make_server("--log-bin=log")
    world = make_world("small", on=server)
    world.sql("CREATE TABLE book (id INT PRIMARY KEY, t VARCHAR(99)) ENGINE=InnoDB", "INSERT INTO book VALUES (1,'x')")
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}}).init()
    server.sql("SET GLOBAL binlog_format=ROW")
    checked = keeper.run("--check").out
    assert "not used in restores" in checked and "scope = lost; --restore --into SCHEMA" in checked, checked
    assert "brings back all acknowledged changes" not in checked
    before = world.snapshot()
    keeper.dump()
    server.crash()
    world.sql("INSERT INTO book VALUES (2,'later')", "INSERT INTO chat VALUES (1,'meanwhile')")
    keeper.ok("--restore")
    world.assert_is(before)
    (file,) = keeper.conflicts()
    with gzip.open(file, "rt") as f:
        saved = f.read()
    assert "later" in saved and "meanwhile" in saved
    world.sql("DELETE FROM book")
    keeper.ok("--restore=" + keeper.newest()["name"], "--force")
    world.assert_is(before)
    server.sql("GRANT SET USER ON *.* TO keeper@localhost", "SET GLOBAL log_bin_trust_function_creators=ON")
    world.sql("CREATE TRIGGER told AFTER DELETE ON chat FOR EACH ROW INSERT INTO book VALUES (OLD.who,'')")
    before = world.snapshot()
    keeper.dump()
    world.sql("DELETE FROM book")
    keeper.ok("--restore=" + keeper.newest()["name"], "--force")
    world.assert_is(before)


# FLOAT(M,D) and DOUBLE(M,D) with values that no literal writes: the server keeps as it is what an ALTER
# TABLE, and in MySQL what another column, brings there, and rounds to D digits what is given to it.
DIGITS = [
    "CREATE TABLE fine (id INT AUTO_INCREMENT PRIMARY KEY, f FLOAT NOT NULL DEFAULT 1.5, d DOUBLE UNSIGNED "
    "DEFAULT NULL COMMENT 'it''s (7,3), `and` more', `na``me\n  d` DOUBLE, e FLOAT, p FLOAT, q DOUBLE, "
    "KEY (f) USING BTREE, UNIQUE KEY (d)) ENGINE=MEMORY",
    "INSERT INTO fine VALUES (0,1.23456789,1.23456789,-0e0,NULL,1/3,1e300),(2,16777215,1.23456788,5e-324,"
    "1e-30,-1e-7,-1/3),(3,-1e-7,1e300,-1e300,3e38,0.1,2/3),(40,0.1,NULL,NULL,0.1,1.5,1e15/7)",
    "ALTER TABLE fine MODIFY f FLOAT(7,3) NOT NULL DEFAULT 1.5, MODIFY d DOUBLE(20,5) UNSIGNED ZEROFILL "
    "COMMENT 'it''s (7,3), `and` more', MODIFY `na``me\n  d` DOUBLE(9,0), MODIFY e FLOAT(10,2) INVISIBLE",
    "INSERT INTO fine (id,f,d,`na``me\n  d`,e,p,q) SELECT id+4,q*0,NULL,q/1e290,p,p,q FROM fine WHERE id<40 "
    "AND ABS(q)<1e9", "DELETE FROM fine WHERE id=40",
    "CREATE TABLE `fi``ner` (v FLOAT PRIMARY KEY, k INT) ENGINE=MEMORY",
    "INSERT INTO `fi``ner` VALUES (1.0001,1),(1.0002,2),(1,3)", "ALTER TABLE `fi``ner` MODIFY v FLOAT(4,1)",
]


@pytest.mark.each_server
@pytest.mark.parametrize("engine", ["MEMORY", *DURABLE])
@pytest.mark.parametrize("way", ["restore", "into", "stock", "other columns", "made anew"])
def test_more_digits_than_a_column_shows(make_world, make_keeper, way, engine):
    """Columns that round what is written to them are restored to the last bit."""
    world = make_world("empty")
    settings = {"dump": {"engines": "all"}, "restore": {"scope": "all"}} if engine != "MEMORY" else {}
    keeper = make_keeper(world, settings).init()
    world.sql(*(s.replace("ENGINE=MEMORY", "ENGINE=" + engine) for s in DIGITS))
    before = world.snapshot()
    assert "1.23456789" in str(world.sql("SELECT CAST(d AS DOUBLE) FROM fine WHERE id=0"))
    dump = keeper.dump()
    if way in ("into", "stock"):
        other = make_world("empty")
        other.server.grant("keeper@localhost", other.schema)
        if way == "into":
            keeper.ok("--restore", "--into", other.schema)
        else:
            stock_restore(other.server, dump["path"], other.schema)
        assert_same(before, other.snapshot(), way)
        return
    if way == "made anew":
        world.sql("DROP TABLE fine, `fi``ner`")
    if way == "other columns":
        rows = "SELECT id, CAST(f AS DOUBLE), CAST(d AS DOUBLE), CAST(e AS DOUBLE), q FROM fine ORDER BY id"
        were = world.sql(rows)
        world.sql("DELETE FROM fine", "ALTER TABLE fine ADD more INT DEFAULT 7 FIRST, DROP KEY f")
        keeper.ok("--restore", "--force")
        assert world.sql(rows) == were
        return
    keeper.ok("--restore", "--force")
    world.assert_is(before)


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_digits_beside_generated_columns(make_world, make_keeper, kind):
    """Columns that are generated from such a column are restored correctly, and rounded if their type rounds."""
    world = make_world("empty")
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}}).init()
    world.sql(f"CREATE TABLE fine (v DOUBLE, k INT PRIMARY KEY, twice DOUBLE AS (v*2) {kind}, rough DOUBLE(6,1) AS "
              f"(v*2) {kind}, other INT AS (k+1) {kind}) ENGINE=InnoDB",
              "INSERT INTO fine (v,k) VALUES (1.0001,1),(1.2345,2)", "ALTER TABLE fine MODIFY v DOUBLE(6,1)")
    rows = "SELECT CAST(v AS DOUBLE), CAST(twice AS DOUBLE), CAST(rough AS DOUBLE), other FROM fine ORDER BY k"
    before, were = world.snapshot(), world.sql(rows)
    assert were == ((1.0001, 2.0002, 2.0, 2), (1.2345, 2.469, 2.5, 3))
    dump = keeper.dump()
    keeper.ok("--restore", "--force")
    world.assert_is(before)
    assert world.sql(rows) == were
    other = make_world("empty")
    stock_restore(other.server, dump["path"], other.schema)
    assert other.sql(rows) == were


@pytest.mark.only("mariadb", why="system versioning")
def test_digits_of_versioned_tables(make_world, make_keeper):
    """Versioned tables accept no ALTER once they have rows; they are restored with the values that the server prints."""
    world = make_world("empty")
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}}).init()
    world.sql("CREATE TABLE fine (v DOUBLE(6,1), k INT PRIMARY KEY) ENGINE=InnoDB WITH SYSTEM VERSIONING",
              "INSERT INTO fine VALUES (1.1,1),(1.2,2)", "UPDATE fine SET v=4 WHERE k=2")
    before = world.snapshot()
    keeper.dump()
    keeper.ok("--restore", "--force")
    world.assert_is(before)


@pytest.mark.only("mariadb", why="system versioning")
def test_versioned_memory_tables_are_named(make_world, make_keeper):
    """The server counts the history of a versioned MEMORY table as rows, so that a dump fails; --check names the table and the
    ALTER."""
    world = make_world("empty")
    keeper = make_keeper(world).init()
    world.sql("CREATE TABLE past (v INT, k INT PRIMARY KEY) ENGINE=MEMORY WITH SYSTEM VERSIONING",
              "INSERT INTO past (v,k) VALUES (1,1),(1,2)", "UPDATE past SET v=2")
    done = keeper.run("--dump")
    assert done.rc == FAILED and "table past" in done.err and "--check lists the tables that cannot be dumped" in done.err, done
    checked = keeper.run("--check")
    assert checked.rc == FAILED and "system versioning" in checked.out and "`past`" in checked.out, checked
    assert "ALTER TABLE … DROP SYSTEM VERSIONING" in checked.out
    world.sql("ALTER TABLE past DROP SYSTEM VERSIONING")
    keeper.dump()
    assert "system versioning" not in keeper.run("--check").out


def test_foreign_keys_are_restored_or_refused_by_name(make_world, make_keeper):
    """With scope = all, tables that refer to each other are restored completely, or nothing is changed and the error and --check
    name the table."""
    keeper = zoo_keeper(make_world, make_keeper, engines="all")
    keeper.configure({"restore": {"scope": "all"}})
    before = keeper.world.snapshot()
    keeper.dump()
    keeper.world.sql("UPDATE d_parent SET best=NULL")
    present = keeper.world.snapshot()
    check = keeper.run("--check")
    done = keeper.run("--restore", "--force")
    if done.rc == DONE:
        keeper.world.assert_is(before)
    else:
        assert "a_child" in done.err and "foreign key" in done.err, done
        assert "a_child" in check.out + check.err, check
        keeper.world.assert_is(present)


def test_durable_tables_are_left_alone_by_default(make_world, make_keeper, victim):
    """By default a restore after a loss changes no durable table, although the dump contains them."""
    keeper = zoo_keeper(make_world, make_keeper, on=victim, engines="all")
    keeper.dump()
    keeper.world.sql("UPDATE d_inno SET n=4711")
    before = keeper.world.snapshot()
    victim.crash()
    keeper.ok("--restore")
    keeper.world.assert_is(before)


def test_server_modes_do_not_matter(make_world, make_keeper, make_server):
    """Dump and restore are exact with ANSI_QUOTES, NO_BACKSLASH_ESCAPES, strict dates, another time zone and another character
    set."""
    server = make_server(*HOSTILE)
    keeper = zoo_keeper(make_world, make_keeper, on=server, kind="zoo")
    before = keeper.world.snapshot()
    dump = keeper.dump()
    empty = make_world("empty", on=server)
    stock_restore(server, dump["path"], empty.schema)
    assert_same(without_comments(before), empty.snapshot(), "by the stock client")
    server.crash()
    keeper.ok("--restore")
    keeper.world.assert_is(before, "by worldkeeper")


def test_small_packets(make_world, make_keeper, victim):
    """A world is restored on a server whose max_allowed_packet was lowered."""
    keeper = make_keeper(make_world(on=victim)).init()
    before = keeper.world.snapshot()
    keeper.dump()
    victim.crash("--max-allowed-packet=16384", "--net-buffer-length=8192")
    try:
        keeper.ok("--restore")
        keeper.world.assert_is(before)
    finally:
        victim.crash()


@METHODS
def test_a_dump_is_one_moment(make_world, make_keeper, method):
    """While a game inserts the same number into two tables in turn, a dump's row counts differ by at most the one row that is
    between the two statements."""
    world = make_world("empty")
    world.sql("CREATE TABLE a_first (n INT PRIMARY KEY) ENGINE=MEMORY",
              "CREATE TABLE z_last (n INT PRIMARY KEY) ENGINE=MEMORY",
              "CREATE TABLE ballast ENGINE=MEMORY SELECT seq n FROM seq_1_to_60000")
    keeper = make_keeper(world, {"dump": {"method": method}}).init()
    with Game(world, "INSERT INTO a_first VALUES ({n})", "INSERT INTO z_last VALUES ({n})",
              pause=0) as game:
        for _ in range(3):
            rounds = game.rounds
            wait_for(lambda: game.rounds > rounds + 20, "the game to play")
            dump = keeper.dump()
            copy = make_world("empty")
            stock_restore(copy.server, dump["path"], copy.schema)
            assert copy.rows("a_first") - copy.rows("z_last") in (0, 1)
            assert copy.rows("a_first") > 0
    assert dump["method"] == method


def test_names_and_schema_need_no_care(make_world, make_keeper, server):
    """A schema with special characters in its name can be dumped and restored."""
    world = make_world("small", schema="we`ird $ch\"ema'% é")
    keeper = make_keeper(world).init()
    before = world.snapshot()
    keeper.dump()
    world.sql("DELETE FROM player")
    keeper.ok("--restore", "--force")
    world.assert_is(before)


@pytest.mark.only("mariadb", why="partitions and histories of MEMORY tables")
@pytest.mark.parametrize("odd", [
    "CREATE TABLE odd (id INT PRIMARY KEY, v INT) ENGINE=MEMORY PARTITION BY HASH(id) PARTITIONS 3",
    "CREATE TABLE odd (id INT PRIMARY KEY, v INT) ENGINE=MEMORY WITH SYSTEM VERSIONING",
], ids=["partitioned", "versioned"])
def test_odd_tables_work_or_are_refused_by_name(make_world, make_keeper, victim, odd):
    """A table that cannot be handled is named by --check; otherwise it is dumped and restored."""
    world = make_world(on=victim)
    world.sql(odd, "INSERT INTO odd VALUES (1,1),(2,2)")
    keeper = make_keeper(world).init()
    before = world.snapshot()
    check = keeper.run("--check", "--json")
    if check.rc != DONE:
        assert any("odd" in c["text"] for c in check.json["result"]["checks"]
                   if c["level"] == "fail"), check
        return
    keeper.dump()
    victim.crash()
    keeper.ok("--restore")
    world.assert_is(before)


def test_without_a_right_the_definition_is_missing_not_wrong(make_world, make_keeper):
    """Routines that the account may not read are not in the dump; everything else is."""
    world = make_world("zoo")
    keeper = make_keeper(world).init()
    dump = keeper.dump()
    empty = make_world("empty")
    stock_restore(empty.server, dump["path"], empty.schema)
    restored = empty.snapshot()
    assert not [k for k in restored if k.startswith(("procedure", "function"))]
    before = {k: v for k, v in world.snapshot().items() if k in restored}
    assert_same(before, restored, "everything else")


def test_nothing_temporary_stays_on_the_server(keeper):
    """A dump leaves no table, no connection and no temporary file."""
    before = keeper.world.snapshot()
    tables = keeper.world.sql("SHOW TABLES")
    for method in ("copy", "lock"):
        keeper.configure({"dump": {"method": method}})
        keeper.dump()
    keeper.world.assert_is(before)
    assert keeper.world.sql("SHOW TABLES") == tables
    wait_for(lambda: not keeper.server.sessions(user=USER), "its sessions to end")
    assert not glob.glob(os.path.join(keeper.dumps_dir, "*.part"))


@pytest.mark.only("mariadb", why="MySQL keeps definitions in a dictionary")
def test_a_table_that_cannot_be_opened_now(make_world, make_keeper, victim):
    """A table that cannot be opened is in no list of MEMORY tables. A dump without it fails unless --force is given, and a
    restore names the table."""
    keeper = make_keeper(make_world(on=victim)).init()
    whole, before = keeper.dump()["name"], keeper.world.snapshot()
    path = os.path.join(victim.datadir, keeper.world.schema, "chat.frm")
    os.truncate(path, 100)
    keeper.world.sql("FLUSH TABLES")
    done = keeper.run("--dump")
    assert done.rc == FAILED and "cannot open table chat" in done.err and whole in done.err, done
    assert keeper.newest()["name"] == whole
    keeper.ok("--dump", "--force")
    assert "chat" not in [t["name"] for t in keeper.newest()["tables"]]
    done = keeper.run("--restore=" + whole, "--force")
    assert done.rc == REFUSED and "cannot open table chat" in done.err, done
    keeper.world.sql(done.err.split("its rows are lost: ")[1].strip().rstrip(";"))
    keeper.ok("--restore=" + whole, "--force")
    keeper.world.assert_is(before)
