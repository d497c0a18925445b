"""System calls that fail, kill, or stop who makes them: strace's injection, one call of one run at a time.

A run without any fault tells which calls touch the world's files and its server; each of them is a point,
named by its system call and by the how manieth of its thread it is, which is how strace counts."""
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

POINTS = int(os.environ.get("WK_FAULT_POINTS", "16"))  # of each sweep; 0: all there are
SEED = os.environ.get("WK_FAULT_SEED") or str(random.randrange(10**9))

# What a kernel may answer. What only asks (fstat, lseek, fcntl) fails on a broken disk as well.
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
KILLED = ["fcntl", "bind", "shutdown", "setsockopt"]  # nothing to tell of their errors: only killed there
ALL = sorted({*ERRORS, *KILLED})

Call = collections.namedtuple("Call", "name nth what")
Point = collections.namedtuple("Point", "call how")

LINE = re.compile(r"^(\d+) +(\w+)\((.*)")


def strace(trace, *args, names=ALL):
    """The command line that runs what follows it under strace. Not with --seccomp-bpf: signals would not be
    injected."""
    reason = machine.why_not("strace")
    if reason:
        pytest.skip(reason)
    return ["strace", "-f", "-q", "-o", trace, "-e", "trace=" + ",".join(names), *args]


def read_calls(trace, ours):
    """The calls of a run that touch one of `ours` (pieces of paths), each once."""
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
    """Those of a run's calls that touch this keeper's files or server."""
    return read_calls(trace, [keeper.base, "socket:[", keeper.server.socket])


def watch(keeper, run):
    """Runs run() with all its calls written down, and gives those that touch this keeper's files or server."""
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
    """Whoever makes the call stands still behind it."""
    return [Point(call, "stop") for call in calls]


def errors(calls):
    return [Point(call, error) for call in calls for error in ERRORS.get(call.name, [])]


def share(part):
    """How many points a sweep takes whose points are slow: one in so many of the others'."""
    return max(POINTS // part, 1) if POINTS else 0


def spread(points, count=None):
    """`count` of them, evenly spread, beginning somewhere; all of them for 0."""
    count = POINTS if count is None else count
    if not count or count >= len(points):
        return list(points)
    step = len(points) / count
    start = random.Random(SEED).random() * step
    return [points[int(start + i * step)] for i in range(count)]


def sweep(points, tally, count=None):
    """The same points, one after the other. No two runs poll and receive equally often: in place of one whose
    fault was not made, as the tally was told, the same call comes earlier in its thread."""
    for point in spread(points, count):
        missed = tally.missed
        yield point
        while tally.missed > missed and point.call.nth > 1:
            tally.missed = missed
            point = point._replace(call=point.call._replace(nth=point.call.nth // 2))
            yield point


def fault_of(point):
    """What strace is told."""
    name, nth = point.call.name, point.call.nth
    how = {"kill": "signal=KILL", "stop": "signal=STOP"}.get(point.how, "error=" + point.how)
    return f"inject={name}:{how}:when={nth}"


class Injected:
    """with Injected(keeper, point): what the keeper runs meets that fault."""

    def __init__(self, keeper, point):
        self.keeper = keeper
        self.trace = os.path.join(keeper.base, "trace")
        self.prefix = strace(self.trace, "-y", "-e", fault_of(point), names=[point.call.name])

    def __enter__(self):
        with contextlib.suppress(FileNotFoundError):  # what the run before it was told
            os.unlink(self.trace)
        self.keeper.prefix = self.prefix
        return self

    def __exit__(self, *args):
        self.keeper.prefix = []

    def told(self):
        """What strace has told so far."""
        try:
            with open(self.trace, errors="replace") as f:
                return [line.strip() for line in f]
        except FileNotFoundError:
            return []

    def made(self):
        """The calls that met it: each thread's own. None at all for one that was killed by something else."""
        return [line for line in self.told() if "(INJECTED)" in line or "killed by SIGKILL" in line]

    def mute(self):
        """Has it met what the program says?"""
        return any(re.match(r"\d+ +write\(2[<,]", line) for line in self.made())


class Attached:
    """with Attached(keeper, pid, point): a process goes on under strace, also one that stands still, and meets
    the fault; its calls are counted from here. Without a point they are written down, for touched()."""

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
        """Whom it watched is gone."""
        return self.tracer.poll() is not None

    def told(self):
        with open(self.trace, errors="replace") as f:
            return f.read()

    def stands(self):
        """It stands still again."""
        return "stopped by SIGSTOP" in self.told().partition("--- SIGCONT ")[2]

    def calls(self, name):
        """How many of that name it has made."""
        return self.told().count(name + "(")
