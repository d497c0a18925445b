#!/usr/bin/python3
"""Wrong versions of worldkeeper, one mistake each: does the suite notice? A test that cannot fail shows nothing.

Each is built from a copy of the tree, and the tests that are named with it are run on it: at least one must
fail. The same tests pass on the tree as it is, which is tried first.

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
    """`edits` are (file, what stands there once, what stands there instead)."""

    def __init__(self, name, mistake, edits, tests):
        self.name, self.mistake, self.edits, self.tests = name, mistake, edits, tests

    def places(self, root):
        """(path, text with the mistake) of each edit."""
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
            ("src/core/file.c", "    if (durable && fsync(fd) < 0) {", "    if (durable && fd < 0) {"),
            ("src/dump/readback.c", "    int how = SYNC_FILE_RANGE_WAIT_BEFORE",
             "    if (to >= from)\n        return 0;\n    int how = SYNC_FILE_RANGE_WAIT_BEFORE")],
           ["tests/faults/test_power.py"]),
    Mutant("directory-not-synced", "a directory is not synced after a rename in it",
           [("src/core/file.c", "    return fsync(dirfd) < 0 ? ", "    return dirfd < 0 ? ")],
           ["tests/faults/test_power.py"]),
    Mutant("no-post-check", "a dump is not checked against the server and the nonce once it is read",
           [("src/dump/writer.c", "int checked = snapshot_check(w->snap, e);", "int checked = 0;")],
           ["tests/system/test_crash_server.py", "tests/system/test_dump_files.py"]),
    Mutant("no-fence", "a restore does not look whether another took the world over meanwhile",
           [("src/restore/restore.c", "    if (lease != r->lease)\n", "    if (lease < r->lease)\n")],
           ["tests/system/test_restore_hand.py"]),
    Mutant("choice-by-mtime", "dumps are ordered by the time of their files",
           [("src/store/catalog.c", "    char *file = xasprintf(\"%s.sql.gz\", ent->m.name);\n"
             "    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0) {",
             "    char *file = xasprintf(\"%s.sql.gz\", ent->m.name);\n"
             "    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0)\n"
             "        ent->m.at.ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;\n"
             "    if (fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) < 0) {"),
            ("src/store/catalog.c", "    return manifest_compare(&y->m, &x->m);",
             "    return (y->m.at.ms > x->m.at.ms) - (y->m.at.ms < x->m.at.ms);")],
           ["tests/system/test_restore_hand.py"]),
    Mutant("no-shadow-tables", "rows are put into the game's own tables, one table after the other",
           [("src/restore/swap.c", "        if (t->live)\n            add_rename(&b, t->name, old);\n"
             "        add_rename(&b, t->shadow, t->name);\n",
             "        if (t->live) {\n"
             "            struct buf m = {0};\n"
             "            buf_adds(&m, \"DELETE FROM \");\n"
             "            sql_ident(&m, t->name);\n"
             "            if (db_exec_len(s->db, m.p, m.len, e) < 0)\n"
             "                return -1;\n"
             "            buf_clear(&m);\n"
             "            buf_adds(&m, \"INSERT INTO \");\n"
             "            sql_ident(&m, t->name);\n"
             "            buf_adds(&m, \" SELECT * FROM \");\n"
             "            sql_ident(&m, t->shadow);\n"
             "            if (db_exec_len(s->db, m.p, m.len, e) < 0)\n"
             "                return -1;\n"
             "            buf_clear(&m);\n"
             "            buf_adds(&m, \"DROP TABLE \");\n"
             "            sql_ident(&m, t->shadow);\n"
             "            if (db_exec_len(s->db, m.p, m.len, e) < 0)\n"
             "                return -1;\n"
             "            buf_free(&m);\n"
             "        } else\n"
             "            add_rename(&b, t->shadow, t->name);\n")],
           ["tests/system/test_restore_auto.py", "tests/system/test_crash_keeper.py"]),
    Mutant("end-mark-applied", "the server's own word that a restart emptied a table is taken for a change",
           [("src/journal/statement.c", "        out->kind = by_server ? STATEMENT_EMPTIED : STATEMENT_TRUNCATE;",
             "        out->kind = STATEMENT_TRUNCATE;"),
            ("src/journal/replay.c", "    if (r->phase == PHASE_WORLD)\n        set_phase(r, PHASE_LOST);\n", "")],
           ["tests/system/test_journal.py"]),
]


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)


def suite(tests, root, binary):
    """([tests that failed], how many passed)."""
    env = {**os.environ, "WORLDKEEPER": binary, "PYTHONDONTWRITEBYTECODE": "1"}
    failed, passed, said = [], 0, ""
    for folder in sorted({os.path.dirname(t) for t in tests}):
        done = run("/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "4", "-rf",
                   *(t for t in tests if os.path.dirname(t) == folder), cwd=root, env=env)
        said += done.stdout
        failed += re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
        passed += sum(int(n) for n in re.findall(r"(\d+) passed", done.stdout))
    if not failed and not passed:
        raise SystemExit("mutants: no test ran:\n" + said)
    return failed, passed


def build(mutant, where):
    """A tree with the mistake, built; what was compiled already is taken along."""
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
    failed, passed = suite(tests, ROOT, os.path.join(ROOT, "build/release/worldkeeper"))
    print(f"{'the tree as it is':24} {passed} passed, {len(failed)} failed", flush=True)
    if failed:
        raise SystemExit("mutants: these fail without any mistake: " + " ".join(failed))
    unseen = []
    for mutant in mutants:
        where = os.path.join(ROOT, "build/mutants", mutant.name)
        failed, passed = suite(mutant.tests, where, build(mutant, where))
        print(f"{mutant.name:24} {passed} passed, {len(failed)} failed: {'noticed' if failed else 'NOT NOTICED'}: "
              f"{mutant.mistake}", flush=True)
        for test in failed[:3]:
            print(f"{'':24}   {test}", flush=True)
        unseen += [] if failed else [mutant.name]
        shutil.rmtree(where, ignore_errors=True)
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
