#!/usr/bin/env python3
"""Runs the long campaigns and writes what they found to tests/REPORT.md and tests/report.json.

A campaign runs in slices, in turn with the others, until it has done what it is to do on the current commit. The counts
are kept in build/report, so a run can be ended and started again. Earlier commits keep their own rows in the report. The
sums over commits name the oldest of these, and how much of the program has changed since.

  tests/report.py                        all campaigns, until each is done
  tests/report.py --seconds 3600 kills   only the named ones, for an hour
  tests/report.py --jobs 3               three slices at a time: most of them wait more than they compute
  tests/report.py --write                only write the report
"""
import argparse
import fcntl
import json
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
STATE = TOP / "build/report"
REPORT, DATA = TOP / "tests/REPORT.md", TOP / "tests/report.json"


@dataclass
class Campaign:
    """`command` does one slice; {seed} is another number for each slice. `counts` are {name: expression with one group}: what
    all matches of a slice add up to. `once`: a slice is the whole campaign, and its counts are results, not sums."""
    name: str
    title: str
    command: str
    counts: dict
    wanted: tuple  # (name of a count, least number of it)
    once: bool = False
    env: dict = field(default_factory=dict)


KINDS = ("mariadb", "mariadb-11.8", "mysql")
FAULTS = {"points": r"^all +(\d+) +\d+$", "violations": r"^all +\d+ +(\d+)$", "tests": r"(\d+) passed"}


def campaigns():
    out = [
        Campaign("coverage", "coverage of unit tests and system tests on both kinds of server", "make coverage COVERAGE='unit system mysql'",
                 {"lines": r"^all +(\d+) ", "lines covered, percent": r"^all +\d+ +([\d.]+)%",
                  "branches": r"^all +\d+ +[\d.]+% +(\d+) ", "branches covered, percent": r"^all +\d+ +[\d.]+% +\d+ +([\d.]+)%"},
                 ("lines", 1), once=True),
        Campaign("calls", "system calls that fail, or at which the run is killed or stopped", "make faults FAULT_TESTS=test_calls.py",
                 FAULTS, ("points", 1), once=True),
        Campaign("power", "power cuts", "make faults FAULT_TESTS=test_power.py", FAULTS, ("points", 2000), env={"WK_FAULT_CUTS": "250"}),
        Campaign("flips", "flipped bits, and files cut at each length", "make faults FAULT_TESTS=test_flips.py", FAULTS,
                 ("points", 200000)),
        Campaign("other-faults", "all other faults of tests/faults", "make faults FAULT_TESTS='test_disk.py test_found.py test_kills.py "
                 "test_process.py test_relay.py test_supervisor.py test_two.py test_world.py'", FAULTS, ("tests", 1), once=True),
        Campaign("ledger", "rollups under readers and writers, both kinds of server", "make ledger-torture LEDGER_ROWS=0 LEDGER_ROLLUPS=300",
                 {"rollups": r"rows, \d+ reads, \{'runs': (\d+)", "rows": r"^\w+: (\d+) rows, \d+ reads", "reads": r"rows, (\d+) reads"},
                 ("rollups", 10000)),
        Campaign("progress", "game servers over one central store, and worlds of their own", "make progress-torture PROGRESS_ROUNDS=5",
                 {"takeovers": r"(\d+) takeovers", "saves": r"^round \d+: (\d+) saves"}, ("takeovers", 10000)),
        Campaign("mutants", "deliberate mistakes that the tests must notice", "make mutants",
                 {"noticed": r": (noticed): ", "not noticed": r": (NOT NOTICED): "}, ("noticed", 1), once=True),
        Campaign("fuzz", "fuzz targets with sanitizers, 30 CPU minutes each", "make fuzz-campaign FUZZ_CAMPAIGN='--jobs 2 --seconds 1800'",
                 {"CPU minutes": r"^\w+ +([\d.]+) +[\d,]+  ", "executions": r"^\w+ +[\d.]+ +([\d,]+)  ",
                  "targets": r"^(\w+) +(?!0\.0 )[\d.]+ +[\d,]+  "}, ("CPU minutes", 480), once=True),
        Campaign("threads", "ThreadSanitizer on unit tests and on system tests with threads", "scripts/tsan.sh", {"tests": r"(\d+) passed"},
                 ("tests", 1), once=True),
        Campaign("soak", "a game that writes under random faults, 30 minutes at once", "make soak SOAK_SECONDS=1800",
                 {"faults": r"^(\d+) faults", "changes": r"faults, ([\d,]+) acknowledged"}, ("faults", 1)),
        Campaign("models", "models of the standby and the swap, every state", "make models", {"checks": r"^(\d+) passed", "states": r" (\d+) +[\d.]+ s  "},
                 ("checks", 1), once=True),
    ]
    for kind in KINDS:
        out += [
            Campaign(f"kills-{kind}", f"kills of the server under acknowledged writes, {kind}", "make kills KILL_ROUNDS=50",
                     {"kills": r"^(\d+) kills", "changes": r"kills, (\d+) changes"}, ("kills", 700), env={"WK_KIND": kind}),
            Campaign(f"changes-{kind}", f"losses after random definitions, settings and sessions, {kind}",
                     f"make changes CHANGES=20 CHANGES_SEED={{seed}} CHANGES_STATE= CHANGES_SERVERS={kind}",
                     {"losses": r"^(\d+) losses", "up": r"losses, (\d+) UP", "with other settings": r"UP, (\d+) under",
                      "with sessions that held locks": r"settings, (\d+) with sessions"}, ("losses", 700)),
            Campaign(f"settings-{kind}", f"every session variable at its least and greatest value, {kind}",
                     f"make settings SETTINGS_SERVERS={kind}", {"tests": r"(\d+) passed"}, ("tests", 1), once=True),
        ]
    for kind in ("mariadb", "mysql"):
        out.append(Campaign(f"takeover-{kind}", f"two machines and one world, {kind}",
                            f"make takeover-torture TAKEOVER_ROUNDS=10 TAKEOVER_SEED={{seed}} TAKEOVER_STATE= TAKEOVER_SERVERS={kind}",
                            {"rounds": r"^\w+ (round) \d+:", "with three moves": r"^\w+ round \d+: (?:[3-9]|\d\d+) (moves),"},
                            ("rounds", 500)))
    return out


def number(text):
    text = text.replace(",", "")
    return float(text) if re.fullmatch(r"\d+\.\d+", text) else int(text) if text.isdigit() else 1


def counted(campaign, text):
    """Returns the counts in the output of a slice."""
    return {name: round(sum(number(m) for m in re.findall(pattern, text, re.M)), 1) for name, pattern in campaign.counts.items()}


def commit():
    def git(*args):
        return subprocess.run(["git", *args], cwd=TOP, capture_output=True, text=True, check=True).stdout.strip()
    own = [f":(exclude){path.relative_to(path.parents[1])}" for path in (REPORT, DATA)]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "Makefile", "tests", *own)
    return git("rev-parse", "--short=10", "HEAD") + ("-changed" if changed else "")


def version(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "none"


def machine():
    with open("/etc/os-release") as f:
        system = re.search(r'^PRETTY_NAME="(.*)"', f.read(), re.M)[1]
    return {"system": system, "processors": os.cpu_count(), "memory, GiB": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30,
            "architecture": platform.machine(), **{kind: server(kind) for kind in KINDS}, "compiler": version("gcc", "--version"),
            "libcurl": version("pkg-config", "--modversion", "libcurl"),
            "client library": version("pkg-config", "--modversion", "libmariadb")}


def server(kind):
    """Returns the version of this kind of server that the tests use."""
    return version("/usr/bin/python3", "-c", "import sys; sys.path.insert(0, sys.argv[1]); import wk.server as s; "
                   "print('.'.join(map(str, s.version(sys.argv[2]))))", str(TOP / "tests/system"), kind)


class Results:
    """{campaign: {commit: row}}, a row being its date, machine, seconds, slices, counts and failures."""

    def __init__(self):
        self.file = STATE / "results.json"
        published = json.loads(DATA.read_text())["campaigns"] if DATA.exists() else {}
        self.all = json.loads(self.file.read_text()) if self.file.exists() else published

    def row(self, campaign, at):
        return self.all.setdefault(campaign.name, {}).setdefault(
            at, {"date": None, "machine": None, "seconds": 0, "slices": 0, "counts": {}, "failures": []})

    def add(self, campaign, at, seconds, counts, failure):
        row = self.row(campaign, at)
        row["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        row["seconds"] = round(row["seconds"] + seconds)
        row["slices"] += 1
        row["machine"] = machine()
        old = {} if campaign.once else row["counts"]
        row["counts"] = {name: round(old.get(name, 0) + n, 1) for name, n in counts.items()}
        row["failures"] += [failure] if failure else []
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.all, indent=1, sort_keys=True) + "\n")
        new.replace(self.file)

    def done(self, campaign, at):
        row = self.row(campaign, at)
        return bool(row["failures"]) or row["counts"].get(campaign.wanted[0], 0) >= campaign.wanted[1]


def run_slice(campaign, seed):
    """Returns (seconds that it took, counts, what failed or None)."""
    log = STATE / f"{campaign.name}-{seed}.log"
    began = time.monotonic()
    with open(log, "wb") as out:
        run = subprocess.run(["bash", "-c", campaign.command.format(seed=seed)], cwd=TOP, stdin=subprocess.DEVNULL, stdout=out,
                             stderr=subprocess.STDOUT, env={**os.environ, **campaign.env}, check=False)
    counts = counted(campaign, log.read_text(errors="replace"))
    failure = f"exit status {run.returncode} with seed {seed}" if run.returncode else None
    print(f"{campaign.name}: {counts}" + (f", FAILED, see {log}" if failure else ""), flush=True)
    return time.monotonic() - began, counts, failure


def run_campaigns(chosen, at, results, jobs, end):
    """Runs slices until all campaigns are done. Begins none after the time `end`."""
    running = {}

    def under_way(campaign):
        return list(running.values()).count(campaign)

    with ThreadPoolExecutor(jobs) as pool:
        while True:
            while len(running) < jobs and not (end and time.monotonic() >= end):
                left = [c for c in chosen if not results.done(c, at) and not (c.once and under_way(c))]
                if not left:
                    break
                campaign = min(left, key=lambda c: (under_way(c), results.row(c, at)["seconds"]))
                slices = sum(row["slices"] for row in results.all[campaign.name].values()) + under_way(campaign)
                seed = 1000 * (slices + 1)  # no other commit had it
                running[pool.submit(run_slice, campaign, seed)] = campaign
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                results.add(running.pop(done), at, *done.result())
            report(results)


def summed(campaign, rows):
    """Returns (commits, counts) of the rows since the last failure. `rows` are (commit, row), the oldest first."""
    commits, counts = [], {}
    for at, row in rows:
        if row["failures"]:
            commits, counts = [], {}
            continue
        commits.append(at)
        for name in campaign.counts:
            counts[name] = round(counts.get(name, 0) + row["counts"].get(name, 0), 1)
    return commits, counts


def committed(at):
    """Returns when the commit was made, in seconds; 0 if it is not known here."""
    done = subprocess.run(["git", "show", "-s", "--format=%ct", at.partition("-")[0]], cwd=TOP, capture_output=True, text=True,
                          check=False)
    return int(done.stdout or 0)


def changed_lines(since):
    """Returns the number of lines of src that differ from that commit, or "unknown"."""
    done = subprocess.run(["git", "diff", "--numstat", since, "--", "src"], cwd=TOP, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return "unknown"
    return f"{sum(int(n) for line in done.stdout.splitlines() for n in line.split()[:2] if n.isdigit()):,}"


def sums(rows):
    """Returns the table of sums, with a row for each campaign that takes several slices and ran on several commits."""
    lines = ["", "Sums over all commits since the last failure of each campaign:", "",
             "| campaign | commits | oldest | lines of `src` changed since | counts | goal | result |", "|---|---|---|---|---|---|---|"]
    for campaign in campaigns():
        commits, counts = summed(campaign, [(at, row) for of, at, row in rows if of.name == campaign.name])
        if campaign.once or len(commits) < 2:
            continue
        reached = counts[campaign.wanted[0]] >= campaign.wanted[1]
        lines.append(f"| {campaign.name} | {len(commits)} | {commits[0]} | {changed_lines(commits[0].partition('-')[0])} | {words(counts)} | "
                     f"{campaign.wanted[1]:,} {campaign.wanted[0]} | {'passed' if reached else 'passed, not at its goal yet'} |")
    return lines if len(lines) > 5 else []


def words(counts):
    return ", ".join(f"{n:,} {name}" if "percent" not in name else f"{n} % {name.replace(', percent', '')}"
                     for name, n in sorted(counts.items()))  # the order of the JSON


def report(results):
    rows = [(campaign, at, row) for campaign in campaigns() for at, row in
            sorted(results.all.get(campaign.name, {}).items(), key=lambda item: committed(item[0])) if row["slices"]]
    machines = []
    for _, _, row in rows:
        if row["machine"] not in machines:
            machines.append(row["machine"])
    lines = ["# Report of the campaigns", "",
             "`make report` (`tests/report.py`) writes this file; do not edit it. Each row is what ran on one commit. A campaign that is",
             "not listed has not run. Documents that state a number of a campaign link to this file.", "",
             "| campaign | commit | date | time | on | counts | goal | result |", "|---|---|---|---|---|---|---|---|"]
    for campaign, at, row in rows:
        goal = f"{campaign.wanted[1]:,} {campaign.wanted[0]}" if campaign.wanted[1] > 1 else "all"
        result = "; ".join(row["failures"]) or ("passed" if results.done(campaign, at) else "passed, not at its goal yet")
        lines.append(f"| {campaign.name}: {campaign.title} | {at} | {row['date']} | {row['seconds'] / 60:.0f} min | "
                     f"{machines.index(row['machine']) + 1} | {words(row['counts'])} | {goal} | {result} |")
    lines += sums(rows)
    for n, one in enumerate(machines, 1):
        lines += ["", f"On {n}: " + ", ".join(f"{name} {value}" for name, value in one.items()) + "."]
    lines += ["", "| campaign | command of one slice |", "|---|---|",
              *(f"| {c.name} | `{''.join(f'{k}={v} ' for k, v in c.env.items())}{c.command}` |" for c in campaigns())]
    REPORT.write_text("\n".join(lines) + "\n")
    DATA.write_text(json.dumps({"campaigns": {name: kept for name, of in results.all.items() if
                                              (kept := {at: row for at, row in of.items() if row["slices"]})}},
                               indent=1, sort_keys=True) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("campaigns", nargs="*", metavar="CAMPAIGN")
    p.add_argument("--seconds", type=int, help="begin no slice after this time")
    p.add_argument("--jobs", type=int, default=1, help="this many campaigns at a time")
    p.add_argument("--write", action="store_true", help="only write the report")
    args = p.parse_args()
    known = {c.name: c for c in campaigns()}
    for name in args.campaigns:
        if name not in known:
            p.error(f"{name} is no campaign; there are {', '.join(known)}")
    STATE.mkdir(parents=True, exist_ok=True)
    alone = open(STATE / "lock", "w")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        p.error("another tests/report.py is running here; each would overwrite the counts of the other")
    results, at = Results(), commit()
    chosen = [known[name] for name in args.campaigns or known]
    end = time.monotonic() + args.seconds if args.seconds else None
    if not args.write:
        run_campaigns(chosen, at, results, max(args.jobs, 1), end)
    report(results)
    return 1 if any(results.row(c, at)["failures"] for c in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
