"""Each single flipped bit and each truncation of stored files must be detected by the program's own readers
(tests/tools/flips.c)."""
import os
import subprocess

import pytest
from wk.keeper import built
from wk.segments import Segments

LOG = ["--log-bin=log", "--binlog-format=ROW", "--log-bin-trust-function-creators=ON"]
TABLE = "CREATE TABLE player (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, nick VARCHAR(40) NOT NULL) ENGINE=MEMORY"
ROWS = "INSERT INTO player (nick) SELECT MD5(seq) FROM seq_{}_to_{}"
BITS_OF_4_KIB = 32768


def flips(tally, kind, directory, name):
    """Returns how many bits and lengths were tried, and records those that were not detected."""
    done = subprocess.run([built("tools", "flips"), kind, directory, name], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    lines = done.stdout.splitlines()
    tried = {}
    for line in lines:
        words = line.split()
        if words[0] in ("bits", "lengths") and words[2] == "missed":
            tried[words[0]] = int(words[1])
            tally.points(f"each of the {words[0]} of a {kind}", int(words[1]), int(words[3]),
                         [line for line in lines if line.startswith("missed: ")])
    return tried


@pytest.fixture
def four_kib(make_world, make_keeper):
    """Returns a keeper whose dump has at least as many bits as 4 KiB."""
    world = make_world("empty")
    world.sql(TABLE)
    keeper = make_keeper(world).init()
    for begin in range(1, 1000, 20):
        world.sql(ROWS.format(begin, begin + 19))
        if begin > 60 and 8 * keeper.dump()["file_size"] >= BITS_OF_4_KIB:
            return keeper


def test_dump(four_kib, tally):
    tried = flips(tally, "dump", four_kib.dumps_dir, four_kib.newest()["name"])
    assert tried["bits"] >= BITS_OF_4_KIB and tried["lengths"] >= BITS_OF_4_KIB // 8
    four_kib.ok("--verify")
    tally.assert_clean()


def test_manifest(four_kib, tally):
    """A manifest with other contents is refused. A change that leaves its meaning, such as another space between two words, is
    allowed."""
    flips(tally, "manifest", four_kib.dumps_dir, four_kib.newest()["name"])
    four_kib.ok("--verify")
    tally.assert_clean()


def test_segment(make_server, make_world, make_keeper, tally):
    world = make_world("empty", make_server(*LOG))
    world.sql(TABLE)
    keeper = make_keeper(world, {"journal": {"mode": "follow"}}).init()
    segments = Segments(keeper)
    keeper.start()
    keeper.wait(lambda: (keeper.status().get("journal") or {}).get("state") == "following", "the journal")
    for begin in range(1, 100, 5):
        world.sql(ROWS.format(begin, begin + 4), f"DELETE FROM player WHERE id={begin}")
    keeper.wait(lambda: segments.size() > 4096, "the segment")
    keeper.stop()
    path = max(segments.paths(), key=os.path.getsize)
    tried = flips(tally, "segment", segments.dir, os.path.basename(path))
    assert tried["bits"] >= BITS_OF_4_KIB
    tally.assert_clean()
