"""Tests of ordinary replication: what a restart of the source and a restore on it do to its replicas, how that is reported in
advance, and the journal of a world on a replica."""
import glob
import json
import os
import re
import shlex
import subprocess

import pymysql
import pytest

from wk.binlog import place
from wk.follow import LOG, all_comes_back, another_server, clock, dump_and_follow, following
from wk.keeper import DONE, signed
from wk.server import MYSQL
from wk.snapshot import assert_same, snapshot
from wk.util import free_port, ident, wait_for

pytestmark = pytest.mark.third_on_mysql


class Replica:
    """A server that replicates from `source`, from the first byte of its log."""

    def __init__(self, source, server):
        self.source, self.server = source, server
        source.sql("CREATE USER replica@'127.0.0.1' IDENTIFIED BY 'feed'",
                   "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'")
        to = (f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={source.port}, MASTER_USER='replica', "
              "MASTER_PASSWORD='feed', MASTER_LOG_FILE='log.000001', MASTER_LOG_POS=4, MASTER_CONNECT_RETRY=1")
        if MYSQL:
            to = (to.replace("MASTER TO", "REPLICATION SOURCE TO").replace("MASTER_", "SOURCE_")
                  + ", GET_SOURCE_PUBLIC_KEY=1, SOURCE_RETRY_COUNT=100000")  # MySQL gives up after 10
        server.sql(to, "START SLAVE")

    def status(self):
        con = self.server.admin(cursorclass=pymysql.cursors.DictCursor)
        with con, con.cursor() as cur:
            cur.execute("SHOW REPLICA STATUS")
            return cur.fetchone()

    def error(self):
        return self.status()["Last_SQL_Errno"]

    def wait(self):
        """Waits until the replica has executed the source's whole log."""
        kind = "Source" if MYSQL else "Master"
        end = self.source.sql("SHOW MASTER STATUS")[0][:2]

        def there():
            said = self.status()
            assert not said["Last_SQL_Errno"], said["Last_SQL_Error"]
            return (said[f"Relay_{kind}_Log_File"], said[f"Exec_{kind}_Log_Pos"]) == end
        wait_for(there, lambda: f"the replica to follow: {self.status()}")


@pytest.fixture
def pair(make_server, make_world, make_keeper):
    """Returns pair(binlog), which makes a keeper of a world on a source, and its replica."""
    def make(binlog):
        source = make_server(*LOG)
        keeper = make_keeper(make_world(on=source), {"restore": {"binlog": binlog}}).init()
        source.sql("GRANT BINLOG ADMIN ON *.* TO keeper@localhost")
        replica = Replica(source, make_server("--server-id=2"))
        replica.wait()
        return keeper, replica
    return make


def finding(keeper, name="replicas"):
    return [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == name]


def count(server, keeper):
    return server.value("SELECT COUNT(*) FROM player", schema=keeper.world.schema)


def test_our_own_journal_is_no_replica(make_followed):
    keeper = make_followed()
    keeper.dump()
    keeper.start()
    following(keeper)
    assert finding(keeper) == []
    assert keeper.ok("--restore", "--force", "--json")["replicas"] == 0


def test_a_logged_restore_fills_the_replicas_again(pair):
    """--check reports in advance that a restart of the source empties its replicas and that a logged restore fills them again,
    and both happen."""
    keeper, replica = pair("yes")
    keeper.dump()
    before = keeper.world.snapshot()
    (said,) = finding(keeper)
    assert said["level"] == "note" and "1 is connected" in said["text"], said
    assert "empties the MEMORY tables there, too" in said["text"] and "fills them again" in said["text"], said
    keeper.server.crash()
    keeper.world.rows()
    replica.wait()
    assert count(replica.server, keeper) == 0
    wait_for(lambda: keeper.run("--restore", "--dry-run", "--json").result["replicas"] == 1, "the replica to be back")
    done = keeper.run("--restore")
    assert done.rc == DONE and "1 replica is connected: the restore is logged" in done.err, done
    replica.wait()
    keeper.world.assert_is(before)
    assert_same(before, snapshot(replica.server, keeper.world.schema), "the replica's world")
    keeper.world.sql("UPDATE player SET points=1", "DELETE FROM fleet WHERE id<9")
    replica.wait()


def test_an_unlogged_restore_says_that_replicas_stop(pair):
    """With [restore] binlog = no after a logged TRUNCATE, --check, --dry-run and the result report that replicas stop, and
    they do."""
    keeper, replica = pair("no")
    keeper.dump()
    (said,) = finding(keeper)
    assert said["level"] == "warn" and "stops them (error 1032)" in said["text"], said
    assert ("binlog = yes" if MYSQL else "init_file") in said["hint"], said
    keeper.server.crash()
    keeper.world.rows()
    replica.wait()
    wait_for(lambda: keeper.run("--restore", "--dry-run", "--json").result["replicas"] == 1, "the replica to be back")
    planned = keeper.ok("--restore", "--dry-run", "--json")
    result = keeper.ok("--restore", "--json")
    for said in (planned, result):
        assert said["replicas"] == 1 and "stops at the next change" in said["warning"], said
    keeper.world.sql("UPDATE player SET points=1 WHERE id=7")
    wait_for(lambda: replica.error() == 1032, "the replica to stop")


@pytest.mark.only("mariadb", why="MySQL writes its TRUNCATE with sql_log_bin=0, too")
def test_the_init_file_of_the_hint(pair):
    """With the init_file that the hint creates, replicas keep their rows over a restart and a restore, and replication
    continues."""
    keeper, replica = pair("no")
    keeper.world.sql("CREATE TABLE `o``dd` (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO `o``dd` VALUES (1)")
    (said,) = finding(keeper)
    command, path = re.search(r"(mariadb -N .*?) > (/etc/mysql/\S+\.sql),", said["hint"]).groups()
    assert f"init_file = {path}" in said["hint"], said
    words = shlex.split(command)
    made = os.path.join(keeper.server.dir, "open.sql")
    with open(made, "wb") as f:
        subprocess.run([words[0], "--no-defaults", "--socket=" + keeper.server.socket, "--user=root", *words[1:]],
                       stdout=f, check=True)
    os.chmod(made, 0o644)
    keeper.dump()
    before = keeper.world.snapshot()
    replica.wait()
    keeper.server.crash("--init-file=" + made)
    keeper.world.rows()
    keeper.world.sql("SELECT * FROM `o``dd`", "SELECT * FROM worldkeeper_sentinel")
    assert keeper.world.rows() == 0
    replica.wait()
    assert count(replica.server, keeper) == 2000
    wait_for(lambda: finding(keeper), "the replica to be back")
    (said,) = finding(keeper)
    assert said["level"] == "ok" and made in said["text"], said
    keeper.ok("--restore")
    keeper.world.assert_is(before)
    keeper.world.sql("UPDATE player SET points=1", "DELETE FROM fleet WHERE id<9", "DELETE FROM `o``dd`",
                     "UPDATE worldkeeper_sentinel SET beat=9")
    after = keeper.world.snapshot()
    replica.wait()
    assert_same(after, snapshot(replica.server, keeper.world.schema), "the replica's world")


def test_a_drill_is_the_servers_own(pair):
    """A drill writes nothing to the binary log if the account may leave it out."""
    keeper, replica = pair("yes")
    for host in ("localhost", "127.0.0.1"):
        keeper.server.grant(f"'keeper'@'{host}'", "worldkeeper_drill_w1")
    keeper.dump()
    keeper.ok("--drill")
    log = keeper.server.sql("SHOW MASTER STATUS")[0][0]
    events = [e[5] for e in keeper.server.sql(f"SHOW BINLOG EVENTS IN '{log}'") if "worldkeeper_drill" in e[5]]
    assert all(e.startswith("GRANT") for e in events), events
    replica.wait()


def test_a_world_on_a_replica(pair, make_keeper, make_world):
    keeper, replica = pair("yes")
    assert finding(keeper, "replica") == []
    there = make_keeper(make_world("empty", on=replica.server, schema="beside"))
    (said,) = finding(there, "replica")
    assert said["level"] == "warn" and "1032" in said["text"], said


class Fed:
    """A world on a MariaDB replica that logs what its source sends. In the one domain of both servers, the transactions of the
    source have lower numbers than those of the replica."""

    def __init__(self, keeper, source):
        self.keeper, schema = keeper, ident(keeper.world.schema)
        source.sql(f"CREATE DATABASE IF NOT EXISTS {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY) ENGINE=MEMORY")
        self.table, self.replica = f"{schema}.t", Replica(source, keeper.server)
        self.replica.wait()
        self.own(*range(100, 140))
        assert self.number(source) + 30 < self.number(keeper.server)

    def own(self, *rows):
        self.keeper.server.sql(*(f"INSERT INTO {self.table} VALUES ({n})" for n in rows))

    def send(self, *rows):
        self.replica.source.sql(*(f"INSERT INTO {self.table} VALUES ({n})" for n in rows))
        self.replica.wait()

    def number(self, server):
        """Returns the number of the last transaction in a server's log."""
        return int(server.value("SELECT @@gtid_binlog_pos").split("-")[2])


@pytest.fixture
def make_fed(make_followed, make_server):
    def make(settings=None):
        keeper = make_followed("empty", settings, options=["--server-id=2", "--log-slave-updates=ON"])
        return keeper, Fed(keeper, make_server(*LOG))
    return make


SEPARATE = pytest.mark.only("mariadb", why="MySQL numbers the transactions of each server separately")


@SEPARATE
@pytest.mark.parametrize("dumped", ["own", "source"])
def test_segments_of_two_servers(make_fed, dumped):
    """A new server gets all changes since the dump, whichever server's transactions precede and follow it."""
    keeper, fed = make_fed()
    dump_and_follow(keeper)
    fed.own(1)
    fed.send(2)
    if dumped == "own":
        fed.own(3)
    keeper.dump()
    following(keeper)
    fed.send(4)
    fed.own(5)
    fed.send(6)
    told = all_comes_back(keeper)
    assert told["journal"]["filed"] > 0, told


@SEPARATE
def test_a_dump_in_the_middle_of_a_segment(make_fed):
    """A dump's position is found in a segment that has another file of the log before it and after it."""
    keeper, fed = make_fed()
    dump_and_follow(keeper)
    keeper.segments.wait_all()
    assert keeper.stop() == 0
    keeper.server.sql("FLUSH BINARY LOGS")
    fed.own(1)
    fed.send(2)
    keeper.dump()
    fed.own(3)
    keeper.server.sql("FLUSH BINARY LOGS")
    fed.send(4)
    keeper.start()
    following(keeper)
    assert all_comes_back(keeper)["journal"]["filed"] > 0


@SEPARATE
@pytest.mark.parametrize("created", ["known", "unknown"])
def test_a_segment_of_another_log_with_numbers_of_a_source(make_fed, created):
    """After a RESET the numbers of the source continue. They do not show that a segment is of another log than a dump before it,
    but the creation time of the file does. Without that time the segment is not used, either."""
    keeper, fed = make_fed()
    server = keeper.server
    server.sql("FLUSH BINARY LOGS")
    fed.own(1)
    fed.send(2)
    keeper.dump()
    dump, before = keeper.newest(), keeper.world.snapshot()
    clock(server)
    server.sql("RESET MASTER")
    keeper.start()
    following(keeper)
    keeper.wait(lambda: keeper.newest()["name"] != dump["name"], "the dump after the gap")
    server.sql("FLUSH BINARY LOGS")
    assert place(server)[0] == dump["end_point"]["file"]
    while place(server)[1] <= dump["end_point"]["pos"]:
        keeper.world.sql("INSERT INTO t SELECT seq FROM seq_1000_to_1500", "DELETE FROM t WHERE id>=1000")
    fed.own(3)
    fed.send(4)
    server.sql("FLUSH BINARY LOGS")
    fed.send(5)
    keeper.segments.wait_all()
    assert keeper.stop() == 0
    for name in glob.glob(os.path.join(keeper.dumps_dir, keeper.newest()["name"] + "*")):
        os.remove(name)
    if created == "unknown":
        path = keeper.path(dump).replace(".sql.gz", ".json")
        with open(path) as f:
            manifest = json.load(f)
        with open(path, "w") as f:
            json.dump(signed({k: v for k, v in manifest.items() if k != "log_born"}), f)
    another_server(keeper)
    told = keeper.ok("--restore", "--json")
    keeper.world.assert_is(before)
    assert not told["journal"]["whole"] and told["journal"]["filed"] == 0 and told["dump"] == dump["name"], told


@SEPARATE
def test_a_switch_over_of_a_world_on_a_replica(make_fed, make_world, make_server, make_keeper, tmp):
    """The standby gets all of a world whose last transactions are those of the replica's source."""
    os.mkdir(os.path.join(tmp, "store"), 0o700)
    settings = {"offsite": {"url": f"file://{tmp}/store/", "plain": "yes"}, "standby": {"lease": "none"}}
    one, fed = make_fed(settings)
    two = make_keeper(make_world("empty", make_server(*LOG), schema=one.world.schema),
                      {**settings, "journal": {"mode": "follow"}, "probe": {"interval": "100ms"}})
    two.start("STANDBY")
    dump_and_follow(one)
    one.wait(lambda: (one.status()["offsite"] or {}).get("newest") == one.newest()["name"], "the dump is stored")
    fed.own(1)
    fed.send(2)
    before = one.world.snapshot()
    one.ok("--switch-over")
    told = two.ok("--promote", "--by-hand", "--json")
    two.world.assert_is(before)
    assert told["lost"] == "nothing lost" and told["lost_seconds"] == 0, told


@pytest.mark.only("mysql", why="Group Replication")
def test_a_member_of_a_group_is_refused(make_server, make_world, make_keeper):
    """A member of Group Replication accepts no rows in MEMORY tables: --check reports it, and so does --init when it fails."""
    port = free_port()
    server = make_server(*LOG, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
    keeper = make_keeper(make_world("empty", on=server))
    assert finding(keeper, "group replication") == []
    server.sql("INSTALL PLUGIN group_replication SONAME 'group_replication.so'",
               "SET GLOBAL group_replication_group_name='aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa'",
               f"SET GLOBAL group_replication_local_address='127.0.0.1:{port}'",
               "SET GLOBAL group_replication_bootstrap_group=ON", "START GROUP_REPLICATION")
    (said,) = finding(keeper, "group replication")
    assert said["level"] == "warn" and "3098" in said["text"], said
    server.sql("GRANT SELECT ON performance_schema.replication_group_members TO keeper@localhost")
    (said,) = finding(keeper, "group replication")
    assert said["level"] == "fail" and "is a member" in said["text"], said
    done = keeper.run("--init")
    assert done.rc != DONE and "3098" in done.err and "not a member" in done.err, done
