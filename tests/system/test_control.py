"""Actions that reach a running supervisor, one job at a time, one keeper for each world."""
import os
import signal
import socket
import stat
import time

from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, HELD, NOT_WELL, REFUSED, unix
from wk.util import wait_for
from wk.watch import Watcher


def test_status_tells_a_running_supervisor(keeper):
    """--status shows the state and exits with 0 when all is well; --json is status.json itself."""
    keeper.dump()
    keeper.start()
    done = keeper.run("--status")
    assert done.rc == DONE and "UP" in done.out
    shown = keeper.run("--status", "--json").json
    assert shown["state"] == "UP" and shown["world"] == "w1" and shown["pid"] == keeper.process.pid


def test_status_without_a_supervisor_is_not_well(keeper):
    """Nobody is keeping the world: exit 6 and a word about it."""
    done = keeper.run("--status")
    assert done.rc == NOT_WELL and (done.out + done.err).strip()


def test_what_is_told_to_type_names_the_world(keeper):
    """A config elsewhere is none of the service's; what is pasted must mean this world."""
    told = f"--config {keeper.config_path} "
    assert f"{told}--run" in keeper.run("--status").err
    assert f"{told}--run" in keeper.run("--check").out
    assert f"worldkeeper {told}--dump" in keeper.run("--list").out
    keeper.start()
    keeper.ok("--pause")
    assert f"{told}--resume" in keeper.run("--status").out


def test_status_of_a_world_in_trouble_is_not_well(doomed, victim):
    """WAITING exits with 6, for monitoring."""
    doomed.dump()
    doomed.start()
    victim.kill9()
    doomed.wait_state("WAITING")
    done = doomed.run("--status")
    assert done.rc == NOT_WELL and "WAITING" in done.out


def test_dump_through_the_supervisor(keeper):
    """--dump answers with the same figures when a supervisor runs, and the status knows the dump."""
    keeper.start()
    result = keeper.dump()
    assert result["rows"] >= 5301 and result["tables"] >= 4
    keeper.wait(lambda: (keeper.status()["last_dump"] or {}).get("name") == result["name"],
                "the status to know the dump")


def test_list_and_verify_work_beside_a_supervisor(keeper):
    """Reading actions need no lock."""
    keeper.start()
    name = keeper.dump()["name"]
    assert keeper.ok("--list", "--json")["dumps"][0]["name"] == name
    assert keeper.ok("--verify", "--json")["dumps"][0]["whole"] is True


def test_the_log_says_how_each_job_ended(keeper):
    """A drill that passed must not look like one that hangs."""
    keeper.start()
    keeper.wait_state("UP")
    keeper.wait(keeper.dumps, "a dump")
    keeper.ok("--restore", "--dry-run")
    keeper.wait_log("dry run of a restore done")
    keeper.ok("--init")
    keeper.wait_log("init done")
    assert keeper.run("--restore=none-such").rc != DONE
    keeper.wait_log("restore failed: no dump none-such")
    assert "Z restore done" not in keeper.log()


def test_what_a_job_said_is_what_who_asked_reads(doomed, victim):
    """A server that is gone is the job's answer, not that somebody else has the world."""
    doomed.start()
    doomed.dump()
    victim.kill9()
    doomed.wait_state("WAITING")
    for action in (["--dump"], ["--drill"], ["--restore", "--force"], ["--init"]):
        asked = doomed.run(*action)
        assert asked.rc == FAILED and "cannot connect" in asked.err, asked
        assert "held by" not in asked.err, asked


def test_pause_and_resume(keeper):
    """--pause shows WAITING to the players and wanted = paused in the status; --resume goes on."""
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
    """A forgotten pause does not leave the world without its keeper."""
    keeper.start()
    keeper.ok("--pause=2s")
    keeper.wait_state("PAUSED")
    keeper.wait_state("UP")


def test_pause_survives_a_restart(keeper):
    """A supervisor that is restarted during planned work stays paused."""
    keeper.start()
    keeper.ok("--pause")
    keeper.wait_state("PAUSED")
    keeper.stop()
    keeper.start(state="PAUSED")
    keeper.ok("--resume")
    keeper.wait_state("UP")


def test_pause_needs_a_supervisor(keeper):
    """Without one there is nothing to pause: an error, not silence."""
    assert keeper.run("--pause").rc != DONE


def test_a_second_supervisor_is_refused(keeper):
    """The second instance says who has the world, and ends with 3; the first is not disturbed."""
    keeper.start()
    done = keeper.run("--run")
    assert done.rc == HELD and str(keeper.process.pid) in done.err, done
    assert keeper.state() == "UP" and keeper.alive()


def test_an_action_holds_the_world_too(keeper):
    """While a dump without supervisor runs, a supervisor or another dump is told who has the world."""
    dumping = keeper.popen("--dump", fault="dump.streamed=stop")
    at_work = wait_stopped(keeper, "dump.streamed")
    for action in ("--dump", "--run", "--restore"):
        done = keeper.run(action)
        assert done.rc == HELD and str(dumping.pid) in done.err, done
    go_on(at_work)
    assert keeper.finish(dumping).rc == DONE
    keeper.dump()


def test_one_job_at_a_time(keeper):
    """A second dump while one runs waits for it or is refused; two never run at once."""
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
    assert keeper.finish(first).rc == DONE
    done = keeper.finish(second)
    assert done.rc in (DONE, HELD) and (done.rc == DONE or done.err.strip()), done
    assert len(keeper.dumps()) == (3 if done.rc == DONE else 2)


def test_restore_through_the_supervisor(keeper):
    """--restore --force through a supervisor: the flag shows it, the world is the old one, UP again."""
    keeper.dump()
    before = keeper.world.snapshot()
    keeper.world.mark(2)
    keeper.start()
    name = keeper.newest()["name"]
    result = keeper.ok("--restore=" + name, "--force", "--json")
    assert result["dump"] == name
    keeper.wait_state("UP")
    keeper.world.assert_is(before)
    assert keeper.status()["last_restore"]["dump"] == name
    keeper.probes_pass("A", 3)


def test_a_refused_restore_is_nobodys_business(keeper, http):
    """--restore over a living world, refused: players see no RESTORING and no alert goes out."""
    keeper.configure(http.settings())
    keeper.dump()
    keeper.start()
    http.wait_event("started")
    with Watcher(keeper) as watcher:
        wait_for(lambda: watcher.flags, "the watcher")
        assert keeper.run("--restore").rc == REFUSED
        keeper.probes_pass("A", 4)
    assert set(watcher.flags) == {"UP"}
    keeper.ok("--test-alert")
    assert not {"restoring", "restored", "waiting"} & set(http.events())


def test_a_restore_by_hand_tells_its_own_reason(doomed, victim, http):
    """Not that of a loss that is over."""
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
    """Lock file and socket of a killed supervisor stop nobody."""
    keeper.start()
    keeper.kill9()
    assert keeper.run("--status").rc == NOT_WELL
    keeper.dump()
    keeper.start()
    keeper.dump()


def test_the_interval_counts_from_the_last_stored_dump(keeper):
    """A restarted supervisor does not start its interval anew: the dump is due when it was due."""
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
    """When the interval has passed while none ran, the dump is made soon after the start."""
    keeper.dump()
    keeper.configure({"dump": {"interval": "1s"}})
    keeper.start()
    keeper.wait(lambda: len(keeper.dumps()) >= 3, "dumps by interval")


def test_the_first_dump_needs_no_interval(keeper):
    """A world without any dump is dumped right after the start, whatever the interval."""
    keeper.start()
    keeper.wait(keeper.dumps, "the first dump")


def control_socket(keeper):
    (path,) = [os.path.join(root, f) for root, _, files in os.walk(keeper.base) for f in files
               if stat.S_ISSOCK(os.lstat(os.path.join(root, f)).st_mode)]
    return path


def test_the_socket_is_for_its_owner_only(keeper):
    """Others on the host can neither command nor read through the control socket."""
    keeper.start()
    path = control_socket(keeper)
    closed = os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
    assert closed or os.stat(path).st_mode & 0o077 == 0, path


def test_a_unit_with_several_runtime_directories(keeper):
    """As systemd names them when somebody adds one."""
    first = keeper.control_dir
    keeper.control_dir = first + ":/run/another"
    keeper.start()
    assert os.path.dirname(control_socket(keeper)) == first
    keeper.ok("--status")


def test_garbage_on_the_socket_harms_nobody(keeper):
    """What is not a request is answered or dropped; the supervisor goes on."""
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
    for _ in range(50):  # idle clients that never ask anything
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].setblocking(False)
        try:
            held[-1].connect(path)
        except OSError:
            break
    keeper.probes_pass("A", 5)
    for s in held:
        s.close()
    assert keeper.run("--status").rc == DONE
    keeper.dump()


def test_client_that_goes_away(keeper):
    """Ctrl-C at the client does not take the supervisor with it."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=sleep:1500")
    client = keeper.popen("--dump")
    keeper.wait(keeper.parts, "the dump to begin")
    client.send_signal(signal.SIGINT)
    client.wait(30)
    keeper.wait(lambda: keeper.status().get("running") is None and not keeper.parts(),
                "the job to end")
    assert keeper.alive() and keeper.state() == "UP"
    assert keeper.run("--status").rc == DONE


def test_the_directory_of_another_world(keeper, make_keeper, make_world):
    """A config that was copied, and its [dump] dir with it: what is asked of one world never happens to the other,
    whose supervisor, lock and state are there."""
    keeper.dump()
    other = make_keeper(make_world(), name="w2", account=False)
    keeper.server.account("keeper", [keeper.world.schema, other.world.schema])
    other.configure({"dump": {"dir": keeper.dumps_dir}})
    for running in (True, False):
        if running:
            keeper.start()
        for action in ("--init", "--dump", "--restore", "--pause", "--status", "--list", "--verify", "--drill", "--run"):
            done = other.run(action, *(["--force"] if action == "--restore" else []))
            assert done.rc == REFUSED and "directory of world w1" in done.err, done
        assert "directory of world w1" in other.run("--check").out.replace("\n" + " " * 24, " ")
        assert not running or keeper.state() == "UP"
        assert len(keeper.dumps()) == 1 and keeper.status()["generation"] == 1
        if running:
            keeper.stop()
    keeper.configure({"world": {"name": "w3"}})  # renamed, as told
    os.unlink(os.path.join(keeper.dumps_dir, "state.json"))
    keeper.ok("--init")
