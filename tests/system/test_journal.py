"""The journal: after a loss, each change that the server acknowledged since the last dump is restored exactly once, and nothing
else. If the changes cannot be followed, the world is restored as of an earlier moment, and the reason is reported."""
import gzip
import json
import os
import random
import subprocess
import time

import pymysql
import pytest
from wk.binlog import MIXED, RESET
from wk.crash import SWAPPED, go_on, stopped, wait_stopped
from wk.keeper import DONE, NOTHING, USER
from wk.audit import TABLES, AuditedWriters
from wk.follow import LOG, clock, following, journal, live
from wk.relay import Relay
from wk.segments import Segments
from wk.server import LOG_READER, MYSQL, RIGHTS, client, stock_restore
from wk.snapshot import checksums
from wk.util import ident, wait_for

pytestmark = pytest.mark.either_server

ROUNDS = int(os.environ.get("WK_KILL_ROUNDS", "5"))
SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))


@pytest.fixture
def logged(make_server):
    return make_server(*LOG)


def keep(make_world, make_keeper, server, kind="small", settings=None):
    return make_keeper(make_world(kind, server), settings).init()


def crash(keeper, **more):
    """Kills and restarts the server and waits until the world is UP. Returns the status of the restore."""
    before = keeper.status().get("last_restore") or {}
    keeper.server.kill9()
    keeper.server.process = None
    keeper.server.start()
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("at") != before.get("at")
                and keeper.state() == "UP", "the world again", **more)
    return keeper.status()["last_restore"]


# -- nothing is lost --------------------------------------------------------------------------


def test_kills(make_world, make_keeper, logged):
    """After kill -9 at random moments, also right after a restore before its dump, each acknowledged change exists exactly
    once."""
    print("seed", SEED)
    rand = random.Random(SEED)
    world = make_world("empty", logged)
    world.sql(*TABLES)
    keeper = make_keeper(world, {"probe": {"interval": "100ms"}}).init()
    keeper.dump()
    keeper.start()
    writers = AuditedWriters(world, SEED)
    for n in range(ROUNDS):
        before = (keeper.status().get("last_restore") or {}).get("at")
        with writers:
            writers.wait_changes(1)
            time.sleep(rand.choice((0, 0.02, 0.3, 1.0)) * rand.random())
            keeper.server.kill9()
        keeper.server.process = None
        keeper.server.start()
        keeper.wait(lambda: keeper.flag() == "UP" and world.sql("SHOW TABLES LIKE '%sentinel'") and
                    alive(keeper), f"the world after kill {n}")
        writers.audit()
        told = keeper.wait(lambda: (lambda r: r["at"] not in (None, before) and r)(
            keeper.status().get("last_restore") or {"at": None}), "what was told")
        assert told["ok"] and told["lost_seconds"] == 0, told
    print(f"{ROUNDS} kills, {writers.changes} changes acknowledged")
    assert writers.changes > ROUNDS


def alive(keeper):
    table = keeper.settings.get("probe", {}).get("table", "worldkeeper_sentinel")
    return keeper.world.value(f"SELECT COUNT(*) FROM {ident(table)}") == 1


def test_changes_since_the_dump(make_world, make_keeper, logged):
    """Inserts, updates and deletes in tables with and without a key are restored, and counters continue."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    keeper.start()
    world.sql("UPDATE player SET points=points+1 WHERE id%3=0", "DELETE FROM player WHERE id%7=0",
              "INSERT INTO player (nick,points) VALUES ('new',1),('gone',2)",
              "DELETE FROM player WHERE nick='gone'", "UPDATE player SET id=id+100000 WHERE id<50",
              "UPDATE fleet SET x=NULL", "DELETE FROM chat WHERE who=3 LIMIT 5",
              "INSERT INTO chat SELECT * FROM chat LIMIT 20", "UPDATE chat SET what='x' WHERE who=4")
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0 and told["ok"]


def test_every_type(make_world, make_keeper, logged):
    """Rows of every column type are deleted and inserted again after the dump, and restored."""
    keeper = keep(make_world, make_keeper, logged, "zoo")
    world = keeper.world
    logged.sql("GRANT SET USER ON *.* TO keeper@localhost")  # root is the definer of the triggers
    tables = [t for (t,) in world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND "
        "engine='MEMORY' AND table_name NOT LIKE 'worldkeeper%'")]
    keeper.dump()
    keeper.start()
    for table in tables:
        columns = ",".join(ident(c) for (c,) in world.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_schema=DATABASE() AND "
            "table_name='" + table.replace("\\", "\\\\").replace("'", "''") + "' AND "
            "extra NOT LIKE '%GENERATED%' ORDER BY ordinal_position"))
        t = ident(table)
        world.sql("SET sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
                  + ("" if MYSQL else ", check_constraint_checks=0"),
                  f"CREATE TEMPORARY TABLE kept ENGINE=InnoDB AS SELECT {columns} FROM {t}",
                  f"DELETE FROM {t}", f"INSERT INTO {t} ({columns}) SELECT {columns} FROM kept")
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0, told


def test_more_digits_than_a_column_shows(make_world, make_keeper, logged):
    """Values of FLOAT(M,D) and DOUBLE(M,D) columns that no literal can write are restored exactly."""
    keeper = keep(make_world, make_keeper, logged, "empty")
    world = keeper.world
    world.sql("CREATE TABLE fine (id INT PRIMARY KEY, f FLOAT(7,3), d DOUBLE(20,5), p FLOAT, q DOUBLE) "
              "ENGINE=MEMORY",
              "INSERT INTO fine SELECT seq, seq/7, seq/9, seq/7, seq/9 FROM seq_1_to_100")
    keeper.dump()
    keeper.start()
    world.sql("UPDATE fine SET f=p, d=q WHERE id%3=0", "DELETE FROM fine WHERE id%5=0",
              "INSERT INTO fine SELECT id+1000, p, q, p/3, q/3 FROM fine",
              "UPDATE fine SET f=f/3, d=d/3 WHERE id%2")
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0, told


def test_two_losses_with_one_dump(make_world, make_keeper, logged):
    """The dump after each restore fails, so that the later restores need the first dump and all parts of the log."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    for v in range(2, 5):
        world.mark(v)
        before = world.snapshot()
        crash(keeper)
        world.assert_is(before, f"after loss {v - 1}")
    assert len(keeper.dumps()) == 1


def test_losses_right_after_swaps(make_world, make_keeper, logged):
    """The restored world is lost again at or before the moment its swap is recorded. The log shows each swap, and the changes
    before and after it are restored once."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    # The cleanup after the last restore also drops tables: a restore that is killed there has not swapped anything yet.
    for v, point in enumerate((p for p in SWAPPED if p != "restore.table_dropped"), 2):
        world.mark(v)
        before = world.snapshot()
        logged.crash()
        died = keeper.run("--restore", fault=point + "=kill")
        assert died.rc != DONE, died
        world.assert_is(before, point)
    world.mark(99)
    before = world.snapshot()
    logged.crash()
    told = keeper.ok("--restore", "--json")
    assert told["journal"]["whole"], told
    world.assert_is(before)


def test_a_loss_after_a_restore_of_an_older_dump(make_world, make_keeper, logged):
    """The newest dump is missing for one restore and available for the next; the changes since then continue from either dump."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.mark(2)
    manifest = keeper.dump()["path"].replace(".sql.gz", ".json")
    world.mark(3)
    before = world.snapshot()
    logged.crash()
    os.rename(manifest, manifest + ".away")
    keeper.ok("--restore")
    world.assert_is(before)
    os.rename(manifest + ".away", manifest)
    world.mark(4)
    before = world.snapshot()
    logged.crash()
    told = keeper.ok("--restore", "--json")
    assert told["journal"]["whole"] and told["dump"] in manifest, told
    world.assert_is(before)


def test_a_loss_after_a_restore_that_was_not_logged(make_world, make_keeper, logged):
    """The log does not lead across an unlogged restore. The world is restored as of that restore, later changes are reported as
    lost, and a supervisor asks for a dump."""
    keeper = keep(make_world, make_keeper, logged, settings={"restore": {"binlog": "no"}})
    logged.sql("GRANT BINLOG ADMIN ON *.* TO keeper@localhost")
    world = keeper.world
    keeper.dump()
    world.mark(2)
    before = world.snapshot()
    for v in (3, 4):
        logged.crash()
        told = keeper.ok("--restore", "--json")
        world.assert_is(before)
        assert told["lost_seconds"] == (0 if v == 3 else None), told
        world.mark(v)
    assert "was restored meanwhile" in told["journal"]["gap"] and told["lost_seconds_max"] > 0, told
    keeper.start(fault="dump.locked=kill")
    found = keeper.wait(lambda: (lambda j: j.get("gap") and j)(journal(keeper)), "the gap")
    assert "across which the log cannot be followed" in found["reason"], found


def test_a_state_from_before_the_dump(make_world, make_keeper, logged):
    """state.json is older than the newest dump, as after a full disk. The dump is of the world that was lost, and its later
    changes are restored."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    state = os.path.join(keeper.dumps_dir, "state.json")
    with open(state, "rb") as f:
        old = f.read()
    dumped = keeper.newest()["at_unix"]
    logged.crash()
    wait_for(lambda: time.time() > dumped + 1, "the next second")
    keeper.ok("--restore")
    keeper.dump()
    world.mark(2)
    before = world.snapshot()
    with open(state, "wb") as f:
        f.write(old)
    logged.crash()
    told = keeper.ok("--restore", "--json")
    assert told["journal"]["whole"], told
    world.assert_is(before)


def test_a_dump_loaded_by_hand(make_world, make_keeper, logged):
    """A dump is loaded manually between two losses. The log does not lead into that world, so that the result does not claim that
    nothing was lost."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    dump = keeper.dump()
    world.mark(2)
    logged.crash()
    lost = time.time()
    stock_restore(logged, dump["path"], world.schema)
    wait_for(lambda: time.time() > lost + 4, "some seconds")
    keeper.ok("--init")
    world.mark(3)
    logged.crash()
    keeper.waits = 60
    told = keeper.ok("--restore", "--json")
    assert told["lost_seconds"] is None and "existed after that loss" in told["journal"]["gap"], told
    assert world.marked() == 2


@pytest.mark.parametrize("mode", ["auto", "server"])
def test_the_gap_of_a_dump_that_was_skipped(make_world, make_keeper, make_server, mode):
    """If the newest dump is skipped, the older dump, which has no log, is not reported with the newest one's gap or figures."""
    server = make_server()
    keeper = keep(make_world, make_keeper, server)
    keeper.configure({"journal": {"mode": mode}})
    older = keeper.dump()["name"]

    def restored():
        server.crash(*LOG)
        return keeper.ok("--restore", "--json")
    restored()
    newer = keeper.dump()
    with open(newer["path"], "r+b") as f:
        f.seek(-20, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    keeper.world.mark(2)
    keeper.world.sql("ALTER TABLE player ADD more INT")
    done = restored()
    assert done["dump"] == older and done["skipped"][0]["dump"] == newer["name"], done
    if mode == "auto":
        assert "journal" not in done, done["journal"]
    else:
        told = done["journal"]
        assert not told["used"] and told["changes"] == told["rows"] == told["pos"] == 0 and told["last"] is None, told


def test_a_counter_behind_many_columns(make_world, make_keeper, logged):
    """The AUTO_INCREMENT counter is restored although the row that raised it was deleted, in a table of 300 columns."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    world.sql("CREATE TABLE wide (" + "".join(f"c{n} TINYINT," for n in range(300)) +
              "id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO wide (c1) VALUES (1)")
    keeper.dump()
    world.sql("INSERT INTO wide (c1) VALUES (2),(3)", "DELETE FROM wide WHERE c1=3")
    before = world.snapshot()
    crash_unwatched(keeper)
    world.assert_is(before)


def test_a_counter_that_came_to_its_end(make_world, make_keeper, logged):
    """After the highest AUTO_INCREMENT value the restored table has no next one, so that no id is used twice."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    world.sql("CREATE TABLE ticket (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY) ENGINE=MEMORY",
              "INSERT INTO ticket VALUES (1),(2),(3)")
    keeper.dump()
    world.sql("INSERT INTO ticket VALUES (18446744073709551615)", "DELETE FROM ticket WHERE id>3")
    before = world.snapshot()
    crash_unwatched(keeper)
    if not MYSQL:  # which shows no counter there
        world.assert_is(before)
    with pytest.raises(pymysql.err.Error):
        world.sql("INSERT INTO ticket VALUES (NULL)")


def test_rows_written_into_the_emptied_world_stay_out(make_world, make_keeper, logged):
    """Rows that were written into the emptied world are in the conflict file and in no restore."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.mark(5)
    before = world.snapshot()
    keeper.server.kill9()
    keeper.server.process = None
    keeper.server.start()
    world.sql("INSERT INTO chat VALUES (1,'into the void')", "INSERT INTO mark VALUES (2,2)")
    keeper.start(state="UP", fault="dump.locked=kill")
    world.assert_is(before)
    assert len(keeper.conflicts()) == 1
    world.mark(6)
    before = world.snapshot()
    crash(keeper)
    world.assert_is(before)


def test_truncate_is_followed(make_world, make_keeper, logged):
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    keeper.start()
    world.sql("INSERT INTO player (nick,points) VALUES ('x',1)", "TRUNCATE TABLE player",
              "INSERT INTO player (nick,points) VALUES ('first',1)", "TRUNCATE chat")
    before = world.snapshot()
    assert crash(keeper)["lost_seconds"] == 0
    world.assert_is(before)


@pytest.mark.parametrize("form", ["STATEMENT", "ROW"])
def test_a_temporary_table_of_the_same_name(make_world, make_keeper, logged, form):
    """A TRUNCATE of a temporary table is logged in STATEMENT format. It must not empty the world's table of the same name."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.mark(5)
    before = world.snapshot()
    world.sql(f"SET SESSION binlog_format={form}", "CREATE TEMPORARY TABLE chat (a INT)",
              "TRUNCATE TABLE chat", "DROP TEMPORARY TABLE chat")
    done = crash_unwatched(keeper)
    world.assert_is(before)
    assert ("the journal ends before the loss" in done.out) == (form == "STATEMENT"), done


def test_a_statement_that_was_cut_off(make_world, make_keeper, logged):
    """If the server is killed during a long statement, either all of its rows are restored or none."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    keeper.start()
    for n in range(4):
        rows = world.rows("chat")
        con = keeper.server.admin(world.schema)
        with con.cursor() as cur:
            cur.execute("SELECT CONNECTION_ID()")
            try:
                con._execute_command(3, "INSERT INTO chat SELECT seq, REPEAT('x',80) FROM "
                                        f"seq_1_to_{10000 * (n + 1)}")
            except OSError:
                pass
        time.sleep(0.02 * n)
        crash(keeper)
        assert world.rows("chat") in (rows, rows + 10000 * (n + 1))
        world.sql("DELETE FROM chat WHERE who>10")


# -- what cannot be followed ------------------------------------------------------------------


def crash_unwatched(keeper):
    """Crashes the server and restores without a supervisor, which would dump as soon as it saw the gap."""
    keeper.server.crash()
    return keeper.ok("--restore")


@pytest.mark.slow
@pytest.mark.waits(1)
def test_an_idle_world_is_proven_without_a_write(make_world, make_keeper, logged):
    """While the follower reads at the end of the log, nothing can be missing, so that no marker row has to be written. A marker
    is still written from time to time."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.dump()
    keeper.start()
    following(keeper)

    def beat():
        return keeper.world.value("SELECT beat FROM worldkeeper_sentinel")

    def proven():
        before = beat()
        time.sleep(3)
        behind = live(keeper)["behind_seconds"]
        return behind is not None and behind < 2.5 and beat() == before
    keeper.wait(proven, "a proof without a write")
    before = beat()
    keeper.wait(lambda: beat() != before, "a marker all the same, some time")


@pytest.mark.parametrize("change", [
    "ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3",
    "RENAME TABLE mark TO mark2, mark2 TO mark",
    "ALTER TABLE mark DROP PRIMARY KEY",
])
def test_definitions_end_the_changes_of_their_table(make_world, make_keeper, logged, change):
    """An ALTER or RENAME ends the changes of its table: it is restored as of the moment before, with the reason, and the other
    tables continue."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.mark(5)  # rows of this table are read with the dump's definition
    world.sql("UPDATE player SET points=points+1")
    world.sql(change, "UPDATE player SET points=0")
    before = world.sql("SELECT * FROM player ORDER BY id")
    done = crash_unwatched(keeper)
    assert world.sql("SELECT * FROM player ORDER BY id") == before
    assert world.marked() == 5
    assert "only a part of the journal is restored: table mark is restored as of" in done.out


@pytest.mark.parametrize("change, seen, cost", [
    ("ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3", "; the journal cannot continue after that for this table",
     ["this table comes back as it was at 2", "all other tables come back as they are at the loss"]),
    ("SET SESSION binlog_format=STATEMENT", "the journal cannot continue after",
     ["; if the world is lost before it is stored, it comes back as it was at 2", "is lost"]),
], ids=["one table", "all of it"])
def test_what_a_loss_would_cost_after_a_gap_is_told(make_world, make_keeper, logged, http, change, seen, cost):
    """After a gap the alert says what was seen and what a loss would cost until the dump is stored; a loss then costs exactly
    that."""
    keeper = keep(make_world, make_keeper, logged, settings=http.settings())
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")  # the dump that would end the gap is never stored
    following(keeper)
    world.mark(5)
    points = world.sql("SELECT id, points FROM player ORDER BY id")
    world.sql(change, "UPDATE player SET points=77")
    alert = keeper.wait(lambda: [m for m in http.messages() if seen in m["what"]], "the gap")[0]
    assert all(words in alert["doing"] for words in cost), alert
    assert change.startswith("SET") or alert["what"].startswith("table mark, "), alert
    crash(keeper)
    goes_on = "for this table" in seen
    assert list(world.sql("SELECT id, points FROM player ORDER BY id")) == [(i, 77 if goes_on else n) for i, n in points]
    assert world.marked() == 5


def test_another_primary_key(make_world, make_keeper, logged):
    """Earlier rows are found by the key that the table had then, although two rows of the dump are equal in the new key."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    world.sql("CREATE TABLE k (a INT NOT NULL, b INT NOT NULL, c INT, PRIMARY KEY (a)) ENGINE=MEMORY",
              "INSERT INTO k VALUES (1,5,0),(2,5,0),(3,7,0)")
    keeper.dump()
    world.sql("UPDATE k SET c=1 WHERE a=1", "UPDATE k SET b=6 WHERE a=2", "UPDATE k SET c=2 WHERE a<3")
    before = world.sql("SELECT * FROM k ORDER BY a")
    world.sql("ALTER TABLE k DROP PRIMARY KEY, ADD PRIMARY KEY (b)", "UPDATE k SET c=9")
    done = crash_unwatched(keeper)
    assert world.sql("SELECT * FROM k ORDER BY a") == before
    assert "only a part of the journal is restored: table k" in done.out and "ALTER TABLE k" in done.out, done


@pytest.mark.parametrize("how, change", [
    ("STATEMENT", "UPDATE player SET points=0"),
    pytest.param("MIXED", "ANALYZE UPDATE player SET points=0",
                 marks=pytest.mark.only("mariadb", why="ANALYZE in front of a statement runs it")),
])
def test_statement_format_ends_the_journal(make_world, make_keeper, logged, how, change):
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.mark(5)
    before = world.snapshot()
    world.sql(f"SET SESSION binlog_format={how}", change)
    done = crash_unwatched(keeper)
    world.assert_is(before)
    assert change.split(" SET ")[0] in done.out and "points=0" not in done.out


@pytest.mark.each_server
@pytest.mark.parametrize("what, said", [
    ("PURGE BINARY LOGS", "journal ends before the loss"),
    (RESET, "journal ends before the loss"),
])
def test_a_log_that_is_gone(make_world, make_keeper, logged, what, said):
    """If the log was purged or reset, the dump alone is restored, without changes of another log."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    before = world.snapshot()
    world.mark(5)
    if what == RESET:
        world.sql(RESET)
        for v in range(300):  # past the dump's position
            world.sql(f"UPDATE mark SET v={v}")
    else:
        world.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        newest = world.sql("SHOW BINARY LOGS")[-1][0]
        wait_for(lambda: world.sql(f"PURGE BINARY LOGS TO '{newest}'", "SHOW BINARY LOGS")[0][0] ==
                 newest, "the end of the old logs")
    done = crash_unwatched(keeper)
    world.assert_is(before)
    assert said in done.out


def test_the_supervisor_finds_a_gap_that_it_did_not_see(make_world, make_keeper, logged):
    """An ALTER while no supervisor runs is found by the next one, which reads the log from the newest dump on and dumps at
    once."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.dump()
    keeper.world.sql("ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3", "UPDATE player SET points=0")
    before = keeper.world.snapshot()
    keeper.start()
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    assert crash(keeper)["lost_seconds"] == 0
    keeper.world.assert_is(before)


@pytest.mark.parametrize("change", ["DROP TABLE mark", "RENAME TABLE mark TO {other}.mark",
                                    "ALTER TABLE mark ENGINE=InnoDB"])
def test_a_table_that_is_gone(make_world, make_keeper, logged, change):
    """Changes of a table that was dropped or moved are read with the dump's definition until then, and the reason is reported.
    A table that became durable is complete. --at beyond that is refused."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    other, into = world.schema + "_o", world.schema + "_x"
    logged.sql(f"CREATE DATABASE {ident(other)}")
    logged.account(USER, [world.schema, into])
    keeper.dump()
    clock(logged)
    world.sql("UPDATE mark SET v=5", "UPDATE player SET points=0")
    clock(logged)
    world.sql(change.format(other=ident(other)), "UPDATE player SET points=1")
    before = world.sql("SELECT * FROM player ORDER BY id")
    clock(logged)
    at = clock(logged)
    refused = keeper.run("--restore", "--at", at, "--into", into)
    assert refused.rc == 4 and "mark" in refused.err, refused
    done = crash_unwatched(keeper)
    durable = "ENGINE" in change  # a restore leaves it unchanged
    lost = "nothing lost" if durable else "only a part of the journal is restored: table mark is restored as of"
    assert lost in done.out
    assert world.sql("SELECT * FROM player ORDER BY id") == before
    assert world.marked() == 5
    logged.sql(f"DROP DATABASE {ident(other)}", f"DROP DATABASE IF EXISTS {ident(into)}")


def test_truncate_before_many_tables_are_gone(make_world, make_keeper, logged):
    """A TRUNCATE is assigned to its table whether the table still exists or was dropped after the dump, whatever the order of
    names."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    gone = [f"a{n}" for n in range(9)]
    world.sql(*[f"CREATE TABLE {t} (id INT PRIMARY KEY) ENGINE=MEMORY" for t in gone])
    keeper.dump()
    world.sql("TRUNCATE TABLE player", "INSERT INTO player (nick,points) VALUES ('first',1)",
              "INSERT INTO a3 VALUES (1)", "TRUNCATE TABLE a3", "INSERT INTO a3 VALUES (2)")
    before = world.sql("SELECT * FROM player ORDER BY id")
    world.sql(*[f"DROP TABLE {t}" for t in gone])
    done = crash_unwatched(keeper)
    assert "only a part of the journal is restored: table a0" in done.out, done
    assert world.sql("SELECT * FROM player ORDER BY id") == before
    assert world.sql("SELECT id FROM a3") == ((2,),)


def test_durable_tables_and_the_journal_do_not_mix(make_world, make_keeper, make_server):
    """With scope = all, durable tables are restored as of the dump. The journal is then not applied, because what was moved
    between tables would exist twice."""
    world = make_world("small", make_server(*LOG, *MIXED))
    world.sql("CREATE TABLE acc (gold INT) ENGINE=InnoDB", "INSERT INTO acc VALUES (100)",
              "CREATE TABLE bag (gold INT) ENGINE=MEMORY", "INSERT INTO bag VALUES (0)")
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}}).init()
    keeper.dump()
    world.sql("BEGIN", "UPDATE acc SET gold=gold-60", "UPDATE bag SET gold=gold+60", "COMMIT")
    done = crash_unwatched(keeper)
    assert world.sql("SELECT acc.gold+bag.gold FROM acc, bag")[0][0] == 100
    assert "durable tables" in done.out


@pytest.mark.parametrize("how", ["forced", "adopted", "file"])
def test_another_world_in_between(make_world, make_keeper, logged, how, tmp):
    """A world that was restored without the log, adopted or loaded from a file is never mixed with a dump of the world before
    it."""
    keeper = keep(make_world, make_keeper, logged, settings={"restore": {"binlog": "no"}})
    logged.sql("GRANT BINLOG ADMIN ON *.* TO keeper@localhost")
    world = keeper.world
    first = keeper.dump()
    world.mark(2)
    second = keeper.dump()
    if how == "forced":
        keeper.ok("--restore=" + first["name"], "--force")
    elif how == "adopted":
        logged.crash()
        world.sql("INSERT INTO mark VALUES (1,77)")
        keeper.ok("--init", "--force")
    else:
        logged.crash()
        path = os.path.join(tmp, "my old.sql.gz")
        os.link(keeper.path(first), path)
        keeper.ok("--restore=" + path)
    held = keeper.newest()
    world.sql("UPDATE player SET points=-1", "INSERT INTO chat VALUES (5,'new world')")
    if how == "adopted":  # a new round, into which no dump of an earlier one is restored
        logged.crash()
        done = keeper.run("--restore")
        assert done.rc == NOTHING and "earlier rounds" in done.err, done
        return
    done = crash_unwatched(keeper)
    assert "journal" in done.out and "another" in done.out, done
    assert world.sql("SELECT COUNT(*) FROM player WHERE points=-1")[0][0] == 0
    assert world.sql("SELECT COUNT(*) FROM chat WHERE who=5 AND what='new world'")[0][0] == 0
    assert held["name"] in done.out and second


NUMBERED = ["gtid_next='aaaaaaaa-1111-2222-3333-444444444444:7'", "gtid_next='AUTOMATIC:tag'",
            "gtid_next='aaaaaaaa-1111-2222-3333-444444444444:tag:7'"] if MYSQL else ["gtid_seq_no=1000000"]


@pytest.mark.each_server
@pytest.mark.parametrize("setting", NUMBERED)
def test_a_jump_in_the_numbers_of_groups(make_world, make_keeper, logged, setting):
    """A transaction to which a session gave a number of its own does not count as another log."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.sql(f"SET SESSION {setting}", "UPDATE mark SET v=9")
    world.mark(5)
    before = world.snapshot()
    crash_unwatched(keeper)
    world.assert_is(before)


@pytest.mark.only("mysql", why="another server has one number of each domain")
def test_gtids_that_do_not_fit_are_not_cut_within_a_number(make_world, make_keeper, logged):
    """The GTID set in a dump may be incomplete, but it contains only executed transactions."""
    keeper = keep(make_world, make_keeper, logged)
    others = "".join(f":{n}" for n in range(10001, 10400, 2))
    logged.sql(f"SET GLOBAL gtid_purged='+00000000-0000-0000-0000-000000000001{others}'")
    with open(keeper.path(keeper.dump()).replace(".sql.gz", ".json")) as f:
        known = json.load(f)["start_point"]["gtid"]
    assert logged.sql(f"SELECT GTID_SUBSET('{known}',@@global.gtid_executed)")[0][0] == 1, known


def test_no_free_connection_is_waited_for(make_world, make_keeper, logged):
    """If all connections are in use after the restart, the journal is still restored."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    world.mark(5)
    before = world.snapshot()
    logged.crash()
    logged.sql("ALTER USER keeper@localhost WITH MAX_USER_CONNECTIONS 1")
    restoring = keeper.popen("--restore")
    time.sleep(1)
    logged.sql("ALTER USER keeper@localhost WITH MAX_USER_CONNECTIONS 0")
    done = keeper.finish(restoring)
    if done.rc != 0:  # --restore may give up waiting; the supervisor would not
        keeper.ok("--restore")
    world.assert_is(before)


@pytest.mark.only("mariadb", why="another server's numbers do not jump")
def test_a_question_that_is_not_answered_is_asked_again(make_world, make_keeper, logged):
    """The connection breaks at the query whether a log with a jump continues. The query is repeated, and the log is not taken for
    another one."""
    keeper = keep(make_world, make_keeper, logged)
    world, asked = keeper.world, []
    keeper.dump()
    world.sql(f"SET SESSION {NUMBERED[0]}", "UPDATE mark SET v=9")
    world.mark(5)
    before = world.snapshot()
    logged.crash()

    def say(sql):
        if "BINLOG_GTID_POS" in sql:
            asked.append(sql)
            if len(asked) == 1:
                raise ConnectionResetError
    with Relay(logged, say) as relay:
        keeper.configure({"mysql": relay.settings})
        keeper.ok("--restore")
    assert len(asked) == 2, asked
    world.assert_is(before)


def test_lower_case_names(make_world, make_keeper, make_server):
    """The journal works with lower_case_table_names=1 and a schema that the config writes in capitals. --check finds the
    privileges."""
    server = make_server(*LOG, "--lower-case-table-names=1")
    world = make_world("small", server)
    keeper = make_keeper(world, {"world": {"schema": world.schema.upper()}}).init()
    keeper.dump()
    checked = keeper.run("--check", "--json")
    assert checked.rc == DONE and not [c for c in checked.result["checks"] if c["level"] == "fail"], checked
    world.mark(5)
    before = world.snapshot()
    crash_unwatched(keeper)
    world.assert_is(before)


@pytest.mark.waits(1)
def test_gaps_in_a_row_do_not_dump_without_pause(make_world, make_keeper, logged):
    """Repeated gaps, as from a session in STATEMENT format, cause a dump at once and later ones with growing pauses."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.dump()
    keeper.start()
    following(keeper)
    con = logged.admin(keeper.world.schema)
    with con.cursor() as cur:
        cur.execute("SET SESSION binlog_format=STATEMENT")
        began = time.monotonic()
        while time.monotonic() < began + 5:
            cur.execute("UPDATE mark SET v=v+1")
            time.sleep(0.02)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    made = len(keeper.dumps())
    assert made <= 4 + (time.monotonic() - began) / 10, "the first pause is ten seconds"


def test_without_the_right(make_world, make_keeper, logged):
    """Without the privilege to read the log, the dump is restored and the privilege is named."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.server.account(USER, [world.schema], RIGHTS, "BINLOG MONITOR")
    keeper.dump()
    before = world.snapshot()
    world.mark(5)
    done = crash_unwatched(keeper)
    world.assert_is(before)
    assert "REPLICATION SLAVE" in done.out


def test_a_right_that_comes_later(make_world, make_keeper, logged):
    """A privilege that is granted later is noticed automatically; until then the status says when the next look is."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.server.account(USER, [keeper.world.schema], RIGHTS, "BINLOG MONITOR")
    keeper.start()
    keeper.wait(lambda: journal(keeper).get("state") == "off" and journal(keeper)["looks_again"], "when it looks again")
    keeper.server.account(USER, [keeper.world.schema])
    keeper.wait(lambda: journal(keeper).get("state") == "following", "the journal")


def test_a_dump_by_name_and_journal_off_bring_the_dump(make_world, make_keeper, logged):
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    before = world.snapshot()
    world.mark(5)
    keeper.server.crash()
    keeper.ok("--restore=" + keeper.newest()["name"])
    world.assert_is(before)
    world.mark(6)
    keeper.configure({"journal": {"mode": "off"}})
    keeper.server.crash()
    keeper.ok("--restore")
    world.assert_is(before)


def test_rows_that_somebody_deleted(make_world, make_keeper, logged):
    """All rows were deleted without a server restart, and nothing distinguishes that mistake from earlier changes: the dump is
    restored, and the output names --at."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    before = world.snapshot()
    world.sql("UPDATE player SET points=0",
              *(f"DELETE FROM {ident(t)}" for (t,) in world.sql("SHOW TABLES")
                if not t.endswith("lease")))
    done = keeper.ok("--restore")
    world.assert_is(before)
    assert "--at" in done.out


# -- any moment --------------------------------------------------------------------------------


def test_any_moment(make_world, make_keeper, logged):
    """--at --into restores the world as of several moments, before and after a dump and after a loss, and leaves the living world
    unchanged."""
    keeper = keep(make_world, make_keeper, logged)
    world, moments = keeper.world, []

    def moment():
        moments.append((clock(logged), tables_of(world)))
    keeper.dump()
    clock(logged)
    for v in range(2, 5):
        world.mark(v)
        moment()
    world.sql("DELETE FROM player")  # an administrator's mistake
    moment()
    keeper.start()
    keeper.dump("--force")  # forced because a table lost its rows
    world.mark(7)
    moment()
    crash(keeper)
    world.mark(8)
    moment()
    living = tables_of(world)
    for at, picture in moments:
        into = world.schema + "_then"
        logged.sql(f"DROP DATABASE IF EXISTS {ident(into)}")
        logged.account(USER, [world.schema, into])
        keeper.ok("--restore", "--at", at, "--into", into)
        then = {t: logged.sql(f"CHECKSUM TABLE {ident(t)}", schema=into)[0][1] for t in picture}
        assert then == picture, at
    assert tables_of(world) == living
    logged.sql(f"DROP DATABASE {ident(into)}")


def tables_of(world):
    return {t: world.sql(f"CHECKSUM TABLE {ident(t)}")[0][1]
            for t in ("player", "fleet", "chat", "mark")}


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_a_session_whose_clock_is_ahead(make_world, make_keeper, logged, mode):
    """Changes of a session that set its timestamp ahead do not end the range of --at."""
    keeper = keep(make_world, make_keeper, logged, settings={"journal": {"mode": mode}})
    world, into = keeper.world, keeper.world.schema + "_then"
    logged.account(USER, [world.schema, into])
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql("SET timestamp=UNIX_TIMESTAMP()+86400*30", "INSERT INTO mark VALUES (50,1)")
    world.mark(2)
    now, at = tables_of(world), clock(logged)
    world.mark(3)
    keeper.ok("--restore", "--at", at, "--into", into)
    then = {t: logged.sql(f"CHECKSUM TABLE {ident(t)}", schema=into)[0][1] for t in now}
    logged.sql(f"DROP DATABASE {ident(into)}")
    assert then == now


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_times_that_are_not_in_order(make_world, make_keeper, logged, mode):
    """--at ends at the first later time in the log, as the order of the log demands. It reports how many transactions of the
    world that carry earlier times follow, and from which time on --at has them."""
    keeper = keep(make_world, make_keeper, logged, settings={"journal": {"mode": mode}})
    world, into = keeper.world, keeper.world.schema + "_then"
    logged.account(USER, [world.schema, into])
    logged.sql("CREATE DATABASE IF NOT EXISTS aside", "CREATE TABLE IF NOT EXISTS aside.t (id INT) ENGINE=InnoDB")
    keeper.dump()
    clock(logged)
    keeper.start()
    following(keeper)
    base, pictures = world.value("SELECT UNIX_TIMESTAMP()") + 5, []  # later than the supervisor's markers
    for seconds, *statements in (
            (0, "INSERT INTO mark VALUES (50,1)"), (3, "INSERT INTO mark VALUES (51,1)"),  # this session's clock is ahead
            (1, "INSERT INTO mark VALUES (52,1)"), (1, "INSERT INTO aside.t VALUES (1)"), (4, "INSERT INTO mark VALUES (53,1)"),
            (1, "TRUNCATE chat"), (5, "INSERT INTO mark VALUES (54,1)")):
        world.sql(f"SET timestamp={base + seconds}", *statements)
        pictures.append(tables_of(world))
    if mode == "follow":
        Segments(keeper).wait_all()
    while world.value("SELECT UNIX_TIMESTAMP()") <= base + 4:
        clock(logged)

    def restored_at(seconds, fault=None):
        logged.sql(f"DROP DATABASE IF EXISTS {ident(into)}")
        done = keeper.ok("--restore", "--at", utc(base + seconds), "--into", into, "--json", fault=fault)
        return done.get("warning"), {t: logged.sql(f"CHECKSUM TABLE {ident(t)}", schema=into)[0][1] for t in pictures[0]}
    warning, then = restored_at(1)
    assert then == pictures[0]
    assert warning and "2 transactions" in warning and utc(base + 3) in warning and f"--at {utc(base + 4)}" in warning, warning
    warning, then = restored_at(4)
    assert then == pictures[5] and not warning, warning
    keeper.stop()
    warning, then = restored_at(1, fault="journal.later=0")  # it does not look beyond the next later one
    assert then == pictures[0] and "1 transaction " in warning, warning
    logged.sql(f"DROP DATABASE {ident(into)}", "DROP DATABASE aside")


def utc(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_undo_a_mistake(make_world, make_keeper, logged):
    """--restore --at over the living world needs --force, and restores the moment before the mistake."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    clock(logged)
    world.mark(5)
    before, at = world.snapshot(), clock(logged)
    world.sql("DELETE FROM player WHERE id>100")
    refused = keeper.run("--restore", "--at", at)
    assert refused.rc == 4 and "--force" in refused.err, refused
    keeper.ok("--restore", "--at", at, "--force")
    world.assert_is(before)


def test_at_needs_a_dump_of_ours(make_world, make_keeper, logged, tmp):
    keeper = keep(make_world, make_keeper, logged)
    path = os.path.join(tmp, "x.sql.gz")
    os.link(keeper.path(keeper.dump()), path)
    done = keeper.run("--restore=" + path, "--at", "-1s", "--dry-run")
    assert done.rc == 2 and "--at" in done.err, done


@pytest.mark.parametrize("at, rc, said", [
    ("yesterday", 2, "not a time in the past"),
    ("2999-01-01 00:00", 2, "not a time in the past"),
    ("2001-01-01 00:00", 5, "from before"),
])
def test_moments_that_cannot_be(make_world, make_keeper, logged, at, rc, said):
    keeper = keep(make_world, make_keeper, logged)
    keeper.dump()
    logged.account(USER, [keeper.world.schema, keeper.world.schema + "_x"])
    done = keeper.run("--restore", "--at", at, "--into", keeper.world.schema + "_x")
    assert done.rc == rc and said in done.err, done


# -- while the world lives ---------------------------------------------------------------------


def test_followed_and_measured(make_world, make_keeper, logged):
    """The marker row arrives through the log, and the status publishes its age and counts changes."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.dump()
    keeper.start()
    following(keeper)
    first = journal(keeper)["pos"]
    keeper.wait(lambda: journal(keeper)["pos"] > first, "a marker that comes through")
    keeper.world.mark(3)
    keeper.wait(lambda: journal(keeper)["changes"] > 0, "a change that is counted")
    keeper.wait(lambda: journal(keeper)["behind_seconds"] < 30, "a marker that is young")
    assert "following" in keeper.ok("--status").out


@pytest.mark.parametrize("change", [
    "ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3",
    "RENAME TABLE mark TO mark2",
    "SET SESSION binlog_row_image=MINIMAL",
    "SET SESSION binlog_format=STATEMENT",
])
def test_a_gap_is_closed_by_a_dump_at_once(make_world, make_keeper, logged, change):
    """A gap is reported and followed by a dump at once; changes after that dump are restored."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql(change, "UPDATE player SET points=1")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    keeper.wait_log("the journal cannot continue")
    ranges = keeper.ok("--list", "--json")["journal"]["ranges"]
    assert len(ranges) == 2 and ranges[0]["gap"] and ranges[1]["to"] is None, ranges
    assert ranges[0]["gap"] in keeper.ok("--list").out
    world.sql("UPDATE player SET points=2")
    before = world.snapshot()
    assert crash(keeper)["lost_seconds"] == 0
    world.assert_is(before)


@pytest.mark.only("mysql", why="MariaDB compresses single events")
def test_a_compressed_transaction_is_a_gap(make_world, make_keeper, logged):
    """A compressed transaction is a gap, because it may contain changes of MEMORY tables."""
    keeper = keep(make_world, make_keeper, logged)
    world = keeper.world
    logged.sql("CREATE DATABASE other", "CREATE TABLE other.t (id INT PRIMARY KEY, v VARCHAR(99)) ENGINE=InnoDB")
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql("SET SESSION binlog_transaction_compression=ON", "INSERT INTO other.t VALUES (1,REPEAT('a',99))")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    keeper.wait_log("TRANSACTION_PAYLOAD")
    world.mark(7)
    before = world.snapshot()
    assert crash(keeper)["lost_seconds"] == 0
    world.assert_is(before)
    logged.sql("SET GLOBAL binlog_transaction_compression=ON")
    try:
        told = keeper.run("--check").out
        assert "binlog_transaction_compression is ON" in told, told
        assert "binlog_transaction_compression = OFF" in told, told
    finally:
        logged.sql("SET GLOBAL binlog_transaction_compression=OFF")


def test_a_log_that_is_begun_anew_while_nobody_looks(make_world, make_keeper, make_server):
    """A log that was reset has the old file names and grew beyond the dump's position. What follows that position is not mixed
    with the dump."""
    server = make_server(*LOG, *MIXED)
    world = make_world("small", server)
    keeper = make_keeper(world).init()

    def begin_anew():
        world.sql("UPDATE mark SET v=3")
        server.sql(RESET)
        world.sql("UPDATE mark SET v=2")
        return server.sql("SHOW MASTER STATUS")[0][:2]
    place = begin_anew()
    keeper.dump()
    held = world.snapshot()
    born = time.time()
    wait_for(lambda: time.time() >= int(born) + 1, "a second in which no log was born yet")
    assert begin_anew() == place
    world.sql("UPDATE player SET points=-1", "DELETE FROM fleet")
    done = crash_unwatched(keeper)
    assert "journal" in done.out and "a different server" in done.out, done
    world.assert_is(held)


def test_a_log_that_is_begun_anew_is_a_gap(make_world, make_keeper, logged):
    """A reset of the log under a reader is a gap, although the server does not report it."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.dump()
    keeper.start()
    following(keeper)
    logged.sql("FLUSH BINARY LOGS", RESET)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    keeper.world.mark(5)
    before = keeper.world.snapshot()
    assert crash(keeper)["lost_seconds"] == 0
    keeper.world.assert_is(before)


def test_a_server_without_log_is_no_trouble_unless_asked_for(make_world, make_keeper, server):
    keeper = keep(make_world, make_keeper, server)
    keeper.start()
    keeper.wait(lambda: journal(keeper).get("state") == "off", "the state off")
    assert "log_bin" in journal(keeper)["reason"]
    assert keeper.stop() == 0
    keeper.configure({"journal": {"mode": "server"}})
    keeper.start()
    keeper.wait_log("no journal: log_bin is off")


# -- dumps without locks -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_fuzzy_dump_is_one_moment(make_world, make_keeper, logged):
    """A dump is taken under heavy writes. Restored by us and by the stock client, it equals the world at the dump's end point, as
    replayed from the log onto an older dump."""
    world = make_world("empty", logged)
    world.sql(*TABLES[:2])
    world.sql("INSERT INTO bank SELECT seq+900000000, 99, CONCAT('filler ',seq), seq FROM seq_1_to_60000")
    keeper = make_keeper(world, {"dump": {"method": "fuzzy"}}).init()
    keeper.dump()
    first = keeper.newest()
    writers = AuditedWriters(world, SEED, tables=("bank", "ship"))
    with writers:
        writers.wait_changes(200)
        dumps = [(keeper.dump(), keeper.newest())[1] for _ in range(3)]
    assert all(d["method"] == "fuzzy" for d in dumps), keeper.log()
    for dump in dumps:
        again = replayed(keeper, first, dump)
        for how in ("ours", "stock"):
            assert restored(keeper, world, dump, how) == again, (SEED, how)


def replayed(keeper, first, dump):
    """Returns the tables at the dump's end point: an older dump, onto which the server's own tools replay the log."""
    server, then = keeper.server, keeper.world.schema + "_log"
    server.sql(f"DROP DATABASE IF EXISTS {ident(then)}", f"CREATE DATABASE {ident(then)}")
    stock_restore(server, keeper.path(first), then)
    start, end = first["end_point"], dump["end_point"]
    assert start["file"] == end["file"]
    sql = subprocess.run(
        [*LOG_READER, f"--rewrite-db={keeper.world.schema}->{then}",
         f"--start-position={start['pos']}", f"--stop-position={end['pos']}",
         os.path.join(server.datadir, end["file"])], stdout=subprocess.PIPE, check=True).stdout
    done = subprocess.run(client(server, then, "mariadb", "--binary-mode"), stderr=subprocess.PIPE,
                          input=b"SET sql_log_bin=0;\n" + sql)
    assert done.returncode == 0, done.stderr
    return sums(server, then)


def restored(keeper, world, dump, how):
    into = f"{world.schema}_{how}"
    keeper.server.sql(f"DROP DATABASE IF EXISTS {ident(into)}")
    keeper.server.account(USER, [world.schema, into])
    if how == "ours":
        keeper.ok("--restore=" + dump["name"], "--into", into)
    else:
        keeper.server.sql(f"CREATE DATABASE {ident(into)}")
        stock_restore(keeper.server, keeper.path(dump), into)
    return sums(keeper.server, into)


def sums(server, schema):
    found = checksums(server, schema)
    server.sql(f"DROP DATABASE {ident(schema)}")
    return {table: found[table] for table in ("bank", "ship")}


@pytest.mark.parametrize("change", ["ALTER TABLE player ADD w INT", "TRUNCATE TABLE player", "again and again"])
def test_a_scan_that_is_disturbed(make_world, make_keeper, logged, change):
    """After an ALTER during the scan, the tables are scanned once more. If that is disturbed too, the dump uses method copy and
    says so. A TRUNCATE is followed."""
    keeper = keep(make_world, make_keeper, logged,
                  settings={"dump": {"method": "auto"}})
    world = keeper.world
    often, changes = change == "again and again", 0
    process = keeper.popen("--dump", "--json", fault="dump.scanned=stop" if often else "dump.scanned#1=stop")

    def disturbed():
        """Makes a change at each stop until the dump ends."""
        nonlocal changes
        for pid in stopped(keeper):
            changes += 1
            world.sql(f"ALTER TABLE player ADD w{changes} INT" if often else change)
            go_on([pid])
        return process.poll() is not None
    wait_for(disturbed, "the dump")
    done = keeper.finish(process)
    assert done.rc == 0 and changes, done
    dump = keeper.newest()
    assert dump["method"] == ("copy" if often else "fuzzy"), (dump, keeper.log())
    why = "using dump method copy this time: " if dump["method"] == "copy" else ""
    assert done.result.get("warning", "").startswith(why) and dump.get("warning") == done.result.get("warning"), done
    assert bool(why) == ("warning" in done.result), done
    into = world.schema + "_x"
    keeper.server.account(USER, [world.schema, into])
    keeper.ok("--restore=" + dump["name"], "--into", into)
    for table in ("player", "fleet", "mark"):
        assert logged.sql(f"CHECKSUM TABLE {table}", schema=into)[0][1] == \
            world.sql(f"CHECKSUM TABLE {table}")[0][1], table
    logged.sql(f"DROP DATABASE {ident(into)}")


def test_the_counter_of_a_fuzzy_dump(make_world, make_keeper, logged):
    """AUTO_INCREMENT in manifest and SQL is that of the moment of the rows, not of the time when the tables were described."""
    world = make_world("empty", logged)
    world.sql("CREATE TABLE ticket (id INT PRIMARY KEY AUTO_INCREMENT, v INT COMMENT ') ENGINE=MEMORY "
              "AUTO_INCREMENT=3') ENGINE=MEMORY COMMENT 'AUTO_INCREMENT=7 of it'",
              "INSERT INTO ticket (v) SELECT seq FROM seq_1_to_20", "DELETE FROM ticket WHERE id>10",
              "CREATE TABLE unused (id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=MEMORY")
    keeper = make_keeper(world, {"dump": {"method": "fuzzy"}}).init()
    process = keeper.popen("--dump", "--json", fault="dump.locked=stop")
    at_work = wait_stopped(keeper, "dump.locked")
    world.sql("INSERT INTO ticket (v) VALUES (1),(2),(3)", "INSERT INTO unused VALUES (),()")
    go_on(at_work)
    done = keeper.finish(process)
    assert done.rc == 0 and done.result["rows"] == 10, done
    told = {t["name"]: t["auto_increment"] for t in keeper.newest()["tables"]}
    assert told["ticket"] == 21 and told["unused"] <= 1, told
    with gzip.open(keeper.path(keeper.newest()), "rt") as f:
        text = f.read()
    assert "\n) ENGINE=MEMORY AUTO_INCREMENT=21 " in text and "AUTO_INCREMENT=24" not in text
    assert "COMMENT='AUTO_INCREMENT=7 of it'" in text and "') ENGINE=MEMORY AUTO_INCREMENT=3'" in text
