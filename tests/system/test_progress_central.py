"""Tests of the central store of players' progress: each routine, each outcome, and operations that must be impossible."""
import base64
import contextlib
import json
import re
import threading

import pymysql
import pytest

from wk.central import Central, apply, schema_sql, statements
from wk.server import MYSQL
from wk.util import wait_for

pytestmark = pytest.mark.third_on_mysql


@pytest.fixture
def central(server):
    made = Central(server)
    yield made
    made.close()


@pytest.fixture
def game(central):
    return central.client()


def take(game, lock="p1", who="gs-a"):
    """Acquires the lock and loads its blobs. Returns the lock number."""
    outcome, seq, *_ = game.call("wk_acquire", lock, who, None)
    assert outcome in ("locked", "mine")
    game.rows("wk_load", lock, who, seq)
    return seq


def refused(call, *args):
    with pytest.raises(pymysql.err.MySQLError) as raised:
        call(*args)
    return raised.value.args


def later(central, ms):
    """Moves all times in the central store this long into the past."""
    central.sql(*(f"UPDATE {table} SET {column}={column}-INTERVAL {ms * 1000} MICROSECOND"
                  for table, column in (("wk_lock", "locked_at"), ("wk_lock", "wanted_at"), ("wk_server", "seen_at"))))


# ---- the schema

def test_applied_twice_it_keeps_what_is_there(central, game):
    seq = take(game)
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"hello") == "saved"
    before = [central.sql(f"SELECT * FROM {t}") for t in ("wk_lock", "wk_blob")]
    apply(central.server, central.schema)
    assert before == [central.sql(f"SELECT * FROM {t}") for t in ("wk_lock", "wk_blob")]
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 2, b"hello") == "saved"


def test_calls_go_on_while_it_is_applied_again(central, game):
    """Calls succeed while the schema is applied again, except that MySQL has a moment without each routine (1305)."""
    seq, done, wrong = take(game), threading.Event(), []

    def save():
        n = 0
        while not done.is_set():
            n += 1
            try:
                if game.call("wk_save", "b1", "p1", "gs-a", seq, n, b"x") != "saved":
                    wrong.append(n)
            except pymysql.err.MySQLError as e:
                if not (MYSQL and e.args[0] == 1305):
                    wrong.append(e.args)
    saver = threading.Thread(target=save)
    saver.start()
    for _ in range(5):
        apply(central.server, central.schema)
    done.set()
    saver.join()
    assert not wrong


def test_a_program_can_apply_it(server):
    """A program without DELIMITER can apply the schema, whose statements end with // at the end of a line. It leaves the
    session's settings as they were."""
    server.sql("DROP DATABASE IF EXISTS central2", "CREATE DATABASE central2")
    con = server.admin("central2")
    with con.cursor() as cur:
        mode = cur.execute("SELECT @@sql_mode, @@collation_connection, @@character_set_results") and cur.fetchall()
        for statement in statements(schema_sql()):
            cur.execute(statement)
        cur.execute("SELECT @@sql_mode, @@collation_connection, @@character_set_results")
        assert cur.fetchall() == mode  # the session's settings are unchanged
        cur.execute("CALL wk_beat('x')")
        assert cur.fetchall() == (("ok",),)
    con.close()
    server.sql("DROP DATABASE central2")


def test_tables_are_of_innodb_with_the_columns_of_the_manual(central):
    want = {"wk_lock": "lock_key lock_seq lock_id locked_at wanted_at touched account",
            "wk_blob": "blob_key lock_key lock_seq seq saved_at blob", "wk_server": "lock_id seen_at",
            "wk_takeover": "id lock_key lock_seq lock_id from_id taken_at why held_ms wanted_ms unseen_ms",
            "wk_account": "lock_id user host"}
    for table, columns in want.items():
        found = central.sql("SELECT column_name FROM information_schema.columns WHERE table_schema=DATABASE() AND "
                            f"table_name='{table}' ORDER BY ordinal_position")
        assert " ".join(c for (c,) in found) == columns
    engines = central.sql("SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema=DATABASE()")
    assert engines == (("InnoDB",),)


@pytest.mark.quick
def test_a_game_server_can_only_call(central, game):
    seq = take(game)
    game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x")
    for table in ("wk_lock", "wk_blob", "wk_server", "wk_takeover"):
        for statement in ("SELECT * FROM {}", "DELETE FROM {}", "DROP TABLE {}", "ALTER TABLE {} ADD c INT",
                          "CREATE TRIGGER x BEFORE INSERT ON {} FOR EACH ROW SET @x=1"):
            assert refused(game.sql, statement.format(table))[0] in (1142, 1044, 1227), statement
    assert refused(game.sql, "UPDATE wk_lock SET lock_id='gs-b'")[0] == 1142
    assert refused(game.sql, "CREATE TEMPORARY TABLE wk_lock (lock_key INT)")[0] in (1044, 1142)
    assert refused(game.sql, "DROP PROCEDURE wk_save")[0] == 1370


def test_no_temporary_table_takes_the_place_of_one_of_ours(central, game):
    """The routines never use a temporary table in the place of ours. MariaDB's RENAME TABLE allows one to any account that may
    create temporary tables in some schema."""
    game.call("wk_save", "b1", "p1", "gs-a", take(game), 1, b"x")
    central.server.grant("'game'@'localhost'", "own", "ALL")
    central.sql("CREATE DATABASE IF NOT EXISTS own")
    thief = central.client()
    for table, values in (("wk_lock", "'p1',1,'thief',NULL,NULL,0,NULL"), ("wk_takeover", None)):
        ((_, text),) = central.sql(f"SHOW CREATE TABLE {table}")

        def replace():
            thief.sql(f"DROP TEMPORARY TABLE IF EXISTS own.{table}",
                      text.replace("CREATE TABLE `", "CREATE TEMPORARY TABLE own.`"),
                      *([f"INSERT INTO own.{table} VALUES ({values})"] if values else []))
            try:
                thief.sql(f"RENAME TABLE own.{table} TO {central.schema}.{table}")
            except pymysql.err.MySQLError as e:  # 1050: wk_save leaves a temporary table that it does not use
                assert e.args[0] == (1142 if MYSQL else 1050)
        for name, args in (("wk_save", ("b1", "p1", "thief", 1, 9, b"stolen")), ("wk_release", ("p1", "gs-a", 2)),
                           ("wk_save_many", ("thief", json.dumps([save_of("b1", "p1", 1, 9, b"stolen")])))):
            replace()
            assert thief.call(name, *args) != "saved"
        replace()
        assert thief.rows("wk_load", "p1", "thief", 1) == (("stolen", None, None, None),)
        thief.rows("wk_send_open")
        thief.sql("INSERT INTO wk_sent VALUES ('b1','p1',1,9,'stolen')")
        replace()
        assert thief.rows("wk_send", "thief")[0][0] == "unknown"
    replace()
    assert thief.call("wk_acquire", "p1", "gs-b", 0)[0] == "taken"
    assert central.blob("b1") == (1, 1, b"x") and central.sql("SELECT COUNT(*) FROM wk_takeover") == ((1,),)


# ---- the lock

def test_locked_mine_busy_taken_released(central, game):
    other = central.client()
    assert game.call("wk_acquire", "p1", "gs-a", None) == ("locked", 1, "gs-a", 0, None)
    assert game.call("wk_acquire", "p1", "gs-a", None)[:3] == ("mine", 2, "gs-a")
    outcome, seq, holder, held, wanted = other.call("wk_acquire", "p1", "gs-b", None)
    assert (outcome, seq, holder, wanted) == ("busy", 2, "gs-a", 0) and held >= 0
    later(central, 5000)
    outcome, _, _, held, wanted = other.call("wk_acquire", "p1", "gs-c", 6000_000)
    assert outcome == "busy" and held >= 5000 and wanted >= 5000, "counted from the first, whoever asks"
    assert other.call("wk_acquire", "p1", "gs-b", None)[0] == "busy", "NULL never forces"
    assert other.call("wk_acquire", "p1", "gs-b", 5000)[:3] == ("taken", 3, "gs-b")
    (row,) = central.sql("SELECT lock_key, lock_seq, lock_id, from_id, why, held_ms>=5000, wanted_ms>=5000, unseen_ms "
                         "FROM wk_takeover")
    assert row == (b"p1", 3, b"gs-b", b"gs-a", "wanted", 1, 1, None)
    assert game.call("wk_release", "p1", "gs-a", 2) == "not-ours"
    assert game.call("wk_release", "p1", "gs-b", 2) == "not-ours", "an older number of the same server"
    assert other.call("wk_release", "p1", "gs-b", 3) == "released"
    assert other.call("wk_release", "p1", "gs-b", 3) == "free", "repeated after a lost answer"
    assert other.call("wk_release", "nobody", "gs-b", 3) == "free"
    assert game.call("wk_acquire", "p1", "gs-a", 0)[:3] == ("locked", 4, "gs-a")


def test_a_takeover_that_is_killed_half_way(central, game):
    """A takeover that is killed between the lock and its record leaves neither, and the session's next call adds neither."""
    take(game)
    other, said = central.client(), []
    assert other.call("wk_acquire", "p1", "gs-b", 5000)[0] == "busy"
    later(central, 6000)
    admin = central.server.admin(central.schema)
    with admin.cursor() as cur:
        cur.execute("LOCK TABLES wk_takeover WRITE")
        taker = threading.Thread(target=lambda: said.append(refused(other.call, "wk_acquire", "p1", "gs-b", 5000)[0]))
        taker.start()
        wait_for(lambda: central.server.sessions(id=other.con.thread_id(), state="Waiting for table%"),
                 "the takeover to wait for its record's table")
        central.sql(f"KILL QUERY {other.con.thread_id()}")
        taker.join()
    admin.close()
    assert said == [1317]
    assert other.call("wk_beat", "gs-b") == "ok"
    assert central.sql("SELECT lock_id FROM wk_lock") == ((b"gs-a",),) and not central.sql("SELECT * FROM wk_takeover")
    assert other.call("wk_acquire", "p1", "gs-b", 5000)[:2] == ("taken", 2)
    assert central.sql("SELECT lock_seq, from_id FROM wk_takeover") == ((2, b"gs-a"),)


def test_wanting_begins_with_each_holder(central, game):
    """Waiting for a lock is counted per holder; a holder that acquires its own lock again stays the same holder."""
    take(game)
    assert game.call("wk_acquire", "p1", "gs-b", 1000)[0] == "busy"
    later(central, 5000)
    outcome, _, _, _, wanted = game.call("wk_acquire", "p1", "gs-a", 1000)
    assert outcome == "mine" and wanted >= 5000
    assert game.call("wk_acquire", "p1", "gs-b", 5000)[0] == "taken"
    assert game.call("wk_acquire", "p1", "gs-a", 1000)[0] == "busy"


def test_a_server_that_is_not_seen_any_more(central, game):
    assert game.call("wk_beat", "gs-a") == "ok"
    later(central, 36_000_000)  # hours, beside which the real time between two calls does not count
    take(game)
    assert game.call("wk_acquire", "p1", "gs-b", 10_000_000)[0] == "busy", "it was seen taking the lock"
    central.sql("UPDATE wk_lock SET wanted_at=NULL")
    later(central, 20_000_000)
    assert game.call("wk_beat", "gs-a") == "ok"
    assert game.call("wk_acquire", "p1", "gs-b", 10_000_000)[0] == "busy", "it is seen again"
    later(central, 9_000_000)
    central.sql("UPDATE wk_lock SET wanted_at=NULL")
    assert game.call("wk_acquire", "p1", "gs-b", 1_000_000_000)[0] == "busy"
    central.sql("UPDATE wk_lock SET wanted_at=NULL")
    assert game.call("wk_acquire", "p1", "gs-b", 9_000_000)[0] == "taken"
    assert central.sql("SELECT why FROM wk_takeover") == (("not seen",),)


def test_a_server_that_never_beat_is_not_taken_for_dead(central, game):
    take(game)
    later(central, 3600_000)
    assert game.call("wk_acquire", "p1", "gs-b", 1000)[0] == "busy"


def test_who_holds_what(central, game):
    take(game, "p1"), take(game, "p2", "gs-b")
    game.call("wk_beat", "gs-b")
    game.call("wk_acquire", "p2", "gs-a", None)
    game.call("wk_release", "p3", "gs-b", take(game, "p3", "gs-b"))
    one, two = game.rows("wk_locks")
    assert one[:3] == (b"p1", 1, b"gs-a") and one[4:] == (None, None)
    assert two[:3] == (b"p2", 1, b"gs-b") and min(two[3:]) >= 0
    central.sql("UPDATE wk_lock SET wanted_at=wanted_at+INTERVAL 1 DAY", "UPDATE wk_server SET seen_at=seen_at-INTERVAL 1 DAY")
    assert game.rows("wk_locks")[1][4] is None, "as wk_acquire judges it: the clock was set back"
    assert game.rows("wk_locks")[1][5] < 86000_000, "it was seen taking the lock"


def test_a_lock_table_that_was_lost(central, game):
    """After the loss of the lock table numbers continue after the highest number of the blobs, so that none is given out
    twice."""
    for _ in range(5):
        seq = take(game)
    game.call("wk_save", "b1", "p1", "gs-a", seq, 7, b"x")
    central.sql("DELETE FROM wk_lock")
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 8, b"y") == "stolen"
    outcome, new, *_ = game.call("wk_acquire", "p1", "gs-a", None)
    assert outcome == "locked" and new > seq
    assert game.rows("wk_load", "p1", "gs-a", new) == (("loaded", b"b1", 7, b"x"),)
    assert game.call("wk_save", "b1", "p1", "gs-a", seq, 9, b"z") == "stolen"
    assert game.call("wk_save", "b1", "p1", "gs-a", new, 8, b"y") == "saved"
    central.sql("UPDATE wk_blob SET lock_seq=999999")
    assert game.call("wk_save", "b1", "p1", "gs-a", new, 9, b"z") == "stolen"
    game.rows("wk_load", "p1", "gs-a", new)  # sets the blobs' lock number whatever it was
    assert game.call("wk_save", "b1", "p1", "gs-a", new, 9, b"z") == "saved"


def test_a_lock_table_that_is_older(central, game):
    """After a restore of the lock table alone no number is given out twice, and no game server is locked out."""
    for _ in range(5):
        seq = take(game)
        game.call("wk_save", "b1", "p1", "gs-a", seq, seq, b"x")
    central.sql("UPDATE wk_lock SET lock_seq=2, lock_id='gs-b'")
    outcome, new, *_ = game.call("wk_acquire", "p1", "gs-a", 0)
    assert (outcome, new) == ("taken", seq + 1) and central.sql("SELECT lock_seq FROM wk_takeover") == ((new,),)
    game.rows("wk_load", "p1", "gs-a", new)
    assert game.call("wk_save", "b1", "p1", "gs-a", new, seq + 1, b"y") == "saved"


# ---- blobs

def test_load_none_loaded_stolen(central, game):
    seq = take(game)
    assert game.rows("wk_load", "p1", "gs-a", seq) == (("none", None, None, None),)
    for key in ("b1", "b2"):
        game.call("wk_save", key, "p1", "gs-a", seq, 1, key.encode())
    rows = game.rows("wk_load", "p1", "gs-a", seq)
    assert sorted(rows) == [("loaded", b"b1", 1, b"b1"), ("loaded", b"b2", 1, b"b2")]
    for who in (("p1", "gs-a", seq + 1), ("p1", "gs-b", seq), ("p2", "gs-a", seq)):
        assert game.rows("wk_load", *who) == (("stolen", None, None, None),)


def test_save_saved_same_stale_stolen(central, game):
    seq = take(game)
    save = lambda lock_seq, n, blob, who="gs-a", lock="p1": game.call(  # noqa: E731
        "wk_save", "b1", lock, who, lock_seq, n, blob)
    assert save(seq, 5, b"five") == "saved"
    assert save(seq, 5, b"five") == "same"
    assert save(seq, 5, b"FIVE") == "stale"
    assert save(seq, 4, b"four") == "stale"
    assert save(seq, 6, b"") == "saved"
    assert save(seq, 6, b"") == "same"
    assert save(seq + 1, 7, b"x") == save(seq - 1, 7, b"x") == save(seq, 7, b"x", "gs-b") == "stolen"
    assert save(take(game, "p2"), 7, b"x", lock="p2") == "stolen", "a blob is of one lock"
    assert central.blob("b1") == (6, seq, b"")
    new = take(game)  # an older process of the same server is refused too
    assert save(seq, 7, b"x") == "stolen" and save(new, 7, b"seven") == "saved"
    game.call("wk_release", "p1", "gs-a", new)
    assert save(new, 8, b"x") == "stolen"
    assert central.blob("b1") == (7, new, b"seven")


def test_what_was_not_loaded_is_not_overwritten(central, game):
    """Between wk_acquire and wk_load a save is refused, because the blobs still have the previous lock number."""
    game.call("wk_save", "b1", "p1", "gs-a", take(game), 1, b"x")
    _, seq, *_ = game.call("wk_acquire", "p1", "gs-b", 0)
    assert game.call("wk_save", "b1", "p1", "gs-b", seq, 2, b"y") == "stolen"
    game.rows("wk_load", "p1", "gs-b", seq)
    assert game.call("wk_save", "b1", "p1", "gs-b", seq, 2, b"y") == "saved"


def save_of(key, lock, lock_seq, seq, blob, **more):
    return {"blob_key": key, "lock_key": lock, "lock_seq": lock_seq, "seq": seq,
            "blob": base64.b64encode(blob).decode(), **more}


def test_many_are_saved_all_or_none(central, game):
    one, two = take(game), take(game, "p2")
    many = lambda *saves: game.call("wk_save_many", "gs-a", json.dumps(saves))  # noqa: E731
    trade = [save_of("b1", "p1", one, 1, b"sold"), save_of("b2", "p2", two, 1, b"sword \0\xff")]
    assert many(*trade) == ("saved", None)
    assert many(*trade) == ("same", None)
    assert many(save_of("b1", "p1", one, 2, b"x"), save_of("b2", "p2", two + 1, 2, b"x")) == ("stolen", "b2")
    assert many(save_of("b1", "p1", one, 1, b"x"), save_of("b2", "p2", two, 2, b"x")) == ("stale", "b1")
    assert (central.blob("b1"), central.blob("b2")) == ((1, one, b"sold"), (1, two, b"sword \0\xff"))
    assert many(save_of("b1", "p1", one, 1, b"sold"), save_of("b2", "p2", two, 2, b"axe")) == ("saved", None)
    odd = base64.b64encode(b"\xff\0key").decode()
    lock = game.call("wk_acquire", b"\xff\0lock", "gs-a", None)[1]
    assert many({**save_of("", "", lock, 1, b"odd"), "blob_key_base64": odd,
                 "lock_key_base64": base64.b64encode(b"\xff\0lock").decode()}) == ("saved", None)
    assert game.rows("wk_load", b"\xff\0lock", "gs-a", lock) == (("loaded", b"\xff\0key", 1, b"odd"),)


@pytest.mark.parametrize("text", [
    "[]", "{}", "7", "[7]", None, "nonsense", "[[]]",
    *(json.dumps([{**save_of("b1", "p1", 1, 1, b"x"), **wrong}]) for wrong in (
        {"blob_key": None}, {"blob_key": "k" * 65}, {"lock_key": ""}, {"lock_seq": -1}, {"seq": "x"}, {"seq": 1.5},
        {"blob": None}, {"blob": "%%%"}, {"seq": None}, {"seq": 1 << 64}, {"lock_seq": 10**20 - 1},
        {"blob_key_base64": "%"}, {"blob_key_base64": "a" * 97}, {"lock_key_base64": "p1"}, {"blob_key_base64": {}})),
    json.dumps([save_of("b1", "p1", 1, 1, b"x"), save_of("b1", "p1", 1, 2, b"y")])])
def test_many_refuses_what_is_malformed(central, game, text):
    take(game)
    refused(game.call, "wk_save_many", "gs-a", text)
    assert central.blob("b1") is None


def waits(central, client, what):
    """Waits until this session, and no other, waits for a row. MariaDB may lose a KILL QUERY that comes earlier in a call."""
    wait_for(lambda: central.server.waiting_for_rows() == {client.con.thread_id()}, f"{what} alone to wait for a row")


def half_way(central, game, saves, then):
    """Calls wk_save_many while another transaction has the row of its last lock, runs `then` while it waits, and returns the
    outcome."""
    admin, said = central.server.admin(central.schema, autocommit=False), []

    def save():
        try:
            said.append(game.call("wk_save_many", "gs-a", json.dumps(saves)))
        except pymysql.err.MySQLError as e:
            said.append(e.args[0])
    with admin.cursor() as cur:
        cur.execute(f"SELECT * FROM wk_lock WHERE lock_key='{saves[-1]['lock_key']}' FOR UPDATE")
        saver = threading.Thread(target=save)
        saver.start()
        waits(central, game, "the call")
        then(cur)
        admin.rollback()
    saver.join()
    admin.close()
    return said[0]


@pytest.fixture
def trade(central, game):
    saves = [save_of("b1", "p1", take(game), 2, b"sold"), save_of("b2", "p2", take(game, "p2"), 2, b"sword")]
    for key, lock in (("b1", "p1"), ("b2", "p2")):
        assert game.call("wk_save", key, lock, "gs-a", 1, 1, b"before") == "saved"
    return saves


def test_many_begin_again_after_a_deadlock(central, game, trade):
    """Of two crossing calls of wk_save_many, the one that the server rolls back repeats itself."""
    def cross(cur):
        for n in range(50):  # the server rolls back the transaction that has written less
            cur.execute(f"INSERT INTO wk_server VALUES ('x{n}', NOW(3))")
        cur.execute("SELECT * FROM wk_lock WHERE lock_key='p1' FOR UPDATE")
    assert half_way(central, game, trade, cross) == ("saved", None)
    assert central.blob("b1")[2] == b"sold" and central.blob("b2")[2] == b"sword"


def test_many_that_are_killed_half_way(central, game, trade):
    """A killed wk_save_many leaves nothing in the session's transaction that the next call could commit."""
    kill = lambda _: central.sql(f"KILL QUERY {game.con.thread_id()}")  # noqa: E731
    assert half_way(central, game, trade, kill) == 1317
    assert game.call("wk_beat", "gs-a") == "ok"
    assert central.blob("b1")[2] == central.blob("b2")[2] == b"before"
    assert game.call("wk_save_many", "gs-a", json.dumps(trade)) == ("saved", None)


def test_a_blob_that_another_lock_adds_meanwhile(central, game, trade):
    """wk_save_many does not overwrite a blob that another lock adds meanwhile, also under READ COMMITTED, which locks no gaps."""
    game.sql("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    saves = [save_of("fresh", "p1", 1, 1, b"ours"), *trade]
    add = lambda cur: (cur.execute("INSERT INTO wk_blob VALUES ('fresh','p9',1,7,NOW(3),'theirs')"),  # noqa: E731
                       cur.execute("COMMIT"))
    assert half_way(central, game, saves, add) == ("stolen", "fresh")
    assert central.blob("fresh") == (7, 1, b"theirs") and central.blob("b1")[2] == central.blob("b2")[2] == b"before"


def test_a_clock_that_is_set_back(central, game):
    """A request for a lock that is in the future after the clock was set back does not prevent later takeovers."""
    take(game)
    assert game.call("wk_acquire", "p1", "gs-b", 5000)[0] == "busy"
    later(central, -365 * 86400_000)
    assert game.call("wk_acquire", "p1", "gs-b", 5000)[::4] == ("busy", 0)
    later(central, 6000)
    assert game.call("wk_acquire", "p1", "gs-b", 5000)[0] == "taken"


def test_an_open_transaction_does_not_make_wk_locks_old(central, game):
    """wk_locks shows what is committed, also to a session without autocommit."""
    game.sql("SET autocommit=0")
    assert game.rows("wk_locks") == ()
    take(central.client())
    assert [row[0] for row in game.rows("wk_locks")] == [b"p1"]


def test_thousands_are_sent_at_once(central, game):
    one, two = take(game), take(game, "p2")
    theirs = game.call("wk_acquire", "p3", "gs-b", None)[1]
    late = take(game, "p4")
    assert game.call("wk_acquire", "p4", "gs-b", 0)[0] == "taken"
    for key, seq in (("newer", 9), ("equal", 4), ("other", 4)):
        game.call("wk_save", key, "p1", "gs-a", one, seq, b"here")
    sent = [(f"k{n}", "p2", two, 1, b"fresh") for n in range(3000)]
    sent += [("newer", "p1", one, 8, b"late"), ("equal", "p1", one, 4, b"here"), ("other", "p1", one, 4, b"else"),
             ("gone", "p1", one + 1, 1, b"x"), ("theirs", "p3", theirs, 1, b"x"),
             ("gone too", "p4", late, 1, b"x"), ("nolock", "p9", 1, 1, b"x"),
             ("up", "p1", one, 1, b"up")]
    game.rows("wk_send_open")
    with game.con.cursor() as cur:
        cur.executemany("INSERT INTO wk_sent (blob_key, lock_key, lock_seq, seq, `blob`) VALUES (%s,%s,%s,%s,%s)", sent)
    want = {(b"newer", "stale", 9), (b"other", "stale", 4), (b"gone", "unknown", None), (b"theirs", "unknown", None),
            (b"nolock", "unknown", None), (b"gone too", "stolen", None)}
    for _ in range(2):  # a repetition has the same outcome
        assert {(key, outcome, seq) for outcome, key, seq in game.rows("wk_send", "gs-a")} == want
        assert central.sql("SELECT COUNT(*) FROM wk_blob WHERE `blob`='fresh' AND lock_seq=1") == ((3000,),)
        assert central.blob("up") == (1, one, b"up") and central.blob("newer") == (9, one, b"here")
        assert central.sql("SELECT COUNT(*) FROM wk_blob") == ((3004,),)
    assert game.rows("wk_send_open") == () and game.rows("wk_send", "gs-a") == ()


# ---- unusual callers

CALLS = [("wk_acquire", ("p1", "gs-a", 1)), ("wk_load", ("p1", "gs-a", 1)), ("wk_save", ("b1", "p1", "gs-a", 1, 9, b"x")),
         ("wk_release", ("p1", "gs-a", 1)), ("wk_beat", ("gs-a",))]


@pytest.mark.parametrize("mode", ["", "STRICT_ALL_TABLES"])
def test_arguments_that_are_wrong_are_refused(central, game, mode):
    """Invalid arguments are refused, also if the caller's sql_mode would truncate a key."""
    seq = take(game)
    game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x")
    game.sql(f"SET sql_mode='{mode}'")
    before = central.sql("SELECT * FROM wk_lock"), central.sql("SELECT * FROM wk_blob")
    for name, args in CALLS:
        for i, arg in enumerate(args):
            for wrong in [None] + (["", "k" * 65, "k" * 300] if isinstance(arg, str) else []):
                if (name, i, wrong) == ("wk_acquire", 2, None):
                    continue
                code, text = refused(game.call, name, *args[:i], wrong, *args[i + 1:])
                assert code == 1406 or (code == 1644 and name in text), (name, i, wrong)
    assert refused(game.call, "wk_acquire", "p1", "gs-a", -1)[0] == 1644
    assert before == (central.sql("SELECT * FROM wk_lock"), central.sql("SELECT * FROM wk_blob"))


def test_keys_are_bytes(central, game):
    """Case, trailing spaces and accents make keys different."""
    for n, key in enumerate((b"a", b"A", b"a ", b"a\0", "á".encode(), b"\xff\xfe", b"k" * 64)):
        assert game.call("wk_acquire", key, "gs-a", None)[:2] == ("locked", 1), key
        assert game.call("wk_save", key, key, "gs-a", 1, 1, key) == "saved"
        assert central.sql("SELECT COUNT(*) FROM wk_blob") == ((n + 1,),)


@pytest.mark.parametrize("setting", ["SET autocommit=0", "SET completion_type=1", "START TRANSACTION",
                                     "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                                     "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                                     "SET NAMES latin1", "SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
                                     "SET time_zone='+13:00'"])
def test_sessions_of_every_kind(central, setting):
    """What a call has answered is committed whatever the settings of the caller's session, and no transaction stays open."""
    game, other = central.client(), central.client()
    game.sql(setting)
    assert game.call("wk_acquire", "p1", "gs-a", 1000)[0] == "locked"
    assert other.call("wk_acquire", "p1", "gs-b", 100_000)[0] == "busy"
    assert game.rows("wk_load", "p1", "gs-a", 1)[0][0] == "none"
    assert game.call("wk_save", "b1", "p1", "gs-a", 1, 1, b"x") == "saved" and central.blob("b1") == (1, 1, b"x")
    assert game.call("wk_save", "b1", "p1", "gs-a", 1, 2, b"y") == "saved" and central.blob("b1") == (2, 1, b"y")
    assert other.call("wk_acquire", "p1", "gs-b", 0)[0] == "taken"
    assert other.rows("wk_load", "p1", "gs-b", 2) == (("loaded", b"b1", 2, b"y"),)
    assert game.call("wk_save", "b1", "p1", "gs-a", 1, 3, b"z") == "stolen"
    assert game.rows("wk_load", "p1", "gs-a", 1)[0][0] == "stolen"
    assert game.call("wk_acquire", "p1", "gs-a", None)[0] == "busy"
    assert game.call("wk_release", "p1", "gs-a", 1) == "not-ours"
    assert other.call("wk_release", "p1", "gs-b", 2) == "released"
    assert game.call("wk_acquire", "p1", "gs-a", None)[:2] == ("locked", 3)
    game.sql("ROLLBACK")
    assert other.call("wk_acquire", "p1", "gs-b", None)[0] == "busy"


def test_big_blobs(central, game):
    """A blob of 16 MiB is saved and loaded under a sufficient max_allowed_packet."""
    old = central.server.value("SELECT @@global.max_allowed_packet")
    central.server.sql(f"SET GLOBAL max_allowed_packet={64 << 20}")
    try:
        big, blob = central.client(max_allowed_packet=64 << 20), bytes(range(256)) * (1 << 16)
        seq = take(big)
        assert big.call("wk_save", "b1", "p1", "gs-a", seq, 1, blob) == "saved"
        assert big.call("wk_save", "b1", "p1", "gs-a", seq, 1, blob) == "same"
        assert big.rows("wk_load", "p1", "gs-a", seq) == (("loaded", b"b1", 1, blob),)
    finally:
        central.server.sql(f"SET GLOBAL max_allowed_packet={old}")


@pytest.mark.parametrize("log_format", ["STATEMENT", "MIXED", "ROW"])
def test_every_format_of_the_binary_log(make_server, log_format):
    """All routines work with every format of the binary log."""
    server = make_server("--log-bin", "--binlog-format=" + log_format)
    central = Central(server)
    game, other = central.client(), central.client()
    seq = take(game)
    for n in range(1, 4):
        assert game.call("wk_save", "b1", "p1", "gs-a", seq, n, bytes(range(256))) == "saved"
    assert other.call("wk_acquire", "p1", "gs-b", 0)[0] == "taken"
    other.rows("wk_load", "p1", "gs-b", seq + 1)
    two = take(other, "p2", "gs-b")
    assert other.call("wk_save_many", "gs-b", json.dumps([save_of("b1", "p1", seq + 1, 9, b"\xff"),
                                                        save_of("b2", "p2", two, 1, b"\0'")])) == ("saved", None)
    other.rows("wk_send_open")
    other.sql(f"INSERT INTO wk_sent VALUES ('b3','p2',{two},1,'x'),('b1','p1',{seq},10,'y')")
    assert other.rows("wk_send", "gs-b") == (("stolen", b"b1", 9),)
    other.call("wk_beat", "gs-b")
    assert other.call("wk_release", "p2", "gs-b", two) == "released"
    central.close()


# ---- many at once

def test_a_crowd_at_one_lock(central):
    """Under many concurrent calls every lock number is given out exactly once, and every takeover is recorded."""
    got, clients = [], [central.client() for _ in range(8)]

    def play(n, client):
        for i in range(40):
            outcome, seq, *_ = client.call("wk_acquire", f"p{i % 2}", f"gs-{n}", 0 if i % 3 else None)
            if outcome != "busy":
                got.append((i % 2, seq, outcome))
    threads = [threading.Thread(target=play, args=pair) for pair in enumerate(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({(lock, seq) for lock, seq, _ in got}) == len(got) > 50
    assert sum(outcome == "taken" for *_, outcome in got) == central.sql("SELECT COUNT(*) FROM wk_takeover")[0][0]
    for lock in (0, 1):
        numbers = [seq for where, seq, _ in got if where == lock]
        (last,) = central.sql(f"SELECT lock_seq FROM wk_lock WHERE lock_key='p{lock}'")[0]
        assert sorted(numbers) == list(range(1, last + 1))


def test_nobody_waits_for_a_holder(central, game):
    """wk_acquire answers `busy` while another transaction has the row, and a save of the old holder that waits for the row is
    refused after the takeover."""
    seq = take(game)
    game.call("wk_save", "b1", "p1", "gs-a", seq, 1, b"x")
    assert central.client().call("wk_acquire", "p1", "gs-b", 1 << 40)[0] == "busy"
    admin, late = central.server.admin(central.schema, autocommit=False), central.client()
    with admin.cursor() as cur:
        cur.execute("SELECT * FROM wk_lock WHERE lock_key='p1' FOR UPDATE")
        assert central.client().call("wk_acquire", "p1", "gs-b", 1 << 40)[0] == "busy"
        said = []
        saver = threading.Thread(target=lambda: said.append(late.call("wk_save", "b1", "p1", "gs-a", seq, 2, b"late")))
        saver.start()
        waits(central, late, "the save")
        cur.execute("UPDATE wk_lock SET lock_seq=lock_seq+1, lock_id='gs-b' WHERE lock_key='p1'")
        admin.commit()
    saver.join()
    admin.close()
    assert said == ["stolen"] and central.blob("b1")[2] == b"x"


def locked_row(central):
    """Returns a connection whose transaction has locked the row of p1."""
    admin = central.server.admin(central.schema, autocommit=False)
    with admin.cursor() as cur:
        cur.execute("SELECT * FROM wk_lock WHERE lock_key='p1' FOR UPDATE")
    return admin


def patient(server):
    """Returns a central store whose calls wait for a locked row without limit."""
    return Central(server, sql=schema_sql([("v_rounds > 12 AND RAND() < 0.1", "FALSE"), ("v_rounds > 100", "FALSE")]))


@contextlib.contextmanager
def waiting(central, answers, more=()):
    """Starts 30 calls of wk_acquire. Each has paused at least once when the block begins, and all have ended after it."""
    waiters, slept = [central.client() for _ in range(30)], set()
    calls = [threading.Thread(target=lambda n=n, w=w: answers.append(w.call("wk_acquire", "p1", f"gs-{n}", None)))
             for n, w in enumerate(waiters)]
    for call in calls:
        call.start()

    def all_slept():
        slept.update(session.id for session in central.server.sessions(state="User sleep"))
        return slept >= {w.con.thread_id() for w in waiters}
    wait_for(all_slept, "each of them to pause")
    yield
    for call in (*more, *calls):
        call.join()


def one_has_it(answers):
    (winner,) = [a for a in answers if a[0] == "locked"]
    answers.remove(winner)
    assert {a[:3] for a in answers} == {("busy", *winner[1:3])} and all(a[4] >= 0 for a in answers), "and each was told who has it"


def test_a_release_waits_for_no_waiter(server):
    """A release does not queue behind calls that want the lock, because these look again instead of waiting for its row."""
    central = patient(server)
    holder, answers, said = central.client(), [], []
    seq = take(holder)
    admin = locked_row(central)
    release = threading.Thread(target=lambda: said.append(holder.call("wk_release", "p1", "gs-a", seq)))
    with waiting(central, answers, [release]):
        release.start()
        waits(central, holder, "the release")
        assert not answers
        admin.rollback()
    admin.close()
    assert said == ["released"]
    one_has_it(answers)
    central.close()


def test_nobody_queues_for_a_lock_that_is_being_made(server):
    central = patient(server)
    answers, admin = [], central.server.admin(central.schema, autocommit=False)
    with admin.cursor() as cur:
        cur.execute("INSERT INTO wk_lock (lock_key, lock_seq, lock_id, locked_at) VALUES ('p1', 1, 'gs-x', UTC_TIMESTAMP(3))")
    with waiting(central, answers):
        assert not central.server.waiting_for_rows() and not answers
        admin.rollback()
    admin.close()
    one_has_it(answers)
    central.close()


def test_a_row_that_stays_locked_is_waited_for(central, game):
    """A call waits for a row that stays locked, and the session's own lock timeouts are unchanged afterwards."""
    take(game)
    other, said, admin = central.client(), [], locked_row(central)
    limits = "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout"
    before = other.sql(limits)
    call = threading.Thread(target=lambda: said.append(other.call("wk_acquire", "p1", "gs-b", 0)))
    call.start()
    waits(central, other, "the takeover")
    admin.rollback()
    call.join()
    admin.close()
    assert said[0][:3] == ("taken", 2, "gs-b") and other.sql(limits) == before
