"""Writers that record, outside the database, every change that the server acknowledged, and the audit of a world against
that record.

Each writer owns the rows whose `who` is its number, so the last acknowledged state of a row is known. A change that was sent
when the server died may have happened or not; all others must exist once, and nothing else. A world that may have lost the
newest changes must equal one earlier state."""
import copy
import random
import threading
import time

import pymysql

from .util import PATIENCE, wait_for

TABLES = [
    # a primary key, a second unique key whose values move between rows, and a counter
    "CREATE TABLE bank (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, who INT NOT NULL, "
    "name VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL, sum BIGINT NOT NULL, UNIQUE KEY (name)) "
    "ENGINE=MEMORY",
    # a key of two columns that are not the first ones; one is text with a case-insensitive collation
    "CREATE TABLE ship (hull DOUBLE, who INT NOT NULL, sign VARCHAR(20) CHARACTER SET latin1 NOT NULL, "
    "crew INT, PRIMARY KEY (who,sign)) ENGINE=MEMORY",
    # no key: the same row may exist several times
    "CREATE TABLE news (who INT NOT NULL, what VARCHAR(60) CHARACTER SET utf8mb4) ENGINE=MEMORY",
]
EACH = 40  # rows of each table that a writer changes


class Writer(threading.Thread):
    """Changes its own rows as fast as it can until the server is gone."""

    def __init__(self, world, who, seed, tables, pause=0):
        super().__init__(daemon=True)
        self.tables, self.pause = tables, pause
        self.world, self.who, self.random = world, who, random.Random(seed)
        self.begin({"bank": {}, "ship": {}, "news": {}})
        self.ended = threading.Event()
        self.changes = 0
        self.serial = 0

    def begin(self, book):
        self.book = book  # acknowledged state
        self.base = copy.deepcopy(book)  # the state before the first change in `told`
        self.told = []  # (time sent, time acknowledged, table, key, row after it)
        self.pending = None  # (table, key, the row after it; None: deleted)

    def run(self):
        con = None
        while not self.ended.is_set():
            try:
                con = con or self.world.server.admin(self.world.schema, read_timeout=PATIENCE)
                with con.cursor() as cur:
                    while not self.ended.is_set():
                        self.change(cur)
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError):
                break
            except pymysql.err.ProgrammingError as refused:
                if refused.args[0] != 1146:  # the table and the world were dropped
                    raise
                break

    def change(self, cur):
        table = self.random.choice(self.tables)
        sql, args, key, after = getattr(self, table)(self.book[table])
        self.pending = (table, key, after)
        self.sent = time.monotonic()
        cur.execute(sql, args)
        self.told.append((self.sent, time.monotonic(), table, key, after))
        self.acknowledge(table, key, after)
        self.pending = None
        self.changes += 1
        if self.pause:
            time.sleep(self.pause)

    def acknowledge(self, table, key, after, book=None):
        rows = (book or self.book)[table]
        if after is None:
            rows.pop(key)
        else:
            rows[key] = after

    def kept(self, found):
        """Returns the numbers of changes after which the state equals what was found: all changes before, none after. Several
        may fit if changes undo each other. The unacknowledged change counts as one more."""
        def differs(book, table, key):
            return (book[table].get(key) or None) != (found[table].get(key) or None)
        book, fits = copy.deepcopy(self.base), []
        wrong = {(t, key) for t in book for key in book[t].keys() | found[t].keys()
                 if differs(book, t, key)}
        changes = [told[2:] for told in self.told] + ([self.pending] if self.pending else [])
        for n, (table, key, after) in enumerate([(None, None, None), *changes]):
            if table:
                self.acknowledge(table, key, after, book)
                (wrong.add if differs(book, table, key) else wrong.discard)((table, key))
            fits += [] if wrong else [n]
        return fits

    def text(self):
        return self.random.choice(("it's", 'a "q"', "nul\0l", "back\\slash", "tűz ★", "", "(1,2)"))

    def bank(self, rows):
        self.serial += 1
        key = self.who * 10_000_000 + self.random.randrange(EACH) + 1
        name, amount = f"{self.who}/{self.serial} {self.text()}", self.random.randrange(-2**62, 2**62)
        if key not in rows:
            return ("INSERT INTO bank VALUES (%s,%s,%s,%s)", (key, self.who, name, amount), key,
                    (name, amount))
        if self.random.random() < 0.3:
            return "DELETE FROM bank WHERE id=%s", (key,), key, None
        if self.random.random() < 0.5:
            name = rows[key][0]
        return ("UPDATE bank SET name=%s, sum=%s WHERE id=%s", (name, amount, key), key, (name, amount))

    def ship(self, rows):
        # 'a1' and 'A1' are the same key to the server, but different bytes
        n = self.random.randrange(EACH)
        key = next((k for k in (f"s{n}", f"S{n}") if k in rows), None)
        hull, crew = self.random.random() * 1e10, self.random.choice((None, 1, -7))
        if key is None:
            key = self.random.choice((f"s{n}", f"S{n}"))
            return ("REPLACE INTO ship VALUES (%s,%s,%s,%s)", (hull, self.who, key, crew), key,
                    (hull, crew))
        if self.random.random() < 0.3:
            return "DELETE FROM ship WHERE who=%s AND sign=%s", (self.who, key), key, None
        return ("UPDATE ship SET hull=%s, crew=%s WHERE who=%s AND sign=%s",
                (hull, crew, self.who, key), key, (hull, crew))

    def news(self, rows):
        what = self.random.choice((None, "x", "it's", f"{self.random.randrange(5)}"))
        if rows.get(what, 0) > 0 and self.random.random() < 0.45:
            return ("DELETE FROM news WHERE who=%s AND what<=>%s LIMIT 1", (self.who, what), what,
                    rows[what] - 1)
        return "INSERT INTO news VALUES (%s,%s)", (self.who, what), what, rows.get(what, 0) + 1


class AuditedWriters:
    """`count` writers over a world with TABLES, which write within `with AuditedWriters(...) as writers`."""

    def __init__(self, world, seed, count=3, tables=("bank", "bank", "ship", "news")):
        self.tables = tables
        self.pause = 0  # seconds that a writer pauses after each change
        self.world, self.seed, self.count = world, seed, count
        self.book = [{"bank": {}, "ship": {}, "news": {}} for _ in range(count)]
        self.threads = []
        self.changes, self.running = 0, False

    def start(self):
        self.threads = [Writer(self.world, i, f"{self.seed}/{i}/{self.changes}", self.tables, self.pause)
                        for i in range(self.count)]
        for writer, book in zip(self.threads, self.book):
            writer.begin(book)
            writer.serial = self.changes + 1  # keeps names unique
            writer.start()
        self.running = True
        return self

    def stop(self):
        if not self.running:
            return
        for writer in self.threads:
            writer.ended.set()
        for writer in self.threads:
            writer.join(PATIENCE)
            assert not writer.is_alive(), "a writer does not end"
        self.changes += sum(w.changes for w in self.threads)
        self.running = False

    def told(self):
        """Returns how many changes were acknowledged so far."""
        return self.changes + (sum(w.changes for w in self.threads) if self.running else 0)

    def __enter__(self):
        return self.start()

    def __exit__(self, *args):
        self.stop()

    def wait_changes(self, n):
        wait_for(lambda: sum(w.changes for w in self.threads) >= n, "the writers to write", every=0.002)

    def read(self):
        found = [{"bank": {}, "ship": {}, "news": {}} for _ in range(self.count)]
        twice = []
        con = self.world.server.admin(self.world.schema)
        with con.cursor() as cur:
            cur.execute("SELECT who, id, name, sum FROM bank")
            for who, key, name, amount in cur.fetchall():
                twice += [key] if key in found[who]["bank"] else []
                found[who]["bank"][key] = (name, amount)
            cur.execute("SELECT who, sign, hull, crew FROM ship")
            for who, key, hull, crew in cur.fetchall():
                twice += [key] if key in found[who]["ship"] else []
                found[who]["ship"][key] = (hull, crew)
            cur.execute("SELECT who, what, COUNT(*) FROM news GROUP BY who, BINARY what, what")
            for who, what, n in cur.fetchall():
                found[who]["news"][what] = n
        con.close()
        return found, twice

    def audit(self):
        """Compares the world with the record, and adopts the outcome of unacknowledged changes."""
        found, twice = self.read()
        wrong = [f"twice: {key}" for key in twice]
        for who, (book, have) in enumerate(zip(self.book, found)):
            pending = self.threads[who].pending if self.threads else None
            for table in book:
                want = {k: v for k, v in book[table].items() if v != 0}
                for key in want.keys() | have[table].keys():
                    is_there, should = have[table].get(key), want.get(key)
                    if is_there == should:
                        continue
                    if pending and pending[0] == table and pending[1] == key and \
                            is_there == (pending[2] or None):
                        continue
                    wrong.append(f"{table} of {who}: {key!r} is {is_there!r}, not {should!r}")
            self.book[who] = have
        assert not wrong, f"seed {self.seed}: {len(wrong)} rows wrong: {wrong[:8]}"

    def audit_cut(self, killed):
        """Audits a world that may have lost the newest changes: it must equal one earlier state. Returns how old the oldest
        lost change was at the time `killed` (0: nothing is lost) and how many are lost, and adopts what is left."""
        found, twice = self.read()
        assert not twice, (self.seed, twice)
        lost, first = self.cut([writer.kept(have) for writer, have in zip(self.threads, found)])
        self.book = found
        return max(0.0, killed - first) if lost else 0.0, len(lost)

    def cut(self, fits):
        """Returns the lost changes after the latest moment that fits all writers, and when the first of them was acknowledged."""
        while True:
            assert all(fits), f"seed {self.seed}: no moment at which that was the world: {fits}"
            lost = [told for writer, n in zip(self.threads, fits) for told in writer.told[n[-1]:]]
            first = min((told[1] for told in lost), default=float("inf"))
            late = [any(told[0] > first for told in writer.told[:n[-1]])
                    for writer, n in zip(self.threads, fits)]
            if not any(late):
                return lost, first
            fits = [n[:-1] if is_late else n for n, is_late in zip(fits, late)]
