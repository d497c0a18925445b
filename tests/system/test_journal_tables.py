"""Tables are created, dropped and altered between two dumps: this ends the changes of that table only, and a table that is in no
dump yet is restored from its creation on."""
import json
import os
import random

import pytest
from wk.binlog import place
from wk.crash import go_on, wait_stopped
from wk.follow import LOG, all_comes_back, crash, dump_and_follow, follower, following, journal, lose_disk
from wk.keeper import REFUSED
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql

SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))
FRESH = "CREATE TABLE fresh (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)) ENGINE=MEMORY"


def read_up(keeper):
    """Waits until the journal has everything that was logged so far."""
    here = place(keeper.server)
    keeper.wait(lambda: (lambda j: (j.get("file") or "", j.get("pos") or 0) >= here)(journal(keeper)), "the journal")


def second(world):
    return world.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ')")


@pytest.fixture(params=["server", "follow"])
def kept(request, make_followed):
    """Returns a keeper that follows, with one dump."""
    keeper = make_followed(settings={"journal": {"mode": request.param}})
    dump_and_follow(keeper)
    return keeper


@pytest.fixture
def undumped(make_followed):
    """Returns a keeper whose supervisor stores no dump after the first."""
    keeper = make_followed()
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    return keeper


# -- tables that no dump has -------------------------------------------------------------------

def test_a_scratch_table_ends_nothing(kept):
    """A scratch table that is created, filled and dropped repeatedly causes no dump, and nothing is lost."""
    world = kept.world
    for n in range(3):
        world.sql("CREATE TABLE scratch (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO scratch VALUES (1),(2)")
        read_up(kept)
        world.mark(n + 2)
        world.sql("DELETE FROM scratch WHERE id=1", "DROP TABLE scratch")
        read_up(kept)
        world.mark(n + 7)
    before = world.snapshot()
    assert len(kept.dumps()) == 1
    told = crash(kept)
    world.assert_is(before)
    assert told["lost"] == "nothing lost" and told["journal"]["whole"], told
    assert "cannot continue" not in kept.log(), kept.log()


@pytest.mark.parametrize("quick", [True, False])
def test_scratch_tables_of_one_name_and_many_forms(kept, quick):
    """Tables of one name with different columns and keys are kept apart; the last one is restored with its rows."""
    world = kept.world
    for key, columns in ("id", "id INT PRIMARY KEY, v INT"), ("v", "id INT, v INT PRIMARY KEY"), ("none", "id INT"):
        world.sql(f"CREATE TABLE scratch ({columns}, kind CHAR(9) DEFAULT '{key}') ENGINE=MEMORY",
                  "INSERT INTO scratch (id) VALUES (5)" if key != "v" else "INSERT INTO scratch (id,v) VALUES (5,6),(5,7)")
        if not quick:
            read_up(kept)
        if key != "none":
            world.sql("DROP TABLE scratch")
        world.mark(5)
    world.sql("INSERT INTO scratch (id) VALUES (5),(6)", "DELETE FROM scratch WHERE id=6")
    read_up(kept)
    before = world.snapshot()
    told = crash(kept)
    world.assert_is(before)
    assert told["lost"] == "nothing lost", told


NEW = {
    "no rows": [FRESH],
    "rows": [FRESH, "INSERT INTO fresh (v) VALUES ('a'),('b'),('c')", "DELETE FROM fresh WHERE v='b'",
             "UPDATE fresh SET v='d' WHERE v='a'", "DELETE FROM fresh WHERE v='c'"],
    "like": ["CREATE TABLE fresh LIKE mark", "INSERT INTO fresh VALUES (7,8)"],
    "moved": [FRESH, "INSERT INTO fresh SELECT id, nick FROM player", "DELETE FROM player"],
    "if not exists": [FRESH.replace("TABLE", "TABLE IF NOT EXISTS"), "INSERT INTO fresh (v) VALUES ('a')",
                      FRESH.replace("TABLE", "TABLE IF NOT EXISTS"), "INSERT INTO fresh (v) VALUES ('b')"],
    "altered before its rows": [FRESH, "ALTER TABLE fresh ADD w INT NOT NULL DEFAULT 3", "INSERT INTO fresh (v) VALUES ('a')"],
    "an index": [FRESH, "INSERT INTO fresh (v) VALUES ('a')", "CREATE INDEX i ON fresh (v)", "INSERT INTO fresh (v) VALUES ('b')"],
    "emptied": [FRESH, "INSERT INTO fresh (v) VALUES ('a'),('b')", "TRUNCATE fresh", "INSERT INTO fresh (v) VALUES ('c')"],
    "a trigger": [FRESH, "CREATE DEFINER=keeper@localhost TRIGGER fresh_t BEFORE INSERT ON fresh FOR EACH ROW SET NEW.v='t'",
                  "INSERT INTO fresh (v) VALUES ('a')"],
    "digits": ["CREATE TABLE fresh (id INT PRIMARY KEY, f FLOAT(7,3)) ENGINE=MEMORY", "INSERT INTO fresh VALUES (1, 16.789)"],
    "a bad name": ["CREATE TABLE `fr``esh ü` (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO `fr``esh ü` VALUES (1)"],
}


def create(keeper, how):
    """Creates the table between two other changes and waits until it can be restored: from the journal, or, if its creation
    cannot be followed, from the dump that this causes."""
    keeper.world.mark(2)
    keeper.world.sql(*NEW[how])
    keeper.world.mark(3)
    read_up(keeper)
    if how in ("like", "altered before its rows", "a bad name"):
        keeper.wait(lambda: len(keeper.dumps()) == 2, "the dump that the creation causes")
        following(keeper)


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_a_table_that_is_created_while_the_tables_are_listed(make_followed, mode):
    """A table may be created after the follower has read the log's end and before it lists the tables. Its creation is read
    later, and the journal continues."""
    keeper = make_followed(settings={"journal": {"mode": mode}})
    keeper.dump()
    keeper.start(fault="journal.listing#2=stop")
    following(keeper)
    world = keeper.world
    world.sql("CREATE TABLE scratch (id INT PRIMARY KEY) ENGINE=MEMORY")  # the tables are listed again
    at_work = wait_stopped(keeper, "journal.listing")
    world.sql(FRESH, "INSERT INTO fresh (v) VALUES ('a')")
    go_on(at_work)
    world.mark(3)
    read_up(keeper)
    before = world.snapshot()
    assert len(keeper.dumps()) == 1 and "cannot continue" not in keeper.log(), keeper.log()
    told = crash(keeper)
    world.assert_is(before)
    assert told["lost"] == "nothing lost" and told["journal"]["whole"], told


@pytest.mark.parametrize("how", NEW)
def test_a_table_that_no_dump_has(kept, how):
    """A table that is in no dump is restored: its definition is on the server and its rows are in the log."""
    world = kept.world
    create(kept, how)
    before = world.snapshot()
    told = crash(kept)
    world.assert_is(before)
    assert told["lost"] == "nothing lost" and told["journal"]["whole"], told


@pytest.mark.parametrize("how", [h for h in NEW if h not in ("altered before its rows", "a trigger")])
def test_a_table_that_no_dump_has_and_the_disk_is_lost(make_followed, how):
    """If the disk is lost, a table that is in no dump is restored from the segments, which also contain its definition."""
    keeper = make_followed()
    dump_and_follow(keeper)
    create(keeper, how)
    told = all_comes_back(keeper)
    assert told["journal"]["gap"].startswith("its files end at") and "table" not in told["journal"]["gap"], told


DEFINED = {
    "an index": "CREATE INDEX i ON fresh (v)",
    "a unique key": "ALTER TABLE fresh ADD UNIQUE KEY u (v)",
    "two": "ALTER TABLE fresh ADD KEY i (v), COMMENT='new'",
    "a counter": "ALTER TABLE fresh AUTO_INCREMENT=700",
    "a default": "ALTER TABLE fresh ALTER COLUMN v SET DEFAULT 'none'",
}


@pytest.mark.parametrize("how", DEFINED)
def test_a_new_table_is_defined_anew_and_the_disk_is_lost(make_followed, how):
    """If a new table is altered, the segments contain its new definition together with its earlier rows, and it is restored after
    the disk is lost."""
    keeper = make_followed()
    dump_and_follow(keeper)
    for statement in (FRESH, "INSERT INTO fresh (v) VALUES ('a'),('b')", DEFINED[how], "INSERT INTO fresh (v) VALUES ('c')"):
        keeper.world.sql(statement)
        read_up(keeper)
    keeper.world.mark(3)
    told = all_comes_back(keeper)
    assert "table" not in told["journal"]["gap"], told


@pytest.mark.parametrize("how", ["rows", "moved", "no rows"])
def test_a_moment_after_a_table_came(kept, how):
    """--at restores a moment after the creation of a table without a dump in between."""
    world = kept.world
    world.mark(2)
    world.sql(*NEW[how])
    read_up(kept)
    before = {k: v for k, v in world.snapshot().items() if "fresh" not in k or k.startswith("rows")}
    moment = second(world)
    wait_for(lambda: second(world) > moment, "the next second")
    world.sql("UPDATE mark SET v=99", "INSERT INTO fresh VALUES (99999, '9')")
    read_up(kept)
    kept.ok("--restore", "--at", moment, "--force")
    now = world.snapshot()
    assert {k: v for k, v in now.items() if k in before} == before


def test_a_moment_before_a_table_was_created_again(make_followed):
    """--at restores a table that is in no dump as the segments define it, also if a table of that name has other columns now."""
    keeper = make_followed()
    world = keeper.world
    dump_and_follow(keeper)
    world.sql("CREATE TABLE fresh (id INT PRIMARY KEY, a INT, b INT) ENGINE=MEMORY", "INSERT INTO fresh VALUES (1,10,20)")
    read_up(keeper)
    was = world.sql("SHOW CREATE TABLE fresh")
    moment = second(world)
    wait_for(lambda: second(world) > moment, "the next second")
    world.sql("DROP TABLE fresh", "CREATE TABLE fresh (id INT PRIMARY KEY, c INT NOT NULL, a INT) ENGINE=MEMORY",
              "INSERT INTO fresh VALUES (1,2,3)")
    read_up(keeper)
    told = keeper.ok("--restore", "--at", moment, "--force", "--json")
    assert world.sql("SHOW CREATE TABLE fresh") == was and world.sql("SELECT * FROM fresh") == ((1, 10, 20),), told
    assert [(t["table"], t["why"]) for t in told["as_dumped"]] == [("fresh", "requested: the table as it was then")]


THREE = "CREATE TABLE fresh (id INT PRIMARY KEY, a INT, b INT) ENGINE=MEMORY"
# what is done to the table after the changes that count; whether its columns are still those of the changes
REDEFINED = {
    "altered": (["ALTER TABLE fresh MODIFY a INT AFTER b"], False),
    "altered in doubtful words": (['ALTER TABLE fresh MODIFY a INT AFTER b, COMMENT "x"'], False),
    "altered behind a comment": (["ALTER /*!50000 TABLE */ fresh MODIFY a INT AFTER b"], False),
    "another order": (["DROP TABLE fresh", "CREATE TABLE fresh (id INT PRIMARY KEY, b INT, a INT) ENGINE=MEMORY"], False),
    "by another statement": (["DROP TABLE fresh", THREE.replace("TABLE", "TABLE IF NOT EXISTS").replace("a INT, b", "b INT, a")], False),
    "replaced": (["CREATE TABLE other (id INT PRIMARY KEY, b INT, a INT) ENGINE=MEMORY", "DROP TABLE fresh",
                  "RENAME TABLE other TO fresh"], False),
    "the same": (["DROP TABLE fresh", THREE], True),
    "an index": (["CREATE INDEX i ON fresh (b)"], True),
    "nothing": ([THREE.replace("TABLE", "TABLE IF NOT EXISTS")], True),
}


@pytest.fixture
def logged(make_server, make_world, make_keeper):
    """Returns a keeper whose server's log alone has a new table with a row."""
    keeper = make_keeper(make_world("small", make_server(*LOG))).init()
    keeper.dump()
    keeper.world.sql(THREE, "INSERT INTO fresh VALUES (1,10,20)")
    return keeper


@pytest.mark.each_server
@pytest.mark.parametrize("how", REDEFINED)
def test_a_new_table_is_defined_anew_after_the_loss(logged, how):
    """The log has no names of columns. If a game changes a new table between the loss and the restore, its rows are reported as
    lost: they would get into other columns."""
    statements, known = REDEFINED[how]
    logged.server.crash()
    logged.world.sql(*statements)
    told = logged.ok("--restore", "--json")
    assert logged.world.sql("SELECT id,a,b FROM fresh") == (((1, 10, 20),) if known else ()), told
    assert (told["lost"] == "nothing lost") == known, told
    assert ("its definition changed later" in told["journal"].get("gap", "")) == (not known), told


@pytest.mark.each_server
@pytest.mark.parametrize("how", REDEFINED)
def test_a_new_table_is_defined_anew_after_the_moment(logged, how):
    """--at refuses a moment before a new table was changed if only the server's log has its rows. A restore meanwhile does not
    matter."""
    statements, known = REDEFINED[how]
    world = logged.world
    created = second(world)
    wait_for(lambda: second(world) > created, "the next second")
    moment = second(world)
    wait_for(lambda: second(world) > moment, "the next second")
    if how in ("altered", "nothing"):
        world.server.crash()
        logged.ok("--restore")
    world.sql("UPDATE mark SET v=99", *statements)
    done = logged.run("--restore", "--at", moment, "--force", "--json")
    if known:
        assert world.sql("SELECT id,a,b FROM fresh") == ((1, 10, 20),) and world.marked() == 1, done
    else:
        assert done.rc == REFUSED and "its definition changed later" in done.json["error"]["text"], done


@pytest.mark.each_server
def test_a_new_table_is_defined_anew_by_what_ends_the_journal(logged):
    """The statement that ends the journal of all tables, because its tables are not certain, defines a new table, too."""
    logged.world.sql(*REDEFINED["altered in doubtful words"][0])
    logged.server.crash()
    told = logged.ok("--restore", "--json")
    assert logged.world.sql("SELECT id,a,b FROM fresh") == () and told["lost"] != "nothing lost", told


@pytest.mark.each_server
def test_a_start_script_makes_a_new_table_again(logged):
    """A game that drops and creates its tables at each start, also before the restore, gets the rows of a new table back."""
    script = ["DROP TABLE IF EXISTS fresh", THREE.replace("TABLE", "TABLE IF NOT EXISTS")]
    logged.world.sql(*script, "INSERT INTO fresh VALUES (2,5,6)")
    logged.server.crash()
    logged.world.sql(*script)
    told = logged.ok("--restore", "--json")
    assert logged.world.sql("SELECT id,a,b FROM fresh") == ((2, 5, 6),) and told["lost"] == "nothing lost", told


@pytest.mark.each_server
@pytest.mark.parametrize("words", ["TABLE", "TABLE IF NOT EXISTS"])
def test_a_new_table_that_was_dropped_before_the_restore(logged, words):
    """Rows of a new table that was dropped before a restore do not come back with a table of that name that is made later."""
    logged.server.crash()
    logged.world.sql("DROP TABLE fresh")
    logged.ok("--restore")
    logged.world.sql(THREE.replace("TABLE", words), "INSERT INTO fresh VALUES (2,5,6)")
    logged.server.crash()
    told = logged.ok("--restore", "--json")
    assert logged.world.sql("SELECT id,a,b FROM fresh") == ((2, 5, 6),) and told["lost"] == "nothing lost", told


@pytest.mark.only("mariadb", why="MySQL renames all tables or none")
def test_a_new_table_and_half_a_swap(logged):
    """The end of a swap that was killed renames a new table, which leaves its columns as they are: its rows come back."""
    logged.server.crash()
    logged.run("--restore", fault="restore.before_rename=kill")
    with open(os.path.join(logged.dumps_dir, "pending.json"), encoding="utf-8") as f:
        order = json.load(f)["tables"]
    old, new = (f"worldkeeper_tmp_{age}_{order.index('fresh'):06}" for age in ("old", "new"))
    logged.world.sql("SET sql_log_bin=0", f"RENAME TABLE fresh TO {old}, {new} TO fresh")
    logged.server.crash()
    told = logged.ok("--restore", "--json")
    assert logged.world.sql("SELECT id,a,b FROM fresh") == ((1, 10, 20),), told


LOST = {
    "altered": [FRESH, "INSERT INTO fresh (v) VALUES ('a')", "ALTER TABLE fresh ADD w INT"],
    "rows without the log": [FRESH, "SET sql_log_bin=0", "INSERT INTO fresh (v) VALUES ('a')", "SET sql_log_bin=1",
                             "UPDATE fresh SET v='b'"],
    "another engine": [FRESH.replace("MEMORY", "InnoDB"), "INSERT INTO fresh (v) VALUES ('a')", "ALTER TABLE fresh ENGINE=MEMORY"],
    "renamed": [FRESH, "INSERT INTO fresh (v) VALUES ('a')", "RENAME TABLE fresh TO renamed"],
    "not logged": ["SET sql_log_bin=0", FRESH, "SET sql_log_bin=1", "INSERT INTO fresh (v) VALUES ('a')"],
}


@pytest.mark.parametrize("how", LOST)
def test_a_table_that_no_dump_has_and_the_log_does_not_have_whole(undumped, how):
    """If the log does not have all rows of a new table, all other tables are restored as of the loss, and its rows are reported
    as lost."""
    world = undumped.world
    world.mark(2)
    world.sql(*LOST[how])
    world.mark(3)
    others = {k: v for k, v in world.snapshot().items() if "fresh" not in k and "renamed" not in k}
    read_up(undumped)
    rows = world.sql("SELECT * FROM fresh") if how == "another engine" else None
    told = crash(undumped)
    now = world.snapshot()
    assert {k: v for k, v in now.items() if "fresh" not in k and "renamed" not in k} == others
    if rows and told["journal"]["whole"]:  # it was already a MEMORY table when it was first seen, so that all rows are known
        assert world.sql("SELECT * FROM fresh") == rows
        return
    assert not told["journal"]["whole"] and told["lost"] != "nothing lost", told
    name = "renamed" if how == "renamed" else "fresh"
    assert f"table {name}, which is in no dump yet, is restored without its rows" in told["journal"]["gap"], told
    assert world.sql(f"SELECT COUNT(*) FROM {name}") == ((0,),)


# -- tables that a dump has --------------------------------------------------------------------

CHANGED = {
    "altered": ["ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3"],
    "column dropped": ["ALTER TABLE mark DROP COLUMN v"],
    "dropped": ["DROP TABLE mark"],
    "renamed": ["RENAME TABLE mark TO mark2"],
    "renamed by alter": ["ALTER TABLE mark RENAME TO mark2"],
    "made again": ["DROP TABLE mark", "CREATE TABLE mark (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO mark VALUES (1,2)"],
    "replaced": ["CREATE TABLE mark_new LIKE mark", "INSERT INTO mark_new SELECT * FROM mark",
                 "RENAME TABLE mark TO mark_old, mark_new TO mark", "DROP TABLE mark_old"],
}


def is_touched(key):
    return key.split()[-1].startswith("mark") or "kept" in key


@pytest.mark.sweep(2)
@pytest.mark.parametrize("how", CHANGED)
@pytest.mark.parametrize("disk", [False, True])
def test_others_go_on_when_one_table_changes(undumped, how, disk):
    """If one table changes, it is restored as of the moment before, skipped changes are named and counted, and all other tables
    continue."""
    world = undumped.world
    world.sql("UPDATE mark SET v=88")
    marked = world.sql("SELECT * FROM mark ORDER BY id")
    world.sql(*CHANGED[how])
    if how in ("altered", "column dropped"):
        world.sql("INSERT INTO mark (id) VALUES (50),(51)", "DELETE FROM mark WHERE id=50")
    world.sql("UPDATE player SET points=points+1", "INSERT INTO chat VALUES (77,'later')")
    others = {k: v for k, v in world.snapshot().items() if not is_touched(k)}
    read_up(undumped)
    undumped.segments.wait_all()
    told = lose_disk(undumped) if disk else crash(undumped)
    now = world.snapshot()
    assert {k: v for k, v in now.items() if not is_touched(k)} == others, told
    assert not told["journal"]["whole"] and told["lost"] != "nothing lost", told
    assert "table mark is restored as of" in told["journal"]["gap"], told
    if how in ("altered", "column dropped"):
        assert "at least 3 later changes are skipped" in told["journal"]["gap"], told
    if how != "made again" or disk:
        columns = "id" if how == "column dropped" and not disk and "as_dumped" not in told else "id, v"
        assert world.sql(f"SELECT {columns} FROM mark ORDER BY id") == tuple(
            row[:1] if columns == "id" else row for row in marked)


# -- tables that come with rows ----------------------------------------------------------------

T = "CREATE TABLE t (id INT PRIMARY KEY, a INT) ENGINE="
MADE = T.replace("TABLE", "TABLE IF NOT EXISTS") + "MEMORY"
DURABLE = [T + "InnoDB", "INSERT INTO t VALUES (1,2)"]
LATER = "INSERT INTO t VALUES (3,4)"

CAME = {
    "another engine": ["ALTER TABLE t ENGINE=MEMORY", LATER],
    "another engine and a column": ["ALTER TABLE t ENGINE=MEMORY, ADD w INT"],
    "hidden by a comment": ["ALTER /*!50000 TABLE */ t COMMENT='`/*', ENGINE=HEAP"],
    "made before": [MADE, "ALTER TABLE t ENGINE=MEMORY", LATER],
    "made before, and a column": [MADE, "ALTER TABLE t ENGINE=MEMORY, ADD w INT"],
    "another name": ["ALTER TABLE t ENGINE=MEMORY", "RENAME TABLE t TO u", "RENAME TABLE u TO t", MADE, LATER],
    "another schema": ["CREATE DATABASE {0}_2", "CREATE TABLE {0}_2.t (id INT PRIMARY KEY) ENGINE=MEMORY",
                       "INSERT INTO {0}_2.t VALUES (1)", "DROP TABLE t", "RENAME TABLE {0}_2.t TO t"],
}


def assert_unknown(told):
    """Asserts that the rows of table t are reported as lost, without a bound: they may be of any age."""
    assert not told["journal"]["whole"] and told["lost"] == "loss unknown", told
    assert "table t, which is in no dump yet, is restored without its rows" in told["journal"]["gap"], told


@pytest.mark.each_server
@pytest.mark.parametrize("how", CAME)
def test_a_table_that_comes_with_rows(make_server, make_world, make_keeper, how):
    """A table of another engine or schema comes into the world with rows that neither dump nor journal has. All other tables
    are restored as of the loss."""
    world = make_world("small", make_server(*LOG))
    world.sql(*DURABLE)
    keeper = make_keeper(world).init()
    keeper.dump()
    world.sql(*(sql.format(world.schema) for sql in CAME[how]))
    world.mark(3)
    others = {k: v for k, v in world.snapshot().items() if k.split()[-1] != "t"}
    keeper.server.crash()
    assert_unknown(keeper.ok("--restore", "--json"))
    assert {k: v for k, v in world.snapshot().items() if k.split()[-1] != "t"} == others
    assert world.sql("SELECT * FROM t") == ()


@pytest.mark.each_server
@pytest.mark.parametrize("mode", ["auto", "follow"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_table_that_became_memory_before_the_start(make_followed, mode, stored):
    """The follower reads later that a table became a MEMORY table, and a dump follows at once. A loss before that dump is
    reported."""
    keeper = make_followed(tables=DURABLE, settings={"journal": {"mode": mode}})
    keeper.dump()
    keeper.world.sql("ALTER TABLE t ENGINE=MEMORY")
    keeper.start(fault=None if stored else "dump.locked=kill")
    if stored:
        keeper.wait(lambda: len(keeper.dumps()) == 2, "the dump at once")
        following(keeper)
    else:
        keeper.wait(lambda: journal(keeper).get("gap"), "the gap")
    keeper.world.sql(LATER)
    before = keeper.world.snapshot()
    read_up(keeper)
    told = crash(keeper)
    if stored:
        keeper.world.assert_is(before)
        assert told["lost"] == "nothing lost", told
    else:
        assert_unknown(told)


@pytest.mark.each_server
def test_a_new_durable_table_that_became_memory(make_followed):
    """A durable table has a column that is named like a table of the world. Segments have the creation of the table, and none of
    its rows."""
    keeper = make_followed()
    dump_and_follow(keeper)
    keeper.world.sql("CREATE TABLE t (id INT PRIMARY KEY, mark INT) ENGINE=InnoDB", "INSERT INTO t VALUES (1,2)")
    keeper.segments.wait_all()
    keeper.stop()
    keeper.world.sql("ALTER TABLE t ENGINE=MEMORY")
    keeper.start(fault="dump.locked=kill")
    keeper.wait(lambda: journal(keeper).get("gap"), "the gap")
    read_up(keeper)
    assert_unknown(crash(keeper))


@pytest.mark.each_server
@pytest.mark.parametrize("how", ["dumped", "created", "created again"])
def test_the_engine_that_a_table_had(kept, how):
    """A statement that gives a MEMORY table its own engine is not a gap, whether a dump has the table or not."""
    world = kept.world
    world.sql(*{"dumped": ["ALTER TABLE mark ENGINE=MEMORY"],
                "created": [T + "MEMORY", LATER, "ALTER TABLE t ENGINE=MEMORY, COMMENT='new'"],
                "created again": [MADE, LATER, MADE]}[how])
    world.mark(5)
    read_up(kept)
    before = world.snapshot()
    told = crash(kept)
    world.assert_is(before)
    assert told["lost"] == "nothing lost" and "cannot continue" not in kept.log(), told


@pytest.mark.each_server
def test_a_table_that_became_durable(undumped):
    """A table of the dump that an ALTER TABLE made durable keeps its rows, and nothing is lost."""
    world = undumped.world
    world.sql("ALTER TABLE mark ENGINE=InnoDB", "INSERT INTO mark VALUES (50,51)")
    world.sql("UPDATE player SET points=points+1")
    before = world.snapshot()
    read_up(undumped)
    told = crash(undumped)
    world.assert_is(before)
    assert told["lost"] == "nothing lost", told


@pytest.mark.each_server
@pytest.mark.parametrize("mode", ["server", "follow"])
def test_a_durable_table_of_the_dump_that_became_memory(make_followed, mode):
    """The server's log has the changes that a durable table of the dump had before it became a MEMORY table. Segments do not,
    which is reported."""
    keeper = make_followed(tables=DURABLE, settings={"journal": {"mode": mode}, "dump": {"engines": "all"}})
    dump_and_follow(keeper)
    keeper.world.sql("UPDATE t SET a=9")
    read_up(keeper)
    keeper.stop()
    keeper.world.sql("ALTER TABLE t ENGINE=MEMORY", LATER)
    keeper.start(fault="dump.locked=kill")
    keeper.wait(lambda: follower(keeper), "a follower")
    keeper.world.mark(3)
    read_up(keeper)
    before = keeper.world.snapshot()
    told = crash(keeper)
    if mode == "server":
        keeper.world.assert_is(before)
        assert told["lost"] == "nothing lost", told
    else:
        assert keeper.world.sql("SELECT * FROM t") == ((1, 2),)
        assert "table t is restored as of" in told["journal"]["gap"] and told["lost"] == "loss unknown", told


# -- a creation that an earlier follower read --------------------------------------------------

@pytest.fixture
def two_followers(make_followed):
    """Returns a keeper whose follower stored a table that is in no dump, with two rows, and ended."""
    keeper = make_followed()
    dump_and_follow(keeper)
    keeper.world.sql(MADE, "INSERT INTO t VALUES (1,10),(2,20)")
    keeper.segments.wait_all()
    keeper.stop()
    return keeper


@pytest.mark.only("mysql", why="MariaDB does not log CREATE TABLE IF NOT EXISTS of a table that exists")
@pytest.mark.parametrize("loss", [crash, lose_disk])
def test_a_table_that_is_made_again_while_no_follower_runs(two_followers, loss):
    """A later follower reads a CREATE TABLE IF NOT EXISTS of a table whose rows are in earlier segments. They are kept."""
    world = two_followers.world
    world.sql(MADE, LATER)
    two_followers.start()
    following(two_followers)
    before = world.snapshot()
    two_followers.segments.wait_all()
    loss(two_followers)
    world.assert_is(before)


@pytest.mark.each_server
@pytest.mark.parametrize("listed", [False, True])
def test_a_table_that_is_dropped_while_no_follower_runs(two_followers, listed):
    """Its earlier rows do not return, whether it is created again before or after the next follower begins."""
    world = two_followers.world
    world.sql("DROP TABLE t", *([MADE] if listed else []))
    two_followers.start()
    following(two_followers)
    world.sql(MADE, LATER)
    read_up(two_followers)
    all_comes_back(two_followers)
