"""Tests of a second machine that takes a world over: what it has, which machine may continue, and what is lost."""
import base64
import contextlib
import glob
import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import threading
import time
from datetime import datetime
from signal import SIGCONT, SIGSTOP

import pymysql
import pytest
from wk.audit import TABLES, AuditedWriters
from wk.binlog import place
from wk.crash import DEMOTE_POINTS, PROMOTE_POINTS, go_on, stopped, to_all, wait_stopped
from wk.follow import LOG, ONE_DUMP, clock, dump_and_follow, follower, following, kill_follower
from wk.keeper import BINARY, DONE, FAILED, HELD, NOTHING, REFUSED, ROOT, USAGE, precise
from wk.segments import Segments
from wk.stores import Conditions, Etcd, LeaseCaller, Liar, program, secret_file
from wk.util import PATIENCE, ident, wait_for

pytestmark = [pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test"),
              pytest.mark.either_server]


@pytest.fixture
def store(tmp):
    """Returns the settings of both machines: a mounted directory as store, and one key pair."""
    path, key = os.path.join(tmp, "store"), os.path.join(tmp, "identity")
    os.mkdir(path, 0o700)
    subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
    public = subprocess.run(["age-keygen", "-y", key], check=True, capture_output=True, text=True).stdout.strip()
    return {"offsite": {"url": f"file://{path}/", "recipient": public, "identity_file": key},
            "standby": {"lease": "none"}}


@pytest.fixture
def make_pair(make_followed, make_world, make_keeper, make_server, store):
    """Makes a primary that follows and stores, and a standby on its own server."""
    def make(kind="empty", tables=TABLES, **more):
        settings = {**{k: dict(v) for k, v in store.items()}, **more}
        one = make_followed(kind, settings, tables)
        other = make_world("empty", make_server(*LOG), schema=one.world.schema)
        two = make_keeper(other, {**settings, "journal": {"mode": "follow"}, "probe": {"interval": "100ms"}})
        two.segments = Segments(two)
        return one, two
    return make


OFTEN = {"interval": "1h", "max_load": "100000%"}


def standby(keeper):
    return keeper.status().get("standby") or {}


def restores(keeper):
    return [r for r in keeper.ok("--history", "--json")["records"] if r["kind"] == "restore"]


def wait_pulled(primary, other):
    """Waits until the standby has everything that the primary has now. Returns the time before."""
    before = time.monotonic()
    primary.segments.wait_all()
    sizes = {os.path.basename(path): os.path.getsize(path) for path in primary.segments.paths()}
    there = os.path.join(other.dumps_dir, "journal")
    newest = primary.newest()["name"]

    def is_here():
        return standby(other).get("newest") == newest and all(
            os.path.exists(os.path.join(there, name)) and os.path.getsize(os.path.join(there, name)) >= size
            for name, size in sizes.items())
    wait_for(is_here, "the standby has all of it")
    return before


def own_dump(keeper, start):
    """Waits until a dump whose name begins with `start` is in the store and the journal continues it. A switch-over needs both."""
    keeper.wait(lambda: ((keeper.status()["offsite"] or {}).get("newest") or "").startswith(start), "its own dump")
    following(keeper)


def test_a_key_that_both_machines_get_later(make_pair):
    """Data from before an HMAC key is not used, and does not prevent the standby from using newer data."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    one.world.mark(1)
    wait_pulled(one, two)
    for keeper in (two, one):
        keeper.reload({"dump": {"hmac_key_file": keeper.secret("hmac", "k" * 32)}})
    one.wait(lambda: len(one.dumps()) > 1 and following(one), "the dump that the key signs")
    one.world.mark(2)
    newest = one.segments.wait_all().paths()[-1]
    got = os.path.join(two.segments.dir, os.path.basename(newest))
    size = os.path.getsize(newest)
    wait_for(lambda: os.path.exists(got) and os.path.getsize(got) >= size, "the standby has what is newer")
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    two.ok("--promote", "--by-hand", "--force")
    two.world.assert_is(before)


@pytest.mark.quick
def test_a_machine_is_lost_comes_back_and_gets_the_world_again(make_pair):
    """After the primary's machine was lost the promoted standby lacks only changes that were not stored. The old machine
    becomes the standby, and a switch-over to it loses nothing."""
    one, two = make_pair(status={"page": "yes"})
    two.configure({"verify": OFTEN})
    two.start("STANDBY")
    dump_and_follow(one)
    writers = AuditedWriters(one.world, 7, count=2)
    writers.pause = 0.002
    with writers:
        writers.wait_changes(200)
        stored = wait_pulled(one, two)
        told = two.expect("it pulls", standby=lambda s: s and s["state"] == "pulling" and s["behind_seconds"] is not None)[
            "standby"]
        assert told["role"] == "standby" and told["moment"] and told["last_pull"] and told["last_error"] is None, told
        one.expect("the primary", standby=lambda s: s["role"] == "primary")
        wait_for(lambda: "<dd>standby, pulling" in two.published("status.html"), "the page says so")
        two.expect("what it pulled counts as its dumps", last_dump=lambda d: d and d["name"] == one.newest()["name"],
                   last_verify=lambda v: v and v["ok"])
        for words in (["--dump"], ["--restore"], ["--promote"], ["--promote", "--by-hand"], ["--switch-over"]):
            done = two.run(*words)
            assert done.rc == REFUSED, done
        assert one.run("--promote", "--by-hand", "--force").rc == REFUSED
        assert one.run("--demote").rc == REFUSED
        assert two.state() == "STANDBY" and two.flag() == "WAITING"
        done = two.run("--pause")
        assert done.rc == HELD and "nothing to pause on a standby" in done.err, done
        done = two.run("--init")
        assert done.rc == REFUSED and "--promote" in done.err, done
        checked = two.run("--check").out
        assert "--init" not in checked and "--restore" not in checked, checked
        one.server.grow_old()
        killed = time.monotonic()
        one.kill9()
        one.server.kill9()
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    writers.world = two.world
    age, lost = writers.audit_cut(killed)
    assert age <= killed - stored, (age, lost, killed - stored, told)
    assert told["lost_seconds"] is None and "gap" not in told["journal"], told
    two.wait_state("UP")
    assert two.run("--promote", "--by-hand", "--force").rc == REFUSED
    two.wait(lambda: len(restores(two)) > 1, "the promotion in the history")
    assert [r["ok"] for r in restores(two)] == [False, True], restores(two)  # a refused --promote is not recorded
    generation = two.status()["generation"]
    own_dump(two, f"w1-{generation:06d}")
    own_dump(two, two.dump()["name"])  # earlier dumps never reach the other machine

    one.server.start()
    one.ok("--demote")
    lease = one.settings.pop("standby")
    one.configure({})
    done = one.run()  # it would become a second primary
    assert done.rc not in (DONE, REFUSED) and "has no [standby]" in done.err and "restore the [standby] section" in done.err, done
    one.configure({"standby": lease})
    one.start("STANDBY")
    wait_for(lambda: (standby(one).get("newest") or "").startswith(f"w1-{generation:06d}"), "the new world's dump")
    with writers:
        writers.wait_changes(200)
        told = two.ok("--switch-over", "--json")
        for writer in writers.threads:
            writer.join(PATIENCE)
    over = told["handed_over"]
    assert over["generation"] == generation and over["file"] and over["pos"] and "--promote --by-hand" in told["hint"], told
    two.wait_state("STANDBY")
    told = one.ok("--promote", "--by-hand", "--json")
    writers.world = one.world
    writers.audit()
    assert told["lost_seconds"] == 0 and told["lost"] == "nothing lost" and told["generation"] > generation, told
    one.wait_state("UP")
    own_dump(one, f"w1-{told['generation']:06d}")
    # Neither machine takes another log's changes, or its own older ones, for changes of its present world.
    two.wait(lambda: standby(two).get("state") == "pulling", "it watches the other one")
    two.wait(lambda: not two.status()["troubles"], "nothing is wrong there")
    for keeper in (one, two):
        assert "was altered" not in keeper.log(), keeper.log()


@pytest.mark.parametrize("after", ["a promotion", "CREATE TABLE", "--restore --table"])
def test_a_switch_over_right_after(make_pair, after):
    """A switch-over is refused, without any change, while the stored journal does not lead to the present world: after a
    promotion without a stored dump, a new table, or a restored table."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    wait_pulled(one, two)
    if after == "a promotion":
        one.kill9()
        one.server.kill9()
        two.ok("--promote", "--by-hand", "--force")
        one, two = two, one
    elif after == "CREATE TABLE":
        one.world.sql("CREATE TABLE extra (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO extra VALUES (1)")
    else:
        one.world.sql("DELETE FROM player")
        one.ok("--restore", "--table", "player", "--force")
    one.world.mark(7)
    before = one.world.snapshot()
    done = one.run("--switch-over")
    if done.rc != DONE:
        assert done.rc == REFUSED and "--dump; repeat the command" in done.err, done
        one.wait_state("UP")
        one.world.assert_is(before)
    if after == "a promotion":
        two.server.start()
        two.ok("--demote")
        two.start("STANDBY")
    if done.rc != DONE:
        one.dump()
        stored(one)
        # It is refused again until the journal continues after that dump.
        wait_for(lambda: one.run("--switch-over").rc == DONE, one.log)
    told = two.ok("--promote", "--by-hand", "--json")
    two.world.assert_is(before)
    # After a restore of tables the journal may end at its marker; then the promotion does not report it as complete.
    assert after == "--restore --table" or (told["lost"] == "nothing lost" and told["lost_seconds"] == 0), told


def spare_segment(keeper):
    """Makes a dump whose segment is finalized only after it, and returns that segment, which the dump does not need. If the
    log grew meanwhile, the dump needs the segment's end, and another dump is made."""
    while True:
        begun = place(keeper.server)
        dumping = keeper.popen("--dump")
        dump = wait_stopped(keeper, "a dump that is stored")
        stored_at, last = time.time(), keeper.segments.paths()[-1]
        keeper.wait(lambda: keeper.segments.end_time() > stored_at, "a segment that ends after it")
        go_on(dump)
        assert keeper.finish(dumping).rc == DONE
        keeper.wait(lambda: keeper.segments.paths()[-1] != last, "the next segment")
        if place(keeper.server) == begun:
            return last


@pytest.mark.waits(1)  # the follower's own marks, which make the log grow, are a minute apart
def test_a_segment_that_goes_during_a_switch_over(make_pair):
    """A follower that begins deletes a segment that no dump needs any longer. A process that listed this segment before
    lists again."""
    one, _ = make_pair("small", (), **ONE_DUMP)
    one.dump()
    one.start(fault="dump.manifest_written=stop,switch.listed#1=stop")
    following(one)
    last = spare_segment(one)
    stored(one)
    assert last in one.segments.paths()
    one.world.mark(7)
    before = one.world.snapshot()
    pressed = one.popen("--switch-over")
    switch = wait_stopped(one, "the list of segments")
    kill_follower(one)
    one.wait(lambda: last not in one.segments.paths(), "the segment is deleted")
    go_on(switch)
    done = one.finish(pressed)
    assert done.rc == DONE, done
    one.wait_state("STANDBY")
    one.ok("--promote", "--by-hand")
    one.world.assert_is(before)


def test_a_part_that_is_deleted_during_a_switch_over(make_pair, tmp):
    """A part whose upload was not answered may be listed, and then deleted to be sent again. The world is handed over only
    when that part is stored again."""
    liar, waits, held, armed = Liar(tmp), threading.Event(), [], []
    conditions = Conditions(liar)

    def unanswered(h):
        if h.command != "PUT" or "/segments/" not in h.path or held or not armed:
            return conditions(h)
        liar.objects[h.path] = h.body
        held.append(h.path)
        os.kill(armed[0], SIGSTOP)  # nothing may be appended to the segment
        waits.wait()
        h.close_connection = True
        return True
    liar.fault = unanswered
    try:
        one, two = make_pair("small", (), offsite={"plain": "yes", **liar.settings()}, standby={"lease": "none"})
        one.dump()
        one.start(fault="aside.locked=stop,switch.parts_listed#1=stop,offsite.settled=stop")
        following(one)
        stored(one)
        one.world.mark(7)
        before = one.world.snapshot()
        pressed = one.popen("--switch-over")
        switch = wait_stopped(one, "the locks")
        one.segments.wait_all()
        armed.append(follower(one))
        one.wait(lambda: held, "a part that is not answered")
        go_on(switch)
        one.wait(lambda: set(switch) & set(stopped(one)), "the list of parts")
        waits.set()
        one.wait(lambda: set(stopped(one)) - {*switch, armed[0]}, "the part is deleted")
        assert held[0] not in liar.objects
        looks = len(liar.asked)  # the uploader is stopped
        go_on(switch)
        one.wait(lambda: pressed.poll() is not None or len(liar.asked) > looks + 10, "the switch-over looks again")
        assert pressed.poll() is None, one.finish(pressed)
        go_on(stopped(one))
        done = one.finish(pressed)
        assert done.rc == DONE, done
        two.start("STANDBY")
        two.ok("--promote", "--by-hand")
        two.world.assert_is(before)
    finally:
        waits.set()
        liar.stop()


def test_a_switch_over_with_a_slow_store(make_pair, liar):
    """The journal grows each second, and each part of it takes longer than that to be stored. The world is handed over when
    the store has what was logged before its writes were stopped."""
    conditions = Conditions(liar)
    one, two = make_pair("small", (), offsite={"plain": "yes", **liar.settings()}, standby={"lease": "none"})
    dump_and_follow(one)
    stored(one)
    conditions.late = 0.5
    one.world.mark(7)
    before = one.world.snapshot()
    one.ok("--switch-over")
    conditions.late = 0
    two.start("STANDBY")
    two.ok("--promote", "--by-hand")
    two.world.assert_is(before)


@pytest.mark.parametrize("how", ["handed over", "lost"])
def test_a_life_that_began_with_a_restore(make_pair, liar, how):
    """The dump before a restore by hand and the one after it are stored right after each other, without another look at the
    store. The record names the new life before its dump is stored; otherwise the standby ignores that dump."""
    Conditions(liar)
    one, two = make_pair("small", (), offsite={"plain": "yes", **liar.settings()}, standby={"lease": "s3", "ttl": "6s"})
    for keeper in (one, two):
        keeper.run("--check")
    dump_and_follow(one)
    stored(one)
    one.world.mark(7)
    one.ok("--dump")
    one.ok("--restore", "--force", "--table", "chat")
    one.wait(lambda: one.newest()["generation"] == 2, "the dump of the new life")
    stored(one)
    before = one.world.snapshot()
    if how == "handed over":
        one.ok("--switch-over")
    else:
        one.segments.wait_all()
        one.kill9()
        one.server.kill9()
    two.start("STANDBY")
    wait_for(lambda: two.run("--promote").rc == DONE, "the promotion", every=1)
    two.world.assert_is(before)


def test_a_switch_over_with_durable_tables(make_pair):
    """A switch-over with [restore] scope = all is refused, because a promotion restores durable tables from the dump and
    cannot use the journal."""
    one, two = make_pair("small", (), restore={"scope": "all"}, dump={"engines": "all"})
    one.world.sql("CREATE TABLE durable (id INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO durable VALUES (1)")
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    wait_pulled(one, two)
    one.world.sql("INSERT INTO durable VALUES (2)")
    one.world.mark(7)
    before = one.world.snapshot()
    done = one.run("--switch-over")
    assert done.rc == REFUSED and "scope = all" in done.err and "durable" in done.err, done
    one.wait_state("UP")
    one.world.assert_is(before)


@pytest.mark.parametrize("lacks", [{"offsite": {"segments": "no"}}, {"journal": {"mode": "auto"}}, {"journal": {"mode": "off"}}])
def test_a_switch_over_without_the_journal_in_the_store(make_pair, store, lacks):
    """A switch-over is refused, without any change, if the journal is not in the store; then the other machine is not promoted
    either. The keys that the hint names make it possible."""
    one, two = make_pair("small", ())
    one.configure(lacks)
    one.dump()
    one.start()
    stored(one)
    one.world.mark(7)
    before, was = one.world.snapshot(), record(store)
    done = one.run("--switch-over")
    assert done.rc == USAGE and "changes since the last dump would be lost" in done.err, done
    assert "[journal] mode = follow and [offsite] segments = yes" in done.err, done
    refused = two.run("--promote", "--by-hand")
    assert refused.rc == REFUSED and "nothing proves that the other machine has stopped" in refused.err, refused
    assert one.state() == "UP" and record(store) == was
    one.world.assert_is(before)
    one.stop()
    one.configure({section: {key: "follow" if key == "mode" else "yes"} for section, keys in lacks.items() for key in keys})
    one.start()
    own_dump(one, one.dump()["name"])
    wait_for(lambda: one.run("--switch-over").rc == DONE, one.log)
    told = two.ok("--promote", "--by-hand", "--json")
    assert told["lost"] == "nothing lost", told
    two.world.assert_is(before)


def test_a_promotion_reaches_what_was_handed_over(make_pair, store):
    """If the store loses the end of the journal after a switch-over the promotion is refused. With --force it uses what is
    there and reports a loss."""
    one, two = make_pair("small", ())
    dump_and_follow(one)
    stored(one)
    one.world.mark(7)
    done = one.run("--switch-over")
    generation = one.status()["generation"]
    assert done.rc == DONE and f"handed over without loss: the store has generation {generation} up to its last write" in done.out
    assert re.search(r"HINT: on the other machine, .*: worldkeeper .*--promote --by-hand\n", done.out), done
    parts = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "segments")
    for name in os.listdir(parts):
        os.unlink(os.path.join(parts, name))
    two.start("STANDBY")
    two.wait(lambda: standby(two).get("newest"), "the dump")
    done = two.run("--promote", "--by-hand")
    assert done.rc == REFUSED and "handed the world over at" in done.err, done
    two.wait_state("STANDBY")
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    assert told["lost"].startswith("lost:") and told["lost_seconds"] is None, told


def stored(keeper):
    keeper.wait(lambda: (keeper.status()["offsite"] or {}).get("newest") == keeper.newest()["name"], "the dump is stored")


@pytest.mark.slow
def test_killed_anywhere_and_said_again(make_pair, tmp):
    """Promotion, demotion and switch-over that were killed can be repeated, and the world is always complete."""
    key = secret_file(os.path.join(tmp, "hmac"), "0123456789abcdef" * 4 + "\n")
    one, two = make_pair("small", (), dump={"hmac_key_file": key})
    one.dump()
    one.start(fault="aside.locked=kill")
    one.world.mark(2)
    before = one.world.snapshot()
    assert one.run("--switch-over").rc != DONE  # the worker was killed
    one.stop()
    one.world.assert_is(before)
    # From here on this is a standby, whichever process was killed.
    one.start(fault="demote.stepped_back=kill")
    assert one.run("--switch-over").rc != DONE
    one.wait_state("STANDBY")
    one.stop()
    one.start("STANDBY")
    # Its tables still exist for a game: this is reported with the solution.
    one.wait(lambda: any("--demote" in t["hint"] for t in one.status()["troubles"]), "what is left is seen")
    one.ok("--demote")
    one.wait(lambda: not one.status()["troubles"], "nothing is left")
    told = two.run("--promote", "--by-hand")
    assert told.rc == REFUSED and "nothing proves that the other machine has stopped;" in told.err, told
    # A handover without our HMAC does not count.
    os.mkdir(os.path.join(tmp, "store", "w1", "handover"), 0o700)
    with open(os.path.join(tmp, "store", "w1", "handover", "999-1.json"), "w") as f:
        json.dump({"world": "w1", "generation": 999, "at": "2026-01-01T00:00:00Z"}, f)
    told = two.run("--promote", "--by-hand")
    assert told.rc == REFUSED and "has no HMAC of our key" in told.err, told
    for point in PROMOTE_POINTS:
        killed = two.run("--promote", "--by-hand", "--force", fault=point + "=kill")
        assert killed.rc < 0, killed
        two.ok("--promote", "--by-hand", "--force")
        two.world.assert_is(before)
        demoted = DEMOTE_POINTS[PROMOTE_POINTS.index(point) % len(DEMOTE_POINTS)]
        killed = two.run("--demote", "--force", fault=demoted + "=kill")
        assert killed.rc < 0, killed
        two.ok("--demote")
        assert two.run("--dump").rc == REFUSED
    # A demotion that cannot reach its server has taken effect all the same.
    two.ok("--promote", "--by-hand", "--force")
    two.start()
    two.server.kill9()
    failed = two.run("--demote", "--force")
    assert failed.rc not in (DONE, REFUSED) and "this machine is now a standby, but" in failed.err, failed
    two.wait_state("STANDBY")
    two.stop()
    two.start("STANDBY")


def test_a_table_that_is_hidden_at_a_demotion(make_world, make_followed, store):
    """ALTER TABLE hides its table from the list of tables for a moment; here the table is in another schema instead. A
    demotion leaves to the game neither that table, nor one that is created after the list."""
    one = make_followed(settings=store)
    one.world.sql("CREATE TABLE a (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO a VALUES (4711)")
    one.dump()
    other = make_world("empty", on=one.server)
    hide, show = (f"RENAME TABLE {x}.a TO {y}.a" for x, y in itertools.permutations(map(ident, (one.world.schema, other.schema))))
    one.world.sql(hide)
    demotion = one.popen("--demote", "--force", "--json", fault="aside.listed#1=stop")
    at_work = wait_stopped(one, "aside.listed")
    one.world.sql(show, "CREATE TABLE b (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO b VALUES (4712)")
    go_on(at_work)
    done = one.finish(demotion)
    assert done.rc == DONE, done
    tables = [name for (name,) in one.world.sql("SHOW TABLES")]
    assert not {"a", "b"} & set(tables), tables
    with gzip.open(os.path.join(one.dumps_dir, done.result["conflict_file"]), "rt") as f:
        saved = f.read()
    assert "(4711)" in saved and "(4712)" in saved, saved


@pytest.mark.slow
@pytest.mark.skipif(not program("etcd"), reason="etcd (package etcd-server) is not installed")
def test_pressed_on_both_sides(make_pair, tmp):
    """With a lease exactly one of two concurrent promotions ends UP, and a lease that is being renewed is not taken."""
    etcd = Etcd(tmp)
    try:
        one, two = make_pair("small", (), standby={"lease": "etcd", "etcd": etcd.urls, "ttl": "4s"})
        one.dump()
        one.start()
        stored(one)
        before = one.world.snapshot()
        two.start("STANDBY")
        refused = two.run("--promote")
        assert refused.rc == REFUSED and "lease is held and renewed by" in refused.err, refused
        assert two.run("--promote", "--by-hand").rc == USAGE
        one.kill9()
        one.ok("--demote", "--force")
        one.start("STANDBY")
        takeover = os.path.join(ROOT, "etc/failover/worldkeeper-takeover")
        env = {**os.environ, "WORLDKEEPER": BINARY + " --allow-root" * (os.geteuid() == 0)}
        look = [takeover, one.name, one.config_path, *etcd.urls.split(", ")]
        if shutil.which("curl"):
            one.popen("--promote").wait()
            one.wait_state("UP")
            quiet = subprocess.run(look, env=env, capture_output=True, text=True)
            assert (quiet.returncode, quiet.stdout) == (0, ""), quiet  # this machine is the primary
            look[2] = two.config_path
            quiet = subprocess.run(look, env=env, capture_output=True, text=True)
            assert (quiet.returncode, quiet.stdout) == (0, ""), quiet  # the other machine has the lease
            own_dump(one, f"w1-{one.status()['generation']:06d}")  # an older one may be stored already
            one.ok("--switch-over")
            taken = subprocess.run(look, env=env, capture_output=True, text=True, timeout=300)
            assert taken.returncode == 0 and "taking it over" in taken.stdout, taken
            two.wait_state("UP")
            own_dump(two, f"w1-{two.status()['generation']:06d}")
            two.ok("--switch-over")
        both = [keeper.popen("--promote") for keeper in (one, two)]
        done = [keeper.finish(process) for keeper, process in zip((one, two), both)]
        assert sorted(d.rc for d in done) in ([DONE, REFUSED], [DONE, DONE]), done

        def winners():
            """Returns the winner. Both promotions succeed if the first one was too slow to renew its lease and stepped back."""
            said = [keeper.status() for keeper in (one, two)]
            up = [k for k, s in zip((one, two), said) if s["state"] == "UP" and s["lease"]["state"] == "held"]
            out = [k for k, d, s in zip((one, two), done, said)
                   if (s["lease"]["state"] == "stepped-back" if d.rc == DONE else s["state"] == "STANDBY")]
            return up if len(up) == len(out) == 1 and up != out else []
        [winner] = wait_for(winners, lambda: [keeper.status() for keeper in (one, two)])
        winner.world.assert_is(before)
    finally:
        etcd.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["s3", pytest.param("etcd", marks=pytest.mark.skipif(
    not program("etcd"), reason="etcd (package etcd-server) is not installed"))])
def test_what_the_standby_has_seen(make_pair, tmp, kind):
    """A running standby watches the lease, so that --promote need not wait for it after the loss of the primary. A primary
    that paused for longer than its lease and renews it again keeps the world."""
    liar = Liar(tmp)
    Conditions(liar)
    etcd = Etcd(tmp) if kind == "etcd" else None
    ttl = 6
    lease = {"lease": kind, "ttl": f"{ttl}s", **({"etcd": etcd.urls} if etcd else {})}
    try:
        one, two = make_pair("small", (), standby=lease, offsite={"plain": "yes", **liar.settings()})
        for keeper in (one, two):
            keeper.run("--check")
        one.dump()
        one.start()
        stored(one)
        before = one.world.snapshot()
        two.start("STANDBY")
        two.wait(lambda: standby(two).get("newest") == one.newest()["name"], "it has the dump")

        def held():
            said = one.status()  # what it wrote before the pause has expired
            return said["state"] == "UP" and said["lease"]["state"] == "held" and precise(said["valid_until"]) > time.time()
        one.wait(held, "the lease")
        to_all(one, SIGSTOP)
        time.sleep(3 * ttl)
        to_all(one, SIGCONT)
        one.wait(held, "it is renewed again")
        refused = two.run("--promote")
        assert refused.rc == REFUSED and "the lease is held and renewed by" in refused.err, refused
        one.wait(held, "it still is")

        two.stop()
        two.start("STANDBY", fault="lease.waits=kill")
        one.kill9()
        one.server.kill9()
        # Each attempt that has to wait is killed and knows no more than the first; only the standby does.
        wait_for(lambda: two.run("--promote").rc == DONE, "a promotion that does not wait", every=ttl)
        two.wait_state("UP")
        two.world.assert_is(before)
    finally:
        if etcd:
            etcd.stop()
        liar.stop()


@contextlib.contextmanager
def handing_over(make_followed, tmp):
    """Yields (keeper, caller, stopped process) of a switch-over under a long lease, stopped where the world is moved aside,
    and of another machine that wants the lease. It ends when the supervisor continues."""
    liar = Liar(tmp)
    Conditions(liar)
    standby = {"lease": "s3", "ttl": "30m"}
    other = None
    try:
        one = make_followed(settings={"offsite": {"plain": "yes", **liar.settings()}, "standby": standby})
        one.run("--check")
        one.start(fault="aside.renamed=stop")
        one.dump()
        other = LeaseCaller(os.path.join(tmp, "other"), "other/2", standby, liar.settings(), name=one.name)
        assert other.call("prove")["result"] == other.call("open")["result"] == "ok"
        pressed = one.popen("--switch-over")
        yield one, other, wait_stopped(one, "aside.renamed")
        one.process.send_signal(SIGCONT)
        assert one.finish(pressed).rc == DONE
        one.wait_state("STANDBY")
    finally:
        if other:
            other.close()
        liar.stop()


def test_the_lease_goes_last(make_followed, store, tmp):
    """A switch-over releases the lease only when no status of this machine is valid any more, even if the supervisor is
    stopped and cannot write one."""
    with handing_over(make_followed, tmp) as (one, other, stopped):
        one.process.send_signal(SIGSTOP)
        go_on(stopped)

        def is_free():
            said = other.call("read")
            if said["free"]:
                status = one.status()
                believed = datetime.fromisoformat(status["valid_until"]).timestamp()
                assert not status["ready"] or believed <= time.time(), (said, status)
            return said["free"]
        wait_for(is_free, "the lease is given back")


@pytest.mark.slow
def test_the_lease_goes_after_a_status_that_was_written_late(make_followed, store, tmp):
    """A status that the disk wrote late is valid from then on, and the lease is released only after it."""
    with handing_over(make_followed, tmp) as (one, other, stopped):
        scribe = one.worker("scribe")
        flag = os.path.join(one.status_dir, "index.html")
        os.kill(scribe, SIGSTOP)
        time.sleep(3)  # messages to it wait meanwhile
        one.process.send_signal(SIGSTOP)
        time.sleep(16)
        goes_on = time.time()
        os.kill(scribe, SIGCONT)
        wait_for(lambda: os.stat(flag).st_mtime > goes_on - 1, "it is written")
        go_on(stopped)

        def is_free():
            said = other.call("read")
            if said["free"]:
                with open(flag) as f:
                    assert f.read() != "UP\n" or time.time() - os.stat(flag).st_mtime > 14.9
            return said["free"]
        wait_for(is_free, "the lease is given back")


def demoted(make_followed, store):
    """Returns the keeper of a machine that was just demoted, whose newest dump is in the store."""
    keeper = make_followed(settings=store)
    keeper.start()
    own_dump(keeper, keeper.dump()["name"])
    keeper.stop()
    keeper.ok("--demote", "--force")
    return keeper


def test_a_promotion_has_the_time_of_a_restore(make_followed, store):
    """A promotion is limited by [restore] stall, because it loads a world."""
    keeper = demoted(make_followed, store)
    keeper.configure({"restore": {"stall": "1s"}})
    keeper.start("STANDBY", fault="promote.fetched=stop")
    done = keeper.run("--promote", "--by-hand", "--force")
    assert done.rc == FAILED and "made no progress and was stopped" in done.err, done
    keeper.wait_state("STANDBY")


def test_a_handover_is_taken_up_once(make_pair):
    """Both machines are promoted after a switch-over without a lease. One of them read the handover before the other one took
    it up: it is refused."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    own_dump(one, one.newest()["name"])
    one.world.mark(1)
    wait_pulled(one, two)
    one.ok("--switch-over")
    one.stop()
    pressed = one.popen("--promote", "--by-hand", fault="promote.fetched=stop")
    waiting = wait_stopped(one, "promote.fetched")
    two.ok("--promote", "--by-hand")
    go_on(waiting)
    done = one.finish(pressed)
    assert done.rc == REFUSED and "the record of this world changed meanwhile" in done.err, done
    two.wait_state("UP")


def test_a_promotion_that_is_refused_at_its_end(make_followed, store):
    """A promotion that may no longer swap in what it loaded is refused and recorded in the history as a failed restore."""
    keeper = demoted(make_followed, store)
    pressed = keeper.popen("--promote", "--by-hand", "--force", fault="restore.loaded=stop")
    waiting = wait_stopped(keeper, "restore.loaded")
    keeper.world.sql("UPDATE worldkeeper_sentinel_lease SET generation=generation+1")
    go_on(waiting)
    done = keeper.finish(pressed)
    assert done.rc == REFUSED and "raised the generation" in done.err, done
    [failed] = restores(keeper)
    assert not failed["ok"] and failed["dump"] == keeper.newest()["name"] and "raised" in failed["error"], failed


def test_a_standby_whose_dumps_are_all_gone(make_followed, store, tmp):
    """A standby without any dump, here or in the store, shows no newest dump."""
    one = demoted(make_followed, store)
    one.start("STANDBY")
    name = one.newest()["name"]
    one.expect("it has the dump", standby=lambda s: s["newest"] == name, last_dump=lambda d: d and d["name"] == name)
    shutil.rmtree(os.path.join(tmp, "store", "w1"))
    for file in os.listdir(one.dumps_dir):
        if file.startswith("w1-"):
            os.remove(os.path.join(one.dumps_dir, file))
    done = one.run("--promote", "--by-hand", "--force")  # the worker that knew it ends for this
    assert done.rc != DONE and "the store has no dump of world w1" in done.err, done
    one.expect("there is none", standby=lambda s: s["state"] == "pulling" and s["newest"] is None)
    assert one.status()["last_dump"]["name"] == name, one.status()["last_dump"]


def test_a_standby_whose_clock_is_late(make_followed, store):
    """A standby with a slow clock still reports how old its data is, and when it is too old."""
    keeper = demoted(make_followed, store)
    keeper.configure({"alert": {"max_dump_age": "1s"}})
    shim = keeper.shim(clock=keeper.clock)
    keeper.set_clock(-7200)
    keeper.start("STANDBY", **shim)
    keeper.expect("it is old", standby=lambda s: (s["behind_seconds"] or 0) > 1,
                  troubles=lambda t: any("the newest that the standby has is of" in x["what"] for x in t))


def test_a_standby_without_a_dump_says_that_nothing_is_verified(make_keeper, world, store):
    keeper = make_keeper(world, {**store, "verify": OFTEN})
    keeper.start("STANDBY", **keeper.shim(clock=keeper.clock))
    keeper.expect("why none begins", next_verify=lambda v: v and v["held"] == "there is no dump yet")
    keeper.set_clock(86400)
    told = keeper.expect("it is reported", troubles=lambda t: any("no verify has begun for 1d" in x["what"] for x in t))
    (todo,) = [x["hint"] for x in told["troubles"] if "no verify has begun" in x["what"]]
    assert "--from offsite" in todo, todo  # a standby makes no dumps


def test_a_standby_does_not_say_that_copies_are_stored(make_keeper, world, store):
    keeper = make_keeper(world, store)
    keeper.start("STANDBY")
    told = keeper.status()["offsite"]
    assert [told[key] for key in ("state", "fenced", "behind_seconds", "waiting", "stored")] == [None] * 5, told


def test_what_was_told_before_a_demotion_is_over_on_a_standby(make_keeper, world, store, tmp):
    """On a standby conditions about dumps, ledgers and players' progress end, because the other machine does this work."""
    central = {"socket": os.path.join(tmp, "none.sock"), "user": "gs", "schema": "central", "lock_id": "gs-a",
               "password_file": secret_file(os.path.join(tmp, "central-password"), "none")}
    keeper = make_keeper(world, {**store, "alert.webhook": {"url": "http://127.0.0.1:1/"}, "progress": central,
                                 "ledger xp": {"table": "gains", "key": "player", "value": "xp", "time": "at"}})
    names = ["dump", "stale", "check", "ledger", "ledger_slow", "ledger_late", "ledger_ids", "progress_stolen"]
    alerts = os.path.join(keeper.dumps_dir, "alerts")
    os.mkdir(alerts, 0o700)
    with open(os.path.join(alerts, "incidents"), "w") as f:
        json.dump({name: {"id": f"{n:04x}", "event": 1, "world": "w1"} for n, name in enumerate(names)}, f)
    os.chmod(f.name, 0o600)
    keeper.start("STANDBY")
    keeper.wait(lambda: not set(names) & set(json.load(open(f.name))), lambda: open(f.name).read())


def test_a_promotion_that_cannot_begin(make_keeper, world, tmp):
    """A promotion that took the lease and cannot save this releases it, so that no other machine has to wait for its end."""
    liar = Liar(tmp)
    conditions = Conditions(liar)
    keeper = make_keeper(world, {"offsite": {"plain": "yes", **liar.settings()}, "standby": {"lease": "s3", "ttl": "60s"}})
    state = os.path.join(keeper.dumps_dir, "state.json")

    def taken(h):
        if h.command == "PUT" and h.path.endswith("lease.json") and not os.path.isdir(state):
            os.remove(state)
            os.mkdir(state)
        return conditions(h)
    try:
        keeper.run("--check")
        liar.fault = taken
        done = keeper.run("--promote")
        assert done.rc == FAILED and "state.json" in done.err, done
        (lease,) = [json.loads(body) for path, body in liar.objects.items() if path.endswith("lease.json")]
        assert lease["free"] is True and lease["number"] == 1, lease
    finally:
        liar.stop()


@pytest.mark.slow
def test_a_promotion_whose_lease_store_hangs(make_keeper, world, tmp):
    """A promotion whose lease store hangs reports a timeout before [restore] stall, however long the lease is."""
    liar, over = Liar(tmp), threading.Event()
    conditions = Conditions(liar)
    keeper = make_keeper(world, {"offsite": {"plain": "yes", **liar.settings()}, "restore": {"stall": "60s"},
                                 "standby": {"lease": "s3", "ttl": "30m"}})
    try:
        keeper.run("--check")
        keeper.start("STANDBY")
        liar.fault = lambda h: over.wait() and conditions(h)
        done = keeper.run("--promote")
        assert done.rc == FAILED and "no progress" not in done.err and "timed out" in done.err, done
    finally:
        over.set()
        liar.stop()


def test_without_a_second_machine(make_followed, store):
    keeper = make_followed(settings={"offsite": store["offsite"]}).start()
    for action in ("--promote", "--demote", "--switch-over"):
        done = keeper.run(action)
        assert done.rc == USAGE and "[standby]" in done.err, done
    assert keeper.status()["standby"] is None
    named = keeper.dump()["name"]
    keeper.wait(lambda: any(r.get("dump") == named for r in keeper.ok("--history", "--json")["records"]),
                "the dump in the history")
    assert restores(keeper) == []


def test_a_new_round_at_the_standby(make_pair):
    """A promotion restores the new round's dump and journal; dumps of the old round are listed as such."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    one.world.mark(1)
    wait_pulled(one, two)
    did = one.ok("--new-round", "--json")
    one.wait(lambda: following(one), "the journal of the new round")
    one.world.sql("DELETE FROM player", "INSERT INTO player (nick,points) VALUES ('new',1)")
    one.world.mark(2)
    wait_pulled(one, two)
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    two.ok("--promote", "--by-hand", "--force")
    two.world.assert_is(before)
    told = {d["name"]: d["earlier_round"] for d in two.ok("--list", "--json")["dumps"]}
    assert told[did["first"]] is False and all(e for name, e in told.items() if name < did["first"]), told
    own = two.dump()
    assert own["round"] == did["round"], own


def test_a_round_whose_first_dump_was_not_stored(make_pair, store):
    """A promotion does not restore the old round if the new round's first dump was not stored; it suggests --into."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    wait_pulled(one, two)
    two.stop()
    first = one.ok("--new-round", "--json")["first"]
    own_dump(one, first)
    one.kill9()
    one.server.kill9()
    dumps = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "dumps")
    for name in os.listdir(dumps):
        if name.startswith(first):
            os.remove(os.path.join(dumps, name))
    two.start("STANDBY")
    done = two.run("--promote", "--by-hand", "--force", "--json")
    assert done.rc == NOTHING and "current round (2)" in done.json["error"]["text"], done
    assert "--into SCHEMA" in done.json["error"]["hint"]
    assert all(d["earlier_round"] for d in two.ok("--list", "--json")["dumps"])


def test_a_round_while_the_standby_is_connected(make_pair, store):
    """A standby learns of a new round whose first dump is not stored without connecting again: a promotion without the store
    does not restore the old round."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    wait_pulled(one, two)
    own_dump(one, one.newest()["name"])
    one.stop()
    one.start(fault="offsite.chosen#1=stop")  # the round is stored, but no dump of it
    one.ok("--new-round")
    wait_for(lambda: all(d["earlier_round"] for d in two.ok("--list", "--json")["dumps"]), "the round at the standby")
    one.kill9()
    one.server.kill9()
    path = store["offsite"]["url"].removeprefix("file://").rstrip("/")
    os.rename(path, path + ".lost")
    refused = two.run("--promote", "--by-hand", "--force")
    assert refused.rc != DONE and "reading the store: cannot open directory" in refused.err, refused


def record(store):
    """Returns the newest record in a directory or a Liar, by the number in its name."""
    if isinstance(store, Liar):
        found = {path.rpartition("/")[2]: body for path, body in list(store.objects.items()) if "/record/" in path}
    else:
        at = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "record")
        found = {name: os.path.join(at, name) for name in os.listdir(at)}
    newest = found[max(found, key=lambda name: [int(part) for part in name.split("-")[:2]])]
    if isinstance(newest, bytes):
        return json.loads(newest)
    with open(newest) as f:
        return json.load(f)


NEEDS_ETCD = pytest.mark.skipif(not program("etcd"), reason="etcd (package etcd-server) is not installed")
LEASES = ["none", pytest.param("etcd", marks=NEEDS_ETCD), "s3"]


class Leased:
    """Two machines under one kind of lease, and their store, which can be made unreachable."""

    def __init__(self, make_pair, tmp, store, kind, **more):
        self.kind, self.etcd, self.liar = kind, Etcd(tmp) if kind == "etcd" else None, Liar(tmp) if kind == "s3" else None
        self.conditions = Conditions(self.liar) if self.liar else None
        self.path = store["offsite"]["url"].removeprefix("file://").rstrip("/")
        if kind != "none":
            more["standby"] = {"lease": kind, "ttl": "4s", **({"etcd": self.etcd.urls} if self.etcd else {})}
        if self.liar:
            more["offsite"] = {"plain": "yes", **self.liar.settings()}
        self.one, self.two = make_pair("small", (), **more)
        self.store = self.liar or store
        if self.liar:
            for keeper in (self.one, self.two):
                keeper.run("--check")
        self.promote = ["--promote", "--by-hand"] if kind == "none" else ["--promote"]

    def away(self, is_away):
        if self.liar:
            self.conditions.away = is_away
        elif is_away:
            os.rename(self.path, self.path + ".away")
        else:
            os.rename(self.path + ".away", self.path)

    def place(self):
        """Returns what the place of the lease has."""
        path = f"/bucket/{self.one.name}/lease.json"
        return self.etcd.keys(self.one.name) if self.etcd else {k: v for k, v in self.liar.objects.items() if k == path}

    def put_back(self, was):
        """Replaces what the place of the lease has: it is lost with {}, or else restored from an older backup."""
        if self.etcd:
            self.etcd.put_back(self.one.name, was, 4)
        else:
            self.liar.objects.pop(f"/bucket/{self.one.name}/lease.json", None)
            self.liar.objects.update(was)

    def stop(self):
        for server in filter(None, (self.etcd, self.liar)):
            server.stop()


@pytest.fixture
def make_leased(make_pair, tmp, store):
    made = []

    def make(kind, **more):
        made.append(Leased(make_pair, tmp, store, kind, **more))
        return made[-1]
    yield make
    for leased in made:
        leased.stop()


def replace(one, two):
    """Loses `one` and its server and promotes `two` without a supervisor, so that nothing of its new life is stored."""
    one.kill9()
    one.server.kill9()
    if two.alive():
        two.stop()
    return two.ok("--promote", "--by-hand", "--force", "--json")


@pytest.mark.parametrize("kind", LEASES)
def test_a_refused_demotion_recommends_no_loss(make_leased, kind):
    """Trace 8: the world is up here and nobody else has it. With a lease the hint names only the switch-over, which loses
    nothing. Without one a person has to judge: each command of the hint has its condition."""
    pair = make_leased(kind)
    one, two = pair.one, pair.two
    two.start("STANDBY")
    dump_and_follow(one)
    one.world.mark(1)
    before = one.world.snapshot()
    done = one.run("--demote")
    hint = done.err.partition("HINT: ")[2]
    assert done.rc == REFUSED and "the world is up here" in done.err and "--switch-over" in hint, done
    if kind == "none":
        assert hint.startswith("if the other machine also keeps the world:") and "otherwise:" in hint, done
    else:
        assert "--force" not in hint and "without loss" in hint, done
    one.wait_state("UP")
    stored(one)
    assert one.run("--switch-over").rc == DONE
    told = two.ok(*pair.promote, "--json")
    assert told["lost"] == "nothing lost", told
    two.world.assert_is(before)


def test_a_machine_that_returns_reads_the_record_first(make_pair, store):
    """Before the first dump of the new life is stored the old machine becomes a standby without a command, and stores nothing.
    The new machine is not blocked, and a third life descends from the second."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    was = record(store)
    assert was["generation"] == one.status()["generation"] and was["ancestors"] == [], was
    wait_pulled(one, two)
    told = replace(one, two)
    now = record(store)
    assert now["generation"] == told["generation"] and now["number"] == was["number"] + 1, now
    assert [(a["generation"], a["nonce"], a["ended"]) for a in now["ancestors"]] == [
        (was["generation"], was["nonce"], "lost")], now
    assert now["ancestors"][0]["dump"] == one.newest()["name"], now

    one.server.start()
    one.start("STANDBY")
    assert record(store) == now
    assert "UP" not in one.log()[-4000:].split("according to ")[-1], one.log()
    two.start()
    own_dump(two, f"w1-{told['generation']:06d}")
    two.world.mark(5)
    before = two.world.snapshot()
    two.dump()
    stored(two)
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "the standby has the dump of the new life")
    replace(two, one)
    one.world.assert_is(before)


def lose_answers_of_records(liar):
    """Makes the store write a record and drop the connection before its answer. Returns the paths of these records."""
    lost, usual = [], liar.fault

    def fault(h):
        path = h.path.partition("?")[0]
        if h.command != "PUT" or "/record/" not in path or path in lost:
            return usual(h)
        liar.objects[path] = h.body
        lost.append(path)
        h.close_connection = True
        return True
    liar.fault = fault
    return lost


@pytest.mark.parametrize("kind", LEASES)
def test_the_record_of_a_promotion(make_leased, kind):
    """Rule 1, under each kind of lease: the record is in the store before the world is restored. A promotion that is killed in
    between is followed by one with its own record. If the store honors conditions the answer to the write may be lost."""
    pair = make_leased(kind)
    one, two = pair.one, pair.two
    dump_and_follow(one)
    stored(one)
    before, was = one.world.snapshot(), record(pair.store)
    one.kill9()
    one.server.kill9()
    promote = [*pair.promote, *(["--force"] if kind == "none" else [])]
    killed = two.run(*promote, fault="promote.recorded=kill")
    assert killed.rc < 0, killed
    first = record(pair.store)
    assert first["number"] > was["number"] and first["generation"] > was["generation"], first
    assert [(a["generation"], a["nonce"], a["ended"]) for a in first["ancestors"]] == [(was["generation"], was["nonce"], "lost")]
    assert first["machine"] != was["machine"] and ("player",) not in two.world.sql("SHOW TABLES"), first
    lost = lose_answers_of_records(pair.liar) if kind == "s3" else None
    told = two.ok(*promote, "--json")
    assert told["recorded"] and len(lost or [1]) == 1, (told, lost)
    now = record(pair.store)
    assert now["number"] > first["number"] and now["generation"] == told["generation"] > first["generation"], now
    assert now["machine"] == first["machine"] and now["ancestors"][-1]["generation"] == was["generation"], now
    two.world.assert_is(before)
    two.start()
    one.server.start()
    one.start("STANDBY")
    assert record(pair.store) == now


@pytest.mark.parametrize("kind", LEASES)
def test_the_store_is_lost_with_the_primary(make_leased, kind):
    """Trace 9: with --force the standby is promoted from its own files and reports this. Its uploads wait for the record,
    and the returning machine is its standby. A lease that is kept in the store is lost with the store, so an operator
    must configure lease = none."""
    pair = make_leased(kind)
    one, two = pair.one, pair.two
    two.start("STANDBY")
    dump_and_follow(one)
    one.world.mark(4)
    wait_pulled(one, two)
    stored(one)
    before, was = one.world.snapshot(), record(pair.store)
    one.kill9()
    one.server.kill9()
    two.stop()
    pair.away(True)
    refused = two.run(*pair.promote)
    assert refused.rc != DONE and "--force" in refused.err, refused
    if kind == "s3":
        assert "lease = none" in refused.err, refused
        two.configure({"standby": {"lease": "none", "ttl": None}})
        pair.promote = ["--promote", "--by-hand"]
    told = two.ok(*pair.promote, "--force", "--json")
    two.world.assert_is(before)
    assert told["recorded"] is False and told["lost"].startswith("lost:"), told
    assert told["generation"] > was["generation"], told
    two.start()
    two.world.mark(5)
    two.dump()
    pair.away(False)
    own_dump(two, f"w1-{told['generation']:06d}")
    now = record(pair.store)
    assert (now["generation"], now["ancestors"][0]["generation"], now["ancestors"][0]["ended"]) == (
        told["generation"], was["generation"], "lost"), now
    assert now["number"] > was["number"] and "unwritten" not in now, now
    one.server.start()
    if kind == "s3":
        one.configure({"standby": {"lease": "none", "ttl": None}})
    one.start("STANDBY")
    one.wait(lambda: (standby(one).get("newest") or "").startswith(f"w1-{told['generation']:06d}"), "it is the standby of the other one")
    assert record(pair.store) == now


def test_the_store_and_a_segment_are_lost(make_pair, store):
    """A promotion without a segment that continues the dump restores the dump, and does not say that the world is of a later
    moment."""
    one, two = make_pair("small", (), journal={"segment": "64KiB"})
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    before = one.world.snapshot()
    clock(one.server)
    one.wait(lambda: one.world.sql("UPDATE player SET points=points+1") or len(one.segments.paths()) > 2, "more segments")
    wait_pulled(one, two)
    one.kill9()
    one.server.kill9()
    two.stop()
    path = store["offsite"]["url"].removeprefix("file://").rstrip("/")
    os.rename(path, path + ".away")
    os.remove(two.segments.paths()[0])
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    two.world.assert_is(before)
    assert not told["journal"]["whole"] and "no segment" in told["journal"]["gap"], told
    assert told["restored_to"] == two.newest()["at"], told


def test_a_world_that_is_up_and_was_replaced(make_pair, store):
    """A machine that still has the world after another one was promoted notices it, saves its rows and becomes the standby."""
    one, two = make_pair("small", (), retention={"keep_last": "1", "keep_within": "0s", "keep_daily": "0", "keep_weekly": "0"})
    dump_and_follow(one)
    stored(one)
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    one.wait_state("STANDBY")
    kept = [name for name in os.listdir(one.dumps_dir) if name.startswith("conflict-") and "-demoted" in name]
    assert len(kept) == 1, kept
    two.start()
    own_dump(two, f"w1-{told['generation']:06d}")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "it is the standby of the other one")
    # The record of a life is deleted with its last dump; the newest record still names it.
    left = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "record")
    two.wait(lambda: len(os.listdir(left)) == 1, lambda: os.listdir(left))
    assert record(store)["generation"] == told["generation"] and len(record(store)["ancestors"]) == 1


def records(store):
    """Returns the directory of the records, and their names in it."""
    at = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "record")
    return at, sorted(os.listdir(at))


def test_a_record_of_a_stranger(make_pair, store):
    """With a key, a newer record that no key of ours signed is reported and changes nothing, however often the records are
    read: no record is written, and no machine keeps the world in place of the one that has it."""
    one, two = make_pair("small", ())
    for keeper in (one, two):
        keeper.configure({"dump": {"hmac_key_file": keeper.secret("hmac", "k" * 32)}})
    one.ok("--seal")
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    at, before = records(store)
    junk = "7-7-" + "a" * 32 + ".json"
    with open(os.path.join(at, junk), "w") as f:
        f.write("{}")
    for _ in range(3):  # each object is stored only after the record was read again
        one.dump()
        stored(one)
    one.wait(lambda: any(junk in t["what"] for t in one.status().get("troubles", [])), "an alert that names the file")
    assert records(store)[1] == sorted([*before, junk])
    assert one.state() == "UP" and two.state() == "STANDBY"
    for number in range(7, 40):  # more than are read
        with open(os.path.join(at, f"{number}-7-{'a' * 32}.json"), "w") as f:
            f.write("{}")
    one.kill9()
    refused = two.run("--promote", "--by-hand", "--force")
    assert refused.rc != DONE and "32 newer files have no valid HMAC" in refused.err, refused
    assert "remove" in refused.err.split("HINT")[1] and "w1/record" in refused.err.split("HINT")[1], refused


def spoil_record(store, how):
    """Makes the newest record unreadable, or one of a newer format. Returns its name."""
    at, names = records(store)
    newest = max(names, key=lambda name: [int(part) for part in name.split("-")[:2]])
    now = record(store)
    with open(os.path.join(at, newest), "w") as f:
        f.write("?" if how == "damaged" else json.dumps({**now, "format": 2}))
    return newest


@pytest.mark.parametrize("how", ["damaged", "newer format"])
def test_a_newest_record_that_cannot_be_read(make_pair, store, how):
    """The older record does not count: a replaced machine that returns waits, can only become a standby, and is not promoted.
    The machine that wrote the record keeps the world and writes it again. Then the other one is its standby."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    one.world.mark(1)
    wait_pulled(one, two)
    generation = replace(one, two)["generation"]
    spoilt = spoil_record(store, how)
    number = int(spoilt.split("-")[0])

    one.server.start()
    one.start("WAITING")
    one.wait(lambda: spoilt in (one.status()["reason"] or ""), lambda: one.status())
    reason = one.status()["reason"]
    assert "it is damaged, or written by a newer version" in reason and "systemctl restart worldkeeper@w1" in reason, reason
    one.stop()
    refused = one.run("--restore", "--force")
    assert refused.rc != DONE and spoilt in refused.err, refused
    if how == "damaged":
        one.ok("--demote")
        refused = one.run("--promote", "--by-hand", "--force")
        assert refused.rc != DONE and spoilt in refused.err and "--force" not in refused.err, refused
    assert len(records(store)[1]) == 2

    two.start()
    own_dump(two, f"w1-{generation:06d}")
    assert two.state() == "UP" and record(store)["number"] == number + 1 and record(store)["generation"] == generation
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "it is the standby of the other one")


def test_a_known_record_that_is_damaged_later(make_pair, store):
    """A standby that knows the record from before it was damaged can be promoted with all that the store has."""
    one, two = make_pair("small", ())
    two.start("STANDBY")
    dump_and_follow(one)
    one.world.mark(1)
    wait_pulled(one, two)
    two.stop()
    one.ok("--restore=latest", "--force")
    own_dump(one, f"w1-{one.status()['generation']:06d}")
    two.start("STANDBY")
    wait_pulled(one, two)
    two.stop()
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    spoilt = spoil_record(store, "damaged")
    two.ok("--promote", "--by-hand", "--force")
    two.world.assert_is(before)
    assert record(store)["number"] > int(spoilt.split("-")[0])


def needs_mount(test):
    """A disk is mounted over a directory of the daemon, which only root can do."""
    return pytest.mark.needs("mount")(pytest.mark.skipif(os.geteuid() != 0, reason="this machine: only root can mount a disk")(test))


RANDOM_BYTES = (
    "CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, data VARBINARY(500)) ENGINE=MEMORY",
    "INSERT INTO big (data) SELECT RANDOM_BYTES(500) FROM (WITH RECURSIVE n AS "
    "(SELECT 1 AS i UNION ALL SELECT i+1 FROM n WHERE i<1000) SELECT i FROM n) a, (SELECT 1 UNION SELECT 2 UNION SELECT 3) b")


@contextlib.contextmanager
def own_disk(keeper):
    """Mounts a small disk over the dump directory. Yields a function that leaves so many bytes of it free."""
    disk = keeper.dumps_dir
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs", disk], check=True)

    def leave(free):
        with open(os.path.join(disk, "ballast"), "wb") as f:
            f.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - free))
    try:
        yield leave
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@needs_mount
def test_a_promotion_without_room(make_pair):
    """A promotion that lacks space on the standby's disk says so, and --force does not promote the older local data: the store
    has the newest."""
    one, two = make_pair("small", ())
    with own_disk(two) as leave:
        two.start("STANDBY")
        dump_and_follow(one)
        wait_pulled(one, two)
        leave(8 << 20)  # 16 MiB must stay free for what a restore writes
        one.world.mark(2)
        own_dump(one, one.dump()["name"])
        before = one.world.snapshot()
        one.kill9()
        one.server.kill9()
        for words in ([], ["--force"]):
            refused = two.run("--promote", "--by-hand", *words)
            assert refused.rc != DONE and "make room on that file system" in refused.err, refused
            assert "--force" not in refused.err, refused
        os.unlink(os.path.join(two.dumps_dir, "ballast"))
        two.ok("--promote", "--by-hand", "--force")
        two.world.assert_is(before)


@needs_mount
def test_a_smaller_retention_on_a_full_standby(make_pair):
    """A full standby deletes what a smaller [retention] no longer keeps, and fetches again."""
    rules = {"keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}
    one, two = make_pair("small", RANDOM_BYTES, retention={"keep_last": "3", **rules}, journal={"mode": "off"})
    two.configure({"journal": {"mode": "off"}})
    with own_disk(two) as leave:
        two.start("STANDBY")
        one.start()
        for _ in range(2):
            name = one.dump()["name"]
            two.wait(lambda: standby(two).get("newest") == name, "the dump here")
        leave((16 << 20) + (1 << 20))  # a dump has 1.5 MB
        name = one.dump()["name"]
        two.wait(lambda: "cannot fetch" in (standby(two).get("last_error") or ""), lambda: standby(two))
        two.reload({"retention": {"keep_last": "1"}})
        two.wait(lambda: standby(two).get("newest") == name, lambda: standby(two))


@needs_mount
def test_a_dump_that_the_standby_cannot_delete(make_pair):
    """A dump that [retention] must delete and that cannot be deleted is reported. The standby still fetches, and is promoted."""
    rules = {"keep_within": "0", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0"}
    one, two = make_pair("small", (), retention={"keep_last": "1", **rules}, journal={"mode": "off"})
    two.configure({"journal": {"mode": "off"}})
    two.start("STANDBY")
    one.start()
    first = one.dump()["name"]
    two.wait(lambda: standby(two).get("newest") == first, "the dump here")
    held = os.path.join(two.dumps_dir, first + ".json")
    subprocess.run(["mount", "--bind", held, held], check=True)
    try:
        for _ in range(2):
            name = one.dump()["name"]
            two.wait(lambda: standby(two).get("newest") == name, lambda: standby(two))
        told = two.expect("it is reported", standby=lambda s: first in (s["last_error"] or ""))
        assert told["standby"]["state"] == "pulling", told["standby"]
        before = one.world.snapshot()
        one.kill9()
        one.server.kill9()
        two.stop()
        two.ok("--promote", "--by-hand", "--force")
        two.world.assert_is(before)
    finally:
        subprocess.run(["umount", "-l", held], check=True)


def dumped_pair(make_pair, liar):
    """Returns a primary and a standby that has its newest dump. The store has no journal."""
    one, two = make_pair("small", (), offsite={"plain": "yes", **liar.settings()}, journal={"mode": "off"})
    two.configure({"journal": {"mode": "off"}})
    two.start("STANDBY")
    one.dump()
    one.start()
    two.wait(lambda: standby(two).get("newest") == one.newest()["name"], "the dump here")
    return one, two


def test_a_store_that_fails_once_is_not_lost(make_pair, liar):
    """If the store refuses one request and answers the next one, --force does not promote the older local data."""
    conditions = Conditions(liar)
    one, two = dumped_pair(make_pair, liar)
    two.stop()
    one.world.mark(3)
    newest = one.dump()["name"]
    one.wait(lambda: one.status()["offsite"]["newest"] == newest, "the dump in the store")
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()

    def busy(h):
        if h.command == "GET" and newest in h.path:
            h.refuse(503, "SlowDown")
            return True
        return conditions(h)
    liar.fault = busy
    refused = two.run("--promote", "--by-hand", "--force")
    assert refused.rc != DONE and "HTTP 503" in refused.err and "repeat" in refused.err, refused
    liar.fault = conditions
    two.ok("--promote", "--by-hand", "--force")
    two.world.assert_is(before)


def test_a_dump_that_the_store_never_returns(make_pair, liar):
    """If the store lists a newer dump, but cannot read its file, a standby says so and keeps its own dump. Only --force promotes
    that one."""
    conditions = Conditions(liar)
    one, two = dumped_pair(make_pair, liar)
    before = one.world.snapshot()
    two.stop()
    two.waits = 100
    one.world.mark(3)
    newest = one.dump()["name"]
    one.wait(lambda: one.status()["offsite"]["newest"] == newest, "the dump in the store")
    one.kill9()
    one.server.kill9()

    def lost(h):
        if h.command == "GET" and f"{newest}.sql.gz" in h.path:
            h.refuse(500, "InternalError")
            return True
        return conditions(h)
    liar.fault = lost
    two.start("STANDBY")
    two.wait(lambda: any("cannot be read" in c["what"] for c in two.status()["troubles"]), "the alert")
    two.stop()
    refused = two.run("--promote", "--by-hand")
    assert refused.rc != DONE and newest in refused.err and "cannot be read" in refused.err and "--force" in refused.err, refused
    done = two.ok("--promote", "--by-hand", "--force")
    assert newest in done.out + done.err, done
    two.world.assert_is(before)


def test_a_manifest_after_a_promotion(make_pair, liar):
    """A replaced machine that was suspended while it stored a dump does not store the manifest, so the dump does not count."""
    one, two = dumped_pair(make_pair, liar)
    one.stop()
    one.start(fault="offsite.file_stored=stop")
    manifest = f"/dumps/{one.dump()['name']}.json"
    sender = wait_stopped(one, "the stored file")
    one.process.send_signal(SIGSTOP)  # it would end the sender as soon as it has read the record
    try:
        two.stop()
        two.ok("--promote", "--by-hand", "--force")
        at = len(liar.paths)
        go_on(sender)
        wait_for(lambda: any("list-type" in path and "dumps" in path for path in liar.paths[at:]), "the sender's next step")
        assert not [path for path in liar.objects if path.endswith(manifest)]
    finally:
        one.process.send_signal(SIGCONT)


@pytest.mark.parametrize("kind", LEASES)
def test_a_part_after_a_promotion(make_pair, liar, tmp, kind):
    """Trace 12: a replaced machine that was suspended before it stored a part of the journal does not store it, however new its
    list of the store is."""
    Conditions(liar)
    with contextlib.ExitStack() as ended:
        lease = {"lease": kind, **({"ttl": "4s"} if kind != "none" else {})}
        if kind == "etcd":
            lease["etcd"] = (etcd := Etcd(tmp)).urls
            ended.callback(etcd.stop)
        one, two = make_pair("small", (), offsite={"plain": "yes", **liar.settings()}, standby=lease)
        for keeper in (one, two):
            keeper.run("--check")
        dump_and_follow(one)
        stored(one)
        one.stop()
        one.start(fault="offsite.chosen=stop")
        one.world.mark(9)
        senders = wait_stopped(one, "a part that is to be stored")
        to_all(one, SIGSTOP)  # the supervisor would end its workers
        ended.callback(to_all, one, SIGCONT)
        two.ok("--promote", *(["--by-hand", "--force"] if kind == "none" else []))

        def parts():
            return {path for path in list(liar.objects) if "/segments/" in path}
        before, at = parts(), len(liar.paths)
        go_on(senders)
        wait_for(lambda: parts() != before or any("list-type" in path and "dumps" in path for path in liar.paths[at:]),
                 "the sender's next step")
        assert parts() == before


def test_a_part_that_arrives_after_a_promotion(make_pair, liar):
    """Trace 12: a part of the journal was sent before the promotion and reaches the store after it. The next promotion, for which
    nothing of the life in between is stored, ends the journal where that life began."""
    conditions, late, arrives = Conditions(liar), [], threading.Event()
    one, two = make_pair("small", (), offsite={"plain": "yes", **liar.settings()})
    dump_and_follow(one)
    stored(one)
    one.world.mark(1)
    newest = one.segments.wait_all().paths()[-1]
    size, number = os.path.getsize(newest), int(re.search(r"-(\d+)\.", os.path.basename(newest))[1])
    one.wait(lambda: any(int(end) >= size for end in re.findall(rf"/w1-0*{number}-\d+\.\d+-(\d+)", " ".join(liar.objects))),
             "the journal in the store")
    sender = one.worker("off-site journal"[:12])  # as far as the kernel keeps it
    os.kill(sender, SIGSTOP)

    def held(h):
        if h.command != "PUT" or "/segments/" not in h.path or late:
            return conditions(h)
        late.append(h.path.partition("?")[0])
        arrives.wait(PATIENCE)
        liar.objects[late[0]] = h.body
        h.close_connection = True
        return True
    before = one.world.snapshot()
    try:
        one.world.mark(9)
        one.segments.wait_all()
        liar.fault = held
        os.kill(sender, SIGCONT)
        one.wait(lambda: late, "a part that is on its way")
        one.kill9()
        one.server.kill9()
        two.ok("--promote", "--by-hand", "--force")
        two.world.assert_is(before)
    finally:
        arrives.set()
    wait_for(lambda: late[0] in liar.objects, "the part arrives")
    two.server.kill9()
    one.server.start()
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("state") == "pulling", "it pulls")
    one.ok("--promote", "--by-hand", "--force")
    one.world.assert_is(before)


def test_what_an_ancestor_has_after_its_successor(make_pair, store):
    """A dump made after the takeover and never stored is abandoned: no promotion uses it, and --list says so."""
    one, two = make_pair("small", ())
    dump_and_follow(one)
    stored(one)
    before = one.world.snapshot()
    one.segments.wait_all()
    one.stop()
    one.world.mark(9)
    left = one.dump()["name"]
    one.server.kill9()
    two.ok("--promote", "--by-hand", "--force")
    two.world.assert_is(before)
    two.server.kill9()
    one.server.start()
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("state") == "pulling", "it pulls")
    listed = {d["name"]: d["abandoned"] for d in one.ok("--list", "--json")["dumps"]}
    assert listed[left] and sum(listed.values()) == 1, listed
    assert "abandoned, restored only by name" in one.ok("--list").out
    one.ok("--promote", "--by-hand", "--force")
    one.world.assert_is(before)


def kept(keeper):
    """Returns the names of the intact dumps in the dump directory, and of those that are abandoned."""
    dumps = [d for d in keeper.ok("--list", "--json")["dumps"] if d["intact"]]
    return [d["name"] for d in dumps if not d["abandoned"]], [d["name"] for d in dumps if d["abandoned"]]


def in_store(store):
    """Returns the names of the complete dumps in a directory that is a store."""
    dumps = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "dumps")
    return sorted(name.removesuffix(".json") for name in os.listdir(dumps) if name.endswith(".json"))


def test_abandoned_dumps_displace_none(make_pair, store):
    """A machine that was lost has dumps of lives that no record names, of later generations than its successor's. Its
    retention keeps the successor's dumps all the same, a promotion uses them, and the abandoned ones are not stored."""
    one, two = make_pair("small", (), **ONE_DUMP)
    dump_and_follow(one)
    stored(one)
    path = store["offsite"]["url"].removeprefix("file://").rstrip("/")
    one.stop()
    os.rename(path, path + ".away")
    one.start()
    for n in range(2):
        one.world.mark(20 + n)
        one.ok("--restore", "--force")
        lost = one.dump()
    one.kill9()
    one.server.kill9()
    os.rename(path + ".away", path)
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    assert told["generation"] < lost["generation"], (told, lost)
    two.start()
    two.world.mark(5)
    newest = two.dump()
    own_dump(two, newest["name"])
    stored(two)
    before = two.world.snapshot()

    one.server.start()
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == newest["name"], lambda: f"the successor's dump, not {standby(one)}")
    one.wait(lambda: len(kept(one)[1]) == 1 and kept(one)[0] == [newest["name"]],
             lambda: f"the successor's dump beside the newest abandoned one, not {kept(one)}")
    replace(two, one)
    one.world.assert_is(before)
    one.start()
    own = one.dump()["name"]
    own_dump(one, own)
    one.wait(lambda: in_store(store) == [own], lambda: f"only {own}, not {in_store(store)}")


def test_a_switch_over_beside_an_abandoned_dump(make_pair, store):
    """A dump of a life that no record names, of the same generation as the world's and with a higher number, lies in the
    store. A switch-over looks at the newest dump of the world's own, and is not refused."""
    one, two = make_pair("small", ())
    dump_and_follow(one)
    stored(one)
    path = store["offsite"]["url"].removeprefix("file://").rstrip("/")
    one.stop()
    shutil.copytree(path, path + ".own")
    one.start()
    one.world.mark(20)
    one.ok("--restore", "--force")
    for _ in range(6):
        lost = one.dump()
    own_dump(one, lost["name"])
    one.kill9()
    one.server.kill9()
    os.rename(path, path + ".lost")
    os.rename(path + ".own", path)
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    assert told["generation"] == lost["generation"], (told, lost)
    for file in glob.glob(os.path.join(path + ".lost", "w1", "dumps", lost["name"] + ".*")):
        shutil.copy2(file, os.path.join(path, "w1", "dumps"))
    two.start()
    two.world.mark(5)
    own = two.dump()
    assert own["sequence"] < lost["sequence"], (own, lost)
    own_dump(two, own["name"])
    stored(two)
    assert lost["name"] in in_store(store)
    before = two.world.snapshot()
    one.server.start()
    one.ok("--demote")
    one.start("STANDBY")
    wait_for(lambda: two.run("--switch-over").rc == DONE, two.log)
    one.ok("--promote", "--by-hand")
    one.world.assert_is(before)


def test_an_older_dump_that_is_stored_late(make_pair, store):
    """A dump of an earlier life that reaches the store after those of later lives is preferred by nothing: the standby stays
    at the newest, a promotion and a restore from the store take that, and retention deletes the older one first."""
    one, two = make_pair("small", ())
    dump_and_follow(one)
    stored(one)
    [old] = in_store(store)
    replace(one, two)
    one.server.start()
    one.start("STANDBY")
    two.start()
    two.world.mark(5)
    own_dump(two, two.dump()["name"])
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "the standby has the dump of the new life")
    told = replace(two, one)
    one.start()
    one.world.mark(6)
    newest = one.dump()["name"]
    own_dump(one, newest)
    dumps = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "dumps")
    for name in os.listdir(dumps):
        if name.startswith(old):
            os.remove(os.path.join(dumps, name))
    one.stop()
    one.start()
    one.wait(lambda: old in in_store(store), lambda: f"{old}, not {in_store(store)}")
    stored(one)
    assert one.status()["offsite"]["newest"] == newest, one.status()["offsite"]

    two.server.start()
    two.start("STANDBY")
    two.wait(lambda: standby(two).get("newest") == newest, lambda: f"{newest}, not {standby(two)}")
    one.segments.wait_all()
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    assert two.ok("--promote", "--by-hand", "--force", "--json")["dump"] == newest
    two.world.assert_is(before)
    two.wait_state("UP")
    own = two.dump()["name"]
    own_dump(two, own)
    assert two.ok("--restore", "--from", "offsite", "--force", "--json")["dump"] == own
    two.reload(ONE_DUMP)
    two.dump()
    own_dump(two, two.newest()["name"])
    two.wait(lambda: in_store(store) == [two.newest()["name"]], lambda: f"only the newest, not {in_store(store)}")


class Persistent(threading.Thread):
    """A game that writes to one machine for as long as it lives, whatever the server answers, and counts what was
    acknowledged."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.told, self.refused, self.ended = world, [], 0, threading.Event()

    def run(self):
        n = 0
        con = self.world.server.admin(self.world.schema, read_timeout=PATIENCE)
        while not self.ended.is_set():
            n += 1
            try:
                with con.cursor() as cur:
                    cur.execute("INSERT INTO bank VALUES (%s,1,%s,0)", (n, str(n)))
                self.told.append((n, time.time()))
            except pymysql.err.ProgrammingError as refused:
                assert refused.args[0] == 1146, refused
                self.refused += 1
            time.sleep(0.002)


@pytest.mark.parametrize("supervisor", ["alive", "stopped"])
def test_a_status_from_before_a_switch_over(make_pair, store, supervisor):
    """Without a lease too the handover is recorded only when no status of this machine says that the world is up. A stopped
    supervisor cannot withdraw its status, so the handover waits until that has expired. A game that believes it writes
    nothing: the tables are gone by then, and each acknowledged write is in the new world."""
    one, two = make_pair()
    two.start("STANDBY")
    one.dump()
    one.start(fault="aside.renamed=stop")
    following(one)
    wait_pulled(one, two)
    game = Persistent(one.world)
    game.start()
    wait_for(lambda: len(game.told) > 50, "the game writes")
    pressed = one.popen("--switch-over")
    worker, last = wait_stopped(one, "aside.renamed"), time.time()
    if supervisor == "stopped":
        one.process.send_signal(SIGSTOP)
    handovers = os.path.join(store["offsite"]["url"].removeprefix("file://"), "w1", "handover")
    assert one.status()["ready"] and two.run("--promote", "--by-hand").rc == REFUSED
    go_on(worker)

    def handed_over():
        found = os.path.isdir(handovers) and os.listdir(handovers)
        if found:
            status = one.status()
            assert not status["ready"] or precise(status["valid_until"]) <= time.time(), status
        return found
    wait_for(handed_over, "the handover is recorded")
    told = two.ok("--promote", "--by-hand", "--json")
    assert told["lost"] == "nothing lost", told
    refused = game.refused
    wait_for(lambda: game.refused > refused + 100, "the game is refused")
    game.ended.set()
    game.join()
    assert game.told[-1][1] < last, (game.told[-1], last)
    found = {n for (n,) in two.world.sql("SELECT id FROM bank")}
    assert found == {n for n, _ in game.told}, (len(found), len(game.told))
    one.process.send_signal(SIGCONT)
    assert one.finish(pressed).rc == DONE
    one.wait_state("STANDBY")


def test_a_store_that_does_not_answer_at_the_start(make_pair, store):
    """Without a lease and with an unreachable store a machine whose last known record is its own starts and warns; one that
    knows that it was replaced becomes a standby."""
    one, two = make_pair("small", ())
    dump_and_follow(one)
    stored(one)
    one.stop()
    path = store["offsite"]["url"].removeprefix("file://").rstrip("/")
    os.rename(path, path + ".away")
    one.start()
    one.wait(lambda: "cannot read the record of the world, and without a lease" in one.log(), "it says so")
    one.stop()
    os.rename(path + ".away", path)
    two.ok("--promote", "--by-hand", "--force")
    refused = one.run("--restore", "--force")
    assert refused.rc == REFUSED and "has taken this world over" in refused.err and "--demote" in refused.err, refused
    refused = one.run("--dump")
    assert refused.rc == REFUSED and "has taken this world over" in refused.err, refused
    one.start("STANDBY")


@pytest.mark.parametrize("kind", LEASES[1:])
def test_a_machine_that_returns_to_another_ones_lease(make_leased, kind):
    """A machine that returns under another machine's lease becomes the standby without a command. The new machine stores its
    world, and the old one has that world when it is promoted again (trace 2)."""
    pair = make_leased(kind)
    one, two = pair.one, pair.two
    dump_and_follow(one)
    stored(one)
    number = record(pair.store)["number"]
    assert number == one.status()["lease"]["number"]
    one.kill9()
    one.server.kill9()
    two.ok("--promote")
    assert record(pair.store)["number"] > number
    assert two.world.sql("SELECT number, until > UTC_TIMESTAMP(3) FROM worldkeeper_lease") == ((record(pair.store)["number"], 1),)
    one.server.start()
    one.start("STANDBY")
    two.start()
    own_dump(two, f"w1-{two.status()['generation']:06d}")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "it is the standby of the other one")
    two.world.mark(5)
    before = two.world.snapshot()
    wait_for(lambda: two.run("--switch-over").rc == DONE, two.log)
    told = one.ok("--promote", "--json")
    assert told["lost"] == "nothing lost", told
    one.world.assert_is(before)


@pytest.mark.parametrize("kind", LEASES[1:])
@pytest.mark.parametrize("how", ["emptied", "an older backup", "stood still"])
def test_a_place_of_the_lease_that_was_lost(make_leased, kind, how):
    """Rule 4: the lease's place is lost, or goes back to where this machine had the lease, while another machine has the world.
    The record decides: no command takes the world, and the machine that returns is the standby. The other one continues, with
    a number above that of the record."""
    pair = make_leased(kind)
    one, two = pair.one, pair.two
    dump_and_follow(one)
    stored(one)
    had, was = pair.place(), record(pair.store)
    if how == "stood still":
        to_all(one, SIGSTOP)
        ends = time.monotonic() + 4
    else:
        one.kill9()
        one.server.kill9()
    pair.put_back({})
    two.ok("--promote")
    now = record(pair.store)
    assert now["number"] > was["number"], (now, was)
    assert two.world.sql("SELECT number FROM worldkeeper_lease") == ((now["number"],),)
    if how == "stood still":
        wait_for(lambda: time.monotonic() > ends, "the end of its lease")
    pair.put_back({} if how == "emptied" else had)
    before = len(one.log())
    if how == "stood still":
        to_all(one, SIGCONT)
        one.wait_state("STANDBY")
    else:
        one.server.start()
        for words in (["--restore", "--force"], ["--dump"]) if how == "emptied" else (["--restore", "--force"],):
            refused = one.run(*words)
            assert refused.rc == REFUSED and "has taken this world over" in refused.err, refused
        one.start("STANDBY")
    assert "-> UP" not in one.log()[before:], one.log()
    two.start()
    assert two.status()["lease"]["number"] >= now["number"] and one.state() == "STANDBY", two.status()["lease"]
    assert record(pair.store) == now


@pytest.mark.parametrize("kind", LEASES[1:])
def test_a_place_of_the_lease_that_is_lost_meanwhile(make_leased, kind):
    """A machine that is up takes the lease again, since the record names it, before the lost one has ended. A machine that the
    record names takes it also from one that has it only in an older backup."""
    pair = make_leased(kind)
    one = pair.one
    one.configure({"standby": {"ttl": "12s"}})
    dump_and_follow(one)
    stored(one)
    number, before = one.status()["lease"]["number"], len(one.log())
    pair.put_back({})
    one.wait(lambda: one.status()["lease"]["number"] > number and one.state() == "UP", "it has the lease again")
    assert "WAITING" not in one.log()[before:], one.log()
    others = {k: v if kind == "s3" else base64.b64decode(v) for k, v in pair.place().items()}
    others = {k: json.dumps({**json.loads(v), "holder": "other/2", "number": 1, "ttl_ms": 4000}).encode() for k, v in others.items()}
    one.ok("--restore", "--force")
    own_dump(one, f"w1-{one.status()['generation']:06d}")
    number = one.status()["lease"]["number"]
    wait_for(lambda: record(pair.store)["number"] == number > 1, lambda: record(pair.store))
    pair.put_back(others if kind == "s3" else {k: base64.b64encode(v).decode() for k, v in others.items()})
    one.wait(lambda: one.status()["lease"]["number"] > number and one.state() == "UP", "it has the lease again")


def name_another(store):
    """Writes a record in which another machine has taken the world over."""
    at, _ = records(store)
    now = record(store)
    life = {"generation": now["generation"] + 1, "nonce": "b" * 32}
    gone = {"generation": now["generation"], "nonce": now["nonce"], "dump": "", "file": "", "pos": 0, "ended": "lost"}
    number = now["number"] + 1
    with open(os.path.join(at, f"{number}-{life['generation']}-{life['nonce']}.json"), "w") as f:
        json.dump({**now, **life, "number": number, "machine": "other/2", "ancestors": [gone, *now["ancestors"]]}, f)


@NEEDS_ETCD
def test_a_store_that_does_not_answer_beside_a_lease(make_leased, store):
    """With a lease that is unchanged a machine continues without the record, says so, and reads it later: then it steps back if
    another machine has the world. Without that lease it waits for the record."""
    pair = make_leased("etcd")
    one = pair.one
    dump_and_follow(one)
    stored(one)

    def restart(state):
        one.stop()
        pair.away(True)
        one.start(state)
    restart("UP")
    one.wait(lambda: "cannot read the record of the world" in one.log() and one.status()["lease"]["error"], "it says so")
    pair.away(False)
    one.wait(lambda: "the record of the world was read" in one.log(), "it is read")
    assert one.state() == "UP" and one.status()["lease"]["error"] is None, one.status()

    one.stop()
    pair.put_back({})
    one.start()
    restart("UP")  # the new lease is the one that it had last
    one.stop()
    pair.put_back({})
    one.start("WAITING")
    one.wait(lambda: "cannot read the record of the world, and the lease does not prove" in one.status()["reason"], "why")
    assert "[offsite] url" in one.status()["reason"] and not pair.place(), (one.status(), pair.place())
    refused = one.run("--restore", "--force")
    assert refused.rc == REFUSED, refused
    one.stop()
    refused = one.run("--restore", "--force")
    assert refused.rc != DONE and "the lease does not prove" in refused.err and not pair.place(), refused
    one.start("WAITING")
    pair.away(False)
    one.wait_state("UP")

    restart("UP")
    one.wait(lambda: one.status()["lease"]["error"], "it says so")
    pair.away(False)
    name_another(store)
    one.wait_state("STANDBY")
    assert [name for name in os.listdir(one.dumps_dir) if name.startswith("conflict-")], os.listdir(one.dumps_dir)


def test_an_init_of_a_world_that_another_machine_keeps(make_pair, store):
    """--init is refused where the record names another machine; there is no world of one's own in that place."""
    one, two = make_pair("small", ())
    dump_and_follow(one)
    stored(one)
    for words in (["--init"], ["--init", "--force"]):
        refused = two.run(*words)
        assert refused.rc == REFUSED and "keeps world w1" in refused.err and "--promote --by-hand" in refused.err, refused
    assert ("worldkeeper_sentinel",) not in two.world.sql("SHOW TABLES"), two.world.sql("SHOW TABLES")
    one.ok("--init")
    one.stop()
    shutil.rmtree(one.dumps_dir)
    one.ok("--init", "--force")  # by its life, which is still in the server
    path = store["offsite"]["url"].rstrip("/")
    os.mkdir(path.removeprefix("file://") + "-2")
    two.configure({"offsite": {"url": path + "-2/"}})
    two.init().start()
    own_dump(two, "w1-000001")
