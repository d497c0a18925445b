"""Relays in front of a server: `Wire` carries bytes unchanged, late, changed or not at all; `Relay` understands enough of the
protocol to give answers in the server's place and to record a session's bytes."""
import contextlib
import select
import socket
import ssl
import struct
import threading
import time

from .util import stop_listening

QUERY, PREPARE, EXECUTE = 0x03, 0x16, 0x17
# Capabilities that are removed from the server's greeting, because they would change the packets' form.
COMPRESS, TLS, EOF_LESS, METADATA, ZSTD, ATTRIBUTES = 1 << 5, 1 << 11, 1 << 24, 1 << 25, 1 << 26, 1 << 27
NOT_OFFERED = COMPRESS | TLS | EOF_LESS | METADATA | ZSTD | ATTRIBUTES
OK, EOF, NULL = 0x00, 0xFE, b"\xfb"


def lenenc(data):
    n = len(data)
    if n < 251:
        return bytes([n]) + data
    return (b"\xfc" + struct.pack("<H", n) if n < 65536 else b"\xfe" + struct.pack("<Q", n)) + data


def packed(body, number):
    return struct.pack("<I", len(body))[:3] + bytes([number & 255]) + body


def text_row(*values):
    return b"".join(NULL if v is None else lenenc(v.encode() if isinstance(v, str) else v) for v in values)


def column(name, kind=253, length=255):
    """Returns the definition of a column of an answer."""
    texts = b"".join(lenenc(t) for t in (b"def", b"", b"t", b"t", name.encode(), name.encode()))
    return texts + b"\x0c" + struct.pack("<HIBHBxx", 63, length, kind, 0, 0)


def answer(names, rows):
    """Yields the packets of a whole answer in text form."""
    yield bytes([len(names)])
    for name in names:
        yield column(name)
    yield b"\xfe\0\0\2\0"
    yield from rows
    yield b"\xfe\0\0\2\0"


def offering_less(greeting):
    """Returns the server's greeting without the capabilities that the relay does not understand."""
    at = greeting.index(b"\0", 1) + 1 + 4 + 8 + 1
    low, high = struct.unpack_from("<H", greeting, at)[0], struct.unpack_from("<H", greeting, at + 5)[0]
    offers = (low | high << 16) & ~NOT_OFFERED
    out = bytearray(greeting)
    struct.pack_into("<H", out, at, offers & 0xFFFF)
    struct.pack_into("<H", out, at + 5, offers >> 16)
    if not offers & 1:  # MariaDB, with capabilities of its own
        struct.pack_into("<I", out, at + 14, 0)
    return bytes(out)


@contextlib.contextmanager
def impostor(serve):
    """Runs serve(connection) in the server's place, and yields the settings that lead to it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        while True:
            try:
                con, _ = listener.accept()
            except OSError:
                return
            con.settimeout(3)
            with contextlib.suppress(OSError):
                serve(con)
            con.close()
    threading.Thread(target=run, daemon=True).start()
    yield {"socket": None, "host": "127.0.0.1", "port": str(listener.getsockname()[1])}
    stop_listening(listener)


def greeting_of(plugin, tls, salt=b"a" * 20):
    """Returns the first packet of a MariaDB server, with or without the capability of TLS."""
    return (b"\x0a5.5.5-10.11.0-MariaDB\0" + b"\1\0\0\0" + salt[:8] + b"\0" + (b"\xff\xff" if tls else b"\xff\xf7")
            + b"\x2d" + b"\2\0" + b"\xff\x81" + b"\x15" + b"\0" * 10 + salt[8:] + b"\0" + plugin.encode() + b"\0")


def asks_for_tls(said):
    """Returns whether this is a client's request for TLS, which precedes its login."""
    return len(said) == 36 and struct.unpack_from("<I", said, 4)[0] & TLS != 0


def one_packet(con):
    """Returns the next packet with its header, or a part of it if the other end closed the connection."""
    said, whole = b"", 4
    while len(said) < whole:
        more = con.recv(whole - len(said))
        if not more:
            break
        said += more
        if len(said) == 4:
            whole += int.from_bytes(said[:3], "little")
    return said


def server_context(cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


class Impostor:
    """Answers in the server's place, with the certificate of `context`, or without TLS if None. `said` has what clients sent
    except requests for TLS. It asks for the login method `plugin` at first and once more, with `switches` only the second
    time. offers(n) tells whether the n-th connection is offered TLS."""

    def __init__(self, plugin, context=None, offers=lambda n: True, switches=False):
        self.first = "mysql_native_password" if switches else plugin
        self.plugin, self.context, self.offers, self.said, self.came = plugin, context, offers, [], 0

    def __call__(self, con):
        tls = self.context is not None and self.offers(self.came)
        self.came += 1
        con.sendall(packed(greeting_of(self.first, tls), 0))
        said = one_packet(con)
        if tls and asks_for_tls(said):
            with self.context.wrap_socket(con, server_side=True) as inner:
                self.talk(inner, 2, one_packet(inner))
        else:
            self.talk(con, 1, said)

    def talk(self, con, number, said):
        salt = b"b" * (32 if self.plugin == "client_ed25519" else 20)
        asked = {"dialog": b"\x04Password: ", "mysql_clear_password": b""}.get(self.plugin, salt + b"\0")
        self.said.append(said)
        full = [b"\1\4"] if self.plugin == "caching_sha2_password" else []
        for body in (b"\xfe" + self.plugin.encode() + b"\0" + asked, *full):
            if not said:
                return
            con.sendall(packed(body, number + 1))
            said = one_packet(con)
            self.said.append(said)
            number += 2

    @property
    def heard(self):
        return b"".join(self.said)


class Between:
    """A man in the middle. It gives a client TLS with the certificate of `context` and forwards its data to the real server
    over TLS. Without a context it removes the server's offer of TLS. `said` has the client's data, `logged_in` whether the
    server accepted the login."""

    def __init__(self, port, context=None):
        self.port, self.context, self.said, self.logged_in, self.came = port, context, b"", False, 0

    def __call__(self, con):
        self.came += 1
        with socket.create_connection(("127.0.0.1", self.port), 60) as server:
            greeting = bytearray(one_packet(server))
            if greeting[4:5] != b"\x0a":  # the server accepts nobody now
                con.sendall(greeting)
                return
            if not self.context:
                greeting[greeting.index(b"\0", 5) + 15] &= ~(TLS >> 8)
            con.sendall(greeting)
            said = one_packet(con)
            if not self.context or not asks_for_tls(said):
                self.carry(con, server, said)
                return
            server.sendall(said)
            anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
            with self.context.wrap_socket(con, server_side=True) as inner, anybody.wrap_socket(server) as outer:
                self.carry(inner, outer, one_packet(inner))

    def carry(self, client, server, said):
        while said:
            self.said += said
            server.sendall(said)
            answer = one_packet(server)
            self.logged_in |= answer[4:5] == b"\0"
            client.sendall(answer)
            said = one_packet(client)

    @property
    def heard(self):
        return self.said


class Wire:
    """Listens on a port of 127.0.0.1 and carries everything to `to` (a port there, or a socket's path) and back, at most
    `piece` bytes at a time, each `delay` seconds late. cut() ends all connections and accepts none until mend()."""
    piece = 65536

    def __init__(self, to, delay=0):
        self.to, self.delay, self.open, self.ends = to, delay, True, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.settings = {"socket": None, "host": "127.0.0.1", "port": str(self.port), "tls": "preferred"}
        threading.Thread(target=self.listen, daemon=True).start()

    def connected(self):
        """Returns the filter of a new connection: passing(data, back, send) calls send(bytes) for what may pass, and returns
        true to end the connection. It is called once without data at the beginning. `back` means from the server."""
        def passing(data, back, send):
            send(data)
        return passing

    def way(self, client):
        """Returns where a client is to be connected."""
        return self.to

    def listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            to = self.way(client)
            server = socket.socket(socket.AF_UNIX if isinstance(to, str) else socket.AF_INET)
            try:
                server.connect(to if isinstance(to, str) else ("127.0.0.1", to))
            except OSError:
                client.close()
                continue
            self.ends |= {client, server}
            if not self.open:
                self.end(client, server)
            passing = self.connected()
            for ends in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.carry, args=(*ends, passing), daemon=True).start()

    def carry(self, a, b, back, passing):
        """Passes received data on when it is old enough, and receives more meanwhile."""
        queue = []

        def send(data):
            queue.append((time.monotonic() + self.delay, data))
        with contextlib.suppress(OSError, ValueError):
            ended = passing(b"", back, send)
            while queue or not ended:
                left = max(0, queue[0][0] - time.monotonic()) if queue else None
                if not ended and select.select([a], [], [], left)[0]:
                    data = a.recv(self.piece)
                    ended = not data or passing(data, back, send)
                elif ended and left:
                    time.sleep(left)
                while queue and queue[0][0] <= time.monotonic():
                    b.sendall(queue.pop(0)[1])
        self.end(a, b)

    def end(self, *ends):
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            self.ends.discard(end)

    def cut(self):
        self.open = False
        self.end(*self.ends)

    def mend(self):
        self.open = True

    def stop(self):
        stop_listening(self.listener)


class Link(Wire):
    """A wire that can also become silent: data is discarded, and no end is notified."""
    silent = False

    def connected(self):
        def passing(data, back, send):
            if not self.silent:
                send(data)
        return passing

    def disturb(self, how, late=0):
        if how == "cut":
            self.cut()
        elif how == "silent":
            self.silent = True
        else:
            self.delay = late

    def mend(self):
        if self.silent:  # after lost data the connection cannot be used
            self.cut()
        self.silent, self.delay = False, 0
        super().mend()


class Cut(Wire):
    """Ends each connection after this many bytes from one side; None: carries everything."""
    from_client = from_server = None

    def connected(self):
        left = [self.from_client, self.from_server]

        def passing(data, back, send):
            most = left[back]
            if most is None:
                return send(data)
            send(data[:most])
            left[back] = most - len(data[:most])
            return left[back] == 0
        return passing


class Relay:
    """Listens on a port of 127.0.0.1, or on the socket `path`, and forwards to the server's own socket. `say(sql)` returns
    packets to answer a statement with, or None; `executes(sql)` is called before a prepared statement is executed; `row(sql,
    packet)` returns the row to forward; `keep` is a list that gets each session as a list of [request, packets]."""

    def __init__(self, server, say=None, row=None, keep=None, path=None, executes=None):
        self.to, self.say, self.row, self.keep, self.executes = server.socket, say, row, keep, executes
        self.path = path
        if path:
            self.listener, self.port = socket.socket(socket.AF_UNIX), 0
            self.listener.bind(path)
            self.listener.listen()
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.port = self.listener.getsockname()[1]
        self.settings = {"socket": None, "host": "127.0.0.1", "port": str(self.port), "tls": "off"}
        threading.Thread(target=self.run, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        stop_listening(self.listener)

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.session, args=(client,), daemon=True).start()

    def session(self, client):
        with client, socket.socket(socket.AF_UNIX) as server:
            try:
                server.connect(self.to)
                Session(self, client, server).run()
            except OSError:
                pass


class Session:
    def __init__(self, relay, client, server):
        self.relay, self.client, self.server = relay, client, server
        self.rest = {client: b"", server: b""}
        self.statements = {}  # prepared statements, by their numbers
        self.asked, self.greeted, self.logged_in = None, False, False
        self.part, self.columns = None, 0
        self.said = [[b"", []]]
        if relay.keep is not None:
            relay.keep.append(self.said)

    def run(self):
        while True:
            for end in select.select([self.client, self.server], [], [], 30)[0]:
                data = end.recv(1 << 20)
                if not data:
                    return
                self.rest[end] += data
                self.packets(end)

    def packets(self, end):
        data = self.rest[end]
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:3], "little"):
            n = 4 + int.from_bytes(data[:3], "little")
            (self.to_server if end is self.client else self.to_client)(data[3], data[4:n])
            data = data[n:]
        self.rest[end] = data

    def to_server(self, number, body):
        if not self.logged_in:  # Oracle's library claims capabilities that were not offered
            self.logged_in = True
            body = struct.pack("<I", struct.unpack_from("<I", body)[0] & ~NOT_OFFERED) + body[4:]
        command = body[0] if number == 0 and body else None
        self.said.append([body if number == 0 else b"", []])
        if command in (QUERY, PREPARE):
            self.asked = (command, body[1:].decode(errors="replace"))
            self.part = "head"
            said = self.relay.say and self.relay.say(self.asked[1])
            if said is not None:
                return self.answer(said)
        elif command == EXECUTE:
            self.asked = (EXECUTE, self.statements.get(body[1:5], ""))
            if self.relay.executes:
                self.relay.executes(self.asked[1])
            self.part = "head"
        elif command is not None:
            self.asked = None
        self.server.sendall(packed(body, number))

    def answer(self, packets):
        out, number = [], 1
        for body in packets:
            out.append(packed(body, number))
            number += 1
            if len(out) == 1000:
                self.client.sendall(b"".join(out))
                out = []
        self.client.sendall(b"".join(out))

    def to_client(self, number, body):
        if not self.greeted:
            self.greeted, body = True, offering_less(body)
        elif self.asked:
            body = self.heard(body)
        if self.relay.keep is not None:
            self.said[-1][1].append(body)
        self.client.sendall(packed(body, number))

    def heard(self, body):
        """Tracks the position within the server's answer."""
        command, sql = self.asked
        if command == PREPARE:
            if self.part == "head" and body[0] == OK:
                self.statements[body[1:5]] = sql
            self.part = None
        elif self.part == "head":
            self.columns = body[0]
            self.part = "columns" if 0 < body[0] < 0xFB else None
        elif body[0] == EOF and len(body) < 9:
            self.part = "rows" if self.part == "columns" else None
        elif self.part == "rows" and command == EXECUTE and self.relay.row:
            return self.relay.row(sql, body)
        return body
