"""Tests of the Pacemaker agent (etc/ocf/world) with the tester that comes with the standard agents."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from wk.follow import dump_and_follow
from wk.keeper import BINARY, ROOT
from wk.stores import FETCHED, program
from wk.util import PATIENCE, wait_for

TESTER = program("ocf-tester")
pytestmark = [pytest.mark.any_server, pytest.mark.skipif(
    not TESTER or not shutil.which("xmllint"), reason="ocf-tester (package resource-agents) or xmllint is not there")]


@pytest.fixture
def agent(tmp):
    """Returns a function that calls the agent, with its environment in `env` and the tester, adapted to its directory, in
    `tester`."""
    root = "/" if TESTER.startswith("/usr/") else FETCHED
    path, tester = os.path.join(tmp, "world"), os.path.join(tmp, "ocf-tester")
    os.chmod(tmp, 0o755)
    shutil.copy(os.path.join(ROOT, "etc/ocf/world"), path)
    with open(TESTER) as f, open(tester, "w") as to:
        to.write(re.sub("^DATADIR=.*", f"DATADIR={root}/usr/share", f.read(), flags=re.M))
    env = {**os.environ, "OCF_ROOT": os.path.join(root, "usr/lib/ocf"), "HA_RSCTMP": tmp, "OCF_RESOURCE_INSTANCE": "w",
           "OCF_RESKEY_binary": BINARY, "WORLDKEEPER_FAULT": "waits=5"}

    def call(action, **settings):
        return subprocess.run([path, action], capture_output=True, text=True, timeout=300,
                              env={**env, **{f"OCF_RESKEY_{k}": v for k, v in settings.items()}})
    call.path, call.tester, call.env = path, tester, env
    return call


@pytest.mark.slow
def test_the_tester_of_agents(make_followed, agent, tmp):
    """The agent passes ocf-tester with a world that changes its role each time, and behaves in the cases that ocf-tester
    omits."""
    os.mkdir(os.path.join(tmp, "store"), 0o700)
    keeper = make_followed(settings={"offsite": {"url": f"file://{tmp}/store/", "plain": "yes"},
                                     "standby": {"lease": "none"}})
    settings = {"config": keeper.config_path, "fenced": "yes"}
    try:
        dump_and_follow(keeper)
        keeper.wait(lambda: (keeper.status()["offsite"] or {}).get("newest") == keeper.newest()["name"], "it is stored")
        before = keeper.world.snapshot()
        assert agent("monitor", **settings).returncode == 8
        assert agent("promote", **settings).returncode == 0
        assert agent("demote", **settings).returncode == 0
        assert agent("monitor", **settings).returncode == 0
        assert agent("stop", **settings).returncode == 0
        keeper.process.wait(PATIENCE)
        assert "was removed" not in keeper.log()
        said = subprocess.run([*([] if os.access(agent.tester, os.X_OK) else ["sh"]), agent.tester, "-v", "-n", "w",
                               *(w for k, v in settings.items() for w in ("-o", f"{k}={v}")), agent.path],
                              env=agent.env, capture_output=True, text=True, timeout=600)
        assert said.returncode == 0 and "passed all tests" in said.stdout, (said.stdout[-4000:], said.stderr[-4000:])
        assert agent("start", **settings).returncode == 0
        assert agent("promote", **settings).returncode == 0
        keeper.world.assert_is(before)
        # A supervisor that hangs is not reported as stopped, because another machine would take over what it may still change.
        pid = json.loads(keeper.published("status.json"))["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            for action in ("demote", "stop"):
                assert agent(action, **settings).returncode == 1
        finally:
            os.kill(pid, signal.SIGCONT)
        assert agent("monitor", config="/nowhere", CRM_meta_interval="10000").returncode == 6
        assert agent("nothing", **settings).returncode == 3
    finally:
        agent("stop", **settings)


ANSWER = """#!/bin/sh
pid=$(cat "$0.pid")
case "$* $(cat "/proc/$pid/stat" 2>/dev/null)" in
*--status*') '[RS]*) echo '{"action":"status","state":"UP","pid":'"$pid"',"standby":{"role":"primary"}}' ;;
esac
"""


@pytest.fixture
def liar(agent, tmp):
    """Returns stop(user, pid), which runs the agent's stop action while a fake supervisor answers with that process ID."""
    program_, config = os.path.join(tmp, "worldkeeper"), os.path.join(tmp, "w.ini")
    for path, text in ((program_, ANSWER), (config, "")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)

    def stop(user, pid):
        with open(program_ + ".pid", "w", encoding="utf-8") as f:
            f.write(str(pid))
        return agent("stop", config=config, binary=program_, user=user)
    stop.looks_like_ours = ["worldkeeper", "--config", config, "--run"]
    return stop


@pytest.fixture
def sleeper(request):
    """Returns start(user, words), which starts a process of that user with that command line."""
    def start(user, words):
        child = subprocess.Popen(["bash", "-c", "exec -a \"$0\" perl -e 'sleep 900' -- \"$@\"", *words], user=user, start_new_session=True)
        request.addfinalizer(lambda: (child.kill(), child.wait()))
        wait_for(lambda: open(f"/proc/{child.pid}/cmdline", "rb").read().startswith(words[0].encode() + b"\0"), "it runs")
        return child
    return start


@pytest.mark.skipif(os.geteuid() != 0, reason="this machine: not root, whom the agent runs as")
@pytest.mark.parametrize("user, words, ends", [
    ("nobody", None, True), ("", None, True),
    ("nobody", ["sshd"], False), ("", ["sshd"], False),
    ("nobody", ["worldkeeper", "--config", "/etc/other.ini", "--run"], False),
    ("nobody", "root's", False),
])
def test_root_ends_only_the_supervisor(liar, sleeper, user, words, ends):
    """The process that answers runs as the service's user, so the agent ends the named process only as that user, and
    only if it is a supervisor of this config."""
    owner = "root" if words == "root's" or not user else user
    victim = sleeper(owner, liar.looks_like_ours if words in (None, "root's") else words)
    done = liar(user, victim.pid)
    if ends:
        assert done.returncode == 0 and victim.wait(PATIENCE) == -signal.SIGTERM, done
    else:
        assert done.returncode == 1 and "is not that supervisor" in done.stderr and victim.poll() is None, done
