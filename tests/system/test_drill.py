"""Drills and verifies: what a drill proves about the dump, the journal and the live world, and that both run on a schedule."""
import json
import os
import re
import shlex
import signal
import subprocess

import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import NOT_WELL, ROOT, USER, signed
from wk.util import DIE_WITH_US, PATIENCE, end_process, wait_for

pytestmark = pytest.mark.either_server

LOG = ["--log-bin=log", "--binlog-format=ROW"]


def last_ones(keeper, kind):
    """Returns what status.json, history.json and the page say of the last drill or verify, once the history of the newest record
    is published: None, or whether it passed."""
    with open(os.path.join(keeper.dumps_dir, "history.jsonl"), encoding="utf-8") as f:
        newest = [r["at"] for r in map(json.loads, f) if r["kind"] == kind][-1]
    keeper.wait(lambda: json.loads(keeper.published("history.json"))["updated"] > newest, "the history with it")
    status, history = (json.loads(keeper.published(name))["last_" + kind] for name in ("status.json", "history.json"))
    page = re.search(rf"Last {kind}</dt><dd>([^<]*)", keeper.published("status.html"))
    return [said and said["ok"] for said in (status, history)] + (
        [{"none": None, "pass": True, "FAIL": False}[page.group(1)[:4]]] if page else [])


@pytest.fixture
def logged(make_world, make_keeper, make_server):
    keeper = make_keeper(make_world("small", make_server(*LOG))).init()
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    return keeper


def schemas(keeper):
    return [s for (s,) in keeper.server.sql("SHOW DATABASES") if "drill" in s]


@pytest.mark.quick
def test_newest_dump_with_its_journal(logged):
    """A drill restores the newest dump and its journal and compares them with the live world table by table. A difference counts
    only if the log shows no change of that table."""
    keeper, world = logged, logged.world
    keeper.dump()
    world.sql("UPDATE player SET points=points+1 WHERE id%3=0", "DELETE FROM player WHERE id%7=0",
              "INSERT INTO player (nick,points) VALUES ('new',1)", "UPDATE fleet SET x=NULL")
    rows = sum(world.value(f"SELECT COUNT(*) FROM {t}") for (t,) in world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND engine='MEMORY' "
        "AND table_name NOT LIKE 'worldkeeper%'"))
    drill = keeper.ok("--drill", "--json")
    assert drill["journal"]["used"] and drill["journal"]["whole"] and drill["journal"]["changes"] > 3
    assert drill["rows"] and drill["live"] == {"same": drill["tables"], "moved": 0}, (drill, rows)
    assert "with the same rows, 0 that changed meanwhile" in keeper.ok("--drill").out
    world.sql("SET sql_log_bin=0", "UPDATE player SET points=points+1 WHERE id=1")
    done = keeper.run("--drill")
    assert done.rc == 1 and "table player: rebuilt from dump and journal" in done.err + done.out, done
    assert "was not changed meanwhile" in done.err + done.out, done
    keeper.dump()
    assert keeper.ok("--drill", "--json")["live"]["moved"] == 0
    assert schemas(keeper) == []
    named = keeper.ok("--drill=" + keeper.dumps()[0]["name"], "--json")  # a drill of a named dump restores it without the journal
    assert "live" not in named and "journal" not in named


def test_what_cannot_be_read_is_not_called_changed(logged):
    """A table that is locked or cannot be read beside the game is counted as unread, not as changed."""
    keeper, world = logged, logged.world
    if not keeper.server.mysql:
        world.sql("CREATE TABLE past (id INT PRIMARY KEY) ENGINE=MEMORY WITH SYSTEM VERSIONING", "INSERT INTO past VALUES (1)")
    keeper.dump()
    game = keeper.server.admin(world.schema)
    game.query("LOCK TABLES player WRITE")
    unread = 1 + (not keeper.server.mysql)
    assert f"with the same rows, 0 that changed meanwhile, {unread} that could not be read" in keeper.ok("--drill").out
    game.close()


def test_a_restore_does_not_wait_for_who_looks_at_a_drill(logged):
    """If the schema of an interrupted drill is locked by another session, a restore does not wait for it and reports that it
    cannot be dropped."""
    keeper = logged
    keeper.dump()
    keeper.server.sql("CREATE DATABASE worldkeeper_drill_w1", "CREATE TABLE worldkeeper_drill_w1.t (a INT)")
    looks = keeper.server.admin()
    looks.query("LOCK TABLES worldkeeper_drill_w1.t READ")
    done = keeper.ok("--restore", "--force")
    assert "cannot drop unused schema worldkeeper_drill_w1" in done.out + done.err, done
    looks.close()


def test_what_is_left_over_goes_though_its_session_hangs(logged):
    """A session of a dead machine may still hold the lock of its scratch schema. A restore drops the schema anyway, because it
    occupies memory that the world needs."""
    keeper = logged
    keeper.dump()
    for left in ("worldkeeper_drill_w1", "worldkeeper_warm_w1"):
        keeper.server.grant(USER + "@localhost", left)
        keeper.server.sql(f"CREATE DATABASE {left}", f"CREATE TABLE {left}.t (a INT) ENGINE=MEMORY")
        hangs = keeper.server.admin()
        hangs.query(f"SELECT GET_LOCK(CONCAT('worldkeeper.',LEFT(SHA2('{left}',256),32)),0)")
        done = keeper.ok("--restore", "--force")
        assert "cannot drop" not in done.out + done.err and not keeper.server.sql(f"SHOW DATABASES LIKE '{left}'"), done
        hangs.close()


def test_a_dump_that_retention_removes_is_not_damaged(logged):
    """A dump that is deleted during a verify is not reported; a dump of which only the data file is missing is reported."""
    keeper = logged
    names = [keeper.dump()["name"] for _ in range(3)]
    for gone, rc in ((("json", "sql.gz"), 0), (("sql.gz",), 6)):
        name = names.pop()
        verify = keeper.popen("--verify", "--json", fault="verify.listed=stop")
        wait_stopped(keeper, "verify.listed")
        for ending in gone:
            os.unlink(os.path.join(keeper.dumps_dir, f"{name}.{ending}"))
        verify.send_signal(signal.SIGCONT)
        out, _ = verify.communicate(timeout=PATIENCE)
        assert verify.returncode == rc and (name in out) == (rc != 0), out


# -- scheduled -----------------------------------------------------------------------------------

ANY_LOAD = {"max_load": "100000%"}
DAILY = {"drill": {"interval": "1d", **ANY_LOAD}, "verify": {"interval": "1d", **ANY_LOAD}}


def state_file(keeper):
    with open(os.path.join(keeper.dumps_dir, "state.json"), encoding="utf-8") as f:
        return f.read()


def told(keeper, kind):
    """Returns the records of this kind from the history."""
    return [r for r in keeper.ok("--history", "--json")["records"] if r["kind"] == kind]


def last(keeper, kind, good=lambda r: True):
    """Waits for a result of this kind and returns it."""
    def there():
        r = keeper.status().get("last_" + kind)
        return r if r and good(r) else None
    return keeper.wait(there, f"a {kind} by the clock")


def test_once_a_day_whoever_starts_again(logged):
    """The first drill and verify run at once, the next ones a day later, also after kill -9; status, history and metrics show
    result and time."""
    keeper = logged
    keeper.configure({**DAILY, "status": {"metrics": "w1.prom"}})
    keeper.start()
    drill, verify = last(keeper, "drill"), last(keeper, "verify")
    assert drill["ok"] and drill["automatic"] and drill["rows"] and drill["dump"] in [d["name"] for d in keeper.dumps()]
    assert verify["ok"] and verify["whole"] >= 1 and verify["damaged"] == 0
    keeper.wait(lambda: told(keeper, "drill") and told(keeper, "verify"), "their records")
    keeper.wait(lambda: schemas(keeper) == [], "nothing left")
    keeper.wait(lambda: all(r["at"] in state_file(keeper) for r in (drill, verify)), "the state on the disk")
    keeper.kill9()
    keeper.start()
    for kind in ("drill", "verify"):
        due = keeper.wait(lambda k=kind: keeper.status().get("next_" + k), "when the next is due")
        assert 86000 < due["in_seconds"] <= 86400 and not due["running"] and due["held"] is None, due
        assert last(keeper, kind)["at"] == {"drill": drill, "verify": verify}[kind]["at"]
        assert len(told(keeper, kind)) == 1
    with open(os.path.join(keeper.status_dir, "w1.prom"), encoding="utf-8") as f:
        metrics = f.read()
    assert "last_drill_success{" in metrics and "last_verify_damaged_dumps{" in metrics, metrics
    out = keeper.ok("--status").out
    assert "drill" in out and "passed" in out and "next in" in out, out


def test_a_drill_that_fails_is_told_and_its_end(logged, http):
    """An alert names the table of a failed drill. After a new dump the next drill passes, which is reported too."""
    keeper, world = logged, logged.world
    keeper.configure({"drill": {"interval": "1s", **ANY_LOAD}, **http.settings()})
    keeper.start()
    last(keeper, "drill")
    world.sql("SET sql_log_bin=0", "UPDATE player SET points=points+1 WHERE id=1")
    news = http.wait_event("drill")[0]
    assert news["kind"] == "new" and "table player" in news["what"] and "--dump" in news["todo"], news
    failed = last(keeper, "drill", lambda r: not r["ok"])
    assert "table player" in failed["error"] and failed["rows"] is None, failed
    keeper.dump()
    keeper.wait(lambda: [m["kind"] for m in http.wait_event("drill")][-1] == "recovered", "its end")
    assert last(keeper, "drill", lambda r: r["ok"])


def test_a_failure_that_an_earlier_supervisor_told_ends_with_a_drill_by_hand(logged, http):
    """Drills are removed from the config after one failed. The incident stays open until a manual drill passes."""
    keeper, world = logged, logged.world
    keeper.configure({"drill": {"interval": "1d", **ANY_LOAD}, **http.settings()})
    keeper.dump()
    world.sql("SET sql_log_bin=0", "UPDATE player SET points=points+1 WHERE id=1")
    keeper.start()
    http.wait_event("drill")
    keeper.stop()
    keeper.configure({"drill": {"interval": "0s"}})
    keeper.start()
    keeper.dump()
    keeper.ok("--drill")
    # The failure may be sent once more: the first supervisor may have ended before it noted that it was delivered.
    keeper.wait(lambda: [m for m in http.wait_event("drill") if m["kind"] == "recovered"], "its end")
    assert [m["what"] for m in http.wait_event("drill") if m["kind"] == "recovered"] == ["the last drill passed"]


@pytest.mark.parametrize("who", ["loss", "hand"])
def test_a_restore_does_not_wait(logged, who):
    """A scheduled drill is killed if the world has to be restored, and its schema is dropped."""
    keeper, world = logged, logged.world
    keeper.configure({"drill": {"interval": "1d", **ANY_LOAD}})
    keeper.start(fault="drill.loaded=stop")
    wait_stopped(keeper, "drill.loaded")
    assert schemas(keeper)
    before = world.snapshot()
    if who == "loss":
        keeper.server.kill9()
        keeper.server.process = None
        keeper.server.start()
    else:
        keeper.ok("--restore", "--force")
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("ok") and keeper.state() == "UP", "the world")
    world.assert_is(before)
    keeper.wait(lambda: schemas(keeper) == [], "the scratch schema to be dropped")
    assert keeper.status()["last_drill"] is None  # an interrupted drill says nothing about dump or journal


def test_a_verify_that_dies_counts_no_dumps(logged):
    keeper = logged
    keeper.configure({"verify": DAILY["verify"], "status": {"metrics": "w1.prom"}})
    keeper.start(fault="verify.listed=kill")
    verify = last(keeper, "verify")
    assert not verify["ok"] and verify["whole"] is None and verify["damaged"] is None, verify
    keeper.wait(lambda: "the worker of the verify died" in keeper.ok("--history").out, "its record")
    keeper.wait(lambda: keeper.status()["troubles"], "the condition")
    keeper.configure({"verify": {"interval": "0"}})  # no later verify could end the condition
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: not keeper.status()["troubles"], "the condition's end")
    assert "verifies are no longer scheduled" in keeper.log() and "the last verify passed" not in keeper.log()


def test_a_verify_that_never_ends(logged):
    """A verify that hangs is reported when the next ones are overdue, and the condition ends with the next good verify."""
    keeper = logged
    keeper.configure({"verify": DAILY["verify"]})
    keeper.dump()
    keeper.start(fault="verify.listed#1=stop", **keeper.shim(clock=keeper.clock))
    hangs = wait_stopped(keeper, "verify.listed")
    keeper.set_clock(3 * 86400)
    keeper.expect("it is reported", troubles=lambda t: any("no verify has begun for 3d: the last one has not ended" in x["what"]
                                                           for x in t))
    go_on(hangs)
    go_on(wait_stopped(keeper, "verify.listed"))  # that of the next worker
    keeper.expect("it is over", troubles=lambda t: not any("verify" in x["what"] for x in t))


def test_a_gap_does_not_wait_for_a_drill(logged):
    """A drill is ended if a gap needs a dump, because changes after a gap are lost with the server until a dump is stored."""
    keeper, world = logged, logged.world
    keeper.configure({"drill": {"interval": "1d", **ANY_LOAD}})
    keeper.start(fault="drill.loaded=stop")
    wait_stopped(keeper, "drill.loaded")
    before = keeper.dumps()[0]["name"]
    world.sql("ALTER TABLE player ADD later INT")
    keeper.wait(lambda: keeper.dumps()[0]["name"] != before, "a dump for the gap")
    assert keeper.status()["last_drill"] is None


def test_no_drill_while_the_machine_is_busy(logged):
    """A drill waits while the machine is busy, and the status gives the reason; a reload with a higher limit lets it begin."""
    keeper = logged
    keeper.configure({"drill": {"interval": "1d", "max_load": "1%"}})
    busy = [subprocess.Popen([*DIE_WITH_US, "nice", "sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        wait_for(lambda: os.getloadavg()[0] > .02 * os.cpu_count(), "the load")
        keeper.start()
        keeper.wait(lambda: re.fullmatch("the machine is busy: load .*, max_load 1%", str(keeper.status()["next_drill"]["held"])),
                    "what it waits for")
        keeper.configure({"drill": ANY_LOAD})
        keeper.process.send_signal(signal.SIGHUP)
        assert last(keeper, "drill")["ok"]
    finally:
        for process in busy:
            end_process(process)


@pytest.mark.needs("root", "mount")
@pytest.mark.parametrize("proc", ["unit", "hidden"])
def test_no_drill_without_memory(logged, proc):
    """A drill waits if the machine lacks memory for a second world, and if the available memory is unknown because /proc hides
    it. The unit does not hide it."""
    keeper = logged
    with open(os.path.join(ROOT, "systemd/worldkeeper@.service"), encoding="utf-8") as f:
        subset = re.findall(r"^ProcSubset=(.*)$", f.read(), re.M) if proc == "unit" else ["pid"]
    options = [f"-osubset={s}" for s in subset if s != "all"]
    dump = keeper.dump()
    path = os.path.join(keeper.dumps_dir, dump["name"] + ".json")
    with open(path, encoding="utf-8") as f:
        manifest = json.load(f)
    next(t for t in manifest["tables"] if t["engine"] == "MEMORY")["data_length"] = 1 << 60
    with open(path, "w", encoding="utf-8") as f:
        json.dump(signed(manifest), f)
    keeper.configure({"drill": {"interval": "1d", **ANY_LOAD}})
    keeper.prefix = ["unshare", "-m", "sh", "-c", f'mount -t proc {shlex.join(options)} proc /proc && exec "$@"', "sh"]
    keeper.start()
    held = keeper.wait(lambda: keeper.status()["next_drill"]["held"], "what it waits for")
    assert re.fullmatch("not enough memory for a second world: .* available, but the world needs .*" if proc == "unit" else
                        "it is unknown how much memory is available: .*/proc/meminfo.*", held), held
    assert keeper.status()["last_drill"] is None


def test_what_does_not_count_hides_nothing(logged):
    """A drill or a verify of a dump given by name is not the last one, wherever that is shown: in the status, in the history
    and on the page. It does not hide the failure of the one before."""
    keeper = logged
    keeper.configure({"status": {"page": "yes"}})
    old, new = keeper.dump(), keeper.dump()
    keeper.start()
    keeper.ok("--drill=" + old["name"])
    assert last_ones(keeper, "drill") == [None] * 3
    keeper.ok("--drill")
    keeper.wait(lambda: last_ones(keeper, "drill") == [True] * 3, "the drill that counts")
    with open(new["path"], "r+b") as f:
        f.seek(200)
        f.write(b"\0" * 50)
    assert keeper.run("--verify").rc == NOT_WELL
    keeper.wait(lambda: last_ones(keeper, "verify")[1] is False, "the failure")
    keeper.ok("--verify=" + old["name"])
    assert last_ones(keeper, "verify")[1] is False
