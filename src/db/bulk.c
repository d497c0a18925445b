#include "db/bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "db/bulk_int.h"
#include "db/packet.h"
#include "db/sql.h"

/* One execution is one packet, and two of them are in memory. */
#define UNIT_BYTES (4u << 20)

struct db_feed {
    const char *data;
    size_t left;
};

static int feed_open(void **feed, const char *file, void *arg)
{
    (void)file;
    struct db *db = arg;
    *feed = db->feed;
    return db->feed ? 0 : 1;
}

static int feed_read(void *arg, char *out, unsigned room)
{
    struct db_feed *f = arg;
    size_t n = f->left < room ? f->left : room;
    memcpy(out, f->data, n);
    f->data += n;
    f->left -= n;
    return (int)n;
}

static void feed_close(void *arg)
{
    (void)arg;
}

static int feed_error(void *arg, char *text, unsigned size)
{
    (void)arg;
    static const char why[] = "the server asked for a file";
    if (size) {
        strncpy(text, why, size - 1);
        text[size - 1] = '\0';
    }
    return 2000; /* CR_UNKNOWN_ERROR */
}

void db_bulk_prepare(struct db *db)
{
    mysql_set_local_infile_handler(db->my, feed_open, feed_read, feed_close, feed_error, db);
}

static bool logs_as(struct db *db, const char *format)
{
    char *is = db_variable(db, "binlog_format");
    bool same = is && strcmp(is, format) == 0;
    free(is);
    return same && db_variable_number(db, "log_bin") == 1;
}

/* A binary log of statements takes no arrays (error 4033), and of other prepared ones what the
 * server writes their values as, in which MySQL leaves bytes that are no text as they are. */
enum db_bulk_way db_bulk_way(struct db *db)
{
    if (bulk_array_there(db) && !logs_as(db, "STATEMENT"))
        return DB_BULK_ARRAY;
    if (db->bulk && db_variable_number(db, "local_infile") == 1)
        return DB_BULK_LOCAL;
    bool prepared = db_variable_number(db, "max_prepared_stmt_count") > 0 &&
                    !logs_as(db, "STATEMENT") && !logs_as(db, "MIXED");
    return prepared ? DB_BULK_ROWS : DB_BULK_NONE;
}

const char *db_bulk_way_name(enum db_bulk_way way)
{
    static const char *const names[] = {[DB_BULK_NONE] = "insert",
                                        [DB_BULK_ARRAY] = "array",
                                        [DB_BULK_LOCAL] = "local",
                                        [DB_BULK_ROWS] = "rows"};
    return names[way];
}

void bulk_expression(struct buf *b, enum db_encoding enc, const char *value)
{
    switch (enc) {
    case DB_INDEX:
        buf_printf(b, "CAST(%s AS UNSIGNED)", value);
        break;
    case DB_LATIN1:
        buf_printf(b, "CONVERT(%s USING latin1)", value);
        break;
    case DB_UTF8:
        buf_printf(b, "CONVERT(%s USING utf8mb4)", value);
        break;
    case DB_RAW:
    case DB_DOUBLE:
    case DB_BITS:
    case DB_BYTES:
        buf_adds(b, value);
        break;
    }
}

int bulk_damaged(const struct db_bulk *b, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "table %s: rows that are no plain values", b->table);
}

static enum bulk_kind kind_of(const struct db_column *c)
{
    static const struct {
        const char *type;
        enum bulk_kind kind;
    } ints[] = {{"tinyint", BULK_INT8},
                {"smallint", BULK_INT16},
                {"mediumint", BULK_INT32},
                {"int", BULK_INT32},
                {"bigint", BULK_INT64}};
    if (c->encoding == DB_DOUBLE)
        return BULK_DOUBLE;
    if (c->encoding == DB_INDEX)
        return BULK_INT64;
    for (size_t i = 0; c->encoding == DB_RAW && i < sizeof ints / sizeof *ints; i++)
        if (text_starts(c->type, ints[i].type))
            return ints[i].kind;
    return BULK_BYTES;
}

static int find_columns(struct bulk_column *out, const struct db_table *place, char *const *names,
                        size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        const struct db_column *c = NULL;
        for (size_t k = 0; k < place->column_count && !c; k++)
            if (strcasecmp(place->columns[k].name, names[i]) == 0)
                c = &place->columns[k];
        if (!c)
            return err_set(e, ERR_CHANGED, 0, "table %s has no column %s any more", place->name,
                           names[i]);
        out[i] = (struct bulk_column){.name = names[i],
                                      .encoding = c->encoding,
                                      .kind = kind_of(c),
                                      .is_unsigned = c->encoding == DB_INDEX ||
                                                     strstr(c->type, "unsigned") != NULL};
    }
    return 0;
}

static void local_statement(struct db_bulk *b, const struct bulk_column *columns, size_t count)
{
    struct buf set = {0};
    char variable[24];
    buf_adds(&b->sql, "LOAD DATA LOCAL INFILE 'rows' INTO TABLE ");
    sql_ident(&b->sql, b->table);
    buf_adds(&b->sql, " CHARACTER SET binary FIELDS TERMINATED BY '\\r' ENCLOSED BY '' "
                      "ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' STARTING BY '' (");
    for (size_t i = 0; i < count; i++) {
        const struct bulk_column *c = &columns[i];
        buf_adds(&b->sql, i ? "," : "");
        if (c->encoding != DB_INDEX && c->encoding != DB_LATIN1 && c->encoding != DB_UTF8) {
            sql_ident(&b->sql, c->name);
            continue;
        }
        snprintf(variable, sizeof variable, "@v%zu", i);
        buf_adds(&b->sql, variable);
        buf_adds(&set, set.len ? "," : " SET ");
        sql_ident(&set, c->name);
        buf_addc(&set, '=');
        bulk_expression(&set, c->encoding, variable);
    }
    buf_addc(&b->sql, ')');
    buf_add(&b->sql, set.p, set.len);
    buf_free(&set);
}

static int local_send(struct db_bulk *b, const struct buf *lines, struct err *e)
{
    struct db_feed feed = {lines->p, lines->len};
    b->db->feed = &feed;
    int rc = db_exec_len(b->db, b->sql.p, b->sql.len, e);
    b->db->feed = NULL;
    b->taken += rc < 0 ? 0 : db_affected(b->db);
    b->warnings += rc < 0 ? 0 : db_warnings(b->db);
    return rc;
}

static int send_unit(void *arg, struct bulk_unit *u, struct err *e)
{
    struct db_bulk *b = arg;
    if (b->way == DB_BULK_LOCAL)
        return local_send(b, &u->text, e);
    return b->array ? bulk_array_send(b, &u->block, e) : bulk_rows_send(b, &u->block, e);
}

/* The server counts a whole execution against max_allowed_packet, and so does our memory. */
static size_t unit_bytes(uint64_t packet)
{
    return packet > 0 && packet / 2 < UNIT_BYTES ? (size_t)packet / 2 : UNIT_BYTES;
}

static int prepare(struct db_bulk *b, const struct bulk_column *columns, size_t count,
                   struct err *e)
{
    b->pipe = bulk_pipe_open(columns, count, send_unit, b);
    if (b->way == DB_BULK_LOCAL) {
        local_statement(b, columns, count);
        return 0;
    }
    if (b->way == DB_BULK_ROWS)
        return bulk_rows_open(b, columns, count, e);
    b->array = bulk_array_open(b, columns, count, e);
    return b->array ? 0 : -1;
}

struct db_bulk *db_bulk_open(struct db *db, enum db_bulk_way way, uint64_t packet,
                             const struct db_table *place, char *const *names, size_t count,
                             struct err *e)
{
    struct db_bulk *b = xcalloc(1, sizeof *b);
    *b = (struct db_bulk){.db = db,
                          .way = way,
                          .table = xstrdup(place->name),
                          .packet_max = packet,
                          .packet = unit_bytes(packet)};
    struct bulk_column *columns = xcalloc(count, sizeof *columns);
    int rc = find_columns(columns, place, names, count, e);
    if (rc == 0)
        rc = prepare(b, columns, count, e);
    free(columns);
    if (rc == 0)
        return b;
    db_bulk_close(b);
    return NULL;
}

void db_bulk_close(struct db_bulk *b)
{
    if (!b)
        return;
    bulk_pipe_close(b->pipe); /* first: it may be sending */
    bulk_array_close(b->array);
    bulk_rows_close(b->rows);
    buf_free(&b->sql);
    free(b->table);
    free(b);
}

/* LOAD DATA cuts what it sends wherever it likes. */
static bool too_long(const struct db_bulk *b, const struct bulk_unit *u)
{
    size_t head = 4 * u->block.count; /* a type for each value, and whether it is NULL */
    return b->way != DB_BULK_LOCAL && b->packet_max > 0 &&
           u->block.bytes > db_packet_room(b->packet_max, head, DB_PACKET_SPARE);
}

/* The place behind what the unit took. */
static const char *fill(struct db_bulk *b, struct bulk_unit *u, const char *s, const char *end,
                        struct err *e)
{
    if (b->way != DB_BULK_LOCAL) {
        s = bulk_block_read(&u->block, s, end, b->packet);
    } else {
        buf_clear(&u->text);
        s = bulk_lines(&u->text, s, (size_t)(end - s)) < 0 ? NULL : end;
    }
    if (!s) {
        bulk_damaged(b, e);
    } else if (too_long(b, u)) {
        db_packet_too_long(e, "a row", NULL, u->block.bytes, b->packet_max);
        s = NULL;
    }
    return s;
}

int db_bulk_rows(struct db_bulk *b, const char *s, size_t len, struct err *e)
{
    const char *end = s + len;
    while (s < end) {
        s = fill(b, bulk_pipe_unit(b->pipe), s, end, e);
        if (!s || bulk_pipe_push(b->pipe, e) < 0)
            return -1;
    }
    return 0;
}

int db_bulk_finish(struct db_bulk *b, struct err *e)
{
    return bulk_pipe_finish(b->pipe, e);
}

uint64_t db_bulk_taken(const struct db_bulk *b)
{
    return b->taken;
}

uint64_t db_bulk_warnings(const struct db_bulk *b)
{
    return b->warnings;
}
