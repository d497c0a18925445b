"""Tests of `--share` of the system tests: what one kind of server leaves out, the other one runs."""
import json
import os
import subprocess

import pytest

KINDS = ("mariadb", "mysql")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# A plugin that writes all tests that this version can run, whether --share keeps them, and their marks, in one run.
TELLS = """
import json, os
from wk.server import version
def pytest_collection_modifyitems(config, items):
    kind = os.environ["WK_KIND"]
    fits = lambda since: not since or kind == "mysql" or version() >= since
    whole = [i for i in items if all(kind in m.args and fits(m.kwargs.get("since")) for m in i.iter_markers("only"))]
    yield
    left = {i.nodeid for i in items}
    with open(os.environ["TOLD"], "w") as f:
        json.dump([(i.nodeid, i.nodeid in left, [m.name for m in i.iter_markers()]) for i in whole], f)
import pytest
pytest_collection_modifyitems = pytest.hookimpl(hookwrapper=True, tryfirst=True)(pytest_collection_modifyitems)
"""


@pytest.fixture
def collected(tmp_path):
    """Returns {kind: [(test, whether its share has it, its marks)]}; the kinds run at the same time."""
    (tmp_path / "tells.py").write_text(TELLS)
    runs = {kind: subprocess.Popen(
        ["/usr/bin/python3", "-m", "pytest", "--collect-only", "-q", "-p", "tells", "--share"],
        stdout=open(tmp_path / (kind + ".out"), "w"), stderr=subprocess.STDOUT,
        cwd=os.path.join(ROOT, "tests/system"), env={
            **os.environ, "WK_KIND": kind, "PYTHONPATH": str(tmp_path), "TOLD": str(tmp_path / kind)}) for kind in KINDS}
    for kind, run in runs.items():
        assert run.wait() == 0, (tmp_path / (kind + ".out")).read_text()[-3000:]
    return {kind: json.loads((tmp_path / kind).read_text()) for kind in KINDS}


def functions(tests):
    return {test.partition("[")[0] for test in tests}


def test_each_case_runs_on_one_kind_and_each_test_where_its_file_says(collected):
    whole = {kind: {name for name, _, _ in tests} for kind, tests in collected.items()}
    share = {kind: {name for name, there, _ in tests if there} for kind, tests in collected.items()}
    all_there, tried = whole["mariadb"] | whole["mysql"], share["mariadb"] | share["mysql"]
    swept = functions(name for tests in collected.values() for name, _, marks in tests if "sweep" in marks)
    assert {name for name in all_there - tried if name.partition("[")[0] not in swept} == set()
    assert swept and swept <= functions(tried)
    assert len(all_there - tried) < 0.05 * len(all_there)

    def marked(kind, mark):
        return {name for name, _, marks in collected[kind] if mark in marks and "each_server" not in marks}

    def left_out(kind):
        return functions(whole[kind]) - functions(share[kind])
    anywhere, either = functions(marked("mysql", "any_server")), functions(marked("mysql", "either_server"))
    thinned = functions(marked("mysql", "third_on_mysql"))
    assert left_out("mariadb") <= functions(marked("mariadb", "either_server"))
    assert anywhere <= left_out("mysql") <= anywhere | either | thinned
    some = {test.partition("::")[0] for test in either | thinned}
    for kind in KINDS:  # each kind runs some test of each file that both can run
        assert some <= {test.partition("::")[0] for test in share[kind]}, kind
    assert len(share["mysql"]) < 0.25 * len(whole["mysql"]) and len(share["mariadb"]) < 0.95 * len(whole["mariadb"])
