"""What the machine may refuse or mix up: memory, descriptors, whole reads and writes, the time."""
import os

import pytest
from inject import POINTS, spread
from promises import after_a_dump, broken_dumps, dumps_again, names, unnamed
from wk.keeper import DONE, built

FEW = {"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}
DAY = 86400


@pytest.fixture
def shimmed(keeper):
    """A keeper that may run with the shim of tests/tools/shim.c."""
    shim = built("tools", "shim.so")
    keeper.configure(FEW)
    keeper.shim = lambda **how: {"LD_PRELOAD": shim, **{"WK_SHIM_" + k.upper(): str(v) for k, v in how.items()}}
    return keeper


def test_no_memory(shimmed, tally):
    """The N-th request for memory fails, N of all there are: no half dump, a word why, the next one works.
    OpenSSL's own beginnings die of it (a lock that was not made); nothing else may."""
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
    """So few descriptors: a dump or a reason."""
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


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_short_reads_and_writes(shimmed, size):
    """Whatever read() and write() take at a time: the same dump, and the same world from it."""
    before = shimmed.world.checksums()
    name = shimmed.ok("--dump", "--json", **shimmed.shim(short=size))["name"]
    assert not broken_dumps(shimmed)
    shimmed.world.mark(2)
    assert shimmed.run("--verify", **shimmed.shim(short=size)).rc == DONE
    shimmed.ok("--restore=" + name, "--force", **shimmed.shim(short=size))
    assert shimmed.world.checksums() == before


@pytest.mark.parametrize("jump", [-20 * 365 * DAY, -DAY, -30, 30, DAY, 20 * 365 * DAY])
def test_the_clock_jumps_under_the_supervisor(shimmed, jump):
    """Both ways: the world stays UP, nothing is restored, dumps are ordered as they were made, and the newest
    ones stay."""
    clock = os.path.join(shimmed.base, "clock")
    shimmed.configure({"retention": {"keep_last": 3, "keep_within": "1h", "keep_daily": 2, "keep_weekly": 0}})
    shimmed.start(**shimmed.shim(clock=clock))
    made = [shimmed.dump()["name"] for _ in range(3)]
    with open(clock + ".new", "w") as f:
        f.write(str(jump))
    os.rename(clock + ".new", clock)
    shimmed.probes_pass("A", 5)
    made += [shimmed.dump()["name"] for _ in range(3)]
    os.unlink(clock)
    shimmed.probes_pass("A", 5)
    made += [shimmed.dump()["name"] for _ in range(2)]
    assert shimmed.wait_state("UP")
    assert "restore begins" not in shimmed.log()
    assert names(shimmed)[:3] == made[:-4:-1] and not broken_dumps(shimmed)
    numbers = [int(name.split("-")[2]) for name in made]
    assert numbers == sorted(set(numbers))
