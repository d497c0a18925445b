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


def runs(pid):
    """Returns True if the process still does something. A zombie, which has no command line, does not."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read() != b""
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def primary(make_followed, tmp):
    """A keeper with [standby] and without a lease, whose supervisor does not run yet."""
    os.mkdir(os.path.join(tmp, "store"), 0o700)
    return make_followed(settings={"offsite": {"url": f"file://{tmp}/store/", "plain": "yes"}, "standby": {"lease": "none"}})


def stored(keeper, but=None):
    """Waits until the newest dump, a later one than `but`, is in the store. Returns its name."""
    def name():
        newest = keeper.newest()["name"]
        return newest if newest != but and (keeper.status()["offsite"] or {}).get("newest") == newest else None
    return keeper.wait(name, "the newest dump in the store")


@pytest.mark.slow
def test_the_tester_of_agents(primary, agent):
    """The agent passes ocf-tester with a world that changes its role each time, and behaves in the cases that ocf-tester
    omits."""
    keeper, settings = primary, {"config": primary.config_path, "fenced": "yes"}
    try:
        dump_and_follow(keeper)
        stored(keeper)
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
        # A supervisor that hangs is not reported as stopped before it has ended, because another machine would take over what
        # it may still change.
        pid = json.loads(keeper.published("status.json"))["pid"]
        os.kill(pid, signal.SIGSTOP)
        assert agent("demote", **settings).returncode == 1
        assert agent("stop", **settings).returncode == 0 and not runs(pid)
        assert agent("monitor", **settings).returncode == 7
        assert agent("nothing", **settings).returncode == 3
    finally:
        agent("stop", **settings)


@pytest.mark.slow
def test_a_promotion_is_forced_only_for_the_missing_proof(primary, agent, tmp):
    """With fenced=yes the agent promotes with --force if nothing proves that the other machine has stopped. After a handover
    the promotion is refused as long as the store does not answer, so that nothing of what was handed over is lost."""
    keeper, store = primary, os.path.join(tmp, "store")
    settings = {"config": keeper.config_path, "fenced": "yes"}
    dump_and_follow(keeper)
    first = stored(keeper)
    before = keeper.world.snapshot()
    assert agent("demote", **settings).returncode == 0
    os.rename(store, store + ".away")
    done = agent("promote", **settings)
    os.rename(store + ".away", store)
    assert done.returncode == 1 and agent("monitor", **settings).returncode == 0, done
    assert agent("promote", **settings).returncode == 0
    keeper.world.assert_is(before)
    # Without a handover.
    stored(keeper, but=first)
    keeper.ok("--demote", "--force")
    done = agent("promote", config=keeper.config_path)
    assert done.returncode == 1 and "nothing proves that the other machine has stopped" in done.stderr, done
    assert agent("promote", **settings).returncode == 0
    keeper.world.assert_is(before)


@pytest.mark.parametrize("what", ["config", "no config", "directory"])
def test_a_supervisor_whose_files_cannot_be_read(primary, agent, what):
    """A supervisor keeps running while its config on the disk is bad or missing, or its dump directory cannot be opened. Then
    it is not reported as not running, and stop ends it all the same."""
    settings, pid = {"config": primary.config_path}, None
    try:
        assert agent("start", **settings).returncode == 0
        pid = json.loads(primary.published("status.json"))["pid"]
        if what == "config":
            with open(primary.config_path, "a", encoding="utf-8") as f:
                f.write("nonsense\n")
        elif what == "no config":
            os.rename(primary.config_path, primary.config_path + ".away")
        else:
            os.chmod(primary.dumps_dir, 0o777)
        for action in ("monitor", "start", "promote", "demote"):
            done = agent(action, CRM_meta_interval="10000", **settings)
            said = rf"has not ended \(process {pid}[ 0-9]*\): .*{primary.base}"
            assert done.returncode == 1 and re.search(said, done.stderr), (action, done)
        assert runs(pid)
    finally:
        done = agent("stop", **settings)
        left = pid is not None and runs(pid)
        if left:
            os.kill(pid, signal.SIGKILL)
    assert done.returncode == 0 and not left, done


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
    stop.program, stop.config = program_, config
    stop.looks_like_ours = ["worldkeeper", "--config", config, "--run"]
    return stop


@pytest.fixture
def sleeper(request):
    """Returns start(user, words), which starts a process of that user with that command line."""
    def start(user, words, does="sleep 900"):
        child = subprocess.Popen(["bash", "-c", f"exec -a \"$0\" perl -e '{does}' -- \"$@\"", *words], user=user,
                                 start_new_session=True)
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


@pytest.mark.skipif(os.geteuid() != 0, reason="this machine: not root, whom the agent runs as")
@pytest.mark.parametrize("user, words, without", [
    ("nobody", ["--config", "CONFIG", "--run"], "config"),
    ("nobody", ["--config=CONFIG"], "program"),
    ("", ["--quiet", "--config", "CONFIG", "--run", "--allow-root"], "both"),
])
def test_stop_ends_a_supervisor_that_cannot_be_asked(liar, agent, sleeper, user, words, without):
    """Without the config or the program there is no status. The supervisor is found all the same, and no other action is."""
    program_, config = liar.program, liar.config
    words = [w.replace("CONFIG", config) for w in words]
    victim, other = (sleeper(user or "root", ["worldkeeper", *words, *more]) for more in ([], ["--dump"]))
    for path, what in ((config, "config"), (program_, "program")):
        if without in (what, "both"):
            os.remove(path)
    settings = {"config": config, "binary": program_, "user": user}
    for interval in ("0", "10000"):
        assert agent("monitor", CRM_meta_interval=interval, **settings).returncode == 1
    done = agent("stop", **settings)
    assert done.returncode == 0 and victim.wait(PATIENCE) == -signal.SIGTERM and other.poll() is None, done
    assert agent("monitor", CRM_meta_interval="0", **settings).returncode == 7
    assert agent("monitor", CRM_meta_interval="10000", **settings).returncode == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="this machine: not root, whom the agent runs as")
def test_stop_tells_what_it_cannot_end(liar, agent, sleeper):
    """A supervisor that ignores SIGTERM is killed. One whose user is not known here cannot be ended, and stop fails."""
    deaf = '$SIG{TERM} = "IGNORE"; sleep 900 while 1'
    victim = sleeper("nobody", liar.looks_like_ours, deaf)
    settings = {"config": liar.config, "binary": liar.program, "CRM_meta_timeout": "3000"}
    done = agent("stop", user="no-such-user", **settings)
    assert done.returncode == 1 and f"does not end (process {victim.pid})" in done.stderr and victim.poll() is None, done
    done = agent("stop", user="nobody", **settings)
    assert done.returncode == 0 and victim.wait(PATIENCE) == -signal.SIGKILL, done


NOBODY = '{"class":"not-well","num":0,"text":"no supervisor runs for world w","hint":""}'
UNPROVEN = ('{"class":"refused","num":0,"text":"nothing proves that the other machine has stopped%s; its newest copy in the '
            'store is of an unknown time.","hint":"worldkeeper --promote --by-hand --force"}')
STANDBY = '"state":"STANDBY","standby":{"role":"standby","lease":null}'
FAKE = """#!/bin/sh
echo "$*" >>"$0.calls"
case "$*" in
*--promote*--force* | *--demote*) echo '{"action":"x","ok":true,"exit":0}' ;;
*--promote*) echo '{"action":"promote","ok":false,"exit":4,"error":'"$(cat "$0.refusal")}"; exit 4 ;;
*--status*)
    case $(cat "$0.calls") in
    *--promote*--force*) echo '{"action":"status","state":"UP","standby":{"role":"primary","lease":null}}' ;;
    *) echo '{"action":"status",'"$(cat "$0.status")"'}' ;;
    esac
    ;;
esac
"""


@pytest.fixture
def fake(agent, tmp):
    """Returns call(action, status, refusal, **settings), which calls the agent with a fake program and a fake systemctl. The
    results have the calls of both in `calls`. The unit's state is `fake.unit`."""
    path = os.path.join(tmp, "worldkeeper")
    systemctl = f"""#!/bin/sh
echo "systemctl $*" >>{path}.calls
case $1 in
show) sed -n "s/^${{2#--property=}}=//p" {path}.unit ;;
stop) grep -q ActiveState=inactive {path}.unit ;;
esac
"""
    for name, text in ((path, FAKE), (os.path.join(tmp, "systemctl"), systemctl), (path + ".ini", "")):
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(name, 0o755)

    def call(action, status, refusal="", **settings):
        for name, text in (("calls", ""), ("status", status), ("refusal", refusal),
                           ("unit", f"ActiveState={call.unit}\nUser=nobody\n")):
            with open(f"{path}.{name}", "w", encoding="utf-8") as f:
                f.write(text)
        done = agent(action, **{"binary": path, "config": path + ".ini", **settings})
        with open(path + ".calls", encoding="utf-8") as f:
            done.calls = f.read()
        return done
    agent.env["PATH"] = f"{tmp}:{os.environ['PATH']}"
    call.unit = "inactive"
    return call


@pytest.mark.parametrize("refusal, fenced, code", [
    (UNPROVEN % "", "yes", 0), (UNPROVEN % "", "no", 1),
    (UNPROVEN % ": w/handover/7-1.json in the store has no HMAC of our key", "yes", 1),
    ('{"class":"unreachable","num":7,"text":"reading the store: nothing proves that the other machine has stopped; ","hint":""}',
     "yes", 1),
    ('{"class":"refused","num":0,"text":"the other machine handed over generation 7 of this world","hint":""}', "yes", 1),
], ids=["unproven", "no fence", "odd", "another error", "another refusal"])
def test_what_a_promotion_is_forced_for(fake, refusal, fenced, code):
    """The first promotion is without --force. It is repeated with --force only if the other machine's end is not proven."""
    done = fake("promote", STANDBY, refusal, fenced=fenced)
    calls = [c for c in done.calls.splitlines() if "--promote" in c]
    assert done.returncode == code and len(calls) == (2 if code == 0 else 1), done
    assert "--force" not in calls[0] and all("--force" in c for c in calls[1:]), calls


@pytest.mark.parametrize("action, status, code", [
    ("monitor", '"state":"UP","standby":null', 2), ("start", '"state":"UP","standby":null', 2),
    ("start", '"state":"WAITING","standby":{"role":"primary","lease":{"role":"primary","state":"stepped-back"}}', 0),
    ("start", '"error":{"class":"config","num":0,"text":"w.ini:9: a key is expected","hint":""}', 1),
    ("start", '"error":{"class":"not-well","num":13,"text":"no supervisor answers for world w","hint":""}', 1),
    ("monitor", '"error":{"class":"not-well","num":13,"text":"no supervisor answers for world w","hint":""}', 1),
    ("monitor", '"error":{"class":"system","num":5,"text":"cannot open state.json: Input/output error","hint":""}', 1),
    ("monitor", '"error":{"class":"not-well","num":111,"text":"no supervisor answers for world w","hint":""}', 7),
    ("monitor", f'"error":{NOBODY}', 7), ("demote", f'"error":{NOBODY}', 7), ("promote", f'"error":{NOBODY}', 7),
    ("stop", '"error":{"class":"config","num":0,"text":"w.ini:9: a key is expected","hint":""}', 0),
], ids=[f"{a}-{b}" for a, b in enumerate((
    "no standby", "no standby", "stepped back", "config", "closed", "closed", "damaged", "nobody listens", "nobody", "nobody",
    "nobody", "config"))])
def test_what_an_answer_means(fake, action, status, code):
    """Start does not wait for what stays. Only "no supervisor" of a program that looked for one means "not running", and
    nothing is done without a supervisor."""
    done = fake(action, status)
    assert done.returncode == code, done
    assert "--promote" not in done.calls and "--demote" not in done.calls and "--run" not in done.calls, done


@pytest.mark.parametrize("state, monitor, stop", [("active", 1, 1), ("deactivating", 1, 1), ("inactive", 7, 0)])
def test_the_state_of_the_unit_counts(fake, state, monitor, stop):
    """A unit that has not ended is not reported as stopped, whatever the program says, and is stopped even without its config."""
    fake.unit = state
    settings = {"unit": "worldkeeper@w.service"}
    assert fake("monitor", f'"error":{NOBODY}', **settings).returncode == monitor
    done = fake("stop", f'"error":{NOBODY}', config="/nowhere", **settings)
    assert done.returncode == stop and "systemctl stop worldkeeper@w.service\n" in done.calls, done


@pytest.mark.skipif(os.geteuid() != 0, reason="this machine: not root, whom the agent runs as")
def test_root_is_allowed_only_to_supervise(fake):
    """--allow-root is given only with --run, so that other actions of root run as the owner of the dumps."""
    for action, status in (("start", f'"error":{NOBODY}'), ("promote", STANDBY),
                           ("demote", '"state":"UP","standby":{"role":"primary"}')):
        done = fake(action, status, UNPROVEN % "", fenced="yes")
        for line in done.calls.splitlines():
            assert ("--allow-root" in line) == ("--run" in line), done.calls
        assert done.returncode == (1 if action == "start" else 0), done
