"""A damaged dump is rejected with its reason, and the next older one is used."""
import gzip
import hashlib
import json
import os
import shutil

import pytest
from wk.keeper import NOT_WELL, NOTHING, signed
from wk.snapshot import assert_same

pytestmark = pytest.mark.any_server


@pytest.fixture
def two(keeper):
    """Returns a keeper with an older dump (mark 1) and a newer one (mark 2)."""
    keeper.dump()
    keeper.older = keeper.world.snapshot()
    keeper.world.mark(2)
    keeper.dump()
    keeper.new_path = keeper.path(keeper.newest())
    keeper.manifest_path = keeper.new_path.replace(".sql.gz", ".json")
    return keeper


def restores_the_older(keeper, make_world, why):
    """Asserts that the next older dump is restored and the result says why the newer one was skipped; returns that reason."""
    older, newer = keeper.dumps()[-1]["name"], os.path.basename(keeper.new_path)[:-7]
    target = make_world("empty")
    keeper.server.grant("keeper@localhost", target.schema)
    result = keeper.ok("--restore", "--into", target.schema, "--json")
    assert result["dump"] == older, why
    skipped = {s["dump"]: s["reason"] for s in result["skipped"]}
    assert skipped.get(newer), f"{why}: no reason told: {result}"
    assert_same(keeper.older, target.snapshot(), why)
    return skipped[newer]


def test_any_flipped_bit_is_found(two):
    """--verify reports one flipped bit at each of many offsets; once it is flipped back, --verify passes."""
    with open(two.new_path, "rb") as f:
        data = f.read()
    name = os.path.basename(two.new_path)[:-7]
    offsets = [0, 1, 3, 4, 9, 10, 11, 17, 18] + [len(data) * k // 16 for k in range(1, 16)] + [
        len(data) - 9, len(data) - 8, len(data) - 4, len(data) - 1]
    for i, offset in enumerate(offsets):
        broken = bytearray(data)
        broken[offset] ^= 1 << i % 8
        with open(two.new_path, "wb") as f:
            f.write(broken)
        done = two.run(f"--verify={name}", "--json")
        assert done.rc == NOT_WELL, f"offset {offset}: {done}"
        (dump,) = done.result["dumps"]
        assert dump["whole"] is False and dump["reason"], offset
    with open(two.new_path, "wb") as f:
        f.write(data)
    two.ok("--verify")


def test_a_flipped_bit_makes_the_older_dump_the_one(two, make_world):
    """A restore verifies the newest dump and, because of a flipped bit, uses the older one."""
    with open(two.new_path, "r+b") as f:
        f.seek(os.path.getsize(two.new_path) // 2)
        byte = f.read(1)[0]
        f.seek(-1, 1)
        f.write(bytes([byte ^ 16]))
    restores_the_older(two, make_world, "one flipped bit")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("keep", [0, 1, 10, 20, 0.3, 0.6, 0.9, -9, -8, -1])
def test_cut_at_any_length(two, make_world, keep):
    """A truncated file, including an empty one, is rejected."""
    size = os.path.getsize(two.new_path)
    with open(two.new_path, "r+b") as f:
        f.truncate(int(size * keep) if isinstance(keep, float) else keep if keep >= 0
                   else size + keep)
    restores_the_older(two, make_world, f"cut to {keep}")


def test_a_cut_that_is_again_good_gzip(two, make_world):
    """A valid gzip file with half of the text is rejected, because it does not match the manifest."""
    with gzip.open(two.new_path) as f:
        sql = f.read()
    with gzip.open(two.new_path, "wb") as f:
        f.write(sql[:len(sql) // 2])
    restores_the_older(two, make_world, "half the text")


def test_trailing_garbage(two, make_world):
    """A file with extra bytes at its end is rejected."""
    with open(two.new_path, "ab") as f:
        f.write(b"\0" * 100)
    restores_the_older(two, make_world, "trailing garbage")


def edit(change):
    def damage(path):
        with open(path) as f:
            manifest = json.load(f)
        change(manifest)
        with open(path, "w") as f:
            json.dump(signed(manifest), f)
    return damage


def text(data):
    def damage(path):
        with open(path, "wb") as f:
            f.write(data)
    return damage


def half(path):
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) // 2)


def fewer_rows(manifest):
    for table in manifest["tables"]:
        if table["name"] == "player":
            table["rows"] -= 1
    manifest["rows"] -= 1


MANIFESTS = {
    "empty": text(b""), "half": half, "binary": text(bytes(range(256))), "not json": text(b"{x"),
    "a list": text(b"[]"), "deep": text(b"[" * 100000), "other sha": edit(
        lambda m: m.update(sha256=hashlib.sha256(b"").hexdigest())),
    "other size": edit(lambda m: m.update(file_size=m["file_size"] + 1)),
    "other rows": edit(fewer_rows), "other world": edit(lambda m: m.update(world="other")),
    "other name": edit(lambda m: m.update(name=m["name"].replace("w1", "w2"))),
    "other generation": edit(lambda m: m.update(generation=m["generation"] + 5)),
    "no tables": edit(lambda m: m.pop("tables")), "newer format": edit(lambda m: m.update(format=99)),
    "wrong types": edit(lambda m: m.update(tables="x", rows="many")),
}


@pytest.mark.parametrize("how", MANIFESTS)
def test_wrong_manifest(two, make_world, how):
    """A manifest that does not match its file or is invalid is rejected; the older dump is restored and --list works."""
    MANIFESTS[how](two.manifest_path)
    older = min(f for f in os.listdir(two.dumps_dir) if f.endswith(".sql.gz"))[:-7]
    target = make_world("empty")
    two.server.grant("keeper@localhost", target.schema)
    result = two.ok("--restore", "--into", target.schema, "--json")
    assert result["dump"] == older
    assert_same(two.older, target.snapshot(), how)
    two.ok("--list")


@pytest.mark.parametrize("how", ["empty", "no tables"])
def test_what_an_unread_manifest_does_not_tell_is_unknown(two, how):
    """--list shows rows, size, duration and time of a dump whose manifest cannot be read as unknown, and not as 0."""
    MANIFESTS[how](two.manifest_path)
    name = os.path.basename(two.manifest_path)[:-5]
    unread = next(d for d in two.ok("--list", "--json")["dumps"] if d["name"] == name)
    known = {"name", "generation", "sequence", "intact", "damaged", "earlier_round", "abandoned", "reason"}
    assert not unread["intact"] and unread["reason"], unread
    assert {k: v for k, v in unread.items() if k not in known and v is not None} == {}, unread
    row = next(line for line in two.run("--list").out.splitlines() if name in line)
    assert row.split()[1:5] == ["?", "?", "?", "?"] and "NO: " in row, row


def test_a_dump_that_is_a_symbolic_link(two, make_world):
    """A symbolic link in place of a dump is not followed."""
    moved = two.new_path + ".elsewhere"
    shutil.move(two.new_path, moved)
    os.symlink(moved, two.new_path)
    restores_the_older(two, make_world, "a symbolic link")


def test_nothing_intact_by_hand(two):
    """If every dump is damaged, --restore exits with 5 and changes nothing."""
    before = two.world.snapshot()
    for manifest in two.dumps():
        with open(two.path(manifest), "r+b") as f:
            f.truncate(100)
    done = two.run("--restore", "--force", "--json")
    assert done.rc == NOTHING, done
    two.world.assert_is(before)


def test_nothing_intact_supervised(doomed, victim, http):
    """If every dump is damaged, the supervisor stays in WAITING and sends an alert that names the dump."""
    doomed.configure(http.settings())
    manifest = doomed.dump()
    doomed.start()
    with open(manifest["path"], "r+b") as f:
        f.truncate(100)
    victim.crash()
    doomed.wait_state("WAITING")
    message = http.wait_event("waiting")[0]
    assert message["todo"] and manifest["name"] in json.dumps(message)
    doomed.wait(lambda: doomed.flag() == "WAITING", "the flag WAITING")
    assert doomed.world.rows() == 0


def test_older_dump_is_used_by_itself(doomed, victim, http):
    """The supervisor also falls back to the older dump, and its alert names the damaged one."""
    doomed.configure(http.settings())
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.mark(2)
    newest = doomed.dump()
    doomed.start()
    with open(newest["path"], "r+b") as f:
        f.seek(60)
        f.write(b"\0\0\0\0")
    victim.crash()
    message = http.wait_event("restored")[0]
    assert newest["name"] in json.dumps(message)
    doomed.wait_state("UP")
    doomed.world.assert_is(before)
