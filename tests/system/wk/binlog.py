"""The server's own binary log: its name on each kind of server, and its files."""
import struct

from .server import MYSQL

HEADER = 19  # bytes in front of each event
FORMAT, PREVIOUS_GTIDS, CHECKPOINT, START_ENCRYPTION = 15, 35, 161, 164  # types of events
HEARTBEATS = 27, 41
GTIDS = (33, 34, 42) if MYSQL else (162,)
RESET = "RESET BINARY LOGS AND GTIDS" if MYSQL else "RESET MASTER"
STATUS = "SHOW BINARY LOG STATUS" if MYSQL else "SHOW MASTER STATUS"
# A server that lets a transaction change tables of MEMORY and of InnoDB.
MIXED = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"] if MYSQL else []


def place(server):
    """(file, place) of its end."""
    return server.sql(STATUS)[0][:2]


def files(server):
    return [row[0] for row in server.sql("SHOW BINARY LOGS")]


def events(data):
    """(type, place behind it) of each whole event in the bytes of a file."""
    assert data[:4] == b"\xfebin"
    at = 4
    while at + HEADER <= len(data):
        kind, _, size = struct.unpack_from("<BII", data, at + 4)
        at += size
        if at > len(data):
            break  # a killed server had no time for more
        yield kind, at
