"""Tests of disks that are full, fail, or no longer accept writes: stored data stays, and the failure is reported."""
import contextlib
import os
import subprocess
import time

import pytest
from disks import run
from inject import POINTS
from promises import after_a_dump, broken_dumps, names
from wk.keeper import DONE, FAILED
from wk.util import wait_for
from wk.watch import Lateness

FEW = {"retention": {"keep_last": 3, "keep_within": "0s", "keep_daily": 0, "keep_weekly": 0}}
NOISE = "UNHEX(CONCAT(" + ",".join(["MD5(RAND())"] * 3) + "))"  # 48 bytes


def noisy(world):
    """Fills the world with 720 KiB of data that cannot be compressed."""
    world.sql("CREATE TABLE noise (id INT PRIMARY KEY, v BINARY(255) NOT NULL) ENGINE=MEMORY",
              "INSERT INTO noise SELECT seq, CONCAT(" + ",".join([NOISE] * 5) + ") FROM seq_1_to_3000")
    return world


@pytest.mark.needs("mount")
def test_full_at_any_size(world, make_keeper, tally, request):
    """A dump on a disk that becomes full fails with that reason or is complete, and the next one with free space succeeds."""
    keeper = make_keeper(world, FEW)
    run("mount", "-t", "tmpfs", "-o", "size=64m,mode=0700", "tmpfs", keeper.dumps_dir)
    request.addfinalizer(lambda: run("umount", "-l", keeper.dumps_dir))
    keeper.init()
    for _ in range(3):
        keeper.dump()
    filler = os.path.join(keeper.dumps_dir, "filler")
    count = POINTS or 400
    for i in range(count):
        room = os.statvfs(keeper.dumps_dir)
        size = room.f_bavail * room.f_bsize - 65536 * i // count
        with open(filler, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, size)
        before = names(keeper)
        done = keeper.run("--dump")
        bad = after_a_dump(keeper, before, done)
        if done.rc != DONE and "room" not in done.err and "space" not in done.err:
            bad.append(f"the disk is not named: {done.err[-200:]}")
        os.unlink(filler)
        if i % 10 == 0:
            bad += [] if keeper.run("--dump").rc == DONE else ["the next dump fails"]
        tally.point("a full disk", bad)
    tally.assert_clean()


def test_an_error_that_only_fsync_reports(make_world, make_keeper, make_disk, tally):
    """All write() succeed on a disk without space behind it; fsync(), or without a file system journal only the reading back,
    reports it. Stored dumps are complete when read without the cache, and after a failure the next dump has a new name."""
    world = noisy(make_world())
    keeper = make_keeper(world, {"retention": {"keep_last": 50}})
    disk = make_disk(keeper.dumps_dir, size="48M", backing="6m",
                     features=("-O", "^has_journal", "-e", "continue"), options="noatime")
    keeper.init()
    stored, failed = [], []
    for _ in range(12):
        before = names(keeper)
        done = keeper.run("--dump")
        bad = after_a_dump(keeper, before, done)
        if done.rc == DONE:
            stored.append(names(keeper)[0])
        else:
            assert done.rc == FAILED, done
            failed.append(done.err)
        tally.point("an error that only fsync reports", bad)
    print(stored, failed)
    assert stored and failed, (stored, failed)
    assert all("cannot fsync" in said or "reading the dump back" in said for said in failed), failed
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3\n")
    assert not broken_dumps(keeper) and stored == names(keeper)[::-1]
    run("mount", "-o", "remount,size=64m", disk.where)
    tally.point("an error that only fsync reports", after_a_dump(keeper, names(keeper), keeper.run("--dump")))
    keeper.ok("--verify")
    tally.assert_clean()


def test_a_disk_that_becomes_read_only(doomed, victim, make_disk, http):
    """On a disk that became read-only dumps fail, and log and status name the reason. A lost world is not restored, because
    the restore cannot be recorded; alerts about it are sent although they cannot be stored."""
    keeper = doomed
    disk = make_disk(keeper.dumps_dir, options="errors=remount-ro")
    keeper.configure({**FEW, **http.settings()})
    keeper.init("--force")  # the directory is new, but the sentinel exists
    keeper.dump()
    keeper.start()
    http.wait_event("started")
    subprocess.run(["mount", "-o", "remount,abort", disk.at], stderr=subprocess.DEVNULL)
    done = keeper.run("--dump")
    assert done.rc == FAILED and "Read-only file system" in done.err, done
    assert not broken_dumps(keeper)
    keeper.wait_state("UP")
    victim.crash()
    keeper.wait_state("WAITING")
    keeper.wait(lambda: "Read-only file system" in keeper.status().get("reason", ""), "the reason")
    assert keeper.world.rows("player") == 0 and keeper.world.rows("fleet") == 0
    for event in ("restoring", "waiting"):
        http.wait_event(event)
    told = [line for line in keeper.log().splitlines() if "goes out from memory" in line or "waits in memory" in line]
    assert told and len(told) == len(set(told)), "each is told once for each reason"
    told = [m["id"] for m in http.messages()]
    assert len(told) == len(set(told)), http.messages()


def delivering(keeper):
    """Returns whether an alert is being sent or has to be marked as sent."""
    names = set()
    for pid in keeper.pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as f:
            names.add(f.read().strip())
    waiting = [f for f in os.listdir(os.path.join(keeper.dumps_dir, "alerts")) if f.endswith(".json")]
    return waiting or names & {"wk-webhook", "wk-smtp"}


@pytest.fixture
def frozen(doomed, make_disk, http):
    """Yields a supervised world whose dump directory hangs at each write until it is thawed."""
    disk = make_disk(doomed.dumps_dir)
    doomed.configure({**FEW, **http.settings(), "alert": {"disk_low": "1MiB"}})
    doomed.init("--force")
    doomed.dump()
    doomed.start()
    http.wait_event("started")
    wait_for(lambda: not delivering(doomed), "its mark on the disk")
    run("fsfreeze", "-f", disk.at)
    yield doomed
    subprocess.run(["fsfreeze", "-u", disk.at], stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_disk_that_does_not_answer(frozen, victim, http):
    """While the disk hangs alerts about it and about the server are sent, the loop is never late, and only one process waits
    for the disk. When it answers the world is restored."""
    with Lateness() as lateness:
        victim.kill9()  # the alert is the first write
        http.wait_event("disk")
        http.wait_event("down")
        time.sleep(25)
        assert len(frozen.pids()) < 8, frozen.pids()
        status = frozen.run("--status", "--json").json
        assert status["state"] == "WAITING", status
        lateness.assert_quick(frozen, status)
    run("fsfreeze", "-u", frozen.dumps_dir)
    frozen.wait_state("WAITING")
    wait_for(lambda: any(m["event"] == "disk" and m["kind"] == "recovered" for m in http.messages()), "its end")
    victim.start()
    frozen.wait_state("UP")
    assert frozen.world.rows("player") and not broken_dumps(frozen)


@pytest.mark.slow
def test_a_disk_that_freezes_between_sending_and_noting(doomed, victim, make_disk, http):
    """If an alert was sent and cannot be marked, other alerts are not delayed and it is not sent again."""
    disk = make_disk(doomed.dumps_dir)
    doomed.configure({**FEW, **http.settings(), "alert": {"disk_low": "1MiB"}})
    doomed.init("--force")
    doomed.dump()
    http.mode = 500
    doomed.start()
    doomed.wait(lambda: doomed.status()["alerts"]["channels"]["webhook"]["last_error"], "a first try")
    run("fsfreeze", "-f", disk.at)
    http.mode = "ok"
    try:
        http.wait_event("started")
        victim.kill9()
        http.wait_event("down")
        assert http.events().count("started") == 1
    finally:
        run("fsfreeze", "-u", disk.at)
    queue = os.path.join(doomed.dumps_dir, "alerts")
    victim.start()
    http.wait_event("restored")
    wait_for(lambda: not [f for f in os.listdir(queue) if f.endswith(".json")], "all to be noted")
    assert http.events().count("started") == http.events().count("down") == 1, http.events()


@pytest.mark.needs("mount")
def test_a_loss_while_the_disk_is_full(doomed, victim, http, request):
    """A world that is lost while the disk is full is reported and restored."""
    keeper = doomed
    run("mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", keeper.dumps_dir)
    request.addfinalizer(lambda: run("umount", "-l", keeper.dumps_dir))
    keeper.configure({**FEW, **http.settings()})
    keeper.init("--force")  # the directory is new, but the sentinel exists
    keeper.dump()
    before = keeper.world.checksums()
    keeper.start()
    http.wait_event("started")
    with open(os.path.join(keeper.dumps_dir, "filler"), "wb", buffering=0) as f:
        try:
            while f.write(b"x" * 4096) == 4096:
                pass
        except OSError:
            pass
    assert os.statvfs(keeper.dumps_dir).f_bavail == 0
    victim.crash()
    keeper.wait(lambda: keeper.world.checksums() == before, "the world")
    keeper.wait_state("UP")
    http.wait_event("restoring")
