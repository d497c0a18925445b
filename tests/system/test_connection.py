"""Connections to the server: each level of TLS and each form of password, with either client library."""
import os
import select
import shutil
import socket
import tempfile
import threading

import pytest
from wk.keeper import FAILED, ORACLE, USAGE, USER
from wk.relay import Wire
from wk.server import MYSQL, Server, server_user
from wk.sinks import certificate
from wk.util import CANARY, stop_listening


def checked(keeper, **mysql):
    """Connects with these settings and returns the results of --check by their names."""
    keeper.configure({"mysql": {**dict.fromkeys(("socket", "host", "port", "tls", "tls_ca")), **mysql}})
    return {c["name"]: c for c in keeper.run("--check", "--json").result["checks"]}


def by_tcp(keeper, **mysql):
    return checked(keeper, host="127.0.0.1", port=str(keeper.server.port), **mysql)


def refused(checks, *words):
    found = checks["connection"]
    assert found["level"] == "fail" and found["hint"], found
    assert all(word in found["text"] + found["hint"] for word in words), found


def with_certificate(base, **names):
    """Returns a server with a certificate, and the path of the authority's certificate."""
    where = tempfile.mkdtemp(dir=base, prefix="tls")
    os.chmod(where, 0o755)
    ca, cert, key = certificate(where, **names)
    for path in (cert, key):
        if os.geteuid() == 0:
            shutil.chown(path, server_user())
    return Server(base, "--ssl-ca=" + ca, "--ssl-cert=" + cert, "--ssl-key=" + key), ca


@pytest.fixture(scope="module")
def secured(base):
    """Returns a server whose certificate is signed by its own authority."""
    server, ca = with_certificate(base)
    yield server.start(), ca
    server.destroy()


def test_tls_in_its_modes(secured, make_world, make_keeper, tmp):
    server, ca = secured
    keeper = make_keeper(make_world(on=server)).init()
    assert by_tcp(keeper, tls="off")["encryption"]["text"].startswith("none")
    for tls in ("preferred", "required"):
        assert by_tcp(keeper, tls=tls)["encryption"]["text"].startswith("TLSv1."), tls
    said = by_tcp(keeper, tls="verify", tls_ca=ca)["encryption"]["text"]
    assert f"certificate verified for 127.0.0.1 against tls_ca {ca}" in said, said
    refused(by_tcp(keeper, tls="verify"), "tls_ca")  # the system's authorities do not know it
    other, *_ = certificate(tmp)
    refused(by_tcp(keeper, tls="verify", tls_ca=other), "tls_ca")


def test_certificate_of_another_host(base, make_world, make_keeper):
    """A certificate that is signed by the right authority but not for the config's host is refused by tls = verify."""
    server, ca = with_certificate(base, names="DNS:db.example.com")
    try:
        keeper = make_keeper(make_world(on=server.start())).init()
        refused(by_tcp(keeper, tls="verify", tls_ca=ca), "tls_ca")
        assert by_tcp(keeper, tls="required")["encryption"]["text"].startswith("TLSv1.")
    finally:
        server.destroy()


def test_server_without_tls(make_server, make_world, make_keeper):
    """If the server has no TLS, required and verify fail; off and preferred connect without TLS."""
    keeper = make_keeper(make_world(on=make_server("--tls-version=" if MYSQL else "--skip-ssl"))).init()
    for tls in ("off", "preferred"):
        assert by_tcp(keeper, tls=tls)["encryption"]["text"].startswith("none"), tls
    for tls in ("required", "verify"):
        refused(by_tcp(keeper, tls=tls), "2026")


def test_tls_through_the_socket(secured, make_world, make_keeper):
    """A connection through the socket uses TLS only with tls = required, because no one can listen in there."""
    server, _ = secured
    keeper = make_keeper(make_world(on=server)).init()
    assert checked(keeper, socket=server.socket)["encryption"]["text"].startswith("none")
    assert checked(keeper, socket=server.socket, tls="required")["encryption"]["text"].startswith("TLSv1.")


@pytest.mark.only("mysql", why="MariaDB has no caching_sha2_password")
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
def test_sha2_passwords(secured, make_world, make_keeper, plugin):
    """If the server does not have the account's hash cached, the password itself must reach it: by a socket, by TLS, or encrypted
    with the server's public key."""
    server, ca = secured
    keeper = make_keeper(make_world(on=server)).init()
    if plugin not in [p for (p,) in server.sql("SELECT plugin_name FROM information_schema.plugins")]:
        pytest.fail(f"this server has no {plugin}")
    for host in ("localhost", "127.0.0.1"):
        server.sql(f"ALTER USER '{USER}'@'{host}' IDENTIFIED WITH {plugin} BY '{CANARY}'")
    for way in (dict(socket=server.socket), dict(tls="off"), dict(tls="preferred"), dict(tls="required"),
                dict(tls="verify", tls_ca=ca)):
        server.sql("FLUSH PRIVILEGES")
        for _ in range(2):  # the second login uses the cached hash
            checks = checked(keeper, **way) if "socket" in way else by_tcp(keeper, **way)
            assert checks["connection"]["level"] == "ok", (way, checks["connection"])
    keeper.secret("password", "wrong")
    refused(by_tcp(keeper, tls="off"), "password_file")


def test_an_init_connect_that_fails(make_server, make_world, make_keeper):
    """If init_connect fails, the server ends each session at its first statement; the error names the setting."""
    keeper = make_keeper(make_world(on=make_server())).init()
    keeper.server.sql("SET GLOBAL init_connect='SELECT nothing'")
    for action in ("--check", "--dump"):
        done = keeper.run(action)
        assert done.rc == FAILED and "SHOW GLOBAL VARIABLES LIKE 'init_connect'" in done.out + done.err, done
    keeper.server.sql("SET GLOBAL init_connect='SET @game=1'")
    keeper.dump()


def test_names_beyond_ascii(keeper, make_world, make_keeper):
    """Schema and account names may contain non-ASCII characters, whatever character set the library reports."""
    world = make_world(schema="világ ★")
    keeper.server.account("őr", [world.schema])
    try:
        other = make_keeper(world, name="w2")
        other.configure({"mysql": {"user": "őr"}})
        other.init().dump()
    finally:
        for host in ("localhost", "127.0.0.1"):
            keeper.server.sql(f"DROP USER 'őr'@'{host}'")


def test_nothing_on_stderr(keeper):
    """The client library prints no warnings: each action with --quiet leaves stderr empty."""
    for action in ("--dump", "--list", "--verify", "--check"):
        assert keeper.run(action, "--quiet").err == ""


class Downgrade(threading.Thread):
    """A relay that removes the offer of TLS from the server's greeting and records what the client sends."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to, self.said = port, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", self.to)) as server:
                try:
                    self.relay(client, server)
                except OSError:
                    pass

    def relay(self, client, server):
        greeting = bytearray(server.recv(65536))
        at = greeting.index(b"\0", 5) + 1 + 4 + 8 + 1  # after version, thread id and the first part of the salt
        assert greeting[at + 1] & 0x08
        greeting[at + 1] &= ~0x08
        client.sendall(greeting)
        while True:
            for end in select.select([client, server], [], [], 10)[0]:
                data = end.recv(65536)
                if not data:
                    return
                if end is client:
                    self.said += data
                (server if end is client else client).sendall(data)


@pytest.mark.parametrize("tls", ["verify", "required", "preferred"])
def test_tls_is_never_stripped(secured, make_world, make_keeper, tls):
    """If a relay removes the offer of TLS, there is no session, and the account's name is not sent. With tls = preferred there is
    a session without TLS, but no password in clear text."""
    server, ca = secured
    keeper = make_keeper(make_world(on=server)).init()
    relay = Downgrade(server.port)
    found = checked(keeper, host="127.0.0.1", port=str(relay.port), tls=tls,
                    **({"tls_ca": ca} if tls == "verify" else {}))
    stop_listening(relay.listener)
    assert CANARY.encode() not in relay.said
    if tls == "preferred":
        assert found["encryption"]["text"].startswith("none") and USER.encode() in relay.said, found
    else:
        refused(found, "tls", "the server offers no TLS" if tls == "required" and not ORACLE else "")
        assert USER.encode() not in relay.said


def test_another_host_is_proven_or_refused(keeper):
    """A connection to another host with less than tls = verify needs insecure = yes, and --check then warns of it."""
    keeper.configure({"mysql": {"socket": None, "host": "192.0.2.1", "connect_timeout": "1s"}})
    for tls in ("off", "preferred", "required"):
        keeper.configure({"mysql": {"tls": tls, "insecure": None}})
        done = keeper.run("--check")
        assert done.rc == USAGE and "insecure = yes" in done.err, done
        keeper.configure({"mysql": {"insecure": "yes"}})
        said = {c["name"]: c for c in keeper.run("--check", "--json").result["checks"]}
        assert said["insecure"]["level"] == "warn" and "[mysql]" in said["insecure"]["text"]
    keeper.configure({"mysql": {"tls": "verify"}})
    assert keeper.run("--check").rc == USAGE


def test_what_is_insecure_is_told(keeper):
    keeper.configure({"heartbeat": {"url_file": keeper.secret("beat", "http://192.0.2.1/x")}})
    assert "http:// to another host" in keeper.run("--check").out
    keeper.configure({"heartbeat": {"insecure": "yes", "timeout": "1s"}})
    keeper.start()
    assert "INSECURE: [heartbeat] insecure = yes" in keeper.log()
    assert len(keeper.status()["insecure"]) == 1


class OtherIds(Wire):
    """A proxy that greets its clients with connection ids of its own."""

    def connected(self):
        greeting = b""

        def passing(data, back, send):
            nonlocal greeting
            if not back or greeting is None:
                send(data)
                return
            greeting += data
            if len(greeting) >= 4 + int.from_bytes(greeting[:3], "little") > 4:
                at = greeting.index(b"\0", 5) + 1  # after the server's version
                send(greeting[:at] + (100007).to_bytes(4, "little") + greeting[at + 4:])
                greeting = None
        return passing


@pytest.mark.either_server
def test_a_proxy_with_connection_ids_of_its_own(make_world, make_keeper):
    """A restore compares the holder of its server lock with the id that the server gave the session, not the proxy."""
    world = make_world()
    wire = OtherIds(world.server.socket)
    keeper = make_keeper(world, {"mysql": wire.settings}).init()
    keeper.dump()
    before = world.snapshot()
    keeper.ok("--restore", "--force")
    world.assert_is(before)
