"""Between the program and its server: delays, drips, cuts, or swallows what goes through."""
import time

from wk.relay import Wire


class Relay(Wire):
    """What it does to connections to `port` may be changed while they live: `cut_after` bytes to the client end its
    connection, as does the answer to a request that holds `unanswered`; `hole` passes nothing any more, `wait` seconds
    before each piece, `piece` bytes at most at a time, with `pause` seconds between them. With `log_only` all this
    befalls those connections alone on which the binary log is read, each of which `log_cut` ends after so many bytes
    of it."""

    def __init__(self, port):
        self.passed = 0
        self.cut_after, self.hole, self.wait, self.pause = None, False, 0, 0
        self.unanswered = None
        self.log_only, self.log_cut, self.log_cuts = False, None, 0
        self.ended = False
        super().__init__(port)

    def mysql(self):
        return {"mysql": {**self.settings, "tls": "off"}}

    def connected(self):
        return Line(self).passing

    def stop(self):
        self.ended = True
        super().stop()


class Line:
    """One connection through a relay."""

    def __init__(self, relay):
        self.relay, self.answered = relay, True
        self.log = None  # bytes of the binary log that went through; None: it is not asked for here

    def suffers(self):
        return not self.relay.log_only or self.log is not None

    def passing(self, data, back, send):
        relay = self.relay
        if not data:
            return False
        while relay.hole and self.suffers():
            if relay.ended:
                return True
            time.sleep(0.05)
        if self.suffers():
            time.sleep(relay.wait + relay.pause)
        if back:
            left = self.left(len(data))
            if left is not None and len(data) > left:
                send(data[:max(left, 0)])
                return True
            if not self.answered:
                return True
        elif data[3:5] == b"\0\x12":  # COM_BINLOG_DUMP
            self.log = 0
        elif relay.unanswered and relay.unanswered in data:
            self.answered = False
        send(data)
        return False

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
