"""Tests of automatic restores, worldkeeper's main purpose."""
import gzip
import os
import signal
import time

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.follow import crash
from wk.keeper import DONE, FAILED, of_world
from wk.util import wait_for
from wk.watch import Game, Watcher

pytestmark = pytest.mark.either_server


@pytest.fixture
def kept(doomed, http):
    """Returns a supervised small world with one dump and a webhook."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.before = doomed.world.snapshot()
    doomed.http = http
    return doomed.start()


@pytest.mark.quick
def test_a_killed_server_gets_its_world_back(kept, victim):
    """After a kill and a start of the server the flag is UP, WAITING, RESTORING, UP, and every row is restored."""
    with Watcher(kept) as watcher:
        wait_for(lambda: "UP" in watcher.flags, "the flag UP")
        victim.kill9()
        watcher.killed()
        kept.wait(lambda: kept.flag() == "WAITING", "the flag WAITING")
        victim.start()
        kept.wait_state("UP")
        wait_for(lambda: watcher.flags[-1] == "UP", "the flag UP again")
    watcher.assert_clean()
    kept.world.assert_is(kept.before)
    words = [w for w in watcher.flags if not w.startswith("RESTORING")]
    assert words[0] == "UP" and words[-1] == "UP" and set(words) == {"UP", "WAITING"}
    restore = kept.expect("the restore", last_restore=bool, state="UP")["last_restore"]
    assert restore["ok"] is True and restore["rows"] == of_world(kept.newest())[0]
    assert restore["outage_seconds"] >= 0


def test_the_alerts_of_a_loss_come_in_order(kept, victim):
    """Alerts arrive in order: down, restoring, restored with dump, rows, seconds and what was lost."""
    dump = kept.newest()
    victim.kill9()
    kept.http.wait_event("down")
    victim.start()
    message = kept.http.wait_event("restored")[-1]
    events = [e for e in kept.http.events() if e in ("down", "restoring", "restored")]
    assert events.index("down") < events.index("restoring") < events.index("restored")
    facts = message["facts"]
    assert dump["name"] in message["what"] and facts["dump"] == dump["name"]
    assert facts["rows"] == of_world(dump)[0] and facts["seconds"] >= 0
    assert facts["lost_seconds"] is None and facts["lost_seconds_max"] >= 0
    assert message["world"] == "w1" and message["host"] and message["doing"] and message["todo"]


def test_a_clean_restart_is_a_loss_as_well(kept, victim):
    """A clean restart, as for a package upgrade, empties the world too and is followed by a restore."""
    victim.stop()
    kept.wait_state("WAITING")
    victim.start()
    kept.wait_state("UP")
    kept.world.assert_is(kept.before)


def test_a_loss_while_no_supervisor_ran(kept, victim):
    """A supervisor recognizes from its saved state a loss that happened while none was running."""
    assert kept.stop() == 0
    victim.crash()
    kept.start()
    kept.world.assert_is(kept.before)


def test_a_loss_while_the_supervisor_was_killed(kept, victim):
    """A loss after kill -9 of the supervisor is recognized as well."""
    kept.kill9()
    victim.crash()
    kept.start()
    kept.world.assert_is(kept.before)


def test_losses_in_a_row(kept, victim):
    """Each further crash is followed by a restore, and the generation grows each time."""
    generations = []
    for _ in range(3):
        crash(kept)
        generations.append(kept.status()["generation"])
    assert generations == sorted(set(generations))
    kept.world.assert_is(kept.before)


def test_a_dump_follows_by_interval_after_a_restore(kept, victim):
    """The restored world is dumped again at its interval, with the new generation."""
    kept.configure({"dump": {"interval": "3s"}})
    kept.process.send_signal(signal.SIGHUP)
    kept.wait(lambda: len(kept.dumps()) >= 2, "a dump by interval")
    before = kept.newest()
    victim.crash()
    kept.wait(lambda: kept.newest()["generation"] > before["generation"], "a dump after the restore")
    kept.wait_state("UP")
    kept.world.assert_is(kept.before)


@pytest.mark.slow
def test_a_restore_that_stood_still_with_its_machine(doomed, victim):
    """A restore does not count as stalled because its machine was suspended for longer than [restore] stall."""
    doomed.configure({"restore": {"stall": "15s"}})
    doomed.dump()
    newest = doomed.dump()["name"]
    before = doomed.world.snapshot()
    doomed.start(fault="restore.shadows_created#1=stop")
    victim.crash()
    wait_stopped(doomed, "restore.shadows_created=stop")
    with doomed.standing_still():
        time.sleep(16)
    doomed.wait(lambda: doomed.status()["last_restore"], "a restore")
    doomed.wait_state("UP")
    assert doomed.status()["last_restore"]["dump"] == newest
    assert "this process stood still for" in doomed.log() and "no progress" not in doomed.log()
    doomed.world.assert_is(before)


def test_no_restore_where_the_config_says_no(kept, victim):
    """With restore.auto = no a loss is reported and not restored until --restore is run."""
    kept.configure({"restore": {"auto": "no"}})
    kept.stop()
    kept.start()
    victim.crash()
    kept.wait_state("WAITING", "LOST")
    kept.http.wait_event("waiting", "down")
    kept.probes_pass("E", 5)
    assert kept.world.rows() == 0 and kept.flag() == "WAITING"
    kept.ok("--restore")
    kept.wait_state("UP")
    kept.world.assert_is(kept.before)


def test_without_any_dump_it_waits_and_says_so(doomed, victim, http):
    """A world that is lost before its first dump is WAITING, with an alert."""
    doomed.configure({**http.settings(), "alert": {"events": "waiting"}})
    doomed.start(fault="dump.part_opened=kill")  # each dump fails
    victim.crash()
    doomed.wait_state("WAITING")
    http.wait_event("waiting")
    doomed.wait(lambda: doomed.flag() == "WAITING", "the flag WAITING")


def test_on_a_full_disk(make_world, make_keeper, victim, small_disk):
    """With a full dump directory the world is still restored, twice in a row."""
    path, seen, prefix = small_disk
    keeper = make_keeper(make_world("small", victim), {"dump": {"dir": path}})
    keeper.dumps_dir, keeper.prefix = seen, prefix
    keeper.init()
    keeper.dump()
    before = keeper.world.snapshot()
    keeper.start()
    with open(os.path.join(seen, "filler"), "wb", buffering=0) as f, pytest.raises(OSError):
        while True:
            f.write(b"x" * 4096)
    for generation in (2, 3):
        victim.crash()
        keeper.wait(lambda n=generation: keeper.status()["generation"] == n and keeper.flag() == "UP", "the world to be back")
        keeper.world.assert_is(before)


def test_a_world_that_has_no_tables_yet(doomed, victim):
    """A dump of a world without game tables can be restored after a restart, and tables that the game made since stay."""
    for (table,) in doomed.world.sql("SHOW TABLES LIKE '%'"):
        if not table.startswith("worldkeeper"):
            doomed.world.sql(f"DROP TABLE {table}")
    doomed.dump()
    doomed.ok("--restore", "--dry-run", "--force")
    victim.crash()
    doomed.world.sql("CREATE TABLE first (i INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO first VALUES (1)")
    doomed.start()
    assert doomed.world.rows("first") == 1
    assert doomed.dump()["tables"] == 1


def test_rows_written_before_the_restore_are_saved(kept, victim):
    """Rows that a game writes before the restore are saved to the conflict file, which status and alert name."""
    kept.stop()
    victim.crash()
    kept.world.sql("INSERT INTO chat VALUES (1,'written too early')")
    kept.start()
    kept.world.assert_is(kept.before)
    (path,) = kept.conflicts()
    with gzip.open(path) as f:
        assert b"written too early" in f.read()
    assert kept.status()["last_restore"]["conflict_rows"] == 1
    told = kept.http.wait_event("restored")[-1]
    assert "BACK, " in told["headline"] and "1 row written" in told["headline"], told
    assert told["headline"].endswith(f"is in {os.path.basename(path)}") and os.path.basename(path) in told["what"], told
    told = told["todo"]
    assert f"--conflicts={path} --apply" in told


def test_what_is_told_of_a_restore_outlives_the_supervisor(kept, victim):
    """The next supervisor reports the same last restore, with the conflict file's name."""
    kept.stop()
    victim.crash()
    kept.world.sql("INSERT INTO chat VALUES (1,'written too early')")
    kept.start()
    (path,) = kept.conflicts()
    told = kept.status()["last_restore"]
    assert told["conflict_file"] == path
    kept.stop()
    kept.start()
    assert kept.status()["last_restore"] == told


@pytest.mark.parametrize("point", ["restore.renamed", "restore.done"])
def test_what_is_told_of_a_restore_that_nobody_finished(kept, victim, point):
    """If the restore's worker dies after the swap, the status reports this restore, not the one before, and only what is known
    of it."""
    victim.crash()
    kept.wait_state("UP")
    kept.wait(lambda: kept.status()["last_restore"], "what is told of the first restore")
    kept.stop()
    kept.start(fault=f"{point}=kill,waits=10")
    first = kept.status()["last_restore"]
    victim.crash()
    kept.wait(lambda: kept.status()["last_restore"] != first and kept.state() == "UP", "what is told of the second")
    told = kept.status()["last_restore"]
    assert told["at"] > first["at"] and told["ok"] and told["lost_seconds"] is None, told
    kept.world.assert_is(kept.before)
    kept.stop()
    victim.crash()
    kept.ok("--restore")
    kept.start()
    assert kept.status()["last_restore"]["at"] > told["at"]


def test_a_supervisor_that_ends_before_it_saw_the_restored_world(doomed, victim):
    """If the restore's worker dies after its end and the supervisor saved the old world once more, the next supervisor still
    knows the new world."""
    doomed.configure({"probe": {"timeout": "30m"}})
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start(fault="restore.before_rename=stop,restore.done=stop")
    victim.crash()
    worker = wait_stopped(doomed, "before_rename")
    probe = doomed.wait(lambda: doomed.worker("probe"), "the probe")
    os.kill(probe, signal.SIGSTOP)
    go_on(worker)
    doomed.wait(lambda: not os.path.exists(os.path.join(doomed.dumps_dir, "pending.json")) and
                set(worker) & set(stopped(doomed)), "the end of the restore")
    os.kill(worker[0], signal.SIGKILL)
    doomed.wait_log("worker of the restore died")
    doomed.stop()
    doomed.start()
    doomed.world.assert_is(before)


def test_a_game_that_never_stops_writing(kept, victim):
    """With a game that writes all the time each row is in the world or in the conflict file."""
    kept.world.sql("CREATE TABLE acks (n INT PRIMARY KEY) ENGINE=InnoDB")
    with Game(kept.world, "INSERT INTO chat VALUES ({n},'game')", "INSERT INTO acks VALUES ({n})"):
        wait_for(lambda: kept.world.rows("acks") > 20, "the game")
        victim.crash()
        last = kept.world.value("SELECT MAX(n) FROM acks")
        kept.wait(lambda: kept.world.rows() == 2000, "the world")
        kept.expect("the world", last_restore=bool, state="UP")
        goal = kept.world.value("SELECT MAX(n) FROM acks") + 20
        wait_for(lambda: kept.world.value("SELECT MAX(n) FROM acks") > goal, "the game to go on")
    saved = b""
    for path in kept.conflicts():
        with gzip.open(path) as f:
            saved += f.read()
    there = {n for (n,) in kept.world.sql("SELECT who FROM chat WHERE what='game'")}
    for (n,) in kept.world.sql(f"SELECT n FROM acks WHERE n>{last}"):
        assert n in there or f"{n},".encode() in saved or f"'{n}'".encode() in saved, n


def test_a_killed_restore_worker_is_an_event(kept, victim):
    """If the restore's worker dies the supervisor reports it, waits and tries again; no table is swapped."""
    kept.stop()
    kept.start(fault="restore.loaded=kill")
    victim.crash()
    kept.wait_state("WAITING")
    kept.http.wait_event("waiting")
    assert kept.world.rows() == 0
    kept.stop()
    kept.start()
    kept.world.assert_is(kept.before)


def test_a_stalled_restore_is_ended_and_repeated(kept, victim):
    """A restore that makes no progress for restore.stall is stopped and started again."""
    kept.configure({"restore": {"stall": "1s"}})
    kept.stop()
    kept.start(fault="restore.loaded=stop")
    victim.crash()
    kept.wait(lambda: kept.log().count("no progress for") >= 2, "two stalled restores to be ended")
    assert kept.alive() and kept.world.rows() == 0
    kept.wait(lambda: kept.flag() != "UP", "the flag")
    assert kept.stop() == 0
    kept.configure({"restore": {"stall": None}})  # on a busy machine an attempt may pause for a second
    kept.start()
    kept.world.assert_is(kept.before)


def test_a_restore_by_hand_that_stalls_before_it_loads(kept):
    """A manual restore that stalls before it loads is stopped as well, because no other job could begin meanwhile."""
    kept.configure({"restore": {"stall": "1s"}})
    kept.stop()
    kept.start(fault="restore.leased=stop")
    done = kept.run("--restore")
    assert done.rc == FAILED and "made no progress and was stopped" in done.err, done
    kept.dump()
    kept.wait_state("UP")
    kept.world.assert_is(kept.before)


def test_a_forced_restore_has_the_time_of_a_dump(kept):
    """A forced restore dumps the living world first, and this time does not count as a stall."""
    kept.configure({"restore": {"stall": "5s"}})
    kept.stop()
    kept.start(fault="dump.locked#1=stop")
    forced = kept.popen("--restore", "--force")
    pids = wait_stopped(kept, "dump.locked")
    time.sleep(7)
    go_on(pids)
    assert kept.finish(forced).rc == DONE
    kept.wait_state("UP")


def test_long_restores_show_dots(kept, victim):
    """During a restore the flag is RESTORING with dots, as the old scripts' homepages expect."""
    kept.stop()
    kept.start(fault="restore.loaded#1=stop")
    victim.crash()
    kept.wait(lambda: kept.flag().startswith("RESTORING.") and  # one more dot each minute
              (kept.status()["running"] or {}).get("job") == "restore", "the flag RESTORING. beside a restore")
    go_on(wait_stopped(kept, "restore.loaded"))
    kept.wait_state("UP")


def drop_and_make(kept):
    """Drops the world's schema and creates it empty, as on a newly set up server."""
    schema = kept.world.schema
    kept.server.sql(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4")


def test_a_dropped_world_is_not_restored_by_default(kept):
    """After DROP DATABASE the verdict is MISSING, with an alert and without an automatic restore; --restore restores the
    world."""
    drop_and_make(kept)
    kept.wait_verdict("MISSING")
    kept.probes_pass("M", 5)
    assert kept.state() == "WAITING" and kept.flag() == "WAITING"
    assert not kept.world.sql("SHOW TABLES")
    kept.http.wait_event("sentinel")
    kept.ok("--restore")
    kept.wait_state("UP")
    kept.world.assert_is(kept.before)


@pytest.mark.parametrize("allowed", ["yes", "no"])
def test_a_rebuilt_server_is_filled_only_where_allowed(kept, victim, allowed):
    """restore.new_server decides whether a server without the world's tables is filled automatically."""
    kept.configure({"restore": {"new_server": allowed}})
    kept.stop()
    drop_and_make(kept)
    victim.crash()
    kept.start(state="UP" if allowed == "yes" else "WAITING")
    if allowed == "yes":
        assert "the tables of the world do not exist" in kept.run("--history").out
        return kept.world.assert_is(kept.before)
    kept.http.wait_event("sentinel", "waiting")
    kept.probes_pass("M", 4)
    assert not kept.world.sql("SHOW TABLES")


def test_planned_work(kept, victim):
    """--pause before an upgrade prevents alerts and restores; --resume restores the world."""
    assert kept.run("--pause").rc == DONE
    kept.wait_state("PAUSED")
    kept.wait(lambda: kept.flag() == "WAITING", "the flag WAITING")
    told = len(kept.http.messages())
    victim.crash()
    assert kept.state() == "PAUSED" and kept.world.rows() == 0
    assert kept.run("--resume").rc == DONE
    kept.wait_state("UP")
    kept.world.assert_is(kept.before)
    assert "down" not in [m["event"] for m in kept.http.messages()[told:]]
