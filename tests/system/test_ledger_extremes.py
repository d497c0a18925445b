"""Ledgers at the limits of ids and clocks."""
import pytest
from test_ledger_altered import AT, ENGINES, FEW, LEDGER, make, totals

pytestmark = pytest.mark.third_on_mysql

MOST = 2**64 - 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("last", [10**19 - 1, 10**19, MOST - 2])
def test_ids_of_64_bits(keeper, engine, last):
    world = make(keeper, engine, FEW)
    world.sql(f"INSERT INTO gains (player,xp,at) VALUES (1,1,{AT})",
              f"INSERT INTO gains (id,player,xp,at) VALUES ({last},1,10,{AT}),({last}-1,2,10,{AT})")
    wanted = totals(world)
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 3
    assert totals(world) == wanted == [(1, 11), (2, 10)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_negative_id(keeper, engine):
    """A negative id is not counted by a MEMORY ledger's views; the error names the row."""
    world = make(keeper, engine, FEW)
    world.sql("ALTER TABLE gains MODIFY id INT NOT NULL AUTO_INCREMENT", f"INSERT INTO gains (player,xp,at) VALUES (1,1,{AT})",
              f"INSERT INTO gains (id,player,xp,at) VALUES (-5,1,10,{AT})")
    wanted = totals(world)
    done = keeper.run("--rollup", "--json")
    if engine == "MEMORY" or done.rc:
        assert done.rc == 4 and "has id -5" in done.json["error"]["text"], done
    assert totals(world) == wanted


def test_an_id_of_zero(keeper):
    """A row with id 0 is in no total and is reported as ignored, once it is old enough."""
    keeper.configure({"ledger xp": LEDGER})
    world = make(keeper, "MEMORY", FEW)
    keeper.configure({"ledger xp": {**LEDGER, "rollup_after": "1d"}})
    world.sql("INSERT INTO gains (id,player,xp,at) VALUES (0,1,10,NOW()),(5,2,10,NOW())")
    assert "0 rows added" in keeper.run("--rollup").out
    world.sql(f"UPDATE gains SET at={AT}")
    assert "1 ignored: in no total" in keeper.run("--rollup", "--until", "2026-11-17 00:00:00Z").out


@pytest.mark.parametrize("engine", ENGINES)
def test_an_hour_that_comes_twice(make_server, make_world, make_keeper, monkeypatch, engine):
    """Two TIMESTAMP keys that local time shows alike remain two in totals and in files."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    server = make_server("--max-connections=78")
    keeper = make_keeper(make_world(on=server))
    world = make(keeper, engine, "player TIMESTAMP NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    keeper.configure({"ledger xp": {**LEDGER, "keep": "90d"}})
    world.sql("SET time_zone='+00:00'", "INSERT INTO gains (player,xp,at) VALUES ('2025-10-26 00:30:00',1,'2025-10-26 02:30:00'),"
              "('2025-10-26 01:30:00',10,'2025-10-26 12:30:00')")
    wanted = totals(world)
    assert len(wanted) == 2 and world.sql("SELECT @@system_time_zone")[0][0] in ("CET", "CEST")
    assert keeper.ok("--rollup", "--until", "2025-10-26 11:29:59Z", "--json")["ledgers"][0]["rolled_up"] == 1
    assert keeper.ok("--rollup", "--until", "2025-10-26 11:30:00Z", "--json")["ledgers"][0]["rolled_up"] == 1
    assert totals(world) == wanted
    verified = keeper.run("--rollup", "--verify", "--json")
    assert verified.rc == 0, verified


def test_a_verify_that_fails(keeper):
    """If a verify fails, unknown numbers are not printed as 0."""
    world = make(keeper, "MEMORY", FEW)
    world.sql("DROP TABLE gains")
    done = keeper.run("--rollup", "--verify")
    assert done.rc == 4 and "no such table" in done.out and "0 rows" not in done.out, done
