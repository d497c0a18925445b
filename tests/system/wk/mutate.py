"""Manipulated table definitions: parts of real ones, and inputs that have misled SQL parsers."""
import random

FOREIGN = "wk_not_ours"
PIECES = [p.encode() for p in (
    "/*!99999 ", "/*!50000 ", "/*!50100 ", "/*!50100 PARTITION BY ", "/*!80016 NOT ENFORCED */", "/*!80023 INVISIBLE */",
    "/*M!999999 ", "/*M!100301 COMPRESSED*/", "/*M!100100 ", "/*! ", "/*!", "/* ", "*/", " */ ", "/*+ */", "/**/", "/*!99999 */",
    "-- ", "--", "#", "\n", "\r", "\t", "\v", "\f", " ", "'", '"', "`", "''", "``", '""', "\\", "\\'", "\\`", "(", ")", "((", "))",
    ",", ";", "=", ".", "@", "@@", ":=", "->", "?", "{", "}", "1", "0x41", "0b1", "x'41'", "b'1'", "1e5", "-1", "- -1", "NULL",
    "_utf8mb4'a'", "_latin1 0x41", "_binary '\\0'", "_gbk'a'", "N'a'", "SELECT", " AS ", " LIKE ", " IGNORE ", " REPLACE ",
    f" AS SELECT a FROM {FOREIGN}.t", f" LIKE {FOREIGN}.t", f"(LIKE {FOREIGN}.t)", f" SELECT * FROM {FOREIGN}.t",
    f" UNION=({FOREIGN}.t)", f" TABLE {FOREIGN}.t", f" VALUES (1)", f"`{FOREIGN}`.`f`()", f"(SELECT a FROM {FOREIGN}.t)",
    f" REFERENCES {FOREIGN}.t (a)", f"`{FOREIGN}`.", "ENGINE=FEDERATED CONNECTION='mysql://x@127.0.0.1:1/a/b'",
    "ENGINE=MRG_MyISAM", "ENGINE=MEMORY", "ENGINE=InnoDB", "ENGINE=MyISAM", "ENGINE=Aria", "ENGINE=CONNECT", "ENGINE=", "ENGINE",
    " DATA DIRECTORY='/tmp'", " INDEX DIRECTORY='/tmp'", " COMMENT='x'", " COMMENT 'x*/'", " CONNECTION='x'", " CHARSET=gbk",
    " CHARSET=utf8mb4", " COLLATE=utf8mb4_bin", " CHARACTER SET ucs2", " AUTO_INCREMENT=7", " MAX_ROWS=9", " PACK_KEYS=1",
    " ROW_FORMAT=DYNAMIC", " WITH SYSTEM VERSIONING", "`a` int", "`b` varchar(9) DEFAULT 'x'", "PRIMARY KEY (`id`)",
    "UNIQUE KEY `u` (`id`)", "KEY `k` (`id`) USING BTREE", "CONSTRAINT `c` CHECK (`id` > 0)", "CHECK (1)", "CHECK (load_file('x'))",
    " DEFAULT (1 + 1)", " DEFAULT (uuid())", " DEFAULT uuid()", " DEFAULT CURRENT_TIMESTAMP", " ON UPDATE CURRENT_TIMESTAMP",
    " GENERATED ALWAYS AS (1 + 1) VIRTUAL", " AS (`id`) STORED", " INVISIBLE", " NOT NULL", " UNSIGNED", " zerofill",
    " PARTITION BY HASH (`id`) PARTITIONS 2", " PARTITION BY KEY ()", "PERIOD FOR p (`a`,`b`)", "FOREIGN KEY (`id`)", "sleep(5)",
    "benchmark(9,9)", "load_file('/etc/passwd')", "user()", "nextval(s)", "concat('a','b')", "case when 1 then 2 end", "interval 1 day",
)] + [b"\0", b"\xa0", b"\x5c", b"\xbf\x5c", b"\xbf'", b"\xe5\x5c", b"\xff", b"\xc2\xa0", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xf0\x9d\x84\x9e",
     b"\xc3\xa9", b"\x1a", b"\x7f", b"\x01"]


def cut(rand, text):
    """Returns a position at which something may be inserted or removed, mostly between words."""
    at = rand.randrange(len(text) + 1)
    if rand.random() < 0.7:
        ahead = [i for i in (text.find(c, at) for c in (b" ", b",", b"(", b")", b"\n", b"'", b"`")) if i >= 0]
        at = min(ahead) if ahead else at
    return at


def mutate(rand, text, others):
    a, b = sorted((cut(rand, text), cut(rand, text)))
    r = rand.random()
    if r < 0.5:
        return text[:a] + rand.choice(PIECES) + text[a:]
    if r < 0.65:  # what is between is hidden or wrapped
        front, end = rand.choice([(b"/*!99999 ", b" */"), (b"/*", b"*/"), (b"(", b")"), (b"'", b"'"), (b"`", b"`"),
                                  (b"/*!50100 ", b" */"), (b"/*M!100100 ", b" */"), (b'"', b'"'), (b"/*!", b"*/")])
        return text[:a] + front + text[a:b] + end + text[b:]
    if r < 0.75 and b - a < 60:
        return text[:a] + text[b:]
    if r < 0.85:
        return text[:a] + bytes([rand.randrange(256)]) + text[a + 1:]
    if r < 0.93:  # a part of another definition
        other = rand.choice(others)
        c, d = sorted((cut(rand, other), cut(rand, other)))
        return text[:a] + other[c:min(d, c + 120)] + text[a:]
    return text[:a] + text[a:min(b, a + 80)] + text[a:]


def cases(seed, texts):
    """Yields cases endlessly; some are unchanged."""
    rand = random.Random(seed)
    while True:
        text = rand.choice(texts)
        for _ in range(rand.choice((0, 1, 1, 1, 2, 2, 3, 5))):
            text = mutate(rand, text, texts)
        yield text
