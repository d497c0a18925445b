"""The cost of writing players' progress back, beside a bare multi-row INSERT of the same bytes and a call for each blob."""
import contextlib
import os
import statistics
import tempfile
import time

from wk.relay import Wire
from wk.server import Server

from measure import Game

BLOBS, SIZE = 10000, 10000
PIECE = 1500       # rows per bare INSERT: 15 MB
CALLS = 500        # calls of wk_save, from which the total time is computed
SAVES_SECONDS = 8


def p999(of):
    return sorted(of)[int(len(of) * 0.999)]


class Watched(Wire):
    """A line that records when data arrived, and in which direction."""

    def __init__(self, to, delay):
        self.seen = []
        super().__init__(to, delay)

    def connected(self):
        def passing(data, back, send):
            if data:
                self.seen.append((time.monotonic(), back, len(data), b"wk_beat" in data))
            send(data)
        return passing

    def took(self):
        """Returns the time from the first byte of the first blobs to the last answer, at the client."""
        first = next(i for i, (_, back, size, _) in enumerate(self.seen) if not back and size > 4096)
        beat = next(i for i in range(first, len(self.seen)) if self.seen[i][3])
        last = max(at for at, back, _, _ in self.seen[first:beat] if back)
        return last + self.delay - self.seen[first][0]


class WriteBacks:
    """World and central store on one server, measured as the whole work of both on this machine."""

    def __init__(self, base, lab, rounds, blobs, say):
        os.environ["WORLDKEEPER"] = lab.tool("worldkeeper")
        from wk import progress  # pylint: disable=import-outside-toplevel; it looks for the program
        from wk.keeper import Keeper  # pylint: disable=import-outside-toplevel
        from wk.world import World  # pylint: disable=import-outside-toplevel
        self.rounds, self.blobs, self.say = rounds, blobs, say
        self.server = Server(base, "--max-heap-table-size=8G", "--innodb-buffer-pool-size=512M", "--skip-log-bin",
                             "--max-allowed-packet=16M")
        self.server.start()
        self.world = World(self.server, "small")
        self.keeper = Keeper(tempfile.mkdtemp(dir=base), self.world)
        self.central = progress.Central(self.server)
        self.data = [os.urandom(SIZE) for _ in range(64)]
        self.seq = 0
        progress.made(self.keeper, self.central)
        self.fill_stores()

    def fill_stores(self):
        n, schema = self.blobs, self.central.schema
        self.world.sql(f"ALTER TABLE wk_progress MODIFY `blob` VARBINARY({SIZE}) NOT NULL",
                       f"INSERT INTO wk_session (lock_key,lock_seq) SELECT CONCAT('l',seq),5 FROM seq_1_to_{n}",
                       f"INSERT INTO {schema}.wk_lock (lock_key,lock_seq,lock_id,locked_at) SELECT CONCAT('l',seq),5,"
                       f"'gs-a',UTC_TIMESTAMP(3) FROM seq_1_to_{n}")
        self.change()
        self.write_back()
        self.world.sql(f"CREATE TABLE bare LIKE {schema}.wk_blob", f"INSERT INTO bare SELECT * FROM {schema}.wk_blob")

    def blob(self, i):
        return self.data[(i + self.seq) % len(self.data)]

    def change(self):
        """Gives each blob new contents and a number above those of all saves, so that it is unsent."""
        self.seq = max(self.seq, int(self.world.sql("SELECT COALESCE(MAX(seq),0) FROM wk_progress")[0][0])) + 1
        con = self.server.admin(self.world.schema)
        with con.cursor() as cur:
            for i in range(1, self.blobs + 1, 500):
                part = range(i, min(self.blobs + 1, i + 500))
                cur.execute("REPLACE INTO wk_progress (blob_key,lock_key,seq,sent_seq,changed_at,`blob`) VALUES " + ",".join(
                    f"('b{j}','l{j}',{self.seq},{self.seq - 1},NOW(3),_binary %s)" for j in part),
                    [self.blob(j) for j in part])
        con.close()

    def write_back(self):
        began = time.monotonic()
        done = self.keeper.ok("--write-back", "--json")
        assert done["sent"] == self.blobs, done
        return time.monotonic() - began

    def bare(self):
        """Measures the bare statements, which are built before."""
        con = self.server.admin(self.world.schema)
        said = [con.literal(b) if isinstance(con.literal(b), str) else con.literal(b).decode() for b in self.data]
        made = []
        for i in range(1, self.blobs + 1, PIECE):
            made.append("INSERT INTO bare VALUES " + ",".join(
                f"('b{j}','l{j}',5,{self.seq},NOW(3),{said[(j + self.seq) % len(said)]})"
                for j in range(i, min(self.blobs + 1, i + PIECE)))
                + " ON DUPLICATE KEY UPDATE seq=VALUES(seq),saved_at=VALUES(saved_at),`blob`=VALUES(`blob`)")
        began = time.monotonic()
        with con.cursor() as cur:
            for statement in made:
                cur.execute(statement)
        took = time.monotonic() - began
        con.close()
        return took

    def calls(self):
        con = self.server.admin(self.central.schema)
        self.seq += 1
        began = time.monotonic()
        with con.cursor() as cur:
            for i in range(1, CALLS + 1):
                cur.execute("CALL wk_save(%s,%s,'gs-a',5,%s,_binary %s)", (f"b{i}", f"l{i}", self.seq, self.blob(i)))
                cur.fetchall()
        con.close()
        return (time.monotonic() - began) / CALLS * self.blobs

    @contextlib.contextmanager
    def changed_behind(self, wire):
        """Makes everything unsent, with the central store at the other end of `wire`."""
        self.keeper.configure({"progress": wire.settings})
        self.change()
        yield
        self.keeper.configure({"progress": {"socket": self.server.socket, "host": None, "port": None, "tls": None}})

    def relayed(self, delay):
        with self.changed_behind(Wire(self.server.socket, delay)):
            return self.write_back()

    def supervised(self, delay):
        """Measures a write-back by a supervisor that is already connected when it first looks."""
        wire = Watched(self.server.socket, delay)
        with self.changed_behind(wire):
            self.keeper.start()
            self.keeper.wait(lambda: (self.keeper.status().get("progress") or {}).get("sent") == self.blobs, "all to be sent")
            time.sleep(2 + 2 * delay)  # the heartbeat ends the measured data
            self.keeper.stop()
        return wire.took()

    def saves(self, beside):
        """Measures the duration of each local save, alone or during continuous write-backs."""
        def save(cur, number):
            i = 37 * number
            cur.execute("CALL wk_put(%s,%s,_binary %s)",
                        (f"b{i % self.blobs + 1}", f"l{i % self.blobs + 1}", self.data[i % len(self.data)]))
        with Game(self.server.admin(self.world.schema), save) as game:
            end = time.monotonic() + SAVES_SECONDS
            while time.monotonic() < end:
                if beside:
                    self.keeper.ok("--write-back")
                else:
                    time.sleep(0.1)
        return game.waits

    def all(self):
        found = {"blobs": self.blobs, "size": SIZE, "rounds": []}
        try:
            for number in range(self.rounds):
                self.say(f"write-back, round {number + 1} of {self.rounds}")
                self.change()
                one = {"write_back": self.write_back(), "bare": self.bare(), "calls": self.calls()}
                one.update(relay=self.relayed(0), relay_100ms=self.relayed(0.1),
                           supervised=self.supervised(0), supervised_100ms=self.supervised(0.1))
                alone, beside = self.saves(False), self.saves(True)
                one.update(save_p999=p999(alone), save_p999_beside=p999(beside))
                found["rounds"].append(one)
        finally:
            self.server.destroy()
        return found


def lines(found):
    """Yields [what, figure, goal] of each comparison."""
    def median(key):
        return statistics.median(r[key] for r in found["rounds"])
    blobs = f"{found['blobs']} blobs of {found['size']} bytes"
    yield f"{blobs} written back, against a bare INSERT of them", median("write_back") / median("bare"), "<= 1.5"
    yield f"{blobs} saved by a call each, against written back", median("calls") / median("write_back"), ">= 5"
    yield "written back with 100 ms on the way, against none", median("relay_100ms") / median("relay"), "<= 1.5"
    yield "by the supervisor with 100 ms on the way, against none", median("supervised_100ms") / median("supervised"), "<= 1.5"
    yield "99.9th percentile of a local save beside it, against alone", median("save_p999_beside") / median("save_p999"), "<= 2"


def show(found):
    for what, figure, goal in lines(found):
        print(f"{what:70} {figure:6.2f} x   goal {goal}")
