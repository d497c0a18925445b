#!/usr/bin/python3
"""Pictures of the pages in each state, at four widths, light and dark, with three months of made-up history:

    tests/tools/page_pictures.py DIRECTORY [STATE…]  all of them, to be looked at
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

SERVER = "systemctl status mariadb mysql"
STATES = {  # what is published of each
    "STARTING": {"cause": "The database server has not answered yet"}, "UP": {},
    "SUSPECT": {"reason": "no answer for 2 s; 1 probe in a row", "cause": "The database server does not answer",
                "todo": "Find out what blocks it. Nothing is restored while it may still have the world.",
                "command": "mysql -e 'SHOW FULL PROCESSLIST'"},
    "UNVERIFIED": {"state": "SUSPECT", "unverified": True, "cause": "The database server refuses worldkeeper's account",
                   "reason": "query refused: SELECT command denied to user 'keeper'@'localhost' for table "
                             "`spacewars_production_world_8`.`worldkeeper_sentinel` (1142)",
                   "todo": "Find the privilege or limit that is missing. Until then no dump is made.",
                   "command": "runuser -u worldkeeper -- worldkeeper --world s8 --check"},
    "LOST": {"reason": "sentinel empty, server started at 2026-11-28T10:00:02Z, previously at "
                       "2026-11-01T04:10:00Z; seen 2 times",
             "cause": "The database server was restarted and the world is empty"},
    "RESTORING": {"reason": "restore runs", "cause": "The world is being restored", "running": {
        "job": "restore", "phase": "loading", "table": "planet", "percent": 42, "phase_ms": 8000}},
    "WAITING": {"reason": "cannot connect: Can't connect to local server through socket '/run/mysqld/mysqld.sock' (2)",
                "cause": "The database server is not running", "command": SERVER,
                "todo": "Find out why it is not running, and start it; the world is restored "
                        "automatically if it comes back empty."},
    "PAUSED": {"reason": "paused on request, for 30 minutes", "cause": "Paused on request", "pause_until": "2026-11-28T15:00:00Z",
               "todo": "When the work is done, end the pause.", "command": "worldkeeper --world s8 --resume"},
    "STANDBY": {"reason": "standby of the world that other-machine keeps", "cause": "Another machine keeps this world"},
    "UNKNOWN": {"valid_until_unix": 1},
    # names and errors as long as they get
    "LONG": {"state": "WAITING", "cause": "The restore failed", "todo": "See what can be restored.",
             "reason": "restore failed: /var/lib/worldkeeper/" + "spacewars_production_world_8_" * 6 + ": table is full (1114)",
             "command": "runuser -u worldkeeper -- worldkeeper --config /etc/worldkeeper/" + "spacewars" * 9 + ".ini --list"},
}


def utc(ms):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


def history(path, now):
    """Makes a history of ninety days: dumps, samples, a few losses, a planned pause, a day without a supervisor."""
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
        for ms, state, cause in ((0, "WAITING", "The database server is not running"),
                                 (took * 900, "LOST", "The database server was restarted and the world is empty"),
                                 (took * 950, "RESTORING", "The world is being restored")):
            add(at + ms, "state", state=state, changed=True, reason="sentinel empty; seen 1 of 2 times", cause=cause)
        add(at + took * 1000, "restore", ok=True, rows=30122, dump="w1-1", outage_seconds=took, seconds=.6,
            lost_seconds=0 if took < 9 else None, lost_seconds_max=0 if took < 9 else 2.4,
            **({"conflict_rows": 668, "conflict_file": "/var/lib/worldkeeper/s8/conflict-000004-20261122T210310Z.sql.gz",
                "conflict_command": "runuser -u worldkeeper -- worldkeeper --world s8 "
                                    "--conflicts=/var/lib/worldkeeper/s8/conflict-000004-20261122T210310Z.sql.gz"} if took == 3.6 else {}))
        add(at + took * 1000 + 1, "state", state="UP", changed=True)
    add(begin + 20 * day, "stopped")
    add(begin + 21 * day, "started", watched_until=None)
    add(begin + 21 * day, "state", state="UP", changed=True)
    add(begin + 70 * day, "state", state="PAUSED", changed=True, reason="paused on request")
    add(begin + 70.1 * day, "state", state="UP", changed=True)
    refused = "The database server refuses worldkeeper's account"
    add(begin + 86.01 * day, "state", state="SUSPECT", changed=True, reason="query refused (1142)", cause=refused, unverified=True)
    add(begin + 86.02 * day, "state", state="UP", changed=True)
    add(begin + 88 * day, "drill", ok=True, rows=30122, seconds=2.5)
    lines.sort(key=lambda x: x[0])
    with open(path, "w") as f:
        f.writelines(json.dumps(o) + "\n" for at, o in lines if at < now - 60000)
    os.chmod(path, 0o600)


def picture(browser, site, page, state, path, width, dark, height=None):
    status = json.loads(site.status)
    status.update({"unverified": False, "todo": "", "command": "", "state": "UP" if state == "UNKNOWN" else state, **STATES[state]})
    if state != "UNKNOWN":
        status["valid_until_unix"] = int(time.time()) + 3600
    if state in ("WAITING", "LONG"):
        status["troubles"] = [{"what": "the disk of the dumps is nearly full: less than 1.0 GiB left", "since": status["updated"],
                               "hint": "make room on the file system of the dumps; this shows how full it is: df -h /var/lib/worldkeeper/w1",
                               "prose": "make room on the file system of the dumps",
                               "commands": [{"does": "this shows how full it is", "command": "df -h /var/lib/worldkeeper/w1"}]}]
    word = {"UP": "UP", "SUSPECT": "UP", "RESTORING": "RESTORING", "LOST": "RESTORING", "UNVERIFIED": "UNKNOWN"}.get(state, "WAITING")
    site.instead["status.json"] = json.dumps(status).encode()
    site.instead["players.json"] = json.dumps({
        "state": word, "valid_until_unix": status["valid_until_unix"], "percent": 42 if word == "RESTORING" else None,
        "message": {"UP": "The world is up.", "RESTORING": "The world is being restored.",
                    "UNKNOWN": "It is not known whether the world is up.",
                    "WAITING": "The world is not there at the moment."}[word],
        "kept": "The world was restored at 2026-11-28T09:12:44Z. Some actions during the outage are being looked at." if word == "UP" else "",
        "kept_until": None}).encode()
    shown = "UNKNOWN" if state == "UNKNOWN" else status["state"]
    browser.look(width, dark)
    browser.open(site.url + page)
    if page == "status.html":
        browser.wait(f"document.body.dataset.state === {json.dumps(shown)} && !!document.querySelector('#bars svg')")
    elif page == "players.html":
        browser.wait(f"document.body.dataset.state === {json.dumps('UNKNOWN' if state == 'UNKNOWN' else word)}")
    time.sleep(.3)
    browser.picture(path, height)


def main():
    if len(sys.argv) < 2 or sys.argv[1] == "--help":
        print(__doc__)
        return
    readme = sys.argv[1] == "--readme"
    out = sys.argv[1] if not readme else sys.argv[-1]
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
            states = sys.argv[2:] or list(STATES)
            widths = (360, 768, 1024, 1440)
            for state in states:
                for width in widths:
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
