"""A file in the dump directory is used only if no other user could have put it there: it belongs to us or to root (for root:
to root or the directory's owner), other users cannot write it, and it is not a link. A refusal names the file and the command
that corrects it. A file that an admin names by its path may have any owner."""
import gzip
import json
import os
import re
import shutil
import stat
import subprocess

import pytest
from wk.keeper import BINARY, DONE, NOT_WELL, NOTHING, REFUSED

pytestmark = pytest.mark.either_server

STRANGER = 65533
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")


def mend(text, how):
    """Runs the command of a hint, as an admin pastes it."""
    found = re.search(rf"{how} (\S*) ?(\S*/\S+[\w.])", text)
    assert found, text
    command = found.group(0).rstrip(".,;")
    subprocess.run(command, shell=True, check=True)


def spoil(path, how):
    if how == "chown":
        os.chown(path, STRANGER, STRANGER)
    else:
        os.chmod(path, 0o664 if how == "chmod" else 0o602)


HOW = [pytest.param("chown", marks=root_only), "chmod"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("which", [".sql.gz", ".json", ".proof"])
def test_a_dump_that_others_could_have_written(keeper, make_world, which, how):
    """Such a dump is reported with the command that corrects it and left in place, and the older dump is restored. After the
    correction it is a dump again."""
    older = keeper.dump()["name"]
    newer = keeper.dump()["name"]
    assert keeper.run("--verify").rc == DONE  # makes the .proof files
    path = os.path.join(keeper.dumps_dir, newer + which)
    spoil(path, how)
    listed = {d["name"]: d for d in keeper.ok("--list", "--json")["dumps"]}
    assert listed[older]["intact"] and not listed[newer]["intact"], listed
    reason = listed[newer]["reason"]
    assert newer + which in reason and how in reason, reason
    assert keeper.run("--verify=" + newer).rc == NOT_WELL
    target = make_world("empty")
    keeper.server.grant("keeper@localhost", target.schema)
    done = keeper.ok("--restore", "--into", target.schema, "--json")
    assert done["dump"] == older and done["skipped"][0]["dump"] == newer, done
    assert keeper.run("--restore=" + newer, "--dry-run").rc == NOTHING
    keeper.dump()
    assert os.path.exists(path), "what is not ours is not deleted either"
    mend(reason, how)
    assert {d["name"]: d["intact"] for d in keeper.ok("--list", "--json")["dumps"]}[newer]


@pytest.mark.parametrize("how", HOW)
def test_our_own_notes(keeper, how):
    """state.json and the lock are refused if other users could have written them, with the command that corrects it."""
    keeper.dump()
    for name in ("state.json", "lock"):
        path = os.path.join(keeper.dumps_dir, name)
        spoil(path, how)
        done = keeper.run("--dump")
        assert done.rc == REFUSED and name in done.err and how in done.err, done
        mend(done.err, how)
        keeper.dump()


@pytest.mark.parametrize("how", HOW)
def test_replaced_rows(keeper, how):
    """--conflicts reads no file that others could have written."""
    keeper.dump()
    table = keeper.world.sql("SHOW TABLES LIKE 'chat'")[0][0]
    path = os.path.join(keeper.dumps_dir, "conflict-w1-000001-00000001-20260101T000000Z.sql.gz")
    with gzip.open(path, "wb") as f:
        f.write(b"-- worldkeeper: rows found in the tables that a restore replaced\n"
                b"INSERT INTO `" + table.encode() + b"` (`id`) VALUES\n(77);\n")
    os.chmod(path, 0o600)
    before = keeper.run("--conflicts=" + os.path.basename(path))
    spoil(path, how)
    done = keeper.run("--conflicts=" + os.path.basename(path))
    assert done.rc != before.rc or done.out != before.out, done
    assert how in done.out + done.err and os.path.basename(path) in done.out + done.err, done


@root_only
def test_root_in_the_directory_of_the_service(keeper):
    """Root accepts its own files and those of the directory's owner, and no others."""
    name = keeper.dump()["name"]
    os.chown(keeper.dumps_dir, 65534, 65534)
    for path in (keeper.dumps_dir + "/" + f for f in os.listdir(keeper.dumps_dir)):
        if not os.path.isdir(path):
            os.chown(path, 65534, 65534)
    assert keeper.run("--verify").rc == DONE
    path = os.path.join(keeper.dumps_dir, name + ".json")
    os.chown(path, 0, 0)
    assert keeper.run("--verify").rc == DONE
    os.chown(path, STRANGER, STRANGER)
    listed = keeper.ok("--list", "--json")["dumps"][0]
    assert not listed["intact"] and "chown 65534 " in listed["reason"], listed


@root_only
def test_a_user_takes_what_is_root_s_or_its_own(keeper):
    """The service's user accepts its own files and root's, and no others."""
    name = keeper.dump()["name"]
    paths = [keeper.dumps_dir, *(os.path.join(keeper.dumps_dir, f) for f in os.listdir(keeper.dumps_dir)),
             keeper.config_path, keeper.password_file]
    for path in paths:
        os.chown(path, 65534, 65534)
    os.chmod(keeper.base, 0o755)
    for up in (os.path.dirname(keeper.base), os.path.dirname(os.path.dirname(keeper.base))):
        if not os.stat(up).st_mode & 1:
            os.chmod(up, os.stat(up).st_mode | 0o111)
    manifest = os.path.join(keeper.dumps_dir, name + ".json")
    # That user may have no access to the checkout, for example in root's home.
    program = shutil.copy(BINARY, keeper.base)

    def listed():
        done = subprocess.run([program, "--config", keeper.config_path, "--list", "--json"], user=65534, group=65534,
                              extra_groups=[], capture_output=True, text=True, env=keeper.environment(), cwd="/")
        assert done.returncode == DONE, done
        return json.loads(done.stdout)["result"]["dumps"][0]

    assert listed()["intact"]
    os.chown(manifest, 0, 0)
    os.chmod(manifest, 0o644)
    assert listed()["intact"]
    os.chown(manifest, STRANGER, STRANGER)
    assert not listed()["intact"] and "chown 65534 " in listed()["reason"]


def test_a_link_in_the_place_of_a_dump(keeper):
    """A link in place of a dump is not followed, and the older dump is used."""
    older = keeper.dump()["name"]
    newer = keeper.dump()["name"]
    path = os.path.join(keeper.dumps_dir, newer + ".sql.gz")
    shutil.move(path, keeper.base + "/elsewhere.sql.gz")
    os.symlink(keeper.base + "/elsewhere.sql.gz", path)
    listed = {d["name"]: d for d in keeper.ok("--list", "--json")["dumps"]}
    assert listed[older]["intact"] and not listed[newer]["intact"]
    assert keeper.ok("--restore", "--force", "--dry-run", "--json")["dump"] == older


def test_a_link_in_the_place_of_the_directory(keeper):
    """A link in place of the dump directory is refused as a symbolic link, with and without --allow-root."""
    keeper.dump()
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".real")
    os.symlink(keeper.dumps_dir + ".real", keeper.dumps_dir)
    for root in ([], ["--allow-root"]):
        done = subprocess.run([BINARY, "--config", keeper.config_path, *root, "--dump"], capture_output=True, text=True,
                              env=keeper.environment())
        assert done.returncode == REFUSED and "is a symbolic link" in done.stderr, done


# -- a file by its path ------------------------------------------------------------------------------------

SQL = "CREATE TABLE t (a INT) ENGINE=MEMORY;\nINSERT INTO t VALUES (7);\n-- Dump completed\n"


@pytest.fixture
def by_path(keeper):
    keeper.server.sql("GRANT ALL ON wk_path.* TO keeper@localhost")
    path = os.path.join(keeper.base, "by-hand.sql")
    with open(path, "w") as f:
        f.write(SQL)
    yield path
    keeper.server.sql("DROP DATABASE IF EXISTS wk_path")


def restore_path(keeper, path):
    keeper.server.sql("DROP DATABASE IF EXISTS wk_path")
    return keeper.run("--restore=" + path, "--into", "wk_path", "--json")


def test_a_file_by_its_path_may_be_anybody_s(keeper, by_path):
    """A file that the admin names by its path may have any owner and mode, and may be the admin's own link."""
    if os.geteuid() == 0:
        os.chown(by_path, STRANGER, STRANGER)
    os.chmod(by_path, 0o666)
    assert restore_path(keeper, by_path).rc == DONE
    os.symlink(by_path, keeper.base + "/link.sql")
    assert restore_path(keeper, keeper.base + "/link.sql").rc == DONE


@pytest.mark.parametrize("where", ["the file", "its directory"])
def test_a_link_that_others_could_have_put_there(keeper, by_path, where):
    """In a directory that others can write no link is followed, neither the file itself nor a directory on its path."""
    shared = os.path.join(keeper.base, "shared")
    os.mkdir(shared)
    os.chmod(shared, 0o1777)
    shutil.copy(by_path, shared + "/real.sql")
    assert restore_path(keeper, shared + "/real.sql").rc == DONE
    if where == "the file":
        os.symlink(by_path, shared + "/link.sql")
        path = shared + "/link.sql"
    else:
        os.symlink(keeper.base, shared + "/dir")
        path = shared + "/dir/by-hand.sql"
    done = restore_path(keeper, path)
    assert done.rc == REFUSED and "symbolic link" in done.out and "name the file itself" in done.out, done
    assert stat.S_ISLNK(os.lstat(path if where == "the file" else shared + "/dir").st_mode)


@pytest.mark.parametrize("what", ["missing", "directory", "pipe"])
def test_what_is_no_file(keeper, by_path, what):
    path = os.path.join(keeper.base, "no.sql")
    if what == "directory":
        os.mkdir(path)
    elif what == "pipe":
        os.mkfifo(path)
    done = restore_path(keeper, path)
    assert done.rc != DONE and "no.sql" in done.out, done
