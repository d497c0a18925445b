"""The supervisor when something it depends on fails: the disk writer, its log, its descriptors, its
clients."""
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
    """Gives the supervisor, not its children, so many descriptors; gives what it had."""
    had, hard = resource.prlimit(keeper.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(keeper.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    return had


def test_a_scribe_that_could_not_be_started_is_started_later(doomed, victim, http):
    """Its death while no descriptor is left: the next one writes status, state and alerts all the same."""
    doomed.configure(http.settings())
    doomed.start()
    had = descriptors(doomed, 3)
    os.kill(doomed.worker("scribe"), signal.SIGKILL)
    doomed.wait_log("cannot make a socket pair for the scribe")
    time.sleep(2.5)
    assert doomed.log().count("for the scribe") == 1  # said once
    descriptors(doomed, had)
    wait_for(lambda: doomed.worker("scribe"), "another scribe")
    victim.kill9()
    doomed.wait_state("WAITING")
    http.wait_event("down")


@pytest.mark.waits(1)
def test_a_restore_that_could_not_start_does_not_keep_the_state_from_the_disk(doomed, victim):
    """The pause that follows it outlives the supervisor."""
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
    """The scribe stands still, as on a dead disk: the loop goes on, and people hear of it and of the server."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.start()
    http.wait_event("started")
    os.kill(doomed.worker("scribe"), signal.SIGSTOP)
    victim.kill9()
    http.wait_event("disk")
    http.wait_event("down")
    doomed.wait_state("WAITING")  # there is another one
    wait_for(lambda: [m["kind"] for m in http.messages() if m["event"] == "disk"] == ["new", "recovered"],
             "its end")
    assert len({m["id"] for m in http.messages()}) == len(http.messages())


def test_a_log_that_nobody_reads_stops_nothing(doomed, victim):
    """stderr is a pipe that is full: the world is watched and restored on."""
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
    """The next scribe has tried nothing yet when it first says how it goes."""
    keeper.configure(http.settings())
    keeper.dump()
    keeper.start()
    path = os.path.join(keeper.dumps_dir, "state.json")

    def in_its_place():
        with contextlib.suppress(FileExistsError):  # it may just be written
            os.unlink(path)
            os.mkdir(path)
            return True
    wait_for(in_its_place, "a directory in its place")

    def news():
        return [m["kind"] for m in http.messages() if "the state is" in m["what"] or "state cannot" in m["what"]]
    ask(keeper, {"action": "pause"})  # it is saved at once
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
    """No descriptor for it: said once, not at each turn of the loop."""
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
    """libcurl tells how many milliseconds it took: a webhook that hangs is logged once."""
    http.mode = "slow"
    keeper.configure(http.settings(timeout="1s"))
    keeper.start()
    keeper.wait_log("webhook not delivered")
    wait_for(lambda: http.served >= 4, "more tries")
    assert keeper.log().count("webhook not delivered") == 1


def test_what_the_socket_cannot_carry_is_not_left_out(doomed, victim, tmp):
    """A name that is no UTF-8 must not turn into "the latest dump" or "the world itself" on its way."""
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
    """--status is what monitoring calls: it answers, with 6."""
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
    """Dumps that fail while the world is UP: not in the log and an alert only."""
    keeper.configure({"dump": {"shrink_action": "reject"}})
    keeper.dump()
    keeper.start()
    assert keeper.status()["troubles"] == []
    keeper.world.sql("DELETE FROM player")
    assert keeper.run("--dump").rc != DONE  # set aside: the world has shrunk
    keeper.wait(lambda: keeper.status()["troubles"], "the trouble")
    (trouble,) = keeper.status()["troubles"]
    assert trouble["what"].startswith("dump discarded: ") and trouble["what"] in keeper.run("--status").out.replace(
        "\n             ", " ")
    keeper.dump("--force")
    keeper.wait(lambda: keeper.status()["troubles"] == [], "its end")


def test_looking_makes_no_directory(keeper):
    """--status, --list and --test-alert before the first start: root would make what the service cannot use."""
    gone = os.path.join(keeper.base, "gone")
    keeper.configure({"dump": {"dir": gone}})
    for action, rc in (("--status", NOT_WELL), ("--list", FAILED), ("--verify", FAILED), ("--test-alert", USAGE)):
        done = keeper.run(action)
        assert done.rc == rc and done.err.strip() and not os.path.exists(gone), done


def test_an_early_failure_is_json_too(keeper):
    """With --json whatever goes wrong is one object on stdout: also what keeps the action from beginning."""
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
    """--seal reads all dumps back, which may take hours; a world that is lost meanwhile is put back at once."""
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
    """No descriptor for its process: as any other dump that fails."""
    keeper.dump()
    keeper.configure({"dump": {"interval": "3s"}})
    keeper.start()
    had = descriptors(keeper, 3)
    keeper.wait(lambda: any("for the job worker" in t["what"] for t in keeper.status()["troubles"]), "the trouble")
    descriptors(keeper, had)
    keeper.wait(lambda: keeper.status()["troubles"] == [], "the next dump")


def test_dumps_that_cannot_connect_are_told(doomed, victim):
    """The server's socket is gone, and the probe's connection is an old one: the world is UP, and without dumps."""
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
    """All of them for the same reason: some are named. The last restore is kept for the next supervisor all the
    same, which would else show, and trust, the one before it."""
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
    """Who finds no place among those who wait for their turn is told so, not that the supervisor ended."""
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
