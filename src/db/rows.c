#include "db/rows.h"

#include <stdlib.h>
#include <string.h>

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

void db_select_list(struct buf *b, const struct db_table *t)
{
    const char *comma = "";
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->columns[i];
        if (c->generated)
            continue;
        buf_adds(b, comma);
        comma = ",";
        const char *as = c->encoding == DB_DOUBLE  ? "DOUBLE"
                         : c->encoding == DB_INDEX ? "UNSIGNED"
                                                   : NULL;
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

static int read_all(struct db_rows *r, const enum db_encoding *enc, db_tuple_fn *fn, void *arg,
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

int db_read_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e)
{
    *rows = 0;
    enum db_encoding *enc = xcalloc(t->column_count, sizeof *enc);
    size_t n = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].generated)
            enc[n++] = t->columns[i].encoding;
    struct buf sql = {0};
    buf_adds(&sql, "SELECT /* worldkeeper */ ");
    db_select_list(&sql, t);
    buf_printf(&sql, " FROM %s", from);
    int rc = -1;
    struct db_rows *r = db_select(db, sql.p, e);
    if (r) {
        rc = read_all(r, enc, fn, arg, rows, e);
        db_rows_end(r); /* reads and drops what is left */
    }
    buf_free(&sql);
    free(enc);
    return rc;
}
