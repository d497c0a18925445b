"""The journal in files of our own: the world is whole again also when the server's disk is gone, but for
the last second; what could not be written, or was damaged, is known and named."""
import os
import random
import shutil
import signal
import time
from types import SimpleNamespace

import pytest
from wk.binlog import RESET
from wk.keeper import USER
from wk.ledger import TABLES, Ledger
from wk.segments import Segments
from wk.server import MYSQL
from wk.snapshot import assert_same, snapshot
from wk.util import ident, wait_for
from wk.watch import Beside, Lateness

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
ROUNDS = int(os.environ.get("WK_LEDGER_ROUNDS", "3"))
SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))
NOW = 1.0  # s: what is older is in the segments, on the disk
BUSY = 2.0  # the same while others keep the disk busy
SLOW_DISK_MS = 150  # for 4 KiB: then it is
ONE_DUMP = {"retention": {"keep_last": 1, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}


@pytest.fixture
def logged(make_server):
    return make_server(*LOG)


@pytest.fixture
def make_followed(make_world, make_keeper, logged):
    """make_followed(kind, settings) -> a keeper that writes segments and restores on a new server too."""
    def make(kind="small", settings=None, tables=(), seen=None, prefix=()):
        world = make_world(kind, logged)
        if tables:
            world.sql(*tables)
        mine = {"journal": {"mode": "follow"}, "restore": {"new_server": "yes"},
                "probe": {"interval": "100ms"}}
        for section, values in (settings or {}).items():
            mine.setdefault(section, {}).update(values)
        keeper = make_keeper(world, mine)
        keeper.prefix = list(prefix)
        keeper.segments = Segments(keeper, seen or mine["journal"].get("dir"))
        return keeper.init()
    return make


def journal(keeper):
    return keeper.status().get("journal") or {}


def live(keeper):
    """The same without waiting for the next status.json."""
    return keeper.run("--status", "--json").json["journal"]


def following(keeper):
    """Waits until the journal is written, and nothing is missing in it."""
    return keeper.wait(lambda: (lambda j: j.get("state") == "following" and not j["gap"] and j)(
        journal(keeper)), "the journal")


def follower(keeper):
    """The pid of the process that writes the segments, None: there is none."""
    for pid in keeper.pids():
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == "wk-journal":
                    return pid
        except OSError:
            pass
    return None


def another_server(keeper):
    """The server's disk is lost; an admin sets up another one in its place."""
    server, schema = keeper.server, keeper.world.schema
    if server.process:
        server.kill9()
    server.install()
    server.start()
    server.sql(f"CREATE DATABASE {ident(schema)} CHARACTER SET utf8mb4")
    server.account(USER, [schema])


def restored(keeper, before):
    """Waits for the restore that comes after `before` in status.json, and for the world."""
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("at") not in
                (None, (before or {}).get("at")) and keeper.state() == "UP", "the world again")
    return keeper.status()["last_restore"]


def lose_disk(keeper):
    """What was told of the restore on the new server."""
    before = keeper.status().get("last_restore")
    another_server(keeper)
    return restored(keeper, before)


def crash(keeper):
    """The same for a server that only dies."""
    before = keeper.status().get("last_restore")
    keeper.server.crash()
    return restored(keeper, before)


def reload(keeper, settings):
    n, pid = keeper.log().count(" reloaded"), follower(keeper)
    keeper.configure(settings)
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: keeper.log().count(" reloaded") > n and follower(keeper) not in (None, pid),
                "the new config")


# -- the server's disk is gone -----------------------------------------------------------------


class Disk(Beside):
    """How long the disk takes meanwhile for a page of somebody else; `busy`: for so many more, without
    a pause."""

    def __init__(self, path, busy=False):
        super().__init__()
        self.path, self.busy, self.worst_ms = os.path.join(path, "pace"), busy, 0.0

    def work(self):
        with open(self.path, "wb") as f:
            while not self.ended.is_set():
                began = time.monotonic()
                f.seek(0)
                f.write(b"x" * (16 << 20 if self.busy else 4096))
                f.flush()
                os.fdatasync(f.fileno())
                self.worst_ms = max(self.worst_ms, (time.monotonic() - began) * 1000)
                time.sleep(0 if self.busy else 0.05)


def histogram(ages):
    """How many losses cost how much."""
    edges = [0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, float("inf")]
    for low, high in zip(edges, edges[1:]):
        n = sum(low <= age < high for age in ages)
        if n:
            print(f"  {low * 1000:5.0f} to {high * 1000:5.0f} ms: {'#' * n} {n}")


def test_ledger_without_the_disk(make_followed, tmp):
    """The server's disk is thrown away, at random moments, also while a dump is made; with the server
    alone, with the supervisor, or with it while the disk is busy. What is back is the world of one moment,
    and each change that was acknowledged a second before the loss (two where the disk is busy) is in it,
    once."""
    print("seed", SEED)
    rand = random.Random(SEED)
    keeper = make_followed("empty", tables=TABLES)
    keeper.dump()
    keeper.start()
    ledger, costs = Ledger(keeper.world, SEED), {"machine": [], "server": [], "busy": []}
    for n in range(ROUNDS):
        following(keeper)
        kind = list(costs)[n % 3]
        with Lateness() as late, Disk(tmp, kind == "busy") as disk, ledger:
            ledger.wait_changes(50)
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
            dump.communicate(timeout=60)
        another_server(keeper)
        if kind != "server":
            keeper.start(state=None)
        told = restored(keeper, before)
        age, lost = ledger.audit_cut(killed)
        costs[kind].append(age)
        limit = (BUSY if disk.worst_ms > SLOW_DISK_MS else NOW) + late.worst_ms / 1000
        print(f"{kind:7} lost {lost:4} changes, the oldest {age * 1000:4.0f} ms before; disk "
              f"{disk.worst_ms:.0f} ms, machine {late.worst_ms:.0f} ms, dump {bool(dump)}, "
              f"told {told['lost_seconds']} s")
        assert age < limit, (SEED, n, kind, age, limit)
        assert told["ok"] and told["lost_seconds"] <= limit + 2, told
    for kind, ages in costs.items():
        print(f"{kind}: {len(ages)} losses, the worst {max(ages, default=0) * 1000:.0f} ms")
        histogram(ages)
    print(ledger.changes, "changes acknowledged")


@pytest.mark.parametrize("when", ["sealed", "open"])
def test_in_another_place(make_followed, make_keeper, make_server, when):
    """Dumps and segments, copied somewhere else, are the world there: without a supervisor, a schema,
    a binary log; also when they were copied while the last segment was being written."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    for v in range(2, 5):
        world.mark(v)
    world.sql("UPDATE player SET id=id+100000 WHERE id<50", "DELETE FROM chat WHERE who=3 LIMIT 5",
              "INSERT INTO player (nick,points) VALUES ('new',1)")
    before = world.snapshot()
    keeper.segments.wait_all()
    if when == "sealed":
        assert keeper.stop() == 0
    assert keeper.segments.sealed()[-1] == (when == "sealed")
    other = make_keeper(SimpleNamespace(server=make_server(), schema=world.schema),
                        {"journal": {"mode": "follow"}})
    for path in os.listdir(keeper.dumps_dir):
        if path.endswith((".sql.gz", ".json")) and path != "state.json":
            shutil.copy(os.path.join(keeper.dumps_dir, path), other.dumps_dir)
    shutil.copytree(keeper.segments.dir, os.path.join(other.dumps_dir, "journal"))
    done = other.ok("--restore", "--json")
    assert done["journal"]["filed"] == done["journal"]["changes"] > 0, done
    assert_same(before, snapshot(other.server, world.schema), "in the other place")


def test_by_hand_on_a_new_server(make_followed):
    """Where nobody allowed it, it waits for a person; what he restores is the same."""
    keeper = make_followed(settings={"restore": {"new_server": "no"}})
    keeper.dump()
    keeper.start()
    following(keeper)
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


# -- the server is kept ------------------------------------------------------------------------


def test_ledger_with_segments(make_followed):
    """Segments and the log together: nothing at all is lost."""
    rand = random.Random(SEED)
    keeper = make_followed("empty", tables=TABLES)
    keeper.dump()
    keeper.start()
    ledger = Ledger(keeper.world, SEED)
    for _ in range(max(2, ROUNDS // 2)):
        following(keeper)
        with ledger:
            ledger.wait_changes(50)
            time.sleep(rand.random() * 0.7)
            before = keeper.status().get("last_restore")
            keeper.server.kill9()
        keeper.server.start()
        told = restored(keeper, before)
        ledger.audit()
        assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
        assert told["journal"]["changes"] >= told["journal"]["filed"] > 0, told


def test_a_dump_while_they_write(make_followed):
    """Its place is known with the numbers of groups around it only; behind it they are exact again, for
    who goes on to write, and for a restore that goes on in the log."""
    keeper = make_followed("empty", {"dump": {"method": "fuzzy"}},
                           [*TABLES[:2], TABLES[2].replace("MEMORY", "InnoDB")])
    ledger = Ledger(keeper.world, SEED, tables=("bank", "ship"))
    with ledger:
        keeper.dump()
        keeper.start()
        following(keeper)
        pid = follower(keeper)
        os.kill(pid, signal.SIGKILL)
        keeper.wait(lambda: follower(keeper) not in (None, pid), "another follower")
        following(keeper)
        keeper.dump()
        ledger.wait_changes(2000)
        earlier = keeper.status().get("last_restore")
        keeper.server.kill9()
    keeper.server.start()
    told = restored(keeper, earlier)
    ledger.audit()
    assert told["journal"]["whole"] and keeper.segments.gaps() == [], (told, keeper.log())
    assert "cannot go on" not in keeper.log()


def test_changes_in_both(make_followed):
    """What the follower has not written yet when the server dies is in the log. The restore waits for
    who still writes, and not for ever: the follower is stopped here."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    pid = follower(keeper)
    os.kill(pid, signal.SIGSTOP)
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
    """No dump can be made after the first: it and the segments are the world after each of several
    losses, in the end after that of the disk."""
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
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)
    assert len(keeper.dumps()) == 1


def purge(server):
    """The log of before is gone."""
    server.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    newest = server.sql("SHOW BINARY LOGS")[-1][0]
    wait_for(lambda: server.sql(f"PURGE BINARY LOGS TO '{newest}'", "SHOW BINARY LOGS")[0][0] == newest,
             "the end of the old logs")


def test_segments_make_a_purged_log_whole(make_followed):
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    purge(keeper.server)
    world.mark(3)
    before = world.snapshot()
    keeper.segments.wait_all()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told


# -- whoever is killed -------------------------------------------------------------------------


def tear(path, n):
    """What a crash of the machine may leave of the end of a file."""
    with open(path, "r+b") as f:
        f.seek(0, os.SEEK_END)
        if n % 3 == 0:
            f.truncate(f.tell() - 5)
        else:
            f.write((b"\0" * 4096, b"WKJF" + b"\x40\0\0\0" * 3)[n % 3 - 1])


@pytest.mark.parametrize("how", ["follower", "supervisor", "torn", "journal.write=kill",
                                 "journal.written=kill"])
def test_killed_while_it_writes(make_followed, how):
    """The segments go on where their last whole group ended, and nothing is missing in them."""
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}}, TABLES)
    keeper.dump()
    fault = how.replace("=", "#5=") if "=" in how else None
    keeper.start(fault=fault)
    with Ledger(keeper.world, SEED, count=1) as ledger:
        for n in range(3):
            ledger.wait_changes(300 * (n + 1))
            if fault:
                keeper.wait(lambda: keeper.log().count("its process died") > n, "the end at " + how)
                continue
            following(keeper)
            if how == "follower":
                pid = follower(keeper)
                os.kill(pid, signal.SIGKILL)
                keeper.wait(lambda: follower(keeper) not in (None, pid), "another follower")
                continue
            keeper.kill9()
            if how == "torn":
                tear(keeper.segments.paths()[-1], n)
            keeper.start()
    if fault:
        keeper.kill9()
        keeper.start()
    following(keeper)
    keeper.segments.wait_all()
    assert keeper.segments.gaps() == [] and not keeper.segments.errors()
    assert "damaged" not in keeper.log() and "cannot go on" not in keeper.log()
    lose_disk(keeper)
    ledger.audit()


class Trouble:
    """What may happen while people play."""
    KINDS = ("kill_follower", "hang_follower", "kill_supervisor", "stop_supervisor", "reload", "dump",
             "flush", "other_schema")

    def __init__(self, keeper, rand):
        self.keeper, self.rand = keeper, rand

    def signal_follower(self, *signs):
        pid = follower(self.keeper)
        for sign in signs if pid else ():
            try:
                os.kill(pid, sign)  # it may just end
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
        self.keeper.process.send_signal(signal.SIGHUP)


def test_ledger_at_random(make_followed):
    """Rounds of anything in any order, and then a loss: of the server, cleanly or not, nothing is lost;
    of its disk too, a second at most."""
    print("seed", SEED)
    rand = random.Random(SEED)
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}, **ONE_DUMP}, TABLES)
    keeper.dump()
    keeper.start()
    ledger, trouble = Ledger(keeper.world, SEED, count=2), Trouble(keeper, rand)
    for n in range(ROUNDS):
        following(keeper)
        story = rand.choices(Trouble.KINDS, k=rand.randrange(1, 4))
        loss = rand.choice(["kill", "stop", "disk"])
        with Lateness() as late, ledger:
            for name in story:
                ledger.wait_changes(sum(w.changes for w in ledger.writers) + rand.randrange(1, 300))
                getattr(trouble, name)()
            if loss == "disk":
                following(keeper)
                time.sleep(rand.random() * 1.5)
            before = keeper.status().get("last_restore")
            keeper.server.grow_old()
            killed = time.monotonic()
            keeper.server.stop() if loss == "stop" else keeper.server.kill9()
        print(n, story, loss)
        another_server(keeper) if loss == "disk" else keeper.server.start()
        told = restored(keeper, before)
        if loss == "disk":
            age, _ = ledger.audit_cut(killed)
            assert age < NOW + late.worst_ms / 1000, (SEED, n, story, age)
        else:
            ledger.audit()
            assert told["journal"]["whole"], (SEED, n, story, told)


# -- gaps --------------------------------------------------------------------------------------

CHANGES = ["ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3", "RENAME TABLE mark TO mark2",
           "CREATE TABLE fresh LIKE mark", "SET SESSION binlog_format=STATEMENT"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_gap_is_closed_by_a_dump_at_once(make_followed, change):
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql(change, "UPDATE player SET points=1")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.sql("UPDATE player SET points=2 WHERE id<9")
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


@pytest.mark.parametrize("change", CHANGES)
def test_before_the_dump_that_closes_a_gap(make_followed, change):
    """The world is that of the moment before the change, and it is told why."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    world.mark(2)
    before = world.snapshot()
    world.sql(change, "UPDATE player SET points=1")
    world.sql("UPDATE player SET points=2")
    keeper.wait(lambda: journal(keeper)["gap"], "the gap")
    keeper.segments.wait_all()
    told = lose_disk(keeper)
    world.assert_is(before)
    said = "UPDATE player" if "STATEMENT" in change else change.split("=")[0]
    assert said in told["journal"]["gap"] and told["journal"]["filed"] > 0, told


def test_a_log_that_is_begun_anew(make_followed):
    """RESET MASTER: a dump at once, and the segments begin again behind it."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", RESET)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(5)
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


@pytest.fixture
def damaged(make_followed):
    """A keeper with four segments since its dump and a ledger that wrote them; in the second one a byte
    is not what was written. (keeper, ledger, its path)"""
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}}, TABLES)
    keeper.dump()
    keeper.start()
    following(keeper)
    with Ledger(keeper.world, SEED, count=2) as ledger:
        keeper.wait(lambda: len(keeper.segments.paths()) >= 4, "four segments")
    keeper.segments.wait_all()
    path = keeper.segments.paths()[1]
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 0x40]))
    return keeper, ledger, path


def test_damage_where_the_log_is_there(damaged):
    """Nothing is lost: behind the damage the log is read. It is told all the same."""
    keeper, ledger, path = damaged
    told = crash(keeper)
    ledger.audit()
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
    assert f"{os.path.basename(path)} is damaged at byte" in keeper.log()


def test_damage_where_the_log_is_gone(damaged):
    """The world is that of before the damage, all of it, and file and byte are named."""
    keeper, ledger, path = damaged
    names = [os.path.basename(p) for p in keeper.segments.paths()]
    lines = keeper.segments.lines(*names[:2])
    assert lines[-1].startswith("error ")
    good = sum(line.split()[0] in ("insert", "update", "delete", "replace") for line in lines)
    told = lose_disk(keeper)
    _, lost = ledger.audit_cut(time.monotonic())
    assert lost > 0 and told["journal"]["filed"] == told["journal"]["changes"] == good, (told, good)
    assert f"{names[1]} is damaged at byte" in told["journal"]["gap"], told
    assert not told["journal"]["whole"]


def test_an_end_that_was_purged_meanwhile(make_followed):
    """Nobody followed, and the log of that time is gone: known when the supervisor starts, a dump at
    once, and everything behind it is safe."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    assert keeper.stop() == 0
    world.mark(2)
    purge(keeper.server)
    keeper.start()
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


def test_segments_that_somebody_deleted(make_followed):
    """They must reach back to the newest dump: else they are begun anew from there."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
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
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


def test_the_first_dump_and_the_first_segment_meet(make_followed):
    """Whichever of both comes first when a supervisor starts without a dump."""
    keeper = make_followed("empty", tables=TABLES)
    with Ledger(keeper.world, SEED, count=2) as ledger:
        keeper.start()
        keeper.wait(lambda: keeper.dumps(), "the first dump")
        following(keeper)
        ledger.wait_changes(100)
    keeper.segments.wait_all()
    lose_disk(keeper)
    ledger.audit()


def test_segments_of_another_log(make_followed):
    """A new server in the place of the old one has MariaDB's same name and the same names of files. What lies
    there of the old one is not taken for changes of the new one."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
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
    """(lines of the log, dumps, alerts) of so long a time."""
    before = keeper.log().count("\n"), len(keeper.dumps())
    time.sleep(seconds)
    return keeper.log().count("\n") - before[0], len(keeper.dumps()) - before[1]


def test_a_full_disk(make_followed, small_disk, http):
    """Told once, a dump at once, the dumps go on; while it lasts neither dumps nor log lines pour, and
    when there is room again the segments go on without a hole."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments"),
                                                 "segment": "64KiB"}, **http.settings()},
                           seen=os.path.join(seen, "segments"), prefix=prefix)
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    room = os.statvfs(seen)
    with open(os.path.join(seen, "filler"), "wb") as f:
        f.write(b"x" * (room.f_bavail * room.f_bsize - 8 * 1024))
    world.sql("UPDATE player SET points=points+1")
    keeper.wait(lambda: journal(keeper).get("gap"), "the gap")
    assert "space" in journal(keeper)["reason"], journal(keeper)
    http.wait_event("journal")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    with Beating(world):
        lines, dumps = quiet(keeper, 8)
    assert dumps <= 1 and lines <= 12, keeper.log()
    assert len([e for e in http.events() if e == "journal"]) <= 4, http.messages()
    os.unlink(os.path.join(seen, "filler"))
    following(keeper)
    world.mark(7)
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


def test_a_server_without_a_log(make_world, make_keeper, server, http):
    """It was asked for by name: a trouble that is told, and dumps go on."""
    keeper = make_keeper(make_world("small", server), {"journal": {"mode": "follow"},
                                                       **http.settings()}).init()
    keeper.start()
    http.wait_event("journal")
    assert live(keeper)["state"] == "off" and "log_bin" in live(keeper)["reason"]
    assert live(keeper)["mode"] == "follow"
    found = [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == "journal"]
    assert found[0]["level"] == "fail", found
    keeper.dump()


def test_a_disk_that_is_full_of_segments(make_followed, small_disk):
    """The dump that is taken at once makes the old ones needless: they go, and nobody has to come."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments"),
                                                 "segment": "64KiB"}, **ONE_DUMP},
                           seen=os.path.join(seen, "segments"), prefix=prefix)
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    with Beating(world, 600):
        keeper.wait(lambda: len(keeper.dumps()) == 1 and keeper.newest()["sequence"] > 1,
                    "the dump at once")
    keeper.wait(lambda: numbers(keeper)[0] > 1, "the old ones to go")
    following(keeper)
    world.mark(7)
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


class Beating(Beside):
    """Somebody plays, slowly, with so many rows at a time."""

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
    """Nobody tells who writes that his file has no name any more."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    shutil.rmtree(keeper.segments.dir)
    world.mark(3)
    keeper.wait(keeper.segments.paths, "segments again")
    world.mark(4)
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


def test_no_directory_at_all(make_followed, tmp, http):
    """It cannot be made: told, dumps go on, and it is tried again until it can."""
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
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


# -- any moment --------------------------------------------------------------------------------


def clock(server):
    """The server's whole second now, once it is over: what comes later has another one."""
    now = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')")
    wait_for(lambda: server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')") != now,
             "the next second")
    return now


def sums(server, schema):
    return {t: server.sql(f"CHECKSUM TABLE {ident(t)}", schema=schema)[0][1]
            for t in ("player", "fleet", "chat", "mark")}


def test_any_moment(make_followed):
    """Before and after an ALTER, whose columns are those of then; with the server's log purged, and on
    another server when the disk is lost."""
    keeper = make_followed()
    world, moments = keeper.world, []
    schema, into = world.schema, world.schema + "_then"
    keeper.dump()
    keeper.start()
    following(keeper)

    def moment():
        moments.append((clock(keeper.server), sums(keeper.server, schema)))

    def look():
        for at, picture in moments:
            keeper.server.sql(f"DROP DATABASE IF EXISTS {ident(into)}")
            keeper.ok("--restore", "--at", at, "--into", into)
            assert sums(keeper.server, into) == picture, at
    world.mark(2)
    moment()
    world.sql("ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3", "UPDATE mark SET w=4")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    moment()
    purge(keeper.server)
    keeper.segments.wait_all()
    keeper.server.account(USER, [schema, into])
    look()
    world.mark(4)
    keeper.segments.wait_all()
    lose_disk(keeper)
    keeper.server.account(USER, [schema, into])
    look()


# -- how many there are ------------------------------------------------------------------------


def fill(keeper, kib):
    """About so much is written into segments, and a little more."""
    want = keeper.segments.size() + kib * 1024
    while keeper.segments.size() < want:
        for n in range(1 + (want - keeper.segments.size()) // (30 * 1024)):
            keeper.world.sql(f"UPDATE player SET points=points+{n + 1} WHERE id<=600")
        keeper.segments.wait_all()


def numbers(keeper):
    return [int(p.rsplit("-", 1)[1].split(".")[0]) for p in keeper.segments.paths()]


def test_a_segment_is_ended_by_its_size_and_by_a_dump(make_followed):
    keeper = make_followed(settings={"journal": {"segment": "64KiB"}})
    keeper.dump()
    keeper.start()
    following(keeper)
    fill(keeper, 180)
    paths = keeper.segments.paths()
    assert len(paths) >= 3
    assert all(64 * 1024 <= os.path.getsize(p) < 128 * 1024 for p in paths[:-1])
    last = paths[-1]
    keeper.dump()
    keeper.wait(lambda: keeper.segments.paths()[-1] != last, "the next segment")
    assert keeper.segments.sealed()[:-1] == [True] * (len(keeper.segments.paths()) - 1)
    assert numbers(keeper)[0] == 1 and keeper.segments.gaps() == []
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    assert lose_disk(keeper)["journal"]["filed"] == 0
    keeper.world.assert_is(before)


@pytest.mark.parametrize("rule", [ONE_DUMP, {"journal": {"keep": "0s"}}])
def test_what_is_old_goes_with_a_dump(make_followed, rule):
    """Segments older than the oldest dump, or than `keep`; never what the newest dump needs."""
    settings = {"journal": {"segment": "64KiB"}}
    for section, values in rule.items():
        settings.setdefault(section, {}).update(values)
    keeper = make_followed(settings=settings)
    keeper.dump()
    keeper.start()
    following(keeper)
    fill(keeper, 150)
    assert numbers(keeper)[0] == 1, "the only dump needs them all"
    end = numbers(keeper)[-1]
    keeper.dump()
    keeper.wait(lambda: numbers(keeper)[0] >= end, "the old ones to go")
    fill(keeper, 100)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    assert lose_disk(keeper)["journal"]["filed"] > 0
    keeper.world.assert_is(before)


def test_max_size(make_followed):
    """All together are no larger, as long as the newest dump does not need them."""
    keeper = make_followed(settings={"journal": {"segment": "64KiB", "max_size": "1MiB"}})
    keeper.dump()
    keeper.start()
    following(keeper)
    fill(keeper, 1300)
    assert numbers(keeper)[0] == 1, "the only dump needs them all"
    keeper.dump()
    keeper.wait(lambda: keeper.segments.size() <= 1 << 20, "the oldest to go")
    assert keeper.segments.size() > 900 * 1024
    fill(keeper, 100)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    keeper.world.assert_is(before)


# -- the supervisor ----------------------------------------------------------------------------


def test_another_mode(make_followed):
    """SIGHUP: from follow to server, and back without a hole."""
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
    pos = live(keeper)["pos"]
    keeper.wait(lambda: live(keeper)["pos"] > pos, "what is followed")
    assert keeper.segments.end() == end
    reload(keeper, {"journal": {"mode": "follow"}})
    keeper.wait(lambda: journal(keeper).get("mode") == "follow" and following(keeper), "mode follow")
    before = world.snapshot()
    keeper.segments.wait_all()
    assert keeper.segments.gaps() == []
    lose_disk(keeper)
    world.assert_is(before)


def test_another_directory(make_followed, tmp):
    """SIGHUP: the segments there begin where the newest dump ends."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.mark(2)
    keeper.segments.wait_all()
    path = os.path.join(tmp, "elsewhere")
    reload(keeper, {"journal": {"dir": path}})
    keeper.segments = Segments(keeper, path)
    keeper.wait(keeper.segments.paths, "segments there")
    following(keeper)
    before = world.snapshot()
    keeper.segments.wait_all()
    lose_disk(keeper)
    world.assert_is(before)


def test_a_stop_seals(make_followed):
    """SIGTERM: what was read is on the disk, behind a seal; nobody else may read it; it goes on later."""
    keeper = make_followed()
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    assert [oct(os.stat(keeper.segments.dir).st_mode & 0o7777)] == ["0o700"]
    world.mark(2)
    keeper.wait(lambda: live(keeper)["changes"] > 0, "the change")
    assert keeper.stop() == 0
    assert keeper.segments.sealed()[-1]
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


def test_behind_until_it_is_on_the_disk(make_followed):
    """behind_seconds is the time that a beat takes to the disk, and to nowhere while the writer hangs."""
    keeper = make_followed()
    keeper.dump()
    keeper.start(fault="journal.written=sleep:1300")
    keeper.wait(lambda: (live(keeper).get("behind_seconds") or 0) >= 1.3, "a slow disk")
    assert keeper.stop() == 0
    keeper.start()
    keeper.wait(lambda: live(keeper).get("behind_seconds") is not None and
                live(keeper)["behind_seconds"] < 1, "a quick disk")
    os.kill(follower(keeper), signal.SIGSTOP)
    keeper.wait(lambda: live(keeper)["behind_seconds"] > 2, "a writer that hangs")
    os.kill(follower(keeper), signal.SIGCONT)
    keeper.wait(lambda: live(keeper)["behind_seconds"] < 1, "one that goes on")
    assert following(keeper)["mode"] == "follow"


def test_a_slow_disk_is_waited_for(make_followed):
    """What the follower has read is written before the restore, which on a new server has nothing else."""
    keeper = make_followed("empty", tables=TABLES)
    keeper.dump()
    keeper.start(fault="journal.written=sleep:600")
    following(keeper)
    with Ledger(keeper.world, SEED, count=1) as ledger:
        ledger.wait_changes(300)
        earlier = keeper.status().get("last_restore")
        keeper.server.grow_old()
        killed = time.monotonic()
        keeper.server.kill9()
    another_server(keeper)
    restored(keeper, earlier)
    age, lost = ledger.audit_cut(killed)
    assert age < NOW, (age, lost)
