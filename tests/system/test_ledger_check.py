"""Ledgers in --check: what is missing, the statement that adds it, and rules that a game broke."""
import os
import re

import pytest
from test_dump_text import Overheard
from test_ledger import LEDGER, make
from wk.keeper import DONE, USER
from wk.server import MYSQL

pytestmark = pytest.mark.third_on_mysql

PRIVILEGES = "DELETE, CREATE VIEW, TRIGGER"


def findings(keeper, *levels):
    done = keeper.run("--check", "--json")
    return [c for c in done.json["result"]["checks"] if c["name"] == "ledger" and (not levels or c["level"] in levels)]


def found(keeper, words):
    for c in findings(keeper):
        if words in c["text"]:
            return c
    raise AssertionError((words, findings(keeper)))


@pytest.fixture(params=["MEMORY", "InnoDB"])
def ledger(request, keeper):
    make(keeper.world, request.param)
    keeper.configure({"ledger xp": LEDGER})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.engine = request.param
    return keeper


def test_nothing_is_wrong(ledger):
    made = ledger.ok("--init", "--json")["ledgers"]
    assert made == ["xp_mark", "xp_rollup", "xp_total", "xp_level"], made
    done = ledger.ok("--init", "--json")
    assert done["ledgers"] == done["skipped"] == [], done
    assert [c["level"] for c in findings(ledger)] == ["ok"], findings(ledger)
    assert "gains, xp_rollup, level" in findings(ledger)[0]["text"]


def test_what_init_makes_is_missing(ledger):
    assert "xp_mark, xp_rollup, xp_total, xp_level" in found(ledger, "missing: ")["text"]
    ledger.init()
    ledger.world.sql("DROP VIEW xp_level")
    assert "missing: xp_level" in found(ledger, "missing: ")["text"]
    assert ledger.ok("--init", "--json")["ledgers"] == ["xp_level"]


def test_init_before_the_ledger_is_there(ledger):
    """If the ledger's table is missing, as on a new machine before a restore, --init skips it and says so; --check fails."""
    ledger.world.sql("DROP TABLE gains")
    done = ledger.run("--init")
    assert done.rc == DONE and "a restore recreates it" in done.err, done
    done = ledger.ok("--init", "--json")
    assert done["skipped"] == ["xp"] and done["ledgers"] == [], done
    assert found(ledger, "has no such table")["level"] == "fail"


@pytest.mark.parametrize("own", ["TABLE xp_rollup (player INT NOT NULL PRIMARY KEY, mini INT, xp VARCHAR(9)) ENGINE=MEMORY",
                                 "TABLE xp_mark (who INT) ENGINE=MEMORY", "TABLE xp_total (who INT) ENGINE=InnoDB",
                                 "VIEW xp_rollup AS SELECT 1 AS one", "VIEW xp_level AS SELECT 1 AS one"])
def test_a_game_s_own_table_of_such_a_name(ledger, own):
    """A table or view of the game with a name of ours is left unchanged, and no statement that would change it is printed."""
    ledger.world.sql("CREATE " + own)
    name = own.split()[1]
    before = ledger.world.sql("SHOW CREATE " + own.split()[0] + " " + name)
    done = ledger.run("--init", "--json")
    assert done.rc == 4 and name in done.json["error"]["text"] and "another name" in done.json["error"]["hint"], done
    c = found(ledger, done.json["error"]["text"].split(": ", 1)[1])
    assert c["level"] == "fail" and c["hint"] == done.json["error"]["hint"], c
    assert ledger.run("--rollup").rc == 4
    assert ledger.world.sql("SHOW CREATE " + own.split()[0] + " " + name) == before


def test_privileges_that_a_ledger_needs(keeper):
    """Running the printed GRANT is enough for a rollup."""
    make(keeper.world, "MEMORY")
    keeper.configure({"ledger xp": LEDGER})
    done = keeper.run("--check", "--json")
    rights = [c for c in done.json["result"]["checks"] if c["name"] == "rights" and c["level"] == "fail"]
    assert rights and "DELETE" in rights[0]["text"] and "CREATE VIEW" in rights[0]["text"], done
    keeper.server.sql(re.search(r"GRANT [^;]+", rights[0]["hint"]).group(0))
    keeper.init()
    keeper.world.sql("INSERT INTO gains (player,mini,xp,at) VALUES (1,1,4,'2026-11-16 10:00:00')")
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["rolled_up"] == 1
    done = keeper.run("--check", "--json")
    assert not [c for c in done.json["result"]["checks"] if c["name"] == "rights" and c["level"] != "ok"
                and "DELETE" in c["text"]], done


@pytest.mark.parametrize("engine", ["MEMORY", "InnoDB"])
def test_an_index_that_is_missing(keeper, engine):
    make(keeper.world, engine, index=False)
    keeper.configure({"ledger xp": LEDGER})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.init()
    c = found(keeper, "index that begins with the key")
    assert c["level"] == ("fail" if engine == "MEMORY" else "warn"), c
    keeper.world.sql(c["hint"].rstrip(";"))
    assert [x["level"] for x in findings(keeper)] == ["ok"], findings(keeper)


def test_a_ledger_that_stays_behind(ledger, tmp):
    """With a second machine, --check warns of a ledger whose rows do not go there."""
    os.mkdir(f"{tmp}/store")
    ledger.configure({"journal": {"mode": "follow"}, "standby": {"lease": "none"},
                      "offsite": {"url": f"file://{tmp}/store", "plain": "yes"}})
    ledger.init()
    warned = ["does not go to the other machine" in c["text"] for c in findings(ledger, "warn")]
    assert warned == [True] * (ledger.engine == "InnoDB"), findings(ledger)


CASES = {
    "no table": ("DROP TABLE gains", "fail", "has no such table", None),
    "engine": ("ALTER TABLE gains ENGINE=MyISAM", "fail", "MEMORY or InnoDB", None),
    "column": ("ALTER TABLE gains CHANGE xp points INT NOT NULL", "fail", "no such column", None),
    "text as value": ("ALTER TABLE gains MODIFY xp VARCHAR(9) NOT NULL", "fail", "integer or a DECIMAL", None),
    "no counter": ("ALTER TABLE gains MODIFY id BIGINT UNSIGNED NOT NULL", "fail", "AUTO_INCREMENT", None),
    "time": ("ALTER TABLE gains MODIFY at TIME NOT NULL", "fail", "DATETIME", None),
    "NULL": ("ALTER TABLE gains MODIFY xp INT NULL", "warn", "may be NULL", "ALTER TABLE `gains` MODIFY `xp` int(11) NOT NULL"),
    "trigger": ("CREATE TRIGGER t BEFORE DELETE ON gains FOR EACH ROW SET @x=1", "warn", "deleted or updated: t", None),
    "definer": ("ALTER SQL SECURITY DEFINER VIEW xp_total AS $", "warn", "definer: xp_total", None),
    "no levels": ("DROP TABLE level", "fail", "no columns level and amount", None),
    "empty levels": ("DELETE FROM level", "fail", "has no row", "INSERT INTO `level` (level,amount) VALUES (1,100)"),
    "a gap": ("DELETE FROM level WHERE level=2", "warn", "with gaps", None),
    "first level": ("DELETE FROM level WHERE level=1", "warn", "the first level of table `level` is 2", None),
    "amount": ("UPDATE level SET amount=0 WHERE level=2", "warn", "amount of level 2", None),
    "amount NULL": ("UPDATE level SET amount=NULL WHERE level=2", "warn", "amount of level 2", None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found(ledger, case):
    statement, level, words, typed = CASES[case]
    ledger.init()
    if "$" in statement:  # replaced by the view's own definition
        statement = statement.replace("$", ledger.world.value(
            "SELECT VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA=DATABASE() AND TABLE_NAME='xp_total'"))
    ledger.world.sql(statement)
    c = found(ledger, words)
    assert c["level"] == level, c
    if typed:
        assert c["hint"].replace("int NOT", "int(11) NOT") == typed + ";", c
        ledger.world.sql(typed)
        assert words not in str(findings(ledger))


def test_a_column_that_may_be_null_keeps_all_else(ledger):
    """The statement that makes a column NOT NULL keeps its default, character set and comment: inserts without it would
    fail, and other keys would be equal."""
    ledger.world.sql("ALTER TABLE gains MODIFY xp INT NULL DEFAULT 7 COMMENT 'a ''note', "
                     "MODIFY mini VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin NULL")
    ledger.init()
    look = ("SELECT COLUMN_NAME, COLUMN_DEFAULT, COLLATION_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE "
            "TABLE_SCHEMA=DATABASE() AND TABLE_NAME='gains' AND COLUMN_NAME IN ('xp','mini') AND IS_NULLABLE=? "
            "ORDER BY COLUMN_NAME")
    before = ledger.world.sql(look.replace("?", "'YES'"))
    ledger.world.sql(found(ledger, "may be NULL: mini, xp")["hint"].rstrip(";"))
    after = ledger.world.sql(look.replace("?", "'NO'"))
    assert [row[2:] for row in after] == [row[2:] for row in before] and after[1] == before[1], (before, after)
    assert "may be NULL" not in str(findings(ledger))


@pytest.mark.parametrize("engine", ["MEMORY", "InnoDB"])
def test_request_ids(keeper, engine):
    make(keeper.world, engine)
    keeper.world.sql("ALTER TABLE gains ADD token VARCHAR(36) CHARACTER SET ascii NULL")
    keeper.configure({"ledger xp": {**LEDGER, "request": "token"}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    assert keeper.ok("--init", "--json")["ledgers"] == ["xp_mark", "xp_rollup", "xp_request", "xp_request", "xp_total",
                                                       "xp_level"]
    c = found(keeper, "no unique key of its own")
    assert c["level"] == "fail", c
    keeper.world.sql(c["hint"].rstrip(";"))
    assert [x["level"] for x in findings(keeper)] == ["ok"], findings(keeper)
    keeper.world.sql(f"ALTER TABLE gains ENGINE={'InnoDB' if engine == 'MEMORY' else 'MEMORY'}", "DROP TABLE xp_rollup")
    found(keeper, "another engine")


def test_the_trigger_is_asked_for_once(make_world, make_keeper, make_server):
    """--check reads all that it judges of a ledger's trigger with one statement."""
    keeper = make_keeper(make_world(on=make_server()))
    make(keeper.world, "MEMORY")
    keeper.world.sql("ALTER TABLE gains ADD token VARCHAR(36) CHARACTER SET ascii NULL UNIQUE")
    keeper.configure({"ledger xp": {**LEDGER, "request": "token"}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.init()
    with Overheard(keeper.server) as log:
        assert [c["level"] for c in findings(keeper)] == ["ok"], findings(keeper)
    assert len(log.statements("CONCAT(ACTION_TIMING=")) == 1


def test_request_ids_that_a_loss_would_forget(keeper):
    """--check warns if totals are durable and neither the request ids nor a journal are: a restore would bring back totals without
    the request ids of their rows."""
    make(keeper.world, "MEMORY")
    keeper.world.sql("ALTER TABLE gains ADD token VARCHAR(36) CHARACTER SET ascii NULL, ADD UNIQUE KEY (token)")
    keeper.configure({"journal": {"mode": "off"}, "ledger xp": {**LEDGER, "request": "token"}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.init()
    assert not findings(keeper, "warn")
    keeper.world.sql("ALTER TABLE xp_rollup ENGINE=InnoDB")
    assert found(keeper, "counts twice")["level"] == "warn"
    keeper.world.sql("ALTER TABLE xp_request ENGINE=InnoDB")
    assert "counts twice" not in str(findings(keeper))


def test_rules_that_were_broken(ledger):
    ledger.init()
    world = ledger.world
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join("(1,1,1,'2026-11-16 10:00:00')" for _ in range(9)))
    ledger.ok("--rollup", "--json")
    assert [c["level"] for c in findings(ledger)] == ["ok"]
    world.sql("INSERT INTO gains VALUES (3,1,1,100,'2026-11-16 10:00:00'),(12,1,1,20,'2026-11-16 10:00:00')")
    ledger.ok("--rollup", "--json")
    verified = ledger.run("--rollup", "--verify", "--json")
    if ledger.engine == "InnoDB":
        assert [c["level"] for c in findings(ledger)] == ["ok"] and verified.rc == DONE
        return
    assert "1 rows" in found(ledger, "these rows are in no total")["text"]
    assert verified.rc == 6 and "in no total" in verified.json["result"]["ledgers"][0]["problems"][0], verified
    world.sql("TRUNCATE gains", "INSERT INTO gains (player,mini,xp,at) VALUES (1,1,7,'2026-11-16 10:00:00')")
    assert found(ledger, "start again")["level"] == "fail"
    verified = ledger.run("--rollup", "--verify", "--json")
    assert verified.rc == 6 and "start again" in str(verified.json["result"]["ledgers"][0]["problems"]), verified


def test_two_ledgers_of_one_table(keeper):
    make(keeper.world, "MEMORY")
    keeper.configure({"ledger a": LEDGER, "ledger b": LEDGER})
    done = keeper.run("--check")
    assert done.rc == 2 and "[ledger b] table = gains: also the table of [ledger a]" in done.err, done


def test_a_ledger_that_is_nearly_full(keeper):
    keeper.world.sql("SET max_heap_table_size=1048576", "CREATE TABLE gains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT "
                     "NOT NULL, mini INT NOT NULL, xp INT NOT NULL, at DATETIME NOT NULL, KEY k USING BTREE (player,mini,id)) "
                     "ENGINE=MEMORY")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.init()
    insert = "INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(["(1,1,1,'2026-01-05')"] * 50)
    half = ("SELECT 2 * DATA_LENGTH >= MAX_DATA_LENGTH FROM information_schema.TABLES WHERE TABLE_NAME='gains' "
            "AND TABLE_SCHEMA=DATABASE()")
    fresh = ["SET information_schema_stats_expiry=0"] if MYSQL else []
    while not int(keeper.world.sql(*fresh, half)[0][0]):
        keeper.world.sql(insert)
    # its indexes take more than its data by then, and what the server gives a limit for is the data
    assert [c["level"] for c in findings(keeper)] == ["ok"]
    with pytest.raises(Exception, match="full"):
        while True:
            keeper.world.sql(insert)
    assert found(keeper, "that it may take")["level"] == "warn"


@pytest.mark.parametrize("option, words, level", [
    (["--transaction-isolation=READ-UNCOMMITTED"], "READ UNCOMMITTED", "warn"),
    (["--log-bin=log", "--binlog-format=STATEMENT"], "binlog_format = STATEMENT", "fail")])
def test_settings_that_an_innodb_ledger_does_not_bear(make_server, make_world, make_keeper, option, words, level):
    server = make_server(*option)
    keeper = make_keeper(make_world("small", server), {"ledger xp": LEDGER})
    make(keeper.world, "InnoDB")
    server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.init()
    assert found(keeper, words)["level"] == level
