"""Evaluates the samples: medians, ratios within each round, goals, and all of it as text."""
import json
import os
import statistics
import sys
import textwrap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../system"))

from contest import HANG, METHODS, RESTORE_TITLES, TITLES
from journal import MODES, PACES
from measure import LOGGED, PLAIN

CLIENT_MB = 64
FUZZY_MS = 20
KINDS = {"mariadb": "MariaDB", "mysql": "MySQL", "mariadb-new": "newer MariaDB"}
# Goals of a kind of server: how many times faster a restore is than the old pipeline, and how long a copy's longest wait is
# beside its.
TIMES = {"mariadb": 6, "mysql": 8, "mariadb-new": 6}
WAIT = {"mariadb": 0.25, "mysql": 1 / 3, "mariadb-new": 0.25}
CATCH_UP = 1.5
JOURNAL_TITLES = {"alone": "the dump alone", "off": "off", "server": "journal server",
                  "follow": "journal follow"}

# -- figures --------------------------------------------------------------------------------------


class Spread:
    """Median, minimum and maximum of some values."""

    def __init__(self, values):
        self.n = len(values)
        self.median = statistics.median(values)
        self.least, self.most = min(values), max(values)

    def show(self, form, unit=""):
        text = form.format(self.median) + unit
        if self.n > 1 and form.format(self.least) != form.format(self.most):
            text += f" ({form.format(self.least)}–{form.format(self.most)})"
        return text


def dumps(size, name):
    """Returns the samples of a contender's completed dumps in the order of the rounds; None for one that hung."""
    found = [r["dumps"].get(name) for r in size["rounds"]]
    return [s if s and not s["hung"] else None for s in found]


def restores(size, name, log=LOGGED):
    return [r["restores"].get(log, {}).get(name) for r in size["rounds"]]


def journal_rounds(size):
    return size.get("journal", {}).get("rounds", [])


def catch_ups(size, name):
    """Returns the restores with a mode of the journal, or of the dump alone."""
    return [r["restores"].get(name) for r in journal_rounds(size)]


def costs(size, mode, pace):
    return [r["cost"].get(mode, {}).get(pace) for r in journal_rounds(size)]


def pick(samples, *keys):
    """Returns the value at a path of keys of each sample that has it."""
    found = []
    for sample in samples:
        for key in keys:
            sample = sample.get(key) if sample else None
        if sample is not None:
            found.append(sample)
    return found


def spread(samples, *keys):
    values = pick(samples, *keys)
    return Spread(values) if values else None


def ratio(above, below, *keys):
    """Returns the quotients within each round, because a disturbance of the machine affects both values."""
    pairs = [(pick([a], *keys), pick([b], *keys)) for a, b in zip(above, below)]
    values = [a[0] / b[0] for a, b in pairs if a and b and b[0] > 0]
    return Spread(values) if values else None


def quotients(samples, above, below, factor=1):
    """Returns the quotients of two figures of each sample in the order of the rounds; None where one is missing."""
    return [factor * s[above] / s[below] if s and above in s and s.get(below) else None for s in samples]


def known(values):
    values = [v for v in values if v is not None]
    return Spread(values) if values else None


# -- goals ----------------------------------------------------------------------------------------


def goal(text, measured, limit, at_least, form="{:.2f}", unit=""):
    """Returns one goal; `measured` is a Spread, or None if nothing was measured."""
    reached = None
    if measured:
        reached = measured.median >= limit if at_least else measured.median <= limit
    return {"goal": text, "wanted": ("at least " if at_least else "at most ") + f"{limit:.3g}" + unit,
            "measured": measured.show(form) + unit if measured else "not measured",
            "value": measured.median if measured else None, "limit": limit, "at_least": at_least,
            "reached": reached}


def fuzzy_goal(main, kind):
    """Returns the goal of waits: with HANDLER at most the time of a chunk, elsewhere that of a table's copy."""
    if kind == "mysql":
        return goal("fuzzy: longest wait beside the old pipeline's",
                    ratio(dumps(main, "fuzzy"), dumps(main, "old"), "wait_ms", "longest"), WAIT[kind], False)
    return goal("fuzzy: longest wait", spread(dumps(main, "fuzzy"), "wait_ms", "longest"), FUZZY_MS, False,
                "{:.1f}", " ms")


def goals(results):
    """Returns the goals with the values measured at the first size, and those of memory at every size."""
    main, kind = results["sizes"][0], results.get("kind", "mariadb")
    old, read1, myloader = dumps(main, "old"), dumps(main, "read1"), "myloader"
    copy = dumps(main, "copy")
    found = [
        goal("dump: times as fast as the old pipeline", ratio(old, copy, "wall"), 2.3, True),
        goal("dump: time beside SELECT on one connection", ratio(copy, read1, "wall"), 1.25, False),
        goal("copy: longest wait beside the old pipeline's",
             ratio(copy, old, "wait_ms", "longest"), WAIT[kind], False),
        fuzzy_goal(main, kind),
        goal("size on disk beside gzip --fast", ratio(copy, old, "bytes"), 1, False, "{:.3f}"),
    ]
    for log in (LOGGED, PLAIN):
        mine = restores(main, "worldkeeper", log)
        if any(restores(main, "local", log)):
            found.append(goal(f"restore, {log}, local_infile=ON: times as fast as the old pipeline",
                              ratio(restores(main, "old", log), restores(main, "local", log), "wall"),
                              TIMES[kind], True))
        found += [
            goal(f"restore, {log}: times as fast as the old pipeline",
                 ratio(restores(main, "old", log), mine, "wall"), TIMES[kind], True),
            goal(f"restore, {log}: times as fast as myloader",
                 ratio(restores(main, myloader, log), mine, "wall"), 2.5, True),
            goal(f"restore, {log}: time beside INSERT ... SELECT",
                 ratio(mine, restores(main, "insert", log), "wall"), 1, False),
        ]
    memory = [m for size in results["sizes"] for name in METHODS
              for m in pick(dumps(size, name), "client_memory_mb")]
    memory += [m for size in results["sizes"] for log in (LOGGED, PLAIN)
               for m in pick(restores(size, "worldkeeper", log), "client_memory_mb")]
    memory += [m for size in results["sizes"] for m in pick([r.get("attack") for r in size["rounds"]],
                                                            "client_memory_mb")]
    found.append(goal("memory of worldkeeper, most of all sizes",
                      Spread([max(memory)]) if memory else None, CLIENT_MB, False, "{:.1f}", " MB"))
    return found


def journal_goals(results):
    main = results["sizes"][0]
    return [goal(f"restore, {JOURNAL_TITLES[mode]}: time beside the dump alone",
                 ratio(catch_ups(main, mode), catch_ups(main, "alone"), "wall"), CATCH_UP, False)
            for mode in MODES if any(catch_ups(main, mode))]


# -- text -----------------------------------------------------------------------------------------


def table(head, rows):
    """Formats columns as wide as needed, all except the first aligned to the right."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    wide = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = []
    for i, row in enumerate(rows):
        cells = [row[0].ljust(wide[0])] + [c.rjust(w) for c, w in zip(row[1:], wide[1:])]
        lines.append("  " + "  ".join(cells).rstrip())
        if i == 0:
            lines.append("  " + "  ".join("-" * w for w in wide))
    return "\n".join(lines)


def shown(measured, form, unit=""):
    return measured.show(form, unit) if measured else "-"


def number(measured, form):
    """Formats the median alone, if the spread would make the line too long."""
    return form.format(measured.median) if measured else "-"


def hung(size, name):
    return sum(1 for r in size["rounds"] if r["dumps"].get(name, {}).get("hung"))


def dump_rows(size):
    old = dumps(size, "old")
    for name, title in TITLES.items():
        mine = dumps(size, name)
        if not any(mine) and not hung(size, name):
            continue
        if hung(size, name):
            title += f", hung {hung(size, name)} of {len(mine)}"
        bytes_ = spread(mine, "bytes")
        wall = spread(mine, "wall")
        yield [title, "-" if name == "nobody" else shown(wall, "{:.2f}", " s"),
               "-" if name == "nobody" else number(ratio(old, mine, "wall"), "{:.2f}"),
               shown(spread(mine, "wait_ms", "longest"), "{:,.1f}", " ms"),
               number(spread(mine, "late_ms", "p999"), "{:,.1f} ms"),
               number(spread(mine, "client_cpu"), "{:.2f} s"), number(spread(mine, "server_cpu"), "{:.2f} s"),
               number(spread(mine, "client_memory_mb"), "{:.1f} MB"),
               number(spread(mine, "server_memory_mb"), "{:.0f} MB"),
               f"{bytes_.median / 1e6:.1f} MB" if bytes_ else "-"]


def restore_rows(size, log):
    old = restores(size, "old", log)
    for name, title in RESTORE_TITLES.items():
        mine = restores(size, name, log)
        if not any(mine):
            continue
        yield [title, shown(spread(mine, "wall"), "{:.2f}", " s"), number(ratio(old, mine, "wall"), "{:.2f}"),
               number(spread(mine, "client_cpu"), "{:.2f} s"), number(spread(mine, "server_cpu"), "{:.2f} s"),
               number(spread(mine, "client_memory_mb"), "{:.1f} MB"),
               number(spread(mine, "server_memory_mb"), "{:.0f} MB")]


def growth_rows(results):
    for size in sorted((s for s in results["sizes"] if s["rounds"]), key=lambda s: s["size"]):
        walls = [dumps(size, n) for n in ("old", "mydumper", "fuzzy", "copy", "read1")]
        loads = [restores(size, n) for n in ("old", "myloader", "worldkeeper", "insert")]
        yield [f"{size['rows']:,}",
               *(number(spread(w, "wall"), "{:.2f} s") for w in walls),
               number(spread(dumps(size, "fuzzy"), "wait_ms", "longest"), "{:,.1f} ms"),
               number(spread(dumps(size, "fuzzy"), "client_memory_mb"), "{:.1f} MB"),
               *(number(spread(w, "wall"), "{:.2f} s") for w in loads),
               number(spread(restores(size, "worldkeeper"), "client_memory_mb"), "{:.1f} MB")]


def outage_rows(size):
    samples = [r.get("outage", {}) for r in size["rounds"]]
    for name, title in (("worldkeeper", "worldkeeper --run"), ("old", "the old scripts, cron once a minute")):
        mine = pick(samples, name)
        if mine:
            yield [title, *(shown(spread(mine, key), "{:.2f}", " s") for key in ("answers", "noticed", "up"))]


def catch_up_rows(size):
    alone = catch_ups(size, "alone")
    for name in ("alone", *MODES):
        mine = catch_ups(size, name)
        if not any(mine):
            continue
        log = spread(mine, "made", "bytes")
        yield [JOURNAL_TITLES[name], shown(spread(mine, "wall"), "{:.2f}", " s"),
               shown(ratio(mine, alone, "wall"), "{:.2f}"), number(spread(mine, "read", "seconds"), "{:.2f} s"),
               number(spread(mine, "made", "changes"), "{:,.0f}"), number(spread(mine, "read", "rows"), "{:,.0f}"),
               f"{log.median / 1e6:,.0f} MB" if log else "-",
               number(spread(mine, "client_cpu"), "{:.2f} s"), number(spread(mine, "server_cpu"), "{:.2f} s"),
               number(spread(mine, "client_memory_mb"), "{:.1f} MB")]


def cost_row(size, mode, pace):
    """Returns a row of costs; processor time is in percent of one processor."""
    mine, off = costs(size, mode, pace), costs(size, "off", pace)
    follower, keeper, server = (quotients(mine, key, "seconds", 100)
                                for key in ("follower_cpu", "keeper_cpu", "server_cpu"))
    extra = [a - b if mode != "off" and a is not None and b is not None else None
             for a, b in zip(server, quotients(off, "server_cpu", "seconds", 100))]
    return [JOURNAL_TITLES[mode], number(known(quotients(mine, "changes", "seconds")), "{:,.0f}"),
            number(known(quotients(mine, "statements", "seconds")), "{:,.0f}"),
            number(known(follower), "{:.1f} %"), number(known(keeper), "{:.1f} %"),
            number(known(server), "{:.1f} %"), number(known(extra), "{:+.1f} %"),
            number(spread(mine, "follower_pss_mb"), "{:.1f} MB"),
            number(spread(mine, "follower_rss_mb"), "{:.1f} MB"),
            number(spread(mine, "keeper_pss_mb"), "{:.1f} MB"),
            shown(spread(mine, "wait_ms", "longest"), "{:,.1f}", " ms"),
            number(spread(mine, "late_ms", "p999"), "{:,.1f} ms"),
            number(spread(mine, "behind_seconds"), "{:.2f} s"),
            number(known(quotients(mine, "log_bytes", "changes")), "{:.0f}"),
            number(known(quotients(mine, "segment_bytes", "changes")), "{:.0f}")]


def cost_rows(size):
    for pace in PACES:
        for mode in ("off", *MODES):
            if any(costs(size, mode, pace)):
                yield cost_row(size, mode, pace)


def noise(found):
    """Describes the other load of the machine, measured during restores, when nothing of ours runs beside them."""
    found = [s["others"] for s in found]
    return (f"Other programs had {statistics.median(found):.0%} of the processors during the restores, "
            f"at most {max(found):.0%}" + (": these figures are disturbed." if max(found) > 0.1 else "."))


def heading(results):
    main, env = results["sizes"][0], results["environment"]
    sql = f", {main['sql_bytes'] / 1e6:.0f} MB as SQL" if "sql_bytes" in main else ""
    return (f"{main['rows']:,} rows{sql}; {env['processors']} processors, {env['processor']}; "
            f"{env['server']}; {env['mydumper'] or 'no mydumper'}; UNIX socket. Figures are medians of the rounds, with least "
            "and most in brackets; ratios are taken within each round.")


def rounds(n, warm_up=0):
    return f"{n} round{'s' * (n != 1)}" + (f" after {warm_up} thrown away" if warm_up else "")


def dump_and_restore_paragraphs(results):
    main = results["sizes"][0]
    n = rounds(len(main["rounds"]), results["warm_up"])
    yield f"Dumps, row binary log, while a game changes a random row each millisecond; {n}"
    yield table(["", "time", "times as fast", "longest wait", "99.9 % late by", "client CPU", "server CPU",
                 "client memory", "server memory", "on disk"], list(dump_rows(main)))
    yield ("Time is the whole command: worldkeeper's has synced its dump and read it back from the disk, row "
           "by row; the others have not. Longest wait: of one statement. 99.9 % late by: from when an "
           "order fell due, with those that stood behind a waiting one. The server's processor time is also "
           f"the game's. A mydumper that has not ended after {HANG} s counts as hung.")
    if main.get("absent"):
        yield "Left out, not installed or too old for this server: " + ", ".join(main["absent"]) + "."
    yield ("Once, with nobody playing: " + ", ".join(
        f"{TITLES[name]} {wall:.2f} s" for name, wall in main["quiet_dumps"].items()) + ".")
    for log in main["rounds"][0]["restores"]:
        yield f"Restores into the world that kill -9 emptied, {log}; {n}"
        yield table(["", "time", "times as fast", "client CPU", "server CPU", "client memory",
                     "server memory"], list(restore_rows(main, log)))
    yield ("After each of them every table had all its rows and the checksum of what was lost. "
           "worldkeeper's time has the check of the dump, the swap and the end of the old tables in it.")
    yield noise([s for r in main["rounds"] for log in r["restores"].values() for s in log.values()])


def outage_paragraphs(results):
    main = results["sizes"][0]
    attack = [r.get("attack") for r in main["rounds"]]
    if any(attack):
        yield (f"Restore while {results['crowd']} connections write into the emptied tables without a "
               f"pause: {shown(spread(attack, 'wall'), '{:.1f}', ' s')}, correct; they wrote "
               f"{number(spread(attack, 'attack', 'writes'), '{:,.0f}')} times, the longest wait of one was "
               f"{number(spread(attack, 'attack', 'longest_ms'), '{:,.0f} ms')}.")
    outages = list(outage_rows(main))
    if outages:
        yield "Whole outage: kill -9, the server started again at once; seconds since the kill"
        yield table(["", "server answers", "noticed", "UP"], outages)


def growth_paragraphs(results):
    yield "Growth (dumps under the game, restores with the binary log)"
    yield table(["rows", "dump: old", "mydumper", "fuzzy", "copy", "SELECT", "wait, fuzzy", "memory",
                 "restore: old", "myloader", "worldkeeper", "INSERT", "memory"],
                list(growth_rows(results)))
    for size in results["sizes"]:
        if size.get("left_out"):
            yield f"Size {size['size']:g} was left out: it {size['left_out']}."


def journal_paragraphs(size):
    n = rounds(len(journal_rounds(size)))
    yield f"Restores that catch up with what was played behind the dump; {n}"
    yield table(["", "time", "beside the dump alone", "reading", "changes", "of rows", "log", "client CPU",
                 "server CPU", "client memory"], list(catch_up_rows(size)))
    yield ("As many changes as 15 minutes of 5,000 a second come to in a world of size 1, made as fast as the "
           "server takes them. Reading: the part of the time before the first row is loaded. After each "
           "restore every table had the checksum of the moment before the kill.")
    yield noise([s for r in journal_rounds(size) for s in r["restores"].values()])
    yield f"A supervisor runs while the game plays at its pace; {n}"
    yield table(["", "changes/s", "statements/s", "follower CPU", "supervisor CPU", "server CPU", "more than off",
                 "follower PSS", "RSS", "supervisor PSS", "longest wait", "99.9 % late by", "behind",
                 "log, bytes a change", "own files"], list(cost_rows(size)))
    yield ("Processor time in percent of one processor; the supervisor's and its PSS with all its workers in "
           "it; the server's with the game's statements. Behind: what the status said at the end.")


def paragraphs(results):
    main = results["sizes"][0]
    reached = []
    yield heading(results)
    if main["rounds"]:
        yield from dump_and_restore_paragraphs(results)
        yield from outage_paragraphs(results)
        reached += goals(results)
    if len(results["sizes"]) > 1:
        yield from growth_paragraphs(results)
    if journal_rounds(main):
        yield from journal_paragraphs(main)
        reached += journal_goals(results)
    yield "Goals" + ("" if main["size"] == 1 else ", which are meant for a world of size 1")
    yield table(["", "wanted", "measured", ""], [
        [g["goal"], g["wanted"], g["measured"],
         {True: "reached", False: "NOT reached", None: "-"}[g["reached"]]] for g in reached])


def show(results):
    for text in paragraphs(results):
        print(text if text.startswith("  ") else textwrap.fill(text, 110, break_long_words=False))
        print()


def beside(found):
    """Formats the main figures of runs on several kinds of server, one column for each."""
    mains = [results["sizes"][0] for results in found]
    kinds = [KINDS[results.get("kind", "mariadb")] for results in found]
    columns = [("dump", lambda m, n: number(spread(dumps(m, n), "wall"), "{:.2f} s")),
               ("longest wait", lambda m, n: number(spread(dumps(m, n), "wait_ms", "longest"), "{:,.1f} ms")),
               ("restore", lambda m, n: number(spread(restores(m, n), "wall"), "{:.2f} s")),
               (PLAIN, lambda m, n: number(spread(restores(m, n, PLAIN), "wall"), "{:.2f} s"))]
    rows = []
    for name, title in {**TITLES, "old": "mysqldump | gzip --fast, gunzip | mysql"}.items():
        cells = [cell(main, name) for _, cell in columns for main in mains]
        if name != "nobody" and set(cells) != {"-"}:
            rows.append([title, *cells])
    yield "Both servers: medians"
    yield table(["", *(f"{what}, {kind}" for what, _ in columns for kind in kinds)], rows)


def main(paths):
    """Prints one run (report.py BENCH.JSON) as scripts/bench.sh does, or several runs beside each other."""
    found = []
    for path in paths:
        with open(path) as f:
            found.append(json.load(f))
    if len(found) == 1:
        show(found[0])
    for text in beside(found) if len(found) > 1 else []:
        print(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
