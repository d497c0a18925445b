"""The costs and savings of ledgers with rollups: the longest wait of a game, rollups, totals, dumps, memory."""
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

from wk.server import Server, as_mysql

from measure import Failed, cpu_of, kb_of

KEYS = 100000         # keys of size 1
DAYS, A_DAY = 30, 42  # days of play, and gains of a key on each
MONTH_KEYS = 2000     # keys whose month of play is summed and dumped
RATE = 5000           # gains per second of the game whose waits are measured
FLAT_BATCH = 400
TABLE = ("CREATE TABLE {} (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
         "xp INT NOT NULL, at DATETIME NOT NULL, KEY k USING BTREE (player, mini, id)) ENGINE={}")
LEDGER = {"table": "gains", "key": "player, mini", "value": "xp", "time": "at", "levels": "level"}
BARE = "INSERT INTO bare SELECT player,mini,SUM(xp),MAX(id),MAX(at),COUNT(*) FROM gains GROUP BY player,mini"


class Cost:
    """Measures wall and processor time of a block, of the server and of child processes."""

    def __init__(self, server):
        self.server = server

    def __enter__(self):
        self.cpu, self.began = cpu_of(self.server.process.pid), time.monotonic()
        return self

    def __exit__(self, *_):
        self.wall = time.monotonic() - self.began
        self.cpu = cpu_of(self.server.process.pid) - self.cpu


class Ledgers:
    """A server, a keeper, and one ledger at a time."""

    def __init__(self, base, lab, size, rounds, seconds, flat_rows, say):
        os.environ["WORLDKEEPER"] = lab.tool("worldkeeper")
        from wk.keeper import USER, Keeper  # pylint: disable=import-outside-toplevel; it looks for the program
        from wk.world import World  # pylint: disable=import-outside-toplevel
        self.lab, self.rounds, self.seconds, self.flat_rows, self.say = lab, rounds, seconds, flat_rows, say
        self.rows, self.keys = max(20000, round(2000000 * size)), max(1000, round(KEYS * size))
        self.month_keys = max(50, round(MONTH_KEYS * size))
        self.server = Server(base, "--max-heap-table-size=8G", "--tmp-table-size=1G", "--innodb-buffer-pool-size=512M",
                             "--skip-log-bin")
        self.server.start()
        self.world = World(self.server, "small")
        self.keeper = Keeper(tempfile.mkdtemp(dir=base), self.world)
        self.server.grant(USER + "@localhost", self.world.schema, "DELETE, CREATE VIEW")

    # -- a ledger -------------------------------------------------------------------------------------

    def make(self, engine, rollup_after="0"):
        sql = self.world.sql
        sql("DROP VIEW IF EXISTS xp_level", "DROP VIEW IF EXISTS xp_total",
            "DROP TABLE IF EXISTS gains, xp_rollup, xp_mark, bare, month, level", TABLE.format("gains", engine),
            "CREATE TABLE level (level INT NOT NULL PRIMARY KEY, amount INT) ENGINE=MEMORY",
            "INSERT INTO level VALUES " + ",".join(f"({n},{n * 1000})" for n in range(1, 31)))
        self.keeper.configure({"ledger xp": {**LEDGER, "rollup_after": rollup_after}})
        self.keeper.init()
        sql("CREATE TABLE bare LIKE xp_rollup")

    def fill(self, table, rows, keys, at="NOW()"):
        for n in range(0, rows, 100000):
            some = min(100000, rows - n)
            self.world.sql(f"INSERT INTO {table} (player,mini,xp,at) SELECT k DIV 3,k MOD 3,1+k MOD 999,{at} FROM "
                           f"(SELECT FLOOR(RAND()*{keys}) AS k FROM seq_1_to_{some}) s")

    def roll_up(self, *more):
        done = self.keeper.ok("--rollup", "--json", *more)["ledgers"][0]
        if done["ignored"]:
            raise Failed(f"rows of the ledger were ignored: {done}")
        return done["rolled_up"]

    # -- figures ----------------------------------------------------------------------------------------

    def rolling_up(self, engine):
        """Measures one bare statement that sums the rows, and a rollup of the same rows."""
        rows = self.rows if engine == "MEMORY" else self.rows // 5
        self.make(engine)
        self.fill("gains", rows, self.keys)
        with Cost(self.server) as bare:
            self.world.sql(BARE)
        wanted = self.world.sql("SELECT SUM(xp),SUM(`rows`) FROM bare")
        with Cost(self.server) as ours:
            if self.roll_up() != rows:
                raise Failed("not all rows were rolled up")
        if self.world.sql("SELECT SUM(xp),SUM(`rows`) FROM xp_rollup") != wanted:
            raise Failed("rolled-up totals are not the sums of the rows")
        self.fill("gains", rows, self.keys)
        with Cost(self.server) as gone:
            self.world.sql("DELETE FROM gains WHERE id>0")
        return {"rows": rows, "bare": bare.wall, "ours": ours.wall, "bare_cpu": bare.cpu, "ours_cpu": ours.cpu,
                "delete": gone.wall, "delete_cpu": gone.cpu}

    def waits(self, rollups):
        """Measures the waits of a game that writes for some seconds, with continuous rollups or without."""
        command = [self.lab.tool("writer"), self.server.socket, self.world.schema, str(RATE), "5", str(self.keys)]
        writer = subprocess.Popen([*as_mysql(), *command], stdout=subprocess.PIPE, text=True, cwd=self.lab.base)
        if writer.stdout.readline() != "playing\n":
            raise Failed("writer did not play")
        until, runs, rolled = time.monotonic() + self.seconds, 0, 0
        while time.monotonic() < until:
            if rollups:
                runs, rolled = runs + 1, rolled + self.roll_up()
            else:
                time.sleep(0.1)
        writer.send_signal(signal.SIGTERM)
        said = json.loads(writer.communicate()[0])
        return {**said["wait_ms"], "runs": runs, "rolled_up": rolled, "changes": said["changes"]}

    def month(self, engine):
        """Plays a month: all rows are in `month`, and are rolled up daily in the ledger."""
        self.make(engine, "1d")
        day = self.month_keys * A_DAY
        self.world.sql(TABLE.format("month", engine))
        for n in range(DAYS):
            last = self.world.value("SELECT COALESCE(MAX(id),0) FROM month")  # InnoDB skips IDs
            self.fill("month", day, self.month_keys, f"NOW() - INTERVAL {DAYS - n} DAY")
            self.world.sql(f"INSERT INTO gains SELECT * FROM month WHERE id>{last}")
            if n + 1 < DAYS:
                until = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(time.time() - (DAYS - n) * 86400 + 3600))
                self.roll_up("--until", until)
        if self.world.sql("SELECT SUM(xp) FROM xp_total") != self.world.sql("SELECT SUM(xp) FROM month"):
            raise Failed("totals are not the sums of the month's rows")

    def took(self, sql, times):
        con = self.server.admin(self.world.schema, read_timeout=3600)
        samples = []
        with con.cursor() as cur:
            for n in range(times):
                began = time.perf_counter()
                cur.execute(sql.format(n * 7 % (self.month_keys // 3), n % 3))
                cur.fetchall()
                samples.append(1000 * (time.perf_counter() - began))
        con.close()
        return statistics.median(samples)

    def totals(self, engine):
        self.month(engine)
        one = " WHERE player={} AND mini={}"
        return {"sum": self.took("SELECT SUM(xp) FROM month" + one, 200), "nothing": self.took("SELECT 1", 200),
                "row": self.took("SELECT xp FROM xp_rollup" + one, 200),
                "total": self.took("SELECT xp FROM xp_total" + one, 200),
                "level": self.took("SELECT level,exp,to_next FROM xp_level" + one, 200),
                "all_sums": self.took("SELECT player,mini,SUM(xp) FROM month GROUP BY player,mini", 3),
                "all_totals": self.took("SELECT player,mini,xp FROM xp_total", 3)}

    def dumps(self):
        """Measures dumps after totals() of a MEMORY ledger: with the whole month, and with what a rollup leaves."""
        whole = os.path.getsize(self.keeper.dump()["path"])
        self.world.sql("DROP TABLE month")
        rolled = os.path.getsize(self.keeper.dump("--force")["path"])
        return {"month": whole - rolled, "rolled_up": rolled}

    def flat(self):
        """Measures the server's memory while many rows pass through a MEMORY ledger, after a tenth and at the end."""
        self.make("MEMORY")
        passed, samples = 0, []
        while passed < self.flat_rows:
            self.fill("gains", 100000, self.keys)
            passed += self.roll_up()
            samples.append((passed, kb_of(self.server.process.pid, "VmRSS"), self.world.value(
                "SELECT DATA_LENGTH+INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA=DATABASE() AND "
                "TABLE_NAME='gains'")))
        first = samples[len(samples) // 10]
        return {"rows": passed, "after": first[0], "rss_kb": [first[1], samples[-1][1]],
                "table_bytes": [first[2], samples[-1][2]]}

    def all(self):
        found = {"rows": self.rows, "keys": self.keys, "rounds": []}
        try:
            for number in range(self.rounds):
                self.say(f"ledger, round {number + 1} of {self.rounds}")
                one = {"MEMORY": self.rolling_up("MEMORY"), "InnoDB": self.rolling_up("InnoDB")}
                self.make("MEMORY")
                one["wait_without"], one["wait"] = self.waits(False), self.waits(True)
                one["totals"] = {"InnoDB": self.totals("InnoDB"), "MEMORY": self.totals("MEMORY")}
                one["dump"] = self.dumps()
                found["rounds"].append(one)
            if self.flat_rows:
                self.say(f"ledger, {self.flat_rows:,} rows through one table")
                found["flat"] = self.flat()
        finally:
            self.keeper.destroy()
            self.server.destroy()
        return found


# -- the text ---------------------------------------------------------------------------------------------


def lines(found):
    """Yields (figure, goal, measured, reached) of all rounds."""
    rounds = found["rounds"]

    def median(of):
        return statistics.median(of(r) for r in rounds)
    wait, without = median(lambda r: r["wait"]["longest"]), median(lambda r: r["wait_without"]["longest"])
    yield ("longest wait, 5,000 rows a second", "≤ 20 ms, ≤ 2 × without",
           f"{wait:.1f} ms, without {without:.1f} ms: {wait / without:.2f} ×", wait <= 20 and wait <= 2 * without)
    for engine in ("MEMORY", "InnoDB"):
        ratio = median(lambda r, engine=engine: r[engine]["bare"] / r[engine]["ours"])
        cpu = median(lambda r, engine=engine: r[engine]["bare_cpu"] / max(0.01, r[engine]["ours_cpu"]))
        least = median(lambda r, engine=engine: (r[engine]["bare"] + r[engine]["delete"]) / r[engine]["ours"])
        rate = median(lambda r, engine=engine: r[engine]["rows"] / r[engine]["ours"])
        yield (f"rolling up, {engine}", "≥ 0.5 × bare INSERT … SELECT",
               f"{rate:,.0f} rows a second: {ratio:.2f} × (server's processor time {cpu:.2f} ×); beside that statement and "
               f"one DELETE of the rows {least:.2f} ×", ratio >= 0.5)
    for engine in ("MEMORY", "InnoDB"):
        def t(name, engine=engine):
            return median(lambda r: r["totals"][engine][name])
        yield (f"total of a key, {engine}", "≥ 20 × faster than 1,260 rows",
               f"{t('total'):.3f} ms, sum {t('sum'):.3f} ms: {t('sum') / t('total'):.1f} × (SELECT 1: {t('nothing'):.3f} ms; "
               f"the rollup's row alone: {t('row'):.3f} ms, {t('sum') / t('row'):.1f} ×)",
               t("sum") >= 20 * t("total"))
        yield f"level of a key, {engine}", "≤ 2 × a total", f"{t('level') / t('total'):.2f} ×", t("level") <= 2 * t("total")
        yield (f"all totals, {engine}", "≥ 10 × faster than summing",
               f"{t('all_totals'):.0f} ms, sums {t('all_sums'):.0f} ms: {t('all_sums') / t('all_totals'):.1f} ×",
               t("all_sums") >= 10 * t("all_totals"))
    month, rolled = median(lambda r: r["dump"]["month"]), median(lambda r: r["dump"]["rolled_up"])
    yield "dump after 30 days", "smaller", f"{rolled:,.0f} bytes, the month's rows {month:,.0f} more", rolled < month
    if "flat" in found:
        f = found["flat"]
        yield (f"{f['rows']:,} rows through MEMORY", "memory flat",
               f"table {f['table_bytes'][0]:,} → {f['table_bytes'][1]:,} bytes, server {f['rss_kb'][0]:,} → "
               f"{f['rss_kb'][1]:,} KB since {f['after']:,}", f["table_bytes"][1] <= 1.1 * f["table_bytes"][0])


def show(found):
    print(f"\nLedgers: {found['rows']:,} rows of {found['keys']:,} keys, medians of {len(found['rounds'])} rounds")
    for figure, goal, measured, reached in lines(found):
        print(f"  {figure:34} {goal:32} {'reached' if reached else 'MISSED':8} {measured}")
