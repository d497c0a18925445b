#include "cli/status_view.h"

#include "cli/draw.h"

#include <string.h>

#include "base/clock.h"
#include "base/js.h"

#define LABEL 13 /* columns of the label of a line */

/* Prints one line of the status: "last dump    text". */
static void status_view_line(const char *label, const char *text)
{
    SCOPED(buf_free) struct buf b = {0}, shown = {0};
    draw_padded(&b, label, LABEL, false);
    draw_coloured(&shown, screen_mode.out_colour, DIM, b.p);
    fputs(shown.p, stdout);
    draw_wrapped(text, LABEL, LABEL);
}

static void fill_line(const char *label, const json_t *o, const char *as)
{
    SCOPED(buf_free) struct buf b = {0};
    status_view_line(label, draw_fill(&b, o, as));
}

/* Prints a line for one part of the status, unless the part is null because the config does not
 * enable it. */
static void part_line(const char *label, const json_t *o, const char *key, const char *as)
{
    const json_t *part = json_object_get(o, key);
    if (json_is_object(part))
        fill_line(label, part, as);
}

/* Shows the state, and says that the status is stale if it has expired, because it is only valid
 * while its supervisor updates it. */
static void show_head(const json_t *o)
{
    char t[TEXT_SHORT];
    SCOPED(buf_free) struct buf b = {0}, head = {0};
    static const char *const bad[] = {"LOST", "WAITING", NULL};
    const char *state = js_text(o, "state");
    draw_fill(&head, o, "{world}: ");
    draw_coloured(&head, screen_mode.out_colour,
                  strcmp(state, "UP") == 0 ? GREEN
                  : text_among(state, bad) ? RED
                                           : YELLOW,
                  state[0] ? draw_text(&b, o, "state") : "?");
    puts(draw_fill(&head, o, "[ since {since:t}]"));
    if (js_text(o, "cause")[0] && strcmp(state, "UP") != 0)
        fill_line("cause", o, "[{cause}.]");
    if (js_text(o, "reason")[0])
        fill_line("reason", o, "{reason}");
    if (js_text(o, "todo")[0])
        fill_line("to do", o, "{todo}");
    if (js_text(o, "command")[0]) /* never wrapped, because it is pasted */
        printf("%*s%s\n", LABEL, "", draw_text(&b, o, "command"));
    int64_t valid = js_number(o, "valid_until_unix", 0), now = clock_wall().ms / 1000;
    if (valid > 0 && now > valid) {
        buf_clear(&head);
        buf_printf(&head, "this status expired %s ago: the supervisor is dead or hangs",
                   draw_age(now - valid, t));
        status_view_line("STALE", head.p);
    }
    if (strcmp(js_text(o, "wanted"), "paused") == 0)
        status_view_line("wanted",
                         draw_typed(&b, "paused; to end the pause: worldkeeper --resume"));
    if (js_text(o, "pause_until")[0])
        fill_line("", o, "the pause ends automatically at {pause_until:t}");
}

static void show_probe(const json_t *p)
{
    SCOPED(buf_free) struct buf b = {0};
    draw_fill(&b, p, "{verdict}[, {latency_ms:d} ms][, history {history}]");
    if (strcmp(js_text(p, "verdict"), "ALIVE") != 0)
        draw_fill(&b, p, "[: {text}]");
    status_view_line("last probe", b.p);
    if (screen_mode.verbose)
        status_view_line(
            "", "(history, newest last: A alive, E empty, M missing, F foreign, U unreachable, S "
                "stalled, D denied)");
}

#define FIGURES "[, {rows:n} row{rows:+}][, {file_size:b}][, took {seconds:s}]"

/* Shows the age of the last dump, not its time, because the age is what would be lost now. */
static void show_dumps(const json_t *o)
{
    const json_t *last = json_object_get(o, "last_dump");
    if (json_is_object(last))
        fill_line("last dump", last,
                  js_flag(o, "stale") ? "{age_seconds:a} ago (too long)" FIGURES ", {name}"
                                      : "{age_seconds:a} ago" FIGURES ", {name}");
    else
        status_view_line("last dump", "none");
    part_line("next dump", o, "next_dump", "in {in_seconds:a}");
}

/* Shows scheduled work: the result of the last run, and when the next one is due. */
static void show_work(const json_t *o, const char *name)
{
    char key[24];
    SCOPED(buf_free) struct buf b = {0};
    snprintf(key, sizeof key, "last_%s", name);
    const json_t *last = json_object_get(o, key);
    snprintf(key, sizeof key, "next_%s", name);
    const json_t *next = json_object_get(o, key);
    if (!json_is_object(last) && !json_is_object(next))
        return;
    if (json_is_object(last))
        draw_fill(&b, last,
                  js_flag(last, "ok") ? "{at:t}, passed[, {rows:n} row{rows:+}][, {whole:n} "
                                        "dump{whole:+} whole][, took {seconds:s}]"
                                      : "{at:t}, FAILED[: {error}]");
    else
        buf_adds(&b, "none yet");
    if (js_flag(next, "running"))
        buf_adds(&b, "; one runs");
    else if (json_is_object(next))
        draw_fill(&b, next, "; next in {in_seconds:a}[, delayed: {held}]");
    status_view_line(name, b.p);
}

static void show_last_restore(const json_t *r)
{
    SCOPED(buf_free) struct buf b = {0};
    draw_fill(&b, r, "{at:t}[, only {only}]");
    buf_adds(&b, js_flag(r, "ok") ? "" : ", FAILED");
    draw_fill(&b, r,
              FIGURES "[, world away for {outage_seconds:s}][, {lost}]"
                      "[, {conflict_rows:p} conflict row{conflict_rows:+} saved]");
    if (json_is_null(json_object_get(r, "conflict_rows")))
        buf_adds(&b, ", some conflict rows are not saved yet");
    status_view_line("last restore", draw_fill(&b, r, "[, from {dump}]"));
}

/* Shows how far the journal is proven, not how far it was read, because a restore can use only the
 * proven part. */
static void status_view_show_journal(const json_t *j)
{
    SCOPED(buf_free) struct buf b = {0};
    draw_fill(&b, j,
              "{state}[, proven except for the last {behind_seconds:s}][, at {file} {pos:d}]");
    if (js_flag(j, "gap") && js_text(j, "reason")[0])
        buf_adds(&b, ", gap");
    status_view_line("journal", draw_fill(&b, j, "[: {reason}]"));
}

/* Prints a line for each item of a list. Only the first line has the label. */
static void list_lines(const char *label, const json_t *list, const char *as)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        fill_line(i ? "" : label, json_array_get(list, i), as);
}

/* Prints each open condition with its steps below it. Each command has its own line, which is never
 * wrapped. */
static void status_view_show_conditions(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *t = json_array_get(list, i);
        fill_line(i ? "" : "condition", t, "{since:t}: {what}");
        draw_steps(LABEL, js_text(t, "hint"));
    }
}

static void show_alerts(const json_t *a)
{
    json_t *channels = json_object_get(a, "channels"), *v;
    const char *key;
    if (js_number(a, "waiting", 0))
        fill_line("alerts", a, "{waiting:d} waiting");
    else
        status_view_line("alerts",
                         json_object_size(channels) ? "none waiting" : "no channel configured");
    json_object_foreach(channels, key, v)
    {
        SCOPED(buf_free) struct buf b = {0};
        text_clean(&b, key, 100);
        if (js_text(v, "last_error")[0] || js_number(v, "waiting", 0))
            status_view_line("", draw_fill(&b, v, "[: {waiting:p} waiting][: {last_error}]"));
    }
}

/* Shows one world, in the order in which an operator on call needs it. */
static void show_world(const json_t *o)
{
    const json_t *disk = json_object_get(o, "disk"), *loop = json_object_get(o, "loop"), *part;
    show_head(o);
    if (json_is_object(part = json_object_get(o, "probe")))
        show_probe(part);
    status_view_show_conditions(json_object_get(o, "troubles"));
    part_line("running", o, "running",
              "{job}[, {phase}][ {table}][, {percent:d}%][, {rows:p} rows]");
    show_dumps(o);
    if (json_is_object(part = json_object_get(o, "journal")))
        status_view_show_journal(part);
    list_lines("ledgers", json_object_get(o, "ledgers"),
               "{name}[: {rows:n} row{rows:+}][, {rolled_up:n} rolled up][ in {keys:n} "
               "total{keys:+}][, {late:p} late][, last {last:t}][, took {seconds:s}]");
    part_line("progress", o, "progress",
              "{sent:n} sent[, {unsent:n} unsent][, the oldest for {oldest_unsent_seconds:p} s]"
              "[, {stolen:p} set aside][, {sessions:n} session{sessions:+}][; central store "
              "{central}]");
    if (strcmp(js_text(part = json_object_get(o, "standby"), "role"), "standby") == 0)
        fill_line("standby", part,
                  "[{state}][, {behind_seconds:a} behind][, newest dump {newest}][, pulled at "
                  "{last_pull:t}][: {last_error}]");
    part_line("copy", part, "warm",
              "[{state}][, {behind_seconds:a} behind][, {rows:p} rows][: {why}]");
    if (json_is_object(part = json_object_get(o, "last_restore")))
        show_last_restore(part);
    show_work(o, "drill");
    show_work(o, "verify");
    if (js_number(disk, "free_bytes", -1) >= 0)
        fill_line("disk", disk,
                  "{free_bytes:b} left[, the next dump takes about {needed_bytes:b}]");
    if (json_is_object(part = json_object_get(o, "alerts")))
        show_alerts(part);
    if (js_number(loop, "late_ms_max", -1) >= 0)
        fill_line("loop late", loop, "{late_ms_max:d} ms at most");
}

/* ---- all worlds: a table with a line for each, and below it what is wrong with them ---- */

static void state_cell(struct buf *b, const json_t *o)
{
    SCOPED(buf_free) struct buf state = {0};
    if (js_flag(o, "retired")) {
        buf_adds(b, "retired");
        return;
    }
    bool up = strcmp(draw_text(&state, o, "state"), "UP") == 0;
    draw_coloured(b, screen_mode.out_colour, up ? GREEN : RED, state.len ? state.p : "?");
}

/* Shows the age of the last dump, or "?" if the world's supervisor did not answer, which differs
 * from having no dump. */
static void dump_cell(struct buf *b, const json_t *o)
{
    const json_t *dump = json_object_get(o, "last_dump");
    if (json_is_object(dump))
        draw_fill(b, dump, "{age_seconds:a} ago");
    else
        buf_adds(b, json_is_null(json_object_get(o, "state")) ? "?" : "none");
}

static void journal_cell(struct buf *b, const json_t *o)
{
    const json_t *journal = json_object_get(o, "journal");
    draw_fill(b, journal, json_is_object(journal) ? "{state}" : "-");
}

static void conditions_cell(struct buf *b, const json_t *o)
{
    char n[TEXT_SHORT];
    size_t count = json_array_size(json_object_get(o, "troubles"));
    buf_adds(b, js_text(o, "error")[0] ? "?" : text_count(count, n));
}

/* Shows what is wrong with a world: its error, the reason of its state and its open conditions. */
static void show_reasons(const json_t *o)
{
    const json_t *troubles = json_object_get(o, "troubles");
    SCOPED(buf_free) struct buf world = {0}, b = {0};
    size_t used = draw_width(draw_fill(&world, o, "{world}: "));
    const char *state = js_text(o, "state");
    if (js_text(o, "error")[0]) {
        fputs(world.p, stdout);
        draw_wrapped(draw_text(&b, o, "error"), used, used);
    }
    if (js_text(o, "hint")[0])
        printf("%*sHINT: %s\n", (int)used, "", draw_text(&b, o, "hint"));
    if (state[0] && strcmp(state, "UP") != 0) {
        fputs(world.p, stdout);
        draw_fill(&b, o, "{reason}");
        draw_fill(&b, json_object_get(o, "running"), "[: {phase}][ {table}][, {percent:d}%]");
        draw_wrapped(b.p, used, used);
    }
    for (size_t i = 0; i < json_array_size(troubles); i++) {
        fputs(world.p, stdout);
        draw_wrapped(draw_text(&b, json_array_get(troubles, i), "what"), used, used);
        draw_steps(used, js_text(json_array_get(troubles, i), "hint"));
    }
}

void screen_status(const json_t *o)
{
    static const struct column columns[] = {{"WORLD", "{world}", NULL, false},
                                            {"STATE", NULL, state_cell, false},
                                            {"LAST DUMP", NULL, dump_cell, false},
                                            {"JOURNAL", NULL, journal_cell, false},
                                            {"CONDITIONS", NULL, conditions_cell, false}};
    const json_t *worlds = json_object_get(o, "worlds");
    if (!json_is_array(worlds)) {
        show_world(o);
        return;
    }
    DRAW_TABLE(worlds, columns);
    for (size_t i = 0; i < json_array_size(worlds); i++)
        show_reasons(json_array_get(worlds, i));
}
