"""The journal in our own files: the world is complete, except for the last second, even if the server's disk is lost. Changes
that could not be written, or were damaged, are detected and named."""
import os
import random
import shutil
import signal
import time
from types import SimpleNamespace

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.follow import (ONE_DUMP, all_comes_back, another_follower, another_server, crash, dump_and_follow, follower, following,
                       journal, kill_follower, live, lose_disk, purge, reload, restored)
from wk.audit import TABLES, AuditedWriters
from wk.keeper import FAILED
from wk.segments import Segments
from wk.snapshot import assert_same, snapshot
from wk.util import PATIENCE, wait_for
from wk.watch import DiskPace, Lateness

pytestmark = pytest.mark.either_server

ROUNDS = int(os.environ.get("WK_KILL_ROUNDS", "3"))
SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))
NOW = 1.0  # seconds; older changes are in the segments on disk
BUSY = 2.0  # the same while other processes keep the disk busy
SLOW_DISK_MS = 150  # for 4 KiB; a slower disk counts as busy


# -- the server's disk is gone -----------------------------------------------------------------


def histogram(ages):
    """Prints how many losses cost how much."""
    edges = [0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, float("inf")]
    for low, high in zip(edges, edges[1:]):
        n = sum(low <= age < high for age in ages)
        if n:
            print(f"  {low * 1000:5.0f} to {high * 1000:5.0f} ms: {'#' * n} {n}")


def allowed(late, disk):
    """Returns how old a lost change may be, in seconds. The machine's own delay is added for each stage that a change passes
    through (game, server, follower, disk)."""
    return (BUSY if disk.worst_ms > SLOW_DISK_MS else NOW) + (4 * late.worst_ms + disk.worst_ms) / 1000


def test_kills_without_the_disk(make_followed, tmp):
    """The server's disk is lost at random moments, also during a dump, with or without the supervisor or on a busy disk. The
    restored world is of one moment and has every change that was acknowledged a second (busy: two) before the loss once."""
    print("seed", SEED)
    rand = random.Random(SEED)
    keeper = make_followed("empty", tables=TABLES)
    keeper.dump()
    keeper.start()
    writers, costs = AuditedWriters(keeper.world, SEED), {"machine": [], "server": [], "busy": []}
    for n in range(ROUNDS):
        following(keeper)
        kind = list(costs)[n % 3]
        with Lateness() as late, DiskPace(tmp, kind == "busy") as disk, writers:
            writers.wait_changes(50)
            time.sleep(rand.random() * 1.5)
            dump = keeper.popen("--dump") if rand.random() < 0.3 else None
            time.sleep(rand.random() * 0.2)
            before = keeper.status().get("last_restore")
            keeper.server.grow_old()
            killed = time.monotonic()
            if kind != "server":
                keeper.kill9()
            keeper.server.kill9()
        if dump:
            dump.communicate(timeout=PATIENCE)
        another_server(keeper)
        if kind != "server":
            keeper.start(state=None)
        told = restored(keeper, before)
        age, lost = writers.audit_cut(killed)
        costs[kind].append(age)
        limit = allowed(late, disk)
        print(f"{kind:7} lost {lost:4} changes, the oldest {age * 1000:4.0f} ms before; disk "
              f"{disk.worst_ms:.0f} ms, machine {late.worst_ms:.0f} ms, dump {bool(dump)}, "
              f"told {told['lost']}")
        assert age < limit, (SEED, n, kind, age, limit)
        assert told["ok"] and told["lost_seconds_max"] >= age and (told["lost_seconds"] is None) >= bool(lost), told
    for kind, ages in costs.items():
        print(f"{kind}: {len(ages)} losses, the worst {max(ages, default=0) * 1000:.0f} ms")
        histogram(ages)
    print(writers.changes, "changes acknowledged")


@pytest.mark.parametrize("when", ["finalized", "open"])
def test_in_another_place(make_followed, make_keeper, make_server, when):
    """Copied dumps and segments restore the world elsewhere without a supervisor, a schema or a binary log, also if they were
    copied while the last segment was being written."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    for v in range(2, 5):
        world.mark(v)
    world.sql("UPDATE player SET id=id+100000 WHERE id<50", "DELETE FROM chat WHERE who=3 LIMIT 5",
              "INSERT INTO player (nick,points) VALUES ('new',1)")
    before = world.snapshot()
    keeper.segments.wait_all()
    if when == "finalized":
        assert keeper.stop() == 0
    assert keeper.segments.finalized()[-1] == (when == "finalized")
    other = make_keeper(SimpleNamespace(server=make_server(), schema=world.schema),
                        {"journal": {"mode": "follow"}})
    for path in os.listdir(keeper.dumps_dir):
        if path.endswith((".sql.gz", ".json")) and path != "state.json":
            shutil.copy(os.path.join(keeper.dumps_dir, path), other.dumps_dir)
    shutil.copytree(keeper.segments.dir, os.path.join(other.dumps_dir, "journal"))
    done = other.ok("--restore", "--json")
    assert done["journal"]["filed"] == done["journal"]["changes"] > 0, done
    assert_same(before, snapshot(other.server, world.schema), "in the other place")


@pytest.mark.quick
def test_by_hand_on_a_new_server(make_followed):
    """If [restore] new_server = no, the supervisor waits for an operator; a manual restore gives the same world."""
    keeper = make_followed(settings={"restore": {"new_server": "no"}})
    dump_and_follow(keeper)
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    another_server(keeper)
    keeper.wait_state("WAITING")
    keeper.wait_verdict("MISSING")
    seen = keeper.ok("--restore", "--dry-run", "--json")
    assert not keeper.world.sql("SHOW TABLES") and seen["journal"]["filed"] > 0, seen
    done = keeper.ok("--restore", "--json")
    keeper.world.assert_is(before)
    assert done["journal"]["filed"] == seen["journal"]["filed"], (done, seen)
    keeper.wait_state("UP")
    following(keeper)


@pytest.mark.parametrize("change, rows", [
    ("DROP INDEX v", "INSERT INTO few VALUES (3,1)"), ("MAX_ROWS=100000", "INSERT INTO few SELECT id+10, id+10 FROM player")])
def test_a_table_that_takes_more_rows_than_in_the_dump(make_followed, change, rows):
    """A new server creates the table as in the dump, which may reject later rows. The restore fails with the table's name, and
    succeeds after the table was created in its last form."""
    keeper = make_followed()
    world = keeper.world
    world.sql("CREATE TABLE few (id INT PRIMARY KEY, v INT, UNIQUE KEY v (v)) ENGINE=MEMORY MAX_ROWS=10",
              "INSERT INTO few VALUES (1,1),(2,2)")
    dump_and_follow(keeper)
    world.sql(f"ALTER TABLE few {change}", rows)
    before, last = world.snapshot(), world.sql("SHOW CREATE TABLE few")[0][1]
    keeper.segments.wait_all()
    keeper.stop()
    another_server(keeper)
    done = keeper.run("--restore")
    assert done.rc == FAILED and "table few" in done.err, done
    world.sql(last)
    keeper.ok("--restore")
    world.assert_is(before)


# -- the server is kept ------------------------------------------------------------------------


def test_kills_with_segments(make_followed):
    """With segments and the server's log, a kill of the server loses nothing."""
    rand = random.Random(SEED)
    keeper = make_followed("empty", tables=TABLES)
    keeper.dump()
    keeper.start()
    writers = AuditedWriters(keeper.world, SEED)
    for _ in range(max(2, ROUNDS // 2)):
        following(keeper)
        with writers:
            writers.wait_changes(50)
            keeper.segments.wait_all()
            time.sleep(rand.random() * 0.7)
            before = keeper.status().get("last_restore")
            keeper.server.kill9()
        keeper.server.start()
        told = restored(keeper, before)
        writers.audit()
        assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
        assert told["journal"]["changes"] >= told["journal"]["filed"] > 0, told


def test_a_dump_while_they_write(make_followed):
    """A dump knows its position only roughly, between the transactions around it. Even so the follower and a restore
    continue without missing or repeating a change."""
    keeper = make_followed("empty", {"dump": {"method": "fuzzy"}},
                           [*TABLES[:2], TABLES[2].replace("MEMORY", "InnoDB")])
    writers = AuditedWriters(keeper.world, SEED, tables=("bank", "ship"))
    with writers:
        keeper.dump()
        keeper.start()
        following(keeper)
        another_follower(keeper)
        following(keeper)
        keeper.dump()
        writers.wait_changes(2000)
        earlier = keeper.status().get("last_restore")
        keeper.server.kill9()
    keeper.server.start()
    told = restored(keeper, earlier)
    writers.audit()
    assert told["journal"]["whole"] and keeper.segments.gaps() == [], (told, keeper.log())
    assert "cannot continue" not in keeper.log()


def test_changes_in_both(make_followed):
    """Changes that the follower has not written when the server dies are read from the log. The restore waits for the follower,
    but not forever: it is stopped here."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    pid = kill_follower(keeper, signal.SIGSTOP)
    world.mark(3)
    before = world.snapshot()
    earlier = keeper.status().get("last_restore")
    keeper.server.crash()
    wait_for(lambda: "restore begins" in keeper.log(), "the restore")
    wait_for(lambda: follower(keeper) != pid, "the end of the follower that hangs")
    told = restored(keeper, earlier)
    world.assert_is(before)
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
    assert told["journal"]["changes"] > told["journal"]["filed"] > 0, told


def test_losses_in_a_row_with_one_dump(make_followed):
    """No dump is stored after the first. It and the segments restore the world after several losses, finally after the loss of
    the disk."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    for v in range(2, 5):
        following(keeper)
        world.mark(v)
        before = world.snapshot()
        told = crash(keeper)
        world.assert_is(before, f"after loss {v - 1}")
        assert told["lost_seconds"] == 0, told
    following(keeper)
    world.mark(5)
    before = world.snapshot()
    assert keeper.stop() == 0
    keeper.server.crash()
    world.sql("INSERT INTO chat VALUES (1,'into the void')", "INSERT INTO mark VALUES (2,2)")
    keeper.start(fault="dump.locked=kill")
    world.assert_is(before)
    following(keeper)
    world.mark(6)
    all_comes_back(keeper)
    assert len(keeper.dumps()) == 1


def test_segments_that_end_before_a_restore(make_followed):
    """The server was restored from its log, and its disk is lost before the journal is followed again: the world is restored as
    of the end of the segments."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    before = world.snapshot()
    keeper.kill9()
    world.mark(3)
    keeper.server.crash()
    keeper.ok("--restore")
    assert world.marked() == 3
    another_server(keeper)
    told = keeper.ok("--restore", "--json")
    world.assert_is(before)
    assert told["journal"]["filed"] > 0 and told["lost_seconds"] is None, told


def test_a_restore_of_a_dump_alone_is_a_gap(make_followed):
    """A manual restore of a dump alone, while no supervisor ran, is a gap for the next supervisor, whatever it restored itself
    before."""
    keeper = make_followed()
    dump_and_follow(keeper)
    generation = keeper.newest()["generation"]
    crash(keeper)
    keeper.wait(lambda: keeper.newest()["generation"] > generation, "a dump of the restored world")
    keeper.stop()
    keeper.server.crash()
    keeper.ok("--restore=" + keeper.newest()["name"])
    keeper.start(fault="dump.locked=kill")
    found = keeper.wait(lambda: (lambda j: j.get("gap") and j)(journal(keeper)), "the gap")
    assert "across which the log cannot be followed" in found["reason"], found


def test_segments_make_a_purged_log_whole(make_followed):
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    purge(keeper.server)
    world.mark(3)
    before = world.snapshot()
    keeper.segments.wait_all()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told


# -- processes are killed ----------------------------------------------------------------------


def tear(path, n):
    """Damages the end of a file as a crash of the machine may do."""
    with open(path, "r+b") as f:
        f.seek(0, os.SEEK_END)
        if n % 3 == 0:
            f.truncate(max(f.tell() - 5, 0))
        else:
            f.write((b"\0" * 4096, b"WKJF" + b"\x40\0\0\0" * 3)[n % 3 - 1])


@pytest.mark.parametrize("how", ["follower", "supervisor", "torn", "journal.write", "journal.written"])
def test_killed_while_it_writes(make_followed, how):
    """After a kill the segments continue at their last complete transaction, and no change is missing."""
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}}, TABLES)
    keeper.dump()
    fault = how + "#5=stop" if "." in how else None
    keeper.start(fault=fault)
    with AuditedWriters(keeper.world, SEED, count=1) as writers:
        for n in range(3):
            writers.wait_changes(300 * (n + 1))
            if fault:
                for pid in wait_stopped(keeper, how):
                    os.kill(pid, signal.SIGKILL)
                keeper.wait(lambda: not stopped(keeper), "its end")
                continue
            following(keeper)
            if how == "follower":
                another_follower(keeper)
                continue
            keeper.wait(keeper.segments.paths, "a segment")  # the state is following before the first segment is written
            keeper.kill9()
            if how == "torn":
                tear(keeper.segments.paths()[-1], n)
            keeper.start()
    if fault:
        assert "its process died" in keeper.log()
        keeper.kill9()
        keeper.start()
    following(keeper)
    keeper.segments.wait_all()
    assert keeper.segments.gaps() == [] and not keeper.segments.errors()
    assert "damaged" not in keeper.log() and "cannot continue" not in keeper.log()
    lose_disk(keeper)
    writers.audit()


class Trouble:
    """Events that may happen while the game runs."""
    KINDS = ("kill_follower", "hang_follower", "kill_supervisor", "stop_supervisor", "reload", "dump",
             "flush", "other_schema")

    def __init__(self, keeper, rand):
        self.keeper, self.rand = keeper, rand

    def signal_follower(self, *signs):
        pid = follower(self.keeper)
        for sign in signs if pid else ():
            try:
                os.kill(pid, sign)  # the process may be ending
            except ProcessLookupError:
                pass
            time.sleep(self.rand.random() * 0.5)

    def kill_follower(self):
        self.signal_follower(signal.SIGKILL)

    def hang_follower(self):
        self.signal_follower(signal.SIGSTOP, signal.SIGCONT)

    def kill_supervisor(self):
        self.keeper.kill9()
        self.keeper.start()

    def stop_supervisor(self):
        self.keeper.stop()
        time.sleep(self.rand.random() * 0.3)
        self.keeper.start()

    def dump(self):
        self.keeper.dump()

    def flush(self):
        self.keeper.server.sql("FLUSH BINARY LOGS")

    def other_schema(self):
        self.keeper.server.sql("USE mysql", "DROP TABLE IF EXISTS noise", "CREATE TABLE noise (a INT)",
                               "INSERT INTO noise SELECT seq FROM seq_1_to_2000")

    def reload(self):
        self.keeper.reload({})


def test_kills_at_random(make_followed, tmp):
    """After random events in random order, the loss of the server loses nothing; the loss of its disk loses at most about a
    second."""
    print("seed", SEED)
    rand = random.Random(SEED)
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}, **ONE_DUMP}, TABLES)
    keeper.dump()
    keeper.start()
    writers, trouble = AuditedWriters(keeper.world, SEED, count=2), Trouble(keeper, rand)
    for n in range(ROUNDS):
        following(keeper)
        story = rand.choices(Trouble.KINDS, k=rand.randrange(1, 4))
        loss = rand.choice(["kill", "stop", "disk"])
        with Lateness() as late, DiskPace(tmp) as disk, writers:
            for name in story:
                writers.wait_changes(sum(w.changes for w in writers.threads) + rand.randrange(1, 300))
                getattr(trouble, name)()
            if loss == "disk":
                following(keeper)
                keeper.segments.wait_all()  # the status may be older than the follower's kill or stop
                time.sleep(rand.random() * 1.5)
            before = keeper.status().get("last_restore")
            keeper.server.grow_old()
            killed = time.monotonic()
            keeper.server.stop() if loss == "stop" else keeper.server.kill9()
        print(n, story, loss)
        another_server(keeper) if loss == "disk" else keeper.server.start()
        told = restored(keeper, before)
        if loss == "disk":
            age, _ = writers.audit_cut(killed)
            assert age < allowed(late, disk), (SEED, n, story, age)
        else:
            writers.audit()
            assert told["journal"]["whole"], (SEED, n, story, told)


# -- idle world --------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_idle_world(make_followed):
    """While the world is idle, only a marker row is written now and then, but the segments' end time advances every second, and
    the next change is stored."""
    keeper = make_followed(settings={"probe": {"interval": "1s"}})
    keeper.waits = 1  # a marker every minute
    dump_and_follow(keeper)
    keeper.wait(lambda: live(keeper)["behind_seconds"] is not None, "a marker of the follower")

    def updates():
        told, = keeper.server.sql("SHOW GLOBAL STATUS LIKE 'Com_update'")
        return int(told[1])

    before, began, ends = updates(), time.monotonic(), set()
    while time.monotonic() < began + 20:
        time.sleep(0.5)
        ends.add(keeper.segments.end_time())
    made, took = updates() - before, time.monotonic() - began
    assert made <= took / 10 + 1, (made, took)
    assert len(ends) > made + 3 and max(ends) - min(ends) > 10, ends
    keeper.world.sql("DELETE FROM chat")
    keeper.segments.wait_all()
    assert any(line.startswith("delete ") for line in keeper.segments.lines()), keeper.segments.lines()[-5:]


# -- the supervisor ----------------------------------------------------------------------------


def test_another_mode(make_followed):
    """A reload changes mode from follow to server and back, without a gap in the segments."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    assert following(keeper)["mode"] == "follow"
    world.mark(2)
    keeper.segments.wait_all()
    reload(keeper, {"journal": {"mode": "server"}})
    keeper.wait(lambda: journal(keeper).get("mode") == "server" and following(keeper), "mode server")
    end = keeper.segments.end()
    world.mark(3)
    # The status of the previous follower may still be shown, or none while the next one starts.
    pos = keeper.wait(lambda: live(keeper).get("pos"), "the next follower")
    keeper.wait(lambda: live(keeper).get("pos", 0) > pos, "what is followed")
    assert keeper.segments.end() == end
    reload(keeper, {"journal": {"mode": "follow"}})
    keeper.wait(lambda: journal(keeper).get("mode") == "follow" and following(keeper), "mode follow")
    before = world.snapshot()
    keeper.segments.wait_all()
    assert keeper.segments.gaps() == []
    lose_disk(keeper)
    world.assert_is(before)


def test_another_directory(make_followed, tmp):
    """After a reload with another directory, the segments there begin at the end of the newest dump."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    path = os.path.join(tmp, "elsewhere")
    reload(keeper, {"journal": {"dir": path}})
    keeper.segments = Segments(keeper, path)
    keeper.wait(keeper.segments.paths, "segments there")
    following(keeper)
    all_comes_back(keeper)


def test_a_stop_finalizes(make_followed):
    """SIGTERM writes what was read to disk and finalizes the segment; other users cannot read it, and the next supervisor
    continues."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    assert [oct(os.stat(keeper.segments.dir).st_mode & 0o7777)] == ["0o700"]
    world.mark(2)
    keeper.wait(lambda: live(keeper)["changes"] > 0, "the change")
    assert keeper.stop() == 0
    assert keeper.segments.finalized()[-1]
    assert {oct(os.stat(p).st_mode & 0o7777) for p in keeper.segments.paths()} == {"0o600"}
    assert any("insert" in line and "mark" in line for line in keeper.segments.lines())
    world.mark(3)
    keeper.start()
    following(keeper)
    before = world.snapshot()
    keeper.segments.wait_all()
    assert keeper.segments.gaps() == []
    lose_disk(keeper)
    world.assert_is(before)


@pytest.mark.only("mariadb", why="another server's numbers do not jump")
def test_a_jump_after_segments_of_two_domains(make_followed):
    """Segments end with the last transaction, and the server reports that of each domain: the journal goes on behind them."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql("SET gtid_domain_id=1", "UPDATE mark SET v=2")
    world.mark(3)
    keeper.segments.wait_all()
    assert keeper.stop() == 0
    world.sql("SET gtid_seq_no=1000000", "UPDATE mark SET v=4")
    keeper.start()
    keeper.segments.wait_all()
    assert "cannot continue" not in keeper.log(), keeper.log()
    all_comes_back(keeper)


def test_a_follower_that_has_only_begun_has_proven_nothing(make_followed):
    """A follower proves nothing before its first marker: behind_seconds is unknown for the first one, and for a later one
    continues from the previous follower's marker."""
    keeper = make_followed()
    keeper.dump()
    keeper.start(fault="journal.marker#1=stop")
    first = wait_stopped(keeper, "journal.marker")
    keeper.wait(lambda: live(keeper).get("state") == "following", "the journal")
    assert live(keeper)["behind_seconds"] is None
    go_on(first)
    keeper.wait(lambda: live(keeper)["behind_seconds"] is not None, "a marker of the first one")
    kill_follower(keeper)
    keeper.world.mark(3)
    marked = time.monotonic()
    second = wait_stopped(keeper, "journal.marker")
    keeper.wait(lambda: live(keeper).get("state") == "following", "the journal")
    least = time.monotonic() - marked
    assert live(keeper)["behind_seconds"] >= least
    go_on(second)
    keeper.segments.wait_all()


def test_behind_until_it_is_on_the_disk(make_followed):
    """behind_seconds is the age of the last marker that is on disk, also while the writer hangs."""
    keeper = make_followed()
    keeper.dump()
    keeper.start(fault="journal.written=sleep:1300")
    keeper.wait(lambda: (live(keeper).get("behind_seconds") or 0) >= 2, "a slow disk")
    assert keeper.stop() == 0
    keeper.start()
    keeper.wait(lambda: live(keeper).get("behind_seconds") is not None and
                live(keeper)["behind_seconds"] < 1, "a quick disk")
    pid = kill_follower(keeper, signal.SIGSTOP)
    keeper.wait(lambda: (live(keeper)["behind_seconds"] or 0) > 2, "a writer that hangs")
    go_on([pid])
    keeper.wait(lambda: live(keeper)["behind_seconds"] is not None and live(keeper)["behind_seconds"] < 1, "one that goes on")
    assert following(keeper)["mode"] == "follow"


def test_a_slow_disk_is_waited_for(make_followed, tmp):
    """A restore waits until the follower has written what it read, because a new server has nothing else."""
    keeper = make_followed("empty", tables=TABLES)
    keeper.dump()
    keeper.start(fault="journal.written=sleep:600")
    following(keeper)
    with Lateness() as late, DiskPace(tmp) as disk, AuditedWriters(keeper.world, SEED, count=1) as writers:
        writers.wait_changes(300)
        earlier = keeper.status().get("last_restore")
        keeper.server.grow_old()
        killed = time.monotonic()
        keeper.server.kill9()
    another_server(keeper)
    restored(keeper, earlier)
    age, lost = writers.audit_cut(killed)
    assert age < allowed(late, disk), (age, lost)


def test_a_restore_that_nobody_followed_is_no_mistake(make_followed):
    """A manual restore without a supervisor is followed by a dump. The next supervisor reads its RENAME in the log and does not
    report it as a renamed table."""
    keeper = make_followed()
    dump_and_follow(keeper)
    keeper.segments.wait_all()
    keeper.stop()
    keeper.ok("--restore", "--force")
    keeper.dump()
    n = len(keeper.dumps())
    keeper.start()
    following(keeper)
    keeper.segments.wait_all()
    assert "were renamed" not in keeper.log() and len(keeper.dumps()) == n
    all_comes_back(keeper)
