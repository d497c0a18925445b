"""Tests of the test harness itself, on which the other tests rely."""
import json
import os
import signal
import smtplib
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from wk.audit import AuditedWriters, Writer
from wk.crash import go_on, wait_stopped
from wk.server import begin_odd, mysqldump, stock_restore
from wk.snapshot import diff
from wk.takeover import Game
from wk.util import CANARY, CROWDED, Timeout, crowding, session_pids, wait_for, work_of
from wk.watch import Beside
from wk.zoo import NAMES

pytestmark = pytest.mark.either_server


@pytest.mark.each_server
def test_sessions_are_listed_whatever_their_statements(server):
    """Sessions are listed even if their statement is not text, can be selected by each field, and are gone after they were
    ended."""
    odd = begin_odd(server)
    (seen,) = server.sessions(id={odd.thread_id(), 0}, user="root", command="Query", info="SELECT SLEEP(%")
    assert seen.id in [session.id for session in server.sessions()] and not server.sessions(id=seen.id, state="Waiting%")
    assert server.end_sessions(id=seen.id) == 1 and not server.sessions(id=seen.id)
    odd.close()


def test_a_reload_is_waited_for_until_the_running_job_has_ended(keeper):
    """reload() returns only after the running job has ended, because workers use the old config until then."""
    keeper.dump()
    keeper.start(fault="dump.streamed#1=stop")
    dump = keeper.popen("--dump")
    at_work = wait_stopped(keeper, "dump.streamed")

    class Going(Beside):
        def work(self):
            keeper.wait_log("is reloaded when the running dump ends")
            time.sleep(0.5)
            go_on(at_work)
    with Going():
        keeper.reload({"dump": {"interval": "1h"}})
        assert f"{keeper.config_path} reloaded\n" in keeper.log()
    assert keeper.finish(dump).rc == 0


def test_zoo_is_complete_and_a_snapshot_is_stable(make_world):
    """Every statement of the zoo works on the server, and two snapshots of it are equal."""
    zoo = make_world("all")
    picture = zoo.snapshot()
    assert len([k for k in picture if k.startswith("table ")]) >= 20 + len(NAMES)
    assert {k.split()[0] for k in picture} == {
        "rows", "table", "view", "trigger", "procedure", "function", "event"}
    assert ("21", "0:", "0:", "2:6D31", "0:") in picture["rows z_enum"]  # index 0 is not ''
    assert "AUTO_INCREMENT=777" in picture["table z_auto_empty"]
    assert not diff(picture, zoo.snapshot())


CHANGES = [
    ("UPDATE z_float SET f=16777200 WHERE id=0", "rows z_float"),
    ("UPDATE z_float SET d=0 WHERE id=0", "rows z_float"),
    ("UPDATE z_enum SET e2='' WHERE id=21", "rows z_enum"),
    ("UPDATE z_bin SET v=CONCAT(v,' ') WHERE id=5", "rows z_bin"),
    ("UPDATE z_time SET t6=t6-INTERVAL 1 MICROSECOND WHERE id=2", "rows z_time"),
    ("DELETE FROM z_no_key LIMIT 1", "rows z_no_key"),
    ("UPDATE z_hidden SET hidden=1 WHERE id=1", "rows z_hidden"),
    ("ALTER TABLE z_auto_empty AUTO_INCREMENT=778", "table z_auto_empty"),
    ("DROP TRIGGER z_after", "trigger z_after"),
    ("ALTER TABLE d_aria COMMENT='x'", "table d_aria"),
    ("UPDATE d_inno SET b=CONCAT(b,'\\0') WHERE id=1", "rows d_inno"),
]


def test_snapshot_sees_the_smallest_change(make_world):
    """A snapshot shows one changed bit, counter or definition."""
    zoo = make_world("all")
    before = zoo.snapshot()
    for change, table in CHANGES:
        zoo.sql(change)
        after = zoo.snapshot()
        difference = diff(before, after)
        assert repr(table) in difference and difference.count("\n") < 12, (change, difference)
        before = after


def test_a_crash_empties_memory_tables_and_nothing_else(victim, make_world):
    """kill -9 and a restart empty the MEMORY tables and no durable table."""
    zoo = make_world("all", on=victim)
    before = zoo.snapshot()
    start = victim.start_time()
    victim.crash()
    assert victim.start_time() > start
    after = zoo.snapshot()
    assert after["rows z_int"] == [] and before["rows z_int"]
    assert after["rows d_inno"] == before["rows d_inno"]


def test_the_stock_tools_work_on_the_worlds(make_world, tmp):
    """The stock tools dump and restore the small world."""
    small, other = make_world(), make_world("empty")
    path = mysqldump(small.server, small.schema, tmp + "/old.sql.gz")
    stock_restore(other.server, path, other.schema)
    assert other.rows("fleet") == small.rows("fleet") == 3000
    assert diff(small.snapshot(), other.snapshot()).startswith("'rows player'")  # FLOAT is not exact


def test_stopped_server_does_not_answer(victim):
    """A server that was stopped with SIGSTOP accepts no connection; SIGCONT resumes it."""
    victim.sigstop()
    with pytest.raises(Exception):
        victim.admin(read_timeout=1, connect_timeout=1)
    victim.sigcont()
    assert victim.value("SELECT 1") == 1
    assert session_pids(victim.process) == [victim.process.pid]


def test_an_answer_of_before_the_crash_is_not_up(doomed, victim):
    """If the supervisor reads a probe's answer only after the server crashed, its status says UP once more; wait_state must not
    be deceived. If the sleeps are too short, the test passes without this case."""
    doomed.dump()
    doomed.start()
    probe = doomed.worker("probe")
    os.kill(probe, signal.SIGSTOP)
    time.sleep(0.5)  # the next probe waits here,
    doomed.process.send_signal(signal.SIGSTOP)
    os.kill(probe, signal.SIGCONT)
    time.sleep(0.3)  # and its answer waits here
    victim.crash()
    doomed.process.send_signal(signal.SIGCONT)
    doomed.wait_state("UP")
    assert doomed.world.rows() == 2000


def test_a_number_that_is_somebody_elses_by_now():
    """session_pids returns only processes that the ended leader left behind, not a process that has its id now."""
    class Ended:
        def __init__(self, pid):
            self.pid = pid

        def poll(self):
            return 0
    leader = subprocess.Popen(["bash", "-c", "sleep 60 & sleep 60 & wait"], start_new_session=True)
    try:
        wait_for(lambda: len(session_pids(leader)) == 3, "its children")
        assert session_pids(Ended(leader.pid)) == []
        leader.kill()
        leader.wait()
        assert len(session_pids(leader)) == 2
    finally:
        for pid in session_pids(leader):
            os.kill(pid, signal.SIGKILL)


class Clock:
    """Replaces `time`: each sleep advances it by one second."""
    now = 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += 1


@pytest.mark.parametrize("work, waits", [(lambda now: 0, 11), (lambda now: now // 9, 101), (lambda now: min(now // 9, 3), 33)])
def test_a_wait_for_a_program_that_works(monkeypatch, work, waits):
    """wait_for gives up one timeout after the program last did work, and it never waits forever."""
    clock = Clock()
    monkeypatch.setattr("wk.util.time", clock)
    monkeypatch.setattr("wk.util.crowding", lambda: 1)
    with pytest.raises(Timeout):
        wait_for(lambda: False, "nothing", timeout=10, work=lambda: work(clock.now))
    assert waits <= clock.now <= waits + 11, clock.now
    clock.now = 0
    assert wait_for(lambda: clock.now > 25, "it", timeout=10, work=lambda: clock.now)


def test_a_wait_on_a_crowded_machine(monkeypatch):
    """Time counts less while more threads than processors want to run."""
    clock = Clock()
    monkeypatch.setattr("wk.util.time", clock)
    monkeypatch.setattr("wk.util.crowding", lambda: 3)
    with pytest.raises(Timeout):
        wait_for(lambda: False, "nothing", timeout=10)
    assert 30 <= clock.now <= 33, clock.now
    monkeypatch.undo()
    assert 1 <= crowding() <= CROWDED


def test_what_a_program_did(tmp):
    """work_of counts processor time and log size, and ignores missing programs and logs."""
    log = os.path.join(tmp, "log")
    assert work_of([], log) == (0, 0)
    with open(log, "w") as f:
        f.write("begun")
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        wait_for(lambda: work_of([busy.pid, 0], log)[0] > 0, "a second of its processor time")
        assert work_of([busy.pid], log)[1] == 5
    finally:
        busy.kill()
        busy.wait()


def test_a_killed_servers_number_given_to_another(victim, server):
    """The next server starts although another server now has the killed one's process id."""
    victim.kill9()
    if victim.mysql:
        with open(victim.socket + ".lock", "w") as lock:  # the lock file of a killed server, with another server's process id
            lock.write(f"{server.process.pid}\n")
    victim.start()
    assert victim.value("SELECT 1") == 1


@pytest.mark.parametrize("tls", [None, "starttls", "smtps"])
def test_smtp_sink(make_smtp, tls):
    """The mail sink accepts mail with login over each kind of transport, and can reject one."""
    sink = make_smtp(tls=tls, login="bot")
    context = ssl.create_default_context(cafile=sink.ca)

    def connect():
        if tls == "smtps":
            return smtplib.SMTP_SSL("127.0.0.1", sink.port, context=context)
        client = smtplib.SMTP("127.0.0.1", sink.port)
        if tls:
            client.starttls(context=context)
        return client
    with connect() as client:
        client.login("bot", CANARY)
        client.sendmail("a@example.com", ["b@example.com", "c@example.com"],
                        "Subject: =?utf-8?q?sz=C3=A9p?=\r\n\r\nhello\r\n")
    (mail,) = sink.wait()
    assert (mail.subject, mail.to, mail.login, mail.tls) == (
        "szép", ["b@example.com", "c@example.com"], "bot", tls is not None)
    sink.mode = "450 later"
    with connect() as client, pytest.raises(smtplib.SMTPRecipientsRefused):
        client.login("bot", CANARY)
        client.sendmail("a@example.com", ["b@example.com"], "Subject: x\r\n\r\nx\r\n")


def test_http_sink(http):
    """The HTTP sink records requests and fails as configured."""
    def post(body):
        request = urllib.request.Request(http.url, data=json.dumps(body).encode(), method="POST")
        return urllib.request.urlopen(request, timeout=60)
    post({"event": "down"})
    assert http.wait_event("down") == [{"event": "down"}]
    http.mode, http.headers = 429, {"Retry_After": "7"}
    with pytest.raises(urllib.error.HTTPError) as error:
        post({})
    assert error.value.code == 429 and error.value.headers["Retry-After"] == "7"
    http.mode = "redirect"
    with pytest.raises(urllib.error.HTTPError, match="loop"):
        urllib.request.urlopen(http.url, timeout=60)


def test_tarpit_takes_and_never_answers(tarpit):
    """The tarpit accepts a connection and sends nothing."""
    with socket.create_connection(("127.0.0.1", tarpit.port)) as s:
        s.settimeout(0.3)
        with pytest.raises(TimeoutError):
            s.recv(1)


BOOKS = [{}, {1: "a"}, {1: "a", 2: "b"}, {1: "a"}, {1: "a", 3: "c"}]  # the third change is undone


def wrote(*times):
    """Returns a writer whose n-th change was on its way during the n-th (from, to)."""
    writer = Writer(None, 0, 0, ())
    for n, (sent, acknowledged) in enumerate(times):
        key = {1: 1, 2: 2, 3: 2, 4: 3}[n + 1]
        writer.told.append((sent, acknowledged, "bank", key, BOOKS[n + 1].get(key)))
    return writer


def book(rows):
    return {"bank": rows, "ship": {}, "news": {}}


def test_the_ledger_knows_a_moment_from_a_muddle():
    """The audit accepts all changes up to one and none after it; for several writers, up to the same time."""
    writer = wrote((1, 2), (3, 4), (5, 6), (7, 8))
    assert [writer.kept(book(rows)) for rows in BOOKS] == [[0], [1, 3], [2], [1, 3], [4]]
    assert writer.kept(book({2: "b"})) == [] and writer.kept(book({3: "c"})) == []
    writers = AuditedWriters(None, "x")
    writers.threads = [writer, wrote((1.5, 2.5), (4.5, 5.5))]
    assert writers.cut([[4], [2]]) == ([], float("inf"))
    assert writers.cut([[3], [1]]) == ([writer.told[3], writers.threads[1].told[1]], 5.5)
    lost, first = writers.cut([[1, 3], [0]])  # of equal states, the one at that time
    assert len(lost) == 5 and first == 2.5
    with pytest.raises(AssertionError, match="no moment"):
        writers.cut([[4], [1]])


def played(found, **state):
    """Returns a game after the restore of a dump of its second change, after which `found` is there."""
    game = Game(None, "x", count=1)
    game.threads, game.book = [wrote((1, 2), (3, 4), (5, 6), (7, 8))], [book(BOOKS[4])]
    game.threads[0].book = game.book[0]
    game.go_back(([book(BOOKS[2])], 0), **state)
    game.threads[0].told = [(9, 10, "bank", 4, "d")]
    game.threads[0].acknowledge("bank", 4, "d")
    game.read = lambda: ([book(found)], [])
    return game


def test_the_torture_knows_where_a_restore_of_an_older_dump_leads():
    """After such a restore the dump's state counts. Only a reported loss may bring back the world before it, and not once the
    other machine has the restored one."""
    restored, before = {**BOOKS[2], 4: "d"}, BOOKS[4]
    played(restored).audit()
    assert played(restored).audit_cut(11) == (0, 0) and played(BOOKS[2]).audit_cut(11) == (1, 1)
    for wrong in (before, {**before, 4: "d"}, BOOKS[2]):
        with pytest.raises(AssertionError, match="rows wrong"):
            played(wrong).audit()
    assert played(before).audit_cut(11) == (0, 0) and played(BOOKS[1]).audit_cut(11) == (3, 1)
    with pytest.raises(AssertionError, match="no moment"):
        played({**before, 4: "d"}).audit_cut(11)
    stored = played(before)
    stored.past = None
    with pytest.raises(AssertionError, match="no moment"):
        stored.audit_cut(11)
    played(before, unsure=True).audit()
