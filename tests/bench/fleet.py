"""Many worlds on one machine: their cost while nothing happens, and how they are restored together."""
import contextlib
import os
import tempfile
import time

from wk.server import Server

from measure import KeeperUse, ServerUse

MODES = ("off", "server", "follow")  # [journal] mode
# Settings that the tests change, with a user's values.
DEFAULTS = {"mysql": {"connect_timeout": None, "read_timeout": None}, "probe": {"interval": None, "timeout": None},
            "dump": {"interval": None, "stall": None}, "restore": {"stall": None}, "alert": {"journal_lag_limit": None},
            "status": {"metrics": "worldkeeper.prom", "page": "yes"}}
SETTLED = 100  # seconds after a start, when its first check of the rules is over


class Fleet:
    def __init__(self, base, lab, worlds, lost, seconds, say):
        os.environ["WORLDKEEPER"] = lab.tool("worldkeeper")
        from wk import follow, keeper, world  # pylint: disable=import-outside-toplevel; it looks for the program
        self.follow, self.keeper, self.world = follow, keeper, world
        self.base, self.worlds, self.lost, self.seconds, self.say = base, worlds, lost, seconds, say

    @contextlib.contextmanager
    def worlds_of(self, count, kind):
        """Makes worlds on their own server, with a dump each; those made first are the most important."""
        base = tempfile.mkdtemp(dir=self.base)
        os.chmod(base, 0o755)
        server = Server(base, "--max-connections=4000", "--max-heap-table-size=1G",
                        *self.follow.LOG)
        keepers = []
        try:
            server.start()
            for i in range(count):
                keeper = self.keeper.Keeper(tempfile.mkdtemp(dir=self.base), self.world.World(server, kind), f"w{i:03d}",
                                            DEFAULTS, account=i == 0)
                server.grant(f"'{self.keeper.USER}'@'localhost'", keeper.world.schema)
                keeper.waits = 1
                keeper.configure({"restore": {"priority": 9 - 9 * i // count}})
                keepers.append(keeper)
                keeper.init().dump()
            yield server, keepers
        finally:
            for keeper in keepers:
                keeper.destroy()
            server.destroy()

    @staticmethod
    def start(keepers):
        for keeper in keepers:
            keeper.start(state=None)
        for keeper in keepers:
            keeper.wait_state("UP")

    # -- idle ---------------------------------------------------------------------------------------

    def idle(self, server, keepers, mode):
        for keeper in keepers:
            keeper.configure({"journal": {"mode": mode}})
        self.start(keepers)
        time.sleep(SETTLED if self.seconds > 10 else 2)
        mine, servers = [KeeperUse(k.process) for k in keepers], ServerUse(server.process.pid)
        time.sleep(self.seconds)
        took, samples = servers.end(), [use.end() for use in mine]
        for keeper in keepers:
            keeper.process.terminate()
        for keeper in keepers:
            keeper.stop()
        seconds = sum(s["seconds"] for s in samples) / len(samples)
        return {"cpu": sum(s["keeper_cpu"] for s in samples) / seconds, "server_cpu": took["server_cpu"] / seconds,
                "follower_cpu": sum(s.get("follower_cpu", 0) for s in samples) / seconds,
                "pss_mib": sum(s["keeper_pss_mb"] for s in samples)}

    # -- lost ---------------------------------------------------------------------------------------

    def lose(self, server, keepers):
        """Kills and starts the server. Returns [(seconds until UP, number of the world)] in the order of their restores."""
        self.start(keepers)
        for keeper in keepers:
            keeper.dump()
        server.crash()
        began, back = time.monotonic(), []
        while len(back) < len(keepers):
            for i, keeper in enumerate(keepers):
                if i not in [n for _, n in back] and keeper.state() == "UP":
                    back.append((time.monotonic() - began, i))
            time.sleep(0.01)
        for keeper in keepers:
            keeper.stop()
        return back

    def all(self):
        found = {"worlds": self.worlds, "lost": self.lost, "idle": {}}
        with self.worlds_of(self.worlds, "small") as (server, keepers):
            for mode in MODES:
                self.say(f"{self.worlds} idle worlds, journal {mode}")
                found["idle"][mode] = self.idle(server, keepers, mode)
        with self.worlds_of(self.lost, "big") as (server, keepers):
            self.say("one lost world")
            found["one"] = self.lose(server, keepers[:1])
            self.say(f"{self.lost} lost worlds")
            found["together"] = self.lose(server, keepers)
        return found


def show(found):
    n = found["worlds"]
    for mode, s in found["idle"].items():
        print(f"{n} idle worlds, journal {mode:6}  {100 * s['cpu']:6.2f} % of a processor (followers "
              f"{100 * s['follower_cpu']:.2f} %), {s['pss_mib']:6.1f} MiB; the server {100 * s['server_cpu']:.1f} %")
    one, together = found["one"][-1][0], found["together"]
    order = [i for _, i in together]
    print(f"goals for 100: 5 % and 300 MiB\none lost world is UP after {one:.2f} s; of {found['lost']} together the first "
          f"after {together[0][0]:.2f} s, the last after {together[-1][0]:.2f} s, {together[-1][0] / one / len(order):.2f} x "
          f"as long for each; in this order, the most important first: {' '.join(map(str, order))}")
