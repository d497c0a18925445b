"""System calls that fail, kill the process or stop it, by strace's injection: one call per run.

A run without a fault lists the calls that touch the world's files and its server. Each of them is a point, named by its
system call and its number within its thread, which is how strace counts."""
import collections
import contextlib
import os
import random
import re
import signal
import subprocess

import machine
import pytest
from wk.util import DIE_WITH_US, end_process, wait_for

POINTS = int(os.environ.get("WK_FAULT_POINTS", "16"))  # points per sweep; 0: all
SEED = os.environ.get("WK_FAULT_SEED") or str(random.randrange(10**9))

# Errors that a kernel may return. Queries (fstat, lseek, fcntl) can fail on a broken disk as well.
ERRORS = {
    "openat": ["EIO", "EMFILE", "ENOSPC", "EACCES"], "read": ["EIO", "EINTR"], "pread64": ["EIO", "EINTR"],
    "write": ["ENOSPC", "EIO", "EINTR"], "pwrite64": ["ENOSPC", "EIO"], "fsync": ["EIO", "ENOSPC"],
    "fdatasync": ["EIO", "ENOSPC"], "close": ["EIO"], "renameat": ["EIO", "ENOSPC"],
    "renameat2": ["EIO", "ENOSPC"], "rename": ["EIO", "ENOSPC"], "unlinkat": ["EIO", "EROFS"], "unlink": ["EIO", "EROFS"],
    "ftruncate": ["EIO", "ENOSPC"], "fallocate": ["ENOSPC"], "mkdirat": ["ENOSPC", "EIO"], "mkdir": ["ENOSPC"], "getdents64": ["EIO"],
    "newfstatat": ["EIO"], "fstat": ["EIO"], "fstatfs": ["EIO"], "fchmod": ["EIO"], "fchmodat": ["EIO"], "flock": ["EIO"],
    "linkat": ["EIO"], "socket": ["EMFILE", "ENOBUFS"], "connect": ["ECONNREFUSED", "EINTR"],
    "sendto": ["EPIPE", "EINTR"], "recvfrom": ["ECONNRESET", "EINTR"], "sendmsg": ["EPIPE"],
    "recvmsg": ["ECONNRESET"], "poll": ["EINTR", "ENOMEM"], "lseek": ["EIO"], "faccessat2": ["EACCES"],
}
KILLED = ["fcntl", "bind", "shutdown", "setsockopt"]  # their errors need no report, so these are only killed
ALL = sorted({*ERRORS, *KILLED})

Call = collections.namedtuple("Call", "name nth what")
Point = collections.namedtuple("Point", "call how")

LINE = re.compile(r"^(\d+) +(\w+)\((.*)")


def strace(trace, *args, names=ALL):
    """Returns the command line that runs what follows it under strace. It does not use --seccomp-bpf, which would not inject
    signals."""
    reason = machine.why_not("strace")
    if reason:
        pytest.skip(reason)
    return ["strace", "-f", "-q", "-o", trace, "-e", "trace=" + ",".join(names), *args]


def read_calls(trace, ours):
    """Returns the calls of a run whose arguments contain one of `ours` (parts of paths), each once."""
    counts, found = collections.Counter(), {}
    with open(trace, errors="replace") as f:
        for line in f:
            match = LINE.match(line)
            if not match:
                continue
            pid, name, rest = match.groups()
            counts[pid, name] += 1
            if any(piece in rest for piece in ours):
                found.setdefault((name, counts[pid, name]), Call(name, counts[pid, name], rest[:120]))
    return [found[key] for key in sorted(found)]


def touched(keeper, trace):
    """Returns the calls of a run that touch this keeper's files or server."""
    return read_calls(trace, [keeper.base, "socket:[", keeper.server.socket])


def watch(keeper, run):
    """Runs run() under strace and returns the calls that touch this keeper's files or server."""
    trace = os.path.join(keeper.base, "trace")
    keeper.prefix = strace(trace, "-y")
    try:
        run()
    finally:
        keeper.prefix = []
    return touched(keeper, trace)


def kills(calls):
    return [Point(call, "kill") for call in calls]


def stops(calls):
    """Returns points at which the process is stopped after the call."""
    return [Point(call, "stop") for call in calls]


def errors(calls):
    return [Point(call, error) for call in calls for error in ERRORS.get(call.name, [])]


def share(part):
    """Returns the number of points for a slow sweep: one in `part` of the usual number."""
    return max(POINTS // part, 1) if POINTS else 0


def spread(points, count=None):
    """Returns `count` evenly spread points from a random start; all of them for 0."""
    count = POINTS if count is None else count
    if not count or count >= len(points):
        return list(points)
    step = len(points) / count
    start = random.Random(SEED).random() * step
    return [points[int(start + i * step)] for i in range(count)]


def sweep(points, tally, count=None):
    """Yields the same points, one after the other. The number of polls and reads differs between runs: if a fault did not
    occur, the same call with a lower number is tried."""
    for point in spread(points, count):
        missed = tally.missed
        yield point
        while tally.missed > missed and point.call.nth > 1:
            tally.missed = missed
            point = point._replace(call=point.call._replace(nth=point.call.nth // 2))
            yield point


def fault_of(point):
    """Returns strace's option for the point."""
    name, nth = point.call.name, point.call.nth
    how = {"kill": "signal=KILL", "stop": "signal=STOP"}.get(point.how, "error=" + point.how)
    return f"inject={name}:{how}:when={nth}"


class Injected:
    """`with Injected(keeper, point)`: whatever the keeper runs meets that fault."""

    def __init__(self, keeper, point):
        self.keeper = keeper
        self.trace = os.path.join(keeper.base, "trace")
        self.prefix = strace(self.trace, "-y", "-e", fault_of(point), names=[point.call.name])

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):  # the previous run's trace
            os.unlink(self.trace)
        self.keeper.prefix = self.prefix
        return self

    def __exit__(self, *args):
        self.keeper.prefix = []

    def told(self):
        """Returns strace's output so far."""
        try:
            with open(self.trace, errors="replace") as f:
                return [line.strip() for line in f]
        except FileNotFoundError:
            return []

    def made(self):
        """Returns the calls that met the fault, one for each thread; none if something else killed the process."""
        return [line for line in self.told() if "(INJECTED)" in line or "killed by SIGKILL" in line]

    def mute(self):
        """Returns whether the fault met the program's output to stderr."""
        return any(re.match(r"\d+ +write\(2[<,]", line) for line in self.made())


class Attached:
    """`with Attached(keeper, pid, point)`: continues a process, also a stopped one, under strace until it meets the fault.
    Calls are counted from here. Without a point they are recorded for touched()."""

    def __init__(self, keeper, pid, point=None):
        self.pid, self.trace = pid, os.path.join(keeper.base, "trace")
        more, names = (["-e", fault_of(point)], [point.call.name]) if point else ([], ALL)
        self.tracer = subprocess.Popen(
            [*DIE_WITH_US, *strace(self.trace, "-y", *more, "-p", str(pid), names=names)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        def attached():
            with open(f"/proc/{self.pid}/status") as f:
                return "TracerPid:\t0\n" not in f.read()
        wait_for(attached, "strace")
        os.kill(self.pid, signal.SIGCONT)
        return self

    def __exit__(self, *args):
        end_process(self.tracer, signal.SIGINT)

    def ended(self):
        """Returns whether the watched process has ended."""
        return self.tracer.poll() is not None

    def told(self):
        with open(self.trace, errors="replace") as f:
            return f.read()

    def stands(self):
        """Returns whether the process is stopped again."""
        return "stopped by SIGSTOP" in self.told().partition("--- SIGCONT ")[2]

    def calls(self, name):
        """Returns how many calls of this name it has made."""
        return self.told().count(name + "(")
