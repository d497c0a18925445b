"""Ledgers with `keep`: each row that was rolled up is in exactly one file, whatever happened meanwhile."""
import csv
import glob
import gzip
import io
import json
import os
import random
import shlex
import subprocess
import threading
import time

import pytest
from test_ledger import ENGINES, LEDGER, give_new_ids, make, summed, totals
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, USER
from wk.util import fill_up

pytestmark = pytest.mark.third_on_mysql

PRIVILEGES = "DELETE, CREATE VIEW, TRIGGER"
OLD = "'2026-11-16 10:00:00'"
POINTS = ["ledger.proven", "ledger.named", "ledger.kept", "ledger.filed", "ledger.marked", "ledger.requests", "ledger.added",
          "ledger.deleted", "ledger.expired"]


def files(keeper, ending=".csv.gz"):
    return sorted(glob.glob(os.path.join(keeper.dumps_dir, "xp-*" + ending)))


def kept(keeper):
    """Returns the rows of all files as text."""
    rows = []
    for path in files(keeper):
        assert os.stat(path).st_mode & 0o777 == 0o600
        with gzip.open(path, "rb") as f:
            data = f.read().decode()
        assert data.endswith("\r\n")
        table = list(csv.reader(io.StringIO(data, newline="")))
        rows += [dict(zip(table[0], row)) for row in table[1:]]
        with open(path[:-len("gz")] + "json") as f:
            manifest = json.load(f)
        assert manifest["rows"] == len(table) - 1 and manifest["file_size"] == os.path.getsize(path), manifest
    return rows


def ids(keeper):
    return sorted(int(row["id"]) for row in kept(keeper))


def gains(world, rows, at=OLD):
    world.sql("INSERT INTO gains (player,mini,xp,at) VALUES " + ",".join(f"({p},{m},{x},{at})" for p, m, x in rows))


def some(n, seed=7):
    rng = random.Random(seed)
    return [(rng.randrange(40), rng.randrange(3), rng.randrange(1, 1000)) for _ in range(n)]


@pytest.fixture(params=ENGINES)
def ledger(request, keeper):
    make(keeper.world, request.param)
    keeper.configure({"ledger xp": {**LEDGER, "keep": "90d"}})
    keeper.server.grant(USER + "@localhost", keeper.world.schema, PRIVILEGES)
    keeper.init()
    keeper.engine = request.param
    return keeper


def test_rows_are_in_files_when_they_are_gone(ledger):
    world = ledger.world
    for seed in range(3):
        gains(world, some(1500, seed))
    want = sorted(map(tuple, world.sql("SELECT id,player,mini,xp FROM gains")))
    done = ledger.ok("--rollup", "--json")["ledgers"][0]
    assert done["rolled_up"] == done["kept"] == 4500 and len(files(ledger)) == 1
    got = sorted((int(r["id"]), int(r["player"]), int(r["mini"]), int(r["xp"])) for r in kept(ledger))
    assert got == want
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["kept"] == 0 and len(files(ledger)) == 1
    gains(world, some(10))
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["kept"] == 10 and len(files(ledger)) == 2
    assert len(ids(ledger)) == len(set(ids(ledger))) == 4510
    assert not files(ledger, ".part") and not files(ledger, ".undone")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("batch", ["", ",ledger.batch=300"])
def test_a_run_that_is_killed_anywhere(ledger, point, batch):
    """After repeated kills at the same point, each row is in a total once and in a file once."""
    world, wanted = ledger.world, {}
    if point == "ledger.expired":
        ledger.configure({"ledger xp": {**LEDGER, "keep": "1s"}})
    for round_ in range(3):
        new = some(400, round_)
        gains(world, new)
        for p, m, x in new:
            wanted[p, m] = wanted.get((p, m), 0) + x
        whole = point not in ("ledger.named", "ledger.kept", "ledger.expired")  # at these points a file may lack its manifest
        before = {int(r[0]) for r in world.sql("SELECT id FROM gains")} | set(ids(ledger) if whole else [])
        ledger.run("--rollup", fault=f"{point}#{round_ + 1}=kill,ledger.piece=90{batch}")
        assert totals(world) == wanted, (point, round_)
        if whole:
            assert {int(r[0]) for r in world.sql("SELECT id FROM gains")} | set(ids(ledger)) >= before
    ledger.configure({"ledger xp": {**LEDGER, "keep": "90d"}})
    ledger.ok("--rollup", "--json", fault="ledger.piece=90")
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    if point != "ledger.expired":
        assert ids(ledger) == list(range(1, 1201)), (point, len(ids(ledger)))


@pytest.mark.parametrize("count", [30, 700])
def test_ids_that_begin_again_after_an_interrupted_file(ledger, count):
    """If ids restart after an interrupted file, new rows with ids of that file are stored in a file of their own."""
    world, new = ledger.world, [(p, m, 10000 + x) for p, m, x in some(700, 3)]
    gains(world, some(100))
    ledger.ok("--rollup", "--json")
    gains(world, some(400, 2))
    ledger.run("--rollup", fault="ledger.filed=kill")
    before = sum(totals(world).values()) - sum(summed(world).values())
    world.sql("TRUNCATE gains")
    gains(world, new[:count])
    done = ledger.run("--rollup", "--json")
    if done.rc:
        give_new_ids(world, done)
        ledger.ok("--rollup", "--json")
    left = world.sql("SELECT player,mini,xp FROM gains")  # MEMORY: these rows are in no total
    assert not left or ledger.engine == "MEMORY" and count == 700 and len(left) < 100, left
    filed = [tuple(int(row[c]) for c in ("player", "mini", "xp")) for row in kept(ledger)]
    assert sorted([f for f in filed if f[2] > 10000] + list(left)) == sorted(new[:count])
    assert sum(totals(world).values()) == before + sum(x for _, _, x in new[:count]) - sum(x for _, _, x in left)


def test_every_kind_of_value_is_exact(keeper):
    world = keeper.world
    world.sql("CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player VARCHAR(20) CHARACTER SET utf8mb4 "
              "NOT NULL, mini INT NOT NULL, xp DECIMAL(30,10) NOT NULL, at DATETIME(3) NOT NULL, why VARCHAR(60) CHARACTER SET "
              "latin1 NULL, raw VARBINARY(20) NULL, f DOUBLE NULL, e ENUM('ä','b') CHARACTER SET utf8mb4 NULL, bits BIT(9) NULL, "
              "KEY k USING BTREE (player,mini,id)) ENGINE=MEMORY")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None, "keep": "90d"}})
    keeper.server.grant(USER + "@localhost", world.schema, PRIVILEGES)
    keeper.init()
    world.sql("INSERT INTO gains VALUES (1,'Zoë, \"x\"',1,'-12345678901234567890.0123456789','2026-11-16 10:00:00.125',"
              "'a\\r\\nb\"\"é',x'00ff2c22',0.1,'ä',b'101010101'),(2,'',1,'0.5','2026-11-16 10:00:00',NULL,NULL,NULL,NULL,NULL),"
              "(3,'x',1,'1','2026-11-16 10:00:00','',x'',-1e-300,'b',b'0')")
    keeper.ok("--rollup", "--json")
    with gzip.open(files(keeper)[0], "rb") as f:
        data = f.read().decode()
    got = list(csv.reader(io.StringIO(data, newline="")))
    assert sorted(got[1:]) == sorted([
        ["1", 'Zoë, "x"', "1", "-12345678901234567890.0123456789", "2026-11-16 10:00:00.125", 'a\r\nb""é', "0x00ff2c22", "0.1",
         "ä", "0x0155"],
        ["2", "", "1", "0.5000000000", "2026-11-16 10:00:00.000", "", "", "", "", ""],
        ["3", "x", "1", "1.0000000000", "2026-11-16 10:00:00.000", "", "0x", "-1e-300", "b", "0x0000"]])
    assert ',"",1,0.5000000000,2026-11-16 10:00:00.000,,,,,\r\n' not in data.split("\r\n")[0]
    assert '2,"",1,0.5000000000,2026-11-16 10:00:00.000,,,,,\r\n' in data  # NULL has no quotes, an empty text has
    assert keeper.ok("--rollup", "--verify", "--json")["ledgers"][0]["ok"]


def test_files_that_are_too_old(ledger):
    """Files are deleted by the time in their names, not by their modification time."""
    world = ledger.world
    gains(world, some(50))
    ledger.ok("--rollup", "--json")
    os.utime(files(ledger)[0], (0, 0))
    gains(world, some(50))
    ledger.ok("--rollup", "--json")
    assert len(files(ledger)) == 2
    ledger.configure({"ledger xp": {**LEDGER, "keep": "1s"}})
    for path in files(ledger):
        os.utime(path)
    time.sleep(1.1)
    ledger.ok("--rollup", "--json")
    assert files(ledger) == [] == files(ledger, ".csv.json")


def by_clock(keeper, days, *args):
    """Runs a command whose wall clock is so many days ahead."""
    keeper.set_clock(int(days * 86400))
    done = keeper.finish(keeper.popen(*args, **keeper.shim(clock=keeper.clock)))
    assert done.rc == DONE, done


@pytest.mark.parametrize("ledger", ["MEMORY"], indirect=True)
def test_a_clock_that_is_ahead_for_one_rollup_deletes_no_file(ledger):
    """If the wall clock is years ahead during one rollup, no file expires. Once the clock has been there for a day, it is
    believed."""
    by_clock(ledger, 0, "--dump")
    for days in (0, 1000):
        gains(ledger.world, some(50))
        by_clock(ledger, days, "--rollup")
        by_clock(ledger, 0, "--rollup")
    names = files(ledger)
    assert len(names) == 2
    by_clock(ledger, 1000, "--dump")
    by_clock(ledger, 1000.5, "--rollup")
    assert files(ledger) == names, "the clock has jumped half a day ago"
    by_clock(ledger, 1001.2, "--rollup")
    assert files(ledger) == names[1:], "the clock has been there for more than a day"


def test_a_file_of_a_time_that_was_taken_back(ledger):
    """After the world from before a rollup was restored, its rows are in the ledger again, so that their file no longer
    counts."""
    world = ledger.world
    if ledger.engine == "InnoDB":
        ledger.configure({"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    gains(world, some(50))
    wanted = totals(world)
    ledger.dump()
    ledger.ok("--rollup", "--json")
    assert ids(ledger) == list(range(1, 51))
    ledger.ok("--restore", "--force")
    assert totals(world) == wanted
    gains(world, [(1, 1, 5)])
    done = ledger.ok("--rollup", "--json")["ledgers"][0]
    assert done["rolled_up"] == 51 and ids(ledger) == list(range(1, 52))
    assert len(files(ledger, ".gz.undone")) == 1


def test_a_time_that_was_taken_back_and_given_again(ledger):
    """A restore to before a rollup and another one to after it: the file counts again, and the one written meanwhile does not."""
    world = ledger.world
    if ledger.engine == "InnoDB":
        ledger.configure({"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    gains(world, some(50))
    before = ledger.dump()["name"]
    ledger.ok("--rollup", "--json")
    wanted = totals(world)
    after = ledger.dump()["name"]
    ledger.ok("--restore=" + before, "--force")
    gains(world, [(1, 1, 5)])
    ledger.ok("--rollup", "--json")
    assert len(files(ledger)) == len(files(ledger, ".gz.undone")) == 1 and ids(ledger) == list(range(1, 52))
    ledger.ok("--restore=" + after, "--force")
    assert totals(world) == wanted
    gains(world, [(1, 1, 7)])
    done = ledger.ok("--rollup", "--json")["ledgers"][0]
    assert done["kept"] == 1 and len(files(ledger)) == 2 and len(files(ledger, ".gz.undone")) == 1
    assert len(ids(ledger)) == len(set(ids(ledger))) == 51 and ids(ledger)[:50] == list(range(1, 51))
    told = ledger.ok("--rollup", "--verify", "--json")["ledgers"][0]
    assert told["ok"] and not told["unknown"] and told["file_rows"] == told["rolled_up"] == 51, told


@pytest.fixture(params=ENGINES)
def on_small_disk(request, make_keeper, world, small_disk):
    """Returns a keeper of a ledger whose files are on a small disk."""
    path, seen, prefix = small_disk
    keeper = make_keeper(world, {"dump": {"dir": path}, "ledger xp": {**LEDGER, "keep": "90d"}})
    keeper.dumps_dir, keeper.prefix = seen, prefix
    make(world, request.param)
    keeper.server.grant(USER + "@localhost", world.schema, PRIVILEGES)
    return keeper.init()


def test_a_disk_that_is_full(on_small_disk, world):
    """If the disk is full, nothing is rolled up and no incomplete file remains; once there is space, the rollup works."""
    keeper, seen = on_small_disk, on_small_disk.dumps_dir
    rng = random.Random(5)
    for _ in range(10):
        gains(world, [(rng.randrange(10 ** 9), rng.randrange(10 ** 9), rng.randrange(10 ** 9)) for _ in range(3000)])
    wanted, all_rows = len(totals(world)), world.sql("SELECT COUNT(*),SUM(xp) FROM gains")
    filler = os.path.join(seen, "filler")
    room = os.statvfs(seen)
    with open(filler, "wb") as f:
        f.write(b"x" * (room.f_bavail * room.f_bsize - 12 * 1024))
    done = keeper.run("--rollup", "--json")
    assert done.rc == 1 and done.json["error"]["class"] == "no-space", done
    assert world.sql("SELECT COUNT(*),SUM(xp) FROM gains") == all_rows and len(totals(world)) == wanted
    assert files(keeper) == files(keeper, ".part") == []
    world.sql("DELETE FROM gains WHERE id>3000")
    os.unlink(filler)
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["kept"] == 3000
    assert ids(keeper) == list(range(1, 3001))


def test_a_file_that_cannot_be_written(ledger):
    world = ledger.world
    gains(world, some(50))
    wanted = totals(world)
    blocked = os.path.join(ledger.dumps_dir, "xp-00000001.csv.gz.part")
    os.mkdir(blocked)
    done = ledger.run("--rollup", "--json")
    assert done.rc != 0 and "xp-00000001.csv.gz.part" in done.json["error"]["text"], done
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((50,),)
    os.rmdir(blocked)
    ledger.ok("--rollup", "--json")
    assert ids(ledger) == list(range(1, 51))


def test_no_room_for_the_manifest(on_small_disk, world):
    """If the disk is full once the file has its name, the file is removed at once: its rows are still in the ledger."""
    keeper, seen = on_small_disk, on_small_disk.dumps_dir
    gains(world, some(100))
    run = keeper.popen("--rollup", "--json", fault="ledger.named=stop")
    pids = wait_stopped(keeper, "ledger.named=stop")
    assert len(files(keeper)) == 1
    filler = os.path.join(seen, "filler")
    fill_up(filler)
    go_on(pids)
    done = keeper.finish(run)
    assert done.rc == 1 and done.json["error"]["class"] == "no-space", done
    assert glob.glob(os.path.join(seen, "xp-*")) == [] and world.sql("SELECT COUNT(*) FROM gains") == ((100,),)
    os.unlink(filler)
    assert keeper.ok("--rollup", "--json")["ledgers"][0]["kept"] == 100
    assert ids(keeper) == list(range(1, 101)) and not files(keeper, ".undone")


# ---- rows that a game has locked ----

def lock(world, *rows, before=None):
    """Locks rows of an InnoDB ledger until unlock(); then ends the session `before`."""
    game = world.server.admin(world.schema, autocommit=False)
    with game.cursor() as cur:
        cur.execute(f"SELECT xp FROM gains WHERE id IN ({','.join(map(str, rows))}) FOR UPDATE")
    unlock(before)
    return game


def unlock(game):
    if game:
        game.commit()
        game.close()


@pytest.mark.parametrize("ledger", ["InnoDB"], indirect=True)
def test_another_row_is_locked_at_the_end_of_each_run(ledger):
    """A file is deleted when it is older than `keep` and none of its rows is left, whatever rows of later files are locked."""
    world, game = ledger.world, None
    ledger.configure({"ledger xp": {**LEDGER, "keep": "1s"}})
    for n in range(4):
        gains(world, some(10, n))
        game = lock(world, 10 * n + 5, before=game)
        ledger.ok("--rollup", "--json")
        assert world.sql("SELECT id FROM gains") == ((10 * n + 5,),)
        assert [os.path.basename(path)[:11] for path in files(ledger)] == [f"xp-{n + 1:08}"]
        assert world.sql("SELECT id FROM xp_mark WHERE what='filed'") == (((n,),) if n else ())  # the newest file waits
        time.sleep(1.1)
    unlock(game)
    ledger.ok("--rollup", "--json")
    assert world.sql("SELECT COUNT(*) FROM gains") == ((0,),) and files(ledger) == files(ledger, ".csv.json") == []


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ledger", ["InnoDB"], indirect=True)
@pytest.mark.parametrize("point", ["ledger.named", "ledger.kept", "ledger.filed", "ledger.added", "ledger.closed"])
def test_locked_rows_and_killed_runs(ledger, point):
    """Each run ends with another row locked, every other run is killed: each row is in a total once and in a file once."""
    world, game, wanted = ledger.world, None, {}
    for n in range(6):
        new = some(20, n)
        gains(world, new)
        for p, m, x in new:
            wanted[p, m] = wanted.get((p, m), 0) + x
        game = lock(world, 20 * n + 5, 20 * n + 6 + n, before=game)
        if n % 2:
            ledger.run("--rollup", fault=f"{point}=kill,ledger.piece=9")
        else:
            ledger.ok("--rollup", "--json", fault="ledger.piece=9,ledger.batch=9")
        assert totals(world) == wanted, n
    unlock(game)
    ledger.ok("--rollup", "--json")
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    assert ids(ledger) == list(range(1, 121))
    one = verified(ledger)
    assert one["file_rows"] == one["rolled_up"] == 120 and not one["unknown"], one


def lock_at_random(world, seed, end, problems):
    """Locks rows and totals in any order, so that games and runs wait for each other, until `end` is set."""
    rng = random.Random(seed)
    while not end.is_set():
        game = world.server.admin(world.schema, autocommit=False)
        try:
            with game.cursor() as cur:
                cur.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # locks no gap, in which rows are inserted
                cur.execute("SET innodb_lock_wait_timeout=1")
                if rng.random() < 0.5:
                    cur.execute(f"SELECT xp FROM xp_rollup WHERE player={rng.randrange(40)} AND mini={rng.randrange(3)} FOR UPDATE")
                for _ in range(rng.randrange(1, 4)):
                    cur.execute(f"SELECT xp FROM gains WHERE id>={rng.randrange(500)} LIMIT 3 FOR UPDATE")
                    time.sleep(rng.random() / 20)
        except Exception as e:  # pylint: disable=broad-except; the test says so
            if e.args[0] not in (1205, 1213):
                problems.append(e)
        unlock(game)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("ledger", ["InnoDB"], indirect=True)
@pytest.mark.parametrize("seed", range(4))
def test_random_locks_and_killed_runs(ledger, seed):
    """Games lock rows and totals while runs are killed and pieces are repeated: each row is in a total once and in a file once."""
    world, rng, end, problems, wanted, rows = ledger.world, random.Random(seed), threading.Event(), [], {}, 0
    games = [threading.Thread(target=lock_at_random, args=(world, f"{seed} {n}", end, problems)) for n in range(3)]
    for game in games:
        game.start()
    try:
        for _ in range(15):
            new = some(rng.randrange(1, 60), rng.random())
            gains(world, new)
            rows += len(new)
            for p, m, x in new:
                wanted[p, m] = wanted.get((p, m), 0) + x
            kill = f"{rng.choice(POINTS)}#{rng.randrange(1, 4)}=kill," if rng.random() < 0.5 else ""
            ledger.run("--rollup", fault=f"{kill}ledger.piece={rng.randrange(3, 40)},ledger.batch={rng.randrange(5, 60)}")
            assert totals(world) == wanted
    finally:
        end.set()
        for game in games:
            game.join()
    assert not problems, problems
    ledger.ok("--rollup", "--json")
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    assert ids(ledger) == list(range(1, rows + 1))
    assert not verified(ledger)["unknown"]


@pytest.mark.parametrize("ledger", ["InnoDB"], indirect=True)
def test_a_row_of_an_open_file_was_updated(ledger):
    """An updated row is written to a second file, and after a kill it is found in that one, although the first one has its id,
    too."""
    world = ledger.world
    gains(world, some(20))
    game = lock(world, *range(1, 11))
    ledger.ok("--rollup", "--json")
    with game.cursor() as cur:
        cur.execute("UPDATE gains SET xp=xp+5000 WHERE id<10")
    unlock(game)
    game = lock(world, 10)
    wanted = totals(world)
    ledger.run("--rollup", fault="ledger.filed=kill")
    unlock(game)
    for _ in range(2):
        ledger.ok("--rollup", "--json")
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    got = [(int(row["id"]), int(row["xp"]) > 5000) for row in kept(ledger)]
    assert sorted(got) == sorted([(n, False) for n in range(1, 21)] + [(n, True) for n in range(1, 10)])


def test_files_that_were_set_aside_expire(ledger):
    """Files of killed runs, which were set aside with or without their manifest, are deleted when they are older than `keep`.
    Files with other names stay."""
    world = ledger.world
    for n, point in enumerate(["ledger.named", "ledger.kept", "ledger.named"]):
        gains(world, some(200, n))
        ledger.run("--rollup", fault=f"{point}=kill")
    ledger.ok("--rollup", "--json")
    assert len(files(ledger, ".csv.gz.undone")) == 3 and len(files(ledger, ".csv.json.undone")) == 1
    path = files(ledger)[0]
    others = [path.replace("/xp-", "/xp2-") + ".undone", path + ".undone.1", path + ".damaged"]
    for path in others:
        with open(path, "w"):
            pass
    ledger.configure({"ledger xp": {**LEDGER, "keep": "1s"}})
    time.sleep(1.1)
    ledger.ok("--rollup", "--json")
    assert sorted(name for name in os.listdir(ledger.dumps_dir) if name.startswith("xp")) == sorted(map(os.path.basename, others))


# ---- request ids ----

@pytest.fixture(params=ENGINES)
def requests(request, keeper):
    world = keeper.world
    world.sql("CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
              "xp INT NOT NULL, at DATETIME NOT NULL, token VARCHAR(36) NULL, UNIQUE KEY (token), KEY k USING BTREE "
              f"(player, mini, id)) ENGINE={request.param}")
    keeper.configure({"ledger xp": {**LEDGER, "levels": None, "request": "token", "request_keep": "1h"}})
    keeper.server.grant(USER + "@localhost", world.schema, PRIVILEGES)
    keeper.init()
    keeper.engine = request.param
    return keeper


def pay(world, token, xp=1, con=None):
    """Inserts a row with this request id. Returns True if it was inserted, False if it was refused as a repeat, and None after a
    lock conflict."""
    own = con is None
    con = con or world.server.admin(world.schema)
    try:
        with con.cursor() as cur:
            cur.execute("INSERT INTO gains (player,mini,xp,at,token) VALUES (1,1,%s,'2026-11-16 10:00:00',%s)", (xp, token))
        con.commit()
        return True
    except Exception as e:
        if e.args[0] not in (1062, 1213, 1205):
            raise
        con.rollback()
        return False if e.args[0] == 1062 else None
    finally:
        if own:
            con.close()


def test_a_request_that_comes_again(requests):
    world = requests.world
    assert pay(world, "a") and pay(world, None) and pay(world, None) and not pay(world, "a")
    requests.ok("--rollup", "--json")
    assert world.sql("SELECT COUNT(*) FROM gains") == ((0,),)
    assert not pay(world, "a") and pay(world, "b") and pay(world, None)
    assert totals(world) == {(1, 1): 5}
    requests.configure({"ledger xp": {**LEDGER, "levels": None, "request": "token", "request_keep": "1s"}})
    time.sleep(1.2)
    requests.ok("--rollup", "--json")
    assert pay(world, "a"), "request_keep has passed"


def test_a_request_and_a_clock_that_jumps(requests):
    """If the clock jumps ahead, request ids expire only after a day. The server's clock dates them, and cannot be set here, so
    the jump is shown by a dump and a request that are dated 1000 days back."""
    world = requests.world
    requests.configure({"ledger xp": {**LEDGER, "levels": None, "request": "token", "request_keep": "7d"}})
    by_clock(requests, -1000, "--dump")
    assert pay(world, "a")
    requests.ok("--rollup", "--json")
    world.sql("UPDATE xp_request SET at=at-1000*86400000")
    requests.ok("--rollup", "--json")
    assert not pay(world, "a"), "the clock has jumped just now"
    by_clock(requests, -1.1, "--dump")
    requests.ok("--rollup", "--json")
    assert pay(world, "a"), "the clock has been there for more than a day"


def test_a_request_after_a_restore(requests):
    """Trigger and request ids are restored with the world."""
    world = requests.world
    if requests.engine == "InnoDB":
        requests.configure({"dump": {"engines": "all"}, "restore": {"scope": "all"}})
    pay(world, "a")
    requests.ok("--rollup", "--json")
    requests.dump()
    requests.ok("--restore", "--force")
    assert not pay(world, "a") and pay(world, "b")
    world.sql("DROP TABLE gains, xp_request, xp_rollup, xp_mark", "DROP VIEW xp_total")
    requests.ok("--restore", "--force", "--with-code")
    assert not pay(world, "a") and pay(world, "b"), "made anew from the dump"


@pytest.mark.parametrize("point", ["ledger.requests", "ledger.added", "ledger.deleted"])
def test_a_request_and_a_killed_run(requests, point):
    world = requests.world
    pay(world, "a")
    requests.run("--rollup", fault=point + "=kill")
    assert not pay(world, "a")
    requests.ok("--rollup", "--json")
    assert not pay(world, "a") and totals(world) == {(1, 1): 1}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
def test_requests_while_rows_are_rolled_up(requests, level):
    """Writers insert rows with the same request ids again, their own and each other's, while rollups run: each request
    counts once."""
    world, end, problems = requests.world, threading.Event(), []
    requests.configure({"ledger xp": {**LEDGER, "levels": None, "request": "token", "request_keep": "1h", "rollup_after": "0"}})
    paid = [0] * 4

    def play(n):
        rng, con = random.Random(n), world.server.admin(world.schema)
        with con.cursor() as cur:
            cur.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        try:
            i = 0
            while not end.is_set():
                i += 1
                token = f"t{i - rng.randrange(min(i, 30))}"
                with con.cursor() as cur:
                    cur.execute("SELECT COUNT(*) FROM xp_request")  # opens a snapshot from before the insert
                paid[n] += pay(world, token, 1, con) is True
        except Exception as e:
            problems.append(e)
        con.close()
    threads = [threading.Thread(target=play, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    try:
        for _ in range(25):
            requests.ok("--rollup", "--json")
    finally:
        end.set()
        for t in threads:
            t.join()
    assert not problems, problems
    tokens = world.sql("SELECT COUNT(*) FROM (SELECT token FROM xp_request UNION SELECT token FROM gains) x")[0][0]
    assert sum(paid) == tokens == totals(world)[1, 1], (paid, tokens)


# ---- --verify ----

def verified(keeper, rc=0):
    done = keeper.run("--rollup", "--verify", "--json")
    assert done.rc == rc, done
    one = done.json["result"]["ledgers"][0]
    assert one["ok"] == (rc == 0)
    return one


def test_verify_of_what_is_well(ledger):
    world = ledger.world
    assert verified(ledger)["unknown"] == ["no file exists to compare totals with"]
    for seed in range(3):
        gains(world, some(700, seed))
        ledger.ok("--rollup", "--json")
    gains(world, some(7))
    one = verified(ledger)
    assert (one["rows"], one["rolled_up"], one["files"], one["file_rows"]) == (7, 2100, 3, 2100), one
    assert not one["unknown"] and not one["problems"], one
    assert "2,100" in ledger.run("--verify", "--rollup").out


@pytest.mark.parametrize("damage, words", [
    ("UPDATE xp_rollup SET xp=xp+1 LIMIT 1", "its total differs from the sum"),
    ("UPDATE xp_rollup SET `rows`=`rows`-1 LIMIT 1", "rows in files"),
    ("UPDATE xp_rollup SET end_id=end_id+1 ORDER BY end_id LIMIT 1", "its end_id"),
    ("DELETE FROM xp_rollup LIMIT 1", "0 in its total")])
def test_verify_of_a_total_that_was_changed(ledger, damage, words):
    gains(ledger.world, some(200))
    ledger.ok("--rollup", "--json")
    ledger.world.sql(damage)
    assert words in str(verified(ledger, 6)["problems"])


def test_verify_of_totals_that_went_back(ledger):
    """Totals with fewer rows than when the newest file was begun are reported with the difference."""
    for seed in range(2):
        gains(ledger.world, some(50, seed))
        ledger.ok("--rollup", "--json")
    ledger.world.sql("DELETE FROM xp_rollup WHERE `rows`>0")
    assert "totals have 50 rows fewer than when the newest file was begun" in str(verified(ledger, 6)["problems"])


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest", "middle"])
def test_verify_of_files_that_were_changed(ledger, damage):
    for seed in range(3):
        gains(ledger.world, some(200, seed))
        ledger.ok("--rollup", "--json")
    path = files(ledger)[{"middle": 1, "gone": 2}.get(damage, 0)]
    with open(path, "rb") as f:
        data = bytearray(f.read())
    if damage in ("gone", "middle"):
        os.unlink(path)
        os.unlink(path[:-2] + "json")
    elif damage == "manifest":
        os.unlink(path[:-2] + "json")
    else:
        data[len(data) // 2] ^= 1
        with open(path, "wb") as f:
            f.write(data if damage == "flip" else data[:-20])
    problems = verified(ledger, 6)["problems"]
    words = {"middle": "with 200 rows is missing", "gone": "rolled up since the newest file"}.get(damage, "csv")
    assert words in str(problems), problems


def test_verify_says_what_cannot_be_known(ledger):
    """--verify lists as unknown that no file exists, and how many rows were rolled up before `keep` was set."""
    ledger.configure({"ledger xp": {**LEDGER, "keep": "0"}})
    gains(ledger.world, some(100))
    ledger.ok("--rollup", "--json")
    assert verified(ledger)["unknown"] == ["no file exists to compare totals with: keep is 0"]
    ledger.configure({"ledger xp": {**LEDGER, "keep": "90d"}})
    gains(ledger.world, some(50))
    ledger.ok("--rollup", "--json")
    assert "100 rows were rolled up before the oldest file" in verified(ledger)["unknown"][0]


def test_verify_after_ids_began_again(ledger):
    """The statements of a refused run give rows new ids; --verify does not report a wrong total for that."""
    world = ledger.world
    gains(world, some(300))
    ledger.ok("--rollup", "--json")
    world.sql("TRUNCATE gains")
    gains(world, some(20))
    if ledger.engine == "MEMORY":
        give_new_ids(world, ledger.run("--rollup", "--json"))
    assert not verified(ledger)["problems"]
    ledger.ok("--rollup", "--json")
    one = verified(ledger)
    assert not one["problems"] and not one["unknown"] and one["file_rows"] == one["rolled_up"] == 320, one


def test_the_mark_of_files_is_lost(ledger):
    """If the position of the files is lost, files stay and the rollup is refused with the statement that restores it."""
    world = ledger.world
    gains(world, some(300))
    ledger.ok("--rollup", "--json")
    gains(world, some(5))
    world.sql("DELETE FROM xp_mark WHERE what IN ('file','filed')")
    assert "the row was changed" in str(verified(ledger, 6)["problems"])
    before = files(ledger), world.sql("SELECT SUM(`rows`) FROM xp_rollup")
    done = ledger.run("--rollup", "--json")
    assert done.rc == 4 and (files(ledger), world.sql("SELECT SUM(`rows`) FROM xp_rollup")) == before, done
    hint = done.json["error"]["hint"]
    world.sql(hint[hint.index("INSERT"):hint.index(";")])
    assert ledger.ok("--rollup", "--json")["ledgers"][0]["kept"] == 5
    assert verified(ledger)["file_rows"] == 305


@pytest.mark.parametrize("point", ["ledger.filed", "ledger.added", "ledger.deleted", "ledger.named"])
def test_verify_after_an_interrupted_run(ledger, point):
    gains(ledger.world, some(300))
    ledger.ok("--rollup", "--json")
    gains(ledger.world, some(300, 2))
    ledger.run("--rollup", fault=point + "=kill,ledger.piece=90")
    one = verified(ledger)
    assert one["unknown"] or point != "ledger.named", one
    ledger.ok("--rollup", "--json")
    assert not verified(ledger)["unknown"]


def test_a_signature(ledger):
    key = os.path.join(ledger.dumps_dir, "..", "key")
    with open(key, "w") as f:
        f.write("k" * 40 + "\n")
    os.chmod(key, 0o600)
    ledger.configure({"dump": {"hmac_key_file": os.path.abspath(key)}})
    gains(ledger.world, some(30))
    ledger.ok("--rollup", "--json")
    path = files(ledger)[0][:-2] + "json"
    with open(path) as f:
        manifest = json.load(f)
    assert len(manifest["hmac"]) == 64 and not verified(ledger)["problems"]
    manifest["rows"] += 1
    with open(path, "w") as f:
        json.dump(manifest, f)
    assert "HMAC" in verified(ledger, 6)["problems"][0]


def test_a_supervisor_keeps_rows_too(ledger):
    """The supervisor stores rows in signed files at its interval, and --verify is sent to it."""
    key = os.path.join(ledger.dumps_dir, "..", "key")
    with open(key, "w") as f:
        f.write("k" * 40 + "\n")
    os.chmod(key, 0o600)
    ledger.configure({"dump": {"hmac_key_file": os.path.abspath(key)}, "ledger xp": {**LEDGER, "keep": "90d", "interval": "1s"}})
    ledger.start()
    gains(ledger.world, some(30))
    ledger.wait(lambda: len(files(ledger, ".csv.json")) > 0, "a file")
    ledger.wait(lambda: ledger.world.sql("SELECT COUNT(*) FROM gains") == ((0,),), "the rows' deletion")
    assert ids(ledger) == list(range(1, 31))
    assert verified(ledger)["file_rows"] == 30
    with open(files(ledger, ".csv.json")[0]) as f:
        assert len(json.load(f)["hmac"]) == 64


@pytest.mark.parametrize("damage", ["flip", "cut", "manifest"])
def test_an_interrupted_file_that_was_changed(ledger, damage):
    """If the file of an interrupted rollup was changed, no row is rolled up until the file is renamed as the hint says.
    The next rollup then writes all rows to a new file."""
    world = ledger.world
    gains(world, some(300))
    ledger.run("--rollup", fault="ledger.filed=kill")
    path = files(ledger)[0]
    changed = path[:-2] + "json" if damage == "manifest" else path
    with open(changed, "rb") as f:
        data = bytearray(f.read())
    at = data.index(b'"rows":') + 8 if damage == "manifest" else len(data) // 2
    data[at] ^= 1
    with open(changed, "wb") as f:
        f.write(data[:-20] if damage == "cut" else data)
    wanted = totals(world)
    done = ledger.run("--rollup", "--json")
    assert done.rc != 0 and os.path.basename(path)[:-7] in done.json["error"]["text"], done
    hint = done.json["error"]["hint"]
    assert "--rollup=xp" in hint and "mv /" in hint, done
    assert totals(world) == wanted and world.sql("SELECT COUNT(*) FROM gains") == ((300,),)
    subprocess.run(shlex.split(hint[hint.index("mv /"):hint.index("; then run")]), check=True)
    ledger.ok("--rollup", "--json")
    assert totals(world) == wanted and ids(ledger) == list(range(1, 301))
