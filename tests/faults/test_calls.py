"""Tests each system call of a dump and of a restore that touches files or server: a kill there, and each error that it can
return. A sweep takes WK_FAULT_POINTS of them, evenly spread (WK_FAULT_SEED), 0 for all."""
import pytest
from inject import Injected, errors, kills, sweep, watch
from promises import after_a_dump, after_a_restore, dumps_again, lose, names, restores_again

FEW = {"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}
POINTS = {"kill": kills, "error": errors}


def told(point, bad, done, fault):
    met = (fault.made() or ["nothing met it"])[0][:200]
    return [f"{point.call.name}#{point.call.nth} {point.how}, rc {done.rc} ({met}): {b}" for b in bad]


@pytest.mark.parametrize("how", POINTS)
def test_dump(keeper, tally, how):
    """After a fault in a dump the newest intact dump stays, no damaged one counts, the next dump works, and success means that
    a new dump is stored."""
    keeper.configure(FEW)
    for _ in range(4):
        keeper.dump()
    for point in sweep(POINTS[how](watch(keeper, keeper.dump)), tally):
        before = names(keeper)
        with Injected(keeper, point) as fault:
            done = keeper.run("--dump")
        bad = after_a_dump(keeper, before, done, fault.mute()) + dumps_again(keeper)
        tally.point(f"dump: {how} at {point.call.name}", told(point, bad, done, fault),
                    fault.made())
    keeper.ok("--verify")
    tally.assert_clean()


@pytest.mark.parametrize("how", POINTS)
def test_restore(restorable, tally, how):
    """After a fault in a restore of a lost world the world is restored or empty, never half, and a repeated restore succeeds."""
    keeper = restorable
    lose(keeper)
    states = {"restored": keeper.restored, "empty": keeper.world.checksums()}
    calls = watch(keeper, lambda: keeper.ok("--restore=" + keeper.first))
    for point in sweep(POINTS[how](calls), tally):
        lose(keeper)
        with Injected(keeper, point) as fault:
            done = keeper.run("--restore=" + keeper.first)
        bad = after_a_restore(keeper, done, states, fault.mute())
        bad += restores_again(keeper, keeper.first, keeper.restored)
        tally.point(f"restore: {how} at {point.call.name}", told(point, bad, done, fault),
                    fault.made())
    tally.assert_clean()


@pytest.mark.parametrize("how", POINTS)
def test_restore_over_a_living_world(restorable, tally, how):
    """After a fault in a restore with --force the world is the old or the new one, and the old one is in a dump."""
    keeper = restorable
    keeper.world.mark(2)
    states = {"restored": keeper.restored, "as before": keeper.world.checksums()}

    def living():
        keeper.ok("--restore=" + keeper.first, "--force")
        keeper.world.mark(2)
    calls = watch(keeper, living)
    for point in sweep(POINTS[how](calls), tally):
        before = names(keeper)
        with Injected(keeper, point) as fault:
            done = keeper.run("--restore=" + keeper.first, "--force")
        bad = after_a_restore(keeper, done, states, fault.mute())
        if keeper.world.checksums() == keeper.restored and names(keeper)[0] in before:
            bad.append("what was there is in no dump")
        bad += restores_again(keeper, keeper.first, keeper.restored)
        keeper.world.mark(2)
        tally.point(f"restore --force: {how} at {point.call.name}", told(point, bad, done, fault),
                    fault.made())
    tally.assert_clean()
