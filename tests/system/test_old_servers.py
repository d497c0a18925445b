"""Tests of behavior in which older server versions differ, and of events that newer ones never write."""
import pytest

from wk.follow import crash, dump_and_follow, following
from wk.server import KIND

pytestmark = pytest.mark.each_server


def emptied(server):
    """Returns the logged statements that emptied tables, from the newest log file, which begins at the server's start."""
    newest = server.sql("SHOW BINARY LOGS")[-1][0]
    return [row[5] for row in server.sql(f"SHOW BINLOG EVENTS IN '{newest}'")
            if row[5].upper().startswith(("TRUNCATE", "DELETE FROM")) or "; TRUNCATE" in row[5].upper()]


@pytest.mark.parametrize("losses", [1, 2])
def test_the_implicit_truncate_is_no_change_of_the_world(losses, make_server, make_world, make_keeper):
    """A game that opens the tables after a restart makes the server log that it emptied them, in MariaDB before 10.11.17
    without a comment. A restore does not apply this and restores everything up to it."""
    server = make_server("--log-bin=log", "--binlog-format=ROW")
    keeper = make_keeper(make_world("small", server))
    keeper.configure({"journal": {"mode": "server"}})
    keeper.init()
    keeper.dump()
    world = keeper.world
    for n in range(losses):
        world.sql(f"INSERT INTO player (nick,points) VALUES ('late {n}',1)", f"DELETE FROM fleet WHERE id>{2000 - n}",
                  "TRUNCATE TABLE chat", f"UPDATE mark SET v={n + 7}")
        was = world.snapshot()
        server.crash()
        for table in ("player", "fleet", "chat", "mark"):
            assert world.value(f"SELECT COUNT(*) FROM {table}") in (0, "0")
        written = emptied(server)
        assert len(written) >= 4, written
        if KIND == "mariadb-10.5":
            assert not any("generated" in text for text in written), written
        done = keeper.ok("--restore")
        assert "gap" not in done.out, done
        world.assert_is(was)


def test_a_table_of_another_schema_that_a_restart_emptied_is_no_gap(make_followed):
    """A server logs that a restart emptied a MEMORY table, MariaDB 10.5 as a DELETE, when the table of another schema is opened."""
    keeper = make_followed()
    keeper.server.sql("CREATE DATABASE other", "CREATE TABLE other.t (a INT) ENGINE=MEMORY", "INSERT INTO other.t VALUES (1)")
    dump_and_follow(keeper)
    crash(keeper)
    following(keeper)
    assert keeper.server.sql("SELECT COUNT(*) FROM other.t")[0][0] == 0
    assert any("other" in text for text in emptied(keeper.server))
    keeper.world.mark(7)
    before = keeper.world.snapshot()
    told = crash(keeper)
    keeper.world.assert_is(before)
    assert told["journal"]["whole"] and "not logged as row changes" not in keeper.log(), keeper.log()
