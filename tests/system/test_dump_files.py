"""The dump directory: names, manifests, modes, retention, rejected dumps, and a full disk."""
import contextlib
import glob
import gzip
import hashlib
import json
import os
import re
import shlex
import stat
import subprocess
import time

import pymysql
import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, NOTHING, unix
from wk.util import wait_for

pytestmark = pytest.mark.any_server

TABLE_KEYS = {"name", "engine", "rows", "bytes", "columns_hash", "rows_hash", "offset", "length",
              "auto_increment"}


def read(path):
    with open(path, "rb") as f:
        return f.read()


@pytest.mark.each_server
def test_manifest_describes_the_file(keeper):
    """Name, size, SHA-256, rows, times and server in the manifest match the file."""
    world, before = keeper.world, time.time()
    result = keeper.dump()
    (manifest,) = keeper.dumps()
    assert re.fullmatch(r"w1-\d{6}-\d{8}-\d{8}T?\d{6}Z", manifest["name"]), manifest["name"]
    assert manifest["name"] == result["name"]
    assert f"-{manifest['generation']:06d}-{manifest['sequence']:08d}-" in manifest["name"]
    data = read(result["path"])
    assert (manifest["file_size"], manifest["sha256"]) == (len(data),
                                                          hashlib.sha256(data).hexdigest())
    sql = gzip.decompress(data)
    assert manifest["bytes"] == len(sql)
    assert manifest["world"] == "w1" and manifest["engines"] == "memory"
    assert before - 2 <= manifest["at_unix"] <= time.time() + 2
    assert abs(unix(manifest["at"]) - manifest["at_unix"]) <= 1
    assert manifest["server"]["version"] in world.server.value("SELECT VERSION()")
    assert abs(manifest["server"]["start"] - world.server.start_time()) <= 1
    tables = {t["name"]: t for t in manifest["tables"]}
    assert {n: t["rows"] for n, t in tables.items() if not n.startswith("worldkeeper_")} == {
        "player": 2000, "fleet": 3000, "chat": 300, "mark": 1}
    assert manifest["rows"] == sum(t["rows"] for t in tables.values())
    for table in tables.values():
        assert TABLE_KEYS <= set(table), table
        part = gzip.decompress(data[table["offset"]:table["offset"] + table["length"]])
        assert table["rows"] == 0 or b"`" + table["name"].encode() + b"`" in part
    assert tables["player"]["auto_increment"] == 2001
    assert len(manifest["nonce"]) == 32


def test_gzip_itself_finds_the_file_whole(keeper):
    """gzip -t accepts a dump."""
    subprocess.run(["gzip", "-t", keeper.dump()["path"]], check=True)


def test_sequence_grows_and_list_shows_newest_first(keeper):
    """Dumps are ordered by their sequence, and --list shows the newest first."""
    names = [keeper.dump()["name"] for _ in range(3)]
    listed = keeper.ok("--list", "--json")["dumps"]
    assert [d["name"] for d in listed] == names[::-1]
    assert [m["sequence"] for m in keeper.dumps()] == sorted(
        (m["sequence"] for m in keeper.dumps()), reverse=True)
    assert names[-1] in keeper.ok("--list").out.split("\n")[0] + keeper.ok("--list").out


def test_modes_do_not_depend_on_umask(keeper):
    """Directories of dumps have mode 0700 and files 0600, whatever the umask, because they contain players' data."""
    mask = os.umask(0)
    try:
        keeper.dump()
    finally:
        os.umask(mask)
    for root, directories, files in os.walk(keeper.dumps_dir):
        assert stat.S_IMODE(os.stat(root).st_mode) == 0o700, root
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(root, name)).st_mode) == 0o600, name


@pytest.mark.each_server
@pytest.mark.parametrize("method", ["copy", "lock"])
def test_writers_wait_only_as_long_as_the_method_says(keeper, method):
    """With copy the game can write while the copies are read; with lock it waits until the end."""
    keeper.configure({"dump": {"method": method}})
    dumping = keeper.popen("--dump", fault="dump.table_read#1=stop")
    at_work = wait_stopped(keeper, "dump.table_read")
    with pytest.raises(pymysql.err.OperationalError, match="1205") if method == "lock" else contextlib.nullcontext():
        keeper.world.sql(f"SET lock_wait_timeout={1 if method == 'lock' else 60}", "UPDATE mark SET v=v+1")
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc == DONE, done


@pytest.mark.each_server
def test_an_emptied_world_is_never_dumped(doomed, victim):
    """A manual dump after a server restart is refused: an empty dump must not become the newest one."""
    good = doomed.dump()
    victim.crash()
    done = doomed.run("--dump", "--json")
    assert done.rc != DONE and done.json["ok"] is False, done
    assert [m["name"] for m in doomed.dumps()] == [good["name"]]
    doomed.ok("--verify")


def test_shrink_guard_puts_a_dump_in_quarantine(keeper, http):
    """With shrink_action = reject, a dump that lost most of a table's rows is moved to rejected/ with a reason and an alert; the
    older dump remains the newest."""
    keeper.configure({"dump": {"shrink_limit": "40%", "shrink_action": "reject"}, **http.settings()})
    good = keeper.dump()
    keeper.start()
    keeper.world.sql("DELETE FROM player WHERE id>100")
    done = keeper.run("--dump", "--json")
    assert done.rc != DONE, done
    assert "player" in done.json["error"]["text"]
    (rejected,) = keeper.rejected()
    assert "player" in rejected["rejected"] and "2000" in rejected["rejected"]
    assert [m["name"] for m in keeper.dumps()] == [good["name"]]
    assert "player" in json.dumps(http.wait_event("discarded")[0])
    assert keeper.ok("--list", "--json")["rejected"][0]["name"] == rejected["name"]
    assert keeper.ok("--restore", "--dry-run", "--force", "--json")["dump"] == good["name"]


def pinned(keeper):
    return {d["name"]: d["pinned"] for d in keeper.ok("--list", "--json")["dumps"] if d.get("pinned")}


def typed(command):
    """Returns the arguments of a worldkeeper command as a shell parses them, without --config."""
    return shlex.split(command)[3:]


def test_a_dump_that_shrank_counts(doomed, victim, http):
    """By default a dump that shrank is restored after the next loss. The dump before it is pinned, and the alert names the lost
    rows and the command that restores them."""
    doomed.configure({**http.settings(), "journal": {"mode": "off"}})
    before = doomed.dump()
    rows = doomed.world.rows()
    doomed.start()
    doomed.world.sql("DELETE FROM player WHERE id>100")
    done = doomed.run("--dump", "--json")
    assert done.rc == DONE, done
    new = done.result["name"]
    (lost,) = done.result["shrunk"]
    assert (lost["name"], lost["rows"], lost["rows_now"], lost["dump"]) == ("player", 2000, 100, before["name"])
    assert not doomed.rejected() and doomed.newest()["name"] == new
    assert list(pinned(doomed)) == [before["name"]] and "100 rows in 'player'" in pinned(doomed)[before["name"]]
    assert "pinned: the next dump" in doomed.run("--list").out
    alert = http.wait_event("discarded")[0]
    assert alert["what"] == "table player lost 1,900 of 2,000 rows", alert
    assert before["name"] in alert["doing"] and "7d" in alert["doing"], alert
    undo = alert["todo"].split(": ", 1)[1]
    victim.crash()
    doomed.wait(lambda: doomed.status().get("last_restore") and doomed.state() == "UP", "the world")
    assert doomed.status()["last_restore"]["dump"] == new, doomed.status()["last_restore"]
    assert doomed.world.value("SELECT COUNT(*) FROM player") == 100
    doomed.ok(*typed(undo))
    assert doomed.world.rows() == rows


def test_what_shrank_is_told_once(keeper, http):
    """A shrink is reported once; the next dump without a further shrink ends the condition."""
    keeper.configure(http.settings())
    keeper.dump()
    keeper.start()
    keeper.world.sql("DELETE FROM player")
    keeper.ok("--dump")
    keeper.wait(lambda: any("table player lost 2,000 of 2,000 rows" in t["what"] for t in keeper.status()["troubles"]),
                "the condition")
    keeper.ok("--dump")
    keeper.wait(lambda: not keeper.status()["troubles"], "the end of the condition")
    assert len([m for m in http.wait_event("discarded", 2) if "lost 2,000" in m["what"]]) == 1


def test_small_tables_never_alarm(keeper, http):
    """A table of 900 rows that loses 800, such as expired sessions, and a small table that is emptied cause no alert."""
    keeper.configure(http.settings())
    keeper.world.sql("CREATE TABLE session (id INT PRIMARY KEY) ENGINE=MEMORY", "CREATE TABLE three (id INT PRIMARY KEY) ENGINE=MEMORY",
                     "INSERT INTO session SELECT seq FROM seq_1_to_900", "INSERT INTO three VALUES (1),(2),(3)")
    keeper.dump()
    keeper.start()
    keeper.world.sql("DELETE FROM session WHERE id>100", "DELETE FROM three")
    done = keeper.dump()
    assert "shrunk" not in done and not pinned(keeper) and not keeper.status()["troubles"], done


def test_the_dump_before_a_shrink_is_kept(keeper):
    """The dump before a shrink is kept for keep_before_shrink, whatever the other retention rules say; afterwards it and its pin
    are deleted."""
    retention = {"keep_last": "1", "keep_within": "0", "keep_daily": "0", "keep_weekly": "0"}
    keeper.configure({"retention": retention})
    before = keeper.dump()["name"]
    keeper.world.sql("DELETE FROM player WHERE id>100")
    for _ in range(3):
        keeper.dump()
    assert [m["name"] for m in keeper.dumps()][-1] == before and len(keeper.dumps()) == 2
    keeper.configure({"retention": {**retention, "keep_before_shrink": "0"}})
    keeper.dump()
    assert before not in [m["name"] for m in keeper.dumps()]
    assert not glob.glob(os.path.join(keeper.dumps_dir, "*.pin"))
    keeper.world.sql("INSERT INTO player (nick,points) SELECT seq,0 FROM seq_1_to_3000")
    keeper.dump()
    keeper.world.sql("DELETE FROM player")
    keeper.dump()
    assert not glob.glob(os.path.join(keeper.dumps_dir, "*.pin")), "keep_before_shrink = 0"


def test_a_kill_never_leaves_the_rows_unpinned(keeper):
    """The pin is created before the dump that shrank. If --dump is killed at any step between, retention still keeps the older
    dump."""
    keeper.configure({"retention": {"keep_last": "1", "keep_within": "0", "keep_daily": "0", "keep_weekly": "0"}})
    before = keeper.dump()["name"]
    keeper.world.sql("DELETE FROM player WHERE id>100")
    for point in ("dump.verified", "dump.renamed", "dump.manifest_written"):
        keeper.finish(keeper.popen("--dump", fault=f"{point}=kill"))
        assert before in [m["name"] for m in keeper.dumps()], point
    keeper.dump()
    assert list(pinned(keeper)) == [before]


def test_a_world_is_measured_by_the_dump_it_was_restored_from(doomed, victim):
    """After an operator restored an older, smaller dump, the shrink guard compares with that dump, and the larger dump does not
    come back at the next loss."""
    doomed.configure({"dump": {"shrink_action": "reject"}})
    doomed.world.sql("DELETE FROM player WHERE id>300")
    old = doomed.dump()
    before = doomed.world.snapshot()
    doomed.world.sql("INSERT INTO player SELECT seq, CONCAT('cheat ',seq), 0, 0 FROM seq_9001_to_19000")
    doomed.dump()
    doomed.ok("--restore=" + old["name"], "--force")
    new = doomed.dump()
    assert not doomed.rejected() and new["generation"] > old["generation"]
    doomed.world.sql("DELETE FROM player WHERE id>9")
    done = doomed.run("--dump")
    assert done.rc != DONE and len(doomed.rejected()) == 1, done
    victim.crash()
    doomed.ok("--restore")
    doomed.world.assert_is(before)
    doomed.world.sql("DELETE FROM player WHERE id>9")
    done = doomed.run("--dump")
    assert done.rc != DONE, f"measured by what it was restored from: {done}"


def test_a_little_shrinking_is_normal(keeper):
    """A shrink within the limit does not reject the dump."""
    keeper.dump()
    keeper.world.sql("DELETE FROM player WHERE id>1100")
    keeper.dump()
    assert len(keeper.dumps()) == 2 and not keeper.rejected()


@pytest.mark.each_server
def test_changed_nonce_during_a_dump_discards_it(keeper):
    """If the sentinel's nonce changed during a dump, the dump is discarded, because it is not of one world."""
    good = keeper.dump()
    dumping = keeper.popen("--dump", fault="dump.streamed=stop")
    at_work = wait_stopped(keeper, "dump.streamed")
    keeper.world.sql("UPDATE worldkeeper_sentinel SET nonce=REPEAT('0',32)")
    go_on(at_work)
    done = keeper.finish(dumping)
    assert done.rc != DONE, done
    assert [m["name"] for m in keeper.dumps()] == [good["name"]]
    assert not keeper.parts()


def test_a_world_that_stays_small_is_believed(keeper):
    """With shrink_action = reject, a dump of a smaller world is accepted after several attempts, or at once with --force."""
    keeper.configure({"dump": {"shrink_action": "reject"}})
    keeper.dump()
    keeper.world.sql("DELETE FROM player WHERE id>100")
    done = keeper.run("--dump")
    assert done.rc != DONE, done
    keeper.dump("--force")
    assert len(keeper.dumps()) == 2
    keeper.world.sql("DELETE FROM player WHERE id>10")
    wait_for(lambda: keeper.run("--dump").rc == DONE, "the world to be believed")
    assert len(keeper.dumps()) == 3


def test_three_rejected_dumps_stay(keeper):
    """rejected/ keeps the last three dumps."""
    keeper.configure({"dump": {"shrink_action": "reject"}})
    keeper.dump()
    for rest in (900, 700, 500, 300):
        keeper.world.sql(f"DELETE FROM player WHERE id>{rest}")
        done = keeper.run("--dump")
        assert done.rc != DONE, done
    rejected = keeper.rejected()
    assert len(rejected) == 3
    assert len(glob.glob(os.path.join(keeper.dumps_dir, "rejected", "*.sql.gz"))) == 3
    assert len(keeper.dumps()) == 1


def test_retention_keeps_what_is_asked(keeper):
    """keep_last is the number of dumps to keep; older ones are deleted with file and manifest."""
    keeper.configure({"retention": {"keep_last": "2", "keep_within": "0s", "keep_hourly": "0",
                                    "keep_daily": "0", "keep_weekly": "0"}})
    names = [keeper.dump()["name"] for _ in range(4)]
    assert [m["name"] for m in keeper.dumps()] == names[:1:-1]
    assert len(glob.glob(os.path.join(keeper.dumps_dir, "*.sql.gz"))) == 2
    keeper.configure({"retention": {"keep_daily": "7"}})
    keeper.dump()
    assert len(keeper.dumps()) == 2  # all are of one day, which the newest represents


def test_a_clock_that_is_ahead_for_one_dump_deletes_nothing(keeper):
    """If the wall clock is days ahead during one dump, no older dump is deleted, and no pin expires. Once the clock has been there
    for a day, it is believed: the machine was off."""
    clocked = keeper.shim(clock=keeper.clock)
    keeper.configure({"retention": {"keep_last": "1", "keep_within": "24h", "keep_hourly": "0", "keep_daily": "0", "keep_weekly": "0",
                                    "keep_before_shrink": "7d"}})

    def dump(days):
        keeper.set_clock(int(days * 86400))
        done = keeper.finish(keeper.popen("--dump", **clocked))
        assert done.rc == DONE, done
        return keeper.newest()["name"]

    def kept():
        return [m["name"] for m in keeper.dumps()][::-1]

    names = [dump(0), dump(0)]
    keeper.world.sql("DELETE FROM player WHERE id>100")
    names += [dump(0), dump(10), dump(0)]
    assert kept() == names and list(pinned(keeper)) == [names[1]]
    names += [dump(20), dump(20.5)]
    assert kept()[:3] == names[:3] and list(pinned(keeper)) == [names[1]], "the clock has jumped half a day ago"
    dump(21.6)
    assert not set(names[:5]) & set(kept()) and not pinned(keeper), "the clock has been there for more than a day"


def test_retention_counts_intact_dumps_only(keeper):
    """A damaged newest dump never causes the deletion of an intact older one."""
    keeper.configure({"dump": {"shrink_action": "reject"},
                      "retention": {"keep_last": "1", "keep_within": "0s", "keep_daily": "0", "keep_weekly": "0"}})
    good = keeper.dump()
    broken = keeper.popen("--dump", fault="dump.manifest_written=kill")
    broken.wait()
    second = keeper.newest()
    assert {m["name"] for m in keeper.dumps()} == {good["name"], second["name"]}
    with open(keeper.path(second), "r+b") as f:
        f.truncate(50)
    done = keeper.run("--verify")
    assert done.rc != DONE, done
    keeper.world.sql("DELETE FROM player")  # the next dump is rejected, so that no dump may be deleted
    keeper.run("--dump")
    assert good["name"] in {m["name"] for m in keeper.dumps()}
    assert keeper.ok("--restore", "--dry-run", "--force", "--json")["dump"] == good["name"]


def test_a_dump_counts_though_an_old_one_cannot_be_removed(keeper, http):
    """If retention cannot delete an old dump, the new dump still counts as the newest, an alert says what failed, and the next
    dumps are made."""
    keeper.configure({**http.settings(), "retention": {"keep_last": "1", "keep_within": "0s", "keep_daily": "0",
                                                       "keep_weekly": "0"}})
    old = keeper.dump()
    keeper.start()
    os.remove(keeper.path(old))
    os.makedirs(keeper.path(old) + "/in the way")
    done = keeper.run("--dump", "--json")
    assert done.rc != DONE and "the dump is stored, but" in done.json["error"]["text"], done
    keeper.wait(lambda: keeper.status()["last_dump"]["name"] == done.json["result"]["name"], "it to count")
    assert "the dump is stored, but" in json.dumps(http.wait_event("discarded")[0])
    keeper.dump()
    keeper.wait(lambda: not keeper.status()["troubles"], "the end of it")


def test_left_over_parts_are_cleared_and_never_chosen(keeper):
    """The incomplete file of a killed dump is not restored, and the next dump deletes it."""
    keeper.popen("--dump", fault="dump.streamed=kill").wait()
    assert keeper.parts() and not keeper.dumps()
    done = keeper.run("--restore", "--force")
    assert done.rc == NOTHING, done
    assert keeper.world.rows() == 2000
    keeper.dump()
    assert not keeper.parts()


def test_a_file_without_manifest_is_no_dump(keeper):
    """A dump file without its manifest is neither listed nor restored."""
    good = keeper.dump()
    other = keeper.dump()
    os.unlink(os.path.join(keeper.dumps_dir, other["name"] + ".json"))
    assert [d["name"] for d in keeper.ok("--list", "--json")["dumps"]] == [good["name"]]
    assert keeper.ok("--restore", "--dry-run", "--force", "--json")["dump"] == good["name"]
    assert keeper.dump()["name"] not in (good["name"], other["name"])


def test_sequence_never_goes_back(keeper):
    """Sequence numbers grow across manual dumps and dumps of a supervisor."""
    first = keeper.dump()
    keeper.start()
    second = keeper.dump()
    keeper.stop()
    assert second["name"] > first["name"]
    assert second["name"].rsplit("-", 1)[0] > first["name"].rsplit("-", 1)[0]


def test_disk_full_during_a_dump(make_keeper, world, http, small_disk):
    """If the disk is full, old dumps stay intact, the error mentions the space, an alert is sent, and the next dump works once
    there is space."""
    path, seen, prefix = small_disk
    keeper = make_keeper(world, {"dump": {"dir": path}, **http.settings()})
    keeper.dumps_dir, keeper.prefix = seen, prefix
    keeper.init()
    good = keeper.dump()
    keeper.start()
    filler = os.path.join(seen, "filler")
    with open(filler, "wb", buffering=0) as f:
        with pytest.raises(OSError):  # fills the last page, whatever the supervisor writes meanwhile
            while True:
                f.write(b"x" * 4096)
        f.truncate(f.tell() - 12 * 1024)
    done = keeper.run("--dump", "--json")
    assert done.rc == 1, done
    text = json.dumps(done.json["error"])
    assert "space" in text.lower() or "room" in text.lower(), text
    assert keeper.run("--verify", "--json").result["dumps"][0]["whole"] is True
    assert [m["name"] for m in keeper.dumps()] == [good["name"]]
    assert not keeper.parts()
    keeper.wait_state("UP")
    os.unlink(filler)
    assert keeper.dump()["name"] != good["name"]
    http.wait_event("disk", "discarded", "stale")
