#!/usr/bin/python3
"""Wrong versions of worldkeeper, one mistake each: does the suite notice? A test that cannot fail shows nothing.

Each is built from a copy of the tree, and the tests that are named with it are run on it until one fails: one
must. The same tests pass on the tree as it is, which is tried first.

  tests/mutants/mutants.py [NAME...]     all, or the named ones; make mutants
  tests/mutants/mutants.py --check       only whether each mistake still fits the source
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TREE = ["Makefile", "src", "tests", "scripts", "etc", "systemd"]


class Mutant:
    """One wrong version. `edits` are (file, text that occurs once, its replacement)."""

    def __init__(self, name, mistake, edits, tests):
        self.name, self.mistake, self.edits, self.tests = name, mistake, edits, tests

    def places(self, root):
        """Yields (path, text with the mistake) of each edit."""
        for file, old, new in self.edits:
            path = os.path.join(root, file)
            with open(path) as f:
                text = f.read()
            if text.count(old) != 1:
                raise SystemExit(f"mutants: {self.name}: {file} holds {text.count(old)} times, not once:\n{old}")
            yield path, text.replace(old, new)

    def apply(self, root):
        for path, text in self.places(root):
            with open(path, "w") as f:
                f.write(text)


MUTANTS = [
    Mutant("file-not-synced", "a dump and its manifest are not synced before they are renamed",
           # Reading it back writes its pages out early; what a file's size is, only a sync tells the disk.
           [("src/dump/writer.c", "    if (fsync(w->fd) < 0)\n", "    if (w->fd < 0)\n"),
            ("src/base/file.c", "    else if (how == DURABLE && fsync(fd) < 0)", "    else if (how == DURABLE && fd < 0)"),
            ("src/dump/readback.c", "    int how = SYNC_FILE_RANGE_WAIT_BEFORE",
             "    if (to >= from)\n        return 0;\n    int how = SYNC_FILE_RANGE_WAIT_BEFORE")],
           ["tests/faults/test_power.py"]),
    Mutant("directory-not-synced", "a directory is not synced after a rename in it",
           [("src/base/file.c", "    return fsync(dirfd) < 0 ? ", "    return dirfd < 0 ? ")],
           ["tests/faults/test_power.py"]),
    Mutant("no-post-check", "a dump is not checked against the server and the nonce once it is read",
           [("src/dump/writer.c", "                      ? -1\n                      : snapshot_check(w->snap, e);\n",
             "                      ? -1\n                      : 0;\n")],
           ["tests/system/test_crash_server.py", "tests/system/test_dump_files.py"]),
    Mutant("no-fence", "a restore does not look whether another took the world over meanwhile",
           [("src/restore/permit.c", "    if (lease != r->lease)\n", "    if (lease < r->lease)\n")],
           ["tests/system/test_restore_hand.py"]),
    Mutant("parts-not-proven", "what is read of a dump is unpacked whatever its SHA-256 is",
           [("src/base/gunzip.c", "    if (memcmp(md, part->sha256, SHA256_BYTES) == 0)\n        return 0;\n",
             "    if (md[0] != part->sha256[0] || md[0] == part->sha256[0])\n        return 0;\n")],
           ["tests/system/test_signed_first.py"]),
    Mutant("choice-by-mtime", "dumps are ordered by the time of their files",
           [("src/store/catalog.c", "        err_sys(&why, errno, \"cannot examine %s\", file);\n",
             "        err_sys(&why, errno, \"cannot examine %s\", file);\n"
             "    if (fd >= 0)\n"
             "        ent->m.at.ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;\n"),
            ("src/store/catalog.c", "    return manifest_compare(&y->m, &x->m);",
             "    return (y->m.at.ms > x->m.at.ms) - (y->m.at.ms < x->m.at.ms);")],
           ["tests/system/test_restore_hand.py"]),
    Mutant("no-shadow-tables", "rows are put into the game's own tables, one table after the other",
           [("src/restore/swap.c", "        if (t->live)\n            add_rename(&b, t->name, t->old);\n        else if (t->in_way)\n"
             "            add_rename(&b, t->name, t->kept);\n        add_rename(&b, t->shadow, t->name);\n",
             "        if (t->live) {\n"
             "            struct buf m = {0};\n"
             "            buf_adds(&m, \"DELETE FROM \");\n"
             "            sql_ident(&m, t->name);\n"
             "            if (db_exec_len(r->db, m.p, m.len, e) < 0)\n"
             "                return -1;\n"
             "            buf_clear(&m);\n"
             "            buf_adds(&m, \"INSERT INTO \");\n"
             "            sql_ident(&m, t->name);\n"
             "            buf_adds(&m, \" SELECT * FROM \");\n"
             "            sql_ident(&m, t->shadow);\n"
             "            if (db_exec_len(r->db, m.p, m.len, e) < 0)\n"
             "                return -1;\n"
             "            buf_clear(&m);\n"
             "            buf_adds(&m, \"DROP TABLE \");\n"
             "            sql_ident(&m, t->shadow);\n"
             "            if (db_exec_len(r->db, m.p, m.len, e) < 0)\n"
             "                return -1;\n"
             "            buf_free(&m);\n"
             "        } else\n"
             "            add_rename(&b, t->shadow, t->name);\n")],
           ["tests/system/test_restore_auto.py", "tests/system/test_crash_keeper.py"]),
    Mutant("end-mark-applied", "the server's own word that a restart emptied a table is taken for a change",
           [("src/binlog/statement.c", "        out->kind = by_server ? STATEMENT_EMPTIED : STATEMENT_TRUNCATE;",
             "        out->kind = STATEMENT_TRUNCATE;"),
            ("src/journal/replay.c", "        if (r->phase == PHASE_WORLD)\n            set_phase(r, PHASE_LOST);\n", "")],
           ["tests/system/test_journal.py"]),
    Mutant("code-of-anybody", "views, routines and events of a dump run whoever wrote it",
           [("src/restore/code.c", "        return c->trust == CODE_UNKNOWN ? CODE_LEAVE : CODE_MAKE;",
             "        return CODE_MAKE;")],
           ["tests/system/test_code.py"]),
    Mutant("pending-of-anybody", "what an interrupted restore left to do is done though the server knows nothing of it",
           [("src/restore/swap.c", "    if (known != 0)\n", "    if (known >= 0)\n")],
           ["tests/system/test_pending.py"]),
    Mutant("columns-not-compared", "an answer of the server is read whatever columns it has",
           [("src/mysql/conn.c", "    if (n < r->columns || (n > r->columns && !r->open))\n", "    if (n == 0 && r->columns)\n")],
           ["tests/system/test_rogue_server.py"]),
    Mutant("unknown-loss-is-none", "a loss of which nothing is known is reported as none",
           [("src/restore/loss.c", "    return (struct loss){.most_ms = known ?", "    return (struct loss){.nothing = !known, .most_ms = known ?")],
           ["tests/system/test_loss.py", "tests/system/test_alert_words.py"]),
    Mutant("ledger-mark-by-time", "the mark of a rollup is the newest time in it, not the last id",
           [("src/ledger/sql.c", "COALESCE(r.end_id,0)\", DB_ARGS(c->id));", "COALESCE(r.end_time,0)\", DB_ARGS(c->time));")],
           ["tests/system/test_ledger.py", "tests/system/test_ledger_torture.py"]),
    Mutant("ledger-delete-first", "rows are deleted before they are added to totals",
           [("src/ledger/piece.c", "    if (p->rows && add_groups(r, p, e) < 0)\n        return -1;\n"
             "    fault_point(\"ledger.added\");\n    if (piece_delete_rows(r, p, e) < 0)\n        return -1;\n",
             "    if (piece_delete_rows(r, p, e) < 0)\n        return -1;\n    fault_point(\"ledger.added\");\n"
             "    if (p->rows && add_groups(r, p, e) < 0)\n        return -1;\n")],
           ["tests/system/test_ledger_faults.py", "tests/system/test_ledger_torture.py"]),
    Mutant("ledger-two-statements", "total and mark of a key change in two statements",
           [("src/ledger/piece.c", "    if (ledger_may_change(r->l, r->db, e) < 0)\n        return -1;\n    int rc = db_exec_len(r->db, sql.p, sql.len, e);\n"
             "    if (rc < 0 && e->num == DB_TABLE_FULL",
             "    if (ledger_may_change(r->l, r->db, e) < 0)\n        return -1;\n"
             "    int rc = db_exec_len(r->db, sql.p, (size_t)(strstr(sql.p, \",end_id=GREATEST\") - sql.p), e);\n"
             "    for (size_t i = 0; i < p->count && rc == 0; i++)\n"
             "        rc = db_execf(r->db, e, \"UPDATE %s SET end_id=%\" PRIu64 \" WHERE (player,mini)=(%s)\",\n"
             "                      r->rollup.p, p->groups[i].last_id, p->groups[i].key.p);\n"
             "    if (rc < 0 && e->num == DB_TABLE_FULL")],
           ["tests/system/test_ledger_torture.py"]),
    Mutant("ledger-no-prefix", "of a MEMORY ledger each row that is old is rolled up, also one after a young row",
           [("src/ledger/age.c", "    if (!r->l->memory) {\n        ledger_sql_moment", "    {\n        ledger_sql_moment"),
            ("src/ledger/age.c", "    return find_prefix(r, until, e);\n", "    return r ? 0 : find_prefix(r, until, e);\n"),
            ("src/ledger/piece_sql.c", "    if (r->after.len)\n        buf_printf(sql, \" WHERE %s\", r->after.p);\n    if (r->l->memory)\n        return;\n",
             "    if (r->l->memory) {\n        buf_printf(sql, \" WHERE %s AND l.at<=%s\", r->after.len ? r->after.p : \"1\",\n"
             "                   r->until.len ? r->until.p : \"l.at\");\n        return;\n    }\n"
             "    if (r->after.len)\n        buf_printf(sql, \" WHERE %s\", r->after.p);\n"),
            ("src/ledger/piece_sql.c", "    if (r->after.len)\n        buf_printf(b, \"%s AND \", r->after.p);\n",
             "    buf_printf(b, \"%s AND at<=%s AND \", r->after.len ? r->after.p : \"1\", r->until.len ? r->until.p : \"at\");\n")],
           ["tests/system/test_ledger.py"]),
    Mutant("ledger-innodb-in-order", "ids of an InnoDB ledger count as visible in their order",
           [("src/ledger/sql.c", "    if (l->memory) {\n        sql_fill(b, \" LEFT JOIN",
             "    {\n        sql_fill(b, \" LEFT JOIN")],
           ["tests/system/test_ledger_torture.py"]),
    Mutant("ledger-rolled-up-keys-only", "the view of totals leaves out keys that were never rolled up",
           [("src/ledger/sql.c", "        sql_fill(b, \" LEFT JOIN", "        sql_fill(b, \" JOIN")],
           ["tests/system/test_ledger.py"]),
    Mutant("ledger-wraps", "a total that overflows becomes another number",
           [("src/ledger/limits.c", "        limits_of(total_type(l, i), l->scale[i], &least, &most);\n        for",
             "        limits_of(\"\", l->scale[i], &least, &most);\n        for"),
            ("src/ledger/rollup.c", "sql_mode=CONCAT(@@sql_mode,',STRICT_ALL_TABLES')", "sql_mode=''"),
            ("src/ledger/piece_sql.c", "        buf_printf(b, \"%s=%s.%s+%s%s%s,\",",
             "        buf_printf(b, \"%s=CAST(%s.%s AS DECIMAL(65))+%s%s%s,\",")],
           ["tests/system/test_ledger.py"]),
    Mutant("no-step-back", "who lost the lease to another machine takes it again as soon as it can",
           [("src/supervisor/lease.c", "    bool others = r->number && strcmp(r->holder, s->holder) != 0;",
             "    bool others = r->number && strcmp(r->holder, s->holder) != 0 && c->fd < 0;")],
           ["tests/system/test_lease.py"]),
    Mutant("lease-from-its-answer", "a lease is counted from when the answer came",
           [("src/standby/lease_s3.c", ".valid_until = lease_ends(asked, l->ttl)};",
             ".valid_until = lease_ends(asked.ms ? clock_mono() : asked, l->ttl)};"),
            ("src/standby/lease_s3.c", "g->valid_until = lease_ends(asked, l->ttl);",
             "g->valid_until = lease_ends(asked.ms ? clock_mono() : asked, l->ttl);")],
           ["tests/system/test_lease.py"]),
    Mutant("lease-by-the-clock", "whether another's lease is over is judged by its time of day and ours",
           [("src/standby/lease_s3.c", "        *wait = all - mono_since(clock_mono(), l->seen.since);\n",
             "        json_auto_t *o = json_loadb(s->body.p, s->body.len, 0, NULL);\n"
             "        *wait = all - (clock_wall().ms - js_number(o, \"at\", 0));\n")],
           ["tests/system/test_lease.py"]),
    Mutant("seen-though-renewed", "what was once seen of a lease counts, whatever is there now",
           [("src/standby/lease_record.c", "    if (strcmp(version, s->version) != 0)\n", "    if (!s->version[0])\n")],
           ["tests/system/test_lease.py", "tests/system/test_standby.py"]),
    Mutant("upload-not-fenced", "what is sent to the store is not held back when the lease is gone",
           [("src/offsite/transfer.c", "    if (fence_check(\"upload\", e) < 0)\n        return -1;\n", ""),
            ("src/offsite/transfer.c", "#include \"base/fence.h\"\n", "")],
           ["tests/system/test_lease.py"]),
    Mutant("generation-not-checked", "copies are stored beside those of a later generation, or of another machine's",
           [("src/offsite/owner.c", "    return !d->ours && (d->generation >= f->generation ||\n"
             "                        (f->before && d->generation >= f->before && !d->known));\n",
             "    return !d->ours && d->generation == UINT64_MAX;\n")],
           ["tests/system/test_offsite.py"]),
    Mutant("gone-is-free", "a lease of etcd is taken as soon as its key is gone, whoever counts on it",
           [("src/standby/lease_etcd.c", "(*wait = left_to_holder(l, &last)) > 0)", "(*wait = left_to_holder(l, &last)) == INT64_MAX)")],
           ["tests/system/test_lease.py"]),
    Mutant("renewed-by-a-deposed-leader", "a lease counts as renewed by whatever leader of etcd says so",
           [("src/standby/lease_etcd.c", "    if (got == LEASE_OK && strcmp(term, c->term) != 0) {",
             "    if (got == LEASE_OK && !term[0]) {")],
           ["tests/system/test_lease.py"]),
    Mutant("promotion-of-what-is-here", "a promotion takes what was fetched before, and does not look what is newest",
           [("src/actions/standby.c", "    if (pull_step(p, e) < 0 || ", "    if (pull_here(p, e) < 0 || ")],
           ["tests/system/test_standby.py"]),
    Mutant("conditions-not-proven", "a lease lies in a store that was never seen to honour conditions",
           [("src/standby/lease_s3.c", "    err_hint(e, \"worldkeeper --check tests them and remembers the result\");\n"
             "    return LEASE_REFUSED;", "    err_clear(e);\n    return LEASE_OK;")],
           ["tests/system/test_lease.py"]),
]


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)


def suite(tests, root, binary, *more):
    """Runs the tests and returns ([tests that failed], number of tests that passed, output)."""
    env = {**os.environ, "WORLDKEEPER": binary, "PYTHONDONTWRITEBYTECODE": "1"}
    failed, passed, said = [], 0, ""
    for folder in sorted({os.path.dirname(t) for t in tests}):
        done = run("/usr/bin/python3", "-m", "pytest", "-q", "-n", "4", "-rf", *more,
                   *(t for t in tests if os.path.dirname(t) == folder), cwd=root, env=env)
        said += done.stdout
        failed += re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        passed += sum(int(n) for n in re.findall(r"(\d+) passed", done.stdout))
    if not failed and not passed:
        raise SystemExit("mutants: no test ran:\n" + said)
    return failed, passed, said


def build(mutant, where):
    """Builds a copy of the tree with the mistake, reusing what is compiled already, and returns the path of the
    program."""
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(os.path.join(where, "build"))
    for name in TREE:
        run("cp", "-a", os.path.join(ROOT, name), where)
    run("cp", "-a", os.path.join(ROOT, "build/release"), os.path.join(where, "build"))
    mutant.apply(where)
    done = run("make", "-j2", "-C", where)
    if done.returncode != 0:
        raise SystemExit(f"mutants: {mutant.name} cannot be built:\n{done.stdout[-3000:]}")
    return os.path.join(where, "build/release/worldkeeper")


def check(mutants):
    for mutant in mutants:
        list(mutant.places(ROOT))
        missing = [t for t in mutant.tests if not os.path.exists(os.path.join(ROOT, t.partition("::")[0]))]
        if missing:
            raise SystemExit(f"mutants: {mutant.name}: there is no {', '.join(missing)}")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--check", action="store_true")
    args.add_argument("names", nargs="*", metavar="NAME", help=", ".join(m.name for m in MUTANTS))
    args = args.parse_args()
    unknown = set(args.names) - {m.name for m in MUTANTS}
    if unknown:
        raise SystemExit(f"mutants: no such one: {', '.join(sorted(unknown))}")
    mutants = [m for m in MUTANTS if not args.names or m.name in args.names]
    check(mutants)
    if args.check:
        print(f"{len(mutants)} mutants fit the source")
        return 0
    tests = sorted({t for m in mutants for t in m.tests})
    failed, passed, said = suite(tests, ROOT, os.path.join(ROOT, "build/release/worldkeeper"))
    print(f"{'the tree as it is':24} {passed} passed, {len(failed)} failed", flush=True)
    if failed:
        raise SystemExit(said + "mutants: these fail without any mistake: " + " ".join(failed))
    unseen = []
    for mutant in mutants:
        where = os.path.join(ROOT, "build/mutants", mutant.name)
        failed, passed, _ = suite(mutant.tests, where, build(mutant, where), "--exitfirst")
        print(f"{mutant.name:24} {passed} passed, {len(failed)} failed: {'noticed' if failed else 'NOT NOTICED'}: "
              f"{mutant.mistake}", flush=True)
        for test in failed[:3]:
            print(f"{'':24}   {test}", flush=True)
        unseen += [] if failed else [mutant.name]
        shutil.rmtree(where, ignore_errors=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
