"""Files of other tools, given by path: each loss and each skipped statement is reported, and refusals give the reason."""
import gzip
import os
import subprocess

import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import DONE, FAILED, REFUSED
from wk.server import MYSQL, client, mysqldump
from wk.snapshot import assert_same, snapshot

pytestmark = pytest.mark.third_on_mysql
END = "-- Dump completed\n"
KEYED = "CREATE TABLE `t` (\n  `id` int NOT NULL,\n  `v` varchar(20) CHARACTER SET latin1\n) ENGINE=MEMORY;\n"


@pytest.fixture
def path(tmp):
    return os.path.join(tmp, "file.sql")


@pytest.fixture
def into(doomed, victim):
    """Returns the option for a schema besides the world, which the restores create."""
    victim.grant("keeper@localhost", "wk_into")
    yield "--into=wk_into"
    victim.sql("DROP DATABASE IF EXISTS wk_into")


def write(path, text):
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return "--restore=" + path


@pytest.mark.quick
def test_the_counter_that_phpmyadmin_sets(doomed, victim, path, into):
    """The AUTO_INCREMENT of phpMyAdmin's ALTER TABLE is applied in a new and in an existing table, so that ids of deleted players
    are not used again."""
    world = doomed.world
    file = write(path, KEYED + "INSERT INTO `t` (`id`, `v`) VALUES\n(1, 'a'),\n(7, 'b');\nALTER TABLE `t`\n"
                 "  ADD PRIMARY KEY (`id`),\n  ADD KEY `v` (`v`) USING BTREE;\n"
                 "ALTER TABLE `t`\n  MODIFY `id` int NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=501;\n" + END)
    doomed.ok(file, into)
    doomed.ok(file, "--force")
    doomed.ok(file, "--force")
    for schema in ("wk_into", world.schema):
        victim.sql(f"INSERT INTO `{schema}`.t (v) VALUES ('c')")
        assert victim.sql(f"SELECT id FROM `{schema}`.t ORDER BY id") == ((1,), (7,), (501,))
        assert "KEY `v` (`v`) USING BTREE" in victim.sql(f"SHOW CREATE TABLE `{schema}`.t")[0][1]


def test_a_statement_for_each_row_costs_no_locks(doomed, victim, path):
    """Consecutive INSERTs into one table lock its shadow table once, not once each."""
    def locks(rows_of):
        file = "".join(f"CREATE TABLE `{t}` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=MEMORY;\n" for t in "tu")
        for table, ids in (("t", range(9)), ("u", range(5)), ("t", range(20, 24))):
            file += "".join(f"INSERT INTO `{table}` VALUES {values};\n" for values in rows_of([f"({i})" for i in ids]))
        before = victim.sql("SHOW GLOBAL STATUS LIKE 'Com_lock_tables'")
        doomed.ok(write(path, file + END), "--force")
        after = victim.sql("SHOW GLOBAL STATUS LIKE 'Com_lock_tables'")
        assert doomed.world.sql("SELECT (SELECT COUNT(*) FROM t),(SELECT COUNT(*) FROM u)") == ((13, 5),)
        return int(after[0][1]) - int(before[0][1])
    locks(list)  # the tables exist from here on
    together = locks(lambda values: [",".join(values)])
    assert locks(list) == together > 0


def test_what_stands_behind_the_rows_is_refused_by_name(doomed, path, into):
    for sql in ("ALTER TABLE t DROP COLUMN v", "ALTER TABLE t CHANGE v w INT", "RENAME TABLE t TO u",
                "ALTER TABLE t ENGINE=InnoDB", "/* c */ ALTER TABLE t ADD w INT", "UPDATE t SET v=1"):
        done = doomed.run(write(path, KEYED + sql + ";\n" + END), into)
        assert done.rc == REFUSED and "line 5" in done.err, done
        assert sql in done.err or sql[8:] in done.err, done
        assert f"wk_into < {path}" in done.err and "HINT" in done.err, done
    done = doomed.run(write(path, KEYED + "DROP TABLE player;\n" + END), "--force")
    assert done.rc == REFUSED and "drops table player, which is in the schema" in done.err, done
    assert doomed.world.rows() > 0


@pytest.mark.parametrize("there", ["the view", "nothing"])
def test_a_memory_placeholder_of_a_view(doomed, victim, path, there):
    """mydumper writes a MEMORY table as placeholder of a view: an existing view is unchanged, and no table is created for it."""
    world = doomed.world
    world.sql("CREATE VIEW seen AS SELECT 1 AS a")
    before = world.snapshot()
    text = ("CREATE TABLE IF NOT EXISTS `seen` (\n  `a` int\n) ENGINE=MEMORY;\n"
            "CREATE TABLE IF NOT EXISTS `bag` (\n  `a` int\n) ENGINE=MEMORY;\nINSERT INTO `bag` VALUES (1);\n"
            "DROP TABLE IF EXISTS `seen`;\nDROP VIEW IF EXISTS `seen`;\nCREATE VIEW `seen` AS SELECT 1 AS `a`;\n" + END)
    if there == "nothing":
        world.sql("DROP VIEW seen")
    doomed.ok(write(path, text), "--force")
    assert world.sql("SELECT * FROM bag") == ((1,),)
    kinds = dict(world.sql(f"SELECT table_name, table_type FROM information_schema.tables WHERE table_schema='{world.schema}'"))
    assert kinds.get("seen") == ("VIEW" if there == "the view" else None)
    world.sql("DROP TABLE bag")
    if there == "the view":
        world.assert_is(before)
    done = doomed.run(write(path, text.replace("DROP TABLE IF EXISTS `seen`;\n", "")), "--force")
    assert done.rc == REFUSED and "line 9" in done.err and "a table of that name exists" in done.err, done


def test_text_in_a_character_set_that_the_file_does_not_say(doomed, victim, path, into):
    rows = "INSERT INTO `t` VALUES (1,'plain'),(2,'ó');\n"
    file = write(path, KEYED.encode() + rows.encode("latin1") + END.encode())
    done = doomed.run(file, into)
    assert done.rc == REFUSED and "line 5: table t, column v, row 2" in done.err and "byte f3" in done.err, done
    assert "--charset=latin1" in done.err, done
    one = doomed.run(write(path, KEYED.encode() + rows.replace("(1,'plain'),", "").encode("latin1") + END.encode()), into)
    assert one.rc == REFUSED and "line 5: table t, column v, row 1" in one.err and "byte f3" in one.err, one
    write(path, KEYED.encode() + rows.encode("latin1") + END.encode())
    doomed.ok(file, into, "--charset=latin1")
    assert victim.sql("SELECT HEX(v) FROM wk_into.t ORDER BY id") == (("706C61696E",), ("F3",))
    done = doomed.run(write(path, KEYED + rows.replace("ó", "Ő") + END), "--into=wk_into2")
    assert done.rc != DONE
    victim.sql("DROP DATABASE wk_into")
    for mode in ("", "SET sql_mode='';\n"):
        done = doomed.run(write(path, KEYED + mode + rows.replace("ó", "Ő") + END), into)
        assert done.rc == REFUSED and "bytes c590 is a character that the column's character set lacks" in done.err, done
    done = doomed.run(write(path, b"CREATE TABLE t (a int COMMENT '\xe9') ENGINE=MEMORY;\n" + END.encode()), into)
    assert done.rc == REFUSED and "not UTF-8" in done.err and "iconv" in done.err, done
    done = doomed.run(file, into, "--charset=gbk")
    assert done.rc == 2 and "--charset" in done.err, done
    done = doomed.run("--restore", "--charset=latin1")
    assert done.rc == 2 and "--restore=PATH" in done.err, done


def is_utf8(path):
    with open(path, "rb") as f:
        try:
            return bool(f.read().decode())
        except UnicodeDecodeError:
            return False


@pytest.mark.parametrize("option", ["--insert-ignore", "--replace", "--no-create-info", "--compatible=ansi", "--skip-opt",
                                    "--dump-slave", "--skip-comments"])
def test_options_of_mysqldump(doomed, victim, path, option):
    world = doomed.world
    if MYSQL and option in ("--compatible=ansi", "--skip-opt"):  # these options are of MariaDB's mysqldump
        option = "--order-by-primary"
    world.sql("ALTER TABLE player DROP ratio", "INSERT INTO chat VALUES (1,'ó')")
    if option == "--replace":
        victim.grant("keeper@localhost", world.schema, "DELETE")
    before = world.snapshot()
    if option == "--dump-slave":
        text = mysqldump(victim, world.schema, path)
        with open(text) as f:
            head, _, rest = f.read().partition("DROP TABLE")
        write(path, head + "STOP ALL SLAVES;\nDROP TABLE" + rest + "START ALL SLAVES;\n" + END)
    else:
        mysqldump(victim, world.schema, path, option)
    victim.crash()
    more = []
    if option == "--compatible=ansi" and not is_utf8(path):  # before MariaDB 11 it is latin1, which the file does not declare
        refused = doomed.run("--restore=" + path)
        assert refused.rc == REFUSED and "--charset=latin1" in refused.err, refused
        more = ["--charset=latin1"]
    doomed.ok("--restore=" + path, *more)
    world.assert_is(before)


PACKERS = [("xz", ["xz", "-c"]), ("bz2", ["bzip2", "-c"]), ("zst", ["zstd", "-qc"])]


@pytest.mark.any_server
@pytest.mark.parametrize("ending, packer", PACKERS, ids=[p[0] for p in PACKERS])
def test_a_file_that_is_packed_in_another_way(doomed, path, into, ending, packer):
    """A file of another compression format is refused with the command that decompresses it; its output can be restored."""
    write(path, KEYED + "INSERT INTO t VALUES (1,'a');\n" + END)
    packed = f"{path}.{ending}"
    heads = {"xz": b"\xfd7zXZ\0", "bz2": b"BZh9", "zst": b"\x28\xb5\x2f\xfd"}
    try:
        with open(packed, "wb") as f:
            subprocess.run([*packer, path], stdout=f, check=True)
        whole = True
    except FileNotFoundError:  # the tool may not be installed
        write(packed, heads[ending] + b"\0" * 100)
        whole = False
    done = doomed.run("--restore=" + packed, into)
    assert done.rc == REFUSED and "compressed with" in done.err, done
    command = done.err.partition("HINT: ")[2].strip()
    assert command == f"{packer[0] if ending != 'bz2' else 'bzip2'} -dc {packed} > {packed}.sql", done
    if whole:
        subprocess.run(command, shell=True, check=True)
        doomed.ok(f"--restore={packed}.sql", into)


@pytest.mark.any_server
def test_a_file_of_windows(doomed, victim, path, into):
    """A UTF-16 file is refused with a command that converts it; a byte order mark before UTF-8 is skipped, also in gzip."""
    text = KEYED + "INSERT INTO t VALUES (1,'a');\n" + END
    for form in ("utf-16", "utf-16-le", "utf-16-be"):
        done = doomed.run(write(path, text.encode(form)), into)
        assert done.rc == REFUSED and "UTF-16" in done.err and "iconv -f UTF-16" in done.err, done
    for pack in (bytes, gzip.compress):
        doomed.ok(write(path, pack(text.replace("\n", "\r\n").encode("utf-8-sig"))), into)
        assert victim.sql("SELECT id, v FROM wk_into.t") == ((1, "a"),)
        victim.sql("DROP DATABASE wk_into")


def test_the_engine_of_mysql_4(doomed, victim, path, into):
    """TYPE= of a table that is not restored is ignored; TYPE=HEAP is refused with a command that converts the file."""
    old = "CREATE TABLE `old` (\n  `a` int\n) TYPE=MyISAM;\nINSERT INTO `old` VALUES (1);\n"
    doomed.ok(write(path, old + KEYED + "INSERT INTO t VALUES (1,'a');\n" + END), into)
    assert victim.sql("SELECT id, v FROM wk_into.t") == ((1, "a"),)
    done = doomed.run(write(path, KEYED.replace("ENGINE=MEMORY", "TYPE=HEAP") + END), "--force")
    assert done.rc == REFUSED and "option TYPE" in done.err and "sed 's/" in done.err, done


@pytest.mark.parametrize("alone", [True, False])
def test_another_name_of_the_engine(doomed, path, alone):
    """A table of ENGINE=HEAP is one of MEMORY, whether or not the file has other tables, in its definition and in an ALTER."""
    file = KEYED.replace("ENGINE=MEMORY", "ENGINE=HEAP") + "INSERT INTO t VALUES (1,'a');\nALTER TABLE t ENGINE=heap;\n" + END
    doomed.ok(write(path, ("" if alone else KEYED.replace("`t`", "`s`")) + file), "--force")
    assert doomed.world.sql("SELECT id, v FROM t") == ((1, "a"),)
    assert "ENGINE=MEMORY" in doomed.world.sql("SHOW CREATE TABLE t")[0][1]


def test_what_is_said_of_a_file_without_an_end(doomed, path, into):
    """A file without a closing comment needs --accept-cut; the warning mentions missing rows only if it ends within a
    statement."""
    text = KEYED + "INSERT INTO t VALUES (1,'a');\n"
    done = doomed.run(write(path, text), into)
    assert done.rc == REFUSED and "line 5" in done.err and "--accept-cut" in done.err, done
    warning = doomed.ok(write(path, text), into, "--accept-cut", "--json")["warning"]
    assert "missing" not in warning and "up to line 5" in warning, warning
    doomed.world.server.sql("DROP DATABASE wk_into")
    done = doomed.run(write(path, text + "INSERT INTO t VALUES (2,"), into)
    assert done.rc == FAILED and "line 6" in done.err, done
    warning = doomed.ok(write(path, text + "INSERT INTO t VALUES (2,"), into, "--accept-cut", "--json")["warning"]
    assert "ends within the statement of line 6" in warning and "missing" in warning, warning


def test_a_table_that_the_file_lacks(doomed, path):
    """The warning names the world's tables that are not in the file."""
    done = doomed.ok(write(path, KEYED + "INSERT INTO t VALUES (1,'a');\n" + END), "--force", "--json")
    assert "are not in the file" in done["warning"] and "player" in done["warning"] and "chat" in done["warning"], done


def test_a_column_and_a_collation_that_are_not_here(doomed, path, into):
    world = doomed.world
    world.sql("CREATE TABLE t (id INT, v VARCHAR(20)) ENGINE=MEMORY")
    text = "CREATE TABLE t (id INT, v VARCHAR(20), w INT) ENGINE=MEMORY;\n"
    for rows in ("INSERT INTO t VALUES (1,'a',2);\n", "INSERT INTO t (id,w) VALUES (1,2);\n"):
        done = doomed.run(write(path, text + rows + END), "--force")
        assert done.rc == REFUSED and "line 2: table t of the world has no column w" in done.err, done
        assert "HINT: add the column" in done.err, done
    # MariaDB 11.4.5 and later know those collations of MySQL for which they have the same order.
    unknown = "utf8mb4_uca1400_ai_cs" if MYSQL else "utf8mb4_zh_0900_as_cs"
    for text, where in ((f"CREATE TABLE u (a INT, b VARCHAR(9) COLLATE {unknown}) ENGINE=MEMORY;\n", "column b"),
                        (f"CREATE TABLE u (a VARCHAR(9)) ENGINE=MEMORY DEFAULT CHARSET=utf8mb4 COLLATE={unknown};\n",
                         "its default")):
        done = doomed.run(write(path, text + END), into)
        assert done.rc != DONE and f"table u, {where}" in done.err and unknown in done.err, done
        assert f"sed 's/{unknown}/utf8mb4_unicode_ci/g' {path} > NEW.sql" in done.err, done


def test_rows_of_a_table_that_is_nowhere(doomed, path, into):
    for goal in (into, "--force"):
        done = doomed.run(write(path, "INSERT INTO nowhere VALUES (1);\n" + END), goal)
        assert done.rc == REFUSED and "for a table that the file does not create" in done.err and "no-create-info" in done.err, done


def test_a_copy_of_a_dump_keeps_every_bit(doomed, victim, path, into):
    """A copy of a dump with FLOAT(M,D) values of more digits is restored exactly, because the dump's own ALTERs are run."""
    world = doomed.world
    world.sql("CREATE TABLE f (id INT PRIMARY KEY, a FLOAT, b DOUBLE(9,2)) ENGINE=MEMORY",
              "INSERT INTO f VALUES (1,1.23456,1.25),(2,1.23457,2.5)",
              "ALTER TABLE f MODIFY a FLOAT(7,3), ALGORITHM=" + ("INSTANT" if not MYSQL else "COPY"))
    before = {k: v for k, v in world.snapshot().items() if k.endswith(" f")}
    doomed.dump()
    name = doomed.newest()["name"] + ".sql.gz"
    with open(os.path.join(doomed.dumps_dir, name), "rb") as f:
        packed = f.read()
    write(path + ".gz", packed)
    doomed.ok("--restore=" + path + ".gz", into)
    assert_same(before, {k: v for k, v in snapshot(victim, "wk_into").items() if k.endswith(" f")}, "beside")
    doomed.ok("--restore=" + path + ".gz", "--force")
    assert_same(before, {k: v for k, v in world.snapshot().items() if k.endswith(" f")}, "over the world")


def test_the_hint_is_a_command_that_runs(doomed, victim, path):
    """The command in the hint of a refusal runs as printed."""
    world = doomed.world
    done = doomed.run(write(path, KEYED + "UPDATE t SET v=1;\n" + END), "--force")
    command = done.err.partition(" --pause, then ")[2].strip()
    name = "mysql" if MYSQL else "mariadb"
    assert command == f"{name} {world.schema} < {path}", done
    stock = " ".join(client(victim, "", "mariadb")[:-1])
    subprocess.run(command.replace(name + " ", stock + " ", 1), shell=True, check=True)
    assert world.sql("SELECT COUNT(*) FROM t") == ((0,),)


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_changes_while_it_is_restored(doomed, victim, path, packed):
    """A file is checked before anything is created and then read again. One that has changed between the two is refused, whatever
    its second version contains, and the world stays as it was."""
    def file(change):
        text = (KEYED + "INSERT INTO `t` VALUES\n(1, 'a');\n" + change + END).encode()
        return write(path, gzip.compress(text) if packed else text)
    doomed.ok(file("ALTER TABLE `t` ADD PRIMARY KEY (`id`);\n"), "--force")
    world = doomed.world
    before = world.sql("SHOW CREATE TABLE t"), world.sql("SELECT * FROM t")
    for change in ("ALTER TABLE `t` ENGINE=InnoDB;\n", "INSERT INTO `t` VALUES (2, 'b');\n"):
        process = doomed.popen(file("ALTER TABLE `t` ADD KEY `v` (`v`);\n"), "--force", fault="dump.renamed#1=stop")
        at_work = wait_stopped(doomed, "dump.renamed")
        file(change)
        go_on(at_work)
        done = doomed.finish(process)
        assert done.rc == FAILED and f"{path} was changed while it was read" in done.err, done
        assert (world.sql("SHOW CREATE TABLE t"), world.sql("SELECT * FROM t")) == before
