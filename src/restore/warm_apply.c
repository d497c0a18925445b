/* Applies the changes of one table to the copy: by keys, or by writing the table anew. */
#include "restore/warm_apply.h"

#include "journal/delta_base.h"
#include "mysql/job.h"
#include "restore/plan.h"
#include "restore/warm_int.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/number.h"
#include "mysql/float_scale.h"
#include "mysql/rows.h"
#include "restore/load.h"
#include "sql/literal.h"

#define BESIDE DB_OWN_PREFIX "beside"
#define FRESH DB_OWN_PREFIX "fresh"
#define REBUILD_MAX (64u << 20) /* bytes in the server; each change rebuilds the table */
#define DUPLICATE 1062
#define DUPLICATE_KEY 1022

/* Changes come as the net effect on each row (journal/delta.h), so a step costs what changed, not
 * what there is. Keys and rows are put into a side table and joined. One statement per row would
 * take as long as the game took. */
struct applying {
    struct warm *w;
    struct loader l;
    const struct replay *changes;
    _Atomic uint64_t rows; /* sent */
};

/* Returns which columns of the table are in the key of its changes. The positions in that
 * key count the columns of a tuple. Returns NULL if the table has fewer columns. The caller
 * frees the array. */
static bool *key_columns(const struct db_table *now, const struct delta_table *d)
{
    const unsigned *key;
    size_t n = delta_key(d, &key), place = 0, k = 0;
    bool *in_key = xcalloc(now->column_count + 1, sizeof *in_key);
    for (size_t i = 0; i < now->column_count; i++) {
        if (now->columns[i].generated)
            continue;
        in_key[i] = k < n && key[k] == place;
        k += in_key[i];
        place++;
    }
    if (k < n)
        xfree(&in_key);
    return k < n ? NULL : in_key;
}

/* Appends the condition that an ENUM or SET has exactly the number in the side table. "t.a=k.a" can
 * use an index, but the server compares both as DOUBLE, where large numbers are equal to others. */
static void same_number(const struct db_column *c, struct buf *out)
{
    if (c->encoding != DB_INDEX)
        return;
    buf_adds(out, " AND CAST(t.");
    sql_ident(out, c->name);
    buf_adds(out, " AS UNSIGNED)<=>k.");
    sql_ident(out, c->name);
}

/* Appends "t.a=k.a" for those columns of a tuple that are in the key, or for the others, with
 * `between` between them. Returns false if the table has fewer columns. */
static bool columns_of(const struct db_table *now, const struct delta_table *d, bool of_key,
                       const char *between, struct buf *out)
{
    SCOPED(xfree) bool *in_key = key_columns(now, d);
    for (size_t i = 0; in_key && i < now->column_count; i++) {
        const struct db_column *c = &now->columns[i];
        if (c->generated || in_key[i] != of_key)
            continue;
        buf_adds(out, out->len ? between : "");
        buf_adds(out, "t.");
        sql_ident(out, c->name);
        buf_adds(out, "=k.");
        sql_ident(out, c->name);
        if (between[0] != ',')
            same_number(c, out);
    }
    return in_key != NULL;
}

struct part {
    const struct delta_table *d;
    enum delta_part what;
};

static int give_part(void *arg, size_t block, delta_rows_fn *give, void *to, struct err *e)
{
    const struct part *p = arg;
    return delta_part(p->d, p->what, block, give, to, e);
}

/* Appends the columns of the key, or all columns, for a side table, with the same types and
 * collations. They are listed because MySQL with GTIDs refuses CREATE TABLE … SELECT. ENUM and SET
 * become numbers: the server compares and converts two such columns as text, which loses a member
 * that is an empty string. */
static int define_beside(struct applying *a, const struct db_table *now,
                         const struct delta_table *d, bool of_key, struct buf *out, struct err *e)
{
    SCOPED(xfree) bool *in_key = key_columns(now, d);
    for (size_t i = 0; in_key && i < now->column_count; i++) {
        const struct db_column *c = &now->columns[i];
        if (c->generated || (of_key && !in_key[i]))
            continue;
        buf_adds(out, out->len ? "," : "");
        sql_ident(out, c->name);
        bool number = c->encoding == DB_INDEX, text = !number && c->charset[0];
        bool set = number && text_starts(c->type, "set"); /* at most 64 members; ENUM: 65,535 */
        buf_printf(out, " %s", set ? "BIGINT UNSIGNED" : number ? "SMALLINT UNSIGNED" : c->type);
        SCOPED(xfree) char *collation =
            text ? db_one_with(a->w->db,
                               "SELECT COLLATION_NAME FROM information_schema.COLUMNS WHERE "
                               "TABLE_SCHEMA=? AND TABLE_NAME=? AND COLUMN_NAME=?",
                               DB_ARGS(a->w->schema, now->name, c->name), e)
                 : NULL;
        if (text && !collation)
            return -1;
        if (collation)
            buf_printf(out, " CHARACTER SET %s COLLATE %s", c->charset, collation);
        buf_adds(out, " NULL");
    }
    return 0;
}

/* Creates the side table. Names of columns are UTF-8, but the bytes of rows are not. */
static int make_beside(struct applying *a, const struct target *t, const struct buf *columns,
                       struct err *e)
{
    struct db *db = a->w->db;
    if (db_exec(db, "DROP TABLE IF EXISTS " BESIDE, e) < 0 ||
        db_execf(db, e, "SET SESSION max_heap_table_size=%" PRIu64, t->heap) < 0 ||
        db_exec(db, "SET NAMES utf8mb4", e) < 0)
        return -1;
    int rc = db_exec_with(db, "CREATE TABLE " BESIDE " ($) ENGINE=MEMORY", DB_ARGS(columns->p), e);
    return db_exec(db, "SET NAMES binary", rc < 0 ? NULL : e) < 0 ? -1 : rc;
}

/* Puts keys or rows into a side table to be joined, so that nothing is converted or rounded on the
 * way. Sets *count to their number. */
static int put_beside(struct applying *a, const struct target *t, const struct db_table *now,
                      struct part *from, uint64_t *count, struct err *e)
{
    SCOPED(buf_free) struct buf columns = {0};
    char name[] = BESIDE;
    struct target beside = {.name = name, .shadow = name, .memory = true};
    bool keys = from->what == DELTA_GONE || from->what == DELTA_KEYS;
    if (define_beside(a, now, from->d, keys, &columns, e) < 0 || make_beside(a, t, &columns, e) < 0)
        return -1;
    int rc = loader_rows(&a->l, &beside, give_part, from, e);
    *count = beside.rows;
    plan_forget_columns(&beside);
    if (rc == 0 && beside.warnings)
        rc = err_set(e, ERR_GAP, 0, "table %s: the server gave warnings for changed rows", t->name);
    return rc;
}

static int warm_apply_misfits(const struct target *t, uint64_t rows, uint64_t there, struct err *e)
{
    return err_set(e, ERR_GAP, 0,
                   "table %s: of %" PRIu64 " changed rows, %" PRIu64 " are in the copy", t->name,
                   rows, there);
}

/* Deletes rows that the changes removed, and counts them in *gone. With `all`, deletes the rows
 * that any change touched, however many of them are there. */
static int take_out(struct applying *a, const struct target *t, const struct db_table *now,
                    struct delta_table *d, bool all, uint64_t *gone, struct err *e)
{
    struct part from = {.d = d, .what = all ? DELTA_KEYS : DELTA_GONE};
    SCOPED(buf_free) struct buf join = {0};
    uint64_t count;
    *gone = 0;
    if (!columns_of(now, d, true, " AND ", &join))
        return err_set(e, ERR_GAP, 0, "table %s has fewer columns than its changes", t->name);
    if (put_beside(a, t, now, &from, &count, e) < 0)
        return -1;
    if (count && db_exec_with(a->w->db, "DELETE t FROM " BESIDE " k STRAIGHT_JOIN ?? t ON $",
                              DB_ARGS(t->name, join.p), e) < 0)
        return -1;
    *gone = count ? db_affected(a->w->db) : 0;
    return all || *gone == count ? 0 : warm_apply_misfits(t, count, *gone, e);
}

/* Counts the rows of the side table for which the table has a row. `join`: the condition. */
static int count_joined(struct applying *a, const struct target *t, const struct buf *join,
                        uint64_t *count, struct err *e)
{
    SCOPED(xfree) char *digits =
        db_one_with(a->w->db, "SELECT COUNT(*) FROM " BESIDE " k STRAIGHT_JOIN ?? t ON $",
                    DB_ARGS(t->name, join->p), e);
    *count = digits ? strtoull(digits, NULL, 10) : 0;
    return digits ? 0 : -1;
}

/* Changes rows in place, so that indexes whose columns did not change are not touched. To take a
 * row out of a hash index, the server goes through all rows with the same value. */
static int warm_apply_change(struct applying *a, struct target *t, const struct db_table *now,
                             struct delta_table *d, struct err *e)
{
    struct part from = {.d = d, .what = DELTA_CHANGED};
    SCOPED(buf_free) struct buf join = {0}, set = {0};
    uint64_t count, there;
    columns_of(now, d, true, " AND ", &join);
    columns_of(now, d, false, ",", &set);
    if (set.len) /* ON UPDATE would change a key column that gets no value */
        columns_of(now, d, true, ",", &set);
    if (put_beside(a, t, now, &from, &count, e) < 0)
        return -1;
    if (count == 0)
        return 0;
    if (count_joined(a, t, &join, &there, e) < 0)
        return -1;
    if (there != count)
        return warm_apply_misfits(t, count, there, e);
    if (set.len && db_exec_with(a->w->db, "UPDATE " BESIDE " k STRAIGHT_JOIN ?? t ON $ SET $",
                                DB_ARGS(t->name, join.p, set.p), e) < 0)
        return -1;
    t->warnings += set.len ? db_warnings(a->w->db) : 0;
    return 0;
}

static int warm_apply_add(struct applying *a, struct target *t, struct delta_table *d,
                          struct err *e)
{
    struct part from = {.d = d, .what = DELTA_NEW};
    return loader_rows(&a->l, t, give_part, &from, e);
}

static int give_all(void *arg, size_t block, delta_rows_fn *give, void *to, struct err *e)
{
    const unsigned *key;
    struct delta_table *d = arg;
    return delta_finish(d, delta_key(d, &key) > 0, block, give, to, e);
}

/* Applies changes by key. Sets t->rows to the number of rows that the table must have then. */
static int apply_by_key(struct applying *a, struct target *t, const struct db_table *now,
                        struct delta_table *d, struct err *e)
{
    uint64_t before = t->rows, gone;
    if (take_out(a, t, now, d, false, &gone, e) < 0)
        return -1;
    fault_point("warm.taken_out");
    if (warm_apply_change(a, t, now, d, e) < 0)
        return -1;
    t->rows = 0;
    int rc = warm_apply_add(a, t, d, e);
    t->rows = rc < 0 ? before : t->rows + before - gone;
    return rc;
}

static int count_part(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    uint64_t *sum = arg;
    (void)tuples, (void)len, (void)e;
    *sum += rows;
    return 0;
}

/* Returns the number of rows that were there before the changes and are touched by them. */
static uint64_t rows_touched(const struct delta_table *d)
{
    struct err ignored;
    uint64_t touched = 0;
    delta_part(d, DELTA_GONE, 1u << 20, count_part, &touched, &ignored);
    delta_part(d, DELTA_CHANGED, 1u << 20, count_part, &touched, &ignored);
    return touched;
}

/* Applies changes after deleting all rows that they touch. This is for the time after a kill, and
 * for a value of another unique key that moves from one row to another. The killed attempt may have
 * deleted some of these rows, so their number proves nothing; the other rows are counted. A table
 * that was finished before the kill is recognized by its number of rows, which was noted. */
static int apply_anew(struct applying *a, struct target *t, const struct db_table *now,
                      struct delta_table *d, struct err *e)
{
    uint64_t held = t->rows, before, gone, rows, touched = rows_touched(d);
    if (db_count(a->w->db, a->w->schema, t->name, &before, e) < 0 ||
        take_out(a, t, now, d, true, &gone, e) < 0 ||
        db_count(a->w->db, a->w->schema, t->name, &rows, e) < 0)
        return -1;
    if (before != held && number_sum(rows, touched) != held)
        return err_set(e, ERR_CHANGED, 0,
                       "table %s of the copy has %" PRIu64 " rows that did not change instead of "
                       "%" PRIu64,
                       t->name, rows, held > touched ? held - touched : 0);
    t->rows = 0;
    if (loader_rows(&a->l, t, give_all, d, e) < 0)
        return -1;
    t->rows += rows;
    return 0;
}

/* ---- a table without a primary key ---- */

/* It does not matter which of several equal rows was deleted, but a statement cannot find rows by
 * all their bytes. So the rows are read and merged as those of a dump, and written into a new
 * table. */
struct rebuild {
    struct delta_table *d;
    struct buf kept;
    uint64_t rows;
};

static int keep_row(void *arg, const char *tuple, size_t len, struct err *e)
{
    struct rebuild *r = arg;
    int keep = delta_base(r->d, tuple, len, false, e);
    if (keep != 1)
        return keep;
    buf_adds(&r->kept, r->rows++ ? ",\n" : "");
    buf_add(&r->kept, tuple, len);
    return 0;
}

static int give_kept(void *arg, size_t block, delta_rows_fn *give, void *to, struct err *e)
{
    struct rebuild *r = arg;
    if (r->rows && give(to, r->kept.p, r->kept.len, r->rows, e) < 0)
        return -1;
    return delta_finish(r->d, false, block, give, to, e);
}

/* Reads the rows that stay into our own memory, which is why their size is limited. */
static int read_kept(struct applying *a, const struct target *t, const struct db_table *now,
                     struct rebuild *r, struct err *e)
{
    SCOPED(buf_free) struct buf from = {0};
    uint64_t rows;
    if (now->data_length > REBUILD_MAX)
        return err_set(
            e, ERR_GAP, 0,
            "table %s has no primary key, and is too large to be rewritten for each change",
            t->name);
    sql_ident(&from, t->name);
    return db_read_rows(a->w->db, now, from.p, keep_row, r, &rows, e);
}

/* Writes the table anew. A kill between the DROP and the RENAME leaves no such table: the next step
 * finds that, and the copy is loaded again. */
static int warm_apply_rebuild(struct applying *a, struct target *t, const struct db_table *now,
                              struct delta_table *d, struct err *e)
{
    struct db *db = a->w->db;
    struct rebuild r = {.d = d};
    char name[] = FRESH;
    struct target fresh = {.name = name, .shadow = name, .memory = true};
    int rc = read_kept(a, t, now, &r, e);
    if (rc == 0 && (db_exec(db, "DROP TABLE IF EXISTS " FRESH, e) < 0 ||
                    db_execf(db, e, "SET SESSION max_heap_table_size=%" PRIu64, t->heap) < 0 ||
                    db_exec_with(db, "CREATE TABLE " FRESH " LIKE ??", DB_ARGS(t->name), e) < 0 ||
                    loader_rows(&a->l, &fresh, give_kept, &r, e) < 0 ||
                    db_exec_with(db, "DROP TABLE ??", DB_ARGS(t->name), e) < 0 ||
                    db_exec_with(db, "RENAME TABLE " FRESH " TO ??", DB_ARGS(t->name), e) < 0))
        rc = -1;
    t->rows = fresh.rows;
    t->warnings += fresh.warnings;
    plan_forget_columns(&fresh);
    buf_free(&r.kept);
    return rc;
}

/* Raises the counter, because the highest number may be that of a row that was deleted again. A row
 * with that number is inserted and deleted, because ALTER TABLE would copy all rows. After a kill
 * in between, its key is deleted together with the keys of the changes, so it must be one of them.
 * If it is not, or if the row cannot be inserted, the promotion alters the table. */
static int warm_apply_raise_counter(struct applying *a, const struct target *t,
                                    const struct db_table *now, const struct delta_table *d,
                                    struct err *e)
{
    struct db *db = a->w->db;
    struct db_figures f;
    struct err ignored;
    const unsigned *key;
    const struct db_column *counter = NULL;
    for (size_t i = 0; i < now->column_count; i++)
        if (now->columns[i].counter)
            counter = &now->columns[i];
    if (!counter || t->auto_increment < 2 || t->auto_increment == UINT64_MAX ||
        t->auto_increment != replay_counter(a->changes, t->name) || delta_key(d, &key) != 1 ||
        db_tuple_place(now, counter->name) != (int)key[0])
        return 0;
    if (db_figures(db, a->w->schema, t->name, &f, e) < 0)
        return -1;
    const char *last = DB_NUMBER(t->auto_increment - 1);
    if (f.auto_increment == 0 || f.auto_increment >= t->auto_increment ||
        db_exec_with(db, "INSERT IGNORE INTO ?? ( ?? ) VALUES ($)",
                     DB_ARGS(t->name, counter->name, last), &ignored) < 0 ||
        db_affected(db) == 0)
        return 0;
    return db_exec_with(db, "DELETE FROM ?? WHERE ?? = $", DB_ARGS(t->name, counter->name, last),
                        e);
}

/* Applies changes by keys, which can be repeated after a kill. Without a key it is unknown what was
 * done. If the value of a unique key moved to another row, the rows cannot be changed one by one in
 * some orders: then all of them are deleted first. */
static int warm_apply_apply_rows(struct applying *a, struct target *t, const struct db_table *now,
                                 struct delta_table *d, struct err *e)
{
    struct delta_figures f;
    const unsigned *key;
    bool keyed = delta_key(d, &key) > 0;
    delta_figures(d, &f);
    if (db_float_scale_any(now))
        return err_set(e, ERR_GAP, 0,
                       "table %s has columns such as FLOAT(7,2), whose rows can only be loaded",
                       t->name);
    if (f.truncated)
        return db_exec_with(a->w->db, "TRUNCATE TABLE ??", DB_ARGS(t->name), e) < 0
                   ? -1
                   : loader_rows(&a->l, t, give_all, d, e);
    if (!keyed && a->w->redo)
        return err_set(e, ERR_CHANGED, 0, "table %s may already have some of the changes", t->name);
    if (!keyed)
        return warm_apply_rebuild(a, t, now, d, e);
    int rc = a->w->redo ? -1 : apply_by_key(a, t, now, d, e);
    return rc < 0 && (a->w->redo || (e->num == DUPLICATE || e->num == DUPLICATE_KEY))
               ? apply_anew(a, t, now, d, e)
               : rc;
}

/* Checks rows that the server took with warnings. The server warns of an ENUM's error value, number
 * 0, but stores it. The side table has numbers instead of members, so it takes these rows without a
 * warning, unless another value does not fit. */
static int confirm_rows(struct applying *a, const struct target *t, const struct db_table *now,
                        struct delta_table *d, struct err *e)
{
    static const enum delta_part parts[] = {DELTA_CHANGED, DELTA_NEW};
    SCOPED(buf_free) struct buf same = {0};
    const unsigned *key;
    if (delta_key(d, &key) == 0)
        return err_set(e, ERR_GAP, 0, "table %s: the server gave %" PRIu64 " warnings for its rows",
                       t->name, t->warnings);
    columns_of(now, d, true, " AND ", &same);
    for (size_t i = 0; i < now->column_count; i++)
        if (!now->columns[i].generated)
            same_number(&now->columns[i], &same);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct part from = {.d = d, .what = parts[i]};
        uint64_t count, there;
        if (put_beside(a, t, now, &from, &count, e) < 0 || count_joined(a, t, &same, &there, e) < 0)
            return -1;
        if (there != count)
            return err_set(e, ERR_GAP, 0,
                           "table %s: of %" PRIu64 " changed rows, %" PRIu64
                           " have their members of ENUM and SET",
                           t->name, count, there);
    }
    return 0;
}

/* Applies the changes of one table. The count at the end detects that another session added or
 * deleted rows, before the table is promoted. */
static int apply_table(struct applying *a, struct target *t, struct delta_table *d, struct err *e)
{
    SCOPED(db_tables_free) struct db_tables now = {0};
    struct db *db = a->w->db;
    uint64_t rows;
    progress_table(a->w->job->progress, t->name);
    if (shadow_read(&a->l.s, t, &now, e) < 0 || warm_apply_apply_rows(a, t, &now.list[0], d, e) < 0)
        return -1;
    t->auto_increment = replay_counter_after(a->changes, t->name, t->auto_increment);
    if (warm_apply_raise_counter(a, t, &now.list[0], d, e) < 0 ||
        db_count(db, a->w->schema, t->name, &rows, e) < 0)
        return -1;
    if (t->rows != rows)
        return err_set(e, ERR_GAP, 0,
                       "table %s of the copy has %" PRIu64 " rows instead of %" PRIu64, t->name,
                       rows, t->rows);
    if (t->warnings && confirm_rows(a, t, &now.list[0], d, e) < 0)
        return -1;
    t->rows = rows;
    fault_point("warm.table_applied");
    return db_exec_with(db, "UPDATE " WARM_TABLES " SET held=$,counter=$ WHERE name=?",
                        DB_ARGS(DB_NUMBER(t->rows), DB_NUMBER(t->auto_increment), t->name), e);
}

/* Applies the changes table by table. The copy is not read before all tables are done. */
int warm_apply_tables(struct warm *w, const struct replay *changes, struct err *e)
{
    struct applying a = {.w = w, .changes = changes};
    a.l = (struct loader){.s = {.db = w->db, .plan = &w->plan}, .rows = &a.rows};
    int rc = loader_begin(&a.l, e);
    for (size_t i = 0; i < w->plan.count && rc == 0; i++) {
        struct target *t = &w->plan.list[i];
        struct delta_table *d = delta_find(changes->delta, t->name);
        if (d)
            rc = apply_table(&a, t, d, e);
    }
    loader_end(&a.l);
    return rc;
}
