"""Tests of manual restores."""
import glob
import gzip
import os
import signal
import stat
import time

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, REFUSED, USAGE, of_world
from wk.server import MYSQL, mysqldump, stock_restore
from wk.snapshot import assert_same
from wk.util import wait_for

pytestmark = pytest.mark.either_server


@pytest.mark.quick
def test_restore_after_a_loss(lost):
    """--restore restores the newest dump exactly and reports what it did."""
    result = lost.ok("--restore", "--json")
    lost.world.assert_is(lost.before)
    manifest = lost.newest()
    assert result["dump"] == manifest["name"] and (result["rows"], result["tables"]) == of_world(manifest)
    assert result["generation"] > manifest["generation"]
    assert result["lost_seconds_max"] >= 0 and result["skipped"] == []


def test_restored_world_is_dumped_under_the_new_generation(lost):
    """A restore raises the generation, and later dumps order after all earlier ones."""
    old = lost.newest()
    lost.ok("--restore")
    lost.dump()
    new = lost.newest()
    assert new["generation"] > old["generation"] and new["name"] > old["name"]


def test_a_living_world_is_refused(keeper):
    """Without --force a living world is never overwritten: the exit status is 4 and nothing is changed."""
    keeper.dump()
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    for more in ((), ("--dry-run",), ("--accept-cut",)):
        done = keeper.run("--restore", *more)
        assert done.rc == REFUSED and "HINT" in done.err and "--force" in done.err, done
        keeper.world.assert_is(before)


def test_force_saves_the_present_world_first(keeper):
    """--force restores over a living world after it dumped that world."""
    keeper.dump()
    old = keeper.world.snapshot()
    keeper.world.mark(2)
    present = keeper.world.snapshot()
    name = keeper.newest()["name"]
    result = keeper.ok("--restore", "--force", "--json")
    assert result["dump"] == name
    keeper.world.assert_is(old)
    (saved,) = [m for m in keeper.dumps() if m["name"] != name]
    keeper.ok("--restore=" + saved["name"], "--force")
    keeper.world.assert_is(present)


def test_a_supervisor_dumps_at_once_what_was_restored_without_it(doomed, victim):
    """A supervisor dumps at once a world that was restored without it, because the newest dump is of the replaced world, which
    the next loss would restore."""
    old = doomed.dump()["name"]
    before = doomed.world.snapshot()
    doomed.world.sql("UPDATE player SET points=9")
    doomed.ok("--restore=" + old, "--force")
    doomed.start()
    doomed.wait(lambda: doomed.newest()["generation"] == 2, "a dump of the restored world")
    victim.crash()
    doomed.wait(lambda: doomed.status()["generation"] == 3, "the world to be back")
    doomed.world.assert_is(before)


def test_a_reload_does_not_put_that_dump_off(doomed):
    """A reload that waits for the end of a restore does not delay the dump after it."""
    old = doomed.dump()["name"]
    doomed.world.sql("UPDATE player SET points=9")
    doomed.start(fault="restore.loaded=stop")
    process = doomed.popen("--restore=" + old, "--force")
    pids = wait_stopped(doomed, "restore.loaded")
    doomed.process.send_signal(signal.SIGHUP)
    doomed.wait(lambda: "is reloaded when the running" in doomed.log(), "the reload to wait")
    go_on(pids)
    assert doomed.finish(process).rc == DONE
    doomed.wait_log(f"{doomed.config_path} reloaded")
    doomed.wait(lambda: doomed.newest()["generation"] == 2, "a dump of the restored world")


def test_what_is_not_the_newest_world_wants_a_dump(doomed, victim):
    """A restore without a supervisor suggests --dump if the newest dump is of another world, which the next loss would
    restore."""
    def told(*words):
        done = doomed.run(*words)
        assert done.rc == DONE, done
        return "HINT: " in done.out and "--dump" in done.out
    doomed.dump()
    doomed.world.mark(2)
    oldest = "--restore=" + doomed.newest()["name"]
    assert told("--restore", "--force") and told(oldest, "--force")
    assert not told("--restore", "--force", "--dry-run")
    victim.crash()
    assert told(oldest)
    victim.crash()
    assert not told("--restore")


def test_a_name_that_is_none_is_told_before_anything_is_done(keeper, tmp_path):
    """A mistyped dump name fails with exit 5 or 1 before --force dumps the living world."""
    keeper.dump()
    before = [d["name"] for d in keeper.dumps()]
    done = keeper.run("--restore=s8-nope", "--force")
    assert done.rc == 5 and "dump s8-nope is not in" in done.err and "--list" in done.err, done
    done = keeper.run(f"--restore={tmp_path}/nope.sql.gz", "--force")
    assert done.rc == FAILED and "cannot open" in done.err, done
    assert [d["name"] for d in keeper.dumps()] == before


def test_without_any_dump_the_hint_says_how_to_get_one(keeper):
    """Without any dump the hint suggests --dump, not --verify."""
    done = keeper.run("--restore", "--dry-run")
    assert done.rc == 5 and "--dump takes one" in done.err and "--verify" not in done.err, done


def test_force_without_a_dump_of_the_present_does_nothing(keeper):
    """A forced restore whose dump of the present world fails changes nothing."""
    keeper.dump()
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    done = keeper.run("--restore", "--force", fault="dump.streamed=kill")
    assert done.rc != DONE
    keeper.world.assert_is(before)


@pytest.mark.each_server
@pytest.mark.parametrize("into, right", [
    *((False, right) for right in ("INSERT", "CREATE", "DROP", "ALTER", "LOCK TABLES",
                                   *([] if MYSQL else ["TRIGGER"]))),  # MySQL hides triggers without it
    *((True, right) for right in ("INSERT", "CREATE"))])
def test_dry_run_fails_where_the_restore_would(make_world, make_keeper, into, right):
    """With a missing privilege the dry run has the exit status of the restore, names the privilege, and changes nothing."""
    world = make_world("small")
    world.sql("CREATE TRIGGER tr BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=NEW.v")
    keeper = make_keeper(world).init()
    world.server.sql(f"GRANT {'SET_ANY_DEFINER, SYSTEM_USER' if MYSQL else 'SET USER'} ON *.* TO keeper@localhost")
    other = make_world("empty")
    world.server.grant("keeper@localhost", other.schema)
    keeper.dump()
    target = ["--into", other.schema] if into else ["--force"]
    assert keeper.run("--restore", "--dry-run", *target).rc == DONE
    schema = (other if into else world).schema.replace("_", "\\_")
    world.server.sql(f"REVOKE {right} ON `{schema}`.* FROM keeper@localhost")
    before = world.snapshot()
    dry = keeper.run("--restore", "--dry-run", *target)
    world.assert_is(before)
    done = keeper.run("--restore", *target)
    assert done.rc == dry.rc == FAILED, (dry, done)
    assert right in dry.err and "GRANT" in dry.err, dry


def test_dry_run_on_a_server_that_takes_no_writes(make_server, make_world, make_keeper):
    keeper = make_keeper(make_world("small", on=make_server())).init()
    keeper.dump()
    keeper.server.sql("SET GLOBAL read_only=ON")
    for how in (["--dry-run"], []):
        done = keeper.run("--restore", "--force", *how)
        assert done.rc == FAILED and "read" in done.err and "only" in done.err, done


def test_dry_run_says_and_does_nothing(lost):
    """--dry-run names the dump that would be used and leaves the world as it is."""
    emptied = lost.world.snapshot()
    result = lost.ok("--restore", "--dry-run", "--json")
    assert result["dump"] == lost.newest()["name"]
    lost.world.assert_is(emptied)


def test_dry_run_of_what_would_make_its_schema(keeper, make_world):
    """A dry run succeeds without the schema, which the restore would create."""
    keeper.dump()
    other = make_world("empty")
    keeper.server.grant("keeper@localhost", other.schema)
    for schema, args in ((other.schema, ["--into", other.schema]), (keeper.world.schema, [])):
        keeper.server.sql(f"DROP DATABASE `{schema}`")
        done = keeper.run("--restore", "--dry-run", *args)
        assert done.rc == DONE and "would restore" in done.out, done
        there = f"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{schema}'"
        assert keeper.server.value(there) == 0
        keeper.server.sql(f"CREATE DATABASE `{schema}`")


def test_an_older_dump_by_name(keeper):
    """--restore=NAME restores that dump, not the newest."""
    first = keeper.dump()
    before = keeper.world.snapshot()
    keeper.world.mark(2)
    keeper.dump()
    assert keeper.ok("--restore=" + first["name"], "--force", "--json")["dump"] == first["name"]
    keeper.world.assert_is(before)


def test_the_newest_is_so_by_number_not_by_time(doomed, victim):
    """The newest dump is determined by its number. File times, changed by a copy or a clock that was set back, affect neither
    restore, list nor retention."""
    doomed.configure({"retention": {"keep_last": "2", "keep_within": "0s", "keep_hourly": "0",
                                    "keep_daily": "0", "keep_weekly": "0"}})
    names = [doomed.dump()["name"]]
    for v in (2, 3):
        doomed.world.mark(v)
        before = doomed.world.snapshot()
        now = time.time()
        for n, path in enumerate(sorted(glob.glob(os.path.join(doomed.dumps_dir, "w1-*")), reverse=True)):
            os.utime(path, (now + n * 1000, now + n * 1000))  # older files get later times
        names.append(doomed.dump()["name"])
        os.utime(os.path.join(doomed.dumps_dir, names[-1] + ".sql.gz"), (1e9, 1e9))
    assert [d["name"] for d in doomed.ok("--list", "--json")["dumps"]] == names[:0:-1]
    victim.crash()
    assert doomed.ok("--restore", "--json")["dump"] == names[-1]
    doomed.world.assert_is(before)


@pytest.mark.parametrize("moment", ["restore.loaded", "restore.conflict_saved"])
def test_another_who_took_the_world_over(lost, moment):
    """A restore that was stopped while another one raised the generation is refused and swaps nothing."""
    process = lost.popen("--restore", fault=moment + "=stop")
    wait_stopped(lost, moment)
    lost.world.sql("UPDATE worldkeeper_sentinel_lease SET generation=generation+1")
    go_on(stopped(lost))
    done = lost.finish(process)
    assert done.rc == REFUSED and "raised the generation" in done.err, done
    assert lost.world.value("SELECT COUNT(*) FROM player") == 0
    lost.ok("--restore")
    lost.world.assert_is(lost.before)


def test_an_unknown_name_is_said(lost):
    """A name of a dump that does not exist is an error that names it, and nothing is restored."""
    done = lost.run("--restore=w1-000001-00000099-20200101T000000Z")
    assert done.rc != DONE and "00000099" in done.err, done
    assert lost.world.rows() == 0


def test_into_another_schema(keeper, make_world):
    """--into fills another schema and leaves the world as it is."""
    keeper.dump()
    before = keeper.world.snapshot()
    keeper.world.mark(2)
    present = keeper.world.snapshot()
    other = make_world("empty")
    keeper.server.grant("keeper@localhost", other.schema)
    keeper.ok("--restore", "--into", other.schema)
    assert_same(before, other.snapshot(), "restored into another schema")
    keeper.world.assert_is(present)


@pytest.mark.parametrize("wide", [False, True])
def test_into_a_schema_without_rights_tells_the_grant(keeper, wide):
    """A restore into a schema without privileges prints the GRANT that is needed, and it is sufficient. It repeats what a wider
    one gives there, because it hides that one."""
    keeper.dump()
    then = keeper.world.schema + "_then"
    if wide:
        keeper.server.sql(f"GRANT SELECT, INDEX ON `{then[:-1]}%`.* TO keeper@localhost")
    refused = keeper.run("--restore", "--into", then)
    assert refused.rc == FAILED and "HINT: GRANT" in refused.err, refused
    keeper.server.sql(grant := refused.err.split("HINT: ")[1].strip().rstrip(";"))
    keeper.ok("--restore", "--into", then)
    keeper.server.sql(f"DROP DATABASE `{then}`")
    if wide:
        assert ", INDEX ON " in grant, grant
        keeper.server.sql(f"REVOKE ALL ON `{then[:-1]}%`.* FROM keeper@localhost")


@pytest.mark.parametrize("name", ["mysql", "SYS", "information_schema", "", "x" * 65, "Worldkeeper_drill_w1"])
@pytest.mark.parametrize("supervised", [False, True])
def test_into_what_can_be_no_world(keeper, name, supervised):
    """--into refuses the server's own schemas and invalid names without suggesting a GRANT, which would allow to become any
    account."""
    keeper.dump()
    if supervised:
        keeper.start()
    done = keeper.run("--restore", "--into", name)
    assert done.rc == USAGE and f"--into '{name[:40]}" in done.err and "GRANT" not in done.err, done


def test_into_a_schema_with_rows_needs_force(keeper, make_world):
    """--into refuses a schema whose tables hold rows."""
    keeper.dump()
    other = make_world()
    keeper.server.grant("keeper@localhost", other.schema)
    other.mark(9)
    before = other.snapshot()
    assert keeper.run("--restore", "--into", other.schema).rc == REFUSED
    assert_same(before, other.snapshot(), "after the refusal")


def allow_drills(keeper):
    for host in ("localhost", "127.0.0.1"):
        keeper.server.sql(f"GRANT ALL ON `worldkeeper\\_drill%`.* TO keeper@'{host}'")


def test_drill_proves_a_dump_and_leaves_nothing(make_keeper, world):
    """--drill restores a dump into a scratch schema, compares it, and drops the schema."""
    keeper = make_keeper(world).init()
    allow_drills(keeper)
    keeper.dump()
    before = world.snapshot()
    schemas = keeper.server.sql("SHOW DATABASES")
    keeper.ok("--drill")
    assert keeper.server.sql("SHOW DATABASES") == schemas
    world.assert_is(before)


DEFINITIONS = {
    "view": "CREATE VIEW rich AS SELECT nick FROM player WHERE points>15000000",
    "procedure": "CREATE PROCEDURE heal(n INT) UPDATE player SET points=points+n",
    "function": "CREATE FUNCTION answer() RETURNS INT DETERMINISTIC RETURN 42",
    "trigger": "CREATE TRIGGER cheat BEFORE INSERT ON player FOR EACH ROW SET NEW.points=-1",
    "event": "CREATE EVENT tick ON SCHEDULE EVERY 1 YEAR DISABLE DO DELETE FROM player",
    "sequence": "CREATE SEQUENCE ticket START WITH 7",
}


@pytest.mark.each_server
@pytest.mark.parametrize("kind", [k for k in DEFINITIONS if k != "sequence" or not MYSQL])
def test_drill_of_a_dump_with_a_definition(make_keeper, world, kind):
    """A drill of a dump with views, routines, triggers, events or sequences succeeds and leaves those of the world as they
    are."""
    keeper = make_keeper(world).init()
    allow_drills(keeper)
    if kind == "trigger":  # its definer is another account, which a restore has to set
        world.server.sql(*(f"GRANT {'SET_ANY_DEFINER, SYSTEM_USER' if MYSQL else 'SET USER'} ON *.* TO keeper@{host}"
                           for host in ("localhost", "127.0.0.1")))
    world.sql(DEFINITIONS[kind])
    if kind == "sequence":
        world.sql("CREATE TABLE queued (id BIGINT NOT NULL DEFAULT nextval(ticket) PRIMARY KEY, v INT) ENGINE=MEMORY",
                  "INSERT INTO queued (v) VALUES (1),(2)")
    keeper.dump()
    before = world.snapshot()
    keeper.ok("--drill")
    world.assert_is(before)


def test_rows_written_since_the_restart_are_saved(lost):
    """Rows that the game wrote into the emptied tables are in a conflict file, which the result names, and not in the world."""
    lost.world.sql("INSERT INTO player (nick,points) VALUES ('late''s \\\\ nick',1),('other',2)",
                   "INSERT INTO chat VALUES (1,'hello, where is everybody?')")
    result = lost.ok("--restore", "--json")
    lost.world.assert_is(lost.before)
    (path,) = lost.conflicts()
    assert result["conflict_rows"] == 3 and result["conflict_file"] == path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with gzip.open(path) as f:
        text = f.read()
    assert b"where is everybody" in text and b"other" in text


def test_conflict_rows_can_be_loaded(lost, make_world):
    """The conflict file is SQL that the stock client loads."""
    lost.world.sql("INSERT INTO player (nick,points,ratio) VALUES ('late',1,16777215)")
    lost.ok("--restore")
    other = make_world("empty", on=lost.server)
    other.sql(f"CREATE TABLE player LIKE `{lost.world.schema}`.player")
    stock_restore(lost.server, lost.conflicts()[0], other.schema)
    assert other.sql("SELECT nick, points, CAST(ratio AS DOUBLE) FROM player") == (
        ("late", 1, 16777215.0),)


def test_no_conflict_no_file(lost):
    """Without such rows there is no conflict file."""
    result = lost.ok("--restore", "--json")
    assert not lost.conflicts() and not result["conflict_rows"]


def test_auto_increment_goes_on(doomed, victim):
    """A new player gets the next number of the counter, not one that was used before the crash."""
    doomed.world.sql("DELETE FROM player WHERE id>1990")  # the counter stays at 2001
    doomed.dump()
    victim.crash()
    doomed.ok("--restore")
    doomed.world.sql("INSERT INTO player (nick,points) VALUES ('new',0)")
    assert doomed.world.value("SELECT id FROM player WHERE nick='new'") == 2001


def test_a_world_larger_than_max_heap_table_size(make_world, make_keeper, victim):
    """A table larger than the server's present limit is restored completely and can grow."""
    world = make_world("empty", on=victim)
    world.sql("SET max_heap_table_size=64*1024*1024",
              "CREATE TABLE player (id INT PRIMARY KEY, v CHAR(250) CHARACTER SET latin1) "
              "ENGINE=MEMORY", "INSERT INTO player SELECT seq, seq FROM seq_1_to_90000")
    keeper = make_keeper(world).init()
    before = world.checksums()
    keeper.dump()
    victim.crash()  # the global limit is 16 MiB, the table has 26 MB
    keeper.ok("--restore")
    assert world.checksums() == before
    world.sql("INSERT INTO player VALUES (0,'one more')")


def test_triggers_stay_and_do_not_fire(doomed, victim):
    """A trigger exists after a restore, was not fired by it, and fires for the game again."""
    doomed.world.sql("CREATE TABLE fired (n INT) ENGINE=InnoDB",
                     "CREATE TRIGGER cheat BEFORE INSERT ON player FOR EACH ROW SET NEW.points=-1",
                     "CREATE TRIGGER note AFTER INSERT ON chat FOR EACH ROW INSERT INTO fired VALUES (1)",
                     "CREATE TRIGGER gone AFTER DELETE ON chat FOR EACH ROW INSERT INTO fired VALUES (2)")
    victim.sql("GRANT SET USER ON *.* TO keeper@localhost")  # the triggers belong to root
    before = doomed.world.snapshot()
    doomed.dump()
    victim.crash()
    doomed.ok("--restore")
    doomed.world.assert_is(before)
    doomed.world.sql("INSERT INTO player (nick,points) VALUES ('new',5)")
    assert doomed.world.value("SELECT points FROM player WHERE nick='new'") == -1


@pytest.mark.parametrize("rebuilt", [False, True])
def test_triggers_keep_their_character_set(doomed, victim, rebuilt):
    """A trigger keeps its character set, whether it is moved to the restored table or created from the dump."""
    con = doomed.world.connect()
    with con.cursor() as cur:
        for charset, text in (("utf8mb3", "árvíz"), ("latin1", "plain"), ("utf8mb4", "árvíz")):
            cur.execute(f"SET NAMES {charset}")
            cur.execute(f"CREATE TRIGGER t_{charset} BEFORE INSERT ON player FOR EACH ROW "
                        f"SET NEW.nick='{text}'".encode())
    con.close()
    victim.sql("GRANT SET USER ON *.* TO keeper@localhost")
    wanted = ("SELECT trigger_name, action_statement, character_set_client, collation_connection FROM "
              "information_schema.triggers WHERE trigger_schema=DATABASE() ORDER BY 1")
    before = doomed.world.sql(wanted)
    assert {row[2] for row in before} == {"utf8mb3", "latin1", "utf8mb4"}
    doomed.dump()
    victim.crash()
    if rebuilt:
        doomed.world.sql("DROP TABLE player")
    doomed.ok("--restore", *(["--with-code"] if rebuilt else []))
    assert doomed.world.sql(wanted) == before


@pytest.mark.only("mariadb", why="sql_if_exists")
def test_a_server_that_adds_if_exists(make_server, make_world, make_keeper):
    """A restore succeeds with sql_if_exists, which makes a RENAME skip missing tables."""
    server = make_server()
    world = make_world(on=server)
    keeper = make_keeper(world).init()
    keeper.dump()
    before = world.snapshot()
    server.crash()
    server.sql("SET GLOBAL sql_if_exists=1")
    keeper.ok("--restore")
    world.assert_is(before)


def test_views_and_durable_tables_survive(doomed, victim):
    """Views over restored tables work, and a durable table keeps rows that it got after the dump."""
    doomed.world.sql("CREATE TABLE ledger (n INT PRIMARY KEY) ENGINE=InnoDB",
                     "CREATE VIEW rich AS SELECT nick FROM player WHERE points>15000000")
    doomed.dump()
    doomed.world.sql("INSERT INTO ledger VALUES (1)")
    rich = doomed.world.rows("rich")
    victim.crash()
    doomed.ok("--restore")
    assert doomed.world.rows("rich") == rich > 0
    assert doomed.world.rows("ledger") == 1


def test_nothing_is_left_beside_the_world(lost):
    """After a restore the schema has exactly the tables it had, and the server the same schemas."""
    tables = lost.world.sql("SHOW TABLES")
    schemas = lost.server.sql("SHOW DATABASES")
    lost.ok("--restore")
    assert lost.world.sql("SHOW TABLES") == tables
    assert lost.server.sql("SHOW DATABASES") == schemas


def test_a_locked_table_ends_the_restore_cleanly(lost):
    """A table that is locked by the game makes the restore fail in time without changing anything."""
    lost.configure({"restore": {"lock_wait": "2s"}})
    emptied, tables = lost.world.snapshot(), lost.world.sql("SHOW TABLES")
    con = lost.server.admin(lost.world.schema)
    with con, con.cursor() as cur:
        cur.execute("LOCK TABLES fleet WRITE")
        done = lost.run("--restore")
        assert done.rc == FAILED and "lock" in done.err.lower(), done
    lost.world.assert_is(emptied)
    assert lost.world.sql("SHOW TABLES") == tables
    lost.ok("--restore")
    lost.world.assert_is(lost.before)


def test_a_read_only_server_is_named(lost):
    """A restore on a read-only server says so and can be repeated."""
    lost.server.sql("SET GLOBAL read_only=1")
    try:
        done = lost.run("--restore")
        assert done.rc in (FAILED, REFUSED) and "read" in done.err.lower(), done
    finally:
        lost.server.sql("SET GLOBAL read_only=0")
    lost.ok("--restore")
    lost.world.assert_is(lost.before)


def test_a_table_made_after_the_dump_is_left_alone(doomed, victim):
    """A table that the dump does not have is neither dropped nor emptied by a restore."""
    doomed.dump()
    doomed.world.sql("CREATE TABLE newcomer (n INT) ENGINE=MEMORY")
    victim.crash()
    doomed.world.sql("INSERT INTO newcomer VALUES (1)")
    doomed.ok("--restore")
    assert doomed.world.rows("newcomer") == 1 and doomed.world.rows() == 2000


# -- files of the old scripts -------------------------------------------------------------------

@pytest.mark.parametrize("suffix", [".sql", ".sql.gz"])
@pytest.mark.parametrize("kind", ["small", "zoo"])
def test_a_file_of_the_old_scripts(make_world, make_keeper, victim, tmp, suffix, kind):
    """--restore=PATH accepts a file of plain mysqldump and has the result of the stock client."""
    world = make_world(kind, on=victim)
    keeper = make_keeper(world).init()
    if kind == "zoo":
        victim.sql("GRANT SET USER ON *.* TO keeper@localhost")
        world.sql("DELETE FROM z_hidden WHERE id=3",  # the stock client cannot violate a CHECK
                  "DELETE FROM z_time WHERE id=2",  # nor load February 30
                  *(["UPDATE z_broken SET u=''"] if MYSQL else []))  # MySQL's drops half of a surrogate pair, which is refused
    path = mysqldump(victim, world.schema, os.path.join(tmp, "old" + suffix))
    stock = make_world("empty", on=victim)
    plain = mysqldump(victim, world.schema, os.path.join(tmp, "check.sql.gz"))
    stock_restore(victim, plain, stock.schema)
    wanted = stock.snapshot(engines={"MEMORY"})
    victim.crash()
    keeper.ok("--restore=" + path)
    assert_same(wanted, world.snapshot(engines={"MEMORY"}), "compared with the stock client")


def test_a_foreign_file_never_overwrites_a_living_world(keeper, tmp):
    """A file of mysqldump is refused over a living world, too."""
    path = mysqldump(keeper.server, keeper.world.schema, os.path.join(tmp, "old.sql"))
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    assert keeper.run("--restore=" + path).rc == REFUSED
    keeper.world.assert_is(before)


@pytest.mark.parametrize("suffix", [".sql", ".sql.gz"])
def test_a_cut_file_of_the_old_scripts(lost, tmp, suffix, make_world):
    """A truncated file of mysqldump changes nothing."""
    source = make_world("small", on=lost.server)
    path = mysqldump(lost.server, source.schema, os.path.join(tmp, "old" + suffix))
    os.truncate(path, os.path.getsize(path) * 2 // 3)
    emptied = lost.world.snapshot()
    done = lost.run("--restore=" + path)
    assert done.rc not in (DONE, 2), done
    lost.world.assert_is(emptied)
    lost.ok("--restore")
    lost.world.assert_is(lost.before)


@pytest.fixture
def old_file(keeper, tmp):
    """Returns a mysqldump of the world: path, text, and the offset of its end (restored session settings and closing line)."""
    path = mysqldump(keeper.server, keeper.world.schema, os.path.join(tmp, "old.sql"))
    with open(path, "rb") as f:
        text = f.read()
    assert text.count(b"-- Dump completed") == 1
    return path, text, text.rindex(b"UNLOCK TABLES;\n") + 15


def write(path, text):
    with open(path, "wb") as f:
        f.write(text)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_cut_file_and_a_living_world_are_two_questions(keeper, old_file, dry):
    """--force allows to overwrite a living world, --accept-cut a truncated file; neither implies the other."""
    path, text, end = old_file
    write(path, text[:end])
    before = keeper.world.snapshot()
    for given, wanted in ((("--force",), "--accept-cut"), ((), "--force"), (("--accept-cut",), "--force")):
        done = keeper.run("--restore=" + path, *given, *dry)
        assert done.rc == REFUSED and wanted in done.err, done
        assert keeper.dumps() == []
        keeper.world.assert_is(before)
    assert "closing" in keeper.ok("--restore=" + path, "--force", "--accept-cut", "--json", *dry)["warning"]


def test_a_file_cut_in_a_statement(lost, tmp):
    """With --accept-cut the tables before the cut are restored, and no others."""
    path = mysqldump(lost.server, lost.world.schema, os.path.join(tmp, "old.sql"))
    lost.world.sql("INSERT INTO player (nick,points) VALUES ('x',1)")
    lost.ok("--restore")
    path = mysqldump(lost.server, lost.world.schema, os.path.join(tmp, "old.sql"))
    with open(path, "rb") as f:
        text = f.read()
    at = text.index(b"INSERT INTO `player`")
    write(path, text[:at + 500])
    done = lost.run("--restore=" + path, "--force")
    assert done.rc == FAILED and "it is truncated" in done.err and "--accept-cut" in done.err, done
    lost.world.assert_is(lost.before)
    lost.ok("--restore=" + path, "--force", "--accept-cut")
    assert lost.world.rows() == 0 and lost.world.rows("chat") > 0


@pytest.mark.parametrize("cut", ["the last", "the first"])
def test_two_files_in_one(keeper, make_world, old_file, tmp, cut):
    """In a concatenation of two files each part needs its own closing line."""
    path, text, end = old_file
    other = make_world("empty", on=keeper.server)
    other.sql("CREATE TABLE second (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO second VALUES (1)")
    with open(mysqldump(keeper.server, other.schema, os.path.join(tmp, "b.sql")), "rb") as f:
        more = f.read()
    keeper.world.sql("CREATE TABLE second (id INT PRIMARY KEY) ENGINE=MEMORY")
    before = keeper.world.snapshot()
    closing = more.rindex(b"UNLOCK TABLES;\n") + 15
    write(path, text + more[:closing] if cut == "the last" else text[:end] + more)
    for dry in ((), ("--dry-run",)):
        done = keeper.run("--restore=" + path, "--force", *dry)
        assert done.rc == REFUSED and "--accept-cut" in done.err, done
        keeper.world.assert_is(before)
    write(path, text + more)
    keeper.ok("--restore=" + path, "--force")
    assert keeper.world.value("SELECT COUNT(*) FROM second") == 1


def test_a_file_is_taken_only_when_named(lost, tmp):
    """A mysqldump file in the dump directory is not used unless it is named."""
    mysqldump(lost.server, lost.world.schema, os.path.join(lost.dumps_dir, "zzz.sql.gz"))
    assert lost.ok("--restore", "--json")["dump"] == lost.newest()["name"]
    wait_for(lambda: lost.world.rows() == 2000, "the world")
