"""--check: which rules pass, what is missing, and the commands that correct it."""
import json
import os
import re
import signal
import subprocess

import pytest
from wk.follow import LOG
from wk.keeper import BINARY, DONE, FAILED, ROOT, USER
from wk.server import KIND, MYSQL, RIGHTS, SERVERS, version
from wk.sinks import certificate
from wk.util import PATIENCE

pytestmark = pytest.mark.third_on_mysql


def checks(done):
    return done.json["result"]["checks"]


def levels(done):
    return {c["level"] for c in checks(done)}


def grants(done):
    """Returns the GRANT statements that the hints tell a person to type."""
    text = "\n".join((c.get("hint") or "") for c in checks(done))
    return [g.strip().rstrip(";") for g in re.findall(r"GRANT [^;\n]+", text)]


@pytest.mark.quick
def test_a_healthy_set_up(keeper):
    """With everything in place --check exits with 0, has no failure, and each check has a text."""
    keeper.dump()
    done = keeper.run("--check", "--json")
    assert done.rc == DONE and "fail" not in levels(done), done
    names = {c["name"] for c in checks(done)}
    assert len(names) >= 6 and all(c["text"] for c in checks(done)), done
    keeper.ok("--check")


def test_missing_rights_can_be_typed_as_told(make_keeper, world):
    """For an account without privileges, running the printed GRANTs is enough for --init, --dump and --restore."""
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
    done = keeper.run("--check", "--json")
    assert "fail" not in levels(done), done
    before = world.snapshot()
    keeper.dump()
    world.sql("DELETE FROM fleet WHERE id>2000")
    keeper.ok("--restore", "--force")
    world.assert_is(before)


@pytest.mark.parametrize("right", ["LOCK TABLES", "CREATE TEMPORARY TABLES", "DROP", "ALTER",
                                   "INSERT", "SELECT"])
def test_one_missing_right_is_named(keeper, right):
    """A missing privilege is named with the GRANT that adds it."""
    schema = keeper.world.schema.replace("_", "\\_")
    keeper.server.sql(f"REVOKE {right} ON `{schema}`.* FROM {USER}@localhost")
    done = keeper.run("--check", "--json")
    assert done.rc != DONE, done
    assert any(right in g for g in grants(done)), done


def test_superfluous_rights_are_noted(keeper):
    """--check passes for an account with all privileges, but with a warning or note."""
    keeper.server.sql(f"GRANT ALL ON *.* TO {USER}@localhost")
    done = keeper.run("--check", "--json")
    assert done.rc == DONE and levels(done) & {"warn", "note"}, done
    assert any("superfluous" in c["text"] or "more" in c["text"] for c in checks(done)
               if c["level"] in ("warn", "note")), done


def test_no_server(doomed, victim):
    """If the server is down, --check fails and names its socket."""
    victim.kill9()
    done = doomed.run("--check", "--json")
    assert done.rc != DONE, done
    assert victim.socket in json.dumps(done.json), done


def test_wrong_password(keeper):
    """A rejected login is reported with its error number 1045."""
    keeper.secret("password", "wrong")
    done = keeper.run("--check", "--json")
    assert done.rc != DONE and "1045" in done.out, done


def test_no_sentinel_yet(make_keeper, world):
    """Before --init, --check names --init as the next step."""
    keeper = make_keeper(world)
    done = keeper.run("--check", "--json")
    assert "--init" in done.out, done


def test_heap_limit_against_the_world(make_world, make_keeper):
    """A table larger than the server's max_heap_table_size is reported, because a load without care would truncate it."""
    world = make_world("empty")
    world.sql("SET max_heap_table_size=64*1024*1024",
              "CREATE TABLE great (v CHAR(250) CHARACTER SET latin1) ENGINE=MEMORY",
              "INSERT INTO great SELECT seq FROM seq_1_to_80000")
    keeper = make_keeper(world).init()
    found = [c for c in checks(keeper.run("--check", "--json")) if "max_heap_table_size" in
             json.dumps(c)]
    assert found and any(c["level"] != "ok" for c in found)


def test_the_method_is_told_with_its_reason(keeper):
    """With method = auto, --check names the method that will be used and the reason."""
    text = json.dumps(checks(keeper.run("--check", "--json")))
    assert "copy" in text and "log_bin is off" in text


def test_fuzzy_is_told_with_what_writers_wait_for(make_server, make_world, make_keeper):
    """With a binary log of rows, fuzzy is the method on both servers; --check says whether tables are copied or scanned."""
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
    """With method = fuzzy on a server without a binary log, --check and --dump give the reason and a hint."""
    keeper.configure({"dump": {"method": "fuzzy"}})
    method = next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "method")
    assert method["level"] == "fail" and "log_bin is off" in method["text"]
    assert "method = auto" in method["hint"]
    done = keeper.run("--dump")
    assert done.rc == 4 and "log_bin is off" in done.err and "method = auto" in done.err


def test_what_packs_is_told(keeper):
    """--check names the library that compresses dumps; a slower library than ISA-L is a note, never a failure."""
    found = [c for c in checks(keeper.run("--check", "--json")) if c["name"] == "packing"]
    assert len(found) == 1 and found[0]["level"] in ("ok", "note"), found
    assert "level 1, by ISA-L" in found[0]["text"] or found[0]["hint"], found


def test_dead_alert_channels_are_found_before_the_night(keeper, http, tarpit):
    """--check warns of an alert channel that cannot be reached."""
    keeper.configure({**http.settings(), "alert.smtp": {
        "url": "smtp://127.0.0.1:1", "from": "k@example.com", "to": "a@example.com",
        "timeout": "2s", "starttls": "off"}})
    done = keeper.run("--check", "--json")
    assert any("smtp" in json.dumps(c).lower() and c["level"] in ("warn", "fail")
               for c in checks(done)), done


def test_dump_directory_that_cannot_be_written(keeper):
    """A missing dump directory is reported with its path."""
    gone = os.path.join(keeper.base, "gone")
    keeper.configure({"dump": {"dir": gone}})
    done = keeper.run("--check", "--json")
    assert gone in done.out + done.err


def test_binary_log_is_told(make_server, make_world, make_keeper):
    """A binary log without rows is a warning with a hint, and a failure if a journal is configured. A log in ROW format
    passes."""
    server = make_server("--log-bin=log", "--binlog-format=STATEMENT")
    keeper = make_keeper(make_world(on=server)).init()

    def journal():
        return next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "journal")
    assert journal()["level"] == "warn" and "STATEMENT" in journal()["text"]
    assert "binlog_format = ROW" in journal()["hint"]
    keeper.configure({"journal": {"mode": "server"}})
    assert journal()["level"] == "fail"
    keeper.configure({"journal": {"mode": "off"}})
    assert journal()["level"] == "warn" and "off" in journal()["text"]
    server.sql("SET GLOBAL binlog_format=ROW")
    keeper.configure({"journal": {"mode": "auto"}})
    assert journal()["level"] == "ok"
    keeper.dump()
    assert keeper.newest()["start_point"]["file"].startswith("log.")


AGE = "binlog_expire_logs_seconds"


@pytest.mark.parametrize("options,level,said", [
    ([f"--{AGE}=0", "--sync-binlog=1"], "warn", "never deletes its binary log"),
    ([f"--{AGE}=86400", "--sync-binlog=0"], "warn", "sync_binlog = 0"),
    ([f"--{AGE}=86400", "--sync-binlog=1"], "ok", "purged in time"),
    pytest.param([f"--{AGE}=86400", "--sync-binlog=1", "--binlog-expire-logs-auto-purge=OFF"], "warn", "auto_purge",
                 marks=pytest.mark.only("mysql", why="MariaDB has no such setting")),
], ids=lambda value: value[-1] if isinstance(value, list) else None)
def test_what_a_binary_log_costs(make_server, make_world, make_keeper, options, level, said):
    """--check warns of a binary log that is never purged (it fills the disk) or not synced (a power cut loses its end). Pasting
    the hint's line ends the warning."""
    server = make_server(*LOG, *options)
    keeper = make_keeper(make_world(on=server)).init()

    def log():
        return [c for c in checks(keeper.run("--check", "--json")) if c["name"] == "binary log"]
    finding, = log()
    assert finding["level"] == level and said in finding["text"], finding
    if level == "ok":
        return
    server.sql(re.search("SET GLOBAL [^;]*", finding["hint"])[0])
    finding, = log()
    assert finding["level"] == "ok", finding
    server.sql("SET GLOBAL sync_binlog=0")
    keeper.configure({"journal": {"mode": "off"}})  # a restore then does not use the end of the log
    assert [c["level"] for c in log()] == ["ok"]


def test_a_retired_world_is_not_down(make_world, make_keeper, tmp):
    """A retired world's config remains, and --status does not report the world as down; a world that is not marked as retired is
    reported."""
    keeper = make_keeper(make_world("small")).init()
    os.symlink(keeper.config_path, os.path.join(tmp, "w1.ini"))

    def all_worlds(*more):
        return subprocess.run([BINARY, "--config", tmp, "--status", *more], capture_output=True, text=True,
                              env=keeper.environment())
    assert all_worlds().returncode == 6
    keeper.configure({"world": {"retired": "yes"}})
    done = all_worlds()
    assert done.returncode == 0 and "retired" in done.stdout, done
    world, = json.loads(all_worlds("--json").stdout)["worlds"]
    assert world["retired"] and world["exit"] == 0 and world["state"] is None
    refused = keeper.run("--run")
    assert refused.rc == 4 and "is retired" in refused.err, refused
    assert keeper.run("--dump").rc == DONE


@pytest.mark.parametrize("what", ["nothing", "a trigger", "a function"])
def test_a_log_that_is_to_be_turned_on_must_not_forbid_restores(make_server, make_world, make_keeper, what):
    """With log_bin alone, the next restore of a world with triggers or functions would fail (1419). The hint adds
    log_bin_trust_function_creators for such worlds only."""
    server = make_server("--skip-log-bin", "--log-bin-trust-function-creators=OFF")
    world = make_world("small", on=server)
    if what == "a trigger":
        world.sql("CREATE TRIGGER tr BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=NEW.v")
    elif what == "a function":
        world.sql("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1")
    keeper = make_keeper(world, account=False)
    server.account(USER, [world.schema])
    server.sql(*[f"GRANT {right} ON *.* TO {USER}@localhost" for right in
                 (["SET_ANY_DEFINER", "SYSTEM_USER", "SHOW_ROUTINE"] if MYSQL else ["SET USER"])])
    if not MYSQL:
        server.sql(f"GRANT SELECT ON mysql.proc TO {USER}@localhost")
    keeper.init()
    journal = next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "journal")
    assert journal["level"] == "warn" and "log_bin" in journal["hint"]
    assert ("log_bin_trust_function_creators" in journal["hint"]) == (what != "nothing"), journal


def found(keeper, *names):
    """Returns the findings of these names that are not ok, and the statements in their hints."""
    bad = [c for c in checks(keeper.run("--check", "--json"))
           if c["name"] in names and c["level"] != "ok"]
    typed = [s.strip() for c in bad for s in re.findall(
        r"(?:GRANT|REVOKE|SET GLOBAL|SET DEFAULT ROLE) [^;\n,]+(?:, [A-Z_ ]+[^;\n,]*)*", c["hint"])]
    return bad, typed


def a_way_in(server, *more):
    """Creates the account with only the privileges that `more` grants, and returns its name for statements."""
    server.account(USER, [], server_rights=None)
    server.sql(*more)
    return f"{USER}@localhost"


def test_what_is_too_much_can_be_taken_away_as_told(keeper):
    """Running the printed REVOKEs and GRANTs leaves an account with all privileges that it needs, and no finding about more."""
    keeper.server.sql(f"GRANT ALL ON *.* TO {USER}@localhost WITH GRANT OPTION",
                      f"GRANT SELECT, DELETE ON mysql.* TO {USER}@localhost")
    bad, _ = found(keeper, "rights")
    assert bad and not any(c["hint"].endswith(" ") for c in bad), bad
    keeper.server.sql(*[s for c in bad for s in c["hint"].split(";") if s.strip()])
    bad, _ = found(keeper, "rights")
    assert not [c for c in bad if "GRANT" in c["hint"] or "REVOKE" in c["hint"]], bad
    keeper.dump()


def typed(server, findings):
    """Runs the statements of these findings' hints unchanged."""
    server.sql(*[s for c in findings for s in c["hint"].split(";") if s.strip()])


@pytest.mark.parametrize("given", ["ALL ON *.*", "ALL ON its schema", "ALL ON both schemas at once"])
def test_no_hint_disarms_another_world(make_server, make_world, make_keeper, given):
    """Two worlds share one account. Running the statements that --check of the first world prints leaves both worlds with all
    privileges they need."""
    server = make_server("--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=OFF")
    worlds = [make_world("small", on=server) for _ in range(2)]
    worlds[1].sql("CREATE TRIGGER tr BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=NEW.v")
    keepers = [make_keeper(w, name=f"w{i}", account=False) for i, w in enumerate(worlds)]
    server.account(USER, [w.schema for w in worlds], server_rights="ALL")
    for keeper in keepers:
        keeper.init()
    both = os.path.commonprefix([w.schema for w in worlds]) + "%"
    if given == "ALL ON its schema":
        server.sql(f"GRANT ALL ON `{worlds[1].schema}`.* TO {USER}@localhost")
    elif "both" in given:
        server.account(USER, [], server_rights=None)
        server.sql(f"GRANT ALL ON `{both}`.* TO {USER}@localhost",
                   f"GRANT REPLICATION SLAVE, REPLICATION CLIENT, SUPER ON *.* TO {USER}@localhost",
                   f"GRANT {'SET_ANY_DEFINER, SYSTEM_USER' if MYSQL else 'SET USER'} ON *.* TO {USER}@localhost")
    else:
        server.account(USER, [], server_rights="ALL")
    bad, _ = found(keepers[0], "rights")
    assert any("other worlds" in c["text"] for c in bad), bad
    typed(server, bad)
    left = found(keepers[0], "rights")[0]  # what the other world's trigger of root takes
    assert all("amounts to root" in c["text"] for c in left), left
    for keeper in keepers:
        done = keeper.run("--check", "--json")
        assert "fail" not in levels(done), done
        before = keeper.world.snapshot()
        keeper.dump()
        keeper.world.sql("DELETE FROM fleet WHERE id>2000")
        keeper.ok("--restore", "--force")
        keeper.world.assert_is(before)


def test_a_world_that_is_yet_to_be_made_keeps_what_it_was_given(make_server, make_world, make_keeper):
    """A world before its --init is known by its config beside the first world's, and --check does not tell to revoke its
    privileges."""
    server = make_server("--log-bin=log", "--binlog-format=ROW")
    first, second = (make_keeper(make_world("small", on=server), name=name, account=False) for name in ("w1", "w2"))
    server.account(USER, [first.world.schema, second.world.schema])
    first.init()
    assert any("REVOKE" in c["hint"] for c in found(first, "rights")[0])
    os.symlink(second.config_path, os.path.join(first.base, "w2.ini"))
    assert not found(first, "rights")[0]


def test_a_schema_that_is_not_there_comes_first(make_keeper, world):
    """A missing schema is the first failure, so that a misspelled name is noticed before a GRANT on it."""
    keeper = make_keeper(world, account=False, settings={"world": {"schema": "no_such_schema"}})
    a_way_in(keeper.server, "FLUSH PRIVILEGES")
    done = keeper.run("--check", "--json")
    bad = [c for c in checks(done) if c["level"] == "fail"]
    assert [c["name"] for c in bad][:2] == ["schema", "rights"], bad
    assert "SHOW DATABASES" in bad[0]["hint"]


def test_a_sentinel_that_outlasts_a_loss_is_mended_as_told(make_world, make_keeper):
    """The printed ALTER of a durable sentinel names the schema, quotes the table's name, and corrects the finding."""
    world = make_world("small")
    keeper = make_keeper(world, settings={"probe": {"table": "odd sentinel"}}).init()
    world.sql("ALTER TABLE `odd sentinel` ENGINE=InnoDB")
    bad, _ = found(keeper, "sentinel")
    keeper.server.sql(bad[0]["hint"].split(": ", 1)[1].rstrip(";"))
    assert not found(keeper, "sentinel")[0]


def test_the_manuals_lines_make_a_second_world_too(make_server, make_world, make_keeper, tmp):
    """The commands of worldkeeper(7) that create an account work for two worlds. With the GRANTs that --check prints, each can be
    dumped, and neither has a finding about the other."""
    with open(os.path.join(ROOT, "etc/worldkeeper.7"), encoding="utf-8") as f:
        lines = [line.replace("\\(aq", "'") for line in f.read().split("A world is a config file")[1].splitlines()
                 if ".password" in line][:3]
    assert len(lines) == 3 and "CREATE USER" in lines[2], lines
    server = make_server("--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON")
    client = os.path.join(tmp, "mysql")
    with open(client, "w") as f:
        f.write(f"#!/bin/sh\nPATH={os.environ['PATH']} exec {SERVERS} tool {KIND} mysql -S {server.socket} -uroot\n")
    os.chmod(client, 0o755)
    keepers = []
    for name in ("s8", "s9"):
        typed_ = "\n".join(lines).replace("s8", name).replace("sudo ", "").replace("0400 -o worldkeeper", "0600")
        subprocess.run(["sh", "-ec", typed_.replace("/etc/worldkeeper", tmp)], check=True, timeout=PATIENCE,
                       env={**os.environ, "PATH": tmp + ":" + os.environ["PATH"]})
        keeper = make_keeper(make_world("small", on=server), name=name, account=False)
        keeper.configure({"mysql": {"user": "worldkeeper_" + name, "password_file": f"{tmp}/{name}.password"}})
        server.sql(*[g for g in dict.fromkeys(grants(keeper.run("--check", "--json")))])
        keepers.append(keeper.init())
    for keeper in keepers:
        assert not [c for c in found(keeper, "rights", "account")[0] if c["level"] in ("warn", "fail")]
        done = keeper.run("--check", "--json")
        assert "fail" not in levels(done), done
        keeper.dump()


def test_what_check_would_call_a_failure_is_told_before_it_is_needed(make_keeper, world, http):
    """If a privilege is revoked under a running supervisor, the check after a reload sends an alert with the GRANT, and another
    alert once it was granted."""
    keeper = make_keeper(world, settings=http.settings()).init()
    schema = world.schema.replace("_", "\\_")
    keeper.start()
    keeper.server.sql(f"REVOKE DROP ON `{schema}`.* FROM {USER}@localhost")
    keeper.process.send_signal(signal.SIGHUP)
    (told,) = http.wait_event("check")
    assert told["kind"] == "new" and "DROP" in told["what"] and "GRANT DROP" in told["todo"], told
    keeper.expect("the condition", troubles=lambda troubles: any("DROP" in t["what"] for t in troubles))
    shown = keeper.run("--status")
    assert shown.rc == FAILED, shown
    keeper.server.sql(told["todo"].rstrip(";"))
    keeper.process.send_signal(signal.SIGHUP)
    keeper.wait(lambda: len(http.wait_event("check")) == 2, "that it was mended")
    assert http.wait_event("check")[1]["kind"] == "recovered"
    keeper.wait(lambda: keeper.status()["troubles"] == [], "the end of the condition")


def test_privileges_by_a_role(make_keeper, world):
    """Privileges of a role that is active at login count; a role that is not active is named with a hint."""
    server, schema = world.server, world.schema.replace("_", "\\_")
    keeper = make_keeper(world, account=False)
    account = a_way_in(server, "DROP ROLE IF EXISTS wk_rows, `wk odd`", "CREATE ROLE wk_rows, `wk odd`",
                       f"GRANT {RIGHTS} ON `{schema}`.* TO wk_rows", f"GRANT wk_rows TO {USER}@localhost",
                       f"GRANT `wk odd` TO {USER}@localhost")
    bad, typed = found(keeper, "account")
    told = [c["text"] for c in bad]
    assert len(told) == 2 and any("wk_rows" in t for t in told) and any("wk odd" in t for t in told), told
    assert any(c["level"] == "fail" for c in found(keeper, "rights")[0])
    server.sql(next(s for s in typed if "wk_rows" in s))
    bad, _ = found(keeper, "account", "rights")
    assert not [c for c in bad if c["level"] == "fail"], bad
    assert not any("wk_rows" in c["text"] for c in bad if c["name"] == "account"), bad
    keeper.init()
    keeper.dump()
    server.sql("DROP ROLE wk_rows, `wk odd`", f"DROP USER {account}")


def test_a_role_by_which_an_account_may_too_much(make_keeper, world):
    """Superfluous privileges that come by a role are taken away by revoking the role from our account, which gets what is useful
    of it. Another account with the role keeps it."""
    server, schema = world.server, world.schema.replace("_", "\\_")
    keeper = make_keeper(world, account=False)
    default = "TO" if MYSQL else "FOR"
    account = a_way_in(server, "DROP ROLE IF EXISTS wk_ops", "CREATE ROLE wk_ops", "CREATE USER wk_other@localhost",
                       f"GRANT {RIGHTS} ON `{schema}`.* TO wk_ops", f"GRANT EVENT ON `{schema}`.* TO wk_ops",
                       "GRANT SHUTDOWN, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO wk_ops",
                       f"GRANT SELECT, EVENT ON `{schema}`.* TO {USER}@localhost")
    try:
        for who in account, "wk_other@localhost":
            server.sql(f"GRANT wk_ops TO {who}", f"SET DEFAULT ROLE wk_ops {default} {who}")
        keeper.init()
        bad, _ = found(keeper, "rights")
        assert any("SHUTDOWN ON *.* (role `wk_ops`" in c["text"] for c in bad), bad
        typed(server, bad)
        bad, _ = found(keeper, "rights")
        assert not [c for c in bad if c["level"] == "fail" or "REVOKE" in c["hint"]], bad
        assert "GRANT `wk_ops`" not in str(server.sql(f"SHOW GRANTS FOR {account}"))
        assert "wk_ops" in str(server.sql("SHOW GRANTS FOR wk_other@localhost"))
        assert "SHUTDOWN" in str(server.sql("SHOW GRANTS FOR wk_ops"))
        keeper.dump()
    finally:
        server.sql("DROP ROLE wk_ops", "DROP USER wk_other@localhost", f"DROP USER {account}")


@pytest.mark.only("mysql", why="only MySQL takes back parts of a right")
def test_a_right_that_is_taken_back_for_the_world(make_server, make_world, make_keeper):
    """With partial_revokes, a privilege that was revoked for the world's schema only is reported as missing, and running the hint
    grants it."""
    server = make_server("--partial-revokes=ON")
    world = make_world("small", on=server)
    keeper = make_keeper(world, account=False)
    account = a_way_in(server, f"GRANT {RIGHTS} ON *.* TO {USER}@localhost",
                       f"REVOKE INSERT, DROP ON `{world.schema}`.* FROM {USER}@localhost")
    bad, typed = found(keeper, "rights")
    missing = next(c for c in bad if c["level"] == "fail")
    assert "INSERT" in missing["text"] and "DROP" in missing["text"] and "ALTER" not in missing["text"]
    server.sql(*[s for s in typed if s.startswith("GRANT") and "drill" not in s])
    assert not [c for c in found(keeper, "rights")[0] if c["level"] == "fail"], account
    keeper.init()
    keeper.dump()


def test_triggers_of_others(make_server, make_world, make_keeper):
    """Triggers of other definers under a binary log: running what --check prints is enough for a restore."""
    server = make_server("--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=OFF")
    world = make_world("small", on=server)
    server.sql("CREATE USER somebody@localhost", "GRANT TRIGGER ON *.* TO somebody@localhost")
    for who, when in (("somebody", "INSERT"), ("root", "UPDATE")):
        world.sql(f"CREATE DEFINER={who}@localhost TRIGGER on_{when} BEFORE {when} ON mark FOR EACH ROW "
                  "SET NEW.v=NEW.v")
    keeper = make_keeper(world).init()
    keeper.dump()
    bad, typed = found(keeper, "triggers")
    assert len(bad) == 2 and all(c["level"] == "fail" for c in bad), bad
    assert any("1419" in c["text"] for c in bad)
    server.sql(*typed)
    assert not found(keeper, "triggers")[0]
    before = world.snapshot()
    world.sql("DELETE FROM fleet WHERE id>2000")
    keeper.ok("--restore", "--force")
    world.assert_is(before)


def settings(keeper):
    return [c for c in checks(keeper.run("--check", "--json")) if c["name"] == "settings"]


def found_in_all(keeper):
    return [(c["name"], c["level"]) for c in checks(keeper.run("--check", "--json"))]


def test_servers_that_take_no_writes(make_keeper, world):
    """read_only is reported as a failure with a hint, or as a note if this account may write all the same."""
    keeper = make_keeper(world).init()
    server = world.server
    try:
        server.sql("SET GLOBAL read_only=ON")
        assert settings(keeper)[0]["level"] == "fail" and "read_only" in settings(keeper)[0]["text"]
        assert "SET GLOBAL read_only=OFF" in settings(keeper)[0]["hint"]
        server.sql(f"GRANT {'CONNECTION_ADMIN' if MYSQL else 'READ_ONLY ADMIN'} ON *.* TO {USER}@localhost")
        assert settings(keeper)[0]["level"] == "note"
        keeper.dump()
        before = found_in_all(keeper)
        backup = server.admin()
        backup.cursor().execute("FLUSH TABLES WITH READ LOCK")  # --check does not wait for this lock
        assert found_in_all(keeper) == before
        backup.close()
        if MYSQL:
            server.sql("SET GLOBAL super_read_only=ON")
            assert settings(keeper)[0]["level"] == "fail"
            server.sql("SET GLOBAL super_read_only=OFF", "SET GLOBAL offline_mode=ON")
            assert "offline_mode" in json.dumps(settings(keeper))
            server.sql(f"REVOKE CONNECTION_ADMIN ON *.* FROM {USER}@localhost")
            refused, _ = found(keeper, "connection")
            assert "3032" in refused[0]["text"] and "offline_mode=OFF" in refused[0]["hint"]
    finally:
        server.sql("SET GLOBAL read_only=OFF", *(["SET GLOBAL offline_mode=OFF"] if MYSQL else []))


@pytest.mark.only("mysql", why="a setting of MySQL")
def test_tables_that_must_have_a_key(make_server, make_world, make_keeper):
    """With sql_require_primary_key, a table without a key is reported, because its restore would fail. Neither is reported if the
    account may turn the setting off."""
    server = make_server("--sql-require-primary-key=ON")
    world = make_world("empty", on=server)
    world.sql("CREATE TABLE t (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO t VALUES (1),(2)")
    keeper = make_keeper(world).init()
    assert settings(keeper)[0]["level"] == "note"
    keeper.dump()
    world.sql("DELETE FROM t WHERE id=2")
    keeper.ok("--restore", "--force")
    assert world.rows("t") == 2
    world.sql("SET sql_require_primary_key=OFF", "CREATE TABLE bare (id INT) ENGINE=MEMORY",
              "INSERT INTO bare VALUES (1),(1)")
    bad = settings(keeper)[0]
    assert bad["level"] == "fail" and "bare" in bad["text"], bad
    server.sql(*found(keeper, "settings")[1])
    assert settings(keeper)[0]["level"] == "ok"
    assert not any("superfluous" in c["text"] for c in found(keeper, "rights")[0])
    keeper.dump()
    world.sql("DELETE FROM bare")
    keeper.ok("--restore", "--force")
    assert world.rows("bare") == 2


@pytest.mark.only("mysql", why="a setting of MySQL")
@pytest.mark.parametrize("name", ["no", "off", "0"])
def test_a_table_without_a_key_whose_name_looks_like_no(make_server, make_world, make_keeper, name):
    """A table named "no", "off" or "0" is reported like any other; its name is not read as a negative fact."""
    server = make_server("--sql-require-primary-key=ON")
    world = make_world("empty", on=server)
    world.sql("SET sql_require_primary_key=OFF", f"CREATE TABLE `{name}` (id INT) ENGINE=MEMORY")
    keeper = make_keeper(world)
    keeper.run("--init", "--force")
    bad = settings(keeper)[0]
    assert bad["level"] == "fail" and f"table {name} has no key" in bad["text"], bad


def over_tcp(keeper, **more):
    keeper.configure({"mysql": {"socket": None, "host": "127.0.0.1", "port": str(keeper.server.port),
                                **more}})
    return next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "connection")


@pytest.mark.only("mysql", why="caching_sha2_password; certificates that the server makes for itself")
def test_ways_to_log_in(make_server, make_world, make_keeper):
    """caching_sha2_password works over TLS and, with the server's public key, without TLS, each time with an empty cache. A
    certificate that the server made itself is rejected with tls = verify."""
    server = make_server()
    keeper = make_keeper(make_world("empty", on=server))
    for tls in ("required", "preferred", "off", None):
        server.sql("FLUSH PRIVILEGES")
        assert over_tcp(keeper, tls=tls)["level"] == "ok", tls
    for ca in (None, os.path.join(server.datadir, "ca.pem")):
        refused = over_tcp(keeper, tls="verify", tls_ca=ca)
        assert refused["level"] == "fail" and "2026" in refused["text"], refused
        assert "must name 127.0.0.1" in refused["hint"] and "tls_ca" in refused["hint"]
    server.sql("SET GLOBAL require_secure_transport=ON")
    refused = over_tcp(keeper, tls="off", tls_ca=None)
    assert "3159" in refused["text"] and "tls = verify" in refused["hint"]
    assert over_tcp(keeper, tls="required")["level"] == "ok"


def test_a_certificate_that_is_verified(make_server, make_world, make_keeper, tmp):
    """A certificate for the config's host, signed by the authority in tls_ca, is accepted with tls = verify; without tls_ca it is
    rejected with a hint."""
    ca, cert, key = certificate(tmp)
    os.chmod(tmp, 0o755)
    os.chmod(key, 0o644)  # the server runs as another user
    server = make_server(f"--ssl-ca={ca}", f"--ssl-cert={cert}", f"--ssl-key={key}")
    keeper = make_keeper(make_world("empty", on=server))
    assert over_tcp(keeper, tls="verify", tls_ca=ca)["level"] == "ok"
    said = next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "encryption")
    assert said["level"] == "ok" and "certificate verified for 127.0.0.1 against tls_ca" in said["text"]
    refused = over_tcp(keeper, tls="verify", tls_ca=None)
    assert "2026" in refused["text"] and "tls_ca" in refused["hint"]


@pytest.mark.only("mysql", why="what MySQL took away, and passwords that end")
def test_logins_that_cannot_be(make_server, make_world, make_keeper):
    """For an expired password and for an account whose authentication plugin was removed, the hint says what to run."""
    server = make_server()
    keeper = make_keeper(make_world("empty", on=server))
    server.sql(f"ALTER USER {USER}@localhost PASSWORD EXPIRE")
    refused, _ = found(keeper, "connection")
    assert "1862" in refused[0]["text"] and "PASSWORD EXPIRE NEVER" in refused[0]["hint"]
    server.sql(f"UPDATE mysql.user SET plugin='mysql_native_password' WHERE user='{USER}'",
               "FLUSH PRIVILEGES")
    refused, _ = found(keeper, "connection")
    assert "1524" in refused[0]["text"] and "IDENTIFIED WITH caching_sha2_password" in refused[0]["hint"]


@pytest.mark.only("mysql", why="its X protocol")
def test_the_port_of_the_x_protocol_is_named(make_keeper, world):
    keeper = make_keeper(world)
    keeper.configure({"mysql": {"socket": None, "host": "127.0.0.1", "port": "33060",
                                "connect_timeout": "1s"}})
    refused, _ = found(keeper, "connection")
    assert refused and "X protocol" in refused[0]["hint"], refused


def test_the_version_is_told(keeper):
    """--check reports the server's version as tested or not, as the table of worldkeeper(7) does."""
    told = next(c for c in checks(keeper.run("--check", "--json")) if c["name"] == "version")
    with open(os.path.join(ROOT, "etc/worldkeeper.7"), encoding="utf-8") as f:
        rows = re.findall(rf"^\.It {'MySQL' if MYSQL else 'MariaDB'} Ta (.*?) Ta (.*)$", f.read(), re.M)
    series = ".".join(map(str, version()[:2]))
    assert told["level"] == ("ok" if (series, "tested") in rows else "note"), told


def test_a_table_that_could_not_be_made_again(make_keeper, make_world):
    """A restore accepts only listed definitions from a dump. --check warns of a table that is not among them while its definition
    is still on the server."""
    keeper = make_keeper(make_world("empty"))
    keeper.world.sql("CREATE TABLE merged (i INT) ENGINE=MRG_MyISAM")
    assert not [c for c in checks(keeper.run("--check", "--json")) if c["name"] == "rebuild"]
    keeper.configure({"dump": {"engines": "all"}})
    said = [c for c in checks(keeper.run("--check", "--json")) if c["name"] == "rebuild"]
    assert [c["level"] for c in said] == ["warn"] and "table merged" in said[0]["text"], said
    assert f"--no-data {keeper.world.schema}" in said[0]["hint"], said
