"""Other sessions that hold locks on the tables that a restore replaces: they are named, and ended if that is allowed. A restore
waits for backups."""
import machine
import pytest
from wk.crash import go_on, stopped
from wk.keeper import DONE, USER
from wk.server import KIND, MYSQL
from wk.util import CANARY, wait_for

pytestmark = pytest.mark.each_server

WAITS = {"restore": {"lock_wait": "2s"}}
MAY_END = ("GRANT CONNECTION_ADMIN ON *.* TO {}", "GRANT SELECT ON performance_schema.metadata_locks TO {}",
           "GRANT SELECT ON performance_schema.threads TO {}",
           "GRANT SELECT ON performance_schema.events_statements_current TO {}") if MYSQL else (
           "GRANT CONNECTION ADMIN, PROCESS ON *.* TO {}",)
GAME = "gamer"
LISTS_LOCKS = ["--performance-schema=ON"] if MYSQL else []
BACKUPS = {"read lock": ["FLUSH TABLES WITH READ LOCK"],
           "backup": ["LOCK INSTANCE FOR BACKUP"] if MYSQL else
           ["BACKUP STAGE START", "BACKUP STAGE FLUSH", "BACKUP STAGE BLOCK_DDL"]}


def grant(server, *statements):
    server.sql(*(s.format(f"'{USER}'@'{host}'") for s in statements for host in ("localhost", "127.0.0.1")))


@pytest.fixture
def lost(doomed, victim):
    """Returns a world whose server was restarted, with an account of its game."""
    doomed.configure(WAITS)
    doomed.world.sql("CREATE TABLE durable (a INT PRIMARY KEY) ENGINE=InnoDB", "INSERT INTO durable VALUES (1)")
    victim.account(GAME, [doomed.world.schema], server_rights="")
    doomed.dump()
    doomed.before = doomed.world.snapshot()
    victim.crash(*LISTS_LOCKS)
    yield doomed
    victim.end_sessions(user=GAME)


@pytest.fixture
def sessions(lost, victim):
    """Returns a function that opens a session of the game, which stays idle after its statements."""
    opened = []

    def begin(*statements, user=GAME, schema=lost.world.schema):
        con = victim.admin(schema, **({} if user == "root" else {"user": user, "password": CANARY}))
        opened.append(con)
        with con.cursor() as cur:
            for statement in statements:
                cur.execute(statement)
        return con
    yield begin
    for con in opened:
        if con.open:
            con.close()


def troubles(keeper):
    return (keeper.status() or {}).get("troubles", [])


def alive(victim, con):
    return bool(victim.sessions(id=con.thread_id()))


READS = ["SET autocommit=0", "SELECT * FROM durable", "SELECT * FROM fleet"]
WRITES = ["SET autocommit=0", "INSERT IGNORE INTO durable VALUES (7)", "SELECT * FROM fleet"]
IDLE = {"reads": READS, "begun": ["START TRANSACTION", "SELECT * FROM fleet"], "tables": ["LOCK TABLES fleet READ"],
        "writes": WRITES}


@pytest.mark.parametrize("what", list(IDLE))
def test_an_idle_session_of_the_game_is_ended(lost, sessions, victim, what):
    grant(victim, *MAY_END)
    idle = sessions(*IDLE[what])
    number = idle.thread_id()
    lost.start(state=None)
    lost.wait_state("UP")
    assert not victim.sessions(id=number)
    lost.world.assert_is(lost.before)
    lost.wait(lambda: "ended" in (lost.status()["last_restore"] or {}).get("warning", ""), "it is told")
    warning = lost.status()["last_restore"]["warning"]
    assert f"session {number} ({GAME}@" in warning, warning
    assert not [c for c in troubles(lost) if "restore waits" in c["what"]]


def test_a_lock_wait_longer_than_the_limits_of_an_answer(lost, sessions, victim):
    """A lock wait longer than read_timeout and stall ends with the server's error, so that the blocking session is ended."""
    grant(victim, *MAY_END)
    lost.configure({"mysql": {"read_timeout": "3s"}, "dump": {"stall": "3s"},
                    "restore": {"stall": "3s", "lock_wait": "6s"}})
    idle = sessions(*READS)
    done = lost.ok("--restore")
    assert f"session {idle.thread_id()} " in done.err and not alive(victim, idle), done
    lost.world.assert_is(lost.before)


def test_an_idle_session_that_locks_before_the_swap(lost, sessions, victim):
    """A session that locks a table just before the swap is ended like one that had locked it earlier."""
    grant(victim, *MAY_END)
    restoring = lost.popen("--restore", fault="restore.conflict_saved=stop")
    lost.wait(lambda: stopped(lost), "the restore to stop")
    idle = sessions("LOCK TABLES fleet WRITE")
    go_on(stopped(lost))
    done = lost.finish(restoring)
    assert done.rc == DONE and f"session {idle.thread_id()} " in done.err, done
    assert not alive(victim, idle)
    lost.world.assert_is(lost.before)


@pytest.mark.only("mysql", why="MariaDB, without a plugin, lists no locks")
def test_of_a_server_that_does_not_tell_who_holds_locks(lost, sessions, victim):
    victim.crash()
    grant(victim, "GRANT CONNECTION_ADMIN, PROCESS ON *.* TO {}")
    idle = sessions(*READS)
    number = idle.thread_id()
    done = lost.ok("--restore")
    assert f"session {number} " in done.err and "transaction open" in done.err, done
    assert not victim.sessions(id=number)
    lost.world.assert_is(lost.before)


def test_of_another_schema(lost, sessions, victim):
    """A blocking session of another schema is named with its KILL command in log and status and is not ended; the restore fails
    and names it in the error."""
    grant(victim, *MAY_END)
    victim.sql("CREATE DATABASE IF NOT EXISTS elsewhere", f"GRANT SELECT ON elsewhere.* TO '{GAME}'@'localhost'")
    schema = lost.world.schema
    other = sessions("SET autocommit=0", f"SELECT * FROM `{schema}`.durable", f"SELECT * FROM `{schema}`.fleet",
                     schema="elsewhere")
    number = other.thread_id()
    lost.start(state=None)
    lost.wait(lambda: [c for c in troubles(lost) if f"session {number} " in c["what"]
                       and f"KILL {number}" in c["hint"]], "the session is named")
    lost.wait_log("restore failed")
    assert alive(victim, other)
    failed = [line for line in lost.log().splitlines() if "restore failed" in line][0]
    assert f"session {number} " in failed and "schema elsewhere" in failed, failed
    other.close()
    lost.wait_state("UP")
    lost.wait(lambda: not [c for c in troubles(lost) if "restore waits" in c["what"]], "it is over")


def test_never(lost, sessions, victim):
    grant(victim, *MAY_END)
    lost.configure({"restore": {"end_blockers": "never"}})
    idle = sessions(*READS)
    done = lost.run("--restore")
    assert done.rc == 1 and f"KILL {idle.thread_id()}" in done.err, done
    assert alive(victim, idle)


def test_without_the_privilege(lost, sessions, victim):
    """Without the privilege the blocking session is not named. The hint leads to --check, whose GRANTs let the restore
    succeed."""
    idle = sessions(*READS)
    done = lost.run("--restore")
    assert done.rc == 1 and "worldkeeper" in done.err and "--check" in done.err, done
    assert alive(victim, idle) and f"session {idle.thread_id()}" not in done.err, done
    found = [f for f in lost.run("--check", "--json").result["checks"] if f["name"] == "blockers"]
    assert found and found[0]["level"] == "note", found
    victim.sql(*[s for s in found[0]["hint"].split(";") if s.strip()])
    done = lost.ok("--restore")
    assert "ended" in done.err + done.out, done
    lost.world.assert_is(lost.before)
    assert [f["level"] for f in lost.run("--check", "--json").result["checks"] if f["name"] == "blockers"] == ["ok"]


def test_one_at_work_is_not_ended(lost, sessions, victim):
    """A restore waits for a session that executes a statement instead of ending it."""
    grant(victim, *MAY_END)
    busy = sessions(*READS)
    with busy.cursor() as cur:
        process = lost.popen("--restore")
        wait_for(lambda: victim.sessions(info="LOCK TABLES%"), "a restore that waits")
        cur.execute("SELECT SLEEP(5)")
        assert alive(victim, busy)
    busy.rollback()
    done = lost.finish(process)
    assert done.rc == 0, done


@pytest.mark.parametrize("kind", list(BACKUPS))
@pytest.mark.parametrize("when", ["before", "swapping"])
def test_a_backup_is_waited_for(lost, sessions, victim, kind, when):
    """A restore waits for an idle backup session in the world's schema until it ends by itself, without counting failed
    attempts."""
    grant(victim, *MAY_END)
    if when == "before":
        backup = sessions(*BACKUPS[kind], user="root")
        lost.start(state=None)
    else:
        lost.start(state=None, fault="restore.conflict_saved=stop")
        wait_for(lambda: stopped(lost), "the worker to stop")
        backup = sessions(*BACKUPS[kind], user="root")
        go_on(stopped(lost))
    lost.wait(lambda: [c for c in troubles(lost) if "backup" in c["what"]], "it is named")
    began = victim.start_time()
    seen = lost.log().count("restore failed")
    lost.wait(lambda: (victim.sessions(id=backup.thread_id()) or [None])[0].time >= 14, "a long wait")
    assert lost.log().count("restore failed") == seen and lost.state() == "RESTORING"
    assert alive(victim, backup) and victim.start_time() == began
    backup.close()
    lost.wait_state("UP")
    lost.world.assert_is(lost.before)


# -- MariaDB with the plugin metadata_lock_info ------------------------------------------------

listed = pytest.mark.only("mariadb", why="a plugin lists who holds locks")


@pytest.fixture
def listing(lost, victim):
    """Restarts the world's server with the plugin that lists locks."""
    if KIND != "mariadb" or not machine.plugins():
        pytest.skip(machine.REASON + machine.NEEDS["lock list"][0])
    victim.crash("--plugin-dir=" + machine.plugins(), "--plugin-load-add=metadata_lock_info")
    assert victim.value("SELECT COUNT(*) FROM information_schema.PLUGINS WHERE PLUGIN_NAME='METADATA_LOCK_INFO'") == 1
    return lost


@listed
@pytest.mark.parametrize("what", list(IDLE))
def test_who_holds_the_lock_is_listed(listing, sessions, victim, what):
    """Only the session that holds the lock is named, with its table, and ended; a session with a transaction open on another
    table is not."""
    grant(victim, *MAY_END)
    bystander = sessions("SET autocommit=0", "INSERT IGNORE INTO durable VALUES (8)")
    idle = sessions(*IDLE[what])
    number = idle.thread_id()
    done = listing.ok("--restore")
    assert f"session {number} ({GAME}@" in done.err and "holds a lock on table fleet" in done.err, done
    assert not victim.sessions(id=number) and alive(victim, bystander)
    assert "may be" not in done.err and f"session {bystander.thread_id()} " not in done.err, done
    listing.world.assert_is(listing.before)
    found = [f for f in listing.run("--check", "--json").result["checks"] if f["name"] == "blockers"]
    assert [(f["level"], "plugin" in f["text"] or "INSTALL" in f["text"]) for f in found] == [("ok", False)], found


@listed
def test_a_listed_session_of_another_schema(listing, sessions, victim):
    grant(victim, *MAY_END)
    victim.sql("CREATE DATABASE IF NOT EXISTS elsewhere", f"GRANT SELECT ON elsewhere.* TO '{GAME}'@'localhost'")
    schema = listing.world.schema
    other = sessions("SET autocommit=0", f"SELECT * FROM `{schema}`.durable", f"SELECT * FROM `{schema}`.fleet",
                     schema="elsewhere")
    done = listing.run("--restore")
    assert done.rc == 1 and f"session {other.thread_id()} " in done.err and f"KILL {other.thread_id()}" in done.err, done
    assert "holds a lock on table fleet" in done.err and alive(victim, other), done


@listed
@pytest.mark.parametrize("kind", [*BACKUPS, "tables"])
def test_a_listed_backup_is_named(listing, sessions, victim, kind):
    """A backup session is named with the KILL command, in case it was forgotten; the restore waits for it and does not end it."""
    grant(victim, *MAY_END)
    backup = sessions(*BACKUPS.get(kind, ["FLUSH TABLES fleet WITH READ LOCK"]), user="root")
    number = backup.thread_id()
    listing.start(state=None)
    listing.wait(lambda: [c for c in troubles(listing) if f"session {number} (root@" in c["what"]
                          and "holds a backup lock" in c["what"] and f"KILL {number}" in c["hint"]], "it is named")
    assert alive(victim, backup) and "restore failed" not in listing.log()
    backup.close()
    listing.wait_state("UP")
    listing.world.assert_is(listing.before)


@listed
def test_a_list_that_the_account_may_not_read_whole(listing, sessions, victim):
    """Without PROCESS no session is ended unless it is known to be idle and of the world's schema; --check prints the GRANT."""
    idle = sessions(*READS)
    done = listing.run("--restore")
    assert done.rc == 1 and "--check" in done.err and alive(victim, idle), done
    assert f"{GAME}@" not in done.err, done
    (found,) = [f for f in listing.run("--check", "--json").result["checks"] if f["name"] == "blockers"]
    assert found["level"] == "note" and "GRANT PROCESS, CONNECTION ADMIN ON *.*" in found["hint"], found
    victim.sql(*[s for s in found["hint"].split(";") if s.strip()])
    listing.ok("--restore")
    listing.world.assert_is(listing.before)
