"""What the server receives from a dump's text: definitions that are parsed into a structure and written again, and rows that
contain only literals."""
import itertools
import os

import pymysql
import pytest

from test_dump_content import OTHER, Forger, got, other, unharmed  # noqa: F401: other is a fixture
from wk.keeper import DONE
from wk.mutate import FOREIGN, cases
from wk.rewrite import Rewriter
from wk.snapshot import tables
from wk.util import ident

pytestmark = pytest.mark.third_on_mysql


@pytest.fixture
def rewrite(server):
    with Rewriter(server.mysql) as rewriter:
        yield rewriter


def definition(server, schema, name):
    return server.sql(f"SHOW CREATE TABLE {ident(schema)}.{ident(name)}")[0][1]


def names(server, schema):
    con = server.admin()
    try:
        with con.cursor() as cur:
            return tables(cur, schema)
    finally:
        con.close()


def test_every_definition_comes_back(server, make_world, rewrite):
    """Every definition of the sample worlds is identical after it was parsed, rewritten and created."""
    world = make_world("all")
    copy = world.schema + "_copy"
    server.sql(f"CREATE DATABASE {ident(copy)}")
    con = server.admin(copy, init_command="SET foreign_key_checks=0, sql_mode=''")
    all_names = names(server, world.schema)
    wrong = []
    with con.cursor() as cur:
        for name in all_names:
            was = definition(server, world.schema, name)
            text, refused = rewrite(was)
            try:
                cur.execute(text or "-- refused")
                again = definition(server, copy, name)
                if again != was:
                    wrong.append((was, text, again))
            except pymysql.err.Error as e:
                wrong.append((was, refused or text, e))
    con.close()
    server.sql(f"DROP DATABASE {ident(copy)}")
    assert not wrong, "\n".join(map(str, wrong))
    assert len(all_names) > 60


@pytest.mark.only("mariadb", why="options that MySQL has not")
@pytest.mark.parametrize("columns, engine", [
    ("a INT", "InnoDB PAGE_COMPRESSED=1 PAGE_COMPRESSION_LEVEL=5"), ("a INT", "InnoDB PAGE_COMPRESSED='OFF'"),
    ("a INT", "InnoDB ENCRYPTION_KEY_ID=1 ENCRYPTED=NO"), ("a INT NOT NULL", "CSV IETF_QUOTES=YES")])
def test_options_of_engines_come_back(server, rewrite, columns, engine):
    server.sql("CREATE DATABASE wk_options", f"CREATE TABLE wk_options.t ({columns}) ENGINE={engine}")
    try:
        was = definition(server, "wk_options", "t")
        text, refused = rewrite(was)
        assert text, refused
        server.sql("DROP TABLE wk_options.t", text.replace("`t`", "wk_options.t", 1))
        assert definition(server, "wk_options", "t") == was
    finally:
        server.sql("DROP DATABASE wk_options")


class Campaign:
    """Runs definitions that were tampered with. Each that the parser accepts creates one table of that name and with these
    columns in this schema and changes nothing else, or the server refuses it."""

    def __init__(self, server, schema, rewrite):
        self.server, self.schema, self.rewrite = server, schema, rewrite
        self.tried = self.taken = self.made = 0
        self.mode, self.seen = None, set()
        server.sql(f"CREATE DATABASE {ident(schema)}", f"DROP DATABASE IF EXISTS {FOREIGN}", f"CREATE DATABASE {FOREIGN}",
                   f"CREATE TABLE {FOREIGN}.t (a int) ENGINE=MyISAM", f"INSERT INTO {FOREIGN}.t VALUES (1)")
        self.con = server.admin(schema, init_command="SET foreign_key_checks=0", use_unicode=True)
        self.cur = self.con.cursor()
        self.around = self.surroundings()

    def surroundings(self):
        """Returns what is on the server besides the campaign's schema."""
        return {*self.server.sql("SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN "
                                 f"('{self.schema}', 'information_schema')"),
                *self.server.sql(f"SELECT * FROM {FOREIGN}.t"), *self.server.sql("SELECT user, host FROM mysql.user")}

    def ask(self, sql):
        self.cur.execute(sql)
        return self.cur.fetchall()

    def try_one(self, text, plain, mode):
        self.tried += 1
        statement, told = self.rewrite.named(text, plain)
        if statement is None:
            assert told
            return
        self.taken += 1
        if (hash(statement), mode) in self.seen:  # only the statement that is sent matters
            return
        self.seen.add((hash(statement), mode))
        if mode != self.mode:
            self.ask(f"SET sql_mode='{mode}'")
            self.mode = mode
        try:
            self.ask(statement)
        except pymysql.err.Error as e:
            assert e.args[0] not in (2006, 2013), statement
            assert self.ask("SHOW TABLES") == (), statement
            return
        self.made += 1
        name = told[0]
        assert self.ask("SHOW TABLES") == ((name,),), statement
        assert self.ask(f"SELECT COUNT(*) FROM {ident(name)}") == ((0,),), statement
        shown = self.ask(f"SHOW CREATE TABLE {ident(name)}")[0][1]
        again, now = self.rewrite.named(shown)
        assert again and now == told, (statement, shown, now)
        self.ask(f"DROP TABLE {ident(name)}")

    def close(self):
        assert self.surroundings() ^ self.around == set()
        self.con.close()
        self.server.sql(f"DROP DATABASE {ident(self.schema)}", f"DROP DATABASE {FOREIGN}")


def test_definitions_that_were_tampered_with(make_server, make_world, rewrite):
    """Runs a small share of the tampered definitions; make definitions runs more."""
    server = make_server("--innodb-flush-log-at-trx-commit=0")
    world = make_world("all", on=server)
    texts = [definition(server, world.schema, name).encode() for name in names(server, world.schema)]
    texts = [t for t in texts if len(t) < 3000]
    count, seed = int(os.environ.get("WK_DEFINITIONS", 3000)), int(os.environ.get("WK_DEFINITIONS_SEED", 1))
    modes = ["", "STRICT_TRANS_TABLES", "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"]
    campaign = Campaign(server, "wk_campaign", rewrite)
    for i, text in enumerate(itertools.islice(cases(seed, texts), count)):
        campaign.try_one(text, i % 7 == 0, modes[i * 3 // count])
        if i % 20000 == 0:
            assert campaign.surroundings() ^ campaign.around == set()
    campaign.close()
    print(f"{campaign.tried} definitions, {campaign.taken} taken, {campaign.made} tables made")
    assert campaign.made > min(count, 3000) // 20


# The text after CREATE TABLE `t` in a hostile dump, and what the error names.
DEFINITIONS = {
    "a query between comments": (
        f"/*!99999 ( x */ ENGINE=MEMORY AS SELECT a FROM {OTHER}.t /*!99999 ) */", "version comment"),
    "a query in parentheses": (f"( /*!99999 x */ SELECT a FROM {OTHER}.t)", "version comment"),
    "another table's form": (f"( /*M!999999 x */ LIKE {OTHER}.t)", "version comment"),
    "a far engine": (
        f"(`a` int /*!99999 ( */ ) ENGINE=FEDERATED CONNECTION='mysql://x@{OTHER}/a/b' /*!99999 ) */", "version comment"),
    "rows of others": (f"(`a` int) ENGINE=MRG_MyISAM UNION=({OTHER}.t)", "engine MRG_MyISAM"),
    "a union": (f"(`a` int) ENGINE=MEMORY UNION=({OTHER}.t)", "option UNION"),
    "a blank of latin1": (f"(`a` int)\xa0ENGINE=MEMORY COMMENT='{OTHER}'", "not UTF-8"),
    "a stored function": (f"(`a` int DEFAULT ({OTHER}.f())) ENGINE=MEMORY", "expression"),
    "a file": (f"(`a` text DEFAULT (load_file('/{OTHER}'))) ENGINE=MEMORY", "load_file"),
    "a sequence": (f"(`a` int DEFAULT (NEXT VALUE FOR {OTHER}.s)) ENGINE=MEMORY", "expression"),
    "another schema's sequence": (f"(`a` int DEFAULT nextval(`{OTHER}`.`s`)) ENGINE=MEMORY", "a sequence in schema"),
    "another schema's key": (
        f"(`a` int, FOREIGN KEY (`a`) REFERENCES {OTHER}.t (`a`)) ENGINE=InnoDB", "another schema"),
    "a directory": (f"(`a` int) ENGINE=MEMORY DATA DIRECTORY='/{OTHER}'", "option DATA"),
    "a partition elsewhere": (
        f"(`a` int) ENGINE=InnoDB PARTITION BY HASH (`a`) (PARTITION p DATA DIRECTORY='/{OTHER}')", "DATA"),
}


class Overheard:
    """Records the statements that the server received while it was active."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.server.sql("SET GLOBAL log_output='TABLE'", "SET GLOBAL general_log=1", "TRUNCATE mysql.general_log")
        return self

    def __exit__(self, *_):
        self.server.sql("SET GLOBAL general_log=0", "SET GLOBAL log_output='FILE'")

    def statements(self, *parts):
        return [str(row[0]) for part in parts for row in self.server.sql(
            "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type IN "
            f"('Query','Prepare','Execute') AND CONVERT(argument USING utf8mb4) LIKE '%{part}%' "
            "AND CONVERT(argument USING utf8mb4) NOT LIKE '%general_log%'")]


def forge(keeper, tail):
    """Returns a dump whose first table with rows has this text after its name."""
    forger = Forger(keeper)

    def change(part):
        head, mark, rest = part.partition(b"CREATE TABLE ")
        name = rest.split(b" (", 1)[0]
        return head + mark + name + b" " + tail + b";\nSET NAMES binary;\n" + rest.split(b";\nSET NAMES binary;\n", 1)[1]
    forger.table(change)
    return forger


@pytest.mark.parametrize("how", ["into", "drill", "rebuilt", "file"])
@pytest.mark.parametrize("what", DEFINITIONS)
def test_a_hostile_definition(keeper, other, tmp, how, what):
    """The server receives nothing of a hostile definition, whichever way the dump is read."""
    tail, named = DEFINITIONS[what]
    tail = tail.encode("latin1")
    server, schema = keeper.server, keeper.world.schema
    if how == "file":
        path = got(tmp, "")
        with open(path, "wb") as f:
            f.write(b"CREATE TABLE `t` " + tail + b";\nINSERT INTO `t` VALUES (1);\n-- Dump completed\n")
        args = ["--restore=" + path, "--into=wk_into"]
    else:
        forger = forge(keeper, tail)
        if how == "rebuilt":
            server.sql(f"DROP DATABASE `{schema}`", f"CREATE DATABASE `{schema}`")
        args = {"into": ["--restore=" + forger.name, "--into=wk_into"], "drill": ["--drill"],
                "rebuilt": ["--restore=" + forger.name, "--force"]}[how]
    with Overheard(server) as log:
        done = keeper.run(*args)
        heard = log.statements(OTHER)
    assert heard == []
    assert done.rc != DONE, done
    durable = "InnoDB" in DEFINITIONS[what][0] or "MRG" in DEFINITIONS[what][0]
    if how != "drill" and not (how == "file" and durable):  # a durable table of a file is skipped
        assert named in done.err, done
    unharmed(keeper, other)


# Column lists of INSERT with names that contain a NUL byte, which ends a C string, and names that the table lacks.
HEADS = [b"(`a\0`)", b"(`a`,`b\0`)", b"(`no such column`)", b"(`a`,`a`)", b"()"]


@pytest.mark.parametrize("engine", ["MEMORY", "InnoDB"])
@pytest.mark.parametrize("head", HEADS)
def test_columns_that_are_none(keeper, other, head, engine):
    """A column list may contain only names of the table's own columns and may not be empty."""
    server, schema = keeper.server, keeper.world.schema
    server.sql(f"CREATE TABLE `{schema}`.`aaa` (a varchar(99), b varchar(99)) ENGINE={engine}",
               f"INSERT INTO `{schema}`.`aaa` VALUES ('x','y')")
    keeper.configure({"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    forger = Forger(keeper)
    row = b"('x` ) SELECT LOAD_FILE(0x2f6574632f686f73746e616d65) -- ')"
    forger.table(lambda part: part.replace(b"(`a`,`b`) VALUES\n('x','y')", head + b" VALUES\n" + row))
    with Overheard(server) as log:
        done = keeper.run("--restore=" + forger.name, "--into=wk_into")
        heard = log.statements("aaa` (%LOAD!_FILE".replace("!_", "\\_"))
    assert [h for h in heard if "`a` VALUES" in h or "(`a VALUES" in h] == []
    assert done.rc not in (DONE, -8, -6, -11), done
    assert "columns" in done.err or "column" in done.err or "literals" in done.err or "INSERT" in done.err, done
    unharmed(keeper, other)


@pytest.mark.parametrize("head", HEADS[:2])
def test_columns_that_are_none_in_files_of_others(keeper, other, tmp, head):
    path = os.path.join(tmp, "got.sql")
    with open(path, "wb") as f:
        f.write(b"CREATE TABLE `t` (\n  `a` varchar(99), `b` int\n) ENGINE=MEMORY;\nINSERT INTO `t` " + head +
                b" VALUES ('` ) SELECT LOAD_FILE(0x2f6574632f686f73746e616d65) -- ');\n-- Dump completed\n")
    with Overheard(keeper.server) as log:
        done = keeper.run("--restore=" + path, "--into=wk_into")
        heard = log.statements("INSERT INTO")
    assert heard == []
    assert done.rc != DONE, done
    unharmed(keeper, other)
