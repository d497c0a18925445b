"""pending.json records what an interrupted restore leaves for the next one: triggers to recreate,
and tables to clean up. A file that was planted, changed or kept from an earlier restore is never
executed."""
import json
import os

import pytest

from wk.keeper import DONE, REFUSED

pytestmark = pytest.mark.either_server

KEY = "3f" * 32
NONCE = "0123456789abcdef" * 2


def path_of(keeper):
    return os.path.join(keeper.dumps_dir, "pending.json")


def plant(keeper, **more):
    """Writes a pending.json as the program does, with a trigger of root in it."""
    trigger = {"name": "evil", "table": "player", "event": "INSERT", "timing": "BEFORE",
               "body": "SET NEW.points = 666", "definer": "root@localhost", "sql_mode": "",
               "charset": "utf8mb4", "collation": "utf8mb4_bin"}
    trigger.update(more.pop("trigger", {}))
    content = {"nonce": NONCE, "generation": 9, "dump": "d", "tables": ["player"], "triggers": [trigger],
               "checks": [], "conflict": "", "conflict_whole": False, "server_start": 0, **more}
    with open(path_of(keeper), "w") as f:
        json.dump(content, f)
    os.chmod(path_of(keeper), 0o600)


def triggers(keeper):
    return {row[0] for row in keeper.world.sql(
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=DATABASE()")}


def cut_off(doomed, victim, at="restore.before_rename"):
    """Kills the restore of a world with a trigger and drops the trigger. Returns the world as it was."""
    doomed.world.sql("CREATE DEFINER=keeper@localhost TRIGGER watch BEFORE INSERT ON player FOR EACH ROW "
                     "SET NEW.points = 1")
    doomed.dump()
    before = doomed.world.snapshot()
    victim.crash()
    assert doomed.run("--restore", fault=at + "=kill").rc != DONE
    assert os.path.exists(path_of(doomed))
    if at == "restore.before_rename":
        doomed.world.sql("DROP TRIGGER watch")
    return before


@pytest.mark.parametrize("action", [["--restore"], ["--restore", "--dry-run"], ["--check"]])
def test_what_only_looks_carries_out_nothing(keeper, action):
    """A refused restore, a dry run and --check execute nothing of a planted file and do not change it."""
    keeper.dump()
    plant(keeper)
    with open(path_of(keeper), "rb") as f:
        planted = f.read()
    done = keeper.run(*action)
    assert action == ["--check"] or done.rc == REFUSED, done
    assert not triggers(keeper)
    with open(path_of(keeper), "rb") as f:
        assert f.read() == planted


@pytest.mark.parametrize("key", [False, True])
def test_a_planted_one_is_refused(doomed, victim, key):
    """A restore refuses a planted file by name, with the solution, and succeeds after the file was removed."""
    if key:
        doomed.configure({"dump": {"hmac_key_file": doomed.secret("key", KEY)}})
    doomed.dump()
    before = doomed.world.snapshot()
    victim.crash()
    plant(doomed)
    done = doomed.run("--restore")
    assert done.rc == REFUSED and "pending.json" in done.err and "remove the file" in done.err, done
    assert ("HMAC" if key else "digest") in done.err, done
    assert not triggers(doomed) and doomed.world.rows() == 0
    os.unlink(path_of(doomed))
    doomed.ok("--restore")
    doomed.world.assert_is(before)


@pytest.mark.parametrize("part", [
    {"collation": "utf8mb4_bin', GLOBAL init_connect='SELECT 1"},
    {"charset": "utf8mb4, GLOBAL init_connect='SELECT 1'"},
    {"timing": "BEFORE INSERT ON player FOR EACH ROW SET NEW.points = 1 -- "},
    {"event": "INSERT ON player FOR EACH ROW SET NEW.points = 1 -- "}])
def test_no_part_of_it_is_sql(make_server, make_world, make_keeper, part):
    """No part of a planted file is executed as SQL, even if the account has all privileges."""
    server = make_server()
    keeper = make_keeper(make_world(on=server)).init()
    server.sql("GRANT ALL ON *.* TO keeper@localhost")
    keeper.dump()
    server.crash()
    plant(keeper, trigger=part)
    keeper.run("--restore")
    assert not server.value("SELECT @@GLOBAL.init_connect")
    assert not triggers(keeper)


@pytest.mark.parametrize("change", ["body", "conflict_whole", "hmac"])
def test_a_changed_one_is_refused(doomed, victim, change):
    """A signed file that the server knows is refused after any change, and accepted as it was."""
    doomed.configure({"dump": {"hmac_key_file": doomed.secret("key", KEY)}})
    before = cut_off(doomed, victim)
    with open(path_of(doomed)) as f:
        written = f.read()
    content = json.loads(written)
    if change == "body":
        content["triggers"][0]["body"] = "SET NEW.points = 666"
    elif change == "conflict_whole":
        content["conflict_whole"] = True
    else:
        del content["hmac"]
    with open(path_of(doomed), "w") as f:
        json.dump(content, f)
    done = doomed.run("--restore")
    assert done.rc == REFUSED and "HMAC" in done.err, done
    assert not triggers(doomed)
    with open(path_of(doomed), "w") as f:
        f.write(written)
    doomed.ok("--restore")
    doomed.world.assert_is(before)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize("at", ["restore.before_rename", "restore.renamed", "restore.conflict_whole",
                                "restore.dropped", "restore.sentinel_known", "restore.named"])
def test_ours_is_carried_out(doomed, victim, at, key):
    """The file of an interrupted restore is executed by the next restore after another restart of the server."""
    if key:
        doomed.configure({"dump": {"hmac_key_file": doomed.secret("key", KEY)}})
    before = cut_off(doomed, victim, at)
    victim.crash()
    doomed.ok("--restore")
    doomed.world.assert_is(before)
    assert not os.path.exists(path_of(doomed))


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("at", ["restore.before_rename", "restore.renamed", "restore.dropped"])
def test_one_of_another_version_is_carried_out(doomed, victim, at, crash):
    """The file of an older version, which stored the digest with the sentinel, is executed after an update, and the world is
    restored."""
    before = cut_off(doomed, victim, at)
    sentinel = "worldkeeper_" + ("tmp_new_sentinel" if at == "restore.before_rename" else "sentinel")
    note = victim.value(f"SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA="
                        f"'{doomed.world.schema}' AND TABLE_NAME='worldkeeper_tmp_swap'")
    doomed.world.sql(f"ALTER TABLE {sentinel} COMMENT='{note}'", "DROP TABLE worldkeeper_tmp_swap")
    if crash:
        victim.crash()
    doomed.start()
    doomed.wait(lambda: not os.path.exists(path_of(doomed)), "the tidying up")
    doomed.wait_state("UP")
    doomed.world.assert_is(before)
    assert not doomed.world.sql("SHOW TABLES LIKE 'worldkeeper\\_tmp\\_%'")


@pytest.mark.parametrize("at", ["restore.before_rename", "restore.dropped"])
def test_the_check_knows_what_is_left(doomed, victim, at):
    """--check reports the tables of an interrupted restore, and does not take them for the game's tables."""
    cut_off(doomed, victim, at)
    done = doomed.run("--check")
    assert "of an interrupted restore" in done.out, done
    assert "names that begin with" not in done.out, done


def assert_refused(keeper, old):
    """Puts an old file back and asserts that its digest differs from the server's."""
    with open(path_of(keeper), "wb") as f:
        f.write(old)
    done = keeper.run("--restore")
    assert done.rc == REFUSED and "digest" in done.err, done


def test_one_from_earlier_is_refused(doomed, victim):
    before = cut_off(doomed, victim)
    with open(path_of(doomed), "rb") as f:
        old = f.read()
    doomed.ok("--restore")
    doomed.world.assert_is(before)
    doomed.world.sql("DROP TRIGGER watch")
    doomed.dump()
    victim.crash()
    assert_refused(doomed, old)
    assert not triggers(doomed)


def test_one_of_a_finished_restore_is_refused(doomed, victim):
    """The file of a finished restore is refused, because the server no longer knows its digest."""
    cut_off(doomed, victim, "restore.renamed")
    with open(path_of(doomed), "rb") as f:
        old = f.read()
    doomed.start()
    doomed.wait(lambda: not os.path.exists(path_of(doomed)), "the tidying up")
    doomed.wait_state("UP")
    assert triggers(doomed) == {"watch"}
    # The proof of the file is removed last, after the file's directory was synced.
    doomed.wait(lambda: not doomed.world.sql("SHOW TABLES LIKE 'worldkeeper\\_tmp\\_%'"), "the end of the tidying up")
    doomed.stop()
    doomed.world.sql("DROP TRIGGER watch")
    before = doomed.world.snapshot()
    doomed.dump()
    victim.crash()
    assert_refused(doomed, old)
    assert not triggers(doomed) and doomed.world.rows() == 0
    os.unlink(path_of(doomed))
    doomed.ok("--restore")
    doomed.world.assert_is(before)
    own = doomed.world.sql("SHOW TABLES LIKE 'worldkeeper\\_tmp\\_%'")
    assert not own, own


def test_of_a_server_that_is_gone(doomed, victim):
    """If neither the tables nor any shadow table exists, the file is moved aside and the world is restored from the dump."""
    before = cut_off(doomed, victim)
    victim.sql(f"DROP DATABASE {doomed.world.schema}", f"CREATE DATABASE {doomed.world.schema}")
    done = doomed.run("--restore")
    assert done.rc == DONE and "pending.json.aside" in done.err, done
    assert os.path.exists(path_of(doomed) + ".aside") and not os.path.exists(path_of(doomed))
    doomed.world.assert_is(before)


# ---- state.json and findings about dumps ----

def edit(path, change):
    with open(path) as f:
        content = json.load(f)
    change(content)
    with open(path, "w") as f:
        json.dump(content, f)


def test_a_planted_state_restores_nothing(make_keeper, make_world, server):
    """A state.json with a changed server start and a deleted sentinel row could make a living world look lost. With a key the
    unsigned change is ignored and reported."""
    keeper = make_keeper(make_world(on=server))
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    keeper.init().start()
    keeper.dump()
    keeper.stop()
    keeper.world.sql("UPDATE player SET points = points + 1")
    before = keeper.world.snapshot()
    keeper.world.sql("DELETE FROM worldkeeper_sentinel")
    edit(os.path.join(keeper.dumps_dir, "state.json"),
         lambda s: s["server"].update(start=s["server"]["start"] - 86400))
    keeper.start(state=None)
    keeper.wait_log("sentinel row deleted")
    keeper.wait(lambda: len(keeper.status().get("probe", {}).get("history", "")) >= 8, "more probes")
    keeper.stop()
    assert "state.json has an HMAC that does not match the key" in keeper.log()
    keeper.world.assert_is(before)


def test_a_state_from_before_the_key(keeper):
    keeper.dump()
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    assert "state.json has no HMAC" in keeper.run("--list").err
    assert "state.json has no HMAC" in keeper.run("--check").out
    keeper.ok("--seal")
    for action in "--list", "--check":
        done = keeper.run(action)
        assert "state.json" not in done.err + done.out, done


@pytest.mark.parametrize("name", ["state.json", "round.json"])
def test_seal_signs_nothing_that_was_changed(keeper, name):
    """--seal does not sign a file whose HMAC does not match, because somebody has changed it."""
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    keeper.dump()
    keeper.ok("--new-round")
    path = os.path.join(keeper.dumps_dir, name)
    edit(path, lambda o: o.update(nonce=NONCE))
    with open(path, "rb") as f:
        changed = f.read()
    done = keeper.run("--seal")
    assert done.rc == DONE and f"{name} has an HMAC that does not match" in done.err, done
    with open(path, "rb") as f:
        assert f.read() == changed


@pytest.mark.parametrize("how", ["planted", "changed"])
def test_a_planted_finding_hides_no_dump(keeper, how):
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    name = keeper.dump()["name"]
    keeper.ok("--verify")
    proof = os.path.join(keeper.dumps_dir, name + ".proof")
    if how == "planted":
        with open(proof, "w") as f:
            json.dump({"format": 1, "damaged": True, "failures": 0, "at": "", "at_unix": 1, "by": "verify",
                       "reason": "none"}, f)
    else:
        edit(proof, lambda p: p.update(damaged=True))
    assert keeper.ok("--restore", "--force", "--json")["dump"] >= name


def test_a_finding_of_ours_counts(keeper):
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    good, bad = keeper.dump()["name"], keeper.dump()["name"]
    path = os.path.join(keeper.dumps_dir, bad + ".sql.gz")
    with open(path, "rb") as f:
        data = f.read()
    with open(path, "r+b") as f:
        f.seek(len(data) // 2)
        f.write(bytes([data[len(data) // 2] ^ 255]))
    assert keeper.run("--verify").rc != DONE
    with open(path, "wb") as f:
        f.write(data)
    listed = {d["name"]: d for d in keeper.ok("--list", "--json")["dumps"]}
    assert listed[good]["intact"] and not listed[bad]["intact"], listed
