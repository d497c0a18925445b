/* Checks whether the columns of a table can take the rows of a dump, and keep their meaning. */
#include "restore/column_map.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mysql/float_scale.h"
#include "restore/plan.h"
#include "sql/literal.h"
#include "sql/shown_table.h"

void column_map_note(struct target *t, const char *columns)
{
    const char *s = columns, *end = columns + strlen(columns);
    SCOPED(buf_free) struct buf name = {0};
    while (s && s < end && *s != ')') {
        buf_clear(&name);
        s = sql_read_ident(s + 1, end, &name);
        if (!s)
            break;
        target_add_column(t, name.p);
    }
}

const struct db_column *column_map_lacks(const struct db_table *t, char *const *columns,
                                         size_t count)
{
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        bool given = c->generated || c->has_default;
        for (size_t k = 0; k < count && !given; k++)
            given = strcasecmp(columns[k], c->name) == 0;
        if (!given)
            return c;
    }
    return NULL;
}

/* Returns whether the old list of an ENUM or SET is a prefix of the new one. Their values are
 * dumped as numbers. */
static bool index_fits(const char *was, const struct db_column *now)
{
    size_t n = 0;
    bool quoted = false;
    for (; was[n] && (quoted || was[n] != ')'); n++)
        if (was[n] == '\'')
            quoted = !quoted;
    return was[n] == ')' && strncmp(was, now->type, n) == 0 &&
           (now->type[n] == ')' || now->type[n] == ',');
}

/* Returns whether a value of one type, written as a literal, means the same in the other. Within
 * each group the server converts the value, or reports that it does not fit. Between groups the
 * value can change silently, for example a binary string in a number column, or a time that gets
 * another day. */
static bool type_fits(const char *was, const char *now)
{
    static const char *const groups[][12] = {
        {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "numeric", NULL},
        {"float", "double", NULL},
        {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", NULL},
        {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", NULL},
    };
    size_t a = strcspn(was, "( ,\n"), b = strcspn(now, "( ,\n");
    if (a == b && strncasecmp(was, now, a) == 0)
        return true;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        bool from = false, to = false;
        for (const char *const *t = groups[i]; *t; t++) {
            from |= strlen(*t) == a && strncasecmp(*t, was, a) == 0;
            to |= strlen(*t) == b && strncasecmp(*t, now, b) == 0;
        }
        if (from && to)
            return i != 1 || strncasecmp(now, "double", 6) == 0; /* FLOAT would round a DOUBLE */
    }
    return false;
}

int column_map_advise(struct err *e)
{
    return err_hint(e, "change the table back, or restore with --into another schema and copy the "
                       "rows from there");
}

int column_map_check(const struct target *t, struct err *e)
{
    for (size_t i = 0; i < t->column_count; i++) {
        const char *name = t->columns[i];
        const struct db_column *c = db_column_find(t->live, name);
        const char *was = t->create ? db_float_scale_type(t->create, name) : NULL;
        if (!c || c->generated) {
            err_set(e, ERR_REFUSED, 0, "table %s no longer has column %s; its values would be lost",
                    t->name, name);
            return column_map_advise(e);
        }
        bool was_index = was && (text_starts(was, "enum(") || text_starts(was, "set("));
        bool is_index = c->encoding == DB_INDEX;
        bool fits = was_index || is_index ? was_index && is_index && index_fits(was, c)
                                          : !was || type_fits(was, c->type);
        if (fits)
            continue;
        err_set(e, ERR_REFUSED, 0,
                "column %s of table %s is now %s, which would change the meaning of its values",
                name, t->name, c->type);
        return column_map_advise(e);
    }
    const struct db_column *fresh = column_map_lacks(t->live, t->columns, t->column_count);
    return fresh ? err_set(e, ERR_REFUSED, 0, "table %s has a new column %s without a default",
                           t->name, fresh->name)
                 : 0;
}

/* MariaDB 10.5 reports the character set utf8mb3 as utf8. */
static const char *plain_charset(const char *name)
{
    return strcmp(name, "utf8") == 0 ? "utf8mb3" : name;
}

/* Copies the word after `front` in a line to `out`, or "" if `front` is not before the first
 * quote. */
static void word_after(const char *line, const char *front, char out[33])
{
    size_t len = strcspn(line, "'\n");
    const char *s = memmem(line, len, front, strlen(front));
    s = s ? s + strlen(front) : "";
    snprintf(out, 33, "%.*s", (int)strcspn(s, " ,\n"), s);
}

/* Returns whether the same bytes mean the same text in both character sets. */
static bool letters_fit(const char *dumped, const char *live)
{
    const char *was = plain_charset(dumped), *now = plain_charset(live);
    return strcmp(was, now) == 0 || strcmp(was, "ascii") == 0 ||
           (strcmp(was, "utf8mb3") == 0 && strcmp(now, "utf8mb4") == 0);
}

/* Returns whether the column is NOT NULL in this CREATE TABLE. Its type must have no quotes. */
static bool not_null(const char *create, const char *column)
{
    static const char word[] = " NOT NULL";
    const char *type = db_float_scale_type(create, column);
    return type && memmem(type, strcspn(type, "'\n"), word, sizeof word - 1);
}

int column_map_nulls(const struct target *t, const char *create, size_t len, struct err *e)
{
    SCOPED(xfree) char *text = xstrndup(create, len);
    for (size_t i = 0; i < t->live->column_count && t->now; i++) {
        const struct db_column *c = &t->live->columns[i];
        bool makes_up = c->counter || strncasecmp(c->type, "timestamp", 9) == 0;
        if (!makes_up || !db_float_scale_type(text, c->name) || not_null(text, c->name) ||
            !not_null(t->now, c->name))
            continue;
        err_set(e, ERR_REFUSED, 0,
                "column %s of table %s is now NOT NULL, and a NULL would become another value",
                c->name, t->name);
        return column_map_advise(e);
    }
    return 0;
}

int column_map_letters(const struct target *t, const char *create, size_t len, struct err *e)
{
    SCOPED(xfree) char *text = xstrndup(create, len);
    const char *options = shown_table_options(text);
    int rc = 0;
    for (size_t i = 0; i < t->live->column_count && rc == 0; i++) {
        const struct db_column *c = &t->live->columns[i];
        const char *type = db_float_scale_type(text, c->name);
        char was[33] = "";
        if (!c->charset[0] || c->generated || c->encoding == DB_INDEX || !type)
            continue;
        /* If the column's line names no character set, the default in the last line applies. */
        word_after(type, " CHARACTER SET ", was);
        if (!was[0] && options)
            word_after(options, " DEFAULT CHARSET=", was);
        if (!was[0] || letters_fit(was, c->charset))
            continue;
        err_set(e, ERR_REFUSED, 0,
                "column %s of table %s now has character set %s, but its texts are in %s", c->name,
                t->name, c->charset, was);
        rc = column_map_advise(e);
    }
    return rc;
}
