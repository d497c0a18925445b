"""Tests of the central store on a Galera cluster of three nodes: every node can serve, one may be killed or cut off, and
conflicts and lost answers are repeated safely."""
import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest

from wk.central import Central, Client
from wk.cluster import Cluster, state, wait_ready
from wk.torture import Cable, Torture
from wk.util import wait_for

pytestmark = [pytest.mark.only("mariadb", why="Galera"), pytest.mark.needs("galera"), pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(base):
    made = Cluster(base, 3, patience=10)
    try:
        yield made.start()
    finally:
        made.destroy()


@pytest.fixture
def central(cluster):
    made = Central(cluster.nodes[0])
    for node in cluster.nodes[1:]:  # the account is replicated like the routines; wait for both
        node.sql("SET SESSION wsrep_sync_wait=1", "SELECT COUNT(*) FROM mysql.global_priv")
    yield made
    made.close()


@pytest.fixture
def three(cluster, central):
    """Returns a connection to each node."""
    clients = [Client(node, central.schema) for node in cluster.nodes]
    yield clients
    for client in clients:
        client.close()


def patient(call, *args):
    """Repeats a call after 1213 and 1205, as a careful program does."""
    for _ in range(50):
        try:
            return call(*args)
        except pymysql.err.OperationalError as e:
            if e.args[0] not in (1205, 1213):
                raise
    raise AssertionError("conflicts without end")


def test_any_node_knows_what_was_answered_by_another(three):
    """Each node knows at once what another one has answered."""
    for n in range(1, 31):
        one, two, other = (three[(n + i) % 3] for i in range(3))
        seq = one.call("wk_acquire", "p1", "gs-a", 0)[1]
        loaded = two.rows("wk_load", "p1", "gs-a", seq)
        assert loaded[0][0] == ("loaded" if n > 1 else "none"), n
        assert other.call("wk_save", "b1", "p1", "gs-a", seq, 2 * n, b"x") == "saved", n
        assert one.call("wk_save", "b1", "p1", "gs-a", seq, 2 * n, b"x") == "same", n
        outcome, new, *_ = two.call("wk_acquire", "p1", "gs-b", 0)
        assert (outcome, new) == ("taken", seq + 1), n
        assert other.call("wk_save", "b1", "p1", "gs-a", seq, 2 * n + 1, b"late") == "stolen", n
        assert one.rows("wk_load", "p1", "gs-a", seq)[0][0] == "stolen", n
        assert one.rows("wk_load", "p1", "gs-b", new) == (("loaded", b"b1", 2 * n, b"x"),), n
        assert two.call("wk_save", "b1", "p1", "gs-b", new, 2 * n + 1, b"y") == "saved", n
        assert other.call("wk_release", "p1", "gs-b", new) == "released", n
        assert one.call("wk_release", "p1", "gs-b", new) == "free", n


def test_a_binding_counts_on_every_node(central, cluster, three):
    """A binding applies on every node as soon as wk_bind was answered on one of them, and the bound account's own calls still
    succeed."""
    game, seq = three[0], three[0].call("wk_acquire", "p1", "gs-a", None)[1]
    assert game.rows("wk_load", "p1", "gs-a", seq)[0][0] == "none"
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x") == "saved"
    central.server.account("gs_b", [central.schema], "EXECUTE", None)
    for node in cluster.nodes[1:]:
        node.sql("SET SESSION wsrep_sync_wait=1", "SELECT COUNT(*) FROM mysql.global_priv")
    thieves = [Client(node, central.schema, user="gs_b") for node in cluster.nodes]
    for n in range(1, 25):
        binds, thief, one = cluster.nodes[n % 3], thieves[(n + 1) % 3], three[(n + 2) % 3]
        assert binds.sql("CALL wk_bind('gs-a','game','localhost')", schema=central.schema) == (("bound",),)
        for name, *args in (("wk_save", "b1", "p1", "gs-a", seq, 999, b"y"), ("wk_load", "p1", "gs-a", seq),
                            ("wk_acquire", "p1", "gs-a", 0), ("wk_release", "p1", "gs-a", seq), ("wk_send", "gs-a")):
            if name == "wk_send":
                thief.rows("wk_send_open")
                thief.sql(f"INSERT INTO wk_sent VALUES ('b1','p1',{seq},999,'y')")
            with pytest.raises(pymysql.err.MySQLError, match="may not use this lock_id"):
                patient(thief.rows, name, *args)
        assert patient(one.call, "wk_save", "b1", "p1", "gs-a", seq, 2 * n, b"x") == "saved", n
        assert thief.rows("wk_send_open") == ()
        assert cluster.nodes[(n + 1) % 3].sql("CALL wk_unbind('gs-a','game','localhost')", schema=central.schema) == (("unbound",),)
        assert patient(thief.call, "wk_save", "b1", "p1", "gs-a", seq, 2 * n + 1, b"x") == "saved", n
    for thief in thieves:
        thief.close()
    assert wait_same(cluster, central)


def test_a_crowd_over_all_nodes(central, cluster):
    """Under conflicts between nodes every lock number is given out once, and all nodes end with the same rows."""
    got = []

    def play(n):
        client = Client(cluster.nodes[n % 3], central.schema)
        for i in range(15):
            outcome, seq, *_ = patient(client.call, "wk_acquire", "p1", f"gs-{n}", 0)
            got.append((seq, outcome))
            if patient(client.rows, "wk_load", "p1", f"gs-{n}", seq)[0][0] != "stolen":
                patient(client.call, "wk_save", f"b{seq % 7}", "p1", f"gs-{n}", seq, seq, b"x")
        client.close()
    threads = [threading.Thread(target=play, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({seq for seq, _ in got}) == len(got) == 90
    assert wait_same(cluster, central)


def wait_same(cluster, central):
    """Waits until each node has the same rows."""
    query = "SELECT blob_key, lock_seq, seq, `blob` FROM wk_blob ORDER BY blob_key"

    def rows():
        return [node.sql("SET SESSION wsrep_sync_wait=7", query, schema=central.schema) for node in cluster.nodes]
    wait_for(lambda: len(set(rows())) == 1, "the nodes to have the same")
    return True


def test_a_lost_answer_is_repeated_on_another_node(central, cluster):
    seq = Client(cluster.nodes[0], central.schema).call("wk_acquire", "p1", "gs-a", None)[1]
    cable = Cable(cluster.nodes[0].socket)
    for n in range(1, 6):
        cable.deaf = cable.is_cut = False
        client = Client(cluster.nodes[0], central.schema, port=cable.port)
        cable.deaf = True

        def cut_when_there():
            wait_for(lambda: central.blob("b1") and central.blob("b1")[0] == n, "the save to arrive")
            cable.is_cut = True
        cutter = threading.Thread(target=cut_when_there)
        cutter.start()
        with pytest.raises(pymysql.err.MySQLError):
            client.call("wk_save", "b1", "p1", "gs-a", seq, n, b"x%d" % n)
        cutter.join()
        assert Client(cluster.nodes[n % 3], central.schema).call(
            "wk_save", "b1", "p1", "gs-a", seq, n, b"x%d" % n) == "same"
    cable.close()


def recovered(node):
    """Returns the position at which a killed node's data ends, as a distribution's start script asks it."""
    log = os.path.join(node.datadir, "recover.log")
    subprocess.run([*node.command(), "--wsrep-recover", "--log-error=" + log], check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=node.dir)
    with open(log, errors="replace") as f:
        return [line.rsplit("Recovered position:", 1)[1].strip() for line in f if "Recovered position:" in line][-1]


def back(cluster, node):
    """Starts a killed node and waits until it belongs to the cluster again."""
    node.start("--wsrep-start-position=" + recovered(node), "--wsrep-cluster-address=" + cluster.members, wait=False)
    node.wait_ready()
    wait_ready(node)
    wait_for(lambda: state(cluster.nodes[0]) == ("Primary", "3", "ON"), "one cluster")


def test_a_node_is_cut_off(central, cluster, three):
    """A node that is cut off answers nothing and the others continue; after its return it refuses the old holder."""
    one, two, away = three
    seq = away.call("wk_acquire", "p1", "gs-a", None)[1]
    assert away.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x") == "saved"
    inside = cluster.nodes[2].admin().cursor()  # new connections are refused meanwhile
    inside.execute("SET GLOBAL wsrep_provider_options='gmcast.isolate=1'")

    def is_out():
        inside.execute("SHOW STATUS LIKE 'wsrep_cluster_status'")
        return inside.fetchone()[1] == "non-Primary" and state(cluster.nodes[0]) == ("Primary", "2", "ON")
    try:
        wait_for(is_out, "the node to be out")
        for name, args in (("wk_save", ("b1", "p1", "gs-a", seq, 2, b"late")), ("wk_load", ("p1", "gs-a", seq)),
                           ("wk_acquire", ("p1", "gs-a", None)), ("wk_release", ("p1", "gs-a", seq))):
            with pytest.raises(pymysql.err.MySQLError) as raised:
                away.rows(name, *args)
            assert raised.value.args[0] == 1047, name
        outcome, new, *_ = patient(one.call, "wk_acquire", "p1", "gs-b", 0)
        assert outcome == "taken"
        assert two.rows("wk_load", "p1", "gs-b", new) == (("loaded", b"b1", 1, b"x"),)
        assert two.call("wk_save", "b1", "p1", "gs-b", new, 2, b"newer") == "saved"
    finally:
        inside.execute("SET GLOBAL wsrep_provider_options='gmcast.isolate=0'")

    def is_back():
        inside.execute("SHOW STATUS LIKE 'wsrep_ready'")
        return inside.fetchone()[1] == "ON" and state(cluster.nodes[0]) == ("Primary", "3", "ON")
    wait_for(is_back, "the node to be back")
    assert away.call("wk_save", "b1", "p1", "gs-a", seq, 3, b"late") == "stolen"
    assert away.rows("wk_load", "p1", "gs-b", new) == (("loaded", b"b1", 2, b"newer"),)


def test_a_node_is_killed_and_comes_back(central, cluster):
    """While a node is killed saves continue through the others, no acknowledged save is lost, and the node gets all of them
    when it returns."""
    node, done, said, lost = cluster.nodes[2], threading.Event(), [], []
    seq = Client(cluster.nodes[0], central.schema).call("wk_acquire", "p1", "gs-a", None)[1]

    def save():
        n, client = 0, None
        while not done.is_set():
            n += 1
            while not done.is_set():  # until any node answers
                try:
                    client = client or Client(cluster.nodes[(n + 2) % 3], central.schema, read_timeout=60)
                    outcome = client.call("wk_save", "b1", "p1", "gs-a", seq, n, b"x%d" % n)
                    assert outcome in ("saved", "same"), outcome
                    said.append(n)
                    break
                except pymysql.err.MySQLError as e:
                    lost.append(e.args[0])
                    if e.args[0] not in (1205, 1213):
                        client, n_other = None, n
                        try:
                            client = Client(cluster.nodes[n_other % 2], central.schema, read_timeout=60)
                        except pymysql.err.MySQLError:
                            time.sleep(0.1)
    saver = threading.Thread(target=save)
    saver.start()
    wait_for(lambda: len(said) > 20, "some saves")
    node.kill9()
    wait_for(lambda: state(cluster.nodes[0]) == ("Primary", "2", "ON"), "the cluster without it")
    count = len(said)
    wait_for(lambda: len(said) > count + 20, "more saves")
    back(cluster, node)
    done.set()
    saver.join()
    client = Client(node, central.schema)
    ((outcome, key, number, blob),) = client.rows("wk_load", "p1", "gs-a", seq)
    assert number >= said[-1] and blob == b"x%d" % number, (number, said[-1])
    assert wait_same(cluster, central)


def test_torture_over_three_nodes(cluster, central, tmp):
    """Runs the torture test while a node is killed and returns, with each game server bound to its account."""
    for n in range(5):
        central.bind(f"gs-{n}", "game", "%")
    torture = Torture(central, tmp, str(time.time_ns()), endpoints=[n.socket for n in cluster.nodes])
    node, there = cluster.nodes[1], threading.Event()
    with ThreadPoolExecutor(1) as pool:  # the node ends with the thread that starts it, so the main thread starts it
        run = pool.submit(torture.run, 6, until=there.is_set)
        try:
            wait_for(lambda: torture.lines() > 100, "some history")
            node.kill9()
            wait_for(lambda: state(cluster.nodes[0]) == ("Primary", "2", "ON"), "the cluster without it")
            count = torture.lines()
            wait_for(lambda: torture.lines() > count + 100, "more history, without it")
            back(cluster, node)
        finally:
            there.set()
        check = run.result().check()
    assert not check.wrong, (len(check.wrong), check.wrong[:8])
    assert check.counts["saves"] > 20 and wait_same(cluster, central)
