"""The cost of the journal: restores that catch up with many changes, and following the game."""
import contextlib
import json
import os
import shutil
import subprocess
import time

from wk.server import as_mysql
from wk.util import wait_for

import world
from measure import Failed, KeeperUse, ServerUse, size_of

MODES = ("server", "follow")  # [journal] mode
CHANGES = 15 * 60 * 5000      # for size 1; proportional in others
CONNECTIONS = 2               # connections that make the changes
# {name in bench.json: (changed rows a second, rows that each statement changes)}
PACES = {"idle": None, "5000": (5000, 1), "50000": (50000, 50)}
KEPT = ("changes", "rows", "seconds")


def place(file, pos):
    """Returns a sortable position in the binary log, whose files are numbered."""
    return int(file.rpartition(".")[2]), pos


class Journal:
    """The world of a Contest, kept with each of these modes; `seconds` is the duration of each pace."""

    def __init__(self, contest, modes, seconds, say):
        self.c, self.w, self.lab = contest, contest.w, contest.lab
        self.modes, self.seconds, self.say = modes, seconds, say
        self.changes = round(CHANGES * self.w.size)
        self.segments = os.path.join(contest.base, "journal")
        for mode in ("off", *modes):
            dir_ = f"\ndir = {self.segments}" if mode == "follow" else ""
            contest.configure("journal-" + mode, journal=f"mode = {mode}{dir_}")

    def begin_anew(self):
        """Resets the world, without a journal of another world."""
        shutil.rmtree(self.segments, ignore_errors=True)
        self.c.dir("journal")
        self.c.begin_anew()

    # -- the supervisor -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def supervisor(self, mode):
        """Runs a supervisor that follows the log when the block begins."""
        with self.c.supervisor("journal-" + mode) as process:
            if mode != "off":
                wait_for(lambda: self.told(process).get("state") == "following",
                         lambda: "the journal to be followed; " + self.lab.said())
            yield process

    def told(self, process):
        return self.c.status(process).get("journal") or {}

    def caught_up(self, process):
        """Waits until everything in the log is in the journal."""
        end = place(*self.w.log_end())

        def reached():
            told = self.told(process)
            if told.get("state") != "following" or told["gap"]:
                raise Failed(f"the journal was not followed: {told}; {self.lab.said()}")
            return place(told["file"], told["pos"]) >= end and told["behind_seconds"] < 2
        wait_for(reached, lambda: f"the follower to come to {end}: {self.told(process)}", 600)

    # -- restores -----------------------------------------------------------------------------------

    def make_changes(self):
        command = [self.lab.tool("changes"), self.w.server.socket, world.SCHEMA, str(CONNECTIONS),
                   str(self.changes)]
        done = subprocess.run([*as_mysql(), *command], stdout=subprocess.PIPE, cwd=self.lab.base)
        if done.returncode != 0:
            raise Failed(f"changes: exit status {done.returncode}")
        return json.loads(done.stdout)

    def play_on(self, mode):
        """Makes the changes after the dump. In mode follow a supervisor must have written all of them, and must not run when
        the server dies."""
        if mode != "follow":
            return self.make_changes()
        with self.supervisor(mode) as process:
            made = self.make_changes()
            self.caught_up(process)
            return made

    def catch_up(self, mode):
        """Measures one restore of a dump and of all changes after it."""
        self.begin_anew()
        before = self.w.log_bytes()
        made = self.play_on(mode)
        made["bytes"] = self.w.log_bytes() - before
        truth = self.w.checksums(world.SCHEMA)
        self.w.lose(old_enough=True, keep_log=True)
        who = f"restore with journal, {mode}"
        sample = self.lab.measure(self.w, who, self.c.restore_command(config="journal-" + mode))
        self.w.check(who, truth)
        result = self.c.restored()
        read = result.get("journal") or {}
        if not read.get("whole") or read["changes"] != made["changes"] or result["lost_seconds"] != 0:
            raise Failed(f"{who}: {made['changes']} changes were made, and it says {read}, "
                         f"{result['lost_seconds']} seconds lost")
        return {**sample, "made": made, "read": {key: read[key] for key in KEPT}}

    def alone(self):
        """Measures a restore of the same dump without the journal."""
        self.w.lose(old_enough=True)
        sample = self.lab.measure(self.w, "restore without journal",
                                  self.c.restore_command(config="journal-off"))
        self.w.check("restore without journal")
        return sample

    # -- following ----------------------------------------------------------------------------------

    def play(self, process, mode, pace):
        """Plays the game at one pace, and measures supervisor and server meanwhile."""
        written = self.w.log_bytes(), size_of(self.segments)
        os.sync()
        game = self.lab.writer(self.w, *map(str, pace)) if pace else contextlib.nullcontext({})
        with game as writer:
            server, keeper = ServerUse(self.w.server.process.pid), KeeperUse(process)
            time.sleep(self.seconds)
            sample = {**server.end(), **keeper.end()}
            sample["behind_seconds"] = self.told(process).get("behind_seconds")
        sample.update(writer)
        if mode != "off":
            self.caught_up(process)
        if pace:
            sample["log_bytes"] = self.w.log_bytes() - written[0]
        if pace and mode == "follow":
            sample["segment_bytes"] = size_of(self.segments) - written[1]
        return sample

    def cost(self, mode):
        self.begin_anew()
        with self.supervisor(mode) as process:
            return {name: self.play(process, mode, pace) for name, pace in PACES.items()}

    # -- rounds -------------------------------------------------------------------------------------

    def round(self, number):
        """Runs each mode once; each round begins with another one."""
        def turned(names):
            return names[number % len(names):] + names[:number % len(names)]
        found = {"restores": {}, "cost": {}}
        for i, mode in enumerate(turned(self.modes)):
            self.say(f"restore with {self.changes:,} changes, journal: {mode}")
            found["restores"][mode] = self.catch_up(mode)
            if i == 0:
                self.say("restore of the same dump alone")
                found["restores"]["alone"] = self.alone()
        for mode in turned(["off", *self.modes]):
            self.say(f"the game at each pace, journal: {mode}")
            found["cost"][mode] = self.cost(mode)
        return found
