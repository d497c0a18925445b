"""A relay between the program and its server that delays, drips, cuts or swallows data."""
import time

from wk.relay import Wire


class Relay(Wire):
    """A relay whose faults may be changed while connections live. A connection ends after `cut_after` bytes to the client, or
    at the answer to a request with `unanswered`. `hole` passes nothing, `wait` and `pause` are seconds per piece, `piece` is
    its size in bytes. With `log_only` only connections that read the binary log are affected, and `log_cut` ends each after
    this many bytes of it."""

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
        self.log = None  # bytes of the binary log so far; None: not requested here

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
        """Counts bytes from the server, and returns how many of them may pass, or None for all."""
        relay = self.relay
        left = None if relay.cut_after is None else relay.cut_after - relay.passed
        relay.passed += size
        if self.log is not None:
            if relay.log_cut is not None and self.log + size > relay.log_cut:
                relay.log_cuts += 1
                return relay.log_cut - self.log
            self.log += size
        return left
