#include "bulk/bulk.h"

#include <stdlib.h>
#include <string.h>

#include "base/double_buffer.h"
#include "bulk/block.h"
#include "bulk/bulk_int.h"
#include "bulk/local.h"
#include "bulk/prepared.h"
#include "mysql/packet_limit.h"

/* One execution is sent as one packet, and two of them are in memory at a time. */
#define UNIT_BYTES (4u << 20)

static bool logs_as(struct db *db, const char *format)
{
    SCOPED(xfree) char *is = db_variable(db, "binlog_format");
    bool same = is && strcmp(is, format) == 0;
    return same && db_variable_number(db, "log_bin") == 1;
}

/* Chooses how rows are sent. With binlog_format=STATEMENT arrays are refused (error 4033). Other
 * prepared statements are logged with their values as text, in which MySQL does not escape bytes
 * that are not text. */
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

static int bulk_find_columns(struct bulk_column *out, const struct db_table *place,
                             char *const *names, size_t count, struct err *e)
{
    if (count == 0)
        return err_set(e, ERR_DAMAGED, 0, "table %s: rows without columns", place->name);
    for (size_t i = 0; i < count; i++) {
        const struct db_column *c = db_column_find(place, names[i]);
        if (!c)
            return err_set(e, ERR_CHANGED, 0, "table %s no longer has column %s", place->name,
                           names[i]);
        out[i] = (struct bulk_column){.name = names[i],
                                      .encoding = c->encoding,
                                      .kind = kind_of(c),
                                      .counter = c->counter,
                                      .is_unsigned = c->encoding == DB_INDEX ||
                                                     strstr(c->type, "unsigned") != NULL};
    }
    return 0;
}

static int send_unit(void *arg, unsigned half, struct err *e)
{
    struct db_bulk *b = arg;
    struct bulk_unit *u = &b->units[half];
    return b->way == DB_BULK_LOCAL   ? bulk_local_send(b, &u->text, e)
           : b->way == DB_BULK_ARRAY ? bulk_array_send(b, &u->block, e)
                                     : bulk_rows_send(b, &u->block, e);
}

static void on_edge(bool begins)
{
    if (begins)
        db_thread_begin();
    else
        db_thread_end();
}

struct db_bulk *db_bulk_open(struct db *db, enum db_bulk_way way, uint64_t packet,
                             const struct db_table *place, char *const *names, size_t count,
                             struct err *e)
{
    struct db_bulk *b = xcalloc(1, sizeof *b);
    SCOPED(xfree) struct bulk_column *columns = xcalloc(count, sizeof *columns);
    /* The server compares the size of a whole execution with max_allowed_packet. The execution
     * also occupies that much of our memory. */
    *b = (struct db_bulk){.db = db,
                          .way = way,
                          .table = xstrdup(place->name),
                          .packet_max = packet,
                          .packet = packet > 0 && packet / 2 < UNIT_BYTES ? (size_t)packet / 2
                                                                          : UNIT_BYTES};
    int rc = bulk_find_columns(columns, place, names, count, e);
    if (rc == 0) {
        b->turns = double_buffer_open(send_unit, on_edge, b);
        for (size_t i = 0; i < 2; i++)
            bulk_block_init(&b->units[i].block, columns, count);
        if (way == DB_BULK_LOCAL)
            bulk_local_open(b, columns, count);
        else
            rc = bulk_prepared_open(b, columns, count, e);
    }
    if (rc == 0)
        return b;
    db_bulk_close(b);
    return NULL;
}

void db_bulk_close(struct db_bulk *b)
{
    if (!b)
        return;
    double_buffer_close(b->turns); /* closed first, because its thread may be sending */
    for (size_t i = 0; i < 2; i++) {
        bulk_block_free(&b->units[i].block);
        buf_free(&b->units[i].text);
    }
    bulk_prepared_close(&b->prepared);
    buf_free(&b->sql);
    free(b->table);
    free(b);
}

/* Fills a unit with rows. Returns the position after the last row taken. */
static const char *bulk_fill(struct db_bulk *b, struct bulk_unit *u, const char *s, const char *end,
                             struct err *e)
{
    if (b->way == DB_BULK_LOCAL) { /* LOAD DATA may split its data anywhere */
        buf_clear(&u->text);
        s = bulk_lines(&u->text, s, (size_t)(end - s)) < 0 ? NULL : end;
    } else {
        s = bulk_block_read(&u->block, s, end, b->packet);
        size_t head = 4 * u->block.count; /* for each value its type and a NULL flag */
        if (s && b->packet_max > 0 &&
            u->block.bytes > db_packet_room(b->packet_max, head, DB_PACKET_SPARE)) {
            db_packet_too_long(e, "a row", NULL, u->block.bytes, b->packet_max);
            return NULL;
        }
    }
    if (!s)
        err_set(e, ERR_DAMAGED, 0, "table %s: rows with values that are not literals", b->table);
    return s;
}

int db_bulk_rows(struct db_bulk *b, const char *s, size_t len, struct err *e)
{
    const char *end = s + len;
    while (s < end) {
        s = bulk_fill(b, &b->units[double_buffer_half(b->turns)], s, end, e);
        if (!s || double_buffer_turn(b->turns, e) < 0)
            return -1;
    }
    return 0;
}

int db_bulk_finish(struct db_bulk *b, uint64_t *taken, uint64_t *warnings, struct err *e)
{
    int rc = double_buffer_drain(b->turns, e);
    *taken = b->taken;
    *warnings = b->warnings;
    return rc;
}
