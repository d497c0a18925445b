"""A Galera cluster: private MariaDB servers on loopback that replicate to each other."""
import contextlib
import os
import tempfile

import machine
import pymysql

from .server import Server
from .util import free_port, tail, wait_for

# The script with which the server gives a joining node another one's data. Our nodes start with equal data, so it only tells the
# position in the cluster's history. A returning node must find all that it missed in another node's cache, which holds more than
# any test writes; otherwise it would lack rows.
TRANSFER = """#!/bin/sh
while [ $# -gt 1 ]; do
    case $1 in
    --gtid) gtid=$2 ;;
    --address) address=$2 ;;
    esac
    shift
done
mariadb --no-defaults --socket="$(cat "{dir}/${{address##*:}}")" --user=root \\
    --execute="SET wsrep_on=OFF; SET GLOBAL wsrep_start_position='$gtid'" && echo "done $gtid"
"""


def state(node):
    """Returns the node's cluster state. A joining node ends its sessions, and then nothing is returned."""
    try:
        said = dict(node.sql("SHOW STATUS LIKE 'wsrep%'"))
    except pymysql.err.OperationalError as e:
        return "", str(e), ""
    return said["wsrep_cluster_status"], said["wsrep_cluster_size"], said["wsrep_ready"]


def wait_ready(node):
    """Waits until the node accepts statements; before that it refuses them with 1047."""
    wait_for(lambda: state(node)[::2] == ("Primary", "ON"),
             lambda: f"the node to be ready, {state(node)}; {tail(node.error_log, 20)}")


class Cluster:
    """A cluster whose `nodes` are Servers with the same options. A node that is silent for `patience` seconds is excluded."""

    def __init__(self, base, count, *options, patience=30):
        directory = tempfile.mkdtemp(dir=base, prefix="galera")
        groups = [(free_port(), free_port()) for _ in range(count)]
        self.members = "gcomm://" + ",".join(f"127.0.0.1:{group}" for group, _ in groups)
        self.nodes = [Server(
            base, f"--server-id={number}", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON",
            # With this plugin (MariaDB 11.8) wsrep_provider_options, which tests use to cut off a node, cannot be set.
            f"--wsrep-provider={machine.GALERA}", "--loose-plugin-wsrep-provider=OFF",
            "--wsrep-cluster-name=worldkeeper", f"--wsrep-node-name=n{number}",
            "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=mysqldump",
            "--wsrep-provider-options=" + ";".join([
                f"gmcast.listen_addr=tcp://127.0.0.1:{group}", f"base_port={group}",
                f"ist.recv_addr=127.0.0.1:{transfer}", f"ist.recv_bind=127.0.0.1:{transfer}",
                "gcache.size=64M", "pc.recovery=false",
                f"evs.suspect_timeout=PT{patience}S", f"evs.inactive_timeout=PT{3 * patience}S"]), *options)
            for number, (group, transfer) in enumerate(groups, 1)]
        os.chmod(directory, 0o755)
        script = os.path.join(directory, "wsrep_sst_mysqldump")
        with open(script, "w") as f:
            f.write(TRANSFER.format(dir=directory))
        os.chmod(script, 0o755)
        for node in self.nodes:
            node.wrapper = ["env", f"PATH={directory}:{os.environ['PATH']}"]
            node.options.append(f"--wsrep-sst-receive-address=127.0.0.1:{node.port}")
            with open(os.path.join(directory, str(node.port)), "w") as f:
                f.write(node.socket)

    def start(self):
        self.bootstrap()
        return self.join()

    def bootstrap(self):
        """Starts the first node alone as the whole cluster."""
        first = self.nodes[0]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(first.datadir, "grastate.dat"))  # this file forbids it after a crash
        first.start("--wsrep-cluster-address=gcomm://")
        wait_ready(first)

    def join(self):
        """Starts the other nodes."""
        for node in self.nodes[1:]:
            node.start("--wsrep-cluster-address=" + self.members)
        wait_for(lambda: state(self.nodes[0]) == ("Primary", str(len(self.nodes)), "ON"), "one cluster")
        for node in self.nodes[1:]:  # a node that joined by TRANSFER does not know the number of nodes
            wait_ready(node)
        return self

    def destroy(self):
        for node in self.nodes:
            node.destroy()
