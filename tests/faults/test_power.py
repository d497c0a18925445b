"""Tests of power cuts: at each call of a dump, and at any moment under a supervisor that writes the journal, dumps and its
state. What is on the disk then is examined as the next start would find it."""
import glob
import json
import os
import random
import re
import signal
import statistics
import threading
import time

import pytest
from inject import SEED, Point, strace, watch
from promises import broken_dumps, names
from wk.follow import live
from wk.segments import Segments
from wk.util import PATIENCE, Timeout, session_pids, wait_for

CUTS = int(os.environ.get("WK_FAULT_CUTS", "12"))
LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
FEW = {"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}
STOPS = ["openat", "write", "pwrite64", "fsync", "close", "renameat", "unlinkat", "sendto", "ftruncate"]


@pytest.fixture
def cuttable(world, make_keeper, make_disk):
    """Returns a keeper whose dumps are on a disk of which a power cut can be simulated; its `after` is the same keeper
    after a cut."""
    keeper = make_keeper(world, FEW)
    keeper.disk = make_disk(keeper.dumps_dir)
    keeper.after = make_keeper(world, FEW)
    return keeper.init()


def states(pids):
    """Returns the states of all threads of these processes."""
    found = []
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/stat"):
            try:
                with open(path) as f:
                    found.append(f.read().rpartition(")")[2].split()[0])
            except OSError:
                pass
    return found


def stop(process, timeout=10):
    """Stops the processes, a tracer first, and waits for their pending disk operations. Returns False if a thread still runs,
    because its tracer has continued it."""
    def stopped():
        for pid in sorted(session_pids(process)):
            send(pid, signal.SIGSTOP)
        return all(s in "TtXZ" for s in states(session_pids(process)))
    try:
        return wait_for(stopped, "all to stop", timeout, every=0.005)
    except Timeout:
        return False


def send(pid, sign):
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        pass


def end(process):
    for pid in session_pids(process):
        send(pid, signal.SIGKILL)
    process.communicate()


def at_call(keeper, point, fake=""):
    """Returns the process of a dump that is stopped after this call, or None if it did not get there or could not be stopped."""
    keeper.prefix = strace(os.path.join(keeper.base, "trace"), "-e", f"inject={point.call.name}:signal=STOP:when={point.call.nth}",
                           *(["-e", fake] if fake else []), names=sorted({point.call.name, "fsync"}))
    try:
        process = keeper.popen("--dump")
    finally:
        keeper.prefix = []
    while process.poll() is None:
        with open(os.path.join(keeper.base, "trace"), errors="replace") as f:
            if "stopped by SIGSTOP" in f.read():
                if stop(process):
                    return process
                end(process)
                return None
        time.sleep(0.002)
    process.communicate()
    return None


def left(keeper, acknowledged):
    """Returns the violations in what a cut leaves of the dumps: acknowledged ones must exist, and no damaged one may count."""
    after = keeper.after
    after.dumps_dir = keeper.disk.cut(keeper.disk.left)
    try:
        bad = broken_dumps(after)
        bad += [f"{name} was stored, and is gone" for name in acknowledged if name not in names(after)]
        return bad
    finally:
        keeper.disk.put_away(after.dumps_dir)


def dump_points(keeper):
    """Returns the calls of a dump that change its files, repeated or sampled to the number of cuts."""
    calls = [c for c in watch(keeper, keeper.dump) if c.name in STOPS]
    some = random.Random(SEED)
    return [Point(c, "cut") for c in (calls * (1 + CUTS // len(calls)) if CUTS > len(calls)
                                      else some.sample(calls, CUTS))][:CUTS]


def test_while_a_dump_is_made(cuttable, tally):
    """After a power cut at any call of a dump each dump that counts is complete, and stored ones exist."""
    keeper = cuttable
    for _ in range(3):
        keeper.dump()
    for point in dump_points(keeper):
        stored = names(keeper)[:2]  # the next dump may delete the third
        process = at_call(keeper, point)
        bad = left(keeper, stored) if process else []
        if process:
            end(process)
        keeper.dump()
        tally.point(f"power cut: dump at {point.call.name}",
                    [f"{point.call.name}#{point.call.nth}: {b}" for b in bad], process is not None)
    tally.assert_clean()


def test_a_dump_that_is_not_synced_is_seen(cuttable):
    """Without the dump's fsync a power cut leaves a violation, which proves that these tests can detect one."""
    keeper = cuttable
    keeper.dump()
    calls = [c for c in watch(keeper, keeper.dump) if c.name in ("unlinkat", "renameat")]
    found = []
    for call in calls:
        process = at_call(keeper, Point(call, "cut"), fake="inject=fsync:retval=0")
        if process is not None:
            found += left(keeper, [])
            end(process)
    keeper.prefix = strace(os.path.join(keeper.base, "trace"), "-e", "inject=fsync:retval=0", names=["fsync"])
    keeper.ok("--dump")
    keeper.prefix = []
    found += left(keeper, names(keeper)[:1])
    assert found


def test_a_name_is_on_the_disk_before_the_next_one(keeper):
    """Each rename of a dump, the manifest's last, is followed by an fsync of the directory. The file systems of the other
    tests keep a name with the next synced file, which is not guaranteed."""
    trace = os.path.join(keeper.base, "trace")
    keeper.prefix = strace(trace, "-y", names=["rename", "renameat", "renameat2", "linkat", "fsync"])
    keeper.ok("--dump")
    keeper.prefix = []
    given, pending, directory = [], None, f"<{keeper.dumps_dir}>"
    with open(trace) as calls:
        for line in calls:
            if re.search(r"\bfsync\([0-9]+" + re.escape(directory), line):
                pending = None
            elif directory in line and line.rstrip().endswith("= 0"):
                assert pending is None, (pending, line)
                pending = line
                given.append(re.findall('"([^"]*)"', line)[-1])
    assert pending is None, pending
    assert [name for name in given if name.startswith("w1-")] == [
        keeper.newest()["name"] + end for end in (".sql.gz", ".json")], given


class Play(threading.Thread):
    """A game that numbers its rows, and records when each was acknowledged."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.acks, self.ended = world, [], threading.Event()

    def run(self):
        con = self.world.server.admin(self.world.schema)
        with con.cursor() as cur:
            while not self.ended.wait(0.01):
                cur.execute("INSERT INTO play VALUES (%s)", (len(self.acks),))
                self.acks.append(time.time())
        con.close()

    def before(self, moment):
        """Returns how many rows were acknowledged before this moment."""
        return sum(at < moment for at in self.acks)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *args):
        self.ended.set()
        self.join(20)


def proven_until(keeper):
    """Returns the time up to which all acknowledged changes are on the disk, according to the supervisor."""
    asked = time.time()
    behind = live(keeper).get("behind_seconds")
    return asked - behind if behind is not None else 0


def numbers(lines):
    """Returns the numbers of the rows in the journal's files."""
    return {int(match.group(1)) for line in lines
            if (match := re.match(r"insert .* table play \((\d+)\)", line))}


def read_state(path):
    """Returns a violation for state.json, and one for each waiting alert, if it is not valid JSON."""
    bad = []
    for name in glob.glob(os.path.join(path, "*state*.json")) + glob.glob(os.path.join(path, "alerts", "*.json")):
        with open(name) as f:
            try:
                json.load(f)
            except ValueError as e:
                bad.append(f"{name}: {e}")
    return bad


def supervised_left(keeper, stored, played):
    """Returns the violations in what a cut leaves: dumps, state, alerts, and the rows up to the proven time."""
    after = keeper.after
    after.dumps_dir = keeper.disk.cut(keeper.disk.left)
    try:
        bad = broken_dumps(after) + read_state(after.dumps_dir)
        bad += [f"{name} was stored, and is gone" for name in stored if name not in names(after)]
        segments = Segments(after)
        files = [os.path.basename(path) for path in segments.paths()]
        said = {name: segments.lines(name) for name in files}
        have = numbers(line for lines in said.values() for line in lines)
        missing = [n for n in range(keeper.played_from, played) if n not in have]
        if missing:
            bad.append(f"{len(missing)} rows of play are missing, the first {missing[0]} of {played}; "
                       f"{ {name: lines[-1:] for name, lines in said.items()} }")
        bad += [f"{name} is damaged: {said[name][-1]}" for name in files[:-1] if not said[name][-1].startswith("finalized")]
        return bad
    finally:
        keeper.disk.put_away(after.dumps_dir)


def test_at_any_moment(make_world, make_server, make_keeper, make_disk, http, tally):
    """After a power cut at any moment under a supervisor each file is complete, and only rows that were not yet reported as
    proven are missing."""
    world = make_world(on=make_server(*LOG))
    world.sql("CREATE TABLE play (n INT PRIMARY KEY) ENGINE=MEMORY")
    settings = {**FEW, **http.settings(), "journal": {"mode": "follow", "max_size": "1GiB"},
                "dump": {"interval": "10s"}}
    keeper, some = make_keeper(world, settings), random.Random(SEED)
    keeper.disk = make_disk(keeper.dumps_dir, size="64M")
    keeper.after = make_keeper(world, settings)
    keeper.init()
    keeper.start()
    keeper.wait(lambda: (keeper.status().get("journal") or {}).get("state") == "following", "the journal")
    costs = []
    with Play(world) as play:
        for _ in range(CUTS):
            keeper.probes_pass("A", 3)
            time.sleep(some.random())
            stored, proven = names(keeper)[:1], proven_until(keeper)
            costs.append(time.time() - proven)
            assert stop(keeper.process, PATIENCE), states(session_pids(keeper.process))
            keeper.played_from = min(numbers(Segments(keeper).lines()), default=0)
            played = play.before(proven)
            bad = supervised_left(keeper, stored, played)
            for pid in session_pids(keeper.process):
                send(pid, signal.SIGCONT)
            tally.point("power cut: under the supervisor", bad)
    print(f"not proven: the last {statistics.median(costs):.2f} s (median of {len(costs)})")
    tally.assert_clean()
