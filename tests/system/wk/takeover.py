"""The takeover torture: two machines as processes, with their own servers, a store and an etcd, and links between them that
can be cut; a game that asks before each write, earns points in a ledger and saves its players' progress in a central store;
and an observer of both sides."""
import collections
import contextlib
import copy
import json
import os
import random
import re
import shutil
import threading
import time
from signal import SIGCONT, SIGHUP, SIGSTOP
from typing import NamedTuple

import pymysql

from .audit import AuditedWriters, Writer
from .keeper import DONE, NOTHING, REFUSED, precise, sanitized, unix
from .progress import Store as Progress
from .segments import Segments
from .stores import Conditions, Liar
from .util import wait_for

LEDGER = {"table": "gains", "key": "player, mini", "value": "xp", "time": "at", "rollup_after": "0"}
GAINS = ("CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
         "xp INT NOT NULL, at DATETIME NOT NULL, token VARCHAR(36) NULL, UNIQUE KEY (token), KEY k USING BTREE "
         "(player, mini, id)) ENGINE=MEMORY")
EARN = "INSERT INTO gains (player,mini,xp,at,token) VALUES (1,1,1,'2026-11-16 10:00:00',UUID())"
UNTIL = "2026-11-17 00:00:00Z"  # a rollup sums everything that was earned until then

DAY = 86400
TTL = 4  # not far above the program's own limits, and a test machine may be slow


class Shared(Conditions):
    """One machine's view of the store, whose objects are the same for both machines."""

    def __init__(self, liar, whole, machine):
        super().__init__(liar)
        self.whole, self.machine, self.lock = whole, machine, whole.lock

    def __call__(self, h):
        path = h.path.partition("?")[0]
        made = re.search(r"/dumps/[^/]*-(\d{6})-\d{8}-[^/]*\.json$", path)
        record = re.search(r"/record/(\d+)-(\d+)-", path)
        answered = super().__call__(h)
        if h.command == "PUT" and path in self.objects:
            if made:
                self.whole.stored(self.machine, path, int(made[1]))
            elif record:
                self.whole.recorded(self.machine, (int(record[1]), int(record[2])))
        return answered


class Store:
    """One S3 that honors conditions, with a door for each machine.

    `newest` is the highest generation of which each machine stored a manifest. `older` has the manifests of a generation below
    the other machine's that were stored after it by a machine that had not written the newest record. The world's owner may
    store late what it has of earlier lives, because nothing prefers it: see test_an_older_dump_that_is_stored_late."""

    def __init__(self, base, count):
        self.lock, self.objects, self.newest, self.older, self.known = threading.RLock(), {}, {}, [], set()
        self.record = ((0, 0), None)  # the newest record's number and generation, and the machine that wrote it
        self.doors = []
        for machine in range(count):
            os.mkdir(f"{base}/door-{machine}")
            liar = Liar(f"{base}/door-{machine}")
            liar.objects = self.objects
            Shared(liar, self, machine)
            self.doors.append(liar)

    def recorded(self, machine, number):
        with self.lock:
            self.record = max(self.record, (number, machine))

    def stored(self, machine, path, generation):
        with self.lock:
            newest = max((g for m, g in self.newest.items() if m != machine), default=0)
            if path not in self.known and generation < newest and self.record[1] != machine:
                self.older.append(f"machine {machine} stored {path} of generation {generation} after one of {newest}")
            self.known.add(path)
            self.newest[machine] = max(self.newest.get(machine, 0), generation)

    def stop(self):
        for door in self.doors:
            door.stop()


class Machine:
    """A keeper, its server, and its links to the store, to each member of etcd, and to its own server."""

    def __init__(self, number, keeper, links):
        self.number, self.keeper, self.links, self.stopped = number, keeper, links, []
        self.jumps = (0,)  # possible offsets of its clock; replaced, never changed, because the observer reads it
        if not sanitized():  # AddressSanitizer must be the first library
            keeper.env.update(keeper.shim(clock=keeper.clock))
        keeper.segments = Segments(keeper)

    def stop(self, whole):
        """Stops everything, or only the supervisor."""
        pids = [self.keeper.process.pid, *(self.keeper.pids() if whole else [])]
        self.stopped += pids
        for pid in pids:
            signal_to(pid, SIGSTOP)

    def set_clock(self, seconds):
        self.jumps += (seconds,)
        self.keeper.set_clock(seconds)

    def go_on(self):
        for pid in self.stopped:
            signal_to(pid, SIGCONT)
        self.stopped = []

    def lose(self):
        """Loses the whole machine, including its published status, because /run is empty after a boot."""
        self.keeper.kill9()
        self.keeper.server.kill9()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.keeper.status_dir, "status.json"))

    def mend(self):
        self.go_on()
        if self.jumps != (0,):
            self.set_clock(0)
        for link in self.links.values():
            link.mend()


def signal_to(pid, sign):
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        pass


def read_status(machine):
    """Returns the present status.json of any process, with the true time in "until", whatever its clock said."""
    try:
        with open(os.path.join(machine.keeper.status_dir, "status.json")) as f:
            s, written = json.load(f), os.fstat(f.fileno()).st_mtime
    except (FileNotFoundError, ValueError):
        return {}
    off = precise(s["updated"]) - written
    s["until"] = precise(s["valid_until"]) - min(machine.jumps, key=lambda jump: abs(off - jump))
    return s


class Observer(threading.Thread):
    """Checks 20 times a second whether both sides say at one time that they are UP. A status counts as long as it is valid and
    not replaced."""

    def __init__(self, machines):
        super().__init__(daemon=True)
        self.machines, self.ended, self.looks, self.both = machines, threading.Event(), 0, []
        self.start()

    def run(self):
        while not self.ended.wait(0.05):
            one, other = self.machines
            first, second = read_status(one), read_status(other)
            now, again = time.time(), read_status(one)
            self.looks += 1
            if (first.get("ready") and second.get("ready") and first["until"] > now and second["until"] > now
                    and again.get("updated") == first["updated"] and again.get("ready")):
                self.both.append([{k: s[k] for k in ("updated", "valid_until", "state", "reason", "lease")}
                                  for s in (first, second)])

    def stop(self):
        self.ended.set()
        self.join()


class Asking(Writer):
    """Asks before each write whether the machine whose database it uses has the lease of the world. It ends when that lease
    has another number than at its first write: another machine may have had the world in between."""
    number, asks = None, True

    def __init__(self, *args):
        super().__init__(*args)
        self.gate = threading.Lock()  # held during a change; holding it prevents changes

    def may_write(self, cur):
        if not self.asks:  # without a lease there is nothing to ask
            return True
        try:
            cur.execute("SELECT number FROM worldkeeper_lease WHERE until>UTC_TIMESTAMP(3)")
        except pymysql.err.ProgrammingError:  # this machine never held the lease
            return False
        for (number,) in cur.fetchall():
            self.number = self.number or number
            if number != self.number:
                self.ended.set()
            return number == self.number
        return False

    def change(self, cur):
        while not self.ended.is_set():
            with self.gate:
                if self.may_write(cur):
                    self.write(cur)
                    return
            time.sleep(0.01)

    def write(self, cur):
        super().change(cur)


class Earner(Asking):
    """Earns points: each acknowledged row of the ledger counts once, also after any number of rollups."""

    def write(self, cur):
        self.pending, self.sent = True, time.monotonic()
        cur.execute(EARN)
        self.told.append((self.sent, time.monotonic()))
        self.pending = None
        time.sleep(0.01)


class Saver(Asking):
    """A game that saves a player's progress; the n-th save of all has the number n."""
    saves = None

    def write(self, cur):
        self.saves.n += 1
        cur.execute("CALL wk_put('anna/bag','anna',%s)", (str(self.saves.n),))
        time.sleep(0.03)


class Saves(threading.Thread):
    """Observes the central store: a save is never replaced by an older one."""

    def __init__(self, central):
        super().__init__(daemon=True)
        self.central, self.n, self.newest, self.number = central, 0, 0, 0
        self.wrong, self.ended = [], threading.Event()
        self.failed = None
        self.start()

    def run(self):
        try:
            self.look()
        except Exception as why:  # a dead observer must say in the report of the round what ended it
            self.failed = repr(why)

    def look(self):
        while not self.ended.wait(0.05):
            for seq, blob in self.central.blobs().values():
                if int(blob) < self.newest:
                    self.wrong.append(f"save {int(blob)}, number {seq}, replaced save {self.newest}, number {self.number}")
                else:
                    self.newest, self.number = int(blob), seq

    def stop(self):
        self.ended.set()
        self.join()


class Past(NamedTuple):
    """What the game knew when the restore of an older dump took its world back: see Game.go_back()."""
    writers: list  # of each writer (book, base, told)
    total: tuple  # the least and the greatest total before the changes in `earned`
    earned: list


class Game(AuditedWriters):
    """Writers of rows, and, with a central store, one who earns points and one who saves progress.

    A restore of an older dump takes the world back to the state of that dump, and what was played since is gone. As long as
    the other machine has nothing of the life that begins with it, a promotion there may bring the world before that restore
    back (`past`), and reports that something is lost. `unsure`: the restore may have failed."""
    saves, asks = None, True
    past, unsure = None, False

    def start(self, machine):
        self.past, self.unsure = None, False
        self.world = machine.keeper.world
        self.threads = [Asking(self.world, i, f"{self.seed}/{i}/{self.changes}", self.tables, self.pause)
                        for i in range(self.count)]
        self.others = []
        if self.saves:
            self.number = Progress(machine.keeper, self.saves.central).open("anna")
            self.earner, saver = (kind(self.world, self.count, self.seed, self.tables) for kind in (Earner, Saver))
            saver.saves = self.saves
            self.others = [self.earner, saver]
            [(total,)] = self.totals()
            self.before = total, total
        for writer, book in zip(self.threads, self.book):
            writer.begin(book)
            writer.serial = self.changes + 1
        for writer in self.threads + self.others:
            writer.asks = self.asks
            writer.start()
        self.running = True
        return self

    def stop(self):
        for writer in self.others if self.running else []:
            writer.ended.set()
            writer.join()
        super().stop()

    def totals(self):
        return self.world.sql("SELECT COALESCE(SUM(xp),0) FROM xp_total")

    def hold(self):
        """Prevents all changes until release(). Returns False if a writer is waiting for an answer."""
        held = []
        for writer in self.threads + self.others:
            if not writer.gate.acquire(timeout=5):
                for gate in held:
                    gate.release()
                return False
            held.append(writer.gate)
        return True

    def release(self):
        for writer in self.threads + self.others:
            writer.gate.release()

    def moment(self):
        """Returns what the restore of a dump that is made now brings back, or None if the world differs from what the writers
        know, because it was lost or another machine took it over. To be called while the game is held."""
        with contextlib.suppress(pymysql.err.MySQLError):
            found, twice = self.read()
            [(total,)] = self.totals() if self.saves else [(0,)]
            if not twice and not any(w.pending for w in self.threads + self.others) and found == [
                    {table: {k: v for k, v in rows.items() if v != 0} for table, rows in book.items()} for book in self.book]:
                return found, total
        return None

    def go_back(self, moment, unsure=False):
        """Makes the state of an older dump, which was restored, the world that the audit expects. To be called while the game
        is held. Asserts that totals are at least those of that dump, and at most those from before the restore: a durable
        rollup stays as it is."""
        rows, total = moment
        self.past, self.unsure = Past([(w.book, w.base, w.told) for w in self.threads], self.before if self.saves else (0, 0),
                                      self.earner.told if self.saves else []), unsure
        for n, writer in enumerate(self.threads):
            self.book[n] = copy.deepcopy(rows[n])
            writer.begin(self.book[n])
        if not self.saves:
            return
        self.before, self.earner.told = (total, self.past.total[1] + len(self.past.earned)), []
        if unsure:
            for writer in self.threads + self.others:
                writer.ended.set()
            return
        [(found,)] = self.totals()
        assert self.before[0] <= found <= self.before[1], f"the restored total is {found}, not {self.before}"
        self.before = found, found

    def return_to_past(self):
        """Expects the world before the restore of the older dump again."""
        for n, (writer, (book, base, told)) in enumerate(zip(self.threads, self.past.writers)):
            self.book[n] = writer.book = book
            writer.base, writer.told, writer.pending = base, told, None
        if self.saves:
            self.before, self.earner.told, self.earner.pending = self.past.total, self.past.earned, None
        self.past = None

    def audit(self):
        try:
            super().audit()
        except AssertionError:
            if not self.unsure or not self.past:
                raise
            self.return_to_past()
            super().audit()

    def audit_cut(self, killed):
        try:
            age, lost = super().audit_cut(killed)
        except AssertionError:
            if not self.past:
                raise
            self.return_to_past()
            return super().audit_cut(killed)
        # Without any later change it may as well be the world before the restore, at the moment of that dump.
        self.unsure |= lost == sum(len(writer.told) for writer in self.threads)
        return age, lost

    def audit_totals(self, kept_until):
        """Asserts that what was earned before `kept_until` counts, and nothing twice. If the restored dump and the world before
        that restore can both be what is there, the totals of both are possible."""
        if not self.saves:
            return
        [(found,)] = self.totals()
        least = self.before[0] + sum(told[1] < kept_until for told in self.earner.told)
        most = self.before[1] + len(self.earner.told) + bool(self.earner.pending)
        if self.past and self.unsure:
            least = min(least, self.past.total[0] + sum(told[1] < kept_until for told in self.past.earned))
            most = max(most, self.past.total[1] + len(self.past.earned))
        assert least <= found <= most, f"the total is {found}, not {least} to {most}"
        assert not self.saves.wrong, self.saves.wrong[:3]

    def audit_lock(self):
        """Asserts that the open session here does not go on with the lock's number of the other machine: each life takes the
        locks anew, or closes the sessions."""
        for (number,) in self.world.sql("SELECT lock_seq FROM wk_session WHERE state='open'") if self.saves else []:
            assert number > self.number, f"the session goes on with the lock's number {number}; before it was {self.number}"


def kinds_of(etcd, leased):
    """Returns the disturbances that are possible here; the usual ones occur in it more often."""
    return (["kill", "stop", "stop", "freeze", "links", "links", "late", "switch", "switch", "members", "hour", "store", "store",
             "old_disk", "hints", "life", "life", *["commands"] * 4] + ([] if sanitized() else ["clock", "clock"])
            + (["place", "insist", "insist"] if leased else []) + (["unstored"] if etcd or not leased else [])
            + (["peers", "peers"] if etcd and etcd.doors else []))


MOVERS = ["kill", "switch", "hour", "old_disk"]  # most of them change the machine
STEPS = ["command", "command", "command", "restore", "restore_table", "restore_older", "restore_older", "ddl", "rollup",
         "write_back", "pause", "reload", "crash", "demote_force", "new_round"]
LEASED = ["insist"]  # steps that only a lease makes harmless


class Torture:
    """Rounds over two machines, of which the first is the primary; `etcd` or None. `kinds`: what is done to them, by the
    names of the methods. Without a lease (`leased`) nothing but the operator keeps two machines apart: the standby is
    promoted with --force only where the primary and its server are lost, and the game asks nobody."""

    def __init__(self, machines, store, seed, etcd=None, kinds=None, central=None, leased=True):
        self.kinds = kinds or kinds_of(etcd, leased)
        self.machines, self.store, self.etcd, self.seed = machines, store, etcd, seed
        self.random = random.Random(str(seed))
        self.primary, self.standby = machines
        self.game = Game(self.primary.keeper.world, seed, count=2)
        self.game.pause, self.game.others = 0.004, []
        self.game.saves = Saves(central) if central else None
        self.leased = self.game.asks = leased
        self.observer, self.counts, self.ages = Observer(machines), collections.Counter(), []
        self.presses, self.story, self.paused, self.warm = [], [], set(), False

    def say(self, *words):
        self.story.append(f"{time.monotonic() - self.began:.2f} " + " ".join(map(str, words)))

    def about(self):
        return (f"seed {self.seed}: " + "; ".join(self.story) + "".join(
            f"\nmachine {m.number}: {m.keeper.about()}" for m in self.machines))

    # -- one round --------------------------------------------------------------------------------

    def round(self):
        """Makes one disturbance or, in each second round, as many as change the machine three times."""
        before, far = self.counts["moved"], self.random.random() < 0.5
        self.began, self.story = time.monotonic(), []
        self.keep_warm(self.random.random() < 0.4)
        for n in range(8 if far else 1):
            self.leg(MOVERS if far and n % 2 and not set(MOVERS) - set(self.kinds) else self.kinds)
            if self.counts["moved"] - before >= 3:
                break
        self.counts["rounds"] += 1
        self.counts["three changes"] += self.counts["moved"] - before >= 3
        return self.counts["moved"] - before

    def keep_warm(self, warm):
        """Makes the standby of this round keep the world loaded, or not; both machines have the setting, because either can be
        the standby."""
        self.counts["warm rounds"] += warm
        for machine in self.machines if warm != self.warm else []:
            machine.keeper.reload({"standby": {"warm": "yes" if warm else "no"}})
        self.warm = warm

    def wait_warm(self):
        """Waits for the copy, but not for long: the standby is cold after a change of a table, for example."""
        end = time.monotonic() + self.random.choice([0, 10, 10])
        while self.warm and time.monotonic() < end:
            if ((self.standby.keeper.status().get("standby") or {}).get("warm") or {}).get("state") == "ready":
                self.counts["copies ready"] += 1
                return
            time.sleep(0.1)

    def leg(self, kinds):
        self.presses, self.switched, self.said = [], None, []
        for machine in self.machines:
            machine.jumps = (0,)
        self.game.start(self.primary)
        self.game.wait_changes(20)
        self.wait_warm()
        stored = self.wait_pulled()
        self.disturbed = time.monotonic()
        old = self.primary
        self.server_ended, self.nothing_fails = None, False
        kind = self.random.choice(kinds)
        getattr(self, "do_" + kind)()
        self.counts[kind] += 1
        self.settle()
        moved = self.primary is not old
        self.game.stop()
        self.game.world = self.primary.keeper.world
        self.check(moved, self.least_kept(stored, old))
        self.counts["legs"] += 1
        self.counts["moved"] += moved

    def may_lose(self, moved):
        """Returns whether a promotion reported a loss, or its answer is not known."""
        if self.nothing_fails:
            return False
        handed_over = self.switched is not None and self.switched.rc == DONE
        promotions = [(words, done) for _, words, done in self.said if words[0] == "--promote" and done.rc != REFUSED]
        # With --force a promotion takes what is there, whatever was handed over, and says so.
        insisted = self.leased and any("--force" in words for words, _ in promotions)
        if moved and handed_over and len(promotions) < 2 and not insisted:
            return False
        return any(done.rc != DONE or '"nothing lost"' not in done.out for _, done in promotions)

    def least_kept(self, stored, old):
        """Returns the moment before which nothing may be lost: `stored`, at which the standby had all of it. A machine that had
        the world since, and is promoted with --force without the store, has its dumps, but no journal after them."""
        for machine, words, done in self.said if self.leased else []:
            if "--force" not in words or words[0] != "--promote" or not re.search('"recorded": ?false', done.out):
                continue
            self.counts["promoted without the store"] += 1
            if machine is old or any(m is machine and w[0] in ("--demote", "--switch-over") for m, w, _ in self.said):
                to = re.search('"restored_to": ?"([^"]*)"', done.out)[1]
                stored = min(stored, unix(to) - 1 - time.time() + time.monotonic())
        return stored

    def check(self, moved, stored):
        try:
            kept_until = time.monotonic()
            if not self.may_lose(moved):
                self.game.audit()
            else:
                age, lost = self.game.audit_cut(kept_until)
                self.counts["lost"] += lost
                if lost:
                    assert kept_until - age >= stored, (
                        f"lost what was stored: {lost} changes, the first {kept_until - age - stored} s too early")
                    self.ages.append(self.disturbed - (kept_until - age))  # below 0: after the fault began
                kept_until = stored
            self.game.audit_totals(kept_until)
            if moved:
                self.game.audit_lock()
            assert self.observer.is_alive(), "nobody looks at both sides any more"
            assert not self.game.saves or self.game.saves.is_alive(), (
                f"nobody looks at the central store any more: {self.game.saves.failed}")
            assert not self.observer.both, f"both are up: {self.observer.both[:2]}"
            assert not self.store.older, self.store.older[:3]
        except (AssertionError, pymysql.err.MySQLError) as wrong:
            raise AssertionError(f"{wrong}\n{self.about()}") from None

    def wait_pulled(self):
        """Waits until the standby has everything that the primary has now. Returns the time before."""
        one, two = self.primary.keeper, self.standby.keeper
        before = time.monotonic()
        try:
            one.segments.wait_all()
            goal = size = None

            def is_here():
                # Segments are fetched in order, and only those that the newest dump needs; a dump may be made meanwhile. After a
                # promotion the journal begins with the first dump of the new generation.
                nonlocal goal, size
                if one.newest()["generation"] < one.status()["generation"]:
                    return False
                newest, last = one.newest()["name"], one.segments.paths()[-1]
                if (newest, last) != goal:
                    goal, size = (newest, last), os.path.getsize(last)
                return (two.status().get("standby") or {}).get("newest") == newest and (
                    os.path.getsize(os.path.join(two.dumps_dir, "journal", os.path.basename(last))) >= size)
            wait_for(is_here, "the standby has all of it")
        except AssertionError as wrong:
            raise AssertionError(f"{wrong}\n{self.about()}") from None
        return before

    # -- disturbances -----------------------------------------------------------------------------

    def words(self, words, lost=False):
        """Returns the command with the options that it needs: a promotion prints JSON, so that the loss that it reports
        can be judged, and it is manual or forced if there is no lease. `lost`: the other machine is lost."""
        if words == ("--promote", "--force") and self.leased:
            return (*words, "--json")
        if words != ("--promote",):
            return words
        return ("--promote", "--json", *([] if self.leased else ["--by-hand", *(["--force"] if lost else [])]))

    def press(self, machine, *words, lost=False):
        words = self.words(words, lost)
        self.say("machine", machine.number, *words)
        self.presses.append((machine, words, machine.keeper.popen(*words)))

    def press_about(self):
        """Promotes the standby: once, twice, on both sides, or not at all."""
        self.wait_a_while(0.5)
        for machine in self.random.choice([[self.standby], [self.standby] * 2, [self.standby, self.primary],
                                           [self.primary, self.standby, self.standby], []]):
            self.press(machine, "--promote")
            self.wait_a_while(0.1)

    # Commands of an operator, on either side, at any moment, one after the other or at the same time.

    def do_commands(self):
        for _ in range(self.random.randint(3, 6)):
            step = self.random.choice(STEPS + (LEASED if self.leased else []))
            self.counts[f"step {step}"] += 1
            getattr(self, "step_" + step)(self.random.choice([self.primary, self.primary, self.standby]))
            self.wait_a_while(1)

    def do_hints(self):
        """Does what the hint of a refused command recommends, as an operator would, except if the hint has a condition
        that only a person can judge. No fault is active meanwhile, so nothing may be lost."""
        self.nothing_fails = True
        for _ in range(2):
            machine, words = self.random.choice(self.machines), [self.random.choice(["--demote", "--promote", "--switch-over"])]
            for _ in range(3):
                done = self.do(machine, *words)
                hint = re.search(r"^HINT: (?:runuser .*?-- )?worldkeeper (?:--config \S+ )?((?:--[a-z-]+ ?)+)", done.err, re.M)
                if done.rc == DONE or not hint:
                    break
                words = hint[1].split()

    def step_command(self, machine):
        self.press(machine, self.random.choice(["--promote", "--demote", "--switch-over", "--dump"]))

    def step_demote_force(self, machine):
        """Demotes a machine although it is up. What it had not stored is lost, as the next promotion says."""
        self.press(machine, "--demote", "--force")

    def step_insist(self, machine):
        """Promotes a machine with --force, which a lease refuses while another machine has it."""
        self.press(machine, "--promote", "--force")

    def step_new_round(self, machine):
        """Begins a new round with the tables as they are, so that the world stays what it was. Nothing else is done until its
        first dump is stored: before that no other machine can take the round over."""
        self.finish_presses()
        done = self.do(machine, "--new-round", "--json")
        if done.rc == DONE:
            self.wait_taken(machine, done.result["generation"], 30)

    def step_restore_older(self, _):
        """Restores a dump of some moments ago, on the machine that had the world when the leg began. The game is held at
        both moments, so that the oracle knows the state that it expects from then on."""
        machine, game, held = self.primary, self.game, None
        if game.past or not game.hold():
            self.counts["not held"] += 1
            return
        try:
            before = game.moment()
            dump = self.do(machine, "--dump", "--json") if before else None
            held = dump and dump.rc == DONE and game.moment() == before and (before, dump.result["name"])
        finally:
            game.release()
        if not held:
            self.counts[f"no older dump {bool(before)} {dump and dump.rc}"] += 1
            return
        between = self.random.choice([None, None, self.step_rollup, self.step_write_back])
        if between:
            between(machine)
        self.wait_a_while(2)
        if game.hold():
            try:
                self.go_back(machine, *held)
            finally:
                game.release()
            # From then on no promotion may bring back the world before that restore.
            if game.past and self.restored and self.random.random() < 0.7 and self.wait_taken(machine, self.restored, 8):
                self.counts["went back for good"] += 1
                game.past = None

    def go_back(self, machine, moment, dump):
        """Restores the dump and, as the answer recommends, ends the sessions of players that were restored. They saved with
        numbers after that dump's already, so nobody may save in them again."""
        changes = sum(len(w.told) for w in self.game.threads)
        done = self.do(machine, f"--restore={dump}", "--force", "--json")
        if done.rc == DONE:
            for saver in self.game.others[1:]:
                saver.ended.set()
            self.game.go_back(moment)
            self.restored = done.result["generation"]
            self.do(machine, "--write-back", "--unlock")
        elif not self.game.moment():  # the outcome is unknown
            self.game.go_back(moment, True)
            self.restored = None
        else:
            return
        self.say(changes - sum(len(w.told) for w in self.game.threads), "changes since the leg began are undone, or those after",
                 dump, "unsure" if self.game.unsure else "")
        self.counts["went back, unsure" if self.game.unsure else "went back"] += 1

    def wait_taken(self, machine, generation, most):
        """Waits, but not for long, until the other machine has a dump of this life of the world. Returns whether it has."""
        end, other = time.monotonic() + most, next(m for m in self.machines if m is not machine)
        while time.monotonic() < end:
            newest = (other.keeper.status().get("standby") or {}).get("newest") or ""
            found = re.search(r"-(\d{6})-\d{8}-", newest)
            if found and int(found[1]) >= generation:
                self.say("the other machine has generation", generation)
                return True
            time.sleep(0.1)
        return False

    def step_restore(self, machine, *more):
        """Restores a dump that is made now. The game is held meanwhile, so that the restored world is that of this moment: a
        restored table does not use the journal, and no journal leads over an earlier restore."""
        if not self.game.hold():
            return
        try:
            if self.do(machine, "--dump").rc == DONE:
                self.do(machine, "--restore", "--force", *more)
        finally:
            self.game.release()

    def step_restore_table(self, machine):
        self.step_restore(machine, "--table", self.random.choice(["bank", "ship", "news"]))

    def step_ddl(self, machine):
        n = len(self.story)
        statement = self.random.choice([f"CREATE TABLE extra_{n} (id INT PRIMARY KEY) ENGINE=MEMORY",
                                        "DROP TABLE IF EXISTS extra_1", f"ALTER TABLE ship COMMENT='{n}'",
                                        f"ALTER TABLE bank ADD KEY k_{n} (who)"])
        self.say("machine", machine.number, statement)
        try:
            machine.keeper.world.sql("SET lock_wait_timeout=2", statement)
        except pymysql.err.MySQLError as refused:
            self.say(refused)

    def step_rollup(self, machine):
        self.press(machine, "--rollup=xp", "--until", UNTIL)

    def step_write_back(self, machine):
        self.press(machine, "--write-back")

    def step_pause(self, machine):
        self.paused.add(machine)
        self.press(machine, "--pause")

    def step_reload(self, machine):
        self.say("machine", machine.number, "SIGHUP")
        machine.keeper.process.send_signal(SIGHUP)

    def step_crash(self, machine):
        self.say("machine", machine.number, "kill, and start")
        machine.keeper.kill9()
        machine.keeper.start(None)

    def do_store(self):
        """Makes the store refuse everything to one machine or both, lose answers to writes, or be slow."""
        doors = [self.store.doors[m.number].fault for m in self.random.choice([[self.primary], [self.standby], self.machines])]
        how = self.random.choice(["away", "lost", "late"])
        self.say("the store of", len(doors), "machines:", how)
        for door in doors:
            setattr(door, how, {"away": True, "lost": self.random.randint(1, 9), "late": self.random.choice([0.2, 1])}[how])
        self.press_about()
        if self.random.random() < 0.3:
            self.press(self.primary, "--switch-over")
        time.sleep(TTL * self.random.choice([0.2, 0.6, 1.5, 2]))

    def do_old_disk(self):
        """Loses the primary with its server. It returns with an older disk when the other machine has the world."""
        old, new = self.primary, self.standby
        disk, older = old.keeper.dumps_dir, old.keeper.dumps_dir + ".old"
        old.stop(True)
        shutil.copytree(disk, older)
        old.go_on()
        self.wait_a_while(2)
        self.say("the primary is lost")
        old.lose()
        self.press(new, "--promote", lost=True)
        self.finish_presses(new)
        self.say("it is back, with its old disk")
        shutil.rmtree(disk)
        os.rename(older, disk)
        old.keeper.server.start()
        old.keeper.start(None)

    def do_unstored(self):
        """Makes the primary restore its world while it cannot reach the store, and loses it. The other machine takes the
        world over without knowing of that life. When the first machine returns, its life is over."""
        old, new = self.primary, self.standby
        door = self.store.doors[old.number].fault
        self.say("the primary does not reach the store")
        door.away = True
        self.step_restore(old)
        self.wait_a_while(3)
        self.say("it is lost")
        old.lose()
        self.press(new, "--promote", lost=True)
        self.finish_presses(new)
        door.away = False
        self.say("it is back")
        old.keeper.server.start()
        old.keeper.start(None)

    def do_place(self):
        """Empties the place of the lease while the primary is up; or loses or stops the primary, lets the other machine take the
        world over, and then empties the place, or restores it from a backup in which the first machine has the lease."""
        old, new = self.primary, self.standby
        had, how = self.place(), self.random.choice(["up", "lost", "killed", "stopped"])
        if how == "up":
            self.say("the place of the lease is emptied")
            self.put_place({})
            self.wait_a_while(2 * TTL)
            return
        self.say("the primary is", how)
        {"lost": old.lose, "killed": old.keeper.kill9, "stopped": lambda: old.stop(True)}[how]()
        self.press(new, "--promote", lost=True)
        self.finish_presses(new)
        older = self.random.random() < 0.5
        self.say("the place of the lease is", "older" if older else "emptied")
        self.put_place(had if older else {})
        self.say("it is back")
        old.go_on()
        if how == "lost":
            old.keeper.server.start()
        if how != "stopped":
            old.keeper.start(None)
        self.wait_a_while(2 * TTL)

    def place(self):
        """Returns what the place of the lease has."""
        name = self.primary.keeper.name
        path = f"/bucket/{name}/lease.json"
        return self.etcd.keys(name) if self.etcd else {k: v for k, v in list(self.store.objects.items()) if k == path}

    def put_place(self, was):
        name = self.primary.keeper.name
        if self.etcd:
            self.etcd.put_back(name, was, TTL)
            return
        with self.store.lock:
            self.store.objects.pop(f"/bucket/{name}/lease.json", None)
            self.store.objects.update(was)

    def wait_a_while(self, most):
        time.sleep(self.random.uniform(0, most))

    def do_kill(self):
        self.say("kill")
        if self.random.random() < 0.5 or not self.leased:
            self.say("its server, too")
            self.primary.lose()
            self.server_ended = self.primary
        else:
            self.primary.keeper.kill9()
        self.press(self.standby, "--promote", lost=True)
        if self.random.random() < 0.5:
            self.press(self.standby, "--promote", lost=True)
        self.finish_presses()

    def do_insist(self):
        """Promotes the standby with --force after the primary was lost or has handed over, perhaps while the store does not
        answer: the operator accepts the loss, which the answer must name."""
        away = self.random.choice([[], [self.standby], self.machines])
        doors = [self.store.doors[m.number].fault for m in away]
        how = self.random.choice(["switch", "kill", "server"])
        first = self.random.random() < 0.5 and how != "switch"
        self.say("insist:", how, ", without the store:", [m.number for m in away])
        for door in doors if first else []:
            door.away = True
        self.wait_a_while(2)
        if how == "switch":
            self.press(self.primary, "--switch-over")
            self.wait_a_while(3)
            if self.random.random() < 0.5:
                self.finish_presses(self.primary)
        elif how == "kill":
            self.primary.keeper.kill9()
        else:
            self.primary.lose()
            self.server_ended = self.primary
        for door in doors:
            door.away = True
        for _ in range(self.random.choice([1, 1, 2])):
            self.press(self.standby, "--promote", "--force")
            self.wait_a_while(0.5)
        self.finish_presses(self.standby)
        self.wait_a_while(2)

    def do_life(self):
        """Begins another life of the world, by the restore of an older dump or by a new round. Soon after it, perhaps before
        anything of it is stored, the primary is lost, hands over, or is demoted by force."""
        self.random.choice([self.step_restore_older, self.step_restore_older, self.step_new_round])(self.primary)
        self.wait_a_while(2)
        ends = [self.do_kill, self.do_switch, self.press_about, lambda: self.step_demote_force(self.primary)]
        self.random.choice(ends + ([self.do_insist] if self.leased else []))()

    def do_stop(self, whole=True):
        """Stops a machine for longer or shorter than the lease."""
        self.say("stop" if whole else "stop the supervisor alone")
        self.primary.stop(whole)
        self.press_about()
        time.sleep(TTL * self.random.choice([0.2, 0.5, 1.5, 2]))
        if self.random.random() < 0.5:
            self.finish_presses(self.standby)
        self.say("go on")
        self.primary.go_on()

    def do_freeze(self):
        if self.random.random() < 0.5:
            self.press(self.primary, "--switch-over")
            self.wait_a_while(1.5)
        self.do_stop(False)

    def do_links(self, hows=("cut", "silent", "late")):
        some = [(m, name) for m in self.machines for name in m.links]
        for machine, name in self.random.sample(some, self.random.choice([1, 1, 2, 3, len(some)])):
            how, late = self.random.choice(hows), self.random.choice([0.05, 0.3, 1, TTL])
            self.say("machine", machine.number, name, how, late if how == "late" else "")
            machine.links[name].disturb(how, late)
        self.press_about()
        time.sleep(TTL * self.random.choice([0.2, 0.6, 1.5, 2]))

    def do_late(self):
        self.do_links(["late"])

    def do_switch(self):
        """Switches over; this must lose nothing, whatever happens meanwhile, if it reports success."""
        self.press(self.primary, "--switch-over")
        what = self.random.choice(["", "", "kill", "links", "stop"])
        if what:
            self.wait_a_while(2)
        if what == "links":
            self.do_links()
        elif what == "stop":
            self.do_stop()
        elif what == "kill":
            self.say("kill")
            self.primary.keeper.kill9()

    def do_clock(self):
        """Makes the clock of one side or both jump, beside a switch-over, a cut link, or alone; and perhaps back."""
        jumped = self.random.choice([[self.primary], [self.standby], self.machines])
        for machine in jumped:
            seconds = self.random.choice([-DAY, -3600, -2 * TTL, 2 * TTL, 3600, DAY])
            self.say("the clock of machine", machine.number, "jumps by", seconds)
            machine.set_clock(seconds)
        self.wait_a_while(1)
        if self.random.random() < 0.3:
            self.press(self.primary, "--switch-over")
        else:
            self.press_about()
        if self.random.random() < 0.3:
            return self.do_links()
        time.sleep(TTL * self.random.choice([0.2, 0.6, 1.5, 2]))
        if self.random.random() < 0.5:
            self.say("and back")
            for machine in jumped:
                machine.set_clock(0)
            self.wait_a_while(TTL)

    def do_members(self):
        """Stops some members of etcd; if the store has the lease, cuts both links to it."""
        if not self.etcd:
            for machine in self.machines:
                machine.links["store"].disturb(self.random.choice(["cut", "silent"]), 0)
            self.press_about()
            time.sleep(TTL * self.random.choice([0.3, 1.5]))
            return
        some = self.random.sample(self.etcd.processes, self.random.randint(1, len(self.etcd.processes)))
        self.say(len(some), "members stand still")
        for process in some:
            process.send_signal(SIGSTOP)
        self.press_about()
        time.sleep(TTL * self.random.choice([0.3, 1.5]))
        for process in some:
            process.send_signal(SIGCONT)

    def do_peers(self):
        """Cuts one of three members of etcd off from the others, the leader or a follower, or all from each other. Each
        machine reaches all of them, or only one that is cut off."""
        leader = wait_for(lambda: (lambda n: n is not None and [n])(self.etcd.leader()), "etcd to have a leader")[0]
        followers = [i for i in range(self.etcd.count) if i != leader]
        what = self.random.choice(["leader", "leader", "follower", "all"])
        members = {"leader": [leader], "follower": followers[:1], "all": followers}[what]
        how = self.random.choice(["cut", "silent"])
        lonely = self.random.choice([[], [self.primary], [self.primary], [self.standby], self.machines])
        alone = self.random.choice(members)
        self.say("etcd:", what, "cut off," if how == "cut" else "hears nothing,", "which is all that machines",
                 [m.number for m in lonely], "reach")
        for machine in lonely:
            for i in range(self.etcd.count):
                if i != alone:
                    machine.links[f"etcd-{i}"].disturb(how)
        self.etcd.cut_off(members, how)
        began = time.monotonic()
        self.counts[f"peers {what}"] += 1
        if self.random.random() < 0.2:
            self.press(self.primary, "--switch-over")
        self.press_about()
        time.sleep(TTL * self.random.choice([0.3, 0.6, 1.5, 2]))
        cut_off = what == "all" or self.primary in lonely
        if cut_off and time.monotonic() - began > TTL:  # the renewal was requested before
            self.counts["stepped back"] += 1
            said, now = read_status(self.primary), time.time()
            assert not (said.get("ready") and said["until"] > now), f"up without a majority: {said}\n{self.about()}"
        if what == "all" or self.standby in lonely:
            for press in [p for p in self.presses if p[0] is self.standby and p[2].poll() is not None]:
                assert press[2].returncode != DONE, f"promoted without a majority\n{self.about()}"
        if self.random.random() < 0.5:
            self.finish_presses(self.standby)
        self.etcd.mend()

    def do_hour(self):
        """Stops or kills the primary while the other machine takes the world over and the clocks go on by an hour. When it
        returns, the newest dumps in the store and the generation are the other machine's."""
        old, new = self.primary, self.standby
        stopped = self.random.choice(["stopped", "killed"]) if self.leased else "lost"
        self.say("the primary is", stopped, "for an hour")
        {"stopped": lambda: old.stop(True), "killed": old.keeper.kill9, "lost": old.lose}[stopped]()
        self.press(new, "--promote", lost=True)
        self.finish_presses(new)
        wait_for(lambda: new.keeper.status().get("state") == "UP", self.about)
        first = new.keeper.newest()
        for _ in range(self.random.choice([1, 3])):
            new.keeper.run("--dump")
        wait_for(lambda: ((new.keeper.status().get("offsite") or {}).get("newest") or "") > first["name"], self.about)
        if not sanitized():
            for machine in self.machines:
                machine.set_clock(3600)
        self.say("it is back")
        old.go_on()
        if stopped == "lost":
            old.keeper.server.start()
        if stopped != "stopped":
            old.keeper.start(None)
        if self.random.random() < 0.5:
            self.press(old, self.random.choice(["--promote", "--switch-over"]))
        time.sleep(TTL * self.random.choice([0.2, 0.6, 1.5]))

    # -- recovery ---------------------------------------------------------------------------------

    def finish_presses(self, of=None):
        """Waits for the commands on one machine, or on all."""
        for press in [p for p in self.presses if of in (None, p[0])]:
            self.presses.remove(press)
            machine, words, process = press
            done = machine.keeper.finish(process)
            self.say("machine", machine.number, *words, "->", done.rc, done.err.strip()[-200:] if done.rc else "")
            self.heard(machine, words, done)
            if words[0] == "--switch-over":
                self.switched = done

    def heard(self, machine, words, done):
        """Notes the answer to a command for the oracle, and counts it."""
        self.said.append((machine, words, done))
        self.counts[" ".join([words[0].partition("=")[0], *(["--force"] if "--force" in words else []), str(done.rc)])] += 1
        if words[0] == "--promote" and done.rc == DONE:
            self.counts["promoted warm" if re.search('"warm": ?true', done.out) else "promoted cold"] += 1

    def settle(self):
        for machine in self.machines:
            machine.mend()
        self.finish_presses()
        for door in self.store.doors:
            door.fault.away, door.fault.lost, door.fault.late = False, 0, 0
        if self.server_ended:
            self.server_ended.keeper.server.start()
        for machine in self.machines:
            if not machine.keeper.alive():
                machine.keeper.start(None)
        for machine in list(self.paused):
            self.do(machine, "--resume")
        self.paused = set()
        wait_for(self.is_settled, self.about)

    def is_settled(self):
        """Returns whether one machine is up and the other one is its standby. Demotes a machine that has stepped back,
        and promotes one of two standbys. The supervisors are asked, because a status file counts for some seconds after
        its world was handed over."""
        states = [json.loads(m.keeper.run("--status", "--json").out or "{}") for m in self.machines]
        now = time.time()
        if any("valid_until" not in s or s["running"] or precise(s["valid_until"]) <= now or precise(s["updated"]) > now + 1
               for s in states):
            return False  # what stands there may be long past, or of a clock that jumped
        words = [s["state"] for s in states]
        for machine, s in zip(self.machines, states):
            if s["state"] != "STANDBY" and (s.get("lease") or {}).get("state") == "stepped-back":
                self.do(machine, "--demote")
                return False
        if sorted(words) == ["STANDBY", "UP"]:
            self.primary, self.standby = self.machines if words[0] == "UP" else reversed(self.machines)
            return True
        if words == ["STANDBY"] * 2:
            done = self.do(self.standby, "--promote")
            if done.rc != DONE and not self.leased:  # the other one has stopped, as it says itself
                done = self.do(self.standby, "--promote", lost=True)
            if done.rc == NOTHING:  # the first dump of a new round is only on the machine that began the round
                self.counts["began a round alone"] += 1
                self.do(self.primary, "--promote", lost=True)
        return False

    def do(self, machine, *words, lost=False):
        words = self.words(words, lost)
        done = machine.keeper.run(*words)
        self.heard(machine, words, done)
        self.say("machine", machine.number, *words, "->", done.rc, done.err.strip()[-300:] if done.rc else "")
        return done

    def end(self):
        self.observer.stop()
        self.game.stop()
        if self.game.saves:
            self.game.saves.stop()
        for machine in self.machines:
            machine.mend()
            for link in machine.links.values():
                link.stop()
            machine.keeper.destroy()  # now, because a test may make further pairs
            machine.keeper.server.destroy()
