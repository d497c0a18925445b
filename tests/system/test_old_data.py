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
