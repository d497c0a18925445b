"""Runs the recipes of the manual, word for word, against fake services that refuse what the real ones document as invalid or
too long."""
import json
import os
import re

import pytest
from wk.sinks import HOST

pytestmark = pytest.mark.any_server

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
TOKEN = "tokenCANARYtoken"


def recipes():
    """Returns {service: (settings, {file: text})} of the manual."""
    with open(os.path.join(ROOT, "etc/worldkeeper.8"), encoding="utf-8") as f:
        part = f.read().split(".Ss Recipes for webhooks\n")[1].split("\n.Sh ")[0]
    found = {}
    for name, body in re.findall(r"^\.It ([^\n]+)\n(?:[^.\n][^\n]*\n)*\.Bd -literal\n(.*?)^\.Ed", part, re.M | re.S):
        body = body.replace("\\e", "\\")
        settings, *files = re.split(r"^([A-Z]+):\n", body, flags=re.M)
        found[name] = (dict(line.split(" = ", 1) for line in settings.splitlines()[1:]), dict(zip(files[::2], files[1::2])))
    return found


def words(text, limit):
    """Returns whether this is readable text within the limit of characters."""
    return isinstance(text, str) and text.strip() and len(text.encode("utf-16-le")) // 2 <= limit


def matrix(r):
    path = re.fullmatch(r"/_matrix/client/v3/rooms/ROOM/send/m\.room\.message/([0-9a-f]+)", r.path)
    if r.headers.get("Authorization") != f"Bearer {TOKEN}":
        return 401
    good = r.method == "PUT" and path and set(r.json) == {"msgtype", "body", "m.mentions"} and r.json["msgtype"] == "m.text"
    good = good and r.json["m.mentions"] == {}  # otherwise "@room" in a table's name mentions all members
    return 200 if good and len(r.body) <= 65536 and words(r.json["body"], 65536) else 400


def telegram(r):
    if r.path != f"/bot{TOKEN}/sendMessage":
        return 404
    return 200 if r.method == "POST" and r.json["chat_id"] == "CHAT" and words(r.json["text"], 4096) else 400


def ntfy(r):
    good = r.path == "/" and r.json["topic"] == "TOPIC" and r.json["priority"] in range(1, 6)
    return 200 if good and words(r.json["title"], 250) and 0 < len(r.json["message"].encode()) <= 4096 else 400


def gotify(r):
    if r.headers.get("X-Gotify-Key") != TOKEN:
        return 401
    return 200 if r.path == "/message" and words(r.json["message"], 65536) and words(r.json["title"], 250) else 400


def teams(r):
    (attachment,) = r.json["attachments"]
    card = attachment["content"]
    good = r.json["type"] == "message" and attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    good = good and card["type"] == "AdaptiveCard" and all(b["type"] == "TextBlock" and b["text"] for b in card["body"])
    return 202 if good and len(r.body) <= 28 * 1024 else 413


def pagerduty(r):
    o = r.json
    good = r.path == "/v2/enqueue" and o["routing_key"] == TOKEN and o["event_action"] in ("trigger", "resolve")
    good = good and 0 < len(o["dedup_key"]) <= 255 and o["payload"]["severity"] in ("critical", "error", "warning", "info")
    return 202 if good and words(o["payload"]["summary"], 1024) and o["payload"]["source"] and len(r.body) <= 512 * 1024 else 400


def mattermost(r):
    text = r.json["text"]
    shown_as_it_is = text.startswith("```\n") and text.endswith("\n```")  # "@all" in a table's name would mention all
    return 200 if r.path == f"/hooks/{TOKEN}" and shown_as_it_is and words(text, 16383) else 400


FAKES = {"Matrix": matrix, "Telegram": telegram, "ntfy": ntfy, "Gotify": gotify, "Microsoft Teams": teams,
         "PagerDuty": pagerduty, "Mattermost": mattermost}


def configured(keeper, http, service, tmp):
    """Configures the recipe with our host and token."""
    settings, files = recipes()[service]
    base = f"http://{HOST}:{http.port}"
    for name, text in files.items():
        path = os.path.join(tmp, name)
        with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(text.replace("https://HOST", base).replace("TOKEN", TOKEN))
        settings = {k: path if v == name else v for k, v in settings.items()}
    keeper.configure({"alert.webhook": {k: v.replace("https://HOST", base) for k, v in settings.items()}})
    http.judge = lambda r: FAKES[service](r)


def test_the_manual_has_a_recipe_for_each_service():
    assert set(recipes()) == set(FAKES)


@pytest.mark.parametrize("service", FAKES)
def test_a_recipe_is_taken(doomed, http, tmp, service):
    """The service accepts a test message, a message about a real event, and several that piled up."""
    configured(doomed, http, service, tmp)
    done = doomed.run("--test-alert")
    assert done.rc == 0 and TOKEN not in done.out + done.err, done
    n = len(http.requests)
    assert n == 1 and "TEST" in http.requests[0].body.decode()
    (found,) = [c for c in doomed.run("--check", "--json").result["checks"] if c["name"] == "alert webhook"]
    assert found["level"] == "ok", found
    doomed.dump()
    doomed.start()
    doomed.wait(lambda: len(http.requests) > n, "the message of the start")
    http.judge = lambda r: 503  # messages pile up
    doomed.ok("--pause")
    doomed.ok("--resume")
    http.judge = lambda r: FAKES[service](r)
    doomed.expect("nothing waits", alerts=lambda a: a["waiting"] == 0)


def test_an_incident_is_resolved_by_its_end(doomed, victim, http, tmp):
    """DOWN and BACK have the same dedup_key, also if messages pile up."""
    configured(doomed, http, "PagerDuty", tmp)
    doomed.dump()
    doomed.start()
    victim.kill9()

    def sent(word):
        return [r.json for r in http.requests if word in r.json["payload"]["summary"]]
    doomed.wait(lambda: sent("DOWN"), "DOWN")
    http.judge = lambda r: 503
    victim.start()
    doomed.wait_state("UP")
    http.judge = lambda r: pagerduty(r)
    doomed.wait(lambda: sent("BACK"), "BACK")
    down, back = sent("DOWN")[0], sent("BACK")[0]
    assert (down["event_action"], back["event_action"]) == ("trigger", "resolve")
    assert down["dedup_key"] == back["dedup_key"] and down["payload"]["severity"] == "critical"


@pytest.mark.parametrize("settings, said", [
    ({"body": '{"a":"{subjekt}"}'}, "{subjekt} is not a known placeholder"),
    ({"body": "{text}", "header": "no colon"}, 'a header is not "Name: value"')])
def test_what_is_wrong_is_named(doomed, http, settings, said):
    doomed.configure({"alert.webhook": {"url": http.url, **settings}})
    done = doomed.run("--test-alert")
    assert done.rc != 0 and said in done.out + done.err and not http.requests, done
    (found,) = [c for c in doomed.run("--check", "--json").result["checks"] if c["name"] == "alert webhook"]
    assert found["level"] == "fail" and said in json.dumps(found["text"]).replace("\\", ""), found


def test_plain_text_and_forms(doomed, http, tmp):
    """A body is sent as it is, or percent-encoded if the header says that it is a form."""
    path = os.path.join(tmp, "url")
    with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
        f.write(http.url + "?id={id}")
    doomed.configure({"alert.webhook": {"url_file": path, "body": "{world} & {subject}", "header": "X-Priority: 5"}})
    assert doomed.run("--test-alert").rc == 0
    doomed.configure({"alert.webhook": {"body": "title={subject}", "header": "Content-Type: application/x-www-form-urlencoded"}})
    assert doomed.run("--test-alert").rc == 0
    plain, form = http.requests
    assert plain.body == b"w1 & w1 TEST" and plain.headers["X-Priority"] == "5" and re.search(r"\?id=[0-9a-f]{32}$", plain.path)
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert form.body == b"title=w1%20TEST" and form.headers["Content-Type"] == "application/x-www-form-urlencoded"
