"""Tests of the pages in a real browser, for a live world whose server is killed."""
import base64
import html
import json
import os
import re
import shlex
import stat
import subprocess
import time
import urllib.error
import urllib.request
import xml.etree.ElementTree as xml

import pytest
from wk.browser import Browser, Site
from wk.follow import LOG, following
from wk.keeper import ROOT, USER
from wk.stores import account, answers, program
from wk.util import DIE_WITH_US, end_process, free_port, tail, wait_for

pytestmark = pytest.mark.any_server

HOSTILE = "<img src=x onerror=alert(1)>&\"'{{state}}"
SETTINGS = {"status": {"page": "yes", "title": HOSTILE, "announcement": HOSTILE, "message_up": "All ships fly."}}

# Checks what axe-core finds in practice: names, contrast, order, language, roles, and parts that the keyboard cannot reach.
CHECKS = r"""
(() => {
  const bad = [], seen = e => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden";
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * r + .7152 * g + .0722 * b; };
  const rgb = s => s.match(/[\d.]+/g).map(Number);
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255]; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const e = n.parentElement;
    if (!n.data.trim() || !seen(e) || e.closest(".hidden, svg, noscript, script")) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(back(e))].sort((x, y) => y - x);
    const size = parseFloat(getComputedStyle(e).fontSize), need = size >= 24 ? 3 : 4.5;
    for (const m of n.data.matchAll(/\d{4}-\d\d-\d\dT[\d:]{8}Z/g)) {
      const r = document.createRange(); r.setStart(n, m.index); r.setEnd(n, m.index + m[0].length);
      if (new Set([...r.getClientRects()].map(x => x.top)).size > 1) bad.push("a time on two lines: " + m[0]);
    }
    if ((a + .05) / (b + .05) < need) bad.push(`contrast ${((a + .05) / (b + .05)).toFixed(2)} of "${n.data.trim().slice(0, 40)}"`);
  }
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3")) { if (!seen(h)) continue; const l = +h.tagName[1]; if (l > level + 1) bad.push("heading " + h.innerText); level = l; }
  if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) bad.push("not one main");
  if (!document.documentElement.lang || !document.title) bad.push("no language or title");
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  if (new Set(ids).size !== ids.length) bad.push("an id twice");
  for (const e of document.querySelectorAll("[aria-labelledby]")) for (const id of e.getAttribute("aria-labelledby").split(" ")) if (!document.getElementById(id)) bad.push("label " + id);
  for (const e of document.querySelectorAll("svg, [role=region], progress, [role=img]")) if (seen(e) && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") && !e.closest("[aria-hidden]")) bad.push("no name: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) bad.push("no alt");
  for (const e of document.querySelectorAll("a")) if (!e.innerText.trim()) bad.push("link without a name");
  for (const e of document.querySelectorAll("th")) if (!e.scope) bad.push("th without scope");
  for (const e of document.querySelectorAll("*")) { const s = getComputedStyle(e); if (/auto|scroll/.test(s.overflowX) && e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0) bad.push("scrolls without keys: " + e.className); if (e.tabIndex > 0) bad.push("tabindex"); }
  if (document.documentElement.scrollWidth > innerWidth) bad.push("wider than the screen: " + document.documentElement.scrollWidth);
  return bad;
})()
"""


@pytest.fixture
def make_browser(tmp):
    made = []

    def make(path):
        made.extend([Site(path), Browser(tmp)])
        return made[-1], made[-2]
    yield make
    for one in reversed(made):
        one.stop()


def well(browser, site):
    """Asserts that the console has no complaints, that nothing was requested elsewhere, and that the page passes CHECKS."""
    assert browser.js(CHECKS) == []
    assert [c for c in browser.complaints if "players.json" not in c] == []
    assert all(u.startswith((site.url, "about:", "data:")) for u in browser.requests), browser.requests


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_loss_as_it_is_seen(make_world, make_keeper, victim, make_browser):
    """A page that stays open shows UP, the killed server, and the restored world, in words; after the supervisor was killed it
    shows that the state is unknown."""
    keeper = make_keeper(make_world(on=victim), SETTINGS).init()
    keeper.start()
    keeper.dump()
    for name in ("status.html", "history.json"):  # a request for a missing file would be a complaint
        page(keeper, name)
    browser, site = make_browser(keeper.status_dir)
    browser.look()
    browser.open(site.url + "status.html")
    browser.wait("document.getElementById('state').innerText === 'UP' && document.querySelectorAll('#bars g').length === 90")
    browser.wait("document.querySelector('#facts').innerText.includes('rows') && document.title.startsWith('UP: ') && "
                 "document.querySelector('#uptime-figures').innerText.includes('%')")
    assert HOSTILE in browser.js("document.body.innerText") and not browser.js("document.images.length")
    for width, dark in ((360, False), (768, True), (1440, True)):
        browser.look(width, dark)
        well(browser, site)
    victim.kill9()
    browser.wait("['WAITING', 'SUSPECT'].includes(document.getElementById('state').innerText)")
    # The cause and what to do come first, in plain words; the client library's error is only a detail.
    browser.wait("document.getElementById('sentence').innerText === 'The database server is not running. The world is not up.'")
    browser.wait("/start it/.test(document.getElementById('todo-text').innerText) && "
                 "document.getElementById('todo-command').innerText === 'systemctl status mariadb mysql' && "
                 "/^Detail: .*connect/.test(document.getElementById('detail').innerText)")
    well(browser, site)
    victim.start()
    cells = "[...document.querySelectorAll('#incidents tr:first-child td')].map(e => e.innerText)"
    # The page reads the state more often than the history, in which the incident may still be open.
    browser.wait(f"document.getElementById('state').innerText === 'UP' && (c => c.length && / (s|min)$/.test(c[1]) && "
                 f"(c[2].includes('at most') || c[2] === 'nothing') && c[3])({cells})")
    assert browser.js(cells)[3] == "The database server was restarted and the world is empty"
    # A probe that the kill meets sees its connection end before the next one sees that nothing listens.
    assert re.search("WAITING: The database server (is not running|ended the connection): ", keeper.run("--history").out)
    assert browser.js("document.querySelectorAll('.bar-down').length") in (1, 2), "two days when one ends meanwhile"
    well(browser, site)
    keeper.kill9()
    late = {**keeper.status(), "valid_until_unix": int(time.time()) - 2}  # as fifteen seconds later
    site.instead["status.json"] = json.dumps(late).encode()
    browser.wait("document.getElementById('state').innerText === 'UNKNOWN'")
    assert browser.js("document.body.dataset.state") == "UNKNOWN"
    well(browser, site)


@pytest.mark.quick
@pytest.mark.needs("chromium")
def test_without_scripts_and_for_players(keeper, make_browser):
    """The page shows the state without scripts. The players' page shows the game's message and nothing about the machine."""
    keeper.configure(SETTINGS)
    keeper.start()
    keeper.dump()
    keeper.wait(lambda: "none yet" not in page(keeper, "status.html"), "the dump on the page")
    browser, site = make_browser(keeper.status_dir)
    browser.look(360, scripts=False)
    browser.open(site.url + "status.html")
    said = browser.text("body")
    assert "UP" in said and re.search(r"T\d\d:\d\d:\d\dZ", said) and "rows" in said and "None is known." in said
    browser.look(360, dark=True)
    browser.open(site.url + "players.html")
    browser.wait("document.getElementById('message').innerText === 'All ships fly.'")
    browser.wait("performance.getEntriesByType('resource').some(r => r.name.endsWith('players.json'))")
    well(browser, site)
    for name in ("players.html", "players.json"):
        for secret in (keeper.world.schema, keeper.dumps_dir, "worldkeeper_", "MariaDB", keeper.status()["host"]):
            assert secret not in page(keeper, name), (name, secret)
    assert not {p for p in site.asked if "status.json" in p or "history" in p}
    keeper.stop()
    browser.wait("document.body.dataset.state !== 'UP'")


def test_a_revoked_privilege_is_no_downtime(keeper):
    """While the server refuses the supervisor and the game plays, the state is unknown, not down: for admins, for players and
    in the history."""
    keeper.configure(SETTINGS)
    keeper.start()
    keeper.wait(lambda: json.loads(page(keeper, "players.json"))["state"] == "UP", "UP for players")
    schema = keeper.world.schema.replace("_", "\\_")
    keeper.server.sql(f"REVOKE ALL ON `{schema}`.* FROM {USER}@localhost")
    keeper.server.end_sessions(user=USER)
    status = keeper.expect("what is not known", state="SUSPECT", unverified=True, command=lambda c: "--check" in c)
    assert "refuses" in status["cause"] and "privilege" in status["todo"], status
    keeper.wait(lambda: "It is not known whether the world is up. " + status["cause"] in html.unescape(page(keeper, "status.html")),
                "the page")
    keeper.world.sql("INSERT INTO chat VALUES (1,'the game plays')")
    keeper.server.account(USER, [keeper.world.schema])
    keeper.expect("UP again", state="UP", unverified=False, todo="", command="")

    def looked():
        history = json.loads(page(keeper, "history.json"))
        return len([r for r in records(keeper) if r.get("state") == "UP"]) > 1 and history["five_minutes"]
    for bucket in keeper.wait(looked, "the history of all of it"):
        assert not {"suspect", "waiting", "lost"} & set(bucket), bucket
    assert [r for r in records(keeper) if r.get("unverified")]


def told(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + "Z"


@pytest.mark.needs("chromium")
def test_what_is_shown_fits_and_can_be_read(keeper, make_browser):
    """Pages fit every width with long words. Charts have axes, values that can be pointed at, and a table; a single value is
    marked as such; and times have their zone."""
    keeper.configure({"status": {"page": "yes", "title": "spacewars_production_world_8" * 4}})
    keeper.start()
    keeper.wait(lambda: "history.json" in os.listdir(keeper.status_dir), "the history")
    now = int(time.time() * 1000) // 300000 * 300000
    history = json.loads(page(keeper, "history.json"))
    history["five_minutes"] = [{"at": told(now - n * 300000), "up": 300000, "unknown": 0, "rows": 28000 + 7 * n, "probe_ms": n % 5}
                               for n in range(100, -1, -1)]
    history["hours"], history["five_minutes"][-1]["bytes"] = [], 4711000
    history["incidents"] = [{"begin": told(now - 9000000), "end": told(now - 8000000), "state": "SUSPECT", "outage_seconds": None,
                             "restored": False, "unverified": True, "cause": "refused_" * 29},
                            {"begin": told(now - 7000000), "end": told(now - 6990000), "state": "RESTORING", "outage_seconds": 10,
                             "restored": True, "lost_seconds": None, "lost_seconds_max": 2.5, "cause": "The database server was restarted",
                             "conflict_rows": 12, "conflict_file": "/dumps/" + "c" * 200, "conflict_command": "worldkeeper --" + "c" * 200}]
    browser, site = make_browser(keeper.status_dir)
    site.instead["history.json"] = json.dumps(history).encode()
    long = {**keeper.status(), "state": "WAITING", "cause": "The restore failed", "reason": "no_space_" * 60, "todo": "See. " * 50,
            "command": "worldkeeper --config /" + "x" * 300, "valid_until_unix": now // 1000 + 86400,
            "troubles": [{"what": "a dump is damaged", "since": told(now), "hint": "check that disk; worldkeeper --verify reads it",
                          "prose": "check that disk", "commands": [{"does": "reads it", "command": "worldkeeper --config /etc/x --verify"}]}]}
    site.instead["status.json"] = json.dumps(long).encode()
    figure = "[...document.querySelectorAll('figure')].find(f => f.innerText.startsWith(%r))"
    for width, dark in ((360, True), (768, False), (1024, True), (1440, False)):
        browser.look(width, dark)
        browser.open(site.url + "status.html")
        browser.wait("document.querySelectorAll('figure').length === 3 && document.body.dataset.state === 'WAITING'")
        well(browser, site)
        assert browser.js("[...document.querySelectorAll('#incidents td, figure svg, code')].every(e => { "
                          "const b = e.getBoundingClientRect(); return b.left >= 0 && b.right <= innerWidth && b.width > 0; })"), width
        assert browser.js("(b => b.scrollWidth <= b.clientWidth + 1)(document.querySelector('#incidents-box'))"), width
        assert "at most 3 s" in browser.text("#incidents"), "an upper bound is rounded up, as in mails and --status"
        ticks = browser.js(f"[...({figure % 'Rows'}).querySelectorAll('.tick')].map(e => e.textContent)")
        assert {"28,000", "28,500"} <= set(ticks), ticks
        assert any(re.search(r"\d:00", t) for t in ticks), ticks
    assert browser.text("#conditions code") == "worldkeeper --config /etc/x --verify"
    assert "check that disk\nreads it" in re.sub(r"\n+", "\n", browser.text("#conditions"))
    assert "only one value so far" in browser.js(f"({figure % 'Size'}).innerText")
    assert browser.js(f"({figure % 'Size'}).querySelector('svg')") is None
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"  # the form of mails, terminal and --at
    readout = f"({figure % 'Rows'}).querySelector('.readout').innerText"
    assert browser.js(readout) == "between 28,000 and 28,700"
    browser.js(f"(s => {{ const b = s.getBoundingClientRect(); s.dispatchEvent(new PointerEvent('pointermove', "
               f"{{clientX: b.right - 9, clientY: b.top + 9}})); }})(({figure % 'Rows'}).querySelector('svg'))")
    assert re.fullmatch("28,000 at " + form, browser.js(readout)), browser.js(readout)
    browser.js(f"({figure % 'Rows'}).querySelector('summary').click()")
    browser.wait(f"({figure % 'Rows'}).querySelectorAll('tr').length === 101")
    well(browser, site)
    for place in ("#since", "#incidents td", "#charts-note"):
        assert re.search(form, browser.text(place)), browser.text(place)
    assert " here" not in browser.text("#updated-line")
    browser.do("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    browser.open(site.url + "status.html")
    browser.wait(r"/^Looked at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, .*:.* here\.$/.test(document.getElementById('updated-line').innerText)")
    assert re.fullmatch(form, browser.text("#since")), browser.text("#since")


def records(keeper):
    with open(os.path.join(keeper.dumps_dir, "history.jsonl")) as f:
        return [json.loads(line) for line in f if line.endswith("\n")]


@pytest.mark.needs("chromium")
def test_rows_of_players_in_a_conflict_file(make_world, make_keeper, victim, make_browser):
    """After players wrote rows into the emptied tables, players do not read that nothing was lost. The page and history.json
    tell admins the number of rows, the file, and the command that compares them."""
    keeper = make_keeper(make_world(on=victim), {"status": {"page": "yes"}, "restore": {"auto": "no"}}).init()
    keeper.start()
    keeper.dump()
    victim.crash()
    keeper.wait_state("WAITING")
    keeper.world.sql("INSERT INTO chat VALUES (1,'early'),(2,'early')", "DO 0")
    keeper.ok("--restore")
    (path,) = keeper.conflicts()
    told = keeper.wait(lambda: json.loads(page(keeper, "players.json"))["kept"], "what players are told")
    assert re.fullmatch(r"The world was restored at [-0-9]{10}T[:0-9]{8}Z\. Some actions during the outage are being "
                        r"looked at\.( The last change kept: .*Z)?", told), told
    n = keeper.wait(lambda: [i for i in json.loads(page(keeper, "history.json"))["incidents"] if i.get("conflict_file")],
                    "the incident with the rows")[-1]
    assert n["conflict_rows"] == 2 and n["conflict_file"] == path
    command = shlex.split(n["conflict_command"])
    assert command[-1] == "--conflicts=" + path
    keeper.wait(lambda: html.escape(n["conflict_command"]) in page(keeper, "status.html"), "the command without scripts")
    browser, site = make_browser(keeper.status_dir)
    browser.look()
    browser.open(site.url + "status.html")
    browser.wait(f"document.querySelector('#conflicts').innerText.includes({json.dumps(n['conflict_command'])})")
    browser.wait("document.querySelector('#conflicts').innerText.includes('2 rows') && "
                 "document.querySelector('#incidents').innerText.includes('2 rows saved in a file')")
    told = browser.text("#conflicts-list")  # these rows were not restored
    assert re.match(r"2 rows from the outage that ended [-0-9]{10}T[:0-9]{8}Z", told), told
    for width in (360, 768, 1024, 1440):
        browser.look(width)
        well(browser, site)
    browser.open(site.url + "players.html")
    # Until the script's first look, the text has a time in UTC, which may be broken at a hyphen.
    browser.wait("(t => t.includes('are being looked at') && !t.includes('Nothing was lost') && !/\\dT\\d/.test(t))"
                 "(document.body.innerText)")
    assert path not in page(keeper, "players.html") + page(keeper, "players.json")
    well(browser, site)


def test_nothing_was_lost_names_its_event_and_goes_after_an_hour(make_world, make_keeper, make_server):
    """The message that nothing was lost names its restore, and is removed an hour later without another event."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world(on=server), {"status": {"page": "yes"}, "journal": {"mode": "server"}}).init()
    keeper.dump()
    keeper.start()
    following(keeper)
    server.crash()
    kept = keeper.wait(lambda: json.loads(page(keeper, "players.json"))["kept"], "what players are told")
    restored = keeper.wait(lambda: keeper.status().get("last_restore"), "the restore")["at"]
    assert kept == f"The world was restored at {restored[:19]}Z. Nothing was lost."
    keeper.stop()
    path = os.path.join(keeper.dumps_dir, "state.json")
    with open(path, encoding="utf-8") as f:
        state = json.load(f)
    then = {**json.loads(state["last_restore"]), "at": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 3600 + 20))}
    state["last_restore"] = json.dumps(then)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(state, f)
    keeper.start()
    keeper.wait(lambda: keeper.state() == "UP" and keeper.status()["last_restore"]["at"] == then["at"], "its state")
    keeper.wait(lambda: json.loads(page(keeper, "players.json"))["kept"] == "", "an hour after it")
    assert "Nothing was lost" not in page(keeper, "players.html")


def page(keeper, name):
    """Returns a file of the status directory, waiting until it was written."""
    return keeper.wait(lambda: keeper.published(name), name)


def test_names_are_text_in_each_file(keeper):
    """Markup in a name or a message stays text in HTML, feed and badge, and feed and badge are well-formed."""
    keeper.configure(SETTINGS)
    keeper.start()
    for name in ("status.html", "players.html", "incidents.atom", "badge.svg"):
        text = page(keeper, name)
        assert "<img src=x" not in text and "&lt;img" in text and "{{state}}" in text, name
        assert not re.search(r"\son\w+=|<style|\sstyle=|<script(?! src=)", re.sub(r"&[a-z#0-9]+;[^<]*", "", text)), name
    feed = xml.fromstring(page(keeper, "incidents.atom"))
    assert feed.tag.endswith("feed") and HOSTILE in feed[0].text
    keeper.wait(lambda: "UP" in xml.fromstring(page(keeper, "badge.svg")).attrib["aria-label"], "the badge of this state")
    assert "default-src 'none'" in page(keeper, "status.html")


def test_pages_go_with_a_reload(keeper):
    """A reload with page = no removes the files of the page and keeps the flag."""
    keeper.configure(SETTINGS)
    keeper.start()
    keeper.wait(lambda: "status.html" in os.listdir(keeper.status_dir), "the page")
    keeper.configure({"status": {"page": None, "title": None, "announcement": None, "message_up": None}})
    keeper.process.send_signal(1)
    keeper.wait(lambda: {"index.html", "status.json", "history.json"} ==
                {n for n in os.listdir(keeper.status_dir) if not n.startswith(".")}, "the end of the page")
    keeper.wait(lambda: keeper.flag() == "UP", "the flag UP")


def test_the_page_moves_with_a_reload(keeper):
    """A reload with another [status] dir removes the files of the page from the old one, where only the status stays."""
    keeper.configure(SETTINGS)
    keeper.start()
    keeper.wait(lambda: "status.html" in os.listdir(keeper.status_dir), "the page")
    old, new = keeper.status_dir, keeper.status_dir + ".new"
    keeper.configure({"status": {"dir": new}})
    keeper.process.send_signal(1)
    wait_for(lambda: os.path.exists(os.path.join(new, "status.html")), "the page in the new directory")

    def left():
        return {n for n in os.listdir(old) if not n.startswith(".")} == {"index.html", "status.json", "history.json"}
    wait_for(left, "the end of the page in the old directory")
    keeper.stop()  # what still wrote there has ended
    assert left()


def test_an_incident_in_the_feed(make_world, make_keeper, victim):
    """A loss becomes an entry of the feed that says what was lost. The feed does not change until the next incident."""
    keeper = make_keeper(make_world(on=victim), {"status": {"page": "yes"}}).init()
    keeper.start()
    keeper.dump()
    victim.crash()
    keeper.wait(lambda: "Up again" in page(keeper, "incidents.atom"), "the incident in the feed")
    first = page(keeper, "incidents.atom")
    entry = xml.fromstring(first).find("{*}entry")
    lost = re.search(r"Lost: (at most .+|nothing)\.$", entry.find("{*}content").text)[1]
    for said in (keeper.run("--status").out, keeper.run("--history").out):
        assert lost + " lost" in " ".join(said.split()), (lost, said)  # one figure for one loss
    assert entry.find("{*}id").text.startswith("urn:worldkeeper:w1:20")
    updated = keeper.status()["updated"]
    keeper.wait(lambda: keeper.status()["updated"] > updated, "the next status")
    assert page(keeper, "incidents.atom") == first
    assert json.loads(page(keeper, "history.json"))["incidents"]


PLAYERS = {"index.html", "players.html", "players.json", "players.js", "page.css", "badge.svg"}


def manuals_lines(server):
    """Returns the lines of worldkeeper(8) for this web server's configuration."""
    with open(os.path.join(ROOT, "etc/worldkeeper.8"), encoding="utf-8") as f:
        text = f.read().split(".Sh PAGES")[1].split("\n.Sh ")[0]
    return text.split(f"For {server}")[1].split(".Bd -literal -offset indent\n")[1].split(".Ed")[0].replace("\\e", "\\")


@pytest.fixture
def served(keeper):
    """Returns a keeper whose status directory has each kind of file, with names of its own where a key sets them."""
    keeper.configure({"status": {"page": "yes", "json": "mine.json", "metrics": "mine.prom"}})
    keeper.start(None)

    def all_there():
        names = os.listdir(keeper.status_dir)
        spare = {name[1:].rsplit(".", 2)[0] for name in names if name.startswith(".")}
        return {"mine.json", "mine.prom", "history.json", "status.html", "status.js", "incidents.atom", *PLAYERS} <= {*names} and \
            {"mine.json", "mine.prom", "players.json"} <= spare
    keeper.wait(all_there, lambda: str(os.listdir(keeper.status_dir)))
    return keeper


@pytest.mark.skipif(not program("apache2"), reason="no apache2")
def test_players_get_their_own_files_only(served, tmp):
    """Apache with the manual's lines serves players' files without a login, all others only with it, and hidden files never."""
    port, base = free_port(), os.path.join(tmp, "apache")
    os.mkdir(base)
    for path in (tmp, served.status_dir, base):
        os.chmod(path, 0o755)
    users = os.path.join(base, "users")
    with open(users, "w") as f:
        f.write("admin:" + subprocess.run(["openssl", "passwd", "-apr1", "secret"], check=True, capture_output=True, text=True).stdout)
    modules = "mpm_event authn_core authn_file authz_core authz_user auth_basic headers dir mime"
    conf = os.path.join(base, "config")
    with open(conf, "w") as f:
        f.write("".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in modules.split()) +
                (f"User {account()}\n" if os.geteuid() == 0 else "") + f"ServerRoot {base}\nServerName localhost\n"
                f"Listen 127.0.0.1:{port}\nPidFile {base}/pid\nErrorLog {base}/log\nDocumentRoot {served.status_dir}\n"
                "TypesConfig /etc/mime.types\nDirectoryIndex index.html\n" +
                manuals_lines("Apache").replace("/var/www/status", served.status_dir).replace("/etc/apache2/worldkeeper.htpasswd", users))
    apache = subprocess.Popen([*DIE_WITH_US, program("apache2"), "-d", base, "-f", conf, "-DFOREGROUND"])

    def status(name, login):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}")
        if login:
            request.add_header("Authorization", "Basic " + base64.b64encode(b"admin:secret").decode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code
    try:
        wait_for(lambda: answers(port), lambda: "apache2: " + tail(os.path.join(base, "log")), timeout=60)
        for name in ["", *os.listdir(served.status_dir), ".mine.json.1.new", ".mine.prom.1.new", "other"]:
            hidden, players = name.startswith("."), not name or name in PLAYERS
            assert status(name, False) == (403 if hidden else 200 if players else 401), name
            if not hidden and name != "other":
                assert status(name, True) == 200, name
            elif hidden:
                assert status(name, True) == 403, name
    finally:
        end_process(apache, 15)


def test_spare_files_are_for_nobody(served):
    """Spare files have mode 0600, so that no web server's configuration can publish them."""
    def closed():
        modes = {}
        for name in os.listdir(served.status_dir):
            try:
                modes[name] = stat.S_IMODE(os.stat(os.path.join(served.status_dir, name)).st_mode)
            except FileNotFoundError:
                pass
        spare = {name: mode for name, mode in modes.items() if name.startswith(".")}
        return spare and set(spare.values()) == {0o600} and {m for n, m in modes.items() if n not in spare} == {0o644}
    wait_for(closed, lambda: str(os.listdir(served.status_dir)))


def test_the_expression_for_nginx():
    """The manual's `location` for nginx asks for a login for all names except those of players, and refuses hidden
    files."""
    places = re.findall(r"location ~ (\S+) \{", manuals_lines("nginx"))
    assert len(places) == 2
    dots, login = map(re.compile, places)
    for name in ("", *PLAYERS):
        assert not dots.search("/status/" + name) and not login.search("/status/" + name), name
    for name in ("status.html", "mine.json", "history.json", "mine.prom", "incidents.atom", "status.js", "xpage.css", "page.css2"):
        assert not dots.search("/status/" + name) and login.search("/status/" + name), name
    for name in (".mine.json.1.new", ".players.json.1.new"):
        assert dots.search("/status/" + name), name
