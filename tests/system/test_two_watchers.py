"""Tests of two supervisors of one world that share no file, as on two machines: here they have two directories and configs."""
import shutil

import pytest
from wk.keeper import DONE, IMPATIENT, USER
from wk.util import wait_for

pytestmark = pytest.mark.either_server


@pytest.fixture
def pair(make_keeper, doomed):
    """Returns two keepers of one world; the first one runs, the second one does not know it."""
    doomed.dump()
    doomed.start()
    second = make_keeper(doomed.world, account=False)
    return doomed, second


def held_off(keeper):
    keeper.wait(lambda: "another supervisor watches this world" in (keeper.status() or {}).get("reason", ""), "it held off")


def test_the_second_one_holds_off(pair):
    """The second supervisor names the first one, is never UP and dumps nothing; after the first one ended it takes over."""
    first, second = pair
    second.configure({"dump": {"interval": "1s"}})
    second.start(state=None)
    held_off(second)
    second.probes_pass("D")
    assert second.flag() == "WAITING" and second.dumps() == [] and "-> UP" not in second.log()
    assert "connection " in second.status()["reason"] and "localhost" in second.status()["reason"]
    assert second.run("--status").rc != DONE and first.wait_state("UP")
    assert first.stop() == 0
    second.wait_state("UP")
    wait_for(second.dumps, "its dump")


def test_one_of_them_restores(pair, victim):
    """After a loss exactly one of two supervisors restores the world, and the other one holds off."""
    first, second = pair
    second.start(state=None)
    held_off(second)
    second.server.kill9()
    victim.start()
    wait_for(lambda: [k.state() for k in pair].count("UP") == 1
             and sum(k.log().count("-> UP: restored") for k in pair) == 1, "one restore")
    for keeper in pair:
        keeper.probes_pass("D" if keeper.state() != "UP" else "A")
    wait_for(lambda: sum(k.state() == "UP" for k in pair) == 1, lambda: [k.about() for k in pair])
    assert sum(k.log().count("-> UP: restored") for k in pair) == 1, [k.about() for k in pair]


def test_its_own_predecessor_is_no_other(keeper):
    """A supervisor that was killed and started again several times never reports another supervisor."""
    keeper.dump()
    for _ in range(4):
        keeper.start()
        keeper.kill9()
    keeper.start()
    assert "another supervisor" not in keeper.log()


def test_its_own_sessions_are_no_other(keeper):
    """A probe's connection that the server ended or a lock delayed is not reported as another supervisor."""
    keeper.dump()
    keeper.start()
    for _ in range(4):
        keeper.server.end_sessions(user=USER)
        keeper.probes_pass("A")
    keeper.reload(IMPATIENT)
    with keeper.server.admin(keeper.world.schema) as db, db.cursor() as cur:
        cur.execute("LOCK TABLES worldkeeper_sentinel WRITE")
        keeper.wait_verdict("STALLED")
        keeper.probes_pass("S", 2)
        cur.execute("UNLOCK TABLES")
    keeper.wait_state("UP")
    assert "another supervisor" not in keeper.log()


def test_who_has_no_dump_keeps_nobody_out(make_keeper, doomed, victim):
    """A supervisor without a dump that sees a lost world first does not prevent another one with dumps from restoring it."""
    doomed.dump()
    before = doomed.world.snapshot()
    empty = make_keeper(doomed.world, account=False)
    victim.crash()
    empty.start(state=None)
    empty.wait_verdict("EMPTY")
    doomed.start(state=None)
    doomed.wait_state("UP")
    doomed.world.assert_is(before)


def test_who_sees_a_foreign_world_keeps_nobody_out(make_keeper, doomed):
    """A supervisor with dumps from before the world's last restore does not prevent the world's own supervisor from starting."""
    name = doomed.dump()["name"]
    stranger = make_keeper(doomed.world, account=False)
    shutil.rmtree(stranger.dumps_dir)
    shutil.copytree(doomed.dumps_dir, stranger.dumps_dir)
    doomed.ok("--restore=" + name, "--force")  # with a nonce that only this one knows
    stranger.start(state=None)
    stranger.wait_verdict("FOREIGN")
    stranger.probes_pass("F", 8)
    doomed.start()
    stranger.probes_pass("F", 8)
    assert "another supervisor" not in doomed.log()
