"""Tests of scripts/servers.sh: servers for trials are fetched completely or not at all, started and stopped."""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pymysql
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts/servers.sh")
# A fake debootstrap: each call writes a line and half a root directory before it goes on or fails. After that it has no child
# that ends normally, because a shell would take this for a handled SIGINT and continue.
FAKE = """#!/bin/bash
dir=${@: -1}
how=$(cat "$FAKE_BASE/how")
echo "$@" >>"$FAKE_BASE/calls"
mkdir -p "$dir/usr/lib/somewhere"
: >"$dir/half"
case $how in
fail) echo 'E: Failed getting release file http://deb.debian.org/debian/dists/sid/Release'; exit 1 ;;
hang) exec sleep 1000 ;;
slow) sleep 1 ;;
esac
"""


@pytest.fixture
def base():
    path = tempfile.mkdtemp(prefix="servers")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def run(*args, **env):
    return subprocess.run([SCRIPT, *args], capture_output=True, text=True, timeout=150, cwd="/",
                          stdin=subprocess.DEVNULL, env={**os.environ, **env})


class Shop:
    """A directory where servers are fetched with the fake debootstrap."""

    def __init__(self, base):
        self.base, self.roots = base, os.path.join(base, "roots")
        bin = os.path.join(base, "bin")
        os.mkdir(bin)
        for name, text in (("debootstrap", FAKE), ("id", "#!/bin/sh\necho ${FAKE_ID:-0}\n"),
                           ("dpkg-query", "#!/bin/sh\necho 'ii debootstrap '\n")):
            with open(os.path.join(bin, name), "w") as f:
                f.write(text)
            os.chmod(os.path.join(bin, name), 0o755)
        self.env = {"PATH": bin + ":" + os.environ["PATH"], "FAKE_BASE": base,
                    "WORLDKEEPER_SERVERS": self.roots}
        self.does("well")

    def does(self, how):
        with open(os.path.join(self.base, "how"), "w") as f:
            f.write(how)

    def fetch(self, **env):
        return run("fetch", "mysql", **self.env, **env)

    def begin(self):
        """Starts a fetch in its own process group."""
        self.does("hang")
        before = self.calls()
        fetching = subprocess.Popen([SCRIPT, "fetch", "mysql"], env={**os.environ, **self.env},
                                    start_new_session=True)
        while self.calls() == before or not os.path.exists(os.path.join(self.roots, "mysql.new/half")):
            assert fetching.poll() is None
            time.sleep(0.02)
        self.does("well")
        return fetching

    def calls(self):
        try:
            with open(os.path.join(self.base, "calls")) as f:
                return len(f.readlines())
        except FileNotFoundError:
            return 0

    def is_there(self):
        return os.path.exists(os.path.join(self.roots, "mysql"))


@pytest.fixture
def shop(base):
    return Shop(base)


def test_a_fetch_that_fails_is_a_failure(shop):
    """A fetch without a network shows the reason and leaves nothing that looks complete; the next one may succeed."""
    shop.does("fail")
    done = shop.fetch()
    assert done.returncode == 1 and "could not fetch mysql" in done.stderr, done
    assert "Failed getting release file" in done.stderr and done.stdout == ""
    assert not shop.is_there() and not os.path.exists(shop.roots + "/mysql.new")
    for args in (["run", "mysql"], ["install", "mysql", shop.base + "/d"],
                 ["start", "mysql", shop.base + "/s"], ["tool", "mysql", "mysqlbinlog"]):
        done = run(*args, **shop.env)
        assert done.returncode == 1 and "servers.sh fetch mysql" in done.stderr, done
    assert not os.path.exists(shop.base + "/s")
    shop.does("well")
    assert shop.fetch().returncode == 0 and shop.is_there()
    assert shop.fetch().returncode == 0 and shop.calls() == 2  # it exists


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_fetch_that_is_broken_off(shop, sign):
    """After an interrupted fetch the incomplete root is not used, and the next fetch begins again."""
    fetching = shop.begin()
    os.killpg(fetching.pid, sign)
    assert fetching.wait(150) != 0
    assert not shop.is_there()
    assert os.path.exists(shop.roots + "/mysql.new") == (sign == signal.SIGKILL)
    done = shop.fetch()
    assert done.returncode == 0 and shop.is_there() and not os.path.exists(shop.roots + "/mysql.new"), done


def test_two_fetches_at_once_are_one(shop):
    shop.does("slow")
    both = [subprocess.Popen([SCRIPT, "fetch", "mysql"], env={**os.environ, **shop.env}) for _ in range(2)]
    assert [p.wait(150) for p in both] == [0, 0]
    assert shop.calls() == 1 and shop.is_there()


def test_a_fetch_is_done_as_root(shop):
    """A fetch runs as root, or through sudo."""
    sudo = os.path.join(shop.base, "bin", "sudo")
    for may in (False, True):
        with open(sudo, "w") as f:
            f.write("#!/bin/sh\n" + ("FAKE_ID=0 exec \"$@\"\n" if may else "echo 'not in sudoers' >&2; exit 1\n"))
        os.chmod(sudo, 0o755)
        done = shop.fetch(FAKE_ID="1000")
        assert (done.returncode == 0) == may and shop.is_there() == may, done
        assert may or "not in sudoers" in done.stderr, done


def test_a_root_that_is_damaged_is_told(shop):
    """A root with a missing program is reported, instead of a loader's error."""
    assert shop.fetch().returncode == 0
    done = run("run", "mysql", **shop.env)
    assert done.returncode == 1 and shop.roots + "/mysql has no C library" in done.stderr, done


def test_what_it_does_not_know():
    for args in (["fetch", "oracle"], ["start", "postgres", "/nowhere"]):
        done = run(*args)
        assert done.returncode == 1 and "no kind" in done.stderr and "mariadb-new" in done.stderr, done
    for args in (["start", "mariadb"], ["stop", "mariadb"], ["install", "mariadb"], ["tool", "mariadb"],
                 ["frob", "mariadb"]):
        assert run(*args).returncode == 2, args


def test_keys_that_it_does_not_give(shop):
    """--keys is accepted for mysql only, with an absolute path that needs no escapes in JSON."""
    assert shop.fetch().returncode == 0
    done = run("run", "mariadb", "--keys=/nowhere", **shop.env)
    assert done.returncode == 1 and "--keys is for mysql" in done.stderr, done
    lib = shop.roots + "/mysql/usr/lib/x/"
    os.makedirs(lib)
    os.makedirs(shop.roots + "/mysql/usr/sbin")
    for name in (lib + "libc.so.6", lib + "ld.so.2", shop.roots + "/mysql/usr/sbin/mysqld"):
        open(name, "w").close()
        os.chmod(name, 0o755)
    for bad in ("keys", '/k"k', "/k\\k"):
        done = run("run", "mysql", "--keys=" + bad, **shop.env)
        assert done.returncode == 1 and "an absolute path" in done.stderr, done


@pytest.fixture
def where(base):
    """Returns a directory for a server, which is ended afterwards."""
    path = os.path.join(base, "a server")
    yield path
    run("stop", "mariadb", path)


def rows(path, *statements):
    con = pymysql.connect(unix_socket=path + "/socket", user="root", autocommit=True)
    with con, con.cursor() as cur:
        for statement in statements:
            cur.execute(statement)
        return cur.fetchall()


def test_start_and_stop(where):
    """A server answers when start returns, on the printed port, only for its owner, and keeps its data over a restart."""
    done = run("start", "mariadb", where, "--max-heap-table-size=33554432")
    assert done.returncode == 0 and done.stderr == "", done
    port = int(re.search(r"port (\d+)", done.stdout)[1])
    assert where + "/socket" in done.stdout and os.stat(where).st_mode & 0o777 == 0o700
    assert rows(where, "SELECT @@port, @@max_heap_table_size, @@bind_address") == (
        (port, 33554432, "127.0.0.1"),)
    rows(where, "CREATE DATABASE d", "CREATE TABLE d.t ENGINE=InnoDB SELECT 7 AS n")
    with pytest.raises(pymysql.err.OperationalError):  # root without a password may not connect over the network
        pymysql.connect(host="127.0.0.1", port=port, user="root")
    again = run("start", "mariadb", where)
    assert again.returncode == 1 and "runs already" in again.stderr, again
    assert run("stop", "mariadb", where).returncode == 0
    with pytest.raises(pymysql.err.OperationalError):
        rows(where, "SELECT 1")
    ended = run("stop", "mariadb", where)
    assert ended.returncode == 1 and "no server runs" in ended.stderr, ended
    again = run("start", "mariadb", where)  # its last port, unless another test's server has it
    assert again.returncode == 0, again
    port = int(re.search(r"port (\d+)", again.stdout)[1])
    assert rows(where, "SELECT n, @@port FROM d.t") == ((7, port),)


def test_a_port_that_is_taken_meanwhile(where):
    """If another process has taken the port the server uses another one and prints it."""
    assert run("start", "mariadb", where).returncode == 0
    port = rows(where, "SELECT @@port")[0][0]
    assert run("stop", "mariadb", where).returncode == 0
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
            s.listen()
        except OSError:
            pass  # another test's server has taken it, which is fine
        done = run("start", "mariadb", where)
    assert done.returncode == 0 and done.stderr == "", done
    other = int(re.search(r"port (\d+)", done.stdout)[1])
    assert other != port and rows(where, "SELECT @@port") == ((other,),)


def test_starts_that_fail(where, base):
    """Each failed start gives a reason, and changes no foreign files."""
    done = run("start", "mariadb", where, "--no-such-option")
    assert done.returncode == 1 and "no-such-option" in done.stderr, done
    assert "the server ended" in done.stderr
    assert run("start", "mariadb", where).returncode == 0
    port = rows(where, "SELECT @@port")[0][0]
    other = run("start", "mariadb", os.path.join(base, "other"), f"--port={port}")
    assert other.returncode == 1 and "already in use" in other.stderr, other
    precious = os.path.join(base, "home")
    os.mkdir(precious)
    with open(precious + "/letter", "w") as f:
        f.write("dear")
    done = run("start", "mariadb", precious)
    assert done.returncode == 1 and "not empty" in done.stderr and os.listdir(precious) == ["letter"], done
    with open(where + "/kind", "w") as f:
        f.write("mysql\n")
    for command in ("start", "stop"):
        done = run(command, "mariadb", where)
        assert done.returncode == 1 and re.search("another kind: mysql|already", done.stderr), done
    with open(where + "/kind", "w") as f:
        f.write("mariadb\n")
    long = os.path.join(base, "x" * 100)
    assert "too long" in run("start", "mariadb", long).stderr
