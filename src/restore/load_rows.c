/* How rows go in: in bulk, or as statements. */
#include <inttypes.h>
#include <stdlib.h>

#include "db/packet.h"
#include "db/sql.h"
#include "restore/load_int.h"

static int begin_insert(struct loader *l, const char *columns, struct err *e)
{
    struct target *t = l->target;
    if (t->mapped && load_columns_check(t, e) < 0)
        return -1;
    buf_clear(&l->head);
    buf_adds(&l->head, "INSERT INTO ");
    sql_ident(&l->head, loader_place(l, t));
    buf_addc(&l->head, ' ');
    buf_adds(&l->head, columns);
    buf_adds(&l->head, " VALUES\n");
    return 0;
}

static void count_rows(struct loader *l, uint64_t rows)
{
    l->target->rows += rows;
    *l->rows += rows;
}

static int load_failed(const struct loader *l, struct err *e)
{
    /* MySQL finds equal keys by a hash that is not always equal for them. */
    if (e && e->num == 1062)
        err_hint(e,
                 "drop a unique key that is newer than the dump; else the world held two rows "
                 "whose keys are equal to the server, though it had let both in: restore an older "
                 "dump (--restore=NAME), or all rows but one by hand (gunzip -c FILE | sed "
                 "'s/^INSERT INTO /INSERT IGNORE INTO /' | mysql SCHEMA)");
    err_step(e, "loading table %s", l->target->name);
    return -1;
}

static int send_rows(struct loader *l, const char *rows_sql, size_t len, struct err *e)
{
    buf_clear(&l->text);
    buf_add(&l->text, l->head.p, l->head.len);
    buf_add(&l->text, rows_sql, len);
    if (db_exec_len(l->db, l->text.p, l->text.len, e) < 0)
        return load_failed(l, e);
    l->target->warnings += db_warnings(l->db);
    return 0;
}

/* What makes one statement, cut between rows: as much as the server takes, or less where that goes
 * faster. */
static int send_pieces(struct loader *l, const char *s, size_t len, size_t piece, struct err *e)
{
    const char *end = s + len, *from = s;
    size_t room = db_packet_room(l->packet_max, l->head.len, DB_PACKET_SPARE);
    while (s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next)
            return err_set(e, ERR_DAMAGED, 0, "table %s: a row is none", l->target->name);
        size_t row = (size_t)(next - s);
        if (row > room)
            return db_packet_too_long(e, "a row", l->target->name, l->head.len + row,
                                      l->packet_max);
        if (s > from && (size_t)(next - from) > (piece < room ? piece : room)) {
            if (send_rows(l, from, (size_t)(s - 2 - from), e) < 0)
                return -1;
            from = s;
        }
        s = load_rows_behind(next, end);
    }
    return send_rows(l, from, (size_t)(end - from), e);
}

static int insert_rows(struct loader *l, const char *tuples, size_t len, struct err *e)
{
    size_t piece = l->target->memory && l->piece ? l->piece : SIZE_MAX;
    bool fits = len <= db_packet_room(l->packet_max, l->head.len, DB_PACKET_SPARE) && len <= piece;
    return fits ? send_rows(l, tuples, len, e) : send_pieces(l, tuples, len, piece, e);
}

/* The types decide how values travel: those of the live table, or of the one just made. */
static struct db_bulk *open_bulk(struct loader *l, struct err *e)
{
    const struct target *t = l->target;
    struct db_tables made = {0};
    struct db_table place;
    if (!t->live && load_place_read(l, t, &made, e) < 0)
        return NULL;
    place = t->live ? *t->live : made.list[0];
    char *name = xstrdup(loader_place(l, t));
    place.name = name;
    struct db_bulk *b =
        db_bulk_open(l->db, l->way, l->packet_max, &place, t->columns, t->column_count, e);
    free(name);
    db_tables_free(&made);
    return b;
}

/* Durable tables, and those whose columns changed, go row by row through the server's own literals.
 */
static bool goes_in_bulk(const struct loader *l)
{
    const struct target *t = l->target;
    return l->way != DB_BULK_NONE && t->memory && !t->mapped;
}

int load_rows_open(struct loader *l, const char *columns, struct err *e)
{
    load_columns_note(l->target, columns);
    l->open = true;
    if (!goes_in_bulk(l))
        return begin_insert(l, columns, e);
    l->bulk = open_bulk(l, e);
    if (l->bulk)
        return 0;
    /* The game may hold all prepared statements that the server allows. */
    return e->num == DB_BULK_NONE_LEFT ? begin_insert(l, columns, e) : -1;
}

int load_rows_give(struct loader *l, const char *tuples, size_t len, uint64_t rows, uint64_t hash,
                   struct err *e)
{
    if (rows == 0)
        return 0;
    if (l->bulk && db_bulk_rows(l->bulk, tuples, len, e) < 0)
        return load_failed(l, e);
    if (!l->bulk && insert_rows(l, tuples, len, e) < 0)
        return -1;
    l->target->hash += hash;
    count_rows(l, rows);
    return 0;
}

static int finish_bulk(struct loader *l, struct err *e)
{
    struct target *t = l->target;
    if (db_bulk_finish(l->bulk, e) < 0)
        return load_failed(l, e);
    t->warnings += db_bulk_warnings(l->bulk);
    if (db_bulk_taken(l->bulk) == t->rows)
        return 0;
    return err_set(e, ERR_QUERY, 0, "table %s: the server took %" PRIu64 " of %" PRIu64 " rows",
                   t->name, db_bulk_taken(l->bulk), t->rows);
}

int load_rows_finish(struct loader *l, struct err *e)
{
    return l->bulk ? finish_bulk(l, e) : 0;
}

void load_rows_close(struct loader *l)
{
    db_bulk_close(l->bulk);
    l->bulk = NULL;
}

int loader_insert_raw(struct loader *l, const char *behind_name, size_t len, struct err *e)
{
    if (!l->target)
        return 0;
    buf_clear(&l->text);
    buf_adds(&l->text, "INSERT INTO ");
    sql_ident(&l->text, loader_place(l, l->target));
    buf_add(&l->text, behind_name, len);
    if (l->text.len > db_packet_room(l->packet_max, 0, DB_PACKET_COMMAND))
        return db_packet_too_long(e, "a statement", l->target->name, l->text.len, l->packet_max);
    if (db_exec_len(l->db, l->text.p, l->text.len, e) < 0)
        return load_failed(l, e);
    l->target->raw = true;
    l->target->warnings += db_warnings(l->db);
    count_rows(l, db_affected(l->db));
    return 0;
}
