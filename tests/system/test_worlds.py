"""Tests of many worlds on one server: the order in which they are restored."""
import os
import signal
import subprocess

from wk.follow import LOG
from wk.keeper import BINARY, USER
from wk.util import wait_for


def renamed(server):
    """Returns the logged RENAME statements, in the order of the swaps."""
    found = []
    for (log, *_) in server.sql("SHOW BINARY LOGS"):
        for event in server.sql(f"SHOW BINLOG EVENTS IN '{log}'"):
            text = event[5].decode() if isinstance(event[5], bytes) else event[5]
            if "RENAME TABLE" in text:
                found.append(text)
    return found


def test_the_most_important_world_is_restored_first(make_server, make_world, make_keeper, tmp):
    """Worlds wait for more important ones that hold a restore lock, but not without limit, and never for less important ones.
    Waiting is shown in the status of all worlds."""
    server = make_server(*LOG)
    keepers = {}
    for priority in (4, 1, 3, 5, 7, 9):
        keeper = make_keeper(make_world(on=server), {"restore": {"auto": "no", "priority": priority}}, account=not keepers)
        server.grant(f"'{USER}'@'localhost'", keeper.world.schema)
        keepers[priority] = keeper
        keeper.waits = 60 if priority == 4 else 1
        keeper.init().dump()
        keeper.start(fault="turns=1")
    server.crash()
    holder = server.admin()
    with holder.cursor() as cur:
        cur.execute("SELECT GET_LOCK('worldkeeper.turn.5.0', 0)")
        assert cur.fetchone() == (1,)
    for keeper in keepers.values():
        keeper.configure({"restore": {"auto": "yes"}})
        keeper.process.send_signal(signal.SIGHUP)
    for priority in (9, 7, 4):  # more important than the holder, or has waited long enough
        keepers[priority].wait_state("UP")
    keepers[4].wait_log("the restore waited for other worlds for")
    for priority in (5, 3, 1):
        keeper = keepers[priority]
        wait_for(lambda keeper=keeper: (keeper.status()["running"] or {}).get("phase") == "waiting for other worlds",
                 f"the world of priority {priority} to wait")
    for priority, keeper in keepers.items():
        os.symlink(keeper.config_path, os.path.join(tmp, f"{priority}.ini"))
    said = subprocess.run([BINARY, "--config", tmp, "--status"], capture_output=True, text=True, check=False,
                          env=keepers[1].environment()).stdout
    assert said.count("restore runs: waiting for other worlds") == 3, said
    holder.close()
    for keeper in keepers.values():
        keeper.wait_state("UP")
        assert keeper.world.rows() == 2000
    swaps = renamed(server)
    last = [max(i for i, text in enumerate(swaps) if f"`{keepers[p].world.schema}`" in text) for p in (5, 3, 1)]
    assert last == sorted(last)
