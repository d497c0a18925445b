#!/usr/bin/python3
"""Pictures of the pages in each state, at three widths, light and dark, with three months of made-up history:

    tests/tools/page_pictures.py DIRECTORY           all of them, to be looked at
    tests/tools/page_pictures.py --readme FILE.png   the one in the README

Needs what the system tests need, and Debian's chromium."""
import json
import math
import os
import random
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))
from wk.browser import Browser, Site  # noqa: E402
from wk.keeper import Keeper  # noqa: E402
from wk.server import Server  # noqa: E402
from wk.world import World  # noqa: E402

STATES = {
    "STARTING": {}, "UP": {}, "SUSPECT": {"reason": "no answer for 2 s; 1 probe in a row"},
    "LOST": {"reason": "sentinel empty twice, server started 2 s ago"},
    "RESTORING": {"reason": "restore of dump w1-000003-00000042 runs", "running": {
        "job": "restore", "phase": "loading", "table": "planet", "percent": 42, "phase_ms": 8000}},
    "WAITING": {"reason": "cannot connect: Connection refused (111)"},
    "PAUSED": {"reason": "paused on request, for 30 minutes"},
    "UNKNOWN": {"valid_until_unix": 1},
}


def utc(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def history(path, now):
    """Ninety days: dumps, samples, a few losses, a planned pause, a day without a supervisor."""
    dice, lines, day = random.Random(3), [], 86400000
    begin = (now // day - 89) * day

    def add(at, kind, **fields):
        lines.append((int(at), {"at": utc(int(at)), "kind": kind, **fields}))
    add(begin, "started", watched_until=None)
    add(begin, "state", state="UP", changed=True)
    losses = {at: took for at, took in ((12.3, 9.2), (31.6, 4.1), (55.2, 1800.0), (83.4, 3.6))}
    for half in range(89 * 48):
        at, days = begin + half * day / 48, half / 48
        if 20 <= days < 21 or 70 <= days < 70.1 or any(0 <= days - x < took / 86400 for x, took in losses.items()):
            continue
        rows = int(28000 + 60 * days + 1500 * math.sin(days * 6.28))
        lag = dice.randint(40, 220) + (900 if half % 97 == 0 else 0)
        add(at + 1000, "state", state="UP", changed=False, probe_ms=dice.randint(1, 4), journal_lag_ms=lag)
        if half % 2:
            add(at + 2000, "dump", ok=True, rows=rows, bytes=rows * 38, seconds=round(.5 + rows / 1e5 + dice.random() / 9, 2))
    for days, took in losses.items():
        at = begin + days * day
        reason = "sentinel empty twice, server started 2 s ago"
        for ms, state in ((0, "WAITING"), (took * 900, "LOST"), (took * 950, "RESTORING")):
            add(at + ms, "state", state=state, changed=True, reason=reason)
        add(at + took * 1000, "restore", ok=True, rows=30122, dump="w1-1", outage_seconds=took, seconds=.6,
            lost_seconds=0 if took < 9 else None, lost_seconds_max=0 if took < 9 else 2.4)
        add(at + took * 1000 + 1, "state", state="UP", changed=True)
    add(begin + 20 * day, "stopped")
    add(begin + 21 * day, "started", watched_until=None)
    add(begin + 21 * day, "state", state="UP", changed=True)
    add(begin + 70 * day, "state", state="PAUSED", changed=True, reason="paused on request")
    add(begin + 70.1 * day, "state", state="UP", changed=True)
    add(begin + 88 * day, "drill", ok=True, rows=30122, seconds=2.5)
    lines.sort(key=lambda x: x[0])
    with open(path, "w") as f:
        f.writelines(json.dumps(o) + "\n" for at, o in lines if at < now - 60000)
    os.chmod(path, 0o600)


def picture(browser, site, page, state, path, width, dark, height=None):
    status = json.loads(site.status)
    status.update(STATES[state], state=state if state != "UNKNOWN" else "UP")
    if state != "UNKNOWN":
        status["valid_until_unix"] = int(time.time()) + 3600
    status["reason"] = status["reason"] if STATES[state] else "the sentinel is there"
    if state in ("WAITING", "UP") and width == 768:
        status["troubles"] = [{"what": "the disk of the dumps is nearly full: less than 1.0 GiB left", "since": status["updated"],
                               "hint": "make room on the file system of /var/lib/worldkeeper/w1: df -h shows how full it is"}]
    word = {"UP": "UP", "SUSPECT": "UP", "RESTORING": "RESTORING", "LOST": "RESTORING"}.get(state, "WAITING")
    site.instead["status.json"] = json.dumps(status).encode()
    site.instead["players.json"] = json.dumps({
        "state": word, "valid_until_unix": status["valid_until_unix"], "percent": 42 if word == "RESTORING" else None,
        "message": {"UP": "The world is up.", "RESTORING": "The world is being restored.",
                    "WAITING": "The world is not there at the moment."}[word],
        "kept": "", "kept_until": status["updated"] if word == "UP" else None}).encode()
    browser.look(width, dark)
    browser.open(site.url + page)
    if page == "status.html":
        browser.wait(f"document.body.dataset.state === {json.dumps(state)} && !!document.querySelector('#bars svg')")
    elif page == "players.html":
        browser.wait(f"document.body.dataset.state === {json.dumps('UNKNOWN' if state == 'UNKNOWN' else word)}")
    time.sleep(.3)
    browser.picture(path, height)


def main():
    if len(sys.argv) < 2 or sys.argv[1] == "--help":
        print(__doc__)
        return
    readme = sys.argv[1] == "--readme"
    out = sys.argv[-1]
    with tempfile.TemporaryDirectory(prefix="wkpage") as base:
        os.chmod(base, 0o755)
        for name in ("server", "home", "keeper"):
            os.mkdir(os.path.join(base, name))
        server = Server(os.path.join(base, "server"))
        server.start()
        keeper = browser = site = None
        try:
            world = World(server, "small")
            keeper = Keeper(os.path.join(base, "keeper"), world, "s8", {"status": {
                "page": "yes", "title": "Space Wars, world 8",
                "announcement": "On Sunday at 4:00 UTC the server gets new disks; the world pauses for half an hour."}}).init()
            history(os.path.join(keeper.dumps_dir, "history.jsonl"), int(time.time() * 1000))
            keeper.start()
            keeper.dump()
            time.sleep(6)
            site = Site(keeper.status_dir)
            with open(os.path.join(keeper.status_dir, "status.json"), "rb") as f:
                site.status = f.read()
            browser = Browser(os.path.join(base, "home"))
            if readme:
                picture(browser, site, "status.html", "UP", out, 860, False, 1000)
                return
            os.makedirs(out, exist_ok=True)
            for state in STATES:
                for width in (360, 768, 1440):
                    for dark in (False, True):
                        for page in ("status", "players"):
                            path = os.path.join(out, f"{page}-{state}-{width}-{'dark' if dark else 'light'}.png")
                            picture(browser, site, page + ".html", state, path, width, dark)
        finally:
            for one in (browser, site):
                if one:
                    one.stop()
            if keeper:
                keeper.destroy()
            server.kill9()


if __name__ == "__main__":
    main()
