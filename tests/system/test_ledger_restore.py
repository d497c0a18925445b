"""Restores of worlds with ledgers: rollup and ledger show the same moment, and each new row is in a total."""
import os
import re
import shlex

import pytest
from test_journal import LOG, crash, keep
from test_ledger import ENGINES, LEDGER, give_new_ids, make, totals
from test_ledger_check import PRIVILEGES
from test_ledger_world import gain, prepare
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, REFUSED, USER

pytestmark = pytest.mark.either_server


def lose(keeper):
    """Kills and restarts the server and restores the world manually."""
    keeper.server.crash()
    return keeper.ok("--restore", "--json")


def counts(world):
    return {key: int(xp) for key, xp in totals(world).items()}


def new_rows_count(world):
    """Inserts a row for each key and asserts that every total grows by it."""
    before = counts(world)
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"({p},{m},1000,NOW())" for p, m in before))
    assert counts(world) == {key: xp + 1000 for key, xp in before.items()}


def test_all_rolled_up_since_the_dump(make_world, make_keeper, make_server):
    """The restore replays from the journal the inserts of rows and their deletion by the rollup. New ids continue above
    those of rows that are in totals."""
    keeper = prepare(keep(make_world, make_keeper, make_server(*LOG)), interval="1h")
    world = keeper.world
    gain(world, 100)
    keeper.dump()
    keeper.start()
    gain(world, 500)
    keeper.ok("--rollup")
    wanted = counts(world)
    told = crash(keeper)
    assert told["lost_seconds"] == 0 and counts(world) == wanted
    new_rows_count(world)
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["ignored"] == 0


def test_a_dump_from_before_the_rollup(doomed):
    """Without a journal the totals are restored as of the dump, and new rows are counted."""
    keeper = prepare(doomed)
    gain(keeper.world, 100)
    keeper.ok("--rollup")
    gain(keeper.world, 50)
    keeper.dump()
    wanted = counts(keeper.world)
    gain(keeper.world, 70)
    keeper.ok("--rollup")
    lose(keeper)
    assert counts(keeper.world) == wanted
    new_rows_count(keeper.world)
    done = keeper.ok("--rollup", "--json")["ledgers"][0]
    assert done["ignored"] == 0 and done["rows"] == 0, done


def test_a_durable_rollup_is_newer_than_the_ledger(doomed):
    """A durable rollup table keeps what was rolled up after the dump. Rows of the restored dump that are already in it
    count once, and new ids continue above theirs."""
    keeper = prepare(doomed, rollup="InnoDB", keep="30d")
    world = keeper.world
    gain(world, 100)
    keeper.dump()
    keeper.ok("--rollup")
    gain(world, 50, xp=7)
    keeper.ok("--rollup")
    wanted = counts(world)
    gain(world, 30)  # lost, because these rows are in no dump and not rolled up
    lose(keeper)
    assert counts(world) == wanted and world.value("SELECT COUNT(*) FROM gains") == 100
    new_rows_count(world)
    wanted = counts(world)
    done = keeper.ok("--rollup", "--json")["ledgers"][0]
    assert done["ignored"] == 0 and done["rows"] == 0 and counts(world) == wanted, done
    assert not [name for name in os.listdir(keeper.dumps_dir) if name.endswith(".undone")]
    said = keeper.ok("--rollup", "--verify", "--json")["ledgers"][0]
    assert not said["problems"], said


def test_a_moment_before_a_durable_rollup(make_world, make_keeper, make_server):
    keeper = prepare(keep(make_world, make_keeper, make_server(*LOG)), rollup="InnoDB")
    world = keeper.world
    gain(world, 100)
    keeper.dump()
    keeper.ok("--rollup")
    done = keeper.run("--restore", "--at", "2026-11-16 10:00:00", "--force", "--json")
    assert done.rc != 0
    at = world.value("SELECT DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL 0 SECOND, '%Y-%m-%d %H:%i:%sZ')")
    before = counts(world)
    done = keeper.run("--restore", "--at", at, "--force", "--json")
    assert done.rc == REFUSED and "table xp_rollup, which is durable" in done.json["error"]["text"], done
    assert "--into" in done.json["error"]["hint"] and counts(world) == before
    newest = keeper.newest()["name"]
    done = keeper.ok("--restore=" + newest, "--force", "--json")
    assert "stays unchanged" in done["warning"], done
    new_rows_count(world)


def test_one_table_of_a_ledger_alone(keeper):
    """Restoring only some tables of a ledger is refused with the full command, because all of them must be of one moment."""
    world = prepare(keeper).world
    gain(world, 100)
    keeper.ok("--rollup")
    gain(world, 10)
    keeper.dump()
    wanted = counts(world)
    gain(world, 20)
    keeper.ok("--rollup")
    now = counts(world)
    for some in ("gains", "xp_rollup", "xp_mark", "gains,xp_rollup"):
        done = keeper.run("--restore", "--table", some, "--force", "--json")
        assert done.rc == REFUSED and "different times" in done.json["error"]["text"], done
        assert counts(world) == now
    hint = done.json["error"]["hint"]
    keeper.ok("--restore", *re.search("--table [^;]*", hint)[0].split(), "--force", "--json")
    assert counts(world) == wanted
    new_rows_count(world)


def test_the_full_command_for_a_table_with_an_odd_name(keeper):
    """The command that the refusal names can be pasted whatever the ledger's table is called."""
    table, world = "it's, mine", keeper.world
    make(world, "MEMORY")
    world.sql(f"RENAME TABLE gains TO `{table}`")
    keeper.configure({"ledger xp": {**LEDGER, "table": table}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    keeper.dump()
    done = keeper.run("--restore", "--table", "xp_rollup", "--force", "--json")
    assert done.rc == REFUSED, done
    command = re.search("--table .*(?=; or)", done.json["error"]["hint"])[0]
    assert table in str(keeper.ok("--restore", *shlex.split(command), "--force", "--json"))


def test_a_dump_that_is_older_than_the_rollup(keeper):
    """A dump from before the rollup is refused over a living world, because its rows would be counted again."""
    world = keeper.world
    make(world, "MEMORY")
    gain(world, 40)
    keeper.dump()
    keeper.configure({"ledger xp": {"table": "gains", "key": "player, mini", "value": "xp", "time": "at", "rollup_after": "0"}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.ok("--init")
    name = keeper.newest()["name"]
    keeper.ok("--rollup")
    wanted = counts(world)
    done = keeper.run("--restore=" + name, "--force", "--json")
    assert done.rc == REFUSED and "the totals would stay" in done.json["error"]["text"], done
    assert counts(world) == wanted


def test_views_of_a_world_beside_this_one(keeper, make_world):
    """With --into the restored views read the tables of the other schema."""
    world, other = prepare(keeper).world, make_world("empty")
    keeper.server.grant(USER + "@localhost", other.schema)
    keeper.server.grant(USER + "@localhost", other.schema, "DELETE, CREATE VIEW, SHOW VIEW")
    keeper.server.grant(USER + "@localhost", world.schema, "SHOW VIEW")
    gain(world, 100)
    keeper.ok("--rollup")
    gain(world, 10)
    keeper.dump()
    wanted = counts(world)
    gain(world, 20)
    keeper.ok("--restore", "--into", other.schema, "--with-code", "--json")
    assert counts(other) == wanted
    for view in ("xp_total", "xp_level"):
        text = keeper.server.sql(f"SELECT VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA='{other.schema}'"
                                 f" AND TABLE_NAME='{view}'")[0][0]
        assert f"`{world.schema}`" not in text, text


def test_gains_of_the_emptied_world(doomed):
    """Rows written into the emptied world have ids that are in totals. --apply without --renumber inserts none of them; with
    --renumber they are inserted once, however often it runs."""
    keeper = prepare(doomed)
    world = keeper.world
    gain(world, 100)
    keeper.ok("--rollup")
    keeper.dump()
    keeper.server.crash()
    gain(world, 7, xp=5)
    world.sql("INSERT INTO xp_mark VALUES ('open',1,1)")
    wanted = {(k, m): v for (k, m), v in counts_of(100).items()}
    keeper.ok("--restore", "--json")
    assert counts(world) == wanted
    (path,) = keeper.conflicts()
    name = path.split("/")[-1]
    done = keeper.run("--conflicts=" + name, "--apply", "--json")
    assert counts(world) == wanted and "totals of a ledger are computed" in done.json["error"]["text"], done
    for _ in range(2):
        done = keeper.run("--conflicts=" + name, "--apply", "--renumber", "--json")
        assert counts(world) == {key: xp + 5 * sum((k % 7, k % 2) == key for k in range(7)) for key, xp in wanted.items()}, done
        assert keeper.ok("--rollup", "--json")["ledgers"][0]["ignored"] == 0


def test_a_gain_that_was_put_into_a_world_that_was_lost(doomed, victim):
    """A row of the emptied world was inserted into a world that was lost before a dump had the row. Another row got its id and
    was rolled up. The row stays in the file and is named, because nothing shows that a total has it."""
    keeper = prepare(doomed)
    world = keeper.world
    gain(world, 100)
    keeper.ok("--rollup")
    keeper.dump()
    victim.crash()
    gain(world, 1, xp=5)
    keeper.ok("--restore")
    (path,) = keeper.conflicts()
    told = keeper.ok("--conflicts=" + path, "--apply", "--renumber", "--json")
    assert told["inserted"] == 1 and world.sql("SELECT id, xp FROM gains") == ((101, 5),), told
    victim.grow_old()
    victim.crash()
    keeper.ok("--restore")
    gain(world, 1, xp=7)
    keeper.ok("--rollup")
    wanted = counts(world)
    for options in ((), ("--dry-run",)):
        done = keeper.run("--conflicts=" + path, "--apply", "--renumber", *options, "--json")
        [table] = done.json["tables"] if "tables" in done.json else done.result["tables"]
        assert (table["inserted"], table["equal"], table["left"]) == (0, 0, 1), done
        assert "nothing shows whether they are" in table["why"], done
    assert counts(world) == wanted


def test_gains_of_a_living_world_that_was_replaced(doomed):
    """The conflict file of a forced restore has rows that the restored world has as well. Those that were rolled up since
    stay in the file, because they are in totals; the others are inserted."""
    keeper = prepare(doomed)
    world = keeper.world
    gain(world, 100)
    keeper.dump()
    wanted = counts(world)
    pressed = keeper.popen("--restore", "--force", fault="restore.checked=stop")
    waiting = wait_stopped(keeper, "restore.checked")
    gain(world, 1, xp=5)
    go_on(waiting)
    assert keeper.finish(pressed).rc == DONE
    keeper.ok("--rollup")
    assert counts(world) == wanted
    (path,) = keeper.conflicts()
    for left in (100, 100):
        done = keeper.run("--conflicts=" + path, "--apply", "--renumber", "--json")
        [table] = [t for t in (done.json.get("tables") or done.result["tables"]) if t["table"] == "gains"]
        assert table["left"] == left and "may be in totals" in table["why"], done
        assert counts(world) == {**wanted, (0, 0): wanted[0, 0] + 5}


def test_replaced_gains_after_ids_that_began_again(doomed):
    """The statements for a ledger whose ids start again do not make --conflicts forget which rows are in totals."""
    keeper = prepare(doomed)
    world = keeper.world
    gain(world, 100)
    keeper.dump()
    pressed = keeper.popen("--restore", "--force", fault="restore.checked=stop")
    waiting = wait_stopped(keeper, "restore.checked")
    gain(world, 1, xp=5)
    go_on(waiting)
    assert keeper.finish(pressed).rc == DONE
    keeper.ok("--rollup")
    world.sql("TRUNCATE gains")
    gain(world, 3, xp=7)
    give_new_ids(world, keeper.run("--rollup", "--json"))
    (path,) = keeper.conflicts()
    for put_in in (1, 0):
        done = keeper.run("--conflicts=" + path, "--apply", "--renumber", "--json")
        [table] = [t for t in (done.json.get("tables") or done.result["tables"]) if t["table"] == "gains"]
        assert (table["inserted"], table["left"]) == (put_in, 100) and sum(counts(world).values()) == 100 + 21 + 5, done
        keeper.ok("--rollup")


@pytest.mark.only("mariadb", why="MySQL takes lower_case_table_names only when it is set up")
def test_a_ledger_whose_table_has_another_case(make_world, make_keeper, make_server):
    """With lower_case_table_names=1, a table that the config writes in capitals is the ledger's everywhere: it may shrink by a
    rollup, and rows with ids that are in totals are not inserted."""
    keeper = prepare(make_keeper(make_world("empty", make_server("--lower-case-table-names=1"))), table="Gains")
    world = keeper.world
    keeper.configure({"dump": {"shrink_action": "reject"}})
    gain(world, 3000)
    keeper.dump()
    keeper.ok("--rollup")
    keeper.dump()
    wanted = counts(world)
    keeper.server.crash()
    gain(world, 7, xp=5)
    keeper.ok("--restore")
    (path,) = keeper.conflicts()
    done = keeper.run("--conflicts=" + path, "--apply", "--json")
    [table] = done.json.get("tables") or done.result["tables"]
    assert (table["inserted"], table["left"]) == (0, 7) and counts(world) == wanted, done


@pytest.mark.parametrize("order", ["first", "last", "all"])
def test_a_request_that_was_rolled_up_and_came_again(doomed, order):
    """A game repeats a request in the emptied world whose row is in a total: that row is skipped with a reason, wherever it is in
    the file, the others are inserted, and --dry-run reports the same."""
    keeper, world = doomed, doomed.world
    world.sql("CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
              "xp INT NOT NULL, at DATETIME NOT NULL, token VARCHAR(36) NULL, UNIQUE KEY (token), KEY k USING BTREE "
              "(player, mini, id)) ENGINE=MEMORY")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None, "request": "token", "request_keep": "1h"}})
    keeper.server.grant(USER + "@localhost", world.schema, PRIVILEGES)
    keeper.init()

    def pay(*tokens):
        for token in tokens:
            world.sql(f"INSERT INTO gains (player,mini,xp,at,token) VALUES (1,1,1,'2026-11-16 10:00:00','{token}')")
    pay("a", "b")
    keeper.ok("--rollup")
    keeper.dump()
    keeper.server.crash()
    pay(*{"first": "Axy", "last": "xya", "all": "ab"}[order])
    keeper.ok("--restore")
    (path,) = keeper.conflicts()
    again = 2 if order == "all" else 1
    at_once, later = {"first": (1, 1), "last": (0, 2), "all": (0, 0)}[order]  # ids 1 and 2 need new ids
    for options, put_in, left in ((), at_once, again + later), (("--renumber",), later, again):
        dry = keeper.run("--conflicts=" + path, "--apply", *options, "--dry-run", "--json")
        done = keeper.run("--conflicts=" + path, "--apply", *options, "--json")
        assert dry.rc == done.rc == REFUSED and dry.result["tables"] == done.result["tables"], (dry, done)
        (gains,) = done.result["tables"]
        assert gains["why"].startswith(f"{again} of its rows have a request id that ledger xp"), done
        assert (gains["inserted"], gains["left"]) == (put_in, left) and done.result["inserted"] == put_in, done
    keeper.ok("--rollup")
    assert world.value("SELECT CAST(SUM(xp) AS SIGNED) FROM xp_total") == 2 + at_once + later


def counts_of(n):
    found = {}
    for k in range(n):
        found[k % 7, k % 2] = found.get((k % 7, k % 2), 0) + 1
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drill(keeper, engine):
    keeper.configure({"dump": {"engines": "all"}})
    world = prepare(keeper, engine).world
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    gain(world, 100)
    keeper.run("--rollup", fault="ledger.added=kill")
    keeper.dump()
    keeper.ok("--drill")


def test_a_durable_rollup_needs_a_log_at_each_commit(keeper):
    """--check requires innodb_flush_log_at_trx_commit = 1, because rows are deleted once the server says that the rollup is
    stored."""
    prepare(keeper, rollup="InnoDB")
    before = keeper.world.value("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")
    try:
        for value, status in ((1, None), (0, "fail"), (2, "warn")):
            keeper.world.sql(f"SET GLOBAL innodb_flush_log_at_trx_commit={value}")
            found = [f for f in keeper.run("--check", "--json").result["checks"] if "innodb_flush_log" in f["text"]]
            assert [f["level"] for f in found] == [status] * (status is not None), found
    finally:
        keeper.world.sql(f"SET GLOBAL innodb_flush_log_at_trx_commit={before}")
