"""Tests of the network between the program and its server: slow, dripping, cut at any byte, silent."""
import copy
import os

import pytest
from inject import POINTS, SEED, share, spread
from promises import after_a_dump, again, broken_dumps, dumps_again, names, settled, unnamed
from relay import Relay
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, IMPATIENT, USER
from wk.audit import TABLES, AuditedWriters
from wk.segments import Segments
from wk.util import ident, wait_for

FEW = {"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}


@pytest.fixture
def relayed(world, make_keeper):
    """Returns a keeper behind a relay."""
    keeper = make_keeper(world, FEW)
    keeper.relay = Relay(world.server.port)
    keeper.configure(keeper.relay.mysql())
    yield keeper.init()
    keeper.relay.stop()


def cuts(keeper, run):
    """Returns evenly spread byte positions of what run() gets from the server."""
    keeper.relay.passed, keeper.relay.cut_after = 0, None
    run()
    count = POINTS // 2 or 300
    return [keeper.relay.passed * i // count for i in range(count)]


def cut(keeper, after, *args):
    keeper.relay.passed, keeper.relay.cut_after = 0, after
    done = keeper.run(*args)
    keeper.relay.cut_after = None
    settled(keeper)
    return done


def test_cut_in_a_dump(relayed, tally):
    for _ in range(4):
        relayed.dump()
    for after in cuts(relayed, relayed.dump):
        before = names(relayed)
        done = cut(relayed, after, "--dump")
        bad = after_a_dump(relayed, before, done) + dumps_again(relayed)
        tally.point("connection cut in a dump", [f"after {after} bytes: {b}" for b in bad], done.rc != DONE)
    tally.assert_clean()


def lose_rows(world):
    memory = world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND engine='MEMORY'")
    world.sql(*[f"TRUNCATE {row[0]}" for row in memory])


def test_cut_in_a_restore(relayed, tally):
    """A restore of a lost world whose connection is cut leaves the world restored or empty."""
    keeper = relayed
    keeper.configure({"retention": {"keep_last": 1000}})
    first, full = keeper.dump()["name"], keeper.world.checksums()

    def lose():
        lose_rows(keeper.world)

    lose()
    empty = keeper.world.checksums()
    for after in cuts(keeper, lambda: keeper.ok("--restore=" + first)):
        lose()
        done = cut(keeper, after, "--restore=" + first)
        rows = keeper.world.checksums()
        bad = broken_dumps(keeper) + unnamed(done)
        if rows not in (empty, full) or (done.rc == DONE and rows != full):
            bad.append(f"exit status {done.rc}, and the world is {rows}")
        done_again = again(keeper, "--restore=" + first, "--force")
        if done_again.rc != DONE or keeper.world.checksums() != full:
            bad.append(f"said again: {done_again}")
        tally.point("connection cut in a restore", [f"after {after} bytes: {b}" for b in bad], done.rc != DONE)
    tally.assert_clean()


def test_answer_to_the_swap_lost(relayed):
    """If the answer to the swap is lost the restore finds the swap done and is recorded as successful."""
    keeper = relayed
    keeper.dump()
    full = keeper.world.checksums()
    lose_rows(keeper.world)
    keeper.relay.unanswered = b"RENAME TABLE"
    done = keeper.run("--restore")
    keeper.relay.unanswered = None
    assert done.rc == DONE and "the server had completed the swap" in done.err, done
    assert keeper.world.checksums() == full
    settled(keeper)
    assert keeper.run("--dump").rc == DONE
    assert keeper.world.checksums() == full


def test_slow_and_dripping(relayed):
    """A dump through a dripping connection is complete."""
    relayed.relay.piece, relayed.relay.pause = 500, 0.001
    relayed.dump()
    relayed.relay.piece, relayed.relay.pause, relayed.relay.wait = 65536, 0, 0.02
    relayed.dump()
    assert len(names(relayed)) == 2 and not broken_dumps(relayed)


def test_a_line_that_swallows_everything(relayed):
    """A silent connection causes a doubt, never a restore, and the supervisor recovers afterwards."""
    relayed.dump()
    before = relayed.world.checksums()
    relayed.configure(IMPATIENT)
    relayed.start()
    relayed.relay.hole = True
    relayed.wait_verdict("STALLED")
    relayed.wait_state("SUSPECT")
    relayed.relay.hole = False
    relayed.wait_state("UP")
    assert relayed.world.checksums() == before
    assert "restore begins" not in relayed.log()


def test_a_line_that_swallows_a_dump(relayed):
    """A dump that gets no more answers ends by itself with a reason."""
    relayed.dump()
    usual = copy.deepcopy(relayed.settings)
    short = {"stall": "8s"}  # an answer is waited for by the longer of both limits
    relayed.configure({"mysql": {"read_timeout": "4s"}, "dump": short, "restore": short})
    process = relayed.popen("--dump", fault="dump.locked=stop")
    at_work = wait_stopped(relayed, "dump.locked")
    relayed.relay.hole = True
    go_on(at_work)
    done = relayed.finish(process)
    relayed.relay.hole = False
    assert done.rc not in (0, -9) and not unnamed(done), done
    relayed.configure(usual)
    assert not broken_dumps(relayed)
    assert dumps_again(relayed) == []


# -- the follower of the binary log ------------------------------------------------------------

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
START = 3000  # bytes: the log's header and many events
LATE = 1.5  # s: a real delay


@pytest.fixture
def followed(make_server, make_world, make_keeper):
    """Returns a supervisor whose follower reads the log of a world with audited writers through a relay."""
    world = make_world("empty", make_server(*LOG))
    world.sql(*TABLES)
    relay = Relay(world.server.port)
    relay.log_only = True
    keeper = make_keeper(world, {**relay.mysql(), "journal": {"mode": "follow"},
                                 "restore": {"new_server": "yes"}, "probe": {"interval": "100ms"}})
    keeper.configure({"mysql": {"read_timeout": "2s"}})
    keeper.relay, keeper.segments = relay, Segments(keeper)
    keeper.init().dump()
    keeper.start()
    follows(keeper)
    yield keeper
    relay.stop()


def journal(keeper):
    return keeper.status().get("journal") or {}


def behind(keeper):
    """Returns whether the status reports a delay."""
    now = journal(keeper)
    return now.get("state") != "following" or (now["behind_seconds"] or 0) > LATE


def follows(keeper):
    """Waits until the segments have everything that the server has done, and the status says so."""
    keeper.segments.wait_all()
    keeper.wait(lambda: not behind(keeper), "the journal")
    return journal(keeper)


def descriptors(keeper):
    """Returns the number of descriptors of the supervisor and its children together."""
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in keeper.pids())


def cuts_in_the_log(keeper, tally):
    """Ends the follower's connection in the middle of an event, repeatedly."""
    for after in spread(range(1, START), share(16) or 100):
        relay, before = keeper.relay, keeper.relay.log_cuts
        relay.log_cut = 0  # ends the present connection
        keeper.wait(lambda: relay.log_cuts > before, "the cut")
        relay.log_cut = after
        keeper.wait(lambda: relay.log_cuts > before + 1, "the cut of the next one")
        relay.log_cut = None
        bad = [f"a gap: {now}"] if (now := follows(keeper))["gap"] else []
        tally.point("the log's connection is cut", [f"after {after} bytes: {b}" for b in bad])


def drips_in_the_log(keeper, tally):
    """Makes the connection slower than the game writes."""
    keeper.relay.piece, keeper.relay.pause = 64, 0.01
    keeper.wait(lambda: behind(keeper), "the status to tell that it is behind")
    keeper.relay.piece, keeper.relay.pause, keeper.relay.wait = 65536, 0, 0.05
    assert not follows(keeper)["gap"]
    keeper.relay.wait = 0
    tally.point("the log drips, and comes late")


def hole_in_the_log(keeper, tally):
    """Makes the connection silent without ending it."""
    keeper.relay.hole = True
    keeper.wait(lambda: behind(keeper), "the status to tell that it is behind")
    keeper.wait_state("UP")
    keeper.relay.hole = False
    assert not follows(keeper)["gap"]
    tally.point("the log is swallowed")


def on_a_new_server(keeper):
    """Loses the server with its disk; the world must be restored from the segments."""
    server, schema = keeper.server, keeper.world.schema
    server.kill9()
    server.install()
    server.start()
    server.sql(f"CREATE DATABASE {ident(schema)} CHARACTER SET utf8mb4")
    server.account(USER, [schema])
    keeper.wait(lambda: (keeper.status().get("last_restore") or {}).get("ok") and keeper.state() == "UP",
                "the world")


def test_a_bad_line_to_the_log(followed, tally):
    """After the follower's connection was cut, dripping, late or silent the status has reported the delay, the segments have
    all changes once, and no descriptor leaks."""
    keeper = followed
    writers = AuditedWriters(keeper.world, SEED)
    writers.pause = 0.01
    with writers:
        had = descriptors(keeper)
        for fault in (cuts_in_the_log, drips_in_the_log, hole_in_the_log):
            fault(keeper, tally)
        wait_for(lambda: descriptors(keeper) <= had, f"no more than {had} descriptors")
    follows(keeper)
    on_a_new_server(keeper)
    writers.audit()
    tally.assert_clean()
