"""The benchmark's tools: a private server, measured pipelines, and a writer beside them."""
import contextlib
import json
import multiprocessing
import os
import pwd
import signal
import subprocess
import time

from wk.server import KIND, MYSQL, SERVERS, Server, as_mysql, in_its_words, server_user, words
from wk.util import end_process, session_pids

import world

DUMPER = "dumper"  # account of mydumper and myloader
TICKS = os.sysconf("SC_CLK_TCK")
LOGGED, PLAIN = "binary log", "no binary log"
LOG_OPTIONS = {LOGGED: ["--log-bin=binlog", "--binlog-format=ROW"], PLAIN: ["--skip-log-bin"]}

# The defaults of MySQL, for which the goals are meant, where the tests spare the disk.
DEFAULTS = [] if not MYSQL else [
    "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"]


class Failed(Exception):
    """A measured command did not do its work, so no figure of this run can be trusted."""


class Game:
    """Runs `play(cursor, number)` repeatedly in its own process until the block ends; `waits` has the seconds of each call. A
    thread would also wait for the interpreter's lock, which the measuring process holds at times."""

    def __init__(self, con, play):
        forked = multiprocessing.get_context("fork")
        self.ended, (self.found, found) = forked.Event(), forked.Pipe(duplex=False)
        self.process = forked.Process(target=self.run, args=(con, play, found), daemon=True)

    def run(self, con, play, found):
        waits = []
        with contextlib.closing(con), con.cursor() as cur:
            while not self.ended.is_set():
                began = time.perf_counter()
                play(cur, len(waits))
                waits.append(time.perf_counter() - began)
        found.send(waits)

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.waits = self.found.recv()
        self.process.join()


class World:
    """One world of some size on its own server, which is killed and started very often."""

    def __init__(self, base, size):
        self.size, self.counts = size, world.counts(size)
        heap = world.heap_limit(size)
        self.server = Server(base, f"--max-heap-table-size={heap}", f"--tmp-table-size={heap}",
                             "--max-connections=200", "--thread-cache-size=32", *DEFAULTS)
        self.server.start(*LOG_OPTIONS[LOGGED])
        self.run(world.make(size))
        self.truth = self.checksums(world.STOCK)
        self.fill()

    def run(self, statements):
        con = self.server.admin(read_timeout=3600)
        try:
            with con.cursor() as cur:
                for statement in statements:
                    cur.execute(in_its_words(statement))
        finally:
            con.close()

    def fill(self):
        self.run(world.fill())

    def lose(self, log=LOGGED, old_enough=False, keep_log=False):
        """Kills and starts the server, which empties the world. Old binary logs are deleted unless `keep_log`, and pending
        writes are flushed now, not during the next measurement. `old_enough` waits for another second, by which worldkeeper
        distinguishes two starts."""
        if old_enough:
            self.server.grow_old()
        self.server.process.kill()
        self.server.process.wait()
        self.server.process = None
        if log != LOGGED:
            # Whether InnoDB's last row (the lease) is committed depends on the binary log: a server without it would refuse to
            # start.
            self.server.start(*LOG_OPTIONS[LOGGED])
            self.server.stop()
        self.server.start(*LOG_OPTIONS[log])
        self.tidy(log, keep_log)

    def tidy(self, log=LOGGED, keep_log=False):
        if log == LOGGED and not keep_log:
            self.server.sql("RESET MASTER")
        os.sync()

    def log_end(self):
        """Returns the position at the end of the binary log."""
        return self.server.sql("SHOW MASTER STATUS")[0][:2]

    def log_bytes(self):
        return sum(row[1] for row in self.server.sql("SHOW BINARY LOGS"))

    def checksums(self, schema):
        """Returns {table: (rows, checksum of all rows)}."""
        con = self.server.admin(schema, read_timeout=3600)
        try:
            with con.cursor() as cur:
                found = {}
                for table in world.TABLES:
                    cur.execute(f"SELECT COUNT(*) FROM {table}")
                    rows = cur.fetchone()[0]
                    cur.execute(f"CHECKSUM TABLE {table}")
                    found[table] = rows, cur.fetchone()[1]
                return found
        finally:
            con.close()

    def check_rows(self, who):
        """Checks that every table has its number of rows."""
        for table, rows in self.counts.items():
            found = self.server.value(f"SELECT COUNT(*) FROM {world.SCHEMA}.{table}")
            if found != rows:
                raise Failed(f"{who}: table {table} has {found} rows, not {rows}")

    def check(self, who, truth=None):
        """Checks that the world equals the stock, or what checksums() returned before."""
        found = self.checksums(world.SCHEMA)
        for table, wanted in (truth or self.truth).items():
            if found[table] != wanted:
                raise Failed(f"{who}: table {table} has (rows, checksum) {found[table]}, not {wanted}")

    def sql_bytes(self, path):
        """Returns the size of the old pipeline's dump before compression."""
        unzip = subprocess.Popen(["gunzip", "-c", path], stdout=subprocess.PIPE)
        size = int(subprocess.run(["wc", "-c"], stdin=unzip.stdout, stdout=subprocess.PIPE,
                                  check=True).stdout)
        unzip.stdout.close()
        if unzip.wait() != 0:
            raise Failed(f"{path} is no whole gzip file")
        return size

    def cancel(self):
        """Ends the connections of mydumper, because those of a killed client may still hold locks."""
        self.server.end_sessions(user=DUMPER)

    def destroy(self):
        self.server.destroy()


def cpu_of(pid, dead_children=False):
    """Returns the processor seconds of a process so far, optionally with those of its ended children."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15 if dead_children else 13]) / TICKS


def kb_of(pid, key, file="status"):
    with open(f"/proc/{pid}/{file}") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))


class ServerUse:
    """Measures processor time and memory of the server process between two moments."""

    def __init__(self, pid):
        self.pid = pid
        with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w") as f:
            f.write("5")  # resets the peak
        self.cpu, self.memory = cpu_of(pid), kb_of(pid, "VmRSS")

    def end(self):
        return {"server_cpu": round(cpu_of(self.pid) - self.cpu, 3),
                "server_memory_mb": round(max(0, kb_of(self.pid, "VmHWM") - self.memory) / 1024, 1)}


class KeeperUse:
    """Measures processor time of a supervisor with all its workers, and of its follower alone, between two moments, and their
    memory at the end."""

    FOLLOWER = "wk-journal"  # the process's name

    def __init__(self, process):
        self.process = process
        self.follower, self.began = self.find_follower(), time.monotonic()
        self.cpu, self.follower_cpu = self.cpu_now()

    def find_follower(self):
        for pid in session_pids(self.process):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == self.FOLLOWER:
                    return pid
        return None

    def cpu_now(self):
        everyone = 0
        for pid in session_pids(self.process):
            with contextlib.suppress(OSError):  # a short-lived worker, whose time its parent counts
                everyone += cpu_of(pid, dead_children=True)
        return everyone, cpu_of(self.follower) if self.follower else 0

    def memory(self):
        found = {}
        for pid in session_pids(self.process):
            with contextlib.suppress(OSError):
                found[pid] = kb_of(pid, "Pss", "smaps_rollup"), kb_of(pid, "VmRSS")
        return found

    def end(self):
        if self.find_follower() != self.follower:
            raise Failed("the process that follows the binary log was replaced by another")
        seconds, (everyone, follower) = time.monotonic() - self.began, self.cpu_now()
        memory = self.memory()
        sample = {"seconds": round(seconds, 3), "keeper_cpu": round(everyone - self.cpu, 3),
                  "keeper_pss_mb": round(sum(pss for pss, _ in memory.values()) / 1024, 2)}
        if self.follower:
            pss, rss = memory[self.follower]
            sample.update(follower_cpu=round(follower - self.follower_cpu, 3),
                          follower_pss_mb=round(pss / 1024, 2), follower_rss_mb=round(rss / 1024, 2))
        return sample


def own(path, mode):
    """Gives a path to the user that runs the commands."""
    os.chmod(path, mode)
    if os.geteuid() == 0:
        who = pwd.getpwnam(server_user())
        os.chown(path, who.pw_uid, who.pw_gid)


def busy():
    """Returns the processor seconds used on this machine, including those that its host took away."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Lab:
    """Runs commands, as an unprivileged user if we are root, each under the meter."""

    def __init__(self, base, bin_dir):
        self.base, self.bin = base, bin_dir
        self.log = os.path.join(base, "stderr")
        work = os.path.join(base, "work")
        os.mkdir(work)
        own(work, 0o700)
        os.environ["TMPDIR"] = work
        self.result = os.path.join(work, "meter.json")

    def tool(self, name):
        return os.path.join(self.bin, name)

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()[-2000:].strip()

    def measure(self, w, what, command, limit=1800, may_hang=False):
        """Runs a command or pipeline to its end. Returns seconds, processor time and memory."""
        use, before = ServerUse(w.server.process.pid), busy()
        with open(self.log, "w") as log:
            subprocess.run([*as_mysql(), self.tool("meter"), self.result, f"{limit:.0f}", *command],
                           cwd=self.base, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        sample, spent = use.end(), busy() - before
        with open(self.result) as f:
            metered = json.load(f)
        os.unlink(self.result)
        if metered["hung"]:
            w.cancel()
        bad = [p["exit"] for p in metered["processes"] if p["exit"] != 0]
        if bad and not (may_hang and metered["hung"]):
            raise Failed(f"{what}: exit status {bad[0]}: {self.said()}{answer_in(command)}")
        client = sum(p["user"] + p["system"] for p in metered["processes"])
        others = max(0, spent - client - sample["server_cpu"]) / (metered["wall"] * os.cpu_count())
        return {**sample, "wall": metered["wall"], "hung": metered["hung"], "client_cpu": round(client, 4),
                "others": round(others, 4),
                "client_memory_mb": round(sum(p["peak_kb"] for p in metered["processes"]) / 1024, 2)}

    @contextlib.contextmanager
    def beside(self, w, tool, *args):
        """Runs a program until the block ends; yields a dict that gets its result."""
        answer = {}
        process = subprocess.Popen([*as_mysql(), self.tool(tool), w.server.socket, world.SCHEMA, *args],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                   cwd=self.base)
        try:
            if not process.stdout.readline():
                raise Failed(f"{tool} did not begin")
            answer["process"] = process
            yield answer
            del answer["process"]
            process.send_signal(signal.SIGTERM)
            answer.update(json.loads(process.stdout.read()))
            if process.wait() != 0:
                raise Failed(f"{tool}: exit status {process.returncode}")
        finally:
            end_process(process)
            process.stdout.close()

    @contextlib.contextmanager
    def writer(self, w, *pace):
        """Runs the game, which has played for a moment when the block begins."""
        with self.beside(w, "writer", *pace) as answer:
            time.sleep(0.3)
            answer["process"].send_signal(signal.SIGUSR1)
            yield answer


def answer_in(command):
    """Returns what a failed command has written to its file, if that is a short text."""
    if command[-2] != ">" or os.path.getsize(command[-1]) > 10000:
        return ""
    with open(command[-1], errors="replace") as f:
        return f.read()


def size_of(path):
    """Returns the bytes of a file or of all files in a directory."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(top, f)) for top, _, files in os.walk(path) for f in files)


def first_line(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def tool(name, *args):
    """Returns the command line of a program that comes with the server."""
    return [*words(KIND, name), *args]


def environment(binary):
    """Describes the machine of the measurement without identifying it."""
    with open("/proc/cpuinfo") as f:
        model = next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), "")
    with open("/proc/meminfo") as f:
        kb = int(f.readline().split()[1])
    return {
        "processor": model, "processors": os.cpu_count(), "memory_gib": round(kb / 2**20, 1),
        "kernel": os.uname().release.partition("-")[0], "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "worldkeeper": first_line(binary, "--version"), "server": first_line(SERVERS, "run", KIND, "--version").split("/")[-1],
        "mysqldump": first_line(*tool("mysqldump", "--version")), "mydumper": first_line("mydumper", "--version"),
        "gzip": first_line("gzip", "--version"), "pigz": first_line("pigz", "--version"),
    }
