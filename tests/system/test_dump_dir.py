"""The dump directory is removed, moved away or recreated while the supervisor runs."""
import fcntl
import json
import os
import shutil
import subprocess

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk.keeper import DONE, FAILED, HELD, USER
from wk.stores import Conditions
from wk.util import wait_for

pytestmark = pytest.mark.any_server


def removed(keeper):
    """Removes the directory at once, even if a file is being written into it."""
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".old")
    shutil.rmtree(keeper.dumps_dir + ".old", ignore_errors=True)


def another(keeper, copied=True):
    """Creates another directory to replace the dump directory, with its dumps or empty."""
    new = keeper.dumps_dir + ".new"
    os.mkdir(new, 0o700)
    for name in os.listdir(keeper.dumps_dir) if copied else ():
        if name.endswith((".sql.gz", ".json")) and not name.startswith("."):
            shutil.copy(os.path.join(keeper.dumps_dir, name), new)
    return new


def put_in_place(keeper, new):
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".old")
    os.rename(new, keeper.dumps_dir)
    shutil.rmtree(keeper.dumps_dir + ".old", ignore_errors=True)


def made_anew(keeper, copied=True):
    put_in_place(keeper, another(keeper, copied))


def holder(keeper):
    try:
        with open(os.path.join(keeper.dumps_dir, "lock")) as f:
            return json.load(f)
    except (FileNotFoundError, json.JSONDecodeError):  # the lock does not exist yet or is being written
        return {"pid": None}


def taken_up(keeper):
    """Waits until the supervisor has locked the directory that now exists."""
    keeper.wait_log("it is now used and locked")
    keeper.wait(lambda: holder(keeper)["pid"] == keeper.process.pid and holder(keeper)["socket"], "its lock")


@pytest.mark.parametrize("copied", [True, False], ids=["copied", "empty"])
@pytest.mark.parametrize("control", ["beside", "inside"])
def test_a_dump_by_hand(keeper, copied, control):
    """A manual dump is stored in the replaced directory, by the supervisor that starts to use it: there is one lock and one
    process that dumps."""
    if control == "inside":
        keeper.configure({"control": {"dir": keeper.dumps_dir}})
    keeper.dump()
    keeper.start()
    made_anew(keeper, copied)
    if control == "inside":
        taken_up(keeper)  # a supervisor whose socket is gone cannot be reached until it made another
    result = keeper.dump()
    assert os.path.exists(result["path"]), result
    taken_up(keeper)
    keeper.wait_log(f"dump {result['name']} stored")
    keeper.wait(lambda: (keeper.status()["last_dump"] or {}).get("name") == keeper.newest()["name"], "it in the status")
    keeper.ok("--verify")


def test_what_the_next_dump_needs(keeper):
    """The space that the next dump needs is taken from the newest dump in the present directory, not from an earlier
    directory."""
    size = os.path.getsize(keeper.dump()["path"])
    keeper.start()
    assert keeper.status()["disk"]["needed_bytes"] == size
    keeper.ok("--pause")  # no dump is made meanwhile
    made_anew(keeper, copied=False)
    taken_up(keeper)
    keeper.wait(lambda: keeper.status()["last_dump"] is None, "the status of the new directory")
    assert keeper.run("--status", "--json").json["disk"]["needed_bytes"] is None


def test_a_new_directory_that_cannot_be_taken(keeper):
    """If the new directory is locked by another process, the error of --dump says so."""
    keeper.start()
    new = another(keeper)
    with open(os.path.join(new, "lock"), "w") as lock:
        os.chmod(lock.name, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # locked before the supervisor can see the directory
        put_in_place(keeper, new)
        done = keeper.run("--dump")
    assert done.rc == HELD and "is held by another" in done.err, done


def test_no_second_supervisor(keeper, make_keeper):
    """A second supervisor cannot start with the lock of the new directory."""
    keeper.dump()
    keeper.start()
    made_anew(keeper)
    other = keeper.run("--run")
    assert other.rc == HELD, other
    taken_up(keeper)
    keeper.wait_state("UP")


def test_removed_and_not_made_anew(keeper):
    """No dump is stored while the directory does not exist; once it exists again, a dump is stored there."""
    keeper.configure({"dump": {"interval": "3s"}})
    keeper.dump()
    keeper.start()
    removed(keeper)
    keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "moved or removed" in t["what"]], "the trouble")
    keeper.wait_log("dump failed: " + keeper.dumps_dir + " does not exist")
    stored = keeper.log().count(" stored: ")
    assert not os.path.exists(keeper.dumps_dir)
    os.mkdir(keeper.dumps_dir, 0o700)
    keeper.wait(lambda: keeper.log().count(" stored: ") > stored and keeper.dumps(), "a dump in the new one")
    keeper.wait(lambda: keeper.status()["troubles"] == [], "the end of the trouble")


def test_a_volume_that_becomes_read_only(make_keeper, world, small_disk):
    """A status volume that can no longer be written is an open condition: --status exits with 1, because the world is up. It
    ends with the volume's return. For the dumps' volume, whose lock is open so that it cannot be made read-only here,
    test_alert_web.py fills the disk."""
    path, seen, prefix = small_disk

    def mounted(how):
        subprocess.run([*prefix, "mount", "-o", f"remount,{how}", path], check=True)
    os.chmod(seen, 0o755)
    keeper = make_keeper(world, {"status": {"dir": path}})
    keeper.prefix, keeper.status_dir = prefix, seen
    keeper.init()
    keeper.start()
    keeper.wait(lambda: keeper.run("--status").rc == DONE, "no condition")
    mounted("ro")
    keeper.wait(lambda: keeper.run("--status").rc == FAILED, "the condition")
    said = keeper.run("--status", "--json").json
    assert [t["what"] for t in said["troubles"] if "status cannot be written" in t["what"]] and said["state"] == "UP", said
    mounted("rw")
    keeper.wait(lambda: keeper.run("--status").rc == DONE, "its end")


def test_a_loss_beside_an_intact_dump(doomed, victim):
    """The dumps are moved into another directory and the server crashes at once: the restore uses these dumps."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start()
    made_anew(doomed)
    victim.crash()
    doomed.wait(lambda: (doomed.status().get("last_restore") or {}).get("ok"), "the restore")
    doomed.wait_state("UP")
    doomed.world.assert_is(before)


def test_a_loss_while_it_is_moved_away(doomed, victim):
    """If the directory was moved aside, the restore still uses its dumps, because the supervisor has it open."""
    doomed.dump()
    before = doomed.world.snapshot()
    doomed.start()
    os.rename(doomed.dumps_dir, doomed.dumps_dir + ".aside")
    victim.crash()
    wait_for(lambda: "-> UP: restored" in doomed.log(), "the restore")
    doomed.world.assert_is(before)


@pytest.mark.parametrize("state", [True, False], ids=["state", "dumps"])
def test_dumps_that_appear_after_a_loss(lost, state):
    """A supervisor that starts with an empty directory beside a lost world restores it as soon as the directory with the dumps
    is put in place, with or without its state.json, and keeps what that file knows."""
    path, aside = os.path.join(lost.dumps_dir, "state.json"), lost.dumps_dir + ".aside"
    with open(path) as f:
        known = json.load(f)
    if not state:
        os.remove(path)
    os.rename(lost.dumps_dir, aside)
    os.mkdir(lost.dumps_dir, 0o700)
    lost.start(state=None)
    lost.wait_log("no earlier state of this world is known")
    put_in_place(lost, aside)
    taken_up(lost)
    lost.wait_log("-> UP: restored")
    lost.world.assert_is(lost.before)
    lost.stop()
    with open(path) as f:
        now = json.load(f)
    assert now["known"] and now["generation"] == known["generation"] + 1, now


@pytest.mark.parametrize("lease", [{"lease": "none"}, {"lease": "s3", "ttl": "6s"}], ids=["none", "s3"])
def test_the_directory_of_a_primary_appears(make_followed, liar, lease):
    """With [standby], a supervisor with an empty directory is a standby, and fetches dumps. As soon as the directory of a primary
    is put in place, the machine is the primary again with all that state.json knows, and restores its lost world."""
    Conditions(liar)
    keeper = make_followed(settings={"offsite": {"plain": "yes", **liar.settings()}, "standby": lease})
    keeper.run("--check")  # tests what the lease needs of the store
    keeper.start()
    name = keeper.dump()["name"]
    keeper.wait(lambda: (keeper.status()["offsite"] or {}).get("newest") == name, "it is stored")
    before = keeper.world.snapshot()
    keeper.stop()
    path, aside = os.path.join(keeper.dumps_dir, "state.json"), keeper.dumps_dir + ".aside"
    with open(path) as f:
        known = json.load(f)
    keeper.server.crash()
    os.rename(keeper.dumps_dir, aside)
    os.mkdir(keeper.dumps_dir, 0o700)
    keeper.start("STANDBY")
    keeper.wait(keeper.dumps, "the copy of its dump")
    put_in_place(keeper, aside)
    taken_up(keeper)
    keeper.wait_log("-> UP: restored")
    keeper.world.assert_is(before)
    keeper.stop()
    with open(path) as f:
        now = json.load(f)
    assert now["known"] and now["holder"] == known["holder"] and now["generation"] == known["generation"] + 1, now


def test_while_a_dump_runs(keeper):
    """If the directory is replaced during a dump, --dump succeeds only with its file in the new directory."""
    keeper.start(fault="dump.renamed=stop")
    dump = keeper.popen("--dump", "--json")
    wait_stopped(keeper, "dump.renamed")
    made_anew(keeper, copied=False)
    wait_for(lambda: go_on(stopped(keeper)) or dump.poll() is not None, "the dump")
    done = keeper.finish(dump)
    assert done.rc == DONE and os.path.exists(os.path.join(keeper.dumps_dir, done.result["name"] + ".sql.gz")), done


def test_of_another_world(keeper, make_world, make_keeper):
    """A directory of another world is not used, and the status says so."""
    keeper.dump()
    keeper.start()
    other = make_keeper(make_world(on=keeper.server), name="w2", account=False)
    keeper.server.account(USER, [keeper.world.schema, other.world.schema])
    other.init().dump()
    os.rename(keeper.dumps_dir, keeper.dumps_dir + ".old")
    shutil.copytree(other.dumps_dir, keeper.dumps_dir)
    keeper.wait(lambda: [t for t in keeper.status()["troubles"] if "to world w2" in t["what"]], "the trouble")
    shutil.rmtree(keeper.dumps_dir)  # not in use, so no process writes there
    os.rename(keeper.dumps_dir + ".old", keeper.dumps_dir)
    keeper.wait(lambda: keeper.status()["troubles"] == [], "the end of the trouble")
