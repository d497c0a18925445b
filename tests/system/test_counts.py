"""The size of a world: every output that shows it agrees on rows and tables, and the sentinel is not counted."""
import os
import re

from wk.keeper import DONE

ROWS, TABLES = 5301, 4  # player 2,000, fleet 3,000, chat 300, mark 1
WORDS = re.compile(r"([\d,]+) rows(?: in (\d+) tables)?")


def words(text, about=""):
    """Returns (rows, tables) from the first line with `about` that shows them; tables is None if the line has none."""
    line = next(part for part in text.splitlines() if about in part and WORDS.search(part))
    rows, tables = WORDS.search(line).groups()
    return int(rows.replace(",", "")), tables and int(tables)


def fields(result):
    return result["rows"], result.get("tables")


def planned(result):
    """Sums the lines of the plan, which must equal its total."""
    swapped = [t for t in result["plan"] if t["restored"]]
    return sum(t["rows"] for t in swapped), len(swapped)


def metric(keeper, name):
    with open(os.path.join(keeper.status_dir, "world.prom"), encoding="utf-8") as f:
        return float(re.search(rf'^worldkeeper_{name}{{world="w1"}} (\S+)$', f.read(), re.M).group(1))


def wrong(said):
    return {place: count for place, count in said.items() if count not in ((ROWS, TABLES), (ROWS, None))}


def test_every_place_counts_the_world_alone(doomed, victim, http, smtp):
    """All actions, their JSON, check, log, status, metrics and alerts show the same counts for a dump and for a restore after a
    loss."""
    keeper, said = doomed, {}
    keeper.configure({**smtp.settings(), **http.settings(), "status": {"metrics": "world.prom"}})
    said["dump"] = words(keeper.ok("--dump").out)
    said["dump --json"] = fields(keeper.dump())
    head, row = keeper.ok("--list").out.splitlines()[:2]
    assert head.split()[:3] == ["NAME", "AGE", "ROWS"]
    said["list"] = words(re.search(r"  ([\d,]+)  ", row).group(1) + " rows")
    said["list --json"] = fields(keeper.ok("--list", "--json")["dumps"][0])
    checks = {c["name"]: c["text"] for c in keeper.run("--check", "--json").result["checks"]
              if WORDS.search(c["text"])}
    said["check tables"], said["check dumps"] = words(checks["tables"]), words(checks["dumps"])
    keeper.server.grant("keeper@localhost", "worldkeeper_drill_w1")
    said["drill --json"] = fields(keeper.ok("--drill", "--json"))
    dry = keeper.ok("--restore", "--dry-run", "--force", "--json")
    said["dry run --json"], said["dry run's plan"] = fields(dry), planned(dry)
    said["dry run"] = words(keeper.ok("--restore", "--dry-run", "--force").out)
    keeper.start()
    said["status.json of a start"] = fields(keeper.status()["last_dump"])
    said["dump by the supervisor"] = fields(keeper.dump())
    keeper.wait_log(" stored: ")
    said["log of a dump"] = words(keeper.log(), " stored: ")
    said["metric"] = keeper.wait(lambda: metric(keeper, "last_dump_rows"), "the metric"), None
    victim.crash()
    message = http.wait_event("restored")[-1]
    keeper.wait_state("UP")
    said["web hook"], said["web hook's words"] = fields(message["facts"]), words(message["what"])
    mail = smtp.wait(lambda m: "BACK" in m.subject)[-1]
    said["mail"] = words(mail.text)
    said["restored"] = fields(keeper.wait(lambda: keeper.status()["last_restore"], "the restore"))
    said["reason"] = words(keeper.log(), "-> UP: restored")
    # Repeated because --status gives up on a supervisor that does not answer within ten seconds.
    shown = keeper.wait(lambda: (lambda done: done.rc == DONE and done.out)(keeper.run("--status")), "an answer to --status")
    said["status"], said["status, restore"] = words(shown, "last dump"), words(shown, "last restore")
    assert not wrong(said), wrong(said)


def test_a_schema_beside_the_world_counts_as_the_world(keeper, make_world):
    """--into reports the same counts as the world, since the sentinel is not counted; --table reports one table."""
    keeper.dump()
    beside = make_world("empty").schema
    keeper.server.grant("keeper@localhost", beside)
    assert fields(keeper.ok("--restore", "--into", beside, "--json")) == (ROWS, TABLES)
    one = keeper.ok("--restore", "--table", "chat", "--force", "--json")
    assert fields(one) == (300, 1) and planned(one) == (300, 1)
