"""An invalid config is refused with the file, the line, the error and the allowed values; the exit status is 2."""
import os

import pytest
from wk.keeper import DONE, USAGE

pytestmark = pytest.mark.any_server

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))

# name: (section, key, value, words of the error). The value replaces the key's value.
VALUES = {
    "missing unit": ("dump", "interval", "15", ["'15'", "allowed", "15m"]),
    "unknown unit": ("dump", "interval", "15x", ["'15x'", "allowed"]),
    "negative": ("probe", "interval", "-1s", ["'-1s'", "allowed"]),
    "too small": ("probe", "interval", "1ms", ["'1ms'", "allowed"]),
    "fraction of nothing": ("probe", "timeout", "s", ["'s'", "allowed"]),
    "too large": ("dump", "interval", "99999999999999999999h", ["allowed"]),
    "size without unit": ("alert", "disk_low", "1000", ["'1000'", "allowed"]),
    "not a percentage": ("dump", "shrink_limit", "50", ["'50'", "allowed"]),
    "over 100 percent": ("dump", "shrink_limit", "150%", ["'150%'", "allowed"]),
    "not a choice": ("dump", "method", "fast", ["'fast'", "copy", "lock"]),
    "not a journal": ("journal", "mode", "files", ["'files'", "server", "follow"]),
    "segment too small": ("journal", "segment", "1KiB", ["'1KiB'", "64.0 KiB"]),
    "not yes or no": ("restore", "auto", "maybe", ["'maybe'", "yes", "no"]),
    "relative path": ("dump", "dir", "dumps", ["'dumps'", "absolute"]),
    "file name with a slash": ("status", "flag", "../index.html", ["allowed"]),
    "level": ("dump", "level", "10", ["'10'", "1", "9"]),
    "world name": ("world", "name", "Big World", ["'Big World'", "allowed"]),
    "long schema": ("world", "schema", "s" * 65, ["allowed", "64"]),
    "keep nothing": ("retention", "keep_last", "0", ["'0'", "allowed"]),
    "no time of day": ("drill", "at", "24:00", ["'24:00'", "00:00 to 23:59"]),
    "too often": ("verify", "interval", "10ms", ["too short", "0 for none"]),
    "unknown event": ("alert", "events", "down, nosuch", ["nosuch", "allowed", "restored"]),
    "empty": ("mysql", "user", "", ["no value"]),
    "a member with a path": ("standby", "etcd", "https://a.example.net/v3", ["allowed", "no path"]),
    "a short lease": ("standby", "ttl", "1s", ["'1s'", "2s"]),
    "comment behind": ("mysql", "user", "me ; not you", ["comment"]),
}


def refused(keeper, *words):
    """Asserts that --list refuses the config with these words."""
    done = keeper.run("--list")
    assert done.rc == USAGE, done
    for word in words:
        assert word in done.err, (word, done)
    return done


@pytest.mark.parametrize("case", VALUES)
def test_bad_value(keeper, case):
    """For each bad value the error names file, line, value and what is allowed."""
    section, key, value, words = VALUES[case]
    keeper.configure({section: {key: value}})
    with open(keeper.config_path) as f:
        line = 1 + f.read().split("\n").index(f"{key} = {value}")
    refused(keeper, f"{keeper.config_path}:{line}:", *words)


# name: (text appended to the config, number of the bad line in it, words of the error)
LINES = {
    "unknown key": ("[dump]\nintervall = 15m\n", 2, ["[dump] intervall", "not a known key", "interval",
                                                   "HINT: did you mean 'interval'?"]),
    "unknown section": ("[dumps]\n", 1, ["[dumps]", "not a known section", "[dump]"]),
    "key of another section": ("[dump]\nkeep_last = 3\n", 2, ["'keep_last' belongs to [retention]"]),
    "password in the config": ("[mysql]\npassword = x\n", 2, ["not a known key", "password_file"]),
    "repeated key": ("[dump]\ninterval = 1h\n", 2, ["given twice", "the first one is in line"]),
    "long line": ("# " + "x" * 300 + "\n", 1, ["302 bytes", "allowed: at most"]),
    "long value": ("[status]\nmetrics = " + "x" * 300 + "\n", 2, ["bytes", "allowed: at most"]),
    "indented line": ("[status]\n  metrics = x\n", 2, ["indented"]),
    "no section end": ("[status\n", 1, ["']'"]),
    "neither nor": ("[status]\nmetrics\n", 2, ["neither [section] nor key = value"]),
    "nul byte": ("# a\0b\n", 1, ["NUL byte"]),
    "not utf-8": ("[status]\nmetrics = \udcff\n", 2, ["UTF-8"]),
}


@pytest.mark.parametrize("case", LINES)
def test_bad_line(keeper, case):
    """An invalid line is refused with its number."""
    text, offset, words = LINES[case]
    with open(keeper.config_path) as f:
        good = f.read()
    with open(keeper.config_path, "w", errors="surrogateescape") as f:
        f.write(good + text)
    refused(keeper, f"{keeper.config_path}:{good.count(chr(10)) + offset}:", *words)


@pytest.mark.parametrize("section, key", [("world", "name"), ("world", "schema"), ("mysql", "user"),
                                          ("dump", "dir"), ("mysql", "socket")])
def test_missing_key(keeper, section, key):
    """A required key that is missing is named."""
    keeper.configure({section: {key: None}})
    refused(keeper, "missing", f"[{section}] {key}")


def test_two_that_exclude_each_other(keeper):
    """A socket and a host together are refused, because the server would be ambiguous."""
    keeper.configure({"mysql": {"host": "127.0.0.1"}})
    refused(keeper, "[mysql] host", "not together with socket")


def test_status_inside_the_dumps_is_refused(keeper):
    """A status directory inside the dump directory is refused: dumps are secret, the status is public."""
    keeper.configure({"status": {"dir": os.path.join(keeper.dumps_dir, "public")}})
    refused(keeper, "[status] dir", "inside")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_password_file_for_all_is_refused(keeper, mode):
    """A password file that others can read is refused; the error names the file and its mode."""
    os.chmod(keeper.password_file, mode)
    done = keeper.run("--dump")
    assert done.rc != DONE, done
    assert keeper.password_file in done.err and f"{mode:04o}" in done.err and "HINT" in done.err


def test_a_config_that_others_can_write_is_refused(keeper):
    """A config that others can write is refused, because they could send the world's data elsewhere."""
    os.chmod(keeper.config_path, 0o666)
    refused(keeper, keeper.config_path, "0666")


@pytest.mark.parametrize("what", ["nothing", "directory", "fifo", "huge", "dangling link"])
def test_what_is_no_config_file(keeper, what):
    """A missing file, a directory, a FIFO, a file of 1 GiB or a dangling link is refused without hanging."""
    os.unlink(keeper.config_path)
    if what == "directory":
        os.mkdir(keeper.config_path, 0o755)
    elif what == "fifo":
        os.mkfifo(keeper.config_path, 0o600)
    elif what == "huge":
        with open(keeper.config_path, "w") as f:
            f.truncate(1 << 30)
        os.chmod(keeper.config_path, 0o600)
    elif what == "dangling link":
        os.symlink("/nonexistent", keeper.config_path)
    done = keeper.run("--list")
    assert done.rc == USAGE and keeper.config_path in done.err, done


def test_example_is_a_config(keeper):
    """etc/example.ini is accepted as a config."""
    with open(os.path.join(ROOT, "etc", "example.ini")) as f:
        example = f.read()
    keeper.write(example)
    done = keeper.run("--list")
    assert ".ini:" not in done.err, done


def test_a_broken_config_is_an_error_of_check_too(keeper):
    """--check refuses an invalid config with the same error."""
    keeper.configure({"dump": {"interval": "15"}})
    done = keeper.run("--check")
    assert done.rc == USAGE and "interval" in done.err + done.out
