"""Tests that a rogue server cannot write into our memory: an answer that no server gives is refused with one clear line, and
the session ends. A real server answers everything else, through a relay."""
import struct

import pytest

from wk.keeper import DONE
from wk.relay import NULL, Relay, answer, impostor, lenenc, packed, text_row

pytestmark = pytest.mark.third_on_mysql

INVALID = "the server's answer is invalid: "
TABLES = ["TABLE_NAME", "ENGINE", "AUTO_INCREMENT", "TABLE_ROWS", "DATA_LENGTH", "INDEX_LENGTH",
          "MAX_DATA_LENGTH", "AVG_ROW_LENGTH"]
LATE = b"\x0b" + struct.pack("<HBBBBBI", 65535, 255, 255, 255, 255, 255, 0xFFFFFFFF)
LONG_TIME = b"\x0c" + struct.pack("<BIBBBI", 1, 0xFFFFFFFF, 255, 255, 255, 0xFFFFFFFF)


@pytest.fixture
def dumped_through(make_world, make_keeper):
    """Returns dump(statements, say, row), which makes a table and returns the result of --dump through the relay."""
    def dump(*statements, say=None, row=None):
        world = make_world("empty")
        world.sql(*statements)
        keeper = make_keeper(world).init()
        with Relay(world.server, say, row) as relay:
            keeper.configure({"mysql": relay.settings})
            done = keeper.run("--dump")
        assert "Sanitizer" not in done.err and "runtime error" not in done.err, done
        return done
    yield dump


def refused(done, what):
    assert done.rc > DONE and INVALID in done.err and what in done.err, done
    assert "what listens" in done.err, done


def test_what_the_relay_passes_on_is_dumped(dumped_through):
    """A dump through the relay succeeds if it changes nothing; the other tests rely on this."""
    done = dumped_through("CREATE TABLE t (id INT PRIMARY KEY, d DATETIME(6)) ENGINE=MEMORY",
                          "INSERT INTO t VALUES (1,'2024-01-01 00:00:00.5')", row=lambda sql, body: body)
    assert done.rc == DONE, done


def binary_row(*values):
    """Returns a row of a prepared statement; values are as in the protocol, None is NULL."""
    nulls = bytearray((len(values) + 9) // 8)
    for i, v in enumerate(values):
        if v is None:
            nulls[(i + 2) // 8] |= 1 << (i + 2) % 8
    return b"\0" + bytes(nulls) + b"".join(v for v in values if v is not None)


ID = struct.pack("<i", 1)
GREETINGS = {
    "an error that reports progress": b"\xff\xff\xff\x01\x01\x01\0\0\0\x01x",
    "an error of one byte": b"\xff",
    "nothing": b"",
    "a version without an end": b"\x0a" + b"5" * 300,
    "a version alone": b"\x0a5.5.5-10.11.0-MariaDB\0",
    "another protocol": b"\x0b8.0.0\0" + b"\0" * 60,
    "a salt that is cut off": b"\x0a8.0.0\0\1\0\0\0abcdefgh\0\xff\xf7",
}


@pytest.mark.parametrize("what", GREETINGS)
def test_greetings_that_are_none(make_world, make_keeper, what):
    greeting = packed(GREETINGS[what], 0)
    with impostor(lambda con: (con.sendall(greeting), con.recv(65536))) as there:
        done = make_keeper(make_world("empty"), {"mysql": {**there, "tls": "off"}}).run("--dump")
    assert done.rc > DONE and "cannot connect" in done.err, done
    assert "Sanitizer" not in done.err and "signal" not in done.err, done


PREPARED = {  # type of the column, its value, number of such columns
    "a date beyond all dates": ("DATETIME(6)", LATE, 84),
    "a time beyond all times": ("TIME(6)", LONG_TIME, 84),
    "a date of three bytes": ("DATETIME(6)", b"\x03abc", 1),
    "a text of 4 GiB": ("VARCHAR(20)", b"\xfe" + struct.pack("<Q", 1 << 32) + b"x", 1),
    "a text of 2^64 bytes": ("VARCHAR(20)", b"\xfe" + b"\xff" * 8 + b"x", 1),
    "a text that the row ends in": ("VARCHAR(20)", b"\xfc\xff\xffx", 1),
    "SQL where a number is": ("DECIMAL(10,2)", lenenc(b"0) UNION SELECT 1"), 1),
    "no number": ("DOUBLE", struct.pack("<d", float("nan")), 1),
    "more than its columns": ("INT", struct.pack("<i", 1) + b"more", 1),
}


@pytest.mark.parametrize("what", PREPARED)
def test_rows_that_no_server_sends(dumped_through, what):
    kind, value, columns = PREPARED[what]
    names = [f"c{i}" for i in range(columns)]
    done = dumped_through(
        f"CREATE TABLE rogue (id INT PRIMARY KEY, {','.join(f'{n} {kind}' for n in names)}) ENGINE=MEMORY",
        f"INSERT INTO rogue VALUES (1{',NULL' * columns})",
        row=lambda sql, body: binary_row(ID, *[value] * columns) if "c0" in sql or "HANDLER" in sql else body)
    refused(done, "row" if what == "more than its columns" else "column 2 of row 1 is not a value of its type")


ANSWERS = {
    "two columns instead of eight": (["a", "b"], [text_row("x", "MEMORY")], "2 columns instead of 8"),
    "nine columns instead of eight": (TABLES + ["x"], [text_row("x", "MEMORY", *"0000000")],
                                      "9 columns instead of 8"),
    "an empty name": (TABLES, [text_row("", "MEMORY", *"000000")], "column 1 of row 1 is an empty name"),
    "a name that is NULL": (TABLES, [text_row(None, "MEMORY", *"000000")], "column 1 of row 1 is NULL"),
    "a name with a byte 0": (TABLES, [text_row("a\0b", "MEMORY", *"000000")], "with a byte 0"),
    "a name of a megabyte": (TABLES, [text_row("a" * 1000000, "MEMORY", *"000000")], "over 512 bytes"),
    "words where a number is": (TABLES, [text_row("x", "MEMORY", *"000", "many", *"00")],
                                "column 6 of row 1 is not a whole number"),
    "a number of 21 digits": (TABLES, [text_row("x", "MEMORY", *"00", "1" * 21, *"000")],
                              "column 5 of row 1 is not a whole number"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_answers_that_no_server_gives(dumped_through, what):
    names, rows, said = ANSWERS[what]
    done = dumped_through("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY",
                          say=lambda sql: answer(names, rows) if "AVG_ROW_LENGTH" in sql else None)
    refused(done, said)


def test_a_text_of_4_gib_in_an_answer(dumped_through):
    row = b"\xfe" + struct.pack("<Q", 1 << 32) + b"x" + NULL * 7
    done = dumped_through("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY",
                          say=lambda sql: answer(TABLES, [row]) if "AVG_ROW_LENGTH" in sql else None)
    refused(done, "reading rows")  # the client library reports it


def test_ten_million_tables(dumped_through):
    """An answer with ten million rows is refused at a limit, so that not all are stored."""
    row = text_row("x", "MEMORY", *"000000")
    done = dumped_through("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY",
                          say=lambda sql: answer(TABLES, (row for _ in range(10000000)))
                          if "AVG_ROW_LENGTH" in sql else None)
    refused(done, "more than 1000000 rows")


def test_a_statement_that_is_answered_with_rows(dumped_through):
    """A statement that returns no rows but is answered with ten million is refused at the limit."""
    done = dumped_through("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY",
                          say=lambda sql: answer(["x"], (text_row("y" * 100) for _ in range(10000000)))
                          if sql.startswith("SET SESSION") else None)
    refused(done, "more than 1000000 rows")


def test_a_copy_that_never_fits(dumped_through):
    """The limit for a copy grows a few times if the server says that it is full, and then the dump fails."""
    sizes = [text_row(name, "MEMORY", "0", str(1 << 40), str(1 << 50), "0", "0", str(1 << 22))
             for name in ("t", "worldkeeper_sentinel")]
    full = b"\xff" + struct.pack("<H", 1114) + b"#HY000The table is full"
    copies = []

    def say(sql):
        if sql.startswith("CREATE TEMPORARY TABLE"):
            copies.append(sql)
            return iter([full] if len(copies) < 100 else [b"\0\0\0\2\0\0\0"])
        return answer(TABLES, sizes) if "AVG_ROW_LENGTH" in sql else None
    done = dumped_through("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY", say=say)
    assert done.rc > DONE and "The table is full" in done.err, done
    assert 0 < len(copies) < 20
