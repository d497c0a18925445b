"""Tests of an accidental statement (DROP, TRUNCATE, ALTER, RENAME of a table): the moment before it can be restored, beside
the world or in it, also for a single table. --list shows the moments that can be restored, and the alert names the command
that undoes the statement."""
import json
import os
import re
import shlex
import signal

import pytest
from wk.crash import go_on, wait_stopped
from wk.binlog import RESET
from wk.follow import LOG, following, journal, kill_follower, live, purge
from wk.keeper import DONE, REFUSED, USER
from wk.server import MYSQL
from wk.snapshot import assert_same, snapshot
from wk.util import ident, wait_for

pytestmark = pytest.mark.either_server

NOW = "SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')"
MISTAKES = ["DROP TABLE player", "TRUNCATE TABLE player", "ALTER TABLE player DROP COLUMN nick",
            "RENAME TABLE player TO gone", "ALTER TABLE player ENGINE=InnoDB",
            "ALTER TABLE player MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY"]


@pytest.fixture
def undo(make_world, make_keeper, make_server):
    """Returns undo(settings), which makes a keeper of a small world with a dump."""
    def make(kind="small", settings=None):
        keeper = make_keeper(make_world(kind, make_server(*LOG)), settings).init()
        keeper.dump()
        next_second(keeper.server)
        return keeper
    return make


def next_second(server):
    """Waits for the server's next second and returns the last one, so that later changes have another second."""
    now = server.value(NOW)
    wait_for(lambda: server.value(NOW) != now, "the next second")
    return now


def tables(world, schema=None):
    """Returns the rows and definitions of the MEMORY tables of a schema."""
    return snapshot(world.server, schema or world.schema, engines=("MEMORY",))


def play(world):
    world.sql("UPDATE player SET points=points+1 WHERE id<50", "DELETE FROM player WHERE id BETWEEN 60 AND 70",
              "INSERT INTO player (nick,points) VALUES (UUID(),5)", "UPDATE fleet SET x=7 WHERE id<9")
    world.mark(5)


def beside(keeper, *args):
    """Runs --restore --into another schema with these arguments, and returns its tables and the result."""
    into = keeper.world.schema + "_then"
    keeper.server.sql(f"DROP DATABASE IF EXISTS {ident(into)}")
    keeper.server.account(USER, [keeper.world.schema, into])
    done = keeper.ok("--restore", "--into", into, *args)
    picture = tables(keeper.world, into)
    keeper.server.sql(f"DROP DATABASE {ident(into)}")
    return picture, done


# -- the moment before -------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_moment_before_the_statement(undo, mistake):
    """Any moment before the statement, also one without changes, can be restored beside the world and in it, with the columns
    of that moment."""
    keeper = undo()
    world, moments = keeper.world, []
    for n in range(2):
        play(world)
        moments.append((next_second(keeper.server), tables(world)))
    world.sql(mistake, "UPDATE fleet SET x=0", "DELETE FROM chat")
    next_second(keeper.server)
    keeper.dump("--force")  # of the world after the statement
    for at, picture in moments:
        assert_same(picture, beside(keeper, "--at", at)[0], mistake)
    at, picture = moments[-1]
    wanted = keeper.run("--restore", "--at", at, "--force", "--dry-run")
    assert wanted.rc == 0, wanted
    keeper.ok("--restore", "--at", at, "--force")
    now = tables(world)
    now.pop("rows gone", None), now.pop("table gone", None)
    assert_same(picture, now, mistake)


@pytest.mark.quick
def test_a_dump_of_a_later_moment(undo):
    """A dump that is newer than --at is refused, because the journal cannot lead back from it."""
    keeper = undo()
    old, at = keeper.newest()["name"], next_second(keeper.server)
    before = tables(keeper.world)
    keeper.world.sql("DELETE FROM player WHERE id>100")
    next_second(keeper.server)
    new = keeper.dump("--force")["name"]
    for more in (["--dry-run"], [], ["--table", "player"]):
        refused = keeper.run("--restore=" + new, "--at", at, "--force", *more)
        assert refused.rc == REFUSED and "newer than --at" in refused.err, refused
    keeper.ok("--restore=" + old, "--at", at, "--force")
    assert_same(before, tables(keeper.world), "from the dump before it")


def test_a_dump_that_is_stored_after_the_moment(undo):
    """Whether --at is later than a dump's contents is decided by the log since the dump, not by the time at which it was
    stored."""
    keeper = undo()
    world = keeper.world
    process = keeper.popen("--dump", "--force", fault="dump.streamed=stop")
    pids = wait_stopped(keeper, "dump.streamed")
    quiet = next_second(keeper.server)
    play(world)
    before, at = tables(world), next_second(keeper.server)
    world.sql("DELETE FROM chat")
    next_second(keeper.server)
    go_on(pids)
    assert keeper.finish(process).rc == DONE
    new = keeper.newest()["name"]
    refused = keeper.run("--restore=" + new, "--at", quiet, "--force")
    assert refused.rc == REFUSED and "may contain changes" in refused.err, refused
    keeper.ok("--restore=" + new, "--at", at, "--force")
    assert_same(before, tables(world), "the moment")


@pytest.mark.parametrize("mistake", ["DROP TABLE player", "ALTER TABLE player DROP COLUMN nick"])
def test_in_the_very_second(undo, mistake):
    """--at with the second of the statement restores the moment right before it, although the log has whole seconds."""
    keeper = undo()
    world = keeper.world
    play(world)
    before = tables(world)
    at = world.sql("SET timestamp=UNIX_TIMESTAMP()", mistake, "UPDATE fleet SET x=0", NOW)[0][0]
    picture, done = beside(keeper, "--at", at)
    assert_same(before, picture, mistake)
    assert "player" in done.out, done


def test_every_type_of_a_table_that_is_gone(undo):
    """A dropped table with columns of any type is restored with the dump's definition."""
    keeper = undo("zoo")
    world = keeper.world
    names = [t for (t,) in world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND "
        "engine='MEMORY' AND table_name NOT LIKE 'worldkeeper%'")]
    for table in map(ident, names):
        rows = world.value(f"SELECT COUNT(*) FROM {table}")
        world.sql(f"DELETE FROM {table} LIMIT {max(1, rows // 2)}")
    before, at = tables(world), next_second(keeper.server)
    world.sql("SET foreign_key_checks=0", *(f"DROP TABLE {ident(t)}" for t in names))
    assert_same(before, beside(keeper, "--at", at)[0], "tables that were dropped")


def test_the_dump_after_it_is_measured_by_no_other(undo):
    """After --restore --at the next dump is not rejected as shrunk because an older dump or the replaced world had more rows;
    later ones are checked as before."""
    keeper = undo(settings={"dump": {"shrink_action": "reject"}})
    keeper.world.sql("DELETE FROM player WHERE id>100", "TRUNCATE TABLE chat")
    before, at = tables(keeper.world), next_second(keeper.server)
    keeper.world.sql("INSERT INTO player (nick,points) SELECT CONCAT('cheat ',id),0 FROM fleet")
    keeper.ok("--restore", "--at", at, "--force")
    assert_same(before, tables(keeper.world), "the moment")
    keeper.dump()
    assert not keeper.rejected()
    keeper.world.sql("DELETE FROM player")
    done = keeper.run("--dump")
    assert done.rc != DONE and "'player'" in done.err, f"as strict as ever: {done}"


# -- one table ---------------------------------------------------------------------------------


def others(picture, table="player"):
    """Returns the picture without this table and its renamed form."""
    return {k: v for k, v in picture.items() if k.split(" ", 1)[1] not in (table, "gone")}


def of(picture, table="player"):
    return {k: v for k, v in picture.items() if k.split(" ", 1)[1] == table}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_table_comes_back(undo, mistake):
    """--table restores one table as it was just before the statement, and other tables keep their later changes."""
    keeper = undo()
    world = keeper.world
    play(world)
    before, at = tables(world), next_second(keeper.server)
    world.sql(mistake, "UPDATE fleet SET x=0", "DELETE FROM chat")
    after = tables(world)
    picture, _ = beside(keeper, "--table", "player", "--at", at)
    assert picture == of(before)
    command = ["--restore", "--at", at, "--table", "player"]
    rows = world.sql("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema=DATABASE() AND "
                     "table_name='player'")[0][0] and world.rows()
    if rows:  # living rows are replaced only with --force
        for more in ([], ["--dry-run"]):
            refused = keeper.run(*command, *more)
            assert refused.rc == 4 and f"{rows} rows" in refused.err and "--force" in refused.err, refused
        command.append("--force")
    wanted = keeper.run(*command, "--dry-run", "--json")
    assert wanted.rc == 0 and [t["table"] for t in wanted.result["plan"]] == ["player"], wanted
    assert tables(world) == after
    done = keeper.ok(*command)
    assert "table player alone" in done.out, done
    assert_same(of(before), of(tables(world)), mistake)
    assert_same(others(after), others(tables(world)), "other tables")


def test_a_gap_after_a_restore_of_one_table_has_its_own_cause(undo):
    """Between the restore and the dump that follows it, somebody else does what the journal cannot follow."""
    keeper = undo()
    world = keeper.world
    keeper.start(fault="dump.chosen=stop")
    following(keeper)
    world.sql("DELETE FROM mark")
    keeper.ok("--restore", "--table", "mark")
    wait_stopped(keeper, "dump.chosen")
    keeper.wait_log("table mark was restored")
    world.sql("SET SESSION binlog_format=STATEMENT", "UPDATE chat SET what='x'")
    keeper.wait_log("row changes: UPDATE chat")


def test_one_table_under_a_supervisor(undo):
    """The world stays UP while one table is restored, and a later loss restores the world with that table."""
    keeper = undo(settings={"probe": {"timeout": "30m"}})  # so that a machine that pauses causes no doubt
    world = keeper.world
    keeper.start()
    following(keeper)
    play(world)
    before, at = tables(world), next_second(keeper.server)
    world.sql("DROP TABLE player")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    generation = keeper.newest()["generation"]
    keeper.ok("--restore", "--at", at, "--table", "player")
    assert_same(before, tables(world), "the world")
    keeper.wait(lambda: keeper.newest()["generation"] > generation, "a dump of what is there now")
    keeper.wait_log("table player was restored on request (--restore --table), and the journal cannot follow that")
    assert "was created and is in no dump" not in keeper.log() and "renamed" not in keeper.log(), keeper.log()
    following(keeper)
    assert keeper.state() == "UP" and "RESTORING" not in keeper.log() and "SUSPECT" not in keeper.log()
    world.sql("UPDATE player SET points=3 WHERE id<7")
    before = tables(world)
    keeper.wait(lambda: keeper.status()["last_restore"].get("only") == "player", "what was restored")
    keeper.server.crash()
    keeper.wait(lambda: "only" not in keeper.status()["last_restore"] and keeper.state() == "UP", "the world")
    assert keeper.status()["last_restore"]["lost_seconds"] == 0
    assert_same(before, tables(world), "the world after the loss")


def test_one_table_and_a_loss_before_the_next_dump(undo):
    """If the world is lost after one table was restored and before the next dump, only the dump and the changes until the swap
    are restored, which is reported."""
    keeper = undo()
    world = keeper.world
    play(world)
    at = next_second(keeper.server)
    world.sql("DROP TABLE player")
    dropped = tables(world)
    keeper.dump("--force")
    keeper.ok("--restore", "--at", at, "--table", "player")
    world.sql("UPDATE fleet SET x=1")
    keeper.server.crash()
    done = keeper.ok("--restore")
    assert "another one replaced it" in done.out, done
    assert_same(dropped, others(tables(world)), "the world")


def test_one_table_of_an_older_dump_is_no_measure_of_the_others(undo):
    """After --table from an older dump, shrinking of other tables is still compared with the newest dump."""
    keeper = undo(settings={"dump": {"shrink_action": "reject"}})
    world = keeper.world
    old = keeper.newest()["name"]
    world.sql("DELETE FROM player WHERE id>10", "INSERT INTO fleet SELECT id+100000,owner,x FROM fleet",
              "INSERT INTO fleet SELECT id+200000,owner,x FROM fleet")
    keeper.dump("--force")
    keeper.ok("--restore=" + old, "--table", "fleet", "--force")
    new = keeper.dump()
    assert not keeper.rejected() and new["rows"] < 4000, new
    world.sql("TRUNCATE TABLE fleet")
    keeper.ok("--restore=" + old, "--table", "fleet")
    world.sql("DELETE FROM player WHERE id>1")
    done = keeper.run("--dump")
    assert done.rc != DONE and "'player'" in done.err, f"as strict as ever: {done}"


def test_the_dump_after_one_table_of_a_moment_is_measured_by_no_other(undo):
    """After --table --at the next dump is not rejected as shrunk, although both earlier dumps have more rows of the table."""
    keeper = undo(settings={"dump": {"shrink_action": "reject"}})
    world = keeper.world
    world.sql("TRUNCATE TABLE fleet")
    before, at = tables(world), next_second(keeper.server)
    world.sql("INSERT INTO fleet SELECT id,id,0 FROM player")
    keeper.dump("--force")
    keeper.ok("--restore", "--at", at, "--table", "fleet", "--force")
    assert_same(before, tables(world), "the moment")
    keeper.dump()
    assert not keeper.rejected()


def test_several_tables_of_the_newest_dump(undo):
    keeper = undo()
    world, then = keeper.world, tables(keeper.world)
    play(world)
    after = tables(world)
    picture, _ = beside(keeper, "--table", "player,mark", "--table", "`chat`")
    assert picture == {k: v for k, v in then.items() if k.split(" ", 1)[1] in ("player", "mark", "chat")}
    keeper.ok("--restore", "--table", "player,mark", "--force")
    now = tables(world)
    assert_same({**of(after, "fleet"), **of(after, "chat"), **of(then, "player"), **of(then, "mark")}, now, "the world")


def test_what_no_table_can_be(undo):
    keeper = undo()
    world = keeper.world
    world.sql("CREATE TABLE late (id INT PRIMARY KEY) ENGINE=MEMORY")
    for args, rc, said in [(["--table", "nobody"], 5, "in no intact dump"),
                           (["--table", "player,"], 2, "not a list of tables"),
                           (["--table", "worldkeeper"], 5, "in no intact dump")]:
        for more in ([], ["--dry-run"]):
            done = keeper.run("--restore", "--force", *args, *more)
            assert done.rc == rc and said in done.err, done
    assert len(keeper.dumps()) == 1, "--force dumps for nothing"
    first = keeper.newest()["name"]
    world.sql("DROP TABLE player")
    keeper.dump()
    done = keeper.run("--restore", "--table", "player")
    assert done.rc == 5 and f"--restore={first}" in done.err, done
    keeper.ok(f"--restore={first}", "--table", "player")
    assert world.rows() == 2000
    assert keeper.run("--dump", "--table", "player").rc == 2


def test_one_table_makes_no_lost_world_whole(undo):
    """--table is refused for a lost world, and the world stays lost."""
    keeper = undo()
    keeper.server.crash()
    for more in ([], ["--force"], ["--dry-run"]):
        done = keeper.run("--restore", "--table", "player", *more)
        assert done.rc == 4 and "not up" in done.err, done
    assert keeper.world.rows() == 0
    keeper.ok("--restore")
    assert keeper.world.rows() == 2000


# -- our own changes in the log ----------------------------------------------------------------


@pytest.mark.only("mariadb", why="sequences")
def test_a_drill_ends_no_journal(undo):
    """A drill, whose tables have the same names and use a sequence of the world, causes neither a gap of the journal nor a
    dump."""
    keeper = undo()
    world = keeper.world
    world.sql("CREATE SEQUENCE sq", "CREATE TABLE drawn (id INT DEFAULT NEXTVAL(sq), f FLOAT(7,3), w INT, "
              "PRIMARY KEY (w)) ENGINE=MEMORY", "INSERT INTO drawn (f,w) VALUES (1.5,1)")
    keeper.server.account(USER, [world.schema, "worldkeeper_drill_w1"])
    keeper.dump()
    keeper.start()
    following(keeper)
    keeper.ok("--drill")
    dumps, changes = len(keeper.dumps()), journal(keeper)["changes"]
    world.sql("UPDATE player SET points=9")
    keeper.wait(lambda: journal(keeper)["changes"] > changes, "what came after the drill")
    assert not journal(keeper)["gap"] and len(keeper.dumps()) == dumps, keeper.log()
    assert "cannot continue" not in keeper.log()


# -- reports ------------------------------------------------------------------------------------


def typed(text):
    """Returns the arguments of the worldkeeper command in a text."""
    words = shlex.split(text[text.index("worldkeeper --"):])
    return words[3:]


@pytest.mark.parametrize("mode", ["server", "follow"])
@pytest.mark.parametrize("mistake, verb", [
    ("DROP TABLE player", "dropped"), ("RENAME TABLE player TO gone", "renamed"),
    ("ALTER TABLE player DROP COLUMN nick", "altered")])
def test_what_happened_is_told_with_the_way_back(undo, http, mode, mistake, verb):
    """The alert describes the statement in plain words, and its command restores the table with all changes acknowledged
    before."""
    keeper = undo(settings={"journal": {"mode": mode}, **http.settings()})
    world = keeper.world
    keeper.start()
    following(keeper)
    play(world)
    before = tables(world)
    world.sql(mistake)
    alerts = keeper.wait(lambda: [m for m in http.messages() if verb in str(m)], "the alert")
    said = json.dumps(alerts[0], ensure_ascii=False)
    assert f"table player, 2,000 rows in the last dump, was {verb} at 20" in said, said
    assert f"--config {keeper.config_path}" in said, said
    keeper.wait_log(f"table player, 2,000 rows in the last dump, was {verb}")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    command = typed(alerts[0]["todo"])
    keeper.ok(*command)
    assert_same(of(before), of(tables(world)), mistake)


@pytest.mark.parametrize("mode", ["server", "follow"])
@pytest.mark.parametrize("mistake, said", [
    ("TRUNCATE TABLE player", "table player, 2,000 rows in the last dump, was emptied (TRUNCATE) at 20"),
    ("DELETE FROM player", "rows of table player were deleted by one transaction at 20"),
    ("DELETE FROM player WHERE id>500", "1,501 rows of table player were deleted by one transaction at 20")])
def test_a_table_that_was_emptied_is_told_with_the_way_back(undo, http, mode, mistake, said):
    """An emptied table is reported at once, before any dump, and not again by the next dump. A second statement on the empty
    table does not hide the first."""
    keeper = undo(settings={"journal": {"mode": mode}, "dump": {"interval": "1h"}, **http.settings()})
    world = keeper.world
    keeper.start()
    following(keeper)
    world.sql("TRUNCATE TABLE chat")
    play(world)
    world.sql("DELETE FROM fleet WHERE id=1")
    next_second(keeper.server)
    before = tables(world)
    world.sql(mistake)
    next_second(keeper.server)
    world.sql(mistake)
    alert = http.wait_event("discarded")[0]
    assert alert["what"].startswith("table player lost ") and said in alert["what"], alert
    assert len(keeper.dumps()) == 1, "told by the journal, not by a dump"
    keeper.ok("--dump")
    keeper.wait(lambda: keeper.status()["last_dump"]["name"] == keeper.newest()["name"], "the dump in the status")
    assert len([m for m in http.messages() if "lost" in str(m)]) == 1, http.messages()
    todo = alert["todo"]
    assert "a second before" in todo, todo
    keeper.ok(*typed(todo[todo.index("this brings `player` back"):].split("; ")[0]))
    assert_same(of(before), of(tables(world)), "player")


@pytest.mark.waits(1)  # the report waits ten seconds for a follower that stood still
@pytest.mark.parametrize("mode", ["server", "follow"])
@pytest.mark.parametrize("mistake", ["DELETE FROM player", "UPDATE player SET points=0", "ALTER TABLE player DROP COLUMN nick"])
def test_a_dump_right_after_the_statement_hides_no_moment(undo, http, mode, mistake):
    """A dump that was stored before the follower read the statement does not hide the moment before it: the command names the
    dump before the statement and that moment, and brings back what was played since that dump."""
    keeper = undo(settings={"journal": {"mode": mode}, "dump": {"interval": "1h"}, **http.settings()})
    world = keeper.world
    world.sql("UPDATE player SET points=id*3")
    keeper.dump("--force")
    next_second(keeper.server)
    keeper.start()
    following(keeper)
    play(world)
    before, first = tables(world), keeper.newest()["name"]
    next_second(keeper.server)
    reader = kill_follower(keeper, signal.SIGSTOP)
    world.sql(mistake)
    keeper.ok("--dump")
    os.kill(reader, signal.SIGCONT)
    alert = keeper.wait(lambda: [m for m in http.messages() if "--table player" in str(m)], "the alert")[0]
    assert f"--restore={first} --at 20" in alert["todo"], alert
    keeper.ok(*typed(alert["todo"]))
    assert_same(of(before), of(tables(world)), mistake)
    told = [m["headline"] for m in http.messages() if "--table player" in str(m)]
    assert len(told) == 1, told


@pytest.mark.waits(1)
def test_a_statement_that_is_reported_slowly(undo, http):
    """A dump that lacks rows is reported with the statement that deleted them, also if the follower, which has read it, takes
    a while to report it."""
    keeper = undo(settings={"journal": {"mode": "server"}, "dump": {"interval": "1h"}, **http.settings()})
    keeper.start(fault="journal.emptied=sleep:3000")
    following(keeper)
    next_second(keeper.server)
    reader = kill_follower(keeper, signal.SIGSTOP)
    keeper.world.sql("DELETE FROM player")
    keeper.ok("--dump")
    os.kill(reader, signal.SIGCONT)
    alert = keeper.wait(lambda: [m for m in http.messages() if "--table player" in str(m)], "the alert")[0]
    assert " --at 20" in alert["todo"], alert


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_what_a_rejected_dump_lacks_is_told_as_well(undo, http, mode):
    """With shrink_action = reject the alert names the statement that emptied the table."""
    keeper = undo(settings={"journal": {"mode": mode}, "dump": {"shrink_action": "reject"}, **http.settings()})
    keeper.start()
    following(keeper)
    keeper.world.sql("TRUNCATE TABLE player")
    end = keeper.server.sql("SHOW BINARY LOGS")[-1][1]
    keeper.wait(lambda: (live(keeper).get("pos") or 0) >= end, "all of the log")
    done = keeper.run("--dump", "--json")
    assert done.rc != DONE, done
    said = json.dumps(http.wait_event("discarded")[0], ensure_ascii=False)
    assert "table player, 2,000 rows in the last dump, was emptied (TRUNCATE) at 20" in said, said


TURNS = ["UPDATE player SET points=points+1", "UPDATE player SET nick=CONCAT('n',id,points), points=points*2",
         "UPDATE player SET points=points-points%2"]


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_an_update_without_where_is_told_and_a_turn_of_the_game_is_not(undo, http, mode):
    """An UPDATE that sets all rows to one value is reported at once with the command that restores them. Updates that compute
    each row, repeat, or concern few rows or few values are not."""
    keeper = undo(settings={"journal": {"mode": mode}, "dump": {"interval": "1h"}, **http.settings()})
    world = keeper.world
    world.sql("ALTER TABLE player ADD seen TIMESTAMP NOT NULL DEFAULT '2026-01-01', ADD moved TINYINT NOT NULL DEFAULT 0, ADD gold INT NOT NULL DEFAULT 0",
              "UPDATE player SET points=id*3, gold=id, seen=seen+INTERVAL id SECOND, moved=id%3")
    keeper.dump("--force")
    next_second(keeper.server)
    keeper.start()
    following(keeper)
    for _ in range(2):
        world.sql(*TURNS, "UPDATE player SET seen=NOW(), points=points+3", "UPDATE player SET moved=0",
                  "UPDATE player SET gold=7 WHERE id<900")
    next_second(keeper.server)
    before = tables(world)
    world.sql("UPDATE player SET points=0")
    next_second(keeper.server)
    world.sql("UPDATE player SET points=id")
    alert = http.wait_event("discarded")[0]
    assert re.search(r"^one statement set column points to one value in [\d,]+ rows of table player at 20", alert["what"]), alert
    assert re.search(r"table player: [\d,]+ of 2,000 rows overwritten", alert["headline"]), alert
    assert "a second before" in alert["todo"], alert
    keeper.ok(*typed(alert["todo"]))
    assert_same(of(before), of(tables(world)), "player")
    keeper.wait(lambda: re.search(r"dump w1-000002-\S+ stored", keeper.log()), "the dump after the restore")
    following(keeper)
    world.sql("UPDATE player SET points=id", "UPDATE player SET points=1")  # a repetition is not reported
    world.sql("UPDATE player SET gold=8")
    keeper.wait(lambda: [m for m in http.messages() if "column gold" in str(m)], "another column")
    told = [m["headline"] for m in http.messages() if m["event"] == "discarded"]
    assert len(told) == 2, told
    # A message whose answer had not come when the supervisor ended is sent again.
    keeper.expect("nothing waits", alerts=lambda alerts: alerts["waiting"] == 0)
    keeper.stop()
    keeper.start()
    following(keeper)
    told = [m["headline"] for m in http.messages() if m["event"] == "discarded"]
    assert len(told) == 2, told  # once, whoever reads the log again


def test_a_table_that_is_filled_again_is_no_loss(undo, http):
    """A table that is emptied and filled again, as a ranking is, is not reported; a later real loss is."""
    keeper = undo(settings={"dump": {"interval": "1h"}, **http.settings()})
    world = keeper.world
    keeper.start()
    following(keeper)
    world.sql("CREATE TABLE copy ENGINE=InnoDB AS SELECT * FROM player", "DELETE FROM player",
              "INSERT INTO player SELECT * FROM copy", "TRUNCATE TABLE player", "INSERT INTO player SELECT * FROM copy")
    world.sql("UPDATE player SET points=id", "UPDATE player SET points=1")
    keeper.wait(lambda: [m for m in http.messages() if "column points" in str(m)], "what came later")
    world.sql("DELETE FROM player")
    http.wait_event("discarded")
    keeper.wait(lambda: [m for m in http.messages() if "lost" in str(m)], "what was meant")
    assert [m["what"] for m in http.messages() if "lost" in str(m)][0].count("2,000 rows of table player were deleted") == 1


# -- the mail -----------------------------------------------------------------------------------

def one_line(mail):
    """Returns the text of a mail without its line folding."""
    return " ".join(mail.text.split())


def pasted(mail):
    """Returns the lines of a mail that consist of a command."""
    return [line.strip() for line in mail.text.splitlines() if line.strip().startswith("worldkeeper --")]


@pytest.mark.parametrize("mistake, subject", [
    ("ALTER TABLE player DROP COLUMN nick", "table player altered"),
    # MySQL logs one statement for each table.
    ("DROP TABLE player, chat", "table player dropped" if MYSQL else "tables player and chat dropped"),
    ("DROP DATABASE {}", "DATABASE DROPPED")], ids=["ALTER", "DROP TABLE", "DROP DATABASE"])
def test_the_mail_names_event_and_object_and_its_command_is_a_line(undo, smtp, mistake, subject):
    """The mail's subject names event and object, its command on a line of its own undoes it, and its text says what a loss now
    would cost."""
    keeper = undo(settings={"journal": {"mode": "server"}, **smtp.settings()})
    world = keeper.world
    keeper.start()
    following(keeper)
    play(world)
    before = tables(world)
    world.sql(mistake.format(world.schema))
    mail = smtp.wait(lambda m: subject in m.subject)[0]
    assert re.fullmatch(rf"w1 {subject}( \(\+\d+ (more|earlier)\))?", mail.subject), mail.subject
    assert re.search(r"^A loss now +at most .+ of play: the newest verified dump is .+ old, and ", mail.text, re.M), mail.text
    just_before = "as it was just before" in one_line(mail)  # otherwise the journal does not lead up to it
    commands = [c for c in pasted(mail) if "DATABASE" not in subject or "--table" not in c]
    command = next((c for c in commands if ("--at 20" in c) == just_before), commands[0])
    assert "--restore" in command and f"--config {keeper.config_path}" in command, mail.text
    assert ("--at 20" in command) == just_before and (just_before or "in the newest dump" in one_line(mail)), mail.text
    if "DATABASE" not in subject:  # the dump that the mail promised causes no second mail
        keeper.wait(lambda: "a dump was stored; the journal continues from it" in keeper.log(), "the dump")
        keeper.wait(lambda: keeper.status()["alerts"]["waiting"] == 0, "what there is to send")
        assert not [m for m in smtp.mails if "gap is over" in m.subject + m.text], [m.subject for m in smtp.mails]
        assert not [m for m in smtp.mails if re.search(r"lost [\d,]+ of", m.subject + m.text)], [m.subject for m in smtp.mails]
        told = len([m for m in smtp.mails if "--restore" in m.text])
        assert told == 1 or MYSQL and told == 2, [m.subject for m in smtp.mails]  # MySQL logs two statements
    keeper.ok(*shlex.split(command)[3:])
    after = tables(world)
    for table in ("player", "chat", "fleet") if "DATABASE" in subject else re.findall("player|chat", subject):
        assert_same(of(before, table), of(after, table), mistake)


@pytest.mark.parametrize("mode", ["off", "server", "follow"])
def test_a_dropped_database_is_one_mail_and_its_return_another(undo, smtp, mode):
    """The probe finds that the database is missing, and the journal finds the DROP; one mail reports both. Without a
    journal the mail has the same command without --at. The status shows one command, too."""
    keeper = undo(settings={"journal": {"mode": mode}, **smtp.settings()})
    world = keeper.world
    keeper.start()
    if mode != "off":
        following(keeper)
    smtp.wait(lambda m: "started" in m.subject)
    told = len(smtp.mails)
    next_second(keeper.server)
    world.sql(f"DROP DATABASE {ident(world.schema)}")
    mail = smtp.wait(lambda m: "DATABASE" in m.subject)[0]
    assert mail.subject == ("w1 DATABASE MISSING" if mode == "off" else "w1 DATABASE DROPPED"), mail.subject
    assert "Event          sentinel" in mail.text and "A loss now" in mail.text, mail.text
    commands = pasted(mail)
    assert len(commands) == 1 and "--restore" in commands[0] and ("--at 20" in commands[0]) == (mode != "off"), mail.text
    if mode != "off":
        status = keeper.wait(lambda: "--at 20" in (out := keeper.run("--status").out) and out, lambda: keeper.run("--status").out)
        assert len(re.findall(r"worldkeeper .*--restore", status)) == 1 and "condition" not in status, status
    for _ in range(3):  # nor is a dump of what is not there a failure
        next_second(keeper.server)
    keeper.ok(*shlex.split(commands[0])[3:])
    back = smtp.wait(lambda m: re.match("w1 (BACK|RESTORED)", m.subject))[0]
    assert back.subject.startswith("w1 BACK"), back.subject
    assert back.message["In-Reply-To"] == mail.message["Message-ID"]
    keeper.wait(lambda: keeper.newest()["generation"] > 1, "a dump of the world")
    if mode != "off":
        following(keeper)
    keeper.wait(lambda: keeper.status()["alerts"]["waiting"] == 0, "what there is to send")
    assert [m.subject for m in smtp.mails[told:]] == [mail.subject, back.subject]


@pytest.mark.parametrize("point", ["journal.connected", "journal.marker"])
def test_a_dropped_database_is_told_by_a_follower_that_finds_it_gone(undo, smtp, point):
    """A dropped database is reported with the command that undoes it, also if the follower has only just started."""
    keeper = undo(settings={"journal": {"mode": "server"}, **smtp.settings()})
    world = keeper.world
    play(world)
    before = tables(world)
    next_second(keeper.server)
    keeper.start(fault=f"{point}#1=stop")
    follower = wait_stopped(keeper, point)
    world.sql(f"DROP DATABASE {ident(world.schema)}")
    keeper.wait(lambda: keeper.status().get("state") == "WAITING", "what the probe finds")
    go_on(follower)
    mail = smtp.wait(lambda m: "DATABASE DROPPED" in m.subject)[0]
    command = next(c for c in pasted(mail) if "--at 20" in c)
    assert "as it was just before" in one_line(mail), mail.text
    keeper.ok(*shlex.split(command)[3:])
    assert_same(before, tables(world), "the world")
    assert not [m for m in smtp.mails if "journal is not followed" in one_line(m)], [m.subject for m in smtp.mails]


@pytest.mark.parametrize("by", ["mail", "status"])
@pytest.mark.parametrize("gone", ["DROP TABLE worldkeeper_sentinel, mark, chat", "DELETE FROM worldkeeper_sentinel; DROP TABLE mark, chat",
                                  "DROP TABLE mark, chat, worldkeeper_sentinel_lease, worldkeeper_sentinel"])
def test_the_sentinel_goes_with_some_tables(undo, smtp, gone, by):
    """If the sentinel and some tables are dropped while others keep their rows, the command of the mail and that of the
    status restore just the dropped tables, and the world is up again."""
    keeper = undo(settings={"journal": {"mode": "server"}, **smtp.settings()})
    world = keeper.world
    play(world)
    keeper.start()
    following(keeper)
    before = tables(world)
    next_second(keeper.server)
    world.sql(*gone.split(";"))
    world.sql("UPDATE fleet SET x=9 WHERE id=1")
    after = tables(world)
    mail = smtp.wait(lambda m: "dropped" in m.subject and "mark" in one_line(m))[0]
    text = keeper.wait(lambda: "--table" in (out := keeper.run("--status").out) and out, lambda: keeper.run("--status").out)
    found = pasted(mail) if by == "mail" else [line.strip() for line in text.splitlines() if "worldkeeper" in line and "--restore" in line]
    [command] = [c for c in found if "--table" in c]
    keeper.ok(*shlex.split(command[command.index("worldkeeper"):])[3:])
    keeper.wait_state("UP")
    now = tables(world)
    for table in ("mark", "chat"):
        assert_same(of(before, table), of(now, table), command)
    for table in ("fleet", "player"):
        assert_same(of(after, table), of(now, table), command)


@pytest.mark.parametrize("gone", ["DROP TABLE worldkeeper_sentinel", "DELETE FROM worldkeeper_sentinel"])
def test_only_the_sentinel_goes(undo, smtp, gone):
    """If only the sentinel goes, each command that mail and status name is accepted, and brings the world up as it is."""
    keeper = undo(settings={"journal": {"mode": "server"}, **smtp.settings()})
    keeper.start()
    following(keeper)
    play(keeper.world)
    keeper.dump()
    before = tables(keeper.world)
    tried = set()
    while True:
        told = len(smtp.mails)
        keeper.world.sql(gone)
        mail = smtp.wait(lambda m: "NOT PROTECTED" in m.subject and m in smtp.mails[told:])[0]
        left = sorted({tuple(c.split()) for c in re.findall(r"worldkeeper --config \S+ (--\w\S+(?: --\w\S+)*)", one_line(mail))} - tried)
        if not left:
            break
        tried.add(left[0])
        keeper.ok(*left[0])
        keeper.wait_state("UP")
        assert_same(before, tables(keeper.world), left[0])
        keeper.dump()  # --init may have begun a round, of which there was none
    assert {"--init", "--restore"} <= {words[0] for words in tried}, tried


def test_each_of_several_drops_is_told_by_a_late_follower(undo):
    """A follower that begins late lists the tables after it has read the first DROP, when the other dropped tables no
    longer exist. It still reports each DROP, but not that of a table that was created since."""
    keeper = undo(settings={"journal": {"mode": "server"}})
    keeper.start(fault="journal.connected#1=stop")
    follower = wait_stopped(keeper, "journal.connected")
    for table in ("mark", "chat", "fleet"):
        keeper.world.sql(f"DROP TABLE {table}")
    keeper.world.sql("CREATE TABLE scratch (id INT) ENGINE=MEMORY", "DROP TABLE scratch")
    go_on(follower)
    for table, rows in (("mark", "1 row"), ("chat", "300 rows"), ("fleet", "3,000 rows")):
        keeper.wait_log(f"table {table}, {rows} in the last dump, was dropped at ")
    assert keeper.log().count("was dropped at ") == 3 and "scratch" not in keeper.log()


def test_the_mail_about_lost_rows_has_the_figures_in_its_subject(undo, smtp):
    """The mail about a DELETE without WHERE has the figures in its subject and the command on its own line."""
    keeper = undo(settings={"journal": {"mode": "server"}, **smtp.settings()})
    keeper.start()
    following(keeper)
    keeper.world.sql("DELETE FROM player")
    mail = smtp.wait(lambda m: "lost" in m.subject)[0]
    assert re.match(r"w1 table player lost 2,000 of 2,000 rows", mail.subject), mail.subject
    assert any("--table player" in line for line in pasted(mail)), mail.text


@pytest.mark.parametrize("name", ["x; worldkeeper --restore=/tmp/e.sql --force", "x; y: systemctl stop mariadb; z",
                                  "a`b'c\"d\\e, f: mv /a /b"])
@pytest.mark.parametrize("mistake", ["TRUNCATE TABLE {}", "DROP TABLE {}", "DELETE FROM {}"])
def test_the_name_of_a_table_is_no_command(undo, http, mistake, name):
    """Who may create tables gives them names that look like commands. Alerts and status offer only the command that
    brings the table back, with that name."""
    keeper = undo(settings={"journal": {"mode": "server"}, **http.settings()})
    world, table = keeper.world, ident(name)
    world.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY) ENGINE=MEMORY",
              f"INSERT INTO {table} SELECT id FROM player WHERE id<=1000")
    keeper.dump()
    keeper.start()
    following(keeper)
    world.sql(mistake.format(table))
    trouble = keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "--table" in str(t)], "the trouble")[0]
    alert = keeper.wait(lambda: [m for m in http.messages() if "--table" in str(m)], "the alert")[0]
    assert trouble["commands"] == alert["commands"] and len(alert["commands"]) == 1, (trouble, alert)
    args = typed(alert["commands"][0]["command"])
    assert args[0].startswith("--restore=w1-") and args[args.index("--table") + 1] in (name, table), args
    keeper.ok(*args)
    assert list(world.sql(f"SELECT COUNT(*) FROM {table}")) == [(1000,)]


@pytest.mark.only("mariadb", why="one statement about several tables")
def test_many_tables_that_one_statement_dropped(undo, http):
    """If the alert's command brings back only some of the tables, it says so and loads the others beside the world."""
    keeper = undo(settings={"journal": {"mode": "server"}, **http.settings()})
    world, names = keeper.world, [f"t{i:02}" for i in range(14)]
    for name in names:
        world.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY) ENGINE=MEMORY", f"INSERT INTO {name} VALUES (1)")
    keeper.dump()
    keeper.start()
    following(keeper)
    next_second(keeper.server)
    world.sql(f"DROP TABLE {','.join(names)}")
    alert = keeper.wait(lambda: [m for m in http.messages() if "--restore" in str(m)], "the alert")[0]
    first, second = [typed(c["command"]) for c in alert["commands"]]
    some = first[first.index("--table") + 1].split(",")
    assert f"the command restores only {len(some)} of 14 tables" in alert["todo"], alert
    keeper.ok(*first)
    keeper.server.account(USER, [world.schema, "beside"])
    keeper.ok(*["beside" if word == "SCHEMA" else word for word in second])
    for schema, wanted in (world.schema, some), ("beside", names):
        assert set(wanted) <= {name for name, in world.server.sql(f"SHOW TABLES FROM {ident(schema)}")}


# -- how far back -------------------------------------------------------------------------------


def ranges(keeper):
    return [(r["from"], r["to"]) for r in keeper.ok("--list", "--json")["journal"]["ranges"]]


def assert_true_reach(keeper):
    """Asserts that both ends of each listed range can be restored, and returns the ranges."""
    into, now = keeper.world.schema + "_then", next_second(keeper.server)
    keeper.server.account(USER, [keeper.world.schema, into])
    listed = ranges(keeper)
    for at in {at or now for span in listed for at in span}:
        done = keeper.run("--restore", "--at", at, "--into", into, "--dry-run")
        assert done.rc == 0, (listed, at, done)
    return listed


@pytest.mark.parametrize("mode", ["server", "follow"])
def test_what_is_listed_can_be_had(undo, mode):
    """Listed recovery ranges can be restored over a dropped table, a loss, and a statement while no follower ran."""
    keeper = undo(settings={"journal": {"mode": mode}})
    world = keeper.world
    keeper.start()
    following(keeper)
    play(world)
    next_second(keeper.server)
    world.sql("DROP TABLE mark")
    gone = next_second(keeper.server)
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    assert len(assert_true_reach(keeper)) == 2
    assert ranges(keeper)[0][1] <= gone
    keeper.server.crash()
    keeper.wait(lambda: keeper.status().get("last_restore") and keeper.state() == "UP" and
                keeper.newest()["generation"] > 1, "the world and its dump")
    following(keeper)
    keeper.wait(lambda: ranges(keeper)[-1][1] is None, "what is written now")
    assert_true_reach(keeper)
    keeper.stop()
    world.sql("UPDATE fleet SET x=5", "ALTER TABLE player ADD w INT NOT NULL DEFAULT 3")
    unseen = next_second(keeper.server)
    unseen = next_second(keeper.server)
    keeper.dump()
    assert not any(a <= unseen <= (b or unseen) for a, b in assert_true_reach(keeper)), ranges(keeper)


def test_what_the_server_has_purged_is_not_listed(undo):
    """A purged log and a table that changed while no follower ran are not within the listed ranges."""
    keeper = undo()
    world = keeper.world
    purge(keeper.server)
    keeper.dump()
    first = keeper.newest()
    assert len(assert_true_reach(keeper)) == 1
    assert ranges(keeper)[0][0] >= first["at"][:19]
    world.sql("DROP TABLE mark")
    next_second(keeper.server)
    assert ranges(keeper)[0][1] is not None
    assert_true_reach(keeper)


def test_what_a_reset_log_has_lost_is_not_listed(undo):
    """After a reset of the log, no range begins at an earlier dump, whether or not a file of that name is there again. If the
    server does not answer, no range is listed, and the list says so."""
    keeper = undo(settings={"journal": {"mode": "server"}})
    server = keeper.server
    server.sql("FLUSH BINARY LOGS")
    keeper.dump()
    assert len(assert_true_reach(keeper)) == 1
    server.sql(RESET)
    assert ranges(keeper) == []
    keeper.dump()
    assert len(assert_true_reach(keeper)) == 1
    server.stop()
    listed = keeper.ok("--list", "--json")["journal"]
    assert not listed["asked"] and listed["ranges"] == [], listed
    assert "unknown" in keeper.ok("--list").out
