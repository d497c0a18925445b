"""The recorded history: history.jsonl, history.json, --history."""
import datetime
import json
import os
import signal
import time

import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import REFUSED, USAGE, unix
from wk.util import wait_for

pytestmark = pytest.mark.any_server

KINDS = {"state", "loss", "restore", "dump", "drill", "verify", "condition", "started", "stopped", "offsite", "rollup",
         "write-back", "day"}


def file_of(keeper):
    return os.path.join(keeper.dumps_dir, "history.jsonl")


def records(keeper, kind=None):
    """Returns the complete records of this kind, and asserts that every kind is a documented one."""
    try:
        with open(file_of(keeper), encoding="utf-8") as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]  # one may just be written
    except FileNotFoundError:
        return []
    assert all({"at", "kind"} <= set(r) and r["kind"] in KINDS for r in lines)
    return [r for r in lines if kind in (None, r["kind"])]


def published(keeper):
    with open(os.path.join(keeper.status_dir, "history.json"), encoding="utf-8") as f:
        text = f.read()
    assert len(text) <= 256 * 1024
    return json.loads(text)


@pytest.mark.quick
def test_loss_and_restore_are_remembered(doomed, victim):
    """The history has the states from the last UP to the next, the loss and the restore with its figures, and one incident of
    them."""
    keeper = doomed
    keeper.start()
    keeper.dump()
    victim.crash()
    keeper.wait(lambda: [r for r in records(keeper, "restore") if r["ok"]], "the restore in the history")
    keeper.wait(lambda: [i for i in published(keeper)["incidents"][-1:] if i["end"] and i["restored"]], "the incident")
    keeper.wait(lambda: [r["state"] for r in records(keeper, "state")][-1:] == ["UP"], "the end in the history")
    restore, status = records(keeper, "restore")[-1], keeper.expect("the restore", state="UP", last_restore=bool)["last_restore"]
    assert restore["lost"] == status["lost"] and "; " + restore["lost"] in keeper.ok("--history").out
    for key in ("dump", "rows", "seconds", "outage_seconds", "lost_seconds", "lost_seconds_max"):
        assert restore[key] == status[key] or abs(restore[key] - status[key]) < 1, key
    assert restore["automatic"] is True
    states = [r["state"] for r in records(keeper, "state") if r["changed"]]
    assert states[-3:] == ["LOST", "RESTORING", "UP"]
    assert records(keeper, "loss")[-1]["reason"] and unix(records(keeper, "loss")[-1]["alive_at"]) <= time.time()
    history = published(keeper)
    incident = history["incidents"][-1]
    assert incident["state"] == "RESTORING" and incident["restored"] and incident["rows"] == restore["rows"]
    assert incident["outage_seconds"] == restore["outage_seconds"] and incident["cause"]
    for name, length, most in (("five_minutes", 300, 288), ("hours", 3600, 336), ("days", 86400, 400)):
        assert 1 <= len(history[name]) <= most
        begins = [unix(b["at"]) for b in history[name]]
        assert all(b - a == length for a, b in zip(begins, begins[1:])) and begins[-1] % length == 0
        now = history[name][-1]
        assert sum(v for k, v in now.items() if k in
                   {"up", "paused", "suspect", "waiting", "lost", "restoring", "unknown"}) <= length * 1000
    for state in ("restoring", "up"):  # a new day may have begun
        assert sum(day[state] for day in history["days"]) > 0, (state, history["days"])
    assert history["last_restore"]["dump"] == restore["dump"]


def test_dumps_and_ends_are_remembered(keeper):
    """The history has dumps with their figures, a drill, a verify, and the supervisor's start and stop."""
    keeper.server.grant("keeper@localhost", "worldkeeper_drill_w1")
    keeper.start()
    dump = keeper.dump()
    keeper.ok("--drill")
    keeper.stop()
    keeper.ok("--verify")
    keeper.configure({"dump": {"method": "lock"}})
    locking = keeper.popen("--dump", fault="dump.locked=stop")
    held = wait_stopped(keeper, "dump.locked")
    time.sleep(.3)
    go_on(held)
    done = keeper.finish(locking)
    assert done.rc == 0, done
    kinds = [r["kind"] for r in records(keeper)]
    assert [kinds.count(k) for k in ("started", "stopped", "drill", "verify")] == [1, 1, 1, 1]
    assert kinds.index("started") < kinds.index("drill") < kinds.index("stopped") < kinds.index("verify")
    last, locked = records(keeper, "dump")[-2:]
    assert 300 <= locked["wait_ms"] < 1e6, locked
    assert last["dump"] == dump["name"] and last["ok"] and last["bytes"] == os.path.getsize(dump["path"])
    assert last["seconds"] >= 0 and last["wait_ms"] >= 0
    assert records(keeper, "drill")[-1]["ok"] and records(keeper, "verify")[-1]["damaged"] == 0


def test_time_without_a_supervisor_is_unknown(keeper):
    """After kill -9 the time until the next start counts as unknown."""
    keeper.start()
    keeper.wait(lambda: records(keeper, "state"), "the first start in the history")
    keeper.kill9()
    time.sleep(3)
    keeper.start()
    keeper.wait(lambda: len(records(keeper, "started")) == 2, "the second start")
    begun, again = records(keeper, "started")
    assert begun["watched_until"] is None and unix(again["watched_until"]) <= unix(again["at"])
    shown = keeper.ok("--history", "--json")
    gap = unix(again["at"]) - unix(again["watched_until"])
    lived = unix(shown["until"]) - unix(begun["at"]) + 1
    assert gap >= 2 and shown["states_ms"]["up"] <= (lived - gap + 1) * 1000 and shown["states_ms"]["unknown"] > 0


def test_history_on_the_terminal(keeper):
    """--history [--since] [--json] shows records and the time in state UP, without a supervisor as well."""
    keeper.start()
    keeper.stop()
    shown = keeper.ok("--history")
    assert "stopped" in shown.out and "UP" in shown.out and "up " in shown.out.splitlines()[-1]
    assert len(keeper.ok("--history", "--since", "7d", "--json")["records"]) == len(records(keeper))
    time.sleep(2.1)
    assert keeper.ok("--history", "--since", "-1s", "--json")["records"] == []
    for wrong in (["--history", "--since", "soon"], ["--history", "--since", "2999-01-01 00:00"], ["--list", "--since", "1d"]):
        done = keeper.run(*wrong)
        assert done.rc == USAGE, done


def test_each_kind_on_the_terminal(keeper):
    """--history prints each kind of record in its form, without empty parts or stray commas."""
    said = [({"kind": "offsite", "ok": True, "dump": "w1-000001", "bytes": 2048, "seconds": 0.5}, "w1-000001 stored, 2.0 KiB in 500 ms"),
            ({"kind": "offsite", "ok": False, "error": "full"}, "FAILED: full"),
            ({"kind": "rollup", "ledger": "xp", "rolled_up": 5, "late": 2, "seconds": 1.0}, "xp: 5 rows, 2 late in 1.0 s"),
            ({"kind": "rollup", "ok": False, "ledgers": [{"name": "xp", "rolled_up": 1}, {"name": "gold", "error": "no"}],
              "error": "no"}, "xp: 1 row; FAILED: no"),
            ({"kind": "rollup", "ok": True, "ledgers": [{"name": "xp", "rolled_up": 9}], "verify": True}, "compared; xp: 9 rows"),
            ({"kind": "write-back", "ok": True, "sent": 3, "set_aside": 0, "released": 1}, "3 sent, 1 released"),
            ({"kind": "write-back", "ok": False, "sent": None, "error": "away"}, "FAILED: away"),
            ({"kind": "drill", "ok": False, "dump": None, "seconds": 0.001, "error": "denied"}, "FAILED: denied"),
            ({"kind": "restore", "ok": True, "dump": "w1-000001", "only": "fleet", "rows": 3}, "w1-000001, only fleet: 3 rows")]
    at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    with open(file_of(keeper), "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"at": at, **record}) + "\n" for record, _ in said)
    lines = keeper.ok("--history").out.splitlines()[1:-1]
    assert {line[:22] for line in lines} == {at[:19] + "Z  "}, "the form of mails, pages and --at"
    shown = [line[22:] for line in lines]
    assert shown == [f"{record['kind']:10}  {text}" for record, text in said]


def test_what_was_refused_has_no_figures(keeper):
    """In the record of a refused restore or drill, the dump and its figures are null."""
    keeper.start()
    keeper.dump()
    assert keeper.run("--restore").rc == REFUSED
    keeper.run("--drill")  # the account lacks the privilege
    restore = keeper.wait(lambda: records(keeper, "restore"), "the refused restore")[-1]
    drill = keeper.wait(lambda: records(keeper, "drill"), "the refused drill")[-1]
    for record, keys in ((restore, ("dump", "rows", "generation", "conflict_rows")), (drill, ("dump", "rows"))):
        assert not record["ok"] and record["error"] and [record[k] for k in keys] == [None] * len(keys), record


@pytest.mark.parametrize("point", ["history.append", "history.appended", "history.thin", "history.thinned"])
def test_kills_leave_whole_lines(keeper, point):
    """After the disk writer and the supervisor were killed at a point, every record is a complete line, and at most one is
    repeated."""
    keeper.start(state=None, fault=f"{point}#3=killall,history.bytes=2000" if "thin" not in point
                 else f"{point}=killall,history.bytes=600")
    wait_for(lambda: keeper.run("--verify") and not keeper.alive(), "the point to be reached")
    wait_for(lambda: not keeper.pids(), "the workers to end as well: until then they hold the dump directory")
    keeper.process = None
    lines = records(keeper)
    keeper.start()
    keeper.wait(lambda: len(records(keeper, "started")) > len([r for r in lines if r["kind"] == "started"]) or
                records(keeper)[-1]["kind"] == "state", "the next start")
    texts = [json.dumps(r, sort_keys=True) for r in records(keeper)]
    assert sum(a == b for a, b in zip(texts, texts[1:])) <= 1


def at(days):
    then = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
    return then.strftime("%Y-%m-%dT%H:%M:%S.") + "000Z"


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "no status dir"])
def test_old_details_become_days(keeper, shown):
    """Old records are replaced by totals per day. A damaged line is lost alone, and records of another writer are kept."""
    lines = []
    for day in range(60, 0, -1):
        lines += [{"at": at(day + 0.5), "kind": "started"},
                  {"at": at(day + 0.49), "kind": "state", "state": "UP", "changed": True},
                  {"at": at(day + 0.48), "kind": "state", "state": "WAITING", "changed": True, "reason": "gone"},
                  {"at": at(day + 0.47), "kind": "state", "state": "UP", "changed": True},
                  {"at": at(day + 0.46), "kind": "stopped"}]
    with open(file_of(keeper), "w") as f:
        f.write("".join(json.dumps(r) + "\n" for r in lines[:100]) + "{\"torn\": \n" +
                "".join(json.dumps(r) + "\n" for r in lines[100:]))
    os.chmod(file_of(keeper), 0o600)
    os.chown(file_of(keeper), os.stat(keeper.dumps_dir).st_uid, -1)
    if not shown:  # each manual action writes a record and thereby checks the file
        keeper.configure({"status": {"dir": None}})
        keeper.start(state=None, fault="history.bytes=16000")
        wait_for(lambda: keeper.run("--pause") and keeper.run("--resume") and records_if_whole(keeper), "the thinned file")
        assert len(records(keeper, "stopped")) < 60
        return
    keeper.start(fault="history.bytes=16000")
    keeper.wait(lambda: records_if_whole(keeper), "the thinned file")
    keeper.wait(lambda: len([n for n in published(keeper)["incidents"] if n["cause"] == "gone"]) == 60, "all that was")
    history = published(keeper)
    assert len([d for d in history["days"] if d["up"]]) >= 59
    assert all(abs(n["outage_seconds"] - 864) < 2 for n in history["incidents"] if n["cause"] == "gone")
    assert len(records(keeper, "stopped")) < 60


def records_if_whole(keeper):
    try:
        return records(keeper, "day")
    except ValueError:
        return []


def test_full_disk_loses_nothing(small_disk, world, make_keeper):
    """While the dump directory's disk is full, records wait in memory; afterwards they are written in order."""
    path, seen, prefix = small_disk
    keeper = make_keeper(world, {"dump": {"dir": path}})
    keeper.dumps_dir, keeper.prefix = seen, prefix
    keeper.init().start()
    ballast = os.path.join(keeper.dumps_dir, "ballast")
    with open(ballast, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError:
            pass
    keeper.ok("--pause")
    keeper.ok("--resume")
    keeper.wait_state("UP")
    os.unlink(ballast)
    keeper.wait(lambda: [r["state"] for r in records(keeper, "state") if r["changed"]][-3:] ==
                ["PAUSED", "STARTING", "UP"], "the records that waited")


def test_the_clock_and_a_stopped_supervisor(keeper):
    """A supervisor that was stopped for a while records that time as unwatched."""
    keeper.start()
    keeper.process.send_signal(signal.SIGSTOP)
    time.sleep(7)
    keeper.process.send_signal(signal.SIGCONT)
    keeper.wait(lambda: [r for r in records(keeper, "state") if r.get("unwatched_ms", 0) > 5000], "the gap")


def test_an_unreadable_history_costs_only_itself(keeper):
    """If a directory is in the file's place, the supervisor works and logs the error once; the records are written later."""
    keeper.stop() if keeper.alive() else None
    if os.path.exists(file_of(keeper)):
        os.unlink(file_of(keeper))
    os.mkdir(file_of(keeper))
    keeper.start()
    keeper.wait_log("the history cannot be written")
    assert keeper.status()["state"] == "UP" and keeper.log().count("the history cannot be written") == 1
    os.rmdir(file_of(keeper))
    keeper.wait(lambda: records(keeper, "started"), "the records that waited")
    keeper.ok("--history")
