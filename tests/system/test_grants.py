"""--check --grants: after an administrator ran its output once, --check asks for no further privileges."""
import contextlib
import itertools
import re
import subprocess

import pymysql
import pytest

from wk.keeper import DONE, REFUSED, USER
from wk.server import MYSQL, client
from wk.util import CANARY
from wk.follow import LOG

pytestmark = pytest.mark.third_on_mysql

STRICT = ["--log-bin-trust-function-creators=0"]
# Statements that add a part to the world, and the settings that belong to it.
PARTS = {
    "trigger of ours": (["CREATE DEFINER={us} TRIGGER t_ours BEFORE INSERT ON fleet FOR EACH ROW SET NEW.id=NEW.id"], {}),
    "trigger of root": (["CREATE TRIGGER t_root BEFORE UPDATE ON fleet FOR EACH ROW SET NEW.id=NEW.id"], {}),
    "trigger of nobody": (["CREATE USER gone@localhost", "GRANT ALL ON {schema}.* TO gone@localhost",
                           "CREATE DEFINER=gone@localhost TRIGGER t_gone BEFORE DELETE ON fleet FOR EACH ROW SET @x=1",
                           "DROP USER gone@localhost"], {}),
    "journal": ([], {"journal": {"mode": "server"}}),
    "no journal": ([], {"journal": {"mode": "off"}}),
    "ledger": (["CREATE TABLE gold (id BIGINT AUTO_INCREMENT PRIMARY KEY, player INT, amount BIGINT, at DATETIME, "
                "request BIGINT, KEY (at)) ENGINE=MEMORY"],
               {"ledger gold": {"table": "gold", "key": "player", "value": "amount", "time": "at", "request": "request"}}),
    "progress": ([], {"progress": {"socket": "{socket}", "user": USER, "password_file": "{password}", "lock_id": "g1"}}),
    "function": (["CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN 2*n"], {}),
    "without logging": ([], {"restore": {"binlog": "no"}}),
    "no blockers": ([], {"restore": {"end_blockers": "never"}}),
    "warm": ([], {"standby": {"warm": "yes"}, "offsite": {"url": "file://{dir}/store/", "plain": "yes"}}),
}
WORLDS = [(), *((p,) for p in PARTS), tuple(p for p in PARTS if p not in ("no journal", "no blockers")),
          *itertools.combinations(("trigger of root", "trigger of nobody", "ledger", "no journal"), 2)]


def naked(server, *names):
    """Creates accounts that may log in and have no privileges."""
    for who in names or (f"'{USER}'@'localhost'", f"'{USER}'@'127.0.0.1'"):
        server.sql(f"DROP USER IF EXISTS {who}", f"CREATE USER {who} IDENTIFIED BY '{CANARY}'")


def filled(value, **words):
    return {k: filled(v, **words) if isinstance(v, dict) else v.format(**words) for k, v in value.items()}


def apply(keeper, script):
    """Runs the script as root, as in: worldkeeper … | sudo mysql."""
    done = subprocess.run([a for a in client(keeper.server, "", "mariadb") if a], input=script, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr + script
    assert not done.stdout, done.stdout


def asked_for(keeper):
    """Returns findings about privileges, except those that only my.cnf can correct (log_bin is off; on MariaDB a setting that
    must outlive a restart) and those about triggers of root."""
    checks = keeper.run("--check", "--json").json["result"]["checks"]
    return [c for c in checks if c["level"] != "ok" and "log_bin is off" not in c["text"] and (
        "amounts to root" not in c["text"]) and (MYSQL or c["name"] != "next start") and (
        c["name"] == "rights" or re.search("GRANT|REVOKE|1419|SUPER", c["text"] + c["hint"]))]


@pytest.mark.parametrize("parts", WORLDS, ids="+".join)
@pytest.mark.parametrize("log", [True, False], ids=["log", "no log"])
def test_one_pipe_is_enough(make_server, make_world, make_keeper, parts, log, tmp):
    server = make_server(*(LOG if log else []), *STRICT)
    world = make_world("small", server)
    keeper = make_keeper(world)
    naked(server)
    for part in parts:
        statements, settings = PARTS[part]
        server.sql("DO 0", *[s.format(us=f"'{USER}'@'localhost'", schema=world.schema) for s in statements], schema=world.schema)
        keeper.configure(filled(settings, socket=server.socket, password=keeper.password_file, dir=tmp))
    script = keeper.ok("--check", "--grants").out
    assert all(re.match("--( |$)|(GRANT|SET|USE) .*;$", line) for line in script.splitlines()), script
    apply(keeper, script)
    assert not asked_for(keeper), script
    again = keeper.ok("--check", "--grants").out
    # Only an administrator sees whether a definer exists or is a system user, so that this question remains.
    assert not re.findall("^GRANT .*", again, re.M), again


@pytest.mark.parametrize("schema", ["a b", "a`b", "a'b", "a\\\\b", "a;b", "a_b", "a%b", "játék", "a\"b", "--x", "$(x)"])
def test_odd_names_survive_the_pipe(make_server, make_world, make_keeper, schema):
    """The printed GRANTs work for schemas with special characters in their names."""
    server = make_server(*LOG, *STRICT)
    world = make_world("small", server, schema=schema)
    keeper = make_keeper(world)
    naked(server)
    server.sql(PARTS["trigger of root"][0][0], schema=schema)
    apply(keeper, keeper.ok("--check", "--grants").out)
    assert not asked_for(keeper)
    grants = " ".join(row[0] for row in server.sql(f"SHOW GRANTS FOR '{USER}'@'localhost'"))
    assert ("SET_ANY_DEFINER" if MYSQL else "SET USER") in grants


@pytest.mark.parametrize("wide", ["space_wars", "space%"])
@pytest.mark.parametrize("by", ["--grants", "--json"])
def test_a_grant_takes_nothing_away(make_server, make_world, make_keeper, wide, by):
    """The printed GRANTs, and those in the hints of --check, take no privilege from an account that the game uses, too. A grant
    on exactly the schema hides a wider one, such as one on a name whose _ is a wildcard."""
    server = make_server(*LOG, *STRICT)
    world = make_world("small", server, schema="space_wars")
    keeper = make_keeper(world, name="s8")
    naked(server)
    server.sql(f"GRANT SELECT, INSERT, DELETE, INDEX ON `{wide}`.* TO '{USER}'@'localhost' WITH GRANT OPTION",
               f"GRANT SELECT, REFERENCES ON `worldkeeper_drill%`.* TO '{USER}'@'localhost'",
               "CREATE DATABASE worldkeeper_drill_s8")
    if by == "--grants":
        script = keeper.ok("--check", "--grants").out
    else:
        hints = [c["hint"] or "" for c in keeper.run("--check", "--json").json["result"]["checks"]]
        script = "\n".join(h for h in hints if re.match(r"GRANT [^;]* ON `[^;]*;$", h))
    assert "GRANT" in script and "REVOKE" not in script, script
    apply(keeper, script)
    with contextlib.closing(pymysql.connect(unix_socket=server.socket, user=USER, password=CANARY)) as game, game.cursor() as c:
        c.execute("DELETE FROM space_wars.player LIMIT 1")
        c.execute("CREATE INDEX x ON space_wars.player (id)")
        c.execute(f"GRANT DELETE ON space_wars.* TO '{USER}'@'127.0.0.1'")
        c.execute("CREATE TABLE worldkeeper_drill_s8.p (id INT PRIMARY KEY) ENGINE=InnoDB")
        c.execute("CREATE TABLE worldkeeper_drill_s8.c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES p (id)) ENGINE=InnoDB")
    assert not [c for c in asked_for(keeper) if c["level"] == "fail" or c["name"] == "drill"], script


@pytest.mark.parametrize("other", [f"'{USER}'@'%'", "''@'%'"])
def test_no_grant_hides_what_another_account_gives(make_server, make_world, make_keeper, other):
    """SHOW GRANTS does not list what the server gives by a grant to the same user name of more hosts, or to the anonymous
    account. No GRANT that hides it is printed, neither by --grants nor in a hint."""
    server = make_server(*LOG, *STRICT)
    world = make_world("small", server, schema="galaxy")
    keeper = make_keeper(world)
    naked(server)
    assert "ON `galaxy`.* TO" in keeper.ok("--check", "--grants").out
    server.sql(f"CREATE USER {other}", f"GRANT SELECT, DELETE ON galaxy.* TO {other}",
               f"GRANT REPLICATION SLAVE ON *.* TO '{USER}'@'localhost'")
    try:
        done = keeper.run("--check", "--grants")
        assert done.rc == REFUSED and done.out == "" and "HINT: SELECT * FROM mysql.db" in done.err, done
        hints = [c["hint"] or "" for c in keeper.run("--check", "--json").json["result"]["checks"]]
        assert any("SELECT * FROM mysql.db" in h for h in hints) and not any("ON `galaxy`" in h for h in hints), hints
        server.sql(f"GRANT SELECT, DELETE ON galaxy.* TO '{USER}'@'localhost'")
        apply(keeper, keeper.ok("--check", "--grants").out)
    finally:
        server.sql(f"DROP USER {other}")


def test_a_session_with_other_settings_reads_it_the_same(make_server, make_world, make_keeper):
    server = make_server(*LOG, *STRICT, "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "--character-set-server=latin1")
    world = make_world("small", server, schema="a_'ö")
    keeper = make_keeper(world)
    naked(server)
    server.sql(PARTS["trigger of root"][0][0], schema=world.schema)
    apply(keeper, keeper.ok("--check", "--grants").out)
    assert not asked_for(keeper)


def test_an_account_with_all_of_it_gets_a_comment(make_world, make_keeper):
    keeper = make_keeper(make_world("small"))
    apply(keeper, keeper.ok("--check", "--grants").out)
    again = keeper.ok("--check", "--grants").out
    assert not [line for line in again.splitlines() if line.startswith("GRANT")], again


def test_nothing_is_printed_without_a_session(make_world, make_keeper):
    """On failure the error is on stderr and stdout is empty, so that the pipe runs nothing."""
    keeper = make_keeper(make_world("small"))
    keeper.secret("password", "another")
    done = keeper.run("--check", "--grants")
    assert done.rc != DONE and done.out == "" and "connection" in done.err, done
    keeper.secret("password", CANARY)
    keeper.server.sql(f"DROP USER '{USER}'@'localhost'", "CREATE USER ''@'localhost'")
    try:
        keeper.configure({"mysql": {"password_file": None}})
        done = keeper.run("--check", "--grants")
        assert done.rc != DONE and done.out == "" and "anonymous" in done.err, done
    finally:
        keeper.server.sql("DROP USER ''@'localhost'")


def test_a_name_that_cannot_be_printed_is_refused(make_server, make_world, make_keeper):
    server = make_server()
    keeper = make_keeper(make_world("small", server, schema="a\u202eb"))
    naked(server)
    done = keeper.run("--check", "--grants")
    assert done.rc == REFUSED and done.out == "" and "unprintable characters" in done.err, done


def test_grants_go_with_check_only(make_world, make_keeper):
    keeper = make_keeper(make_world("small"))
    done = keeper.run("--dump", "--grants")
    assert "--grants does not go with --dump" in done.err, done
