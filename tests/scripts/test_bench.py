"""Tests of scripts/bench.sh: all contenders take part, and an incomplete restore is an error."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import machine  # noqa: E402

BUILD = os.path.join(ROOT, "build/release")
TINY = ["--sizes", "0.01,0.02", "--rounds", "1", "--no-warm-up", "--no-cron", "--crowd", "4"]
# A fake worldkeeper that does its work and then loses a row of a restored world.
CARELESS = """#!/bin/sh
"$(dirname "$0")/careful" "$@" || exit
case "$*" in
*--restore*)
    socket=$(sed -n 's/^socket = //p' "$2")
    exec mariadb --no-defaults --socket="$socket" --user=root -e 'DELETE FROM world.ships LIMIT 1' >&2
    ;;
esac
"""


def run(*command, base):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, cwd="/",
                          env={**os.environ, "PATH": path, "TMPDIR": base})


def careless(base):
    """Returns a build directory with the fake worldkeeper."""
    build = os.path.join(base, "build")
    shutil.copytree(os.path.join(BUILD, "bench"), os.path.join(build, "bench"), dirs_exist_ok=True)
    shutil.copy(os.path.join(BUILD, "worldkeeper"), os.path.join(build, "bench/careful"))
    with open(os.path.join(build, "worldkeeper"), "w") as f:
        f.write(CARELESS)
    os.chmod(os.path.join(build, "worldkeeper"), 0o755)
    return build


def quick_run(base, out):
    done = run(os.path.join(ROOT, "scripts/bench.sh"), "--quick", "--out", out, base=base)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(os.path.join(out, "bench.json")) as f:
        results = json.load(f)
    only = results["sizes"][0]["rounds"][0]
    mydumper = {"mydumper"} if shutil.which("mydumper") else set()
    assert set(only["dumps"]) == {"nobody", "old", "today", "fuzzy", "copy", "lock", "read1", "read2"} | mydumper
    for name, sample in only["dumps"].items():
        assert sample["wait_ms"]["longest"] > 0 and sample["wall"] > 0, name
    for loads in only["restores"].values():
        assert set(loads) == {"old", "today", "worldkeeper", "insert"} | {"myloader" for _ in mydumper}
    assert len(only["restores"]) == 2 and only["attack"]["attack"]["writes"] > 0
    assert only["outage"]["worldkeeper"]["up"] > 0
    journal = results["sizes"][0]["journal"]["rounds"][0]
    assert set(journal["restores"]) == {"alone", "server", "follow"}
    assert set(journal["cost"]) == {"off", "server", "follow"}
    for mode in ("server", "follow"):
        caught_up = journal["restores"][mode]
        assert caught_up["read"]["changes"] == caught_up["made"]["changes"] >= 90000
        for pace, sample in journal["cost"][mode].items():
            assert sample["follower_pss_mb"] > 0 and (pace == "idle" or sample["changes"] > 0), pace
    for word in ("Dumps", "Restores", "outage", "journal server", "journal follow", "Goals", "reached"):
        assert word in done.stdout
    with open(os.path.join(out, "bench.svg")) as f:
        assert "</svg>" in f.read()
    # It may be published, so nothing in it identifies the machine.
    for private in (base, "/tmp", os.uname().nodename + '"'):
        assert private not in json.dumps(results)


def careless_run(base, out, what, *more):
    done = run("/usr/bin/python3", os.path.join(ROOT, "tests/bench/bench.py"), "--build", careless(base),
               "--out", out, *TINY, *more, base=base)
    assert done.returncode == 1, done.stdout + done.stderr
    assert what in done.stderr and "table ships" in done.stderr, done.stderr


@pytest.fixture
def base():
    """Returns a short directory that other users may enter, because servers and commands run as another user if we are root."""
    path = tempfile.mkdtemp(prefix="bench")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.skipif(bool(machine.why_not("strace")), reason=machine.why_not("strace") or "")
def test_all_take_part_and_a_row_that_is_missing_is_seen(base):
    """All contenders have figures, and a missing row after a restore is an error. This is one test, because all parts need
    what scripts/bench.sh builds."""
    quick_run(base, os.path.join(base, "quick"))
    careless_run(base, os.path.join(base, "careless"), "restore by worldkeeper")
    careless_run(base, os.path.join(base, "careless"), "restore with journal", "--only", "journal")
    assert [f for f in os.listdir(base) if f.startswith("wkbench")] == []
