#include "mysql/float_scale.h"

#include <string.h>

#include "sql/literal.h"
#include "sql/shown_table.h"

const char *db_float_scale_type(const char *create, const char *column)
{
    SCOPED(buf_free) struct buf line = {0};
    buf_adds(&line, "\n  ");
    sql_ident(&line, column);
    buf_addc(&line, ' ');
    const char *at = strstr(create, line.p);
    const char *type = at ? at + line.len : NULL;
    return type;
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

/* Adds a column's line without its trailing comma and without the text between `from` and `to`. */
static void add_modify(struct buf *b, const char *column, const char *type, const char *from,
                       const char *to)
{
    const char *end = type + strcspn(type, "\n");
    end -= end > to && end[-1] == ',';
    buf_adds(b, b->len ? ", MODIFY " : " MODIFY ");
    sql_ident(b, column);
    buf_addc(b, ' ');
    buf_add(b, type, (size_t)(from - type));
    buf_add(b, to, (size_t)(end - to));
}

void db_float_scale(const struct db_table *t, const char *create, const char *then, struct buf *off,
                    struct buf *on)
{
    if (shown_table_is_versioned(create)) /* it refuses an ALTER outside of its history */
        return;
    for (size_t i = 0; i < t->column_count; i++) {
        if (!has_digits(&t->columns[i]))
            continue;
        const char *name = t->columns[i].name, *type = db_float_scale_type(create, name);
        const char *digits = digits_of(type);
        if (!digits || !is_real(db_float_scale_type(then, name)))
            continue;
        add_modify(off, name, type, digits, strchr(digits, ')') + 1);
        add_modify(on, name, type, digits, digits);
    }
}
