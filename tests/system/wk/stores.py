"""Stores for off-site copies: real servers, one that fails on request, and calls of the program's own code."""
import base64
import contextlib
import ctypes
import glob
import hashlib
import http.server
import json
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
from email.utils import formatdate
from signal import SIGCONT, SIGTERM
from time import sleep, time

from .keeper import built
from .relay import Link, Wire
from .server import server_user
from .util import DIE_WITH_US, end_process, free_port, tail, wait_for, work_of

FETCHED = os.path.join(os.environ.get("WORLDKEEPER_SERVERS", "/var/cache/worldkeeper/servers"), "stores")
SECRET = "CANARY-9e7d-only-in-secret-files"
ACCESS = "AKEXAMPLE"


def program(name):
    """Returns the path of a program: installed, or unpacked (dpkg-deb -x); None if missing."""
    places = [os.path.join(root, "usr", way, name) for root in ("/", FETCHED) for way in ("sbin", "bin")]
    return next((p for p in places if os.access(p, os.X_OK)), None)


def environment(**more):
    lib = os.path.join(FETCHED, "usr/lib/x86_64-linux-gnu")
    libs = [lib, os.path.join(lib, "ceph"), os.path.join(FETCHED, "lib/x86_64-linux-gnu")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libs), **more}


def account():
    """Returns the user that runs the servers, an unprivileged one if we are root."""
    return server_user() if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def as_account():
    who = pwd.getpwnam(account())
    return [*DIE_WITH_US[:-1], *([f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"]
                                 if os.geteuid() == 0 else []), "--"]


def give(path):
    if os.geteuid() == 0:
        shutil.chown(path, account())


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def secret_file(path, text):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o600)
    return path


class Store:
    """A store with its directory `dir`, its `port`, and settings(), its keys in [offsite]. `files` is the directory of its
    stored files, or None."""
    process = files = None

    def __init__(self, base, name):
        self.dir = tempfile.mkdtemp(dir=base, prefix=name)
        os.chmod(self.dir, 0o755)
        self.port = free_port()

    def stop(self):
        end_process(self.process)
        self.process = None


class Directory(Store):
    def __init__(self, base):
        super().__init__(base, "mounted")
        self.files = os.path.join(self.dir, "files")
        os.mkdir(self.files, 0o700)

    def settings(self, port=None):
        return {"url": f"file://{self.files}/"}


class Sshd(Store):
    """OpenSSH with an Ed25519 host key, for one account with one key."""

    def __init__(self, base, kind="ed25519"):
        super().__init__(base, "sshd-" + kind)
        self.host, self.key, self.files = (os.path.join(self.dir, n) for n in ("host", "key", "files"))
        for name, of in ((self.host, kind), (self.key, "ed25519"), (self.key + "-other", "ed25519"),
                         (self.key + "-rsa", "rsa")):
            subprocess.run(["ssh-keygen", "-q", "-t", of, "-N", "", "-f", name], check=True, stdin=subprocess.DEVNULL)
        with open(os.path.join(self.dir, "authorized"), "w") as f:
            f.writelines(open(self.key + end).read() for end in (".pub", "-rsa.pub"))
        os.mkdir(self.files)
        for path in (self.host, self.files, os.path.join(self.dir, "authorized")):
            give(path)
        config = (f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.host}\nStrictModes no\nPidFile none\n"
                  f"AuthorizedKeysFile {self.dir}/authorized\nUsePAM {'yes' if os.geteuid() == 0 else 'no'}\n"
                  "PasswordAuthentication no\nMaxStartups 100\n" + self.service())
        path = secret_file(os.path.join(self.dir, "config"), config)
        os.chmod(path, 0o644)
        self.known_hosts = os.path.join(self.dir, "known_hosts")
        self.know(self.port)
        log = open(os.path.join(self.dir, "log"), "w")
        self.process = subprocess.Popen([*self.before(), program("sshd"), "-D", "-e", "-f", path], stderr=log,
                                        env=environment())
        wait_for(lambda: answers(self.port), lambda: "sshd: " + tail(log.name))

    def service(self):
        return "Subsystem sftp internal-sftp\nForceCommand internal-sftp\n"

    def before(self):
        return as_account()

    def who(self):
        return account()

    def know(self, port, key=None):
        with open(key or self.host + ".pub") as f:
            words = f.read().split()[:2]
        secret_file(self.known_hosts, f"[127.0.0.1]:{port} {' '.join(words)}\n")

    def settings(self, port=None):
        self.know(port or self.port)
        return {"url": f"sftp://{self.who()}@127.0.0.1:{port or self.port}{self.files}/store/", "key_file": self.key,
                "known_hosts": self.known_hosts}


class UnwillingSshd(Sshd):
    """An OpenSSH that refuses some requests of SFTP, by their names in its own table: rename, remove, opendir …"""

    def __init__(self, base, refused):
        self.refused = refused
        super().__init__(base)

    def service(self):
        return f"Subsystem sftp internal-sftp\nForceCommand internal-sftp -P {self.refused}\n"


class SftpLiar(Sshd):
    """OpenSSH in front of tests/tools/sftp_liar.py, which lies as become() says. Our program needs an account with a shell, so
    the user of the tests is used. As root sshd needs its own directory, which it gets in a private mount."""

    def service(self):
        liar = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/sftp_liar.py")
        return f"PermitRootLogin yes\nSubsystem sftp {sys.executable} {os.path.realpath(liar)} {self.dir}/mode\n"

    def before(self):
        own = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"', "sh"]
        return [*DIE_WITH_US, *(own if os.geteuid() == 0 else [])]

    def who(self):
        return pwd.getpwuid(os.geteuid()).pw_name

    def become(self, mode):
        with open(os.path.join(self.dir, "mode"), "w") as f:
            f.write(mode)


class Dav(Store):
    """Apache's mod_dav with a login. Each of `certificates` {name: (certificate, key)} gets its own port in `tls_ports`."""

    def __init__(self, base, certificates={}):
        super().__init__(base, "dav-tls" if certificates else "dav")
        self.tls_ports = {name: free_port() for name in certificates}
        self.files = os.path.join(self.dir, "files")
        for path in (self.files, self.files + "/store", self.dir + "/locks", self.files + "/open"):
            os.mkdir(path)
            give(path)
        salted = subprocess.run(["openssl", "passwd", "-apr1", SECRET], check=True, capture_output=True, text=True).stdout
        with open(os.path.join(self.dir, "users"), "w") as f:
            f.write("wk:" + salted)
        modules = "mpm_event authn_core authn_file authz_core authz_user auth_basic dav dav_fs" + " ssl" * bool(certificates)
        who = f"User {account()}\n" if os.geteuid() == 0 else ""
        secret = "AuthType Basic\nAuthName x\nAuthUserFile " + os.path.join(self.dir, "users") + "\n"
        path = secret_file(os.path.join(self.dir, "config"), "".join(
            f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in modules.split()) + who +
            f"ServerRoot {self.dir}\nServerName localhost\nListen 127.0.0.1:{self.port}\nPidFile {self.dir}/pid\n"
            f"ErrorLog {self.dir}/log\nDocumentRoot {self.files}\nDavLockDB {self.dir}/locks/db\n"
            f"<Directory {self.files}>\nDav On\n{secret}Require valid-user\n</Directory>\n"
            f"<Directory {self.files}/open>\n<Limit GET HEAD>\nRequire all granted\n</Limit>\n</Directory>\n" + "".join(
                f"Listen 127.0.0.1:{port}\n<VirtualHost 127.0.0.1:{port}>\nSSLEngine on\n"
                "SSLCertificateFile {}\nSSLCertificateKeyFile {}\n</VirtualHost>\n".format(*certificates[name])
                for name, port in self.tls_ports.items()))
        self.password = secret_file(os.path.join(self.dir, "password"), SECRET + "\n")
        self.process = subprocess.Popen([*DIE_WITH_US, program("apache2"), "-d", self.dir, "-f", path, "-DFOREGROUND"])
        wait_for(lambda: answers(self.port), lambda: "apache2: " + tail(os.path.join(self.dir, "log")))

    def stop(self):
        if self.process:
            end_process(self.process, SIGTERM)  # it ends its own children

    def settings(self, port=None, place="store", scheme="http"):
        return {"url": f"{scheme}://127.0.0.1:{port or self.port}/{place}/", "user": "wk",
                "password_file": self.password}


class S3(Store):
    """Ceph on loopback, in memory: a monitor, an OSD, and radosgw."""
    DAEMONS = ("ceph-mon", "ceph-osd", "radosgw")

    def __init__(self, base):
        super().__init__(base, "ceph")
        self.processes = []
        lib = os.path.join(FETCHED if FETCHED in program("radosgw") else "/", "usr/lib/x86_64-linux-gnu")
        self.conf, monitor = os.path.join(self.dir, "ceph.conf"), free_port()
        fsid, osd = (open("/proc/sys/kernel/random/uuid").read().strip() for _ in range(2))
        for name in ("mon", "osd"):
            os.mkdir(os.path.join(self.dir, name))
        modes = "".join(f"ms {m} mode = crc\n" for m in ("cluster", "service", "client", "mon client", "mon cluster",
                                                          "mon service"))
        with open(self.conf, "w") as f:
            f.write(f"[global]\nfsid = {fsid}\nmon host = v1:127.0.0.1:{monitor}\nmon initial members = a\n"
                    # A change of its maps waits for others up to seconds; each pool that radosgw makes is one.
                    "paxos propose interval = 0.02\npaxos min wait = 0.01\n"
                    "auth cluster required = none\nauth service required = none\nauth client required = none\n"
                    f"{modes}ms bind msgr2 = false\nosd pool default size = 1\nosd pool default min size = 1\n"
                    "osd pool default pg num = 1\nosd pool default pg autoscale mode = off\n"
                    "osd crush chooseleaf type = 0\nmon allow pool size one = true\nmon max pg per osd = 1000\n"
                    "osd objectstore = memstore\nmemstore device bytes = 1073741824\n"
                    f"osd class dir = {lib}/rados-classes\nerasure code dir = {lib}/ceph/erasure-code\n"
                    f"osd erasure code plugins = \nplugin dir = {lib}/ceph\nmon data = {self.dir}/mon\n"
                    f"osd data = {self.dir}/osd\nrun dir = {self.dir}\nadmin socket = \npid file = \n"
                    f"log file = {self.dir}/$name.log\nmon cluster log file = {self.dir}/cluster.log\n"
                    "rgw gc obj min wait = 5\nrgw gc processor period = 5\nrgw gc processor max time = 5\n"  # it is in memory
                    f"crash dir = {self.dir}\nkeyring = {self.dir}/keyring\nosd memory target = 939524096\n"
                    f"rgw frontends = beast endpoint=127.0.0.1:{self.port}\n")
        self.run("monmaptool", "--create", "--addv", "a", f"v1:127.0.0.1:{monitor}", "--fsid", fsid, self.dir + "/monmap",
                 conf=False)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", self.dir + "/monmap")
        self.daemon(lambda: answers(monitor), "ceph-mon", "-f", "-i", "a")
        self.run("ceph", "osd", "new", osd)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.daemon(lambda: " 1 up," in tail(self.dir + "/mon.a.log", 10000), "ceph-osd", "-f", "-i", "0")
        self.daemon(lambda: answers(self.port), "radosgw", "-f", "-n", "client.rgw", "--auth-client-required", "none",
                    "--ms-mon-client-mode", "crc")  # makes the zone that users belong to
        self.run("radosgw-admin", "user", "create", "--uid=t", "--display-name=t", f"--access-key={ACCESS}",
                 f"--secret={SECRET}")
        self.key = secret_file(os.path.join(self.dir, "key"), f"{ACCESS}:{SECRET}\n")
        wait_for(lambda: self.curl("-X", "PUT", self.at("worlds"))[0] == 200, "a bucket", work=self.work)
        self.curl("-X", "PUT", "-H", "x-amz-acl: public-read", self.at("open"))
        self.curl("-X", "PUT", "-H", "x-amz-bucket-object-lock-enabled: true", self.at("locked"))

    def environment(self):
        return environment(PYTHONPATH=os.path.join(FETCHED, "usr/lib/python3/dist-packages"))

    def run(self, name, *args, conf=True):
        """Repeats a command until it succeeds. Before the monitor's map has arrived it fails as not permitted, and its work
        may be partly done."""
        self.run_words([program(name), *(["-c", self.conf] if conf else []), *args], self.environment())

    def run_words(self, words, env, end=None):
        """Runs a command; output with `end` is complete. Ceph's programs may hang at their exit."""
        out = os.path.join(self.dir, "run.out")

        def told():
            return end is not None and tail(out).rstrip("\n").endswith(end)

        def done():
            with open(out, "w") as log:
                made = subprocess.Popen([*DIE_WITH_US, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
            try:
                wait_for(lambda: made.poll() is not None or told(), lambda: f"{words}: {tail(out)}",
                         work=lambda: (self.work(), work_of([made.pid], out)))
            finally:
                end_process(made)
            return made.returncode == 0 or told() or "exists" in tail(out)
        wait_for(done, lambda: f"{words}: {tail(out)}", work=self.work)

    def work(self):
        """Returns what its programs have done so far, including those of one command."""
        return work_of([p.pid for p in self.processes if p], *glob.glob(self.dir + "/*.out"), *glob.glob(self.dir + "/*log*"))

    def daemon(self, up, name, *args):
        """Starts a daemon, and once more if it ends before it is up, for the same reason."""
        out = os.path.join(self.dir, name + ".out")
        self.processes.append(None)

        def there():
            if not self.processes[-1] or self.processes[-1].poll() is not None:
                with open(out, "a") as log:
                    self.processes[-1] = subprocess.Popen([*DIE_WITH_US, program(name), "-c", self.conf, *args],
                                                          stdout=log, stderr=log, env=self.environment())
            return up()
        wait_for(there, lambda: f"{name}: {tail(out)}", work=self.work)

    def stop(self):
        for process in reversed(self.processes):
            end_process(process)

    def at(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"

    def curl(self, *args):
        """Sends a signed request with the curl tool. Returns status and body."""
        nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        assert shutil.which("curl"), "the curl tool is missing: scripts/deps.sh test"  # else the wait below would not see it
        done = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u",
                               f"{ACCESS}:{SECRET}", "-H", f"x-amz-content-sha256: {nothing}", *args],
                              capture_output=True, text=True)
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def listed(self, folder):
        """Returns the names in a folder of what settings() names."""
        found, last = [], ""
        while True:
            after = "&start-after=" + urllib.parse.quote(last, safe="") if last else ""
            status, text = self.curl(self.at(f"worlds?list-type=2&max-keys=1000&prefix={urllib.parse.quote(f'a b/{folder}/', safe='')}{after}"))
            assert status == 200, text
            keys = [urllib.parse.unquote(key) for key in re.findall("<Key>([^<]*)</Key>", text)]
            if not keys:
                return sorted(key.rpartition("/")[2] for key in found)
            found, last = found + keys, keys[-1]

    def settings(self, port=None, bucket="worlds/a b"):
        return {"url": f"s3://{bucket}/", "endpoint": f"http://127.0.0.1:{port or self.port}/",
                "access_key_file": self.key}


class NewS3(S3):
    """radosgw of Debian sid: one process with its own database. It ignores conditions."""
    ROOT = os.path.join(os.path.dirname(FETCHED), "radosgw")

    def __init__(self, base):
        Store.__init__(self, base, "radosgw")
        (lib,) = glob.glob(os.path.join(self.ROOT, "usr/lib/*/ceph"))
        lib = os.path.dirname(lib)
        self.conf = os.path.join(self.dir, "ceph.conf")
        with open(self.conf, "w") as f:
            f.write("[global]\nrgw backend store = dbstore\nrgw config store = dbstore\n"
                    f"dbstore db dir = {self.dir}\ndbstore_config_uri = file:{self.dir}/config.db\n"
                    f"rgw frontends = beast endpoint=127.0.0.1:{self.port}\nrgw data = {self.dir}\nrun dir = {self.dir}\n"
                    f"admin socket = \npid file = \nlog file = {self.dir}/log\ncrash dir = {self.dir}\n"
                    f"keyring = {self.dir}/keyring\nplugin dir = {lib}/ceph\n")
        # Run by its own loader, because this system's C library differs.
        (loader,) = glob.glob(os.path.join(lib, "ld*.so.[0-9]"))
        self.words = [loader, "--library-path", f"{lib}:{lib}/ceph"]
        self.processes = []
        self.run_words([*self.command("radosgw-admin"), "user", "create", "--uid=t", "--display-name=t",
                        f"--access-key={ACCESS}", f"--secret={SECRET}"], None, end="\n}")
        log = open(os.path.join(self.dir, "radosgw.out"), "w")
        self.processes.append(subprocess.Popen([*DIE_WITH_US, *self.command("radosgw"), "-f", "-n", "client.rgw"],
                                               stdout=log, stderr=log))
        wait_for(lambda: answers(self.port), lambda: "radosgw: " + tail(log.name), work=self.work)
        self.key = secret_file(os.path.join(self.dir, "key"), f"{ACCESS}:{SECRET}\n")
        wait_for(lambda: self.curl("-X", "PUT", self.at("worlds"))[0] == 200, "a bucket", work=self.work)

    def command(self, name):
        return [*self.words, os.path.join(self.ROOT, "usr/bin", name), "-c", self.conf, "--no-mon-config"]


class Liar:
    """A small S3 and WebDAV server. `fault(handler)` is called first, and has answered if it returns true. `objects` has the
    stored objects."""

    def __init__(self, base, certificate=None):
        self.objects, self.fault, self.asked, self.paths, self.late = {}, None, [], [], 0
        self.key = secret_file(os.path.join(base, f"liar-{os.getpid()}-{id(self)}"), f"{ACCESS}:{SECRET}\n")
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def date_time_string(self, timestamp=None):
                return formatdate(time() + liar.late, usegmt=True)

            def reply(self, status, body=b"", **headers):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)

            def reply_object(self, body, **headers):
                """Sends the object from the requested byte on, as S3 does."""
                first = int((self.headers.get("Range") or "bytes=0-")[len("bytes="):].partition("-")[0])
                if first and first >= len(body):
                    return self.refuse(416, "InvalidRange")
                if "Range" in self.headers:
                    headers["Content_Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
                return self.reply(206 if "Range" in self.headers else 200, body[first:], **headers)

            def refuse(self, status, code, **headers):
                self.reply(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode(), **headers)

            def do(self):
                liar.asked.append(self.command)
                liar.paths.append(self.path)
                size = int(self.headers.get("Content-Length") or 0)
                self.body = self.rfile.read(size)
                if len(self.body) < size:  # the client has closed the connection
                    self.close_connection = True
                    return
                path, _, query = self.path.partition("?")
                signed = self.headers.get("Authorization", "")
                if "SignedHeaders" in signed and "Content-Type" in self.headers and "content-type" not in signed:
                    return self.refuse(403, "AccessDenied")  # like Ceph 20
                if liar.fault and liar.fault(self):
                    return
                if self.command == "PUT":
                    if self.headers.get("If-None-Match") and path in liar.objects:
                        return self.refuse(412, "PreconditionFailed")
                    liar.objects[path] = self.body
                    return self.reply(200)
                if "uploads=" in query:
                    return self.reply(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
                if self.command == "GET" and "Authorization" not in self.headers:
                    return self.refuse(403, "AccessDenied")
                if "list-type" in query:
                    prefix = urllib.parse.parse_qs(query).get("prefix", [""])[0]
                    named = "".join(f"<Contents><Key>{p.split('/', 2)[2]}</Key><Size>{len(b)}</Size></Contents>"
                                    for p, b in list(liar.objects.items()) if p.split("/", 2)[2].startswith(prefix))
                    return self.reply(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{named}</ListBucketResult>".encode())
                if self.command == "DELETE":
                    liar.objects.pop(path, None)
                    return self.reply(204)
                if "Authorization" not in self.headers:
                    return self.refuse(403, "AccessDenied")
                if path in liar.objects:
                    return self.reply_object(liar.objects[path])
                return self.refuse(404, "NoSuchKey")
            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = do_MOVE = do_MKCOL = do_PROPFIND = do

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, address):
                """Ignores a client that closed the connection."""
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port, self.scheme = self.server.server_address[1], "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.scheme = "https"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def settings(self):
        return {"url": "s3://bucket/", "endpoint": f"{self.scheme}://127.0.0.1:{self.port}", "access_key_file": self.key}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Conditions:
    """A `fault` that makes a Liar an S3 that honors conditions; `lies` names those that it ignores."""

    def __init__(self, liar, lies="", bare=False):
        self.objects, self.lies, self.bare, self.away, self.lock = liar.objects, lies, bare, False, threading.Lock()
        self.late, self.lost = 0, 0  # seconds before each answer; number of answers to a PUT to lose
        liar.fault = self

    @staticmethod
    def version(data):
        return hashlib.md5(data).hexdigest()

    def refuses(self, h, path):
        is_there, wanted = path in self.objects, h.headers.get("If-Match")
        if h.headers.get("If-None-Match") and is_there and self.lies != "none-match":
            return True
        if wanted is None or self.lies == "match":
            return False
        if self.lies == "never":
            return True
        now = self.version(self.objects[path]) if is_there else None
        return wanted != (now if self.bare else f'"{now}"')

    def __call__(self, h):
        path = h.path.partition("?")[0]
        sleep(self.late)
        if self.away:
            h.refuse(503, "SlowDown")
            return True
        if h.command == "PUT":
            with self.lock:
                if self.refuses(h, path):
                    h.refuse(412, "PreconditionFailed")
                    return True
                self.objects[path] = h.body
                if self.lost:
                    self.lost -= 1
                    h.close_connection = True
                    return True
                h.reply(200, ETag=f'"{self.version(h.body)}"')
            return True
        if h.command == "GET" and path in self.objects and "Authorization" in h.headers:
            h.reply_object(self.objects[path], ETag=f'"{self.version(self.objects[path])}"')
            return True
        return False


class Door(Wire):
    """The port at which other members reach one member of etcd. A connection is led to the link from its member."""

    def __init__(self, etcd, member, port):
        self.etcd, self.links = etcd, {i: Link(port) for i in range(etcd.count) if i != member}
        super().__init__(None)

    def way(self, client):
        link = self.links.get(self.etcd.owner(client.getpeername()[1], self.port))
        return link.port if link else 0  # if no process listens there the client has gone

    def stop(self):
        super().stop()
        for link in self.links.values():
            link.stop()


class Etcd:
    """Members of a real etcd on loopback. With `linked` there is a link in each direction between each two."""

    def __init__(self, base, count=1, linked=False):
        self.count, self.processes, self.ports = count, [], [free_port() for _ in range(2 * count)]
        self.doors = [Door(self, i, self.ports[2 * i + 1]) for i in range(count)] if linked else []
        reached = [f"http://127.0.0.1:{port}" for port in ([d.port for d in self.doors] or self.ports[1::2])]
        peers = ",".join(f"m{i}={url}" for i, url in enumerate(reached))
        for i in range(count):
            client, peer = (f"http://127.0.0.1:{self.ports[2 * i + n]}" for n in (0, 1))
            log = open(os.path.join(base, f"etcd-{i}.out"), "w")
            self.processes.append(subprocess.Popen(
                [*DIE_WITH_US, program("etcd"), "--name", f"m{i}", "--data-dir", os.path.join(base, f"etcd-{i}"),
                 "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", reached[i], "--initial-cluster", peers, "--initial-cluster-token", base],
                stdout=log, stderr=log, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": os.uname().machine}))
        self.urls = ", ".join(f"http://127.0.0.1:{port}" for port in self.ports[::2])
        wait_for(lambda: self.call("kv/range", {"key": "eA=="}), lambda: "etcd: " + tail(os.path.join(base, "etcd-0.out")))

    def owner(self, port, to):
        """Returns which member has the connection from this port to that one, or None if it is gone."""
        with open("/proc/net/tcp", encoding="ascii") as f:
            ends = [f"0100007F:{n:04X}" for n in (port, to)]
            inodes = [line.split()[9] for line in f if line.split()[1:3] == ends]
        for i, process in enumerate(self.processes):
            try:
                for fd in os.scandir(f"/proc/{process.pid}/fd"):
                    with contextlib.suppress(FileNotFoundError):
                        if inodes and os.readlink(fd.path) == f"socket:[{inodes[0]}]":
                            return i
            except FileNotFoundError:
                pass
        return None

    def call(self, path, body, member=0, patience=60):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[2 * member]}/v3/{path}", json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=patience) as answer:
                return json.load(answer)
        except OSError:
            return None

    def leader(self):
        """Returns the leader according to the members that answer, or None."""
        for member in range(self.count):
            said = self.call("maintenance/status", {}, member, 5)
            if said and said.get("leader") == said["header"]["member_id"]:
                return member
        return None

    def cut_off(self, members, how="cut"):
        """Cuts these members off from all others, in both directions; `how` is a disturbance of a link."""
        for to, door in enumerate(self.doors):
            for of, link in door.links.items():
                if to in members or of in members:
                    link.disturb(how)

    def mend(self):
        for door in self.doors:
            for link in door.links.values():
                link.mend()

    def delete(self, key):
        """Deletes a key by hand."""
        assert self.call("kv/deleterange", {"key": base64.b64encode(key.encode()).decode()})

    def keys(self, world):
        """Returns the keys of a world with their values."""
        start, end = (base64.b64encode(f"/worldkeeper/{world}{end}".encode()).decode() for end in "/0")
        found = self.call("kv/range", {"key": start, "range_end": end})
        return {kv["key"]: kv["value"] for kv in found.get("kvs", [])}

    def put_back(self, world, keys, ttl):
        """Replaces the keys of a world, as a restore of a backup does, where each lease has its whole time again."""
        for key in self.keys(world):
            self.delete(base64.b64decode(key).decode())
        for key, value in keys.items():
            held = base64.b64decode(key).endswith(b"/lease")
            lease = self.call("lease/grant", {"TTL": ttl})["ID"] if held else 0
            assert self.call("kv/put", {"key": key, "value": value, "lease": lease})

    def alarm(self, action):
        """Raises or clears the NOSPACE alarm, as etcd does when its quota is used up."""
        assert self.call("maintenance/alarm", {"action": action, "alarm": "NOSPACE"})

    def lease(self, world):
        """Returns the lease of a world as it is stored."""
        key = base64.b64encode(f"/worldkeeper/{world}/lease".encode()).decode()
        return json.loads(base64.b64decode(self.call("kv/range", {"key": key})["kvs"][0]["value"]))

    def stop(self):
        for process in self.processes:
            process.send_signal(SIGCONT)
            end_process(process)
        for door in self.doors:
            door.stop()


class LeaseCaller:
    """The program's own code in front of a lease, as one machine."""

    def __init__(self, tmp, holder, standby, offsite=None, name="s8"):
        os.makedirs(f"{tmp}/dumps", mode=0o700, exist_ok=True)
        self.config = os.path.join(tmp, f"lease-{holder.replace('/', '-')}.ini")
        offsite = offsite or {"url": f"file://{tmp}/"}
        with open(self.config, "w") as f:
            f.write(f"[world]\nname = {name}\nschema = s8\n[mysql]\nsocket = /nowhere/socket\nuser = u\n[dump]\ndir = {tmp}/dumps\n"
                    + "[offsite]\nplain = yes\n" + "".join(f"{k} = {v}\n" for k, v in offsite.items())
                    + "[standby]\n" + "".join(f"{k} = {v}\n" for k, v in standby.items()))
        os.chmod(self.config, 0o600)
        self.process = subprocess.Popen([*DIE_WITH_US, built("tools", "lease_call"), self.config, holder], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


def known_leaks(base):
    """Returns the environment in which the sanitizers ignore that libcurl 8.14 and later leak SFTP sessions that end with an
    error (its issues 17819 and 19293). Our program never calls libssh2."""
    said = ctypes.CDLL("libcurl.so.4").curl_version
    said.restype = ctypes.c_char_p
    if tuple(map(int, re.match(rb"libcurl/(\d+)\.(\d+)", said()).groups())) < (8, 14):
        return {}
    path = os.path.join(base, "known-leaks")
    with open(path, "w") as f:
        f.write("leak:libssh2.so\n")
    return {"LSAN_OPTIONS": f"suppressions={path}:print_suppressions=0"}


class Caller:
    """The program's own code in front of a store. Each call returns its answer, which never has a secret. `wrapper` is a
    command that runs it."""

    def __init__(self, tmp, settings, wrapper=(), **more):
        lines = {"plain": "yes", "timeout": "60s", **settings, **more}
        self.tmp = tmp
        self.config = os.path.join(tmp, "calls.ini")
        with open(self.config, "w") as f:
            f.write("[world]\nname = s8\nschema = s8\n[mysql]\nsocket = /nowhere/socket\nuser = u\n"
                    f"[dump]\ndir = {tmp}/dumps\n[offsite]\n" + "".join(f"{k} = {v}\n" for k, v in lines.items()))
        os.chmod(self.config, 0o600)
        self.process = subprocess.Popen([*DIE_WITH_US, *wrapper, built("tools", "remote_call"), self.config], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **known_leaks(tmp)})
        self.opened = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        assert SECRET not in line and "PRIVATE KEY" not in line, line
        return json.loads(line)

    def call(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def put(self, name, data, size=""):
        path = os.path.join(self.tmp, "source")
        with open(path, "wb") as f:
            f.write(data)
        return self.call("put", name, path, size)

    def get(self, name, offset=0):
        """Returns the answer and the bytes that were read."""
        path = os.path.join(self.tmp, "sink")
        said = self.call("get", name, path, offset)
        with open(path, "rb") as f:
            return said, f.read()

    def names(self, directory="s8/dumps/"):
        said = self.call("list", directory)
        assert said["result"] == "ok", said
        return said["names"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        return self.process.returncode


def visible(store):
    """Returns the names of finished files in a store whose files can be seen."""
    found = glob.glob(os.path.join(glob.escape(store.files), "**", "*"), recursive=True)
    return sorted(os.path.basename(p) for p in found if os.path.isfile(p) and not p.endswith(".part"))
