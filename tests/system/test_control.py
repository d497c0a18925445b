"""Actions sent to a running supervisor: one job at a time, and one supervisor for each world."""
import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, HELD, NOT_WELL, REFUSED, USAGE, unix
from wk.util import PATIENCE, stands_still, wait_for
from wk.watch import Watcher

pytestmark = pytest.mark.any_server


def test_status_tells_a_running_supervisor(keeper):
    """--status shows the state and exits with 0 while the world is up; --json prints the status as JSON."""
    keeper.dump()
    keeper.start()
    done = keeper.run("--status")
    assert done.rc == DONE and "UP" in done.out
    shown = keeper.run("--status", "--json").json
    assert shown["state"] == "UP" and shown["world"] == "w1" and shown["pid"] == keeper.process.pid


def test_status_without_a_supervisor_is_not_well(keeper):
    """Without a supervisor --status exits with 6 and says so."""
    done = keeper.run("--status")
    assert done.rc == NOT_WELL and (done.out + done.err).strip()


def test_what_is_told_to_type_names_the_world(keeper):
    """Commands in the output contain the path of the config, so that a pasted command means this world."""
    told = f"--config {keeper.config_path} "
    assert f"{told}--run" in keeper.run("--status").err
    assert f"{told}--run" in keeper.run("--check").out
    assert f"worldkeeper {told}--dump" in keeper.run("--list").out
    keeper.start()
    keeper.ok("--pause")
    assert f"{told}--resume" in keeper.run("--status").out


def test_status_of_a_world_in_trouble_is_not_well(doomed, victim):
    """--status exits with 6 in the state WAITING, for monitoring."""
    doomed.dump()
    doomed.start()
    victim.kill9()
    doomed.wait_state("WAITING")
    done = doomed.run("--status")
    assert done.rc == NOT_WELL and "WAITING" in done.out


def test_dump_through_the_supervisor(keeper):
    """--dump through a supervisor returns the same counts as without one, and the status knows the dump."""
    keeper.start()
    result = keeper.dump()
    assert (result["rows"], result["tables"]) == (5301, 4)
    keeper.wait(lambda: (keeper.status()["last_dump"] or {}).get("name") == result["name"],
                "the status to know the dump")


def test_list_and_verify_work_beside_a_supervisor(keeper):
    """--list and --verify work while a supervisor runs, because they need no lock."""
    keeper.start()
    name = keeper.dump()["name"]
    assert keeper.ok("--list", "--json")["dumps"][0]["name"] == name
    assert keeper.ok("--verify", "--json")["dumps"][0]["whole"] is True


def test_the_log_says_how_each_job_ended(keeper):
    """The log says of each job whether it succeeded or failed."""
    keeper.start()
    keeper.wait_state("UP")
    keeper.wait(keeper.dumps, "a dump")
    keeper.ok("--restore", "--dry-run", "--force")
    keeper.wait_log("dry run of a restore done")
    keeper.ok("--init")
    keeper.wait_log("init done")
    done = keeper.run("--restore=none-such")
    assert done.rc != DONE, done
    keeper.wait_log("restore failed: dump none-such is not in")
    assert "Z restore done" not in keeper.log()


def test_what_a_job_said_is_what_who_asked_reads(doomed, victim):
    """If the server is down, the client prints the job's own error, not that the world is held by another process."""
    doomed.start()
    doomed.dump()
    victim.kill9()
    doomed.wait_state("WAITING")
    for action in (["--dump"], ["--drill"], ["--restore", "--force"], ["--init"]):
        asked = doomed.run(*action)
        assert asked.rc == FAILED and "cannot connect" in asked.err, asked
        assert "held by" not in asked.err, asked


def test_pause_and_resume(keeper):
    """--pause sets the flag to WAITING and wanted to paused in the status; --resume brings the world back to UP."""
    keeper.start()
    keeper.ok("--pause")
    status = keeper.wait_state("PAUSED")
    assert status["wanted"] == "paused"
    asked = keeper.run("--status")
    assert asked.rc == NOT_WELL and "the supervisor is paused" in asked.err, asked
    keeper.wait(lambda: keeper.flag() == "WAITING", "the flag WAITING")
    keeper.ok("--resume")
    assert keeper.wait_state("UP")["wanted"] == "up"
    keeper.wait(lambda: keeper.flag() == "UP", "the flag UP")


def test_pause_with_a_duration_ends_by_itself(keeper):
    """A pause with an end ends automatically; pages and feed show its end."""
    keeper.configure({"status": {"page": "yes"}})
    keeper.start()
    end = int(time.time()) + 3600
    for wrong in ("-15m", "2020-01-01 00:00", "soon"):
        assert keeper.run("--pause", "--until", wrong).rc == USAGE
    assert keeper.run("--pause=1h", "--until", "23:59").rc == USAGE
    keeper.ok("--pause", "--until", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end)))
    status = keeper.wait_state("PAUSED")
    assert abs(unix(status["pause_until"]) - end) < 600 and "the pause ends automatically at" in keeper.run("--status").out

    def shown(name):
        with open(os.path.join(keeper.status_dir, name), encoding="utf-8") as f:
            return f.read()
    for name in ("status.html", "players.html", "incidents.atom"):
        keeper.wait(lambda n=name: "Planned work, until 20" in shown(n), name)
    until = keeper.wait(lambda: json.loads(shown("players.json"))["pause_until"], "the time for players")
    assert abs(unix(until) - unix(status["pause_until"])) < 60
    keeper.ok("--pause=2s")
    keeper.wait_state("UP")
    assert "the pause is over" in keeper.log() and keeper.status()["pause_until"] is None
    keeper.wait(lambda: "Planned work" not in shown("players.html"), "the players' page")


def test_pause_survives_a_restart(keeper):
    """A supervisor that is restarted during a pause stays paused."""
    keeper.start()
    keeper.ok("--pause")
    keeper.wait_state("PAUSED")
    keeper.stop()
    keeper.start(state="PAUSED")
    keeper.ok("--resume")
    keeper.wait_state("UP")


def test_pause_needs_a_supervisor(keeper):
    """--pause fails if no supervisor runs."""
    done = keeper.run("--pause")
    assert done.rc != DONE, done


def test_a_second_supervisor_is_refused(keeper):
    """A second supervisor prints the first one's process id and a command, and exits with 3; the first one continues."""
    keeper.start()
    done = keeper.run("--run")
    assert done.rc == HELD and str(keeper.process.pid) in done.err, done
    assert f"--config {keeper.config_path} --status" in done.err, done
    keeper.wait_state("UP")


def test_an_action_holds_the_world_too(keeper):
    """While a dump runs without a supervisor, other actions and a supervisor are refused with that dump's process id."""
    dumping = keeper.popen("--dump", fault="dump.streamed=stop")
    at_work = wait_stopped(keeper, "dump.streamed")
    for action in ("--dump", "--run", "--restore"):
        done = keeper.run(action)
        assert done.rc == HELD and str(dumping.pid) in done.err, done
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc == DONE, done
    keeper.dump()


def test_one_job_at_a_time(keeper):
    """A second dump waits for the running one or is refused; two never run at once."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=stop")
    first = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.streamed")
    second = keeper.popen("--dump")
    keeper.probes_pass("A", 3)
    assert stopped(keeper) == at_work and len(keeper.parts()) == 1
    while first.poll() is None or second.poll() is None:
        go_on(stopped(keeper))
        time.sleep(0.05)
    done = keeper.finish(first)
    assert done.rc == DONE, done
    done = keeper.finish(second)
    assert done.rc in (DONE, HELD) and (done.rc == DONE or done.err.strip()), done
    assert len(keeper.dumps()) == (3 if done.rc == DONE else 2)


@pytest.mark.each_server
def test_restore_through_the_supervisor(keeper):
    """--restore --force through a supervisor restores the dump's world; the state is UP again."""
    keeper.dump()
    before = keeper.world.snapshot()
    keeper.world.mark(2)
    keeper.start()
    name = keeper.newest()["name"]
    result = keeper.ok("--restore=" + name, "--force", "--json")
    assert result["dump"] == name
    keeper.expect("what was restored", state="UP", last_restore=lambda told: told and told["dump"] == name)
    keeper.world.assert_is(before)
    keeper.probes_pass("A", 3)


def test_two_restores_of_one_second_do_not_look_alike(keeper):
    """Times in the status have milliseconds; --status prints whole seconds."""
    keeper.dump()
    keeper.start()
    told = []
    for _ in range(2):
        keeper.ok("--restore", "--force", "--json")
        last = told[-1]["at"] if told else None
        keeper.wait(lambda last=last: keeper.status()["last_restore"]
                    and keeper.status()["last_restore"]["at"] != last, "what is told of the restore")
        told.append(keeper.status()["last_restore"])
    status = keeper.status()
    times = [t["at"] for t in told] + [status["since"], status["updated"], status["valid_until"], status["probe"]["at"]]
    assert [t for t in times if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", t)] == []
    assert told[0]["at"] < told[1]["at"]
    shown = keeper.run("--status").out
    assert re.search(r"last restore +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,", shown), shown


def test_a_refused_restore_is_nobodys_business(keeper, http):
    """If --restore over a living world is refused, the flag stays UP and no alert is sent."""
    keeper.configure(http.settings())
    keeper.dump()
    keeper.start()
    http.wait_event("started")
    with Watcher(keeper) as watcher:
        wait_for(lambda: watcher.flags, "the watcher")
        done = keeper.run("--restore")
        assert done.rc == REFUSED, done
        keeper.probes_pass("A", 4)
    assert set(watcher.flags) == {"UP"}
    keeper.ok("--test-alert")
    assert not {"restoring", "restored", "waiting"} & set(http.events())


def test_a_restore_by_hand_tells_its_own_reason(doomed, victim, http):
    """A manual restore is reported with its own reason, not with the reason of an earlier loss."""
    doomed.configure(http.settings())
    first = doomed.dump()["name"]
    doomed.start()
    victim.crash()
    http.wait_event("restored")
    doomed.wait(lambda: len(doomed.dumps()) == 2, "its dump")
    doomed.ok("--restore=" + first, "--force")
    loss, by_hand = wait_for(lambda: (lambda m: m[1:] and m)(
        [m for m in http.messages() if m["event"] == "restoring"]), "both restores")
    assert "sentinel empty" in loss["what"] and "newest intact" in loss["doing"], loss
    assert "by hand" in by_hand["what"] and "sentinel" not in by_hand["what"], by_hand
    assert "newest" not in by_hand["doing"], by_hand


def test_leftovers_of_a_killed_supervisor_do_not_block(keeper):
    """Lock file and socket of a killed supervisor do not block actions or the next supervisor."""
    keeper.start()
    keeper.kill9()
    done = keeper.run("--status")
    assert done.rc == NOT_WELL, done
    keeper.dump()
    keeper.start()
    keeper.dump()


def test_the_interval_counts_from_the_last_stored_dump(keeper):
    """A restart of the supervisor does not postpone the next dump."""
    keeper.configure({"dump": {"interval": "10m"}})
    keeper.dump()
    stored = keeper.newest()["at_unix"]
    keeper.start()
    due = unix(keeper.wait(lambda: keeper.status().get("next_dump"), "the next dump")["at"])
    assert abs(due - stored - 600) <= 3
    keeper.stop()
    assert len(keeper.dumps()) == 1
    keeper.start()
    due = unix(keeper.wait(lambda: keeper.status().get("next_dump"), "the next dump")["at"])
    assert abs(due - stored - 600) <= 3


def test_a_late_supervisor_dumps_at_once(keeper):
    """If the interval passed while no supervisor ran, a dump is made soon after the start."""
    keeper.dump()
    keeper.configure({"dump": {"interval": "1s"}})
    keeper.start()
    keeper.wait(lambda: len(keeper.dumps()) >= 3, "dumps by interval")


def test_the_first_dump_needs_no_interval(keeper):
    """A world without any dump is dumped right after the start, whatever the interval."""
    keeper.start()
    keeper.wait(keeper.dumps, "the first dump")


def control_socket(keeper):
    found = []
    for root, _, files in os.walk(keeper.base):
        for path in (os.path.join(root, f) for f in files):
            with contextlib.suppress(FileNotFoundError):  # a temporary file that was renamed meanwhile
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    found.append(path)
    (path,) = found
    return path


def test_the_socket_is_for_its_owner_only(keeper):
    """Other users of the host cannot open the control socket."""
    keeper.start()
    path = control_socket(keeper)
    closed = os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
    assert closed or os.stat(path).st_mode & 0o077 == 0, path


def test_a_unit_with_several_runtime_directories(keeper):
    """If systemd passes several runtime directories, the first one is used."""
    first = keeper.control_dir
    keeper.control_dir = first + ":/run/another"
    keeper.start()
    assert os.path.dirname(control_socket(keeper)) == first
    keeper.ok("--status")


def ask(keeper, request):
    """Sends one request, as a client of any version may write it, and returns the final answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(PATIENCE)
        s.connect(control_socket(keeper))
        s.send(json.dumps(request).encode())
        while True:
            answer = json.loads(s.recv(1 << 20))
            if "done" in answer:
                return answer["done"]


def well(keeper):
    """Returns the status from the supervisor once the world is up; after a pause the next probe decides."""
    done = wait_for(lambda: (lambda d: d if d.rc == DONE else None)(keeper.run("--status", "--json")),
                    lambda: f"the world to be up: {keeper.run('--status')}")
    return done.json


def test_clients_of_other_versions(keeper):
    """A client that sends every option, also unset ones, is understood. Options that are unknown or belong to another action are
    refused, because ignoring one could change what a restore does."""
    unset = dict.fromkeys(("force", "accept_cut", "dry_run", "automatic", "apply", "renumber"), False)
    unset.update(skip=0, pause_ms=0)
    keeper.dump()
    keeper.start()
    assert "error" not in ask(keeper, {"action": "dump", **unset})
    assert ask(keeper, {"action": "pause", **unset, "pause_ms": 3600000})["result"]["state"] == "PAUSED"
    assert ask(keeper, {"action": "resume", **unset})["result"]["state"] == "STARTING"
    well(keeper)
    for key, value in (("until", "now"), ("since", "-1h"), ("verify", True), ("unlock", True), ("renumber", True),
                       ("later", "now"), ("force", "yes"), ("force", 1), ("dump", True), ("at", None), ("skip", "1"),
                       ("pause_ms", True)):
        error = ask(keeper, {"action": "restore", **unset, key: value})["error"]
        assert error["class"] == "usage" and f"'{key}'" in error["text"], error
    assert well(keeper)["generation"] == 1


def test_garbage_on_the_socket_harms_nobody(keeper):
    """Invalid requests are answered or dropped, and the supervisor continues."""
    keeper.start()
    path = control_socket(keeper)
    for data in (b"", b"\0" * 70000, b"{}\n", b'{"action":"nosuch"}\n', b"[" * 5000 + b"\n",
                 b'{"action":{}}\n', b"GET / HTTP/1.0\r\n\r\n",
                 b'{"action":"pause","pause_ms":9223372036854775807}', b'{"action":"resume"}'):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.connect(path)
            s.settimeout(2)
            try:
                s.send(data)
                s.shutdown(socket.SHUT_WR)
                s.recv(65536)
            except OSError:
                pass
    held = []
    for _ in range(50):  # idle clients that never send a request
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].setblocking(False)
        try:
            held[-1].connect(path)
        except OSError:
            break
    keeper.probes_pass("A", 5)
    for s in held:
        s.close()
    assert well(keeper)["state"] == "UP"
    keeper.dump()


def test_client_that_goes_away(keeper):
    """Interrupting the client does not end the supervisor."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=stop")
    client = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.streamed")
    client.send_signal(signal.SIGINT)
    client.wait(PATIENCE)
    assert stopped(keeper) == at_work
    keeper.wait(lambda: go_on(stopped(keeper)) or (keeper.status().get("running") is None and not keeper.parts()),
                "the job to end")
    keeper.wait_state("UP")
    assert well(keeper)["state"] == "UP"


def test_the_directory_of_another_world(keeper, make_keeper, make_world):
    """If a copied config has the [dump] dir of another world, every action is refused and does nothing to that world, with or
    without its supervisor."""
    keeper.dump()
    other = make_keeper(make_world(), name="w2", account=False)
    keeper.server.account("keeper", [keeper.world.schema, other.world.schema])
    other.configure({"dump": {"dir": keeper.dumps_dir}})
    for running in (True, False):
        if running:
            keeper.start()
        for action in ("--init", "--dump", "--restore", "--pause", "--status", "--list", "--verify", "--drill", "--run"):
            done = other.run(action, *(["--force"] if action == "--restore" else []))
            assert done.rc == REFUSED and "belongs to world w1" in done.err, done
        assert "belongs to world w1" in other.run("--check").out.replace("\n" + " " * 24, " ")
        assert not running or keeper.state() == "UP"
        assert len(keeper.dumps()) == 1 and keeper.status()["generation"] == 1
        if running:
            keeper.stop()
    keeper.configure({"world": {"name": "w3"}})  # renames the world as the manual says
    os.unlink(os.path.join(keeper.dumps_dir, "state.json"))
    keeper.ok("--init", "--force")


@pytest.fixture
def sharing(keeper, make_keeper, make_world):
    """Returns two worlds with the same [control] dir; the first one has a supervisor."""
    other = make_keeper(make_world(), {"control": {"dir": keeper.control_dir}}, name="w2", account=False)
    keeper.server.account("keeper", [keeper.world.schema, other.world.schema])
    other.init()
    for each in (keeper, other):
        each.dump()
    keeper.start()
    return keeper, other


def test_a_socket_on_which_another_world_listens_is_not_replaced(sharing):
    """A second world with the same [control] dir does not start while the first one listens there, even if the first one does not
    answer. It starts as soon as the first one has been killed."""
    first, second = sharing
    for still in (contextlib.nullcontext(), first.standing_still()):
        with still:
            assert second.start(state=None).process.wait(PATIENCE) == REFUSED, second.log()
            told = (f"cannot listen on {control_socket(first)}: {name} (pid {first.process.pid}) listens there"
                    for name in ("world w1", "another process"))  # a busy supervisor does not tell its name in time
            assert any(each in second.log() for each in told) and "give each world its own [control] dir" in second.log(), second.log()
    assert well(first)["world"] == "w1"
    first.kill9()
    second.start()
    assert well(second)["world"] == "w2"


def test_a_command_for_another_world_is_refused(sharing):
    """A supervisor refuses commands for another world, which reach it if both have the same [control] dir or if a lock file names
    its socket."""
    first, second = sharing
    with open(os.path.join(second.dumps_dir, "lock"), "w") as f:
        json.dump({"pid": 1, "host": "h", "since": "", "socket": control_socket(first)}, f)
        f.flush()
        fcntl.flock(f, fcntl.LOCK_EX)
        for action in (["--status"], ["--pause"], ["--dump"], ["--restore", "--force"]):
            done = second.run(*action)
            assert done.rc == REFUSED and "the supervisor of world w1 listens on the control socket of world w2" in done.err, done
            assert "give each world its own [control] dir" in done.err, done
        assert ask(first, {"action": "dump", "world": "w2"})["error"]["class"] == "refused"
    assert second.run("--status").rc == REFUSED  # without the lock, too
    assert "state" not in json.loads(second.run("--status", "--json").out)
    second.dump()
    status = well(first)
    assert (status["state"], status["generation"]) == ("UP", 1) and len(first.dumps()) == 1 and len(second.dumps()) == 2


def test_a_supervisor_of_an_earlier_version_gets_no_name(keeper, tmp):
    """If a supervisor rejects the key `world`, and its status names this world, the command is sent again without that key."""
    path = os.path.join(tmp, "control.sock")
    for world, expected in (("w1", DONE), ("w2", USAGE)):
        asked = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen(4)
            listener.settimeout(PATIENCE)
            with open(os.path.join(keeper.dumps_dir, "lock"), "w") as f:
                json.dump({"pid": 1, "host": "h", "since": "", "socket": path}, f)
            client = keeper.popen("--pause=1h", "--json")
            for _ in range(3 if world == "w1" else 2):
                with listener.accept()[0] as c:
                    asked.append(json.loads(c.recv(4096)))
                    answer = ({"error": {"class": "usage", "num": 0, "hint": "it may have another version: restart it",
                                         "text": "the running supervisor does not know 'world' in the request"}}
                              if "world" in asked[-1] else {"result": {"world": world, "state": "PAUSED"}})
                    c.send(json.dumps({"done": answer}).encode())
            done = json.loads(client.communicate(timeout=PATIENCE)[0])
        assert done["exit"] == expected, done
        assert asked[:2] == [{"action": "pause", "pause_ms": 3600000, "world": "w1"}, {"action": "status"}]
        assert asked[2:] == ([{"action": "pause", "pause_ms": 3600000}] if world == "w1" else [])
        os.unlink(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another user answers")
def test_another_user_in_the_place_of_the_supervisor(keeper, tmp):
    """If the lock file names another user's socket, the answer from there is neither believed nor printed."""
    os.chmod(tmp, 0o777)
    path = os.path.join(tmp, "control.sock")
    listener = subprocess.Popen([sys.executable, "-c", f"""
import os, socket
os.setuid(65534)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind({path!r} + ".new")
os.chmod({path!r} + ".new", 0o777)
s.listen(1)
os.rename({path!r} + ".new", {path!r})
while True:
    c = s.accept()[0]
    c.recv(4096)
    c.send(b'{{"done":{{}},"error":{{"class":"refused","num":0,"text":"planted","hint":"rm -rf"}},"result":{{}}}}')
"""])
    try:
        wait_for(lambda: os.path.exists(path), "the listener")
        with open(os.path.join(keeper.dumps_dir, "lock"), "w") as f:
            json.dump({"pid": listener.pid, "host": "h", "since": "", "socket": path}, f)
        done = keeper.run("--status")
        assert "planted" not in done.out + done.err and "another user's process answers" in done.err, done
        done = keeper.run("--pause")
        assert done.rc != DONE, done
    finally:
        listener.kill()
        listener.wait()


def test_a_supervisor_that_stands_still_is_there(keeper):
    """A supervisor that is stopped, with a full queue of clients, is reported as not answering, not as absent; otherwise an
    operator might start another one."""
    keeper.start()
    with keeper.standing_still(), contextlib.ExitStack() as queue:
        with pytest.raises(BlockingIOError):
            while True:
                s = queue.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                s.setblocking(False)
                s.connect(control_socket(keeper))
        asked = keeper.run("--status")
        os.rename(keeper.dumps_dir, keeper.dumps_dir + "-away")
        blind = keeper.run("--status")
        os.rename(keeper.dumps_dir + "-away", keeper.dumps_dir)
    for done, which in ((asked, f"-p {keeper.process.pid}"), (blind, "-C worldkeeper")):
        assert done.rc == NOT_WELL and "the supervisor of world w1 does not answer within 10 s\n" in done.err, done
        assert f" ps -o pid,stat,wchan,args {which} shows " in done.err, done


def test_a_failure_that_gives_no_reason(keeper, tmp):
    """A failure without a reason, as another version may send it, is still a failure, with a hint to the log."""
    path = os.path.join(tmp, "control.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(1)
        with open(os.path.join(keeper.dumps_dir, "lock"), "w") as f:
            json.dump({"pid": 1, "host": "h", "since": "", "socket": path}, f)
        client = keeper.popen("--pause", "--json")
        with listener.accept()[0] as c:
            c.recv(4096)
            c.send(b'{"done":{"error":{"class":"none","num":0,"text":"","hint":""}}}')
            done = json.loads(client.communicate(timeout=PATIENCE)[0])
    assert client.returncode == done["exit"] == FAILED, done
    assert done["error"] == {"class": "none", "num": 0, "hint": "see its log",
                             "text": "the supervisor of world w1 failed without giving a reason"}, done


def test_a_pause_outlives_a_job_that_read_the_state_before(keeper):
    """A cleanup job returns the state it read before a pause. The pause is kept although the supervisor is asked to end before it
    saves it again."""
    def state():
        with open(os.path.join(keeper.dumps_dir, "state.json")) as f:
            return json.load(f)

    def ended():
        with open(f"/proc/{job}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"

    keeper.dump()
    keeper.start(fault="tidy.loaded=stop")
    job = keeper.wait(lambda: keeper.worker("job"), "the job that tidies")
    keeper.wait(lambda: stands_still(job), "it to have read the state")
    keeper.ok("--pause")
    keeper.wait(lambda: state()["paused"], "the pause on the disk")
    keeper.process.send_signal(signal.SIGSTOP)
    os.kill(job, signal.SIGCONT)
    wait_for(ended, "its end")
    keeper.process.send_signal(signal.SIGTERM)
    keeper.process.send_signal(signal.SIGCONT)
    assert keeper.process.wait(PATIENCE) == 0
    assert state()["paused"] is True
    keeper.start("PAUSED")


def connected(keeper):
    """Returns a client that the supervisor has accepted and that has not sent a request yet; connections are accepted in
    order."""
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(PATIENCE)
    client.connect(control_socket(keeper))
    ask(keeper, {"action": "status"})
    return client


def test_a_pause_that_comes_with_the_end_is_kept(keeper):
    """A pause that arrives in the same iteration of the loop as SIGTERM is confirmed, and the next supervisor is paused. If the
    connection itself was not accepted before, the pause is refused, and the next supervisor is not paused."""
    keeper.dump()
    keeper.start()
    with connected(keeper) as client:
        keeper.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: stands_still(keeper.process.pid), "it to stand still")
        client.send(b'{"action":"pause"}')
        keeper.process.send_signal(signal.SIGTERM)
        keeper.process.send_signal(signal.SIGCONT)
        done = json.loads(client.recv(1 << 20))["done"]
    kept = done["result"]["state"] == "PAUSED" if "result" in done else False
    assert kept or done["error"]["text"] == "the supervisor is ending", done
    assert keeper.process.wait(PATIENCE) == 0
    keeper.start("PAUSED" if kept else "UP")


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_what_a_supervisor_that_ends_cannot_do_is_refused(keeper, action):
    """While a supervisor that ends waits for its job, it refuses --pause and --resume, because it would not keep them."""
    keeper.dump()
    keeper.start(fault="dump.streamed=stop")
    if action == "resume":
        keeper.ok("--pause")
    keeper.popen("--dump")
    wait_stopped(keeper, "dump.streamed")
    with connected(keeper) as client:
        keeper.process.send_signal(signal.SIGTERM)
        keeper.wait_log("ending the running dump")
        client.send(json.dumps({"action": action}).encode())
        answer = client.recv(1 << 20)  # empty if the supervisor has already exited
        assert not answer or json.loads(answer)["done"]["error"]["text"] == "the supervisor is ending", answer
    assert keeper.process.wait(PATIENCE) == 0
    keeper.start("PAUSED" if action == "resume" else "UP")
