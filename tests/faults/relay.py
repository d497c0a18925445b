"""Between the program and its server: delays, drips, cuts, or swallows what goes through."""
import select
import socket
import threading
import time


class Relay:
    """Listens on a port of its own and passes everything to `port`. What it does to it may be changed while
    connections live: `cut_after` bytes to the client end its connection, as does the answer to a request that
    holds `unanswered`; `hole` passes nothing any more, `delay` seconds before each piece, `piece` bytes at
    most at a time, with `pause` seconds between them. With `log_only` all this befalls those connections alone
    on which the binary log is read, each of which `log_cut` ends after so many bytes of it."""

    def __init__(self, port):
        self.target, self.passed = port, 0
        self.cut_after, self.hole, self.delay, self.piece, self.pause = None, False, 0, 65536, 0
        self.unanswered = None
        self.log_only, self.log_cut, self.log_cuts = False, None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ended = False
        threading.Thread(target=self.listen, daemon=True).start()

    def settings(self):
        return {"mysql": {"socket": None, "host": "127.0.0.1", "port": str(self.port), "tls": "off"}}

    def listen(self):
        while not self.ended:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                continue
            threading.Thread(target=self.carry, args=(client, server), daemon=True).start()

    def carry(self, client, server):
        line = Line(self, client, server)
        with client, server:
            try:
                while not self.ended:
                    if self.hole and line.suffers():
                        time.sleep(0.05)
                        continue
                    for source in select.select([client, server], [], [], 0.2)[0]:
                        if not (self.hole and line.suffers()) and not line.carry_some(source):
                            return
            except OSError:
                return

    def stop(self):
        self.ended = True
        self.listener.close()


class Line:
    """One connection through a relay."""

    def __init__(self, relay, client, server):
        self.relay, self.client, self.server = relay, client, server
        self.log = None  # bytes of the binary log that went through; None: it is not asked for here

    def suffers(self):
        return not self.relay.log_only or self.log is not None

    def carry_some(self, source):
        """False: that was the end."""
        relay, suffers = self.relay, self.suffers()
        data = source.recv(relay.piece if suffers else 65536)
        if not data:
            return False
        if suffers:
            time.sleep(relay.delay + relay.pause)
        if source is self.server:
            left = self.left(len(data))
            if left is not None and len(data) > left:
                self.client.sendall(data[:max(left, 0)])
                return False
        elif data[3:5] == b"\0\x12":  # COM_BINLOG_DUMP
            self.log = 0
        (self.server if source is self.client else self.client).sendall(data)
        if source is self.client and relay.unanswered and relay.unanswered in data:
            self.server.recv(1)
            return False
        return True

    def left(self, size):
        """Counts what came from the server, and tells how much of it may go on; None: all."""
        relay = self.relay
        left = None if relay.cut_after is None else relay.cut_after - relay.passed
        relay.passed += size
        if self.log is not None:
            if relay.log_cut is not None and self.log + size > relay.log_cut:
                relay.log_cuts += 1
                return relay.log_cut - self.log
            self.log += size
        return left
