"""Gaps in the journal's files: the cause is named, a dump closes the gap, and the changes before it stay usable. Files are
damaged, deleted, or cannot be written."""
import calendar
import json
import os
import random
import re
import shutil
import signal
import time

import pymysql
import pytest
from wk.binlog import RESET, place
from wk.follow import (ONE_DUMP, all_comes_back, another_follower, clock, crash, dump_and_follow, following, journal,
                       kill_follower, live, lose_disk, purge, reload)
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, REFUSED
from wk.audit import TABLES, AuditedWriters
from wk.server import MYSQL
from wk.util import ident, stands_still, wait_for
from wk.watch import Beside

pytestmark = pytest.mark.either_server

SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))

# -- gaps --------------------------------------------------------------------------------------

CHANGES = ["ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3", "RENAME TABLE mark TO mark2",
           "SET SESSION binlog_format=STATEMENT",
           'ALTER TABLE mark ADD KEY k (v) COMMENT "(", ADD w INT NOT NULL DEFAULT 3, ADD KEY l (v) COMMENT ")"']


@pytest.mark.parametrize("change", CHANGES)
def test_a_gap_is_closed_by_a_dump_at_once(make_followed, change):
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql(change, "UPDATE player SET points=1")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.sql("UPDATE player SET points=2 WHERE id<9")
    all_comes_back(keeper)


ELSEWHERE = {"a view": ("STATEMENT", "UPDATE v SET v=77"), "a view, mixed": ("MIXED", "UPDATE v SET v=77"),
             "a trigger": ("STATEMENT", "INSERT INTO t VALUES (1)"), "a function": ("STATEMENT", "SELECT f()")}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_a_statement_in_another_schema_is_a_gap(make_followed, how):
    """A session that logs statements changes the world through an object of another schema, without naming the world."""
    keeper = make_followed()
    world, (logged, change) = keeper.world, ELSEWHERE[how]
    mark = f"{ident(world.schema)}.mark"
    keeper.server.sql("CREATE DATABASE other", "USE other", f"CREATE VIEW v AS SELECT * FROM {mark}",
                      "CREATE TABLE t (a INT) ENGINE=MEMORY",
                      f"CREATE TRIGGER t AFTER INSERT ON t FOR EACH ROW UPDATE {mark} SET v=77",
                      f"CREATE FUNCTION f() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE {mark} SET v=77; RETURN 1; END")
    dump_and_follow(keeper)
    keeper.server.sql("USE other", f"SET SESSION binlog_format={logged}", change)
    assert str(world.value("SELECT v FROM mark")) == "77"
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    all_comes_back(keeper)


def test_before_the_dump_that_closes_a_gap(make_followed):
    """Before the dump that closes a gap, the world is restored as of the moment before the statement that cannot be followed,
    with the reason. test_journal_tables.py tests gaps of one table."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    world.mark(2)
    before = world.snapshot()
    world.sql("SET SESSION binlog_format=STATEMENT", "UPDATE player SET points=1")
    world.sql("UPDATE player SET points=2")
    keeper.wait(lambda: journal(keeper).get("gap"), "the gap")
    keeper.segments.wait_all()
    told = lose_disk(keeper)
    world.assert_is(before)
    assert "UPDATE player" in told["journal"]["gap"] and told["journal"]["filed"] > 0, told


def test_the_end_of_a_gap_is_mailed_though_the_clock_was_set_back(make_followed, smtp):
    """A gap that a dump closes within a minute sends no mail at its end. If the clock was set back meanwhile, it is unknown how
    long the gap lasted, and its end is mailed."""
    keeper = make_followed(settings=smtp.settings())
    keeper.dump()
    keeper.start(fault="dump.locked=stop", **keeper.shim(clock=keeper.clock))
    following(keeper)
    keeper.world.sql(CHANGES[0])
    held = wait_stopped(keeper, "dump.locked")

    def told(m):
        return m.message["X-Worldkeeper-Event"] == "journal"
    gap = smtp.wait(told)[0]
    keeper.set_clock(-7200)
    go_on(held)
    keeper.wait(lambda: not keeper.status()["troubles"], "the gap's end")
    over = smtp.wait(told, n=2)[1]
    assert over.message["In-Reply-To"] == gap.message["Message-ID"], smtp.mails


@pytest.mark.parametrize("end", ["kill9", "stop"])
@pytest.mark.parametrize("change", CHANGES[:2])
def test_a_supervisor_that_ends_before_the_dump_that_closes_a_gap(make_followed, change, end):
    """The next supervisor takes the dump that closes the gap at once; a supervisor after that takes none, because the gap is
    closed."""
    keeper = make_followed()
    world = keeper.world
    first = keeper.dump()["name"]
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    world.sql(change)
    keeper.wait(lambda: journal(keeper).get("gap"), "the gap")
    world.sql("UPDATE player SET points=2 WHERE id=2")
    keeper.segments.wait_all()
    getattr(keeper, end)()
    keeper.start()
    keeper.wait(lambda: keeper.newest()["name"] != first, "the dump at once")
    following(keeper)
    keeper.stop()
    second = keeper.newest()["name"]
    keeper.start()
    following(keeper)
    assert keeper.newest()["name"] == second
    world.sql("UPDATE player SET points=3 WHERE id=2")
    all_comes_back(keeper)


def test_the_newest_gap_is_kept_where_not_all_have_room(make_world, make_keeper, make_server):
    """If not all gaps fit into state.json, the newest one is kept."""
    server = make_server("--log-bin=" + "l" * 150, "--binlog-format=ROW", "--log-bin-trust-function-creators=ON")
    keeper = make_keeper(make_world("small", server), {"journal": {"mode": "server"}}).init()
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    keeper.wait(lambda: journal(keeper).get("state") == "following", "the journal")
    names = [f"{n:x<50}" for n in range(10, 23)]
    for n in names:
        keeper.world.sql(f"ALTER TABLE mark ADD `{n}` INT")
    state = os.path.join(keeper.dumps_dir, "state.json")

    def newest():
        with open(state, encoding="utf-8") as f:
            kept = json.load(f)["gaps"]
        return kept and json.loads(kept)[-1]["why"]
    keeper.wait(lambda: names[-1] in newest(), lambda: f"the newest gap, not {newest()}")


def test_a_moment_after_a_gap_that_only_the_state_shows(make_followed):
    """--at refuses a moment after a gap that was seen while the server was up, although the log no longer shows it. The last
    moment before the gap, which the hint names, is restored."""
    keeper = make_followed(settings={"journal": {"mode": "server"}})
    world, server = keeper.world, keeper.server
    dump = keeper.dump()["name"]
    clock(server)
    world.mark(2)
    before = world.snapshot()
    gap = clock(server)
    world.mark(3)
    at = clock(server)
    path = os.path.join(keeper.dumps_dir, "state.json")
    with open(path, encoding="utf-8") as f:
        state = json.load(f)
    state["gaps"] = json.dumps([{"at": calendar.timegm(time.strptime(gap, "%Y-%m-%dT%H:%M:%SZ")) * 1000 + 500, "file": "", "pos": 0, "why": "the log was off", "dump": dump,
                                 "log": True}])
    with open(path, "w", encoding="utf-8") as f:
        json.dump(state, f)
    refused = keeper.run("--restore", "--at", at, "--force")
    assert refused.rc == REFUSED and "the log was off" in refused.err, refused
    assert f"the last moment before the gap is --at {gap}" in refused.err, refused
    keeper.ok("--restore", "--at", gap, "--force")
    world.assert_is(before)


@pytest.mark.parametrize("nonce", ["nobody's", "the world's"])
def test_a_forged_mark_of_a_restore_is_a_gap(make_followed, nonce):
    """A statement with a forged marker of a restore is a gap like any other such statement: it is reported and a dump follows at
    once."""
    keeper = make_followed()
    world = keeper.world
    dump = keeper.dump()
    keeper.start()
    following(keeper)
    forged = ("f" * 32 if nonce == "nobody's" else
              world.sql("SELECT nonce FROM worldkeeper_sentinel")[0][0])
    world.sql(f"RENAME TABLE mark TO mark2 /* worldkeeper restored {dump['name']} as {forged} */")
    keeper.wait_log("table mark, 1 row in the last dump, was renamed at")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.sql("UPDATE player SET points=2 WHERE id<9")
    all_comes_back(keeper)


COMMENTS = ["/* generated by server for memory table after a restart */",
            "/* generated by server, implicitly emptying in-memory table */"]


@pytest.mark.parametrize("comment", COMMENTS)
def test_the_comment_of_a_restart_is_no_restart(make_followed, comment):
    """A restarted server empties each MEMORY table with a commented statement, which any client can imitate. An imitation empties
    one table, and later changes are kept."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql(f"TRUNCATE TABLE `{world.schema}`.`mark` {comment}")
    world.sql("UPDATE player SET points=2 WHERE id<9", "INSERT INTO player (nick,points) VALUES ('after',1)")
    all_comes_back(keeper)
    assert len(keeper.dumps()) == 1 or "gap" not in keeper.log()


def test_the_mark_of_a_restore_is_no_gap(make_followed):
    """The markers of our own restores, over a living and after a lost world, are not gaps."""
    keeper = make_followed()
    dump_and_follow(keeper)
    for _ in range(2):
        keeper.ok("--restore", "--force")
        following(keeper)
    crash(keeper)
    following(keeper)
    keeper.world.mark(2)
    all_comes_back(keeper)
    assert "the marker of a restore" not in keeper.log()


def test_half_a_swap_that_is_undone_is_no_gap(make_followed):
    """If the server died inside the RENAME, the next restore renames the tables back. This is not a gap, and the journal
    continues."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    before = world.snapshot()
    keeper.stop()
    keeper.server.crash()
    died = keeper.run("--restore", fault="restore.before_rename=kill")
    assert died.rc != DONE, died
    with open(os.path.join(keeper.dumps_dir, "pending.json")) as f:
        order = json.load(f)["tables"]
    old, new = (f"worldkeeper_tmp_{age}_{order.index('player'):06}" for age in ("old", "new"))
    world.sql("SET sql_log_bin=0", f"RENAME TABLE player TO {old}, {new} TO player")
    keeper.server.crash()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    world.assert_is(before)
    world.mark(3)
    all_comes_back(keeper)
    assert "cannot continue" not in keeper.log().partition("restore begins")[2].partition("restore begins")[0]


def test_a_definition_that_changed_without_a_word(make_followed):
    """After an ALTER with sql_log_bin=0, the first row of the new form is a gap. Changes after the dump that closes it are
    written in the new form."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql("SET sql_log_bin=0", "ALTER TABLE player ADD w INT NOT NULL DEFAULT 3")
    world.sql("UPDATE player SET points=1")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.sql("UPDATE player SET points=2, w=4 WHERE id<9")
    all_comes_back(keeper)


# -- tables that are new -----------------------------------------------------------------------

FRESH = "CREATE TABLE fresh (id INT PRIMARY KEY) ENGINE=MEMORY"
# These statements leave it unknown which rows a new table began with; test_journal_tables.py has the others.
NEW = {
    "not logged": ["SET sql_log_bin=0", FRESH, "INSERT INTO fresh VALUES (1)", "SET sql_log_bin=1",
                   "UPDATE fresh SET id=2"],
    "rows of two": ["SET sql_log_bin=0", FRESH, "CREATE TABLE aside (id INT PRIMARY KEY) ENGINE=MyISAM",
                    "INSERT INTO fresh VALUES (1)", "INSERT INTO aside VALUES (1)", "SET sql_log_bin=1",
                    "UPDATE fresh, aside SET fresh.id=2, aside.id=2", "DROP TABLE aside"],
    "from elsewhere": ["CREATE TABLE {o}.fresh (id INT PRIMARY KEY) ENGINE=MEMORY",
                       "INSERT INTO {o}.fresh VALUES (1)", "RENAME TABLE {o}.fresh TO fresh"],
    "from a query": ["CREATE TABLE fresh (id INT PRIMARY KEY) ENGINE=MEMORY SELECT id FROM mark"],
}
WAYS = [pytest.param(how, marks=pytest.mark.only("mariadb", why="with gtid_mode = ON MySQL makes no table from a query")
                     if how == "from a query" else ()) for how in NEW]


@pytest.fixture
def new_table(make_followed):
    """Returns new_table(statements) -> (keeper, statements)."""
    made = []

    def make(how):
        keeper = make_followed()
        made.append((keeper.server, ident(keeper.world.schema + "_o")))
        keeper.server.sql(f"CREATE DATABASE {made[-1][1]}")
        return keeper, [s.format(o=made[-1][1]) for s in how]
    yield make
    for server, schema in made:
        if server.process:
            server.sql(f"DROP DATABASE IF EXISTS {schema}")


@pytest.mark.parametrize("how", WAYS)
def test_a_new_table_is_a_gap(new_table, how):
    """A table whose first rows are unknown is in no dump; a dump is taken at once."""
    keeper, statements = new_table(NEW[how])
    world = keeper.world
    dump_and_follow(keeper)
    world.sql(*statements)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    all_comes_back(keeper)


@pytest.mark.parametrize("how", WAYS)
def test_before_the_dump_of_a_new_table(new_table, how):
    """Until that dump is stored, all other tables are restored with later changes; the new table's rows are reported as lost."""
    keeper, statements = new_table(NEW[how])
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    world.mark(2)
    world.sql(*statements)
    world.mark(3)
    before = {k: v for k, v in world.snapshot().items() if "fresh" not in k}
    keeper.wait(lambda: journal(keeper).get("gap"), "the gap")
    keeper.segments.wait_all()
    told = lose_disk(keeper)
    assert {k: v for k, v in world.snapshot().items() if "fresh" not in k} == before
    assert "fresh" in told["journal"]["gap"] and not told["journal"]["whole"], told


@pytest.mark.parametrize("how", WAYS)
def test_a_table_that_came_while_nobody_followed(new_table, how):
    """A table that was created without a supervisor is restored with its rows, dumped at once because of a gap, or reported as
    restored without its rows."""
    keeper, statements = new_table(NEW[how])
    world = keeper.world
    keeper.dump()
    world.sql(*statements)
    keeper.start()
    if how == "from elsewhere":
        keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    before = world.snapshot()
    told = crash(keeper)
    lost = [] if told["lost_seconds"] == 0 else ["rows fresh", "table fresh"]
    assert not lost or "table fresh, which is in no dump yet, is restored without its rows" in told["journal"]["gap"], told
    now = world.snapshot()
    assert {k: v for k, v in now.items() if k not in lost} == {k: v for k, v in before.items() if k not in lost}


def test_a_log_that_is_begun_anew(make_followed):
    """After RESET MASTER a dump is taken at once, and the segments begin again after it."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", RESET)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(5)
    all_comes_back(keeper)


@pytest.fixture
def damaged(make_followed):
    """Returns (keeper, writers, path): four segments since the dump, the second of which (path) has a changed byte."""
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}}, TABLES)
    dump_and_follow(keeper)
    with AuditedWriters(keeper.world, SEED, count=2) as writers:
        keeper.wait(lambda: len(keeper.segments.paths()) >= 4, "four segments")
    keeper.segments.wait_all()
    path = keeper.segments.paths()[1]
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 0x40]))
    return keeper, writers, path


def test_damage_where_the_log_is_there(damaged):
    """If a segment is damaged, its changes are read from the server's log: nothing is lost, and the damage is logged."""
    keeper, writers, path = damaged
    told = crash(keeper)
    writers.audit()
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
    assert f"{os.path.basename(path)} is damaged at byte" in keeper.log()


def test_damage_where_the_log_is_gone(damaged):
    """Without the server's log the world is restored as of the damage, and file and byte are named."""
    keeper, writers, path = damaged
    names = [os.path.basename(p) for p in keeper.segments.paths()]
    lines = keeper.segments.lines(*names[:2])
    assert lines[-1].startswith("error ")
    good = sum(line.split()[0] in ("insert", "update", "delete", "replace") for line in lines)
    told = lose_disk(keeper)
    _, lost = writers.audit_cut(time.monotonic())
    assert lost > 0 and told["journal"]["filed"] == told["journal"]["changes"] == good, (told, good)
    assert f"{names[1]} is damaged at byte" in told["journal"]["gap"], told
    assert not told["journal"]["whole"]


@pytest.mark.parametrize("mode,fault", [
    ("server", None), ("follow", None),
    # When the dump is stored, the next worker has begun after the damage and has written nothing yet.
    ("follow", "dump.streamed=sleep:1500,journal.marker#1=sleep:2500")])
def test_a_damaged_log(make_followed, mode, fault):
    """A damaged log is a gap: it is reported once, and a dump after it closes it, also if the segments end before it."""
    keeper = make_followed(settings={"journal": {"mode": mode}})
    world = keeper.world
    dump_and_follow(keeper)
    assert keeper.stop() == 0
    world.sql("INSERT INTO chat VALUES (1,'a byte of this changes')")
    log = os.path.join(keeper.server.datadir, world.sql("SHOW MASTER STATUS")[0][0])
    with open(log, "r+b") as f:
        f.seek(f.read().rindex(b"a byte of this"))
        f.write(b"X")
    keeper.start(fault=fault)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    if mode == "follow":
        keeper.segments.wait_all()
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
    assert keeper.log().count("the journal cannot continue") == 1, keeper.log()
    assert "the journal is not followed" not in keeper.log()


def close_log(server):
    """Makes the server close its log permanently, as a full disk does when the next file has to be created."""
    server.sql("FLUSH ENGINE LOGS")  # a closed log could not resolve transactions that InnoDB prepared
    os.chmod(server.datadir, 0o555)
    try:
        with pytest.raises(pymysql.err.Error):
            server.sql("FLUSH BINARY LOGS")
    finally:
        os.chmod(server.datadir, 0o755)
    assert not server.sql("SHOW MASTER STATUS") and server.value("SELECT @@log_bin") == 1


@pytest.mark.parametrize("mode, seen", [("server", True), ("follow", True), ("server", False)])
def test_a_log_that_the_server_closes(make_followed, mode, seen):
    """If the server closes its log, a dump is taken at once, and later changes are not called safe, also if the follower died
    before it noticed."""
    keeper = make_followed(settings={"journal": {"mode": mode}},
                           options=["--binlog-error-action=IGNORE_ERROR"] if MYSQL else [])
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(3)  # before the dump that follows the closing of the log
    dumped = world.snapshot()
    reader = None if seen else kill_follower(keeper, signal.SIGSTOP)
    close_log(keeper.server)
    if reader:
        os.kill(reader, signal.SIGKILL)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    found = keeper.wait(lambda: (lambda j: j.get("state") == "off" and j)(journal(keeper)), "the end of the journal")
    assert "closed its binary log" in found["reason"], found
    checked = keeper.run("--check")
    assert checked.rc == 1 and "closed its binary log" in checked.out, checked
    assert "the journal continues from it" not in keeper.log()
    world.mark(4)
    told = crash(keeper)
    world.assert_is(dumped)
    assert not told["journal"]["whole"] and "binlog position" in told["journal"]["gap"], told
    following(keeper)
    world.mark(5)
    before = world.snapshot()
    assert crash(keeper)["journal"]["whole"]
    world.assert_is(before)


@pytest.mark.only("mariadb", why="a MySQL that closes its log says nothing of it there, and ends as a rule")
def test_a_log_that_was_closed_while_nobody_looked(make_followed):
    """The end of the log shows that the server closed it."""
    keeper = make_followed(settings={"journal": {"mode": "server"}})
    world = keeper.world
    keeper.dump()
    world.mark(3)
    before = world.snapshot()
    close_log(keeper.server)
    world.mark(4)
    keeper.server.crash()
    done = keeper.ok("--restore", "--json")
    world.assert_is(before)
    assert "closed its binary log" in done["journal"]["gap"] and not done["journal"]["whole"], done


def test_an_end_that_was_purged_meanwhile(make_followed):
    """If the log was purged while no supervisor ran, the next one takes a dump at once, and later changes are safe."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    assert keeper.stop() == 0
    world.mark(2)
    purge(keeper.server)
    keeper.start()
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    all_comes_back(keeper)


def test_segments_that_somebody_deleted(make_followed):
    """Segments must reach back to the newest dump; if some were deleted, they are written again from there."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    assert keeper.stop() == 0
    first = keeper.segments.paths()
    keeper.start()
    following(keeper)
    world.mark(3)
    keeper.segments.wait_all()
    assert keeper.stop() == 0
    for path in first:
        os.unlink(path)
    keeper.start()
    following(keeper)
    all_comes_back(keeper)


def test_the_first_dump_and_the_first_segment_meet(make_followed):
    """Without any dump, a supervisor makes the first dump and the first segment so that no change is missing, whichever comes
    first."""
    keeper = make_followed("empty", tables=TABLES)
    with AuditedWriters(keeper.world, SEED, count=2) as writers:
        keeper.start()
        keeper.wait(lambda: keeper.dumps(), "the first dump")
        following(keeper)
        writers.wait_changes(100)
    keeper.segments.wait_all()
    lose_disk(keeper)
    writers.audit()


def test_segments_of_another_log(make_followed):
    """A new server may have the old one's id (MariaDB) and names of log files. Segments of the old server are not taken for
    changes of the new one."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    for n in range(300):
        world.sql(f"UPDATE player SET points={n} WHERE id<20")
    keeper.segments.wait_all()
    old = keeper.segments.end()
    reload(keeper, {"journal": {"mode": "server"}})
    name = "SELECT @@server_uuid" if MYSQL else "SELECT @@server_uid"
    uid = keeper.server.value(name)
    wait_for(lambda: time.monotonic() - keeper.server.started > 4, "a server that is no twin in its age")
    lose_disk(keeper)
    assert (keeper.server.value(name) == uid) == (not MYSQL)
    following(keeper)
    for n in range(100):
        world.sql(f"UPDATE player SET points=-{n} WHERE id<20")
    keeper.dump()
    assert keeper.server.sql("SHOW MASTER STATUS")[0][:2] < old
    world.mark(5)
    before = world.snapshot()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told


# -- trouble with the files --------------------------------------------------------------------


def quiet(keeper, seconds):
    """Returns (lines of the log, dumps) per this number of seconds."""
    before, began = (keeper.log().count("\n"), len(keeper.dumps())), time.monotonic()
    time.sleep(seconds)
    after, took = (keeper.log().count("\n"), len(keeper.dumps())), time.monotonic() - began
    return [(b - a) * seconds / took for a, b in zip(before, after)]


def fill(disk, left=0):
    """Fills a disk with a file, up to so many bytes."""
    room = os.statvfs(disk)
    with open(os.path.join(disk, "filler"), "wb") as f:
        f.write(b"x" * (room.f_bavail * room.f_bsize - left))


@pytest.mark.waits(1)
@pytest.mark.slow
def test_a_full_disk(make_followed, small_disk, http):
    """A full disk is reported once and a dump follows. While it lasts, dumps and log lines stay few; once there is space, the
    segments continue."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments"),
                                                 "segment": "64KiB"}, **http.settings()},
                           seen=os.path.join(seen, "segments"), prefix=prefix)
    world = keeper.world
    dump_and_follow(keeper)
    fill(seen, left=8 * 1024)
    world.sql("UPDATE player SET points=points+1")
    found = keeper.wait(lambda: (lambda j: j.get("gap") and j)(journal(keeper)), "the gap")
    assert re.match("the journal cannot continue: cannot .*space", found["reason"]), found
    http.wait_event("journal")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    with Beating(world):
        lines, dumps = quiet(keeper, 8)
    assert dumps <= 1 and lines <= 12, keeper.log()
    assert len([e for e in http.events() if e == "journal"]) <= 4, http.messages()
    os.unlink(os.path.join(seen, "filler"))
    following(keeper)
    world.mark(7)
    all_comes_back(keeper)


def test_a_server_without_a_log(make_world, make_keeper, server, http):
    """mode = follow on a server without a binary log is reported as a problem and a failure of --check, and dumps work."""
    keeper = make_keeper(make_world("small", server), {"journal": {"mode": "follow"},
                                                       **http.settings()}).init()
    keeper.start()
    http.wait_event("journal")
    assert live(keeper)["state"] == "off" and "log_bin" in live(keeper)["reason"]
    assert live(keeper)["mode"] == "follow"
    found = [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == "journal"]
    assert found[0]["level"] == "fail", found
    keeper.dump()


def logged(keeper):
    """Returns the bytes of the server's log after the end of the newest dump; it is one file here."""
    return int(place(keeper.server)[1]) - keeper.newest()["end_point"]["pos"]


@pytest.mark.slow
@pytest.mark.waits(1)
@pytest.mark.parametrize("again", [False, True])
def test_a_disk_that_is_full_of_segments(make_followed, small_disk, again):
    """If segments fill the disk, the dump that is taken at once makes old ones unnecessary; they are deleted without an
    operator. So it is if the changes after that dump fill the disk again, before the journal is written again."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments"),
                                                     "segment": "64KiB"}, **ONE_DUMP},
                           seen=os.path.join(seen, "segments"), prefix=prefix)
    world = keeper.world
    dump_and_follow(keeper)
    with Beating(world, 600):
        keeper.wait(lambda: len(keeper.dumps()) == 1 and keeper.newest()["sequence"] > 1,
                    "the dump at once")
        if again:
            wait_for(lambda: logged(keeper) > 600 << 10, "more changes than the disk holds")
    keeper.wait(lambda: keeper.segments.numbers()[0] > 1, "the old ones to go")
    following(keeper)
    world.mark(7)
    all_comes_back(keeper)


def test_a_full_disk_when_a_killed_journal_continues(make_followed, small_disk):
    """Segments that no dump needs are deleted before the last one is completed, which needs room."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments"), "segment": "64KiB"}, **ONE_DUMP},
                           seen=os.path.join(seen, "segments"), prefix=prefix)
    dump_and_follow(keeper)
    with Beating(keeper.world, 600):
        keeper.wait(lambda: len(keeper.segments.paths()) > 2, "segments")
    keeper.segments.wait_all()
    keeper.kill9()
    keeper.dump()
    fill(seen)
    keeper.start()
    following(keeper)
    assert keeper.segments.numbers()[0] > 1
    keeper.world.mark(7)
    all_comes_back(keeper)


class Beating(Beside):
    """Changes some rows slowly, as a game does."""

    def __init__(self, world, rows=8):
        super().__init__()
        self.world, self.rows = world, rows

    def work(self):
        n = 0
        while not self.ended.is_set():
            n += 1
            self.world.sql(f"UPDATE player SET points={n} WHERE id<={self.rows}")
            time.sleep(0.1)


def test_the_directory_is_removed(make_followed):
    """If the directory is removed, new segments are written although the writer gets no error from its deleted file."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    shutil.rmtree(keeper.segments.dir)
    world.mark(3)
    keeper.wait(keeper.segments.paths, "segments again")
    world.mark(4)
    all_comes_back(keeper)


def test_no_directory_at_all(make_followed, tmp, http):
    """If the directory cannot be created, this is reported, dumps work, and creation is retried until it succeeds."""
    path = os.path.join(tmp, "journal")
    with open(path, "w"):
        pass
    keeper = make_followed(settings={"journal": {"dir": path}, **http.settings()})
    world = keeper.world
    keeper.dump()
    keeper.start()
    keeper.wait(lambda: journal(keeper).get("state") == "failed" and path in journal(keeper)["reason"],
                "the trouble")
    http.wait_event("journal")
    keeper.dump()
    os.unlink(path)
    keeper.wait(keeper.segments.paths, "segments")
    world.mark(3)
    all_comes_back(keeper)


def test_files_that_fail_when_no_journal_is_asked_for_any_more(make_followed, tmp, http):
    path = os.path.join(tmp, "journal")
    with open(path, "w"):
        pass
    keeper = make_followed(settings={"journal": {"dir": path}, **http.settings()})
    keeper.dump()
    keeper.start()
    keeper.wait(lambda: live(keeper).get("gap"), "the gap")
    keeper.reload({"journal": {"mode": "off"}})
    keeper.expect("the end of all of it", troubles=[])
    wait_for(lambda: sum(m["kind"] == "recovered" for m in http.messages() if m["event"] == "journal") >= 2, "both ends")


def test_a_gap_outlives_the_files_and_a_dump_that_failed(make_followed):
    """A gap stays open until a dump is stored, also if the files can be written again."""
    keeper = make_followed()
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    shutil.rmtree(keeper.segments.dir)
    with open(keeper.segments.dir, "w"):
        pass
    keeper.wait_log("dump failed")
    os.unlink(keeper.segments.dir)
    keeper.wait_log("the journal is followed again")
    assert live(keeper)["gap"] and len(keeper.dumps()) == 1, keeper.log()


def test_a_gap_is_told_again_after_no_journal_was_asked_for(make_followed):
    """A gap after a log reset is reported again after the journal was switched off and on, because changes since then are in no
    dump."""
    keeper = make_followed()
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    keeper.world.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", RESET)
    keeper.wait(lambda: live(keeper).get("gap"), "the gap")
    keeper.reload({"journal": {"mode": "off"}})
    keeper.expect("no journal", journal=None)
    keeper.reload({"journal": {"mode": "follow"}})
    keeper.wait(lambda: live(keeper).get("state") == "following", "the journal")
    assert live(keeper)["gap"] and len(keeper.dumps()) == 1, keeper.log()


def test_a_server_that_takes_no_writes(make_followed, http):
    """If the server is read-only, each follower fails at its first marker. This is one condition, which is reported once and ends
    with the first marker that arrives."""
    keeper = make_followed(settings=http.settings())
    dump_and_follow(keeper)
    with keeper.server.admin() as con, con.cursor() as cur:
        def connections():
            cur.execute("SHOW GLOBAL STATUS LIKE 'Connections'")
            return int(cur.fetchone()[1])
        cur.execute("SET GLOBAL read_only=1")
        keeper.wait_log("(1290)")
        before = connections()
        keeper.wait(lambda: connections() >= before + 5, "three more followers, of two connections each")
        cur.execute("SET GLOBAL read_only=0")
    keeper.wait_log("followed again")
    assert keeper.log().count("(1290)") == 1 and keeper.log().count("followed again") == 1
    told = wait_for(lambda: (lambda m: m[1:] and m)([m["kind"] for m in http.messages() if m["event"] == "journal"]),
                    "its end to be told")
    assert told == ["new", "recovered"], told


def test_a_journal_that_failed_and_cannot_be(make_followed, http):
    """With mode = auto, a journal that becomes impossible is reported, also by the next supervisor, until it is followed again or
    switched off."""
    keeper = make_followed(settings={"journal": {"mode": "auto"}, **http.settings()})

    def told(kind, words):
        wait_for(lambda: [m for m in http.messages() if m["event"] == "journal" and m["kind"] == kind
                          and words in m["what"]], f"{words} to be told")
    dump_and_follow(keeper)
    keeper.wait(lambda: live(keeper).get("behind_seconds") is not None, "a marker that came through: it was followed")
    keeper.server.sql("SET GLOBAL binlog_format=STATEMENT")
    kill_follower(keeper)
    told("new", "no journal: binlog_format")
    keeper.expect("the trouble", troubles=lambda all_: ["no journal" in t["what"] for t in all_] == [True])
    assert "lost with the server" in next(m for m in http.messages() if "no journal" in m["what"])["doing"]
    http.requests.clear()
    assert keeper.stop() == 0
    keeper.start()
    told("new", "no journal: binlog_format")
    keeper.configure({"journal": {"mode": "off"}})
    keeper.process.send_signal(signal.SIGHUP)
    told("recovered", "no journal is configured")
    keeper.wait(lambda: keeper.status()["troubles"] == [], "its end")
    http.requests.clear()
    keeper.configure({"journal": {"mode": "auto"}})
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: journal(keeper) and journal(keeper)["state"] == "off", "no journal again")
    assert keeper.status()["troubles"] == [] and "journal" not in http.events()


def test_a_journal_that_was_followed_while_a_job_read_the_state(make_followed, http):
    """A cleanup job read state.json before the journal was followed. state.json still records afterwards that it was
    followed, so that its end is reported and no dump claims that a journal continues."""
    keeper = make_followed(settings={"journal": {"mode": "auto"}, **http.settings()})
    keeper.dump()
    keeper.start(fault="tidy.loaded=stop")
    job = keeper.wait(lambda: keeper.worker("job"), "the job that tidies")
    keeper.wait(lambda: stands_still(job), "it to have read the state")
    keeper.wait(lambda: live(keeper).get("behind_seconds") is not None, "a marker that came through")
    os.kill(job, signal.SIGCONT)
    keeper.wait_log("tidy done")
    keeper.server.sql("SET GLOBAL binlog_format=STATEMENT")
    kill_follower(keeper)
    keeper.expect("the trouble", troubles=lambda all_: ["no journal" in t["what"] for t in all_] == [True])
    ended = wait_for(lambda: (lambda m: all(words in str(m) for words in ("no journal: binlog", "a dump was stored")) and m)(
        [m for m in http.messages() if m["event"] == "journal"]), "the end of the gap to be told")
    assert [m["kind"] for m in ended if "no journal: binlog" in m["what"]] == ["new"], ended
    assert ended[-1]["what"] == "a dump was stored, but no journal continues from it", ended


def test_a_follower_that_hangs_before_it_reads(make_followed):
    """A follower that connects and then proves nothing is late, like one that reads and falls behind."""
    keeper = make_followed(settings={"alert": {"journal_lag_limit": "2s"}})
    keeper.dump()
    keeper.start(fault="journal.connected#1=stop")
    hangs = wait_stopped(keeper, "journal.connected")
    keeper.expect("it is reported", troubles=lambda t: any("behind (journal_lag_limit" in x["what"] for x in t))
    go_on(hangs)
    keeper.expect("it is over", troubles=lambda t: t == [])


def test_behind_until_a_beat_comes_through(make_followed):
    """A lag does not end when the follower dies and the next one begins, only when a marker arrives."""
    keeper = make_followed(settings={"alert": {"journal_lag_limit": "2s"}})
    dump_and_follow(keeper)
    with keeper.server.admin() as con, con.cursor() as cur:
        cur.execute("FLUSH TABLES WITH READ LOCK")
        # On a slow machine it may have lagged before and have caught up.
        keeper.wait(lambda: (live(keeper).get("behind_seconds") or 0) > 2 and
                    keeper.log().rfind("behind (journal_lag_limit") > keeper.log().rfind("within its limit"), "the lag")
        known = len(keeper.log())
        another_follower(keeper)
        keeper.wait(lambda: live(keeper)["state"] == "following", "another one at work")
        assert "within its limit" not in keeper.log()[known:], keeper.log()
    keeper.wait(lambda: "within its limit" in keeper.log()[known:], "the end of the lag")


@pytest.mark.parametrize("end, words", [("another supervisor", "within its limit"), ("no log", "is not behind"),
                                        ("no journal", "no journal is configured")])
def test_the_end_of_a_lag_is_told(make_followed, http, end, words):
    keeper = make_followed(settings={"journal": {"mode": "auto"}, "alert": {"journal_lag_limit": "2s"}, **http.settings()})
    dump_and_follow(keeper)
    with keeper.server.admin() as con, con.cursor() as cur:
        cur.execute("FLUSH TABLES WITH READ LOCK")
        wait_for(lambda: any("(journal_lag_limit" in m["what"] for m in http.messages()), "the lag to be told")
        if end == "another supervisor":
            keeper.kill9()
            cur.execute("UNLOCK TABLES")
            keeper.start()
        elif end == "no log":
            keeper.server.sql("SET GLOBAL binlog_format=STATEMENT")
            kill_follower(keeper)
        else:
            keeper.reload({"journal": {"mode": "off"}})
        wait_for(lambda: any(words in m["what"] and m["kind"] == "recovered" for m in http.messages()), "its end to be told")
