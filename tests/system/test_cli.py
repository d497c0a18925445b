"""The command line: help, usage, exit codes, JSON, progress."""
import json
import os
import pty
import pwd
import re
import select
import shutil
import subprocess

import pytest
from wk.keeper import BINARY, DONE, FAILED, NOTHING, REFUSED, USAGE
from wk.util import PATIENCE

pytestmark = pytest.mark.any_server


def plain(*args):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=PATIENCE,
                          env={"PATH": os.environ["PATH"]})


def test_version_and_help():
    """--version and --help need no config; the help names every action."""
    version = plain("--version")
    assert version.returncode == 0 and re.fullmatch(r"worldkeeper \d+\.\d+\.\d+.*\n", version.stdout)
    text = plain("--help")
    assert text.returncode == 0
    for action in ("run", "check", "init", "dump", "list", "verify", "drill", "restore", "status",
                   "pause", "resume", "test-alert", "json", "quiet", "verbose", "config", "world",
                   "force", "into", "dry-run"):
        assert "--" + action in text.stdout, action
    assert max(map(len, text.stdout.splitlines())) <= 80  # of a terminal


def test_help_of_one_action():
    """--help ACTION and --ACTION --help are one; what is no action is told."""
    text = plain("--help", "drill")
    assert text.returncode == 0 and "--drill[=DUMP]" in text.stdout and "--rollup" not in text.stdout
    assert text.stdout == plain("--drill", "--help").stdout
    wrong = plain("--help", "tidy")
    assert wrong.returncode == USAGE and "no such action" in wrong.stderr and not wrong.stdout


@pytest.mark.parametrize("args", [
    ["--nosuch"], ["--dump", "--restore"], ["dump"], ["--dump", "extra"], ["--dump=x"],
    ["--pause=soon"], ["--into", "x"], ["--list", "--force"], ["--restore", "--into"]])
def test_bad_usage(keeper, args):
    """What makes no sense is refused with 2 and a word, before anything is done."""
    done = keeper.run(*args)
    assert done.rc == USAGE and done.err.strip(), done


@pytest.mark.parametrize("args", [["--json", "--pause=90"], ["--pause=90", "--json"], ["--nosuch", "--pause", "--json"]])
def test_bad_usage_as_json(keeper, args):
    """In whatever order the options come."""
    done = keeper.run(*args)
    assert done.rc == USAGE and done.err.strip(), done
    assert done.json["action"] == "pause" and not done.json["ok"] and done.json["exit"] == USAGE
    assert done.json["error"]["class"] == "usage" and done.json["error"]["text"] in done.err


def test_world_names_a_config_in_etc():
    """--world NAME is /etc/worldkeeper/NAME.ini; a name is no path."""
    done = plain("--world", "no-such-world", "--list")
    assert done.returncode == USAGE and "/etc/worldkeeper/no-such-world.ini" in done.stderr
    assert plain("--world", "../../tmp/x", "--list").returncode == USAGE


def test_a_config_for_other_eyes_says_who_has_to_type(tmp):
    """What was typed comes back as a command for root, with the user who may read the config."""
    os.chmod(tmp, 0o755)
    program, config = os.path.join(tmp, "worldkeeper"), os.path.join(tmp, "my world.ini")
    shutil.copy(BINARY, program)
    with open(config, "w") as f:
        f.write("[world]\n")
    os.chmod(config, 0)
    owner = "daemon" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    if os.geteuid() == 0:
        shutil.chown(config, owner)
    done = subprocess.run([program, "--config", config, "--list"], capture_output=True, text=True, timeout=PATIENCE, cwd="/",
                          env={"PATH": os.environ["PATH"]}, **({"user": "nobody"} if os.geteuid() == 0 else {}))
    assert done.returncode == USAGE and "Permission denied" in done.stderr, done
    assert f"as root: runuser -u {owner} -- worldkeeper --config '{config}' --list" in done.stderr, done


def test_neither_config_nor_world():
    """Without either there is nothing to act on."""
    done = plain("--list")
    assert done.returncode == USAGE and "--config" in done.stderr


def test_init_twice_is_no_harm(keeper):
    """--init makes sentinel and lease tables, and says that they are there when asked again."""
    before = keeper.world.sql("SELECT * FROM worldkeeper_sentinel")
    keeper.ok("--init")
    assert keeper.world.sql("SELECT * FROM worldkeeper_sentinel") == before
    assert keeper.world.sql("SHOW TABLES LIKE 'worldkeeper\\_%'")


def test_init_adopts_no_living_world_of_others(keeper, make_keeper):
    """A sentinel of which nothing here knows is somebody else's: adopted only where that is meant, and not lost with
    state.json, since the dumps know it too."""
    other = make_keeper(keeper.world, account=False)
    done = other.run("--init")
    assert done.rc == REFUSED and "another supervisor may keep" in done.err and "--init --force" in done.err, done
    assert not os.path.exists(os.path.join(other.dumps_dir, "state.json"))
    other.ok("--init", "--force")
    keeper.dump()
    os.unlink(os.path.join(keeper.dumps_dir, "state.json"))
    keeper.ok("--init")


def test_a_refused_init_changes_nothing(doomed, victim):
    """The world was made by hand after a loss, from a dump without our tables: an --init that is refused leaves no
    empty sentinel, by which the supervisor would take the world for lost."""
    doomed.dump()
    doomed.start()
    doomed.ok("--pause")
    victim.crash()
    doomed.world.sql("DROP TABLE worldkeeper_sentinel", "INSERT INTO mark VALUES (1,77)")
    doomed.ok("--resume")
    doomed.wait_state("WAITING")
    (found,) = [c for c in doomed.run("--check", "--json").result["checks"] if c["name"] == "sentinel"]
    assert "hold rows" in found["text"] and "--init --force" in found["hint"] and "automatically" not in found["hint"], found
    done = doomed.run("--init")
    assert done.rc == REFUSED and "--init --force" in done.err, done
    doomed.probes_pass("M", 6)
    assert doomed.world.marked() == 77 and doomed.status()["last_restore"] is None
    doomed.ok("--init", "--force")
    doomed.wait_state("UP")
    assert doomed.world.marked() == 77 and doomed.status()["last_restore"] is None


def test_init_never_adopts_an_emptied_world(doomed, victim):
    """--init on a world that was just lost would turn the loss into the truth: refused."""
    doomed.dump()
    victim.crash()
    done = doomed.run("--init")
    assert done.rc != DONE, done
    doomed.ok("--restore")
    assert doomed.world.rows() == 2000


@pytest.mark.parametrize("action", ["--dump", "--list", "--verify", "--check", "--status",
                                    "--restore", "--init"])
def test_json_is_one_object(keeper, action):
    """With --json stdout is one JSON object, whether it went well or not."""
    done = keeper.run(action, "--json")
    answer = json.loads(done.out)
    assert answer["exit"] == done.rc and answer["ok"] == (done.rc == DONE)
    assert answer["action"] == action.strip("-")
    assert "result" in answer or {"class", "text"} <= set(answer["error"])


def test_errors_have_one_grammar(doomed, victim):
    """On stderr: worldkeeper: step: what happened, then HINT: the way out."""
    victim.kill9()
    done = doomed.run("--dump")
    assert done.rc == FAILED, done
    assert re.search(r"^worldkeeper: [\w -]+: .+", done.err, re.M), done
    assert re.search(r"^HINT: .+", done.err, re.M), done


def test_restore_without_any_dump(doomed, victim):
    """Nothing to restore from is 5, by itself."""
    victim.crash()
    done = doomed.run("--restore")
    assert done.rc == NOTHING, done


def test_quiet_says_nothing_when_all_is_well(keeper):
    """--quiet is for cron: output only on trouble."""
    done = keeper.ok("--dump", "--quiet")
    assert not done.out and not done.err, done


def test_verify_on_nothing(keeper):
    """No dump at all is not well: somebody believes there is one."""
    done = keeper.run("--verify")
    assert done.rc in (NOTHING, 6), done


def on_terminal(keeper, *args):
    """What the action shows on a terminal of 100 columns."""
    main, side = pty.openpty()
    process = subprocess.Popen(keeper.command(*args), stdin=side, stdout=side, stderr=side,
                               env=keeper.environment(TERM="xterm", COLUMNS="100"))
    os.close(side)
    shown = b""
    while True:
        ready, _, _ = select.select([main], [], [], PATIENCE)
        assert ready, shown
        try:
            data = os.read(main, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(main)
    assert process.wait(PATIENCE) == 0, shown
    return shown.decode("utf-8", "replace")


@pytest.mark.parametrize("supervised", [False, True])
def test_progress_bar_on_a_terminal(make_world, make_keeper, supervised):
    """A person sees how far a dump is: percent, rows, bytes; also when the supervisor does it."""
    keeper = make_keeper(make_world("big")).init()
    if supervised:
        keeper.start()
    shown = on_terminal(keeper, "--dump")
    assert "\r" in shown and "%" in shown and "rows" in shown, shown[-500:]
    assert "100" in shown and shown.endswith("\n")


def test_plain_lines_elsewhere(keeper):
    """In a pipe or a log file there are lines without control characters."""
    done = keeper.ok("--dump")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.out + done.err), done


ZONE = "CET-1CEST,M3.5.0,M10.5.0/3"


@pytest.mark.parametrize("args", [("--restore", "--at", "2025-10-26 02:30"), ("--pause", "--until", "2085-10-28 02:30"),
                                  ("--rollup", "--until", "2025-10-26T02:30:00")])
def test_a_local_time_that_there_is_twice(keeper, args):
    """Nobody can know which one is meant: both are named, to be typed."""
    done = keeper.run(*args, TZ=ZONE)
    day = args[-1][:10]
    assert done.rc == USAGE, done
    assert f"{day}T00:30:00Z and {day}T01:30:00Z" in done.err and f"{args[1]} {day}T01:30:00Z" in done.err, done
