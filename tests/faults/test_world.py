"""Tests of what others may do to the server and to files during our work."""
import os

import pytest
from promises import broken_dumps, dumps_again, names, unnamed
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, FAILED


def test_a_crashed_table_of_another_engine(doomed, victim):
    """A dump with a table that the server cannot open fails as a whole and names it."""
    keeper = doomed
    keeper.configure({"dump": {"engines": "all"}})
    keeper.world.sql("CREATE TABLE annals (id INT PRIMARY KEY, what VARCHAR(40)) ENGINE=MyISAM",
                     "INSERT INTO annals VALUES (1,'x')")
    first = keeper.dump()["name"]
    keeper.world.sql("FLUSH TABLES")
    with open(os.path.join(victim.datadir, keeper.world.schema, "annals.MYI"), "r+b") as f:
        f.write(b"\xff" * 64)
    done = keeper.run("--dump")
    assert done.rc == FAILED and "annals" in done.err, done
    assert names(keeper) == [first] and not broken_dumps(keeper)
    keeper.world.sql("DROP TABLE annals")
    assert not dumps_again(keeper)


def test_a_server_that_is_shut_down_under_a_dump(doomed, victim):
    """A dump fails with a reason if the server is shut down meanwhile, and leaves the older dump; the next one works."""
    keeper = doomed
    first = keeper.dump()["name"]
    process = keeper.popen("--dump", fault="dump.locked=stop")
    pids = wait_stopped(keeper, "dump.locked")
    victim.stop()
    go_on(pids)
    done = keeper.finish(process)
    assert done.rc == FAILED and not unnamed(done), done
    assert names(keeper) == [first] and not broken_dumps(keeper)
    victim.start()
    done = keeper.run("--restore")
    assert done.rc == DONE, done
    assert not dumps_again(keeper)


@pytest.mark.parametrize("point", ["restore.chosen", "restore.shadows_created"])
def test_a_dump_that_is_removed_under_a_restore(keeper, point):
    """If the newest dump is removed during a restore the restore succeeds, or fails and leaves the world as it was; the next
    one succeeds."""
    keeper.dump()
    full = keeper.world.checksums()
    newest = keeper.path(keeper.newest()) if keeper.dump() else None
    memory = [row[0] for row in keeper.world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND engine='MEMORY'")]
    keeper.world.sql(*[f"TRUNCATE {table}" for table in memory])
    empty = keeper.world.checksums()
    process = keeper.popen("--restore", fault=point + "#1=stop")
    at_work = wait_stopped(keeper, point)
    os.unlink(newest)
    go_on(at_work)
    done = keeper.finish(process)
    assert keeper.world.checksums() == (full if done.rc == DONE else empty), done
    assert not unnamed(done)
    if done.rc != DONE:
        keeper.ok("--restore")
