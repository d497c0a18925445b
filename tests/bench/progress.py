"""The cost of the central store's routines for players' progress, beside the bare statements that they replace."""
import json
import os
import statistics
import subprocess
import sys

import machine
from wk.central import Central
from wk.cluster import Cluster
from wk.server import MYSQL, Server

BARE = ("CREATE TABLE bare (blob_key VARBINARY(64) PRIMARY KEY, lock_key VARBINARY(64) NOT NULL DEFAULT '', lock_seq BIGINT "
        "UNSIGNED NOT NULL DEFAULT 0, seq BIGINT UNSIGNED NOT NULL, saved_at DATETIME(3) NULL, `blob` LONGBLOB NOT NULL, "
        "KEY (lock_key, lock_seq)) ENGINE=InnoDB")


def run(tool, server, *args):
    done = subprocess.run([tool, server.socket, "central", *map(str, args)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"bench: progress {args}: status {done.returncode}")
    return json.loads(done.stdout)


def central(server, blobs):
    made = Central(server)
    made.sql(BARE, "INSERT INTO bare (blob_key, seq, `blob`) VALUES ('b',0,'')",
             "CALL wk_acquire('p','bench',NULL)", "CALL wk_save('b','p','bench',1,0,'')",
             f"INSERT INTO wk_lock (lock_key, lock_seq, lock_id, locked_at) SELECT CONCAT('p',seq), 1, 'bench', UTC_TIMESTAMP(3) "
             f"FROM seq_0_to_{blobs - 1}")
    return made


def figures(tool, server, saves, blobs, size, waiters):
    """Returns {figure: {...}}; each with the `ratio` that has a goal."""
    made, out = central(server, blobs), {}
    out["save"] = run(tool, server, "saves", saves, size)
    out["save"]["ratio"] = out["save"]["save_us"]["median"] / out["save"]["bare_us"]["median"]
    sent = out["write_back"] = run(tool, server, "sends", blobs, size)
    middle = {name: statistics.median(values) for name, values in list(sent.items())}
    sent["ratio"], sent["faster_than_calls"] = (middle["send_ms"] / middle["bare_ms"], middle["each_ms"] / middle["send_ms"])
    out["waiters"] = run(tool, server, "waiters", waiters, 10)
    out["waiters"]["ratio"] = out["waiters"]["longest_ms"] / out["waiters"]["fair_ms"]
    made.close()
    return out


def measure(tools, base, saves=2000, blobs=10_000, size=10_000, waiters=1000):
    """Returns the figures of one server, and under "galera" those of a cluster of three through one of its nodes."""
    tool, options = os.path.join(tools, "progress"), [
        "--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=1", "--max-connections=1200",
        "--innodb-redo-log-capacity=1G" if MYSQL else "--innodb-log-file-size=512M", "--max-allowed-packet=64M"]
    server = Server(base, *options).start()
    try:
        out = figures(tool, server, saves, blobs, size, waiters)
    finally:
        server.destroy()
    if MYSQL or not machine.replicates(base):
        return out
    cluster = Cluster(base, 3, *options)
    try:
        out["galera"] = figures(tool, cluster.start().nodes[0], saves, blobs, size, waiters)
    finally:
        cluster.destroy()
    return out


def show(out, where=""):
    late = out["waiters"]["without_turn"]
    waited = (f"{late} had no turn within {out['waiters']['ratio']:.1f} x the fair share" if late else
              f"the last one's turn after {out['waiters']['ratio']:.2f} x the fair share")
    print(f"{where}a save: {out['save']['ratio']:.2f} x a bare UPDATE (goal 1.3)\n"
          f"{where}blobs sent at once: {out['write_back']['ratio']:.2f} x a bare INSERT (goal 1.5), "
          f"{out['write_back']['faster_than_calls']:.1f} x as fast as a call each (goal 5)\n"
          f"{where}waiters: {waited} (goal 2), {out['waiters']['queries_per_second']:.1f} queries a second at most (goal 20)",
          file=sys.stderr)
    if "galera" in out:
        show(out["galera"], "Galera, three nodes: ")
