"""Two keepers of one world, on two hosts: the first stands still in the middle of its work, the server lets go
of it, the second does the work and the game goes on. Then the first wakes up."""
import shutil

import pytest
from promises import broken_dumps
from wk.crash import DUMP_POINTS, RESTORE_POINTS, SWAPPED, go_on, wait_stopped
from wk.keeper import DONE, HELD
from wk.util import wait_for


@pytest.fixture
def pair(keeper, make_keeper):
    """The same world and the same dumps twice, in directories of their own."""
    keeper.first = keeper.dump()["name"]
    keeper.memory = [row[0] for row in keeper.world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND engine='MEMORY'")]
    other = make_keeper(keeper.world, account=False)
    shutil.rmtree(other.dumps_dir)
    shutil.copytree(keeper.dumps_dir, other.dumps_dir)
    return keeper, other


def lose(keeper):
    keeper.world.sql(*[f"TRUNCATE {table}" for table in keeper.memory])


def stand_still(keeper, point, *args):
    """An action that is stopped there, and whom the server has forgotten."""
    process = keeper.popen(*args, fault=point + "#1=stop")
    pids = wait_stopped(keeper, point)
    keeper.server.end_sessions("user='keeper'")
    wait_for(lambda: not keeper.server.value(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user='keeper'"), "the sessions to end")
    return process, pids


@pytest.mark.parametrize("point", [p for p in RESTORE_POINTS if p != "restore.conflict_saved"])
def test_a_restore_that_wakes_up(pair, tally, point):
    """It never writes into the world that the other one has restored."""
    first, other = pair
    full = first.world.checksums()
    lose(first)
    process, pids = stand_still(first, point, "--restore=" + first.first)
    done = other.run("--restore=" + first.first, "--force")
    assert done.rc == DONE, done
    first.world.mark(2)
    now = first.world.checksums()
    assert now != full
    go_on(pids)
    woken = first.finish(process)
    bad = []
    if first.world.checksums() != now:
        bad.append(f"{point}: it has written: {woken}")
    if woken.rc == DONE and point not in SWAPPED:
        bad.append(f"{point}: it says done")
    tally.point("two keepers: the first wakes up in a restore", bad)
    tally.assert_clean()


@pytest.mark.parametrize("point", [p for p in DUMP_POINTS if p != "dump.chosen"])
def test_a_dump_that_wakes_up(pair, tally, point):
    """What it stores is whole, and older than what the other one has made of the world since."""
    first, other = pair
    process, pids = stand_still(first, point, "--dump")
    lose(first)
    done = other.run("--restore=" + first.first)
    assert done.rc == DONE, done
    first.world.mark(2)
    newest = other.dump()
    go_on(pids)
    woken = first.finish(process)
    bad = broken_dumps(first)
    mine = first.newest()
    if (mine["generation"], mine["sequence"]) >= (newest["generation"], newest["sequence"]):
        bad.append(f"{point}: {mine['name']} would be taken before {newest['name']}: {woken}")
    tally.point("two keepers: the first wakes up in a dump", bad)
    tally.assert_clean()


def test_while_the_server_still_holds_it(pair):
    """As long as the server knows the first one, the second gets nothing."""
    first, other = pair
    lose(first)
    process = first.popen("--restore=" + first.first, fault="restore.loaded=stop")
    pids = wait_stopped(first, "restore.loaded")
    assert other.run("--restore=" + first.first).rc == HELD
    go_on(pids)
    assert first.finish(process).rc == DONE
