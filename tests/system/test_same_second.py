"""Tests of a server that is killed and started again within the second of its start, so that two starts have the same time."""
import os
import shutil
import time

import pytest
from wk.keeper import USER, built

pytestmark = pytest.mark.either_server

ROUNDS = 3


@pytest.fixture
def hasty(tmp, make_server, make_world, make_keeper):
    """Returns a keeper of a server whose processes all begin at the same second of their clock. The clock library is copied,
    because the server's user may have no access to the checkout and the loader would silently ignore it."""
    library = os.path.join(tmp, "slow_clock.so")
    os.chmod(tmp, 0o755)
    shutil.copy(built("tools", "slow_clock.so"), library)
    server = make_server(wrapper=["env", "LD_PRELOAD=" + library, f"WK_CLOCK_FROM={int(time.time())}"])
    assert server.start_time() > time.time() + 1800, "the server has its own clock"
    return make_keeper(make_world(on=server)).init()


def again(server):
    """Kills the server and starts it again within the same second of its clock."""
    server.process.kill()
    server.process.wait()
    server.process = None
    server.start()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["socket", "tcp"])
def test_a_crash_loop_is_healed(hasty, how):
    """Each of several restarts within one second is recognized as a loss and followed by a restore."""
    if how == "tcp":
        hasty.configure({"mysql": {"socket": None, "host": "127.0.0.1", "port": hasty.server.port}})
    hasty.dump()
    before = hasty.world.snapshot()
    hasty.start()
    started = hasty.server.start_time()
    for n in range(ROUNDS):
        again(hasty.server)
        assert hasty.server.start_time() == started
        hasty.wait(lambda: hasty.log().count("-> UP: restored") > n, f"restore {n + 1}")
        hasty.wait_state("UP")
        hasty.world.assert_is(before)


def test_while_nobody_watches(hasty):
    """Restarts within one second are recognized from the saved state if the supervisor was stopped as well."""
    hasty.dump()
    before = hasty.world.snapshot()
    for n in range(2):
        hasty.start()
        hasty.stop()
        again(hasty.server)
        hasty.start(state=None)
        hasty.wait(lambda: hasty.log().count("-> UP: restored") > n, f"restore {n + 1}")
        hasty.wait_state("UP")
        hasty.world.assert_is(before)
        assert hasty.stop() == 0


def test_by_hand(hasty):
    """--restore after such a restart needs no --force, also if rows were written since."""
    hasty.dump()
    again(hasty.server)
    hasty.world.sql("INSERT INTO player (nick,points) VALUES ('since',1)")
    assert hasty.ok("--restore", "--json")["conflict_rows"] == 1


def test_a_deleted_row_is_still_one(hasty):
    """Within that second, too, a deleted sentinel row and ended sessions cause no restore."""
    hasty.dump()
    hasty.start()
    sentinel = hasty.settings.get("probe", {}).get("table", "worldkeeper_sentinel")
    hasty.world.sql(f"DELETE FROM {sentinel}")
    hasty.server.end_sessions(user=USER)
    hasty.wait_verdict("EMPTY")
    hasty.probes_pass("E")
    hasty.expect("the doubt", state="SUSPECT", reason=lambda r: "deleted" in r)


def test_a_clock_that_was_set_back_to_before_the_start(make_server, make_world, make_keeper, tmp):
    """MariaDB's uptime is then a number near 2^64. The server is the same, and its world lives."""
    path, shim = os.path.join(tmp, "clock"), os.path.join(tmp, "shim.so")
    shutil.copy(built("tools", "shim.so"), shim)
    with open(path, "w") as f:
        f.write("3600")
    for name, mode in ((tmp, 0o755), (path, 0o644), (shim, 0o755)):
        os.chmod(name, mode)
    server = make_server(wrapper=["env", "LD_PRELOAD=" + shim, "WK_SHIM_CLOCK=" + path])
    keeper = make_keeper(make_world("small", server)).init()
    with open(path, "w") as f:
        f.write("0")
    keeper.dump()
    keeper.start("UP")
    keeper.ok("--restore", "--force")
