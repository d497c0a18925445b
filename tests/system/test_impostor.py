"""tls = verify: a server that is not proven to be the right one receives no secret, whatever it sends and whichever client
library is used. Impostors with every kind of certificate ask for every login method, in place of the server and in front of
it."""
import os
import shutil
import subprocess
import tempfile

import pytest
from wk.keeper import DONE, ORACLE, USER
from wk.progress import Central, made
from wk.relay import Between, Impostor, impostor, server_context
from wk.server import Server, server_user
from wk.sinks import NEW_KEY, certificate, self_made
from wk.util import CANARY

pytestmark = pytest.mark.third_on_mysql

PLUGINS = ["mysql_native_password", "caching_sha2_password", "mysql_clear_password", "dialog", "client_ed25519"]
# Oracle's library has few plugins and begins with the one that the server names.
KNOWN = ["caching_sha2_password"] if ORACLE else PLUGINS
NAME = "db.world.test"
NAMES = f"IP:127.0.0.1,DNS:{NAME}"
STORE = "/etc/ssl/certs"


@pytest.fixture(scope="module")
def authority(base):
    """Yields {kind: (cert, key)} of certificates that an authority or another party signed, the authority's file, and a directory
    with it in the form of the system's store."""
    where = tempfile.mkdtemp(dir=base, prefix="ca")
    os.chmod(where, 0o755)

    def signed(kind, **how):
        at = os.path.join(where, kind)
        os.mkdir(at, 0o755)
        if how.pop("ours", True):
            for name in ("ca.pem", "ca.key"):
                os.symlink(os.path.join(where, "good", name), os.path.join(at, name))
        return certificate(at, **how)[1:]
    found = {"good": signed("good", ours=False, names=NAMES),
             "unknown": signed("unknown", ours=False, names=NAMES),
             "other name": signed("other", names="DNS:db.example.com,IP:127.0.0.9"),
             "expired": signed("expired", names=NAMES, days="0"),
             "self-made": self_made(where, NAMES)}
    ca = os.path.join(where, "good", "ca.pem")
    store = os.path.join(where, "store")
    os.mkdir(store, 0o755)
    shutil.copy(ca, os.path.join(store, "ours.pem"))
    subprocess.run(["openssl", "rehash", store], check=True)
    yield found, ca, store


@pytest.fixture(scope="module")
def real(base, authority):
    """Starts a server with the good certificate."""
    cert, key = authority[0]["good"]
    if os.geteuid() == 0:
        for path in (cert, key):
            shutil.chown(path, server_user())
    server = Server(base, "--ssl-ca=" + authority[1], "--ssl-cert=" + cert, "--ssl-key=" + key)
    yield server.start()
    server.destroy()


def elsewhere(tmp, store=None):
    """Returns a command prefix that runs a program where NAME resolves to 127.0.0.1 and the system trusts `store`."""
    hosts = os.path.join(tmp, "hosts")
    with open(hosts, "w") as f:
        f.write(f"127.0.0.1 localhost {NAME}\n")
    mounts = [f"mount --bind {hosts} /etc/hosts"] + ([f"mount --bind {store} {STORE}"] if store else [])
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    return [*own, "sh", "-c", " && ".join(mounts) + ' && exec "$@"', "sh"]


@pytest.fixture
def asked(make_keeper, make_world, authority, real, tmp):
    """Returns asked(host, trust, port), which runs --check with tls = verify."""
    keeper = make_keeper(make_world(on=real))
    keeper.init()

    def ask(host, trust, port, **more):
        keeper.prefix = elsewhere(tmp, authority[2] if trust == "system" else None) if (
            trust == "system" or host == NAME) else []
        keeper.configure({"mysql": {"socket": None, "host": host, "port": str(port), "tls": "verify",
                                    "tls_ca": authority[1] if trust == "tls_ca" else None, "connect_timeout": "10s",
                                    **more}})
        done = keeper.run("--check", "--json")
        keeper.prefix = []
        return done
    return ask


def checks(done):
    return {c["name"]: c for c in done.result["checks"]}


def in_front_of(kind, certificates, port):
    """Yields (name, impostor) for every way to answer in place of the server."""
    context = server_context(*certificates[kind]) if kind in certificates else None
    for plugin in PLUGINS:
        yield plugin, Impostor(plugin, context, switches=plugin == "client_ed25519")
    if kind != "no TLS":
        yield "a relay", Between(port, context)


KINDS = ["self-made", "unknown", "other name", "expired", "no TLS", "TLS stripped"]


def ways(*trusts):
    """Yields each way to name the server with each way to trust it. Changes of files in /etc need a mount namespace."""
    for host in ("127.0.0.1", NAME):
        for trust in trusts:
            needs = pytest.mark.needs("mount") if host == NAME or trust == "system" else ()
            yield pytest.param(host, trust, marks=needs)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("host, trust", ways("tls_ca", "nothing", "system"))
def test_nobody_else_is_told_anything(asked, authority, real, kind, host, trust):
    """An impostor receives neither the account's name nor an answer to a challenge nor the password, and --check fails with a
    reason."""
    for name, who in in_front_of(kind, authority[0], real.port):
        with impostor(who) as there:
            done = asked(host, trust, there["port"])
        assert who.came and who.heard == b"", (name, who.heard, done)
        assert not getattr(who, "logged_in", False), name
        connection = checks(done)["connection"]
        assert connection["level"] == "fail" and "encryption" not in checks(done), (name, connection)
        assert connection["hint"] and ("2026" in connection["text"] or name in ("mysql_clear_password", "dialog")), (
            name, connection)


def test_who_is_asked_for_less_hears_something(asked, authority, real):
    """With tls = required the impostors do receive data; otherwise the other tests would prove nothing."""
    context = server_context(*authority[0]["self-made"])
    for plugin in KNOWN:
        who = Impostor(plugin, context, switches=not ORACLE)
        with impostor(who) as there:
            asked("127.0.0.1", "nothing", there["port"], tls="required")
        assert USER.encode() in who.heard, plugin
        assert CANARY.encode() not in who.heard or plugin == "caching_sha2_password", plugin
    who = Between(real.port, context)
    with impostor(who) as there:
        asked("127.0.0.1", "nothing", there["port"], tls="required")
    assert who.logged_in


@pytest.mark.parametrize("host, trust", ways("tls_ca", "system"))
def test_the_server_is_proven(asked, authority, real, host, trust):
    """The right server is accepted by the authority of tls_ca or by the system's store, and --check says which."""
    found = checks(asked(host, trust, real.port))
    assert found["connection"]["level"] == "ok", found["connection"]
    said = found["encryption"]["text"]
    assert found["encryption"]["level"] == "ok" and f"certificate verified for {host} " in said, said
    assert authority[1] in said if trust == "tls_ca" else "the system's authorities" in said, said


@pytest.mark.parametrize("plugin", KNOWN)
def test_who_is_proven_is_told_everything(asked, authority, plugin):
    """A server with the good certificate receives everything that a plugin sends, including the password, also if it first names
    another plugin."""
    who = Impostor(plugin, server_context(*authority[0]["good"]), switches=not ORACLE)
    with impostor(who) as there:
        asked("127.0.0.1", "tls_ca", there["port"])
    assert USER.encode() in who.heard
    assert (CANARY.encode() in who.heard) == (plugin not in ("mysql_native_password", "client_ed25519")), plugin


def test_a_chain_is_followed(asked, authority, tmp):
    """A certificate of an intermediate authority is accepted if the server sends the intermediate certificate, and rejected
    otherwise."""
    ca = os.path.dirname(authority[1])

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=tmp)
    openssl("req", *NEW_KEY, "-keyout", "ca.key", "-out", "csr", "-subj", "/CN=between")
    with open(os.path.join(tmp, "ext"), "w") as f:
        f.write("basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n")
    openssl("x509", "-req", "-in", "csr", "-CA", ca + "/ca.pem", "-CAkey", ca + "/ca.key", "-CAcreateserial", "-out",
            "ca.pem", "-days", "2", "-extfile", "ext")
    between, cert, key = certificate(tmp, names=NAMES)
    for sent, heard in (((cert, between), True), ((cert,), False)):
        whole = os.path.join(tmp, "sent.pem")
        with open(whole, "wb") as f:
            for part in sent:
                with open(part, "rb") as one:
                    f.write(one.read())
        who = Impostor("mysql_native_password", server_context(whole, key))
        with impostor(who) as there:
            done = asked("127.0.0.1", "tls_ca", there["port"])
        assert (USER.encode() in who.heard) == heard and (heard or who.heard == b""), done


def test_what_was_not_proven_is_not_called_so(asked, real):
    for tls in ("preferred", "required"):
        assert "verified for" not in checks(asked("127.0.0.1", "nothing", real.port, tls=tls))["encryption"]["text"]


@pytest.mark.parametrize("tls", ["required", "preferred"])
@pytest.mark.parametrize("plugin", PLUGINS)
def test_who_takes_tls_away_later(asked, authority, plugin, tls):
    """If TLS is offered to the first connection only, the password is never sent in clear text, and with tls = required not even
    the account's name. Oracle's library makes only one attempt."""
    who = Impostor(plugin, server_context(*authority[0]["self-made"]), lambda n: n == 0 and not ORACLE, switches=True)
    with impostor(who) as there:
        asked("127.0.0.1", "nothing", there["port"], tls=tls)
    assert who.came > 1 or ORACLE
    assert CANARY.encode() not in who.heard
    if tls == "required":
        assert who.heard == b"", who.heard


@pytest.mark.only("mariadb", "mysql", why="the central store needs MariaDB 10.11", since=(10, 11))
@pytest.mark.parametrize("kind", KINDS)
def test_the_central_store_is_proven(make_keeper, make_world, authority, real, server, kind):
    """tls = verify protects the connection to the central store ([progress]) in the same way."""
    keeper = make_keeper(make_world()).init()
    play = made(keeper, Central(server))
    for name, who in in_front_of(kind, authority[0], real.port):
        with impostor(who) as there:
            keeper.configure({"progress": {**there, "tls": "verify", "tls_ca": authority[1]}})
            done = play.keeper.run("--write-back")
        assert done.rc != DONE and who.came and who.heard == b"", (name, who.heard, done)
