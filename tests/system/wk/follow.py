"""A keeper that follows the journal, as other programs see it, and losses of its world."""

import contextlib
import json
import os
import signal

from .binlog import place
from .keeper import USER
from .util import ident, wait_for

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
ONE_DUMP = {"retention": {"keep_last": 1, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}


def journal(keeper):
    return keeper.status().get("journal") or {}


def live(keeper):
    """Returns the journal's figures without waiting for the next status.json; {} if they are unknown."""
    said = keeper.run("--status", "--json").out
    return (json.loads(said).get("journal") if said else None) or {}


def following(keeper):
    """Waits until the journal is written without a gap. The status may be older than the last gap: after a RESET its position
    is beyond the end of the present log."""
    def now():
        told = journal(keeper)
        if told.get("state") != "following" or told["gap"]:
            return None
        return told if (told["file"], told["pos"]) <= place(keeper.server) else None
    return keeper.wait(now, lambda: f"the journal, not {journal(keeper)}")


def dump_and_follow(keeper):
    """Makes a dump, starts a supervisor, and waits for its journal after that dump."""
    keeper.dump()
    keeper.start()
    following(keeper)


def follower(keeper):
    """Returns the pid of the process that writes the segments, or None."""
    return keeper.worker("journal")


def kill_follower(keeper, *signs):
    """Waits for a follower and sends it SIGKILL, or these signals in order. Returns its pid. It may end by itself meanwhile."""
    pid = keeper.wait(lambda: follower(keeper), "a follower")
    for sign in signs or (signal.SIGKILL,):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
    return pid


def another_follower(keeper):
    """Kills the follower and waits for the next one."""
    pid = kill_follower(keeper)
    keeper.wait(lambda: follower(keeper) not in (None, pid), "another follower")


def another_server(keeper):
    """Loses the server's disk and sets up another server in its place."""
    server, schema = keeper.server, keeper.world.schema
    if server.process:
        server.kill9()
    server.install()
    server.start()
    server.sql(f"CREATE DATABASE {ident(schema)} CHARACTER SET utf8mb4")
    server.account(USER, [schema])


def restored(keeper, before):
    """Waits for the restore that follows `before` in status.json, and for the world."""
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("at") not in
                (None, (before or {}).get("at")) and keeper.state() == "UP", "the world again")
    return keeper.status()["last_restore"]


def lose_disk(keeper):
    """Returns what was reported of the restore on the new server."""
    before = keeper.status().get("last_restore")
    another_server(keeper)
    return restored(keeper, before)


def all_comes_back(keeper):
    """Loses the server's disk, asserts that the world is restored as it was, and returns what was reported of the restore."""
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    told = lose_disk(keeper)
    keeper.world.assert_is(before)
    return told


def crash(keeper):
    """Crashes the server only, waits for the restore, and returns what was reported of it."""
    before = keeper.status().get("last_restore")
    keeper.server.crash()
    return restored(keeper, before)


def reload(keeper, settings):
    pid = follower(keeper)
    keeper.reload(settings)
    keeper.wait(lambda: follower(keeper) not in (None, pid), "the follower by the new config")


def purge(server):
    """Purges the old binary logs."""
    server.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    newest = server.sql("SHOW BINARY LOGS")[-1][0]
    wait_for(lambda: server.sql(f"PURGE BINARY LOGS TO '{newest}'", "SHOW BINARY LOGS")[0][0] == newest,
             "the end of the old logs")


def clock(server):
    """Returns the server's current second after it has ended, so that later changes have another one."""
    now = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')")
    wait_for(lambda: server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')") != now,
             "the next second")
    return now
