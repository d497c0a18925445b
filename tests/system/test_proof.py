"""Tests that what verification and loading proved about a dump is recorded with it."""
import os
import re
import shutil
import time

import pytest
from wk.follow import LOG
from wk.keeper import FAILED, NOTHING, NOT_WELL, USER
from wk.util import ident, wait_for

pytestmark = pytest.mark.either_server


def allow_drills(keeper):
    for host in ("localhost", "127.0.0.1"):
        keeper.server.sql(f"GRANT ALL ON `worldkeeper\\_drill%`.* TO keeper@'{host}'")


def two_dumps(keeper):
    keeper.dump()
    older = keeper.newest()
    keeper.world.mark(2)
    keeper.dump()
    return older, keeper.newest()


def flip(keeper, manifest):
    """Flips one bit of the file and keeps its size. Returns the path of an unchanged copy."""
    path = keeper.path(manifest)
    shutil.copy2(path, path + ".was")
    with open(path, "r+b") as f:
        f.seek(manifest["file_size"] // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 8]))
    return path + ".was"


def listed(keeper):
    return {d["name"]: d for d in keeper.ok("--list", "--json")["dumps"]}


def test_a_verify_says_when_a_dump_was_last_proven(keeper):
    """--list shows when a dump was last proven: first when it was stored, then when --verify read it."""
    keeper.dump()
    name = keeper.newest()["name"]
    first = listed(keeper)[name]
    assert first["intact"] and first["proven_by"] == "dump" and first["proven_at_unix"] >= first["at_unix"]
    keeper.ok("--verify")
    second = listed(keeper)[name]
    assert second["proven_by"] == "verify" and second["proven_at_unix"] >= first["proven_at_unix"]
    assert "yes (verify, " in keeper.ok("--list").out


@pytest.mark.parametrize("found", ["verify", "restore", "drill"])
def test_what_was_found_damaged_stays_known(keeper, found):
    """A dump that a verify, a restore or a drill found damaged is no longer used, until --verify=NAME finds it intact."""
    allow_drills(keeper)
    older, newer = two_dumps(keeper)
    assert all(d["intact"] and not d["damaged"] for d in listed(keeper).values())
    good = flip(keeper, newer)
    if found == "verify":
        assert keeper.run("--verify").rc == NOT_WELL
    else:
        done = keeper.ok(*{"restore": ["--restore", "--force"], "drill": ["--drill"]}[found], "--json")
        assert done["dump"] == older["name"] and done["skipped"][0]["dump"] == newer["name"], done
    os.rename(good, keeper.path(newer))
    for _ in range(2):
        now = listed(keeper)[newer["name"]]
        assert now["damaged"] and not now["intact"] and now["proven_at"] is None, now
        assert f"found damaged by a {found}" in now["reason"]
        done = keeper.run("--restore=" + newer["name"], "--dry-run", "--force")
        assert done.rc == NOTHING and "--verify=" + newer["name"] in done.err, done
    keeper.ok("--verify=" + newer["name"])
    now = listed(keeper)[newer["name"]]
    assert now["intact"] and not now["damaged"] and now["proven_by"] == "verify", now


def test_a_dry_run_writes_nothing_down(keeper):
    """A dry run that finds a damaged dump does not record it."""
    _, newer = two_dumps(keeper)
    flip(keeper, newer)
    assert keeper.ok("--restore", "--dry-run", "--force", "--json")["skipped"]
    assert listed(keeper)[newer["name"]]["intact"]


def test_a_supervisor_tells_of_a_damaged_dump(keeper, http):
    """A supervisor reports a damaged dump in status, metrics and an alert that names the disk, and makes a new dump."""
    keeper.configure({**http.settings(), "status": {"metrics": "world.prom"}})
    keeper.start()
    keeper.wait(keeper.dumps, "a dump")
    keeper.wait(lambda: keeper.status().get("damaged_dumps") == [], "no dump is damaged")
    newer = keeper.dump()  # the one before it stays intact
    good = flip(keeper, newer)
    assert keeper.run("--verify").rc == NOT_WELL
    keeper.wait(lambda: keeper.status()["damaged_dumps"], "it is told")
    (told,) = keeper.status()["damaged_dumps"]
    assert told["dump"] == newer["name"] and told["by"] == "verify", told
    keeper.expect("what is wrong", troubles=lambda all_: any(newer["name"] in t["what"] and " on /" in t["what"] for t in all_))
    wait_for(lambda: any(newer["name"].encode() in r.body and b"is damaged" in r.body for r in http.requests),
             "the alert")
    (cost,) = {m["exposure"] for m in http.messages() if "is damaged" in m["what"]}
    assert re.match(r"at most \S+( \S+)? of play: the newest intact dump is ", cost), cost
    keeper.wait(lambda: "worldkeeper_damaged_dumps{" in keeper.published("world.prom"), "the metrics")
    keeper.wait(lambda: keeper.newest()["name"] != newer["name"], "another dump")
    os.rename(good, keeper.path(newer))
    keeper.ok("--verify=" + newer["name"])
    keeper.wait(lambda: keeper.status()["damaged_dumps"] == [], "it is well again")


def not_loadable(keeper):
    """Makes two dumps. In the newer one two rows are equal in a column that gets a unique key later."""
    keeper.world.sql("CREATE TABLE twins (id INT PRIMARY KEY, v INT) ENGINE=MEMORY", "INSERT INTO twins VALUES (1,1),(2,2)")
    keeper.dump()
    older = keeper.newest()
    keeper.world.sql("UPDATE twins SET v=1")
    keeper.dump()
    return older, keeper.newest()


def forbid_twins(keeper):
    keeper.world.sql("DELETE FROM twins", "ALTER TABLE twins ADD UNIQUE KEY (v)")


def test_a_dump_whose_rows_a_newer_key_refuses(doomed, victim):
    """A dump whose rows a newer unique key refuses does not count as damaged: only that table is restored as the dump defines
    it."""
    doomed.configure({"journal": {"mode": "off"}})
    _, newer = not_loadable(doomed)
    victim.crash()
    forbid_twins(doomed)
    done = doomed.ok("--restore", "--json")
    assert done["dump"] == newer["name"] and [t["table"] for t in done["as_dumped"]] == ["twins"], done
    assert listed(doomed)[newer["name"]]["intact"] and doomed.world.value("SELECT SUM(v) FROM twins") == 2


@pytest.mark.parametrize("how", ["drill", "moment"])
def test_rows_of_the_journal_are_not_the_dumps(make_world, make_keeper, make_server, how):
    """A drill or --into uses the dump's definitions, whose unique key refuses later rows if it was dropped since. The dump
    does not count as damaged for that, and a restore of the world succeeds."""
    keeper = make_keeper(make_world("small", make_server(*LOG))).init()
    world, into = keeper.world, keeper.world.schema + "_x"
    keeper.server.account(USER, [world.schema, into])
    allow_drills(keeper)
    world.sql("CREATE TABLE twins (id INT PRIMARY KEY, v INT, UNIQUE KEY (v)) ENGINE=MEMORY",
              "INSERT INTO twins VALUES (1,1),(2,2)")
    dump = keeper.dump()["name"]
    world.sql("ALTER TABLE twins DROP KEY v", "INSERT INTO twins VALUES (3,1)")
    time.sleep(1.1)  # the log has whole seconds
    moment = f"{world.sql('SELECT UTC_TIMESTAMP()')[0][0]}Z"
    for _ in range(3):
        done = keeper.run(*{"drill": ["--drill"], "moment": ["--restore", "--at", moment, "--into", into]}[how])
        assert done.rc == FAILED and "twins" in done.err and "Duplicate entry '1'" in done.err, done
    assert listed(keeper)[dump]["intact"]
    before = world.snapshot()
    keeper.server.crash()
    assert keeper.ok("--restore", "--json")["journal"]["whole"]
    world.assert_is(before)
    keeper.server.sql(f"DROP DATABASE IF EXISTS {ident(into)}")


def test_one_row_does_not_keep_the_world_down(doomed, victim):
    """A supervisor restores such a table automatically as the dump defines it."""
    doomed.configure({"journal": {"mode": "off"}, "dump": {"interval": "1h"}})
    _, newer = not_loadable(doomed)
    victim.crash()
    forbid_twins(doomed)
    doomed.start(state=None)
    doomed.wait_state("UP")
    last = doomed.status()["last_restore"]
    assert last["dump"] == newer["name"] and [t["table"] for t in last["as_dumped"]] == ["twins"], last
    assert doomed.status()["damaged_dumps"] == []


