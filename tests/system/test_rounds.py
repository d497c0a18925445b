"""Rounds: a new world in place of the old one, which never comes back over it by itself."""
import glob
import os

import pytest
from wk.keeper import DONE, NOTHING
from wk.server import mysqldump

pytestmark = pytest.mark.either_server


def dumps(keeper):
    return keeper.ok("--list", "--json")["dumps"]


def earlier(keeper):
    return {d["name"]: d["earlier_round"] for d in dumps(keeper)}


def load_new_round(keeper):
    """As an admin does it, without a word to worldkeeper: DROP DATABASE, then the tables of the new round."""
    world, schema = keeper.world, keeper.world.schema
    (_, create), = world.sql("SHOW CREATE TABLE player")
    world.server.sql(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4")
    world.sql(create, "INSERT INTO player (nick,points) VALUES ('new one',1),('new two',2)")


def nicks(keeper):
    return sorted(n for (n,) in keeper.world.sql("SELECT nick FROM player"))


def lose(keeper, victim):
    victim.crash()
    keeper.wait(lambda: keeper.status().get("last_restore") and keeper.state() == "UP", "the world")


def test_the_old_round_never_comes_back_over_the_new_one(doomed, victim):
    """DROP DATABASE, the new tables, --init: the first dump counts, and the next loss brings the new world back."""
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
    """No dump of the new round is here yet: the old one is named, and restored only by its name."""
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


def test_a_row_that_was_deleted_is_put_back_into_the_same_round(doomed):
    """The server was not restarted and the table is there: it is the same world."""
    old = doomed.dump()["name"]
    doomed.world.sql("DELETE FROM worldkeeper_sentinel")
    assert doomed.ok("--init", "--json")["did"] == "put back"
    assert not earlier(doomed)[old]


def test_new_round_is_the_planned_way(doomed, victim):
    """A last dump of the old round, pinned; then the tables are loaded anew while worldkeeper watches."""
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
    """The file is looked at first: a bad one leaves the old round as it is."""
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
    """Neither round comes back over the other; the command can be typed again."""
    old = doomed.dump()["name"]
    done = doomed.finish(doomed.popen("--new-round", fault=point + "=kill"))
    assert done.rc != DONE
    begun = point != "round.dumped"
    assert earlier(doomed)[old] == begun
    doomed.ok("--new-round")
    assert sum(not e for e in earlier(doomed).values()) == 1


def test_shrinking_is_not_compared_across_rounds(doomed):
    """The first dump of a round with two players follows one with 2,000."""
    doomed.configure({"dump": {"shrink_action": "reject"}})
    doomed.dump()
    load_new_round(doomed)
    doomed.ok("--init")
    assert doomed.dump()["round"] == 2 and not doomed.rejected()


def test_dumps_of_version_0_2_are_of_the_round_that_goes_on(doomed):
    """Their manifests name no round: without a new one, nothing is earlier."""
    doomed.dump()
    for name in glob.glob(os.path.join(doomed.dumps_dir, "round.json")):
        os.unlink(name)
    assert not any(earlier(doomed).values())
    doomed.ok("--restore", "--dry-run", "--force")
