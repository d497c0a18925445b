"""Tests of two machines that may keep one world, disturbed at random: they never both publish UP at one time by their own
lease, stored data is never lost, nothing is lost in a switch-over or where "nothing lost" was reported, no ledger row is lost
or counted twice, no save is replaced by an older one, and the store never gets an older generation. WK_TAKEOVER_STATE=FILE
keeps counts for each commit, server and kind of lease; an interrupted run continues from it."""
import json
import os
import random
import time

import pytest
from wk.audit import TABLES
from wk.follow import LOG
from wk.keeper import USER
from wk.progress import RIGHTS, Central
from wk.relay import Link
from wk.stores import Etcd, program
from wk.takeover import GAINS, LEDGER, TTL, Machine, Store, Torture

pytestmark = pytest.mark.slow
ROUNDS = int(os.environ.get("WK_TAKEOVER_ROUNDS", "1"))
KINDS = os.environ.get("WK_TAKEOVER_KINDS", "")
ONLY = os.environ.get("WK_TAKEOVER_ONLY", "").split()  # disturbances, by their names in wk/takeover.py; "": all
STATE = os.environ.get("WK_TAKEOVER_STATE")
COMMIT = os.environ.get("WK_TAKEOVER_COMMIT", "")
COPY_RIGHTS = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER"  # on the schema of a world that is kept loaded
SEED = os.environ.get("WK_TAKEOVER_SEED") or str(time.time_ns())


@pytest.fixture
def make_machine(make_world, make_keeper, make_server, server, tmp):
    """Returns make_machine(number, kind, store, central, etcd, schema), which makes a machine whose every connection goes
    through a link."""
    made = []

    def make(number, kind, store, central, etcd=None, schema=None):
        world = make_world("empty", make_server(*LOG), schema=schema)
        links = {"store": Link(store.doors[number].port), "server": Link(world.server.port)}
        lease = {"lease": kind}
        if etcd:
            members = [Link(port) for port in etcd.ports[::2]]
            links.update((f"etcd-{i}", link) for i, link in enumerate(members))
            lease = {"lease": "etcd", "etcd": ", ".join(f"http://127.0.0.1:{link.port}" for link in members)}
        keeper = make_keeper(world, {
            "mysql": {**links["server"].settings, "tls": "off", "insecure": None},
            "probe": {"interval": "100ms"}, "journal": {"mode": "follow"}, "restore": {"new_server": "yes"},
            "offsite": {**store.doors[number].settings(), "endpoint": f"http://127.0.0.1:{links['store'].port}",
                        "plain": "yes", "timeout": "5s"},
            "standby": lease if kind == "none" else {**lease, "ttl": f"{TTL}s"}, "ledger xp": LEDGER})
        keeper.configure({"progress": central.settings(keeper, write_back="5s")})
        keeper.server.grant(USER + "@127.0.0.1", world.schema, RIGHTS + ", CREATE VIEW")
        keeper.server.grant(USER + "@127.0.0.1", f"worldkeeper_warm_{keeper.name}", COPY_RIGHTS)
        made.append(Machine(number, keeper, links))
        return made[-1]
    return make


class Kept:
    """The counts of earlier runs, by commit, server and kind of lease."""

    def __init__(self, kind):
        self.all, self.key = {}, f"{COMMIT} {os.environ.get('WK_KIND', 'mariadb')} {kind}"
        if STATE and os.path.exists(STATE):
            with open(STATE) as f:
                self.all = json.load(f)
        self.counts = self.all.setdefault(self.key, {})

    def add(self, more):
        for name, n in more.items():
            self.counts[name] = self.counts.get(name, 0) + n
        if STATE:
            with open(STATE + ".new", "w") as f:
                json.dump(self.all, f, indent=1, sort_keys=True)
            os.rename(STATE + ".new", STATE)


def torture(make_machine, base, kind, server):
    """Runs ROUNDS rounds of the torture with the lease in a store ("s3"), in an etcd of one or three members, or with
    none."""
    kept = Kept(kind)
    done = kept.counts.get("rounds", 0)
    if done >= ROUNDS:
        return
    etcd = (Etcd(base, 3, linked=True) if kind == "etcd3" else Etcd(base)) if kind.startswith("etcd") else None
    store, central = Store(base, 2), Central(server)
    try:
        one = make_machine(0, kind, store, central, etcd)
        two = make_machine(1, kind, store, central, etcd, one.keeper.world.schema)
        one.keeper.world.sql(*TABLES, GAINS)
        for machine in (one, two):
            machine.keeper.run("--check")
        one.keeper.init()
        one.keeper.world.sql("ALTER TABLE xp_rollup ENGINE=InnoDB")  # it travels only as a table of our own
        one.keeper.start()
        one.keeper.dump()
        two.keeper.start("STANDBY")
        rounds = Torture([one, two], store, f"{SEED}/{kind}/{done}", etcd, ONLY, central, kind != "none")
        try:
            while done < ROUNDS:
                before = rounds.counts.copy()
                try:
                    moves = rounds.round()
                except AssertionError:
                    kept.add({"violations": 1})
                    raise
                kept.add(rounds.counts - before)
                done += 1
                print(f"{kind} round {done}: {moves} moves, {dict(rounds.counts)}, looked {rounds.observer.looks} times, "
                      f"oldest loss before a fault {max(rounds.ages, default=0):.2f} s", flush=True)
        finally:
            rounds.end()
    finally:
        store.stop()
        if etcd:
            etcd.stop()


def test_torture(make_machine, server, tmp):
    """Runs a share of `make takeover-torture`: some rounds with one kind of lease."""
    kinds = ["s3", "none", "etcd", "etcd3"] if program("etcd") else ["s3", "none"]
    for kind in KINDS.split() or [random.Random(SEED).choice(kinds)]:
        os.mkdir(f"{tmp}/{kind}")
        torture(make_machine, f"{tmp}/{kind}", kind, server)
