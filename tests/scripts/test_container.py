"""Tests that the image recipe and the two examples agree and are correct. No container engine is run."""
import json
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
    """Each used volume and secret is declared, each file exists, and no port is published."""
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
    """Names and labels match, each mount has its volume, and the container has no privileges except its files."""
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


def test_what_a_supervisor_needs_to_end():
    """Compose, which ends a container after ten seconds by default, and Kubernetes wait as long as the unit does."""
    with open(f"{ROOT}/systemd/worldkeeper@.service", encoding="utf-8") as f:
        needed = int(re.search(r"^TimeoutStopSec=(\d+)$", f.read(), re.M)[1])
    assert int(re.fullmatch(r"(\d+)s", compose()["services"]["world"].get("stop_grace_period", "10s"))[1]) >= needed
    assert kubernetes()[1]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= needed
    assert f"--stop-timeout {needed} " in text("Containerfile")


def test_the_server_of_both():
    """The server's log expires, root may connect only locally, and the probes examine whether volumes are writable."""
    c, (_, stateful) = compose()["services"]["db"], kubernetes()
    db, keeper = stateful["spec"]["template"]["spec"]["containers"]
    options = dict(o[2:].split("=") for o in db["args"])
    assert 2 * 86400 <= int(options["binlog-expire-logs-seconds"]) <= 30 * 86400
    assert c["environment"]["MARIADB_ROOT_HOST"] == "localhost"
    for said, container in ((c["healthcheck"]["test"][1], db), (db["startupProbe"]["exec"]["command"][2], db),
                            (keeper["startupProbe"]["exec"]["command"][2], keeper)):
        seen = re.findall(r"\[ -w (\S+) \]", said)
        assert seen and set(seen) <= set(mounts(container)), said


def stand_in(tmp_path, status):
    """Returns an environment in which worldkeeper prints that status."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "worldkeeper").write_text(f"#!/bin/sh\necho '{status}'\nexit 6\n")
    (tools / "worldkeeper").chmod(0o755)
    return {"PATH": f"{tools}:/usr/bin:/bin"}


@pytest.mark.parametrize("closed", [None, 0, 1])
def test_a_volume_that_cannot_be_written(tmp_path, closed):
    """The probes of both containers fail for each of their volumes that is not writable."""
    _, stateful = kubernetes()
    env = stand_in(tmp_path, '{"state":"STARTING"}')
    for container in stateful["spec"]["template"]["spec"]["containers"]:
        said = container["startupProbe"]["exec"]["command"][2]
        places = re.findall(r"\[ -w (\S+) \]", said)
        for number, place in enumerate(places):
            here = tmp_path / container["name"] / str(number)
            if number != closed:
                here.mkdir(parents=True)
            said = said.replace(place, str(here))
        assert (subprocess.run(["sh", "-c", said], env=env).returncode == 0) == (closed is None), said


@pytest.mark.parametrize("state, serves", [
    ("UP", True), ("PAUSED", True), ("SUSPECT unverified", True), ("WAITING unverified", True), ("WAITING uninitialized", True),
    ("WAITING", False), ("SUSPECT", False), ("STARTING", False), ("LOST", False), ("RESTORING", False), ("STOPPED", False),
    ("STANDBY uninitialized", False), ("", True)])
def test_when_a_pod_serves_players(tmp_path, state, serves):
    """A pod is ready unless its world is known to be gone or kept elsewhere; tests/system/test_status.py asks a supervisor."""
    status = {"action": "status", "exit": 6}
    if state:
        status |= {"state": state.split()[0], "unverified": "unverified" in state, "generation": 0 if "uninit" in state else 10,
                   "journal": {"state": "off"}}
    _, stateful = kubernetes()
    asks = stateful["spec"]["template"]["spec"]["containers"][1]["readinessProbe"]["exec"]["command"]
    done = subprocess.run(asks, env=stand_in(tmp_path, json.dumps(status, separators=(",", ":"))))
    assert (done.returncode == 0) == serves


def test_a_pod_starts_once_its_supervisor_answers(tmp_path):
    _, stateful = kubernetes()
    said = stateful["spec"]["template"]["spec"]["containers"][1]["startupProbe"]["exec"]["command"][2]
    for place in re.findall(r"\[ -w (\S+) \]", said):
        said = said.replace(place, str(tmp_path))
    for status, starts in (('{"ok":false,"exit":6}', False), ('{"state":"WAITING"}', True)):
        assert (subprocess.run(["sh", "-c", said], env=stand_in(tmp_path, status)).returncode == 0) == starts


def test_they_agree(tmp_path):
    """User, paths, images and the health check are those of the image, and the program accepts its config."""
    recipe, (_, stateful), c = text("Containerfile"), kubernetes(), compose()
    pod = stateful["spec"]["template"]["spec"]
    db, keeper = pod["containers"]
    user = re.search(r"^USER (\d+):(\d+)$", recipe, re.M)
    assert f"--gid {user[2]} worldkeeper" in recipe and f"--uid {user[1]} " in recipe
    rights = keeper["securityContext"]
    assert (str(rights["runAsUser"]), str(rights["runAsGroup"])) == user.groups() and str(pod["securityContext"]["fsGroup"]) == user[2]
    assert db["image"] == c["services"]["db"]["image"] and db["args"] == c["services"]["db"]["command"]
    health = re.search(r"^HEALTHCHECK .*\\\n +CMD (.*)$", recipe, re.M)[1]
    examined = [re.findall(r"\[ -w \S+ \]", said) for said in (health, keeper["startupProbe"]["exec"]["command"][2])]
    assert examined[0] == examined[1]
    assert {e["name"]: e["value"] for e in db["env"]} == c["services"]["db"]["environment"]
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


def test_the_package_is_built_without_git(tmp_path):
    """The base image has no git: where there is none, or no repository, the package has the time of its files."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "cp", "date", "dirname", "id", "mkdir", "nproc", "realpath", "rm", "sed", "stat", "tar", "touch"):
        os.symlink(shutil.which(name), tools / name)
    (tools / "dpkg-query").write_text("#!/bin/sh\n")
    (tools / "dpkg-buildpackage").write_text('#!/bin/sh\necho "$SOURCE_DATE_EPOCH" >../worldkeeper_1_amd64.deb\n')
    here = tmp_path / "here"
    for name in ("scripts/build-deb.sh", "Makefile", "debian/changelog"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{ROOT}/{name}", here / name)
    os.utime(here / "debian/changelog", (10**9, 10**9))
    for stand_in in tools.glob("dpkg-*"):
        stand_in.chmod(0o755)
    for repository in (True, False):
        (here / ".git").mkdir() if repository else (here / ".git").rmdir()
        done = subprocess.run([f"{here}/scripts/build-deb.sh", "--here"], capture_output=True, text=True,
                              env={"PATH": str(tools)})
        assert done.returncode == 0, done.stderr
        assert (here / "build/package/worldkeeper_1_amd64.deb").read_text() == f"{10**9}\n"


def test_what_the_image_is_built_from():
    """An engine copies neither the repository nor what was built or left on this machine."""
    with open(f"{ROOT}/.dockerignore", encoding="utf-8") as f:
        ignored = set(f.read().split())
    with open(f"{ROOT}/.gitignore", encoding="utf-8") as f:
        # There a name without a slash is one in any directory.
        unversioned = {line.strip("/") if line.startswith("/") else f"**/{line.strip('/')}" for line in f.read().split()}
    assert ignored == unversioned | {".git"}
    assert re.findall(r"^COPY (?!--from)(.*)$", text("Containerfile"), re.M) == [". ."]
