"""etc/container/account.sh creates the account for any bytes in its password and any sql_mode of the server."""
import os
import random
import re
import subprocess

import pymysql
import pytest
from wk.keeper import ROOT
from wk.server import words

pytestmark = pytest.mark.only("mariadb", why="the example is MariaDB's image")
MODES = ["", "NO_BACKSLASH_ESCAPES", "ANSI", "ORACLE,EMPTY_STRING_IS_NULL", "TRADITIONAL,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES"]


def passwords(rng):
    """Yields every byte that a first line may contain, the ways to end a string, and random passwords."""
    every = bytes(b for b in range(1, 256) if b not in b"\r\n")
    yield from (every[i:i + 64] for i in range(0, len(every), 64))
    yield from (b"'", b"\\", b"\\'", b"''", b"'; DROP DATABASE game; --", b"\\\\'; DROP DATABASE game; -- \\", b"$(id)`id`$HOME",
                b"\\g", b"/*!50000 x */", b"END", b"DELIMITER ;;", b"\xbf'", b"\xe2\x82", b" ", b"*" + b"0" * 40)
    for _ in range(10):
        yield bytes(rng.choice(every if rng.random() < .5 else b"'\\\"`;-*/ \xbf") for _ in range(rng.randrange(1, 40)))


def script_with(server, secret):
    """Returns account.sh as the image's entry point runs it, with another file for the secret."""
    with open(f"{ROOT}/etc/container/account.sh", encoding="utf-8") as f:
        script = f.read()
    assert script.count("/run/secrets/worldkeeper") == 1
    client = " ".join([*words("mariadb", "mariadb"), "--socket=" + server.socket, "--user=root", "--batch"])
    return f"set -eo pipefail\ndocker_process_sql() {{ {client} \"$@\"; }}\n" + script.replace("/run/secrets/worldkeeper", secret)


@pytest.mark.parametrize("mode", MODES)
def test_every_password(make_server, tmp, mode):
    with open(f"{ROOT}/etc/container/compose.yaml", encoding="utf-8") as f:
        options = re.findall('"(--[a-z-]+=[^"]+)"', f.read())
    assert "--log-bin=binlog" in options
    server = make_server(*options, f"--sql-mode={mode}")
    server.sql("CREATE DATABASE game")
    secret = os.path.join(tmp, "secret")
    script = script_with(server, secret)
    seed = random.randrange(1 << 32)
    for number, password in enumerate(passwords(random.Random(seed))):
        with open(secret, "wb") as f:
            f.write(password + (b"", b"\n", b"\r\xff\nmore\n", b"\nmore '\n")[number % 4])
        server.sql("DROP USER IF EXISTS worldkeeper@localhost")
        done = subprocess.run(["bash", "-c", script], capture_output=True, timeout=120)
        assert done.returncode == 0, (seed, password, done.stderr)
        pymysql.connect(unix_socket=server.socket, user="worldkeeper", password=password, database="game").close()
    log = "".join(str(row) for row in server.sql("SHOW BINLOG EVENTS"))
    assert "DROP DATABASE" not in log and "CREATE USER" in log


def test_an_empty_password_makes_no_account(make_server, tmp):
    server = make_server()
    server.sql("CREATE DATABASE game")
    secret = os.path.join(tmp, "secret")
    for text in (b"", b"\n", b"\r\n", b"\nmore\n"):
        with open(secret, "wb") as f:
            f.write(text)
        done = subprocess.run(["bash", "-c", script_with(server, secret)], capture_output=True, timeout=120)
        assert done.returncode == 1 and b"is empty" in done.stderr, done
    assert not server.sql("SELECT 1 FROM mysql.user WHERE User='worldkeeper'")
