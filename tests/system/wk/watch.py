"""Threads that run beside a test: an observer of what players see, games that write, and lateness of the machine."""
import os
import subprocess
import sys
import threading
import time

import pymysql

from .snapshot import checksums
from .util import PATIENCE, ident


class Beside(threading.Thread):
    """A thread that ends with the `with` block; its exceptions fail the test there."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.error = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *args):
        self.ended.set()
        self.join(PATIENCE)
        assert not self.is_alive() or kind, "a thread beside the test does not end"
        if self.error is not None and kind is None:
            raise self.error

    def run(self):
        try:
            self.work()
        except BaseException as e:  # raised in __exit__
            self.error = e


class Watcher(Beside):
    """Polls flag and row counts as a homepage and a player would. Violations: a world that is neither complete nor empty, and
    a flag of UP over an emptied world."""

    def __init__(self, keeper, full=None):
        """`full` is {table: rows} of the complete world; by default the present one."""
        super().__init__()
        tables = full or {t: n for t, (n, _) in checksums(keeper.server,
                                                          keeper.world.schema).items()}
        self.keeper, self.world = keeper, keeper.world
        self.sql = "SELECT " + ",".join(f"(SELECT COUNT(*) FROM {ident(t)})" for t in tables)
        self.full = tuple(tables.values())
        self.flags, self.violations, self.seen = [], [], set()
        self.left_up, self.true_until_noticed = False, {"UP"}

    def killed(self, restored=False):
        """Records that the server was just killed: the flag may say UP until the daemon has noticed. `restored`: the world had
        just been restored, which the daemon may report only after the kill."""
        self.true_until_noticed = {"UP", "RESTORING"} if restored else {"UP"}
        self.left_up = False

    def work(self):
        con = None
        while not self.ended.is_set():
            before = self.keeper.flag()
            counts = None
            try:
                con = con or self.world.server.admin(self.world.schema, read_timeout=5)
                with con.cursor() as cur:
                    cur.execute(self.sql)
                    counts = cur.fetchall()[0]
            except (pymysql.err.Error, OSError):
                con = None
            after = self.keeper.flag()
            self.judge(before, counts, after)
            time.sleep(0.005)

    def judge(self, before, counts, after):
        if after is not None and (not self.flags or self.flags[-1] != after):
            self.flags.append(after)
        if after not in self.true_until_noticed:
            self.left_up = True
        if counts is None:
            return
        whole = all(n >= full for n, full in zip(counts, self.full))
        emptied = all(n < full or not full for n, full in zip(counts, self.full))
        self.seen.add("whole" if whole else "emptied" if emptied else "half")
        if not whole and not emptied:
            self.violations.append(f"half a world: {counts} of {self.full}, flag {after}")
        if not whole and before == after == "UP" and self.left_up:
            self.violations.append(f"UP over {counts} of {self.full}")

    def assert_clean(self):
        assert not self.violations, self.violations[:5]


class Game(Beside):
    """Runs `statements` (each formatted with a growing {n}) until ended, reconnecting after errors."""

    def __init__(self, world, *statements, pause=0.002):
        super().__init__()
        self.world, self.statements, self.pause, self.rounds = world, statements, pause, 0

    def work(self):
        con, n = None, 1
        while not self.ended.is_set():
            try:
                con = con or self.world.server.admin(self.world.schema)
                with con.cursor() as cur:
                    for statement in self.statements:
                        cur.execute(statement.format(n=n))
                self.rounds += 1
            except (pymysql.err.Error, OSError):
                con = None
                time.sleep(0.05)
            n += 1
            time.sleep(self.pause)


SLEEPER = """
import time, sys
worst, last = 0.0, time.monotonic()
sys.stdout.write("ready\\n"); sys.stdout.flush()
while True:
    time.sleep(0.01)
    now = time.monotonic()
    if now - last - 0.01 > worst:
        worst = now - last - 0.01
        print(worst, flush=True)
    last = now
"""


class Lateness:
    """How late this machine wakes any sleeping process during a test: the part that the daemon does not cause."""

    def __enter__(self):
        self.worst_ms = 0.0
        self.process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE,
                                        text=True)
        self.process.stdout.readline()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            self.worst_ms = float(line) * 1000  # each line is greater than the one before

    def __exit__(self, *args):
        self.process.kill()
        self.reader.join()
        self.process.stdout.close()
        self.process.wait()

    def assert_quick(self, keeper, status=None, limit=1000):
        """Asserts that the daemon's loop was at most `limit` ms late, beyond what the machine delayed any process, or this one
        since its start. What these tests make it wait for takes longer than that."""
        late_ms = (status or keeper.status())["loop"]["late_ms_max"]
        with open(f"/proc/{keeper.process.pid}/schedstat") as f:
            queued_ms = int(f.read().split()[1]) / 1e6
        assert late_ms < limit + max(self.worst_ms, queued_ms), (
            f"the loop was {late_ms} ms late; the machine itself {self.worst_ms:.0f} ms, and {queued_ms:.0f} ms in all "
            "for want of a processor")


class DiskPace(Beside):
    """Measures how long the disk takes meanwhile to write and sync a page; with `busy` it writes 16 MiB each time, without a
    pause."""

    def __init__(self, path, busy=False):
        super().__init__()
        self.path, self.busy, self.worst_ms = os.path.join(path, "pace"), busy, 0.0

    def work(self):
        with open(self.path, "wb") as f:
            while not self.ended.is_set():
                began = time.monotonic()
                f.seek(0)
                f.write(b"x" * (16 << 20 if self.busy else 4096))
                f.flush()
                os.fdatasync(f.fileno())
                self.worst_ms = max(self.worst_ms, (time.monotonic() - began) * 1000)
                time.sleep(0 if self.busy else 0.05)
