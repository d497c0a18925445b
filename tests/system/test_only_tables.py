"""Tests of views that the game's account puts in the place of tables: functions that they call must never run with our
privileges."""
import contextlib
import gzip
import os
import re
import threading
import uuid

import pymysql
import pytest

from wk.keeper import DONE, NOT_WELL, USER
from wk.progress import Central, made
from wk.relay import Relay
from wk.server import MYSQL, repeating
from wk.util import CANARY, share

TRAP, SAVED = "trap", "zz_saved"
REPLACED = "conflict-000001-20260101T000000Z.sql.gz"
GAINS = ("CREATE TABLE gains (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, hero INT NOT NULL, xp INT NOT NULL, "
         "at DATETIME NOT NULL, token CHAR(36) NULL UNIQUE, KEY k USING BTREE (hero,id)) ENGINE={engine}")
# Statements that read or write rows. Any other statement that names a table fails on a view, or evaluates nothing of it.
ROWS = re.compile(r"\s*(?:SELECT|INSERT|REPLACE|UPDATE|DELETE|LOAD|CREATE TEMPORARY TABLE .*SELECT)\b", re.S)
HINT = "USE INDEX FOR GROUP BY ()"


class Hostile:
    """A world with every object that worldkeeper makes, and a game whose account replaces a table by a view just before one of
    our statements is executed."""

    def __init__(self, server, make_world, make_keeper, base, engine):
        self.server, self.world, self.tmp = server, make_world("empty", server), base
        self.schema, self.engine = self.world.schema, engine
        # A socket, because MySQL's logins need a secure connection.
        self.relay = Relay(server, say=self.before, executes=self.before, path=os.path.join(base, f"relay-{self.schema}"))
        self.seen, self.aim, self.lock, self.con = [], None, threading.Lock(), server.admin()
        self.keeper = make_keeper(self.world, {"mysql": {"socket": self.relay.path}, "dump": {"shrink_limit": "100%"}})
        self.central = Central(server)
        self.world.sql(GAINS.format(engine=engine), "CREATE TABLE chat (who INT, what VARCHAR(80)) ENGINE=MEMORY",
                       "INSERT INTO chat VALUES (1,'a'),(2,'b')")
        self.keeper.configure({"ledger xp": {"table": "gains", "key": "hero", "value": "xp", "time": "at", "keep": "1d",
                                             "rollup_after": "0", "request": "token"}})
        server.sql(f"DROP DATABASE IF EXISTS {TRAP}", f"CREATE DATABASE {TRAP}",
                   f"CREATE TABLE {TRAP}.ran (who VARCHAR(99)) ENGINE=MEMORY", "SET GLOBAL log_bin_trust_function_creators=1")
        server.account("game", [self.schema], "ALL", server_rights=None)
        server.grant(f"{USER}@localhost", self.schema, "CREATE VIEW, DELETE, TRIGGER")
        server.grant(f"{USER}@localhost", "worldkeeper_drill_w1", "SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER")
        self.store = made(self.keeper, self.central)
        self.as_game("CREATE FUNCTION evil() RETURNS INT MODIFIES SQL DATA SQL SECURITY INVOKER BEGIN "
                     f"INSERT INTO {TRAP}.ran VALUES (CURRENT_USER()); RETURN 1; END")
        server.grant(f"{USER}@localhost", self.schema, "EXECUTE")
        server.grant(f"{USER}@localhost", TRAP, "INSERT, SELECT")
        self.keeper.ok("--rollup")
        self.keeper.dump()

    def as_game(self, *statements):
        con = pymysql.connect(unix_socket=self.server.socket, user="game", password=CANARY, database=self.schema, autocommit=True)
        with con.cursor() as cur:
            cur.execute("SET SESSION lock_wait_timeout=1")
            for statement in statements:
                cur.execute(statement)
        con.close()

    def tables(self):
        """Returns the names of the world's tables. It uses one connection, because it is called for each statement."""
        with self.lock, self.con.cursor() as cur:
            cur.execute("SELECT TABLE_NAME FROM information_schema.TABLES WHERE "
                        f"TABLE_SCHEMA='{self.schema}' AND TABLE_TYPE='BASE TABLE'")
            return {name for (name,) in cur.fetchall()}

    def before(self, sql):
        """Called by the relay with each statement before the server gets it."""
        if not ROWS.match(sql):
            return
        words = set(re.findall(r"\w+", sql[:4000]))
        for table in sorted((words & self.tables()) - {SAVED}):
            self.seen.append((shape(sql), table))
            with self.lock:
                mine = self.aim == (shape(sql), table)
                self.aim = None if mine else self.aim
            if mine:
                self.replace(table)

    def replace(self, table):
        """Replaces the table by a view that calls a function. It gives up if the table is locked."""
        try:
            self.as_game(f"RENAME TABLE `{table}` TO {SAVED}")
            self.as_game(f"CREATE SQL SECURITY INVOKER VIEW `{table}` AS SELECT * FROM {SAVED} WHERE evil()=1 WITH CHECK OPTION")
        except pymysql.err.MySQLError as e:
            assert e.args[0] == 1205, e

    def put_back(self):
        for view, in self.server.sql("SELECT TABLE_NAME FROM information_schema.VIEWS WHERE "
                                     f"TABLE_SCHEMA='{self.schema}' AND VIEW_DEFINITION LIKE '%evil%'"):
            self.world.sql(f"DROP VIEW `{view}`", f"RENAME TABLE {SAVED} TO `{view}`")

    def ran(self):
        found = [who for (who,) in self.server.sql(f"SELECT DISTINCT who FROM {TRAP}.ran") if who.startswith(USER)]
        self.server.sql(f"DELETE FROM {TRAP}.ran")
        return found

    def work(self):
        """Gives each action something to do. No table is empty, because a view is not evaluated without rows."""
        self.server.sql(f"DELETE FROM {self.central.schema}.wk_blob", f"DELETE FROM {self.central.schema}.wk_lock")
        self.world.sql("DELETE FROM wk_progress", "DELETE FROM wk_session", "REPLACE INTO xp_request VALUES ('old',1)",
                       "REPLACE INTO wk_stolen VALUES ('old','x',1,1,'2026-01-05','stolen',1,'2026-01-05','x')")
        for n, key in enumerate(("anna", "bela")):
            self.store.open(key)
            self.store.put(f"blob {n}", key, b"x")
        self.store.close("anna")
        self.world.sql(*["INSERT INTO gains (hero,xp,at,token) VALUES (1,4,'2026-01-05 10:00:00',UUID())"] * 3)


def shape(sql):
    """Returns the statement with its values replaced, which is the same for statements of one kind."""
    return re.sub(r"'[^']*'|x'[^']*'|0x[0-9A-F]+|\d+", "N", sql[:400])


def stolen(hostile):
    """Lets another game server take a lock over, so that the write-back is refused."""
    seq = hostile.central.acquire("bela", "gs-b")[1]
    if seq is None:
        hostile.server.sql(f"UPDATE {hostile.central.schema}.wk_lock SET lock_id='gs-b', lock_seq=lock_seq+1 WHERE lock_key='bela'")


def heidi(hostile):
    """Writes a file as HeidiSQL does, with a DELETE before more rows of the same table."""
    create = hostile.world.sql("SHOW CREATE TABLE chat")[0][1]
    rows = "INSERT INTO `chat` VALUES (1,'a'),(2,'b');\n"
    with open(os.path.join(hostile.tmp, "heidi.sql"), "w") as f:
        f.write(f"{create};\n{rows}DELETE FROM `chat`;\n{rows}")


def replaced(hostile):
    """Writes a file of replaced rows as a restore writes it: with rows of a table with keys or without, and of a
    ledger."""
    text = ("-- worldkeeper conflict 2\n-- written from an unknown time\nSET NAMES binary;\n"
            "INSERT INTO `chat` (`who`,`what`) VALUES\n(3,'c');\n"
            "INSERT INTO `gains` (`id`,`hero`,`xp`,`at`,`token`) VALUES\n(1,1,4,'2026-01-05 10:00:00',UUID());\n"
            "-- worldkeeper end tables=2 rows=2\n").replace("UUID()", f"'{uuid.uuid4()}'")
    with gzip.open(os.path.join(hostile.keeper.dumps_dir, REPLACED), "wt") as f:
        f.write(text)


ACTIONS = {
    "init": (["--init"], None, {}),
    "dump by copying": (["--dump"], None, {"dump": {"method": "copy"}}),
    "dump under a lock": (["--dump"], None, {"dump": {"method": "lock"}}),
    "write-back": (["--write-back"], None, {}),
    "write-back of stolen ones": (["--write-back"], stolen, {}),
    "write-back and unlock": (["--write-back", "--unlock"], None, {}),
    "rollup": (["--rollup"], None, {}),
    "verify": (["--rollup", "--verify"], None, {}),
    "check": (["--check"], None, {}),
    "conflicts": ([f"--conflicts={REPLACED}", "--apply", "--renumber"], replaced, {}),
    "restore": (["--restore", "--force"], None, {}),
    "drill": (["--drill"], None, {}),
    "import": (["--restore=TMP/heidi.sql", "--force", "--accept-cut"], heidi, {}),
}


@pytest.fixture
def hostile(request, make_server, make_world, make_keeper, tmp):
    made_here = Hostile(make_server(), make_world, make_keeper, tmp, getattr(request, "param", "MEMORY"))
    with made_here.relay:
        yield made_here


def test_the_trap_works(hostile):
    """A view that is read or written without the hint runs the function as the reader; the tests below rely on this."""
    for n, statement in enumerate(("SELECT * FROM chat", "INSERT INTO chat VALUES (1,'a')", "DELETE FROM chat WHERE who=1")):
        hostile.replace("chat")
        con = pymysql.connect(unix_socket=hostile.server.socket, user=USER, password=CANARY,
                              database=hostile.schema, autocommit=True)
        with con.cursor() as cur:
            cur.execute(statement)
        con.close()
        assert hostile.ran(), (n, statement)
        hostile.put_back()


def prepared(hostile, action):
    args, before, settings = ACTIONS[action]
    hostile.keeper.configure(settings)
    hostile.work()
    if before:
        before(hostile)
    return [a.replace("TMP", hostile.tmp) for a in args]


EACH = [(engine, action) for action in ACTIONS
        for engine in (("MEMORY", "InnoDB") if action in ("rollup", "verify") else ("MEMORY",))]  # engines of the ledger


@pytest.mark.parametrize("hostile,action", EACH, indirect=["hostile"])
def test_a_view_in_the_place_of_each_table(action, hostile):
    """A view that replaces a table just before one of our statements never runs its function as us, for each statement of each
    action and each table that it names. One run tests a share of them."""
    args = prepared(hostile, action)
    hostile.seen.clear()
    done = hostile.keeper.run(*args)
    assert done.rc in (DONE, NOT_WELL), done
    aims = list(dict.fromkeys(hostile.seen))
    assert aims, "no statement was seen"
    bad = []
    for aim in share(aims, 10):
        args, hostile.aim = prepared(hostile, action), aim
        done = hostile.keeper.run(*args)
        hostile.aim = None
        if ran := hostile.ran():
            bad.append((aim, ran, done))
        hostile.put_back()
    assert not bad, "\n".join(f"{table}: {shape}: {ran}" for (shape, table), ran, _ in bad)


def unguarded(sql, temporary, locked):
    """Returns the tables that a statement reads or writes without the protection."""
    names = []
    text = re.sub(r"'(?:[^'\\]|\\.|'')*'", "''", sql)
    for verb, rest in re.findall(r"\b(FROM|JOIN|INTO(?: TABLE)?|UPDATE(?: LOW_PRIORITY)?)\s+([`\w][^()]*?)(?=\bFROM\b|\bJOIN\b|\(|$)", text):
        table = re.match(r"(?:`?\w+`?\.)?`?(\w+)`?", rest).group(1)
        if table not in temporary and table not in locked and not re.search(r"(?:USE|FORCE) INDEX", rest) and (
                f"{table}` {HINT} WHERE FALSE" not in text and f"{table} {HINT} WHERE FALSE" not in text):
            names.append(table)
    return names


@pytest.mark.parametrize("hostile,action", EACH, indirect=["hostile"])
def test_no_statement_is_without_it(action, hostile):
    """Each statement that is sent names each table of the world with the hint, or with a condition that contains it."""
    sent = []
    hostile.relay.say = lambda sql: sent.append((threading.get_ident(), sql, hostile.tables()))
    hostile.keeper.run(*prepared(hostile, action))
    temporary, locked, bad = set(), {}, []
    for session, sql, tables in sent:
        temporary |= set(re.findall(r"CREATE TEMPORARY TABLE `?(\w+)", sql))
        if sql.startswith("UNLOCK TABLES"):
            locked.pop(session, None)
        mine = locked.setdefault(session, [set(), set()])
        if sql.startswith("LOCK TABLES"):
            locked[session] = mine = [set(re.findall(r"`(\w+)` (?:READ|WRITE)", sql)), set()]
        proof = re.fullmatch(r"SELECT COUNT\(\*\) FROM `(\w+)` " + re.escape(HINT) + " WHERE FALSE", sql)
        if proof and proof.group(1) in mine[0]:
            mine[1].add(proof.group(1))
        scratch = action == "drill" and re.match("INSERT|LOAD", sql)  # writes tables of the same names in our scratch schema
        if ROWS.match(sql) and not scratch:
            bad += [(name, shape(sql)) for name in unguarded(sql, temporary, mine[1]) if name in tables]
    assert len(sent) > 3 and not bad, "\n".join(f"{name}: {text}" for name, text in dict.fromkeys(bad))


# ---- what the game calls or triggers ------------------------------------------------------------------------

def test_an_insert_with_a_view_behind_the_trigger(hostile):
    """The trigger of request IDs, which runs as us when the game inserts, does not run a view's function. --check reports a
    trigger of an older version, also while ALTER TABLE hides it from information_schema, and --init replaces it."""
    trigger = hostile.world.sql("SHOW CREATE TRIGGER xp_request")[0][2]
    old = trigger.replace(HINT, "")
    assert old != trigger
    hostile.world.sql("DROP TRIGGER xp_request", old)

    def bad():
        return [c for c in hostile.keeper.run("--check", "--json").result["checks"] if c["level"] in ("warn", "fail")]
    quiet = bad()
    (found,) = [c for c in quiet if "older version" in c["text"]]
    assert found["level"] == "warn" and "--init" in found["hint"], found
    tables = ("gains", "chat", "xp_rollup", "xp_mark", "xp_request")
    with repeating(hostile.world, *(f"ALTER TABLE {table} FORCE" for table in tables)):
        for _ in range(60):
            assert bad() == quiet
    insert = "INSERT INTO gains (hero,xp,at,token) VALUES (1,4,'2026-01-05 10:00:00',{})"
    hostile.work()
    hostile.keeper.init()
    hostile.as_game(insert.format("UUID()"))
    hostile.replace("xp_request")
    with pytest.raises(pymysql.err.MySQLError, match="1176"):
        hostile.as_game(insert.format("'old'"))
    assert not hostile.ran()


def test_routines_run_as_the_caller(hostile):
    """wk_put and wk_close run as the game, also if the game has replaced their tables by views."""
    hostile.store.open("anna")
    for table in ("wk_session", "wk_progress", "wk_stolen"):
        hostile.replace(table)
        for call in ("CALL wk_put('b','anna','x')", "CALL wk_close('anna')"):
            with contextlib.suppress(pymysql.err.MySQLError):
                hostile.as_game(call)
        assert not hostile.ran(), table
        hostile.put_back()


def test_a_trigger_of_the_game(hostile):
    """Triggers that the game makes on our own tables run as the game."""
    hostile.server.grant("game@localhost", TRAP, "INSERT")
    for table in ("wk_progress", "wk_session", "xp_rollup", "worldkeeper_sentinel"):
        for event in ("INSERT", "UPDATE", "DELETE"):
            hostile.as_game(f"CREATE TRIGGER t_{table}_{event} BEFORE {event} ON {table} FOR EACH ROW SET @x=evil()")
    hostile.work()
    for args in (["--write-back", "--unlock"], ["--rollup"]):
        hostile.keeper.run(*args)
    who = {who for (who,) in hostile.server.sql(f"SELECT DISTINCT who FROM {TRAP}.ran")}
    assert who == {"game@localhost"}, who


# ---- EXECUTE, and what amounts to root ----------------------------------------------------------------------

def rights(keeper, words):
    return [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == "rights" and words in c["text"]]


@pytest.mark.each_server
def test_check_names_execute(keeper):
    """--check warns about EXECUTE on the server, the schema or a function, and its hint revokes it."""
    server, schema = keeper.server, keeper.world.schema
    words, who = "run as worldkeeper", f"{USER}@localhost"
    keeper.world.sql("CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1", "CREATE PROCEDURE p() DO 1")
    server.sql(f"GRANT EXECUTE ON PROCEDURE {schema}.p TO {who}")
    assert not rights(keeper, words)  # views cannot call procedures
    for place in ("*.*", f"{schema}.*", f"FUNCTION {schema}.f"):
        server.sql(f"GRANT EXECUTE ON {place} TO {who}")
        (found,) = rights(keeper, words)
        assert found["level"] == "warn", found
        server.sql(*[s for s in found["hint"].split(";") if s.strip()])
        assert not rights(keeper, words), place


@pytest.mark.each_server
def test_check_names_what_amounts_to_root(keeper):
    server, who = keeper.server, f"{USER}@localhost"
    assert not rights(keeper, "amounts to root")
    for grant in ("SET_ANY_DEFINER ON *.*" if MYSQL else "SET USER ON *.*", "CREATE USER ON *.*", "FILE ON *.*",
                  "UPDATE ON mysql.*", "REPLICATION_SLAVE_ADMIN ON *.*" if MYSQL else "BINLOG REPLAY ON *.*"):
        server.sql(f"GRANT {grant} TO {who}")
        (found,) = rights(keeper, "amounts to root")
        assert found["level"] == "warn" and grant.split(" ON")[0] in found["text"], found
        server.sql(f"REVOKE {grant} FROM {who}")
    server.sql(f"GRANT SET USER ON *.* TO {who}")
    keeper.world.sql("CREATE TRIGGER tr BEFORE INSERT ON mark FOR EACH ROW SET NEW.v=NEW.v")  # definer is root
    (found,) = rights(keeper, "amounts to root")
    assert f"CREATE DEFINER=`{USER}`@`localhost` TRIGGER" in found["hint"], found
    made_as = keeper.world.sql("SHOW CREATE TRIGGER tr")[0][2]
    keeper.world.sql("DROP TRIGGER tr", re.sub("DEFINER=`root`@`localhost`", f"DEFINER=`{USER}`@`localhost`", made_as))
    server.sql(f"REVOKE {'SET_ANY_DEFINER, SYSTEM_USER' if MYSQL else 'SET USER'} ON *.* FROM {who}")
    assert not rights(keeper, "amounts to root")
    keeper.dump()
    keeper.ok("--restore", "--force")  # a restore works without these privileges
    assert keeper.world.sql("SHOW CREATE TRIGGER tr")


@pytest.mark.each_server
@pytest.mark.parametrize("may_revoke", [True, False])
def test_execute_is_given_back(may_revoke, make_world, make_keeper, make_server):
    """A restore that makes functions on a rebuilt server revokes the EXECUTE that the server grants their creator if it may,
    and otherwise names these functions."""
    server = make_server("--log-bin-trust-function-creators=1")
    keeper = make_keeper(make_world("small", server))
    schema, who = keeper.world.schema, f"{USER}@localhost"
    server.account("game", [schema], "ALL", server_rights=None)
    code = "CREATE VIEW, SHOW VIEW, CREATE ROUTINE"
    extra = [f"GRANT {'SHOW_ROUTINE, SET_ANY_DEFINER' if MYSQL else 'SET USER'} ON *.* TO {who}",
             f"GRANT SELECT ON mysql.* TO {who}"]
    server.grant(who, schema, code)
    server.sql(*extra)
    keeper.init()
    keeper.world.sql("CREATE DEFINER=game@localhost FUNCTION theirs() RETURNS INT DETERMINISTIC SQL SECURITY INVOKER RETURN 1",
                     f"CREATE DEFINER={who} FUNCTION ours() RETURNS INT DETERMINISTIC RETURN 2")
    keeper.dump()
    server.sql(f"DROP DATABASE {schema}", f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    if may_revoke:
        server.grant(who, schema, "GRANT OPTION")
    done = keeper.ok("--restore", "--force", "--json")
    left = {"function ours"} | (set() if may_revoke else {"function theirs"})
    assert set(done["definitions"]["may_execute"]) == left, done["definitions"]
    granted = " ".join(g for (g,) in server.sql(f"SHOW GRANTS FOR {who}") if "EXECUTE" in g)
    assert ("theirs" in granted) != may_revoke and "ours" in granted, granted
    assert rights(keeper, "run as worldkeeper")
    con = pymysql.connect(unix_socket=server.socket, user="game", password=CANARY, database=schema)
    with con.cursor() as cur:
        cur.execute("SELECT theirs(), ours()")  # the definer of `ours` still needs EXECUTE for this
        assert cur.fetchall() == ((1, 2),)
    con.close()
