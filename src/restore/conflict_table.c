/* One table of a conflict file: finds which rows the world has and which can be inserted, and
 * inserts them. */
#include "restore/conflict_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fault.h"
#include "base/line.h"
#include "base/number.h"
#include "ledger/ledger.h"
#include "ledger/sql.h"
#include "mysql/job.h"
#include "mysql/only_table.h"
#include "mysql/packet_limit.h"
#include "mysql/rows.h"
#include "mysql/sentinel.h"
#include "mysql/world_tables.h"
#include "progress/local.h"
#include "restore/column_map.h"
#include "restore/conflict_files.h"
#include "sql/literal.h"

#define WORLD "`" DB_OWN_PREFIX "world`"
#define ROWS "`" DB_OWN_PREFIX "rows`"
#define TAKEN "`" DB_OWN_PREFIX "taken`"
#define NUMBERS "`" DB_OWN_PREFIX "numbers`"
#define KEY "`" DB_OWN_PREFIX "key`"
#define PIECE (256u << 10)
#define PAIRS_SHOWN 100u
/* Lower bound for the size limit of a temporary table. Its memory blocks depend on that limit. */
#define HEAP_LEAST (UINT64_C(16) << 20)

static int conflict_table_drop(struct merge *m, const char *table, struct err *e)
{
    return db_execf(m->db, e, "DROP TEMPORARY TABLE IF EXISTS %s", table);
}

/* Creates the empty tables of taken rows and of new numbers. Each table of the file needs new ones,
 * because a table keeps the size limit that the session had when it was created. */
static int make_notes(struct merge *m, struct err *e)
{
    return conflict_table_drop(m, TAKEN "," NUMBERS, e) < 0 ||
                   db_exec(m->db,
                           "CREATE TEMPORARY TABLE " TAKEN " (n BIGINT UNSIGNED PRIMARY KEY, fixed "
                           "TINYINT NOT NULL) ENGINE=MEMORY",
                           e) < 0 ||
                   db_exec(m->db,
                           "CREATE TEMPORARY TABLE " NUMBERS " (n BIGINT UNSIGNED PRIMARY KEY, id "
                           "BIGINT UNSIGNED NOT NULL) ENGINE=MEMORY",
                           e) < 0
               ? -1
               : 0;
}

/* Creates tables first, so that a missing privilege is found before anything is read. */
int merge_begin(struct merge *m, struct err *e)
{
    return make_notes(m, e);
}

/* ---- can it take the rows? ---- */

static bool conflict_table_leave_out(struct merge_table *t, const char *why)
{
    line_set(t->why, sizeof t->why, "%s", why);
    t->refused = true;
    return true;
}

/* Returns whether no row can be inserted. Columns are matched by name, and new ones need a
 * default. */
static bool conflict_table_unfit(struct merge_table *t)
{
    char text[400];
    const struct db_column *fresh;
    t->counter = t->column_count;
    t->picked = *t->live;
    t->picked.columns = xcalloc(t->column_count, sizeof *t->picked.columns);
    t->picked.column_count = t->column_count;
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = db_column_find(t->live, t->columns[i]);
        line_set(text, sizeof text, "it no longer has column %s", t->columns[i]);
        if (!c || c->generated)
            return conflict_table_leave_out(t, text);
        t->picked.columns[i] = *c;
        if (c->counter)
            t->counter = i;
    }
    if (!(fresh = column_map_lacks(t->live, t->columns, t->column_count)))
        return false;
    line_set(text, sizeof text, "its new column %s has no default", fresh->name);
    return conflict_table_leave_out(t, text);
}

/* Warns of a table whose rows were written by an earlier version, which did not record the types of
 * the columns: whether a column was altered since cannot be found out. Numbers and binary values
 * either fit or are refused by the server. */
static void warn_of_types(const struct merge *m, struct merge_table *t)
{
    char text[400];
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->picked.columns[i];
        if (c->encoding != DB_INDEX && !c->charset[0])
            continue;
        line_set(text, sizeof text,
                 "an earlier version wrote the file, without the types of the columns: if an ENUM, "
                 "SET or text column such as %s was altered since, values would change; compare "
                 "with a dump from before the loss",
                 c->name);
        if (m->deed == MERGE_COMPARE)
            line_set(t->why, sizeof t->why, "%s", text);
        else
            job_note(m->job, "table %s: %s", t->name, text);
        return;
    }
}

/* Returns whether the columns were altered since the rows were written, so that their values would
 * have another meaning now. */
static bool conflict_table_redefined(const struct merge *m, struct merge_table *t,
                                     const char *definition)
{
    struct err why = {0};
    SCOPED(xfree) char *create = xstrdup(definition);
    SCOPED(xfree) char *name = xstrdup(t->name);
    struct target was = {.name = name,
                         .live = t->live,
                         .create = create,
                         .columns = t->columns,
                         .column_count = t->column_count};
    if (!definition[0])
        return warn_of_types(m, t), false;
    return (column_map_check(&was, &why) < 0 ||
            column_map_letters(&was, definition, strlen(definition), &why) < 0) &&
           conflict_table_leave_out(t, why.text);
}

/* ---- what the world has ---- */

struct reading {
    struct merge_table *t;
    struct merge_set *ids; /* NULL: not needed */
};

/* Keeps only hashes of the world's rows: 16 bytes per row, however long the row is. */
static int see_row(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct reading *r = arg;
    size_t id_len;
    (void)e;
    merge_set_add(&r->t->world, sql_tuple_hash(tuple, len));
    const char *id = r->ids ? sql_tuple_field(tuple, len, r->t->counter, &id_len) : NULL;
    if (id)
        merge_set_add(r->ids, sql_tuple_hash(id, id_len));
    return 0;
}

static int by_old_number(const void *a, const void *b)
{
    const struct merge_number *const *x = a, *const *y = b;
    return strcmp((*x)->old, (*y)->old);
}

/* Finds which rows of the file were inserted before. A row of this world may have changed since, or
 * may be in a total by now, so it is recognized by its number. After a loss, another row may have
 * got the number. */
static void read_numbers(const struct merge *m, struct merge_table *t, const struct merge_set *ids)
{
    for (size_t i = 0; i < m->numbers.count; i++) {
        const struct merge_number *n = &m->numbers.list[i];
        if (strcmp(n->table, t->name) != 0)
            continue;
        bool rolled_up = t->ledger && strtoull(n->now, NULL, 10) <= t->rolled_up;
        uint64_t old = sql_tuple_hash(n->old, strlen(n->old));
        if (strcmp(n->world, m->nonce) == 0) {
            if (rolled_up || merge_set_has(ids, sql_tuple_hash(n->now, strlen(n->now))))
                merge_set_add(&t->done, old);
            continue;
        }
        if (rolled_up)
            merge_set_add(&t->unproven, old);
        t->elsewhere = xgrow(t->elsewhere, t->elsewhere_count, sizeof(struct merge_number *));
        t->elsewhere[t->elsewhere_count++] = n;
    }
    if (t->elsewhere_count)
        qsort(t->elsewhere, t->elsewhere_count, sizeof(struct merge_number *), by_old_number);
}

/* Copies the table inside the server first: players wait for the copy only, not for our reading. */
static int read_world(struct merge *m, struct merge_table *t, struct err *e)
{
    SCOPED(merge_set_free) struct merge_set ids = {0};
    struct db_copy copy = {
        .name = WORLD, .t = t->live, .rest = "", .bytes = db_table_bytes(t->live)};
    struct reading r = {t, NULL};
    uint64_t rows;
    for (size_t i = 0; i < m->numbers.count && t->counter < t->column_count; i++)
        if (strcmp(m->numbers.list[i].table, t->name) == 0)
            r.ids = &ids;
    int rc = db_copy_make(&m->copier, &copy, e);
    if (rc == 0)
        rc = db_read_rows(m->db, &t->picked, WORLD, see_row, &r, &rows, e);
    if (rc == 0)
        rc = conflict_table_drop(m, WORLD, e);
    if (rc == 0)
        read_numbers(m, t, &ids);
    return rc;
}

/* Notes the column with the request ids. The ids of rolled-up requests are stored in a separate
 * table, and a trigger refuses to insert them again. */
static void note_request_column(const struct merge *m, struct merge_table *t)
{
    const struct config_ledger *l = t->ledger;
    for (size_t i = 0; l && l->request && i < t->column_count; i++)
        if (strcasecmp(t->picked.columns[i].name, l->request) == 0 &&
            db_table_find(&m->live, LEDGER_OWN(l, "request")))
            t->request = t->picked.columns[i].name;
}

/* Reads the rollup position. The lock keeps a rollup from adding to totals while rows are
 * put back. */
static int read_rolled_up(struct merge *m, struct merge_table *t, struct err *e)
{
    const struct config *c = m->job->cfg;
    if (m->deed == MERGE_APPLY &&
        ledger_lock(m->db, c->schema, t->ledger->name, c->restore_lock_wait, e) < 0)
        return -1;
    SCOPED(xfree) char *end =
        db_one_with(m->db, "SELECT COALESCE(MAX(end_id),0) FROM ?? " DB_ONLY_TABLE,
                    DB_ARGS(LEDGER_OWN(t->ledger, "rollup")), e);
    t->rolled_up = end ? strtoull(end, NULL, 10) : 0;
    return end || db_table_missing(e) ? 0 : -1;
}

int merge_table_begin(struct merge *m, const char *name, const struct format_item *first,
                      struct merge_table *t, struct err *e)
{
    struct target names = {0};
    *t = (struct merge_table){.name = name, .live = db_table_find(&m->live, name)};
    column_map_note(&names, first->columns);
    t->columns = names.columns;
    t->column_count = names.column_count;
    /* Sentinel, lease and the tables of a restore are not part of the world. */
    if (text_starts(name, DB_OWN_PREFIX) || db_sentinel_own(m->job->cfg->sentinel, name))
        return conflict_table_leave_out(t, "a table of worldkeeper's own"), 0;
    if (!t->live) {
        int hidden = db_table_hidden(m->db, m->job->cfg->schema, &m->live, name, &t->hidden, e);
        if (hidden < 0)
            return err_step(e, "asking for table %s", name);
        t->live = hidden ? &t->hidden.list[0] : NULL;
    }
    if (!t->live)
        return conflict_table_leave_out(t, "the world has no such table"), 0;
    t->ledger = world_ledger_of(m->job->cfg, name);
    if (world_ledger_own(m->job->cfg, name))
        return conflict_table_leave_out(t,
                                        "totals of a ledger are computed from the ledger's rows"),
               0;
    if (m->job->cfg->progress.lock_id && text_among(name, local_bound))
        return conflict_table_leave_out(t, "its rows belong to old locks of the central store"), 0;
    if (conflict_table_unfit(t) || conflict_table_redefined(m, t, first->definition))
        return 0;
    if (t->ledger && read_rolled_up(m, t, e) < 0)
        return -1;
    note_request_column(m, t);
    progress_table(m->job->progress, name);
    return read_world(m, t, e);
}

/* ---- what the world lacks ---- */

/* Creates the temporary table with the types and character sets of the table as it is now, without
 * its keys. "ON UPDATE" and counters do not matter, since no row is ever changed there. A table
 * whose rows have the largest size or number of columns that the server accepts is skipped. */
static int make_stage(struct merge *m, struct merge_table *t, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    struct err why = {0};
    uint64_t bytes = number_sum(m->packet, number_product(t->rows, t->live->row_length + 64));
    uint64_t heap = number_sum(HEAP_LEAST, number_product(4, bytes));
    int rc = conflict_table_drop(m, ROWS, e);
    if (rc == 0)
        rc = db_execf(m->db, e, "SET SESSION max_heap_table_size=%" PRIu64, heap);
    m->copier.limit = 0;
    if (rc == 0)
        rc = make_notes(m, e);
    db_column_list(&b, &t->picked);
    if (rc == 0)
        rc = db_exec_with(m->db,
                          "CREATE TEMPORARY TABLE " ROWS " (" KEY " SERIAL PRIMARY KEY) ENGINE=$ "
                          "SELECT $ FROM ?? " DB_ONLY_TABLE " WHERE FALSE",
                          DB_ARGS(t->live->memory ? "MEMORY" : "MyISAM", b.p, t->name), &why);
    t->staged = rc == 0 && why.cls == ERR_NONE;
    if (why.num == DB_ROW_TOO_LONG || why.num == DB_MANY_COLUMNS)
        return conflict_table_leave_out(t, "the table has no room for the column by which rows "
                                           "are compared: load the file manually"),
               0;
    return why.cls == ERR_NONE ? rc : err_pass(e, &why);
}

static int send_stage(struct merge *m, struct merge_table *t, struct err *e)
{
    if (t->insert.len == 0)
        return 0;
    int rc = db_exec_len(m->db, t->insert.p, t->insert.len, e);
    buf_clear(&t->insert);
    return rc;
}

/* Adds a row. Statements have 256 KiB, or less if the server accepts only that. */
static int stage_row(struct merge *m, struct merge_table *t, const char *tuple, size_t len,
                     struct err *e)
{
    if (!t->staged && make_stage(m, t, e) < 0)
        return -1;
    if (t->refused)
        return 0;
    if (t->insert.len && t->insert.len + len > PIECE && send_stage(m, t, e) < 0)
        return -1;
    if (t->insert.len == 0) {
        buf_adds(&t->insert, "INSERT INTO " ROWS " (");
        db_column_list(&t->insert, &t->picked);
        buf_adds(&t->insert, ") VALUES ");
    } else {
        buf_addc(&t->insert, ',');
    }
    if (t->insert.len + len > db_packet_room(m->packet, 0, DB_PACKET_COMMAND))
        return db_packet_too_long(e, "a row", t->name, t->insert.len + len, m->packet);
    buf_add(&t->insert, tuple, len);
    t->stage_rows++;
    t->stage_hash += sql_tuple_hash(tuple, len);
    return 0;
}

/* Takes a row of the world out of the set that equals this row of the file except for its number
 * `id`, which is one that the row got in another world. Returns false if there is none. */
static bool take_renumbered(struct merge_table *t, const char *tuple, size_t len, const char *id,
                            size_t id_len)
{
    SCOPED(xfree) char *old = xstrndup(id, id_len);
    SCOPED(buf_free) struct buf row = {0};
    size_t low = 0, high = t->elsewhere_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(t->elsewhere[middle]->old, old) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < t->elsewhere_count && strcmp(t->elsewhere[low]->old, old) == 0; low++) {
        buf_clear(&row);
        buf_add(&row, tuple, (size_t)(id - tuple));
        buf_adds(&row, t->elsewhere[low]->now);
        buf_add(&row, id + id_len, len - (size_t)(id - tuple) - id_len);
        if (merge_set_take(&t->world, sql_tuple_hash(row.p, row.len)))
            return true;
    }
    return false;
}

/* Returns whether the world has the row: an equal one, or the one as which an earlier run inserted
 * it, possibly under a new number. */
static bool world_has(struct merge_table *t, const char *tuple, size_t len)
{
    size_t id_len;
    bool numbered = t->done.room || t->elsewhere_count;
    const char *id = numbered ? sql_tuple_field(tuple, len, t->counter, &id_len) : NULL;
    return merge_set_take(&t->world, sql_tuple_hash(tuple, len)) ||
           (id && merge_set_has(&t->done, sql_tuple_hash(id, id_len))) ||
           (id && take_renumbered(t, tuple, len, id, id_len));
}

/* Returns whether the row, which the ledger lacks, may be in a total: then neither inserting it nor
 * leaving it out is proven to be right. A file from a world that was not emptied may have rows that
 * were restored, too, and rolled up since. Nothing empties an InnoDB ledger, and its ids do not
 * show what was rolled up. */
static bool is_unproven(const struct merge *m, const struct merge_table *t, const char *tuple,
                        size_t len)
{
    size_t id_len;
    bool fresh = m->emptied && t->live->memory;
    if (!t->ledger || (fresh && !t->unproven.room))
        return false;
    const char *id = sql_tuple_field(tuple, len, t->counter, &id_len);
    bool passed = !id || !t->live->memory || strtoull(id, NULL, 10) <= t->rolled_up;
    return (!fresh && passed) || (id && merge_set_has(&t->unproven, sql_tuple_hash(id, id_len)));
}

/* A row that equals one of the world is taken out of the set, so that of several equal rows in the
 * file only as many count as equal as the world has. */
int merge_table_rows(struct merge *m, struct merge_table *t, const struct format_item *item,
                     struct err *e)
{
    const char *s = item->sql, *end = s + item->sql_len;
    while (s < end && !t->refused) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next || fields != t->column_count)
            return err_set(e, ERR_DAMAGED, 0, "table %s: malformed row", t->name);
        size_t len = (size_t)(next - s);
        if (world_has(t, s, len))
            t->equal++;
        else if (is_unproven(m, t, s, len))
            t->unproven_rows++;
        else if (stage_row(m, t, s, len, e) < 0)
            return -1;
        s = format_after_tuple(next, end);
    }
    return 0;
}

/* ---- rows whose key is taken ---- */

/* The columns of all unique keys; those of a key are adjacent. */
struct keys {
    struct key_part {
        char *index, *column;
        uint64_t prefix; /* characters; 0: the whole column */
    } * list;
    size_t count;
};

static void keys_free(struct keys *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free(k->list[i].index);
        free(k->list[i].column);
    }
    free(k->list);
    *k = (struct keys){0};
}

/* Reads all unique keys, including the primary key, because each may conflict with a row. While
 * ALTER TABLE replaces a definition, information_schema shows no key; the statement that also opens
 * the table waits for it. `locked`: this session has locked the table, so nobody can alter it. */
static int read_keys(struct merge *m, const struct merge_table *t, bool locked, struct keys *out,
                     struct err *e)
{
    int got;
    *out = (struct keys){0};
    SCOPED(buf_free) struct buf settled = {0};
    if (!locked)
        sql_fill(&settled, " AND " DB_ONLY("??"), DB_ARGS(t->name));
    struct db_rows *r = db_select_with(
        m->db, "nNU",
        "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS WHERE "
        "NON_UNIQUE=0 AND TABLE_SCHEMA=? AND TABLE_NAME=?$ ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        DB_ARGS(m->job->cfg->schema, t->name, settled.p ? settled.p : ""), e);
    while ((got = db_next(r, e)) == 1) {
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] = (struct key_part){
            .index = db_dup(r, 0), .column = db_dup(r, 1), .prefix = db_uint(r, 2)};
    }
    db_rows_end(r);
    if (got < 0)
        keys_free(out);
    return got;
}

/* Returns the index of a column in `picked`, or column_count if it is not there. */
static size_t picked_index(const struct merge_table *t, const char *column)
{
    size_t i = 0;
    while (i < t->column_count && strcasecmp(t->picked.columns[i].name, column) != 0)
        i++;
    return i;
}

static void add_side(struct buf *b, const struct key_part *p, const char *table)
{
    buf_adds(b, p->prefix ? "LEFT(" : "");
    buf_printf(b, "%s.", table);
    sql_ident(b, p->column);
    if (p->prefix)
        buf_printf(b, ",%" PRIu64 ")", p->prefix);
}

/* Records the rows whose key, which consists of these parts, is taken by another row. Rows that
 * were recorded before keep their classification. */
static int note_taken(struct merge *m, struct merge_table *t, const struct key_part *p, size_t n,
                      bool fixed, struct err *e)
{
    SCOPED(buf_free) struct buf on = {0}, name = {0};
    sql_ident(&name, t->name);
    for (size_t i = 0; i < n; i++) {
        buf_adds(&on, i ? " AND " : "");
        add_side(&on, &p[i], ROWS);
        buf_adds(&on, "=");
        add_side(&on, &p[i], name.p);
    }
    return db_exec_with(m->db,
                        "INSERT IGNORE INTO " TAKEN " SELECT " ROWS "." KEY ",$ FROM " ROWS
                        " JOIN $ " DB_ONLY_TABLE " ON $",
                        DB_ARGS(fixed ? "1" : "0", name.p, on.p), e);
}

/* Checks the unique keys with the AUTO_INCREMENT column if `counted` is set, else the other keys,
 * for which a new number does not help. */
static int note_keys(struct merge *m, struct merge_table *t, const struct keys *k, bool counted,
                     struct err *e)
{
    for (size_t i = 0, n; i < k->count; i += n) {
        bool with_counter = false;
        for (n = 0; i + n < k->count && strcmp(k->list[i + n].index, k->list[i].index) == 0; n++) {
            size_t at = picked_index(t, k->list[i + n].column);
            with_counter |= at == t->counter && at < t->column_count;
        }
        if (with_counter == counted && note_taken(m, t, &k->list[i], n, !counted, e) < 0)
            return -1;
    }
    return 0;
}

static int one_number(struct merge *m, const char *sql, const char *const *args, uint64_t *out,
                      struct err *e)
{
    SCOPED(xfree) char *one = db_one_with(m->db, sql, args, e);
    *out = one ? strtoull(one, NULL, 10) : 0;
    return one || e->cls == ERR_NONE ? 0 : -1;
}

/* Records the rows whose request is in a total already. The table's trigger refuses such a row, and
 * the whole statement would fail. */
static int note_repeated(struct merge *m, struct merge_table *t, struct err *e)
{
    if (!t->request)
        return 0;
    if (db_exec_with(m->db,
                     "INSERT IGNORE INTO " TAKEN " SELECT " ROWS "." KEY ",1 FROM " ROWS
                     " JOIN ?? q " DB_ONLY_TABLE " ON q.?\?=" ROWS ".??",
                     DB_ARGS(LEDGER_OWN(t->ledger, "request"), t->request, t->request), e) < 0)
        return -1;
    t->repeated = db_affected(m->db);
    if (t->repeated)
        line_set(t->why, sizeof t->why,
                 "%" PRIu64 " of its rows have a request id that ledger %s has already counted",
                 t->repeated, t->ledger->name);
    return 0;
}

/* Finds the rows whose key is taken. The keys that a new number does not change come first, because
 * the first classification of a row stays. */
static int find_taken(struct merge *m, struct merge_table *t, const struct keys *k, struct err *e)
{
    if (note_repeated(m, t, e) < 0 || note_keys(m, t, k, false, e) < 0 ||
        note_keys(m, t, k, true, e) < 0)
        return -1;
    /* In a MEMORY ledger, a row with an id up to the rollup position is in no total, so its id
     * counts as taken. */
    bool passed = t->ledger && t->live->memory && t->counter < t->column_count;
    if ((passed &&
         db_exec_with(
             m->db, "INSERT IGNORE INTO " TAKEN " SELECT " KEY ",0 FROM " ROWS " WHERE ?? <=$",
             DB_ARGS(t->picked.columns[t->counter].name, DB_NUMBER(t->rolled_up)), e) < 0) ||
        one_number(m, "SELECT COUNT(*) FROM " TAKEN, DB_ARGS(NULL), &t->taken, e) < 0)
        return -1;
    return one_number(m, "SELECT COUNT(*) FROM " TAKEN " WHERE fixed", DB_ARGS(NULL), &t->stuck, e);
}

/* ---- new numbers ---- */

/* Returns the highest number that the AUTO_INCREMENT column can take. */
static uint64_t conflict_table_highest(const struct db_column *c)
{
    static const struct {
        const char *type;
        unsigned bits;
    } types[] = {{"tinyint", 8}, {"smallint", 16}, {"mediumint", 24}, {"int", 32}, {"bigint", 64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (text_starts(c->type, types[i].type)) {
            unsigned bits = types[i].bits - (strstr(c->type, "unsigned") == NULL);
            return bits == 64 ? UINT64_MAX - 1 : (UINT64_C(1) << bits) - 1;
        }
    return 1u << 24; /* FLOAT: up to here it holds every integer exactly */
}

/* The server assigns `offset`, `offset` + `step`, …, so that the games of several servers can share
 * a table's numbers. */
struct numbering {
    uint64_t first, step;
};

/* Returns the first of the server's numbers from `least` on. The server ignores an offset above the
 * step. Pure. */
static uint64_t number_from(uint64_t least, uint64_t step, uint64_t offset)
{
    offset = offset > step ? 1 : offset;
    if (least <= offset)
        return offset;
    uint64_t behind = (least - offset) % step;
    return behind && least <= UINT64_MAX - step ? least + step - behind : least;
}

static int read_numbering(struct merge *m, struct numbering *out, uint64_t *offset, struct err *e)
{
    uint64_t step;
    if (one_number(m, "SELECT @@auto_increment_increment", DB_ARGS(NULL), &step, e) < 0 ||
        one_number(m, "SELECT @@auto_increment_offset", DB_ARGS(NULL), offset, e) < 0)
        return -1;
    out->step = step ? step : 1;
    return 0;
}

/* Finds numbers above those of the table, its counter and the rows to be inserted. */
static int find_numbering(struct merge *m, const struct merge_table *t, struct numbering *out,
                          struct err *e)
{
    const char *column = t->picked.columns[t->counter].name;
    struct db_figures f = {0};
    uint64_t world = 0, rows = 0, least, offset;
    if (one_number(m, "SELECT GREATEST(MAX(?? ),0) FROM ?? " DB_ONLY_TABLE,
                   DB_ARGS(column, t->name), &world, e) < 0 ||
        one_number(m, "SELECT GREATEST(MAX(?? ),0) FROM " ROWS, DB_ARGS(column), &rows, e) < 0 ||
        db_figures(m->db, m->job->cfg->schema, t->name, &f, e) < 0 ||
        read_numbering(m, out, &offset, e) < 0)
        return -1;
    least = (world > rows ? world : rows) + 1;
    if (f.auto_increment > least)
        least = f.auto_increment;
    if (t->rolled_up >= least)
        least = t->rolled_up + 1;
    out->first = number_from(least, out->step, offset);
    return 0;
}

/* Records why some rows get no new number, although --renumber was given. */
static void say_stuck(struct merge_table *t)
{
    if (t->stuck > t->repeated)
        line_add(t->why, sizeof t->why,
                 "%s%" PRIu64 " of its rows collide with other rows in a unique key other than the "
                 "AUTO_INCREMENT key",
                 t->why[0] ? "; " : "", t->stuck - t->repeated);
}

/* Gives new numbers only to rows whose AUTO_INCREMENT key is taken and whose other keys are
 * free. */
static int give_numbers(struct merge *m, struct merge_table *t, struct err *e)
{
    struct numbering by;
    uint64_t want = t->taken - t->stuck;
    t->renumbered = 0;
    if (!m->renumber || t->taken == 0)
        return 0;
    if (t->counter == t->column_count) {
        line_set(t->why, sizeof t->why,
                 "it has no AUTO_INCREMENT key, so rows whose key is taken cannot get a new one");
        return 0;
    }
    say_stuck(t);
    if (want == 0)
        return 0;
    if (find_numbering(m, t, &by, e) < 0)
        return -1;
    const struct db_column *c = &t->picked.columns[t->counter];
    if (by.first > conflict_table_highest(c) ||
        want - 1 > (conflict_table_highest(c) - by.first) / by.step) {
        line_set(t->why, sizeof t->why, "its column %s has no numbers left", c->name);
        return 0;
    }
    t->renumbered = want;
    return db_execf(m->db, e,
                    "INSERT INTO " NUMBERS " SELECT n, %" PRIu64 "+%" PRIu64
                    "*(ROW_NUMBER() OVER (ORDER BY n)-1) FROM " TAKEN " WHERE NOT fixed",
                    by.first, by.step);
}

/* ---- inserting ---- */

#define INSERTABLE                                                                                 \
    " FROM " ROWS " LEFT JOIN " TAKEN " ON " TAKEN ".n=" ROWS "." KEY " LEFT JOIN " NUMBERS        \
    " ON " NUMBERS ".n=" ROWS "." KEY " WHERE (" TAKEN ".n IS NULL OR " NUMBERS ".n IS NOT NULL"

/* Counts the table's rows. Returns 0 in `out` for a transactional table, because a failed statement
 * leaves no rows there. */
static int count_rows(struct merge *m, const struct merge_table *t, uint64_t *out, struct err *e)
{
    *out = 0;
    if (t->live->transactional)
        return 0;
    return one_number(m, "SELECT COUNT(*) FROM ?? " DB_ONLY_TABLE, DB_ARGS(t->name), out, e);
}

/* Counts the rows that a failed statement inserted. The table is locked, so no other session has
 * written since `before` was counted. */
static void count_what_is_in(struct merge *m, struct merge_table *t, uint64_t before)
{
    struct err ignored;
    uint64_t after;
    t->unsure = count_rows(m, t, &after, &ignored) < 0;
    t->inserted = t->unsure || after < before ? 0 : after - before;
}

/* Inserts the rows. With IGNORE, a row that breaks a CHECK is skipped and counted, and the other
 * rows are inserted. */
static int conflict_table_insert_rows(struct merge *m, struct merge_table *t, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    buf_adds(&b, "INSERT IGNORE INTO ");
    sql_ident(&b, t->name);
    buf_adds(&b, " (");
    db_column_list(&b, &t->picked);
    buf_adds(&b, ") SELECT ");
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *c = &t->picked.columns[i];
        /* ENUM and SET are copied as numbers, as in a dump: as text some values would be lost. */
        bool number = c->encoding == DB_INDEX;
        buf_adds(&b, i ? "," : "");
        buf_adds(&b, i == t->counter ? "IFNULL(" NUMBERS ".id," : "");
        buf_adds(&b, number ? "CAST(" ROWS "." : ROWS ".");
        sql_ident(&b, c->name);
        buf_adds(&b, number ? " AS UNSIGNED)" : "");
        buf_adds(&b, i == t->counter ? ")" : "");
    }
    buf_adds(&b, INSERTABLE ")");
    uint64_t before = 0;
    if (count_rows(m, t, &before, e) < 0)
        return -1;
    int rc = db_exec_len(m->db, b.p, b.len, e);
    if (rc < 0) {
        err_step(e, "putting rows into table %s", t->name);
        count_what_is_in(m, t, before);
    } else {
        t->inserted = db_affected(m->db);
    }
    uint64_t wanted = t->stage_rows - t->taken + t->renumbered;
    if (rc == 0 && t->inserted < wanted)
        line_set(t->why, sizeof t->why,
                 "the server rejected %" PRIu64
                 " of its rows, for example because of a CHECK constraint",
                 wanted - t->inserted);
    return rc;
}

/* A number that JSON readers could not represent exactly becomes a string. */
static json_t *number_json(const char *digits)
{
    errno = 0;
    long long n = strtoll(digits, NULL, 10);
    return errno ? json_string(digits) : json_integer(n);
}

/* Records the old and new numbers of the rows that were (or would be) inserted; the result gets the
 * first ones. */
static int note_numbers(struct merge *m, struct merge_table *t, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0}, id = {0};
    int got;
    if (t->counter == t->column_count)
        return 0;
    const char *column = t->picked.columns[t->counter].name;
    sql_ident(&id, column);
    buf_printf(&b, "SELECT " ROWS ".%s," NUMBERS ".id" INSERTABLE, id.p);
    if (m->deed == MERGE_APPLY) {
        buf_printf(&b, ") AND IFNULL(" NUMBERS ".id," ROWS ".%s) IN (SELECT %s FROM ", id.p, id.p);
        sql_ident(&b, t->name);
        buf_adds(&b, " " DB_ONLY_TABLE);
    }
    buf_adds(&b, ") ORDER BY " ROWS "." KEY);
    struct db_rows *r = db_select(m->db, "DD", b.p, e);
    t->pairs = json_array();
    uint64_t renumbered = 0;
    while ((got = db_next(r, e)) == 1) {
        const char *old = db_value(r, 0), *now = db_value(r, 1);
        if (!old)
            continue;
        renumbered += now != NULL;
        if (now && json_array_size(t->pairs) < PAIRS_SHOWN)
            json_array_append_new(t->pairs,
                                  json_pack("[o, o]", number_json(old), number_json(now)));
        if (m->deed == MERGE_APPLY)
            merge_numbers_add(&m->numbers, t->name, column, old, now ? now : old, m->nonce);
    }
    db_rows_end(r);
    if (got == 0)
        t->renumbered = renumbered;
    return got;
}

static int conflict_table_lock(struct merge *m, const struct merge_table *t, struct err *e)
{
    if (!t->request)
        return db_exec_with(m->db, "LOCK TABLES ?? WRITE", DB_ARGS(t->name), e);
    return db_exec_with(m->db, "LOCK TABLES ?? WRITE, ?? AS q READ",
                        DB_ARGS(t->name, LEDGER_OWN(t->ledger, "request")), e);
}

/* Records the rows whose keys are taken, unless the table is left out. */
static int compare_keys(struct merge *m, struct merge_table *t, bool locked, struct err *e)
{
    SCOPED(keys_free) struct keys keys = {0};
    if (read_keys(m, t, locked, &keys, e) < 0)
        return -1;
    /* A key part that is not in the file (a generated column, an expression) cannot be compared. */
    for (size_t i = 0; i < keys.count && !t->refused; i++) {
        char text[400];
        line_set(text, sizeof text, "its unique key %s has columns that are not in the file",
                 keys.list[i].index);
        if (picked_index(t, keys.list[i].column) == t->column_count)
            conflict_table_leave_out(t, text);
    }
    return t->refused ? 0 : find_taken(m, t, &keys, e);
}

/* Locks the table, so that no other session writes between checking keys, inserting, and finding
 * which rows were inserted. If the statement fails halfway, some of them were. */
static int conflict_table_apply_rows(struct merge *m, struct merge_table *t, struct err *e)
{
    struct err ignored;
    size_t before = m->numbers.count;
    if (conflict_table_lock(m, t, e) < 0)
        return -1;
    int rc = db_only_locked(m->db, t->name, e);
    if (rc == 0)
        rc = compare_keys(m, t, true, e);
    if (rc == 0 && !t->refused)
        rc = give_numbers(m, t, e);
    if (rc == 0 && !t->refused) {
        rc = conflict_table_insert_rows(m, t, e);
        if (note_numbers(m, t, rc < 0 ? &ignored : e) < 0)
            rc = -1;
    }
    if (db_exec(m->db, "UNLOCK TABLES", rc < 0 ? &ignored : e) < 0)
        rc = -1;
    if (m->numbers.count > before &&
        merge_numbers_write(m->job->dirfd, m->file, &m->numbers, rc < 0 ? &ignored : e) < 0)
        rc = -1;
    return rc;
}

static int conflict_table_finish(struct merge *m, struct merge_table *t, struct err *e)
{
    uint64_t hash = 0, rows = 0;
    if (send_stage(m, t, e) < 0 ||
        db_hash_rows(m->db, &t->picked, DB_OWN_PREFIX "rows", &rows, &hash, e) < 0)
        return -1;
    /* The rows must be unchanged after conversion to the table's types. */
    if (rows != t->stage_rows || hash != t->stage_hash)
        return conflict_table_leave_out(t, "its columns changed, and the rows no longer fit"), 0;
    int rc =
        m->deed == MERGE_APPLY ? conflict_table_apply_rows(m, t, e) : compare_keys(m, t, false, e);
    if (rc == 0 && !t->refused && m->deed == MERGE_DRY) {
        rc = give_numbers(m, t, e) < 0 ? -1 : note_numbers(m, t, e);
        t->inserted = t->stage_rows - t->taken + t->renumbered;
    }
    if (rc == 0 && m->deed == MERGE_APPLY)
        fault_point("conflicts.table_done");
    return rc;
}

static void say_unproven(struct merge_table *t)
{
    if (t->unproven_rows)
        line_add(t->why, sizeof t->why,
                 "%s%" PRIu64 " of its rows may be in totals of ledger %s already, and nothing "
                 "shows whether they are: they stay in the file",
                 t->why[0] ? "; " : "", t->unproven_rows, t->ledger->name);
}

int merge_table_end(struct merge *m, struct merge_table *t, struct err *e)
{
    int rc = t->refused || !t->staged ? 0 : conflict_table_finish(m, t, e);
    if (!t->refused)
        say_unproven(t);
    return rc;
}

void merge_table_free(struct merge *m, struct merge_table *t)
{
    if (t->staged)
        conflict_table_drop(m, ROWS, NULL);
    for (size_t i = 0; i < t->column_count; i++)
        free(t->columns[i]);
    free(t->columns);
    free(t->picked.columns);
    db_tables_free(&t->hidden);
    merge_set_free(&t->world);
    merge_set_free(&t->done);
    merge_set_free(&t->unproven);
    free(t->elsewhere);
    buf_free(&t->insert);
    json_decref(t->pairs);
    *t = (struct merge_table){0};
}
