"""Tests of the supervisor when something it depends on fails: the disk writer, its log, its descriptors, its clients."""
import contextlib
import json
import os
import resource
import shutil
import signal
import time

import pytest
from test_control import ask
from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, HELD, NOT_WELL, REFUSED, USAGE
from wk.util import wait_for
from wk.watch import Lateness

pytestmark = pytest.mark.any_server


def descriptors(keeper, soft):
    """Sets the limit of descriptors of the supervisor, but not of its children, and returns the old one."""
    had, hard = resource.prlimit(keeper.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(keeper.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    return had


def test_a_scribe_that_could_not_be_started_is_started_later(doomed, victim, http):
    """A disk writer that died while no descriptor was left is replaced later, and status and alerts are written."""
    doomed.configure(http.settings())
    doomed.start()
    had = descriptors(doomed, 3)
    os.kill(doomed.worker("scribe"), signal.SIGKILL)
    doomed.wait_log("cannot make a socket pair for the scribe")
    time.sleep(2.5)
    assert doomed.log().count("for the scribe") == 1  # logged once
    descriptors(doomed, had)
    wait_for(lambda: doomed.worker("scribe"), "another scribe")
    victim.kill9()
    doomed.wait_state("WAITING")
    http.wait_event("down")


@pytest.mark.waits(1)
def test_a_restore_that_could_not_start_does_not_keep_the_state_from_the_disk(doomed, victim):
    """A pause after a restore that could not start is saved and outlives the supervisor."""
    doomed.dump()
    doomed.start()
    had = descriptors(doomed, 3)
    victim.crash()
    doomed.wait_log("pair for the job worker")
    descriptors(doomed, had)
    doomed.ok("--pause")

    def paused():
        with open(os.path.join(doomed.dumps_dir, "state.json")) as f:
            return json.load(f)["paused"]
    doomed.wait(paused, "the pause in the state")
    doomed.kill9()
    doomed.start(state="PAUSED")


@pytest.mark.slow
def test_a_disk_that_hangs_is_told_and_alerts_go_out(doomed, victim, http):
    """While the disk writer hangs, as on a dead disk, the loop continues, and alerts about it and about the server are sent."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.start()
    http.wait_event("started")
    os.kill(doomed.worker("scribe"), signal.SIGSTOP)
    victim.kill9()
    http.wait_event("disk")
    http.wait_event("down")
    doomed.wait_state("WAITING")  # another disk writer runs
    wait_for(lambda: [m["kind"] for m in http.messages() if m["event"] == "disk"] == ["new", "recovered"],
             "its end")
    assert len({m["id"] for m in http.messages()}) == len(http.messages())


def test_a_log_that_nobody_reads_stops_nothing(doomed, victim):
    """With stderr as a full pipe the world is still watched and restored; dropped lines are reported later."""
    doomed.dump()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    doomed.old_log, doomed.log_path = doomed.log_path, f"/proc/self/fd/{writer}"
    with Lateness() as lateness:
        doomed.start(state=None)
        doomed.log_path = doomed.old_log
        os.close(writer)
        doomed.wait_state("UP")
        generation = doomed.status()["generation"]
        victim.crash()
        doomed.wait(lambda: doomed.state() == "UP" and doomed.status()["generation"] > generation, "the world")
        lateness.assert_quick(doomed)
    os.read(reader, 1 << 20)
    os.set_blocking(reader, False)
    victim.kill9()
    said = []

    def told():
        with contextlib.suppress(BlockingIOError):
            said.append(os.read(reader, 1 << 20).decode())
        return "lines before this one were dropped" in "".join(said) and "-> WAITING" in "".join(said)
    doomed.wait(told, "the end of the server, and how much was not said before")
    assert doomed.stop() == DONE
    os.close(reader)


def test_a_state_that_nobody_has_written_is_not_written_again(keeper, http):
    """A new disk writer that has not tried to write the state does not report that writing works again."""
    keeper.configure(http.settings())
    keeper.dump()
    keeper.start()
    path = os.path.join(keeper.dumps_dir, "state.json")

    def in_its_place():
        with contextlib.suppress(FileExistsError):  # it may be written at this moment
            os.unlink(path)
            os.mkdir(path)
            return True
    wait_for(in_its_place, "a directory in its place")

    def news():
        return [m["kind"] for m in http.messages() if "the state is" in m["what"] or "state cannot" in m["what"]]
    ask(keeper, {"action": "pause"})  # the pause is saved at once
    keeper.wait(lambda: news() == ["new"], "that it cannot be written")
    for n in (1, 2):
        scribe = keeper.worker("scribe")
        os.kill(scribe, signal.SIGKILL)
        keeper.wait(lambda s=scribe: keeper.worker("scribe") not in (None, s), "the next scribe")
        keeper.wait(lambda n=n: keeper.log().count("and alerts works again") == n, "what it says")
    assert news() == ["new"], http.messages()
    shutil.rmtree(path)
    keeper.wait(lambda: news() == ["new", "recovered"], "its end")


@pytest.mark.slow
@pytest.mark.waits(1)
def test_a_delivery_that_cannot_start_is_tried_again_in_time(keeper, http):
    """A delivery that cannot start for lack of descriptors is logged once, not at each iteration, and repeated later."""
    http.mode = 500
    keeper.configure(http.settings())
    keeper.start()
    wait_for(lambda: http.served, "the first try")
    keeper.wait(lambda: keeper.status()["alerts"]["channels"]["webhook"]["last_error"], "its end")
    http.mode = "ok"
    had = descriptors(keeper, 3)
    time.sleep(8)
    descriptors(keeper, had)
    assert keeper.log().count("the webhook worker") <= 2
    http.wait_event("started")


@pytest.mark.slow
def test_the_same_failure_with_other_figures_is_no_news(keeper, http):
    """A webhook that hangs is logged once, although libcurl's message has other milliseconds each time."""
    http.mode = "slow"
    keeper.configure(http.settings(timeout="1s"))
    keeper.start()
    keeper.wait_log("webhook not delivered")
    wait_for(lambda: http.served >= 4, "more tries")
    assert keeper.log().count("webhook not delivered") == 1


def test_what_the_socket_cannot_carry_is_not_left_out(doomed, victim, tmp):
    """An argument that is not UTF-8 is refused, so that it does not become "the latest dump" or "the world itself" on its way
    to the supervisor."""
    doomed.configure({"restore": {"auto": "no"}})
    doomed.dump()
    doomed.start()
    victim.crash()
    doomed.wait_state("WAITING")
    before = doomed.status()["generation"]
    for args in (["--restore", "--into=caf\udce9"], ["--restore=" + tmp + "/caf\udce9.sql"]):
        done = doomed.run(*args)
        assert done.rc == USAGE and "UTF-8" in done.err, done
    assert doomed.status()["generation"] == before and doomed.state() == "WAITING"


def test_status_of_a_supervisor_that_stands_still(keeper):
    """--status of a supervisor that hangs answers with exit status 6."""
    keeper.start()
    os.kill(keeper.process.pid, signal.SIGSTOP)
    try:
        with Lateness() as lateness:
            began = time.monotonic()
            done = keeper.run("--status", "--json")
            took = time.monotonic() - began
    finally:
        os.kill(keeper.process.pid, signal.SIGCONT)
    assert done.rc == NOT_WELL and took < 20 + lateness.worst_ms / 100, (took, done)
    assert json.loads(done.out)["error"]["text"]


def test_a_trouble_stands_in_the_status_too(keeper):
    """A dump that is rejected while the world is UP is a condition in the status until a dump succeeds."""
    keeper.configure({"dump": {"shrink_action": "reject"}})
    keeper.dump()
    keeper.start()
    assert keeper.status()["troubles"] == []
    keeper.world.sql("DELETE FROM player")
    assert keeper.run("--dump").rc != DONE  # rejected because the world has shrunk
    keeper.wait(lambda: keeper.status()["troubles"], "the trouble")
    (trouble,) = keeper.status()["troubles"]
    assert trouble["what"].startswith("dump discarded: ") and trouble["what"] in keeper.run("--status").out.replace(
        "\n             ", " ")
    keeper.dump("--force")
    keeper.wait(lambda: keeper.status()["troubles"] == [], "its end")


def test_looking_makes_no_directory(keeper):
    """--status, --list, --verify and --test-alert create no dump directory, which root would own and the service could not
    use."""
    gone = os.path.join(keeper.base, "gone")
    keeper.configure({"dump": {"dir": gone}})
    for action, rc in (("--status", NOT_WELL), ("--list", FAILED), ("--verify", FAILED), ("--test-alert", USAGE)):
        done = keeper.run(action)
        assert done.rc == rc and done.err.strip() and not os.path.exists(gone), done


def test_an_early_failure_is_json_too(keeper):
    """With --json each failure is one object on stdout, also one before the action begins."""
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".real")
    os.symlink(keeper.dumps_dir + ".real", keeper.dumps_dir)
    for action in ("--list", "--dump", "--restore"):
        done = keeper.run(action, "--json")
        assert done.rc == REFUSED and done.json["exit"] == REFUSED, done
        assert "symbolic link" in done.json["error"]["text"]
    keeper.configure({"dump": {"interval": "15"}})
    done = keeper.run("--list", "--json")
    assert done.rc == USAGE and done.json["error"]["class"] == "config" and "interval" in done.err, done


def test_a_restore_does_not_wait_for_a_seal(doomed, victim):
    """--seal, which may take hours, is stopped for a restore."""
    doomed.dump()
    doomed.configure({"dump": {"hmac_key_file": doomed.secret("key", "k" * 40)}})
    doomed.dump()
    doomed.start(fault="seal.begun=sleep:600000")
    seal = doomed.popen("--seal")
    doomed.wait(lambda: (doomed.status()["running"] or {}).get("job") == "seal", "the seal")
    generation = doomed.status()["generation"]
    victim.crash()
    doomed.wait(lambda: doomed.state() == "UP" and doomed.status()["generation"] > generation, "the world")
    done = doomed.finish(seal)
    assert done.rc == FAILED and "stopped before it finished" in done.err, done


def test_a_dump_that_cannot_start_is_told(keeper):
    """A dump that cannot start for lack of descriptors is reported as any other dump that fails."""
    keeper.dump()
    keeper.configure({"dump": {"interval": "3s"}})
    keeper.start()
    had = descriptors(keeper, 3)
    keeper.wait(lambda: any("for the job worker" in t["what"] for t in keeper.status()["troubles"]), "the trouble")
    descriptors(keeper, had)
    keeper.wait(lambda: keeper.status()["troubles"] == [], "the next dump")


def test_dumps_that_cannot_connect_are_told(doomed, victim):
    """If new connections fail while the probe's old one works the world is UP and failed dumps are reported."""
    doomed.dump()
    doomed.configure({"dump": {"interval": "3s"}, "probe": {"timeout": "30m"}})
    doomed.start()
    os.rename(victim.socket, victim.socket + ".gone")
    try:
        doomed.wait(lambda: any("dump failed" in t["what"] for t in doomed.status()["troubles"]), "the trouble")
        assert doomed.state() == "UP"
    finally:
        os.rename(victim.socket + ".gone", victim.socket)
    doomed.wait(lambda: doomed.status()["troubles"] == [], "the next dump")


def test_hundreds_of_dumps_that_are_passed_over(doomed, victim):
    """If many dumps are skipped for one reason only some are named, and the last restore is saved for the next supervisor."""
    doomed.dump()
    good = doomed.newest()["name"]
    doomed.start()
    for _ in range(30):
        doomed.dump()
    doomed.stop()
    for manifest in doomed.dumps():
        if manifest["name"] != good:
            os.truncate(doomed.path(manifest), 100)
    victim.crash()
    doomed.start()
    status = doomed.wait_state("UP")
    assert status["last_restore"]["dump"] == good and 1 <= doomed.log().count("skipped: ") <= 20
    assert doomed.log().count("more dumps") == 1
    doomed.stop()
    doomed.start()
    assert doomed.status()["last_restore"]["dump"] == good


def test_more_requests_than_places(keeper):
    """A request beyond the limit of waiting requests is refused with that reason."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=stop")
    first = keeper.popen("--dump")
    wait_stopped(keeper, "dump.streamed")
    waiting = [keeper.popen("--dump") for _ in range(20)]
    wait_for(lambda: sum(p.poll() is not None for p in waiting) == 5, "the five without a place")
    for process in [p for p in waiting if p.poll() is not None]:
        done = keeper.finish(process)
        assert done.rc == HELD and "requests wait" in done.err, done
    for process in waiting + [first]:
        if process.poll() is None:
            process.kill()
    keeper.wait(lambda: go_on(stopped(keeper)) or keeper.run("--status").rc == DONE, "a place")


def test_a_terminal_that_closes_ends_no_worker(keeper):
    """SIGHUP to the supervisor and all its workers, as from a terminal that closes, reloads the config and ends no worker."""
    keeper.dump()
    keeper.start()
    workers = [pid for pid in keeper.pids() if pid != keeper.process.pid]
    assert keeper.worker("scribe") in workers, workers
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGHUP)
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait_log("reloaded")
    keeper.dump()
    assert "died" not in keeper.log(), keeper.log()


def test_a_reload_does_not_retire_the_world(keeper):
    """A reload that retires the world is refused, as the manual says of [world], and the world is kept."""
    keeper.dump()
    keeper.start()
    keeper.configure({"world": {"retired": "yes"}})
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait_log("reload refused")
    assert "[world]" in keeper.log() and "reloaded" not in keeper.log(), keeper.log()
    keeper.configure({"world": {"retired": None}})
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait_log("reloaded")
    keeper.dump()
