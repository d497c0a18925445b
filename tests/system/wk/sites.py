"""Game servers, each with a world kept by worldkeeper, over one central store of players' progress: their play, its
disturbances, and the check of the result."""
import collections
import contextlib
import random
import threading
import time

import pymysql

from .progress import ADD_LOADED, OPEN_SESSION, made
from .torture import Cable
from .util import CANARY, PATIENCE
from .watch import Lateness

BLOBS = 3  # per player
TAKEOVER_MS = 1500
INTERVAL = 1  # seconds of [progress] write_back
NOBODY = (0, 0)


def value_of(text):
    """Returns who saved this blob: the session's lock number, and the number of its save."""
    number, n = text.decode().split(".")
    return int(number), int(n)


class Session:
    """A player's session of one game server: the blobs that it loaded, the number of requested saves, and for each blob
    [(time, number)] of those that were acknowledged."""

    def __init__(self, site, lock, number):
        self.site, self.lock, self.number = site, lock, number
        self.began, self.loaded, self.asked, self.saved = time.monotonic(), {}, 0, collections.defaultdict(list)


class Site:
    """One game server: its world's server, a worldkeeper over it, and a line to the central store."""

    def __init__(self, number, server, keeper, central):
        self.name, self.server, self.keeper, self.central = f"gs-{number}", server, keeper, central
        self.cable = Cable(central.server.socket)
        self.sessions, self.playing, self.guard, self.own = [], set(), threading.Lock(), threading.local()
        made(keeper, central, lock_id=self.name, write_back=f"{INTERVAL}s", socket=None, host="127.0.0.1",
             port=str(self.cable.port), tls="preferred")
        keeper.dump()
        keeper.start()

    def ask(self, routine, *args):
        """Calls the central store over this game server's line."""
        con = pymysql.connect(host="127.0.0.1", port=self.cable.port, user="gs", password=CANARY,
                              database=self.central.schema, autocommit=True, connect_timeout=5, read_timeout=5)
        with con, con.cursor() as cur:
            cur.execute(f"CALL {routine}({','.join(['%s'] * len(args))})", args)
            return cur.fetchall()

    def local(self, *statements):
        """Runs statements in the world, over the thread's connection, or over a new one after an error."""
        con = getattr(self.own, "con", None) or self.server.admin(self.keeper.world.schema, read_timeout=20)
        self.own.con = None
        try:
            with con.cursor() as cur:
                for statement in statements:
                    cur.execute(*statement)
                rows = cur.fetchall()
        except Exception:
            con.close()
            raise
        self.own.con = con
        return rows

    def open(self, lock, until):
        """Opens a session as worldkeeper-progress(7) says, after the last session here has ended. Returns None if it is not
        possible now."""
        while (there := self.local(("SELECT (SELECT COUNT(*) FROM worldkeeper_sentinel),"
                                    "(SELECT COUNT(*) FROM wk_session WHERE lock_key=%s)", (lock,)))[0]) != (1, 0):
            if until():
                return None
            if there == (1, 1):
                self.local(("CALL wk_close(%s)", (lock,)))
            time.sleep(0.1)
        outcome = "busy"
        while outcome == "busy":
            if until():
                return None
            outcome, number, *_ = self.ask("wk_acquire", lock, self.name, TAKEOVER_MS)[0]
            time.sleep(random.uniform(0.05, 0.1))
        session = Session(self, lock, number)
        rows = self.ask("wk_load", lock, self.name, number)
        if rows[0][0] == "stolen":
            return None
        session.loaded = {f"{lock}/{i}": (0, b"0.0") for i in range(BLOBS)}
        session.loaded.update({key.decode(): (seq, blob) for outcome, key, seq, blob in rows if outcome == "loaded"})
        self.local((OPEN_SESSION, (lock, number)), *(
            (ADD_LOADED, (key, lock, seq, seq, blob)) for key, (seq, blob) in session.loaded.items() if seq))
        if self.local(("SELECT COUNT(*) FROM worldkeeper_sentinel",)) != ((1,),):
            return None
        with self.guard:
            self.sessions.append(session)
        return session

    def save(self, session, key):
        """Saves a blob. Returns False if the outcome is unknown; the next save has another number."""
        session.asked += 1
        try:
            self.local(("CALL wk_put(%s,%s,_binary %s)", (key, session.lock, f"{session.number}.{session.asked}".encode())))
        except pymysql.err.MySQLError:
            return False
        session.saved[key].append((time.monotonic(), session.asked))
        return True

    def play(self, rand, players, until):
        """Plays sessions of random players, one after the other. One in four lasts long, also if the player is taken over."""
        while not until():
            lock = f"p{rand.randrange(players)}"
            with self.guard:
                if lock in self.playing:
                    continue
                self.playing.add(lock)
            end = time.monotonic() + rand.uniform(0.2, 1) + (5 if rand.random() < 0.25 else 0)
            with contextlib.suppress(pymysql.err.MySQLError, OSError):
                session = self.open(lock, lambda: until() or time.monotonic() > end + 4)  # noqa: B023
                while session and not until() and time.monotonic() < end:
                    if not self.save(session, f"{lock}/{rand.randrange(BLOBS)}"):
                        time.sleep(0.1)  # the world is lost and not yet restored
                    time.sleep(rand.uniform(0.01, 0.05))
                if session and rand.random() < 0.8:
                    self.local(("CALL wk_close(%s)", (lock,)))
            with self.guard:
                self.playing.discard(lock)
            time.sleep(rand.uniform(0.01, 0.1))

    def end_all(self):
        """Ends every session, with its saves sent or moved to wk_stolen."""
        self.cable.is_cut = self.cable.deaf = False
        self.keeper.wait_state("UP")
        end = time.monotonic() + PATIENCE
        while self.local(("SELECT 1 FROM wk_session",)):
            assert time.monotonic() < end, self.keeper.about()
            self.local(("UPDATE wk_session SET state='closing'",))
            time.sleep(0.2)

    def set_aside(self):
        """Returns {blob_key: its values in wk_stolen}."""
        found = collections.defaultdict(list)
        for key, blob in self.local(("SELECT blob_key,`blob` FROM wk_stolen",)):
            found[key.decode()].append(value_of(blob))
        return found


class Sites:
    def __init__(self, sites, seed, players=6):
        self.sites, self.random, self.players = sites, random.Random(seed), players
        self.done = collections.Counter()

    def run(self, seconds):
        """Plays with disturbances; then the first one's machine is lost with its disks, and the others continue."""
        ended, burnt = threading.Event(), threading.Event()
        players = [threading.Thread(target=site.play, daemon=True, args=(
            random.Random(self.random.random()), self.players, burnt.is_set if site is self.sites[0] else ended.is_set))
            for site in self.sites for _ in range(3)]
        with Lateness() as lateness:
            for t in players:
                t.start()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(self.random.uniform(0.2, 1))
                self.disturb(self.random.choice(self.sites))
            self.burn(burnt, lateness)
            time.sleep(3 * TAKEOVER_MS / 1000)
            ended.set()
            for t in players:
                t.join()
            for site in self.sites[1:]:
                site.end_all()
        return self

    def disturb(self, site):
        keeper, what = site.keeper, self.random.choice(["server", "server", "supervisor", "stop", "cut", "cut", "deaf"])
        self.done[what] += 1
        if what == "server":
            before = keeper.status()["generation"]
            site.server.crash()
            keeper.wait(lambda: keeper.status()["generation"] > before and keeper.state() == "UP", "the restore")
        elif what == "supervisor":
            keeper.kill9()
            keeper.start(state=None)
        elif what == "stop":
            with keeper.standing_still():
                time.sleep(self.random.uniform(0.5, 2) * TAKEOVER_MS / 1000)
        else:
            setattr(site.cable, "is_cut" if what == "cut" else "deaf", True)
            time.sleep(self.random.uniform(0.2, 3))
            site.cable.is_cut = True  # a lost answer never arrives, so the connection is cut
            time.sleep(0.2)
            site.cable.is_cut = site.cable.deaf = False

    def burn(self, burnt, lateness):
        """Loses a machine after undisturbed play of players of its own, long enough that some saves are too old to be lost."""
        site = self.sites[0]
        site.keeper.wait_state("UP")
        site.keeper.wait(lambda: site.keeper.status()["progress"]["central"] == "ok", "the central store")
        own = [site.open(f"alone{i}", lambda: False) for i in range(3)]
        began, self.late, slowest = time.monotonic(), lateness.worst_ms / 1000, 0.0
        while time.monotonic() < began + 3 + self.bound():
            for session in own:
                at = time.monotonic()
                site.save(session, f"{session.lock}/{self.random.randrange(BLOBS)}")
                slowest = max(slowest, time.monotonic() - at)
            self.late = max(slowest, lateness.worst_ms / 1000)
            time.sleep(0.02)
        site.keeper.kill9()
        site.server.process.kill()
        site.server.process.wait()
        site.server.process, self.burnt_at = None, time.monotonic()
        burnt.set()
        site.cable.is_cut = True

    def bound(self):
        """Returns the greatest age in seconds of saves that may be lost with a machine. A write-back asks two servers, and each
        may be as late as this process or as the slowest save."""
        return INTERVAL + 1 + 2 * self.late

    def check(self):
        return Check(self)


class Check:
    """The violations in words, in `wrong`."""

    def __init__(self, sites):
        self.wrong, self.counts = [], collections.Counter(sites.done)
        burnt = self.burnt = sites.sites[0]
        sessions = sorted((s for site in sites.sites for s in site.sessions), key=lambda s: s.number)
        final = {key: value_of(blob) for key, (_, blob) in burnt.central.blobs().items()}
        aside = {site: site.set_aside() for site in sites.sites[1:]}
        self.counts["stolen"] = sum(len(v) for found in aside.values() for v in found.values())
        for lock in {s.lock for s in sessions}:
            of_lock = [s for s in sessions if s.lock == lock]
            for key in (f"{lock}/{i}" for i in range(BLOBS)):
                seen = [(s.number, value_of(s.loaded[key][1])) for s in of_lock]
                seen.append((1 << 62, final.get(key, NOBODY)))
                self.fenced(key, seen, of_lock)
                for s, (_, then) in zip(of_lock, seen[1:]):
                    if s.site is not burnt:
                        self.kept(key, s, s.saved[key], [then, *aside[s.site][key]])
                    elif not any(x.number > s.number and x.began < sites.burnt_at for x in of_lock):
                        limit = sites.burnt_at - sites.bound()
                        self.kept(key, s, [(at, n) for at, n in s.saved[key] if at < limit], [then])

    def fenced(self, key, seen, sessions):
        """Checks that after a session has loaded, only this session and later ones save."""
        asked = {s.number: s.asked for s in sessions}
        for i, (number, value) in enumerate(seen):
            if value != NOBODY and not 0 < value[1] <= asked.get(value[0], 0):
                self.wrong.append(f"{key}: session {number} loaded {value}, which nobody saved")
            for later, then in seen[i + 1:]:
                if then != value and then[0] < number:
                    self.wrong.append(f"{key}: session {number} loaded {value}; session {later} loads {then}, of an older one")

    def kept(self, key, session, saved, found):
        """Checks that the next session loads the last acknowledged save, or that wk_stolen has that save. The wk_stolen
        of a lost machine is lost, too: there, the last save is the one before the interval, if no other server had taken
        the player over."""
        self.counts["saves"] += len(saved)
        last = max((n for _, n in saved), default=0)
        self.counts["of the burnt"] += bool(last) and session.site is self.burnt
        if last and not any(number == session.number and n >= last for number, n in found):
            self.wrong.append(f"{key}: {session.site.name}'s session {session.number} saved {last}; found {found}")
