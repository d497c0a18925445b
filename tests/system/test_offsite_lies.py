"""Tests of stores that lie to a restoring machine, with names, sizes and lists that would fill the disk or end the journal."""
import json
import os

import pytest
from wk.follow import dump_and_follow
from wk.keeper import built, signed
from wk.offsite import lose_machine
from wk.stores import Caller, Directory, secret_file
from wk.util import wait_for

pytestmark = pytest.mark.any_server
HUGE = 1 << 63


@pytest.fixture
def lost(make_followed, liar):
    """Returns lost(config, dumps), which gives the keeper of a lost machine whose dumps and journal are stored in the Liar."""
    def lose(config={}, dumps=1):
        keeper = make_followed("small", {"offsite": {**liar.settings(), "plain": "yes"}, **config})
        dump_and_follow(keeper)
        for _ in range(1, dumps):
            keeper.dump()
        keeper.world.sql("INSERT INTO chat VALUES (77777, 'late')")
        keeper.segments.wait_all()
        here = {os.path.basename(path): os.path.getsize(path) for path in keeper.segments.paths()}

        def all_there():
            reach = {}
            for path in parts(liar):
                name, _, places = os.path.basename(path).partition(".")
                number = int(name.split("-")[1])
                reach[number] = max(reach.get(number, 0), int(places.split(".")[0].split("-")[1]))
            if len([path for path in list(liar.objects) if path.endswith(".json")]) < dumps:
                return False
            return all(reach.get(int(n.rpartition("-")[2].partition(".")[0]), 0) >= size for n, size in here.items())
        wait_for(all_there, "dump and journal are in the store")
        keeper.stop()
        lose_machine(keeper)
        keeper.init()
        return keeper
    return lose


def parts(liar):
    return sorted(path for path in list(liar.objects) if "/w1/segments/" in path)


def late(keeper):
    return keeper.world.value("SELECT COUNT(*) FROM chat WHERE who=77777")


class Asked:
    """A `fault` of a Liar that serves MIB for each of these names and records which were requested."""
    MIB = 1 << 20

    def __init__(self, liar, names):
        self.names, self.asked = set(names), []
        for name in names:
            liar.objects[name] = b"x"
        liar.fault = self

    def __call__(self, h):
        path = h.path.partition("?")[0]
        if h.command != "GET" or path not in self.names:
            return False
        self.asked.append(path)
        h.reply(200, b"x" * self.MIB)
        return True


NAMES = {  # names listed after the last real part, by its number and its time
    "a sum that wraps": lambda n, made: [f"{n + 1:012}-{made + 1:013}.{0:012}-{HUGE:012}", f"{n + 2:012}-{made + 2:013}.{0:012}-{HUGE:012}"],
    "a number without a next one": lambda n, made: [f"{999999999999999999:012}-{made + 1:013}.{0:012}-{1 << 20:012}"],
    "a moment that never comes": lambda n, made: [f"{n + 1:012}-{(1 << 63) - 1:013}.{0:012}-{1 << 20:012}"],
    "numbers that wrap": lambda n, made: [f"{(1 << 64) + n + 1}-{made + 1:013}.{0:012}-{1 << 20:012}", f"{n + 1:012}-{made + 1:013}.{0:012}-{(1 << 64) + 5}"],
}


@pytest.mark.parametrize("lie", NAMES)
def test_parts_that_there_are_not(lost, liar, lie):
    """Names of parts with impossible numbers are never requested, and dump and journal are restored without them."""
    keeper = lost()
    number, made = (int(n) for n in os.path.basename(parts(liar)[-1]).partition(".")[0].split("-")[1:])
    there = os.path.dirname(parts(liar)[-1])
    asked = Asked(liar, [f"{there}/w1-{name}" for name in NAMES[lie](number, made)])
    keeper.ok("--restore", "--from", "offsite")
    assert late(keeper) == 1 and not asked.asked, asked.asked
    assert len([path for path in keeper.segments.paths() if os.path.getsize(path) > 0]) >= 1


def test_a_part_that_needs_more_room_than_there_is(lost, liar):
    """A part of the greatest possible length is refused with the sizes before anything is downloaded."""
    keeper = lost()
    number, made = (int(n) for n in os.path.basename(parts(liar)[-1]).partition(".")[0].split("-")[1:])
    there = os.path.dirname(parts(liar)[-1])
    asked = Asked(liar, [f"{there}/w1-{number + 1:012}-{made + 1:013}.{0:012}-{10 ** 12 - 1:012}"])
    done = keeper.run("--restore", "--from", "offsite")
    assert done.rc != 0 and "931.3 GiB" in done.err and "are left for the download" in done.err and not asked.asked, done
    assert "16.0 MiB must stay free" in done.err, done


def test_only_names_that_are_signed(lost, liar, tmp):
    """With a key only parts with a correctly signed name are requested, never one whose number, size or signature was changed;
    the signed ones are restored."""
    keeper = lost({"dump": {"hmac_key_file": secret_file(os.path.join(tmp, "hmac"), "3f" * 32 + "\n")}})
    real = parts(liar)
    assert real and all(len(os.path.basename(path).split(".")[2]) == 64 for path in real), real
    there, last = os.path.dirname(real[-1]), os.path.basename(real[-1])
    name, places, mac = last.split(".")
    number, made = (int(n) for n in name.split("-")[1:])
    start, end = places.split("-")
    asked = Asked(liar, [f"{there}/{n}" for n in (
        f"w1-{number + 1:012}-{made + 1:013}.{0:012}-{10 ** 12 - 1:012}", f"w1-{number + 1:012}-{made:013}.{places}.{mac}",
        f"{name}.{start}-{int(end) + 1:012}.{mac}", f"{name}.{places}", f"{name}.{places}.{'0' * 64}", f"{name}.{places}.{mac}.age")])
    keeper.ok("--restore", "--from", "offsite")
    assert late(keeper) == 1 and not asked.asked, asked.asked


def test_signed_parts_where_there_is_no_key(lost, liar, tmp):
    """A new machine without the HMAC key restores the journal as well as its dump."""
    keeper = lost({"dump": {"hmac_key_file": secret_file(os.path.join(tmp, "hmac"), "3f" * 32 + "\n")}})
    keeper.configure({"dump": {"hmac_key_file": None}})
    lose_machine(keeper)
    keeper.init()
    keeper.ok("--restore", "--from", "offsite")
    assert late(keeper) == 1


def test_sizes_that_do_not_fit(lost, liar):
    """A dump whose manifest gives a copy larger than possible is reported as damaged, and nothing of it is downloaded."""
    keeper = lost()
    path, = [path for path in liar.objects if path.endswith(".json")]
    manifest = json.loads(liar.objects[path])
    manifest["offsite"]["size"] = 1 << 40
    liar.objects[path] = json.dumps(signed(manifest)).encode()
    data = os.path.dirname(path) + "/" + manifest["offsite"]["file"]
    asked = Asked(liar, [data])
    done = keeper.run("--restore", "--from", "offsite")
    assert done.rc != 0 and "its size does not fit" in done.err and not asked.asked, done


@pytest.mark.parametrize("status", [403, 500])
@pytest.mark.parametrize("what", ["part", "dump"])
def test_one_object_that_cannot_be_read(lost, liar, what, status):
    """If the store lists its objects, but never returns one of them, the world is restored from the others, and the object is
    named. An unreadable dump is skipped, and the next older one is used with the whole journal."""
    keeper = lost(dumps=1 if what == "part" else 2)
    keeper.waits = 100
    path = parts(liar)[-1] if what == "part" else max(path for path in liar.objects if path.endswith(".sql.gz"))
    name = os.path.basename(path).partition(".")[0]
    unreadable = {p for p in liar.objects if p == path or ("/segments/" in p and name in p)}  # all parts of the segment
    liar.fault = lambda h: h.command == "GET" and h.path in unreadable and (h.refuse(status, "InvalidObjectState") or True)
    done = keeper.ok("--restore", "--from", "offsite")
    assert late(keeper) == (what == "dump"), done
    assert name in done.out + done.err and "cannot be read" in done.out + done.err and "damaged" not in done.out + done.err, done


def test_an_object_that_cannot_be_read_for_a_while(lost, liar):
    """A part that the store does not return at first, while it lists its objects, is read again, and nothing is lost."""
    keeper = lost()
    path, refused = parts(liar)[-1], []

    def fault(h):
        if h.command != "GET" or h.path != path or len(refused) == 3:
            return False
        refused.append(h.path)
        h.refuse(503, "SlowDown")
        return True
    liar.fault = fault
    keeper.ok("--restore", "--from", "offsite")
    assert late(keeper) == 1 and len(refused) == 3, refused


def test_a_directory_without_an_end(base, tmp):
    """An endless listing of a mounted directory is given up, as with any other store, within a limit of CPU time."""
    store = Directory(base)
    os.makedirs(store.files + "/s8/dumps")
    for name in ("a", "b"):
        with open(f"{store.files}/s8/dumps/{name}", "w"):
            pass
    c = Caller(tmp, store.settings(), wrapper=[
        "env", "ASAN_OPTIONS=verify_asan_link_order=0", "LD_PRELOAD=" + built("tools", "endless_dir.so"),
        f"WK_ENDLESS={store.files}/s8/dumps", "prlimit", f"--cpu={60}"])
    said = c.call("list", "s8/dumps/")
    assert said["result"] == "stopped" and "its listing does not end" in said["error"], said
    assert c.names("s8/") == {} and c.names("s8/") == {}
    c.close()
