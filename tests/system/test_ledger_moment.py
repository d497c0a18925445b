"""Ledgers while other work continues: dumps taken during rollups show one moment. After the server, the supervisor or both are
killed, totals equal what was acknowledged."""
import os
import random
import threading
import time

import pytest
from test_journal import LOG, alive
from test_ledger import ENGINES, LEDGER, make
from wk.crash import go_on, wait_stopped
from wk.keeper import HELD, USER
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql

MINIS, WRITERS = 5, 3
ROUNDS = int(os.environ.get("WK_LEDGER_ROUNDS", "3"))
SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))


class Players:
    """Each player writes gains of 1 into the minis in turn, so that a moment must contain exactly the first n gains of each
    player."""

    def __init__(self, world):
        self.world, self.end = world, threading.Event()
        self.begun, self.acknowledged = [0] * WRITERS, [0] * WRITERS
        self.threads = []

    def write(self, n):
        try:
            con = self.world.server.admin(self.world.schema)
            with con.cursor() as cur:
                while not self.end.is_set():
                    at = self.begun[n]
                    self.begun[n] = at + 1
                    cur.execute(f"INSERT INTO gains (player,mini,xp,at) VALUES ({n},{at % MINIS},1,NOW())")
                    self.acknowledged[n] = at + 1
                    time.sleep(0.003)
        except Exception:  # the server is gone; the last gain may exist or not
            pass

    def play(self, n=1):
        """Waits until this many further gains of each player were acknowledged."""
        until = [count + n for count in self.acknowledged]
        wait_for(lambda: all(a >= b for a, b in zip(self.acknowledged, until)), "gains of each player")

    def __enter__(self):
        self.end.clear()
        self.threads = [threading.Thread(target=self.write, args=(n,)) for n in range(WRITERS)]
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *why):
        self.end.set()
        for t in self.threads:
            t.join()

    def check(self, totals, exact=True):
        """Asserts that `totals` {(player, mini): xp} are of one moment, with `exact` of the last one, from which the next round
        continues."""
        for n in range(WRITERS):
            mine = [int(totals.get((n, mini), 0)) for mini in range(MINIS)]
            count = sum(mine)
            assert mine == [len(range(mini, count, MINIS)) for mini in range(MINIS)], (n, mine)
            assert count <= self.begun[n] and (not exact or count >= self.acknowledged[n]), (
                n, self.acknowledged[n], count, self.begun[n])
            if exact:
                self.begun[n] = self.acknowledged[n] = count


def totals(world, engine="MEMORY"):
    """Returns the totals, computed from the tables instead of the view."""
    after = "WHERE l.id>COALESCE(r.end_id,0)" if engine == "MEMORY" else ""
    return {row[:2]: row[2] for row in world.sql(
        "SELECT player,mini,SUM(xp) FROM (SELECT player,mini,xp FROM xp_rollup UNION ALL SELECT l.player,l.mini,l.xp FROM "
        f"gains l LEFT JOIN xp_rollup r ON r.player=l.player AND r.mini=l.mini {after}) t GROUP BY player,mini")}


def prepare(keeper, engine, **more):
    make(keeper.world, engine)
    keeper.configure({"ledger xp": {**LEDGER, "rollup_after": "0", "interval": "1s"}, **more})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, "DELETE, CREATE VIEW")
    keeper.server.sql(*([f"GRANT DELETE ON {keeper.world.schema}.* TO {USER}@localhost"]))
    return keeper.init()


METHODS = [("MEMORY", "copy"), ("MEMORY", "lock"), ("InnoDB", "copy"), ("InnoDB", "lock"),
           pytest.param("MEMORY", "fuzzy", marks=pytest.mark.only("mariadb", why="HANDLER on MEMORY tables"))]


@pytest.mark.parametrize("engine,method", METHODS)
def test_dumps_while_rows_are_rolled_up(make_world, make_keeper, make_server, engine, method):
    """Dumps are taken during rollups that are slowed down between adding and deleting. Each dump, restored beside the world, is
    of one moment."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world("empty", server), {"dump": {
        "method": method, "engines": "memory" if method == "fuzzy" else "all"}})
    world, other = keeper.world, make_world("empty", server)
    prepare(keeper, engine)
    server.grant(USER + "@localhost", other.schema)
    done, said = threading.Event(), []

    def roll():
        while not done.is_set():
            said[:] = [keeper.run("--rollup", fault="ledger.added=sleep:20,ledger.piece=100")]
    roller = threading.Thread(target=roll)
    with Players(world) as players:
        roller.start()
        try:
            dumps = [keeper.dump() for _ in range(3)]
            wait_for(lambda: world.value("SELECT COUNT(*) FROM xp_rollup"), lambda: f"a run, {said}")
            dumps.append(keeper.dump())
        finally:
            done.set()
            roller.join()
    for dump in dumps:
        keeper.ok("--restore=" + dump["name"], "--into", other.schema, "--json")
        players.check(totals(other, engine), exact=False)
        other.sql("DROP TABLE gains, xp_rollup, xp_mark, level")
    players.check(totals(world, engine))


@pytest.mark.parametrize("rollup", ["MEMORY", "InnoDB"])
def test_kills_while_rows_are_rolled_up(make_world, make_keeper, make_server, rollup):
    """After kill -9 of server, supervisor or both during rollups, each acknowledged gain is in its total once."""
    print("seed", SEED)
    rand = random.Random(SEED + rollup)
    keeper = make_keeper(make_world("empty", make_server(*LOG)), {"probe": {"interval": "100ms"}})
    world = prepare(keeper, "MEMORY").world
    world.sql(f"ALTER TABLE xp_rollup ENGINE={rollup}")
    keeper.dump()
    players = Players(world)
    keeper.start()
    for n in range(ROUNDS):
        with players:
            players.play()
            time.sleep(rand.random() * 1.5)
            whom = rand.choice(["server", "supervisor", "both"])
            if whom != "server":
                keeper.kill9()
            if whom != "supervisor":
                keeper.server.kill9()
        if whom != "supervisor":
            keeper.server.process = None
            keeper.server.start()
        if whom != "server":
            point = rand.choice(["marked", "added", "deleted"])
            keeper.start(state=None, fault=f"ledger.{point}=sleep:{rand.randrange(1, 400)}")
        keeper.wait(lambda: keeper.flag() == "UP" and keeper.state() == "UP" and alive(keeper), f"the world after the kill of {whom}")
        players.check(totals(world))
        with players:
            players.play()
        players.check(totals(world))
    keeper.ok("--rollup", "--json")
    players.check(totals(world))


def test_a_restore_waits_for_a_run_and_ends_one(make_world, make_keeper, server):
    """A rollup must not add rows of the old tables to the restored ones: a restore is refused during a manual rollup, and ends
    the supervisor's."""
    keeper = prepare(make_keeper(make_world("empty", server), {"restore": {"lock_wait": "1s"}}), "MEMORY")
    world = keeper.world
    players = Players(world)
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"(1,{n % MINIS},1,NOW())" for n in range(100)))
    players.begun[1] = players.acknowledged[1] = 100
    keeper.dump()
    run = keeper.popen("--rollup", fault="ledger.marked=stop")
    pids = wait_stopped(keeper, "ledger.marked=stop")
    done = keeper.run("--restore", "--force", "--json")
    assert done.rc == HELD and "is rolling it up" in done.json["error"]["text"] and "KILL" in done.json["error"]["hint"], done
    go_on(pids)
    ended = keeper.finish(run)
    assert ended.rc == 0, ended
    players.check(totals(world))
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"(1,{n % MINIS},1,NOW())" for n in range(100)))
    players.begun[1] = players.acknowledged[1] = 200
    keeper.configure({"ledger xp": {"interval": "1s"}})
    keeper.start(fault="ledger.marked=stop")
    wait_stopped(keeper, "ledger.marked=stop")
    keeper.ok("--restore", "--force", "--json")
    players.begun[1] = players.acknowledged[1] = 100
    players.check(totals(world))
