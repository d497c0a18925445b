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

struct bulk_rows {
    struct buf head, row;            /* of the statement: before its rows, and each of them */
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

void bulk_insert(struct buf *head, struct buf *row, const char *table,
                 const struct bulk_column *columns, size_t count, bool typed)
{
    buf_adds(head, "INSERT INTO ");
    sql_ident(head, table);
    for (size_t i = 0; i < count; i++) {
        buf_adds(head, i ? "," : " (");
        sql_ident(head, columns[i].name);
        buf_adds(row, i ? "," : "(");
        add_place(row, columns[i].encoding, typed);
    }
    buf_adds(head, ") VALUES ");
    buf_addc(row, ')');
}

int bulk_refused(const struct db_bulk *b, MYSQL_STMT *stmt, mono_t began, struct err *e)
{
    return db_fail_stmt(b->db, stmt, began, "rows refused", e);
}

MYSQL_STMT *bulk_prepare(const struct db_bulk *b, const struct buf *sql, struct err *e)
{
    mono_t began = clock_mono();
    MYSQL_STMT *stmt = mysql_stmt_init(b->db->my);
    if (!stmt) {
        err_set(e, ERR_SYSTEM, 0, "no prepared statement");
    } else if (mysql_stmt_prepare(stmt, sql->p, sql->len) != 0) {
        bulk_refused(b, stmt, began, e);
        mysql_stmt_close(stmt);
        stmt = NULL;
    }
    return stmt;
}

static void unprepare(struct prepared *p)
{
    if (p->stmt)
        mysql_stmt_close(p->stmt);
    *p = (struct prepared){0};
}

static int prepare(struct db_bulk *b, struct prepared *p, unsigned rows, struct err *e)
{
    const struct bulk_rows *r = b->rows;
    if (p->rows == rows)
        return 0;
    unprepare(p);
    struct buf sql = {0};
    buf_add(&sql, r->head.p, r->head.len);
    for (unsigned i = 0; i < rows; i++) {
        buf_adds(&sql, i ? "," : "");
        buf_add(&sql, r->row.p, r->row.len);
    }
    p->stmt = bulk_prepare(b, &sql, e);
    buf_free(&sql);
    p->rows = p->stmt ? rows : 0;
    return p->stmt ? 0 : -1;
}

/* As many as are wanted, in a statement that fits a packet. */
static unsigned rows_at_most(size_t wanted, size_t packet, size_t row)
{
    size_t fit = packet / (row + 1), n = wanted < fit ? wanted : fit;
    return n ? (unsigned)n : 1;
}

int bulk_rows_open(struct db_bulk *b, const struct bulk_column *columns, size_t count,
                   struct err *e)
{
    struct bulk_rows *r = b->rows = xcalloc(1, sizeof *r);
    int logged = db_logs(b->db, e);
    if (logged < 0)
        return -1;
    bulk_insert(&r->head, &r->row, b->table, columns, count, true);
    r->most = rows_at_most((logged ? PLACES_LOGGED : PLACES) / count, b->packet, r->row.len);
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
    buf_free(&r->head);
    buf_free(&r->row);
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
        return bulk_refused(b, p->stmt, began, e);
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
    if (e->num != DB_BULK_NONE_LEFT)
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
