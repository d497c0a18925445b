"""Data of older versions, which tests/tools/old_data.py creates and test_old_data.py reads."""
import os
import tarfile

OLD = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "old")
KEY = "a key of the tests, not of anybody else"  # contents of [dump] hmac_key_file
SCHEMA = "game"
TABLES = [
    "CREATE TABLE player (id INT PRIMARY KEY, nick VARCHAR(20) CHARACTER SET utf8mb4, points BIGINT) ENGINE=MEMORY",
    "CREATE TABLE chat (who INT, what VARCHAR(20)) ENGINE=MEMORY",
    "INSERT INTO player VALUES (1,'egy',10),(2,'kettő',20),(3,'három',30)",
    "INSERT INTO chat VALUES (1,'it''s me'),(1,'it''s me')",
]


def rows(world):
    def text(value):
        return value.decode() if isinstance(value, bytes) else value
    return {table: [[text(v) for v in row] for row in world.sql(f"SELECT * FROM {table} ORDER BY 1,2")]
            for table in ("player", "chat")}


def unpack(name, into):
    with tarfile.open(os.path.join(OLD, name + ".tar.gz")) as tar:
        tar.extractall(into)
