"""The supervisor is killed (SIGKILL) at each fault point of a dump and of a restore, alone or together with the server."""
import glob
import gzip
import os
import signal

import pytest
from wk.crash import DUMP_POINTS, RESTORE_POINTS, SWAPPED, Story, stopped
from wk.keeper import DONE
from wk.util import wait_for
from wk.watch import Watcher

pytestmark = pytest.mark.either_server


@pytest.mark.sweep(2)
@pytest.mark.parametrize("point", DUMP_POINTS)
def test_supervisor_killed_during_a_dump(keeper, make_world, point):
    """If the supervisor is killed at any point of a dump, no dump is lost, no incomplete dump counts, and the next supervisor
    continues."""
    story = Story(keeper).change()
    keeper.start(fault=point + "=killall")
    done = keeper.run("--dump")
    assert done.rc != DONE, done
    keeper.wait(lambda: not keeper.alive(), "the supervisor to die")
    newest = story.newest_is_kept()
    assert (newest == 2) == (point in ("dump.manifest_written", "dump.retained"))
    keeper.start()
    story.world_equals_a_dump(2)  # the world itself did not change
    target = make_world("empty")
    keeper.server.grant("keeper@localhost", target.schema)
    keeper.ok("--restore", "--into", target.schema)
    assert target.checksums() == story.states[newest]
    keeper.dump()
    assert not keeper.parts()
    keeper.ok("--verify")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_supervisor_killed_during_a_restore(doomed, victim, point):
    """If the supervisor is killed at any point of a restore, either no or all tables are restored. The next supervisor finishes,
    and what the game wrote before or after the swap is kept."""
    story = Story(doomed)
    tables = doomed.world.sql("SHOW TABLES")
    victim.crash()
    doomed.world.sql("INSERT INTO chat VALUES (1,'too early')")
    doomed.start(state=None, fault=point + "=killall")
    doomed.wait(lambda: not doomed.alive(), "the supervisor to die")
    rows = [doomed.world.rows(t) for t in ("player", "fleet", "mark")]
    assert rows == ([2000, 3000, 1] if point in SWAPPED else [0, 0, 0])
    if point in SWAPPED:
        doomed.world.sql("INSERT INTO fleet VALUES (-1,0,0)")  # players write into the restored world
        story.states[1] = doomed.world.checksums()
    else:
        assert doomed.flag() != "UP"
    doomed.start()
    story.world_equals_a_dump(1)
    doomed.wait(lambda: doomed.world.sql("SHOW TABLES") == tables, "left-overs to be tidied up")
    saved = b"".join(gzip.open(p).read() for p in doomed.conflicts())
    assert b"too early" in saved
    story.newest_is_kept()


@pytest.mark.parametrize("point", [
    "dump.locked", "dump.table_read", "dump.verified", "dump.renamed", "dump.manifest_written",
    "state.saved"])
def test_both_killed_during_a_dump(doomed, victim, point):
    """If server and supervisor are killed during a dump, the newest intact dump is restored."""
    story = Story(doomed).change()
    doomed.start(fault=None if point == "state.saved" else point + "=killall")
    if point == "state.saved":
        doomed.kill9()
    else:
        done = doomed.run("--dump")
        assert done.rc != DONE, done
        doomed.wait(lambda: not doomed.alive(), "the supervisor to die")
    victim.crash()
    newest = story.newest_is_kept()
    with Watcher(doomed, story.full()) as watcher:
        doomed.start()
    watcher.assert_clean()
    story.world_equals_a_dump(newest)


@pytest.mark.parametrize("point", ["restore.shadows_created", "restore.loaded", "restore.checked",
                                   "restore.before_rename", "restore.renamed", "restore.dropped"])
def test_both_killed_during_a_restore(doomed, victim, point):
    """If server and supervisor are killed during a restore, the next supervisor restores from the beginning."""
    story = Story(doomed)
    tables = doomed.world.sql("SHOW TABLES")
    victim.crash()
    doomed.start(state=None, fault=point + "=killall")
    doomed.wait(lambda: not doomed.alive(), "the supervisor to die")
    victim.crash()
    doomed.start()
    story.world_equals_a_dump(story.newest_is_kept())
    doomed.wait(lambda: doomed.world.sql("SHOW TABLES") == tables, "left-overs to be tidied up")


@pytest.mark.parametrize("point", DUMP_POINTS[1:10:2])
def test_action_killed_during_a_dump(keeper, point):
    """If --dump without a supervisor is killed, the older dump is kept, and the next --dump works."""
    story = Story(keeper).change()
    done = keeper.run("--dump", fault=point + "=kill")
    assert done.rc != DONE, done
    assert story.newest_is_kept() == 1
    keeper.dump()
    assert story.newest_is_kept() == 2 and not keeper.parts()


@pytest.mark.parametrize("point", RESTORE_POINTS[1::2])
def test_action_killed_during_a_forced_restore(keeper, point):
    """If --restore --force over a living world is killed, the world is completely the old or the new one, and the command can be
    repeated."""
    story = Story(keeper).change()
    tables = keeper.world.sql("SHOW TABLES")
    wanted = keeper.newest()["name"]
    done = keeper.run("--restore", "--force", fault=point + "=kill")
    assert done.rc != DONE, done
    assert keeper.world.checksums() == story.states[1 if point in SWAPPED else 2]
    keeper.ok("--restore=" + wanted, "--force")
    story.world_equals_a_dump(1)
    assert keeper.world.sql("SHOW TABLES") == tables


def test_killed_between_alert_and_state(doomed, victim, http):
    """An alert that was queued before the supervisor was killed is sent after the next start."""
    doomed.configure(http.settings())
    http.stop()
    doomed.dump()
    doomed.start()
    victim.kill9()
    queue = os.path.join(doomed.dumps_dir, "alerts", "*.json")
    doomed.wait(lambda: any('"down"' in open(f).read() for f in glob.glob(queue)), "a queued alert")
    doomed.kill9()
    victim.start()
    http.start()
    doomed.start()
    http.wait_event("down")


@pytest.mark.waits(1)  # a disk that does not answer is given up after some seconds
def test_killed_while_the_disk_is_behind(doomed, victim):
    """What the supervisor sent to a slow disk before a restore is written after the restore has recorded its world. If all of it
    is killed then, the next supervisor knows that world."""
    def saved():
        with open(os.path.join(doomed.dumps_dir, "state.json"), encoding="utf-8") as f:
            return f.read()
    story = Story(doomed)
    doomed.start(fault="state.saved=sleep:1500,restore.done=stop")
    writer = doomed.worker("scribe")
    doomed.ok("--pause")
    wait_for(lambda: '"paused": true' in saved(), "the pause on the disk")
    os.kill(writer, signal.SIGSTOP)
    doomed.ok("--resume")  # changes the state
    victim.crash()
    wait_for(lambda: doomed.worker("job") in stopped(doomed), "the end of the restore")
    before = saved()
    os.kill(writer, signal.SIGCONT)
    wait_for(lambda: saved() != before, "the late state")
    doomed.kill9()
    doomed.start()
    story.world_equals_a_dump(1)
