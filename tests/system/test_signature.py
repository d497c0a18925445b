"""With a key configured only a dump's HMAC proves that it is ours: data that was changed or planted on an untrusted disk is
never restored."""
import glob
import hashlib
import hmac
import json
import os
import shutil

import pytest

from wk.keeper import DONE, FAILED, NOT_WELL, NOTHING, USAGE, signed

pytestmark = pytest.mark.any_server

KEY = "3f" * 32


@pytest.fixture
def keyed(keeper):
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    return keeper


def manifest_of(keeper, name):
    with open(os.path.join(keeper.dumps_dir, name + ".json")) as f:
        return json.load(f)


def write_manifest(keeper, manifest):
    with open(os.path.join(keeper.dumps_dir, manifest["name"] + ".json"), "w") as f:
        json.dump(manifest, f)


def hmac_of(manifest, key=KEY):
    """Computes the HMAC as SECURITY.md describes it, independently of the program."""
    text = json.dumps({k: v for k, v in manifest.items() if k != "hmac"}, sort_keys=True,
                      separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key.encode(), b"worldkeeper manifest 1\n" + text.encode(), hashlib.sha256).hexdigest()


def listed(keeper):
    return {d["name"]: d for d in keeper.ok("--list", "--json")["dumps"]}


def test_a_signed_dump_is_restored(keyed):
    first = keyed.dump()["name"]
    manifest = manifest_of(keyed, first)
    assert manifest["hmac"] == hmac_of(manifest)
    write_manifest(keyed, manifest)  # the same content with other indentation and order
    assert keyed.ok("--verify").rc == DONE
    done = keyed.ok("--restore", "--force", "--json")
    assert keyed.world.rows() > 0 and done["dump"].startswith("w1-"), done


@pytest.mark.parametrize("how", ["changed", "none", "another key", "of another dump", "no text"])
def test_a_wrong_hmac_is_never_taken(keyed, how):
    good, bad = keyed.dump()["name"], keyed.dump()["name"]
    manifest = manifest_of(keyed, bad)
    if how == "changed":
        manifest = {**signed({**manifest, "seconds": 0.5}), "hmac": manifest["hmac"]}
    elif how == "none":
        del manifest["hmac"]
    elif how == "another key":
        manifest["hmac"] = hmac_of(manifest, "4e" * 32)
    elif how == "of another dump":
        manifest["hmac"] = manifest_of(keyed, good)["hmac"]
    else:
        manifest["hmac"] = 7
    write_manifest(keyed, manifest)
    now = listed(keyed)
    assert now[good]["intact"] and not now[bad]["intact"] and "HMAC" in now[bad]["reason"]
    assert f"--seal={bad}" in now[bad]["reason"]
    assert keyed.run("--verify").rc == NOT_WELL and keyed.run("--verify=" + good).rc == DONE
    assert keyed.run("--restore=" + bad, "--dry-run").rc == NOTHING
    check = keyed.run("--check").out
    assert "--seal=DUMP" in check and "HMAC" in check, check
    done = keyed.ok("--restore", "--dry-run", "--force", "--json")
    assert done["dump"] == good and done["skipped"][0]["dump"] == bad, done
    keyed.server.sql("GRANT ALL ON `worldkeeper\\_drill%`.* TO keeper@'localhost'")
    assert keyed.ok("--drill", "--json")["dump"] == good


def test_a_loss_with_nothing_but_strange_dumps(make_keeper, make_world, victim):
    """After a loss with only unsigned dumps nothing is restored, and the log has the reason."""
    keeper = make_keeper(make_world("small", victim), {"restore": {"auto": "yes"}})
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    name = keeper.init().dump()["name"]
    manifest = manifest_of(keeper, name)
    manifest["hmac"] = "0" * 64
    write_manifest(keeper, manifest)
    victim.crash()
    keeper.start(state=None)
    keeper.wait_state("WAITING")
    keeper.wait(lambda: "does not match any configured key" in keeper.log(), "the reason in the log")
    assert keeper.world.rows() == 0


def test_dumps_from_before_the_key(keeper):
    """Dumps from before the key are neither used nor deleted until --seal signs them, which reads them back and refuses a
    damaged one."""
    old, broken = keeper.dump()["name"], keeper.dump()["name"]
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)},
                      "retention": {"keep_last": "1", "keep_within": "0h", "keep_daily": "0",
                                    "keep_weekly": "0"}})
    assert keeper.run("--restore", "--force").rc == NOTHING
    new = keeper.dump()["name"]
    keeper.dump()
    assert set(listed(keeper)) >= {old, broken} and new not in listed(keeper)
    path = os.path.join(keeper.dumps_dir, broken + ".sql.gz")
    with open(path, "r+b") as f:
        f.seek(os.path.getsize(path) // 2)
        f.write(b"\0\0\0\0")
    done = keeper.run("--seal", "--json")
    assert done.rc == NOT_WELL, done
    assert {d["name"]: d["whole"] for d in done.result["dumps"]} == {old: True, broken: False}
    assert listed(keeper)[old]["intact"] and not listed(keeper)[broken]["intact"]
    assert manifest_of(keeper, old)["hmac"] == hmac_of(manifest_of(keeper, old))
    assert keeper.run("--seal=" + old).rc == NOTHING  # it is already signed
    assert keeper.ok("--restore=" + old, "--force").rc == DONE


def test_pins_from_before_the_key(keeper):
    """A pin from before the key, or with a wrong HMAC, holds its dump and is shown. --seal signs it, and what is known of the
    dump, with the dump."""
    last = keeper.ok("--new-round", "--json")["last"]
    proof = os.path.join(keeper.dumps_dir, last + ".proof")
    with open(proof, "w") as f:
        json.dump({"format": 1, "failures": 2, "at_unix": 1, "by": "restore", "reason": "two equal rows"}, f)
    os.chmod(proof, 0o600)
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)},
                      "retention": {"keep_last": "1", "keep_within": "0h", "keep_daily": "0", "keep_weekly": "0"}})
    held = listed(keeper)[last]
    assert "has no HMAC" in held["reason"] and "has no HMAC" in held["pinned"], held
    keeper.ok("--seal")
    sealed = listed(keeper)[last]
    assert "the last dump of round" in sealed["pinned"] and "two equal rows" in sealed["reason"], sealed
    pin = os.path.join(keeper.dumps_dir, last + ".pin")
    os.remove(proof)
    for change in (lambda o: o.pop("hmac"), lambda o: o.update(hmac="0" * 64)):
        with open(pin) as f:
            text = json.load(f)
        change(text)
        with open(pin, "w") as f:
            json.dump(text, f)
        keeper.dump()
        keeper.dump()
        assert "HMAC" in listed(keeper)[last]["pinned"]
    assert "; pinned: " in keeper.ok("--list").out
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key2", "5d" * 32)}})
    keeper.ok("--seal=" + last)
    assert "the last dump of round" in listed(keeper)[last]["pinned"]
    os.remove(pin)
    keeper.dump()
    keeper.dump()
    assert last not in listed(keeper), "the pin was removed"


def test_sign_through_the_supervisor(keeper):
    old = keeper.dump()["name"]
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", KEY)}})
    keeper.start()
    done = keeper.ok("--seal", "--json")
    assert [d["name"] for d in done["dumps"]] == [old]
    assert listed(keeper)[old]["intact"]
    said = keeper.ok("--seal").out
    assert "every dump has its HMAC" in said


def test_a_wrong_signature_is_replaced_by_name_only(keyed):
    name = keyed.dump()["name"]
    manifest = manifest_of(keyed, name)
    manifest["hmac"] = "0" * 64
    write_manifest(keyed, manifest)
    assert keyed.ok("--seal", "--json")["dumps"] == []
    assert not listed(keyed)[name]["intact"]
    assert keyed.ok("--seal=" + name + ".sql.gz").rc == DONE
    assert listed(keyed)[name]["intact"]


def test_change_of_keys(keyed):
    """Dumps of the old key stay valid with hmac_old_key_file; new dumps are signed with the new key."""
    old = keyed.dump()["name"]
    other = "5d" * 32
    keyed.configure({"dump": {"hmac_key_file": keyed.secret("key2", other)}})
    assert not listed(keyed)[old]["intact"]
    keyed.configure({"dump": {"hmac_old_key_file": os.path.join(keyed.base, "key")}})
    assert listed(keyed)[old]["intact"]
    new = keyed.dump()["name"]
    assert manifest_of(keyed, new)["hmac"] == hmac_of(manifest_of(keyed, new), other)


def test_a_reload_takes_the_key(keeper):
    old = keeper.dump()["name"]
    keeper.start()
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", "short")}})
    keeper.process.send_signal(1)
    keeper.wait(lambda: "reload refused" in keeper.log() and "hmac_key_file" in keeper.log(), "a refusal")
    keeper.secret("key", KEY)
    keeper.process.send_signal(1)
    keeper.wait_log(f"{keeper.config_path} reloaded")
    keeper.wait(lambda: keeper.newest()["name"] != old, "a dump that can be restored, hours before its time")
    assert "hmac" in keeper.newest() and "hmac" not in manifest_of(keeper, old)


@pytest.mark.parametrize("case", ["mode", "missing", "short", "old alone"])
def test_bad_keys(keeper, case):
    path = keeper.secret("key", "abc" if case == "short" else KEY, 0o640 if case == "mode" else 0o600)
    name = "hmac_old_key_file" if case == "old alone" else "hmac_key_file"
    keeper.configure({"dump": {name: path + ("x" if case == "missing" else "")}})
    for action in ("--dump", "--list", "--verify", "--run"):
        done = keeper.run(action)
        late = action == "--run" and case == "missing"  # what may come later is not final
        assert done.rc == (FAILED if late else USAGE) and name in done.err, done
        assert KEY not in done.err
    assert keeper.run("--check").rc != DONE


@pytest.mark.parametrize("first", [True, False])
def test_check_looks_at_the_keys(keeper, first):
    """--check examines the key file before the dump directory exists, and as root for the user who will read it."""
    def told():
        return [line for line in keeper.run("--check").out.splitlines() if "hmac_key_file" in line and "secrets" in line]
    path = keeper.secret("key", KEY)
    keeper.configure({"dump": {"hmac_key_file": path, **({"dir": keeper.base + "/later"} if first else {})}})
    assert [line.split()[:2] for line in told()] == [["ok", "secrets"]], told()
    for text, mode in ((KEY, 0o640), ("short", 0o600)):
        keeper.secret("key", text, mode)
        assert [line.split()[:2] for line in told()] == [["FAIL", "secrets"]], told()
    keeper.secret("key", KEY)
    if os.geteuid() == 0 and not first:
        os.chown(keeper.dumps_dir, 65534, 65534)
        assert "warn" in told()[0] and "and the dumps belong to different users" in told()[0]
        os.chown(keeper.dumps_dir, 0, 0)


def test_sign_without_a_key(keeper):
    done = keeper.run("--seal")
    assert done.rc == USAGE and "hmac_key_file" in done.err, done


def test_a_key_as_a_credential(keeper):
    """The key can be a systemd credential."""
    where = os.path.join(keeper.base, "credentials")
    os.mkdir(where, 0o700)
    shutil.move(keeper.secret("key", KEY), os.path.join(where, "dumps"))
    keeper.configure({"dump": {"hmac_key_file": "credential:dumps"}})
    assert "CREDENTIALS_DIRECTORY" in keeper.run("--list").err
    keeper.env["CREDENTIALS_DIRECTORY"] = where
    name = keeper.dump()["name"]
    assert manifest_of(keeper, name)["hmac"] == hmac_of(manifest_of(keeper, name))
    assert KEY not in "".join(open(p).read() for p in glob.glob(keeper.dumps_dir + "/*.json"))
