#include "mysql/rows.h"

#include <stdlib.h>

#include "base/text.h"
#include "mysql/binary.h"
#include "mysql/only_table.h"
#include "mysql/value.h"
#include "sql/literal.h"

void db_column_list(struct buf *b, const struct db_table *t)
{
    const char *comma = "";
    for (size_t i = 0; i < t->column_count; i++) {
        if (t->columns[i].generated)
            continue;
        buf_adds(b, comma);
        sql_ident(b, t->columns[i].name);
        comma = ",";
    }
}

/* Returns the type that a column is cast to, or NULL. VECTOR is cast because not every client
 * library supports it. */
static const char *cast_of(const struct db_column *c)
{
    if (c->encoding == DB_DOUBLE)
        return "DOUBLE";
    if (c->encoding == DB_INDEX)
        return "UNSIGNED";
    return text_starts(c->type, "vector(") ? "BINARY" : NULL;
}

void db_select_list(struct buf *b, const struct db_table *t)
{
    const char *before = "";
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->generated)
            continue;
        const char *as = cast_of(c);
        buf_adds(b, before);
        buf_adds(b, as ? "CAST(" : "");
        sql_ident(b, c->name);
        if (as)
            buf_printf(b, " AS %s)", as);
        before = ",";
    }
}

static char *select_sql(const struct db_table *t, const char *from)
{
    struct buf sql = {0};
    buf_adds(&sql, "SELECT /* worldkeeper */ ");
    db_select_list(&sql, t);
    buf_printf(&sql, " FROM %s " DB_ONLY_TABLE, from);
    return sql.p;
}

/* Returns the fields of the statement of select_sql(): *n fields for the columns that are not
 * generated. */
static struct db_binary_field *fields_of(const struct db_table *t, unsigned *n)
{
    struct db_binary_field *fields = xcalloc(t->column_count, sizeof *fields);
    *n = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].generated)
            fields[(*n)++].encoding = t->columns[i].encoding;
    return fields;
}

int db_text_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e)
{
    unsigned n;
    SCOPED(xfree) struct db_binary_field *fields = fields_of(t, &n);
    SCOPED(xfree) char *sql = select_sql(t, from);
    SCOPED(buf_free) struct buf tuple = {0};
    int rc;
    *rows = 0;
    struct db_rows *r = db_select_bytes(db, n, sql, e);
    while ((rc = db_next(r, e)) == 1) {
        const unsigned long *lengths;
        char **row = db_row(r, &lengths);
        size_t room = 4;
        for (unsigned i = 0; i < n && rc == 1; i++) {
            room += 2 * lengths[i] + DB_VALUE_ROOM;
            if (row[i] && !db_value_is(fields[i].encoding, row[i], lengths[i]))
                rc = db_invalid(db, e, "column %u of a row is not a value of its type", i + 1);
        }
        if (rc < 0)
            break;
        /* Replaces the contents of `tuple` with "(…)" of one row. This runs for each row of a
         * world. */
        buf_clear(&tuple);
        buf_reserve(&tuple, room);
        char *o = tuple.p;
        for (unsigned i = 0; i < n; i++) {
            *o++ = i ? ',' : '(';
            o = db_put_value(o, fields[i].encoding, row[i], lengths[i]);
        }
        *o++ = ')';
        *o = '\0';
        tuple.len = (size_t)(o - tuple.p);
        rc = fn(arg, tuple.p, tuple.len, e);
        if (rc < 0)
            break;
        ++*rows;
    }
    db_rows_end(r); /* also reads and drops the remaining rows */
    return rc;
}

int db_read_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e)
{
    unsigned n;
    SCOPED(xfree) struct db_binary_field *fields = fields_of(t, &n);
    SCOPED(xfree) char *sql = select_sql(t, from);
    struct err why = {0};
    SCOPED(buf_free) struct buf tuple = {0};
    int rc = -1;
    *rows = 0;
    struct db_binary *b = db_binary_open(db, sql, false, fields, n, &why);
    if (b) {
        rc = db_binary_run(b, 0, false, e);
        while (rc == 0 && (rc = db_binary_next(b, &tuple, e)) == 1) {
            rc = fn(arg, tuple.p, tuple.len, e);
            *rows += rc == 0;
        }
    } else if (why.cls == ERR_QUERY) { /* the server does not support preparing this statement */
        rc = db_text_rows(db, t, from, fn, arg, rows, e);
    } else {
        err_pass(e, &why);
    }
    db_binary_close(b);
    return rc;
}

static int rows_add_hash(void *arg, const char *tuple, size_t len, struct err *e)
{
    (void)e;
    *(uint64_t *)arg += sql_tuple_hash(tuple, len);
    return 0;
}

int db_hash_rows(struct db *db, const struct db_table *t, const char *table, uint64_t *rows,
                 uint64_t *hash, struct err *e)
{
    SCOPED(buf_free) struct buf from = {0};
    sql_ident(&from, table);
    *hash = 0;
    return db_read_rows(db, t, from.p, rows_add_hash, hash, rows, e);
}
