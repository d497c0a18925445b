"""Tests of what the machine may refuse or change: memory, descriptors, complete reads and writes, the time."""
import os
import resource
import signal
import time

import pytest
from inject import POINTS, share, spread
from promises import (after_a_dump, after_a_restore, again, broken_dumps, dumps_again, lose, names,
                      restores_again, unnamed)
from wk.keeper import DONE
from wk.util import wait_for

FEW = {"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}
DAY = 86400


@pytest.fixture
def shimmed(keeper):
    """Returns a keeper for runs with tests/tools/shim.c."""
    keeper.configure(FEW)
    return keeper


def test_no_memory(shimmed, tally):
    """If any one memory allocation of a dump fails no damaged dump is left, the reason is printed, and the next dump works.
    Only OpenSSL's initialization may crash, for a lock that it could not create."""
    counted = os.path.join(shimmed.base, "count")
    for _ in range(4):
        shimmed.ok("--dump", **shimmed.shim(count=counted))
    with open(counted) as f:
        requests = int(f.read())
    points, died = spread(range(1, requests + 1), POINTS or 2000), 0
    for nth in points:
        before = names(shimmed)
        done = shimmed.run("--dump", **shimmed.shim(malloc=nth))
        bad = after_a_dump(shimmed, before, done) + dumps_again(shimmed)
        died += done.rc < 0
        tally.point("no memory", [f"request {nth} of {requests}, rc {done.rc}: {b}" for b in bad])
    tally.assert_clean()
    assert died <= 1 + len(points) // 40


def test_no_descriptors(keeper, tally):
    """With any low limit of descriptors a dump succeeds or gives a reason."""
    keeper.configure(FEW)
    for _ in range(4):
        keeper.dump()
    for limit in range(3, 40):
        before = names(keeper)
        keeper.prefix = ["prlimit", f"--nofile={limit}:{limit}", "--"]
        done = keeper.run("--dump")
        keeper.prefix = []
        bad = after_a_dump(keeper, before, done) + dumps_again(keeper)
        tally.point("no descriptors", [f"{limit} of them, rc {done.rc}: {b}" for b in bad])
    tally.assert_clean()


def restores_without(keeper, tally, fault, what, prefix=(), **env):
    """Runs one restore of a lost world in which the machine refuses something (`fault`), and records violations: the
    world must be restored or empty, and a failure must give a reason. Returns its result."""
    lose(keeper)
    states = {"restored": keeper.restored, "empty": keeper.world.checksums()}
    keeper.prefix = list(prefix)
    done = keeper.run("--restore=" + keeper.first, **env)
    keeper.prefix = []
    bad = after_a_restore(keeper, done, states, False) + restores_again(keeper, keeper.first, keeper.restored)
    tally.point(fault, [f"{what}, rc {done.rc}: {b}" for b in bad])
    return done


def test_no_memory_for_a_restore(restorable, tally):
    """If any one memory allocation of a restore fails the world is restored or empty, and the reason is printed."""
    counted = os.path.join(restorable.base, "count")
    lose(restorable)
    restorable.ok("--restore=" + restorable.first, **restorable.shim(count=counted))
    with open(counted) as f:
        requests = int(f.read())
    points = spread(range(1, requests + 1), share(4) or 2000)
    died = sum(restores_without(restorable, tally, "no memory for a restore", f"request {nth} of {requests}",
                                **restorable.shim(malloc=nth)).rc < 0 for nth in points)
    tally.assert_clean()
    assert died <= 1 + len(points) // 40


def test_no_descriptors_for_a_restore(restorable, tally):
    for limit in spread(range(3, 40), share(4)):
        restores_without(restorable, tally, "no descriptors for a restore", f"{limit} of them",
                         prefix=["prlimit", f"--nofile={limit}:{limit}", "--"])
    tally.assert_clean()


# -- the supervisor ----------------------------------------------------------------------------


def lives_with(keeper, **env):
    """Runs a supervisor that is refused something and may end with a reason. Returns the violations, and whether it crashed in
    OpenSSL's initialization."""
    where, until = len(keeper.log()), time.monotonic() + 3  # a client that cannot be accepted waits
    keeper.start(state=None, **env)
    wait_for(lambda: not keeper.alive() or "state STARTING" in keeper.log()[where:], "a probe, or its end")
    asked = keeper.popen("--dump")
    wait_for(lambda: asked.poll() is not None or not keeper.alive() or time.monotonic() > until, "a dump")
    lived = keeper.alive()
    rc = keeper.stop() if lived else keeper.process.wait()
    bad = broken_dumps(keeper) + unnamed(keeper.finish(asked))
    said = keeper.log()[where:]
    died = rc == -signal.SIGSEGV and "keeps world" not in said
    if not lived and not died and (rc <= 0 or "worldkeeper: " not in said):
        bad.append(f"it ended with {rc}: {said[-600:]}")
    if lived and rc:
        bad.append(f"told to end it answers {rc}: {said[-600:]}")
    return bad, died


def all_is_well(keeper, before):
    """Starts the next supervisor and returns violations: it must be UP with the same world, and dump it."""
    keeper.start()
    bad = [] if keeper.world.checksums() == before else ["the world is not what it was"]
    bad += dumps_again(keeper)
    keeper.stop()
    return bad


def test_no_memory_for_the_supervisor(shimmed, tally):
    """If any one memory allocation of the supervisor, or of a child forked before, fails, that process gives a reason and
    ends, and the next supervisor works."""
    counted, before = os.path.join(shimmed.base, "count"), shimmed.world.checksums()
    assert lives_with(shimmed, **shimmed.shim(count=counted)) == ([], False)
    with open(counted) as f:
        requests = int(f.read())
    points, deaths = spread(range(1, requests + 1), share(4) or 500), 0
    for nth in points:
        bad, died = lives_with(shimmed, **shimmed.shim(malloc=nth))
        bad += all_is_well(shimmed, before)
        deaths += died
        tally.point("no memory for the supervisor", [f"request {nth} of {requests}: {b}" for b in bad])
    tally.assert_clean()
    assert deaths <= 1 + len(points) // 40


def test_no_descriptors_for_the_supervisor(shimmed, tally):
    """With any low limit of descriptors from its start the supervisor works, or ends with a reason."""
    before = shimmed.world.checksums()
    for limit in spread(range(3, 40), share(4)):
        shimmed.prefix = ["prlimit", f"--nofile={limit}:{limit}", "--"]
        bad, _ = lives_with(shimmed)
        shimmed.prefix = []
        bad += all_is_well(shimmed, before)
        tally.point("no descriptors for the supervisor", [f"{limit} of them: {b}" for b in bad])
    tally.assert_clean()


def cpu_seconds(keeper):
    """Returns the processor time of the supervisor itself."""
    with open(f"/proc/{keeper.process.pid}/stat") as f:
        user, system = f.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_descriptors_run_out_under_the_supervisor(shimmed):
    """A supervisor that loses its descriptors reports it, does not spin and restores nothing; afterwards it works again."""
    shimmed.start()
    shimmed.dump()
    before, pid = shimmed.world.checksums(), shimmed.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
    used, began = cpu_seconds(shimmed), time.monotonic()
    asked = shimmed.popen("--dump")  # the supervisor cannot accept it
    shimmed.wait_log("Too many open files")
    time.sleep(max(0, began + 2 - time.monotonic()))
    assert cpu_seconds(shimmed) - used < 0.2 * (time.monotonic() - began)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert not unnamed(shimmed.finish(asked))
    shimmed.probes_pass("A", 3)
    shimmed.wait_state("UP")
    assert again(shimmed, "--dump").rc == DONE and not broken_dumps(shimmed)
    assert shimmed.world.checksums() == before and "restore begins" not in shimmed.log()


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_short_reads_and_writes(shimmed, size):
    """With read() and write() of any small size the dump is intact and restores the same world."""
    before = shimmed.world.checksums()
    name = shimmed.ok("--dump", "--json", **shimmed.shim(short=size))["name"]
    assert not broken_dumps(shimmed)
    shimmed.world.mark(2)
    assert shimmed.run("--verify", **shimmed.shim(short=size)).rc == DONE
    shimmed.ok("--restore=" + name, "--force", **shimmed.shim(short=size))
    assert shimmed.world.checksums() == before


@pytest.mark.parametrize("jump", [-20 * 365 * DAY, -DAY, -30, 30, DAY, 20 * 365 * DAY])
def test_the_clock_jumps_under_the_supervisor(shimmed, jump):
    """When the clock jumps in either direction the world stays UP, nothing is restored, dumps keep their order, and the newest
    ones stay."""
    shimmed.configure({"retention": {"keep_last": 3, "keep_within": "1h", "keep_daily": 2, "keep_weekly": 0}})
    shimmed.start(**shimmed.shim(clock=shimmed.clock))
    made = [shimmed.dump()["name"] for _ in range(3)]
    shimmed.set_clock(jump)
    shimmed.probes_pass("A", 5)
    made += [shimmed.dump()["name"] for _ in range(3)]
    os.unlink(shimmed.clock)
    shimmed.probes_pass("A", 5)
    made += [shimmed.dump()["name"] for _ in range(2)]
    assert shimmed.wait_state("UP")
    assert "restore begins" not in shimmed.log()
    assert names(shimmed)[:3] == made[:-4:-1] and not broken_dumps(shimmed)
    numbers = [int(name.split("-")[2]) for name in made]
    assert numbers == sorted(set(numbers))
