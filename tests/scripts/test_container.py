"""The image recipe and the two examples say the same, and what they say is so. No engine is here to run them."""
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = f"{ROOT}/etc/container"
BINARY = os.environ.get("WORLDKEEPER", f"{ROOT}/build/release/worldkeeper")
yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed: scripts/deps.sh test")


def text(name):
    with open(f"{HERE}/{name}", encoding="utf-8") as f:
        return f.read()


def compose():
    return yaml.safe_load(text("compose.yaml"))


def kubernetes():
    service, stateful = yaml.safe_load_all(text("kubernetes.yaml"))
    return service, stateful


def mounts(container):
    return {m["mountPath"]: m for m in container["volumeMounts"]}


def test_compose():
    """Each volume and secret that is used is declared, each file is there, and no port is published."""
    c = compose()
    for service in c["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert os.path.exists(f"{HERE}/{source}") if source.startswith(".") else source in c["volumes"], volume
        for secret in service["secrets"]:
            assert (secret if isinstance(secret, str) else secret["source"]) in c["secrets"]
        assert "ports" not in service
    assert set(c["volumes"]) == {"data", "socket", "dumps", "status"}
    assert c["services"]["world"]["hostname"], "each container would be a machine of its own"
    build = c["services"]["world"]["build"]
    assert os.path.samefile(f"{HERE}/{build['context']}/{build['dockerfile']}", f"{HERE}/Containerfile")


def test_kubernetes():
    """Names and labels meet, each mount has its volume, and the container has no rights but its files."""
    service, stateful = kubernetes()
    spec = stateful["spec"]
    pod = spec["template"]["spec"]
    assert (stateful["apiVersion"], stateful["kind"], service["apiVersion"], service["kind"]) == ("apps/v1", "StatefulSet", "v1", "Service")
    assert spec["serviceName"] == service["metadata"]["name"] and spec["replicas"] == 1
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == service["spec"]["selector"]
    volumes = {v["name"] for v in pod["volumes"]} | {v["metadata"]["name"] for v in spec["volumeClaimTemplates"]}
    used = {m["name"] for c in pod["containers"] for m in c["volumeMounts"]}
    assert used == volumes
    db, keeper = pod["containers"]
    assert {p["targetPort"] for p in service["spec"]["ports"]} <= {p["name"] for p in db["ports"]}
    rights = keeper["securityContext"]
    assert rights["runAsNonRoot"] and rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert rights["capabilities"] == {"drop": ["ALL"]} and not pod["automountServiceAccountToken"]
    assert keeper["livenessProbe"]["exec"]["command"][:2] == keeper["readinessProbe"]["exec"]["command"][:2] == ["sh", "-c"]


def test_they_agree(tmp_path):
    """User, paths, images and the health check are those of the image; its config is one that the program takes."""
    recipe, (_, stateful), c = text("Containerfile"), kubernetes(), compose()
    pod = stateful["spec"]["template"]["spec"]
    db, keeper = pod["containers"]
    user = re.search(r"^USER (\d+):(\d+)$", recipe, re.M)
    assert f"--gid {user[2]} worldkeeper" in recipe and f"--uid {user[1]} " in recipe
    rights = keeper["securityContext"]
    assert (str(rights["runAsUser"]), str(rights["runAsGroup"])) == user.groups() and str(pod["securityContext"]["fsGroup"]) == user[2]
    assert db["image"] == c["services"]["db"]["image"] and db["args"] == c["services"]["db"]["command"]
    health = re.search(r"^HEALTHCHECK .*\\\n +CMD (.*)$", recipe, re.M)[1]
    assert keeper["readinessProbe"]["exec"]["command"][2] == health
    credentials = re.search(r"^ENV CREDENTIALS_DIRECTORY=(\S+)$", recipe, re.M)[1]
    world = c["services"]["world"]
    assert world["secrets"][0]["target"] == f"{credentials}/mysql" and f"{credentials}/mysql" in mounts(keeper)
    for path in re.search(r'^VOLUME \["(.*)", "(.*)"\]$', recipe, re.M).groups():
        assert path in mounts(keeper) and any(v.split(":")[1] == path for v in world["volumes"])
    config = shutil.copy(f"{HERE}/world.ini", tmp_path / "world.ini")
    os.chmod(config, 0o600)
    done = subprocess.run([BINARY, "--config", config, "--allow-root", "--list"], capture_output=True, text=True, timeout=180,
                          env={"PATH": os.environ["PATH"], "CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert done.returncode != 2, done.stderr
    for line in re.findall(r"^(\w+) = (/\S+)$", text("world.ini"), re.M):
        assert any(line[1].startswith(path) for path in mounts(keeper)), line
