"""Worlds in which some tables have no primary key: only these are copied under a lock, and all tables of a dump show the same
moment."""
import gzip
import os
import signal
import threading

import pymysql
import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, USER
from wk.relay import Relay
from wk.util import PATIENCE, ident, wait_for
from wk.watch import Beside

pytestmark = pytest.mark.third_on_mysql

LOG = ("--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=1")
ACCOUNTS, MONEY = 300, 300 * 1000
WORLD = ["CREATE TABLE bank (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=MEMORY",
         f"INSERT INTO bank SELECT seq, 1000 FROM seq_1_to_{ACCOUNTS}",
         "CREATE TABLE purse (id INT NOT NULL, n INT NOT NULL, KEY (id)) ENGINE=MEMORY",
         f"INSERT INTO purse SELECT seq, 0 FROM seq_1_to_{ACCOUNTS}",
         "CREATE TABLE till (n INT NOT NULL) ENGINE=MEMORY", "INSERT INTO till VALUES (0)"]
TRIGGER = ("CREATE DEFINER=keeper@localhost TRIGGER pays AFTER UPDATE ON till FOR EACH ROW "
           "UPDATE bank SET n=n-(NEW.n-OLD.n) WHERE id=7")
# Each entry is one statement, or several under the game's own lock, that moves money between tables with and without a key.
MOVES = [["UPDATE bank b, purse p SET b.n=b.n-1, p.n=p.n+1 WHERE b.id=p.id AND b.id MOD 7=3"],
         ["UPDATE till SET n=n+1"],
         ["LOCK TABLES bank WRITE, purse WRITE", "UPDATE purse SET n=n-2 WHERE id=11",
          "UPDATE bank SET n=n+2 WHERE id=12", "UNLOCK TABLES"]]
TOTAL = "SELECT (SELECT SUM(n) FROM bank)+(SELECT SUM(n) FROM purse)+(SELECT SUM(n) FROM till)"


class Mover(Beside):
    """Moves money as fast as possible."""

    def __init__(self, world, statements):
        super().__init__()
        self.world, self.statements, self.moves = world, statements, 0

    def work(self):
        con = self.world.server.admin(self.world.schema, read_timeout=PATIENCE)
        with con.cursor() as cur:
            while not self.ended.is_set():
                for statement in self.statements:
                    cur.execute(statement)
                self.moves += 1
        con.close()


@pytest.fixture
def keeper(make_world, make_keeper, make_server):
    world = make_world("empty", on=make_server(*LOG))
    world.sql(*WORLD)
    keeper = make_keeper(world).init()
    world.sql(TRIGGER)
    return keeper


def as_restored(keeper, dump):
    """Restores a dump beside the world and returns {table: its rows}."""
    into = keeper.world.schema + "_x"
    keeper.server.account(USER, [keeper.world.schema, into])
    keeper.ok("--restore=" + dump["name"], "--into", into)
    rows = {t["name"]: sorted(keeper.server.sql(f"SELECT * FROM {ident(t['name'])}", schema=into), key=repr)
            for t in dump["tables"] if not t["name"].startswith("worldkeeper_")}
    keeper.server.sql(f"DROP DATABASE {ident(into)}")
    return rows


def money(rows):
    return sum(row[-1] for table in rows.values() for row in table)


def dump_stopped_at(keeper, point):
    dumping = keeper.popen("--dump", "--json", fault=point + "=stop")
    return dumping, wait_stopped(keeper, point)


def finished(keeper, dumping):
    wait_for(lambda: go_on(stopped(keeper)) or dumping.poll() is not None, "the dump")
    return keeper.finish(dumping)


@pytest.mark.slow
def test_all_tables_are_of_one_moment(keeper):
    """Money that is moved between tables is neither lost nor doubled, in dumps that are taken meanwhile and in the world that a
    restore with the journal gives after a kill."""
    world = keeper.world
    world.sql("INSERT INTO bank SELECT seq+1000, 0 FROM seq_1_to_40000")  # the scan takes a while
    with Mover(world, MOVES[0]) as a, Mover(world, MOVES[1]) as b, Mover(world, MOVES[2]) as c:
        dumps = []
        for _ in range(4):
            before = [m.moves for m in (a, b, c)]
            wait_for(lambda: all(m.moves > n for m, n in zip((a, b, c), before)), "all to move")
            keeper.dump()
            dumps.append(keeper.newest())
    assert [d["method"] for d in dumps] == ["fuzzy"] * 4, keeper.log()
    seen = [as_restored(keeper, d) for d in dumps]
    assert [money(rows) for rows in seen] == [MONEY] * 4
    assert len({repr(rows["purse"]) for rows in seen}) == 4
    now = {table: sorted(world.sql(f"SELECT * FROM {table}")) for table in ("bank", "purse", "till")}
    assert world.sql(TOTAL)[0][0] == MONEY
    keeper.start()
    keeper.server.crash()
    keeper.wait_state("UP")
    wait_for(lambda: world.rows("bank"), "the world to be back")
    keeper.wait_log("restored")
    for table, rows in now.items():
        assert sorted(world.sql(f"SELECT * FROM {table}")) == rows, table


def test_only_writers_of_tables_without_a_key_wait(keeper):
    """While tables without a key are copied, other tables can be written, and what is written is in the dump."""
    world = keeper.world
    dumping, at_work = dump_stopped_at(keeper, "dump.locked")
    world.sql("UPDATE bank SET n=n+5 WHERE id=1", "INSERT INTO bank VALUES (9999, 0)")
    assert world.rows("purse") == ACCOUNTS  # readers do not wait
    for table in ("purse", "till"):
        with pytest.raises(pymysql.err.OperationalError, match="1205"):
            world.sql("SET lock_wait_timeout=1", f"UPDATE {table} SET n=n+1")
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc == DONE and "warning" not in done.result, done
    dump = keeper.newest()
    assert dump["method"] == "fuzzy" and money(as_restored(keeper, dump)) == MONEY + 5


def test_a_game_that_keeps_a_table_without_a_key(keeper):
    """If a game holds LOCK TABLES for longer than one attempt of the dump, the dump waits and then contains what the game
    wrote."""
    con = keeper.server.admin(keeper.world.schema)
    with con.cursor() as cur:
        cur.execute("LOCK TABLES purse WRITE, bank WRITE")
        dumping = keeper.popen("--dump", "--json")
        with pytest.raises(Exception):
            dumping.wait(7)
        cur.execute("UPDATE purse SET n=n+1 WHERE id=1")
        cur.execute("UPDATE bank SET n=n-1 WHERE id=1")
        cur.execute("UNLOCK TABLES")
    con.close()
    done = keeper.finish(dumping)
    assert done.rc == DONE, done
    rows = as_restored(keeper, keeper.newest())
    assert keeper.newest()["method"] == "fuzzy" and money(rows) == MONEY and (1, 1) in rows["purse"]


@pytest.mark.parametrize("point", ["dump.listed#1", "dump.scanned#1"])
@pytest.mark.parametrize("change", ["ALTER TABLE purse ADD more INT", "ALTER TABLE purse ADD PRIMARY KEY (id)",
                                    "TRUNCATE TABLE purse", "DROP TABLE purse", "ALTER TABLE purse ENGINE=InnoDB"])
def test_a_definition_that_changes_before_the_lock(keeper, change, point):
    """If a definition changes before the lock, the tables are scanned once more, and the dump equals the world as it is then,
    without a copy of all tables."""
    world = keeper.world
    dumping, at_work = dump_stopped_at(keeper, point)
    world.sql(change)
    go_on(at_work)
    done = finished(keeper, dumping)
    assert done.rc == DONE, done
    dump = keeper.newest()
    assert dump["method"] == "fuzzy" and "warning" not in done.result, (dump, done)
    rows = as_restored(keeper, dump)
    there = [t for (t,) in world.sql("SELECT TABLE_NAME FROM information_schema.TABLES WHERE ENGINE='MEMORY' AND "
                                     "TABLE_SCHEMA=DATABASE() AND TABLE_NAME NOT LIKE 'worldkeeper%'")]
    assert sorted(rows) == sorted(there)
    for table, found in rows.items():
        assert found == sorted(world.sql(f"SELECT * FROM {table}"), key=repr), table


def test_a_definition_that_waits_for_the_lock(keeper):
    """An ALTER of a table that is being copied waits for the copies; the dump is complete and needs no second attempt."""
    world = keeper.world
    dumping, at_work = dump_stopped_at(keeper, "dump.locked")
    alter = threading.Thread(target=world.sql, args=("ALTER TABLE purse ADD more INT",), daemon=True)
    alter.start()
    wait_for(lambda: keeper.server.sessions(db=world.schema, state="Waiting for%lock"), "the ALTER to wait")
    go_on(at_work)
    done = finished(keeper, dumping)
    alter.join(PATIENCE)
    assert done.rc == DONE and not alter.is_alive(), done
    rows = as_restored(keeper, keeper.newest())
    assert money({t: rows[t] for t in ("bank", "till")}) == ACCOUNTS * 1000 and len(rows["purse"]) == ACCOUNTS
    assert len(rows["purse"][0]) in (2, 3) and "warning" not in done.result and keeper.newest()["method"] == "fuzzy"


@pytest.mark.parametrize("point", ["dump.scanned#1", "dump.locked", "dump.table_read#1"])
@pytest.mark.parametrize("who", ["keeper", "session"])
def test_a_kill_in_the_middle(keeper, who, point):
    """If the dump or its session is killed, neither an incomplete dump nor a lock remains, and the next dump works."""
    dumping, at_work = dump_stopped_at(keeper, point)
    if who == "session":
        keeper.server.end_sessions(id=min(s.id for s in keeper.server.sessions(user=USER, db=keeper.world.schema)))
        go_on(at_work)
        done = keeper.finish(dumping)
        assert done.rc == FAILED, done
    else:
        for pid in at_work:
            os.kill(pid, signal.SIGKILL)
        keeper.finish(dumping)
    assert not keeper.dumps()
    wait_for(lambda: not keeper.server.sessions(user=USER), "the sessions of the dump to end")
    keeper.world.sql("SET lock_wait_timeout=60", *MOVES[0], *MOVES[1])
    keeper.dump()
    assert not keeper.parts() and keeper.newest()["method"] == "fuzzy"


@pytest.mark.only("mariadb", why="passwords of another go through no relay")
def test_rows_and_counter_are_those_under_the_lock(make_world, make_keeper, make_server):
    """Rows that are written after the unlock are in the dump neither as rows nor in the AUTO_INCREMENT counter."""
    world = make_world("empty", on=make_server(*LOG))
    world.sql(*WORLD, "CREATE TABLE ticket (id INT NOT NULL AUTO_INCREMENT, KEY (id)) ENGINE=MEMORY",
              "INSERT INTO ticket VALUES (),(),()")
    unlocked = []

    def say(sql):
        if "UNLOCK TABLES" in sql:
            unlocked.append(sql)
        elif len(unlocked) == 1:
            unlocked.append(sql)
            world.sql("INSERT INTO ticket VALUES (),()")
    with Relay(world.server, say) as relay:
        keeper = make_keeper(world, {"mysql": relay.settings}).init()
        unlocked.clear()
        keeper.dump()
        assert len(unlocked) == 2 and world.rows("ticket") == 5
    dump = keeper.newest()
    told = next(t for t in dump["tables"] if t["name"] == "ticket")
    assert dump["method"] == "fuzzy" and told["rows"] == 3 and told["auto_increment"] == 4, told
    with gzip.open(keeper.path(dump), "rt") as f:
        assert "AUTO_INCREMENT=4" in f.read()


def test_check_names_the_tables_that_are_copied(keeper):
    """--check names the tables that are copied under a lock and says that their writers wait. If no table has a key, the method
    is copy."""
    def method():
        return next(c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == "method")
    told = method()
    assert told["level"] == "ok" and told["text"].startswith("fuzzy: "), told
    assert told["text"].endswith("without a primary key, and therefore copied together under a lock of these tables, "
                                 "which their writers wait for: `purse`, `till`"), told
    keeper.world.sql("DROP TRIGGER pays", "DROP TABLE bank")
    assert method()["text"].startswith("copy: ") and "no table has a primary key" in method()["text"], method()
    keeper.dump()
    assert keeper.newest()["method"] == "copy"


def test_rows_are_counted_as_they_are_now(keeper):
    """MySQL caches statistics for a day, also of a table that is locked and copied; the manifest has the actual number of
    rows."""
    keeper.start()
    keeper.dump()
    keeper.world.sql("INSERT INTO purse VALUES (1000, 1)")
    keeper.dump()
    keeper.world.sql("INSERT INTO purse VALUES (1001, 1)")
    keeper.dump()
    rows = {t["name"]: t["rows"] for t in keeper.newest()["tables"]}
    assert rows["purse"] == ACCOUNTS + 2, rows
