"""Tests of a release: the same commit gives the same bytes wherever it is built, and a changed checkout is refused."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from test_package import REMEMBERS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSION = re.search("^VERSION := (.*)", open(f"{ROOT}/Makefile", encoding="utf-8").read(), re.M)[1]
# Files compiled in each directory. The others are taken from build/release, except in `make nightly`, because they have the same
# bytes in each.
COMPILED = "src/base/*.c src/setup/*.c src/page/*.c"
WHEN = 1700000000


def run(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, check=True, **more)


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory):
    """Returns two clones, in directories of different names, of one commit of the present files."""
    base = tmp_path_factory.mktemp("release")
    first, second = base / "first", base / "another place" / "second"
    shutil.copytree(ROOT, first, ignore=shutil.ignore_patterns("build", ".git", "__pycache__", ".pytest_cache"))
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a.invalid", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@a.invalid", "GIT_AUTHOR_DATE": f"{WHEN} +0000", "GIT_COMMITTER_DATE": f"{WHEN} +0000"}
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        run("git", *words, cwd=first, env={**os.environ, **who})
    # With another umask and other times, too.
    run("sh", "-c", 'umask 077; git clone -q "$0" "$1"', first, second)
    return first, second


def release(checkout, **env):
    run("scripts/release.sh", "--source-only", cwd=checkout, env={**os.environ, **env})
    return checkout / "build/dist"


def test_the_tarball_of_a_commit_is_the_same_bytes(checkouts):
    first, second = (release(c, TZ=zone) for c, zone in zip(checkouts, ("UTC", "Asia/Tokyo")))
    name = f"worldkeeper-{VERSION}.tar.gz"
    whole = (first / name).read_bytes()
    assert whole == (second / name).read_bytes()
    assert (first / "SHA256SUMS").read_text() == f"{hashlib.sha256(whole).hexdigest()}  {name}\n"
    # No name and no time in gzip's header.
    assert whole[3] == 0 and whole[4:8] == bytes(4)
    with tarfile.open(first / name) as tar:
        members = tar.getmembers()
    names = [m.name for m in members if m.isfile()]
    assert names == sorted(names) and all(n.startswith(f"worldkeeper-{VERSION}/") for n in names)
    assert {m.mtime for m in members} == {WHEN} and {m.mode & 0o22 for m in members} == {0}
    tracked = run("git", "ls-files", cwd=checkouts[0]).stdout.splitlines()
    assert {n.split("/", 1)[1] for n in names} == {n.strip('"') for n in tracked} - {n for n in tracked if n.startswith('"')}


def test_a_changed_checkout_is_no_release(checkouts):
    """A release is refused from a changed checkout, without a checkout, and for a version that the changelog lacks."""
    stray = checkouts[0] / "stray"
    stray.write_text("")
    done = subprocess.run(["scripts/release.sh", "--source-only"], cwd=checkouts[0], capture_output=True, text=True)
    stray.unlink()
    assert done.returncode == 1 and "stray" in done.stderr and "a release is made of a commit" in done.stderr
    assert not done.stdout


def build(checkout, tools):
    how = {"DEB_BUILD_OPTIONS": "nocheck"}
    if os.environ.get("WK_WHOLE") != "yes":
        how |= {"CC": str(tools / "cc"), "SOURCES": ROOT, "BUILT": f"{ROOT}/build/release"}
    run("scripts/build-deb.sh", "--here", "--release", cwd=checkout, env={**os.environ, **how})
    return checkout / "build/package"


def test_a_package_is_the_same_bytes_in_another_directory(checkouts, tmp_path):
    """The package and its bill of materials, which says how it was built, have the same bytes in another directory."""
    names = COMPILED.replace(" ", " | ")
    tools = tmp_path
    (tools / "cc").write_text(REMEMBERS.replace('*.o) built=', f'*.o) case $source in {names}) ;; *) built=')
                              .replace("%.c}.o ;;", "%.c}.o ;; esac ;;"))
    (tools / "cc").chmod(0o755)
    # dpkg-buildpackage needs a path without blanks.
    second = tmp_path / "second"
    shutil.copytree(checkouts[1], second)
    one, two = build(checkouts[0], tools), build(second, tools)
    debs = sorted(os.path.basename(f) for f in glob.glob(f"{one}/*.deb"))
    assert len(debs) == 2 and debs[1].startswith(f"worldkeeper_{VERSION}+deb"), debs
    bill = debs[1].replace(".deb", ".cdx.json")
    for name in (*debs, bill):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    bom = json.loads((one / bill).read_text())
    assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5")
    own = bom["metadata"]["component"]
    assert own["hashes"][0]["content"] == hashlib.sha256((one / debs[1]).read_bytes()).hexdigest()
    parts = {c["name"]: c for c in bom["components"]}
    depends = run("dpkg-deb", "-f", one / debs[1], "Depends").stdout
    assert {n for n, c in parts.items() if c["scope"] == "required"} == set(re.findall(r"(?:^|, )([a-z0-9.+-]+)", depends))
    assert parts["libisal2"]["scope"] == "optional" and parts["debhelper"]["scope"] == "excluded"
    for package in ("libcurl4", "zlib1g", "debhelper"):
        assert parts[package]["version"] == run("dpkg-query", "-W", "-f", "${Version}", package).stdout
    refs = [c["bom-ref"] for c in bom["components"]]
    assert len(refs) == len(set(refs)) and set(bom["dependencies"][0]["dependsOn"]) <= set(refs)


# Takes the place of scripts/build-deb.sh in a commit: the files that it makes, each with its own bytes, or a failure.
BUILDS = """#!/bin/bash
while [ $# -gt 0 ]; do case $1 in --suite) suite=$2 ;; --out) out=$2 ;; esac; shift; done
[ "$suite" != "${FAILS:-}" ] || { echo "no compiler in $suite"; exit 3; }
mkdir -p "$out"
for name in worldkeeper_1_amd64 worldkeeper-dbgsym_1_amd64; do echo "$name of $suite" >"$out/${name/_1/_1+$suite}.deb"; done
for end in cdx.json changes buildinfo; do echo "$end of $suite" >"$out/worldkeeper_1+${suite}_amd64.$end"; done
"""


def test_checksums_of_a_whole_release(checkouts, tmp_path):
    """SHA256SUMS has each file of a release, which are the tarball and, for each Debian, the packages and the bill of materials.
    If a package cannot be built there are no checksums, and its log is shown. Only the build of the packages is a stand-in,
    because the test above has the real one."""
    checkout = tmp_path / "checkout"
    run("git", "clone", "-q", checkouts[0], checkout)
    (checkout / "scripts/build-deb.sh").write_text(BUILDS)
    run("git", "-c", "user.name=a", "-c", "user.email=a@a.invalid", "commit", "-qam", "a stand-in", cwd=checkout)
    dist = checkout / "build/dist"
    said = run("scripts/release.sh", cwd=checkout).stdout
    sums = (dist / "SHA256SUMS").read_text()
    names = [line.split("  ", 1)[1] for line in sums.splitlines()]
    assert names == sorted(set(os.listdir(dist)) - {"SHA256SUMS"}) and said.endswith(sums)
    ends = "worldkeeper-dbgsym_1+{}_amd64.deb", "worldkeeper_1+{}_amd64.cdx.json", "worldkeeper_1+{}_amd64.deb"
    assert set(names) == {f"worldkeeper-{VERSION}.tar.gz", *(e.format(suite) for suite in ("bookworm", "trixie") for e in ends)}
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    done = subprocess.run(["scripts/release.sh"], cwd=checkout, capture_output=True, text=True, env={**os.environ, "FAILS": "trixie"})
    assert done.returncode == 3 and "no compiler in trixie" in done.stderr and not (dist / "SHA256SUMS").exists(), done
