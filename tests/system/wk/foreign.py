"""Files as other tools write them: phpMyAdmin, HeidiSQL, Adminer and SQLyog from what is known of their formats, with random
tables and options; mysqldump and mydumper, which are really run; and random statements of the grammar that a restore accepts."""
import glob
import os
import subprocess

from .server import MYSQL, client, words
from .util import ident

TEXTS = ["", "a", "A b", "it's", 'say "x"', "back\\slash", "new\nline\r\ttab", "árvíz", "ÿþ", "null", "0", "-- no comment",
         "/* nor; this */", "`tick`", ";", "%_", "x" * 60]
WIDE = ["Ő ★ 日本", "😀", "žluťoučký", "ß ss"]
BYTES = [b"", b"\0", b"\xff\xfe\n'\"\\", b"plain", bytes(range(200, 256)), b"\x1a;"]
MODES = ["NO_AUTO_VALUE_ON_ZERO", "NO_AUTO_VALUE_ON_ZERO", "", "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO", "TRADITIONAL",
         "ALLOW_INVALID_DATES"]


class Column:
    def __init__(self, rand, name):
        self.name, self.auto, self.null = name, False, rand.random() < 0.6
        self.kind, self.type, self.pool = rand.choice((
            ("number", "int(11)", ["0", "1", "-5", "2147483647", "17"]),
            ("number", "bigint(20) unsigned", ["0", "18446744073709551615", "3"]),
            ("number", "decimal(9,3)", ["0.000", "-1.500", "123456.789"]),
            ("number", "double", ["0", "0.1", "1e-10", "-7.25"]),
            ("number", "float(7,3)", ["0.000", "1.125", "-7.250"]),
            ("text", "varchar(80) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", TEXTS + WIDE),
            ("text", "varchar(80) CHARACTER SET latin1", TEXTS),
            ("text", "char(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", TEXTS + WIDE),
            ("text", "enum('a','A b','it''s')", ["a", "A b", "it's"]),
            ("bytes", "varbinary(90)", BYTES), ("bytes", "binary(9)", BYTES[:4]),
            ("text", "datetime(3)", ["2024-02-29 12:00:00.125", "1999-12-31 23:59:59.999"]),
            ("text", "date", ["2024-02-29", "1000-01-01"]), ("text", "time", ["-12:34:56", "838:59:59"]),
            ("text", "timestamp NULL", ["2020-01-01 10:00:00", "2038-01-18 00:00:00"]),
            ("bits", "bit(9)", [0, 1, 5, 511])))
        if MYSQL:
            self.type = self.type.replace("(11)", "").replace("(20)", "")

    def definition(self, auto=True):
        return (f"{ident(self.name)} {self.type.replace(' NULL', '')}{' NULL' if self.null else ' NOT NULL'}"
                f"{' AUTO_INCREMENT' if self.auto and auto else ''}")


class Table:
    def __init__(self, rand, name, rows):
        self.name = name
        self.columns = [Column(rand, n) for n in rand.sample(["v", "w", "x y", "key", "ő", "z`t"], rand.randrange(1, 5))]
        number = Column(rand, "id")
        number.kind, number.type, number.pool, number.null = "number", "int", None, False
        self.counted = rand.random() < 0.7
        number.auto = self.counted
        self.columns.insert(rand.randrange(len(self.columns) + 1), number)
        self.keys = ["PRIMARY KEY (`id`)"]
        for i, c in enumerate(self.columns):
            if c.name != "id" and rand.random() < 0.4:
                self.keys.append(f"KEY `k{i}` ({ident(c.name)}){rand.choice(('', ' USING BTREE', ' USING HASH'))}")
        ids = rand.sample(range(0 if rand.random() < 0.3 else 1, 400), rows)
        self.rows = [[str(i) if c.name == "id" else None if c.null and rand.random() < 0.2 else rand.choice(c.pool)
                      for c in self.columns] for i in ids]
        self.counter = rand.choice((0, 0, 501, 7))

    def options(self, counter=True):
        return (f"ENGINE=MEMORY{f' AUTO_INCREMENT={self.counter}' if counter and self.counted and self.counter else ''}"
                " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci")


def quoted(v, quote="'"):
    """Returns a string literal as clients in PHP, Delphi and C escape it."""
    if isinstance(v, bytes):
        v = v.decode("latin1")
    for plain, escaped in (("\\", "\\\\"), ("\0", "\\0"), ("\n", "\\n"), ("\r", "\\r"), ("\x1a", "\\Z"),
                           (quote, "\\" + quote)):
        v = v.replace(plain, escaped)
    return quote + v + quote


class Writer:
    """One file of a tool. `names` is the character set that it declares and in which its text is."""

    bits, quote = "b'{:b}'", "'"
    view_engine = ""

    def __init__(self, rand, tables, schema, view=True):
        self.rand, self.tables, self.schema, self.view = rand, tables, schema, view
        self.out = []
        self.mode = rand.choice(MODES)
        self.names = "latin1" if rand.random() < 0.15 and self.fits_latin1() else "utf8mb4"
        self.verb = rand.choice(("INSERT INTO", "INSERT INTO", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"))
        self.listed = rand.random() < 0.7
        self.drops = rand.random() < 0.7

    def fits_latin1(self):
        texts = [t.name for t in self.tables] + [c.name for t in self.tables for c in t.columns]
        texts += [v for t in self.tables for row in t.rows for v in row if isinstance(v, str)]
        return all(ord(c) < 0x80 for t in texts[:len(self.tables) * 9] for c in t if len(t) < 6) and all(
            0x80 > ord(c) or 0xa0 <= ord(c) <= 0xff for t in texts for c in t) and not any(
            ord(ch) >= 0x80 for t in self.tables for c in t.columns for ch in c.name)

    def add(self, text):
        self.out.append(text + "\n")

    def said(self):
        """Sometimes adds a comment, as a tool or a person may."""
        if self.rand.random() < 0.3:
            self.add(self.rand.choice(("-- it's a comment; here", "# another 'one", "/* a;\nlong `one */", "", "/* x */;",
                                       "--", "/*!99999 DROP TABLE nothing */;", "/*M!999999\\- sandbox */")))

    def literal(self, c, v):
        if v is None:
            return "NULL"
        if c.kind == "number":
            return v
        if c.kind == "bits":
            return self.bits.format(v)
        if c.kind == "bytes":
            return self.of_bytes(v)
        return quoted(v, self.quote)

    def of_bytes(self, v):
        return "0x" + v.hex() if v else "''"

    def rows(self, t, name, separator=",\n"):
        columns = f" ({', '.join(ident(c.name) for c in t.columns)})" if self.listed else ""
        per = self.rand.choice((1, 3, 1000))
        for i in range(0, len(t.rows), per):
            rows = separator.join(f"({', '.join(self.literal(c, v) for c, v in zip(t.columns, row))})"
                                  for row in t.rows[i:i + per])
            self.add(f"{self.verb} {name}{columns} VALUES\n{rows};")
            self.said()

    def create(self, t, keys=True, auto=True):
        lines = [c.definition(auto) for c in t.columns] + (t.keys if keys else [])
        body = ",\n  ".join(lines)
        self.add(f"CREATE TABLE {self.rand.choice(('', 'IF NOT EXISTS '))}{ident(t.name)} (\n  {body}\n) "
                 f"{t.options(auto)};")

    def stand_in(self):
        if self.view:
            self.add(f"CREATE TABLE `a_view` (\n`a` int(1)\n){self.view_engine};".replace("(1)", "" if MYSQL else "(1)"))

    def final_view(self):
        if self.view:
            self.add("DROP TABLE IF EXISTS `a_view`;\nCREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY "
                     "DEFINER VIEW `a_view` AS select 1 AS `a`;")

    def text(self):
        self.write()
        self.ended = self.closes
        return "".join(self.out).encode("latin1" if self.names == "latin1" else "utf-8", "surrogateescape")


class PhpMyAdmin(Writer):
    closes = True

    def write(self):
        self.add(f'-- phpMyAdmin SQL Dump\n-- version 5.2.1\n\nSET SQL_MODE = "{self.mode}";\nSTART TRANSACTION;\n'
                 'SET time_zone = "+00:00";\n\n/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;\n'
                 "/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;\n"
                 "/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;\n"
                 f"/*!40101 SET NAMES {self.names} */;")
        for t in self.tables:
            self.add(f"\n-- --------\n\n--\n-- Table structure for table `{t.name}`\n--")
            if self.drops:
                self.add(f"DROP TABLE IF EXISTS {ident(t.name)};")
            self.create(t, keys=False, auto=False)
            self.said()
            if self.rand.random() < 0.2:
                self.add(f"TRUNCATE TABLE {ident(t.name)};")
            self.rows(t, ident(t.name))
        self.add("-- Stand-in structure for view `a_view`\n-- (See below for the actual view)")
        self.stand_in()
        self.final_view()
        for t in self.tables:
            keys = ",\n  ".join("ADD " + k for k in t.keys)
            self.add(f"--\n-- Indexes for table `{t.name}`\n--\nALTER TABLE {ident(t.name)}\n  {keys};")
        for t in self.tables:
            if t.counted:
                number = next(c for c in t.columns if c.auto).definition()
                tail = f", AUTO_INCREMENT={t.counter or 2}" if self.rand.random() < 0.8 else ""
                self.add(f"--\n-- AUTO_INCREMENT for table `{t.name}`\n--\nALTER TABLE {ident(t.name)}\n  MODIFY "
                         f"{number}{tail};")
        self.add("COMMIT;\n\n/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;\n"
                 "/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;\n"
                 "/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;")


class HeidiSql(Writer):
    closes = True
    view_engine = " ENGINE=MyISAM"

    def of_bytes(self, v):
        return "_binary 0x" + v.hex() if v and self.rand.random() < 0.5 else super().of_bytes(v)

    def write(self):
        self.add("/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;\n/*!40101 SET NAMES utf8 */;\n"
                 f"/*!50503 SET NAMES {self.names} */;\n/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;\n"
                 "/*!40103 SET TIME_ZONE='+00:00' */;\n"
                 "/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;\n"
                 f"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='{self.mode}' */;\n"
                 "/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;\n")
        self.add("-- Creating temporary table to overcome VIEW dependency errors")
        self.stand_in()
        for t in self.tables:
            self.add(f"-- Dumping structure for table {t.name}")
            if self.drops:
                self.add(f"DROP TABLE IF EXISTS {ident(t.name)};")
            self.create(t)
            self.add(f"-- Dumping data for table: ~{len(t.rows)} rows (approximately)")
            if self.rand.random() < 0.5:
                self.add(f"DELETE FROM {ident(t.name)};")
            self.add(f"/*!40000 ALTER TABLE {ident(t.name)} DISABLE KEYS */;")
            self.rows(t, ident(t.name), ",\n\t")
            self.add(f"/*!40000 ALTER TABLE {ident(t.name)} ENABLE KEYS */;")
        self.add("-- Removing temporary table and create final VIEW structure")
        self.final_view()
        self.add("/*!40103 SET TIME_ZONE=IFNULL(@OLD_TIME_ZONE, 'system') */;\n"
                 "/*!40101 SET SQL_MODE=IFNULL(@OLD_SQL_MODE, '') */;\n"
                 "/*!40014 SET FOREIGN_KEY_CHECKS=IFNULL(@OLD_FOREIGN_KEY_CHECKS, 1) */;\n"
                 "/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;\n"
                 "/*!40111 SET SQL_NOTES=IFNULL(@OLD_SQL_NOTES, 1) */;")


class Adminer(Writer):
    closes = True
    bits = "CONVERT(b'{:b}', UNSIGNED)"

    def of_bytes(self, v):
        return f"UNHEX('{v.hex().upper()}')"

    def write(self):
        self.add(f"-- Adminer 4.8.1 MySQL dump\n\nSET NAMES {self.names};\nSET time_zone = '+00:00';\n"
                 f"SET foreign_key_checks = 0;\nSET sql_mode = '{self.mode}';\n\nDELIMITER ;;\n\n"
                 "DROP FUNCTION IF EXISTS `one`;;\nCREATE FUNCTION `one`() RETURNS int DETERMINISTIC\nBEGIN RETURN 1; END;;\n\n"
                 "DELIMITER ;\n")
        self.add("DROP VIEW IF EXISTS `a_view`;")
        self.stand_in()
        for t in self.tables:
            if self.drops:
                self.add(f"DROP TABLE IF EXISTS {ident(t.name)};")
            self.create(t)
            if self.rand.random() < 0.5:
                self.add(f"TRUNCATE {ident(t.name)};")
            self.rows(t, ident(t.name))
        self.final_view()
        self.add("-- 2026-01-31 12:00:00")


class SqlYog(Writer):
    closes = True

    def write(self):
        self.add("/*\nSQLyog Ultimate v13 (64 bit)\nMySQL - 5.7 : Database - x\n*****\n*/\n\n"
                 f"/*!40101 SET NAMES {self.names} */;\n\n/*!40101 SET SQL_MODE=''*/;\n\n"
                 "/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;\n"
                 "/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;\n"
                 f"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='{self.mode}' */;\n"
                 "/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;")
        for t in self.tables:
            self.add(f"/*Table structure for table `{t.name}` */\n\nDROP TABLE IF EXISTS {ident(t.name)};\n")
            self.create(t)
            self.add(f"/*Data for the table `{t.name}` */\n")
            self.verb = self.verb.lower().replace(" ", "  ")
            self.rows(t, ident(t.name), ",")
        if self.view:
            self.add("DROP TABLE IF EXISTS `a_view`;\n\n/*!50001 DROP VIEW IF EXISTS `a_view` */;\n"
                     "/*!50001 DROP TABLE IF EXISTS `a_view` */;\n\n/*!50001 CREATE TABLE  `a_view`(\n `a` int \n)*/;\n"
                     "/*View structure for view a_view */\n\n/*!50001 DROP TABLE IF EXISTS `a_view` */;\n"
                     "/*!50001 CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `a_view` AS "
                     "select 1 AS `a` */;")
        self.add("/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;\n/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;\n"
                 "/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;\n/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;")


class Grammar(Writer):
    """Statements of the grammar in any order, and some that do not belong to it."""

    closes = False
    view_engine = " ENGINE=MEMORY"

    def write(self):
        self.add(f"SET NAMES {self.names};")
        if self.rand.random() < 0.5:
            self.add(f"SET sql_mode='{self.mode}', @x = 1;")
        self.stand_in()
        for t in self.tables:
            if self.rand.random() < 0.5:
                self.add(f"DROP TABLE IF EXISTS {ident(t.name)};")
            self.create(t, auto=self.rand.random() < 0.8)
        for _ in range(self.rand.randrange(4, 15)):
            t = self.rand.choice(self.tables)
            self.rand.choice((self.some_rows, self.some_rows, self.change, self.neutral, self.empty))(t)
            self.said()
        self.final_view()

    def some_rows(self, t):
        some = Table.__new__(Table)
        some.columns, some.rows = t.columns, [list(r) for r in self.rand.sample(t.rows, min(2, len(t.rows)))]
        number = next(i for i, c in enumerate(t.columns) if c.name == "id")
        for row in some.rows:
            row[number] = self.rand.choice((row[number], str(self.rand.randrange(400, 900)), "0", "7"))
        self.verb = self.rand.choice(("INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO", "REPLACE", "insert low_priority",
                                      "INSERT IGNORE"))
        self.listed = self.rand.random() < 0.5
        wrapped = self.rand.random() < 0.1
        at = len(self.out)
        self.rows(some, ident(t.name))
        if wrapped and len(self.out) == at + 1:
            self.out[at] = "/*!40000 " + self.out[at].rstrip(";\n") + " */;\n"

    def change(self, t):
        c = self.rand.choice(t.columns)
        n = self.rand.randrange(1000)
        wide = c.definition(False).replace("varchar(80)", "varchar(90)").replace("varbinary(90)", "varbinary(99)")
        self.add(f"ALTER TABLE {ident(t.name)} " + self.rand.choice((
            f"ADD KEY `n{n}` ({ident(c.name)})", f"ADD KEY `n{n}` ({ident(c.name)}) USING BTREE, COMMENT='it''s; so'",
            f"/* c */ ADD UNIQUE KEY `n{n}` (`id`)", f"MODIFY {wide}", f"MODIFY COLUMN {wide}", "AUTO_INCREMENT=950",
            "AUTO_INCREMENT=3", "ENGINE=MEMORY, MAX_ROWS=5000", f"ADD CONSTRAINT `c{n}` CHECK (`id` < 5000)",
            f"DROP COLUMN {ident(c.name)}", f"ADD COLUMN c{n} int", f"CHANGE {ident(c.name)} c{n} int", "ORDER BY id",
            "DISABLE KEYS", f"RENAME TO r{n}", "ENGINE=InnoDB")) + ";")

    def neutral(self, t):
        self.add(self.rand.choice((
            f"LOCK TABLES {ident(t.name)} WRITE;\nUNLOCK TABLES", f"/*!40000 ALTER TABLE {ident(t.name)} ENABLE KEYS */",
            "START TRANSACTION", "COMMIT", "BEGIN", "SET autocommit=1", "SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE=''",
            "SET SQL_MODE=@OLD_SQL_MODE", "SET NAMES " + self.names, "FLUSH TABLES", "DROP VIEW IF EXISTS nothing",
            "SET time_zone='+02:00'", "SET sql_mode='ANSI'", "SET sql_mode=DEFAULT", "OPTIMIZE TABLE " + ident(t.name),
            "SET foreign_key_checks=0", "UPDATE " + ident(t.name) + " SET id=id", "/*!50001 COMMIT */")) + ";")

    def empty(self, t):
        if self.rand.random() < 0.3:
            self.add(self.rand.choice(("TRUNCATE TABLE", "TRUNCATE", "DELETE FROM")) + f" {ident(t.name)};")


STYLES = [PhpMyAdmin, HeidiSql, Adminer, SqlYog, Grammar]


def some_tables(rand, least=1):
    names = rand.sample(["bag", "ship log", "ő", "t1", "player_2", "a`b"], rand.randrange(least, 4))
    return [Table(rand, n, rand.choice((0, 1, 5, 40))) for n in names]


# Options of mysqldump that change the form of a file.
OPTIONS = ["--complete-insert", "--hex-blob", "--skip-extended-insert", "--insert-ignore", "--replace", "--skip-add-locks",
           "--skip-disable-keys", "--skip-quote-names", "--compatible=ansi", "--skip-tz-utc", "--skip-comments",
           "--skip-add-drop-table", "--no-autocommit", "--single-transaction", "--order-by-primary", "--databases",
           "--default-character-set=utf8mb3", "--default-character-set=binary", "--skip-opt", "--skip-lock-tables",
           "--net_buffer_length=4096", "--compact", "--add-drop-trigger", "--skip-triggers", "--allow-keywords", "--dump-date"]


def dumped(rand, server, schema, path, *more):
    """Writes the file of a real mysqldump of the server's kind. Returns its options, or None if it failed."""
    options = [o for o in rand.sample(OPTIONS, rand.randrange(5)) if not (MYSQL and o in ("--compatible=ansi",))]
    if "--databases" in options and rand.random() < 0.5:
        options.append("--add-drop-database")
    command = [*words("mysql", "mysqldump"), "--socket=" + server.socket, "--user=root"] if MYSQL else \
        client(server, schema, "mariadb-dump")[:-1]
    with open(path, "wb") as f:
        done = subprocess.run([*command, *options, *more, schema], stdout=f, stderr=subprocess.DEVNULL, check=False)
    return None if done.returncode else options


def mydumped(rand, server, schema, path, tmp):
    """Writes the files of a real mydumper, concatenated in the order in which its loader reads them. Returns None if it
    failed."""
    options = rand.sample(["--rows=10", "--statement-size=2000", "--skip-tz-utc", "--complete-insert", "--insert-ignore",
                           "--no-locks"], rand.randrange(4))
    where = os.path.join(tmp, f"mydumper{rand.getrandbits(40)}")
    done = subprocess.run(["mydumper", "--socket", server.socket, "--user", "root", "--database", schema, "--outputdir",
                           where, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        return None
    names = sorted(glob.glob(os.path.join(where, "*.sql")),
                   key=lambda n: (n.endswith("-schema-view.sql"), not n.endswith("-schema.sql"), n))
    with open(path, "wb") as f:
        for name in names:
            if not name.endswith("-schema-create.sql"):
                with open(name, "rb") as part:
                    f.write(part.read())
    return options
