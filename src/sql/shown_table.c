#include "sql/shown_table.h"

#include <inttypes.h>
#include <string.h>

#include "sql/token.h"

static struct sql_text shown_text(const char *create)
{
    return (struct sql_text){.s = create, .end = create + strlen(create)};
}

/* Reads the next token and updates how many parentheses are open. Returns false at the end. */
static bool shown_next(struct sql_text *text, struct sql_token *t, unsigned *depth)
{
    enum sql_kind kind = sql_next(text, t);
    if (kind == SQL_OPEN)
        ++*depth;
    else if (kind == SQL_CLOSE && *depth > 0)
        --*depth;
    return kind != SQL_END && kind != SQL_BAD;
}

/* Reads up to the parenthesis after columns and keys. Returns false if there is none. */
static bool shown_columns_end(struct sql_text *text, struct sql_token *t)
{
    unsigned depth = 0;
    while (shown_next(text, t, &depth))
        if (t->kind == SQL_CLOSE && depth == 0)
            return true;
    return false;
}

struct sql_text shown_table_items(const char *create)
{
    struct sql_text text = shown_text(create), items = text;
    struct sql_token t;
    unsigned depth = 0;
    bool more = shown_next(&text, &t, &depth) && sql_is(&t, "CREATE");
    if (!more)
        return items;
    while (more && depth == 0)
        more = shown_next(&text, &t, &depth);
    return text;
}

bool shown_table_next(struct sql_text *items, struct shown_item *out)
{
    struct sql_token t;
    unsigned depth = 0;
    *out = (struct shown_item){.rest = items->s};
    while (sql_next(items, &t) != SQL_BAD && t.kind != SQL_END) {
        bool closes = t.kind == SQL_CLOSE && depth == 0;
        if (closes) /* columns and keys end here */
            items->s = items->end;
        if (closes || (depth == 0 && out->end && sql_is_punct(&t, ",")))
            return out->end != NULL;
        depth += t.kind == SQL_OPEN;
        depth -= t.kind == SQL_CLOSE;
        if (!out->end) {
            out->first = t;
            out->rest = t.s + t.len;
        }
        out->end = t.s + t.len;
    }
    return t.kind == SQL_END && out->end;
}

const char *shown_table_options(const char *create)
{
    struct sql_text text = shown_text(create);
    struct sql_token t;
    return shown_columns_end(&text, &t) ? t.s : NULL;
}

bool shown_table_is_versioned(const char *create)
{
    struct sql_text text = shown_text(create);
    struct sql_token t;
    unsigned depth = 0;
    if (!shown_columns_end(&text, &t))
        return false;
    while (shown_next(&text, &t, &depth)) {
        struct sql_token next = sql_peek(&text);
        if (sql_is(&t, "SYSTEM") && sql_is(&next, "VERSIONING"))
            return true;
    }
    return false;
}

bool shown_table_has_primary_key(const char *create)
{
    struct sql_text text = shown_text(create);
    struct sql_token t;
    unsigned depth = 0;
    while (shown_next(&text, &t, &depth)) {
        if (t.kind == SQL_CLOSE && depth == 0) /* the end of columns and keys */
            return false;
        struct sql_token next = sql_peek(&text);
        if (depth == 1 && sql_is(&t, "PRIMARY") && sql_is(&next, "KEY"))
            return true;
    }
    return false;
}

/* Reads "WORD = ". */
static bool shown_option(struct sql_text *text, const char *word)
{
    struct sql_token name, sign;
    sql_next(text, &name);
    sql_next(text, &sign);
    return sql_is(&name, word) && sql_is_punct(&sign, "=");
}

char *shown_table_with_counter(const char *create, uint64_t counter)
{
    struct sql_text text = shown_text(create);
    struct sql_token t;
    shown_columns_end(&text, &t);
    bool named = shown_option(&text, "ENGINE");
    sql_next(&text, &t);
    if (!named || !sql_is(&t, "MEMORY"))
        return xstrdup(create);
    const char *engine_end = t.s + t.len, *rest = engine_end;
    if (shown_option(&text, "AUTO_INCREMENT") && sql_next(&text, &t) == SQL_NUMBER)
        rest = t.s + t.len;
    struct buf b = {0};
    buf_add(&b, create, (size_t)(engine_end - create));
    if (counter > 1 && counter < UINT64_MAX)
        buf_printf(&b, " AUTO_INCREMENT=%" PRIu64, counter);
    buf_adds(&b, rest);
    return b.p;
}
