"""Ledgers whose table or config was changed after --init: totals are never rounded or merged silently."""
import re

import pytest
from wk.keeper import DONE, REFUSED, USER
from wk.server import repeating

pytestmark = pytest.mark.third_on_mysql

ENGINES = ["MEMORY", "InnoDB"]
LEDGER = {"table": "gains", "key": "player", "value": "xp", "time": "at", "rollup_after": "0s"}
AT = "'2026-11-16 10:00:00'"
FEW = "player INT NOT NULL, xp INT NOT NULL, gold INT NOT NULL DEFAULT 3, at DATETIME NOT NULL"


def make(keeper, engine, columns):
    keeper.world.sql(f"CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, {columns}, "
                     f"KEY k USING BTREE (player, id)) ENGINE={engine}")
    keeper.configure({"ledger xp": LEDGER})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    return keeper.world


def totals(world):
    return sorted(world.sql("SELECT * FROM xp_total"), key=str)


ALTERED = {  # before, after, two values that only the new type distinguishes
    "value": ("xp INT", "xp DECIMAL(10,2)", "1.25", "0.4"),
    "digits of a value": ("xp DECIMAL(10,1)", "xp DECIMAL(10,3)", "1.125", "0.004"),
    "fractions of a second": ("player DATETIME", "player DATETIME(3)", "'2026-01-01 00:00:00.1'", "'2026-01-01 00:00:00.4'"),
    "collation": ("player VARCHAR(9) COLLATE utf8mb4_general_ci", "player VARCHAR(9) COLLATE utf8mb4_bin", "'Ann'", "'ann'"),
    "length": ("player VARCHAR(3)", "player VARCHAR(9)", "'Annabella'", "'Annabert'"),
    "width": ("player TINYINT", "player BIGINT", "12345678901", "128"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", ALTERED)
def test_a_column_of_another_type(keeper, engine, case):
    """If the rollup table's column cannot hold the ledger's values, the rollup is refused with the statement that corrects it."""
    before, after, one, other = ALTERED[case]
    name = before.split()[0]
    columns = {"player": "player INT", "xp": "xp INT", name: before}
    default = "CHARACTER SET utf8mb4 " if "VARCHAR" in before else ""
    old, new = (t.replace(" COLLATE", f" {default}COLLATE") for t in (before, after))
    columns[name] = old
    world = make(keeper, engine, f"{columns['player']} NOT NULL, {columns['xp']} NOT NULL, at DATETIME NOT NULL")
    world.sql(f"ALTER TABLE gains MODIFY {new} NOT NULL",
              *[f"INSERT INTO gains (player,xp,at) VALUES ({v + ',1' if name == 'player' else '7,' + v},{AT})" for v in (one, other)])
    wanted = totals(world)
    done = keeper.run("--rollup", "--json")
    assert done.rc == 4 and f"column {name}" in done.json["error"]["text"], done
    assert totals(world) == wanted and len(world.sql("SELECT id FROM gains")) == 2
    found = [c for c in keeper.run("--check", "--json").json["result"]["checks"] if c["name"] == "ledger"]
    assert found[0]["level"] == "fail" and found[0]["hint"] == done.json["error"]["hint"], found
    assert keeper.run("--init").rc == 4
    world.sql(done.json["error"]["hint"].rstrip(";"))
    keeper.init()
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 2
    assert totals(world) == wanted


def test_rollups_beside_an_alter(keeper):
    """ALTER TABLE hides a table, its columns and its indexes for a moment. Rollups still find them, and add each row once."""
    world = make(keeper, "MEMORY", FEW)
    with repeating(world, "ALTER TABLE gains FORCE"):
        for n in range(1, 61):
            world.sql(f"INSERT INTO gains (player,xp,at) VALUES (7,{n},{AT})")
            assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 1
    assert [row[:2] for row in totals(world)] == [(7, 60 * 61 // 2)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_table_of_another_character_set(keeper, engine):
    """The printed statement names the character set, because the rollup table's default is still the old one."""
    world = make(keeper, engine, "player VARCHAR(9) NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    world.sql("ALTER TABLE gains CONVERT TO CHARACTER SET latin2", f"INSERT INTO gains (player,xp,at) VALUES ('a',1,{AT})")
    done = keeper.run("--rollup", "--json")
    assert done.rc == 4 and "collation" in done.json["error"]["text"], done
    world.sql(done.json["error"]["hint"].rstrip(";"))
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_one_more_value(keeper, engine):
    """A value column that was added to the config or removed from it is refused with a message and, if added, the statement that
    corrects it."""
    world = make(keeper, engine, FEW)
    world.sql(f"INSERT INTO gains (player,xp,at) VALUES (1,100,{AT}),(2,-5,{AT})")
    keeper.configure({"ledger xp": {**LEDGER, "value": "xp, gold"}})
    done = keeper.run("--rollup", "--json")
    assert done.rc == 4 and "column gold" in done.json["error"]["text"], done
    world.sql(done.json["error"]["hint"].rstrip(";"))
    keeper.init()
    keeper.ok("--rollup", "--json")
    assert totals(world) == [(1, 100, 3), (2, -5, 3)]
    keeper.configure({"ledger xp": LEDGER})
    done = keeper.run("--rollup", "--json")
    assert done.rc == 4 and "column gold" in done.json["error"]["text"] and not done.json["error"].get("hint", "").startswith(
        "ALTER"), done


@pytest.mark.parametrize("engine", ENGINES)
def test_another_key(keeper, engine):
    """Another key in the config is refused, because totals of one key cannot be split into those of another."""
    world = make(keeper, engine, FEW)
    world.sql("ALTER TABLE gains ADD KEY j USING BTREE (player, gold, id)")
    keeper.configure({"ledger xp": {**LEDGER, "key": "player, gold"}})
    done = keeper.run("--rollup", "--json")
    assert done.rc == 4 and "column gold" in done.json["error"]["text"] and "another" in done.json["error"]["hint"], done


def found(keeper):
    return [c for c in keeper.run("--check", "--json").json["result"]["checks"] if c["name"] == "ledger"][0]


def insert(keeper, xp, autocommit=True):
    con = keeper.server.admin(keeper.world.schema, autocommit=autocommit)
    with con.cursor() as cur:
        cur.execute(f"INSERT INTO gains (player,xp,at) VALUES (1,{xp},{AT})")
    return con


def refused(keeper, word):
    done = keeper.run("--rollup", "--json")
    assert done.rc == REFUSED and word in done.json["error"]["text"], done
    assert found(keeper)["level"] == "fail" and found(keeper)["text"] == done.json["error"]["text"]
    return done.json["error"]["hint"]


def test_from_memory_to_innodb(keeper):
    """After a change to InnoDB no rollup runs until --init creates the view again: the old view would omit a row with a smaller
    id that is committed later."""
    world = make(keeper, "MEMORY", "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    open_ = [insert(keeper, 1)]
    keeper.ok("--rollup")
    world.sql("ALTER TABLE gains ENGINE=InnoDB")
    assert "ALTER TABLE xp_rollup ENGINE=InnoDB" in refused(keeper, "ENGINE=MEMORY")
    world.sql("ALTER TABLE xp_rollup ENGINE=InnoDB", "ALTER TABLE xp_mark ENGINE=InnoDB")
    open_ += [insert(keeper, 10, False), insert(keeper, 100)]
    assert "--init" in refused(keeper, "another engine")
    assert keeper.run("--rollup", "--verify", "--json").rc == DONE
    keeper.init()
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 1
    open_[1].commit()
    assert totals(world) == [(1, 111)]
    keeper.ok("--rollup")
    assert totals(world) == [(1, 111)] and not world.sql("SELECT id FROM gains")
    for con in open_:
        con.close()


def test_from_memory_to_innodb_in_the_middle(keeper):
    """A change to InnoDB is refused while a killed run has added rows without deleting them, because they would be counted
    twice."""
    world = make(keeper, "MEMORY", "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    insert(keeper, 1).close()
    keeper.run("--rollup", fault="ledger.added=kill")
    assert totals(world) == [(1, 1)] and world.sql("SELECT id FROM gains")
    world.sql(*[f"ALTER TABLE {name} ENGINE=InnoDB" for name in ("gains", "xp_rollup", "xp_mark")])
    back = refused(keeper, "be counted twice")
    assert keeper.run("--init").rc == REFUSED and totals(world) == [(1, 1)]
    world.sql(back.split(";")[0])
    keeper.ok("--rollup=xp")
    world.sql("ALTER TABLE gains ENGINE=InnoDB")
    keeper.init()
    keeper.ok("--rollup")
    assert totals(world) == [(1, 1)] and not world.sql("SELECT id FROM gains")


def test_from_innodb_to_memory(keeper):
    """After a change to MEMORY no rollup runs until --init creates the view again: the old view would count rows that are in a
    total and not yet deleted."""
    world = make(keeper, "InnoDB", "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    insert(keeper, 1).close()
    keeper.ok("--rollup")
    world.sql("ALTER TABLE gains ENGINE=MEMORY")
    insert(keeper, 10).close()
    assert "--init" in refused(keeper, "another engine")
    keeper.init()
    keeper.run("--rollup", fault="ledger.added=kill")
    assert totals(world) == [(1, 11)]
    keeper.ok("--rollup")
    assert totals(world) == [(1, 11)] and not world.sql("SELECT id FROM gains")


def test_another_table(keeper):
    """After a change of the ledger's table no rollup runs until --init creates the view again, because the old view reads the old
    table."""
    world = make(keeper, "InnoDB", "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    insert(keeper, 1).close()
    keeper.ok("--rollup")
    world.sql("CREATE TABLE `Sea``son` LIKE gains", f"INSERT INTO `Sea``son` (player,xp,at) VALUES (1,10,{AT})")
    keeper.configure({"ledger xp": {**LEDGER, "table": "Sea`son"}})
    assert "--init" in refused(keeper, "another table")
    keeper.init()
    assert totals(world) == [(1, 11)]
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 1
    assert totals(world) == [(1, 11)]


MOVED = {
    "config": ["CREATE TABLE season LIKE gains"],
    "rename": ["CREATE TABLE fresh LIKE gains", "RENAME TABLE gains TO old, fresh TO gains"],
    "column": ["ALTER TABLE gains ADD mark VARCHAR(36) NULL UNIQUE", "UPDATE gains SET mark=token"],
    "dropped": ["DROP TRIGGER xp_request"],
    "engine": ["ALTER TABLE {} ENGINE={}"],
}


def pay(keeper, table, column):
    """Returns whether the row was inserted; its request id is always the same one."""
    con = keeper.server.admin(keeper.world.schema)
    try:
        with con.cursor() as cur:
            cur.execute(f"INSERT INTO {table} (player,xp,at,{column}) VALUES (1,1,{AT},'a')")
        return True
    except Exception as e:
        assert e.args[0] == 1062, e
        return False
    finally:
        con.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", MOVED)
def test_request_ids_after_a_change(keeper, engine, change):
    """If the trigger for request ids is not on the ledger's table, or was made for another column or engine, no rollup runs until
    --init has replaced it: a repeated request would be counted twice."""
    world = make(keeper, engine, "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL, token VARCHAR(36) NULL UNIQUE")
    config = {**LEDGER, "request": "token"}
    keeper.server.grant(USER + "@localhost", world.schema, "TRIGGER")
    keeper.configure({"ledger xp": config})
    keeper.init()
    other = "InnoDB" if engine == "MEMORY" else "MEMORY"
    names = ["gains"] + [f"xp_{name}" for name in ("rollup", "mark", "request") if change == "engine" and engine == "MEMORY"]
    world.sql(*[statement.format(name, other) for statement in MOVED[change] for name in (names if "{}" in statement else [""])])
    table, column = {"config": "season"}.get(change, "gains"), {"column": "mark"}.get(change, "token")
    keeper.configure({"ledger xp": {**config, "table": table, "request": column}})
    assert pay(keeper, table, column)
    done = keeper.run("--rollup", "--json")
    assert done.rc == REFUSED and "--init" in done.json["error"]["hint"], done
    check = found(keeper)
    assert check["level"] == "fail" and "--init" in check["hint"], check
    if change == "column":
        done = keeper.run("--init", "--json")
        assert done.rc == REFUSED and pay(keeper, table, "token"), "inserts go on"
        world.sql("DELETE FROM gains WHERE token='a'", re.search("ALTER TABLE [^;]+", done.json["error"]["hint"])[0])
    keeper.init()
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 1
    assert not pay(keeper, table, column) and totals(world) == [(1, 1)]
    created = world.sql("SHOW CREATE TRIGGER xp_request")[0][2]
    memory = (engine == "MEMORY") != (change == "engine")
    assert ("BEFORE" in created, "LOCK IN SHARE MODE" in created) == (memory, not memory), created
    keeper.init()
    assert world.sql("SHOW CREATE TRIGGER xp_request")[0][2] == created


def test_a_trigger_of_the_game(keeper):
    """A trigger that --init did not create stays as it is, whatever table it is on."""
    world = make(keeper, "MEMORY", "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL, token VARCHAR(36) NULL UNIQUE")
    keeper.server.grant(USER + "@localhost", world.schema, "TRIGGER")
    keeper.configure({"ledger xp": {**LEDGER, "request": "token"}})
    world.sql("CREATE TABLE own (n INT)", "CREATE TRIGGER xp_request BEFORE INSERT ON own FOR EACH ROW SET NEW.n=1")
    done = keeper.run("--init", "--json")
    assert done.rc == REFUSED and "was not created by --init" in done.json["error"]["text"], done
    assert "SET NEW.n=1" in world.sql("SHOW CREATE TRIGGER xp_request")[0][2]


def test_another_table_with_the_name_of_a_column(keeper):
    """The old view names the new table's name as a column, and is refused all the same."""
    world = make(keeper, "InnoDB", "player INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL")
    world.sql("CREATE TABLE xp LIKE gains")
    keeper.configure({"ledger xp": {**LEDGER, "table": "xp"}})
    assert "--init" in refused(keeper, "another table")
    keeper.init()
    keeper.ok("--rollup")


@pytest.mark.parametrize("engine", ENGINES)
def test_what_may_be_changed(keeper, engine):
    """Other columns may be added, and a total may be widened as the message about an overflow says."""
    world = make(keeper, engine, FEW)
    world.sql("ALTER TABLE gains ADD note VARCHAR(9) NULL, MODIFY xp BIGINT NOT NULL",
              "ALTER TABLE xp_rollup MODIFY xp DECIMAL(38,0) NOT NULL",
              f"INSERT INTO gains (player,xp,at) VALUES (1,9223372036854775807,{AT}),(1,9223372036854775807,{AT})")
    wanted = totals(world)
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 2
    assert totals(world) == wanted
