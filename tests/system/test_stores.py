"""Tests of stores for copies on other machines: the guarantees of each kind, on real servers and under faults."""
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
import urllib.parse

import machine
import pytest
from wk.keeper import BINARY, built, sanitized
from wk.relay import Cut
from wk.sinks import certificate
from wk.stores import ACCESS, SECRET, Caller, Dav, Directory, Liar, NewS3, S3, SftpLiar, Sshd, UnwillingSshd, secret_file, visible
from wk.util import peak_mib, wait_for

pytestmark = pytest.mark.any_server

KINDS = {"file": (Directory, None), "sftp": (Sshd, "sshd"), "dav": (Dav, "dav"), "s3": (S3, "radosgw"),
         "new-s3": (NewS3, "radosgw-new")}
FILES = ["file", "sftp", "dav"]  # s3 starts slowly, so one test has all of its cases
running = {}


@pytest.fixture(scope="session")
def stores(base):
    """Returns store(kind), which starts one store of each kind for the whole session when it is first asked for."""
    def store(kind):
        make, needs = KINDS[kind]
        if needs and machine.why_not(needs):
            pytest.skip(machine.why_not(needs))
        if kind not in running:
            running[kind] = make(base)
        return running[kind]
    yield store
    for one in running.values():
        one.stop()
    running.clear()


@pytest.fixture
def calls(tmp):
    made = []

    def call(settings, **more):
        made.append(Caller(tmp, settings, **more))
        return made[-1]
    yield call
    for one in made:
        assert one.close() == 0


def check(caller):
    """Returns [(level, text)] of what --check says about the store."""
    done = subprocess.run([BINARY, "--config", caller.config, "--allow-root", "--check"], capture_output=True, text=True)
    assert SECRET not in done.stdout + done.stderr
    lines = [line.split(None, 3) for line in done.stdout.splitlines() if " off-site store " in line]
    return [(words[0], words[3]) for words in lines if "plain = yes" not in words[3]]


BIG = os.urandom(1 << 16) * 300  # 19 MiB: three parts


@pytest.mark.parametrize("kind", FILES)
def test_what_holds_for_each_kind(stores, calls, kind):
    """Each kind stores a file completely or not at all, reads it back from any offset, lists it, never replaces it, and
    deletes it; --check accepts it."""
    store = stores(kind)
    c = calls(store.settings())
    assert c.opened["result"] == "ok", c.opened
    assert c.names() == {}
    bodies = {"a": b"x" * 300000, "empty": b"", "big": BIG, "unknown": BIG[:9 << 20]}
    for name, body in bodies.items():
        said = c.put("s8/dumps/" + name, body, -1 if name == "unknown" else "")
        assert said["result"] == "ok", said
        said, back = c.get("s8/dumps/" + name)
        assert said["result"] == "ok" and back == body, (name, said, len(back))
    again = c.put("s8/dumps/a", b"other")
    assert again["result"] == "exists" and c.get("s8/dumps/a")[1] == bodies["a"], again
    if kind != "new-s3":  # after a range it sends extra bytes
        assert c.get("s8/dumps/a", 299990)[1] == b"x" * 10
        assert c.get("s8/dumps/a", 300000) == ({"result": "ok", "error": "", "hint": "", "pause": 0}, b"")
    for size, body in ((299999, bodies["a"]), (300001, bodies["a"]), (0, b"x"), (len(BIG) - 1, BIG), (len(BIG) + 1, BIG)):
        said = c.put("s8/dumps/wrong", body, size)
        assert said["result"] == "refused" and f"announced {size}" in said["error"], said
    assert c.names() == {"s8/dumps/" + n: len(b) for n, b in bodies.items()}
    assert c.names("") == {} and c.names("s9/") == {}
    assert c.call("size", "s8/dumps/big")["size"] == len(BIG)
    for verb in ("size", "get"):
        said = c.call(verb, "s8/dumps/none", os.path.join(c.tmp, "x") if verb == "get" else "")
        assert said["result"] == "missing" and "s8/dumps/none" in said["error"], said
    for name in ("../a", "s8//a", "/a", "s8/.a", "s8/a.part", "s8/a+b", "s8/"):
        assert c.put(name, b"")["result"] == "refused"
    for _ in range(2):
        assert c.call("delete", "s8/dumps/a")["result"] == "ok"
    for name in ("empty", "big", "unknown"):
        assert c.call("delete", "s8/dumps/" + name)["result"] == "ok"
    assert c.names() == {}
    found = check(c)
    assert found[0][0] == "ok" and "stored, read back, listed and deleted" in found[0][1], found
    assert (" free: " in found[0][1]) == (kind == "file"), found
    assert len(found) == 1 or (kind == "new-s3" and len(found) == 2 and "allows replacing a file" in found[1][1]), found
    assert c.names("s8/") == {}


@pytest.mark.parametrize("kind", FILES)
def test_left_overs_are_swept_by_age(stores, calls, kind):
    """Left-overs of killed uploads are deleted once they are old and are never listed; nothing else is deleted."""
    store = stores(kind)
    c = calls(store.settings())
    c.put("s8/sweep/kept", b"kept")
    if kind == "s3":
        for i in range(2):
            assert store.curl("-X", "POST", store.at(f"worlds/a%20b/s8/sweep/u{i}?uploads="))[0] == 200
        assert c.call("sweep", "s8/sweep/", 3600000)["removed"] == 0
        time.sleep(1.1)
        assert c.call("sweep", "s8/sweep/", 1000)["removed"] == 2
    else:
        place = os.path.dirname(next(os.path.join(d, "kept") for d, _, f in os.walk(store.files) if "kept" in f))
        old, new = "x.1700000000-0123abcd.part", f"x.{int(time.time())}-0123abcd.part"
        for name in (old, new, "x.part"):
            with open(os.path.join(place, name), "w"):
                pass
        assert c.names("s8/sweep/") == {"s8/sweep/kept": 4}
        assert c.call("sweep", "s8/sweep/", 3600000)["removed"] == 1
        assert sorted(os.listdir(place)) == sorted(["kept", new, "x.part"])
    assert c.get("s8/sweep/kept")[1] == b"kept"
    assert c.call("delete", "s8/sweep/kept")["result"] == "ok"


@pytest.mark.parametrize("kind", FILES[1:])
def test_a_connection_cut_at_each_kind_of_byte(stores, calls, kind):
    """An interrupted upload is visible completely or not at all, and the next attempt succeeds or finds it complete."""
    store = stores(kind)
    cut = Cut(store.port)
    body = BIG[:200000] if kind != "s3" else BIG[:9 << 20]
    try:
        c = calls(store.settings(cut.port))
        places = (0, 1, 200, 1500, 3000, 4000, 6000, 100000) if kind != "s3" else (0, 200, 400, 1500, 9000000)
        for side, most in ((s, n) for s in ("from_client", "from_server") for n in places):
            name = f"s8/cut/{side}{most}"
            setattr(cut, side, most)
            fresh = Caller(c.tmp, store.settings(cut.port))
            said = fresh.put(name, body)
            setattr(cut, side, None)
            # libcurl cannot distinguish an interrupted login from a refused one.
            allowed = ("later", "ok", "exists", *(["denied"] if kind == "sftp" else []))
            assert said["result"] in allowed, (side, most, said)
            fresh.close()  # an open connection may still be cut
            fresh = Caller(c.tmp, store.settings(cut.port))
            said = fresh.put(name, body)
            assert said["result"] in ("ok", "exists"), (side, most, said)
            said, back = fresh.get(name)
            assert back == body, (side, most, said)
            fresh.call("delete", name)
            fresh.close()
        c.put("s8/cut/read", body)
        cut.from_server = len(body) // 2
        fresh = Caller(c.tmp, store.settings(cut.port))
        said, back = fresh.get("s8/cut/read")
        fresh.close()
        assert said["result"] == "later" and body.startswith(back), said
        cut.from_server = None
        c.call("sweep", "s8/cut/", -1000)
        c.call("delete", "s8/cut/read")
        assert c.names("s8/cut/") == {}
        assert not store.files or not [f for d, _, names in os.walk(store.files) for f in names
                                     if d.endswith("cut") and f.endswith(".part")]
    finally:
        cut.stop()


def test_sftp_asks_who_is_there_and_who_we_are(stores, calls, tmp, base):
    """An unknown, missing or RSA host key, a key that the server does not know, and files that others can read or write are
    each refused with their own message, and nothing is stored."""
    store = stores("sftp")
    before = visible(store)
    good = store.settings()

    def refused(result, *words, **keys):
        c = calls(good, **keys)
        said = c.opened if c.opened["result"] != "ok" else c.put("s8/x", b"x")
        assert said["result"] == result, said
        for word in words:
            assert word in said["error"] + said["hint"], (word, said)
        return c
    store.know(store.port, store.key + "-other.pub")
    c = refused("refused", "its host key is not the one in", store.known_hosts, "ssh-keyscan")
    assert check(c)[0][0] == "FAIL"
    store.know(store.port + 1)
    refused("refused", "its host key is not the one in")
    store.know(store.port, store.key + "-rsa.pub")
    refused("refused", "Ed25519 or ECDSA")
    store.know(store.port)
    refused("denied", "check the user, and that the server has the public key", key_file=store.key + "-other")
    library = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.partition("libssh2/")[2].split()[0]
    if tuple(map(int, library.split(".")[:2])) >= (1, 11):
        assert calls(good, key_file=store.key + "-rsa").put("s8/rsa", b"")["result"] == "ok"
        assert calls(good).call("delete", "s8/rsa")["result"] == "ok"
    else:
        refused("denied", "RSA keys need libssh2 1.11", key_file=store.key + "-rsa")
    os.chmod(store.known_hosts, 0o666)
    refused("refused", "writable by other users", "chmod go-w")
    os.chmod(store.known_hosts, 0o600)
    os.chmod(store.dir, 0o777)
    refused("refused", f"directory {store.dir}, on the way to", "is writable by other users (mode 0777)", f"chmod go-w {store.dir}")
    os.chmod(store.dir, 0o755)
    away = os.path.join(tmp, "away")  # a safe link to an unsafe directory
    os.mkdir(away)
    os.chmod(away, 0o777)
    with open(store.known_hosts) as f:
        secret_file(os.path.join(away, "known_hosts"), f.read())
    os.symlink(os.path.join(away, "known_hosts"), os.path.join(tmp, "link"))
    refused("refused", f"directory {away}, on the way to", known_hosts=os.path.join(tmp, "link"))
    os.chmod(away, 0o700)
    assert calls(good, known_hosts=os.path.join(tmp, "link")).call("size", "s8/x")["result"] == "missing"
    loose = secret_file(os.path.join(tmp, "loose"), open(store.key).read())
    os.chmod(loose, 0o644)
    refused("refused", "is readable by other users", "chmod 0600", key_file=loose)
    refused("refused", "known_hosts", known_hosts="/nowhere/known_hosts")
    assert visible(store) == before
    assert calls(good).put("s8/y", b"y")["result"] == "ok"
    assert calls(good).call("delete", "s8/y")["result"] == "ok"


def check_tells(caller, **env):
    done = subprocess.run([BINARY, "--config", caller.config, "--allow-root", "--check"], capture_output=True, text=True,
                          env={**os.environ, **env})
    return next(line for line in done.stdout.splitlines() if " off-site store " in line and "plain = yes" not in line)


@pytest.mark.parametrize("refused, words", [("rename", "cannot store"), ("opendir", "cannot list"), ("remove", "cannot delete")])
def test_check_tries_each_thing(calls, base, refused, words):
    """--check tries each operation, and fails by name if the server refuses one."""
    if machine.why_not("sshd"):
        pytest.skip(machine.why_not("sshd"))
    store = UnwillingSshd(base, refused)
    try:
        said = check_tells(calls(store.settings()))
        assert said.startswith("FAIL") and words in said, said
    finally:
        store.stop()


def test_check_tries_another_host_key(stores, calls):
    """--check fails if the SSH library connects to a server that is not in known_hosts."""
    store = stores("sftp")
    c = calls(store.settings())
    assert check_tells(c).startswith("ok")
    said = check_tells(c, LD_PRELOAD=built("tools", "other_null.so"), WK_NULL=store.known_hosts,
                       ASAN_OPTIONS="verify_asan_link_order=0")
    assert said.startswith("FAIL") and "connects to a server with any host key" in said, said


def test_tls(calls, tmp, base, stores, liar):
    """Over WebDAV and S3 data is sent only to a server with a valid certificate of tls_ca for this host, and credentials never
    follow a redirect."""
    stores("dav")
    made = {}
    for name, more in (("good", {}), ("over", {"days": "0"}), ("host", {"names": "DNS:store.example.net"}), ("other", {})):
        place = os.path.join(tmp, name)
        os.mkdir(place)
        ca, cert, key = certificate(place, **more)
        made[name] = (ca, (cert, key))
    dav = Dav(base, {name: pair for name, (_, pair) in made.items()})
    s3 = {name: Liar(base, made[name][1]) for name in made}
    try:
        over = int(time.time()) + 1
        wait_for(lambda: time.time() > over, "the second in which a certificate ends")
        for name, words in (("good", ()), ("over", ("expired", "a new certificate")),
                            ("host", ("name the host as in", "'127.0.0.1'")), ("other", ("tls_ca",))):
            ca = made["good" if name == "other" else name][0]
            for settings in (dav.settings(dav.tls_ports[name], scheme="https"), s3[name].settings()):
                c = calls(settings, tls_ca=ca)
                said = c.put("s8/x", b"x")
                assert said["result"] == ("refused" if words else "ok"), (name, said)
                for word in words:
                    assert word in said["error"] + said["hint"], (name, said)
            assert bool(s3[name].asked) == (name == "good")
        there = f"https://localhost:{s3['good'].port}/bucket/s8/y"
        liar.fault, before = lambda h: h.reply(307, Location=there) or True, len(s3["good"].asked)
        said = calls(liar.settings(), tls_ca=made["good"][0]).put("s8/y", b"y")
        assert said["result"] == "refused" and "a redirect, which is not followed" in said["error"], said
        assert len(s3["good"].asked) == before and liar.asked
    finally:
        for one in (dav, *s3.values()):
            one.stop()


def test_webdav_login_and_what_others_see(stores, calls, tmp):
    """A wrong password has its own message, and --check warns about a publicly readable directory."""
    store = stores("dav")
    wrong = secret_file(os.path.join(tmp, "wrong"), "wrong\n")
    said = calls(store.settings(), password_file=wrong).put("s8/x", b"x")
    assert said["result"] == "denied" and "401" in said["error"] and "password_file" in said["hint"], said
    found = check(calls(store.settings(place="open")))
    assert [f[0] for f in found] == ["ok", "warn"] and "can be read by others without a login" in found[1][1], found


@pytest.mark.slow
def test_s3(stores, calls, tmp):
    """radosgw passes the tests above. A wrong secret and a missing bucket have their own messages, a public bucket causes a
    warning, and locked copies stay."""
    store = stores("s3")
    test_what_holds_for_each_kind(stores, calls, "s3")
    test_left_overs_are_swept_by_age(stores, calls, "s3")
    test_a_connection_cut_at_each_kind_of_byte(stores, calls, "s3")
    wrong = secret_file(os.path.join(tmp, "wrong"), ACCESS + ":wrong\n")
    said = calls(store.settings(), access_key_file=wrong).put("s8/x", b"x")
    assert said["result"] == "denied" and "SignatureDoesNotMatch" in said["error"] and said["hint"], said
    # These processes' clock differs from the server's.
    clock = ["env", "ASAN_OPTIONS=verify_asan_link_order=0", "LD_PRELOAD=" + built("tools", "slow_clock.so"), f"WK_CLOCK_FROM={int(time.time()) - 3600 - 1200}"]
    said = calls(store.settings(), wrapper=clock).put("s8/x", b"x")
    assert said["result"] == "denied" and "RequestTimeTooSkewed" in said["error"] and "clock" in said["hint"], said
    said = calls(store.settings(bucket="nowhere")).put("s8/x", b"x")
    assert said["result"] == "refused" and "NoSuchBucket" in said["error"], said
    c = calls(store.settings(bucket="locked"), object_lock="1h")
    for name, body in (("small", b"x"), ("large", BIG)):
        assert c.put("s8/" + name, body)["result"] == "ok"
        status, text = store.curl(store.at(f"locked/s8/{name}?retention="))
        assert status == 200 and "GOVERNANCE" in text, (name, status, text)
    assert check(c)[0][0] == "ok"
    found = check(calls(store.settings(bucket="open")))  # only its list is public
    assert [f[0] for f in found] == ["ok", "warn"] and "can be read by others without a login" in found[1][1], found


def test_new_s3(stores, calls):
    """radosgw of Debian sid, which ignores conditions, passes the tests above, because we look for a name before writing it."""
    store = stores("new-s3")
    test_what_holds_for_each_kind(stores, calls, "new-s3")
    said = calls(store.settings(bucket="nowhere")).put("s8/x", b"x")
    assert said["result"] == "refused" and "NoSuchBucket" in said["error"], said


def test_a_store_that_is_full(calls, small_disk):
    """A full store has its own result, no part of the file stays, and a smaller file can still be stored."""
    path, seen, wrapper = small_disk
    if wrapper:
        pytest.skip("this machine: no file system may be mounted here: no disk can be made full")
    c = calls({"url": f"file://{path}/"})
    said = c.put("s8/dumps/big", BIG)
    assert said["result"] == "full" and "No space left" in said["error"], said
    assert os.listdir(os.path.join(seen, "s8/dumps")) == []
    assert c.put("s8/dumps/small", b"x" * 1000)["result"] == "ok"


def test_a_directory_that_is_not_there(calls, tmp):
    """A missing directory is never created, because it may be an unmounted file system; one that others can write is refused."""
    said = calls({"url": f"file://{tmp}/none/"}).opened
    assert said["result"] == "refused" and "mount it, or create it" in said["hint"], said
    os.mkdir(os.path.join(tmp, "loose"))
    os.chmod(os.path.join(tmp, "loose"), 0o777)
    assert calls({"url": f"file://{tmp}/loose/"}).opened["result"] == "refused"


def test_a_directory_that_is_replaced(calls, tmp):
    """A connection that opened a directory does not list it after another one took its place; a new connection uses that."""
    path = os.path.join(tmp, "disk")
    os.mkdir(path, 0o700)
    c = calls({"url": f"file://{path}/"})
    assert c.put("s8/dumps/a", b"a")["result"] == "ok" and list(c.names()) == ["s8/dumps/a"]
    os.rename(path, path + ".old")
    said = c.call("list", "s8/dumps/")
    assert said["result"] == "later" and "No such file" in said["error"], said
    os.mkdir(path, 0o700)
    said = c.call("list", "s8/dumps/")
    assert said["result"] == "later" and "another directory" in said["error"], said
    assert not calls({"url": f"file://{path}/"}).names()


ANSWERS = {  # status, code, headers, result, words of the message
    "denied": (403, "AccessDenied", {}, "denied", "AccessDenied: no"),
    "clock": (403, "RequestTimeTooSkewed", {}, "denied", "RequestTimeTooSkewed"),
    "login": (401, "Unauthorized", {}, "denied", "401"),
    "gone": (404, "NoSuchBucket", {}, "refused", "NoSuchBucket"),
    "taken": (412, "PreconditionFailed", {}, "exists", "the name is taken"),
    "conflict": (409, "ConditionalRequestConflict", {}, "later", "409"),
    "busy": (429, "TooManyRequests", {"Retry-After": "7"}, "later", "too many requests"),
    "error": (500, "InternalError", {}, "later", "500"),
    "slow down": (503, "SlowDown", {"Retry-After": "99999"}, "later", "SlowDown"),
    "full": (507, "StorageFull", {}, "full", "no space"),
    "quota": (403, "QuotaExceeded", {}, "full", "QuotaExceeded"),
    "moved": (301, "PermanentRedirect", {"x-amz-bucket-region": "eu-north-1"}, "refused", "in region eu-north-1"),
    "escape": (400, "\x1b[31m\u202e", {}, "refused", "400"),
    "secret": (400, SECRET, {}, "refused", "contains a secret"),
}


def test_answers_are_told_apart(calls, liar):
    """Each HTTP status has its result, with the store's own sanitized words and the pause that it asked for."""
    c = calls(liar.settings())
    for name, (status, code, headers, result, words) in ANSWERS.items():
        def fault(h):
            if h.command == "PUT":
                h.refuse(status, code, **headers)
            return h.command == "PUT"
        liar.fault = fault
        said = c.put("s8/x", b"x")
        assert said["result"] == result and words in said["error"], (name, said)
        assert said["error"].isprintable() and len(said["error"]) < 500, said
        assert said["pause"] == {"busy": 7000, "slow down": 3600000}.get(name, 0), (name, said)
    liar.fault = None
    assert c.put("s8/x", b"x")["result"] == "ok"


WORDS = {  # body of an answer, quoted words for S3 and for WebDAV
    "code": (b"<?xml version='1.0'?><Error><Code>Odd</Code><Message>very odd</Message><RequestId>7</RequestId></Error>",
             "Odd: very odd", "Odd very odd 7"),
    "html": (b"<html><head><style>p { x }</style><title>No</title></head><!-- <p> -->\n<body><p>a proxy says\r\n no</p>",
             "No a proxy says no", "No a proxy says no"),
    "json": (b'{"code": 17, "message": "a < b"}', '{"code": 17, "message": "a < b"}', '{"code": 17, "message": "a < b"}'),
    "text": (b"  Odd:\x1b[31m no\n", "Odd:?[31m no", "Odd:?[31m no"),
    "long": (b"x" * 5000, "x" * 200 + "...", "x" * 200 + "..."),
    "open": (b"before <a href=", "before", "before"),
    "none": (b"", "", ""),
    "secret": (f"no: {SECRET}".encode(), "", ""),
}


@pytest.mark.parametrize("kind", ["s3", "dav"])
def test_a_stores_own_words(calls, liar, tmp, kind):
    """Each refusal quotes the store's answer, for each request. HEAD, which has no body, is followed by a request that has
    one, unless the store asks for a pause."""
    settings = liar.settings()
    if kind == "dav":
        settings = {"url": f"http://127.0.0.1:{liar.port}/x/", "user": "wk", "password_file": secret_file(os.path.join(tmp, "p"), SECRET + "\n")}
    c = calls(settings)
    for status in (400, 409, 501, 503):
        for name, (body, s3, dav) in WORDS.items():
            liar.fault = lambda h: h.reply(status, body) or True
            words = s3 if kind == "s3" else dav
            for verb in ("size", "put", "get", "list", "delete"):
                path = os.path.join(tmp, "file")
                with open(path, "w"):
                    pass
                said = c.call(verb, *(["s8/"] if verb == "list" else ["s8/a", path]))
                end = f"HTTP {status}" + ", conflict" * (status == 409) + (", " + words if words else "")
                assert said["error"].endswith(end), (verb, name, said)
                assert said["result"] == ("later" if status in (409, 503) or kind == "dav" and status == 501 else "refused"), said
    liar.fault = lambda h: h.reply(503, b"later", Retry_After="5") or True
    before = len(liar.asked)
    assert c.call("size", "s8/a")["pause"] == 5000 and liar.asked[before:] == ["HEAD"]
    liar.fault = lambda h: h.command == "HEAD" and (h.reply(503) or True)
    said = c.call("size", "s8/a")
    assert said["result"] in ("later", "missing"), said


REGIONS = {  # status, headers, body
    "header": (400, {"x-amz-bucket-region": "eu-central-1"}, b""),
    "moved": (301, {"x-amz-bucket-region": "eu-central-1"}, b"<Error><Code>PermanentRedirect</Code></Error>"),
    "body": (400, {}, b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; expecting "
                      b"'eu-central-1'</Message><Region>eu-central-1</Region></Error>"),
}


def test_a_wrong_region(calls, liar):
    """A wrong region is reported with the right one and the line to write; if the store does not name it the hint asks."""
    c = calls(liar.settings())
    for name, (status, headers, body) in REGIONS.items():
        liar.fault = lambda h: h.reply(status, body, **headers) or True
        for verb in ("size", "put", "list"):
            said = c.call(verb, "s8/" if verb == "list" else "s8/a", c.config)
            assert said["result"] == "refused" and "in region eu-central-1, [offsite] region is us-east-1" in said["error"], (name, said)
            assert said["hint"] == "set region = eu-central-1 in [offsite]", said
    liar.fault = lambda h: h.refuse(400, "AuthorizationHeaderMalformed") or True
    said = c.call("size", "s8/a")
    assert "AuthorizationHeaderMalformed: no" in said["error"] and "is us-east-1 the region" in said["hint"], said
    liar.fault = lambda h: h.refuse(400, "Odd", x_amz_bucket_region="$(reboot)") or True
    said = c.call("size", "s8/a")
    assert "reboot" not in said["error"] + said["hint"], said
    right = calls(liar.settings(), region="eu-central-1")
    liar.fault = lambda h: h.reply(*REGIONS["body"][::2]) or True
    assert "; the bucket" not in right.call("size", "s8/a")["error"]


def test_slow_and_endless_answers_are_bounded(calls, liar):
    """A silent server, or one with endless headers, refusals or lists, is given up; at once if the answer is no longer wanted."""
    c = calls(liar.settings(), timeout="1s")
    over = threading.Event()

    def silent(h):
        over.wait(60)
        h.close_connection = True
        return True

    def endless(h):
        h.send_response(200 if h.command == "GET" else 500)
        for i in range(3000 if h.path == "/headers" else 0):
            h.send_header(f"x-{i}", "y" * 60)
        h.end_headers()
        try:
            while not over.is_set():
                h.wfile.write(b"<Contents><Key>s8/a</Key>" + b"<x>" * 10000)
        except OSError:
            pass
        h.close_connection = True
        return True

    def circles(h):
        h.reply(200, b"<ListBucketResult><IsTruncated>true</IsTruncated>"
                     b"<NextContinuationToken>t</NextContinuationToken></ListBucketResult>")
        return True
    liar.fault = silent
    assert c.call("size", "s8/a")["result"] == "later"
    assert c.put("s8/a", b"x")["result"] == "later"
    ended = calls(liar.settings(), timeout="1h")

    def silent_to_the_end(h):
        os.kill(ended.process.pid, signal.SIGUSR1)
        return silent(h)
    liar.fault = silent_to_the_end
    said = ended.call("size", "s8/a")
    assert said["result"] == "later" and "Callback aborted" in said["error"], said
    liar.fault = lambda h: endless(h) if h.command == "PUT" else False
    assert c.put("s8/b", b"x")["result"] == "later"
    liar.fault = circles
    said = calls(liar.settings()).call("list", "s8/")
    assert said["result"] == "refused" and "does not end" in said["error"], said
    liar.fault = lambda h: endless(h) if h.command == "GET" else False
    c = calls(liar.settings())  # limited by size, however slowly it comes
    said = c.call("list", "s8/")
    assert said["result"] == "stopped" and "does not end" in said["error"], said
    liar.fault = lambda h: h.reply(200, b"<ListBucketResult><Contents><Key>s8/a</Key></Contents>") or True
    said = c.call("list", "s8/")
    assert said["result"] == "later" and "truncated" in said["error"], said
    over.set()


@pytest.mark.slow
def test_sftp_servers_that_lie(calls, base):
    """An SFTP server with an endless directory, names or answers, a dripping or a silent one is given up and takes no memory."""
    for needs in ("sshd", "mount"):
        if machine.why_not(needs):
            pytest.skip(machine.why_not(needs))
    liar = SftpLiar(base)
    try:
        for mode, verb, result, says in (
                ("endless", "list", "stopped", "more than 1000000 files"), ("names", "list", "later", "cannot list"),
                ("huge", "size", "later", "cannot list"), ("huge", "get", "later", "cannot read"),
                ("silent", "size", "later", "timed out"), ("silent", "put", "later", "timed out"),
                ("drip", "list", "later", "timed out"), ("drip", "get", "later", "timed out")):
            liar.become(mode)
            c = calls(liar.settings(), timeout="60s" if mode in ("endless", "names", "huge") else "3s")
            path = os.path.join(c.tmp, "file")
            with open(path, "ab"):
                pass
            said = c.call(verb, *(["s8/"] if verb == "list" else ["s8/a", path]))
            # libcurl 8.14 reports a dripping server in these words.
            says = (says, "Error in the SSH layer") if mode == "drip" else (says,)
            assert said["result"] == result and any(s in said["error"] for s in says), (mode, verb, said)
            assert peak_mib([c.process.pid]) < 64 or sanitized(), (mode, verb)
    finally:
        liar.stop()


def test_stores_that_lie(calls, liar):
    """--check finds a store that stores nothing, returns other contents, or keeps deleted files, and reports one that ignores
    conditions or whose clock differs. A name that exists is never replaced."""
    c = calls(liar.settings())

    def when(command, do):
        def fault(h):
            return h.command == command and (do(h) or True)
        return fault
    assert [f[0] for f in check(c)] == ["ok"], check(c)
    liar.fault = when("PUT", lambda h: h.reply(200))
    assert check(c)[0][0] == "FAIL"
    liar.fault = lambda h: h.command == "GET" and "?" not in h.path and (h.reply(200, b"y" * 32) or True)
    found = check(c)
    assert found[0][0] == "FAIL" and "the bytes read back differ" in found[0][1], found
    liar.fault = when("DELETE", lambda h: h.reply(204))
    found = check(c)
    assert found[0][0] == "FAIL" and "still exists" in found[0][1], found
    liar.objects.clear()

    def ignores(h):
        del h.headers["If-None-Match"]
        return False
    liar.fault, liar.late = ignores, 1200
    found = check(c)
    assert [f[0] for f in found] == ["ok", "note", "warn"], found
    assert "allows replacing a file" in found[1][1] and "ahead" in found[2][1], found
    assert c.put("s8/x", b"1")["result"] == "ok"
    assert c.put("s8/x", b"2")["result"] == "exists" and liar.objects["/bucket/s8/x"] == b"1"

    def public(h):
        anybody = "Authorization" not in h.headers and h.path in liar.objects
        return anybody and (h.reply(200, liar.objects[h.path]) or True)
    liar.fault, liar.late = public, 0
    found = check(c)
    assert [f[0] for f in found] == ["ok", "warn"] and "can be read by others without a login" in found[1][1], found

    def unknown(h):
        if h.headers.get("If-None-Match"):
            h.refuse(501, "NotImplemented")
            return True
        return False
    liar.fault = unknown
    assert c.put("s8/y", b"1")["result"] == "ok" and liar.objects["/bucket/s8/y"] == b"1"
    for verb, result in (("store", "ok"), ("put", "later")):  # the store has read all of it; only one of them can be repeated
        path = os.path.join(c.tmp, "large")
        with open(path, "wb") as f:
            f.write(BIG)
        assert calls(liar.settings()).call(verb, "s8/" + verb, path)["result"] == result
    assert liar.objects["/bucket/s8/store"] == BIG and "/bucket/s8/put" not in liar.objects


def test_names_of_others(calls, liar):
    """In a bucket with foreign objects, with a server that lists all of them, only ours are seen, and no foreign upload is
    aborted."""
    c = calls(liar.settings())
    assert c.put("s8/dumps/a", b"x")["result"] == "ok"
    for name in ("other", "s9/dumps/b", "s8/b", "s8/dumps/sub/b", "s8/dumps/.b", "s8/dumps/b.part", "s8/dumps/b b", "s8/dumps/",
                 "s8/dumps/" + "b" * 900):
        liar.objects["/bucket/" + name] = b"theirs"
    before = dict(liar.objects)
    assert c.names() == {"s8/dumps/a": 1}

    def uploads(h):
        asked = h.command == "GET" and "uploads=" in h.path
        if asked:
            h.reply(200, ("<ListMultipartUploadsResult>" + "".join(
                f"<Upload><Key>{key}</Key><UploadId>1</UploadId><Initiated>2020-01-01T00:00:00Z</Initiated></Upload>"
                for key in ("other", "s9/dumps/b", "s8/dumps/mine")) + "</ListMultipartUploadsResult>").encode())
        return asked
    liar.fault = uploads
    assert c.call("sweep", "s8/dumps/", 1000)["removed"] == 1
    assert liar.paths[-1] == "/bucket/s8/dumps/mine?uploadId=1" and liar.objects == before


def test_a_proxy_that_takes_no_large_request(liar, calls, tmp):
    """A single large request that is refused by its size or by its missing hash is repeated in parts, and later files are sent
    in parts at once."""
    data, parts, refused = os.urandom(20 << 20), {}, []
    source = os.path.join(tmp, "large")
    with open(source, "wb") as f:
        f.write(data)

    def proxy(h):
        path, _, query = h.path.partition("?")
        asked = urllib.parse.parse_qs(query, keep_blank_values=True)
        if h.command == "PUT" and "partNumber" in asked:
            parts[int(asked["partNumber"][0])] = h.body
            h.reply(200, ETag='"e"')
        elif h.command == "POST" and "uploads" in asked:
            h.reply(200, b"<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
        elif h.command == "POST":
            liar.objects[path] = b"".join(parts.pop(n) for n in sorted(parts))
            h.reply(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
        elif h.command == "PUT" and len(h.body) > 10 << 20:
            refused.append(path)
            h.refuse(*answer)
        else:
            return False
        return True
    for answer in ((413, "EntityTooLarge"), (403, "AccessDenied")):
        liar.objects.clear()
        refused.clear()
        c, liar.fault = calls(liar.settings()), proxy
        for name in ("s8/dumps/a", "s8/dumps/b"):
            said = c.call("store", name, source)
            assert said["result"] == "ok" and liar.objects["/bucket/" + name] == data, said
        assert refused == ["/bucket/s8/dumps/a"]


def test_a_store_that_lies_to_the_supervisor(make_world, make_keeper, liar):
    """A copy that the store did not store, or returns with other contents, does not count and gets no manifest; once the store
    is honest all copies are made."""
    keeper = make_keeper(make_world("small"), {"offsite": {**liar.settings(), "plain": "yes"}}).init()
    name = keeper.dump()["name"]

    def told():
        return keeper.status()["offsite"] or {}

    def forgets(h):
        return h.command == "PUT" and (h.reply(200) or True)

    def garbles(h):
        body = liar.objects.get(h.path.partition("?")[0]) if h.command == "GET" else None
        return bool(body) and (h.reply(200, bytes([body[0] ^ 1]) + body[1:]) or True)
    for n, liar.fault in enumerate((forgets, garbles)):
        before = told()["failed"] if n else 0
        n or keeper.start()
        keeper.wait(lambda: told().get("failed", 0) > before, "a failure")
        assert told()["state"] != "stored" and told()["newest"] is None and told()["last_error"], told()
        assert not [path for path in list(liar.objects) if path.endswith(".json")], list(liar.objects)
    liar.fault = None
    keeper.wait(lambda: told().get("state") == "stored" and told()["newest"] == name, "its copy")
    stored = {path: data for path, data in list(liar.objects.items()) if path.endswith(".json")}
    ((path, manifest),) = stored.items()
    there = json.loads(manifest)["offsite"]
    data = liar.objects[path.rpartition("/")[0] + "/" + there["file"]]
    assert (len(data), hashlib.sha256(data).hexdigest()) == (there["size"], there["sha256"])
    # The store refuses to list left-overs and asks for a pause: copies are made all the same.
    liar.fault = lambda h: "uploads=" in h.path and (h.refuse(503, "SlowDown", Retry_After="3600") or True)
    for _ in range(2):
        name = keeper.dump()["name"]
        keeper.wait(lambda: told().get("state") == "stored" and told()["newest"] == name, "its copy")
    keeper.wait_log("cannot delete interrupted uploads in the store")
    keeper.stop()
    garbled = []  # one wrong reading is not damage

    def garbles_once(h):
        first = h.path.endswith(".sql.gz") and h.command == "GET" and h.path not in garbled
        return first and (garbled.append(h.path) or garbles(h))
    liar.fault = garbles_once
    keeper.ok("--verify", "--from", "offsite")
    assert len(garbled) == 3, garbled
    assert SECRET not in keeper.log()


def test_a_store_that_refuses_the_supervisor(make_world, make_keeper, liar):
    """A busy store is not asked again before the time it gave. A forbidden request is reported once, however often it is
    tried. Probes continue meanwhile, and copies resume when the store works."""
    keeper = make_keeper(make_world("small"), {"offsite": {**liar.settings(), "plain": "yes"}}).init()
    name = keeper.dump()["name"]
    asked = []

    def refuse(status, code, **headers):
        def answer(h):
            asked.append((status, time.monotonic()))
            h.refuse(status, code, **headers)
            return True
        return answer
    for status, code in ((429, "TooManyRequests"), (503, "SlowDown")):
        liar.fault = refuse(status, code, Retry_After="2")
        keeper.alive() or keeper.start()
        keeper.expect(f"a {status}", offsite=lambda o: o and o["state"] == "failing" and code in (o["last_error"] or ""))
    liar.fault = refuse(403, "AccessDenied")
    keeper.wait(lambda: len([s for s, _ in asked if s == 403]) > 1, "two questions answered by 403")
    assert [later - at for (status, at), (_, later) in zip(asked, asked[1:]) if status != 403 and later - at < 1.9] == [], asked
    keeper.expect("that it is forbidden", troubles=lambda t: any("HTTP 403" in x["what"] for x in t))
    keeper.probes_pass("A")
    liar.fault = None
    keeper.expect("its copy", offsite=lambda o: o["newest"] == name,
                  troubles=lambda t: not any("other machine" in x["what"] for x in t))

    def told():
        return [r for r in keeper.ok("--history", "--json")["records"] if r.get("condition") == "offsite"]
    keeper.wait(lambda: told() and not told()[-1]["on"], "the end in the history")
    assert len([r for r in told() if r["on"] and "HTTP 403" in r["what"]]) == 1, told()


def test_the_rate_is_limited(stores, calls):
    """max_rate limits the bytes per second, in a directory too."""
    for settings in (stores("file").settings(), stores("sftp").settings()):
        c = calls(settings, max_rate="200kB")
        begun = time.monotonic()
        assert c.put("s8/rate", b"x" * 400000)["result"] == "ok"
        assert time.monotonic() - begun > 1
        c.call("delete", "s8/rate")
