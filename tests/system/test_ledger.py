"""Ledgers: totals are correct at every moment, whatever was rolled up."""
import os
import random
import re
import signal
from decimal import Decimal

import pytest
from wk.crash import stopped
from wk.keeper import USER
from wk.server import MYSQL
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql

ENGINES = ["MEMORY", "InnoDB"]
LEDGER = {"table": "gains", "key": "player, mini", "value": "xp", "time": "at", "levels": "level", "rollup_after": "1d"}


def make(world, engine, index=True):
    world.sql("CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, "
              "mini INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL"
              + (", KEY k USING BTREE (player, mini, id)" if index else "") + f") ENGINE={engine}",
              "CREATE TABLE level (level INT NOT NULL PRIMARY KEY, amount INT) ENGINE=MEMORY",
              "INSERT INTO level VALUES (1,1),(2,3),(3,6)")


def totals(world, view="xp_total"):
    return {row[:2]: row[2] for row in world.sql(f"SELECT player,mini,xp FROM {view}")}


def summed(world):
    return {row[:2]: row[2] for row in world.sql("SELECT player,mini,SUM(xp) FROM gains GROUP BY player,mini")}


@pytest.fixture(params=ENGINES)
def ledger(request, keeper):
    make(keeper.world, request.param)
    keeper.configure({"ledger xp": LEDGER})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    keeper.engine = request.param
    return keeper


@pytest.mark.quick
def test_the_manual_s_week(ledger):
    """The manual's example: gains on Monday, a rollup until Tuesday, gains on Wednesday; then the levels are changed."""
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,4,'2026-11-16 10:00:00'),(2,1,6,'2026-11-16 11:00:00'),"
              "(3,1,3,'2026-11-16 12:00:00')")
    done = ledger.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z", "--json")
    assert done["ledgers"][0]["rolled_up"] == 3 and done["ledgers"][0]["rows"] == 0, done
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,5,'2026-11-18 10:00:00')")
    assert totals(world) == {(1, 1): 9, (2, 1): 6, (3, 1): 3}
    levels = "SELECT player,level,exp,to_next FROM xp_level ORDER BY player"
    assert list(world.sql(levels)) == [(1, 3, 5, 1), (2, 3, 2, 4), (3, 2, 2, 1)]
    world.sql("UPDATE level SET amount=2 WHERE level=2")
    assert list(world.sql(levels))[1] == (2, 3, 3, 3)
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,50,'2026-11-18 10:00:00')")
    assert list(world.sql(levels))[0] == (1, 4, 50, None)


@pytest.mark.each_server
def test_a_total_reads_the_rows_of_its_key(ledger):
    """A query of one total reads only the rows of its key, however many keys there are, if the server knows the key when it
    plans."""
    world, view = ledger.world, "SELECT xp FROM xp_total WHERE player={} AND mini={}"
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"({n % 500},1,1,'2026-01-01')" for n in range(1000)))
    ledger.ok("--rollup", "--until", "2026-01-02")
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"({n % 500},1,1,NOW())" for n in range(5000)),
              "CREATE FUNCTION xp_of(p INT, m INT) RETURNS DECIMAL(41) READS SQL DATA RETURN (" + view.format("p", "m") + ")")
    con = world.server.admin(world.schema)
    with con.cursor() as cur:
        cur.execute("SET @p=7, @m=1")
        cur.execute("PREPARE one FROM '" + view.format("?", "?") + "'")
        for sql in (view.format(7, 1), view.format("@p", "@m"), "EXECUTE one USING @p,@m" if MYSQL else "SELECT xp_of(7,1)",
                    "SELECT level FROM xp_level WHERE player=7 AND mini=1"):
            cur.execute("FLUSH STATUS")
            cur.execute(sql)
            assert cur.fetchall() == ((4 if "level" in sql else 12,),), sql
            cur.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
            read = sum(int(n) for _, n in cur.fetchall())
            assert read < 200, (sql, read)
    con.close()


def test_many_rows_in_pieces(ledger):
    world, rng = ledger.world, random.Random(7)
    rows = [(rng.randrange(300), rng.randrange(3), rng.randrange(-50, 1000)) for _ in range(9000)]
    for n in range(0, len(rows), 3000):
        world.sql("INSERT INTO gains (player,mini,xp,at) VALUES "
                  + ",".join(f"({p},{m},{x},'2026-11-16 10:00:00')" for p, m, x in rows[n:n + 3000]))
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (5,1,7,NOW())")
    wanted = summed(world)
    assert totals(world) == wanted
    done = ledger.ok("--rollup", "--json")["ledgers"][0]
    assert done["rolled_up"] == 9000 and done["rows"] == 1 and done["late"] == 0, done
    assert totals(world) == wanted
    again = ledger.ok("--rollup", "--json")["ledgers"][0]
    assert again["rolled_up"] == 0 and totals(world) == wanted


def test_a_row_that_comes_late(ledger):
    """A row with a time in the past is in its total at once, and the next rollup counts it as late."""
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,1,'2026-11-16 10:00:00')")
    ledger.ok("--rollup", "--json")
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,2,'1970-01-02 00:00:00')")
    assert totals(world) == {(1, 1): 3}
    done = ledger.ok("--rollup", "--json")["ledgers"][0]
    assert done["rolled_up"] == 1 and done["late"] == 1
    assert totals(world) == {(1, 1): 3}


def test_a_row_that_nobody_may_touch(ledger):
    """A row of a prepared XA transaction stays in an InnoDB ledger until it is committed, and does not delay other rows."""
    gain, world = "INSERT INTO gains (player,mini,xp,at) VALUES ", ledger.world
    world.sql(gain + ",".join(f"({n % 7},1,1,'2026-11-16 10:00:00')" for n in range(30)))
    con, inno = world.server.admin(world.schema), ledger.engine == "InnoDB"
    with con.cursor() as cur:
        cur.execute("XA START 'game'")
        cur.execute(gain + "(1,1,100,'2026-11-16 10:00:00')")
        cur.execute("XA END 'game'")
        cur.execute("XA PREPARE 'game'")
        world.sql(gain + "(1,1,1,'2026-11-16 10:00:00')")
        done = ledger.ok("--rollup", "--json")["ledgers"][0]
        cur.execute("XA COMMIT 'game'" if inno else "XA ROLLBACK 'game'")  # MEMORY ignores the rollback
    con.close()
    assert done["rolled_up"] == (31 if inno else 32), done
    assert sum(totals(world).values()) == 131
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == inno


def test_a_clock_of_the_future(ledger):
    """A row with a time in 2037 does not make later rows late."""
    gain, world = "INSERT INTO gains (player,mini,xp,at) VALUES ", ledger.world
    ledger.configure({"ledger xp": {**LEDGER, "rollup_after": "0"}})
    world.sql(gain + "(1,1,1,'2037-01-01 00:00:00'),(2,1,1,'2026-11-16 10:00:00')")
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["late"] == 0
    world.sql(gain + "(1,1,2,'2026-11-17 10:00:00'),(1,1,2,'2026-11-15 10:00:00')")
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["late"] == 1
    assert world.sql("SELECT end_time FROM xp_rollup WHERE player=1")[0][0].year == 2037


@pytest.mark.parametrize("back", [50, 3600, -3600])
def test_a_clock_that_was_set(ledger, back):
    """Marker rows are from before the server's clock was set back or forward. A row that is inserted afterwards is rolled up at
    its age, and not earlier."""
    world, now = ledger.world, "CAST(UNIX_TIMESTAMP(NOW(3))*1000 AS UNSIGNED)"
    ledger.configure({"ledger xp": {**LEDGER, "rollup_after": "3s"}})
    gain = "INSERT INTO gains (player,mini,xp,at) VALUES "
    world.sql(gain + f"(1,1,1,UTC_TIMESTAMP() + INTERVAL {back} SECOND)")
    newest = world.value(f"SELECT {now}") // 1000 + back
    world.sql("REPLACE INTO xp_mark VALUES " + ",".join(f"('m{second % 64}',{1000 * second},1)"
                                                        for second in range(newest - 63, newest + 1)))
    came = world.value(f"SELECT {now}")
    world.sql(gain + "(1,1,1,UTC_TIMESTAMP() + INTERVAL 1 SECOND)")
    ledger.ok("--rollup", "--json")
    assert world.value(f"SELECT COUNT(*) FROM xp_mark WHERE what LIKE 'm%' AND at>{now}") == 0

    def rolled_up():
        ledger.ok("--rollup", "--json")
        ended, left = world.value(f"SELECT {now}"), world.value("SELECT COUNT(*) FROM gains WHERE id=2")
        assert left or ended - came >= 3000
        return not left
    wait_for(rolled_up, "the row's age")
    assert totals(world) == {(1, 1): 2}


def test_until_takes_what_has_no_younger_row_before_it(ledger):
    """In a MEMORY ledger, --until does not roll up an old row with a higher id than a younger row of its key: the rollup position
    would exclude the younger one."""
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,1,'2026-11-16 10:00:00'),(1,1,2,'2026-11-18 10:00:00'),"
              "(1,1,4,'2026-11-16 10:00:00'),(2,1,8,'2026-11-16 10:00:00')")
    wanted = totals(world)
    done = ledger.ok("--rollup", "--until", "2026-11-17 00:00:00Z", "--json")["ledgers"][0]
    assert done["rolled_up"] == (1 if ledger.engine == "MEMORY" else 3), done
    assert totals(world) == wanted == {(1, 1): 7, (2, 1): 8}
    assert ledger.ok("--rollup", "--until", "2026-11-19", "--json")["ledgers"][0]["rows"] == 0
    assert totals(world) == wanted


def give_new_ids(world, done):
    """Executes the statements that the hint of a refused rollup has for rows that were inserted after a TRUNCATE."""
    found = re.findall(r": ((?:UPDATE|ALTER TABLE) [^;]*);", done.json["error"]["hint"])
    assert found, done
    world.sql(*found)


def test_ids_that_begin_again(ledger):
    """After a TRUNCATE, new ids of a MEMORY ledger are below the rollup positions: the rollup is refused with statements that
    correct this."""
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,5,'2026-11-16 10:00:00'),(1,1,6,'2026-11-16 10:00:00')")
    ledger.ok("--rollup", "--json")
    world.sql("TRUNCATE gains", "INSERT INTO gains (player,mini,xp,at) VALUES (1,1,7,'2026-11-16 10:00:00')")
    done = ledger.run("--rollup", "--json")
    if ledger.engine == "InnoDB":
        assert done.rc == 0 and totals(world) == {(1, 1): 18}
        return
    assert done.rc == 4 and "start again" in done.json["error"]["text"], done
    give_new_ids(world, done)
    assert totals(world) == {(1, 1): 18}
    ledger.ok("--rollup", "--json")
    world.sql("TRUNCATE gains")
    give_new_ids(world, ledger.run("--rollup", "--json"))
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,2,'2026-11-16 10:00:00')")
    assert totals(world) == {(1, 1): 20}
    ledger.ok("--rollup", "--json")
    assert totals(world) == {(1, 1): 20}


def test_a_row_with_an_old_id(ledger):
    """If a game inserts a row with an old id into a MEMORY ledger, which is not allowed, the row is in no total, is not deleted,
    and is counted as ignored."""
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join("(1,1,1,'2026-11-16 10:00:00')" for _ in range(9)))
    ledger.ok("--rollup", "--json")
    world.sql("INSERT INTO gains VALUES (3,1,1,100,'2026-11-16 10:00:00'),(12,1,1,20,'2026-11-16 10:00:00')")
    done = ledger.ok("--rollup", "--json")["ledgers"][0]
    memory = ledger.engine == "MEMORY"
    assert done["rolled_up"] == (1 if memory else 2) and done["ignored"] == memory and done["rows"] == memory, done
    assert totals(world) == {(1, 1): 29 if memory else 129}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("columns,row,word", [
    ("player INT NULL, mini INT NOT NULL, xp INT NOT NULL", "NULL,1,1", "is NULL"),
    ("player INT NOT NULL, mini INT NOT NULL, xp INT NULL", "1,1,NULL", "is NULL"),
    ("player INT NOT NULL, mini ENUM('1','b') NOT NULL, xp INT NOT NULL", "1,'x',1", "ENUM"),
    ("player INT NOT NULL, mini INT NOT NULL, xp BIGINT NOT NULL", "1,1,9223372036854775807", "range"),
    ("player INT NOT NULL, mini INT NOT NULL, xp BIGINT UNSIGNED NOT NULL", "1,1,18446744073709551615", "range")])
def test_what_no_total_can_hold(keeper, engine, columns, row, word):
    """NULL, an invalid ENUM value and an overflowing total are named in the error, and nothing is changed."""
    world = keeper.world
    world.sql(f"CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, {columns}, at DATETIME NOT NULL, "
              f"KEY k USING BTREE (player, mini, id)) ENGINE={engine}")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    at = "'2026-11-16 10:00:00'"
    world.sql(f"INSERT INTO gains (player,mini,xp,at) VALUES (1,1,5,{at})")
    keeper.ok("--rollup", "--json")
    world.sql("SET sql_mode=''", f"INSERT INTO gains (player,mini,xp,at) VALUES (0,1,6,{at}),({row},{at}),(2,1,7,{at})")
    before = world.sql("SELECT * FROM gains"), world.sql("SELECT * FROM xp_rollup")
    done = keeper.run("--rollup", "--json")
    assert done.rc != 0 and word in done.json["error"]["text"], done
    assert (world.sql("SELECT * FROM gains"), world.sql("SELECT * FROM xp_rollup")) == before


KEYS = {  # key types: unordered values, some of them equal only to the server
    "INT": "-5,0,7", "BIGINT UNSIGNED": "0,18446744073709551615", "DECIMAL(10,3)": "-1.5,0,2.125", "DOUBLE": "-1e30,0.1,3.25",
    "FLOAT": "0.1,2.5,-7.75", "DATE": "'2026-01-01','1000-01-01'", "DATETIME(3)": "'2026-01-01 00:00:00.125','2025-01-01'",
    "TIMESTAMP": "'2026-01-01 00:00:00','2025-01-01'", "TIME(2)": "'-01:00:00.50','12:00:00'", "YEAR": "1999,2026",
    "CHAR(10) CHARACTER SET utf8mb4": "'Ann','ann','Äpfel','','x''\\\\\\\\'", "VARCHAR(20) CHARACTER SET latin1": "'a','A','b'",
    "VARBINARY(8)": "x'00ff',x'',x'41'", "BINARY(3)": "x'000102',x'ff'", "ENUM('z','a','m')": "'z','a','m'",
    "SET('z','a')": "'z','a','z,a',''", "BIT(9)": "b'0',b'101010101'", "VARCHAR(9) CHARACTER SET ucs2": "'é','f'",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_every_type(keeper, engine, kind, monkeypatch):
    world = keeper.world
    world.sql(f"CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player {kind} NOT NULL, "
              "mini INT NOT NULL, xp DECIMAL(12,2) NOT NULL, more SMALLINT UNSIGNED NOT NULL, at INT NOT NULL, "
              f"KEY k USING BTREE (player, mini, id)) ENGINE={engine}")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None, "value": "xp, more"}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    values = KEYS[kind].split(",") if "z,a" not in KEYS[kind] else ["'z'", "'a'", "'z,a'", "''"]

    def play():
        world.sql("INSERT INTO gains (player,mini,xp,more,at) VALUES " + ",".join(
            f"({values[n % len(values)]},{n % 3},{n}.25,{n},1000000000)" for n in range(60)))

    def all_totals():
        return sorted(map(repr, world.sql("SELECT HEX(MIN(player)),mini,xp,more FROM xp_total GROUP BY player,mini,xp,more")))
    play()
    wanted = all_totals()
    assert keeper.ok("--rollup", "--json", fault="ledger.piece=7")["ledgers"][0]["rolled_up"] == 60
    assert len(all_totals()) == len(wanted) and world.sql("SELECT SUM(xp),SUM(more) FROM xp_total") == ((
        Decimal("1785.00"), 1770),)
    play()
    assert keeper.ok("--rollup", "--json", fault="ledger.piece=7")["ledgers"][0]["rolled_up"] == 60
    assert world.sql("SELECT SUM(xp),SUM(more) FROM xp_total") == ((Decimal("3570.00"), 3540),)
    assert len(all_totals()) == len(wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_eight_keys_and_several_values(keeper, engine):
    """Totals are exact for keys that differ only in the last column, decimals of maximal length and negative numbers."""
    world, keys = keeper.world, [f"k{n}" for n in range(8)]
    types = ["INT", "VARCHAR(9)", "DATE", "DECIMAL(9,2)", "BINARY(2)", "SMALLINT UNSIGNED", "ENUM('a','b')", "BIGINT"]
    world.sql("CREATE TABLE gains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, " + ", ".join(
        f"{k} {t} NOT NULL" for k, t in zip(keys, types)) + ", xp INT NOT NULL, gold DECIMAL(30,10) NOT NULL, "
        "more BIGINT UNSIGNED NOT NULL, `at` TIMESTAMP(3) NOT NULL, KEY k USING BTREE (" + ",".join(keys)
        + f", id)) ENGINE={engine}")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None, "key": ", ".join(keys), "value": "xp, gold, more"}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    gold, all_of = Decimal("99999999999999999999.9999999999"), "SELECT k7,xp,gold,more FROM xp_total ORDER BY k7"
    for run in (1, 2):
        world.sql("INSERT INTO gains (" + ",".join(keys) + ",xp,gold,more,at) VALUES " + ",".join(
            f"(-1,'x','2026-01-01',-1.25,x'0100',65535,'b',{n % 5 - 2},-{n},{gold if n % 2 else -gold},{2**62 if n == 9 else n},"
            "'2026-01-01 00:00:00.125')" for n in range(40)))
        before = world.sql(all_of)
        assert keeper.ok("--rollup", "--json", fault="ledger.piece=3")["ledgers"][0]["rolled_up"] == 40
        assert world.sql(all_of) == before and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
        assert {row[0]: row[1:] for row in before}[2] == tuple(
            run * x for x in (-4 - 9 - 14 - 19 - 24 - 29 - 34 - 39, 0, 2**62 + 4 + 14 + 19 + 24 + 29 + 34 + 39))


def test_rows_that_a_game_changes(ledger):
    """If a game changes or deletes rows before they are rolled up, which is not allowed, the totals contain the rows as it left
    them."""
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join("(1,1,1,'2026-11-16 10:00:00')" for _ in range(9)),
              "UPDATE gains SET xp=11 WHERE id=4", "DELETE FROM gains WHERE id=5")
    assert totals(world) == {(1, 1): 18}
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 8
    assert totals(world) == {(1, 1): 18}


ROW = "(1,1,1,'2026-11-16 10:00:00')"
SOME = "INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join([ROW] * 5)


@pytest.mark.parametrize("before,what,total,said", [
    ([], ["DELETE FROM gains WHERE id<3"], 9, "2 rows of table gains were deleted by another"),
    (["DELETE FROM gains WHERE id=2"], ["INSERT INTO gains VALUES (2,1,1,100,'2026-11-16')"], 8, "were inserted with ids"),
    (["DELETE FROM gains WHERE id<5"], ["TRUNCATE gains", SOME], 5, "started again during this run: the next id was 10 and is now 6")])
def test_rows_that_come_and_go_while_they_are_rolled_up(keeper, before, what, total, said):
    """Rows that are deleted or inserted with old ids during a rollup are reported, because the total cannot include them; all
    else is correct."""
    world = keeper.world
    make(world, "MEMORY")
    keeper.configure({"ledger xp": LEDGER})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    world.sql(*[f"INSERT INTO gains (player,mini,xp,at) VALUES {ROW}"] * 9, *before)
    process = keeper.popen("--rollup", "--json", fault="ledger.added=stop")
    (pid,) = wait_for(lambda: stopped(keeper), "the run to stop")
    world.sql(*what)
    os.kill(pid, signal.SIGCONT)
    done = keeper.finish(process)
    assert done.rc != 0 and said in done.json["error"]["text"], done
    assert totals(world) == {(1, 1): total}
    if what[0] != "TRUNCATE gains":
        assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 0


def test_a_young_row_without_a_key(keeper):
    """A young row with NULL in its key, which precedes all others in the index, is reported even if a piece ends there."""
    world = keeper.world
    world.sql("CREATE TABLE gains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NULL, mini INT NOT NULL, xp INT NOT NULL, "
              "at DATETIME NOT NULL, KEY k USING BTREE (player, mini, id)) ENGINE=MEMORY")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,5,'2026-11-16 10:00:00'),(1,1,6,'2026-11-16 10:00:00'),"
              "(NULL,1,5,NOW()),(NULL,1,6,NOW())")
    done = keeper.run("--rollup", "--json", fault="ledger.piece=2")
    assert done.rc != 0 and "is NULL" in done.json["error"]["text"], done
