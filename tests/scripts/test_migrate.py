"""Tests of scripts/migrate.sh: what it reads from old scripts, what it prints, and what it never does."""
import configparser
import gzip
import os
import shutil
import stat
import subprocess
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MIGRATE = os.path.join(ROOT, "scripts/migrate.sh")
OLD = os.path.join(ROOT, "tests/old-scripts")
CANARY = "CANARY-9b1d"
BINARY = os.environ.get("WORLDKEEPER", os.path.join(ROOT, "build/release/worldkeeper"))


class Migration:
    """A directory of old scripts and the directory of the new config."""

    def __init__(self, base):
        self.old = os.path.join(base, "old")
        self.to = os.path.join(base, "etc")
        self.home = os.path.join(base, "home")
        os.mkdir(self.old)
        os.mkdir(self.home)

    def write(self, name, text, mode=0o755):
        path = os.path.join(self.old, name)
        with open(path, "w") as f:
            f.write(text.lstrip("\n"))
        os.chmod(path, mode)
        return path

    def run(self, *args, rc=0):
        done = subprocess.run([MIGRATE, "--to", self.to, "--crontab", "/dev/null", *args, self.old],
                              capture_output=True, text=True, timeout=180)
        assert CANARY not in done.stdout + done.stderr, "a password was printed"
        assert done.returncode == rc, done.stdout + done.stderr
        return done.stdout + done.stderr

    def config(self, name="galaxy"):
        ini = configparser.ConfigParser(interpolation=None)
        with open(os.path.join(self.to, name + ".ini")) as f:
            ini.read_file(f)
        return {s: dict(ini[s]) for s in ini.sections()}

    def password(self, name="galaxy"):
        with open(os.path.join(self.to, name + ".password")) as f:
            return f.read()

    def snapshot(self):
        seen = {}
        for root, _, files in os.walk(self.old):
            for f in files:
                path = os.path.join(root, f)
                with open(path, "rb") as h:
                    seen[path] = (h.read(), os.stat(path).st_mtime_ns, os.stat(path).st_mode)
        return seen


@pytest.fixture
def m(tmp_path):
    return Migration(str(tmp_path))


def minimal(m, dump, extra=""):
    m.write("dump.sh", "#!/bin/bash\n" + extra + dump + "\n")


def test_the_three_scripts(m):
    shutil.rmtree(m.old)
    shutil.copytree(OLD, m.old)
    settings = os.path.join(m.old, "settings.sh")
    with open(settings) as f:
        text = f.read()
    with open(settings, "w") as f:
        f.write(text.replace("old secret", CANARY + " $x \"y\""))
    before = m.snapshot()
    said = m.run()
    assert m.snapshot() == before, "the old scripts were changed"
    assert m.config() == {
        "world": {"name": "galaxy", "schema": "galaxy"},
        "mysql": {"socket": "/run/mysqld/mysqld.sock", "user": "keeper",
                  "password_file": m.to + "/galaxy.password"},
        "dump": {"dir": "/var/lib/worldkeeper/galaxy", "interval": "15m", "level": "1"},
        "retention": {"keep_daily": "7"},
        "status": {"dir": "/var/www/status", "flag": "index.html"},
        "alert.smtp": {"url": "smtp://localhost:25", "from": m.config()["alert.smtp"]["from"],
                       "to": "admin@example.com", "starttls": "off"},
    }
    assert m.password() == CANARY + ' $x "y"\n'
    for path in (m.to + "/galaxy.ini", m.to + "/galaxy.password"):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for words in ("settings.sh", "sentinel up_sentinel", "old dumps in /home/game/keeper/dumps",
                  "--net_buffer_length: not needed", "a limit of its time"):
        assert words in said or words == "settings.sh", said


def test_every_line_of_the_report_names_its_place(m):
    shutil.rmtree(m.old)
    shutil.copytree(OLD, m.old)
    said = m.run()
    assert "dump.sh:5" in said and "compression 1" in said
    assert "restore.sh:8" in said and "mail to admin@example.com" in said
    assert "check.sh:26" in said and "each 15 minutes" in said


def test_password_on_the_command_line(m):
    minimal(m, f"mysqldump -ugame -p'{CANARY}' -h db.example.com -P3307 stars | gzip -6 > /b/s.gz")
    m.run()
    config = m.config("stars")
    assert config["mysql"]["host"] == "db.example.com" and config["mysql"]["port"] == "3307"
    assert config["mysql"]["user"] == "game" and config["dump"]["level"] == "6"
    assert m.password("stars") == CANARY + "\n"


@pytest.mark.parametrize("words, mysql", [
    ("-P3307", {"host": "127.0.0.1", "port": "3307"}),
    ("--protocol=tcp -h localhost --port=3307", {"host": "127.0.0.1", "port": "3307"}),
    ("-P3306", {"socket": "/run/mysqld/mysqld.sock"}),
    ("-P3307 -S /run/my.sock", {"socket": "/run/my.sock"}),
])
def test_a_port_without_a_host(m, words, mysql):
    """A port is not lost if the scripts name no host, or localhost: the server of that port is not the one of the usual
    socket."""
    minimal(m, f"mysqldump -ugame -p{CANARY} {words} galaxy > /b/x")
    said = m.run()
    found = m.config()["mysql"]
    assert {k: found[k] for k in ("host", "port", "socket") if k in found} == mysql
    assert ("127.0.0.1 is taken" in said) == ("host" in mysql), said


@pytest.mark.parametrize("words", [
    f'--user=game --password={CANARY}',
    f'--user=game --password="{CANARY}"',
    f'-u game "-p{CANARY}"',
    f"-ugame -p\\C{CANARY[1:]}",
    '-u"$U" -p"${P}"',
    "-u$U -p$P",
    "-u${U:-nobody} -p${P:-nothing}",
    "-u${NONE:-game} -p$P",
    '-u"$U" -p"$(cat $F)"',
    '-u"$U" -p`cat $F`',
    '-u"$U" -p$(<$F)',
    '-u"$U" \\\n    -p"$P" \\\n   ',
])
def test_ways_to_write_an_account(m, words, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(CANARY + "\n")
    minimal(m, f"mysqldump {words} galaxy | gzip > /b/x.gz",
            f"U=game\nexport P='{CANARY}'\nF={secret}\n")
    m.run()
    assert m.config()["mysql"]["user"] == "game"
    assert m.password() == CANARY + "\n"


def test_mysql_pwd(m):
    minimal(m, f"MYSQL_PWD={CANARY} mysqldump -u game galaxy | gzip > /b/x.gz")
    m.run()
    assert m.password() == CANARY + "\n"


@pytest.mark.parametrize("line", [
    "user=game\npassword=" + CANARY,
    "  user = game  \npassword = \"" + CANARY + "\"",
    "# a comment\nuser=game\npassword='" + CANARY + "'\n[mysqld]\nuser=mysql\npassword=no",
])
def test_my_cnf(m, tmp_path, line):
    cnf = tmp_path / ".my.cnf"
    cnf.write_text(f"[client]\n{line}\n\n[mysqld]\nport=1\n")
    minimal(m, "mysqldump galaxy | gzip > /b/x.gz")
    m.run("--my-cnf", str(cnf))
    assert m.config()["mysql"]["user"] == "game"
    assert "port" not in m.config()["mysql"]
    assert m.password() == CANARY + "\n"


@pytest.mark.parametrize("line, password", [
    ('password = "' + CANARY + '\\"w d"  # a note', CANARY + '"w d'),
    ("password='" + CANARY + "#y'", CANARY + "#y"),
    ("password=" + CANARY + " # a note", CANARY),
    ("password=" + CANARY + "\\sx\\\\y\\q", CANARY + " x\\y\\q"),
    ('password="' + CANARY + "'\"", CANARY + "'"),
])
def test_values_of_an_option_file_are_read_as_the_client_reads_them(m, tmp_path, line, password):
    """Quotes, escapes and comments after a value are read as my_print_defaults reads them."""
    cnf = tmp_path / ".my.cnf"
    cnf.write_text(f"[client]\nuser=game # who\n{line}\n")
    judge = shutil.which("my_print_defaults")
    if judge:
        told = subprocess.run([judge, f"--defaults-file={cnf}", "client"], capture_output=True, text=True,
                              check=True).stdout
        assert told == f"--user=game\n--password={password}\n"
    minimal(m, "mysqldump galaxy | gzip > /b/x.gz")
    m.run("--my-cnf", str(cnf))
    assert m.config()["mysql"]["user"] == "game"
    assert m.password() == password + "\n"


def test_a_pipeline_over_lines_is_one(m):
    minimal(m, f"""
mysqldump -ugame -p{CANARY} --routines galaxy -- |  
    nice -n 19 gzip -6 > /backup/uni/x.gz.tmp
""")
    said = m.run()
    assert m.config()["dump"]["level"] == "6"
    assert "old dumps in /backup/uni" in said and "no such setting" not in said, said


def test_what_it_says_to_type_next_root_can_type(m):
    minimal(m, f"mysqldump -ugame -p{CANARY} galaxy > /b/x")
    said = m.run()
    assert "install -d -m 0700 -o worldkeeper -g worldkeeper /var/lib/worldkeeper/galaxy" in said
    assert said.count("runuser -u worldkeeper -- worldkeeper --config") == 2


def test_defaults_file_named_by_the_scripts(m, tmp_path):
    cnf = m.write("db.cnf", f"[client]\nuser=game\npassword={CANARY}\nsocket=/srv/db.sock\n", 0o600)
    minimal(m, 'mysqldump --defaults-extra-file="$D/db.cnf" galaxy | gzip > /b/x.gz',
            'D="$(cd "$(dirname "$0")" && pwd)"\n')
    m.run()
    assert os.path.exists(cnf)
    assert m.config()["mysql"]["socket"] == "/srv/db.sock"
    assert m.password() == CANARY + "\n"


def test_probe_in_backticks_and_flag_words(m):
    m.write("probe", f"""
#!/bin/sh
if [ `echo 'select v from alive limit 1' | mysql -s -N -ugame -p{CANARY} galaxy` != 1 ]; then
    printf 'RESTORING\\n' > /srv/www/flag.txt
fi
""")
    said = m.run()
    assert "sentinel alive" in said
    assert m.config()["status"] == {"dir": "/srv/www", "flag": "flag.txt"}


def test_sentinel_keeps_its_case(m):
    minimal(m, f'mysql -ugame -p{CANARY} -e "SELECT 1 FROM Galaxy.Up_Sentinel" galaxy')
    assert "sentinel Up_Sentinel" in m.run()


def test_here_text_is_no_command(m):
    minimal(m, f"mysql -ugame -p{CANARY} galaxy <<EOS\nmysqldump -uwrong other > /x/y\nEOS\ntrue")
    m.run()
    assert m.config()["world"]["schema"] == "galaxy"
    assert m.config()["mysql"]["user"] == "game"


def test_things_that_cannot_be_carried_over_are_named(m):
    minimal(m, f"""
mysqldump -ugame -p{CANARY} --ignore-table=galaxy.log --where='id>1' galaxy planets fleets | gzip > /b/x.gz
scp /b/x.gz backup:/b
curl -s https://hooks.example.com/x
frobnicate --hard
mail -s up root < /dev/null
""")
    said = m.run()
    for words in ("--ignore-table", "tables planets fleets", "scp:", "curl:", "frobnicate:",
                  "mail to root: an address with a host is needed", "no flag file found"):
        assert words in said, words


def test_two_accounts_are_told(m):
    m.write("dump.sh", f"#!/bin/sh\nmysqldump -ugame -p{CANARY} galaxy > /b/x\n")
    m.write("restore.sh", f"#!/bin/sh\nmysql -uroot -p{CANARY} galaxy < /b/x\n")
    assert "account root: differs from dump.sh:2" in m.run()


@pytest.mark.parametrize("line", ["{}/dump.sh {}", "MYSQL_PWD={1} {0}/dump.sh", "{}/dump.sh -p{}x"])
def test_cron_lines_are_named_without_their_secrets(m, tmp_path, line):
    """Cron lines are shown without their passwords, also one that occurs nowhere else."""
    minimal(m, "mysqldump -ugame galaxy > /b/x")
    cron = tmp_path / "cron"
    cron.write_text(f"# {m.old}/off.sh\n*/10 * * * * root {line.format(m.old, CANARY)} >/dev/null 2>&1\n"
                    "5 * * * * root other\n")
    said = m.run("--crontab", str(cron))
    assert f"{cron}:2" in said and "remove this line, which starts dump.sh\n" in said
    assert f"{cron}:1 " not in said and f"{cron}:3" not in said
    assert m.config()["dump"]["interval"] == "10m"


def test_never_overwrites(m):
    minimal(m, f"mysqldump -ugame -p{CANARY} galaxy > /b/x")
    os.mkdir(m.to)
    for name in ("galaxy.ini", "galaxy.password"):
        path = os.path.join(m.to, name)
        with open(path, "w") as f:
            f.write("mine")
        said = m.run(rc=1)
        assert "is there already; nothing written" in said
        assert os.listdir(m.to) == [name]
        with open(path) as f:
            assert f.read() == "mine"
        os.unlink(path)
    os.symlink("/nowhere", os.path.join(m.to, "galaxy.ini"))
    assert "is there already" in m.run(rc=1)


def test_dry_run_writes_nothing(m):
    minimal(m, f"mysqldump -ugame -p{CANARY} galaxy > /b/x")
    said = m.run("--dry-run")
    assert "schema = galaxy" in said
    assert not os.path.exists(m.to)


@pytest.mark.parametrize("schema,name", [("Game_World", "game_world"), ("mmo.s8", "mmo-s8"),
                                         ("_x", "x")])
def test_name_of_the_world(m, schema, name):
    minimal(m, f"mysqldump -ugame -p{CANARY} '{schema}' > /b/x")
    m.run()
    assert m.config(name)["world"] == {"name": name, "schema": schema}


def test_refuses_what_is_not_the_scripts(m):
    assert "no shell scripts" in m.run(rc=1)
    m.write("x.sh", "#!/bin/sh\necho hello\n")
    assert "are these the scripts?" in m.run(rc=1)


def test_nothing_is_run(m, tmp_path):
    trap = tmp_path / "ran"
    minimal(m, f"mysqldump -ugame -p{CANARY} galaxy > /b/x",
            f"X=$(touch {trap})\nY=`touch {trap}`\ntouch {trap}\n. <(touch {trap})\n")
    m.run()
    assert not trap.exists()


def test_odd_text_ends(m):
    minimal(m, f"mysqldump -ugame -p{CANARY} galaxy > /b/x",
            "A='open\nB=\"$(\nC=${\nD=$((\nE=`\n" * 3 + "\x00\n$\n\\\n")
    done = subprocess.run([MIGRATE, "--to", m.to, "--crontab", "/dev/null", m.old],
                          capture_output=True, text=True, timeout=180)
    assert done.returncode in (0, 1)
    assert CANARY not in done.stdout + done.stderr


def test_worldkeeper_takes_the_config(m):
    """worldkeeper accepts the config: the exit status is not 2, although the server does not exist."""
    shutil.rmtree(m.old)
    shutil.copytree(OLD, m.old)
    dumps = os.path.join(m.to, "dumps")
    m.run("--dumps", dumps)
    done = subprocess.run([BINARY, "--config", m.to + "/galaxy.ini", "--allow-root", "--list"],
                          capture_output=True, text=True, timeout=180)
    assert done.returncode != 2, done.stderr


# -- one script for several worlds, started with prefix and password -------------------------------

SMS = """
#!/bin/bash
# sms - save my server: ./sms PREFIX PASSWORD
[ $# -eq 2 ] || exit 1
BASE=/home/web2
DB=${1}_game
m=`date +%M`
up=`php -q $0.php $1 $2`
if [ "$up" != "1" ]; then
    echo RESTORING > $BASE/html/$1/index.html
    zcat `ls -t OLD/$1-*.sql.gz | head -1` | mysql -u$1_user -p$2 $DB
    echo "world $1 restored" | mail -s "sms $1" admin@example.com
fi
echo UP > $BASE/html/$1/index.html
if [ `expr $m % 20` -eq 0 ]; then
    mysqldump --opt -u${1}_user -p"$2" $DB | gzip --fast > OLD/$1-`date +%d-%H`.sql.gz
fi
"""
PROBE = """<?php
// up.php prefix password
$db = $argv[1] . '_game';
$c = @mysql_connect("127.0.0.1", "{$argv[1]}_user", $argv[2]);
if (!$c) { echo 0; exit; }
mysql_select_db($db, $c);
$r = mysql_query("SELECT up FROM {$argv[1]}_alive LIMIT 1", $c);
echo mysql_num_rows($r) ? 1 : 0;
"""
WHOLE = "CREATE TABLE x (a int);\nINSERT INTO x VALUES (1);\n-- Dump completed on 2026-11-20 10:00:00\n"


@pytest.fixture
def sms(m, tmp_path):
    """Returns two worlds, their crontab, and old dumps of the first, whose newest is truncated."""
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for name, text, age in (("s8-01-10.sql.gz", "too old", 300), ("s8-02-10.sql.gz", WHOLE, 200),
                            ("s8-02-11.sql.gz", WHOLE[:40], 100), ("s9-02-11.sql.gz", WHOLE, 50)):
        with gzip.open(dumps / name, "wt") as f:
            f.write(text)
        at = time.time() - age
        os.utime(dumps / name, (at, at))
    m.write("sms", SMS.replace("OLD", str(dumps)))
    m.write("sms.php", PROBE)
    m.cron = tmp_path / "cron"
    m.cron.write_text("MAILTO=root\n" + "".join(
        f"* * * * * {m.old}/sms {world} {CANARY}{world} >/dev/null 2>&1\n" for world in ("s8", "s9")))
    m.dumps = dumps
    return m


def test_several_worlds_from_one_script(sms, tmp_path):
    """Prefix and password come from the crontab; each world gets a config, a password and its newest complete dump."""
    said = sms.run("--crontab", str(sms.cron), "--dumps", str(tmp_path / "new"))
    for world in ("s8", "s9"):
        config = sms.config(world + "_game")
        assert config["world"] == {"name": world + "_game", "schema": world + "_game"}
        assert config["mysql"]["user"] == world + "_user" and config["mysql"]["host"] == "127.0.0.1"
        assert config["dump"] == {"dir": str(tmp_path / "new" / (world + "_game")), "interval": "20m", "level": "1"}
        assert config["status"] == {"dir": "/home/web2/html/" + world, "flag": "index.html"}
        assert config["alert.smtp"]["to"] == "admin@example.com"
        assert sms.password(world + "_game") == CANARY + world + "\n"
        assert f"sentinel {world}_alive" in said
    imported = [str(p) for p in (tmp_path / "new").rglob("*.gz")]
    assert sorted(os.path.basename(p) for p in imported) == ["s8-02-10.sql.gz", "s9-02-11.sql.gz"]
    for path in imported:
        with gzip.open(path, "rt") as f:
            assert f.read() == WHOLE
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and f"--restore={path}" in said
        assert stat.S_IMODE(os.stat(os.path.dirname(os.path.dirname(path))).st_mode) == 0o700
    assert "s8-02-11.sql.gz" in said and "not whole" in said
    assert f"{sms.cron}:2" in said and f"{sms.cron}:3" in said


PDO_CONFIG = """<?php
// what the game itself reads, too
define('DB_USER', 'galaxy_web');
define("DB_PASS", 'CANARY(2);x');
const DB_NAME = 'galaxy';
$dbHost = '127.0.0.1';
"""
PDO_PROBE = """<?php
require_once __DIR__ . '/inc/config.php';
try {
    $db = new PDO(
        "mysql:host=$dbHost; port=3307;dbname=" . DB_NAME . ";charset=utf8mb4",
        DB_USER,
        DB_PASS,
        [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_TIMEOUT => 2]
    );
    $row = $db->query('SELECT v FROM `alive` LIMIT 1')->fetch(PDO::FETCH_NUM);
    exit($row ? 0 : 1);
} catch (PDOException $e) {
    exit(2);
}
"""
PDO_USES = [  # other forms, and what is found
    ("$dsn = 'mysql:unix_socket=/run/my.sock;dbname=galaxy';\n$db = new \\PDO($dsn, 'game', 'CANARY');",
     {"socket": "/run/my.sock", "user": "game"}),
    ("return new PDO('mysql:dbname=galaxy;host=localhost', \"game\", \"CANARY\", array(PDO::ATTR_PERSISTENT => true));",
     {"socket": "/run/mysqld/mysqld.sock", "user": "game"}),
    ("$db = new mysqli(\n    '10.0.0.5',\n    'game',\n    'CANARY',\n    'galaxy');", {"host": "10.0.0.5", "user": "game"}),
]


def test_probe_by_pdo(m):
    """A PDO probe is understood: its DSN, its account from constants of an included file, and arguments on several lines."""
    os.mkdir(os.path.join(m.old, "inc"))
    m.write("inc/config.php", PDO_CONFIG.replace("CANARY", CANARY))
    m.write("alive.php", PDO_PROBE)
    m.write("check.sh", "#!/bin/sh\nphp -f alive.php || mysql -e 'SHOW STATUS'\n")
    said = m.run()
    mysql = m.config()["mysql"]
    assert (mysql["host"], mysql["port"], mysql["user"]) == ("127.0.0.1", "3307", "galaxy_web")
    assert m.password() == CANARY + "(2);x\n" and "sentinel alive" in said and "PDO" not in said


@pytest.mark.parametrize("text, found", PDO_USES)
def test_connections_of_php(m, text, found):
    m.write("alive.php", "<?php\n" + text.replace("CANARY", CANARY) + "\n")
    m.write("check.sh", "#!/bin/sh\nphp alive.php\n")
    m.run()
    mysql = m.config()["mysql"]
    assert {k: mysql.get(k) for k in found} == found and m.password() == CANARY + "\n"


def test_a_dsn_that_is_not_understood(m):
    """A DSN that is not understood is asked for by the options that name it, and is not guessed."""
    m.write("alive.php", "<?php\n$db = new PDO(getenv('DSN'), 'game', '" + CANARY + "');\n")
    m.write("check.sh", "#!/bin/sh\nphp alive.php\n")
    assert "--schema" in m.run(rc=1)
    assert "PDO: its DSN" in m.run("--schema", "galaxy") and m.config()["world"]["schema"] == "galaxy"


def test_nothing_of_the_old_changes_hands(sms, tmp_path):
    """An existing directory keeps its mode, a dump of another schema is not used, and old dumps are not mixed with new ones."""
    with gzip.open(sms.dumps / "s8-02-12.sql.gz", "wt") as f:
        f.write("-- MySQL dump 10.13\n--\n-- Host: localhost    Database: forum\n-- ----\n" + WHOLE)
    there = tmp_path / "new" / "s8_game"
    there.mkdir(parents=True, mode=0o755)
    said = sms.run("--crontab", str(sms.cron), "--dumps", str(tmp_path / "new"))
    assert "s8-02-12.sql.gz" in said and "an old dump of forum" in said
    assert (there / "imported" / "s8-02-10.sql.gz").exists() and stat.S_IMODE(os.stat(there).st_mode) == 0o755
    assert f"{there} is there already" in said and f"install -d -m 0700 -o worldkeeper -g worldkeeper {there}\n" not in said
    assert "--old-dumps is for one world" in sms.run("--crontab", str(sms.cron), "--old-dumps", str(sms.dumps), rc=1)
    minimal(sms, f"mysqldump -u a galaxy > {sms.dumps}/x.sql")
    shutil.rmtree(sms.to)
    os.unlink(os.path.join(sms.old, "sms"))
    assert "is where the old dumps are" in sms.run("--dumps", str(sms.dumps), rc=1)


def test_one_of_several_worlds_fails_alone(sms, tmp_path):
    """An existing config is not changed, and the other world's is written."""
    os.mkdir(sms.to)
    with open(os.path.join(sms.to, "s8_game.ini"), "w") as f:
        f.write("mine")
    said = sms.run("--crontab", str(sms.cron), "--dumps", str(tmp_path / "new"), rc=1)
    assert "is there already; nothing written" in said and sms.config("s9_game")["mysql"]["user"] == "s9_user"
    assert "--name is for one world" in sms.run("--crontab", str(sms.cron), "--name", "x", rc=1)


def test_what_is_not_understood_is_asked_for(m):
    """What is not understood is asked for by name with its option, which is then used."""
    m.write("sms", "#!/bin/sh\nmysqldump -u$1 -p$2 $(cat /nowhere) > /b/x.sql\n")
    said = m.run(rc=1)
    assert "the schema (--schema NAME)" in said and "the account (--user NAME)" in said
    said = m.run("--schema", "galaxy", "--user", "game", "--flag", "/srv/www/flag", "--interval", "30m")
    config = m.config()
    assert config["world"]["schema"] == "galaxy" and config["mysql"]["user"] == "game"
    assert config["dump"]["interval"] == "30m" and config["status"] == {"dir": "/srv/www", "flag": "flag"}


@pytest.mark.parametrize("write", [
    'echo UP > $FLAG.tmp && mv $FLAG.tmp $FLAG',
    'T=$(mktemp); echo "UP" >"$T"; chmod 644 "$T"; mv -f "$T" "$FLAG"',
    'printf "UP\\n" > /tmp/up.$$\nmv /tmp/up.$$ /var/www/status/up.html',
    'cd /var/www/status; echo UP > up.new; mv up.new /var/www/status/up.html',
    'echo UP > /var/www/status.new/up.html; mv /var/www/status.new/up.html /var/www/status/',
])
def test_a_flag_by_way_of_a_temporary_file(m, write):
    """The flag's final path is found, also through a temporary file; a dump written in this way is not taken for a flag."""
    minimal(m, f"FLAG=/var/www/status/up.html\n{write}\nD=$(mktemp)\n"
            "mysqldump -ugame -px galaxy | gzip > $D\nmv $D /backup/galaxy-$(date +%H).sql.gz", "")
    said = m.run()
    assert m.config()["status"] == {"dir": "/var/www/status", "flag": "up.html"}, said
    assert "old dumps in /backup:" in said and "dumps: not understood" not in said, said


@pytest.mark.parametrize("log", ["echo RESTORING >> {}", "echo UP | tee -a {}", "echo WAITING | tee --append {} >/dev/null"])
def test_a_log_is_no_flag(m, log):
    """A file that a flag's word is appended to is a log: worldkeeper would replace it by its flag file."""
    minimal(m, f"{log.format('/var/log/keeper.log')}\necho UP > /var/www/status/up.html\nmysqldump -ugame -px galaxy > /b/x")
    said = m.run()
    assert m.config()["status"] == {"dir": "/var/www/status", "flag": "up.html"}, said


def test_worlds_that_share_a_status_directory(m, tmp_path):
    """Worlds with one status directory get separate ones, and each report names its world although arguments are masked."""
    m.write("dump.sh", '#!/bin/sh\nmysqldump -u$1 -p$2 $1 | gzip > /b/$1.gz\necho UP > /var/www/status/$1.html\n')
    crontab = tmp_path / "crontab"
    crontab.write_text("".join(f"*/15 * * * * root {m.old}/dump.sh {w} {CANARY}{w}\n" for w in ("mars", "venus")))
    said = m.run("--crontab", str(crontab))
    assert m.config("mars")["status"] == {"dir": "/var/www/status", "flag": "mars.html"}
    assert m.config("venus")["status"] == {"dir": "/var/www/status/venus", "flag": "venus.html"}
    assert "World mars, of schema mars:" in said and "World venus, of schema venus:" in said, said
    assert "this one's is in /var/www/status/venus" in said
    assert CANARY not in said


def test_cron_lines_alone(m, tmp_path):
    minimal(m, "mysqldump -ugame -px galaxy > /b/x.sql")
    crontab = tmp_path / "crontab"
    crontab.write_text(f"# nothing\n*/15 * * * * root {m.old}/dump.sh\n")
    assert m.run("--crontab", str(crontab), "--cron-lines") == f"{crontab}:2\n"
    assert not os.path.exists(m.to)


@pytest.mark.parametrize("line", [
    "* * * * * root cd {old} && ./dump.sh mars",
    "* * * * * cd {old}; sh dump.sh mars >/dev/null 2>&1",
    "* * * * * root cd {base} && cd old && if ./dump.sh mars; then true; fi",
    "@reboot root {old}//dump.sh mars",
    "* * * * * root {link}/dump.sh mars",
    "* * * * * root {script_link} mars",
    "* * * * * root flock -n {old}/lock {old}/dump.sh mars",
    "* * * * * root [ -x {old}/dump.sh ] && {old}/dump.sh mars",
    "* * * * * root if test -x {old}/dump.sh; then cd {old} && ./dump.sh mars; fi",
    "* * * * * root cd {old} && ./dump.sh mars test",
    "* * * * * root bash -lc 'cd {old} && ./dump.sh mars'",
    "HOME={base}\n  * * * * * root $HOME/old/dump.sh mars",
    "HOME = \"{base}\"\n* * * * * root ~/old/dump.sh mars",
    "HOME={base}\n* * * * * root old/dump.sh mars",
    "HOME={base}\n* * * * * root cd && cd old && ./dump.sh mars",
    "SCRIPTS={old}\n* * * * * root ${{SCRIPTS}}/dump.sh mars",
    "* * * * * root (cd {old} && (echo 'it'; ./dump.sh mars))",
])
def test_a_cron_line_starts_the_scripts_in_any_form(m, tmp_path, line):
    """A line counts if it starts a script by a relative path, a link, or a variable, and its arguments are used."""
    minimal(m, f"mysqldump -ugame -p{CANARY} $1 > /b/$1.sql")
    m.write("lock", "")
    link, script_link = tmp_path / "link", tmp_path / "keeper"
    link.symlink_to(m.old)
    script_link.symlink_to(os.path.join(m.old, "dump.sh"))
    crontab = tmp_path / "crontab"
    crontab.write_text("MAILTO=root\n" + line.format(old=m.old, base=tmp_path, link=link, script_link=script_link) + "\n")
    assert m.run("--crontab", str(crontab), "--cron-lines") == f"{crontab}:{2 + line.count(chr(10))}\n"
    said = m.run("--crontab", str(crontab))
    assert m.config("mars")["world"]["schema"] == "mars" and "which starts dump.sh" in said, said


@pytest.mark.parametrize("line", ["  # * * * * * root {old}/dump.sh", "SCRIPTS={old}/", "* * * * * root cd {old} && ls",
                                  "* * * * * root /elsewhere/dump.sh", "* * * * * root echo dump.sh"])
def test_a_cron_line_that_starts_none_of_the_scripts(m, tmp_path, line):
    minimal(m, "mysqldump -ugame -px galaxy > /b/x.sql")
    crontab = tmp_path / "crontab"
    crontab.write_text(line.format(old=m.old) + "\n")
    assert m.run("--crontab", str(crontab), "--cron-lines") == ""
