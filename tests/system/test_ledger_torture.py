"""Ledgers under load: a read of a total contains at least what was acknowledged before the read began, and at most what was begun
before it ended. Every gain is positive, so that a missing or doubled row shows. Each run does a share; `make ledger-torture`
continues for LEDGER_ROWS rows and LEDGER_ROLLUPS rollups of each kind."""
import os
import random
import threading
import time

import pytest
from test_ledger import LEDGER, make
from wk.keeper import USER

ROWS, ROLLUPS = (int(os.environ.get("WK_LEDGER_" + what, "0")) for what in ("ROWS", "ROLLUPS"))
SEED = int(os.environ.get("WK_LEDGER_SEED") or random.SystemRandom().randrange(10**9))
LONG = ROWS > 0
SECONDS = 2  # duration of a share
WRITERS, READERS, KEYS = 8, 4, 40
SPEEDS = (1, 2, 3, 100, 400) if LONG else (1, 2, 3, 50)  # rows per statement
TIMES = ["NOW() - INTERVAL 2 DAY", "NOW()", "'1970-01-02 00:00:00'", "'2037-01-01 00:00:00'"]
BEGINS = [0, 1, 4, 10]  # experience at which each level begins
ROOM = 4000  # rows that may wait for a rollup, because a MEMORY table is limited
ENGINES = ["MEMORY", "InnoDB", "mixed"]  # mixed: the ledger in MEMORY, its rollup durable


class Writer(threading.Thread):
    """Counts for each key what it began and what was acknowledged; other threads only read these counts. Both only grow, so that
    a read during a change is never stricter than it may be."""

    def __init__(self, world, engine, number, end, done):
        super().__init__()
        self.world, self.engine, self.end, self.done = world, engine, end, done
        self.random = random.Random(f"{SEED} {number}")
        self.begun, self.acknowledged, self.rows = [0] * KEYS, [0] * KEYS, 0
        self.failed = None

    def statement(self):
        rng, sums = self.random, [0] * KEYS
        gains = [(rng.randrange(KEYS), rng.randrange(1, 100)) for _ in range(rng.choice(SPEEDS))]
        for key, xp in gains:
            sums[key] += xp
        at = rng.choice(TIMES)
        return len(gains), sums, "INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(
            f"({key},1,{xp},{at})" for key, xp in gains)

    def run(self):
        try:
            con = self.world.server.admin(self.world.schema)
            con.autocommit(self.engine != "InnoDB")
            stock = [self.statement() for _ in range(60)]
            with con.cursor() as cur:
                while not self.end.is_set():
                    if self.rows - self.done["rolled up"] / WRITERS > ROOM / WRITERS:
                        time.sleep(0.01)
                    else:
                        self.write(con, cur, *self.random.choice(stock))
            con.close()
        except Exception as e:  # pylint: disable=broad-except; the test says so
            self.failed = e
            self.end.set()

    def write(self, con, cur, rows, sums, sql):
        for key, xp in enumerate(sums):
            self.begun[key] += xp
        cur.execute(sql)
        if self.engine == "InnoDB":
            time.sleep(self.random.random() * 0.01)  # lets others with larger ids commit first
            con.commit()
        for key, xp in enumerate(sums):
            self.acknowledged[key] += xp
        self.rows += rows


class Reader(threading.Thread):
    def __init__(self, world, number, writers, end):
        super().__init__()
        self.world, self.writers, self.end = world, writers, end
        self.random = random.Random(f"{SEED} reader {number}")
        self.reads, self.wrong, self.failed = 0, [], None

    def sums(self, of):
        return [sum(column) for column in zip(*(getattr(w, of) for w in self.writers))]

    def run(self):
        try:
            con = self.world.server.admin(self.world.schema)
            with con.cursor() as cur:
                while not self.end.is_set() and not self.wrong:
                    self.read(cur)
            con.close()
        except Exception as e:  # pylint: disable=broad-except; the test says so
            self.failed = e
        if self.wrong or self.failed:
            self.end.set()

    def read(self, cur):
        one = self.random.randrange(KEYS) if self.random.random() < 0.7 else None
        levels = self.random.random() < 0.3
        least = self.sums("acknowledged")
        sql = ("SELECT player,level,exp FROM xp_level" if levels else "SELECT player,xp FROM xp_total") + (
            f" WHERE player={one} AND mini=1" if one is not None else "")
        cur.execute(sql)
        got = {row[0]: BEGINS[row[1] - 1] + row[2] if levels else row[1] for row in cur.fetchall()}
        most = self.sums("begun")
        self.reads += 1
        for key in range(KEYS) if one is None else [one]:
            if not least[key] <= got.get(key, 0) <= most[key]:
                self.wrong.append((key, levels, least[key], got.get(key), most[key], self.again(cur, sql, key)))

    def again(self, cur, sql, key):
        """Reads the same again and returns details that show whether a row was lost or a read was wrong."""
        said = [f"begun now {self.sums('begun')[key]}"]
        for one in (sql, f"SELECT * FROM xp_rollup WHERE player={key}",
                    f"SELECT COUNT(*),SUM(xp),MIN(id),MAX(id) FROM gains WHERE player={key}"):
            cur.execute(one)
            said.append([row for row in cur.fetchall() if len(row) > 3 or row[0] == key])
        said.append(f"acknowledged then {self.sums('acknowledged')[key]}")
        return said


@pytest.fixture
def ledger(keeper, request):
    world, engine = keeper.world, request.param
    make(world, "InnoDB" if engine == "InnoDB" else "MEMORY")
    keeper.configure({"ledger xp": {**LEDGER, "rollup_after": "0"}})
    keeper.server.grant(USER + "@localhost", world.schema, "DELETE, CREATE VIEW")
    keeper.init()
    if engine == "mixed":
        world.sql("ALTER TABLE xp_rollup ENGINE=InnoDB")
    keeper.engine = engine
    return keeper


def roll_up(keeper, writers, readers, end, done):
    """Rolls up without a pause until there were enough rows, reads and runs."""
    until = time.monotonic() + SECONDS

    def enough():
        return (time.monotonic() >= until and done["rolled up"] and all(r.reads for r in readers)
                and sum(w.rows for w in writers) >= ROWS and done["runs"] >= ROLLUPS)
    while not end.is_set() and not enough():
        one = keeper.ok("--rollup", "--json")["ledgers"][0]
        assert one["ignored"] == 0, one
        done["runs"] += 1
        done["rolled up"] += one["rolled_up"]
        if LONG and done["runs"] % 100 == 0:
            print(f"{keeper.engine}: {sum(w.rows for w in writers)} rows, {done}", flush=True)


@pytest.mark.each_server
@pytest.mark.parametrize("ledger", ENGINES, indirect=True)
def test_totals_while_rows_are_rolled_up(ledger):
    print(f"seed {SEED}")
    world, end, done = ledger.world, threading.Event(), {"runs": 0, "rolled up": 0}
    writers = [Writer(world, ledger.engine, n, end, done) for n in range(WRITERS)]
    readers = [Reader(world, n, writers, end) for n in range(READERS)]
    for t in writers + readers:
        t.start()
    try:
        roll_up(ledger, writers, readers, end, done)
    finally:
        end.set()
        for t in writers + readers:
            t.join()
    for t in writers + readers:
        assert not t.failed, (SEED, t.failed)
    assert not any(r.wrong for r in readers), (SEED, [r.wrong for r in readers])
    for _ in range(2):  # totals are equal before and after the last rollup
        got = dict(world.sql("SELECT player,xp FROM xp_total"))
        assert [got.get(key, 0) for key in range(KEYS)] == readers[0].sums("acknowledged"), SEED
        ledger.ok("--rollup", "--json")
    assert world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    print(f"{ledger.engine}: {sum(w.rows for w in writers)} rows, {sum(r.reads for r in readers)} reads, {done}")
