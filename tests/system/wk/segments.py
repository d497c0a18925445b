"""The journal's files, read with the project's own reader."""
import glob
import os
import subprocess

from .binlog import place
from .keeper import built


class Segments:
    """Those in one directory, by default a keeper's."""

    def __init__(self, keeper, path=None):
        self.tool = built("tools", "segment_read")
        self.keeper, self.world = keeper, keeper.name
        self.dir = path or os.path.join(keeper.dumps_dir, "journal")

    def paths(self):
        return sorted(glob.glob(os.path.join(glob.escape(self.dir), self.world + "-*.journal")))

    def size(self):
        """Of all together; one may be deleted meanwhile."""
        total = 0
        for path in self.paths():
            try:
                total += os.path.getsize(path)
            except FileNotFoundError:
                pass
        return total

    def lines(self, *names):
        """What the reader says of some, by default of all; a file that is deleted meanwhile is an error."""
        names = names or [os.path.basename(path) for path in self.paths()]
        return subprocess.run([self.tool, self.dir, *names], stdout=subprocess.PIPE, text=True,
                              errors="replace").stdout.splitlines() if names else []

    def heads(self):
        """[(number, does it follow the one before it?)]"""
        return [(int(line.split()[1]), line.endswith("follows 1")) for line in self.lines()
                if line.startswith("segment ")]

    def numbers(self):
        """In their names."""
        return [int(os.path.basename(path).split("-")[-1].split(".")[0]) for path in self.paths()]

    def gaps(self):
        """Numbers of those that do not go on where the one before ends; the first never does."""
        return [number for number, follows in self.heads()[1:] if not follows]

    def finalized(self):
        """Of each, in their order."""
        return [line.startswith("finalized") for line in self.lines()
                if line.startswith(("finalized ", "open "))]

    def errors(self):
        return [line for line in self.lines() if line.startswith("error ")]

    def end(self):
        """The place in the server's log up to which they go."""
        last = self.paths()[-1:]
        lines = self.lines(os.path.basename(last[0])) if last else []
        words = lines[-1].split() if lines else []
        return (words[2], int(words[3])) if words and words[0] in ("finalized", "open") else ("", 0)

    def end_time(self):
        """Up to when they go, by the server's clock in whole seconds."""
        ends = [line for line in self.lines(os.path.basename(self.paths()[-1])) if line.startswith("end ")]
        return int(ends[-1].split(" at ")[1].split()[0])

    def wait_all(self):
        """Waits until everything is in them that the server has done so far. An end that the server's log has not come to
        is of another log, of before it was begun anew."""
        server = self.keeper.server
        now = place(server)
        self.keeper.wait(lambda: now <= self.end() <= place(server), lambda: f"segments up to {now}, not {self.end()}")
        return self
