"""Files in the dump directory are data: an attacker who can put files there, with matching manifests, cannot make the server run
a statement."""
import glob
import gzip
import hashlib
import json
import os

import pytest

from wk.keeper import DONE, FAILED, NOTHING, REFUSED, signed
from wk.relay import Relay

pytestmark = pytest.mark.third_on_mysql

OTHER = "wk_other_people"


class Forger:
    """Changes a dump so that size, hash and all sums of its manifest match again."""

    def __init__(self, keeper):
        self.keeper = keeper
        self.name = keeper.dump()["name"]
        self.path = os.path.join(keeper.dumps_dir, self.name)
        with open(self.path + ".json") as f:
            self.manifest = json.load(f)
        with open(self.path + ".sql.gz", "rb") as f:
            data = f.read()
        at, self.parts = 0, []  # (table or None, text)
        for table in self.manifest["tables"]:
            self.parts.append((None, data[at:table["offset"]]))
            at = table["offset"] + table["length"]
            self.parts.append((table, data[table["offset"]:at]))
        self.parts.append((None, data[at:]))
        self.parts = [(t, gzip.decompress(d) if d else b"") for t, d in self.parts]

    def table(self, change):
        """Changes the text of the first table that has rows; returns its name."""
        for i, (table, text) in enumerate(self.parts):
            if table and table["rows"]:
                self.parts[i] = (table, change(text))
                assert self.parts[i][1] != text
                return self.write(table["name"])
        raise AssertionError("no rows")

    def definitions(self, text):
        """Adds text before the last table, where definitions are stored."""
        for i in range(len(self.parts) - 1, -1, -1):
            if self.parts[i][0]:
                self.parts[i - 1] = (None, self.parts[i - 1][1] + text)
                break
        return self.write(self.name)

    def write(self, result):
        out = b""
        for table, text in self.parts:
            packed = gzip.compress(text, 1) if text else b""
            if table:
                table.update(offset=len(out), length=len(packed), bytes=len(text))
            out += packed
        self.manifest.update(file_size=len(out), sha256=hashlib.sha256(out).hexdigest(),
                             bytes=sum(len(t) for _, t in self.parts))
        with open(self.path + ".sql.gz", "wb") as f:
            f.write(out)
        with open(self.path + ".json", "w") as f:
            json.dump(signed(self.manifest), f)
        return result


@pytest.fixture
def other(keeper):
    """Creates a schema of another owner, on which the account has all privileges; yields a path where no file may appear."""
    server = keeper.server
    server.sql(f"CREATE DATABASE {OTHER}", f"CREATE TABLE {OTHER}.t (a int)",
               f"INSERT INTO {OTHER}.t VALUES (1)", "GRANT ALL ON *.* TO keeper@localhost")
    yield os.path.join(keeper.base, "made-by-a-dump")
    server.sql(f"DROP DATABASE IF EXISTS {OTHER}", "DROP DATABASE IF EXISTS wk_into")


def unharmed(keeper, path):
    assert keeper.server.sql(f"SELECT * FROM {OTHER}.t") == ((1,),)
    assert not os.path.exists(path) and not glob.glob(keeper.base + "/made*")


def behind_create(text):
    return lambda part: part.replace(b";\nSET NAMES binary;\n", b";\nSET NAMES binary;\n" + text, 1)


# Statements that are inserted where our dumps have rows or the definition of a table.
STATEMENTS = {
    "another statement": f"DROP DATABASE {OTHER};\n",
    "one for some servers": f"/*!40000 DROP DATABASE {OTHER} */;\n",
    "one for MariaDB": f"/*M!100100 DROP DATABASE {OTHER} */;\n",
    "one as a setting": f"/*M!100201 SET @a=1 */; DROP DATABASE {OTHER};\n",
    "a client's command": "\\! touch made-by-a-dump\n",
    "another delimiter": f"DELIMITER //\nDROP DATABASE {OTHER}//\nDELIMITER ;\n",
    "a file of the client's": f"LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE {OTHER}.t;\n",
    "a file of the server's": "SELECT 1 INTO OUTFILE 'made-by-a-dump';\n",
    "rows of others": f"INSERT INTO `{OTHER}`.`t` (`a`) VALUES\n(2);\n",
    "a query as rows": f"INSERT INTO `t` (`a`) VALUES\n((SELECT a FROM {OTHER}.t));\n",
    "a call": f"CALL {OTHER}.p();\n",
    "a grant": "GRANT ALL ON *.* TO nobody@nowhere;\n",
}


def got(tmp, text):
    """Writes a mysqldump file of unknown origin and returns its path."""
    path = os.path.join(tmp, "got.sql")
    with open(path, "w") as f:
        f.write(text)
    return path


@pytest.mark.parametrize("how", STATEMENTS)
def test_statements_among_rows(keeper, other, how):
    forger = Forger(keeper)
    forger.table(behind_create(STATEMENTS[how].encode()))
    done = keeper.run("--restore=" + forger.name, "--into=wk_into")
    assert done.rc == NOTHING, done
    done = keeper.run("--restore=" + forger.name, "--force")
    assert done.rc == NOTHING, done
    if "setting" not in how:
        done = keeper.run("--verify=" + forger.name)
        assert done.rc != DONE, done
    unharmed(keeper, other)


@pytest.mark.parametrize("tail", [
    f"/*!50000 SELECT * FROM {OTHER}.t */", f"AS SELECT * FROM {OTHER}.t", f"SELECT * FROM {OTHER}.t",
    "DATA DIRECTORY='/tmp'", "ENGINE=FEDERATED CONNECTION='mysql://elsewhere/x/y'", f"TABLE {OTHER}.t"])
def test_more_than_a_definition(keeper, other, tail):
    """A table definition with more than columns and options is refused."""
    forger = Forger(keeper)
    forger.table(lambda part: part.replace(b";\nSET NAMES binary;\n",
                                           b"\n" + tail.encode() + b";\nSET NAMES binary;\n", 1))
    done = keeper.run("--restore=" + forger.name, "--into=wk_into")
    assert done.rc == REFUSED and "is not accepted from a dump" in done.err, done
    unharmed(keeper, other)


@pytest.mark.parametrize("tail", [f"AS SELECT * FROM {OTHER}.t", "COLLATE=utf8mb4_nothing_ci"])
@pytest.mark.parametrize("older", [True, False])
def test_by_itself_an_older_one_is_taken(make_world, make_keeper, victim, tail, older):
    """If a definition is refused, by us or by the server, an automatic restore uses the next older dump and logs the reason. A
    manual restore is refused, because an operator can decide."""
    keeper = make_keeper(make_world("small", victim), {"restore": {"auto": "yes"}}).init()
    if older:
        keeper.dump()
    before = keeper.world.snapshot()
    keeper.world.sql("UPDATE player SET points = points + 1")
    forger = Forger(keeper)
    table = forger.table(lambda part: part.replace(b";\nSET NAMES binary;\n",
                                                   b"\n" + tail.encode() + b";\nSET NAMES binary;\n", 1))
    victim.crash()
    keeper.world.sql(f"DROP TABLE {table}")
    done = keeper.run("--restore")
    assert done.rc in (REFUSED, FAILED) and keeper.world.rows() == 0, done
    keeper.start(state=None)
    if older:
        keeper.wait_state("UP")
        keeper.world.assert_is(before)
        assert f"dump {forger.name} skipped: " in keeper.log()
        assert forger.name in keeper.status()["last_restore"]["passed_over"]
    else:
        keeper.wait_log(f"dump {forger.name} skipped: ")
        keeper.wait_state("WAITING")
    keeper.stop()


def test_a_durable_table_that_holds_more(keeper, other, tmp):
    """A durable table with such a definition is skipped by name; the other tables are restored."""
    path = got(tmp, "CREATE TABLE `d` (\n  `a` int\n) ENGINE=InnoDB DATA DIRECTORY='/tmp/made-by-a-dump';\n"
               "INSERT INTO `d` VALUES (1);\nCREATE TABLE `t` (\n  `a` int\n) ENGINE=MEMORY;\n"
               "INSERT INTO `t` VALUES (7);\n-- Dump completed\n")
    done = keeper.ok("--restore=" + path, "--into=wk_into", "--json")
    assert [(t["table"], t["restored"]) for t in done["plan"]] == [("d", False), ("t", True)], done
    assert "more than columns and options" in done["plan"][0]["why"]
    assert keeper.server.sql("SELECT * FROM wk_into.t") == ((7,),)
    unharmed(keeper, other)


def test_a_durable_table_of_a_dump_that_holds_more(keeper, other):
    keeper.server.sql(f"CREATE TABLE `{keeper.world.schema}`.`durable` (a int) ENGINE=InnoDB",
                      f"INSERT INTO `{keeper.world.schema}`.`durable` VALUES (1)")
    keeper.configure({"dump": {"engines": "all"}})
    forger = Forger(keeper)
    for i, (table, text) in enumerate(forger.parts):
        if table and table["name"] == "durable":
            forger.parts[i] = (table, text.replace(b";\nSET NAMES binary;\n",
                                                   b" DATA DIRECTORY='/tmp';\nSET NAMES binary;\n", 1))
            assert forger.parts[i][1] != text
    forger.write(forger.name)
    done = keeper.ok("--restore=" + forger.name, "--into=wk_into", "--json")
    told = {t["table"]: t for t in done["plan"]}
    assert not told["durable"]["restored"] and "more than columns" in told["durable"]["why"], done
    assert any(t["restored"] for t in done["plan"])
    unharmed(keeper, other)


def test_a_definition_that_is_another_table(keeper, other):
    forger = Forger(keeper)

    def like(part):
        head, _, rest = part.partition(b"CREATE TABLE ")
        name = rest.split(b" (", 1)[0]
        tail = rest.split(b";\nSET NAMES binary;\n", 1)[1]
        return head + b"CREATE TABLE " + name + f" LIKE `{OTHER}`.`t`".encode() + b";\nSET NAMES binary;\n" + tail
    forger.table(like)
    done = keeper.run("--restore=" + forger.name, "--into=wk_into")
    assert done.rc == REFUSED and "is not accepted from a dump" in done.err, done
    unharmed(keeper, other)


@pytest.mark.parametrize("sql", [
    f"DROP DATABASE {OTHER}", f"DELETE FROM {OTHER}.t", f"INSERT INTO {OTHER}.t VALUES (2)",
    "SELECT 1 INTO OUTFILE 'made-by-a-dump'", f"CREATE VIEW `{OTHER}`.`v` AS SELECT 1",
    "CREATE FUNCTION `evil` RETURNS STRING SONAME 'evil.so'", "SET GLOBAL max_connections=1"])
def test_definitions_are_definitions(keeper, other, sql):
    """A rebuilt server gets the views and routines of a dump; any other statement among them is not run."""
    forger = Forger(keeper)
    forger.definitions(f"DELIMITER ;;\nSET NAMES utf8mb4;;\n{sql};;\nSET NAMES utf8mb4;;\n"
                       "DROP VIEW IF EXISTS `wk_good`;;\nCREATE VIEW `wk_good` AS SELECT 1 AS `a`;;\n"
                       "DELIMITER ;\n".encode())
    keeper.server.sql(f"DROP DATABASE `{keeper.world.schema}`", f"CREATE DATABASE `{keeper.world.schema}`")
    done = keeper.ok("--restore=" + forger.name, "--force", "--json")
    assert "not restored" in done["warning"] or sql.startswith("SET"), done
    assert keeper.server.sql(f"SELECT a FROM `{keeper.world.schema}`.wk_good") == ((1,),)
    assert keeper.server.sql("SELECT @@GLOBAL.max_connections")[0][0] > 1
    unharmed(keeper, other)


@pytest.mark.parametrize("sql", [
    "INSERT INTO `t` VALUES ((SELECT a FROM wk_other_people.t LIMIT 1))",
    "INSERT INTO `t` SELECT * FROM wk_other_people.t",
    "INSERT INTO `t` VALUES (1) ON DUPLICATE KEY UPDATE a=(SELECT 1)",
    "INSERT INTO `t` VALUES (load_file('/etc/hostname'))",
    "INSERT INTO `wk_other_people`.`t` VALUES (2)",
    "REPLACE INTO `wk_other_people`.`t` VALUES (2)",
    "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE `t`",
    "SELECT 1 INTO OUTFILE 'made-by-a-dump'",
    "DELETE FROM wk_other_people.t",
    "CALL wk_other_people.p()",
    "\\! touch made-by-a-dump\n"])
def test_files_of_others(keeper, other, tmp, sql):
    """A mysqldump file of unknown origin may contain only tables and rows of literals; anything else is refused."""
    path = got(tmp, f"CREATE TABLE `t` (\n  `a` int\n) ENGINE=MEMORY;\nINSERT INTO `t` VALUES (1);\n{sql};\n"
               f"DROP DATABASE {OTHER};\n-- Dump completed\n")
    done = keeper.run("--restore=" + path, "--into=wk_into")
    assert done.rc == REFUSED and "line 5: --restore does not accept this statement" in done.err, done
    unharmed(keeper, other)


def test_character_sets_that_hide_quotes(keeper, other, tmp):
    path = got(tmp, "/*!40101 SET NAMES gbk */;\nCREATE TABLE `t` (\n  `a` int\n) ENGINE=MEMORY;\n"
               "INSERT INTO `t` VALUES (1);\n-- Dump completed\n")
    done = keeper.run("--restore=" + path, "--into=wk_into")
    assert done.rc == REFUSED and "its character set gbk cannot be read safely" in done.err, done
    assert "--default-character-set=utf8mb4" in done.err, done
    unharmed(keeper, other)


@pytest.mark.only("mariadb", why="the statement between the two readings")
def test_a_character_set_that_comes_later(keeper, other, tmp):
    """The owner of a file can rewrite it after the restore has checked it and before it is loaded. A character set that
    is set only then is refused as well: under it, the server would execute text that the check took for part of a
    string."""
    with_set = (b"/*!40101 SET NAMES %s */;\nCREATE TABLE `t` (\n  `a` varchar(99)\n) ENGINE=MEMORY DEFAULT CHARSET=utf8mb4;\n"
                b"INSERT INTO `t` VALUES (%s);\n-- Dump completed\n")
    path = got(tmp, "")

    def write(*values):
        with open(path, "r+b") as f:
            f.truncate()
            f.write(with_set % values)

    def say(sql):
        if "max_error_count=65535" in sql:
            write(b"gbk", b"'\xbf\\'),(CONCAT(0x61,CURRENT_USER())) -- '")
    write(b"utf8mb4", b"'x'")
    with Relay(keeper.server, say=say, path=os.path.join(tmp, "relay")) as relay:
        keeper.configure({"mysql": {"socket": relay.path}})
        done = keeper.run("--restore=" + path, "--into=wk_into")
    assert done.rc == REFUSED and "its character set gbk cannot be read safely" in done.err, done
    assert not keeper.server.sql("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA='wk_into' AND TABLE_NAME='t'")
    unharmed(keeper, other)


def test_worlds_that_look_odd(keeper, other):
    """Unusual but valid table comments, options and names are restored."""
    schema = keeper.world.schema
    keeper.configure({"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    keeper.server.sql(
        f"CREATE TABLE `{schema}`.`linked` (a int) ENGINE=MEMORY CONNECTION='x'",
        f"CREATE TABLE `{schema}`.`parts` (a varchar(9)) ENGINE=InnoDB PARTITION BY LIST COLUMNS (a) "
        "(PARTITION p VALUES IN ('*/', '/*') COMMENT='nightly */5 * * * *', PARTITION q VALUES IN ('b'))",
        f"INSERT INTO `{schema}`.`linked` VALUES (3)", f"INSERT INTO `{schema}`.`parts` VALUES ('*/'), ('b')",
        "SET @was=@@sql_mode", "SET sql_mode='ANSI_QUOTES'",
        f'CREATE PROCEDURE "{schema}"."wk_ansi"() SELECT 1 AS "a"', "SET sql_mode=@was")
    keeper.dump()
    keeper.server.sql(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}`")
    done = keeper.ok("--restore", "--force", "--json")
    assert done["definitions"] == {"made": 1, "own_definer": ["procedure wk_ansi (root@localhost)"]}, done
    assert keeper.server.sql(f"SELECT a FROM `{schema}`.linked") == ((3,),)
    assert keeper.server.sql(f"SELECT a FROM `{schema}`.parts ORDER BY a") == (("*/",), ("b",))
    assert keeper.server.sql("SELECT COUNT(*) FROM information_schema.routines WHERE routine_name='wk_ansi' "
                             f"AND routine_schema='{schema}'") == ((1,),)


def test_what_is_passed_over_in_files_of_others(keeper, other, tmp):
    """DROP DATABASE before its CREATE, USE, LOCK and similar statements are skipped, not run."""
    path = got(tmp, f"DROP DATABASE {OTHER};\nCREATE DATABASE {OTHER};\nUSE {OTHER};\n"
               f"/*!40000 DROP TABLE {OTHER}.t */;\nSTOP ALL SLAVES;\nCREATE TABLE `t` (\n  `a` int\n) ENGINE=MEMORY;\nLOCK TABLES `t` WRITE;\n"
               f"INSERT INTO `t` VALUES (7);\nUNLOCK TABLES;\n"
               "CHANGE MASTER TO MASTER_LOG_FILE='no.000001', MASTER_LOG_POS=4;\n"
               "CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='no.000001', SOURCE_LOG_POS=4;\n"
               "DO SETVAL(`s`, 1, 0);\nINSERT INTO `t` () VALUES ();\nINSERT INTO `t` VALUES ();\n"
               "-- Dump completed\n")
    keeper.ok("--restore=" + path, "--into=wk_into")
    assert keeper.server.sql("SELECT * FROM wk_into.t") == ((7,), (None,), (None,))
    unharmed(keeper, other)


@pytest.mark.parametrize("sql", [f"DROP DATABASE {OTHER}", "CREATE USER nobody@nowhere", "SET GLOBAL max_connections=9",
                                 f"ALTER TABLE {OTHER}.t ADD KEY (a)", f"DROP TABLE {OTHER}.t"])
def test_what_the_stock_client_would_do_elsewhere(keeper, other, tmp, sql):
    path = got(tmp, f"CREATE TABLE `t` (\n  `a` int\n) ENGINE=MEMORY;\nINSERT INTO `t` VALUES (7);\n{sql};\n"
               "-- Dump completed\n")
    done = keeper.run("--restore=" + path, "--into=wk_into")
    assert done.rc == REFUSED and "line 5: " in done.err and "wk_into < " in done.err, done
    assert keeper.server.sql("SELECT COUNT(*) FROM mysql.user WHERE user='nobody'") == ((0,),)
    assert keeper.server.sql("SHOW DATABASES LIKE 'wk_into'") in ((), (("wk_into",),))
    unharmed(keeper, other)
