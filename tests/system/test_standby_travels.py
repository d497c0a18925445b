"""Everything that belongs to a world moves with it: its code, worldkeeper's own tables with any engine, and the locks of
sessions. tests/models/README.md lists the traces."""
import json
import os
import shutil
import time
from signal import SIGCONT
from urllib.parse import urlsplit

import pytest
from test_ledger import LEDGER, totals
from test_ledger_keep import pay
from test_standby import own_dump, standby, store, stored, wait_pulled  # noqa: F401
from test_standby_warm import COPY
from test_standby_warm import RIGHTS as COPY_RIGHTS
from wk.follow import LOG, dump_and_follow, following
from wk.keeper import DONE, REFUSED, USER
from wk.progress import RIGHTS, Central, Store, refused
from wk.segments import Segments
from wk.stores import Conditions, Etcd, Liar, program
from wk.util import wait_for

pytestmark = [pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test"),
              pytest.mark.either_server]
LEASES = ["none", pytest.param("etcd", marks=pytest.mark.skipif(not program("etcd"), reason="etcd is not installed")), "s3"]
GAINS = ("CREATE TABLE gains (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, player INT NOT NULL, mini INT NOT NULL, "
         "xp INT NOT NULL, at DATETIME NOT NULL, token VARCHAR(36) NULL, UNIQUE KEY (token), KEY k USING BTREE "
         "(player, mini, id)) ENGINE=MEMORY")


@pytest.fixture
def make_pair(make_followed, make_world, make_keeper, make_server, store, tmp):  # noqa: F811
    """Returns make(lease, settings, sql), which makes two machines, the first of which has the world. Each has a durable table
    of its own, and an account with the privileges for ledgers and progress."""
    ended = []

    def make(lease="none", settings=None, sql=()):
        mine = {**{k: dict(v) for k, v in store.items()}, **(settings or {})}
        if lease == "etcd":
            ended.append(Etcd(tmp))
            mine["standby"] = {"lease": "etcd", "etcd": ended[0].urls, "ttl": "4s"}
        if lease == "s3":
            ended.append(Liar(tmp))
            Conditions(ended[0])
            mine["standby"] = {"lease": "s3", "ttl": "4s"}
            mine["offsite"].update(ended[0].settings())
        keepers = []
        for first in (True, False):
            if first:
                keeper = make_followed("small", {k: dict(v) for k, v in mine.items()}, sql)
            else:
                world = make_world("empty", make_server(*LOG), schema=keepers[0].world.schema)
                keeper = make_keeper(world, {**mine, "journal": {"mode": "follow"}, "probe": {"interval": "100ms"}})
                keeper.segments = Segments(keeper)
            keeper.server.grant(USER + "@localhost", keeper.world.schema, RIGHTS + ", CREATE VIEW")
            keeper.world.sql("CREATE TABLE accounts (id INT PRIMARY KEY) ENGINE=InnoDB")
            keeper.server.sql(f"GRANT SELECT ON mysql.proc TO {USER}@localhost")
            keeper.by_hand = ["--by-hand"] if lease == "none" else []
            keeper.liar = ended[0] if lease == "s3" else None
            if keeper.liar:
                keeper.run("--check")  # proves that the store honors conditions
            keepers.append(keeper)
        return keepers
    yield make
    for server in ended:
        server.stop()


def promote(keeper, *more):
    return keeper.ok("--promote", *keeper.by_hand, *more, "--json")


def wait_up(keeper):
    """Waits until the supervisor has the world, and the lease that the promotion took."""
    keeper.wait_state("UP")
    if not keeper.by_hand:
        keeper.wait(lambda: (keeper.status().get("lease") or {}).get("state") == "held", "the lease")


def code(world):
    """Returns the names of the schema's triggers, views and routines."""
    schema = world.schema
    return sorted(row[0] for row in world.sql(
        f"SELECT CONCAT('trigger ', TRIGGER_NAME, ' of ', EVENT_OBJECT_TABLE) FROM information_schema.TRIGGERS WHERE "
        f"TRIGGER_SCHEMA='{schema}' UNION SELECT CONCAT('view ', TABLE_NAME) FROM information_schema.VIEWS WHERE "
        f"TABLE_SCHEMA='{schema}' UNION SELECT CONCAT('routine ', ROUTINE_NAME) FROM information_schema.ROUTINES WHERE "
        f"ROUTINE_SCHEMA='{schema}'"))


@pytest.mark.parametrize("lease", LEASES)
def test_code_comes_along_there_and_back(make_pair, lease):
    """Trace 5: from A to B to A, then from A to A, the game's trigger, view and procedure and the ledger's trigger exist each
    time, although the schema has other tables; a request that is in a total is refused."""
    one, two = make_pair(lease, sql=[GAINS])
    for keeper in (one, two):
        keeper.configure({"ledger xp": {**LEDGER, "levels": None, "request": "token", "request_keep": "1h",
                                        "rollup_after": "0"}})
    one.init()
    one.world.sql("CREATE TRIGGER cheers BEFORE INSERT ON player FOR EACH ROW SET NEW.points=NEW.points+100",
                  "CREATE VIEW rich AS SELECT nick FROM player WHERE points>99",
                  "CREATE PROCEDURE hello() SELECT COUNT(*) FROM player")
    assert pay(one.world, "a", 20)
    one.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")
    assert pay(one.world, "b", 5)
    was = code(one.world)
    assert len([name for name in was if name.startswith("trigger")]) == 2, was
    dump_and_follow(one)
    stored(one)

    def same(world):
        assert code(world) == was
        assert pay(world, "a", 20) is False and pay(world, "b", 5) is False
        assert totals(world) == {(1, 1): 25}
    one.kill9()
    promote(two, "--force")
    same(two.world)
    two.start()
    own_dump(two, two.dump()["name"])
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    two.ok("--switch-over")
    promote(one)
    same(one.world)
    one.stop()
    one.ok("--demote", "--force")
    promote(one, "--force")
    same(one.world)


CODE = ("CREATE TRIGGER cheers BEFORE INSERT ON player FOR EACH ROW SET NEW.points=NEW.points+100",
        "CREATE VIEW rich AS SELECT nick FROM player WHERE points>99",
        "CREATE PROCEDURE hello() SELECT COUNT(*) FROM player")
CHANGED = [("CREATE TRIGGER thanks AFTER INSERT ON player FOR EACH ROW SET @thanks=1", "DROP TRIGGER thanks"),
           ("ALTER VIEW rich AS SELECT nick FROM player WHERE points>999", f"ALTER {CODE[1].removeprefix('CREATE ')}"),
           ("DROP PROCEDURE hello", CODE[2]),
           ("CREATE EVENT bell ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DO SET @bell=1", "DROP EVENT bell")]


@pytest.mark.parametrize("warm", ["no", "yes"])
def test_code_newer_than_the_dump(make_pair, warm):
    """A switch-over is refused after code changed since the newest stored dump, because the journal has no code. A promotion
    without a handover names the dump whose code it restored."""
    one, two = make_pair(settings={"standby": {"lease": "none", "warm": warm}})

    def loaded():
        copy = standby(two).get("warm") or {}
        return warm == "no" or (copy.get("state") == "ready" and copy["dump"] == one.newest()["name"])
    for keeper in (one, two):
        keeper.server.grant(USER + "@localhost", COPY, COPY_RIGHTS)
    one.world.sql(*CODE)
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    two.wait(loaded, "the copy")
    for change, back in CHANGED:
        one.world.sql(change)
        done = one.run("--switch-over")
        assert done.rc == REFUSED and "views, triggers, routines or events" in done.err and "--dump; repeat the command" in done.err, (
            change, done)
        one.wait_state("UP")
        one.world.sql(back)
    one.world.sql(CHANGED[0][0])
    one.dump()
    stored(one)
    was = code(one.world)
    two.wait(loaded, "the copy with the newest dump")
    wait_for(lambda: one.run("--switch-over").rc == DONE, one.log)
    told = promote(two)
    assert told.get("warm", False) is (warm == "yes"), told
    assert code(two.world) == was and told["lost"] == "nothing lost", told
    wait_up(two)
    name = two.newest()["name"]
    own_dump(two, name)
    two.world.sql("DROP TRIGGER thanks")
    two.kill9()
    told = promote(one, "--force")
    assert "routines" in told["lost"] and told["dump"] in told["lost"], told
    assert code(one.world) == was


@pytest.mark.parametrize("key, other", [("nonce", "f" * 32), ("generation", 7)])
def test_a_handover_of_another_life(make_pair, tmp, key, other):
    """A handover whose life is not that of the newest dump is refused. With --force the promotion reports a loss."""
    one, two = make_pair()
    dump_and_follow(one)
    stored(one)
    one.ok("--switch-over")
    folder = os.path.join(tmp, "store", "w1", "handover")
    [name] = os.listdir(folder)
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        said = {**json.load(f), key: other}
    os.unlink(os.path.join(folder, name))
    with open(os.path.join(folder, f"{said['generation']}-1.json"), "w", encoding="utf-8") as f:
        json.dump(said, f)
    refused = two.run("--promote", *two.by_hand)
    assert refused.rc == REFUSED and "of another life of the world" in refused.err, refused
    told = promote(two, "--force")
    assert told["lost"].startswith("lost: ") and told["lost_seconds"] is None, told


@pytest.mark.parametrize("lease", LEASES)
def test_a_durable_rollup_comes_along(make_pair, lease):
    """Trace 7: the totals of a MEMORY ledger with a durable rollup are the same on the other machine, and on the first one
    again, whose old rollup table still exists. Rows rolled up since the dump are counted once."""
    one, two = make_pair(lease, sql=[GAINS])
    for keeper in (one, two):
        keeper.configure({"ledger xp": {**LEDGER, "levels": None, "rollup_after": "0"}})
    one.init()
    one.world.sql("ALTER TABLE xp_rollup ENGINE=InnoDB")
    assert pay(one.world, "a", 20)
    one.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    assert pay(one.world, "b", 3)
    one.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")
    assert pay(one.world, "c", 2)
    wait_pulled(one, two)
    one.ok("--switch-over")
    told = promote(two)
    assert totals(two.world) == {(1, 1): 25}, told
    assert told["lost"] == "nothing lost", told
    wait_up(two)
    assert pay(two.world, "d", 10)
    two.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")
    own_dump(two, two.dump()["name"])
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    two.ok("--switch-over")
    told = promote(one)
    assert totals(one.world) == {(1, 1): 35}, told


def kept_files(folder, liar=None):
    """Returns {ending: numbers} of the files of rolled-up rows in a directory or, with `liar`, in that store."""
    found = {}
    here = os.listdir(folder) if not liar and os.path.isdir(folder) else []
    for name in [path.rpartition("/")[2] for path in list(liar.objects) if "/w1/ledgers/" in path] if liar else here:
        if name.startswith("xp-0"):
            found.setdefault(name[name.index("."):], []).append(int(name.split("-")[1]))
    return {ending: sorted(numbers) for ending, numbers in found.items()}


def verified(keeper):
    return keeper.run("--rollup=xp", "--verify", "--json").result["ledgers"][0]


def roll_up(keeper, token, xp):
    assert pay(keeper.world, token, xp)
    assert keeper.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z", "--json")["ledgers"][0]["kept"] == 1


@pytest.fixture
def make_keeping(make_pair):
    """Returns make(lease), which makes two machines with a ledger that keeps its rows in files."""
    def make(lease="none", keep="90d"):
        one, two = make_pair(lease, sql=[GAINS])
        for keeper in (one, two):
            keeper.configure({"ledger xp": {**LEDGER, "levels": None, "rollup_after": "0", "keep": keep}})
            keeper.server.grant(USER + "@localhost", keeper.world.schema, "TRIGGER")
        one.init()
        return one, two
    return make


@pytest.mark.parametrize("lease", LEASES)
def test_files_of_a_ledger_come_along(make_keeping, store, lease):  # noqa: F811
    """Trace 10: each machine compares totals with the files that the other one wrote, and reports how many it fetched."""
    one, two = make_keeping(lease)
    folder = os.path.join(urlsplit(store["offsite"]["url"]).path, "w1", "ledgers")
    roll_up(one, "a", 20)
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    roll_up(one, "b", 3)
    wait_pulled(one, two)
    wait_for(lambda: one.run("--switch-over").rc == DONE, one.log)
    assert kept_files(folder, one.liar) == {".csv.gz.age": [1, 2], ".csv.json": [1, 2]}
    assert promote(two)["lost"] == "nothing lost"
    wait_up(two)
    told = verified(two)
    assert told["ok"] and not told["unknown"] and told["files"] == told["fetched"] == 2, told
    assert told["rolled_up"] == told["file_rows"] == 2 and totals(two.world) == {(1, 1): 23}, told
    roll_up(two, "c", 10)
    told = verified(two)
    assert told["ok"] and not told["unknown"] and told["files"] == 3 and told["fetched"] == 0, told
    own_dump(two, two.dump()["name"])
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    wait_for(lambda: two.run("--switch-over").rc == DONE, two.log)
    promote(one)
    wait_up(one)
    told = verified(one)
    assert told["ok"] and not told["unknown"] and told["files"] == told["file_rows"] == 3, told
    assert told["fetched"] == 1 and kept_files(one.dumps_dir) == {".csv.gz": [1, 2, 3], ".csv.json": [1, 2, 3]}, told


def pair_with_a_file(make_keeping, store):
    """Returns two machines, and the directory of ledger files in the store. The first machine has stored one ledger file there."""
    one, two = make_keeping()
    folder = os.path.join(urlsplit(store["offsite"]["url"]).path, "w1", "ledgers")
    roll_up(one, "a", 20)
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1], "the file is stored")
    return one, two, folder


def test_files_that_only_the_lost_machine_has(make_keeping, store):  # noqa: F811
    """A file that was lost with a machine is reported and does not count when the machine returns, because its rows are in
    another file."""
    one, two, folder = pair_with_a_file(make_keeping, store)
    assert pay(one.world, "b", 3)
    wait_pulled(one, two)
    one.stop()
    one.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")  # no follower or uploader runs
    promote(two, "--force")
    wait_up(two)
    told = verified(two)
    assert told["ok"] and told["files"] == told["fetched"] == 1 and not told["unknown"], told
    time.sleep(1.1)  # file names contain whole seconds
    two.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1, 2], "the file of the other machine is stored")
    own_dump(two, two.dump()["name"])
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    assert kept_files(one.dumps_dir) == {".csv.gz": [1], ".csv.json": [1], ".csv.gz.undone": [2], ".csv.json.undone": [2]}
    wait_for(lambda: two.run("--switch-over").rc == DONE, two.log)
    promote(one)
    wait_up(one)
    told = verified(one)
    assert told["ok"] and told["files"] == 2 and told["fetched"] == 1 and not told["unknown"], told
    roll_up(one, "c", 1)
    wait_for(lambda: kept_files(folder).get(".csv.json", [])[2:], "the new file is stored")
    wait_pulled(one, two)
    one.kill9()
    for directory in (folder, two.dumps_dir):
        for name in os.listdir(directory):
            if name.startswith("xp-"):
                os.unlink(os.path.join(directory, name))
    promote(two, "--force")
    told = verified(two)
    assert told["files"] == 0 and any("no file is here" in text for text in told["unknown"]), told


def test_a_file_that_the_other_machine_counts(make_keeping, store):  # noqa: F811
    """The journal of a lost machine reached the store, and its file of rolled-up rows did not: the rows are in totals of the
    other machine. The file counts again when the world is back on the machine that has it, and is stored then."""
    one, two = make_keeping()
    folder = os.path.join(urlsplit(store["offsite"]["url"]).path, "w1", "ledgers")
    two.start("STANDBY")
    one.dump()
    one.start(fault="offsite.ledger_stored=kill")  # no manifest of such a file is stored
    following(one)
    stored(one)
    roll_up(one, "a", 20)
    wait_pulled(one, two)
    one.kill9()
    assert ".csv.json" not in kept_files(folder)
    promote(two, "--force")
    wait_up(two)
    told = verified(two)
    assert told["rolled_up"] == 1 and told["files"] == 0 and told["unknown"], told
    own_dump(two, two.dump()["name"])
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    assert kept_files(one.dumps_dir) == {".csv.gz.undone": [1], ".csv.json.undone": [1]}
    roll_up(two, "b", 3)
    own_dump(two, two.dump()["name"])
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    wait_for(lambda: two.run("--switch-over").rc == DONE, two.log)
    promote(one)
    wait_up(one)
    place = urlsplit(store["offsite"]["url"]).path.rstrip("/")
    os.rename(place, place + ".away")
    one.ok("--rollup=xp")
    os.rename(place + ".away", place)
    one.ok("--rollup=xp")
    assert 1 in kept_files(one.dumps_dir)[".csv.json"], kept_files(one.dumps_dir)
    told = verified(one)
    assert told["ok"] and not told["unknown"] and told["files"] == told["file_rows"] == told["rolled_up"] == 2, told
    assert kept_files(one.dumps_dir) == {".csv.gz": [1, 2], ".csv.json": [1, 2]}
    one.wait(lambda: kept_files(folder).get(".csv.json") == [1, 2], "both files are stored")


def is_stopped(process):
    with open(f"/proc/{process.pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0] == "T"


def test_an_interrupted_file_of_another_machine(make_keeping, store):  # noqa: F811
    """A rollup fetches the file that another machine did not finish before it takes the ledger's lock, so a slow store
    blocks no other session. If the store's copy is damaged, the rollup is refused with a hint."""
    one, two = make_keeping()
    folder = os.path.join(urlsplit(store["offsite"]["url"]).path, "w1", "ledgers")
    roll_up(one, "a", 20)
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    assert pay(one.world, "b", 3)
    assert one.run("--rollup=xp", "--until", "2026-11-17 00:00:00Z", fault="ledger.filed=kill").rc < 0
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1, 2], "the interrupted file is stored")
    wait_pulled(one, two)
    wait_for(lambda: one.run("--switch-over").rc == DONE, one.log)
    promote(two)
    wait_up(two)
    path = next(os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("xp-00000002") and name.endswith(".age"))
    with open(path, "rb") as f:
        good = f.read()
    with open(path, "wb") as f:
        f.write(good[:-1] + b"?")
    done = two.run("--rollup=xp", "--json")
    name = os.path.basename(path).removesuffix(".csv.gz.age")
    assert done.rc == REFUSED and f"w1/ledgers/{name}.*" in done.json["error"]["hint"], done
    assert "--rollup=xp" in done.json["error"]["hint"], done
    with open(path, "wb") as f:
        f.write(good)
    process = two.popen("--rollup=xp", "--json", fault="offsite.ledger_fetched=stop")
    lock = f"CONCAT('wk.ledger.',LEFT(SHA2('{two.world.schema}.xp',256),32))"
    try:
        wait_for(lambda: is_stopped(process), "it has fetched the file")
        wait_for(lambda: two.world.value(f"SELECT IS_FREE_LOCK({lock})") == 1, "nobody holds the ledger's lock")
    finally:
        os.kill(process.pid, SIGCONT)
    done = two.finish(process)
    assert done.rc == DONE, done
    told = verified(two)
    assert told["ok"] and not told["unknown"] and told["file_rows"] == told["rolled_up"] == 2, told
    assert kept_files(two.dumps_dir) == {".csv.gz": [1, 2], ".csv.json": [1, 2]}
    assert totals(two.world) == {(1, 1): 23}


def test_files_of_a_life_that_ended(make_keeping, store):  # noqa: F811
    """A lost machine stored files of which the journal in the store knows nothing, so its successor does not count them. When
    the world is back on the first machine, the successor's file of the same number counts there, and rollups continue."""
    one, two, folder = pair_with_a_file(make_keeping, store)
    wait_pulled(one, two)
    one.stop()
    segments = one.settings["offsite"]
    one.configure({"offsite": {**segments, "segments": "no"}})
    for token in "bcd":
        roll_up(one, token, 1)
    one.start()
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1, 2, 3, 4], "all files are stored")
    one.kill9()
    promote(two, "--force")
    wait_up(two)
    own_dump(two, two.dump()["name"])
    one.configure({"offsite": segments})
    one.start("STANDBY")
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    for token in "efghi":
        assert pay(two.world, token, 3)
    two.ok("--rollup=xp", "--until", "2026-11-17 00:00:00Z")
    [name] = [name for name in os.listdir(two.dumps_dir) if name.startswith("xp-00000002") and name.endswith(".json")]
    wait_for(lambda: name in os.listdir(folder), "the file of the other machine is stored")
    own_dump(two, two.dump()["name"])
    one.wait(lambda: standby(one).get("newest") == two.newest()["name"], "what the other one stored")
    wait_for(lambda: two.run("--switch-over").rc == DONE, two.log)
    promote(one)
    wait_up(one)
    one.ok("--rollup=xp")
    told = verified(one)
    assert told["ok"] and not told["unknown"] and told["files"] == 2 and told["fetched"] == 1, told
    assert told["file_rows"] == told["rolled_up"] == 6 and totals(one.world) == {(1, 1): 35}, told
    aside = {".csv.gz.undone": [2, 3, 4], ".csv.json.undone": [2, 3, 4]}
    assert kept_files(one.dumps_dir) == {".csv.gz": [1, 2], ".csv.json": [1, 2], **aside}
    roll_up(one, "k", 1)
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1, 2, 2, 3, 4, 5], "the new file is stored")
    told = verified(one)
    assert told["ok"] and not told["unknown"] and told["file_rows"] == told["rolled_up"] == 7, told


def test_files_of_a_ledger_in_the_store(make_keeping, store):  # noqa: F811
    """A file that was moved aside stays in the store until it expires, expired ones are deleted, and a damaged one is named and
    not used."""
    one, two = make_keeping()
    folder = os.path.join(urlsplit(store["offsite"]["url"]).path, "w1", "ledgers")
    roll_up(one, "a", 20)
    roll_up(one, "b", 3)
    two.start("STANDBY")
    dump_and_follow(one)
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1, 2], "the files are stored")
    second = next(name for name in os.listdir(one.dumps_dir) if name.startswith("xp-00000002") and name.endswith(".gz"))
    roll_up(one, "c", 1)
    wait_for(lambda: kept_files(folder).get(".csv.json") == [1, 2, 3], "the third is stored")
    wait_pulled(one, two)
    wait_for(lambda: one.run("--switch-over").rc == DONE, one.log)
    with open(os.path.join(folder, second + ".age"), "r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(b"?")
    promote(two)
    wait_up(two)
    told = verified(two)
    assert told["files"] == told["fetched"] == 2 and not told["ok"], told
    assert any(second in text and "was not fetched" in text for text in told["unknown"]), told
    assert any("is missing" in text for text in told["problems"]), told
    third = next(name for name in os.listdir(two.dumps_dir) if name.startswith("xp-00000003") and name.endswith(".gz"))
    os.rename(os.path.join(two.dumps_dir, third), os.path.join(two.dumps_dir, third + ".undone"))
    os.unlink(os.path.join(two.dumps_dir, third.removesuffix("gz") + "json"))
    two.ok("--rollup=xp")
    own_dump(two, two.dump()["name"])
    assert kept_files(folder) == {".csv.gz.age": [1, 2, 3], ".csv.json": [1, 2, 3]}
    two.stop()
    two.configure({"ledger xp": {**LEDGER, "levels": None, "rollup_after": "0", "keep": "1s"}})
    two.start()
    two.ok("--rollup=xp")
    two.dump()
    two.wait(lambda: kept_files(folder) == {}, "all expired")


def test_damaged_files_of_a_ledger_wait(make_keeping, store):  # noqa: F811
    """If two files cannot be sent, the alert and the history always name the same one, and the status counts both as
    waiting."""
    one, _ = make_keeping()
    for token in "ab":
        roll_up(one, token, 20)
    paths = sorted(os.path.join(one.dumps_dir, name) for name in os.listdir(one.dumps_dir) if name.endswith(".csv.gz"))
    for path in paths:
        with open(path, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            f.write(b"?")
    one.dump()
    one.start()
    stored(one)

    def told():
        now = one.status()
        return now["offsite"]["waiting"] == 2 and (now["offsite"]["behind_seconds"] or 0) >= 2 and now["offsite"]["state"] == "failing"
    one.wait(told, "both files wait")
    problem = [t["what"] for t in one.status()["troubles"] if "the other machine" in t["what"]]
    assert len(problem) == 1 and os.path.basename(paths[0]) in problem[0], problem
    notes = [r for r in one.ok("--history", "--json")["records"] if r["kind"] == "offsite" and not r["ok"]]
    assert len(notes) == 1 and os.path.basename(paths[0]) in notes[0]["error"], notes


def test_a_file_of_a_ledger_whose_transfer_is_killed(make_keeping, store):  # noqa: F811
    """What a killed upload or download of a ledger's file left is not used."""
    one, _ = make_keeping()
    folder = os.path.join(urlsplit(store["offsite"]["url"]).path, "w1", "ledgers")
    roll_up(one, "a", 20)
    one.start(fault="offsite.ledger_stored=kill")  # kills each worker
    wait_for(lambda: kept_files(folder).get(".csv.gz.age"), "the file is sent")
    assert ".csv.json" not in kept_files(folder)
    one.kill9()
    one.start()
    one.wait(lambda: kept_files(folder).get(".csv.json") == [1], "the file is stored by the next worker")
    assert ".2.csv.gz.age" in kept_files(folder)
    for name in os.listdir(one.dumps_dir):
        if name.startswith("xp-"):
            os.unlink(os.path.join(one.dumps_dir, name))
    one.stop()
    assert one.run("--rollup=xp", "--verify", fault="offsite.ledger_fetched=kill").rc < 0
    assert kept_files(one.dumps_dir) == {".csv.gz.part": [1]}
    told = verified(one)
    assert told["ok"] and told["fetched"] == told["file_rows"] == 1, told
    assert kept_files(one.dumps_dir) == {".csv.gz": [1], ".csv.json": [1]}


def progress(one, two, central, **more):
    """Configures both machines as the game server gs-a, and returns their local stores."""
    for keeper in (one, two):
        keeper.configure({"progress": central.settings(keeper, **more)})
    one.init()
    return Store(one, central), Store(two, central)


@pytest.mark.parametrize("lease", LEASES)
@pytest.mark.parametrize("engine", ["memory", "innodb"])
def test_unsent_saves_come_along(make_pair, server, lease, engine):
    """Trace 6: saves that the central store lacks move to the other machine, or are sent before."""
    one, two = make_pair(lease)
    here, there = progress(one, two, Central(server), engine=engine)
    here.open("anna")
    here.put("anna/bag", "anna", b"before the dump")
    two.start("STANDBY")
    dump_and_follow(one)
    stored(one)
    here.put("anna/bag", "anna", b"after it")
    wait_pulled(one, two)
    here.put("anna/hat", "anna", b"the last one")
    one.ok("--switch-over")
    told = promote(two)
    assert told["lost"] == "nothing lost", told
    wait_up(two)
    two.ok("--write-back")
    assert {key: blob for key, (_, blob) in here.central.blobs().items()} == {
        "anna/bag": b"after it", "anna/hat": b"the last one"}
    assert there.sessions() == {"anna": "open"}
    there.put("anna/bag", "anna", b"on the other machine")
    two.ok("--write-back")
    assert here.central.blobs()["anna/bag"][1] == b"on the other machine" and not there.stolen()


@pytest.mark.parametrize("lease", LEASES)
@pytest.mark.parametrize("engine", ["memory", "innodb"])
def test_an_old_unsent_save_is_stolen(make_pair, server, tmp, lease, engine):
    """Trace 4: the promotion acquires the locks of open sessions again. A save that the returning machine sends with a higher
    number is refused as stolen."""
    one, two = make_pair(lease)
    here, there = progress(one, two, Central(server), engine=engine)
    number = here.open("anna")
    here.put("anna/bag", "anna", b"old")
    dump_and_follow(one)
    stored(one)
    one.segments.wait_all()
    one.kill9()
    for _ in range(5):
        here.put("anna/bag", "anna", b"never stored")
    killed = two.run("--promote", *two.by_hand, "--force", fault="progress.acquired=kill")
    assert killed.rc < 0, killed
    told = promote(two, "--force")
    assert told["sessions"] == {"renewed": 1, "closed": 0}, told
    [(taken,)] = there.world.sql("SELECT lock_seq FROM wk_session WHERE lock_key='anna'")
    assert taken > number
    there.put("anna/bag", "anna", b"newer")
    two.ok("--write-back")
    # Only the old machine's write-back is left, which began before the takeover.
    for section in ("standby", "offsite"):
        del one.settings[section]
    one.configure({})
    one.run("--write-back")
    assert here.central.blobs()["anna/bag"][1] == b"newer"
    assert [why for why, _ in here.stolen().values()] in ([b"stolen"], ["stolen"]), here.stolen()


def test_a_standby_is_no_sign_of_life(make_pair, server):
    """Only the machine that keeps the world signals that the game server is alive. A standby with the same lock_id still checks
    the central store."""
    one, two = make_pair()
    here, _ = progress(one, two, Central(server))
    here.open("anna")
    dump_and_follow(one)
    stored(one)
    two.start("STANDBY")

    def central_is(state):
        two.wait(lambda: two.status()["progress"]["central"] == state, f"the central store to be {state}")
    central_is("ok")

    def unseen():
        return here.central.call("wk_locks")[0][5]
    wait_for(lambda: unseen() is not None, "a sign of life")
    one.kill9()
    wait_for(lambda: unseen() >= 4000, "no sign of life")
    here.central.call("wk_bind", "gs-a", "another", "localhost")
    central_is("refused")
    server.sql(f"DROP PROCEDURE {here.central.schema}.wk_bound")  # as in a store of an earlier version
    central_is("ok")
    here.central.call("wk_unbind", "gs-a", "another", "localhost")
    assert unseen() >= 4000
    promote(two, "--force")
    two.wait(lambda: unseen() < 4000, "a sign of life")


def test_many_sessions_go_on(make_pair, server):
    """A promotion renews more sessions than fit one statement. Two that are over are closed: one lock was released, one has
    another holder. The others have equal numbers here and in the central store, and their unsent saves are sent."""
    one, two = make_pair()
    here, there = progress(one, two, Central(server))
    central, names = here.central, [f"p{i:03}" for i in range(150)]
    own, theirs = one.world.server.admin(one.world.schema), server.admin(central.schema)
    with own.cursor() as cur, theirs.cursor() as calls:
        for name in names:
            calls.execute("CALL wk_acquire(%s,'gs-a',NULL)", (name,))
            cur.execute("REPLACE INTO wk_session (lock_key,lock_seq) VALUES (%s,%s)", (name, calls.fetchall()[0][1]))
            cur.execute("CALL wk_put(%s,%s,'unsent')", (name + "/bag", name))
    own.close()
    theirs.close()
    central.call("wk_release", "p070", "gs-a", 1)
    central.call("wk_release", "p071", "gs-a", 1)
    central.acquire("p071", "gs-b")
    dump_and_follow(one)
    stored(one)
    one.kill9()
    told = promote(two, "--force")
    assert told["sessions"] == {"renewed": len(names) - 2, "closed": 2}, told
    state = there.sessions()
    assert sorted(state) == names and [name for name in names if state[name] == "closing"] == ["p070", "p071"], state
    numbers = dict(two.world.sql("SELECT lock_key,lock_seq FROM wk_session WHERE state='open'"))
    assert numbers == dict(server.sql("SELECT lock_key,lock_seq FROM wk_lock WHERE lock_id='gs-a'", schema=central.schema))
    assert set(numbers.values()) == {2}, numbers
    two.ok("--write-back")
    assert sorted(central.blobs()) == [name + "/bag" for name in names if state[name] == "open"]


def test_a_slow_central_store_is_waited_for(make_pair, server):
    """A promotion makes progress as long as the central store answers, even if it needs longer for all locks than [restore]
    stall allows without progress."""
    one, two = make_pair(settings={"restore": {"stall": "5s"}})
    slow = ("        CALL wk_claim(p_lock_id, v_account);\n        SET v_busy", "        DO SLEEP(0.09);")
    here, there = progress(one, two, Central(server, [(slow[0], slow[1] + slow[0])]))
    names = [f"p{i:03}" for i in range(64)]  # of one statement
    with server.admin(here.central.schema) as con, con.cursor() as cur:
        cur.executemany("INSERT INTO wk_lock (lock_key,lock_seq,lock_id,locked_at) VALUES (%s,1,'gs-a',UTC_TIMESTAMP(3))",
                        [(name,) for name in names])
    one.world.sql(*(f"INSERT INTO wk_session (lock_key,lock_seq) VALUES ('{name}',1)" for name in names))
    dump_and_follow(one)
    stored(one)
    two.start("STANDBY")
    wait_pulled(one, two)
    one.kill9()
    told = promote(two, "--force")
    assert sum(told["sessions"].values()) == len(names) and sorted(there.sessions()) == names, told


def test_a_central_store_that_hangs_is_not_waited_for(make_pair, make_server):
    """If the central store connects but does not take locks, a promotion closes all sessions before it counts as stalled."""
    one, two = make_pair(settings={"restore": {"stall": "4s"}})
    central = Central(make_server())
    here, there = progress(one, two, central)
    for name in ("anna", "bob"):
        here.open(name)
    dump_and_follow(one)
    stored(one)
    two.start("STANDBY")
    wait_pulled(one, two)
    one.kill9()
    with central.server.admin(central.schema) as con, con.cursor() as cur:
        cur.execute("FLUSH TABLES WITH READ LOCK")
        told = promote(two, "--force")
    assert told["sessions"] == {"renewed": 0, "closed": 2} and "log in again" in told["warning"], told
    assert there.sessions() == {"anna": "closing", "bob": "closing"}


def test_sessions_that_cannot_go_on(make_pair, server):
    """Rule 8: if the central store does not answer during the promotion, all sessions are closed and players must log in
    again. Unsent saves are sent once it answers. A session whose lock was released is closed, too."""
    one, two = make_pair()
    here, there = progress(one, two, Central(server))
    for name in ("anna", "bob"):
        here.open(name)
        here.put(name + "/bag", name, b"unsent")
    dump_and_follow(one)
    stored(one)
    one.kill9()
    two.configure({"progress": {"socket": "/nowhere"}})
    told = promote(two, "--force")
    assert told["sessions"] == {"renewed": 0, "closed": 2} and "log in again" in told["warning"], told
    assert there.sessions() == {"anna": "closing", "bob": "closing"}
    assert "no open session" in refused(there.put, "anna/bag", "anna", b"too late")
    two.configure({"progress": {"socket": server.socket}})
    assert two.ok("--write-back", "--json")["released"] == 2
    assert {blob for _, blob in here.central.blobs().values()} == {b"unsent"} and there.sessions() == {}
    two.ok("--demote", "--force")
    told = promote(two, "--force")
    assert told["sessions"] == {"renewed": 0, "closed": 2}, told
