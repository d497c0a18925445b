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
    assert max(map(len, text.stdout.splitlines())) <= 80  # the width of a terminal


def test_help_of_one_action():
    """--help ACTION and --ACTION --help print the same text; an unknown action is a usage error."""
    text = plain("--help", "drill")
    assert text.returncode == 0 and "--drill[=DUMP]" in text.stdout and "--rollup" not in text.stdout
    assert text.stdout == plain("--drill", "--help").stdout
    wrong = plain("--help", "tidy")
    assert wrong.returncode == USAGE and "no such action" in wrong.stderr and not wrong.stdout


@pytest.mark.parametrize("args", [
    ["--nosuch"], ["--dump", "--restore"], ["dump"], ["--dump", "extra"], ["--dump=x"],
    ["--pause=soon"], ["--into", "x"], ["--list", "--force"], ["--restore", "--into"]])
def test_bad_usage(keeper, args):
    """Invalid usage exits with status 2 and a message."""
    done = keeper.run(*args)
    assert done.rc == USAGE and done.err.strip(), done


@pytest.mark.parametrize("args", [["--json", "--pause=90"], ["--pause=90", "--json"], ["--nosuch", "--pause", "--json"]])
def test_bad_usage_as_json(keeper, args):
    """Invalid usage with --json is reported as JSON, in whatever order the options are given."""
    done = keeper.run(*args)
    assert done.rc == USAGE and done.err.strip(), done
    assert done.json["action"] == "pause" and not done.json["ok"] and done.json["exit"] == USAGE
    assert done.json["error"]["class"] == "usage" and done.json["error"]["text"] in done.err


def test_world_names_a_config_in_etc():
    """--world NAME reads /etc/worldkeeper/NAME.ini; a path is not accepted as NAME."""
    done = plain("--world", "no-such-world", "--list")
    assert done.returncode == USAGE and "/etc/worldkeeper/no-such-world.ini" in done.stderr
    assert plain("--world", "../../tmp/x", "--list").returncode == USAGE


def test_a_config_for_other_eyes_says_who_has_to_type(tmp):
    """If the config is not readable, the hint repeats the command for root, with runuser and the config's owner."""
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
    """Without --config and --world the command is a usage error."""
    done = plain("--list")
    assert done.returncode == USAGE and "--config" in done.stderr


def test_init_twice_is_no_harm(keeper):
    """--init creates sentinel and lease tables; a second --init leaves them unchanged."""
    before = keeper.world.sql("SELECT * FROM worldkeeper_sentinel")
    keeper.ok("--init")
    assert keeper.world.sql("SELECT * FROM worldkeeper_sentinel") == before
    assert keeper.world.sql("SHOW TABLES LIKE 'worldkeeper\\_%'")


def test_init_adopts_no_living_world_of_others(keeper, make_keeper):
    """A sentinel that is unknown here belongs to another supervisor: --init adopts it only with --force. If state.json is lost,
    --init still knows the sentinel from the dumps."""
    other = make_keeper(keeper.world, account=False)
    done = other.run("--init")
    assert done.rc == REFUSED and "another supervisor may keep" in done.err and "--init --force" in done.err, done
    assert not os.path.exists(os.path.join(other.dumps_dir, "state.json"))
    other.ok("--init", "--force")
    keeper.dump()
    os.unlink(os.path.join(keeper.dumps_dir, "state.json"))
    keeper.ok("--init")


def test_a_refused_init_changes_nothing(doomed, victim):
    """The world was recreated manually after a loss, without our tables. A refused --init leaves no empty sentinel, which the
    supervisor would take for a loss."""
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
    """--init is refused on a world that was just lost, because it would accept the empty world."""
    doomed.dump()
    victim.crash()
    done = doomed.run("--init")
    assert done.rc != DONE, done
    doomed.ok("--restore")
    assert doomed.world.rows() == 2000


@pytest.mark.parametrize("action", ["--dump", "--list", "--verify", "--check", "--status",
                                    "--restore", "--init"])
def test_json_is_one_object(keeper, action):
    """With --json stdout is one JSON object, whether the action succeeded or not."""
    done = keeper.run(action, "--json")
    answer = json.loads(done.out)
    assert answer["exit"] == done.rc and answer["ok"] == (done.rc == DONE)
    assert answer["action"] == action.strip("-")
    assert "result" in answer or {"class", "text"} <= set(answer["error"])


def test_errors_have_one_grammar(doomed, victim):
    """An error on stderr is "worldkeeper: step: what happened", then "HINT: what to do"."""
    victim.kill9()
    done = doomed.run("--dump")
    assert done.rc == FAILED, done
    assert re.search(r"^worldkeeper: [\w -]+: .+", done.err, re.M), done
    assert re.search(r"^HINT: .+", done.err, re.M), done


def test_restore_without_any_dump(doomed, victim):
    """--restore without any dump exits with its own status, 5."""
    victim.crash()
    done = doomed.run("--restore")
    assert done.rc == NOTHING, done


def test_quiet_says_nothing_when_all_is_well(keeper):
    """--quiet prints nothing if the action succeeded, for use in cron."""
    done = keeper.ok("--dump", "--quiet")
    assert not done.out and not done.err, done


def test_verify_on_nothing(keeper):
    """--verify without any dump fails, because the operator expects one."""
    done = keeper.run("--verify")
    assert done.rc in (NOTHING, 6), done


def on_terminal(keeper, *args):
    """Returns what the action prints on a terminal of 100 columns."""
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
    """On a terminal a dump shows its progress in percent and rows, also if the supervisor runs the dump."""
    keeper = make_keeper(make_world("big")).init()
    if supervised:
        keeper.start()
    shown = on_terminal(keeper, "--dump")
    assert "\r" in shown and "%" in shown and "rows" in shown, shown[-500:]
    assert "100" in shown and shown.endswith("\n")


def test_plain_lines_elsewhere(keeper):
    """Output to a pipe has lines without control characters."""
    done = keeper.ok("--dump")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.out + done.err), done


ZONE = "CET-1CEST,M3.5.0,M10.5.0/3"


@pytest.mark.parametrize("args", [("--restore", "--at", "2025-10-26 02:30"), ("--pause", "--until", "2085-10-28 02:30"),
                                  ("--rollup", "--until", "2025-10-26T02:30:00")])
def test_a_local_time_that_there_is_twice(keeper, args):
    """An ambiguous local time (end of daylight saving time) is refused; the error names both times in UTC, ready to paste."""
    done = keeper.run(*args, TZ=ZONE)
    day = args[-1][:10]
    assert done.rc == USAGE, done
    assert f"{day}T00:30:00Z and {day}T01:30:00Z" in done.err and f"{args[1]} {day}T01:30:00Z" in done.err, done
