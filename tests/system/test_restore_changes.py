"""Random changes of definitions between a dump and a loss. The world is always restored. Tables that were not touched are as
they were; each other one has its present definition, or that of the dump, which is then reported.

WK_SEED=N repeats a run, WK_CHANGES is the number of worlds (`make changes`). World number n has the seed N+n, so that it can
be repeated alone: WK_SEED=N+n WK_CHANGES=1 WK_CHANGES_LOG=yes|no.

WK_CHANGES_MIXED=yes: the restarted servers also have other settings, and sessions hold locks on the emptied tables.
WK_CHANGES_STATE=FILE: progress is saved there, and a run that was stopped continues with its seed."""
import contextlib
import json
import os
import random
import re
import statistics
import time

import pymysql
import pytest
from test_blocked import GAME, LISTS_LOCKS, MAY_END, grant
from wk.keeper import USER
from wk.server import KIND, MYSQL
from wk.settings import LEFT_OUT, settings_of
from wk.snapshot import snapshot, table_rows
from wk.util import CANARY, ident

SEED = int(os.environ.get("WK_SEED") or random.randrange(10 ** 9))
MIXED = os.environ.get("WK_CHANGES_MIXED") == "yes"
STATE = os.environ.get("WK_CHANGES_STATE")
CASES = int(os.environ.get("WK_CHANGES", "24"))
HOW = os.environ.get("WK_CHANGES_LOG", "")
TOGETHER = 6  # worlds per server crash
AUTOMATIC = 4  # one of so many is restored by its supervisor
LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
NO_LOG = ["--skip-log-bin"] if MYSQL else []
TYPES = {  # type: a default value of it
    "TINYINT": "3", "INT": "4", "INT UNSIGNED": "5", "BIGINT": "6", "DECIMAL(12,2)": "1.5", "DECIMAL(6,0)": "7",
    "DOUBLE": "0.5", "FLOAT": "0.25", "VARCHAR(40)": "'x'", "VARCHAR(12)": "'xy'", "CHAR(20)": "'y'",
    "VARCHAR(60) CHARACTER SET latin1": "'z'", "VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin": "'Z'",
    "VARBINARY(40)": "'b'", "BINARY(8)": "'b'", "DATE": "'2020-02-03'", "DATETIME(3)": "'2020-02-03 04:05:06.789'",
    "DATETIME": "'2020-02-03 04:05:06'", "TIMESTAMP": "'2020-02-03 04:05:06'", "TIME": "'01:02:03'", "YEAR": "2020", "BIT(9)": "5",
    "ENUM('a','b','c')": "'b'", "ENUM('c','a','b')": "'c'", "ENUM('a','b','c','d')": "'a'", "ENUM('a','b')": "'a'",
    "SET('a','b','c')": "'a,c'", "SET('a','b','c','d')": "'b'",
}
ENGINES = ["InnoDB", "MEMORY", "MyISAM"] if MYSQL else ["InnoDB", "MEMORY", "Aria", "MyISAM"]
COUNTER = re.compile(r" AUTO_INCREMENT=\d+")


class Change:
    """One world, and the changes of its tables `a` and `b`; `calm` and `bank` are not touched."""

    def __init__(self, seed, logged, world, keeper):
        self.seed, self.logged, self.world, self.keeper = seed, logged, world, keeper
        self.rand = random.Random(f"{seed}/changes")
        self.done, self.stages, self.number = [], {"a": [], "b": []}, 0
        self.aside, self.under, self.usual, self.holder = world.schema + "_ref", [], [], None
        self.outage = None  # seconds from the server's start, when no other world of it is being restored, until UP

    def hold(self):
        """Opens a session of the game that has read the emptied tables and idles, so that the restore waits for it."""
        self.holder = con = self.world.server.admin(self.world.schema, user=GAME, password=CANARY)
        with con.cursor() as cur:
            for statement in ("SET autocommit=0", "SELECT * FROM bank", "SELECT * FROM calm"):
                cur.execute(statement)

    def about(self):
        log = "yes" if self.logged else "no"
        return f"WK_SEED={self.seed} WK_CHANGES=1 WK_CHANGES_LOG={log}: " + "; ".join(self.done)

    # -- before the dump --------------------------------------------------------------------

    def build(self):
        r, sql = self.rand, []
        for t in ("a", "b"):
            kinds = r.sample(list(TYPES), r.randint(2, 5))
            key = r.choice(["PRIMARY KEY (id)", "PRIMARY KEY (id)", "KEY (id)", "PRIMARY KEY (id), KEY k (c0)"])
            auto = " AUTO_INCREMENT" if r.random() < 0.3 else ""
            columns = "".join(f", c{i} {kind} {r.choice(['NOT NULL', 'NULL', f'NOT NULL DEFAULT {TYPES[kind]}'])}"
                              for i, kind in enumerate(kinds))
            part = "" if MYSQL or r.random() < 0.7 or "AUTO" in auto else (
                " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)")
            sql += [f"CREATE TABLE {t} (id INT NOT NULL{auto}{columns}, {key}) ENGINE=MEMORY{part}"]
            for n in range(1, r.randint(3, 30)):
                values = ",".join(self.value(kind) for kind in kinds)
                sql += [f"INSERT IGNORE INTO {t} VALUES ({n},{values})"]
        self.world.sql(*sql, "CREATE TABLE calm (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=MEMORY",
                       "INSERT INTO calm SELECT seq, CONCAT('v',seq) FROM seq_1_to_200",
                       "CREATE TABLE bank (id INT PRIMARY KEY, gold INT) ENGINE=InnoDB", "INSERT INTO bank VALUES (1,5)",
                       f"CREATE DATABASE {ident(self.aside)}")
        if r.random() < 0.3:
            self.world.sql("CREATE DEFINER=keeper@localhost TRIGGER watch BEFORE UPDATE ON a FOR EACH ROW SET NEW.id=NEW.id")
        self.keeper.init()
        self.keeper.dump()
        self.note()

    def value(self, kind):
        r = self.rand
        if r.random() < 0.6:
            return TYPES[kind]
        if "INT" in kind or "DECIMAL" in kind:
            return str(r.randint(0, 120))
        if "CHAR" in kind:
            return r.choice(["'ő'", "'a '", "'10'", "'long text'", "''"]) if "latin1" not in kind else "'é'"
        return "NULL" if r.random() < 0.3 else TYPES[kind]

    # -- pictures of each moment ----------------------------------------------------------------

    def picture(self, table):
        """Returns (definition, rows) of a base table, or None if it is not one."""
        con = self.world.server.admin(self.world.schema)
        try:
            with con.cursor() as cur:
                cur.execute("SELECT 1 FROM information_schema.tables WHERE table_schema=%s AND table_name=%s AND "
                            "table_type='BASE TABLE'", (self.world.schema, table))
                if not cur.fetchall():
                    return None
                cur.execute(f"SHOW CREATE TABLE {ident(table)}")
                return COUNTER.sub("", cur.fetchall()[0][1]), table_rows(cur, self.world.schema, table)
        finally:
            con.close()

    def note(self):
        """Saves the rows in a durable table, where no loss reaches them."""
        self.number += 1
        for table, stages in self.stages.items():
            picture = self.picture(table)
            if stages and stages[-1][0] == picture:
                continue
            copy = f"{table}_{self.number}"
            if picture:
                self.world.sql("SET sql_log_bin=0", f"CREATE TABLE {ident(self.aside)}.{copy} ENGINE=InnoDB "
                               f"AS SELECT * FROM {table}")
            stages.append((picture, copy))

    # -- the changes ----------------------------------------------------------------------------

    def columns(self, table):
        return [c for (c,) in self.world.sql(
            f"SELECT column_name FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name='{table}' "
            "AND COALESCE(generation_expression,'')='' ORDER BY ordinal_position")]

    def change(self, t):
        """Returns statements: the last one changes a definition, those before it prepare rows for it or belong to it."""
        r = self.rand
        columns = self.columns(t)
        if not columns:
            return [r.choice([f"CREATE TABLE {t} (id INT PRIMARY KEY, fresh INT) ENGINE=MEMORY", "DO 0"])]
        c, fresh = r.choice(columns), f"n{r.randint(1, 999)}"
        kind = r.choice(list(TYPES))
        unique = [f"CREATE TEMPORARY TABLE keep_{fresh} ENGINE=InnoDB SELECT {c}, MIN(id) AS i FROM {t} GROUP BY {c}"
                  if "id" in columns and c != "id" else "DO 0",
                  f"DELETE FROM {t} WHERE id NOT IN (SELECT i FROM keep_{fresh})" if "id" in columns and c != "id" else "DO 0"]
        ways = [
            [f"ALTER TABLE {t} ADD COLUMN {fresh} {kind} NOT NULL DEFAULT {TYPES[kind]}{r.choice(['', ' FIRST'])}"],
            [f"ALTER TABLE {t} ADD COLUMN {fresh} {kind} NULL"],
            [f"ALTER TABLE {t} ADD COLUMN {fresh} {kind} NOT NULL"],
            [f"ALTER TABLE {t} ADD COLUMN {fresh} INT NOT NULL AUTO_INCREMENT UNIQUE"],
            [f"ALTER TABLE {t} DROP COLUMN {c}"],
            [f"ALTER TABLE {t} DROP COLUMN {c}, ADD COLUMN {c} {kind}"],
            [f"ALTER TABLE {t} MODIFY {c} {kind} {r.choice(['NULL', 'NOT NULL'])}"],
            [f"UPDATE {t} SET {c}={TYPES[kind]} WHERE {c} IS NULL", f"ALTER TABLE {t} MODIFY {c} {kind} NOT NULL"],
            [f"UPDATE IGNORE {t} SET {c}=1", f"ALTER TABLE {t} MODIFY {c} {kind} NOT NULL"],
            [f"ALTER TABLE {t} CHANGE {c} {fresh} {kind}"],
            [f"ALTER TABLE {t} CHANGE {c} {r.choice(columns)}_2 {kind}"],
            [*unique, f"ALTER TABLE {t} ADD UNIQUE KEY u_{fresh} ({c})"],
            [f"ALTER TABLE {t} ADD INDEX i_{fresh} ({c}) USING BTREE"],
            [f"CREATE UNIQUE INDEX u_{fresh} ON {t} ({c})"],
            [f"ALTER TABLE {t} DROP PRIMARY KEY"], [f"ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY ({c})"],
            [f"ALTER TABLE {t} ADD PRIMARY KEY ({c})"],
            [f"ALTER TABLE {t} DROP INDEX {r.choice(['k', 'id', 'u_' + fresh])}"],
            [f"ALTER TABLE {t} ENGINE={r.choice(ENGINES)}"],
            [f"ALTER TABLE {t} ENGINE=InnoDB", f"ALTER TABLE {t} ENGINE=MEMORY"],
            [f"ALTER TABLE {t} CONVERT TO CHARACTER SET {r.choice(['latin1', 'utf8mb3', 'utf8mb4', 'ucs2'])}"],
            [f"ALTER TABLE {t} DEFAULT CHARACTER SET latin1, COMMENT='x'"],
            [f"DELETE FROM {t} WHERE id>5" if "id" in columns else f"DELETE FROM {t}", f"ALTER TABLE {t} MAX_ROWS=6"],
            [f"DELETE FROM {t} WHERE {c} IS NULL", f"ALTER TABLE {t} ADD CONSTRAINT ch_{t}_{fresh} CHECK ({c} IS NOT NULL)"],
            [f"UPDATE {t} SET {c}=1", f"ALTER TABLE {t} ADD CHECK (CHAR_LENGTH({c})<3)"],
            [f"ALTER TABLE {t} ADD COLUMN {fresh} INT AS (CHAR_LENGTH({c})) " + ("VIRTUAL" if MYSQL else
             r.choice(["VIRTUAL", "PERSISTENT"]))],
            [f"ALTER TABLE {t} MODIFY {c} INT AS (1) " + ("STORED" if MYSQL else "PERSISTENT")],
            [f"RENAME TABLE {t} TO {t}_{fresh}"], [f"RENAME TABLE {t} TO x, {'b' if t == 'a' else 'a'} TO {t}, x TO "
                                                   f"{'b' if t == 'a' else 'a'}"],
            [f"DROP TABLE {t}"], [f"DROP TABLE {t}", f"CREATE VIEW {t} AS SELECT 1 AS id"],
            [f"RENAME TABLE {t} TO {t}_store", f"CREATE VIEW {t} AS SELECT * FROM {t}_store"],
            [f"DROP TABLE {t}", f"CREATE TABLE {t} (id INT, other {kind}) ENGINE=MEMORY"],
            [f"DROP TABLE {t}", f"CREATE TABLE {t} (id INT, other {kind}) ENGINE=InnoDB", f"INSERT INTO {t} (id) VALUES (3)"],
            [f"CREATE TABLE {t}_new LIKE {t}", f"ALTER TABLE {t}_new ADD COLUMN {fresh} {kind} DEFAULT {TYPES[kind]}, "
             f"ADD UNIQUE u_{fresh} ({c})", f"INSERT IGNORE INTO {t}_new ({','.join(columns)}) SELECT * FROM {t}",
             f"RENAME TABLE {t} TO {t}_old, {t}_new TO {t}"],
            [f"TRUNCATE TABLE {t}", f"ALTER TABLE {t} DROP COLUMN {c}"],
            [f"ALTER TABLE {t} ADD COLUMN {fresh} INT NOT NULL DEFAULT 1",
             f"CREATE DEFINER=keeper@localhost TRIGGER tr_{t}_{fresh} BEFORE INSERT ON {t} FOR EACH ROW SET NEW.{fresh}=2",
             f"ALTER TABLE {t} DROP COLUMN {c}"],
            [f"ALTER TABLE {t} AUTO_INCREMENT=500"],
        ]
        if not MYSQL:
            ways += [
                [f"ALTER IGNORE TABLE {t} ADD UNIQUE KEY u_{fresh} ({c})"], [f"ALTER IGNORE TABLE {t} MODIFY {c} {kind} NOT NULL"],
                [f"ALTER TABLE {t} DROP PARTITION p1"], [f"ALTER TABLE {t} TRUNCATE PARTITION p0"],
                [f"ALTER TABLE {t} REMOVE PARTITIONING"], [f"ALTER TABLE {t} PARTITION BY HASH (id) PARTITIONS 3"],
                [f"DELETE FROM {t} WHERE id>20", f"ALTER TABLE {t} PARTITION BY RANGE (id) (PARTITION z VALUES LESS THAN (21))"],
                [f"CREATE OR REPLACE TABLE {t} (id INT PRIMARY KEY, v INT) ENGINE=MEMORY"],
                [f"DROP TABLE {t}", f"CREATE SEQUENCE {t}"],
                [f"ALTER TABLE {t} ADD COLUMN {fresh} INT INVISIBLE DEFAULT 3"],
            ]
        return r.choice(ways)

    def play(self):
        """Changes rows, then definitions. Statements that the server refuses are ignored."""
        if self.logged and self.rand.random() < 0.7:  # without a log they are lost with the server
            self.world.sql("UPDATE calm SET v='later' WHERE id<9", "DELETE FROM calm WHERE id=100",
                           "INSERT INTO calm VALUES (900,'new')")
            for t in ("a", "b"):
                try:
                    self.world.sql(f"DELETE FROM {t} WHERE id=2", f"UPDATE IGNORE {t} SET c0=c0 WHERE id>3")
                except pymysql.err.Error:
                    pass
        self.note()
        for _ in range(self.rand.randint(1, 3)):
            con = self.world.server.admin(self.world.schema)
            try:
                with con.cursor() as cur:
                    if self.rand.random() < 0.3:
                        cur.execute("SET SESSION sql_mode=''")
                    for sql in self.change(self.rand.choice("ab")):
                        cur.execute(sql)
                        self.done.append(sql)
                        self.note()
            except pymysql.err.Error as e:
                self.done.append(f"({e.args[0]})")
                self.note()
            finally:
                con.close()
        self.before = self.calm()

    def calm(self):
        return {k: v for k, v in snapshot(self.world.server, self.world.schema).items() if k.split()[-1] in ("calm", "bank")}

    # -- after the loss ---------------------------------------------------------------------------

    def restore(self, automatic):
        """Restores the world and returns the result, or None if it failed and --check had reported the server's settings."""
        began = time.monotonic()
        if not automatic:
            done = self.keeper.run("--restore", "--json")
            self.outage = time.monotonic() - began
            if done.rc and self.under:
                checked = self.keeper.run("--check", "--json").json["result"]["checks"]
                if any(c["level"] == "fail" for c in checked):
                    return None
            assert done.rc == 0, (self.about(), self.under, done)
            return done.result
        self.keeper.start(None)
        try:
            self.keeper.wait_state("UP")
            self.outage = time.monotonic() - began
            return self.keeper.expect("the restore", last_restore=lambda r: r and r["ok"])["last_restore"]
        except Exception as e:
            raise AssertionError(self.about()) from e
        finally:
            self.keeper.stop()

    def fits(self, table, copy):
        """Returns whether the table's rows are those of an earlier moment, as the server converts them into its columns."""
        mine = self.columns(table)
        con = self.world.server.admin(self.world.schema)
        try:
            with con.cursor() as cur:
                cur.execute("SET sql_log_bin=0")
                cur.execute("SELECT column_name FROM information_schema.columns WHERE table_schema=%s AND table_name=%s",
                            (self.aside, copy))
                common = ",".join(ident(c) for (c,) in cur.fetchall() if c in mine)
                cur.execute(f"DROP TABLE IF EXISTS {ident(self.aside)}.cmp")
                cur.execute(f"CREATE TABLE {ident(self.aside)}.cmp LIKE {ident(table)}")
                try:
                    cur.execute(f"INSERT INTO {ident(self.aside)}.cmp ({common}) SELECT {common} FROM "
                                f"{ident(self.aside)}.{copy}")
                except pymysql.err.Error:
                    return False
                return table_rows(cur, self.aside, "cmp") == table_rows(cur, self.world.schema, table)
        finally:
            con.close()

    def check(self, told):
        """Asserts how each table was restored, and returns it."""
        assert self.calm() == self.before, self.about()
        said = {t["table"]: t["was"] for t in told.get("as_dumped", [])}
        whole = told.get("journal", {}).get("whole")
        how = []
        for table, stages in self.stages.items():
            now, first, last = self.picture(table), stages[0][0], stages[-1][0]
            about = (self.about(), table, told, now, stages)
            assert now, about
            if now == last:
                how.append("as it was")
                assert table not in said or now == first, about
                continue
            assert now[0] in (first[0], last[0] if last else None), about
            if not last or now[0] != last[0]:
                assert table in said, about
                how.append("as dumped")
            else:
                assert table not in said, about
                how.append("as it is defined now")
            moments = [(p, c) for p, c in stages if p]
            assert any(p[1] == now[1] for p, c in moments) or any(self.fits(table, c) for p, c in moments), about
            assert not (whole and last and now[0] == last[0]), about
        return how


class Campaign:
    """The counts of a run, which are saved to a file if WK_CHANGES_STATE is set."""

    def __init__(self, logged):
        self.key = f"{KIND}, {'with' if logged else 'without'} a log"
        self.all = {}
        if STATE and os.path.exists(STATE):
            with open(STATE, encoding="utf-8") as f:
                self.all = json.load(f)
        self.mine = self.all.setdefault(self.key, {"seed": SEED, "losses": 0, "up": 0, "settings": 0, "sessions": 0, "tables": {}})
        self.mine.setdefault("outages", [])  # milliseconds, of each world that came UP

    def outages(self):
        """Returns a summary of the measured outages. A state file of an earlier version has fewer than losses."""
        ms = self.mine["outages"]
        if not ms:
            return "no outage measured"
        return f"outage: median {statistics.median(ms) / 1000:.1f} s, worst {max(ms) / 1000:.1f} s of {len(ms)}"

    def keep(self):
        if STATE:
            with open(STATE + ".new", "w", encoding="utf-8") as f:
                json.dump(self.all, f, indent=1)
            os.rename(STATE + ".new", STATE)


def other_settings(server, rand):
    """Returns some settings that this server accepts, as a server that starts after a crash may have them, and their present
    values."""
    taken, before, known = [], [], [s for s in settings_of(server) if s.name not in LEFT_OUT]
    # One session for all, because an extreme setting may end a session that begins under it.
    with contextlib.closing(server.admin()) as session:
        for setting in rand.sample(known, rand.randint(1, 4)):
            try:
                with session.cursor() as cursor:
                    cursor.execute(f"SELECT @@GLOBAL.{setting.name}")
                    ((was,),) = cursor.fetchall()
                    cursor.execute(f"SET GLOBAL {setting.name}={setting.value}")
            except pymysql.err.Error:
                continue
            taken.append(f"{setting.name}={setting.value}")
            before.append(f"{setting.name}={pymysql.converters.escape_item(was, 'utf8mb4')}")
        change_settings(session, before)
    return taken, before


def change_settings(session, settings):
    with session.cursor() as cursor:
        for setting in settings:
            cursor.execute(f"SET GLOBAL {setting}")


def mix(server, worlds):
    """Gives the restarted server other settings and sessions that hold locks; each world records what it met."""
    rand = random.Random(f"{worlds[0].seed}/mixed")
    server.account(GAME, [w.world.schema for w in worlds], server_rights="")
    grant(server, *MAY_END)
    for w in worlds:
        if rand.random() < 0.5:
            w.hold()
    under, before = other_settings(server, rand) if rand.random() < 0.6 else ([], [])
    for w in worlds:
        w.under, w.usual = under, before


@pytest.mark.each_server
@pytest.mark.parametrize("logged", [True, False])
def test_changes_of_definitions(make_server, make_world, make_keeper, logged):
    if HOW and (HOW == "yes") != logged:
        return
    server = make_server(*(LOG if logged else NO_LOG), *(LISTS_LOCKS if MIXED else []))
    campaign = Campaign(logged)
    seed, told = campaign.mine["seed"], campaign.mine
    print(f"WK_SEED={seed} WK_CHANGES={CASES}; done before: {told['losses']}")
    cases = (CASES + 1) // 2 if not HOW else CASES
    for first in range(told["losses"], cases, TOGETHER):
        worlds = []
        for k in range(first, min(first + TOGETHER, cases)):
            world = make_world("empty", server)
            settings = {"dump": {"shrink_limit": "100%"}, "journal": {"mode": "server"} if logged else {}}
            worlds.append(Change(seed + k, logged, world, make_keeper(
                world, {**settings, "restore": {"lock_wait": "1s"}} if MIXED else settings, account=False)))
        server.account(USER, [w.world.schema for w in worlds])
        for w in worlds:
            w.build()
            w.play()
        server.crash()
        if MIXED:
            mix(server, worlds)
        for w in worlds:
            with contextlib.closing(server.admin()) as session:  # began under the usual settings, so it can restore them
                change_settings(session, w.under)
                back = w.restore(w.seed % AUTOMATIC == 0 and not w.under)
                change_settings(session, w.usual)
            told["losses"] += 1
            told["up"] += back is not None
            told["settings"] += bool(w.under)
            told["sessions"] += w.holder is not None
            if back is not None:
                told["outages"].append(round(w.outage * 1000))
            for how in w.check(back) if back is not None else ["named by --check before"]:
                told["tables"][how] = told["tables"].get(how, 0) + 1
            campaign.keep()
        for w in worlds:
            if w.holder and w.holder.open:
                w.holder.close()
            w.keeper.destroy()
        if any(w.under for w in worlds):
            server.crash()  # resets the settings
        for w in worlds:
            server.sql(f"DROP DATABASE {ident(w.world.schema)}", f"DROP DATABASE {ident(w.aside)}")
    print(f"{told['losses']} losses, {told['up']} UP, {told['settings']} under other settings, {told['sessions']} with sessions "
          f"that held locks; {campaign.outages()}; tables: {told['tables']}")
