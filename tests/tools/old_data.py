#!/usr/bin/python3
"""Makes the data of an older version that tests/system/test_old_data.py reads: a world that was lost and came back, with a dump,
segments behind it, history, alerts that wait, and a store; and two machines of one world. With the program of that version,
built from its commit (0.1.0: e90d137, 0.2.0: a31529d):

    WORLDKEEPER=…/build/release/worldkeeper tests/tools/old_data.py

Leaves tests/system/old/VERSION.tar.gz and, with [dump] hmac_key_file, VERSION-signed.tar.gz; and VERSION-pair.tar.gz."""
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = os.path.join(os.path.dirname(HERE), "system")
sys.path[:0] = [SYSTEM, os.path.dirname(HERE)]

from wk.follow import LOG, following  # noqa: E402
from wk.keeper import BINARY, Keeper  # noqa: E402
from wk.olddata import KEY, SCHEMA, TABLES, rows  # noqa: E402
from wk.offsite import stored  # noqa: E402
from wk.server import Server  # noqa: E402
from wk.world import World  # noqa: E402


def make(base, version, signed):
    server = Server(base, *LOG).start()
    try:
        world = World(server, "empty", schema=SCHEMA)
        world.sql(*TABLES)
        where = tempfile.mkdtemp(dir=base, prefix="k")
        os.chmod(where, 0o755)
        store = os.path.join(where, "store")
        os.mkdir(store, 0o700)
        settings = {"journal": {"mode": "follow"}, "restore": {"new_server": "yes"},
                    # Nobody listens there: the alerts wait.
                    "alert.smtp": {"url": "smtp://127.0.0.1:1", "from": "a@a.invalid", "to": "b@b.invalid", "starttls": "off"}}
        if version != "0.1.0":
            settings["offsite"] = {"url": f"file://{store}/", "plain": "yes"}
        keeper = Keeper(where, world, settings=settings)
        if signed:
            keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
        try:
            keeper.init()
            keeper.start()
            following(keeper)
            keeper.dump()
            world.sql("INSERT INTO player VALUES (4,'négy',40)")
            server.grow_old()
            server.crash()
            keeper.wait(lambda: keeper.status().get("last_restore") and keeper.state() == "UP", "the world again")
            following(keeper)
            keeper.dump()
            world.sql("INSERT INTO player VALUES (5,'öt',50)", "DELETE FROM player WHERE id=1",
                      "UPDATE player SET points=21 WHERE id=2", "INSERT INTO chat VALUES (9,'last words')")
            time.sleep(5)  # the journal and the store have it a second later
            following(keeper)
            if "offsite" in settings:
                stored(keeper)
            expected = rows(world)
            keeper.stop()
        finally:
            keeper.destroy()
        pack(f"{version}{'-signed' if signed else ''}", where, expected)
    finally:
        server.destroy()


def pair(base, version):
    """Makes a primary, which hands its world over, and its standby, which is promoted. Packs the store and the machines "one" and
    "two" at three moments: before that, after the switch-over, and after the new primary stored a dump."""
    servers = [Server(base, *LOG).start() for _ in range(2)]
    where = tempfile.mkdtemp(dir=base, prefix="p")
    os.chmod(where, 0o755)
    store = os.path.join(where, "live")
    os.mkdir(store, 0o700)
    settings = {"journal": {"mode": "follow"}, "offsite": {"url": f"file://{store}/", "plain": "yes"},
                "standby": {"lease": "none"}}
    keepers = []

    def keep(moment):
        for name, path in (("one", one.dumps_dir), ("two", two.dumps_dir), ("store", store)):
            shutil.copytree(path, os.path.join(where, moment, name))
    try:
        for n, server in enumerate(servers):
            os.mkdir(os.path.join(where, f"m{n}"), 0o755)
            keepers.append(Keeper(os.path.join(where, f"m{n}"), World(server, "empty", schema=SCHEMA), settings=settings))
        one, two = keepers
        one.world.sql(*TABLES)
        one.init()
        one.dump()
        one.start()
        following(one)
        stored(one)
        two.start("STANDBY")
        one.world.sql("INSERT INTO player VALUES (4,'négy',40)", "UPDATE player SET points=21 WHERE id=2")
        time.sleep(5)  # the journal, the store and the standby have it a second later
        following(one)
        expected = rows(one.world)
        two.stop()
        one.stop()
        keep("before")
        one.start()
        following(one)
        stored(one)
        one.ok("--switch-over")
        one.stop()
        keep("handed-over")
        two.ok("--promote", "--by-hand")
        two.start()
        two.world.sql("INSERT INTO player VALUES (6,'hat',60)")
        two.dump()
        stored(two)
        two.stop()
        keep("promoted")
        pack(f"{version}-pair", where, expected, ("before", "handed-over", "promoted"))
    finally:
        for keeper in keepers:
            keeper.destroy()
        for server in servers:
            server.destroy()


def pack(name, where, expected, folders=("dumps", "store")):
    """Packs the data, without what belongs to this machine or moment only (locks, sockets)."""
    path = os.path.join(SYSTEM, "old", name + ".tar.gz")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for folder in folders:
            for at, dirs, files in os.walk(os.path.join(where, folder)):
                dirs.sort()
                for file in sorted(files):
                    full = os.path.join(at, file)
                    info = tar.gettarinfo(full, os.path.relpath(full, where))
                    info.uid = info.gid = 0
                    info.uname = info.gname = ""
                    if file in ("lock", "standby.lock", "reserve", "pending.reserve"):
                        continue
                    with open(full, "rb") as f:
                        tar.addfile(info, f)
        data = json.dumps(expected, ensure_ascii=False).encode()
        info = tarfile.TarInfo("rows.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    print(path, os.path.getsize(path))


version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
with tempfile.TemporaryDirectory() as base, contextlib.suppress(KeyboardInterrupt):
    os.chmod(base, 0o755)
    for signed in (False, True):
        make(base, version, signed)
    if version != "0.1.0":
        pair(base, version)
