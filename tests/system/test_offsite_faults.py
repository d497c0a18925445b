"""Tests of a running supervisor with a store that refuses, is slow, sends endless answers, lies, is full, or is shared; its
workers are killed at each point. A recorder of all requests checks that no object is replaced, no manifest precedes its data,
nothing is stored in clear text, and no secret is sent."""
import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from datetime import datetime, timezone
from types import SimpleNamespace

import pytest
from wk.crash import OFFSITE_POINTS
from wk.follow import dump_and_follow
from wk.keeper import sanitized
from wk.offsite import AGE, files, lose_machine, manifests, off_site, open_age, segments, stored, wait_segments
from wk.stores import SECRET
from wk.util import PATIENCE, fill_up, peak_mib, wait_for

pytestmark = [pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test"),
              pytest.mark.any_server]
ONE_DUMP = {"keep_last": "1", "keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}
PIECE = 32
BIG = (
    "CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, data VARBINARY(500)) ENGINE=MEMORY",
    "INSERT INTO big (data) SELECT RANDOM_BYTES(500) FROM "
    "(WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i+1 FROM n WHERE i<400) SELECT i FROM n) n")  # 200 kilobytes


class Witness:
    """Checks each request to a Liar before `then`, which may answer it."""

    def __init__(self, liar):
        self.liar, self.then, self.clear, self.broken = liar, None, [], []
        liar.fault = self

    def __call__(self, h):
        path = h.path.partition("?")[0]
        if h.command == "PUT" and "/check-" not in path:
            self.look(path, h.body)
        return bool(self.then) and self.then(h)

    def look(self, path, body):
        if self.liar.objects.get(path, body) != body:
            self.broken.append(f"{path} is replaced")
        if path.endswith(".json"):
            copy = json.loads(body)["offsite"]
            data = self.liar.objects.get(path.rpartition("/")[0] + "/" + copy["file"])
            if data is None or (len(data), hashlib.sha256(data).hexdigest()) != (copy["size"], copy["sha256"]):
                self.broken.append(f"{path} comes without its data")
        elif not body.startswith(AGE) or any(piece in body for piece in self.clear):
            self.broken.append(f"{path} is not encrypted")

    def manifests(self):
        return [path for path in list(self.liar.objects) if path.endswith(".json") and "/w1/dumps/" in path]


class World:
    """A keeper with a dump that is to be stored in a Liar, and the Liar's witness."""

    def __init__(self, keeper, liar, secrets):
        self.keeper, self.liar, self.secrets = keeper, liar, secrets
        self.witness = Witness(liar)
        self.name = self.dump()

    def dump(self):
        name = self.keeper.dump()["name"]
        with open(self.keeper.path(self.keeper.newest()), "rb") as f:
            data = f.read()
        self.witness.clear += [data[i:i + PIECE] for i in range(0, len(data) - PIECE, 997)]
        return name

    def told(self):
        return self.keeper.status().get("offsite") or {}

    def fails(self, words):
        """Waits for another failure whose message has one of these words, and asserts that no copy counts."""
        before = self.told().get("failed") or 0

        def failed():
            o = self.told()
            return o.get("failed", 0) > before and o["state"] == "failing" and any(w in o["last_error"] for w in words) and o
        o = self.keeper.wait(failed, lambda: f"a failure that says {words}, not {self.told()}")
        assert o["newest"] is None and not self.witness.manifests(), o
        return o

    def another_worker(self):
        """Kills the workers; a new one has no failures and does not wait."""
        for pid in off_site(self.keeper):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def all_stored(self):
        o = stored(self.keeper)
        assert [os.path.basename(path).removesuffix(".json") for path in self.witness.manifests()] == [o["newest"]]
        assert not self.witness.broken, self.witness.broken
        self.no_secret()

    def no_secret(self):
        """Asserts that no secret is in the log, the status, the pages, the dumps, the history or the store."""
        texts = [self.keeper.log().encode(), *self.liar.objects.values()]
        for top in (self.keeper.status_dir, self.keeper.dumps_dir):
            for folder, _, names in os.walk(top):
                for name in names:
                    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as f:
                        texts.append(f.read())
        for secret in self.secrets:
            assert not [t for t in texts if secret in t], secret


@pytest.fixture
def world_and_liar(make_world, make_keeper, liar, store):
    def make(**more):
        keeper = make_keeper(make_world("small"), {"retention": ONE_DUMP, "offsite": {
            **liar.settings(), "recipient": store.recipient, "identity_file": store.key, **more}}).init()
        keeper.waits = 20
        with open(store.key, "rb") as f:
            key = next(line.strip() for line in f if line.startswith(b"AGE-SECRET-KEY"))
        return World(keeper, liar, [SECRET.encode(), key])
    return make


ANSWERS = [  # status, code, words of the message
    (403, "AccessDenied", "AccessDenied"), (404, "NoSuchBucket", "NoSuchBucket"), (404, "NoSuchKey", "404"),
    (412, "PreconditionFailed", "taken"), (429, "TooManyRequests", "429"), (500, "InternalError", "InternalError"),
    (503, "SlowDown", "SlowDown"), (507, "StorageFull", "StorageFull")]


def test_answers(world_and_liar):
    """If the store refuses to list, to store or to read back, the status has the store's own words, no incomplete copy counts,
    probes continue, and copies resume when the store works again."""
    w = world_and_liar()

    def lists(h):
        return h.command == "GET" and "list-type" in h.path

    def puts(h):
        return h.command == "PUT"

    def reads(h):
        return h.command == "GET" and "?" not in h.path
    for status, code, words in ANSWERS:
        for when in (lists, puts, reads):
            if status == 412 and when is not puts:  # only a PUT can have this answer
                continue
            # An object that was stored and is missing afterwards has its own message.
            says = [words] + (["is not there"] if status == 404 and when is reads else [])
            w.witness.then = lambda h: when(h) and (h.refuse(status, code) or True)
            w.keeper.alive() or w.keeper.start()
            w.fails(says)
            w.another_worker()
            w.liar.objects.clear()  # a store may hold nine interrupted uploads of a dump
    w.keeper.probes_pass("A")
    w.witness.then = None
    w.all_stored()


def test_nine_interrupted_uploads(world_and_liar):
    """A dump whose nine names are taken is not sent. The alert says which files to delete, and without them the dump is sent."""
    w = world_and_liar()
    folder = f"/{w.liar.settings()['url'].removeprefix('s3://').strip('/')}/w1/dumps/"
    taken = [f"{folder}{w.name}{nth}.sql.gz.age" for nth in ["", *(f".{n}" for n in range(2, 10))]]
    w.liar.objects.update(dict.fromkeys(taken, AGE))
    w.keeper.start()
    w.fails(["9 interrupted uploads"])
    (hint,) = w.keeper.wait(lambda: [found for c in w.keeper.status()["troubles"]
                                     for found in re.findall(r"deleted (\S+) in the store", c["hint"])], "the hint")
    named = [path for path in w.liar.objects if fnmatch.fnmatch(path, f"*/{hint}")]
    assert sorted(named) == sorted(taken)
    for path in named:
        del w.liar.objects[path]
    w.another_worker()
    w.all_stored()


def test_slow_and_endless(world_and_liar):
    """A store that does not answer, or whose refusal, list or file never ends, is given up, takes no memory and delays no
    probe."""
    w = world_and_liar(timeout="1s")
    over = threading.Event()

    def silent(h):
        over.wait(PATIENCE)
        h.close_connection = True
        return True

    def endless(h):
        h.send_response(500 if h.command == "PUT" else 200)
        h.end_headers()
        with contextlib.suppress(OSError):
            while not over.is_set():
                h.wfile.write(b"<Contents><Key>w1/a</Key>" + b"<x>" * 10000)
        h.close_connection = True
        return True
    try:
        for does, says in ((silent, ["too slow", "timed out", "Timeout"]), (endless, ["does not end", "no end", "longer than", "500", "too slow"])):
            for command in ("PUT", "GET"):
                w.witness.then = lambda h: h.command == command and does(h)
                w.keeper.alive() or w.keeper.start()
                w.fails(says)
        (pid,) = off_site(w.keeper)
        assert peak_mib([pid]) < 64 or sanitized()
        w.keeper.probes_pass("A")
    finally:
        over.set()
    w.witness.then = None
    w.keeper.reload({"offsite": {"timeout": "3m"}})  # a second may be too short on a busy machine
    w.all_stored()


def test_figures_while_the_store_is_away(world_and_liar):
    """While the store cannot be listed, what waits is not known. If it can be listed but takes nothing, the status shows how
    much waits, and since when."""
    w = world_and_liar()
    w.keeper.waits = 5
    w.keeper.start()
    stored(w.keeper)
    w.witness.then = lambda h: h.refuse(503, "InternalError") or True
    w.dump()
    told = w.keeper.expect("failures", offsite=lambda o: o["failed"] > 3)["offsite"]
    assert told["state"] == "failing" and told["behind_seconds"] is None and told["waiting"] is None, told
    w.witness.then = lambda h: h.command == "PUT" and (h.refuse(503, "InternalError") or True)
    w.keeper.expect("the dump that waits", offsite=lambda o: o["state"] == "failing" and o["waiting"] == 1 and o["behind_seconds"])
    w.witness.then = None
    stored(w.keeper)


@pytest.mark.parametrize("off", [-1200, 1200])
def test_a_clock_that_is_off(world_and_liar, off):
    """A clock difference of 20 minutes, for which S3 refuses each request, is reported by the status and --check; copies
    resume after the clock is corrected."""
    w = world_and_liar()
    w.liar.late = off

    def skewed(h):
        signed = datetime.strptime(h.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
        wrong = abs(signed - time.time() - w.liar.late) > 900
        return wrong and (h.refuse(403, "RequestTimeTooSkewed") or True)
    w.witness.then = skewed
    w.keeper.start()
    o = w.fails(["RequestTimeTooSkewed"])
    ahead = int(re.search(r"its clock is ([+-]\d+) s from ours", o["last_error"])[1])
    assert ahead * off > 0 and abs(ahead) > 900, o
    said = [line for line in w.keeper.run("--check").out.splitlines() if " off-site store " in line]
    assert said[0].startswith("FAIL") and "RequestTimeTooSkewed" in said[0], said
    w.liar.late = 0
    w.all_stored()


def test_a_store_of_many_that_takes_everything(world_and_liar):
    """In a store that replaces any object and that others use too, no foreign object is touched and none of ours is replaced,
    whichever process is killed and however often dumps supersede each other."""
    w = world_and_liar()

    def ignores(h):
        del h.headers["If-None-Match"]
        return False
    w.witness.then = ignores
    others = {f"/bucket/{name}": b"theirs" for name in (
        "theirs", "w2/dumps/w2-000001.json", "w1/notes", "w1/dumps/notes.txt", "w1/dumps/.hidden", "w1/dumps/sub/x.json",
        "w1/dumps/w1-1.part", "w1/segments/readme", "w10/dumps/a.json")}
    w.liar.objects.update(others)
    for point in OFFSITE_POINTS:
        w.keeper.start(state=None, fault=f"{point}=killall")
        w.keeper.process.wait(PATIENCE)
        w.dump()
    w.keeper.start()
    wait_for(lambda: len(w.witness.manifests()) == 2, "its copy, and the notes of somebody else in sub")
    w.keeper.wait(lambda: w.told().get("state") == "stored" and w.told()["newest"] == w.keeper.newest()["name"], "its copy")
    assert {path: w.liar.objects.get(path) for path in others} == others
    del w.liar.objects["/bucket/w1/dumps/sub/x.json"]
    w.all_stored()


def test_a_store_that_is_full(make_world, make_keeper, small_disk, store):
    """A full store is reported with its error, no incomplete copy counts, dumps continue, and they are stored once there is
    space."""
    path, seen, prefix = small_disk
    keeper = make_keeper(make_world(), {"offsite": {"url": f"file://{path}/", "recipient": store.recipient}})
    keeper.prefix = prefix
    keeper.init().dump()
    there = SimpleNamespace(path=seen)
    fill_up(os.path.join(seen, "ballast"))
    keeper.start()
    keeper.expect("it is full", offsite=lambda o: o and o["failed"] > 1 and "No space left" in (o["last_error"] or ""))
    assert manifests(there) == [] and not [n for n in files(there, "dumps") if not n.endswith(".part")]
    keeper.dump()
    os.unlink(os.path.join(seen, "ballast"))
    stored(keeper)
    assert keeper.newest()["name"] in [m["name"] for m in manifests(there)]


@pytest.mark.slow
def test_a_spool_that_is_full(make_followed, small_disk, store):
    """While the journal's disk is full, stored segments keep their contents; after space was freed, all of the journal is
    stored."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments")}, "offsite": {
        **store.settings["offsite"], "identity_file": store.key}}, seen=os.path.join(seen, "segments"), prefix=prefix)
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    before = segments(store)
    filler = os.path.join(seen, "filler")
    fill_up(filler)
    keeper.world.mark(3)
    keeper.expect("that no space left for the off-site store", offsite=lambda o: "space" in (o["last_error"] or ""))
    keeper.world.sql("UPDATE player SET points=points+1")  # more than a segment's last page has room for
    keeper.expect("that it is full", offsite=lambda o: "space" in (o["last_error"] or ""), journal=lambda j: j["gap"])
    after = segments(store)
    assert {number: after[number][:len(data)] for number, data in before.items() if number in after} == {
        number: data for number, data in before.items() if number in after}
    os.unlink(filler)
    keeper.wait(lambda: len(keeper.dumps()) > 1 and stored(keeper), "the dump in place of what was not followed")
    keeper.world.mark(4)
    keeper.wait(lambda: not keeper.status()["journal"]["gap"], "the journal")
    keeper.segments.wait_all()
    wait_segments(keeper, store)


def test_no_room_is_needed_for_what_is_there(make_followed, small_disk, store):
    """A drill from the store works with a full journal disk if no segment has to be fetched."""
    path, seen, prefix = small_disk
    keeper = make_followed(settings={"journal": {"dir": os.path.join(path, "segments")}, "offsite": {
        **store.settings["offsite"], "identity_file": store.key}}, seen=os.path.join(seen, "segments"), prefix=prefix)
    dump_and_follow(keeper)
    stored(keeper)
    keeper.stop()
    fill_up(os.path.join(seen, "filler"))
    keeper.server.grant("keeper@localhost", "worldkeeper_drill_w1")
    keeper.ok("--drill", "--from", "offsite")


def test_many_copies_that_are_not_usable(world_and_liar):
    """Manifests in the store that have no HMAC of our key are read twice, and then only one of them whenever the store is
    listed: with many of them a list would be too old to send a dump after it."""
    w = world_and_liar()
    w.keeper.waits = 2000
    w.keeper.configure({"retention": {"keep_last": "9"}})
    for _ in range(3):
        w.keeper.dump()
    w.keeper.start()
    w.keeper.wait(lambda: len(w.witness.manifests()) == 4, "four copies")
    w.keeper.stop()
    w.keeper.configure({"dump": {"hmac_key_file": w.keeper.secret("hmac", "k" * 32)}})
    w.keeper.ok("--seal")
    old, asked = set(w.witness.manifests()), []

    def ask(h):
        if h.command == "GET" and ("/dumps/" in h.path or "%2Fdumps%2F" in h.path):
            asked.append(h.path)
        return False
    w.witness.then = ask
    w.keeper.start()

    def lists():
        return [n for n, path in enumerate(asked) if path not in old and "list-type" in path]
    w.keeper.wait(lambda: len(lists()) > 12, "several lists")
    after = [path for path in asked[lists()[5]:lists()[12]] if path in old]
    assert 0 < len(after) <= 8, (len(after), asked)
    name = w.dump()
    wait_for(lambda: any(name in path for path in w.witness.manifests()), "a new copy")
    w.keeper.expect("what is wrong", troubles=lambda t: any("is not usable" in x["what"] for x in t))


@pytest.mark.parametrize("ending", [".json", ".pin"])
def test_one_wrong_answer_deletes_no_copy(world_and_liar, ending):
    """If the store lists the manifest or the pin of an old copy, but once answers that it is missing, the copy stays, and is
    known again after the next list."""
    w = world_and_liar(plain="yes", recipient=None, identity_file=None)
    w.liar.fault, w.keeper.waits = None, 1000
    if ending == ".json":  # the last dump of a round is deleted without its pin
        w.keeper.configure({"retention": {"keep_last": "9"}})
    w.keeper.start()
    stored(w.keeper)
    old = w.keeper.ok("--new-round", "--json")["last"]
    w.keeper.dump()
    w.keeper.wait(lambda: [path for path in list(w.liar.objects) if path.endswith(old + ".pin")], "the pin in the store")
    stored(w.keeper)
    w.keeper.stop()
    for name in os.listdir(w.keeper.dumps_dir):
        if name == "offsite.json" or name.startswith(old):
            os.remove(os.path.join(w.keeper.dumps_dir, name))
    before, asked = {path for path in w.liar.objects if old in path}, []

    def once(h):
        asked.append(h.path)
        return asked.count(h.path) == 1 and h.path.endswith(old + ending) and (h.refuse(404, "NoSuchKey") or True)
    w.liar.fault = once
    w.keeper.set_clock(3 * 86400)  # remains of an upload are deleted after a day
    w.keeper.start(**w.keeper.shim(clock=w.keeper.clock))

    def read_again():
        return [path for path in asked if path.endswith(old + ending)][1:] or not before <= set(w.liar.objects)
    w.keeper.wait(read_again, "the second answer")
    lists = len([path for path in asked if "list-type" in path])
    w.keeper.wait(lambda: len([path for path in asked if "list-type" in path]) > lists + 4, "more lists")
    assert before <= set(w.liar.objects), before - set(w.liar.objects)
    w.keeper.wait(lambda: w.told()["state"] == "stored" and not w.keeper.status()["troubles"], "everything is known again")


@pytest.mark.parametrize("point", OFFSITE_POINTS)
def test_a_worker_is_killed(world_and_liar, point):
    """A worker that is killed at this point is reported and replaced, again and again, and the copies stay complete."""
    w = world_and_liar()
    w.keeper.start(fault=f"{point}=kill")
    times = 1 if point == "offsite.manifest_sent" else 3  # after this point nothing is left to upload
    w.keeper.wait(lambda: w.told().get("failed", 0) >= times, "workers that ended")
    assert "ended unexpectedly" in w.told()["last_error"], w.told()
    w.keeper.probes_pass("A")
    w.keeper.kill9()
    w.keeper.start()
    w.all_stored()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_killed_while_it_deletes(world_and_liar, nth):
    """The manifest of a dump is deleted before its data, so that each manifest in the store has its data after a kill; the
    rest is deleted later."""
    w = world_and_liar()
    w.keeper.start()
    stored(w.keeper)
    w.keeper.stop()
    w.dump()
    w.keeper.start(state=None, fault=f"offsite.spare#{nth}=killall")
    w.keeper.process.wait(PATIENCE)
    for path in w.witness.manifests():
        copy = json.loads(w.liar.objects[path])["offsite"]
        assert path.rpartition("/")[0] + "/" + copy["file"] in w.liar.objects, path
    w.keeper.start()
    w.keeper.wait(lambda: len(w.witness.manifests()) == 1, "the newest only")
    w.all_stored()


@pytest.mark.parametrize("status", [403, 503])
def test_a_store_that_takes_no_journal(make_followed, store, liar, status):
    """If the store takes nothing of the segment being written, but can be listed and read, one alert opens and stays until the
    store takes it again."""
    keeper = make_followed("empty", {"offsite": {**liar.settings(), "recipient": store.recipient}}, BIG)
    keeper.waits = 100
    dump_and_follow(keeper)
    stored(keeper)
    liar.fault = lambda h: h.command == "PUT" and "/segments/" in h.path and (h.refuse(status, "AccessDenied") or True)
    keeper.world.sql(BIG[1])

    def alert():
        return [t for t in keeper.status()["troubles"] if "no new copies are stored" in t["what"]]
    keeper.wait(alert, "the alert")
    before = keeper.status()["offsite"]["failed"]
    for _ in range(20):
        keeper.wait(lambda: keeper.status()["offsite"]["failed"] > before, "another failure")
        before = keeper.status()["offsite"]["failed"]
        assert alert()
    told = [r for r in keeper.ok("--history", "--json")["records"] if r["kind"] == "offsite" and not r["ok"]]
    assert len(told) == 1, told
    liar.fault = None
    stored(keeper)
    keeper.wait(lambda: not alert(), "the end of it")


def test_parts_that_cannot_be_read_back(make_followed, store, liar):
    """With delete = never, few names are used for a part while the store cannot be read, and the journal is stored afterwards,
    even if the list of unverified parts was longer than its limit."""
    keeper = make_followed("empty", {"journal": {"segment": "64KiB"}, "offsite": {
        **liar.settings(), "recipient": store.recipient, "delete": "never"}}, BIG)
    keeper.waits = 1000
    dump_and_follow(keeper)
    stored(keeper)
    doubts = os.path.join(keeper.segments.dir, "w1.unproven")

    def names():
        return {path for path in list(liar.objects) if "/segments/" in path}

    def failed():
        return keeper.status()["offsite"]["failed"]

    def fails_more_often(by):
        before = failed()
        keeper.wait(lambda: failed() >= before + by, "failures")
    before = names()
    liar.fault = lambda h: h.command == "GET" and "/segments/" in h.path and "?" not in h.path and (
        h.refuse(503, "InternalError") or True)
    keeper.world.sql(BIG[1])
    keeper.wait(lambda: len(keeper.segments.paths()) > 1, "a complete segment")
    fails_more_often(25)
    used = len(names() - before)
    assert 0 < used * 5 <= failed(), (used, failed())
    for pid in off_site(keeper):  # a new worker does not know what the last one sent
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    fails_more_often(3)
    keeper.stop()
    with open(doubts) as f:
        listed = f.read().splitlines()
    assert len(set(listed)) == len(listed) and {"/bucket/" + name for name in listed} <= names(), listed
    with open(doubts, "a") as f:
        f.writelines(f"w1/segments/w1-{n:012}-{1:013}.{0:012}-{64:012}.age\n" for n in range(1000, 2200))
    assert os.path.getsize(doubts) > 65536
    liar.fault = None
    keeper.start()
    stored(keeper)
    keeper.wait(lambda: not os.path.exists(doubts) or os.path.getsize(doubts) < 1000, "names that are not in the store are forgotten")


@pytest.mark.parametrize("point", ["offsite.chosen", "offsite.sent"])
def test_killed_beside_the_journal(make_followed, store, point):
    """An object part whose upload was cut off by a kill does not count: it is uploaded again, and the whole journal can be
    restored."""
    keeper = make_followed(settings={"offsite": {**store.settings["offsite"], "identity_file": store.key}})
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    keeper.kill9()
    keeper.start(state=None, fault=f"{point}=killall")
    keeper.world.mark(3)
    keeper.process.wait(PATIENCE)
    keeper.start()
    world = keeper.world.snapshot()
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    for name in files(store, "segments"):
        assert name.endswith(".part") or open_age(store, os.path.join(store.path, "w1/segments", name)) is not None, name
    lose_machine(keeper)
    keeper.init()
    keeper.ok("--restore=latest", "--from", "offsite", "--json")
    keeper.world.assert_is(world)


def test_killed_when_it_has_come(make_followed, store):
    """A downloaded dump that was not yet renamed does not count as a dump; the next restore downloads it again."""
    keeper = make_followed(settings={"journal": {"mode": "off"}, "offsite": {
        **store.settings["offsite"], "identity_file": store.key}})
    name = keeper.dump()["name"]
    before = keeper.world.snapshot()
    keeper.start()
    stored(keeper)
    lose_machine(keeper)
    keeper.init()
    killed = keeper.run("--restore", "--from", "offsite", fault="offsite.fetched=kill")
    assert killed.rc == -signal.SIGKILL and not keeper.dumps(), killed
    keeper.ok("--restore", "--from", "offsite")
    keeper.world.assert_is(before)
    assert [m["name"] for m in keeper.dumps()] == [name]
    assert subprocess.run(["age", "-d", "-i", store.key, os.path.join(store.path, f"w1/dumps/{name}.sql.gz.age")],
                          capture_output=True).returncode == 0
