"""Columns of every type that a MEMORY table can have, with values that they accept, and some that they may refuse."""
from .server import MYSQL, version
from .util import ident
from .zoo import CHARSETS, q

COLLATIONS = {
    "utf8mb4": ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_nopad_bin",
                "utf8mb4_unicode_nopad_ci", "utf8mb4_hungarian_ci", "utf8mb4_uca1400_as_cs"],
    "utf8mb3": ["utf8mb3_general_ci", "utf8mb3_bin", "utf8mb3_uca1400_ai_ci"],
    "latin1": ["latin1_swedish_ci", "latin1_german2_ci", "latin1_bin", "latin1_general_cs"],
    "latin2": ["latin2_general_ci", "latin2_hungarian_ci"], "cp1251": ["cp1251_general_ci"],
    "ucs2": ["ucs2_general_ci", "ucs2_bin"], "utf16": ["utf16_unicode_ci"], "utf32": ["utf32_general_ci"],
    "sjis": ["sjis_japanese_ci"], "gbk": ["gbk_chinese_ci"], "ascii": ["ascii_general_ci"],
}
if MYSQL:
    COLLATIONS["utf8mb4"] = ["utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "utf8mb4_bin", "utf8mb4_0900_bin",
                             "utf8mb4_0900_as_cs", "utf8mb4_hu_0900_ai_ci", "utf8mb4_ja_0900_as_cs_ks"]
    COLLATIONS["utf8mb3"] = ["utf8mb3_general_ci", "utf8mb3_bin", "utf8mb3_unicode_ci"]
WIDTH = {"utf8mb4": 4, "utf8mb3": 3, "ucs2": 2, "utf16": 4, "utf32": 4, "sjis": 2, "gbk": 2}
TEXTS = ["", " ", "a", "A", "a ", "á", "Á", "ab", "AB", "ß", "ss", "\\'\"\n", "\0", "0", "-1", "NULL",
         "2024-02-29", "Ő ★ 日本", "it's", "x" * 40, "\u200b", "a\0", "\t\r\x1a"]
FLOATS = ["0", "-0e0", "0.1", "1e-45", "3.4028234663852886e38", "16777215", "123456.789", "-9.99999e-10",
          "1", "2", "3"]
DOUBLES = ["0", "-0e0", "0.1", "5e-324", "1.7976931348623157e308", "9007199254740993", "1e23",
           "-123456789012345678", "1", "2", "3"]
DATES = ["0000-00-00", "2024-02-30", "9999-12-31", "1000-01-01", "2024-02-29", "2024-00-00", "2001-09-09"]
TOP = 8 if MYSQL else 9  # the last second that can have decimals
CLOCKS = ["00:00:00", "-00:00:01", f"838:59:5{TOP}.999999", f"-838:59:5{TOP}.999999", "12:34:56.789012",
          "-00:00:00.1", "00:00:00.000001", "-12:34:56.999999"]
MEMBERS = ["a", "B c", "it''s", "say \"x\"", "%", "0", "NULL", "zz", "-", "\\\\", "_", "q1", "q2", "q3"]
# An UPDATE or a literal of the same character set can give a compressed column more characters than it was made for, which the
# server refuses from another one.
LONG_ENOUGH = 1000, "" if MYSQL else " COMPRESSED"
# Expressions for a new value of a column, by family; {0} is the column.
BECOMES = {
    "number": ["{0}+1", "{0}-1", "{0}*2", "{0} DIV 2", "-{0}", "{0}+1000", "{0}^1"],
    "real": ["{0}+0.1", "{0}*3", "{0}/7", "-{0}"], "bit": ["{0}^1", "{0}|3", "{0}>>1"],
    "text": ["CONCAT({0},'x')", "UPPER({0})", "LOWER({0})", "REVERSE({0})", "LEFT({0},2)", "CONCAT({0},' ')",
             "REPLACE({0},'a','A')", "RTRIM({0})"],
    "bytes": ["CONCAT({0},x'00')", "REVERSE({0})", "LEFT({0},2)", "UPPER({0})"], "enum": ["{0}+1", "{0}"],
    "date": ["{0}+INTERVAL 1 DAY", "{0}-INTERVAL 1 MONTH"], "year": ["{0}+1"], "net": ["{0}"],
    "datetime": ["{0}+INTERVAL 1 SECOND", "{0}+INTERVAL 1 MICROSECOND", "NOW(6)"],
    "time": ["ADDTIME({0},'00:00:01.000001')", "-{0}"],
}
DEFAULTS = {"number": "0", "real": "0.5", "bit": "1", "text": "'a'", "bytes": "x'61'", "date": "'2024-02-29'",
            "time": "'-00:00:01'", "year": "2024"}


class Column:
    """A column. `family` selects suitable expressions; `pool` has literals that it can mostly hold."""

    def __init__(self, name, kind, family, pool, keyed=True, prefix=0):
        self.name, self.kind, self.family, self.pool = name, kind, family, pool
        self.keyed, self.prefix = keyed, prefix  # prefix: length of its part in a key; 0: all
        self.null = True
        self.auto = False
        self.more = ""  # what follows NULL or NOT NULL

    @property
    def sql(self):
        return ident(self.name)

    def definition(self):
        return f"{self.sql} {self.kind} {'NULL' if self.null else 'NOT NULL'}{self.more}"

    def dress(self, rand, invisible):
        """Gives the column a default, and may hide it."""
        default, r = DEFAULTS.get(self.family), rand.random()
        if self.family == "text" and "(255)" in self.kind and rand.random() < 0.5:
            default = "'it''s'" if MYSQL else "(UUID())"
        if r < 0.15 and default and "COMPRESSED" not in self.kind and "(0)" not in self.kind:
            self.more = f" DEFAULT {default}"
        elif r < 0.5 and self.family == "datetime":
            digits = self.kind.partition("(")[2].rstrip(")")
            self.more = f" DEFAULT CURRENT_TIMESTAMP({digits}) ON UPDATE CURRENT_TIMESTAMP({digits})"
        if invisible and rand.random() < 0.1 and (self.null or self.more):
            self.more = " INVISIBLE" + self.more

    def show(self):
        self.more = self.more.replace(" INVISIBLE", "")

    def by_number(self, rand):
        """Returns a value for the row of number `seq`."""
        text = f"CONCAT({rand.choice(self.pool)},seq)" if rand.random() < 0.3 else "CONCAT('r',seq)"
        return {
            "number": rand.choice(("seq", "seq", "seq*7", "seq DIV 3")), "real": "seq/3", "bit": "seq",
            "text": text, "bytes": "UNHEX(LPAD(HEX(seq),6,'0'))", "enum": "1+seq%2",
            "date": "'2000-01-01'+INTERVAL seq DAY", "datetime": "'2000-01-01'+INTERVAL seq HOUR",
            "time": "SEC_TO_TIME(seq)", "year": "2000+seq%100",
            "net": f"ELT(1+seq%3,{','.join(rand.choice(self.pool) for _ in range(3))})",
        }[self.family]


def integers(rand, name):
    kind, size = rand.choice((("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("INT", 32),
                              ("BIGINT", 64)))
    sign = rand.choice(("", "", " UNSIGNED", " ZEROFILL"))
    low, high = (0, 2 ** size - 1) if sign else (-2 ** (size - 1), 2 ** (size - 1) - 1)
    pool = [low, high, high - 1, *range(1, 60)] + ([] if sign else [-1, -2])
    return Column(name, kind + sign, "number", [str(v) for v in pool])


def decimals(rand, name):
    digits = rand.choice((1, 5, 9, 10, 18, 19, 30, 65))
    scale = rand.randrange(min(digits, 30 if MYSQL else 38) + 1) if rand.random() < 0.7 else 0
    sign = rand.choice(("", "", " UNSIGNED", " ZEROFILL"))
    pool = ["0", "1", "9" * digits, "-0.4", "0.5", "1.5", "-1", "2", "3", "4"]
    for _ in range(12):
        whole = "".join(rand.choice("0123456789") for _ in range(rand.randrange(digits - scale + 1)))
        point = "".join(rand.choice("0123456789") for _ in range(scale))
        pool.append(rand.choice(("", "-")) + (whole or "0") + ("." + point if point else ""))
    return Column(name, f"DECIMAL({digits},{scale}){sign}", "number", pool)


def reals(rand, name):
    kind = rand.choice(("FLOAT", "DOUBLE", "DOUBLE", "FLOAT(7,3)", "DOUBLE(20,5)", "FLOAT UNSIGNED",
                        "FLOAT(53)"))
    pool = FLOATS if kind.startswith("FLOAT") and "53" not in kind else DOUBLES
    return Column(name, kind, "real",
                  pool + [repr(rand.random() * 10 ** rand.randrange(-9, 20)) for _ in range(12)])


def bits(rand, name):
    width = rand.choice((1, 2, 7, 8, 9, 16, 31, 33, 63, 64))
    values = [0, 1, 2, 3, 2 ** 64 - 1, 0x5C27000D0A1A2260, 0x2D31, 0x2D3130, 0x31653230, *(rand.getrandbits(64) for _ in range(8))]
    return Column(name, f"BIT({width})", "bit", [str(v & (2 ** width - 1)) for v in values])


def texts(rand, name):
    charset = rand.choice(list(COLLATIONS))
    kind, packed = rand.choice(("CHAR", "VARCHAR", "VARCHAR")), ""
    length = rand.choice((1, 5, 20, 60, 60, 200, 255))
    more = rand.random()
    if more < 0.02:
        kind, length = "CHAR", 0
    elif more < 0.05:
        kind, length = "VARCHAR", rand.choice((300, 3000))
    elif more < 0.1:
        kind, length, packed = "VARCHAR", *LONG_ENOUGH
    pool = [q(t) for t in [*TEXTS, CHARSETS.get(charset, "x"), "long " * 50, *map(str, range(10, 30))]]
    if charset in ("latin1", "cp1251"):
        pool += [f"_{charset} x'ff8100'", f"_{charset} x'985c27'"]
    if charset == "ucs2":
        pool.append("_ucs2 x'd8000061'")
    short = length * WIDTH.get(charset, 1) <= 500
    collation = rand.choice(COLLATIONS[charset])
    # MySQL's hash of these misses some equal values: see test_rows_that_share_a_key().
    hashed = not (MYSQL and collation.endswith("_unicode_ci"))
    return Column(name, f"{kind}({length}){packed} CHARACTER SET {charset} COLLATE {collation}", "text", pool,
                  keyed=length > 0 and not packed and hashed, prefix=0 if short else 10)


def blobs(rand, name):
    kind, length, packed = rand.choice(("BINARY", "VARBINARY")), rand.choice((1, 3, 8, 16, 64, 255)), ""
    if rand.random() < 0.1:
        kind, length, packed = "VARBINARY", *LONG_ENOUGH
    pool = [b"", b"\0", b" ", b"a", b"a\0", b"a ", b"\xff\xfe", b"\n'\\\"", bytes(range(250)),
            *(rand.randbytes(rand.randrange(length + 1)) for _ in range(12))]
    return Column(name, f"{kind}({length}){packed}", "bytes", [q(v) for v in pool], keyed=not packed)


def choices(rand, name):
    return of_members(rand, name, rand.sample(MEMBERS, rand.randrange(1, len(MEMBERS))),
                      rand.choice(("utf8mb4", "utf8mb4", "latin1")))


def strange_choices(rand, name):
    return of_members(rand, name, [*rand.sample(MEMBERS, 4), rand.choice(("?", "", "Ő★"))],
                      rand.choice(("utf8mb4", "ucs2")))


def of_members(rand, name, listed, charset):
    text = ",".join(f"'{m}'" for m in listed) + f") CHARACTER SET {charset}"
    if rand.random() < 0.6:
        return Column(name, f"ENUM({text}", "enum", [str(i + 1) for i in range(len(listed))] + ["'nobody'"])
    if rand.random() < 0.3:
        text, listed = ",".join(f"'m{i}'" for i in range(64)) + ")", range(64)
    pool = [str(rand.getrandbits(len(listed))) for _ in range(8)] + ["''", str(2 ** len(listed) - 1)]
    return Column(name, f"SET({text}", "enum", pool)


def dates(rand, name):
    which, digits = rand.choice(("DATE", "TIME", "DATETIME", "TIMESTAMP", "YEAR")), rand.randrange(7)
    if which == "DATE":
        return Column(name, "DATE", "date",
                      [f"'{d}'" for d in DATES] + [f"'2024-05-{i:02}'" for i in range(1, 20)])
    if which == "TIME":
        return Column(name, f"TIME({digits})", "time",
                      [f"'{c}'" for c in CLOCKS] + [f"'0{i % 9}:{i}:00.{i}'" for i in range(10, 22)])
    if which == "YEAR":
        return Column(name, "YEAR", "year", ["0", "1901", "2155", "2000", *map(str, range(2001, 2012))])
    days = DATES[:5] if which == "DATETIME" else ["1970-01-01", "2038-01-19", "2001-09-09", "2024-02-29"]
    clocks = "00:00:01", "03:14:07.999999", "01:30:00.5", "02:30:00.123456"
    return Column(name, f"{which}({digits})", "datetime",
                  [f"'{d} {rand.choice(clocks)}'" for d in days for _ in range(4)] +
                  ["'0000-00-00 00:00:00'"])


def nets(rand, name):
    kinds = [
        ("UUID", (10, 7), ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
                           "5c275c27-1a0d-0a00-2260-0123456789ab", "01890a5d-ac96-774b-bcce-b302099a8057"] +
         [f"{rand.getrandbits(32):08x}-1111-{rand.choice('1478')}222-{rand.choice('07bf')}333-{i:012x}"
          for i in range(10)]),
        ("INET6", (10, 5), ["::", "::1", "ffff:ffff::", "::ffff:92.39.13.10", "1:0:0:2::3"] +
         [f"fe80::{i:x}:{i * 7:x}" for i in range(10)]),
        ("INET4", (10, 10), ["0.0.0.0", "255.255.255.255", *(f"10.0.{i}.{i * 3}" for i in range(10))]),
    ]
    kind, _, pool = rand.choice([k for k in kinds if version() >= k[1]])
    return Column(name, kind, "net", [f"'{v}'" for v in pool])


KINDS = [integers, integers, integers, decimals, reals, bits, texts, texts, texts, blobs, choices, dates,
         dates, *([] if MYSQL else [nets])]
