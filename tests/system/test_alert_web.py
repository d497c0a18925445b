"""Alerts by webhook; the queue, grouping, reminders, and the heartbeat."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
from wk.follow import crash
from wk.keeper import IMPATIENT, signed
from wk.sinks import HOST, PATIENT
from wk.watch import Lateness

pytestmark = pytest.mark.any_server

KEYS = {"event", "kind", "world", "host", "at", "what", "doing", "todo"}


def queue(keeper):
    path = os.path.join(keeper.dumps_dir, "alerts")
    return sorted(f for f in os.listdir(path) if f.endswith(".json")) if os.path.isdir(path) else []


@pytest.fixture
def told(doomed, http):
    """Returns a supervised world that has a dump and a webhook."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.http = http
    return doomed


@pytest.mark.quick
def test_generic_json(told, victim, http):
    """Each message is one JSON object with event, kind, world, host, time, what, doing and todo, and has its own id."""
    told.start()
    victim.kill9()
    message = http.wait_event("down")[0]
    assert KEYS <= set(message) and message["world"] == "w1" and message["kind"] == "new"
    posts = [r for r in http.requests if r.method == "POST"]
    assert all(r.headers["Content-Type"].startswith("application/json") for r in posts)
    assert len({r.json.get("id") for r in posts}) == len(posts)


def test_what_to_type_names_the_world(told, victim, http):
    """The commands in an alert and in the log contain the path of the config, so that they can be pasted."""
    told.configure({"restore": {"auto": "no"}})
    told.start()
    victim.crash()
    todo = http.wait_event("waiting")[0]["todo"]
    typed = re.findall(r"worldkeeper --config (\S+) --(\w+)", todo)
    assert typed == [(told.config_path, action) for action in ("list", "restore")], todo
    told.wait_log("HINT: " + todo)


@pytest.mark.parametrize("format, key, limit", [("slack", "text", 40000), ("discord", "content", 2000)])
def test_chat_formats(told, victim, http, format, key, limit):
    """Slack and Discord each get readable text under their own key, within their length limit."""
    told.configure({"alert.webhook": {"format": format}})
    told.start()
    victim.kill9()
    told.wait(lambda: [r for r in http.requests if "UNREACHABLE" in r.json.get(key, "")
                       or "down" in r.json.get(key, "").lower()], "the message")
    for request in http.requests:
        assert 0 < len(request.json[key]) <= limit and "w1" in request.json[key]


def test_chat_text_pings_nobody(make_world, make_keeper, http):
    """A name from the database cannot mention a whole channel."""
    world = make_world()
    name = "@everyone <!channel> & \"q\" \\ `x"
    quoted = "`" + name.replace("`", "``") + "`"
    world.sql(f"CREATE TABLE {quoted} (id INT) ENGINE=MEMORY",
              f"INSERT INTO {quoted} SELECT seq FROM seq_1_to_100")
    keeper = make_keeper(world, {"dump": {"shrink_action": "reject"}, **http.settings(format="discord")}).init()
    keeper.dump()
    world.sql(f"DELETE FROM {quoted}")
    keeper.start()
    keeper.run("--dump")
    keeper.wait(lambda: [r for r in http.requests if "everyone" in r.json["content"]], "the message")
    for request in http.requests:
        body = request.json
        assert body.get("allowed_mentions", {}).get("parse") == [] or "@everyone" not in body["content"]


def test_test_alert_names_the_answer(told, http):
    """--test-alert prints what each channel answered, and fails if a channel failed."""
    assert "200" in repr(told.ok("--test-alert"))
    http.mode = 500
    done = told.run("--test-alert")
    assert done.rc == 1 and "500" in done.out + done.err, done
    http.mode = "redirect"
    assert "  HINT: write the final address into the config\n" in told.run("--test-alert").out


def test_test_alert_without_channels_says_so(keeper):
    """--test-alert fails if no channel is configured, because no alert would reach anyone."""
    done = keeper.run("--test-alert")
    assert done.rc != 0, done


@pytest.mark.parametrize("mode", [500, 429, "redirect", "slow", "dead"])
def test_a_failing_webhook_loses_nothing(told, victim, http, mode):
    """If the webhook answers 500 or 429, redirects forever, hangs or is closed, the message stays queued on disk and is sent once
    the webhook works again. The supervisor's loop does not wait for it."""
    told.configure({"alert.webhook": {"timeout": "2s"}})
    if mode == "dead":
        http.stop()
    else:
        http.mode, http.headers = mode, {"Retry_After": "1"}
    with Lateness() as lateness:
        told.start()
        victim.kill9()
        told.wait(lambda: told.status()["alerts"]["channels"]["webhook"]["last_error"],
                  "an error of the channel")
        told.wait(lambda: queue(told), "a queued alert")
        lateness.assert_quick(told)
    if mode == "redirect":
        assert not [r for r in http.requests if r.path != "/hook"] and http.served < 60
    http.mode = "ok"
    if mode == "dead":
        http.start()
    http.wait_event("down")
    told.wait(lambda: not queue(told), "the queue to be empty")


@pytest.fixture
def piled(keeper, http):
    """Returns a supervised world with six alerts that its webhook, which takes each in its own request, refuses until http.judge
    is replaced. http.ids() returns the ids of the accepted ones, in order."""
    keeper.configure(http.settings(body='{"id":"{id}","state":"{state}"}'))
    http.judge = lambda r: 503
    http.ids = lambda: [r.json["id"] for r in http.requests]
    keeper.start(fault="alert.extra=1000")
    for n in range(5):
        keeper.write(open(keeper.config_path, encoding="utf-8").read() + "[nonsense]\nx = 1\n")
        keeper.process.send_signal(signal.SIGHUP)
        keeper.wait(lambda n=n: keeper.log().count("reload refused") > n, "a refused reload")
    keeper.configure({})
    keeper.wait(lambda: len(stored(keeper)) == 6, "six alerts in the queue")
    return keeper


def stored(keeper):
    """Returns the ids of the alerts on the disk, oldest first."""
    found = []
    for name in queue(keeper):
        try:
            with open(os.path.join(keeper.dumps_dir, "alerts", name), encoding="utf-8") as f:
                found.append(json.load(f)["id"])
        except FileNotFoundError:  # delivered meanwhile
            pass
    return found


def test_a_rate_limit_repeats_nothing(piled, http):
    """If a service accepts only a few requests in a row, the next attempt begins with the first alert that was refused, also after
    the supervisor was killed. Each alert arrives once, in order."""
    ids, room, more = stored(piled), [2], [0]

    def limited(r):
        if room[0]:
            room[0] -= 1
            return 200
        room[0] = more[0]
        return 429
    http.judge = limited
    piled.wait(lambda: stored(piled) == ids[2:], "the first two to be recorded")
    piled.kill9()
    more[0] = 2
    piled.start()
    piled.expect("nothing waits", alerts=lambda a: a["waiting"] == 0)
    assert http.ids()[:6] == ids and len(set(http.ids())) == len(http.ids()), (ids, http.ids())


def test_a_slow_service_gets_all_alerts(piled, http):
    """A delivery of several alerts may take longer than the timeout if each request takes less."""
    ids = stored(piled)
    piled.reload({"alert.webhook": {"timeout": "4s"}})

    def slow(r):
        time.sleep(1.2)
        return 200
    http.judge = slow
    piled.expect("nothing waits", alerts=lambda a: a["waiting"] == 0)
    assert "its worker does not end" not in piled.log() and list(dict.fromkeys(http.ids()))[:6] == ids, (http.ids(), piled.log())


def test_a_request_that_hangs_repeats_no_other(piled, http):
    """If the worker of a delivery hangs, it is killed. The alerts that it delivered before are not sent again; the one that it was
    sending is, with the same id."""
    ids, stopped = stored(piled), []
    piled.reload({"alert.webhook": {"timeout": "4s"}})

    def hangs(r):
        if r.json["id"] == ids[2] and not stopped:
            stopped.append(piled.worker("webhook"))
            os.kill(stopped[0], signal.SIGSTOP)
        return 200
    http.judge = hangs
    piled.wait_log("its worker does not end and was killed")
    piled.expect("nothing waits", alerts=lambda a: a["waiting"] == 0)
    assert http.ids()[:7] == ids[:3] + ids[2:], (ids, http.ids())


def test_several_webhooks(told, victim, http):
    """Each webhook has its own queue: one that fails neither delays another nor repeats its messages, across a restart, a reload
    and a change of their order. Status, check and metrics name the webhook."""
    def of(path):
        return [e for r in http.requests if r.path == path
                for e in r.json.get("alerts", [r.json])]

    def channels():
        return told.status()["alerts"]["channels"]
    base = f"http://{HOST}:{http.port}"
    http.judge = lambda r: 503 if r.path == "/ops" else 200
    told.configure({"alert.webhook.ops": {"url": base + "/ops"}, "alert.webhook.b-2": {"url": base + "/b", "format": "slack"},
                    "status": {"metrics": "metrics"}})
    told.start()
    victim.kill9()
    told.wait(lambda: [e for e in of("/hook") if e["event"] == "down"], "DOWN at the one that works")
    told.wait(lambda: any("DOWN" in e["text"] for e in of("/b")), "DOWN at the third")
    told.wait(lambda: channels()["webhook.ops"]["last_error"], "the error of the second")
    told.wait(lambda: channels()["webhook"]["waiting"] == 0, "nothing to wait at the first")
    assert not channels()["webhook"]["last_error"] and channels()["webhook.ops"]["waiting"] and not of("/ops")
    shown = told.run("--status").out
    assert re.search(r"webhook\.ops: \d+ waiting: .*503", shown) and "webhook:" not in shown, shown

    def metrics():
        with open(os.path.join(told.status_dir, "metrics"), encoding="utf-8") as f:
            return f.read()
    told.wait(lambda: 'alert_channel_up{world="w1",channel="webhook.ops"} 0' in metrics(), "the metric")
    told.stop()
    done = told.run("--test-alert", "--json").result["channels"]
    assert {c["channel"]: c["ok"] for c in done} == {"webhook": True, "webhook.ops": False, "webhook.b-2": True}
    found = {c["name"]: c for c in told.run("--check", "--json").result["checks"]}
    assert found["alert webhook"]["level"] == found["alert webhook.b-2"]["level"] == "ok"
    assert "alerts wait" in found["alert webhook.ops"]["text"]
    first, told.settings["alert.webhook"] = told.settings.pop("alert.webhook"), {}  # now the last in the file
    told.settings["alert.webhook"] = first
    victim.start()
    told.start()
    told.wait_state("UP")
    told.reload({"alert.webhook.b-2": {"url": None, "format": None}, "alert.webhook.c": {"url": base + "/c"}})
    http.judge = lambda r: 200
    victim.kill9()
    told.wait(lambda: [e for e in of("/c") if e["event"] == "down"], "DOWN at the new one")
    victim.start()
    told.wait_state("UP")
    told.expect("nothing waits", alerts=lambda a: a["waiting"] == 0)
    told.wait(lambda: not queue(told), "the queue to be empty")
    told.stop()
    ids = {path: [e["id"] for e in of(path) if e["event"] != "test"] for path in ("/hook", "/ops")}
    assert sorted(ids["/hook"]) == sorted(ids["/ops"]) and len(set(ids["/ops"])) == len(ids["/ops"]), ids
    assert {"down", "restored"} <= {e["event"] for e in of("/ops")}
    marks = {f for f in os.listdir(os.path.join(told.dumps_dir, "alerts")) if f.endswith(".done")}
    assert {"webhook.done", "webhook.ops.done"} <= marks and "webhook.b-2.done" not in marks


def test_an_endless_answer_harms_nobody(told, victim, http):
    """If a webhook answers 200 and then sends data without end, its message counts as delivered, the loop does not wait, and the
    next message is sent."""
    told.configure({"alert.webhook": {"timeout": "2s"}})
    http.mode = "huge"
    with Lateness() as lateness:
        told.start()
        http.wait_event("started")
        victim.kill9()
        http.wait_event("down")
        lateness.assert_quick(told)


def test_queued_alerts_survive_the_supervisor_in_order(told, victim, http):
    """Queued alerts are delivered by the next supervisor, oldest first."""
    http.stop()
    told.start()
    crash(told)
    told.expect("queued alerts", alerts=lambda alerts: alerts["waiting"] >= 2)
    told.stop()
    waiting = len(queue(told))
    assert waiting >= 2
    http.start()
    told.start()
    http.wait_event("restored")
    events = http.events()
    order = [events.index(e) for e in ("down", "restoring", "restored") if e in events]
    assert order == sorted(order) and "restored" in events
    told.wait(lambda: not queue(told), "the queue to be empty")


def test_a_burst_is_folded(told, victim, http):
    """The alerts of a server that crashes repeatedly are combined into fewer messages, and none is lost."""
    http.stop()
    told.start()
    for _ in range(4):
        crash(told)
    alerts = len(queue(told))
    assert alerts >= 5
    http.start()
    told.wait(lambda: not queue(told), "the queue to be empty")
    posts = [r for r in http.requests if r.method == "POST"]
    assert len(http.messages()) >= alerts and len(posts) < alerts


def test_on_change_only_with_reminders(told, victim, http):
    """A lasting problem is reported once, then repeated every [alert] repeat."""
    told.configure({"alert": {"repeat": "2s"}})
    told.start()
    victim.kill9()
    told.wait(lambda: len([m for m in http.messages() if m["kind"] == "reminder"]) >= 2, "reminders")
    assert len([m for m in http.messages() if m["event"] == "down" and m["kind"] == "new"]) == 1


def test_only_chosen_events(told, victim, http):
    """Only the events in [alert] events are sent."""
    told.configure({"alert": {"events": "restored"}})
    told.start()
    victim.crash()
    http.wait_event("restored")
    assert set(http.events()) == {"restored"}


def test_a_start_is_told(told, http):
    """A supervisor reports its start, so that a restart loop is noticed."""
    told.start()
    http.wait_event("started")


def test_no_good_dump_for_too_long(told, http):
    """If the newest dump is older than max_dump_age, an alert says so; its end is reported after the next dump."""
    told.configure({"alert": {"max_dump_age": "1h"}, "dump": {"interval": "1d"}})
    manifest = told.newest()
    old = signed({**manifest, "at_unix": manifest["at_unix"] - 7200})
    with open(told.path(manifest).replace(".sql.gz", ".json"), "w", encoding="utf-8") as f:
        json.dump(old, f)
    told.start()
    message = http.wait_event("stale")[0]
    assert manifest["name"] in str(message) or "dump" in message["what"], message
    told.dump()
    told.wait(lambda: [m for m in http.messages() if m["event"] == "stale"
                       and m["kind"] == "recovered"], "the message that it is over")


def test_a_pause_without_an_end(told, http):
    """A pause without an end is reported after max_pause, also after a restart of the supervisor. Giving it an end later ends the
    incident."""
    told.configure({"alert": {"max_pause": "2s"}})
    told.start()
    told.ok("--pause=1h")
    told.ok("--pause")
    message = http.wait_event("pause")[0]
    assert message["kind"] == "new" and "2.0 s" in message["what"] and "--resume" in message["todo"]
    told.wait(lambda: [t["what"] for t in told.status()["troubles"]] == [message["what"]], "the status to say it")
    shown = told.run("--status").out.splitlines()  # the way out is below it, each command alone on its line
    at = next(i for i, line in enumerate(shown) if line.startswith("condition"))
    assert [line.split("worldkeeper ")[-1].split()[-1] for line in shown[at:] if line.strip().startswith("worldkeeper ")] == [
        "--resume", "--pause=2h"], shown
    assert {c["command"].split()[-1] for c in told.status()["troubles"][0]["commands"]} == {"--resume", "--pause=2h"}
    told.stop()
    told.start("PAUSED")
    told.wait(lambda: http.events().count("pause") == 2, "the message of the next supervisor")
    told.ok("--pause=1h")
    told.wait(lambda: [m for m in http.messages() if (m["event"], m["kind"]) == ("pause", "recovered")],
              "the message that it is over")
    told.wait(lambda: told.status()["troubles"] == [], "the status to say so")
    assert told.state() == "PAUSED"


def test_disk_low(told, http):
    """An alert is sent when less disk space is left than [alert] disk_low."""
    told.configure({"alert": {"disk_low": "1000000GiB"}})
    told.start()
    message = http.wait_event("disk")[0]
    assert "left" in message["what"] and "room" in message["todo"]


def test_heartbeat_after_dumps_and_in_health_only(make_world, make_keeper, victim, http):
    """The heartbeat URL is fetched while the world is well and after dumps, and not while it is not, so that a monitor notices a
    dead host. The start and failure URLs are fetched at a start and a failure."""
    keeper = make_keeper(make_world(on=victim), {"heartbeat": {
        "url": f"http://{HOST}:{http.port}/beat/?key=1", "start": "/start", "failure": "/fail", "timeout": PATIENT},
        **IMPATIENT}).init()
    keeper.start()

    def beats(end="/"):
        return [r for r in http.requests if r.path == f"/beat{end}?key=1"]
    keeper.wait(beats, "a heartbeat")
    assert beats("/start") and http.requests[0].path.startswith("/beat/start")
    assert not [r for r in beats() if r.body]
    n = len(beats())
    keeper.dump()
    keeper.wait(lambda: len(beats()) > n, "a heartbeat after a dump")
    victim.sigstop()
    keeper.wait_state("SUSPECT", "WAITING")
    keeper.wait(lambda: not keeper.worker("heartbeat"), "the one that may have been on its way")
    n = len(beats())
    for _ in range(2):
        seen = keeper.status()["updated"]
        keeper.wait(lambda seen=seen: keeper.status().get("updated") != seen, "some time")
    assert len(beats()) == n
    victim.kill9()
    victim.process = None
    keeper.wait_state("WAITING")
    keeper.wait(lambda: beats("/fail"), "the failure")
    victim.start()
    keeper.wait_state("UP")
    keeper.wait(lambda: len(beats()) > n, "a heartbeat again")
    assert len(beats("/fail")) <= 2 and len(beats("/start")) <= 2  # one may have been answered too late


def test_heartbeat_at_most_once_a_minute(keeper, http):
    """In health the heartbeat comes by the minute, not by the probe."""
    keeper.configure({"heartbeat": {"url": f"http://{HOST}:{http.port}/beat", "timeout": PATIENT}})
    began = time.monotonic()
    keeper.start()
    keeper.wait(lambda: http.requests, "a heartbeat after the first dump")
    keeper.probes_pass("A", 8)
    beats, minutes = len(http.requests), (time.monotonic() - began) // 60
    assert beats <= 2 + minutes, [r.path for r in http.requests]


def test_what_an_earlier_supervisor_told_is_over(told, http):
    """Incidents of features that the config no longer enables are reported as recovered, each once."""
    told.configure({"journal": {"mode": "off"}, "drill": {"interval": "0s"}, "verify": {"interval": "0s"}})
    names = ["journal", "journal_gap", "journal_lag", "drill", "verify", "ledger", "ledger_slow", "ledger_late", "ledger_ids",
             "lease", "offsite", "offsite_late", "progress_central", "progress_stolen", "standby", "standby_cold",
             "standby_tables"]
    path = os.path.join(told.dumps_dir, "alerts", "incidents")
    os.mkdir(os.path.dirname(path), 0o700)
    os.chown(os.path.dirname(path), os.stat(told.dumps_dir).st_uid, -1)
    with open(path, "w", encoding="ascii") as f:
        json.dump({name: {"id": f"{n:04x}", "event": 1, "world": "w1"} for n, name in enumerate(names)}, f)
    os.chmod(path, 0o600)
    os.chown(path, os.stat(told.dumps_dir).st_uid, -1)
    told.start()

    def over():
        return sorted(m["incident"] for m in http.messages() if m["kind"] == "recovered")
    told.wait(lambda: len(over()) >= len(names), lambda: f"their ends, not {http.messages()}")
    told.wait(lambda: set(json.loads(open(path, encoding="ascii").read())) <= {"format"}, "none that is open")
    assert over() == [f"{n:04x}" for n in range(len(names))]


@pytest.mark.parametrize("key", [True, False], ids=["signed", "no key"])
def test_a_planted_alert_is_never_sent(told, http, key):
    """A file that another user put into the queue is rejected with one log line and one alert; our own messages are sent. With a
    key, a file without a signature is rejected; without a key, one that others can write to."""
    odd = os.path.join(told.base, "it's here")
    os.rename(told.dumps_dir, odd)
    told.dumps_dir = odd
    told.configure({"dump": {"dir": odd}})
    if key:
        told.configure({"dump": {"hmac_key_file": told.secret("key", "0123456789abcdef" * 4)}})
        told.dump()
    http.stop()
    told.start()
    told.wait(lambda: queue(told), "a queued alert")
    told.stop()
    last = int(queue(told)[-1].split(".")[0])
    path = os.path.join(told.dumps_dir, "alerts", f"{last + 1:012d}.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump({"id": "abc", "incident": "abc", "event": "down", "kind": "new", "world": "w1", "urgent": True,
                   "headline": "PLANTED", "what": "planted", "todo": "pay"}, f)
    os.chmod(path, 0o600 if key else 0o666)
    http.start()
    told.start()
    message = http.wait_event("check")[0]
    assert os.path.basename(path) in message["what"] and "refused" in message["what"], message
    listed = subprocess.run("ls -l" + message["todo"].split("ls -l")[1], shell=True, capture_output=True, text=True)
    assert os.path.basename(path) in listed.stdout, (message["todo"], listed)
    told.wait(lambda: not queue(told), "the queue to be empty")
    assert http.events().count("started") == 2
    assert not [r for r in http.requests if b"planted" in r.body or b"PLANTED" in r.body]
    assert os.path.exists(path + ".bad") and told.log().count("set aside and not sent") == 1


def test_what_was_told_of_a_full_disk_is_over(make_keeper, world, http, small_disk):
    """The incident of a full disk is stored on that disk. If space is freed while no supervisor runs, the next supervisor reports
    the end of the incident."""
    path, seen, prefix = small_disk
    keeper = make_keeper(world, {"dump": {"dir": path}, **http.settings()})
    keeper.dumps_dir, keeper.prefix = seen, prefix
    keeper.init()
    keeper.dump()
    keeper.start()
    http.wait_event("disk")  # nearly full from the beginning
    filler = os.path.join(seen, "filler")

    def told(kind, what):
        return [m for m in http.messages() if m["kind"] == kind and what in m["what"]]

    def saved(paused):
        with open(os.path.join(seen, "state.json"), encoding="utf-8") as f:
            return json.load(f)["paused"] is paused
    paused = False
    while not (news := told("new", "state cannot be written")):  # writing the state may have freed space
        with open(filler, "ab", buffering=0) as f:
            with pytest.raises(OSError):
                while True:
                    f.write(b"x" * 4096)
        paused = not paused
        keeper.ok("--pause" if paused else "--resume")  # this saves the state immediately
        keeper.wait(lambda: told("new", "state cannot be written") or saved(paused), "that it is full, or is not")
    keeper.kill9()
    os.unlink(filler)
    keeper.start(state=None)
    assert keeper.wait(lambda: told("recovered", "state is written"), "its end")[0]["incident"] == news[0]["incident"]


def test_alerts_that_could_not_be_stored_are_stored_later(told, victim, http):
    """Alerts that could not be stored while their webhook was away are stored once the disk accepts them, in order, although no
    other alert follows. The next supervisor sends them."""
    told.start()
    http.wait_event("started")
    told.wait(lambda: not queue(told), "the queue to be empty")
    mark = os.path.join(told.dumps_dir, "alerts", "webhook.done")
    os.unlink(mark)
    os.mkdir(mark, 0o700)
    http.mode = 503
    victim.kill9()
    told.wait_log("an alert cannot be stored and goes out from memory")
    told.write("nonsense")
    told.process.send_signal(signal.SIGHUP)
    told.expect("both", alerts=lambda a: a["waiting"] == 2)
    assert not queue(told)
    os.rmdir(mark)
    told.wait(lambda: len(stored(told)) == 2, "both to be stored")
    ids = stored(told)
    told.kill9()
    told.configure({})
    http.mode = "ok"
    told.start(state=None)
    told.wait(lambda: set(ids) <= {m["id"] for m in http.messages()}, "both to arrive")
    first, second = ([m["what"] for m in http.messages() if m["id"] == i][0] for i in ids)
    assert "reload refused" not in first and "reload refused" in second, (first, second)


@pytest.mark.waits(1)
def test_a_thread_that_could_not_be_stored_is_stored_later(told, victim, http):
    """An incident that could not be stored is stored later. Otherwise the next supervisor would not know that it has to report an
    end."""
    path = os.path.join(told.dumps_dir, "alerts", "incidents")
    os.makedirs(os.path.join(path, "in its place"), mode=0o700)
    os.chmod(os.path.dirname(path), 0o700)
    told.start()
    victim.kill9()
    incident = http.wait_event("down")[0]["incident"]
    assert os.path.isdir(path)
    os.kill(told.worker("scribe"), signal.SIGKILL)  # the next scribe is asked to store it again
    told.wait_log("alerts works again")
    assert os.path.isdir(path)
    os.rmdir(os.path.join(path, "in its place"))
    os.rmdir(path)
    told.wait(lambda: os.path.exists(path), "the thread")
    with open(path, encoding="utf-8") as f:
        assert json.load(f)["world"]["id"] == incident
