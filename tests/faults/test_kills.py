"""Writers record what the server acknowledged, while the server and the supervisor with its children are killed at random
moments, equally often: after each pair of kills the world equals the record."""
import os
import random
import time

import pytest
from inject import SEED
from wk.audit import TABLES, AuditedWriters
from wk.util import PATIENCE

KILLS = int(os.environ.get("WK_FAULT_KILLS", "50"))  # kills of the server, and of the supervisor, in all tests together
LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
MODES = ["server", "follow"]
SOON = (0, 0.02, 0.2, 0.7)  # s: about a probe, a dump of this world, a restore


class Night:
    """One round: server and supervisor are killed in random order at random moments."""

    KINDS = ["in_play", "in_a_dump", "in_the_restore", "together"]

    def __init__(self, keeper, writers, rand):
        self.keeper, self.writers, self.rand = keeper, writers, rand

    def a_while(self):
        time.sleep(self.rand.choice(SOON) * self.rand.random())

    def supervisor_dies(self):
        self.keeper.kill9()

    def server_dies(self):
        self.keeper.server.kill9()

    def in_play(self):
        """Kills the supervisor, then the server while the next supervisor starts."""
        self.supervisor_dies()
        self.a_while()
        self.keeper.start(state=None)
        self.a_while()
        self.server_dies()
        self.writers.stop()
        self.keeper.server.start()

    def in_a_dump(self):
        asked = self.keeper.popen("--dump")
        self.a_while()
        self.in_play()
        asked.communicate(timeout=PATIENCE)

    def in_the_restore(self):
        self.server_dies()
        self.writers.stop()
        self.keeper.server.start()
        self.a_while()
        self.supervisor_dies()
        self.keeper.start(state=None)

    def together(self):
        for dies in self.rand.sample([self.supervisor_dies, self.server_dies], 2):
            dies()
        self.writers.stop()
        for starts in self.rand.sample([self.keeper.server.start, lambda: self.keeper.start(state=None)], 2):
            starts()


def is_there(keeper):
    """Returns whether the world is restored and nothing remains to be done."""
    return (keeper.flag() == "UP" and keeper.state() == "UP" and keeper.alive() and
            keeper.world.value("SELECT COUNT(*) FROM worldkeeper_sentinel") == 1)


def settled(keeper):
    def there():
        try:
            return is_there(keeper)
        except Exception:  # the flag may be that of the last supervisor
            return False
    keeper.wait(there, "the world")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_the_server_and_the_supervisor_are_killed(make_world, make_server, make_keeper, tally, mode):
    rand, rounds = random.Random(f"{SEED}/{mode}"), max(1, KILLS // len(MODES))
    world = make_world("empty", make_server(*LOG))
    world.sql(*TABLES)
    keeper = make_keeper(world, {"probe": {"interval": "100ms"}, "journal": {"mode": mode}}).init()
    keeper.dump()
    keeper.start()
    writers = AuditedWriters(world, f"{SEED}/{mode}")
    writers.pause = 0.001
    night = Night(keeper, writers, rand)
    for n in range(rounds):
        kind = Night.KINDS[n % len(Night.KINDS)]
        with writers:
            writers.wait_changes(1)
            night.a_while()
            getattr(night, kind)()
        settled(keeper)
        bad = []
        try:
            writers.audit()
        except AssertionError as e:
            bad = [f"{SEED}/{mode}, round {n}: {e}"]
        tally.point(f"server and supervisor killed: {kind.replace('_', ' ')}, {mode}", bad)
    print(f"{rounds} kills of each, {writers.changes} changes acknowledged")
    tally.assert_clean()
