"""A world that moves between two machines: how long a switch-over and a promotion take, warm and cold."""
import os
import statistics
import subprocess
import tempfile
import time

from wk.server import Server
from wk.util import wait_for

import world as game
from measure import Failed

SIZES = (0.08, 1)  # of world.py: 300,000 and 3.75 million rows
COPY_RIGHTS = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER"


class Machine:
    """One of the two: a server, its account, and a keeper of the world."""

    def __init__(self, base, size, settings, schema=None):
        from wk import follow, keeper, world  # pylint: disable=import-outside-toplevel; it looks for the program
        self.server = Server(base, f"--max-heap-table-size={game.heap_limit(size)}", *follow.LOG)
        self.server.start()
        self.world = world.World(self.server, "empty", schema)
        self.keeper = keeper.Keeper(tempfile.mkdtemp(dir=base), self.world, settings={**settings, "journal": {"mode": "follow"}})
        self.keeper.waits = 1
        self.server.grant(f"'{keeper.USER}'@'localhost'", "worldkeeper_warm_" + self.keeper.name, COPY_RIGHTS)

    def told(self, section):
        return self.keeper.status().get(section) or {}

    def destroy(self):
        self.keeper.destroy()
        self.server.destroy()


class Switch:
    """Two machines with one world and a store beside them, in the form of a mounted directory."""

    def __init__(self, base, lab, size, say):
        os.environ["WORLDKEEPER"] = lab.tool("worldkeeper")
        self.say = say
        store, key = os.path.join(base, f"store{size:g}"), os.path.join(base, f"identity{size:g}")
        os.mkdir(store, 0o700)
        subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
        public = subprocess.run(["age-keygen", "-y", key], check=True, capture_output=True, text=True).stdout.strip()
        settings = {"offsite": {"url": f"file://{store}/", "recipient": public, "identity_file": key},
                    "standby": {"lease": "none", "warm": "yes"}}
        self.here = Machine(base, size, settings)
        self.there = Machine(base, size, settings, self.here.world.schema)
        for table, select in game.rows(size).items():
            self.here.world.sql(f"CREATE TABLE {table} {game.TABLES[table]} ENGINE=MEMORY",
                                f"INSERT INTO {table} {select}")
        self.here.keeper.init()
        self.here.keeper.dump()
        self.here.keeper.start()

    def ready(self, warm):
        """Makes a dump, and waits until the store and the standby have all of it, the journal and the copy included."""
        here, there = self.here, self.there
        there.keeper.configure({"standby": {"warm": "yes" if warm else "no"}})
        if there.keeper.alive():
            there.keeper.stop()
        there.keeper.start("STANDBY")
        name = here.keeper.dump()["name"]
        here.keeper.wait(lambda: here.told("journal").get("state") == "following", "the journal")
        here.keeper.wait(lambda: here.told("offsite").get("newest") == name, "the dump in the store")
        here.world.sql("UPDATE users SET points=points+1 WHERE id<1000")
        there.keeper.wait(lambda: there.told("standby").get("newest") == name, "the dump at the standby")
        copied = (lambda: (there.told("standby").get("warm") or {}).get("dump") == name and
                  there.told("standby")["warm"]["state"] == "ready")
        if warm:
            there.keeper.wait(copied, "the copy")

    def move(self, warm):
        """Moves the world to the other machine. Returns the seconds of both commands, and from the begin of the first to a
        statement of the game on the other machine."""
        self.ready(warm)
        truth = self.here.world.checksums()
        begun = time.monotonic()
        self.here.keeper.ok("--switch-over")
        switched = time.monotonic()
        told = self.there.keeper.ok("--promote", "--by-hand", "--json")
        promoted = time.monotonic()
        wait_for(lambda: self.there.keeper.state() == "UP", "UP", every=0.005)
        again = time.monotonic()
        if told["lost"] != "nothing lost" or bool(told.get("warm")) != warm or self.there.world.checksums() != truth:
            raise Failed(f"the moved world is not the one that was handed over: {told}")
        self.here, self.there = self.there, self.here
        return {"switch": switched - begun, "promote": promoted - switched, "outage": again - begun}

    def all(self, rounds):
        try:
            found = {"warm": [], "cold": []}
            for number in range(rounds):
                for how in found:
                    self.say(f"a move, {how}, round {number + 1} of {rounds}")
                    found[how].append(self.move(how == "warm"))
            return found
        finally:
            self.here.destroy()
            self.there.destroy()


def measure(base, lab, sizes, rounds, say):
    found = []
    for size in sizes:
        rows = sum(game.counts(size).values())
        say(f"{rows:,} rows on two machines")
        found.append({"rows": rows, **Switch(base, lab, size, say).all(rounds)})
    return found


def show(found):
    for one in found:
        for how in ("warm", "cold"):
            def median(what, rounds=one[how]):
                return statistics.median(r[what] for r in rounds)
            print(f"{one['rows']:,} rows, {how}: --switch-over {median('switch'):.2f} s, --promote {median('promote'):.2f} s, "
                  f"from the first command to UP there {median('outage'):.2f} s (medians of {len(one[how])})")
    print("goals, warm: --promote 0.3 s with 300,000 rows, 0.6 s with 3.75 million")
