/* Proves that what arrived is what was loaded. */
#include <inttypes.h>
#include <stdlib.h>

#include "db/rows.h"
#include "db/sql.h"
#include "restore/load_int.h"

static int add_hash(void *arg, const char *tuple, size_t len, struct err *e)
{
    (void)e;
    *(uint64_t *)arg += sql_tuple_hash(tuple, len);
    return 0;
}

/* Reads back the columns that were loaded, as the dump would write them. */
static int compare_content(struct loader *l, const struct target *t, struct err *e)
{
    struct db_tables own;
    struct db_table picked = {0};
    uint64_t hash = 0, rows = 0;
    if (t->column_count == 0)
        return 0; /* no row, so no column list was seen */
    if (load_place_read(l, t, &own, e) < 0)
        return -1;
    picked.columns = xcalloc(t->column_count, sizeof *picked.columns);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = load_columns_find(&own.list[0], t->columns[i]);
        if (c)
            picked.columns[picked.column_count++] = *c;
    }
    struct buf from = {0};
    sql_ident(&from, loader_place(l, t));
    int rc = db_read_rows(l->db, &picked, from.p, add_hash, &hash, &rows, e);
    if (rc == 0 && (rows != t->rows || hash != t->hash || picked.column_count != t->column_count))
        rc = err_set(e, ERR_QUERY, 0,
                     "table %s: what the server stored is not what was loaded (%" PRIu64
                     " warnings)",
                     t->name, t->warnings);
    buf_free(&from);
    free(picked.columns);
    db_tables_free(&own);
    return rc;
}

int loader_check(struct loader *l, const struct target *t, bool content, struct err *e)
{
    uint64_t rows = 0;
    if (t->skip || !t->created)
        return 0;
    if (load_place_counter(l, t, e) < 0 ||
        db_count(l->db, l->schema, loader_place(l, t), &rows, e) < 0)
        return -1;
    /* What a MERGE table shows are the rows of others. */
    if (rows != t->rows && (t->memory || t->rows))
        return err_set(e, ERR_QUERY, 0,
                       "table %s: %" PRIu64 " rows arrived, %" PRIu64 " were loaded", t->name, rows,
                       t->rows);
    if (t->mapped && t->warnings) {
        err_set(e, ERR_REFUSED, 0,
                "table %s changed since the dump and its rows no longer fit (%" PRIu64 " warnings)",
                t->name, t->warnings);
        return load_columns_advise(e);
    }
    bool compare = !t->raw && !t->mapped && (content || t->warnings);
    return compare ? compare_content(l, t, e) : 0;
}
