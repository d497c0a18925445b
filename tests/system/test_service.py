"""Tests of the supervisor as a service: readiness, watchdog, signals."""
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, IMPATIENT
from wk.util import wait_for
from wk.watch import Lateness

pytestmark = pytest.mark.any_server

ALL_STATES = ["STARTING", "UP", "SUSPECT", "WAITING", "RESTORING", "PAUSED", "dumping", "alerting"]


class Notify(threading.Thread):
    """Plays systemd's end of the notification socket. It reads all the time, because a full socket accepts no more."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.path, self.lines = path, []

    def run(self):
        while data := self.socket.recv(65536):
            self.lines += data.decode().split("\n")

    def wait(self, start, n=1, having=""):
        return wait_for(lambda: (lambda found: len(found) >= n and found)(
            [x for x in self.lines if x.startswith(start) and having in x]),
            lambda: f"{n} times {start}{having}, got {self.lines[-20:]}")

    def end(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


@pytest.fixture
def notify(tmp):
    sink = Notify(os.path.join(tmp, "n"))
    sink.start()
    yield sink
    sink.end()


def test_ready_status_and_watchdog(keeper, notify):
    """systemd gets READY once, a readable STATUS, and WATCHDOG repeatedly."""
    keeper.start(NOTIFY_SOCKET=notify.path, WATCHDOG_USEC="600000")
    notify.wait("READY=1")
    notify.wait("STATUS=", having="UP")
    notify.wait("WATCHDOG=1", 5)
    keeper.stop()
    notify.wait("STOPPING=1")
    assert notify.lines.count("READY=1") == 1


def test_ready_also_when_the_server_is_away(doomed, victim, notify):
    """READY is sent while the server is down, so that the order of boot does not matter."""
    victim.kill9()
    doomed.start(state=None, NOTIFY_SOCKET=notify.path)
    notify.wait("READY=1")
    status = doomed.wait(doomed.status, "the first status")
    assert status["ready"] is False or status["state"] != "UP"


def test_ready_also_when_no_answer_comes(doomed, victim, notify):
    """READY is sent while the server hangs and [probe] timeout is long, so that systemd does not give up on the start."""
    doomed.configure({"probe": {"timeout": "10m"}, "mysql": {"connect_timeout": "10m"}})
    victim.sigstop()
    doomed.start(state=None, NOTIFY_SOCKET=notify.path)
    notify.wait("READY=1")
    victim.sigcont()


def wait_up_as_systemd(keeper):
    """Waits for the world to be up. Starts the supervisor again if it ended with the status of a failure."""
    def is_up():
        if keeper.process.poll() is None:
            return keeper.state() == "UP"
        assert keeper.process.returncode == FAILED, keeper.log()
        return keeper.start(state=None) is None
    wait_for(is_up, lambda: "the world is kept: " + keeper.log())


@pytest.mark.parametrize("what", ["password", "key", "directory"])
def test_what_is_mounted_after_the_start(keeper, what):
    """A secret file or a dump directory that is not there yet ends a start after a while, with a status after which systemd
    starts the supervisor again. It works as soon as the file is there. Each start says what it waits for."""
    key = keeper.secret("key", "3f" * 32)
    keeper.configure({"dump": {"hmac_key_file": key}})
    keeper.dump()
    path = {"password": keeper.password_file, "key": key, "directory": keeper.dumps_dir}[what]
    os.rename(path, path + ".away")
    if what == "directory":
        keeper.secret("dumps", "in its place, so that it cannot be created")
    done = keeper.run("--run")
    assert done.rc == FAILED and "cannot start yet, trying again: " in done.err and path in done.err, done
    keeper.start(state=None)
    keeper.wait_log("cannot start yet")
    if what == "directory":
        os.remove(path)
    os.rename(path + ".away", path)
    wait_up_as_systemd(keeper)


def test_a_dump_directory_that_is_writable_after_the_start(make_keeper, world, small_disk):
    """The same for a mount point that only root can write until something is mounted there."""
    path, seen, prefix = small_disk
    keeper = make_keeper(world, {"dump": {"dir": path}})
    keeper.prefix = prefix
    keeper.init()
    subprocess.run([*prefix, "mount", "-o", "remount,ro", path], check=True)
    keeper.start(state=None)
    keeper.wait_log(f"cannot start yet, trying again: cannot write into directory {path}")
    subprocess.run([*prefix, "mount", "-o", "remount,rw", path], check=True)
    wait_up_as_systemd(keeper)


def test_watchdog_stops_when_the_loop_does(keeper, notify):
    """A supervisor that is stopped by SIGSTOP sends no watchdog messages."""
    keeper.start(NOTIFY_SOCKET=notify.path, WATCHDOG_USEC="400000")
    notify.wait("WATCHDOG=1", 2)
    keeper.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: keeper.process.pid in stopped(keeper), "the daemon to stand still")
    time.sleep(1)  # messages sent before are read by then
    sent = notify.lines.count("WATCHDOG=1")
    time.sleep(1)
    assert notify.lines.count("WATCHDOG=1") == sent
    keeper.process.send_signal(signal.SIGCONT)
    notify.wait("WATCHDOG=1")
    keeper.wait_state("UP")


def bring_to(keeper, victim, state, tarpit):
    """Starts a supervisor and brings it to that state or activity."""
    keeper.configure({"alert.smtp": {"url": f"smtp://127.0.0.1:{tarpit.port}", "to": "a@example.com",
                                     "from": "k@example.com", "starttls": "off", "timeout": "30m"}, **IMPATIENT})
    keeper.dump()
    if state == "STARTING":
        victim.sigstop()
        return keeper.start(state=None).wait(keeper.status, "a status")
    if state == "RESTORING":
        victim.crash()
        return keeper.start(state="RESTORING", fault="restore.loaded=sleep:600000")
    if state == "dumping":
        keeper.start(fault="dump.streamed#1=sleep:600000")
        keeper.popen("--dump")
        return keeper.wait(keeper.parts, "the dump to run")
    keeper.start()
    if state == "SUSPECT":
        victim.sigstop()
    elif state == "WAITING":
        victim.kill9()
    elif state == "PAUSED":
        keeper.ok("--pause")
    elif state == "alerting":
        return wait_for(lambda: tarpit.held, "an alert to be stuck")
    return keeper.wait_state(state)


@pytest.mark.parametrize("state", ALL_STATES)
def test_sigterm_ends_in_every_state(doomed, victim, tarpit, state):
    """SIGTERM ends the supervisor in every state within 10 s, with exit 0, no process left, and state STOPPED."""
    with Lateness() as lateness:
        bring_to(doomed, victim, state, tarpit)
        pid = doomed.process.pid
        began = time.monotonic()
        assert doomed.stop() == 0
        took = time.monotonic() - began
        assert took < 10 + lateness.worst_ms / 1000 * 10
    wait_for(lambda: not doomed.pids(), "the workers to be gone")
    status = doomed.status()
    assert (status["state"], status["pid"]) == ("STOPPED", pid)
    assert doomed.flag() != "UP" or state in ("UP", "SUSPECT", "dumping", "alerting")


def test_after_a_stop_in_the_middle_the_next_start_goes_on(doomed, victim, tarpit):
    """A restore that SIGTERM interrupted is repeated by the next supervisor."""
    before = doomed.world.snapshot()
    bring_to(doomed, victim, "RESTORING", tarpit)
    assert doomed.stop() == 0
    assert doomed.world.rows() == 0
    doomed.start()
    doomed.world.assert_is(before)


def test_a_dump_broken_off_by_sigterm_leaves_no_part(doomed, victim, tarpit):
    """SIGTERM during a dump keeps the old dump, and no part file is left after the next one."""
    bring_to(doomed, victim, "dumping", tarpit)
    (first,) = doomed.dumps()
    assert doomed.stop() == 0
    assert [m["name"] for m in doomed.dumps()] == [first["name"]]
    doomed.dump()
    assert not doomed.parts()


def test_sigint_is_a_stop_too(keeper):
    """SIGINT (Ctrl-C) ends the supervisor with exit 0, too."""
    keeper.start()
    assert keeper.stop(signal.SIGINT) == 0


def test_sighup_takes_a_good_config(keeper):
    """SIGHUP applies a changed config without a restart."""
    keeper.dump()
    keeper.start()
    keeper.configure({"dump": {"interval": "1s"}})
    pid = keeper.process.pid
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "a dump by the new interval")
    keeper.wait_state("UP")
    assert keeper.process.pid == pid


def test_sighup_during_a_job_waits_for_its_end(keeper):
    """A reload during a dump is logged as delayed, and done after the dump."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=stop")
    first = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.streamed")
    keeper.configure({"dump": {"interval": "1s"}})
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: "reloaded when" in keeper.log(), "word that the reload waits")
    go_on(at_work)
    assert keeper.finish(first).rc == DONE
    keeper.wait(lambda: f"{keeper.config_path} reloaded" in keeper.log(), "the reload")
    keeper.wait(lambda: stopped(keeper), "a dump by the new interval")
    go_on(stopped(keeper))


def test_a_reload_keeps_the_retry_of_a_stopped_dump(keeper):
    """A dump that was stopped is taken again, also if the config is reloaded at its end: it may be the first one of a restored
    world, whose next loss would bring back the world from before the restore."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=stop")
    first = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.streamed")
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: "reloaded when" in keeper.log(), "word that the reload waits")
    pause = keeper.popen("--pause")
    keeper.wait_state("PAUSED")
    go_on(at_work)
    assert keeper.finish(pause).rc == DONE and keeper.finish(first).rc == FAILED
    keeper.wait(lambda: f"{keeper.config_path} reloaded" in keeper.log(), "the reload")
    keeper.ok("--resume")
    keeper.wait(lambda: stopped(keeper), "the next attempt")
    go_on(stopped(keeper))
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump")


def test_a_reload_that_forbids_restores_is_heard_in_time(doomed, victim):
    """If the world is lost while a reload with auto = no waits for a job, nothing is restored after the reload."""
    doomed.dump()
    doomed.configure({"dump": {"hmac_key_file": doomed.secret("key", "3f" * 32)}})
    doomed.start(fault="seal.begun=stop")
    doomed.wait(lambda: doomed.dumps()[0].get("hmac"), "a dump with an HMAC")
    doomed.popen("--seal")
    wait_stopped(doomed, "seal.begun")
    doomed.configure({"restore": {"auto": "no"}})
    doomed.process.send_signal(signal.SIGHUP)
    doomed.wait_log("is reloaded when")
    victim.crash()
    doomed.wait_log(f"{doomed.config_path} reloaded")
    doomed.wait(lambda: "auto = no" in doomed.status()["reason"], "the decision that is left to people")
    assert doomed.state() == "WAITING" and "restore begins" not in doomed.log()


def test_sighup_keeps_the_old_config_when_the_new_is_broken(keeper, http):
    """SIGHUP with an invalid config keeps the old one; the error is in the log with its line, in the status and in an alert."""
    keeper.configure({"dump": {"interval": "2s"}, **http.settings()})
    keeper.dump()
    keeper.start()
    with open(keeper.config_path) as f:
        good = f.read()
    keeper.write(good + "\n[dump]\nintervall = 1h\n")
    keeper.process.send_signal(signal.SIGHUP)
    line = len(good.split("\n")) + 2
    keeper.wait(lambda: "intervall" in keeper.log(), "an error in the log")
    assert f"{keeper.config_path}:{line}" in keeper.log()
    n = len(keeper.dumps())
    keeper.wait(lambda: len(keeper.dumps()) > n, "a further dump by the old interval")
    keeper.wait_state("UP")
    keeper.wait(lambda: any("intervall" in t["what"] for t in keeper.status()["troubles"]), "the trouble")
    keeper.wait(lambda: any("intervall" in m["what"] for m in http.messages()), "the alert")
    keeper.write(good)
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: keeper.status()["troubles"] == [], "its end")


def test_sighup_never_changes_which_world_it_is(keeper, make_world):
    """A reload with another schema is refused, because that is another world."""
    other = make_world()
    keeper.dump()
    keeper.start()
    keeper.configure({"world": {"schema": other.schema}})
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: "schema" in keeper.log(), "a refusal in the log")
    keeper.probes_pass("A", 4)
    keeper.wait_state("UP")


def test_an_idle_supervisor_is_quiet(keeper):
    """A supervisor that has nothing to report logs nothing."""
    keeper.dump()
    keeper.start()
    keeper.probes_pass("A", 8)

    def quiet():
        """Returns whether nothing was logged between two refreshes of the status. A machine that paused may cause a line now
        and then."""
        lines, seen = keeper.log().splitlines(), keeper.status()["updated"]
        keeper.wait(lambda: keeper.status().get("updated") != seen, "the status to be refreshed")
        return keeper.log().splitlines() == lines
    keeper.wait(quiet, "a while without a word")


@pytest.mark.slow
@pytest.mark.waits(1)
def test_an_idle_supervisor_sleeps(keeper):
    """An idle supervisor wakes only for each probe and its answer; whatever else is due once a second is done then."""
    keeper.configure({"probe": {"interval": "900ms"}, "journal": {"mode": "off"}, "status": {"metrics": "worldkeeper.prom"}})
    keeper.dump()
    keeper.start()

    def counted():
        """Returns the supervisor's clock and the number of its loop's iterations."""
        text = keeper.published("worldkeeper.prom")
        return [float(re.search(rf"^worldkeeper_{name}{{.*}} (.*)$", text, re.M)[1])
                for name in ("valid_until_timestamp_seconds", "loop_late_seconds_count")]

    def asleep():
        began, before = counted()
        keeper.wait(lambda: counted()[0] > began + 12, "a few more of its files")
        ended, after = counted()
        return after - before <= 2.9 * (ended - began)
    keeper.wait(asleep, "a while in which nothing but probes wakes it")
