"""A doubt never causes a restore: each kind of trouble has its verdict and alert, and the world is not touched."""
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
    """Returns a supervised world with a dump and a webhook, with what recovers_untouched() compares."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.http = http
    doomed.start()
    doomed.generation = doomed.status()["generation"]
    doomed.before = doomed.world.snapshot()
    return doomed


def recovers_untouched(keeper, events=("down",)):
    """Asserts that the world is UP again, that one alert and its end were sent, and that nothing was restored."""
    keeper.wait_state("UP")
    keeper.wait(lambda: keeper.flag() == "UP", "the flag UP")
    status = keeper.status()
    restored = status["last_restore"] and status["last_restore"]["ok"]  # a refused restore may be recorded
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
    """A silent server (SIGSTOP) is STALLED: SUSPECT, an alert after a while, no restore."""
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
    """A server that is down is UNREACHABLE: WAITING and an alert at once."""
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
    """Error 1040 (too many connections) is DENIED: an alert, no restore."""
    calm.stop()
    victim.sql("SET GLOBAL max_connections=10")
    held = [victim.admin()]

    def full():
        """Returns whether all connections are used and none of them is about to end."""
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
        # root has one more connection than other accounts
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
    """A locked account (4151, in MySQL 3118) is DENIED: an alert with the number, no restore."""
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
    """A wrong password (1045) is DENIED: an alert; SIGHUP reads the password file again without a restart."""
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
    """Error 1142, which also answers for missing tables, is DENIED, never MISSING."""
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
    """A sentinel that the game has locked is STALLED, not a loss."""
    calm.reload(IMPATIENT)
    con = victim.admin(calm.world.schema)
    with con, con.cursor() as cur:
        cur.execute("LOCK TABLES worldkeeper_sentinel WRITE")
        calm.wait_verdict("STALLED")
        calm.probes_pass("S", 3)
        calm.http.wait_event("down")
    recovers_untouched(calm)


def test_table_locked_by_the_game(calm, victim):
    """While the game locks its own table the world is UP, and a dump waits or reports the lock."""
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
    """A sentinel row deleted without a server restart is reported with the solution, and nothing is restored."""
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
    """A crash after the sentinel's row was deleted is recognized as a loss and followed by a restore."""
    calm.world.sql("DELETE FROM worldkeeper_sentinel")
    calm.wait_state("SUSPECT")
    victim.crash()
    calm.wait(lambda: calm.world.rows() == 2000, "the world")
    calm.wait_state("UP")
    calm.world.assert_is(calm.before)


def test_foreign_sentinel(calm):
    """A sentinel with another nonce is FOREIGN: no dump, no restore, but an alert."""
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
    """A sentinel that the game's start-up SQL wrote into the emptied table is FOREIGN."""
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
    """A dropped sentinel beside tables with rows is MISSING: an alert, no restore; --init creates it again."""
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
    """A view in place of the sentinel is reported and none of its functions runs, because it would run as the keeper's
    account."""
    schema = calm.world.schema
    row = calm.world.sql("SELECT nonce, generation FROM worldkeeper_sentinel")[0]
    calm.world.sql("CREATE TABLE ran (who VARCHAR(99)) ENGINE=MEMORY",
                   "CREATE FUNCTION f() RETURNS INT DETERMINISTIC SQL SECURITY INVOKER "
                   "BEGIN INSERT INTO ran VALUES (CURRENT_USER()); RETURN 1; END",
                   "DROP TABLE worldkeeper_sentinel",
                   "CREATE SQL SECURITY INVOKER VIEW worldkeeper_sentinel AS SELECT f() AS id, "
                   f"'{row[0]}' AS nonce, {row[1]} AS generation, '' AS dump")
    victim.grant("keeper@localhost", schema, "EXECUTE")  # as with dumps of the game's routines
    calm.probes_pass("D", 3)
    assert calm.world.sql("SELECT COUNT(*) FROM ran") == ((0,),)
    assert f"`{schema}`.`worldkeeper_sentinel` is a view" in calm.status()["probe"]["text"]
    assert "is a view" in calm.run("--dump").err
    calm.world.sql("DROP VIEW worldkeeper_sentinel")
    calm.wait_verdict("MISSING")


def test_a_view_in_the_place_of_the_lease(keeper):
    """A view in place of the lease table is reported, and the suggested solution works."""
    keeper.world.sql("DROP TABLE worldkeeper_sentinel_lease",
                     "CREATE VIEW worldkeeper_sentinel_lease AS SELECT 1 AS id, 7 AS generation")
    for action in ("--dump", "--init"):
        done = keeper.run(action)
        assert done.rc == REFUSED and "_lease` is a view" in done.err and "--init makes the table" in done.err, done
    keeper.world.sql("DROP VIEW worldkeeper_sentinel_lease")
    keeper.init().dump()


def test_a_sentinel_that_outlasts_a_loss(calm, victim):
    """A sentinel with a durable engine still has its row after a loss and is not trusted. Both solutions are named, and work."""
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
    """Killed connections of ours in a healthy world are replaced without an alert, and the state stays UP."""
    for _ in range(3):
        other_connections_end(victim)
        calm.probes_pass("A", 3)
    calm.wait_state("UP")
    assert not {"down", "sentinel", "waiting"} & set(calm.http.events())
    calm.world.assert_is(calm.before)


def test_world_without_sentinel_is_not_adopted_silently(make_keeper, world):
    """A supervisor of a world without a sentinel suggests --init and is WAITING."""
    keeper = make_keeper(world)
    keeper.start(state=None)
    keeper.wait_verdict("MISSING")
    assert "--init" in keeper.status()["reason"] + keeper.log()
    assert keeper.flag() == "WAITING"
    keeper.ok("--init")
    keeper.wait_state("UP")


def test_no_answer_is_no_lost_connection(doomed, victim):
    """A server that hangs is reported with the time waited and with what to do, not as a lost connection."""
    doomed.configure({"mysql": {"read_timeout": "4s"}, "dump": {"stall": "1s"},
                      "restore": {"stall": "1s"}})
    process = doomed.popen("--dump", fault="dump.locked=stop")
    at_work = wait_stopped(doomed, "dump.locked")
    victim.sigstop()
    go_on(at_work)
    done = doomed.finish(process)
    victim.sigcont()
    assert done.rc == FAILED and "no answer within 4.0 s" in done.err and "SHOW PROCESSLIST" in done.err, done
