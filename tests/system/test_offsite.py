"""Tests of copies on another machine: they are complete, encrypted and stored newest first whichever process is killed, and
the world can be restored from them after its machine is lost."""
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import machine
import pytest
from test_ledger_world import gain, prepare
from wk.audit import TABLES, AuditedWriters
from wk.crash import OFFSITE_POINTS, go_on, stopped, wait_stopped
from wk.follow import LOG, another_server, dump_and_follow, live
from wk.keeper import BINARY, DONE, NOT_WELL, REFUSED, USAGE, USER, Keeper
from wk.offsite import (PLAIN, files, lose_machine, manifests, nothing_readable, off_site, open_age, parts, segments, stored,
                        wait_segments)
from wk.progress import Central, made
from wk.snapshot import snapshot
from wk.server import MYSQL
from wk.stores import S3, Caller, Liar, Sshd
from wk.util import PATIENCE, wait_for

pytestmark = [pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test"),
              pytest.mark.either_server]
BIG = (
    "CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, data VARBINARY(500)) ENGINE=MEMORY",
    "INSERT INTO big (data) SELECT RANDOM_BYTES(500) FROM (WITH RECURSIVE n AS "
    "(SELECT 1 AS i UNION ALL SELECT i+1 FROM n WHERE i<1000) SELECT i FROM n) a, "
    "(WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i+1 FROM n WHERE i<12) SELECT i FROM n) b")  # six megabytes
SEED = os.environ.get("WK_SEED") or str(random.randrange(10**9))


def test_stored_and_by_hand(make_followed, store, make_server):
    """A stored dump is the encrypted local dump: age opens it with the key, and nothing in the store is readable without it."""
    keeper = make_followed(settings=store.settings)
    keeper.world.sql(f"INSERT INTO player (nick,points) VALUES ('{PLAIN}',7)")
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    told = stored(keeper)
    assert told["stored"] == 1 and told["failed"] == 0 and told["last_error"] is None, told
    nothing_readable(store)
    (m,) = manifests(store)
    packed = open_age(store, os.path.join(store.path, "w1/dumps", m["offsite"]["file"]))
    assert packed
    with open(keeper.path(keeper.newest()), "rb") as f:
        assert packed == f.read()
    kept = keeper.wait(lambda: [r for r in keeper.ok("--history", "--json")["records"] if r["kind"] == "offsite"], "its record")
    assert [(r["ok"], r["dump"], r["bytes"]) for r in kept] == [(True, m["name"], m["offsite"]["size"])]


@pytest.mark.parametrize("way", ["recipient", "recipients_file"])
def test_several_recipients(keeper, store, tmp, way):
    """Each recipient's key opens a copy, with age and with worldkeeper; any other key does not."""
    keys = [os.path.join(tmp, f"key{i}") for i in range(3)]
    public = []
    for key in keys:
        subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
        public.append(subprocess.run(["age-keygen", "-y", key], check=True, capture_output=True, text=True).stdout.strip())
    value = ", ".join(public[:2])
    if way == "recipients_file":
        value = keeper.secret("recipients", f"# both admins\n{public[0]}\n\n{public[1]}", 0o644)
    keeper.configure({"offsite": {"url": f"file://{store.path}/", way: value}})
    keeper.dump()
    keeper.start()
    stored(keeper)
    keeper.stop()
    (m,) = manifests(store)
    copy = os.path.join(store.path, "w1/dumps", m["offsite"]["file"])
    with open(keeper.path(keeper.newest()), "rb") as f:
        dump = f.read()
    assert [open_age(SimpleNamespace(key=key), copy) for key in keys] == [dump, dump, None]
    for key, rc in zip(keys, (DONE, DONE, NOT_WELL)):
        keeper.configure({"offsite": {"identity_file": key}})
        done = keeper.run("--verify", "--from", "offsite", "--json")
        assert done.rc == rc, done


@pytest.mark.quick
def test_machine_is_lost(make_followed, store):
    """A bare machine with the config and the key restores the world up to the last change that was stored, and then stores new
    dumps."""
    settings = {"offsite": {**store.settings["offsite"], "identity_file": store.key}}
    keeper = make_followed(settings=settings)
    keeper.world.sql(f"INSERT INTO player (nick,points) VALUES ('{PLAIN}',7)")
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    lose_machine(keeper)
    listed = keeper.ok("--list", "--from", "offsite", "--json")
    assert [(d["name"], d["intact"]) for d in listed["dumps"]] == [(m["name"], True) for m in manifests(store)]
    verified = keeper.ok("--verify", "--from", "offsite", "--json")
    assert [d["whole"] for d in verified["dumps"]] == [True]
    keeper.init()
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    for ending in ("", ".sql.gz"):
        for action in ("--verify", "--drill"):
            keeper.ok(f"{action}={listed['dumps'][0]['name']}{ending}", "--from", "offsite")
    done = keeper.ok("--restore", "--from", "offsite", "--json")
    keeper.world.assert_is(before)
    assert done["journal"]["filed"] == done["journal"]["changes"] > 0, done
    keeper.start()
    newest = keeper.dump()["name"]
    stored(keeper)
    assert newest in [m["name"] for m in manifests(store)]
    nothing_readable(store)


@pytest.mark.parametrize("journal", [{}, {"mode": "server"}, {"mode": "off"}], ids=["default", "server", "off"])
def test_a_bare_machine_that_follows_nothing(make_followed, make_server, make_world, make_keeper, store, journal):
    """A drill and a restore on another server use the journal in the store, whatever [journal] mode says there, and report no
    error of that server's own log. Without a follower, dumps delete the fetched segments."""
    settings = {"offsite": {**store.settings["offsite"], "identity_file": store.key}}
    keeper = make_followed(settings=settings)
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    keeper.kill9()
    here = make_world("empty", on=make_server(*LOG), schema=keeper.world.schema)
    bare = make_keeper(here, {**settings, "journal": {**journal, "keep": "1s"}})
    bare.init()
    bare.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    for done in bare.ok("--drill", "--from", "offsite", "--json"), bare.ok("--restore", "--from", "offsite", "--json"):
        told = done["journal"]
        assert told["used"] and told["filed"] == told["changes"] > 0, done
        assert told["gap"].startswith("its files end at ") and "1236" not in told["gap"], done
        assert ("mode = off" if journal.get("mode") == "off" else "a different server") in told["gap"], done
    assert snapshot(here.server, here.schema) == before
    there = os.path.join(bare.dumps_dir, "journal")
    fetched = os.listdir(there)
    assert fetched
    for _ in range(3):
        bare.dump()
    assert len(os.listdir(there)) <= 1, fetched


@pytest.mark.parametrize("engine", ["memory", "innodb"])
def test_a_new_machine_gets_the_game_s_code(make_keeper, make_world, make_server, server, store, engine):
    """A restore on a new machine restores views, routines and events after --init, which reports that a ledger's table is
    missing."""
    world = make_world(on=make_server("--log-bin-trust-function-creators=ON"))
    keeper = make_keeper(world, {"offsite": {**store.settings["offsite"], "identity_file": store.key}})
    everything = "GRANT ALL ON *.* TO keeper@localhost"
    world.server.sql(everything)
    made(prepare(keeper), Central(server), engine=engine)
    gain(world, 20)
    keeper.ok("--rollup")
    world.sql("CREATE DEFINER=keeper@localhost VIEW rich AS SELECT id FROM player WHERE points>5",
              "CREATE DEFINER=keeper@localhost PROCEDURE heal() UPDATE player SET points=points+1",
              "CREATE DEFINER=keeper@localhost EVENT tick ON SCHEDULE EVERY 1 YEAR DISABLE DO SET @a=1")
    before = world.snapshot()
    keeper.dump()
    keeper.start()
    stored(keeper)
    lose_machine(keeper)
    world.server.sql(everything)
    assert "has no such table; a restore recreates it" in keeper.ok("--init").err
    done = keeper.ok("--restore", "--from", "offsite", "--json")
    world.assert_is(before)
    assert done["definitions"] == {"made": 5} and "warning" not in done, done
    assert keeper.ok("--init", "--json")["ledgers"] == []


def test_what_is_here_of_the_journal_grows(make_followed, store, tmp):
    """Repeated drills fetch what a local segment lacks, also after a local write of the segment was cut off."""
    settings = {"offsite": {**store.settings["offsite"], "identity_file": store.key}}
    keeper = make_followed(settings=settings)
    dump_and_follow(keeper)
    stored(keeper)
    here = os.path.join(tmp, "here")
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    other = Keeper(os.path.join(tmp, "other"), keeper.world, settings={
        **settings, "journal": {"mode": "follow", "dir": here}}, account=False)
    for mark in range(3):
        keeper.world.mark(mark)
        keeper.segments.wait_all()
        wait_segments(keeper, store)
        there, paths = segments(store), keeper.segments.paths()
        other.ok("--drill", "--from", "offsite", "--json")
        for path in paths:
            with open(path, "rb") as f, open(os.path.join(here, os.path.basename(path)), "rb") as got:
                data = got.read()
                assert f.read().startswith(data), path
                assert len(data) >= len(there[int(path.rpartition("-")[2].partition(".")[0])])
        newest = os.path.join(here, os.path.basename(paths[-1]))
        if mark == 1:
            os.truncate(newest, os.path.getsize(newest) - 7)


def test_a_segment_that_is_just_begun(make_followed, store):
    """A new, empty segment is not reported as damaged; it is stored as soon as it has contents."""
    keeper = make_followed(settings=store.settings)
    keeper.dump()
    keeper.start(fault="journal.write#1=stop")
    keeper.world.mark(2)
    wait_stopped(keeper, "the head of a segment")
    assert [os.path.getsize(path) for path in keeper.segments.paths()] == [0]
    seen = stored(keeper)
    several_looks(keeper)
    go_on(stopped(keeper))
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    assert seen["failed"] == stored(keeper)["failed"] == 0


def test_a_segment_that_is_written_meanwhile(make_followed, store):
    """A drill from the store does not shorten the segment that the follower is writing."""
    keeper = make_followed(settings={"offsite": {**store.settings["offsite"], "identity_file": store.key}}, tables=BIG)
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    keeper.dump()
    keeper.world.sql(BIG[1])
    keeper.start(fault="journal.write#8=stop")
    wait_stopped(keeper, "the middle of a transaction")
    (path,) = keeper.segments.paths()
    stored(keeper)
    wait_for(lambda: parts(store), "its beginning is in the store")
    size = os.path.getsize(path)
    assert max(to for _, _, to, _ in parts(store)) < size
    keeper.ok("--drill", "--from", "offsite")
    assert os.path.getsize(path) == size
    go_on(stopped(keeper))
    keeper.segments.wait_all()
    assert not keeper.segments.errors()


def test_a_segment_that_is_damaged_here(make_followed, store):
    """A restore from the store succeeds with a damaged local segment and names a solution; that solution restores the rest as
    well."""
    keeper = make_followed(settings={"offsite": {**store.settings["offsite"], "identity_file": store.key}})
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    keeper.stop()
    (path,) = keeper.segments.paths()
    flip(path, 30)
    another_server(keeper)
    done = keeper.run("--restore", "--from", "offsite")
    assert done.rc == DONE and "move the journal's directory away" in done.err, done
    os.rename(os.path.dirname(path), os.path.dirname(path) + ".old")
    another_server(keeper)
    keeper.ok("--restore", "--from", "offsite")
    keeper.world.assert_is(before)


def test_what_a_full_disk_did_not_take_is_remembered_later(make_world, make_keeper, small_disk, store):
    """A dump is stored while the dump directory's disk is full, and offsite.json is written as soon as there is space."""
    path, seen, prefix = small_disk
    keeper = make_keeper(make_world(), {"dump": {"dir": path}, **store.settings})
    keeper.dumps_dir, keeper.prefix = seen, prefix
    keeper.waits = 3  # the store is examined again only after longer than a wait lasts
    ballast = os.path.join(seen, "ballast")
    name = keeper.init().dump()["name"]
    keeper.start(fault="offsite.chosen#1=stop")
    wait_stopped(keeper, "the begin of an upload")
    with open(ballast, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"x" * 4096)
    go_on(stopped(keeper))
    keeper.expect("it is stored", offsite=lambda o: o and o["stored"] == 1)
    keeper.expect("which disk is full", troubles=lambda all_: any(
        f"on this machine, in {path}: cannot write offsite.json" in t["what"] and f"df -h {path}" in t["hint"] for t in all_))
    os.unlink(ballast)

    def remembered():
        with open(os.path.join(seen, "offsite.json")) as f:
            return name in f.read()
    keeper.wait(remembered, "the dump in offsite.json")


@pytest.mark.parametrize("how", ["missing", "mode", "rubbish", "other", "right"])
def test_an_identity_that_reads_no_copy_is_found(keeper, store, tmp, how):
    """--check loads the identity file as a restore does, and compares it with the recipients of the copies."""
    key = os.path.join(tmp, "identity2")
    if how == "other":
        subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
    elif how == "rubbish":
        with open(key, "w") as f:
            f.write("# no key\nAGE\n")
        os.chmod(key, 0o600)
    elif how != "missing":
        shutil.copy(store.key, key)
        os.chmod(key, 0o644 if how == "mode" else 0o600)
    keeper.configure({"offsite": {**store.settings["offsite"], "identity_file": key}})
    done = keeper.run("--check", "--json")
    bad = [c["text"] for c in done.result["checks"] if c["level"] == "fail"]
    if how == "right":
        assert not bad and keeper.run("--list", "--from", "offsite").rc == DONE, done
        return
    expected = {"missing": "No such file", "mode": "0644", "rubbish": "line 2", "other": "none of its keys belongs"}
    assert len(bad) == 1 and "[offsite] identity_file" in bad[0] and expected[how] in bad[0], done
    assert how == "other" or keeper.run("--list", "--from", "offsite").rc != DONE


def test_identity_is_not_needed_to_store(make_followed, store):
    """Without an identity file dumps are stored and verified, and a drill from encrypted copies is refused. A store other than
    that of the config is refused as well."""
    keeper = make_followed(settings=store.settings)
    keeper.dump()
    keeper.start()
    stored(keeper)
    keeper.stop()
    verified = keeper.ok("--verify", "--from", "offsite", "--json")
    assert [d["whole"] for d in verified["dumps"]] == [True]
    refused = keeper.run("--drill", "--from", "offsite")
    assert refused.rc == USAGE and "identity_file names no key" in refused.err, refused
    assert keeper.run("--list", "--from", "elsewhere").rc == USAGE
    assert keeper.run("--restore", "--from", "offsite", "--dry-run").rc == USAGE


@pytest.mark.parametrize("point", OFFSITE_POINTS)
def test_killed(make_followed, store, point):
    """After a kill of all processes at any point of an upload nothing in the store is replaced, each manifest there has
    complete data, and the next supervisor stores the rest."""
    keeper = make_followed(settings={**store.settings, "journal": {"mode": "off"}})
    name = keeper.dump()["name"]
    keeper.start(state=None, fault=f"{point}=killall")
    keeper.process.wait(PATIENCE)
    before = {f: os.stat(os.path.join(store.path, "w1/dumps", f)).st_mtime_ns for f in files(store, "dumps")}
    assert len(manifests(store)) == (point == "offsite.manifest_sent")
    keeper.start()
    told = stored(keeper)
    assert told["stored"] == 1 and told["failed"] == 0, told
    assert [m["name"] for m in manifests(store)] == [name]
    for f, at in before.items():
        path = os.path.join(store.path, "w1/dumps", f)  # an unfinished upload may have been deleted
        assert not os.path.exists(path) or os.stat(path).st_mtime_ns == at, f
    nothing_readable(store)


def test_other_bytes(make_followed, store):
    """A copy whose contents changed in the store fails the verification; a restore uses the dump before it."""
    settings = {"offsite": {**store.settings["offsite"], "identity_file": store.key}, "journal": {"mode": "off"}}
    keeper = make_followed(settings=settings)
    first = keeper.dump()["name"]
    before = keeper.world.snapshot()
    keeper.world.mark(2)
    second = keeper.dump()["name"]
    keeper.start()
    keeper.wait(lambda: (keeper.status()["offsite"] or {}).get("stored") == 2, "both are stored")
    newest = next(m for m in manifests(store) if m["name"] == second)
    flip(os.path.join(store.path, "w1/dumps", newest["offsite"]["file"]))
    lose_machine(keeper)
    verified = keeper.run("--verify", "--from", "offsite", "--json")
    assert {d["name"]: d["whole"] for d in verified.result["dumps"]} == {first: True, second: False}, verified
    keeper.init()
    done = keeper.ok("--restore", "--from", "offsite", "--json")
    assert done["dump"] == first, done
    keeper.world.assert_is(before)
    assert second not in [m["name"] for m in keeper.dumps()]


def test_a_copy_in_place_of_a_dump_that_was_found_damaged(make_followed, store):
    """A dump that was fetched in place of a damaged one counts as good, and scheduled drills use it."""
    keeper = make_followed(settings={"offsite": {**store.settings["offsite"], "identity_file": store.key},
                                     "journal": {"mode": "off"}})
    keeper.server.grant(USER + "@localhost", "worldkeeper_drill_w1")
    name = keeper.dump()["name"]
    keeper.start()
    stored(keeper)
    keeper.stop()
    flip(keeper.path(keeper.newest()))
    assert keeper.run("--verify").rc == NOT_WELL
    assert keeper.ok("--drill", "--from", "offsite", "--json")["dump"] == name
    assert keeper.run("--verify").rc == 0
    keeper.configure({"drill": {"interval": "1d", "from": "offsite", "max_load": "100000%"}})
    keeper.start()
    last = keeper.wait(lambda: keeper.status()["last_drill"], "a drill by the clock")
    assert last["ok"] and last["automatic"] and last["dump"] == name and last["from"] == "offsite", last
    keeper.stop()
    assert [r["from"] for r in keeper.ok("--history", "--json")["records"] if r["kind"] == "drill"] == ["offsite"] * 2


def test_a_drill_from_a_place_with_a_very_long_name(keeper, store):
    """A drill from a place with a very long name fails as a usage error, and the state of the last drill survives a restart."""
    keeper.configure({"offsite": {**store.settings["offsite"], "identity_file": store.key}, "drill": {"from": "offsite"}})
    keeper.dump()
    keeper.start()
    assert keeper.run("--drill", "--from", "x" * 2000).rc == USAGE
    last = keeper.wait(lambda: keeper.status()["last_drill"], "what it came to")
    assert not last["ok"] and last["error_kind"] == "usage", last
    keeper.stop()
    keeper.start()
    assert keeper.status()["last_drill"] == last


def test_the_end_of_copies_is_noted_once(keeper, store, http):
    """A reload that removes the store notes the end of copies exactly once in the history."""
    keeper.configure({**store.settings, **http.settings(), "journal": {"mode": "off"}})
    keeper.dump()
    os.makedirs(os.path.join(store.path, "w1"), exist_ok=True)
    with open(os.path.join(store.path, "w1/dumps"), "w"):
        pass
    keeper.start()
    keeper.expect("the failure", troubles=lambda all_: any("no new copies" in t["what"] for t in all_))
    keeper.reload({"offsite": dict.fromkeys(keeper.settings["offsite"])})
    wait_for(lambda: [m for m in http.messages() if "copies are no longer configured" in m["what"]], "the end to be told")
    keeper.stop()
    with open(os.path.join(keeper.dumps_dir, "history.jsonl")) as f:
        assert f.read().count("copies are no longer configured") == 1


def test_a_copy_that_was_found_damaged(make_followed, store):
    """A damaged copy no longer counts in the store: retention keeps the last good one and the status reports the damage, until
    the copy is found good again."""
    rules = {"keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}
    keeper = make_followed(settings={**store.settings, "journal": {"mode": "off"}, "retention": {**rules, "keep_last": "2"}})
    names = [keeper.dump()["name"] for _ in range(2)]
    keeper.start()
    keeper.wait(lambda: stored(keeper)["stored"] == 2, "both are stored")
    keeper.stop()
    bad = os.path.join(store.path, "w1/dumps", names[1] + ".sql.gz.age")
    flip(bad)
    assert keeper.run("--verify", "--from", "offsite").rc == NOT_WELL
    keeper.configure({"retention": {"keep_last": "1"}})
    left = os.path.join(store.path, f"w1/dumps/{names[0]}.json.1700000000-0123abcd.part")
    with open(left, "w"):
        pass
    keeper.start()
    wait_for(lambda: not os.path.exists(left), "the end of a tidy")
    o = keeper.wait(lambda: (lambda o: o["stored"] is not None and o)(keeper.status()["offsite"]), "the status")
    assert o["stored"] == 1 and o["newest"] == names[0] and o["state"] == "failing", o
    assert names[1] in o["last_error"] and "damaged" in o["last_error"], o
    assert [m for m in files(store, "dumps") if m.endswith(".json")] == [n + ".json" for n in names]
    keeper.stop()
    flip(bad)
    keeper.ok("--verify", "--from", "offsite")
    keeper.start()
    wait_for(lambda: files(store, "dumps") == [names[1] + end for end in (".json", ".sql.gz.age")], "the newest only")
    keeper.wait(lambda: stored(keeper)["stored"] == 1, "the status to know it")


def test_a_login_that_may_not_delete(tmp, base):
    """--check warns about a login that may not delete if nothing is to be deleted, and fails otherwise. Repeated checks leave
    only one file in the store."""
    liar = Liar(base)
    liar.fault = lambda h: h.command == "DELETE" and (h.refuse(403, "AccessDenied") or True)

    def check(**more):
        caller = Caller(tmp, liar.settings(), **more)
        done = subprocess.run([BINARY, "--config", caller.config, "--allow-root", "--check"], capture_output=True, text=True)
        assert caller.close() == 0
        return [line.split()[0] for line in done.stdout.splitlines() if " off-site store " in line and "plain = yes" not in line]
    try:
        assert check(delete="never") == check(delete="never") == ["warn"]
        assert len(liar.objects) == 1
        assert check() == ["FAIL"]
    finally:
        liar.stop()


class Gate:
    """Makes a store send only half of a dump until the gate opens. `then` lists what happens to the rest of each following
    dump."""

    def __init__(self, liar):
        self.liar, self.then, self.open, self.late = liar, [], threading.Event(), 0
        liar.fault = self

    def __call__(self, h):
        path = h.path.partition("?")[0]
        if h.command != "GET" or not path.endswith(".sql.gz") or not self.then:
            return False
        data, then = bytearray(self.liar.objects[path]), self.then.pop(0)
        if then == "other bytes":
            data[-100000] ^= 1
        h.send_response(200)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        sent = len(data) // 2
        h.wfile.write(data[:sent])
        begun = last = time.monotonic()
        while then == "slowly" and last < begun + 7:
            h.wfile.write(data[sent:sent + 1000])
            sent += 1000
            time.sleep(0.1)
            self.late, last = max(self.late, time.monotonic() - last), time.monotonic()
        self.open.wait(PATIENCE)
        if then == "cut off":
            h.close_connection = True
        else:
            h.wfile.write(data[sent:])
        return True


def restore_slowly(keeper, gate):
    """Restores the newest dump of the store while its second half arrives slowly."""
    def restored():
        gate.then, gate.late = ["slowly"], 0
        done = keeper.run("--restore=latest", "--from", "offsite", "--json")
        assert done.rc == DONE or gate.late > 2, done  # unless the test itself was delayed for too long
        return done.rc == DONE
    wait_for(restored, "the restore of what comes slowly")
    assert not gate.then


def test_restored_while_it_comes(make_followed, base):
    """A restore loads rows while the rest of the dump is being downloaded. A dump that is cut off or has other contents
    replaces nothing, and is downloaded once more; one that is cut off each time is not used."""
    liar = Liar(base)
    gate = Gate(liar)
    keeper = make_followed("empty", {"journal": {"mode": "off"}, "offsite": {
        **liar.settings(), "plain": "yes", "timeout": "30m"}}, BIG)  # long enough to wait for the gate
    try:
        name = keeper.dump()["name"]
        keeper.start()
        stored(keeper)
        before = keeper.world.snapshot()
        keeper.stop()
        lose_machine(keeper)
        keeper.init()

        def shadows():
            return [name for (name,) in keeper.world.sql("SHOW TABLES LIKE '%new%'")]

        def loaded():
            """Returns the rows of the tables that are being loaded, from the server's statistics, because the tables are
            locked. MySQL would repeat its first answer for a day."""
            return keeper.world.sql(*(["SET information_schema_stats_expiry=0"] if MYSQL else []),
                                    "SELECT MAX(TABLE_ROWS) FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() "
                                    "AND TABLE_NAME LIKE '%new%'")[0][0]
        for then, times, says in (("cut off", 100, "cannot be read"), ("other bytes", 3, "no usable dump in"), ("cut off", 1, None),
                                  ("other bytes", 1, None)):
            if not says:
                lose_machine(keeper)
                keeper.init()
            gate.open.clear()
            gate.then = [then] * times
            restore = keeper.popen("--restore", "--from", "offsite")
            wait_for(loaded, "rows while half of it is not here")
            gate.open.set()
            done = keeper.finish(restore)
            assert (times == 100 or not gate.then) and ("SHA-256" in done.err) == (then == "other bytes"), done
            assert not keeper.parts() and not shadows(), done
            if says:
                assert done.rc != 0 and says in done.err, done
                assert not keeper.dumps() and not keeper.world.sql("SHOW TABLES LIKE 'big'"), done
                continue
            assert done.rc == 0 and [d["name"] for d in keeper.dumps()] == [name], done
            keeper.world.assert_is(before)
    finally:
        gate.open.set()
        liar.stop()


def test_slow_but_not_stalled(make_followed, base):
    """Bytes that arrive count as progress of a restore, also while it waits for the definition of a table before it loads any
    row."""
    liar = Liar(base)
    gate = Gate(liar)
    keeper = make_followed("empty", {
        "journal": {"mode": "off"}, "offsite": {**liar.settings(), "plain": "yes"}, "dump": {"engines": "all"},
        "restore": {"scope": "all", "new_server": "yes"}},
        (*BIG, "CREATE TABLE zzz (id INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO zzz VALUES (1)"))
    try:
        keeper.dump()
        keeper.start()
        stored(keeper)
        before = keeper.world.snapshot()
        keeper.stop()
        lose_machine(keeper)
        keeper.configure({"restore": {"stall": "5s"}})
        keeper.init()
        second = int(time.time())
        wait_for(lambda: time.time() >= second + 1, "another second: else its first dump has the name of the one there")
        keeper.start()
        keeper.wait(keeper.dumps, "the dump that it makes first")
        gate.open.set()
        restore_slowly(keeper, gate)
        keeper.world.assert_is(before)
    finally:
        gate.open.set()
        liar.stop()


def test_slow_with_its_journal_but_not_stalled(make_followed, base):
    """A restore that waits for a dump's definitions to read the journal does not count as stalled."""
    liar = Liar(base)
    gate = Gate(liar)
    keeper = make_followed("empty", {
        "journal": {"mode": "server"}, "offsite": {**liar.settings(), "plain": "yes"},
        "restore": {"stall": "5s", "auto": "no"}},
        (*BIG, "CREATE TABLE zzz (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO zzz VALUES (1)"))
    try:
        dump = keeper.dump()
        keeper.start()
        stored(keeper)
        keeper.world.sql("INSERT INTO zzz VALUES (2)")
        before = keeper.world.snapshot()
        keeper.stop()
        os.remove(dump["path"])
        os.remove(os.path.join(keeper.dumps_dir, dump["name"] + ".json"))
        keeper.server.crash()
        keeper.start(None)
        keeper.wait_log("so an admin must run --restore")
        gate.open.set()
        restore_slowly(keeper, gate)
        keeper.world.assert_is(before)
    finally:
        gate.open.set()
        liar.stop()


def test_stored_where_nothing_is_followed(keeper, store):
    """Without a binary log only dumps are stored, and the status reports no delay."""
    keeper.configure({"journal": {"mode": "follow"}, **store.settings})
    keeper.dump()
    keeper.start()
    assert stored(keeper)["behind_seconds"] == 0


def test_copies_that_come_too_late(make_followed, store):
    """Copies that are late because the newest upload takes longer than max_dump_age are reported until that upload ends."""
    keeper = make_followed("empty", {"journal": {"mode": "off"}, "alert": {"max_dump_age": "1s"}, "offsite": {
        **store.settings["offsite"], "max_rate": "64KiB"}}, BIG)
    keeper.dump()
    keeper.start()

    def late(status):
        return [t for t in status.get("troubles", [{"what": " are late"}]) if " are late" in t["what"]]
    status = keeper.wait(lambda: (lambda s: late(s) and s)(keeper.status()), "copies that are late")
    assert "max_rate" in late(status)[0]["hint"] and status["offsite"]["state"] == "sending", status["offsite"]
    keeper.reload({"offsite": {"max_rate": "0"}})
    keeper.wait(lambda: not late(keeper.status()), "the end of that")


def test_a_directory_that_is_replaced(make_followed, store):
    """After another directory took the place of the store's, as if another disk was mounted there, everything is stored in it."""
    keeper = make_followed(settings=store.settings)
    keeper.waits = 100
    dump_and_follow(keeper)
    stored(keeper)
    os.rename(store.path, store.path + ".old")
    os.mkdir(store.path, 0o700)
    name = keeper.dump()["name"]
    keeper.world.mark(2)
    keeper.segments.wait_all()
    wait_for(lambda: name in [m["name"] for m in manifests(store)], "the dump")
    wait_segments(keeper, store)
    assert stored(keeper)["failed"] > 0


def test_a_store_that_lost_everything(make_followed, store):
    """After a store has lost its files, dumps and the whole journal are stored again, as soon as the dumps are listed."""
    keeper = make_followed(settings=store.settings)
    keeper.waits = 100
    dump_and_follow(keeper)
    keeper.world.mark(1)
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    stored(keeper)
    os.rename(os.path.join(store.path, "w1"), store.path + ".old")
    keeper.world.mark(2)
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    stored(keeper)
    wait_for(lambda: [m["name"] for m in manifests(store)] == [keeper.newest()["name"]], "its dump")


def test_a_dump_that_appears_during_a_long_upload(make_followed, store):
    """A dump that waits for the long upload of an older one is late, too, although nothing newer waited when that began."""
    keeper = make_followed("empty", {"journal": {"mode": "off"}, "alert": {"max_dump_age": "1s"}, "offsite": {
        **store.settings["offsite"], "max_rate": "64KiB"}}, BIG)
    keeper.waits = 100
    old = keeper.dump()["name"]
    keeper.world.sql("DELETE FROM big")
    new = keeper.dump("--force")["name"]
    keeper.start()
    wait_for(lambda: [m["name"] for m in manifests(store)] == [new], "the newer dump in the store")
    keeper.wait(lambda: keeper.status()["offsite"]["behind_seconds"] == 0, "nothing that is newer")
    wait_for(lambda: any(old in name for name in files(store, "dumps")), "the long upload to begin")
    keeper.dump()
    keeper.wait(lambda: any(" are late" in t["what"] for t in keeper.status().get("troubles", [])), "copies that are late")
    assert old not in [m["name"] for m in manifests(store)]


def test_a_key_that_is_set_later(make_followed, store):
    """Copies from before an HMAC key was set are reported as such. This hides neither that no copies are stored nor that
    copies are late."""
    keeper = make_followed("empty", store.settings, BIG)
    keeper.waits = 100
    dump_and_follow(keeper)
    wait_for(lambda: parts(store), "a part of the journal")
    stored(keeper)
    name = keeper.newest()["name"]
    keeper.reload({"dump": {"hmac_key_file": keeper.secret("hmac", "k" * 32)}})

    def words(status):
        return [t["what"] for t in status.get("troubles", [])]
    wait_for(lambda: keeper.newest()["name"] != name, "the dump that the key signs")
    status = keeper.expect("the copy from before", troubles=lambda all_: any(name in t["what"] for t in all_))
    (told,) = [t for t in status["troubles"] if name in t["what"]]
    assert "not all is well with the copies on the other machine" in told["what"] and f"w1/dumps/{name}.*" in told["hint"], told
    there = os.path.join(store.path, "w1/segments")
    os.rename(there, there + ".old")
    with open(there, "w"):
        keeper.world.sql(BIG[1])
        keeper.wait(lambda: any("no new copies are stored on the other machine" in w for w in words(keeper.status())),
                    "the journal that is not stored")
    os.remove(there)
    os.rename(there + ".old", there)
    keeper.reload({"alert": {"max_dump_age": "1s"}, "offsite": {"max_rate": "64KiB"}})
    keeper.dump()
    keeper.wait(lambda: any(" are late" in w for w in words(keeper.status())), "copies that are late")
    keeper.reload({"offsite": {"max_rate": "0"}})
    for file in files(store, "dumps"):
        if file.startswith(name):
            os.remove(os.path.join(store.path, "w1/dumps", file))
    keeper.wait(lambda: not [w for w in words(keeper.status()) if "other machine" in w], "the end of that")
    keeper.wait(lambda: keeper.status()["offsite"]["state"] == "stored", "all is well")


def test_a_key_that_is_set_by_a_reload(make_followed, store):
    """After a reload that sets the key no copy fails: the state is signed before the workers that send copies read it."""
    keeper = make_followed("small", {**store.settings, "journal": {"mode": "off"}})
    keeper.dump()
    keeper.start()
    stored(keeper)
    keeper.reload({"dump": {"hmac_key_file": keeper.secret("hmac", "k" * 32)}})
    name = keeper.dump()["name"]
    wait_for(lambda: any(m["name"] == name for m in manifests(store)), "the dump in the store")
    assert keeper.status()["offsite"]["failed"] == 0, keeper.status()["offsite"]


def flip(path, at=-20):
    """Flips one bit of the file."""
    with open(path, "r+b") as f:
        f.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))


def test_a_damaged_dump_is_no_failure_of_the_copies(keeper, store):
    """A local dump that proves damaged while it is sent is reported once, as a damaged dump. Its copy does not count, and the
    next dump is stored."""
    keeper.configure(store.settings)
    bad = keeper.dump()
    flip(bad["path"])
    keeper.start()
    keeper.wait(lambda: keeper.status().get("damaged_dumps"), "the damaged dump")
    assert keeper.status()["damaged_dumps"][0]["by"] == "store upload"
    keeper.wait(lambda: keeper.newest()["name"] != bad["name"], "another dump")
    told = stored(keeper)
    assert told["failed"] == 0 and told["last_error"] is None, told
    assert bad["name"] not in [m["name"] for m in manifests(store)]
    (trouble,) = keeper.status()["troubles"]
    assert bad["name"] in trouble["what"] and "other machine" not in trouble["what"], trouble
    assert "this is over when" in trouble["hint"], trouble


@pytest.mark.parametrize("delete", ["own", "never"])
def test_a_part_of_which_other_bytes_came_back(make_followed, store, delete):
    """An object part that reads back with other contents never counts: it is uploaded again, and a restore from the store
    succeeds."""
    keeper = make_followed(settings={"offsite": {
        **store.settings["offsite"], "identity_file": store.key, "delete": delete}})
    keeper.dump()
    keeper.start(fault="offsite.sent#1=stop")
    wait_for(lambda: parts(store), "a part of the journal")
    bad = parts(store)[0][3]
    wait_stopped(keeper, "the end of an upload")
    wait_for(lambda: (lambda p: len(p) == 2 and p)(off_site(keeper, "T")), "both have sent something")
    flip(bad)
    go_on(off_site(keeper, "T"))
    keeper.expect("it is found", offsite=lambda o: o and o["failed"] > 0 and "returns different contents" in (o["last_error"] or ""))
    keeper.world.mark(2)
    before = keeper.world.snapshot()
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    assert (os.path.exists(bad) and open_age(store, bad) is None) == (delete == "never")
    lose_machine(keeper)
    keeper.init()
    keeper.ok("--restore=latest", "--from", "offsite", "--json")
    keeper.world.assert_is(before)


def several_looks(keeper):
    """Waits until the workers have looked for work several times (by their context switches)."""
    def turns():
        total = 0
        for pid in off_site(keeper):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/status") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt"))
        return total
    before = turns()
    keeper.wait(lambda: turns() > before + 40, "several looks at it")


def test_a_journal_that_is_damaged_there(make_followed, store):
    """A restore with damaged object parts restores the dump and reports what is missing. Rows written into the empty world
    meanwhile make the restore stop, and stay."""
    keeper = make_followed(settings={"offsite": {**store.settings["offsite"], "identity_file": store.key}})
    before = keeper.world.snapshot()
    dump_and_follow(keeper)
    stored(keeper)
    keeper.world.mark(2)
    keeper.segments.wait_all()
    wait_segments(keeper, store)
    lose_machine(keeper)
    for _, _, _, path in parts(store):
        flip(path)
    keeper.init()
    process = keeper.popen("--restore", "--from", "offsite", fault="restore.loaded=stop")
    wait_stopped(keeper, "what was loaded")
    keeper.world.sql("CREATE TABLE early (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO early VALUES (1)")
    os.killpg(process.pid, signal.SIGCONT)
    refused = keeper.finish(process)
    assert refused.rc == REFUSED and "rows were written into it" in refused.err, refused
    assert "of the journal in the store" in refused.err, refused
    assert keeper.world.sql("SELECT id FROM early") == ((1,),)
    keeper.world.sql("DROP TABLE early")
    keeper.ok("--restore", "--from", "offsite")
    keeper.world.assert_is(before)


def test_a_segment_that_is_read_as_damaged(make_followed, store):
    """A segment is reported as damaged, and its copy given up, only after a second reading."""
    keeper = make_followed(settings=store.settings)
    keeper.waits = 20
    dump_and_follow(keeper)
    keeper.world.mark(2)
    keeper.segments.wait_all()
    keeper.stop()
    bad = keeper.segments.paths()[-1]
    flip(bad, 30)
    # Stops the dump that replaces a damaged segment, which no process can continue.
    keeper.start(fault="offsite.damaged#1=stop,dump.chosen=stop")
    sender = keeper.wait(lambda: off_site(keeper, "T"), "a segment that is damaged")
    flip(bad, 30)
    go_on(sender)
    several_looks(keeper)
    assert "copies are no longer configured" not in keeper.log()
    go_on(stopped(keeper))
    assert stored(keeper)["failed"] == 0


def test_what_is_written_now_cannot_be_read(make_followed, store):
    """A damaged current segment is reported as missing copies, because none of the journal is stored."""
    keeper = make_followed(settings=store.settings)
    keeper.waits = 20
    dump_and_follow(keeper)
    stored(keeper)
    keeper.segments.wait_all()
    flip(keeper.segments.paths()[-1], 30)
    keeper.wait(lambda: any("no new copies are stored on the other machine: journal segment" in t["what"]
                            for t in keeper.status()["troubles"]), "it is said")


def test_a_worker_that_hangs_or_dies(make_followed, store):
    """The figures of a worker that hangs are reported as unknown. A worker that dies is reported, and the next one continues."""
    keeper = make_followed(settings={**store.settings, "journal": {"mode": "off"}})
    keeper.dump()
    keeper.start()
    stored(keeper)
    (pid,) = off_site(keeper)
    os.kill(pid, signal.SIGSTOP)
    told = keeper.expect("it is not known", offsite=lambda o: o["state"] is None)["offsite"]
    assert told["behind_seconds"] is None and told["waiting"] is None and told["stored"] is None, told
    os.kill(pid, signal.SIGKILL)
    keeper.wait(lambda: keeper.status()["offsite"]["failed"] >= 1, "it is told")
    assert "ended unexpectedly" in stored(keeper)["last_error"]


@pytest.fixture(params=["file", "sftp", "s3"])
def far(request, store, base):
    """Runs the test with a store of each kind (file, sftp, s3), all with the same key."""
    kinds = {"sftp": (Sshd, "sshd"), "s3": (S3, "radosgw")}
    if request.param not in kinds:
        yield store
        return
    make, needs = kinds[request.param]
    if machine.why_not(needs):
        pytest.skip(machine.why_not(needs))
    server = make(base)
    path = os.path.join(server.files, "store") if server.files else None
    yield SimpleNamespace(path=path, listed=getattr(server, "listed", None), key=store.key, settings={
        "offsite": {**server.settings(), "recipient": store.recipient, "timeout": "3m"}})
    server.stop()


@pytest.mark.slow
def test_machines_are_lost(make_followed, far):
    """Loses the machine at a random moment, twice, while writers record their changes. Each restore gives the world of one
    moment, and no lost change is older than the last stored one."""
    print("seed", SEED)
    rand, store = random.Random(SEED), far
    keeper = make_followed("empty", {"offsite": {**store.settings["offsite"], "identity_file": store.key},
                                     "journal": {"segment": "64KiB"}}, TABLES)
    dump_and_follow(keeper)
    writers = AuditedWriters(keeper.world, SEED, count=2)
    writers.pause = 0.002
    for _ in range(2):
        with writers:
            writers.wait_changes(50)
            keeper.segments.wait_all()  # the follower works, or has requested a dump
            keeper.wait(lambda: live(keeper)["state"] == "following" and not live(keeper)["gap"], "the journal")
            wait_for(lambda: keeper.newest()["name"] + ".json" in files(store, "dumps"), "the dump is in the store")
            writers.wait_changes(rand.randrange(50, 1000))
            there = time.monotonic()
            keeper.segments.wait_all()
            sizes = {int(path.rpartition("-")[2].partition(".")[0]): os.path.getsize(path)
                     for path in keeper.segments.paths()}
            wait_for(lambda: all(max((to for n, _, to, _ in parts(store) if n == number), default=0) >= size
                                 for number, size in sizes.items()), "that is in the store")
            time.sleep(rand.random() * 2)
            keeper.server.grow_old()
            killed = time.monotonic()
            keeper.kill9()
            keeper.server.kill9()
        lose_machine(keeper)
        keeper.init()
        told = keeper.ok("--restore", "--from", "offsite", "--json")
        age, lost = writers.audit_cut(killed)
        assert age <= killed - there, (age, lost, killed - there, told)
        print("lost", lost, "changes, the oldest", age, "s old; stored before:", killed - there)
        keeper.start()


@pytest.mark.parametrize("slow", [{}, {"fault": "offsite.sent=sleep:400"}], ids=["fast", "slow"])
def test_a_game_that_never_pauses(make_followed, store, slow):
    """While the game writes all the time, finished segments are stored and joined, with a fast and with a slow store."""
    keeper = make_followed("empty", {**store.settings, "journal": {"segment": "64KiB"}}, TABLES)
    keeper.waits = 1
    keeper.dump()
    keeper.start(**slow)
    keeper.wait(lambda: live(keeper)["state"] == "following", "the journal")
    writers = AuditedWriters(keeper.world, SEED, count=2)
    writers.pause = 0.005
    with writers:
        keeper.wait(lambda: len(keeper.segments.paths()) > 4, "segments")
        done = keeper.segments.numbers()[:4]

        def joined():
            of = {n: [(begin, end) for number, begin, end, _ in parts(store) if number == n] for n in done}
            return all(len(found) == 1 and found[0][0] == 0 for found in of.values())
        wait_for(joined, lambda: f"the segments {done} are joined: {[p[:3] for p in parts(store)]}", timeout=60)


def test_dumps_that_never_pause(keeper, store):
    """While dumps are made faster than a slow store takes them, a pinned dump and a file of rolled-up rows are stored, and dumps
    that [retention] does not keep are deleted there."""
    prepare(keeper, keep="30d")
    keeper.configure({**store.settings, "retention": {
        "keep_last": "2", "keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}})
    first = keeper.dump()["name"]
    keeper.start(fault="offsite.sent=sleep:1500")
    wait_for(lambda: first + ".json" in files(store, "dumps"), "the first dump is in the store")
    gain(keeper.world, 20)
    keeper.ok("--rollup")
    pinned = keeper.dump()["name"]
    keeper.world.sql("DELETE FROM player WHERE id>100")
    for _ in range(120):
        keeper.dump()
        there = files(store, "dumps")
        done = {"deleted": first + ".json" not in there, "pinned": pinned + ".json" in there,
                "rolled up": any(name.endswith(".json") for name in files(store, "ledgers"))}
        if all(done.values()):
            break
        time.sleep(0.5)
    assert all(done.values()), (done, there)


def test_pins_in_the_store(keeper, store):
    """A pin is stored beside the dump's copy, also later, and is released there with the one that is here. A pin in the store
    that this machine never had keeps the copy, even if it cannot be read."""
    keeper.configure({**store.settings, "journal": {"mode": "off"}, "retention": {
        "keep_last": "1", "keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}})
    keeper.dump()
    keeper.start()
    stored(keeper)
    last = keeper.ok("--new-round", "--json")["last"]
    keeper.dump()
    for _ in range(2):
        wait_for(lambda: last + ".pin" in files(store, "dumps"), "the pin in the store")
        keeper.stop()
        os.remove(os.path.join(store.path, "w1/dumps", last + ".pin"))  # a store of an earlier version
        keeper.start()
    wait_for(lambda: last + ".pin" in files(store, "dumps"), "the pin once more")
    assert {d["name"]: d.get("pinned") for d in keeper.ok("--list", "--from", "offsite", "--json")["dumps"]}[last]
    os.remove(os.path.join(keeper.dumps_dir, last + ".pin"))
    wait_for(lambda: not [name for name in files(store, "dumps") if name.startswith(last)], "the release in the store")
    stored(keeper)
    keeper.stop()
    strange = keeper.newest()["name"]
    with open(os.path.join(store.path, "w1/dumps", strange + ".pin"), "w") as f:
        f.write("x" * 5000)
    keeper.start()
    keeper.expect("the pin that cannot be read", troubles=lambda all_: any(
        f"the pin of dump {strange}" in t["what"] and f"{strange}.pin" in t["hint"] for t in all_))
    for _ in range(2):
        newest = keeper.dump()["name"]
        wait_for(lambda: [m["name"] for m in manifests(store)] == [strange, newest], "the retention there")
    keeper.stop()
    os.remove(os.path.join(store.path, "w1/dumps", strange + ".pin"))
    keeper.start()
    wait_for(lambda: strange + ".json" not in files(store, "dumps"), "the end of that")


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_long_segment_is_stored_in_pieces(make_followed, store, overlapping):
    """A long segment is stored in pieces that begin at multiples of 4 MiB, also if it was sent while it grew, and the world is
    restored from them, and from parts that overlap, which an earlier version may have left."""
    keeper = make_followed(settings={"offsite": {**store.settings["offsite"], "identity_file": store.key},
                                     "journal": {"segment": "10MiB"}})
    keeper.world.sql(BIG[0])
    dump_and_follow(keeper)
    for _ in range(2):
        keeper.world.sql(BIG[1])
        keeper.segments.wait_all()
        wait_segments(keeper, store)
    before, size, piece = keeper.world.snapshot(), os.path.getsize(keeper.segments.paths()[0]), 4 << 20

    def pieces():
        return [(begin, end) for number, begin, end, _ in parts(store) if number == 1]
    wait_for(lambda: pieces() == [(at, min(at + piece, size)) for at in range(0, size, piece)],
             lambda: f"pieces of {size} bytes: {pieces()}")
    keeper.stop()
    if overlapping:
        whole, paths = segments(store)[1], [path for number, _, _, path in parts(store) if number == 1]
        for path in paths:
            os.remove(path)
        for begin, end in ((0, 5 << 20), (1 << 20, piece), (piece, 2 * piece), (2 * piece - 1, size)):
            new = path.rpartition("/")[0] + "/" + re.sub(r"\.\d+-\d+\.", f".{begin:012}-{end:012}.", path.rpartition("/")[2])
            subprocess.run(["age", "-r", store.recipient, "-o", new], input=whole[begin:end], check=True)
    lose_machine(keeper)
    keeper.init()
    keeper.ok("--restore", "--from", "offsite")
    keeper.world.assert_is(before)


def test_a_complete_segment_that_is_damaged_here(make_followed, store):
    """If a complete segment is found damaged in the middle, its parts in the store are kept, and the damage is reported."""
    keeper = make_followed(settings=store.settings)
    dump_and_follow(keeper)
    stored(keeper)
    for v in range(3):
        keeper.world.mark(v)
        keeper.segments.wait_all()
        wait_segments(keeper, store)
    keeper.stop()  # which completes it
    before, begins = segments(store)[1], [begin for _, begin, _, _ in parts(store)]
    assert len(begins) > 2
    flip(keeper.segments.paths()[0], begins[1] + 30)
    keeper.start()
    keeper.wait(lambda: any("is damaged at byte" in t["what"] for t in keeper.status()["troubles"]), "it is said")
    assert segments(store)[1].startswith(before)


def untouched(store):
    """Returns {name: mtime} of the files in the store."""
    return {f"{folder}/{name}": os.stat(os.path.join(store.path, "w1", folder, name)).st_mtime_ns
            for folder in ("dumps", "segments") for name in files(store, folder)}


def fenced(keeper):
    """Asserts that a new dump is not stored, and that status and --check report the other machine."""
    name = keeper.dump()["name"]
    words = "another machine stores this world"
    status = keeper.expect("the fence", offsite=lambda o: o and o["state"] == "fenced" and o["waiting"],
                           troubles=lambda all_: any(words in t["what"] for t in all_))
    o = status["offsite"]
    assert o["fenced"] is True and o["newest"] != name, o
    (said,) = [c for c in status["troubles"] if words in c["what"]]
    assert "[offsite] url" in said["hint"], said
    checked = keeper.run("--check")
    assert checked.out.count(words) == 1, checked


def test_two_machines(make_followed, store):
    """A machine that returns after another one took its world over stores and deletes nothing there, even after restores. It
    does so again with its own store, or after a restore from the shared one."""
    keeper = make_followed(settings={
        "offsite": {**store.settings["offsite"], "identity_file": store.key},
        "retention": {"keep_last": "1", "keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}})
    dump_and_follow(keeper)
    stored(keeper)
    keeper.stop()
    old = keeper.dumps_dir + ".old"
    shutil.copytree(keeper.dumps_dir, old)
    lose_machine(keeper)
    keeper.init()
    keeper.ok("--restore", "--from", "offsite")
    keeper.start()
    keeper.world.mark(5)
    theirs = keeper.world.snapshot()
    keeper.dump()
    stored(keeper)
    keeper.stop()
    before = untouched(store)
    lose_machine(keeper)
    for name in os.listdir(old):
        shutil.move(os.path.join(old, name), os.path.join(keeper.dumps_dir, name))
    for _ in range(2):  # afterwards its generation is higher than that of the other world
        keeper.ok("--restore", "--force")
    # A refused restore that fetched the other machine's dump does not change its owner.
    refused = keeper.run("--restore", "--from", "offsite")
    assert refused.rc == REFUSED and untouched(store) == before, refused
    shutil.rmtree(os.path.join(keeper.dumps_dir, "journal"))
    keeper.start()
    fenced(keeper)
    keeper.stop()
    assert untouched(store) == before
    os.mkdir(os.path.join(store.path, "mine"), 0o700)
    keeper.configure({"offsite": {"url": f"file://{store.path}/mine/"}})
    keeper.start()
    assert stored(keeper)["fenced"] is False
    keeper.stop()
    assert untouched(store) == before
    keeper.configure({"offsite": {"url": f"file://{store.path}/"}})
    assert "move the journal's directory away" in keeper.run("--restore", "--from", "offsite", "--force").err
    shutil.rmtree(os.path.join(keeper.dumps_dir, "journal"))
    keeper.ok("--restore", "--from", "offsite", "--force")
    keeper.world.assert_is(theirs)
    keeper.start()
    name = keeper.dump()["name"]
    assert stored(keeper)["fenced"] is False
    assert [m["name"] for m in manifests(store)] == [name]


@pytest.mark.parametrize("delete", ["own", "never"])
def test_retention_there(make_followed, store, delete):
    """The store follows the retention rules and always keeps the newest dump; with delete = never nothing is deleted."""
    keeper = make_followed(settings={
        "offsite": {**store.settings["offsite"], "delete": delete}, "journal": {"mode": "off"},
        "retention": {"keep_last": "1", "keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}})
    names = []
    for _ in range(3):
        names.append(keeper.dump()["name"])
        keeper.start()
        stored(keeper)
        keeper.stop()
    keeper.start()
    kept = names[-1:] if delete == "own" else names
    wait_for(lambda: files(store, "dumps") == [n + end for n in kept for end in (".json", ".sql.gz.age")],
             "the others are deleted")
    keeper.wait(lambda: stored(keeper)["stored"] == len(kept), "the status to know it")
