"""The rights that worldkeeper(8) lists for each feature: enough for it, and none of them too much."""
import os
import re

import pytest

from wk.keeper import DONE, ROOT, USER
from wk.server import MYSQL

LOG = "REPLICATION SLAVE, " + ("REPLICATION CLIENT" if MYSQL else "BINLOG MONITOR")
# What the man page's table says: rights on the schema, and on the server.
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
    """{feature: (rights on the schema, rights on the server)} of the man page."""
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
    """The GRANT that it prints can be pasted, and is what was missing."""
    os.mkdir(os.path.join(tmp, "store"), 0o700)
    keeper = make_keeper(make_world("small"), {"standby": {"warm": "yes"}, "offsite": {
        "url": f"file://{tmp}/store/", "plain": "yes"}})
    said = keeper.ok("--init").err
    grant, = re.findall(r"types (GRANT .* TO .*;)$", said, re.M)
    assert "worldkeeper\\_warm\\_w1" in grant
    keeper.server.sql(grant)
    assert "GRANT" not in keeper.ok("--init").err


def given(keeper, schema_rights, server_rights):
    """The account, with exactly these rights. A session has what its account had when it began."""
    server = keeper.server
    server.account(USER, [keeper.world.schema], rights=schema_rights, server_rights=server_rights or None)


def ledger(keeper):
    """All that is done with one, each time from the beginning; gives the first result that is not well."""
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
        assert "journal" in keeper.run("--list").out


@pytest.mark.each_server
@pytest.mark.parametrize("feature", ["init", "dump by copying", "dump under a lock", "restore",
                                     "ledgers", "ledgers with request ids"])
def test_none_of_them_is_too_much(feature, make_server, make_world, make_keeper):
    """Without any one of them it fails, names what is missing, and does nothing by halves."""
    keeper = prepared(feature, make_server, make_world, make_keeper)
    rights = FEATURES[feature][0].split(", ")
    for right in rights:
        given(keeper, ", ".join(r for r in rights if r != right), "")
        done = act(keeper, feature)
        if (feature, right) == ("restore", "UPDATE"):  # the world is in by then: told, not undone
            assert done.rc == DONE and "_lease" in done.out, done
            keeper.server.crash()
            continue
        assert done.rc != DONE, (right, done)
    given(keeper, *FEATURES[feature])
    assert act(keeper, feature).rc == DONE
