"""Tests of rows longer than the server's max_allowed_packet: they are named, with a command that helps."""
import gzip
import os
import re

import pytest
from test_load import BY_EACH_WAY, WAYS, lose
from wk.follow import following
from wk.keeper import FAILED
from wk.server import MYSQL
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql

MIB = 1 << 20
FULL = {"dump": {"engines": "all"}, "restore": {"scope": "all"}}


def limited(server, limit):
    server.sql("SET GLOBAL net_buffer_length=1024", f"SET GLOBAL max_allowed_packet={limit}")


def do_as_told(server, text, enough):
    """Runs the statement of the hint, and asserts that it names the size that is enough."""
    said = re.search(r"(SET GLOBAL max_allowed_packet=(\d+)) on the server, and "
                     r"max_allowed_packet=(\d+)M below \[mysqld\]", text)
    assert said, text
    assert int(said[2]) == int(said[3]) * MIB == enough, text
    server.sql(said[1])


@pytest.fixture
def roomy(make_server, make_world):
    """Returns a world on a server with a large max_allowed_packet."""
    server = make_server("--max-allowed-packet=64M", "--log-bin=log", "--innodb-redo-log-capacity=64M" if MYSQL
                         else "--innodb-log-file-size=64M")
    return make_world("empty", on=server)


def assert_refused(done, table, limit):
    assert done.rc == FAILED and "max_allowed_packet is " + str(limit) in done.err, done
    assert re.search(rf"(row|statement) of table {table} takes|loading table {table}: a row takes", done.err), done


def test_long_rows_of_durable_tables(roomy, make_keeper):
    """A dump fails if it has a row that could not be restored. A restore of a dump made under a higher limit fails with the
    statement that makes it succeed."""
    server = roomy.server
    roomy.sql("CREATE TABLE small (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO small VALUES (1)",
              "CREATE TABLE book (id INT PRIMARY KEY, t LONGTEXT, b LONGBLOB)",
              f"INSERT INTO book VALUES (1,'short','short'), (2,REPEAT('t',{MIB}),REPEAT(CHAR(0),{9 * MIB}))")
    keeper = make_keeper(roomy, FULL).init()
    before = roomy.checksums()
    limited(server, 4 * MIB)
    assert_refused(keeper.run("--dump"), "book", 4 * MIB)
    do_as_told(server, keeper.run("--dump").err, 32 * MIB)
    keeper.dump()
    roomy.sql("DELETE FROM book")
    limited(server, MIB)
    whole = "--restore=" + keeper.newest()["name"]
    done = keeper.run(whole, "--force")
    assert_refused(done, "book", MIB)
    assert roomy.sql("SELECT COUNT(*) FROM book") == ((0,),)
    do_as_told(server, done.err, 32 * MIB)
    keeper.ok(whole, "--force")
    assert roomy.checksums() == before


@pytest.mark.parametrize("limit", [1024, MIB])
def test_what_just_fits_is_restored(roomy, make_keeper, limit):
    """The longest row that can be dumped can be restored under the same limit."""
    server = roomy.server
    roomy.sql("CREATE TABLE book (id INT PRIMARY KEY, t LONGTEXT) ENGINE=InnoDB",
              f"INSERT INTO book VALUES (1,REPEAT('t',{limit + 1}))")
    keeper = make_keeper(roomy, FULL).init()
    limited(server, limit)
    if limit == 1024:  # there is not even space for the names
        assert_refused(keeper.run("--dump"), ".*", limit)
        return
    low, high = limit - 8192, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        roomy.sql(f"UPDATE book SET t=REPEAT('t',{middle})")
        done = keeper.run("--dump")
        if done.rc == 0:
            low = middle
        else:
            assert_refused(done, "book", limit)
            high = middle
    assert limit - 8192 < low < limit
    roomy.sql("DELETE FROM book")
    keeper.ok("--restore", "--force")
    assert roomy.sql("SELECT LENGTH(t) FROM book") == ((low,),)


@pytest.mark.each_server
@BY_EACH_WAY
def test_long_rows_of_memory_tables(make_server, make_world, make_keeper, way):
    """Each way of loading (array columns, lines, SQL) either loads a long row or names its table."""
    server = make_server(*WAYS[way])
    world = make_world("empty", on=server)
    world.sql("CREATE TABLE wide (id INT PRIMARY KEY, v VARBINARY(60000)) ENGINE=MEMORY",
              "INSERT INTO wide VALUES (1,'short'),(2,REPEAT('v',50000)),(3,'short')")
    keeper = make_keeper(world).init()
    before = world.checksums()
    keeper.dump()
    lose(world)
    limited(server, 16384)
    done = keeper.run("--restore")
    if way == "local":
        assert done.rc == 0, done
    else:
        assert_refused(done, "wide", 16384)
        assert world.sql("SELECT COUNT(*) FROM wide") == ((0,),)
        do_as_told(server, done.err, 16 * MIB)
        keeper.ok("--restore")
    assert world.checksums() == before


def test_long_rows_of_the_journal(make_server, make_world, make_keeper):
    """An automatic restore whose rows exceed the limit of the restarted server waits, says what to do, and continues
    afterwards."""
    server = make_server("--log-bin=log", "--binlog-format=ROW")
    world = make_world("empty", on=server)
    world.sql("CREATE TABLE wide (id INT PRIMARY KEY, v VARBINARY(60000)) ENGINE=MEMORY",
              "INSERT INTO wide VALUES (1,'short')")
    keeper = make_keeper(world, {"restore": {"connections": "1"}}).init()
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql("INSERT INTO wide VALUES (2,REPEAT('v',50000))", "UPDATE wide SET v=REPEAT('w',40000) WHERE id=1")
    before = world.checksums()
    server.crash("--max-allowed-packet=16384", "--net-buffer-length=1024")
    keeper.wait_log("SET GLOBAL max_allowed_packet=")
    keeper.wait(lambda: keeper.flag() != "UP", "the flag")
    do_as_told(server, keeper.log(), 16 * MIB)
    keeper.wait_state("UP")
    wait_for(lambda: world.checksums() == before, "the world")


def test_long_statements_of_other_dumps(roomy, make_keeper, tmp):
    """A statement of mysqldump that exceeds the limit is reported with the command that helps."""
    server = roomy.server
    roomy.sql("CREATE TABLE small (id INT PRIMARY KEY, v VARCHAR(1000)) ENGINE=MEMORY")
    keeper = make_keeper(roomy).init()
    path = os.path.join(tmp, "other.sql.gz")
    rows = ",".join(f"({n},'{'x' * 900}')" for n in range(2500))
    with gzip.open(path, "wt") as f:
        f.write("CREATE TABLE `small` (\n  `id` int NOT NULL,\n  `v` varchar(1000) DEFAULT NULL,\n  PRIMARY KEY "
                f"(`id`)\n) ENGINE=MEMORY;\nINSERT INTO `small` VALUES {rows};\n-- Dump completed\n")
    limited(server, MIB)
    done = keeper.run("--restore=" + path, "--force")
    assert_refused(done, "small", MIB)
    do_as_told(server, done.err, 16 * MIB)
    keeper.ok("--restore=" + path, "--force")
    assert roomy.sql("SELECT COUNT(*), SUM(LENGTH(v)) FROM small") == ((2500, 2500 * 900),)


def test_check_says_how_to_raise_it(roomy, make_keeper):
    """--check says how to raise the limit where rows may be too long, and not when it is high enough."""
    server = roomy.server
    roomy.sql("CREATE TABLE book (id INT PRIMARY KEY, t LONGTEXT) ENGINE=InnoDB")
    keeper = make_keeper(roomy, FULL).init()
    for limit, enough in ((65536, 16 * MIB), (MIB, 1024 * MIB)):
        limited(server, limit)
        do_as_told(server, re.sub(r"\s+", " ", keeper.run("--check").out), enough)
    assert "max_allowed_packet=" not in keeper.run("--check").out
