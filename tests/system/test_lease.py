"""The lease of a world decides which of several machines may keep it, with a store that supports conditional writes and with
etcd."""
import contextlib
import glob
import gzip
import http.server
import json
import os
import re
import threading
import time
from datetime import datetime
from signal import SIGCONT, SIGSTOP

import pymysql
import pytest

from wk.crash import to_all, wait_stopped
from wk.keeper import DONE, REFUSED, ROOT, USER
from wk.progress import Central, made
from wk.relay import Relay
from wk.stores import Conditions, Etcd, LeaseCaller, Liar, program
from wk.util import session_pids, thread_states, wait_for

pytestmark = pytest.mark.any_server

NEEDS_ETCD = pytest.mark.skipif(not program("etcd"), reason="etcd (package etcd-server) is not installed")
TTL = 60  # seconds; long enough not to end in a test, and a request may take a quarter of it
SHORT = 3  # seconds; for a lease that has to end


def ok(said):
    assert said["result"] == "ok", said
    return said


class Place:
    """The store of a lease, and the machines that want it."""

    def __init__(self, tmp, kind):
        self.tmp, self.kind, self.callers = str(tmp), kind, []
        self.liar = Liar(self.tmp) if kind == "s3" else None
        self.conditions = Conditions(self.liar) if kind == "s3" else None
        self.etcd = Etcd(self.tmp) if kind == "etcd" else None

    def machine(self, holder, ttl=TTL, opened=True):
        standby = {"lease": self.kind, "ttl": f"{ttl}s", **({"etcd": self.etcd.urls} if self.etcd else {})}
        m = LeaseCaller(self.tmp, holder, standby, self.liar.settings() if self.liar else None)
        self.callers.append(m)
        if opened:
            if ttl != SHORT:  # a store has to be proven only once
                ok(m.call("prove"))
            ok(m.call("open"))
        return m

    def close(self):
        for m in self.callers:
            m.process.send_signal(SIGCONT)
            m.close()
        (self.liar or self.etcd).stop()


@pytest.fixture(params=["s3", pytest.param("etcd", marks=NEEDS_ETCD)])
def place(request, tmp_path):
    p = Place(tmp_path, request.param)
    yield p
    p.close()


def take(machine, above=0):
    """Takes the lease, waiting for it if needed. Returns a time at which the holder has not stopped yet by its own clock."""
    def taken():
        asked = time.monotonic()
        said = machine.call("take", above)
        return said["result"] == "ok" and asked + said["left_ms"] / 1000
    return wait_for(taken, lambda: machine.call("read"))


def said_held(machine):
    """Renews until the answer is that another machine holds the lease; with a short lease a slow store may be unreachable."""
    return wait_for(lambda: (lambda said: said["result"] == "held" and said)(machine.call("renew")), "the end of its lease")


@pytest.mark.quick
def test_one_at_a_time(place):
    """A lease that is held is refused to others until it is released or has not been renewed for its time. Its number only grows,
    and the machine that lost it is told."""
    a, b = place.machine("a/1"), place.machine("b/2")
    assert ok(a.call("read")) | {"number": 0, "free": True} == a.call("read")
    first = ok(a.call("take", 0, 5))
    assert first["number"] == 1 and 0 < first["left_ms"] <= 800 * TTL
    said = b.call("take")
    assert said["result"] == "held" and "a/1 has the lease" in said["text"] and said["wait"] > 0, said
    ok(a.call("renew"))
    assert ok(b.call("read"))["holder"] == "a/1"

    ok(a.call("release"))
    assert ok(b.call("read"))["free"]
    second = ok(b.call("take", 40))
    assert second["number"] == 41
    said = a.call("renew", 1)
    assert said["result"] == "held" and "b/2" in said["text"], said

    # Without a renewal, no machine takes it before its holder has stopped by its own clock.
    short = place.machine("b/2", ttl=SHORT)
    ends = take(short)
    number = ok(a.call("read"))["number"]
    take(a)
    assert time.monotonic() >= ends
    assert ok(a.call("renew"))["number"] == number + 1
    assert "a/1" in said_held(short)["text"]

    # After a restart the holder finds its lease by its name.
    again = place.machine("a/1")
    assert ok(again.call("renew"))["number"] == number + 1
    ok(again.call("take"))
    assert again.call("read")["number"] == number + 2


def test_a_holder_that_stood_still(place):
    """A holder that was stopped for longer than its lease has lost it when it resumes."""
    b, a = place.machine("b/2"), place.machine("a/1", ttl=SHORT)
    take(a)
    number = ok(b.call("read"))["number"]
    a.process.send_signal(SIGSTOP)
    take(b)
    a.process.send_signal(SIGCONT)
    said_held(a)
    assert ok(b.call("renew"))["number"] == number + 1


def test_what_another_has_seen(place):
    """A machine that watched a lease for all of its time saves the next one the wait, but not if the lease was taken or renewed
    since."""
    blind = place.machine("d/4")
    take(place.machine("a/1", ttl=SHORT))
    watcher = place.machine("c/3", ttl=SHORT)

    def over():
        """Returns whether the lease has been watched for long enough. etcd deletes its key before that."""
        free = ok(watcher.call("read"))["free"]
        seen = ok(watcher.call("seen"))
        return (place.kind == "s3" or free) and seen["age"] >= 1200 * SHORT and seen
    seen = wait_for(over, lambda: watcher.call("seen"))
    said = blind.call("take")
    assert said["result"] == "held" and said["wait"] > 0, said
    b = place.machine("b/2")
    ok(b.call("believe", seen["version"], seen["since"]))
    assert ok(b.call("take"))["number"] == 2

    # The lease was watched for an hour and was then taken or renewed.
    late = place.machine("e/5")
    for change in ("take", "renew"):
        ok(late.call("read"))
        seen = ok(late.call("seen")) if place.kind == "s3" else seen
        ok(b.call(change))
        if place.etcd:  # etcd does so itself if a leader stood still
            place.etcd.delete("/worldkeeper/s8/lease")
        ok(late.call("believe", seen["version"], seen["since"] - 3600 * 1000))
        said = late.call("take")
        assert said["result"] == "held" and said["wait"] > 0 and "b/2 has the lease" in said["text"], said
        ok(b.call("take"))
    assert ok(late.call("read"))["holder"] == "b/2"


@NEEDS_ETCD
def test_a_key_that_was_deleted_by_hand(tmp_path):
    """If the key is deleted, the lease is not renewed, and no machine takes it before its holder has stopped by its own clock.
    etcd deletes it itself if a leader stood still."""
    p = Place(tmp_path, "etcd")
    try:
        b, a = p.machine("b/2"), p.machine("a/1", ttl=SHORT)
        ends = take(a)
        p.etcd.delete("/worldkeeper/s8/lease")
        said = b.call("take")
        assert said["result"] == "held" and 0 < said["wait"] <= 1000 * SHORT and "a/1 has the lease" in said["text"], said
        assert a.call("renew")["result"] == "held"
        take(b)
        assert time.monotonic() >= ends
        assert ok(b.call("read"))["number"] == 2
        assert a.call("renew")["result"] == "held"
        ok(b.call("release"))
        assert a.call("renew", 1)["result"] == "held"
        assert ok(a.call("take"))["number"] == 3
        proof = ok(a.call("prove"))
        assert proof["members"] == "m0" and proof["answered"] == 1
    finally:
        p.close()


@contextlib.contextmanager
def deposed(etcd):
    """Imitates a member whose leader was deposed unnoticed: it answers renewals with an older term. Requests that need a majority
    are answered by etcd."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = etcd.call(self.path.removeprefix("/v3/"), body)
            if self.path.endswith("keepalive"):
                header = said["result"]["header"]
                header["raft_term"] = str(int(header["raft_term"]) - 1)
            answer = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@NEEDS_ETCD
def test_a_leader_that_was_deposed(tmp_path):
    """etcd's leader renews a lease without asking other members. If another leader was elected meanwhile, the renewal does not
    count; the next one at the right leader does."""
    p = Place(tmp_path, "etcd")
    try:
        right = p.etcd.urls
        ok(p.machine("a/1").call("take"))
        with deposed(p.etcd) as url:
            p.etcd.urls = url
            a = p.machine("a/1", opened=False)
            ok(a.call("open"))
            said = a.call("renew")
            assert said["result"] == "away" and "elected a leader" in said["text"] and said["left_ms"] <= 0, said
        p.etcd.urls = right
        again = p.machine("a/1")
        assert ok(again.call("renew"))["number"] == 1
    finally:
        p.close()


LIES = {"none-match": "ignores If-None-Match", "match": "ignores If-Match", "never": "does not honor If-Match"}


def test_only_a_store_that_is_proved(tmp_path):
    """A store that ignores a condition or never grants it is detected; without a proof no lease can be used."""
    p = Place(tmp_path, "s3")
    try:
        a = p.machine("a/1", opened=False)
        said = a.call("open")
        assert said["result"] == "refused" and "not known whether the store honors conditional writes" in said["text"], said
        assert "--check" in said["hint"]
        for lie, words in LIES.items():
            p.conditions.lies = ""
            ok(a.call("prove"))
            ok(a.call("open"))
            p.conditions.lies = lie
            said = a.call("prove")
            assert said["result"] == "refused" and words in said["text"] and "etcd" in said["hint"], said
            assert a.call("open")["result"] == "refused"
        p.conditions.lies, p.conditions.bare = "", True
        ok(a.call("prove"))
        ok(a.call("open"))
        ok(a.call("take"))
        ok(a.call("renew"))
        assert not [n for n in p.liar.objects if "check" in n]
    finally:
        p.close()


def test_answers_that_are_lost(tmp_path):
    """A write whose answer was lost counts if it arrived, but never for longer than was requested."""
    p = Place(tmp_path, "s3")
    try:
        a = p.machine("a/1")
        first = ok(a.call("take"))["left_ms"]
        p.conditions.lost = 9
        said = a.call("renew")
        assert said["result"] == "away" and said["left_ms"] <= first, said
        p.conditions.lost = 0
        assert ok(a.call("renew"))["left_ms"] <= 800 * TTL
        p.conditions.late = 1  # a late answer: the time counts from the request on
        assert ok(a.call("renew"))["left_ms"] <= 800 * TTL - 1000
        assert ok(a.call("take"))["left_ms"] <= 800 * TTL - 1000
        p.conditions.late = 0
        p.conditions.away = True
        assert a.call("renew")["result"] == "away"
        p.conditions.away = False
        p.liar.objects["/bucket/s8/lease.json"] = b"{}"
        said = a.call("read")
        assert said["result"] == "refused" and "is not a lease of worldkeeper" in said["text"], said
    finally:
        p.close()


def test_no_time_of_day_counts(tmp_path):
    """A lease is held even if the holder's clock is wrong by hours."""
    p = Place(tmp_path, "s3")
    try:
        a, b = p.machine("a/1", ttl=600), p.machine("b/2", ttl=600)
        ok(a.call("take"))
        path = "/bucket/s8/lease.json"
        p.liar.objects[path] = json.dumps({**json.loads(p.liar.objects[path]), "at": 1}).encode()
        said = b.call("take")
        assert said["result"] == "held" and said["wait"] > 0, said
    finally:
        p.close()


class Observer(threading.Thread):
    """Checks 20 times a second whether this machine says that it is ready in a status that is still valid."""

    def __init__(self, keeper):
        super().__init__(daemon=True)
        self.keeper, self.ended, self.said = keeper, threading.Event(), []
        self.start()

    def run(self):
        while not self.ended.wait(0.05):
            s = self.keeper.status()
            if s.get("ready") and datetime.fromisoformat(s["valid_until"]).timestamp() > time.time():
                self.said.append((s["updated"], s["valid_until"]))

    def stop(self):
        self.ended.set()
        self.join()


@pytest.fixture
def primary(make_keeper, world, tmp):
    """Returns a keeper with a lease in a store that honors conditions, and a second machine that may want it."""
    liar = Liar(tmp)
    conditions = Conditions(liar)
    standby = {"lease": "s3", "ttl": f"{TTL}s"}
    keeper = make_keeper(world).init()
    keeper.configure({"restore": {"lock_wait": f"{TTL // 3}s"},
                      "offsite": {"plain": "yes", "timeout": f"{TTL // 3}s", **liar.settings()}, "standby": {**standby, "warm": "no"}})
    other = LeaseCaller(os.path.join(tmp, "other"), "other/2", standby, liar.settings(), name=keeper.name)
    keeper.conditions, keeper.other = conditions, other
    keeper.lease_path = f"/bucket/{keeper.name}/lease.json"
    yield keeper
    keeper.other.close()
    liar.stop()


@pytest.fixture
def etcd(tmp):
    one = Etcd(tmp)
    yield one
    one.stop()


def shorten(keeper):
    """Shortens the lease, so that it ends soon if it is not renewed."""
    keeper.reload({"standby": {"ttl": "4s"}})
    keeper.wait(lambda: json.loads(keeper.conditions.objects[keeper.lease_path])["ttl_ms"] == 4000, "the short lease")


def in_the_world(keeper):
    """Returns what a game reads of the lease in the world, or () if the table is missing or empty."""
    try:
        rows = keeper.world.sql("SELECT generation, number, until>UTC_TIMESTAMP(3), owner FROM worldkeeper_lease")
    except pymysql.err.ProgrammingError:
        rows = ()
    return rows[0] if rows else ()


def kept_state(keeper):
    with open(os.path.join(keeper.dumps_dir, "state.json"), encoding="utf-8") as f:
        return json.load(f)


def test_an_upload_that_slept(primary):
    """A machine is stopped during an upload while another takes the lease: the upload stores nothing when it continues."""
    k = primary
    assert "honors If-None-Match and If-Match" in k.run("--check").out
    k.configure({"standby": {"ttl": "4s"}})
    k.start(fault="offsite.chosen=stop,offsite.sent=kill")
    wait_for(lambda: k.run("--dump").rc == DONE, "a dump: on a slow machine such a lease comes and goes")
    [uploader] = wait_stopped(k, "offsite.chosen")
    before = set(k.conditions.objects)
    to_all(k, SIGSTOP)
    ok(k.other.call("prove"))
    ok(k.other.call("open"))
    take(k.other)
    os.kill(uploader, SIGCONT)
    wait_for(lambda: uploader not in k.pids(), "the upload goes on, and its worker ends")
    assert set(k.conditions.objects) == before
    to_all(k, SIGCONT)
    k.wait(lambda: k.status()["lease"]["state"] == "stepped-back", "it steps back")


def test_a_write_back_that_slept(primary, server):
    """A machine is stopped while another takes the lease and the world's progress. When it continues, it sends nothing, even
    before its supervisor knows of the loss."""
    k = primary
    store = made(k, Central(server), write_back="1s")
    assert "honors If-None-Match and If-Match" in k.run("--check").out
    k.configure({"standby": {"ttl": "4s"}})
    k.start()
    store.open("p1")
    for n in range(1, 3):  # the second one is sent under the lease that will end
        store.put("a", "p1", b"%d" % n)
        k.wait(lambda n=n: store.central.blobs().get("a") == (n, b"%d" % n), "it is sent")
    k.wait(lambda: store.rows()["a"] == (2, 2), "the local store knows it")
    to_all(k, SIGSTOP)
    ok(k.other.call("prove"))
    ok(k.other.call("open"))
    take(k.other)
    store.put("a", "p1", b"of the old machine")
    store.close("p1")

    def seen(seconds=0):
        return store.central.server.value(f"SELECT seen_at - INTERVAL {seconds} SECOND FROM wk_server", schema=store.central.schema)
    before = seen()
    for pid in k.pids():
        if pid != k.process.pid:
            os.kill(pid, SIGCONT)
    wait_for(lambda: before < seen(3), "its worker goes on")
    assert store.central.blobs()["a"] == (2, b"2") and store.central.holder("p1") == "gs-a"
    to_all(k, SIGCONT)
    k.wait(lambda: k.status()["lease"]["state"] == "stepped-back", "it steps back")
    assert store.rows()["a"] == (3, 2) and store.central.blobs()["a"] == (2, b"2")


def test_a_write_back_that_slept_before_it_sent(primary, server):
    """A write-back that was stopped just before it sent data sends nothing, because the lease is lost."""
    k = primary
    store = made(k, Central(server), write_back="1s")
    assert "honors If-None-Match and If-Match" in k.run("--check").out
    k.configure({"standby": {"ttl": "4s"}})
    k.start(fault="progress.read=stop")
    store.open("p1")
    store.put("a", "p1", b"1")
    [sender] = wait_stopped(k, "progress.read")
    to_all(k, SIGSTOP)
    ok(k.other.call("prove"))
    ok(k.other.call("open"))
    take(k.other)

    def seen(seconds=0):
        return store.central.server.value(f"SELECT seen_at - INTERVAL {seconds} SECOND FROM wk_server", schema=store.central.schema)
    before = seen()
    os.kill(sender, SIGCONT)
    wait_for(lambda: before < seen(3), "its worker goes on")
    to_all(k, SIGCONT)
    k.wait(lambda: k.status()["lease"]["state"] == "stepped-back", "it steps back")
    assert store.central.blobs() == {} and store.rows() == {"a": (1, 0)}
    assert "written back" not in k.log()


def test_an_unlock_that_slept(primary, server):
    """--unlock releases no lock after the lease was lost, because it may be one of the other machine's players."""
    k = primary
    store = made(k, Central(server))
    assert "honors If-None-Match and If-Match" in k.run("--check").out
    k.configure({"standby": {"ttl": "4s"}})
    store.open("p1")
    store.central.acquire("p2")
    job = k.popen("--write-back", "--unlock", fault="progress.closed=stop")

    def is_stopped():
        with open(f"/proc/{job.pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] == "T"
    wait_for(is_stopped, "its session is ended")
    os.killpg(job.pid, SIGSTOP)
    ok(k.other.call("prove"))
    ok(k.other.call("open"))
    take(k.other)
    os.killpg(job.pid, SIGCONT)
    done = k.finish(job)
    assert done.rc == REFUSED and "this machine does not hold the lease of this world" in done.err, done
    assert store.central.holder("p1") is None and store.central.holder("p2") == "gs-a"


@pytest.mark.parametrize("kind", ["s3", pytest.param("etcd", marks=NEEDS_ETCD)])
def test_a_write_back_beside_the_supervisor(primary, server, tmp, kind):
    """A manual write-back uses the lease of the supervisor and takes no new one, whatever happens to the lease between its look
    and its write."""
    k, etcd = primary, Etcd(tmp) if kind == "etcd" else None
    store = made(k, Central(server))
    if etcd:
        k.configure({"standby": {"lease": "etcd", "etcd": etcd.urls, "ttl": "4s"}})
    else:
        assert "honors If-None-Match and If-Match" in k.run("--check").out
        k.configure({"standby": {"ttl": "4s"}})
    try:
        k.start()

        def held():
            lease = k.status()["lease"]
            return lease["state"] == "held" and lease["number"]
        number = k.wait(held, "the lease")
        store.open("p1")
        store.put("a", "p1", b"1")
        job = k.popen("--write-back", fault="lease.looked#1=stop")

        def is_stopped():
            with open(f"/proc/{job.pid}/stat", encoding="ascii") as f:
                return f.read().rpartition(")")[2].split()[0] == "T"
        wait_for(is_stopped, "its look at the lease")
        if etcd:
            k.ok("--write-back")
        else:
            before = k.conditions.objects[k.lease_path]
            k.wait(lambda: k.conditions.objects[k.lease_path] != before, "the supervisor's renewal")
        os.kill(job.pid, SIGCONT)
        done = k.finish(job)
        assert done.rc == DONE, done
        assert store.central.blobs()["a"] == (1, b"1")
        assert k.wait(held, "the lease") == number and "stepped back" not in k.log()
    finally:
        k.stop()
        if etcd:
            etcd.stop()


def waits_for_lock(server):
    return server.sessions(info="RENAME TABLE%", state="Waiting%")


def with_etcd(k, etcd, ttl):
    """Moves the lease of the primary, and of the machine that may want it, to etcd."""
    standby = {"lease": "etcd", "etcd": etcd.urls, "ttl": ttl}
    k.configure({"standby": standby})
    k.other.close()
    k.other = LeaseCaller(os.path.join(k.base, "other"), "other/2", standby, name=k.name)


@pytest.mark.either_server
@pytest.mark.parametrize("kind, how", [("s3", "stands still"), ("s3", "waits for two"),
                                       pytest.param("etcd", "waits for two", marks=NEEDS_ETCD)])
def test_a_swap_that_waited(primary, server, request, kind, how):
    """A restore may swap, but its RENAME waits for a lock until another machine has the lease: it must not take place, whether
    the machine is stopped or waits for a second lock."""
    k = primary
    k.configure({"restore": {"lock_wait": "5m", "end_blockers": "never"}})
    if kind == "etcd":
        with_etcd(k, request.getfixturevalue("etcd"), "8s")
    else:
        assert "honors If-None-Match and If-Match" in k.run("--check").out
        k.configure({"standby": {"ttl": "8s"}})
    k.start(fault="restore.before_rename=stop")
    wait_for(lambda: k.run("--dump").rc == DONE, "a dump: on a slow machine such a lease comes and goes")
    job = k.popen("--restore", "--force")
    [restore] = wait_stopped(k, "restore.before_rename")
    before = k.world.sql("SELECT nonce FROM worldkeeper_sentinel")
    with contextlib.closing(server.admin()) as first, contextlib.closing(server.admin()) as second:
        for session, table in ((first, "chat"), (second, "fleet")):
            session.begin()
            session.cursor().execute(f"SELECT COUNT(*) FROM {k.world.schema}.{table}")
        if how == "waits for two":
            for pid in k.pids():
                if pid != restore and pid != job.pid:
                    os.kill(pid, SIGSTOP)
            os.kill(k.process.pid, SIGSTOP)
        os.kill(restore, SIGCONT)
        k.wait(lambda: waits_for_lock(server), "its RENAME waits")
        if how == "stands still":
            to_all(k, SIGSTOP)
        else:
            time.sleep(4)  # the lease continues to run out
            first.rollback()
        ok(k.other.call("prove"))
        ok(k.other.call("open"))
        take(k.other)
        first.rollback()
        second.rollback()
    wait_for(lambda: not waits_for_lock(server), "it waits no more")
    assert k.world.sql("SELECT nonce FROM worldkeeper_sentinel") == before
    to_all(k, SIGCONT)
    done = k.finish(job)
    assert done.rc != DONE, done
    k.wait(lambda: k.status()["lease"]["state"] == "stepped-back", "it steps back")
    assert k.world.sql("SELECT nonce FROM worldkeeper_sentinel") == before


@pytest.mark.either_server
def test_a_swap_that_could_not_be_ended(primary, server):
    """A restore of a machine with a lease does not send its RENAME if it cannot open the second connection, which ends the
    RENAME when the lease ends."""
    k, limit = primary, f"ALTER USER '{USER}'@'localhost' WITH MAX_USER_CONNECTIONS "
    assert "honors If-None-Match and If-Match" in k.run("--check").out
    k.start(fault="restore.before_rename=stop")
    k.dump()
    job = k.popen("--restore", "--force")
    [restore] = wait_stopped(k, "restore.before_rename")
    before = k.world.sql("SELECT nonce FROM worldkeeper_sentinel")
    try:
        server.sql(limit + "1")
        with contextlib.suppress(pymysql.Error), k.world.connect(USER):  # otherwise the supervisor has it
            os.kill(restore, SIGCONT)
            done = k.finish(job)
    finally:
        server.sql(limit + "0")
    assert done.rc != DONE and "max_user_connections" in done.out + done.err, done
    assert k.world.sql("SELECT nonce FROM worldkeeper_sentinel") == before


GAINS = ("CREATE TABLE gains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, hero INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL, "
         "token CHAR(36) NULL UNIQUE, KEY k USING BTREE (hero,id)) ENGINE={}",
         "INSERT INTO gains (hero,xp,at,token) VALUES (1,4,'2026-01-05 10:00:00','a'),(2,5,'2026-01-05 10:00:00','b')")
XP = {"table": "gains", "key": "hero", "value": "xp", "time": "at", "keep": "1d", "rollup_after": "0", "request": "token"}


def with_work(k, relay, action, engine):
    """Makes rows to roll up and a file of replaced rows, and returns the arguments of the action."""
    k.world.sql(*[s.format(engine) for s in GAINS])
    k.server.grant(f"{USER}@localhost", k.world.schema, "DELETE, CREATE VIEW, TRIGGER")
    k.configure({"ledger xp": XP})
    k.init()
    file = os.path.join(k.dumps_dir, "conflict-000001-20260101T000000Z.sql.gz")
    with gzip.open(file, "wt") as f:
        f.write("-- worldkeeper conflict 2\n-- written from an unknown time\nSET NAMES binary;\n"
                "INSERT INTO `chat` (`who`,`what`) VALUES\n(4711,'new');\n-- worldkeeper end tables=1 rows=1\n")
    with_lease(k, relay)
    return ["--rollup"] if action == "rollup" else ["--conflicts=" + file, "--apply"]


def with_lease(k, relay, ttl=4):
    assert "honors If-None-Match and If-Match" in k.run("--check").out
    k.configure({"mysql": {"socket": relay.path}, "standby": {"ttl": f"{ttl}s"}})


OF = f"CREATE DEFINER='{USER}'@'localhost' TRIGGER of_{{0}} BEFORE INSERT ON {{0}} FOR EACH ROW DO 1"
TRIGGERS = ("CREATE TABLE gone (id INT PRIMARY KEY) ENGINE=MEMORY", OF.format("gone"), OF.format("chat"))


def with_dump(k, relay, action):
    """Makes a dump that has a trigger more than the world, and returns the arguments of a restore. `recover`: an earlier one was
    killed after its RENAME."""
    k.server.grant(f"{USER}@localhost", k.world.schema, "TRIGGER")
    k.world.sql(*TRIGGERS)
    k.dump()
    k.world.sql("DROP TABLE gone", "UPDATE mark SET v=2")
    with_lease(k, relay, 10)
    args = ["--restore", "--force", "--with-code"]
    if action == "recover":
        k.run(*args, fault="restore.renamed=kill")
    return args


def with_saves(k, relay):
    """Makes a session that was closed and one that is open, both with a save, and returns the arguments of a write-back."""
    store = made(k, Central(k.server))
    for name in ("a", "b"):
        store.open("of " + name)
        store.put(name, "of " + name, b"1")
    store.close("of a")
    with_lease(k, relay, 10)
    return ["--write-back", "--unlock"]


ACTIONS = {"restore": "restore.", "recover": "restore.", "rollup": "ledger.", "conflicts": "conflicts.",
           "write-back": "progress."}  # the beginnings of their fault points


def prepare(k, relay, action, engine="MEMORY"):
    return (with_saves(k, relay) if action == "write-back" else with_work(k, relay, action, engine)
            if action in ("rollup", "conflicts") else with_dump(k, relay, action))


def rows_of(world):
    return [world.sql(f"SELECT * FROM {table} ORDER BY 1,2") for table in ("gains", "chat", "xp_rollup", "xp_mark", "xp_request")]


CHANGES = re.compile(r"(?:INSERT|REPLACE|UPDATE|DELETE|LOAD|LOCK TABLES|COMMIT|CREATE|DROP|ALTER|RENAME|TRUNCATE|REVOKE)\b")
PASSES = re.compile("SET SESSION lock_wait_timeout=")
# Statements that need not ask, because no player and no game sees what they change.
UNSEEN = re.compile("|".join([
    r"\w+ TEMPORARY TABLE",                                  # a table of the session
    r"[A-Z ]+(?:`[^`]*`\.)?`worldkeeper_tmp_(?!old_|aside_)",  # tables that a restore loads, its proof, the mark in the log
    r"LOAD DATA .* INTO TABLE (?:`[^`]*`\.)?`worldkeeper_tmp_",
    r"CREATE DEFINER=\S+ TRIGGER .* ON `worldkeeper_tmp_new_",
    r"LOCK TABLES `[^`]*` (?:READ|WRITE), ",                  # several: a restore reads the tables that it will replace
    r"\w+ (?:INTO |IGNORE INTO |FROM )?(?:`[^`]*`\.)?`?worldkeeper_(?:lease|sentinel_lease)\b",  # the lease itself
]))


def seen(sql):
    """Returns whether players or games see what the statement changes."""
    return CHANGES.match(sql) and (sql.startswith("RENAME") or not UNSEEN.match(sql))


@pytest.mark.each_server
@pytest.mark.parametrize("action, engine", [("rollup", "MEMORY"), ("rollup", "InnoDB"), ("conflicts", "MEMORY"),
                                            ("restore", "MEMORY"), ("recover", "MEMORY"), ("write-back", "MEMORY")])
def test_each_change_asks_first(primary, server, tmp, action, engine):
    """The statement that asks whether this machine has the world is sent directly before each statement that changes the
    world."""
    sent, k = {}, primary
    with Relay(server, say=lambda sql: sent.setdefault(threading.get_ident(), []).append(sql), path=f"{tmp}/relay") as relay:
        args = prepare(k, relay, action, engine)
        sent.clear()
        k.ok(*args)
    pairs = [(was, sql) for session in sent.values() for was, sql in zip([""] + session, session) if seen(sql)]
    assert len(pairs) >= 2, sent
    assert not [sql for was, sql in pairs if not PASSES.match(was)], "\n".join(f"{a[:60]} -> {b[:120]}" for a, b in pairs)


def fault_points(beginning):
    """Returns the names of the program's fault points that begin so."""
    names = set()
    for path in glob.glob(f"{ROOT}/src/**/*.c", recursive=True):
        with open(path, encoding="utf-8") as f:
            names |= {name for name in re.findall(r'fault_point\("([a-z_.]+)"\)', f.read()) if name.startswith(beginning)}
    return sorted(names)


def lose_lease(k, job):
    """Writes another machine's lease into the store, and waits until the process that renews the stopped job's lease has closed
    the fence and ended. Returns the lease before that."""
    before = k.conditions.objects[k.lease_path]
    lease = json.loads(before)
    with k.conditions.lock:
        k.conditions.objects[k.lease_path] = json.dumps({**lease, "holder": "other/2", "number": lease["number"] + 1}).encode()
    wait_for(lambda: not session_pids(job, but="ZXT"), "the end of its renewals")
    return before


@pytest.mark.sweep(3)
@pytest.mark.parametrize("action, point", [(a, p) for a, beginning in ACTIONS.items() for p in fault_points(beginning)])
def test_nothing_changes_after_the_lease(primary, server, tmp, action, point):
    """An action is stopped at a fault point, loses its lease, and continues: it sends no statement that changes what players
    see. When this machine has the lease again, its supervisor completes or undoes a restore."""
    k, sent = primary, []
    with Relay(server, say=sent.append, path=f"{tmp}/relay") as relay:
        job = k.popen(*prepare(k, relay, action), fault=point + "#1=stop")
        wait_for(lambda: job.poll() is not None or set(thread_states(job.pid)) == {"T"}, "the point, or the end without passing it")
        if job.poll() is not None:
            assert k.finish(job).rc == DONE
            return
        before, n = lose_lease(k, job), len(sent)
        os.kill(job.pid, SIGCONT)
        done = k.finish(job)
        assert not [sql for sql in sent[n:] if seen(sql)], (done, sent[n:])
    if action not in ("restore", "recover"):
        return
    k.conditions.objects[k.lease_path] = before
    k.configure({"mysql": {"socket": server.socket}})
    k.start()

    def left():
        return [t for t, in k.world.sql("SHOW TABLES LIKE 'worldkeeper\\_tmp\\_%'")] + glob.glob(f"{k.dumps_dir}/pending.json")
    wait_for(lambda: not left(), left)
    triggers = {row[0] for row in k.world.sql("SHOW TRIGGERS")}
    assert triggers == ({"of_chat", "of_gone"} if k.world.sql("SHOW TABLES LIKE 'gone'") else {"of_chat"}), done


@pytest.mark.parametrize("action, engine, at", [
    ("rollup", "MEMORY", "SELECT .* FROM .*gains.* LIMIT "), ("rollup", "MEMORY", "REPLACE INTO .*'open'"),
    ("rollup", "InnoDB", "INSERT INTO .*xp_rollup"), ("rollup", "InnoDB", "DELETE .*FROM .*gains"),
    ("conflicts", "MEMORY", "CREATE TEMPORARY TABLE"), ("conflicts", "MEMORY", "LOCK TABLES `chat`")])
def test_work_on_rows_that_slept(primary, server, tmp, action, engine, at):
    """A rollup or --conflicts --apply that was stopped, between two of its pieces or within one, until another machine
    had taken the lease changes nothing more when it continues."""
    k, reached, on, sessions = primary, threading.Event(), threading.Event(), []

    def say(sql):
        if re.match(at, sql) and not reached.is_set():
            reached.set()
            on.wait(60)

    def answered():
        return any(packets and re.match(at, body[1:].decode(errors="replace")) for session in sessions for body, packets in session)
    with Relay(server, say=say, path=f"{tmp}/relay", keep=sessions) as relay:
        args = with_work(k, relay, action, engine)
        job = k.popen(*args)
        wait_for(reached.is_set, "its statement")
        os.killpg(job.pid, SIGSTOP)
        ok(k.other.call("prove"))
        ok(k.other.call("open"))
        take(k.other)
        before = rows_of(k.world)  # now, since a table may be locked soon
        on.set()
        if action == "rollup":  # the server carries the statement out that was on its way
            wait_for(answered, "its end")
            before = rows_of(k.world)
        os.killpg(job.pid, SIGCONT)
        done = k.finish(job)
    assert done.rc == REFUSED and "this machine does not hold the lease of this world" in done.err, done
    assert rows_of(k.world) == before


@NEEDS_ETCD
@pytest.mark.either_server
def test_an_etcd_without_room(make_keeper, world, smtp, tmp):
    """If etcd has no space, renewals work but no machine could take the lease: the primary reports this with a command. A
    restore, whose generation cannot be written into the lease, does not end it."""
    etcd = Etcd(tmp)
    keeper = make_keeper(world).init()
    keeper.configure({"offsite": {"url": f"file://{tmp}/", "plain": "yes"}, "standby": {"lease": "etcd", "etcd": etcd.urls, "ttl": "4s"},
                      **smtp.settings()})

    def said(status):
        return [t for t in status["troubles"] if "NOSPACE" in t["what"] and "alarm disarm" in t["hint"]]
    try:
        keeper.start()
        keeper.dump()
        etcd.alarm("ACTIVATE")
        keeper.wait(lambda: said(keeper.status()), "the condition")
        (mail,) = smtp.wait(lambda mail: "lease cannot be taken over" in mail.subject)
        assert "etcdctl alarm disarm" in mail.text, mail.text
        number = keeper.status()["lease"]["number"]
        keeper.ok("--restore", "--force")
        keeper.wait_state("UP")
        held = time.monotonic() + 6  # longer than the lease
        keeper.wait(lambda: time.monotonic() > held and keeper.state() == "UP", "it keeps the lease")
        assert keeper.status()["lease"]["number"] == number and "WAITING" not in keeper.log().split("NOSPACE")[-1], keeper.log()
        etcd.alarm("DEACTIVATE")
        keeper.wait(lambda: not said(keeper.status()), "its end")
        generation = keeper.status()["generation"]
        wait_for(lambda: etcd.lease(keeper.name)["generation"] == generation, lambda: etcd.lease(keeper.name))
    finally:
        etcd.stop()


def durable(checked):
    """Returns how many durable tables --check counts in the world."""
    return re.search(r"; (\d+) durable", checked.out).group(1)


@pytest.mark.slow
@pytest.mark.each_server
def test_a_primary_and_its_lease(primary):
    """A primary is UP only while it holds a proven lease that can be renewed. If another machine took the lease while it was
    stopped, it never says UP again, steps back, and remains so after a restart."""
    k = primary
    k.start("WAITING", fault="lease_table.writes#1=sleep:500")
    k.wait(lambda: "not known whether the store honors conditional writes" in k.status()["reason"], "no proof")
    assert k.flag() == "WAITING" and k.status()["lease"]["state"] == "gone"
    checked = k.run("--check")
    assert "honors If-None-Match and If-Match" in checked.out, checked
    assert "is not shorter than a fifth of [standby] ttl" in checked.out, checked
    k.wait_state("UP")
    assert in_the_world(k)[:3] == (1, 1, 1), "trace 14: what says UP to players says it to their games, too"
    k.wait(lambda: k.status()["lease"]["state"] == "held", "it is held")
    lease = k.status()["lease"]
    assert (lease["role"], lease["number"]) == ("primary", 1), lease
    # A game reads the lease in its own server, and dumps do not contain it.
    assert in_the_world(k)[3] == k.status()["host"]
    assert durable(k.run("--check")) == durable(checked), "a table of ours is none of the game's"
    k.reload({"dump": {"engines": "all"}})
    k.dump()
    assert not [t for t in k.newest()["tables"] if "lease" in t["name"]]
    k.reload({"dump": {"engines": None}})
    k.dump()
    ok(k.other.call("prove"))
    ok(k.other.call("open"))
    assert k.other.call("take")["result"] == "held"

    shorten(k)
    k.conditions.away = True
    k.wait_state("WAITING")
    wait_for(lambda: in_the_world(k)[2] == 0, "it is over in the world, too")
    k.wait(lambda: k.flag() == "WAITING", "the flag")
    refused = k.run("--restore", "--force")
    assert refused.rc == REFUSED and "this machine does not hold the lease of this world" in refused.err, refused
    k.conditions.away = False
    k.wait_state("UP")
    assert k.status()["lease"]["number"] == 1

    to_all(k, SIGSTOP)
    take(k.other)
    seen = Observer(k)
    to_all(k, SIGCONT)
    k.wait(lambda: k.status()["lease"]["state"] == "stepped-back", "it steps back")
    ok(k.other.call("renew"))
    k.wait(lambda: k.flag() == "WAITING", "the flag")
    assert "stepped back: other/2 has the lease of this world, number 2" in k.status()["reason"]
    k.stop()
    ok(k.other.call("renew"))
    refused = k.run("--restore", "--force")  # no supervisor runs
    assert refused.rc == REFUSED and "other/2 has the lease of this world, number 2" in refused.err, refused
    refused = k.run("--dump")
    assert refused.rc == REFUSED and "other/2 has the lease of this world, number 2" in refused.err, refused
    k.start("WAITING")
    k.wait(lambda: k.status()["lease"]["state"] == "stepped-back", "it is still so")
    refused = k.run("--dump")
    assert refused.rc == REFUSED and "--demote" in refused.err, refused
    # The same holds after the other one released it, because the last holder has the newest world.
    ok(k.other.call("release"))
    k.wait(lambda: "other/2 had the lease" in k.status()["reason"], "it is not taken by itself")
    seen.stop()
    assert not seen.said, seen.said

    # An operator knows that the other machine is gone: a manual restore takes the lease first, with a higher number.
    k.stop()
    refused = k.run("--restore", "--force")
    assert refused.rc == REFUSED and "other/2 had the lease" in refused.err and "--demote" in refused.err, refused
    k.conditions.objects.pop(k.lease_path)
    k.configure({"standby": {"ttl": f"{TTL}s"}})
    k.ok("--restore", "--force")
    k.configure({"standby": {"ttl": "4s"}})
    assert ok(k.other.call("read"))["number"] == 2

    # The last known run time is that of the last status, however soon the lease would have ended.
    def starts():
        return [r for r in k.ok("--history", "--json")["records"] if r["kind"] == "started"]
    k.start()
    wait_for(lambda: datetime.fromisoformat(k.status()["updated"]).timestamp() * 1000 > kept_state(k)["watched_at"],
             "a status newer than the state")
    k.kill9()
    last, before = k.status()["updated"], len(starts())
    k.start()
    k.wait(lambda: len(starts()) > before, "the start")
    assert starts()[-1]["watched_until"] >= last, (starts(), last)

    # A game sees a change with the first renewal, and also the end of a released lease, without waiting for its time.
    k.reload({"standby": {"ttl": "10m"}})
    wait_for(lambda: k.world.sql("SELECT until>UTC_TIMESTAMP(3)+INTERVAL 5 MINUTE FROM worldkeeper_lease") == ((1,),),
             "the longer lease in the world")
    k.ok("--demote", "--force")
    wait_for(lambda: in_the_world(k)[2] == 0, "its end there")
    assert ok(k.other.call("read"))["free"]
