#include "page/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/js.h"
#include "base/line.h"

/* A template is filled from one JSON object. A page shows only values of that object, and each
 * value is escaped. */

#define INCIDENTS_SHOWN 20
#define KEPT_SHOWN_MS INT64_C(86400000)   /* how long players see what a restore lost */
#define NOTHING_SHOWN_MS INT64_C(3600000) /* how long they see that it lost nothing */
#define CONFLICTS_SHOWN 5
#define UNVERIFIED "It is not known whether the world is up."
#define CHAR_WIDTH 7 /* approximate, of the badge's font */

/* ---- templates ---- */

/* Escapes text for HTML, XML and their attributes. */
static void page_escape(struct buf *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            buf_adds(out, "&amp;");
            break;
        case '<':
            buf_adds(out, "&lt;");
            break;
        case '>':
            buf_adds(out, "&gt;");
            break;
        case '"':
            buf_adds(out, "&quot;");
            break;
        case '\'':
            buf_adds(out, "&#39;");
            break;
        default:
            buf_addc(out, *text);
        }
}

/* Fills the template from `s` to `end`. A key that `o` lacks is looked up in `around`, the object
 * that contains it. */
static void page_page_fill(struct buf *out, const char *s, const char *end, const json_t *o,
                           const json_t *around);

static const json_t *value_of(const char *key, const json_t *o, const json_t *around)
{
    const json_t *v = json_object_get(o, key);
    return v ? v : json_object_get(around, key);
}

/* Fills the section whose {{#key}} ends at `s`. Returns what follows {{/key}}. */
static const char *fill_section(struct buf *out, const char *key, const char *s, const json_t *o,
                                const json_t *around)
{
    const json_t *v = value_of(key, o, around);
    char *close = xasprintf("{{/%s}}", key);
    const char *end = strstr(s, close);
    size_t i = 0;
    for (; json_is_array(v) && i < json_array_size(v); i++)
        page_page_fill(out, s, end, json_array_get(v, i), o);
    if (json_is_string(v) ? json_string_length(v) > 0 : json_is_true(v) || json_is_number(v))
        page_page_fill(out, s, end, o, around);
    end += strlen(close);
    free(close);
    return end;
}

static void page_page_fill(struct buf *out, const char *s, const char *end, const json_t *o,
                           const json_t *around)
{
    const char *open;
    while ((open = strstr(s, "{{")) && open < end) {
        const char *name = open + 2, *close = strstr(open, "}}");
        bool section = name[0] == '#';
        char *key = xstrndup(name + section, (size_t)(close - name) - section);
        buf_add(out, s, (size_t)(open - s));
        s = close + 2;
        if (section)
            s = fill_section(out, key, s, o, around);
        else {
            const json_t *v = value_of(key, o, around);
            if (json_is_integer(v))
                buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
            else if (json_is_string(v))
                page_escape(out, json_string_value(v));
        }
        free(key);
    }
    buf_add(out, s, (size_t)(end - s));
}

void page_fill(struct buf *out, const char *template_text, const json_t *values)
{
    page_page_fill(out, template_text, template_text + strlen(template_text), values, NULL);
}

/* ---- words ---- */

/* Returns a time of the status or the history as "2026-01-31T23:59:59Z"; "unknown" for null. */
static json_t *page_moment(const json_t *o, const char *key)
{
    const char *s = js_text(o, key);
    return strlen(s) < 19 ? json_string("unknown") : json_sprintf("%.19sZ", s);
}

static json_t *seconds_text(const json_t *v)
{
    char t[TEXT_SHORT];
    double s = json_number_value(v);
    return json_is_number(v) && s >= 0 && s < 1e12
               ? json_string(text_elapsed((int64_t)(s * 1000), t))
               : json_string("not known");
}

static json_t *lost_text(const json_t *restore)
{
    const json_t *lost = json_object_get(restore, "lost_seconds");
    const json_t *most = json_object_get(restore, "lost_seconds_max");
    double s = json_is_number(most) ? json_number_value(most) : -1;
    char t[TEXT_SHORT];
    if (json_is_number(lost) && json_number_value(lost) <= 0)
        return json_string("nothing");
    if (!(s >= 0 && s < 1e12))
        return json_string("not known");
    return json_sprintf("at most %s", text_bound((int64_t)(s * 1000 + 0.5), t));
}

/* Returns true if players wrote rows into the emptied tables, which are now in a file. If
 * conflict_rows is null, their number is not known. */
static bool has_conflicts(const json_t *restore)
{
    return js_number(restore, "conflict_rows", 0) > 0 ||
           (json_is_null(json_object_get(restore, "conflict_rows")) &&
            js_text(restore, "conflict_file")[0]);
}

/* Returns the number of these rows: "668 rows", "1 row", or "rows" if it is not known. */
static const char *conflict_count(const json_t *restore, char out[TEXT_SHORT])
{
    int64_t rows = js_number(restore, "conflict_rows", 0);
    char n[TEXT_SHORT];
    if (rows > 0)
        line_set(out, TEXT_SHORT, "%s row%s", text_count((uint64_t)rows, n), rows == 1 ? "" : "s");
    else
        snprintf(out, TEXT_SHORT, "rows");
    return out;
}

static json_t *lost_cell(const json_t *incident)
{
    char rows[TEXT_SHORT];
    json_t *lost = lost_text(incident);
    if (!has_conflicts(incident))
        return lost;
    json_t *both = json_sprintf("%s; %s saved in a file", json_string_value(lost),
                                conflict_count(incident, rows));
    json_decref(lost);
    return both;
}

/* Lists the newest files of such rows. Older ones are left out, because they may have been handled
 * long ago. */
static json_t *conflicts_of(const json_t *history)
{
    const json_t *all = json_object_get(history, "incidents");
    json_t *list = json_array();
    char rows[TEXT_SHORT];
    for (size_t i = json_array_size(all); i > 0 && json_array_size(list) < CONFLICTS_SHOWN; i--) {
        const json_t *n = json_array_get(all, i - 1);
        if (has_conflicts(n))
            json_array_append_new(
                list, json_pack("{s:s, s:o, s:s, s:s}", "rows", conflict_count(n, rows), "at",
                                page_moment(n, "end"), "file", js_text(n, "conflict_file"),
                                "command", js_text(n, "conflict_command")));
    }
    return list;
}

static void page_add_fact(json_t *list, const char *name, json_t *text /* taken */)
{
    json_array_append_new(list, json_pack("{s:s, s:o}", "name", name, "text", text));
}

/* Describes the store. `behind_seconds` is shown after the number of waiting files, because it is
 * the time for which the oldest of them has waited. */
static json_t *offsite_text(const json_t *o)
{
    const json_t *waiting = json_object_get(o, "waiting"),
                 *behind = json_object_get(o, "behind_seconds");
    SCOPED(buf_free) struct buf b = {0};
    char t[TEXT_SHORT];
    json_t *at = page_moment(o, "newest_at");
    buf_printf(&b, "%s, newest dump there: %s",
               js_text(o, "state")[0] ? js_text(o, "state") : "not known",
               js_text(o, "newest")[0] ? json_string_value(at) : "none known");
    json_decref(at);
    if (json_is_integer(waiting))
        buf_printf(&b, ", not stored yet: %" JSON_INTEGER_FORMAT, json_integer_value(waiting));
    if (json_is_integer(behind) && json_integer_value(behind) > 0)
        buf_printf(&b, ", for %s", text_duration(json_integer_value(behind) * 1000, t));
    return json_string(b.p);
}

/* Describes which of two machines this is and, if it is the standby, how much of the world it
 * has. */
static json_t *role_text(const json_t *standby, const json_t *lease)
{
    static const char *const words[][2] = {
        {"ready", ", loaded"}, {"loading", ", being loaded"}, {"cold", ", not loaded"}};
    const json_t *warm = json_object_get(standby, "warm"),
                 *behind = json_object_get(standby, "behind_seconds");
    SCOPED(buf_free) struct buf b = {0};
    char t[TEXT_SHORT];
    bool is = strcmp(js_text(standby, "role"), "standby") == 0;
    buf_adds(&b, js_text(standby, "role"));
    if (js_text(lease, "state")[0])
        buf_printf(&b, ", lease %s", js_text(lease, "state"));
    if (is)
        buf_printf(&b, ", %s",
                   js_text(standby, "state")[0] ? js_text(standby, "state") : "not known");
    if (is && json_is_integer(behind))
        buf_printf(&b, ", %s behind", text_duration(json_integer_value(behind) * 1000, t));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(js_text(warm, "state"), words[i][0]) == 0)
            buf_adds(&b, words[i][1]);
    if (js_text(warm, "why")[0])
        buf_printf(&b, ": %s", js_text(warm, "why"));
    return json_string(b.p);
}

/* Returns "FAILED, 2026-…", or `passed` followed by the time. */
static json_t *outcome_text(const json_t *o, const char *passed)
{
    json_auto_t *at = page_moment(o, "at");
    return json_sprintf("%s%s", js_flag(o, "ok") ? passed : "FAILED, ", json_string_value(at));
}

static json_t *restore_text(const json_t *restore)
{
    json_auto_t *at = outcome_text(restore, ""), *lost = lost_text(restore);
    if (js_text(restore, "only")[0])
        return json_sprintf("%s, table %s alone", json_string_value(at), js_text(restore, "only"));
    return json_sprintf("%s, lost: %s", json_string_value(at), json_string_value(lost));
}

static json_t *facts_of(const json_t *status)
{
    json_t *list = json_array(), *dump = json_object_get(status, "last_dump"),
           *restore = json_object_get(status, "last_restore"),
           *drill = json_object_get(status, "last_drill");
    char rows[TEXT_SHORT], size[TEXT_SHORT];
    if (json_is_object(dump)) {
        json_t *at = page_moment(dump, "at");
        text_count((uint64_t)js_within(dump, "rows", 0, INT64_MAX, 0), rows);
        text_size((uint64_t)js_within(dump, "file_size", 0, INT64_MAX, 0), size);
        page_add_fact(list, "Last dump",
                      json_sprintf("%s rows, %s, %s", rows, size, json_string_value(at)));
        json_decref(at);
    } else {
        page_add_fact(list, "Last dump", json_string("none yet"));
    }
    page_add_fact(list, "Last restore",
                  json_is_object(restore) ? restore_text(restore) : json_string("none"));
    json_t *offsite = json_object_get(status, "offsite");
    if (json_is_object(offsite))
        page_add_fact(list, "Off-site", offsite_text(offsite));
    json_t *standby = json_object_get(status, "standby");
    if (json_is_object(standby))
        page_add_fact(list, "Of two machines",
                      role_text(standby, json_object_get(status, "lease")));
    page_add_fact(list, "Last drill",
                  json_is_object(drill) ? outcome_text(drill, "passed, ") : json_string("none"));
    return list;
}

/* Describes an unverified period. It was never proven that the world was down, so only the length
 * of the period is shown. */
static json_t *unverified_text(const json_t *incident)
{
    char t[TEXT_SHORT];
    wall_t begin, end;
    if (text_utc_ms_parse(js_text(incident, "begin"), &begin) < 0 ||
        text_utc_ms_parse(js_text(incident, "end"), &end) < 0 || end.ms < begin.ms)
        return json_string("not known whether it was up");
    return json_sprintf("not known whether it was up, for %s", text_duration(end.ms - begin.ms, t));
}

static json_t *incident_of(const json_t *n)
{
    bool lasts = !js_text(n, "end")[0], restored = js_flag(n, "restored");
    bool unverified = js_flag(n, "unverified");
    return json_pack("{s:o, s:o, s:o, s:s}", "begin", page_moment(n, "begin"), "outage",
                     lasts        ? json_string("lasts")
                     : unverified ? unverified_text(n)
                                  : seconds_text(json_object_get(n, "outage_seconds")),
                     "lost",
                     restored ? lost_cell(n)
                     : lasts  ? json_string("not known yet")
                              : json_string("no restore"),
                     "cause", js_text(n, "cause"));
}

/* Lists as many of the newest incidents as a page can show; the rest is in history.json. */
static json_t *page_newest_first(const json_t *history, json_t *(*make)(const json_t *incident))
{
    const json_t *all = json_object_get(history, "incidents");
    json_t *list = json_array();
    for (size_t i = json_array_size(all); i > 0 && json_array_size(list) < INCIDENTS_SHOWN; i--)
        json_array_append_new(list, make(json_array_get(all, i - 1)));
    return list;
}

/* Returns the world's title from the config, or its name if there is none. */
static const char *title_of(const struct config *c)
{
    return c->title ? c->title : c->name;
}

/* Returns when the current planned work ends; "" if there is none, or if no end was given. */
static json_t *pause_text(const json_t *status)
{
    json_t *at = page_moment(status, "pause_until"),
           *text = js_text(status, "pause_until")[0]
                       ? json_sprintf("Planned work, until %s.", json_string_value(at))
                       : json_string("");
    json_decref(at);
    return text;
}

/* Returns the values that all pages have. Each time is there twice: for the script, and as text for
 * a browser without scripts. */
static json_t *values_of(const struct config *c, const json_t *status)
{
    return json_pack("{s:o, s:s, s:s, s:o, s:s, s:s, s:o, s:s}", "title", js_clean(title_of(c)),
                     "world", c->name, "announcement", c->announcement ? c->announcement : "",
                     "pause", pause_text(status), "pause_until", js_text(status, "pause_until"),
                     "updated", js_text(status, "updated"), "updated_text",
                     page_moment(status, "updated"), "state", js_text(status, "state"));
}

json_t *page_status_values(const struct config *c, const json_t *status, const json_t *history)
{
    json_t *o = values_of(c, status), *conditions = json_array(), *each;
    size_t i;
    json_array_foreach(json_object_get(status, "troubles"), i, each)
    {
        json_t *commands = json_object_get(each, "commands");
        bool split = json_is_array(commands); /* a status of an earlier version has only the hint */
        json_array_append_new(conditions,
                              json_pack("{s:s, s:o, s:s, s:o}", "what", js_text(each, "what"),
                                        "since", page_moment(each, "since"), "prose",
                                        js_text(each, split ? "prose" : "hint"), "commands",
                                        split ? json_incref(commands) : json_array()));
    }
    json_object_set_new(o, "sentence",
                        json_sprintf("%s%s%s", js_flag(status, "unverified") ? UNVERIFIED " " : "",
                                     js_text(status, "cause"),
                                     js_text(status, "cause")[0] ? "." : ""));
    bool up = strcmp(js_text(status, "state"), "UP") == 0;
    json_object_set_new(
        o, "detail",
        json_sprintf("%s%s", up ? "" : "Detail: ", up ? "" : js_text(status, "reason")));
    json_object_set_new(o, "todo", json_string(js_text(status, "todo")));
    json_object_set_new(o, "command", json_string(js_text(status, "command")));
    json_object_set_new(o, "todo_class",
                        json_string(js_text(status, "todo")[0] ? "note" : "note gone"));
    json_object_set_new(o, "since", json_string(js_text(status, "since")));
    json_object_set_new(o, "since_text", page_moment(status, "since"));
    json_object_set_new(o, "json_file", json_string(c->json_file));
    json_object_set_new(o, "conditions_class",
                        json_string(json_array_size(conditions) ? "" : "gone"));
    json_object_set_new(o, "conditions", conditions);
    json_t *conflicts = conflicts_of(history);
    json_object_set_new(o, "conflicts_class",
                        json_string(json_array_size(conflicts) ? "note" : "note gone"));
    json_object_set_new(o, "conflicts", conflicts);
    json_object_set_new(o, "facts", facts_of(status));
    json_t *incidents = page_newest_first(history, incident_of);
    json_object_set_new(o, "incidents_note",
                        json_string(json_array_size(incidents) ? "" : "None is known."));
    json_object_set_new(o, "incidents", incidents);
    json_object_set(o, "version", json_object_get(status, "version"));
    json_object_set(o, "host", json_object_get(status, "host"));
    json_object_set(o, "pid", json_object_get(status, "pid"));
    return o;
}

/* ---- players ---- */

/* Returns true if the time in `key`, compared as text, is less than `age` ms ago. */
static bool is_recent(const json_t *o, const char *key, int64_t age, wall_t now)
{
    char limit[TEXT_SHORT];
    text_utc((wall_t){now.ms - age}, limit);
    return strncmp(js_text(o, key), limit, 19) > 0;
}

/* Adds "kept": what the last restore means for players. It never claims that nothing was lost while
 * rows that players wrote during the outage await a decision. */
static void add_kept(json_t *o, const json_t *restore, wall_t now)
{
    const json_t *lost = json_object_get(restore, "lost_seconds");
    const char *to = js_text(restore, "restored_to");
    bool nothing = json_is_number(lost) && json_number_value(lost) <= 0,
         kept_aside = has_conflicts(restore);
    SCOPED(buf_free) struct buf b = {0};
    json_auto_t *at = page_moment(restore, "at"), *until = page_moment(restore, "restored_to");
    json_object_set_new(o, "kept", json_string(""));
    /* A restore of single tables says nothing about the rest of the world. */
    if (!js_flag(restore, "ok") || js_text(restore, "only")[0] ||
        !is_recent(restore, "at", KEPT_SHOWN_MS, now))
        return;
    if (kept_aside)
        buf_printf(&b,
                   "The world was restored at %s. Some actions during the outage are being looked "
                   "at.",
                   json_string_value(at));
    else if (nothing && is_recent(restore, "at", NOTHING_SHOWN_MS, now))
        buf_printf(&b, "The world was restored at %s. Nothing was lost.", json_string_value(at));
    if (!nothing && to[0]) {
        buf_printf(&b, "%sThe last change kept: %s", b.len ? " " : "", json_string_value(until));
        json_object_set_new(o, "kept_until", json_string(to));
    }
    if (b.len)
        json_object_set_new(o, "kept", json_string(b.p));
}

json_t *page_players_values(const struct config *c, const json_t *status, wall_t now)
{
    json_t *o = values_of(c, status);
    const char *flag = js_text(status, "flag"), *message = c->message_waiting, *word = "WAITING";
    const json_t *running = json_object_get(status, "running");
    int64_t percent = js_within(running, "percent", 0, 100, -1);
    if (strcmp(flag, "UP") == 0) {
        word = "UP";
        message = c->message_up;
    } else if (text_starts(flag, "RESTORING")) {
        word = "RESTORING";
        message = c->message_restoring;
    }
    /* The server refuses the supervisor, but the game may still be running. So the page does not
     * claim that the world is down. */
    if (js_flag(status, "unverified") && strcmp(word, "WAITING") == 0) {
        word = "UNKNOWN";
        message = UNVERIFIED;
    }
    bool restoring = strcmp(word, "RESTORING") == 0 && percent >= 0 &&
                     strcmp(js_text(running, "job"), "restore") == 0;
    json_object_set_new(o, "word", json_string(word));
    json_object_set_new(o, "message", json_string(message));
    json_object_set_new(o, "logo", json_string(c->logo ? c->logo : ""));
    json_object_set_new(o, "percent", js_known(restoring, percent));
    json_object_set_new(o, "progress_class", json_string(restoring ? "" : "gone"));
    json_object_set_new(o, "kept", json_null());
    if (strcmp(word, "UP") == 0)
        add_kept(o, json_object_get(status, "last_restore"), now);
    return o;
}

/* Returns the public figures. They contain no addresses and no causes, because players do not need
 * them. */
json_t *page_players_json(const json_t *values, const json_t *status)
{
    json_t *o = json_object();
    json_object_set(o, "state", json_object_get(values, "word"));
    json_object_set(o, "message", json_object_get(values, "message"));
    json_object_set_new(o, "percent", js_or_null(json_object_get(values, "percent")));
    json_object_set_new(o, "kept", js_or_null(json_object_get(values, "kept")));
    json_object_set_new(o, "kept_until", js_or_null(json_object_get(values, "kept_until")));
    json_object_set_new(o, "pause_until", js_or_null(json_object_get(status, "pause_until")));
    json_object_set_new(o, "valid_until_unix",
                        js_or_null(json_object_get(status, "valid_until_unix")));
    return o;
}

/* ---- feed ---- */

static json_t *entry_of(const json_t *n)
{
    json_t *o = incident_of(n);
    bool lasts = !js_text(n, "end")[0];
    json_object_set_new(o, "headline",
                        json_sprintf("%s (%s)",
                                     lasts                      ? "Not up"
                                     : js_flag(n, "unverified") ? "Verified again"
                                                                : "Up again",
                                     js_text(o, "outage")));
    json_object_set_new(o, "text",
                        json_sprintf("%s. Not up for: %s. Lost: %s.", js_text(o, "cause"),
                                     js_text(o, "outage"), js_text(o, "lost")));
    json_object_set_new(o, "begin", json_string(js_text(n, "begin")));
    json_object_set_new(o, "updated", json_string(js_text(n, lasts ? "begin" : "end")));
    return o;
}

/* Returns an ID that depends on the text, so that a new announcement is a new entry. */
static json_t *announcement_id(const struct config *c)
{
    const char *s = c->announcement ? c->announcement : "";
    return json_sprintf("%08" PRIx32, (uint32_t)text_hash(TEXT_HASH, s, strlen(s)));
}

void page_feed(struct buf *out, const struct config *c, const json_t *status, const json_t *history)
{
    json_t *o = values_of(c, status), *entries = page_newest_first(history, entry_of);
    const json_t *newest = json_array_get(entries, 0);
    if (strcmp(js_text(status, "wanted"), "paused") == 0)
        json_object_set_new(o, "paused_at", json_string(js_text(status, "since")));
    if (newest) /* otherwise a reader would fetch the feed again and again */
        json_object_set(o, "updated", json_object_get(newest, "updated"));
    else
        json_object_set(o, "updated", json_object_get(status, "since"));
    json_object_set_new(o, "announcement_id", announcement_id(c));
    json_object_set_new(o, "entries", entries);
    page_fill(out, asset_feed_xml, o);
    json_decref(o);
}

/* ---- badge ---- */

/* Draws the badge. Its width is computed, because an image cannot measure its font. */
void page_badge(struct buf *out, const struct config *c, const json_t *status)
{
    static const struct {
        const char *state, *colour;
    } colours[] = {
        {"UP", "#1a7f4b"}, {"PAUSED", "#5c6370"}, {"RESTORING", "#1b5fae"}, {"SUSPECT", "#8a5300"}};
    const char *state = js_text(status, "state"), *colour = "#b3261e";
    int64_t left = 12 + CHAR_WIDTH * (int64_t)strlen(title_of(c)),
            right = 12 + CHAR_WIDTH * (int64_t)strlen(state) + CHAR_WIDTH;
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strcmp(colours[i].state, state) == 0)
            colour = colours[i].colour;
    json_t *o = values_of(c, status);
    js_set_int(o, "width", left + right);
    js_set_int(o, "split", left);
    js_set_int(o, "rest", right - 4);
    js_set_int(o, "text", left + 6);
    json_object_set_new(o, "colour", json_string(colour));
    page_fill(out, asset_badge_svg, o);
    json_decref(o);
}
