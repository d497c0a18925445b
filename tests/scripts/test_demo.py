"""Tests of scripts/demo.sh: it shows what it promises, fails if the world is not restored, and leaves nothing behind in either
case."""
import os
import re
import shutil
import subprocess
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def demo():
    """Returns a function that runs the demo with its own temporary directory and then looks for left-overs."""
    base = tempfile.mkdtemp(prefix="demo")
    os.chmod(base, 0o755)

    def run(**env):
        return subprocess.run([os.path.join(ROOT, "scripts/demo.sh")], capture_output=True, text=True,
                              timeout=900, env={**os.environ, "TMPDIR": base, **env})
    try:
        yield run
        assert processes_with(base) == []
        assert os.listdir(base) == []
    finally:
        shutil.rmtree(base, ignore_errors=True)


def processes_with(text):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in line and int(pid) != os.getpid():
            found.append(line)
    return found


def test_a_child_that_has_ended_is_not_alive():
    """A process that has ended does not count as alive, although its parent has not been told of its end."""
    ask = [". " + os.path.join(ROOT, "scripts/private-world.sh") + '; pw_alive "$1"', "bash"]
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        pid = str(child.pid)
        assert subprocess.run(["bash", "-c", *ask, pid], check=False).returncode == 0
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert subprocess.run(["bash", "-c", *ask, pid], check=False).returncode != 0


def test_the_end_of_a_demo_removes_only_its_own_directory(tmp_path):
    """The commands that --keep prints and writes work in a directory whose name has a blank."""
    base = tmp_path / "a b"
    (base / "data").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    start = """eval "$(sed -n '/^leave_running()/,/^}/p' scripts/demo.sh)"
        set -m; exec 3>&1 >/dev/null; sleep 60 3>&- & PW_GAME=$!; sleep 60 3>&- & PW_KEEPER=$!; sleep 60 3>&- & PW_SERVER=$!
        echo $PW_SERVER >"$PW_DIR/data/pid"; leave_running >&3"""
    env = {**os.environ, "PW_DIR": str(base), "PW_USER": "nobody", "PW_FLAG": f"{base}/status/index.html",
           "PW_LOG": f"{base}/log", "PW_SOCKET": f"{base}/data/mysqld.sock"}
    done = subprocess.run(["bash", "-c", start], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    end = re.search("end it all +(.*)", done.stdout)[1]
    subprocess.run(["bash", "-c", end], cwd=tmp_path, timeout=60, check=True)
    assert os.listdir(tmp_path) == ["a"], done.stdout


def test_the_flag_goes_up_waiting_restoring_up(demo):
    # It lasts until the flag's reader has seen it, on a busy machine too.
    done = demo(WORLDKEEPER_FAULT="restore.loaded=sleep:3000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    flags = re.findall(r"^  +-?\d+\.\d\d s   (\S+)", done.stdout, re.M)
    seen = [flag for i, flag in enumerate(flags) if i == 0 or flag != flags[i - 1]]
    assert seen == ["UP", "WAITING", "RESTORING", "UP"], done.stdout
    assert "bit for bit" in done.stdout and "Lost: nothing" in done.stdout
    rows = dict(re.findall(r"^  (\w+) +([\d,]+ +[\d,]+ +[\d,]+)$", done.stdout, re.M))
    assert set(rows) == {"players", "planets", "fleets", "orders"}
    for table, (before, in_dump, afterwards) in ((t, v.split()) for t, v in rows.items()):
        assert before == afterwards, table
        assert (in_dump != before) == (table == "orders"), table


def test_a_world_that_does_not_come_back_is_a_failure(demo):
    done = demo(WORLDKEEPER_FAULT="restore.before_rename=kill", DEMO_PATIENCE="40")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not restored within" in done.stderr
