"""The core builds without the optional parts, and calls nothing of a part except the hooks that the table of
src/README.md lists."""
import fcntl
import functools
import glob
import os
import re
import subprocess

import pytest

from test_circles import ROOT, symbols


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def parts():
    """Returns {part: pattern of its files, without src/ and ending} and {part: the other part whose functions it may call
    without a hook}."""
    text = read("src/parts/parts.mk").replace("\\\n", " ")
    files = {part: "|".join(re.escape(f[4:-2]).replace("%", ".*") for f in names.split())
             for part, names in re.findall(r"^FILES_(\w+) *:= *(.*)$", text, re.M)}
    assert list(files) == re.search(r"^OPTIONAL := (.*)$", text, re.M)[1].split()
    return files, dict(re.findall(r"^NEEDS_(\w+) *:= *(\w+)$", text, re.M))


FILES, NEEDS = parts()


def part_of(file):
    return next((part for part, pattern in FILES.items() if re.fullmatch(pattern, file)), "core")


def foreign(file, part):
    """Returns whether this file may call only the hooks of that part."""
    return part_of(file) != part and NEEDS.get(part_of(file)) != part


@functools.cache
def by_name():
    """Returns {name: the file that defines it} and {file: names that it uses from other files}, from the built
    objects."""
    defined, wanted = {}, {}
    for file, kind, name in symbols():
        if kind == "U":
            wanted.setdefault(file, set()).add(name)
        elif kind in "TDBR":
            defined[name] = file
    return defined, wanted


def hooks():
    """Returns {part: the code words of its row in the table of src/README.md}."""
    section = read("src/README.md").split("\n## Core and optional parts\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \|(.*)\|$", section, re.M)[1:]
    return {part: set(re.findall(r"`([^`]+)`", row)) for part, row in rows}


def test_the_table_names_what_is_called_of_a_part():
    defined, wanted = by_name()
    table = hooks()
    quoted = read("src/config/keys.c") + read("src/main.c") + read("src/actions/action.c")
    assert list(table) == list(FILES) and len(defined) > 1000
    for part, words in table.items():
        named = {word.removesuffix("()") for word in words}
        called = {name for file, names in wanted.items() if foreign(file, part)
                  for name in names if part_of(defined.get(name, "")) == part}
        assert called == {name for name in named if name in defined}, part
        names = [re.split(r"[ \]]", w.lstrip("[-"))[0] for w in words if w[0] in "[-"]
        assert names and all(f'"{name}"' in quoted for name in names), (part, names)


def test_only_headers_of_hooks_are_included():
    defined, _ = by_name()
    table = hooks()
    for path in glob.glob(f"{ROOT}/src/*/*.[ch]") + [f"{ROOT}/src/main.c"]:
        file = os.path.relpath(path, f"{ROOT}/src")
        for header in re.findall(r'^#include "(.*)\.h"$', read(path), re.M):
            part = part_of(header)
            if part == "core" or file.startswith("parts/") or not foreign(file[:-2], part):
                continue
            allowed = {defined.get(word.removesuffix("()"), word.removesuffix(".h")) for word in table[part]}
            assert header in allowed, f"{file} includes {header}.h of {part}, which has no hook in it"


def make(selected):
    with open(f"{ROOT}/build/parts.lock", "w", encoding="utf-8") as lock:  # tests may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-j2", f"PARTS={selected}", "all"], cwd=ROOT, check=True)
    left = [part for part in FILES if part not in selected.split()]
    return f"{ROOT}/build/release-without-{'-'.join(left)}"


@pytest.fixture(scope="module")
def core():
    return make("")


def test_the_core_is_built_without_any(core):
    """src/parts/no_PART.c defines exactly the hooks of the part that it replaces."""
    table = hooks()
    defined, _ = by_name()
    for part in FILES:
        lines = subprocess.run(["nm", f"{core}/src/parts/no_{part}.o"], capture_output=True, text=True, check=True).stdout
        instead = {line.split()[-1] for line in lines.splitlines() if line.split()[-2] in "TDBR"}
        assert instead == {w.removesuffix("()") for w in table[part] if w.removesuffix("()") in defined}, part


def test_a_part_alone_and_two(core):
    for selected in ("ledger offsite", "progress", "offsite standby", "page"):
        make(selected)
    for wrong in ("standby", "shop"):
        assert subprocess.run(["make", f"PARTS={wrong}"], cwd=ROOT, capture_output=True, check=False).returncode == 2


@pytest.mark.parametrize("part, lines", [
    ("ledger", "[ledger xp]"), ("progress", "[progress]"), ("offsite", "[offsite]"), ("standby", "[standby]"),
    ("page", "[status]\ndir = /nowhere\npage = yes")])
def test_a_config_that_uses_a_part_is_refused(core, tmp_path, part, lines):
    config = tmp_path / "w.ini"
    config.write_text(f"[world]\nname = w\nschema = s\n[mysql]\nsocket = /nowhere\nuser = u\n[dump]\ndir = {tmp_path}\n{lines}\n")
    config.chmod(0o600)
    p = subprocess.run([f"{core}/worldkeeper", "--config", config, "--list"], capture_output=True, text=True, check=False)
    assert p.returncode == 2 and f"was built without its optional part {part}" in p.stderr, p.stderr
    full = subprocess.run([f"{ROOT}/build/release/worldkeeper", "--config", config, "--list"], capture_output=True, text=True,
                          check=False)
    assert "was built without" not in full.stderr


@pytest.mark.parametrize("part, option", [
    ("ledger", "--rollup"), ("progress", "--locks"), ("offsite", "--list --from offsite"), ("progress", "--sql=progress-central")])
def test_an_action_of_a_part_is_refused(core, tmp_path, part, option):
    config = tmp_path / "w.ini"
    (tmp_path / "password").write_text("x")
    (tmp_path / "password").chmod(0o600)
    config.write_text(f"[world]\nname = w\nschema = s\n[mysql]\nsocket = /nowhere\nuser = u\npassword_file = {tmp_path}/password\n"
                      f"[dump]\ndir = {tmp_path}\n")
    config.chmod(0o600)
    p = subprocess.run([f"{core}/worldkeeper", "--config", config, *option.split()], capture_output=True, text=True, check=False)
    assert p.returncode != 0 and f"was built without its optional part {part}" in p.stderr, p.stderr
