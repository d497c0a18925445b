"""Tests of the RENAME that swaps a world in: its time limit, and what follows a lost answer."""
import pytest
from wk.crash import go_on, stopped
from wk.keeper import DONE, USER
from wk.relay import Wire
from wk.server import begin_odd, repeating
from wk.util import wait_for
from wk.watch import Lateness

pytestmark = pytest.mark.either_server

SHORT = {"restore": {"stall": "4s", "lock_wait": "30m"}, "dump": {"stall": "4s"}, "journal": {"mode": "off"}}


def renaming(server):
    """Returns for how many seconds a RENAME has been running, or None."""
    found = server.sessions(info="RENAME TABLE%")
    return found[0].time if found else None


@pytest.fixture
def held(doomed, victim):
    """Yields a lost world and `holder`, whose lock on the sentinel's table delays the swap. Another session of the account
    runs a statement with invalid text, with which the list of processes must still be readable."""
    doomed.configure(SHORT)
    doomed.dump()
    doomed.before = doomed.world.snapshot()
    victim.crash()
    holder = doomed.world.connect()
    with holder.cursor() as cur:
        cur.execute("LOCK TABLES worldkeeper_sentinel READ")
    odd = begin_odd(victim, USER)
    yield doomed, holder
    victim.end_sessions(id=odd.thread_id())
    odd.close()
    if holder.open:
        holder.close()


def wait_long(server):
    """Waits until the server says that the RENAME has run for longer than our timeouts."""
    wait_for(lambda: (renaming(server) or 0) >= 6, "a RENAME under way for long")


def test_a_swap_under_way_is_no_stall(held, victim):
    """A RENAME that the server is still executing counts as progress."""
    keeper, holder = held
    keeper.start(state=None)
    wait_for(lambda: renaming(victim) is not None, "a RENAME")
    before = keeper.log()  # earlier a restore may have stalled if the machine did
    wait_long(victim)
    since = keeper.log()[len(before):]
    assert "no progress" not in since and "restore failed" not in since, since
    keeper.wait_state("RESTORING")
    holder.close()
    keeper.wait_state("UP")
    keeper.wait(lambda: (keeper.status()["last_restore"] or {}).get("ok") is True, "it is told as done")
    keeper.world.assert_is(keeper.before)


def test_a_swap_that_the_server_ended(held, victim):
    """A RENAME that was killed makes the restore fail and leaves the world as it was."""
    keeper, holder = held
    emptied = keeper.world.snapshot()
    process = keeper.popen("--restore", "--json")
    wait_for(lambda: renaming(victim) is not None, "a RENAME")
    victim.end_sessions(info="RENAME TABLE%")
    done = keeper.finish(process)
    assert done.rc != 0, done
    holder.close()
    keeper.world.assert_is(emptied)
    keeper.ok("--restore")
    keeper.world.assert_is(keeper.before)


LOST = {**SHORT, "mysql": {"connect_timeout": "5s", "read_timeout": "5s"}}


def lose_answer(doomed, victim, process):
    """Stops the server while it has the swap, until the restore, which has stopped before it, notices that no answer came."""
    wait_for(lambda: stopped(doomed), "the worker to stop")
    victim.sigstop()
    go_on(stopped(doomed))
    said = []
    while not said or said[-1] and "the server did not answer the swap" not in said[-1]:
        said.append(process.stderr.readline())
    victim.sigcont()
    assert said[-1], (said, doomed.finish(process))


def test_a_lost_answer(doomed, victim):
    """If the answer to a successful RENAME is lost the restore finds the swap done, reports success, and leaves no temporary
    tables."""
    doomed.configure({**LOST, "restore": {**SHORT["restore"], "binlog": "yes"}})
    doomed.dump()
    before = doomed.world.snapshot()
    victim.crash()
    process = doomed.popen("--restore", fault="restore.before_rename=stop")
    lose_answer(doomed, victim, process)
    done = doomed.finish(process)
    assert done.rc == 0, done
    doomed.world.assert_is(before)
    assert not doomed.world.sql("SHOW TABLES LIKE 'worldkeeper\\_tmp%'")
    doomed.dump()


@pytest.mark.only("mysql", why="MariaDB's constraints need no new names, so that no table of the new world is altered")
def test_the_wait_for_tables_after_a_lost_answer(doomed, victim):
    """A restore that continues in a new session after a lost answer waits for tables no longer than [restore] lock_wait, so
    that sessions of the game get through behind it."""
    doomed.configure({**LOST, "restore": {"stall": "4s", "lock_wait": "2s"}})
    doomed.world.sql("CREATE TABLE bound (id INT PRIMARY KEY, CONSTRAINT low CHECK (id<9)) ENGINE=MEMORY",
                     "INSERT INTO bound VALUES (1)")
    doomed.dump()
    victim.crash()
    process = doomed.popen("--restore", fault="restore.before_rename=stop,restore.dropped=stop")
    lose_answer(doomed, victim, process)
    wait_for(lambda: stopped(doomed), "the worker to stop after the swap")
    with doomed.world.connect() as old, doomed.world.connect() as game, old.cursor() as reads, game.cursor() as cur:
        reads.execute("START TRANSACTION")
        reads.execute("SELECT * FROM bound")
        go_on(stopped(doomed))
        wait_for(lambda: victim.sessions(info="ALTER TABLE `bound`%"), "the ALTER")
        cur.execute("SET SESSION lock_wait_timeout=20")
        cur.execute("SELECT * FROM bound")
        assert cur.fetchall() == ((1,),)
        done = doomed.finish(process)
    assert done.rc == DONE and "the cleanup failed" in done.out and "ock wait timeout" in done.out, done


MANY = 600


@pytest.mark.slow
@pytest.mark.only("mariadb", why="MySQL's accounts do not log in over a line without TLS")
@pytest.mark.timeout(900)
def test_many_tables_and_a_slow_server(make_world, make_keeper, victim):
    """Restore steps over many tables that together take longer than [restore] stall count as progress. The server's answers
    are delayed, so that this does not depend on the machine's speed."""
    world = make_world("empty", on=victim)
    keeper = make_keeper(world, {"journal": {"mode": "off"}, "restore": {"stall": "5s"}}).init()
    world.sql(*(f"CREATE TABLE t{i} (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY" for i in range(MANY)),
              *(f"INSERT INTO t{i} (v) VALUES ({i})" for i in range(MANY)))
    keeper.dump()
    victim.crash()
    line = Wire(victim.socket)
    try:
        with Lateness() as machine:
            keeper.configure({"mysql": {**line.settings, "tls": "off"}})
            keeper.start(state=None, fault="restore.checked=stop")
            wait_for(lambda: stopped(keeper), "what is loaded")
            known = len(keeper.log())
            line.delay = 0.005  # in each direction
            go_on(stopped(keeper))
            keeper.wait(lambda: keeper.state() == "UP" and (keeper.status()["last_restore"] or {}).get("ok") is not None, "the end")
        told = keeper.status()["last_restore"]
        stood = machine.worst_ms >= 1000  # then the machine paused
        assert stood or ("no progress" not in keeper.log()[known:] and told["ok"]), (told, keeper.log())
        assert world.sql(*(f"SELECT v FROM t{i}" for i in (0, 7, MANY - 1))) == ((MANY - 1,),)
        assert keeper.stop() == 0
    finally:
        line.stop()


@pytest.mark.each_server
def test_a_trigger_of_a_table_that_is_altered_during_restores(make_world, make_keeper):
    """ALTER TABLE hides the triggers of its table for a moment. A restore that must be refused because of a trigger is refused
    also if it reads the triggers at such a moment."""
    world = make_world("empty")
    world.sql("CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, n INT) ENGINE=MEMORY", "INSERT INTO a VALUES (1,1)")
    keeper = make_keeper(world).init()
    dump = keeper.dump()
    world.sql("CREATE TRIGGER told BEFORE INSERT ON a FOR EACH ROW SET NEW.n=4711")
    with repeating(world, "ALTER TABLE a FORCE"):
        done = [keeper.run("--restore=" + dump["name"], "--force", "--json") for _ in range(24)]
    assert any("this account cannot create trigger told" in one.out for one in done), done
    assert not any(one.rc == DONE for one in done) and world.sql("SHOW TRIGGERS"), done
