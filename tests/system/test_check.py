"""--check, the doctor: what is right, what is missing, and what to type."""
import json
import os
import re

import pytest
from wk.keeper import DONE, USER
from wk.server import MYSQL


def checks(done):
    return done.json["result"]["checks"]


def levels(done):
    return {c["level"] for c in checks(done)}


def grants(done):
    """The GRANT statements that the hints tell a person to type."""
    text = "\n".join((c.get("hint") or "") for c in checks(done))
    return [g.strip().rstrip(";") for g in re.findall(r"GRANT [^;\n]+", text)]


def test_a_healthy_set_up(keeper):
    """Everything in place: exit 0, no failure, each check with a text."""
    keeper.dump()
    done = keeper.run("--check", "--json")
    assert done.rc == DONE and "fail" not in levels(done), done
    names = {c["name"] for c in checks(done)}
    assert len(names) >= 6 and all(c["text"] for c in checks(done))
    assert keeper.run("--check").rc == DONE


def test_missing_rights_can_be_typed_as_told(make_keeper, world):
    """With an account that may do nothing, typing the printed GRANTs is enough for all that follows."""
    keeper = make_keeper(world, account=False)
    keeper.server.account(USER, [], server_rights=None)
    given = []
    for _ in range(4):
        done = keeper.run("--check", "--json")
        wanted = [g for g in grants(done) if g not in given]
        if not wanted:
            break
        given += wanted
        keeper.server.sql(*wanted)
    assert given, done
    keeper.init()
    assert "fail" not in levels(keeper.run("--check", "--json"))
    before = world.snapshot()
    keeper.dump()
    world.sql("DELETE FROM fleet WHERE id>2000")
    keeper.ok("--restore", "--force")
    world.assert_is(before)


@pytest.mark.parametrize("right", ["LOCK TABLES", "CREATE TEMPORARY TABLES", "DROP", "ALTER",
                                   "INSERT", "SELECT"])
def test_one_missing_right_is_named(keeper, right):
    """A right that is missing is named with the GRANT that gives it."""
    schema = keeper.world.schema.replace("_", "\\_")
    keeper.server.sql(f"REVOKE {right} ON `{schema}`.* FROM {USER}@localhost")
    done = keeper.run("--check", "--json")
    assert done.rc != DONE, done
    assert any(right in g for g in grants(done)), done


def test_superfluous_rights_are_noted(keeper):
    """An account that may do everything works, but the doctor frowns."""
    keeper.server.sql(f"GRANT ALL ON *.* TO {USER}@localhost")
    done = keeper.run("--check", "--json")
    assert done.rc == DONE and levels(done) & {"warn", "note"}, done
    assert any("superfluous" in c["text"] or "more" in c["text"] for c in checks(done)
               if c["level"] in ("warn", "note")), done


def test_no_server(doomed, victim):
    """A server that is away is the first thing the doctor says, with the system's own words."""
    victim.kill9()
    done = doomed.run("--check", "--json")
    assert done.rc != DONE
    assert victim.socket in json.dumps(done.json), done


def test_wrong_password(keeper):
    """A refused login is told as one, not as a missing world."""
    keeper.secret("password", "wrong")
    done = keeper.run("--check", "--json")
    assert done.rc != DONE and "1045" in done.out, done


def test_no_sentinel_yet(make_keeper, world):
    """Before --init the doctor says that --init is what comes next."""
    keeper = make_keeper(world)
    done = keeper.run("--check", "--json")
    assert "--init" in done.out, done


def test_heap_limit_against_the_world(make_world, make_keeper):
    """A table beyond the server's max_heap_table_size is named: without care it would come back cut."""
    world = make_world("empty")
    world.sql("SET max_heap_table_size=64*1024*1024",
              "CREATE TABLE great (v CHAR(250) CHARACTER SET latin1) ENGINE=MEMORY",
              "INSERT INTO great SELECT seq FROM seq_1_to_80000")
    keeper = make_keeper(world).init()
    found = [c for c in checks(keeper.run("--check", "--json")) if "max_heap_table_size" in
             json.dumps(c)]
    assert found and any(c["level"] != "ok" for c in found)


def test_the_method_is_told_with_its_reason(keeper):
    """method = auto: which one it will be, and why."""
    text = json.dumps(checks(keeper.run("--check", "--json")))
    assert "copy" in text and "log_bin is off" in text


def test_fuzzy_is_told_with_what_writers_wait_for(make_server, make_world, make_keeper):
    """With a log of rows it is the method on both servers, and it says what it is there."""
    server = make_server("--log-bin=log", "--binlog-format=ROW")
    world = make_world("empty", on=server)
    world.sql("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY")
    keeper = make_keeper(world).init()
    method = next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "method")
    assert method["level"] == "ok" and method["text"].startswith("fuzzy: "), method
    assert ("copied" if MYSQL else "scanned") in method["text"]
    keeper.dump()
    assert keeper.newest()["method"] == "fuzzy"


def test_a_method_that_cannot_be_had_is_refused(keeper):
    """method = fuzzy on a server without a binary log: --check and --dump say why, and the way out."""
    keeper.configure({"dump": {"method": "fuzzy"}})
    method = next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "method")
    assert method["level"] == "fail" and "log_bin is off" in method["text"]
    assert "method = auto" in method["hint"]
    done = keeper.run("--dump")
    assert done.rc == 4 and "log_bin is off" in done.err and "method = auto" in done.err


def test_what_packs_is_told(keeper):
    """Which library packs the dumps; without the fast one that is a note, never a failure."""
    found = [c for c in checks(keeper.run("--check", "--json")) if c["name"] == "packing"]
    assert len(found) == 1 and found[0]["level"] in ("ok", "note"), found
    assert "level 1, by ISA-L" in found[0]["text"] or found[0]["hint"], found


def test_dead_alert_channels_are_found_before_the_night(keeper, http, tarpit):
    """A channel that cannot be reached is a warning now instead of silence later."""
    keeper.configure({**http.settings(), "alert.smtp": {
        "url": "smtp://127.0.0.1:1", "from": "k@example.com", "to": "a@example.com",
        "timeout": "2s", "starttls": "off"}})
    done = keeper.run("--check", "--json")
    assert any("smtp" in json.dumps(c).lower() and c["level"] in ("warn", "fail")
               for c in checks(done)), done


def test_dump_directory_that_cannot_be_written(keeper):
    """A missing dump directory is told with its path."""
    gone = os.path.join(keeper.base, "gone")
    keeper.configure({"dump": {"dir": gone}})
    done = keeper.run("--check", "--json")
    assert gone in done.out + done.err


def test_binary_log_is_told(make_server, make_world, make_keeper):
    """A binary log that holds no rows is noted with the way out, and missing where a journal was asked
    for; one in ROW format is good for a journal."""
    server = make_server("--log-bin=log", "--binlog-format=STATEMENT")
    keeper = make_keeper(make_world(on=server)).init()

    def journal():
        return next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "journal")
    assert journal()["level"] == "note" and "STATEMENT" in journal()["text"]
    assert "binlog_format = ROW" in journal()["hint"]
    keeper.configure({"journal": {"mode": "server"}})
    assert journal()["level"] == "fail"
    keeper.configure({"journal": {"mode": "off"}})
    assert journal()["level"] == "note" and "off" in journal()["text"]
    server.sql("SET GLOBAL binlog_format=ROW")
    keeper.configure({"journal": {"mode": "auto"}})
    assert journal()["level"] == "ok"
    keeper.dump()
    assert keeper.newest()["start_point"]["file"].startswith("log.")
