"""Tests that secrets stay in their files, and that no other user can read the players' data."""
import gzip
import os
import re
import shlex
import stat
import subprocess
import threading

import pytest

from wk.follow import crash
from wk.keeper import DONE, FAILED, REFUSED, ROOT, USER
from wk.relay import impostor
from wk.util import CANARY, PATIENCE

pytestmark = pytest.mark.any_server


class Looker(threading.Thread):
    """Looks repeatedly; counts what was read, and records where the secret was found."""

    def __init__(self, subject):
        super().__init__(daemon=True)
        self.subject, self.ended, self.found, self.read = subject, threading.Event(), [], 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *args):
        self.ended.set()
        self.join()

    def run(self):
        while not self.ended.wait(0.01):
            self.look()


class Spy(Looker):
    """Looks at arguments and environment of all processes of a keeper."""

    def look(self):
        for pid in self.subject.pids():
            for name in ("cmdline", "environ", "comm", "status"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as f:
                        data = f.read()
                except OSError:
                    continue
                self.read += 1
                if CANARY.encode() in data:
                    self.found.append((pid, name))


class Sessions(Looker):
    """Looks at a server's list of sessions and their statements."""

    def look(self):
        try:
            rows = self.subject.sessions()
        except Exception:  # the test has stopped the server
            return
        self.read += 1
        self.found += [r for r in rows if CANARY in str(r) and "IDENTIFIED" not in str(r)]


def everything_written(*roots):
    for root in roots:
        for where, _, files in os.walk(root):
            for name in files:
                path = os.path.join(where, name)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    with open(path, "rb") as f:
                        yield path, f.read()


@pytest.mark.each_server
@pytest.mark.needs("strace")
def test_no_secret_anywhere(make_keeper, make_world, victim, make_smtp, http, tmp):
    """From --init to a refused login the canary password is in no argument, environment, log, status, dump, alert, queue,
    answer, session list or write to a file."""
    sink = make_smtp(tls="smtps", login="bot")
    doomed = make_keeper(make_world(on=victim), {**sink.settings(user="bot")})
    doomed.configure({"alert.smtp": {"password_file": doomed.secret("mailpw", CANARY)},
                      "alert.webhook": {"url_file": doomed.secret("hook", f"{http.url}?{CANARY}")},
                      "dump": {"hmac_key_file": doomed.secret("key", CANARY * 2)}})
    said = []
    trace = os.path.join(tmp, "trace")
    with Sessions(victim) as sessions, Spy(doomed) as spy:
        said.append(doomed.run("--init", "--verbose"))
        doomed.prefix = ["strace", "-D", "-f", "-qq", "-s", "65536", "-o", trace,
                         "-e", "trace=write,writev,pwrite64,prctl,setrlimit,prlimit64,execve"]
        doomed.start()
        doomed.prefix = []
        said += [doomed.run(*a) for a in (["--check", "--verbose"], ["--dump", "--verbose"], ["--list", "--json"],
                                          ["--status", "--json"], ["--test-alert", "--verbose"])]
        http.mode = 500
        crash(doomed)
        victim.sql(f"ALTER USER keeper@localhost IDENTIFIED BY '{CANARY}2'")
        victim.end_sessions(user=USER)
        doomed.wait_verdict("DENIED")
        said.append(doomed.run("--check"))
        sink.wait(n=2)
    doomed.kill9()
    assert spy.read > 50 and not spy.found
    assert sessions.read > 5 and not sessions.found
    for done in said:
        assert CANARY not in done.out + done.err, done.args
    assert any("--dump" in d.args and d.rc == DONE for d in said)
    with open(trace, errors="replace") as f:
        calls = f.read()
    assert calls.count("write(") > 20 and CANARY not in calls
    # Before anything is read, the process forbids other processes of its user to read its memory, and core dumps.
    start = calls[:calls.index("PR_SET_DUMPABLE") + 100]
    assert "prctl(PR_SET_DUMPABLE, SUID_DUMP_DISABLE" in start and "RLIMIT_CORE" in start, start[-500:]
    os.unlink(trace)
    secrets = {doomed.password_file, *(os.path.join(doomed.base, n) for n in ("mailpw", "hook", "key"))}
    for path, data in everything_written(doomed.base):
        if path in secrets:
            continue
        if path.endswith(".gz"):
            data += gzip.decompress(data)
        assert CANARY.encode() not in data, path
    assert sink.mails and not any(CANARY.encode() in m.raw for m in sink.mails)
    assert http.requests and not any(CANARY.encode() in r.body for r in http.requests)


def test_no_secret_in_a_core(keeper):
    """The supervisor's limit of core files is 0, so that the passwords in its memory are never written to one."""
    keeper.start()
    with open(f"/proc/{keeper.process.pid}/limits") as f:
        core = next(line for line in f if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]


def test_a_dump_directory_for_others(keeper):
    """A dump directory that others can write is refused; --check warns if others can read it."""
    os.chmod(keeper.dumps_dir, 0o777)
    done = keeper.run("--dump")
    assert done.rc == REFUSED and "0777" in done.err and keeper.dumps_dir in done.err, done
    os.chmod(keeper.dumps_dir, 0o755)
    assert f"chmod 0700 {keeper.dumps_dir}" in keeper.run("--check").out


def plant(kind, path, precious):
    """Replaces a path of ours by a symbolic link, a hard link or a pipe."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    if kind == "symlink":
        os.symlink(precious, path)
    elif kind == "hardlink":
        os.link(precious, path)
    else:
        os.mkfifo(path, 0o666)


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo"])
def test_planted_files(keeper, http, tmp, kind):
    """A planted file at a path of ours is replaced, or refused with a solution, and never written through."""
    precious = os.path.join(tmp, "precious")
    with open(precious, "w") as f:
        f.write("precious")
    keeper.configure({**http.settings(), "status": {"metrics": "metrics.prom"}})
    keeper.dump()
    lock = os.path.join(keeper.dumps_dir, "lock")
    plant(kind, lock, precious)
    done = keeper.run("--dump")
    if kind == "hardlink":  # as in a copy by cp -al
        assert done.rc == DONE and os.lstat(lock).st_nlink == 1, done
    else:
        assert done.rc == REFUSED and "lock is " in done.err and "HINT: remove it" in done.err, done
    os.unlink(lock)
    os.makedirs(os.path.join(keeper.dumps_dir, "alerts"), exist_ok=True)
    for path in ("alerts/lock", "alerts/webhook.done"):
        plant(kind, os.path.join(keeper.dumps_dir, path), precious)
    for name in ("index.html", "status.json", "metrics.prom"):
        plant(kind, os.path.join(keeper.status_dir, name), precious)
    keeper.start(state=None)  # reading the status now would read the planted file
    names = [os.path.join(keeper.status_dir, n) for n in ("index.html", "status.json", "metrics.prom")]
    keeper.wait(lambda: all(stat.S_ISREG(os.lstat(n).st_mode) and os.lstat(n).st_nlink == 1
                            for n in names), "files of our own")
    keeper.wait_state("UP")
    keeper.stop()
    with open(precious) as f:
        assert f.read() == "precious"


@pytest.mark.parametrize("name", ["alerts", "rejected"])
def test_planted_directories(keeper, tmp, name):
    """A link in place of a directory of ours is not followed."""
    elsewhere = os.path.join(tmp, "elsewhere")
    os.mkdir(elsewhere, 0o777)
    os.symlink(elsewhere, os.path.join(keeper.dumps_dir, name))
    done = keeper.run("--dump")
    if name == "rejected":
        assert done.rc != DONE and "rejected" in done.err, done
    assert os.listdir(elsewhere) == []


def test_a_planted_queue_is_not_looked_into(keeper, tmp, http):
    """--check does not follow a link in place of the alert queue."""
    elsewhere = os.path.join(tmp, "elsewhere")
    os.mkdir(elsewhere, 0o700)
    keeper.configure(http.settings())
    for name, text in (("webhook.done", "000000000000\n"), ("000000000001.json", '{"what": "x"}')):
        with open(os.path.join(elsewhere, name), "w") as f:
            f.write(text)
    keeper.dump()
    os.rename(elsewhere, os.path.join(keeper.dumps_dir, "alerts"))
    assert "1 alerts wait" in keeper.run("--check").out
    os.rename(os.path.join(keeper.dumps_dir, "alerts"), elsewhere)
    os.symlink(elsewhere, os.path.join(keeper.dumps_dir, "alerts"))
    assert "alerts wait" not in keeper.run("--check").out


@pytest.mark.parametrize("which", ["dumps", "run", "journal"])
def test_directories_that_others_can_write(keeper, which):
    """A directory that others can write, also a sticky one, is refused with the command that corrects it."""
    path = os.path.join(keeper.base, which)
    os.makedirs(path, exist_ok=True)
    if which == "journal":
        keeper.configure({"journal": {"mode": "follow", "dir": path}})
    for mode in (0o777, 0o1777, 0o770):
        os.chmod(path, mode)
        if which == "journal":
            said = keeper.run("--check").out
        else:
            done = keeper.run("--run") if which == "run" else keeper.run("--dump")
            assert done.rc == REFUSED, done
            said = done.err
        assert f"{path} is writable by other users (mode {mode:04o})" in said and "chmod go-w" in said
    os.chmod(path, 0o700)


def test_nothing_is_made_for_others(doomed, victim, http):
    """With umask 000 dumps, state, queue and segments are readable only by us; the status files have mode 0644."""
    http.mode = 500
    doomed.configure({**http.settings(), "journal": {"mode": "auto"}})
    doomed.prefix = ["sh", "-c", 'umask 000; exec "$@"', "sh"]
    doomed.start()
    doomed.dump()
    crash(doomed)
    doomed.stop()
    seen = 0
    for where, dirs, files in os.walk(doomed.dumps_dir):
        for name in [".", *dirs, *files]:
            mode = os.lstat(os.path.join(where, name)).st_mode
            assert not mode & 0o077, (where, name, oct(mode))
            seen += 1
    assert seen > 8
    for name in os.listdir(doomed.status_dir):
        assert stat.S_IMODE(os.stat(os.path.join(doomed.status_dir, name)).st_mode) == 0o644, name


def test_a_dump_directory_that_is_a_link(keeper, tmp):
    """Links planted in place of the next dump's files are not written through."""
    target = os.path.join(tmp, "precious")
    with open(target, "w") as f:
        f.write("precious")
    keeper.dump()
    for n in range(1, 6):
        name = keeper.newest()["name"].split("-")
        for suffix in (".sql.gz.part", ".json.tmp", ".json"):
            path = os.path.join(keeper.dumps_dir, f"w1-{name[1]}-{int(name[2]) + n:08d}{suffix}")
            os.symlink(target, path)
    keeper.dump()
    with open(target) as f:
        assert f.read() == "precious"


def test_root_is_refused_unless_allowed(keeper):
    """--run as root needs --allow-root."""
    command = [a for a in keeper.command("--run") if a != "--allow-root"]
    if os.geteuid() != 0:  # an ordinary user needs no switch
        keeper.start()
        assert "--allow-root" not in keeper.process.args
        return
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE,
                          env=keeper.environment())
    assert done.returncode == REFUSED and "--allow-root" in done.stderr, done


def test_root_leaves_nothing_that_the_service_cannot_use(make_world, make_keeper, tmp):
    """Files that root's actions make in another user's dump directory belong to that user. Without a dump directory the action
    is refused, because the owner is unknown."""
    if os.geteuid() != 0:
        return
    keeper = make_keeper(make_world("small"))

    def as_root(*args):
        return subprocess.run([a for a in keeper.command(*args) if a != "--allow-root"],
                              capture_output=True, text=True, timeout=PATIENCE, env=keeper.environment())
    for path in (keeper.dumps_dir, keeper.status_dir, keeper.control_dir, keeper.password_file, keeper.config_path):
        os.chown(path, 65534, 65534)
    for action in ("--init", "--dump", "--restore=latest", "--verify", "--list", "--check"):
        done = as_root(action, *(["--force"] if "restore" in action else []))
        assert done.returncode in (DONE, FAILED) and "root" not in done.stderr.split("HINT")[0], done
        assert action == "--check" or done.returncode == DONE, done
    made = [os.path.join(d, n) for d, dirs, names in os.walk(keeper.dumps_dir) for n in [*dirs, *names]]
    assert len(made) > 3 and {os.stat(path).st_uid for path in made} == {65534}, made
    gone = os.path.join(keeper.base, "gone")
    keeper.configure({"dump": {"dir": gone}})
    done = as_root("--init")
    assert done.returncode == REFUSED and gone in done.stderr and not os.path.exists(gone), done


def options_by_action():
    """Returns {action: the options that it takes}, from src/main.c and src/actions/action.c."""
    with open(os.path.join(ROOT, "src/main.c"), encoding="utf-8") as f:
        rows = re.findall(r'\{"([a-z-]+)", (no|required|optional)_argument, (OPT_\w+), [^,]+,\s*(\w+)\}', f.read())
    with open(os.path.join(ROOT, "src/actions/action.c"), encoding="utf-8") as f:
        actions = re.findall(r'\[ACTION_\w+\] = \{"([a-z-]+)",\s*([^}]*)\}', f.read())
    assert len(rows) > 40 and len(actions) > 20
    return {name: [(row, kind) for row, _, kind, trait in rows if trait.startswith("ACTION_") and re.search(rf"\b{trait}\b", traits)]
            for name, traits in actions if "ACTION_WRITES" in traits and name != "run"}


# Values of the options, and pairs that actions refuse.
VALUES = {"from": "/a b/x.sql", "into": "it's", "table": "p q", "at": "-3m", "until": "-3m", "since": "7d", "charset": "latin1"}
APART = {("from", "dry-run")}
FILE = "=/a b/x.sql"  # only --charset needs it


def test_a_suggested_command_keeps_every_option(keeper):
    """The command that a refusal suggests has all options that were typed, alone, in pairs and all together. A missing option
    could turn a look at one table into a restore of everything."""
    if os.geteuid() != 0:
        return
    keeper.configure({"dump": {"dir": os.path.join(keeper.base, "gone")}})
    for action, options in options_by_action().items():
        alone = [[o] for o in options]
        pairs = [[a, b] for a in options for b in options if a < b]
        every = [o for o in options if not any(o[0] == b for a, b in APART) and o[0] != "charset"]
        for chosen in [[], *alone, *pairs, every]:
            names = {o for o, _ in chosen}
            if any({a, b} <= names for a, b in APART) or ("renumber" in names and "apply" not in names) or (
                    "charset" in names and len(names) > 1):
                continue
            verb = f"--{action}" + (FILE if "charset" in names else "")
            typed = [verb] + [w for o, kind in chosen for w in (
                [f"--{o}"] if kind == "OPT_FLAG" else [f"--{o}", VALUES[o]])]
            done = subprocess.run([a for a in keeper.command("--quiet", *typed) if a != "--allow-root"], capture_output=True,
                                  text=True, timeout=PATIENCE, env=keeper.environment())
            assert done.returncode == REFUSED, (typed, done)
            words = shlex.split(done.stderr.rpartition("as the service's user: ")[2])
            said = words[len(words) - words[::-1].index("worldkeeper"):]
            assert said[:2] == ["--config", keeper.config_path], (typed, done.stderr)
            rest = said[2:]
            for option, kind in chosen:
                assert f"--{option}" in rest, (typed, done.stderr)
                if kind not in ("OPT_FLAG", "OPT_TIME", "OPT_SINCE"):
                    assert rest[rest.index(f"--{option}") + 1] == VALUES[option], (typed, done.stderr)
            assert verb in rest and "--quiet" in rest
            assert len([w for w in rest if w.startswith("--")]) == len(chosen) + 2, (typed, done.stderr)


def test_the_server_cannot_ask_for_files(make_world, make_keeper, tmp):
    """A rogue server that answers a query with a request for a file gets nothing."""
    secret = os.path.join(tmp, "precious")
    with open(secret, "w") as f:
        f.write("precious-content")
    got = bytearray()
    with impostor(lambda con: serve_rogue(con, secret, got)) as there:
        done = make_keeper(make_world("empty"), {"mysql": {**there, "tls": "off"}}).run("--dump")
    assert done.rc != DONE and b"precious-content" not in got


@pytest.mark.parametrize("tls", ["off", "preferred", "required"])
def test_the_server_cannot_ask_for_the_password(make_world, make_keeper, tls):
    """A server that is not authenticated is never sent the password in clear text, although the client library has a plugin
    for that."""
    got = bytearray()
    with impostor(lambda con: ask_for_password(con, got)) as there:
        done = make_keeper(make_world("empty"), {"mysql": {**there, "tls": tls}}).run("--dump")
    assert done.rc != DONE and CANARY.encode() not in got


def ask_for_password(con, got):
    """Plays a server without TLS that asks for the password in clear text."""
    def packet(n, body):
        con.sendall(len(body).to_bytes(3, "little") + bytes([n]) + body)
    greeting = (b"\x0a5.5.5-10.11.0-MariaDB\0" + b"\1\0\0\0" + b"a" * 8 + b"\0" + b"\xff\xf7" + b"\x2d"
                + b"\2\0" + b"\xff\x81" + b"\x15" + b"\0" * 10 + b"b" * 12 + b"\0"
                + b"mysql_native_password\0")
    packet(0, greeting)
    got += con.recv(65536)
    packet(2, b"\xfemysql_clear_password\0")
    got += con.recv(65536)


def serve_rogue(con, path, got):
    """Plays a MariaDB server's handshake, then answers each query with a request for a file."""
    def packet(n, body):
        con.sendall(len(body).to_bytes(3, "little") + bytes([n]) + body)
    greeting = (b"\x0a5.5.5-10.11.0-MariaDB\0" + b"\1\0\0\0" + b"a" * 8 + b"\0" + b"\xff\xf7" + b"\x2d"
                + b"\2\0" + b"\xff\x81" + b"\x15" + b"\0" * 10 + b"b" * 12 + b"\0"
                + b"mysql_native_password\0")
    packet(0, greeting)
    got += con.recv(65536)
    packet(2, b"\0\0\0\2\0\0\0")
    while True:
        data = con.recv(65536)
        if not data:
            return
        got += data
        packet(1, b"\xfb" + path.encode())
        got += con.recv(65536)
        packet(3, b"\0\0\0\2\0\0\0")
