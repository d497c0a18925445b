"""Tests of restores from files of mysqldump, as its options and the server's settings write them."""
import os
import re
import subprocess

import pytest
from wk.keeper import DONE, REFUSED
from wk.server import client

pytestmark = pytest.mark.third_on_mysql


def written(server, path, *words):
    """Writes the file of a mysqldump with these options and names, and returns its path."""
    with open(path, "wb") as f:
        subprocess.run([*client(server, words[0], "mysqldump"), *words[1:]], stdout=f, check=True)
    return path


@pytest.fixture
def path(tmp):
    return os.path.join(tmp, "old.sql")


def test_triggers_in_which_a_backslash_is_a_character(doomed, victim, path):
    """A file with triggers made under NO_BACKSLASH_ESCAPES is restored: such a trigger's text ends where the server ends it."""
    world = doomed.world
    victim.sql("GRANT SET USER ON *.* TO keeper@localhost")
    world.sql("ALTER TABLE player DROP ratio",  # mysqldump rounds it
              "SET sql_mode='NO_BACKSLASH_ESCAPES'",
              "CREATE TRIGGER a BEFORE INSERT ON chat FOR EACH ROW BEGIN SET NEW.what='\\'; "
              "SET NEW.who=1; END",
              "CREATE TRIGGER b BEFORE INSERT ON player FOR EACH ROW BEGIN SET NEW.points=1; END")
    before = world.snapshot()
    written(victim, path, "--triggers", world.schema)
    victim.crash()
    doomed.ok("--restore=" + path)
    world.assert_is(before)


@pytest.mark.parametrize("comment", ["all (of them) :)", "ENGINE=InnoDB AUTO_INCREMENT=7 it''s", "("])
def test_comments_that_look_like_options(doomed, victim, path, comment):
    """A table and its counter are restored whatever its comment says, over an existing table and in place of a dropped one."""
    world = doomed.world
    world.sql("ALTER TABLE player DROP ratio",
              f"CREATE TABLE told (id INT AUTO_INCREMENT PRIMARY KEY) ENGINE=MEMORY COMMENT='{comment}'",
              "INSERT INTO told VALUES (1)", "ALTER TABLE told AUTO_INCREMENT=500")
    before = world.snapshot()
    written(victim, path, world.schema)
    world.sql("DROP TABLE told")
    for _ in range(2):
        victim.crash()
        doomed.ok("--restore=" + path)
        world.assert_is(before)


def test_several_schemas_in_one_file(doomed, victim, path, make_world):
    """From a file of --databases only the tables of the world's own schema are restored; a file without that schema is
    refused."""
    world, other = doomed.world, make_world("empty", on=victim)
    world.sql("ALTER TABLE player DROP ratio")
    namesake = ["CREATE TABLE chat (who INT, what VARCHAR(80)) ENGINE=MEMORY", "INSERT INTO chat VALUES (77,'x')"]
    other.sql(*namesake, "CREATE TABLE stray (id INT PRIMARY KEY) ENGINE=MEMORY", "INSERT INTO stray VALUES (1)")
    third = make_world("small", on=victim)
    third.sql("DELETE FROM chat", "INSERT INTO mark VALUES (2,2)")
    before = world.snapshot()
    for order in ([other, world, third], [world, third, other], [third, other]):
        written(victim, path, "--databases", *(w.schema for w in order))
        victim.crash()
        done = doomed.run("--restore=" + path)
        if world in order:
            assert done.rc == DONE, done
            world.assert_is(before)
        else:
            assert done.rc == REFUSED and "several schemas" in done.err and "HINT" in done.err, done
        for w in (other, third):
            w.drop()
            w.server.sql(f"CREATE DATABASE `{w.schema}`")
        other.sql(*namesake)
        third.fill("small")


def test_two_dumps_in_one_file(doomed, victim, path, tmp):
    """A file of two dumps in a row is refused, because each table would get the rows of both."""
    with open(path, "ab") as f:
        for part in "ab":
            f.write(open(written(victim, os.path.join(tmp, part), doomed.world.schema), "rb").read())
    victim.crash()
    empty = doomed.world.snapshot()
    done = doomed.run("--restore=" + path)
    assert done.rc == REFUSED and "second time" in done.err and "HINT" in done.err, done
    doomed.world.assert_is(empty)


@pytest.mark.parametrize("options", [(), ("--skip-tz-utc",), ("--compact",), ("--compact", "--no-create-info")], ids=str)
def test_times_of_a_server_elsewhere(make_server, make_world, make_keeper, path, options):
    """TIMESTAMPs are restored as the same moments, whether the file has them in UTC or in the server's own time zone."""
    server = make_server("--default-time-zone=+03:00")
    keeper = make_keeper(make_world(on=server)).init()
    keeper.world.sql("ALTER TABLE player DROP ratio",
                     "CREATE TABLE times (id INT PRIMARY KEY, t TIMESTAMP NULL, d TIMESTAMP NOT NULL DEFAULT "
                     "'2020-02-02 02:02:02') ENGINE=MEMORY",
                     "INSERT INTO times (id,t) VALUES (1,'2020-01-01 10:00:00')")
    before = keeper.world.snapshot()
    written(server, path, *options, keeper.world.schema)
    server.crash()
    if "--no-create-info" not in options:
        keeper.world.sql("DROP TABLE times")
    keeper.ok("--restore=" + path, *(["--accept-cut"] if "--compact" in options else []))
    keeper.world.assert_is(before)


@pytest.mark.parametrize("charset", ["latin1", "binary", "utf8mb3"])
def test_texts_in_the_character_set_of_the_file(doomed, victim, path, charset):
    """The character set at the head of a file applies to the rows of each of its tables, although the definitions between them
    are in UTF-8."""
    world = doomed.world
    world.sql("ALTER TABLE player DROP ratio", "ALTER TABLE player COMMENT 'árvíz'",
              "CREATE VIEW seen AS SELECT 'é' AS é FROM chat",
              "CREATE TABLE wide (a VARCHAR(20) CHARACTER SET utf8mb4, b VARCHAR(20) CHARACTER SET latin1, "
              "c VARBINARY(20)) ENGINE=MEMORY", "INSERT INTO wide VALUES ('árvíz','árvíz',x'E1E9FF00')")
    before = world.snapshot()
    written(victim, path, "--hex-blob", "--default-character-set=" + charset, world.schema)
    victim.crash()
    assert "warning" not in doomed.ok("--restore=" + path, "--json")
    world.assert_is(before)


def test_keys_that_stand_behind_the_rows(doomed, victim, path, make_world):
    """Files of other programs add a table's keys with a statement after its rows. Rows are restored into an existing table,
    and a table that is created gets the keys."""
    world, other = doomed.world, make_world("empty", on=victim)
    victim.grant("keeper@localhost", other.schema)
    world.sql("CREATE TABLE keyed (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=MEMORY",
              "INSERT INTO keyed VALUES (1,2)")
    before = world.snapshot()
    made = world.sql("SHOW CREATE TABLE keyed")[0][1]
    with open(path, "w") as f:
        f.write("SET time_zone = \"+00:00\";\nCREATE TABLE `keyed` (\n  `id` int NOT NULL,\n  `v` int\n"
                ") ENGINE=MEMORY;\nINSERT INTO `keyed` (`id`, `v`) VALUES\n(1, 2);\n"
                "ALTER TABLE `keyed`\n  ADD PRIMARY KEY (`id`);\n"
                "ALTER TABLE `keyed`\n  MODIFY `id` int NOT NULL AUTO_INCREMENT;\n")
    world.sql("DELETE FROM keyed")
    doomed.ok("--restore=" + path, "--force", "--accept-cut")
    world.assert_is(before)
    world.sql("DROP TABLE keyed")
    for goal, at in ((("--force",), world), (("--into", other.schema), other)):
        doomed.ok("--restore=" + path, "--accept-cut", *goal)
        assert at.sql("SHOW CREATE TABLE keyed")[0][1] == made
        assert at.sql("SELECT * FROM keyed") == ((1, 2),)


def test_tables_without_their_engines(doomed, victim, path):
    """A file without engines is restored into existing tables. If they do not exist it is refused, because nothing says which
    are MEMORY tables."""
    world = doomed.world
    world.sql("ALTER TABLE player DROP ratio")
    before = world.snapshot()
    tables = [name for (name,) in world.sql("SELECT table_name FROM information_schema.tables "
                                            f"WHERE table_schema='{world.schema}' AND engine='MEMORY'")]
    written(victim, path, world.schema)
    with open(path) as f:  # --skip-create-options does it, but not on every server
        text = re.sub(r"\n\) ENGINE=[^;]*;", "\n);", f.read())
    with open(path, "w") as f:
        f.write(text)
    victim.crash()
    doomed.ok("--restore=" + path)
    world.assert_is(before)
    world.sql(*(f"DROP TABLE `{name}`" for name in tables))
    refused = doomed.run("--restore=" + path)
    assert refused.rc == REFUSED and "does not give its ENGINE" in refused.err, refused
    assert "create its MEMORY tables first" in refused.err, refused


def test_names_without_quotes(doomed, victim, path):
    """A file of --skip-quote-names is restored, with unquoted names among texts that look like column definitions."""
    world = doomed.world
    world.sql("ALTER TABLE player DROP ratio",
              "CREATE TABLE odd (id INT PRIMARY KEY, period INT COMMENT "
              "'a (,\n  b int,\n  `c` int GENERATED ALWAYS AS (1),', said VARCHAR(9) DEFAULT ',\nd', "
              "share DECIMAL(4,1), partition_ ENUM('x,','\ny)'), KEY (period,partition_)) ENGINE=MEMORY",
              "INSERT INTO odd (id,period,said,share,partition_) VALUES (1,2,'e',4.5,'\ny)'),(6,7,'f',9,'x,')")
    before = world.snapshot()
    written(victim, path, "--skip-quote-names", world.schema)
    victim.crash()
    doomed.ok("--restore=" + path)
    world.assert_is(before)
