"""The progress torture: game servers as processes that are killed, stopped for longer than the takeover time, and cut off; and
the check of what they have recorded."""
import bisect
import collections
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from .util import DIE_WITH_US, free_port

HERE = os.path.dirname(os.path.abspath(__file__))


class Cable(threading.Thread):
    """Carries bytes between a port and a server's socket. deaf: the server's answers are discarded; cut: nothing passes, and
    all connections end."""

    def __init__(self, to):
        super().__init__(daemon=True)
        self.to, self.deaf, self.is_cut, self.pairs = to, False, False, {}
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.port = self.listener.getsockname()[1]
        self.ended = False
        self.start()

    def run(self):
        while not self.ended:
            try:
                ready = select.select([self.listener, *self.pairs], [], [], 0.05)[0]
            except (OSError, ValueError):
                continue
            for end in ready:
                try:
                    self.accept() if end is self.listener else self.carry(end)
                except OSError:
                    self.drop(end)
            if self.is_cut:
                for end in list(self.pairs):
                    self.drop(end)

    def accept(self):
        client, _ = self.listener.accept()
        if self.is_cut:
            return client.close()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.to)
        except OSError:
            return client.close()
        self.pairs[client], self.pairs[server] = (server, False), (client, True)

    def carry(self, end):
        if end not in self.pairs:
            return
        other, is_server = self.pairs[end]
        data = end.recv(1 << 18)
        if not data:
            self.drop(end)
        elif not (is_server and self.deaf):
            other.sendall(data)

    def drop(self, end):
        other, _ = self.pairs.pop(end, (None, None))
        for s in (end, other):
            if s:
                self.pairs.pop(s, None)
                s.close()

    def close(self):
        self.ended = True
        self.join()
        self.listener.close()
        for end in list(self.pairs):
            self.drop(end)


class Torture:
    """`count` game servers over `central` for `seconds`; `endpoints` are sockets of servers (a cluster's nodes)."""

    def __init__(self, central, directory, seed, count=5, players=8, takeover_ms=60, endpoints=None):
        self.central, self.dir, self.random, self.seed = central, directory, random.Random(seed), seed
        self.count, self.players, self.takeover = count, players, takeover_ms
        self.sockets = endpoints or [central.server.socket]
        self.cables = [Cable(s) for s in self.sockets]
        self.started, self.running, self.stopped = 0, [], []
        self.histories = []

    def start(self, number):
        self.started += 1
        history = os.path.join(self.dir, f"h{self.started}")
        self.histories.append(history)
        ends = [str(c.port) for c in self.cables] if number % 2 else self.sockets
        return number, subprocess.Popen(
            [*DIE_WITH_US, sys.executable, os.path.join(HERE, "gameserver.py"), history, f"gs-{number}",
             f"{self.seed}/{self.started}", self.central.schema, str(self.takeover), str(self.players), *ends],
            stderr=subprocess.DEVNULL if self.count > 20 else None)

    def lines(self):
        return sum(sum(1 for _ in open(h, "rb")) for h in self.histories if os.path.exists(h))

    def run(self, seconds, least=500, until=lambda: True):
        """Runs for this long, and until the history has `least` lines and `until` is true."""
        self.running = [self.start(n) for n in range(self.count)]
        begin = time.monotonic()
        try:
            while time.monotonic() < begin + seconds or (
                    (self.lines() < least or not until()) and time.monotonic() < begin + 300):
                time.sleep(self.random.uniform(0.01, 0.1))
                self.disturb()
        finally:
            self.end()
        return self

    def disturb(self):
        for woken in [s for s in self.stopped if s[0] < time.monotonic()]:
            self.stopped.remove(woken)
            woken[1][1].send_signal(signal.SIGCONT)
        what, victim = self.random.random(), self.random.choice(self.running)
        if what < 0.25 and len(self.stopped) < self.count:
            victim[1].send_signal(signal.SIGSTOP)
            self.stopped.append((time.monotonic() + self.takeover / 1000 * self.random.uniform(0.5, 8), victim))
            if self.random.random() < 0.5 and len(self.running) < 2 * self.count:
                self.running.append(self.start(victim[0]))  # a second process of the same game server
        elif what < 0.3:
            victim[1].kill()
            victim[1].wait()
            self.stopped = [s for s in self.stopped if s[1] is not victim]
            self.running.remove(victim)
            if not any(n == victim[0] for n, _ in self.running):
                self.running.append(self.start(victim[0]))
        elif what < 0.5:
            cable = self.random.choice(self.cables)
            cable.deaf = True  # statements arrive, but answers do not
            time.sleep(self.random.uniform(0, 0.02))
            cable.is_cut = True
            time.sleep(self.takeover / 1000 * self.random.uniform(0.1, 2))
            cable.is_cut = cable.deaf = False
            if not cable.is_alive():
                raise AssertionError("the cable broke")

    def end(self):
        for _, process in self.running:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for _, process in self.running:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for cable in self.cables:
            cable.close()

    def check(self):
        return Check(self.histories, self.central).all()


class Save:
    __slots__ = ("begin", "end", "key", "lock", "number", "seq", "text", "outcome", "tries")

    def __init__(self, *values):
        for name, value in zip(self.__slots__, values):
            setattr(self, name, value)


class Check:
    """Compares requests, answers and the central store's final contents with the promises. `wrong` has the violations in
    words."""

    def __init__(self, histories, central):
        self.central, self.wrong = central, []
        self.acquires = collections.defaultdict(list)  # lock: (begin, end, outcome, number, how often it was asked)
        self.releases = collections.defaultdict(list)  # (lock, number): begin
        self.loads, self.saves = [], collections.defaultdict(list)  # key: Save
        self.counts = collections.Counter()
        for path in histories:
            if os.path.exists(path):
                self.read(path)

    def read(self, path):
        with open(path) as f:
            lines = [json.loads(line) for line in f if line.endswith("\n")]
        said = {line[1]: line for line in lines if line[2] == "said"}
        for begin, serial, what, *rest in lines:
            if what == "ask":
                end, _, _, outcome, more, tries = said.get(serial, (float("inf"), 0, 0, "?", None, 1))
                self.tries = tries
                self.take(begin, end, *rest, outcome, more)

    def take(self, begin, end, operation, lock, number, blobs, outcome, more):
        self.counts[outcome if operation == "acquire" else f"{operation} {outcome}"] += 1
        if operation == "acquire":
            self.acquires[lock].append((begin, end, outcome, more, self.tries))
        elif operation == "release":
            self.releases[lock, number].append(begin)
        elif operation == "load":
            if outcome in ("loaded", "none"):
                self.loads.append((begin, end, lock, number, more))
            elif outcome == "stolen":
                self.false_theft.append((begin, end, lock, number, "load"))
        elif operation == "save":
            (key, (seq, text)), = blobs.items()
            self.saves[key].append(Save(begin, end, key, lock, number, seq, text, outcome, self.tries))
        else:  # many, send
            for lock_key, its, (key, (seq, text)) in zip(lock, number, blobs.items()):
                if operation == "many":
                    one = outcome if outcome in ("saved", "same", "?") else outcome if key == more else "none of them"
                else:
                    one = outcome if outcome == "?" else more.get(key, "saved")
                self.saves[key].append(Save(begin, end, key, lock_key, its, seq, text, one, self.tries))

    false_theft = property(lambda self: self.__dict__.setdefault("thefts", []))

    def all(self):
        for lock in self.acquires:
            self.numbers(lock)
        self.thieves()
        self.state = {key.decode(): (number, seq, blob.decode()) for key, number, seq, blob in
                      self.central.sql("SELECT blob_key, lock_seq, seq, `blob` FROM wk_blob")}
        loads = collections.defaultdict(list)
        for begin, end, lock, number, found in self.loads:
            for key in {k for k in self.saves if k.startswith(lock + ".")} | set(found):
                loads[key].append((begin, end, number, found.get(key)))
        for key, saves in self.saves.items():
            self.fenced(key, saves)
            self.kept(key, saves, loads[key])
        for lock_key, wanted, unseen, why in self.central.sql("SELECT lock_key, wanted_ms, unseen_ms, why FROM wk_takeover"):
            if (wanted if why == "wanted" else unseen) is None:
                self.wrong.append(f"{lock_key} was taken over {why} without a time")
        self.counts["takeovers"] = self.central.sql("SELECT COUNT(*) FROM wk_takeover")[0][0]
        self.counts["saves"] = sum(s.outcome in ("saved", "same") for saves in self.saves.values() for s in saves)
        return self

    def numbers(self, lock):
        """Checks that no number is given out twice, that later answers have higher numbers, and that a lock is free only
        after its holder released it."""
        got = sorted((a for a in self.acquires[lock] if a[2] in ("locked", "mine", "taken")), key=lambda a: a[3])
        for before, after in zip(got, got[1:]):
            if before[3] == after[3]:
                self.wrong.append(f"{lock}: number {after[3]} was given out twice")
            if after[1] < before[0]:
                self.wrong.append(f"{lock}: number {after[3]} before {before[3]}")
        for begin, end, outcome, number, _ in got:
            if outcome == "locked" and number > 1 and not any(b < end for b in self.releases[lock, number - 1]):
                self.wrong.append(f"{lock}: {number} found it free, and {number - 1} had not released it")

    def holders(self, lock):
        """Returns (number, begin, end) of each acquire that got the lock, sorted."""
        return sorted((a[3], a[0], a[1]) for a in self.acquires[lock] if a[2] in ("locked", "mine", "taken"))

    def maybe_taken(self, lock, number, before):
        """Returns whether the number may have been replaced by `before`, also by the first attempt of an acquire whose
        connection was lost, which may be executed after the second one."""
        return any(a[0] < before and (a[2] == "?" or a[4] > 1 or (a[2] != "busy" and a[3] > number))
                   for a in self.acquires[lock]) or any(b < before for b in self.releases[lock, number])

    def thieves(self):
        thefts = [(s.begin, s.end, s.lock, s.number, f"save of {s.key}") for saves in self.saves.values() for s in saves
                  if s.outcome == "stolen"] + list(self.false_theft)
        for _, end, lock, number, what in thefts:
            if not self.maybe_taken(lock, number, end):
                self.wrong.append(f"{what} under {lock} {number}: stolen, and nobody had taken it: "
                                  f"{[a for a in self.acquires[lock] if a[3] is None or a[3] >= number]}")

    def fenced(self, key, saves):
        """Checks that no save under a number is answered `saved` if it began after a higher number was acquired, and that
        no sequence number is saved twice or over a newer one."""
        holders = self.holders(saves[0].lock)
        newest, ordered = -1, sorted((s for s in saves if s.outcome == "saved"), key=lambda s: s.begin)
        ends = sorted((s.end, s.seq) for s in ordered)
        best, tops = -1, []
        for _, seq in ends:
            best = max(best, seq)
            tops.append(best)
        for s in ordered:
            for number, _, end in holders:
                if number > s.number and end < s.begin:
                    self.wrong.append(f"{key}: saved under {s.number} after {number} had it")
                    break
            i = bisect.bisect_left(ends, (s.begin, -1))
            newest = tops[i - 1] if i else -1
            if s.seq < newest:
                self.wrong.append(f"{key}: seq {s.seq} was saved over {newest}")

    def kept(self, key, saves, loads):
        """Checks that every load, and the end, has the newest acknowledged save, or one that was requested and not
        answered."""
        texts = collections.defaultdict(list)
        for s in saves:
            texts[s.text].append(s)
        acked = sorted((s for s in saves if s.outcome in ("saved", "same")), key=lambda s: s.end)
        ends = [s.end for s in acked]
        tops, best = [], -1
        for s in acked:
            best = max(best, s.seq)
            tops.append(best)
        final = self.state.get(key)
        looks = [(begin, found) for begin, _, _, found in loads] + [(float("inf"), final and final[1:])]
        for begin, found in looks:
            i = bisect.bisect_left(ends, begin)
            least = tops[i - 1] if i else -1
            seq, text = found or (-1, None)
            if seq < least:
                self.wrong.append(f"{key}: {seq} is there, and {least} had been saved")
            elif found:
                # A repeated save may have been saved at first, and refused as stolen since.
                if not any(s.seq == seq and (s.tries > 1 or s.outcome in ("saved", "same", "?")) for s in texts[text]):
                    self.wrong.append(f"{key}: {text} is there, {[s.outcome for s in texts[text]]}")
