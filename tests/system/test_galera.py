"""A world on one node of a Galera cluster: MEMORY rows exist only on that node, but CREATE, RENAME, TRUNCATE and DROP are
replicated. The supervisor's work must stay on its node."""
import os
import signal

import pytest

from wk.cluster import Cluster
from wk.follow import LOG
from wk.keeper import DONE, FAILED, HELD, REFUSED
from wk.snapshot import assert_same, snapshot
from wk.util import session_pids, wait_for

pytestmark = [pytest.mark.only("mariadb", why="Galera"), pytest.mark.needs("galera")]


@pytest.fixture(scope="module")
def cluster(base):
    made = Cluster(base, 2, *LOG)
    try:
        yield made.start()
    finally:
        made.destroy()


@pytest.fixture
def pair(cluster, make_world):
    """Returns (world, the second node). The world is on the first node, with a trigger, a view and a durable table; the second
    node has other rows in its tables."""
    one, two = cluster.nodes
    world = make_world("small", on=one)
    world.sql("DROP TABLE chat",  # a table without a key could be dumped by one method only
              "CREATE TRIGGER t BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=NEW.v+1",
              "CREATE VIEW best AS SELECT id FROM player WHERE points>100",
              "CREATE TABLE kept (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "INSERT INTO kept VALUES (1,1)")
    there = f"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema='{world.schema}'"
    wait_for(lambda: two.value(there) == 5, "the tables on the second node")
    two.sql("INSERT INTO player (id,nick,points) SELECT seq, CONCAT('second ',seq), 7 FROM seq_1_to_50",
            "INSERT INTO mark VALUES (5,5)", schema=world.schema)
    return world, two


def others(node, world):
    """Returns a snapshot of the node's part of the world."""
    return snapshot(node, world.schema)


def allowed(server):
    server.sql("GRANT SUPER, SET USER ON *.* TO keeper@localhost")  # the definer of the trigger is root


def lease(server, world):
    return server.value("SELECT generation FROM worldkeeper_sentinel_lease", schema=world.schema)


@pytest.mark.parametrize("logged", ["yes", "no"])
def test_all_that_we_do_stays_on_its_node(pair, make_keeper, logged):
    """--init, dumps, a drill, restores over a living and a lost world, and the cleanup after a killed restore leave the second
    node's tables and rows unchanged."""
    world, two = pair
    keeper = make_keeper(world, {"restore": {"binlog": logged, "connections": "3"}})
    allowed(world.server)
    for host in ("localhost", "127.0.0.1"):
        world.server.grant(f"'keeper'@'{host}'", "worldkeeper_drill_w1")
    keeper.ok("--init")
    before = world.snapshot()
    seconds = two.sql("SHOW TABLES", schema=world.schema), others(two, world)
    assert not any("sentinel" == row[0][-8:] for row in seconds[0]), seconds[0]

    def unharmed(what):
        assert two.sql("SHOW TABLES", schema=world.schema) == seconds[0], what
        assert_same(seconds[1], others(two, world), f"the second node {what}")
        scratch = two.sql("SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE '%drill%'")
        assert not scratch, what
    for method in ("copy", "fuzzy"):
        keeper.configure({"dump": {"method": method}})
        assert keeper.dump()["method"] == method
        unharmed(f"after a dump ({method})")
    assert keeper.ok("--drill", "--json")["rows"] > 5000
    unharmed("after a drill")
    world.sql("DELETE FROM player", "DELETE FROM worldkeeper_sentinel")
    keeper.ok("--restore", "--force")
    world.assert_is(before)
    unharmed("after a restore")
    world.sql("DELETE FROM fleet", "DELETE FROM worldkeeper_sentinel")
    for point in ("restore.loaded", "restore.renamed"):
        died = keeper.run("--restore", "--force", fault=point + "=kill")
        assert died.rc < 0, died
        unharmed(f"after one that was killed ({point})")
    keeper.run("--restore", "--force")
    world.assert_is(before)
    unharmed("after the tidying")


def test_durable_tables_are_the_clusters(pair, make_keeper):
    """With scope = all no durable table is restored, because the nodes would differ; the plan and --check say so."""
    world, two = pair
    keeper = make_keeper(world, {"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    allowed(world.server)
    keeper.ok("--init")
    keeper.dump()
    world.sql("UPDATE kept SET v=2")
    for action in (["--restore", "--dry-run"], ["--restore"]):
        plan = keeper.ok(*action, "--force", "--json")["plan"]
        (why,) = [t["why"] for t in plan if t["table"] == "kept"]
        assert "cluster" in why, plan
    for node in (world.server, two):
        wait_for(lambda: node.value("SELECT v FROM kept", schema=world.schema) == 2, "the row on both")
    assert any(c["name"] == "galera" and c["level"] == "warn" and "scope" in c["text"]
               for c in keeper.run("--check", "--json").result["checks"])


def test_without_the_privilege_nothing_is_done(pair, make_keeper):
    """Without SUPER, dumps work. Actions that would reach the other node are refused with the GRANT, and --check prints it
    too."""
    world, two = pair
    keeper = make_keeper(world)
    allowed(world.server)
    keeper.ok("--init")
    assert "SUPER" not in "".join(line for line in keeper.run("--check").out.splitlines() if "REVOKE" in line)
    world.server.sql("REVOKE SUPER ON *.* FROM keeper@localhost")
    keeper.dump()
    tables, seconds, first = two.sql("SHOW TABLES", schema=world.schema), others(two, world), world.snapshot()
    for action in (["--init"], ["--drill"], ["--restore", "--force"], ["--restore", "--dry-run"],
                   ["--restore", "--into", "worldkeeper_elsewhere"]):
        done = keeper.run(*action)
        assert done.rc == REFUSED and "GRANT SUPER ON *.* TO" in done.err and "n1" in done.err, done
    assert two.sql("SHOW TABLES", schema=world.schema) == tables
    assert_same(seconds, others(two, world), "the second node")
    world.assert_is(first)
    checked = keeper.run("--check")
    assert checked.rc == FAILED and "GRANT SUPER ON *.* TO `keeper`@`localhost`;" in checked.out, checked


def test_two_restores_at_once_on_two_nodes(pair, make_keeper):
    """GET_LOCK is local to each node. The generation in the replicated lease table stops one of two simultaneous restores."""
    world, two = pair
    here = make_keeper(world, name="here")
    there_world = type(world).__new__(type(world))
    there_world.server, there_world.schema = two, world.schema
    there = make_keeper(there_world, name="there", account=False)
    allowed(world.server)
    for keeper in (here, there):
        keeper.ok("--init")
        keeper.dump()

    def leases(n):
        """Waits until both nodes have the lease with this generation."""
        wait_for(lambda: lease(world.server, world) == lease(two, world) == n, f"lease {n} on both nodes")
    leases(1)
    left = world.snapshot()
    restoring = here.popen("--restore", "--force", fault="restore.conflict_saved=stop")
    wait_for(lambda: any(stopped(pid) for pid in session_pids(restoring)), "the restore to stop before its swap")
    there.ok("--restore", "--force")
    for pid in session_pids(restoring):
        os.kill(pid, signal.SIGCONT)
    done = here.finish(restoring)
    assert done.rc in (HELD, REFUSED) and "generation" in done.err, done
    world.assert_is(left)
    leases(2)
    here.ok("--restore", "--force")
    leases(3)


def test_a_lost_answer(pair, make_keeper):
    """The connection that continues after an unanswered swap also keeps its changes on its node."""
    world, two = pair
    world.sql("DROP TRIGGER t")  # the trigger would be moved by its own statement
    keeper = make_keeper(world, {"journal": {"mode": "off"}})
    allowed(world.server)
    keeper.ok("--init")
    keeper.dump()
    # Short, because a node that is silent for too long is evicted from the cluster.
    keeper.configure({"mysql": {"connect_timeout": "5s", "read_timeout": "5s"}, "dump": {"stall": "5s"},
                      "restore": {"stall": "5s", "lock_wait": "50s"}})
    before, seconds = world.snapshot(), others(two, world)
    restoring = keeper.popen("--restore", "--force", fault="restore.before_rename=stop")
    wait_for(lambda: any(stopped(pid) for pid in session_pids(restoring)), "the restore to stop before its swap")
    said = "SHOW GLOBAL STATUS LIKE 'wsrep_replicated'"
    replicated = world.server.sql(said)
    world.server.sigstop()
    for pid in session_pids(restoring):
        os.kill(pid, signal.SIGCONT)
    for line in restoring.stderr:
        if "the server did not answer the swap" in line:
            break
    world.server.sigcont()
    done = keeper.finish(restoring)
    assert done.rc == DONE, done
    assert world.server.sql(said) == replicated
    world.assert_is(before)
    assert_same(seconds, others(two, world), "the second node")


def stopped(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "T"


def test_a_node_outside_the_primary_component(base, make_world, make_keeper):
    """A node outside the primary component answers 1047. It is never judged empty, and nothing is restored on it. When it is
    primary again, the loss is repaired."""
    cluster = Cluster(base, 2, *LOG, "--wsrep-dirty-reads=ON", patience=5)
    one, two = cluster.nodes
    try:
        cluster.bootstrap()
        keeper = make_keeper(make_world(on=one))
        allowed(one)
        keeper.ok("--init")
        before = keeper.world.snapshot()
        keeper.dump()
        one.kill9()
        cluster.bootstrap()
        cluster.join()
        two.kill9()

        def alone():
            try:
                one.sql("SET wsrep_dirty_reads=OFF", "DO 1")
            except Exception as e:
                return e.args[0] == 1047
        wait_for(alone, "the node to be outside")
        keeper.start(state=None)
        keeper.wait_verdict("STALLED")
        keeper.probes_pass("S", 5)
        assert keeper.status()["last_restore"] is None, keeper.status()
        assert keeper.flag() != "UP" and "primary component" in keeper.log(), keeper.log()
        for action in ("--restore", "--drill"):
            done = keeper.run(action)
            assert done.rc == REFUSED and "primary component" in done.err, done
        checked = keeper.run("--check")
        assert checked.rc == FAILED and "not in the cluster's primary component" in checked.out, checked
        admin = one.admin(init_command=None, autocommit=None)
        with admin, admin.cursor() as cur:
            cur.execute("SET GLOBAL wsrep_provider_options='pc.bootstrap=YES'")
        keeper.wait_state("UP")
        keeper.world.assert_is(before)
        keeper.ok("--status")
    finally:
        cluster.destroy()
