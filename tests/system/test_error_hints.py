"""Each server error is shown with a cause and a solution, chosen by its number and, if that has several meanings, by its text."""
import struct

import pytest
from wk.keeper import FAILED
from wk.relay import Relay

pytestmark = pytest.mark.any_server

OPTION = "The MariaDB server is running with the --{} option so it cannot execute this statement"
SAID = [(1290, OPTION.format("read-only"), "takes writes"), (1290, OPTION.format("super-read-only"), "takes writes"),
        (1290, OPTION.format("secure-file-priv"), "started with the option"),
        (1290, OPTION.format("skip-grant-tables"), "started with the option"),
        (1290, OPTION.format("sql_mode=NO_ENGINE_SUBSTITUTION"), "enforce_storage_engine"),
        (1114, "The table 'fleet' is full", "max_heap_table_size"),
        (1114, "The table '(temporary)' is full", "tmpdir"),
        (1114, "The table '/tmp/#sql1_2_3' is full", "tmpdir"),
        (1050, "Table 'fleet' already exists", "SHOW FULL TABLES"),
        (1054, "Unknown column 'a' in 'field list'", "SHOW CREATE TABLE"),
        (1273, "Unknown collation: 'utf8mb4_new'", "SHOW COLLATION"),
        (1845, "ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY", "alter_algorithm"),
        (1846, "ALGORITHM=NOCOPY is not supported. Reason: ROW_FORMAT. Try ALGORITHM=COPY", "alter_algorithm")]


@pytest.mark.parametrize("number, text, way", SAID, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(SAID)])
def test_a_refused_statement(keeper, server, number, text, way):
    def say(sql):
        return [b"\xff" + struct.pack("<H", number) + b"#HY000" + text.encode()] if "LOCK TABLES" in sql else None
    with Relay(server, say) as relay:
        keeper.configure({"mysql": relay.settings, "dump": {"method": "lock"}})
        done = keeper.run("--dump")
    hint = done.err.partition("HINT: ")[2]
    assert done.rc == FAILED and f"({number})" in done.err and way in hint, done
    assert ("max_heap_table_size" in hint) == (way == "max_heap_table_size"), done
