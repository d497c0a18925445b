"""A headless browser (Debian's Chromium, controlled through a pipe), and a web server for a status directory."""
import base64
import fcntl
import functools
import http.server
import json
import os
import select
import subprocess
import threading
import time

from .util import DIE_WITH_US, PATIENCE, end_process

COMMAND = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"]


class Site:
    """Serves a directory on loopback and records the requests. `instead` has other contents for files."""

    def __init__(self, path):
        asked, instead = self.asked, self.instead = [], {}

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args):
                asked.append(self.path)

            def do_GET(self):
                data = instead.get(self.path[1:])
                if data is None:
                    return super().do_GET()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(data)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=path))
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


def high_pipe():
    """Returns a pipe whose descriptors are not 3 or 4."""
    low = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in low]
    for fd in low:
        os.close(fd)
    return high


class Browser:
    """One tab. `complaints` has what the page wrote to the console, threw, or requested from elsewhere."""

    def __init__(self, home):
        to_us, its_out = high_pipe()
        its_in, self.out = high_pipe()
        self.inn, self.left, self.number, self.events = to_us, b"", 0, []
        self.requests, self.complaints = [], []
        words = " ".join([*COMMAND, f"--user-data-dir={home}", "about:blank"])
        # Chromium communicates over its descriptors 3 and 4.
        self.process = subprocess.Popen([*DIE_WITH_US, "bash", "-c", f"exec {words} 3<&{its_in} 4>&{its_out}"], pass_fds=(its_in, its_out),
                                        env={**os.environ, "HOME": home}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(its_in)
        os.close(its_out)
        self.session = None
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.do(domain + ".enable")

    def stop(self):
        end_process(self.process)
        os.close(self.inn)
        os.close(self.out)

    def take(self, until):
        """Reads one message, records it if it is an event, and returns it."""
        while b"\0" not in self.left:
            if not select.select([self.inn], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.inn, 1 << 20)
            if not data:
                raise EOFError("the browser is gone")
            self.left += data
        text, self.left = self.left.split(b"\0", 1)
        message = json.loads(text)
        self.note(message.get("method"), message.get("params", {}))
        return message

    def note(self, event, o):
        if event == "Network.requestWillBeSent":
            self.requests.append(o["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(o["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(o["args"]))
        elif event == "Log.entryAdded":
            self.complaints.append(o["entry"]["text"])

    def do(self, method, **params):
        self.number += 1
        o = {"id": self.number, "method": method, "params": params}
        if self.session:
            o["sessionId"] = self.session
        os.write(self.out, json.dumps(o).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message = self.take(until)
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def open(self, url):
        self.do("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def js(self, expression):
        answer = self.do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression, timeout=PATIENCE):
        end = time.monotonic() + timeout
        while not (value := self.js(expression)):
            assert time.monotonic() < end, expression + " stays untrue; the page says: " + str(self.js(
                "document.body.innerText"))[:2000]
            time.sleep(0.1)
        return value

    def text(self, selector):
        return self.js(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText")

    def look(self, width=1440, dark=False, scripts=True, height=900):
        """Sets screen size, color scheme and scripts for the next page load."""
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.do("Emulation.setScriptExecutionDisabled", value=not scripts)

    def picture(self, path, height=None):
        """Saves a picture of the whole page, or of its first `height` points."""
        whole = self.js("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": whole[0], "height": height or whole[1], "scale": 1}
        data = self.do("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
