#include "restore/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "journal/delta_base.h"
#include "mysql/only_table.h"
#include "mysql/packet_limit.h"
#include "mysql/rows.h"
#include "restore/checks.h"
#include "restore/column_map.h"
#include "restore/constraints.h"
#include "restore/plan.h"
#include "sql/literal.h"

/* MySQL spends half as much time per row in statements of this size as in those of a dump (1 MiB),
 * because its parsed form stays in the processor's caches. With logging each statement also costs a
 * flush of the log, so that fewer of them are better on a slow disk. */
#define PIECE (32u << 10)
#define PIECE_LOGGED (128u << 10)
#define DELTA_BLOCK (1u << 20) /* bytes of changed rows that are sent at once */

int loader_begin(struct loader *l, struct err *e)
{
    l->way = db_bulk_way(l->s.db);
    int64_t packet = db_variable_number(l->s.db, "max_allowed_packet");
    l->packet_max = packet > 0 ? (uint64_t)packet : 1u << 20;
    if (shadow_session_begin(&l->s, e) < 0)
        return -1;
    if (db_is_mariadb(l->s.db))
        return 0;
    int logged = db_logs(l->s.db, e);
    l->piece = logged == 0 ? PIECE : PIECE_LOGGED;
    return logged < 0 ? -1 : 0;
}

void loader_end(struct loader *l)
{
    buf_free(&l->head);
    buf_free(&l->text);
    buf_free(&l->kept);
    buf_free(&l->scale);
}

int loader_table(struct loader *l, const char *table, const char *create, size_t len, struct err *e)
{
    struct target *t = plan_find(l->s.plan, table);
    l->target = t && !t->skip ? t : NULL;
    if (!l->target)
        return 0;
    if (!t->fresh && (t->mapped || t->as_dumped)) {
        free(t->create);
        t->create = xstrndup(create, len);
    }
    return shadow_create(&l->s, t, create, len, e);
}

/* ---- rows ---- */

/* Adds a hint to the error of a load. The server accepted these rows once, so the hint explains why
 * it refuses them now. */
static int load_failed(const struct loader *l, struct err *e)
{
    /* MySQL looks for equal keys by a hash that can differ for equal keys. */
    if (e && e->num == 1062)
        err_hint(
            e,
            "if a unique key is newer than the dump, drop it; otherwise two rows of the dump have "
            "equal keys: restore an older dump (--restore=NAME), or load all rows but one manually "
            "(gunzip -c FILE | sed 's/^INSERT INTO /INSERT IGNORE INTO /' | mysql SCHEMA)");
    l->target->refused |= l->changes != NULL;
    return err_step(e, "loading table %s", l->target->name);
}

/* Locks a shadow table in the world's schema while rows go into it. Otherwise the game's account
 * could put a view in its place. */
static int lock_shadow(struct loader *l, struct err *e)
{
    const char *shadow = l->target->shadow;
    if (l->s.plan->into)
        return 0;
    if (db_exec_with(l->s.db, "LOCK TABLES ?? WRITE", DB_ARGS(shadow), e) < 0)
        return -1;
    l->locked = true;
    return db_only_locked(l->s.db, shadow, e);
}

int loader_unlock(struct loader *l, int rc, struct err *e)
{
    if (!l->locked)
        return rc;
    l->locked = false;
    return db_exec(l->s.db, "UNLOCK TABLES", rc < 0 ? NULL : e) < 0 ? -1 : rc;
}

/* Builds the INSERT's head from the parsed column names, not from the text of the dump. */
static int begin_insert(struct loader *l, struct err *e)
{
    struct target *t = l->target;
    if (t->mapped && column_map_check(t, e) < 0)
        return -1;
    buf_clear(&l->head);
    buf_adds(&l->head, "INSERT INTO ");
    sql_ident(&l->head, t->shadow);
    for (size_t i = 0; i < t->column_count; i++) {
        buf_adds(&l->head, i ? "," : " (");
        sql_ident(&l->head, t->columns[i]);
    }
    buf_adds(&l->head, ") VALUES\n");
    return 0;
}

/* Opens a bulk load. The column types decide how values are sent: those of the live table, or of
 * the one just created. */
static struct db_bulk *open_bulk(struct loader *l, struct err *e)
{
    const struct target *t = l->target;
    SCOPED(db_tables_free) struct db_tables made = {0};
    struct db_table table;
    bool like_live = !plan_defines(l->s.plan, t);
    if (!like_live && shadow_read(&l->s, t, &made, e) < 0)
        return NULL;
    table = like_live ? *t->live : made.list[0]; /* borrows its columns */
    table.name = t->shadow;
    return db_bulk_open(l->s.db, l->way, l->packet_max, &table, t->columns, t->column_count, e);
}

/* Prepares the table for rows. `columns` is as in an INSERT: "(`a`,`b`)". Rows of durable tables,
 * and of tables whose columns changed, are sent as SQL literals instead of in bulk. */
static int open_rows(struct loader *l, const char *columns, struct err *e)
{
    struct target *t = l->target;
    column_map_note(t, columns);
    if (t->column_count == 0)
        return err_set(e, ERR_DAMAGED, 0, "table %s: rows without columns", t->name);
    l->open = true;
    if (lock_shadow(l, e) < 0)
        return -1;
    if (l->way == DB_BULK_NONE || !t->memory || t->mapped)
        return begin_insert(l, e);
    l->bulk = open_bulk(l, e);
    if (l->bulk)
        return 0;
    /* The game may be using all prepared statements that the server allows. */
    return e->num == DB_BULK_NONE_LEFT ? begin_insert(l, e) : -1;
}

/* Sends rows in one statement. The rows are copied once, because head and rows must be one text. */
static int send_rows(struct loader *l, const char *rows_sql, size_t len, struct err *e)
{
    buf_clear(&l->text);
    buf_add(&l->text, l->head.p, l->head.len);
    buf_add(&l->text, rows_sql, len);
    if (db_exec_len(l->s.db, l->text.p, l->text.len, e) < 0)
        return load_failed(l, e);
    l->target->warnings += db_warnings(l->s.db);
    return 0;
}

/* Splits rows into statements, each as large as the server accepts, or less if that is faster. */
static int load_insert_rows(struct loader *l, const char *s, size_t len, struct err *e)
{
    const char *end = s + len, *from = s;
    size_t room = db_packet_room(l->packet_max, l->head.len, DB_PACKET_SPARE);
    size_t piece = l->target->memory && l->piece && l->piece < room ? l->piece : room;
    while (len > piece && s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next)
            return err_set(e, ERR_DAMAGED, 0, "table %s: malformed row", l->target->name);
        size_t row = (size_t)(next - s);
        if (row > room)
            return db_packet_too_long(e, "a row", l->target->name, l->head.len + row,
                                      l->packet_max);
        if (s > from && (size_t)(next - from) > piece) {
            /* without the ",\n" after the last row */
            if (send_rows(l, from, (size_t)(s - 2 - from), e) < 0)
                return -1;
            from = s;
        }
        s = format_after_tuple(next, end);
    }
    return send_rows(l, from, (size_t)(end - from), e);
}

/* Sends rows to the server. `hash` is the sum of their tuples' hashes. */
static int give_rows(struct loader *l, const char *tuples, size_t len, uint64_t rows, uint64_t hash,
                     struct err *e)
{
    if (rows == 0)
        return 0;
    if (l->bulk && db_bulk_rows(l->bulk, tuples, len, e) < 0)
        return load_failed(l, e);
    if (!l->bulk && load_insert_rows(l, tuples, len, e) < 0)
        return -1;
    l->target->hash += hash;
    l->target->rows += rows;
    *l->rows += rows;
    return 0;
}

/* Waits for the server's answer to the last rows, and compares the number of rows that it took with
 * the number sent. */
static int finish_bulk(struct loader *l, struct err *e)
{
    struct target *t = l->target;
    uint64_t taken, warnings;
    if (db_bulk_finish(l->bulk, &taken, &warnings, e) < 0)
        return load_failed(l, e);
    t->warnings += warnings;
    return taken == t->rows ? 0
                            : err_set(e, ERR_QUERY, 0,
                                      "table %s: the server took %" PRIu64 " of %" PRIu64 " rows",
                                      t->name, taken, t->rows);
}

int loader_insert_raw(struct loader *l, const char *verb, const char *after_name, size_t len,
                      struct err *e)
{
    struct target *t = l->target;
    if (!t)
        return 0;
    buf_clear(&l->text);
    buf_adds(&l->text, verb);
    sql_ident(&l->text, t->shadow);
    buf_add(&l->text, after_name, len);
    if (l->text.len > db_packet_room(l->packet_max, 0, DB_PACKET_COMMAND))
        return db_packet_too_long(e, "a statement", t->name, l->text.len, l->packet_max);
    int rc = l->locked ? 0 : lock_shadow(l, e);
    if (rc == 0 && (rc = db_exec_len(l->s.db, l->text.p, l->text.len, e)) < 0)
        load_failed(l, e);
    if (rc == 0) {
        t->raw = true;
        t->warnings += db_warnings(l->s.db);
        t->rows += db_affected(l->s.db);
        *l->rows += db_affected(l->s.db);
    }
    return rc;
}

int loader_recount(struct loader *l, struct err *e)
{
    for (size_t i = 0; i < l->s.plan->count; i++) {
        struct target *t = &l->s.plan->list[i];
        if (t->recount && t->created && !t->skip &&
            db_count(l->s.db, l->s.plan->schema, t->shadow, &t->rows, e) < 0)
            return -1;
    }
    return 0;
}

int loader_empty(struct loader *l, bool truncate, struct err *e)
{
    struct target *t = l->target;
    /* HeidiSQL writes DELETE before the rows of each table. For an empty table it is skipped, so
     * that its privilege is not needed. */
    if (!t || (!truncate && !t->rows))
        return 0;
    if (!truncate && !l->locked && lock_shadow(l, e) < 0)
        return -1;
    if (db_exec_with(l->s.db, truncate ? "TRUNCATE TABLE ??" : "DELETE FROM ??", DB_ARGS(t->shadow),
                     e) < 0)
        return err_step(e, "emptying table %s", t->name);
    t->rows = 0;
    return 0;
}

/* ---- the journal's changes, applied to the dump's rows while they are loaded ---- */

static int load_misfit(const struct loader *l, struct err *e)
{
    if (e->cls == ERR_DAMAGED)
        e->cls = ERR_GAP;
    return err_step(e, "table %s: the journal does not match the dump", l->target->name);
}

static void add_run(struct buf *b, const char *from, const char *to)
{
    if (from == to)
        return;
    buf_adds(b, b->len ? ",\n" : "");
    buf_add(b, from, (size_t)(to - from));
}

/* Takes the next rows of a statement. Returns their number, or 0 if the statement is malformed. */
static size_t next_rows(struct loader *l, const char *s, const char *end,
                        struct delta_span rows[DELTA_SPANS], struct err *e)
{
    size_t n = 0;
    while (n < DELTA_SPANS && s < end) {
        size_t len;
        if (delta_base_take(l->changes, s, (size_t)(end - s), &len, e) < 0)
            return 0;
        rows[n++] = (struct delta_span){s, len};
        s = format_after_tuple(s + len, end);
    }
    return n;
}

/* Inserts rows of the dump. A changed row is written in its place, so that rows keep their order
 * and flow steadily; a deleted one is left out. Since most rows are unchanged, whole runs of them
 * are copied. */
static int give_changed_base(struct loader *l, const struct format_item *item, struct err *e)
{
    const char *s = item->sql, *end = s + item->sql_len, *run = s, *run_end = s;
    struct delta_span rows[DELTA_SPANS], now[DELTA_SPANS];
    uint64_t kept = 0, hash = item->rows_hash;
    buf_clear(&l->kept);
    while (s < end) {
        size_t n = next_rows(l, s, end, rows, e);
        if (n == 0 || delta_bases(l->changes, now, e) < 0)
            return load_misfit(l, e);
        for (size_t i = 0; i < n; i++) {
            const char *next = rows[i].p + rows[i].len;
            kept += now[i].p != NULL;
            s = format_after_tuple(next, end);
            if (now[i].p == rows[i].p) {
                run_end = next;
                continue;
            }
            hash -= sql_tuple_hash(rows[i].p, rows[i].len);
            hash += now[i].p ? sql_tuple_hash(now[i].p, now[i].len) : 0;
            add_run(&l->kept, run, run_end);
            if (now[i].p)
                add_run(&l->kept, now[i].p, now[i].p + now[i].len);
            run = run_end = s;
        }
    }
    if (run == item->sql) /* none changed: nothing was copied */
        return give_rows(l, run, item->sql_len, kept, hash, e);
    add_run(&l->kept, run, run_end);
    return give_rows(l, l->kept.p, l->kept.len, kept, hash, e);
}

int loader_hash(const char *tuples, size_t len, uint64_t *hash, struct err *e)
{
    const char *s = tuples, *end = tuples + len;
    while (s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next)
            return err_set(e, ERR_DAMAGED, 0, "malformed row among the changes");
        *hash += sql_tuple_hash(s, (size_t)(next - s));
        s = format_after_tuple(next, end);
    }
    return 0;
}

/* Appends the columns of the journal's tuples. If the table now has other columns, they are read
 * from the CREATE TABLE that the changes follow. */
static int add_all_columns(const struct loader *l, struct buf *out, struct err *e)
{
    const struct target *t = l->target;
    SCOPED(db_tables_free) struct db_tables made = {0};
    struct db_table was;
    if (!t->mapped) {
        if (shadow_read(&l->s, t, &made, e) < 0)
            return -1;
        db_column_list(out, &made.list[0]);
        return 0;
    }
    if (db_create_table_read(t->create, strlen(t->create), db_is_mariadb(l->s.db), &was) < 0)
        return err_set(e, ERR_REFUSED, 0,
                       "the columns of table %s changed, and its previous definition cannot be "
                       "parsed",
                       t->name);
    db_column_list(out, &was);
    db_table_free(&was);
    return 0;
}

static int open_all_columns(struct loader *l, struct err *e)
{
    SCOPED(buf_free) struct buf columns = {0};
    buf_addc(&columns, '(');
    if (add_all_columns(l, &columns, e) < 0)
        return -1;
    buf_addc(&columns, ')');
    return open_rows(l, columns.p, e);
}

/* Inserts rows with all columns. The first rows open the table: without rows, it does not matter
 * whether they would fit. A table that was empty in the dump has no column list there. */
static int give_changed(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    struct loader *l = arg;
    uint64_t hash = 0;
    return (!l->open && open_all_columns(l, e) < 0) || loader_hash(tuples, len, &hash, e) < 0
               ? -1
               : give_rows(l, tuples, len, rows, hash, e);
}

/* Inserts new rows after all rows of the dump. */
static int give_new_rows(struct loader *l, struct err *e)
{
    struct err why = {0};
    if (delta_finish(l->changes, false, DELTA_BLOCK, give_changed, l, &why) == 0)
        return 0;
    *e = why;
    return why.cls == ERR_DAMAGED ? load_misfit(l, e) : -1;
}

/* ---- a table ---- */

/* Notes whether the table has got a CHECK since the dump, and turns MariaDB's check of constraints
 * on only then. Dumped rows passed all others when they were written, perhaps in a session of
 * another time zone. */
static int judge_checks(struct loader *l, struct target *t, const char *create, struct err *e)
{
    bool check = t && !t->skip && plan_changed(l->s.plan, t) && !plan_defines(l->s.plan, t) &&
                 constraints_added(t->now, create);
    if (t)
        t->rechecked = check;
    if (check == l->checks || !db_is_mariadb(l->s.db))
        return 0;
    l->checks = check;
    return db_execf(l->s.db, e, "SET SESSION check_constraint_checks=%d", check);
}

int loader_own_table(struct loader *l, const char *table, const char *create, size_t len,
                     struct err *e)
{
    struct target *t = plan_find(l->s.plan, table);
    SCOPED(xfree) char *text = xstrndup(create, len);
    if (t)
        t->definition = shadow_definition_hash(create, len);
    if (judge_checks(l, t, text, e) < 0 || loader_table(l, table, create, len, e) < 0)
        return -1;
    if (!t || !l->target)
        return 0;
    const char *was = plan_defines(l->s.plan, t) ? text : t->now;
    if (t->unchecked && checks_off(&l->s, t, was ? was : text, e) < 0)
        return -1;
    if (!plan_defines(l->s.plan, t) &&
        (column_map_letters(t, create, len, e) < 0 || column_map_nulls(t, create, len, e) < 0))
        return -1;
    return shadow_scale_off(&l->s, t, create, len, &l->scale, e);
}

/* The CREATE TABLE prepares the table, and the first rows open it for inserting: only then are
 * their columns known. */
static int take_item(struct loader *l, const struct format_item *item, struct err *e)
{
    if (item->type == FORMAT_CREATE) {
        if (loader_own_table(l, item->table, item->sql, item->sql_len, e) < 0)
            return -1;
        l->changes = l->delta && l->target ? delta_find(l->delta, item->table) : NULL;
        fault_point("restore.shadows_created");
        return 0;
    }
    if (item->type != FORMAT_ROWS || !l->target)
        return 0;
    if (!l->open && open_rows(l, item->columns, e) < 0)
        return -1;
    return l->changes ? give_changed_base(l, item, e)
                      : give_rows(l, item->sql, item->sql_len, item->rows, item->rows_hash, e);
}

/* Ends a table in this order, so that (M,D) come back only when they can no longer round a row. */
static int finish_table(struct loader *l, struct err *e)
{
    if ((l->changes && give_new_rows(l, e) < 0) || (l->bulk && finish_bulk(l, e) < 0) ||
        loader_unlock(l, 0, e) < 0)
        return -1;
    return shadow_scale_on(&l->s, l->target, &l->scale, e);
}

/* Ends a table's rows, whether or not they were loaded. */
static int close_rows(struct loader *l, int rc, struct err *e)
{
    db_bulk_close(l->bulk);
    l->bulk = NULL;
    return loader_unlock(l, rc, e);
}

int loader_part(struct loader *l, struct verify_part *part, struct err *e)
{
    struct format_item item = {0};
    int rc;
    l->target = NULL;
    l->changes = NULL;
    l->open = false;
    do {
        rc = verify_part_next(part, &item, e);
        if (rc == 0)
            rc = take_item(l, &item, e);
        if (rc == 0 && l->stop && *l->stop) /* then no rows of any loader are used */
            rc = err_set(e, ERR_BUSY, 0, "stopped");
    } while (rc == 0 && item.type != FORMAT_END);
    return close_rows(l, rc == 0 && l->target ? finish_table(l, e) : rc, e);
}

int loader_rows(struct loader *l, struct target *t, loader_source *from, void *arg, struct err *e)
{
    l->target = t;
    l->changes = NULL;
    l->open = false;
    t->rows = t->hash = 0;
    int rc = from(arg, DELTA_BLOCK, give_changed, l, e);
    return close_rows(l, rc == 0 && l->bulk ? finish_bulk(l, e) : rc, e);
}

/* ---- did the rows arrive? ---- */

/* Reads back the loaded columns in the text form of a dump, and compares hashes. */
static int load_compare_content(struct loader *l, const struct target *t, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables own = {0};
    struct db_table picked = {0};
    uint64_t hash = 0, rows = 0;
    if (t->column_count == 0)
        return 0; /* no rows, so there was no column list */
    if (shadow_read(&l->s, t, &own, e) < 0)
        return -1;
    picked.columns = xcalloc(t->column_count, sizeof *picked.columns);
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = db_column_find(&own.list[0], t->columns[i]);
        if (c)
            picked.columns[picked.column_count++] = *c;
    }
    int rc = db_hash_rows(l->s.db, &picked, t->shadow, &rows, &hash, e);
    if (rc == 0 && (rows != t->rows || hash != t->hash || picked.column_count != t->column_count))
        rc = err_set(e, ERR_QUERY, 0,
                     "table %s: what the server stored differs from what was loaded (%" PRIu64
                     " warnings)",
                     t->name, t->warnings);
    free(picked.columns);
    return rc;
}

int loader_check(struct loader *l, const struct target *t, bool content, struct err *e)
{
    uint64_t rows = 0;
    if (t->skip || !t->created)
        return 0;
    if (shadow_counter(&l->s, t, e) < 0 ||
        db_count(l->s.db, l->s.plan->schema, t->shadow, &rows, e) < 0)
        return -1;
    /* A MERGE table shows the rows of other tables. */
    if (rows != t->rows && (t->memory || t->rows))
        return err_set(e, ERR_QUERY, 0,
                       "table %s: the server has %" PRIu64 " rows, but %" PRIu64 " were loaded",
                       t->name, rows, t->rows);
    if (t->mapped && t->warnings) {
        err_set(e, ERR_REFUSED, 0,
                "table %s changed since the dump and its rows no longer fit (%" PRIu64 " warnings)",
                t->name, t->warnings);
        return column_map_advise(e);
    }
    bool compare = !t->raw && !t->mapped && (content || t->warnings);
    return compare ? load_compare_content(l, t, e) : 0;
}
