#include "db/rows.h"

#include <stdlib.h>
#include <string.h>

#include "db/sql.h"

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

static void add_value(struct buf *b, enum db_encoding enc, const char *v, size_t len)
{
    if (!v) {
        buf_adds(b, "NULL");
        return;
    }
    switch (enc) {
    case DB_RAW:
    case DB_INDEX:
        buf_add(b, v, len);
        break;
    case DB_DOUBLE:
        buf_add(b, v, len);
        if (len == 2 && memcmp(v, "-0", 2) == 0)
            buf_adds(b, "e0"); /* -0 alone is an integer and loses its sign */
        break;
    case DB_BITS:
        sql_hex(b, v, len);
        break;
    case DB_LATIN1:
        buf_adds(b, "_latin1");
        sql_string(b, v, len);
        break;
    case DB_UTF8:
        buf_adds(b, "_utf8mb4");
        sql_string(b, v, len);
        break;
    case DB_BYTES:
        sql_string(b, v, len);
        break;
    }
}

static int read_all(struct db_rows *r, const enum db_encoding *enc, db_tuple_fn *fn, void *arg,
                    uint64_t *rows, struct err *e)
{
    struct buf tuple = {0};
    unsigned n = db_fields(r);
    int got;
    while ((got = db_next(r, e)) == 1) {
        buf_clear(&tuple);
        for (unsigned i = 0; i < n; i++) {
            buf_addc(&tuple, i ? ',' : '(');
            add_value(&tuple, enc[i], db_value(r, i), db_length(r, i));
        }
        buf_addc(&tuple, ')');
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
