"""Tests that the man pages and SECURITY.md agree with the program, its tests and the example config."""
import glob
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("WORLDKEEPER", os.path.join(ROOT, "build/release/worldkeeper"))
# Set in the example because they are required, not because that is their default.
REQUIRED = {("world", "name"), ("world", "schema"), ("mysql", "socket"), ("mysql", "user"),
            ("dump", "dir")}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def example():
    """Returns {(section, key): value, or None if the key is commented out}."""
    keys, section = {}, None
    for line in read("etc/example.ini").splitlines():
        if m := re.fullmatch(r"(?:# )?\[([a-z.]+)(?: [a-z_]+)?\]", line):
            section = m[1]
        elif m := re.fullmatch(r"(# )?([a-z_]+) = (.*)", line):
            keys[section, m[2]] = None if m[1] else m[3]
    return keys


def man_keys():
    """Returns {(section, key): text of its entry}."""
    keys, section, names = {}, None, []
    for line in read("etc/worldkeeper.8").splitlines():
        if line.startswith((".Sh", ".Ss")):
            m = re.fullmatch(r"\.Ss \[([a-z.]+)(?: NAME)?\]", line)
            section, names = m and m[1], []
        elif section and line.startswith(".It Cm"):
            names = re.findall(r"Cm ([a-z_]+)", line)
            for name in names:
                keys[section, name] = ""
        elif section:
            for name in names:
                keys[section, name] += line + "\n"
    return keys


def test_every_config_key_is_in_the_man_page_and_no_other():
    assert set(man_keys()) == set(example())


def test_the_defaults_are_the_same():
    man = man_keys()
    for key, value in example().items():
        if value is not None and key not in REQUIRED:
            assert re.search(rf"(?<![\w]){re.escape(value)}(?![\w])", man[key]), (key, value)


def options(text):
    return set(re.findall(r"--([a-z][a-z-]+)", text))


def test_every_option_is_in_the_man_page_and_no_other():
    helped = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
    man = read("etc/worldkeeper.8")
    in_man = set(re.findall(r"Fl -([a-z][a-z-]+)", man))
    assert in_man == options(helped)


def test_the_exit_statuses_are_the_same():
    helped = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
    man = read("etc/worldkeeper.8").split(".Sh EXIT STATUS")[1].split(".Sh")[0]
    numbers = re.findall(r"^\.It (\d)$", man, re.M)
    assert numbers == list("0123456")
    for number in numbers:
        assert number in helped
    assert options(helped.split("6 ")[-1]) == {"status", "verify"}
    assert set(re.findall(r"Fl -([a-z-]+)", man.split(".It 6")[1])) == {"status", "verify"}


def test_the_states_and_verdicts_are_the_same():
    man = read("etc/worldkeeper.8")
    for section, source, names in (
            ("STATES", "src/watch/guard.c", r"\[GUARD_[A-Z]+\] = \"([A-Z]+)\""),
            ("VERDICTS", "src/watch/expect.c", r"\{\"([A-Z]{3,})\", '[A-Z]'\}")):
        told = re.findall(r"^\.It Li ([A-Z]+)$", man.split(f".Sh {section}\n")[1].split(".Sh")[0], re.M)
        assert sorted(told) == sorted(re.findall(names, read(source))), section


def test_force_is_told_for_each_action_that_takes_it():
    """The manual mentions --force for exactly the actions that accept it; the others refuse it as wrong usage."""
    helped = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
    entry = read("etc/worldkeeper.8").split(".It Fl -force\n")[1].split("\n.It")[0]
    told = set(re.findall(r"Fl -([a-z]+)", entry))
    for action in re.findall(r"^  --([a-z-]+)", helped.split("options:")[0], re.M):
        if action == "sql":
            continue  # prints at once and ignores other options
        done = subprocess.run([BINARY, "--world", "none-such", f"--{action}", "--force"],
                              capture_output=True, text=True, check=False)
        assert ("does not go with" not in done.stderr) == (action in told), (action, done.stderr)


def test_what_security_md_names_is_there():
    """Each test and file that SECURITY.md names exists, because the promises rely on them."""
    text = read("SECURITY.md")
    code = "".join(read(p) for d in ("tests/system", "tests/scripts", "tests/unit")
                   for p in sorted(glob.glob(os.path.join(ROOT, d, "*.[cp]*"))) if not p.endswith(".pyc"))
    names = set(re.findall(r"`(test_\w+)`", text))
    assert len(names) > 50 and not [n for n in names if not re.search(rf"(def|void) {n}\(", code)]
    files = set(re.findall(r"`((?:src|tests|scripts)/[\w/]+\.\w+)", text))
    assert files and not [f for f in files if not os.path.exists(os.path.join(ROOT, f))]


def test_each_trace_of_the_standby_names_its_tests():
    rows = re.findall(r"^\| (\d+) \|.*\| ([\d, ]+) \| (.*) \|$", read("tests/models/README.md"), re.M)
    defined = set(re.findall(r"^def (test_\w+)\(", "".join(map(read, glob.glob(os.path.join(ROOT, "tests/system/*.py")))), re.M))
    assert [int(number) for number, _, _ in rows] == list(range(1, 16))
    for number, rules, tests in rows:
        named = set(re.findall(r"`(test_\w+)`", tests))
        assert named and named <= defined, (number, named - defined)
        assert all(1 <= int(rule) <= 10 for rule in rules.split(",")), number


def said(*args):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, check=True, timeout=180).stdout


def test_each_action_explains_itself():
    whole = said("--help")
    assert said("-h") == whole and said("-V") == said("--version")
    actions = re.findall(r"^  (?:--[a-z-]+(?:\[?=[A-Z]+\]?)?, )?--([a-z-]+)",
                         whole.split("options:")[0], re.M)
    assert len(actions) > 12
    for action in actions:
        if action == "sql":
            continue  # not an action: it prints at once
        value = "=x" if action == "release" else ""
        own = said(f"--{action}{value}", "--help")
        assert re.search(rf"^  .*--{action}\b", own, re.M) and "usage:" in own and len(own) < len(whole), own
        assert own == said("--help", f"--{action}{value}")


def test_the_settings_of_sessions_are_in_the_man_page():
    """The man page has the session settings that we make, and those that the settings test leaves out."""
    text = re.search(r"\.Sh SERVER SETTINGS\n(.*?)\n\.Sh ", read("etc/worldkeeper.8"), re.S)[1]
    listed = re.search(r"\.Bd -ragged -offset indent\n(.*?)\n\.Ed", text, re.S)[1]
    made = re.findall(r'^    \{"(\w+)",', read("src/mysql/session.c"), re.M)
    assert sorted(re.findall(r"\w+", listed)) == sorted(set(made))
    left_out = re.search(r"LEFT_OUT = \{\n(.*?)\n\}", read("tests/system/wk/settings.py"), re.S)[1]
    for name in re.findall(r'"(\w+)":', left_out):
        assert f".Li {name}" in text, name
    for name in re.findall(r'^    \{"(\w+)", "', read("src/check/rules_next.c"), re.M):
        assert name in text, name


def test_hints_that_set_a_variable_say_what_keeps_it():
    """Each text with SET GLOBAL also says how to keep the value, because a restore happens after a restart of the server."""
    for path in glob.glob(os.path.join(ROOT, "src/**/*.[ch]"), recursive=True):
        with open(path, encoding="utf-8") as f:
            for literal in re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*(?:\w+\s*)?)+', f.read().replace("\\\n", "")):
                if "SET GLOBAL" in literal:
                    assert re.search("my\\.cnf|config file|PERSIST", literal), (path, literal)


def test_the_options_of_setup_are_in_its_man_page_and_no_others():
    shown = set(re.findall(r"--([a-z][a-z-]+)", subprocess.run(
        [os.path.join(ROOT, "build/release/worldkeeper-setup"), "--help"], capture_output=True, text=True, check=True).stdout))
    options = read("etc/worldkeeper-setup.8").split(".Sh OPTIONS")[1].split(".Sh FILES")[0]
    assert shown == {o for line in re.findall(r"^\.It Fl .*", options, re.M) for o in re.findall(r"Fl -([a-z-]+)", line)}


def test_readme_is_short_and_in_its_order():
    """The README has at most 900 words and these sections; longer texts are in the manual."""
    text = read("README.md")
    assert len([w for w in text.split() if not re.fullmatch(r"[|\-]+", w)]) <= 900
    assert re.findall("^## (.*)", text, re.M) == [
        "What it does not do", "The two commands", "Install", "When something fails", "Speed", "Platforms", "How old, how much used",
        "Links"]
    assert len(re.findall(r"^\|", text.split("## When")[1].split("##")[0], re.M)) == 2 + 8
    assert len(re.findall(r"^\|", text.split("## Speed")[1].split("##")[0], re.M)) == 2 + 4
    assert "sudo scripts/build-deb.sh --install\nsudo worldkeeper-setup\n" in text


def test_the_contents_page_lists_each_page():
    pages = {os.path.basename(p) for p in glob.glob(os.path.join(ROOT, "etc/worldkeeper*.[78]"))} - {"worldkeeper.7"}
    listed = re.findall(r"^\.It Xr (\S+) (\d)$", read("etc/worldkeeper.7").split(".Sh INSTALLING")[0], re.M)
    assert sorted(".".join(name) for name in listed) == sorted(pages)
    for page in pages | {"worldkeeper.7"}:
        for name, section in re.findall(r"^\.Xr (worldkeeper\S*) (\d)", read("etc/" + page), re.M):
            assert os.path.exists(os.path.join(ROOT, f"etc/{name}.{section}")), (page, name)


def test_where_make_install_puts_what_others_look_for():
    """The manual names the package's paths. Those of `make install` differ, and Pacemaker finds its agent only below /usr/lib."""
    shown = subprocess.run(["make", "-n", "-C", ROOT, "install"], capture_output=True, text=True, check=True).stdout
    agent, = re.findall(r"^install .* (\S+/ocf/resource\.d/worldkeeper)/world$", shown, re.M)
    source = read("etc/worldkeeper.7").split(".Ss From source")[1].split(".Ss ")[0]
    assert f"sudo ln -s {agent} /usr/lib/ocf/resource.d/\n" in source and "/usr/local/share" in source


def test_figures_name_their_command_and_version():
    """The manual states no figure of a campaign, since it would become outdated; tests/report.py runs each campaign. All other
    figures name a version."""
    text, campaigns = read("etc/worldkeeper-evidence.7"), read("tests/report.py")
    counted = text.split(".Sh WHAT WAS COUNTED")[1].split(".Sh")[0].split("\n.It Ic ")[1:]
    for entry in counted:
        words = entry.split("\n")[0].split()
        assert re.search(rf"^\.PHONY:.*\b{words[1]}\b", read("Makefile"), re.M), words
        for file in re.findall(r"FAULT_TESTS=(\S+)", entry):
            assert os.path.exists(os.path.join(ROOT, "tests/faults", file)), file
            assert file in campaigns, file
        assert f"make {words[1]}" in campaigns and not re.search(r"\d[\d,]*\d|\d s\b", entry.split(".El")[0]) \
            or re.search(r"with 0\.\d\.\d", entry), entry
    for section in text.split("\n.Ss ")[1:]:
        assert re.search(r"with 0\.\d\.\d", section) and "scripts/" in section, section[:40]
