"""A pool of started servers. A server is reused for the next test with the same options, because a start takes longer than
undoing a test's changes. A change that cannot be undone ends the server."""
import os
import stat

import pymysql

from .server import Server
from .util import ident

IDLE = 3  # servers that a worker keeps for later tests
OF_SERVER = {"mysql", "information_schema", "performance_schema", "sys"}
# Tables that a server changes by itself.
NOT_KEPT = ("general_log", "slow_log", "gtid_executed", "innodb_table_stats", "innodb_index_stats", "table_stats",
            "column_stats", "index_stats")


def files(server):
    """Returns the names, modes and owners in the directory, without files that InnoDB, Aria and the binary log manage
    themselves."""
    found = set()
    for entry in os.scandir(server.datadir):
        about = entry.stat(follow_symlinks=False)
        own = entry.name.startswith(("#", "ib", "undo", "aria_log", "tc.log", "ddl_recovery")) or stat.S_ISSOCK(about.st_mode)
        if not own and entry.name.rpartition(".")[2] not in {"idx", "pid"} and not entry.name[-6:].isdigit():
            found.add((entry.name, about.st_mode, about.st_uid))
    about = os.stat(server.datadir)
    return found | {(".", about.st_mode, about.st_uid)}


def state(server, con):
    """Returns everything that a test can change and that `empty` does not drop."""
    with con.cursor() as cur:
        def rows(sql):
            cur.execute(sql)
            return cur.fetchall()
        tables = [name for (name,) in rows("SELECT table_name FROM information_schema.tables WHERE "
                                           "table_schema='mysql' AND table_type='BASE TABLE'")
                  if name not in NOT_KEPT and not name.startswith(("help_", "time_zone"))]
        variables = dict(rows("SHOW GLOBAL VARIABLES"))
        variables.pop("server_uuid", None)  # in a new directory MySQL has another one
        return {
            "variables": variables,
            "tables": dict(rows("CHECKSUM TABLE " + ",".join("mysql." + ident(name) for name in tables))),
            "schemas": schemas(cur),
            "replica": rows("SHOW REPLICA STATUS" if server.mysql else "SHOW ALL SLAVES STATUS"),
            "prepared": rows("XA RECOVER"),
            "log": [name for name, *_ in rows("SHOW BINARY LOGS")] if rows("SELECT @@log_bin") == ((1,),) else [],
            "files": files(server),
        }


def schemas(cur):
    """Returns the schemas, without directories that MariaDB lists too, such as that of its temporary files."""
    cur.execute("SELECT schema_name FROM information_schema.schemata")
    return {name for (name,) in cur.fetchall() if not name.startswith("#mysql50#")}


def accounts(cur):
    cur.execute("SELECT user, host FROM mysql.user")
    return set(cur.fetchall())


def empty(server, con, kept):
    """Drops accounts except `kept`, sessions, schemas and the binary log."""
    with con.cursor() as cur:
        for user, host in accounts(cur) - kept:
            try:
                cur.execute("DROP USER %s@%s", (user, host))
            except pymysql.err.OperationalError:  # it is a role of MariaDB
                cur.execute("DROP ROLE " + ident(user))
    server.end_sessions(10, id={session.id for session in server.sessions()} - {con.thread_id()})
    with con.cursor() as cur:
        for name in schemas(cur) - OF_SERVER:
            cur.execute("DROP DATABASE " + ident(name))
        cur.execute("SELECT @@log_bin")
        if cur.fetchone() == (1,):
            cur.execute("RESET BINARY LOGS AND GTIDS" if server.mysql else "RESET MASTER")


class Pool:
    """The servers of one test worker: take() and put_back(); destroy() at its end."""

    def __init__(self, base):
        self.base, self.idle = base, []

    def take(self, *options, **kind):
        """Returns a server with these options in the state of a new one."""
        for server in self.idle:
            if server.pooled == (options, kind):
                self.idle.remove(server)
                server.sigcont()
                if self.restore(server):
                    return server
                server.destroy()
                break
        server = Server(self.base, *options, **kind).start()
        server.pooled = (options, kind)
        con = server.admin()
        with con.cursor() as cur:
            server.accounts = accounts(cur)
        server.fresh = state(server, con)
        con.close()
        return server

    @staticmethod
    def restore(server):
        """Resets the server and returns whether nothing of the last test is left. Called when its processes have ended."""
        try:
            con = server.admin(read_timeout=20)
            try:
                con.query("SET lock_wait_timeout=5")
                empty(server, con, server.accounts)
                return state(server, con) == server.fresh
            finally:
                con.close()
        except (pymysql.err.Error, OSError, AssertionError):
            return False

    def put_back(self, server):
        """Takes a server back from a test, which may have killed and started it again."""
        if server.process is None or server.process.poll() is not None or server.changed():
            server.destroy()
            return
        # It is stopped until then, because an idle MySQL wakes a hundred times a second.
        server.sigstop()
        self.idle.append(server)
        if len(self.idle) > IDLE:
            self.idle.pop(0).destroy()

    def destroy(self):
        while self.idle:
            self.idle.pop().destroy()
