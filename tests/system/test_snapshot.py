"""Tests of copies over several connections, and of scans without a lock: they show one moment, never deadlock, and keep every
byte."""
import contextlib
import gzip
import itertools
import json
import os
import re
import subprocess
import threading
import time

import pymysql
import pytest
from wk.crash import go_on, stopped
from wk.keeper import BINARY, DONE, FAILED, USER, built
from wk.relay import Relay
from wk.server import MYSQL, repeating, stock_restore
from wk.util import PATIENCE, ident, wait_for
from wk.watch import Beside, Lateness

pytestmark = pytest.mark.third_on_mysql

SCAN = os.path.join(os.path.dirname(BINARY), "bench", "scan")
several = pytest.mark.needs("processors")  # with one processor only one connection copies
# Enough rows for a second connection.
BIG = ["SET max_heap_table_size=512*1024*1024",
       "CREATE TABLE a (id INT PRIMARY KEY, n INT NOT NULL, t VARCHAR(20)) ENGINE=MEMORY",
       "INSERT INTO a SELECT seq, 0, CONCAT('a ',seq) FROM seq_1_to_90000",
       "CREATE TABLE b LIKE a", "INSERT INTO b SELECT id, n, REPLACE(t,'a','b') FROM a",
       "CREATE TABLE c (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO c VALUES (1),(2)"]


def big_keeper(make_world, make_keeper, on=None, method="copy"):
    world = make_world("empty", on=on)
    world.sql(*BIG)
    return make_keeper(world, {"dump": {"method": method}}).init()


def rows_in(path, table):
    """Returns {id: the other fields as text} of a table in a dump."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as f:
        text = f.read()
    inserts = re.findall(rf"INSERT INTO `{table}` .*? VALUES\n(.*?);\n", text, re.S)
    return {int(i): rest for part in inserts for i, rest in
            re.findall(r"^\((\d+),?(.*?)\),?$", part, re.M)}


def sessions(keeper):
    return sorted(session.id for session in keeper.server.sessions(user=USER, db=keeper.world.schema))


def dump_stopped_at(keeper, point):
    """Starts a dump and returns it with its process that has stopped at `point`. The server may count the sessions of the
    dump before for a moment after it no longer lists them: a dump that it refuses for this reason is started again."""
    while True:
        wait_for(lambda: not keeper.server.sessions(user=USER), "the sessions of the last dump to end")
        dumping = keeper.popen("--dump", "--json", fault=point + "=stop")
        keeper.wait(lambda: stopped(keeper) or dumping.poll() is not None, f"the dump to stop at {point}")
        if at_work := stopped(keeper):
            return dumping, at_work
        refused = keeper.finish(dumping)
        assert "max_user_connections" in refused.json["error"]["text"], refused


class Player(Beside):
    """Plays rounds of statements continuously and records the longest duration of one. A round begins again after a deadlock
    between games."""

    def __init__(self, world, *statements):
        super().__init__()
        self.world, self.statements, self.rounds, self.longest = world, statements, 0, 0.0

    def work(self):
        con = self.world.server.admin(self.world.schema, read_timeout=PATIENCE)
        with con.cursor() as cur:
            while not self.ended.is_set():
                try:
                    for statement in self.statements:
                        self.play(cur, statement)
                    self.rounds += 1
                except pymysql.err.OperationalError as e:
                    if e.args[0] != 1213:
                        raise
                    cur.execute("UNLOCK TABLES")
        con.close()

    def play(self, cur, statement):
        began = time.monotonic()
        cur.execute(statement)
        self.longest = max(self.longest, time.monotonic() - began)


@pytest.mark.slow
@several
def test_a_game_that_locks_two_tables_is_no_deadlock(make_world, make_keeper):
    """Games that lock the same two tables by LOCK TABLES, in one statement and through a trigger play on. All dumps succeed,
    and each has both tables of one moment."""
    keeper = big_keeper(make_world, make_keeper)
    world = keeper.world
    world.sql("CREATE TABLE d LIKE a", "INSERT INTO d SELECT * FROM a LIMIT 10000",
              "CREATE TRIGGER t AFTER UPDATE ON b FOR EACH ROW UPDATE a SET n=NEW.n WHERE "
              "id=NEW.id AND id=3")
    with Lateness() as lateness, Player(world, "LOCK TABLES b WRITE, a WRITE", "UPDATE b SET n=n+1 WHERE id=1",
                "UPDATE a SET n=n+1 WHERE id=1", "UNLOCK TABLES") as locker, \
            Player(world, "UPDATE a, d SET a.n=a.n+1, d.n=d.n+1 WHERE a.id=2 AND d.id=2") as both, \
            Player(world, "UPDATE b SET n=n+1 WHERE id=3") as triggering, \
            Player(world, "TRUNCATE c", "INSERT INTO c VALUES (1)", "DO SLEEP(0.02)") as emptying:
        players = [locker, both, triggering, emptying]
        seen = []
        for _ in range(6):
            before = [p.rounds for p in players]
            wait_for(lambda: all(p.rounds > n for p, n in zip(players, before)), "all to play")
            path = keeper.dump("--force")["path"]  # c is sometimes empty
            a, b, d = (rows_in(path, t) for t in "abd")
            assert len(a) == len(b) == 90000
            for i, other in ((1, b), (2, d), (3, b)):
                assert a[i].split(",")[0] == other[i].split(",")[0], (i, a[i], other[i])
            seen.append([int(a[i].split(",")[0]) for i in (1, 2, 3)])
    assert seen == sorted(seen) and seen[0] != seen[-1]
    assert max(p.longest for p in players) < 5 + lateness.worst_ms / 100, [p.longest for p in players]


@several
@pytest.mark.only("mariadb", why="partitions of MEMORY tables")
def test_parts_of_tables_are_whole_together(make_world, make_keeper):
    """Tables that are copied in parts, with holes of deleted rows and with partitions, have each row once."""
    keeper = big_keeper(make_world, make_keeper)
    keeper.world.sql("SET max_heap_table_size=512*1024*1024",
                     "CREATE TABLE p LIKE a", "ALTER TABLE p PARTITION BY HASH(id) PARTITIONS 3",
                     "INSERT INTO p SELECT * FROM a WHERE id MOD 5 > 0", "DELETE FROM p WHERE id < 100",
                     "DELETE FROM a WHERE id MOD 3=0 OR id BETWEEN 30000 AND 50000",
                     "INSERT INTO a SELECT id, 7, t FROM b WHERE id MOD 9=0")
    path = keeper.dump()["path"]
    for table in "abp":
        rows = rows_in(path, table)
        found = [(i, int(rest.split(",")[0])) for i, rest in rows.items()]
        assert sorted(found) == list(keeper.world.sql(f"SELECT id, n FROM {table} ORDER BY id"))


def copying_sessions(keeper, limit=0):
    """Returns how many sessions a dump has while it copies if the account may have `limit` (0: any number)."""
    account = "ALTER USER keeper@localhost WITH MAX_USER_CONNECTIONS "
    keeper.server.sql(account + str(limit))
    try:
        dumping, at_work = dump_stopped_at(keeper, "dump.locked")
        n = len(sessions(keeper))
        go_on(at_work)
        done = keeper.finish(dumping)
        assert done.rc == DONE, done
        return n
    finally:
        keeper.server.sql(account + "0")


@several
def test_the_number_of_connections(make_world, make_keeper):
    """A big world is copied by more than two connections, a small one by two, which is also enough if the account may have no
    more."""
    big = big_keeper(make_world, make_keeper)
    assert copying_sessions(big) > 2
    assert copying_sessions(big, 2) == 2
    assert copying_sessions(make_keeper(make_world("small")).init()) == 2


@pytest.mark.parametrize("change", [
    "INSERT INTO c SELECT seq FROM seq_10_to_200000",  # more than the copy was planned for
    "INSERT INTO a SELECT seq, 1, 'new' FROM seq_100001_to_150000",
    "DELETE FROM a WHERE id > 100",
    "DELETE FROM a",
], ids=["grown", "more", "shrunk", "emptied"])
def test_tables_that_change_before_the_lock(make_world, make_keeper, change):
    """A dump has the rows that exist at the lock, also if tables changed after it was planned."""
    keeper = big_keeper(make_world, make_keeper)
    keeper.dump()
    dumping, at_work = dump_stopped_at(keeper, "dump.listed")
    keeper.world.sql("SET max_heap_table_size=512*1024*1024", "ALTER TABLE c ENGINE=MEMORY", change)
    go_on(at_work)
    done = keeper.finish(dumping)
    if "DELETE" in change:  # it may be rejected as shrunk
        assert done.rc in (DONE, FAILED), done
        dump = keeper.dump("--force")
    else:
        assert done.rc == DONE, done
        dump = keeper.newest()
    dump["path"] = keeper.path(dump)
    for table in "abc":
        assert sorted(rows_in(dump["path"], table)) == [i for (i,) in keeper.world.sql(
            f"SELECT id FROM {table} ORDER BY id")]


@pytest.mark.parametrize("change", ["ALTER TABLE a ADD more INT", "ALTER TABLE a DROP t", "DROP TABLE b",
                                    "RENAME TABLE b TO d", "CREATE TABLE d ENGINE=MEMORY SELECT 1"])
def test_a_definition_that_changes_before_the_lock(make_world, make_keeper, change):
    """A dump fails if a definition changes before the lock, and the next one succeeds."""
    keeper = big_keeper(make_world, make_keeper)
    dumping, at_work = dump_stopped_at(keeper, "dump.listed")
    keeper.world.sql(change)
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc == FAILED and not keeper.dumps() and not keeper.parts(), done
    keeper.dump()


@pytest.mark.parametrize("method", ["copy", "lock", "fuzzy"])
def test_a_table_that_is_hidden_while_the_tables_are_listed(make_world, make_keeper, make_server, method):
    """ALTER TABLE hides its table from the list of tables for a moment; here the table is in another schema instead. No dump is
    stored without the table, even if it is hidden each time the tables are listed."""
    world = make_world("empty", on=make_server("--log-bin=log", "--binlog-format=ROW"))
    other = make_world("empty", on=world.server)
    world.sql(*(f"CREATE TABLE {t} (id INT PRIMARY KEY, n INT) ENGINE=MEMORY" for t in "ab"), "INSERT INTO a VALUES (1,1)",
              "INSERT INTO b VALUES (2,2)")
    keeper = make_keeper(world, {"dump": {"method": method, "shrink_limit": "100%"}}).init()
    keeper.dump()
    hide, show = (f"RENAME TABLE {x}.a TO {y}.a" for x, y in itertools.permutations(map(ident, (world.schema, other.schema))))
    world.sql(hide)
    dumping, at_work = dump_stopped_at(keeper, "dump.list_read=stop,dump.listed")
    for change in itertools.cycle((show, hide)):
        if not at_work:
            break
        world.sql(change)
        go_on(at_work)
        keeper.wait(lambda: stopped(keeper) or dumping.poll() is not None, "the dump to stop or to end")
        at_work = stopped(keeper)
    done = keeper.finish(dumping)
    assert done.rc == FAILED and "table a was altered while the dump began" in done.out and len(keeper.dumps()) == 1, done
    world.sql("DROP TABLE a")
    dump = keeper.dump()  # a dropped table prevents no dump
    assert (rows_in(dump["path"], "a"), rows_in(dump["path"], "b")) == ({}, {2: "2"})


@pytest.mark.each_server
def test_a_trigger_of_a_table_that_is_altered_all_the_time(make_world, make_keeper):
    """ALTER TABLE hides the triggers of its table for a moment. Each dump has them, and the game's rows change meanwhile."""
    world = make_world("empty")
    world.sql("CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=MEMORY",
              "CREATE TRIGGER told BEFORE INSERT ON a FOR EACH ROW SET NEW.n=4711")
    keeper = make_keeper(world, {"dump": {"method": "copy"}}).init()
    with repeating(world, "ALTER TABLE a FORCE") as altered, \
            repeating(world, "INSERT INTO a (n) VALUES (1)", "DELETE FROM a") as changed:
        dumps = [keeper.run("--dump", "--json", "--force") for _ in range(20)]
    assert len(altered) > 20 and len(changed) > 20
    assert not [done for done in dumps if done.rc != DONE and '"class":"changed"' not in done.out]
    kept = keeper.dumps()
    for dump in kept:
        with gzip.open(keeper.path(dump), "rt", errors="replace") as f:
            assert "SET NEW.n=4711" in f.read(), dump
    assert kept, dumps


LOCKS = pytest.param("lock", marks=pytest.mark.only(
    "mariadb", why="MySQL shows no body of a trigger while an ALTER TABLE waits for its table"))


@pytest.mark.each_server
@pytest.mark.parametrize("method", ["copy", LOCKS, "fuzzy"])
@pytest.mark.parametrize("statement", ["ALTER TABLE a FORCE", "LOCK TABLES a WRITE"])
def test_a_game_that_waits_for_the_locks_of_a_dump(make_world, make_keeper, make_server, method, statement):
    """A dump does not wait for a session of the game that waits for the locks of the dump, or that has locked a table which the
    dump no longer locks."""
    world = make_world("empty", on=make_server("--log-bin=log", "--binlog-format=ROW"))
    world.sql("CREATE TABLE a (id INT PRIMARY KEY, n INT) ENGINE=MEMORY", "INSERT INTO a VALUES (1,1)",
              "SET GLOBAL log_bin_trust_function_creators=1",
              "CREATE TRIGGER told BEFORE INSERT ON a FOR EACH ROW SET NEW.n=4711")
    keeper = make_keeper(world, {"dump": {"method": method, "stall": "20s"}, "mysql": {"read_timeout": "10s"}}).init()
    dumping, at_work = dump_stopped_at(keeper, "dump.locked")
    with contextlib.closing(world.server.admin(world.schema)) as session:
        waiting = threading.Thread(target=session.cursor().execute, args=[statement])
        waiting.start()
        wait_for(lambda: world.server.sessions(info=statement, state="%metadata lock%") or not waiting.is_alive(), statement)
        go_on(at_work)
        done = keeper.finish(dumping)
        waiting.join()
    assert done.rc == DONE, done
    (dump,) = keeper.dumps()
    with gzip.open(keeper.path(dump), "rt", errors="replace") as f:
        assert "SET NEW.n=4711" in f.read()


@pytest.mark.parametrize("point", ["dump.listed#1", "dump.scanned#1", "dump.locked#1"])
@pytest.mark.parametrize("change", [
    ["ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET utf8mb4"],
    ["DELETE FROM t WHERE id=2", "ALTER TABLE t ADD UNIQUE KEY (v)"],
], ids=["another character set", "a new key"])
def test_a_definition_that_changes_beside_a_scan(make_world, make_keeper, make_server, change, point):
    """A fuzzy dump has a table's rows and definition of the same moment, also if the definition changes before, during or
    after the scan."""
    world = make_world("empty", on=make_server("--log-bin=log", "--binlog-format=ROW"))
    world.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1) ENGINE=MEMORY",
              "INSERT INTO t VALUES (1,_latin1 x'e9'),(2,_latin1 x'e9')")
    keeper = make_keeper(world, {"dump": {"method": "fuzzy"}}).init()
    dumping, at_work = dump_stopped_at(keeper, point)
    world.sql(*change)
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc == DONE, done
    dump = keeper.newest()
    assert dump["method"] == "fuzzy", (dump, done)
    empty = make_world("empty", on=world.server)
    stock_restore(world.server, keeper.path(dump), empty.schema)
    there = "SELECT id, HEX(CONVERT(v USING utf8mb4)) FROM t ORDER BY id"
    assert empty.sql(there) == world.sql(there) and empty.sql(there)[0] == (1, "C3A9")


@pytest.mark.only("mariadb", why="passwords of another go through no relay")
def test_a_key_that_goes_before_a_scan(make_world, make_keeper, make_server):
    """If a table loses its primary key after the dump has looked for it, the table is copied under a lock, because changes
    could not be matched with its rows."""
    world = make_world("empty", on=make_server("--log-bin=log", "--binlog-format=ROW"))
    world.sql("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO t VALUES (1),(2)")
    asked = []

    def say(sql):
        if "INDEX_NAME='PRIMARY'" in sql:
            asked.append(sql)
            if len(asked) == 2:
                world.sql("ALTER TABLE t DROP PRIMARY KEY")
    with Relay(world.server, say) as relay:
        keeper = make_keeper(world, {"dump": {"method": "fuzzy"}, "mysql": relay.settings}).init()
        asked.clear()
        dump = keeper.dump()
        assert dump["method"] == "fuzzy" and "warning" not in dump and len(asked) >= 2, dump
    assert sorted(rows_in(dump["path"], "t")) == [1, 2]


@several
@pytest.mark.parametrize("point", ["dump.locked", "dump.table_read#1", "dump.streamed"])
def test_a_lost_connection_is_a_lost_dump(make_world, make_keeper, point):
    """If any connection of a dump is killed, before the copy or after the last row, the dump fails and no lock stays."""
    keeper = big_keeper(make_world, make_keeper)
    keeper.dump()
    for which in (0, 2):  # the session with the locks, and one that only copies
        wait_for(lambda: not sessions(keeper), "the sessions of the one before to end")
        dumping, at_work = dump_stopped_at(keeper, point)
        keeper.server.end_sessions(id=sessions(keeper)[which])
        go_on(at_work)
        done = keeper.finish(dumping)
        assert done.rc == FAILED and len(keeper.dumps()) == 1 and not keeper.parts(), done
        keeper.world.sql("SET lock_wait_timeout=60", "UPDATE a, b SET a.n=1, b.n=1 WHERE a.id=b.id AND a.id=1")


@pytest.mark.parametrize("method", ["copy", "fuzzy"])
def test_a_game_that_keeps_a_table_for_a_while(make_world, make_keeper, make_server, method):
    """A dump waits for a lock that is held longer than one of its attempts, with each method."""
    keeper = big_keeper(make_world, make_keeper, method=method,
                        on=make_server("--log-bin=log", "--binlog-format=ROW"))
    con = keeper.server.admin(keeper.world.schema)
    with con.cursor() as cur:
        cur.execute("LOCK TABLES b WRITE")
        dumping = keeper.popen("--dump", "--json")
        time.sleep(7)
        assert dumping.poll() is None
        cur.execute("UPDATE b SET n=5 WHERE id=1")
        cur.execute("UNLOCK TABLES")
    con.close()
    done = keeper.finish(dumping)
    assert done.rc == DONE, done
    dump = keeper.newest()
    assert dump["method"] == method and rows_in(keeper.path(dump), "b")[1].startswith("5,"), (dump["method"], done)


@several
def test_what_others_cannot_have_the_holder_copies(make_world, make_keeper):
    """A dump does not wait for an ALTER that waits for its lock and blocks the other copying sessions."""
    keeper = big_keeper(make_world, make_keeper)
    before = keeper.world.rows("a")
    dumping, at_work = dump_stopped_at(keeper, "dump.locked")
    with Player(keeper.world, "ALTER TABLE a COMMENT 'x'", "ALTER TABLE b COMMENT 'x'",
                "DO SLEEP(1)"):
        wait_for(lambda: keeper.server.sessions(db=keeper.world.schema, state="Waiting for%lock"), "the ALTER to wait")
        go_on(at_work)
        done = keeper.finish(dumping)
    assert done.rc == DONE, done
    assert len(rows_in(keeper.path(keeper.newest()), "a")) == before


class Making(Beside):
    """A session that takes up to ten minutes to create a table, unless it is ended."""

    def __init__(self, world):
        super().__init__()
        self.world = world

    def work(self):
        con = self.world.server.admin(self.world.schema, read_timeout=900)
        with pytest.raises(pymysql.err.OperationalError), con.cursor() as cur:
            cur.execute("CREATE TABLE making ENGINE=InnoDB SELECT SLEEP(600) a")

    def sessions(self):
        return self.world.server.sessions(db=self.world.schema, info="CREATE TABLE making%")

    def wait_begun(self):
        wait_for(self.sessions, "the table to be made")

    def __exit__(self, *args):
        self.world.server.end_sessions(db=self.world.schema, info="CREATE TABLE making%")
        super().__exit__(*args)


@pytest.mark.parametrize("point", ["dump.listed", "dump.locked"])
def test_a_table_in_the_making_holds_nobody_up(make_world, make_keeper, make_server, point):
    """A dump does not block the game while another session takes long to create a table in the same schema."""
    keeper = big_keeper(make_world, make_keeper, on=make_server())
    dumping, at_work = dump_stopped_at(keeper, point)
    con = keeper.server.admin(keeper.world.schema)
    with Making(keeper.world) as making, con.cursor() as cur:
        making.wait_begun()
        go_on(at_work)
        time.sleep(0.3)
        cur.execute("UPDATE a SET n=1 WHERE id=1")
        assert making.sessions(), "the UPDATE waited until the table was made"
    con.close()
    done = keeper.finish(dumping)
    assert done.rc == DONE, done


@pytest.mark.parametrize("log", ["MIXED", "STATEMENT"])
def test_copies_are_not_written_to_the_binary_log(make_world, make_keeper, make_server, log):
    """Temporary copies are not logged, because a replica would make them too. With STATEMENT this needs BINLOG ADMIN; without
    it the dump succeeds all the same."""
    server = make_server("--log-bin=log", "--binlog-format=" + log)
    keeper = big_keeper(make_world, make_keeper, on=server)

    def logged():
        keeper.dump()
        events = server.sql("SHOW BINLOG EVENTS")
        return [e[5] for e in events if "worldkeeper_tmp" in e[5]]
    if log == "STATEMENT":
        assert logged()
        server.sql("GRANT BINLOG ADMIN ON *.* TO keeper@localhost", "RESET MASTER")
    assert not logged()
    path = keeper.dump()["path"]
    assert len(rows_in(path, "a")) == len(rows_in(path, "b")) == 90000


def test_copies_ask_for_no_more_memory_than_they_need(make_world, make_keeper, make_server):
    """A server with little address space can copy its tables, because the copies' size limit is not far above their size."""
    server = make_server("--loose-innodb-buffer-pool-size-max=32M",
                         wrapper=["prlimit", f"--as={3 << 30}"])
    big_keeper(make_world, make_keeper, on=server).dump()


LIMITS = ["--tmp-table-size=1024", "--max-heap-table-size=16384", "--log-bin=log"]
if MYSQL:
    LIMITS += ["--temptable-max-ram=2097152", "--temptable-max-mmap=0", "--sql-require-primary-key=ON"]


@pytest.mark.parametrize("method", ["copy", "fuzzy"])
def test_limits_of_temporary_tables(make_world, make_keeper, make_server, method):
    """A dump succeeds with limits of temporary tables that are far too small, and with sql_require_primary_key that the
    account may not change."""
    keeper = big_keeper(make_world, make_keeper, on=make_server(*LIMITS, "--binlog-format=ROW"),
                        method=method)
    path = keeper.dump()["path"]
    assert len(rows_in(path, "a")) == len(rows_in(path, "b")) == 90000


@pytest.mark.only("mysql", why="sql_require_primary_key")
def test_a_copy_without_room_for_a_key(make_world, make_keeper, make_server):
    """With sql_require_primary_key, a table whose rows have the largest size that the server accepts is copied with its own primary
    key, of which a part may be a prefix."""
    world = make_world("empty", on=make_server("--sql-require-primary-key=ON"))
    world.sql("CREATE TABLE wide (id INT NOT NULL, k VARCHAR(200) CHARACTER SET latin1 NOT NULL, v VARBINARY(65327), "
              "PRIMARY KEY (id, k(5))) ENGINE=MEMORY",
              "INSERT INTO wide VALUES (1,'long enough','x'),(2,'another','y')")
    path = make_keeper(world).init().dump()["path"]
    assert len(rows_in(path, "wide")) == 2


def test_a_server_without_prepared_statements(make_world, make_keeper):
    """Without prepared statements rows are read as text and are the same."""
    keeper = big_keeper(make_world, make_keeper)
    before = {t: rows_in(keeper.dump()["path"], t) for t in "ab"}
    keeper.server.sql("SET GLOBAL max_prepared_stmt_count=0")
    try:
        path = keeper.dump()["path"]
    finally:
        keeper.server.sql("SET GLOBAL max_prepared_stmt_count=DEFAULT")
    assert {t: rows_in(path, t) for t in "ab"} == before


# ---- scans -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scan():
    """Returns a function that runs the benchmark's scanner."""
    built("bench", "scan")

    def run(world, *more, ok=True, wait=True):
        started = subprocess.Popen([SCAN, "--socket", world.server.socket, "--schema", world.schema, *more],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not wait:
            return started
        out, err = started.communicate(timeout=PATIENCE)
        assert (started.returncode == 0) == ok, err
        return json.loads(out) if ok else err
    return run


def test_a_scan_reads_every_byte(make_world, scan):
    """All ways of reading give the same tuples for every column type; tables that HANDLER cannot read are copied."""
    world = make_world("all")
    found = scan(world, "--compare")
    assert found["differ"] == []
    assert not [r for r in found["refused"] if "not a MEMORY table" not in r]
    assert MYSQL or {r.split(":")[0] for r in found["copied"]} == {"z_enum", "z_hidden"}


def test_what_handler_cannot_read(make_world, scan):
    """Enum members that can be recognized by their text are read by HANDLER; tables with others, with partitions or with
    hidden columns are copied."""
    world = make_world("empty")
    fine = ["e ENUM('a','it''s','back\\\\slash','c,d',' x') CHARACTER SET latin1",
            "e ENUM('férfi','nő','ő★') CHARACTER SET utf8mb4", "e ENUM('a','A') COLLATE utf8mb4_bin",
            "e SET('one','two','three') CHARACTER SET sjis",
            "e SET(" + ",".join(f"'m{i}'" for i in range(64)) + ")"]
    copied = ["e ENUM('nő') CHARACTER SET latin2", "e ENUM('a','') ", "e SET('','a')",
              "e ENUM('a','b') CHARACTER SET ucs2", "e ENUM('why?')", "e INT INVISIBLE",
              "e ENUM('𝄞') CHARACTER SET utf8mb4", "e SET('[') CHARACTER SET swe7"]
    for i, column in enumerate(fine + copied):
        world.sql(f"CREATE TABLE t{i:02} (id INT PRIMARY KEY, {column}) ENGINE=MEMORY",
                  f"INSERT IGNORE INTO t{i:02} (id,e) SELECT seq, seq FROM seq_0_to_9",
                  f"INSERT IGNORE INTO t{i:02} (id,e) VALUES (20,NULL),(21,0)")
    if not MYSQL:
        world.sql("CREATE TABLE p (id INT PRIMARY KEY) ENGINE=MEMORY PARTITION BY HASH(id) PARTITIONS 2",
                  "CREATE TABLE v (id INT PRIMARY KEY) ENGINE=MEMORY WITH SYSTEM VERSIONING")
    found = scan(world, "--compare")
    assert found["differ"] == []
    assert [r.split(":")[0] for r in found["refused"]] == ([] if MYSQL else ["v"])
    from_handler = [] if MYSQL else fine
    assert sorted(r.split(":")[0] for r in found["copied"]) == sorted(
        ([] if MYSQL else ["p"]) +
        [f"t{i:02}" for i in range(len(from_handler), len(fine + copied))])


def test_a_big_table_is_copied_in_shares(make_world, scan):
    """A big table is copied in shares, with each row in exactly one, whatever its key consists of."""
    keys = [("a INT", "seq-50000"), ("a BIGINT UNSIGNED", "18446744073709551615-seq"),
            ("a BIGINT", "-9223372036854775807-1+seq"),
            ("a TINYINT, b SMALLINT UNSIGNED", "seq MOD 3, seq DIV 3"),
            ("a VARCHAR(20)", "CONCAT('név ',seq)"), ("a BINARY(4)", "UNHEX(LPAD(HEX(seq),8,'0'))"),
            ("a DATE", "'1600-01-01' + INTERVAL seq DAY"), ("a DECIMAL(12,3)", "seq/8"),
            ("a DOUBLE", "seq/7"), ("a BIT(20)", "seq"),
            ("a ENUM('x','y'), b INT", "seq MOD 2 + 1, -seq")]
    world = make_world("empty")
    world.sql("SET max_heap_table_size=512*1024*1024", "CREATE TABLE `all` (seq INT) ENGINE=MyISAM",
              "INSERT INTO `all` SELECT seq FROM seq_1_to_100000")
    for i, (columns, values) in enumerate(keys):
        key = "a,b" if "b " in columns else "a"
        world.sql("SET max_heap_table_size=512*1024*1024",
                  f"CREATE TABLE t{i:02} ({columns}, h INT INVISIBLE DEFAULT 7, PRIMARY KEY ({key})) "
                  "ENGINE=MEMORY", f"INSERT INTO t{i:02} ({key}) SELECT {values} FROM `all`")
    found = scan(world, "--compare")
    assert found["differ"] == [] and found["rows"] == 100000 * len(keys)
    assert found["chunks"] >= 3 * len(keys), found


def test_a_scan_of_many_numbers(make_world, scan):
    """Floating-point numbers of all sizes have the same digits in both protocols."""
    world = make_world("empty")
    world.sql("SET max_heap_table_size=512*1024*1024",
              "CREATE TABLE t (id INT, d DOUBLE, f FLOAT) ENGINE=MEMORY",
              "INSERT INTO t SELECT seq, (RAND(seq)-0.5)*POW(10,seq MOD 300)/POW(10,seq MOD 290), "
              "(RAND(seq)-0.5)*POW(10,seq MOD 76)/1e38 FROM seq_1_to_100000",
              "INSERT INTO t SELECT seq, POW(2,seq)/POW(2,537)/POW(2,537), POW(2,seq)/POW(2,140) FROM seq_1_to_260",
              "INSERT INTO t SELECT seq, seq/100, seq/8 FROM seq_1_to_20000",
              "INSERT INTO t SELECT seq, POW(10,seq MOD 300)/1e308, 0 FROM seq_1_to_630")
    assert scan(world, "--compare")["differ"] == []


@pytest.mark.parametrize("change", [
    pytest.param("ALTER TABLE t ADD v INT", marks=pytest.mark.only("mariadb", why="copies ask by name")),
    "ALTER TABLE t CHANGE id i INT", "DROP TABLE t"])
def test_a_table_that_changed_is_not_scanned(make_world, scan, change):
    """A scan of a table that was changed fails with the table's name."""
    world = make_world("empty")
    world.sql("CREATE TABLE t (id INT) ENGINE=MEMORY", "INSERT INTO t VALUES (1)")
    with scan(world, "--pause", wait=False) as paused:
        assert paused.stderr.readline() == "listed\n"
        world.sql(change)
        said = paused.communicate(timeout=PATIENCE)[1]
    assert paused.returncode != 0 and "changed" in said and " t " in said, said


def test_a_scan_lets_writers_in(make_world, scan):
    """The game continues while a big table is scanned, and rows that stay are read once."""
    world = make_world("empty")
    world.sql(*BIG)
    with Player(world, "UPDATE a, b SET a.n=1, b.n=1 WHERE a.id=b.id AND a.id=1") as game:
        wait_for(lambda: game.rounds, "the game")

        def played_on():
            """Returns the scan's result if no statement of the game waited as long as a table's scan takes, which is nearly
            half of the time. A busy machine may delay one."""
            game.longest = 0
            found = scan(world)
            return game.longest < found["seconds"] / 3 and found
        found = wait_for(played_on, lambda: f"the game to go on beside a scan, after {game.longest} s at most")
    assert found["rows"] == 180002 and found["chunks"] > (6 if MYSQL else 10)
