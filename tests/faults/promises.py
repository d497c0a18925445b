"""What must hold after any fault, checked from outside: of the program only its exit status and its output are used."""
import glob
import gzip
import hashlib
import os

from wk.keeper import DONE, HELD, NOTHING, USER
from wk.util import wait_for


def whole(keeper, manifest):
    """Returns whether the file matches its manifest and is complete gzip."""
    try:
        with open(keeper.path(manifest), "rb") as f:
            data = f.read()
    except OSError as e:
        return str(e)
    if len(data) != manifest["file_size"] or hashlib.sha256(data).hexdigest() != manifest["sha256"]:
        return "not the bytes of its manifest"
    try:
        text = gzip.decompress(data)
    except (OSError, EOFError) as e:
        return f"gzip: {e}"
    return "" if len(text) == manifest["bytes"] else "not the text of its manifest"


def names(keeper):
    return [m["name"] for m in keeper.dumps()]


def broken_dumps(keeper):
    """Returns dumps and manifests that are damaged. A dump that is deleted meanwhile, its manifest first, does not count."""
    bad = [f"{m['name']}: {why}" for m in keeper.dumps() if (why := whole(keeper, m)) and m["name"] in names(keeper)]
    known = set(names(keeper))
    for path in glob.glob(os.path.join(keeper.dumps_dir, keeper.name + "-*.json")):
        if os.path.basename(path)[:-5] not in known:
            bad.append("a manifest that is none: " + os.path.basename(path))
    return bad


def again(keeper, *args):
    """Repeats an action until the server has released the lock of a killed one."""
    return wait_for(lambda: (lambda d: d if d.rc != HELD else None)(keeper.run(*args)),
                    "the world to be free")


def after_a_dump(keeper, before, done, mute=False):
    """Returns the violations after a dump, from the names before it and its result (`mute`: it could not print)."""
    bad = broken_dumps(keeper)
    now = names(keeper)
    if before and before[0] not in now:
        bad.append(f"the newest dump {before[0]} is gone")
    if len(now) < min(len(before), 3):
        bad.append(f"{len(before)} dumps have become {len(now)}")
    if done.rc == DONE and (not now or now[0] in before):
        bad.append("it says done, and there is no new dump")
    return bad + ([] if mute else unnamed(done))


def settled(keeper):
    """Waits until the server has ended the sessions of killed processes."""
    wait_for(lambda: not keeper.server.sessions(user=USER), "the sessions to end")


def unnamed(done):
    """Returns a violation if a failure gave no reason. The loader's own messages and a supervisor that is ending are
    exceptions."""
    if 0 < done.rc < 127 and not any(line.startswith("worldkeeper: ") and line.count(": ") > 1 and not line.endswith(": ")
                                     or "out of memory" in line or "is held by" in line for line in done.err.splitlines()):
        return [f"exit status {done.rc}, and no word why: {done.err[-300:]}"]
    return []


def dumps_again(keeper):
    """Makes a dump without a fault, and returns a violation if it fails or if files of the one before are left."""
    before = names(keeper)
    done = again(keeper, "--dump")
    if done.rc != DONE:
        return [f"the next dump fails: {done}"]
    bad = broken_dumps(keeper)
    if names(keeper)[0] in before:
        bad.append("the next dump is not there")
    if keeper.parts():
        bad.append(f"left behind: {keeper.parts()}")
    return bad


def lose(keeper):
    """Empties the world as a restart of the server does."""
    keeper.world.sql(*[f"TRUNCATE {table}" for table in keeper.memory])


def after_a_restore(keeper, done, states, mute):
    """Returns the violations after a restore, from the allowed states {name: rows} of the world and its result."""
    settled(keeper)
    rows, bad = keeper.world.checksums(), broken_dumps(keeper)
    now = [name for name, state in states.items() if state == rows]
    if not now:
        bad.append(f"the world is neither {' nor '.join(states)}: {rows}")
    if done.rc == DONE and now != ["restored"]:
        bad.append(f"it says done, and the world is {now}")
    return bad + ([] if mute else unnamed(done))


def restores_again(keeper, dump, full):
    """Repeats the restore without a fault and returns the violations. A dump whose file could not be read counts as damaged
    until the command in the hint has read it again."""
    done = again(keeper, "--restore=" + dump, "--force")
    if (done.rc == NOTHING and f"{dump}.sql.gz: Input/output error" in done.err and f"--verify={dump} " in done.err
            and again(keeper, "--verify=" + dump).rc == DONE):
        done = again(keeper, "--restore=" + dump, "--force")
    if done.rc != DONE:
        return [f"the next restore fails: {done}"]
    bad = []
    if keeper.world.checksums() != full:
        bad.append("the next restore brings another world")
    tables = [row[0] for row in keeper.world.sql("SHOW TABLES")]
    if tables != keeper.tables:
        bad.append(f"left in the schema: {tables}")
    if keeper.parts():
        bad.append(f"left behind: {keeper.parts()}")
    return bad
