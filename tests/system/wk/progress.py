"""Players' progress: a central store, a world with a local store, and a connection between them that can be cut."""
import re

import pymysql

from .central import schema_sql
from .keeper import USER
from .util import CANARY

RIGHTS = "DELETE, CREATE ROUTINE, ALTER ROUTINE"
counter = iter(range(1, 1 << 30))
# Statements with which a game opens a session: (lock, its number); for each loaded blob (key, lock, seq, seq, blob).
OPEN_SESSION = "REPLACE INTO wk_session (lock_key,lock_seq) VALUES (%s,%s)"
ADD_LOADED = ("REPLACE INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`) VALUES (%s,%s,%s,%s,NOW(3),"
              "_binary %s)")


class Central:
    """The central store in its own schema, and accounts that may only call its routines."""

    def __init__(self, server, changes=()):
        self.server, self.schema = server, f"central_{next(counter)}"
        sql = re.sub(r"^DELIMITER .*$", "", schema_sql(changes), flags=re.M)
        server.sql(f"DROP DATABASE IF EXISTS {self.schema}", f"CREATE DATABASE {self.schema}")
        con = server.admin(self.schema)
        with con.cursor() as cur:
            for statement in re.split(r"//\s*$", sql, flags=re.M):
                if re.sub(r"^--.*$", "", statement, flags=re.M).strip():
                    cur.execute(statement)
        con.close()
        server.account("gs", [self.schema], "EXECUTE", server_rights=None)

    def call(self, routine, *args):
        con = self.server.admin(self.schema)
        try:
            with con.cursor() as cur:
                cur.execute(f"CALL {routine}({','.join(['%s'] * len(args))})", args)
                return cur.fetchall()
        finally:
            con.close()

    def acquire(self, key, who="gs-a", ms=0):
        return self.call("wk_acquire", key, who, ms)[0]

    def blobs(self):
        return {k.decode(): (seq, blob) for k, seq, blob in self.server.sql(
            "SELECT blob_key,seq,`blob` FROM wk_blob", schema=self.schema)}

    def holder(self, key):
        rows = self.server.sql(f"SELECT lock_id FROM wk_lock WHERE lock_key='{key}'", schema=self.schema)
        return rows[0][0].decode() if rows and rows[0][0] else None

    def settings(self, keeper, **more):
        return {"socket": self.server.socket, "user": "gs", "schema": self.schema, "lock_id": "gs-a",
                "password_file": keeper.secret("central-password", CANARY), "write_back": "1h", **more}


class Store:
    """A game server's sessions and saves in a world's local store."""

    def __init__(self, keeper, central):
        self.keeper, self.world, self.central = keeper, keeper.world, central

    def open(self, key, who="gs-a"):
        outcome, lock_seq = self.central.acquire(key, who)[:2]
        if outcome == "busy":
            outcome, lock_seq = self.central.acquire(key, who)[:2]
        rows = [r for r in self.central.call("wk_load", key, who, lock_seq) if r[0] == "loaded"]
        con = self.world.server.admin(self.world.schema)
        with con.cursor() as cur:
            cur.execute(OPEN_SESSION, (key, lock_seq))
            for _, blob_key, seq, blob in rows:
                cur.execute(ADD_LOADED, (blob_key, key, seq, seq, blob))
        con.close()
        return lock_seq

    def put(self, blob_key, lock_key, blob):
        con = self.world.server.admin(self.world.schema)
        try:
            with con.cursor() as cur:
                cur.execute("CALL wk_put(%s,%s,_binary %s)", (blob_key, lock_key, blob))
        finally:
            con.close()

    def close(self, key):
        self.world.sql(f"CALL wk_close('{key}')")

    def rows(self):
        return {k.decode(): (seq, sent) for k, seq, sent in self.world.sql("SELECT blob_key,seq,sent_seq FROM wk_progress")}

    def sessions(self):
        return {k.decode(): state for k, state in self.world.sql("SELECT lock_key,state FROM wk_session")}

    def stolen(self):
        return {(k.decode(), seq): (why, blob) for k, seq, why, blob in self.world.sql(
            "SELECT blob_key,seq,why,`blob` FROM wk_stolen")}


def made(keeper, central, **more):
    """Configures the keeper with [progress] and returns its local store."""
    keeper.configure({"progress": central.settings(keeper, **more)})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, RIGHTS)
    keeper.init()
    return Store(keeper, central)


def refused(call, *args):
    """Returns the text of the error with which a statement must fail."""
    try:
        call(*args)
    except pymysql.err.MySQLError as e:
        return e.args[1]
    raise AssertionError("nothing was refused")
