"""Code in a dump (views, routines, triggers, events): where it comes from, when and with which definer it is created, and that a
planted statement creates nothing else."""
import collections
import json
import gzip
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from test_dump_content import Forger
from wk.keeper import DONE, USAGE, built
from wk.server import MYSQL, RIGHTS, mysqldump

MINE = "DEFINER=keeper@localhost "
DEFINITIONS = [
    f"CREATE {MINE}VIEW a_rich AS SELECT id, nick FROM player WHERE points>5",
    f"CREATE {MINE}FUNCTION answer(n INT,  s VARCHAR(20)) RETURNS INT DETERMINISTIC COMMENT 'it''s' RETURN 42+n",
    f"CREATE {MINE}PROCEDURE heal(n INT) BEGIN UPDATE player SET points=points+n; END",
    f"CREATE {MINE}TRIGGER watch BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=7",
    f"CREATE {MINE}EVENT tick ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01 00:00:00' COMMENT 'y' DO DELETE FROM player",
    f"CREATE {MINE}EVENT off ON SCHEDULE EVERY '1:30' HOUR_MINUTE ON COMPLETION PRESERVE DISABLE DO SET @a=1",
]
NAMES = {"a_rich", "answer", "heal", "watch", "tick", "off"}


def objects(server, schema):
    """Returns (kind, name) of all objects that are defined in a schema."""
    return set(server.sql(
        f"SELECT 'view', table_name FROM information_schema.views WHERE table_schema='{schema}' UNION ALL "
        f"SELECT 'routine', routine_name FROM information_schema.routines WHERE routine_schema='{schema}' UNION ALL "
        f"SELECT 'trigger', trigger_name FROM information_schema.triggers WHERE trigger_schema='{schema}' UNION ALL "
        f"SELECT 'event', event_name FROM information_schema.events WHERE event_schema='{schema}'"))


def names(server, schema):
    return {name for _, name in objects(server, schema)}


def outside(server, *schemas):
    """Returns what no definition of a world may change: accounts, other schemas, settings of the server."""
    mine = ",".join(f"'{s}'" for s in (*schemas, "information_schema", "performance_schema"))
    accounts = server.sql("SELECT user, host FROM mysql.user ORDER BY 1, 2")
    functions = server.sql("SELECT * FROM mysql.func")
    others = server.sql(f"SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE "
                        f"table_schema NOT IN ({mine}) AND table_schema NOT REGEXP '^w[0-9]+_' ORDER BY 1, 2")
    routines = server.sql(f"SELECT routine_schema, routine_name FROM information_schema.routines WHERE "
                          f"routine_schema NOT IN ({mine}) AND routine_schema NOT REGEXP '^w[0-9]+_' ORDER BY 1, 2")
    return accounts, functions, others, routines, server.sql("SELECT @@GLOBAL.max_connections")


def rebuild(keeper):
    """Makes the server look rebuilt: the schema exists and is empty."""
    schema = keeper.world.schema
    keeper.server.sql(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4")


@pytest.fixture
def server(make_server):
    """Returns a server of the test's own, because a planted statement may change all of it."""
    return make_server("--log-bin-trust-function-creators=ON")


@pytest.fixture
def world(make_world, server):
    return make_world(on=server)


@pytest.fixture
def keeper(make_keeper, world):
    """Returns a keeper whose account has all privileges."""
    made = make_keeper(world, {"restore": {"new_server": "yes"}})
    world.server.sql("GRANT ALL ON *.* TO keeper@localhost")
    return made.init()


@pytest.fixture
def defined(keeper):
    """Returns a keeper whose newest dump has definitions of each kind."""
    keeper.world.sql(*DEFINITIONS)
    keeper.before = keeper.world.snapshot()
    keeper.dump()
    return keeper


OTHER = "wk_other_people"
GBK = b"`\x81` AS x`.`v` AS SELECT 1"  # in GBK the first name continues after its second quote
PLANTED = {
    "an account": "CREATE /*!99999 VIEW `a` x */ USER planted@localhost",
    "an account for MariaDB": "CREATE /*M!999999 VIEW `a` x */ USER planted@localhost",
    "a library": "CREATE FUNCTION `f` /*!99999 ( */ RETURNS STRING SONAME 'evil.so'",
    "a library with parentheses": "CREATE FUNCTION `f`() RETURNS STRING SONAME 'evil.so'",
    "another schema": f"CREATE VIEW `{OTHER}` /*!99999 AS */ .`v` AS SELECT 1",
    "another schema openly": f"CREATE VIEW `{OTHER}`.`v` AS SELECT 1",
    "another schema for latin1": f"SET character_set_client=latin1;;\nCREATE VIEW `{OTHER}`".encode() + b"\xa0.`v` AS SELECT 1",
    "another schema for gbk": b"SET character_set_client=gbk;;\nCREATE VIEW " + GBK,
    "another schema for a trigger": f"CREATE TRIGGER `x` BEFORE INSERT ON `{OTHER}` . `t` FOR EACH ROW SET @a=1",
    "another schema for an event": f"CREATE EVENT `{OTHER}`/**/.`e` ON SCHEDULE EVERY 1 YEAR DO SET @a=1",
    "a schema": f"CREATE /*!99999 VIEW `a` AS SELECT */ SCHEMA `planted`",
    "a table": f"CREATE /*!99999 VIEW `a` x */ TABLE `{OTHER}`.`planted` (a int)",
    "a query into a file": "CREATE VIEW `v` AS SELECT 1 INTO OUTFILE 'planted'",
    "a setting": "SET GLOBAL max_connections=17",
    "a setting beside one": "SET sql_mode='', GLOBAL max_connections=17",
    "a drop": f"DROP DATABASE {OTHER}",
}


@pytest.mark.parametrize("how", PLANTED)
def test_planted_statements(keeper, how):
    """A forged dump in the dump directory has valid sums and a planted statement. The restore runs none of these statements and
    still restores the world."""
    gbk = GBK.split(b".")[0].strip(b"`").decode("gbk")
    keeper.server.sql(f"CREATE DATABASE {OTHER}", f"CREATE TABLE {OTHER}.t (a int)", f"CREATE DATABASE `{gbk}`")
    forger = Forger(keeper)
    sql = PLANTED[how] if isinstance(PLANTED[how], bytes) else PLANTED[how].encode()
    forger.definitions(b"DELIMITER ;;\nSET NAMES utf8mb4;;\n" + sql + b";;\nSET NAMES utf8mb4;;\n"
                       b"DROP VIEW IF EXISTS `wk_good`;;\nCREATE VIEW `wk_good` AS SELECT 1 AS `a`;;\nDELIMITER ;\n")
    rebuild(keeper)
    before = outside(keeper.server, keeper.world.schema)
    done = keeper.ok("--restore=" + forger.name, "--json")
    assert outside(keeper.server, keeper.world.schema) == before, done
    assert names(keeper.server, keeper.world.schema) == {"wk_good"}, done
    assert keeper.world.rows() > 0
    if not how.startswith("a setting") or "failed" in done["definitions"]:
        assert len(done["definitions"]["failed"]) == 1, done


def test_new_names_install_nothing(defined):
    """A dump whose tables all have names that the living schema lacks does not make the server count as rebuilt: no code is
    created."""
    forger = Forger(defined)
    forger.definitions(b"DELIMITER ;;\nSET NAMES utf8mb4;;\nCREATE DEFINER=`root`@`localhost` EVENT `planted` ON SCHEDULE "
                       b"EVERY 1 YEAR DO SET @a=1;;\nDELIMITER ;\n")
    world = defined.world
    world.sql(f"DROP VIEW a_rich", "DROP TRIGGER watch", "DROP EVENT tick", "DROP PROCEDURE heal",
              *(f"RENAME TABLE {t} TO {t}_2" for t in ("player", "fleet", "chat", "mark")),
              "DROP TABLE worldkeeper_sentinel", "DROP TABLE worldkeeper_sentinel_lease")
    before = objects(defined.server, world.schema)
    done = defined.ok("--restore=" + forger.name, "--force", "--json")
    assert objects(defined.server, world.schema) == before, done
    left = done["definitions"]["left_out"]
    assert {"view a_rich", "event planted", "trigger watch", "procedure heal"} <= set(left), done
    assert "--with-code" in done["warning"], done


def test_a_rebuilt_server_gets_all(defined):
    """On a rebuilt server an unsigned dump from our own directory restores all code. Events are disabled, and the result names
    them with the statement that enables them."""
    rebuild(defined)
    done = defined.ok("--restore", "--json")
    assert done["definitions"]["made"] == 6 and "left_out" not in done["definitions"], done
    assert done["definitions"]["events_disabled"] == ["tick"] and "tick" in done["warning"], done
    schema = defined.world.schema
    state = "SELECT event_name, status FROM information_schema.events WHERE event_schema=DATABASE() ORDER BY 1"
    assert defined.world.sql(state) == (("off", "DISABLED"), ("tick", "DISABLED"))
    enable = done["definitions"]["enable"]
    assert enable == f"ALTER DEFINER=`keeper`@`localhost` EVENT `{schema}`.`tick` ENABLE;"
    defined.server.sql(enable.rstrip(";"))
    assert "definitions" not in done or "own_definer" not in done["definitions"], done
    defined.world.assert_is(defined.before)


@pytest.mark.parametrize("point", ["restore.renamed", "restore.conflict_whole"])
def test_killed_before_all_is_made(defined, point):
    """If a restore is killed after the swap, the supervisor that finishes it also creates the dump's code."""
    rebuild(defined)
    done = defined.finish(defined.popen("--restore", fault=point + "=kill"))
    assert done.rc == -signal.SIGKILL, done
    defined.start()
    defined.wait(lambda: not os.path.exists(os.path.join(defined.dumps_dir, "pending.json")), "tidied up")
    assert names(defined.server, defined.world.schema) == NAMES
    assert point != "restore.renamed" or "events are disabled: tick" in defined.log()
    defined.server.sql(f"ALTER DEFINER=keeper@localhost EVENT `{defined.world.schema}`.tick ENABLE")
    defined.world.assert_is(defined.before)


def test_the_server_is_killed_as_well(defined, server):
    """If the server is killed as well, the restored tables exist and are empty, so the schema no longer counts as empty.
    The next restore still creates the code."""
    rebuild(defined)
    done = defined.finish(defined.popen("--restore", fault="restore.renamed=kill"))
    assert done.rc == -signal.SIGKILL, done
    server.crash("--log-bin-trust-function-creators=ON")
    defined.ok("--restore")
    assert names(defined.server, defined.world.schema) == NAMES
    defined.server.sql(f"ALTER DEFINER=keeper@localhost EVENT `{defined.world.schema}`.tick ENABLE")
    defined.world.assert_is(defined.before)


def test_views_on_views(keeper):
    """Views that select from other views are restored regardless of their order in the dump."""
    keeper.world.sql(f"CREATE {MINE}VIEW z1 AS SELECT id FROM player", f"CREATE {MINE}VIEW m2 AS SELECT id FROM z1",
                     f"CREATE {MINE}FUNCTION f() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM player)",
                     f"CREATE {MINE}VIEW a3 AS SELECT id, f() AS n FROM m2", f"CREATE {MINE}VIEW `ő``b;` AS SELECT 1 AS `x``y`")
    keeper.dump()
    before = keeper.world.snapshot()
    rebuild(keeper)
    done = keeper.ok("--restore", "--json")
    assert done["definitions"] == {"made": 5} and "warning" not in done, done
    keeper.world.assert_is(before)


def test_a_copy_on_a_rebuilt_server(defined):
    """A file that is given by its path and replaces the world has unknown authors: its code is listed only, and created with
    --with-code."""
    path = os.path.join(defined.base, "copy.sql.gz")
    shutil.copy(os.path.join(defined.dumps_dir, defined.newest()["name"] + ".sql.gz"), path)
    rebuild(defined)
    done = defined.ok("--restore=" + path, "--json")
    assert defined.world.rows() > 0
    assert names(defined.server, defined.world.schema) == set(), done
    assert len(done["definitions"]["left_out"]) == 6 and done["definitions"]["made"] == 0, done
    assert "--with-code" in done["warning"], done
    again = defined.ok("--restore=" + path, "--force", "--with-code", "--json")
    assert names(defined.server, defined.world.schema) == NAMES, again
    assert "by hand" not in again.get("warning", "") and again["definitions"]["made"] == 6, again


def test_a_cut_copy_on_a_rebuilt_server(defined):
    """The warning says both that the end of the file is missing and that its code is left out."""
    with gzip.open(os.path.join(defined.dumps_dir, defined.newest()["name"] + ".sql.gz")) as f:
        text = f.read()
    path = os.path.join(defined.base, "cut.sql")
    with open(path, "wb") as f:
        f.write(text[:text.rindex(b"-- worldkeeper end")])
    rebuild(defined)
    warning = defined.ok("--restore=" + path, "--accept-cut", "--json")["warning"]
    assert "closing" in warning and "--with-code" in warning, warning


def test_signed(defined):
    """With a signing key the dump's code is restored on a rebuilt server, because the HMAC proves its origin."""
    defined.configure({"dump": {"hmac_key_file": defined.secret("key", "3f" * 32)}})
    name = defined.dump()["name"]
    rebuild(defined)
    done = defined.ok("--restore", "--json")
    assert done["dump"] == name and names(defined.server, defined.world.schema) == NAMES, done


def test_beside_the_world(defined, make_world):
    """--into creates code only with --with-code, and never replaces an existing object."""
    other = make_world("empty", on=defined.server)
    done = defined.ok("--restore", "--into", other.schema, "--json")
    assert names(defined.server, other.schema) == set() and len(done["definitions"]["left_out"]) == 6, done
    assert "--with-code" in done["warning"], done
    third = make_world("empty", on=defined.server)
    third.sql("CREATE FUNCTION answer() RETURNS INT DETERMINISTIC RETURN 1")
    dry = ("--restore", "--into", third.schema, "--with-code", "--dry-run")
    would = set(defined.ok(*dry, "--json")["definitions"]["would_make"])
    assert len(would) == 5 and {w.split()[1] for w in would} == NAMES - {"answer"}, would
    assert names(defined.server, third.schema) == {"answer"}
    shown = defined.run(*dry)
    assert shown.rc == DONE and "would make: " in shown.out and "event tick" in shown.out, shown
    done = defined.ok("--restore", "--into", third.schema, "--with-code", "--json")
    assert names(defined.server, third.schema) == NAMES and done["definitions"]["made"] == 5, done
    assert third.value("SELECT answer()") == 1
    assert f"EVENT `{third.schema}`.`tick` ENABLE;" in done["definitions"]["enable"], done


@pytest.mark.parametrize("whose", ["ours", "mysqldump"])
def test_a_file_by_its_path(defined, make_world, whose):
    """Code of a file that is given by its path is listed only, unless --with-code is given."""
    path = os.path.join(defined.base, "copy.sql")
    if whose == "ours":
        path += ".gz"
        shutil.copy(os.path.join(defined.dumps_dir, defined.newest()["name"] + ".sql.gz"), path)
    else:
        mysqldump(defined.server, defined.world.schema, path, "--routines", "--triggers", "--events")
    other = make_world("empty", on=defined.server)
    done = defined.ok("--restore=" + path, "--into", other.schema, "--json")
    assert names(defined.server, other.schema) == set(), done
    assert {w.split()[1] for w in done["definitions"]["left_out"]} == NAMES, done
    again = make_world("empty", on=defined.server)
    dry = defined.ok("--restore=" + path, "--into", again.schema, "--with-code", "--dry-run", "--json")
    assert {w.split()[1] for w in dry["definitions"]["would_make"]} == NAMES, dry
    assert names(defined.server, again.schema) == set()
    done = defined.ok("--restore=" + path, "--into", again.schema, "--with-code", "--json")
    assert names(defined.server, again.schema) == NAMES and done["definitions"]["made"] == 6, done
    assert again.sql("SELECT id, nick FROM a_rich ORDER BY 1") == defined.world.sql("SELECT id, nick FROM a_rich ORDER BY 1")
    assert done["definitions"]["events_disabled"] == ["tick"], done
    again.sql("INSERT INTO mark VALUES (9, 1)")
    assert again.value("SELECT v FROM mark WHERE id=9") == 7


def test_where_the_option_makes_no_sense(keeper):
    for action in ("--dump", "--drill", "--verify", "--list", "--check"):
        done = keeper.run(action, "--with-code")
        assert done.rc == USAGE and "--with-code does not go with " + action in done.err, done
    keeper.dump()
    keeper.ok("--restore", "--force", "--with-code")


def definers(world):
    return dict(world.sql(
        "SELECT routine_name, definer FROM information_schema.routines WHERE routine_schema=DATABASE() UNION ALL "
        "SELECT trigger_name, definer FROM information_schema.triggers WHERE trigger_schema=DATABASE() UNION ALL "
        "SELECT event_name, definer FROM information_schema.events WHERE event_schema=DATABASE() UNION ALL "
        "SELECT table_name, definer FROM information_schema.views WHERE table_schema=DATABASE()"))


@pytest.mark.parametrize("key", [False, True])
def test_definers(keeper, key):
    """The game's account remains the definer. root remains one only from a signed dump, and a missing account never does: our
    account becomes the definer, and the result says so."""
    if key:
        keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", "3f" * 32)}})
    keeper.server.account("game", [keeper.world.schema], "SELECT, UPDATE, EXECUTE, TRIGGER, EVENT", server_rights=None)
    keeper.world.sql(
        "CREATE DEFINER=game@localhost FUNCTION by_game() RETURNS INT DETERMINISTIC RETURN 1",
        "CREATE DEFINER=root@localhost TRIGGER by_root BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=7",
        "CREATE DEFINER=root@localhost EVENT e_root ON SCHEDULE EVERY 1 YEAR DO SET @a=1",
        "CREATE DEFINER=nobody@nowhere VIEW by_nobody AS SELECT 1 AS a",
        "CREATE DEFINER=root@localhost PROCEDURE p_root() SQL SECURITY INVOKER SELECT 1")
    keeper.dump()
    rebuild(keeper)
    keeper.server.grant("game@localhost", keeper.world.schema, "SELECT, UPDATE, EXECUTE, TRIGGER, EVENT")
    done = keeper.ok("--restore", "--json")
    root = "root@localhost" if key else "keeper@localhost"
    assert definers(keeper.world) == {"by_game": "game@localhost", "by_root": root, "e_root": root, "p_root": root,
                                      "by_nobody": "keeper@localhost"}, done
    changed = set(done["definitions"]["own_definer"])
    others = set() if key else {"trigger by_root (root@localhost)", "event e_root (root@localhost)",
                                "procedure p_root (root@localhost)"}
    assert changed == {"view by_nobody (nobody@nowhere)"} | others, done
    assert "own account as definer" in done["warning"], done
    assert keeper.world.value("SELECT security_type FROM information_schema.routines WHERE routine_name='p_root' AND "
                              "routine_schema=DATABASE()") == "INVOKER"


@pytest.mark.only("mariadb", why="names of accounts of more than 32 characters, without what MySQL asks of a definer")
@pytest.mark.parametrize("mode", ["NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"])
def test_a_definer_is_no_sql(keeper, mode):
    """A definition is created under its own sql_mode, in which a backslash may not escape. The query for its definer's privileges
    runs under ours, so that a definer's name is not run as SQL."""
    keeper.server.sql("SET GLOBAL sql_mode=''")
    keeper.world.sql(
        "CREATE TABLE called (a int) ENGINE=InnoDB",
        f"CREATE {MINE}FUNCTION call_me() RETURNS INT DETERMINISTIC BEGIN INSERT INTO {keeper.world.schema}.called "
        "VALUES (1); RETURN 1; END",
        f"SET sql_mode='{mode}'",
        f"CREATE DEFINER=`|{keeper.world.schema}.call_me()#`@localhost PROCEDURE later() SELECT 1",
        f"CREATE DEFINER=`it's \\`@localhost PROCEDURE quoted() SELECT 1")
    keeper.dump()
    rebuild(keeper)
    keeper.world.sql("CREATE TABLE called (a int) ENGINE=InnoDB")
    done = keeper.ok("--restore", "--with-code", "--json")
    assert definers(keeper.world)["later"] == "keeper@localhost", done
    assert definers(keeper.world)["quoted"] == "keeper@localhost", done
    assert keeper.world.value("SELECT COUNT(*) FROM called") == 0


def test_definers_that_rule_the_server(keeper):
    """Without a signature, an account with administrative privileges does not remain a definer, whether it has them by the schema
    mysql or by a role."""
    server, schema = keeper.server, keeper.world.schema
    rulers = ["all_schemas", "all_accounts", "some_accounts", "one_column", "by_role"]
    server.sql(f"CREATE DATABASE {OTHER}", "CREATE ROLE ruling", "GRANT ALL ON *.* TO ruling")
    for name in ["of_two"] + rulers:
        server.account(name, [schema], "SELECT, EXECUTE", server_rights=None)
        keeper.world.sql(f"CREATE DEFINER={name}@localhost PROCEDURE p_{name}() SELECT 1")
    server.sql(f"GRANT ALL ON {OTHER}.* TO of_two@localhost", "GRANT ALL ON `%`.* TO all_schemas@localhost",
               "GRANT ALL ON mysql.* TO all_accounts@localhost", "GRANT INSERT ON mysql.db TO some_accounts@localhost",
               "GRANT UPDATE (user) ON mysql.db TO one_column@localhost", "GRANT ruling TO by_role@localhost")
    keeper.dump()
    rebuild(keeper)
    for name in ["of_two"] + rulers:
        server.grant(f"{name}@localhost", schema, "SELECT, EXECUTE")
    done = keeper.ok("--restore", "--json")
    assert definers(keeper.world) == {"p_of_two": "of_two@localhost"} | {f"p_{name}": "keeper@localhost" for name in rulers}
    assert len(done["definitions"]["own_definer"]) == len(rulers), done


def test_a_body_ends_no_definition(keeper):
    """A routine's body cannot end its definition and add statements to a dump, because the delimiter between definitions cannot
    be guessed."""
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", "3f" * 32)}})
    ends = ";; " + " ".join(f"$wk{n}$" for n in range(10000))
    keeper.world.sql(f"CREATE {MINE}PROCEDURE guessed() BEGIN /* {ends}\n"
                     "CREATE DEFINER=`root`@`localhost` PROCEDURE `planted`() SELECT 1\n$wk9999$\n */ END")
    keeper.dump()
    rebuild(keeper)
    done = keeper.ok("--restore", "--json")
    assert definers(keeper.world) == {"guessed": "keeper@localhost"}, done


def test_an_account_that_sees_no_others(defined):
    """If our account cannot read the server's accounts, a definer other than ours is replaced, because its privileges are
    unknown."""
    defined.world.sql("CREATE DEFINER=root@localhost PROCEDURE p() SELECT 1")
    defined.dump()
    defined.server.sql("REVOKE ALL, GRANT OPTION FROM keeper@localhost")
    rebuild(defined)
    more = ", CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EXECUTE, EVENT, DELETE"
    defined.server.grant("keeper@localhost", defined.world.schema, RIGHTS + more)
    done = defined.ok("--restore", "--json")
    assert definers(defined.world)["p"] == "keeper@localhost"
    assert done["definitions"]["own_definer"] == ["procedure p (root@localhost)"], done
    assert names(defined.server, defined.world.schema) == NAMES | {"p"}, done


@pytest.mark.parametrize("automatic", [False, True])
def test_none_is_used_where_the_tables_are_there(defined, automatic):
    """If the tables still exist, a restore runs none of the dump's definitions; the server's general log shows this."""
    server, log = defined.server, os.path.join(defined.base, "general.log")
    defined.dump()
    if automatic:
        defined.start()
    server.sql(f"SET GLOBAL log_output='TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log=ON")
    if automatic:
        generation = defined.status()["generation"]
        server.crash("--log-bin-trust-function-creators=ON", "--general-log=ON", "--log-output=TABLE")
        defined.wait(lambda: defined.status()["generation"] > generation, "the restore")
        defined.wait_state("UP")
    else:
        defined.ok("--restore", "--force")
    server.sql("SET GLOBAL general_log=OFF")
    said = [text.decode() if isinstance(text, bytes) else text for (text,) in server.sql(
        "SELECT argument FROM mysql.general_log WHERE command_type<>'Binlog Dump' AND user_host LIKE '%keeper%'")]
    assert any("RENAME TABLE" in text for text in said), said
    used = [text for text in said if re.match(r"(CREATE|DROP|ALTER)\b.*\b(VIEW|FUNCTION|PROCEDURE|EVENT|PACKAGE)\b", text)]
    assert not used, used
    # The server's own trigger is moved at the swap; its creation is tried first.
    moved = [text for text in said if re.match(r"CREATE\b.*TRIGGER", text) and "worldkeeper_tmp_trigger" not in text]
    assert len(moved) <= 1 and all("`watch`" in text for text in moved), moved
    assert not [text for text in said if re.match(r"CREATE TABLE `(player|fleet|chat|mark)`", text)]
    defined.world.assert_is(defined.before)


def test_a_refused_definition_ends_no_automatic_restore(keeper, world, server):
    """On a rebuilt server, a planted statement in the dump does not stop the automatic restore; the status names the
    statement."""
    forger = Forger(keeper)
    forger.definitions(b"DELIMITER ;;\nSET NAMES utf8mb4;;\n" + PLANTED["an account"].encode() +
                       b";;\nSET NAMES utf8mb4;;\nCREATE EVENT `tick` ON SCHEDULE EVERY 1 YEAR DO SET @a=1;;\nDELIMITER ;\n")
    keeper.start()
    keeper.stop()
    rebuild(keeper)
    server.crash()
    keeper.start()
    assert world.rows() > 0
    assert server.sql("SELECT COUNT(*) FROM mysql.user WHERE user='planted'") == ((0,),)
    restored = keeper.status()["last_restore"]
    assert restored["ok"] and "USER" in json.dumps(restored["definitions"]["failed"]), restored
    assert restored["definitions"]["events_disabled"] == ["tick"], restored


BASES = [  # (sql_mode, statement)
    ("", "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `n` AS select `t`.`a` AS `a` from `t`"),
    ("", "CREATE VIEW `n` (`x`,`y`) AS WITH c AS (SELECT 1 AS a) SELECT a, 'it''s \\' -- x' FROM c"),
    ("", "CREATE DEFINER=`root`@`localhost` FUNCTION `n`(a INT, b VARCHAR(20)) RETURNS int(11)\n    DETERMINISTIC\n"
         "    COMMENT 'c'\nRETURN 42+a"),
    ("", "CREATE DEFINER=`root`@`localhost` PROCEDURE `n`(IN a INT, OUT b INT)\n    READS SQL DATA\nBEGIN SELECT 1 INTO b; "
         "/* x */ SET @a='`'; END"),
    ("", "CREATE DEFINER=`root`@`localhost` TRIGGER `n` BEFORE INSERT ON `t` FOR EACH ROW SET NEW.a=1"),
    ("", "CREATE TRIGGER `n` AFTER UPDATE ON `t` FOR EACH ROW BEGIN SET @x='y'; END"),
    ("", "CREATE DEFINER=`root`@`localhost` EVENT `n` ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01 00:00:00' ON COMPLETION "
         "NOT PRESERVE ENABLE COMMENT 'c' DO DELETE FROM t"),
    ("", "CREATE EVENT `n` ON SCHEDULE AT '2037-01-01 00:00:00' DISABLE DO SET @a=1"),
    ("ANSI_QUOTES", 'CREATE DEFINER="root"@"localhost" PROCEDURE "n"(a INT)\nSELECT 1 AS "b", \'c\''),
    ("NO_BACKSLASH_ESCAPES", "CREATE PROCEDURE `n`()\nSELECT 'a\\', 1 AS `b`"),
] + ([("", "CREATE LIBRARY `n` LANGUAGE JAVASCRIPT AS $$ export function f() { return 'x' } $$")] if MYSQL else [
    ("ORACLE", 'CREATE DEFINER="root"@"localhost" PACKAGE "n" AS FUNCTION f RETURN INT; END'),
    ("ORACLE", 'CREATE FUNCTION "n" RETURN int AS BEGIN RETURN 1; END')])
JUNK = [b"/*!99999 ", b"/*!99999 x */", b"/*!50000 ", b"/*M!999999 ", b"/*M!100100 x */", b"*/", b"/**/", b"/*", b"-- \n", b"--\xa0",
        b"#\n", b"`", b"'", b'"', b"\\", b"\\'", b"``", b"\xa0", b"\x81", b"\x81`", b"\xbf'", b"\xbf\\'", b"\xe9", b"\x00", b"\x1a",
        b".`n`", b"`wk_other`.", b"wk_other.", b"(", b")", b",", b";", b"; DROP USER planted;", b" USER planted ", b" AS ",
        b" SONAME 'x.so' ", b" RETURNS STRING SONAME 'x.so'", b"$$", b" SQL SECURITY INVOKER ", b" DEFINER=`root`@`localhost` ",
        b" OR REPLACE ", b" IF NOT EXISTS ", b" TEMPORARY ", b" TABLE ", b" DATABASE ", b" FUNCTION ", b" VIEW ", b" EVENT ",
        b" DO ", b" INTO OUTFILE 'planted' ", b" SELECT ", b" GLOBAL ", b"@@", b"\n", b" ON ", b"=", b"x'41'", b"0x41", b"1e5"]
CLIENTS = ["utf8mb4", "utf8mb3", "latin1", "gbk", "sjis", "big5", "ascii", "cp1251", "binary", "swe7", "ucs2"]
MODES = ["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT,IGNORE_SPACE"]
TOKEN = re.compile(rb"\w+|\s+|.", re.S)


def mutated(rng):
    """Returns a case for code_make: the settings of a definition and the definition, usually mutated."""
    mode, sql = rng.choice(BASES)
    parts = TOKEN.findall(sql.encode())
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
        at = rng.randrange(len(parts))
        how = rng.random()
        if how < 0.6:
            parts.insert(at, rng.choice(JUNK))
        elif how < 0.75:
            del parts[at:at + rng.choice([1, 1, 2, 5])]
            parts = parts or [b" "]
        elif how < 0.9:
            parts[at:at] = rng.choice(parts), b" "
        else:
            parts[at] = rng.choice(TOKEN.findall(rng.choice(BASES)[1].encode()))
    if rng.random() < 0.3:
        mode = rng.choice(MODES)
    client = rng.choice(CLIENTS) if rng.random() < 0.5 else "utf8mb4"
    return [b"SET NAMES utf8mb4", f"SET character_set_client={client}, collation_connection=utf8mb4_general_ci".encode(),
            f"SET sql_mode='{mode}'".encode(), b"".join(parts)]


@pytest.mark.slow
def test_fuzz_of_definitions(server, make_world):
    """Each definition that is accepted creates one object of its kind and name in its schema, or nothing, and changes nothing
    elsewhere. WK_CASES=1000000 runs more cases."""
    rng = random.Random(int(os.environ.get("WK_SEED", time.time_ns())))
    seed, cases = rng.randrange(1 << 32), int(os.environ.get("WK_CASES", "600"))
    rng.seed(seed)
    world = make_world("empty", on=server)
    server.sql("CREATE DATABASE wk_other", "CREATE TABLE wk_other.t (a INT)", "CREATE TABLE wk_other.n (a INT)")
    world.sql("CREATE TABLE t (a INT) ENGINE=MEMORY")
    before = outside(server, world.schema)
    lines = [mutated(rng) for _ in range(cases)]
    done = subprocess.run([built("tools", "code_make"), server.socket, "root", world.schema], stdout=subprocess.PIPE,
                          input="".join(" ".join(s.hex() for s in line) + "\n" for line in lines).encode())
    said = done.stdout.decode("utf-8", "replace").splitlines()
    wrong = [(s, line) for s, line in zip(said, lines) if "WRONG" in s]
    assert done.returncode == 0 and len(said) == cases and not wrong, (seed, len(said), wrong[:3], lines[len(said) - 1:len(said) + 1])
    assert outside(server, world.schema) == before, seed
    assert server.sql("SHOW DATABASES LIKE 'planted'") == ()
    count = collections.Counter(said)
    print(seed, count)
    assert sum(n for s, n in count.items() if s.startswith("made")) > cases // 20, count
    assert count["refused"] > cases // 20, count


@pytest.mark.parametrize("body", ["SET @a=1 /* a\0b */", "SET @a='a\0b'", "SET @a='a\\\0b'"])
def test_a_byte_0_in_a_body(defined, body):
    """Servers accept a byte 0 in a routine, a trigger or an event. It stops neither a dump nor a restore. A definition whose text
    the server cuts at the byte is named as failed, the others are restored."""
    server, schema = defined.server, defined.world.schema
    zeros = {"zero", "zero_t", "zero_e"}
    defined.world.sql(f"CREATE {MINE}PROCEDURE zero() BEGIN {body}; END",
                      f"CREATE {MINE}TRIGGER zero_t AFTER INSERT ON mark FOR EACH ROW BEGIN {body}; END",
                      f"CREATE {MINE}EVENT zero_e ON SCHEDULE EVERY 1 YEAR DO BEGIN {body}; END",
                      "CREATE TABLE zero_m (a VARCHAR(9) DEFAULT 'a\\0b' COMMENT 'a\\0b', e ENUM('a\\0b')) ENGINE=MEMORY "
                      "COMMENT='a\\0b'")
    defined.dump()
    defined.ok("--restore", "--force", "--json")
    assert names(server, schema) == NAMES | zeros
    rebuild(defined)
    done = defined.ok("--restore", "--json")
    missing = zeros - (names(server, schema) - NAMES)
    assert names(server, schema) == NAMES | (zeros - missing), done
    assert {text.split(":")[0].split()[-1] for text in done["definitions"].get("failed", [])} == missing, done
    assert missing == ({"zero", "zero_e"} if MYSQL else {"zero_e"}), done
    if "'" in body and not MYSQL:
        assert defined.world.sql("CALL zero()", "SELECT HEX(@a)")[-1][0] == "610062"


def test_an_answer_that_no_packet_has_room_for(defined, http):
    """If an answer is too long, only the end of its longest text is truncated, and the log says so. The answer, the status and
    the alert still have the rest."""
    defined.world.sql(*(f"CREATE {MINE}EVENT e{n:03} ON SCHEDULE EVERY 1 YEAR DO SET @a=1" for n in range(60)))
    defined.configure(http.settings())
    dump = defined.dump()
    defined.start(fault="job.answer=4000")
    rebuild(defined)
    done = defined.ok("--restore", "--force", "--json")
    assert done["dump"] == dump["name"] and done["rows"] == dump["rows"], done
    made = done["definitions"]
    assert made["made"] > 60 and len(made["events_disabled"]) > 60 and made["enable"].endswith("..."), done
    defined.wait_log('the answer is too long: "enable" in it is truncated')
    assert "is omitted" not in defined.log()
    assert "events of the dump are disabled" in http.wait_event("restored")[0]["todo"]
    restored = defined.wait(lambda: defined.status()["last_restore"], "it in the status")
    assert restored["dump"] == dump["name"] and restored["rows"] == dump["rows"] and restored["ok"], restored
