"""The loss that a restore reports: none if that is proven, otherwise the upper bound."""
import json
import os
import re
import signal
import time

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.follow import LOG
from wk.keeper import ROOT
from wk.server import mysqldump

pytestmark = pytest.mark.either_server


def last_word(keeper):
    """Returns the seconds from the first dump until now, an upper bound for the lost time."""
    return time.time() - keeper.dumps()[-1]["at_unix"]


def unknown(told, at_least, at_most):
    """Asserts that the loss is unknown and its upper bound is in this range."""
    assert told["lost_seconds"] is None, told
    assert at_least <= told["lost_seconds_max"] <= at_most, (told, at_least, at_most)


@pytest.fixture
def unwatched(doomed):
    """Returns a world with a dump and two seconds of changes after it, without a supervisor and without a journal."""
    doomed.configure({"journal": {"mode": "off"}})
    doomed.dump()
    dumped = time.time()
    time.sleep(2)
    doomed.world.mark(7)
    doomed.played = time.time() - dumped
    return doomed


def test_nobody_watched(unwatched, victim):
    """Without a supervisor the loss is at most the time from the dump to the server's restart."""
    victim.crash()
    restarted = last_word(unwatched) + 2
    time.sleep(3)
    done = unwatched.run("--restore", "--json")
    assert done.rc == 0, done
    unknown(done.result, unwatched.played, restarted)
    assert done.result["lost"].startswith("at most ") and done.result["lost"].endswith(" s lost")


def test_the_words_on_the_screen(unwatched, victim):
    """The printed text gives the upper bound and claims neither "nothing" nor "less than a second"."""
    victim.crash()
    said = unwatched.run("--restore").out
    assert "at most" in said and " s lost" in said, said
    assert "less than a second" not in said and "nothing" not in said, said


def test_a_world_that_was_there_unseen(doomed, victim):
    """A restored world was changed and lost again before a probe saw it: the reported loss includes these changes."""
    doomed.configure({"journal": {"mode": "off"}})
    doomed.dump()
    doomed.start(fault="restore.renamed=stop")
    victim.crash()
    at_work = wait_stopped(doomed, "restore.renamed")
    doomed.process.send_signal(signal.SIGSTOP)
    doomed.world.mark(7)
    least = last_word(doomed)
    victim.kill9()
    for pid in at_work:
        os.kill(pid, signal.SIGKILL)
    victim.start()
    doomed.process.send_signal(signal.SIGCONT)
    doomed.wait(lambda: go_on(stopped(doomed)) or (doomed.status().get("last_restore") or {}).get("ok"), "the world")
    unknown(doomed.status()["last_restore"], least, last_word(doomed))


def test_a_supervisor_saw_the_end(doomed, victim, http):
    """If the server stays down for a while, the loss is counted until the supervisor noticed, not until the server started
    again."""
    doomed.configure({"journal": {"mode": "off"}, **http.settings()})
    doomed.dump()
    doomed.start()
    time.sleep(1)
    victim.grow_old()
    lived = last_word(doomed)
    victim.kill9()
    doomed.wait_state("WAITING")
    seen = last_word(doomed)
    time.sleep(4)
    victim.start()
    message = http.wait_event("restored")[-1]
    unknown(message["facts"], 1, seen + 1)
    assert message["facts"]["lost_seconds_max"] >= lived - 1
    doomed.wait_state("UP")
    told = doomed.status()["last_restore"]
    assert told["lost_seconds_max"] == message["facts"]["lost_seconds_max"]
    assert told["lost"] in doomed.log() or told["lost"] in message["what"]
    assert told["lost"] in doomed.run("--status").out


@pytest.mark.quick
def test_a_whole_journal_loses_nothing(make_server, make_world, make_keeper):
    """"nothing lost" is reported if the journal reaches the loss."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world(on=server)).init()
    keeper.dump()
    keeper.world.mark(9)
    server.crash()
    result = keeper.ok("--restore", "--json")
    assert result["lost_seconds"] == 0 and result["lost_seconds_max"] == 0, result
    assert result["lost"] == "nothing lost", result


@pytest.mark.parametrize("boot", ["0" * 32, ""])
@pytest.mark.parametrize("synced", [0, 1])
def test_a_log_that_the_machine_took_with_it(make_server, make_world, make_keeper, synced, boot):
    """If the machine was booted since the world was last seen, or this is not known (a state of an earlier version), a log that
    was not synced may lack its end, so that the loss is unknown. The clock decides nothing: it may be wrong after a boot."""
    server = make_server(*LOG, f"--sync-binlog={synced}")
    keeper = make_keeper(make_world(on=server)).init()
    keeper.dump()
    keeper.world.mark(9)
    server.crash()
    path = os.path.join(keeper.dumps_dir, "state.json")
    with open(path) as f:
        state = json.load(f)
    state["boot"] = boot
    with open(path, "w") as f:
        json.dump(state, f)
    result = keeper.ok("--restore", "--json")
    if synced:
        assert result["lost_seconds"] == 0, result
    else:
        unknown(result, 0, last_word(keeper) + 2)


@pytest.mark.needs("root", "mount")
@pytest.mark.parametrize("told", [True, False])
def test_the_boot_in_a_sandbox_that_hides_it(make_server, make_world, make_keeper, told):
    """A unit with ProcSubset=pid hides the kernel's id of the boot and passes it in a variable, as the manual says. A process in
    there then records the same as one outside; without the variable the boot is not known."""
    with open(os.path.join(ROOT, "etc/worldkeeper.8")) as f:
        variable = re.search(r"^\.Ql Environment=(\w+)=%b \.$", f.read(), re.M).group(1)
    with open("/proc/sys/kernel/random/boot_id") as f:
        boot = f.read().strip().replace("-", "")  # the form of systemd's %b
    server = make_server(*LOG, "--sync-binlog=0")
    keeper = make_keeper(make_world(on=server))
    keeper.prefix = ["unshare", "-m", "sh", "-c", 'mount -t proc -o subset=pid proc /proc && exec "$@"', "sh"]
    keeper.env = {variable: boot} if told else {}
    keeper.init()
    keeper.prefix = []
    with open(os.path.join(keeper.dumps_dir, "state.json")) as f:
        assert json.load(f)["boot"] == (boot if told else "")
    keeper.dump()
    keeper.world.mark(9)
    server.crash()
    assert keeper.ok("--restore", "--json")["lost_seconds"] == (0 if told else None)


@pytest.mark.parametrize("synced", [0, 1])
def test_a_log_on_another_machine(make_server, make_world, make_keeper, synced):
    """It is unknown here whether another machine crashed, so that with an unsynced log the loss is unknown."""
    server = make_server(*LOG, f"--sync-binlog={synced}")
    keeper = make_keeper(make_world(on=server)).init()
    # The address is not recognized as this machine, although it leads here.
    keeper.configure({"mysql": {"socket": None, "host": "0.0.0.0", "port": str(server.port), "tls": "off",
                                "insecure": "yes"}})
    keeper.dump()
    keeper.world.mark(9)
    server.crash()
    result = keeper.ok("--restore", "--json")
    if synced:
        assert result["lost_seconds"] == 0, result
    else:
        unknown(result, 0, last_word(keeper) + 2)
    assert keeper.world.marked() == 9


def test_what_is_given_up_on_purpose(keeper):
    """A forced restore over a living world reports no loss."""
    keeper.dump()
    keeper.world.mark(3)
    result = keeper.ok("--restore", "--force", "--json")
    assert result["lost_seconds"] is None and result["lost_seconds_max"] is None, result
    assert "lost" not in result, result


def test_a_deleted_row(keeper):
    """If rows were deleted without a server restart, the loss may extend until the restore."""
    keeper.configure({"journal": {"mode": "off"}})
    keeper.dump()
    time.sleep(1)
    for table in keeper.world.sql("SHOW FULL TABLES WHERE Table_type='BASE TABLE'"):
        keeper.world.sql(f"DELETE FROM `{table[0]}`")
    result = keeper.ok("--restore", "--json")
    unknown(result, 1, last_word(keeper) + 1)


def test_a_file_of_unknown_age(doomed, victim):
    """The loss after a restore of a file of another tool is unknown."""
    path = os.path.join(doomed.dumps_dir, "other.sql")
    mysqldump(victim, doomed.world.schema, path)
    victim.crash()
    result = doomed.ok("--restore=" + path, "--json")
    assert result["lost_seconds"] is None and result["lost_seconds_max"] is None, result
    assert result["lost"] == "loss unknown", result
