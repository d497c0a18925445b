#include "db/scan_int.h"

#include <inttypes.h>
#include <string.h>

#include "db/copy.h"
#include "db/sql.h"

#define COPY_NAME "`" DB_OWN_PREFIX "scan`"
/* What a copy costs the server in ns, about: measured on MySQL 9.7. To pass by a row that belongs
 * to another share takes about a tenth, so more shares than this would only make the whole longer.
 */
#define COST_ROW 150u
#define COST_COLUMN 40u
#define SHARES_MAX 7u
#define SHARES_FEW 3u /* numbers that no step of an AUTO_INCREMENT goes along with */
#define COST_LONG 100000000u
#define COST_SHORT 20000000u

static unsigned shares_of(const struct db_table *t)
{
    uint64_t cost = t->rows * (COST_ROW + COST_COLUMN * t->column_count + t->row_length);
    return t->key_count == 0 || cost < COST_SHORT ? 1 : cost < COST_LONG ? SHARES_FEW : SHARES_MAX;
}

static const struct db_column *column_at(const struct db_table *t, unsigned place)
{
    const struct db_column *c = t->columns;
    for (;; c++)
        if (!c->generated && place-- == 0)
            return c;
}

/* A number made of a row's key, which stays in its share as long as its key is the same: all else
 * is in the log. */
static void add_number(struct buf *sql, const struct db_table *t)
{
    for (size_t i = 0; i < t->key_count; i++) {
        const struct db_column *c = column_at(t, t->key[i]);
        bool whole = c->encoding == DB_RAW && strstr(c->type, "int");
        buf_adds(sql, i ? "^" : "");
        buf_adds(sql, whole ? "(" : "CRC32(");
        sql_ident(sql, c->name);
        if (whole) /* never negative */
            buf_printf(sql, "&%" PRId64, INT64_MAX);
        buf_addc(sql, ')');
    }
}

static void share_sql(struct buf *sql, const struct db_table *t, unsigned share, unsigned shares)
{
    buf_clear(sql);
    buf_adds(sql, "");
    if (shares == 1)
        return;
    buf_adds(sql, " WHERE (");
    add_number(sql, t);
    buf_printf(sql, ")%%%u=%u", shares, share);
}

static int read_share(struct db_copier *c, const struct db_copy *copy, db_tuple_fn *fn,
                      db_chunk_fn *chunk, void *arg, uint64_t *rows, struct err *e)
{
    uint64_t n;
    int64_t began = scan_clock();
    if (db_copy_make(c, copy, e) < 0)
        return scan_failed(copy->t, e);
    int64_t took = scan_clock() - began;
    if (db_read_rows(c->db, copy->t, copy->name, fn, arg, &n, e) < 0 ||
        db_exec(c->db, "DROP TEMPORARY TABLE " COPY_NAME, e) < 0)
        return -1;
    *rows += n;
    return chunk ? chunk(arg, n, took, e) : 0;
}

int scan_by_copies(struct db *db, const struct db_table *t, db_tuple_fn *fn, db_chunk_fn *chunk,
                   void *arg, uint64_t *rows, struct err *e)
{
    unsigned shares = shares_of(t);
    struct db_copier copier;
    struct buf rest = {0};
    int rc = db_copier_begin(&copier, db, e);
    *rows = 0;
    for (unsigned i = 0; i < shares && rc == 0; i++) {
        share_sql(&rest, t, i, shares);
        struct db_copy copy = {.name = COPY_NAME,
                               .t = t,
                               .rest = rest.p,
                               .bytes = t->rows / shares * (t->row_length + 32)};
        rc = read_share(&copier, &copy, fn, chunk, arg, rows, e);
    }
    buf_free(&rest);
    return rc;
}
