"""The journal in files: a dump ends between two of its transactions."""
import datetime
import os
import signal
import time

import pytest
from test_journal import LOG, crash, keep
from wk.binlog import RESET
from wk.crash import go_on
from wk.follow import following, kill_follower
from wk.keeper import USER
from wk.segments import Segments

pytestmark = pytest.mark.either_server


@pytest.fixture
def logged(make_server):
    return make_server(*LOG)


def files(base):
    return {"journal": {"mode": "follow", "dir": os.path.join(base, "journal")}}


@pytest.mark.parametrize("between", ["a group of no world", "another file of the log"])
def test_a_dump_that_ends_between_two_groups(make_world, make_keeper, logged, between):
    """If there are no changes of the world between the dump's end and the next transaction, that transaction is restored and
    nothing is lost."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.configure(files(keeper.base))
    world = keeper.world
    world.sql("CREATE TABLE book (id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=InnoDB")
    keeper.dump()
    keeper.start()
    following(keeper)
    reader = kill_follower(keeper, signal.SIGSTOP)
    world.sql("UPDATE player SET points=1 WHERE id=1")
    if "file" in between:
        logged.sql("FLUSH BINARY LOGS")
    else:
        world.sql("INSERT INTO book VALUES ()", "INSERT INTO book VALUES ()")
    keeper.dump()
    world.sql("UPDATE player SET points=7 WHERE id=2")
    before = world.snapshot()
    go_on([reader])
    time.sleep(2)
    told = crash(keeper)
    print(told)
    world.assert_is(before)
    assert told["lost_seconds"] == 0, told


def test_damage_in_front_of_the_end_of_the_dump(make_world, make_keeper, logged):
    """If a segment is damaged before the dump's end, the server's log is read from the dump's end on, not from the damage on, so
    that the dump's changes are not applied twice."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.configure(files(keeper.base))
    world = keeper.world
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql("INSERT INTO chat SELECT * FROM chat LIMIT 20")
    time.sleep(1.5)
    world.sql("INSERT INTO chat SELECT * FROM chat LIMIT 20")
    reader = kill_follower(keeper, signal.SIGSTOP)
    keeper.dump()
    world.sql("INSERT INTO chat SELECT * FROM chat LIMIT 3")
    go_on([reader])
    folder = os.path.join(keeper.base, "journal")
    keeper.wait(lambda: len(os.listdir(folder)) == 2, "the next segment")
    path = os.path.join(folder, sorted(os.listdir(folder))[0])
    with open(path, "r+b") as f:
        text = f.read()
        f.seek(text.index(b"WKJF", 100) + 40)
        f.write(b"\xff")
    before = world.snapshot()
    told = crash(keeper)
    print(told)
    world.assert_is(before)
    assert told["lost_seconds"] == 0, told


@pytest.mark.parametrize("mixed", [False, True])
def test_two_losses_after_groups_of_no_world(make_world, make_keeper, logged, mixed):
    """The follower is dead when the server is killed, so that the restore reads the end of the log itself. The follower that
    reads it later reaches the same position."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.configure(files(keeper.base))
    world = keeper.world
    world.sql("CREATE TABLE book (id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=InnoDB")
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    world.sql("UPDATE player SET points=1 WHERE id=1")
    time.sleep(1.5)
    for v in range(2, 5):
        kill_follower(keeper)
        world.mark(v)
        world.sql(*["INSERT INTO book VALUES ()"] * 30)
        if mixed:
            world.sql(f"UPDATE player SET points=1 WHERE id={v}")
        before = world.snapshot()
        crash(keeper)
        world.assert_is(before, f"after loss {v - 1}")
        following(keeper)
        time.sleep(1.5)
    assert len(keeper.dumps()) == 1


def test_a_moment_before_the_log_was_begun_anew(make_world, make_keeper, logged):
    """A moment before a reset of the log is restored, although the newer log has the same file names and positions."""
    keeper = keep(make_world, make_keeper, logged)
    keeper.configure(files(keeper.base))
    world = keeper.world
    world.sql("UPDATE player SET points=points+1")
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql("UPDATE player SET points=5 WHERE id=5")
    time.sleep(2.1)
    at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    before = world.rows("player"), world.sql("SELECT id,points FROM player ORDER BY id")
    time.sleep(2.1)
    Segments(keeper, os.path.join(keeper.base, "journal")).wait_all()
    logged.sql("FLUSH BINARY LOGS", RESET)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump for the gap")
    following(keeper)
    time.sleep(2)
    world.sql("UPDATE player SET points=points+2", *["UPDATE mark SET v=v+1"] * 600,
              *["UPDATE player SET points=points+3"] * 20)
    time.sleep(2)
    keeper.stop()
    logged.sql("CREATE DATABASE other")
    logged.grant(USER + "@localhost", "other")
    keeper.ok("--restore", "--at", at, "--into", "other")
    assert (logged.value("SELECT COUNT(*) FROM other.player"),
            logged.sql("SELECT id,points FROM other.player ORDER BY id")) == before
