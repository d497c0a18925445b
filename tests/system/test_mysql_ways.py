"""Tests of MySQL settings that MariaDB does not have: worldkeeper works with them, or refuses by name what it cannot do, with
a solution, before it changes anything."""
import os
import re
import subprocess

import pymysql
import pytest
from wk.crash import SWAPPED, go_on, wait_stopped
from wk.follow import LOG, dump_and_follow, restored
from wk.keeper import DONE, FAILED, REFUSED
from wk.server import RIGHTS, SERVER_RIGHTS, client, stock_restore
from wk.util import CANARY, free_port, ident, wait_for

pytestmark = pytest.mark.only("mysql", why="MariaDB has none of these settings")


def lose(world):
    """Empties all MEMORY tables, as a restart of the server does, without a restart."""
    tables = world.sql("SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() "
                       "AND engine='MEMORY'")
    world.sql(*(f"TRUNCATE TABLE {ident(t)}" for (t,) in tables))


def again(server, *statements):
    """Sets global variables, which apply to later sessions."""
    server.sql(*(f"SET GLOBAL {s}" for s in statements))


def test_tables_must_have_a_key(make_server, make_world, make_keeper):
    """With sql_require_primary_key a restore names the table without a key and the solutions, and leaves the world as it is.
    With the privilege to turn the setting off for a session it succeeds."""
    server = make_server()
    world = make_world(on=server)
    keeper = make_keeper(world, {"restore": {"scope": "all"}, "dump": {"engines": "all"}})
    world.sql("CREATE TABLE durable (v INT) ENGINE=InnoDB", "INSERT INTO durable VALUES (1),(1)",
              "CREATE TABLE odd (v INT, id INT AUTO_INCREMENT, UNIQUE KEY (id)) ENGINE=MEMORY",
              "INSERT INTO odd VALUES (1,1)", "ALTER TABLE odd AUTO_INCREMENT=70")
    again(server, "sql_require_primary_key=ON", "sql_generate_invisible_primary_key=ON")
    keeper.init()
    again(server, "sql_require_primary_key=OFF", "sql_generate_invisible_primary_key=OFF")
    before = world.snapshot()
    keeper.dump()
    again(server, "sql_require_primary_key=ON", "sql_generate_invisible_primary_key=ON")
    lose(world)
    empty = world.snapshot()
    done = keeper.run("--restore")
    assert done.rc == FAILED and "SESSION_VARIABLES_ADMIN" in done.err, done
    assert "table chat" in done.err or "table odd" in done.err or "table durable" in done.err, done
    world.assert_is(empty)
    server.sql("GRANT SESSION_VARIABLES_ADMIN ON *.* TO keeper@localhost")
    keeper.ok("--restore")
    world.assert_is(before)
    keeper.dump()


def test_an_engine_that_is_disabled(make_server, make_world, make_keeper):
    """With MEMORY in disabled_storage_engines a restore is refused and the world stays as it is, --init does not create a
    sentinel of another engine, and the message says what to do."""
    server = make_server()
    world = make_world(on=server)
    keeper = make_keeper(world).init()
    before = world.snapshot()
    keeper.dump()
    server.crash("--disabled-storage-engines=MyISAM,MEMORY")
    empty = world.snapshot()
    for schema in ((), ("--into", "beside")):
        server.grant("keeper@localhost", "beside")
        done = keeper.run("--restore", *schema)
        assert done.rc == REFUSED and "disabled_storage_engines" in done.err, done
    world.assert_is(empty)
    assert "disabled_storage_engines" in keeper.run("--check").out
    world.sql("DROP TABLE worldkeeper_sentinel")
    done = keeper.run("--init", "--force")
    assert done.rc != DONE and "disabled_storage_engines" in done.err, done
    server.crash()
    keeper.ok("--restore")
    world.assert_is(before)


def test_rows_that_share_a_key(world, keeper):
    """MySQL can accept two rows with equal keys, because its hash differs for some equal text and an update does not move the
    row. The restore reports them, and the command in its message restores the dump."""
    alike = "SELECT COUNT(*)-COUNT(DISTINCT HEX(k)), COUNT(*)-COUNT(DISTINCT k) FROM twin"
    world.sql("CREATE TABLE twin (k CHAR(20) CHARACTER SET utf8mb3 COLLATE utf8mb3_unicode_ci PRIMARY KEY, v INT) "
              "ENGINE=MEMORY", "INSERT INTO twin VALUES ('a',1),(' \0',2)")
    world.sql("UPDATE twin SET k='\0' WHERE v=2", "INSERT INTO twin VALUES ('',3)")
    assert world.sql(alike) == ((0, 1),)
    keeper.dump()
    lose(world)
    empty = world.snapshot()
    done = keeper.run("--restore")
    assert done.rc == FAILED and "loading table twin" in done.err and "Duplicate entry" in done.err, done
    assert "two rows of the dump have equal keys" in done.err, done
    world.assert_is(empty)
    by_hand = re.search(r"\((gunzip .*) \| mysql SCHEMA\)", done.err)[1].replace(
        "FILE", keeper.path(keeper.newest()))
    text = subprocess.run(by_hand, shell=True, capture_output=True, check=True).stdout
    subprocess.run(client(keeper.server, world.schema), input=text, check=True)
    assert world.sql(alike + " UNION SELECT COUNT(*), 0 FROM twin") == ((0, 0), (2, 0))


def test_no_prepared_statement_is_left(make_server, make_world, make_keeper):
    """A restore succeeds when the game has used up max_prepared_stmt_count or left only a few: rows are then sent as plain
    statements."""
    server = make_server()
    world = make_world(on=server)
    keeper = make_keeper(world, {"restore": {"connections": "2"}}).init()
    world.sql("CREATE TABLE many (n INT) ENGINE=MEMORY", "INSERT INTO many SELECT seq FROM seq_1_to_5000")
    before = world.snapshot()
    keeper.dump()
    with server.admin() as game, game.cursor() as cur:
        for n in range(3):
            cur.execute(f"PREPARE s{n} FROM 'SELECT 1'")
        for most in (3, 4, 5, 6, 7):
            again(server, f"max_prepared_stmt_count={most}")
            lose(world)
            keeper.ok("--restore")
            world.assert_is(before, f"{most - 3} left")


def test_names_of_constraints(make_server, make_world, make_keeper):
    """A restore keeps the names of CHECK constraints, whether they are enforced, and the maximum size of the tables, although
    two tables of a schema cannot have constraints of the same name."""
    world = make_world(on=make_server())
    world.sql("SET max_heap_table_size=64*1024*1024",
              "CREATE TABLE bound (id INT PRIMARY KEY, v INT, w VARCHAR(200), CONSTRAINT `pos``itive` "
              "CHECK (v>0), CONSTRAINT off1 CHECK (v<9) NOT ENFORCED, CHECK (w<>'it''s \\n ő'), "
              "CONSTRAINT 0_first CHECK (v<100)) ENGINE=MEMORY",
              "INSERT INTO bound SELECT seq, 10+seq MOD 80, 'x' FROM seq_1_to_30000",
              "CREATE TABLE kept (id INT PRIMARY KEY, v INT, CONSTRAINT few CHECK (v<3), CHECK (v>0)) "
              "ENGINE=InnoDB", "INSERT INTO kept VALUES (1,1)")
    keeper = make_keeper(world, {"restore": {"scope": "all"}, "dump": {"engines": "all"}}).init()
    before, room = world.snapshot(), "SELECT max_data_length FROM information_schema.tables WHERE " \
        "table_schema=DATABASE() AND table_name='bound'"
    limit = world.value(room)
    keeper.dump()
    for _ in range(2):
        lose(world)
        world.sql("DELETE FROM kept")
        assert "warning" not in keeper.ok("--restore", "--json")
        world.assert_is(before)
        assert limit <= world.value(room) < 1.1 * limit
    other = make_world("empty", on=world.server)
    world.server.grant("keeper@localhost", other.schema)
    keeper.ok("--restore", "--into", other.schema)
    other.assert_is(before)
    world.sql("DROP TABLE bound, kept, player, fleet, chat, mark")
    keeper.ok("--restore", "--force")
    world.assert_is(before, "on a server that has none of the tables")


@pytest.mark.parametrize("rights", ["root", "none needed"])
def test_the_stock_client_where_tables_must_have_a_key(make_server, make_world, make_keeper, rights):
    """The stock client restores a dump with a table without a key: the dump turns sql_require_primary_key off only where it is
    on, so that an account without that privilege can use it elsewhere."""
    server = make_server()
    world, other = make_world(on=server), make_world("empty", on=server)
    before = world.snapshot()
    dump = make_keeper(world).init().dump()
    if rights == "root":
        again(server, "sql_require_primary_key=ON", "sql_generate_invisible_primary_key=ON")
        stock_restore(server, dump["path"], other.schema)
    else:
        server.account("poor", [other.schema], rights="ALL", server_rights=None)
        stock_restore(server, dump["path"], other.schema, "--user=poor", "--password=" + CANARY)
    other.assert_is(before)


@pytest.mark.parametrize("point", SWAPPED[:-1])
def test_names_of_constraints_after_a_kill(make_server, make_world, make_keeper, point):
    """After a kill between the swap and the end of a restore, the cleanup gives the constraints their names back, and the
    table keeps its maximum size."""
    world = make_world(on=make_server())
    world.sql("SET max_heap_table_size=64*1024*1024",
              "CREATE TABLE `bo``und` (id INT PRIMARY KEY, v INT, w VARCHAR(200), CONSTRAINT `pos``itive` "
              "CHECK (v>0), CONSTRAINT off1 CHECK (v<9) NOT ENFORCED, CHECK (w<>'it''s \\n ő')) ENGINE=MEMORY",
              "INSERT INTO `bo``und` SELECT seq, 10+seq MOD 80, 'x' FROM seq_1_to_30000")
    keeper = make_keeper(world).init()
    before, room = world.snapshot(), "SELECT max_data_length FROM information_schema.tables WHERE " \
        "table_schema=DATABASE() AND table_name='bo`und'"
    limit = world.value(room)
    keeper.dump()
    lose(world)
    assert keeper.run("--restore", fault=point + "=kill").rc != DONE
    keeper.start()
    wait_for(lambda: not os.path.exists(os.path.join(keeper.dumps_dir, "pending.json")), "the tidying up")
    world.assert_is(before)
    assert limit <= world.value(room) < 1.1 * limit


def test_the_cleanup_waits_for_a_table_as_long_as_a_restore(make_server, make_world, make_keeper):
    """A game transaction that has read a table delays the cleanup after an interrupted restore. The cleanup waits for [restore]
    lock_wait, so that other sessions of the game get through, and succeeds after that transaction."""
    world = make_world(on=make_server())
    world.sql("CREATE TABLE bound (id INT PRIMARY KEY, CONSTRAINT low CHECK (id<9)) ENGINE=MEMORY", "INSERT INTO bound VALUES (1)")
    keeper = make_keeper(world, {"restore": {"lock_wait": "1s"}}).init()
    before = world.snapshot()
    keeper.dump()
    lose(world)
    assert keeper.run("--restore", fault="restore.dropped=kill").rc != DONE
    with world.connect() as old, world.connect() as game, old.cursor() as reads, game.cursor() as cur:
        reads.execute("START TRANSACTION")
        reads.execute("SELECT * FROM bound")
        keeper.start()
        wait_for(lambda: world.server.sessions(info="ALTER TABLE `bound`%"), "the cleanup")
        cur.execute("SET SESSION lock_wait_timeout=20")
        cur.execute("SELECT * FROM bound")
        assert cur.fetchall() == ((1,),)
    keeper.wait(lambda: not os.path.exists(os.path.join(keeper.dumps_dir, "pending.json")), "the end of the cleanup")
    world.assert_is(before)


ZONE = "SET time_zone='+05:30', sql_mode='NO_UNSIGNED_SUBTRACTION'"
SESSION_CHECKS = [
    # bonus is valid only in a session of this time zone, pair only in one of this SQL mode
    "CREATE TABLE bonus (id INT PRIMARY KEY, at TIMESTAMP NOT NULL, day DATE NOT NULL, CHECK (DATE(at)=day), "
    "CONSTRAINT few CHECK (id<1000), CONSTRAINT off1 CHECK (id>5) NOT ENFORCED) ENGINE=MEMORY",
    "INSERT INTO bonus VALUES (1,'2026-07-01 01:30:00','2026-07-01')",
    "CREATE TABLE pair (id INT PRIMARY KEY, a INT UNSIGNED, b INT UNSIGNED, CONSTRAINT `dif``f` CHECK (a-b > -10)) ENGINE=MEMORY",
    "INSERT INTO pair VALUES (1,1,2)"]


def test_checks_that_depend_on_the_session(make_server, make_world, make_keeper):
    """Rows that a CHECK accepts only in the server's time zone or SQL mode are restored in every way, and after a kill, with
    the same constraints enforced."""
    server = make_server()
    again(server, "time_zone='+05:30'", "sql_mode='NO_UNSIGNED_SUBTRACTION'")
    world, other = make_world(on=server), make_world("empty", on=server)
    world.sql(ZONE, *SESSION_CHECKS)
    keeper = make_keeper(world).init()
    for schema in ("worldkeeper_drill_w1", other.schema):
        server.grant("keeper@localhost", schema)
    before = world.snapshot()
    keeper.dump()
    for _ in range(2):
        lose(world)
        assert "warning" not in keeper.ok("--restore", "--json")
        world.assert_is(before)
    assert "warning" not in keeper.ok("--restore", "--into", other.schema, "--json")
    other.assert_is(before)
    assert "not enforced" not in str(keeper.ok("--drill", "--json"))
    lose(world)
    assert keeper.run("--restore", fault="restore.dropped=kill").rc != DONE
    assert "warning" not in keeper.ok("--restore", "--force", "--json")
    world.assert_is(before)
    world.sql("DROP TABLE bonus, pair")
    keeper.ok("--restore", "--force")
    world.assert_is(before)


def test_checks_that_this_server_cannot_confirm(make_server, make_world, make_keeper):
    """A CHECK that rows violate in the server's time zone and SQL mode too does not prevent the restore of the newest dump. It
    stays not enforced, and the warning has the statement that enforces it."""
    world = make_world(on=make_server())
    keeper = make_keeper(world).init()
    keeper.dump()
    world.sql(ZONE, *SESSION_CHECKS)
    before = world.snapshot()
    dump = keeper.dump()["name"]
    for schema in ("worldkeeper_drill_w1", "beside"):
        world.server.grant("keeper@localhost", schema)
    assert "not enforced" not in str(keeper.ok("--drill", "--json"))
    assert "ALTER TABLE `beside`.`pair` ALTER CHECK" in keeper.ok("--restore", "--into", "beside", "--json")["warning"]
    for _ in range(2):
        lose(world)
        done = keeper.ok("--restore", "--json")
        assert done["dump"] == dump and not done["skipped"], done
        alters = re.findall(r"ALTER TABLE [^;]* ENFORCED", done["warning"])
        assert sorted(alters) == ["ALTER TABLE `bonus` ALTER CHECK `bonus_chk_1` ENFORCED",
                                  "ALTER TABLE `pair` ALTER CHECK `dif``f` ENFORCED"], done
        assert "bonus_chk_1` CHECK ((cast(`at` as date) = `day`)) /*!80016 NOT" in world.sql("SHOW CREATE TABLE bonus")[0][1]
        world.sql(ZONE, *alters)
        world.assert_is(before)


@pytest.mark.parametrize("end", ["kill", "lock"])
def test_checks_after_an_interrupted_rename(make_server, make_world, make_keeper, end):
    """The game writes a row that a CHECK refuses here, before the restore renames the constraints. If the restore is killed
    then, or if the table is locked, the message blames no row, and the cleanup enforces what can be enforced and reports the
    rest."""
    server = make_server()
    world = make_world(on=server)
    keeper = make_keeper(world, {"restore": {"lock_wait": "1s"}}).init()
    world.sql(ZONE, *SESSION_CHECKS[:2], "DELETE FROM bonus")
    keeper.dump()
    lose(world)
    process = keeper.popen("--restore", "--json", fault="restore.dropped=stop,restore.unenforced=" + ("kill" if end == "kill" else "stop"))
    pids = wait_stopped(keeper, "restore.dropped")
    world.sql(ZONE, SESSION_CHECKS[1])
    go_on(pids)
    with server.admin() as game, game.cursor() as cur:
        if end == "lock":
            wait_for(lambda: "`id` < 1000)) /*" in world.sql("SHOW CREATE TABLE bonus")[0][1], "the ALTER", timeout=20)
            pids = wait_stopped(keeper, "restore.unenforced")
            cur.execute(f"LOCK TABLES {ident(world.schema)}.bonus READ")
            go_on(pids)
        done = keeper.finish(process)
    assert "rows violate" not in done.out and (done.rc != DONE if end == "kill" else "ock wait timeout" in done.out), done
    keeper.start()
    wait_for(lambda: not os.path.exists(os.path.join(keeper.dumps_dir, "pending.json")), "the tidying up")
    create = world.sql("SHOW CREATE TABLE bonus")[0][1]
    assert "`few` CHECK ((`id` < 1000))," in create and "= `day`)) /*!80016 NOT" in create, create
    keeper.wait_log("ALTER TABLE `bonus` ALTER CHECK `bonus_chk_1` ENFORCED")


def test_checks_do_not_drop_the_journal(make_server, make_world, make_keeper):
    """A row of the journal that a CHECK refuses in our session is restored with all other changes, each time."""
    server = make_server(*LOG, "--default-time-zone=+05:30", "--sql-mode=NO_UNSIGNED_SUBTRACTION")
    world = make_world(on=server)
    keeper = make_keeper(world, {"dump": {"interval": "1h"}}).init()
    server.grant("keeper@localhost", world.schema)
    server.sql("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO keeper@localhost")
    world.sql(ZONE, *SESSION_CHECKS, "DELETE FROM bonus", "DELETE FROM pair")
    dump_and_follow(keeper)
    world.sql(ZONE, "INSERT INTO bonus VALUES (1,'2026-07-01 01:30:00','2026-07-01')", "INSERT INTO pair VALUES (1,1,2)")
    for n in range(2):
        world.sql(f"INSERT INTO chat VALUES ({90 + n},'late')")
        before, last = world.snapshot(), keeper.status().get("last_restore")
        server.crash()
        told = restored(keeper, last)
        assert told["journal"]["whole"], told
        world.assert_is(before)
        # Until then the journal ends where the restore named the constraints.
        keeper.wait(lambda: keeper.newest()["generation"] == keeper.status()["generation"], "a dump of the restored world")


def test_checks_by_hand(make_server, make_world, make_keeper):
    """The command in LIMITS of worldkeeper(8) loads a dump whose rows violate a CHECK in the dump's session."""
    server = make_server()
    world, other = make_world(on=server), make_world("empty", on=server)
    world.sql(ZONE, *SESSION_CHECKS)
    keeper = make_keeper(world).init()
    before = world.snapshot()
    keeper.dump()
    text = subprocess.run(["gunzip", "-c", keeper.path(keeper.newest())], capture_output=True, check=True).stdout
    assert subprocess.run(client(server, other.schema), input=text, capture_output=True, check=False).returncode != 0
    manual = open(os.path.join(os.path.dirname(__file__), "../../etc/worldkeeper.8"), encoding="utf-8").read()
    command = re.search(r"sed -E \\\(aq(.*)\\\(aq", manual)[1].replace("\\e", "\\")
    text = subprocess.run(["sed", "-E", command], input=text, capture_output=True, check=True).stdout
    subprocess.run(client(server, other.schema), input=text, check=True)
    other.sql(ZONE, "ALTER TABLE bonus ALTER CHECK bonus_chk_1 ENFORCED, ALTER CHECK few ENFORCED",
              "ALTER TABLE pair ALTER CHECK `dif``f` ENFORCED")
    other.assert_is(before)


def test_generated_columns_of_another_time_zone(make_server, make_world, make_keeper):
    """--check and the result of a restore name durable tables whose generated columns depend on the time zone, and the
    statement of the warning computes them as the game did."""
    world = make_world(on=make_server())
    world.sql(ZONE, *(f"CREATE TABLE {t} (id INT PRIMARY KEY, at TIMESTAMP NULL, n INT, {column}) ENGINE=InnoDB"
                      for t, column in (("hours", "h INT AS (HOUR(at)) STORED"),
                                        ("chain", "h INT AS (HOUR(at)), i INT AS (h+1) STORED"),
                                        ("days", "h DATETIME AS (at), KEY (h)"),
                                        ("second", "h INT AS (HOUR(at)), KEY (n, h)"),
                                        ("epoch", "h DATETIME AS (FROM_UNIXTIME(n)) STORED"),
                                        ("fine", "h INT AS (n+1) STORED"), ("read_only", "h INT AS (HOUR(at))"))),
              *(f"INSERT INTO {t} (id,at,n) VALUES (1,'2026-05-05 02:00:00',7)"
                for t in ("hours", "chain", "days", "second", "epoch", "fine", "read_only")))
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}}).init()
    told = [c["text"] for c in keeper.run("--check", "--json").result["checks"] if "over a TIMESTAMP" in c["text"]]
    assert len(told) == 1 and told[0].endswith(": `chain`, `days`, `epoch`, `hours`, `second`"), told
    reads = [f"SELECT h FROM {t}" for t in ("hours", "chain", "days", "epoch", "fine")] + ["SELECT h FROM days FORCE INDEX (h)"]
    before = [world.sql(ZONE, s) for s in reads]
    keeper.dump()
    lose(world)
    warning = keeper.ok("--restore", "--json")["warning"]
    alters = re.findall(r"ALTER TABLE [^;]*COPY", warning)
    assert sorted(a.split("`")[1] for a in alters) == ["chain", "days", "epoch", "hours", "second"], warning
    assert world.sql(ZONE, "SELECT h FROM hours") != before[0]
    world.sql(ZONE, *alters)
    assert [world.sql(ZONE, s) for s in reads] == before


def test_libraries(make_server, make_world, make_keeper):
    """Libraries (CREATE LIBRARY) are dumped and restored like functions, and --check reports a missing privilege to read them."""
    server = make_server("--log-bin-trust-function-creators=ON")
    world, other = make_world(on=server), make_world("empty", on=server)
    world.sql(r"""CREATE LIBRARY `li``b` COMMENT 'it''s' LANGUAGE JAVASCRIPT AS
              'export function f(n) { return n + "ő;;\\n" }'""")
    keeper = make_keeper(world).init()

    def libraries(schema):
        return server.sql("SELECT library_name, library_definition, language, sql_mode FROM "
                          f"information_schema.libraries WHERE library_schema='{schema}'")

    def check():
        told = keeper.run("--check", "--json").result["checks"]
        return [c for c in told if c["name"] == "definitions"]
    before = libraries(world.schema)
    assert before and any("SHOW_ROUTINE" in c.get("hint", "") for c in check()), check()
    server.sql("GRANT SHOW_ROUTINE ON *.* TO keeper@localhost")
    assert [c["level"] for c in check()] == ["ok"], check()
    dump = keeper.dump()
    stock_restore(server, dump["path"], other.schema)
    assert libraries(other.schema) == before
    server.sql(f"DROP DATABASE {world.schema}", f"CREATE DATABASE {world.schema}")
    server.grant("keeper@localhost", world.schema, RIGHTS + ", CREATE ROUTINE, ALTER ROUTINE, EXECUTE")
    keeper.ok("--restore", "--force")
    assert libraries(world.schema) == before


def test_read_only(make_server, make_world, make_keeper):
    """A restore on a read-only server fails with a message that says so and changes nothing; it succeeds once the server
    accepts writes."""
    server = make_server()
    world = make_world(on=server)
    keeper = make_keeper(world).init()
    before = world.snapshot()
    keeper.dump()
    lose(world)
    empty = world.snapshot()
    for setting in ("super_read_only", "read_only"):
        again(server, setting + "=ON")
        done = keeper.run("--restore")
        assert done.rc == FAILED and "read-only" in done.err and "HINT" in done.err, done
        again(server, "super_read_only=OFF", "read_only=OFF")
        world.assert_is(empty, setting)
    keeper.ok("--restore")
    world.assert_is(before)


def test_read_only_after_a_crash(doomed, victim):
    """A server that starts read-only, as members of a group do, makes the world wait; it is restored once the server accepts
    writes."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start()
    victim.crash("--super-read-only=ON")
    doomed.wait_state("WAITING")
    doomed.wait_log("read-only")
    assert doomed.flag().rstrip(".") in ("WAITING", "RESTORING")
    again(victim, "super_read_only=OFF", "read_only=OFF")
    doomed.wait_state("UP")
    doomed.world.assert_is(before)


def test_offline_mode(doomed, victim):
    """Offline mode gives the verdict DENIED and causes no restore."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start()
    again(victim, "offline_mode=ON")
    doomed.wait_verdict("DENIED")
    doomed.wait_log("offline mode")
    again(victim, "offline_mode=OFF")
    doomed.wait_verdict("ALIVE")
    doomed.wait_state("UP")
    doomed.world.assert_is(before)
    assert doomed.status().get("last_restore") is None


@pytest.mark.parametrize("rights", ["of the account", "of a role", "of a mandatory role", "partial"])
def test_privileges_by_other_ways(make_server, make_world, make_keeper, rights):
    """Privileges count if they come from a default role, a mandatory role, or from grants under partial_revokes, where a
    schema's name in a GRANT is no pattern."""
    server = make_server("--activate-all-roles-on-login=" + str(int("mandatory" in rights)),
                         "--partial-revokes=" + str(int(rights == "partial")))
    world = make_world(on=server)
    keeper = make_keeper(world, account=rights == "of the account")
    if rights != "of the account":
        server.sql(f"CREATE USER keeper@localhost IDENTIFIED BY '{CANARY}'", "CREATE ROLE kept")
        who = "keeper@localhost" if rights == "partial" else "kept"
        schema = ident(world.schema) if rights == "partial" else ident(world.schema.replace("_", "\\_"))
        server.sql(f"GRANT {SERVER_RIGHTS} ON *.* TO {who}", f"GRANT {RIGHTS} ON {schema}.* TO {who}")
    if rights == "of a role":
        server.sql("GRANT kept TO keeper@localhost", "SET DEFAULT ROLE kept TO keeper@localhost")
    if rights == "of a mandatory role":
        again(server, "mandatory_roles='kept'")
    keeper.init()
    before = world.snapshot()
    keeper.dump()
    lose(world)
    keeper.ok("--restore")
    world.assert_is(before)


def test_global_transaction_ids(make_server, make_world, make_keeper):
    """A dump and a restore work with GTIDs and enforce_gtid_consistency."""
    server = make_server("--log-bin=log", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
                         "--log-bin-trust-function-creators=ON")
    world = make_world(on=server)
    keeper = make_keeper(world, {"journal": {"mode": "off"}}).init()
    before = world.snapshot()
    keeper.dump()
    lose(world)
    keeper.ok("--restore")
    world.assert_is(before)
    server.sql("GRANT SESSION_VARIABLES_ADMIN ON *.* TO keeper@localhost")
    keeper.configure({"restore": {"binlog": "no"}})
    lose(world)
    assert "warning" not in keeper.ok("--restore", "--json")
    world.assert_is(before)


def test_deletes_that_are_not_in_the_log(make_server, make_world, make_keeper):
    """A DELETE of two tables that fails in a trigger deletes rows of the other table without logging them (MySQL 9.7.4). When
    such a row is inserted again, the restore detects that the log is incomplete: it restores the dump alone and reports why."""
    server = make_server("--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON")
    world = make_world(on=server)
    world.sql("CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO a VALUES (1),(2),(3)",
              "CREATE TABLE b (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO b VALUES (1),(2),(3)",
              "CREATE TRIGGER third BEFORE DELETE ON a FOR EACH ROW BEGIN IF OLD.id=3 THEN "
              "SIGNAL SQLSTATE '45000'; END IF; END")
    keeper = make_keeper(world).init()
    server.sql("GRANT SET_ANY_DEFINER, SYSTEM_USER ON *.* TO keeper@localhost")
    keeper.dump()
    before = world.snapshot()
    with pytest.raises(pymysql.err.OperationalError):
        world.sql("DELETE x,y FROM a x JOIN b y ON x.id=y.id")
    assert world.sql("SELECT * FROM a") == ((3,),)
    assert world.sql("SELECT * FROM b") == ((3,),)  # the log has two deleted rows of a and none of b
    world.sql("INSERT INTO a VALUES (1),(2)", "INSERT INTO b VALUES (1)")
    server.crash()
    done = keeper.ok("--restore", "--json")
    assert not done["journal"]["used"] and "is in the base, but was inserted later" in done["journal"]["gap"], done
    world.assert_is(before)


DEFINERS = {  # definer of the trigger -> privileges needed to create it again
    "root@localhost": ("SET_ANY_DEFINER", "SYSTEM_USER"),
    "game@localhost": ("SET_ANY_DEFINER",),
    "nobody@nowhere": ("ALLOW_NONEXISTENT_DEFINER", "SET_ANY_DEFINER"),
}


@pytest.mark.parametrize("definer", DEFINERS)
def test_triggers_of_others(make_server, make_world, make_keeper, definer):
    """Without the privileges to create a trigger again, a restore names the trigger and changes nothing; with them it restores
    the world."""
    server = make_server("--log-bin=log")
    world = make_world(on=server)
    server.account("game", [world.schema])
    keeper = make_keeper(world, {"journal": {"mode": "off"}}).init()
    world.sql(f"CREATE DEFINER={definer} TRIGGER watch BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=7")
    before = world.snapshot()
    keeper.dump()
    lose(world)
    empty = world.snapshot()

    def refused(words):
        done = keeper.run("--restore")
        assert done.rc != DONE and "trigger watch" in done.err and words in done.err, done
        world.assert_is(empty)
    refused("log_bin_trust_function_creators")
    again(server, "log_bin_trust_function_creators=ON")
    for right in DEFINERS[definer]:
        refused("SYSTEM_USER" if right == "SYSTEM_USER" else "SET_ANY_DEFINER")
        server.sql(f"GRANT {right} ON *.* TO keeper@localhost")
    keeper.ok("--restore")
    world.assert_is(before)


def test_room_for_temporary_tables(make_server, make_world, make_keeper):
    """The limits of internal temporary tables (TempTable, tmp_table_size) do not limit a restore."""
    server = make_server("--temptable-max-ram=2M", "--temptable-max-mmap=0", "--tmp-table-size=1024",
                         "--internal-tmp-mem-storage-engine=TempTable")
    world = make_world("big", on=server)
    keeper = make_keeper(world).init()
    before = world.checksums()
    keeper.dump()
    lose(world)
    keeper.ok("--restore")
    assert world.checksums() == before


ORACLES = """-- MySQL dump 10.13  Distrib 9.7.4, for Linux (x86_64)
--
-- Host: localhost    Database: game
-- ------------------------------------------------------
-- Server version\t9.7.4

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
SET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION.SQL_LOG_BIN;
SET @@SESSION.SQL_LOG_BIN= 0;

--
-- GTID state at the beginning of the backup
--

SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '7a1d9d36-0000-11f0-8f1b-02fc00000001:1-5,
8b1d9d36-0000-11f0-8f1b-02fc00000001:1-77';

--
-- Table structure for table `treasure`
--

DROP TABLE IF EXISTS `treasure`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `treasure` (
  `id` int unsigned NOT NULL AUTO_INCREMENT,
  `what` varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  `hidden` int DEFAULT '3' /*!80023 INVISIBLE */,
  `raw` varbinary(9) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `slow` (`what`) /*!80000 INVISIBLE */,
  CONSTRAINT `few` CHECK ((`hidden` < 10)) /*!80016 NOT ENFORCED */
) ENGINE=MEMORY AUTO_INCREMENT=44 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `treasure`
--

LOCK TABLES `treasure` WRITE;
/*!40000 ALTER TABLE `treasure` DISABLE KEYS */;
INSERT INTO `treasure` (`id`, `what`, `hidden`, `raw`) VALUES
(1,'Ő; it\\'s',70,_binary '\\0)'),(43,NULL,NULL,NULL);
/*!40000 ALTER TABLE `treasure` ENABLE KEYS */;
UNLOCK TABLES;
SET @@SESSION.SQL_LOG_BIN = @MYSQLDUMP_TEMP_LOG_BIN;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

-- Dump completed on 2026-11-21 22:00:00
"""


@pytest.mark.parametrize("there", [False, True])
def test_a_file_of_oracles_mysqldump(make_server, make_world, make_keeper, tmp, there):
    """A restore of a file from Oracle's mysqldump restores its rows and definitions and leaves gtid_purged as it is."""
    server = make_server("--log-bin=log", "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
    world = make_world("empty", on=server)
    keeper = make_keeper(world, {"journal": {"mode": "off"}}).init()
    path = f"{tmp}/oracles.sql"
    with open(path, "w") as f:
        f.write(ORACLES)
    create = ORACLES[ORACLES.index("CREATE TABLE"):].partition(";")[0]
    if there:
        world.sql(create)
    purged = server.value("SELECT @@GLOBAL.gtid_purged")
    keeper.ok("--restore=" + path, "--force")
    assert world.sql("SELECT id, what, hidden, raw FROM treasure ORDER BY id") == (
        (1, "Ő; it's", 70, b"\0)"), (43, None, None, None))
    got, want = world.sql("SHOW CREATE TABLE treasure")[0][1], create
    assert got.replace("CONSTRAINT `few`", "") == want.replace("CONSTRAINT `few`", "") and "`few`" in got
    assert server.value("SELECT @@GLOBAL.gtid_purged") == purged


def test_the_port_of_the_other_protocol(make_server, make_world, make_keeper):
    """A connection to the port or socket of the X protocol fails with a message that names that protocol."""
    server = make_server()
    port = free_port()
    server.stop()
    server.start("--mysqlx=ON", f"--mysqlx-port={port}", "--mysqlx-bind-address=127.0.0.1",
                 f"--mysqlx-socket={server.dir}/d/x")
    keeper = make_keeper(make_world(on=server))
    for place in ({"socket": None, "host": "127.0.0.1", "port": str(port), "tls": "off"},
                  {"socket": f"{server.dir}/d/x", "host": None, "port": None, "tls": None}):
        keeper.configure({"mysql": place})
        done = keeper.run("--init")
        assert done.rc == FAILED and "X protocol" in done.err and "HINT" in done.err, done
