"""Tests of restores over tables that changed, other users' triggers, servers with unusual settings, and half-finished RENAMEs."""
import json
import os
import subprocess

import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, FAILED, REFUSED
from wk.server import MYSQL, as_mysql, stock_restore

pytestmark = pytest.mark.either_server

DEFINER_RIGHT = "SET_ANY_DEFINER" if MYSQL else "SET USER"
SHORT = "max_execution_time=1" if MYSQL else "max_statement_time=0.001"
READ_ONLY = "transaction_read_only=1" if MYSQL else "tx_read_only=1"


def crashed_again(keeper, victim, change):
    """Makes a dump, changes the tables, and crashes the server."""
    keeper.dump()
    keeper.world.sql(change)
    victim.crash()


@pytest.fixture
def half_renamed(doomed, victim):
    """Returns the keeper of a server that died inside the RENAME: `player` was swapped, `fleet` has only its old name."""
    doomed.world.sql("CREATE DEFINER=keeper@localhost TRIGGER watch BEFORE INSERT ON fleet FOR EACH ROW SET NEW.x = 1",
                     "CREATE DEFINER=keeper@localhost TRIGGER look BEFORE INSERT ON player FOR EACH ROW SET NEW.points = 1")
    doomed.dump()
    doomed.before = doomed.world.snapshot()
    victim.crash()
    assert doomed.run("--restore", fault="restore.before_rename=kill").rc != DONE
    with open(os.path.join(doomed.dumps_dir, "pending.json")) as f:
        order = json.load(f)["tables"]
    old, new = "worldkeeper_tmp_old_%06d", "worldkeeper_tmp_new_%06d"
    player, fleet = order.index("player"), order.index("fleet")
    doomed.world.sql(f"RENAME TABLE player TO {old % player}, {new % player} TO player",
                     f"RENAME TABLE fleet TO {old % fleet}")
    victim.crash()
    return doomed


def test_half_a_rename_is_undone(half_renamed):
    """After a half-finished RENAME no table stays without its name, no trigger is lost, and the restore succeeds."""
    half_renamed.ok("--restore")
    half_renamed.world.assert_is(half_renamed.before)


def test_half_a_rename_of_the_sentinel(doomed, victim):
    """A sentinel that was renamed away without a new one in its place means that the world was lost, and it is restored
    automatically."""
    doomed.dump()
    before = doomed.world.snapshot()
    victim.crash()
    assert doomed.run("--restore", fault="restore.before_rename=kill").rc != DONE
    doomed.world.sql("RENAME TABLE worldkeeper_sentinel TO worldkeeper_tmp_old_sentinel")
    victim.crash()
    doomed.start()
    doomed.world.assert_is(before)


def test_triggers_keep_their_order_through_a_kill(doomed, victim):
    """A restore that was killed while it moved the first of three triggers of one event is repeated, and the trigger is the
    first again."""
    mine = ("CREATE DEFINER=keeper@localhost TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW "
            "SET NEW.points=NEW.points%s")
    doomed.world.sql(*(mine % (name, "player", does) for name, does in (("c", "+1"), ("a", "*2"), ("b", "+5"))))
    doomed.dump()
    before = doomed.world.snapshot()
    victim.crash()
    assert doomed.run("--restore", fault="restore.before_rename=kill").rc != DONE
    with open(os.path.join(doomed.dumps_dir, "pending.json")) as f:
        shadow = "worldkeeper_tmp_new_%06d" % json.load(f)["tables"].index("player")
    doomed.world.sql("DROP TRIGGER c", mine % ("c", shadow, "+1"))
    doomed.ok("--restore")
    doomed.world.assert_is(before)


@pytest.mark.only("mariadb", why="UPDATE OF", since=(11, 8))
@pytest.mark.parametrize("way", ["moved", "killed", "rebuilt", "by a stock client"])
def test_triggers_of_updates_of_columns(doomed, victim, way):
    """A trigger that fires at updates of certain columns keeps these columns, however its table is restored: with the trigger
    moved to the new table, put back after a kill, or created from the dump."""
    world = doomed.world
    mine = ("/*!50003 CREATE DEFINER=keeper@localhost TRIGGER %s AFTER UPDATE OF %s FOR EACH ROW "
            "INSERT INTO fired VALUES ('%s') */")
    world.sql("ALTER TABLE mark ADD `a``OR` INT, ADD `é` INT", "CREATE TABLE fired (t CHAR(9)) ENGINE=InnoDB",
              mine % ("one", "`a``OR` ON mark", "one"), "SET sql_mode='ANSI_QUOTES'",
              mine % (f'{world.schema} . "two" /* UPDATE ON x */', f'id,\n"é" -- INSERT\n ON {world.schema}.mark', "two"))
    doomed.dump()
    victim.crash()
    if way == "killed":
        assert doomed.run("--restore", fault="restore.before_rename=kill").rc != DONE
        world.sql("DROP TRIGGER one", "DROP TRIGGER two")
        victim.crash()
    if way == "rebuilt":
        world.sql("DROP TABLE mark")
    if way == "by a stock client":
        world.sql("DROP TABLE mark")
        stock_restore(victim, doomed.path(doomed.newest()), world.schema)
    else:
        doomed.ok("--restore", *(["--with-code"] if way == "rebuilt" else []))
    for column, fired in (("v", ()), ("`a``OR`", (("one",),)), ("é", (("two",),))):
        world.sql("DELETE FROM fired", f"UPDATE mark SET {column}=7")
        assert world.sql("SELECT t FROM fired") == fired, column


def as_dumped(done, before, now):
    """Asserts that the table `mark` alone is as the dump defines it, and that the result says so."""
    assert [t["table"] for t in done["as_dumped"]] == ["mark"] and done["as_dumped_file"] in done["warning"], done
    assert before == now


def test_enum_with_other_numbers(doomed, victim):
    """ENUM values are dumped by number. If members were inserted in front the table is restored as the dump defines it."""
    doomed.world.sql("ALTER TABLE mark ADD e ENUM('a','b') NOT NULL DEFAULT 'b'")
    before = doomed.world.snapshot()
    crashed_again(doomed, victim, "ALTER TABLE mark MODIFY e ENUM('zero','a','b') NOT NULL DEFAULT 'b'")
    as_dumped(doomed.ok("--restore", "--json"), before, doomed.world.snapshot())


def test_enum_that_grew_at_its_end_is_restored(doomed, victim):
    """New members at the end of an ENUM do not prevent the restore of the rows."""
    doomed.world.sql("ALTER TABLE mark ADD e ENUM('a','b') NOT NULL DEFAULT 'b'")
    crashed_again(doomed, victim, "ALTER TABLE mark MODIFY e ENUM('a','b','c') NOT NULL DEFAULT 'b'")
    doomed.ok("--restore")
    assert doomed.world.sql("SELECT v, e FROM mark") == ((1, "b"),)


def test_a_widened_column_takes_its_rows(doomed, victim):
    """Rows are restored into a column that became wider."""
    doomed.world.sql("ALTER TABLE mark ADD d DECIMAL(5,2) NOT NULL DEFAULT 1.50")
    crashed_again(doomed, victim, "ALTER TABLE mark MODIFY d DECIMAL(8,4) NOT NULL")
    doomed.ok("--restore")
    assert doomed.world.value("SELECT d = 1.5 FROM mark") == 1


@pytest.mark.parametrize("change", ["ADD COLUMN fresh INT NOT NULL DEFAULT 7", "ADD INDEX later (points)", "ENGINE=InnoDB"])
@pytest.mark.parametrize("point", ["restore.loaded", "restore.conflict_saved"])
def test_a_table_that_is_altered_meanwhile(doomed, victim, change, point):
    """A table that is altered during a restore makes it fail and keeps its new definition; the next restore uses it."""
    doomed.dump()
    before = doomed.world.checksums()
    victim.crash()
    process = doomed.popen("--restore", fault=point + "=stop")
    pids = wait_stopped(doomed, point)
    doomed.world.sql("SELECT COUNT(*) FROM player", "ALTER TABLE player " + change)
    altered = doomed.world.value("SELECT COUNT(*) FROM player")
    made = doomed.world.sql("SHOW CREATE TABLE player")
    go_on(pids)
    done = doomed.finish(process)
    assert done.rc != DONE and "table player was altered" in done.err, done
    assert doomed.world.sql("SHOW CREATE TABLE player") == made and altered == 0
    doomed.start()
    assert doomed.world.checksums()["fleet"] == before["fleet"]
    assert doomed.world.rows() == (0 if "InnoDB" in change else 2000)
    if "COLUMN" in change:
        assert doomed.world.value("SELECT SUM(fresh) FROM player") == 7 * 2000


def test_a_narrowed_column(doomed, victim):
    """Values that no longer fit a column are not truncated: the table is restored as the dump defines it."""
    doomed.world.sql("ALTER TABLE mark ADD d DECIMAL(8,4) NOT NULL DEFAULT 1.2345")
    before = doomed.world.snapshot()
    crashed_again(doomed, victim, "ALTER TABLE mark MODIFY d DECIMAL(5,2) NOT NULL")
    as_dumped(doomed.ok("--restore", "--json"), before, doomed.world.snapshot())


def test_a_trigger_of_another_definer_is_not_lost(doomed, victim):
    """Without the privilege to create a trigger again the restore is refused, and the trigger stays."""
    doomed.world.sql("CREATE DEFINER=root@localhost TRIGGER watch BEFORE INSERT ON mark "
                     "FOR EACH ROW SET NEW.v = 7")
    doomed.dump()
    victim.crash()
    for _ in range(2):
        done = doomed.run("--restore")
        assert done.rc != DONE and "trigger watch" in done.err and DEFINER_RIGHT in done.err, done
        assert doomed.world.value("SELECT COUNT(*) FROM information_schema.triggers WHERE "
                                  "trigger_schema=DATABASE() AND event_object_table='mark'") == 1
    doomed.world.sql("DROP TRIGGER watch")
    doomed.ok("--restore")
    assert doomed.world.rows() == 2000


@pytest.mark.parametrize("was, now, fits", [("utf8mb4", "latin1", False), ("latin1", "utf8mb4", False),
                                            ("utf8mb3", "utf8mb4", True), ("latin1", "latin1", True)])
def test_texts_in_another_character_set(doomed, victim, was, now, fits):
    """Texts are dumped as bytes, which would be other letters under another character set. Such a table is restored as the
    dump defines it."""
    column = "nick VARCHAR(40) CHARACTER SET %s NOT NULL"
    doomed.world.sql(f"ALTER TABLE player MODIFY {column % was}")
    crashed_again(doomed, victim, f"ALTER TABLE player MODIFY {column % now} COMMENT 'CHARACTER SET x'")
    done = doomed.ok("--restore", "--json")
    assert ("column nick of table player" in str(done.get("as_dumped"))) == (not fits), done
    assert doomed.world.value("SELECT nick FROM player WHERE id=7") == "játékos 7"


def test_triggers_of_a_table_that_was_dropped(keeper):
    """A dropped table is restored with its triggers in their order if --with-code is given; otherwise they are named. A
    trigger of the same name on another table stays."""
    mine = "CREATE DEFINER=keeper@localhost TRIGGER "
    keeper.world.sql(*(f"{mine}{name} BEFORE INSERT ON {table} FOR EACH ROW SET NEW.{column}={value}"
                       for name, table, column, value in (("z", "player", "points", "NEW.points+1"),
                                                          ("`a``b`", "player", "points", "NEW.points*2"),
                                                          ("seen", "mark", "v", "9"))))
    before = keeper.world.snapshot()
    keeper.dump()
    again = "--restore=" + keeper.newest()["name"]
    keeper.world.sql("DROP TABLE player")
    left = keeper.ok(again, "--force", "--json")
    assert left["definitions"]["left_out"] == ["trigger z", "trigger a`b"] and "--with-code" in left["warning"], left
    keeper.world.sql("DROP TABLE player")
    assert "warning" not in keeper.ok(again, "--force", "--with-code", "--json")
    keeper.world.assert_is(before)
    keeper.world.sql("DROP TABLE player", "DROP TRIGGER seen",
                     mine + "z AFTER INSERT ON chat FOR EACH ROW DO 0")
    assert "not restored" in keeper.ok(again, "--table", "player", "--force", "--with-code", "--json")["warning"]
    assert keeper.world.sql("SELECT trigger_name, event_object_table FROM information_schema.triggers WHERE "
                            "trigger_schema=DATABASE() ORDER BY 1") == (("a`b", "player"), ("z", "chat"))


@pytest.mark.each_server
@pytest.mark.parametrize("setting, usual", [("sql_select_limit=3", "DEFAULT"), ("autocommit=0", "1"),
                                            ("sql_quote_show_create=0", "1"),
                                            (READ_ONLY, "0"), (SHORT, "0")])
def test_global_settings_change_no_dump(make_server, make_world, make_keeper, setting, usual):
    """Global defaults of sessions do not affect dumps and restores."""
    server = make_server()
    keeper = make_keeper(make_world(on=server))
    keeper.init()
    before = keeper.world.snapshot()
    keeper.world.sql("SET GLOBAL " + setting)
    keeper.dump()
    keeper.ok("--restore", "--force")
    keeper.world.sql("SET GLOBAL " + setting.split("=")[0] + "=" + usual)
    keeper.world.assert_is(before)


@pytest.mark.only("mariadb", why="enforce_storage_engine")
def test_an_engine_that_is_enforced(make_server, make_world, make_keeper):
    """With enforce_storage_engine a restore and --init fail with a message that names the setting."""
    server = make_server()
    keeper = make_keeper(make_world(on=server)).init()
    keeper.dump()
    server.sql("SET GLOBAL enforce_storage_engine=InnoDB")
    done = keeper.run("--restore", "--force")
    assert done.rc == REFUSED and "enforce_storage_engine" in done.err, done
    keeper.world.sql("DROP TABLE worldkeeper_sentinel")
    done = keeper.run("--init", "--force")
    assert done.rc != DONE and "enforce_storage_engine" in done.err and "read-only" not in done.err, done


def test_the_named_dump_outlives_the_forced_one(keeper):
    """The retention of the dump that a forced restore makes first does not delete the dump that is to be restored."""
    keeper.configure({"retention": {"keep_last": "2", "keep_within": "0", "keep_daily": "0",
                                    "keep_weekly": "0"}})
    keeper.dump()
    first = keeper.newest()["name"]
    keeper.world.mark(2)
    keeper.dump()
    keeper.world.mark(3)
    keeper.ok("--restore=" + first, "--force")
    assert keeper.world.marked() == 1


@pytest.mark.only("mariadb", why="MySQL keeps definitions in a dictionary that knows transactions")
@pytest.mark.parametrize("size", [0, 100])
def test_half_a_definition_of_a_shadow(make_world, make_keeper, victim, size):
    """A server that was killed while it created a shadow table leaves part of its file, which it can neither open nor replace;
    the next restore drops it."""
    keeper = make_keeper(make_world(on=victim)).init()
    before = keeper.world.snapshot()
    keeper.dump()
    victim.crash()
    path = os.path.join(victim.datadir, keeper.world.schema, "worldkeeper_tmp_new_000001.frm")
    subprocess.run([*as_mysql(), "sh", "-c", f'head -c {size} "$0" > "$1"',
                    os.path.join(victim.datadir, keeper.world.schema, "player.frm"), path], check=True)
    keeper.ok("--restore")
    keeper.world.assert_is(before)
    assert not os.path.exists(path)


def test_a_server_that_caps_its_tables(make_server, make_world, make_keeper):
    """With maximum_max_heap_table_size the server silently limits tables; the restore fails with a message that names the
    setting."""
    server = make_server()
    world = make_world("empty", on=server)
    world.sql("SET max_heap_table_size=64*1024*1024", "CREATE TABLE big (id INT PRIMARY KEY, t CHAR(100)) ENGINE=MEMORY",
              "INSERT INTO big SELECT seq, 'x' FROM seq_1_to_30000")
    keeper = make_keeper(world).init()
    before = world.snapshot()
    keeper.dump()
    server.crash("--maximum-max-heap-table-size=1M")
    done = keeper.run("--restore")
    assert done.rc == FAILED and "1114" in done.err and "maximum_max_heap_table_size" in done.err, done
    server.crash()
    keeper.ok("--restore")
    world.assert_is(before)


CASES = ["CREATE TABLE `FooBar` (`Id` INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO FooBar VALUES (1)",
         "CREATE TABLE `Ärger` (`Id` INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO `Ärger` VALUES (2)"]


def one_case(make_server, make_world, make_keeper, *tables):
    """Returns a keeper with a dump of a server with case-sensitive names on a server without, and that dump."""
    world = make_world("empty", on=make_server())
    world.sql(*tables)
    keeper = make_keeper(world).init()
    keeper.dump()
    server = make_server("--lower-case-table-names=1")
    there = make_world("empty", on=server, schema=world.schema)
    return make_keeper(there, where=keeper.base), keeper.newest()


def test_again_where_the_case_of_letters_does_not_matter(make_server, make_world, make_keeper):
    """A first restore creates foobar from FooBar; further restores of the same dump replace it."""
    moved, dump = one_case(make_server, make_world, make_keeper, *CASES)
    moved.ok("--restore")
    before = moved.world.snapshot()
    assert moved.world.value("SELECT Id FROM foobar") == 1
    moved.world.server.crash()
    moved.ok("--restore")
    moved.world.assert_is(before)
    for which in (dump["name"], moved.path(dump)):
        moved.world.sql("DELETE FROM FooBar")
        moved.ok("--restore=" + which, "--force")
        moved.world.assert_is(before)


def test_two_tables_that_become_one(make_server, make_world, make_keeper):
    """A dump whose table names differ only in case is refused by name, before anything is done, on a server that ignores case."""
    moved, dump = one_case(make_server, make_world, make_keeper, *CASES,
                           "CREATE TABLE foobar (id INT PRIMARY KEY) ENGINE=MEMORY")
    for more in ((), ("--dry-run",)):
        done = moved.run("--restore", *more)
        assert done.rc == 4 and "FooBar" in done.err and "lower_case_table_names" in done.err, done
    assert moved.world.sql("SHOW TABLES") == ()
    assert not moved.ok("--list", "--json")["dumps"][0]["damaged"]
