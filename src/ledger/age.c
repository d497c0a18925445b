#include "ledger/age.h"

#include <inttypes.h>

#include "ledger/piece.h"
#include "ledger/run_int.h"
#include "ledger/sql.h"
#include "ledger/sums.h"
#include "sql/literal.h"

#define MARKS 64

void ledger_sql_moment(struct buf *b, const struct ledger *l, int64_t ms)
{
    if (l->time_is_number)
        buf_printf(b, "%" PRId64, ms / 1000);
    else
        buf_printf(b,
                   l->time_is_instant ? "FROM_UNIXTIME(%" PRId64 ".%03d)"
                                      : "CONVERT_TZ(FROM_UNIXTIME(%" PRId64
                                        ".%03d),'+00:00',@@global.time_zone)",
                   ms / 1000, (int)(ms % 1000));
}

/* Row callback: lowers `upto` to before each row that is not old enough, so that all ids up to
 * it are old. */
static int prefix_row(struct run *r, struct piece *p, uint64_t id, uint64_t mark, char **row,
                      const unsigned long *len, struct err *e)
{
    (void)p, (void)mark, (void)len, (void)e;
    bool old = row[FIELD_FLAG] && row[FIELD_FLAG][0] == '1';
    if (!old && id <= r->upto)
        r->upto = id ? id - 1 : 0;
    return 0;
}

/* Reads all ids in the order of keys, with a flag for rows that are old enough. */
static int find_prefix(struct run *r, int64_t until, struct err *e)
{
    struct buf newest = r->newest; /* lent to the flag's condition, restored below */
    int rc = 0;
    r->newest = (struct buf){0};
    ledger_sql_moment(&r->newest, r->l, until + 1); /* flag: not newer than `until` */
    for (bool end = false; rc == 0 && !end;) {
        SCOPED(ledger_free_piece) struct piece p = {0};
        rc = ledger_read_piece(r, &p, prefix_row, e);
        end = p.end;
        ledger_next_piece(r, &p);
    }
    buf_free(&r->after);
    buf_free(&r->newest);
    r->newest = newest;
    return rc;
}

/* A row's age counts from its arrival, which the marker rows show, so that wrong clocks delay
 * nothing. With --until, or if no marker row is old enough, the rows' own times count. */
int ledger_find_end(struct run *r, struct err *e)
{
    const struct config_ledger *c = r->l->cfg;
    int64_t now, until = r->opt->until;
    uint64_t marked = 0;
    /* Rows that are inserted during this run are left to the next one. */
    r->upto = r->l->next_id ? r->l->next_id - 1 : 0;
    if (ledger_server_now(r->db, &now, e) < 0)
        return -1;
    if (until < 0 && c->rollup_after == 0) /* no minimum age: all rows */
        return 0;
    if (until < 0) {
        until = now - c->rollup_after;
        if (ledger_ask(r->db, &marked, e,
                       "SELECT MAX(id) FROM %s " DB_ONLY_TABLE
                       " WHERE what LIKE 'm%%' AND at<=%" PRId64,
                       r->mark.p, until) < 0)
            return -1;
    }
    if (marked) {
        r->upto = marked < r->upto ? marked : r->upto;
        return 0;
    }
    if (!r->l->memory) {
        ledger_sql_moment(&r->until, r->l, until);
        return 0;
    }
    return find_prefix(r, until, e);
}

/* Returns the interval between marker rows in milliseconds. A row is rolled up at most this much
 * later than at its minimum age. */
int64_t ledger_mark_step(const struct config_ledger *cfg)
{
    int64_t step = cfg->rollup_after / 24;
    return step < 1000 ? 1000 : step;
}

/* Gives the present time and `id` to the marker rows whose time is in the future, because the clock
 * was set back after they were written. They would become old too late, and would keep new marker
 * rows from being written. No row is rolled up too early, because all ids up to `id` exist by now.
 */
static int renew_marks(struct db *db, const struct ledger *l, const char *mark, int64_t now,
                       uint64_t id, struct err *e)
{
    if (ledger_may_change(l, db, e) < 0)
        return -1;
    return db_execf(db, e,
                    "UPDATE %s " DB_ONLY_TABLE " SET at=%" PRId64 ",id=%" PRIu64
                    " WHERE what LIKE 'm%%' AND at>%" PRId64,
                    mark, now, id, now);
}

int ledger_mark(struct db *db, struct ledger *l, struct err *e)
{
    SCOPED(buf_free) struct buf mark = {0};
    int64_t now, step = ledger_mark_step(l->cfg);
    if (ledger_server_now(db, &now, e) < 0)
        return -1;
    if (l->next_id <= 1) /* there was never a row */
        return 0;
    sql_ident2(&mark, l->schema, LEDGER_OWN(l->cfg, "mark"));
    if (renew_marks(db, l, mark.p, now, l->next_id - 1, e) < 0 || ledger_may_change(l, db, e) < 0)
        return -1;
    return db_execf(db, e,
                    "INSERT INTO %s VALUES ('m%d',%" PRId64 ",%" PRIu64
                    "+" DB_ONLY_0("%s") ") ON DUPLICATE KEY UPDATE id=IF(at<%" PRId64 ",%" PRIu64
                                        ",id),at=IF(at<%" PRId64 ",%" PRId64 ",at)",
                    mark.p, (int)(now / step % MARKS), now, l->next_id - 1, mark.p, now - step,
                    l->next_id - 1, now - step, now);
}
