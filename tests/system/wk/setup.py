"""worldkeeper-setup in a pseudo-terminal: its questions, the typed answers, and a directory that stands in for the machine."""
import contextlib
import fcntl
import glob
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time

from .keeper import BINARY
from .util import PATIENCE

SETUP = os.path.join(os.path.dirname(BINARY), "worldkeeper-setup")
# A fake systemctl: it starts the supervisor as the service's user, if a drop-in of the unit names that user, shows a setting of
# the drop-ins, records its other calls, and ends the supervisor. Like a service, the supervisor has a session of its own: the end
# of setup's terminal sends no SIGHUP to it.
SYSTEMCTL = r"""#!/bin/sh
[ "$1" = show ] || echo "$*" >>"$FAKE/calls"
case $1 in
show)
    cat "$FAKE_ROOT/etc/systemd/system/$4.service.d/"*.conf 2>/dev/null | sed -n "s/^${3#--property=}=//p" | tail -n 1
    ;;
enable)
    world=${3#worldkeeper@}
    [ ! -e "$FAKE/broken" ] || exit 1
    user=$(cat "$FAKE_ROOT/etc/systemd/system/worldkeeper@$world.service.d/"*.conf 2>/dev/null | sed -n 's/^User=//p' | tail -n 1)
    [ "${user:-worldkeeper}" = "$FAKE_USER" ] || { echo "the unit starts it as ${user:-worldkeeper}" >&2; exit 1; }
    setsid $FAKE_AS "$FAKE_BINARY" --config "$FAKE_ROOT/etc/worldkeeper/$world.ini" --run $FAKE_MORE \
        </dev/null >>"$FAKE/log" 2>&1 &
    echo $! >"$FAKE/$world.pid"
    ;;
restart)
    rm -f "$FAKE/restarted" # of a call that was ended; what it asked for is done all the same, as by systemd
    : >"$FAKE/restart"
    while [ ! -e "$FAKE/restarted" ]; do sleep 0.05; done
    rc=$(cat "$FAKE/restarted")
    rm "$FAKE/restarted"
    exit "$rc"
    ;;
disable)
    world=${3#worldkeeper@}
    [ ! -e "$FAKE/broken" ] || exit 1
    if [ -e "$FAKE/$world.pid" ]; then kill "$(cat "$FAKE/$world.pid")" || true; fi
    ;;
esac
exit 0
"""


class Screen:
    """One run. `columns` is the terminal's width, by default one without wrapping; 0 means unknown."""

    def __init__(self, argv, env, cwd, columns=9999):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
                os.chdir(cwd)
                os.execvpe(argv[0], argv, env)
            finally:
                os._exit(127)
        self.rc = None

    def read_until(self, pattern):
        """Waits for the pattern in the output since the last such wait, and returns that output, or None if the program ended
        before."""
        deadline = time.monotonic() + PATIENCE * 3
        while not (found := re.search(pattern, self.text[self.seen:], re.S)):
            assert time.monotonic() < deadline, f"no {pattern!r} in: {self.text[self.seen:]}"
            if not select.select([self.fd], [], [], 1)[0]:
                continue
            try:
                more = os.read(self.fd, 65536)
            except OSError:  # the program has ended
                more = b""
            if not more:
                return None
            self.text += more.decode("utf-8", "replace").replace("\r\n", "\n")
        shown = self.text[self.seen:self.seen + found.end()]
        self.seen += found.end()
        return shown

    seen = 0

    def type(self, line):
        os.write(self.fd, (line + "\n").encode())

    def echoes(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def end(self):
        """Reads the rest and returns the exit status."""
        self.read_until(r"\Z(?!)")
        self.rc = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return self.rc

    def read_until_stopped(self):
        """Reads until the program is stopped, and returns True; False if it ended before."""
        while True:
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.02)[0]:
                    self.text += os.read(self.fd, 65536).decode("utf-8", "replace").replace("\r\n", "\n")
            state = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if state:
                return state.si_code == os.CLD_STOPPED

    def interrupt(self, key, stopped=False):
        """Types Ctrl+C (key \\x03), or sends a signal. A stopped program gets it before this returns."""
        if key != "\x03":
            os.kill(self.pid, key)
            return
        os.write(self.fd, key.encode())
        while stopped:  # the terminal sends the signal in its own time
            with open(f"/proc/{self.pid}/status") as f:
                if int(re.search("ShdPnd:\\s*(\\w+)", f.read())[1], 16) & 1 << signal.SIGINT - 1:
                    return

    def ended(self):
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def kill(self):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


class Machine:
    """A root directory below `base`, with a service user, and systemctl if wanted."""

    def __init__(self, base, server, systemd=True):
        self.base, self.server = base, server
        self.over = threading.Event()
        self.root = os.path.join(base, "root")
        self.fake = os.path.join(base, "fake")
        self.user = "nobody" if os.geteuid() == 0 else subprocess.run(
            ["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        for path in (self.root, self.fake, os.path.join(self.fake, "bin"), os.path.join(self.fake, "run")):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, 0o755)
        shutil.copy(BINARY, os.path.join(self.fake, "worldkeeper"))  # accessible to the service's user
        if os.geteuid() == 0:
            shutil.chown(os.path.join(self.fake, "run"), self.user)
            with open(os.path.join(self.fake, "log"), "w"):
                pass
        os.chmod(os.path.join(self.fake, "run"), 0o700)
        self.etc("mysql/mariadb.conf.d" if not server.mysql else "mysql/mysql.conf.d")
        if systemd:
            os.makedirs(os.path.join(self.root, "run/systemd/system"))
            os.makedirs(os.path.join(self.root, "etc/systemd/system"), exist_ok=True)
            path = os.path.join(self.fake, "bin/systemctl")
            with open(path, "w") as f:
                f.write(SYSTEMCTL)
            os.chmod(path, 0o755)

    STAGES = "asked", "stopped", "started"  # of a restart of the service
    restarts, fails = 0, 0

    def at_stage(self, stage):
        """Called at each stage of a restart, in the thread of the service."""

    def is_restarting(self):
        return self.busy or os.path.exists(os.path.join(self.fake, "restart"))

    busy = False

    def begin_service(self, name, *options):
        """Says that the server's present process is the service's."""
        if self.server.process is None:
            self.server.start(*self.options(), *options)
        with open(os.path.join(self.server.datadir, "pid")) as f:
            proc = os.path.join(self.root, "proc", f.read().strip())
        os.makedirs(proc)
        with open(os.path.join(proc, "cgroup"), "w") as f:
            f.write(f"0::/system.slice/{name}.service\n")

    def service(self, name, fails=0):
        """Makes the server a service of this machine: systemctl restart ends it and starts it with the options of its files.
        The first `fails` starts fail, as with an unknown option."""
        self.begin_service(name)
        self.fails = fails
        wanted, answer = os.path.join(self.fake, "restart"), os.path.join(self.fake, "restarted")

        def restart():
            while not self.over.wait(0.05):
                if not os.path.exists(wanted):
                    continue
                self.busy = True
                os.unlink(wanted)
                self.at_stage("asked")
                self.server.stop()
                self.restarts += 1
                self.at_stage("stopped")
                if not self.fails:
                    self.begin_service(name)
                self.at_stage("started")
                with open(answer + ".new", "w") as f:
                    f.write(f"{int(bool(self.fails))}")
                self.fails = max(self.fails - 1, 0)
                os.rename(answer + ".new", answer)
                self.busy = False
            while self.server.process and self.server.process.poll() is None:
                time.sleep(0.2)  # the server ends with the thread that started it
        threading.Thread(target=restart, daemon=True).start()

    def options(self):
        """Returns the server options that setup wrote, for its command line."""
        found = []
        for path in glob.glob(self.path("etc/mysql/*/90-worldkeeper-*.cnf")):
            with open(path) as f:
                found += ["--" + line.strip().replace(" = ", "=") for line in f if re.match("[a-z]", line)]
        return found

    def etc(self, below):
        os.makedirs(os.path.join(self.root, "etc", below), exist_ok=True)

    def environment(self, **more):
        as_user = ["setpriv", "--reuid", self.user, "--regid", "nogroup", "--clear-groups"] if os.geteuid() == 0 else []
        env = {"PATH": os.path.join(self.fake, "bin") + ":" + os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb",
               "FAKE": self.fake, "FAKE_ROOT": self.root, "FAKE_BINARY": os.path.join(self.fake, "worldkeeper"),
               "FAKE_AS": " ".join(as_user), "FAKE_USER": self.user, "FAKE_MORE": ""}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        return {**env, **more}

    def argv(self, *options, at="own"):
        """Returns the command line of setup: over this machine's server, another one, or with no option that names one (None)."""
        server = self.server if at == "own" else at
        where = ["--socket", server.socket] if server else []
        return [SETUP, "--root", self.root, *where, "--service-user", self.user, *options]

    def screen(self, *options, columns=9999, **more):
        return Screen(self.argv(*options), self.environment(**more), self.base, columns)

    def talk(self, *answers, options=(), **more):
        """Types each answer at the next question, and returns the screen after its end."""
        screen = self.screen(*options, **more)
        try:
            for pattern, line in answers:
                assert screen.read_until(pattern) is not None, f"ended before {pattern!r}: {screen.text}"
                screen.type(line)
            screen.end()
        finally:
            if screen.rc is None:
                screen.kill()
        return screen

    def run(self, *options, at="own", **more):
        """Runs setup without a terminal."""
        return subprocess.run(self.argv(*options, at=at), env=self.environment(**more), cwd=self.base, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE * 3)

    def path(self, below):
        return os.path.join(self.root, below)

    def read(self, below):
        with open(self.path(below), encoding="utf-8") as f:
            return f.read()

    def calls(self):
        try:
            with open(os.path.join(self.fake, "calls")) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def files(self):
        """Returns everything below the root."""
        return sorted(os.path.relpath(os.path.join(d, n), self.root)
                      for d, dirs, names in os.walk(self.root) for n in [*dirs, *names])

    def keeper(self, world, *options, root=False):
        """Runs worldkeeper over the world that was set up, as its user or as our own user."""
        env = self.environment()
        return subprocess.run([*([] if root else env["FAKE_AS"].split()), os.path.join(self.fake, "worldkeeper"), "--config",
                               self.path(f"etc/worldkeeper/{world}.ini"), *options],
                              env=env, cwd=self.base, text=True, capture_output=True, timeout=PATIENCE * 3)

    def destroy(self):
        self.over.set()
        for name in os.listdir(self.fake):
            if name.endswith(".pid"):
                with open(os.path.join(self.fake, name)) as f, contextlib.suppress(ProcessLookupError):
                    os.kill(int(f.read()), signal.SIGTERM)
