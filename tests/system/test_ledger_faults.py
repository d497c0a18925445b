"""A rollup or its server dies between any two of its effects: totals are correct at each moment, and the next run continues."""
import pytest
from test_journal import LOG, keep
from test_ledger import summed, totals
from test_ledger_world import prepare
from wk.crash import stopped
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql

KINDS = {"MEMORY": {}, "InnoDB": {"engine": "InnoDB"}, "mixed": {"rollup": "InnoDB"}}
POINTS = ["ledger.read", "ledger.marked", "ledger.requests", "ledger.added", "ledger.deleted", "ledger.closed"]


def points(kind):
    return [p for p in POINTS if p != "ledger.marked" or kind != "InnoDB"]


def play(world, wanted, first):
    """Inserts gains of a few keys and adds them to `wanted`, the expected totals."""
    gains = [(n % 7, n % 2, first + n) for n in range(50)]
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(
        f"({p},{m},{xp},'2026-11-16 10:00:00')" for p, m, xp in gains))
    for p, m, xp in gains:
        wanted[p, m] = wanted.get((p, m), 0) + xp


def finish(keeper, wanted):
    """Asserts that the next run rolls up the rest and another one nothing."""
    world = keeper.world
    assert totals(world) == wanted, "while the dead run's rows still lie there"
    play(world, wanted, 1000)
    assert totals(world) == wanted
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["ignored"] == 0
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    rollup = world.sql("SELECT * FROM xp_rollup ORDER BY player,mini")
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 0
    assert world.sql("SELECT * FROM xp_rollup ORDER BY player,mini") == rollup and totals(world) == wanted


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind,point", [(kind, point) for kind in KINDS for point in points(kind)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_run_is_killed(keeper, kind, point, times):
    """A run is killed in its first or a later piece, and the next run at the same point: the totals stay correct."""
    world, wanted = prepare(keeper, **KINDS[kind]).world, {}
    for piece in (times, 1):
        play(world, wanted, 1)
        died = keeper.run("--rollup", fault=f"ledger.piece=9,{point}#{piece}=kill")
        assert died.rc == -9, died
        assert totals(world) == wanted
    finish(keeper, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_server_is_killed(make_world, make_keeper, make_server, kind):
    """The server is killed at each point; after a restore with the server's log the totals are correct."""
    keeper, wanted = keep(make_world, make_keeper, make_server(*LOG)), {}
    world = prepare(keeper, **KINDS[kind]).world
    keeper.dump()
    for n, point in enumerate(points(kind)):
        play(world, wanted, 1)
        run = keeper.popen("--rollup", fault=f"ledger.piece=9,{point}#{1 + n % 3}=stop")
        wait_for(lambda: stopped(keeper), "the run to stop " + point)
        assert totals(world) == wanted, point
        keeper.server.kill9()
        run.kill()
        keeper.finish(run)
        keeper.server.start()
        keeper.ok("--restore")
        finish(keeper, wanted)
    assert summed(world) == {}
