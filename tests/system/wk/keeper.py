"""The real daemon: its config, its actions, its supervisor, and what it publishes."""
import calendar
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

from .util import CANARY, DIE_WITH_US, PATIENCE, end_process, session_pids, stands_still, tail, wait_for

BINARY = os.path.abspath(os.environ.get("WORLDKEEPER") or os.path.join(
    os.path.dirname(__file__), "../../../build/release/worldkeeper"))
with open(BINARY, "rb") as program:
    ORACLE = b"libmysqlclient.so" in program.read()  # linked with Oracle's client library
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
USER = "keeper"
IMPATIENT = {"probe": {"timeout": "1s"}}  # for tests in which a silent server is to be detected soon
# The documented exit statuses.
DONE, FAILED, USAGE, HELD, REFUSED, NOTHING, NOT_WELL = range(7)


def built(folder, name):
    """Builds a test's own program (bench/scan, tools/…) in the build directory of the tested daemon, as the user that
    built the daemon, and returns its path. Only one make runs at a time, because the programs share objects. For a daemon
    without some parts, the programs are those of the complete daemon."""
    where, variant = os.path.split(os.path.dirname(BINARY))
    build = os.path.join(where, variant.split("-without-")[0])
    path = os.path.join(build, folder, name)
    lock = os.open(build, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        owner = os.fstat(lock)
        who = ["setpriv", f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"] if (
            os.geteuid() == 0 and owner.st_uid != 0) else []
        if not os.access(path, os.X_OK) or os.path.getmtime(path) < os.path.getmtime(BINARY):
            mode = {"san": ["SAN=1"], "tsan": ["TSAN=1"], "cov": ["COV=1"]}.get(os.path.basename(build), [])
            if build.startswith(ROOT + os.sep):  # the same form as before, because make knows headers by these names
                build = os.path.relpath(build, ROOT)
            subprocess.run([*who, "make", "-s", "-C", ROOT, "BUILD=" + build, *mode,
                            os.path.join(build, folder, name)], check=True,
                           env={name: value for name, value in os.environ.items() if name != "MAKEFLAGS"})
    finally:
        os.close(lock)
    return path


class Result:
    """The result of one action."""

    def __init__(self, args, rc, out, err):
        self.args, self.rc, self.out, self.err = args, rc, out, err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def result(self):
        return self.json["result"]

    def __repr__(self):
        return f"{' '.join(self.args)} -> {self.rc}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


class Keeper:
    """One world's config and processes, all inside `base`. `settings` are {section: {key: value}}, laid over short intervals;
    a value None removes the key."""

    def __init__(self, base, world, name="w1", settings=None, account=True):
        self.base, self.world, self.server, self.name = base, world, world.server, name
        self.dumps_dir = os.path.join(base, "dumps")
        self.status_dir = os.path.join(base, "status")
        self.control_dir = os.path.join(base, "run")
        for path, mode in ((self.dumps_dir, 0o700), (self.status_dir, 0o755),
                           (self.control_dir, 0o700)):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, mode)
        self.password_file = self.secret("password", CANARY)
        self.config_path = os.path.join(base, name + ".ini")
        self.log_path = os.path.join(base, "log")
        self.clock = os.path.join(base, "clock")
        self.process = None
        self.old_sessions = []
        self.env = {}
        self.waits = 5  # divisor of the program's own waits (src/base/fault.h)
        self.prefix = []  # a command that runs the daemon, such as nsenter
        if account:
            self.server.account(USER, [world.schema])
        self.settings = {
            "world": {"name": name, "schema": world.schema},
            "mysql": {"socket": self.server.socket, "user": USER,
                      "password_file": self.password_file, "connect_timeout": "60s",
                      "read_timeout": "120s"},
            "probe": {"interval": "200ms", "timeout": "60s"},  # a busy machine must not look like a silent server,
            "dump": {"dir": self.dumps_dir, "interval": "1h", "stall": "10m"},  # and a job that a test has stopped
            "restore": {"stall": "10m"},                                       # must not be ended as stalled
            "alert": {"journal_lag_limit": "10m"},
            "status": {"dir": self.status_dir},
            "control": {"dir": self.control_dir},
        }
        self.configure(settings or {})

    def secret(self, name, text, mode=0o600):
        """Writes a secret to its own file, not readable by others, and returns its path."""
        path = os.path.join(self.base, name)
        with open(path, "w") as f:
            f.write(text + "\n")
        os.chmod(path, mode)
        return path

    def configure(self, settings):
        """Lays settings over the present ones and writes the config."""
        for section, values in settings.items():
            mine = self.settings.setdefault(section, {})
            mine.update(values)
            for key in [k for k, v in mine.items() if v is None]:
                del mine[key]
        self.write("".join(f"[{section}]\n" + "".join(f"{k} = {v}\n" for k, v in values.items())
                           + "\n" for section, values in self.settings.items() if values))

    def write(self, text):
        with open(self.config_path + ".new", "w") as f:
            f.write(text)
        os.chmod(self.config_path + ".new", 0o600)
        os.rename(self.config_path + ".new", self.config_path)

    def command(self, *args):
        root = ["--allow-root"] if os.geteuid() == 0 or self.prefix else []
        return [*DIE_WITH_US, *self.prefix, BINARY, "--config", self.config_path, *root, *args]

    def shim(self, **how):
        """Returns the environment of a run with tests/tools/shim.c, from a path without a blank, at which the loader would end
        it."""
        path = os.path.join(self.base, "shim.so")
        if not os.path.exists(path):
            shutil.copy(built("tools", "shim.so"), path)
        return {"LD_PRELOAD": path, **{"WK_SHIM_" + what.upper(): str(value) for what, value in how.items()}}

    def set_clock(self, seconds):
        """Sets the offset of the wall clock of programs run with shim(clock=self.clock)."""
        with open(self.clock + ".new", "w") as f:
            f.write(str(seconds))
        os.rename(self.clock + ".new", self.clock)

    def environment(self, fault=None, **more):
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "RUNTIME_DIRECTORY": self.control_dir}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        faults = ([fault] if fault else []) + ([f"waits={self.waits}"] if self.waits > 1 else [])
        if faults:
            env["WORLDKEEPER_FAULT"] = ",".join(faults)
        return {**env, **self.env, **more}

    # -- actions ------------------------------------------------------------------------------

    def popen(self, *args, fault=None, **more):
        """Starts an action in its own session without waiting."""
        process = subprocess.Popen(
            self.command(*args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors="replace", cwd=self.base,
            start_new_session=True, env=self.environment(fault, **more))
        process.said = args
        self.old_sessions.append(process)
        return process

    def finish(self, process, timeout=PATIENCE * 3):
        out, err = process.communicate(timeout=timeout)
        with open(self.log_path, "a") as f:
            f.write(f"# {process.said} -> {process.returncode}\n{err}")
        sanitizer(err)
        return Result(process.said, process.returncode, out, err)

    def run(self, *args, fault=None, **more):
        """Runs one action to its end."""
        return self.finish(self.popen(*args, fault=fault, **more))

    def ok(self, *args, **more):
        """Runs one action that must succeed. Returns its result with --json, else the Result."""
        done = self.run(*args, **more)
        assert done.rc == DONE, done
        return done.result if "--json" in args else done

    def init(self, *args):
        self.ok("--init", *args)
        return self

    def dump(self, *args):
        """Makes one dump, after one that the supervisor may be making. Returns its result with the path of its file."""
        done = wait_for(lambda: (lambda d: d if d.rc != HELD else None)(
            self.run("--dump", "--json", *args)), "the other job to end")
        assert done.rc == DONE, done
        result = done.result
        result["path"] = os.path.join(self.dumps_dir, result["name"] + ".sql.gz")
        return result

    # -- the supervisor -------------------------------------------------------------------------

    def start(self, state="UP", fault=None, **more):
        """Starts the supervisor and waits for `state`, unless None. If only the last supervisor was killed, its workers end by
        themselves, and until then the dump directory is locked."""
        assert self.process is None or self.process.poll() is not None
        if self.process is not None:
            wait_for(lambda: not session_pids(self.process, but="ZXT"), "the workers of the last supervisor to end")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command("--run"), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.base, start_new_session=True, env=self.environment(fault, **more))
        self.old_sessions.append(self.process)
        self.started = time.time()
        if state:
            self.wait_state(state)
        return self

    def stop(self, sign=signal.SIGTERM, timeout=PATIENCE):
        """Signals the supervisor, waits for its end, and returns its exit status. The dump directory is locked until its
        workers have ended too, except one that a test has stopped."""
        self.process.send_signal(sign)
        rc = self.process.wait(timeout)
        wait_for(lambda: not session_pids(self.process, but="ZXT"), "the workers to end")
        return rc

    def reload(self, settings):
        """Sends SIGHUP with these settings laid over the present ones, and waits until they apply, after a running job."""
        done = f"config {self.config_path} reloaded\n"  # not "is reloaded when the running dump ends"
        n = self.log().count(done)
        self.configure(settings)
        self.process.send_signal(signal.SIGHUP)
        self.wait(lambda: self.log().count(done) > n, "the new config")

    def kill9(self):
        """Kills the supervisor and all its workers with SIGKILL, as a failing host does. Until the last one has ended the dump
        directory is locked."""
        def all_dead():
            living = self.pids()
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not living
        wait_for(all_dead, "the supervisor and its workers to die")
        if self.process is not None:
            self.process.wait()

    def pids(self):
        """Returns the living processes of the supervisor and its workers."""
        return session_pids(self.process) if self.process is not None else []

    @contextlib.contextmanager
    def standing_still(self):
        """Stops the supervisor and its workers within the block."""
        stopped = []
        try:
            while more := [pid for pid in self.pids() if pid not in stopped]:
                stopped += more
                for pid in more:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                wait_for(lambda: all(stands_still(pid) for pid in stopped), "all of it to stop")
            yield
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def worker(self, name):
        """Returns the pid of the supervisor's child of that name, or None."""
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/comm") as f:
                    if f.read().strip() == "wk-" + name:
                        return pid
            except OSError:
                pass
        return None

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def destroy(self):
        """Ends everything that this keeper has started, by pid."""
        for pid in session_pids(*self.old_sessions):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.old_sessions:
            end_process(process)
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        sanitizer(self.log())

    # -- output -----------------------------------------------------------------------------------

    def log(self):
        try:
            with open(self.log_path, errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def published(self, name):
        """Returns a file of the status directory."""
        with open(os.path.join(self.status_dir, name), encoding="utf-8") as f:
            return f.read()

    def flag(self):
        try:
            return self.published("index.html").strip()
        except FileNotFoundError:
            return None

    def status(self):
        """Returns status.json as the present supervisor wrote it, or {} before that."""
        try:
            with open(os.path.join(self.status_dir, "status.json")) as f:
                status = json.load(f)
        except FileNotFoundError:
            return {}
        if self.process is not None and status.get("pid") != self.process.pid:
            return {}
        return status

    def state(self):
        status = self.status()
        return status["state"] if status and self.of_now(status) else None

    def about(self):
        """Describes the keeper in messages of waits that fail."""
        shown = {k: self.status().get(k) for k in ("state", "reason", "flag", "probe", "running")}
        alive = "alive" if self.alive() else f"not running (exit status {self.process and self.process.returncode})"
        return f"{alive}, flag {self.flag()!r}, status {shown}\n{tail(self.log_path, 25)}"

    def wait(self, predicate, what, timeout=PATIENCE):
        """Works as wait_for, with what the daemon did meanwhile in its message."""
        return wait_for(predicate, lambda: f"{what() if callable(what) else what}; {self.about()}", timeout)

    def wait_state(self, *states, timeout=PATIENCE):
        def reached():
            assert self.alive(), "the supervisor ended: " + self.about()
            status = self.status()
            return status.get("state") in states and self.of_now(status) and status
        return self.wait(reached, f"state {' or '.join(states)}", timeout)

    def of_now(self, status):
        """Returns whether a status of UP is current. A status written before the server ended may still say UP, so it counts
        only after a later probe."""
        if status["state"] != "UP":
            return True
        asked = status["probe"]["at"]
        return bool(asked) and precise(asked) - status["probe"]["latency_ms"] / 1000 > self.server.ended

    def wait_verdict(self, verdict, timeout=PATIENCE):
        self.wait(lambda: self.status().get("probe", {}).get("verdict") == verdict,
                  f"verdict {verdict}", timeout)
        return self.status()

    def probes_pass(self, letter, n=4):
        """Waits until the last n probes all had this verdict's letter."""
        self.wait(lambda: self.status().get("probe", {}).get("history", "").endswith(letter * n),
                  f"{n} times {letter}")

    def expect(self, what, timeout=PATIENCE, **keys):
        """Waits until status.json has this for each key, a value or a condition, all in one reading, and returns that status.
        Status, flag, metrics, pages, history, log and alerts are each written at their own time, so each must be waited for."""
        def said():
            status = self.status()
            return status if status and ("state" not in keys or self.of_now(status)) and all(
                v(status.get(k)) if callable(v) else status.get(k) == v for k, v in keys.items()) else None
        return self.wait(said, what, timeout)

    def wait_log(self, text, timeout=PATIENCE):
        self.wait(lambda: text in self.log(), f"log line with {text!r}", timeout)

    # -- files --------------------------------------------------------------------------------

    def dumps(self):
        """Returns the manifests of the stored dumps, newest first by (generation, sequence)."""
        found = []
        for path in glob.glob(os.path.join(glob.escape(self.dumps_dir), "*.json")):
            try:
                with open(path) as f:
                    manifest = json.load(f)
            except (ValueError, FileNotFoundError):  # retention may have deleted it meanwhile
                continue
            if "generation" in manifest and "sha256" in manifest:
                found.append(manifest)
        return sorted(found, key=lambda m: (m["generation"], m["sequence"]), reverse=True)

    def newest(self):
        return self.dumps()[0]

    def path(self, manifest):
        return os.path.join(self.dumps_dir, manifest["name"] + ".sql.gz")

    def rejected(self):
        """Returns the manifests in rejected/."""
        found = []
        for path in glob.glob(os.path.join(glob.escape(self.dumps_dir), "rejected", "*.json")):
            with open(path) as f:
                found.append(json.load(f))
        return found

    def parts(self):
        return glob.glob(os.path.join(glob.escape(self.dumps_dir), "**", "*.part"), recursive=True)

    def conflicts(self):
        return glob.glob(os.path.join(glob.escape(self.dumps_dir), "conflict-*.sql.gz"))


def of_world(manifest, sentinel="worldkeeper_sentinel"):
    """Returns rows and tables of the world in a dump, without the sentinel, which each manifest contains."""
    tables = [t for t in manifest["tables"] if t["name"] != sentinel]
    return sum(t["rows"] for t in tables), len(tables)


def signed(manifest):
    """Returns a manifest that was changed on purpose, with the checksum that its writer would have added."""
    manifest = {k: v for k, v in manifest.items() if k not in ("checksum", "hmac")}
    said = json.dumps(manifest, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return {**manifest, "checksum": hashlib.sha256(said.encode()).hexdigest()}


def sanitized():
    """Returns whether the program is built with sanitizers and needs far more memory."""
    with open(BINARY, "rb") as f:
        program = f.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def sanitizer(text):
    """Fails the test if a sanitizer reported anything in the output."""
    for sign in ("ERROR: AddressSanitizer", "runtime error:", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer"):
        assert sign not in text, text[max(0, text.find(sign) - 200):][:4000]


def precise(at):
    """Returns the seconds of an ISO 8601 time in UTC, with its fraction."""
    return unix(at) + float("0." + at.rstrip("Z").partition(".")[2] or 0)


def unix(at):
    """Returns the seconds of an ISO 8601 time in UTC."""
    return calendar.timegm(time.strptime(at.rstrip("Z").split(".")[0], "%Y-%m-%dT%H:%M:%S"))
