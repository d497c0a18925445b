"""A long-running journal: hundreds of thousands of changes and dozens of lost connections leak neither descriptors nor memory.
Also logs that only the server can read, and logs that end inside an event."""
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_journal import LOG, crash, journal, keep
from wk.binlog import place
from wk.follow import follower, following, live
from wk.keeper import BINARY, USER
from wk.server import LOG_ENCRYPTED
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql

SANITIZED = "san" in os.path.basename(os.path.dirname(BINARY))  # sanitizers keep freed memory for a while
MIB = 1 << 20


# -- encrypted logs ---------------------------------------------------------------------------


def test_encrypted_logs(make_world, make_keeper, make_server, log_keys):
    """Encrypted logs are followed and are read again after each of two losses, the second across encrypted and plain files."""
    secret = b"a word that stands in the log"
    server = make_server(*LOG, *log_keys, LOG_ENCRYPTED + "ON")
    keeper = keep(make_world, make_keeper, server)
    world = keeper.world
    server.sql("FLUSH BINARY LOGS")
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    for way in ("OFF", "ON"):
        following(keeper)
        world.sql(f"INSERT INTO chat VALUES (1,'{secret.decode()}')", "FLUSH BINARY LOGS",
                  "UPDATE player SET points=points+1", "DELETE FROM fleet WHERE id%5=0")
        before = world.snapshot()
        server.options.append(LOG_ENCRYPTED + way)
        told = crash(keeper)
        assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
        world.assert_is(before, f"before {way}")
    assert len(keeper.dumps()) == 1
    plain = [secret in open(os.path.join(server.datadir, name), "rb").read()
             for name, *_ in server.sql("SHOW BINARY LOGS")]
    assert any(plain) and not all(plain), plain
    assert "cannot continue" not in keeper.log()


# -- logs that a killed server left -----------------------------------------------------------


def test_half_an_event(make_world, make_keeper, make_server):
    """If the server dies while it writes an event that was not acknowledged, only that event is lost, also after the next loss,
    when the log is needed again."""
    server = make_server(*LOG)
    keeper = keep(make_world, make_keeper, server)
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    for v in (2, 3):
        following(keeper)
        world.mark(v)
        before = world.snapshot()
        world.sql("INSERT INTO chat VALUES " + ",".join(f"({n},'half')" for n in range(1000)))
        after = world.snapshot()  # if the journal's marker was written last
        last = os.path.join(server.datadir, server.sql("SHOW MASTER STATUS")[0][0])
        told_before = keeper.status().get("last_restore")
        server.kill9()
        # A killed server leaves complete blocks; a file that ends elsewhere indicates another error.
        os.truncate(last, (os.path.getsize(last) - 1) // 4096 * 4096)
        server.start()
        keeper.wait(lambda: keeper.status().get("last_restore") != told_before and
                    keeper.state() == "UP", "the world again")
        told = keeper.status()["last_restore"]
        assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
        assert world.snapshot() in (before, after)
    assert len(keeper.dumps()) == 1
    assert "cannot continue" not in keeper.log()


# -- a long life ------------------------------------------------------------------------------

WORLDS = 4  # in parallel, because each waits before it reconnects
ROUNDS = 8  # times WORLDS: the number of reconnects
PLAYS, ROWS = 3, 8000  # times WORLDS, times 4: the number of changes


def memory(pid):
    """Returns the process's private memory in bytes."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


def used(keepers):
    """Returns the open descriptors and the memory of each supervisor and follower. Probes and status files are open briefly, so
    that the minimum of several samples counts."""
    pids = [pid for keeper in keepers
            for pid in (keeper.process.pid, keeper.wait(lambda k=keeper: follower(k), "the follower"))]
    samples = []
    wait_for(lambda: samples.append([len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]) or
             len(samples) == 20, "samples", every=0.02)
    return [{"open": min(counts), "memory": memory(pid)}
            for pid, counts in zip(pids, zip(*samples))]


def wait_no_more(keepers, before, room):
    """Waits until no process uses more than before, since on a slow machine a descriptor may stay open for a while."""
    now = []

    def no_more():
        now[:] = used(keepers)
        return all(a["open"] <= b["open"] and (SANITIZED or a["memory"] <= b["memory"] + room)
                   for a, b in zip(now, before))
    wait_for(no_more, lambda: f"no more than {before}, not {now}")


def readers(server):
    return {session.id for session in server.sessions(command="Binlog Dump")}


def caught_up(server, keepers):
    end = place(server)
    for keeper in keepers:
        def there(keeper=keeper):
            now = live(keeper)
            return (now.get("file") or "", now.get("pos") or 0) >= end
        keeper.wait(there, "the journal to catch up")


def followed(server, keepers, old=frozenset()):
    """Waits until all journals are followed by connections that are not in `old`, and returns these connections."""
    def there():
        now = readers(server)
        return len(now) == len(keepers) and not old & now and all(
            journal(keeper).get("state") == "following" for keeper in keepers) and now
    return keepers[0].wait(there, "all journals to be followed")


def play(worlds, rows):
    """Inserts, updates and deletes `rows` in every world in three statements, and makes as many changes of single rows."""
    def one(world):
        world.sql("INSERT INTO chat SELECT seq+100, CONCAT('what is said the ', seq, 'th time') FROM "
                  f"seq_1_to_{rows}", "UPDATE chat SET who=who+1 WHERE who>100",
                  "DELETE FROM chat WHERE who>100",
                  "DROP PROCEDURE IF EXISTS often",
                  f"CREATE PROCEDURE often() BEGIN DECLARE i INT DEFAULT 0; WHILE i<{rows} DO "
                  "UPDATE mark SET v=v+1; SET i=i+1; END WHILE; END", "CALL often()")
    with ThreadPoolExecutor(len(worlds)) as pool:
        list(pool.map(one, worlds))


@pytest.mark.slow
def test_a_long_life(make_world, make_keeper, make_server):
    """After many changes and reconnects, supervisors and followers have no more open descriptors and hardly more memory."""
    server = make_server(*LOG, "--max-binlog-size=1M")
    keepers = [keep(make_world, make_keeper, server) for _ in range(WORLDS)]
    worlds = [keeper.world for keeper in keepers]
    server.account(USER, [world.schema for world in worlds])
    for keeper in keepers:
        keeper.dump()
        keeper.start()
    now = followed(server, keepers)
    first = used(keepers)
    for _ in range(PLAYS):
        play(worlds, ROWS)
    caught_up(server, keepers)
    wait_no_more(keepers, first, MIB // 2)
    for keeper in keepers:
        keeper.dump()  # later changes are read again after each reconnect
    for _ in range(ROUNDS):
        server.end_sessions(id=now)
        play(worlds, 100)
        now = followed(server, keepers, now)
    caught_up(server, keepers)
    wait_no_more(keepers, first, MIB // 8)
    for keeper in keepers:
        assert "cannot continue" not in keeper.log()
