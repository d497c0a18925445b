"""Tests that the program is built with the compiler's protections against remaining defects."""
import glob
import os
import platform
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("WORLDKEEPER", os.path.join(ROOT, "build/release/worldkeeper"))


def readelf(*args):
    return subprocess.run(["readelf", "--wide", *args], capture_output=True, text=True, check=True).stdout


def symbols():
    return set(re.findall(r" UND ([\w.]+)", readelf("--dyn-syms", BINARY)))


def built_with():
    """Returns the compiler's options for each of our files, from the debug information."""
    said = readelf("--debug-dump=info", "--dwarf-depth=1", BINARY)
    return re.findall(r"DW_AT_producer\s*:.*?: (GNU C.*)", said)


def test_it_lies_anywhere_in_memory():
    assert "Type:" in readelf("-h", BINARY) and "DYN" in readelf("-h", BINARY)
    assert re.search(r"FLAGS_1.*PIE", readelf("-d", BINARY))


def test_its_tables_cannot_be_written_once_it_runs():
    """Full RELRO: all functions are resolved at the start, then their table is read-only."""
    assert "GNU_RELRO" in readelf("-l", BINARY)
    assert re.search(r"FLAGS_1.*NOW", readelf("-d", BINARY))


def test_nothing_is_both_written_and_executed():
    flags = [line.split()[6:-1] for line in readelf("-l", BINARY).splitlines()
             if re.match(r"\s+(LOAD|GNU_STACK)\s", line)]
    assert len(flags) > 3
    for f in flags:
        assert not ("W" in "".join(f) and "E" in "".join(f)), flags
    assert not re.search(r"TEXTREL", readelf("-d", BINARY))


def test_no_library_is_looked_for_in_odd_places():
    assert not re.search(r"RPATH|RUNPATH", readelf("-d", BINARY))


def test_it_starts_no_program():
    starters = re.compile(r"(f?exec(l|le|lp|v|ve|veat|vp|vpe)|system|popen|posix_spawnp?)(@|$)")
    assert not [s for s in symbols() if starters.match(s)]


def test_stack_and_copies_are_guarded():
    found = symbols()
    assert any(s.startswith("__stack_chk_fail") for s in found)
    assert {"__memcpy_chk", "__snprintf_chk"} <= {s.split("@")[0] for s in found}, found


def test_every_file_was_built_so():
    told = built_with()
    assert len(told) > 50
    for line in told:
        for flag in ("-fstack-protector-strong", "-fstack-clash-protection", "-fPIE", "-O2"):
            assert flag in line, (flag, line)
    # The debug information has no _FORTIFY_SOURCE level; the build is asked for it.
    shown = subprocess.run(["make", "-n", "-B", "-C", ROOT, "build/release/src/main.o"],
                           capture_output=True, text=True, check=True).stdout
    assert "-D_FORTIFY_SOURCE=3" in shown


def test_jumps_are_guarded():
    """CET: the program has the mark for shadow stacks, and functions begin where an indirect jump may land."""
    if platform.machine() not in ("x86_64", "i686"):  # only these have it
        return
    assert re.search(r"x86 feature:.*SHSTK", readelf("-n", BINARY))
    for line in built_with():
        assert "-fcf-protection" in line


def read_of_proc():
    """Returns the files of /proc that the daemon opens. worldkeeper-setup runs without the unit and the profile."""
    found = set()
    for path in glob.glob(os.path.join(ROOT, "src/**/*.c"), recursive=True):
        if "/src/setup/" not in path:
            with open(path, encoding="utf-8") as f:
                found.update(re.findall(r'"/proc/([^"]+)"', f.read()))
    assert len(found) > 5, found
    return found


def spread(pattern):
    """Returns the alternatives of a pattern of AppArmor as one regular expression."""
    return "".join({"{": "(?:", "}": ")", ",": "|"}.get(c, re.escape(c)) for c in pattern.replace("@{pid}", "PID"))


def test_what_it_reads_of_proc_is_visible_to_it():
    """Neither the unit's sandbox nor the profile of AppArmor hides a file of /proc that the daemon reads: each such read fails
    without a word, and what it is for is dead."""
    with open(os.path.join(ROOT, "systemd/worldkeeper@.service"), encoding="utf-8") as f:
        subset = re.findall(r"^ProcSubset=(\w+)$", f.read(), re.M)
    with open(os.path.join(ROOT, "etc/apparmor/worldkeeper"), encoding="utf-8") as f:
        allowed = [spread(p) for p in re.findall(r"^  @\{PROC\}/(\S+) r,$", f.read(), re.M)]
    read = {re.sub("^(self|%[a-z]+)/", "PID/", name) for name in read_of_proc()}
    assert subset in ([], ["all"]) or all(name.startswith("PID/") for name in read), (subset, read)
    # The links of a process to its own files are followed by their targets' names.
    hidden = [n for n in read if not n.startswith("PID/fd/") and not any(re.fullmatch(p, n) for p in allowed)]
    assert not hidden, hidden


def test_the_profile_confines_the_supervisor_alone():
    """The unit selects the profile of AppArmor, if it is loaded. Attached to the program's path it would also confine commands:
    root could not read the dumps of another user, and nobody could write a command's output to a terminal or a file."""
    with open(os.path.join(ROOT, "etc/apparmor/worldkeeper"), encoding="utf-8") as f:
        profiles = re.findall(r"^profile (.*) \{$", f.read(), re.M)
    with open(os.path.join(ROOT, "systemd/worldkeeper@.service"), encoding="utf-8") as f:
        selected = re.findall(r"^AppArmorProfile=(.*)$", f.read(), re.M)
    assert selected == [f"-{profile}" for profile in profiles] and not any("/" in profile for profile in profiles)
