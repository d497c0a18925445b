"""The supervisor is killed (SIGKILL) at each fault point of a dump and of a restore, alone or
together with the server."""
import glob
import gzip
import os

import pytest
from wk.crash import DUMP_POINTS, RESTORE_POINTS, SWAPPED, Story
from wk.keeper import DONE
from wk.watch import Watcher

pytestmark = pytest.mark.either_server


@pytest.mark.parametrize("point", DUMP_POINTS)
def test_supervisor_killed_during_a_dump(keeper, make_world, point):
    """Between any two effects of a dump: no dump is lost, no half one counts, and work goes on."""
    story = Story(keeper).change()
    keeper.start(fault=point + "=killall")
    done = keeper.run("--dump")
    assert done.rc != DONE, done
    keeper.wait(lambda: not keeper.alive(), "the supervisor to die")
    newest = story.newest_is_kept()
    assert (newest == 2) == (point in ("dump.manifest_written", "dump.retained"))
    keeper.start()
    story.world_equals_a_dump(2)  # nothing happened to the world
    target = make_world("empty")
    keeper.server.grant("keeper@localhost", target.schema)
    keeper.ok("--restore", "--into", target.schema)
    assert target.checksums() == story.states[newest]
    keeper.dump()
    assert not keeper.parts()
    keeper.ok("--verify")


@pytest.mark.parametrize("point", RESTORE_POINTS)
def test_supervisor_killed_during_a_restore(doomed, victim, point):
    """Between any two effects of a restore: all or nothing is visible, the next supervisor finishes,
    and what the game wrote, before or after the swap, is never lost."""
    story = Story(doomed)
    tables = doomed.world.sql("SHOW TABLES")
    victim.crash()
    doomed.world.sql("INSERT INTO chat VALUES (1,'too early')")
    doomed.start(state=None, fault=point + "=killall")
    doomed.wait(lambda: not doomed.alive(), "the supervisor to die")
    rows = [doomed.world.rows(t) for t in ("player", "fleet", "mark")]
    assert rows == ([2000, 3000, 1] if point in SWAPPED else [0, 0, 0])
    if point in SWAPPED:
        doomed.world.sql("INSERT INTO fleet VALUES (-1,0,0)")  # players are back already
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
    """Server and supervisor die together in a dump: afterwards the world is the newest intact one."""
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
    """Server and supervisor die together in a restore: the next start restores from the beginning."""
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
    """--dump without a supervisor, killed: the same promises hold for the one-shot action."""
    story = Story(keeper).change()
    done = keeper.run("--dump", fault=point + "=kill")
    assert done.rc != DONE, done
    assert story.newest_is_kept() == 1
    keeper.dump()
    assert story.newest_is_kept() == 2 and not keeper.parts()


@pytest.mark.parametrize("point", RESTORE_POINTS[1::2])
def test_action_killed_during_a_forced_restore(keeper, point):
    """--restore --force over a living world, killed: the world is wholly the old or the new one, and
    a person can simply say it again."""
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
    """Killed right after the alert was queued: people still hear of it after the next start."""
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
