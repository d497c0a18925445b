"""Tests of the privileges that worldkeeper(8) lists for each feature: they are sufficient, and none is superfluous."""
import os
import re
import time

import pytest

from wk.keeper import DONE, ROOT, USER
from wk.server import MYSQL, RIGHTS, version
from wk.util import CANARY

LOG = "REPLICATION SLAVE, " + ("REPLICATION CLIENT" if MYSQL else "BINLOG MONITOR")
# The man page's table: privileges on the schema, and on the server.
FEATURES = {
    "init": ("SELECT, INSERT, CREATE", ""),
    "dump by copying": ("SELECT, LOCK TABLES, CREATE TEMPORARY TABLES", ""),
    "dump under a lock": ("SELECT, LOCK TABLES", ""),
    "restore": ("SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES", ""),
    "restore with triggers": ("SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER", ""),
    "journal": ("SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES", LOG),
    "ledgers": ("SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, CREATE VIEW, CREATE TEMPORARY TABLES", ""),
    "ledgers with request ids": ("SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, CREATE VIEW, CREATE TEMPORARY TABLES, TRIGGER",
                                 ""),
}


def listed():
    """Returns {feature: (privileges on the schema, privileges on the server)} of the man page."""
    with open(os.path.join(ROOT, "etc/worldkeeper.8"), encoding="utf-8") as f:
        text = f.read().split(".Ss Privileges by feature")[1].split(".El")[0]
    found = {}
    for entry in text.split(".It ")[1:]:
        name, *lines = entry.strip().splitlines()
        kinds = {k: v for k, v in (re.match(r"(Schema|Server): (.*)\.", line).groups() for line in lines
                                   if re.match(r"(Schema|Server): ", line))}
        server = kinds.get("Server", "").split("; MySQL: ")
        found[name] = (kinds["Schema"], server[-1] if MYSQL else server[0])
    return found


def test_the_man_page_lists_them():
    assert {k: v for k, v in listed().items() if k in FEATURES} == FEATURES


def test_init_asks_for_what_a_standby_needs(make_world, make_keeper, tmp):
    """--init prints the missing GRANT, which can be pasted."""
    os.mkdir(os.path.join(tmp, "store"), 0o700)
    keeper = make_keeper(make_world("small"), {"standby": {"warm": "yes"}, "offsite": {
        "url": f"file://{tmp}/store/", "plain": "yes"}})
    said = keeper.ok("--init").err
    grant, = re.findall(r"runs: (GRANT .* TO .*;)$", said, re.M)
    assert "worldkeeper\\_warm\\_w1" in grant
    keeper.server.sql(grant)
    assert "GRANT" not in keeper.ok("--init").err


def given(keeper, schema_rights, server_rights):
    """Gives the account exactly these privileges."""
    server = keeper.server
    server.account(USER, [keeper.world.schema], rights=schema_rights, server_rights=server_rights or None)


def ledger(keeper):
    """Runs each ledger action from the beginning, and returns the first result that is not DONE, or the last one."""
    made = keeper.world.sql("SELECT TABLE_NAME,TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND "
                            "TABLE_NAME LIKE 'xp\\_%'")
    keeper.world.sql("TRUNCATE gains", "DROP TRIGGER IF EXISTS xp_request",
                     *(f"DROP {'VIEW' if kind == 'VIEW' else 'TABLE'} {name}" for name, kind in made))
    for step in ("--init", "--init", "--rollup", "--rollup", "--rollup --verify"):
        done = keeper.run(*step.split())
        if done.rc != DONE:
            return done
        keeper.world.sql("INSERT INTO gains (player,mini,xp,at,token) SELECT 1,1,4,'2026-01-05 10:00:00',UUID()")
    return done


def act(keeper, feature):
    if feature == "init":
        return keeper.run("--init")
    if feature == "dump by copying":
        keeper.configure({"dump": {"method": "copy"}})
        return keeper.run("--dump")
    if feature == "dump under a lock":
        keeper.configure({"dump": {"method": "lock"}})
        return keeper.run("--dump")
    if feature.startswith("ledgers"):
        return ledger(keeper)
    keeper.configure({"journal": {"mode": "server" if feature == "journal" else "off"}})
    return keeper.run("--restore")


def prepared(feature, make_server, make_world, make_keeper):
    options = ["--log-bin=log", "--binlog-format=ROW"] if feature == "journal" else []
    if feature == "restore with triggers":
        options += ["--log-bin-trust-function-creators=1"]
    server = make_server(*options)
    keeper = make_keeper(make_world("small", server), {"restore": {"binlog": "yes"}})
    if feature == "init":
        return keeper
    if feature.startswith("ledgers"):
        keeper.init()
        keeper.world.sql("CREATE TABLE gains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
                         "xp INT NOT NULL, at DATETIME NOT NULL, token CHAR(36) NULL UNIQUE, KEY k USING BTREE (player,mini,id)) "
                         "ENGINE=MEMORY")
        keeper.configure({"ledger xp": {"table": "gains", "key": "player, mini", "value": "xp", "time": "at", "keep": "1d",
                                        "request": "token" if "request" in feature else None}})
        return keeper
    keeper.init()
    if feature == "restore with triggers":
        keeper.world.sql("CREATE DEFINER=keeper@localhost TRIGGER tr BEFORE INSERT ON player "
                         "FOR EACH ROW SET @wk_fired=1")
    if feature.startswith("dump"):
        return keeper
    keeper.dump()
    server.crash()
    return keeper


@pytest.mark.each_server
@pytest.mark.parametrize("feature", FEATURES)
def test_exactly_these_are_enough(feature, make_server, make_world, make_keeper):
    keeper = prepared(feature, make_server, make_world, make_keeper)
    given(keeper, *FEATURES[feature])
    done = act(keeper, feature)
    assert done.rc == DONE, done
    if feature == "journal":
        assert "times that --restore --at reaches" in keeper.run("--list").out


@pytest.mark.each_server
@pytest.mark.parametrize("feature", ["init", "dump by copying", "dump under a lock", "restore",
                                     "ledgers", "ledgers with request ids"])
def test_none_of_them_is_too_much(feature, make_server, make_world, make_keeper):
    """Each listed privilege is needed: without it the action fails."""
    keeper = prepared(feature, make_server, make_world, make_keeper)
    rights = FEATURES[feature][0].split(", ")
    for right in rights:
        given(keeper, ", ".join(r for r in rights if r != right), "")
        done = act(keeper, feature)
        if (feature, right) == ("restore", "UPDATE"):  # the restore is complete by then, so the error is only reported
            assert done.rc == DONE and "_lease" in done.out, done
            keeper.server.crash()
            continue
        assert done.rc != DONE, (right, done)
    given(keeper, *FEATURES[feature])
    assert act(keeper, feature).rc == DONE


# ---- findings of --check against results --------------------------------------------------------------------

def by_version():
    """Returns {use: (privilege to grant, alternatives)} of the man page, for this server's version. A unit test compares that
    list with the program's own."""
    with open(os.path.join(ROOT, "etc/worldkeeper.8"), encoding="utf-8") as f:
        text = f.read().split(".Ss Privileges by version")[1].split(".Bl -tag", 1)[1].split("\n.El")[0]
    here, found = version()[:2], {}
    for entry in text.split("\n.It ")[1:]:
        use, *lines = entry.splitlines()
        said = re.search(f"{'MySQL' if MYSQL else 'MariaDB'}: (.*?)\\.(?= MySQL:|$)", " ".join(lines))
        if not said:
            continue
        newest, *older = said.group(1).split("; ")
        for name in older:
            before, words = re.match(r"before ([0-9.]+): (.*)", name).groups()
            if here < tuple(map(int, before.split("."))):
                newest = words
        found[use] = newest.split(" or ")[0], newest.split(" or ")[1:]
    return found


DEFINER = "Triggers and routines of other definers"
# The test of each: server settings, config, topic of --check's finding, action.
LISTED = {
    "Reading the binary log": ({}, {"journal": {"mode": "server"}}, "journal", "to a moment"),
    "Positions in the binary log": ({}, {"journal": {"mode": "server"}}, "journal", "to a moment"),
    DEFINER: ({}, {}, "triggers", "restore"),
    "Those of definers such as root, which have SYSTEM_USER": ({}, {}, "triggers", "restore"),
    "Those of definers that do not exist": ({}, {}, "triggers", "restore"),
    "Triggers, with a binary log and log_bin_trust_function_creators = OFF": (
        {"log_bin_trust_function_creators": 0}, {}, "triggers", "restore"),
    "[restore] binlog = no": ({}, {"restore": {"binlog": "no"}}, "rights", "unlogged restore"),
    "Restores while read_only is ON": ({"read_only": 1}, {}, "settings", "restore"),
}
ELSEWHERE = {"Copies without a key, with sql_require_primary_key = ON",  # test_mysql_ways.py
             "Functions and procedures in dumps",  # test_check.py
             "Restores and drills on a Galera node"}  # test_galera.py


END = "[restore] end_blockers = idle"
BLOCKERS = ["Sessions that block a restore, without performance_schema", "Sessions that hold the locks, with performance_schema",
            "Accounts of these sessions", "Last statements of these sessions", END]


def test_each_that_is_listed_is_tried():
    assert set(by_version()) <= set(LISTED) | set(BLOCKERS) | ELSEWHERE


def a_world_of_many_definers(make_server, make_world, make_keeper):
    """Makes a world with triggers of root, of a plain account, of worldkeeper's account and of one that does not exist."""
    server = make_server("--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=1")
    keeper = make_keeper(make_world("small", server))
    keeper.init()
    server.sql("CREATE USER IF NOT EXISTS plain@localhost")
    make_triggers(keeper)
    return keeper


def make_triggers(keeper):
    for n, definer in enumerate(("root@localhost", "plain@localhost", "nobody@nowhere", f"{USER}@localhost")):
        keeper.world.sql(f"DROP TRIGGER IF EXISTS tr{n}",
                         f"CREATE DEFINER={definer} TRIGGER tr{n} BEFORE INSERT ON player FOR EACH ROW SET @wk_fired=1")


def triggers(keeper):
    return int(keeper.world.value("SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=DATABASE()"))


def failing(keeper, topic):
    """Returns the findings of --check in this topic that are warnings or failures."""
    done = keeper.run("--check", "--json")
    return [c for c in done.json["result"]["checks"] if c["name"] == topic and c["level"] in ("warn", "fail")
            and not re.search("superfluous|more than needed|amounts to root", c["text"])]


def try_it(keeper, action):
    if action == "to a moment":
        keeper.dump()
        time.sleep(1.1)
        done = keeper.run("--restore", "--force", "--at", time.strftime("%Y-%m-%d %H:%M:%S"))
        return done.rc == DONE, done
    done = keeper.run("--restore", "--force")
    return done.rc == DONE and ("this account may not use" not in done.out + done.err or action != "unlogged restore"), done


@pytest.mark.each_server
@pytest.mark.parametrize("use", LISTED)
def test_check_fails_where_the_action_fails(use, make_server, make_world, make_keeper):
    """--check reports a problem if and only if the action fails: with all listed privileges, with all except this one, and
    with each alternative in its place."""
    listed = by_version()
    if use not in listed:  # this version needs no privilege for it
        return
    settings, config, topic, action = LISTED[use]
    keeper = a_world_of_many_definers(make_server, make_world, make_keeper)
    server, schema = keeper.server, keeper.world.schema
    keeper.dump()
    keeper.configure(config)
    every = {listed[u][0] for u in LISTED if u in listed}
    only_for = {"SUPER"} if listed[use][0] != "SUPER" else set()  # it would replace this one
    given = {"all": every - only_for, "all but it": every - {listed[use][0], *listed[use][1]} - only_for}
    for other in listed[use][1]:
        given[other] = given["all but it"] | {other}
    if MYSQL is False and use == DEFINER and "SUPER" not in listed[use][1]:
        given["SUPER, which is not enough"] = given["all but it"] | {"SUPER"}
    for what, rights in given.items():
        server.account(USER, [schema], RIGHTS, ", ".join(sorted(rights)) or None)
        server.sql("DO 1", *(f"SET GLOBAL {name}={value}" for name, value in settings.items()))
        said = failing(keeper, topic)
        works, done = try_it(keeper, action)
        server.sql("SET GLOBAL read_only=0", "SET GLOBAL log_bin_trust_function_creators=1")
        assert bool(said) == (not works), (what, said, done)
        assert works == (what != "all but it" and "not enough" not in what), (what, said, done)


@pytest.mark.each_server
def test_check_fails_where_a_privilege_on_the_schema_is_missing(make_server, make_world, make_keeper):
    """Without any one privilege on the schema --check fails if and only if a dump or a restore does."""
    keeper = a_world_of_many_definers(make_server, make_world, make_keeper)
    listed = by_version()
    keeper.dump()
    for right in RIGHTS.split(", "):
        keeper.server.account(USER, [keeper.world.schema], ", ".join(r for r in RIGHTS.split(", ") if r != right),
                              ", ".join(sorted({listed[u][0] for u in LISTED if u in listed} - {"SUPER"})))
        fails = bool(keeper.run("--check").rc)
        dumped, restored = keeper.run("--dump"), keeper.run("--restore", "--force")
        # MySQL and MariaDB 10.5 hide triggers from an account without TRIGGER, so the restore cannot know that it loses them.
        works = dumped.rc == DONE and restored.rc == DONE and "_lease" not in restored.out and triggers(keeper) == 4
        assert fails == (not works), (right, dumped, restored)
        keeper.server.account(USER, [keeper.world.schema], RIGHTS, "ALL")
        keeper.ok("--restore", "--force")
        make_triggers(keeper)


@pytest.mark.each_server
@pytest.mark.parametrize("super_and", ["REPLICATION SLAVE", f"{LOG}"])
def test_super_is_what_it_is_in_this_version(super_and, make_server, make_world, make_keeper):
    """Where SUPER lacks a privilege --check fails with the GRANT to paste. After that dumps and restores with triggers of
    other definers work."""
    keeper = a_world_of_many_definers(make_server, make_world, make_keeper)
    server = keeper.server
    keeper.configure({"journal": {"mode": "server"}})
    server.account(USER, [keeper.world.schema], RIGHTS, f"SUPER, {super_and}")
    before = keeper.run("--check", "--json")
    includes = version() < (11, 0) and not MYSQL  # MySQL's SUPER lacks SYSTEM_USER, for root's triggers
    assert (before.rc == DONE) == includes, before
    pasted = [s.strip() for c in before.json["result"]["checks"] if c["level"] == "fail" for s in
              re.findall(r"GRANT [^;]*;", c["hint"])]
    assert bool(pasted) != includes, before
    for grant in pasted:
        server.sql(grant.replace("`localhost`", "'localhost'").rstrip(";"))
        server.sql(grant.replace("`localhost`", "'127.0.0.1'").rstrip(";"))
    assert keeper.run("--check").rc == DONE
    was = keeper.world.snapshot()
    keeper.dump()
    keeper.world.sql("DELETE FROM fleet WHERE id>2000")
    keeper.ok("--restore", "--force")
    keeper.world.assert_is(was)
    assert triggers(keeper) == 4


@pytest.mark.each_server
def test_a_check_changes_nothing(make_server, make_world, make_keeper):
    """--check leaves no trigger, row or table of its tests, and writes nothing to the binary log."""
    keeper = a_world_of_many_definers(make_server, make_world, make_keeper)
    keeper.configure({"restore": {"binlog": "no"}})
    server = keeper.server
    server.account(USER, [keeper.world.schema], RIGHTS, "ALL")
    keeper.run("--check")  # the first run opens tables
    was, at = keeper.world.snapshot(), server.sql("SHOW MASTER STATUS")
    keeper.run("--check")
    assert server.sql("SHOW MASTER STATUS") == at
    keeper.world.assert_is(was)


def blocked(keeper):
    """Returns whether a restore names and ends a session of the game that keeps the tables locked, and its result."""
    keeper.server.account("gamer", [keeper.world.schema], server_rights="")
    con = keeper.server.admin(keeper.world.schema, user="gamer", password=CANARY)
    try:
        with con.cursor() as cur:
            for statement in ("SET autocommit=0", "SELECT * FROM durable", "SELECT * FROM player"):
                cur.execute(statement)
        done = keeper.run("--restore", "--force")
    finally:
        con.close()
    return done.rc == DONE and f"session {con.thread_id()} (gamer@" in done.err, done


@pytest.mark.each_server
@pytest.mark.parametrize("listing", ["with a list of locks", "without one"] if MYSQL else ["without one"])
def test_check_offers_what_ending_sessions_needs(listing, make_server, make_world, make_keeper):
    """--check offers privileges if and only if a restore could not end the session that it waits for: with all listed ones,
    with all except one, and with each alternative in its place."""
    listed, lists = by_version(), listing == "with a list of locks"
    server = make_server(*(["--performance-schema=ON"] if lists else []))
    keeper = make_keeper(make_world("small", server), {"restore": {"lock_wait": "1s"}}).init()
    keeper.world.sql("CREATE TABLE durable (a INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO durable VALUES (1)")
    keeper.dump()
    every = {use: listed[use] for use in BLOCKERS if use in listed}
    cases = {"all": [name for name, _ in every.values()]}
    for use, (name, others) in every.items():
        rest = [n for u, (n, _) in every.items() if u != use]
        cases[use] = rest
        cases.update({f"{other} in place of {name}": [*rest, other] for other in others})
        if "SUPER" not in others and use == END:
            cases["SUPER, which is not enough"] = [*rest, "SUPER"]
    for what, rights in cases.items():
        server.account(USER, [keeper.world.schema], RIGHTS, ", ".join(r for r in rights if " on " not in r) or None)
        for right, table in (r.split(" on ") for r in rights if " on " in r):
            server.sql(*(f"GRANT {right} ON {table} TO {USER}@'{host}'" for host in ("localhost", "127.0.0.1")))
        offered = [c for c in keeper.run("--check", "--json").json["result"]["checks"]
                   if c["name"] == "blockers" and c["level"] == "note"]
        works, done = blocked(keeper)
        if "Last statements of these sessions" in cases and lists:
            works = works and "last: SELECT * FROM player" in done.err
        assert bool(offered) == (not works), (what, rights, offered, done)
        needed = what in every and lists == (what not in BLOCKERS[:1]) or what == END or "not enough" in what
        assert works != needed, (what, rights, done)
