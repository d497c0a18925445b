"""The statements and commands of worldkeeper-ledger(7), run in order, and the output that it shows for them."""
import os
import re
import shlex
import subprocess

import pymysql
from wk.keeper import ROOT, USER


def blocks():
    """Returns the literal displays of the page as lists of lines."""
    with open(os.path.join(ROOT, "etc/worldkeeper-ledger.7"), encoding="utf-8") as f:
        page = f.read()
    return [b.strip("\n").split("\n") for b in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.M | re.S)]


def steps():
    """Yields ("config", text, None), ("command", text, output) or ("sql", statement, output)."""
    for lines in blocks():
        if re.match(r"\[|\w+ +=", lines[0]):
            yield "config", "\n".join(lines), None
            continue
        while lines:
            first = lines.pop(0)
            if not first:
                continue
            kind = "command" if first.startswith("$ ") else "sql"
            while kind == "sql" and not first.endswith(";"):
                first += "\n" + lines.pop(0)
            out = []
            while lines and re.match(r"[+|]|ERROR|mini_xp:|  not known:", lines[0]):
                out.append(lines.pop(0))
            yield kind, first, out


def table(cursor):
    """Formats a result as the server's client prints it."""
    names, rows = [d[0] for d in cursor.description], cursor.fetchall()
    cells = [["NULL" if v is None else str(v) for v in row] for row in rows]
    numeric = [all(not isinstance(row[i], str) and not hasattr(row[i], "year") for row in rows) for i in range(len(names))]
    width = [max(map(len, [n, *(c[i] for c in cells)])) for i, n in enumerate(names)]
    rule = "+" + "+".join("-" * (w + 2) for w in width) + "+"

    def line(values, head=False):
        return "|" + "|".join(f" {v.rjust(w) if n and not head else v.ljust(w)} " for v, w, n in zip(values, width, numeric)) + "|"
    return [rule, line(names, True), rule, *map(line, cells), rule]


def test_the_page_s_statements(keeper):
    keeper.server.grant(USER + "@localhost", keeper.world.schema, "DELETE, CREATE VIEW, TRIGGER")
    con = keeper.server.admin(keeper.world.schema)
    config, seen = {}, {"config": 0, "command": 0, "sql": 0, "rows": 0}
    for kind, text, out in steps():
        seen[kind] += 1
        if kind == "config":
            config.update(re.findall(r"^(\w+) *= (.*)$", text, re.M))
            keeper.configure({"ledger mini_xp": config})
        elif kind == "command":
            words = shlex.split(text)
            assert words[1:4] == ["worldkeeper", "--world", "s8"], text
            done = keeper.run(*words[4:])
            assert done.rc == 0 or words[4] == "--check", done
            if out:
                assert [line for line in done.out.split("\n") if line.startswith(("mini_xp:", "  not known:"))] == out, (text, done)
        else:
            try:
                with con.cursor() as cur:
                    cur.execute(text)
                    got = table(cur) if cur.description else []
                con.commit()
            except pymysql.err.IntegrityError as e:
                got = ["ERROR %d (23000): %s" % e.args]
            assert got == out, (text, "\n".join(got), "\n".join(out))
            seen["rows"] += bool(out)
    con.close()
    assert seen["config"] == 2 and seen["command"] >= 6 and seen["sql"] >= 15 and seen["rows"] >= 8, seen


def test_the_page_is_clean():
    page = os.path.join(ROOT, "etc/worldkeeper-ledger.7")
    said = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, check=False)
    assert said.returncode == 0 and not said.stdout, said
