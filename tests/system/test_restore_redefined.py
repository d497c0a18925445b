"""A loss after definitions changed since the dump: the world comes back by itself. A table whose rows do not fit its
present definition is as the dump defines it, and what stood in its place is kept and named."""
import json
import os

import pytest
from wk.server import MYSQL

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
NOT_THERE = pytest.mark.only("mariadb", why="MySQL has neither ALTER IGNORE nor partitions of MEMORY tables")

# name: definition and rows of table t; what is done to it before the loss; True: with a log its rows fit all the same,
# since the log has what made them fit.
CASES = {
    "ignore": (["CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=MEMORY", "INSERT INTO t VALUES (1,7),(2,7),(3,8)"],
               ["ALTER IGNORE TABLE t ADD UNIQUE KEY one (n)"], False),
    "unique": (["CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=MEMORY", "INSERT INTO t VALUES (1,7),(2,7),(3,8)"],
               ["DELETE FROM t WHERE id=2", "ALTER TABLE t ADD UNIQUE KEY one (n)"], True),
    "not null": (["CREATE TABLE t (id INT PRIMARY KEY, n INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1,7),(2,NULL)"],
                 ["UPDATE t SET n=0 WHERE n IS NULL", "ALTER TABLE t MODIFY n INT NOT NULL"], True),
    "partition": (["CREATE TABLE t (id INT NOT NULL, n INT) ENGINE=MEMORY PARTITION BY LIST (id) (PARTITION p1 VALUES IN "
                   "(1,2), PARTITION p2 VALUES IN (3,4))", "INSERT INTO t VALUES (1,7),(3,8)"],
                  ["ALTER TABLE t DROP PARTITION p2"], False),
    "column": (["CREATE TABLE t (id INT PRIMARY KEY, n INT, gone VARCHAR(20) DEFAULT 'x') ENGINE=MEMORY",
                "INSERT INTO t VALUES (1,7,'a'),(2,8,'b')"], ["ALTER TABLE t DROP COLUMN gone"], False),
    "max_rows": (["CREATE TABLE t (id INT PRIMARY KEY, n CHAR(200)) ENGINE=MEMORY",
                  "INSERT INTO t SELECT seq, 'x' FROM seq_1_to_20000"],
                 ["DELETE FROM t WHERE id>10", "ALTER TABLE t MAX_ROWS=10"], True),
    "view": (["CREATE TABLE t (id INT PRIMARY KEY, n INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1,7)"],
             ["DROP TABLE t", "CREATE VIEW t AS SELECT 1 AS id, 2 AS n"], False),
    "enum": (["CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b') NOT NULL) ENGINE=MEMORY", "INSERT INTO t VALUES (1,'a'),(2,'b')"],
             ["ALTER TABLE t MODIFY e ENUM('zero','b','a') NOT NULL"], False),
}


def prepared(make_server, make_world, make_keeper, tables, *options):
    world = make_world("small", make_server(*options))
    world.sql(*tables)
    keeper = make_keeper(world, {"dump": {"shrink_limit": "100%"}}).init()
    keeper.dump()
    return keeper


@pytest.mark.each_server
@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("case", [pytest.param(name, marks=NOT_THERE) if name in ("ignore", "partition") else name
                                  for name in CASES])
def test_the_world_comes_back(make_server, make_world, make_keeper, case, logged):
    """Whatever was done to one table, all others are as they were, the changes that were logged before it included."""
    tables, change, fits = CASES[case]
    keeper = prepared(make_server, make_world, make_keeper, tables, *(LOG if logged else ["--skip-log-bin"] if MYSQL else []))
    world, dumped = keeper.world, keeper.world.snapshot()
    if logged:
        world.mark(5)
    others = {k: v for k, v in world.snapshot().items() if k.split()[-1] != "t"}
    world.sql(*change)
    present = world.snapshot()
    world.server.crash()
    keeper.start()
    now = world.snapshot()
    assert {k: v for k, v in now.items() if k.split()[-1] != "t" and "kept" not in k} == others
    told = keeper.expect("the restore", last_restore=lambda r: r and r["ok"])["last_restore"]
    if logged and fits:
        assert {k: v for k, v in now.items() if k.split()[-1] == "t"} == {
            k: v for k, v in present.items() if k.split()[-1] == "t"}
        assert "as_dumped" not in told, told
        return
    assert now["rows t"] == dumped["rows t"] and now["table t"] == dumped["table t"], now
    (entry,) = told["as_dumped"]
    assert entry["table"] == "t" and entry["was"] == ("view" if case == "view" else "definition"), entry
    with open(told["as_dumped_file"], encoding="utf-8") as f:
        kept = f.read()
    if case == "view":
        assert world.sql(f"SELECT * FROM `{entry['kept']}`") == ((1, 2),)
        assert entry["kept"] in kept
    else:
        assert present["table t"].splitlines()[1].strip(" ,") in kept
    if logged:
        assert change[-1 if case != "view" else 0].split()[0] in "".join(entry["statements"])
        assert all(s in kept for s in entry["statements"])
    assert "table t" in told["warning"] and told["as_dumped_file"] in told["warning"], told
    with open(os.path.join(keeper.dumps_dir, "history.jsonl"), encoding="utf-8") as f:
        (record,) = [r for r in map(json.loads, f) if r["kind"] == "restore"]
    assert record["as_dumped"] == f"table t ({entry['was']})" and record["as_dumped_file"] == told["as_dumped_file"]
    assert "table t (" in keeper.ok("--history").out
