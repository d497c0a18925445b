"""What this campaign has found, each by itself: the fault, and what it did before."""
import os

from inject import Injected, Point, watch
from promises import broken_dumps, names
from wk.keeper import FAILED


def meets(keeper, name, how, piece, *args):
    """What `args` answer when the last call of this name on a path with `piece` meets that error."""
    call = [c for c in watch(keeper, lambda: keeper.run(*args)) if c.name == name and piece in c.what][-1]
    with Injected(keeper, Point(call, how)) as fault:
        done = keeper.run(*args)
    assert fault.made(), call
    return done


def test_a_manifest_that_was_left_without_its_file(keeper):
    """The directory cannot be synced after the manifest's rename: the dump has failed, and its manifest
    stayed behind, telling of a file that was removed."""
    keeper.dump()
    before = names(keeper)
    done = meets(keeper, "fsync", "EIO", keeper.dumps_dir + ">", "--dump")
    assert done.rc == FAILED and "cannot fsync the directory" in done.err, done
    assert not broken_dumps(keeper) and names(keeper)[-1] == before[0]


def test_a_file_that_cannot_be_looked_at(keeper):
    """The disk's error was called a wrong kind of file."""
    done = meets(keeper, "newfstatat", "EIO", os.path.basename(keeper.password_file), "--dump")
    assert "cannot look at" in done.err and "Input/output error" in done.err, done
