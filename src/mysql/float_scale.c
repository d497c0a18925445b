#include "mysql/float_scale.h"

#include <string.h>

#include "sql/literal.h"
#include "sql/shown_table.h"

/* Finds a column's type: the text from `from` to `to`, with all that follows in its definition.
 * Both are NULL if there is no such column. */
struct found_type {
    const char *from, *to;
};
static struct found_type find_type(const char *create, const char *column)
{
    struct sql_text items = shown_table_items(create);
    struct shown_item i;
    SCOPED(buf_free) struct buf name = {0};
    while (shown_table_next(&items, &i)) {
        buf_clear(&name);
        if (i.first.kind == SQL_NAME && sql_token_name(&i.first, &name) &&
            strcmp(name.p, column) == 0)
            return (struct found_type){i.rest + strspn(i.rest, " "), i.end};
    }
    return (struct found_type){NULL, NULL};
}

const char *db_float_scale_type(const char *create, const char *column)
{
    return find_type(create, column).from;
}

static bool is_real(const char *type)
{
    return type && (text_starts(type, "float") || text_starts(type, "double"));
}

/* Returns "(7,3)" after FLOAT or DOUBLE, or NULL. */
static const char *digits_of(const char *type)
{
    const char *open = is_real(type) ? type + strcspn(type, "( ,\n") : "";
    return *open == '(' && strchr(open, ')') ? open : NULL;
}

/* Returns whether a column has (M,D). Generated columns are ignored: they are not written, and
 * are rounded when they are computed. */
static bool has_digits(const struct db_column *c)
{
    return !c->generated && digits_of(c->type);
}

bool db_float_scale_any(const struct db_table *t)
{
    bool any = false;
    for (size_t i = 0; i < t->column_count; i++)
        any |= has_digits(&t->columns[i]);
    return any;
}

/* Adds a column's definition without the text between `from` and `to`. */
static void add_modify(struct buf *b, const char *column, struct found_type type, const char *from,
                       const char *to)
{
    buf_adds(b, b->len ? ", MODIFY " : " MODIFY ");
    sql_ident(b, column);
    buf_addc(b, ' ');
    buf_add(b, type.from, (size_t)(from - type.from));
    buf_add(b, to, (size_t)(type.to - to));
}

void db_float_scale(const struct db_table *t, const char *create, const char *then, struct buf *off,
                    struct buf *on)
{
    if (shown_table_is_versioned(create)) /* it refuses an ALTER outside of its history */
        return;
    for (size_t i = 0; i < t->column_count; i++) {
        if (!has_digits(&t->columns[i]))
            continue;
        const char *name = t->columns[i].name;
        struct found_type type = find_type(create, name);
        const char *digits = digits_of(type.from);
        if (!digits || !is_real(db_float_scale_type(then, name)))
            continue;
        add_modify(off, name, type, digits, strchr(digits, ')') + 1);
        add_modify(on, name, type, digits, digits);
    }
}
