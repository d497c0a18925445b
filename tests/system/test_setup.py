"""Tests of worldkeeper-setup: the dialog, what it creates, repeated runs, undo, and what a failure leaves behind."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time

import pymysql
import pytest
from machine import NEEDS, REASON, plugins

from wk.cluster import Cluster
from wk.follow import LOG
from wk.server import MYSQL, Server
from wk.setup import SETUP, Machine
from wk.sinks import Http, Smtp
from wk.util import CANARY, PATIENCE, ident, share, wait_for

pytestmark = pytest.mark.either_server

ENTER = ""
END = r"[^\n]*(\n[^\n]+){0,2}: $"  # the end of a question, which may be wrapped
WHICH, NAME, STATUS = "Which are to be kept" + END, "Name of the world" + END, "Status directory" + END
PAGE, ALERTS, GRANT = "A status page" + END, "Alerts by" + END, "(Grant|Set) (it|them)" + END
RESTART, SYNC, INFILE = "Restart the server" + END, "Add sync_binlog = 1" + END, "Add local_infile = ON" + END
DO, WRITE, ARRIVED = "(Do it|Show what)" + END, "Write them" + END, "Did the test" + END
USER, SECRET = "Administrator[^\n]*: $", "Password[^\n]*: $"
CONFIG = "etc/worldkeeper/galaxy.ini"


@pytest.fixture
def make_machine(tmp):
    made = []

    def make(server, **more):
        os.chmod(tmp, 0o755)
        made.append(Machine(os.path.join(tmp, f"m{len(made)}"), server, **more))
        return made[-1]
    yield make
    for machine in made:
        machine.destroy()


@pytest.fixture
def galaxy(make_server, make_world):
    """Returns galaxy(options…), which starts a server with one world of that name and a trigger of root."""
    def make(*options, schema="galaxy"):
        server = make_server(*(options or LOG))
        make_world("small", server, schema=schema).sql(
            "CREATE TRIGGER born BEFORE INSERT ON fleet FOR EACH ROW SET NEW.x=COALESCE(NEW.x,0)")
        return server
    return make


def accounts(server):
    return sorted(server.sql("SELECT CONCAT(User,'@',Host) FROM mysql.user"))


def rows(server, schema="galaxy"):
    return server.value(f"SELECT COUNT(*) FROM {ident(schema)}.player")


@pytest.fixture
def two_servers(galaxy, make_server, make_world):
    """Returns two servers, each with a schema galaxy."""
    one, two = galaxy(), make_server(*LOG)
    make_world("small", two, schema="galaxy")
    return one, two


def of_galaxy(server):
    """Returns what setup makes on a server: accounts and tables."""
    return accounts(server), server.sql("SHOW TABLES FROM galaxy")


def answer_all(machine, **given):
    """Answers each question with Enter, or with the given answer of its name (or the result of calling it), until the program
    ends."""
    known = {"which": WHICH, "name": NAME, "status": STATUS, "page": PAGE, "alerts": ALERTS, "grant": GRANT, "write": WRITE, "restart": RESTART,
             "do": DO, "sync": SYNC, "infile": INFILE, "arrived": ARRIVED, "mail": "Mail address[^\n]*: $", "smtp": "Mail server[^\n]*: $",
             "user": "User at[^\n]*: $", "format": "Format[^\n]*: $", "url": "URL of the webhook[^\n]*: $"}
    options, columns = given.pop("options", ()), given.pop("columns", 9999)
    screen = machine.screen(*options, columns=columns)
    asked = []
    try:
        while (shown := screen.read_until("|".join(f"(?P<{k}>{v})" for k, v in known.items()))) is not None:
            name = next(k for k, v in known.items() if re.search(v, shown))
            asked.append(name)
            answer = given.get(name, ENTER)
            screen.type(answer() if callable(answer) else answer)
        screen.end()
    finally:
        if screen.rc is None:
            screen.kill()
    screen.asked = asked
    return screen


def findings(machine, world="galaxy"):
    """Returns the warnings and failures of --check by name, except the one about privileges for other definers' triggers."""
    checks = json.loads(machine.keeper(world, "--check", "--json").stdout)["result"]["checks"]
    return {c["name"]: c for c in checks if c["level"] in ("warn", "fail") and "amounts to root" not in c["text"]}


# -- the whole way ---------------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.each_server
def test_enter_is_enough(galaxy, make_machine):
    """With the default answers the world is supervised, dumped, drilled and followed, and survives a crash."""
    server = galaxy()
    machine = make_machine(server)
    screen = answer_all(machine)
    assert screen.rc == 0, screen.text
    assert screen.asked[:4] == ["which", "name", "status", "alerts"] and screen.asked[-1] == "do", screen.asked
    assert set(screen.asked[4:-1]) <= {"grant", "write", "sync"}
    assert machine.calls() == ["daemon-reload", "enable --now worldkeeper@galaxy"]
    values = [line for line in machine.read(CONFIG).splitlines() if " = " in line]
    login = ["password_file"] if MYSQL else []
    assert [v.split(" = ")[0] for v in values] == ["name", "schema", "socket", "user", *login, "dir"]
    assert f"socket = {server.socket}" in values and not re.search("^# .*=", machine.read(CONFIG), re.M)
    assert "drill passed" in screen.text and "with all that was acknowledged" in screen.text
    assert "--status" in screen.text and "--list" in screen.text and "--pause" in screen.text
    assert set(findings(machine)) <= {"alerts", "next start", "binary log"}, findings(machine)
    as_root = machine.keeper("galaxy", "--check", root=True)  # an account that logs in by the socket does not admit root
    assert as_root.returncode == 0 and "denied" not in as_root.stdout, as_root
    as_root = machine.keeper("galaxy", "--list", root=True)
    assert "--restore --at reaches, by the server's binary log:" in as_root.stdout, as_root
    before = rows(server)
    server.crash()
    wait_for(lambda: rows(server) == before, "the world to come back")


@pytest.mark.each_server
def test_again_changes_nothing(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    first = answer_all(machine)
    assert first.rc == 0, first.text
    files, kept, users = machine.files(), machine.read(CONFIG), accounts(server)
    again = answer_all(machine)
    assert again.rc == 0 and "is supervised, and up" in again.text, again.text
    assert not re.search("^(made|typed|wrote)", again.text, re.M), again.text
    assert (machine.read(CONFIG), accounts(server)) == (kept, users)
    assert machine.keeper("galaxy", "--pause=1h").returncode == 0
    paused = machine.run("--yes")
    assert paused.returncode == 0 and "is supervised, and paused" in paused.stdout, paused
    dumps = r"\.(sql\.gz|json|proof)$|/(journal|alerts|rejected|history|tmp).*"
    assert [f for f in machine.files() if not re.search(dumps, f)] == [f for f in files if not re.search(dumps, f)]


@pytest.mark.each_server
def test_a_second_run_adds_what_is_missing(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    assert machine.run("--yes").returncode == 0
    user = re.search("^user = (.*)$", machine.read(CONFIG), re.M)[1]
    server.sql(f"REVOKE TRIGGER ON galaxy.* FROM '{user}'@'localhost'")
    done = machine.run("--yes")
    assert done.returncode == 0 and "ran GRANT TRIGGER ON `galaxy`.*" in done.stdout, done
    assert "rights" not in findings(machine)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
def test_root_is_served_by_the_running_supervisor(galaxy, make_machine):
    """Root's actions need no other user name: the supervisor, which runs as the service's user, carries them out, and every file
    belongs to that user."""
    machine = make_machine(galaxy())
    assert (done := machine.run("--yes")).returncode == 0, done
    for action in ("--dump", "--pause=1h", "--resume", "--restore=latest"):
        done = machine.keeper("galaxy", action, *(["--force"] if "restore" in action else []), root=True)
        assert done.returncode == 0, (action, done)
    with open(os.path.join(machine.fake, "log")) as f:
        log = f.read()
    assert re.search(" dump begins$", log, re.M) and re.search(" restore.* begins$", log, re.M), log
    dumps = machine.path("var/lib/worldkeeper/galaxy")
    owners = {os.stat(os.path.join(d, n)).st_uid for d, dirs, names in os.walk(dumps) for n in [*dirs, *names]}
    assert owners == {os.stat(dumps).st_uid} != {0}, owners


def test_without_systemd_it_stops_before_it_starts(galaxy, make_machine):
    """Without systemd setup prints the commands that start the supervisor, and they work."""
    server = galaxy()
    machine = make_machine(server, systemd=False)
    done = machine.run("--yes")
    assert done.returncode == 0 and "systemd does not run here" in done.stdout, done
    assert not server.sql("SHOW TABLES FROM galaxy LIKE 'worldkeeper%'")
    assert not glob.glob(machine.path("var/lib/worldkeeper/galaxy/*"))
    steps = re.findall(r"^  worldkeeper --config \S+ (--\w+)$", done.stdout, re.M)
    assert steps == ["--init", "--dump", "--drill", "--run"]
    for step in steps[:3]:
        assert machine.keeper("galaxy", step).returncode == 0


@pytest.mark.each_server
def test_several_schemas_are_a_world_each(galaxy, make_world, make_machine):
    """Several schemas become several worlds, each with its own account that has no access to the others."""
    server = galaxy()
    make_world("small", server, schema="Nebula 2")
    machine = make_machine(server)
    screen = answer_all(machine, which="1, 2")
    assert screen.rc == 0, screen.text
    users = [re.search("^user = (.*)$", machine.read(f"etc/worldkeeper/{w}.ini"), re.M)[1] for w in ("galaxy", "nebula-2")]
    assert len(set(users)) == 2
    assert "rights" not in findings(machine) and "rights" not in findings(machine, "nebula-2")
    grants = " ".join(r[0] for r in server.sql(f"SHOW GRANTS FOR '{users[1]}'@'localhost'"))
    assert "galaxy" not in grants
    secret = machine.path("etc/worldkeeper/nebula-2.password")
    assert stat.S_IMODE(os.stat(secret).st_mode) == 0o400
    with open(secret) as f:
        assert f.read().strip() not in screen.text


@pytest.mark.parametrize("schema", ["a`b", "a'b;c", "játék", "--x", "a%b", "Ünnep", "#", "a\"b"])
def test_odd_names_of_schemas(galaxy, make_machine, schema):
    server = galaxy(schema=schema)
    machine = make_machine(server)
    done = machine.run("--yes", "--name", "w")
    if done.returncode == 2:  # this name is not possible in a config
        assert "config" in done.stderr or "schema" in done.stdout
        assert machine.files() == ["etc", *[f for f in machine.files() if "mysql" in f or "systemd" in f or f.startswith("run")]]
        return
    assert done.returncode == 0, done
    assert "rights" not in findings(machine, "w") and "triggers" not in findings(machine, "w")


def with_password(server, machine):
    """Takes the service user's name, so that setup makes an account with a password."""
    server.sql(f"CREATE USER '{machine.user}'@localhost IDENTIFIED BY 'Xy-{CANARY}-01'")


def test_the_account_of_a_world_with_a_long_name(galaxy, make_machine):
    """The account of a world with a long name is not the game's account of that name, which stays as it is."""
    name = "the_long_name_of_a_game_world"
    server = galaxy(schema=name)
    machine = make_machine(server)
    with_password(server, machine)
    server.sql(f"CREATE USER {name}@localhost IDENTIFIED BY '{CANARY}'", f"GRANT SELECT ON {name}.* TO {name}@localhost")
    grants = server.sql(f"SHOW GRANTS FOR {name}@localhost")
    assert (done := machine.run("--yes")).returncode == 0, done
    user = re.search("^user = (.*)$", machine.read(f"etc/worldkeeper/{name}.ini"), re.M)[1]
    assert re.fullmatch("worldkeeper_the_long_na_[0-9a-f]{8}", user) and server.sql(f"SHOW GRANTS FOR {name}@localhost") == grants
    assert (done := machine.run("--undo", name, "--yes")).returncode == 0, done
    os.makedirs(machine.path("etc/worldkeeper"), exist_ok=True)
    server.sql(f"CREATE USER {user}@localhost IDENTIFIED BY '{CANARY}'")
    done = machine.run("--yes")
    assert done.returncode == 4 and "drop" not in done.stderr, done
    command = re.search("HINT: put its password into that file: (install .*)$", done.stderr, re.M)[1]
    subprocess.run(["sh", "-c", command], input=CANARY + "\n", text=True, check=True)
    assert (done := machine.run("--yes")).returncode == 0, done


def session_of(server, user, schema="galaxy"):
    """Returns a session of this account of the game, over the server's socket."""
    return pymysql.connect(unix_socket=server.socket, user=user, password=CANARY, database=schema)


def password_file(machine, text, world="galaxy"):
    """Writes the password file of the world as its service's user keeps it, and returns its path."""
    machine.etc("worldkeeper")
    path = machine.path(f"etc/worldkeeper/{world}.password")
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o400)
    if os.geteuid() == 0:
        shutil.chown(path, machine.user)
    return path


@pytest.mark.each_server
@pytest.mark.parametrize("address", ["socket", "port"])
def test_the_account_of_a_config_is_found_by_its_login(galaxy, make_machine, address):
    """Setup grants to the account as which the server accepts the login of the config, whatever its host is. If that login fails,
    no other account with its user name is made."""
    server = galaxy()
    machine = make_machine(server, systemd=False)
    host = "%" if address == "socket" else "127.0.0.1"
    server.sql(f"CREATE USER wk@'{host}' IDENTIFIED BY '{CANARY}'")
    secret = password_file(machine, "another\n")
    written_config(machine)
    with open(machine.path(CONFIG), "r+") as f:
        text = f.read().replace(f"user = {machine.user}\n", f"user = wk\npassword_file = {secret}\n")
        f.seek(0)
        f.write(text + f"[dump]\ndir = {machine.path('srv/galaxy')}\n")
    if address == "port":
        by_port(machine, server, "galaxy")
    before = accounts(server), machine.files()
    done = machine.run("--yes")
    assert done.returncode == 4 and f"user wk of {machine.path(CONFIG)} cannot log in (" in done.stderr, done
    assert f"because the server has wk@{host}\n" in done.stderr and (accounts(server), machine.files()) == before, done
    assert f"HINT: correct user and password_file under [mysql] in {machine.path(CONFIG)}" in done.stderr, done
    os.unlink(secret)
    password_file(machine, CANARY + "\n")
    done = machine.run("--yes")
    assert done.returncode == 0 and accounts(server) == before[0], done
    assert f"TO `wk`@`{host}`;" in done.stdout and machine.keeper("galaxy", "--init").returncode == 0, done


@pytest.mark.each_server
def test_a_new_account_has_a_user_name_of_its_own(galaxy, make_machine):
    """A user name that the server has for another host is not taken: the new account would get sessions of the other one."""
    server = galaxy()
    machine = make_machine(server, systemd=False)
    server.sql(f"CREATE USER '{machine.user}'@'%' IDENTIFIED BY '{CANARY}'")
    shown = machine.run("--dry-run")
    assert shown.returncode == 0 and "CREATE USER `worldkeeper_galaxy`@`localhost`" in shown.stdout, shown
    server.sql(f"CREATE USER worldkeeper_galaxy@'%' IDENTIFIED BY '{CANARY}'")
    before = accounts(server), machine.files()
    done = machine.run("--yes")
    assert done.returncode == 4 and "account worldkeeper_galaxy@localhost is not created: the server has worldkeeper_galaxy@%" \
        in done.stderr and (accounts(server), machine.files()) == before, done
    name = re.search("HINT: worldkeeper-setup .*(--name) NAME makes a world with another account", done.stderr)[1]
    assert (done := machine.run("--yes", name, "mars")).returncode == 0, done


@pytest.mark.each_server
@pytest.mark.parametrize("text, says", [("", "is empty"), ("\n", "is empty"), (f"\n{CANARY}\n", "is empty"),
                                        ("\ufeffpass\n", "is not plain text"), (None, "cannot open")])
def test_a_password_file_without_a_password(galaxy, make_machine, text, says):
    """A password file whose first line is no password is refused before anything is made; an account without a password would be
    open to everyone."""
    server = galaxy()
    machine = make_machine(server)
    with_password(server, machine)
    secret = password_file(machine, text or "")
    if text is None:
        os.rename(secret, secret + ".old")
        os.symlink(secret + ".old", secret)
    before = accounts(server), machine.files()
    done = machine.run("--yes")
    assert done.returncode in (1, 2) and says in done.stderr and secret in done.stderr, done
    assert (accounts(server), machine.files()) == before and "CREATE USER" not in done.stdout.partition("Do it")[2], done


@pytest.mark.each_server
def test_a_server_that_checks_passwords(galaxy, make_machine):
    """The generated password passes the rules of a server that checks passwords. If the file has a password that does not, the
    hint says what to do."""
    if not MYSQL and not plugins():
        pytest.skip(REASON + NEEDS["lock list"][0])
    server = galaxy(*LOG, *([] if MYSQL else ["--plugin-dir=" + plugins(), "--plugin-load-add=simple_password_check"]))
    if MYSQL:
        server.sql("INSTALL COMPONENT 'file://component_validate_password'")
    try:
        machine = make_machine(server, systemd=False)
        with_password(server, machine)
        machine.etc("worldkeeper")
        secret = machine.path("etc/worldkeeper/galaxy.password")
        with open(secret, "w") as f:
            f.write("0123456789abcdef\n")
        os.chmod(secret, 0o600)
        done = machine.run("--yes")
        assert done.returncode == 1 and f"HINT: put a password that the server accepts into {secret}" in done.stderr, done
        os.unlink(secret)
        assert (done := machine.run("--yes")).returncode == 0, done
        assert machine.run("--undo", "galaxy", "--yes").returncode == 0
    finally:
        if MYSQL:
            server.sql("UNINSTALL COMPONENT 'file://component_validate_password'")


@pytest.mark.parametrize("schema", ["g\n[offsite]\nurl = file:///x", "g\r1. galaxy", " galaxy"])
def test_a_schema_s_name_is_no_line_of_a_config(galaxy, make_world, make_machine, schema):
    """Schema names with control characters never become lines of the config: setup skips them, and refuses a name that the
    config would read as another one."""
    server = galaxy()
    make_world("small", server, schema=schema)
    machine = make_machine(server)
    done = machine.run("--dry-run", "--schema", "all" if "g" == schema[0] else schema)
    assert "[offsite]" not in done.stdout and "file:///x" not in done.stdout, done
    if schema[0] == "g":
        assert done.returncode == 0 and "skipped: 1 with a control character" in done.stdout, done
        assert "schema = galaxy\n" in done.stdout
    else:
        assert done.returncode == 2 and "no config can hold its name" in done.stderr, done


def test_schemas_named_as_options(galaxy, make_world, make_machine):
    """--schema may be repeated, and takes each name as it is: also one with a blank, or that is "all". A number is no name."""
    server = galaxy()
    for schema in ("a b", "all", "c,d"):
        make_world("small", server, schema=schema)
    machine = make_machine(server)
    for names in (["a b", "all"], ["c,d"], ["galaxy, all"], ["all"]):
        done = machine.run("--dry-run", *(word for name in names for word in ("--schema", name)))
        assert done.returncode == 0, done
        chosen = re.findall("^== (.*)$", done.stdout, re.M)
        assert sorted(chosen) == sorted(names if names != ["galaxy, all"] else ["galaxy", "all"]), done
    for names in (["2"], ["galaxy", "other"]):
        done = machine.run("--dry-run", *(word for name in names for word in ("--schema", name)))
        assert done.returncode == 2 and f'schema "{names[-1]}" has no MEMORY tables' in done.stderr, done


# -- what is asked ---------------------------------------------------------------------------------------


def test_answers_that_cannot_be_are_asked_for_again(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    screen = machine.talk((WHICH, "7"), (WHICH, "nothing"), (WHICH, "1"), (NAME, "Bad Name"), (NAME, "-x"),
                          (NAME, "g1"), (STATUS, "relative/dir"), (STATUS, machine.path("srv/status")), (PAGE, "what"),
                          (PAGE, "y"), (ALERTS, "pigeon"), (ALERTS, "none"), (DO, "n"),
                          options=["--no-global", "--no-server-file", "--dry-run"])
    assert '"7" is not in the list' in screen.text and "numbers or names" in screen.text and "mail, webhook or none" in screen.text and "y or n" in screen.text, screen.text
    assert screen.text.count("Name of the world") == 3 and screen.text.count("Status directory") == 2


@pytest.mark.parametrize("columns", [0, 60, 132])
def test_sentences_are_wrapped_at_the_width_of_the_terminal(galaxy, make_machine, columns):
    """Sentences are wrapped at the terminal's width, or 80 columns if it is unknown. Statements, commands and paths are not
    wrapped, so that they can be copied."""
    machine = make_machine(galaxy(*NO_LOG))
    machine.service("mariadb")
    screen = answer_all(machine, options=["--dry-run"], columns=columns)
    assert screen.rc == 0, screen.text
    width = columns or 80
    copied = r" *(GRANT|would (run|make|write)|worldkeeper --|\w+ = |#|\[)"
    sentences = [line for line in screen.text.splitlines() if not re.match(copied, line) and len(line.split()) > 1]
    assert width * 3 / 4 < max(map(len, sentences)) <= width, max(sentences, key=len)
    assert re.search(r"^  -- .*\n  -- ", screen.text, re.M) and re.search(r"^  GRANT SELECT, INSERT.*;$", screen.text, re.M)
    assert "systemctl restart mariadb" in " ".join(screen.text.split())


def test_the_end_of_the_input_is_no_answer(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server)
    done = machine.run()
    assert done.returncode == 1 and "nobody answers the question" in done.stderr and "--yes" in done.stderr, done
    screen = machine.talk((WHICH, "1"), (NAME, "\x04"))
    assert screen.rc == 1 and "nobody answers" in screen.text, screen.text
    assert (machine.files(), accounts(server)) == before


@pytest.mark.each_server
def test_ctrl_c_at_each_question(galaxy, make_machine):
    """Ctrl+C at a question changes nothing, says so, and leaves the terminal's echo on."""
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server)
    asked = answer_all(machine, do="n").asked
    assert asked[-1] == "do" and len(asked) > 5, asked
    for question in sorted(set(asked)):
        screen = answer_all(machine, **{question: "\x03"})
        assert screen.rc == 1 and "worldkeeper-setup: interrupted" in screen.text and screen.asked[-1] == question, screen.text
        assert question == "which" or "Nothing was changed for galaxy." in screen.text, screen.text
        assert (machine.files(), accounts(server)) == before
    for question, given in (("url", {"alerts": "webhook"}), ("smtp", {"alerts": "mail"})):
        screen = answer_all(machine, **given, **{question: "\x03"})
        assert screen.rc == 1 and "interrupted" in screen.text and screen.asked[-1] == question, screen.text
        assert (machine.files(), accounts(server)) == before


def test_ctrl_c_after_the_last_question_lists_what_was_done(galaxy, make_machine):
    """Ctrl+C while a step runs, or at the question about the test message, ends like a failure: a list of what was done, nothing
    active, and a second run continues."""
    server = galaxy()
    machine = make_machine(server)
    hook = Http().start()
    try:
        url = f"http://127.0.0.1:{hook.port}/x"
        screen = answer_all(machine, alerts="webhook", url=url, arrived="\x03")
        assert screen.rc == 1 and screen.asked[-1] == "arrived", screen.text
        assert re.search(r"Done so far.*account .*galaxy\.webhook.*galaxy\.ini.*worldkeeper-setup: interrupted", screen.text, re.S), screen.text
        with contextlib.closing(server.admin("galaxy")) as other:
            screen = machine.screen()
            try:
                while (shown := screen.read_until("|".join((WHICH, SYNC, WRITE, DO, ARRIVED)))) is not None:
                    if "Did the test" in shown:
                        other.cursor().execute("LOCK TABLES fleet WRITE")  # the dump waits for it
                        screen.type(ENTER)
                        break
                    screen.type(ENTER)
                assert screen.read_until(r"--dump \(as") is not None, screen.text
                os.write(screen.fd, b"\x03")
                assert screen.end() == 1, screen.text
            finally:
                if screen.rc is None:
                    screen.kill()
        assert re.search(r"Done so far.*sentinel .*worldkeeper-setup: interrupted", screen.text, re.S), screen.text
        assert not machine.calls()
        done = machine.run("--yes")
        assert done.returncode == 0 and machine.calls()[-1] == "enable --now worldkeeper@galaxy", done
    finally:
        hook.stop()


def test_a_secret_that_cannot_be_is_asked_for_again(galaxy, make_machine):
    """An empty password, and a webhook's address that is no URL, are asked for again; from a file they are refused before
    anything is made."""
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server)
    secret = "(URL of the webhook|Password)[^\n]*: $"
    screen = machine.talk((WHICH, "1"), (NAME, ENTER), (STATUS, ENTER), (ALERTS, "webhook"), (secret, ENTER), (secret, CANARY),
                          (secret, "https://hooks.example/x"), ("Format[^\n]*: $", "\x03"))
    assert screen.text.count("begins with https:// or http://") == 2 and CANARY not in screen.text, screen.text
    screen = machine.talk((WHICH, "1"), (NAME, ENTER), (STATUS, ENTER), (ALERTS, "mail"), ("Mail address[^\n]*: $", ENTER),
                          ("Mail server[^\n]*: $", "smtps://mail.example"), ("User at[^\n]*: $", "joe"), (secret, ENTER),
                          (secret, "\x03"))
    assert "a password is needed" in screen.text, screen.text
    path = os.path.join(machine.base, "url")
    with open(path, "w") as f:
        f.write(CANARY + "\n")
    os.chmod(path, 0o600)
    done = machine.run("--yes", "--webhook-file", path)
    assert done.returncode == 2 and "begins with https:// or http://" in done.stderr and CANARY not in done.stderr, done
    assert (machine.files(), accounts(server)) == before


def test_a_name_of_another_world_is_asked_for_again(galaxy, make_world, make_machine):
    server = galaxy()
    make_world("small", server, schema="mars")
    machine = make_machine(server, systemd=False)
    assert machine.run("--yes", "--schema", "galaxy").returncode == 0
    screen = machine.talk((WHICH, "mars"), (NAME, "galaxy"), (NAME, "mars"), (STATUS, "\x03"))
    assert "world galaxy already keeps schema galaxy" in screen.text and screen.rc == 1, screen.text


def test_a_schema_is_kept_as_one_world(galaxy, make_machine):
    """--name with another world's schema is refused before anything is made, with the name of that world."""
    server = galaxy()
    machine = make_machine(server, systemd=False)
    assert machine.run("--yes").returncode == 0
    before = accounts(server), machine.files()
    done = machine.run("--yes", "--name", "a")
    assert done.returncode == 4 and "schema galaxy is already kept as world galaxy, not as a" in done.stderr, done
    assert re.search("HINT: worldkeeper-setup .*--yes --name galaxy continues with that world$", done.stderr, re.M), done
    assert (accounts(server), machine.files()) == before
    assert machine.run("--yes", "--name", "galaxy").returncode == 0


def by_port(machine, server, world):
    """Replaces the server's socket in the config of a world by its host and port."""
    with open(machine.path(f"etc/worldkeeper/{world}.ini"), "r+") as f:
        text = f.read().replace(f"socket = {server.socket}", f"host = 127.0.0.1\nport = {server.port}")
        f.seek(0)
        f.write(text)
        f.truncate()


def test_a_schema_of_another_server_is_another_world(two_servers, make_machine):
    """A schema whose name a world of another server has is no part of that world: setup refuses it before it changes anything,
    asks for another name, and sets it up under a name of its own. Both addresses of a server on this machine mean it."""
    one, two = two_servers
    machine = make_machine(one, systemd=False)
    clean, files = of_galaxy(two), machine.files()
    assert machine.run("--yes").returncode == 0
    files = machine.files()
    done = machine.run("--yes", at=two)
    assert done.returncode == 4 and f"keeps schema galaxy of the server at socket {one.socket}" in done.stderr, done
    assert re.search("HINT: if that server is this one, repeat with its --socket or --host as in "
                     f"{machine.path(CONFIG)}; otherwise worldkeeper-setup .*{two.socket}.* --name NAME", done.stderr), done
    machine.server = two
    screen = machine.talk((NAME, "galaxy"), (NAME, "g2"), (STATUS, "\x03"), options=["--schema", "galaxy"])
    assert "world galaxy already keeps schema galaxy of the server at" in screen.text and screen.rc == 1, screen.text
    assert (of_galaxy(two), machine.files()) == (clean, files)
    assert (done := machine.run("--yes", "--name", "g2")).returncode == 0, done
    assert f"socket = {two.socket}" in machine.read("etc/worldkeeper/g2.ini") and of_galaxy(two) != clean
    again = machine.run("--yes")
    assert again.returncode == 0 and "already kept as world g2" in again.stdout, again
    by_port(machine, two, "g2")
    shown = machine.run("--dry-run")
    assert "already kept as world g2" in shown.stdout, shown


@pytest.mark.needs("mount")  # root that may not mount may not have another host name, either
@pytest.mark.skipif(os.geteuid() != 0, reason="this machine: only root can have another host name")
def test_a_server_of_another_host_name(galaxy, make_machine):
    """A server in a container has another host name, so its port is not the one of this machine."""
    server = galaxy(*LOG)
    machine = make_machine(server, systemd=False)
    assert machine.run("--yes").returncode == 0
    by_port(machine, server, "galaxy")
    assert "already kept as world galaxy" in (shown := machine.run("--dry-run")).stdout, shown
    elsewhere = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh", *machine.argv("--dry-run")]
    shown = subprocess.run(elsewhere, env=machine.environment(), cwd=machine.base, text=True, capture_output=True,
                           stdin=subprocess.DEVNULL, timeout=PATIENCE * 3)
    assert "== galaxy" in shown.stdout and "already kept" not in shown.stdout, shown


def test_schemas_are_compared_as_the_server_does(galaxy, make_machine):
    """With lower_case_table_names=1 a config that writes the schema in capitals keeps it, and --undo revokes the privileges on it
    if another world needs the account."""
    server = galaxy(*LOG, "--lower-case-table-names=1")
    machine = make_machine(server, systemd=False)
    assert (done := machine.run("--yes")).returncode == 0, done
    config = machine.read(CONFIG)
    with open(machine.path(CONFIG), "w") as f:
        f.write(config.replace("schema = galaxy", "schema = GALAXY"))
    again = machine.run("--yes")
    assert again.returncode == 0 and "already kept as world galaxy" in again.stdout, again
    with open(machine.path("etc/worldkeeper/mars.ini"), "w") as f:
        f.write(re.sub("(name|schema|dir) = (.*)galaxy", r"\1 = \2mars", config))
    user = re.search("^user = (.*)$", config, re.M)[1]
    assert (done := machine.run("--undo", "galaxy", "--yes")).returncode == 0, done
    grants = " ".join(r[0] for r in server.sql(f"SHOW GRANTS FOR '{user}'@'localhost'"))
    assert "ON `galaxy`" not in grants and "REPLICATION SLAVE" in grants, grants


def test_a_world_of_another_server_allows_no_restart(two_servers, galaxy, make_machine, make_world):
    """A schema that only a world of another server has is not supervised, so the server is not restarted."""
    two, server = two_servers[1], galaxy(*NO_LOG)
    make_world("small", server, schema="mars")
    make_world("small", two, schema="mars")
    machine = make_machine(server)
    assert machine.run("--yes", "--schema", "mars", at=two).returncode == 0
    machine.service("mariadb")
    done = machine.run("--yes", "--schema", "galaxy", "--restart-server")
    assert done.returncode == 4 and "schema mars has MEMORY tables and is not supervised" in done.stderr, done


def test_a_directory_that_cannot_be_made(galaxy, make_machine):
    """The list of what was done does not name the directory that could not be made, and the hint says what to do."""
    server = galaxy()
    machine = make_machine(server)
    done = machine.run("--yes", "--status-dir", "/proc/wk/status")
    assert done.returncode == 1 and "cannot make directory /proc/wk" in done.stderr, done
    assert "HINT: name another directory, or make this one, then run worldkeeper-setup again" in done.stderr, done
    assert "Done so far" in done.stdout and "  directory /proc/wk" not in done.stdout, done
    done = machine.run("--yes")
    assert done.returncode == 0, done


@pytest.mark.parametrize("options,needs", [(["--page"], "--status-dir"), (["--smtp", "smtp://mail.example"], "--mail"),
                                           (["--webhook-format", "slack"], "--webhook-file")], ids=lambda v: v[0])
def test_an_option_without_the_one_it_belongs_to(galaxy, make_machine, options, needs):
    """With --yes, an option is refused without the one that it needs, because setup asks no question that could complete it."""
    done = make_machine(galaxy()).run("--yes", *options)
    assert done.returncode == 2 and f"{options[0]} has no effect without {needs}" in done.stderr, done


def test_options_that_the_config_decides(galaxy, make_machine, base, tmp):
    """An option that answers what the existing config decides is refused before anything is changed, unless the config says the
    same."""
    machine = make_machine(galaxy(), systemd=False)
    hook, mail = Http().start(), Smtp(base).start()
    url, other = os.path.join(tmp, "url"), os.path.join(tmp, "other")
    for path, text in ((url, f"http://127.0.0.1:{hook.port}/x\n"), (other, f"http://127.0.0.1:{hook.port}/y\n")):
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o600)
    try:
        typed = ["--status-dir", machine.path("srv/status"), "--mail", "a@example.net", "--mail", "b@example.net",
                 "--smtp", f"smtp://127.0.0.1:{mail.port}", "--webhook-file", url, "--webhook-format", "json"]
        assert (done := machine.run("--yes", *typed)).returncode == 0, done
        assert (done := machine.run("--yes", *typed)).returncode == 0, done
        before, config = machine.files(), machine.path(CONFIG)
        for options, key in ((["--status-dir", machine.path("srv/other")], "[status] dir"),
                             (["--page", "--status-dir", machine.path("srv/status") + "/"], "[status] page"),
                             (["--mail", "a@example.net"], "[alert.smtp] to"),
                             (["--smtp", "smtp://mail.example", "--mail", "a@example.net,b@example.net"], "[alert.smtp] url"),
                             (["--webhook-file", other], "[alert.webhook] url_file"),
                             (["--webhook-format", "slack", "--webhook-file", url], "[alert.webhook] format")):
            done = machine.run("--yes", *options)
            said = f"{config} exists and decides {key}: {options[0]} would have no effect"
            assert done.returncode == 2 and said in done.stderr, done
            assert f"HINT: change {key} in that file, then repeat your command without {options[0]}" in done.stderr, done
            assert "Nothing was changed" in done.stdout and machine.files() == before, done
        done = machine.run("--yes", "--mail", "no address")
        assert done.returncode == 2 and "is not a list of mail addresses" in done.stderr, done
    finally:
        hook.stop()
        mail.stop()


def test_no_is_an_answer(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server)
    screen = answer_all(machine, do="n")
    assert screen.rc == 0 and "Nothing was done" in screen.text, screen.text
    assert (machine.files(), accounts(server)) == before


@pytest.mark.each_server
def test_privileges_on_the_server_can_be_declined(galaxy, make_machine):
    """If privileges on the server are declined, setup says what is lost and does not promise what needs them."""
    server = galaxy()
    machine = make_machine(server)
    server.sql("DROP TRIGGER galaxy.born")
    screen = answer_all(machine, grant="n")
    assert "Without: no journal" in screen.text and "declined: GRANT REPLICATION SLAVE" in screen.text, screen.text
    assert re.search(r"Without: no journal[^\n]*\n(  GRANT [^\n]* ON [^\n]*;\n)+Grant (it|them)\?", screen.text), screen.text
    assert "no journal is kept" in screen.text and "all that was acknowledged" not in screen.text
    user = re.search("^user = (.*)$", machine.read(CONFIG), re.M)[1]
    grants = " ".join(r[0] for r in server.sql(f"SHOW GRANTS FOR '{user}'@'localhost'"))
    assert not re.search(r"GRANT (?!USAGE)[^`]* ON \*\.\*", grants), grants
    again = answer_all(machine)
    assert again.rc == 0 and "all that was acknowledged" not in screen.text
    assert "rights" not in findings(machine) and "journal" not in findings(machine)


def test_a_dry_run_says_all_and_does_nothing(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server)
    screen = answer_all(machine, options=["--dry-run"], status=machine.path("srv/status"))
    assert screen.rc == 0, screen.text
    assert (machine.files(), accounts(server)) == before and not machine.calls()
    for said in ("would run CREATE USER", "GRANT SELECT, INSERT", CONFIG, "schema = galaxy", "ReadWritePaths=",
                 "would run systemctl enable --now worldkeeper@galaxy", "--init", "--dump", "--drill", "--check"):
        assert said in screen.text, said
    assert machine.run("--dry-run").returncode == 0
    assert (machine.files(), accounts(server)) == before


def test_each_schema_is_shown_with_what_is_in_it(galaxy, make_machine):
    """The list names tables, views, triggers and durable tables of a schema, its largest table with the server's limit of
    growth, and the tables without a primary key."""
    server = galaxy("--max-heap-table-size=32M", *LOG)
    server.sql("CREATE VIEW galaxy.seen AS SELECT 1 AS one", "CREATE TABLE galaxy.keyless (a INT) ENGINE=MEMORY",
               "CREATE TABLE galaxy.kept (a INT PRIMARY KEY) ENGINE=InnoDB")
    shown = make_machine(server).run("--dry-run")
    assert shown.returncode == 0, shown
    assert re.search(r"galaxy: \d+ MEMORY tables, [\d,. ]+ rows, ", shown.stdout), shown.stdout
    for said in ("besides: 1 durable table, 1 view, 1 trigger\n", "without a primary key: "):
        assert said in shown.stdout, shown.stdout
    assert re.search(r"largest: \w+, \S+ \w+ of the \S+ \w+ that it may take", shown.stdout), shown.stdout


def test_a_dry_run_prints_each_step_of_the_run(galaxy, make_machine):
    """A dry run prints each statement, file, directory and command that the run then prints, in the same order."""
    machine = make_machine(galaxy())
    dry, done = machine.run("--dry-run"), machine.run("--yes")
    assert dry.returncode == 0 == done.returncode, done
    would = re.findall(r"^would (?:run|write|make|set) (.*?):?$", dry.stdout, re.M)
    did = re.findall(r"^(?:ran|running|wrote|made|set) (.*?)$", done.stdout, re.M)
    assert did and would == did, (would, did)


def test_a_command_in_a_hint_keeps_what_was_typed(galaxy, make_machine):
    """A command that setup suggests has each option that was typed: without --dry-run it would set up what was only to be
    shown."""
    server = galaxy()
    machine = make_machine(server)
    screen = machine.talk((WHICH, "\x04"), options=["--dry-run", "--status-dir", "/srv/a b"])
    hint = " ".join(screen.text.partition("HINT:")[2].split())
    assert screen.rc == 1 and hint.count("--dry-run") == 1, screen.text
    assert re.match(r"worldkeeper-setup .*--dry-run --status-dir '/srv/a b' --yes takes the defaults", hint), hint
    assert str(server.socket) in hint, hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act for another user")
@pytest.mark.parametrize("typed", ["--undo galaxy --yes", "--schema galaxy --name s8 --mail a@b.example", ""])
def test_the_command_for_root_keeps_what_was_typed(tmp, typed):
    os.chmod(tmp, 0o755)
    program = shutil.copy(SETUP, tmp)
    argv = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", program, *typed.split()]
    done = subprocess.run(argv, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 4 and f"HINT: sudo worldkeeper-setup{' ' * bool(typed)}{typed}; or --dry-run" in done.stderr, done


# -- an administrator's login -----------------------------------------------------------------------------


@pytest.fixture
def locked(galaxy):
    """Returns a server that an administrator can use only with a password."""
    server = galaxy()
    server.sql("DROP USER IF EXISTS boss@localhost", f"CREATE USER boss@localhost IDENTIFIED BY '{CANARY}'",
               "GRANT ALL ON *.* TO boss@localhost WITH GRANT OPTION")
    return server


def everything(machine):
    """Returns the contents of all files."""
    text = b""
    for name in machine.files():
        if os.path.isfile(machine.path(name)):
            with open(machine.path(name), "rb") as f:
                text += f.read()
    return text


def test_an_administrators_password_is_neither_shown_nor_stored(locked, make_machine):
    machine = make_machine(locked)
    screen = machine.screen("--admin", "boss")
    try:
        assert screen.read_until(USER) is not None, screen.text
        screen.type(ENTER)
        assert screen.read_until(SECRET) is not None
        wait_for(lambda: not screen.echoes(), "the echo to be off")
        screen.type("wrong-one")
        assert (shown := screen.read_until(USER)) is not None, screen.text
        assert "Access denied" in shown and "without a password" not in shown, shown
        assert screen.echoes()
        screen.type("boss")
        assert screen.read_until(SECRET) is not None
        screen.type(CANARY)
        while screen.read_until("|".join((WHICH, NAME, STATUS, ALERTS, GRANT, SYNC, WRITE, DO))) is not None:
            screen.type(ENTER)
        assert screen.end() == 0, screen.text
    finally:
        if screen.rc is None:
            screen.kill()
    assert CANARY not in screen.text and "wrong-one" not in screen.text
    assert CANARY.encode() not in everything(machine)


def test_an_interrupted_question_for_a_password_leaves_the_echo_on(locked, make_machine):
    screen = make_machine(locked).screen("--admin", "boss")
    try:
        assert screen.read_until(USER) is not None, screen.text
        screen.type(ENTER)
        assert screen.read_until(SECRET) is not None
        wait_for(lambda: not screen.echoes(), "the echo to be off")
        os.write(screen.fd, b"\x03")
        wait_for(screen.echoes, "the echo to be on again")
    finally:
        screen.kill()


@pytest.mark.each_server
def test_a_login_by_file_and_by_network(locked, make_machine, tmp):
    machine = make_machine(locked)
    path = os.path.join(tmp, "boss")
    with open(path, "w") as f:
        f.write(CANARY + "\n")
    os.chmod(path, 0o600)
    locked.sql("CREATE USER boss@'127.0.0.1' IDENTIFIED BY '" + CANARY + "'",
               "GRANT ALL ON *.* TO boss@'127.0.0.1' WITH GRANT OPTION")
    argv = [SETUP, "--root", machine.root, "--host", "127.0.0.1", "--port", str(locked.port), "--service-user", machine.user,
            "--admin", "boss", "--admin-password-file", path, "--yes"]
    done = subprocess.run(argv, env=machine.environment(), cwd=machine.base, text=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done
    config = machine.read(CONFIG)
    assert "host = 127.0.0.1" in config and f"port = {locked.port}" in config and "password_file = " in config
    assert CANARY not in done.stdout and CANARY.encode() not in everything(machine)
    assert "rights" not in findings(machine)


def test_who_is_no_administrator_is_told_so(locked, make_machine, tmp):
    path = os.path.join(tmp, "player")
    with open(path, "w") as f:
        f.write(CANARY + "\n")
    os.chmod(path, 0o600)
    locked.sql(f"CREATE USER player@localhost IDENTIFIED BY '{CANARY}'")
    for may in ("SELECT ON galaxy.*", "SELECT ON *.*"):  # the latter shows the privileges of administrators
        locked.sql(f"GRANT {may} TO player@localhost")
        done = make_machine(locked).run("--yes", "--admin", "player", "--admin-password-file", path)
        assert done.returncode == 1 and "is not an administrator" in done.stderr and "HINT" in done.stderr, done
    locked.sql("CREATE ROLE bosses", "GRANT ALL ON *.* TO bosses WITH GRANT OPTION", "GRANT bosses TO player@localhost",
               f"SET DEFAULT ROLE bosses {'TO' if MYSQL else 'FOR'} player@localhost")
    done = make_machine(locked).run("--dry-run", "--admin", "player", "--admin-password-file", path)
    assert done.returncode == 0, done
    done = make_machine(locked).run("--yes", "--admin", "nobody-knows")
    assert done.returncode == 1 and "--admin NAME" in done.stderr, done


# -- alerts, status, the server's options -------------------------------------------------------------------


def test_a_test_message_by_webhook(galaxy, make_machine, tmp):
    server = galaxy()
    machine = make_machine(server)
    hook = Http().start()
    try:
        url = f"http://127.0.0.1:{hook.port}/{CANARY}"
        screen = machine.screen()
        try:
            while (shown := screen.read_until("|".join((WHICH, NAME, STATUS, ALERTS, "URL of[^\n]*: $", "Format[^\n]*: $", GRANT, SYNC,
                                                        WRITE, DO, ARRIVED)))) is not None:
                last = shown.rpartition("\n")[2]
                screen.type("webhook" if "Alerts by" in last else url if "URL of" in last else ENTER)
            assert screen.end() == 0, screen.text
        finally:
            if screen.rc is None:
                screen.kill()
        assert hook.requests and CANARY not in screen.text
        path = machine.path("etc/worldkeeper/galaxy.webhook")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o400 and CANARY not in machine.read(CONFIG)
    finally:
        hook.stop()


def test_a_test_message_that_does_not_arrive_starts_nothing(galaxy, make_machine, tmp):
    server = galaxy()
    machine = make_machine(server)
    hook = Http().start()
    path = os.path.join(tmp, "hook")
    with open(path, "w") as f:
        f.write(f"http://127.0.0.1:{hook.port}/x\n")
    os.chmod(path, 0o600)
    hook.mode = 500
    try:
        done = machine.run("--yes", "--webhook-file", path)
        assert done.returncode == 1 and "did not arrive" in done.stderr and "Done so far" in done.stdout, done
        assert not machine.calls()
        hook.mode = "ok"
        done = machine.run("--yes")
        assert done.returncode == 0 and hook.requests, done
    finally:
        hook.stop()


def test_a_test_message_by_mail_to_several(galaxy, make_machine, base):
    """The test message must arrive at each address; if one refuses it nothing is started."""
    machine = make_machine(galaxy())
    mail = Smtp(base).start()
    several = ["--mail", "a@example.net", "--mail", "b@example.net,c@example.net"]
    try:
        mail.mode = {"b@example.net": "550 nobody here"}
        done = machine.run("--yes", *several, "--smtp", f"smtp://127.0.0.1:{mail.port}")
        assert done.returncode == 1 and "b@example.net" in done.stdout + done.stderr and not machine.calls(), done
        assert "did not arrive" in done.stderr and "to = a@example.net, b@example.net,c@example.net" in machine.read(CONFIG)
        mail.mode, mail.mails = "ok", []
        screen = answer_all(machine)
        assert screen.rc == 0 and "at each address" in screen.text, screen.text
        assert mail.mails[0].to == ["a@example.net", "b@example.net", "c@example.net"]
    finally:
        mail.stop()


def test_a_status_directory_and_its_page(galaxy, make_machine):
    """The unit may write to the status directory, and the status appears there."""
    server = galaxy()
    machine = make_machine(server)
    status = machine.path("srv/status")
    done = machine.run("--yes", "--status-dir", status, "--page")
    assert done.returncode == 0, done
    assert f'ReadWritePaths="{status}"' in machine.read("etc/systemd/system/worldkeeper@galaxy.service.d/setup.conf")
    wait_for(lambda: os.path.exists(os.path.join(status, "status.json")), "the status")
    assert stat.S_IMODE(os.stat(status).st_mode) == 0o755


def test_the_unit_gets_a_directory_that_the_config_names_later(galaxy, make_machine):
    """A second run opens a new directory of the config in the unit, makes systemd read that, and says how the running service
    gets it. A drop-in that was changed since stays, and what it should have is shown. --undo removes the drop-in, first of all
    the service."""
    machine = make_machine(galaxy())
    assert (done := machine.run("--yes", "--status-dir", machine.path("srv/a"))).returncode == 0, done
    name, calls = "etc/systemd/system/worldkeeper@galaxy.service.d/setup.conf", machine.calls()

    def move(before, after):
        text = machine.read(CONFIG)
        with open(machine.path(CONFIG), "w") as f:
            f.write(text.replace(machine.path(before), machine.path(after)))
        return machine.run("--yes")
    done = move("srv/a", "srv/b")
    assert done.returncode == 0 and "\n  systemctl restart worldkeeper@galaxy\n" in done.stdout, done
    assert machine.calls() == [*calls, "daemon-reload"], done
    written = machine.read(name)
    assert f'ReadWritePaths="{machine.path("srv/b")}"' in written and "srv/a" not in written, written
    with open(machine.path(name), "a") as f:
        f.write("MemoryMax=1G\n")
    done = move("srv/b", "srv/c")
    assert done.returncode == 0 and "left unchanged" in done.stdout and machine.read(name) == written + "MemoryMax=1G\n", done
    assert f'\n    ReadWritePaths="{machine.path("srv/c")}"\n' in done.stdout, done
    with open(machine.path(name), "w") as f:
        f.write(written)
    done = move("srv/c", "run/worldkeeper/galaxy")
    assert done.returncode == 0 and "ReadWritePaths" not in machine.read(name), done
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0 and not os.path.exists(machine.path(name)), done


def drop_in(text):
    """Returns the lines of the unit's drop-in in the output of a dry run."""
    return re.search(r"would write file \S*setup\.conf.*?\n((?:    .*\n)*)", text)[1].replace("    ", "").splitlines()


def test_the_unit_has_the_user_of_the_service(galaxy, make_machine):
    """The drop-in names the user that the accounts and directories are made for, and that user's group."""
    machine = make_machine(galaxy())
    group = subprocess.run(["id", "-gn", machine.user], capture_output=True, text=True, check=True).stdout.strip()
    done = machine.run("--yes")
    assert done.returncode == 0, done
    lines = machine.read("etc/systemd/system/worldkeeper@galaxy.service.d/setup.conf").splitlines()
    assert lines == ["[Service]", f"User={machine.user}", f"Group={group}"]
    assert machine.run("--undo", "galaxy", "--yes").returncode == 0
    fresh = make_machine(machine.server)
    shown = fresh.run("--dry-run", "--service-user", "worldkeeper", "--status-dir", fresh.path("srv/status"))
    assert shown.returncode == 0, shown
    assert drop_in(shown.stdout) == ["[Service]", f'ReadWritePaths="{fresh.path("srv/status")}"'], shown


def written_config(machine, **dirs):
    """Writes a config with these directories before setup runs."""
    machine.etc("worldkeeper")
    with open(machine.path(CONFIG), "w") as f:
        f.write(f"[world]\nname = galaxy\nschema = galaxy\n[mysql]\nsocket = {machine.server.socket}\nuser = {machine.user}\n")
        f.writelines(f"[{section}]\ndir = {machine.path(path)}\n" + ("mode = follow\n" if section == "journal" else "")
                     for section, path in dirs.items())


def test_the_unit_may_write_to_each_directory_of_the_config(galaxy, make_machine):
    """Setup makes the directories of the config and opens them in the unit: also a journal whose path begins like that of the
    dumps, and the control directory. Paths are quoted as systemd requires."""
    machine = make_machine(galaxy())
    written_config(machine, dump="srv/galaxy", journal="srv/galaxy-journal", control='srv/100%"', status="srv/a b")
    shown = machine.run("--dry-run")
    assert shown.returncode == 0, shown
    paths = ("srv/galaxy", "srv/galaxy-journal", "srv/a b", 'srv/100%"')
    quoted = [f'ReadWritePaths="{machine.path(p)}"' for p in (*paths[:3], 'srv/100%%\\"')]
    assert [p for p in drop_in(shown.stdout) if p.startswith("Read")] == quoted, shown.stdout
    for path in paths:
        assert f"would make directory {machine.path(path)} (mode 07" in shown.stdout, shown.stdout
    written_config(machine, dump="var/lib/worldkeeper/other", journal="var/lib/worldkeeper/other/journal",
                   control="run/worldkeeper/galaxy")
    shown = machine.run("--dry-run")
    quoted = [f'ReadWritePaths="{machine.path("var/lib/worldkeeper/other")}"']  # the unit makes only that of its own name
    assert [p for p in drop_in(shown.stdout) if p.startswith("Read")] == quoted, shown.stdout


def test_paths_that_the_unit_cannot_reach(galaxy, make_machine):
    """The unit has PrivateTmp=yes and ProtectHome=yes: paths there are refused before anything is made, but not where no unit is
    made."""
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server)
    for path, by in (("home/www/status", "ProtectHome=yes"), ("run/user/7/s", "ProtectHome=yes"), ("var/tmp/s", "PrivateTmp=yes"),
                     ("run/game", "each boot empties /run")):
        done = machine.run("--yes", "--status-dir", machine.path(path))
        said = f"[status] dir {machine.path(path)}: the service cannot reach it ({by})"
        assert done.returncode == 4 and said in done.stderr, done
        assert "HINT: choose a directory" in done.stderr and (machine.files(), accounts(server)) == before, done
    os.mkdir(machine.path("tmp"))
    os.symlink(server.socket, machine.path("tmp/mysql.sock"))
    done = machine.run("--yes", "--socket", machine.path("tmp/mysql.sock"), at=None)
    assert done.returncode == 4 and "mysql.sock: the service cannot reach it (PrivateTmp=yes)" in done.stderr, done
    assert "HINT: connect over the network" in done.stderr and accounts(server) == before[1], done
    written_config(machine, dump="root/dumps")
    done = machine.run("--yes")
    assert done.returncode == 4 and "[dump] dir" in done.stderr and accounts(server) == before[1], done
    hint = f"HINT: change [dump] dir in {machine.path(CONFIG)}, or change the unit: systemctl edit worldkeeper@galaxy"
    assert hint in done.stderr, done
    machine.etc("systemd/system/worldkeeper@galaxy.service.d")
    with open(machine.path("etc/systemd/system/worldkeeper@galaxy.service.d/home.conf"), "w") as f:
        f.write("[Service]\nProtectHome=no\n")
    assert (done := machine.run("--dry-run")).returncode == 0, done
    bare = make_machine(server, systemd=False)
    assert (done := bare.run("--yes", "--status-dir", bare.path("home/www"))).returncode == 0, done


def test_paths_of_a_world_that_is_up(galaxy, make_machine):
    """A world that is up or paused is not refused for its paths."""
    machine = make_machine(galaxy())
    assert (done := machine.run("--yes")).returncode == 0, done
    with open(machine.path(CONFIG), "a") as f:
        f.write(f"[status]\ndir = {machine.path('home/www')}\n")
    for state in ("up", "paused"):
        done = machine.run("--yes")
        assert done.returncode == 0 and f"is supervised, and {state}" in done.stdout, done
        assert machine.keeper("galaxy", "--pause=1h").returncode == 0


def test_a_log_that_is_not_synced(galaxy, make_machine):
    """Setup offers sync_binlog = 1 if the binary log is not synced. Enter declines, because with that setting each
    transaction of the game waits for the disk."""
    server = galaxy()
    server.sql("SET GLOBAL sync_binlog=0")
    try:
        first = make_machine(server, systemd=False)
        screen = answer_all(first)
        assert screen.rc == 0 and "sync" in screen.asked and server.value("SELECT @@GLOBAL.sync_binlog") == 0, screen.text
        assert first.run("--undo", "galaxy", "--yes").returncode == 0
        machine = make_machine(server, systemd=False)
        screen = answer_all(machine, sync="y")
        assert screen.rc == 0 and server.value("SELECT @@GLOBAL.sync_binlog") == 1, screen.text
        assert "\nsync_binlog = 1\n" in machine.read(
            f"etc/mysql/{'mysql' if MYSQL else 'mariadb'}.conf.d/90-worldkeeper-galaxy.cnf")
    finally:
        server.sql("SET GLOBAL sync_binlog=0")


@pytest.mark.only("mysql")
def test_a_server_that_takes_back_parts_of_privileges(galaxy, make_machine):
    """With partial_revokes, names in grants have no wildcards, also in the grants of an account that is only made now."""
    machine = make_machine(galaxy(*LOG, "--partial-revokes=ON", schema="my_game"))
    done = machine.run("--yes")
    assert done.returncode == 0, done
    assert not [c for c in findings(machine, "my_game").values() if c["level"] == "fail"]


@pytest.mark.only("mysql")
def test_loading_without_files(galaxy, make_machine):
    """For a large world local_infile is offered, but not by Enter: it concerns what the game's own programs may be made to send."""
    server = galaxy(*LOG, "--local-infile=OFF", "--max-heap-table-size=64M")
    first = make_machine(server, systemd=False)
    screen = answer_all(first)
    assert screen.rc == 0 and "infile" not in screen.asked, screen.text
    assert first.run("--undo", "galaxy", "--yes").returncode == 0
    server.sql("CREATE TABLE galaxy.large (id INT PRIMARY KEY, t VARCHAR(2000)) ENGINE=MEMORY CHARACTER SET utf8mb4",
               "INSERT INTO galaxy.large SELECT seq, 'x' FROM seq_1_to_5000")
    machine = make_machine(server, systemd=False)
    screen = answer_all(machine, infile="y")
    assert screen.rc == 0 and "infile" in screen.asked and server.value("SELECT @@GLOBAL.local_infile") == 1, screen.text
    assert "\nlocal_infile = ON\n" in machine.read("etc/mysql/mysql.conf.d/90-worldkeeper-galaxy.cnf")


def test_the_servers_options(galaxy, make_machine, base):
    """Without a binary log setup writes a file that enables it, which a server accepts, and explains the cost of a restart. A
    question that is open longer than the server keeps an idle session does no harm."""
    server = galaxy("--log-bin-trust-function-creators=0", *(["--skip-log-bin"] if MYSQL else []))
    machine = make_machine(server)
    screen = answer_all(machine, do=lambda: server.end_sessions(user="root") and ENTER)
    assert screen.rc == 0 and "empties all MEMORY tables" in screen.text, screen.text
    assert "what was played after that dump" in screen.text
    name = "mysql.conf.d" if MYSQL else "mariadb.conf.d"
    text = machine.read(f"etc/mysql/{name}/90-worldkeeper-galaxy.cnf")
    lines = [line for line in text.splitlines() if " = " in line and not line.startswith("#")]
    assert text.startswith("# For world galaxy") and "[mysqld]" in text and "log_bin = binlog" in lines, text
    assert any(line.startswith(("expire_logs_days", "binlog_expire_logs_seconds")) for line in lines) or MYSQL
    other = Server(base, *["--" + line.replace(" = ", "=") for line in lines]).start()
    try:
        assert other.value("SELECT @@log_bin") == 1 and other.value("SELECT @@binlog_format") == "ROW"
        assert other.value("SELECT @@log_bin_trust_function_creators") == 1
    finally:
        other.destroy()


@pytest.mark.each_server
def test_a_table_that_is_nearly_full(galaxy, make_machine):
    """Setup raises max_heap_table_size, now and for the next start, if the largest table is close to it; --undo sets it back."""
    server = galaxy()
    before = server.value("SELECT @@GLOBAL.max_heap_table_size")
    largest = server.value("SELECT MAX(DATA_LENGTH+INDEX_LENGTH) FROM information_schema.TABLES WHERE TABLE_SCHEMA='galaxy'")
    server.sql(f"SET GLOBAL max_heap_table_size={largest}")
    limit = server.value("SELECT @@GLOBAL.max_heap_table_size")
    try:
        machine = make_machine(server, systemd=False)
        done = machine.run("--yes")
        assert done.returncode == 0 and "a MEMORY table is full at the limit that it was made with" in done.stdout, done
        assert server.value("SELECT @@GLOBAL.max_heap_table_size") == 16 << 20, done
        assert f"--max_heap_table_size={16 << 20}" in machine.options()
        assert machine.run("--undo", "galaxy", "--yes").returncode == 0
        assert server.value("SELECT @@GLOBAL.max_heap_table_size") == limit and not machine.options()
    finally:
        server.sql(f"SET GLOBAL max_heap_table_size={before}")


NO_LOG = "--log-bin-trust-function-creators=0", *(["--skip-log-bin"] if MYSQL else [])


class Game:
    """Writes rows continuously and records which were acknowledged."""

    SESSIONS = 4

    def __init__(self, server):
        self.server, self.acknowledged, self.over = server, [], threading.Event()
        server.account("player", ["galaxy"], server_rights="USAGE")
        self.next = server.value("SELECT MAX(id) FROM galaxy.fleet") + 1
        self.threads = [threading.Thread(target=self.play, args=(i,)) for i in range(self.SESSIONS)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def play(self, i):
        row = self.next + i
        while not self.over.is_set():
            with contextlib.suppress(pymysql.err.Error, OSError), contextlib.closing(
                    self.server.admin("galaxy", user="player", password=CANARY)) as con:
                while not self.over.is_set():
                    row += self.SESSIONS
                    con.cursor().execute(f"INSERT INTO fleet (id) VALUES ({row})")
                    self.acknowledged.append((time.time(), row))
                    time.sleep(0.005)
            time.sleep(0.05)


@pytest.mark.each_server
def test_the_server_is_restarted_for_its_log(galaxy, make_machine):
    """The restart for the binary log is asked for with the other questions and done after the drill: no row acknowledged
    before it is lost, and the journal is followed."""
    server = galaxy(*NO_LOG)
    machine = make_machine(server)
    machine.service("mariadb")
    with Game(server) as game:
        screen = answer_all(machine, restart="y")
        assert screen.rc == 0 and "restart" in screen.asked[:-1], screen.text
        assert re.search("drill passed.*== restart.*ran FLUSH TABLES.*running systemctl restart mariadb.*its journal is followed.*"
                         "with all that was acknowledged", screen.text, re.S), screen.text
        assert machine.calls()[-1] == "restart mariadb"
    kept = {r[0] for r in server.sql("SELECT id FROM galaxy.fleet")}
    before = {n for when, n in game.acknowledged if when < server.ended}
    assert before and before <= kept, sorted(before - kept)[:9]
    assert machine.run("--yes").returncode == 0 and machine.calls()[-1] == "restart mariadb"


class InterruptedRestart:
    """Runs of setup that restart the server and are interrupted at one point each: at the n-th step of setup, which is stopped
    there, or at a stage of the service's restart."""

    def __init__(self, machine, key):
        self.machine, self.server, self.key = machine, machine.server, key

    def begin_without_log(self):
        """Restarts the server without the options that setup wrote, and waits for the world."""
        for path in glob.glob(self.machine.path("etc/mysql/*/90-worldkeeper-*.cnf")):
            os.unlink(path)
        if self.server.value("SELECT @@log_bin"):
            self.server.stop()
            self.machine.begin_service("mariadb")
        self.wait_up()

    def status(self):
        return json.loads(self.machine.keeper("galaxy", "--status", "--json").stdout)

    def wait_up(self):
        wait_for(lambda: self.server.sql("SHOW TABLES FROM galaxy LIKE 'worldkeeper_sentinel'")
                 and self.server.value("SELECT COUNT(*) FROM galaxy.worldkeeper_sentinel") == 1
                 and self.status()["state"] == "UP", lambda: f"the world to be up: {self.status()}")

    def interrupt(self, point):
        """Returns the run's screen, and whether it came to the point."""
        step, reached = isinstance(point, int), threading.Event()
        more = {"WORLDKEEPER_FAULT": f"setup.step#{point}=stop"} if step else {}
        screen = self.machine.screen("--yes", "--restart-server", **more)

        def at_stage(stage):
            if stage == point and not reached.is_set():
                reached.set()
                screen.interrupt(self.key)
                with contextlib.suppress(AssertionError):  # a setup that ends too early lets the game write
                    wait_for(screen.ended, "setup to end", 1)
                    time.sleep(0.5)
        self.machine.at_stage = at_stage
        try:
            if step and screen.read_until_stopped():
                reached.set()
                screen.interrupt(self.key, stopped=True)
                os.kill(screen.pid, signal.SIGCONT)
            screen.end()
        finally:
            if screen.rc is None:
                screen.kill()
        wait_for(lambda: not self.machine.is_restarting(), "the service to be restarted")
        return screen, reached.is_set()

    def assert_played_on(self, game, since):
        """Asserts that the game can write, and that no row that the server acknowledged before its end is lost."""
        count = len(game.acknowledged)
        wait_for(lambda: len(game.acknowledged) > count, "the game to write")
        self.wait_up()
        kept = {r[0] for r in self.server.sql("SELECT id FROM galaxy.fleet")}
        before = {n for when, n in game.acknowledged[since:] if when < self.server.ended}
        assert before <= kept, sorted(before - kept)[:9]

    def assert_said(self, screen, restarted):
        """Asserts that setup said what was done, and whether the server was restarted."""
        if screen.rc == 0:
            assert restarted and "its journal is followed" in screen.text, screen.text
            return
        assert screen.rc == 1 and re.search("Done so far.*worldkeeper-setup: ", screen.text, re.S), screen.text
        assert ("the server was not restarted: interrupted" in screen.text) == (
            not restarted and "== restart of the server" in screen.text), screen.text
        assert not restarted or re.search("the server was restarted|is up again|the server did not start with", screen.text), screen.text


@pytest.mark.slow
@pytest.mark.timeout(3600)  # about ten runs of setup, each with restarts of the server
@pytest.mark.parametrize("key, fails", [("\x03", 0), (signal.SIGTERM, 0), ("\x03", 1)], ids=["ctrl-c", "sigterm", "no-start"])
def test_an_interrupted_restart(galaxy, make_machine, key, fails):
    """Ctrl+C or SIGTERM at each step and each stage of the restart, also of a server that does not start with the new options:
    setup says whether the server was restarted, the game can write, no acknowledged row is lost, the server runs, and the
    next run restarts it if that is left to do. Without WK_WHOLE: at one stage, at one step and not at all."""
    server = galaxy(*NO_LOG)
    machine = make_machine(server)
    machine.service("mariadb")
    assert (done := machine.run("--yes", "--no-server-file")).returncode in (0, 1), done
    one = InterruptedRestart(machine, key)
    whole = os.environ.get("WK_WHOLE") == "yes"
    for point in [*share(machine.STAGES, 1), *share(range(1, 10), 1), *(range(10, 100) if whole else [99])]:
        one.begin_without_log()
        machine.fails, before = fails, machine.restarts
        with Game(server) as game:
            screen, reached = one.interrupt(point)
            one.assert_said(screen, machine.restarts > before)
            one.assert_played_on(game, 0)
            machine.fails, since = 0, len(game.acknowledged)
            done = machine.run("--yes", "--restart-server")
            assert done.returncode == 0 and server.value("SELECT @@log_bin") == 1, done
            one.assert_played_on(game, since)
        wait_for(lambda: one.status()["journal"]["state"] == "following", lambda: f"the journal to be followed: {one.status()}")
        if not reached:
            break
    assert isinstance(point, int) and point > 5, point


@pytest.mark.each_server
def test_a_restart_for_two_worlds(galaxy, make_world, make_machine):
    """For two worlds there is one question and one restart: both are dumped under the lock before it, and both are up,
    followed and checked afterwards."""
    server = galaxy(*NO_LOG)
    make_world("small", server, schema="mars")
    machine = make_machine(server)
    machine.service("mariadb")
    with Game(server) as game:
        screen = answer_all(machine, restart="y")
        assert screen.rc == 0 and screen.asked.count("restart") == 1, screen.text
    order = [r"ran FLUSH TABLES WITH READ LOCK", r"galaxy\.ini --dump ", r"mars\.ini --dump ", "running systemctl restart mariadb",
             "world galaxy is up again, and its journal is followed", "world mars is up again, and its journal is followed",
             r"galaxy\.ini --check ", "World galaxy is protected.*with all that was acknowledged",
             r"mars\.ini --check ", "World mars is protected.*with all that was acknowledged"]
    assert re.search(".*".join(order), screen.text, re.S), screen.text
    assert machine.calls().count("restart mariadb") == 1
    kept = {r[0] for r in server.sql("SELECT id FROM galaxy.fleet")}
    before = {n for when, n in game.acknowledged if when < server.ended}
    assert before and before <= kept, sorted(before - kept)[:9]
    for world in ("galaxy", "mars"):
        status = json.loads(machine.keeper(world, "--status", "--json").stdout)
        assert status["state"] == "UP" and status["journal"]["state"] == "following", status
    assert rows(server) and rows(server, "mars")


def test_the_second_world_can_stop_the_restart(galaxy, make_world, make_machine):
    """If the last dump of the second world fails, or if it is not up, the server is not restarted and the game can write
    again. The command for a person dumps both worlds first; it is not printed if one is not up."""
    server = galaxy(*NO_LOG)
    make_world("small", server, schema="mars")
    machine = make_machine(server)
    machine.service("mariadb")
    done = machine.run("--yes")
    assert done.returncode == 0, done
    command = "worldkeeper --world galaxy --dump && worldkeeper --world mars --dump && systemctl restart mariadb"
    assert done.stdout.count(f"\n  {command}\n") == 2, done
    dumps = machine.path("var/lib/worldkeeper/mars")
    os.chmod(dumps, 0o500)
    try:
        done = machine.run("--yes", "--restart-server")
    finally:
        os.chmod(dumps, 0o700)
    assert done.returncode == 1 and "not restarted: the dump of world mars failed" in done.stderr, done
    server.sql("INSERT INTO galaxy.fleet (id) VALUES (987654)", "INSERT INTO mars.fleet (id) VALUES (987654)")
    assert machine.keeper("mars", "--pause=1h").returncode == 0
    done = machine.run("--yes", "--restart-server")
    assert done.returncode == 4 and "mars has MEMORY tables, and no world that keeps it is up" in done.stderr, done
    assert "schema mars has MEMORY tables, and no world" in done.stdout and "--dump &&" not in done.stdout, done
    assert "restart mariadb" not in machine.calls()


@pytest.mark.parametrize("text", ["[mysqld]\n# log_bin = binlog\n", "[mysql]\nlog_bin = binlog\n", "[mysqld]\nskip-log-bin\n",
                                  ""], ids=["comment", "client", "off", "empty"])
def test_a_restart_for_a_file_without_the_option(galaxy, make_machine, text):
    """The server is restarted, and a command for it printed, only if the file of an earlier run still enables the binary log: a
    comment, or another group, does not."""
    server = galaxy(*NO_LOG)
    machine = make_machine(server)
    machine.service("mariadb")
    assert machine.run("--yes").returncode in (0, 1)
    path, = glob.glob(machine.path("etc/mysql/*/90-worldkeeper-galaxy.cnf"))
    with open(path, "w") as f:
        f.write(text)
    done = machine.run("--yes")
    assert f"needs a restart of the server, but {path} does not enable \"log_bin = binlog\"" in done.stdout, done
    assert "systemctl restart" not in done.stdout, done
    done = machine.run("--yes", "--restart-server")
    assert done.returncode == 4 and f"{path} does not enable" in done.stderr, done
    assert "restart mariadb" not in machine.calls() and rows(server)


@pytest.mark.each_server
def test_a_replica_is_not_restarted(galaxy, make_server, make_machine):
    """On a replica setup explains that a restart would stop replication, does not ask for it, prints no command for it, and
    refuses --restart-server."""
    server = galaxy(*NO_LOG, "--server-id=2")
    source = make_server(*LOG)
    source.sql("CREATE USER feed@'127.0.0.1' IDENTIFIED BY 'feed'", "GRANT REPLICATION SLAVE ON *.* TO feed@'127.0.0.1'")
    to = (f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={source.port}, MASTER_USER='feed', MASTER_PASSWORD='feed', "
          "MASTER_LOG_FILE='log.000001', MASTER_LOG_POS=4")
    if MYSQL:
        to = to.replace("MASTER TO", "REPLICATION SOURCE TO").replace("MASTER_", "SOURCE_") + ", GET_SOURCE_PUBLIC_KEY=1"
    server.sql(to, "START SLAVE")
    wait_for(lambda: source.value("SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"), "the replica")
    machine = make_machine(server)
    machine.service("mariadb")
    screen = answer_all(machine, options=["--dry-run"])
    assert screen.rc == 0 and "restart" not in screen.asked, screen.text
    said = "does not restart the server itself: it is a replica.*1032.*Keep the world on the source"
    assert re.search(said, screen.text), screen.text
    done = machine.run("--yes", "--restart-server")
    assert done.returncode == 4 and "it is a replica" in done.stderr and not machine.calls(), done
    done = machine.run("--yes")
    assert "The journal needs a restart of the server, but it is a replica" in done.stdout, done
    assert "systemctl restart" not in screen.text + done.stdout, done


@pytest.mark.only("mariadb", why="Galera")
@pytest.mark.needs("galera")
def test_a_node_of_a_cluster_is_not_restarted(base, make_world, make_machine):
    """A Galera node is not restarted, because it does not end while writes are locked. Setup prints the commands that fit the
    cluster, also for its only node."""
    cluster = Cluster(base, 2, "--log-bin-trust-function-creators=0")
    try:
        cluster.bootstrap()
        make_world("small", cluster.nodes[0], schema="galaxy")
        machine = make_machine(cluster.nodes[0])
        machine.service("mariadb")
        done = machine.run("--yes", "--restart-server")
        assert done.returncode == 4 and not machine.calls(), done
        assert "node n1 of a Galera cluster of 1," in done.stderr, done
        done = machine.run("--yes")
        assert "\n  worldkeeper --world galaxy --dump && systemctl stop mariadb && galera_new_cluster\n" in done.stdout, done
        cluster.join()
        screen = answer_all(machine)
        assert screen.rc == 0 and "restart" not in screen.asked, screen.text
        assert "node n1 of a Galera cluster of 2," in screen.text and "restart mariadb" not in machine.calls(), screen.text
        assert "\n  worldkeeper --world galaxy --dump && systemctl restart mariadb\n" in screen.text, screen.text
    finally:
        cluster.destroy()


def test_a_server_that_does_not_start_is_started_as_before(galaxy, make_machine):
    server = galaxy(*NO_LOG)
    machine = make_machine(server)
    machine.service("mariadb", fails=1)
    done = machine.run("--yes", "--restart-server")
    assert done.returncode == 1 and "did not start with" in done.stderr and "journalctl -u mariadb" in done.stderr, done
    assert machine.options() == [] and "Done so far" in done.stdout, done
    assert rows(server) and machine.keeper("galaxy", "--status").returncode in (0, 1), done


def test_the_server_is_not_restarted_unasked(galaxy, make_world, make_machine):
    """--restart-server is refused without a systemd service and if it would empty tables that no world keeps; no command for it
    is printed then. Without the option the server is not restarted."""
    server = galaxy(*NO_LOG)
    machine = make_machine(server)
    done = machine.run("--yes", "--restart-server")
    assert done.returncode == 4 and "no systemd service" in done.stderr and not machine.calls(), done
    machine.service("mariadb")
    assert machine.run("--dry-run", "--restart-server").stdout.count("would run systemctl restart mariadb") == 1
    make_world("small", server, schema="other")
    done = machine.run("--yes", "--schema", "galaxy", "--restart-server")
    assert done.returncode == 4 and "schema other has MEMORY tables" in done.stderr and not machine.calls(), done
    done = machine.run("--yes", "--schema", "galaxy")
    assert "The journal needs a restart of the server, but schema other has MEMORY tables" in done.stdout, done
    assert "systemctl restart" not in done.stdout, done
    server.sql("DROP DATABASE other")
    screen = answer_all(machine)
    assert screen.rc == 0 and "restart" in screen.asked and machine.calls()[-1] == "enable --now worldkeeper@galaxy", screen.text
    assert "\n  worldkeeper --world galaxy --dump && systemctl restart mariadb\n" in screen.text
    done = machine.run("--yes")
    assert done.returncode == 0 and machine.calls()[-1] == "enable --now worldkeeper@galaxy", done
    assert "Option --restart-server does so." in done.stdout, done


def test_no_restart_for_a_journal_that_was_declined(galaxy, make_machine):
    """If the privileges that a journal needs are declined, a restart of the server would begin none, and no command for it is
    printed."""
    server = galaxy(*NO_LOG)
    server.sql("DROP TRIGGER galaxy.born")
    machine = make_machine(server)
    machine.service("mariadb")
    done = machine.run("--yes", "--no-global")
    assert "World galaxy is protected" in done.stdout and "no journal is kept" in done.stdout, done
    assert "systemctl restart" not in done.stdout and "The journal" not in done.stdout, done


@pytest.mark.each_server
def test_a_second_run_extends_the_option_file(galaxy, make_machine):
    """A second run adds what the server lacks by then to the option file of the first one, and --undo restores the value from
    before the first. To a file that was changed since nothing is added: setup prints the line, and does not set in the running
    server what its next restart would undo."""
    server = galaxy()
    name = "max_heap_table_size"
    before = server.value(f"SELECT @@GLOBAL.{name}")
    largest = server.value("SELECT MAX(DATA_LENGTH+INDEX_LENGTH) FROM information_schema.TABLES WHERE TABLE_SCHEMA='galaxy'")
    server.sql(f"SET GLOBAL {name}={largest}")
    limit = server.value(f"SELECT @@GLOBAL.{name}")
    try:
        machine = make_machine(server, systemd=False)
        assert (done := machine.run("--yes")).returncode == 0 and server.value(f"SELECT @@GLOBAL.{name}") == 16 << 20, done
        first = machine.options()
        server.sql("CREATE TABLE galaxy.large (id INT PRIMARY KEY, t CHAR(250)) ENGINE=MEMORY CHARACTER SET latin1",
                   "INSERT INTO galaxy.large SELECT seq, 'x' FROM seq_1_to_50000", schema="galaxy")
        screen = answer_all(machine)
        more = server.value(f"SELECT @@GLOBAL.{name}")
        assert screen.rc == 0 and "write" in screen.asked and more > 16 << 20, screen.text
        assert machine.options() == [*first, f"--{name}={more}"]
        done = machine.run("--yes")
        assert done.returncode == 0 and machine.options() == [*first, f"--{name}={more}"], done
        assert (done := machine.run("--undo", "galaxy", "--yes")).returncode == 0, done
        assert server.value(f"SELECT @@GLOBAL.{name}") == limit and not machine.options(), done
        assert (done := machine.run("--yes")).returncode == 0 and machine.options(), done
        server.sql(f"SET GLOBAL {name}={limit}")
        path, = glob.glob(machine.path("etc/mysql/*/90-worldkeeper-galaxy.cnf"))
        with open(path, "w") as f:
            f.write("[mysqld]\n# not that\n")
        screen = answer_all(machine)
        assert screen.rc == 0 and "write" not in screen.asked, screen.text
        assert re.search(f"changed since[^\n]* yourself:\n(  [^\n]*\n)*  {name} = {more}\n", screen.text), screen.text
        assert server.value(f"SELECT @@GLOBAL.{name}") == limit and not machine.options()
    finally:
        server.sql(f"SET GLOBAL {name}={before}")


@pytest.mark.each_server
def test_undo_sets_the_servers_variables_back(galaxy, make_world, make_machine):
    """--undo resets variables that setup has set if they were not changed since and no other world of the server needs them."""
    server = galaxy("--log-bin-trust-function-creators=0", *LOG)
    make_world("small", server, schema="mars")
    machine = make_machine(server)
    names = "@@GLOBAL.log_bin_trust_function_creators", "@@GLOBAL." + (
        "binlog_expire_logs_seconds" if MYSQL else "expire_logs_days")
    server.sql(f"SET {names[1]}=0")
    before = server.sql("SELECT " + ",".join(names))
    try:
        assert (done := machine.run("--yes", "--schema", "galaxy")).returncode == 0, done
        kept = server.sql("SELECT " + ",".join(names))
        assert kept[0][0] == 1 and kept[0][1] > 0
        assert (done := machine.run("--undo", "galaxy", "--dry-run")).returncode == 0 and "would run SET" in done.stdout, done
        assert machine.run("--yes", "--schema", "mars", "--no-server-file").returncode is not None
        done = machine.run("--undo", "galaxy", "--yes")
        assert done.returncode == 0 and "another world of this server needs it, too" in done.stdout, done
        assert server.sql("SELECT " + ",".join(names)) == kept
        server.sql(f"SET {names[1]}=2")
        done = machine.run("--undo", "mars", "--yes")
        assert done.returncode == 0 and "was changed since, and stays" in done.stdout, done
        assert server.sql("SELECT " + ",".join(names)) == ((before[0][0], 2),)
        assert not MYSQL or not server.sql("SELECT * FROM performance_schema.persisted_variables")
    finally:
        server.sql(f"SET {names[0]}=0")


# -- undo and failures ---------------------------------------------------------------------------------------


def test_no_restart_for_a_journal_that_was_declined(galaxy, make_machine):
    """If the privileges that a journal needs are declined, a restart of the server would begin none, and no command for it is
    printed."""
    server = galaxy(*NO_LOG)
    server.sql("DROP TRIGGER galaxy.born")
    machine = make_machine(server)
    machine.service("mariadb")
    done = machine.run("--yes", "--no-global")
    assert "World galaxy is protected" in done.stdout and "no journal is kept" in done.stdout, done
    assert "systemctl restart" not in done.stdout and "The journal" not in done.stdout, done


@pytest.mark.each_server
def test_a_second_run_extends_the_option_file(galaxy, make_machine):
    """A second run adds what the server lacks by then to the option file of the first one, and --undo restores the value from
    before the first. To a file that was changed since nothing is added: setup prints the line, and does not set in the running
    server what its next restart would undo."""
    server = galaxy()
    name = "max_heap_table_size"
    before = server.value(f"SELECT @@GLOBAL.{name}")
    largest = server.value("SELECT MAX(DATA_LENGTH+INDEX_LENGTH) FROM information_schema.TABLES WHERE TABLE_SCHEMA='galaxy'")
    server.sql(f"SET GLOBAL {name}={largest}")
    limit = server.value(f"SELECT @@GLOBAL.{name}")
    try:
        machine = make_machine(server, systemd=False)
        assert (done := machine.run("--yes")).returncode == 0 and server.value(f"SELECT @@GLOBAL.{name}") == 16 << 20, done
        first = machine.options()
        server.sql("CREATE TABLE galaxy.large (id INT PRIMARY KEY, t CHAR(250)) ENGINE=MEMORY CHARACTER SET latin1",
                   "INSERT INTO galaxy.large SELECT seq, 'x' FROM seq_1_to_50000", schema="galaxy")
        screen = answer_all(machine)
        more = server.value(f"SELECT @@GLOBAL.{name}")
        assert screen.rc == 0 and "write" in screen.asked and more > 16 << 20, screen.text
        assert machine.options() == [*first, f"--{name}={more}"]
        done = machine.run("--yes")
        assert done.returncode == 0 and machine.options() == [*first, f"--{name}={more}"], done
        assert (done := machine.run("--undo", "galaxy", "--yes")).returncode == 0, done
        assert server.value(f"SELECT @@GLOBAL.{name}") == limit and not machine.options(), done
        assert (done := machine.run("--yes")).returncode == 0 and machine.options(), done
        server.sql(f"SET GLOBAL {name}={limit}")
        path, = glob.glob(machine.path("etc/mysql/*/90-worldkeeper-galaxy.cnf"))
        with open(path, "w") as f:
            f.write("[mysqld]\n# not that\n")
        screen = answer_all(machine)
        assert screen.rc == 0 and "write" not in screen.asked, screen.text
        assert re.search(f"changed since[^\n]* yourself:\n(  [^\n]*\n)*  {name} = {more}\n", screen.text), screen.text
        assert server.value(f"SELECT @@GLOBAL.{name}") == limit and not machine.options()
    finally:
        server.sql(f"SET GLOBAL {name}={before}")


@pytest.mark.each_server
def test_undo_removes_what_was_made_but_no_dumps(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    before = machine.files(), accounts(server), server.sql("SHOW TABLES FROM galaxy")
    assert machine.run("--yes", "--status-dir", machine.path("srv/status")).returncode == 0
    dumps = glob.glob(machine.path("var/lib/worldkeeper/galaxy/*.sql.gz"))
    shown = machine.run("--undo", "galaxy", "--dry-run")
    assert shown.returncode == 0 and "would run DROP USER" in shown.stdout, shown
    assert os.path.exists(machine.path(CONFIG))
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0, done
    assert "disable --now worldkeeper@galaxy" in machine.calls()
    assert (accounts(server), server.sql("SHOW TABLES FROM galaxy")) == before[1:]
    assert dumps and all(map(os.path.exists, dumps))
    left = [f for f in machine.files() if f not in before[0] and not f.startswith(("var", "srv"))]
    assert not left, left
    again = machine.run("--undo", "galaxy", "--yes")
    assert again.returncode == 2 and "made nothing for a world galaxy" in again.stderr, again


def test_undo_acts_on_the_server_of_the_world(two_servers, make_machine):
    """--undo connects to the server that the record names, and refuses an option that names another one, where the same names
    may be those of another world. Records of earlier versions have no server; then the config says it."""
    one, two = two_servers
    clean = of_galaxy(two)
    machine, other = make_machine(two), make_machine(one, systemd=False)
    assert machine.run("--yes").returncode == 0 and other.run("--yes").returncode == 0
    made = of_galaxy(one), of_galaxy(two)
    for typed in (["--socket", one.socket], ["--host", "127.0.0.1", "--port", str(two.port)]):
        done = machine.run("--undo", "galaxy", "--yes", *typed, at=None)
        said = f"is on the server at socket {two.socket}, not at {typed[0][2:]} {typed[1]}"
        assert done.returncode == 4 and said in done.stderr, done
        assert "HINT: leave out --socket" in done.stderr and not done.stdout, done
    assert (of_galaxy(one), of_galaxy(two)) == made
    done = machine.run("--undo", "galaxy", "--yes", at=None)
    assert done.returncode == 0 and (of_galaxy(one), of_galaxy(two)) == (made[0], clean), done


def test_undo_of_a_record_without_a_server(two_servers, make_machine):
    """Records of earlier versions do not name the server. The world's config does; without it, an option must."""
    one, two = two_servers
    clean, theirs = of_galaxy(two), of_galaxy(one)
    machine = make_machine(two, systemd=False)
    record, config = machine.path("etc/worldkeeper/galaxy.setup"), machine.path(CONFIG)
    for there in (True, False):
        assert machine.run("--yes").returncode == 0
        with open(record) as f:
            made = json.load(f)
        assert made.pop("server") == {"socket": two.socket}
        with open(record, "w") as f:
            json.dump(made, f)
        if there:
            done = machine.run("--undo", "galaxy", "--yes", at=one)
            assert done.returncode == 4 and "is on the server at socket" in done.stderr, done
        else:
            os.unlink(config)
            done = machine.run("--undo", "galaxy", "--yes", at=None)
            assert done.returncode == 4 and "says on which server" in done.stderr and "HINT: say where" in done.stderr, done
        done = machine.run("--undo", "galaxy", "--yes", at=None if there else two)
        assert done.returncode == 0 and (of_galaxy(one), of_galaxy(two)) == (theirs, clean), done


def test_a_record_is_of_one_server(two_servers, make_machine):
    """A world whose config was pointed at another server is refused while its record lists what was made on the first one."""
    one, two = two_servers
    machine = make_machine(one, systemd=False)
    assert machine.run("--yes").returncode == 0
    config, theirs = machine.read(CONFIG).replace(one.socket, two.socket), of_galaxy(two)
    with open(machine.path(CONFIG), "w") as f:
        f.write(config)
    done = machine.run("--yes", at=two)
    assert done.returncode == 4 and f"lists what was made on another server, at socket {one.socket}" in done.stderr, done
    assert of_galaxy(two) == theirs


@pytest.mark.each_server
@pytest.mark.parametrize("by", ["setup", "others"])
def test_undo_keeps_what_the_account_of_another_world_needs(galaxy, make_world, make_machine, by):
    """If another world of the server uses the account, --undo keeps the account and its privileges on the server, and revokes
    only those on the schemas of the world. The last --undo removes them, if setup made them."""
    server = galaxy()
    make_world("small", server, schema="mars")
    clean, machine = accounts(server), make_machine(server, systemd=False)
    if by == "others":
        account_of_others(server, machine)
        clean = accounts(server)
    assert (done := machine.run("--yes", "--schema", "galaxy")).returncode == 0, done
    with open(machine.path("etc/worldkeeper/mars.ini"), "w") as f:
        f.write(re.sub("(name|schema|dir) = (.*)galaxy", r"\1 = \2mars", machine.read(CONFIG)))
    user = re.search("^user = (.*)$", machine.read(CONFIG), re.M)[1]
    assert (done := machine.run("--yes", "--schema", "mars")).returncode == 0, done
    assert (done := machine.keeper("mars", "--init")).returncode == 0, done
    shown = machine.run("--undo", "galaxy", "--dry-run")
    assert shown.returncode == 0 and "DROP USER" not in shown.stdout and "ON `galaxy`.* FROM" in shown.stdout, shown
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0 and "stays: another world of this server needs it, too" in done.stdout, done
    grants = " ".join(r[0] for r in server.sql(f"SHOW GRANTS FOR '{user}'@'localhost'"))
    left = re.findall(r"GRANT ([^`*]*) ON `galaxy`", grants)
    assert "`mars`" in grants and left == ["SELECT, TRIGGER"] * (by == "others"), grants
    assert "REPLICATION SLAVE" in grants.partition(" ON *.*")[0]
    assert (done := machine.keeper("mars", "--dump")).returncode == 0, done
    assert (done := machine.run("--undo", "mars", "--yes")).returncode == 0, done
    assert accounts(server) == clean
    left = [r[0] for r in server.sql(f"SHOW GRANTS FOR '{user}'@'localhost'")] if by == "others" else []
    assert not [g for g in left if " ON *.*" in g and "USAGE" not in g], left


def test_undo_with_a_config_that_cannot_be_loaded(galaxy, make_machine):
    """--undo is refused while the config of another world cannot be loaded, which may name the account. The config of the undone
    world does not matter."""
    server = galaxy()
    clean = accounts(server)
    machine = make_machine(server, systemd=False)
    assert machine.run("--yes").returncode == 0
    other = machine.path("etc/worldkeeper/mars.ini")
    with open(other, "w") as f:
        f.write(machine.read(CONFIG) + "[nonsense]\n")
    before = machine.files(), accounts(server)
    for more in ((), ("--dry-run",)):
        done = machine.run("--undo", "galaxy", "--yes", *more)
        assert done.returncode == 4 and f"{other} cannot be loaded" in done.stderr, done
        assert "HINT: correct that file" in done.stderr, done
        assert (machine.files(), accounts(server)) == before
    os.replace(other, machine.path(CONFIG))
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0 and accounts(server) == clean, done


def test_undo_of_a_server_with_an_unknown_certificate(galaxy, make_machine):
    """If the certificate of the world's server is not accepted, the hint names the option for its authority."""
    server = galaxy()
    server.sql("CREATE USER player@'127.0.0.1'")  # without an account of this host the server ends the session before TLS
    machine = make_machine(server, systemd=False)
    assert machine.run("--yes").returncode == 0
    record = machine.path("etc/worldkeeper/galaxy.setup")
    with open(record) as f:
        made = json.load(f)
    made["server"] = {"host": "2130706433", "port": server.port}  # 127.0.0.1, in a form that setup takes for another host
    with open(record, "w") as f:
        json.dump(made, f)
    done = machine.run("--undo", "galaxy", "--yes", at=None)
    assert done.returncode == 1 and "no session with the server" in done.stderr, done
    assert re.search("HINT: the server's certificate .*--tls-ca FILE", done.stderr), done


def test_undo_shows_what_it_removes_and_asks(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server, systemd=False)
    assert machine.run("--yes").returncode == 0
    before = machine.files(), accounts(server)
    question = "remove all this" + END
    for answer, said, rc in (("n", "Nothing was removed.", 0), ("\x03", "interrupted", 1)):
        screen = machine.talk((question, answer), options=["--undo", "galaxy"])
        assert re.search(r"Made for world galaxy:\n.*  account .*  file .*galaxy\.ini\n", screen.text, re.S), screen.text
        assert said in screen.text and screen.rc == rc and (machine.files(), accounts(server)) == before, screen.text


def test_undo_follows_no_link_that_others_planted(galaxy, make_machine):
    """--undo does not follow a link that replaced a directory in which others can write."""
    machine = make_machine(galaxy(), systemd=False)
    theirs, elsewhere = machine.path("srv/theirs"), machine.path("srv/elsewhere/status")
    os.makedirs(os.path.join(theirs, "www"))
    os.makedirs(elsewhere)
    os.chmod(theirs, 0o777)
    assert machine.run("--yes", "--status-dir", os.path.join(theirs, "www/status")).returncode == 0
    os.rename(os.path.join(theirs, "www"), os.path.join(theirs, "old"))
    os.symlink("../elsewhere", os.path.join(theirs, "www"))
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode != 0 and "is a symbolic link" in done.stdout, done
    assert os.path.isdir(elsewhere)


def test_undo_keeps_what_was_changed_since(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    assert machine.run("--yes").returncode == 0
    with open(machine.path(CONFIG), "a") as f:
        f.write("# mine\n")
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0 and "was changed since, and stays" in done.stdout, done
    assert machine.read(CONFIG).endswith("# mine\n")


def test_undo_revokes_what_an_account_of_others_was_granted(galaxy, make_machine, tmp):
    """--undo revokes what setup granted to an existing account and keeps the account."""
    server = galaxy()
    machine = make_machine(server)
    server.sql(f"CREATE USER worldkeeper_galaxy@localhost IDENTIFIED BY '{CANARY}'",
               "GRANT SELECT, TRIGGER ON galaxy.* TO worldkeeper_galaxy@localhost")
    if MYSQL:  # without a login by socket the account with a password is used
        machine.etc("worldkeeper")
        with open(machine.path("etc/worldkeeper/galaxy.password"), "w") as f:
            f.write(CANARY + "\n")
    else:
        server.sql(f"CREATE USER '{machine.user}'@localhost IDENTIFIED BY '{CANARY}'")
        refused = machine.run("--yes")
        assert refused.returncode == 4 and "exists, but its password file" in refused.stderr, refused
        machine.etc("worldkeeper")
        with open(machine.path("etc/worldkeeper/galaxy.password"), "w") as f:
            f.write(CANARY + "\n")
    secret = machine.path("etc/worldkeeper/galaxy.password")
    os.chmod(secret, 0o400)
    if os.geteuid() == 0:
        subprocess.run(["chown", machine.user, secret], check=True)
    before = sorted(r[0] for r in server.sql("SHOW GRANTS FOR worldkeeper_galaxy@localhost"))
    assert (done := machine.run("--yes")).returncode == 0, done
    assert (done := machine.run("--undo", "galaxy", "--yes")).returncode == 0, done
    assert sorted(r[0] for r in server.sql("SHOW GRANTS FOR worldkeeper_galaxy@localhost")) == before


def account_of_others(server, machine, world="galaxy"):
    """Makes an account with a password, and its password file, before setup runs."""
    server.sql(f"CREATE USER worldkeeper_{world}@localhost IDENTIFIED BY '{CANARY}'",
               f"GRANT SELECT, TRIGGER ON {world}.* TO worldkeeper_{world}@localhost")
    if not MYSQL:  # otherwise setup would use the login by socket
        server.sql(f"CREATE USER '{machine.user}'@localhost IDENTIFIED BY '{CANARY}'")
    password_file(machine, CANARY + "\n", world)


@pytest.mark.each_server
@pytest.mark.parametrize("given", [
    "DELETE, INDEX ON space_wars.* TO worldkeeper_space_wars@localhost WITH GRANT OPTION",
    "DELETE, INDEX ON space_wars.* TO ''@'%'",
    "DELETE, INDEX ON `space%`.* TO worldkeeper_space_wars@localhost", "ALL ON space_wars.* TO worldkeeper_space_wars@'%'"])
def test_no_grant_takes_a_privilege_from_an_account_of_others(galaxy, make_machine, given):
    """What setup grants to an account that the game uses, too, hides no privilege that a wider grant gives: on a name with
    wildcards, or to an account of the same name or without a name and of more hosts. --undo lets that one count again."""
    server = galaxy(schema="space_wars")
    machine = make_machine(server, systemd=False)
    account_of_others(server, machine, "space_wars")
    server.sql("REVOKE ALL, GRANT OPTION FROM worldkeeper_space_wars@localhost",
               f"CREATE USER IF NOT EXISTS {re.search('TO ([^ ]*)', given)[1]}", f"GRANT {given}")

    def play():
        with contextlib.closing(session_of(server, "worldkeeper_space_wars", "space_wars")) as game, game.cursor() as c:
            c.execute("DELETE FROM player LIMIT 0")
            c.execute("CREATE INDEX x ON player (id)")
            c.execute("DROP INDEX x ON player")
    grants = "SHOW GRANTS FOR worldkeeper_space_wars@localhost"
    before = server.sql(grants)
    play()
    assert (done := machine.run("--yes")).returncode == 0, done
    play()
    assert "by a wider grant, which this one hides" in done.stdout, done
    assert findings(machine, "space_wars").get("rights", {"level": "ok"})["level"] != "fail"
    assert (done := machine.run("--undo", "space_wars", "--yes")).returncode == 0, done
    assert server.sql(grants) == before
    play()


@contextlib.contextmanager
def no_privilege_can_be_changed(server):
    """Makes the server reject each REVOKE: MySQL is read-only also for root, MariaDB lacks a system table."""
    change, back = (("SET GLOBAL super_read_only=1", "SET GLOBAL super_read_only=0, read_only=0") if MYSQL else
                    ("RENAME TABLE mysql.db TO mysql.db_away", "RENAME TABLE mysql.db_away TO mysql.db"))
    server.sql(change)
    try:
        yield
    finally:
        server.sql(back)


@pytest.mark.each_server
def test_undo_reports_a_privilege_that_cannot_be_revoked(galaxy, make_machine):
    """A privilege that cannot be revoked is reported and its record stays, so that a second --undo continues. A privilege that
    is already revoked is no failure."""
    server = galaxy()
    machine = make_machine(server)
    account_of_others(server, machine)
    before = sorted(r[0] for r in server.sql("SHOW GRANTS FOR worldkeeper_galaxy@localhost"))
    assert (done := machine.run("--yes")).returncode == 0, done
    with no_privilege_can_be_changed(server):
        done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 1 and "could not be removed; a second run continues" in done.stderr, done
    server.sql("REVOKE INSERT ON galaxy.* FROM worldkeeper_galaxy@localhost")
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0, done
    left = sorted(r[0] for r in server.sql("SHOW GRANTS FOR worldkeeper_galaxy@localhost"))
    assert left == before, done.stdout


def test_undo_stops_the_service_first(galaxy, make_machine):
    """--undo stops the service before it takes anything away that the service uses, also what a later run has made. If that
    fails, everything stays."""
    server = galaxy()
    machine = make_machine(server)
    account_of_others(server, machine)
    assert (done := machine.run("--yes")).returncode == 0, done
    server.sql("REVOKE TRIGGER ON galaxy.* FROM worldkeeper_galaxy@localhost")
    done = machine.run("--yes")
    assert done.returncode == 0 and "ran GRANT TRIGGER ON `galaxy`.*" in done.stdout, done
    before, broken = machine.files(), os.path.join(machine.fake, "broken")
    open(broken, "w").close()
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 1 and "REVOKE" not in done.stdout and machine.files() == before, done
    os.unlink(broken)
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0 and done.stdout.index("systemctl disable --now") < done.stdout.index("ran REVOKE TRIGGER"), done


@pytest.mark.each_server
@pytest.mark.parametrize("gone", ["all", "account", "schema"])
def test_undo_of_privileges_that_are_gone(galaxy, make_machine, gone):
    server = galaxy()
    machine = make_machine(server)
    account_of_others(server, machine)
    assert (done := machine.run("--yes")).returncode == 0, done
    server.sql({"all": "REVOKE ALL, GRANT OPTION FROM worldkeeper_galaxy@localhost",
                "account": "DROP USER worldkeeper_galaxy@localhost", "schema": "DROP DATABASE galaxy"}[gone])
    done = machine.run("--undo", "galaxy", "--yes")
    assert done.returncode == 0, done.stdout


def test_a_failure_lists_what_was_done_and_a_second_run_continues(galaxy, make_machine):
    server = galaxy()
    machine = make_machine(server)
    open(os.path.join(machine.fake, "broken"), "w").close()
    done = machine.run("--yes")
    assert done.returncode == 1 and "systemctl failed" in done.stderr and "HINT" in done.stderr, done
    assert re.search(r"Done so far.*account .*file .*galaxy\.ini.*sentinel", done.stdout, re.S), done
    os.unlink(os.path.join(machine.fake, "broken"))
    done = machine.run("--yes")
    assert done.returncode == 0 and "all that was acknowledged" in done.stdout, done


@pytest.mark.slow
@pytest.mark.parametrize("point", ["setup.noted", "setup.done"])
def test_killed_at_each_step_it_can_be_continued_or_undone(galaxy, make_machine, point):
    """After a kill at any step setup can be repeated or undone, because nothing is active before its end and the record has
    everything that was made."""
    server = galaxy()
    clean = accounts(server)
    for n in range(1, 100):
        machine = make_machine(server, systemd=False)
        os.makedirs(machine.path("var/lib/worldkeeper"))
        files = machine.files()
        killed = machine.run("--yes", WORLDKEEPER_FAULT=f"{point}#{n}=kill")
        if killed.returncode == 0:
            break
        assert killed.returncode == -9, killed
        if n % 2:
            done = machine.run("--yes")
            assert done.returncode == 0, done
            assert machine.keeper("galaxy", "--init").returncode == 0
            server.sql("DROP TABLE galaxy.worldkeeper_sentinel, galaxy.worldkeeper_sentinel_lease")
        undone = machine.run("--undo", "galaxy", "--yes")
        assert undone.returncode in (0, 2), undone
        assert accounts(server) == clean
        left = [f for f in machine.files() if f not in files and not f.startswith(("var", "srv"))]
        assert not [f for f in left if f not in ("etc/worldkeeper",)], left
    assert n > 1
    machine.run("--undo", "galaxy", "--yes")


def assert_failed_whole(machine, server, clean, done):
    """Asserts that a failure before the start of the service left nothing active and no temporary file, and that the
    output lists everything that was made."""
    assert done.returncode in (1, 4) and "worldkeeper-setup: " in done.stderr, done
    made = [f for f in machine.files() if f not in clean[1]]
    listed = done.stdout.partition("Done so far")[2]
    new = [account for (account,) in accounts(server) if (account,) not in clean[0]]
    assert not machine.calls() and not [f for f in made if f.endswith(".ini.new") and os.path.isfile(machine.path(f))], done
    for path in made:
        assert machine.path(path) in listed or path.endswith((".setup", ".new")) or path == "etc/worldkeeper", (path, done.stdout)
    assert all(account in listed for account in new), (new, done.stdout)
    assert "a second run continues" in done.stdout or not new, done


@pytest.mark.slow
@pytest.mark.each_server
def test_a_failure_at_each_directory_and_file(galaxy, make_machine, tmp):
    server = galaxy()
    server.sql("SET GLOBAL binlog_row_image=MINIMAL")
    url = os.path.join(tmp, "url")
    with open(url, "w") as f:
        f.write("http://127.0.0.1:9/\n")
    os.chmod(url, 0o600)

    def run(machine, *more):
        return machine.run("--yes", "--status-dir", machine.path("srv/status"), "--webhook-file", url, *more)
    shown = make_machine(server)
    plan = run(shown, "--dry-run")
    assert plan.returncode == 0, plan
    effects = [(kind, os.path.relpath(path, shown.root)) for kind, path in
               re.findall(r"^would (?:make|write) (directory|file) (.*) \(mode", plan.stdout, re.M)]
    assert {"directory", "file"} == {kind for kind, _ in effects} and len(effects) > 6, plan.stdout
    for kind, path in effects:
        machine = make_machine(server)
        os.makedirs(os.path.dirname(machine.path(path)), exist_ok=True)
        clean = accounts(server), machine.files()
        place = machine.path(path) + ("" if kind == "directory" else ".new")
        (open(place, "w").close if kind == "directory" else lambda: os.mkdir(place))()
        done = run(machine)
        (os.unlink if kind == "directory" else os.rmdir)(place)
        assert_failed_whole(machine, server, clean, done)
        assert path in done.stderr, (path, done.stderr)
        undone = machine.run("--undo", "galaxy", "--yes")
        assert undone.returncode in (0, 2), undone
        assert accounts(server) == clean[0]


@pytest.mark.slow
@pytest.mark.each_server
def test_a_failure_at_each_statement(galaxy, make_machine):
    """If the server ends the session before any one of the statements, a second run continues, and --undo removes
    everything."""
    server, failed = galaxy(), 0
    for n in range(1, 100):
        machine = make_machine(server, systemd=False)
        os.makedirs(machine.path("var/lib/worldkeeper"))
        clean = accounts(server), machine.files()
        process = subprocess.Popen(machine.argv("--yes"), env=machine.environment(WORLDKEEPER_FAULT=f"setup.done#{n}=stop"),
                                   cwd=machine.base, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        state = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if state.si_code == os.CLD_STOPPED:
            server.end_sessions(user="root")
            os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
        if done.returncode != 0:
            failed += 1
            assert_failed_whole(machine, server, clean, done)
            assert n % 2 or (done := machine.run("--yes")).returncode == 0, done
        undone = machine.run("--undo", "galaxy", "--yes")
        assert undone.returncode in (0, 2), undone.stdout + undone.stderr
        assert accounts(server) == clean[0]
        if state.si_code != os.CLD_STOPPED:
            break
    assert failed > 2


@pytest.mark.slow
@pytest.mark.each_server
@pytest.mark.parametrize("point", ["dump.renamed", "restore.loaded"])
def test_a_failure_of_a_step_of_the_daemon(galaxy, make_machine, point):
    server = galaxy()
    machine = make_machine(server)
    done = machine.run("--yes", WORLDKEEPER_FAULT=f"{point}=kill")
    assert done.returncode == 1 and "Done so far" in done.stdout, done
    assert not machine.calls(), "the service was started"
    done = machine.run("--yes")
    assert done.returncode == 0 and machine.calls()[-1] == "enable --now worldkeeper@galaxy", done


def test_no_world_no_server_no_root(make_server, make_machine, make_world):
    server = make_server(*LOG)
    machine = make_machine(server)
    done = machine.run("--yes")
    assert done.returncode == 5 and "there is no world to keep" in done.stderr, done
    done = subprocess.run([SETUP, "--socket", "/nowhere", "--root", machine.root, "--service-user", machine.user, "--yes"],
                          env=machine.environment(), text=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and "no session with the server" in done.stderr and "--socket PATH" in done.stderr, done
    make_world("small", server, schema="galaxy")
    done = machine.run("--yes", "--schema", "other")
    assert done.returncode == 2 and "has no MEMORY tables" in done.stderr, done
    if os.geteuid() != 0:
        done = subprocess.run([SETUP, "--yes"], text=True, capture_output=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 4 and "only root can" in done.stderr, done


# -- from the three cron scripts ------------------------------------------------------------------------------


class Scripts:
    """Old scripts that keep worlds with their game's account; cron runs them with the world's name as argument."""

    def __init__(self, machine, *worlds, host="localhost"):
        self.machine, self.worlds = machine, worlds
        self.dir = os.path.join(machine.base, "old")
        os.mkdir(self.dir)
        machine.server.sql(f"CREATE USER keeper@'{host}' IDENTIFIED BY '{CANARY}'",
                           *(f"GRANT SELECT, INSERT, LOCK TABLES ON {w}.* TO keeper@'{host}'" for w in worlds))
        self.write("check.sh", f"FLAG={machine.path('srv')}/$1/index.html\n"
                   f"[ \"$(mysql -ukeeper -p{CANARY} -N -e 'SELECT COUNT(*) FROM up' $1)\" = 1 ] || $(dirname $0)/restore.sh $1\n"
                   "echo UP > $FLAG.new && mv $FLAG.new $FLAG\n")
        self.write("dump.sh", f"mysqldump -ukeeper -p{CANARY} $1 | gzip > {self.dir}/$1.part && mv {self.dir}/$1.part "
                   f"{self.dir}/$1-$(date +%H).sql.gz\n")
        self.crontab("".join(f"* * * * * root {self.dir}/check.sh {w}\n*/15 * * * * root {self.dir}/dump.sh {w}\n" for w in worlds))

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write("#!/bin/bash\n" + text)
        os.chmod(os.path.join(self.dir, name), 0o755)

    def of(self, world):
        """Writes the world's name into the scripts in the place of their argument."""
        for name in ("check.sh", "dump.sh"):
            with open(os.path.join(self.dir, name)) as f:
                self.write(name, f.read().replace("$1", world).partition("\n")[2])
        return self

    def crontab(self, text):
        with open(self.machine.path("etc/crontab"), "w") as f:
            f.write(text)


@pytest.mark.each_server
def test_from_cron(galaxy, make_world, make_machine):
    """--from-cron configures each world of the scripts with its own status directory and starts nothing while cron still
    starts the scripts. Afterwards the command of the refusal continues, and everything can be undone."""
    server = galaxy()
    make_world("small", server, schema="mars")
    machine = make_machine(server)
    old = Scripts(machine, "galaxy", "mars")
    before = machine.files()
    shown = machine.run("--from-cron", old.dir, "--dry-run")
    assert shown.returncode == 0 and f"dir = {machine.path('srv/mars')}" in shown.stdout and machine.files() == before, shown
    done = machine.run("--from-cron", old.dir, "--yes")
    assert done.returncode == 4 and "cron still starts the scripts" in done.stderr and "etc/crontab:1" in done.stderr, done
    assert "--schema galaxy --schema mars" in done.stderr and not machine.calls(), done
    assert CANARY not in done.stdout + done.stderr
    for world in ("galaxy", "mars"):
        config = machine.read(f"etc/worldkeeper/{world}.ini")
        assert f"dir = {machine.path('srv')}/{world}\nflag = index.html" in config and "user = keeper" in config, config
    old.crontab("")
    done = machine.run("--schema", "galaxy", "--yes")  # one only, because both supervisors of this test would use one socket
    assert done.returncode == 0 and machine.calls()[-1] == "enable --now worldkeeper@galaxy", done.stdout + done.stderr
    assert machine.keeper("galaxy", "--status").returncode in (0, 1)
    wait_for(lambda: machine.read("srv/galaxy/index.html") == "UP\n", "the flag")
    for world in ("galaxy", "mars"):
        assert (done := machine.run("--undo", world, "--yes")).returncode == 0, done
        for name in (".ini", ".password"):
            assert not os.path.exists(machine.path(f"etc/worldkeeper/{world}{name}")), done


@pytest.mark.parametrize("line, says", [
    ("* * * * * root cd {dir} && ./check.sh\n", "etc/crontab:1"),
    ("HOME={base}\n* * * * * root ~/old/check.sh\n", "etc/crontab:2"),
    ("* * * * * root /usr/local/bin/wrapper\n", "cannot find a line of cron that starts the scripts"),
])
def test_from_cron_starts_nothing_while_the_scripts_may_run(galaxy, make_machine, line, says):
    """Nothing is started if a line of cron starts the scripts, in any form, or if it is unknown what starts them. The command
    of the refusal keeps what was typed. It also starts nothing while a line of cron starts the scripts, and confirms that
    nothing else does."""
    machine = make_machine(galaxy())
    old = Scripts(machine, "galaxy").of("galaxy")
    old.crontab(line.format(dir=old.dir, base=machine.base))
    done = machine.run("--from-cron", old.dir, "--yes", "--no-server-file")
    assert done.returncode == 4 and not machine.calls() and says in done.stderr, done
    hint = re.search(r"worldkeeper-setup (.*--yes --no-server-file --schema galaxy)$", done.stderr, re.M)
    assert hint and "--from-cron" not in hint[1], done
    if "etc/crontab" in says:
        done = machine.run("--yes", "--no-server-file", "--schema", "galaxy")
        assert done.returncode == 4 and not machine.calls() and says in done.stderr, done
        old.crontab("")
    done = machine.run("--yes", "--no-server-file", "--schema", "galaxy")
    assert done.returncode == 0 and machine.calls()[-1] == "enable --now worldkeeper@galaxy", done


@pytest.mark.parametrize("after", ["refusal", "rerun"])
def test_a_run_after_from_cron_starts_nothing_beside_the_scripts(galaxy, make_machine, after):
    """If --from-cron wrote a config and was then refused, setup says so, a later run without it starts nothing while cron starts
    the scripts, and --undo removes the config. Scripts whose directory was deleted are not started."""
    machine = make_machine(galaxy())
    old = Scripts(machine, "galaxy").of("galaxy")
    old.write("check.sh", f"FLAG={machine.path('home/www')}/index.html\nmysql -ukeeper -p{CANARY} -N -e 'SELECT 1' galaxy\n"
              "echo UP > $FLAG\n")
    old.crontab(f"* * * * * root {old.dir}/check.sh\n")
    done = machine.run("--from-cron", os.path.relpath(old.dir, machine.base), "--yes")
    assert done.returncode == 4 and "the service cannot reach it (ProtectHome=yes)" in done.stderr, done
    assert "Nothing was changed" not in done.stdout and "The config of world galaxy was written" in done.stdout, done
    if after == "rerun":
        done = machine.run("--from-cron", old.dir, "--yes")
        assert done.returncode == 1 and "HINT: where a config is there already: remove the lines of cron" in done.stderr, done
    config = machine.read(CONFIG)
    with open(machine.path(CONFIG), "w") as f:
        f.write(config.replace("home/www", "srv/www"))
    done = machine.run("--yes")
    assert done.returncode == 4 and "cron still starts the scripts" in done.stderr and not machine.calls(), done
    if after == "rerun":
        shutil.rmtree(old.dir)
        assert (done := machine.run("--yes")).returncode == 0, done
        return
    with open(machine.path(CONFIG), "w") as f:
        f.write(config)
    assert (done := machine.run("--undo", "galaxy", "--yes")).returncode == 0, done
    assert not [f for f in machine.files() if re.search(r"galaxy\.(ini|password|setup)$", f)], machine.files()


@pytest.mark.each_server
def test_from_cron_with_an_account_of_every_host(galaxy, make_machine):
    """The account of a config is the one as which the server accepts its login. No account is made that would take the sessions
    of the game, which uses the same one."""
    server = galaxy()
    machine = make_machine(server)
    old = Scripts(machine, "galaxy", host="%")
    server.sql("GRANT DELETE ON galaxy.* TO keeper@'%'")
    before = accounts(server)
    done = machine.run("--from-cron", old.dir, "--yes")
    assert done.returncode == 4 and "cron still starts the scripts" in done.stderr, done
    assert accounts(server) == before and "Account keeper@%, with a password in a file, exists." in done.stdout, done
    with contextlib.closing(session_of(server, "keeper")) as game, game.cursor() as c:
        c.execute("DELETE FROM player LIMIT 1")
        c.execute("SELECT CURRENT_USER()")
        assert c.fetchone() == ("keeper@%",)


def test_from_cron_without_scripts(galaxy, make_machine):
    machine = make_machine(galaxy())
    done = machine.run("--from-cron", machine.base, "--yes")
    assert done.returncode == 1 and "no shell scripts" in done.stderr and not machine.calls(), done
    done = machine.run("--from-cron", machine.base, "--schema", "galaxy")
    assert done.returncode == 2 and "--from-cron finds the schemas" in done.stderr, done
    for options in (["--mail", "a@example.net"], ["--smtp", "smtp://mail.example"], ["--status-dir", "/srv/s"], ["--page"],
                    ["--webhook-file", "/x"], ["--webhook-format", "slack"]):
        done = machine.run("--from-cron", machine.base, "--yes", *options)
        assert done.returncode == 2 and f"no {options[0]} with it" in done.stderr and not done.stdout, done
