// The page for players: looks at players.json every five seconds. Text is only ever set as text.
"use strict";
(function () {
  var wide = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" }, said = "";
  function at(id) { return document.getElementById(id); }
  function set(id, text) { if (at(id).textContent !== text) { at(id).textContent = text; } }
  function time(text) { return new Date(text).toLocaleString(undefined, wide); }
  function local(text) { // times in UTC become the reader's own
    return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, time);
  }
  function show(state, message, o, now) {
    document.body.dataset.state = state;
    set("message", message);
    if (said && said !== message) { set("live", message); }
    said = message;
    var known = state === "RESTORING" && o && typeof o.percent === "number";
    at("bar").className = state === "RESTORING" ? "" : "gone";
    if (known) { at("bar").value = o.percent; } else { at("bar").removeAttribute("value"); }
    set("kept", o && o.kept ? local(o.kept) : "");
    set("pause", o && o.pause_until ? "Planned work, until " + time(o.pause_until) + "." : "");
    at("updated").dateTime = new Date(now).toISOString();
    set("updated", time(now));
  }
  function look() {
    fetch("players.json", { cache: "no-store", credentials: "same-origin" }).then(function (r) {
      var date = Date.parse(r.headers.get("Date") || ""), now = isNaN(date) ? Date.now() : date;
      if (!r.ok) { throw new Error(r.status); }
      return r.json().then(function (o) {
        if (now > o.valid_until_unix * 1000 + 1000) { throw new Error("old"); }
        show(o.state, o.message, o, Date.now());
      });
    }).catch(function () {
      show("UNKNOWN", "Nothing is known at the moment.", null, Date.now());
    }).then(function () { setTimeout(look, 5000); });
  }
  set("updated", time(at("updated").dateTime));
  look();
}());
