"""Runs the recipes and commands of worldkeeper-offsite(7) word for word, with other hosts, ports and paths."""
import os
import re
import shutil
import subprocess

import pytest
from wk.follow import dump_and_follow
from wk.keeper import ROOT
from wk.server import KIND, MYSQL, SERVERS
from wk.sinks import certificate
from wk.snapshot import assert_same
from wk.stores import Dav, Directory, Liar, Sshd, account
from wk.util import wait_for

pytestmark = pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test")
CANARY_ROW = "known-words-of-a-player"


def page():
    with open(os.path.join(ROOT, "etc/worldkeeper-offsite.7"), encoding="utf-8") as f:
        return f.read()


def recipe(title):
    """Returns {key: value} of the display in that section."""
    lines = page().split(f".Ss {title}\n")[1].split(".Bd -literal -offset indent\n")[1].split(".Ed")[0].splitlines()
    assert lines.pop(0) == "[offsite]"
    return dict(line.split(" = ") for line in lines)


def command(begin):
    """Returns the line of the page that begins with these words."""
    return re.search(rf"^\.(?:Dl|Ic) ({re.escape(begin)}.*?)(?: ,)?$", page(), re.M)[1].replace("\\-", "-")


def shell(line, cwd, path=""):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=cwd, capture_output=True, text=True,
                          env={**os.environ, "PATH": path + ":" + os.environ["PATH"]})
    assert done.returncode == 0, done
    return done.stdout + done.stderr


def sshd(base, tmp):
    store = Sshd(base)
    shell(command("ssh-keygen"), tmp)
    with open(os.path.join(store.dir, "authorized"), "a") as f, open(os.path.join(tmp, "demo.ssh.pub")) as key:
        f.write(key.read())
    return store, {"backup@store.example.net": f"{account()}@127.0.0.1:{store.port}{store.files}",
                   "/etc/worldkeeper/demo.ssh": os.path.join(tmp, "demo.ssh"),
                   "/etc/worldkeeper/known_hosts": store.known_hosts}


def s3(base, tmp):
    ca, *pair = certificate(tmp)
    store = Liar(base, pair)
    return store, {"s3.example.net": f"127.0.0.1:{store.port}\ntls_ca = {ca}", "/etc/worldkeeper/demo.s3": store.key}


def dav(base, tmp):
    ca, *pair = certificate(tmp)
    store = Dav(base, {"good": pair})
    return store, {"backup": "wk", "dav.example.net/worlds/": f"127.0.0.1:{store.tls_ports['good']}/store/\ntls_ca = {ca}",
                   "/etc/worldkeeper/demo.dav": store.password}


def mounted(base, tmp):
    store = Directory(base)
    return store, {"/mnt/store/": store.files + "/"}


RECIPES = {"A machine with sshd": sshd, "S3": s3, "WebDAV": dav, "A mounted directory": mounted}


@pytest.mark.any_server
@pytest.mark.parametrize("title", RECIPES)
def test_recipe(make_world, make_keeper, tmp, base, title):
    """Each recipe passes the store checks of --check, and the supervisor stores the world's dump with it."""
    store, others = RECIPES[title](base, tmp)
    text = "".join(f"{key} = {value}\n" for key, value in recipe(title).items())
    for old, new in others.items():
        assert old in text, (old, text)
        text = text.replace(old, new)
    assert "example.net" not in text and "/etc/" not in text and "/mnt/" not in text, text
    settings = {"timeout": "3m", **dict(line.split(" = ") for line in text.splitlines())}  # a busy store may be slow
    keeper = make_keeper(make_world("small"), {"offsite": settings}).init()
    keeper.dump()
    try:
        told = [line for line in keeper.run("--check").out.splitlines() if " off-site store " in line]
        assert told and all(line.split()[0] in ("ok", "note") or "on the same file system" in line for line in told), told
        keeper.start()
        said = keeper.wait(lambda: (lambda o: o and o["state"] == "stored" and o)(keeper.status()["offsite"]), "its copy")
        assert said["stored"] == 1 and said["failed"] == 0 and said["last_error"] is None, said
        keeper.stop()
    finally:
        store.stop()


@pytest.mark.each_server
def test_by_hand(make_followed, make_world, tmp):
    """With a key pair made as the page says, nothing of dump and journal is stored in clear text, and the page's commands
    restore a copy that equals the world in each row and definition."""
    store = os.path.join(tmp, "store")
    os.mkdir(store, 0o700)
    said = shell(command("age-keygen"), tmp)
    recipient = re.search("age1[0-9a-z]+", said)[0]
    keeper = make_followed(settings={"offsite": {"url": f"file://{store}/", "recipient": recipient}})
    keeper.world.sql(f"INSERT INTO player (nick,points) VALUES ('{CANARY_ROW}',7)")
    dump_and_follow(keeper)
    before = keeper.world.snapshot()
    keeper.world.sql(f"INSERT INTO player (nick,points) VALUES ('{CANARY_ROW}-2',8)")
    keeper.segments.wait_all()

    def lying():
        return {os.path.join(folder, name): open(os.path.join(folder, name), "rb").read()
                for folder, _, names in os.walk(store) for name in names if not name.endswith(".part")}
    wait_for(lambda: {os.path.basename(os.path.dirname(p)) for p in lying()} == {"dumps", "segments"} and
             any(p.endswith(keeper.dumps()[-1]["name"] + ".json") for p in lying()), "dump and journal in the store")
    keeper.stop()
    clear = [open(path, "rb").read() for path in (keeper.path(keeper.newest()), *keeper.segments.paths())]
    pieces = {data[i:i + 16] for data in clear for i in range(0, len(data) - 16, 16)}
    for path, data in lying().items():
        assert CANARY_ROW.encode() not in data and path.endswith((".age", ".json")), path
        assert path.endswith(".json") or not [piece for piece in pieces if piece in data], path
    empty = make_world("empty", keeper.server)
    os.mkdir(os.path.join(tmp, "bin"))
    path = os.path.join(tmp, "bin/mysql")
    tool = f"{SERVERS} tool {KIND} mysql" if MYSQL else "mariadb --no-defaults"
    with open(path, "w") as f:
        f.write(f'#!/bin/sh\nexec {tool} --socket={empty.server.socket} --user=root "$@"\n')
    os.chmod(path, 0o755)
    name = keeper.dumps()[-1]["name"]  # the supervisor may have dumped later changes since
    line = command("age -d").replace("NAME", os.path.join(store, "w1/dumps", name)).replace("schema", empty.schema)
    shell(line, tmp, os.path.dirname(path))
    assert_same(before, empty.snapshot(), "brought back by hand")
