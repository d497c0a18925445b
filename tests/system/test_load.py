"""Loading rows into the server: each method, several connections at once, failures of some of them, their trace in the binary
log, and other sessions that read the rows."""
import gzip
import hashlib
import json
import os
import random
import re
import socket
import subprocess
import threading

import pymysql
import pytest
from wk.binlog import place
from wk.crash import go_on, wait_stopped
from wk.follow import following
from wk.keeper import BINARY, DONE, FAILED, HELD, ORACLE, USER, sanitized, signed
from wk.server import MYSQL, stock_restore
from wk.snapshot import assert_same, snapshot
from wk.util import PATIENCE, ident, peak_mib, stop_listening, wait_for
from wk.watch import Beside, Game

pytestmark = pytest.mark.third_on_mysql

LOG = ["--log-bin=log", "--log-bin-trust-function-creators=ON"]
STATEMENT = [*LOG, "--binlog-format=STATEMENT"]  # array inserts are not possible with such a log
WAYS = {"array": [], "local": STATEMENT, "insert": [*STATEMENT, "--local-infile=OFF"]}
if MYSQL:  # its protocol has no arrays, and LOCAL is off by default
    WAYS = {"local": ["--local-infile=ON"], "rows": [], "insert": ["--max-prepared-stmt-count=0"]}
BEST = next(way for way in WAYS if way != "local")  # the method on a server with default settings
BY_EACH_WAY = pytest.mark.parametrize("way", WAYS)

# Cases that the zoo lacks: empty lines, values of hundreds of digits, more rows than one packet holds.
MORE = [
    "CREATE TABLE m_text (only_column VARCHAR(9)) ENGINE=MEMORY",
    # bits that look like a number as text, and one that fits no column
    "CREATE TABLE m_bits (id INT PRIMARY KEY, a BIT(16), b BIT(24), c BIT(32), d BIT(64)) ENGINE=MEMORY",
    "INSERT INTO m_bits VALUES (1,0x2d31,0x2d3130,0x31653230,0x2d31323334353637),(2,0x3939,0x202d31,0x2d312e35,"
    "0x3965393920202020),(3,NULL,0,0x20202d31,0x7fffffffffffffff),(4,1,NULL,0x2d312020,0x3131313131313131)",
    "CREATE TABLE m_choice (id INT PRIMARY KEY, e ENUM('a','b'), s SET('x','y','z')) ENGINE=MEMORY",
    "INSERT INTO m_choice SELECT seq, IF(seq MOD 3, 1+seq MOD 2, NULL), IF(seq MOD 5, seq MOD 8, NULL) "
    "FROM seq_1_to_3000",
    "INSERT INTO m_text VALUES (''),(NULL),('\\\\N'),('N'),('NULL'),(''),('\\r'),('\\n'),('\\t'),('\\\\')",
    "CREATE TABLE m_bytes (b VARBINARY(9), e VARBINARY(9)) ENGINE=MEMORY",
    "INSERT INTO m_bytes VALUES ('',''),(NULL,''),('',NULL),('\\0','\\0'),(x'1a0d0a5c2709',x'5c4e')",
    "CREATE TABLE m_double (id INT PRIMARY KEY, d DOUBLE(255,30), f FLOAT(255,30)) ENGINE=MEMORY",
    "INSERT INTO m_double VALUES (1,1e200,1e38),(2,-1e-30,-1e-30),(3,0,-0e0),(4,NULL,NULL)",
    "CREATE TABLE m_edge (t TINYINT, tu TINYINT UNSIGNED, m MEDIUMINT, mu MEDIUMINT UNSIGNED) ENGINE=MEMORY",
    "INSERT INTO m_edge VALUES (-128,0,-8388608,0),(127,255,8388607,16777215),(NULL,NULL,NULL,NULL)",
    "CREATE TABLE m_many (n INT) ENGINE=MEMORY",
    "INSERT INTO m_many SELECT IF(seq MOD 1000, seq, NULL) FROM seq_1_to_70000",
]


def lose(world):
    """Empties the world as a restart of the server does, without one."""
    tables = world.sql("SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() "
                       "AND engine='MEMORY'")
    world.sql(*(f"TRUNCATE TABLE {ident(t)}" for (t,) in tables))


def sessions(server):
    return server.sessions(user=USER)


def nothing_left(keeper):
    """Asserts that a finished restore left no shadow table, session or lock."""
    own = keeper.world.sql("SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() "
                           "AND table_name LIKE 'worldkeeper\\_tmp%'")
    assert own == (), own
    wait_for(lambda: not sessions(keeper.server), lambda: f"sessions to end: {sessions(keeper.server)}")


def settings(connections):
    return {"restore": {"connections": str(connections)}}


def into(keeper, make_world, on):
    """Returns the name of a new schema that the keeper may restore into."""
    other = make_world("empty", on=on)
    on.grant("keeper@localhost", other.schema)
    return other


def rows_only(picture):
    return {k: v for k, v in picture.items() if k.startswith("rows ") and k != "rows m_many"}


# -- each way -------------------------------------------------------------------------------------

@pytest.mark.each_server
@BY_EACH_WAY
def test_every_column_type(make_server, make_world, make_keeper, way):
    """Values of every column type are restored exactly by each method, in the world and into another schema."""
    server = make_server(*WAYS[way])
    world = make_world("zoo", on=server)
    world.sql(*MORE)
    keeper = make_keeper(world, settings(3)).init()
    server.sql("GRANT SET USER ON *.* TO keeper@localhost")  # to move root's triggers
    before, many = world.snapshot(), world.checksums()["m_many"]
    keeper.dump()
    lose(world)
    result = keeper.ok("--restore", "--json")
    assert (result["load"], result["connections"]) == (way, 3)
    assert "warning" not in result
    world.assert_is(before, way)
    assert world.checksums()["m_many"] == many
    other = into(keeper, make_world, server)
    assert keeper.ok("--restore", "--into", other.schema, "--json")["load"] == way
    assert_same(rows_only(before), rows_only(other.snapshot()), way + ", into another schema")
    assert other.checksums()["m_many"] == many
    nothing_left(keeper)


# Changes of the living tables after which they accept no row, or not all rows, of the dump.
SINCE = {"chat": "ALTER TABLE chat ADD UNIQUE (who)", "fleet": "ALTER TABLE fleet MAX_ROWS=10"}


@pytest.mark.each_server
@BY_EACH_WAY
def test_one_of_several_tables_cannot_be_loaded(make_server, make_world, make_keeper, way):
    """If the server rejects the rows of one table because its definition changed, that table alone is restored with the dump's
    definition."""
    server = make_server(*WAYS[way])
    world = make_world(on=server)
    keeper = make_keeper(world, settings(4)).init()
    world.sql("CREATE TABLE aaa LIKE chat", "INSERT INTO aaa SELECT * FROM chat")
    before = world.snapshot()
    keeper.dump()
    for table, change in SINCE.items():
        lose(world)
        world.sql("INSERT INTO mark VALUES (7,7)", change)
        done = keeper.ok("--restore", "--force", "--json")
        assert [t["table"] for t in done["as_dumped"]] == [table], done
        world.assert_is(before, table)
        nothing_left(keeper)
    assert keeper.ok("--restore", "--force", "--json")["load"] == way
    world.assert_is(before)


COUNTERS = [
    "CREATE TABLE c_usual (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "INSERT INTO c_usual (v) VALUES (1),(2),(3)",
    "CREATE TABLE c_deleted (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "INSERT INTO c_deleted (v) SELECT seq FROM seq_1_to_100", "DELETE FROM c_deleted WHERE id>40",
    "CREATE TABLE c_unique (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL UNIQUE)",
    "INSERT INTO c_unique (v) VALUES (0),(1)", "ALTER TABLE c_unique AUTO_INCREMENT=9000000000000000000",
    "CREATE TABLE c_checked (id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL CHECK (v>0))",
    "ALTER TABLE c_checked AUTO_INCREMENT=50",
    "CREATE TABLE c_narrow (id TINYINT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "INSERT INTO c_narrow (v) VALUES (1)", "ALTER TABLE c_narrow AUTO_INCREMENT=40000",
    "CREATE TABLE c_full (id TINYINT AUTO_INCREMENT PRIMARY KEY, v INT)", "INSERT INTO c_full VALUES (127,1)",
    "CREATE TABLE c_second (a INT, id INT AUTO_INCREMENT UNIQUE, PRIMARY KEY (a))",
    "INSERT INTO c_second VALUES (7,7)", "ALTER TABLE c_second AUTO_INCREMENT=70",
]

TOP = 2**63 - 1
COUNTERS_AT_THE_TOP = [  # MySQL shows no counter once it exceeds its type
    "CREATE TABLE c_signed (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)",
    f"INSERT INTO c_signed VALUES ({TOP},1),(5,2)",
    "CREATE TABLE c_unsigned (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)",
    f"INSERT INTO c_unsigned VALUES (5,1),({2 * TOP + 1},2)",
    "CREATE TABLE c_first (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)",
    f"INSERT INTO c_first VALUES ({2 * TOP + 1},1),(5,2)",
    "CREATE TABLE c_lost (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)",
    f"INSERT INTO c_lost VALUES ({2 * TOP + 1},1),(5,2)", "DELETE FROM c_lost WHERE id>5",
    "CREATE TABLE c_tiny (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT)",
    "INSERT INTO c_tiny VALUES (5,1),(255,2)",
    f"CREATE TABLE c_empty (id BIGINT AUTO_INCREMENT PRIMARY KEY) AUTO_INCREMENT={TOP}",
    "CREATE TABLE c_gone (id BIGINT AUTO_INCREMENT PRIMARY KEY)", f"INSERT INTO c_gone VALUES ({TOP})",
    "DELETE FROM c_gone WHERE id>0",
    "CREATE TABLE c_many (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "INSERT INTO c_many SELECT seq, seq FROM seq_1_to_21000", f"INSERT INTO c_many VALUES ({TOP},1)",
]


@pytest.mark.parametrize("made", [COUNTERS, COUNTERS_AT_THE_TOP], ids=["usual", "at the top"])
@pytest.mark.parametrize("rights", ["usual", "with DELETE"])
def test_counters(make_world, make_keeper, rights, made):
    """AUTO_INCREMENT counters continue whatever the column's type, and no row is added by that."""
    world = make_world("empty")
    world.sql("SET default_storage_engine=MEMORY", *made)
    keeper = make_keeper(world).init()
    if rights != "usual":
        keeper.server.grant("keeper@localhost", world.schema, "DELETE")
    # MySQL shows cached figures, and none if no number is left.
    fresh = ["SET information_schema_stats_expiry=0"] if MYSQL else []
    counters = ("SELECT table_name, COALESCE(auto_increment, 18446744073709551615) FROM information_schema.tables WHERE "
                "table_schema=DATABASE() AND table_name LIKE 'c\\_%' ORDER BY 1")
    rows, before = world.checksums(), world.sql(*fresh, counters)
    keeper.dump()
    lose(world)
    keeper.ok("--restore")
    assert world.checksums() == rows and world.sql(*fresh, counters) == before
    other = into(keeper, make_world, keeper.server)
    keeper.ok("--restore", "--into", other.schema)
    assert other.checksums() == rows and other.sql(*fresh, counters) == before


def test_rows_near_the_size_of_a_packet(make_server, make_world, make_keeper):
    """If packets are hardly larger than a row, rows are sent one by one. A row can need twice its size in a statement; one that
    does not fit is named."""
    server = make_server()
    world = make_world("empty", on=server)
    longest = 7000 if MYSQL else 12000
    world.sql("CREATE TABLE wide (id INT PRIMARY KEY, v VARBINARY(15000)) ENGINE=MEMORY",
              f"INSERT INTO wide SELECT seq, REPEAT(CHAR(seq), IF(seq MOD 2, 7000, {longest})) FROM "
              "seq_1_to_40",
              "CREATE TABLE slim (id INT PRIMARY KEY, v VARBINARY(40)) ENGINE=MEMORY",
              "INSERT INTO slim SELECT seq, REPEAT('x', seq MOD 40) FROM seq_1_to_5000")
    keeper = make_keeper(world).init()
    before = world.checksums()
    keeper.dump()
    lose(world)
    server.sql("SET GLOBAL net_buffer_length=8192", "SET GLOBAL max_allowed_packet=16384")
    result = keeper.ok("--restore", "--json")
    assert result["load"] == BEST and world.checksums() == before
    if MYSQL:
        world.sql("INSERT INTO wide VALUES (41,REPEAT('\\0',12000))")
        again = world.checksums()
        server.sql("SET GLOBAL max_allowed_packet=16777216")
        keeper.dump()
        server.sql("SET GLOBAL max_allowed_packet=16384")
        done = keeper.run("--restore", "--force")
        assert done.rc == FAILED and "row of table wide" in done.err and "max_allowed_packet" in done.err, done
        assert world.checksums() == again
    server.sql("SET GLOBAL max_allowed_packet=16777216")


# -- several connections -----------------------------------------------------------------------------

def test_as_many_connections_as_there_are_tables(keeper):
    """With one, two, many or automatic connections all rows are restored, over no more connections than tables."""
    keeper.world.sql("CREATE TABLE empty_one (n INT) ENGINE=MEMORY")
    before = keeper.world.checksums()
    keeper.dump()
    tables = len(keeper.newest()["tables"])
    for configured, used in ((1, {1}), (2, {2}), (16, {tables}), ("auto", set(range(1, 5)))):
        keeper.configure(settings(configured))
        lose(keeper.world)
        assert keeper.ok("--restore", "--json")["connections"] in used, configured
        assert keeper.world.checksums() == before, configured
        nothing_left(keeper)


def test_more_tables_than_connections(make_world, make_keeper):
    """A world of many small tables, some of them empty, is loaded over few connections."""
    world = make_world("empty")
    for i in range(40):
        world.sql(f"CREATE TABLE t{i} (n INT PRIMARY KEY, v VARCHAR(20)) ENGINE=MEMORY",
                  *([f"INSERT INTO t{i} SELECT seq, {i} FROM seq_1_to_{i * 10}"] if i else []))
    keeper = make_keeper(world, settings(5)).init()
    before = world.checksums()
    keeper.dump()
    lose(world)
    assert keeper.ok("--restore", "--json")["connections"] == 5
    assert world.checksums() == before


LIMITS = {
    "of the account": ("ALTER USER keeper@localhost WITH MAX_USER_CONNECTIONS 3",
                       "ALTER USER keeper@localhost WITH MAX_USER_CONNECTIONS 0"),
    "of each account": ("SET GLOBAL max_user_connections=3", "SET GLOBAL max_user_connections=50"),
    "of the server": ("SET GLOBAL max_connections=10", "SET GLOBAL max_connections=60"),
}


def test_a_server_with_few_connections(make_server, make_world, make_keeper):
    """A restore that gets fewer connections than configured uses those it gets."""
    server = make_server("--max-user-connections=50")
    keeper = make_keeper(make_world(on=server), settings(16)).init()
    before = keeper.world.checksums()
    keeper.dump()
    for what, (less, usual) in LIMITS.items():
        lose(keeper.world)
        server.sql(less)
        others = [server.admin() for _ in range(7 if what == "of the server" else 0)]
        wait_for(lambda: len(server.sessions()) == len(others), lambda: f"{what}: others to end, {server.sessions()}")
        done = keeper.run("--restore", "--json")
        for con in others:
            con.close()
        server.sql(usual)
        assert done.rc == DONE, (what, done)
        assert 1 <= done.result["connections"] <= 3, what
        assert keeper.world.checksums() == before, what
        nothing_left(keeper)


def test_the_supervisor_needs_a_connection_too(doomed, victim):
    """If a restore uses the account's last connection, the supervisor does not take the world for unreachable."""
    doomed.configure(settings(16))
    doomed.dump()
    before = doomed.world.checksums()
    victim.sql("ALTER USER keeper@localhost WITH MAX_USER_CONNECTIONS 3")
    victim.crash()
    doomed.start(fault="restore.shadows_created#2=sleep:1500")
    assert doomed.world.checksums() == before
    assert doomed.status()["last_restore"]["ok"] is True


# -- damage, failures and crashes among several ----------------------------------------------------------

def flip(path, offset):
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 0x10]))


def test_damage_in_one_part(keeper):
    """If one bit is flipped in a table's part, in the header or in the trailer, the next older dump is restored, and the
    result gives the reason."""
    keeper.configure(settings(4))
    keeper.dump()
    older, before = keeper.newest()["name"], keeper.world.checksums()
    keeper.world.mark(2)
    newest = keeper.newest()["name"] if keeper.dump() else None
    manifest = keeper.newest()
    path, places = keeper.path(manifest), {t["name"]: t for t in manifest["tables"]}
    damaged = {t: places[t]["offset"] + places[t]["length"] // 2 for t in ("player", "fleet", "chat")}
    damaged["the header"] = places[min(places, key=lambda t: places[t]["offset"])]["offset"] // 2
    damaged["the trailer"] = manifest["file_size"] - 20
    for what, offset in damaged.items():
        lose(keeper.world)
        flip(path, offset)
        result = keeper.ok("--restore", "--json")
        flip(path, offset)
        assert result["dump"] == older, what
        (skipped,) = result["skipped"]
        assert skipped["dump"] == newest and newest in skipped["reason"], (what, skipped)
        assert keeper.world.checksums() == before, what
        nothing_left(keeper)
        keeper.ok("--verify=" + newest)  # intact again; until this verify it is known as damaged
    lose(keeper.world)
    result = keeper.ok("--restore", "--json")
    assert result["dump"] == newest and keeper.world.marked() == 2


def exchange(path, manifest, first, second, keys):
    """Exchanges these keys of two tables in the manifest."""
    a, b = ({k: t[k] for k in keys} for n in (first, second)
            for t in manifest["tables"] if t["name"] == n)
    for t in manifest["tables"]:
        if t["name"] in (first, second):
            t.update(b if t["name"] == first else a)
    with open(path, "w") as f:
        json.dump(signed(manifest), f)


@pytest.mark.parametrize("keys", [("offset", "length"), ("offset", "length", "bytes"), ("rows_hash",)])
def test_parts_that_are_not_where_the_manifest_says(keeper, keys):
    """If the manifest points to another table's part or has another table's sums, the dump is rejected, although both parts are
    intact."""
    keeper.configure(settings(4))
    keeper.dump()
    older, before = keeper.newest()["name"], keeper.world.checksums()
    keeper.dump()
    manifest = keeper.newest()
    exchange(keeper.path(manifest).replace(".sql.gz", ".json"), manifest, "player", "fleet", keys)
    lose(keeper.world)
    result = keeper.ok("--restore", "--json")
    assert result["dump"] == older and result["skipped"][0]["reason"]
    assert keeper.world.checksums() == before
    nothing_left(keeper)


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_killed_while_several_load(keeper, nth):
    """If a restore is killed while several connections load, the next restore does all of it."""
    keeper.configure(settings(3))
    keeper.dump()
    before, tables = keeper.world.checksums(), keeper.world.sql("SHOW TABLES")
    lose(keeper.world)
    emptied = keeper.world.checksums()
    died = keeper.run("--restore", fault=f"restore.shadows_created#{nth}=kill")
    assert died.rc != DONE, died
    assert keeper.world.checksums() == emptied
    wait_for(lambda: keeper.run("--restore").rc == DONE, "the sessions of the killed one to end")
    assert keeper.world.checksums() == before and keeper.world.sql("SHOW TABLES") == tables
    nothing_left(keeper)


@pytest.mark.parametrize("nth", [2, 4])
def test_server_killed_while_several_load(doomed, victim, nth):
    """If the server is killed while several connections load, the restore fails without effect and the next one works."""
    doomed.configure(settings(3))
    doomed.dump()
    before, tables = doomed.world.checksums(), doomed.world.sql("SHOW TABLES")
    victim.grow_old()
    lose(doomed.world)
    restoring = doomed.popen("--restore", fault=f"restore.shadows_created#{nth}=stop")
    at_work = wait_stopped(doomed, "a table that was made")
    victim.kill9()
    victim.start()
    go_on(at_work)
    done = doomed.finish(restoring)
    assert done.rc != DONE, done
    assert doomed.world.rows() == 0
    doomed.ok("--restore")
    assert doomed.world.checksums() == before and doomed.world.sql("SHOW TABLES") == tables


@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_session_is_killed(keeper, which):
    """Killing a loading session never loses a part of the world: killing the first one, which holds the server lock, ends the
    restore; killing another one does if it still had work."""
    keeper.configure(settings(3))
    keeper.dump()
    before = keeper.world.checksums()
    lose(keeper.world)
    emptied = keeper.world.checksums()
    restoring = keeper.popen("--restore", fault="restore.shadows_created#3=stop")
    at_work = wait_stopped(keeper, "a table that was made")
    wait_for(lambda: len(sessions(keeper.server)) == 3, "the dump's sessions to end, too")
    ids = sorted(session.id for session in sessions(keeper.server))
    keeper.server.end_sessions(id=ids[which])
    go_on(at_work)
    done = keeper.finish(restoring)
    assert which or done.rc != DONE, done
    assert keeper.world.checksums() == (before if done.rc == DONE else emptied)
    wait_for(lambda: not sessions(keeper.server), "the other sessions to end")
    lose(keeper.world)
    keeper.ok("--restore")
    assert keeper.world.checksums() == before
    nothing_left(keeper)


def lock_name(schema, slot):
    return f"CONCAT('worldkeeper.',LEFT(SHA2('{schema}',256),32),'{slot}')"


@pytest.mark.parametrize("slot", ["", ".1", ".7", ".15"])
def test_a_stale_loader(keeper, slot):
    """No restore begins while a session of an earlier restore holds its lock and could still write."""
    keeper.configure(settings(2))
    keeper.dump()
    before = keeper.world.checksums()
    lose(keeper.world)
    stale = keeper.server.admin()
    with stale, stale.cursor() as cur:
        cur.execute(f"SELECT CONNECTION_ID(), GET_LOCK({lock_name(keeper.world.schema, slot)},0)")
        session, got = cur.fetchone()
        assert got == 1
        done = keeper.run("--restore")
        assert done.rc == HELD and str(session) in done.err and "HINT" in done.err, done
        assert keeper.world.rows() == 0
    keeper.ok("--restore")
    assert keeper.world.checksums() == before
    nothing_left(keeper)


# -- the binary log ------------------------------------------------------------------------------------

def test_nothing_of_a_restore_is_logged_where_the_config_says_so(make_server, make_world, make_keeper):
    """With [restore] binlog = no only a marker statement is logged, which changes nothing on a replica. Without the privilege the
    restore is logged, with a warning."""
    server = make_server(*LOG, "--binlog-format=ROW")
    keeper = make_keeper(make_world(on=server), {"restore": {"binlog": "no", "connections": "4"}}).init()
    before = keeper.world.checksums()
    keeper.dump()
    for allowed in (False, True):
        if allowed:
            server.sql("GRANT BINLOG ADMIN ON *.* TO keeper@localhost")
        lose(keeper.world)
        end = place(server)
        result = keeper.ok("--restore", "--json")
        assert keeper.world.checksums() == before
        if allowed:
            name, at = end
            events = server.sql(f"SHOW BINLOG EVENTS IN '{name}' FROM {at}")
            events = [e for e in events if "gtid" not in e[2].lower()]
            assert len(events) == 1 and "DROP VIEW IF EXISTS `worldkeeper_tmp_mark`" in events[0][5], events
            assert "/* worldkeeper restored " in events[0][5], events
            assert "warning" not in result
        else:
            assert place(server) != end and "binlog" in result["warning"], result
    nothing_left(keeper)


def follow(server, other):
    """Makes `other` a replica of `server` from the first byte of its log, and waits until it reached the end."""
    server.sql("CREATE USER replica@'127.0.0.1'", "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'")
    place_of = "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='replica', " \
        "MASTER_LOG_FILE='log.000001', MASTER_LOG_POS=4" % server.port
    if MYSQL:
        place_of = place_of.replace("MASTER TO", "REPLICATION SOURCE TO").replace("MASTER_", "SOURCE_")
    other.sql(place_of, "START SLAVE")
    wait_followed(server, other)


def wait_followed(server, other):
    """Waits until the replica has executed all of the log and written it into its own log, which happens after its rows
    change."""
    name, at = place(server)

    def there():
        con = other.admin(cursorclass=pymysql.cursors.DictCursor)
        with con, con.cursor() as cur:
            cur.execute("SHOW REPLICA STATUS")
            status = cur.fetchone()
        assert (status["Last_Error"], status["Last_IO_Error"]) == ("", ""), other.sql(
            "SELECT last_error_message FROM performance_schema.replication_applier_status_by_worker")
        source = "Source" if MYSQL else "Master"
        return (status[f"Relay_{source}_Log_File"], status[f"Exec_{source}_Log_Pos"]) == (name, at)
    wait_for(there, "the replica to follow")


@pytest.mark.parametrize("way, options", [
    (BEST, [*LOG, "--binlog-format=ROW"]), ("insert" if MYSQL else BEST, [*LOG, "--binlog-format=MIXED"]),
    ("local", [*STATEMENT, "--local-infile=ON"])], ids=["row", "mixed", "statement"])
def test_a_replica_gets_the_same_world(make_server, make_world, make_keeper, way, options):
    """A replica of the server that saw a dump, a loss and a restore has the same world."""
    deep = ["--cte-max-recursion-depth=10000000"] if MYSQL else []  # needed by the statements that create the world
    server, other = make_server(*options), make_server("--server-id=2", *deep)
    world = make_world("small" if way == "local" else "zoo", on=server)
    world.sql("DROP EVENT IF EXISTS z_event")  # events differ on a replica
    keeper = make_keeper(world, settings(4)).init()
    server.sql("GRANT SET USER ON *.* TO keeper@localhost")
    before = world.snapshot()
    keeper.dump()
    lose(world)
    assert keeper.ok("--restore", "--json")["load"] == way
    world.assert_is(before)
    follow(server, other)
    assert_same(before, snapshot(other, world.schema), "the replica's world")


def fed_out_of_order(source, other, held, *changes):
    """Makes the source's first change, of table t, arrive after the second one: MySQL's workers write changes of MEMORY tables as
    each is done."""
    holder = other.admin("fed")
    with holder, holder.cursor() as cur:
        if MYSQL:
            cur.execute("LOCK TABLES t READ")
        end = place(other)
        source.sql(held, *changes)
        if MYSQL:
            wait_for(lambda: place(other) != end, "the second change in the replica's log")


@pytest.mark.parametrize("logs", ["OFF", "ON"])
def test_a_replica_is_dumped_with_what_its_source_sends(make_server, make_world, make_keeper, logs):
    """A replica's own binary log contains the source's changes only if configured. Otherwise the log is used neither for dumps
    nor for a journal."""
    option = "log-replica-updates" if MYSQL else "log-slave-updates"
    row = [*LOG, "--binlog-format=ROW"]
    source, other = make_server(*row), make_server(*row, "--server-id=2", f"--{option}={logs}")
    keeper = make_keeper(make_world("empty", on=other, schema="fed")).init()
    source.sql("CREATE DATABASE IF NOT EXISTS fed", "CREATE TABLE fed.t (id INT PRIMARY KEY, n INT) ENGINE=MEMORY",
               "CREATE TABLE fed.u LIKE fed.t", "INSERT INTO fed.t VALUES (1,1),(2,2)", "INSERT INTO fed.u VALUES (1,1)")
    follow(source, other)
    point = "dump.locked#1" if logs == "OFF" else "dump.scanned#3"  # the sentinel is scanned last
    dumping = keeper.popen("--dump", fault=point + "=stop")
    at_work = wait_stopped(keeper, point)
    changes = ["UPDATE fed.t SET n=9 WHERE id=1", "INSERT INTO fed.u VALUES (3,3)", "INSERT INTO fed.t VALUES (3,3)"]
    if logs == "ON":
        fed_out_of_order(source, other, *changes)
        wait_followed(source, other)
        assert (keeper.world.rows("t"), keeper.world.rows("u")) == (3, 2)
    else:
        source.sql(*changes)
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc == DONE, done
    with gzip.open(keeper.path(keeper.newest()), "rt") as f:
        t, u = (re.findall(r"\d,\d", rows) for rows in re.findall(r"INSERT INTO `[tu]` .*? VALUES\n(.*?);\n", f.read(), re.S))
    checked = keeper.run("--check").out
    if logs == "ON":
        assert keeper.newest()["method"] == "fuzzy", done
        assert (sorted(t), sorted(u)) == (["1,9", "2,2", "3,3"], ["1,1", "3,3"]), done
        assert "OFF on a replica" not in checked
    else:
        assert keeper.newest()["method"] == "copy" and (sorted(t), u) == (["1,1", "2,2"], ["1,1"]), (t, u, done)
        assert f"{option.replace('-', '_')} is OFF on a replica" in checked, checked


@pytest.mark.only("mariadb", why="MySQL shows a stopped replica to the same accounts as a running one")
def test_a_stopped_replica_is_one(make_server, make_world, make_keeper):
    """While replication is stopped, a replica that does not log its source's changes gives no dump a position, because
    replication may be started later: a restore never reports that nothing is lost."""
    row = [*LOG, "--binlog-format=ROW"]
    source, other = make_server(*row), make_server(*row, "--server-id=2", "--log-slave-updates=OFF")
    keeper = make_keeper(make_world("empty", on=other, schema="fed")).init()
    source.sql("CREATE DATABASE IF NOT EXISTS fed", "CREATE TABLE fed.t (id INT PRIMARY KEY) ENGINE=MEMORY")
    follow(source, other)
    other.sql("STOP SLAVE")
    keeper.dump()
    assert keeper.newest()["method"] == "copy"
    other.sql("START SLAVE")
    source.sql("INSERT INTO fed.t VALUES (1)")
    wait_followed(source, other)
    assert keeper.world.rows("t") == 1
    other.sql("STOP SLAVE")
    other.crash("--skip-slave-start")
    told = keeper.ok("--restore", "--json")
    assert not told["journal"]["whole"] and "OFF on a replica" in told["journal"]["gap"], told
    checked = keeper.run("--check").out
    assert "OFF on a replica" in checked and "SET GLOBAL gtid_slave_pos=''" in checked, checked


@pytest.mark.parametrize("at_work", ["a dump", "a journal"])
def test_a_server_that_becomes_a_replica(make_server, make_world, make_keeper, at_work):
    """If a server that does not log its source's changes becomes a replica, a scan beside that fails, because its tables may
    be of different moments, and the journal ends."""
    row = [*LOG, "--binlog-format=ROW"]
    option = "log-replica-updates" if MYSQL else "log-slave-updates"
    source, other = make_server(*row), make_server(*row, "--server-id=2", f"--{option}=OFF")
    keeper = make_keeper(make_world("empty", on=other, schema="fed")).init()
    other.sql("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY", schema="fed")
    source.sql("CREATE DATABASE other")
    if at_work == "a dump":
        dumping = keeper.popen("--dump", "--json", fault="dump.scanned#1=stop")
        pids = wait_stopped(keeper, "dump.scanned#1")
        follow(source, other)
        go_on(pids)
        done = keeper.finish(dumping)
        assert done.rc == FAILED and '"class":"changed"' in done.out and "OFF on a replica" in done.out, done
        assert not keeper.dumps()
    else:
        keeper.dump()
        keeper.start()
        following(keeper)
        follow(source, other)
        keeper.wait(lambda: "OFF on a replica" in keeper.log(), "the end of the journal")


@pytest.mark.only("mariadb", why="MySQL numbers the transactions of each server separately")
@pytest.mark.parametrize("mode", ["auto", "follow"])
def test_transactions_of_a_source_between_own_ones(make_server, make_world, make_keeper, mode):
    """On a replica with writes of its own the source's transactions have lower numbers in the same domain. The journal goes on
    after a dump and after the segments whichever comes next. Another domain does not matter."""
    row = [*LOG, "--binlog-format=ROW"]
    source, other = make_server(*row), make_server(*row, "--server-id=2", "--log-slave-updates=ON")
    keeper = make_keeper(make_world("empty", on=other, schema="fed"), {"journal": {"mode": mode}}).init()
    source.sql("CREATE DATABASE IF NOT EXISTS fed", "CREATE TABLE fed.t (id INT PRIMARY KEY) ENGINE=MEMORY")
    follow(source, other)
    other.sql("SET gtid_domain_id=1", "CREATE DATABASE beside")
    other.sql(*(f"INSERT INTO fed.t VALUES ({n})" for n in range(10, 40)))
    keeper.dump()
    source.sql("INSERT INTO fed.t VALUES (1)")
    wait_followed(source, other)
    other.sql("INSERT INTO fed.t VALUES (2)")
    if mode == "follow":
        keeper.start()
        following(keeper)
        assert keeper.stop() == 0
    source.sql("INSERT INTO fed.t VALUES (3)")
    wait_followed(source, other)
    other.sql("INSERT INTO fed.t VALUES (4)")
    other.crash("--skip-slave-start")
    told = keeper.ok("--restore", "--json")
    assert told["journal"]["whole"] and keeper.world.rows("t") == 34, told


# -- a server that wants our files ------------------------------------------------------------------------

class Rogue:
    """Relays between a keeper and its server. When a command contains `trigger`, it asks for the file `path` instead of
    answering; without a trigger it changes the server's request for rows into one for that file."""

    def __init__(self, server, path, trigger=None, patience=1):
        self.server, self.path, self.trigger, self.patience = server, path.encode(), trigger, patience
        self.got, self.asked = bytearray(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        stop_listening(self.listener)

    def accept(self):
        while True:
            try:
                con, _ = self.listener.accept()
            except OSError:
                return
            con.settimeout(PATIENCE)
            up = socket.socket(socket.AF_UNIX)
            up.connect(self.server.socket)
            for work in (self.from_client, self.from_server):
                threading.Thread(target=self.run, args=(work, con, up), daemon=True).start()

    def run(self, work, con, up):
        try:
            work(con, up)
        except OSError:
            pass
        for s in (con, up):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @staticmethod
    def read(s, n):
        data = bytearray()
        while len(data) < n:
            more = s.recv(n - len(data))
            if not more:
                raise OSError("closed")
            data += more
        return bytes(data)

    def packet(self, s):
        head = self.read(s, 4)
        return head[3], self.read(s, int.from_bytes(head[:3], "little"))

    @staticmethod
    def send(s, n, body):
        s.sendall(len(body).to_bytes(3, "little") + bytes([n & 255]) + body)

    def from_client(self, con, up):
        while True:
            n, body = self.packet(con)
            self.got += body
            if n == 0 and self.trigger and self.trigger in body:
                self.asked += 1
                con.settimeout(self.patience)  # some requests get no answer
                self.send(con, 1, b"\xfb" + self.path)
                n, body = self.packet(con)
                while body:
                    self.got += body
                    n, body = self.packet(con)
                self.send(con, n + 1, b"\xff" + (1105).to_bytes(2, "little") + b"#HY000thank you")
                return
            self.send(up, n, body)

    def from_server(self, con, up):
        while True:
            n, body = self.packet(up)
            if n == 1 and body[:1] == b"\xfb" and not self.trigger:
                self.asked += 1
                body = b"\xfb" + self.path
            self.send(con, n, body)


def through(keeper, rogue):
    keeper.configure({"mysql": {"socket": None, "host": "127.0.0.1", "port": str(rogue.port), "tls": "off"}})


def straight(keeper):
    keeper.configure({"mysql": {"socket": keeper.server.socket, "host": None, "port": None, "tls": None}})


@pytest.fixture
def precious(tmp):
    path = os.path.join(tmp, "precious")
    with open(path, "w") as f:
        f.write("precious-content\n")
    return path


# Oracle's library also sends that a statement has no attributes.
QUERY = b"\x03\x00\x01" if ORACLE and MYSQL else b"\x03"
ROWS = {"prepare": b"\x16INSERT INTO", "execute": b"\x17" if MYSQL else b"\xfa"}
TRIGGERS = {"first": b"SET NAMES binary", "lease": b"GET_LOCK", "create": b"LIKE `player`", **ROWS,
            "count": b"SELECT COUNT(*)", "rename": b"RENAME TABLE"}


@pytest.mark.parametrize("trigger", TRIGGERS.values(), ids=TRIGGERS)
def test_a_rogue_server_gets_no_file_during_a_restore(keeper, precious, trigger):
    """Whatever the statement, a server that requests a file during a restore does not receive it."""
    before = keeper.world.checksums()
    keeper.dump()
    lose(keeper.world)
    with Rogue(keeper.server, precious, trigger) as rogue:
        through(keeper, rogue)
        done = keeper.run("--restore")
        assert done.rc != DONE, done
        assert rogue.asked and b"precious-content" not in rogue.got
    straight(keeper)
    wait_for(lambda: not sessions(keeper.server), "the sessions to end")
    assert keeper.world.rows() == 0
    keeper.ok("--restore")
    assert keeper.world.checksums() == before


def test_a_rogue_server_gets_rows_only(make_server, make_world, make_keeper, precious):
    """If the server requests another file instead of the offered rows, it receives the rows; during a dump it receives
    nothing."""
    server = make_server(*WAYS["local"])
    keeper = make_keeper(make_world(on=server)).init()
    before = keeper.world.checksums()
    with Rogue(server, precious, b"SELECT /* worldkeeper */") as rogue:
        through(keeper, rogue)
        done = keeper.run("--dump")
        assert done.rc != DONE, done
        assert rogue.asked and b"precious-content" not in rogue.got
    straight(keeper)
    keeper.dump()
    rows = ["játékos".encode(), b"\n2999\r499\r2999\n"]
    for trigger, enough in ((b"LOAD DATA LOCAL", any), (None, all)):  # tables are loaded in parallel
        lose(keeper.world)
        with Rogue(server, precious, trigger, patience=60) as rogue:
            through(keeper, rogue)
            done = keeper.run("--restore")
            assert (done.rc == DONE) == (trigger is None), done
            assert rogue.asked and b"precious-content" not in rogue.got
            assert enough(row in rogue.got for row in rows)
        straight(keeper)
    assert keeper.world.checksums() == before


# -- a game that does not wait --------------------------------------------------------------------------------

class Attacker(Beside):
    """Inserts, changes, deletes and locks as fast as possible, in rows with its own mark."""

    def __init__(self, world, number):
        super().__init__()
        self.world, self.number, self.done = world, number, 0

    def statements(self, dice, n):
        k = self.number
        return dice.choice([
            [f"INSERT INTO player (nick,points) VALUES ('attacker {k} {n}',{n})"],
            [f"UPDATE player SET points=points+1 WHERE nick LIKE 'attacker {k} %'"],
            [f"DELETE FROM player WHERE nick LIKE 'attacker {k} %'"],
            [f"INSERT INTO chat VALUES (-{k},'attack'),(-{k},'attack')"],
            [f"UPDATE chat SET what='changed' WHERE who=-{k} LIMIT 1"],
            [f"DELETE FROM chat WHERE who=-{k} LIMIT 1"],
            [f"REPLACE INTO mark VALUES (-{k},{n})"],
            ["LOCK TABLES player WRITE, fleet READ", "UNLOCK TABLES"],
            ["LOCK TABLES fleet WRITE, chat WRITE, mark WRITE", "UNLOCK TABLES"],
            ["START TRANSACTION", f"INSERT INTO chat VALUES (-{k},'in a transaction')",
             f"REPLACE INTO mark VALUES (-{k},0)", "COMMIT"],
        ])

    def work(self):
        dice, con, n = random.Random(self.number), None, 0
        while not self.ended.is_set():
            n += 1
            try:
                con = con or self.world.server.admin(self.world.schema, read_timeout=60)
                with con.cursor() as cur:
                    for statement in self.statements(dice, n):
                        cur.execute(statement)
                self.done += 1
            except (pymysql.err.Error, OSError):
                con = None
                self.ended.wait(0.02)


PEACE = {"player": "nick NOT LIKE 'attacker%'", "fleet": "id>=0", "chat": "who>=0", "mark": "id>=0"}


def peaceful(world):
    """Returns the rows that no attacker wrote."""
    return {t: sorted(map(repr, world.sql(f"SELECT * FROM {t} WHERE {where}"))) for t, where in PEACE.items()}


def test_under_attack(doomed, victim):
    """Sixteen attackers and four games that write and lock all the time neither stop a restore nor change rows of the dump, and
    no acknowledged row of the games is lost."""
    world = doomed.world
    doomed.dump()
    before = peaceful(world)
    world.sql("CREATE TABLE acks (who INT, n INT, PRIMARY KEY (who,n)) ENGINE=InnoDB")
    doomed.start()
    attackers = [Attacker(world, k) for k in range(1, 17)]
    games = [Game(world, f"INSERT INTO fleet VALUES (-{{n}},{k},NULL)", f"INSERT INTO acks VALUES ({k},{{n}})")
             for k in range(1001, 1005)]
    for thread in attackers + games:
        thread.__enter__()
    try:
        wait_for(lambda: all(a.done > 5 for a in attackers), "the attack")
        victim.crash()
        last = dict(world.sql("SELECT who, MAX(n) FROM acks GROUP BY who"))
        doomed.wait(lambda: len(world.sql("SELECT 1 FROM player WHERE nick NOT LIKE 'attacker%'")) == 2000,
                    "the world under attack")
        doomed.wait_state("UP")
        goal, rounds = [a.done + 3 for a in attackers], [g.rounds for g in games]
        wait_for(lambda: all(a.done > g for a, g in zip(attackers, goal)) and
                 all(g.rounds > n + 1 for g, n in zip(games, rounds)), "the attack and the games to go on")
    finally:
        for thread in attackers + games:
            thread.ended.set()
        for thread in attackers + games:
            thread.__exit__(None)
    assert not [t.error for t in attackers + games if t.error]
    assert peaceful(world) == before
    saved = b"".join(gzip.open(path).read() for path in doomed.conflicts())
    kept = {(int(k), -int(n)) for n, k in re.findall(rb"\((-\d+),(\d+),", saved)}
    kept |= {(k, -n) for n, k in world.sql("SELECT id, owner FROM fleet WHERE id<0")}
    told = {(k, n) for k, n in world.sql("SELECT who, n FROM acks") if n > last.get(k, 0)}
    assert told - kept == set() and told
    assert doomed.status()["last_restore"]["ok"] is True


def test_writers_that_never_pause(make_world, make_keeper, victim):
    """Forty clients that update an emptied table without a pause prevent neither the saving of its rows nor the end of the
    restore."""
    world = make_world(on=victim)
    keeper = make_keeper(world, {"restore": {"lock_wait": "2s"}})
    keeper.init()
    keeper.dump()
    before = peaceful(world)
    victim.crash()
    world.sql("INSERT INTO chat VALUES (-7,'crowd')")
    crowd = subprocess.Popen(["mariadb-slap", "--no-defaults", "--socket=" + victim.socket, "--user=root",
                              "--create-schema=" + world.schema, "--no-drop", "--concurrency=40",
                              "--number-of-queries=100000000",
                              "--query=UPDATE chat SET what='still here' WHERE who=-7"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: int(world.sql("SHOW GLOBAL STATUS LIKE 'Com_update'")[0][1]) > 1000, "the crowd")
        result = keeper.ok("--restore", "--json")
        assert crowd.poll() is None, "the crowd went home"
    finally:
        crowd.kill()
        crowd.wait()
    assert result["conflict_rows"] == 1 and peaceful(world) == before


# -- dumps of before, and memory ---------------------------------------------------------------------------

def one_member_a_table(keeper, manifest):
    """Rewrites the dump as the previous version wrote it: each table in one gzip member, without a checksum of the manifest."""
    path = keeper.path(manifest)
    with open(path, "rb") as f:
        data = f.read()
    out, at = b"", 0
    for table in manifest["tables"]:
        offset, length = table["offset"], table["length"]
        if offset > at:
            out += gzip.compress(gzip.decompress(data[at:offset]), 1)
        table["offset"] = len(out)
        out += gzip.compress(gzip.decompress(data[offset:offset + length]), 1)
        table["length"] = len(out) - table["offset"]
        at = offset + length
    out += gzip.compress(gzip.decompress(data[at:]), 1)
    manifest.update(file_size=len(out), sha256=hashlib.sha256(out).hexdigest())
    manifest["format"] = 1
    del manifest["checksum"]  # the previous version had none
    for name, content in ((path, out), (path.replace(".sql.gz", ".json"), json.dumps(manifest).encode())):
        with open(name, "wb") as f:
            f.write(content)


def test_a_dump_of_the_version_before(make_world, make_keeper):
    """Dumps with one gzip member per table can be verified, restored, and read by the stock client."""
    world = make_world("big")
    keeper = make_keeper(world, settings(2)).init()
    before = world.checksums()
    keeper.dump()
    manifest = keeper.newest()
    one_member_a_table(keeper, manifest)
    keeper.ok("--verify")
    lose(world)
    result = keeper.ok("--restore", "--json")
    assert result["dump"] == manifest["name"] and result["skipped"] == []
    assert world.checksums() == before
    stock = make_world("empty")
    stock_restore(stock.server, keeper.path(manifest), stock.schema)
    assert stock.checksums() == before


@pytest.mark.parametrize("action, point", [("--dump", "dump.retained"), ("--restore", "restore.done")])
def test_memory_of_a_large_table(make_world, make_keeper, action, point):
    """A dump or a restore of 300,000 rows uses less than 64 MiB."""
    world = make_world("empty")
    world.sql("SET max_heap_table_size=256*1024*1024",
              "CREATE TABLE planet (id INT PRIMARY KEY, owner INT, name VARCHAR(24) CHARACTER SET latin1, "
              "size DOUBLE) ENGINE=MEMORY",
              "INSERT INTO planet SELECT seq, seq*7919 MOD 5003, CONCAT('planet ',seq*31337), seq/7 "
              "FROM seq_1_to_300000")
    keeper = make_keeper(world).init()
    before = world.checksums()
    if action == "--restore":
        keeper.dump()
        lose(world)
    working = keeper.popen(action, fault=point + "=stop")
    at_work = wait_stopped(keeper, point)
    held = peak_mib(at_work)
    go_on(at_work)
    done = keeper.finish(working)
    assert done.rc == DONE, done
    assert world.checksums() == before
    assert held < 64 or sanitized(), f"{action} took {held} MiB"
