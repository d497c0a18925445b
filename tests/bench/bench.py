"""Measures dumps, restores and outages beside other tools: see README.md. Started by scripts/bench.sh."""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../system"), os.path.join(HERE, "..")]  # wk: servers, accounts, processes; machine
sys.dont_write_bytecode = True

from wk.server import KIND, as_mysql  # noqa: E402

import fleet  # noqa: E402
import ledger  # noqa: E402
import write_back  # noqa: E402
import offsite  # noqa: E402
import plot  # noqa: E402
import progress  # noqa: E402
import report  # noqa: E402
import switch  # noqa: E402
import world  # noqa: E402
from contest import Contest  # noqa: E402
from journal import MODES, Journal  # noqa: E402
from measure import Failed, Lab, World, environment  # noqa: E402

NAME = "bench" if KIND == "mariadb" else "bench-" + KIND  # name of the files with the figures


def arguments():
    p = argparse.ArgumentParser(prog="bench.py", description=__doc__)
    p.add_argument("--build", required=True, help="directory with worldkeeper and bench/")
    p.add_argument("--out", required=True, help="where the figures and the picture go")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--sizes", default="1,0.1,4,10")
    p.add_argument("--growth-rounds", type=int, default=1)
    p.add_argument("--no-warm-up", action="store_true")
    p.add_argument("--no-cron", action="store_true")
    p.add_argument("--crowd", type=int, default=50, help="connections of the game that attacks")
    p.add_argument("--journal", default="server,follow", help="modes of the journal to measure, or none")
    p.add_argument("--journal-rounds", type=int, default=3)
    p.add_argument("--journal-seconds", type=float, default=20, help="of each pace of the game")
    p.add_argument("--only", choices=["journal", "ledger", "progress", "offsite", "fleet", "switch"], help="leave everything else out")
    p.add_argument("--ledger-rounds", type=int, default=3)
    p.add_argument("--ledger-size", type=float, default=1, help="1: 2 million rows of 100,000 keys")
    p.add_argument("--ledger-seconds", type=float, default=20, help="of the game whose waits are measured")
    p.add_argument("--ledger-flat", type=int, default=10000000, help="rows that pass through one MEMORY table")
    p.add_argument("--progress-rounds", type=int, default=3)
    p.add_argument("--offsite-rounds", type=int, default=3)
    p.add_argument("--offsite-rows", type=int, default=offsite.ROWS)
    p.add_argument("--fleet-worlds", type=int, default=100)
    p.add_argument("--fleet-lost", type=int, default=20)
    p.add_argument("--fleet-seconds", type=float, default=60)
    p.add_argument("--switch-sizes", default=",".join(map(str, switch.SIZES)))
    p.add_argument("--switch-rounds", type=int, default=5)
    p.add_argument("--progress-blobs", type=int, default=write_back.BLOBS)
    args = p.parse_args()
    args.journal = [] if args.journal == "none" else args.journal.split(",")
    if not set(args.journal) <= set(MODES) or (args.only == "journal" and not args.journal):
        p.error("no such mode of the journal")
    return args


def room_for(size, base, journal):
    """Returns why a world of this size does not fit here, or None. The copy doubles it; the stock, two row binary logs and the
    dumps are on the disk. The journal's many changes need as much memory again, and a larger log."""
    need_memory = (1 + (2 if journal else 1.2) * size) * 2**30
    need_disk = (1 + (6 if journal else 2) * size) * 2**30
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    if free < need_memory:
        return f"needs {need_memory / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free"
    disk = shutil.disk_usage(base).free
    if disk < need_disk:
        return f"needs {need_disk / 2**30:.0f} GiB of disk, {disk / 2**30:.0f} are free"
    return None


class Run:
    def __init__(self, args, base):
        self.args, self.base, self.began = args, base, time.monotonic()
        # A place where an unprivileged user can run them and no build replaces them meanwhile.
        tools = os.path.join(base, "bin")
        shutil.copytree(os.path.join(args.build, "bench"), tools)
        shutil.copy(os.path.join(args.build, "worldkeeper"), tools)
        self.lab = Lab(base, tools)

    def say(self, text):
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        print(f"{minutes:3d}:{seconds:02d}  {text}", file=sys.stderr, flush=True)

    def size(self, size, rounds, warm_up, few):
        """Runs all rounds of one size."""
        modes = [] if few else self.args.journal
        why = room_for(size, self.base, modes)
        if why:
            self.say(f"size {size:g}: left out, {why}")
            return {"size": size, "left_out": why, "rounds": []}
        self.say(f"size {size:g}: {sum(world.counts(size).values()):,} rows")
        w = World(self.base, size)
        try:
            c = Contest(self.lab, w, few, self.args.crowd, say=lambda text: self.say("  " + text))
            found = {"size": size, "few": few, "rows": sum(w.counts.values()), "rounds": []}
            if not self.args.only:
                self.rounds(c, found, rounds, warm_up)
            if modes:
                found["journal"] = self.journal(c, modes)
            return found
        finally:
            w.destroy()
            shutil.rmtree(os.path.join(self.base, "contest"), ignore_errors=True)

    def rounds(self, c, found, rounds, warm_up):
        """Measures dumps, restores and outages."""
        few, size = found["few"], found["size"]
        c.quiet_dumps()
        found.update(sql_bytes=c.w.sql_bytes(c.quiet["old"]), quiet_dumps=c.quiet_walls, absent=c.absent)
        for number in range(-warm_up, rounds):
            self.say(f"size {size:g}, " + (f"round {number + 1} of {rounds}" if number >= 0 else "warm-up"))
            cron = None
            if not (self.args.no_cron or few or number < 0):
                cron = 60 * (number + 0.5) / rounds
            one = c.round(number + warm_up, attack=not few, outage=not few, cron_second=cron)
            if number >= 0:
                found["rounds"].append(one)

    def journal(self, c, modes):
        j = Journal(c, modes, self.args.journal_seconds, say=c.say)
        found = {"rounds": []}
        for number in range(self.args.journal_rounds):
            self.say(f"journal, round {number + 1} of {self.args.journal_rounds}")
            found["rounds"].append(j.round(number))
        return found

    def ledger(self):
        """Measures ledgers on their own server."""
        a = self.args
        return ledger.Ledgers(self.base, self.lab, a.ledger_size, a.ledger_rounds, a.ledger_seconds, a.ledger_flat,
                              self.say).all()

    def write_backs(self):
        a = self.args
        return write_back.WriteBacks(self.base, self.lab, a.progress_rounds, a.progress_blobs,
                                     self.say).all()

    def all(self):
        results = {"kind": KIND, "environment": environment(self.lab.tool("worldkeeper")),
                   "warm_up": 0 if self.args.no_warm_up else 1, "crowd": self.args.crowd, "sizes": []}
        if self.args.only == "ledger":
            results["ledger"] = self.ledger()
            self.save(results)
            return results
        if self.args.only == "offsite":
            a = self.args
            results["offsite"] = offsite.OffSite(self.base, self.lab, a.offsite_rounds, a.offsite_rows, self.say).all()
            self.save(results)
            return results
        if self.args.only == "fleet":
            a = self.args
            results["fleet"] = fleet.Fleet(self.base, self.lab, a.fleet_worlds, a.fleet_lost, a.fleet_seconds, self.say).all()
            self.save(results)
            return results
        if self.args.only == "switch":
            a = self.args
            results["switch"] = switch.measure(self.base, self.lab, map(float, a.switch_sizes.split(",")), a.switch_rounds, self.say)
            self.save(results)
            return results
        if self.args.only == "progress":
            results["progress"] = progress.measure(self.lab.bin, self.base, **(
                {"saves": 100, "blobs": 200, "waiters": 20} if self.args.crowd < 50 else {}))
            results["write_back"] = self.write_backs()
            self.save(results)
            return results
        sizes = [float(s) for s in self.args.sizes.split(",")]
        for i, size in enumerate(sizes[:1] if self.args.only else sizes):
            few = i > 0
            results["sizes"].append(self.size(
                size, self.args.growth_rounds if few else self.args.rounds,
                0 if few else results["warm_up"], few))
            self.save(results)
        return results

    def save(self, results):
        """Saves the results after each size, so that an interrupted run keeps them."""
        path = os.path.join(self.args.out, NAME + ".json")
        with open(path + ".new", "w") as f:
            json.dump(results, f, indent=1)
            f.write("\n")
        os.rename(path + ".new", path)


def directory():
    """Returns a directory for the whole run, which servers and commands can enter: as root they run as another user, and
    root's own temporary directory may be closed."""
    os.umask(0o022)
    for parent in (None, "/tmp"):
        base = tempfile.mkdtemp(prefix="wkbench", dir=parent)
        os.chmod(base, 0o755)
        if subprocess.run([*as_mysql(), "test", "-x", base]).returncode == 0:
            return base
        os.rmdir(base)
    raise Failed("no temporary directory that an unprivileged user can enter; set TMPDIR to one")


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up as after Ctrl-C
    os.makedirs(args.out, exist_ok=True)
    base = None
    try:
        base = directory()
        results = Run(args, base).all()
    except Failed as e:
        print(f"bench: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if base:
            shutil.rmtree(base, ignore_errors=True)
    if args.only in (None, "progress"):
        plot.draw(results, os.path.join(args.out, NAME + ".svg"))
    if "ledger" in results:
        ledger.show(results["ledger"])
    elif "offsite" in results:
        offsite.show(results["offsite"])
    elif "fleet" in results:
        fleet.show(results["fleet"])
    elif "switch" in results:
        switch.show(results["switch"])
    elif "progress" in results:
        progress.show(results["progress"])
        write_back.show(results["write_back"])
    else:
        report.show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
