"""The cost of copies on another machine: a dump beside them, their upload beside curl's, and a restore from there."""
import os
import shutil
import statistics
import subprocess
import tempfile
import time

from wk.server import Server
from wk.util import wait_for

import world as game
from measure import Failed, Game, kb_of

ROWS = 1 << 16     # rows of 500 random bytes each, which cannot be compressed
GAME = 1           # size of the game-like world (world.py) that belongs to this number of rows
WORKER = "wk-off-site"
DUMPS = 9          # dumps of each kind per round
NO_BODY_HASH = "x-amz-content-sha256: UNSIGNED-PAYLOAD"


def timed(call, *args):
    began = time.monotonic()
    call(*args)
    return time.monotonic() - began


class OffSite:
    def __init__(self, base, lab, rounds, rows, say):
        os.environ["WORLDKEEPER"] = lab.tool("worldkeeper")
        from wk import keeper, stores, world  # pylint: disable=import-outside-toplevel; it looks for the program
        self.rounds, self.say, self.stores, self.base = rounds, say, stores, base
        self.size = GAME * rows / ROWS
        self.server = Server(base, "--max-heap-table-size=8G", "--skip-log-bin")
        self.server.start()
        self.world = world.World(self.server, "empty")
        self.fill(rows)
        self.keeper = keeper.Keeper(tempfile.mkdtemp(dir=base), self.world, settings={
            "dump": {"method": "copy"}, "retention": {"keep_last": 2, "keep_within": "0s", "keep_daily": 0}})
        self.key = os.path.join(base, "identity")
        said = subprocess.run(["age-keygen", "-o", self.key], check=True, capture_output=True, text=True).stderr
        self.recipient = said.split()[-1]
        self.kept = {name: make(base) for name, make, needs in (
            ("sftp", stores.Sshd, "sshd"), ("s3", stores.S3, "radosgw")) if stores.program(needs)}
        if not self.kept:
            raise Failed("neither sshd nor radosgw: scripts/deps.sh test")

    def fill(self, rows):
        self.world.sql("CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT 0, "
                       "data VARBINARY(500)) ENGINE=MEMORY", "INSERT INTO big (data) VALUES (RANDOM_BYTES(500))")
        while self.world.sql("SELECT COUNT(*) FROM big")[0][0] < rows:
            self.world.sql("INSERT INTO big (data) SELECT RANDOM_BYTES(500) FROM big")

    def fill_game(self):
        """Replaces the random bytes by a game's tables."""
        self.world.sql("DROP TABLE big")
        for table, select in game.rows(self.size).items():
            self.world.sql(f"CREATE TABLE {table} {game.TABLES[table]} ENGINE=MEMORY",
                           f"INSERT INTO {table} {select}")

    def settings(self, store):
        return {**store.settings(), "recipient": self.recipient, "identity_file": self.key}

    def offsite(self, settings):
        """Sets exactly these keys in [offsite], or none if None."""
        self.keeper.configure({"offsite": {key: None for key in self.keeper.settings.get("offsite", {})}})
        self.keeper.configure({"offsite": settings or {}})

    # -- dumps --------------------------------------------------------------------------------------

    def dumps(self, settings):
        """Returns the median seconds of a dump, the 99.9th percentile of a game's waits, and the worker's peak memory in MiB."""
        self.offsite(settings)
        peak = None
        self.keeper.start()
        with Game(self.server.admin(self.world.schema),
                  lambda cur, i: cur.execute(f"UPDATE big SET n=n+1 WHERE id={1 + i % 1000}")) as game:
            walls = [timed(self.keeper.ok, "--dump") for _ in range(DUMPS)]
        if settings:
            self.keeper.wait(lambda: (lambda o: o and o["state"] == "stored" and o["waiting"] == 0)(
                self.keeper.status()["offsite"]), "all copies")
            peak = max(kb_of(pid, "VmHWM") for pid in self.keeper.pids() if self.name(pid).startswith(WORKER)) / 1024
        self.keeper.stop()
        return statistics.median(walls), sorted(game.waits)[int(len(game.waits) * 0.999)], peak

    @staticmethod
    def name(pid):
        try:
            with open(f"/proc/{pid}/comm") as f:
                return f.read().strip()
        except OSError:
            return ""

    # -- uploads ------------------------------------------------------------------------------------

    def curl(self, kind, store, path):
        if kind == "s3":
            words = ["--aws-sigv4", "aws:amz:us-east-1:s3", "-u", f"{self.stores.ACCESS}:{self.stores.SECRET}",
                     "-H", NO_BODY_HASH, store.at("worlds/curl")]
        else:
            words = ["-k", "--key", store.key, "-u", self.stores.account() + ":",
                     f"sftp://127.0.0.1:{store.port}{store.files}/curl"]
        subprocess.run(["curl", "-sSf", "-T", path, *words], check=True)

    def upload(self, kind, path):
        """Returns seconds: curl's, ours, and ours encrypted."""
        store, found = self.kept[kind], {"curl": timed(self.curl, kind, self.kept[kind], path)}
        for how, verb, more in (("bare", "put", {}), ("sealed", "store", {"plain": "no", "recipient": self.recipient})):
            caller = self.stores.Caller(tempfile.mkdtemp(dir=self.base), store.settings(), **more)
            began = time.monotonic()
            said = caller.call(verb, "w1/bench/" + how, path)
            found[how] = time.monotonic() - began
            if said["result"] != "ok":
                raise Failed(f"{kind}, {how}: {said}")
            caller.call("delete", "w1/bench/" + how)
            caller.close()
        return found

    # -- restores -----------------------------------------------------------------------------------

    def newest_there(self, settings):
        """Makes a dump of the present tables and waits until it is in the store."""
        self.offsite(settings)
        self.truth = self.world.checksums()
        self.keeper.start()
        newest = self.keeper.dump()["name"]
        self.keeper.wait(lambda: self.keeper.status()["offsite"]["newest"] == newest, "the newest copy")
        self.keeper.stop()

    def restore(self, *more):
        self.server.crash()
        took = timed(self.keeper.ok, "--restore", *more)
        if self.world.checksums() != self.truth:
            raise Failed("what was restored is not the world that was dumped")
        return took

    def restores(self, settings):
        """Returns seconds of a restore from the disk, and from the store with nothing on the disk."""
        self.offsite(settings)
        disk = self.restore()
        kept = self.keeper.dumps_dir + ".kept"
        shutil.copytree(self.keeper.dumps_dir, kept)
        for name in os.listdir(self.keeper.dumps_dir):
            path = os.path.join(self.keeper.dumps_dir, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        away = self.restore("--from", "offsite")
        shutil.rmtree(kept)
        return disk, away

    def all(self):
        found = {"rounds": [], "kinds": list(self.kept)}
        try:
            self.keeper.init()
            for number in range(self.rounds):
                self.say(f"off-site, round {number + 1} of {self.rounds}")
                one = {}
                for kind, store in self.kept.items():
                    settings = self.settings(store)
                    first, then = (None, settings) if number % 2 == 0 else (settings, None)
                    seen = {bool(s): self.dumps(s) for s in (first, then)}
                    without, beside = seen[False], seen[True]
                    self.newest_there(settings)
                    path = self.keeper.path(self.keeper.newest())
                    found["bytes"] = os.path.getsize(path)
                    disk, away = self.restores(settings)
                    one[kind] = {"dump": without[0], "dump_beside": beside[0], "wait": without[1], "wait_beside": beside[1],
                                 "worker_mib": beside[2], **self.upload(kind, self.keeper.path(self.keeper.newest())),
                                 "restore": disk, "restore_away": away}
                found["rounds"].append(one)
            self.fill_game()
            for one in found["rounds"]:
                for kind, store in self.kept.items():
                    self.say(f"off-site, a game's world, {kind}")
                    self.newest_there(self.settings(store))
                    one[kind]["game"], one[kind]["game_away"] = self.restores(self.settings(store))
        finally:
            self.keeper.stop()
            for store in self.kept.values():
                store.stop()
            self.server.destroy()
        return found


def lines(found):
    """Yields [what, figure, unit, goal]: medians of the ratios within each round."""
    for kind in found["kinds"]:
        def median(of, kind=kind):
            return statistics.median(of(r[kind]) for r in found["rounds"])
        yield f"{kind}: a dump with off-site on, against without", median(lambda r: r["dump_beside"] / r["dump"]), "x", "<= 1.05"
        yield (f"{kind}: 99.9th percentile of a game's waits meanwhile, against without",
               median(lambda r: r["wait_beside"] / r["wait"]), "x", "<= 1.05")
        yield f"{kind}: speed of an upload, against curl -T", median(lambda r: r["curl"] / r["bare"]), "x", ">= 0.8"
        yield f"{kind}: the same, encrypted", median(lambda r: r["curl"] / r["sealed"]), "x", ">= 0.6"
        yield (f"{kind}: a restore of a game's world from there, against from the disk",
               median(lambda r: r["game_away"] / r["game"]), "x", "<= 1.2")
        yield f"{kind}: the same, of random bytes", median(lambda r: r["restore_away"] / r["restore"]), "x", ""
        yield f"{kind}: peak memory of the worker", median(lambda r: r["worker_mib"]), "MiB", "<= 32"


def show(found):
    print(f"a dump of {found['bytes'] / 1e6:.0f} MB, {len(found['rounds'])} rounds")
    for what, figure, unit, goal in lines(found):
        print(f"{what:70} {figure:6.2f} {unit:3}" + f"   goal {goal}" * bool(goal))
