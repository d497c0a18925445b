"""Ledgers with dumps, the journal and restores: rollup and ledger of a restored world show the same moment."""
import pytest
from test_journal import LOG, crash, keep
from test_ledger import ENGINES, LEDGER, make, summed, totals
from wk.follow import following
from wk.keeper import USER

pytestmark = pytest.mark.third_on_mysql


@pytest.mark.parametrize("engine", ["MEMORY"])
def test_a_loss_after_a_rollup(make_world, make_keeper, make_server, engine):
    """A rollup is not a gap in the journal, and its changes are restored."""
    server = make_server(*LOG)
    keeper = keep(make_world, make_keeper, server)
    world = keeper.world
    make(world, engine)
    keeper.configure({"ledger xp": LEDGER})
    server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(
        f"({n % 7},{n % 2},{n},'2026-11-16 10:00:00')" for n in range(5000)))
    wanted = summed(world)
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    following(keeper)
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 5000
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (3,1,1000,NOW())")
    wanted[3, 1] += 1000
    assert totals(world) == wanted
    before = world.snapshot()
    told = crash(keeper)
    assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
    world.assert_is(before, "after the loss")
    assert totals(world) == wanted
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 0
    assert len(keeper.dumps()) == 1, "a rollup is no gap"


def prepare(keeper, engine="MEMORY", rollup=None, **more):
    """Returns a keeper of a world with a ledger; `rollup` is the engine of the rollup table if it differs from the ledger's."""
    make(keeper.world, engine)
    keeper.configure({"ledger xp": {**LEDGER, "rollup_after": "0", **more}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    if rollup:
        keeper.world.sql(f"ALTER TABLE xp_rollup ENGINE={rollup}")
    return keeper


def gain(world, n, first=0, xp=1):
    for at in range(0, n, 2000):
        world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(
            f"({(first + k) % 7},{k % 2},{xp},'2026-11-16 10:00:00')" for k in range(at, min(n, at + 2000))))


@pytest.mark.parametrize("rollup", [None, "InnoDB"])
def test_a_ledger_may_shrink_by_a_rollup_only(keeper, rollup):
    """Rows that were rolled up since the last dump do not count as a shrink; rows that were deleted otherwise do."""
    world = prepare(keeper, rollup=rollup).world
    keeper.configure({"dump": {"shrink_action": "reject"}})
    world.sql("INSERT INTO level VALUES (4,5),(5,5),(6,5)")
    gain(world, 3000)
    keeper.dump()
    keeper.ok("--rollup")
    keeper.dump()
    assert keeper.newest()["ledgers"] == [{"name": "xp", "table": "gains", "rolled_up": 3000, "end_id": 3000,
                                           "open": 0}]
    gain(world, 1000)
    keeper.dump()
    world.sql("DELETE FROM gains LIMIT 900")
    done = keeper.run("--dump", "--json")
    assert done.rc == 1 and "in 'gains', previously 1000" in done.json["error"]["text"], done
    keeper.ok("--rollup")  # rolls up the 100 that are left, which does not explain the other 900
    done = keeper.run("--dump")
    assert done.rc == 1, done


@pytest.mark.parametrize("method", ["copy", "lock"])
def test_a_dump_between_adding_and_deleting(keeper, method):
    """Rows that are in totals and not yet deleted do not count as a shrink in the next dump."""
    keeper.configure({"dump": {"method": method}})
    world = prepare(keeper).world
    gain(world, 900)
    died = keeper.run("--rollup", fault="ledger.added=kill")
    assert died.rc == -9, died
    keeper.dump()
    assert keeper.newest()["ledgers"][0]["open"] == 900, keeper.newest()["ledgers"]
    wanted = totals(world)
    keeper.ok("--rollup")
    assert world.value("SELECT COUNT(*) FROM gains") == 0 and totals(world) == wanted
    keeper.dump()
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    keeper.ok("--drill")
