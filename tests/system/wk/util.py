"""Utilities that every part of the harness needs: waiting, ports, processes, quoting."""
import contextlib
import errno
import itertools
import os
import random
import socket
import time

CANARY = "CANARY-4f1c-only-in-password-files"
DIE_WITH_US = ["setpriv", "--pdeathsig=KILL", "--"]  # ends with the tests
PATIENCE = 180  # seconds that a wait may take at most on a machine that is not crowded; usually it takes far less
CROWDED = 4  # a crowded machine makes a wait at most so many times longer: it still ends before pytest-timeout


def share(all_of_them, count):
    """Returns `count` of similar cases, in their order, the same with the same WK_SEED. `make nightly` (WK_WHOLE=yes) takes
    all."""
    all_of_them = list(all_of_them)
    if os.environ.get("WK_WHOLE") == "yes" or len(all_of_them) <= count:
        return all_of_them
    seed = os.environ.get("WK_SEED") or random.randrange(10**9)
    print("WK_SEED", seed)
    return [all_of_them[i] for i in sorted(random.Random(f"{seed}/share").sample(range(len(all_of_them)), count))]


class Timeout(AssertionError):
    pass


def crowding():
    """Returns how many runnable threads share a processor at this moment, 1 to CROWDED."""
    with open("/proc/loadavg") as f:
        runnable = int(f.read().split()[3].partition("/")[0])
    return min(CROWDED, max(1, runnable / len(os.sched_getaffinity(0))))


def wait_for(predicate, what, timeout=PATIENCE, every=0.05, work=None):
    """Polls until predicate() is true and returns its value; on timeout fails with `what`. A missing file is waited for. The
    first looks follow each other closely. Time in which others want the processors counts less (see crowding). With `work`
    (see work_of) the timeout counts from the last change of that value, because other programs depend on the machine's
    speed; ten times the timeout is the limit."""
    begun, pause = time.monotonic(), min(0.005, every)
    looked, left, done = begun, timeout, work and work()
    while True:
        now = time.monotonic()
        left, looked = left - (now - looked) / crowding(), now
        last = left < 0
        with contextlib.suppress(FileNotFoundError):
            value = predicate()
            if value:
                return value
        if last and work and time.monotonic() < begun + 10 * timeout and work() != done:
            left, done, last = timeout, work(), False
        if last:  # looks once more, however late it is
            said = what() if callable(what) else what
            raise Timeout(f"waited {time.monotonic() - begun:.0f} s in vain: {said}")
        time.sleep(pause)
        pause = min(pause * 1.5, every)


def work_of(pids, *logs):
    """Returns what processes have done so far: seconds of processor time, and bytes in their logs."""
    ticks = size = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            ticks += sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
    for log in logs:
        with contextlib.suppress(OSError):
            size += os.path.getsize(log)
    return ticks // os.sysconf("SC_CLK_TCK"), size


class Ports:
    """This process's own block of ports, below those that the kernel assigns to connections, so that no other process takes
    the port of a server that is down. The owner of a block listens at its name."""
    FIRST, COUNT, BLOCKS = 10000, 200, 110

    def __init__(self):
        for block in range(self.BLOCKS):
            self.mark = socket.socket(socket.AF_UNIX)
            try:
                self.mark.bind(f"\0worldkeeper-tests-ports-{block}")
                break
            except OSError:
                self.mark.close()
        else:
            raise Timeout("no block of ports is free: as many processes run tests")
        first = self.FIRST + block * self.COUNT
        self.each = itertools.cycle(range(first, first + self.COUNT))

    def take(self):
        for port in itertools.islice(self.each, self.COUNT):
            with socket.socket() as s:
                try:
                    s.bind(("127.0.0.1", port))
                    return port
                except OSError:
                    pass
        raise Timeout("none of this process's ports is free")


ports = None


def free_port():
    global ports
    ports = ports or Ports()
    return ports.take()


def stop_listening(listener):
    """Closes a listener after waking a thread in accept(), which might otherwise accept from a socket that reuses the
    descriptor."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def ident(name):
    """Returns an SQL identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def tail(path, lines=60):
    """Returns the last lines of a file; equal ones that follow each other, as those of commands that poll, are one."""
    try:
        with open(path, "rb") as f:
            return b"\n".join([line for line, _ in itertools.groupby(f.read().split(b"\n"))][-lines:]).decode("utf-8", "replace")
    except OSError as e:
        return f"({e})"


def end_process(process, sign=None, timeout=20):
    """Ends a child by its pid: with `sign` first if given, then SIGKILL."""
    if process is None or process.poll() is not None:
        return
    if sign is not None:
        process.send_signal(sign)
        try:
            process.wait(timeout)
            return
        except Exception:
            pass
    process.kill()
    process.wait()


def session_pids(*leaders, but="ZX"):
    """Returns the living processes of these sessions, without zombies: the supervisor and all its workers. A session's
    leader's number is not reused while a process of the session lives. `but` has states to leave out, as in /proc."""
    sessions = {leader.pid for leader in leaders
                if leader.poll() is None or not os.path.exists(f"/proc/{leader.pid}")}
    found = []
    for entry in os.listdir("/proc") if sessions else ():
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) not in sessions:  # called for many processes; cheaper than reading a file
                    continue
                with open(f"/proc/{entry}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) in sessions and fields[0] not in but:
                found.append(int(entry))
    return found


def thread_states(pid):
    """Returns the states of all threads, as in /proc; one that ends meanwhile is left out."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat") as f:
            found.append(f.read().rpartition(")")[2].split()[0])
    return found


def stands_still(pid):
    """Returns whether all its threads are stopped, or it has ended."""
    try:
        return set(thread_states(pid)) <= set("TtXZ")
    except FileNotFoundError:
        return True


def peak_mib(pids):
    """Returns the highest memory use of any of the processes so far, in MiB."""
    found = []
    for pid in pids:
        with open(f"/proc/{pid}/status") as f:
            found += [int(line.split()[1]) // 1024 for line in f if line.startswith("VmHWM")]
    return max(found)


def fill_up(path):
    """Writes into the file until its disk is full."""
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError as e:
            assert e.errno == errno.ENOSPC, e
