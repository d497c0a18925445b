"""Tests of the tables of --check: each word that a rule uses or shows is set by code, a key of the config or a variable."""
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULE = re.compile(r'\{(?:"[^"]+"|[A-Z_]+|name), (NULL|(?:"[^"]+"|[A-Z_]+|\s)+),\s+CHECK_(?:OK|NOTE|WARN|FAIL)')
FORMS = {"size", "time", "count", "shell", "name", "account"}


def sources():
    for path in sorted(glob.glob(os.path.join(ROOT, "src/check/*.c"))):
        with open(path, encoding="utf-8") as f:
            yield path, re.sub(r'\\\n', "", f.read())


def words_set():
    found = {"found", "names"}
    for _, text in sources():
        found |= set(re.findall(r'(?:check_\w+|(?:request_)?ask|excess_words|name_table)\(\s*&?c,(?: l,)?\s*"(\w+)"', text))
        for three in re.findall(r'own_schema_facts\(c, \w+, "?\w+"?, "(\w+)",\s+"(\w+)",\s+"(\w+)"\)', text):
            found |= set(three)
        for two in re.findall(r'check_table_size\(\s*c, [^;{]*?"(\w+)", "(\w+)"\)', text):
            found |= set(two)
        found |= set(re.findall(r'(?:excess_words|name_table)\(\s*c, "\w+", "(\w+)"', text))
        for name in re.findall(r'check_error\(\s*c,\s*"(\w+)"', text):
            found |= {name + "_error", name + "_hint"}
    with open(os.path.join(ROOT, "src/config/keys.c"), encoding="utf-8") as f:
        found |= {f"{section}.{name}" for section, name in re.findall(r'\("([a-z.]+)", "(\w+)",', f.read())}
    return found


def is_known(word, known):
    return word in known or word.startswith("@") or word.isdigit()


def test_each_word_of_a_rule_is_set_somewhere():
    known, rules = words_set(), 0
    assert "dump.interval" in known
    for path, text in sources():
        for when in RULE.findall(text):
            rules += 1
            for term in "".join(re.findall(r'"([^"]*)"', when)).split():
                words = re.split("[<]", re.sub("=.*", "", term.lstrip("!")))
                missing = {w for w in words if w and not is_known(w, known)}
                assert not missing, f"{path}: a rule takes {missing}, which nothing sets"
        strings = "".join(s for s in re.findall(r'"((?:[^"\\]|\\.)*)"', text) if "{s:" not in s)
        for word, form in re.findall(r"\{([@\w.]+):?(\w*)\}", strings):
            assert is_known(word, known), f"{path}: a text shows {word}, which nothing sets"
            assert not form or form in FORMS, f"{path}: {word} has the form {form}"
    assert rules > 120, rules
