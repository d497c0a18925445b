/* A prepared INSERT, executed with binary values. The server need not parse numbers and strings
 * from SQL, which is most of the cost of a plain INSERT apart from its indexes. Whole columns
 * are sent as arrays if library and server support them. Otherwise each statement holds some
 * hundred rows, which saves a third of the server's work per row. */
#include "bulk/prepared.h"

#include <stdlib.h>

#include "bulk/block.h"
#include "bulk/bulk_int.h"
#include "sql/literal.h"

/* Maximum number of placeholders. With more, the server's data for a statement exceeds the CPU
 * caches and a row costs up to twice as much. A logged statement also costs a flush of the
 * binlog, so with logging fewer and larger statements are better on a slow disk. */
#define PLACES 2048u
#define PLACES_LOGGED 8192u

/* Adds a placeholder. MySQL treats it as having its column's type. It would read bytes for a BIT
 * as a number, and a number for an ENUM would make it prepare the statement again each time. */
static void add_place(struct buf *sql, enum db_encoding encoding, bool array)
{
    if (!array && encoding == DB_BITS)
        buf_adds(sql, "CAST(? AS BINARY)");
    else
        bulk_expression(sql, array && encoding == DB_INDEX ? DB_RAW : encoding, "?");
}

static int prepared_refused(const struct db_bulk *b, MYSQL_STMT *stmt, mono_t began, struct err *e)
{
    return db_fail_stmt(b->db, stmt, began, "rows refused", e);
}

static void prepared_unprepare(struct bulk_statement *s)
{
    if (s->stmt)
        mysql_stmt_close(s->stmt);
    *s = (struct bulk_statement){0};
}

static int prepared_prepare(const struct db_bulk *b, struct bulk_statement *s, unsigned rows,
                            struct err *e)
{
    const struct bulk_prepared *p = &b->prepared;
    SCOPED(buf_free) struct buf sql = {0};
    mono_t began = clock_mono();
    if (s->rows == rows)
        return 0;
    prepared_unprepare(s);
    s->stmt = mysql_stmt_init(b->db->my);
    if (!s->stmt)
        return err_set(e, ERR_SYSTEM, 0, "no prepared statement");
    buf_add(&sql, p->head.p, p->head.len);
    for (unsigned i = 0; i < rows; i++) {
        buf_adds(&sql, i ? "," : "");
        buf_add(&sql, p->row.p, p->row.len);
    }
    int rc = mysql_stmt_prepare(s->stmt, sql.p, sql.len) != 0
                 ? prepared_refused(b, s->stmt, began, e)
                 : db_check_places(b->db, s->stmt, rows * p->columns, e);
    if (rc < 0)
        prepared_unprepare(s);
    else
        s->rows = rows;
    return rc;
}

int bulk_prepared_open(struct db_bulk *b, const struct bulk_column *columns, size_t count,
                       struct err *e)
{
    struct bulk_prepared *p = &b->prepared;
    bool array = b->way == DB_BULK_ARRAY;
    int logged = array ? 0 : db_logs(b->db, e);
    size_t wanted = (logged ? PLACES_LOGGED : PLACES) / count;
    if (logged < 0)
        return -1;
    buf_adds(&p->head, "INSERT INTO ");
    sql_ident(&p->head, b->table);
    for (size_t i = 0; i < count; i++) {
        buf_adds(&p->head, i ? "," : " (");
        sql_ident(&p->head, columns[i].name);
        buf_adds(&p->row, i ? "," : "(");
        add_place(&p->row, columns[i].encoding, array);
    }
    buf_adds(&p->head, ") VALUES ");
    buf_addc(&p->row, ')');
    p->columns = count;
    p->most = 1;
    if (!array) { /* the statement must fit in a packet */
        size_t fit = b->packet / (p->row.len + 1), most = wanted < fit ? wanted : fit;
        p->most = most ? (unsigned)most : 1;
    }
    p->binds = xcalloc(p->most * count, sizeof *p->binds);
    return prepared_prepare(b, &p->one, 1, e);
}

void bulk_prepared_close(struct bulk_prepared *p)
{
    prepared_unprepare(&p->one);
    prepared_unprepare(&p->full);
    prepared_unprepare(&p->rest);
    buf_free(&p->head);
    buf_free(&p->row);
    free(p->binds);
}

static MYSQL_BIND bind_of(const struct bulk_cells *c)
{
    static const enum enum_field_types types[] = {
        [BULK_BYTES] = MYSQL_TYPE_STRING, [BULK_DOUBLE] = MYSQL_TYPE_DOUBLE,
        [BULK_INT8] = MYSQL_TYPE_TINY,    [BULK_INT16] = MYSQL_TYPE_SHORT,
        [BULK_INT32] = MYSQL_TYPE_LONG,   [BULK_INT64] = MYSQL_TYPE_LONGLONG};
    return (MYSQL_BIND){.buffer_type = types[c->kind], .is_unsigned = c->is_unsigned};
}

/* Executes a statement with the values in p->binds. */
static int prepared_execute(struct db_bulk *b, MYSQL_STMT *stmt, struct err *e)
{
    mono_t began = clock_mono();
    if (mysql_stmt_bind_param(stmt, b->prepared.binds) != 0 || mysql_stmt_execute(stmt) != 0)
        return prepared_refused(b, stmt, began, e);
    b->taken += mysql_stmt_affected_rows(stmt);
    b->warnings += mysql_warning_count(b->db->my);
    return 0;
}

/* Returns the statement for `rows` rows. If the server allows no more prepared statements,
 * returns the one for a single row: it already exists, and rows are already being sent. */
static struct bulk_statement *prepared_statement(struct db_bulk *b, unsigned rows, struct err *e)
{
    struct bulk_prepared *p = &b->prepared;
    struct bulk_statement *s = rows == 1 ? &p->one : rows == p->most ? &p->full : &p->rest;
    if (prepared_prepare(b, s, rows, e) == 0)
        return s;
    if (e->num != DB_BULK_NONE_LEFT)
        return NULL;
    p->most = 1;
    return &p->one;
}

int bulk_rows_send(struct db_bulk *b, const struct bulk_block *k, struct err *e)
{
    for (unsigned row = 0; row < k->rows;) {
        unsigned left = k->rows - row, most = b->prepared.most;
        struct bulk_statement *s = prepared_statement(b, left < most ? left : most, e);
        MYSQL_BIND *at = b->prepared.binds;
        if (!s)
            return -1;
        for (unsigned last = row + s->rows; row < last; row++)
            for (const struct bulk_cells *c = k->columns; c < k->columns + k->count; c++, at++) {
                *at = bind_of(c);
                if (c->null[row] == BULK_NULL) {
                    at->buffer_type = MYSQL_TYPE_NULL;
                } else if (c->width) {
                    at->buffer = (char *)c->numbers + row * c->width;
                } else {
                    at->buffer = c->bytes[row];
                    at->buffer_length = c->lengths[row];
                }
            }
        if (prepared_execute(b, s->stmt, e) < 0)
            return -1;
    }
    return 0;
}

#if CLIENT_ARRAYS

_Static_assert(BULK_GIVEN == (int)STMT_INDICATOR_NONE && BULK_NULL == (int)STMT_INDICATOR_NULL,
               "a block's marks are bound as they are");

bool bulk_array_there(struct db *db)
{
    unsigned long more = 0;
    return db_is_mariadb(db) &&
           mariadb_get_infov(db->my, MARIADB_CONNECTION_EXTENDED_SERVER_CAPABILITIES, &more) == 0 &&
           (more & (MARIADB_CLIENT_STMT_BULK_OPERATIONS >> 32));
}

int bulk_array_send(struct db_bulk *b, const struct bulk_block *k, struct err *e)
{
    MYSQL_STMT *stmt = b->prepared.one.stmt;
    unsigned rows = k->rows;
    for (size_t i = 0; i < k->count; i++) {
        const struct bulk_cells *c = &k->columns[i];
        MYSQL_BIND *bind = &b->prepared.binds[i];
        *bind = bind_of(c);
        bind->buffer = c->width ? c->numbers : (void *)c->bytes;
        bind->length = c->lengths;
        bind->u.indicator = c->null;
    }
    if (mysql_stmt_attr_set(stmt, STMT_ATTR_ARRAY_SIZE, &rows) != 0)
        return prepared_refused(b, stmt, clock_mono(), e);
    return prepared_execute(b, stmt, e);
}

#else

bool bulk_array_there(struct db *db)
{
    (void)db;
    return false;
}

int bulk_array_send(struct db_bulk *b, const struct bulk_block *k, struct err *e)
{
    (void)b, (void)k;
    return err_set(e, ERR_SYSTEM, 0, "this client library has no array binding");
}

#endif
