"""What a server writes into its log, and its consequences: the journal ends only for a statement that changes rows or columns of
a table in a way that row events do not show."""
import contextlib
import itertools
import os
import re
import threading

import pymysql
import pytest
from wk.binlog import MIXED
from wk.crash import go_on, wait_stopped
from wk.follow import LOG, all_comes_back, another_server, clock, crash, dump_and_follow, following, journal, restored
from wk.keeper import USER
from wk.progress import RIGHTS, Central, made
from wk.server import MYSQL
from wk.util import ident

# -- many tables in one statement --------------------------------------------------------------


def locked(world, names, *statements):
    """Locks all these tables in one session, as a game does for each tick, and runs the statements."""
    world.sql("LOCK TABLES " + ",".join(f"{n} WRITE" for n in names), *statements, "UNLOCK TABLES")


def many_tables(make_followed, count):
    names = [f"many_{n}" for n in range(count)]
    keeper = make_followed(tables=[f"CREATE TABLE {n} (id INT PRIMARY KEY, v INT) ENGINE=MEMORY" for n in names])
    dump_and_follow(keeper)
    return keeper, names


def test_more_tables_locked_than_fit_in_a_page(make_followed):
    """A statement of a session that locked 150 tables, all of which MariaDB names in the log, does not end the journal."""
    keeper, names = many_tables(make_followed, 150)
    locked(keeper.world, names, *(f"INSERT INTO {n} VALUES (1,7)" for n in names[::10]),
           f"UPDATE {names[0]} SET v=8")
    keeper.segments.wait_all()
    assert len(keeper.dumps()) == 1 and "cannot continue" not in keeper.log()
    all_comes_back(keeper)


@pytest.mark.slow
@pytest.mark.any_server  # MariaDB names each table in the log
def test_a_thousand_tables_locked(make_followed):
    """A session that locked 1000 tables is followed without a gap, and its rows are in the segments."""
    keeper, names = many_tables(make_followed, 1000)
    locked(keeper.world, names, *(f"INSERT INTO {n} VALUES (1,7)" for n in names[::250]), f"UPDATE {names[-1]} SET v=8")
    locked(keeper.world, names, f"UPDATE {names[0]} SET v=9")
    keeper.segments.wait_all()
    assert not following(keeper)["gap"] and len(keeper.dumps()) == 1, journal(keeper)
    rows = [line for line in keeper.segments.lines() if "(1,7)" in line]
    assert "cannot continue" not in keeper.log() and len(rows) >= 4, rows

# -- transactions that also change durable tables ----------------------------------------------

TOGETHER = {
    "one after the other": ["UPDATE bank SET v=v+1 WHERE id={n}", "UPDATE mem SET v=v+1 WHERE id={n}"],
    "in one statement": ["UPDATE bank b JOIN mem m ON b.id=m.id SET b.v=b.v+1, m.v=m.v+1 WHERE m.id={n}"],
    "by a function": ["UPDATE bank SET v=moved(id) WHERE id={n}"],
    "by a trigger": ["UPDATE traced SET v=v+1 WHERE id={n}"],
    "by a query": ["INSERT INTO bank VALUES ({n}+100,5)", "REPLACE INTO mem SELECT id-100,v FROM bank WHERE id={n}+100"],
    "after a savepoint": ["UPDATE bank SET v=v+1 WHERE id={n}", "SAVEPOINT s", "UPDATE mem SET v=v+1 WHERE id={n}", "ROLLBACK TO s"],
}
ENDS = [("BEGIN", "COMMIT"), ("BEGIN", "ROLLBACK"), ("XA START 'x'", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
        ("XA START 'x'", "XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'")]


def test_transactions_with_durable_tables_beside_another_session(make_followed):
    """A transaction changes a durable table and a row of the world, in each of these ways. Before its end another session changes the
    same row. However the transaction ends, the row is restored as it was."""
    cases = [(statements, ends) for statements in TOGETHER.values() for ends in ENDS]
    numbers = ",".join(f"({n},0)" for n in range(len(cases)))
    keeper = make_followed("empty", tables=[
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) ENGINE={engine}"
          for name, engine in {"mem": "MEMORY", "bank": "InnoDB", "traced": "InnoDB"}.items()),
        *(f"INSERT INTO {name} VALUES {numbers}" for name in ("mem", "bank", "traced")),
        "CREATE DEFINER=root@localhost FUNCTION moved(n INT) RETURNS INT MODIFIES SQL DATA "
        "BEGIN UPDATE mem SET v=v+1 WHERE id=n; RETURN 1; END",
        "CREATE DEFINER=keeper@localhost TRIGGER trace BEFORE UPDATE ON traced FOR EACH ROW UPDATE mem SET v=v+1 WHERE id=NEW.id",
    ], options=MIXED)
    dump_and_follow(keeper)
    world = keeper.world
    one, other = (keeper.server.admin(world.schema, autocommit=True) for _ in range(2))
    for n, (statements, ends) in enumerate(cases):
        begin, *between, end = ends
        for sql in (begin, *statements, *between):
            one.query(sql.format(n=n))
        other.query(f"UPDATE mem SET v=v+10 WHERE id={n}")
        one.query(end)
    one.close()
    other.close()
    before = world.snapshot()
    assert {v for _, v in world.sql("SELECT * FROM mem")} == {11, 15}
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost"] == "nothing lost" and told["journal"]["changes"] == 2 * len(cases), told


# -- transactions that change tables whose changes can be rolled back ---------------------------

PUT = "CALL wk_put('p1/bag','p1',_binary 'undone')"
NEW = "CALL wk_put('p1/new','p1',_binary 'undone')"
XA = ["XA START 'x'", PUT, NEW, "XA END 'x'", "XA PREPARE 'x'"]
ONCE_MORE = "UPDATE mark SET v=v+1"
UNDONE = {
    "prepared": [*XA, "XA ROLLBACK 'x'"],
    **({} if MYSQL else {
        "with a temporary table": ["BEGIN", PUT, NEW, "CREATE TEMPORARY TABLE t (a INT)", "ROLLBACK", "DROP TEMPORARY TABLE t"],
        "after a savepoint": ["BEGIN", "UPDATE other SET a=a+1", "SAVEPOINT s", PUT, NEW, ONCE_MORE, "ROLLBACK TO s", "COMMIT"],
        "between savepoints": ["BEGIN", "UPDATE other SET a=a+1", "SAVEPOINT s", PUT, ONCE_MORE, "SAVEPOINT t", NEW, "ROLLBACK TO S",
                               "COMMIT"]}),
}
# A function's savepoint has the same name, so it is not certain which one the last statement means.
SAME_NAME = ["BEGIN", "UPDATE other SET a=a+1", "SAVEPOINT s", PUT, "SAVEPOINT s", NEW, ONCE_MORE, "ROLLBACK TO s", "COMMIT"]


@pytest.fixture
def carried(make_followed, server):
    """Returns carried(mode) -> the store of players' progress in InnoDB tables of a world with this journal, with one save."""
    def make(mode="follow"):
        keeper = make_followed(tables=["CREATE TABLE other (id INT PRIMARY KEY, a INT) ENGINE=InnoDB",
                                       "INSERT INTO other VALUES (1,1)"], settings={"journal": {"mode": mode}})
        store = made(keeper, Central(server), engine="innodb")
        store.open("p1")
        store.put("p1/bag", "p1", b"good")
        return store
    return make


def in_session(keeper, *statements):
    """Runs the statements in one session, each in its own transaction unless they begin one."""
    one = keeper.server.admin(keeper.world.schema, autocommit=True)
    for sql in statements:
        one.query(sql)
    one.close()


def test_a_store_that_is_rebuilt(carried):
    """ALTER TABLE ... ENGINE=InnoDB of the tables of players' progress, which stay on this server, is no loss."""
    keeper = carried("server").keeper
    keeper.dump()
    in_session(keeper, "ALTER TABLE wk_progress ENGINE=InnoDB")
    keeper.world.mark(9)
    keeper.server.crash()
    assert keeper.ok("--restore", "--json")["lost"] == "nothing lost"


def saves(keeper, schema=None):
    return keeper.server.sql("SELECT blob_key,seq,`blob` FROM wk_progress ORDER BY 1", schema=schema or keeper.world.schema)


def lose_disk_with_store(keeper):
    """Loses the server's disk and returns what was reported of the restore on the new server."""
    before = keeper.status().get("last_restore")
    another_server(keeper)
    keeper.server.grant(USER + "@localhost", keeper.world.schema, RIGHTS)
    return restored(keeper, before)


@pytest.mark.each_server
@pytest.mark.parametrize("mode", ["follow", "server"])
@pytest.mark.parametrize("case", UNDONE)
def test_saves_that_were_rolled_back(carried, case, mode):
    """Changes of InnoDB tables that were rolled back are not restored, from segments and from the log, however often that
    happens. Changes of MEMORY tables in the same transactions are."""
    store = carried(mode)
    keeper = store.keeper
    dump_and_follow(keeper)
    for _ in range(25):  # more often than a replay would read again
        in_session(keeper, *UNDONE[case])
    store.put("p1/new", "p1", b"good")
    keeper.world.mark(9)
    if mode == "server":
        beside = keeper.world.schema + "_x"
        keeper.server.grant(USER + "@localhost", beside)
        keeper.ok("--restore", "--at", clock(keeper.server), "--into", beside)
        assert saves(keeper, beside) == saves(keeper)
        assert keeper.server.sql("SELECT * FROM mark", schema=beside) == keeper.world.sql("SELECT * FROM mark")
        return
    keeper.segments.wait_all()
    was = saves(keeper)
    assert len(keeper.dumps()) == 1, keeper.log()
    told = lose_disk_with_store(keeper)
    assert (saves(keeper), keeper.world.marked()) == (was, 9) and "table" not in told["journal"]["gap"], told


@pytest.mark.each_server
@pytest.mark.parametrize("case", ["prepared", *([] if MYSQL else ["same name"])])
def test_saves_of_an_uncertain_end(carried, case):
    """An XA COMMIT does not show what it changes, and a savepoint's name may be used twice. A dump follows at once."""
    store = carried()
    keeper = store.keeper
    dump_and_follow(keeper)
    in_session(keeper, *(SAME_NAME if case == "same name" else [*XA, "XA COMMIT 'x'"]))
    keeper.wait(lambda: len(keeper.dumps()) == 2, "the dump at once")
    following(keeper)
    assert "table wk_progress: it is not certain" in keeper.log() or "table wk_progress: an XA" in keeper.log()
    store.put("p1/new", "p1", b"good")
    keeper.segments.wait_all()
    was = saves(keeper)
    told = lose_disk_with_store(keeper)
    assert saves(keeper) == was and "table" not in told["journal"]["gap"], told


@pytest.mark.each_server
def test_prepared_transactions_without_saves(carried):
    """An XA transaction that changes only MEMORY tables is no gap, although the world also has InnoDB tables."""
    keeper = carried().keeper
    dump_and_follow(keeper)
    for end in ("COMMIT", "ROLLBACK"):
        in_session(keeper, "XA START 'x'", ONCE_MORE, "XA END 'x'", "XA PREPARE 'x'", f"XA {end} 'x'")
    keeper.segments.wait_all()
    was = keeper.world.marked()
    assert not following(keeper)["gap"] and len(keeper.dumps()) == 1, keeper.log()
    told = lose_disk_with_store(keeper)
    assert keeper.world.marked() == was and "table" not in told["journal"]["gap"], told


@pytest.mark.each_server
def test_saves_of_an_uncertain_end_that_survive(carried):
    """A crash leaves the InnoDB tables as they are, so it does not matter what an XA COMMIT changed in them."""
    keeper = carried("server").keeper
    keeper.dump()
    in_session(keeper, *XA, "XA COMMIT 'x'")
    keeper.world.mark(9)
    was = saves(keeper)
    keeper.server.crash()
    told = keeper.ok("--restore", "--json")
    assert (saves(keeper), keeper.world.marked()) == (was, 9) and told["lost"] == "nothing lost", told


# -- a log that leaves something out ----------------------------------------------------------


@pytest.fixture
def make_filtered(make_server, make_world, make_keeper):
    """Returns make_filtered(option, settings) -> a keeper of the schema `game`, on a server with this filter."""
    def make(option, settings=None):
        world = make_world("small", make_server(*LOG, option), schema="game")
        return make_keeper(world, settings).init()
    return make


FILTERS = ["--binlog-ignore-db=game", "--binlog-do-db=other", "--binlog-ignore-db=other"]


@pytest.mark.parametrize("filtered", FILTERS)
@pytest.mark.parametrize("mode", ["auto", "server", "follow"])
def test_a_filtered_log_is_no_journal(make_filtered, filtered, mode):
    """A filtered log is not used as a journal, because omitted changes are invisible: a restore gives the reason that --check
    gives, and never claims that nothing is lost."""
    keeper = make_filtered(filtered, {"journal": {"mode": mode}})
    world, name = keeper.world, filtered[2:].split("=")[0].replace("-", "_")
    keeper.dump()
    dumped = world.snapshot()
    checked = {c["name"]: c for c in keeper.run("--check", "--json").result["checks"]}["journal"]
    assert name + " is set" in checked["text"], checked
    keeper.start()
    world.mark(7)
    told = crash(keeper)
    world.assert_is(dumped)
    assert not told["journal"]["whole"] and told["journal"]["changes"] == 0, told
    assert name + " is set" in told["journal"]["gap"] and told["lost_seconds"] is None, told
    at = keeper.run("--restore", "--at", "1 second ago", "--into", "beside")
    assert at.rc != 0, at


def restart(server, *options):
    server.kill9()
    server.options = [*LOG, *options]
    server.start()


@pytest.mark.parametrize("lacks", [None, "REPLICATION SLAVE"])
def test_a_filter_that_was_taken_out(make_filtered, lacks):
    """If the filter is removed by the restart that emptied the world, the log before it is still incomplete. The dump says so
    even if the account lacked a privilege for the journal when it was made."""
    keeper = make_filtered(FILTERS[0])
    if lacks:
        keeper.server.sql(f"REVOKE {lacks} ON *.* FROM keeper@localhost")
    keeper.dump()
    if lacks:
        keeper.server.sql(f"GRANT {lacks} ON *.* TO keeper@localhost")
    dumped = keeper.world.snapshot()
    keeper.start()
    keeper.world.mark(7)
    restart(keeper.server)
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("ok"), "the world again")
    told = keeper.status()["last_restore"]
    keeper.world.assert_is(dumped)
    assert not told["journal"]["whole"] and "binlog_ignore_db is set" in told["journal"]["gap"], told


def test_a_filter_that_comes_with_the_loss(make_filtered):
    """If a filter is added by the restart that emptied the world, the log before it is complete and is used."""
    keeper = make_filtered("--binlog-checksum=CRC32")
    keeper.dump()
    keeper.start()
    keeper.world.mark(7)
    before = keeper.world.snapshot()
    restart(keeper.server, FILTERS[0])
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("ok"), "the world again")
    told = keeper.status()["last_restore"]
    keeper.world.assert_is(before)
    assert told["journal"]["whole"], told

# -- statements that change no row ------------------------------------------------------------

HARMLESS = ["OPTIMIZE TABLE player, mark", "REPAIR TABLE player", "ANALYZE TABLE player, chat", "CHECK TABLE player",
            "FLUSH TABLES player", "FLUSH PRIVILEGES", "ALTER TABLE player COMMENT='it''s mark'",
            "ALTER TABLE player FORCE", "ALTER TABLE player ENGINE=MEMORY, MAX_ROWS=100000",
            "CREATE INDEX points ON player (points)", "ALTER TABLE player RENAME INDEX points TO p, ADD KEY q (ratio)",
            "DROP INDEX p ON player", "CREATE TABLE IF NOT EXISTS player (id INT) ENGINE=MEMORY",
            "CREATE OR REPLACE VIEW seen AS SELECT * FROM player", "-- player\nALTER DATABASE CHARACTER SET latin1",
            "CREATE TABLE other (a INT COMMENT 'player') ENGINE=InnoDB", "DROP TABLE other /* player */",
            "CREATE USER IF NOT EXISTS somebody", "GRANT SELECT ON player TO somebody",
            "REVOKE SELECT ON player FROM somebody", "/*!40000 ALTER TABLE player DISABLE KEYS */"]


def test_statements_that_change_no_row(make_followed):
    """Statements that change no row do not end the journal: all changes around them are restored."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    for n, statement in enumerate(HARMLESS):
        world.sql(statement, f"UPDATE player SET points={n} WHERE id<9", "INSERT INTO chat VALUES (1,'x')")
    keeper.segments.wait_all()
    assert len(keeper.dumps()) == 1 and "cannot continue" not in keeper.log(), keeper.log()
    before = world.sql("SELECT * FROM player ORDER BY id", "SELECT * FROM chat ORDER BY who, what")
    told = crash(keeper)
    assert told["journal"]["whole"], told
    assert world.sql("SELECT * FROM player ORDER BY id", "SELECT * FROM chat ORDER BY who, what") == before


def test_a_table_that_is_altered_all_the_time(make_followed):
    """ALTER TABLE hides its table, the columns or the key for a moment. If the tables are listed at such a moment, the journal
    still continues, with all changes of the table."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    over = threading.Event()

    def alter():
        with contextlib.closing(world.server.admin(world.schema)) as session:
            for n in range(99):
                session.cursor().execute(("ALTER TABLE player FORCE", "CREATE INDEX ends ON player (points)",
                                          "DROP INDEX ends ON player")[n % 3])
        over.set()
    thread = threading.Thread(target=alter)
    thread.start()
    n = 0
    while thread.is_alive():
        world.sql("CREATE TABLE scratch (id INT PRIMARY KEY) ENGINE=MEMORY",
                  f"UPDATE player SET points={n} WHERE id={n % 9 + 1}", f"INSERT INTO chat VALUES ({n},'x')", "DROP TABLE scratch")
        n += 1
    thread.join()
    assert over.is_set()
    keeper.segments.wait_all()
    assert "cannot continue" not in keeper.log(), keeper.log()
    before = world.sql("SELECT * FROM player ORDER BY id", "SELECT * FROM chat ORDER BY who, what")
    told = crash(keeper)
    assert told["journal"]["whole"], told
    assert world.sql("SELECT * FROM player ORDER BY id", "SELECT * FROM chat ORDER BY who, what") == before


def test_a_table_that_is_hidden_while_the_tables_are_listed_first(make_followed, make_world):
    """If an ALTER TABLE hides its table from the first list, the tables are listed again. Here the table is in another schema
    instead, which the log does not show."""
    keeper = make_followed()
    world, other = keeper.world, make_world("empty", on=keeper.server)
    hide, show = (f"RENAME TABLE {x}.player TO {y}.player"
                  for x, y in itertools.permutations(map(ident, (world.schema, other.schema))))
    keeper.dump()
    world.sql("SET sql_log_bin=0", hide)
    keeper.start(fault="journal.listed#1=stop")
    at_work = wait_stopped(keeper, "journal.listed")
    world.sql("SET sql_log_bin=0", show)
    go_on(at_work)
    following(keeper)
    world.sql("UPDATE player SET points=4711 WHERE id<9")
    keeper.segments.wait_all()
    assert len(keeper.dumps()) == 1 and "cannot continue" not in keeper.log(), keeper.log()
    all_comes_back(keeper)


# Statements that look like others to whoever reads comments or characters in another way than the server: the session's
# character set and the statement. {maria} begins a comment that only MariaDB executes.
SKIPPED = "/*!999999 /* x */ GRANT */ "
HIDDEN = {
    "in a plain comment": ("utf8mb4", "/*M GRANT */ TRUNCATE TABLE mark"),
    "in a skipped comment": ("utf8mb4", SKIPPED + "TRUNCATE TABLE mark"),
    "of an alteration in a skipped comment": ("utf8mb4", SKIPPED + "ALTER TABLE player MODIFY ratio INT"),
    "in a comment for MariaDB": ("utf8mb4", "SET /*M!100100 STATEMENT lock_wait_timeout=5 FOR */ TRUNCATE TABLE mark"
                                 if not MYSQL else "/*M!100100 GRANT */ TRUNCATE TABLE mark"),
    "of the kind": ("utf8mb4", "ALTER /*M!100100 IGNORE */ TABLE player MODIFY ratio INT"
                    if not MYSQL else "ALTER /*M!100100 VIEW */ TABLE player MODIFY ratio INT"),
    "in the name": ("utf8mb4", "ALTER TABLE {s} /*!50000 .player */ MODIFY ratio INT"),
    "behind a version": ("utf8mb4", "TRUNCATE TABLE /*!50000mark*/"),
    "of the schema behind a version": ("utf8mb4", "ALTER TABLE /*!50000{s}*/.player MODIFY ratio INT"),
    "by dashes before a control character": (
        "utf8mb4", "ALTER TABLE --\x7f'\n{s}.player MODIFY ratio INT --\x7f'"),
    "of the kind by dashes before a control character": (
        "utf8mb4", "ALTER --\x7f VIEW\nTABLE player MODIFY ratio INT"),
    # MariaDB skips this one, and logs it as a plain comment
    "by a quote in a comment for MariaDB": (
        "utf8mb4", "/*M!999999 ' */ TRUNCATE TABLE {s}.mark /*M!999999 ' */"),
    "by a blank of latin1": ("latin1", "ALTER TABLE\xa0player MODIFY ratio INT, ADD user INT"),
    "by a character of GBK": ("gbk", b"ALTER TABLE player ADD INDEX i\x81`(points), MODIFY ratio INT, "
                              b"ADD INDEX j\x81`(points)".decode("gbk")),
    "by characters of GBK that look like UTF-8": (
        "gbk", b"ALTER TABLE player ADD INDEX i\xe4\xb8\xad`(points), MODIFY ratio INT, "
               b"ADD INDEX j\xe4\xb8\xad`(points)".decode("gbk")),
}


@pytest.mark.parametrize("hidden", HIDDEN)
def test_a_statement_does_not_hide_what_it_does(make_followed, hidden):
    """A game's statement that looks harmless does not make the journal claim that it has everything."""
    charset, statement = HIDDEN[hidden]
    keeper = make_followed()
    world = keeper.world
    world.sql("CREATE DATABASE IF NOT EXISTS elsewhere", "UPDATE player SET ratio=0.25")
    dump_and_follow(keeper)
    schema = "elsewhere" if "{s}" in statement else world.schema
    with contextlib.closing(world.server.admin(schema, charset=charset)) as con:
        con.cursor().execute(statement.format(s=world.schema))
    world.sql("DROP DATABASE elsewhere")
    keeper.segments.wait_all()
    before = world.snapshot()
    told = crash(keeper)
    if told["journal"]["whole"]:
        world.assert_is(before)


def test_the_restore_of_a_neighbor_is_no_gap(make_server, make_world, make_keeper):
    """If two worlds of a server have names beyond ASCII, the restore of one does not end the journal of the other."""
    server = make_server(*LOG)
    keeper, neighbor = (make_keeper(make_world("small", server, schema=name)).init() for name in ("wört", "küste"))
    server.account(USER, ["wört", "küste"])
    keeper.dump()
    neighbor.dump()
    keeper.world.mark(7)
    server.sql("DELETE FROM `küste`.worldkeeper_sentinel")
    neighbor.ok("--restore", "--force")
    keeper.world.mark(8)
    before = keeper.world.snapshot()
    server.kill9()
    server.start()
    told = keeper.ok("--restore", "--json")
    keeper.world.assert_is(before)
    assert told["journal"]["whole"], told


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_a_table_made_unless_it_is_there(make_followed, mode):
    """A table of CREATE TABLE IF NOT EXISTS is restored from the journal. MySQL also logs the statement if the table exists with
    rows, which changes nothing."""
    keeper = make_followed(settings={"journal": {"mode": mode}})
    world = keeper.world
    keeper.dump()
    world.sql("CREATE TABLE IF NOT EXISTS fresh (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO fresh VALUES (7)")
    keeper.start()
    following(keeper)
    world.sql("CREATE TABLE IF NOT EXISTS fresh (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO fresh VALUES (1)")
    world.mark(3)
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["journal"]["whole"], told


# -- names in capitals -------------------------------------------------------------------------


@pytest.mark.only("mariadb", why="MySQL takes lower_case_table_names only when it is set up")
@pytest.mark.parametrize("statement", ["TRUNCATE MARK", "TRUNCATE TABLE {s}.Mark", "TRUNCATE `ÁRUHÁZ`"])
def test_another_spelling_of_a_name(make_followed, statement):
    keeper = make_followed(options=["--lower-case-table-names=1"],
                           tables=["CREATE TABLE áruház (id INT PRIMARY KEY) ENGINE=MEMORY",
                                   "INSERT INTO áruház VALUES (1)"])
    world = keeper.world
    dump_and_follow(keeper)
    world.sql(statement.format(s=world.schema.upper()), "UPDATE player SET points=4")
    keeper.segments.wait_all()
    assert len(keeper.dumps()) == 1 and "cannot continue" not in keeper.log(), keeper.log()
    assert any(line.startswith("truncate") for line in keeper.segments.lines())
    before = world.snapshot()
    assert crash(keeper)["journal"]["whole"]
    world.assert_is(before)


# -- what is said of a statement -------------------------------------------------------------


@pytest.mark.parametrize("statement, said", [
    ("UPDATE player SET nick='s3cret' WHERE id=1", "UPDATE player"),
    ("INSERT INTO player (nick,points) VALUES ('s3cret',1)", "INSERT INTO player"),
    ("ALTER TABLE player ADD w VARCHAR(20) DEFAULT 's3cret'", "player"),
])
def test_no_literal_of_a_statement_is_told(make_followed, http, statement, said):
    """No literal of a statement is in the log, an alert, the status or the list."""
    keeper = make_followed(settings=http.settings())
    dump_and_follow(keeper)
    keeper.world.sql("SET SESSION binlog_format=STATEMENT", statement)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    http.wait_event("journal")
    everything = keeper.log() + str(http.messages()) + keeper.ok("--list").out + str(keeper.status())
    assert said in everything and "s3cret" not in everything, everything


# -- compressed ------------------------------------------------------------------------------


@pytest.mark.only("mariadb", why="MySQL compresses whole transactions, which never hold rows of MEMORY tables")
@pytest.mark.parametrize("mode", ["server", "follow"])
def test_a_log_that_is_compressed_at_run_time(make_followed, mode):
    """If log_bin_compress is turned on while the server runs, rows and statements do not end the journal, and --check passes."""
    keeper = make_followed(settings={"journal": {"mode": mode}})
    world = keeper.world
    dump_and_follow(keeper)
    keeper.server.sql("SET GLOBAL log_bin_compress=ON", "SET GLOBAL log_bin_compress_min_len=10")
    world.sql("UPDATE player SET points=points+1", "DELETE FROM fleet WHERE id%2=0",
              "INSERT INTO chat SELECT seq, REPEAT('x',70) FROM seq_1_to_500",
              "TRUNCATE TABLE mark /* and a long word about it, which is worth to be compressed */",
              "ALTER TABLE player COMMENT='a long word about it, which is worth to be compressed'",
              "INSERT INTO mark VALUES (1,4)")
    checked = {c["name"]: c for c in keeper.run("--check", "--json").result["checks"]}["journal"]
    assert checked["level"] == "ok", checked
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["journal"]["whole"] and "cannot continue" not in keeper.log().split("begins automatically")[0], told


# -- damaged --------------------------------------------------------------------------------


def test_a_log_that_is_damaged_and_two_losses_with_one_dump(make_world, make_keeper, make_server):
    """After each of several losses the changes before the damage are restored, and the damage is the reason of the gap."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world("small", server), {"journal": {"mode": "server"}}).init()
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    world.mark(3)
    before = world.snapshot()
    world.sql("INSERT INTO chat VALUES (1,'a byte of this changes')")
    world.mark(4)
    log = os.path.join(server.datadir, world.sql("SHOW MASTER STATUS")[0][0])
    server.kill9()
    with open(log, "r+b") as f:
        f.seek(f.read().rindex(b"a byte of this"))
        f.write(b"X")
    for n in range(3):
        last = (keeper.status().get("last_restore") or {}).get("at")
        if n:
            world.mark(10 + n)
            server.kill9()
        server.start()
        keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("at") not in (None, last)
                    and keeper.state() == "UP", "the world again")
        told = keeper.status()["last_restore"]
        world.assert_is(before, f"after loss {n + 1}")
        assert "checksum" in told["journal"]["gap"] and told["journal"]["changes"] > 0, told
        assert not told["journal"]["whole"] and len(keeper.dumps()) == 1, told


def test_a_damaged_log_is_not_read_over_and_over(make_world, make_keeper, make_server):
    """A damaged log is read only a few times: if the damage is the same twice, it is final."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world("small", server)).init()
    keeper.dump()
    keeper.world.mark(3)
    before = keeper.world.snapshot()
    keeper.world.sql("INSERT INTO chat VALUES (1,'a byte of this changes')")
    log = os.path.join(server.datadir, keeper.world.sql("SHOW MASTER STATUS")[0][0])
    server.kill9()
    with open(log, "r+b") as f:
        f.seek(f.read().rindex(b"a byte of this"))
        f.write(b"X")
    server.start()
    seen = os.path.join(server.datadir, "seen.log")
    server.sql(f"SET GLOBAL general_log_file='{seen}'", "SET GLOBAL general_log=1")
    told = keeper.ok("--restore", "--json")
    assert "checksum" in told["journal"]["gap"], told
    keeper.world.assert_is(before)
    with open(seen, "rb") as f:
        assert f.read().count(b"Binlog Dump") <= 4


# -- a log that is short-lived ----------------------------------------------------------------


def journal_check(keeper):
    return {c["name"]: c for c in keeper.run("--check", "--json").result["checks"]}["journal"]


def test_a_log_that_is_kept_for_less_than_a_dumps_interval(make_followed):
    """A log that expires before the next dump is a warning; the hint's statement ends it."""
    keeper = make_followed(settings={"journal": {"mode": "auto"}, "dump": {"interval": "10m"}})
    assert journal_check(keeper)["level"] == "ok"
    keeper.server.sql("SET GLOBAL binlog_expire_logs_seconds=60")
    said = journal_check(keeper)
    assert said["level"] == "warn" and "about 1m " in said["text"] and "10m apart" in said["text"], said
    keeper.server.sql(re.search("SET GLOBAL [^;]*", said["hint"])[0])
    assert journal_check(keeper)["level"] == "ok"


# -- changes that do not fit the server's cache ------------------------------------------------

TOO_MUCH = {"insert": "INSERT INTO fleet SELECT id+10000, owner, x FROM fleet",
            "update": "UPDATE fleet SET x=id+7", "delete": "DELETE FROM fleet WHERE id>5"}


@pytest.mark.parametrize("how", TOO_MUCH)
@pytest.mark.parametrize("watched", [True, False], ids=["watched", "unwatched"])
def test_a_statement_that_is_too_large_for_the_log(make_world, make_keeper, make_server, how, watched):
    """A statement too large for the server's cache fails and leaves changes that are not or only partly in the log: no restore
    claims to be complete."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world("small", server), {"journal": {"mode": "server"}}).init()
    world = keeper.world
    keeper.dump()
    if watched:
        keeper.start(fault="dump.locked=kill")
        keeper.wait(lambda: journal(keeper).get("state") == "following", "the journal")
    server.sql("SET GLOBAL binlog_stmt_cache_size=4096", "SET GLOBAL max_binlog_stmt_cache_size=4096")
    assert "max_binlog_stmt_cache_size" in journal_check(keeper)["text"]
    with pytest.raises(pymysql.err.Error, match="max_binlog_stmt_cache_size"):
        world.sql(TOO_MUCH[how])
    for n in range(3):
        world.sql(f"UPDATE mark SET v={n}")
    if watched:
        keeper.wait_log("the journal cannot continue")
        told = crash(keeper)
    else:
        server.kill9()
        if MYSQL:  # MySQL records nothing of it: after the restart only the limit shows that it may have happened
            server.options += ["--max-binlog-stmt-cache-size=1048576"]
        server.start()
        told = keeper.ok("--restore", "--json")
    assert not told["journal"]["whole"] and told["lost_seconds"] != 0, told
    if not watched and not MYSQL:  # later changes of the restored world are in the log
        world.mark(7)
        server.crash()
        again = keeper.ok("--restore", "--json")
        assert again["journal"]["whole"], again
        assert world.marked() == 7


@pytest.mark.only("mysql", why="MariaDB keeps the half of the statement, where each reader finds it")
def test_a_log_that_is_not_whole_and_an_older_dump(make_world, make_keeper, make_server):
    """A gap that was seen after the newest dump also applies if the older dump is restored in its place."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world("small", server), {"journal": {"mode": "server"}}).init()
    older = keeper.dump()["name"]
    keeper.dump()
    newest = keeper.path(keeper.newest())
    keeper.start(fault="dump.locked=kill")
    keeper.wait(lambda: journal(keeper).get("state") == "following", "the journal")
    server.sql("SET GLOBAL binlog_stmt_cache_size=4096", "SET GLOBAL max_binlog_stmt_cache_size=4096")
    with pytest.raises(pymysql.err.Error, match="max_binlog_stmt_cache_size"):
        keeper.world.sql(TOO_MUCH["update"])
    keeper.world.mark(2)
    keeper.wait_log("the journal cannot continue")
    os.truncate(newest, os.path.getsize(newest) - 1)
    told = crash(keeper)
    assert told["dump"] == older and not told["journal"]["whole"] and told["lost_seconds"] != 0, told
