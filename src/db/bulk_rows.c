/* Some hundred rows of binary values for one execution of a prepared INSERT: for servers and
 * libraries that know no arrays. The server reads no numbers and strings out of SQL, and resolves
 * the statement once; what that saves is a third of its work on a row. */
#include <stdlib.h>
#include <string.h>

#include "db/bulk_int.h"
#include "db/sql.h"

/* Where more stand in a statement the server's caches do not hold what it makes of them, and a row
 * costs up to twice as much. One that is logged costs a flush of the log as well, so that a slow
 * disk wants fewer of them. */
#define PLACES 2048u
#define PLACES_LOGGED 8192u

struct prepared {
    MYSQL_STMT *stmt;
    unsigned rows;
};

#define NONE_LEFT 1461 /* max_prepared_stmt_count is reached */

struct bulk_rows {
    struct bulk_column *columns;
    char **names; /* the columns' own */
    size_t count;
    unsigned most;                   /* rows of a statement */
    struct prepared one, full, rest; /* of 1 row, of so many, of what is left at a unit's end */
    MYSQL_BIND *binds;
};

enum enum_field_types bulk_field_type(enum bulk_kind kind)
{
    switch (kind) {
    case BULK_INT8:
        return MYSQL_TYPE_TINY;
    case BULK_INT16:
        return MYSQL_TYPE_SHORT;
    case BULK_INT32:
        return MYSQL_TYPE_LONG;
    case BULK_INT64:
        return MYSQL_TYPE_LONGLONG;
    case BULK_DOUBLE:
        return MYSQL_TYPE_DOUBLE;
    case BULK_BYTES:
        break;
    }
    return MYSQL_TYPE_STRING;
}

/* MySQL takes a place for what its column is: bytes for a BIT would be read as a number, and a
 * number for an ENUM would have the statement prepared again each time. */
static void add_place(struct buf *sql, enum db_encoding encoding, bool typed)
{
    if (typed && encoding == DB_BITS)
        buf_adds(sql, "CAST(? AS BINARY)");
    else
        bulk_expression(sql, !typed && encoding == DB_INDEX ? DB_RAW : encoding, "?");
}

void bulk_insert(struct buf *sql, const char *table, const struct bulk_column *columns,
                 size_t count, unsigned rows, bool typed)
{
    buf_adds(sql, "INSERT INTO ");
    sql_ident(sql, table);
    buf_adds(sql, " (");
    for (size_t i = 0; i < count; i++) {
        buf_adds(sql, i ? "," : "");
        sql_ident(sql, columns[i].name);
    }
    buf_adds(sql, ") VALUES ");
    for (unsigned row = 0; row < rows; row++) {
        buf_adds(sql, row ? ",(" : "(");
        for (size_t i = 0; i < count; i++) {
            buf_adds(sql, i ? "," : "");
            add_place(sql, columns[i].encoding, typed);
        }
        buf_addc(sql, ')');
    }
}

static void unprepare(struct prepared *p)
{
    if (p->stmt)
        mysql_stmt_close(p->stmt);
    *p = (struct prepared){0};
}

static int failed(const struct db_bulk *b, MYSQL_STMT *stmt, mono_t began, struct err *e)
{
    return db_fail_stmt(b->db, stmt, began, "rows refused", e);
}

static int prepare(struct db_bulk *b, struct prepared *p, unsigned rows, struct err *e)
{
    const struct bulk_rows *r = b->rows;
    if (p->rows == rows)
        return 0;
    unprepare(p);
    struct buf sql = {0};
    mono_t began = clock_mono();
    bulk_insert(&sql, b->table, r->columns, r->count, rows, true);
    p->stmt = mysql_stmt_init(b->db->my);
    int rc = p->stmt ? mysql_stmt_prepare(p->stmt, sql.p, sql.len)
                     : err_set(e, ERR_SYSTEM, 0, "no prepared statement");
    if (rc != 0 && p->stmt)
        failed(b, p->stmt, began, e);
    buf_free(&sql);
    if (rc == 0)
        p->rows = rows;
    return rc == 0 ? 0 : -1;
}

static void keep_columns(struct bulk_rows *r, const struct bulk_column *columns, size_t count)
{
    r->count = count;
    r->columns = xcalloc(count, sizeof *r->columns);
    r->names = xcalloc(count, sizeof *r->names);
    for (size_t i = 0; i < count; i++) {
        r->columns[i] = columns[i];
        r->columns[i].name = r->names[i] = xstrdup(columns[i].name);
    }
}

/* As many as have no more values than `places`, in a statement that fits a packet. */
static unsigned rows_at_most(const struct db_bulk *b, const struct bulk_column *columns,
                             size_t count, size_t places)
{
    struct buf one = {0}, two = {0};
    bulk_insert(&one, b->table, columns, count, 1, true);
    bulk_insert(&two, b->table, columns, count, 2, true);
    size_t row = two.len - one.len, fit = b->packet / row, n = places / count;
    buf_free(&one);
    buf_free(&two);
    n = n < fit ? n : fit;
    return n ? (unsigned)n : 1;
}

int bulk_rows_open(struct db_bulk *b, const struct bulk_column *columns, size_t count,
                   struct err *e)
{
    struct bulk_rows *r = b->rows = xcalloc(1, sizeof *r);
    int logged = db_logs(b->db, e);
    keep_columns(r, columns, count);
    if (logged < 0)
        return -1;
    r->most = rows_at_most(b, columns, count, logged ? PLACES_LOGGED : PLACES);
    r->binds = xcalloc(r->most * count, sizeof *r->binds);
    return prepare(b, &r->one, 1, e);
}

void bulk_rows_close(struct bulk_rows *r)
{
    if (!r)
        return;
    unprepare(&r->one);
    unprepare(&r->full);
    unprepare(&r->rest);
    for (size_t i = 0; i < r->count; i++)
        free(r->names[i]);
    free(r->names);
    free(r->columns);
    free(r->binds);
    free(r);
}

static void bind(MYSQL_BIND *b, struct bulk_cells *c, size_t row)
{
    *b = (MYSQL_BIND){.buffer_type = bulk_field_type(c->kind), .is_unsigned = c->is_unsigned};
    if (c->null[row] == BULK_NULL) {
        b->buffer_type = MYSQL_TYPE_NULL;
    } else if (c->width) {
        b->buffer = (char *)c->numbers + row * c->width;
    } else {
        b->buffer = c->bytes[row];
        b->buffer_length = c->lengths[row];
    }
}

static int execute(struct db_bulk *b, struct prepared *p, struct bulk_block *k, size_t from,
                   struct err *e)
{
    MYSQL_BIND *at = b->rows->binds;
    mono_t began = clock_mono();
    for (size_t row = from; row < from + p->rows; row++)
        for (size_t i = 0; i < k->count; i++)
            bind(at++, &k->columns[i], row);
    if (mysql_stmt_bind_param(p->stmt, b->rows->binds) != 0 || mysql_stmt_execute(p->stmt) != 0)
        return failed(b, p->stmt, began, e);
    b->taken += mysql_stmt_affected_rows(p->stmt);
    b->warnings += mysql_warning_count(b->db->my);
    return 0;
}

/* The statement for so many rows, or for one where the server takes no more statements: rows are on
 * their way, and the first one is there. */
static struct prepared *statement(struct db_bulk *b, unsigned rows, struct err *e)
{
    struct bulk_rows *r = b->rows;
    struct prepared *p = rows == 1 ? &r->one : rows == r->most ? &r->full : &r->rest;
    if (prepare(b, p, rows, e) == 0)
        return p;
    if (e->num != NONE_LEFT)
        return NULL;
    r->most = 1;
    return &r->one;
}

int bulk_rows_send(struct db_bulk *b, struct bulk_block *k, struct err *e)
{
    for (unsigned row = 0; row < k->rows;) {
        unsigned left = k->rows - row, most = b->rows->most;
        struct prepared *p = statement(b, left < most ? left : most, e);
        if (!p || execute(b, p, k, row, e) < 0)
            return -1;
        row += p->rows;
    }
    return 0;
}
