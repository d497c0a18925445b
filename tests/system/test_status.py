"""Tests of the files that homepages and monitoring read."""
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import BINARY, DONE, FAILED, NOT_WELL, REFUSED, ROOT, USAGE, USER, of_world, unix
from wk.util import PATIENCE

pytestmark = pytest.mark.any_server

KEYS = {"format", "world", "host", "pid", "version", "state", "since", "reason", "flag", "wanted",
        "ready", "updated", "valid_until", "valid_until_unix", "generation", "probe", "last_dump",
        "running", "next_dump", "last_restore", "disk", "alerts", "loop"}


def files(keeper):
    """Returns the published files; a file that is being written has another name."""
    return {name: os.stat(os.path.join(keeper.status_dir, name), follow_symlinks=False)
            for name in os.listdir(keeper.status_dir) if not name.startswith(".")}


@pytest.mark.quick
def test_status_has_everything(keeper):
    """status.json has each documented key, and its figures fit the dump on the disk."""
    keeper.start()
    dump = keeper.dump()
    status = keeper.expect("the dump in the status", state="UP", running=None, next_dump=bool,
                           last_dump=lambda d: d and d["name"] == dump["name"],
                           probe=lambda p: p["verdict"] == "ALIVE", disk=bool)
    assert KEYS <= set(status)
    with open(os.path.join(os.path.dirname(__file__), "../../etc/worldkeeper.8"), encoding="utf-8") as f:
        told = f.read().split("\nsays more, and is")[1].split("\n.El")[0]
    told = [w for line in re.findall(r"^\.It Li (.*)$", told, re.M) for w in line.split(" , ")]
    assert sorted(told) == sorted(status)
    assert status["last_dump"]["rows"] == of_world(keeper.newest())[0]
    assert status["last_dump"]["file_size"] == os.path.getsize(dump["path"])
    assert status["last_dump"]["age_seconds"] >= 0
    assert 3000 < status["next_dump"]["in_seconds"] <= 3600
    assert status["disk"]["free_bytes"] > 0 and set(status["probe"]["history"]) <= set("AEMFUSD-")
    assert status["ready"] is True and status["wanted"] == "up" and status["flag"] == "UP"
    assert unix(status["since"]) <= unix(status["updated"]) <= unix(status["valid_until"])


def test_the_moment_of_the_last_change_stands_still(keeper):
    """`since` does not change without a change of the state, because every file that contains it would be written
    again."""
    keeper.dump()
    keeper.start()
    keeper.expect("the dump to be over", running=None)
    seen = {}
    keeper.wait(lambda: seen.update({keeper.status()["updated"]: keeper.status()["since"]}) or len(seen) > 12,
                "some more of status.json")
    assert len(set(seen.values())) == 1, seen


def test_the_flag_is_one_old_word(keeper):
    """The flag's file has only the old word, because homepages compare it."""
    keeper.start()
    with open(os.path.join(keeper.status_dir, "index.html"), "rb") as f:
        assert f.read() in (b"UP", b"UP\n")


def serves(keeper):
    """Runs the readiness probe of etc/container/kubernetes.yaml for this world. Returns True if the pod serves players."""
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed: scripts/deps.sh test")
    with open(os.path.join(ROOT, "etc/container/kubernetes.yaml"), encoding="utf-8") as f:
        asks = next(c for d in yaml.safe_load_all(f) if d["kind"] == "StatefulSet"
                    for c in d["spec"]["template"]["spec"]["containers"] if c["name"] == "worldkeeper")
    shell, option, script = asks["readinessProbe"]["exec"]["command"]
    assert script.count("worldkeeper --world world ") == 1
    script = script.replace("worldkeeper --world world ", shlex.join(keeper.command()) + " ")
    done = subprocess.run([shell, option, script], env=keeper.environment(), capture_output=True, timeout=PATIENCE)
    return done.returncode == 0


def test_a_pod_serves_players_unless_the_world_is_known_to_be_gone(make_keeper, make_world, victim):
    """Kubernetes takes a pod that is not ready from the game. That is right for a world that is lost, but wrong where nothing
    is wrong with the world: before --init, when the account is refused, while paused, and when no supervisor answers."""
    keeper = make_keeper(make_world(on=victim), {"restore": {"auto": "no"}})
    keeper.start(state=None)
    keeper.wait_state("WAITING")
    assert serves(keeper)
    keeper.init()
    keeper.wait_state("UP")
    assert serves(keeper)
    keeper.ok("--pause")
    keeper.wait_state("PAUSED")
    assert serves(keeper)
    keeper.ok("--resume")
    keeper.wait_state("UP")
    schema = keeper.world.schema.replace("_", "\\_")
    keeper.server.sql(f"REVOKE ALL ON `{schema}`.* FROM {USER}@localhost")
    keeper.server.end_sessions(user=USER)
    keeper.expect("what is not known", state="SUSPECT", unverified=True)
    assert serves(keeper)
    keeper.server.account(USER, [keeper.world.schema])
    keeper.wait_state("UP")
    keeper.dump()
    victim.crash()
    keeper.wait_state("WAITING")
    assert not serves(keeper)
    keeper.kill9()
    assert serves(keeper)


@pytest.mark.slow
def test_a_dead_supervisor_shows_by_its_valid_until(keeper):
    """valid_until is at most 30 s ahead while the supervisor lives, and expires after kill -9."""
    keeper.start()
    keeper.expect("a status that is good for a while", valid_until_unix=lambda until: 0 < until - time.time() <= 30)
    keeper.kill9()
    last = keeper.status()["valid_until_unix"]
    keeper.wait(lambda: time.time() > last, "the status to run out")


def test_published_whole_and_for_everybody(keeper):
    """Files have mode 0644 whatever the umask and are replaced by rename, so that a reader never sees half a file; no
    temporary file is left."""
    mask = os.umask(0o077)
    try:
        keeper.start()
    finally:
        os.umask(mask)
    keeper.wait(lambda: {"index.html", "status.json", "history.json"} <= set(files(keeper)), "all of the files")
    before = files(keeper)
    for name, s in before.items():
        assert stat.S_IMODE(s.st_mode) == 0o644, name
    with open(os.path.join(keeper.status_dir, "status.json")) as first:  # held open, so that its inode is not reused
        seen = json.load(first)["updated"]
        keeper.wait(lambda: keeper.status().get("updated") != seen, "a new status")
        assert files(keeper)["status.json"].st_ino != os.fstat(first.fileno()).st_ino
    for _ in range(300):
        with open(os.path.join(keeper.status_dir, "status.json")) as f:
            json.load(f)
    keeper.stop()
    assert sorted(os.listdir(keeper.status_dir)) == sorted(before)


def test_a_planted_link_is_replaced_not_followed(keeper, tmp):
    """A symbolic link in the status directory is replaced and not followed."""
    target = os.path.join(tmp, "precious")
    with open(target, "w") as f:
        f.write("precious")
    for name in ("index.html", "status.json", "index.html.tmp", "status.json.tmp"):
        os.symlink(target, os.path.join(keeper.status_dir, name))
    keeper.start(state=None)
    keeper.wait(lambda: not os.path.islink(os.path.join(keeper.status_dir, "index.html"))
                and keeper.flag() == "UP", "the flag as a file")
    with open(target) as f:
        assert f.read() == "precious"


def test_an_unwritable_status_does_not_stop_the_keeping(doomed, victim):
    """The world is restored also if the status directory was removed."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start()
    os.rename(doomed.status_dir, doomed.status_dir + ".gone")
    shutil.rmtree(doomed.status_dir + ".gone", ignore_errors=True)  # it may be written to at this moment
    victim.crash()
    doomed.wait(lambda: doomed.world.rows() == 2000, "the world")
    doomed.world.assert_is(before)
    assert doomed.alive()


def test_running_shows_the_dump(keeper):
    """During a dump the status shows the job, its phase and its percentage."""
    keeper.dump()
    keeper.start(fault="dump.table_read#2=stop")
    dumping = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.table_read")

    def seen():  # a phase before it may have been published, too
        running = keeper.status().get("running") or {}
        return running.get("phase") and running["percent"] >= 0 and running
    running = keeper.wait(seen, "the running job")
    assert running["job"] == "dump" and running["percent"] <= 100, running
    go_on(at_work)
    assert keeper.finish(dumping).rc == 0
    keeper.wait(lambda: keeper.status().get("running") is None, "the job to end")


def test_names_of_the_files_can_be_chosen(keeper):
    """flag, json and metrics in [status] name the files, so that the old homepage's URL can stay."""
    keeper.configure({"status": {"flag": "up.txt", "json": "s8.json", "metrics": "s8.prom"}})
    keeper.start(state=None)
    keeper.wait(lambda: set(os.listdir(keeper.status_dir)) >= {"up.txt", "s8.json", "s8.prom"},
                "the files")

    def up():
        with open(os.path.join(keeper.status_dir, "up.txt")) as f:
            return f.read().strip() == "UP"
    keeper.wait(up, "the flag UP")


def test_metrics_are_prometheus_text(keeper):
    """The metrics file is valid for node_exporter's text collector."""
    keeper.configure({"status": {"metrics": "world.prom"}})
    keeper.start()
    keeper.dump()
    keeper.wait(lambda: (keeper.status().get("last_dump") or {}).get("name"), "the dump")
    with open(os.path.join(keeper.status_dir, "world.prom")) as f:
        text = f.read()
    line = re.compile(r'(# (HELP|TYPE) worldkeeper_\w+ .+|worldkeeper_\w+(\{[^{}]*\})? '
                      r'[-+0-9.eE]+|worldkeeper_\w+(\{[^{}]*\})? NaN)')
    assert text.endswith("\n") and all(line.fullmatch(t) for t in text.splitlines()), text
    assert 'world="w1"' in text


def test_hostile_names_stay_json(make_world, make_keeper):
    """The status is valid JSON with any names of tables."""
    keeper = make_keeper(make_world("zoo")).init()
    keeper.start()
    keeper.dump()
    with open(os.path.join(keeper.status_dir, "status.json")) as f:
        json.load(f)
    assert keeper.run("--list", "--json").json["ok"] is True


def test_another_directory_in_the_place_of_the_old_one(keeper):
    """After the status directory was replaced by another one the files are written there."""
    keeper.start()
    os.rename(keeper.status_dir, keeper.status_dir + ".old")
    with contextlib.suppress(FileExistsError):  # the supervisor may create it first
        os.mkdir(keeper.status_dir, 0o755)
    keeper.wait(lambda: keeper.flag() == "UP" and keeper.state() == "UP", "the flag in the new directory")
    os.rename(keeper.status_dir, keeper.status_dir + ".older")
    keeper.wait(lambda: keeper.flag() == "UP", "the directory made anew")


def test_the_dumps_are_moved_away(keeper):
    """A dump directory that was moved away is reported, because dumps continue in the old place and manual actions find
    neither supervisor nor dumps."""
    keeper.dump()
    keeper.start()
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".old")
    keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "moved or removed" in t["what"]], "the trouble")
    os.rename(keeper.dumps_dir + ".old", keeper.dumps_dir)
    keeper.wait(lambda: keeper.status()["troubles"] == [], "its end")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


@pytest.mark.parametrize("moved", ["dir", "names", "none"])
def test_a_reload_leaves_no_word_behind_where_it_publishes_no_more(keeper, moved):
    """After a reload with another [status] dir, other names or none, the old flag is WAITING, the old status names the new
    one, and the old metrics are removed, because they would be counted twice."""
    old, new = keeper.status_dir, keeper.status_dir + "-new"
    keeper.configure({"status": {"metrics": "world.prom"}})
    keeper.start()
    keeper.wait(lambda: "worldkeeper_up" in read(old, "world.prom"), "the metrics")
    os.mkdir(new, 0o755)
    keeper.configure({"status": {"dir": {"dir": new},
                                 "names": {"flag": "flag.txt", "json": "world.json", "metrics": "w.prom"},
                                 "none": {"dir": None, "metrics": None}}[moved]})
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: read(old, "index.html").strip() == "WAITING", "the last word of the old flag")
    keeper.wait(lambda: not os.path.exists(os.path.join(old, "world.prom")), "the end of the old metrics")
    ended = json.loads(read(old, "status.json"))
    assert ended["state"] == "STOPPED" and ended["flag"] == "WAITING" and ended["ready"] is False, ended
    assert ended["valid_until"] <= ended["updated"] and "reload" in ended["reason"], ended
    if moved == "none":
        assert "no [status] dir" in ended["reason"], ended
    else:
        where = (new, "index.html", "status.json") if moved == "dir" else (old, "flag.txt", "world.json")
        assert os.path.join(where[0], where[2]) in ended["reason"], ended
        keeper.wait(lambda: os.path.exists(os.path.join(where[0], where[2])), "the new status")
        keeper.wait(lambda: read(where[0], where[1]).strip() == "UP", "the new flag")
        first = json.loads(read(where[0], where[2]))
        assert first["state"] == "UP"
        keeper.wait(lambda: json.loads(read(where[0], where[2]))["updated"] > first["updated"], "the next status")
    assert read(old, "index.html").strip() == "WAITING" and json.loads(read(old, "status.json")) == ended


def test_all_worlds_on_one_screen(make_world, make_keeper, server, tmp):
    """--status of a directory of configs prints a line for each world, what is wrong in words, and one exit status: 0 well, 1
    up with conditions, 6 not up. An unreadable config is named and is not an outage."""
    first, second = (make_keeper(make_world("small", server), name=name, account=False) for name in ("w1", "w2"))
    server.account(USER, [first.world.schema, second.world.schema])
    configs = os.path.join(tmp, "configs")
    os.mkdir(configs)

    def status(*args):
        return subprocess.run([BINARY, "--config", configs, "--status", *args], capture_output=True, text=True,
                              timeout=PATIENCE, env=first.environment())
    nothing = status()
    assert nothing.returncode == USAGE and "no world" in nothing.stderr, nothing
    for keeper in (first, second):
        os.symlink(keeper.config_path, os.path.join(configs, keeper.name + ".ini"))
        keeper.init()
        keeper.start()
        keeper.wait(keeper.dumps, "the first dump")
        keeper.wait(lambda k=keeper: k.run("--status").rc == DONE, "a world that is well")
    well = second.wait(lambda: (lambda done: done.returncode == DONE and done)(status()), "both worlds to be well")
    assert [line.split()[:2] for line in well.stdout.splitlines()] == [
        ["WORLD", "STATE"], ["w1", "UP"], ["w2", "UP"]], well
    second.configure({"journal": {"mode": "server"}})
    second.process.send_signal(signal.SIGHUP)
    second.wait(lambda: second.status()["troubles"], "the trouble")
    assert second.run("--status").rc == FAILED and "no journal" in second.run("--status").out
    open_ = status()
    assert open_.returncode == FAILED and "w2: no journal" in open_.stdout, open_
    with open(os.path.join(configs, "w3.ini"), "w") as f:
        f.write("nonsense\n")
    assert first.stop() == 0
    down = status()
    assert down.returncode == NOT_WELL and "1 of 3 worlds is not up" in down.stderr, down
    assert "w1: no supervisor" in down.stdout and "w3: " in down.stdout, down
    worlds = json.loads(status("--json").stdout)["worlds"]
    assert [(w["world"], w["state"], w["exit"]) for w in worlds] == [
        ("w1", None, NOT_WELL), ("w2", "UP", FAILED), ("w3", None, FAILED)], worlds
    assert worlds[1]["last_dump"] and worlds[2]["error"] and worlds[2]["config"].endswith("w3.ini")


def test_the_age_of_a_dump_after_the_clock_was_set_back(keeper):
    """The age of the newest dump is measured by a clock that nobody sets, so it is never negative."""
    keeper.dump()
    keeper.start(**keeper.shim(clock=keeper.clock))
    keeper.set_clock(-7200)
    keeper.wait_log("the wall clock jumped by -")
    at = keeper.status()["updated"]
    told = keeper.expect("the next status", updated=lambda u: u != at)
    assert 0 <= told["last_dump"]["age_seconds"] < 3600, told["last_dump"]


def test_all_worlds_of_which_many_stand_still(make_world, make_keeper, server, tmp):
    """--status answers soon, however many supervisors do not: only the first one is waited for long."""
    keepers = [make_keeper(make_world("small", server), name=f"w{i}", account=False) for i in range(4)]
    server.account(USER, [k.world.schema for k in keepers])
    configs = os.path.join(tmp, "configs")
    os.mkdir(configs)
    for keeper in keepers:
        os.symlink(keeper.config_path, os.path.join(configs, keeper.name + ".ini"))
        keeper.init().dump()
        keeper.start()
    with contextlib.ExitStack() as still:
        for keeper in keepers[:3]:
            still.enter_context(keeper.standing_still())
        said = subprocess.run([BINARY, "--config", configs, "--status"], capture_output=True, text=True,
                              timeout=PATIENCE, env=keepers[3].environment())
    assert said.returncode == NOT_WELL and "3 of 4 worlds are not up" in said.stderr, said
    for name, patience in (("w0", 10), ("w1", 1), ("w2", 1)):
        assert f"{name}: the supervisor of world {name} does not answer within {patience} s" in said.stdout, said


def claim_of(keeper):
    """Returns the name of the abstract socket that claims the keeper's schema."""
    claim = hashlib.sha256(f"{os.path.realpath(keeper.server.socket)}\n{keeper.world.schema}".encode()).hexdigest()
    return "\0worldkeeper/" + claim[:32]


@pytest.mark.parametrize("shared", ["status", "schema", "sentinel"])
def test_two_worlds_share_nothing(make_world, make_keeper, server, shared):
    """A second world with the same status directory, schema or sentinel is refused at its start and by --check, which name the
    first one. A refused reload does not change this, and a killed supervisor no longer claims anything."""
    first = make_keeper(make_world("small", server), name="w1", account=False)
    second = make_keeper(first.world if shared != "status" else make_world("small", server), name="w2", account=False)
    server.account(USER, [first.world.schema, second.world.schema])
    if shared == "status":
        second.configure({"status": {"dir": first.status_dir}})
    elif shared == "schema":
        second.configure({"probe": {"table": "another_sentinel"}})
    first.init()
    second.run("--init", "--force")
    first.start()
    kept = first.status_dir
    first.configure({"status": {"dir": kept + "-new"}, "dump": {"hmac_key_file": first.secret("key", "short")}})
    first.process.send_signal(signal.SIGHUP)
    first.wait_log("reload refused")
    first.configure({"status": {"dir": kept}, "dump": {"hmac_key_file": None}})
    what = "[status] dir" if shared == "status" else "schema"
    assert second.start(state=None).process.wait(PATIENCE) == REFUSED, second.log()
    assert what in second.log() and f"world w1 (pid {first.process.pid})" in second.log(), second.log()
    checked = second.run("--check", "--json")
    said = [c for c in checked.result["checks"] if c["name"] == "neighbours"]
    assert checked.rc == FAILED and said[0]["level"] == "fail" and "world w1" in said[0]["text"], said
    assert [c["level"] for c in first.run("--check", "--json").result["checks"] if c["name"] == "neighbours"] == ["ok"]
    if shared == "schema":  # each look leaves a connection
        for _ in range(3):
            with contextlib.ExitStack() as looks:
                for _ in range(200):
                    look = looks.enter_context(socket.socket(socket.AF_UNIX))
                    look.setblocking(False)
                    with contextlib.suppress(BlockingIOError):
                        look.connect(claim_of(first))
        second.wait(lambda: "world w1" in second.run("--check").out, "the claim to be seen again")
    first.wait_state("UP")
    first.kill9()
    assert [c["level"] for c in second.run("--check", "--json").result["checks"] if c["name"] == "neighbours"] == ["ok"]
    second.start(state=None)
    second.wait(lambda: second.run("--status").out.startswith("w2: UP"), "the second one, where the first one was")


def test_a_config_that_was_copied_is_seen_before_it_runs(keeper):
    """--check reports a copied config in the same directory."""
    shutil.copy(keeper.config_path, os.path.join(keeper.base, "copy.ini"))
    said = [c["text"] for c in keeper.run("--check", "--json").result["checks"] if c["name"] == "neighbours"]
    assert len(said) == 4 and all("copy.ini" in t for t in said), said
    assert all(any(f"[{section}] dir" in t for t in said) for section in ("dump", "status", "control"))
