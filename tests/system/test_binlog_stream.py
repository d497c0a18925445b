"""The binary log over the replication protocol: each event arrives once and in order, or an error gives the reason."""
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
import zlib

import pymysql
import pytest
from wk.binlog import (CHECKPOINT, FORMAT, GTIDS, HEADER, HEARTBEATS, MIXED, PREVIOUS_GTIDS, RESET,
                       START_ENCRYPTION, events, files, place)
from wk.keeper import BINARY, built
from wk.relay import Wire
from wk.server import LOG_ENCRYPTED, LOG_READER, MYSQL, SERVER_RIGHTS, Server, in_its_words
from wk.util import CANARY, DIE_WITH_US, PATIENCE, end_process, free_port, share, wait_for
from wk.watch import Beside

TOOL = os.path.join(os.path.dirname(BINARY), "tools", "binlog_read")
LOGGED = ["--log-bin=binlog", "--binlog-format=ROW", "--max-allowed-packet=256M",
          "--innodb-buffer-pool-size=64M", *MIXED]
MADE = ["SET max_heap_table_size=1<<30", "DROP DATABASE IF EXISTS w", "CREATE DATABASE w", "USE w",
        "CREATE TABLE m (id INT PRIMARY KEY, t VARCHAR(200)) ENGINE=MEMORY",
        "CREATE TABLE i (id INT PRIMARY KEY, t LONGBLOB) ENGINE=InnoDB"]
MONITOR = SERVER_RIGHTS.rpartition(", ")[2]
TCP = ["DROP USER IF EXISTS tcp@127.0.0.1", "CREATE USER tcp@127.0.0.1",
       f"GRANT {SERVER_RIGHTS} ON *.* TO tcp@127.0.0.1"]
AGAIN = f"--again={PATIENCE * 1000}"


@pytest.fixture(scope="module")
def tool():
    """Builds tools/binlog_read into the build directory of the tested daemon, and returns its path."""
    return built("tools", "binlog_read")


@pytest.fixture(scope="module")
def logged(base):
    """Returns a server with a binary log that no test stops."""
    server = Server(base, *LOGGED).start()
    yield server
    server.destroy()


@pytest.fixture
def make_reader(tool):
    """Returns make_reader(server, place, …) -> Reader. The readers are ended with the test."""
    made = []

    def make(*args, **kw):
        made.append(Reader(*args, **kw))
        return made[-1]
    yield make
    for reader in made:
        reader.end()


class Reader:
    """Runs binlog_read beside the test; `lines` holds its output so far. `silence` is the time in ms after which a server counts
    as stalled; it is long so that a busy server does not."""

    def __init__(self, server, place, *more, port=None, user="root", password=None, silence=60000):
        where = ["--host=127.0.0.1", f"--port={port}"] if port else ["--socket=" + server.socket]
        secret = ["--password=" + password] if password else []
        self.lines = []
        self.process = subprocess.Popen(
            [*DIE_WITH_US, TOOL, *where, "--user=" + user, *secret, "--file=" + place[0],
             f"--pos={place[1]}", *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "WORLDKEEPER_FAULT": f"binlog.silence={silence}"})
        self.thread = threading.Thread(target=self.take, daemon=True)
        self.thread.start()

    def take(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def all(self, timeout=PATIENCE):
        """Waits until the reader has ended and returns all its lines."""
        self.process.wait(timeout)
        self.thread.join()
        return self.lines

    def wait(self, key, n=1):
        """Waits for the n-th line with this key and returns it."""
        def found():
            hits = [x for x in list(self.lines) if key in x]
            return hits[n - 1] if len(hits) >= n else None
        return wait_for(found, lambda: f"{key} of the reader: {self.lines[-3:]}")

    def reach(self, place):
        wait_for(lambda: any(x.get("file") == place[0] and x["pos"] == place[1] for x in list(self.lines)),
                 lambda: f"{place}, now at {self.lines[-1:]}")

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        end_process(self.process)
        self.thread.join()


class Relay(Wire):
    """Relays between a reader and the server's port. Changes one byte of what the server sends after `marker`, and keeps what the
    client sends."""

    def __init__(self, port, marker=None):
        self.marker, self.sent = marker, b""
        super().__init__(port)

    def connected(self):
        def passing(data, back, send):
            if not back:
                self.sent += data
            elif self.marker and self.marker in data:
                at = data.index(self.marker) + len(self.marker)
                data = data[:at] + bytes([data[at] ^ 4]) + data[at + 1:]
            send(data)
        return passing


class Writer(Beside):
    """Makes small changes of both engines without end; continues after the server was away."""

    def __init__(self, server):
        super().__init__()
        self.server, self.n = server, 0

    def work(self):
        while not self.ended.is_set():
            try:
                con = self.server.admin("w")
                with con.cursor() as cur:
                    while not self.ended.is_set():
                        self.n += 1
                        cur.execute(f"REPLACE INTO m VALUES ({self.n % 100}, REPEAT('x', {self.n % 200}))")
                        cur.execute("BEGIN")
                        cur.execute(f"REPLACE INTO i VALUES ({self.n % 50}, REPEAT('y', {self.n % 3000}))")
                        cur.execute(f"REPLACE INTO i VALUES ({self.n % 50 + 50}, 'z')")
                        cur.execute("COMMIT")
            except (pymysql.err.Error, OSError):
                time.sleep(0.05)


def on_disk(server, start=None):
    """Returns (file, position after it, size, type, checksum) of each complete event in the server's files. The checksum of a
    format description is 0, because its bytes say whether the file is open."""
    found = []
    for name in files(server):
        with open(os.path.join(server.datadir, name), "rb") as f:
            data = f.read()
        begins = 4
        for kind, at in events(data):
            found.append((name, at, at - begins, kind, 0 if kind == FORMAT else zlib.adler32(data[begins:at])))
            begins = at
    return [x for x in found if start is None or x[:2] > tuple(start)]


def is_event(line):
    return "name" in line


def is_real(line):
    """Returns whether an event is from a file. An event that the server makes up has no time, or describes how to read
    the file. MariaDB 11.8 omits the positions of events within a transaction."""
    placed = line.get("next") or (line.get("at") and line["type"] not in (FORMAT, START_ENCRYPTION))
    return is_event(line) and placed and line["type"] not in HEARTBEATS


def told(lines):
    """Returns the same tuples from a reader's lines. Transactions that were sent again are removed where the connection was
    cut."""
    found = []
    for x in lines:
        if x.get("again"):
            while found and found[-1][:2] > (x["file"], x["pos"]):
                found.pop()
        elif is_real(x):
            found.append((x["file"], x["pos"], x["size"], x["type"],
                          0 if x["type"] == FORMAT else x["sum"]))
    return found


def assert_exact(lines, server, start):
    """Asserts that each event arrived once and none is missing, except for those that the server has since added on its own."""
    got, disk = told(lines), on_disk(server, start)
    assert got == disk[:len(got)], lines[-1:]
    assert {x[3] for x in disk[len(got):]} <= {CHECKPOINT}, lines[-1:]


def fill(server):
    """Writes transactions of every kind."""
    con = server.admin("w")
    with con.cursor() as cur:
        for sql in ["INSERT INTO m SELECT seq, REPEAT('a', seq % 200) FROM seq_1_to_3000",
                    "UPDATE m SET t='b' WHERE id < 900", "DELETE FROM m WHERE id % 3 = 0",
                    "BEGIN", "INSERT INTO i VALUES (1,'x')", "SAVEPOINT s", "INSERT INTO i VALUES (2,'x')",
                    "ROLLBACK TO SAVEPOINT s", "UPDATE i SET t='xx'", "INSERT INTO m VALUES (0,'mixed')",
                    "COMMIT", "BEGIN", "INSERT INTO i VALUES (9,'gone')", "INSERT INTO m VALUES (90000,'stays')",
                    "ROLLBACK", "CREATE TABLE c ENGINE=MEMORY SELECT * FROM m LIMIT 5",
                    "CREATE TABLE ci ENGINE=InnoDB SELECT * FROM m LIMIT 5",
                    "CREATE TEMPORARY TABLE t (a INT)", "INSERT INTO t VALUES (1)", "DROP TEMPORARY TABLE t",
                    "CREATE TABLE two (a INT AUTO_INCREMENT PRIMARY KEY, r DOUBLE) ENGINE=MEMORY",
                    "UPDATE m, c SET m.t='both', c.t='both' WHERE m.id=c.id",
                    "SET SESSION binlog_format=STATEMENT", "INSERT INTO two (r) VALUES (RAND()), (2)",
                    "SET @v = 5", "INSERT INTO two (r) VALUES (@v)", "DELETE FROM two",
                    "SET SESSION binlog_format=ROW", "TRUNCATE TABLE c",
                    "XA START 'x1'", "INSERT INTO i VALUES (77,'xa')", "XA END 'x1'", "XA PREPARE 'x1'",
                    "XA COMMIT 'x1'", "XA START 'x2'", "INSERT INTO i VALUES (78,'xa')", "XA END 'x2'",
                    "XA COMMIT 'x2' ONE PHASE", "ANALYZE TABLE m", "ALTER TABLE m ADD x INT",
                    "DROP TABLE c, ci, two"]:
            cur.execute(in_its_words(sql))
    con.close()


@pytest.fixture
def filled(logged):
    """Writes three log files and returns the position where they begin."""
    logged.sql("FLUSH BINARY LOGS")
    start = place(logged)
    logged.sql(*MADE)
    fill(logged)
    logged.sql("FLUSH BINARY LOGS", "INSERT INTO w.m (id, t) VALUES (70000, 'next')", "FLUSH BINARY LOGS",
               "FLUSH BINARY LOGS", "DELETE FROM w.m")
    return start


# ---- what is read ----------------------------------------------------------------------------


def test_reads_what_is_in_the_files(logged, filled, make_reader):
    lines = make_reader(logged, (filled[0], 4), "--to-end").all()
    assert lines[-1].get("end"), lines[-1]
    assert_exact(lines, logged, (filled[0], 4))
    assert {x["at"] for x in lines if is_event(x) and not is_real(x) and x["type"] != FORMAT} == {0}


def test_reads_what_the_stock_tool_lists(logged, filled, make_reader):
    got = told(make_reader(logged, (filled[0], 4), "--to-end").all())
    got = [x for x in got if not MYSQL or x[3] not in (*GTIDS, PREVIOUS_GTIDS)]  # the tool omits these
    text = subprocess.run(
        [*LOG_READER, *[os.path.join(logged.datadir, f) for f in files(logged)
                                             if f >= filled[0]]],
        stdout=subprocess.PIPE, check=True).stdout.decode("latin1")
    listed = [int(p) for p in re.findall(r"^#\d{6} [ \d:]{8} server id \d+\s+end_log_pos (\d+)", text, re.M)]
    assert all(said in (at, 0) for said, (_, at, *_) in zip(listed, got))  # MariaDB 11.8: 0 within groups
    assert len(set(listed)) > 20
    assert len(listed) - len(got) < 3


def test_groups_begin_and_end(logged, filled, make_reader):
    """Every transaction begins with its GTID and ends before the next one begins."""
    lines = [x for x in make_reader(logged, filled, "--to-end").all() if is_event(x)]
    open_since, groups = None, 0
    for x in lines:
        if x["type"] in GTIDS:
            assert x["part"] == "begins" and open_since is None, x
            open_since, groups = x["pos"] - x["size"], groups + 1
        elif open_since is None:
            assert x["part"] == "outside", x
        elif x["next"]:
            assert x["part"] in ("within", "ends"), x
        assert x["group"] == (x["pos"] if x["part"] in ("ends", "outside") else open_since), x
        if x["part"] == "ends":
            open_since = None
    assert open_since is None
    assert groups > 20


def begins(lines):
    """Returns the positions where a reader may begin: all of them, or only those outside transactions if events within a
    transaction do not give their position (MariaDB 11.8)."""
    real = [x for x in lines if is_real(x)]
    anywhere = all(x["next"] for x in real)
    return [(x["file"], x["pos"]) for x in real if anywhere or x["part"] in ("ends", "outside")]


def test_every_event_is_a_place_to_begin(logged, filled, make_reader):
    places = begins(make_reader(logged, (filled[0], 4), "--to-end").all())
    assert len(places) > 40
    for start in places[::5]:
        assert_exact(make_reader(logged, start, "--to-end").all(), logged, start)


def test_every_event_of_encrypted_files_is_a_place_to_begin(make_server, make_reader, log_keys):
    """A reader can begin after each event of encrypted files, on MariaDB also after Start_encryption, which is not encrypted
    itself."""
    server = make_server(*LOGGED, *log_keys, LOG_ENCRYPTED + "ON")
    server.sql(*MADE)
    fill(server)
    server.sql("FLUSH BINARY LOGS", "INSERT INTO w.m (id, t) VALUES (70000, 'next')")
    def last_events():
        return server.sql(f"SHOW BINLOG EVENTS IN '{files(server)[-1]}'")
    # MariaDB writes its checkpoint event at a time of its own.
    wait_for(lambda: MYSQL or any(e[2] == "Binlog_checkpoint" and e[5] == files(server)[-1] for e in last_events()),
             "the checkpoint of the new file")
    want = [(f, end, end - pos, kind) for name in files(server)
            for f, pos, kind, _, end, _ in server.sql(f"SHOW BINLOG EVENTS IN '{name}'")]
    first = (files(server)[0], 4)
    places = begins(make_reader(server, first, "--to-end").all())
    for start in [first, *places[:8], *places[8::9]]:
        got = told(make_reader(server, start, "--to-end").all())
        assert [x[:3] for x in got] == [x[:3] for x in want if x[:2] > start], start
    assert len({x[0] for x in want if x[3] == "Start_encryption"}) == (0 if MYSQL else 2)
    raw = open(os.path.join(server.datadir, files(server)[0]), "rb").read()
    assert (b"CREATE TABLE" not in raw) and raw[:4] == (b"\xfdbin" if MYSQL else b"\xfebin"), raw[:4]


def test_follows_rotations(logged, make_reader):
    logged.sql(*MADE)
    start = place(logged)
    reader = make_reader(logged, start)
    for n in range(4):
        logged.sql(f"INSERT INTO w.m VALUES ({n}, 'x')", "FLUSH BINARY LOGS")
    logged.sql("INSERT INTO w.m VALUES (9, 'x')")
    reader.reach(place(logged))
    assert_exact(reader.lines, logged, start)


def test_huge_events(logged, make_reader):
    """Events larger than one and two packets of the protocol are read, although the server's packet limits are smaller."""
    limit = "replica_max_allowed_packet" if MYSQL else "slave_max_allowed_packet"
    logged.sql(*MADE, f"SET GLOBAL {limit}=1024*1024")
    start = place(logged)
    con = logged.admin("w", max_allowed_packet=256 << 20)
    with con.cursor() as cur:
        for n, mib in enumerate((15.9, 16, 17, 33, 50)):
            cur.execute("INSERT INTO i VALUES (%s, REPEAT('h', %s))", (n, int(mib * (1 << 20))))
    con.close()
    logged.sql("SET GLOBAL max_allowed_packet=1024*1024")
    try:
        lines = make_reader(logged, start, "--to-end").all()
    finally:
        logged.sql("SET GLOBAL max_allowed_packet=256*1024*1024",
                   f"SET GLOBAL {limit}=DEFAULT")
    assert_exact(lines, logged, start)
    assert sum(x[2] > 32 << 20 for x in told(lines)) == 2


def test_packets_of_exactly_the_largest_size(logged, make_reader):
    """A packet of 2^24-1 bytes is followed by one more packet, which may be empty."""
    logged.sql(*MADE)
    start = place(logged)
    logged.sql("INSERT INTO w.i VALUES (1, REPEAT('h', 1000))")
    probe = next(x for x in on_disk(logged, start) if x[2] > 1000)
    rest = probe[2] - 1000 + 1  # the event's bytes around its value, and the protocol's first byte
    con = logged.admin("w", max_allowed_packet=256 << 20)
    with con.cursor() as cur:
        for n, size in enumerate(((1 << 24) - 2, (1 << 24) - 1, 1 << 24)):
            cur.execute("INSERT INTO i VALUES (%s, REPEAT('h', %s))", (n + 10, size - rest))
    con.close()
    lines = make_reader(logged, start, "--to-end").all()
    assert_exact(lines, logged, start)
    assert [x[2] for x in told(lines) if x[2] > 1 << 20] == [(1 << 24) - 3, (1 << 24) - 2, (1 << 24) - 1]


@pytest.mark.parametrize("first,second", [("CRC32", "NONE"), ("NONE", "CRC32")])
def test_checksums_turned_on_and_off(logged, make_reader, first, second):
    logged.sql(*MADE, f"SET GLOBAL binlog_checksum={first}")
    try:
        start = place(logged)
        live = make_reader(logged, start, "--heartbeat=200")
        logged.sql("INSERT INTO w.m VALUES (1,'x')", f"SET GLOBAL binlog_checksum={second}",
                   "INSERT INTO w.m VALUES (2,'x')")
        for want in (2, 4):
            wait_for(lambda n=want: sum(x.get("type") in HEARTBEATS for x in list(live.lines)) >= n,
                     lambda: f"heartbeats: {live.lines[-3:]}")
        logged.sql(f"SET GLOBAL binlog_checksum={first}", "INSERT INTO w.m VALUES (3,'x')")
        live.reach(place(logged))
        assert_exact(live.lines, logged, start)
        assert_exact(make_reader(logged, start, "--to-end").all(), logged, start)
    finally:
        logged.sql("SET GLOBAL binlog_checksum=CRC32")


def test_two_readers(logged, make_reader):
    logged.sql(*MADE)
    start = place(logged)
    readers = [make_reader(logged, start) for _ in range(3)]
    with Writer(logged):
        for reader in readers:
            wait_for(lambda r=reader: len(r.lines) > 500, "500 events")
    for reader in readers:
        reader.reach(place(logged))
        assert_exact(reader.lines, logged, start)


# ---- silence ---------------------------------------------------------------------------------


def test_heartbeats_when_idle(logged, make_reader):
    reader = make_reader(logged, place(logged), "--heartbeat=100")
    wait_for(lambda: sum(x.get("type") in HEARTBEATS for x in list(reader.lines)) >= 5,
             lambda: f"heartbeats: {reader.lines[-3:]}")
    assert {x["part"] for x in reader.lines if is_event(x)} == {"outside"}


def test_a_stopped_server_is_stalled(make_server, make_reader):
    server = make_server(*LOGGED)
    reader = make_reader(server, place(server), "--heartbeat=500", silence=3000)
    reader.wait("name", 3)
    server.sigstop()
    try:
        assert reader.all()[-1]["error"] == "stalled"
    finally:
        server.sigcont()


# ---- connections that end --------------------------------------------------------------------


def kill_dumps(server):
    """Kills all sessions that read the log and returns their number."""
    return server.end_sessions(command="Binlog Dump")


def test_a_killed_connection_goes_on(logged, make_reader):
    logged.sql(*MADE)
    start = place(logged)
    reader = make_reader(logged, start, AGAIN)
    with Writer(logged):
        for n in range(1, 6):
            count = len(reader.lines)
            wait_for(lambda c=count: len(reader.lines) > c + 200, "200 events")
            wait_for(lambda: kill_dumps(logged), "a session to kill")
            reader.wait("again", n)
    reader.reach(place(logged))
    assert_exact(reader.lines, logged, start)


def test_a_cut_off_group_comes_again(logged, make_reader):
    """A transaction that was cut off is sent again from its beginning, because a row event needs its table map."""
    logged.sql(*MADE)
    start = place(logged)
    logged.sql("USE w", "INSERT INTO m VALUES (0,'before')",
               "INSERT INTO m SELECT seq, REPEAT('x', 200) FROM seq_1_to_200000")
    reader = make_reader(logged, start, AGAIN, "--to-end", "--pause-at=300")
    reader.wait("paused")
    kill_dumps(logged)  # includes sessions of ended readers, which the server may not have noticed
    reader.go_on()
    lines = reader.all()
    assert lines[-1].get("end"), lines[-1]
    again = [x for x in lines if "again" in x]
    begins = [x["pos"] - x["size"] for x in lines if x.get("part") == "begins"]
    assert [x["again"] for x in again] == [True]
    assert again[0]["pos"] == begins[1] == begins[2]
    assert_exact(lines, logged, start)


def test_an_interrupted_dump_is_not_the_end(logged, make_reader):
    """KILL QUERY makes the server send the end of the log; the reader reports an error instead."""
    logged.sql(*MADE)
    start = place(logged)
    logged.sql("USE w", "INSERT INTO m SELECT seq, REPEAT('x', 200) FROM seq_1_to_200000")
    reader = make_reader(logged, start, "--to-end", "--pause-at=300")
    reader.wait("paused")
    for session in logged.sessions(command="Binlog Dump"):
        with contextlib.suppress(pymysql.err.Error):  # the session of an ended reader may end by itself
            logged.sql(f"KILL QUERY {session.id}")
    reader.go_on()
    assert reader.all()[-1].get("error") == "unreachable"


@pytest.mark.slow
def test_a_killed_server_goes_on(make_server, make_reader):
    """No event arrives twice and none is missing after the server was killed or restarted."""
    server = make_server(*LOGGED)
    server.sql(*MADE)
    start = place(server)
    reader = make_reader(server, start, AGAIN)
    with Writer(server):
        for n in range(1, 4):
            count = len(reader.lines)
            wait_for(lambda c=count: len(reader.lines) > c + 300, "300 events")
            if n == 2:
                server.stop()
                server.start()
            else:
                server.crash()
            reader.wait("again", n)
    reader.reach(place(server))
    assert_exact(reader.lines, server, start)


@pytest.mark.parametrize("event", [-1, -2])
@pytest.mark.parametrize("left", [1, HEADER, -1])
def test_half_an_event(own, make_reader, event, left):
    """If a server was killed while it wrote an event, the reader continues with the next log file."""
    start = place(own)
    own.sql("INSERT INTO w.m VALUES (2,'whole')", "INSERT INTO w.m VALUES (3,'half')")
    file, end, size = on_disk(own)[event][:3]
    own.kill9()
    os.truncate(os.path.join(own.datadir, file), end - (size - left if left > 0 else -left))
    own.start()
    own.sql("INSERT INTO w.m VALUES (4,'later')", "FLUSH BINARY LOGS")
    lines = make_reader(own, start, "--to-end").all()
    assert lines[-1].get("end"), lines[-1]
    assert_exact(lines, own, start)
    assert len({x["file"] for x in lines if is_event(x)}) == 3


def test_more_than_half_an_event(own, make_reader):
    """An event with a wrong length is not an incomplete event: the reader reports a gap instead of skipping what it hides."""
    own.sql("USE w", "INSERT INTO m SELECT seq, REPEAT('x',200) FROM seq_100_to_3100")
    start = place(own)
    own.sql("USE w", "INSERT INTO m VALUES (2,'hides')",
            "INSERT INTO m SELECT seq, REPEAT('x',200) FROM seq_10100_to_13100",
            *(["FLUSH BINARY LOGS"] if MYSQL else []))  # MySQL truncates its last file itself when it starts again
    file, end, size = next(x for x in on_disk(own, start) if x[3] in GTIDS)[:3]
    own.kill9()
    with open(os.path.join(own.datadir, file), "r+b") as f:
        f.seek(end - size + 9)
        f.write(struct.pack("<I", 50 << 20))
    own.start()
    error = refusal(make_reader, own, start)
    assert error["error"] == "gap", error


def test_another_reader_with_our_id(logged, make_reader):
    """The server ends a reader when another one connects with the same server id; our reader connects again with another id."""
    logged.sql(*MADE, *TCP)
    start, relay = place(logged), Relay(logged.port)
    reader = make_reader(logged, start, AGAIN, port=relay.port, user="tcp")
    reader.wait("name", 2)

    def ids():
        return [struct.unpack_from("<I", m.group(0), 11)[0] for m in
                re.finditer(rb"...\x00\x12.{4}\x02\x00.{4}" + start[0].encode(), relay.sent, re.S)]
    first = ids()[0]
    assert first >= 1 << 31
    rival = logged.admin()
    rival._execute_command(0x12, struct.pack("<IHI", start[1], 2, first) + start[0].encode())
    reader.wait("again")
    logged.sql("INSERT INTO w.m VALUES (1,'x')")
    reader.reach(place(logged))
    assert len(ids()) == 2 and ids()[1] != first
    assert_exact(reader.lines, logged, start)
    rival._sock.close()
    relay.stop()


# ---- places that cannot be read on from ------------------------------------------------------


def refusal(make_reader, server, where, *more, **kw):
    last = make_reader(server, where, "--to-end", *more, **kw).all()[-1]
    assert "error" in last, last
    return last


@pytest.fixture
def own(make_server):
    server = make_server(*LOGGED)
    server.sql(*MADE, "INSERT INTO m VALUES (1,'x')")
    return server


def test_a_purged_log_is_a_gap(own, make_reader):
    start = place(own)
    own.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")

    def purged():  # the server keeps files that InnoDB may need after a crash
        own.sql(f"PURGE BINARY LOGS TO '{place(own)[0]}'")
        return start[0] not in files(own)
    wait_for(purged, "the log to be purged")
    error = refusal(make_reader, own, start)
    assert (error["error"], error["num"]) == ("gap", 1236)
    assert "dump" in error["hint"]


def test_a_place_behind_the_log_is_a_gap(own, make_reader):
    file, pos = place(own)
    assert refusal(make_reader, own, (file, pos + 1))["error"] == "gap"
    assert refusal(make_reader, own, (file[:-1] + "9", 4))["error"] == "gap"
    assert refusal(make_reader, own, ("other.000001", 4))["error"] == "gap"
    assert refusal(make_reader, own, (file, 3))["error"] == "gap"
    assert refusal(make_reader, own, (file, pos + (1 << 32)))["error"] == "gap"


@pytest.mark.slow
def test_a_place_within_an_event_is_an_error(own, make_reader):
    file, pos = place(own)
    events = {x[:2] for x in on_disk(own)}
    for at in share([at for at in range(5, pos, 7) if (file, at) not in events], 40):
        lines = make_reader(own, (file, at), "--to-end").all()
        assert lines[-1].get("error") in ("gap", "damaged"), (at, lines[-1])
        assert not told(lines), at


def test_a_reset_log_is_a_gap(own, make_reader):
    """After a reset of the log the new files have the names of the old ones and may have events at the same positions; this is
    reported as a gap."""
    own.sql(RESET, *MADE, "INSERT INTO m VALUES (1,'x')")  # MySQL numbers its statements, and the numbers grow
    start = place(own)
    lines = make_reader(own, start, "--to-end").all()
    born = next(x["born"] for x in lines if x.get("born"))
    assert make_reader(own, start, "--to-end", f"--born={born}").all()[-1].get("end")
    wait_for(lambda: time.time() >= born + 1, "a second in which no log was born yet")
    own.sql(RESET, *MADE, "INSERT INTO m VALUES (1,'y')")
    assert place(own)[0] == start[0]
    assert place(own)[1] >= start[1]
    error = refusal(make_reader, own, start, f"--born={born}")
    assert error["error"] == "gap"
    assert "reset" in error["text"]


@pytest.mark.parametrize("first", [True, False], ids=["first-file", "later-file"])
@pytest.mark.parametrize("rows", [1, 3000], ids=["shorter", "longer"])
def test_a_log_reset_while_it_is_read(own, make_reader, first, rows):
    """If the log is reset while the server sends it, the reader ends with an error and takes no event of the new log. MySQL may
    report an I/O error, which also ends the reader."""
    if not first:
        own.sql("FLUSH BINARY LOGS")
    start = place(own)
    reader = make_reader(own, start, AGAIN, "--heartbeat=100")
    reader.wait("name", 2)
    own.grow_old()
    own.sql("INSERT INTO w.m VALUES (2,'old')")
    reader.reach(place(own))
    before = told(reader.lines)
    own.sql(RESET, "USE w", f"INSERT INTO m SELECT seq, 'new' FROM seq_100_to_{100 + rows}",
            "FLUSH BINARY LOGS", "INSERT INTO w.m VALUES (3,'new')")
    lines = reader.all()
    assert lines[-1]["error"] in ("gap", "damaged", *(["query"] if MYSQL else [])), lines[-1]
    assert {x[3] for x in told(lines)[len(before):]} <= {CHECKPOINT}


def test_an_idle_reader_of_a_log_that_is_reset(own, make_reader):
    start = place(own)
    reader = make_reader(own, start, "--heartbeat=100")
    wait_for(lambda: any(x.get("type") in HEARTBEATS for x in list(reader.lines)), "a heartbeat")
    own.sql(RESET, "INSERT INTO w.m VALUES (3,'new')", "FLUSH BINARY LOGS", "INSERT INTO w.m VALUES (4,'new')")
    lines = reader.all()
    assert lines[-1]["error"] == "gap", lines[-1]
    assert told(lines) == []


def test_a_log_that_is_off(server, make_reader):
    error = refusal(make_reader, server, ("binlog.000001", 4))
    assert error["error"] == "refused"
    assert "log_bin" in error["hint"]


def test_no_rights(logged, make_reader):
    logged.account("poor", ["w"], server_rights=MONITOR)
    error = refusal(make_reader, logged, place(logged), user="poor", password=CANARY)
    assert error["error"] == "denied"
    assert re.fullmatch(r"GRANT REPLICATION SLAVE ON \*\.\* TO `poor`@`.*`;", error["hint"]), error  # the missing GRANT
    logged.sql(error["hint"].replace("`", "'"))
    assert refusal(make_reader, logged, ("log.999999", 4), user="poor", password=CANARY)["error"] != "denied"


def test_no_server(logged, make_reader):
    port = free_port()
    assert refusal(make_reader, logged, place(logged), port=port)["error"] == "unreachable"


def test_a_flipped_bit_is_found(logged, make_reader):
    marker = b"right behind this"
    logged.sql(*MADE, *TCP)
    start = place(logged)
    logged.sql("INSERT INTO w.m VALUES (1,'fine')", f"INSERT INTO w.m VALUES (2,'{marker.decode()} is it')")
    relay = Relay(logged.port, marker)
    lines = make_reader(logged, start, "--to-end", port=relay.port, user="tcp").all()
    assert lines[-1].get("error") == "damaged", lines[-1]
    assert told(lines) == on_disk(logged, start)[:len(told(lines))]
    assert_exact(make_reader(logged, start, "--to-end").all(), logged, start)
    relay.stop()


# ---- can it be read? -------------------------------------------------------------------------


def ability(tool, server, schema="w", user="root", password=None):
    secret = ["--password=" + password] if password else []
    done = subprocess.run([tool, "--socket=" + server.socket, "--user=" + user, *secret, "--ability=" + schema],
                          stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
    found = json.loads(done.stdout)
    return found["reason"], found["hint"]


def test_ability(tool, logged):
    assert ability(tool, logged) == (None, None)
    for name, bad, good in (("binlog_format", "MIXED", "ROW"), ("binlog_format", "STATEMENT", "ROW"),
                            ("binlog_row_image", "MINIMAL", "FULL"), ("binlog_row_image", "NOBLOB", "FULL")):
        logged.sql(f"SET GLOBAL {name}={bad}")
        try:
            reason, hint = ability(tool, logged)
        finally:
            logged.sql(f"SET GLOBAL {name}={good}")
        assert reason.startswith(f"{name} is {bad}: ")
        assert f"{name} = {good}" in hint
    assert ability(tool, logged) == (None, None)


def test_ability_of_an_account(tool, logged):
    logged.account("poor", ["w"], server_rights="")
    reason, hint = ability(tool, logged, user="poor", password=CANARY)
    assert SERVER_RIGHTS in reason
    logged.sql(hint.rstrip(";"))
    assert ability(tool, logged, user="poor", password=CANARY) == (None, None)
    logged.sql(f"REVOKE {MONITOR} ON *.* FROM 'poor'@'localhost'")
    reason, hint = ability(tool, logged, user="poor", password=CANARY)
    assert hint.startswith(f"GRANT {MONITOR} ON *.* TO")


def test_ability_without_a_log(tool, server):
    reason, hint = ability(tool, server)
    assert reason.startswith("log_bin is off")
    assert "log_bin" in hint


@pytest.mark.parametrize("option, name", [("--binlog-do-db=w", "binlog_do_db"),
                                          ("--binlog-ignore-db=other", "binlog_ignore_db")])
def test_ability_with_filters(tool, make_server, option, name):
    """A filter is reported even if it lets the schema's rows through, because a TRUNCATE from another schema is not logged."""
    server = make_server("--log-bin=binlog", "--binlog-format=ROW", option)
    reason, hint = ability(tool, server, "w")
    assert reason.startswith(name + " is set") and name in hint
    server.sql("CREATE DATABASE w", "CREATE TABLE w.t (a INT) ENGINE=MEMORY", "CREATE DATABASE other",
               "USE other", "TRUNCATE TABLE w.t")
    logged = " ".join(str(row) for row in server.sql("SHOW BINLOG EVENTS"))
    assert "TRUNCATE" not in logged  # this is why the filter is reported
