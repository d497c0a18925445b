"""No two files call each other, directly or through others, so that a file can be read without knowing its callers. What other
files may call is in the header of the same name."""
import glob
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILT = os.path.join(ROOT, "build/release/src")


def symbols():
    """Returns [(file, kind, name)] of all symbols in the built objects, in nm's kinds. The build may have objects of removed
    files, which are left out."""
    paths = [path for path in glob.glob(f"{BUILT}/**/*.o", recursive=True)
             if os.path.exists(f"{ROOT}/src/{os.path.relpath(path, BUILT)[:-2]}.c")]
    lines = subprocess.run(["nm", "-A", *paths], capture_output=True, text=True, check=True).stdout.splitlines()
    return [(os.path.relpath(path, BUILT)[:-2], *symbol.split()[-2:]) for path, _, symbol in (line.rpartition(":") for line in lines)]


def calls():
    """Returns, for each file, the files whose functions and objects it names."""
    found = symbols()
    owner = {name: file for file, kind, name in found if kind in "TDBR"}
    wanted = {file: set() for file, _, _ in found}
    for file, kind, name in found:
        if kind == "U":
            wanted[file].add(name)
    return {file: {owner[name] for name in names if name in owner} - {file} for file, names in wanted.items()}


def circles(uses):
    """Removes files that use none of the remaining files, then files that no remaining file uses. What remains are the
    circles and the files between them."""
    left = set(uses)
    while free := {f for f in left if not uses[f] & left} | {f for f in left if not any(f in uses[g] for g in left)}:
        left -= free
    return {f: sorted(uses[f] & left) for f in sorted(left)}


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"c"}}) == {"b": ["c"], "c": ["b"]}
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}) == {"b": ["c"], "c": ["d"], "d": ["b"]}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {}


def test_no_files_call_each_other_in_a_circle():
    uses = calls()
    assert len(uses) > 200 and sum(map(len, uses.values())) > 1000
    assert circles(uses) == {}


# Each of these is an implementation of an interface, or data: it is declared where the interface is.
ONE_OBJECT = set("""
    base/codec_isal offsite/remote_dir offsite/remote_http offsite/remote_s3 offsite/remote_sftp standby/lease_etcd
    standby/lease_s3 page/assets
""".split())
# Still declared in the headers of their neighbors. This list only shrinks.
WITHOUT_HEADER = set("""
    config/safe config/values offsite/remote_common offsite/remote_prove standby/lease_record
""".split())


def test_what_others_call_is_in_the_header_of_the_file():
    found = symbols()
    exist = {file for file, _, _ in found}
    without = {file for file, kind, _ in found if kind in "TDBR" and not os.path.exists(f"{ROOT}/src/{file}.h")}
    assert without - ONE_OBJECT - {"main", "setup/main"} == WITHOUT_HEADER & exist


def test_a_function_is_found_by_its_name():
    """No two functions of src have the same name, and a static function's name contains an underscore, so that grep and a
    debugger find a function by its name."""
    where = {}
    for path in sorted(glob.glob(f"{ROOT}/src/**/*.c", recursive=True)):
        if "/src/parts/" in path:  # each of its functions is linked in the place of another one of that name
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for static, name in re.findall(r"^(static )?(?!typedef|struct \w+ \{)(?:[a-z]\w*[ *]+)+(\w+)\((?![^;]*?\);$)", text, re.M):
            where.setdefault(name, set()).add(os.path.relpath(path, ROOT))
            assert not static or "_" in name, f"{path}: {name}"
    assert len(where) > 3000
    assert {name: sorted(files) for name, files in where.items() if len(files) > 1} == {"main": ["src/main.c", "src/setup/main.c"]}
