"""Random worlds and random changes: a restore of a dump and the server's binary log must equal what the server
had, row for row, when it was killed and at a second before that. If the server's disk is lost, the same holds for
the dump and our own files.

WK_SEED=N repeats the worlds and statements of a run, and WK_CASES is the number of worlds. Case number n has the
seed N+n, so that it can be run alone. WK_SERVER is the index of the server's options in SERVERS, and WK_HOW says
whether the journal is in the server's log only or in files as well.
WK_TRACE=DIRECTORY keeps the statements of each case there, and the dumps and logs of cases that failed."""
import glob
import os
import random
import re
import shutil
import sys
import threading

import pymysql
import pytest
from wk.binlog import MIXED
from wk.keeper import DONE, HELD, REFUSED, USER
from wk.randomworld import MAY_BE_REFUSED, Player, RandomWorld
from wk.segments import Segments
from wk.server import MYSQL
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
if MYSQL:
    SERVERS = [
        [], ["--max-binlog-size=8192"], ["--binlog-row-metadata=FULL", "--binlog-row-event-max-size=1024"],
        ["--binlog-checksum=NONE", *MIXED], [*MIXED],
        ["--sql-mode=PAD_CHAR_TO_FULL_LENGTH,ANSI", "--character-set-server=ucs2", "--collation-server=ucs2_bin"],
        ["--default-time-zone=+05:45", "--sql-mode="],
        ["--binlog-row-value-options=PARTIAL_JSON", "--sync-binlog=1", "--binlog-rows-query-log-events=ON"],
    ]
SCHEMAS = ["w{}", "w {}`q", "wört★{}", "w-{}.x%", "WORLD_{}"]


class Case:
    """One world: its keeper, its statements, and the results that were reported."""

    def __init__(self, seed, make_world, make_keeper, server, follow):
        self.seed, self.rand, self.server = seed, random.Random(f"{seed}/case"), server
        self.script = RandomWorld(seed)
        self.world = make_world("empty", server, self.rand.choice(SCHEMAS).format(seed))
        self.into = f"then {seed}"
        method = self.rand.choice(("auto", "auto", "fuzzy", "copy", "lock"))
        self.keeper = make_keeper(self.world, {
            "dump": {"method": method, "shrink_limit": "100%"}, "restore": {"auto": "no"},
            "journal": {"mode": "follow" if follow else "server", "segment": "64KiB"}}, account=False)
        self.segments = Segments(self.keeper) if follow else None  # only a supervisor writes journal files
        self.player = Player(self.world)
        self.changes = self.rows = 0
        self.gap = None  # the statements that the journal cannot follow
        self.followed = 0  # the length of the keeper's log when the current follower began
        self.methods = []  # the methods of the dumps

    def build(self):
        """Creates the world's tables. Returns False if the server accepts none of them."""
        refused = []
        for sql in [*self.script.create(), *self.script.hangers()]:
            try:
                self.world.sql(sql)
            except pymysql.err.Error as e:
                if e.args[0] not in MAY_BE_REFUSED:
                    refused.append((e, sql))
        assert not refused, (self.about(), refused)
        self.script.keep({name for (name,) in self.world.sql("SHOW TABLES")})
        if not self.script.tables:
            return False
        self.player.connect().run(self.script.fill())
        self.keeper.init()
        return True

    def about(self):
        how = "files" if self.segments else "log"
        return f"WK_SEED={self.seed} WK_CASES=1 WK_HOW={how} (schema {self.world.schema!r}, dumps {self.methods})"

    # -- what happens to it ---------------------------------------------------------------------

    def begin(self):
        """Starts a supervisor, which writes the journal and makes the dumps while changes run."""
        if self.segments:
            self.keeper.start()
            self.keeper.wait(lambda: (lambda j: j and j.get("state") == "following" and not j["gap"])(
                self.keeper.status().get("journal")), "the journal")
            self.followed = len(self.keeper.log())
            if self.rand.random() < 0.5:
                self.dump()

    def halt(self):
        if self.segments:
            self.segments.wait_all()
            if self.rand.random() < 0.5:
                self.keeper.kill9()
            else:
                assert self.keeper.stop() == 0

    def dump(self):
        """Makes a dump, every second time while changes run."""
        enough, failed = threading.Event(), []

        def play():
            try:
                self.player.run(self.script.changes(100000), enough)
            except Exception as e:
                failed.append(e)
        thread = threading.Thread(target=play, daemon=True)
        if self.rand.random() < 0.5:
            thread.start()
        try:
            self.one_dump()
        finally:
            enough.set()
            if thread.ident:
                thread.join(120)
        assert not failed and not thread.is_alive(), (self.about(), failed)

    def one_dump(self):
        def tried():
            """Runs a dump. Returns None to try again if another dump runs, a session of the game holds its locks for too long, or
            a table's index changed meanwhile."""
            done = self.keeper.run("--dump", "--json", "--force")
            return None if done.rc == HELD or re.search('"class":"(stalled|changed)"', done.out) else done
        done = wait_for(tried, "another dump to end")
        if done.rc != DONE and "fuzzy is not possible" in done.out:
            self.keeper.configure({"dump": {"method": "auto"}})
            done = wait_for(tried, "a dump in another way")
        assert done.rc == DONE, (self.about(), done)
        self.methods.append(self.keeper.newest()["method"])

    def change(self):
        """Runs changes, the last of which is certain to be logged. The thread of an INSERT DELAYED ends some time after FLUSH
        TABLES, and only then its rows are in the log."""
        self.player.run(self.script.changes(self.rand.choice((5, 40, 120))))
        self.player.run(self.script.settle())
        if not MYSQL:
            wait_for(lambda: self.server.sql("SHOW GLOBAL STATUS LIKE 'Delayed_insert_threads'")[0][1] in (0, "0"),
                     "the delayed rows")
        self.world.sql(self.script.note("'the last one'"))

    def end(self, may_stumble):
        """Returns what the server has when it is killed, or had before a statement that the journal cannot follow."""
        self.change()
        picture, self.gap = self.picture(), None
        self.halt()
        if may_stumble and self.rand.random() < 0.15:
            statements, touched = self.script.gap()
            self.gap = statements if touched != "" else None
            self.world.sql(*statements)
            self.keeper.configure({"dump": {"method": "auto"}})  # a new table may have no key, which excludes a fuzzy dump
            self.change()
            if touched is not None:  # all other tables continue
                picture = tuple({k: v if k.partition(" ")[2] == touched else later[k] for k, v in now.items()}
                                for now, later in zip(picture, self.picture()))
        self.player.close()
        return picture

    def restore(self, before, on_new_server=False):
        void = not on_new_server and self.rand.random() < 0.15
        if void:
            self.world.sql(self.script.note("'into the void'"))
        done = self.keeper.run("--restore", "--json")
        assert done.rc == DONE, (self.about(), done)
        journal = done.result.get("journal", {})
        gap = "its files end at" if on_new_server else self.gap  # the log of another server does not continue the journal
        told = bool(journal.get("whole")), bool(journal.get("gap"))
        assert journal.get("used") and told == (not gap, bool(gap)), (self.about(), gap, done)
        assert not on_new_server or journal["gap"].startswith(gap), (self.about(), done)
        assert not done.result["skipped"] and done.result["conflict_rows"] == void, (self.about(), done)
        assert journal["changes"] > 0 or self.began_anew(), (self.about(), done)
        assert bool(self.segments and journal["changes"]) == (journal["filed"] > 0), (self.about(), done)
        self.changes += journal["changes"]
        self.same(before, self.picture(), f"after the loss, with the gap {self.gap}, told {journal.get('gap')}")

    def began_anew(self):
        """Returns whether a dump was stored after a gap: a follower that began late may find a table that was altered
        since, and all changes may be older than that dump."""
        return "a dump was stored; the journal continues from it" in self.keeper.log()[self.followed:]

    def at(self, moment, before):
        done = self.keeper.run("--restore", "--at", moment, "--into", self.into, "--json")
        if self.began_anew() and done.rc == REFUSED and "does not reach that moment" in done.out:
            return  # the moment is between the end of the journal and that dump
        assert done.rc == DONE, (self.about(), done)
        journal = done.result.get("journal", {})
        assert journal.get("used") and not journal.get("gap"), (self.about(), done)
        assert journal["changes"] > 0 or self.began_anew(), (self.about(), done)
        self.same(before, self.picture(self.into), f"at {moment}")
        self.server.sql(f"DROP DATABASE {ident(self.into)}")

    # -- what it looks like ---------------------------------------------------------------------

    def picture(self, schema=None):
        """Returns (rows of each table, its AUTO_INCREMENT counter), without tables that were created after a gap, which are in no
        dump."""
        rows, counters = {}, {}
        for key, value in snapshot(self.server, schema or self.world.schema, {"MEMORY"}).items():
            if " fresh" in key:
                continue
            if key.startswith("rows "):
                rows[key] = value
            else:
                found = re.search(r" AUTO_INCREMENT=(\d+)", value.rpartition("\n)")[2])
                counters[key] = int(found[1]) if found else 1
        self.rows += sum(len(r) for r in rows.values())
        return rows, counters

    def same(self, before, after, what):
        """Compares two pictures. A counter without a next number may be lost; MySQL then shows 1."""
        counters = {t: (n, after[1].get(t)) for t, n in before[1].items()
                    if after[1].get(t) != n and n < 2 ** 64 - 1 and not (MYSQL and n == 1)}
        difference = diff(before[0], after[0])
        assert not difference and not counters, \
            f"{self.about()}: {what}:\n{difference}\nAUTO_INCREMENT before and after: {counters}"

    def trace(self, where):
        with open(os.path.join(where, f"{self.seed}.sql"), "w", errors="replace") as f:
            for sql in RandomWorld(self.seed).create():
                f.write(sql + ";\n")
            for session, sql, number in self.player.ran:
                f.write(f"/* {session} {number or ''} */ {sql};\n")
        if sys.exc_info()[0]:
            kept = os.path.join(where, f"{self.seed}.dumps")
            shutil.copytree(self.keeper.dumps_dir, kept, dirs_exist_ok=True)
            for log in glob.glob(os.path.join(self.server.datadir, "log.0*")):
                shutil.copy(log, kept)


def clock(server):
    """Returns the server's current second after it has ended, so that later changes have another one."""
    now = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')")
    wait_for(lambda: server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')") != now,
             "the next second", every=0.01)
    return now


def crash(server):
    """Crashes the server. A prepared transaction whose ROLLBACK did not reach the disk exists again with its locks, and is rolled
    back."""
    server.crash()
    for row in server.sql("XA RECOVER CONVERT XID" if MYSQL else "XA RECOVER FORMAT='SQL'"):
        server.sql(f"XA ROLLBACK {row[3]}")


def account(server, cases):
    server.account(USER, [name for case in cases for name in (case.world.schema, case.into)])
    for host in ("localhost", "127.0.0.1"):
        server.sql(f"GRANT SET USER ON *.* TO {USER}@'{host}'")  # triggers belong to root


def another_server(server, cases):
    """Replaces a server whose disk is lost by a new one."""
    server.kill9()
    server.install()
    server.start()
    for case in cases:
        server.sql(f"CREATE DATABASE {ident(case.world.schema)} CHARACTER SET utf8mb4")
    account(server, cases)


def play(cases, server, rand, follow):
    """Makes dumps, changes, a moment for --at, more changes and a loss; in the second round some worlds get no new dump."""
    for number in range(2):
        lost = follow and number == 1
        for case in cases:
            if number == 0 or rand.random() < 0.5:
                case.dump()
            case.begin()
        clock(server)
        for case in cases:
            case.change()
        moments = [case.picture() for case in cases]
        moment = clock(server)
        ends = [case.end(not lost) for case in cases]
        another_server(server, cases) if lost else crash(server)
        for case, picture in zip(cases, ends):
            case.restore(picture, lost)
        for case, picture in zip(cases, moments):
            if rand.random() < 0.5:
                case.at(moment, picture)
            if not lost:
                case.player.connect()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, CASES, TOGETHER))
def test_what_the_server_had(make_server, make_world, make_keeper, first):
    seeds = range(SEED + first, SEED + min(first + TOGETHER, CASES))
    rand = random.Random(f"{seeds[0]}/together")
    number = int(os.environ.get("WK_SERVER") or rand.randrange(len(SERVERS)))
    follow = (os.environ.get("WK_HOW") or rand.choice(("files", "log"))) == "files"
    print("seeds", *seeds, f"WK_SERVER={number}", SERVERS[number], "files" if follow else "log")
    server = make_server(*LOG, *SERVERS[number])
    cases = [Case(seed, make_world, make_keeper, server, follow) for seed in seeds]
    account(server, cases)
    try:
        cases = [case for case in cases if case.build()]
        play(cases, server, rand, follow)
        for case in cases:
            print(case.about(), case.changes, "changes", case.rows, "rows")
        assert cases and all(case.changes > 0 and case.rows > 0 for case in cases)
    finally:
        for case in cases:
            case.player.close()
            if os.environ.get("WK_TRACE"):
                case.trace(os.environ["WK_TRACE"])
