"""Tests of the local store of players' progress, and of its write-back to the central one."""
import contextlib
import json
import os
import re
import time

import pymysql
import pytest
from wk.keeper import DONE, FAILED, HELD, REFUSED, USAGE, USER, sanitized
from wk.progress import Central, made, refused
from wk.relay import Wire
from wk.server import MYSQL
from wk.util import stands_still, wait_for

pytestmark = pytest.mark.either_server

ENGINES = ["memory", "innodb"]


@pytest.fixture(params=ENGINES)
def store(request, keeper, server):
    return made(keeper, Central(server), engine=request.param)


@pytest.fixture
def memory(keeper, server):
    return made(keeper, Central(server))


@pytest.mark.quick
def test_a_session(store):
    """A session that is opened, saved twice, written back and closed has the documented effect at each step."""
    store.open("p1")
    store.put("p1/bag", "p1", b"one")
    store.put("p1/bag", "p1", b"t\0w'o\\")
    assert store.rows() == {"p1/bag": (2, 0)}
    assert store.keeper.ok("--write-back", "--json") == {"sent": 1, "stolen": 0, "stale": 0, "released": 0, "first": ""}
    assert store.central.blobs() == {"p1/bag": (2, b"t\0w'o\\")} and store.rows() == {"p1/bag": (2, 2)}
    assert store.keeper.ok("--write-back", "--json")["sent"] == 0
    store.put("p1/bag", "p1", b"three")
    store.close("p1")
    assert "no open session" in refused(store.put, "p1/bag", "p1", b"four")
    done = store.keeper.ok("--write-back", "--json")
    assert done["sent"] == 1 and done["released"] == 1
    assert store.central.blobs()["p1/bag"] == (3, b"three") and store.central.holder("p1") is None
    assert store.rows() == {} and store.sessions() == {}
    assert store.open("p1") == 2 and store.rows() == {"p1/bag": (3, 3)}
    store.put("p1/bag", "p1", b"five")
    assert store.keeper.ok("--write-back", "--unlock", "--json")["released"] == 1
    assert store.central.blobs()["p1/bag"] == (4, b"five") and store.sessions() == {}


class Counting(Wire):
    """Counts in `turns` how often the client sent again after an answer; each is a round trip."""
    turns = 0

    def connected(self):
        answered = [False]

        def passing(data, back, send):
            if data:
                self.turns += answered[0] and not back
                answered[0] = back
            send(data)
        return passing


@pytest.mark.only("mariadb", why="logs in without TLS")
def test_round_trips_of_a_write_back(memory, server):
    """A write-back takes one round trip each for login, session, name, blobs and end; releases take one for each fifty locks."""
    line = Counting(server.socket)
    memory.keeper.configure({"progress": {**line.settings, "tls": "off"}})
    memory.open("p1")
    for i in range(100):
        memory.put(f"b{i}", "p1", b"x" * 1000)
    assert memory.keeper.ok("--write-back", "--json")["sent"] == 100
    assert 4 <= line.turns <= 5
    line.turns = 0
    for i in range(60):
        memory.open(f"q{i}")
    memory.put("late", "q7", b"x")
    assert memory.keeper.ok("--write-back", "--unlock", "--json")["released"] == 61 and memory.sessions() == {}
    assert 7 <= line.turns <= 8  # locks are released in groups of fifty; then all that are held are asked for
    line.stop()


class Withholding(Wire):
    """Withholds answers once the client has sent `after` bytes, until it has sent `until` bytes."""
    after, until = 20000, 150000

    def connected(self):
        sent, held, answer = [0], [], []

        def passing(data, back, send):
            if back:
                answer[:] = [send]
                (held.append if self.after < sent[0] < self.until else send)(data)
                return
            sent[0] += len(data)
            send(data)
            while sent[0] >= self.until and held:
                answer[0](held.pop(0))
        return passing


SMALL = {f"b{n}": (1, b"%d" % (n % 10) * 9000) for n in range(20)}  # four statements of 64 KiB


@pytest.fixture
def far(keeper, make_server):
    """Returns a local store, with SMALL to be sent, whose central store accepts only short statements."""
    store = made(keeper, Central(make_server("--max-allowed-packet=65536", "--innodb-lock-wait-timeout=1")))
    store.open("p1")
    store.open("p2")
    for key, (_, blob) in SMALL.items():
        store.put(key, "p2" if key == "b0" else "p1", blob)
    return store


def test_statements_are_sent_ahead(far):
    """A write-back sends further statements before the first one is answered, so that it waits for a distance only once."""
    line = Withholding(far.central.server.socket)
    far.keeper.configure({"progress": line.settings})
    assert far.keeper.ok("--write-back", "--json")["sent"] == len(SMALL)
    assert far.central.blobs() == SMALL and set(far.rows().values()) == {(1, 1)}
    line.stop()


def test_one_of_those_sent_ahead_fails(far):
    """If one of the statements sent ahead fails, no blob without an answer is marked as sent, and the next run sends the rest."""
    other = far.central.server.admin(far.central.schema, autocommit=False)
    other.cursor().execute("SELECT * FROM wk_lock WHERE lock_key='p2' FOR UPDATE")
    done = far.keeper.run("--write-back", "--json")
    assert done.rc != DONE and "Lock wait timeout" in done.out, done
    assert set(far.rows().values()) == {(1, 0)} and "b0" not in far.central.blobs()
    other.rollback()
    other.close()
    assert far.keeper.ok("--write-back", "--json")["sent"] == len(SMALL)
    assert far.central.blobs() == SMALL and set(far.rows().values()) == {(1, 1)}


def test_all_of_many_are_refused(store):
    """Thousands of refusals, the longest possible answers, do not block the statements that are sent ahead."""
    store.open("p1")
    store.world.sql("INSERT INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`) SELECT LPAD(seq,64,'k'),"
                    "'p1',1,0,NOW(3),REPEAT('x',1000) FROM seq_1_to_3000")
    for _ in range(2):  # the first call only requests the lock
        store.central.acquire("p1", "gs-b")
    assert store.keeper.ok("--write-back", "--json")["stolen"] == 3000
    assert store.central.blobs() == {} and store.rows() == {} and len(store.stolen()) == 3000


def test_locks_released_at_once(store):
    """A release of many locks handles each by itself: released, taken over by another server, or already free."""
    for i in range(120):
        store.open(f"p{i}")
        store.put(f"b{i}", f"p{i}", b"x")
    for _ in range(2):  # the first call only requests the lock
        store.central.acquire("p3", "gs-b")
    store.central.server.sql("UPDATE wk_lock SET lock_id=NULL WHERE lock_key='p4'", schema=store.central.schema)
    done = store.keeper.ok("--write-back", "--unlock", "--json")
    assert done["released"] == 118 and done["stolen"] == 2 and store.sessions() == {} and store.rows() == {}, done
    assert store.central.holder("p3") == "gs-b"
    assert not store.central.server.sql("SELECT lock_key FROM wk_lock WHERE lock_id='gs-a'", schema=store.central.schema)


def test_stolen(store):
    """After another game server took the lock its save is not touched, and ours is moved to wk_stolen."""
    store.open("p1")
    store.put("a", "p1", b"old")
    store.keeper.ok("--write-back")
    store.put("a", "p1", b"late")
    seq = store.central.acquire("p1", "gs-b")[1] or store.central.acquire("p1", "gs-b")[1]
    store.central.call("wk_load", "p1", "gs-b", seq)
    assert store.central.call("wk_save", "a", "p1", "gs-b", seq, 2, b"theirs")[0][0] == "saved"
    done = store.keeper.ok("--write-back", "--json")
    assert (done["sent"], done["stolen"], done["first"]) == (0, 1, "a")
    assert store.stolen() == {("a", 2): ("stolen", b"late")} and store.rows() == {}
    assert store.keeper.ok("--write-back", "--json")["stolen"] == 0
    assert store.central.blobs()["a"] == (2, b"theirs")
    store.close("p1")
    store.keeper.ok("--write-back")
    assert store.sessions() == {} and store.central.holder("p1") == "gs-b"


def test_stale(store):
    """If the central store has a newer save under the same lock the local one is moved to wk_stolen, and the next save gets a
    higher number."""
    lock = store.open("p1")
    store.put("a", "p1", b"1")
    store.keeper.ok("--write-back")
    assert store.central.call("wk_save", "a", "p1", "gs-a", lock, 9, b"nine")[0][0] == "saved"
    store.put("a", "p1", b"2")
    done = store.keeper.ok("--write-back", "--json")
    assert done["stale"] == 1 and store.stolen() == {("a", 2): ("stale", b"2")}
    assert store.central.blobs()["a"] == (9, b"nine")
    store.world.sql("DELETE FROM wk_stolen")  # as the alert says, during the session
    assert store.keeper.ok("--write-back", "--json") == {"sent": 0, "stolen": 0, "stale": 0, "released": 0, "first": ""}
    store.put("a", "p1", b"10")
    assert store.keeper.ok("--write-back", "--json")["sent"] == 1
    assert store.central.blobs()["a"] == (10, b"10")


def test_an_old_session_s_save(store):
    """A save of an earlier session is not sent under the next session's lock number."""
    store.open("p1")
    store.put("a", "p1", b"sent")
    store.keeper.ok("--write-back")
    store.put("a", "p1", b"never sent")
    lock = store.central.acquire("p1")[1]
    store.central.call("wk_load", "p1", "gs-a", lock)
    store.world.sql(f"REPLACE INTO wk_session (lock_key,lock_seq) VALUES ('p1',{lock})")
    done = store.keeper.ok("--write-back", "--json")
    assert done["stolen"] == 1 and store.central.blobs()["a"] == (1, b"sent")


def test_too_large(memory):
    """A blob that a MEMORY table cannot hold is refused with its size and the solution, and is not truncated."""
    memory.open("p1")
    memory.put("a", "p1", b"x" * 65000)
    text = refused(memory.put, "a", "p1", b"x" * 65001)
    assert "65001 bytes" in text and "65000" in text and "innodb" in text
    assert memory.rows() == {"a": (1, 0)}
    memory.keeper.ok("--write-back")
    assert memory.central.blobs()["a"] == (1, b"x" * 65000)


def test_sixteen_mebibytes(keeper, make_server):
    """A blob of 16 MiB is saved and written back if both servers' packets are large enough."""
    big = make_server("--max-allowed-packet=64M")
    store = made(keeper, Central(big), engine="innodb")
    store.open("p1")
    blob = bytes(range(256)) * (1 << 16)
    old = keeper.server.value("SELECT @@global.max_allowed_packet")
    keeper.server.sql(f"SET GLOBAL max_allowed_packet={64 << 20}")
    try:
        store.put("a", "p1", blob)
        assert keeper.ok("--write-back", "--unlock", "--json")["sent"] == 1
    finally:
        keeper.server.sql(f"SET GLOBAL max_allowed_packet={old}")
    assert store.central.blobs()["a"] == (1, blob)


def test_another_engine(memory):
    """--init refuses tables whose engine differs from the config, names both, and leaves the tables as they are."""
    memory.keeper.configure({"progress": {"engine": "innodb"}})
    done = memory.keeper.run("--init")
    assert done.rc == REFUSED and "ENGINE=MEMORY" in done.err and "engine = innodb" in done.err


def test_check_of_the_central_server(keeper, make_server):
    """--check reports a central server whose max_allowed_packet is too small for a blob or that reads uncommitted rows."""
    far = make_server("--max-allowed-packet=64K", "--transaction-isolation=READ-UNCOMMITTED")
    store = made(keeper, Central(far))
    store.open("p1")
    store.put("a", "p1", b"x" * 65000)
    found = findings(keeper, "central store")
    assert [c["level"] for c in found] == ["fail", "fail"], found
    assert "READ UNCOMMITTED" in found[0]["text"] and "REPEATABLE READ" in found[0]["hint"]
    assert "63.5 KiB" in found[1]["text"] and "64.0 KiB" in found[1]["text"]
    far.sql("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET GLOBAL max_allowed_packet=1048576")
    assert [c["level"] for c in findings(keeper, "central store")] == ["note"], "bound to no account"


def test_many_blobs(store):
    """Thousands of blobs with keys of any bytes are sent in batches that fit both servers' packets."""
    world = store.world
    store.open("p1")
    world.sql("ALTER TABLE wk_progress MODIFY `blob` VARBINARY(1000) NOT NULL",
              "INSERT INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`) SELECT CONCAT('b''\\\\',seq),"
              "'p1',1,0,NOW(3),REPEAT(CHAR(seq MOD 256),1+seq*7 MOD 900) FROM seq_1_to_5000")
    assert store.keeper.ok("--write-back", "--json")["sent"] == 5000
    assert world.value("SELECT COUNT(*) FROM wk_progress WHERE seq<>sent_seq") == 0
    same = f"SELECT COUNT(*) FROM wk_progress p JOIN {store.central.schema}.wk_blob b ON b.blob_key=p.blob_key WHERE " \
           "b.seq=p.seq AND b.`blob`=p.`blob`"
    assert world.value(same) == 5000


POINTS = ["progress.read", "progress.ahead", "progress.sent", "progress.marked", "progress.copied", "progress.removed",
          "progress.unsent", "progress.released", "progress.forgotten", "progress.closed"]


@pytest.mark.parametrize("point", POINTS)
def test_killed(store, point):
    """A write-back that is killed at any point and run again has the same result as without the kill."""
    lock = store.open("p1")
    store.open("p2")
    store.put("a", "p1", b"new")
    store.put("b", "p2", b"late")
    store.put("c", "p1", b"2")
    assert store.central.call("wk_save", "c", "p1", "gs-a", lock, 5, b"five")[0][0] == "saved"
    for _ in range(2):  # the first call only requests the lock
        seq = store.central.acquire("p2", "gs-b")[1]
    store.close("p1")
    died = store.keeper.run("--write-back", fault=point + "=kill")
    assert died.rc == -9, died
    store.keeper.ok("--write-back")
    blobs = store.central.blobs()
    assert blobs["a"] == (1, b"new") and blobs["c"] == (5, b"five") and "b" not in blobs
    assert store.stolen() == {("b", 1): ("stolen", b"late"), ("c", 1): ("stale", b"2")}
    assert store.rows() == {} and set(store.sessions()) == {"p2"} and store.central.holder("p1") is None
    assert store.central.acquire("p2", "gs-b")[:2] == ("mine", seq + 1)


def test_a_save_while_its_predecessor_is_sent(store):
    """A save that is made while its predecessor is sent is not marked as sent."""
    store.open("p1")
    store.put("a", "p1", b"one")
    keeper = store.keeper
    process = keeper.popen("--write-back", "--json", fault="progress.sent=stop")
    wait_for(lambda: stands_still(process.pid), "the save to arrive, and its answer")
    store.put("a", "p1", b"two")
    process.send_signal(18)
    assert keeper.finish(process).rc == DONE
    assert store.rows() == {"a": (2, 0)}
    assert keeper.ok("--write-back", "--json")["sent"] == 1 and store.central.blobs()["a"] == (2, b"two")


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_save_that_is_not_committed_when_its_session_closes(keeper, server, level):
    """In an InnoDB store wk_close waits for an uncommitted save, so that it is sent before the lock is released."""
    store = made(keeper, Central(server), engine="innodb")
    store.open("p1")
    game = server.admin(keeper.world.schema, autocommit=False)
    with game.cursor() as cur:
        cur.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        cur.execute("CALL wk_put('a','p1','x')")
    assert "Lock wait timeout" in refused(keeper.world.sql, "SET SESSION innodb_lock_wait_timeout=1", "CALL wk_close('p1')")
    game.commit()
    game.close()
    store.close("p1")
    done = keeper.ok("--write-back", "--json")
    assert done["sent"] == done["released"] == 1 and store.central.blobs() == {"a": (1, b"x")} and store.stolen() == {}


def test_locks_and_release(memory):
    """--locks shows the holders. --release releases our own lock after its saves were sent, and another server's only with
    --force."""
    store, keeper = memory, memory.keeper
    store.open("p1")
    store.put("a", "p1", b"x")
    store.central.acquire("p2", "gs-b")
    store.central.acquire("p2", "gs-c", None)
    locks = {lock["lock_key"]: lock for lock in keeper.ok("--locks", "--json")["locks"]}
    assert locks["p1"]["lock_id"] == "gs-a" and locks["p1"]["wanted_seconds"] is None
    assert locks["p2"]["lock_id"] == "gs-b" and locks["p2"]["wanted_seconds"] >= 0
    assert "p2: gs-b" in keeper.ok("--locks").out
    store.central.acquire(b"zero\0\xff\0", b"gs\0d")
    assert "zero???: gs?d, for" in keeper.ok("--locks").out
    assert keeper.ok("--release=p1", "--json")["outcome"] == "released"
    assert store.central.blobs() == {"a": (1, b"x")} and store.sessions() == {} and store.central.holder("p1") is None
    done = keeper.run("--release=p2")
    assert done.rc == REFUSED and "gs-b" in done.err and store.central.holder("p2") == "gs-b"
    assert keeper.ok("--release=p2", "--force", "--json")["outcome"] == "released"
    assert store.central.holder("p2") is None and keeper.ok("--release=p3", "--json")["outcome"] == "free"


def test_by_hand_beside_another_write_back(memory):
    """A write-back by hand waits for another one no longer than its connection waits for an answer, and names the session."""
    memory.keeper.configure({"mysql": {"read_timeout": "2s"}, "dump": {"stall": "2s"}, "restore": {"stall": "2s"}})
    memory.open("p1")
    with memory.keeper.server.locked("wk.progress", memory.world.schema) as session:
        for args in (["--write-back"], ["--release=p1"]):
            done = memory.keeper.run(*args)
            assert done.rc == HELD and f"by connection {session} of" in done.err and f"KILL {session};" in done.err, done


def test_what_cannot_be_sent_holds_up_its_own_session_only(keeper, make_server):
    """A blob that exceeds the central store's packet keeps only its own session's lock; all others are sent and released."""
    store = made(keeper, Central(make_server("--max-allowed-packet=65536")))
    for key in ("p1", "p2"):
        store.open(key)
    store.put("a", "p1", b"'" * 65000)
    many = {f"b{n}": (1, b"%d" % n * 9000) for n in range(20)}  # a few fit one packet
    for key, (_, blob) in many.items():
        store.put(key, "p2", blob)
    for key in ("p1", "p2"):
        store.close(key)
    done = keeper.run("--write-back", "--json")
    assert done.rc == FAILED and "max_allowed_packet" in done.out
    assert store.sessions() == {"p1": "closing"} and store.rows() == {"a": (1, 0)}
    assert store.central.holder("p1") == "gs-a" and store.central.holder("p2") is None
    assert store.central.blobs() == many


@pytest.mark.only("mariadb", why="the settings of its server")
def test_a_blob_that_no_answer_holds(make_server, make_world, make_keeper):
    """A blob that is larger than one answer may be is not sent and keeps its session; the blobs of other players are
    sent."""
    server = make_server("--max-allowed-packet=512M", "--innodb-log-file-size=512M")
    keeper = make_keeper(make_world("empty", server)).init()
    store = made(keeper, Central(server), engine="innodb")
    for key in ("p1", "p2"):
        store.open(key)
        store.put("blob of " + key, key, b"x")
        store.close(key)
    keeper.world.sql("UPDATE wk_progress SET `blob`=REPEAT('x',257*1024*1024) WHERE lock_key='p1'")
    done = keeper.run("--write-back", "--json")
    assert done.rc == FAILED and "blob blob of p1 of wk_progress has 269484032 bytes; allowed: up to 267386880" in done.out, done
    assert store.sessions() == {"p1": "closing"} and store.central.blobs() == {"blob of p2": (1, b"x")}
    assert store.central.holder("p1") == "gs-a" and store.central.holder("p2") is None


def test_what_cannot_be_sent_keeps_its_lock(keeper, make_server):
    """--release refuses to release the lock of a save that cannot be sent and says why, whatever other sessions close in the
    same run."""
    store = made(keeper, Central(make_server("--max-allowed-packet=65536")))
    store.open("p1")
    store.put("a", "p1", b"'" * 65000)
    store.open("p2")
    store.close("p2")
    done = keeper.run("--release=p1")
    assert done.rc == FAILED and "the lock was not released" in done.err and "max_allowed_packet" in done.err, done
    assert store.sessions() == {"p1": "closing"} and store.rows() == {"a": (1, 0)}
    assert store.central.holder("p1") == "gs-a" and store.central.holder("p2") is None
    assert keeper.ok("--release=p1", "--force", "--json")["outcome"] == "released" and store.central.holder("p1") is None
    # Another session's lock that is released in the same run does not count as this one's.
    store.world.sql("DELETE FROM wk_progress")
    for _ in range(2):
        store.central.acquire("p1", "gs-b")
    store.open("p2")
    store.close("p2")
    done = keeper.run("--release=p1")
    assert done.rc == REFUSED and "gs-b" in done.err and store.central.holder("p1") == "gs-b", done


def test_all_locks_are_released_before_a_game_starts(memory):
    """--write-back --unlock also releases locks of our lock_id without a session in the world. It keeps other game servers'
    locks and those of blobs that could not be sent."""
    store, central = memory, memory.central
    for key in ("p1", "p2", *(f"q{n}" for n in range(60))):
        store.open(key)
    store.put("a", "p1", b"x")
    store.world.sql("DELETE FROM wk_session WHERE lock_key<>'p1'",
                    "INSERT INTO wk_progress (blob_key,lock_key,seq,`blob`) VALUES ('orphan','p2',1,'x')")
    central.acquire("p3", "gs-b")
    central.acquire(b"gs\0", b"gs-a\0")
    done = store.keeper.run("--write-back", "--unlock", "--json")
    assert done.rc == FAILED and "orphan" in done.out and done.result["released"] == 61, done
    held = {key for key, in central.server.sql("SELECT lock_key FROM wk_lock WHERE lock_id IS NOT NULL", schema=central.schema)}
    assert held == {b"p2", b"p3", b"gs\0"}, held


def test_no_session(memory):
    """A row without a session is not sent and is reported; all others are sent."""
    memory.open("p1")
    memory.put("a", "p1", b"x")
    memory.world.sql("INSERT INTO wk_progress (blob_key,lock_key,seq,`blob`) VALUES ('or\0phan','p9',1,'x')")
    done = memory.keeper.run("--write-back")
    assert done.rc == FAILED and "blob or?phan of wk_progress belongs to no session" in done.err, done.err
    assert memory.central.blobs() == {"a": (1, b"x")}
    memory.open("p9")
    assert memory.keeper.ok("--write-back", "--json")["sent"] == 1


def test_no_more_in_a_second_than_allowed(memory):
    memory.keeper.configure({"progress": {"max_rate": "5"}})
    memory.open("p1")
    for n in range(10):
        memory.put(f"b{n}", "p1", b"x")
    began = time.monotonic()
    assert memory.keeper.ok("--write-back", "--json")["sent"] == 10
    assert time.monotonic() - began >= 2


def test_sessions_end_and_the_server_lives_while_much_is_sent(memory):
    """During a long write-back sessions still end and the game server still reports that it is alive."""
    keeper, central = memory.keeper, memory.central
    keeper.configure({"progress": {"max_rate": "2"}})
    memory.open("p1")
    memory.open("p2")
    memory.world.sql("INSERT INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`) SELECT CONCAT('b',seq),"
                     "'p1',1,0,NOW(3),'x' FROM seq_1_to_3000")
    keeper.start()
    wait_for(lambda: central.blobs(), "the first of them")

    def seen():
        return central.server.value("SELECT seen_at FROM wk_server", schema=central.schema)
    memory.put("z", "p2", b"the last save")
    memory.close("p2")
    keeper.wait(lambda: central.holder("p2") is None and memory.sessions() == {"p1": "open"}, "the session to end")
    assert central.blobs()["z"] == (1, b"the last save")
    for _ in range(2):
        before = seen()
        wait_for(lambda: seen() > before, "a sign of life")
    sent = len(central.blobs())
    wait_for(lambda: sent < len(central.blobs()), "more of them")
    assert len(central.blobs()) < 3000
    keeper.reload({"progress": {"max_rate": None}})
    keeper.wait(lambda: len(central.blobs()) == 3001, "all of them")


def test_a_closing_session_whose_many_saves_are_sent_slowly(keeper, server):
    """The worker does not need more and more memory while a closing session with many saves is sent over many ticks."""
    store = made(keeper, Central(server), engine="innodb", max_rate="1")
    store.open("p1")
    store.world.sql("INSERT INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`) SELECT CONCAT('b',seq),"
                    "'p1',1,0,NOW(3),'x' FROM seq_1_to_50000")
    store.close("p1")
    keeper.start()

    def memory_after(count):
        sent = len(store.central.blobs())
        keeper.wait(lambda: len(store.central.blobs()) >= sent + count, "more of them")
        with open(f"/proc/{keeper.worker('write-back')}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    before = memory_after(2)
    after = memory_after(8)
    assert after - before < 8 << 20 or sanitized(), (before, after)  # one list of these keys has 4 MiB


@pytest.mark.parametrize("engine,lock", [("memory", "LOCK TABLES wk_progress READ"),
                                         ("innodb", "CALL wk_put('a','p1','not committed')")])
def test_the_server_lives_while_its_store_is_locked(make_keeper, make_world, make_server, server, engine, lock):
    """While the local store is locked, by a table lock or an uncommitted save, the game server still reports that it is alive,
    so that others do not take it for dead. The figures stay current, and a condition tells how to find the lock's holder."""
    mine = make_server("--innodb-lock-wait-timeout=1000")
    keeper = make_keeper(make_world(on=mine))
    store = made(keeper, Central(server), engine=engine, write_back="1s")
    store.open("p1")
    store.put("a", "p1", b"1")

    def seen(seconds=0):
        return store.central.server.value(f"SELECT MAX(seen_at) - INTERVAL {seconds} SECOND FROM wk_server",
                                          schema=store.central.schema)
    game = mine.admin(keeper.world.schema, autocommit=False)
    with game.cursor() as cur:
        cur.execute(lock)
        keeper.start()
        before = wait_for(seen, "the first one")
        wait_for(lambda: before < seen(6), "signs of life")
        keeper.expect("the figures", progress=lambda p: p and p["unsent"] == 1)
        told = waiting(keeper, "is not written back", "Lock wait timeout")
        assert "INNODB_TRX" in told["hint"] and "SHOW FULL PROCESSLIST" in told["hint"], told
        if engine == "innodb":
            for key in "b", "c":
                store.put(key, "p1", b"1")
            keeper.expect("the figures of now", progress=lambda p: p["unsent"] == 3)
    game.commit()
    game.close()
    keeper.wait(lambda: all(seq == sent for seq, sent in store.rows().values()), "all to be sent")
    keeper.expect("nothing to be wrong", troubles=[])


def test_what_cannot_be_sent_takes_no_time_from_other_sessions(make_keeper, world, make_server):
    """Blobs that cannot be sent, more than the rate allows per second, do not delay other sessions."""
    keeper = make_keeper(world)
    store = made(keeper, Central(make_server("--max-allowed-packet=65536")), max_rate="2")
    store.open("p1")
    for n in range(4):
        store.put(f"a{n}", "p1", b"'" * 65000)
    store.close("p1")
    keeper.start()
    keeper.expect("what cannot be sent", troubles=lambda all_: any("max_allowed_packet" in t["what"] for t in all_))
    store.open("p2")
    store.put("b", "p2", b"the last save")
    store.close("p2")
    keeper.wait(lambda: store.central.holder("p2") is None, "the session behind it to end")
    assert store.central.blobs() == {"b": (1, b"the last save")} and store.sessions() == {"p1": "closing"}


def test_what_was_not_sent_in_the_first_of_many_is_said_at_their_end(memory):
    keeper, central = memory.keeper, memory.central
    keeper.configure({"progress": {"max_rate": "2"}})
    memory.open("p1")
    memory.world.sql("INSERT INTO wk_progress (blob_key,lock_key,seq,`blob`) VALUES ('a','p9',1,'x')",
                     "INSERT INTO wk_progress (blob_key,lock_key,seq,`blob`) SELECT CONCAT('b',seq),'p1',1,'x' FROM seq_1_to_9")
    keeper.start()
    keeper.wait(lambda: len(central.blobs()) == 9, "all others")
    keeper.expect("the one that was left", troubles=lambda all_: any("blob a of wk_progress belongs to no session" in t["what"]
                                                                    for t in all_))


def test_without_a_section(keeper):
    keeper.init()
    for action in ("--write-back", "--locks", "--release=x"):
        done = keeper.run(action)
        assert done.rc == USAGE and "[progress]" in done.err
    keeper.start()
    assert keeper.status()["progress"] is None


def test_a_forgotten_world(make_world, make_keeper, make_server, server):
    """--write-back --unlock is refused after the server lost the world, because the empty tables do not prove that everything
    was sent."""
    mine = make_server("--log-bin=log", "--binlog-format=ROW")
    store = made(make_keeper(make_world(on=mine)), Central(server))
    store.open("p1")
    mine.crash()
    done = store.keeper.run("--write-back", "--unlock")
    assert done.rc == REFUSED and "not up" in done.err and store.central.holder("p1") == "gs-a"


# ---- the supervisor ----


def progress(keeper):
    return keeper.status().get("progress") or {}


def test_the_supervisor_writes_back(store):
    """The supervisor writes back at its start, when sessions close, and at intervals, and publishes the figures in status and
    metrics."""
    keeper = store.keeper
    store.open("p1")
    store.put("a", "p1", b"before")
    keeper.configure({"status": {"metrics": "m.prom"}})
    keeper.start()
    keeper.wait(lambda: store.central.blobs().get("a") == (1, b"before"), "the first write-back")
    store.put("a", "p1", b"last")
    store.close("p1")
    keeper.wait(lambda: store.sessions() == {}, "the session to end")
    assert store.central.blobs()["a"] == (2, b"last") and store.central.holder("p1") is None
    # Waits for the end of the run, which could otherwise send what comes next.
    keeper.expect("what was sent", progress=lambda p: p and p["sent"] == 2 and p["sessions"] == 0)
    store.open("p2")
    store.put("b", "p2", b"x")
    shown = keeper.expect("the unsent blob to show, and those before it as sent",
                          progress=lambda p: p and p["unsent"] == 1 and p["sent"] == 2 and p["sessions"] == 1)["progress"]
    assert shown["stolen"] == 0 and shown["central"] == "ok" and shown["oldest_unsent_seconds"] >= 0
    assert "central store ok" in keeper.run("--status").out
    keeper.wait(lambda: 'worldkeeper_progress_unsent{world="w1"} 1.000' in keeper.published("m.prom"), "the metrics")
    assert store.central.server.value("SELECT COUNT(*) FROM wk_server", schema=store.central.schema) == 1
    keeper.configure({"progress": {"write_back": "1s"}})
    keeper.process.send_signal(1)
    keeper.wait(lambda: store.central.blobs().get("b") == (1, b"x"), "a write-back at its interval")
    store.put("b", "p2", b"y")
    keeper.wait(lambda: store.central.blobs().get("b") == (2, b"y"), "another one")


def test_central_store_away(memory, server):
    """An unreachable central store is reported once per reason, nothing is lost, and only the newest save is sent when it
    returns."""
    keeper, line = memory.keeper, Wire(server.socket)
    keeper.configure({"progress": {**line.settings, "write_back": "1s"}})
    keeper.start()
    memory.open("p1")
    memory.put("a", "p1", b"1")
    keeper.wait(lambda: memory.rows()["a"] == (1, 1), "the first save to be sent")
    line.cut()
    for i in range(2, 9):
        memory.put("a", "p1", b"%d" % i)
    keeper.wait(lambda: progress(keeper).get("central") == "away", "the central store to be away")
    keeper.wait(lambda: progress(keeper).get("unsent") == 1, "the blob to wait")
    keeper.wait_log("players' progress is not written back")
    keeper.wait_state("UP")
    line.mend()
    keeper.wait(lambda: memory.rows()["a"] == (8, 8), "the newest to be sent")
    keeper.wait_log("players' progress is written back again")
    keeper.wait(lambda: progress(keeper).get("central") == "ok", "the status to say so")
    assert memory.central.blobs()["a"] == (8, b"8")
    told = [line.split(" ", 1)[1] for line in keeper.log().splitlines() if "players' progress is not written back" in line]
    assert len(told) == len(set(told)), "each reason once"


def test_refused_by_the_central_store(memory):
    """A wrong password for the central store shows as `refused`, and the world stays UP."""
    keeper = memory.keeper
    keeper.secret("central-password", "wrong")
    keeper.start()
    keeper.wait(lambda: progress(keeper).get("central") == "refused", "the refusal to show")
    keeper.wait_state("UP")
    done = keeper.run("--write-back")
    assert done.rc == FAILED, done


def test_a_conflict_at_the_central_store(keeper, make_server):
    """A lock wait timeout in the central store is reported as a condition, not as an outage, and ends when the save was sent."""
    store = made(keeper, Central(make_server("--innodb-lock-wait-timeout=1")), write_back="1s")
    store.open("p1")
    other = store.central.server.admin(store.central.schema, autocommit=False)
    other.cursor().execute("SELECT * FROM wk_lock FOR UPDATE")
    store.put("a", "p1", b"x")
    keeper.start()
    keeper.wait(lambda: any("Lock wait timeout" in t["what"] for t in keeper.status()["troubles"]), "the condition")
    keeper.expect("no outage", state="UP", progress=lambda p: p and p["central"] == "ok")
    other.rollback()
    other.close()
    keeper.wait(lambda: store.central.blobs().get("a") == (1, b"x"), "the save to be sent")
    keeper.wait(lambda: not keeper.status()["troubles"], "its end")


def test_a_failure_of_the_local_store_is_an_alert(memory):
    """A failure of the local store is reported as a condition until it ends."""
    keeper = memory.keeper
    keeper.start()
    memory.world.sql("ALTER TABLE wk_progress MODIFY lock_key VARBINARY(100) NOT NULL",
                     "INSERT INTO wk_progress (blob_key,lock_key,seq,`blob`) VALUES ('a',REPEAT('k',70),1,'x')")
    keeper.process.send_signal(1)
    keeper.wait(lambda: any("70 bytes" in t["what"] for t in keeper.status()["troubles"]), "the condition")
    memory.world.sql("DELETE FROM wk_progress")
    keeper.wait(lambda: not keeper.status()["troubles"], "its end")


def test_another_write_back_that_never_ends(memory):
    """If another session holds the lock of the local store, a condition names it, and ends when the save was sent."""
    keeper = memory.keeper
    keeper.configure({"progress": {"write_back": "1s"}})
    memory.open("p1")
    keeper.start()
    with keeper.server.locked("wk.progress", memory.world.schema) as session:
        memory.put("a", "p1", b"x")
        keeper.wait(lambda: any(f"by connection {session} of" in t["what"] for t in keeper.status()["troubles"]), "the condition")
        (told,) = [t for t in keeper.status()["troubles"] if "is not written back" in t["what"]]
        assert f"KILL {session};" in told["hint"], told
    keeper.wait(lambda: not keeper.status()["troubles"], "its end")
    assert memory.central.blobs() == {"a": (1, b"x")}


@pytest.mark.parametrize("way", ["pause", "restart"])
def test_a_failure_while_the_world_is_paused(memory, http, way):
    """The condition about saves that cannot be sent stays while nothing is sent, because the world is paused, also after a restart
    of the supervisor. It ends when all saves were sent."""
    keeper, central = memory.keeper, memory.central
    keeper.configure({"progress": {"write_back": "1s"}, **http.settings()})
    keeper.start()
    memory.open("p1")
    memory.put("a", "p1", b"x")
    keeper.wait(lambda: memory.rows()["a"] == (1, 1), "the first save to be sent")
    central.server.sql("RENAME TABLE wk_blob TO moved", schema=central.schema)
    memory.put("a", "p1", b"y")
    http.wait_event("progress")
    keeper.ok("--pause")
    if way == "restart":
        keeper.stop()
        keeper.start("PAUSED")
    seen = set()

    def asked():
        seen.update(central.server.sql("SELECT seen_at FROM wk_server", schema=central.schema))
        return len(seen) > 3
    keeper.wait(asked, "the central store to be asked")
    assert [m["kind"] for m in http.messages() if m["event"] == "progress"] == ["new"]
    central.server.sql("RENAME TABLE moved TO wk_blob", schema=central.schema)
    keeper.ok("--resume")
    wait_for(lambda: [m["kind"] for m in http.messages() if m["event"] == "progress"] == ["new", "recovered"], "its end")
    assert central.blobs() == {"a": (2, b"y")}


def test_another_failure_of_the_local_store_is_shown(memory):
    """A second failure of the local store replaces the first one in the status, although neither has an error number."""
    keeper = memory.keeper
    memory.world.sql("RENAME TABLE wk_progress TO moved")
    keeper.start()
    keeper.wait(lambda: any("has no tables" in t["what"] for t in keeper.status()["troubles"]), "the first")
    memory.world.sql("ALTER TABLE moved MODIFY lock_key VARBINARY(100) NOT NULL",
                     "INSERT INTO moved (blob_key,lock_key,seq,`blob`) VALUES ('a',REPEAT('k',70),1,'x')",
                     "RENAME TABLE moved TO wk_progress")
    keeper.wait(lambda: any("70 bytes" in t["what"] for t in keeper.status()["troubles"]), "the second")


def test_stolen_is_an_alert(memory):
    keeper = memory.keeper
    memory.open("p1")
    for i in range(3):
        memory.put(f"a{i}", "p1", b"x")
    for _ in range(2):
        memory.central.acquire("p1", "gs-b")
    memory.close("p1")
    keeper.start()  # Started only now, because its first write-back would still have been allowed to send them.
    keeper.wait(lambda: progress(keeper).get("stolen") == 3, "the stolen blobs to show")
    keeper.wait(lambda: any("3 blobs" in t["what"] and "a0, a1, a2" in t["what"] for t in keeper.status()["troubles"]),
                "the condition")
    memory.world.sql("DELETE FROM wk_stolen")
    keeper.wait(lambda: progress(keeper).get("stolen") == 0 and not keeper.status()["troubles"], "its end")


def test_stolen_and_a_server_that_has_forgotten_it(make_world, make_keeper, make_server, server):
    """A restart empties wk_stolen with the world. Until the restore its count is unknown and never reported as empty, however
    late the supervisor detects the loss."""
    mine = make_server()
    keeper = make_keeper(make_world(on=mine))
    store = made(keeper, Central(server))
    keeper.configure({"probe": {"interval": "1h"}})
    store.world.sql("INSERT INTO wk_stolen (blob_key,lock_key,seq,why,`blob`) VALUES ('a','p1',1,'stolen','x')")
    keeper.start()
    keeper.expect("it shows", progress=lambda p: p and p["stolen"] == 1)
    mine.crash()
    shown = keeper.expect("it is not known any more", progress=lambda p: p["stolen"] != 1)
    assert shown["progress"]["stolen"] is None and shown["progress"]["sessions"] is None, shown["progress"]
    before = store.central.server.value("SELECT seen_at FROM wk_server", schema=store.central.schema)
    wait_for(lambda: before < store.central.server.value("SELECT seen_at - INTERVAL 3 SECOND FROM wk_server",
                                                         schema=store.central.schema), "three looks later")
    assert "wk_stolen is empty" not in keeper.log() and keeper.status()["progress"]["stolen"] is None


def test_conditions_of_progress_that_is_not_written_back_any_more(memory):
    keeper = memory.keeper
    keeper.secret("central-password", "wrong")
    memory.world.sql("INSERT INTO wk_stolen (blob_key,lock_key,seq,why,`blob`) VALUES ('a','p1',1,'stolen','x')")
    keeper.start()
    keeper.expect("both", troubles=lambda all_: len(all_) == 2)
    keeper.reload({"progress": dict.fromkeys(keeper.settings["progress"])})
    keeper.expect("their end", troubles=[])


# ---- restores ----


@pytest.fixture
def fallible(make_world, make_keeper, make_server, server):
    """Returns a local store on a server that may be killed, with the central store on another one."""
    mine = make_server("--log-bin=log", "--binlog-format=ROW")
    keeper = make_keeper(make_world(on=mine))
    return made(keeper, Central(server))


def test_after_a_loss(fallible):
    """Sessions and blobs are restored with the world, including the journal, and are then written back."""
    store, keeper = fallible, fallible.keeper
    keeper.start()
    store.open("p1")
    store.put("a", "p1", b"dumped")
    keeper.dump()
    store.put("a", "p1", b"journalled")
    store.put("b", "p1", b"too")
    keeper.server.crash()
    keeper.wait(lambda: keeper.status().get("generation") == 2 and keeper.state() == "UP", "the restore")
    keeper.wait(lambda: store.central.blobs() == {"a": (2, b"journalled"), "b": (1, b"too")}, "the write-back")
    store.put("a", "p1", b"on")
    store.close("p1")
    keeper.wait(lambda: store.sessions() == {}, "the session to end")
    assert store.central.blobs()["a"] == (3, b"on")


def test_an_older_world(fallible):
    """After a restore to before saves that were sent, the older save is moved to wk_stolen and later saves get higher numbers."""
    store, keeper = fallible, fallible.keeper
    store.open("p1")
    store.put("a", "p1", b"1")
    store.put("b", "p1", b"1")
    keeper.dump()
    for text in (b"2", b"3", b"4"):
        store.put("a", "p1", text)
    keeper.ok("--write-back")
    keeper.ok("--restore", "--force")
    assert store.rows() == {"a": (1, 0), "b": (1, 0)}
    done = keeper.ok("--write-back", "--json")
    assert done["stale"] == 1 and done["sent"] == 1  # b equals what was sent
    assert store.stolen() == {("a", 1): ("stale", b"1")} and store.central.blobs()["a"] == (4, b"4")
    store.put("a", "p1", b"5")
    keeper.ok("--write-back")
    assert store.central.blobs() == {"a": (5, b"5"), "b": (1, b"1")}


def test_the_same_number_in_an_older_world(fallible):
    """A save made after a restore may have the number of one that was already sent; it is detected as different and moved to
    wk_stolen."""
    store, keeper = fallible, fallible.keeper
    store.open("p1")
    store.put("a", "p1", b"1")
    keeper.dump()
    store.put("a", "p1", b"2, sent")
    keeper.ok("--write-back")
    keeper.ok("--restore", "--force")
    store.put("a", "p1", b"2, another")
    done = keeper.ok("--write-back", "--json")
    assert done["stale"] == 1 and store.stolen() == {("a", 2): ("stale", b"2, another")}
    assert store.central.blobs()["a"] == (2, b"2, sent")


def test_sessions_that_ended_since_the_dump(fallible):
    """Sessions that a restore without the journal reopens are reported with a solution. Their saves overwrite nothing newer in
    the central store, and no other holder loses its lock."""
    store, keeper = fallible, fallible.keeper
    keeper.configure({"journal": {"mode": "off"}})
    for key in "pqr":
        store.open(key)
        store.put(f"of {key}", key, b"dumped")
    keeper.dump()
    for key in "pqr":
        store.put(f"of {key}", key, b"later")
        store.close(key)
    assert keeper.ok("--write-back", "--json")["released"] == 3
    theirs = store.central.acquire("p", "gs-b")[1]  # plays and saves on another game server
    store.central.call("wk_load", "p", "gs-b", theirs)
    assert store.central.call("wk_save", "of p", "p", "gs-b", theirs, 3, b"elsewhere")[0][0] == "saved"
    again = store.central.acquire("q")[1]           # plays here again; r does not return
    store.world.sql(f"REPLACE INTO wk_session (lock_key,lock_seq) VALUES ('q',{again})")
    keeper.server.crash()
    done = keeper.ok("--restore", "--json")
    assert done["warning"].startswith("3 sessions of players in wk_session are restored from an earlier time"), done
    assert store.sessions() == dict.fromkeys("pqr", "open")
    for key in "pqr":
        for _ in range(5):
            store.put(f"of {key}", key, b"stale")
    assert keeper.ok("--write-back", "--json")["stolen"] == 3
    newest = {"of p": (3, b"elsewhere"), "of q": (2, b"later"), "of r": (2, b"later")}
    assert store.central.blobs() == newest
    assert keeper.run("--release=p").rc == REFUSED  # another server has the lock; the session here is ended
    assert store.sessions() == dict.fromkeys("qr", "open") and store.central.holder("p") == "gs-b"
    keeper.ok("--write-back", "--unlock")
    assert store.sessions() == {} and store.central.holder("p") == "gs-b" and store.central.holder("q") is None
    assert store.central.blobs() == newest


def waiting(keeper, *words):
    """Waits for the condition that says why blobs wait, and returns it."""
    return keeper.wait(lambda: [t for t in keeper.status()["troubles"] if all(w in t["what"] for w in words)], words)[0]


def remembered(store, count):
    """Waits until this many sessions have the name of the store that took their blobs."""
    keeper = store.keeper
    keeper.wait(lambda: keeper.server.value(f"SELECT COUNT(*) FROM {keeper.world.schema}.wk_session WHERE store<>''") == count,
                "the sessions to have their store")


def another_central(store, server):
    """Makes a second central store that the game server's account can use as well."""
    store.keeper.configure({"progress": {"write_back": "1s"}})
    other = Central(server)
    server.account("gs", [store.central.schema, other.schema], "EXECUTE", server_rights=None)
    return other


def test_another_central_store_after_a_reload(memory, server):
    """A central store that has not given out our locks takes nothing and nothing is moved to wk_stolen. The condition names
    cause and solution, and all is sent once the config is correct again."""
    store, keeper = memory, memory.keeper
    other = another_central(store, server)
    for lock in "p1", "p2":
        store.open(lock)
    keeper.start()
    store.put("a", "p1", b"sent")
    keeper.wait(lambda: store.central.blobs() == {"a": (1, b"sent")}, "the first save")
    keeper.reload({"progress": {"schema": other.schema}})
    store.put("a", "p1", b"new")
    store.put("b", "p2", b"too")
    store.close("p2")
    # p1 has already saved in its store; p2 has not, and is reported.
    trouble = waiting(keeper, f"schema {other.schema} has no record of lock p2 with number 1 for gs-a")
    assert f"in {keeper.config_path}, set [progress] to the store" in trouble["hint"], trouble
    assert store.stolen() == {} and store.sessions() == {"p1": "open", "p2": "closing"} and other.blobs() == {}
    done = keeper.run("--write-back")
    assert done.rc == FAILED and "has no record of lock" in done.err and "set [progress]" in done.err, done
    assert other.call("wk_locks") == ()
    keeper.reload({"progress": {"schema": store.central.schema}})
    keeper.wait(lambda: store.central.blobs() == {"a": (2, b"new"), "b": (1, b"too")}, "all that waited")
    keeper.wait(lambda: not keeper.status()["troubles"] and store.sessions() == {"p1": "open"}, "its end")
    assert store.stolen() == {} and store.central.holder("p2") is None and other.blobs() == {}


def test_a_central_store_that_is_not_there_after_a_reload(memory):
    """If the central store's schema does not exist, saves wait and the schema is named."""
    store, keeper = memory, memory.keeper
    store.open("p1")
    keeper.configure({"progress": {"write_back": "1s"}})
    keeper.start()
    keeper.reload({"progress": {"schema": "nowhere"}})
    store.put("a", "p1", b"x")
    assert waiting(keeper, "is not written back", "nowhere")["hint"]
    assert store.stolen() == {} and store.sessions() == {"p1": "open"}
    keeper.reload({"progress": {"schema": store.central.schema}})
    keeper.wait(lambda: store.central.blobs() == {"a": (1, b"x")}, "what waited")


def test_a_central_store_of_an_earlier_moment(store):
    """After the central store was restored to before our lock numbers, saves under them wait until the numbers were raised,
    and are then moved to wk_stolen."""
    store.central.acquire("p1")
    store.open("p1")
    store.put("a", "p1", b"late")
    sql = "UPDATE {0}.wk_lock SET lock_seq=1, lock_id=NULL, locked_at=NULL".format(store.central.schema)
    store.central.server.sql(sql)
    done = store.keeper.run("--write-back")
    assert done.rc == FAILED and "has no record of lock p1 with number 2" in done.err, done
    assert store.stolen() == {} and store.rows()["a"] == (1, 0)
    assert store.central.acquire("p1", "gs-b")[1] == 2  # given out again, to another server
    done = store.keeper.run("--write-back")
    assert done.rc == FAILED and "with number 2 for gs-a" in done.err, done
    assert store.stolen() == {} and store.rows()["a"] == (1, 0)
    store.central.server.sql(f"UPDATE {store.central.schema}.wk_lock SET lock_seq=lock_seq+1000000")
    assert store.keeper.ok("--write-back", "--json")["stolen"] == 1
    assert store.stolen() == {("a", 1): ("stolen", b"late")}


@pytest.mark.parametrize("which", ["a clone", "others'"])
def test_another_central_store_is_known_by_its_name(memory, server, which):
    """A wrong central store is recognized by its name whatever its lock numbers, whether it is an old clone or belongs to
    others. Saves and sessions wait, including new ones, and then go to the right one."""
    store, keeper = memory, memory.keeper
    other = another_central(store, server)
    for lock in "p1", "p2":
        store.open(lock)
        for _ in range(1 if which == "a clone" else 3):
            other.acquire(lock, "gs-a" if which == "a clone" else "gs-b")
    other.acquire("p3", "gs-b"), other.acquire("p3", "gs-c")
    keeper.start()
    store.put("a", "p1", b"sent")
    store.put("b", "p2", b"sent too")
    remembered(store, 2)
    keeper.reload({"progress": {"schema": other.schema}})
    store.put("a", "p1", b"new")
    store.close("p2")                                # nothing is unsent; this store does not have its lock
    store.open("p3")
    store.put("c", "p3", b"never sent before")
    waiting(keeper, f"schema {other.schema} is not the central store")
    done = keeper.run("--write-back", "--unlock")    # closes all sessions
    assert done.rc == FAILED and "is not the central store" in done.err, done
    assert store.stolen() == {} and other.blobs() == {} and store.sessions() == dict.fromkeys(["p1", "p2", "p3"], "closing")
    assert store.central.holder("p2") == "gs-a"
    keeper.dump()
    keeper.server.crash()                            # the remembered store is restored with the world
    keeper.wait(lambda: keeper.status().get("generation") == 2 and keeper.state() == "UP", "the restore")
    waiting(keeper, f"schema {other.schema} is not the central store")
    keeper.reload({"progress": {"schema": store.central.schema}})
    keeper.wait(lambda: store.sessions() == {} and not keeper.status()["troubles"], "all that waited")
    assert store.central.blobs() == {"a": (2, b"new"), "b": (1, b"sent too"), "c": (1, b"never sent before")}
    assert store.stolen() == {} and other.blobs() == {} and store.central.holder("p2") is None


def test_another_central_store_after_a_lost_state(memory, server):
    """Each session records which store has taken its blobs, so that a supervisor without its state does not accept the answers
    of another store."""
    store, keeper = memory, memory.keeper
    other = another_central(store, server)
    store.open("p1")
    other.acquire("p3", "gs-b"), other.acquire("p3", "gs-c")
    keeper.start()
    store.put("a", "p1", b"sent")
    remembered(store, 1)
    keeper.stop()
    path = os.path.join(keeper.dumps_dir, "state.json")
    with open(path, encoding="utf-8") as f:
        state = json.load(f)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**state, "central": ""}, f)
    keeper.configure({"progress": {"schema": other.schema}})
    store.open("p3")
    store.put("c", "p3", b"never sent before")
    keeper.start()
    waiting(keeper, f"schema {other.schema} is not the central store")
    assert store.stolen() == {} and other.blobs() == {}


def sending_again(trouble):
    """Returns the statements of the hint: one sends the blobs of wk_stolen again, the other one deletes them there."""
    return re.findall(r"(INSERT IGNORE [^;]*|DELETE FROM [^;]*);", trouble["hint"])


def test_the_hint_about_stolen_blobs_deletes_only_what_is_sent_again(memory):
    """The hint's statements, pasted into a client that continues after an error, leave in wk_stolen what they did not insert:
    all if the table is locked, and afterwards the save of a player who has a new session."""
    keeper, both = memory.keeper, {("a", 1): ("stolen", b"old"), ("b", 1): ("stolen", b"too")}
    keeper.configure({"progress": {"write_back": "1s"}})
    for blob, lock, text in ("a", "p1", b"old"), ("b", "p2", b"too"):
        memory.open(lock)
        memory.put(blob, lock, text)
        for _ in range(2):
            memory.central.acquire(lock, "gs-b")
    keeper.start()
    trouble = keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "has no lock there" in t["hint"]], "the hint")[0]
    assert memory.stolen() == both
    keeper.stop()
    memory.open("p1")
    memory.put("a", "p1", b"new")
    game, client = (memory.world.server.admin(memory.world.schema) for _ in range(2))
    with game.cursor() as held, client.cursor() as cur:
        held.execute("LOCK TABLES wk_progress READ")
        cur.execute("SET SESSION lock_wait_timeout=1")
        for statement in sending_again(trouble):
            with contextlib.suppress(pymysql.err.MySQLError):
                cur.execute(statement)
        assert memory.stolen() == both
        held.execute("UNLOCK TABLES")
        for statement in sending_again(trouble):
            cur.execute(statement)
    game.close(), client.close()
    assert memory.stolen() == {("a", 1): both["a", 1]} and memory.rows() == {"a": (2, 0), "b": (1, 0)}


def test_another_central_store_without_a_name(memory, server):
    """A wrong central store of an earlier version, without a name, refuses all blobs. This is reported, and the hint's
    statements send the newest of each to the right one once the config is correct."""
    store, keeper = memory, memory.keeper
    keeper.configure({"progress": {"write_back": "1s"}})
    other = Central(server)
    for central in store.central, other:
        server.sql(f"DROP PROCEDURE {central.schema}.wk_store")
    server.account("gs", [store.central.schema, other.schema], "EXECUTE", server_rights=None)
    store.open("p1")
    other.acquire("p1", "gs-c"), other.acquire("p1", "gs-b")
    keeper.start()
    store.put("a", "p1", b"sent")
    keeper.wait(lambda: store.central.blobs() == {"a": (1, b"sent")}, "the first save")
    keeper.reload({"progress": {"schema": other.schema}})
    for text in b"old", b"new":
        store.put("a", "p1", text)
        keeper.wait(lambda: (b"a", text) in store.world.sql("SELECT blob_key,`blob` FROM wk_stolen"), "it to be refused")
    store.put("b", "p1", b"too")
    (trouble,) = keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "3 blobs" in t["what"]
                                      and "has no lock there" in t["hint"]], "the way out")
    keeper.reload({"progress": {"schema": store.central.schema}})
    store.put("b", "p1", b"last")
    store.world.sql(*sending_again(trouble))
    keeper.wait(lambda: store.central.blobs() == {"a": (3, b"new"), "b": (2, b"last")}, "the newest of each")
    keeper.wait(lambda: not keeper.status()["troubles"], "its end")
    assert store.stolen() == {} and other.blobs() == {}


def test_a_month_later(fallible):
    """A world restored from an old disk overwrites nothing of players who play elsewhere by now; its saves are moved to
    wk_stolen."""
    store, keeper = fallible, fallible.keeper
    for i in range(50):
        store.open(f"p{i}")
        store.put(f"b{i}", f"p{i}", b"old %d" % i)
    keeper.dump()
    keeper.server.kill9()
    for i in range(50):
        for _ in range(2):
            seq = store.central.acquire(f"p{i}", "gs-b")[1]
        assert store.central.call("wk_save", f"b{i}", f"p{i}", "gs-b", seq, 1, b"new %d" % i)[0][0] == "saved"
    keeper.server.start()
    keeper.start(state=None)
    keeper.wait_state("UP")
    keeper.wait(lambda: progress(keeper).get("stolen") == 50, "all to be set aside")
    assert store.central.blobs() == {f"b{i}": (1, b"new %d" % i) for i in range(50)}
    assert store.stolen()[("b7", 1)] == ("stolen", b"old 7")
    keeper.ok("--write-back", "--unlock")
    assert store.sessions() == {} and store.central.holder("p7") == "gs-b"


def test_made_again(memory):
    """A repeated --init keeps the game's grants on the routines and repairs changed routines."""
    world, server = memory.world, memory.world.server
    server.account("player", [], server_rights=None)
    for name in ("wk_put", "wk_close"):
        server.sql(f"GRANT EXECUTE ON PROCEDURE {world.schema}.{name} TO player@localhost")
    granted = server.sql("SHOW GRANTS FOR player@localhost")
    memory.keeper.init()
    assert server.sql("SHOW GRANTS FOR player@localhost") == granted and len(granted) == 3
    made_as = world.sql("SHOW CREATE PROCEDURE wk_put")[0][2]
    world.sql("DROP PROCEDURE wk_put", f"CREATE DEFINER={USER}@localhost PROCEDURE wk_put(a INT) DO 1")
    memory.keeper.init()
    assert world.sql("SHOW CREATE PROCEDURE wk_put")[0][2].split("PROCEDURE")[1] == made_as.split("PROCEDURE")[1]
    # A routine of an older version with a definer that no longer exists: each wk_put would fail.
    assert "SQL SECURITY INVOKER" in made_as
    world.sql("DROP PROCEDURE wk_put",
              made_as.replace(f"`{USER}`@`localhost`", "`gone`@`localhost`").replace("SQL SECURITY INVOKER", ""))
    server.sql(f"GRANT EXECUTE ON PROCEDURE {world.schema}.wk_put TO player@localhost")
    server.sql(f"GRANT SELECT ON *.* TO {USER}@localhost")  # without this the routine is replaced in any case
    assert "definer" in refused(memory.put, "a", "p1", b"x")
    memory.keeper.init()
    assert sorted(server.sql("SHOW GRANTS FOR player@localhost")) == sorted(granted)
    # With wk_session of an older version sessions continue, and their store is recorded after --init.
    world.sql("ALTER TABLE wk_session DROP COLUMN store")
    memory.open("p1")
    memory.put("a", "p1", b"x")
    assert memory.keeper.ok("--write-back", "--json")["sent"] == 1
    (found,) = findings(memory.keeper, "local store")
    assert found["level"] == "note" and "--init" in found["hint"], found
    memory.keeper.init()
    memory.put("a", "p1", b"y")
    assert memory.keeper.ok("--write-back", "--json")["sent"] == 1
    assert world.sql("SELECT store FROM wk_session") == memory.central.call("wk_store")
    assert findings(memory.keeper, "local store")[0]["level"] == "ok"


def test_routines_are_restored(fallible, make_server, make_world):
    """A restore with --with-code restores the routines of the local store."""
    store, keeper = fallible, fallible.keeper
    store.open("p1")
    store.put("a", "p1", b"x")
    keeper.dump()
    world = keeper.world
    world.sql("DROP PROCEDURE wk_put", "DROP PROCEDURE wk_close")
    done = keeper.ok("--restore", "--force", "--with-code", "--json")
    assert not (done.get("definitions") or {}).get("failed"), done
    store.put("a", "p1", b"y")
    store.close("p1")
    assert store.rows() == {"a": (2, 0)} and store.sessions() == {"p1": "closing"}


# ---- --check ----


def findings(keeper, name):
    return [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == name]


def test_check(memory):
    """--check examines both stores and reports missing routines, missing and superfluous privileges, and a wrong password."""
    keeper, central = memory.keeper, memory.central
    store, local = findings(keeper, "central store"), findings(keeper, "local store")
    assert [c["level"] for c in store + local] == ["note", "ok"], (store, local)
    assert "63.5 KiB" in local[0]["text"] and "gs-a" in store[0]["text"]
    central.server.grant("gs@localhost", central.schema, "UPDATE")
    assert "UPDATE" in findings(keeper, "central store")[0]["text"]
    central.server.sql(f"DROP PROCEDURE {central.schema}.wk_send")
    missing = findings(keeper, "central store")[0]
    assert missing["level"] == "fail" and missing["text"].endswith(": wk_send")
    memory.world.sql("DROP PROCEDURE wk_put")
    assert "wk_put" in findings(keeper, "local store")[0]["text"]
    revoke = keeper.server.granting(USER + "@localhost", keeper.world.schema, "DELETE")
    keeper.server.sql(revoke.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
    assert any("DELETE" in c["text"] for c in keeper.run("--check", "--json").result["checks"] if c["level"] == "fail")
    keeper.secret("central-password", "wrong")
    assert findings(keeper, "central store")[0]["level"] == "fail"


MORE = ["SELECT ON {}.*", "INSERT ON {}.*", "CREATE ON {}.*", "DROP ON {}.*", "ALTER ON {}.*", "TRIGGER ON {}.*", "INDEX ON {}.*",
        "REFERENCES ON {}.*", "EVENT ON {}.*", "LOCK TABLES ON {}.*", "CREATE TEMPORARY TABLES ON {}.*", "CREATE VIEW ON {}.*",
        "CREATE ROUTINE ON {}.*", "ALTER ROUTINE ON {}.*", "DELETE ON {}.wk_blob", "TRIGGER ON {}.wk_lock",
        "SELECT (`blob`) ON {}.wk_blob", "ALTER ROUTINE ON PROCEDURE {}.wk_save", "CREATE USER ON *.*", "CREATE ROUTINE ON *.*",
        "SUPER ON *.*", "FILE ON *.*", "UPDATE ON mysql.*", "SELECT ON mysql.user", "ALL PRIVILEGES ON {}.*"]
LEVELS = ["UPDATE ON *.*", "UPDATE ON {}.*", "UPDATE ON {}.wk_lock", "UPDATE (`lock_id`) ON {}.wk_lock",
          "ALTER ROUTINE ON PROCEDURE {}.wk_save"]
PUBLIC = pytest.mark.only("mariadb", why="PUBLIC")


@pytest.mark.each_server
@pytest.mark.parametrize("how, grant", [
    *(("account", g) for g in MORE), *((how, g) for how in ("account", "role", "idle role") for g in LEVELS),
    *(pytest.param("PUBLIC", g, marks=PUBLIC) for g in LEVELS[1:])])
def test_check_sees_what_breaks_the_promise(memory, grant, how):
    """--check warns about a superfluous privilege on any level and of any grantee, and its hint revokes exactly that
    privilege."""
    keeper, central = memory.keeper, memory.central
    server, who = central.server, "gs@localhost"
    to = {"account": who, "PUBLIC": "PUBLIC"}.get(how, "wk_role")
    words = grant.format(central.schema if "{}.wk" in grant or "PROCEDURE" in grant else
                         "`" + central.schema.replace("_", "\\_") + "`")
    try:
        if "role" in how:
            server.sql("DROP ROLE IF EXISTS wk_role", "CREATE ROLE wk_role", f"GRANT wk_role TO {who}")
        if how == "role":
            server.sql(f"SET DEFAULT ROLE wk_role {'TO' if MYSQL else 'FOR'} {who}")
        server.sql(f"GRANT {words} TO {to}")
        (found,) = [c for c in findings(keeper, "central store") if c["level"] != "note"]
        privilege = grant.split(" ON ")[0].split(" (")[0]
        assert found["level"] == "warn" and len(re.findall(rf"(\(|, ){privilege}\b", found["text"])) == 1, found
        server.sql(*[s for s in found["hint"].split(": ", 1)[1].split(";") if s.strip()])
        assert [c["level"] for c in findings(keeper, "central store")] == ["note"]
        assert keeper.ok("--write-back", "--json")["sent"] == 0, "it may still call the routines"
    finally:
        if "role" in how:
            server.sql("DROP ROLE IF EXISTS wk_role")
        if how == "PUBLIC":
            server.sql("REVOKE ALL PRIVILEGES, GRANT OPTION FROM PUBLIC")
        server.account("gs", [], "EXECUTE", server_rights=None)


@pytest.mark.each_server
def test_an_account_with_all_privileges_keeps_execute(memory):
    """The hint for an account that may do everything on the server leaves it what the write-back needs."""
    server = memory.central.server
    try:
        server.sql("REVOKE ALL PRIVILEGES, GRANT OPTION FROM gs@localhost", "GRANT ALL PRIVILEGES ON *.* TO gs@localhost")
        (found,) = [c for c in findings(memory.keeper, "central store") if c["level"] != "note"]
        server.sql(*[s for s in found["hint"].split(": ", 1)[1].split(";") if s.strip()])
        assert [c["level"] for c in findings(memory.keeper, "central store")] == ["note"]
        assert memory.keeper.ok("--write-back", "--json")["sent"] == 0, "it may still call the routines"
    finally:
        server.account("gs", [], "EXECUTE", server_rights=None)


@pytest.mark.each_server
def test_check_of_what_does_no_harm(memory):
    """--check accepts EXECUTE from any level, privileges that only show things, and grants on another schema, but reports
    GRANT OPTION."""
    server = memory.central.server
    try:
        server.sql("GRANT EXECUTE, PROCESS, SHOW DATABASES ON *.* TO gs@localhost", "GRANT ALL ON other.* TO gs@localhost",
                   f"GRANT EXECUTE ON PROCEDURE {memory.central.schema}.wk_save TO gs@localhost")
        assert [c["level"] for c in findings(memory.keeper, "central store")] == ["note"]
        server.sql(server.granting("gs@localhost", memory.central.schema, "EXECUTE") + " WITH GRANT OPTION")
        (found,) = findings(memory.keeper, "central store")
        assert "GRANT OPTION" in found["text"]
    finally:
        server.account("gs", [], "EXECUTE", server_rights=None)


@pytest.mark.each_server
def test_check_of_whose_lock_id_it_is(memory):
    """--check reports whether the lock_id can be bound, is bound to nobody, to this account, or to another account."""
    keeper, central = memory.keeper, memory.central
    (found,) = findings(keeper, "central store")
    memory.open("p1")
    memory.put("a", "p1", b"x")
    binds = re.search(r"CALL (\S+\([^)]*\))", found["hint"])[1]
    assert found["level"] == "note" and "any game server" in found["text"]
    central.server.sql(f"CALL {binds}")
    (found,) = findings(keeper, "central store")
    assert found["level"] == "ok" and "bound to gs@localhost" in found["text"]
    assert keeper.ok("--write-back", "--json")["sent"] == 1
    anonymous = "''@'127.0.0.9'"
    try:
        central.server.sql(f"CREATE USER {anonymous} IDENTIFIED BY 'x'")
        (found,) = findings(keeper, "central store")
        assert found["level"] == "warn" and "1 anonymous account:" in found["text"]
    finally:
        central.server.sql(f"DROP USER {anonymous}")
    central.server.sql("CALL wk_bind('gs-a','another','%')", "CALL wk_unbind('gs-a','gs','localhost')", schema=central.schema)
    found = findings(keeper, "central store")[0]
    assert found["level"] == "fail" and "may not use this lock_id" in found["text"]
    memory.put("a", "p1", b"y")
    done = keeper.run("--write-back")
    assert done.rc == FAILED and "may not use this lock_id" in done.err and memory.stolen() == {}
    central.server.sql(f"DROP PROCEDURE {central.schema}.wk_bound", f"DELETE FROM {central.schema}.wk_account")
    (found,) = findings(keeper, "central store")
    assert found["level"] == "note" and "earlier version" in found["text"]
    assert keeper.ok("--write-back", "--json")["sent"] == 1, "a store of an earlier version serves as before"


@pytest.mark.parametrize("table", ["wk_session", "wk_progress"])
def test_rows_of_another_moment(memory, table):
    """wk_session and wk_progress cannot be restored alone, because their rows belong to locks of their time; the refusal names
    --into."""
    memory.open("p1")
    memory.put("p1/bag", "p1", b"one")
    memory.keeper.dump()
    memory.put("p1/bag", "p1", b"two")
    before = memory.rows(), memory.sessions()
    done = memory.keeper.run("--restore", f"--table={table}")
    assert done.rc == REFUSED and "restored alone" in done.err and "--into" in done.err, done
    assert (memory.rows(), memory.sessions()) == before
