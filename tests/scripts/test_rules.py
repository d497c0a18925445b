"""Tests of alert rules and dashboard: each rule fires when it should and no step earlier, and they name only existing metrics."""
import json
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{ROOT}/tests")
import machine  # noqa: E402

promtool_only = pytest.mark.skipif(bool(machine.why_not("prometheus")), reason=machine.why_not("prometheus") or "")
RULES = f"{ROOT}/etc/prometheus/worldkeeper.rules.yml"
DASHBOARD = f"{ROOT}/etc/grafana/worldkeeper.json"
STEP = 20  # seconds between two evaluations
END = 1200  # duration of each case in seconds

# A healthy world. From second 100 on a case differs.
WELL = {"up": 1, "paused": 0, "valid_until_timestamp_seconds": 10**9, 'state{state="UP"}': 1, 'state{state="RESTORING"}': 0,
        'state{state="STANDBY"}': 0, 'state{state="STOPPED"}': 0,
        "state_since_timestamp_seconds": 0, "last_dump_timestamp_seconds": 10**9, "dump_interval_seconds": 900, "damaged_dumps": 0,
        "journal_lag_seconds": 1, "journal_gap": 0, 'condition{condition="disk"}': 0, 'condition{condition="stale"}': 0,
        'condition{condition="drill"}': 0, 'condition{condition="verify"}': 0,
        "last_drill_success": 1, "last_verify_success": 1, 'alert_channel_up{channel="smtp"}': 1}
GONE = "stale"
NEVER = None
LONG = {"up": 0, 'state{state="RESTORING"}': 1, "state_since_timestamp_seconds": -700}
# (alert, changed metrics, when it fires); it does not fire one step before.
CASES = [
    ("SupervisorDead", {"valid_until_timestamp_seconds": 200}, 280),
    ("MetricsMissing", {"up": GONE}, 400),
    ("WorldDown", {"up": 0}, 160),
    ("WorldDown", {"up": 0, "paused": 1}, NEVER),
    ("WorldDown", {"up": 0, "valid_until_timestamp_seconds": 100}, 160),
    ("WorldDown", {"up": 0, "valid_until_timestamp_seconds": 80}, NEVER),
    ("WorldDown", {"up": 0, 'state{state="STANDBY"}': 1}, NEVER),
    ("WorldDown", {"up": 0, 'state{state="STOPPED"}': 1, "valid_until_timestamp_seconds": 100}, NEVER),
    ("NoPrimary", {"up": 0, 'state{state="STANDBY"}': 1}, 160),
    ("NoPrimary", {"up": 0}, NEVER),
    ("RestoreTakesLong", LONG, 220),
    ("RestoreTakesLong", {"up": 0, "state_since_timestamp_seconds": -700}, NEVER),
    ("RestoreTakesLong", {**LONG, "valid_until_timestamp_seconds": 160}, 220),
    ("RestoreTakesLong", {**LONG, "valid_until_timestamp_seconds": 140}, NEVER),
    ("DumpTooOld", {"last_dump_timestamp_seconds": -3000}, 620),
    ("DumpTooOld", {"last_dump_timestamp_seconds": -3000, "up": 0}, NEVER),
    ("DumpTooOld", {"last_dump_timestamp_seconds": -3000, "dump_interval_seconds": 86400}, NEVER),
    ("NoDump", {"last_dump_timestamp_seconds": GONE}, 1000),
    ("NoDump", {"last_dump_timestamp_seconds": GONE, "up": 0}, NEVER),
    ("DumpsDamaged", {"damaged_dumps": 1}, 100),
    ("JournalLag", {"journal_lag_seconds": 61}, 400),
    ("JournalLag", {"journal_lag_seconds": 60}, NEVER),
    ("JournalGap", {"journal_gap": 1}, 1000),
    ("DiskLow", {'condition{condition="disk"}': 1}, 400),
    ("DrillFailed", {"last_drill_success": 0}, 100),
    ("DrillFailed", {"last_drill_success": GONE}, NEVER),
    ("VerifyFailed", {"last_verify_success": 0}, 100),
    ("AlertChannelDead", {'alert_channel_up{channel="smtp"}': 0}, 1000),
    ("Condition", {'condition{condition="stale"}': 1}, 1000),
    ("Condition", {'condition{condition="disk"}': 1}, NEVER),
    ("Condition", {'condition{condition="drill"}': 1}, 1000),  # no drill begins
    ("Condition", {'condition{condition="drill"}': 1, "last_drill_success": 0}, NEVER),  # has its own alert
    ("Condition", {'condition{condition="verify"}': 1, "last_drill_success": 0}, 1000),
    ("Condition", {'condition{condition="verify"}': 1, "last_verify_success": 0}, NEVER),
    ("Condition", {'condition{condition="stale"}': 1, "last_drill_success": 0}, 1000),
]


def sample(name, values, instance="m"):
    name, _, labels = name.partition("{")
    labels = f'instance="{instance}:9100",job="node",world="s8"{"," + labels if labels else "}"}'
    return {"series": f"worldkeeper_{name}{{{labels}", "values": values}


def series(name, well, changed):
    return sample(name, f"{well}+0x{100 // STEP - 1} " + (GONE if changed == GONE else f"{changed}+0x{END // STEP}"))


def ask(expr, at, firing):
    return {"expr": expr, "eval_time": f"{at}s", "exp_samples": [{"labels": "{}", "value": 1}] if firing else []}


def promtool(*args):
    return subprocess.run(["promtool", *args], capture_output=True, text=True)


def firing(alert):
    return f'ALERTS{{alertname="Worldkeeper{alert}",alertstate="firing"}}'


def run_tests(rules, tmp_path, tests):
    """Writes one file of promtool's unit tests, in JSON, which is valid YAML, and runs it."""
    path = tmp_path / "cases.yml"
    path.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": f"{STEP}s", "tests": tests}))
    return promtool("test", "rules", str(path))


def run_cases(rules, tmp_path, only=""):
    tests = []
    for alert, different, first in CASES:
        if only and only != alert:
            continue
        asked = [ask(f"count(max_over_time({firing(alert)}[{END}s]))", END, False)] if first is NEVER else [
            ask(f"count({firing(alert)})", first - STEP, False), ask(f"count({firing(alert)})", first, True)]
        tests.append({"interval": f"{STEP}s", "name": f"{alert} {different}", "promql_expr_test": asked,
                      "input_series": [series(name, well, different.get(name, well)) for name, well in WELL.items()]})
    if not only:
        tests.append({"interval": f"{STEP}s", "name": "well", "promql_expr_test": [ask("count(ALERTS)", at, False) for at in (0, 80, END)],
                      "input_series": [series(name, well, well) for name, well in WELL.items()]})
    return run_tests(rules, tmp_path, tests)


@promtool_only
def test_rules_are_valid():
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool_only
def test_each_fires_when_it_should(tmp_path):
    with open(RULES, encoding="utf-8") as f:
        alerts = re.findall(r"- alert: Worldkeeper(\w+)", f.read())
    assert sorted(alerts) == sorted({c[0] for c in CASES if c[2] is not NEVER})
    done = run_cases(RULES, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool_only
@pytest.mark.parametrize("interval", [15, 60, 120])
@pytest.mark.parametrize("ahead", [2, 15])
def test_how_often_metrics_are_scraped_does_not_matter(tmp_path, interval, ahead):
    """A status is valid for some seconds, whereas a sample may be used minutes after its scrape. Nevertheless the alerts of a
    living supervisor are raised, and none says that it is dead."""
    changed = {"up": 0, 'state{state="RESTORING"}': 1, "state_since_timestamp_seconds": -1000}
    values = {name: f"{value}+0x{END // interval}" for name, value in {**WELL, **changed}.items()}
    values["valid_until_timestamp_seconds"] = f"{ahead}+{interval}x{END // interval}"
    shown = [sample(name, value) for name, value in values.items()]
    asked = [ask(f"count(count_over_time({firing(alert)}[{END - 200}s]) >= {(END - 200) // STEP})", END, True)
             for alert in ("WorldDown", "RestoreTakesLong")]
    asked.append(ask(f"count(max_over_time({firing('SupervisorDead')}[{END}s]))", END, False))
    done = run_tests(RULES, tmp_path, [{"interval": f"{interval}s", "input_series": shown, "promql_expr_test": asked}])
    assert done.returncode == 0, done.stdout + done.stderr


def in_state(state):
    return {**WELL, "up": int(state == "UP"), 'state{state="UP"}': 0, f'state{{state="{state}"}}': 1}


@promtool_only
@pytest.mark.parametrize("primary, nobody", [("UP", False), ("RESTORING", False), ("STANDBY", True)])
def test_of_two_machines_one_keeps_the_world(tmp_path, primary, nobody):
    """The standby's world is not down. If both machines are standbys, nobody has the world."""
    shown = [sample(name, f"{value}+0x{END // STEP}", machine) for machine, state in (("a", primary), ("b", "STANDBY"))
             for name, value in in_state(state).items()]
    asked = [ask(f"count({firing('WorldDown')})", END, primary == "RESTORING"), ask(f"count({firing('NoPrimary')})", END, nobody)]
    done = run_tests(RULES, tmp_path, [{"interval": f"{STEP}s", "input_series": shown, "promql_expr_test": asked}])
    assert done.returncode == 0, done.stdout + done.stderr


# ---- names ----

def rows():
    """Returns name, type and help of each metric, from the program's table."""
    with open(f"{ROOT}/src/supervisor/metrics.c", encoding="utf-8") as f:
        table = re.search(r"\} table\[\] = \{(.*?)\n\};", f.read(), re.S)[1]
    found = re.findall(r'\{"(\w+)", (GAUGE|COUNTER|HISTOGRAM),\s*"((?:[^"]|"\s+")*)"', table)
    assert len(found) > 50 and len(found) == len(re.findall(r"\{\"", table))
    return [(f"worldkeeper_{name}", kind.lower(), re.sub(r'"\s+"', "", text)) for name, kind, text in found]


def metrics():
    """Returns the names of the samples."""
    return {name + suffix for name, kind, _ in rows() for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))}


def old_names():
    with open(f"{ROOT}/src/supervisor/metrics.c", encoding="utf-8") as f:
        return {f"worldkeeper_{n}" for n in re.findall(r'\{"(\w+)"', f.read().split("/* Old names")[1])}


@promtool_only
def test_promtool_finds_nothing():
    """promtool accepts a file with each metric of the table."""
    text = ""
    for name, kind, words in rows():
        text += f"# HELP {name} {words}\n# TYPE {name} {kind}\n"
        shown = ['_bucket{le="+Inf"}', "_sum", "_count"] if kind == "histogram" else [""]
        text += "".join(f"{name}{suffix} 1\n" for suffix in shown)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_help_texts_never_change():
    """Help texts of version 0.1.0 never change: if both versions run node_exporter would drop samples of one world."""
    with open(f"{ROOT}/tests/system/wk/metrics-0.1.0.prom", encoding="utf-8") as f:
        old = f.read()
    new = {name: f"# HELP {name} {words}\n# TYPE {name} {kind}\n" for name, kind, words in rows()}
    names = set(re.findall(r"# HELP (\w+)", old))
    assert names - new.keys() == {"worldkeeper_loop_late_ms_max"}  # promtool rejects its name
    assert all(new[name] in old for name in names & new.keys())


def test_the_manual_explains_each():
    with open(f"{ROOT}/etc/worldkeeper.8", encoding="utf-8") as f:
        manual = f.read().split(".Sh METRICS")[1].split("\n.Sh ")[0]
    for page in ("ledger", "progress"):
        with open(f"{ROOT}/etc/worldkeeper-{page}.7", encoding="utf-8") as f:
            manual += f.read()
    named = {name.removeprefix("worldkeeper_") for name, _, _ in rows()}
    assert named <= set(re.findall(r"\b[a-z_]+\b", manual)), named - set(re.findall(r"\b[a-z_]+\b", manual))


def panels():
    """Returns the dashboard, and its panels without rows."""
    with open(DASHBOARD, encoding="utf-8") as f:
        dashboard = json.load(f)
    return dashboard, [p for p in dashboard["panels"] if p["type"] != "row"]


def expressions():
    with open(RULES, encoding="utf-8") as f:
        rules = f.read()
    dashboard, shown = panels()
    return [rules, *(t["expr"] for p in shown for t in p["targets"]), *(json.dumps(v.get("query", "")) for v in dashboard["templating"]["list"])]


def test_only_metrics_that_exist():
    named = {n for e in expressions() for n in re.findall(r"\bworldkeeper_\w+", e)}
    assert named <= metrics(), named - metrics()
    assert not named & old_names()


@promtool_only
def test_dashboard_is_whole(tmp_path):
    """Each panel has its own position and ID, and each expression is valid PromQL and follows the chosen worlds."""
    dashboard, shown = panels()
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = set()
    for p in dashboard["panels"]:
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not cells & places, p["title"]
        places |= cells
    assert all(p["title"] and p["datasource"]["uid"] == "${datasource}" for p in shown)
    # The known part of Grafana's schema: kinds of panels and variables, names within the file.
    assert {p["type"] for p in shown} <= {"stat", "table", "timeseries", "state-timeline"} and dashboard["schemaVersion"] >= 36
    variables = {v["name"]: v["type"] for v in dashboard["templating"]["list"]}
    assert variables == {"datasource": "datasource", "instance": "query", "world": "query"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard))) - {"__rate_interval", "__all"}
    assert used <= set(variables)
    for p in shown:
        refs = [t["refId"] for t in p["targets"]]
        assert refs and len(set(refs)) == len(refs), p["title"]
        assert all(t["datasource"]["uid"] == "${datasource}" for t in p["targets"]), p["title"]
        assert all(t.get("instant") for t in p["targets"]) or p["type"] not in ("table", "stat"), p["title"]
        names = [n for step in p.get("transformations", []) for n in step["options"].get("renameByName", {})]
        assert {n for n in names if n.startswith("Value #")} <= {f"Value #{r}" for r in refs}, p["title"]
    exprs = [t["expr"] for p in shown for t in p["targets"]]
    assert all(e.count('world=~"$world"') == len(re.findall(r"\bworldkeeper_\w+", e)) for e in exprs)
    rules = [{"record": f"r{i}", "expr": e.replace("$__rate_interval", "5m")} for i, e in enumerate(exprs)]
    path = tmp_path / "exprs.yml"
    path.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@promtool_only
def test_dashboard_shows_a_standby_as_such(tmp_path):
    """The tile and the table have 1 for a world that is up, 2 for a standby and 0 for all others. The validity of a status is
    shown as of the scrape, thus above 0 while the supervisor lives."""
    known = {p["title"]: re.sub(r'"\$\w+"', '".*"', p["targets"][0]["expr"]) for p in panels()[1]}
    tests = []
    for state, value in (("UP", 1), ("STANDBY", 2), ("LOST", 0)):
        samples = [sample(n, "12+60x20" if n.startswith("valid_until") else f"{v}+0x20") for n, v in in_state(state).items()]
        for title, shown in (("Up", value), ("All worlds", value), ("Supervisor's status is valid for", 12)):
            asked = {"expr": f"sum({known[title]})", "eval_time": "590s", "exp_samples": [{"labels": "{}", "value": shown}]}
            tests.append({"interval": "60s", "input_series": samples, "promql_expr_test": [asked]})
    done = run_tests(RULES, tmp_path, tests)
    assert done.returncode == 0, done.stdout + done.stderr


@promtool_only
@pytest.mark.parametrize("by", [STEP, -STEP])
def test_another_threshold_is_noticed(tmp_path, by):
    """A change of any rule's number or `for` by one step makes the cases above fail."""
    with open(RULES, encoding="utf-8") as f:
        text = f.read()
    numbers = [m for m in re.finditer(r"(?<=[ (\[])\d+(?=m\]|m\n|h\]|h\n|\n| and| \*)", text)
               if re.search(r"(> |<= |\+ |for: )$", text[:m.start()])]
    assert len(numbers) > 10
    # Each takes seconds: make nightly runs all, other runs a quarter.
    for m in numbers if os.environ.get("WK_WHOLE") == "yes" else numbers[2 if by > 0 else 0::4]:
        unit = text[m.end()] if text[m.end()] in "mh" else ""
        seconds = int(m[0]) * {"": 1, "m": 60, "h": 3600}[unit] + by
        if seconds < 0:
            continue
        mutant = tmp_path / "mutant.yml"
        mutant.write_text(text[:m.start()] + (f"{seconds}s" if unit else str(seconds)) + text[m.end() + len(unit):])
        alert = re.findall(r"- alert: Worldkeeper(\w+)", text[:m.start()])[-1]
        assert run_cases(mutant, tmp_path, alert).returncode != 0, text[m.start() - 60:m.end()]
