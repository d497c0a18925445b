"""Ledgers and the supervisor: they are rolled up automatically, their state is published, and problems are reported."""
import itertools
import os

import pytest
from test_history import records
from test_ledger import ENGINES, LEDGER, make, totals
from wk.keeper import USER, precise, unix
from wk.util import wait_for

pytestmark = pytest.mark.either_server

OLD = "'2026-11-16 10:00:00'"
FAST = {**LEDGER, "rollup_after": "0", "interval": "1s"}


def gain(world, n, at=OLD, first=0):
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"({(first + k) % 7},1,1,{at})" for k in range(n)))


def lines(keeper):
    return {line["name"]: line for line in keeper.status().get("ledgers", [])}


def line(keeper):
    return lines(keeper).get("xp") or {}


def troubles(keeper):
    """Returns the conditions, except for what the daily check found, which is repeated only later."""
    return [t["what"] for t in keeper.status().get("troubles", []) if "--check fails" not in t["what"]]


def prepare(keeper, engine="MEMORY", **more):
    make(keeper.world, engine)
    keeper.configure({"ledger xp": {**FAST, **more}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, "DELETE, CREATE VIEW")
    return keeper.init()


@pytest.mark.parametrize("engine", ENGINES)
def test_it_rolls_up_by_itself(keeper, engine):
    """The supervisor rolls up at intervals. Status, --status, history and metrics show the figures, which outlive the
    supervisor."""
    prepare(keeper, engine)
    keeper.configure({"status": {"metrics": "w1.prom"}})
    gain(keeper.world, 100)
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 100, "the first run")
    gain(keeper.world, 50, "'1970-01-02 00:00:00'")
    keeper.wait(lambda: line(keeper).get("rolled_up") == 150, "the next run")
    got = line(keeper)
    assert list(got) == ["name", "rows", "rolled_up", "keys", "late", "last", "seconds"], got
    assert (got["rows"], got["keys"], got["late"]) == (0, 7, 50) and got["last"] and got["seconds"] >= 0, got
    assert sum(totals(keeper.world).values()) == 150
    shown = keeper.ok("--status").out
    assert "xp: 0 rows, 150 rolled up in 7 totals, 50 late" in " ".join(shown.split()), shown
    metrics = keeper.wait(lambda: (lambda t: t if 'rolled_up_total{world="w1",ledger="xp"} 150.000' in t else None)(
        open(os.path.join(keeper.status_dir, "w1.prom")).read()), "metrics")
    for name in ("rows", "keys", "late_total", "last_rollup_timestamp_seconds", "last_rollup_seconds"):
        assert f'worldkeeper_ledger_{name}{{world="w1",ledger="xp"}} ' in metrics, (name, metrics)
    record = keeper.wait(lambda: records(keeper, "rollup"), "the history")[0]
    assert (record["ledger"], record["rolled_up"], record["late"]) == ("xp", 100, 0), record
    keeper.stop()
    keeper.configure({"ledger xp": {"interval": "1h"}})
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 150, "what the tables say")
    assert line(keeper)["seconds"] is None and line(keeper)["last"] >= got["last"]


@pytest.mark.parametrize("engine", ENGINES)
def test_one_run_each_interval(keeper, engine):
    """Rollups are an interval apart, also after the first one, and `last` is the time of the last run."""
    prepare(keeper, engine, interval="2s")
    gain(keeper.world, 10)
    keeper.start()
    ends = []

    def another():
        last = line(keeper).get("last")
        if last and last not in ends:
            ends.append(last)
        return len(ends) == 4
    keeper.wait(another, "four runs")
    between = [precise(b) - precise(a) for a, b in zip(ends, ends[1:])]
    assert min(between) > 1.9, between


def test_seconds_are_of_the_last_run(keeper):
    """A manual run counts as the last one; its duration is unknown to the supervisor."""
    prepare(keeper, interval="1h", rollup_after="24s")
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 0, "the ledger")
    keeper.reload({"ledger xp": {"interval": "1s"}})
    keeper.wait(lambda: line(keeper).get("seconds") is not None, "a run of the supervisor")
    keeper.reload({"ledger xp": {"interval": "1h"}})
    before = line(keeper)["last"]
    keeper.ok("--rollup")
    keeper.wait(lambda: line(keeper)["last"] > before and line(keeper)["seconds"] is None, "the run by hand, of unknown length")


def test_a_look_that_was_held_off_brings_no_run(keeper):
    """While another session rolls up, the supervisor cannot read the ledger and tries again soon; the next run is due when it
    was."""
    prepare(keeper, interval="1h", rollup_after="24s")
    keeper.ok("--rollup")
    keeper.start()
    last = keeper.wait(lambda: line(keeper).get("last"), "the ledger")

    def connections():
        return int(keeper.world.sql("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])
    with keeper.server.locked("wk.ledger", keeper.world.schema + ".xp"):
        asked = itertools.count(1)
        before = connections()
        keeper.wait(lambda: connections() - before - next(asked) > 4, "looks")  # each query of the test is a connection, too
        gain(keeper.world, 10)
    keeper.wait(lambda: line(keeper)["rows"] == 10 or line(keeper)["rolled_up"], "another look")
    got = line(keeper)
    assert (got["rows"], got["rolled_up"], got["last"], got["seconds"]) == (10, 0, last, None), got


def test_a_reload_brings_and_takes_ledgers(keeper):
    """A reload adds a ledger, removes one and changes an interval."""
    prepare(keeper, interval="1h")
    world = keeper.world
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 0, "the ledger")
    gain(world, 10)
    world.sql("CREATE TABLE coins (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, n DECIMAL(9,2) NOT NULL, "
              "at INT NOT NULL, KEY k USING BTREE (player, id)) ENGINE=MEMORY")
    keeper.configure({"ledger xp": {"interval": "1s"},
                      "ledger coin": {"table": "coins", "key": "player", "value": "n", "time": "at", "rollup_after": "0",
                                      "interval": "1s"}})
    keeper.process.send_signal(1)
    keeper.wait(lambda: line(keeper).get("rolled_up") == 10 and "coin" in lines(keeper), "both")
    assert lines(keeper)["coin"]["rows"] is None
    keeper.wait(lambda: any("coin_rollup" in t for t in troubles(keeper)), "what is missing")
    keeper.ok("--init")
    world.sql("INSERT INTO coins (player,n,at) VALUES (1,2.5,1)")
    keeper.wait(lambda: lines(keeper)["coin"]["rolled_up"] == 1 and not troubles(keeper), "the new one")
    keeper.configure({"ledger coin": {k: None for k in keeper.settings["ledger coin"]}})
    keeper.process.send_signal(1)
    keeper.wait(lambda: list(lines(keeper)) == ["xp"], "one that is gone")


def test_by_hand_beside_the_supervisor(keeper):
    """A manual rollup waits for a run of the supervisor instead of failing."""
    prepare(keeper)
    keeper.start()
    for n in range(4):
        gain(keeper.world, 300, first=n)
        keeper.ok("--rollup", "--json")
    keeper.wait(lambda: line(keeper).get("rolled_up") == 1200, "all of it")
    assert sum(totals(keeper.world).values()) == 1200


def test_no_run_where_the_world_is_not_up(doomed):
    """No automatic rollup runs while the supervisor is paused, and a manual one is refused if the sentinel is empty."""
    keeper = prepare(doomed)
    world = keeper.world
    keeper.dump()
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 0, "the ledger")
    keeper.ok("--pause")
    keeper.wait_state("PAUSED")
    keeper.wait(lambda: not keeper.worker("rollup"), "the end of a run that was on its way")
    gain(world, 10)
    begun = unix(keeper.status()["updated"])
    keeper.wait(lambda: unix(keeper.status()["updated"]) > begun, "the status behind it")
    runs = line(keeper)["last"]
    keeper.wait(lambda: unix(keeper.status()["updated"]) > begun + 2, "two intervals")
    assert line(keeper)["last"] == runs and world.value("SELECT COUNT(*) FROM gains") == 10
    world.sql("DELETE FROM worldkeeper_sentinel")
    done = keeper.run("--rollup", "--json")
    assert done.rc == 4 and "not up" in done.json["error"]["text"], done
    assert world.value("SELECT COUNT(*) FROM gains") == 10


def test_a_run_that_fails_is_said(keeper, http):
    """A failing rollup is reported once with the statement that corrects it, and so is its end."""
    prepare(keeper)
    keeper.configure(http.settings())
    world = keeper.world
    world.sql("ALTER TABLE gains DROP KEY k")
    keeper.start()
    keeper.wait(lambda: any("no BTREE index" in t for t in troubles(keeper)), "the condition")
    (told,) = http.wait_event("ledger")
    assert told["kind"] == "new" and "ADD KEY" in told["todo"], told
    world.sql(told["todo"][told["todo"].index("ALTER"):])
    keeper.wait(lambda: not troubles(keeper), "its end")
    assert [m["kind"] for m in wait_for(lambda: (lambda m: m if len(m) > 1 else None)(http.wait_event("ledger")), "the news")
            ] == ["new", "recovered"]


def test_rows_that_no_total_has_and_late_ones_are_said(keeper):
    prepare(keeper, late_limit="5")
    world = keeper.world
    gain(world, 10)
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 10, "a run")
    world.sql(f"INSERT INTO gains VALUES (3,3,1,100,{OLD})")
    keeper.wait(lambda: any("1 rows of table gains have ids that were already rolled" in t for t in troubles(keeper)), "what is ignored")
    world.sql("DELETE FROM gains WHERE id=3")
    keeper.wait(lambda: not troubles(keeper), "its end")
    gain(world, 7, "'1999-01-01'")
    keeper.wait_log("7 rows of one run are older than rows")
    keeper.wait_log("no ledger has more late rows")
    world.sql("TRUNCATE gains")
    gain(world, 3)
    keeper.wait(lambda: any("start again" in t for t in troubles(keeper)), "ids that start again")
    world.sql("UPDATE xp_rollup SET end_id=0")
    keeper.wait(lambda: line(keeper)["rolled_up"] == 20 and not troubles(keeper), "its end")
    assert sum(totals(world).values()) == 20


def test_a_restore_is_not_the_end_of_what_was_said(doomed):
    """A condition of one ledger is not ended by a restore, nor by a rollup of another ledger."""
    keeper = prepare(doomed)
    world = keeper.world
    world.sql("CREATE TABLE wins LIKE gains")
    keeper.configure({"ledger wins": {**FAST, "table": "wins"}})
    keeper.init()
    gain(world, 10)
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 10, "a run")
    world.sql(f"INSERT INTO gains VALUES (3,3,1,100,{OLD})")
    said = "1 rows of table gains have ids that were already rolled"
    keeper.wait(lambda: any(said in t for t in troubles(keeper)), "what is ignored")
    keeper.reload({"ledger xp": {"interval": "1h"}})
    keeper.dump()
    world.server.crash()
    keeper.wait(lambda: keeper.status().get("generation") == 2 and keeper.state() == "UP", "the restore")
    world.sql(f"INSERT INTO wins (player,mini,xp,at) VALUES (1,1,1,{OLD})")
    keeper.wait(lambda: lines(keeper).get("wins", {}).get("rolled_up") == 1, "a run of the other one")
    keeper.wait(lambda: any(said in t for t in troubles(keeper)), "it is still so")
    assert "all rows of all ledgers are in totals again" not in keeper.log()
    world.sql("DELETE FROM gains WHERE id=3")
    keeper.reload({"ledger xp": {"interval": "1s"}})
    keeper.wait_log("all rows of all ledgers are in totals again")


def test_a_ledger_that_is_not_rolled_up_in_time(keeper):
    """If a locked table blocks a ledger's rollup, a condition says that the ledger grows faster than it is rolled up."""
    prepare(keeper)
    keeper.start()
    keeper.wait(lambda: line(keeper).get("rolled_up") == 0, "the ledger")
    con = keeper.server.admin(keeper.world.schema)
    with con.cursor() as cur:
        cur.execute("LOCK TABLES xp_mark READ")
        gain(keeper.world, 10)
        keeper.wait(lambda: any("grows faster than it is rolled up" in t for t in troubles(keeper)), "the condition")
        cur.execute("UNLOCK TABLES")
    con.close()
    keeper.wait(lambda: not troubles(keeper) and line(keeper)["rolled_up"] == 10, "its end")


@pytest.mark.parametrize("seen", [True, False], ids=["then", "before"])
def test_another_session_that_never_ends_its_rollup(keeper, seen):
    """If another session holds a ledger's lock, before or after the supervisor's start, a condition names it and its end."""
    prepare(keeper)
    if seen:
        keeper.start()
        keeper.wait(lambda: line(keeper).get("rolled_up") == 0, "the ledger")
    with keeper.server.locked("wk.ledger", keeper.world.schema + ".xp") as session:
        if not seen:
            keeper.start()
        gain(keeper.world, 10)
        keeper.wait(lambda: any(f"connection {session} of the server is rolling it up" in t for t in troubles(keeper)),
                    "the condition")
        (told,) = [t for t in keeper.status()["troubles"] if "has not been rolled up for" in t["what"]]
        assert f"KILL {session};" in told["hint"], told
    keeper.wait(lambda: not troubles(keeper) and line(keeper)["rolled_up"] == 10, "its end")
