#include "db/rows.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "db/binary.h"
#include "db/sql.h"
#include "db/value.h"

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

/* What a column is read as; NULL: as it is. Not every client library knows the type VECTOR. */
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
    const char *comma = "";
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->generated)
            continue;
        buf_adds(b, comma);
        comma = ",";
        const char *as = cast_of(c);
        if (as)
            buf_adds(b, "CAST(");
        sql_ident(b, c->name);
        if (as)
            buf_printf(b, " AS %s)", as);
    }
}

/* "(…)" of one row, in place of what is in `tuple`. This runs for each row of a world. */
static void make_tuple(struct buf *tuple, const enum db_encoding *enc, unsigned n, char **row,
                       const unsigned long *lengths)
{
    size_t room = 4;
    for (unsigned i = 0; i < n; i++)
        room += 2 * lengths[i] + DB_VALUE_ROOM;
    buf_clear(tuple);
    buf_reserve(tuple, room);
    char *o = tuple->p;
    for (unsigned i = 0; i < n; i++) {
        *o++ = i ? ',' : '(';
        o = db_put_value(o, enc[i], row[i], lengths[i]);
    }
    *o++ = ')';
    *o = '\0';
    tuple->len = (size_t)(o - tuple->p);
}

static char *select_sql(const struct db_table *t, const char *from)
{
    struct buf sql = {0};
    buf_adds(&sql, "SELECT /* worldkeeper */ ");
    db_select_list(&sql, t);
    buf_printf(&sql, " FROM %s", from);
    return sql.p;
}

static int each_text(struct db_rows *r, const enum db_encoding *enc, db_tuple_fn *fn, void *arg,
                     uint64_t *rows, struct err *e)
{
    struct buf tuple = {0};
    unsigned n = db_fields(r);
    int got;
    while ((got = db_next(r, e)) == 1) {
        const unsigned long *lengths;
        char **row = db_row(r, &lengths);
        make_tuple(&tuple, enc, n, row, lengths);
        if (fn(arg, tuple.p, tuple.len, e) < 0) {
            got = -1;
            break;
        }
        ++*rows;
    }
    buf_free(&tuple);
    return got;
}

int db_text_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e)
{
    enum db_encoding *enc = xcalloc(t->column_count, sizeof *enc);
    char *sql = select_sql(t, from);
    size_t n = 0;
    int rc = -1;
    *rows = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].generated)
            enc[n++] = t->columns[i].encoding;
    struct db_rows *r = db_select(db, sql, e);
    if (r) {
        rc = each_text(r, enc, fn, arg, rows, e);
        db_rows_end(r); /* reads and drops what is left */
    }
    free(sql);
    free(enc);
    return rc;
}

static int each_binary(struct db_binary *b, db_tuple_fn *fn, void *arg, uint64_t *rows,
                       struct err *e)
{
    struct buf tuple = {0};
    int rc = db_binary_run(b, 0, false, e);
    while (rc == 0 && (rc = db_binary_next(b, &tuple, e)) == 1) {
        rc = fn(arg, tuple.p, tuple.len, e);
        *rows += rc == 0;
    }
    buf_free(&tuple);
    return rc;
}

int db_read_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e)
{
    struct db_binary_field *fields = xcalloc(t->column_count, sizeof *fields);
    char *sql = select_sql(t, from);
    struct err why = {0};
    size_t n = 0;
    int rc = -1;
    *rows = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].generated)
            fields[n++].encoding = t->columns[i].encoding;
    struct db_binary *b = db_binary_open(db, sql, fields, n, &why);
    if (b)
        rc = each_binary(b, fn, arg, rows, e);
    else if (why.cls == ERR_QUERY)
        rc = db_text_rows(db, t, from, fn, arg, rows, e);
    else if (e)
        *e = why;
    db_binary_close(b);
    free(sql);
    free(fields);
    return rc;
}
