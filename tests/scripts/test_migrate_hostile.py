"""Tests of scripts/migrate.sh as root, while the user that gets the files, or the owner of the old scripts, plants links."""
import contextlib
import gzip
import os
import pathlib
import pty
import pwd
import shutil
import stat
import subprocess
import tempfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIGRATE = f"{ROOT}/scripts/migrate.sh"
OTHER = pwd.getpwnam("nobody")
STRANGER = OTHER.pw_uid - 1
WHOLE = "CREATE TABLE t (i INT);\n-- Dump completed on 2026-01-01\n"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="this machine: not root, who gives files away")

# A fake command: before it runs, the other user replaces everything possible by links, and plants links where names may be
# created next.
COMMAND = """#!/bin/bash
echo >>"$WK_CALLS"
mapfile -t calls <"$WK_CALLS"
if [ "$WK_EVERY" ] && [ $((${#calls[@]} %% WK_EVERY)) = "$WK_AT" ]; then
    /usr/bin/setpriv --reuid=%d --regid=%d --clear-groups /bin/sh "$WK_ATTACK" >/dev/null 2>&1
fi
exec /usr/bin/${0##*/} "$@"
""" % (OTHER.pw_uid, OTHER.pw_gid)
ATTACK = """
PATH=/usr/bin:/bin
for name in etc etc/galaxy.ini etc/galaxy.password new new/galaxy new/galaxy/imported new/galaxy/imported/x.sql.gz; do
    path=$WK_TREE/$name
    if [ -L "$path" ]; then continue; fi
    if [ -e "$path" ]; then mv -T "$path" "$path.$$" || continue; fi
    case $name in *.*) ln -s "$WK_VICTIM/file" "$path" ;; *) ln -s "$WK_VICTIM" "$path" ;; esac
done
"""


class Scene:
    """Root's old scripts, a directory tree for the new files, and a directory of root that must not change."""

    def __init__(self, base):
        self.base, self.tree, self.old, self.victim = base, base / "tree", base / "old", base / "victim"
        for one in (self.tree, self.old, self.old / "dumps", self.victim, base / "bin"):
            one.mkdir(parents=True, mode=0o755)
        (self.victim / "file").write_text("root's own\n")
        (self.victim / "file").chmod(0o600)
        (self.old / "dump.sh").write_text(f"#!/bin/sh\nmysqldump -ugame -psecret galaxy | gzip > {self.old}/dumps/x.sql.gz\n")
        with gzip.open(self.old / "dumps" / "x.sql.gz", "wt") as f:
            f.write(WHOLE)
        for name in ("mkdir", "cat", "chown", "stat", "setpriv", "sh", "readlink", "id", "grep", "tail"):
            (base / "bin" / name).write_text(COMMAND)
            (base / "bin" / name).chmod(0o755)
        (base / "attack").write_text(ATTACK)
        (base / "calls").touch()
        self.before = self.look()

    def look(self):
        seen = {}
        for path in [self.victim, *self.victim.rglob("*")]:
            st = path.lstat()
            seen[path] = (st.st_uid, st.st_gid, st.st_mode, st.st_nlink, path.is_dir() or path.read_bytes())
        return seen

    def run(self, *args, every="", at=0):
        path = f"{self.base}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            [MIGRATE, "--to", self.tree / "etc", "--dumps", self.tree / "new" / "galaxy", "--owner", OTHER.pw_name,
             "--crontab", "/dev/null", *args, self.old], capture_output=True, text=True, timeout=180,
            env={"PATH": path, "WK_CALLS": str(self.base / "calls"), "WK_EVERY": str(every), "WK_AT": str(at),
                 "WK_ATTACK": str(self.base / "attack"), "WK_TREE": str(self.tree), "WK_VICTIM": str(self.victim)})
        assert self.look() == self.before, f"root was led astray: {done.stdout}{done.stderr}"
        return done

    def written(self):
        """Returns everything that was made, by name: owner and mode."""
        return {str(p.relative_to(self.tree)): (p.lstat().st_uid, stat.S_IMODE(p.lstat().st_mode))
                for p in self.tree.rglob("*")}


@pytest.fixture
def scene():
    with tempfile.TemporaryDirectory() as base:  # pytest's directories are closed to the other user
        os.chmod(base, 0o755)
        yield Scene(pathlib.Path(base))


def own(*paths, uid=OTHER.pw_uid):
    for path in paths:
        path.mkdir(exist_ok=True, parents=True)
        os.chown(path, uid, OTHER.pw_gid)


PLACES = {  # owners within the tree
    "root's": lambda t: None,
    "dumps": lambda t: own(t / "new" / "galaxy"),
    "above the dumps": lambda t: own(t / "new"),
    "configs": lambda t: own(t / "etc"),
    "all": lambda t: own(t),
    "for everybody": lambda t: t.chmod(0o1777),
}
MINE = {"etc/galaxy.ini": (OTHER.pw_uid, 0o600), "etc/galaxy.password": (OTHER.pw_uid, 0o600),
        "new/galaxy": (OTHER.pw_uid, 0o700), "new/galaxy/imported": (OTHER.pw_uid, 0o700),
        "new/galaxy/imported/x.sql.gz": (OTHER.pw_uid, 0o600)}


@pytest.mark.parametrize("place", PLACES)
def test_undisturbed(scene, place):
    """Wherever the files are written, they belong to the user that runs worldkeeper."""
    PLACES[place](scene.tree)
    done = scene.run()
    assert done.returncode == 0, done.stdout + done.stderr
    made = scene.written()
    if place == "dumps":  # it existed and keeps its mode
        assert made.pop("new/galaxy") == (OTHER.pw_uid, 0o755)
    assert {k: v for k, v in made.items() if k in MINE} == {k: v for k, v in MINE.items() if k in made}
    assert set(MINE) - set(made) <= {"new/galaxy"}
    with gzip.open(scene.tree / "new/galaxy/imported/x.sql.gz", "rt") as f:
        assert f.read() == WHOLE


@pytest.mark.parametrize("place", ["dumps", "above the dumps", "all", "for everybody"])
def test_links_at_each_step(scene, place):
    """The other user acts before each of the script's commands in turn: no file of root changes its owner or contents."""
    scene.run("--dry-run")  # it only reads up to here
    at = len((scene.base / "calls").read_text())
    first = at
    while True:
        shutil.rmtree(scene.tree)
        scene.tree.mkdir(mode=0o755)
        PLACES[place](scene.tree)
        (scene.base / "calls").write_text("")
        scene.run(every=10000, at=at)
        if len((scene.base / "calls").read_text()) < at:
            break
        at += 1 if os.environ.get("WK_WHOLE") == "yes" else 5
    assert at - first > 10, "the commands were not counted"


@pytest.mark.parametrize("name", ["etc", "new", "new/galaxy", "new/galaxy/imported"])
def test_links_that_were_there(scene, name):
    """Links of root are followed; a link of the other user makes the script fail."""
    link = scene.tree / name
    own(link.parent)
    target = scene.victim if name != "new/galaxy/imported" else scene.victim / "."
    os.symlink(target, link)
    os.lchown(link, OTHER.pw_uid, OTHER.pw_gid)
    done = scene.run()
    assert done.returncode == 1 and "cannot" in done.stderr.lower(), done.stdout + done.stderr
    mine = scene.base / "mine"
    mine.mkdir()
    shutil.rmtree(scene.tree)
    scene.tree.mkdir()
    os.symlink(mine, scene.tree / "new")
    assert scene.run().returncode == 0 and (mine / "galaxy/imported/x.sql.gz").exists()


def test_directories_of_others(scene):
    """A directory that others can write, or of a third user, is refused by name with a solution."""
    (scene.tree / "etc").mkdir()
    (scene.tree / "etc").chmod(0o777)
    said = scene.run().stderr
    assert f"chmod go-w {scene.tree}/etc" in said and not list((scene.tree / "etc").iterdir())
    (scene.tree / "etc").chmod(0o755)
    own(scene.tree / "etc", uid=STRANGER)
    done = scene.run()
    assert done.returncode == 1 and f"user {STRANGER} owns it" in done.stderr and "--owner" in done.stderr


def test_what_the_owner_of_the_scripts_cannot_read(scene):
    """Scripts, option files, passwords and old dumps are read as the owner of the scripts, who may not read root's files."""
    secret = scene.victim / "file"
    secret.write_text("root's own, -- Dump completed\n")
    scene.before = scene.look()
    shutil.rmtree(scene.old / "dumps")
    (scene.old / "dump.sh").write_text(
        f"#!/bin/sh\n. {secret}\nP=$(cat {secret})\nmysqldump --defaults-file={secret} -ugame -p$P galaxy > {scene.old}/dumps/x.sql\n"
        f"php {secret}\n")
    for path in (scene.old, scene.old / "dump.sh"):
        os.chown(path, OTHER.pw_uid, OTHER.pw_gid)
    os.symlink(scene.victim, scene.old / "dumps")
    os.symlink(secret, scene.old / "more.sh")
    os.rename(secret, scene.victim / "x.sql")
    os.symlink("x.sql", secret)
    scene.before = scene.look()
    done = scene.run()
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert said.count(f"cannot be read by {OTHER.pw_name}, who owns the scripts") >= 3, said
    assert "no password found" in said and "no whole old dump" in said
    assert not any("root's own" in p.read_text() for p in scene.tree.rglob("*") if p.is_file())


def test_what_a_terminal_would_obey(scene):
    """Text of the scripts is printed to root's terminal without control characters."""
    with open(scene.old / "dump.sh", "a", encoding="utf-8") as f:
        f.write("mysqldump --\x1b]0_gotcha\x07odd=1 galaxy\n")
    done = scene.run("--dry-run")
    assert done.returncode == 0 and "gotcha" in done.stdout and not [c for c in done.stdout + done.stderr if ord(c) < 32 and c != "\n"]
    with open(scene.old / "dump.sh", "a", encoding="utf-8") as f:
        f.write("mail -s x '\x1b[2J@example.com'\n")
    done = scene.run("--dry-run")
    assert done.returncode == 1 and "the value of to" in done.stderr and "\x1b" not in done.stdout + done.stderr


def test_the_other_user_gets_no_terminal_of_root():
    """A command that runs as another user has no controlling terminal, because that user's processes could type into it."""
    with open(MIGRATE, encoding="utf-8") as f:
        function = f.read().partition("\nas_user() {")[2].partition("\n}\n")[0]
    probe = f"as_user() {{{function}\n}}\nif as_user {STRANGER} sh -c ': </dev/tty'; then exit 7; fi; : </dev/tty && exit 5"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("bash", ["bash", "-c", probe])
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    os.close(terminal)
