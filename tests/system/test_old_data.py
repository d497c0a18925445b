"""Data of 0.1.0 and 0.2.0 is read and upgraded in place; data of a newer version is refused and kept. The data belongs to a
world that was lost once (tests/tools/old_data.py)."""
import hashlib
import json
import os
import shutil

import pytest
from wk.follow import LOG, following
from wk.keeper import DONE, REFUSED
from wk.offsite import stored
from wk.olddata import KEY, SCHEMA, rows, unpack

pytestmark = pytest.mark.only("mariadb", why="what 0.1.0 and 0.2.0 have written of a MariaDB")
VERSIONS = ["0.1.0", "0.1.0-signed", "0.2.0", "0.2.0-signed"]


@pytest.fixture
def old(tmp, make_server, make_world, make_keeper, make_smtp):
    """Returns old(name, …), which gives a keeper with these data on a new server with an empty schema; `left` has the expected
    rows."""
    def make(name, dumps=True, **settings):
        unpack(name, tmp)
        world = make_world("empty", make_server(*LOG), SCHEMA)
        smtp = make_smtp()
        keeper = make_keeper(world, {"journal": {"mode": "follow"}, "restore": {"new_server": "yes"},
                                     **smtp.settings(), **settings})
        if name.endswith("signed"):
            keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
        if dumps:
            shutil.rmtree(keeper.dumps_dir)
            shutil.copytree(os.path.join(tmp, "dumps"), keeper.dumps_dir)
            os.chmod(keeper.dumps_dir, 0o700)
        keeper.smtp = smtp
        with open(os.path.join(tmp, "rows.json"), encoding="utf-8") as f:
            keeper.left = json.load(f)
        return keeper
    return make


def data(keeper, name):
    with open(os.path.join(keeper.dumps_dir, name), encoding="utf-8") as f:
        return json.load(f)


@pytest.mark.parametrize("name", VERSIONS)
def test_read_and_upgraded(old, name):
    """Dumps, segments, state, history and alerts of an old version are read: the world is restored, each alert that can be
    trusted is sent, and the new state has a format number."""
    keeper = old(name)
    waiting = sorted(f for f in os.listdir(os.path.join(keeper.dumps_dir, "alerts")) if f.endswith(".json"))
    assert "format" not in data(keeper, "state.json") and len(waiting) >= 2
    listed = keeper.ok("--list", "--json")
    assert len(listed["dumps"]) == 4 and all(d["intact"] for d in listed["dumps"])
    assert keeper.run("--verify").rc == DONE
    if name.startswith("0.2"):
        assert "restore" in keeper.run("--history", "--since", "3650d").out
    keeper.start()
    assert rows(keeper.world) == keeper.left
    following(keeper)
    assert data(keeper, "state.json")["format"] == 1
    assert data(keeper, "state.json")["generation"] > 2
    keeper.wait(lambda: not [f for f in waiting if os.path.exists(os.path.join(keeper.dumps_dir, "alerts", f))],
                "the old alerts to be delivered")
    aside = [f for f in os.listdir(os.path.join(keeper.dumps_dir, "alerts")) if f.endswith(".bad")]
    if name == "0.1.0-signed":  # 0.1.0 did not sign alerts, so their origin is unknown
        assert len(aside) == len(waiting)
    else:
        assert not aside and "earlier)" in (said := keeper.smtp.mails[0].subject), said
    keeper.stop()
    keeper.dump()
    assert keeper.run("--verify").rc == DONE


@pytest.mark.parametrize("fault", ["state.saved=killall", "state.saved#2=killall", "history.appended=killall", "alert.queued=killall"])
@pytest.mark.parametrize("name", ["0.1.0", "0.2.0-signed"])
def test_killed_while_upgraded(old, name, fault):
    """After a kill during the upgrade the next start restores the world, whichever format each file has."""
    keeper = old(name)
    keeper.start(state=None, fault=fault)
    keeper.wait(lambda: keeper.process.poll() is not None, "the kill")
    keeper.start()
    assert rows(keeper.world) == keeper.left
    assert data(keeper, "state.json")["format"] == 1


@pytest.mark.parametrize("name", ["0.2.0", "0.2.0-signed"])
def test_store(old, tmp, name):
    """Copies of dumps and segments of an old version in a store restore the world on another machine, which then stores its
    own."""
    url = f"file://{tmp}/store/"
    keeper = old(name, dumps=False, offsite={"url": url, "plain": "yes"})
    listed = keeper.ok("--list", "--from", "offsite", "--json")
    assert len(listed["dumps"]) == 4, listed
    assert keeper.run("--verify", "--from", "offsite").rc == DONE
    keeper.ok("--restore", "--from", "offsite")
    assert rows(keeper.world) == keeper.left
    keeper.start()
    stored(keeper)


def test_store_after_init(old, tmp):
    """A restore of dumps from before rounds existed is refused after --init, and the command in the refusal restores the
    newest."""
    keeper = old("0.2.0", dumps=False, offsite={"url": f"file://{tmp}/store/", "plain": "yes"}).init()
    done = keeper.run("--restore", "--from", "offsite")
    named = done.err.split("--restore=")[1].split()[0]
    keeper.ok("--restore=" + named, "--from", "offsite")
    assert rows(keeper.world)["player"], named


def newer(keeper, file, **more):
    path = os.path.join(keeper.dumps_dir, file)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**more, "format": 9}, f)
    os.chmod(path, 0o600)
    return path


def test_newer_state_is_refused(old):
    """A state.json of a newer version is refused by every action and by the supervisor, with its path, its format and the
    solution, and is not changed."""
    keeper = old("0.2.0")
    path = newer(keeper, "state.json", world="w1", generation=77)
    for action in ("--dump", "--list", "--restore", "--run"):
        done = keeper.run(action)
        assert done.rc == REFUSED, done
        assert "state.json was written by a newer version of worldkeeper: its format is 9" in done.err
        assert "install that version again; or remove " + path in done.err
    assert data(keeper, "state.json")["generation"] == 77
    os.unlink(path)
    keeper.start()
    assert rows(keeper.world) == keeper.left


def test_newer_dump_is_kept_and_not_used(old):
    """A dump of a newer version, as after a downgrade, is neither used nor deleted; the newest readable dump is restored."""
    keeper = old("0.2.0", retention={"keep_last": 1, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0})
    name = keeper.newest()["name"]
    m = data(keeper, name + ".json")
    for key in ("checksum", "hmac"):
        m.pop(key, None)
    m["format"] = 9
    m["checksum"] = checksum(m)
    newer(keeper, name + ".json", **m)
    first = keeper.ok("--list", "--json")["dumps"][0]
    assert first["name"] == name and not first["intact"], first
    assert "it was written by a newer version of worldkeeper: its format is 9" in json.dumps(first)
    keeper.start()
    assert rows(keeper.world) == keeper.left
    keeper.stop()
    keeper.dump()
    assert os.path.exists(os.path.join(keeper.dumps_dir, name + ".json"))
    assert os.path.exists(os.path.join(keeper.dumps_dir, name + ".sql.gz"))


def checksum(m):
    text = json.dumps(m, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def pair(tmp, make_server, make_world, make_keeper):
    """Returns pair(moment, one, two), which gives the machines "one" and "two" of 0.2.0 at these moments
    (tests/tools/old_data.py), each on a new server with an empty schema, with the store at `moment`. `left` has the rows before the switch-over."""
    unpack("0.2.0-pair", tmp)
    with open(os.path.join(tmp, "rows.json"), encoding="utf-8") as f:
        left = json.load(f)

    def make(moment, *moments):
        settings = {"journal": {"mode": "follow"}, "restore": {"new_server": "yes"}, "standby": {"lease": "none"},
                    "offsite": {"url": f"file://{tmp}/{moment}/store/", "plain": "yes"}}
        keepers = []
        for name, of in zip(("one", "two"), moments):
            keeper = make_keeper(make_world("empty", make_server(*LOG), SCHEMA), {k: dict(v) for k, v in settings.items()})
            shutil.rmtree(keeper.dumps_dir)
            shutil.copytree(os.path.join(tmp, of, name), keeper.dumps_dir)
            os.chmod(keeper.dumps_dir, 0o700)
            keeper.left, keeper.store = left, os.path.join(tmp, moment, "store", "w1")
            keepers.append(keeper)
        return keepers
    return make


def record(keeper):
    """Returns the newest record in the store, or None."""
    at = os.path.join(keeper.store, "record")
    names = os.listdir(at) if os.path.isdir(at) else []
    if not names:
        return None
    with open(os.path.join(at, max(names, key=lambda name: int(name.split("-")[0]))), encoding="utf-8") as f:
        return json.load(f)


def standby(keeper):
    return keeper.status().get("standby") or {}


def lose(keeper):
    keeper.kill9()
    keeper.server.kill9()


def life(of):
    return of["generation"], of["nonce"]


def test_two_machines_go_on(pair):
    """A primary and a standby with the files and the store of 0.2.0: the primary restores its world without asking and writes
    the first record. The standby goes on with what it has, and is promoted with all that the primary has stored since. The
    former primary finds the record and becomes the standby."""
    one, two = pair("before", "before", "before")
    was = data(one, "state.json")
    two.start("STANDBY")
    two.wait(lambda: standby(two).get("state") == "pulling", "it pulls from a store without a record")
    assert record(one) is None and standby(two)["newest"] == two.newest()["name"]
    one.start()
    assert rows(one.world) == one.left
    one.dump()
    stored(one)
    first = record(one)
    assert life(first) == life(data(one, "state.json")), first
    assert [(life(a), a["ended"]) for a in first["ancestors"]] in ([], [(life(was), "restored")]), first
    assert first["machine"] == data(one, "state.json")["holder"]
    one.world.sql("INSERT INTO player VALUES (5,'öt',50)")
    following(one)
    two.wait(lambda: standby(two).get("newest") == one.newest()["name"], "the dump of this version")
    one.dump()
    stored(one)
    before = rows(one.world)
    lose(one)
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    assert rows(two.world) == before and told["recorded"], told
    now = record(two)
    assert [(life(a), a["ended"]) for a in now["ancestors"]][0] == (life(first), "lost"), now
    one.server.start()
    one.start("STANDBY")
    assert record(one) == now


def test_a_standby_is_promoted_beside_a_lost_old_primary(pair):
    """Only a standby of 0.2.0 is left: without a handover an operator must confirm, and the promotion restores all that was
    stored. The life of the dump becomes the ancestor in the first record, so the old primary becomes the standby."""
    one, two = pair("before", "before", "before")
    refused = two.run("--promote", "--by-hand")
    assert refused.rc == REFUSED and "nothing proves that the other machine has stopped" in refused.err, refused
    assert record(two) is None
    told = two.ok("--promote", "--by-hand", "--force", "--json")
    assert rows(two.world) == two.left and told["lost"].startswith("lost:") and told["recorded"], told
    now = record(two)
    assert [(life(a), a["dump"], a["ended"]) for a in now["ancestors"]] == [
        (life(data(one, "state.json")), two.newest()["name"], "lost")], now
    one.start("STANDBY")
    assert record(one) == now
    two.start()
    two.dump()
    stored(two)
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "the old primary is its standby")


@pytest.mark.parametrize("store", ["all of the journal", "less of the journal"])
def test_an_old_handover(pair, store):
    """A handover that 0.2.0 wrote has no nonce and no position. It shows that the other machine has stopped, but not that nothing
    is lost, whether or not the store has the end of the journal."""
    one, two = pair("handed-over", "handed-over", "handed-over")
    if store == "less of the journal":
        shutil.rmtree(os.path.join(two.dumps_dir, "journal"))
        shutil.rmtree(os.path.join(two.store, "segments"))
    one.start("STANDBY")
    told = two.ok("--promote", "--by-hand", "--json")
    assert (rows(two.world) == two.left) == (store == "all of the journal")
    assert told["lost"].startswith("lost:") and told["lost_seconds"] is None and told["lost_seconds_max"] is None, told
    now = record(two)
    assert [(life(a), a["ended"]) for a in now["ancestors"]] == [(life(data(one, "state.json")), "handed over")], now
    assert os.listdir(os.path.join(two.store, "handover")) == []
    two.start()
    stored(two)
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "the old primary is its standby")


def handover(keeper, generation):
    """Writes a handover into the store, as 0.2.0 does."""
    at = os.path.join(keeper.store, "handover")
    os.makedirs(at, 0o700, exist_ok=True)
    with open(os.path.join(at, f"{generation}-1796102822493.json"), "w", encoding="utf-8") as f:
        json.dump({"world": "w1", "generation": generation, "at": "2026-12-01T05:27:02Z"}, f)


def test_an_old_handover_of_an_ended_life(pair):
    """A handover of 0.2.0 proves nothing about a machine that was promoted after it, not even while nothing of its life is
    stored."""
    one, two = pair("handed-over", "handed-over", "handed-over")
    generation = two.newest()["generation"]
    two.ok("--promote", "--by-hand")
    handover(one, generation)  # a store may answer with what was deleted
    refused = one.run("--promote", "--by-hand")
    assert refused.rc == REFUSED and "the record of this world changed meanwhile" in refused.err, refused
    two.start()
    two.dump()
    stored(two)
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other machine stored")
    refused = one.run("--promote", "--by-hand")
    assert refused.rc == REFUSED and "nothing proves that the other machine has stopped" in refused.err, refused


def test_a_replaced_machine_writes_no_first_record(pair):
    """A machine of 0.2.0 was replaced while it was away, comes back with this version, and finds dumps of its successor but no
    record. It restores its world, as 0.2.0 does, but stores nothing and writes no record: the successor does, and then the
    other one may only become its standby."""
    one, two = pair("promoted", "before", "promoted")
    one.start()
    fenced = one.expect("it is reported", offsite=lambda o: o and o["fenced"])
    assert record(one) is None, record(one)
    [said] = [t["what"] for t in fenced["troubles"] if "another machine stores this world" in t["what"]]
    assert "w1-000002-" in said, said
    two.start()
    stored(two)
    assert "hat" in [nick for _, nick, _ in rows(two.world)["player"]]
    one.wait_state("WAITING")
    assert "another machine keeps it" in one.status()["reason"], one.status()
    one.ok("--demote")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "it is the standby of the other one")
    assert record(one)["machine"] == data(two, "state.json")["holder"]


def test_what_0_2_stores_beside_a_record(pair, tmp):
    """A machine of 0.2.0 stores dumps of a later generation than that of the record. The record's machine stops its uploads; the
    standby and a promotion do not use these dumps. All three say so."""
    one, two = pair("before", "before", "before")
    one.configure({"restore": {"new_server": "no"}})
    one.start("WAITING")  # the world's generation stays
    one.wait(lambda: record(one), "the first record")
    first = record(one)
    for name in os.listdir(f"{tmp}/promoted/store/w1/dumps"):
        if name.startswith("w1-000002-00000003"):
            shutil.copy(f"{tmp}/promoted/store/w1/dumps/{name}", f"{one.store}/dumps")
            later = name.split(".")[0]
    fenced = one.expect("it is reported", offsite=lambda o: o and o["fenced"])
    [said] = [t["what"] for t in fenced["troubles"] if "another machine stores this world" in t["what"]]
    assert later in said, said
    two.start("STANDBY")
    two.wait(lambda: [t for t in two.status()["troubles"] if later in t["what"] and "version 0.2" in t["hint"]],
             lambda: two.status()["troubles"])
    one.kill9()
    told = two.run("--promote", "--by-hand", "--force")
    assert told.rc == DONE and f"dump {later} in the store is not used" in told.err, told
    assert rows(two.world) == two.left
    assert record(two)["generation"] > 2 and [life(a) for a in record(two)["ancestors"]] == [life(first)], record(two)
