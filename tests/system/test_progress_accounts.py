"""Tests of the central store with a hostile game server: what an account that may only call its routines can change, with and
without lock_ids that are bound to accounts; and the upgrade from a store of 0.2.0."""
import contextlib
import json
import re

import pymysql
import pytest

from wk.central import Central, apply, old_sql, schema_sql, statements
from wk.server import MYSQL
from wk.util import CANARY

pytestmark = pytest.mark.third_on_mysql

PUBLIC = {"wk_acquire", "wk_load", "wk_save", "wk_save_many", "wk_send_open", "wk_send", "wk_release", "wk_beat", "wk_locks",
          "wk_bound", "wk_store"}
NOT_YOURS = "this account may not use this lock_id"


@pytest.fixture
def central(server):
    made = Central(server)
    yield made
    made.close()


@pytest.fixture
def holder(central):
    """Returns the client of gs-a, whose account is bound to it, and the number of its lock, under which it has saved a blob."""
    game = central.account("gs_a", "gs-a")
    seq = game.call("wk_acquire", "p1", "gs-a", None)[1]
    game.rows("wk_load", "p1", "gs-a", seq)
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"theirs") == "saved"
    return game, seq


def code(call, *args):
    with pytest.raises(pymysql.err.MySQLError) as raised:
        call(*args)
    return raised.value.args[0]


def refused(call, *args):
    with pytest.raises(pymysql.err.MySQLError) as raised:
        call(*args)
    assert raised.value.args[0] == 1644 and NOT_YOURS in raised.value.args[1], raised.value.args


def everything(central):
    return [central.sql(f"SELECT * FROM {table} ORDER BY 1") for table in
            ("wk_lock", "wk_blob", "wk_server", "wk_takeover", "wk_account")]


def save_of(key, lock, lock_seq, seq, blob="eA=="):
    return {"blob_key": key, "lock_key": lock, "lock_seq": lock_seq, "seq": seq, "blob": blob}


def send(client, lock_id, *rows):
    client.rows("wk_send_open")
    for row in rows:
        client.sql("INSERT INTO wk_sent (blob_key, lock_key, lock_seq, seq, `blob`) VALUES (" +
                   ",".join(client.con.escape(v) for v in row) + ")")
    return client.rows("wk_send", lock_id)


# ---- whose lock_id it is

def test_no_game_server_is_another_one(central, holder):
    """Each call under the lock_id of another game server, as wk_locks shows it, is refused and changes nothing."""
    game, seq = holder
    thief = central.account("gs_b", "gs-b")
    ((key, number, lock_id, *_),) = thief.rows("wk_locks")
    assert (key, number, lock_id) == (b"p1", seq, b"gs-a")
    before = everything(central)
    for name, *args in (("wk_acquire", "p1", "gs-a", 0), ("wk_acquire", "p2", "gs-a", 0), ("wk_load", "p1", "gs-a", seq),
                        ("wk_save", "b1", "p1", "gs-a", seq, 2, b"x"), ("wk_save", "b2", "p1", "gs-a", seq, 1, b"x"),
                        ("wk_save_many", "gs-a", json.dumps([save_of("b1", "p1", seq, 2)])),
                        ("wk_release", "p1", "gs-a", seq), ("wk_beat", "gs-a"), ("wk_bound", "gs-a")):
        refused(thief.rows, name, *args)
    with pytest.raises(pymysql.err.MySQLError, match=NOT_YOURS):
        send(thief, "gs-a", ("b1", "p1", seq, 2, "x"))
    assert everything(central) == before
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 2, b"more") == "saved"
    assert thief.call("wk_acquire", "p1", "gs-b", 0)[0] == "taken"
    assert central.sql("SELECT lock_id, from_id FROM wk_takeover") == ((b"gs-b", b"gs-a"),), "under its own name"


def test_without_a_binding_all_is_as_before(central):
    """Without a binding all accounts may use any lock_id, as old games do."""
    game, other = central.client(), central.account("gs_b")
    assert game.call("wk_bound", "gs-a") == ("open", 0)
    seq = game.call("wk_acquire", "p1", "gs-a", None)[1]
    game.rows("wk_load", "p1", "gs-a", seq)
    for n, client in enumerate((game, other), 1):
        assert client.call("wk_save", "b1", "p1", "gs-a", seq, n, b"x") == "saved"
    central.account("gs_c", "gs-c")
    assert other.call("wk_save", "b1", "p1", "gs-a", seq, 3, b"x") == "saved", "gs-c alone has opted in"
    assert game.call("wk_release", "p1", "gs-a", seq) == "released"


def test_what_is_bound_is_bound_both_ways(central, holder):
    """A bound account may use no other lock_id, so that wk_takeover names the right one. Several accounts may be bound to one
    lock_id, and several lock_ids to one account."""
    game, seq = holder
    keeper = central.account("keeper_a", "gs-a")
    for client in (game, keeper):
        assert client.call("wk_bound", "gs-a") == ("bound", 0)
        for name, *args in (("wk_acquire", "p2", "ghost", None), ("wk_beat", "ghost"), ("wk_release", "p1", "gs-z", 1)):
            refused(client.rows, name, *args)
    assert keeper.call("wk_save", "b1", "p1", "gs-a", seq, 2, b"x") == "saved", "under a lock that the other one took"
    assert send(keeper, "gs-a", ("b1", "p1", seq, 3, "y"), ("b3", "p1", seq, 1, "y")) == ()
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 4, b"z") == "saved"
    assert keeper.call("wk_release", "p1", "gs-a", seq) == "released"
    central.bind("gs-a2", "gs_a")
    assert game.call("wk_acquire", "p9", "gs-a2", None)[0] == "locked", "an account may have several"
    refused(keeper.rows, "wk_acquire", "p9", "gs-a2", 0)


def test_a_binding_counts_at_once(central):
    """A binding and its removal take effect at once, also for locks that are held."""
    game, thief = central.client(), central.account("gs_b")
    seq = game.call("wk_acquire", "p1", "gs-a", None)[1]
    game.rows("wk_load", "p1", "gs-a", seq)
    assert thief.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x") == "saved"
    central.bind("gs-a", "game")
    central.bind("gs-a", "game")
    for n in (2, 3):
        refused(thief.rows, "wk_save", "b1", "p1", "gs-a", seq, 9, b"x")
        assert game.call("wk_save", "b1", "p1", "gs-a", seq, n, b"x") == "saved"
    new = game.call("wk_acquire", "p1", "gs-a", None)[1]
    game.rows("wk_load", "p1", "gs-a", new)
    assert game.call("wk_save", "b1", "p1", "gs-a", new, 4, b"x") == "saved"
    assert central.sql("CALL wk_unbind('gs-a','nobody','localhost')") == (("none",),)
    central.bind("gs-a", "gs_b")
    assert central.sql("CALL wk_unbind('gs-a','game','localhost')") == (("unbound",),)
    refused(game.rows, "wk_save", "b1", "p1", "gs-a", new, 5, b"x")
    assert thief.call("wk_save", "b1", "p1", "gs-a", new, 5, b"x") == "saved"
    assert central.sql("CALL wk_unbind('gs-a','gs_b','localhost')") == (("unbound",),)
    assert game.call("wk_save", "b1", "p1", "gs-a", new, 6, b"x") == "saved"
    assert game.call("wk_bound", "gs-a") == ("open", 0)


@pytest.mark.parametrize("bound, other", [
    ("gs_a", "gsXa"), ("gs%", "gs1"), ("gs@a", "gs"), ("gs", "gs@a"), ("GS", "gs"), ("gs a", "gs"), ("gs'\"", "gs"),
    ("gsä", "gsa")])
def test_names_of_accounts_are_no_patterns(central, bound, other):
    """Wildcards, case and @ in account names never make two accounts equal."""
    def account(name):
        who = f"'{pymysql.converters.escape_string(name)}'@'localhost'"
        central.server.sql(f"DROP USER IF EXISTS {who}", f"CREATE USER {who} IDENTIFIED BY '{CANARY}'",
                           f"GRANT EXECUTE ON {central.schema}.* TO {who}")
        made.append(who)
        return central.client(user=name)
    made = []
    try:
        mine, theirs = account(bound), account(other)
        central.sql(f"CALL wk_bind('gs-a',{theirs.con.escape(bound)},'%')")
        assert mine.call("wk_acquire", "p1", "gs-a", None)[0] == "locked"
        refused(theirs.rows, "wk_acquire", "p1", "gs-a", 0)
        refused(theirs.rows, "wk_save", "b1", "p1", "gs-a", 1, 1, b"x")
        assert mine.call("wk_save", "b1", "p1", "gs-a", 1, 1, b"x") == "saved"
    finally:
        central.server.sql(*(f"DROP USER {who}" for who in made))


@pytest.mark.parametrize("host, fits", [("localhost", True), ("%", True), ("local%", True), ("LOCALHOST", True),
                                        ("127.0.0.1", False), ("localhos_t", False), ("localhost%x", False)])
def test_hosts_are_patterns(central, host, fits):
    game = central.client()
    central.bind("gs-a", "game", host)
    if fits:
        assert game.call("wk_acquire", "p1", "gs-a", None)[0] == "locked"
    else:
        refused(game.rows, "wk_acquire", "p1", "gs-a", None)
        refused(game.rows, "wk_acquire", "p1", "gs-b", None)


@pytest.mark.parametrize("args", [("", "gs", "%"), ("gs-a", "", "%"), ("gs-a", "gs", ""), ("gs-a", "gs", "10.0.0.0/255.0.0.0"),
                                  ("k" * 65, "gs", "%"), (None, "gs", "%"), ("gs-a", None, "%"), ("gs-a", "gs", None)])
def test_bindings_that_mean_nothing_are_refused(central, args):
    con = central.server.admin(central.schema)
    with con.cursor() as cur, pytest.raises(pymysql.err.MySQLError, match="wk_bind|too long"):
        cur.execute("CALL wk_bind(%s,%s,%s)", args)
    con.close()
    assert central.sql("SELECT * FROM wk_account") == ()


def test_accounts_that_log_in_under_any_name(central):
    """wk_bind is refused while an anonymous account exists, because its sessions choose their user name; wk_bound reports one
    that is made later."""
    anonymous = "''@'localhost'"
    try:
        central.server.sql(f"CREATE USER {anonymous} IDENTIFIED BY 'x'")
        assert code(central.sql, "CALL wk_bind('gs-a','game','localhost')") == 1644
        assert central.client().call("wk_bound", "gs-a") == ("open", 1)
    finally:
        central.server.sql(f"DROP USER {anonymous}")


def test_a_definer_who_may_not_look_for_them(central):
    """If the definer may not search for anonymous accounts, wk_bound returns NULL for them and the store works."""
    owner = "'owner'@'localhost'"
    central.server.sql(f"DROP USER IF EXISTS {owner}", f"CREATE USER {owner} IDENTIFIED BY '{CANARY}'",
                       f"GRANT ALL ON {central.schema}.* TO {owner}")
    log = "log_bin_trust_function_creators"
    was = central.server.value(f"SELECT @@{log}")
    central.server.sql(f"SET GLOBAL {log}=1")
    try:
        con = pymysql.connect(unix_socket=central.server.socket, user="owner", password=CANARY, database=central.schema,
                              autocommit=True)
        central.server.sql(*(f"DROP PROCEDURE {central.schema}.{name}" for name in routines(central)))
        with con.cursor() as cur:
            for statement in statements(schema_sql()):
                cur.execute(statement)
            cur.execute("CALL wk_bind('gs-a','game','localhost')")
        con.close()
        game = central.client()
        assert game.call("wk_bound", "gs-a") == ("bound", None)
        assert game.call("wk_acquire", "p1", "gs-a", None)[0] == "locked"
    finally:
        central.server.sql(f"SET GLOBAL {log}={was}", f"DROP USER {owner}")


# ---- what else a game server can do there

def routines(central):
    return {name for name, in central.sql("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=DATABASE()")}


def test_routines_that_are_not_for_game_servers(central):
    """Internal routines run with the caller's privileges only: a game server reads, changes and locks nothing by calling them,
    also in an open transaction."""
    game, thief = central.client(), central.account("gs_b")
    seq = game.call("wk_acquire", "p1", "gs-a", None)[1]
    game.rows("wk_load", "p1", "gs-a", seq)
    game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x")
    calls = {"wk_save_step": f"'b1','p1','gs-a',{seq},2,'y',@o", "wk_claim": "'gs-a',@o", "wk_anonymous": "@o",
             "wk_bind": "'gs-a','gs_b','%'", "wk_unbind": "'gs-a','gs_b','%'"}
    assert routines(central) == PUBLIC | set(calls), "each is for game servers, or is not"
    before = everything(central)
    thief.sql("SET autocommit=0, @o='nothing'")
    for name, args in calls.items():
        thief.sql("START TRANSACTION")
        if name == "wk_anonymous":
            thief.sql(f"CALL {name}({args})")
            assert thief.sql("SELECT @o") == ((None,),)
        else:
            assert code(thief.sql, f"CALL {name}({args})") == 1142, name
        game.sql("SET SESSION innodb_lock_wait_timeout=1")
        assert game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x") == "same", name
    assert everything(central) == before


TYPES = [("lock_key", "INT"), ("lock_key", "DOUBLE"), ("lock_key", "DECIMAL(20,5)"), ("lock_key", "CHAR(20)"),
         ("lock_key", "VARCHAR(64) CHARACTER SET latin1 COLLATE latin1_swedish_ci"), ("lock_key", "BINARY(8)"),
         ("lock_key", "TEXT CHARACTER SET utf8mb4"), ("lock_key", "DATE"), ("lock_key", "BIT(32)"), ("lock_key", "VARBINARY(64) NULL"),
         ("blob_key", "INT"), ("blob_key", "CHAR(20)"), ("blob_key", "VARCHAR(64) CHARACTER SET latin1 COLLATE latin1_swedish_ci"),
         ("lock_seq", "DOUBLE"), ("lock_seq", "VARCHAR(20)"), ("seq", "VARCHAR(20)"), ("seq", "INT"), ("`blob`", "INT NULL")]
TWINS = [("1001", "01001"), ("p1", "P1"), ("p1", "p1 "), ("p1", "p1\0"), ("20260101", "2026-01-01"), ("1001", "1001.0"),
         ("a", "á")]


def held(central, one, two):
    """Stores a victim's blob under a lock `one` and a thief's under its twin `two`, and nothing else. Returns the thief's
    client."""
    central.sql("DELETE FROM wk_blob", "DELETE FROM wk_lock")
    for client, who, key in ((central.client(), "gs-a", one), (central.client(), "gs-b", two)):
        assert client.call("wk_acquire", key, who, None)[:2] == ("locked", 1)
        assert client.call("wk_save", key, key, who, 1, 1, b"7") == "saved"
    return client


def of_the_victim(central):
    return [central.sql(f"SELECT * FROM {table} WHERE lock_key=(SELECT lock_key FROM wk_lock WHERE lock_id='gs-a')")
            for table in ("wk_blob", "wk_lock")]


@pytest.mark.parametrize("column, kind", TYPES, ids=lambda v: v.replace(" ", "-"))
def test_columns_of_other_types(central, column, kind):
    """A session may alter its own temporary table, but its keys are compared as bytes all the same, and rows that cannot be
    valid are errors without effect."""
    for one, two in TWINS:
        thief = held(central, one, two)
        thief.sql("SET SESSION sql_mode=''")
        before = of_the_victim(central)
        for change in (f"MODIFY {column} {kind}", f"DROP PRIMARY KEY, MODIFY {column} {kind}"):
            for blob_key, lock_key in ((one, two), (two, two), (two, one), (one, one)):
                both = [f"ALTER TABLE wk_sent {change}",
                        "INSERT IGNORE INTO wk_sent (blob_key, lock_key, lock_seq, seq, `blob`) VALUES "
                        f"({thief.con.escape(blob_key)},{thief.con.escape(lock_key)},1,5,'9')"]
                for order in (both, both[::-1]):
                    with contextlib.suppress(pymysql.err.MySQLError):
                        thief.rows("wk_send_open")
                        thief.sql(*order)
                        thief.rows("wk_send", "gs-b")
                    assert of_the_victim(central) == before, (one, two, blob_key, lock_key, order)


@pytest.mark.parametrize("change", [
    "DROP COLUMN lock_seq", "DROP COLUMN `blob`", "ADD extra INT FIRST",
    "DROP COLUMN lock_key, ADD lock_key VARBINARY(64) AS (IF(RAND() < 0.5, 'p1', 'P1')) VIRTUAL",
    "DROP COLUMN lock_key, ADD lock_key VARBINARY(64) AS (IF(seq > 1, 'p1', 'P1')) VIRTUAL",
    "DROP COLUMN lock_key, ADD lock_key VARBINARY(64) DEFAULT (IF(RAND() < 0.5, 'p1', 'P1'))",
    "DROP PRIMARY KEY, DROP COLUMN blob_key, ADD blob_key VARBINARY(64) AS (IF(RAND() < 0.5, 'p1', 'P1')) VIRTUAL"])
def test_columns_that_are_computed(central, change):
    """A computed column that gives another value at each reading is read only once."""
    thief = held(central, "p1", "P1")
    before = of_the_victim(central)
    for n in range(40):
        thief.rows("wk_send_open")
        with contextlib.suppress(pymysql.err.MySQLError):  # MySQL does not allow some of these columns
            thief.sql(f"INSERT INTO wk_sent (blob_key, lock_key, lock_seq, seq, `blob`) VALUES ('p1','P1',1,{n + 2},'9')",
                      f"ALTER TABLE wk_sent {change}")
            thief.rows("wk_send", "gs-b")
        assert of_the_victim(central) == before


@pytest.mark.parametrize("move", ["RENAME TABLE own.wk_account TO {}.wk_account", "ALTER TABLE own.wk_account RENAME TO {}.wk_account",
                                  "ALTER TABLE own.wk_account ENGINE=MEMORY, RENAME TO {}.wk_account",
                                  "ALTER TABLE wk_sent RENAME TO own.wk_sent", "RENAME TABLE wk_sent TO wk_account"])
def test_a_table_of_one_s_own_in_the_place_of_wk_account(central, holder, move):
    """MariaDB moves a temporary table of another schema there without privileges, and the routines drop it first; MySQL and
    MariaDB refuse every other way."""
    game, seq = holder
    thief = central.account("gs_b", "gs-b")
    central.sql("CREATE DATABASE IF NOT EXISTS own")
    central.server.grant("'gs_b'@'localhost'", "own", "ALL")
    ((_, text),) = central.sql("SHOW CREATE TABLE wk_account")
    calls = (("wk_acquire", "p1", "gs-a", 0), ("wk_load", "p1", "gs-a", seq), ("wk_save", "b1", "p1", "gs-a", seq, 2, b"x"),
             ("wk_save", "b2", "p1", "gs-a", seq, 2, b"x"), ("wk_save_many", "gs-a", json.dumps([save_of("b1", "p1", seq, 2)])),
             ("wk_send", "gs-a"), ("wk_release", "p1", "gs-a", seq), ("wk_beat", "gs-a"), ("wk_bound", "gs-a"))
    before = everything(central)
    for name, *args in calls:
        thief.rows("wk_send_open")
        thief.sql("DROP TEMPORARY TABLE IF EXISTS own.wk_account, own.wk_sent",
                  text.replace("CREATE TABLE `", "CREATE TEMPORARY TABLE own.`"), "INSERT INTO own.wk_account VALUES ('gs-a','gs_b','%')")
        with contextlib.suppress(pymysql.err.MySQLError):
            thief.sql(move.format(central.schema))
        with pytest.raises(pymysql.err.MySQLError) as raised:
            thief.rows(name, *args)
        assert NOT_YOURS in raised.value.args[1] or name == "wk_send" and raised.value.args[0] == 1146, (name, raised.value.args)
    assert everything(central) == before
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 2, b"x") == "saved"


@pytest.mark.parametrize("change", ["ALTER TABLE wk_sent RENAME TO wk_account", "ALTER TABLE wk_sent RENAME TO wk_lock",
                                    "ALTER TABLE wk_sent RENAME AS wk_blob", "ALTER TABLE wk_sent ADD x INT, RENAME TO wk_server",
                                    "CREATE TEMPORARY TABLE wk_account (lock_id INT)", "CREATE TEMPORARY TABLE wk_named (i INT)",
                                    "DROP TABLE wk_account", "CREATE TABLE wk_named (i INT)"])
def test_tables_beside_ours(central, change):
    """A session that has its own temporary table cannot make or rename another table beside it."""
    thief = central.account("gs_b")
    thief.rows("wk_send_open")
    assert code(thief.sql, change) in (1044, 1142)


def test_times_are_the_server_s(central):
    """A session that sets its own timestamp neither makes another one take a lock early nor writes a wrong time."""
    game, liar = central.client(), central.account("gs_b")
    assert game.call("wk_acquire", "p1", "gs-a", None)[0] == "locked"
    for when in (1000, 2147483000):
        liar.sql(f"SET timestamp={when}")
        assert liar.call("wk_acquire", "p1", "gs-b", 3600_000)[0] == "busy"
        liar.sql(f"SET timestamp={when}")
        liar.call("wk_beat", "gs-b")
        assert central.client().call("wk_acquire", "p1", "gs-c", 3600_000)[0] == "busy"
    ((wanted, seen),) = central.sql("SELECT ABS(TIMESTAMPDIFF(DAY, (SELECT wanted_at FROM wk_lock), UTC_TIMESTAMP())), "
                                    "ABS(TIMESTAMPDIFF(DAY, (SELECT seen_at FROM wk_server), UTC_TIMESTAMP()))")
    assert wanted == seen == 0


@pytest.mark.only("mariadb", why="secure_timestamp")
@pytest.mark.parametrize("who", ["YES", "SUPER"])
def test_servers_on_which_no_session_has_a_clock(make_server, who):
    """The routines work on servers with secure_timestamp, on which sessions cannot set the time."""
    central = Central(make_server("--secure-timestamp=" + who))
    game = central.client()
    assert game.call("wk_acquire", "p1", "gs-a", None)[0] == "locked" and game.call("wk_beat", "gs-a") == "ok"
    central.close()


# ---- from a store of 0.2.0

def structure(central):
    tables = [central.sql(f"SHOW CREATE TABLE {name}")[0][1] for name, in central.sql("SHOW TABLES")]
    names = sorted(routines(central))
    return ([re.sub(r" AUTO_INCREMENT=\d+", "", t) for t in tables],
            [central.sql(f"SHOW CREATE PROCEDURE {name}")[0][2] for name in names])


def session(client, lock, who="gs-a"):
    """Runs a session of a game, old or new, and returns the number of its lock."""
    outcome, seq = client.call("wk_acquire", lock, who, None)[:2]
    assert outcome in ("locked", "mine")
    ((_, _, last, _),) = client.rows("wk_load", lock, who, seq)
    key, last = "blob of " + lock, last or 0
    assert client.call("wk_save", key, lock, who, seq, last + 1, b"x") == "saved"
    assert client.call("wk_save_many", who, json.dumps([save_of(key, lock, seq, last + 2)])) == ("saved", None)
    assert send(client, who, (key, lock, seq, last + 3, "y")) == ()
    assert client.call("wk_beat", who) == "ok"
    return seq


def missing(error):
    """Returns whether the error is that of MySQL's moment between DROP and CREATE of a routine."""
    return MYSQL and error.args[0] == 1305


def test_games_play_on_while_a_store_is_brought_up_to_date(server):
    """Open and new sessions work after each statement of an upgrade. Applied again, the upgraded store equals one that is made
    today."""
    central = Central(server, sql=old_sql())
    game, open_session = central.client(), central.client()
    seq = session(open_session, "open")
    con, last, at = central.server.admin(central.schema), 3, 0
    with con.cursor() as cur:
        for at, statement in enumerate(statements(schema_sql())):
            cur.execute(statement)
            if not re.search(r"PROCEDURE|TABLE|UPDATE|EXECUTE", statement):
                continue
            try:
                session(game, f"p{at}")
                last += open_session.call("wk_save", "blob of open", "open", "gs-a", seq, last + 1, b"x") == "saved"
            except pymysql.err.MySQLError as e:
                assert missing(e), (statement[:200], e.args)
    con.close()
    assert open_session.rows("wk_load", "open", "gs-a", seq) == (("loaded", b"blob of open", last, b"x"),)
    upgraded, ((name,),) = structure(central), game.rows("wk_store")
    apply(central.server, central.schema)
    assert len(name) == 32 and game.rows("wk_store") == ((name,),)
    central.close()
    fresh = Central(server)
    assert structure(fresh) == upgraded
    fresh.close()


@pytest.mark.sweep(7)
@pytest.mark.parametrize("killed", range(0, 44, 3))
def test_an_update_that_is_cut_off(server, killed):
    """After an upgrade that was cut off the store can be upgraded again without loss."""
    every = statements(schema_sql())
    central = Central(server, sql=old_sql())
    seq = session(central.client(), "open")
    con = central.server.admin(central.schema)
    with con.cursor() as cur:
        for statement in every[:killed]:
            cur.execute(statement)
    assert killed <= len(every)
    central.server.end_sessions(id=con.thread_id())
    before = [central.sql(f"SELECT * FROM {t}") for t in ("wk_blob", "wk_takeover")]
    apply(central.server, central.schema)
    assert [central.sql(f"SELECT * FROM {t}") for t in ("wk_blob", "wk_takeover")] == before
    game = central.client()
    assert game.call("wk_save", "blob of open", "open", "gs-a", seq, 4, b"x") == "saved"
    central.bind("gs-a", "game")
    assert game.call("wk_save", "blob of open", "open", "gs-a", seq, 5, b"x") == "saved"
    central.close()


@pytest.mark.parametrize("until", ["ALTER", "EXECUTE", "PROCEDURE wk_save(", "PROCEDURE wk_bind("])
def test_a_server_that_dies_in_the_update(victim, until):
    server = victim
    central = Central(server, sql=old_sql())
    seq = session(central.client(), "open")
    con = server.admin(central.schema)
    with con.cursor() as cur:
        for statement in statements(schema_sql()):
            cur.execute(statement)
            if until in statement and "DROP PROCEDURE" not in statement:
                break
    server.kill9()
    server.start()
    apply(server, central.schema)
    game = Central.client(central)
    assert game.call("wk_save", "blob of open", "open", "gs-a", seq, 4, b"x") == "saved"
    upgraded = structure(central)
    central.open.clear()
    central.close()
    fresh = Central(server)
    assert structure(fresh) == upgraded
    fresh.close()


def test_an_older_schema_applied_over_it(central, holder):
    """An older schema that is applied over the store ignores bindings. After the newer one is applied again all locks are
    bound, also those taken meanwhile."""
    game, seq = holder
    thief = central.account("gs_b", "gs-b")
    apply(central.server, central.schema, old_sql())
    assert thief.call("wk_acquire", "p1", "gs-a", 0)[0] == "mine", "the older one asks nobody"
    new = game.call("wk_acquire", "p2", "gs-a", None)[1]
    apply(central.server, central.schema)
    for lock, number in (("p1", seq + 1), ("p2", new)):
        refused(thief.rows, "wk_save", "b9", lock, "gs-a", number, 1, b"x")
    assert game.call("wk_save", "b2", "p2", "gs-a", new, 1, b"x") == "saved"
