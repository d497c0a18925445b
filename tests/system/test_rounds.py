"""Tests of rounds: a new world replaces the old one, and the old one is never restored over it automatically."""
import glob
import os
import re
import shlex
import shutil

import pytest
from wk.follow import dump_and_follow
from wk.keeper import DONE, NOTHING, REFUSED, USER
from wk.offsite import lose_machine, stored
from wk.server import mysqldump

pytestmark = pytest.mark.either_server


def dumps(keeper):
    return keeper.ok("--list", "--json")["dumps"]


def earlier(keeper):
    return {d["name"]: d["earlier_round"] for d in dumps(keeper)}


def load_new_round(keeper):
    """Loads the tables of a new round after DROP DATABASE, as an admin does without worldkeeper."""
    world, schema = keeper.world, keeper.world.schema
    (_, create), = world.sql("SHOW CREATE TABLE player")
    world.server.sql(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4")
    world.sql(create, "INSERT INTO player (nick,points) VALUES ('new one',1),('new two',2)")


def nicks(keeper):
    return sorted(n for (n,) in keeper.world.sql("SELECT nick FROM player"))


def lose(keeper, victim):
    victim.crash()
    keeper.wait(lambda: keeper.status().get("last_restore") and keeper.state() == "UP", "the world")


@pytest.mark.quick
def test_the_old_round_never_comes_back_over_the_new_one(doomed, victim):
    """After DROP DATABASE, new tables and --init the next loss restores the new round, from its own dump."""
    old = doomed.dump()["name"]
    doomed.start()
    load_new_round(doomed)
    doomed.wait(lambda: doomed.state() == "WAITING" or "MISSING" in str(doomed.status()), "that the sentinel is missing")
    doomed.ok("--init")
    doomed.wait(lambda: any(not d["earlier_round"] for d in dumps(doomed)), "the first dump of the new round")
    assert earlier(doomed)[old] and not doomed.rejected()
    doomed.world.sql("INSERT INTO player (nick,points) VALUES ('new three',3)")
    new = doomed.dump()["name"]
    lose(doomed, victim)
    assert doomed.status()["last_restore"]["dump"] == new
    assert nicks(doomed) == ["new one", "new three", "new two"]


def test_a_loss_before_the_first_dump_restores_nothing(doomed, victim):
    """Before the first dump of a new round nothing is restored automatically; the old round's dump is named and restored only
    by its name."""
    old = doomed.dump()["name"]
    before = doomed.world.snapshot()
    load_new_round(doomed)
    doomed.ok("--init")
    victim.crash()
    done = doomed.run("--restore", "--json")
    assert done.rc == NOTHING and "earlier rounds" in done.json["error"]["text"], done
    assert "--restore=" + old in done.json["error"]["hint"]
    done = doomed.run("--restore", "--at", "now")
    assert done.rc != DONE, done
    doomed.ok("--restore=" + old, "--force")
    doomed.world.assert_is(before)


def test_a_suggested_restore_keeps_what_was_typed(doomed, victim):
    """The dump of the earlier round that a refusal names is read, loaded beside the world, or replaces one table, as it was
    typed: a restore of everything instead would be a loss."""
    old = doomed.dump()["name"]
    load_new_round(doomed)
    doomed.ok("--init")
    doomed.server.account(USER, [doomed.world.schema, "it's"])
    victim.crash()
    options = [["--dry-run"], ["--into", "it's"], ["--table", "player"], ["--with-code"], ["--accept-cut"], ["--quiet"]]
    suggested = set()
    for chosen in range(1 << len(options)):
        typed = [word for i, words in enumerate(options) if chosen >> i & 1 for word in words]
        done = doomed.run("--restore", *typed)
        assert done.rc != DONE, done
        for command in re.findall(r"worldkeeper (--config .*?--restore=.*?); worldkeeper", done.err):
            said = shlex.split(command)
            assert said[:3] == ["--config", doomed.config_path, f"--restore={old}"], (typed, done.err)
            assert sorted(said[3:]) == sorted(typed), (typed, done.err)
            suggested.add(chosen)
    assert len(suggested) >= 1 << (len(options) - 1), suggested  # the others are refused for another reason


def test_a_row_that_was_deleted_is_put_back_into_the_same_round(doomed):
    """--init after the sentinel's row was deleted puts it back in the same round, because the server was not restarted."""
    old = doomed.dump()["name"]
    doomed.world.sql("DELETE FROM worldkeeper_sentinel")
    assert doomed.ok("--init", "--json")["did"] == "put back"
    assert not earlier(doomed)[old]


def test_new_round_is_the_planned_way(doomed, victim):
    """--new-round makes and pins a last dump of the old round; the tables are then reloaded under the running supervisor, and
    a loss restores the new round."""
    doomed.configure({"retention": {"keep_last": "1", "keep_within": "0", "keep_daily": "0", "keep_weekly": "0"}})
    doomed.dump()
    doomed.start()
    doomed.world.sql("INSERT INTO player (nick,points) VALUES ('the last of the old round',1)")
    did = doomed.ok("--new-round", "--json")
    assert did["first"] and did["last"] and did["first"] != did["last"], did
    assert earlier(doomed)[did["last"]] and not earlier(doomed)[did["first"]]
    assert doomed.state() == "UP"
    doomed.world.sql("TRUNCATE TABLE player", "INSERT INTO player (nick,points) VALUES ('new',1)")
    doomed.dump()
    doomed.dump()
    assert did["last"] in earlier(doomed), "pinned, whatever retention says"
    lose(doomed, victim)
    assert nicks(doomed) == ["new"]
    doomed.ok("--restore=" + did["last"], "--force")
    assert "the last of the old round" in nicks(doomed)


def test_new_round_from_a_file(doomed, victim, tmp_path):
    """--new-round --from checks the file first: an invalid one leaves the old round as it is."""
    doomed.dump()
    bad, good = str(tmp_path / "bad.sql"), str(tmp_path / "good.sql")
    with open(bad, "w") as f:
        f.write("no SQL at all\n")
    done = doomed.run("--new-round", "--from", bad)
    assert done.rc != DONE and not any(earlier(doomed).values()), done
    spare = doomed.world.schema + "_spare"
    doomed.server.sql(f"CREATE DATABASE {spare}", f"CREATE TABLE {spare}.player LIKE {doomed.world.schema}.player",
                      f"INSERT INTO {spare}.player (nick,points) VALUES ('from the file',1)")
    mysqldump(doomed.server, spare, good)
    doomed.server.sql(f"DROP DATABASE {spare}")
    did = doomed.ok("--new-round", "--from", good, "--json")
    assert did["restored"]["generation"] > did["generation"], did
    assert nicks(doomed) == ["from the file"]


@pytest.mark.parametrize("point", ["round.dumped", "round.begun", "round.adopted"])
def test_a_kill_in_between(doomed, victim, point):
    """After a kill of --new-round the command can be repeated, and the round has changed only if it had begun."""
    old = doomed.dump()["name"]
    done = doomed.finish(doomed.popen("--new-round", fault=point + "=kill"))
    assert done.rc != DONE
    begun = point != "round.dumped"
    assert earlier(doomed)[old] == begun
    doomed.ok("--new-round")
    assert sum(not e for e in earlier(doomed).values()) == 1


def test_shrinking_is_not_compared_across_rounds(doomed):
    """The first, much smaller dump of a new round is not rejected as shrunk."""
    doomed.configure({"dump": {"shrink_action": "reject"}})
    doomed.dump()
    load_new_round(doomed)
    doomed.ok("--init")
    assert doomed.dump()["round"] == 2 and not doomed.rejected()


def test_dumps_of_version_0_2_are_of_the_round_that_goes_on(doomed):
    """Dumps without a round, as of version 0.2, belong to the current round."""
    doomed.dump()
    for name in glob.glob(os.path.join(doomed.dumps_dir, "round.json")):
        os.unlink(name)
    assert not any(earlier(doomed).values())
    doomed.ok("--restore", "--dry-run", "--force")


@pytest.mark.parametrize("harm", ["no round.json", "damaged round.json", "only the manifest of its dump"])
def test_a_lost_file_leads_back_to_no_earlier_round(doomed, victim, harm):
    """The number of the round is stored in several places, so that the loss of one of these files does not restore the old
    world."""
    old = doomed.dump()["name"]
    load_new_round(doomed)
    doomed.ok("--init")
    noted = os.path.join(doomed.dumps_dir, "round.json")
    if harm == "no round.json":
        os.unlink(noted)
    elif harm == "damaged round.json":
        with open(noted, "w") as f:
            f.write("{")
    else:
        new = doomed.dump()["name"]
        for name in (noted, os.path.join(doomed.dumps_dir, "state.json"), os.path.join(doomed.dumps_dir, new + ".sql.gz")):
            os.unlink(name)
    assert earlier(doomed)[old]
    victim.crash()
    done = doomed.run("--restore", "--json")
    assert done.rc == NOTHING and "--restore=" + old in done.json["error"]["hint"], done


def test_a_world_that_is_adopted_by_force_is_a_new_round(doomed, victim):
    """--init --force over the sentinel of another world begins a new round, and earlier dumps belong to earlier rounds."""
    old = doomed.dump()["name"]
    load_new_round(doomed)
    doomed.ok("--init")
    doomed.world.sql("UPDATE worldkeeper_sentinel SET nonce=REPEAT('a',32)")
    assert doomed.run("--init").rc != DONE
    did = doomed.ok("--init", "--force", "--json")
    assert did["round"] == 3, did
    assert earlier(doomed)[old]
    new = doomed.dump()
    assert new["round"] == did["round"] and not earlier(doomed)[new["name"]]
    assert new["generation"] == did["generation"]


def test_a_loss_after_going_back_by_name(doomed, victim):
    """An old round that was restored by name is restored again after a loss before its next dump."""
    old = doomed.dump()["name"]
    before = doomed.world.snapshot()
    load_new_round(doomed)
    doomed.ok("--init")
    victim.crash()
    doomed.ok("--restore=" + old)
    doomed.world.assert_is(before)
    victim.crash()
    doomed.ok("--restore")
    doomed.world.assert_is(before)
    assert doomed.dump()["round"] == 2


def test_a_moment_before_the_round(make_followed):
    """--at a time before the current round is refused with that reason."""
    keeper = make_followed()
    dump_and_follow(keeper)
    old = keeper.newest()["name"]
    at = keeper.world.sql("SELECT UTC_TIMESTAMP() - INTERVAL 1 SECOND")[0][0]  # --at includes the whole second
    keeper.ok("--new-round")
    done = keeper.run("--restore", "--at", at.strftime("%Y-%m-%dT%H:%M:%SZ"), "--force", "--json")
    text = done.json["error"]["text"] + done.json["error"]["hint"]
    assert done.rc == NOTHING and "current round" in text and old not in text, done


def test_what_a_round_needs_is_made_in_a_dropped_schema(doomed):
    """--new-round after DROP DATABASE pins the newest dump and creates what --init creates."""
    old = doomed.dump()["name"]
    load_new_round(doomed)
    did = doomed.ok("--new-round", "--json")
    assert did["last"] == old and earlier(doomed)[old] and not earlier(doomed)[did["first"]]
    assert {d["name"]: d.get("pinned") for d in dumps(doomed)}[old]


@pytest.mark.parametrize("point", ["round.dumped", "round.begun", "round.adopted"])
def test_the_worker_of_a_running_supervisor_is_killed(doomed, victim, point):
    """If the worker of --new-round is killed the supervisor finds out what was done, is UP, and makes the first dump of a
    round that was begun."""
    old = doomed.dump()["name"]
    doomed.start(fault=point + "=kill")
    assert doomed.run("--new-round").rc != DONE
    begun = point != "round.dumped"
    if begun:
        doomed.wait(lambda: any(not e for e in earlier(doomed).values()), "the first dump of the round")
    doomed.wait(lambda: doomed.state() == "UP", "that it is UP")
    assert earlier(doomed)[old] == begun
    doomed.world.sql("INSERT INTO player (nick,points) VALUES ('afterwards',1)")
    doomed.dump()
    lose(doomed, victim)
    assert "afterwards" in nicks(doomed)


def test_from_a_file_with_a_running_supervisor(doomed, victim, tmp_path, monkeypatch):
    """--new-round --from with a relative path loads the file under a running supervisor, and a loss restores what it loaded."""
    doomed.dump()
    spare = doomed.world.schema + "_spare"
    doomed.server.sql(f"CREATE DATABASE {spare}", f"CREATE TABLE {spare}.player LIKE {doomed.world.schema}.player",
                      f"INSERT INTO {spare}.player (nick,points) VALUES ('from the file',1)")
    mysqldump(doomed.server, spare, str(tmp_path / "good.sql"))
    doomed.server.sql(f"DROP DATABASE {spare}")
    doomed.start()
    monkeypatch.setattr(doomed, "base", str(tmp_path))  # changes only the command's directory
    doomed.ok("--new-round", "--from", "good.sql", "--json")
    lose(doomed, victim)
    assert nicks(doomed) == ["from the file"]


def test_a_pin_of_a_round_outlasts_one_of_a_shrink(doomed):
    """The pin of a round's last dump is kept when a shrink pins the same dump."""
    doomed.world.sql("INSERT INTO player (nick,points) SELECT CONCAT('n',seq.n),1 FROM (WITH RECURSIVE s AS (SELECT 1 AS n "
                     "UNION ALL SELECT n+1 FROM s WHERE n<900) SELECT n FROM s) seq",
                     "INSERT INTO player (nick,points) SELECT CONCAT('m',nick),1 FROM player")
    last = doomed.ok("--new-round", "--json")["last"]
    doomed.ok("--restore=" + last, "--force")
    doomed.world.sql("DELETE FROM player")
    doomed.dump()
    assert "the last dump of round" in {d["name"]: d.get("pinned") or "" for d in dumps(doomed)}[last]


@pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test")
def test_the_store_keeps_a_pin_without_its_machine(make_followed, store):
    """After the machine that pinned it is lost, the retention of its successor keeps the last dump of a round in the store."""
    store.settings["offsite"]["identity_file"] = store.key
    keeper = make_followed(settings={**store.settings, "retention": {
        "keep_last": "1", "keep_within": "0", "keep_daily": "0", "keep_weekly": "0"}})
    dump_and_follow(keeper)
    stored(keeper)
    did = keeper.ok("--new-round", "--json")
    stored(keeper)
    there = os.path.join(store.path, "w1/dumps", did["last"])
    keeper.wait(lambda: os.path.exists(there + ".json"), "the last dump in the store")
    lose_machine(keeper)
    keeper.init()
    keeper.ok("--restore", "--from", "offsite")
    keeper.start()
    for _ in range(2):
        keeper.dump()
        stored(keeper)
    keeper.wait(lambda: not os.path.exists(there.replace(did["last"], did["first"]) + ".json"), "the retention there")
    assert os.path.exists(there + ".json"), "pinned, whoever applies [retention]"
    keeper.ok("--restore=" + did["last"], "--from", "offsite", "--force")


@pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test")
def test_the_store_of_a_round_without_a_dump(make_followed, store):
    """If the machine is lost before the new round's first dump was stored, a bare machine does not restore the old round
    unless it is named, and its next dump belongs to the new round. The command that names it keeps what was typed."""
    store.settings["offsite"]["identity_file"] = store.key
    keeper = make_followed(settings=store.settings)
    dump_and_follow(keeper)
    old = stored(keeper)["newest"]
    first = keeper.ok("--new-round", "--json")["first"]
    stored(keeper)
    lose_machine(keeper)
    for name in glob.glob(os.path.join(store.path, "w1/dumps", first + ".*")):
        os.unlink(name)
    last = max(os.path.basename(n)[:-5] for n in glob.glob(os.path.join(store.path, "w1/dumps/*.json")))
    assert all(d["earlier_round"] for d in keeper.ok("--list", "--from", "offsite", "--json")["dumps"])
    for typed in ([], ["--into", "it's", "--with-code"], ["--table", "player", "--force"]):
        done = keeper.run("--restore", "--from", "offsite", "--json", *typed)
        assert done.rc == NOTHING, done
        said = shlex.split(done.json["error"]["hint"].split("worldkeeper ", 1)[1])
        assert said[2:5] == [f"--restore={last}", "--from", "offsite"] and sorted(said[5:]) == sorted(["--json", *typed]), done
    done = keeper.run("--drill", "--from", "offsite")
    assert done.rc == NOTHING and done.err.endswith(f"--drill={last} --from offsite\n"), done
    keeper.ok("--restore=" + old, "--from", "offsite")
    assert keeper.dump()["round"] == 2


@pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test")
def test_a_refused_restore_begins_no_round(doomed, victim, store):
    """The store knows a later round, of another machine. A restore from there that is refused, because the world is up, leaves
    this machine's round, so that its own world is restored automatically after the next loss."""
    keeper = doomed
    keeper.configure({"offsite": {**store.settings["offsite"], "identity_file": store.key}})
    keeper.dump()
    own = keeper.dumps_dir + ".own"
    shutil.copytree(keeper.dumps_dir, own)
    keeper.ok("--new-round")
    keeper.start()
    stored(keeper)
    keeper.stop()
    shutil.rmtree(keeper.dumps_dir)
    os.rename(own, keeper.dumps_dir)
    keeper.ok("--restore", "--force")  # the world of this machine
    done = keeper.run("--restore", "--from", "offsite")
    assert done.rc == REFUSED, done
    keeper.configure({"offsite": {"url": None, "recipient": None, "identity_file": None}})
    assert not any(earlier(keeper).values())
    victim.crash()
    keeper.start()
    assert keeper.world.sql("SELECT 1 FROM player LIMIT 1")
