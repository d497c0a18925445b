#!/usr/bin/env python3
"""Checks the models of this folder with Spin: each property in all states, and that each rule is needed.

A line for each says how many states were looked at and what came of it. Exit status 1: a property does not hold, a part
of a model is never reached, or a rule can be left out without a counterexample.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RULES = {
    1: "the record comes first",
    2: "asked directly before each act",
    3: "readers follow the record",
    4: "a machine that starts reads the record",
    5: "lease = none has a record",
    6: "switch-over hands over a position",
    7: "'nothing lost' is a comparison",
    8: "a new life takes its locks anew",
    9: "what belongs to the world travels",
    10: "hints never lead to loss",
}
PRECAUTIONS = {
    "FILE_BEFORE_TRIGGERS": "pending.json before the triggers move",
    "ONE_RENAME": "one RENAME for tables and sentinel",
    "ROWS_AFTER_RENAME": "rows are saved after the RENAME again",
    "NOTE_BEFORE_DROP": "the file is noted as whole before a drop",
    "UNDO": "half a RENAME is undone",
    "PROOF_UNTIL_REMOVED": "the digest stays until the file is gone",
}
TIMEOUT = 1800


class Check:
    """One run of Spin: `holds` says what is expected."""

    def __init__(self, model, title, holds, **macros):
        self.model, self.title, self.holds, self.macros = model, title, holds, macros

    def flags(self):
        return [f"-D{name}={value}" for name, value in self.macros.items()]

    def run(self, spin_dir, trace=False):
        """Runs Spin and returns (number of states, verdict, whether it is the expected one, lines of the
        counterexample)."""
        model = HERE / self.model
        spin = ["spin", *self.flags()]
        subprocess.run([*spin, "-a", str(model)], cwd=spin_dir, check=True, capture_output=True, text=True)
        # Breadth first: the first counterexample is a shortest one. Depth first takes less memory where none is expected.
        search = ["-O1"] if self.holds else ["-O0", "-DBFS"]
        subprocess.run(["gcc", "-w", *search, "-DSAFETY", "-o", "pan", "pan.c"], cwd=spin_dir, check=True)
        # -E: that nothing more happens is no error; where it would be one, the model asserts it.
        done = subprocess.run(["./pan", "-E", "-m100000", "-w22"], cwd=spin_dir, timeout=TIMEOUT, capture_output=True, text=True)
        return self.judge(done.stdout, model, spin, spin_dir, trace)

    def judge(self, out, model, spin, spin_dir, trace):
        states = re.search(r"^ *([0-9]+) states, stored", out, re.M)
        errors = re.search(r"errors: ([0-9]+)", out)
        # What ends a search before its end: too little memory, or depth.
        whole = states and errors and not re.search(r"out of memory|too small|not completed", out)
        count = int(states[1]) if states else 0
        failed = re.search(r"assertion violated *(.*) \(at depth", out)
        steps = []
        if failed and (trace or self.holds):
            trail = next(Path(spin_dir).glob("*.trail"))
            shown = subprocess.run([*spin, "-T", "-k", str(trail), str(model)], cwd=spin_dir, capture_output=True, text=True).stdout
            steps = [line.split("spin:")[0] for line in shown.splitlines() if re.match(r"[A-Za-z]", line.split("spin:")[0])]
        if not self.holds:
            # With an error the search has not been completed, as it should be.
            good = bool(failed)
            return count, "needed: without it an assertion fails" if good else "NOT NEEDED: no counterexample", good, steps
        if not whole or errors[1] != "0":
            return count, "FAILS: " + (failed[1] if failed else "not completed"), False, steps
        unreached = [u for u in re.findall(r"\.pml:([0-9]+), state [0-9]+, \"([^\"]*)\"", out) if u[1] != "-end-"]
        if unreached and self.macros.get("LEASE") != 0:
            return count, "NEVER REACHED: line " + ", ".join(sorted({u[0] for u in unreached})), False, []
        return count, "holds in all states", True, []


def checks(whole):
    small = {"LIVES": 3, "CRASHES": 1, "FLIGHTS": 1}
    if whole:
        yield Check("standby.pml", "lease = s3 | etcd, four lives", True, LEASE=1, LIVES=4, CRASHES=1, FLIGHTS=1)
        yield Check("standby.pml", "lease = none, four lives", True, LEASE=0, LIVES=4, CRASHES=2, FLIGHTS=1)
        yield Check("standby.pml", "lease = s3 | etcd: back to UP, three lives", True, LEASE=1, CALM=1, **small)
    yield Check("standby.pml", "lease = s3 | etcd", True, LEASE=1, **small)
    yield Check("standby.pml", "lease = none", True, LEASE=0, **small)
    for lease, lives, name in ((1, 2, "s3 | etcd"), (0, 3, "none")):
        yield Check("standby.pml", f"lease = {name}: back to UP", True, LEASE=lease, CALM=1, LIVES=lives, CRASHES=1, FLIGHTS=1)
    for number, title in RULES.items():
        yield Check("standby.pml", f"rule {number}: {title}", False, LEASE=0 if number == 5 else 1, LIVES=3, CRASHES=1,
                    FLIGHTS=2, **{f"NO_RULE_{number}": 1})
    yield Check("standby.pml", "rule 4: before a lease is taken", False, LEASE=1, LIVES=3, CRASHES=1, FLIGHTS=1,
                NO_RECORD_BEFORE_LEASE=1)
    yield Check("standby.pml", "rule 6: taken back by a renewal", False, LEASE=1, LIVES=3, CRASHES=1, FLIGHTS=2, NO_RENEWAL=1)
    yield Check("swap.pml", "a restore that is cut off", True, CRASHES=3)
    for name, title in PRECAUTIONS.items():
        yield Check("swap.pml", title, False, CRASHES=3, **{f"NO_{name}": 1})


def one(check, trace):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as spin_dir:
        states, verdict, good, steps = check.run(spin_dir, trace)
    return check, states, verdict, good, steps, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="also with larger bounds: minutes, and 2 GB of memory")
    parser.add_argument("--trace", action="store_true", help="show each counterexample, step by step")
    parser.add_argument("words", nargs="*", help="only those whose title has one of these words")
    args = parser.parse_args()
    chosen = [c for c in checks(args.whole) if not args.words or any(w in c.title for w in args.words)]
    bad = 0
    print(f"{'model':12} {'property or rule':46} {'states':>9} {'time':>7}  verdict")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for check, states, verdict, good, steps, took in pool.map(lambda c: one(c, args.trace), chosen):
            print(f"{check.model:12} {check.title:46} {states:9d} {took:5.1f} s  {verdict}", flush=True)
            for step in steps:
                print(f"             | {step}")
            bad += not good
    print(f"{len(chosen) - bad} passed, {bad} failed")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
