#include "screen_draw.h"

#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/js.h"

#define LABEL 13 /* columns before what a line says */

/* "last dump    text": one line of the status. */
static void line(const char *label, const char *text)
{
    struct buf b = {0}, shown = {0};
    draw_padded(&b, label, LABEL, false);
    draw_coloured(&shown, screen_mode.out_colour, DIM, b.p);
    fputs(shown.p, stdout);
    draw_wrapped(text, LABEL, LABEL);
    buf_free(&b);
    buf_free(&shown);
}

/* "2026-01-31T23:59:59Z" as people read it. */
static void add_time(struct buf *b, const json_t *o, const char *key)
{
    struct buf t = {0};
    draw_text(&t, o, key);
    if (t.len == 20 && t.p[10] == 'T' && t.p[19] == 'Z')
        buf_printf(b, "%.10s %.8s UTC", t.p, t.p + 11);
    else
        buf_adds(b, t.len ? t.p : "?");
    buf_free(&t);
}

static void add_duration(struct buf *b, double seconds)
{
    char t[TEXT_SHORT];
    buf_adds(b, text_duration(draw_ms(seconds), t));
}

static void add_figures(struct buf *b, const json_t *o)
{
    char t[TEXT_SHORT];
    int64_t rows = js_number(o, "rows", -1), size = js_number(o, "file_size", -1);
    if (rows >= 0)
        buf_printf(b, ", %s row%s", text_count((uint64_t)rows, t), rows == 1 ? "" : "s");
    if (size >= 0)
        buf_printf(b, ", %s", text_size((uint64_t)size, t));
    if (json_is_number(json_object_get(o, "seconds"))) {
        buf_adds(b, ", took ");
        add_duration(b, json_number_value(json_object_get(o, "seconds")));
    }
}

static enum colour state_colour(const char *state)
{
    if (strcmp(state, "UP") == 0)
        return GREEN;
    return strcmp(state, "LOST") == 0 || strcmp(state, "WAITING") == 0 ? RED : YELLOW;
}

static void show_head(const json_t *o)
{
    char t[TEXT_SHORT];
    struct buf b = {0}, head = {0};
    buf_adds(&head, draw_text(&b, o, "world"));
    buf_adds(&head, ": ");
    draw_coloured(&head, screen_mode.out_colour, state_colour(js_text(o, "state")),
                  js_text(o, "state")[0] ? draw_text(&b, o, "state") : "?");
    if (js_text(o, "since")[0]) {
        buf_adds(&head, " since ");
        add_time(&head, o, "since");
    }
    puts(head.p);
    if (js_text(o, "reason")[0])
        line("reason", draw_text(&b, o, "reason"));
    int64_t valid = js_number(o, "valid_until_unix", 0), now = clock_wall().ms / 1000;
    if (valid > 0 && now > valid) {
        buf_clear(&head);
        buf_adds(&head, "this status ran out ");
        buf_adds(&head, draw_age(now - valid, t));
        buf_adds(&head, " ago: the supervisor is dead or stuck");
        line("STALE", head.p);
    }
    if (strcmp(js_text(o, "wanted"), "paused") == 0)
        line("wanted", draw_typed(&b, "paused; to go on: worldkeeper --resume"));
    buf_free(&b);
    buf_free(&head);
}

static void show_probe(const json_t *p)
{
    struct buf b = {0}, t = {0};
    if (!json_is_object(p))
        return;
    buf_adds(&b, draw_text(&t, p, "verdict"));
    if (js_number(p, "latency_ms", -1) >= 0)
        buf_printf(&b, ", %" PRId64 " ms", js_number(p, "latency_ms", 0));
    if (js_text(p, "history")[0])
        buf_printf(&b, ", history %s", draw_text(&t, p, "history"));
    if (js_text(p, "text")[0] && strcmp(js_text(p, "verdict"), "ALIVE") != 0)
        buf_printf(&b, ": %s", draw_text(&t, p, "text"));
    line("last probe", b.p);
    if (screen_mode.verbose)
        line("", "(history, newest last: A alive, E empty, M missing, F foreign, U unreachable, S "
                 "stalled, D denied)");
    buf_free(&b);
    buf_free(&t);
}

static void show_running(const json_t *r)
{
    struct buf b = {0}, t = {0};
    char n[TEXT_SHORT];
    if (!json_is_object(r))
        return;
    buf_adds(&b, draw_text(&t, r, "job"));
    if (js_text(r, "phase")[0])
        buf_printf(&b, ", %s", draw_text(&t, r, "phase"));
    if (js_text(r, "table")[0])
        buf_printf(&b, " %s", draw_text(&t, r, "table"));
    if (js_number(r, "percent", -1) >= 0)
        buf_printf(&b, ", %" PRId64 "%%", js_number(r, "percent", 0));
    if (js_number(r, "rows", 0) > 0)
        buf_printf(&b, ", %s rows", text_count((uint64_t)js_number(r, "rows", 0), n));
    line("running", b.p);
    buf_free(&b);
    buf_free(&t);
}

static void show_dumps(const json_t *o)
{
    const json_t *last = json_object_get(o, "last_dump"), *next = json_object_get(o, "next_dump");
    struct buf b = {0}, t = {0};
    char n[TEXT_SHORT];
    if (json_is_object(last)) {
        buf_adds(&b, draw_age(js_number(last, "age_seconds", 0), n));
        buf_printf(&b, " ago%s", js_flag(o, "stale") ? " (too long)" : "");
        add_figures(&b, last);
        buf_printf(&b, ", %s", draw_text(&t, last, "name"));
        line("last dump", b.p);
    } else {
        line("last dump", "none");
    }
    buf_clear(&b);
    if (json_is_object(next)) {
        buf_adds(&b, "in ");
        buf_adds(&b, draw_age(js_number(next, "in_seconds", 0), n));
        line("next dump", b.p);
    }
    buf_free(&b);
    buf_free(&t);
}

static void add_seconds(struct buf *b, const json_t *o, const char *key, const char *what)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        return;
    buf_printf(b, ", %s ", what);
    add_duration(b, json_number_value(v));
}

static void show_last_restore(const json_t *r)
{
    struct buf b = {0}, t = {0};
    char n[TEXT_SHORT];
    if (!json_is_object(r))
        return;
    add_time(&b, r, "at");
    buf_adds(&b, js_flag(r, "ok") ? "" : ", FAILED");
    add_figures(&b, r);
    add_seconds(&b, r, "outage_seconds", "world away for");
    add_seconds(&b, r, "lost_seconds", "play lost");
    if (js_number(r, "conflict_rows", 0) > 0)
        buf_printf(&b, ", %s conflict rows saved",
                   text_count((uint64_t)js_number(r, "conflict_rows", 0), n));
    if (js_text(r, "dump")[0])
        buf_printf(&b, ", from %s", draw_text(&t, r, "dump"));
    line("last restore", b.p);
    buf_free(&b);
    buf_free(&t);
}

static void show_journal(const json_t *j)
{
    struct buf b = {0}, t = {0};
    if (!json_is_object(j))
        return;
    buf_adds(&b, draw_text(&t, j, "state"));
    add_seconds(&b, j, "behind_seconds", "proven but for the last");
    if (js_text(j, "file")[0])
        buf_printf(&b, ", at %s %" PRId64, draw_text(&t, j, "file"), js_number(j, "pos", 0));
    if (js_text(j, "reason")[0])
        buf_printf(&b, "%s: %s", js_flag(j, "gap") ? ", gap" : "", draw_text(&t, j, "reason"));
    line("journal", b.p);
    buf_free(&b);
    buf_free(&t);
}

static void show_alerts(const json_t *a)
{
    const json_t *channels = json_object_get(a, "channels");
    struct buf b = {0}, t = {0};
    json_t *same = json_deep_copy(channels), *v;
    const char *key;
    if (json_is_object(a)) {
        int64_t waiting = js_number(a, "waiting", 0);
        if (waiting)
            buf_printf(&b, "%" PRId64 " waiting", waiting);
        else
            buf_adds(&b, json_object_size(channels) ? "none waiting" : "no channel configured");
        line("alerts", b.p);
    }
    json_object_foreach(same, key, v)
    {
        if (!js_text(v, "last_error")[0])
            continue;
        buf_clear(&b);
        text_clean(&b, key, 100);
        buf_printf(&b, ": %s", draw_text(&t, v, "last_error"));
        line("", b.p);
    }
    json_decref(same);
    buf_free(&b);
    buf_free(&t);
}

static void show_troubles(const json_t *list)
{
    struct buf b = {0}, t = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        buf_clear(&b);
        add_time(&b, o, "since");
        buf_printf(&b, ": %s", draw_text(&t, o, "what"));
        line(i ? "" : "trouble", b.p);
    }
    buf_free(&b);
    buf_free(&t);
}

void screen_status(const json_t *o)
{
    const json_t *disk = json_object_get(o, "disk"), *loop = json_object_get(o, "loop");
    struct buf b = {0};
    char x[TEXT_SHORT], y[TEXT_SHORT];
    show_head(o);
    show_probe(json_object_get(o, "probe"));
    show_troubles(json_object_get(o, "troubles"));
    show_running(json_object_get(o, "running"));
    show_dumps(o);
    show_journal(json_object_get(o, "journal"));
    show_last_restore(json_object_get(o, "last_restore"));
    if (js_number(disk, "free_bytes", -1) >= 0) {
        buf_printf(&b, "%s left, the next dump takes about %s",
                   text_size((uint64_t)js_number(disk, "free_bytes", 0), x),
                   text_size((uint64_t)js_number(disk, "needed_bytes", 0), y));
        line("disk", b.p);
        buf_clear(&b);
    }
    show_alerts(json_object_get(o, "alerts"));
    if (js_number(loop, "late_ms_max", -1) >= 0) {
        buf_printf(&b, "%" PRId64 " ms at most", js_number(loop, "late_ms_max", 0));
        line("loop late", b.p);
        buf_clear(&b);
    }
    buf_free(&b);
}

/* --check */

static const struct {
    const char *level, *mark;
    enum colour colour;
} marks[] = {
    {"ok", "ok  ", GREEN}, {"note", "note", CYAN}, {"warn", "warn", YELLOW}, {"fail", "FAIL", RED}};

#define MARKS (sizeof marks / sizeof *marks)

static size_t mark_of(const json_t *c)
{
    for (size_t i = 0; i < MARKS; i++)
        if (strcmp(marks[i].level, js_text(c, "level")) == 0)
            return i;
    return 1;
}

static void show_finding(const json_t *c, size_t name_width)
{
    struct buf b = {0}, head = {0};
    size_t m = mark_of(c), indent = 4 + 2 + name_width + 2;
    draw_coloured(&head, screen_mode.out_colour, marks[m].colour, marks[m].mark);
    buf_adds(&head, "  ");
    draw_padded(&head, draw_text(&b, c, "name"), name_width, false);
    printf("%s  ", head.p);
    draw_wrapped(draw_text(&b, c, "text"), indent, indent);
    /* A hint may be something to type: never broken by us. */
    if (js_text(c, "hint")[0] && (m > 0 || screen_mode.verbose)) {
        buf_clear(&head);
        draw_coloured(&head, screen_mode.out_colour, BOLD, "HINT:");
        printf("%*s%s %s\n", (int)indent, "", head.p, draw_text(&b, c, "hint"));
    }
    buf_free(&b);
    buf_free(&head);
}

void screen_check(const json_t *o)
{
    const json_t *list = json_object_get(o, "checks");
    size_t seen[MARKS] = {0}, width = 0;
    struct buf b = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        size_t w = draw_width(draw_text(&b, json_array_get(list, i), "name"));
        width = w > width ? w : width;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        size_t m = mark_of(c);
        seen[m]++;
        if (!screen_mode.quiet || m > 1)
            show_finding(c, width);
    }
    if (!screen_mode.quiet)
        printf("\n%zu ok, %zu %s, %zu %s, %zu failed\n", seen[0], seen[1],
               seen[1] == 1 ? "note" : "notes", seen[2], seen[2] == 1 ? "warning" : "warnings",
               seen[3]);
    buf_free(&b);
}
