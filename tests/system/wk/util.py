"""Small things that every part of the harness needs: waiting, ports, processes, quoting."""
import os
import socket
import time

CANARY = "CANARY-4f1c-only-in-password-files"
DIE_WITH_US = ["setpriv", "--pdeathsig=KILL", "--"]  # when the tests themselves are killed
PATIENCE = 60  # seconds that a wait may take at most: generous, never the normal case


class Timeout(AssertionError):
    pass


def wait_for(predicate, what, timeout=PATIENCE, every=0.05):
    """Polls until predicate() is true and returns its value; on timeout fails with `what`."""
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            said = what() if callable(what) else what
            raise Timeout(f"waited {timeout} s in vain: {said}")
        time.sleep(every)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


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


def session_pids(leader):
    """Living processes of a session, zombies left out: the supervisor and all its workers. No process gets the
    number of a leader that has ended as long as anything of its session lives: who has it is somebody else."""
    found, sid = [], leader.pid
    if leader.poll() is not None and os.path.exists(f"/proc/{sid}"):
        return []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == sid and fields[0] not in "ZX":
                found.append(int(entry))
    return found
