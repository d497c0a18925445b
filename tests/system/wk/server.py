"""Private servers: each has its own data directory, port and socket, and is ended by its pid. WK_KIND selects the kind (as in
scripts/servers.sh; default: mariadb)."""
import contextlib
import fcntl
import functools
import itertools
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import namedtuple

import pymysql

from .util import CANARY, DIE_WITH_US, PATIENCE, end_process, free_port, ident, stands_still, tail, wait_for

KIND = os.environ.get("WK_KIND") or "mariadb"
MYSQL = KIND == "mysql"
SERVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/servers.sh")


def files(mysql):
    # MySQL reads its whole doublewrite files at each start; large ones take a tenth of it.
    return ["--innodb-data-file-path=ibdata1:12M:autoextend", *(
        ["--innodb-redo-log-capacity=8M", "--innodb-doublewrite-files=2", "--innodb-doublewrite-pages=4"] if mysql
        else ["--innodb-log-file-size=4M"])]


# InnoDB's doublewrite buffer stays on: SIGKILL may interrupt the write of a page if files are in memory.
def small(mysql):
    return files(mysql) + [
        "--innodb-buffer-pool-size=32M", "--performance-schema=OFF", "--key-buffer-size=1M",
        "--sync-binlog=0", "--innodb-use-native-aio=0", "--skip-name-resolve", "--max-connections=60",
        "--bind-address=127.0.0.1", "--table-open-cache=200", "--thread-cache-size=0", "--server-id=1",
        "--connect-timeout=120",  # for a client that is stopped during its login
    ] + (["--skip-log-bin", "--innodb-flush-log-at-trx-commit=2",
          "--innodb-log-writer-threads=OFF", "--innodb-log-buffer-size=1M", "--innodb-read-io-threads=1",
          "--innodb-write-io-threads=1", "--innodb-purge-threads=1", "--innodb-page-cleaners=1"] if mysql
         else ["--aria-pagecache-buffer-size=8M"])  # MySQL's binary log is on by default


# Privileges of the daemon's account on its schema, and on the server.
RIGHTS = ("SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, "
          "TRIGGER, SHOW VIEW, EVENT")


def usual_on_server(mysql):
    return "REPLICATION SLAVE, " + ("REPLICATION CLIENT" if mysql else "BINLOG MONITOR")


SERVER_RIGHTS = usual_on_server(MYSQL)

# Followed by ON or OFF; the fixture log_keys has what else a server needs.
LOG_ENCRYPTED = "--binlog-encryption=" if MYSQL else "--encrypt-binlog="

WORDS = {  # privileges: root's triggers need the second one as well
    "GRANT SET USER": "GRANT SET_ANY_DEFINER, SYSTEM_USER",
    "GRANT BINLOG ADMIN": "GRANT SESSION_VARIABLES_ADMIN",
    "BINLOG MONITOR ON": "REPLICATION CLIENT ON",
    "GRANT SELECT ON mysql.proc": "GRANT SHOW_ROUTINE ON *.*",
    "RESET MASTER": "RESET BINARY LOGS AND GTIDS",
    "SHOW MASTER STATUS": "SHOW BINARY LOG STATUS",
    "CHANGE MASTER TO MASTER_HOST": "CHANGE REPLICATION SOURCE TO SOURCE_HOST",
    "START SLAVE": "START REPLICA",
}


def in_its_words(statement, mysql=MYSQL):
    """Translates a statement of the tests, which use MariaDB's syntax, into MySQL's."""
    if not mysql:
        return statement
    statement = re.sub(
        r"\bseq_(\d+)_to_(\d+)\b",
        r"(WITH RECURSIVE s (seq) AS (SELECT \1 UNION ALL SELECT seq+1 FROM s WHERE seq<\2) "
        r"SELECT seq FROM s) seq_\1_to_\2", statement)
    for theirs, ours in WORDS.items():
        statement = statement.replace(theirs, ours)
    return statement


def server_user():
    """Returns the user that runs the servers if we are root. A machine with only the server's core package has no user mysql."""
    try:
        pwd.getpwnam("mysql")
        return "mysql"
    except KeyError:
        return "nobody"


def as_mysql():
    """Returns the command prefix that runs a program as the server's user if we are root. scripts/servers.sh needs no
    such prefix."""
    who = [f"--reuid={server_user()}", "--clear-groups"] if os.geteuid() == 0 else []
    if who:
        who.append(f"--regid={pwd.getpwnam(server_user()).pw_gid}")
    return [*DIE_WITH_US[:-1], *who, "--"]


@functools.cache
def words(kind, *tool):
    """Returns the command of the server's program, or of the named tool, asked for only once because the script takes long.
    The server's user, who may have no access to the script, can run the result."""
    return subprocess.run([SERVERS, "words", kind, *tool], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


@functools.cache
def version(kind=KIND):
    """Returns the version of a kind's program, such as (11, 8, 9)."""
    said = subprocess.run([*as_mysql(), *words(kind), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return tuple(map(int, re.search(r"Ver (\d+)\.(\d+)\.(\d+)", said).groups()))


IN_MEMORY = "servers"


def use_memory(base):
    """Gives the servers of a run a directory in memory if there is enough, which saves a third of each start. Returns the
    directory, which the caller removes."""
    disk = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable"))
    if not disk or disk.f_bavail * disk.f_frsize < 2 << 30 or free < 4 << 30:
        return None
    made = tempfile.mkdtemp(dir="/dev/shm", prefix="wk")
    os.chmod(made, 0o755)
    os.symlink(made, os.path.join(base, IN_MEMORY))
    return made


def home(base):
    """Returns the directory of a run's servers."""
    memory = os.path.join(base, IN_MEMORY)
    return os.path.realpath(memory) if os.path.islink(memory) else base


def template(base, kind, *options):
    """Returns one new datadir of a kind for the whole session, or for all that share the directory in WK_TEMPLATES, made by
    the first that needs it. There is one for each set of `options` that a server must be initialized with."""
    mysql, base = kind == "mysql", os.environ.get("WK_TEMPLATES") or base
    path = os.path.join(base, "template-" + kind + "".join(options))
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(path):
            new = tempfile.mkdtemp(dir=base, prefix="new")
            os.chmod(new, 0o755)
            if os.geteuid() == 0:
                shutil.chown(new, server_user())
            done = subprocess.run([*DIE_WITH_US, SERVERS, "install", kind, new, *files(mysql), *options],
                                  cwd=base, text=True, errors="replace", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            assert done.returncode == 0, done.stdout[-2000:]
            if mysql:  # the server's identity; each server makes its own
                os.unlink(os.path.join(new, "auto.cnf"))
            # Zeros become holes, which take no space, there and in the copies.
            subprocess.run(["cp", "-a", "--sparse=always", new, path + ".new"], check=True)
            shutil.rmtree(new)
            os.rename(path + ".new", path)
    return path


# MariaDB keeps privileges in Aria tables. The index of one was corrupted once, in a server that was never killed.
ARIA_BROKEN = 126
ARIA_PRIVILEGES = ("columns_priv", "db", "global_priv", "procs_priv", "proxies_priv", "roles_mapping", "tables_priv")

# A row of the server's list of processes; unknown values are None, and text of any bytes is decoded.
Session = namedtuple("Session", "id user host db command time state info")


class Server:
    """One server. `options` are added to a small set of defaults; a restart keeps the datadir."""

    def __init__(self, base, *options, kind=KIND):
        self.kind, self.mysql = kind, kind == "mysql"
        base = home(base)
        self.dir = tempfile.mkdtemp(dir=base, prefix="db")
        os.chmod(self.dir, 0o755)
        self.datadir = os.path.join(self.dir, "d")
        born = [o for o in options if self.mysql and o.startswith("--lower-case-table-names=")]
        self.template = template(base, kind, *born)
        self.tmpdir = os.path.join(self.datadir, "#tmp")  # the server empties its tmpdir at its start
        self.install()
        self.socket = os.path.join(self.datadir, "s")
        self.error_log = os.path.join(self.datadir, "error.log")
        self.port = free_port()
        self.options = list(options)
        self.wrapper = []  # a command that starts the server, such as prlimit
        self.process = None
        self.answered = 0  # time of its first answer, in seconds since 1970
        self.ended = 0  # time at which one of its processes last ended
        self.made_with = (list(options), self.datadir)
        self.more = ()  # options of its last start only
        self.pooled = None  # the key of wk/pool.py, which drops its contents

    def install(self):
        """Makes a new datadir and removes the old one."""
        shutil.rmtree(self.datadir, ignore_errors=True)
        subprocess.run(["cp", "-a", self.template, self.datadir], check=True)
        subprocess.run([*as_mysql(), "mkdir", self.tmpdir], check=True)

    def start(self, *more, wait=True):
        assert self.process is None, "the server runs already"
        self.more = more
        with contextlib.suppress(FileNotFoundError):
            # MySQL's file, left by a killed server, ends the next one if another process has its ID.
            os.unlink(self.socket + ".lock")
        self.process = subprocess.Popen(
            [*self.command(), *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd=self.dir)
        self.started, self.answered = time.monotonic(), 0
        if wait:
            self.wait_ready()
        return self

    def command(self):
        if any(o.startswith("--keys=") for o in self.options):
            program = [SERVERS, "run", self.kind]
        else:
            program = [*as_mysql(), *words(self.kind)]
        return [*DIE_WITH_US, *self.wrapper, *program, *small(self.mysql), "--datadir=" + self.datadir,
                "--tmpdir=" + self.tmpdir, "--socket=" + self.socket, f"--port={self.port}",
                "--log-error=" + self.error_log, "--pid-file=" + os.path.join(self.datadir, "pid"), *self.options]

    def wait_ready(self):
        def answers():
            if self.process.poll() is not None:
                raise AssertionError("the server ended: " + tail(self.error_log, 20))
            try:
                self.admin().close()
                self.answered = time.time()
                return True
            except pymysql.err.OperationalError:
                return False
        wait_for(answers, lambda: "server ready; " + tail(self.error_log, 20))

    def changed(self):
        """Returns whether it runs with other options than at first."""
        return bool(self.wrapper or self.more or (self.options, self.datadir) != self.made_with)

    def admin(self, schema=None, **more):
        """Returns a connection of root without limits, whose text is byte-safe for the zoo."""
        args = dict(unix_socket=self.socket, user="root", password="", charset="utf8mb4",
                    autocommit=True, connect_timeout=60, read_timeout=120, database=schema,
                    init_command="SET sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES',"
                                 "time_zone='+00:00'"
                                 + (",cte_max_recursion_depth=10000000" if self.mysql else ""))
        return pymysql.connect(**{**args, **more})

    def sql(self, *statements, schema=None):
        """Runs statements as root, and returns the rows of the last one."""
        con = self.admin(schema)
        try:
            with con.cursor() as cur:
                for statement in statements:
                    cur.execute(in_its_words(statement, self.mysql))
                return tuple(cur.fetchall())  # newer versions of PyMySQL return a list if there was no result
        finally:
            con.close()

    def value(self, statement, schema=None):
        return self.sql(statement, schema=schema)[0][0]

    def account(self, name, schemas, rights=RIGHTS, server_rights="usual"):
        """Makes an account with the canary password and `rights` on each of `schemas`."""
        if server_rights == "usual":
            server_rights = usual_on_server(self.mysql)
        words = []
        for host in ("localhost", "127.0.0.1"):
            who = f"'{name}'@'{host}'"
            words += [f"DROP USER IF EXISTS {who}", f"CREATE USER {who} IDENTIFIED BY '{CANARY}'"]
            words += [f"GRANT {server_rights} ON *.* TO {who}"] if server_rights else []
            words += [self.granting(who, schema, rights) for schema in schemas]
        try:
            self.sql(*words)
        except pymysql.err.InternalError as e:
            if e.args[0] != ARIA_BROKEN:
                raise
            self.sql(*(f"REPAIR TABLE mysql.{table}" for table in ARIA_PRIVILEGES))
            self.sql(*words)

    @staticmethod
    def granting(who, schema, rights):
        pattern = schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
        return f"GRANT {rights} ON {ident(pattern)}.* TO {who}"

    def grant(self, who, schema, rights=RIGHTS):
        self.sql(self.granting(who, schema, rights))

    def sessions(self, **wanted):
        """Returns the client sessions, except this one, that match all of these: a value, a set of values, or a text with % as
        in LIKE. Not from information_schema.processlist, which fails on MySQL while any session's statement has binary text."""
        con = self.admin(use_unicode=False)
        try:
            with con.cursor() as cur:
                cur.execute("SHOW FULL PROCESSLIST")
                rows = [Session(*(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in row[:8]))
                        for row in cur.fetchall()]
        finally:
            con.close()
        return [s for s in rows if s.id != con.thread_id() and s.user not in ("system user", "event_scheduler")
                and all(fits(getattr(s, k), v) for k, v in wanted.items())]

    @contextlib.contextmanager
    def locked(self, prefix, what):
        """Holds, within the block, the named lock of that kind of work (src/mysql/lease.c) in a session of its own. Returns the
        session's id."""
        con = self.admin()
        try:
            with con.cursor() as cur:
                cur.execute("SELECT CONNECTION_ID(), GET_LOCK(CONCAT(%s,'.',LEFT(SHA2(%s,256),32)),60)", (prefix, what))
                ((session, got),) = cur.fetchall()
            assert got == 1, f"lock {prefix} of {what}"
            yield session
        finally:
            con.close()

    def end_sessions(self, patience=PATIENCE, **which):
        """Kills the matching sessions, waits until the server has ended them, and returns their number."""
        killed = {session.id for session in self.sessions(**which)}
        for session in killed:
            with contextlib.suppress(pymysql.err.Error):
                self.sql(f"KILL {session}")
        wait_for(lambda: not self.sessions(id=killed), lambda: f"these to end: {self.sessions(id=killed)}", patience)
        return len(killed)

    def waiting_for_rows(self):
        """Returns the ids of the sessions that wait for a row now. MariaDB and MySQL repeat one answer for 0.1 s, so each look
        is later than that."""
        time.sleep(0.2)
        return {waiter for (waiter,) in self.sql("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx "
                                                 "WHERE trx_state='LOCK WAIT'")}

    def start_time(self):
        """Returns the start time of the server process by its own clock, in seconds."""
        now, last = 0, None
        while now != last:  # both within one second
            last = int(self.value("SELECT UNIX_TIMESTAMP()"))
            up = self.sql("SHOW GLOBAL STATUS LIKE 'uptime'")[0][1]
            now = int(self.value("SELECT UNIX_TIMESTAMP()"))
        return now - int(up)

    def grow_old(self):
        """Waits until the next process would have another start time, whose resolution is one second."""
        def later_second():
            if self.answered:
                return time.time() >= int(self.answered) + 1.01
            return time.monotonic() - self.started > 2.1
        wait_for(later_second, "the second of the server's start to end")

    def kill9(self):
        """Kills the server with SIGKILL, once another start would have another start time."""
        self.grow_old()
        self.process.kill()
        self.process.wait()
        self.process, self.ended = None, time.time()

    def sigstop(self):
        """Stops the server. It waits until all threads are stopped, because others answer until the signal is handled."""
        self.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: stands_still(self.process.pid), "all threads of the server to stop")
        assert self.process.poll() is None, f"the server has ended: {self.process.returncode}"

    def sigcont(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Shuts the server down cleanly."""
        if self.process is not None:
            self.grow_old()
            self.sigcont()
            end_process(self.process, signal.SIGTERM, PATIENCE)
            self.process, self.ended = None, time.time()

    def crash(self, *more):
        """Kills the server with SIGKILL and starts it again, the event that worldkeeper exists for."""
        self.kill9()
        self.start(*more)

    def destroy(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        shutil.rmtree(self.dir, ignore_errors=True)


# The server's own mysqlbinlog, because logs differ. Transactions whose GTID the server knows would be skipped.
LOG_READER = [SERVERS, "tool", KIND, "mysqlbinlog", "--skip-gtids"] if MYSQL else [
    "mariadb-binlog", "--no-defaults"]


def fits(value, wanted):
    """Returns whether a field of a Session matches what sessions() was asked for."""
    if isinstance(wanted, str) and "%" in wanted:
        return value is not None and re.fullmatch(".*".join(map(re.escape, wanted.split("%"))), value, re.S) is not None
    return value in wanted if isinstance(wanted, (set, frozenset)) else value == wanted


@contextlib.contextmanager
def repeating(world, *statements):
    """Executes the statements in a loop, and yields a list of those that succeeded. A statement may lose a deadlock."""
    over, done = threading.Event(), []

    def repeat():
        with contextlib.closing(world.server.admin(world.schema)) as session:
            for statement in itertools.takewhile(lambda _: not over.is_set(), itertools.cycle(statements)):
                try:
                    session.cursor().execute(statement)
                    done.append(statement)
                except pymysql.err.OperationalError as e:
                    if e.args[0] != 1213:
                        raise
    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def begin_odd(server, user="root"):
    """Returns a connection whose statement runs for an hour and contains bytes that are invalid in any character set."""
    con = server.admin(user=user, password=CANARY if user != "root" else "", read_timeout=None)
    con._execute_command(pymysql.constants.COMMAND.COM_QUERY, b"SELECT SLEEP(3600), '\xff\0loc\xc3'")
    wait_for(lambda: server.sessions(id=con.thread_id(), state="User sleep"), "the statement to be under way")
    return con


def client(server, schema, command="mariadb", *more):
    """Returns the stock client's command line for this server."""
    return [command, "--no-defaults", "--socket=" + server.socket, "--user=root", *more, schema]


def stock_restore(server, path, schema, *more):
    """Runs gunzip -c DUMP | mariadb SCHEMA, as a person without worldkeeper does."""
    unzip = subprocess.Popen(["gunzip", "-c", path], stdout=subprocess.PIPE)
    load = subprocess.run(client(server, schema, "mariadb", *more), stdin=unzip.stdout, stderr=subprocess.PIPE)
    unzip.stdout.close()
    assert load.returncode == 0, load.stderr.decode("utf-8", "replace")[:2000]
    assert unzip.wait() == 0, "gunzip failed"


def mysqldump(server, schema, path, *more):
    """Runs the old dump script's pipeline and writes to `path` (.sql or .sql.gz)."""
    dump = subprocess.run(client(server, schema, "mysqldump", "--net_buffer_length=4096", *more),
                          stdout=subprocess.PIPE, check=True).stdout
    if path.endswith(".gz"):
        dump = subprocess.run(["gzip", "--fast"], input=dump, stdout=subprocess.PIPE,
                              check=True).stdout
    with open(path, "wb") as f:
        f.write(dump)
    return path
