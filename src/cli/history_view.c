/* Terminal output of --history. */
#include <string.h>

#include "base/js.h"
#include "cli/draw.h"

/* What of a record is shown beside its kind; [..] only where it is known. */
static const struct {
    const char *kind, *as;
} lines[] = {
    {"state", "{state}[: {reason}]"},
    {"loss", "{reason}"},
    {"restore", "[{dump}][ from {from}][: {rows:n} rows][ in {seconds:s}][; down for "
                "{outage_seconds:s}][; {lost}][; FAILED: {error}]"},
    {"dump", "[{dump}][: {rows:n} rows][, {bytes:b}][ in {seconds:s}][; FAILED: {error}]"},
    {"drill", "[{dump}][: {rows:n} rows][ in {seconds:s}][; FAILED: {error}]"},
    {"verify", "[{whole:n} whole, {damaged:n} damaged][; FAILED: {error}]"},
    {"offsite", "[{dump} stored][, {bytes:b}][ in {seconds:s}][; FAILED: {error}]"},
    {"rollup", "[{ledger}: {rolled_up:n} row{rolled_up:+}][, {late:p} late][ in {seconds:s}]"},
    {"write-back", "[{sent:n} sent][, {set_aside:p} set aside][, {stolen:p} stolen][, {stale:p} "
                   "stale][, {released:p} released][; FAILED: {error}]"},
    {"condition", "{what}"},
    {"started", "version {version}, process {pid:d}"},
    {"day", "[{cause}][{dumps:n} dump{dumps:+}]"},
};

/* In UTC as the records have it, so that two machines' histories can be laid side by side. */
static void at_cell(struct buf *b, const json_t *o)
{
    char text[32];
    js_copy(o, "at", text, sizeof text);
    text[strcspn(text, ".")] = '\0';
    if (strchr(text, 'T'))
        *strchr(text, 'T') = ' ';
    text_clean(b, text, sizeof text);
}

static void what_cell(struct buf *b, const json_t *o)
{
    SCOPED(buf_free) struct buf what = {0};
    json_t *ledgers = json_object_get(o, "ledgers"), *l; /* of --rollup */
    size_t n;
    draw_fill(&what, o, js_flag(o, "verify") ? "compared" : "");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (strcmp(lines[i].kind, js_text(o, "kind")) == 0)
            draw_fill(&what, o, lines[i].as);
    json_array_foreach(ledgers, n, l)
    {
        draw_fill(&what, l, "[; {name}: {rolled_up:n} row{rolled_up:+}]");
    }
    if (ledgers)
        draw_fill(&what, o, "[; FAILED: {error}]");
    /* Of parts that are joined the first ones may be unknown. */
    buf_adds(b, what.p + strspn(what.p, ";,: "));
    if (js_number(o, "unwatched_ms", 0) > 0)
        draw_fill(b, o, " (not watched for {unwatched_ms:n} ms)");
}

void screen_history(const json_t *o)
{
    static const struct column columns[] = {{"AT (UTC)", NULL, at_cell, false},
                                            {"KIND", "{kind}", NULL, false},
                                            {"WHAT", NULL, what_cell, false}};
    /* A state that is only measured again is left out: it is in the JSON. */
    const json_t *all = json_object_get(o, "records");
    json_auto_t *list = json_array();
    json_t *each;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)all, i, each)
    {
        bool sample = strcmp(js_text(each, "kind"), "state") == 0 && !js_flag(each, "changed") &&
                      js_number(each, "unwatched_ms", 0) == 0;
        if (!sample)
            json_array_append(list, each);
    }
    if (json_array_size(list))
        DRAW_TABLE(list, columns);
    const json_t *ms = json_object_get(o, "states_ms");
    static const char *const keys[] = {"up", "suspect", "lost", "restoring", "waiting"};
    int64_t known = 0, up = js_number(ms, "up", 0);
    char t[TEXT_SHORT], u[TEXT_SHORT];
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        known += js_number(ms, keys[k], 0);
    int64_t up_thousandths = known > 0 ? up * 100000 / known : 0; /* cut: 100 % is always up */
    if (known > 0)
        printf("up %.3f %% of the %s that a supervisor watched; paused %s, not known %s\n",
               (double)up_thousandths / 1000, text_duration(known, t),
               text_duration(js_number(ms, "paused", 0), u),
               text_duration(js_number(ms, "unknown", 0), (char[TEXT_SHORT]){0}));
    else
        puts("no supervisor watched the world in this time");
}
