"""With a key configured, a dump is verified before any part of it is used: foreign data reaches neither the parser nor the
server, whatever its gzip contains and whenever it was put into the file."""
import gzip
import hashlib
import hmac
import json
import os
import threading
import time
import zlib

import pytest
from wk.keeper import DONE, NOT_WELL, signed

pytestmark = pytest.mark.third_on_mysql

KEY = "3f" * 32
MARK = b"forged"


@pytest.fixture
def keyed(keeper):
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    keeper.server.sql("GRANT ALL ON `worldkeeper\\_drill%`.* TO keeper@localhost",
                      "GRANT ALL ON wk_signed.* TO keeper@localhost")
    yield keeper
    keeper.server.sql("DROP DATABASE IF EXISTS wk_signed", "SET GLOBAL general_log=0")


def stretched(text, length):
    """Returns one gzip member of this text with exactly this length, filled up by a comment in its header."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(text) + body.flush()
    tail = zlib.crc32(text).to_bytes(4, "little") + (len(text) & 0xffffffff).to_bytes(4, "little")
    room = length - 10 - len(packed) - 8 - 1
    assert room >= 0, (length, len(packed))
    member = b"\x1f\x8b\x08\x10" + b"\0" * 4 + b"\0\x03" + b"x" * room + b"\0" + packed + tail
    assert len(member) == length and gzip.decompress(member) == text
    return member


def members(data):
    """Yields (offset, length, text) of each gzip member."""
    at = 0
    while at < len(data):
        reader = zlib.decompressobj(31)
        text = reader.decompress(data[at:])
        length = len(data) - at - len(reader.unused_data)
        yield at, length, text
        at += length


def forged(keeper, manifest):
    """Returns the dump's file with the definition of its last game table replaced by another of equal length, which a server
    that creates the table would execute, and the name of that table."""
    with open(keeper.path(manifest), "rb") as f:
        data = f.read()
    table = max((t for t in manifest["tables"] if t["rows"] and not t["name"].startswith("worldkeeper")
                 and t["name"].isidentifier()), key=lambda t: t["length"])
    at, length, text = next(m for m in members(data) if m[0] == table["offset"])
    sql = (f"DROP TABLE IF EXISTS `{table['name']}`;\nSET NAMES utf8mb4;\nCREATE TABLE `{table['name']}` (\n"
           f"  `{MARK.decode()}` int(11) DEFAULT NULL\n) ENGINE=MEMORY;\nSET NAMES binary;\n").encode()
    assert text.startswith(sql[:40])
    return data[:at] + stretched(sql, length) + data[at + length:], table["name"]


def old_manifest(keeper, manifest):
    """Writes the manifest as it was before parts existed, signed with the same key."""
    manifest = signed({k: v for k, v in manifest.items() if k != "parts"})
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest["hmac"] = hmac.new(KEY.encode(), b"worldkeeper manifest 1\n" + text.encode(), hashlib.sha256).hexdigest()
    with open(keeper.path(manifest).replace(".sql.gz", ".json"), "w") as f:
        json.dump(manifest, f)


class Heard:
    """Records all statements that the server gets meanwhile."""

    def __init__(self, server):
        self.server, self.path = server, os.path.join(server.datadir, f"general-{time.monotonic_ns()}.log")

    def __enter__(self):
        self.server.sql(f"SET GLOBAL general_log_file='{self.path}'", "SET GLOBAL general_log=1")
        return self

    def __exit__(self, *_):
        self.server.sql("SET GLOBAL general_log=0")

    def text(self):
        with open(self.path, "rb") as f:
            return f.read()


ACTIONS = {
    "verify": ("--verify=latest",),
    "into": ("--restore", "--into", "wk_signed"),
    "dry run": ("--restore", "--force", "--dry-run"),
    "restore": ("--restore", "--force"),
    "drill": ("--drill",),
}


@pytest.mark.parametrize("parts", [True, False], ids=["parts", "before parts"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_forged_member_reaches_nothing(keyed, action, parts):
    """Of a forged dump nothing is sent to the server, and the older dump is used."""
    older = keyed.dump()["name"]
    newer = keyed.dump()["name"]
    manifest = keyed.newest()
    if not parts:
        old_manifest(keyed, manifest)
    data, table = forged(keyed, manifest)
    with open(keyed.path(manifest), "wb") as f:
        f.write(data)
    keyed.world.sql(f"DROP TABLE `{table}`")  # so that a restore creates it from the dump
    with Heard(keyed.server) as heard:
        done = keyed.run(*ACTIONS[action], "--json")
        asked = heard.text()
    assert MARK not in asked, "the forged definition was sent to the server"
    if action == "verify":
        assert done.rc == NOT_WELL and "SHA-256" in done.result["dumps"][0]["reason"], done
        return
    assert done.rc == DONE and done.result["dump"] == older, done
    assert [s["dump"] for s in done.result["skipped"]] == [newer], done
    assert "SHA-256" in done.result["skipped"][0]["reason"], done


@pytest.mark.parametrize("parts", [True, False], ids=["parts", "before parts"])
@pytest.mark.parametrize("how", ["renamed over", "written in place"])
def test_a_file_that_changes_between_two_reads(keyed, how, parts):
    """During restores the dump's file is replaced again and again. Each restore succeeds or is refused by the SHA-256, and the
    forged definition is never sent to the server."""
    keyed.dump()
    manifest = keyed.newest()
    if not parts:
        old_manifest(keyed, manifest)
    path = keyed.path(manifest)
    with open(path, "rb") as f:
        good = f.read()
    bad, over = forged(keyed, manifest)[0], threading.Event()

    def swap():
        turn = 0
        while not over.is_set():
            turn += 1
            data = bad if turn % 2 else good
            name = path + ".swap" if how == "renamed over" else path
            with open(name, "r+b" if os.path.exists(name) else "wb") as out:
                out.write(data)
            if how == "renamed over":
                os.rename(name, path)
            time.sleep(0.002)

    swapper = threading.Thread(target=swap)
    with Heard(keyed.server) as heard:
        swapper.start()
        try:
            done = []
            for _ in range(12):
                keyed.server.sql("DROP DATABASE IF EXISTS wk_signed")
                done.append(keyed.run("--restore=" + manifest["name"], "--into", "wk_signed", "--json"))
        finally:
            over.set()
            swapper.join()
        assert MARK not in heard.text()
    for one in done:
        assert one.rc == DONE or "SHA-256" in one.out, one
