"""The supervisor and each of its children meet a fault at their N-th call of a kind: those that write the journal, the status,
the state and the alerts. Afterwards the next supervisor finds all that it needs."""
import glob
import json
import os

import pytest
from inject import ERRORS, Call, Point, fault_of, share, spread, strace
from promises import broken_dumps, names
from wk.util import Timeout

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
CALLS = ["write", "pwrite64", "fsync", "fdatasync", "renameat", "openat", "ftruncate", "unlinkat", "close"]
DEEPEST = 16


def points():
    """Returns kills and errors in turn. There are few in a short run, because each takes a supervisor's lifetime of seconds."""
    found = [Point(Call(name, nth, ""), how) for nth in range(1, DEEPEST + 1) for name in CALLS
             for how in ["kill", *ERRORS[name]]]
    return spread(found, share(10))


def unreadable(keeper):
    """Returns published files that are not valid JSON; readers must see the old or the new contents."""
    bad = []
    for name in [os.path.join(keeper.status_dir, "status.json"), os.path.join(keeper.dumps_dir, "state.json"),
                 *glob.glob(os.path.join(keeper.dumps_dir, "alerts", "*.json"))]:
        try:
            with open(name) as f:
                json.load(f)
        except FileNotFoundError:
            pass
        except ValueError as e:
            bad.append(f"{name}: {e}")
    return bad


def lives(keeper, point):
    """Runs a supervisor with the fault in it."""
    keeper.prefix = strace(os.path.join(keeper.base, "trace"), "-e", fault_of(point), names=[point.call.name])
    try:
        keeper.start(state=None)
    finally:
        keeper.prefix = []
    try:
        keeper.wait_state("UP", timeout=5)
    except AssertionError:  # it may be killed or be unable to publish
        pass
    keeper.world.sql("INSERT INTO chat VALUES (3,'in between')")
    keeper.run("--dump")
    keeper.world.sql("INSERT INTO chat VALUES (4,'afterwards')")
    keeper.kill9()


def goes_on(keeper):
    """Starts the next supervisor and returns violations: it must be UP and following, and restore the world after a crash of
    the server."""
    keeper.start()
    keeper.wait(lambda: (lambda j: j.get("state") == "following" and not j["gap"])(
        keeper.status().get("journal") or {}), "the journal")
    keeper.world.sql("INSERT INTO chat VALUES (5,'the last word')")
    before, told = keeper.world.checksums(), keeper.status().get("last_restore")
    keeper.server.crash()
    keeper.wait(lambda: keeper.status().get("last_restore") != told and keeper.state() == "UP", "the world")
    bad = [] if keeper.world.checksums() == before else ["the world is not what it was"]
    keeper.stop()
    return bad


@pytest.fixture
def followed(make_server, make_world, make_keeper, http):
    world = make_world(on=make_server(*LOG))
    keeper = make_keeper(world, {**http.settings(), "journal": {"mode": "follow"}, "probe": {"interval": "100ms"}})
    keeper.init()
    keeper.dump()
    return keeper


def test_each_child_meets_a_fault(followed, tally):
    for point in points():
        stored = names(followed)[:1]
        lives(followed, point)
        bad = broken_dumps(followed) + unreadable(followed)
        bad += [f"{name} is gone" for name in stored if name not in names(followed)]
        try:
            bad += goes_on(followed)
        except Timeout as e:
            bad.append(str(e)[:600])
            followed.kill9()
        tally.point(f"supervisor and children: {point.how} at {point.call.name}",
                    [f"{point.call.name}#{point.call.nth} {point.how}: {b}" for b in bad])
    tally.assert_clean()
