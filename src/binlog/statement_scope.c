#include "binlog/statement_scope.h"

#include <stdio.h>
#include <string.h>

#include "binlog/statement_int.h"
#include "binlog/statement_words.h"
#include "mysql/sentinel.h"

/* Returns whether a masked statement contains a version comment. Names in backticks are skipped,
 * because they may look like one. */
static bool has_version_comment(const struct buf *masked)
{
    for (const char *s = masked->p, *end = s + masked->len; s && s < end; s++) {
        size_t left = (size_t)(end - s);
        if (*s == '`')
            s = memchr(s + 1, '`', left - 1);
        else if ((left >= 3 && memcmp(s, "/*!", 3) == 0) ||
                 (left >= 4 && memcmp(s, "/*M!", 4) == 0))
            return true;
        if (!s)
            return true; /* an unterminated name may hide anything */
    }
    return false;
}

/* Returns whether the statement can be read reliably. What servers execute or skip must not
 * depend on their version, and no quote may hide a word. */
static bool is_plain(const char *sql, size_t len, struct buf *masked)
{
    if (!text_utf8_valid(sql, len))
        return false;
    words_mask(sql, len, false, masked);
    return !has_version_comment(masked) && !memchr(masked->p, '\\', masked->len) &&
           !memchr(masked->p, '"', masked->len);
}

static void skip_ahead(struct words *w, const char *list)
{
    struct words ahead = *w;
    while (words_next(&ahead) && words_any(&ahead, list))
        *w = ahead;
}

static bool take_name(const struct statement_world *world, struct words *w, const char *from,
                      enum scope_deed deed, struct statement_scope *out)
{
    const struct db_table *t;
    bool ours;
    if (!statement_read_name(world, w, from, &t, &ours))
        return false;
    if (!ours)
        return true;
    if (out->count == STATEMENT_SCOPE_TABLES || strlen(w->word) >= sizeof out->tables[0].name ||
        strncmp(w->word, DB_OWN_PREFIX, strlen(DB_OWN_PREFIX)) == 0 ||
        db_sentinel_own(world->sentinel, t ? t->name : w->word))
        return false;
    struct scope_table *s = &out->tables[out->count++];
    *s = (struct scope_table){.table = t, .deed = deed};
    snprintf(s->name, sizeof s->name, "%s", t ? t->name : w->word);
    return true;
}

/* Reads the rest of an ALTER TABLE. It may contain a new name or another table with which rows
 * are exchanged. */
static bool read_clauses(const struct statement_world *world, struct words *w, const char *from,
                         struct statement_scope *out)
{
    size_t altered = out->count;
    while (words_next(w)) {
        if (words_any(w, "TABLE EXCHANGE SELECT"))
            return false;
        out->engine |= words_is(w, "ENGINE");
        struct words ahead = *w;
        if (!words_is(w, "RENAME") || words_next_any(&ahead, "COLUMN INDEX KEY"))
            continue;
        skip_ahead(w, "TO AS =");
        if (altered)
            out->tables[altered - 1].deed = SCOPE_DROPPED;
        if (!take_name(world, w, from, SCOPE_ARRIVED, out))
            return false;
    }
    return true;
}

static bool read_alter(const struct statement_world *world, struct words *w, const char *from,
                       struct statement_scope *out)
{
    skip_ahead(w, "ONLINE IGNORE");
    if (!words_next_any(w, "TABLE"))
        return false;
    skip_ahead(w, "IF EXISTS");
    return take_name(world, w, from, SCOPE_ALTERED, out) && read_clauses(world, w, from, out);
}

/* Reads CREATE TABLE. A query is not accepted, because it adds rows and may call something that
 * writes. LIKE copies only a definition. */
static bool read_create(const struct statement_world *world, struct words *w, const char *from,
                        struct statement_scope *out)
{
    skip_ahead(w, "OR REPLACE");
    if (!words_next_any(w, "TABLE"))
        return false;
    struct words name = *w;
    skip_ahead(w, "IF NOT EXISTS");
    out->may_exist = w->s != name.s;
    if (!take_name(world, w, from, SCOPE_CREATED, out))
        return false;
    while (words_next(w))
        if (words_any(w, "TABLE SELECT VALUES WITH UNION EXCEPT INTERSECT"))
            return false;
    return true;
}

static bool read_drop(const struct statement_world *world, struct words *w, const char *from,
                      struct statement_scope *out)
{
    if (!words_next_any(w, "TABLE TABLES"))
        return false;
    skip_ahead(w, "IF EXISTS");
    bool more;
    do {
        if (!take_name(world, w, from, SCOPE_DROPPED, out))
            return false;
        more = words_next(w);
    } while (more && words_is(w, ","));
    return !more || words_any(w, "RESTRICT CASCADE WAIT NOWAIT ;");
}

static bool read_rename(const struct statement_world *world, struct words *w, const char *from,
                        struct statement_scope *out)
{
    if (!words_next_any(w, "TABLE TABLES"))
        return false;
    skip_ahead(w, "IF EXISTS");
    bool more;
    do {
        if (!take_name(world, w, from, SCOPE_DROPPED, out))
            return false;
        while ((more = words_next(w)) && !words_is(w, "TO") && !words_is(w, ","))
            ;
        if (!more || !words_is(w, "TO") || !take_name(world, w, from, SCOPE_ARRIVED, out))
            return false;
        more = words_next(w);
    } while (more && words_is(w, ","));
    return !more || words_is(w, ";");
}

bool statement_scope(const struct statement_world *world, const char *from, const char *sql,
                     size_t len, struct statement_scope *out)
{
    SCOPED(buf_free) struct buf names = {0};
    *out = (struct statement_scope){0};
    if (!is_plain(sql, len, &names))
        return false;
    struct words w = {.s = names.p, .end = names.p + names.len};
    if (!words_next(&w))
        return false;
    bool certain = words_is(&w, "ALTER")    ? read_alter(world, &w, from, out)
                   : words_is(&w, "CREATE") ? read_create(world, &w, from, out)
                   : words_is(&w, "DROP")   ? read_drop(world, &w, from, out)
                   : words_is(&w, "RENAME") ? read_rename(world, &w, from, out)
                                            : false;
    return certain && out->count > 0;
}
