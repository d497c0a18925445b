"""The contents of an off-site store, inspected by hand, and the loss of the machine. A `store` has the `path` of its files (or
None and listed(folder)), the `key` that decrypts them, and `settings`."""
import contextlib
import hashlib
import json
import os
import shutil
import subprocess

from .follow import another_server
from .util import wait_for

PLAIN = "known-words-of-a-player"
AGE = b"age-encryption.org/v1\n"


def files(store, folder):
    if store.path is None:
        return store.listed("w1/" + folder)
    path = os.path.join(store.path, "w1", folder)
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def manifests(store):
    """Returns the manifests in the store, and asserts that each has its file as described."""
    found = []
    for name in files(store, "dumps"):
        if name.endswith(".json"):
            with open(os.path.join(store.path, "w1/dumps", name)) as f:
                m = json.load(f)
            with open(os.path.join(store.path, "w1/dumps", m["offsite"]["file"]), "rb") as f:
                data = f.read()
            assert len(data) == m["offsite"]["size"]
            assert hashlib.sha256(data).hexdigest() == m["offsite"]["sha256"]
            found.append(m)
    return found


def stored(keeper):
    """Waits until everything is stored according to the status, and returns it."""
    def all_there():
        o = keeper.status().get("offsite")
        newest = keeper.newest()["name"] if keeper.dumps() else None
        return o and o["state"] == "stored" and o["waiting"] == 0 and o["newest"] == newest and o
    return keeper.wait(all_there, "everything is stored")


def nothing_readable(store):
    """Asserts that each file is encrypted by age and contains nothing of PLAIN."""
    for folder, _, names in os.walk(store.path):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    data = f.read()
            except FileNotFoundError:  # an upload was renamed meanwhile
                continue
            assert PLAIN.encode() not in data and (name.endswith((".json", ".pin")) or data.startswith(AGE[:len(data)])), name


def open_age(store, path):
    """Returns the decrypted contents, or None if the file is damaged or was deleted."""
    done = subprocess.run(["age", "-d", "-i", store.key, path], capture_output=True)
    return done.stdout if done.returncode == 0 else None


def parts(store):
    """Returns [(number, from, to, path)] of the journal's object parts in the store, from their names."""
    found = []
    for name in files(store, "segments"):
        if name.endswith(".part"):
            continue
        number, _, rest = name.removeprefix("w1-").partition("-")
        start, end = (int(n) for n in rest.removesuffix(".age").split(".")[1].split("-"))
        found.append((int(number), start, end, os.path.join(store.path or "", "w1/segments", name)))
    return found


def segments(store, opened=None):
    """Returns {number: bytes} of the journal in the store, assembled by hand from all intact parts. `opened` has those that
    were found intact before."""
    found, opened = {}, {} if opened is None else opened
    for number, start, end, path in parts(store):
        data = opened[path] = opened.get(path) or open_age(store, path)
        if data is not None:
            assert len(data) == end - start, path
            found.setdefault(number, {}).setdefault(start, data)
    whole = {}
    for number, pieces in found.items():
        whole[number] = b""
        for start in sorted(pieces):
            if start == len(whole[number]):
                whole[number] += pieces[start]
    return whole


def wait_segments(keeper, store):
    """Waits until the store has everything that the local journal has now. It may grow and lose old segments meanwhile."""
    here, opened = {}, {}
    for path in keeper.segments.paths():
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as f:
            here[path] = f.read()

    def all_there():
        there = segments(store, opened)
        return all(there.get(int(path.rpartition("-")[2].partition(".")[0]), b"").startswith(data)
                   for path, data in here.items() if os.path.exists(path))
    wait_for(all_there, "the journal is in the store")


def lose_machine(keeper):
    """Destroys the server with its disk, dumps, journal and status. A new server, the config and the key are left."""
    keeper.kill9()
    if keeper.server.process:
        keeper.server.kill9()
    for path in (keeper.dumps_dir, keeper.status_dir, keeper.control_dir):
        for name in os.listdir(path):
            name = os.path.join(path, name)
            shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)
    another_server(keeper)


def off_site(keeper, state=""):
    """Returns the pids of the uploading workers; `state` is as in /proc/PID/stat."""
    found = []
    for pid in keeper.pids():
        try:
            with open(f"/proc/{pid}/stat") as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name.startswith("wk-off-site") and (not state or rest.split()[0] == state):
            found.append(pid)
    return found
