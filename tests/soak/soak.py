#!/usr/bin/python3
"""Plays a game that writes for hours, with random faults. After each loss everything acknowledged must be
restored, and memory, descriptors and lateness of the supervisor must not grow.

Two worlds share one server. The first one's supervisor lives from start to end and is measured; the second
one's is killed, too. Prints one line per fault, a chart and a verdict, and writes soak.json.

  tests/soak/soak.py --seconds 28800     make soak; scripts/test.sh takes two minutes of it
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))

from wk.crash import RESTORE_POINTS  # noqa: E402
from wk.keeper import DONE, HELD, USER, Keeper  # noqa: E402
from wk.audit import TABLES, AuditedWriters  # noqa: E402
from wk.server import KIND, Server  # noqa: E402
from wk.sinks import Http  # noqa: E402
from wk.world import World  # noqa: E402

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON", "--max-binlog-size=16M"]
WIDTH = 72  # columns of the chart
BARS = " ▁▂▃▄▅▆▇█"
# Allowed growth between the second sixth of the run and the last.
GROWTH_KIB, GROWTH = 1024, 1.1
LATE_MS = 100  # promised by the supervisor under every fault; the machine's own part is not counted


class Kept:
    """A world, its keeper and its writers."""

    def __init__(self, base, name, server, seed, http):
        self.world = World(server, "empty", f"soak_{name}")
        self.world.sql(*TABLES)
        where = os.path.join(base, name)
        os.makedirs(where)
        os.chmod(where, 0o755)
        self.keeper = Keeper(where, self.world, name, {
            "dump": {"interval": "20s"}, "journal": {"mode": "follow", "segment": "1MiB", "max_size": "64MiB"},
            "retention": {"keep_last": "3", "keep_within": "1m", "keep_hourly": "0", "keep_daily": "0",
                          "keep_weekly": "0"},
            **http.settings(), "alert": {"repeat": "1m"}}, account=False)
        self.writers = AuditedWriters(self.world, f"{seed}/{name}", count=2)
        self.kills = 0

    def swapped_in(self):
        return self.world.value("SELECT COUNT(*) FROM worldkeeper_sentinel") == 1

    def is_there(self):
        return (self.keeper.flag() == "UP" and self.keeper.alive() and self.keeper.state() == "UP"
                and self.swapped_in())

    def wait_there(self, what, there=None):
        def answers():
            try:
                return (there or self.is_there)()
            except Exception:
                return False
        self.keeper.wait(answers, what, timeout=120)

    def die(self):
        self.keeper.kill9()
        self.kills += 1


class Sampler(threading.Thread):
    """Records once a second: (seconds, KiB of the supervisor, KiB of it and its workers, descriptors, ms late)."""

    def __init__(self, keeper):
        super().__init__(daemon=True)
        self.keeper, self.samples, self.over = keeper, [], threading.Event()
        self.begun, self.machine_ms = time.monotonic(), 0.0

    def run(self):
        while not self.over.is_set():
            slept = time.monotonic()
            self.over.wait(1)
            self.machine_ms = max(self.machine_ms, (time.monotonic() - slept - 1) * 1000)
            try:
                pid = self.keeper.process.pid
                late = self.keeper.status().get("loop", {}).get("late_ms")
                if late is not None:
                    self.samples.append((time.monotonic() - self.begun, pss(pid),
                                         sum(pss(p) for p in self.keeper.pids()),
                                         len(os.listdir(f"/proc/{pid}/fd")), late))
            except (OSError, ValueError):
                pass


def pss(pid):
    """Returns the process's memory in KiB, with its part of shared pages; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


class Soak:
    def __init__(self, base, seed):
        self.rand = random.Random(seed)
        self.http = Http().start()
        self.server = Server(base, *LOG).start()
        self.worlds = [Kept(base, name, self.server, seed, self.http) for name in ("lived", "killed")]
        self.server.account(USER, [w.world.schema for w in self.worlds])
        self.done, self.audits, self.begun = [], 0, time.monotonic()

    # -- events ---------------------------------------------------------------------------------

    def play(self):
        for w in self.worlds:
            w.writers.start()

    def audit(self):
        """Stops the writers and asserts that nothing acknowledged is lost or exists twice."""
        for w in self.worlds:
            w.writers.stop()
            w.writers.audit()
        self.audits += 1

    def lose(self, old=True):
        """Kills and restarts the server. `old`: the next process starts in another second."""
        if old:
            self.server.grow_old()
        self.server.process.kill()
        self.server.process.wait()
        self.server.process = None
        for w in self.worlds:
            w.writers.stop()
        self.server.start()

    def follow_up(self):
        """Starts the second world's supervisor again, possibly with a delay within its restores."""
        point = f"{self.rand.choice(RESTORE_POINTS)}=sleep:{self.rand.randrange(800)}"
        self.worlds[1].keeper.start(state=None, fault=self.rand.choice((None, point)))

    def server_killed(self):
        self.lose()
        self.come_back()

    def both_killed(self):
        self.worlds[1].die()
        self.lose()
        self.follow_up()
        self.come_back()

    def killed_while_restoring(self):
        """Kills up to three times in a row, at any moment or when a world was just swapped in and is being played."""
        self.lose()
        for _ in range(self.rand.randint(1, 3)):
            time.sleep(self.rand.random() * 2)
            if self.rand.random() < 0.6:
                w = self.rand.choice(self.worlds)
                w.wait_there("the world swapped in", w.swapped_in)
                w.writers.stop()
                w.writers.audit()
                w.writers.start()
                time.sleep(self.rand.random() * 0.3)
            which = self.rand.choice(("server", "supervisor", "both"))
            if which != "server":
                self.worlds[1].die()
            if which != "supervisor":
                self.lose(self.rand.random() < 0.5)
            if which != "server":
                self.follow_up()
        self.come_back()

    def helped_while_restoring(self):
        """Runs a manual restore or dump during the automatic restore."""
        self.lose()
        keeper = self.worlds[1].keeper
        by_hand = keeper.popen(self.rand.choice(("--restore", "--dump")))
        if self.rand.random() < 0.5:
            time.sleep(self.rand.random())
            self.lose(False)
        keeper.finish(by_hand)
        self.come_back()

    def come_back(self):
        """Waits for both worlds and audits them. After a kill between the swap and the end of a restore its loss may be
        unknown."""
        for w in self.worlds:
            w.wait_there("the world again")
            told = w.keeper.status().get("last_restore")
            assert told is None or told["ok"], told
        self.audit()
        self.play()

    def server_stopped(self):
        """Stops the server, which must cause no restore."""
        def nonces():
            return [w.world.value("SELECT nonce FROM worldkeeper_sentinel") for w in self.worlds]
        before = nonces()
        self.server.sigstop()
        time.sleep(self.rand.uniform(0.5, 5))
        self.server.sigcont()
        for w in self.worlds:
            w.wait_there("UP again")
        assert nonces() == before

    def supervisor_killed(self):
        self.worlds[1].die()
        time.sleep(self.rand.random())
        self.follow_up()
        self.worlds[1].wait_there("UP again")

    def another_supervisor(self):
        assert self.rand.choice(self.worlds).keeper.run("--run").rc == HELD

    def worker_killed(self):
        keeper = self.rand.choice(self.worlds).keeper
        workers = [pid for pid in keeper.pids() if pid != keeper.process.pid]
        if workers:
            try:
                os.kill(self.rand.choice(workers), 9)
            except ProcessLookupError:
                pass

    def connections_killed(self):
        self.server.end_sessions(user=USER)

    def webhook_fails(self):
        self.http.mode = self.rand.choice((500, 429, "slow", "redirect"))
        self.worlds[1].keeper.run("--test-alert")
        time.sleep(1)
        self.http.mode = "ok"

    def log_rotated(self):
        self.server.sql("FLUSH BINARY LOGS")

    def log_purged(self):
        """Purges binary logs that all segments have."""
        self.server.sql("FLUSH BINARY LOGS")
        newest = self.server.sql("SHOW BINARY LOGS")[-1][0]

        def followed(w):
            journal = w.keeper.status().get("journal") or {}
            return journal.get("file") == newest and not journal["gap"]
        for w in self.worlds:
            w.keeper.wait(lambda w=w: followed(w), "the journal of the new file")
        self.server.sql(f"PURGE BINARY LOGS TO '{newest}'")

    def dump_asked_for(self):
        self.rand.choice(self.worlds).keeper.dump()

    FAULTS = {"server_killed": 4, "both_killed": 2, "killed_while_restoring": 6, "helped_while_restoring": 2,
              "server_stopped": 2, "supervisor_killed": 3, "another_supervisor": 1, "worker_killed": 4,
              "connections_killed": 2, "webhook_fails": 1, "log_rotated": 1, "log_purged": 1, "dump_asked_for": 1}

    # -- the run --------------------------------------------------------------------------------

    def run(self, seconds):
        for w in self.worlds:
            w.keeper.init().dump()
            w.keeper.start()
        sampler = Sampler(self.worlds[0].keeper)
        sampler.start()
        self.play()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.rand.uniform(0.2, 8))
            name = self.rand.choices(list(self.FAULTS), self.FAULTS.values())[0]
            at = time.monotonic() - self.begun
            getattr(self, name)()
            self.done.append((at, name))
            print(f"{at:8.1f} s  {name:24} {time.monotonic() - self.begun - at:5.1f} s  "
                  f"{sum(w.writers.told() for w in self.worlds):11,} changes", flush=True)
        self.audit()
        sampler.over.set()
        sampler.join()
        for w in self.worlds:
            assert w.keeper.run("--verify").rc == DONE, w.keeper.about()
            assert not chatter(w.keeper.log()), chatter(w.keeper.log())
            assert w.keeper.stop() == 0
        return sampler

    def end(self):
        for w in self.worlds:
            w.keeper.destroy()
        self.server.destroy()
        self.http.stop()


def chatter(log):
    """Returns {line: count} of what a supervisor logs more than twice within one second, ignoring numbers."""
    found = {}
    for part in log.split(" keeps world "):
        said = collections.Counter((line[:20], re.sub(r"\d+", "#", line[20:])) for line in part.splitlines()
                                   if line[:2] == "20")
        found.update((line, n) for line, n in said.items() if n > 2)
    return found


# -- the result ---------------------------------------------------------------------------------


def bars(values):
    """Returns WIDTH characters, each showing the greatest value of its part."""
    top = max(values) or 1
    cut = [values[i * len(values) // WIDTH:max((i + 1) * len(values) // WIDTH, i * len(values) // WIDTH + 1)]
           for i in range(WIDTH)]
    return "".join(BARS[round(max(part) / top * (len(BARS) - 1))] for part in cut)


def part(values, first, last):
    """Returns the values of the sixths [first, last) of the run."""
    return values[len(values) * first // 6:len(values) * last // 6]


def picture(samples, done, seconds):
    yield f"{'faults':24} |" + bars([sum(1 for at, _ in done if i <= at * WIDTH / seconds < i + 1)
                                      for i in range(WIDTH)]) + f"| {len(done)}"
    for n, title, unit in ((1, "supervisor's memory", "KiB"), (2, "with its workers", "KiB"),
                           (3, "descriptors", ""), (4, "loop late by", "ms")):
        values = [s[n] for s in samples]
        yield f"{title:24} |{bars(values)}| {min(values):,} to {max(values):,} {unit}"


def flat(samples, machine_ms):
    """Returns [(what, early, late, allowed, ok)]: medians of the second sixth and of the last."""
    found = []
    for n, what in ((1, "KiB of the supervisor"), (3, "descriptors"), (4, "ms late")):
        values = [s[n] for s in samples]
        early, late = statistics.median(part(values, 1, 2)), statistics.median(part(values, 5, 6))
        allowed = {1: early * GROWTH + GROWTH_KIB, 3: early + 2, 4: LATE_MS + machine_ms}[n]
        found.append((what, early, late, allowed, late <= allowed))
    return found


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--seconds", type=int, default=300)
    args.add_argument("--seed", default=str(random.randrange(10 ** 9)))
    args.add_argument("--pause", type=float, default=0.005, help="seconds between two changes of a writer")
    args.add_argument("--out", default="build/soak")
    args = args.parse_args()
    os.makedirs(args.out, exist_ok=True)
    print(f"seed {args.seed}, {KIND}, {args.seconds} s", flush=True)
    base = tempfile.mkdtemp(prefix="wk")
    os.chmod(base, 0o755)
    soak = None
    try:
        soak = Soak(base, args.seed)
        for w in soak.worlds:
            w.writers.pause = args.pause
        sampler = soak.run(args.seconds)
        samples, machine = sampler.samples, sampler.machine_ms
        verdict = flat(samples, machine)
        print()
        for line in picture(samples, soak.done, samples[-1][0]):
            print(line)
        changes = sum(w.writers.changes for w in soak.worlds)
        print(f"\n{len(soak.done)} faults, {changes:,} acknowledged changes, {soak.audits} audits of both worlds: "
              "lost 0, resurrected 0, duplicated 0")
        for what, early, late, allowed, ok in verdict:
            print(f"{what}: {early:,.0f} early, {late:,.0f} late, at most {allowed:,.0f}: {'flat' if ok else 'NOT FLAT'}")
        with open(os.path.join(args.out, "soak.json"), "w") as f:
            json.dump({"seed": args.seed, "kind": KIND, "seconds": args.seconds, "faults": soak.done,
                       "changes": changes, "audits": soak.audits, "samples": samples}, f)
        return 0 if all(v[-1] for v in verdict) else 1
    except Exception:
        traceback.print_exc()
        for w in soak.worlds if soak else []:
            print(w.keeper.about())
        return 1
    finally:
        if soak:
            soak.end()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
