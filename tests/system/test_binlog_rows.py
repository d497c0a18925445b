"""Rows of the binary log: the rows decoded from a real server's log files must equal the rows that are read from the same
tables."""
import collections
import glob
import json
import os
import random
import re
import struct
import subprocess
import uuid

import pytest
from wk import binlog, zoo
from wk.keeper import BINARY, built
from wk.server import MYSQL, Server, version
from wk.util import ident
from wk.zoo import q

TOOL = os.path.join(os.path.dirname(BINARY), "tools", "row_images")
LOGGING = ("--log-bin=log", "--binlog-format=ROW", *binlog.MIXED)
METADATA = ("MINIMAL", "FULL") if MYSQL else ("NO_LOG", "MINIMAL", "FULL")


@pytest.fixture(scope="module", autouse=True)
def tool():
    """Builds tools/row_images into the build directory of the tested daemon."""
    built("tools", "row_images")


@pytest.fixture(scope="module")
def logging_server(base):
    server = Server(base, *LOGGING).start()
    yield server
    server.destroy()


class Logged:
    """One schema on a server whose binary log contains nothing else."""

    def __init__(self, server, schema="w"):
        self.server, self.schema = server, schema
        server.sql(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}", binlog.RESET)

    def sql(self, *statements):
        return self.server.sql(*statements, schema=self.schema)

    def tool(self, *args, error=None):
        done = subprocess.run([TOOL, "--socket", self.server.socket, "--schema", self.schema, *args],
                              capture_output=True, timeout=300)
        said = done.stderr.decode("utf-8", "replace")
        if error:
            assert done.returncode == 1 and re.search(error, said), said
        else:
            assert done.returncode == 0, said
        return done.stdout.split(b"\n")[:-1], said

    def logs(self):
        self.server.sql("FLUSH BINARY LOGS")
        return sorted(glob.glob(os.path.join(self.server.datadir, "log." + 6 * "[0-9]")))[:-1]

    def changes(self):
        return [line for log in self.logs() for line in self.tool("--log", log)[0]]

    def folded(self):
        """Returns the rows that remain after all changes. No row may be deleted that was not inserted before."""
        rows = collections.Counter()
        for line in self.changes():
            table, sign, row = line.split(b" ", 2)
            rows[table, row] += 1 if sign == b"+" else -1
            assert rows[table, row] >= 0, line
        return +rows

    def read(self, how):
        return collections.Counter(tuple(line.split(b" + ", 1)) for line in self.tool("--read", how)[0])

    def check(self):
        """Compares the log with the tables and returns the number of rows."""
        text, binary, log = self.read("text"), self.read("binary"), self.folded()
        differ = [(sorted((log - text).items())[:3], sorted((text - log).items())[:3])]
        assert log == text, f"in the log only, in the tables only: {differ}"
        assert binary == text
        return sum(text.values())


@pytest.fixture
def logged(logging_server):
    logging_server.sql(f"SET GLOBAL binlog_row_metadata={METADATA[0]}", "SET GLOBAL binlog_checksum=CRC32")
    return Logged(logging_server)


def tables(logged):
    return [t for (t,) in logged.server.sql(
        f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA='{logged.schema}' "
        "AND ENGINE='MEMORY'")]


def change_everything(logged, columns=("id",)):
    """Gives each row a new key, then deletes every second row."""
    for name in tables(logged):
        have = [c for (c,) in logged.server.sql(
            "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE "
            f"TABLE_SCHEMA='{logged.schema}' AND TABLE_NAME={q(name)}")]
        if "id" not in have:
            continue
        logged.sql(*([] if MYSQL else ["SET SESSION check_constraint_checks=0"]),
                   f"UPDATE {ident(name)} SET id=id+60 ORDER BY id DESC",
                   f"DELETE FROM {ident(name)} WHERE id%2=0")


# ---- every type ----

@pytest.mark.each_server
@pytest.mark.parametrize("metadata", METADATA)
def test_zoo(logged, metadata):
    logged.server.sql(f"SET GLOBAL binlog_row_metadata={metadata}")
    logged.sql(*zoo.memory_zoo())
    assert logged.check() > 300
    change_everything(logged)
    logged.check()


def test_without_checksums(logged):
    logged.server.sql("SET GLOBAL binlog_checksum=NONE")
    logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)) ENGINE=MEMORY",
               "INSERT INTO t VALUES (1,'x'),(2,NULL)", "DELETE FROM t WHERE id=1")
    assert logged.check() == 1


TOP = 8 if MYSQL else 9  # the last second that can have a fraction
EDGES = {
    "DATE": ["0000-00-00", "1000-01-01", "9999-12-31", "2024-02-30", "2024-00-00"],
    "TIME({})": ["00:00:00", "-00:00:01", f"838:59:5{TOP}.999999", f"-838:59:5{TOP}.999999", "-00:00:00.1",
                 "00:00:00.000001", "-00:00:00.000001", "12:34:56.789012", "-12:34:56.999999",
                 "-01:00:00", "-100:00:00.5", "-00:00:59.123456"],
    "DATETIME({})": ["0000-00-00 00:00:00", "0001-01-01 00:00:00.5", "9999-12-31 23:59:59.999999",
                     "2024-02-31 12:34:56.789012", "2024-11-00 00:00:00", "1000-01-01 00:00:00.000001"],
    "TIMESTAMP({})": ["0000-00-00 00:00:00", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999",
                      "2024-02-29 23:59:59.5", "2000-02-29 00:00:00", "2001-01-01 00:00:00.123456",
                      "1972-12-31 23:59:59.999999", "1970-01-01 00:00:00.5"],
    "YEAR": ["0", "1901", "2155", "2000", "1999"],
}
if not MYSQL:
    EDGES["YEAR(2)"] = ["0", "1970", "2069", "2000", "1999"]


def times(logged, name):
    for i, (kind, values) in enumerate(EDGES.items()):
        if "{}" not in kind:
            columns, width = [f"v {kind} NULL"], 1
        else:
            columns, width = [f"v{d} {kind.format(d)} NULL" for d in range(7)], 7
        rows = [[n, *[f"'{v}'"] * width] for n, v in enumerate(values)]
        logged.sql(*zoo.table(f"{name}{i}", ["id INT PRIMARY KEY", *columns],
                              [*rows, [99, *["NULL"] * width]]))


def test_times(logged):
    """Temporal columns are decoded with every number of fractional digits."""
    times(logged, "t")
    assert logged.check() >= 30
    change_everything(logged)
    logged.check()


@pytest.mark.only("mariadb", why="MySQL has but one form")
def test_times_in_the_old_form(logged):
    """Temporal columns are decoded with every number of fractional digits in MariaDB's own format, next to that of MySQL 5.6."""
    times(logged, "new")
    logged.server.sql("SET GLOBAL mysql56_temporal_format=OFF")
    try:
        times(logged, "old")
        assert logged.check() > 80
        change_everything(logged)
        logged.check()
    finally:
        logged.server.sql("SET GLOBAL mysql56_temporal_format=ON")
    change_everything(logged)  # the tables keep the format they were created with
    logged.check()


def test_years_of_days(logged):
    """A TIMESTAMP of each day from 1970 to 2038 is decoded correctly."""
    logged.sql("CREATE TABLE t (a TIMESTAMP NULL, b TIMESTAMP(3) NULL) ENGINE=MEMORY",
               "INSERT INTO t SELECT FROM_UNIXTIME(1+seq*86399), FROM_UNIXTIME(1.5+seq*86399) "
               "FROM seq_0_to_24855")
    assert logged.check() == 24856


def test_floats(logged):
    """A FLOAT is decoded with its exact value, not with the six digits that a server shows."""
    rng = random.Random(1)
    rows = []
    while len(rows) < 2000:
        f, = struct.unpack("<f", rng.randbytes(4))
        d, = struct.unpack("<d", rng.randbytes(8))
        if f - f == 0 and d - d == 0:
            rows.append([repr(f), repr(d)])
    logged.sql(*zoo.table("t", ["f FLOAT", "d DOUBLE"], rows))
    assert logged.check() == 2000


def test_invisible(logged):
    logged.sql("CREATE TABLE t (a INT, h INT INVISIBLE DEFAULT 5, n INT NOT NULL) ENGINE=MEMORY",
               "INSERT INTO t (a,n) VALUES (1,2),(NULL,3)", "INSERT INTO t (a,n,h) VALUES (7,8,NULL)",
               "UPDATE t SET n=9 WHERE a=1", "DELETE FROM t WHERE a IS NULL")
    assert logged.check() == 2


@pytest.mark.only("mariadb", why="a type of its own")
def test_uuids_of_all_versions(logged):
    if version() < (10, 7):
        return
    rng = random.Random(2)
    values = [str(uuid.UUID(bytes=rng.randbytes(16))) for _ in range(3000)]
    for i in range(256):  # these bytes decide how a UUID is stored
        for j in (0, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xff):
            b = bytearray(rng.randbytes(16))
            b[6], b[8] = i, j
            values.append(str(uuid.UUID(bytes=bytes(b))))
    logged.sql(*zoo.table("t", ["u UUID"], [[q(v)] for v in values]))
    logged.check()


@pytest.mark.only("mariadb", why="types of its own")
def test_addresses(logged):
    rng = random.Random(3)
    rows = []
    for _ in range(3000):
        words = [rng.choice((0, 0, 0, 1, 0xffff, rng.randrange(65536))) for _ in range(8)]
        rows.append([q(":".join(f"{w:x}" for w in words)),
                     q(".".join(str(rng.choice((0, 255, rng.randrange(256)))) for _ in range(4)))])
    if version() >= (10, 10):
        logged.sql(*zoo.table("t", ["s INET6", "f INET4"], rows))
    else:
        logged.sql(*zoo.table("t", ["s INET6"], [row[:1] for row in rows]))
    assert logged.check() == 3000


def test_long_chars(logged):
    """The decoder reads a CHAR of more than 255 bytes, whose type holds two bits of its length."""
    kinds = [f"c{n}_{m} CHAR({n}) CHARACTER SET {c}" for n in (0, 1, 63, 64, 65, 85, 86, 127, 128, 191, 192, 255)
             for m, c in ((1, "latin1"), (3, "utf8mb3"), (4, "utf8mb4"))]
    rows = [["''"] * len(kinds), ["NULL"] * len(kinds), [q("x")] * len(kinds),
            [q("é" * 255)] * len(kinds), [q(" y  ")] * len(kinds)]
    logged.sql(*zoo.table("t", kinds, rows))
    assert logged.check() == 5


# ---- events ----

@pytest.mark.only("mysql", why="MariaDB compresses single events")
def test_compressed_transactions_are_told(logged):
    """Compressed transactions are counted as unreadable, although some contain no rows of MEMORY tables."""
    logged.sql("CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MEMORY",
               "CREATE TABLE i (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB",
               "SET SESSION binlog_transaction_compression=ON",
               "INSERT INTO i SELECT seq, REPEAT('a',200) FROM seq_1_to_50", "INSERT INTO m SELECT * FROM i",
               "BEGIN", "UPDATE i SET v='b'", "COMMIT", "INSERT INTO i VALUES (99,'x')")
    said = json.loads(logged.tool("--log", logged.logs()[0])[1])
    assert said["unreadable"] == 3, said
    assert logged.check() == 50


@pytest.mark.only("mysql", why="MariaDB logs whole rows")
def test_partial_updates(logged):
    """With PARTIAL_JSON, MySQL logs some updates as differences, also ones that change no JSON. Rows of MEMORY tables are still
    decoded."""
    logged.sql("CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MEMORY",
               "CREATE TABLE j (id INT PRIMARY KEY, v JSON, w JSON) ENGINE=InnoDB",
               "SET SESSION binlog_row_value_options=PARTIAL_JSON",
               "INSERT INTO m VALUES (1,'a'),(2,NULL),(3,'c')", "UPDATE m SET v=CONCAT(v,'x'), id=id+10",
               """INSERT INTO j VALUES (11,'{"a":1,"b":"long long"}',NULL)""",
               "UPDATE j SET v=JSON_SET(v,'$.a',2)", "UPDATE m SET v='' WHERE v IS NULL",
               "UPDATE j, m SET j.v=JSON_REMOVE(j.v,'$.b'), j.w=j.v, m.v='both' WHERE j.id=m.id")
    log = logged.logs()[0]
    with open(log, "rb") as f:
        assert 39 in [kind for kind, _ in binlog.events(f.read())]
    assert json.loads(logged.tool("--log", log)[1])["unreadable"] == 0
    assert logged.check() == 3



def test_many_rows_in_one_statement(logged):
    logged.sql("SET max_heap_table_size=1<<28",
               "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MEMORY",
               "INSERT INTO t SELECT seq, REPEAT(CHAR(65+seq%26), seq%200) FROM seq_1_to_30000",
               "UPDATE t SET v=CONCAT('-',v)", "DELETE FROM t WHERE id%3=0")
    assert logged.check() == 20000


def test_several_tables_in_one_statement(logged):
    logged.sql("CREATE TABLE a (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "CREATE TABLE b LIKE a",
               "CREATE TABLE c (v VARCHAR(20)) ENGINE=MEMORY",
               "CREATE TRIGGER after_a AFTER UPDATE ON a FOR EACH ROW INSERT INTO c VALUES (CONCAT(OLD.v,'a'))",
               "CREATE TRIGGER before_b BEFORE DELETE ON b FOR EACH ROW INSERT INTO c VALUES (CONCAT(OLD.v,'b'))",
               "INSERT INTO a VALUES (1,1),(2,2)", "INSERT INTO b VALUES (1,5)",
               "UPDATE a, b SET a.v=7, b.v=8 WHERE a.id=b.id", "DELETE a, b FROM a JOIN b USING (id)",
               "REPLACE INTO a VALUES (2,9)", "INSERT INTO a VALUES (2,3) ON DUPLICATE KEY UPDATE v=4")
    logged.check()


def test_rows_outlive_transactions(logged):
    """Rows of a MEMORY table remain after a rollback and are logged outside the transaction."""
    logged.sql("CREATE TABLE m (id INT) ENGINE=MEMORY", "CREATE TABLE i (id INT PRIMARY KEY) ENGINE=InnoDB",
               "XA START 'a'", "INSERT INTO i VALUES (1)", "INSERT INTO m VALUES (1)",
               "UPDATE m, i SET m.id=2, i.id=5", "XA END 'a'", "XA PREPARE 'a'", "XA ROLLBACK 'a'",
               "START TRANSACTION", "INSERT INTO i VALUES (2)", "INSERT INTO m VALUES (3)", "ROLLBACK")
    assert logged.check() == 2


def test_wide_table(logged):
    """A table with more columns than a byte can count is decoded; all bits of its column bitmaps are used."""
    rng = random.Random(4)
    rows = [[rng.choice(("NULL", rng.randrange(100))) for _ in range(300)] for _ in range(50)]
    logged.sql(*zoo.table("t", [f"c{i} INT" for i in range(300)], rows),
               "UPDATE t SET c7=1, c299=NULL", "DELETE FROM t WHERE c3 IS NULL")
    logged.check()


def test_row_image_not_full(logged):
    logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1,1)")
    logged.sql("SET SESSION binlog_row_image=MINIMAL", "UPDATE t SET v=2")
    logged.tool("--log", logged.logs()[0], error="refused: .*column v is missing in a changed row")


def test_row_image_noblob(logged):
    """binlog_row_image=NOBLOB omits no column of a MEMORY table, because a MEMORY table has no BLOB."""
    logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=MEMORY",
               "SET SESSION binlog_row_image=NOBLOB", "INSERT INTO t VALUES (1,1),(2,2)",
               "UPDATE t SET v=2", "DELETE FROM t WHERE id=1")
    assert logged.check() == 1


@pytest.mark.parametrize("change,said", [
    ("ADD COLUMN x INT", "has 3 columns now, but had 2"),
    ("MODIFY v BIGINT", r"column v is bigint(\(20\))? now, but was INT"),
    ("MODIFY v VARCHAR(9)", r"column v is varchar\(9\) now, but was INT"),
])
def test_changed_table(logged, change, said):
    logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1,1)",
               f"ALTER TABLE t {change}")
    logged.tool("--log", logged.logs()[0], error="changed: .*" + said)


@pytest.mark.parametrize("change,said", [
    ("MODIFY v INT UNSIGNED", "column v was signed"),
    ("CHANGE v w INT", "column w was called v"),
])
def test_changed_table_told_in_full(logged, change, said):
    logged.server.sql("SET GLOBAL binlog_row_metadata=FULL")
    logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1,1)",
               f"ALTER TABLE t {change}")
    logged.tool("--log", logged.logs()[0], error="changed: .*" + said)


@pytest.mark.only("mariadb", why="MySQL compresses whole transactions")
def test_compressed_events_are_read(logged):
    logged.server.sql("SET GLOBAL log_bin_compress=ON", "SET GLOBAL log_bin_compress_min_len=10")
    try:
        logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MEMORY",
                   "INSERT INTO t SELECT seq, REPEAT('a',200) FROM seq_1_to_500", "UPDATE t SET v=REPEAT('b',199)",
                   "DELETE FROM t WHERE id>7")
        said = json.loads(logged.tool("--log", logged.logs()[0])[1])
    finally:
        logged.server.sql("SET GLOBAL log_bin_compress=OFF")
    assert said["unreadable"] == 0 and said["rows"] >= 1493, said


def test_cut_and_flipped_files(logged, tmp):
    """Any flipped bit in a file with checksums is reported as damage."""
    logged.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)) ENGINE=MEMORY",
               "INSERT INTO t VALUES (1,'x'),(2,NULL)", "UPDATE t SET v='y'")
    with open(logged.logs()[0], "rb") as f:
        whole = f.read()
    rng, path = random.Random(5), os.path.join(tmp, "log")
    for _ in range(60):
        bad = bytearray(whole)
        at = rng.randrange(4, len(bad))
        if at == 4 + 17:
            continue  # this byte holds the flag of an open file
        bad[at] ^= 1 << rng.randrange(8)
        with open(path, "wb") as f:
            f.write(bad)
        logged.tool("--log", path, error="damaged: ")


# ---- anything ----

def text_of(rng, charset, most):
    alphabets = {"latin1": bytes(range(256)).decode("latin1"), "cp1251": "Привет№ abc'\\\"\n\0",
                 "ujis": "日本語ソ能 abc'\\", "utf8mb4": "aé★𝄞Ő'\\\"\n\r\0\x1a %", "ascii": "abc '\\"}
    text = "".join(rng.choice(alphabets[charset]) for _ in range(rng.randrange(most + 1)))
    code = {"ujis": "euc_jp", "utf8mb4": "utf8"}.get(charset, charset)
    return f"_{charset} x'{text.encode(code).hex()}'"


def number_of(rng, bits, unsigned):
    low, high = (0, 2 ** bits - 1) if unsigned else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
    return rng.choice((low, high, 0, 1, low + 1, rng.randint(low, high), rng.randint(0, 100)))


def real_of(rng, code, size):
    while True:
        value, = struct.unpack(code, rng.randbytes(size))
        if value - value == 0:
            return rng.choice((repr(value), "0", "-0e0", "0.1", str(rng.randrange(10 ** 6) / 100)))


def column(rng):
    """Returns a random column type and a function that generates values of it."""
    kind = rng.choice(("int", "int", "int", "real", "decimal", "bit", "year", "date", "time", "datetime",
                       "timestamp", "char", "varchar", "binary", "varbinary", "enum", "set",
                       *(() if MYSQL else ("inet6", "packed")), *(() if MYSQL or version() < (10, 10) else ("uuid", "inet4"))))
    digits = rng.randrange(7)
    if kind == "int":
        name, bits = rng.choice((("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32),
                                 ("BIGINT", 64)))
        sign = rng.choice(("", " UNSIGNED", " ZEROFILL", f"({rng.randrange(1, 60)}) ZEROFILL"))
        return name + sign, lambda: number_of(rng, bits, sign)
    if kind == "real":
        name, code, size = rng.choice((("FLOAT", "<f", 4), ("DOUBLE", "<d", 8)))
        return name + rng.choice(("", "(12,3)", " ZEROFILL")), lambda: real_of(rng, code, size)
    if kind == "decimal":
        precision = rng.randrange(1, 66)
        scale = rng.randrange(min(precision, 30 if MYSQL else 38) + 1)
        whole = precision - scale
        return (f"DECIMAL({precision},{scale})" + rng.choice(("", " UNSIGNED", " ZEROFILL")),
                lambda: rng.choice(("", "-")) + str(rng.randrange(10 ** rng.randrange(whole + 1))) + "."
                + "".join(rng.choice("0123456789") for _ in range(scale)) + "0")
    if kind == "bit":
        bits = rng.randrange(1, 65)
        return f"BIT({bits})", lambda: rng.choice((0, 1, 2 ** bits - 1, rng.getrandbits(bits)))
    if kind == "year":
        return "YEAR", lambda: rng.choice((0, 1901, 2155, rng.randrange(1901, 2156)))
    if kind == "date":
        return "DATE", lambda: (f"'{rng.randrange(10000):04}-{rng.randrange(13):02}-{rng.randrange(32):02}'")
    clock = lambda: (f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}"
                     f".{rng.choice((0, 1, 999999, rng.randrange(10 ** 6))):06}")
    if kind == "time":
        return f"TIME({digits})", lambda: (f"'{rng.choice(('', '-'))}{rng.choice((0, rng.randrange(839)))}"
                                           f":{clock()[3:]}'")
    if kind == "datetime":
        return f"DATETIME({digits})", lambda: (f"'{rng.randrange(10000):04}-{rng.randrange(13):02}-"
                                               f"{rng.randrange(32):02} {clock()}'")
    if kind == "timestamp":
        return f"TIMESTAMP({digits})", lambda: f"FROM_UNIXTIME({rng.randrange(1, 2 ** 31)}.{clock()[9:]})"
    if kind in ("char", "varchar", "packed"):
        charset = rng.choice(("latin1", "cp1251", "ujis", "utf8mb4", "ascii"))
        most = rng.choice((0, 1, 9, 64, 255)) if kind == "char" else rng.choice((1, 9, 63, 64, 255, 256, 500))
        end = f" CHARACTER SET {charset}"
        name = f"CHAR({most})" if kind == "char" else f"VARCHAR({most})"
        return name + (" COMPRESSED" if kind == "packed" else "") + end, lambda: text_of(rng, charset, most)
    if kind in ("binary", "varbinary"):
        most = rng.choice((1, 4, 16, 255)) if kind == "binary" else rng.choice((1, 16, 255, 256, 400))
        return (f"{kind}({most})",
                lambda: "x'" + (rng.randbytes(rng.randrange(most + 1)) + b"\0" * rng.randrange(3))[:most].hex()
                + "'")
    if kind in ("enum", "set"):
        count = rng.choice((1, 2, 8, 9, 16, 17, 24, 25, 33, 64)) if kind == "set" else rng.choice((1, 3, 255, 256))
        members = ",".join(f"'m{i}'" for i in range(count))
        top = 2 ** count if kind == "set" else count + 1
        return f"{kind}({members})", lambda: rng.randrange(0 if kind == "set" else 1, top)
    if kind == "uuid":
        return "UUID", lambda: q(str(uuid.UUID(bytes=rng.randbytes(16))))
    if kind == "inet4":
        return "INET4", lambda: q(".".join(str(b) for b in rng.randbytes(4)))
    return "INET6", lambda: q(":".join(f"{rng.choice((0, rng.randrange(65536))):x}" for _ in range(8)))


def random_table(rng, name):
    columns = [column(rng) for _ in range(rng.randrange(1, 30))]
    made = [f"c{i} {kind}{rng.choice((' NOT NULL', ' NULL', ' NULL'))}" for i, (kind, _) in enumerate(columns)]
    made = [m + (" DEFAULT 0" if "TIMESTAMP" in m and "NOT" in m else "") for m in made]

    def row():
        return ["NULL" if " NULL" in m and "NOT" not in m and rng.random() < 0.2 else value()
                for m, (_, value) in zip(made, columns)]
    yield from zoo.table(name, ["id INT", *made], [[n, *row()] for n in range(rng.randrange(1, 40))])
    for _ in range(5):
        i = rng.randrange(len(columns))
        yield f"UPDATE {name} SET c{i}={columns[i][1]()} WHERE id%{rng.randrange(1, 5)}=0"
        yield f"DELETE FROM {name} WHERE id={rng.randrange(40)}"
    yield f"INSERT INTO {name} SELECT * FROM {name} WHERE id%2=0"


def test_random_tables(logged):
    seed = int(os.environ.get("WK_SEED", random.randrange(2 ** 32)))
    print(f"WK_SEED={seed}")
    rng = random.Random(seed)
    con = logged.server.admin(logged.schema)
    with con.cursor() as cur:
        for i in range(60):
            if not MYSQL:
                cur.execute("SET GLOBAL mysql56_temporal_format=" + rng.choice(("ON", "OFF")))
            cur.execute("SET GLOBAL binlog_row_metadata=" + rng.choice(METADATA))
            for statement in random_table(rng, f"t{i}"):
                cur.execute(statement)
    con.close()
    assert logged.check() > 100
