"""The journal for a long time: hundreds of thousands of changes and dozens of lost connections cost neither
descriptors nor memory; logs that only the server can read, and logs that end in half an event."""
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_journal import LOG, crash, journal, keep
from wk.follow import follower
from wk.keeper import BINARY, USER
from wk.server import LOG_ENCRYPTED
from wk.util import wait_for

SANITIZED = "san" in os.path.basename(os.path.dirname(BINARY))  # it keeps freed memory for a while
MIB = 1 << 20


# -- encrypted logs ---------------------------------------------------------------------------


def test_encrypted_logs(make_world, make_keeper, make_server, log_keys):
    """Followed while they are written, and read again after each of two losses, the second of which
    takes an encrypted stretch, a plain one and another encrypted one."""
    secret = b"a word that stands in the log"
    server = make_server(*LOG, *log_keys, LOG_ENCRYPTED + "ON")
    keeper = keep(make_world, make_keeper, server)
    world = keeper.world
    server.sql("FLUSH BINARY LOGS")
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    for way in ("OFF", "ON"):
        keeper.wait(lambda: journal(keeper).get("state") == "following", "the journal")
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
    assert "cannot go on" not in keeper.log()


# -- logs that a killed server left -----------------------------------------------------------


def test_half_an_event(make_world, make_keeper, make_server):
    """The server dies while it writes what nobody was told of yet. That is gone, and nothing else, after
    the next loss as well, when the log before this one is needed again."""
    server = make_server(*LOG)
    keeper = keep(make_world, make_keeper, server)
    world = keeper.world
    keeper.dump()
    keeper.start(fault="dump.locked=kill")
    for v in (2, 3):
        keeper.wait(lambda: journal(keeper).get("state") == "following", "the journal")
        world.mark(v)
        before = world.snapshot()
        world.sql("INSERT INTO chat VALUES (1,'half')")
        after = world.snapshot()  # if the journal's own beat was the last that was written
        last = os.path.join(server.datadir, server.sql("SHOW MASTER STATUS")[0][0])
        told_before = keeper.status().get("last_restore")
        server.kill9()
        os.truncate(last, os.path.getsize(last) - 3)
        server.start()
        keeper.wait(lambda: keeper.status().get("last_restore") != told_before and
                    keeper.state() == "UP", "the world again")
        told = keeper.status()["last_restore"]
        assert told["lost_seconds"] == 0 and told["journal"]["whole"], told
        assert world.snapshot() in (before, after)
    assert len(keeper.dumps()) == 1
    assert "cannot go on" not in keeper.log()


# -- a long life ------------------------------------------------------------------------------

WORLDS = 4  # side by side, since each waits a second before it connects again
ROUNDS = 8  # times WORLDS: so many reconnects
PLAYS, ROWS = 3, 8000  # times WORLDS, times 4: so many changes


def memory(pid):
    """Bytes of its own."""
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("RssAnon"))


def used(keepers):
    """What each supervisor and each follower has open and in memory, for itself. Probes and status
    files come and go: counted is what is always open."""
    pids = [pid for keeper in keepers
            for pid in (keeper.process.pid, keeper.wait(lambda k=keeper: follower(k), "the follower"))]
    samples = []
    wait_for(lambda: samples.append([len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]) or
             len(samples) == 20, "samples", every=0.02)
    return [{"open": min(counts), "memory": memory(pid)}
            for pid, counts in zip(pids, zip(*samples))]


def assert_no_more(now, before, room):
    for n, (a, b) in enumerate(zip(now, before)):
        assert a["open"] <= b["open"], (n, before, now)
        assert SANITIZED or a["memory"] <= b["memory"] + room, (n, before, now)


def readers(server):
    return {i for (i,) in server.sql(
        "SELECT id FROM information_schema.processlist WHERE command='Binlog Dump'")}


def caught_up(server, keepers):
    file, pos = server.sql("SHOW MASTER STATUS")[0][:2]
    for keeper in keepers:
        def there(keeper=keeper):
            now = keeper.run("--status", "--json").json["journal"]
            return (now.get("file"), now.get("pos", 0)) >= (file, pos)
        keeper.wait(there, "the journal to catch up")


def following(keeper, times):
    keeper.wait(lambda: keeper.log().count("the journal is followed from") >= times,
                f"the journal to be followed {times} times")


def play(worlds, rows):
    """In every world at once: `rows` that come, change and go in three statements, and as many changes
    of one row each."""
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
    """As much as was changed and however often they had to connect again: supervisors and followers have
    no more open than at first, and hardly more in memory."""
    server = make_server(*LOG, "--max-binlog-size=1M")
    keepers = [keep(make_world, make_keeper, server) for _ in range(WORLDS)]
    worlds = [keeper.world for keeper in keepers]
    server.account(USER, [world.schema for world in worlds])
    for keeper in keepers:
        keeper.dump()
        keeper.start()
    for keeper in keepers:
        following(keeper, 1)
    first = used(keepers)
    for _ in range(PLAYS):
        play(worlds, ROWS)
    caught_up(server, keepers)
    assert_no_more(used(keepers), first, MIB // 2)
    for keeper in keepers:
        keeper.dump()  # what is played from here on is read again after each reconnect
    for n in range(ROUNDS):
        old = readers(server)
        assert len(old) == WORLDS
        for i in old:
            server.sql(f"KILL {i}")
        play(worlds, 100)
        for keeper in keepers:
            following(keeper, n + 2)
        assert not old & readers(server)
    caught_up(server, keepers)
    assert_no_more(used(keepers), first, MIB // 8)
    for keeper in keepers:
        assert "cannot go on" not in keeper.log()
