/* Terminal output of --conflicts. */

#include "base/js.h"
#include "cli/draw.h"

static void show_file(const json_t *o)
{
    static const struct column columns[] = {
        {"TABLE", "{table}", NULL, false},      {"ROWS", "{rows:?}", NULL, true},
        {"NEW", "{new:?}", NULL, true},         {"EQUAL", "{equal:?}", NULL, true},
        {"KEY TAKEN", "{taken:?}", NULL, true}, {"", "{why}", NULL, false}};
    SCOPED(buf_free) struct buf b = {0};
    if (js_text(o, "why")[0]) {
        draw_line(o, "{file}: {why}");
        return;
    }
    draw_fill(&b, o, "{file}: {rows:?} row{rows:+}[, written from {from}][ until {to}]");
    if (!js_flag(o, "proven"))
        buf_adds(&b, " (of an earlier version, which may have written a further file for the same "
                     "restore)");
    puts(b.p);
    const json_t *tables = json_object_get(o, "tables"); /* with why rows are left out */
    if (json_array_size(tables))
        DRAW_TABLE(tables, columns);
}

/* Keys may be larger than JSON's numbers: those come as strings. */
static void add_number(struct buf *b, const json_t *n)
{
    if (json_is_string(n))
        text_clean(b, json_string_value(n), 40);
    else
        buf_printf(b, "%lld", (long long)json_integer_value(n));
}

void screen_conflicts(const json_t *o)
{
    static const struct column columns[] = {{"TABLE", "{table}", NULL, false},
                                            {"ROWS", "{rows:?}", NULL, true},
                                            {"EQUAL", "{equal:?}", NULL, true},
                                            {"PUT IN", "{inserted:?}", NULL, true},
                                            {"RENUMBERED", "{renumbered:?}", NULL, true},
                                            {"LEFT OUT", "{left:?}", NULL, true},
                                            {"", "{why}", NULL, false}};
    if (json_object_get(o, "files")) {
        const json_t *files = json_object_get(o, "files");
        size_t n = json_array_size(files);
        for (size_t i = 0; i < n; i++)
            show_file(json_array_get(files, i));
        if (n == 0)
            puts("no files of rows that a restore replaced");
        else if (!js_flag(o, "compared"))
            draw_line(o, "not compared with the world: {why}");
        draw_hint(0, js_text(o, "hint"));
        if (n && js_flag(o, "compared"))
            draw_hint(0,
                      "worldkeeper --conflicts=FILE --apply --dry-run says what would be put in; "
                      "with --renumber also rows whose key is taken, under new numbers");
        return;
    }
    draw_line(o, js_flag(o, "dry_run")
                     ? "dry run: {inserted:?} row{inserted:+} put into the world from {file}"
                     : "{inserted:?} row{inserted:+} put into the world from {file}");
    const json_t *tables = json_object_get(o, "tables");
    if (json_array_size(tables))
        DRAW_TABLE(tables, columns);
    /* The new numbers of rows whose key was taken. */
    for (size_t i = 0; i < json_array_size(tables); i++) {
        const json_t *t = json_array_get(tables, i), *pairs = json_object_get(t, "numbers");
        for (size_t k = 0; k < json_array_size(pairs); k++) {
            const json_t *p = json_array_get(pairs, k);
            SCOPED(buf_free) struct buf b = {0};
            draw_fill(&b, t, "  {table}: ");
            add_number(&b, json_array_get(p, 0));
            buf_adds(&b, " -> ");
            add_number(&b, json_array_get(p, 1));
            puts(b.p);
        }
        if (js_number(t, "renumbered", 0) > (int64_t)json_array_size(pairs))
            draw_line(t, "  {table}: and more");
    }
    if (js_text(o, "numbers_file")[0])
        draw_line(o, "numbers of what was put in: {numbers_file}");
}
