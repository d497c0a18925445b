"""Invariants after any crash: the world is that of a dump, the newest intact dump still exists, and nothing is half done."""
import contextlib
import os
import signal

from .util import session_pids

DUMP_POINTS = ["dump.chosen", "dump.part_opened", "dump.listed", "dump.locked", "dump.table_read",
               "dump.streamed", "dump.post_checked", "dump.synced", "dump.verified", "dump.renamed",
               "dump.dir_synced", "dump.manifest_written", "dump.retained"]
RESTORE_POINTS = ["restore.leased", "restore.chosen", "restore.shadows_created", "restore.loaded",
                  "restore.checked", "restore.conflict_saved", "restore.before_rename",
                  "restore.renamed", "restore.conflict_whole", "restore.sentinel_known",
                  "restore.table_dropped", "restore.dropped", "restore.named", "restore.done"]
OFFSITE_POINTS = ["offsite.chosen", "offsite.sent", "offsite.file_stored", "offsite.manifest_sent"]
PROMOTE_POINTS = ["promote.fetched", "promote.asks", "promote.recorded", "restore.renamed", "promote.swapped"]
DEMOTE_POINTS = ["demote.stepped_back", "aside.locked", "aside.saved", "aside.renamed"]
SWAPPED = RESTORE_POINTS[RESTORE_POINTS.index("restore.renamed"):]


class Story:
    """A world with two marked states: 1 is in a dump, 2 is the present world when the fault occurs."""

    def __init__(self, keeper):
        self.keeper, self.world = keeper, keeper.world
        self.states = {1: self.world.checksums()}
        self.first = keeper.dump()["name"]

    def change(self):
        self.world.mark(2)
        self.states[2] = self.world.checksums()
        return self

    def full(self):
        """Returns {table: rows} of the first state, the minimum of a complete world."""
        return {table: rows for table, (rows, _) in self.states[1].items()}

    def newest_is_kept(self):
        """Asserts that the first dump is intact, and any other that counts. Returns the mark of the newest one before any
        restore (a restored world is dumped under a new generation)."""
        dumps = self.keeper.dumps()
        verified = self.keeper.ok("--verify", "--json")["dumps"]
        assert {m["name"] for m in dumps} <= {d["name"] for d in verified if d["whole"]}, verified
        first = next(m for m in dumps if m["name"] == self.first)
        newest = [m for m in dumps if m["generation"] == first["generation"]][0]
        return 1 if newest["name"] == self.first else 2

    def world_equals_a_dump(self, newest):
        """Asserts that the world's rows are exactly those of the newest intact dump."""
        rows = self.world.checksums()
        assert rows == self.states[newest], f"wanted mark {newest}, got {rows}"


def stopped(keeper):
    """Returns the pids of the keeper's processes that a fault point has stopped."""
    found = []
    for pid in session_pids(*keeper.old_sessions):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] == "T":
                    found.append(pid)
        except OSError:
            pass
    return found


def wait_stopped(keeper, what):
    return keeper.wait(lambda: stopped(keeper), f"a worker to stop at {what}")


def to_all(keeper, sign):
    """Signals all processes of the keeper, the supervisor first, so that it starts no new worker. One may end meanwhile."""
    for pid in [keeper.process.pid, *keeper.pids()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)


def go_on(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

