"""The catalogue names only existing tests, and has every fault."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.M)


def catalogue():
    with open(os.path.join(HERE, "README.md")) as f:
        return ROW.findall(f.read())


def exists(name):
    path, test = name.split("::")
    path = os.path.join(TESTS, path if "/" in path else os.path.join("system", path))
    if not os.path.exists(path):
        return False
    with open(path) as f:
        return re.search(rf"^(def|static void) {test}\(", f.read(), re.M) is not None


def test_every_fault_has_a_row():
    assert [int(number) for number, *_ in catalogue()] == list(range(1, 96))


def test_every_row_names_tests_that_exist_or_a_reason():
    for number, fault, follows, shown in catalogue():
        names = re.findall(r"`([^`]+)`", shown)
        assert names or (shown == "–" and follows.startswith("none")), (number, fault)
        missing = [name for name in names if not exists(name)]
        assert not missing, (number, missing)
