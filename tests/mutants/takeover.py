#!/usr/bin/python3
"""Does the oracle of `make takeover-torture` see? Thirteen wrong versions of worldkeeper: one for each rule of
tests/models/README.md, which it breaks, and three more. Each is tortured until the oracle reports a violation.

  tests/mutants/takeover.py [NAME...]     all, or the named ones; make takeover-mutants
  tests/mutants/takeover.py --check       only whether each mistake still fits the source
  tests/mutants/takeover.py --clean       the same disturbances on the tree as it is: no violation may be reported
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

from mutants import ROOT, Mutant, build, check

RENEWED = [("src/standby/lease_record.c", "    if (strcmp(version, s->version) != 0)\n", "    if (!s->version[0])\n")]


class Broken(Mutant):
    """`breaks`: a rule; `lease` and `only`: the worlds and the disturbances that can show it."""

    def __init__(self, breaks, name, mistake, edits, lease, only):
        super().__init__(name, mistake, edits, ["tests/system/test_takeover_torture.py"])
        self.breaks, self.lease, self.only = breaks, lease, only


VARIANTS = [
    Broken("rule 1", "record-not-first", "a promotion begins a life without writing the record",
           [("src/actions/whose.c", "    else if (record_write(s->t, s->a->cfg->name, next, e) < 0)\n",
             "    else if (fence_check(\"record\", e) < 0)\n")], "s3", "kill switch"),
    Broken("rule 2", "acts-without-lease", "a machine acts although its lease is over",
           [("src/base/fence.c", "    return !fence || !mono_reached(clock_mono(), fence_until());",
             "    return !fence || fence_until().ms >= 0;")], "etcd", "stop freeze members"),
    Broken("rule 3", "newest-name", "of the dumps here the newest counts, whichever life it is of",
           [("src/store/lives.c", "    if (!l->number || m->generation < oldest", "    if (l->number || m->generation < oldest")],
           "none", "unstored switch"),
    Broken("rule 4", "starts-without-record", "a machine that had the world goes on, whatever the record says",
           [("src/offsite/record.c", "    return ours ? RECORD_OURS", "    return ours || last->own ? RECORD_OURS")],
           "none", "old_disk hour"),
    Broken("rule 5", "no-record-without-lease", "without a lease no record is written",
           [("src/actions/whose.c", "    else if (record_write(s->t, s->a->cfg->name, next, e) < 0)\n",
             "    else if (s->lease->grant.number && record_write(s->t, s->a->cfg->name, next, e) < 0)\n")],
           "none", "kill switch"),
    Broken("rule 6", "switch-without-proof", "a switch-over waits for no store, and a promotion reaches no position",
           [("src/actions/standby.c", "    if (need_chain(a, s, f, e) < 0 || wait_ledgers(a, f, e) < 0 || "
             "wait_stored(a, f, end, e) < 0 ||\n        need_chain(a, s, f, e) < 0 || need_recorded(a, e) < 0)\n",
             "    if (end->pos == 0 && (wait_ledgers(a, f, e) < 0 || wait_stored(a, f, end, e) < 0 ||\n"
             "        need_chain(a, s, f, e) < 0 || need_recorded(a, e) < 0))\n"),
            ("src/actions/standby.c", "    if (handed_over.position.file[0] && !r->force)\n", "    if (!a)\n")],
           "s3", "switch"),
    Broken("rule 7", "nothing-lost-unproven", "where no error is known, nothing is said to be lost",
           [("src/actions/standby.c", "    bool all = handover_reached(&handed_over, &res.made.upto) && complete;",
             "    bool all = complete;")], "s3", "kill"),
    Broken("rule 8", "locks-not-renewed", "a new life goes on with the lock numbers of the last one",
           [("src/progress/renew.c", "    *out = (struct renewed){.asked = rc == 0 && r.list.count > 0};\n",
             "    *out = (struct renewed){0};\n    r.next = r.list.count;\n")], "s3", "kill hour old_disk"),
    Broken("rule 9", "totals-stay", "the totals of ledgers do not travel with the world",
           [("src/mysql/world_tables.c", "        for (size_t k = 0; k < SUFFIXES; k++) {\n",
             "        for (size_t k = SUFFIXES; k < SUFFIXES; k++) {\n")], "s3", "commands switch"),
    Broken("rule 10", "hint-to-force", "a refused --demote recommends what loses the world's newest changes",
           [("src/actions/standby.c", "\"worldkeeper --switch-over hands the world over without loss\"",
             "\"worldkeeper --demote --force makes this machine the standby\"")], "etcd", "hints"),
    Broken("one more", "renewed-lease-taken", "a lease is taken although its holder renews it", RENEWED,
           "s3", "late links stop"),
    Broken("one more", "lease-before-record", "a lease is taken, or first renewed, before the record was read",
           [("src/supervisor/lease.c", "    if (others || !unchanged || !c->report.read)\n", "    if (others)\n")], "s3", "place"),
    Broken("one more", "restored-life-unrecorded", "a life that begins with a restore is stored without a record",
           [("src/supervisor/offsite.c", "    if (life_is(&r->now, own)) {\n", "    if (r->number && r->now.generation) {\n")],
           "s3", "commands"),
]


def torture(binary, variant, rounds, seed, kind):
    """Runs at most this many rounds and returns (number of rounds that ended well, the violation or None, output)."""
    env = {**os.environ, "WORLDKEEPER": binary, "WK_KIND": kind, "WK_TAKEOVER_ROUNDS": str(rounds), "WK_TAKEOVER_STATE": "",
           "WK_TAKEOVER_SEED": seed, "WK_TAKEOVER_KINDS": variant.lease, "WK_TAKEOVER_ONLY": variant.only}
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-s", "-o", "timeout=0",
                           "-k", "test_torture", "test_takeover_torture.py"], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", cwd=os.path.join(ROOT, "tests/system"))
    ended = len(re.findall(r"^\S+ round \d+: ", done.stdout, re.M))
    wrong = re.search(r"^E +(?:AssertionError|wk\.util\.Timeout): (.*)", done.stdout, re.M)  # what the torture counts as a violation
    if not wrong and (done.returncode or ended < rounds):
        raise SystemExit(f"takeover: {variant.name}: the torture ended for another reason:\n{done.stdout[-3000:]}")
    return ended, wrong and wrong[1], done.stdout


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--check", action="store_true")
    args.add_argument("--clean", action="store_true")
    args.add_argument("--rounds", type=int, default=0, help="at most; default: 40, with --clean 5")
    args.add_argument("--seed", default=str(time.time_ns()))
    args.add_argument("--server", default=os.environ.get("WK_KIND", "mariadb"))
    args.add_argument("names", nargs="*", metavar="NAME", help=", ".join(v.name for v in VARIANTS))
    args = args.parse_args()
    unknown = set(args.names) - {v.name for v in VARIANTS}
    if unknown:
        raise SystemExit(f"takeover: no such one: {', '.join(sorted(unknown))}")
    variants = [v for v in VARIANTS if not args.names or v.name in args.names]
    check(variants)
    if args.check:
        print(f"{len(variants)} mutants fit the source")
        return 0
    wrong = 0
    for variant in variants:
        where = os.path.join(ROOT, "build/mutants", variant.name)
        binary = os.path.join(ROOT, "build/release/worldkeeper") if args.clean else build(variant, where)
        began = time.monotonic()
        ended, seen, said = torture(binary, variant, args.rounds or (5 if args.clean else 40), args.seed, args.server)
        shutil.rmtree(where, ignore_errors=True)
        wrong += bool(seen) == args.clean
        word = f"seen in round {ended + 1}" if seen else f"{'no violation' if args.clean else 'NOT SEEN'} in {ended} rounds"
        print(f"{variant.breaks:8} {variant.name:24} {word}, {time.monotonic() - began:.0f} s, {variant.lease}: "
              f"{variant.only if args.clean else variant.mistake}{': ' + seen[:150] if seen else ''}", flush=True)
        if seen and args.clean:
            print(said[-6000:])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
