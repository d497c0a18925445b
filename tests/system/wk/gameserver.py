"""One game server of the progress torture, in its own process so that it can be killed and stopped:

  gameserver.py HISTORY LOCK_ID SEED SCHEMA TAKEOVER_MS PLAYERS ENDPOINT...   (a socket's path, or a port)

Plays sessions of random players until SIGTERM. Requests and answers are written to HISTORY, one per line:
[when, serial, "ask", operation, lock, number, {blob_key: [seq, text]}] and
[when, serial, "said", outcome, what, how often it was asked]; `when` is the machine's monotonic clock. A request without an
answer may have been executed or not. A zombie's sessions are kept for a while after they were stolen: what it still sends
must be refused."""
import base64
import json
import os
import random
import signal
import sys
import time

import pymysql

PASSWORD = "CANARY-4f1c-only-in-password-files"
BLOBS = 100  # per player


class GameServer:
    def __init__(self, history, lock_id, seed, schema, takeover_ms, players, *endpoints):
        self.out = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.lock_id, self.schema, self.takeover, self.players = lock_id, schema, int(takeover_ms), int(players)
        self.random, self.endpoints = random.Random(seed), endpoints
        self.con, self.serial, self.sessions, self.old, self.ended = None, 0, {}, [], False
        self.tries = 0
        self.nonce = f"{lock_id}.{os.getpid()}"

    def log(self, *line):
        if line[1] == "said":
            line += (self.tries,)
        os.write(self.out, (json.dumps([time.monotonic(), *line]) + "\n").encode())

    def connect(self):
        where = self.random.choice(self.endpoints)
        where = {"unix_socket": where} if "/" in where else {"host": "127.0.0.1", "port": int(where)}
        self.con = pymysql.connect(user="game", password=PASSWORD, database=self.schema, charset="utf8mb4",
                                   autocommit=self.random.random() < 0.8, connect_timeout=3, read_timeout=10, **where)

    def rows(self, statements):
        """Returns the rows of all the statements, or None if there was no answer."""
        try:
            if not self.con:
                self.connect()
            rows = []
            with self.con.cursor() as cur:
                for sql, args in statements:
                    cur.execute(sql, args)
                    rows += cur.fetchall()
                    while cur.nextset():
                        rows += cur.fetchall()
            return rows
        except pymysql.err.MySQLError as e:
            if e.args and e.args[0] in (1047, 1205, 1213) and self.con and self.con.open:
                return []
            try:
                self.con and self.con._force_close()
            finally:
                self.con = None
            time.sleep(0.01)
            return None

    def ask(self, operation, lock, number, blobs, *statements):
        """Repeats the statements up to three times until they are answered, as a careful program does. Returns (serial, rows)."""
        self.serial += 1
        serial, rows = self.serial, None
        self.log(serial, "ask", operation, lock, number, blobs)
        for self.tries in (1, 2, 3):
            rows = self.rows(statements)
            if rows is not None or self.ended:
                break
        return serial, rows

    def acquire(self):
        lock = f"p{self.random.randrange(self.players)}"
        takeover = None if self.random.random() < 0.2 else self.takeover
        serial, rows = self.ask("acquire", lock, None, None, ("CALL wk_acquire(%s,%s,%s)", (lock, self.lock_id, takeover)))
        outcome, number = rows[0][:2] if rows else ("?", None)
        self.log(serial, "said", outcome, number)
        if outcome not in ("locked", "mine", "taken"):
            return
        serial, rows = self.ask("load", lock, number, None, ("CALL wk_load(%s,%s,%s)", (lock, self.lock_id, number)))
        if not rows:
            return self.log(serial, "said", "?", None)
        found = {r[1].decode(): [r[2], r[3].decode()] for r in rows if r[0] == "loaded"}
        self.log(serial, "said", rows[0][0], found)
        if rows[0][0] != "stolen":
            self.sessions[lock] = [number, {f"{lock}.{n}": found.get(f"{lock}.{n}", [0])[0] for n in range(BLOBS)}, 0]

    def next_save(self, lock, key):
        session = self.sessions[lock]
        session[1][key] += 1
        seq = session[1][key]
        return key, [seq, f"{self.nonce}/{session[0]}/{seq}/{self.serial}"]

    def save(self):
        lock = self.random.choice(list(self.sessions))
        key, (seq, text) = self.next_save(lock, self.random.choice(list(self.sessions[lock][1])))
        self.send_one(lock, self.sessions[lock][0], key, seq, text)

    def send_one(self, lock, number, key, seq, text):
        serial, rows = self.ask("save", lock, number, {key: [seq, text]},
                                ("CALL wk_save(%s,%s,%s,%s,%s,%s)", (key, lock, self.lock_id, number, seq, text)))
        outcome = rows[0][0] if rows else "?"
        self.log(serial, "said", outcome, None)
        if self.random.random() < 0.05:
            self.old.append((lock, number, key, seq, text))
        self.refused(lock, number, outcome)

    def repeat(self):
        """Sends an old request again, although a newer one may have been executed."""
        self.send_one(*self.old.pop(self.random.randrange(len(self.old))))

    def trade(self):
        locks = self.random.sample(list(self.sessions), 2)
        saves = {lock: self.next_save(lock, self.random.choice(list(self.sessions[lock][1]))) for lock in locks}
        text = json.dumps([{"blob_key": key, "lock_key": lock, "lock_seq": self.sessions[lock][0], "seq": seq,
                            "blob": base64.b64encode(text.encode()).decode()} for lock, (key, (seq, text)) in saves.items()])
        numbers = {lock: self.sessions[lock][0] for lock in locks}
        serial, rows = self.ask("many", locks, list(numbers.values()), dict(saves.values()),
                                ("CALL wk_save_many(%s,%s)", (self.lock_id, text)))
        outcome, key = rows[0] if rows else ("?", None)
        self.log(serial, "said", outcome, key and key.decode())
        if key and outcome == "stolen":
            lock = key.decode().split(".")[0]
            self.refused(lock, numbers[lock], outcome)

    def write_back(self):
        """Sends all waiting saves at once."""
        newest = {lock: dict(self.next_save(lock, key) for key in s[1] if self.random.random() < 0.8)
                  for lock, s in self.sessions.items()}
        sent = [(key, lock, self.sessions[lock][0], seq, text) for lock, saves in newest.items()
                for key, (seq, text) in saves.items()]
        if not sent:
            return
        values = ",".join(["(%s,%s,%s,%s,%s)"] * len(sent))
        serial, rows = self.ask("send", [s[1] for s in sent], [s[2] for s in sent], {s[0]: [s[3], s[4]] for s in sent},
                                ("CALL wk_send_open()", ()), (f"INSERT INTO wk_sent VALUES {values}", sum(sent, ())),
                                ("SELECT 'sent',NULL,NULL", ()), ("CALL wk_send(%s)", (self.lock_id,)))
        if not rows:
            return self.log(serial, "said", "?", None)
        refused = {key.decode(): outcome for outcome, key, _ in rows if outcome != "sent"}
        self.log(serial, "said", "sent", refused)
        for key, outcome in refused.items():
            lock = key.split(".")[0]
            self.refused(lock, self.sessions[lock][0] if lock in self.sessions else None, outcome)

    def refused(self, lock, number, outcome):
        session = self.sessions.get(lock)
        if outcome in ("stolen", "unknown") and session and session[0] == number:
            session[2] += 1
            if session[2] > 2:  # a zombie's session
                del self.sessions[lock]

    def release(self):
        lock = self.random.choice(list(self.sessions))
        number = self.sessions.pop(lock)[0]
        serial, rows = self.ask("release", lock, number, None,
                                ("CALL wk_release(%s,%s,%s)", (lock, self.lock_id, number)))
        self.log(serial, "said", rows[0][0] if rows else "?", None)

    def step(self):
        dice = self.random.random()
        if len(self.sessions) < 2 or (dice < 0.1 and len(self.sessions) < 12):
            self.acquire()
        elif dice < 0.14:
            self.release()
        elif dice < 0.2 and self.old:
            self.repeat()
        elif dice < 0.3:
            self.trade()
        elif dice < 0.4:
            self.write_back()
        elif dice < 0.42:
            self.rows([("CALL wk_beat(%s)", (self.lock_id,))])
        else:
            self.save()

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "ended", True))
        while not self.ended:
            self.step()


if __name__ == "__main__":
    GameServer(*sys.argv[1:]).run()
