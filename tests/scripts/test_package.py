"""Tests of the Debian package: what `make deb` builds has its files, and lintian finds nothing unexplained."""
import glob
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sh(*args, **more):
    return subprocess.run(args, capture_output=True, text=True, check=True, **more).stdout


# A fake compiler: it returns what was built from the same source, and compiles anything else.
REMEMBERS = """#!/bin/sh
for word; do
    case $word in *.c) source=$word ;; esac
    [ "$last" != -o ] || out=$word
    last=$word
done
case $out in *.o) built=$BUILT/${source%.c}.o ;; esac
if [ -n "$built" ] && [ "$built" -nt "$SOURCES/$source" ]; then exec cp "$built" "$out"; fi
exec gcc "$@"
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Builds the package from a copy, because another run may build from the checkout. Only `make nightly` (WK_WHOLE) compiles
    it with Debian's options, because this takes most of the time and does not change the package's files."""
    base = tmp_path_factory.mktemp("package")
    copy = base / "worldkeeper"
    how = {"DEB_BUILD_OPTIONS": "nocheck"}
    if os.environ.get("WK_WHOLE") != "yes":
        (base / "cc").write_text(REMEMBERS)
        (base / "cc").chmod(0o755)
        how = {"DEB_BUILD_OPTIONS": "nocheck noautodbgsym", "CC": str(base / "cc"), "SOURCES": ROOT,
               "BUILT": f"{ROOT}/build/release"}
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
    with open(base / "said", "w", encoding="utf-8") as said:
        subprocess.run(["make", "deb"], cwd=copy, check=True, env={**os.environ, **how}, stdout=said, stderr=subprocess.STDOUT)
    return copy / "build/package"


def deb(package):
    return next(f for f in glob.glob(f"{package}/worldkeeper_*.deb"))


def test_lintian_finds_nothing(package):
    changes, = glob.glob(f"{package}/*.changes")
    user = ["--allow-root"] if os.geteuid() == 0 else []
    run = subprocess.run(["lintian", *user, "-EI", "--pedantic", changes], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "", run.stdout + run.stderr


def test_what_is_in_it(package, tmp_path):
    subprocess.run(["dpkg-deb", "-x", deb(package), tmp_path], check=True)
    names = {os.path.relpath(os.path.join(d, f), tmp_path) for d, _, files in os.walk(tmp_path) for f in files}
    assert {"usr/bin/worldkeeper", "usr/bin/worldkeeper-setup", "usr/share/man/man8/worldkeeper-setup.8.gz",
            "usr/lib/systemd/system/worldkeeper@.service", "usr/lib/systemd/system/worldkeeper.target",
            "usr/lib/sysusers.d/worldkeeper.conf", "usr/share/man/man8/worldkeeper.8.gz",
            "usr/share/man/man7/worldkeeper-ledger.7.gz", "usr/share/man/man7/worldkeeper-progress.7.gz",
            "usr/share/man/man7/worldkeeper-offsite.7.gz",
            "usr/share/man/man7/worldkeeper-standby.7.gz",
            "usr/share/man/man7/worldkeeper.7.gz", "usr/share/man/man7/worldkeeper-evidence.7.gz",
            "usr/share/bash-completion/completions/worldkeeper", "usr/share/zsh/vendor-completions/_worldkeeper",
            "usr/share/doc/worldkeeper/example.ini", "usr/share/doc/worldkeeper/apparmor/worldkeeper",
            "usr/share/worldkeeper/migrate.sh", "usr/share/worldkeeper/restart-worlds",
            "usr/share/worldkeeper/prometheus/worldkeeper.rules.yml", "usr/share/worldkeeper/grafana/worldkeeper.json"} <= names
    version = re.search("^VERSION := (.*)", open(f"{ROOT}/Makefile", encoding="utf-8").read(), re.M)[1]
    assert sh(tmp_path / "usr/bin/worldkeeper", "--version") == f"worldkeeper {version}\n"
    assert sh("dpkg-deb", "-f", deb(package), "Version").strip() == version
    assert f"\n## {version}\n" in open(f"{ROOT}/CHANGELOG.md", encoding="utf-8").read()
    # Loaded at run time, so no tool finds it.
    assert re.search(r"\blibcurl4\b", sh("dpkg-deb", "-f", deb(package), "Depends"))
    # No script removes players' data.
    subprocess.run(["dpkg-deb", "-e", deb(package), tmp_path / "control"], check=True)
    for script in glob.glob(f"{tmp_path}/control/p*"):
        text = open(script, encoding="utf-8").read()
        assert not re.search(r"^\s*(rm|find|rmdir)\b", text, re.M), script


def test_the_next_step_is_said(package, tmp_path):
    """make deb ends with the package's path and the line that installs it; the first installation names worldkeeper-setup, an
    upgrade does not."""
    path, install = (package.parents[2] / "said").read_text().splitlines()[-2:]
    assert path == deb(package)
    assert install == f"sudo apt install ./{os.path.relpath(path, package.parents[1])}", install
    subprocess.run(["dpkg-deb", "-e", path, tmp_path / "control"], check=True)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "deb-systemd-helper", "deb-systemd-invoke"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    hint = "the next step: sudo worldkeeper-setup"
    for before, said in (("", True), ("0.2.0", False)):
        script = (tmp_path / "control/postinst").read_text().replace("/usr/share/worldkeeper/restart-worlds", "true")
        done = subprocess.run(["/bin/sh", "-c", script, "postinst", "configure", before], capture_output=True, text=True,
                              env={"PATH": str(tools)})
        assert done.returncode == 0 and (hint in done.stdout) == said, done


def completed(words):
    """Returns what bash offers for the last of the words."""
    line = " ".join(words)
    script = f"""
        . {ROOT}/etc/completion/worldkeeper.bash
        compopt() {{ :; }}
        COMP_WORDS=({line}); [ "{words[-1]}" ] || COMP_WORDS+=('')
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _worldkeeper; printf '%s\\n' "${{COMPREPLY[@]}}" """
    path = os.path.dirname(os.environ.get("WORLDKEEPER", f"{ROOT}/build/release/worldkeeper"))
    return sh("bash", "-c", script, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}).split()


def test_completion():
    assert {"--restore", "--resume", "--renumber"} <= set(completed(["worldkeeper", "--re"]))
    assert completed(["worldkeeper", "--test-a"]) == ["--test-alert"]
    assert completed(["worldkeeper", "stray"]) == []


SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>"$LOG"
case $1 in
list-units) printf 'worldkeeper@%s.service loaded active running x\\n' a b my-world ;;
restart) [ "$2" != worldkeeper@b.service ] ;;
is-active) [ "$3" != worldkeeper@c.service ] ;;
esac
"""
WORLD = """#!/bin/sh
echo "worldkeeper $*" >>"$LOG"
[ "$2" != my-world ] || [ -e "$LOG.restored" ] || { touch "$LOG.restored"; echo '{"state": "RESTORING"}'; exit; }
echo '{"state": "UP"}'
"""


def restart_worlds(tmp_path, world):
    """Runs restart-worlds with stand-ins and units in tmp_path/units. Returns its outcome and what it called."""
    for name, text in (("systemctl", SYSTEMCTL), ("worldkeeper", world)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    log = tmp_path / "log"
    with open(f"{ROOT}/systemd/restart-worlds", encoding="utf-8") as f:
        script = f.read().replace("/etc/systemd/system/", f"{tmp_path}/units/")
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True,
                         env={"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(log)})
    return run, [line for line in log.read_text().splitlines() if not re.match("systemctl (list-units|is-active)", line)]


def test_worlds_are_restarted_one_after_the_other(tmp_path):
    """restart-worlds waits for a world that is being restored, and names one that cannot be restarted without stopping the
    others."""
    run, said = restart_worlds(tmp_path, WORLD)
    ask = "worldkeeper --world {} --status --json"
    assert said == [ask.format("a"), "systemctl restart worldkeeper@a.service",
                    ask.format("b"), "systemctl restart worldkeeper@b.service",
                    ask.format("my-world"), ask.format("my-world"), "systemctl restart worldkeeper@my-world.service"]
    assert run.returncode == 0 and "worldkeeper@b.service" in run.stderr and "a.service" not in run.stderr


@pytest.mark.parametrize("status, kept", [(2, True), (4, True), (1, True), (6, False)])
def test_a_world_that_would_not_start_again_is_not_restarted(tmp_path, status, kept):
    """A supervisor that runs keeps its old config if the present one is refused. It is not ended by an upgrade, and the refusal
    is shown. Exit 6 without a state means that no supervisor answers, so a restart can only help."""
    refuses = f'[ "$2" != a ] || {{ echo \'{{"ok":false}}\'; echo "worldkeeper: a.ini:3: refused" >&2; exit {status}; }}\n'
    run, said = restart_worlds(tmp_path, "#!/bin/sh\n" + refuses + "echo '{\"state\": \"PAUSED\"}'; exit 6\n")
    restarted = [f"systemctl restart worldkeeper@{world}.service" for world in ("a", "b", "my-world")]
    assert said == restarted[1 if kept else 0:] and run.returncode == 0
    for said in ("not restarted.* worldkeeper@a.service\n", "a.ini:3: refused\n", ": systemctl restart worldkeeper@a.service\n"):
        assert (re.search(said, run.stderr) is not None) == kept, run.stderr


def test_enabled_worlds_that_do_not_run_are_named(tmp_path):
    """After apt remove and apt install an enabled world does not run before the next boot. restart-worlds names it, and does not
    start it, because it may have been stopped on purpose. One that runs, or that failed to start again, is not named so."""
    for target in ("multi-user.target.wants", "worldkeeper.target.wants"):
        (tmp_path / "units" / target).mkdir(parents=True)
        for world in ("a", "b", "c"):
            (tmp_path / "units" / target / f"worldkeeper@{world}.service").symlink_to("/nowhere")
    run, said = restart_worlds(tmp_path, WORLD)
    assert "enabled, but not running: worldkeeper@c.service\n" in run.stderr and run.returncode == 0, run.stderr
    assert "systemctl start worldkeeper@c.service\n" in run.stderr and not any("c.service" in line for line in said)


def test_worlds_are_looked_for_after_each_installation(tmp_path):
    """Also after a purge, which keeps configs and enabled units. Where a config is there, setup is not the next step."""
    for tool in ("systemctl", "restart-worlds"):
        (tmp_path / tool).write_text(f'#!/bin/sh\necho {tool} >>"$LOG"\n')
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "etc").mkdir()
    with open(f"{ROOT}/debian/worldkeeper.postinst", encoding="utf-8") as f:
        script = f.read()
    for path, here in (("/run/systemd/system", tmp_path), ("/usr/share/worldkeeper", tmp_path),
                       ("/etc/worldkeeper", tmp_path / "etc")):
        script = script.replace(path, str(here))
    for before, config, hint in (("", False, True), ("", True, False), ("0.2.0", True, False)):
        (tmp_path / "log").write_text("")
        if config:
            (tmp_path / "etc/s8.ini").write_text("")
        done = subprocess.run(["/bin/sh", "-c", script, "postinst", "configure", before], capture_output=True, text=True,
                              env={"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(tmp_path / "log")})
        assert done.returncode == 0 and ("worldkeeper-setup" in done.stdout) == hint, done
        assert "restart-worlds" in (tmp_path / "log").read_text()


def test_a_look_at_the_lease_starts_no_supervisor():
    """The timer looks every five seconds, on both machines. If its service pulled the supervisor in, one that was stopped for
    maintenance, or because its machine was given up, would be started again at once."""
    for path in glob.glob(f"{ROOT}/etc/failover/*.[st]*"):
        with open(path, encoding="utf-8") as f:
            pulled = re.findall(r"^(?:Wants|Requires|BindsTo|Upholds)=.*worldkeeper@.*$", f.read(), re.M)
        assert not pulled, (path, pulled)
