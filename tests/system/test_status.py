"""What homepages and monitoring read."""
import contextlib
import json
import os
import re
import shutil
import stat
import time

from wk.crash import go_on, wait_stopped
from wk.keeper import unix

KEYS = {"format", "world", "host", "pid", "version", "state", "since", "reason", "flag", "wanted",
        "ready", "updated", "valid_until", "valid_until_unix", "generation", "probe", "last_dump",
        "running", "next_dump", "last_restore", "disk", "alerts", "loop"}


def files(keeper):
    """What is published: one that is just being written has a name of its own."""
    return {name: os.stat(os.path.join(keeper.status_dir, name), follow_symlinks=False)
            for name in os.listdir(keeper.status_dir) if not name.startswith(".")}


def test_status_has_everything(keeper):
    """status.json holds each promised key, and figures that fit the dump on the disk."""
    keeper.start()
    dump = keeper.dump()
    status = keeper.wait(lambda: keeper.status() if keeper.status().get("last_dump", {})
                         and keeper.status()["last_dump"]["name"] == dump["name"]
                         and keeper.status()["next_dump"] else None, "the dump in the status")
    assert KEYS <= set(status)
    with open(os.path.join(os.path.dirname(__file__), "../../etc/worldkeeper.8"), encoding="utf-8") as f:
        told = f.read().split("\nsays more, and is")[1].split("\n.El")[0]
    told = [w for line in re.findall(r"^\.It Li (.*)$", told, re.M) for w in line.split(" , ")]
    assert sorted(told) == sorted(status)
    assert status["last_dump"]["rows"] == keeper.newest()["rows"]
    assert status["last_dump"]["file_size"] == os.path.getsize(dump["path"])
    assert status["last_dump"]["age_seconds"] >= 0
    assert 3500 < status["next_dump"]["in_seconds"] <= 3600
    assert status["disk"]["free_bytes"] > 0 and status["running"] is None
    assert status["probe"]["verdict"] == "ALIVE" and set(status["probe"]["history"]) <= set("AEMFUSD-")
    assert status["ready"] is True and status["wanted"] == "up" and status["flag"] == "UP"
    assert unix(status["since"]) <= unix(status["updated"]) <= unix(status["valid_until"])


def test_the_flag_is_one_old_word(keeper):
    """Homepages compare the file with the old words: nothing else may be in it."""
    keeper.start()
    with open(os.path.join(keeper.status_dir, "index.html"), "rb") as f:
        assert f.read() in (b"UP", b"UP\n")


def test_a_dead_supervisor_shows_by_its_valid_until(keeper):
    """valid_until is a little ahead while it lives, and runs out after kill -9."""
    keeper.start()
    status = keeper.status()
    assert 0 < status["valid_until_unix"] - time.time() <= 30
    keeper.kill9()
    last = keeper.status()["valid_until_unix"]
    keeper.wait(lambda: time.time() > last, "the status to run out")


def test_published_whole_and_for_everybody(keeper):
    """0644 whatever the umask, by rename: a reader never sees half a file, and no temporary stays."""
    mask = os.umask(0o077)
    try:
        keeper.start()
    finally:
        os.umask(mask)
    before = files(keeper)
    assert {"index.html", "status.json"} <= set(before)
    for name, s in before.items():
        assert stat.S_IMODE(s.st_mode) == 0o644, name
    seen = keeper.status()["updated"]
    keeper.wait(lambda: keeper.status().get("updated") != seen, "a new status")
    assert files(keeper)["status.json"].st_ino != before["status.json"].st_ino
    for _ in range(300):
        with open(os.path.join(keeper.status_dir, "status.json")) as f:
            json.load(f)
    keeper.stop()
    assert sorted(os.listdir(keeper.status_dir)) == sorted(before)


def test_a_planted_link_is_replaced_not_followed(keeper, tmp):
    """A symbolic link in the web directory does not make the daemon write elsewhere."""
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
    """The web directory is gone: the world is restored all the same."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start()
    os.rename(doomed.status_dir, doomed.status_dir + ".gone")
    shutil.rmtree(doomed.status_dir + ".gone", ignore_errors=True)  # it may just be written to
    victim.crash()
    doomed.wait(lambda: doomed.world.rows() == 2000, "the world")
    doomed.world.assert_is(before)
    assert doomed.alive()


def test_running_shows_the_dump(keeper):
    """While a dump runs the status says which job, in which phase, how far."""
    keeper.dump()
    keeper.start(fault="dump.table_read#2=stop")
    dumping = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.table_read")
    running = keeper.wait(lambda: "phase" in (keeper.status().get("running") or {})
                          and keeper.status()["running"], "the running job")
    assert running["job"] == "dump" and running["phase"] and 0 <= running["percent"] <= 100
    go_on(at_work)
    assert keeper.finish(dumping).rc == 0
    keeper.wait(lambda: keeper.status().get("running") is None, "the job to end")


def test_names_of_the_files_can_be_chosen(keeper):
    """flag and json in [status] name the files; the old homepage's URL need not change."""
    keeper.configure({"status": {"flag": "up.txt", "json": "s8.json", "metrics": "s8.prom"}})
    keeper.start(state=None)
    keeper.wait(lambda: set(os.listdir(keeper.status_dir)) >= {"up.txt", "s8.json", "s8.prom"},
                "the files")

    def up():
        with open(os.path.join(keeper.status_dir, "up.txt")) as f:
            return f.read().strip() == "UP"
    keeper.wait(up, "the flag UP")


def test_metrics_are_prometheus_text(keeper):
    """The metrics file can be taken by a node exporter's text collector."""
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
    """Status is JSON whatever tables are called."""
    keeper = make_keeper(make_world("zoo")).init()
    keeper.start()
    keeper.dump()
    with open(os.path.join(keeper.status_dir, "status.json")) as f:
        json.load(f)
    assert keeper.run("--list", "--json").json["ok"] is True


def test_another_directory_in_the_place_of_the_old_one(keeper):
    """A new version of the homepage is put in place, and its status directory with it: the files are in that one."""
    keeper.start()
    os.rename(keeper.status_dir, keeper.status_dir + ".old")
    with contextlib.suppress(FileExistsError):  # the daemon may be quicker
        os.mkdir(keeper.status_dir, 0o755)
    keeper.wait(lambda: keeper.flag() == "UP" and keeper.state() == "UP", "the flag in the new directory")
    os.rename(keeper.status_dir, keeper.status_dir + ".older")
    keeper.wait(lambda: keeper.flag() == "UP", "the directory made anew")


def test_the_dumps_are_moved_away(keeper):
    """Actions by hand find no supervisor and no dump there: whose dumps go on into the old place, and that is told."""
    keeper.dump()
    keeper.start()
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".old")
    keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "moved or removed" in t["what"]], "the trouble")
    os.rename(keeper.dumps_dir + ".old", keeper.dumps_dir)
    keeper.wait(lambda: keeper.status()["troubles"] == [], "its end")
