"""The contenders, and one round of the benchmark."""
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time

import pymysql
from wk.server import MYSQL, as_mysql
from wk.util import CANARY, end_process, wait_for

import world
from measure import DUMPER, LOG_OPTIONS, LOGGED, PLAIN, Failed, own, size_of, tool

OLD_SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../old-scripts")
HANG = 60  # seconds after which mydumper is stopped, times the size of a larger world

# {name in bench.json: displayed name}
TITLES = {
    "nobody": "nobody dumps",
    "old": "mysqldump | gzip --fast",
    "today": "mysqldump, defaults | pigz -1",
    "mydumper": "mydumper, 2 threads",
    "copy": "worldkeeper, copy",
    "lock": "worldkeeper, lock",
    "fuzzy": "worldkeeper, fuzzy",
    "read1": "limit: SELECT, rows thrown away",
    "read2": "the same on 2 connections",
    "myloader": "myloader, 2 threads",
    "worldkeeper": "worldkeeper",
    "local": "worldkeeper, local_infile=ON",
    "insert": "limit: INSERT ... SELECT inside",
}
# By default it writes for another server, which would get the GTIDs and no binary log of the restore.
MYSQLDUMP = ["mysqldump", *(["--set-gtid-purged=OFF"] if MYSQL else [])]
METHODS = ("fuzzy", "copy", "lock")
OURS = ("worldkeeper", "local")
RESTORE_TITLES = {**TITLES, "old": "gunzip | mysql", "today": "pigz -d | mysql"}

CONFIG = """[world]
name = {name}
schema = {schema}
[mysql]
socket = {socket}
user = keeper
password_file = {base}/password
[dump]
dir = {base}/dumps
interval = 1d
method = {method}
[status]
dir = {base}/status
[control]
dir = {base}/run
[journal]
{journal}
"""

OLD_SETTINGS = """BASE={base}
DB={schema}
DBUSER=keeper
DBPASS={password}
SOCKET={socket}
SENTINEL=up_sentinel
FLAG={base}/flag
DUMPS={base}/dumps
ADMIN=admin@example.com
"""


# Kept fields of worldkeeper's own result; the others name files and servers.
KEPT = ("seconds", "method", "rows", "connections", "load", "conflict_rows")


def answer(path):
    with open(path) as f:
        return json.load(f)


def kept(result):
    return {key: result[key] for key in KEPT if key in result}


class Contest:
    """One world and all contenders that dump and restore it. `few`: only those of the growth figures."""

    def __init__(self, lab, w, few, crowd, say):
        self.lab, self.w, self.crowd, self.say = lab, w, crowd, say
        self.base = os.path.join(lab.base, "contest")
        self.dir("", "dumps", "status", "run", "other")
        w.server.account("keeper", [world.SCHEMA])
        w.server.sql(f"CREATE USER {DUMPER}@localhost", f"GRANT ALL ON *.* TO {DUMPER}@localhost")
        self.write("password", CANARY + "\n")
        for method in METHODS:
            self.configure(method, method=method)
        self.client = ["--socket=" + w.server.socket, "--user=root"]
        self.loader = ["--socket", w.server.socket, "--user", DUMPER, "--threads", "2"]
        self.dumpers = ["nobody", "old", "today", "mydumper", *METHODS, "read1", "read2"]
        # MySQL allows LOAD DATA LOCAL only if it is enabled; MariaDB allows it by default.
        self.loaders = ["old", "today", "myloader", "worldkeeper", *(["local"] if MYSQL else []), "insert"]
        if few:
            self.dumpers = [d for d in self.dumpers if d not in ("nobody", "today", "lock", "read2")]
            self.loaders.remove("today")
        self.logs = [LOGGED] if few else [LOGGED, PLAIN]
        self.quiet, self.quiet_walls, self.absent = {}, {}, []
        if not shutil.which("mydumper"):
            self.leave_out(("mydumper", "myloader"), "not installed (Debian 13 has no such package)")

    # -- files of the commands' user ----------------------------------------------------------

    def dir(self, *names):
        for name in names:
            path = os.path.join(self.base, name)
            os.makedirs(path, exist_ok=True)
            own(path, 0o700)

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.base, name)
        with open(path, "w") as f:
            f.write(text)
        own(path, mode)

    def path(self, name):
        return os.path.join(self.base, "other", name)

    def configure(self, config, method="copy", journal="mode = auto"):
        """Writes a config of worldkeeper; `config` is its name for keeper() and others."""
        self.write(config + ".ini", CONFIG.format(
            name="bench", schema=world.SCHEMA, socket=self.w.server.socket, base=self.base, method=method,
            journal=journal))

    # -- the commands ---------------------------------------------------------------------------

    def keeper(self, *args, config="copy"):
        return [self.lab.tool("worldkeeper"), "--config", os.path.join(self.base, config + ".ini"), *args]

    def keeper_json(self, *args, config="copy"):
        """Runs an action of worldkeeper without measuring it, and returns its result."""
        done = subprocess.run([*as_mysql(), *self.keeper(*args, "--json", config=config)],
                              capture_output=True, text=True, cwd=self.base)
        if done.returncode != 0:
            raise Failed(f"worldkeeper {args[0]}: exit status {done.returncode}: {done.stderr}{done.stdout}")
        return json.loads(done.stdout).get("result")

    def dump_command(self, name, out):
        """Returns the command and what it writes (None: nothing)."""
        if name == "nobody":
            return ["sleep", "2"], None
        if name == "old":
            return [*tool(*MYSQLDUMP, *self.client), "--net_buffer_length=4096", world.SCHEMA, "|", "gzip",
                    "--fast", ">", out], out
        if name == "today":
            return [*tool(*MYSQLDUMP, *self.client), world.SCHEMA, "|", "pigz", "-1", ">", out], out
        if name == "mydumper":
            return ["mydumper", *self.loader, "--compress", "--database", world.SCHEMA,
                    "--outputdir", out], out
        if name in METHODS:
            return [*self.keeper("--dump", "--json", config=name), ">", out], None
        return [self.lab.tool("readall"), self.w.server.socket, world.SCHEMA, name[-1], ">", out], None

    def load_command(self, name):
        schema = world.SCHEMA
        if name == "old":
            return ["gunzip", "-c", self.quiet["old"], "|", *tool("mysql", *self.client), schema]
        if name == "today":
            return ["pigz", "-d", "-c", self.quiet["today"], "|", *tool("mysql", *self.client), schema]
        if name == "myloader":
            # By default it does not log its restore, as all others here.
            return ["myloader", *self.loader, "--overwrite-tables", "--enable-binlog",
                    "--directory", self.quiet["mydumper"]]
        if name == "insert":
            return ["cat", self.quiet["insert"], "|", *tool("mysql", *self.client)]
        return self.restore_command("=" + self.quiet["copy"])

    def restore_command(self, dump="", config="copy"):
        """Returns the command of a restore of `dump` ("": the newest), with the config's journal."""
        return [*self.keeper("--restore" + dump, "--json", config=config), ">", self.path("answer")]

    def restored(self):
        """Returns the result of the last restore."""
        return answer(self.path("answer"))["result"]

    def dump(self, name):
        """Measures one dump while the game writes."""
        out = self.path(name)
        if os.path.isdir(out):
            shutil.rmtree(out)
        command, written = self.dump_command(name, out)
        self.w.tidy()
        with self.lab.writer(self.w) as writer:
            limit = HANG * max(1, self.w.size) if name == "mydumper" else 1800
            sample = self.lab.measure(self.w, TITLES[name], command, limit, may_hang=name == "mydumper")
        sample.update(writer)
        if written:
            sample["bytes"] = size_of(written)
        if name in METHODS:
            result = answer(out)["result"]
            if result["method"] != name:
                raise Failed(f"{TITLES[name]}: method {result['method']} was used")
            sample["bytes"] = size_of(os.path.join(self.base, "dumps", result["name"] + ".sql.gz"))
            sample["result"] = kept(result)
        elif name in ("read1", "read2"):
            result = answer(out)
        else:
            return sample
        if result["rows"] < sum(self.w.counts.values()):
            raise Failed(f"{TITLES[name]}: read {result['rows']} rows of {sum(self.w.counts.values())}")
        return sample

    def quiet_dumps(self):
        """Makes the dumps that restores start from, one by each contender, while no game plays. Those of the others come
        first, because they must not contain worldkeeper's own tables."""
        for name in [name for name in ("old", "mydumper", "today") if name in self.dumpers]:
            out = self.path("quiet-" + name)
            command, _ = self.dump_command(name, out)
            try:
                sample = self.lab.measure(self.w, TITLES[name], command)
            except Failed as e:
                if name != "mydumper" or not MYSQL:
                    raise
                self.leave_out(("mydumper", "myloader"), e)
                continue
            self.quiet[name] = out
            self.quiet_walls[name] = sample["wall"]
        self.write("pour.sql", "".join(s + ";\n" for s in world.pour()))
        self.quiet["insert"] = os.path.join(self.base, "pour.sql")
        self.adopt()
        self.quiet["copy"] = self.keeper_json("--dump")["name"]

    def leave_out(self, names, why):
        """Removes a contender that is missing, or a mydumper that is too old for this server."""
        self.say(f"left out: {', '.join(names)}: {why}")
        self.absent += names
        self.dumpers = [d for d in self.dumpers if d not in names]
        self.loaders = [d for d in self.loaders if d not in names]

    def adopt(self):
        """Makes worldkeeper accept the present world, whatever happened to it meanwhile."""
        self.keeper_json("--init", "--force")

    def restore(self, name, log):
        """Measures one restore into a world that kill -9 has just emptied."""
        w = self.w
        w.lose(log, old_enough=name in OURS)
        if name == "local":
            w.run(["SET GLOBAL local_infile=ON"])
        if name == "insert":
            w.run(world.copy())
            w.tidy(log)
        sample = self.lab.measure(w, RESTORE_TITLES[name], self.load_command(name))
        w.check(f"restore by {RESTORE_TITLES[name]}, {log}")
        if name in OURS:
            sample["result"] = kept(self.restored())
        if name == "insert":
            w.run([f"DROP DATABASE {world.COPY}"])
        return sample

    def attack(self):
        """Measures a restore while many connections write into the emptied tables. Rows written before the swap are gone,
        later ones stay."""
        w = self.w
        w.lose(old_enough=True)
        with self.lab.beside(w, "attack", str(self.crowd)) as attack:
            time.sleep(0.5)
            sample = self.lab.measure(w, "restore under attack", self.load_command("worldkeeper"), 600)
        sample["attack"] = attack
        w.run([f"DELETE FROM {world.SCHEMA}.{table} WHERE {key} >= 3000000000" for table, key in (
            ("users", "id"), ("planets", "id"), ("factories", "planet"), ("ships", "fleet"))])
        w.check("restore under attack")
        sample["result"] = kept(self.restored())
        return sample

    # -- whole outages --------------------------------------------------------------------------

    def outage(self, process, flag):
        """Kills the server and starts a new one at once. Measures the seconds until it answers, until the flag is no longer
        UP, and until it is UP again."""
        w = self.w
        killed = time.monotonic()
        w.server.process.kill()
        w.server.process.wait()
        w.server.process = None
        w.server.start(*LOG_OPTIONS[LOGGED], wait=False)
        times = {}

        def passed(key):
            times[key] = round(time.monotonic() - killed, 4)
        while "up" not in times:
            if process.poll() is not None:
                raise Failed(f"the supervisor ended during the outage: {self.lab.said()}")
            if time.monotonic() - killed > 900:
                raise Failed("not UP within 900 s")
            if "answers" not in times:
                with contextlib.suppress(pymysql.err.Error):
                    w.server.admin().close()
                    passed("answers")
            word = self.read(flag)
            if "noticed" not in times:
                if word and word != "UP":
                    passed("noticed")
            elif word == "UP":
                passed("up")
            time.sleep(0.003)
        return times

    @staticmethod
    def read(path):
        try:
            with open(path) as f:
                return f.read().strip()
        except FileNotFoundError:
            return ""

    @contextlib.contextmanager
    def supervisor(self, config="copy"):
        """Runs worldkeeper --run as installed, UP when the block begins; yields its process."""
        with open(self.lab.log, "w") as log:
            process = subprocess.Popen([*as_mysql(), *self.keeper("--run", config=config)], cwd=self.base,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        try:
            wait_for(lambda: self.status(process).get("state") == "UP", lambda: "UP; " + self.lab.said())
            yield process
        finally:
            end_process(process, signal.SIGTERM)

    def flag(self):
        return os.path.join(self.base, "status/index.html")

    def status(self, process):
        """Returns status.json, once this supervisor has written it."""
        text = self.read(os.path.join(self.base, "status/status.json"))
        status = json.loads(text) if text else {}
        return status if status.get("pid") == process.pid else {}

    def outage_of_keeper(self):
        """Measures an outage with a running supervisor, whose newest dump is of the expected world."""
        self.begin_anew()
        with self.supervisor() as process:
            self.w.server.grow_old()
            times = self.outage(process, self.flag())
            self.w.check("outage under worldkeeper")
            return times

    def begin_anew(self):
        """Resets the world to the stock, and makes a dump of it."""
        self.w.lose(old_enough=True)
        self.w.fill()
        self.adopt()
        self.keeper_json("--dump")

    def outage_of_scripts(self, second):
        """Measures an outage with the old scripts under a cron that looks once a minute; the kill is at this second of it."""
        base = os.path.join(self.base, "scripts")
        shutil.rmtree(base, ignore_errors=True)
        shutil.copytree(OLD_SCRIPTS, base)
        self.dir("scripts", "scripts/dumps")
        self.write("scripts/settings.sh", OLD_SETTINGS.format(
            base=base, schema=world.SCHEMA, password=CANARY, socket=self.w.server.socket))
        self.write("scripts/flag", "UP\n")
        # A dump that becomes due meanwhile would only disturb.
        self.write("scripts/dump.sh", "#!/bin/sh\n", 0o755)
        for name in ("mysql", "mysqldump"):  # cron.sh searches programs here first
            self.write(f"scripts/bin/{name}", "#!/bin/sh\nexec " + shlex.join(tool(name)) + ' "$@"\n', 0o755)
        os.link(self.quiet["old"], os.path.join(base, "dumps", world.SCHEMA + "-20260101-0000.sql.gz"))
        self.w.lose()
        self.w.fill()
        with open(self.lab.log, "w") as log:
            process = subprocess.Popen([*as_mysql(), os.path.join(base, "cron.sh"), base], cwd=base,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            time.sleep((second - time.time()) % 60)
            times = self.outage(process, os.path.join(base, "flag"))
            self.w.check("outage under the old scripts")
            return times
        finally:
            end_process(process, signal.SIGTERM)

    # -- rounds -----------------------------------------------------------------------------------

    def round(self, number, attack=True, outage=True, cron_second=None):
        """Runs each contender once; each round begins with another one."""
        def turned(names):
            return names[number % len(names):] + names[:number % len(names)]
        found = {"dumps": {}, "restores": {log: {} for log in self.logs}}
        self.w.lose()
        self.w.fill()
        self.adopt()
        for name in turned(self.dumpers):
            self.say(f"dump: {TITLES[name]}")
            found["dumps"][name] = self.dump(name)
        for log in self.logs:
            for name in turned(self.loaders):
                self.say(f"restore, {log}: {RESTORE_TITLES[name]}")
                found["restores"][log][name] = self.restore(name, log)
        if attack:
            self.say("restore under attack")
            found["attack"] = self.attack()
        if outage:
            self.say("outage: worldkeeper")
            found["outage"] = {"worldkeeper": self.outage_of_keeper()}
            if cron_second is not None:
                self.say(f"outage: the old scripts, killed at second {cron_second:.0f} of the minute")
                found["outage"]["old"] = self.outage_of_scripts(cron_second)
        return found
