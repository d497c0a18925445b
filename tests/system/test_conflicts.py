"""Rows that players wrote into the emptied tables: each restore saves them to one complete file, from which they can be inserted
again."""
import gzip
import os
import re
import signal
import subprocess

import pytest
from wk.crash import go_on, stopped, wait_stopped
from wk import zoo
from wk.follow import LOG, following
from wk.keeper import DONE, FAILED, HELD, NOTHING, REFUSED, USAGE, USER, unix
from wk.server import RIGHTS, client, repeating, stock_restore
from wk.util import ident, wait_for
from wk.watch import Game

pytestmark = pytest.mark.either_server


def text_of(path):
    with gzip.open(path) as f:
        return f.read().decode()


def rows_in(path):
    """Counts the INSERT statements of the file: {table: rows}."""
    found = {}
    for table in re.findall(r"^INSERT INTO `([^`]+)`", text_of(path), re.M):
        found[table] = found.get(table, 0) + 1
    return found


def restore_while_written(keeper, *late, early=("INSERT INTO chat VALUES (1,'early'),(2,'early')",),
                          fault="restore.conflict_saved=stop"):
    """Runs a restore and writes further rows after it saved the rows and before its swap."""
    keeper.world.sql(*early, "DO 0")
    process = keeper.popen("--restore", "--json", fault=fault)
    pids = wait_stopped(keeper, fault)
    keeper.world.sql(*late)
    go_on(pids)
    return keeper.finish(process)


@pytest.mark.quick
def test_one_complete_file(lost):
    """Rows that arrive until the swap are saved to the same file as earlier ones. The result names the file, the number of rows,
    their tables, and the time range."""
    done = restore_while_written(lost, "INSERT INTO chat VALUES (3,'late')",
                                 "INSERT INTO fleet VALUES (1,1,1)")
    assert done.rc == 0, done
    lost.world.assert_is(lost.before)
    (path,) = lost.conflicts()
    assert rows_in(path) == {"chat": 3, "fleet": 1}
    told = done.result
    assert told["conflict_file"] == path and told["conflict_rows"] == 4
    assert told["conflict_tables"] == [{"table": "chat", "rows": 3}, {"table": "fleet", "rows": 1}]
    assert abs(unix(told["conflict_from"]) - lost.server.start_time()) <= 1
    assert unix(told["conflict_to"]) >= unix(told["conflict_from"])
    written = f"-- written from {told['conflict_from']} to {told['conflict_to']}"
    assert written in text_of(path)
    assert text_of(path).endswith("-- worldkeeper end tables=2 rows=4\n")
    (listed,) = lost.ok("--conflicts", "--json")["files"]
    assert (listed["from"], listed["to"]) == (told["conflict_from"], told["conflict_to"])


def test_rows_that_come_only_late(lost):
    """If the first row arrives just before the swap, a file is still written for it."""
    done = restore_while_written(lost, "INSERT INTO chat VALUES (3,'late')", early=())
    assert done.rc == DONE, done
    (path,) = lost.conflicts()
    assert done.result["conflict_file"] == path and done.result["conflict_rows"] == 1
    assert rows_in(path) == {"chat": 1}


def test_a_table_that_is_altered_just_before_the_swap(lost):
    """An ALTER after the last check of the definitions is undone by the swap. The file has the rows with the new column and
    without the dropped one, and a warning names the altered tables."""
    done = restore_while_written(lost, "ALTER TABLE chat ADD COLUMN extra INT", "UPDATE chat SET extra=77 WHERE who=1",
                                 "ALTER TABLE player DROP COLUMN ratio", "INSERT INTO player (nick,points) VALUES ('x',1)",
                                 fault="restore.before_rename=stop")
    assert done.rc == DONE, done
    lost.world.assert_is(lost.before)
    (path,) = lost.conflicts()
    text = text_of(path)
    assert rows_in(path) == {"chat": 2, "player": 1} and "`extra`)" in text and "(1,'early',77)" in text, text
    warning = done.result["warning"]
    assert [f"table {t} was altered" in warning for t in ("chat", "player", "fleet")] == [True, True, False], warning


@pytest.mark.parametrize("point", ["restore.renamed", "restore.conflict_whole", "restore.dropped"])
def test_one_complete_file_whatever_kills_the_restore(lost, point):
    """If the restore is killed at any point after the swap, the cleanup leaves one file with all rows."""
    lost.world.sql("INSERT INTO chat VALUES (1,'early'),(2,'early')")
    process = lost.popen("--restore", fault="restore.conflict_saved=stop," + point + "=kill")
    pids = wait_stopped(lost, "restore.conflict_saved")
    lost.world.sql("INSERT INTO chat VALUES (3,'late')")
    go_on(pids)
    done = lost.finish(process)
    assert done.rc == -signal.SIGKILL, done
    lost.start()
    lost.wait(lambda: not os.path.exists(os.path.join(lost.dumps_dir, "pending.json")), "tidied up")
    (path,) = lost.conflicts()
    assert rows_in(path) == {"chat": 3}
    lost.world.assert_is(lost.before)


def test_one_complete_file_when_the_tidying_up_is_killed_too(lost):
    """If the cleanup is killed after it dropped one replaced table, the next cleanup does not rewrite the file from the remaining
    tables."""
    written = ["INSERT INTO chat VALUES (1,'early'),(2,'early')", "INSERT INTO fleet VALUES (1,1,1)"]
    lost.world.sql(*written)
    assert lost.run("--restore", fault="restore.renamed=kill").rc == -signal.SIGKILL
    (path,) = lost.conflicts()
    whole = text_of(path)
    assert lost.run("--restore", "--force", fault="restore.table_dropped=kill").rc == -signal.SIGKILL
    lost.ok("--restore", "--force")
    assert path in lost.conflicts() and rows_in(path) == {"chat": 2, "fleet": 1}, whole
    lost.world.assert_is(lost.before)


def test_a_file_that_the_disk_gives_back_otherwise_stops_the_restore(lost):
    """The file is read back like a dump. If its contents differ from what was written, the restore fails and the rows stay in the
    table."""
    lost.world.sql("INSERT INTO chat VALUES (1,'early')")
    process = lost.popen("--restore", fault="restore.conflict_written=stop")
    pids = wait_stopped(lost, "restore.conflict_written")
    (part,) = lost.parts()
    with gzip.open(part) as f:
        text = f.read()
    with gzip.open(part, "wb") as f:
        f.write(text.replace(b"early", b"later"))
    go_on(pids)
    done = lost.finish(process)
    assert done.rc == 1 and "chat differ from what was written" in done.err, done
    assert lost.world.value("SELECT what FROM chat") == "early" and not lost.conflicts()
    lost.ok("--restore")


def test_a_count_that_is_not_known(lost):
    """If the world is swapped in but the file cannot be completed, the number of rows is reported as unknown, and the cleanup
    completes the file."""
    lost.world.sql("INSERT INTO chat VALUES (1,'early')")
    process = lost.popen("--restore", "--json",
                         fault="restore.conflict_saved=stop,restore.conflict_written#2=stop")
    pids = wait_stopped(lost, "restore.conflict_saved")
    lost.world.sql("INSERT INTO chat VALUES (3,'late')")
    go_on(pids)
    lost.wait(lambda: stopped(lost) and lost.parts(), "the file to be written once more")
    (part,) = lost.parts()
    with open(part, "r+b") as f:
        f.truncate(os.path.getsize(part) - 9)
    go_on(stopped(lost))
    done = lost.finish(process)
    assert done.rc == DONE and done.result["conflict_rows"] is None, done
    (path,) = lost.conflicts()
    assert done.result["conflict_file"] == path and rows_in(path) == {"chat": 1}
    assert "the cleanup failed" in done.result["warning"]
    lost.start()
    lost.wait(lambda: not os.path.exists(os.path.join(lost.dumps_dir, "pending.json")), "tidied up")
    assert lost.conflicts() == [path] and rows_in(path) == {"chat": 2}
    lost.world.assert_is(lost.before)


def test_the_status_names_the_file(lost):
    """The status names the conflict file of a restore by the supervisor, also after a restart."""
    lost.world.sql("INSERT INTO chat VALUES (1,'early')")
    lost.start()
    (path,) = lost.conflicts()
    told = lost.status()["last_restore"]
    assert told["conflict_file"] == path and told["conflict_rows"] == 1
    assert told["conflict_tables"] == [{"table": "chat", "rows": 1}]
    assert unix(told["conflict_from"]) <= unix(told["conflict_to"])
    lost.stop()
    lost.start()
    assert lost.status()["last_restore"] == told


def test_no_row_no_file(lost):
    """If nothing was written into the emptied tables, there is no file and no time range."""
    told = lost.ok("--restore", "--json")
    assert not lost.conflicts() and told["conflict_rows"] == 0 and told["conflict_file"] == ""
    assert told["conflict_from"] is None and told["conflict_to"] is None


# -- the way back -----------------------------------------------------------------------------------

WRITTEN = [
    "INSERT INTO player (nick,points) VALUES ('Új \"játékos\"',1),('játékos 5',2)",
    "INSERT INTO player VALUES (5000,'far \\\\ away',3,1.1)",
    "INSERT INTO fleet VALUES (1,1,1),(2,2,99),(9999,1,NULL)",
    "INSERT INTO chat VALUES (1,'hello\\n'),(1,'hello\\n'),(1,'it''s line 1'),(NULL,NULL)",
]
# Counts of the rows above: new, equal, key taken.
COMPARED = {"chat": (3, 1, 0), "fleet": (1, 1, 1), "player": (1, 0, 2)}


@pytest.fixture
def saved(lost):
    """Returns a world that was lost, written into and restored: the rows are in a file, and the world is as before."""
    lost.world.sql(*WRITTEN)
    lost.ok("--restore")
    (lost.file,) = lost.conflicts()
    lost.name = os.path.basename(lost.file)
    lost.world.assert_is(lost.before)
    return lost


def compared(tables):
    return {t["table"]: (t["new"], t["equal"], t["taken"]) for t in tables}


def put_in(tables):
    return {t["table"]: (t["inserted"], t["renumbered"], t["left"]) for t in tables}


def test_they_are_listed_beside_the_world(saved):
    """--conflicts lists each file with its tables and rows, and how many rows are new, equal, or have a key that another row has.
    It does not change the world."""
    (file,) = saved.ok("--conflicts", "--json")["files"]
    assert file["file"] == saved.file and file["rows"] == 10 and file["proven"]
    assert unix(file["from"]) <= unix(file["to"])
    assert compared(file["tables"]) == COMPARED
    assert saved.ok("--conflicts=" + saved.name, "--json")["files"] == [file]
    text = saved.ok("--conflicts").out
    assert saved.file in text and re.search(r"^fleet +3 +1 +1 +1", text, re.M), text
    saved.world.assert_is(saved.before)


def test_the_comparison_beside_an_alter(saved):
    """ALTER TABLE hides the keys of its table for a moment. Rows whose keys are taken are found nevertheless."""
    with repeating(saved.world, "ALTER TABLE fleet FORCE") as altered:
        tables = [saved.ok("--conflicts=" + saved.name, "--json")["files"][0]["tables"] for _ in range(12)]
        done = saved.ok("--conflicts=" + saved.name, "--apply", "--json")
    assert altered and {compared(t)["fleet"] for t in tables} == {COMPARED["fleet"]}, tables
    assert put_in(done["tables"])["fleet"] == (1, 0, 1), done


def test_what_does_not_collide_goes_in(saved):
    """--apply inserts the new rows byte for byte, and nothing else. --dry-run reports the same beforehand, and a second --apply
    inserts nothing."""
    dry = saved.run("--conflicts=" + saved.name, "--apply", "--dry-run", "--json")
    saved.world.assert_is(saved.before)
    done = saved.run("--conflicts=" + saved.file, "--apply", "--json")
    assert dry.rc == done.rc == DONE, done
    told, said = done.result, dry.result
    assert told.pop("numbers_file") == saved.file.replace(".sql.gz", ".numbers.tsv")
    assert said.pop("dry_run") and not told.pop("dry_run") and said == told
    assert put_in(told["tables"]) == {"chat": (3, 0, 0), "fleet": (1, 0, 1), "player": (1, 0, 2)}
    assert told["inserted"] == 5 and told["left"] == 3
    assert saved.world.sql("SELECT nick,points,CAST(ratio AS DOUBLE) FROM player WHERE id=5000") == (
        ("far \\ away", 3, pytest.approx(1.1, abs=1e-6)),)
    assert saved.world.sql("SELECT x FROM fleet WHERE id=9999") == ((None,),)
    assert saved.world.sql("SELECT what FROM chat WHERE who=1 AND what LIKE 'hello%'") == (
        ("hello\n",), ("hello\n",))
    assert saved.world.rows("chat") == 303 and saved.world.rows() == 2001
    after = saved.world.snapshot()
    (file,) = saved.ok("--conflicts", "--json")["files"]
    assert compared(file["tables"]) == {"chat": (0, 4, 0), "fleet": (0, 2, 1), "player": (0, 1, 2)}
    assert saved.ok("--conflicts=" + saved.name, "--apply", "--json")["inserted"] == 0
    saved.world.assert_is(after)


def test_what_collides_gets_a_new_number(saved):
    """--renumber inserts rows whose AUTO_INCREMENT key is taken under new numbers, which are reported and stored in a file. Rows
    with another taken unique key or without such a column are skipped (exit status 4). A second run changes nothing."""
    dry = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--dry-run", "--json")
    saved.world.assert_is(saved.before)
    done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--json")
    assert dry.rc == done.rc == REFUSED, done
    tables = {t["table"]: t for t in done.result["tables"]}
    assert put_in(tables.values()) == {"chat": (3, 0, 0), "fleet": (1, 0, 1), "player": (2, 1, 1)}
    assert dry.result["tables"] == done.result["tables"]
    assert "no AUTO_INCREMENT" in tables["fleet"]["why"]
    assert "unique key other than" in tables["player"]["why"] and "why" not in tables["chat"]
    assert tables["player"]["numbers"] == [[1, 5001]]
    assert saved.world.sql("SELECT id, points FROM player WHERE nick='Új \"játékos\"'") == ((5001, 1),)
    assert saved.world.sql("SELECT nick FROM player WHERE id=1") == (("játékos 1",),)
    nonce = saved.world.value("SELECT nonce FROM worldkeeper_sentinel")
    with open(done.result["numbers_file"]) as f:
        assert f.read() == ("table\tcolumn\told\tnew\tworld\n"
                            f"player\tid\t1\t5001\t{nonce}\nplayer\tid\t5000\t5000\t{nonce}\n")
    saved.world.sql("INSERT INTO player (nick,points) VALUES ('the next',1)")
    assert saved.world.value("SELECT id FROM player WHERE nick='the next'") == 5002
    saved.world.sql("UPDATE player SET points=points+1, nick=CONCAT(nick,'!') WHERE id>=5000")
    after = saved.world.snapshot()
    again = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--json")
    assert again.rc == REFUSED and again.result["inserted"] == 0, again
    saved.world.assert_is(after)


def test_through_the_running_supervisor(saved):
    """With a supervisor, --conflicts --apply runs in the supervisor, and the journal continues without a gap."""
    saved.configure({"journal": {"mode": "auto"}})
    saved.start()
    done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--json")
    assert done.rc == REFUSED and done.result["inserted"] == 6, done
    assert saved.world.rows() == 2002
    saved.wait_log("putting back of conflict rows failed: rows of 2 tables are skipped")
    done = saved.run("--conflicts=" + saved.name, "--apply", "--json")
    assert done.rc == DONE and done.result["inserted"] == 0, done
    saved.wait_log("putting back of conflict rows done")
    before = saved.world.snapshot()
    saved.dump()
    assert "gap" not in saved.log(), saved.log()
    saved.world.assert_is(before)


def test_only_into_a_world_that_is_up(lost):
    """--apply into an emptied world is refused, with and without a supervisor. The list says that nothing was compared."""
    lost.world.sql(*WRITTEN)
    lost.ok("--restore")
    (path,) = lost.conflicts()
    lost.server.crash()
    done = lost.run("--conflicts=" + path, "--apply")
    assert done.rc == REFUSED and "not up" in done.err, done
    told = lost.ok("--conflicts", "--json")
    assert not told["compared"] and "not up" in told["why"]
    assert compared(told["files"][0]["tables"])["fleet"] == (None, None, None)
    lost.configure({"restore": {"auto": "no"}})
    lost.start(state="WAITING")
    done = lost.run("--conflicts=" + path, "--apply", "--dry-run")
    assert done.rc == REFUSED and "not up" in done.err, done
    assert lost.world.rows() == 0


def test_not_beside_another_action(saved):
    """While another action holds the world, --apply exits with 3 and inserts nothing."""
    process = saved.popen("--dump", fault="dump.chosen=stop")
    pids = wait_stopped(saved, "dump.chosen")
    done = saved.run("--conflicts=" + saved.name, "--apply")
    assert done.rc == HELD, done
    saved.world.assert_is(saved.before)
    go_on(pids)
    done = saved.finish(process)
    assert done.rc == DONE, done


def test_files_and_options_that_are_meant(saved):
    """Only conflict files in the dump directory are accepted, and options without effect are refused."""
    for args, rc in ((("--conflicts=nothing",), USAGE),
                     (("--conflicts=" + saved.newest()["name"] + ".sql.gz",), USAGE),
                     (("--conflicts=/tmp/" + saved.name, "--apply"), USAGE),
                     (("--conflicts=conflict-000001-20000101T000000Z.sql.gz", "--apply"), NOTHING),
                     (("--conflicts", "--apply"), USAGE), (("--conflicts", "--dry-run"), USAGE),
                     (("--conflicts=" + saved.name, "--renumber"), USAGE),
                     (("--conflicts", "--into", "x"), USAGE), (("--dump", "--apply"), USAGE),
                     (("--restore", "--renumber"), USAGE)):
        done = saved.run(*args)
        assert done.rc == rc, done
    os.symlink(saved.file, os.path.join(saved.dumps_dir, "conflict-9.sql.gz"))
    done = saved.run("--conflicts=conflict-9.sql.gz", "--apply")
    assert done.rc == FAILED, done
    saved.world.assert_is(saved.before)


@pytest.mark.parametrize("text", [
    "INSERT INTO `chat` (`who`,`what`) VALUES\n(SLEEP(9),'x');\n",
    "INSERT INTO `chat` (`who`,`what`) VALUES\n(1,(SELECT 'x'));\n",
    "INSERT INTO `chat` (`who`,`what`) VALUES\n(1,'x') ON DUPLICATE KEY UPDATE who=1;\n",
    "DELETE FROM `chat`;\n", "CREATE TABLE `x` (a INT);\n",
    "INSERT INTO `mysql`.`user` (`a`) VALUES\n(1);\n", "DELIMITER ;;\nDROP TABLE `chat`;;\n",
])
def test_text_of_a_file_is_no_statement(saved, text):
    """A file with anything but plain rows, in the current or an earlier format, is reported as damaged, and nothing of it
    runs."""
    bad = os.path.join(saved.dumps_dir, "conflict-000009-20260101T000000Z.sql.gz")
    for head in ("-- worldkeeper: rows found in the tables that a restore replaced\n",
                 "-- worldkeeper conflict 2\n", ""):
        with gzip.open(bad, "wt") as f:
            f.write(head + text)
        done = saved.run("--conflicts=" + bad, "--apply")
        assert done.rc == FAILED, done
        listed = {f["file"]: f for f in saved.ok("--conflicts", "--json")["files"]}
        assert listed[bad]["why"] and listed[bad]["rows"] is None
    saved.world.assert_is(saved.before)


def test_tables_that_cannot_take_rows_are_named(saved):
    """A missing table, a missing column and worldkeeper's own table are skipped by name; the rest is inserted (exit status 4)."""
    sentinel = "worldkeeper_sentinel"
    text = text_of(saved.file)
    text = text.replace("INSERT INTO `player`", f"INSERT INTO `{sentinel}` (`a`) VALUES\n(1);\n"
                        "INSERT INTO `player`", 1)
    text = text.replace("tables=3 rows=10", "tables=4 rows=11")
    with gzip.open(saved.file, "wt") as f:
        f.write(text)
    saved.world.sql("DROP TABLE fleet", "ALTER TABLE player DROP COLUMN ratio")
    done = saved.run("--conflicts=" + saved.name, "--apply", "--json")
    assert done.rc == REFUSED, done
    why = {t["table"]: t.get("why") for t in done.result["tables"]}
    assert "no such table" in why["fleet"] and "ratio" in why["player"], why
    assert "own" in why[sentinel] and why["chat"] is None, why
    assert saved.world.rows("chat") == 303 and saved.world.rows() == 2000


def test_a_table_without_room_for_a_column(doomed, victim):
    """A table whose rows have the largest size that the server accepts is skipped by name; the tables after it and other files
    are processed. Rows that the world has are recognized."""
    doomed.world.sql("CREATE TABLE a_wide (id INT NOT NULL PRIMARY KEY, v VARBINARY(65528)) ENGINE=MEMORY",
                     "INSERT INTO a_wide VALUES (1,'x')")
    doomed.dump()
    paths = []
    for n in (7, 1):  # a new row, and one that the world has
        victim.crash()
        doomed.world.sql(f"INSERT INTO a_wide VALUES ({n},'x')", f"INSERT INTO chat VALUES ({n}99,'hello')")
        doomed.ok("--restore")
        paths += set(doomed.conflicts()) - set(paths)
    files = {f["file"]: {t["table"]: t for t in f["tables"]} for f in doomed.ok("--conflicts", "--json")["files"]}
    assert "no room" in files[paths[0]]["a_wide"]["why"] and files[paths[0]]["chat"]["new"] == 1, files
    assert files[paths[1]]["a_wide"]["equal"] == 1 and files[paths[1]]["chat"]["new"] == 1, files
    done = doomed.run("--conflicts=" + paths[0], "--apply", "--json")
    assert done.rc == REFUSED and put_in(done.result["tables"]) == {"a_wide": (0, 0, 1), "chat": (1, 0, 0)}, done
    doomed.ok("--conflicts=" + paths[1], "--apply")
    assert doomed.world.value("SELECT COUNT(*) FROM chat WHERE what='hello'") == 2


def test_files_of_earlier_versions(saved):
    """A -late file without a trailer is listed after newer files and can be applied."""
    late = os.path.join(saved.dumps_dir, "conflict-000001-20260101T000000Z-late.sql.gz")
    with gzip.open(late, "wt") as f:
        f.write("-- worldkeeper: rows found in the tables that a restore replaced\nSET NAMES binary;\n"
                "SET SESSION time_zone='+00:00', sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n"
                "INSERT INTO `chat` (`who`,`what`) VALUES\n(4711,'late');\n")
    files = saved.ok("--conflicts", "--json")["files"]
    assert [f["file"] for f in files] == [saved.file, late]
    assert not files[1]["proven"] and files[1]["from"] is None
    saved.ok("--conflicts=" + late, "--apply")
    assert saved.world.value("SELECT what FROM chat WHERE who=4711") == "late"


@pytest.mark.parametrize("was, now, value, written", [
    ("ENUM('mage','knight')", "ENUM('knight','mage')", "knight", None),
    ("ENUM('mage','knight')", "ENUM('mage','knight','rogue')", "knight", "knight"),
    ("VARCHAR(20) CHARACTER SET latin1", "VARCHAR(20) CHARACTER SET utf8mb4", "ékes", None),
    ("VARCHAR(20) CHARACTER SET utf8mb3", "VARCHAR(40) CHARACTER SET utf8mb4", "ékes", "ékes"),
], ids=["another order", "a further member", "other letters", "more letters"])
@pytest.mark.parametrize("when", ["before the loss", "after the restore"])
def test_columns_that_were_altered(doomed, victim, was, now, value, written, when):
    """Rows whose values would mean something else in the altered columns are skipped with their table; others are inserted. It
    does not matter whether the dump, the restored table or only the world of --apply has the other definition."""
    alter = ("SET NAMES utf8mb4", f"ALTER TABLE hero MODIFY kind {now}")
    doomed.world.sql("SET NAMES utf8mb4", f"CREATE TABLE hero (id INT PRIMARY KEY, kind {was}) ENGINE=MEMORY")
    doomed.dump()
    if when == "before the loss":  # the restore takes the definition of the dump, if the rows of the dump need it
        doomed.world.sql(f"INSERT INTO hero VALUES (1,'{value}')")
        doomed.dump()
        doomed.world.sql(*alter)
    victim.crash()
    doomed.world.sql("SET NAMES utf8mb4", f"INSERT INTO hero VALUES (7,'{value}')", "INSERT INTO chat VALUES (99,'hello')")
    doomed.ok("--restore")
    if when == "after the restore":
        doomed.world.sql(*alter)
    (path,) = doomed.conflicts()
    done = doomed.run("--conflicts=" + path, "--apply", "--json")
    assert doomed.world.sql("SELECT id, kind FROM hero WHERE id=7") == (((7, written),) if written else ()), done
    assert doomed.world.value("SELECT what FROM chat WHERE who=99") == "hello"
    why = {t["table"]: t.get("why") for t in done.result["tables"]}
    assert done.rc == (DONE if written else REFUSED) and why["chat"] is None, done
    assert written or "column kind" in why["hero"], why
    (file,) = doomed.ok("--conflicts", "--json")["files"]
    assert written or "column kind" in {t["table"]: t.get("why") for t in file["tables"]}["hero"], file


def test_files_without_the_types_of_columns(saved):
    """A file of an earlier version lacks the types of columns. Its rows can be inserted, with a warning for each table with ENUM,
    SET or text columns."""
    with gzip.open(saved.file, "rt") as f:
        lines = [s for s in f if not s.startswith(("-- CREATE TABLE ", "-- | "))]
    with gzip.open(saved.file, "wt") as f:
        f.writelines(lines)
    (file,) = saved.ok("--conflicts", "--json")["files"]
    why = {t["table"]: t.get("why") for t in file["tables"]}
    assert why["fleet"] is None and "such as what was altered" in why["chat"], why
    assert compared(file["tables"]) == COMPARED
    done = saved.run("--conflicts=" + saved.name, "--apply")
    assert done.rc == DONE and "such as nick was altered" in done.out + done.err, done
    assert saved.world.value("SELECT points FROM player WHERE id=5000") == 3


def test_the_way_by_hand(saved):
    """The manual's recipe works with the stock client: load the file into a scratch schema, then INSERT IGNORE."""
    schema, scratch = saved.world.schema, saved.world.schema + "_scratch"
    saved.server.sql(f"CREATE DATABASE {ident(scratch)}")
    try:
        with open(os.path.join(saved.base, "definitions.sql"), "wb") as f:
            subprocess.run([*client(saved.server, schema, "mysqldump", "--no-data", "--skip-triggers"),
                            "player", "fleet", "chat"], stdout=f, check=True)
        with open(f.name, "rb") as f:
            subprocess.run(client(saved.server, scratch), stdin=f, check=True)
        stock_restore(saved.server, saved.file, scratch)
        saved.world.sql(*[f"INSERT IGNORE INTO {t} ({c}) SELECT {c} FROM {ident(scratch)}.{t}"
                          for t, c in (("player", "id,nick,points,ratio"), ("fleet", "id,owner,x"))])
    finally:
        saved.server.sql(f"DROP DATABASE {ident(scratch)}")
    (file,) = saved.ok("--conflicts", "--json")["files"]
    assert compared(file["tables"]) == {"chat": (3, 1, 0), "fleet": (0, 2, 1), "player": (0, 1, 2)}


def test_a_game_that_goes_on_writing(saved):
    """While the game adds players, each row of the file is inserted once, under its own number."""
    with Game(saved.world, "INSERT INTO player (nick,points) VALUES ('game {n}',1)", pause=0):
        wait_for(lambda: saved.world.rows() > 2020, "the game")
        done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--json")
        goal = saved.world.rows() + 20
        wait_for(lambda: saved.world.rows() > goal, "the game to go on")
    player = {t["table"]: t for t in done.result["tables"]}["player"]
    quicker = saved.world.value("SELECT COUNT(*) FROM player WHERE id=5000 AND nick LIKE 'game%'")
    assert player["inserted"] == 2 and player["renumbered"] == 1 + quicker, done
    new = dict(player["numbers"])
    assert saved.world.value(f"SELECT nick FROM player WHERE id={new[1]}") == 'Új "játékos"'
    assert saved.world.value(f"SELECT points FROM player WHERE id={new.get(5000, 5000)}") == 3
    assert saved.world.value("SELECT COUNT(*) FROM player WHERE nick LIKE 'Új%'") == 1


def test_every_type_comes_back(victim, make_world, make_keeper):
    """Rows of all types at their limits, in tables with difficult names, are inserted as they were written."""
    world = make_world("zoo", on=victim)
    keeper = make_keeper(world, {"journal": {"mode": "off"}}).init()
    victim.sql("GRANT SET USER ON *.* TO keeper@localhost")  # to move root's triggers
    for (name,) in world.sql("SELECT trigger_name FROM information_schema.triggers WHERE "
                             f"trigger_schema='{world.schema}'"):
        world.sql("DROP TRIGGER " + ident(name))
    victim.crash()
    keeper.ok("--init", "--force")
    keeper.dump()
    victim.crash()
    world.sql(*[s for s in zoo.memory_zoo() if s.startswith(("INSERT", "SET"))])
    # Worldkeeper's own tables and tables that the statements did not fill are not compared.
    wrote = {t: sums for t, sums in world.checksums().items() if sums[0] and not t.startswith("worldkeeper")}
    assert len(wrote) > 10
    keeper.ok("--restore")
    assert not {t: sums for t, sums in world.checksums().items() if t in wrote and sums[0]}
    (path,) = keeper.conflicts()
    done = keeper.run("--conflicts=" + path, "--apply", "--json")
    left = {t["table"]: t["why"] for t in done.result["tables"] if t.get("why")}
    assert done.rc == DONE, left
    assert {t: sums for t, sums in world.checksums().items() if t in wrote} == wrote
    (file,) = keeper.ok("--conflicts", "--json")["files"]
    assert {(t["new"], t["taken"]) for t in file["tables"]} == {(0, 0)}


def test_a_loss_after_rows_were_put_in(make_server, make_world, make_keeper):
    """The journal contains the inserted rows: there is no gap, and the next restore has them."""
    server = make_server(*LOG)
    keeper = make_keeper(make_world("small", on=server), {"journal": {"mode": "follow"}}).init()
    keeper.dump()
    keeper.start()
    following(keeper)
    server.crash()
    keeper.wait(lambda: keeper.world.rows() == 2000 and keeper.state() == "UP", "the world")
    keeper.stop()
    server.crash()
    keeper.world.sql(*WRITTEN)
    keeper.start()
    following(keeper)
    (path,) = keeper.conflicts()
    done = keeper.run("--conflicts=" + path, "--apply", "--renumber", "--json")
    assert done.rc == REFUSED and done.result["inserted"] == 6, done
    before = keeper.world.snapshot()
    following(keeper)
    server.crash()
    keeper.wait(lambda: keeper.world.rows() == 2002 and keeper.state() == "UP", "the world")
    keeper.world.assert_is(before)
    assert "gap" not in keeper.log(), keeper.log()


def test_killed_between_two_tables(saved):
    """If --apply is killed, the next run finds the inserted rows equal and inserts nothing twice."""
    done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber",
                     fault="conflicts.table_done#3=kill")
    assert done.rc == -signal.SIGKILL, done
    assert saved.world.rows("chat") == 303 and saved.world.rows() == 2002
    after = saved.world.snapshot()
    done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--json")
    assert done.rc == REFUSED and done.result["inserted"] == 0, done
    saved.world.assert_is(after)


def test_more_taken_rows_than_the_default_limit_holds(make_server, make_world, make_keeper):
    """The number of rows whose key is taken is not limited by the server's max_heap_table_size."""
    keeper = make_keeper(make_world("empty", on=make_server("--max-heap-table-size=16384"))).init()
    keeper.world.sql("SET max_heap_table_size=16777216", "CREATE TABLE big (id INT AUTO_INCREMENT PRIMARY KEY, v INT) "
                     "ENGINE=MEMORY", "INSERT INTO big VALUES " + ",".join(f"({n},0)" for n in range(1, 3001)))
    keeper.dump()
    keeper.world.sql("UPDATE big SET v=1", "DELETE FROM worldkeeper_sentinel")
    keeper.ok("--restore", "--force")
    (path,) = keeper.conflicts()
    (file,) = keeper.ok("--conflicts=" + path, "--json")["files"]
    assert compared(file["tables"]) == {"big": (0, 0, 3000)}
    done = keeper.ok("--conflicts=" + path, "--apply", "--renumber", "--json")
    assert put_in(done["tables"]) == {"big": (3000, 3000, 0)}
    assert keeper.world.sql("SELECT COUNT(*), SUM(v), MAX(id) FROM big") == ((6000, 3000, 6000),)


def test_numbers_of_a_world_that_was_lost(doomed, victim):
    """Rows that were inserted into a world that was lost since, before a dump had them, are inserted again, although other rows
    have their numbers now. Rows that a dump had count as equal."""
    world = doomed.world
    world.sql("CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20)) ENGINE=MEMORY",
              "INSERT INTO orders VALUES (1,'ann'),(2,'bob')")
    doomed.dump()
    victim.crash()
    world.sql("INSERT INTO orders VALUES (1,'carl'),(7,'dora')")
    doomed.ok("--restore")
    (path,) = doomed.conflicts()
    numbers = path.replace(".sql.gz", ".numbers.tsv")
    told = doomed.ok("--conflicts=" + path, "--apply", "--renumber", "--json")
    assert told["numbers_file"] == numbers and told["inserted"] == 2
    whole = world.sql("SELECT id, who FROM orders ORDER BY id")
    assert whole == ((1, "ann"), (2, "bob"), (7, "dora"), (8, "carl"))

    victim.grow_old()
    victim.crash()
    doomed.ok("--restore")
    world.sql("INSERT INTO orders VALUES (7,'emil'),(8,'fred')")
    told = doomed.ok("--conflicts=" + path, "--apply", "--renumber", "--json")
    assert put_in(told["tables"]) == {"orders": (2, 2, 0)}, told
    assert world.sql("SELECT id, who FROM orders WHERE id>8 ORDER BY id") == ((9, "carl"), (10, "dora"))

    world.sql("UPDATE orders SET who='the game' WHERE id=9")  # of this world: recognized by its number
    assert doomed.ok("--conflicts=" + path, "--apply", "--renumber", "--json")["inserted"] == 0
    world.sql("UPDATE orders SET who='carl' WHERE id=9")
    doomed.dump()
    victim.grow_old()
    victim.crash()
    doomed.ok("--restore")  # another world again, which has the rows
    assert doomed.ok("--conflicts=" + path, "--apply", "--renumber", "--json")["inserted"] == 0
    with open(numbers) as f:
        earlier = ["\t".join(line.split("\t")[:4]) + "\n" for line in f]
    with open(numbers, "w") as f:  # as an earlier version wrote it
        f.writelines(earlier)
    assert doomed.ok("--conflicts=" + path, "--apply", "--renumber", "--json")["inserted"] == 0


def test_no_numbers_left(lost):
    """If a counter is at the end of its type, the table is named and no colliding row of it is inserted."""
    lost.world.sql("CREATE TABLE tiny (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY")
    lost.ok("--restore")
    lost.world.sql("INSERT INTO tiny VALUES (1,1),(254,2)")
    lost.dump()
    lost.server.crash()
    lost.world.sql("INSERT INTO tiny VALUES (1,7),(2,8),(254,9)")
    lost.ok("--restore")
    path = sorted(lost.conflicts())[-1]
    done = lost.run("--conflicts=" + path, "--apply", "--renumber", "--json")
    (tiny,) = done.result["tables"]
    assert done.rc == REFUSED and "no numbers left" in tiny["why"], done
    assert lost.world.sql("SELECT id, v FROM tiny ORDER BY id") == ((1, 1), (2, 8), (254, 2))


def test_numbers_beyond_signed_ones(lost):
    """A BIGINT UNSIGNED counter above 2^63 is reported exactly."""
    lost.world.sql("CREATE TABLE huge (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY")
    lost.ok("--restore")
    top = 2 ** 63 + 5
    lost.world.sql(f"INSERT INTO huge VALUES ({top},1)")
    lost.dump()
    lost.server.crash()
    lost.world.sql(f"INSERT INTO huge VALUES ({top},2)")
    lost.ok("--restore")
    path = sorted(lost.conflicts())[-1]
    assert f"huge: {top} -> {top + 1}" in lost.ok("--conflicts=" + path, "--apply", "--renumber", "--dry-run").out
    (huge,) = lost.ok("--conflicts=" + path, "--apply", "--renumber", "--json")["tables"]
    assert huge["numbers"] == [[str(top), str(top + 1)]]
    assert lost.world.sql("SELECT id, v FROM huge ORDER BY id") == ((top, 1), (top + 1, 2))


def test_a_privilege_that_is_missing(saved):
    """Without CREATE TEMPORARY TABLES nothing can be compared; the list and --apply print the GRANT."""
    saved.server.account(USER, [saved.world.schema], RIGHTS.replace("CREATE TEMPORARY TABLES", "SELECT"))
    told = saved.ok("--conflicts", "--json")
    assert not told["compared"] and told["hint"].startswith("GRANT CREATE TEMPORARY TABLES ON"), told
    assert compared(told["files"][0]["tables"])["fleet"] == (None, None, None)
    assert "HINT: GRANT CREATE TEMPORARY TABLES ON" in saved.ok("--conflicts").out
    done = saved.run("--conflicts=" + saved.name, "--apply")
    assert done.rc == FAILED and "GRANT CREATE TEMPORARY TABLES ON" in done.err, done
    saved.world.assert_is(saved.before)


def test_a_statement_that_fails_halfway(saved):
    """MEMORY keeps the rows that were inserted before a statement failed. The next run recognizes them and inserts the rest
    once."""
    saved.world.sql("CREATE TRIGGER t BEFORE INSERT ON player FOR EACH ROW BEGIN IF NEW.id=5000 THEN "
                    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT='not now'; END IF; END")
    done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber")
    assert done.rc == FAILED and "table player" in done.err and "not now" in done.err, done
    assert done.out.startswith("5 rows inserted into the world"), done
    assert re.search(r"^player +3 +0 +1 +1 +2 .*not now", done.out, re.M), done
    assert saved.world.value("SELECT COUNT(*) FROM player WHERE nick LIKE 'Új%'") == 1
    saved.world.sql("DROP TRIGGER t", "UPDATE player SET points=77 WHERE nick LIKE 'Új%'")
    done = saved.run("--conflicts=" + saved.name, "--apply", "--renumber", "--json")
    player = {t["table"]: t for t in done.result["tables"]}["player"]
    assert player["inserted"] == 1 and player["equal"] == 1, done
    assert saved.world.sql("SELECT points FROM player WHERE nick LIKE 'Új%'") == ((77,),)
    assert saved.world.value("SELECT points FROM player WHERE id=5000") == 3


def test_new_numbers_follow_the_server_s_step(make_server, make_world, make_keeper):
    """New numbers follow auto_increment_increment, because other servers may use the numbers in between."""
    keeper = make_keeper(make_world(on=make_server("--auto-increment-increment=10", "--auto-increment-offset=3"))).init()
    keeper.world.sql("CREATE TABLE tiny (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY",
                     "INSERT INTO tiny VALUES (3,1),(13,2),(231,3)")
    keeper.dump()
    keeper.server.crash()
    keeper.world.sql("INSERT INTO tiny VALUES (3,7),(13,8)", "INSERT INTO player VALUES (3,'a',1,1),(13,'b',2,2),(2007,'c',3,3)")
    keeper.ok("--restore")
    (path,) = keeper.conflicts()
    dry = keeper.run("--conflicts=" + path, "--apply", "--renumber", "--dry-run", "--json")
    done = keeper.run("--conflicts=" + path, "--apply", "--renumber", "--json")
    assert dry.rc == done.rc == DONE and dry.result["tables"] == done.result["tables"], done
    assert {t["table"]: t["numbers"] for t in done.result["tables"]} == {
        "player": [[3, 2013], [13, 2023]], "tiny": [[3, 233], [13, 243]]}, done
    assert keeper.world.sql("SELECT id, v FROM tiny WHERE v>6 ORDER BY id") == ((233, 7), (243, 8))
    assert keeper.world.sql("SELECT id FROM player WHERE nick IN ('a','b') ORDER BY id") == ((2013,), (2023,))
    keeper.world.sql("INSERT INTO player (nick,points) VALUES ('next',1)")
    assert keeper.world.value("SELECT id FROM player WHERE nick='next'") == 2033
