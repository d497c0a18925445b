"""Tests of a standby that keeps the world loaded: what it moves into place equals a fresh load; otherwise it loads the world."""
import os
import re
import shutil
import subprocess

import pymysql
import pytest
from wk.audit import TABLES, AuditedWriters
from wk.follow import LOG, dump_and_follow, following
from wk.keeper import USER
from wk.segments import Segments
from wk.stores import Conditions, Etcd, program
from wk.util import PATIENCE, share, wait_for
from wk.snapshot import checksums

pytestmark = [pytest.mark.skipif(not shutil.which("age"), reason="age is not installed: scripts/deps.sh test"),
              pytest.mark.either_server]
COPY = "worldkeeper_warm_w1"
RIGHTS = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER"


@pytest.fixture
def machines(make_followed, make_world, make_keeper, make_server, tmp, request):
    """Returns machines(n, tables, lease), which makes a primary that follows and stores, and n standbys, the first of which keeps
    a copy."""
    path, key = os.path.join(tmp, "store"), os.path.join(tmp, "identity")
    os.mkdir(path, 0o700)
    subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
    public = subprocess.run(["age-keygen", "-y", key], check=True, capture_output=True, text=True).stdout.strip()
    settings = {"offsite": {"url": f"file://{path}/", "recipient": public, "identity_file": key},
                "standby": {"lease": "none"}}

    def make(others=1, tables=TABLES, lease="none"):
        if lease == "etcd":
            etcd = Etcd(tmp)
            request.addfinalizer(etcd.stop)
            settings["standby"] = {"lease": "etcd", "etcd": etcd.urls, "ttl": "4s"}
        elif lease == "s3":
            liar = request.getfixturevalue("liar")
            Conditions(liar)
            settings["standby"] = {"lease": "s3", "ttl": "4s"}
            settings["offsite"].update(liar.settings())
        one = make_followed("empty", {k: dict(v) for k, v in settings.items()}, tables)
        rest = []
        for i in range(others):
            world = make_world("empty", make_server(*LOG), schema=one.world.schema)
            mine = {**{k: dict(v) for k, v in settings.items()}, "journal": {"mode": "follow"},
                    "probe": {"interval": "100ms"}}
            mine["standby"]["warm"] = "no" if i else "yes"
            keeper = make_keeper(world, mine)
            world.server.grant(USER + "@localhost", COPY, RIGHTS)
            keeper.segments = Segments(keeper)
            rest.append(keeper)
        if lease == "s3":
            for keeper in (one, *rest):
                keeper.run("--check")  # proves that the store honors conditions
        return [one, *rest]
    return make


def copy(keeper):
    return (keeper.status().get("standby") or {}).get("warm") or {}


def wait_copy(keeper, state="ready", why=""):
    return wait_for(lambda: copy(keeper).get("state") == state and why in (copy(keeper).get("why") or "") and
                    copy(keeper), f"a copy that is {state}: {why}")


def has(keeper, dump):
    """Returns whether the copy has this dump, or a newer one that the supervisor has made since."""
    told = copy(keeper)
    return told.get("state") == "ready" and (told.get("dump") or "") >= dump


def promoted(keeper):
    return keeper.ok("--promote", "--by-hand", "--force", "--json")


def test_it_is_what_a_load_gives(machines):
    """After the primary was lost while players wrote, a machine with a loaded copy and one that loads the same files are
    promoted; both have the same world, with the same figures."""
    one, two, three = machines(2)
    dump_and_follow(one)
    two.start("STANDBY")
    told = wait_copy(two)
    assert told["dump"] in [m["name"] for m in one.dumps()] and told["why"] is None, told
    assert re.search("copy +ready", two.run("--status").out), two.run("--status")
    writers = AuditedWriters(one.world, 7, count=2)
    writers.pause = 0.002
    with writers:
        writers.wait_changes(400)
        one.segments.wait_all()
        newer = one.dump()["name"]
        one.wait(lambda: (one.status()["offsite"] or {}).get("newest") == newer, "it is stored")
        wait_for(lambda: has(two, newer) and copy(two).get("compared_at"),
                 "the copy is compared with a newer dump, and goes on")
        writers.wait_changes(800)
        one.kill9()
        one.server.kill9()
    cold = promoted(three)
    assert "warm" not in cold, cold
    warm = promoted(two)
    assert warm["warm"] is True and "cold" not in warm, (warm, two.log())
    two.world.assert_is(three.world.snapshot())
    assert warm["rows"] == cold["rows"] and warm["tables"] == cold["tables"], (warm, cold)
    assert warm["restored_to"] == cold["restored_to"], (warm, cold)
    two.wait_state("UP")
    assert not two.server.sql(f"SHOW DATABASES LIKE '{COPY}'")


@pytest.mark.only("mysql", why="MariaDB switches CHECKs off for a session")
def test_a_check_that_the_copy_does_not_enforce(machines):
    """A promotion of the copy reports a CHECK that rows violate in this server's time zone, as a fresh load does."""
    one, two = machines()
    one.world.sql("SET time_zone='+05:30'", "CREATE TABLE bonus (id INT PRIMARY KEY, at TIMESTAMP, day DATE, "
                  "CHECK (DATE(at)=day)) ENGINE=MEMORY", "INSERT INTO bonus VALUES (1,'2026-07-01 01:30:00','2026-07-01')")
    dump_and_follow(one)
    two.start("STANDBY")
    wait_copy(two)
    one.kill9()
    one.server.kill9()
    told = promoted(two)
    assert told["warm"] and "ALTER TABLE `bonus` ALTER CHECK `bonus_chk_1` ENFORCED" in str(told.get("warning")), told


def same(one, two, schema=COPY, tables=("bank", "ship", "news")):
    """Returns whether the copy has exactly the primary's rows, and the counter of the first table."""
    def rows(server, of):
        sums = checksums(server, of)
        (_, definition), = server.sql(f"SHOW CREATE TABLE {of}.{tables[0]}")
        return [sums.get(table) for table in tables], re.findall("AUTO_INCREMENT=[0-9]+", definition)
    try:
        return rows(one.server, one.world.schema) == rows(two.server, schema)
    except pymysql.err.ProgrammingError:  # a table without a key is being rewritten
        return False


def wait_same(one, two):
    wait_copy(two)
    wait_for(lambda: same(one, two), "the copy has all of it")


@pytest.mark.slow
def test_killed_while_it_applies(machines):
    """After a kill at any point the next worker continues, and the copy becomes the primary's world."""
    one, two = machines(1)
    dump_and_follow(one)
    writers = AuditedWriters(one.world, 8, count=2)
    writers.pause = 0.005  # a slow standby could not catch up before a table is full
    for point in ("warm.loaded", "warm.begun", "warm.taken_out", "warm.table_applied", "warm.applied"):
        with writers:
            two.start("STANDBY", fault=f"{point}=kill")
            wait_for(lambda: "ended unexpectedly" in ((two.status().get("standby") or {}).get("last_error") or ""),
                     f"a worker that is killed at {point}")
            two.kill9()
            two.start("STANDBY")
            told = writers.told()
            wait_for(lambda: writers.told() > told + 50, "more changes")
        wait_same(one, two)
        two.stop()
    one.kill9()
    one.server.kill9()
    # After a kill before or after the tables were moved there is no copy any more.
    for point, why in (("promote.caught_up", "not loaded"), ("promote.moved", "not loaded")):
        assert two.run("--promote", "--by-hand", "--force", fault=f"{point}=kill").rc < 0
        two.start("STANDBY")
        wait_copy(two)
        two.stop()
    assert two.run("--promote", "--by-hand", "--force", fault="promote.moved=kill").rc < 0
    cold = promoted(two)
    assert cold["warm"] is False and "not loaded" in cold["cold"], cold
    writers.world = two.world
    writers.audit()


@pytest.mark.slow
def test_what_ends_it(machines):
    """A server restart or an altered table ends the copy; it is reported as cold with the reason until it was loaded from a
    newer dump. A switch-over to it loses nothing."""
    one, two = machines(1)

    def colds():
        words = "does not keep the world loaded"
        return [t for t in two.status().get("troubles", [{"what": words}]) if words in t["what"]]
    dump_and_follow(one)
    two.start("STANDBY")
    writers = AuditedWriters(one.world, 9, count=2)
    with writers:
        writers.wait_changes(200)
        wait_copy(two)
        two.server.crash()
        wait_copy(two)
        writers.wait_changes(300)
        one.world.sql("ALTER TABLE bank ADD INDEX of_who (who)")
        wait_copy(two)  # the journal has no index, and neither has the newest dump
        first = one.newest()["name"]
        newer = one.dump()["name"]
        wait_for(lambda: has(two, newer), "it is loaded with the index")
        assert first != newer and two.server.sql(f"SHOW INDEX FROM {COPY}.bank WHERE key_name='of_who'")
        two.stop()
        two.configure({"alert": {"max_dump_age": "1s"}})
        two.start("STANDBY")
        wait_copy(two)
        # A foreign change of the copy is found when the rows are compared, and corrected.
        two.server.sql(f"INSERT INTO {COPY}.ship VALUES (1, 99, 'x', 1)", f"UPDATE {COPY}.worldkeeper_tmp_tables "
                       "SET held=held+1 WHERE name='ship'")
        newer = one.dump()["name"]
        wait_for(lambda: has(two, newer), "it is loaded again")
        assert not two.server.sql(f"SELECT * FROM {COPY}.ship WHERE who=99")
        one.kill9()
        one.start(fault="dump.chosen=stop")  # prevents the immediate dump
        following(one)
        one.world.sql("ALTER TABLE bank ADD COLUMN more INT NOT NULL DEFAULT 7")
        wait_copy(two, "cold", "bank")
        two.wait(lambda: any("bank" in t["what"] and "--check" in t["hint"] for t in colds()), "that it stays so")
        one.kill9()
        before = one.newest()["name"]
        one.start()  # the new column causes a dump
        wait_for(lambda: (copy(two).get("dump") or before) != before, "it is loaded with the column")
        two.wait(lambda: not colds(), "the end of that")
        following(one)
        told = one.ok("--switch-over", "--json")
        for writer in writers.threads:
            writer.join(PATIENCE)
    told = two.ok("--promote", "--by-hand", "--json")
    assert told["warm"] is True, told
    writers.world = two.world
    writers.audit()
    two.wait_state("UP")
    assert "warm" in two.status()["standby"] and two.status()["standby"]["warm"] is None


FEW = ["CREATE TABLE few (id INT PRIMARY KEY, n INT) ENGINE=MEMORY", "INSERT INTO few VALUES (1,0),(2,0),(3,0),(4,0),(5,0)"]


@pytest.mark.parametrize("then", ["promoted", "restarted"])
def test_a_copy_that_was_found_wrong(machines, then):
    """A copy that lacks a changed row is not used again: a promotion loads the dump, and a restarted process a new copy."""
    one, two = machines(1, FEW)
    dump_and_follow(one)
    two.start("STANDBY")
    wait_copy(two)
    two.server.sql(f"DELETE FROM {COPY}.few WHERE id IN (1,2,3)")
    one.world.sql("UPDATE few SET n=n+1 WHERE id=1")
    wait_copy(two, "cold", "of 1 changed rows, 0 are in the copy")
    assert not two.server.sql(f"SHOW TABLES FROM {COPY} LIKE 'worldkeeper\\_tmp\\_copy'")
    one.segments.wait_all()
    two.stop()
    if then == "restarted":
        two.start("STANDBY")
        wait_copy(two)
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    told = promoted(two)
    assert told["warm"] is (then == "restarted") and ("found to be wrong" in told.get("cold", "")) is (then == "promoted"), told
    two.world.assert_is(before)


def test_rows_lost_while_changes_were_applied(machines):
    """After a kill, changes are applied again only if all other rows of the table are there."""
    one, two = machines(1, FEW)
    dump_and_follow(one)
    two.start("STANDBY", fault="warm.begun=kill")
    wait_copy(two)
    one.world.sql("UPDATE few SET n=n+1 WHERE id=1")
    two.wait(lambda: "ended unexpectedly" in (two.status()["standby"]["last_error"] or ""), "a worker that is killed")
    two.kill9()
    two.server.sql(f"DELETE FROM {COPY}.few WHERE id IN (1,2,3)")
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    told = promoted(two)
    assert told["warm"] is False and "2 rows that did not change instead of 4" in told["cold"], told
    two.world.assert_is(before)


def test_members_by_number(machines):
    """Changed rows of the copy keep a SET's empty member, members that look like numbers, and ENUM's error value 0."""
    one, two = machines(1, [
        "CREATE TABLE flag (id INT PRIMARY KEY, s SET('a','','b'), e ENUM('x','','2','1'), n INT) ENGINE=MEMORY",
        "CREATE TABLE member (e ENUM('10','9','2','') NOT NULL, s SET('','k') NOT NULL, n INT, PRIMARY KEY (e, s)) ENGINE=MEMORY",
        "CREATE TABLE wide (s SET(" + ",".join(f"'m{i}'" for i in range(63)) + ") PRIMARY KEY, n INT) ENGINE=MEMORY",
        "INSERT INTO flag VALUES (1,1,1,0),(2,2,2,0),(3,3,3,0),(4,7,4,0),(5,NULL,NULL,0)",
        "INSERT INTO member VALUES (1,1,0),(2,2,0),(3,3,0),(3,1,0),(3,0,0),(4,2,0),(4,3,0)",
        "INSERT INTO wide VALUES (4611686018427387904,0),(4611686018427387905,0),(1,0),(0,0)"])
    dump_and_follow(one)
    two.start("STANDBY")
    wait_copy(two)
    one.world.sql("SET sql_mode=''", "UPDATE flag SET n=n+1", "UPDATE flag SET s=2, e=4 WHERE id=1",
                  "UPDATE flag SET s=6, e=0 WHERE id=3", "INSERT INTO flag VALUES (6,2,0,6)",
                  "UPDATE member SET n=n+1", "UPDATE member SET e=0 WHERE e=4 AND s=3", "DELETE FROM member WHERE e=3 AND s=1",
                  "UPDATE wide SET n=n+1", "DELETE FROM wide WHERE NOT FIND_IN_SET('m0', s)")
    one.segments.wait_all()
    wait_for(lambda: copy(two)["why"] or same(one, two, tables=("flag", "member", "wide")), "the copy has all of it")
    before = one.world.snapshot()
    one.kill9()
    one.server.kill9()
    told = promoted(two)
    assert told["warm"] is True, told
    two.world.assert_is(before)


BIG = "CREATE TABLE big (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(40) NOT NULL) ENGINE=MEMORY"


@pytest.mark.parametrize("fault,why", [(None, None), ("warm.few=50", "changed rows"), ("warm.bytes=1", "of the journal")])
def test_a_copy_that_is_far_behind(machines, fault, why):
    """A promotion that would take longer with the copy than with a load reports how far the copy is behind, and loads the
    dump."""
    one, two = machines(1, [BIG])
    one.world.sql("INSERT INTO big VALUES " + ",".join(f"({i},{i},'some text of {i}')" for i in range(1000)))
    dump_and_follow(one)
    two.start("STANDBY")
    wait_copy(two)
    two.stop()
    for step in range(12):
        one.world.sql(f"UPDATE big SET a=a+{step + 1}, b=CONCAT('another text of ', id)")
        if step == 0:  # the next changes go to another segment
            one.kill9()
            one.start()
            following(one)
    was = checksums(one.server, one.world.schema)["big"]
    one.ok("--switch-over")
    told = two.ok("--promote", "--by-hand", "--json", fault=fault)
    assert told["lost"] == "nothing lost", told
    assert told["warm"] is (why is None) and (why or "") in told.get("cold", ""), (told["warm"], told.get("cold"))
    assert told.get("cold", "").endswith("is faster") is (why is not None), told.get("cold")
    assert checksums(two.server, two.world.schema)["big"] == was


@pytest.mark.parametrize("warm, lease", [("warm", "none"), ("cold", "none"), pytest.param(
    "warm", "etcd", marks=pytest.mark.skipif(not program("etcd"), reason="etcd is not installed")), ("warm", "s3")])
def test_nothing_is_lost_of_tables_with_triggers(machines, warm, lease):
    """Trace 11: a switch-over drops triggers with the tables after the position that it hands over, and the promotion still
    reports nothing lost."""
    one, two = machines(1, lease=lease)
    if warm == "cold":
        two.configure({"standby": {"warm": "no"}})
    for keeper in (one, two):
        keeper.world.server.grant(USER + "@localhost", keeper.world.schema, "TRIGGER")
    one.world.sql(f"CREATE DEFINER={USER}@localhost TRIGGER counts BEFORE INSERT ON ship FOR EACH ROW SET NEW.crew=NEW.crew+1",
                  f"CREATE DEFINER={USER}@localhost TRIGGER notes AFTER UPDATE ON ship FOR EACH ROW INSERT INTO news VALUES (NEW.who, 'moved')")
    dump_and_follow(one)
    two.start("STANDBY")
    one.world.sql("INSERT INTO ship VALUES (1, 1, 'a', 1), (2, 2, 'b', 2)", "UPDATE ship SET hull=hull+1")
    one.segments.wait_all()
    if warm == "warm":
        wait_copy(two)
    else:
        two.wait(lambda: (two.status()["standby"] or {}).get("newest"), "the dump")
    before = one.world.snapshot()
    one.ok("--switch-over")
    told = two.ok("--promote", *(["--by-hand"] if lease == "none" else []), "--json")
    assert told["lost"] == "nothing lost" and told["lost_seconds"] == 0, told
    assert told.get("warm", False) == (warm == "warm"), told
    two.world.assert_is(before)


def left(keeper):
    """Returns what uses memory on the server beside the world: the copy's schema, and shadow tables in the world's."""
    names = keeper.server.sql(f"SHOW DATABASES LIKE '{COPY}'".replace("_", "\\_")) + keeper.server.sql(
        f"SHOW TABLES FROM `{keeper.world.schema}` LIKE 'worldkeeper\\_tmp\\_new%'")
    return [name for (name,) in names]


def said_of_left(keeper):
    return [c for c in keeper.run("--check", "--json").result["checks"] if c["name"] == "left-overs" and COPY in c["text"]]


@pytest.mark.slow
def test_what_a_kill_leaves(machines):
    """A killed worker or promotion leaves rows in the copy's schema or in shadow tables. --check names what is unused; a
    starting standby and a machine that has the world drop it."""
    one, two = machines(1)
    dump_and_follow(one)
    writers = AuditedWriters(one.world, 10, count=2)
    writers.pause = 0.005

    def killed(point):
        with writers:
            two.start("STANDBY", fault=f"{point}=kill")
            told = writers.told()
            wait_for(lambda: "ended unexpectedly" in ((two.status().get("standby") or {}).get("last_error") or ""),
                     f"a worker that is killed at {point}")
            wait_for(lambda: writers.told() > told + 20, "more changes")
        two.kill9()
        assert left(two) == [COPY], point

    def without_warm():
        two.configure({"standby": {"warm": "no"}})
        [said] = said_of_left(two)
        assert said["level"] == "warn" and COPY in said["text"] and "GRANT DROP ON" in said["hint"], said

    def superfluous():
        return [c for c in two.run("--check", "--json").result["checks"] if "superfluous" in c["text"] and "warm" in c["text"]]

    for point in share(["warm.loaded", "warm.begun", "warm.taken_out", "warm.table_applied", "warm.applied"], 2):
        killed(point)
        assert not said_of_left(two), "a standby keeps it"
        assert not superfluous(), "it needs its privileges for that"
        without_warm()
        assert not superfluous(), "and to drop it"
        two.start("STANDBY")
        wait_for(lambda: not left(two), "the standby without a copy drops it")
        two.stop()
        assert not said_of_left(two) and len(superfluous()) == 1
        two.configure({"standby": {"warm": "yes"}})

    # A promotion with and without a copy: unused shadow tables are dropped before a new copy is loaded.
    one.segments.wait_all()
    for warm, points in (("yes", ("promote.caught_up", "promote.moved")), ("no", ("restore.loaded",))):
        two.configure({"standby": {"warm": warm}})
        for point in points:
            two.start("STANDBY")
            if warm == "yes":
                wait_copy(two)
            two.stop()
            assert two.run("--promote", "--by-hand", "--force", fault=f"{point}=kill").rc < 0
            shadows = [name for name in left(two) if name != COPY]
            assert (shadows == []) == (point == "promote.caught_up"), (point, shadows)
            two.start("STANDBY")
            if warm == "yes":
                wait_copy(two)
            wait_for(lambda: left(two) == [COPY] * (warm == "yes"), "shadow tables are dropped")
            two.stop()

    # A promotion without the existing copy: a copy that cannot be dropped is named, and dropped once it can be.
    two.configure({"standby": {"warm": "yes"}})
    killed("warm.applied")
    one.segments.wait_all()
    one.kill9()
    one.server.kill9()
    without_warm()
    two.server.sql(f"REVOKE DROP ON `{COPY}`.* FROM {USER}@localhost".replace("_", "\\_"))
    promoted(two)
    two.start()
    two.wait(lambda: f"cannot drop unused schema {COPY}" in two.log(), "that it is said")
    assert left(two) == [COPY]
    two.stop()
    without_warm()
    two.server.grant(USER + "@localhost", COPY, RIGHTS)
    two.start()
    wait_for(lambda: not left(two), "the machine that has the world drops it")
    two.stop()

    # Tables that --demote has moved aside are named as such.
    two.ok("--demote", "--force")
    checked = two.run("--check", "--json").result["checks"]
    [said] = [c for c in checked if "worldkeeper_tmp_" in c["text"] or "before --demote" in c["text"]]
    assert said["level"] == "note" and said["name"] == "left-overs", said
