#!/usr/bin/python3
"""A bad night, and all that people read of it, in one document:

    tests/tools/bad_night.py FILE.md

Ten things go wrong, one after the other, on a real server with a real mail server: the server is killed, the newest dump is
corrupt, the disk is full, a privilege is revoked, a table is dropped, a DELETE has no WHERE, the database is dropped, a drill
fails, the store is away, the supervisor is killed. For each the document has the mails, what --status says, both pages as
text, the lines of status.json and players.json that people's words are made of, and the log; then the same of its end.
Somebody who did not write the words reads it, as an admin at night would, and notes each place at which they had to stop.

Needs what the system tests need; as root also a disk of its own, which fills. Exit status 1: something did not come to its end."""
import contextlib
import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))
from wk.follow import LOG, following  # noqa: E402
from wk.keeper import USER, Keeper  # noqa: E402
from wk.server import Server  # noqa: E402
from wk.sinks import Smtp  # noqa: E402
from wk.stores import Liar  # noqa: E402
from wk.util import wait_for  # noqa: E402
from wk.world import World  # noqa: E402

SHOWN = ("state", "flag", "cause", "todo", "command", "unverified", "reason")
DISK, SMALL = "2g", "4m"  # nothing is allocated before it is written


def words(text):
    """Returns the text of a page as it is read without styles and scripts."""
    text = re.sub(r"(?s)<(head|script|style)\b.*?</\1>", "", text)
    text = re.sub(r'(?s)<(section|progress|svg|div)\b[^>]*class="[^"]*\bgone\b[^"]*".*?</\1>', "", text)
    text = re.sub(r"</(p|h1|h2|li|dd|tr|section|code)>|<br>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(line for line in lines if line)


def hang_up(handler):
    handler.close_connection = True
    return True


class Night:
    def __init__(self, base, out):
        self.out, self.number, self.read, self.begun, self.logged = out, 0, 0, 0, 0
        for name in ("server", "keeper", "mail"):
            os.mkdir(os.path.join(base, name))
        self.store = Liar(base)
        self.smtp = Smtp(os.path.join(base, "mail")).start()
        self.server = Server(os.path.join(base, "server"), *LOG).start()
        self.world = World(self.server, "small", "spacewars")
        self.dumps = os.path.join(base, "keeper", "dumps")
        os.mkdir(self.dumps)
        self.mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "tmpfs", self.dumps], check=False).returncode == 0
        self.keeper = Keeper(os.path.join(base, "keeper"), self.world, "s8", {
            "status": {"page": "yes", "title": "Space Wars, world 8"}, "journal": {"mode": "follow"},
            "offsite": {**self.store.settings(), "plain": "yes"}, "drill": {"max_load": "10000%"},
            "retention": {"keep_last": 50}, **self.smtp.settings()})
        environment = self.keeper.environment  # mails have the time of the machine beside UTC
        self.keeper.environment = lambda fault=None, **more: environment(fault, **{"TZ": "Europe/Vienna", **more})
        self.keeper.init()

    def end(self):
        self.keeper.destroy()
        self.server.kill9()
        self.smtp.stop()
        self.store.stop()
        if self.mounted:
            subprocess.run(["umount", "-l", self.dumps], check=False)

    # -- what is collected ----------------------------------------------------------------------

    def say(self, text=""):
        self.out.write(text + "\n")
        self.out.flush()

    def block(self, text):
        self.say("```text\n" + text.rstrip("\n") + "\n```\n")

    def settled(self, predicate, what, mails=1):
        """Waits until the predicate holds for the status, no alert is waiting to be sent, and the pages show that
        state."""
        def now():
            status = json.loads(self.keeper.run("--status", "--json").out or "{}")
            page = os.path.join(self.keeper.status_dir, "status.html")
            if not status or not predicate(status) or status["alerts"]["waiting"] or len(self.smtp.mails) < self.read + mails:
                return None
            shown = self.keeper.status()
            same = shown and all(shown.get(k) == status[k] for k in ("state", "cause", "reason", "troubles", "last_restore"))
            return same and os.path.exists(page) and status["cause"] + "." in html.unescape(self.keeper.published("status.html"))
        self.keeper.wait(now, lambda: f"{what}; mails: {[m.subject for m in self.smtp.mails[self.read:]]}")

    def collect(self, title):
        self.say(f"### {title}\n")
        mails, self.read = self.smtp.mails[self.read:], len(self.smtp.mails)
        if not mails:
            self.say("No mail.\n")
        for mail in mails:
            self.say(f"Mail: **{mail.subject}**\n")
            self.block(mail.text)
        self.say("`worldkeeper --status`:\n")
        shown = self.keeper.run("--status")
        self.block(shown.out + shown.err)
        status = json.loads(self.keeper.published("status.json"))
        self.say("`status.json`, `players.json`:\n")
        self.block("\n".join(f"{k}: {json.dumps(status.get(k), ensure_ascii=False)}" for k in SHOWN) +
                   "\nplayers: " + self.keeper.published("players.json"))
        self.say("`status.html`:\n")
        self.block(words(self.keeper.published("status.html")))
        self.say("`players.html`:\n")
        self.block(words(self.keeper.published("players.html")))
        lines = self.keeper.log().splitlines(keepends=True)
        self.say("The log since then:\n")
        self.block("".join(lines[self.logged:]))
        self.logged = len(lines)

    @contextlib.contextmanager
    def event(self, title, done):
        self.number += 1
        self.begun = self.read
        self.say(f"## {self.number}. {title}\n\n{done}\n")
        print(f"{self.number}. {title}", file=sys.stderr, flush=True)
        yield

    def typed(self, pattern):
        """Runs the first command that matches in the mails since the last event, exactly as the mail shows it, and
        returns whether it succeeded."""
        text = "\n".join(m.text for m in self.smtp.mails[self.begun:self.read])
        found = re.search(r"worldkeeper (?:--config \S+|--world \S+) ((?=--)[^\n]*" + pattern + r"[^\n;]*)", text)
        if not found:
            self.say(f"**No mail has a command with `{pattern}`.**\n")
            return False
        line = re.split(r",? (?:to|which|brings|and|compares) ", found[1])[0].rstrip(" .,")
        done = self.keeper.run(*shlex.split(line))
        self.say(f"Pasted from the mail: `{line}`, exit {done.rc}\n")
        self.block(done.out + done.err)
        return done.rc == 0

    # -- the night --------------------------------------------------------------------------------

    def up(self, status):
        return status["state"] == "UP" and not status["running"]

    def calm(self, status):
        return self.up(status) and not status["troubles"]

    def evening(self):
        self.keeper.dump()
        self.keeper.start()
        following(self.keeper)
        with self.event("The evening", "A world of a few thousand rows, with a dump, a journal, a store and mail."):
            self.settled(lambda s: self.up(s) and s["offsite"]["state"] == "stored", "the evening")
            self.collect("All is well")

    def lose(self, what, while_down=lambda: None):
        self.server.kill9()
        self.settled(lambda s: s["state"] == "WAITING", what)
        self.collect("While it lasts")
        while_down()
        self.server.start()
        self.settled(lambda s: self.up(s) and s["last_restore"] and s["last_restore"]["ok"], "the world back")
        self.collect("When it is over")

    def killed(self):
        with self.event("The database server is killed", "`kill -9` of the server; it is started again afterwards."):
            self.lose("the server's death")

    def corrupt(self):
        with self.event("The newest dump is corrupt, and the server is killed",
                        "A hundred bytes in the middle of the newest dump were overwritten."):
            path = self.keeper.dump()["path"]
            with open(path, "r+b") as f:
                f.seek(os.path.getsize(path) // 2)
                f.write(b"\0" * 100)
            self.lose("the server's death")
            os.unlink(path)
            os.unlink(path.replace(".sql.gz", ".json"))
            self.keeper.dump()

    def full(self):
        with self.event("The disk of the dumps is full", "A file fills it." if self.mounted else "Left out: this takes root."):
            if not self.mounted:
                return
            subprocess.run(["mount", "-o", f"remount,size={SMALL}", self.dumps], check=True)
            filler = os.path.join(self.dumps, "filler")
            with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
                while True:
                    f.write(b"x" * 4096)
            self.keeper.run("--dump")
            self.settled(lambda s: s["troubles"], "the full disk")
            self.collect("While it lasts")
            os.unlink(filler)
            subprocess.run(["mount", "-o", f"remount,size={DISK}", self.dumps], check=True)
            self.keeper.wait(lambda: self.keeper.run("--dump").rc == 0, "a dump again")
            self.settled(self.calm, "room again")
            self.collect("When it is over")

    def revoked(self):
        with self.event("Privileges are revoked", "`REVOKE ALL` on the world's schema from worldkeeper's account."):
            self.server.sql(f"REVOKE ALL ON `spacewars`.* FROM {USER}@localhost")
            self.server.end_sessions(user=USER)
            self.settled(lambda s: s["state"] == "SUSPECT", "the refusal")
            self.collect("While it lasts")
            self.server.account(USER, ["spacewars"])
            self.settled(self.up, "access again")
            self.collect("When it is over")

    def dropped(self):
        with self.event("A table is dropped", "`DROP TABLE fleet`."):
            self.keeper.dump()
            following(self.keeper)
            self.world.sql("DROP TABLE fleet")
            self.settled(self.up, "the dropped table")
            self.collect("Afterwards")
            self.keeper.dump()  # its mails, if any, stand under the next event
            if not self.typed("fleet"):
                self.keeper.run("--restore", "--table", "fleet")
            self.keeper.dump()
            self.keeper.wait(lambda: not self.keeper.status().get("troubles"), "the end of it")

    def deleted(self):
        with self.event("A DELETE without WHERE", "`DELETE FROM player`, 2,000 rows; the next dump follows."):
            following(self.keeper)
            self.world.sql("DELETE FROM player")
            self.keeper.dump()
            self.settled(lambda s: self.up(s) and any("table player lost" in m.subject for m in self.smtp.mails), "the lost rows")
            self.collect("Afterwards")
            if not self.typed("player"):
                self.keeper.run("--restore=" + self.keeper.dumps()[1]["name"], "--table", "player", "--force")
            self.keeper.dump()

    def no_database(self):
        with self.event("The database is dropped", "`DROP DATABASE spacewars`."):
            following(self.keeper)
            self.server.sql("DROP DATABASE spacewars")
            self.settled(lambda s: s["state"] == "WAITING", "the missing database")
            self.collect("While it lasts")
            self.server.sql("CREATE DATABASE spacewars CHARACTER SET utf8mb4")
            if not self.typed("--restore"):
                self.say("`--restore` typed instead:\n")
                done = self.keeper.run("--restore")
                self.block(done.out + done.err)
            self.settled(self.up, "the world back")
            self.collect("When it is over")

    def drill(self):
        with self.event("A drill fails", "The account may not use the drill's schema."):
            self.keeper.reload({"drill": {"interval": "1s"}})
            self.settled(lambda s: s["troubles"] and s["last_drill"], "the failed drill")
            self.collect("While it lasts")
            self.server.grant(USER + "@localhost", "worldkeeper_drill_s8")
            self.keeper.wait(lambda: (self.keeper.status().get("last_drill") or {}).get("ok"), "a drill that passes")
            self.keeper.reload({"drill": {"interval": "0"}})
            self.settled(self.up, "the passed drill")
            self.collect("When it is over")

    def away(self):
        with self.event("The store is away", "It ends each connection without an answer; a dump follows."):
            self.store.fault = hang_up
            self.keeper.dump()
            self.settled(lambda s: s["offsite"]["state"] == "failing" and s["troubles"], "the store away")
            self.collect("While it lasts")
            self.store.fault = None
            self.settled(lambda s: self.up(s) and s["offsite"]["state"] == "stored" and not s["troubles"], "the store back")
            self.collect("When it is over")

    def dead(self):
        with self.event("The supervisor is killed", "`kill -9` of it and its workers; it is started again."):
            self.keeper.kill9()
            self.collect("While it lasts")
            self.keeper.start()
            self.settled(self.up, "the next supervisor")
            self.collect("When it is over")

    def morning(self):
        self.say("## The morning\n\n`worldkeeper --history`:\n")
        self.block(self.keeper.run("--history").out)
        wait_for(lambda: os.path.exists(os.path.join(self.keeper.status_dir, "incidents.atom")), "the feed")
        self.say("`incidents.atom`:\n")
        self.block(words(self.keeper.published("incidents.atom").replace("</entry>", "</p>").replace("</title>", "</p>")))


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return sys.argv[1:] != ["--help"]
    failed = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended, the disk taken away
    with tempfile.TemporaryDirectory(prefix="wknight") as base, open(sys.argv[1], "w", encoding="utf-8") as out:
        os.chmod(base, 0o755)
        out.write(f"# A bad night\n\n{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC\n\n")
        night = Night(base, out)
        try:
            for part in (night.evening, night.killed, night.corrupt, night.full, night.revoked, night.dropped, night.deleted,
                         night.no_database, night.drill, night.away, night.dead, night.morning):
                try:
                    part()
                except AssertionError as e:  # the others are worth reading all the same
                    failed = True
                    night.say(f"**It did not come to its end: {e}**\n")
                    print(e, file=sys.stderr)
        finally:
            night.end()
    return failed


if __name__ == "__main__":
    sys.exit(main())
