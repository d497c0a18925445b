"""Signed journal files ([dump] hmac_key_file): changes that another user put into them are never replayed, even if all checksums
match."""
import os
import struct
import zlib

import pytest
from wk.follow import crash, following, journal, lose_disk, reload
from wk.segments import Segments

pytestmark = pytest.mark.either_server

KEY = "3f" * 32
LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
FRAME = 16  # bytes before a frame's body: magic, length, checksum of the body, checksum of the header


@pytest.fixture
def make_signed(make_world, make_server, make_keeper):
    """Returns make_signed(key) -> a keeper that follows from its dump on, with or without a signing key."""
    def make(key=True):
        keeper = make_keeper(make_world("small", make_server(*LOG)), {
            "journal": {"mode": "follow"}, "restore": {"new_server": "yes"}, "probe": {"interval": "100ms"}})
        keeper.segments = Segments(keeper)
        if key:
            keeper.configure(with_key(keeper))
        keeper.init()
        keeper.dump()
        keeper.start()
        following(keeper)
        return keeper
    return make


def with_key(keeper):
    return {"dump": {"hmac_key_file": keeper.secret("key", KEY)}}


def frames(data):
    """Returns [(begin, end)] of a segment's frames."""
    found, at = [], 0
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 4)[0] & 0x7fffffff
        found.append((at, at + FRAME + length))
        at += FRAME + length
    return found


def forge(path, old, new):
    """Replaces `old` by `new`, which has the same length, and corrects all checksums."""
    number = int(os.path.basename(path).split("-")[-1].split(".")[0])
    with open(path, "rb") as f:
        data = bytearray(f.read())
    assert data.count(old) == 1 and len(old) == len(new)
    data = data.replace(old, new)
    for begins, ends in frames(data):
        struct.pack_into("<I", data, begins + 8, zlib.crc32(data[begins + FRAME:ends]))
        head = struct.pack("<QQ", number, begins) + data[begins:begins + 12]
        struct.pack_into("<I", data, begins + 12, zlib.crc32(head))
    with open(path, "wb") as f:
        f.write(data)


def play(keeper):
    """Writes two rows into the journal's files; returns snapshots of the world with the first row and with both."""
    seen = []
    for text in ("honest", "stolen"):
        keeper.world.sql(f"INSERT INTO chat VALUES (77,'{text}')")
        keeper.segments.wait_all()
        seen.append(keeper.world.snapshot())
    return seen


def test_ours_comes_back(make_signed):
    keeper = make_signed()
    _, both = play(keeper)
    told = lose_disk(keeper)
    keeper.world.assert_is(both)
    assert told["journal"]["filed"] == 2 and "HMAC" not in keeper.log(), told


@pytest.mark.parametrize("key", [False, True])
def test_a_row_that_somebody_changed(make_signed, key):
    """Without a key a forged row is replayed. With a key the journal ends before it, and the reason is reported."""
    keeper = make_signed(key)
    first, _ = play(keeper)
    assert keeper.stop() == 0
    forge(keeper.segments.paths()[-1], b"'stolen'", b"'forged'")
    keeper.start(state=None)
    told = lose_disk(keeper)
    found = keeper.world.sql("SELECT what FROM chat WHERE who=77 ORDER BY 1")
    if not key:
        assert found == (("forged",), ("honest",))
        return
    keeper.world.assert_is(first)
    assert not told["journal"]["whole"] and "hmac_key_file" in told["journal"]["gap"], told


def test_the_key_comes_later(make_signed):
    """When a key is added, a signed dump is made at once, and later changes are restored; older unsigned segments are not
    used."""
    keeper = make_signed(key=False)
    play(keeper)
    reload(keeper, with_key(keeper))
    keeper.wait(lambda: len(keeper.dumps()) > 1 and "hmac" in keeper.newest(), "the dump at once")
    # The files without a signature are a gap, which that dump may cover or come before.
    keeper.wait_log("the journal continues from it")
    keeper.wait(lambda: journal(keeper).get("state") == "following" and not journal(keeper)["gap"], "the journal")
    keeper.world.sql("INSERT INTO chat VALUES (78,'proven')")
    keeper.segments.wait_all()
    before = keeper.world.snapshot()
    told = lose_disk(keeper)
    keeper.world.assert_is(before)
    assert told["journal"]["filed"] == 1, told
    # If the dump was stored before the follower had the key, the unsigned segment is the second one.
    assert any(f"cannot continue after a new file: journal segment w1-000000000{n}.journal has no HMAC" in keeper.log()
               for n in (1, 2))


def test_a_killed_writer_goes_on(make_signed):
    """The segment of a killed writer is finalized by the next one under the same key, and nothing is lost."""
    keeper = make_signed()
    play(keeper)
    keeper.kill9()
    keeper.start()
    following(keeper)
    keeper.world.sql("INSERT INTO chat VALUES (79,'afterwards')")
    keeper.segments.wait_all()
    before = keeper.world.snapshot()
    assert crash(keeper)["journal"]["whole"]
    keeper.world.assert_is(before)
