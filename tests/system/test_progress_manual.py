"""Runs the examples of worldkeeper-progress(7) word for word."""
import os
import re
import subprocess

import pytest

from wk.central import Central
from wk.util import CANARY

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
pytestmark = pytest.mark.each_server


def example(title):
    with open(os.path.join(ROOT, "etc/worldkeeper-progress.7"), encoding="utf-8") as f:
        text = f.read().split(f".Ss {title}\n")[1].split(".Bd -literal\n")[1].split("\n.Ed")[0]
    text = text.replace("\\-", "-")
    assert "\\" not in text and not re.search(r"^[.']", text, re.M)
    return text + "\n"


@pytest.fixture
def central(server):
    made = Central(server, "progress")
    yield made
    made.close()


PROGRAMS = {"In PHP (mysqli)": "php", "In Python": "/usr/bin/python3"}


def play(central, tmp, title):
    path = os.path.join(tmp, "example")
    with open(path, "w", encoding="utf-8") as f:
        f.write(example(title))
    return subprocess.run([PROGRAMS[title], path], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
                          env={**os.environ, "CENTRAL_SOCKET": central.server.socket, "CENTRAL_PASSWORD": CANARY})


@pytest.mark.parametrize("title", PROGRAMS)
def test_a_session(central, tmp, title):
    game = central.client()
    for n in (1, 2):
        done = play(central, tmp, title)
        assert (done.returncode, done.stdout) == (0, "a sword," * n), done.stdout
        assert central.blob("anna.bag") == (n, n, b"a sword," * n)
    assert game.call("wk_acquire", "anna", "gs-b", None)[:2] == ("locked", 3), "it was released"
    central.sql("UPDATE wk_lock SET wanted_at=UTC_TIMESTAMP(3)-INTERVAL 29 SECOND")
    assert play(central, tmp, title).stdout == "a sword," * 3, "after waiting it takes over"
    assert central.sql("SELECT from_id, lock_id, why FROM wk_takeover") == ((b"gs-b", b"gs-a", "wanted"),)


def test_the_session_in_sql(central):
    lines = example("A whole session in SQL").replace("7", "1")
    done = subprocess.run(["mariadb", "--no-defaults", "--socket=" + central.server.socket, "--user=root", "--batch",
                           "--skip-column-names", "progress"], input=lines, text=True, stdout=subprocess.PIPE, check=True)
    assert done.stdout.split("\n") == ["ok", "locked\t1\tgs-a\t0\tNULL", "none\tNULL\tNULL\tNULL", "saved", "released", ""]
    assert central.blob("anna.bag") == (1, 1, b"a sword")
