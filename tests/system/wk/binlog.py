"""The server's own binary log: its name on each kind of server, and its files."""
import struct

from .server import MYSQL

HEADER = 19  # bytes before each event
FORMAT, PREVIOUS_GTIDS, CHECKPOINT, START_ENCRYPTION = 15, 35, 161, 164  # event types
HEARTBEATS = 27, 41
GTIDS = (33, 34, 42) if MYSQL else (162,)
RESET = "RESET BINARY LOGS AND GTIDS" if MYSQL else "RESET MASTER"
STATUS = "SHOW BINARY LOG STATUS" if MYSQL else "SHOW MASTER STATUS"
# Options of a server that lets a transaction change MEMORY and InnoDB tables.
MIXED = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"] if MYSQL else []


def place(server):
    """Returns (file, position) of the end of the log."""
    return server.sql(STATUS)[0][:2]


def files(server):
    return [row[0] for row in server.sql("SHOW BINARY LOGS")]


def events(data):
    """Yields (type, position after it) of each complete event in a file's bytes."""
    assert data[:4] == b"\xfebin"
    at = 4
    while at + HEADER <= len(data):
        kind, _, size = struct.unpack_from("<BII", data, at + 4)
        at += size
        if at > len(data):
            break  # a killed server wrote only a part of it
        yield kind, at
