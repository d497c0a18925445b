"""Random files in the styles of other tools, and files that these tools wrote: a restore gives the same result as the stock
client, into a new schema, into a world without the tables, and over a world with them."""
import os
import random
import subprocess

import pytest
from wk import foreign
from wk.keeper import DONE, REFUSED
from wk.server import MYSQL, RIGHTS, client
from wk.snapshot import assert_same, snapshot

STOCK, INTO = "wk_stock", "wk_into"
SEEDS = range(int(os.environ.get("WK_SEEDS", 0)) or (30 if os.environ.get("WK_WHOLE") == "yes" else 1))
FILES = 8  # files per seed


@pytest.fixture
def place(doomed, victim, tmp):
    place = Place(doomed, victim, tmp)
    for schema in (INTO, doomed.world.schema):  # needed for REPLACE and DELETE
        victim.grant("keeper@localhost", schema, RIGHTS + ", DELETE")
    yield place
    victim.sql(*(f"DROP DATABASE IF EXISTS {s}" for s in (STOCK, INTO)))


class Place:
    def __init__(self, keeper, server, tmp):
        self.keeper, self.server, self.path = keeper, server, os.path.join(tmp, "file.sql")

    def stock(self):
        """Loads the file with the stock client; returns the snapshot, or None if the client failed, and its errors."""
        self.server.sql(f"DROP DATABASE IF EXISTS {STOCK}", f"CREATE DATABASE {STOCK} CHARACTER SET utf8mb4")
        with open(self.path, "rb") as f:
            done = subprocess.run(client(self.server, STOCK, "mariadb", "--default-character-set=utf8mb4"), stdin=f,
                                  stderr=subprocess.PIPE, check=False)
        return (None if done.returncode else snapshot(self.server, STOCK, engines={"MEMORY"})), done.stderr.decode("utf-8", "replace")

    def restore(self, *more):
        done = self.keeper.run("--restore=" + self.path, *more)
        cut = done.rc == REFUSED and "lacks a closing" in done.err
        return self.keeper.run("--restore=" + self.path, "--accept-cut", *more) if cut else done

    def into(self):
        self.server.sql(f"DROP DATABASE IF EXISTS {INTO}")
        return self.restore("--into=" + INTO)

    def drop_tables(self, wanted):
        names = [k[6:].replace("`", "``") for k in wanted if k.startswith("table ")]
        self.keeper.world.sql(*(f"DROP TABLE IF EXISTS `{n}`" for n in names))

    def judge(self, what, must):
        """Compares a restore of the file with the stock client's result. With `must`, the file is a tool's own and must be
        accepted if the stock client accepts it."""
        wanted, error = self.stock()
        done = self.into()
        if done.rc == REFUSED and not must:
            assert "line " in done.err and "HINT" in done.err, (what, done)
            return False
        if wanted is None:
            assert done.rc != DONE, (what, error, done)
            return False
        if not any(k.startswith("table ") for k in wanted):
            return False
        assert done.rc == DONE, (what, done)
        assert_same(wanted, snapshot(self.server, INTO, engines={"MEMORY"}), f"{what}: beside the world")
        self.drop_tables(wanted)
        for how in ("without", "with"):
            done = self.restore("--force")
            assert done.rc == DONE, (what, how, done)
            world = snapshot(self.server, self.keeper.world.schema, engines={"MEMORY"})
            assert_same(wanted, {k: v for k, v in world.items() if k in wanted}, f"{what}: in a world {how} its tables")
        self.drop_tables(wanted)
        return True

    def write(self, text):
        with open(self.path, "wb") as f:
            f.write(text)


@pytest.mark.parametrize("style", foreign.STYLES, ids=lambda s: s.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_files_of_other_tools(place, style, seed):
    rand = random.Random(f"{style.__name__} {seed}")
    taken = 0
    for i in range(FILES):
        writer = style(rand, foreign.some_tables(rand), STOCK, view=rand.random() < 0.5)
        place.write(writer.text())
        taken += place.judge(f"{style.__name__}, seed {seed}, file {i}", must=style is not foreign.Grammar)
    assert taken >= (1 if style is foreign.Grammar else FILES // 3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tool", ["mysqldump", pytest.param("mydumper", marks=pytest.mark.needs("mydumper"))])
def test_files_of_real_tools(place, tool, seed, make_world, tmp):
    rand = random.Random(f"{tool} {seed}")
    taken = 0
    for i in range(FILES // 2):
        source = make_world("empty", on=place.server)
        tables = foreign.some_tables(rand)
        writer = foreign.HeidiSql(rand, tables, source.schema, view=rand.random() < 0.5)
        writer.mode, writer.verb = "NO_AUTO_VALUE_ON_ZERO", "INSERT INTO"
        place.write(writer.text())
        with open(place.path, "rb") as f:
            subprocess.run(client(place.server, source.schema, "mariadb", "--default-character-set=utf8mb4"), stdin=f,
                           check=True)
        options = (foreign.dumped(rand, place.server, source.schema, place.path) if tool == "mysqldump"
                   else foreign.mydumped(rand, place.server, source.schema, place.path, tmp))
        source.drop()
        if options is not None:  # None if the tool itself fails with these names or this version
            taken += place.judge(f"{tool} {options}, seed {seed}, file {i}", must=True)
    assert taken or (MYSQL and tool == "mydumper")
