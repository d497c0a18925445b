"""Destinations of alerts: a real SMTP server, an HTTP server, and a server that never answers."""
import errno
import http.server
import json
import os
import socket
import ssl
import subprocess
import threading
import time
from email import message_from_bytes
from email.header import decode_header, make_header

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from .util import CANARY, PATIENCE, free_port, stop_listening, wait_for

HOST = "127.0.0.1"
PATIENT = "60s"  # a sink runs in the test itself; a late answer would cause a second delivery


NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]


def certificate(base, names="IP:127.0.0.1,DNS:localhost", days="2"):
    """Returns (ca, cert, key): a certificate for this machine, signed by an authority. Both are made once in `base`. With
    `days` of 0 the certificate expires at once."""
    ca, key, cert = (os.path.join(base, n) for n in ("ca.pem", "key.pem", "cert.pem"))
    if os.path.exists(cert):
        return ca, cert, key

    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=base)
    if not os.path.exists(ca):
        openssl("req", "-x509", *NEW_KEY, "-keyout", "ca.key", "-out", ca, "-subj", "/CN=test authority",
                "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", *NEW_KEY, "-keyout", key, "-out", "csr", "-subj", "/CN=localhost")
    with open(os.path.join(base, "ext"), "w") as f:
        f.write(f"subjectAltName={names}\n")
    openssl("x509", "-req", "-in", "csr", "-CA", ca, "-CAkey", "ca.key", "-CAcreateserial",
            "-out", cert, "-days", days, "-extfile", "ext")
    return ca, cert, key


def self_made(base, names):
    """Returns (cert, key) of a self-signed certificate."""
    cert, key = os.path.join(base, "self.pem"), os.path.join(base, "self.key")
    subprocess.run(["openssl", "req", "-x509", *NEW_KEY, "-keyout", key, "-out", cert, "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=" + names], check=True, capture_output=True)
    return cert, key


class Mail:
    """One received mail."""

    def __init__(self, envelope, session, tls):
        self.sender, self.to, self.raw = envelope.mail_from, envelope.rcpt_tos, envelope.content
        self.tls = tls or session.ssl is not None
        self.login = session.auth_data.login.decode() if session.auth_data else None
        self.message = message_from_bytes(self.raw)

    @property
    def subject(self):
        return str(make_header(decode_header(self.message["Subject"])))

    @property
    def text(self):
        part = self.message
        while part.is_multipart():
            part = part.get_payload(0)
        return part.get_payload(decode=True).decode(part.get_content_charset() or "utf-8")

    def __repr__(self):
        return f"<mail {self.subject!r} to {self.to}>"


class Smtp:
    """An SMTP server. tls: None, "starttls" (required) or "smtps". `mode` may change at any time: "ok", a refusal such as "450
    later", or refusals by recipient. start and stop keep the port."""

    def __init__(self, base, tls=None, login=None):
        self.port = free_port()
        self.tls, self.login = tls, login
        self.mode, self.mails, self.refused = "ok", [], 0
        self.controller = None
        self.ca, self.cert, self.key = certificate(base)

    def start(self):
        context = None
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.cert, self.key)
        more = {}
        if self.tls == "starttls":
            more = {"tls_context": context, "require_starttls": True}
        if self.login:
            more.update(authenticator=self.authenticate, auth_required=True,
                        auth_require_tls=self.tls == "starttls")

        def listens():
            controller = Controller(self, hostname=HOST, port=self.port, ready_timeout=PATIENCE,
                                    ssl_context=context if self.tls == "smtps" else None, **more)
            controller.start()
            return controller
        self.controller = listening(listens)
        return self

    def stop(self):
        if self.controller:
            self.controller.stop()
            self.controller = None

    def authenticate(self, server, session, envelope, mechanism, data):
        good = isinstance(data, LoginPassword) and (
            data.login.decode(), data.password.decode()) == (self.login, CANARY)
        return AuthResult(success=good, handled=False, auth_data=data if good else None)

    async def handle_RCPT(self, server, session, envelope, address, options):
        mode = self.mode.get(address, "ok") if isinstance(self.mode, dict) else self.mode
        if mode != "ok":
            self.refused += 1
            return mode
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        self.mails.append(Mail(envelope, session, self.tls == "smtps"))
        return "250 taken"

    def settings(self, **more):
        scheme = "smtps" if self.tls == "smtps" else "smtp"
        found = {"url": f"{scheme}://{HOST}:{self.port}", "from": "keeper@example.com",
                 "to": "admin@example.com", "timeout": PATIENT,
                 "starttls": "required" if self.tls == "starttls" else "off"}
        if self.tls:
            found["tls_ca"] = self.ca
        return {"alert.smtp": {**found, **more}}

    def wait(self, predicate=lambda mail: True, n=1, timeout=PATIENCE):
        """Waits for n mails that match, and returns them."""
        wait_for(lambda: len([m for m in self.mails if predicate(m)]) >= n,
                 lambda: f"{n} mails, got {[m.subject for m in self.mails]}", timeout)
        return [m for m in self.mails if predicate(m)]


def listening(make):
    """Retries, because the port may for a moment be the other end of a connection."""
    def made():
        try:
            return make()
        except OSError as e:
            if e.errno != errno.EADDRINUSE:
                raise
            return None
    return wait_for(made, "the sink's port")


class Http:
    """An HTTP server for webhooks and heartbeats. `mode` may change at any time: "ok", a status number, "redirect" (in a
    loop), "slow" (later than the client waits), or after a 200 "huge" (endless body), "headers" (endless ones), "short" (a
    body that ends early)."""

    def __init__(self):
        self.port, self.mode, self.requests, self.served = free_port(), "ok", [], 0
        self.headers = {}
        self.judge = None  # of a fake service: its answer to a Request
        self.server = None

    def start(self):
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def handle_one(self):
                sink.served += 1
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if sink.judge:
                    request = Request(self.command, self.path, dict(self.headers), body)
                    status = sink.judge(request)
                    if status < 300:
                        sink.requests.append(request)
                    return self.answer(status, b"judged")
                if sink.mode in ("ok", "huge", "headers", "short"):  # all of these answer 200
                    sink.requests.append(Request(self.command, self.path, dict(self.headers), body))
                if sink.mode == "ok":
                    return self.answer(200, b"ok")
                if sink.mode == "redirect":
                    return self.answer(302, b"", Location=f"http://{HOST}:{sink.port}/again")
                if sink.mode in ("huge", "headers"):
                    return self.endless(sink.mode == "huge")
                if sink.mode == "short":
                    return self.broken_off()
                if sink.mode == "slow":
                    sink.released.wait(60)
                    return self.answer(200, b"too late")
                return self.answer(sink.mode, b"no", **sink.headers)

            def endless(self, body):
                self.send_response(200)
                self.end_headers() if body else self.flush_headers()
                try:
                    while not sink.released.is_set():
                        self.wfile.write(b"x" * 65536 if body else b"X-More: and more\r\n" * 100)
                except OSError:
                    pass

            def broken_off(self):
                self.send_response(200)
                self.send_header("Content-Length", "5000")
                self.end_headers()
                self.wfile.write(b"few")
                self.close_connection = True

            def answer(self, status, body, **headers):
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name.replace("_", "-"), value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass

            do_GET = do_POST = do_HEAD = do_PUT = handle_one

        class Threading(http.server.ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *args):
                pass

        self.released = threading.Event()
        self.server = listening(lambda: Threading((HOST, self.port), Handler))
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        if self.server:
            self.released.set()
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    @property
    def url(self):
        return f"http://{HOST}:{self.port}/hook"

    def settings(self, **more):
        return {"alert.webhook": {"url": self.url, "timeout": PATIENT, **more}}

    def events(self):
        """Returns the "event" of each message of the generic JSON format, with folded ones expanded, in order."""
        return [m["event"] for m in self.messages()]

    def messages(self):
        found = []
        for request in list(self.requests):
            if request.method == "POST":
                body = request.json
                found += body["alerts"] if "alerts" in body else [body]
        return found

    def wait_event(self, *events, timeout=PATIENCE):
        wait_for(lambda: any(e in events for e in self.events()),
                 lambda: f"an alert of {events}, got {self.messages()}", timeout)
        return [m for m in self.messages() if m["event"] in events]


class Request:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.at = time.monotonic()

    @property
    def json(self):
        return json.loads(self.body)


class Tarpit:
    """Accepts connections and never answers."""

    def __init__(self, port=None):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((HOST, port or 0))
        self.port = self.listener.getsockname()[1]
        self.listener.listen(50)
        self.held = []
        self.ended = False
        threading.Thread(target=self.hold, daemon=True).start()

    def hold(self):
        while not self.ended:
            try:
                self.held.append(self.listener.accept()[0])
            except OSError:
                return

    def stop(self):
        self.ended = True
        stop_listening(self.listener)
        for held in self.held:
            held.close()
