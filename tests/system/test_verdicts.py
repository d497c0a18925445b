"""A doubt never causes a restore: each kind of trouble has its verdict and alert, and the world is
not touched."""
import signal

import pymysql
import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import FAILED, IMPATIENT, REFUSED, USER
from wk.server import MYSQL
from wk.util import CANARY, wait_for
from wk.watch import Lateness

pytestmark = pytest.mark.either_server


@pytest.fixture
def calm(doomed, http):
    """A supervised world with a dump, a webhook, and a check that nothing was restored."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.http = http
    doomed.start()
    doomed.generation = doomed.status()["generation"]
    doomed.before = doomed.world.snapshot()
    return doomed


def recovers_untouched(keeper, events=("down",)):
    """Back to UP, people were told once of the trouble and once of its end, nothing was restored."""
    keeper.wait_state("UP")
    keeper.wait(lambda: keeper.flag() == "UP", "the flag UP")
    status = keeper.status()
    restored = status["last_restore"] and status["last_restore"]["ok"]  # a refused one may be noted
    assert status["generation"] == keeper.generation and not restored
    keeper.world.assert_is(keeper.before)
    new = [m for m in keeper.http.messages() if m["event"] in events and m["kind"] == "new"]
    assert len(new) == 1, keeper.http.messages()
    keeper.wait(lambda: [m for m in keeper.http.messages() if m["kind"] == "recovered"],
                "the message that it is over")
    assert not {"restoring", "restored"} & set(keeper.http.events())


def other_connections_end(server):
    server.end_sessions(user=USER)


@pytest.mark.slow
@pytest.mark.waits(1)
def test_stopped_server(calm, victim):
    """A server that is silent (SIGSTOP) is STALLED: doubt, an alert after a while, no restore."""
    calm.reload(IMPATIENT)
    with Lateness() as lateness:
        victim.sigstop()
        calm.wait_verdict("STALLED")
        calm.wait_state("SUSPECT")
        calm.http.wait_event("down")
        lateness.assert_quick(calm)
    victim.sigcont()
    recovers_untouched(calm)


def test_server_away(calm, victim):
    """A server that is not there is UNREACHABLE: WAITING and an alert at once."""
    with Lateness() as lateness:
        victim.kill9()
        calm.wait_verdict("UNREACHABLE")
        calm.wait_state("WAITING")
        message = calm.http.wait_event("down")[0]
        assert message["what"] and message["doing"] and message["todo"]
        lateness.assert_quick(calm)
    victim.start()
    calm.wait(lambda: calm.world.rows() == 2000, "the world")


def test_connections_exhausted(calm, victim):
    """1040 says nothing about the world: DENIED, an alert, no restore."""
    calm.stop()
    victim.sql("SET GLOBAL max_connections=10")
    held = [victim.admin()]

    def full():
        """Nobody gets in any more, and none of those that are in is about to leave."""
        try:
            held.append(victim.admin())
            return False
        except pymysql.err.OperationalError as e:
            assert e.args[0] == 1040, e
        with held[0].cursor() as cur:
            cur.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
            return int(cur.fetchone()[1]) == len(held)
    try:
        wait_for(full, "all places to be taken")
        # root has one place more than the others; the keeper has none
        calm.start(state=None)
        calm.wait_verdict("DENIED")
        assert "1040" in calm.status()["probe"]["text"]
        calm.probes_pass("D")
        calm.http.wait_event("down")
    finally:
        held[0].cursor().execute("SET GLOBAL max_connections=60")
        for con in held:
            con.close()
    recovers_untouched(calm)


def test_account_locked(calm, victim):
    """4151, in MySQL 3118: somebody locked our account. DENIED, told with the number, no restore."""
    for host in ("localhost", "127.0.0.1"):
        victim.sql(f"ALTER USER keeper@'{host}' ACCOUNT LOCK")
    other_connections_end(victim)
    calm.wait_verdict("DENIED")
    assert ("3118" if MYSQL else "4151") in calm.status()["probe"]["text"]
    calm.http.wait_event("down")
    calm.probes_pass("D")
    for host in ("localhost", "127.0.0.1"):
        victim.sql(f"ALTER USER keeper@'{host}' ACCOUNT UNLOCK")
    recovers_untouched(calm)


def test_password_wrong(calm, victim):
    """1045: DENIED and told; a changed password file is read anew at SIGHUP, without a restart."""
    for host in ("localhost", "127.0.0.1"):
        victim.sql(f"ALTER USER keeper@'{host}' IDENTIFIED BY '{CANARY}2'")
    other_connections_end(victim)
    calm.wait_verdict("DENIED")
    assert "1045" in calm.status()["probe"]["text"]
    assert "SIGHUP" in calm.http.wait_event("down")[0]["todo"]
    calm.secret("password", CANARY + "2")
    found = calm.run("--dump")
    assert "1045" in found.err and "SIGHUP" in found.err, found
    calm.process.send_signal(signal.SIGHUP)
    recovers_untouched(calm)


def test_right_on_the_sentinel_revoked(calm, victim):
    """1142 also answers for tables that do not exist: DENIED, never MISSING."""
    schema = calm.world.schema.replace("_", "\\_")
    for host in ("localhost", "127.0.0.1"):
        victim.sql(f"REVOKE ALL ON `{schema}`.* FROM keeper@'{host}'")
    other_connections_end(victim)
    calm.wait_verdict("DENIED")
    calm.http.wait_event("down")
    calm.probes_pass("D")
    for host in ("localhost", "127.0.0.1"):
        victim.grant(f"keeper@'{host}'", calm.world.schema)
    recovers_untouched(calm)


def test_sentinel_locked_by_the_game(calm, victim):
    """LOCK TABLES on our sentinel is a lock held, not a loss: STALLED, no restore."""
    calm.reload(IMPATIENT)
    con = victim.admin(calm.world.schema)
    with con, con.cursor() as cur:
        cur.execute("LOCK TABLES worldkeeper_sentinel WRITE")
        calm.wait_verdict("STALLED")
        calm.probes_pass("S", 3)
        calm.http.wait_event("down")
    recovers_untouched(calm)


def test_table_locked_by_the_game(calm, victim):
    """A game that locks its own table for long: the world is UP, a dump waits or says why not."""
    con = victim.admin(calm.world.schema)
    with con, con.cursor() as cur:
        cur.execute("LOCK TABLES player WRITE")
        dumping = calm.popen("--dump", "--json")
        calm.probes_pass("A", 8)
        assert calm.state() == "UP" and calm.flag() == "UP"
        cur.execute("UNLOCK TABLES")
    done = calm.finish(dumping)
    assert done.rc == 0 or "lock" in done.json["error"]["text"].lower(), done
    calm.dump()
    assert "down" not in calm.http.events()


def test_sentinel_row_deleted_by_hand(calm):
    """The row is gone but the server never restarted: somebody deleted it. Told, not restored, and
    the way out is named."""
    calm.world.sql("DELETE FROM worldkeeper_sentinel")
    calm.wait_verdict("EMPTY")
    calm.probes_pass("E", 5)
    assert calm.state() == "SUSPECT"
    message = calm.http.wait_event("sentinel")[0]
    assert "delete" in (message["what"] + message["doing"]).lower() and message["todo"]
    calm.world.assert_is(calm.before)
    assert calm.status()["last_restore"] is None
    calm.ok("--init")
    recovers_untouched(calm, events=("sentinel",))


def test_sentinel_row_deleted_and_then_a_real_loss(calm, victim):
    """A real crash afterwards is still recognised and the world restored."""
    calm.world.sql("DELETE FROM worldkeeper_sentinel")
    calm.wait_state("SUSPECT")
    victim.crash()
    calm.wait(lambda: calm.world.rows() == 2000, "the world")
    calm.wait_state("UP")
    calm.world.assert_is(calm.before)


def test_foreign_sentinel(calm):
    """Another nonce than ours: another world's database, or another keeper. Nothing is done there,
    no dump, no restore, but people are told."""
    dumps = [m["name"] for m in calm.dumps()]
    calm.world.sql("UPDATE worldkeeper_sentinel SET nonce=REVERSE(nonce)")
    calm.wait_verdict("FOREIGN")
    calm.probes_pass("F", 5)
    assert calm.state() == "SUSPECT"
    calm.http.wait_event("sentinel")
    assert calm.run("--dump").rc != 0
    assert calm.run("--restore").rc != 0
    assert [m["name"] for m in calm.dumps()] == dumps
    calm.world.assert_is(calm.before)
    calm.world.sql("UPDATE worldkeeper_sentinel SET nonce=REVERSE(nonce)")
    recovers_untouched(calm, events=("sentinel",))


def test_foreign_sentinel_after_a_crash(calm, victim):
    """A game's start-up SQL that writes a sentinel of its own into the emptied table is not believed."""
    calm.kill9()
    victim.crash()
    calm.world.sql("DELETE FROM worldkeeper_sentinel")
    columns = [r[0] for r in calm.world.sql("SHOW COLUMNS FROM worldkeeper_sentinel")]
    values = ["REPEAT('a',32)" if c == "nonce" else "1" for c in columns]
    calm.world.sql(f"INSERT INTO worldkeeper_sentinel VALUES ({','.join(values)})")
    calm.start(state=None)
    calm.wait_verdict("FOREIGN")
    assert calm.flag() != "UP"
    calm.http.wait_event("sentinel")


def test_sentinel_table_dropped(calm):
    """The table is gone while others hold rows: MISSING, told, not restored; --init mends it."""
    calm.world.sql("DROP TABLE worldkeeper_sentinel")
    calm.wait_verdict("MISSING")
    calm.probes_pass("M", 5)
    calm.http.wait_event("sentinel", "down", "waiting")
    assert calm.status()["last_restore"] is None
    calm.world.assert_is(calm.before)
    calm.ok("--init")
    calm.wait_state("UP")
    calm.world.assert_is(calm.before)


def test_a_view_in_the_place_of_the_sentinel(calm, victim):
    """A view reads as whoever asks: its functions would run as the keeper's account. Nothing of it is run, and
    what stands there is named."""
    schema = calm.world.schema
    row = calm.world.sql("SELECT nonce, generation FROM worldkeeper_sentinel")[0]
    calm.world.sql("CREATE TABLE ran (who VARCHAR(99)) ENGINE=MEMORY",
                   "CREATE FUNCTION f() RETURNS INT DETERMINISTIC SQL SECURITY INVOKER "
                   "BEGIN INSERT INTO ran VALUES (CURRENT_USER()); RETURN 1; END",
                   "DROP TABLE worldkeeper_sentinel",
                   "CREATE SQL SECURITY INVOKER VIEW worldkeeper_sentinel AS SELECT f() AS id, "
                   f"'{row[0]}' AS nonce, {row[1]} AS generation, '' AS dump")
    victim.grant("keeper@localhost", schema, "EXECUTE")  # as where routines of the game are dumped
    calm.probes_pass("D", 3)
    assert calm.world.sql("SELECT COUNT(*) FROM ran") == ((0,),)
    assert f"`{schema}`.`worldkeeper_sentinel` is a view" in calm.status()["probe"]["text"]
    assert "is a view" in calm.run("--dump").err
    calm.world.sql("DROP VIEW worldkeeper_sentinel")
    calm.wait_verdict("MISSING")


def test_a_view_in_the_place_of_the_lease(keeper):
    """What stands there is named, and the way out works."""
    keeper.world.sql("DROP TABLE worldkeeper_sentinel_lease",
                     "CREATE VIEW worldkeeper_sentinel_lease AS SELECT 1 AS id, 7 AS generation")
    for action in ("--dump", "--init"):
        done = keeper.run(action)
        assert done.rc == REFUSED and "_lease` is a view" in done.err and "--init makes the table" in done.err, done
    keeper.world.sql("DROP VIEW worldkeeper_sentinel_lease")
    keeper.init().dump()


def test_a_sentinel_that_outlasts_a_loss(calm, victim):
    """Somebody has made a durable table of it: after a loss its row is still there, and is not believed. Both ways
    out are told, and work."""
    calm.world.sql("ALTER TABLE worldkeeper_sentinel ENGINE=InnoDB")
    (found,) = [c for c in calm.run("--check", "--json").result["checks"] if c["name"] == "sentinel"]
    assert found["level"] == "fail" and "InnoDB" in found["text"], found
    victim.crash()
    calm.wait_verdict("FOREIGN")
    calm.wait(lambda: calm.flag() == "WAITING", "the flag")
    todo = calm.http.wait_event("sentinel")[0]["todo"]
    assert calm.world.rows() == 0 and "TRUNCATE TABLE" in todo, todo
    calm.world.sql("TRUNCATE TABLE worldkeeper_sentinel")
    calm.wait_state("UP")
    calm.world.assert_is(calm.before)
    calm.world.sql("ALTER TABLE worldkeeper_sentinel ENGINE=InnoDB")
    other_connections_end(victim)
    calm.wait_verdict("FOREIGN")
    calm.world.sql("ALTER TABLE worldkeeper_sentinel ENGINE=MEMORY")
    calm.wait_state("UP")
    calm.world.assert_is(calm.before)


def test_our_own_connection_killed(calm, victim):
    """KILL of our connection in a healthy world is nothing: reconnect, still UP, no alert."""
    for _ in range(3):
        other_connections_end(victim)
        calm.probes_pass("A", 3)
    calm.wait_state("UP")
    assert not {"down", "sentinel", "waiting"} & set(calm.http.events())
    calm.world.assert_is(calm.before)


def test_world_without_sentinel_is_not_adopted_silently(make_keeper, world):
    """A supervisor on a world that was never initialised says what to do instead of guessing."""
    keeper = make_keeper(world)
    keeper.start(state=None)
    keeper.wait_verdict("MISSING")
    assert "--init" in keeper.status()["reason"] + keeper.log()
    assert keeper.flag() == "WAITING"
    keeper.ok("--init")
    keeper.wait_state("UP")


def test_no_answer_is_no_lost_connection(doomed, victim):
    """A server that stands still was not lost: that is said, how long it was waited for, and what to do."""
    doomed.configure({"mysql": {"read_timeout": "4s"}, "dump": {"stall": "1s"},
                      "restore": {"stall": "1s"}})
    process = doomed.popen("--dump", fault="dump.locked=stop")
    at_work = wait_stopped(doomed, "dump.locked")
    victim.sigstop()
    go_on(at_work)
    done = doomed.finish(process)
    victim.sigcont()
    assert done.rc == FAILED and "no answer within 4.0 s" in done.err and "SHOW PROCESSLIST" in done.err, done
