#include "screen.h"

#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "core/js.h"
#include "screen_draw.h"

static uint64_t count_of(const json_t *o, const char *key)
{
    int64_t n = js_number(o, key, 0);
    return n > 0 ? (uint64_t)n : 0;
}

static const char *seconds(const json_t *o, const char *key, char out[TEXT_SHORT])
{
    return text_duration(draw_ms(json_number_value(json_object_get(o, key))), out);
}

static const char *age(const json_t *o, char out[TEXT_SHORT])
{
    int64_t at = js_number(o, "at_unix", 0), now = clock_wall().ms / 1000;
    if (at <= 0)
        return "?";
    return draw_age(at < now ? now - at : 0, out);
}

/* "3,750,000 rows in 12 tables" */
static void rows_in_tables(struct buf *b, const json_t *o)
{
    char t[TEXT_SHORT];
    uint64_t tables = count_of(o, "tables");
    buf_printf(b, "%s row%s", text_count(count_of(o, "rows"), t),
               count_of(o, "rows") == 1 ? "" : "s");
    if (tables)
        buf_printf(b, " in %s table%s", text_count(tables, t), tables == 1 ? "" : "s");
}

static void headline(const char *word, enum colour colour, const char *rest)
{
    struct buf b = {0};
    draw_coloured(&b, screen_mode.out_colour, colour, word);
    printf("%s%s%s\n", b.p, rest[0] ? " " : "", rest);
    buf_free(&b);
}

static void show_dump(const json_t *o)
{
    char size[TEXT_SHORT], sql[TEXT_SHORT], took[TEXT_SHORT];
    struct buf b = {0}, line = {0};
    buf_adds(&line, draw_text(&b, o, "name"));
    buf_adds(&line, ": ");
    rows_in_tables(&line, o);
    buf_printf(&line, ", %s (%s of SQL), %s, method %s", text_size(count_of(o, "file_size"), size),
               text_size(count_of(o, "bytes"), sql), seconds(o, "seconds", took),
               draw_text(&b, o, "method"));
    if (js_text(o, "rejected")[0]) {
        headline("set aside", RED, line.p);
        printf("  %s\n", draw_text(&b, o, "rejected"));
    } else {
        headline("stored", GREEN, line.p);
    }
    buf_free(&b);
    buf_free(&line);
}

/* List */

static void list_row(struct cells *t, const json_t *d, bool rejected)
{
    char s[TEXT_SHORT];
    struct buf b = {0}, last = {0};
    cells_add(t, draw_text(&b, d, "name"));
    cells_add(t, age(d, s));
    cells_add(t, text_count(count_of(d, "rows"), s));
    cells_add(t, text_size(count_of(d, "file_size"), s));
    cells_add(t, seconds(d, "seconds", s));
    cells_add(t, draw_text(&b, d, "method"));
    if (rejected) {
        buf_adds(&last, draw_text(&b, d, js_text(d, "rejected")[0] ? "rejected" : "reason"));
    } else if (js_flag(d, "intact")) {
        buf_adds(&last, "yes");
    } else {
        draw_coloured(&last, screen_mode.out_colour, RED, "NO: ");
        buf_adds(&last, draw_text(&b, d, "reason"));
    }
    cells_add(t, last.p ? last.p : "");
    buf_free(&b);
    buf_free(&last);
}

static void list_table(const json_t *list, bool rejected)
{
    static const char *const heads[] = {"NAME", "AGE", "ROWS", "SIZE", "TOOK", "METHOD"};
    struct cells t = {.columns = 7, .align = "lrrrrll"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        cells_add(&t, heads[i]);
    cells_add(&t, rejected ? "WHY" : "INTACT");
    for (size_t i = 0; i < json_array_size(list); i++)
        list_row(&t, json_array_get(list, i), rejected);
    cells_print(&t, true);
    cells_free(&t);
}

/* The moments that --restore --at can have. */
static void list_journal(const json_t *journal)
{
    const json_t *ranges = json_object_get(journal, "ranges");
    struct cells t = {.columns = 3, .align = "lll"};
    struct buf b = {0};
    if (!json_array_size(ranges))
        return;
    printf("\nthe journal, by %s, for --restore --at:\n",
           strcmp(js_text(journal, "source"), "segments") == 0
               ? "its segments"
               : "the server's binary log as far back as that is kept");
    cells_add(&t, "FROM");
    cells_add(&t, "TO");
    cells_add(&t, "WHY NOT FURTHER");
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        const json_t *r = json_array_get(ranges, i);
        bool open = json_is_null(json_object_get(r, "to"));
        cells_add(&t, draw_text(&b, r, "from"));
        cells_add(&t, open ? "now" : draw_text(&b, r, "to"));
        cells_add(&t, open ? "" : draw_text(&b, r, "gap"));
    }
    cells_print(&t, true);
    cells_free(&t);
    buf_free(&b);
}

void screen_list(const json_t *o)
{
    const json_t *dumps = json_object_get(o, "dumps"), *rejected = json_object_get(o, "rejected");
    struct buf b = {0};
    if (json_array_size(dumps))
        list_table(dumps, false);
    else
        printf("no dumps yet; to take one: %s\n", draw_typed(&b, "worldkeeper --dump"));
    buf_free(&b);
    if (json_array_size(rejected)) {
        puts("\nset aside, never restored by itself:");
        list_table(rejected, true);
    }
    list_journal(json_object_get(o, "journal"));
}

static void show_verify(const json_t *o)
{
    const json_t *list = json_object_get(o, "dumps");
    size_t n = json_array_size(list), whole = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *d = json_array_get(list, i);
        struct buf b = {0}, line = {0};
        bool good = js_flag(d, "whole");
        whole += good;
        buf_adds(&line, draw_text(&b, d, "name"));
        if (!good)
            buf_printf(&line, ": %s", draw_text(&b, d, "reason"));
        if (!good || !screen_mode.quiet)
            headline(good ? "whole  " : "DAMAGED", good ? GREEN : RED, line.p);
        buf_free(&b);
        buf_free(&line);
    }
    if (n > 1 && (whole < n || !screen_mode.quiet))
        printf("%zu of %zu dumps are whole\n", whole, n);
}

static void show_seal(const json_t *o)
{
    const json_t *list = json_object_get(o, "dumps");
    if (json_array_size(list) == 0)
        printf("every dump has its HMAC\n");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *d = json_array_get(list, i);
        struct buf name = {0}, why = {0}, line = {0};
        bool done = js_flag(d, "whole");
        buf_adds(&line, draw_text(&name, d, "name"));
        if (!done)
            buf_printf(&line, ": %s", draw_text(&why, d, "reason"));
        headline(done ? "sealed" : "DAMAGED", done ? GREEN : RED, line.p);
        buf_free(&name);
        buf_free(&why);
        buf_free(&line);
    }
}

/* Restore and drill */

static void show_plan(const json_t *plan, bool all)
{
    struct cells t = {.columns = 3, .align = "lrl"};
    size_t left = 0;
    struct buf b = {0}, why = {0};
    char n[TEXT_SHORT];
    cells_add(&t, "TABLE");
    cells_add(&t, "ROWS");
    cells_add(&t, "WHAT");
    for (size_t i = 0; i < json_array_size(plan); i++) {
        const json_t *p = json_array_get(plan, i);
        bool restored = js_flag(p, "restored");
        left += !restored;
        if (!all)
            continue;
        buf_clear(&why);
        buf_adds(&why, restored ? "restored" : "left");
        if (js_text(p, "why")[0])
            buf_printf(&why, ": %s", draw_text(&b, p, "why"));
        if (js_flag(p, "triggers"))
            buf_adds(&why, "; its triggers move over");
        cells_add(&t, draw_text(&b, p, "table"));
        cells_add(&t, text_count(count_of(p, "rows"), n));
        cells_add(&t, why.p);
    }
    if (all && json_array_size(plan))
        cells_print(&t, true);
    else if (left)
        printf("  %zu table%s left as %s (--verbose says which and why)\n", left,
               left == 1 ? "" : "s", left == 1 ? "it is" : "they are");
    cells_free(&t);
    buf_free(&b);
    buf_free(&why);
}

static void show_skipped(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *s = json_array_get(list, i);
        struct buf b = {0};
        printf("  passed over: %s", draw_text(&b, s, "dump"));
        printf(": %s\n", draw_text(&b, s, "reason"));
        buf_free(&b);
    }
}

static void show_journal(const json_t *o)
{
    char n[TEXT_SHORT];
    struct buf b = {0};
    if (js_flag(o, "used"))
        printf("  journal: %s change%s since the dump%s%s\n", text_count(count_of(o, "changes"), n),
               count_of(o, "changes") == 1 ? "" : "s", js_text(o, "last")[0] ? ", up to " : "",
               draw_text(&b, o, "last"));
    if (js_text(o, "gap")[0])
        printf("  the journal %s: %s\n",
               js_flag(o, "used") ? "ends before the loss" : "is left out",
               draw_text(&b, o, "gap"));
    buf_free(&b);
}

static void show_losses(const json_t *o)
{
    char t[TEXT_SHORT];
    struct buf b = {0};
    int64_t lost = js_number(o, "lost_seconds", -1);
    uint64_t conflicts = count_of(o, "conflict_rows");
    if (lost > 0)
        printf("  lost: the last %s of play before the server went down\n",
               text_duration(draw_ms((double)lost), t));
    else if (lost == 0)
        puts(js_flag(json_object_get(o, "journal"), "whole")
                 ? "  lost: nothing that the server had acknowledged"
                 : "  lost: less than a second of play");
    if (conflicts)
        printf("  %s row%s written since the loss are kept in %s\n", text_count(conflicts, t),
               conflicts == 1 ? "" : "s", draw_text(&b, o, "conflict_file"));
    if (js_text(o, "warning")[0]) {
        struct buf w = {0};
        draw_coloured(&w, screen_mode.out_colour, YELLOW, "WARNING:");
        printf("  %s %s\n", w.p, draw_text(&b, o, "warning"));
        buf_free(&w);
    }
    if (js_text(o, "hint")[0])
        printf("  HINT: %s\n", draw_typed(&b, js_text(o, "hint")));
    buf_free(&b);
}

void screen_restore(const json_t *o)
{
    bool dry = js_flag(o, "dry_run");
    char t[TEXT_SHORT];
    struct buf b = {0}, line = {0};
    buf_adds(&line, draw_text(&b, o, "dump"));
    if (js_text(o, "into")[0])
        buf_printf(&line, " into schema %s", draw_text(&b, o, "into"));
    if (js_text(o, "moment")[0])
        buf_printf(&line, " as of %s", draw_text(&b, o, "moment"));
    buf_adds(&line, ": ");
    rows_in_tables(&line, o);
    if (!dry)
        buf_printf(&line, ", %s", seconds(o, "seconds", t));
    if (js_number(o, "connections", 0) > 1)
        buf_printf(&line, " over %d connections", (int)js_number(o, "connections", 0));
    headline(dry ? "would restore" : "restored", dry ? BOLD : GREEN, line.p);
    show_skipped(json_object_get(o, "skipped"));
    show_journal(json_object_get(o, "journal"));
    show_losses(o);
    show_plan(json_object_get(o, "plan"), dry || screen_mode.verbose);
    buf_free(&b);
    buf_free(&line);
}

void screen_drill(const json_t *o)
{
    char t[TEXT_SHORT];
    struct buf b = {0}, line = {0};
    buf_adds(&line, draw_text(&b, o, "dump"));
    buf_adds(&line, ": ");
    rows_in_tables(&line, o);
    buf_printf(&line, " came back as they were dumped, %s", seconds(o, "seconds", t));
    headline("drill passed", GREEN, line.p);
    show_skipped(json_object_get(o, "skipped"));
    show_plan(json_object_get(o, "plan"), screen_mode.verbose);
    buf_free(&b);
    buf_free(&line);
}

/* The small ones */

static void show_init(const json_t *o)
{
    struct buf b = {0};
    char t[TEXT_SHORT];
    printf("sentinel %s: ", draw_text(&b, o, "sentinel"));
    printf("%s; generation %s\n", draw_text(&b, o, "did"),
           text_count(count_of(o, "generation"), t));
    buf_free(&b);
}

static void show_channels(const json_t *o)
{
    const json_t *list = json_object_get(o, "channels");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        bool ok = js_flag(c, "ok");
        struct buf b = {0}, line = {0};
        if (ok && screen_mode.quiet)
            continue;
        buf_adds(&line, draw_text(&b, c, "channel"));
        buf_printf(&line, ": %s", draw_text(&b, c, "reply"));
        headline(ok ? "sent  " : "FAILED", ok ? GREEN : RED, line.p);
        if (js_text(c, "hint")[0])
            printf("  HINT: %s\n", draw_text(&b, c, "hint"));
        buf_free(&b);
        buf_free(&line);
    }
}

/* --pause and --resume answer with the status; its first words are enough. */
static void show_state(const json_t *o)
{
    struct buf b = {0};
    printf("%s: ", draw_text(&b, o, "world"));
    printf("%s", draw_text(&b, o, "state"));
    if (js_text(o, "reason")[0])
        printf(", %s", draw_text(&b, o, "reason"));
    putchar('\n');
    buf_free(&b);
}

/* A result of a shape that is not known here: its plain fields. */
static void show_fields(const json_t *o)
{
    const char *key;
    json_t *v, *same = json_deep_copy(o);
    json_object_foreach(same, key, v)
    {
        struct buf name = {0}, value = {0};
        text_clean(&name, key, 100);
        if (json_is_string(v))
            text_clean(&value, json_string_value(v), 1000);
        else if (json_is_number(v))
            buf_printf(&value, "%.10g", json_number_value(v));
        else if (json_is_boolean(v))
            buf_adds(&value, json_is_true(v) ? "yes" : "no");
        if (value.p)
            printf("%s: %s\n", name.p, value.p);
        buf_free(&name);
        buf_free(&value);
    }
    json_decref(same);
}

void screen_result(const char *action, const json_t *result)
{
    static const struct {
        const char *action;
        void (*show)(const json_t *o);
        bool when_quiet; /* asked for to be read, or able to tell only what is wrong */
    } shows[] = {
        {"dump", show_dump, false},          {"list", screen_list, true},
        {"verify", show_verify, true},       {"restore", screen_restore, false},
        {"drill", screen_drill, false},      {"status", screen_status, true},
        {"check", screen_check, true},       {"init", show_init, false},
        {"test-alert", show_channels, true}, {"pause", show_state, false},
        {"resume", show_state, false},       {"seal", show_seal, false},
    };
    screen_done();
    if (!json_is_object(result))
        return;
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++)
        if (strcmp(shows[i].action, action) == 0) {
            if (shows[i].when_quiet || !screen_mode.quiet)
                shows[i].show(result);
            fflush(stdout);
            return;
        }
    if (!screen_mode.quiet)
        show_fields(result);
    fflush(stdout);
}
