"""What the benchmark measures with: a private server, pipelines under the meter, a writer beside them."""
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

DUMPER = "dumper"  # the account of mydumper and myloader
TICKS = os.sysconf("SC_CLK_TCK")
LOGGED, PLAIN = "binary log", "no binary log"
LOG_OPTIONS = {LOGGED: ["--log-bin=binlog", "--binlog-format=ROW"], PLAIN: ["--skip-log-bin"]}

# Where the tests spare the disk and the defaults of MySQL do not: goals are meant for those.
DEFAULTS = [] if not MYSQL else [
    "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"]


class Failed(Exception):
    """Something that was measured did not do its work: no figure of this run can be trusted."""


class Game:
    """Runs `play(cursor, number)` again and again, in a process of its own, until it is left; `waits` has the seconds
    of each. A thread would wait for the interpreter's lock as well, which whoever measures holds now and then."""

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
    """One world of some size on a server of its own. It is killed and started again very often."""

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
        """kill -9 and start: the world is empty. Old binary logs go, unless the journal needs them, and
        what is still to be written to the disk is written now, not while the next one is measured.
        `old_enough`: worldkeeper tells two servers apart by the second in which they started."""
        if old_enough:
            self.server.grow_old()
        self.server.process.kill()
        self.server.process.wait()
        self.server.process = None
        if log != LOGGED:
            # A row of InnoDB that was being written (the lease) is decided by the binary log: a server
            # without it would refuse to start.
            self.server.start(*LOG_OPTIONS[LOGGED])
            self.server.stop()
        self.server.start(*LOG_OPTIONS[log])
        self.tidy(log, keep_log)

    def tidy(self, log=LOGGED, keep_log=False):
        if log == LOGGED and not keep_log:
            self.server.sql("RESET MASTER")
        os.sync()

    def log_end(self):
        """The place in the binary log behind all that was written."""
        return self.server.sql("SHOW MASTER STATUS")[0][:2]

    def log_bytes(self):
        return sum(row[1] for row in self.server.sql("SHOW BINARY LOGS"))

    def checksums(self, schema):
        """{table: (rows, checksum of all that is in them)}"""
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
        """Every table has as many rows as it had."""
        for table, rows in self.counts.items():
            found = self.server.value(f"SELECT COUNT(*) FROM {world.SCHEMA}.{table}")
            if found != rows:
                raise Failed(f"{who}: table {table} has {found} rows, not {rows}")

    def check(self, who, truth=None):
        """The world is the stock's, or as checksums() found it before, all of it."""
        found = self.checksums(world.SCHEMA)
        for table, wanted in (truth or self.truth).items():
            if found[table] != wanted:
                raise Failed(f"{who}: table {table} has (rows, checksum) {found[table]}, not {wanted}")

    def sql_bytes(self, path):
        """How large the old pipeline's dump is before it is packed."""
        unzip = subprocess.Popen(["gunzip", "-c", path], stdout=subprocess.PIPE)
        size = int(subprocess.run(["wc", "-c"], stdin=unzip.stdout, stdout=subprocess.PIPE,
                                  check=True).stdout)
        unzip.stdout.close()
        if unzip.wait() != 0:
            raise Failed(f"{path} is no whole gzip file")
        return size

    def cancel(self):
        """Ends the connections of mydumper: those that a killed client left may still hold locks."""
        self.server.end_sessions(user=DUMPER)

    def destroy(self):
        self.server.destroy()


def cpu_of(pid, dead_children=False):
    """Processor seconds of a process so far; of the children that it has seen die, too."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15 if dead_children else 13]) / TICKS


def kb_of(pid, key, file="status"):
    with open(f"/proc/{pid}/{file}") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(key + ":"))


class ServerUse:
    """Processor time and memory of the server process between two moments."""

    def __init__(self, pid):
        self.pid = pid
        with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w") as f:
            f.write("5")  # the peak begins anew
        self.cpu, self.memory = cpu_of(pid), kb_of(pid, "VmRSS")

    def end(self):
        return {"server_cpu": round(cpu_of(self.pid) - self.cpu, 3),
                "server_memory_mb": round(max(0, kb_of(self.pid, "VmHWM") - self.memory) / 1024, 1)}


class KeeperUse:
    """Processor time of a running supervisor with all its workers, and of the one that follows the
    binary log alone, between two moments, and their memory at the end."""

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
            with contextlib.suppress(OSError):  # a short-lived worker; its parent knows what it took
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
    """Gives a path to the user that the commands run as."""
    os.chmod(path, mode)
    if os.geteuid() == 0:
        who = pwd.getpwnam(server_user())
        os.chown(path, who.pw_uid, who.pw_gid)


def busy():
    """Processor seconds that were spent on this machine, also those that its host took away."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Lab:
    """Where commands are run: as an unprivileged user when we are root, each under the meter."""

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
        """Runs a command or pipeline to its end; gives seconds, processor time and memory."""
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
        """A program that runs until the block ends; yields a dict that its answer is put into."""
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
        """The game; it has played for a moment when the block begins."""
        with self.beside(w, "writer", *pace) as answer:
            time.sleep(0.3)
            answer["process"].send_signal(signal.SIGUSR1)
            yield answer


def answer_in(command):
    """What a command that failed has written to its file, when that is a short text."""
    if command[-2] != ">" or os.path.getsize(command[-1]) > 10000:
        return ""
    with open(command[-1], errors="replace") as f:
        return f.read()


def size_of(path):
    """Bytes of a file or of all files in a directory."""
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
    """The command line of a program that comes with the server."""
    return [*words(KIND, name), *args]


def environment(binary):
    """What a reader must know of where this was measured; nothing that names the machine."""
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
