#!/usr/bin/env python3
"""Records seeds for tests/fuzz/fuzz_server.c: its client with a real server behind a relay.

    make SAN=1 build/san/replay/server && tests/tools/record_server.py [directory]

WK_KIND names the kind of server (tests/system/README.md); the files go to tests/fuzz/corpus/server."""
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../system"))
from wk.relay import Relay  # noqa: E402
from wk.server import KIND, MYSQL, Server  # noqa: E402

CLIENT = os.path.join(HERE, "../../build/san/replay/server")
DEEDS = ("prepared text handler copies tables definitions facts account infile login log").split()
READ = (b"\x03SELECT", b"\x03SHOW", b"\x03HANDLER worldkeeper_scan READ", b"\x03LOAD", b"\x12", b"\x16", b"\x17")
LARGEST, MOST = 32767, 9000  # of a packet, of a file
INET = "INET6" if not MYSQL else "VARCHAR(40)"
SCHEMA = [
    "CREATE DATABASE fuzz",
    "CREATE TABLE fuzz.all_types (c0 INT, c1 BIGINT UNSIGNED ZEROFILL, c2 DECIMAL(10,2), c3 DOUBLE, c4 FLOAT, "
    "c5 ENUM('a','b,c'), c6 SET('x','y'), c7 BIT(9), c8 DATETIME(6), c9 TIME(3), c10 DATE, c11 TIMESTAMP NULL, "
    f"c12 YEAR, c13 VARCHAR(20), c14 VARBINARY(9), c15 {INET}, c16 CHAR(3)) ENGINE=MEMORY",
    "INSERT INTO fuzz.all_types VALUES (-1,42,-1.5,1e300,0.1,'b,c','x,y',b'101','2024-02-03 04:05:06.789',"
    "'-838:59:59','2024-02-03','2024-02-03 04:05:06',2024,'it''s','\\0x','::1','abc')",
    "INSERT INTO fuzz.all_types (c0) VALUES (7)",
    "CREATE TABLE fuzz.k (a INT AUTO_INCREMENT, b CHAR(5), PRIMARY KEY (a, b)) ENGINE=MEMORY",
    "CREATE TABLE fuzz.worldkeeper (id INT PRIMARY KEY, nonce CHAR(32), generation BIGINT UNSIGNED, dump TEXT)",
    "INSERT INTO fuzz.worldkeeper VALUES (1,'abc',3,'')",
    "CREATE TABLE fuzz.worldkeeper_lease (id INT PRIMARY KEY, generation BIGINT UNSIGNED, holder CHAR(9), taken DATE)",
    "INSERT INTO fuzz.worldkeeper_lease VALUES (1,3,'x','2024-01-01')",
    "CREATE TRIGGER fuzz.tr BEFORE INSERT ON fuzz.k FOR EACH ROW SET NEW.b = 'x'",
    "CREATE VIEW fuzz.v AS SELECT a FROM fuzz.k",
    "CREATE FUNCTION fuzz.f() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE EVENT fuzz.e ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
    "CREATE USER keeper@localhost IDENTIFIED BY 'secret'",
    "GRANT ALL ON *.* TO keeper@localhost",
]


def seed(first, session):
    """Returns the seed of one session in the format that the target reads: the answers to the statements that the target
    sends."""
    out = bytearray([first])
    for n, (asked, packets) in enumerate(session):
        if first % 128 == DEEDS.index("login") or asked.startswith(READ):
            for i, body in enumerate(packets):
                mark = len(body[:LARGEST]) | (0x8000 if i == len(packets) - 1 else 0)
                out += struct.pack("<H", mark) + body[:LARGEST]
    return bytes(out[:MOST])


def main(to):
    os.makedirs(to, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="record-") as base:
        os.chmod(base, 0o755)
        server = Server(base, "--log-bin=binlog", "--server-id=1", "--binlog-format=ROW").start()
        try:
            server.sql(*SCHEMA)
            for i, deed in enumerate(DEEDS):
                kept, path = [], os.path.join(base, f"r{i}")
                first = i + (128 if MYSQL else 0)
                what = os.path.join(base, "deed")
                with open(what, "wb") as f:
                    f.write(bytes([first]))
                with Relay(server, keep=kept, path=path):
                    subprocess.run([CLIENT, what], env=dict(os.environ, FUZZ_SERVER=path), check=True)
                with open(os.path.join(to, f"{KIND}-{deed}"), "wb") as f:
                    f.write(seed(first, kept[0] if kept else []))
        finally:
            server.destroy()


main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../fuzz/corpus/server"))
