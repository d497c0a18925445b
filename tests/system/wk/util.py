"""Utilities that every part of the harness needs: waiting, ports, processes, quoting."""
import contextlib
import itertools
import os
import random
import socket
import time

CANARY = "CANARY-4f1c-only-in-password-files"
DIE_WITH_US = ["setpriv", "--pdeathsig=KILL", "--"]  # when the tests themselves are killed
PATIENCE = 180  # seconds that a wait may take at most: generous, never the normal case


def share(all_of_them, count):
    """What a run takes of cases that are alike: `count` of them, the same with the same WK_SEED, in their order. make
    nightly (WK_WHOLE=yes) takes all."""
    all_of_them = list(all_of_them)
    if os.environ.get("WK_WHOLE") == "yes" or len(all_of_them) <= count:
        return all_of_them
    seed = os.environ.get("WK_SEED") or random.randrange(10**9)
    print("WK_SEED", seed)
    return [all_of_them[i] for i in sorted(random.Random(f"{seed}/share").sample(range(len(all_of_them)), count))]


class Timeout(AssertionError):
    pass


def wait_for(predicate, what, timeout=PATIENCE, every=0.05, work=None):
    """Polls until predicate() is true and returns its value; on timeout fails with `what`. A file that is not there yet,
    or is just removed, is waited for; most that is waited for comes soon, so the first looks follow each other closely.
    With `work` (see work_of) the timeout counts from when that last changed: somebody else's program is as slow as the
    machine is. One that works ten times as long does not come to an end."""
    begun, pause = time.monotonic(), min(0.005, every)
    end, done = begun + timeout, work and work()
    while True:
        last = time.monotonic() > end
        with contextlib.suppress(FileNotFoundError):
            value = predicate()
            if value:
                return value
        if last and work and time.monotonic() < begun + 10 * timeout and work() != done:
            end, done, last = time.monotonic() + timeout, work(), False
        if last:  # looked once more, however long it was until then
            said = what() if callable(what) else what
            raise Timeout(f"waited {time.monotonic() - begun:.0f} s in vain: {said}")
        time.sleep(pause)
        pause = min(pause * 1.5, every)


def work_of(pids, *logs):
    """What processes have done so far: seconds of processor time, and bytes in their logs."""
    ticks = size = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            ticks += sum(map(int, f.read().rpartition(")")[2].split()[11:13]))
    for log in logs:
        with contextlib.suppress(OSError):
            size += os.path.getsize(log)
    return ticks // os.sysconf("SC_CLK_TCK"), size


class Ports:
    """This process's own block of ports, below those that the kernel gives to connections: as long as a server is not
    started yet, or is down for a while, nobody else takes its port. Who has a block listens at its name."""
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
    """Whoever waits in accept() is woken: else he goes on waiting, some day at the socket that has the number next."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def ident(name):
    """An SQL identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def tail(path, lines=60):
    try:
        with open(path, "rb") as f:
            return b"\n".join(f.read().split(b"\n")[-lines:]).decode("utf-8", "replace")
    except OSError as e:
        return f"({e})"


def end_process(process, sign=None, timeout=20):
    """Ends a child by its pid: `sign` first when given, SIGKILL when that does not help."""
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
    """Living processes of these sessions, zombies left out: the supervisor and all its workers. No process gets the
    number of a leader that has ended as long as anything of its session lives: who has it is somebody else. `but`: those
    in these states, as /proc has them."""
    sessions = {leader.pid for leader in leaders
                if leader.poll() is None or not os.path.exists(f"/proc/{leader.pid}")}
    found = []
    for entry in os.listdir("/proc") if sessions else ():
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) not in sessions:  # asked for many processes: cheaper than a file
                    continue
                with open(f"/proc/{entry}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) in sessions and fields[0] not in but:
                found.append(int(entry))
    return found


def thread_states(pid):
    """Of each of its threads, as /proc has them; one that ends meanwhile is left out."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat") as f:
            found.append(f.read().rpartition(")")[2].split()[0])
    return found


def stands_still(pid):
    """Whether all of its threads are stopped, or it has ended."""
    try:
        return set(thread_states(pid)) <= set("TtXZ")
    except FileNotFoundError:
        return True


def peak_mib(pids):
    """Most memory that any of the processes ever held, in MiB."""
    found = []
    for pid in pids:
        with open(f"/proc/{pid}/status") as f:
            found += [int(line.split()[1]) // 1024 for line in f if line.startswith("VmHWM")]
    return max(found)
