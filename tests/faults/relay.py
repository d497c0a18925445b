"""Between the program and its server: delays, drips, cuts, or swallows what goes through."""
import select
import socket
import threading
import time


class Relay:
    """Listens on a port of its own and passes everything to `port`. What it does to it may be changed while
    connections live: `cut_after` bytes to the client end its connection, as does the answer to a request that
    holds `unanswered`; `hole` passes nothing any more, `delay` seconds before each piece, `piece` bytes at
    most at a time, with `pause` seconds between them."""

    def __init__(self, port):
        self.target, self.passed = port, 0
        self.cut_after, self.hole, self.delay, self.piece, self.pause = None, False, 0, 65536, 0
        self.unanswered = None
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
        with client, server:
            try:
                while not self.ended:
                    if self.hole:
                        time.sleep(0.05)
                        continue
                    for source in select.select([client, server], [], [], 0.2)[0]:
                        if not self.hole and not self.carry_some(source, client, server):
                            return
            except OSError:
                return

    def carry_some(self, source, client, server):
        """False: that was the end."""
        data = source.recv(self.piece)
        if not data:
            return False
        if self.delay:
            time.sleep(self.delay)
        if self.pause:
            time.sleep(self.pause)
        if source is server:
            left = None if self.cut_after is None else self.cut_after - self.passed
            self.passed += len(data)
            if left is not None and len(data) > left:
                client.sendall(data[:max(left, 0)])
                return False
        (server if source is client else client).sendall(data)
        if source is client and self.unanswered and self.unanswered in data:
            server.recv(1)
            return False
        return True

    def stop(self):
        self.ended = True
        self.listener.close()
