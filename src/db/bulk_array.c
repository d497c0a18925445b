/* Whole columns of binary values for a prepared INSERT: what the server would spend on reading
 * numbers and strings out of SQL is most of what a plain INSERT costs it beside its indexes. */
#include <stdlib.h>
#include <string.h>

#include "db/bulk_int.h"

#if CLIENT_ARRAYS

struct bulk_array {
    MYSQL_STMT *stmt;
    MYSQL_BIND *binds;
};

_Static_assert(BULK_GIVEN == (int)STMT_INDICATOR_NONE && BULK_NULL == (int)STMT_INDICATOR_NULL,
               "a block's marks are bound as they are");

bool bulk_array_there(struct db *db)
{
    unsigned long more = 0;
    return db_is_mariadb(db) &&
           mariadb_get_infov(db->my, MARIADB_CONNECTION_EXTENDED_SERVER_CAPABILITIES, &more) == 0 &&
           (more & (MARIADB_CLIENT_STMT_BULK_OPERATIONS >> 32));
}

struct bulk_array *bulk_array_open(struct db_bulk *b, const struct bulk_column *columns,
                                   size_t count, struct err *e)
{
    struct bulk_array *a = xcalloc(1, sizeof *a);
    a->binds = xcalloc(count, sizeof *a->binds);
    struct buf sql = {0}, row = {0};
    bulk_insert(&sql, &row, b->table, columns, count, false);
    buf_add(&sql, row.p, row.len);
    a->stmt = bulk_prepare(b, &sql, e);
    buf_free(&sql);
    buf_free(&row);
    if (a->stmt)
        return a;
    bulk_array_close(a);
    return NULL;
}

void bulk_array_close(struct bulk_array *a)
{
    if (!a)
        return;
    if (a->stmt)
        mysql_stmt_close(a->stmt);
    free(a->binds);
    free(a);
}

static void make_binds(MYSQL_BIND *binds, struct bulk_block *k)
{
    memset(binds, 0, k->count * sizeof *binds);
    for (size_t i = 0; i < k->count; i++) {
        struct bulk_cells *c = &k->columns[i];
        MYSQL_BIND *b = &binds[i];
        b->buffer_type = bulk_field_type(c->kind);
        b->is_unsigned = c->is_unsigned;
        b->buffer = c->width ? c->numbers : (void *)c->bytes;
        b->length = c->lengths;
        b->u.indicator = c->null;
    }
}

int bulk_array_send(struct db_bulk *b, struct bulk_block *k, struct err *e)
{
    struct bulk_array *a = b->array;
    unsigned rows = k->rows;
    mono_t began = clock_mono();
    make_binds(a->binds, k);
    if (mysql_stmt_attr_set(a->stmt, STMT_ATTR_ARRAY_SIZE, &rows) != 0 ||
        mysql_stmt_bind_param(a->stmt, a->binds) != 0 || mysql_stmt_execute(a->stmt) != 0)
        return bulk_refused(b, a->stmt, began, e);
    b->taken += mysql_stmt_affected_rows(a->stmt);
    b->warnings += mysql_warning_count(b->db->my);
    return 0;
}

#else

bool bulk_array_there(struct db *db)
{
    (void)db;
    return false;
}

struct bulk_array *bulk_array_open(struct db_bulk *b, const struct bulk_column *columns,
                                   size_t count, struct err *e)
{
    (void)b, (void)columns, (void)count;
    err_set(e, ERR_SYSTEM, 0, "this client library has no array binding");
    return NULL;
}

int bulk_array_send(struct db_bulk *b, struct bulk_block *k, struct err *e)
{
    (void)b, (void)k;
    return err_set(e, ERR_SYSTEM, 0, "this client library has no array binding");
}

void bulk_array_close(struct bulk_array *a)
{
    (void)a;
}

#endif
