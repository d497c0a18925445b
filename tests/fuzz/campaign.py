#!/usr/bin/env python3
"""Runs the fuzz targets round robin in slices until each has had its CPU minutes; it can be ended and started again.

CPU time is what the kernel counts for the target's process, so that a busy machine does not shorten a campaign. The sums
are kept in a file, together with the SHA-256 of each target's program: code that changes begins at zero. A target that
found something waits until its program changes. Exit status 1: there are findings.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
# These parse what is not trusted over a network, in a store or in a dump directory: they come first.
FIRST = ["server", "event", "image", "answer", "list", "definition", "dump", "segment"]
BUILD = TOP / "build/fuzz"


def all_targets():
    names = sorted(p.stem.removeprefix("fuzz_") for p in (TOP / "tests/fuzz").glob("fuzz_*.c"))
    return FIRST + [n for n in names if n not in FIRST]


class Campaign:
    def __init__(self, args):
        self.args, self.lock, self.busy = args, threading.Lock(), set()
        self.file = Path(args.state)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.sums = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.end = time.monotonic() + args.seconds if args.seconds else None

    def save(self):
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.sums, indent=1, sort_keys=True) + "\n")
        new.replace(self.file)

    def begin(self):
        """Resets the sums of each target whose program has changed; the time of the earlier program is kept
        separately."""
        for name in self.args.targets:
            program = hashlib.sha256((BUILD / "fuzzer" / name).read_bytes()).hexdigest()
            old = self.sums.get(name, {})
            if old.get("program") != program:
                self.sums[name] = {"program": program, "cpu": 0.0, "executions": 0, "findings": [],
                                   "earlier_cpu": old.get("earlier_cpu", 0.0) + old.get("cpu", 0.0)}
        self.save()

    def over(self):
        return self.end is not None and time.monotonic() >= self.end

    def next(self):
        """Returns the target of the first rank that has had the least CPU time, or None if nothing is left to begin."""
        with self.lock:
            left = [n for n in self.args.targets if n not in self.busy and not self.sums[n]["findings"]
                    and self.sums[n]["cpu"] < 60 * self.args.minutes]
            if not left or self.over():
                return None
            name = min(left, key=lambda n: (n not in FIRST, self.sums[n]["cpu"]))
            self.busy.add(name)
            return name

    def slice(self, name):
        seconds = self.args.slice
        if self.end is not None:
            seconds = max(1, min(seconds, int(self.end - time.monotonic())))
        log = BUILD / f"{name}.log"
        with open(log, "wb") as out:
            # The limit for one input is wall time: at idle priority a process may not run for a long time.
            run = subprocess.Popen(["make", "-s", "FUZZ=1", f"FUZZ_SECONDS={seconds}", "FUZZ_TIMEOUT=300", f"rerun-{name}"],
                                   cwd=TOP, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        text = log.read_text(errors="replace")
        ran = re.search(r"stat::number_of_executed_units: *(\d+)", text)
        found = re.search(r"Test unit written to (\S+)", text)
        with self.lock:
            s = self.sums[name]
            s["cpu"] += used.ru_utime + used.ru_stime
            s["executions"] += int(ran[1]) if ran else 0
            if found or run.returncode:
                s["findings"].append(found[1] if found else f"make ended with {run.returncode}: {log}")
            self.busy.discard(name)
            self.save()
            print(f"{name}: {s['cpu'] / 60:.1f} CPU minutes, {s['executions']:,} executions"
                  + "".join(f", FOUND {f}" for f in s["findings"]), flush=True)

    def work(self):
        while name := self.next():
            self.slice(name)

    def run(self):
        workers = [threading.Thread(target=self.work) for _ in range(self.args.jobs)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        return self.report()

    def report(self):
        print(f"{'target':12} {'CPU min':>8} {'executions':>13}  findings")
        for name in self.args.targets:
            s = self.sums.get(name, {"cpu": 0, "executions": 0, "findings": []})
            print(f"{name:12} {s['cpu'] / 60:8.1f} {s['executions']:13,}  {' '.join(s['findings']) or '-'}")
        all_sums = [self.sums.get(n, {"cpu": 0, "findings": []}) for n in self.args.targets]
        return 1 if any(s["findings"] for s in all_sums) else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("targets", nargs="*", default=all_targets())
    p.add_argument("--minutes", type=float, default=30, help="CPU minutes of each target")
    p.add_argument("--slice", type=int, default=180, help="seconds of wall time at once")
    p.add_argument("--jobs", type=int, default=1, help="targets at a time")
    p.add_argument("--seconds", type=int, help="end after this much wall time")
    p.add_argument("--state", default=BUILD / "campaign.json", help="file of the sums")
    p.add_argument("--report", action="store_true", help="only print the sums")
    args = p.parse_args()
    c = Campaign(args)
    if args.report:
        return c.report()
    c.begin()
    return c.run()


if __name__ == "__main__":
    sys.exit(main())
