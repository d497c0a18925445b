"""A loss after definitions changed since the dump: the world is restored automatically. A table
whose rows do not fit its present definition is restored as the dump defines it, and the replaced
definition is kept and named."""
import json
import os

import pytest
from wk.follow import another_server, dump_and_follow
from wk.keeper import DONE
from wk.server import MYSQL

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
NOT_THERE = pytest.mark.only("mariadb", why="MySQL has neither ALTER IGNORE nor partitions of MEMORY tables")

NO_LOG = ["--skip-log-bin"] if MYSQL else []

# name: definition and rows of table t; what is done to it before the loss; whether its rows fit with a log, which contains what
# made them fit.
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

COLUMNS = "id INT PRIMARY KEY, a INT, b INT, v VARCHAR(9) CHARACTER SET latin1, f FLOAT(7,3)"
ROW = (1, 10, 20, "\u00e9", 16.789)
# name of a table with these columns: how it is altered; whether its rows fit then, by the names of their columns
ALTERED = {
    "another_order": ("MODIFY a INT AFTER b", True),
    "digits_first": ("MODIFY f FLOAT(7,3) FIRST", True),
    "exchanged": ("CHANGE a b INT, CHANGE b a INT", True),
    "another_first": ("ADD c INT DEFAULT 7 FIRST", True),
    "wider": ("MODIFY a BIGINT AFTER v", True),
    "last_replaced": ("DROP b, ADD c INT", False),
    "first_replaced": ("DROP a, ADD c INT", False),
    "another_kind": ("MODIFY b VARCHAR(20) FIRST", False),
    "another_charset": ("MODIFY v VARCHAR(9) CHARACTER SET utf8mb4", False),
}


def prepared(make_server, make_world, make_keeper, tables, *options):
    world = make_world("small", make_server(*options))
    world.sql(*tables)
    keeper = make_keeper(world, {"dump": {"shrink_limit": "100%"}}).init()
    keeper.dump()
    return keeper


@pytest.mark.sweep(2)
@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("case", [pytest.param(name, marks=NOT_THERE) if name in ("ignore", "partition") else name
                                  for name in CASES])
def test_the_world_comes_back(make_server, make_world, make_keeper, case, logged):
    """Whatever was done to one table, all others are restored as they were, including the changes that were logged before."""
    tables, change, fits = CASES[case]
    keeper = prepared(make_server, make_world, make_keeper, tables, *(LOG if logged else NO_LOG))
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
        assert f"{entry['statements'][-1]};" in keeper.log().partition("HINT: apply the changes")[2]
    assert "table t" in told["warning"] and told["as_dumped_file"] in told["warning"], told
    with open(os.path.join(keeper.dumps_dir, "history.jsonl"), encoding="utf-8") as f:
        (record,) = [r for r in map(json.loads, f) if r["kind"] == "restore"]
    assert record["as_dumped"] == f"table t ({entry['was']})" and record["as_dumped_file"] == told["as_dumped_file"]
    assert "table t (" in keeper.ok("--history").out


def altered(how="ALTER TABLE {} {}"):
    return [how.format(name, change) for name, (change, _) in ALTERED.items()]


def each_table(*statements):
    return [statement.format(name) for name in ALTERED for statement in statements]


def columns_of(world, name):
    return world.sql(f"SHOW CREATE TABLE {name}")[0][1].partition("\n) ")[0]


def assert_by_name(world, told, was, now, rows, misfits):
    """Asserts that each table has these rows in the columns of these names. It has its present columns, except for misfits: these
    are as they were, and reported."""
    entries = {t["table"]: t for t in told["plan"]}
    for name, (_, fits) in ALTERED.items():
        assert columns_of(world, name) == (was if name in misfits else now)[name], told
        if rows:
            assert world.sql(f"SELECT id,a,b,v,f FROM {name} ORDER BY id") == tuple(rows), (name, told)
        else:
            assert world.sql(f"SELECT COUNT(*) FROM {name}") == ((0,),), (name, told)
        if name != "another_charset":
            assert ("rows were matched by column name" in entries[name].get("why", "")) == (name not in misfits), entries[name]
    assert sorted(t["table"] for t in told.get("as_dumped", ())) == sorted(misfits), told
    for entry in told.get("as_dumped", ()):
        assert entry["was"] == "definition" and entry["why"], entry


@pytest.mark.each_server
@pytest.mark.parametrize("case", ["dumped", "logged", "deleted again", "changed later"])
def test_rows_go_to_the_columns_of_their_names(make_server, make_world, make_keeper, case):
    """The rows of a table whose columns changed are matched by column name, or the table is restored as the dump defines it. It
    does not matter whether rows are in the dump or only in the log, and whether changes follow the ALTER."""
    first = (0, 5, 6, "x", 16.789)
    keeper = prepared(make_server, make_world, make_keeper, [
        *each_table(f"CREATE TABLE {{}} ({COLUMNS}) ENGINE=MEMORY"),
        *(each_table(f"INSERT INTO {{}} (id,a,b,v,f) VALUES {first}") if case == "dumped" else [])], *LOG)
    world = keeper.world
    was = {name: columns_of(world, name) for name in ALTERED}
    world.sql(*each_table(f"INSERT INTO {{}} (id,a,b,v,f) VALUES {ROW}"))
    if case == "deleted again":
        world.sql(*each_table("DELETE FROM {}"))
    world.sql(*altered())
    now = {name: columns_of(world, name) for name in ALTERED}
    if case == "changed later":
        world.sql(*each_table("INSERT INTO {} (id) VALUES (9)"))
    world.server.crash()
    told = keeper.ok("--restore", "--json")
    rows = {"dumped": [first, ROW], "deleted again": []}.get(case, [ROW])
    misfits = {name for name, (_, fits) in ALTERED.items() if not fits and (rows or name == "another_charset")}
    assert_by_name(world, told, was, now, rows, misfits)
    assert ("later changes are skipped" in told["journal"]["gap"]) == (case == "changed later"), told


# name of a further table: its columns and row, and the columns of the table that a game has made on the new server
FRESH = {
    "not_null": ("id INT PRIMARY KEY, n INT", "(1,NULL)", "id INT PRIMARY KEY, n INT NOT NULL AUTO_INCREMENT, KEY (n)"),
    "unique_key": ("id INT PRIMARY KEY, n INT", "(1,2),(2,2)", "id INT PRIMARY KEY, n INT, UNIQUE KEY (n)"),
    "checked": ("id INT PRIMARY KEY, n INT", "(1,2)", "id INT PRIMARY KEY, n INT CHECK (n>5)"),
    "a_key": ("id INT PRIMARY KEY, n INT", "(1,2)", "id INT PRIMARY KEY, n INT, KEY (n)"),
}


@pytest.mark.each_server
def test_a_table_of_the_journal_exists_with_other_columns(make_followed):
    """A table that only the journal has may exist on a new server with other columns. It is treated like a table of the dump."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql(*each_table(f"CREATE TABLE {{}} ({COLUMNS}) ENGINE=MEMORY", f"INSERT INTO {{}} (id,a,b,v,f) VALUES {ROW}"))
    for name, (columns, rows, _) in FRESH.items():
        world.sql(f"CREATE TABLE {name} ({columns}) ENGINE=MEMORY", f"INSERT INTO {name} VALUES {rows}")
    before = world.snapshot()
    was = {name: columns_of(world, name) for name in ALTERED}
    keeper.segments.wait_all()
    keeper.stop()
    another_server(keeper)
    world.sql(*each_table(f"CREATE TABLE {{}} ({COLUMNS}) ENGINE=MEMORY"), *altered(),
              *(f"CREATE TABLE {name} ({columns}) ENGINE=MEMORY" for name, (_, _, columns) in FRESH.items()))
    now = {name: columns_of(world, name) for name in ALTERED}
    there = world.snapshot()["table a_key"]
    told = keeper.ok("--restore", "--json")
    others = {t["table"] for t in told["as_dumped"] if t["table"] in FRESH}
    told["as_dumped"] = [t for t in told["as_dumped"] if t["table"] in ALTERED]
    assert_by_name(world, told, was, now, [ROW], {name for name, (_, fits) in ALTERED.items() if not fits})
    assert others == set(FRESH) - {"a_key"} and told["journal"]["gap"].startswith("its files end at"), told
    after = world.snapshot()
    assert after["table a_key"] == there and all(after[f"rows {name}"] == before[f"rows {name}"] for name in FRESH)
    assert all(after[f"table {name}"] == before[f"table {name}"] for name in others)
    with open(told["as_dumped_file"], encoding="utf-8") as f:
        kept = f.read()
    assert all(now[name] in kept for name in ALTERED if not ALTERED[name][1]), kept


@pytest.mark.parametrize("change", ["DROP COLUMN v", "ADD w INT NOT NULL FIRST"])
def test_a_durable_table_is_replaced_as_a_whole(doomed, victim, change):
    """The rows of a durable table go into a table of the dump's definition, which they fit."""
    doomed.configure({"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    doomed.world.sql("CREATE TABLE durable (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "INSERT INTO durable VALUES (1,7)")
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.sql(f"ALTER TABLE durable {change}")
    victim.crash()
    told = doomed.ok("--restore", "--json")
    doomed.world.assert_is(before)
    assert [t["was"] for t in told["as_dumped"] if t["table"] == "durable"] == ["definition"], told


@pytest.mark.each_server
@pytest.mark.parametrize("was, now", [("TIMESTAMP NULL", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"),
                                      ("INT", "INT NOT NULL AUTO_INCREMENT, ADD KEY (c)")])
def test_a_null_becomes_no_other_value(doomed, victim, was, now):
    """Columns that silently turn NULL into another value do not get the rows: the table is restored as the dump defines it."""
    doomed.world.sql(f"CREATE TABLE n (id INT PRIMARY KEY, c {was}) ENGINE=MEMORY", "INSERT INTO n VALUES (1,NULL)")
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.sql("DELETE FROM n", f"ALTER TABLE n MODIFY c {now}")
    victim.crash()
    assert [t["table"] for t in doomed.ok("--restore", "--json")["as_dumped"]] == ["n"]
    doomed.world.assert_is(before)


def lost_behind_a_view(doomed, victim):
    """Replaces a table by a view of its name, loses the world, and kills a restore right before the RENAME."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.sql("DROP TABLE mark", "CREATE VIEW mark AS SELECT 7 AS seven")
    victim.crash()
    assert doomed.run("--restore", fault="restore.before_rename=kill").rc != DONE
    return before


def view_kept(doomed, before, told):
    now = doomed.world.snapshot()
    kept = [name for name in now if "kept" in name]
    assert {k: v for k, v in now.items() if k not in kept} == before
    assert kept and all(doomed.world.sql(f"SELECT seven FROM `{name.split()[1]}`") == ((7,),) for name in kept)
    assert told["as_dumped"][0]["was"] in ("view", "nothing", "definition")


def test_a_view_and_a_kill_before_the_swap(doomed, victim):
    """A restore after a kill before the swap finds the view still in place and keeps it under another name."""
    before = lost_behind_a_view(doomed, victim)
    view_kept(doomed, before, doomed.ok("--restore", "--json"))


@pytest.mark.only("mariadb", why="a RENAME of MySQL is atomic")
def test_a_view_and_half_a_swap(doomed, victim):
    """A restore after a server crash between the renames of view and table restores the table and keeps the view."""
    before = lost_behind_a_view(doomed, victim)
    doomed.world.sql("RENAME TABLE mark TO worldkeeper_kept_000002_000003")
    victim.crash()
    doomed.ok("--restore")
    now = doomed.world.snapshot()
    assert now.pop("view worldkeeper_kept_000002_000003") and now == before


@pytest.mark.each_server
def test_a_trigger_that_does_not_fit(doomed, victim):
    """A trigger that needs a column which the dump lacks is dropped and its text is saved; a trigger that fits stays."""
    doomed.world.sql("CREATE DEFINER=keeper@localhost TRIGGER stays BEFORE UPDATE ON mark FOR EACH ROW SET NEW.id=NEW.id")
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.sql("ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3, DROP COLUMN v",
                     "CREATE DEFINER=keeper@localhost TRIGGER goes BEFORE INSERT ON mark FOR EACH ROW SET NEW.w=4")
    victim.crash()
    told = doomed.ok("--restore", "--json")
    doomed.world.assert_is(before)
    assert "trigger goes" in told["warning"] and "stays" not in told["warning"], told
    with open(told["as_dumped_file"], encoding="utf-8") as f:
        assert "SET NEW.w=4" in f.read()


def test_a_trigger_whose_name_has_lines(doomed, victim):
    """In the file of replaced definitions, the name of a trigger is on one line of a comment, so that a client that reads the
    file takes no part of it for a command."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.sql("ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3, DROP COLUMN v",
                     "CREATE DEFINER=keeper@localhost TRIGGER `a\n\\! touch it\n` BEFORE INSERT ON mark FOR EACH ROW SET NEW.w=4")
    victim.crash()
    told = doomed.ok("--restore", "--json")
    doomed.world.assert_is(before)
    with open(told["as_dumped_file"], encoding="utf-8") as f:
        kept, _, statement = f.read().partition("CREATE DEFINER")
    assert "-- trigger a?\\! touch it? of table mark, to which it no longer fits: " in kept and "NEW.w=4" in statement, kept


def test_no_room_for_the_file(doomed, victim):
    """Without a file for the replaced definitions the restore fails and replaces nothing."""
    doomed.dump()
    doomed.world.sql("ALTER TABLE mark DROP COLUMN v")
    victim.crash()
    os.mkdir(os.path.join(doomed.dumps_dir, "replaced-000002.sql"))
    done = doomed.run("--restore")
    assert done.rc != DONE and "saving the definitions" in done.err, done
    os.rmdir(os.path.join(doomed.dumps_dir, "replaced-000002.sql"))
    doomed.ok("--restore")
    assert doomed.world.marked() == 1


@pytest.mark.parametrize("logged", [True, False])
def test_every_table_outlives_a_restart_now(make_server, make_world, make_keeper, logged):
    """If all tables now have a durable engine no row is changed after a restart."""
    world = make_world("empty", make_server(*(LOG if logged else NO_LOG)))
    world.sql("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO t VALUES (1)")
    keeper = make_keeper(world).init()
    keeper.dump()
    world.sql("ALTER TABLE t ENGINE=InnoDB", "INSERT INTO t VALUES (2)")
    before = world.snapshot()
    world.server.crash()
    keeper.start()
    world.assert_is(before)


@pytest.mark.only("mariadb", why="MySQL always checks")
def test_a_check_that_is_not_new(make_server, make_world, make_keeper):
    """Rows that a CHECK accepts only in the game's time zone are restored into a table that got a column since the dump. A
    CHECK that is newer than the dump is applied, also if it belongs to a column."""
    world = make_world("small", make_server(*NO_LOG))
    world.sql("SET time_zone='+05:30'",
              *(f"CREATE TABLE {t} (id INT PRIMARY KEY, t TIMESTAMP NULL CHECK (t >= '2026-01-01 00:00:00'), n INT CHECK (n>0), "
                "CHECK (t < '2027-01-01 00:00:00')) ENGINE=MEMORY" for t in ("wider", "narrower", "by_column")),
              *(f"INSERT INTO {t} VALUES (1,'2026-01-01 01:00:00',1),(2,'2026-03-01 01:00:00',9)"
                for t in ("wider", "narrower", "by_column")))
    keeper = make_keeper(world).init()
    keeper.dump()
    world.sql("SET time_zone='+05:30'", "ALTER TABLE wider ADD bonus INT NOT NULL DEFAULT 3",
              "DELETE FROM narrower WHERE n=9", "ALTER TABLE narrower ADD CHECK (n<9)",
              "DELETE FROM by_column WHERE n=9", "ALTER TABLE by_column MODIFY n INT CHECK (n<9)")
    world.server.crash()
    done = keeper.ok("--restore", "--json")
    assert sorted(t["table"] for t in done["as_dumped"]) == ["by_column", "narrower"], done
    assert world.sql("SELECT id,n,bonus FROM wider ORDER BY id") == ((1, 1, 3), (2, 9, 3))
    assert [world.value(f"SELECT COUNT(*) FROM {t}") for t in ("narrower", "by_column")] == [2, 2]
