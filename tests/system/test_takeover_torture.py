"""Two machines that may keep one world, disturbed at random: never two sides that say UP at one time by their own lease,
nothing lost that was stored, nothing at all in a switch-over, and never an older generation in the store."""
import os
import random
import time

import pytest
from wk.audit import TABLES
from wk.follow import LOG
from wk.relay import Link
from wk.stores import Etcd, program
from wk.takeover import TTL, Machine, Store, Torture

pytestmark = pytest.mark.slow
ROUNDS = int(os.environ.get("WK_TAKEOVER_ROUNDS", "1"))
KINDS = os.environ.get("WK_TAKEOVER_KINDS", "")
ONLY = os.environ.get("WK_TAKEOVER_ONLY", "").split()  # what is done to them, by the names in wk/takeover.py; all: ""
SEED = os.environ.get("WK_TAKEOVER_SEED") or str(time.time_ns())


@pytest.fixture
def make_machine(make_world, make_keeper, make_server, tmp):
    """make_machine(number, store, etcd, schema) -> a machine whose every connection goes through a link."""
    made = []

    def make(number, store, etcd=None, schema=None):
        world = make_world("empty", make_server(*LOG), schema=schema)
        links = {"store": Link(store.doors[number].port), "server": Link(world.server.port)}
        lease = {"lease": "s3"}
        if etcd:
            members = [Link(port) for port in etcd.ports[::2]]
            links.update((f"etcd-{i}", link) for i, link in enumerate(members))
            lease = {"lease": "etcd", "etcd": ", ".join(f"http://127.0.0.1:{link.port}" for link in members)}
        keeper = make_keeper(world, {
            "mysql": {**links["server"].settings, "tls": "off", "insecure": None},
            "probe": {"interval": "100ms"}, "journal": {"mode": "follow"}, "restore": {"new_server": "yes"},
            "offsite": {**store.doors[number].settings(), "endpoint": f"http://127.0.0.1:{links['store'].port}",
                        "plain": "yes", "timeout": "5s"},
            "standby": {**lease, "ttl": f"{TTL}s"}})
        made.append(Machine(number, keeper, links))
        return made[-1]
    return make


def torture(make_machine, base, kind):
    """ROUNDS of it with the lease in a store ("s3"), or in an etcd of one or three members."""
    etcd = (Etcd(base, 3, linked=True) if kind == "etcd3" else Etcd(base)) if kind != "s3" else None
    store = Store(base, 2)
    try:
        one = make_machine(0, store, etcd)
        two = make_machine(1, store, etcd, one.keeper.world.schema)
        one.keeper.world.sql(*TABLES)
        for machine in (one, two):
            machine.keeper.run("--check")
        one.keeper.init().start()
        one.keeper.dump()
        two.keeper.start("STANDBY")
        rounds = Torture([one, two], store, f"{SEED}/{kind}", etcd, ONLY)
        try:
            for n in range(ROUNDS):
                rounds.round()
                print(f"{kind} round {n + 1}: {dict(rounds.counts)}, looked {rounds.observer.looks} times, "
                      f"oldest loss before a fault {max(rounds.ages, default=0):.2f} s", flush=True)
        finally:
            rounds.end()
    finally:
        store.stop()
        if etcd:
            etcd.stop()


def test_torture(make_machine, tmp):
    """A share of `make takeover-torture`: some rounds with one kind of lease."""
    kinds = ["s3", "etcd", "etcd3"] if program("etcd") else ["s3"]
    for kind in KINDS.split() or [random.Random(SEED).choice(kinds)]:
        os.mkdir(f"{tmp}/{kind}")
        torture(make_machine, f"{tmp}/{kind}", kind)
