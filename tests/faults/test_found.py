"""What this campaign has found, each by itself: the fault, and what it did before."""
import os
import resource
import time

from inject import Attached, Call, Injected, Point, watch
from promises import broken_dumps, names
from wk.keeper import DONE, FAILED, NOTHING
from wk.util import wait_for


# What fstat() calls, depending on the version of glibc.
LOOKS = ("fstat", "newfstatat")


def meets(keeper, called, how, piece, *args):
    """What `args` answer when the last call of one of these names on a path with `piece` meets that error."""
    call = [c for c in watch(keeper, lambda: keeper.run(*args)) if c.name in called and piece in c.what][-1]
    with Injected(keeper, Point(call, how)) as fault:
        done = keeper.run(*args)
    assert fault.made(), call
    return done


def test_a_manifest_that_was_left_without_its_file(keeper):
    """The directory cannot be synced after the manifest's rename: the dump has failed, and its manifest
    stayed behind, telling of a file that was removed."""
    keeper.dump()
    before = names(keeper)
    done = meets(keeper, ["fsync"], "EIO", keeper.dumps_dir + ">", "--dump")
    assert done.rc == FAILED and "cannot fsync the directory" in done.err, done
    assert not broken_dumps(keeper) and names(keeper)[-1] == before[0]


def test_a_file_that_cannot_be_looked_at(keeper):
    """The disk's error was called a wrong kind of file."""
    done = meets(keeper, LOOKS, "EIO", os.path.basename(keeper.password_file), "--dump")
    assert "cannot examine" in done.err and "Input/output error" in done.err, done


def test_a_lock_that_cannot_be_looked_at(keeper):
    """A restore that could not look at its lock gave no reason and ended with 0; at the call before, it was called a wrong
    kind of file, with the hint to remove it."""
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
    """A manifest that could not be taken apart was believed to be damaged, and retention removed the dump:
    any request for memory of a dump may fail, the ones of its retention among them."""
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
    """It counts as damaged until it is read once more; the refusal of the next restore names the command."""
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
    """With a limit below the places that its loop looks at, poll() refuses them all, whatever they hold: it
    turned round and round, heard nobody, and did not end when it was told to."""
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
    """A client waits while there is no descriptor for it: the loop took it up again and again, without a
    pause. It is told once, and the client gets its answer."""
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
