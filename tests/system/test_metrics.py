"""Tests of the metrics with node_exporter, Prometheus and Alertmanager, from the file of a live world to an alert that
arrives."""
import json
import os
import re
import subprocess

import pytest
from wk.monitoring import ROOT, Monitoring
from wk.sinks import Http

pytestmark = [pytest.mark.any_server, pytest.mark.needs("prometheus")]

OLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wk/metrics-0.1.0.prom")


@pytest.fixture
def make_monitoring(tmp):
    made = []

    def make(path, sink=1):
        made.append(Monitoring(tmp, path, sink))
        return made[-1]
    yield make
    for one in made:
        one.end()


@pytest.fixture
def sink():
    http = Http().start()
    yield http
    http.stop()


def file_of(keeper):
    with open(os.path.join(keeper.status_dir, "w1.prom"), encoding="utf-8") as f:
        return f.read()


def sample(keeper, name, labels=""):
    try:
        found = re.search(rf'^worldkeeper_{name}{{world="w1"{labels}}} (\S+)$', file_of(keeper), re.M)
    except FileNotFoundError:
        return None
    return found and float(found[1])


def samples(text):
    """Returns the samples of a text as {(name, labels)}."""
    found = (re.match(r"(\w+)\{(.*)\} ", line) for line in text.splitlines() if not line.startswith("#"))
    return {(m[1], frozenset(m[2].split(","))) for m in found}


def arrived(sink, alert):
    """Returns the states ("firing", "resolved") of our world's alert that Alertmanager sent to its webhook, in order."""
    return [a["status"] for r in list(sink.requests) for a in json.loads(r.body)["alerts"]
            if a["labels"]["alertname"] == alert and a["labels"].get("world") == "w1"]


def unanswered(monitoring):
    """Returns the expressions of the dashboard for which the live world has no sample."""
    with open(os.path.join(ROOT, "etc/grafana/worldkeeper.json"), encoding="utf-8") as f:
        exprs = [t["expr"] for p in json.load(f)["panels"] for t in p.get("targets", [])]
    exprs = [e.replace("$instance", ".*").replace("$world", "w1").replace("$__rate_interval", "1m") for e in exprs]
    # Samples that this world lacks, or that exist only while something is wrong.
    rare = r"_(offsite|ledger|progress|alert|last_verify|failures|journal|last_restore_lost)|condition\{.* == 1"
    return [e for e in exprs if not monitoring.query(e) and not re.search(rare, e)]


def test_the_alert_arrives_and_resolves(doomed, victim, make_monitoring, sink):
    """Alertmanager reports an alert when the server is killed, and its end when the server runs again and the world is
    restored."""
    keeper = doomed
    keeper.server.grant("keeper@localhost", "worldkeeper_drill_w1")
    keeper.configure({"status": {"metrics": "w1.prom"}})
    keeper.start()
    keeper.dump()
    keeper.ok("--drill")
    monitoring = make_monitoring(keeper.status_dir, sink.port)
    keeper.wait(lambda: [v for _, v in monitoring.query('worldkeeper_up{world="w1"}')] == [1], "the world in Prometheus")
    victim.kill9()
    keeper.wait(lambda: "firing" in arrived(sink, "WorldkeeperWorldDown"), "the alert")
    victim.start()
    keeper.wait_state("UP")
    keeper.wait(lambda: arrived(sink, "WorldkeeperWorldDown")[-1] == "resolved", "its end")
    keeper.wait(lambda: not unanswered(monitoring), lambda: f"the dashboard's samples: {unanswered(monitoring)}")
    # The metrics file shows the restore and the drill.
    keeper.wait(lambda: sample(keeper, "last_restore_success") == sample(keeper, "state", ',state="UP"') == 1, "the restore among the metrics")
    assert sample(keeper, "last_drill_success") == 1 and sample(keeper, "generation") == 2
    assert sample(keeper, "runs_total", ',action="restore",result="ok"') == 1
    assert sample(keeper, "runs_total", ',action="drill",result="ok"') == 1
    assert sample(keeper, "state", ',state="LOST"') == 0
    told = keeper.expect("the restore in the status", last_restore=lambda r: r and r["ok"])["last_restore"]
    assert sample(keeper, "last_restore_rows") == told["rows"]
    assert sample(keeper, "last_verify_success") is None and "-1.000" not in file_of(keeper)
    with open(os.path.join(keeper.status_dir, "w1.prom"), "rb") as f:
        done = subprocess.run(["promtool", "check", "metrics"], stdin=f, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_two_versions_on_one_machine(keeper, make_monitoring):
    """Worlds of two versions on one machine keep all their samples while no help text differs; node_exporter drops samples if
    one does."""
    keeper.configure({"status": {"metrics": "w1.prom"}})
    keeper.start()
    keeper.dump()
    keeper.wait(lambda: sample(keeper, "last_dump_rows"), "the dump among the metrics")
    keeper.stop()
    shared = os.path.join(keeper.base, "shared")
    os.mkdir(shared)
    texts = {"w1.prom": file_of(keeper), "older.prom": open(OLD, encoding="utf-8").read()}
    texts["newer.prom"] = texts["w1.prom"].replace('world="w1"', 'world="newer"')

    def lost():
        for name, text in texts.items():
            with open(os.path.join(shared, name), "w", encoding="utf-8") as f:
                f.write(text)
        return set().union(*map(samples, texts.values())) - samples("\n".join(monitoring.exported()))
    monitoring = make_monitoring(shared)
    assert lost() == set()
    # A changed help text makes node_exporter drop samples.
    texts["newer.prom"] = texts["newer.prom"].replace("raised by each restore", "another text")
    assert "worldkeeper_generation" in {name for name, _ in lost()}
