#!/usr/bin/env python3
"""A newcomer's first hour, measured: from a clone on a machine with a game's database server to a world that is supervised,
drilled and followed, by the commands of README, by Enter, and by "y" where setup asks whether to restart the server; then the
server is killed.

Runs as root, in a Debian that is thrown away and whose first process is systemd: `make first-hour`. The database server and
the game's world are there before it begins, and the clone and the package, which README's first commands make.
Prints each command with its time, then the figures; exit status 0 only if the world is watched and came back."""
import difflib
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time

PATIENCE = 300  # seconds for whatever has to happen; nothing is measured by it
WORLD = """
CREATE DATABASE galaxy; USE galaxy;
CREATE TABLE player (id INT UNSIGNED NOT NULL AUTO_INCREMENT, name VARCHAR(40) NOT NULL, gold BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (id), KEY name (name)) ENGINE=MEMORY;
CREATE TABLE planet (id INT UNSIGNED NOT NULL AUTO_INCREMENT, player INT UNSIGNED NOT NULL, x INT NOT NULL, y INT NOT NULL,
  iron DOUBLE NOT NULL DEFAULT 0, PRIMARY KEY (id), KEY player (player) USING BTREE) ENGINE=MEMORY;
CREATE TABLE fleet (id INT UNSIGNED NOT NULL AUTO_INCREMENT, player INT UNSIGNED NOT NULL, ships INT NOT NULL, arrives DATETIME NULL,
  PRIMARY KEY (id)) ENGINE=MEMORY;
CREATE TRIGGER launched BEFORE INSERT ON fleet FOR EACH ROW SET NEW.ships = GREATEST(NEW.ships, 1);
CREATE TABLE account (id INT PRIMARY KEY, mail VARCHAR(80)) ENGINE=InnoDB;
INSERT INTO player (name,gold) SELECT CONCAT('p', a.n, '-', b.n), a.n*b.n FROM
  (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7) a,
  (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7) b;
INSERT INTO planet (player,x,y,iron) SELECT p.id, q.id, p.id*q.id, p.gold/7 FROM player p, player q;
INSERT INTO fleet (player,ships) SELECT p.id, q.id FROM player p, player q WHERE q.id < 9;
"""
TABLES = "player", "planet", "fleet"
SERVERS, SOCKET = "scripts/servers.sh", "/run/mysqld/mysqld.sock"


def run(*command, check=True, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if check and done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def sql(text):
    return run("mysql", "--batch", "--skip-column-names", input=text)


def wait_for(what, happened):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = happened()
        if found:
            return found
        time.sleep(0.05)
    sys.exit(f"{what}: not within {PATIENCE} s; status: {json.dumps(status())[:4000]}")


class Commands:
    """What a person types, each with its time."""

    def __init__(self):
        self.typed = []

    def did(self, text, seconds):
        self.typed.append((text, seconds))
        print(f"[{seconds:6.1f} s] {text}", flush=True)


def by_enter(command):
    """Runs a program in a terminal and answers each question by Enter, that for the restart by "y". Returns its exit status,
    output and questions."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    text, questions, seen = "", 0, 0
    while True:
        ready, _, _ = select.select([fd], [], [], PATIENCE)
        try:
            data = os.read(fd, 65536) if ready else b""
        except OSError:  # the other end is closed
            data = b""
        if not data:
            break
        text += data.decode("utf-8", "replace").replace("\r", "")
        if re.search(r"[?:\]] $", text[seen:]) and not select.select([fd], [], [], 0.3)[0]:
            questions += 1
            os.write(fd, b"y\n" if "Restart the server" in text[seen:].rpartition("\n")[2] else b"\n")
            seen = len(text)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text, questions


def status():
    done = subprocess.run(["worldkeeper", "--world", "galaxy", "--status", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return json.loads(done.stdout) if done.stdout.startswith("{") else {}


def content(kind):
    tool = ["mysqldump"] if kind == "mariadb" else [SERVERS, "tool", "mysql", "mysqldump", f"--socket={SOCKET}", "--set-gtid-purged=OFF"]
    return run(*tool, "--compact", "--order-by-primary", "--skip-extended-insert", "galaxy", *TABLES)


def show(text):
    print("".join(f"    | {line}\n" for line in text.splitlines()), end="", flush=True)


def set_up(commands):
    """Runs worldkeeper-setup until the world is watched. Returns the number of questions."""
    start = time.monotonic()
    rc, said, questions = by_enter(["worldkeeper-setup"])
    commands.did(f"sudo worldkeeper-setup   ({questions} questions)", time.monotonic() - start)
    show(said)
    if rc:
        sys.exit(f"worldkeeper-setup: exit {rc}")
    return questions


def free_port():
    """Returns a free port. Fixed ports may be in use, because this container shares its network with the host."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def install(*packages):
    run("bash", "-c", "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; apt-get -qq install --yes "
        "--no-install-recommends " + " ".join(packages))


def begin_mariadb():
    write("/etc/mysql/mariadb.conf.d/60-port.cnf", f"[mysqld]\nport = {free_port()}\n")
    install("mariadb-server")


def begin_mysql():
    """Installs the server of Debian sid as its package would, because Debian 12 and 13 have no package of MySQL."""
    install("mariadb-client", "adduser")
    run("bash", "-c", "id mysql || adduser --system --group --quiet --no-create-home mysql")
    run(SERVERS, "fetch", "mysql")
    words = " ".join(run(SERVERS, "words", "mysql").splitlines())
    write("/etc/mysql/mysql.cnf", f"[mysqld]\ndatadir = /var/lib/mysql\nsocket = {SOCKET}\npid-file = /run/mysqld/mysqld.pid\n"
          f"port = {free_port()}\nmysqlx = OFF\nskip-log-bin\n!includedir /etc/mysql/mysql.conf.d/\n")
    write("/etc/mysql/mysql.conf.d/10-first.cnf", "[mysqld]\n")
    run("install", "-d", "-o", "mysql", "-g", "mysql", "/var/lib/mysql")
    run(SERVERS, "install", "mysql", "/var/lib/mysql")
    run("chown", "-R", "mysql:", "/var/lib/mysql")
    write("/etc/systemd/system/mysql.service", "[Service]\nUser=mysql\nRuntimeDirectory=mysqld\nRestart=on-failure\n"
          f"ExecStart={words.replace('--no-defaults', '--defaults-file=/etc/mysql/mysql.cnf')}\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "mysql")


def main():
    service = sys.argv[1] if len(sys.argv) > 1 else "mariadb"
    package = sys.argv[2]
    {"mariadb": begin_mariadb, "mysql": begin_mysql}[service]()
    wait_for("the database server", lambda: run("mysqladmin", "ping", check=False).find("alive") >= 0)
    sql(WORLD)
    commands = Commands()
    commands.did("git clone   (before this began)", 0)
    start = time.monotonic()
    run("bash", "-c", f"apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes {os.path.abspath(package)}")
    commands.did("sudo scripts/build-deb.sh --install   (what follows the build, which was before this began)",
                 time.monotonic() - start)
    questions = set_up(commands)
    start = time.monotonic()
    follows = wait_for("UP with its journal", lambda: (lambda s: s.get("state") == "UP" and
                       s.get("journal", {}).get("state") == "following" and not s["journal"].get("gap") and s)(status()))
    commands.did("(until the world is up and followed)", time.monotonic() - start)
    show(run("worldkeeper", "--world", "galaxy", "--status", check=False))
    before = content(service)
    lost = time.monotonic()
    run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", service)
    back = wait_for("the world after a kill of the server", lambda: (lambda s: s.get("state") == "UP" and
                    s.get("last_restore") and s.get("last_restore") != follows.get("last_restore"))(status()))
    outage = time.monotonic() - lost
    now = content(service)
    same = now == before
    if not same:
        show("".join(list(difflib.unified_diff(before.splitlines(True), now.splitlines(True), n=0))[:40]))
    typed = [t for t in commands.typed if not t[0].startswith("(")]
    print(f"\n{len(typed)} commands, {questions} questions, {sum(t[1] for t in commands.typed):.0f} s of machine time "
          f"without the build; after kill -9 of the server the world was back in {outage:.1f} s: "
          f"{'every row the same' if same else 'ROWS DIFFER'}")
    assert back and same


main()
