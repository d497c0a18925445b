"""The journal's files as they age: every moment that they cover can be restored, and no more of them are kept than configured."""
import os
import re

import pytest
from wk.follow import ONE_DUMP, all_comes_back, another_server, dump_and_follow, following, lose_disk, purge
from wk.keeper import REFUSED, USER
from wk.util import ident, wait_for

pytestmark = pytest.mark.either_server

# -- any moment --------------------------------------------------------------------------------


def clock(server):
    """Returns the server's current second after it has ended, so that later changes have another one."""
    now = server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')")
    wait_for(lambda: server.value("SELECT DATE_FORMAT(UTC_TIMESTAMP(),'%Y-%m-%dT%H:%i:%sZ')") != now,
             "the next second")
    return now


def sums(server, schema):
    return {t: server.sql(f"CHECKSUM TABLE {ident(t)}", schema=schema)[0][1]
            for t in ("player", "fleet", "chat", "mark")}


def test_any_moment(make_followed):
    """Moments before and after an ALTER are restored with the columns of that time, after the server's log was purged, and on
    another server after the disk was lost."""
    keeper = make_followed()
    world, moments = keeper.world, []
    schema, into = world.schema, world.schema + "_then"
    dump_and_follow(keeper)

    def moment():
        moments.append((clock(keeper.server), sums(keeper.server, schema)))

    def look():
        for at, picture in moments:
            keeper.server.sql(f"DROP DATABASE IF EXISTS {ident(into)}")
            keeper.ok("--restore", "--at", at, "--into", into)
            assert sums(keeper.server, into) == picture, at
    world.mark(2)
    moment()
    world.sql("ALTER TABLE mark ADD w INT NOT NULL DEFAULT 3", "UPDATE mark SET w=4")
    keeper.wait(lambda: len(keeper.dumps()) >= 2, "the dump at once")
    following(keeper)
    world.mark(3)
    moment()
    purge(keeper.server)
    keeper.segments.wait_all()
    keeper.server.account(USER, [schema, into])
    look()
    world.mark(4)
    keeper.segments.wait_all()
    lose_disk(keeper)
    keeper.server.account(USER, [schema, into])
    look()


# -- how many there are ------------------------------------------------------------------------


def fill(keeper, kib):
    """Writes slightly more than this amount into segments."""
    want = keeper.segments.size() + kib * 1024
    while keeper.segments.size() < want:
        for n in range(1 + (want - keeper.segments.size()) // (30 * 1024)):
            keeper.world.sql(f"UPDATE player SET points=points+{n + 1} WHERE id<=600")
        keeper.segments.wait_all()


def test_a_segment_is_ended_by_its_size_and_by_a_dump(make_followed):
    keeper = make_followed(settings={"journal": {"segment": "64KiB"}})
    dump_and_follow(keeper)
    fill(keeper, 180)
    paths = keeper.segments.paths()
    assert len(paths) >= 3
    assert all(64 * 1024 <= os.path.getsize(p) < 128 * 1024 for p in paths[:-1])
    last = paths[-1]
    keeper.dump()
    keeper.wait(lambda: keeper.segments.paths()[-1] != last, "the next segment")
    assert keeper.segments.finalized()[:-1] == [True] * (len(keeper.segments.paths()) - 1)
    assert keeper.segments.numbers()[0] == 1 and keeper.segments.gaps() == []
    assert all_comes_back(keeper)["journal"]["filed"] == 0


@pytest.mark.parametrize("rule", [ONE_DUMP, {"journal": {"keep": "0s"}}])
def test_what_is_old_goes_with_a_dump(make_followed, rule):
    """A dump deletes segments that are older than the oldest dump or than `keep`, but none that the newest dump needs."""
    settings = {"journal": {"segment": "64KiB"}}
    for section, values in rule.items():
        settings.setdefault(section, {}).update(values)
    keeper = make_followed(settings=settings)
    dump_and_follow(keeper)
    fill(keeper, 150)
    assert keeper.segments.numbers()[0] == 1, "the only dump needs them all"
    end = keeper.segments.numbers()[-1]
    keeper.dump()
    keeper.wait(lambda: keeper.segments.numbers()[0] >= end, "the old ones to go")
    fill(keeper, 100)
    assert all_comes_back(keeper)["journal"]["filed"] > 0


def test_max_size(make_followed):
    """All segments together stay within max_size, except for those that the newest dump needs."""
    keeper = make_followed(settings={"journal": {"segment": "64KiB", "max_size": "1MiB"}})
    dump_and_follow(keeper)
    fill(keeper, 1300)
    assert keeper.segments.numbers()[0] == 1, "the only dump needs them all"
    keeper.dump()
    keeper.wait(lambda: keeper.segments.size() <= 1 << 20, "the oldest to go")
    assert keeper.segments.size() > 900 * 1024
    fill(keeper, 100)
    all_comes_back(keeper)


def test_the_last_moment_of_a_journal_whose_server_is_gone(make_followed):
    """If the server is gone, its last second may be incomplete; the moment that the refusal names can be restored."""
    keeper = make_followed()
    dump_and_follow(keeper)
    for mark in (2, 3):
        before = clock(keeper.server)
        keeper.world.mark(mark)
    keeper.segments.wait_all()
    keeper.stop()
    now = clock(keeper.server)
    another_server(keeper)
    refused = keeper.run("--restore", "--at", now)
    moment = re.search("the last moment before the gap is --at ([^ ;]+)", refused.err)
    assert refused.rc == REFUSED and moment, refused
    keeper.ok("--restore", "--at", moment[1])
    assert keeper.world.marked() in ((2,) if moment[1] <= before else (2, 3))  # the segments may end seconds later
