"""The zoo: a world with every column type that a MEMORY table can have, at its limits. A type that only one kind of server has
is replaced by a similar one on the other."""
from .server import MYSQL, version
from .util import ident

MEMORY = "ENGINE=MEMORY"
CHARSETS = {  # a text that each can hold; the East Asian ones with 0x5C as a second byte
    "utf8mb4": "Ő ★ 𝄞 ß \u200b", "utf8mb3": "Bolygó ★", "latin1": "játékos ÿ €", "cp1251": "Привет №",
    "cp1250": "Őrült űr", "latin2": "Őrült űr", "koi8r": "Привет", "ujis": "日本語 ソ",
    "sjis": "表ソ能", "gbk": "縗許功", "big5": "許功蓋", "ucs2": "Ő ★ 日本",
    "utf16": "Ő 𝄞 日本", "utf16le": "Ő 𝄞", "utf32": "Ő 𝄞", "ascii": "plain \\ '\"`", "hebrew": "שלום",
    "gb2312": "中文", "euckr": "한글", "tis620": "ไทย", "cp932": "表ソ①", "eucjpms": "日本①",
}
if MYSQL:
    CHARSETS["gb18030"] = "縗 Ő 𝄞 \u200b"
# Names that break tools: quotes, comments, client commands, ends of statements, format characters, control characters.
NAMES = [
    "select", "a`b", "a'b", 'a"b', "a;b", "a-- b", "a*/b", "/*!a", "a%s%n", "a\\!b", "a\\", "a\nb",
    "a\rb", "a\tb", "a b", "#hash", "table", "Case", "case", "Őrült_★_日本", "0", "1e5", "@a", "a.b",
    "a/b", "..", "n" * 64, "Ű" * 64, "a`; DROP TABLE x; -- `\n\\! id\nb", "$x", "a$(id)b", "a\x01b",
    "a\x7fb", "DELIMITER", "null", "=a", "<b>&amp;", "{\"a\":1}",
]


def q(value):
    """Returns an SQL literal whose bytes do not depend on any mode: text as UTF-8, bytes unchanged."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "x'" + value.hex() + "'"
    if isinstance(value, str):
        return "_utf8mb4 x'" + value.encode().hex() + "'"
    return str(value)


def table(name, columns, rows=(), options=MEMORY, into=None):
    """Yields CREATE TABLE and one INSERT; values in `rows` are SQL text."""
    yield f"CREATE TABLE {ident(name)} ({', '.join(columns)}) {options}"
    if rows:
        values = ",".join("(" + ",".join(str(v) for v in row) + ")" for row in rows)
        yield f"INSERT INTO {ident(name)} {into or ''} VALUES {values}"


def numbers():
    columns, low, high = [], [], []
    for kind, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32),
                       ("BIGINT", 64)):
        columns += [f"{kind.lower()}_s {kind}", f"{kind.lower()}_u {kind} UNSIGNED",
                    f"{kind.lower()}_z {kind} ZEROFILL"]
        low += [-2 ** (bits - 1), 0, 0]
        high += [2 ** (bits - 1) - 1, 2 ** bits - 1, 2 ** bits - 1]
    yield from table("z_int", ["id INT PRIMARY KEY", *columns, "b BOOL NOT NULL"],
                     [[1, *low, 0], [2, *high, 1], [3, *["NULL"] * len(low), -128],
                      [4, *[0] * len(low), 127]])
    floats = ["16777215", "1e-45", "3.4028234663852886e38", "-3.4028234663852886e38", "0.1",
              "-0e0", "1.17549435e-38", "123456.789", "9.99999e-10", "33554430"]
    doubles = ["5e-324", "1.7976931348623157e308", "-1.7976931348623157e308", "-0e0", "0.1",
               "2.2250738585072014e-308", "9007199254740993", "0.30000000000000004", "1e23",
               "123456789012345678"]
    yield from table(
        "z_float", ["id INT PRIMARY KEY", "f FLOAT", "d DOUBLE", "fu FLOAT UNSIGNED",
                    "f73 FLOAT(7,3)", "d205 DOUBLE(20,5)", "f53 FLOAT(53)", "fz FLOAT ZEROFILL"],
        [[i, f, d, f.lstrip("-"), f"{i}.125", f"{i}.00001", d, i]
         for i, (f, d) in enumerate(zip(floats, doubles))] + [[99] + ["NULL"] * 7])
    nines = "9" * 35 + "." + "9" * 30
    digits = 30 if MYSQL else 38  # decimals
    yield from table(
        "z_dec", ["id INT PRIMARY KEY", "a DECIMAL(65,30)", "b DECIMAL(65,0)", "c DECIMAL(1,0)",
                  f"d DECIMAL({digits},{digits})", "e DECIMAL(10,3) UNSIGNED ZEROFILL"],
        [[1, nines, "9" * 65, 9, "0." + "9" * digits, "0.001"],
         [2, "-" + nines, "-" + "9" * 65, -9, "-0." + "9" * digits, "9999999.999"],
         [3, "0." + "0" * 29 + "1", 0, 0, 0, 0], [4] + ["NULL"] * 5])


def times():
    top = "838:59:58.999999" if MYSQL else "838:59:59.999999"  # the highest with all decimals
    yield from table(
        "z_time", ["id INT PRIMARY KEY", "d DATE", "dt DATETIME", "dt6 DATETIME(6)", "t TIME",
                   "t6 TIME(6)", "t3 TIME(3)", "y YEAR", "ts TIMESTAMP NULL",
                   "ts6 TIMESTAMP(6) NULL"],
        [[1, "'0000-00-00'", "'0000-00-00 00:00:00'", "'0000-00-00 00:00:00.000000'", "'00:00:00'",
          f"'-{top}'", "'-00:00:00.001'", 0, "'0000-00-00 00:00:00'",
          "'0000-00-00 00:00:00'"],
         [2, "'2024-02-30'", "'2024-02-31 23:59:59'", "'2024-04-31 12:00:00.000001'", "'838:59:59'",
          f"'{top}'", f"'{top[:-3]}'", 1901, "'1970-01-01 00:00:01'",
          "'2038-01-19 03:14:07.999999'"],
         [3, "'9999-12-31'", "'9999-12-31 23:59:59'", "'9999-12-31 23:59:59.999999'",
          "'-838:59:59'", "'-00:00:00.000001'", "'00:00:00'", 2155, "'2024-10-27 01:30:00'",
          "'2024-10-27 00:30:00.123456'"],
         [4, "'2024-00-00'", "'2024-11-00 00:00:00'", "'0001-01-01 00:00:00.5'", "'00:00:01'",
          "'00:00:00.5'", "'12:34:56.789'", 2000, "'2001-09-09 01:46:40'", "'2001-09-09 01:46:40'"],
         [5] + ["NULL"] * 9])
    yield from table(  # automatic columns must keep their values
        "z_now", ["id INT PRIMARY KEY",
                  "made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
                  "seen DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"],
        [[1, "'2001-02-03 04:05:06'", "'2001-02-03 04:05:06.789'"], [2, "'2002-02-02'", "NULL"]])


def choices():
    members = ["a", "B c", "it''s", 'say "x"', "back\\\\slash", "%", "Ő★", "`", "0", "NULL"]
    listed = ",".join(f"'{m}'" for m in members)
    flags = ",".join(f"'m{i}'" for i in range(64))
    everyone = "'" + ",".join(f"m{i}" for i in range(64)) + "'"
    yield from table(
        "z_enum", ["id INT PRIMARY KEY", f"e ENUM({listed}) CHARACTER SET utf8mb4",
                   "e2 ENUM('','x') NOT NULL", f"s SET({flags})", "s2 SET('','one','two')"],
        [[i, i, 1 + i % 2, f"'m{i}'", i % 8] for i in range(1, 11)]
        + [[20, "NULL", 1, "NULL", "NULL"], [22, 7, 2, everyone, "'one,two'"], [23, 1, 1, "''", 1],
           [24, 2, 2, "'m0,m63'", 0]])
    yield "SET @m=@@sql_mode, sql_mode=''"
    yield "INSERT IGNORE INTO z_enum VALUES (21,'no such member','nor this','m1',0)"  # index 0
    yield "SET sql_mode=@m"
    widths = (1, 2, 7, 8, 9, 16, 31, 32, 33, 63, 64)
    yield from table(
        "z_bit", ["id INT PRIMARY KEY", *(f"b{w} BIT({w})" for w in widths)],
        [[1, *[2 ** w - 1 for w in widths]], [2, *[0] * len(widths)],
         [3, *[2 ** (w - 1) for w in widths]], [4, *["NULL"] * len(widths)],
         [5, *[0x5C27000D0A1A2260 & (2 ** w - 1) for w in widths]]])


def bytes_and_text():
    everything = bytes(range(256))
    yield from table(
        "z_bin", ["id INT PRIMARY KEY", "b BINARY(255)", "v VARBINARY(512)", "b1 BINARY(1)",
                  "vk VARBINARY(8) NOT NULL", "KEY (vk)"],
        [[1, q(everything[:255]), q(everything), q(b"\0"), q(b"\0")],
         [2, q(everything[1:]), q(everything[::-1]), q(b" "), q(b" ")],
         [3, "''", "''", "''", "''"], [4, "NULL", "NULL", "NULL", q(b"\0\0")],
         [5, q(b"trailing \0 "), q(b"trailing  "), q(b"\n"), q(b"a\0 ")]])
    columns = [f"`{c}` VARCHAR(40) CHARACTER SET {c}" for c in CHARSETS]
    fixed = [f"`{c}_c` CHAR(12) CHARACTER SET {c}" for c in CHARSETS]
    texts = [q(t) for t in CHARSETS.values()]
    yield from table("z_text", ["id INT PRIMARY KEY", *columns, *fixed],
                     [[1, *texts, *texts], [2, *["''"] * 2 * len(texts)],
                      [3, *["NULL"] * 2 * len(texts)], [4, *[q(" x ")] * 2 * len(texts)],
                      [5, *[q("\\'\"\n")] * 2 * len(texts)]])
    # One-byte character sets hold any byte; ucs2 holds lone surrogates, which every converter refuses.
    yield from table("z_broken", ["id INT PRIMARY KEY", "l VARCHAR(256) CHARACTER SET latin1",
                                  "c VARCHAR(256) CHARACTER SET cp1251",
                                  "u VARCHAR(20) CHARACTER SET ucs2",
                                  "k VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"],
                     [[1, "_latin1 " + q(everything), "_cp1251 " + q(everything),
                       "_ucs2 " + q(b"\xd8\x00\x00a"), "''"],
                      [2, "_latin1 " + q(b"\xff\xfe\x81"), "_cp1251 " + q(b"\x98"),
                       "_ucs2 " + q(b"\xdc\x00"), q("\U0010ffff\ufeff")]])
    controls = [chr(i) for i in range(128)] + [
        "\r\n", "\n\r", "\\0", "\\Z", "\x1a", "''", "\\'", "\\\\'", "a\0b", "%s", "${HOME}", "\\.",
        "\\n.\\n", "NULL", "\\N", "-- ", "/*", "*/", ";\n", "\t", "\\", "\\!"]
    yield from table("z_ctl", ["id INT PRIMARY KEY", "t VARCHAR(20) CHARACTER SET utf8mb4"
                                                     " COLLATE utf8mb4_bin", "b VARBINARY(20)"],
                     [[i, q(c), q(c.encode())] for i, c in enumerate(controls)])
    if MYSQL:
        yield from collations()
        return
    # Each type in versions that have it: rows have the columns that exist.
    types = [("u UUID", (10, 7), "'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
              "NULL", "'5c275c27-1a0d-0a00-2260-0123456789ab'"),
             ("i4 INET4", (10, 10), "'0.0.0.0'", "'255.255.255.255'", "NULL", "'92.39.13.10'"),
             ("i6 INET6", (10, 5), "'::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "NULL", "'::ffff:92.39.13.10'")]
    types = [t for t in types if version() >= t[1]]
    yield from table("z_net", ["id INT PRIMARY KEY", *(t[0] for t in types)],
                     [[i + 1, *(t[2 + i] for t in types)] for i in range(4)])
    if version() >= (11, 7):
        yield from table(
            "z_vector", ["id INT PRIMARY KEY", "v VECTOR(3)", "w VECTOR(1) NOT NULL DEFAULT x'0000803f'"],
            [[1, q(b"\0\0\x80\x7f\0\0\xc0\xff\x5c\x27\x0a\x00"), "DEFAULT"],
             [2, "NULL", "VEC_FromText('[-0.0]')"], [3, "VEC_FromText('[1,2.5,-3e38]')", q(b"\1\0\0\0")]])


def collations():
    """Yields MySQL's own collations: they do not pad, and distinguish what others consider equal keys."""
    texts = ["", " ", "a", "a ", "Á", "ß", "Ő★", "\\'\"", "𝄞", "\0x", "\u200by"]
    yield from table(
        "z_net", ["id INT PRIMARY KEY", "ai VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
                  "u VARCHAR(20) COLLATE utf8mb4_0900_as_cs NOT NULL UNIQUE",
                  "h CHAR(20) COLLATE utf8mb4_hu_0900_as_cs", "b VARCHAR(20) COLLATE utf8mb4_0900_bin",
                  "ja VARCHAR(20) COLLATE utf8mb4_ja_0900_as_cs_ks", "KEY (ai) USING BTREE", "KEY (b)",
                  "KEY (ja,h) USING BTREE"],
        [[i, *[q(t)] * 5] for i, t in enumerate(texts)]
        + [[99, "NULL", "'only'", "NULL", "NULL", "NULL"]])


def shapes():
    # Row 3 violates both checks.
    late, e, u = (" NOT ENFORCED", "2", "'u'") if MYSQL else ("", "(1 + 1)", "(uuid())")
    yield from table(
        "z_hidden", ["id INT PRIMARY KEY", "shown INT", "hidden INT INVISIBLE DEFAULT 7",
                     f"checked INT CHECK (checked > 0){late}", f"e INT DEFAULT {e}",
                     f"u VARCHAR(36) DEFAULT {u}",
                     f"CONSTRAINT `why not?` CHECK (shown <> hidden){late}",
                     "CONSTRAINT `does``;` CHECK (id < 10000 and u <> 'it''s; -- no')"],
        [[1, 2, 3, 4, 5, "'x'"], [2, "NULL", "NULL", "NULL", "NULL", "NULL"]],
        into="(id,shown,hidden,checked,e,u)")
    if not MYSQL:
        yield "SET check_constraint_checks=0"
    yield "INSERT INTO z_hidden (id,shown,hidden,checked) VALUES (3,5,5,-1)"
    if not MYSQL:
        yield "SET check_constraint_checks=1"
    yield from table("z_auto", ["id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY", "v INT"],
                     [[0, 1], [5, 2], [4000000000, 3]])
    yield from table("z_auto_above", ["id BIGINT AUTO_INCREMENT PRIMARY KEY", "v INT"],
                     [[-5, 0], [1, 1], [2, 2]])
    yield "ALTER TABLE z_auto_above AUTO_INCREMENT=1000"
    yield from table("z_auto_empty", ["id SMALLINT AUTO_INCREMENT PRIMARY KEY"])
    yield "ALTER TABLE z_auto_empty AUTO_INCREMENT=777"
    yield from table("z_auto_second", ["a INT", "id INT AUTO_INCREMENT UNIQUE", "PRIMARY KEY (a)"],
                     [[1, 10], [2, 20]])
    yield from table("z_no_key", ["a INT", "b VARCHAR(10)"],
                     [[1, "'x'"]] * 5 + [["NULL", "NULL"]] * 3 + [[2, "''"]])
    yield from table(
        "z_keys", ["id INT", "a INT NOT NULL", "b VARCHAR(50)", "c VARBINARY(20)", "d INT",
                   "PRIMARY KEY USING BTREE (id)", "UNIQUE KEY uh (a) USING HASH",
                   "UNIQUE KEY ub (b,a) USING BTREE", "KEY p (b(5)) USING BTREE", "KEY (c)",
                   "KEY `odd ``name` (d) USING BTREE COMMENT 'it''s; -- */'"],
        [[i, 1000 - i, f"'row {i % 7}'", q(bytes([i])), i % 3] for i in range(50)])
    yield from table("z_empty", ["id INT PRIMARY KEY", "v VARCHAR(10)"])
    yield from modern()
    yield from table("z_one", ["only_column TINYINT NULL"], [["NULL"], [1]])
    yield from table("z_wide", [f"c{i} INT" for i in range(400)], [range(400), ["NULL"] * 400])
    yield from table("z_long_row", ["id INT PRIMARY KEY", "t VARCHAR(16000) CHARACTER SET utf8mb4"],
                     [[1, q("𝄞" * 16000)], [2, q("\0'\\" * 5333)]])
    if MYSQL:
        yield from table("z_options2", ["id INT PRIMARY KEY"], [[1]],
                         "ENGINE=MEMORY PACK_KEYS=1 STATS_PERSISTENT=0 CHECKSUM=1 DELAY_KEY_WRITE=1 "
                         "ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=8 CHARACTER SET sjis")
    yield from table("z_options", ["id INT PRIMARY KEY COMMENT 'a column''s \"*/ -- comment'"],
                     [[1]], "ENGINE=MEMORY MAX_ROWS=5000 MIN_ROWS=10 AVG_ROW_LENGTH=20 "
                            "CHARACTER SET latin2 COLLATE latin2_hungarian_ci "
                            "COMMENT='ends */ ; -- it''s \\\\ \"here\"\n and there'")


def modern():
    rows = [["'2024-01-01'", "'2024-02-01'", q("long " * 90), q(b"\0\xff" * 200), 3],
            ["'2024-01-01'", "'2024-01-02'", "NULL", "''", "NULL"]]
    if not MYSQL:
        yield from table(
            "z_modern", ["id INT PRIMARY KEY", "a DATE", "b DATE", "PERIOD FOR p (a,b)",
                         "c VARCHAR(500) COMPRESSED", "d VARBINARY(500) COMPRESSED", "n INT",
                         *(["KEY down (n DESC) USING BTREE"] if version() >= (10, 8) else []),
                         *(["KEY unused (n) IGNORED"] if version() >= (10, 6) else [])],
            [[i, *row] for i, row in enumerate(rows, 1)])
        return
    yield from table(  # an unused key, an invisible column, options of other engines
        "z_modern", ["id INT PRIMARY KEY", "a DATE", "b DATE", "c VARCHAR(500)", "d VARBINARY(500)",
                     "n INT COMMENT 'n' SECONDARY_ENGINE_ATTRIBUTE '{\"it''s\": [1, \"*/\"]}'",
                     "my_row_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE INVISIBLE",
                     "KEY unused (n) INVISIBLE SECONDARY_ENGINE_ATTRIBUTE '{\"of\": \"a key; */\"}'",
                     "UNIQUE KEY `still; one` (c(9),n) USING BTREE INVISIBLE"],
        [[i, *row, 2 ** 64 - 10 + i] for i, row in enumerate(rows, 1)],
        MEMORY + " SECONDARY_ENGINE_ATTRIBUTE='{\"a\": null}'", "(id,a,b,c,d,n,my_row_id)")
    yield "SET sql_generate_invisible_primary_key=1"  # affects durable tables only
    yield from table("z_still_no_key", ["a INT"], [[1], [1]])
    yield "SET sql_generate_invisible_primary_key=0"


def names():
    for i, name in enumerate(NAMES):
        columns = ["id INT PRIMARY KEY", f"{ident('c' if name == 'id' else name)} VARCHAR(99)"]
        yield from table(name, columns, [[1, q(name)], [2, i]])


def definitions():
    """Yields objects whose definitions survive a restart: they must survive a restore, and not be executed."""
    yield from table("z_trigger_log", ["id INT AUTO_INCREMENT PRIMARY KEY", "what VARCHAR(20)"])
    yield from table("z_trigger", ["id INT PRIMARY KEY", "v VARCHAR(20)"],
                     [[1, "'as written'"], [2, "NULL"]])
    yield ("CREATE TRIGGER `z_before;` BEFORE INSERT ON z_trigger FOR EACH ROW "
           "SET NEW.v = CONCAT(COALESCE(NEW.v,''), ' BY THE TRIGGER')")
    yield ("CREATE TRIGGER z_after AFTER INSERT ON z_trigger FOR EACH ROW BEGIN "
           "INSERT INTO z_trigger_log (what) VALUES ('insert;'); END")
    yield ("CREATE TRIGGER z_delete AFTER DELETE ON z_trigger FOR EACH ROW "
           "INSERT INTO z_trigger_log (what) VALUES ('delete')")
    yield from table("z_trigger_odd", ["id INT PRIMARY KEY", "`a``b; \n-- ``` INT"])
    yield ("CREATE TRIGGER `z``odd` AFTER DELETE ON z_trigger FOR EACH ROW "
           "INSERT INTO z_trigger_odd (id,`a``b; \n-- ```) VALUES (OLD.id, '1')")
    yield "INSERT INTO z_trigger_log (what) VALUES ('old')"
    yield "CREATE VIEW z_view AS SELECT k.id, k.b, t.v FROM z_keys k LEFT JOIN z_trigger t USING (id)"
    yield "CREATE VIEW `z view of ``a view;` AS SELECT COUNT(*) AS `n``` FROM z_view"
    if MYSQL:
        yield ("CREATE JSON DUALITY VIEW z_duality AS SELECT JSON_DUALITY_OBJECT('_id': id, 'n;': int_s) "
               "FROM z_int")
    yield ("CREATE PROCEDURE z_procedure(a INT) BEGIN DECLARE x INT; "
           "SELECT COUNT(*) INTO x FROM z_keys WHERE id < a; SELECT x; END")
    yield "CREATE FUNCTION z_function() RETURNS INT DETERMINISTIC RETURN 42 -- ends; here"
    yield ("CREATE EVENT z_event ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01 00:00:00' DISABLE "
           "COMMENT 'it''s an event;' DO INSERT INTO z_trigger_log (what) VALUES ('event')")


def memory_zoo():
    for part in (numbers, times, choices, bytes_and_text, shapes, names, definitions):
        yield from part()


def durable_zoo():
    """Yields tables that a restart does not empty, in the same schema (for engines = all)."""
    big = bytes(range(256)) * 4096
    yield from table(
        "d_inno", ["id INT AUTO_INCREMENT PRIMARY KEY", "b LONGBLOB", "t LONGTEXT", "j JSON",
                   "g GEOMETRY", "p POINT", "n INT", "n2 INT AS (n*2) VIRTUAL",
                   "n3 INT AS (n*3) STORED", "KEY (n3)", "FULLTEXT KEY (t)"],
        [[1, q(big), q("Ő" * 70000), "'{\"a\": [1, null, \"é\"]}'", "ST_GeomFromText('POINT(1 -2.5)')",
          "POINT(0.1, 1e300)", 5],
         [2, "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"],
         [3, "''", "''", "'[]'", "ST_GeomFromText('POLYGON((0 0,0 1,1 1,0 0))')", "NULL", -1]],
        "ENGINE=InnoDB", "(id,b,t,j,g,p,n)")
    yield "CREATE TABLE d_parent (id INT PRIMARY KEY, best INT, KEY (best)) ENGINE=InnoDB"
    yield ("CREATE TABLE a_child (id INT PRIMARY KEY, parent INT, CONSTRAINT fk_up FOREIGN KEY "
           "(parent) REFERENCES d_parent (id) ON DELETE CASCADE) ENGINE=InnoDB")
    yield "ALTER TABLE d_parent ADD CONSTRAINT fk_down FOREIGN KEY (best) REFERENCES a_child (id)"
    yield "INSERT INTO d_parent VALUES (1,NULL),(2,NULL)"
    yield "INSERT INTO a_child VALUES (10,1),(20,2),(30,NULL)"
    yield "UPDATE d_parent SET best=id*10"
    yield from table("d_aria", ["id INT PRIMARY KEY", "v TEXT"], [[1, q("Ária\0\\")], [2, "NULL"]],
                     "ENGINE=InnoDB" if MYSQL else "ENGINE=Aria")
    if MYSQL:
        yield from durable_mysql()
    if not MYSQL and version() >= (11, 7):
        yield from table("d_vector", ["id INT PRIMARY KEY", "v VECTOR(2) NOT NULL", "VECTOR KEY (v) M=8 "
                                      "DISTANCE=cosine"], [[1, "VEC_FromText('[1,2]')"]], "ENGINE=InnoDB")
    yield from table("d_myisam", ["a INT NOT NULL", "id INT AUTO_INCREMENT", "v BLOB",
                                  "PRIMARY KEY (a,id)"],
                     [[1, 1, q(b"\0\xff")], [1, 2, "NULL"], [2, 1, "''"]], "ENGINE=MyISAM")
    yield "FLUSH TABLES d_myisam"  # closed, so that SIGKILL does not damage it: MyISAM has no recovery


def durable_mysql():
    """Yields what only MySQL's InnoDB has."""
    yield from table(
        "d_modern", ["id INT PRIMARY KEY", "v VECTOR(3)", "j JSON DEFAULT (JSON_ARRAY('it''s'))",
                     "u VARCHAR(36) DEFAULT (uuid())", "t TEXT DEFAULT ('x;')", "n INT DEFAULT (1 + 1)",
                     "hidden INT AS (n * 2) STORED INVISIBLE", "g GEOMETRY SRID 4326",
                     "p POINT NOT NULL SRID 0", "SPATIAL KEY (p)", "KEY down (n DESC, id)",
                     "KEY f ((n + 1), (CAST(j->'$.a' AS CHAR(20))) DESC)",
                     "KEY many ((CAST(j->'$.x' AS UNSIGNED ARRAY)))", "KEY unused (n) INVISIBLE"],
        [[1, "x'0000803f000000c0ffff7f7f'", "'{\"a\":1.0,\"x\":[3,1],\"é\":\"\\\\u0000\"}'", "'u'", "''", 5,
          "ST_GeomFromText('POINT(10.5 -20)',4326)", "POINT(1,-2)"],
         [2, "NULL", "'18446744073709551615'", "NULL", "NULL", "NULL", "NULL", "POINT(0,0)"],
         [3, "NULL", "'null'", "NULL", "NULL", "NULL",
          "ST_GeomFromText('MULTIPOINT((0 0),(1 2))',4326)", "POINT(0.1,1e300)"],
         [4] + ["DEFAULT"] * 6 + ["POINT(3,3)"]],
        "ENGINE=InnoDB COMMENT='/*!80016 */ ;'", "(id,v,j,u,t,n,g,p)")
    yield "SET sql_generate_invisible_primary_key=1"
    yield from table("d_no_key", ["a INT"], [[1], [1], ["NULL"]], "ENGINE=InnoDB")
    yield "DELETE FROM d_no_key WHERE a IS NULL"
    yield "SET sql_generate_invisible_primary_key=0"
    yield from table("d_parts", ["id INT PRIMARY KEY", "v VARCHAR(9)"], [[1, "'a'"], [99, "NULL"]],
                     "ENGINE=InnoDB PARTITION BY RANGE (id) (PARTITION `p;0` VALUES LESS THAN (10), "
                     "PARTITION p1 VALUES LESS THAN MAXVALUE)")
