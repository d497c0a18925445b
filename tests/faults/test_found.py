"""One test for each defect that this campaign has found."""
import os
import resource
import time

from inject import Attached, Call, Injected, Point, watch
from promises import broken_dumps, names
from wk.keeper import DONE, FAILED, NOTHING
from wk.util import wait_for


# The system calls of fstat(), which depend on the version of glibc.
LOOKS = ("fstat", "newfstatat")


def meets(keeper, called, how, piece, *args):
    """Runs the action twice: first to find its last call of one of these names on a path that contains `piece`, then with
    that call failing with the error `how`. Returns the result of the second run."""
    call = [c for c in watch(keeper, lambda: keeper.run(*args)) if c.name in called and piece in c.what][-1]
    with Injected(keeper, Point(call, how)) as fault:
        done = keeper.run(*args)
    assert fault.made(), call
    return done


def test_a_manifest_that_was_left_without_its_file(keeper):
    """If the directory cannot be synced after the manifest's rename the dump fails, and no manifest without its file is left."""
    keeper.dump()
    before = names(keeper)
    done = meets(keeper, ["fsync"], "EIO", keeper.dumps_dir + ">", "--dump")
    assert done.rc == FAILED and "cannot fsync the directory" in done.err, done
    assert not broken_dumps(keeper) and names(keeper)[-1] == before[0]


def test_a_file_that_cannot_be_looked_at(keeper):
    """A file that cannot be examined is reported with the system's error, not as a wrong kind of file."""
    done = meets(keeper, LOOKS, "EIO", os.path.basename(keeper.password_file), "--dump")
    assert "cannot examine" in done.err and "Input/output error" in done.err, done


def test_a_lock_that_cannot_be_looked_at(keeper):
    """A restore that cannot examine its lock fails with the system's error, without a hint to remove the file."""
    keeper.dump()
    keeper.world.mark(2)
    before, refused = keeper.world.checksums(), 0
    look = [c for c in watch(keeper, lambda: keeper.ok("--dump")) if c.name in LOOKS and "/lock>" in c.what]
    for nth in range(look[0].nth, look[0].nth + 3):
        with Injected(keeper, Point(look[0]._replace(nth=nth), "EIO")) as fault:
            done = keeper.run("--restore", "--force")
        if not any("/lock>" in line for line in fault.made()):
            continue
        refused += 1
        assert done.rc == FAILED and "cannot examine lock: Input/output error" in done.err, (nth, done)
        assert "HINT" not in done.err and keeper.world.checksums() == before, (nth, done)
    assert refused


def test_a_dump_that_was_removed_for_want_of_memory(keeper):
    """A manifest that cannot be parsed for lack of memory is not taken for damaged, so that retention deletes no dump because
    of it."""
    keeper.configure({"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}})
    counted = os.path.join(keeper.base, "count")
    for _ in range(4):
        keeper.ok("--dump", **keeper.shim(count=counted))
    with open(counted) as f:
        last = int(f.read())
    for nth in range(last - 1500, last, 50):
        before = names(keeper)
        keeper.run("--dump", **keeper.shim(malloc=nth))
        assert before[0] in names(keeper) and len(names(keeper)) >= 3, nth
        keeper.dump()


def test_a_dump_that_the_disk_refused_once(keeper):
    """A dump whose file could not be read counts as damaged until it is read again; the refusal of the next restore names the
    command."""
    name, full = keeper.dump()["name"], keeper.world.checksums()
    done = meets(keeper, ["openat"], "EIO", name + ".sql.gz", "--verify=" + name)
    assert done.out.startswith(f"DAMAGED {name}: ") and "Input/output error" in done.out, done
    refused = keeper.run("--restore=" + name, "--force")
    assert refused.rc == NOTHING and f"{name}.sql.gz: Input/output error" in refused.err, refused
    assert f"--verify={name} " in refused.err, refused
    keeper.ok("--verify=" + name)
    keeper.ok("--restore=" + name, "--force")
    assert keeper.world.checksums() == full


def test_a_supervisor_deaf_with_few_descriptors(keeper):
    """With a descriptor limit below the number of its poll() entries, for which poll() fails, the supervisor neither spins nor
    ignores its clients and signals."""
    keeper.start()
    _, hard = resource.prlimit(keeper.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(keeper.process.pid, resource.RLIMIT_NOFILE, (10, hard))
    with Attached(keeper, keeper.process.pid) as watched:
        began = time.monotonic()
        wait_for(lambda: watched.calls("poll"), "the loop to turn")
        time.sleep(0.5)
    turns, seconds = watched.calls("poll"), time.monotonic() - began
    assert turns < 500 + seconds * 100, (turns, seconds)
    keeper.probes_pass("A", 8)
    assert keeper.stop() == 0


def test_a_call_that_nobody_could_take(keeper):
    """A client that cannot be accepted for lack of descriptors is retried with pauses, reported once, and answered later."""
    keeper.start()
    with Attached(keeper, keeper.process.pid, Point(Call("accept4", "1+", ""), "EMFILE")) as watched:
        asked = keeper.popen("--dump")
        keeper.wait_log("Too many open files")
        began = time.monotonic()
        keeper.wait(lambda: watched.calls("accept4") > 1, "the call to be tried again")
        time.sleep(1.5)
        tries, seconds = watched.calls("accept4"), time.monotonic() - began
    assert tries < 10 + seconds * 4, (tries, seconds)
    assert keeper.finish(asked).rc == DONE
    assert keeper.log().count("Too many open files") == 1
