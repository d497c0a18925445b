"""The server is killed (SIGKILL) at points spread over a dump and a restore, while the supervisor runs."""
import signal
import time

import pytest
from wk.crash import DUMP_POINTS, RESTORE_POINTS, Story, go_on, stopped, wait_stopped
from wk.keeper import DONE
from wk.server import MYSQL
from wk.util import wait_for
from wk.watch import Watcher

pytestmark = pytest.mark.third_on_mysql

DUMP_MOMENTS = [*DUMP_POINTS, "dump.table_read#2", "dump.table_read#4"]
DUMP_PARTS = [0.05, 0.2, 0.4, 0.6, 0.8, 0.95]
RESTORE_PARTS = [0.0, 0.05, 0.15, 0.25, 0.35, 0.5, 0.65, 0.8, 0.95]


@pytest.mark.sweep(2)
@pytest.mark.parametrize("moment", DUMP_MOMENTS)
def test_server_killed_at_a_point_of_a_dump(doomed, victim, moment):
    """If the server is killed at any point of a dump, the newest intact dump is restored."""
    story = Story(doomed).change()
    doomed.start(fault=moment + "=stop")
    dumping = doomed.popen("--dump")
    at_work = wait_stopped(doomed, moment)
    with Watcher(doomed, story.full()) as watcher:
        victim.kill9()
        watcher.killed()
        doomed.wait(lambda: doomed.flag() == "WAITING", "the flag WAITING")
        victim.start()
        go_on(at_work)
        doomed.finish(dumping)
        doomed.wait_state("UP")
        wait_for(lambda: doomed.world.rows() > 0, "the world")
    watcher.assert_clean()
    story.world_equals_a_dump(story.newest_is_kept())
    doomed.process.send_signal(signal.SIGTERM)
    doomed.wait(lambda: go_on(stopped(doomed)) or not doomed.alive(), "its end")  # a scheduled dump also stops there
    assert doomed.process.returncode == 0
    assert doomed.dump() and not doomed.parts()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("moment", RESTORE_POINTS)
def test_server_killed_at_a_point_of_a_restore(doomed, victim, moment):
    """If the server is killed again during a restore, the next attempt restores the complete world. A manual --restore does not
    have to wait for that attempt."""
    story = Story(doomed)
    tables, by_hand = doomed.world.sql("SHOW TABLES"), None
    with Watcher(doomed, story.full()) as watcher:
        victim.crash()
        watcher.killed()
        doomed.start(state=None, fault=moment + "=stop")
        at_work = wait_stopped(doomed, moment)
        victim.kill9()
        watcher.killed()
        doomed.wait(lambda: doomed.status().get("probe", {}).get("verdict") == "UNREACHABLE",
                    "the verdict UNREACHABLE")
        victim.start()
        go_on(at_work)
        if RESTORE_POINTS.index(moment) % 2:
            doomed.wait(lambda: go_on(stopped(doomed)) or doomed.state() in ("WAITING", "UP"), "WAITING or UP")
            by_hand = doomed.popen("--restore")

        def whole():
            go_on(stopped(doomed))  # each new worker stops at that point again
            return doomed.state() == "UP" and (not by_hand or by_hand.poll() is not None)
        doomed.wait(whole, "the world, and an answer to who asked for it")
    if by_hand:
        doomed.finish(by_hand)
    watcher.assert_clean()
    story.world_equals_a_dump(1)
    doomed.wait(lambda: go_on(stopped(doomed)) or doomed.world.sql("SHOW TABLES") == tables, "left-overs to be tidied up")


@pytest.fixture(scope="module")
def durations():
    """Holds how long an undisturbed restore of the big world takes here."""
    return {}


def big(make_world, make_keeper, victim, **settings):
    keeper = make_keeper(make_world("big", on=victim), settings).init()
    keeper.story = Story(keeper)
    return keeper


@pytest.mark.sweep(3)
@pytest.mark.parametrize("part", DUMP_PARTS)
def test_server_killed_while_a_big_dump_runs(make_world, make_keeper, victim, part):
    """If the server is killed while a big world is dumped, the newest intact dump is restored."""
    keeper = big(make_world, make_keeper, victim)
    keeper.world.sql("UPDATE mark SET v=2")
    keeper.story.states[2] = keeper.world.checksums()
    keeper.start()
    took = keeper.newest()["seconds"]
    victim.grow_old()
    dumping = keeper.popen("--dump")
    wait_for(lambda: keeper.parts() or dumping.poll() is not None, "the dump to begin")
    time.sleep(took * part)
    with Watcher(keeper, keeper.story.full()) as watcher:
        victim.kill9()
        watcher.killed()
        done = keeper.finish(dumping)
        keeper.wait(lambda: keeper.flag() == "WAITING", "the flag WAITING")
        victim.start()
        keeper.wait_state("UP")
    watcher.assert_clean()
    newest = keeper.story.newest_is_kept()
    assert newest == (2 if done.rc == DONE else 1), done
    keeper.story.world_equals_a_dump(newest)


def came_back(world):
    """Returns whether a stopped restore has swapped the world in. It may still hold its locks, which do not hide the number of
    rows."""
    fresh = ["SET information_schema_stats_expiry=0"] if MYSQL else []
    return world.sql(*fresh, "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() "
                     "AND TABLE_NAME='planet'")[0][0] > 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize("part", RESTORE_PARTS)
def test_server_killed_while_a_big_restore_runs(make_world, make_keeper, victim, durations, part):
    """If the server is killed while a big world is loaded, the next attempt restores all of it, and an incomplete world is never
    seen."""
    keeper = big(make_world, make_keeper, victim)
    victim.crash()
    if "restore" not in durations:
        durations["restore"] = keeper.ok("--restore", "--json")["seconds"]
        victim.crash()
    victim.grow_old()
    with Watcher(keeper, keeper.story.full()) as watcher:
        keeper.start(state=None)
        keeper.wait_state("RESTORING", "UP")  # it may be over before we look
        time.sleep(durations["restore"] * part)
        with keeper.standing_still():
            wait_for(lambda: not victim.sessions(info="RENAME%"), "a swap on its way to be done")
            restored = came_back(keeper.world)
            victim.kill9()
            watcher.killed(restored)
        victim.start()
        if RESTORE_PARTS.index(part) % 2:
            keeper.wait_state("WAITING", "UP")
            keeper.run("--restore")
        keeper.wait(lambda: keeper.state() == "UP" and keeper.world.rows("planet") > 0, "the world")
    watcher.assert_clean()
    keeper.story.world_equals_a_dump(1)
