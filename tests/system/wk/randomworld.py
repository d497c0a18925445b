"""Random worlds: MEMORY tables of any shape that the server accepts, and SQL that changes them in every way that leaves rows.
The same seed gives the same statements. This module does not compute their results, which only the server knows; many fail,
some after a part of their work."""
import random

import pymysql

from .randomcolumns import BECOMES, KINDS, Column, strange_choices
from .server import MYSQL, in_its_words
from .util import ident
from .zoo import NAMES, q

# Errors with which a table may be refused: too long keys or rows, impossible defaults, …; and those of objects that need such a
# table.
MAY_BE_REFUSED = {1067, 1068, 1071, 1072, 1089, 1118, 1146, 1170, 1171, 1294, 1359, 1901, 1906}
# Errors with which a statement may fail; any other one is a defect of this module.
MAY_FAIL = {
    167, 1020, 1022, 1048, 1054, 1062, 1088, 1091, 1093, 1099, 1100, 1105, 1114, 1136, 1167, 1171, 1205, 1213, 1242,
    1243, 1264, 1265, 1267, 1270, 1271, 1292, 1364, 1365, 1366, 1397, 1398, 1399, 1400, 1402, 1406, 1411,
    1416, 1423, 1426, 1441, 1442, 1443, 1467, 1525, 1526, 1644, 1690, 1748, 1916, 1918, 1969, 4025, 4078,
}
if MYSQL:
    MAY_BE_REFUSED |= {1064, 3507, 4089}
    MAY_FAIL |= {1032, 1305, 1785, 1869, 3819, 3854, 6039, 6527}
PORTION = " FOR PORTION OF span FROM '2024-02-01' TO '2024-02-15'"


class Table:
    def __init__(self, name, columns):
        self.name, self.columns = name, columns
        self.unique = []  # columns with a unique key each
        self.period = False
        self.ddl = ""

    @property
    def sql(self):
        return ident(self.name)


class RandomWorld:
    """create() and hangers() give statements that make tables, triggers and views, some of which the server may refuse; fill()
    gives first rows; changes(n) gives n changes, each (0 or 1 of SESSIONS, its statements)."""

    # An UPDATE IGNORE with a duplicate key may run forever in a MEMORY table with a BTREE key.
    MORE = ("", ", binlog_row_value_options=PARTIAL_JSON") if MYSQL else (
        ", max_statement_time=3",) * 2
    SESSIONS = [
        "sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone='+00:00'" + MORE[0],
        "sql_mode='STRICT_ALL_TABLES,ANSI_QUOTES,PIPES_AS_CONCAT', time_zone='-03:30', "
        "collation_connection=utf8mb4_bin, binlog_row_image=NOBLOB" + MORE[1],
    ]

    def __init__(self, seed):
        self.rand = rand = random.Random(f"{seed}/world")
        self.odd = rand.sample([n for n in NAMES if len(n) < 60 and n != "Case"], 30)
        # only some worlds have what prevents a dump by a scan
        self.all_keyed, self.invisible, self.strange = (rand.random() < p for p in (0.6, 0.3, 0.3))
        self.log = Table("log" if rand.random() < 0.5 else "the `log` ★", [])
        self.log_key = " AUTO_INCREMENT PRIMARY KEY" if self.all_keyed or rand.random() < 0.5 else ""
        self.tables = [self.table(i) for i in range(rand.randrange(1, 6))]
        self.views = []  # (name, table)
        self.signals = False  # whether a trigger sometimes fails
        self.rand = random.Random(f"{seed}/changes")

    def create(self):
        yield f"CREATE TABLE {self.log.sql} (n BIGINT{self.log_key}, what VARCHAR(60)) ENGINE=MEMORY"
        yield "CREATE TABLE durable (id INT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB"
        if MYSQL:
            yield "CREATE TABLE durable_json (id INT PRIMARY KEY, v JSON) ENGINE=InnoDB"
        yield "INSERT INTO durable SELECT seq, 'x' FROM seq_1_to_20"
        for t in self.tables:
            yield t.ddl
        yield ("CREATE FUNCTION noted(x INT) RETURNS INT MODIFIES SQL DATA BEGIN "
               f"{self.note('CONCAT(x)')}; RETURN x; END")

    def note(self, text):
        return f"INSERT INTO {self.log.sql} (what) VALUES ({text})"

    def keep(self, there):
        """Keeps only these tables and views."""
        self.tables = [t for t in self.tables if t.name in there]
        self.views = [(name, t) for name, t in self.views if name in there]

    # -- tables ---------------------------------------------------------------------------------

    def name(self, plain):
        return self.odd.pop() if self.rand.random() < 0.25 and self.odd else plain

    def table(self, number):
        rand = self.rand
        kinds, count = KINDS + [strange_choices] * self.strange, rand.choice((1, 2, 3, 4, 5, 8, 20))
        columns = [rand.choice(kinds)(rand, self.name(f"c{i}")) for i in range(count)]
        for c in columns:
            c.null = rand.random() < 0.5
            c.dress(rand, self.invisible)
        t = Table(self.name(f"t{number}"), columns)
        parts = self.keys(t)
        if rand.random() < 0.05 and not MYSQL:
            t.period = True
            columns += [Column("from", "DATE", "date", ["'2024-01-01'", "'2024-02-01'"], keyed=False),
                        Column("to", "DATE", "date", ["'2024-03-01'", "'2024-06-01'"], keyed=False)]
            parts.append("PERIOD FOR span (`from`,`to`)")
        if rand.random() < 0.06:
            parts += [f"CHECK ({c.sql} <> {rand.choice(c.pool)} OR {c.sql} IS NULL)" for c in columns
                      if not c.auto and c.family not in ("text", "enum")][:1]
        if all("INVISIBLE" in c.more for c in columns):
            columns[0].show()
        options = rand.choice(("", "", " CHARACTER SET latin2", " COMMENT='x;'", " MAX_ROWS=9"))
        t.ddl = (f"CREATE TABLE {t.sql} ({', '.join([c.definition() for c in columns] + parts)}) "
                 f"ENGINE=MEMORY{options}")
        return t

    def keys(self, t):
        rand, parts = self.rand, []
        able = [c for c in t.columns if c.keyed]
        primary = self.primary(able) if able and (self.all_keyed or rand.random() < 0.7) else []
        self.count(t, able, primary, parts)
        for c in primary:
            c.null = False
            if c.more == " INVISIBLE":  # such a column has no default
                c.show()
        if primary:
            parts.append(f"PRIMARY KEY{self.using()} ({','.join(self.part(c) for c in primary)})")
            t.unique += primary if len(primary) == 1 else []
        for i in range(rand.choice((0, 0, 1, 1, 2, 3)) if able else 0):
            some = rand.sample(able, min(len(able), rand.choice((1, 1, 2))))
            unique = rand.random() < 0.5
            t.unique += some if unique and len(some) == 1 else []
            parts.append(f"{'UNIQUE ' if unique else ''}KEY k{i}{self.using()} "
                         f"({','.join(self.part(c) for c in some)})")
        rand.shuffle(parts)
        return parts

    def primary(self, able):
        """Returns columns of a primary key, mostly such that distinguish many rows."""
        rand = self.rand
        primary = rand.sample(able, min(len(able), rand.choice((1, 1, 1, 2, 2, 3))))
        numbers = [c for c in able if c.family == "number" and c not in primary]
        if rand.random() < 0.6 and numbers:
            for i, c in enumerate(primary):
                if c.family not in ("number", "text", "bytes"):
                    primary[i] = numbers[0]
                    break
        return primary

    def count(self, t, able, primary, parts):
        """Makes a column AUTO_INCREMENT, with a key that begins with it, or none."""
        rand = self.rand
        whole = [c for c in able if c.family == "number" and "INT" in c.kind]
        if not whole or rand.random() < 0.5:
            return
        c = rand.choice([c for c in whole if c in primary[:1]] or whole)
        c.null, c.auto, c.more = False, True, " AUTO_INCREMENT"
        if primary[:1] != [c]:
            parts.append(f"{rand.choice(('KEY', 'UNIQUE KEY'))} the_auto ({c.sql})")

    def using(self):
        return self.rand.choice(("", "", " USING BTREE", " USING HASH"))

    def part(self, c):
        prefix = c.prefix
        if c.family == "text" and "(1)" not in c.kind and not prefix and self.rand.random() < 0.1:
            prefix = self.rand.randrange(1, 5)
        return c.sql + (f"({prefix})" if prefix else "")

    def hangers(self):
        for i, t in enumerate(self.tables):
            for when in ("INSERT", "UPDATE", "DELETE"):
                if self.rand.random() < 0.15:
                    yield self.trigger(f"tr{i}{when}", t, when)
            if self.rand.random() < 0.2:
                self.views.append((f"view {i}", t))
                yield f"CREATE VIEW `view {i}` AS SELECT * FROM {t.sql}"

    def trigger(self, name, t, when):
        rand, c, other = self.rand, self.rand.choice(t.columns), self.rand.choice(self.tables)
        value = f"{'OLD' if when == 'DELETE' else 'NEW'}.{c.sql}"
        does = [("AFTER", self.note(f"CONCAT('{when} ',HEX({value}))")),
                ("AFTER", f"BEGIN IF CRC32(HEX({value})) % 7 = 0 THEN SIGNAL SQLSTATE '45000'; END IF; END")]
        if when != "DELETE":
            does.append(("BEFORE", f"SET {value}={self.value(c)}"))
        if other is not t:
            does.append(("BEFORE", "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; "
                                   f"{self.simple(other)}; END"))
        time, body = rand.choice(does)
        self.signals |= "SIGNAL" in body
        return f"CREATE TRIGGER {name} {time} {when} ON {t.sql} FOR EACH ROW {body}"

    # -- parts of statements --------------------------------------------------------------------

    def value(self, c):
        r = self.rand.random()
        if r < 0.08:
            return "NULL" if c.null or c.auto or self.rand.random() < 0.1 else self.rand.choice(c.pool)
        return "DEFAULT" if r > 0.97 else self.rand.choice(c.pool)

    def given(self, c):
        """Returns the column's value in a new row."""
        return "NULL" if c.auto and self.rand.random() < 0.6 else self.value(c)

    def expression(self, c, t):
        """Returns an expression for the column's new value."""
        r = self.rand.random()
        if r < 0.45:
            return self.value(c)
        if r < 0.55:
            return self.rand.choice(t.columns).sql
        return self.rand.choice(BECOMES[c.family]).format(c.sql)

    def sets(self, t, most):
        changed = self.rand.sample(t.columns, self.rand.randrange(1, min(most, len(t.columns)) + 1))
        return [(c, self.expression(c, t)) for c in changed]

    def where(self, t):
        rand, c, r = self.rand, self.rand.choice(t.columns), self.rand.random()
        if r < 0.4:
            n = rand.choice((2, 3, 7, 15))
            return f" WHERE CRC32(HEX({c.sql})) % {n} = {rand.randrange(n)}"
        if r < 0.6:
            return f" WHERE {c.sql} <=> {rand.choice(c.pool)}"
        if r < 0.7:
            return f" WHERE {c.sql} IN ({','.join(rand.choice(c.pool) for _ in range(3))})"
        if r < 0.8:
            two = f"({rand.choice(c.pool)},{rand.choice(c.pool)})"
            return f" WHERE {c.sql} BETWEEN LEAST{two} AND GREATEST{two}"
        return "" if r > 0.93 else f" WHERE {c.sql} IS NULL"

    def tail(self, t, often):
        """Returns ORDER BY and LIMIT, or neither."""
        rand, out = self.rand, ""
        if rand.random() < often:
            out += f" ORDER BY {rand.choice(t.columns).sql}{rand.choice(('', ' DESC'))}"
        if rand.random() < often:
            out += f" LIMIT {rand.choice((0, 1, 2, 5, 30))}"
        return out

    def some_columns(self, t):
        if self.rand.random() < 0.6:
            return list(t.columns)
        return self.rand.sample(t.columns, self.rand.randrange(1, len(t.columns) + 1))

    @staticmethod
    def listed(columns):
        return "(" + ",".join(c.sql for c in columns) + ")"

    # -- statements -----------------------------------------------------------------------------

    def insert(self, t):
        rand, columns = self.rand, self.some_columns(t)
        verb = rand.choices(("INSERT", "INSERT IGNORE", "REPLACE", "INSERT HIGH_PRIORITY"), (5, 3, 3, 0.3))[0]
        rows = ",".join("(" + ",".join(self.given(c) for c in columns) + ")"
                        for _ in range(rand.choice((1, 1, 2, 3, 8))))
        sql = f"{verb} INTO {t.sql} {self.listed(columns)} VALUES {rows}"
        if verb == "REPLACE" or rand.random() < 0.7:
            return sql
        return sql + " ON DUPLICATE KEY UPDATE " + ",".join(
            f"{c.sql}=" + (f"VALUES({c.sql})" if rand.random() < 0.4 else e) for c, e in self.sets(t, 3))

    def many(self, t, rows=None):
        """Returns an INSERT with a row for each number."""
        rand, first = self.rand, self.rand.choice((1, 1, 1000, 100000))
        rows = rows or rand.choice((5, 30, 200))
        select = ",".join("NULL" if c.auto and rand.random() < 0.5 else c.by_number(rand) for c in t.columns)
        verb = rand.choice(("INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
        return (f"{verb} INTO {t.sql} {self.listed(t.columns)} SELECT {select} "
                f"FROM seq_{first}_to_{first + rows - 1}")

    def copy(self, t):
        rand, other = self.rand, self.rand.choice(self.tables)
        pairs = [(c, rand.choice(other.columns)) for c in self.some_columns(t)]
        verb = rand.choice(("INSERT", "INSERT IGNORE", "REPLACE"))
        select = ",".join("NULL" if c.auto and rand.random() < 0.5 else o.sql for c, o in pairs)
        return (f"{verb} INTO {t.sql} {self.listed([c for c, _ in pairs])} SELECT {select} FROM {other.sql}"
                f"{self.where(other)} LIMIT {rand.choice((3, 20, 100))}")

    def update(self, t):
        sets, verb = self.sets(t, 4), "UPDATE" + self.rand.choice(("", "", " IGNORE"))
        portion = PORTION if t.period and self.rand.random() < 0.4 else ""
        if portion:
            sets = [(c, e) for c, e in sets if c.name not in ("from", "to")] or \
                [(t.columns[0], self.value(t.columns[0]))]
        return (f"{verb} {t.sql}{portion} SET {','.join(f'{c.sql}={e}' for c, e in sets)}{self.where(t)}"
                f"{'' if portion else self.tail(t, 0.3)}")

    def shift(self, t):
        """Returns statements that move all keys by the same amount."""
        rand = self.rand
        c = rand.choice([c for c in t.unique if c.family == "number"] or t.columns)
        by = rand.choice(("+1000", "+1", "-1", "*2", "-1000"))
        return f"UPDATE {t.sql} SET {c.sql}={c.sql}{by} ORDER BY {c.sql}{rand.choice(('', ' DESC'))}"

    def swap(self, t):
        """Returns statements that swap two rows' unique values through a third one."""
        c = self.rand.choice(t.unique or t.columns)
        a, b, free = (self.rand.choice(c.pool) for _ in range(3))
        return [f"UPDATE {t.sql} SET {c.sql}={to} WHERE {c.sql}={was}"
                for to, was in ((free, a), (a, b), (b, free))]

    def delete(self, t):
        rand, where = self.rand, self.where(t)
        if t.period and rand.random() < 0.4:
            return f"DELETE FROM {t.sql}{PORTION}{where}"
        where = " LIMIT 3" if not where and rand.random() < 0.7 else where + self.tail(t, 0.4)
        return f"DELETE{rand.choice(('', '', ' IGNORE', ' QUICK'))} FROM {t.sql}{where}"

    def multi(self, t):
        """Returns a statement that changes two tables at once."""
        rand, other = self.rand, self.rand.choice(self.tables)
        a, b = rand.choice(t.columns), rand.choice(other.columns)
        x, y = f"x.{a.sql}", f"y.{b.sql}"
        join = f"{t.sql} x JOIN {other.sql} y ON CRC32(HEX({x})) % 5 = CRC32(HEX({y})) % 5"
        where = f"WHERE CRC32(HEX({x})) % 7 = {rand.randrange(7)}"
        if rand.random() < 0.4:
            whose = rand.choice(("x", "y", "x,y"))
            if MYSQL and self.signals:  # test_mysql_ways.py::test_deletes_that_are_not_in_the_log
                whose = whose[0]
            return f"DELETE {whose} FROM {join} {where}"
        return (f"UPDATE{rand.choice(('', ' IGNORE'))} {join} SET {x}={rand.choice(a.pool)}, "
                f"{y}={rand.choice((rand.choice(b.pool), y, x))} {where}")

    def truncate(self, t):
        return self.rand.choice((f"TRUNCATE TABLE {t.sql}", f"TRUNCATE {t.sql}", f"DELETE FROM {t.sql}",
                                 f"/* all */ truncate table {t.sql}"))

    def simple(self, t):
        """Returns one statement without a result, as a routine may contain it. FOR PORTION OF in a trigger crashes the server."""
        period, t.period = t.period, False
        sql = self.rand.choice((self.insert, self.insert, self.update, self.delete, self.copy))(t)
        t.period = period
        return sql

    # -- several statements ---------------------------------------------------------------------

    def with_durable(self, t):
        n, c = self.rand.randrange(1, 25), t.columns[0]
        return self.rand.choice((
            f"INSERT INTO durable VALUES ({n},'new')", f"UPDATE durable SET v=CONCAT('y',id) WHERE id<{n}",
            f"DELETE FROM durable WHERE id={n}",
            f"UPDATE durable d JOIN {t.sql} x ON d.id={n} SET d.v='both', "
            f"x.{c.sql}={self.rand.choice(c.pool)}"))

    def transaction(self, t):
        rand, out = self.rand, [self.rand.choice(("BEGIN", "START TRANSACTION"))]
        for _ in range(rand.randrange(1, 6)):
            r = rand.random()
            out.append(self.with_durable(t) if r < 0.3 else f"SAVEPOINT s{rand.randrange(2)}" if r < 0.4 else
                       self.simple(rand.choice(self.tables)))
        if "SAVEPOINT s1" in out and rand.random() < 0.5:
            out.append("ROLLBACK TO s1")
        return [*out, rand.choice(("COMMIT", "ROLLBACK", "ROLLBACK"))]

    def distributed(self, t):
        name = f"'x{self.rand.randrange(10 ** 9)}'"
        return [f"XA START {name}", self.with_durable(t), self.simple(t), f"XA END {name}",
                *self.rand.choice(([f"XA PREPARE {name}", f"XA ROLLBACK {name}"],
                                   [f"XA COMMIT {name} ONE PHASE"], [f"XA ROLLBACK {name}"]))]

    def locked(self, t):
        every = ", ".join(f"{x.sql} WRITE" for x in [*self.tables, self.log])
        return [f"LOCK TABLES {every}", *(self.simple(t) for _ in range(3)), "UNLOCK TABLES"]

    def compound(self, t):
        rand = self.rand
        inner = "; ".join(self.simple(rand.choice(self.tables)) for _ in range(rand.randrange(1, 4)))
        handler = rand.choice(("", "DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; "))
        body = (f"DECLARE i INT DEFAULT 0; {handler}WHILE i<{rand.randrange(1, 4)} DO "
                f"{inner}; SET i=i+1; END WHILE; END")
        return [f"CREATE PROCEDURE once() BEGIN {body}", "CALL once()", "DROP PROCEDURE once"] if MYSQL \
            else f"BEGIN NOT ATOMIC {body}"

    def called(self, t):
        """Returns statements that call a function which writes."""
        rand, c = self.rand, self.rand.choice(t.columns)
        return rand.choice((f"DO noted({rand.randrange(99)})", "SELECT noted(seq) FROM seq_1_to_3",
                            f"UPDATE {t.sql} SET {c.sql}={self.value(c)} WHERE noted({rand.randrange(9)})<5 "
                            f"LIMIT {rand.randrange(4)}"))

    def viewed(self, t):
        if not self.views:
            return self.insert(t)
        name, t = self.rand.choice(self.views)
        return self.simple(t).replace(t.sql, ident(name), 1)

    def harmless(self, t):
        """Returns logged statements that do not prevent following the log."""
        n = self.rand.randrange(1000)
        both = [
            ["FLUSH BINARY LOGS"], ["FLUSH TABLES"], [f"ANALYZE TABLE {t.sql}"], [f"CHECK TABLE {t.sql}"],
            [f"OPTIMIZE TABLE {t.sql}"], [f"ALTER TABLE {t.sql} FORCE"],
            *([f"CREATE INDEX ends ON {t.sql} ({c.sql})", f"DROP INDEX ends ON {t.sql}"]
              for c in t.columns[:1] if "COMPRESSED" not in c.kind),
            [f"CREATE OR REPLACE VIEW v{n} AS SELECT * FROM {t.sql}"],
            [f"CREATE TEMPORARY TABLE tmp{n} SELECT * FROM {t.sql}",
             f"INSERT INTO {t.sql} SELECT * FROM tmp{n}", f"DROP TEMPORARY TABLE tmp{n}"],
            [f"CREATE TEMPORARY TABLE tmp{n} (id INT PRIMARY KEY) ENGINE=MEMORY",
             f"INSERT INTO tmp{n} VALUES (1)", f"TRUNCATE tmp{n}", f"DROP TABLE tmp{n}"],
            [f"DROP PROCEDURE IF EXISTS p{n}", f"CREATE PROCEDURE p{n}() DELETE FROM {t.sql} LIMIT 1",
             f"CALL p{n}()", f"DROP PROCEDURE p{n}"],
            ["SET auto_increment_increment=5, auto_increment_offset=3", self.insert(t),
             "SET auto_increment_increment=1, auto_increment_offset=1"],
            [f"SET @p={q(self.simple(t))}", "PREPARE p FROM @p", "EXECUTE p", "DEALLOCATE PREPARE p"],
        ]
        return self.rand.choice(both + (self.of_mysql(t, n) if MYSQL else self.of_mariadb(t)))

    def of_mysql(self, t, n):
        return [
            [f"INSERT INTO durable_json VALUES ({n},'{{\"a\":1}}')",
             "UPDATE durable_json SET v=JSON_SET(v,'$.a',2)"],
            ["SET gtid_next='AUTOMATIC:other'", self.simple(t), "SET gtid_next='AUTOMATIC'"],
        ]

    def of_mariadb(self, t):
        return [
            [f"INSERT DELAYED INTO {t.sql} SET {t.columns[0].sql}={t.columns[0].pool[0]}",
             f"FLUSH TABLES {t.sql}"],
            ["SET gtid_domain_id=7", self.simple(t), "SET gtid_domain_id=0"],
            [f"SET STATEMENT lock_wait_timeout=50 FOR {self.simple(t)}"],
        ]

    def gap(self):
        """Returns statements of one session that are not row changes, and what they end: None for the whole journal from the
        first of them on, a table for its changes only, "" for nothing."""
        n, t = self.rand.randrange(10 ** 9), self.rand.choice(self.tables)
        return self.rand.choice((
            ([f"ALTER TABLE {t.sql} AUTO_INCREMENT=7"], t.name),
            ([f"RENAME TABLE {t.sql} TO elsewhere, elsewhere TO {t.sql}"], t.name),
            ([f"CREATE TABLE fresh{n} (a INT) ENGINE=MEMORY", f"INSERT INTO fresh{n} VALUES (1)"], ""),
            (["SET SESSION binlog_format=STATEMENT", self.note("'a statement'"), "SET SESSION binlog_format=ROW"], None),
        ))

    def settle(self):
        """Yields statements that replace -0, which a FLOAT has for numbers too small for it: the server shows it as 0 and
        never accepts it."""
        for t in self.tables:
            for c in t.columns:
                if c.kind.startswith("FLOAT"):
                    yield 0, [f"DELETE FROM {t.sql} WHERE {c.sql}=0 AND ATAN2({c.sql},-1)<0"]

    def fill(self):
        """Yields statements that insert first rows and delete some, so that tables have holes."""
        for t in self.tables:
            made = [self.insert(t) for _ in range(self.rand.randrange(4))]
            if self.rand.random() < 0.4:
                made.append(self.many(t))
            if self.rand.random() < 0.05:
                made.append(self.many(t, 5000))
            if self.rand.random() < 0.3:
                made.append(self.delete(t))
            yield 0, made

    def changes(self, n):
        ways = {self.insert: 20, self.many: 4, self.copy: 4, self.update: 22, self.shift: 3, self.swap: 4,
                self.delete: 9, self.multi: 4, self.truncate: 0.6, self.transaction: 4, self.distributed: 0.7,
                self.locked: 1, self.compound: 3, self.called: 2, self.viewed: 3, self.harmless: 4}
        for _ in range(n):
            made = self.rand.choices(list(ways), list(ways.values()))[0](self.rand.choice(self.tables))
            yield int(self.rand.random() < 0.25), [made] if isinstance(made, str) else made


class Player:
    """Runs changes on the sessions of one world, and records them."""

    def __init__(self, world):
        self.world = world
        self.sessions = []
        self.ran = []  # (session, SQL, number of its error or 0)

    def connect(self):
        self.close()
        for settings in RandomWorld.SESSIONS:
            self.sessions.append(self.world.server.admin(self.world.schema))
            self.sessions[-1].query("SET " + settings)
        return self

    def close(self):
        for con in self.sessions:
            try:
                con.close()
            except pymysql.err.Error:  # the server has ended
                pass
        self.sessions = []

    def run(self, changes, until=None):
        """Runs each change to its end. `until` is an event that stops it after one."""
        for session, statements in changes:
            if until is not None and until.is_set():
                break
            for sql in statements:
                self.one(session, sql)
            if statements and statements[0].startswith("XA START"):  # a failed one must release its locks
                for verb in ("XA END", "XA ROLLBACK"):
                    self.one(session, verb + statements[0][len("XA START"):])
        for con in self.sessions:
            con.query("UNLOCK TABLES")
            con.query("ROLLBACK")

    def one(self, session, sql):
        number = 0
        try:
            with self.sessions[session].cursor() as cur:
                cur.execute(in_its_words(sql))
        except pymysql.err.Error as e:
            number = e.args[0]
            assert number in MAY_FAIL, (e, sql)
        self.ran.append((session, sql, number))
