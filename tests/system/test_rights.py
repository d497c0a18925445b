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
}


def listed():
    """{feature: (rights on the schema, rights on the server)} of the man page."""
    with open(os.path.join(ROOT, "etc/worldkeeper.8"), encoding="utf-8") as f:
        text = f.read().split(".Ss Rights by feature")[1].split(".El")[0]
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


def given(keeper, schema_rights, server_rights):
    """The account, with exactly these rights. A session has what its account had when it began."""
    server = keeper.server
    server.account(USER, [keeper.world.schema], rights=schema_rights, server_rights=server_rights or None)


def act(keeper, feature):
    if feature == "init":
        return keeper.run("--init")
    if feature == "dump by copying":
        keeper.configure({"dump": {"method": "copy"}})
        return keeper.run("--dump")
    if feature == "dump under a lock":
        keeper.configure({"dump": {"method": "lock"}})
        return keeper.run("--dump")
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
    keeper.init()
    if feature == "restore with triggers":
        keeper.world.sql("CREATE DEFINER=keeper@localhost TRIGGER tr BEFORE INSERT ON player "
                         "FOR EACH ROW SET @wk_fired=1")
    if feature.startswith("dump"):
        return keeper
    keeper.dump()
    server.crash()
    return keeper


@pytest.mark.parametrize("feature", FEATURES)
def test_exactly_these_are_enough(feature, make_server, make_world, make_keeper):
    keeper = prepared(feature, make_server, make_world, make_keeper)
    given(keeper, *FEATURES[feature])
    done = act(keeper, feature)
    assert done.rc == DONE, done
    if feature == "journal":
        assert "journal" in keeper.run("--list").out


@pytest.mark.parametrize("feature", ["init", "dump by copying", "dump under a lock", "restore"])
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
