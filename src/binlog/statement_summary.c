#include "binlog/statement_summary.h"

#include <ctype.h>
#include <string.h>

#include "binlog/statement_int.h"
#include "binlog/statement_words.h"
#include "mysql/sentinel.h"

/* ---- effects on whole tables ---- */

/* Reads a table's name. Tables outside the world, the sentinel and its lease are skipped.
 * Returns false if the table cannot be determined. */
static bool statement_summary_read_table(const struct statement_world *world, struct words *w,
                                         const char *from, struct statement_summary *out)
{
    const struct db_table *t;
    struct words ahead = *w;
    /* skips words between the verb and the name */
    while (words_next(&ahead) && words_any(&ahead, "IF NOT EXISTS ONLINE OFFLINE IGNORE"))
        *w = ahead;
    if (!statement_read_table(world, w, from, &t))
        return false;
    if (!t || db_sentinel_own(world->sentinel, t->name))
        return true;
    if (out->count < STATEMENT_DEED_TABLES)
        out->tables[out->count] = t;
    out->count++;
    return true;
}

/* Returns the verb for the message, or NULL if the statement does not affect whole tables. *list
 * is true if it may name several tables. */
static const char *read_verb(struct words *w, bool *list)
{
    if (!words_next(w))
        return NULL;
    bool drop = words_is(w, "DROP"), create = words_is(w, "CREATE"), rename = words_is(w, "RENAME"),
         alter = words_is(w, "ALTER"), replace = false;
    bool more = words_next(w);
    while (more && words_any(w, "OR REPLACE ONLINE OFFLINE IGNORE UNIQUE SPATIAL FULLTEXT")) {
        replace |= words_is(w, "REPLACE");
        more = words_next(w);
    }
    *list = drop || rename;
    if (more && words_any(w, "TABLE TABLES"))
        return drop      ? "dropped"
               : rename  ? "renamed"
               : alter   ? "altered"
               : replace ? "replaced"
                         : NULL;
    return more && (drop || create) && words_is(w, "INDEX") ? "altered" : NULL;
}

/* Returns true for DROP DATABASE of the world's own schema. */
static bool statement_summary_drops_schema(const struct statement_world *world, const char *sql,
                                           size_t len)
{
    struct words w = {.s = sql, .end = sql + len};
    if (!words_next_any(&w, "DROP") || !words_next_any(&w, "DATABASE SCHEMA") || !words_next(&w))
        return false;
    if (!w.quoted && words_is(&w, "IF") && (!words_next_any(&w, "EXISTS") || !words_next(&w)))
        return false;
    return strcmp(w.word, world->schema) == 0;
}

bool statement_summary(const struct statement_world *world, const char *from, const char *sql,
                       size_t len, struct statement_summary *out)
{
    struct words w = {.s = sql, .end = sql + len};
    bool list = false, more = true;
    *out = (struct statement_summary){.verb = read_verb(&w, &list)};
    if (!out->verb) {
        out->schema = statement_summary_drops_schema(world, sql, len);
        out->verb = out->schema ? "dropped" : NULL;
        return out->schema;
    }
    if (words_is(&w, "INDEX")) { /* the table follows ON */
        list = false;
        while ((more = words_next(&w)) && !words_is(&w, "ON"))
            ;
    }
    /* "a, b" or "a TO b, c TO d": a name after TO is a new name and is skipped */
    while (more && statement_summary_read_table(world, &w, from, out) && list) {
        while ((more = words_next(&w)) && !words_is(&w, ","))
            ;
    }
    return out->count > 0;
}

/* ---- shortened text of a statement ---- */

/* Returns whether the shortened text continues. A definition loses only its literals. Other
 * statements may contain row data and accounts anywhere. */
static bool brief_goes_on(const struct words *w, bool definition)
{
    if (w->quoted || words_any(w, ". ,"))
        return true;
    if (words_any(w, "SELECT VALUES VALUE SET WHERE AS DO BEGIN WITH"))
        return false;
    return definition || (words_name(w) && !isdigit((unsigned char)w->word[0]));
}

/* Returns whether this is a definition of anything except accounts and servers. */
static bool statement_summary_defines(struct words w)
{
    bool tables = words_any(&w, "CREATE ALTER DROP RENAME TRUNCATE OPTIMIZE REPAIR");
    for (int i = 0; tables && i < 3 && words_next(&w); i++)
        tables = !words_any(&w, "USER ROLE SERVER");
    return tables;
}

void statement_brief(const char *sql, size_t len, char *out, size_t room)
{
    SCOPED(buf_free) struct buf b = {0};
    struct words w = {.s = sql, .end = sql + len, .through = true};
    bool definition = false, left_out = false;
    for (const char *blank = sql; b.len < room && words_next(&w); blank = w.s) {
        const char *at = words_skip_edges(blank, w.end), *after = w.s;
        bool first = b.len == 0, text = !w.quoted && strchr("'\"", w.word[0]);
        if (first)
            definition = statement_summary_defines(w);
        if (text)
            after = definition ? words_skip_text(at, w.end) : NULL;
        left_out = text ? !after : !first && !brief_goes_on(&w, definition);
        if (left_out)
            break;
        buf_adds(&b, at > blank && !first ? " " : "");
        buf_add(&b, text ? "?" : at, text ? 1 : (size_t)(after - at));
        w.s = after;
    }
    const char *brief = b.len ? b.p : "";
    size_t n = b.len < room ? b.len : room - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)brief[i] < ' ' ? ' ' : brief[i];
    out[n] = '\0';
    if ((n < b.len || left_out) && room > 4)
        memcpy(out + (n + 4 < room ? n : room - 4), "...", 4);
}
