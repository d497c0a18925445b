"""Random worlds and random changes: what a dump and the server's binary log come to is what the server
itself had, row for row, when it was killed and at a second before that.

WK_SEED=N repeats the worlds and statements of a run, WK_CASES says how many worlds there are; case number n
of a run has the seed N+n, so that it can be had alone; WK_SERVER=N is the server's options, a number of
SERVERS. WK_TRACE=DIRECTORY keeps all statements there."""
import glob
import os
import random
import re
import shutil
import sys
import threading

import pymysql
import pytest
from wk.keeper import DONE, USER
from wk.randomworld import Player, RandomWorld
from wk.snapshot import diff, snapshot
from wk.util import ident, wait_for

SEED = int(os.environ.get("WK_SEED") or random.randrange(10 ** 9))
CASES = int(os.environ.get("WK_CASES", "18"))
TOGETHER = 6  # worlds that die with one server
LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON",
       "--max-heap-table-size=64M"]
SERVERS = [
    [], ["--max-binlog-size=8192"], ["--binlog-row-metadata=FULL", "--binlog-row-event-max-size=1024"],
    ["--binlog-checksum=NONE", "--binlog-row-metadata=MINIMAL"], ["--mysql56-temporal-format=OFF"],
    ["--sql-mode=PAD_CHAR_TO_FULL_LENGTH,ANSI", "--character-set-server=ucs2", "--collation-server=ucs2_bin"],
    ["--default-time-zone=+05:45", "--sql-mode="], ["--binlog-annotate-row-events=OFF", "--sync-binlog=1"],
]
SCHEMAS = ["w{}", "w {}`q", "wört★{}", "w-{}.x%", "WORLD_{}"]


class Case:
    """One world: its keeper, its statements, and what the server had at moments of its life."""

    def __init__(self, seed, make_world, make_keeper, server):
        self.seed, self.rand, self.server = seed, random.Random(f"{seed}/case"), server
        self.random_world = RandomWorld(seed)
        schema = self.rand.choice(SCHEMAS).format(seed)
        self.world = make_world("empty", server, schema)
        self.into = f"then {seed}"
        self.method = self.rand.choice(("auto", "auto", "fuzzy", "copy", "lock"))
        self.keeper = make_keeper(self.world, {"dump": {"method": self.method}}, account=False)
        self.player = Player(self.world)
        self.changes = self.rows = 0
        self.gap = None  # what the journal cannot follow
        self.methods = []

    def build(self):
        refused = []
        self.player.connect()
        for sql in [*self.random_world.create(), *self.random_world.hangers()]:
            try:
                self.world.sql(sql)
            except pymysql.err.Error as e:
                refused.append((e, sql))
        for e, sql in refused:
            # a key that is too long, a row that is too long, two timestamps, a default or check that cannot be
            assert e.args[0] in (1067, 1068, 1071, 1118, 1171, 1294, 1901, 1906, 1089, 1170, 1072, 4031, 1359,
                                 1830, 1101, 1146), (e, sql)
        there = {t for (t,) in self.world.sql("SHOW TABLES")}
        self.random_world.tables = [t for t in self.random_world.tables if t.name in there]
        self.random_world.views = [(n, t) for n, t in self.random_world.views if n in there]
        if not self.random_world.tables:
            return False
        self.player.run(self.random_world.fill())
        self.keeper.init()
        return True

    def dump(self):
        """One dump, now and then while changes run."""
        if self.rand.random() < 0.5:
            self.one_dump()
            return
        enough = threading.Event()
        failed = []

        def play():
            try:
                self.player.run(self.random_world.changes(100000), enough)
            except Exception as e:  # told by the thread that waits
                failed.append(e)
        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        try:
            self.one_dump()
        finally:
            enough.set()
            thread.join(120)
        assert not failed and not thread.is_alive(), failed

    def one_dump(self):
        done = self.keeper.run("--dump", "--json", "--force")
        if done.rc != DONE and "fuzzy cannot be had" in done.out:
            self.keeper.configure({"dump": {"method": "auto"}})
            done = self.keeper.run("--dump", "--json", "--force")
        assert done.rc == DONE, done
        self.methods.append(self.keeper.newest()["method"])

    def change(self):
        """Ends with one that is sure to be done."""
        self.player.run(self.random_world.changes(self.rand.choice((5, 40, 120))))
        self.player.run(self.random_world.settle())
        log = self.random_world.log.sql
        self.world.sql(f"INSERT INTO {log} (what) VALUES ('the last one')")

    def end(self):
        """What the server has when it is killed, or had before something that the journal cannot follow."""
        self.change()
        picture, self.gap = self.picture(), None
        if self.rand.random() < 0.15:
            self.gap = self.random_world.gap()
            self.world.sql(*self.gap)
            self.change()
        self.player.close()
        return picture

    def picture(self, schema=None):
        """(rows of tables, AUTO_INCREMENT counters)"""
        rows, counters = {}, {}
        for key, value in snapshot(self.server, schema or self.world.schema, {"MEMORY"}).items():
            if key.startswith("rows "):
                rows[key] = value
            else:
                found = re.search(r" AUTO_INCREMENT=(\d+)", value.rpartition("\n)")[2])
                counters[key] = int(found[1]) if found else 1
        self.rows += sum(len(r) for r in rows.values())
        return rows, counters

    def same(self, before, after, what):
        difference = diff(before[0], {t: rows for t, rows in after[0].items() if t in before[0] or not self.gap})
        counters = {t: (n, after[1].get(t)) for t, n in before[1].items()
                    if after[1].get(t) != n and n < 2 ** 64 - 1}  # there is no next number
        assert not difference and not counters, \
            f"{self.about()}: {what}:\n{difference}\nAUTO_INCREMENT before and after: {counters}"

    def about(self):
        return f"WK_SEED={self.seed} WK_CASES=1 (schema {self.world.schema!r}, dumps {self.methods})"

    def restore(self, before):
        void = self.rand.random() < 0.15
        if void:
            self.world.sql(f"INSERT INTO {self.random_world.log.sql} (what) VALUES ('into the void')")
        done = self.keeper.run("--restore", "--json")
        assert done.rc == DONE, (self.about(), done)
        journal = done.result.get("journal", {})
        whole = bool(journal.get("whole")), bool(journal.get("gap"))
        assert journal.get("used") and whole == (not self.gap, bool(self.gap)), (self.about(), self.gap, done)
        assert journal["changes"] > 0 and not done.result["skipped"], (self.about(), done)
        assert done.result["conflict_rows"] == void, (self.about(), done)
        self.changes += journal["changes"]
        self.same(before, self.picture(), "after the loss")

    def at(self, moment, before):
        done = self.keeper.run("--restore", "--at", moment, "--into", self.into, "--json")
        assert done.rc == DONE, (self.about(), done)
        journal = done.result.get("journal", {})
        assert journal.get("used") and not journal.get("gap") and journal["changes"] > 0, (self.about(), done)
        self.same(before, self.picture(self.into), f"at {moment}")
        self.server.sql(f"DROP DATABASE {ident(self.into)}")

    def trace(self):
        where = os.environ.get("WK_TRACE")
        if where:
            with open(os.path.join(where, f"{self.seed}.sql"), "w") as f:
                for sql in [*RandomWorld(self.seed).create()]:
                    f.write(sql + ";\n")
                for session, sql, number in self.player.ran:
                    f.write(f"/* {session} {number or ''} */ {sql};\n")
            if sys.exc_info()[0]:
                shutil.copytree(self.keeper.dumps_dir, os.path.join(where, f"{self.seed}.dumps"), dirs_exist_ok=True)
                for log in glob.glob(os.path.join(self.server.datadir, "log.0*")):
                    shutil.copy(log, os.path.join(where, f"{self.seed}.dumps"))


def clock(server):
    """The server's whole second now, once it is over: what comes later has another one."""
    now = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')")
    wait_for(lambda: server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')") != now,
             "the next second", every=0.01)
    return now


def crash(server):
    """A prepared transaction whose ROLLBACK did not reach the disk is there again, with its locks."""
    server.crash()
    for row in server.sql("XA RECOVER FORMAT='SQL'"):
        server.sql(f"XA ROLLBACK {row[3]}")


def play(cases, server, rand, rounds=2):
    """Dumps, changes, a moment, changes, the loss; the second time a part of the worlds has no new dump."""
    for number in range(rounds):
        for case in cases:
            if number == 0 or rand.random() < 0.5:
                case.dump()
        clock(server)
        for case in cases:
            case.change()
        moments = [case.picture() for case in cases]
        moment = clock(server)
        before = [case.end() for case in cases]
        crash(server)
        for case, picture in zip(cases, before):
            case.restore(picture)
        for case, picture in zip(cases, moments):
            if rand.random() < 0.5:
                case.at(moment, picture)
        for case in cases:
            case.player.connect()


@pytest.mark.parametrize("first", range(0, CASES, TOGETHER))
def test_what_the_server_had(make_server, make_world, make_keeper, first):
    seeds = range(SEED + first, SEED + min(first + TOGETHER, CASES))
    print("seeds", *seeds)
    rand = random.Random(f"{seeds[0]}/batch")
    number = int(os.environ.get("WK_SERVER") or rand.randrange(len(SERVERS)))
    print("WK_SERVER", number, SERVERS[number])
    server = make_server(*LOG, *SERVERS[number])
    cases = [Case(seed, make_world, make_keeper, server) for seed in seeds]
    server.account(USER, [name for case in cases for name in (case.world.schema, case.into)])
    for host in ("localhost", "127.0.0.1"):
        server.sql(f"GRANT SET USER ON *.* TO {USER}@'{host}'")  # triggers belong to root
    try:
        cases = [case for case in cases if case.build()]
        assert cases
        play(cases, server, rand)
        for case in cases:
            print(case.about(), case.changes, "changes", case.rows, "rows")
            assert case.changes > 0 and case.rows > 0, case.about()
    finally:
        for case in cases:
            case.trace()
            case.player.close()
