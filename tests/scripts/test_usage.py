"""Tests that every script explains itself, refuses unknown options, and installs nothing twice."""
import os
import subprocess
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = ["deps.sh", "demo.sh", "figures.sh", "test.sh", "clean-root.sh", "migrate.sh",
           "bench.sh", "servers.sh", "oracle-client.sh", "coverage.sh", "tsan.sh", "build-deb.sh", "sbom.sh", "release.sh"]


def run(script, *args, **env):
    return subprocess.run([os.path.join(ROOT, "scripts", script), *args], capture_output=True,
                          text=True, timeout=180, cwd="/", env={**os.environ, **env})


@pytest.mark.parametrize("script", SCRIPTS)
def test_help(script):
    done = run(script, "--help")
    assert done.returncode == 0 and done.stdout.startswith("Usage:") and done.stderr == ""


@pytest.mark.parametrize("script", SCRIPTS)
def test_unknown_option(script):
    done = run(script, "--frobnicate")
    assert done.returncode == 2 and "Usage:" in done.stderr and done.stdout == ""


def test_no_script_is_left_out():
    here = [f for f in os.listdir(os.path.join(ROOT, "scripts")) if os.access(
        os.path.join(ROOT, "scripts", f), os.X_OK)]
    assert sorted(here) == sorted(SCRIPTS)


def test_deps_says_nothing_when_all_is_there():
    """deps.sh prints nothing if everything is installed, except about a package that this Debian lacks."""
    done = run("deps.sh", "test")
    said = [line for line in done.stdout.splitlines() if "this Debian has no " not in line]
    assert (done.returncode, said, done.stderr) == (0, [], "")


@pytest.mark.skipif(os.geteuid() != 0, reason="this machine: not root, whose servers run as another user")
def test_files_that_the_servers_cannot_reach_end_it_at_once():
    """Files that the servers cannot access end the run at once, with one line that says where and what to do."""
    with tempfile.TemporaryDirectory() as closed:
        done = run("test.sh", "build", TMPDIR=closed)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "0 passed, 1 failed", done
    line, = done.stderr.splitlines()
    assert f"cannot enter {closed}: chmod o+x {closed}" in line and "TMPDIR" in line, done
