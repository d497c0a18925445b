"""The central store of players' progress on a private server, and accounts that may only call its routines."""
import os
import re
import subprocess

import pymysql

from .keeper import BINARY
from .util import CANARY

OLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "progress-central-0.2.0.sql")


def schema_sql(changes=()):
    """Returns the schema with `changes`: (text that occurs once, its replacement)."""
    sql = subprocess.run([BINARY, "--sql=progress-central"], stdout=subprocess.PIPE, check=True, text=True).stdout
    for old, new in changes:
        assert sql.count(old) == 1, (sql.count(old), old)
        sql = sql.replace(old, new)
    return sql


def old_sql():
    """Returns the schema as 0.2.0 printed it."""
    with open(OLD, encoding="utf-8") as f:
        return f.read()


def statements(sql):
    """Splits SQL as a program without DELIMITER does: a statement ends with // at the end of a line."""
    return [s for s in re.split(r"//$", re.sub(r"^(--|DELIMITER).*\n", "", sql, flags=re.M), flags=re.M) if s.strip()]


def apply(server, schema, sql=None):
    """Applies the schema with the stock client, as a person does."""
    done = subprocess.run(["mariadb", "--no-defaults", "--socket=" + server.socket, "--user=root", schema],
                          input=sql or schema_sql(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0 and not done.stdout, done.stdout[-2000:]


class Client:
    """A game server's connection, with EXECUTE on the schema only. `port` is that of a relay."""

    def __init__(self, server, schema, user="game", port=None, **more):
        where = {"host": "127.0.0.1", "port": port} if port else {"unix_socket": server.socket}
        self.con = pymysql.connect(user=user, password=CANARY, database=schema, charset="utf8mb4", autocommit=True,
                                   connect_timeout=60, **{"read_timeout": 120, **where, **more})

    def rows(self, name, *args):
        with self.con.cursor() as cur:
            cur.execute(f"CALL {name}({','.join(['%s'] * len(args))})", args)
            rows = tuple(cur.fetchall())  # newer versions of PyMySQL return a list if there was no result
            while cur.nextset():
                pass
            return rows

    def call(self, name, *args):
        """Returns the one row of the answer, or its value if it has one column."""
        (row,) = self.rows(name, *args)
        row = tuple(v.decode() if isinstance(v, bytes) else v for v in row)
        return row if len(row) > 1 else row[0]

    def sql(self, *statements):
        with self.con.cursor() as cur:
            for statement in statements:
                cur.execute(statement)
            return tuple(cur.fetchall())

    def close(self):
        self.con.close()


class Central:
    def __init__(self, server, schema="central", sql=None):
        self.server, self.schema, self.open = server, schema, []
        server.end_sessions(db=schema)  # sessions of a failed test, for which DROP would wait
        server.sql(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}")
        apply(server, schema, sql)
        server.account("game", [schema], "EXECUTE", None)

    def account(self, name, *lock_ids):
        """Makes another game server's account, bound to these lock_ids; `client(user=name)` logs in with it."""
        self.server.account(name, [self.schema], "EXECUTE", None)
        for lock_id in lock_ids:
            self.bind(lock_id, name)
        return self.client(user=name)

    def bind(self, lock_id, user, host="localhost"):
        assert self.sql(f"CALL wk_bind('{lock_id}','{user}','{host}')") == (("bound",),)

    def client(self, **more):
        self.open.append(Client(self.server, self.schema, **more))
        return self.open[-1]

    def sql(self, *statements):
        return self.server.sql(*statements, schema=self.schema)

    def blob(self, key):
        """Returns (seq, lock_seq, blob), or None."""
        found = self.sql(f"SELECT seq, lock_seq, `blob` FROM wk_blob WHERE blob_key='{key}'")
        return found[0] if found else None

    def close(self):
        for client in self.open:
            client.close()
        self.server.end_sessions(db=self.schema)
        self.server.sql(f"DROP DATABASE IF EXISTS {self.schema}")
