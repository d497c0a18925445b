"""The journal's files, read with the project's own reader."""
import glob
import os
import subprocess

from .binlog import place
from .keeper import built


class Segments:
    """The segments in one directory, by default a keeper's."""

    def __init__(self, keeper, path=None):
        self.tool = built("tools", "segment_read")
        self.keeper, self.world = keeper, keeper.name
        self.dir = path or os.path.join(keeper.dumps_dir, "journal")

    def paths(self):
        return sorted(glob.glob(os.path.join(glob.escape(self.dir), self.world + "-*.journal")))

    def size(self):
        """Returns their total size; one may be deleted meanwhile."""
        total = 0
        for path in self.paths():
            try:
                total += os.path.getsize(path)
            except FileNotFoundError:
                pass
        return total

    def lines(self, *names):
        """Returns the reader's output for some segments, by default all; a file that is deleted meanwhile is an error."""
        names = names or [os.path.basename(path) for path in self.paths()]
        return subprocess.run([self.tool, self.dir, *names], stdout=subprocess.PIPE, text=True,
                              errors="replace").stdout.splitlines() if names else []

    def heads(self):
        """Returns [(number, whether it follows the one before)]."""
        return [(int(line.split()[1]), line.endswith("follows 1")) for line in self.lines()
                if line.startswith("segment ")]

    def numbers(self):
        """Returns the numbers in their names."""
        return [int(os.path.basename(path).split("-")[-1].split(".")[0]) for path in self.paths()]

    def gaps(self):
        """Returns the numbers of segments that do not continue the one before, such as the first."""
        return [number for number, follows in self.heads()[1:] if not follows]

    def finalized(self):
        """Returns whether each is finalized, in order."""
        return [line.startswith("finalized") for line in self.lines()
                if line.startswith(("finalized ", "open "))]

    def errors(self):
        return [line for line in self.lines() if line.startswith("error ")]

    def end(self):
        """Returns the position in the server's log up to which they reach."""
        last = self.paths()[-1:]
        lines = self.lines(os.path.basename(last[0])) if last else []
        words = lines[-1].split() if lines else []
        return (words[2], int(words[3])) if words and words[0] in ("finalized", "open") else ("", 0)

    def end_time(self):
        """Returns the time up to which they reach, by the server's clock in whole seconds."""
        ends = [line for line in self.lines(os.path.basename(self.paths()[-1])) if line.startswith("end ")]
        return int(ends[-1].split(" at ")[1].split()[0])

    def wait_all(self):
        """Waits until they have everything that the server has done so far. An end beyond the server's present log belongs to
        a log before a RESET."""
        server = self.keeper.server
        now = place(server)
        self.keeper.wait(lambda: now <= self.end() <= place(server), lambda: f"segments up to {now}, not {self.end()}")
        return self
