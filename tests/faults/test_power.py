"""The power is cut: while a dump is at one of its calls, or at any moment under a supervisor that writes the
journal, dumps and its state. What stands on the disk then is looked at as the next start would find it."""
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
    """A keeper whose dumps are on such a disk, and `after`: the same keeper after a cut."""
    keeper = make_keeper(world, FEW)
    keeper.disk = make_disk(keeper.dumps_dir)
    keeper.after = make_keeper(world, FEW)
    return keeper.init()


def states(pids):
    """Of all their threads."""
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
    """Stops all of it where it is, a tracer first, and waits for what a disk still has to do for it. False: a
    thread that its tracer let go on meanwhile runs still."""
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
    """A dump that stops where it makes this call (once it was made); its process, None: it did not get there, or
    did not stand still."""
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
    """What a cut leaves of the dumps: those that were told to be stored, and no half one."""
    after = keeper.after
    after.dumps_dir = keeper.disk.cut(keeper.disk.left)
    try:
        bad = broken_dumps(after)
        bad += [f"{name} was stored, and is gone" for name in acknowledged if name not in names(after)]
        return bad
    finally:
        keeper.disk.put_away(after.dumps_dir)


def dump_points(keeper):
    """Each call of a dump at which its files change, as often as it takes."""
    calls = [c for c in watch(keeper, keeper.dump) if c.name in STOPS]
    some = random.Random(SEED)
    return [Point(c, "cut") for c in (calls * (1 + CUTS // len(calls)) if CUTS > len(calls)
                                      else some.sample(calls, CUTS))][:CUTS]


def test_while_a_dump_is_made(cuttable, tally):
    """Whatever stands on the disk: each dump that counts is whole, and what was stored stays."""
    keeper = cuttable
    for _ in range(3):
        keeper.dump()
    for point in dump_points(keeper):
        stored = names(keeper)[:2]  # the third may go with the next one
        process = at_call(keeper, point)
        bad = left(keeper, stored) if process else []
        if process:
            end(process)
        keeper.dump()
        tally.point(f"power cut: dump at {point.call.name}",
                    [f"{point.call.name}#{point.call.nth}: {b}" for b in bad], process is not None)
    tally.assert_clean()


def test_a_dump_that_is_not_synced_is_seen(cuttable):
    """This test would be worth nothing if it passed without the dump's fsync as well."""
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
    """The file systems of the other tests keep a name with the next file that is synced, whoever syncs it. No promise of
    theirs: each name that a dump gives, the manifest's at last, is followed by an fsync of the directory."""
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
    """A game that numbers its rows, and remembers when each was acknowledged."""

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
        """How many rows were acknowledged by then."""
        return sum(at < moment for at in self.acks)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *args):
        self.ended.set()
        self.join(20)


def proven_until(keeper):
    """What was acknowledged before this moment is on the disk, by the supervisor's word."""
    asked = time.time()
    behind = live(keeper).get("behind_seconds")
    return asked - behind if behind is not None else 0


def numbers(lines):
    """Of the rows in the journal's files."""
    return {int(match.group(1)) for line in lines
            if (match := re.match(r"insert .* table play \((\d+)\)", line))}


def read_state(path):
    """What does not read as it was written: state.json, and the alerts that wait."""
    bad = []
    for name in glob.glob(os.path.join(path, "*state*.json")) + glob.glob(os.path.join(path, "alerts", "*.json")):
        with open(name) as f:
            try:
                json.load(f)
            except ValueError as e:
                bad.append(f"{name}: {e}")
    return bad


def supervised_left(keeper, stored, played):
    """What a cut leaves: the dumps, the state, the alerts, and the play up to a moment ago."""
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
    """Under a supervisor that writes journal, dumps, state and alerts, stopped at any moment: after the cut
    each file is whole, and no play is missing but the newest: what was said not to be proven yet."""
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
