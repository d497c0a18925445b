"""Ledgers whose tables or rows a game has locked: a run waits or repeats a piece, and totals are correct."""
import threading

import pytest
from test_ledger import ENGINES, totals
from test_ledger_world import prepare
from wk.crash import go_on, wait_stopped
from wk.util import wait_for

GAIN = "INSERT INTO gains (player,mini,xp,at) VALUES "
OLD = "'2026-11-16 10:00:00'"


def waiting(server):
    """Returns sessions that wait for a lock of the ledger's table; only the rollup does."""
    return server.sessions(state="Waiting for table%", info="%gains%")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["READ", "WRITE"])
def test_a_game_that_locks_the_table(keeper, engine, how):
    """If a game locks the ledger's table, the rollup waits and then continues."""
    world = prepare(keeper, engine).world
    world.sql(GAIN + ",".join(f"({n % 7},1,1,{OLD})" for n in range(40)))
    wanted = totals(world)
    run = keeper.popen("--rollup", "--json", fault="ledger.piece=9,ledger.closed#1=stop")
    pids = wait_stopped(keeper, "ledger.closed=stop")
    game = world.server.admin(world.schema)
    with game.cursor() as cur:
        cur.execute(f"LOCK TABLES gains {how}")
        go_on(pids)
        wait_for(lambda: waiting(world.server), "the run to wait")
        cur.execute("SELECT SUM(xp) FROM gains")
        cur.execute("UNLOCK TABLES")
    game.close()
    done = keeper.finish(run)
    assert done.rc == 0 and done.result["ledgers"][0]["rolled_up"] == 40, done
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)


def lock_in_the_other_order(keeper, heavy):
    """Game and rollup lock rows in opposite order, and the server ends one of them. Returns the run, the game, whose transaction
    is still open, and the correct totals. The ledger has had 31 rows."""
    world = keeper.world
    world.sql(GAIN + f"(1,1,5,{OLD})")
    keeper.ok("--rollup", "--json")
    world.sql(GAIN + ",".join(f"({n % 3},1,1,{OLD})" for n in range(30)), "CREATE TABLE other (n INT PRIMARY KEY) ENGINE=InnoDB")
    wanted = totals(world)
    run = keeper.popen("--rollup", "--json", fault="ledger.read#1=stop")
    pids = wait_stopped(keeper, "ledger.read=stop")
    game, said = world.server.admin(world.schema, autocommit=False), []

    def want(cur):
        try:
            cur.execute("SELECT xp FROM gains WHERE id=2 FOR UPDATE")
            said.append("got it")
        except Exception as e:  # pylint: disable=broad-except; the server's choice
            said.append(e.args[0])
    with game.cursor() as cur:
        if heavy:  # the server prefers the transaction that wrote more
            cur.execute("INSERT INTO other VALUES " + ",".join(f"({n})" for n in range(500)))
        cur.execute("SELECT xp FROM xp_rollup WHERE player=1 AND mini=1 FOR UPDATE")
        wanting = threading.Thread(target=want, args=(cur,))
        wanting.start()
        wait_for(lambda: world.server.waiting_for_rows() == {game.thread_id()}, "the game to wait")
        go_on(pids)
        wanting.join()
        assert said == ["got it"] or not heavy and said == [1213], said
    return run, game, wanted


@pytest.mark.parametrize("heavy", [True, False])
def test_rows_that_are_locked_in_the_other_order(keeper, heavy):
    """If the server ends the rollup, it repeats the piece; the totals are correct whichever it ends."""
    world = prepare(keeper, "InnoDB").world
    run, game, wanted = lock_in_the_other_order(keeper, heavy)
    game.commit()
    game.close()
    done = keeper.finish(run)
    assert done.rc == 0, done
    assert totals(world) == wanted
    keeper.ok("--rollup", "--json")
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)


def test_a_row_that_is_locked_when_its_piece_is_repeated(keeper):
    """The row was written to a file before its piece was rolled back. The repeated piece skips it, and the next run does not
    write it to a second file."""
    world = prepare(keeper, "InnoDB", keep="90d").world
    run, game, wanted = lock_in_the_other_order(keeper, heavy=True)
    wait_for(lambda: world.server.waiting_for_rows() - {game.thread_id()}, "the run to wait for the total")
    game.commit()
    game.close()
    done = keeper.finish(run)
    assert done.rc == 0 and world.sql("SELECT id FROM gains") == ((2,),), done
    for left in (1, 0):
        told = keeper.ok("--rollup", "--verify", "--json")["ledgers"][0]
        assert told["file_rows"] == 31 and told["rolled_up"] == 31 - left and not told["problems"], told
        keeper.ok("--rollup", "--json")
        assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
