#include <stdlib.h>
#include <string.h>

#include "core/fault.h"
#include "restore/load_int.h"

/* MySQL spends half as much on a row in statements of this size as in those of a dump (1 MiB): what
 * it makes of one stays in the processor's caches. One that is logged costs a flush of the log as
 * well, so that a slow disk wants fewer of them. */
#define PIECE (32u << 10)
#define PIECE_LOGGED (128u << 10)

/* A TIMESTAMP without a default is to have none. Without the right to it only what is made of a
 * dump's text, on a server that is told so, is made as that server makes it. */
static int bare_timestamps(struct db *db, struct err *e)
{
    struct err why = {0};
    char *off =
        db_one(db, "SELECT 1 FROM DUAL WHERE NOT @@SESSION.explicit_defaults_for_timestamp", &why);
    if (off)
        db_exec(db, "SET SESSION explicit_defaults_for_timestamp=1", &why);
    free(off);
    if (!db_unanswered(&why))
        return 0;
    *e = why;
    return -1;
}

int loader_begin(struct loader *l, struct db *db, const struct job *job, const char *schema,
                 struct plan *plan, _Atomic uint64_t *rows, struct err *e)
{
    *l = (struct loader){.db = db, .job = job, .schema = schema, .plan = plan, .rows = rows};
    l->way = db_bulk_way(db);
    int64_t packet = db_variable_number(db, "max_allowed_packet");
    l->heap_default = db_variable_number(db, "max_heap_table_size");
    l->packet_max = packet > 0 ? (uint64_t)packet : 1u << 20;
    /* A rounded decimal is only a note, and still another value. */
    if (db_exec(db, "SET SESSION sql_notes=1", e) < 0 || bare_timestamps(db, e) < 0)
        return -1;
    /* MariaDB only; MySQL checks constraints always, and dumped rows passed them once. */
    if (db_is_mariadb(db))
        return db_exec(db, "SET SESSION check_constraint_checks=0", e);
    int logged = db_logs(db, e);
    l->piece = logged == 0 ? PIECE : PIECE_LOGGED;
    return logged < 0 ? -1 : 0;
}

void loader_end(struct loader *l)
{
    buf_free(&l->head);
    buf_free(&l->text);
    buf_free(&l->kept);
    buf_free(&l->digits);
}

static int stopped(const struct loader *l, struct err *e)
{
    return l->stop && *l->stop ? err_set(e, ERR_BUSY, 0, "stopped") : 0;
}

static int finish_table(struct loader *l, struct err *e)
{
    if (l->changes && load_changes_finish(l, e) < 0)
        return -1;
    return load_rows_finish(l, e) < 0 ? -1 : load_digits_on(l, e);
}

static int take_item(struct loader *l, const struct format_item *item, struct err *e)
{
    if (item->type == FORMAT_CREATE) {
        if (loader_table(l, item->table, item->sql, item->sql_len, e) < 0)
            return -1;
        if (l->target && !plan_defines(l->plan, l->target) &&
            load_columns_letters(l->target, item->sql, item->sql_len, e) < 0)
            return -1;
        l->changes = l->fold && l->target ? fold_find(l->fold, item->table) : NULL;
        if (l->target && load_digits_off(l, item->sql, item->sql_len, e) < 0)
            return -1;
        fault_point("restore.shadows_created");
        return 0;
    }
    if (item->type != FORMAT_ROWS || !l->target)
        return 0;
    if (!l->open && load_rows_open(l, item->columns, e) < 0)
        return -1;
    return l->changes ? load_changes_base(l, item, e)
                      : load_rows_give(l, item->sql, item->sql_len, item->rows, item->rows_hash, e);
}

int loader_part(struct loader *l, struct verify_part *part, struct err *e)
{
    struct format_item item = {0};
    int rc;
    l->open = false;
    l->changes = NULL;
    do {
        rc = verify_part_next(part, &item, e);
        if (rc == 0)
            rc = take_item(l, &item, e);
        if (rc == 0)
            rc = stopped(l, e);
    } while (rc == 0 && item.type != FORMAT_END);
    if (rc == 0 && l->target)
        rc = finish_table(l, e);
    load_rows_close(l);
    return rc;
}
