"""Debian's node_exporter, Prometheus and Alertmanager on their own ports, connected as an admin would connect them."""
import json
import os
import re
import subprocess
import urllib.parse
import urllib.request

from .util import DIE_WITH_US, PATIENCE, end_process, free_port, tail, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RULES = os.path.join(ROOT, "etc/prometheus/worldkeeper.rules.yml")


def get(url):
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        return answer.read().decode()


class Monitoring:
    """All three over the status directory `path`; alerts go to a webhook at the port `sink`. All waits are shortened."""

    def __init__(self, base, path, sink):
        self.base, self.processes = base, []
        self.exporter, self.alerts, self.prometheus = free_port(), free_port(), free_port()
        self.config("alertmanager.yml", {
            "route": {"receiver": "sink", "group_by": ["alertname", "world"], "group_wait": "0s", "group_interval": "1s",
                      "repeat_interval": "1h"},
            "receivers": [{"name": "sink", "webhook_configs": [{"url": f"http://127.0.0.1:{sink}/", "send_resolved": True}]}]})
        with open(RULES, encoding="utf-8") as f:
            rules = re.sub(r"for: \w+", "for: 1s", f.read())
        with open(os.path.join(base, "rules.yml"), "w", encoding="utf-8") as f:
            f.write(rules)
        self.config("prometheus.yml", {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": ["rules.yml"],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{self.alerts}"]}]}]},
            "scrape_configs": [{"job_name": "node", "scrape_timeout": "1s",
                                "static_configs": [{"targets": [f"127.0.0.1:{self.exporter}"]}]}]})
        self.run(self.exporter, "prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                 f"--collector.textfile.directory={path}")
        self.run(self.alerts, "prometheus-alertmanager", f"--config.file={base}/alertmanager.yml",
                 f"--storage.path={base}/alerts", "--cluster.listen-address=")
        self.run(self.prometheus, "prometheus", f"--config.file={base}/prometheus.yml", f"--storage.tsdb.path={base}/tsdb")

    def config(self, name, content):
        """Writes YAML; JSON is a subset of it."""
        with open(os.path.join(self.base, name), "w", encoding="utf-8") as f:
            json.dump(content, f)

    def run(self, port, *command):
        with open(os.path.join(self.base, command[0] + ".log"), "ab") as log:
            process = subprocess.Popen([*DIE_WITH_US, *command, f"--web.listen-address=127.0.0.1:{port}"], cwd=self.base,
                                       stdout=log, stderr=log)
        self.processes.append(process)

        def answers():
            assert process.poll() is None, tail(log.name)
            try:
                return get(f"http://127.0.0.1:{port}/-/ready" if command[0] != "prometheus-node-exporter" else f"http://127.0.0.1:{port}/")
            except OSError:
                return False
        wait_for(answers, lambda: f"{command[0]}: {tail(log.name)}")

    def exported(self):
        """Returns what node_exporter makes of the files, without its own metrics."""
        return [line for line in get(f"http://127.0.0.1:{self.exporter}/metrics").splitlines() if line.startswith("worldkeeper_")]

    def query(self, expr):
        """Returns the present samples of an expression: [(labels, value)]."""
        answer = json.loads(get(f"http://127.0.0.1:{self.prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expr})))
        assert answer["status"] == "success", answer
        return [(r["metric"], float(r["value"][1])) for r in answer["data"]["result"]]

    def end(self):
        for process in reversed(self.processes):
            end_process(process)
