#include "cli/result_view.h"

#include "cli/screen.h"

#include <string.h>

#include "base/js.h"
#include "cli/draw.h"
#include "cli/status_view.h"

#define ROWS_IN_TABLES "{rows:n} row{rows:+}[ in {tables:p} table{tables:+}]"

/* Appends one text of a list, cleaned as in draw_text(): it comes from a server, a file or another
 * process too. */
static void result_view_add_item(struct buf *b, const json_t *text)
{
    text_clean(b, json_is_string(text) ? json_string_value(text) : "?", 4000);
}

static void show_items(const char *before, const json_t *list)
{
    SCOPED(buf_free) struct buf b = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        buf_clear(&b);
        result_view_add_item(&b, json_array_get(list, i));
        printf("%s: %s\n", before, b.p);
    }
}

static void show_warning(const json_t *o)
{
    SCOPED(buf_free) struct buf b = {0};
    if (!js_text(o, "warning")[0])
        return;
    buf_adds(&b, "  ");
    draw_coloured(&b, screen_mode.out_colour, YELLOW, "WARNING:");
    puts(draw_fill(&b, o, " {warning}"));
}

/* Shows a dump. If the shrink guard rejected it, writing it did not fail, but no restore uses
 * it. */
static void show_dump(const json_t *o)
{
    SCOPED(buf_free) struct buf b = {0};
    bool rejected = js_text(o, "rejected")[0];
    draw_fill(&b, o,
              "{name}: " ROWS_IN_TABLES
              ", {file_size:b} ({bytes:b} of SQL), {seconds:s}, method {method}");
    draw_headline(rejected ? "set aside" : "stored", rejected ? RED : GREEN, b.p);
    if (rejected)
        draw_line(o, "  {rejected}");
    const json_t *shrunk = json_object_get(o, "shrunk");
    for (size_t i = 0; i < json_array_size(shrunk) && !rejected; i++)
        draw_line(json_array_get(shrunk, i),
                  "  far fewer rows than before:[ {name}:] {rows_now:n}, and {rows:n} in {dump}");
    show_warning(o);
}

/* List */

#define DUMP_COLUMNS                                                                               \
    {"NAME", "{name}", NULL, false}, {"AGE", "{at_unix:u}", NULL, true},                           \
        {"ROWS", "{rows:?}", NULL, true}, {"SIZE", "{file_size:b}", NULL, true},                   \
        {"TOOK", "{seconds:s}", NULL, true},                                                       \
    {                                                                                              \
        "METHOD", "{method}", NULL, false                                                          \
    }

/* Shows how and when the dump was verified. Without a verification, "intact" relies on its manifest
 * only. */
static void intact_cell(struct buf *b, const json_t *d)
{
    if (js_flag(d, "intact")) {
        draw_fill(b, d, "yes[ ({proven_by}, {proven_at_unix:u} ago)][; pinned: {pinned}]");
        if (js_flag(d, "earlier_round"))
            buf_adds(b, "; of an earlier round, restored only by name");
        if (js_flag(d, "abandoned"))
            buf_adds(b, "; abandoned, restored only by name");
    } else {
        draw_coloured(b, screen_mode.out_colour, RED, "NO: ");
        draw_fill(b, d, "{reason}");
    }
}

static void rejected_cell(struct buf *b, const json_t *d)
{
    draw_fill(b, d, js_text(d, "rejected")[0] ? "{rejected}" : "{reason}");
}

static void until_cell(struct buf *b, const json_t *range)
{
    draw_fill(b, range, json_is_null(json_object_get(range, "to")) ? "now" : "{to}");
}

static void gap_cell(struct buf *b, const json_t *range)
{
    draw_fill(b, range, json_is_null(json_object_get(range, "to")) ? "" : "{gap}");
}

static void show_list(const json_t *o)
{
    static const struct column dump_columns[] = {DUMP_COLUMNS,
                                                 {"INTACT", NULL, intact_cell, false}},
                               rejected_columns[] = {DUMP_COLUMNS,
                                                     {"WHY", NULL, rejected_cell, false}},
                               ranges_columns[] = {{"FROM", "{from}", NULL, false},
                                                   {"TO", NULL, until_cell, false},
                                                   {"WHY NOT FURTHER", NULL, gap_cell, false}};
    const json_t *dumps = json_object_get(o, "dumps"), *rejected = json_object_get(o, "rejected"),
                 *journal = json_object_get(o, "journal"),
                 *ranges = json_object_get(journal, "ranges");
    SCOPED(buf_free) struct buf b = {0};
    if (json_array_size(dumps))
        DRAW_TABLE(dumps, dump_columns);
    else
        printf("no dumps yet; to take one: %s\n", draw_typed(&b, "worldkeeper --dump"));
    if (json_array_size(rejected)) {
        puts("\nrejected, never restored automatically:");
        DRAW_TABLE(rejected, rejected_columns);
    }
    bool files = strcmp(js_text(journal, "source"), "segments") == 0;
    if (json_array_size(ranges)) { /* times that --restore --at can restore */
        printf("\ntimes that --restore --at reaches, by %s:\n",
               files ? "the journal's segments" : "the server's binary log");
        DRAW_TABLE(ranges, ranges_columns);
    } else if (json_is_object(journal) && !files && !js_flag(journal, "asked")) {
        puts("\ntimes that --restore --at reaches: unknown, because the server gave no list of "
             "its binary logs");
    }
}

/* Prints one line for each item of a result, successful or not. Returns the number of successful
 * ones. */
static size_t show_each(const json_t *list, const char *flag, const char *good, const char *good_as,
                        const char *bad, const char *bad_as)
{
    size_t well = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        bool ok = js_flag(o, flag);
        SCOPED(buf_free) struct buf b = {0};
        well += ok;
        if (ok && screen_mode.quiet)
            continue;
        draw_headline(ok ? good : bad, ok ? GREEN : RED, draw_fill(&b, o, ok ? good_as : bad_as));
        draw_hint(2, js_text(o, "hint"));
    }
    return well;
}

static void show_verify(const json_t *o)
{
    const json_t *list = json_object_get(o, "dumps");
    size_t n = json_array_size(list);
    size_t whole = show_each(list, "whole", "whole  ", "{name}", "DAMAGED", "{name}: {reason}");
    if (n > 1 && (whole < n || !screen_mode.quiet))
        printf("%zu of %zu dumps are intact\n", whole, n);
}

static void show_seal(const json_t *o)
{
    const json_t *list = json_object_get(o, "dumps");
    if (json_array_size(list) == 0)
        puts("every dump has its HMAC");
    show_each(list, "whole", "sealed", "{name}", "DAMAGED", "{name}: {reason}");
}

static void show_channels(const json_t *o)
{
    static const char as[] = "{channel}: {reply}";
    show_each(json_object_get(o, "channels"), "ok", "sent  ", as, "FAILED", as);
}

/* Restore and drill */

static void plan_cell(struct buf *b, const json_t *p)
{
    draw_fill(b, p, js_flag(p, "restored") ? "restored[: {why}]" : "left[: {why}]");
    if (js_flag(p, "triggers"))
        buf_adds(b, "; its triggers are recreated");
}

/* Shows the plan. Unchanged tables are counted even without --verbose, because they matter as much
 * as the replaced ones. */
static void show_plan(const json_t *plan, bool all)
{
    static const struct column columns[] = {{"TABLE", "{table}", NULL, false},
                                            {"ROWS", "{rows:n}", NULL, true},
                                            {"WHAT", NULL, plan_cell, false}};
    size_t left = 0;
    for (size_t i = 0; i < json_array_size(plan); i++)
        left += !js_flag(json_array_get(plan, i), "restored");
    if (all && json_array_size(plan))
        DRAW_TABLE(plan, columns);
    else if (left)
        printf("  %zu table%s left unchanged (--verbose shows which and why)\n", left,
               left == 1 ? "" : "s");
}

/* Shows the dumps that the restore skipped, and why. */
static void show_skipped(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        draw_line(json_array_get(list, i), "  skipped: {dump}: {reason}");
}

static void result_view_show_journal(const json_t *journal, const char *gap_as)
{
    if (js_flag(journal, "used"))
        draw_line(journal,
                  "  journal: {changes:n} change{changes:+} since the dump[, up to {last}]");
    if (js_text(journal, "gap")[0])
        draw_line(journal, gap_as);
}

/* Shows the rows that were written into the emptied tables and are not in the restored world. */
static void show_conflict_file(const json_t *o)
{
    const json_t *tables = json_object_get(o, "conflict_tables");
    size_t n = json_array_size(tables);
    if (!js_text(o, "conflict_file")[0])
        return;
    draw_line(o, js_number(o, "conflict_rows", 0) > 0
                     ? "  {conflict_rows:n} row{conflict_rows:+} written into the emptied tables"
                       "[ since {conflict_from}][ until {conflict_to}] are not in the world; they "
                       "are kept in {conflict_file}"
                     : "  rows written into the emptied tables[ since {conflict_from}]"
                       "[ until {conflict_to}] are not in the world; they are kept in "
                       "{conflict_file}");
    for (size_t i = 0; i < n && (i < 10 || screen_mode.verbose); i++)
        draw_line(json_array_get(tables, i), "    {table}: {rows:n}");
    if (n > 10 && !screen_mode.verbose)
        printf("    and %zu more tables (--verbose names each)\n", n - 10);
    draw_hint(2, "worldkeeper --conflicts compares them with the world as it is, and can put them "
                 "back");
}

static void show_losses(const json_t *o)
{
    if (js_text(o, "lost")[0])
        draw_line(o, "  {lost}");
    show_conflict_file(o);
    show_warning(o);
    draw_hint(2, js_text(o, "hint"));
}

static void show_demoted(const json_t *o)
{
    const json_t *over = json_object_get(o, "handed_over");
    draw_headline("standby", YELLOW, "this machine no longer keeps the world");
    if (js_text(o, "conflict_file")[0])
        draw_line(o,
                  "  {conflict_rows:n} row{conflict_rows:+} of its world saved in {conflict_file}");
    if (over)
        draw_line(over, "  handed over without loss: the store has generation {generation:n} up to "
                        "its last write, at {file}:{pos:d}");
    else
        puts("  nothing was handed over: another machine continues with what the store has");
    draw_hint(2, js_text(o, "hint"));
}

static void show_restore(const json_t *o)
{
    bool dry = js_flag(o, "dry_run");
    SCOPED(buf_free) struct buf b = {0};
    draw_fill(
        &b, o,
        "{dump}[, table {only} alone][ into schema {into}][ as of {moment}]: " ROWS_IN_TABLES);
    if (!dry)
        draw_fill(&b, o, ", {seconds:s}");
    if (js_number(o, "connections", 0) > 1)
        draw_fill(&b, o, " over {connections:d} connections");
    draw_headline(dry ? "would restore" : "restored", dry ? BOLD : GREEN, b.p);
    show_skipped(json_object_get(o, "skipped"));
    const json_t *journal = json_object_get(o, "journal");
    result_view_show_journal(
        journal, js_text(o, "moment")[0]
                     ? "  the journal ends in that second; all changes before are restored: {gap}"
                 : js_flag(journal, "part") ? "  only a part of the journal is restored: {gap}"
                 : js_flag(journal, "used") ? "  the journal ends before the loss: {gap}"
                                            : "  the journal is skipped: {gap}");
    show_losses(o);
    /* A warning names the first two entries, so only longer lists are shown. Warnings do not cover
     * would_make. */
    const json_t *made = json_object_get(o, "definitions");
    static const char *const lists[][2] = {{"would_make", "would make"},
                                           {"left_out", "left out"},
                                           {"failed", "not restored"},
                                           {"own_definer", "with worldkeeper's definer"},
                                           {"may_execute", "may be executed by worldkeeper"}};
    SCOPED(buf_free) struct buf line = {0};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(made, lists[i][0]);
        size_t k;
        json_t *name;
        buf_clear(&line);
        json_array_foreach(list, k, name)
        {
            buf_adds(&line, k ? "; " : "");
            result_view_add_item(&line, name);
        }
        if (json_array_size(list) > (i ? 2 : 0))
            printf("  %s: %s\n", lists[i][1], line.p);
    }
    if (js_text(made, "enable")[0])
        draw_line(made, "  HINT: once you have read the events: {enable}");
    show_plan(json_object_get(o, "plan"), dry || screen_mode.verbose);
}

/* Shows a drill. The journal is named as in a restore, because a drill tests it as well. */
static void show_drill(const json_t *o)
{
    const json_t *live = json_object_get(o, "live");
    SCOPED(buf_free) struct buf b = {0};
    draw_fill(&b, o, "{dump}: " ROWS_IN_TABLES ", read back exactly as loaded, {seconds:s}");
    draw_headline("drill passed", GREEN, b.p);
    show_skipped(json_object_get(o, "skipped"));
    result_view_show_journal(json_object_get(o, "journal"), "  the journal is incomplete: {gap}");
    if (json_is_object(live))
        draw_line(live, "  the live world: {same:n} table{same:+} with the same rows, {moved:n} "
                        "that changed meanwhile[, {unread:p} that could not be read]");
    show_plan(json_object_get(o, "plan"), screen_mode.verbose);
}

/* --check */

static const struct {
    const char *level, *mark;
    enum colour colour;
} marks[] = {
    {"ok", "ok  ", GREEN}, {"note", "note", CYAN}, {"warn", "warn", YELLOW}, {"fail", "FAIL", RED}};

#define MARKS (sizeof marks / sizeof *marks)

/* Returns the mark of a level. An unknown level of a newer supervisor is shown as a note. */
static size_t mark_of(const json_t *c)
{
    for (size_t i = 0; i < MARKS; i++)
        if (strcmp(marks[i].level, js_text(c, "level")) == 0)
            return i;
    return 1;
}

#define GRANT_MAX                                                                                  \
    (1u << 20) /* bytes; a name has 64 characters, a list of columns thousands of names */

/* Prints the GRANTs as input for a client. Each line is a statement, or a comment that begins with
 * "-- ". */
static void show_grants(const json_t *list)
{
    SCOPED(buf_free) struct buf b = {0};
    if (json_array_size(list) == 0)
        puts("-- the account has all privileges that this config uses");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *g = json_array_get(list, i);
        for (const char *line = js_text(g, "why"); *line;) {
            size_t len = strcspn(line, "\n");
            buf_clear(&b);
            text_clean_bytes(&b, line, len, 4000);
            printf("-- %s\n", b.p);
            line += len + (line[len] != '\0');
        }
        buf_clear(&b);
        text_clean(&b, js_text(g, "statement"), GRANT_MAX);
        puts(b.p);
    }
}

static void show_check(const json_t *o)
{
    if (json_object_get(o, "grants")) {
        show_grants(json_object_get(o, "grants"));
        return;
    }
    const json_t *list = json_object_get(o, "checks");
    size_t seen[MARKS] = {0}, width = 0;
    SCOPED(buf_free) struct buf b = {0}, head = {0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        size_t w = draw_width(draw_text(&b, json_array_get(list, i), "name"));
        width = w > width ? w : width;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        size_t m = mark_of(c), indent = 4 + 2 + width + 2;
        seen[m]++;
        if (screen_mode.quiet && m <= 1)
            continue;
        buf_clear(&head);
        draw_coloured(&head, screen_mode.out_colour, marks[m].colour, marks[m].mark);
        buf_adds(&head, "  ");
        draw_padded(&head, draw_text(&b, c, "name"), width, false);
        printf("%s  ", head.p);
        draw_wrapped(draw_text(&b, c, "text"), indent, indent);
        /* A hint is never wrapped, because it may be a command to paste. */
        buf_clear(&head);
        draw_coloured(&head, screen_mode.out_colour, BOLD, "HINT:");
        if (js_text(c, "hint")[0] && (m > 0 || screen_mode.verbose))
            printf("%*s%s %s\n", (int)indent, "", head.p, draw_text(&b, c, "hint"));
    }
    if (!screen_mode.quiet)
        printf("\n%zu ok, %zu %s, %zu %s, %zu failed\n", seen[0], seen[1],
               seen[1] == 1 ? "note" : "notes", seen[2], seen[2] == 1 ? "warning" : "warnings",
               seen[3]);
}

/* Actions with short results */

/* Shows only what --init created, without what already existed. */
static void show_init(const json_t *o)
{
    draw_line(o, "sentinel {sentinel}: {did}; generation {generation:n}[; round {round:n}]");
    show_items("made", json_object_get(o, "ledgers"));
}

static void show_new_round(const json_t *o)
{
    draw_line(o, "round {round:n} has begun; its first dump: {first}");
    draw_line(
        o, "[the last dump of the round before it is kept until its file {last}.pin is removed]");
}

/* Shows the state and its reason. --pause and --resume return the whole status, but these are
 * enough. */
static void show_state(const json_t *o)
{
    draw_line(o, "{world}: {state}[, {reason}]");
}

/* Prints one line per ledger, because each has its own result. */
static void show_rollup(const json_t *o)
{
    const json_t *list = json_object_get(o, "ledgers");
    bool dry = js_flag(o, "dry_run");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *l = json_array_get(list, i);
        if (js_flag(o, "verify")) {
            if (json_object_get(l, "error")) /* there are no figures */
                draw_line(l, "{name}: FAILED: {error}");
            else
                draw_line(
                    l, "{name}: {rolled_up:n} row{rolled_up:+} of {keys:n} key{keys:+} in totals, "
                       "{file_rows:n} in "
                       "{files:n} file{files:+}[ ({fetched:p} of them fetched from the store)], "
                       "{rows:n} in the ledger");
            show_items("  WRONG", json_object_get(l, "problems"));
            show_items("  not known", json_object_get(l, "unknown"));
        } else if (js_flag(l, "ok"))
            draw_line(
                l,
                dry ? "{name}: {rolled_up:n} row{rolled_up:+} would be added to totals"
                    : "{name}: {rolled_up:n} row{rolled_up:+} added to totals, {rows:n} left, "
                      "{keys:n} key{keys:+}[, {late:p} late][, {ignored:p} ignored: in no total]");
        else
            draw_line(l, "{name}: FAILED: {error}");
    }
}

/* Shows a write-back. Figures of 0 are left out because they would hide the important ones. */
static void show_write_back(const json_t *o)
{
    draw_line(o, "{sent:n} blob{sent:+} sent[, {stolen:p} stolen][, {stale:p} stale][ ({first})][, "
                 "{released:p} lock{released:+} released]");
}

/* Lists the locks with the time since each holder was last seen. It shows whether the game server
 * is dead, so that the lock may be released. */
static void show_locks(const json_t *o)
{
    const json_t *list = json_object_get(o, "locks");
    for (size_t i = 0; i < json_array_size(list); i++)
        draw_line(json_array_get(list, i),
                  "{lock_key}: {lock_id}, for {held_seconds:s}[, wanted for {wanted_seconds:s}][, "
                  "last seen {unseen_seconds:s} ago]");
    if (json_array_size(list) == 0)
        puts("no lock is held");
}

/* --conflicts */

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

/* Appends a number. Keys that exceed the range of JSON numbers come as strings. */
static void add_number(struct buf *b, const json_t *n)
{
    if (json_is_string(n))
        text_clean(b, json_string_value(n), 40);
    else
        buf_printf(b, "%lld", (long long)json_integer_value(n));
}

static void show_conflicts(const json_t *o)
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
                      "worldkeeper --conflicts=FILE --apply --dry-run shows what would be "
                      "inserted; with --renumber also rows whose key is taken, under new numbers");
        return;
    }
    draw_line(o, js_flag(o, "dry_run")
                     ? "dry run: {inserted:?} row{inserted:+} inserted into the world from {file}"
                     : "{inserted:?} row{inserted:+} inserted into the world from {file}");
    const json_t *tables = json_object_get(o, "tables");
    if (json_array_size(tables))
        DRAW_TABLE(tables, columns);
    /* Lists the new numbers of rows whose key was already in use. */
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
        draw_line(o, "new numbers of inserted rows: {numbers_file}");
}

/* --history */

/* The parts of a record that are shown beside its kind. Text in [...] is shown only if it is
 * known. */
static const struct {
    const char *kind, *as;
} records[] = {
    {"state", "{state}[: {cause}][: {reason}]"},
    {"loss", "{reason}"},
    {"restore",
     "[{dump}][ from {from}][, only {only}][: {rows:n} rows][ in {seconds:s}][; down for "
     "{outage_seconds:s}][; {lost}][; as the dump defines it: {as_dumped}, see "
     "{as_dumped_file}][; FAILED: {error}]"},
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

static void what_cell(struct buf *b, const json_t *record)
{
    SCOPED(buf_free) struct buf what = {0};
    json_auto_t *o = json_copy((json_t *)(uintptr_t)record);
    if (js_text(o, "error")[0]) /* how long it took to fail tells nobody anything */
        json_object_del(o, "seconds");
    json_t *ledgers = json_object_get(o, "ledgers"), *l; /* only --rollup has them */
    size_t n;
    draw_fill(&what, o, js_flag(o, "verify") ? "compared" : "");
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (strcmp(records[i].kind, js_text(o, "kind")) == 0)
            draw_fill(&what, o, records[i].as);
    json_array_foreach(ledgers, n, l)
    {
        draw_fill(&what, l, "[; {name}: {rolled_up:n} row{rolled_up:+}]");
    }
    if (ledgers)
        draw_fill(&what, o, "[; FAILED: {error}]");
    /* The first of the joined parts may be unknown, so leading separators are skipped. */
    buf_adds(b, what.p + strspn(what.p, ";,: "));
    if (js_number(o, "unwatched_ms", 0) > 0)
        draw_fill(b, o, " (not watched for {unwatched_ms:n} ms)");
}

/* 300 years: no period is longer, and the percentage of a time up to this does not overflow. */
#define PERIOD_MS_MOST INT64_C(10000000000000)

static int64_t period_ms(const json_t *ms, const char *state)
{
    return js_within(ms, state, 0, PERIOD_MS_MOST, 0);
}

static void show_history(const json_t *o)
{
    static const struct column columns[] = {{"AT", "{at:t}", NULL, false},
                                            {"KIND", "{kind}", NULL, false},
                                            {"WHAT", NULL, what_cell, false}};
    /* A state that is only measured again is left out here; the JSON has it. */
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
    int64_t known = 0, up = period_ms(ms, "up");
    char t[TEXT_SHORT], u[TEXT_SHORT];
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        known += period_ms(ms, keys[k]);
    int64_t up_thousandths = known > 0 ? up * 100000 / known : 0; /* cut: 100 % is always up */
    if (known > 0)
        printf(
            "up %.3f %% of the %s that a supervisor watched; not watched for %s, paused for %s\n",
            (double)up_thousandths / 1000, text_duration(known, t),
            text_duration(period_ms(ms, "unknown"), u),
            text_duration(period_ms(ms, "paused"), (char[TEXT_SHORT]){0}));
    else
        puts("no supervisor watched the world in this period");
}

/* Shows the scalar fields of a result that has no function of its own. */
static void show_fields(const json_t *o)
{
    const char *key;
    json_t *v, *same = json_deep_copy(o);
    json_object_foreach(same, key, v)
    {
        SCOPED(buf_free) struct buf name = {0}, value = {0};
        text_clean(&name, key, 100);
        if (json_is_string(v))
            text_clean(&value, json_string_value(v), 1000);
        else if (json_is_number(v))
            buf_printf(&value, "%.10g", json_number_value(v));
        else if (json_is_boolean(v))
            buf_adds(&value, json_is_true(v) ? "yes" : "no");
        if (value.p)
            printf("%s: %s\n", name.p, value.p);
    }
    json_decref(same);
}

/* Results that are missing here are shown by show_fields(). */
static void (*const shows[ACTIONS])(const json_t *result) = {
    [ACTION_CHECK] = show_check,
    [ACTION_INIT] = show_init,
    [ACTION_NEW_ROUND] = show_new_round,
    [ACTION_DUMP] = show_dump,
    [ACTION_LIST] = show_list,
    [ACTION_VERIFY] = show_verify,
    [ACTION_DRILL] = show_drill,
    [ACTION_RESTORE] = show_restore,
    [ACTION_PROMOTE] = show_restore,
    [ACTION_DEMOTE] = show_demoted,
    [ACTION_SWITCH_OVER] = show_demoted,
    [ACTION_CONFLICTS] = show_conflicts,
    [ACTION_ROLLUP] = show_rollup,
    [ACTION_HISTORY] = show_history,
    [ACTION_WRITE_BACK] = show_write_back,
    [ACTION_LOCKS] = show_locks,
    [ACTION_SEAL] = show_seal,
    [ACTION_STATUS] = screen_status,
    [ACTION_PAUSE] = show_state,
    [ACTION_RESUME] = show_state,
    [ACTION_TEST_ALERT] = show_channels,
};

void screen_result(enum action action, const json_t *result)
{
    screen_done();
    if (json_is_object(result) && (!screen_mode.quiet || action_is(action, ACTION_SHOWN_QUIET)))
        (shows[action] ? shows[action] : show_fields)(result);
    fflush(stdout);
}
