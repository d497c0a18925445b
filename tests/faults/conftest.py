"""The fixtures of the system tests, separation of the long tests, and the table at the end of a run."""
import importlib.util
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
SYSTEM = os.path.join(os.path.dirname(HERE), "system")
sys.path.insert(0, SYSTEM)
sys.path.insert(0, HERE)
spec = importlib.util.spec_from_file_location("system_conftest", os.path.join(SYSTEM, "conftest.py"))
sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[spec.name])
from disks import Disk  # noqa: E402
from system_conftest import *  # noqa: E402,F401,F403


class Tally:
    """One test's rows of the table: the number of points of each fault, and the violations."""

    def __init__(self, record):
        self.record, self.lines, self.missed = record, {}, 0

    def points(self, fault, points, violations, told):
        """Records several points of one fault, how many of them violated a promise, and details of these."""
        line = self.lines.setdefault(fault, [0, 0, []])
        line[0] += points
        line[1] += violations
        line[2] += told if violations else []

    def point(self, fault, violations=(), made=True):
        """Records one fault, the violations after it, and whether it occurred at all."""
        self.missed += not made
        self.points(fault, bool(made), len(violations), list(violations))

    def close(self):
        for fault, (points, violations, _) in self.lines.items():
            self.record("fault", (fault, points, violations))

    def assert_clean(self):
        made = sum(points for points, _, _ in self.lines.values())
        assert made > self.missed, f"{made} faults were made, {self.missed} were not"
        told = [line for _, _, told in self.lines.values() for line in told]
        assert not told, f"{sum(v for _, v, _ in self.lines.values())} violations:\n" + "\n".join(told[:40])


@pytest.fixture
def tally(record_property):
    made = Tally(record_property)
    yield made
    made.close()


@pytest.fixture
def make_disk(tmp):
    """Returns make_disk(at), which mounts a disk there, with a directory for what a power cut leaves of it."""
    made = []

    def make(at, **kind):
        made.append(Disk(os.path.join(tmp, f"disk{len(made)}"), at, **kind))
        made[-1].left = os.path.join(tmp, f"left{len(made)}")
        return made[-1]
    yield make
    for disk in made:
        disk.close()


@pytest.fixture
def restorable(keeper):
    """Returns a keeper with a dump, with its name in .first and the world's rows in .restored."""
    keeper.configure({"retention": {"keep_last": 100000}})
    keeper.tables = [row[0] for row in keeper.world.sql("SHOW TABLES")]
    keeper.memory = [row[0] for row in keeper.world.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema=DATABASE() AND engine='MEMORY'")]
    keeper.first = keeper.dump()["name"]
    keeper.restored = keeper.world.checksums()
    return keeper


def pytest_terminal_summary(terminalreporter):
    """Prints one line per fault: name, number of points, violations."""
    sums = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "teardown":
                continue
            for name, value in report.user_properties:
                if name == "fault":
                    seen = sums.setdefault(value[0], [0, 0])
                    seen[0] += value[1]
                    seen[1] += value[2]
    if not sums:
        return
    width = max(len(fault) for fault in sums)
    terminalreporter.write_line(f"\n{'fault':{width}} {'points':>8} {'violations':>11}")
    for fault, (points, violations) in sorted(sums.items()):
        terminalreporter.write_line(f"{fault:{width}} {points:8} {violations:11}")
    terminalreporter.write_line(f"{'all':{width}} {sum(p for p, _ in sums.values()):8} "
                                f"{sum(v for _, v in sums.values()):11}")
