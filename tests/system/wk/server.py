"""Private servers: own datadir, own port, own socket, ended by their pid. WK_KIND says which (a kind
of scripts/servers.sh; mariadb when nothing is said)."""
import contextlib
import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pymysql

from .util import CANARY, DIE_WITH_US, end_process, free_port, ident, tail, wait_for

KIND = os.environ.get("WK_KIND") or "mariadb"
MYSQL = KIND == "mysql"
SERVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/servers.sh")


def files(mysql):
    return ["--innodb-data-file-path=ibdata1:12M:autoextend",
            "--innodb-redo-log-capacity=8M" if mysql else "--innodb-log-file-size=4M"]


def small(mysql):
    return files(mysql) + [
        "--innodb-buffer-pool-size=32M", "--performance-schema=OFF", "--key-buffer-size=1M",
        "--sync-binlog=0", "--innodb-use-native-aio=0", "--skip-name-resolve", "--max-connections=60",
        "--bind-address=127.0.0.1", "--table-open-cache=200", "--thread-cache-size=0", "--server-id=1",
    ] + (["--skip-log-bin", "--innodb-doublewrite=OFF", "--innodb-flush-log-at-trx-commit=2",
          "--innodb-log-writer-threads=OFF"] if mysql
         else ["--aria-pagecache-buffer-size=8M"])  # MySQL's log is on, and it flushes all twice


# What the daemon's account needs on its schema, and on the server as a whole.
RIGHTS = ("SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, "
          "TRIGGER, SHOW VIEW, EVENT")


def usual_on_server(mysql):
    return "REPLICATION SLAVE, " + ("REPLICATION CLIENT" if mysql else "BINLOG MONITOR")


SERVER_RIGHTS = usual_on_server(MYSQL)

# Behind it ON or OFF; the fixture log_keys has what else a server needs.
LOG_ENCRYPTED = "--binlog-encryption=" if MYSQL else "--encrypt-binlog="

WORDS = {  # of rights: root's triggers need the second one as well
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
    """The tests speak MariaDB; this is how MySQL says the same."""
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
    """Who runs the servers when we are root: a machine with the server's core package only has no
    user mysql."""
    try:
        pwd.getpwnam("mysql")
        return "mysql"
    except KeyError:
        return "nobody"


def as_mysql():
    """The command prefix that runs a server as an unprivileged user when we are root."""
    who = [f"--reuid={server_user()}", "--clear-groups"] if os.geteuid() == 0 else []
    if who:
        who.append(f"--regid={pwd.getpwnam(server_user()).pw_gid}")
    return [*DIE_WITH_US[:-1], *who, "--"]


def template(base, kind, *options):
    """One freshly installed datadir of a kind for the whole session: made by whoever comes first. With
    `options` that a server must be born with, one for each set of these."""
    mysql = kind == "mysql"
    path = os.path.join(base, "template-" + kind + "".join(options))
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(path):
            new = tempfile.mkdtemp(dir=base, prefix="new")
            os.chmod(new, 0o755)
            if os.geteuid() == 0:
                shutil.chown(new, server_user())
            done = subprocess.run([*as_mysql(), SERVERS, "install", kind, new, *files(mysql), *options],
                                  cwd=base, text=True, errors="replace", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            assert done.returncode == 0, done.stdout[-2000:]
            if mysql:  # who the server is: each makes its own
                os.unlink(os.path.join(new, "auto.cnf"))
            os.rename(new, path)
    return path


class Server:
    """One server. `options` are added to a small set of defaults; restart keeps the datadir."""

    def __init__(self, base, *options, kind=KIND):
        self.kind, self.mysql = kind, kind == "mysql"
        self.dir = tempfile.mkdtemp(dir=base, prefix="db")
        os.chmod(self.dir, 0o755)
        self.datadir = os.path.join(self.dir, "d")
        born = [o for o in options if self.mysql and o.startswith("--lower-case-table-names=")]
        self.template = template(base, kind, *born)
        self.tmpdir = os.path.join(self.datadir, "#tmp")  # a server clears its tmpdir at its start
        self.install()
        self.socket = os.path.join(self.datadir, "s")
        self.error_log = os.path.join(self.datadir, "error.log")
        self.port = free_port()
        self.options = list(options)
        self.wrapper = []  # a command that starts the server, such as prlimit
        self.process = None
        self.count = 0

    def install(self):
        """A fresh datadir; what was there is gone."""
        shutil.rmtree(self.datadir, ignore_errors=True)
        subprocess.run(["cp", "-a", self.template, self.datadir], check=True)
        subprocess.run([*as_mysql(), "mkdir", self.tmpdir], check=True)

    def start(self, *more, wait=True):
        assert self.process is None, "the server runs already"
        with contextlib.suppress(FileNotFoundError):
            # MySQL's, left by a killed server: it ends the next one if its process id is another's by now.
            os.unlink(self.socket + ".lock")
        self.process = subprocess.Popen(
            [*as_mysql(), *self.wrapper, SERVERS, "run", self.kind, *small(self.mysql), "--datadir=" + self.datadir,
             "--tmpdir=" + self.tmpdir, "--socket=" + self.socket, f"--port={self.port}",
             "--log-error=" + self.error_log,
             "--pid-file=" + os.path.join(self.datadir, "pid"), *self.options, *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, cwd=self.dir)
        self.started = time.monotonic()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self):
        def answers():
            if self.process.poll() is not None:
                raise AssertionError("the server ended: " + tail(self.error_log, 20))
            try:
                self.admin().close()
                return True
            except pymysql.err.OperationalError:
                return False
        wait_for(answers, lambda: "server ready; " + tail(self.error_log, 20))

    def admin(self, schema=None, **more):
        """A connection of root with every bound off, byte-safe for the zoo."""
        args = dict(unix_socket=self.socket, user="root", password="", charset="utf8mb4",
                    autocommit=True, connect_timeout=5, read_timeout=120, database=schema,
                    init_command="SET sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES',"
                                 "time_zone='+00:00'"
                                 + (",cte_max_recursion_depth=10000000" if self.mysql else ""))
        return pymysql.connect(**{**args, **more})

    def sql(self, *statements, schema=None):
        """Runs statements as root, gives the rows of the last one."""
        con = self.admin(schema)
        try:
            with con.cursor() as cur:
                for statement in statements:
                    cur.execute(in_its_words(statement, self.mysql))
                return cur.fetchall()
        finally:
            con.close()

    def value(self, statement, schema=None):
        return self.sql(statement, schema=schema)[0][0]

    def account(self, name, schemas, rights=RIGHTS, server_rights="usual"):
        """Makes an account with the canary password and `rights` on each of `schemas`."""
        if server_rights == "usual":
            server_rights = usual_on_server(self.mysql)
        for host in ("localhost", "127.0.0.1"):
            who = f"'{name}'@'{host}'"
            self.sql(f"DROP USER IF EXISTS {who}", f"CREATE USER {who} IDENTIFIED BY '{CANARY}'")
            if server_rights:
                self.sql(f"GRANT {server_rights} ON *.* TO {who}")
            for schema in schemas:
                self.grant(who, schema, rights)

    def grant(self, who, schema, rights=RIGHTS):
        pattern = schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
        self.sql(f"GRANT {rights} ON {ident(pattern)}.* TO {who}")

    def end_sessions(self, which):
        """Kills those of the others for whose row in the list of processes this is true."""
        for (other,) in self.sql("SELECT id FROM information_schema.processlist WHERE "
                                 f"id<>CONNECTION_ID() AND ({which})"):
            try:
                self.sql(f"KILL {other}")
            except pymysql.err.Error:
                pass

    def start_time(self):
        """When the server process started, by its own clock, to the second."""
        up = self.sql("SHOW GLOBAL STATUS LIKE 'uptime'")[0][1]
        return int(self.value("SELECT UNIX_TIMESTAMP()")) - int(up)

    def grow_old(self):
        """Start times have a resolution of a second: two processes in a row must differ in theirs."""
        wait_for(lambda: time.monotonic() - self.started > 2.1, "the server to be two seconds old")

    def kill9(self):
        """kill -9."""
        self.grow_old()
        self.process.kill()
        self.process.wait()
        self.process = None

    def sigstop(self):
        self.process.send_signal(signal.SIGSTOP)

    def sigcont(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """A clean shutdown."""
        if self.process is not None:
            self.grow_old()
            self.sigcont()
            end_process(self.process, signal.SIGTERM, 60)
            self.process = None

    def crash(self, *more):
        """kill -9 and start again: what worldkeeper exists for."""
        self.kill9()
        self.start(*more)

    def destroy(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        shutil.rmtree(self.dir, ignore_errors=True)


# Makes SQL of a binary log: the server's own, since logs differ. What the server knows by its GTID it
# would pass by.
LOG_READER = [SERVERS, "tool", KIND, "mysqlbinlog", "--skip-gtids"] if MYSQL else [
    "mariadb-binlog", "--no-defaults"]


def client(server, schema, command="mariadb", *more):
    """The stock client's command line for this server."""
    return [command, "--no-defaults", "--socket=" + server.socket, "--user=root", *more, schema]


def stock_restore(server, path, schema, *more):
    """gunzip -c DUMP | mariadb SCHEMA, as a person without worldkeeper would do it."""
    unzip = subprocess.Popen(["gunzip", "-c", path], stdout=subprocess.PIPE)
    load = subprocess.run(client(server, schema, "mariadb", *more), stdin=unzip.stdout, stderr=subprocess.PIPE)
    unzip.stdout.close()
    assert load.returncode == 0, load.stderr.decode("utf-8", "replace")[:2000]
    assert unzip.wait() == 0, "gunzip failed"


def mysqldump(server, schema, path):
    """The old dump script's pipeline, written to `path` (.sql or .sql.gz)."""
    dump = subprocess.run(client(server, schema, "mysqldump", "--net_buffer_length=4096"),
                          stdout=subprocess.PIPE, check=True).stdout
    if path.endswith(".gz"):
        dump = subprocess.run(["gzip", "--fast"], input=dump, stdout=subprocess.PIPE,
                              check=True).stdout
    with open(path, "wb") as f:
        f.write(dump)
    return path
