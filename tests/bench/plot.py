#!/usr/bin/python3
"""plot.py BENCH.JSON PICTURE: draws the benchmark's results with gnuplot. The picture is an SVG, or a PNG if its name ends so;
it has its own background, for light and dark pages."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../system")]
sys.dont_write_bytecode = True

from measure import LOGGED  # noqa: E402
from report import Spread, dumps, pick, restores, spread  # noqa: E402

WIDTH = 1000
NAMES = 175  # width of the names beside bars
INK, PALE, RULE, GROUND = "#1f2328", "#59636e", "#d8dee4", "#ffffff"
OURS, OTHERS, LIMIT = "#1a7f64", "#9aa4ae", "#d4a72c"
FONT = "Helvetica,Arial,sans-serif"
TICKS = f"scale 0 nomirror textcolor '{INK}'"

# Name in bench.json, displayed name, color.
DUMPS = [("old", "mysqldump | gzip", OTHERS), ("today", "mysqldump | pigz", OTHERS),
         ("mydumper", "mydumper, 2 threads", OTHERS), ("lock", "worldkeeper, lock", OURS),
         ("copy", "worldkeeper, copy", OURS), ("fuzzy", "worldkeeper, fuzzy", OURS),
         ("read1", "limit: SELECT only", LIMIT)]
LOADS = [("old", "gunzip | mysql", OTHERS), ("today", "pigz | mysql", OTHERS),
         ("myloader", "myloader, 2 threads", OTHERS), ("worldkeeper", "worldkeeper", OURS),
         ("local", "worldkeeper, local_infile", OURS),
         ("insert", "limit: INSERT … SELECT", LIMIT)]
OUTAGES = [("old", "cron and gunzip | mysql", OTHERS), ("worldkeeper", "worldkeeper", OURS)]
# Dash types distinguish the lines without colors.
GROWTH = {"dump": [("old", "mysqldump | gzip", OTHERS, 1), ("mydumper", "mydumper", OTHERS, 2),
                   ("copy", "worldkeeper, copy", OURS, 1),
                   ("fuzzy", "worldkeeper, fuzzy", OURS, 2), ("read1", "SELECT only", LIMIT, 1)],
          "restore": [("old", "gunzip | mysql", OTHERS, 1), ("myloader", "myloader", OTHERS, 2),
                      ("worldkeeper", "worldkeeper", OURS, 1), ("insert", "INSERT … SELECT", LIMIT, 1)]}


def seconds(value):
    return f"{value:.1f} s" if value >= 0.95 else f"{value:.2f} s"


def milliseconds(value):
    return f"{value:,.0f} ms" if value >= 9.5 else f"{value:.1f} ms"


def microseconds(value):
    return f"{value:,.0f} µs"


def millions(rows):
    return f"{rows / 1e6:.3g} M"


class Picture:
    """A gnuplot script, panel by panel; positions are in pixels from the upper left."""

    def __init__(self, path, height):
        self.height, self.blocks = height, 0
        kind = "pngcairo" if path.endswith(".png") else "svg"
        self.lines = [
            f"set terminal {kind} size {WIDTH},{height} font '{FONT},13' background '{GROUND}' enhanced",
            f"set output '{path}'", "set encoding utf8", "set multiplot",
            f"set border 0 linecolor '{RULE}'", "set style fill solid 1.0 noborder", "unset key",
        ]

    def add(self, *lines):
        self.lines += lines

    def panel(self, box, title, note, room):
        """Begins a panel: its box, and its two lines of text, `room` to the left of it."""
        left, top, right, bottom = box
        self.add("reset errors", "unset label", "unset logscale", "unset grid", "unset xtics", "unset ytics",
                 "unset key", "unset object",
                 f"set lmargin at screen {left / WIDTH:.4f}", f"set rmargin at screen {right / WIDTH:.4f}",
                 f"set tmargin at screen {1 - top / self.height:.4f}",
                 f"set bmargin at screen {1 - bottom / self.height:.4f}")
        self.text(left - room, top - 32, f"{{/:Bold {title}}}", 15, INK)
        self.text(left - room, top - 13, note, 12, PALE)

    def text(self, x, y, text, size, colour):
        self.add(f"set label '{text}' at screen {x / WIDTH:.4f},{1 - y / self.height:.4f} left "
                 f"font '{FONT},{size}' textcolor '{colour}'")

    def data(self, rows):
        self.blocks += 1
        name = f"$data{self.blocks}"
        self.add(f"{name} << EOD", *(" ".join(str(c) for c in row) for row in rows), "EOD")
        return name

    def bars(self, box, title, note, items, form, legend=None):
        """Draws horizontal bars; items are (name, color, Spread), the first on top. A thin line goes from the least to the
        greatest value."""
        if not items:
            return
        self.panel(box, title, note, NAMES)
        if legend:
            self.legend(box[0] - NAMES, box[3] + 28, *legend)
        n = len(items)
        most = max(s.most for _, _, s in items)
        block = self.data([[s.median, n - i, s.least, s.most, int(colour[1:], 16), f'"{form(s.median)}"']
                           for i, (_, colour, s) in enumerate(items)])
        names = ", ".join(f"'{name}' {n - i}" for i, (name, _, _) in enumerate(items))
        self.add(f"set xrange [0:{most * 1.25}]", f"set yrange [0.4:{n + 0.6}]", f"set ytics ({names}) {TICKS}",
                 f"plot {block} using (0):2:(0):1:($2-0.34):($2+0.34):5 with boxxyerror linecolor rgb variable, "
                 f"{block} using 3:2:($4-$3):(0) with vectors nohead linecolor '{INK}' linewidth 1, "
                 f"{block} using 4:2:6 with labels left offset 0.6,0 textcolor '{INK}'")

    def legend(self, left, top, entries, notes):
        """Draws the meaning of the colors and how it was measured, together with the next panel."""
        for i, (colour, text) in enumerate(entries):
            self.add(f"set object {i + 1} rectangle at screen {(left + 7) / WIDTH:.4f},"
                     f"{1 - (top + 19 * i) / self.height:.4f} size screen {14 / WIDTH:.4f},{11 / self.height:.4f} "
                     f"fillcolor '{colour}' fillstyle solid noborder")
            self.text(left + 22, top + 19 * i, text, 12, INK)
        for i, text in enumerate(notes):
            self.text(left, top + 19 * (len(entries) + i), text, 12, PALE)

    def lines_over_rows(self, box, title, note, series, goal=None):
        """Draws lines; series: (name, color, dash type, [(rows, value)])."""
        series = [s for s in series if s[3]]
        if not series:
            return
        self.panel(box, title, note, 40)
        rows = sorted({x for s in series for x, _ in s[3]})
        ticks = ", ".join(f"'{millions(x)}' {x}" for x in rows)
        self.add("set logscale x", f"set xrange [{rows[0] * 0.8}:{rows[-1] * 1.25}]", f"set xtics ({ticks}) {TICKS}",
                 f"set grid y linecolor '{RULE}' linetype 1 linewidth 1", f"set ytics autofreq {TICKS}", "unset mytics",
                 "set key top right reverse Left samplen 2 spacing 1.1",
                 # Space above the lines for the key.
                 f"set yrange [0:{goal * 2 if goal else 2.8 * max(y for s in series for _, y in s[3])}]")
        plots = [f"{goal} with lines linecolor '{LIMIT}' dashtype 3 title 'goal, at most {goal}'"] if goal else []
        for name, colour, dash, points in series:
            block = self.data(sorted(points))
            plots.append(f"{block} using 1:2 with linespoints linecolor '{colour}' dashtype {dash} linewidth 2 "
                         f"pointtype 7 pointsize 0.6 title '{name}'")
        self.add("plot " + ", ".join(plots))

    def draw(self):
        self.add("unset multiplot")
        subprocess.run(["gnuplot"], input="\n".join(self.lines) + "\n", text=True, check=True)


def bar_items(contenders, spreads):
    """Returns the contenders that were measured, in their order."""
    found = [(name, colour, spreads(key)) for key, name, colour in contenders]
    return [item for item in found if item[2]]


def growth(results, series, samples):
    """Returns the median time per million rows for each size; a constant means linear growth."""
    def points(key):
        found = [(size["rows"], spread(samples(size, key), "wall"))
                 for size in results["sizes"] if size["rounds"]]
        return [(rows, s.median / rows * 1e6) for rows, s in found if s]
    return [(name, colour, dash, points(key)) for key, name, colour, dash in series]


def memory(results, key, samples):
    found = [(size["rows"], spread(samples(size, key), "client_memory_mb"))
             for size in results["sizes"] if size["rounds"]]
    return [(rows, s.most) for rows, s in found if s]


def progress(results, path):
    """Draws players' progress: the routines of the central store beside the bare statements."""
    found, back = results["progress"], results["write_back"]["rounds"]
    stores = [(where, store) for where, store in (("", found), (", Galera", found.get("galera"))) if store]
    saves, sent = [], []
    for where, store in stores:
        for name, key, colour in (("bare UPDATE", "bare_us", OTHERS), ("wk\\_save", "save_us", OURS)):
            saves.append((name + where, colour, Spread([store["save"][key]["median"]])))
        for name, key, colour in (("bare INSERT", "bare_ms", OTHERS), ("wk\\_send", "send_ms", OURS),
                                  ("wk\\_save each", "each_ms", OTHERS)):
            sent.append((name + where, colour, Spread([ms / 1000 for ms in store["write_back"][key]])))
    picture = Picture(path, 500)
    picture.bars((195, 70, 480, 70 + 31 * len(saves)), "A save at the central store",
                 "microseconds, median; its log is synced at each commit", saves, microseconds)
    picture.bars((710, 70, 980, 70 + 31 * len(sent)), "10,000 blobs of 10 kB, sent at once",
                 "seconds, to the central store", sent, seconds,
                 ([(OURS, "worldkeeper"), (OTHERS, "bare statements, and a call each")],
                  ["Lines go from the least to the most.", "Galera: three nodes, asked through one."]))
    picture.bars((195, 330, 480, 330 + 31 * 4), "The same by --write-back", "seconds, from a local store",
                 [(name, colour, Spread([r[key] for r in back])) for name, key, colour in (
                     ("bare INSERTs", "bare", OTHERS), ("--write-back", "write_back", OURS),
                     ("100 ms each way", "relay_100ms", OURS), ("wk\\_save each", "calls", OTHERS))], seconds)
    picture.bars((710, 420, 980, 420 + 31 * 2), "A local save, 99.9th percentile", "milliseconds",
                 [(name, colour, Spread([r[key] * 1000 for r in back])) for name, key, colour in (
                     ("alone", "save_p999", OTHERS), ("beside --write-back", "save_p999_beside", OURS))], milliseconds)
    picture.draw()


def draw(results, path):
    if "progress" in results:
        progress(results, path)
        return
    main = results["sizes"][0]
    grown = sum(1 for size in results["sizes"] if size["rounds"]) > 1
    outages = bar_items(OUTAGES, lambda key: spread(pick([r.get("outage") for r in main["rounds"]], key), "up"))
    picture = Picture(path, 850 if grown else 520)
    rows = f"{main['rows'] / 1e6:.2f} million rows"
    picture.bars((195, 70, 480, 275), f"Dump of {rows}", "seconds; a game writes each millisecond meanwhile",
                 bar_items(DUMPS, lambda key: spread(dumps(main, key), "wall")), seconds)
    picture.bars((695, 70, 980, 275), "Longest wait of the game during it",
                 "milliseconds, of one statement",
                 bar_items(DUMPS, lambda key: spread(dumps(main, key), "wait_ms", "longest")), milliseconds)
    picture.bars((195, 345, 480, 500), "Restore after kill -9", "seconds, with a row binary log",
                 bar_items(LOADS, lambda key: spread(restores(main, key, LOGGED), "wall")), seconds)
    n = len(main["rounds"])
    picture.bars((695, 345, 980, 345 + 31 * len(outages)), "Whole outage", "seconds from kill -9 to UP",
                 outages, seconds, ([(OURS, "worldkeeper"), (OTHERS, "others"),
                                     (LIMIT, "limit: what the server needs for the rows alone")],
                                    [f"Medians of {n} round{'s' * (n != 1)}; lines go from the least to the most."]))
    if grown:
        picture.lines_over_rows((60, 608, 330, 805), "Dump of larger worlds", "seconds for a million rows",
                                growth(results, GROWTH["dump"], dumps))
        picture.lines_over_rows((390, 608, 660, 805), "Restore of larger worlds", "seconds for a million rows",
                                growth(results, GROWTH["restore"], restores))
        picture.lines_over_rows((720, 608, 980, 805), "Memory that worldkeeper needs", "MB at its peak",
                                [("dump, fuzzy", OURS, 1, memory(results, "fuzzy", dumps)),
                                 ("restore", OURS, 2, memory(results, "worldkeeper", restores))], 64)
    picture.draw()


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        draw(json.load(f), sys.argv[2])
