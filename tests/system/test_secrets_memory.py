"""Tests that secrets which were replaced, or read only for inspection, are no longer in the memory of our processes."""
import http.server
import json
import os
import re
import signal
import threading

import pytest

from wk.stores import LeaseCaller, secret_file
from wk.util import CANARY

OTHER = "another-canary-of-the-same-kind"


SHADOW = 1 << 30  # bytes; a sanitizer's own mappings are larger and hold no secrets


def found_in(pid, secrets):
    """Returns how often the memory of a process holds each of these secrets."""
    found = dict.fromkeys(secrets, 0)
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end, access = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+)", line).groups()
            if not access.startswith("rw") or int(end, 16) - int(begin, 16) > SHADOW:
                continue
            try:
                memory.seek(int(begin, 16))
                data = memory.read(int(end, 16) - int(begin, 16))
            except (OSError, ValueError, OverflowError):
                continue  # for example [vvar]
            for secret in secrets:
                found[secret] += data.count(secret.encode())
    return found


@pytest.mark.needs("strace")
def test_what_was_replaced_is_gone(keeper, http):
    """The supervisor's memory holds one copy of the current password and key, and none of a password, key or webhook URL that
    was replaced."""
    old_key, new_key, token = "old-canary-" * 4, "new-canary-" * 4, "canary-of-a-hook"
    keeper.configure({"dump": {"hmac_key_file": keeper.secret("key", old_key)},
                      "alert.webhook": {"url_file": keeper.secret("hook", f"{http.url}?{token}"),
                                        "insecure": "yes"}})
    keeper.start()
    keeper.dump()
    found = found_in(keeper.process.pid, [CANARY, old_key, token])
    assert found == {CANARY: 1, old_key: 1, token: 0}, found
    keeper.server.sql(f"ALTER USER keeper@localhost IDENTIFIED BY '{OTHER}'")
    keeper.secret("password", OTHER)
    keeper.secret("key", new_key)
    os.kill(keeper.process.pid, signal.SIGHUP)
    keeper.wait_log(".ini reloaded")
    wanted = {CANARY: 0, OTHER: 1, old_key: 0, new_key: 1, token: 0}
    keeper.wait(lambda: found_in(keeper.process.pid, wanted) == wanted,
                lambda: f"the old secrets to be gone: {found_in(keeper.process.pid, wanted)}")
    keeper.stop()
    keeper.server.account("keeper", [keeper.world.schema])


class OneMember(http.server.BaseHTTPRequestHandler):
    """Plays as much of etcd as a login and a read of an empty lease need."""
    protocol_version = "HTTP/1.1"
    token = "token-canary-9876543210"

    def log_message(self, *args):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = {"token": self.token} if self.path.endswith("authenticate") else {"header": {"revision": "1"}, "kvs": []}
        known = self.path.endswith("authenticate") or self.headers.get("Authorization") == self.token
        data = json.dumps(answer if known else {"error": "no"}).encode()
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.mark.any_server
def test_a_login_at_etcd_leaves_no_copies(tmp):
    """After a login at etcd the memory holds only the two copies of the password that the program keeps, and none in memory
    that libraries have freed. The token is not checked, because newer versions of libcurl keep it with the connection."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneMember)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    password = "canary-of-etcd-0123456789"
    caller = LeaseCaller(tmp, "a/1", {"lease": "etcd", "etcd": f"http://127.0.0.1:{server.server_address[1]}", "user": "u",
                                      "password_file": secret_file(os.path.join(tmp, "etcd"), password)})
    try:
        assert caller.call("open")["result"] == "ok"
        for _ in range(5):
            said = caller.call("read")
            assert said["result"] == "ok" and said["free"], said
        assert found_in(caller.process.pid, [password]) == {password: 2}
    finally:
        caller.close()
        server.shutdown()
        server.server_close()
