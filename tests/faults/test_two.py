"""Tests of two keepers of one world on two hosts: the first one stops in the middle of its work and the server ends its
sessions; the second one does the work and the game continues. Then the first one continues."""
import os
import shutil
import signal

import pytest
from inject import Attached, Injected, share, stops, sweep, touched, watch
from promises import broken_dumps, lose, settled, unnamed
from wk.crash import DUMP_POINTS, RESTORE_POINTS, SWAPPED, go_on, wait_stopped
from wk.keeper import DONE, HELD, REFUSED, USER
from wk.util import session_pids, wait_for

# Statements that write, by the server's counters.
WRITES = ["insert", "insert_select", "replace", "load", "update", "delete", "truncate", "create_table",
          "drop_table", "alter_table", "rename_table", "create_trigger", "drop_trigger"]
SLOTS = 16  # locks of a restore: the first is the world's, the others belong to its further sessions


@pytest.fixture
def pair(keeper, make_keeper):
    """Returns two keepers of the same world with the same dumps in their own directories."""
    keeper.first = keeper.dump()["name"]
    keeper.memory = [row[0] for row in keeper.world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND engine='MEMORY'")]
    other = make_keeper(keeper.world, account=False)
    shutil.rmtree(other.dumps_dir)
    shutil.copytree(keeper.dumps_dir, other.dumps_dir)
    return keeper, other


def stand_still(keeper, point, *args):
    """Starts an action that is stopped at this fault point, and ends its sessions on the server."""
    process = keeper.popen(*args, fault=point + "#1=stop")
    pids = wait_stopped(keeper, point)
    forget(keeper)
    return process, pids


@pytest.mark.parametrize("point", [p for p in RESTORE_POINTS if p != "restore.conflict_saved"])
def test_a_restore_that_wakes_up(pair, tally, point):
    """A restore that continues after another keeper restored the world never writes into it."""
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
    """A dump that continues after another keeper restored the world stores a complete dump that orders before that keeper's
    newer one."""
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
    """While the server still has the first keeper's lock the second one's restore is refused."""
    first, other = pair
    lose(first)
    process = first.popen("--restore=" + first.first, fault="restore.loaded=stop")
    pids = wait_stopped(first, "restore.loaded")
    held = other.run("--restore=" + first.first)
    assert held.rc == HELD, held
    go_on(pids)
    done = first.finish(process)
    assert done.rc == DONE, done


# -- at any call -------------------------------------------------------------------------------


def holders(keeper):
    """Returns the sessions that hold the locks of this world's restore; the first one may swap."""
    name = f"CONCAT('worldkeeper.',LEFT(SHA2('{keeper.world.schema}',256),32)"
    asked = [f"IS_USED_LOCK({name}{extra}))" for extra in ["", *[f",'.{i}'" for i in range(1, SLOTS)]]]
    return list(keeper.server.sql("SELECT " + ", ".join(asked))[0])


def writes(keeper):
    """Returns how many writing statements the server has executed, by kind."""
    counted = dict(keeper.server.sql("SHOW GLOBAL STATUS LIKE 'Com\\_%'"))
    return {name: int(counted["Com_" + name]) for name in WRITES}


def stands_still(fault, process):
    """Waits until the process and all its threads are stopped. Returns False if it ended before."""
    def still():
        if process.poll() is not None:
            return "ended"
        return any("--- stopped by SIGSTOP ---" in line for line in fault.told()) and "stands"
    return wait_for(still, "the first to stand still") == "stands"


def wakes_up(keeper, process):
    """Continues the process until it ends. Its threads may stop one by one, because each counts its own calls."""
    def ended():
        go_on(session_pids(process))
        return process.poll() is not None
    wait_for(ended, "the first to end")
    return keeper.finish(process)


def forget(keeper, sessions=None):
    """Ends these sessions of the first keeper on the server, or all of them."""
    keeper.server.end_sessions(user=USER, **({"id": set(sessions)} if sessions else {}))


def tries_before(pair, forgotten):
    """Runs the other keeper's restore while the server still has the first one's sessions, or all except the lock's."""
    first, other = pair
    held = holders(first)
    if forgotten == "its lock" and held[0]:
        forget(first, held[:1])
        held[0] = None
    done = other.run("--restore=" + first.first)
    return done, [f"two hold the world: {done}"] if any(held) and done.rc != HELD else []


def taken_over(pair, forgotten, full):
    """Lets the other keeper restore as soon as it may, with as few ended sessions of the first one as possible. Returns the
    violations."""
    first, other = pair
    done, bad = tries_before(pair, forgotten) if forgotten != "everything" else (None, [])
    if not done or done.rc != DONE:
        forget(first)
        done = other.run("--restore=" + first.first)
    if done.rc == REFUSED and first.world.checksums() == full:  # the first one's last statement was its swap
        done = other.run("--restore=" + first.first, "--force")
    if done.rc != DONE or first.world.checksums() != full:
        bad.append(f"the other one has not restored it: {done}")
    return bad


def written(before, after):
    return {name: after[name] - n for name, n in before.items() if after[name] != n}


def after_it_woke(pair, process):
    """Lets the game continue in the world that the other keeper restored, then the first keeper. Returns the violations."""
    first, other = pair
    first.world.mark(2)
    now, tables, count = first.world.checksums(), first.world.sql("SHOW TABLES"), writes(first)
    woken = wakes_up(first, process)
    settled(first)
    bad = unnamed(woken)
    if written(count, writes(first)):
        bad.append(f"it writes: {written(count, writes(first))}")
    if first.world.checksums() != now or first.world.sql("SHOW TABLES") != tables:
        bad.append(f"the world is not what it was: {first.world.sql('SHOW TABLES')}")
    if (done := other.run("--dump")).rc != DONE:
        bad.append(f"the other one cannot go on: {done}")
    return [f"woken ({woken.rc}): {b}" for b in bad]


@pytest.mark.parametrize("forgotten", ["everything", "its lock", "nothing yet"])
def test_a_restore_that_stands_still_anywhere(pair, tally, forgotten):
    """A restore is stopped after any of its calls while the server ends all its sessions, only the lock's, or none. Only one
    keeper writes at a time, the world is that of the dump, and the continued restore writes nothing."""
    first, other = pair
    for keeper in pair:
        keeper.configure({"retention": {"keep_last": 100000}})
    full, tables = first.world.checksums(), first.world.sql("SHOW TABLES")
    lose(first)
    for point in sweep(stops(watch(first, lambda: first.ok("--restore=" + first.first))), tally, share(4)):
        shutil.copytree(first.dumps_dir, other.dumps_dir, dirs_exist_ok=True)  # both have the same dumps
        lose(first)
        with Injected(first, point) as fault:
            process = first.popen("--restore=" + first.first)
            stood = stands_still(fault, process)
        if stood:
            bad = taken_over(pair, forgotten, full) + after_it_woke(pair, process)
        else:
            bad = unnamed(first.finish(process))
        first.ok("--restore=" + first.first, "--force")
        if first.world.sql("SHOW TABLES") != tables:
            bad.append(f"left in the schema: {first.world.sql('SHOW TABLES')}")
        tally.point(f"two keepers: one stands still in a restore, the server forgets {forgotten}",
                    [f"{point.call.name}#{point.call.nth}: {b}" for b in bad], stood)
    tally.assert_clean()


# -- two supervisors ---------------------------------------------------------------------------


@pytest.fixture
def hosts(doomed, make_keeper):
    """Returns two supervisors' keepers; the first one has a dump."""
    quick = {"probe": {"interval": "100ms"}, "retention": {"keep_last": 100000}}
    doomed.configure(quick)
    other = make_keeper(doomed.world, quick, account=False)
    doomed.first = doomed.dump()["name"]
    return doomed, other


def begins_to_restore(first, other):
    """Crashes the first keeper's server and returns the process of its restore, stopped with the lock. The other keeper has
    the same dumps and state."""
    first.start(fault="restore.leased#1=stop")
    first.wait(lambda: os.path.exists(os.path.join(first.dumps_dir, "state.json")), "the state")
    shutil.rmtree(other.dumps_dir)
    shutil.copytree(first.dumps_dir, other.dumps_dir, ignore=shutil.ignore_patterns(".*", "*.part"))
    first.server.crash()
    return wait_stopped(first, "restore.leased")[0]


def ours_again(first, other, full):
    """Gives the world back to the first keeper, as it was at the beginning, for the next round."""
    other.stop()
    first.stop()
    first.ok("--init", "--force")
    first.ok("--restore=" + first.first, "--force")
    first.dump()
    assert first.world.checksums() == full


def host_stands_still(first):
    """Stops all processes of the first host and ends their sessions on the server."""
    for pid in first.pids():
        os.kill(pid, signal.SIGSTOP)
    forget(first)


def both_awake(first, other, swapped, full):
    """Continues the first host while the game plays: one of the two has the world, the other one sees a foreign one. Returns
    the violations."""
    bad = []
    if first.world.checksums() != full:
        bad.append("the world is not that of the dump")
    first.world.mark(2)
    now, count = first.world.checksums(), writes(first)
    go_on(first.pids())
    owner, other_keeper = (first, other) if swapped else (other, first)
    owner.wait_state("UP")
    owner.probes_pass("A", 3)
    other_keeper.wait_verdict("FOREIGN")
    written_now = written(count, writes(first))
    if not swapped and written_now.keys() - {"create_table", "drop_table"}:  # these belong to the other keeper's dump
        bad.append(f"woken, it writes: {written_now}")
    if first.world.checksums() != now:
        bad.append("the world is not what it was")
    return bad


def test_a_host_that_stands_still_anywhere(hosts, tally):
    """The first host is stopped after any call of its restore: the other supervisor restores the world, or finds it restored
    and foreign. The first host then sees whose world it is and writes nothing."""
    first, other = hosts
    full = first.world.checksums()
    with Attached(first, begins_to_restore(first, other)) as watched:
        first.wait_state("UP")
        wait_for(watched.ended, "the worker's end")
    other.start(state=None)
    ours_again(first, other, full)
    for point in sweep(stops(touched(first, watched.trace)), tally, share(16)):
        with Attached(first, begins_to_restore(first, other), point) as fault:
            wait_for(lambda: fault.ended() or fault.stands(), "the first to stand still")
            stood = not fault.ended()
            host_stands_still(first)
            swapped = first.world.checksums() == full
            other.start(state=None)
            other.wait_verdict("FOREIGN" if swapped else "ALIVE")
            bad = both_awake(first, other, swapped, full)
        ours_again(first, other, full)
        tally.point("two supervisors: one host stands still in a restore",
                    [f"{point.call.name}#{point.call.nth}{', swapped' if swapped else ''}: {b}" for b in bad],
                    stood)
    tally.assert_clean()
