"""Tests of tests/report.py: what it counts in the output of each campaign, and what documents may quote of it."""
import importlib.util
import json
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
spec = importlib.util.spec_from_file_location("report", os.path.join(ROOT, "tests/report.py"))
report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(report)
CAMPAIGNS = {c.name: c for c in report.campaigns()}
# The documents that quote campaigns.
QUOTING = ("README.md", "SECURITY.md", "src/README.md", "tests/README.md", "tests/faults/README.md")

SAID = {  # the commands' output
    "coverage": ("src/base/a.c 10 90.0% 4 75.0%\nall                                    21345   96.1%     18222   88.9%\n",
                 {"lines": 21345, "lines covered, percent": 96.1, "branches": 18222, "branches covered, percent": 88.9}),
    "power": ("fault    points  violations\nall          12           1\n6 passed in 3.1s\n", {"points": 12, "violations": 1, "tests": 6}),
    "ledger": ("seed 1\nMEMORY: 5 rows, {'runs': 2}\nMEMORY: 900 rows, 30 reads, {'runs': 40, 'rolled up': 7}\n"
               "InnoDB: 100 rows, 3 reads, {'runs': 2, 'rolled up': 7}\n", {"rollups": 42, "rows": 1000, "reads": 33}),
    "progress": ("round 1: 70 saves, 12 takeovers\nround 2: 80 saves, 13 takeovers\n", {"takeovers": 25, "saves": 150}),
    "mutants": ("a 3 passed, 1 failed: noticed: x\nb 4 passed, 0 failed: NOT NOTICED: y\n", {"noticed": 1, "not noticed": 1}),
    "fuzz": ("target        CPU min    executions  findings\nserver           30.1     1,234,567  -\nlist              2.0           10  -\nage               0.0            0  -\n",
             {"CPU minutes": 32.1, "executions": 1234577, "targets": 2}),
    "soak": ("\n31 faults, 12,345 acknowledged changes, 3 audits of both worlds: 0 wrong\n", {"faults": 31, "changes": 12345}),
    "models": ("standby      all rules        1234   0.5 s  as it should be\nstandby      x   66  12.5 s  ok\n12 passed, 0 failed\n",
               {"checks": 12, "states": 1300}),
    "kills-mysql": ("seed 7\n50 kills, 1234 changes acknowledged\n", {"kills": 50, "changes": 1234}),
    "changes-mysql": ("20 losses, 19 UP, 7 under other settings, 9 with sessions that held locks; 1.2 s; tables: {}\n",
                      {"losses": 20, "up": 19, "with other settings": 7, "with sessions that held locks": 9}),
    "takeover-mysql": ("s3 round 1: 2 moves, {'kill': 1}, looked 9 times\ns3 round 2: 3 moves, {'three changes': 1}\n"
                       "etcd round 1: 11 moves, {'three changes': 1}\n", {"rounds": 3, "with three moves": 2}),
}


@pytest.mark.parametrize("name", SAID)
def test_counts(name):
    text, expected = SAID[name]
    assert report.counted(CAMPAIGNS[name], text) == expected


def test_each_campaign_counts_what_its_goal_names():
    for c in CAMPAIGNS.values():
        assert c.wanted[0] in c.counts, c.name


def test_the_report_is_what_its_data_say():
    """The report equals what its data give, so that no number was edited."""
    if not os.path.exists(report.DATA):
        pytest.fail("tests/report.json is missing: tests/report.py --write")
    data, text = json.loads(report.DATA.read_text()), report.REPORT.read_text()
    for name, rows in data["campaigns"].items():
        for at, row in rows.items():
            assert any(line.startswith(f"| {name}:") and f"| {at} |" in line and f"| {report.words(row['counts'])} |" in line
                       for line in text.splitlines()), (name, at)


def test_sums_begin_after_a_failure():
    def row(kills, *failures):
        return {"counts": {"kills": kills, "changes": 10 * kills}, "failures": list(failures)}
    campaign = CAMPAIGNS["kills-mysql"]
    rows = [("a", row(50)), ("b", row(60, "exit status 2")), ("c", row(70)), ("d", row(80))]
    assert report.summed(campaign, rows) == (["c", "d"], {"kills": 150, "changes": 1500})
    assert report.summed(campaign, rows[:2]) == ([], {})
    assert report.summed(campaign, rows[:1]) == (["a"], {"kills": 50, "changes": 500})


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The report's files are in an empty directory, and the campaigns run there."""
    for name, value in (("STATE", tmp_path), ("TOP", tmp_path), ("DATA", tmp_path / "none"), ("REPORT", tmp_path / "report"),
                        ("machine", lambda: None), ("report", lambda results: None)):
        monkeypatch.setattr(report, name, value)
    return tmp_path


def until(condition):
    return f"timeout 60 sh -c 'until {condition}; do sleep .01; done'"


def seeds(file):
    return sorted(int(line.split()[-1]) for line in file.read_text().splitlines())


def test_campaigns_at_the_same_time(elsewhere):
    """With two jobs, slices of two campaigns overlap, and each campaign goes on until it is done or has failed."""
    def campaign(name, other, rest="true"):
        # Its first slice ends only when the other one has begun.
        return report.Campaign(name, name, f"touch {name}.began && {until(f'[ -e {other}.began ]')} && "
                               f"echo seed {{seed}} >>{name}.seeds && echo 2 kills && {rest}", {"kills": r"(\d+) kills"}, ("kills", 6))
    one, two, failing = campaign("a", "b"), campaign("b", "a"), campaign("c", "a", "false")
    results = report.Results()
    report.run_campaigns([one, two, failing], "commit", results, 2, None)
    assert [results.row(c, "commit")["counts"]["kills"] >= 6 for c in (one, two)] == [True, True]
    assert [len(results.row(c, "commit")["failures"]) > 0 for c in (one, two, failing)] == [False, False, True]
    assert seeds(elsewhere / "a.seeds")[:3] == [1000, 2000, 3000]


def test_slices_of_a_campaign_at_the_same_time(elsewhere):
    """If no other campaign is left, slices of one overlap, with different seeds; one that runs as a whole never does."""
    many = report.Campaign("many", "many", f"touch many.{{seed}} && {until('[ $(ls many.* | wc -l) -gt 1 ]')} && echo 1 kills",
                           {"kills": r"(\d+) kills"}, ("kills", 2))
    whole = report.Campaign("whole", "whole", "mkdir whole && sleep .1 && echo 1 kills && rmdir whole", {"kills": r"(\d+) kills"},
                            ("kills", 1), once=True)
    results = report.Results()
    report.run_campaigns([many, whole], "commit", results, 3, None)
    assert results.row(many, "commit")["failures"] == results.row(whole, "commit")["failures"] == []
    assert results.row(whole, "commit")["slices"] == 1
    assert results.row(many, "commit")["counts"]["kills"] == results.row(many, "commit")["slices"] >= 2


def test_the_report_itself_does_not_change_the_commit(tmp_path, monkeypatch):
    """A campaign counts on the commit, also after another one has written the report; with any other change it does not."""
    monkeypatch.setattr(report, "TOP", tmp_path)
    for name in ("src/a.c", "tests/REPORT.md", "tests/report.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    for args in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@example.net", "commit", "-qm", "1"]):
        subprocess.run(["git", *args], cwd=tmp_path, check=True)
    at = report.commit()
    assert len(at) == 10
    (tmp_path / "tests/REPORT.md").write_text("2")
    (tmp_path / "tests/report.json").write_text("2")
    assert report.commit() == at
    (tmp_path / "src/a.c").write_text("2")
    assert report.commit() == at + "-changed"


def numbers(text):
    return {n.replace(",", "") for n in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.])", text)}


@pytest.mark.parametrize("name", QUOTING)
def test_a_document_quotes_only_numbers_of_the_report(name):
    """Each number in a paragraph that names REPORT.md is in the report."""
    known = numbers(report.REPORT.read_text())
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        for paragraph in f.read().split("\n\n"):
            if "REPORT.md" in paragraph and "report.py" not in paragraph:
                assert numbers(paragraph) <= known, (numbers(paragraph) - known, paragraph)
