// The page for admins: looks at the status every five seconds, at history.json each minute. All text
// from the world is set as text, never as markup. Where the two files' time is up, nothing is known.
"use strict";
(function () {
  var SVG = "http://www.w3.org/2000/svg", DAY = 86400000, history = null, said = "", looked = 0;
  var DOWN = ["suspect", "waiting", "lost", "restoring"];
  var SAY = { // after the cause, which the status has in words
    UP: "The world is up.", SUSPECT: "Nothing is decided yet.", LOST: "A restore begins.", RESTORING: "Players wait until it is done.",
    WAITING: "The world is not up.", PAUSED: "Nothing starts automatically.",
    STANDBY: "This machine takes it over only on request.", STOPPED: "The world is not watched.",
    UNKNOWN: "The supervisor no longer publishes: it is dead, stopped, or cut off. Nothing is known of the world."
  };
  function at(id) { return document.getElementById(id); }
  function put(e, text) { // a time is not broken at its hyphens
    e.replaceChildren.apply(e, text.split(/(\d{4}-\d\d-\d\dT[\d:]{8}Z)/).map(function (part, i) {
      var span = i % 2 ? document.createElement("span") : null;
      if (span) { span.className = "moment"; span.textContent = part; }
      return span || part;
    }));
  }
  function make(name, text, cls) {
    var e = document.createElement(name);
    if (text !== undefined && text !== null) { put(e, String(text)); }
    if (cls) { e.className = cls; }
    return e;
  }
  function draw(parent, name, attributes) {
    var e = document.createElementNS(SVG, name);
    Object.keys(attributes).forEach(function (k) { e.setAttribute(k, attributes[k]); });
    parent.appendChild(e);
    return e;
  }
  function set(id, text) { if (at(id).textContent !== text) { put(at(id), text); } }
  function fill(parent, children) {
    parent.replaceChildren.apply(parent, children);
  }
  function time(text) { // in the form of mails, terminal and --at
    return text ? new Date(text).toISOString().slice(0, 19) + "Z" : "unknown";
  }
  function looked_at(now) { // with the reader's own clock, where that is another one
    var own = new Date(now).getTimezoneOffset() ? ", " + new Date(now).toLocaleTimeString(undefined, { timeZoneName: "short" }) + " here" : "";
    set("updated-line", "Looked at " + time(now) + own + ".");
  }
  function number(n) { return typeof n === "number" ? n.toLocaleString() : "unknown"; }
  function span(s) {
    if (typeof s !== "number" || !isFinite(s)) { return "unknown"; }
    if (s > 0 && s < 1) { return Math.round(s * 1000) + " ms"; }
    if (s < 10) { return (Math.round(s * 10) / 10).toLocaleString() + " s"; }
    if (s < 100) { return Math.round(s) + " s"; }
    var m = Math.round(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
    return d ? d + " d " + h % 24 + " h" : h ? h + " h " + m % 60 + " min" : m + " min";
  }
  function bytes(n) {
    var units = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;
    if (typeof n !== "number") { return "unknown"; }
    while (n >= (i ? 1023.95 : 1024) && i < 4) { n /= 1024; i++; } // as text_size() rounds
    return (i ? n.toFixed(1).replace(/\.0$/, "") : n) + " " + units[i];
  }
  function percent(up, known) { // cut, not rounded: 100 % means that it was always up
    return known > 0 ? (Math.floor(up / known * 100000) / 1000).toLocaleString(undefined, { maximumFractionDigits: 3 }) + " %" : "not known";
  }
  function down(b) { return DOWN.reduce(function (sum, k) { return sum + (b[k] || 0); }, 0); }

  // ---- the state ----
  function headline(state, sentence) {
    document.body.dataset.state = state;
    set("state", state);
    set("sentence", sentence);
    document.title = state + ": " + document.querySelector(".world strong").textContent;
    if (said && said !== state) { set("live", state + ". " + sentence); }
    said = state;
  }
  function todo(text, command) {
    at("todo").className = text ? "note" : "note gone";
    set("todo-text", text || "");
    set("todo-command", command || "");
  }
  // The end is the rate so far, carried on: an estimate, and only where the percentage is known.
  function running(job) {
    var known = job && typeof job.percent === "number" && job.percent >= 0, bar = at("running-bar");
    at("running").className = job ? "note" : "note gone";
    if (!job) { return; }
    set("running-text", [job.job, job.phase, job.table ? "table " + job.table : "", known ? job.percent + " %" : ""]
      .filter(Boolean).join(", "));
    if (known) { bar.value = job.percent; } else { bar.removeAttribute("value"); }
    set("running-end", known && job.percent >= 5 && job.percent < 100 && job.phase_ms > 1000
      ? "This phase ends in about " + span(job.phase_ms / job.percent * (100 - job.percent) / 1000) + ", at the pace so far."
      : "When it ends is not known yet.");
  }
  function conditions(list) {
    at("conditions").className = list && list.length ? "" : "gone";
    fill(at("conditions-list"), (list || []).map(function (c) {
      var li = make("li");
      li.append(make("strong", c.what), make("br"), make("span", "since " + time(c.since), "small"));
      var prose = c.commands ? c.prose : c.hint;
      if (prose) { li.append(make("p", prose, "hint")); }
      (c.commands || []).forEach(function (x) {
        li.append(make("p", x.does, "hint"), make("code", x.command, "command"));
      });
      return li;
    }));
  }
  // An upper bound, rounded up as in mails and --status (text_bound() in base/text.h).
  function lost(r) {
    if (!r || r.lost_seconds === undefined) { return "unknown"; }
    if (r.lost_seconds === 0) { return "nothing"; }
    if (typeof r.lost_seconds_max !== "number") { return "unknown"; }
    var s = Math.max(1, Math.ceil(r.lost_seconds_max));
    return "at most " + span(s < 100 ? s : 60 * Math.ceil(s / 60));
  }
  function hasConflicts(n) { return n.conflict_rows > 0 || (n.conflict_rows === null && !!n.conflict_file); }
  function conflictRows(n) { return n.conflict_rows > 0 ? number(n.conflict_rows) + (n.conflict_rows === 1 ? " row" : " rows") : "rows"; }
  function fact(name, text) {
    var div = make("div");
    div.append(make("dt", name), make("dd", text));
    return div;
  }
  function facts(s) {
    var d = s.last_dump, r = s.last_restore, j = s.journal || {}, drill = s.last_drill, list = [];
    list.push(fact("Last dump", d ? number(d.rows) + " rows, " + bytes(d.file_size) + ", " + time(d.at) + ", in " + span(d.seconds) : "none yet"));
    list.push(fact("Next dump", s.next_dump ? time(s.next_dump.at) : "when the world is up"));
    list.push(fact("Journal", (j.state || "off") + (typeof j.behind_seconds === "number" ? ", " + span(j.behind_seconds) + " behind" : "") + (j.gap ? ", with a gap" : "")));
    list.push(fact("Probe", s.probe ? (s.probe.verdict || "none yet") + ", " + number(s.probe.latency_ms) + " ms" : "none yet"));
    list.push(fact("Last restore", r ? (r.ok ? "" : "FAILED, ") + time(r.at) + ", " + number(r.rows) + " rows, " + (r.only ? "table " + r.only + " alone" : "lost: " + lost(r)) : "none"));
    var o = s.offsite;
    if (o) {
      list.push(fact("Off-site", (o.state || "not known") + ", newest dump there: " + (o.newest ? time(o.newest_at) : "none known") +
        (typeof o.waiting === "number" ? ", not stored yet: " + number(o.waiting) : "") +
        (o.behind_seconds > 0 ? ", for " + span(o.behind_seconds) : "")));
    }
    var y = s.standby, w = y && y.warm, loaded = { ready: ", loaded", loading: ", being loaded", cold: ", not loaded" };
    if (y) {
      list.push(fact("Of two machines", y.role + (s.lease && s.lease.state ? ", lease " + s.lease.state : "") +
        (y.role === "standby" ? ", " + (y.state || "not known") +
          (typeof y.behind_seconds === "number" ? ", " + span(y.behind_seconds) + " behind" : "") : "") +
        (w && loaded[w.state] || "") + (w && w.why ? ": " + w.why : "")));
    }
    list.push(fact("Last drill", drill ? (drill.ok ? "passed, " : "FAILED, ") + time(drill.at) : "none"));
    list.push(fact("Free for dumps", s.disk ? bytes(s.disk.free_bytes) : "unknown"));
    list.push(fact("Generation", number(s.generation)));
    fill(at("facts"), list);
  }
  function status(s, now) {
    if (now > s.valid_until_unix * 1000 + 1000) { return dead(s); }
    headline(s.state, s.state === "UP" ? SAY.UP : s.unverified ? "It is not known whether the world is up. " + s.cause + "." :
      [s.cause ? s.cause + "." : "", SAY[s.state] || ""].filter(Boolean).join(" "));
    set("detail", s.state === "UP" ? "" : "Detail: " + s.reason);
    todo(s.todo, s.command);
    at("since").dateTime = s.since;
    set("since", time(s.since));
    looked_at(now);
    set("pause", s.pause_until ? "Planned work, until " + time(s.pause_until) + "." : "");
    running(s.running);
    conditions(s.troubles);
    facts(s);
  }
  function dead(s) {
    headline("UNKNOWN", SAY.UNKNOWN + (s ? " Last published state, at " + time(s.updated) + ": " + s.state + "." : ""));
    looked_at(Date.now());
    set("pause", "");
    set("detail", "");
    todo("See whether the supervisor runs.", "systemctl status 'worldkeeper@*'");
    if (s) { at("since").dateTime = s.updated; set("since", time(s.updated)); }
    running(null);
  }

  // ---- the history ----
  function sum(list, since) {
    return list.reduce(function (a, b) {
      if (Date.parse(b.at) >= since) { a.up += b.up; a.known += b.up + down(b); }
      return a;
    }, { up: 0, known: 0 });
  }
  function uptime(now) {
    var spans = [["24 hours", history.five_minutes, DAY], ["7 days", history.hours, 7 * DAY],
      ["30 days", history.days, 30 * DAY], ["90 days", history.days, 90 * DAY]];
    fill(at("uptime-figures"), spans.map(function (x) {
      var s = sum(x[1], now - x[2]);
      return fact(x[0], percent(s.up, s.known));
    }));
    var first = Math.floor(now / DAY) - 89, days = [], byDay = {};
    history.days.forEach(function (b) { byDay[Math.floor(Date.parse(b.at) / DAY)] = b; });
    for (var n = first; n < first + 90; n++) { days.push(byDay[n] || { at: new Date(n * DAY).toISOString(), up: 0, unknown: DAY, none: true }); }
    bars(days);
    fill(at("days"), days.filter(function (b) { return !b.none; }).reverse().map(function (b) {
      var tr = make("tr"), th = make("th", b.at.slice(0, 10));
      th.scope = "row";
      tr.append(th, make("td", percent(b.up, b.up + down(b))), make("td", span(down(b) / 1000)),
        make("td", span((b.paused || 0) / 1000)), make("td", span(b.unknown / 1000)));
      return tr;
    }));
    at("uptime").className = "";
  }
  // A day that was up is one whole bar; one with an outage carries a block on top of at least a quarter.
  function bars(days) {
    var svg = document.createElementNS(SVG, "svg"), bad = days.filter(function (b) { return down(b); }).length;
    svg.setAttribute("viewBox", "0 0 900 60");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", "Ninety days until today: " + bad + " with an outage. The table below has each day.");
    days.forEach(function (b, i) {
      var x = i * 10 + 1, known = b.up + down(b), part = known ? down(b) / known : 0;
      var title, g = draw(svg, "g", {});
      title = draw(g, "title", {});
      title.textContent = b.at.slice(0, 10) + ": " + percent(b.up, known);
      if (known) {
        var top = part ? Math.max(15, part * 60) : 0;
        draw(g, "rect", { x: x, y: top, width: 8, height: 60 - top, class: "bar-up" });
        if (top) { draw(g, "rect", { x: x, y: 0, width: 8, height: Math.max(0, top - 2), class: "bar-down" }); }
      } else if (b.paused) {
        draw(g, "rect", { x: x, y: 30, width: 8, height: 30, class: "bar-paused" });
      } else {
        draw(g, "rect", { x: x + .5, y: 49.5, width: 7, height: 10, class: "bar-unknown" });
      }
    });
    fill(at("bars"), [svg]);
  }
  function cell(label, text) {
    var td = make("td", text);
    td.dataset.label = label;
    return td;
  }
  function incidents() {
    var list = history.incidents.slice(-20).reverse();
    fill(at("incidents"), list.map(function (n) {
      var tr = make("tr");
      tr.append(cell("Began", time(n.begin)),
        cell("Not up for", !n.end ? "lasts" : n.unverified ? "not known whether it was up, for " + span((Date.parse(n.end) - Date.parse(n.begin)) / 1000) : typeof n.outage_seconds === "number" ? span(n.outage_seconds) : "not known, until " + time(n.end)),
        cell("Lost", n.restored ? lost(n) + (hasConflicts(n) ? "; " + conflictRows(n) + " saved in a file" : "") : n.end ? "no restore" : "not known yet"), cell("Cause", n.cause || ""));
      return tr;
    }));
  }

  function conflicts() {
    var list = history.incidents.filter(hasConflicts).slice(-5).reverse();
    at("conflicts").className = list.length ? "note" : "note gone";
    fill(at("conflicts-list"), list.map(function (n) {
      var li = make("li");
      li.append(make("strong", conflictRows(n)), " ", make("span", "from the outage that ended " + time(n.end) + ", in " + n.conflict_file, "small"));
      if (n.conflict_command) { li.append(make("code", n.conflict_command, "command")); }
      return li;
    }));
  }

  // ---- charts, in UTC like all times of this page ----
  // Drawn for the width that there is, so that its text stays text. The values stand in a table below, for who cannot point.
  var LEFT = 64, RIGHT = 8, TOP = 8, HIGH = 120, BOTTOM = 20;
  function day(ms) { return new Date(ms).toLocaleString(undefined, { month: "short", day: "numeric", timeZone: "UTC" }); }
  function clock(ms) { return new Date(ms).toLocaleString(undefined, { hour: "2-digit", minute: "2-digit", timeZone: "UTC" }); }
  // A step of 1, 2 or 5 in the unit that is shown, for at most four lines.
  function step(range, unit) {
    var raw = range / 4 / unit, power = Math.pow(10, Math.floor(Math.log10(raw))), part = raw / power;
    return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power * unit;
  }
  function axis(least, most, unit) { // from nothing, unless all values are near each other and far from it
    var low = least > most * .6 ? least - (most - least || most) * .3 : 0, by = step(most - low || 1, unit), ticks = [];
    if (by < unit && unit === 1) { by = 1; }
    for (var v = Math.floor(low / by) * by; ticks.push(v), v < most; v += by) { continue; }
    return ticks;
  }
  function byteUnit(n) { var u = 1; while (n / u >= 1024) { u *= 1024; } return u; }
  // Whole days or hours, at most six.
  function moments(from, to) {
    var hours = [1, 2, 3, 6, 12, 24, 48, 72, 96, 168].filter(function (h) { return (to - from) / 3600000 / h <= 6; })[0] || 336;
    var t = new Date(from), list = [];
    t.setUTCHours(0, 0, 0, 0);
    for (; t.getTime() <= to; t.setUTCHours(t.getUTCHours() + hours)) { if (t.getTime() >= from) { list.push(t.getTime()); } }
    return { list: list, say: hours < 24 ? clock : day };
  }
  function chart(name, list, key, show, unit) {
    var points = list.map(function (b) { return [Date.parse(b.at), b[key]]; }).filter(function (p) { return typeof p[1] === "number"; });
    if (!points.length) { return null; }
    var values = points.map(function (p) { return p[1]; }), most = Math.max.apply(null, values), least = Math.min.apply(null, values);
    var last = points[points.length - 1], figure = make("figure"), caption = make("figcaption");
    var from = Date.parse(list[0].at), to = Math.max(Date.parse(list[list.length - 1].at), from + 1);
    var said = points.length === 1 ? "only one value so far, of " + time(last[0]) :
      least === most ? "constant" : "between " + show(least) + " and " + show(most);
    var readout = make("span", said, "small readout");
    caption.append(make("strong", name + ": " + show(last[1])), make("br"), readout);
    figure.append(caption);
    if (points.length > 1) { figure.append(plot(points, from, to, axis(least, most, unit(most)), show, readout, name + " since " + time(from) + ": " + said + ", last " + show(last[1]))); }
    figure.append(values_table(name, points, show));
    return figure;
  }
  function plot(points, from, to, ticks, show, readout, label) {
    var svg = document.createElementNS(SVG, "svg"), width = plotWidth(), high = ticks[ticks.length - 1], low = ticks[0];
    var span_ms = to - from, near = (points.length > 1 ? Math.max(span_ms / 56, 1) : 1), path = "", before = -Infinity, said = readout.textContent;
    function x(ms) { return LEFT + (ms - from) / span_ms * (width - LEFT - RIGHT); }
    function y(v) { return TOP + (high - v) / (high - low || 1) * HIGH; }
    function text(at_x, at_y, anchor, words) { draw(svg, "text", { x: at_x, y: at_y, "text-anchor": anchor, class: "tick" }).textContent = words; }
    svg.setAttribute("viewBox", "0 0 " + width + " " + (TOP + HIGH + BOTTOM));
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    ticks.forEach(function (v) {
      draw(svg, "line", { x1: LEFT, y1: y(v), x2: width - RIGHT, y2: y(v), class: "axis" });
      text(LEFT - 6, y(v) + 4, "end", show(v));
    });
    var when = moments(from, to);
    when.list.forEach(function (ms) {
      draw(svg, "line", { x1: x(ms), y1: TOP + HIGH, x2: x(ms), y2: TOP + HIGH + 4, class: "axis" });
      if (x(ms) > LEFT + 16 && x(ms) < width - 24) { text(x(ms), TOP + HIGH + BOTTOM - 3, "middle", when.say(ms)); }
    });
    points.forEach(function (p, i) { // where values are missing the line ends; one alone is a dot
      var starts = p[0] - before > near, ends = i + 1 === points.length || points[i + 1][0] - p[0] > near;
      path += (starts ? "M" : "L") + x(p[0]).toFixed(1) + " " + y(p[1]).toFixed(1);
      if (starts && ends) { draw(svg, "circle", { cx: x(p[0]), cy: y(p[1]), r: 2, class: "dot" }); }
      before = p[0];
    });
    draw(svg, "path", { d: path, class: "line" });
    var cursor = draw(svg, "line", { y1: TOP, y2: TOP + HIGH, x1: LEFT, x2: LEFT, class: "cursor gone" });
    var dot = draw(svg, "circle", { r: 3.5, class: "dot gone" });
    function point(event) {
      var box = svg.getBoundingClientRect(), ms = from + (event.clientX - box.left - LEFT) / (width - LEFT - RIGHT) * span_ms;
      var p = points.reduce(function (a, b) { return Math.abs(b[0] - ms) < Math.abs(a[0] - ms) ? b : a; });
      cursor.setAttribute("x1", x(p[0]));
      cursor.setAttribute("x2", x(p[0]));
      dot.setAttribute("cx", x(p[0]));
      dot.setAttribute("cy", y(p[1]));
      cursor.setAttribute("class", "cursor");
      dot.setAttribute("class", "dot");
      readout.textContent = show(p[1]) + " at " + time(p[0]);
    }
    function leave() {
      cursor.setAttribute("class", "cursor gone");
      dot.setAttribute("class", "dot gone");
      readout.textContent = said;
    }
    svg.addEventListener("pointermove", point);
    svg.addEventListener("pointerdown", point);
    svg.addEventListener("pointerleave", leave);
    return svg;
  }
  // Made when it is opened: hundreds of rows for each chart.
  function values_table(name, points, show) {
    var details = make("details"), box = make("div", null, "scroll");
    details.append(make("summary", "Values"), box);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", name + ", values");
    details.addEventListener("toggle", function () {
      if (!details.open || box.firstChild) { return; }
      var table = make("table"), body = make("tbody");
      table.append(body);
      points.slice().reverse().forEach(function (p) {
        var tr = make("tr"), th = make("th", time(p[0]));
        th.scope = "row";
        tr.append(th, make("td", show(p[1])));
        body.append(tr);
      });
      box.append(table);
    });
    return details;
  }
  function plotWidth() { // as the grid of the page's styles divides it
    var whole = at("charts").clientWidth - 32, columns = Math.max(1, Math.floor((whole + 20) / (320 + 20)));
    return Math.max(240, Math.floor((whole - 20 * (columns - 1)) / columns));
  }
  function charts() {
    if (!history || document.querySelector("#charts details[open]")) { return; } // somebody reads
    var hourly = history.hours.length > 48, list = hourly ? history.hours : history.five_minutes;
    var ms = function (n) { return n < 1000 ? n + " ms" : span(n / 1000); }, one = function () { return 1; };
    var msUnit = function (n) { return n < 1000 ? 1 : n < 60000 ? 1000 : 60000; };
    at("charts").className = "";
    var made = [chart("Rows of the world", list, "rows", number, one), chart("Size of a dump", list, "bytes", bytes, byteUnit),
      chart("Time of a dump", list, "dump_ms", ms, msUnit), chart("Journal lag", list, "journal_lag_ms", ms, msUnit),
      chart("Answer to a probe", list, "probe_ms", ms, msUnit)].filter(Boolean);
    at("charts").className = made.length ? "" : "gone";
    if (list.length) {
      set("charts-note", "Since " + time(list[0].at) + ", for each " + (hourly ? "hour" : "five minutes") +
        ": of times the longest, of the others the last. Point at a chart for a value.");
    }
    fill(at("charts-list"), made);
  }

  // ---- looking ----
  function get(name) {
    return fetch(name, { cache: "no-store", credentials: "same-origin" }).then(function (r) {
      var date = Date.parse(r.headers.get("Date") || "");
      if (!r.ok) { throw new Error(r.status); }
      return r.json().then(function (o) { return { o: o, now: isNaN(date) ? Date.now() : date }; });
    });
  }
  function lookBack() {
    return get("history.json").then(function (a) {
      history = a.o;
      looked = Date.now();
      uptime(a.now);
      incidents();
      conflicts();
      charts();
    }).catch(function () { looked = Date.now() - 50000; });
  }
  function look() {
    var back = Date.now() - looked > 60000 ? lookBack() : Promise.resolve();
    back.then(function () { return get(document.body.dataset.status); }).then(function (a) {
      if (a.o.state !== said && said) { looked = 0; }
      status(a.o, a.now);
    }).catch(function () { dead(null); }).then(function () { setTimeout(look, 5000); });
  }
  var drawn;
  window.addEventListener("resize", function () { clearTimeout(drawn); drawn = setTimeout(charts, 200); });
  look();
}());
