/* What the journal makes of a dump's rows on their way in. */
#include "db/rows.h"
#include "db/sql.h"
#include "restore/load_int.h"

#define FOLD_BLOCK (1u << 20) /* bytes of changed rows that go to the server at once */

static void add_run(struct buf *b, const char *from, const char *to)
{
    if (from == to)
        return;
    buf_adds(b, b->len ? ",\n" : "");
    buf_add(b, from, (size_t)(to - from));
}

static int misfit(const struct loader *l, struct err *e)
{
    if (e->cls == ERR_DAMAGED)
        e->cls = ERR_GAP;
    err_step(e, "table %s: the journal does not fit the dump", l->target->name);
    return -1;
}

/* The next rows of a statement; 0: what stands there is none. */
static size_t next_rows(struct loader *l, const char *s, const char *end,
                        struct fold_span rows[FOLD_SPANS], struct err *e)
{
    size_t n = 0;
    while (n < FOLD_SPANS && s < end) {
        size_t len;
        if (fold_base_take(l->changes, s, (size_t)(end - s), &len, e) < 0)
            return 0;
        rows[n++] = (struct fold_span){s, len};
        s = load_rows_behind(s + len, end);
    }
    return n;
}

/* A row that changed is written in its place, so that rows flow all the time and keep their order;
 * what went is left out. Whole runs of rows are copied, for most of them stay as they are. */
int load_changes_base(struct loader *l, const struct format_item *item, struct err *e)
{
    const char *s = item->sql, *end = s + item->sql_len, *run = s, *run_end = s;
    struct fold_span rows[FOLD_SPANS], now[FOLD_SPANS];
    uint64_t kept = 0, hash = item->rows_hash;
    buf_clear(&l->kept);
    while (s < end) {
        size_t n = next_rows(l, s, end, rows, e);
        if (n == 0 || fold_bases(l->changes, false, now, e) < 0)
            return misfit(l, e);
        for (size_t i = 0; i < n; i++) {
            const char *next = rows[i].p + rows[i].len;
            kept += now[i].p != NULL;
            s = load_rows_behind(next, end);
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
    if (run == item->sql)
        return load_rows_give(l, run, item->sql_len, kept, hash, e);
    add_run(&l->kept, run, run_end);
    return load_rows_give(l, l->kept.p, l->kept.len, kept, hash, e);
}

static int give_changed(void *arg, const char *tuples, size_t len, uint64_t rows, struct err *e)
{
    struct loader *l = arg;
    const char *s = tuples, *end = tuples + len;
    uint64_t hash = 0;
    while (s < end) {
        unsigned fields;
        const char *next = sql_read_tuple(s, end, &fields);
        if (!next)
            return err_set(e, ERR_DAMAGED, 0, "a changed row is none");
        hash += sql_tuple_hash(s, (size_t)(next - s));
        s = load_rows_behind(next, end);
    }
    return load_rows_give(l, tuples, len, rows, hash, e);
}

/* A table that was empty in the dump has no list of columns there. */
static int open_for_changes(struct loader *l, struct err *e)
{
    struct buf columns = {0};
    struct db_tables made;
    if (load_place_read(l, l->target, &made, e) < 0)
        return -1;
    buf_addc(&columns, '(');
    db_column_list(&columns, &made.list[0]);
    buf_addc(&columns, ')');
    int rc = load_rows_open(l, columns.p, e);
    buf_free(&columns);
    db_tables_free(&made);
    return rc;
}

int load_changes_finish(struct loader *l, struct err *e)
{
    struct err why = {0};
    if (!l->open && open_for_changes(l, e) < 0)
        return -1;
    if (fold_finish(l->changes, false, FOLD_BLOCK, give_changed, l, &why) == 0)
        return 0;
    *e = why;
    return why.cls == ERR_DAMAGED ? misfit(l, e) : -1;
}
