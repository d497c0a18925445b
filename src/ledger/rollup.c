#include "ledger/rollup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/number.h"
#include "ledger/age.h"
#include "ledger/keep.h"
#include "ledger/limits.h"
#include "ledger/piece.h"
#include "ledger/request.h"
#include "ledger/run_int.h"
#include "ledger/sql.h"
#include "sql/literal.h"

#define MEMORY_PIECE 1000u            /* a game waits for each statement */
#define INNODB_PIECE 500u             /* rows that are locked at a time, and listed in the DELETE */
#define IDS_BETWEEN UINT64_C(1000000) /* left to the rows that are inserted meanwhile */

/* Returns whether the column of ids can hold this one. */
static bool has_room(const struct ledger *l, uint64_t id)
{
    const struct db_column *c = db_column_find(&l->table, l->cfg->id);
    uint64_t highest = text_starts(c->type, "bigint") ? INT64_MAX
                       : text_starts(c->type, "int")  ? INT32_MAX
                                                      : 0;
    return id <= highest;
}

/* Names the statements for ids that start again. The rollup positions stay, because they also show
 * which rows of a conflict file are in totals: --conflicts --apply would insert these again. Until
 * the statements are typed, new rows may get ids above `last`: the rows that are moved get higher
 * ones. The UPDATE also raises the table's counter, unless there are no rows. */
static int hint_ids(const struct run *r, uint64_t last, struct err *e)
{
    SCOPED(buf_free) struct buf id = {0}, move = {0};
    uint64_t by = number_sum(last, IDS_BETWEEN);
    sql_ident(&id, r->l->cfg->id);
    if (has_room(r->l, number_sum(last, by)))
        buf_printf(&move,
                   "if all its rows were inserted after a TRUNCATE, give them new ids: UPDATE %s "
                   "SET %s=%s+%" PRIu64 " WHERE %s<=%" PRIu64 "; then: ALTER TABLE %s "
                   "AUTO_INCREMENT=%" PRIu64 "; else only the latter, and then ",
                   r->table.p, id.p, id.p, by, id.p, last, r->table.p, last + 1);
    else
        buf_printf(&move,
                   "so that totals have new rows: ALTER TABLE %s AUTO_INCREMENT=%" PRIu64 "; then ",
                   r->table.p, last + 1);
    return err_hint(e, "%sinsert its rows again without their ids, and delete the old ones",
                    move.p);
}

/* Reads where the last run ended: the newest time in totals, and whether it was interrupted in a
 * piece. */
static int ask_rollup(struct run *r, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0};
    uint64_t last = 0;
    int64_t now = 0;
    if (ledger_ask(r->db, &last, e, "SELECT MAX(end_id) FROM %s " DB_ONLY_TABLE, r->rollup.p) < 0)
        return -1;
    if (r->l->memory && last && r->l->next_id <= last) {
        err_set(e, ERR_REFUSED, 0,
                "[ledger %s]: the ids of table %s start again: the next id is %" PRIu64
                ", but ids up to %" PRIu64
                " were already rolled up; new rows up to that id are in no total",
                r->l->cfg->name, r->l->cfg->table, r->l->next_id, last);
        return hint_ids(r, last, e);
    }
    /* Ignores times in the future, so that one wrong clock does not make later rows late. */
    if (ledger_server_now(r->db, &now, e) < 0)
        return -1;
    buf_printf(&sql,
               "SELECT MAX(end_time) FROM %s " DB_ONLY_TABLE " WHERE end_time<=", r->rollup.p);
    ledger_sql_moment(&sql, r->l, now);
    SCOPED(xfree) char *newest = db_one(r->db, sql.p, e);
    if (!newest && e->cls != ERR_NONE)
        return -1;
    if (newest && r->l->time_is_number)
        buf_printf(&r->newest, "%" PRId64, (int64_t)strtoll(newest, NULL, 10));
    else if (newest)
        sql_string(&r->newest, newest, strlen(newest));
    if (ledger_ask(r->db, &r->left_over_max, e,
                   "SELECT id FROM %s " DB_ONLY_TABLE " WHERE what='open'", r->mark.p) < 0)
        return -1;
    if (r->l->memory && r->left_over_max > r->l->table.rows)
        r->left_over_max = r->l->table.rows; /* each failing run raises it */
    r->left_over = r->left_over_max > 0;
    return 0;
}

/* Sets strict mode, so that the server refuses a value that it cannot store instead of rounding
 * it. */
static int rollup_session(struct run *r, struct err *e)
{
    /* The time zone stays UTC, because two TIMESTAMP keys can be the same time on a local clock. */
    if (db_exec(r->db, "SET SESSION sql_mode=CONCAT(@@sql_mode,',STRICT_ALL_TABLES')", e) < 0)
        return -1;
    /* A DELETE that reads all rows of a small table would wait for rows that a game has locked.
     * MariaDB does so without this setting, MySQL without the hint of ledger_sql_delete().
     * MariaDB reads larger ids as DECIMALs, for which it uses no index. */
    bool safe = !r->l->memory && r->l->mariadb && r->l->next_id <= INT64_MAX;
    if (safe && db_exec(r->db, "SET SESSION sql_safe_updates=1", e) < 0)
        return -1;
    return db_exec(r->db, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", e);
}

/* Detects a TRUNCATE between the two writes of a piece, followed by as many new rows. Row counts
 * do not show it. */
static int ids_went_on(const struct run *r, struct err *e)
{
    struct db_figures now = {0};
    if (!r->l->memory || r->opt->dry_run)
        return 0;
    if (db_figures(r->db, r->l->schema, r->l->cfg->table, &now, e) < 0)
        return -1;
    if (now.auto_increment == 0 || now.auto_increment >= r->l->next_id)
        return 0;
    return err_set(
        e, ERR_CHANGED, 0,
        "[ledger %s]: the ids of table %s started again during this run: the next id was %" PRIu64
        " and is now %" PRIu64
        "; rows inserted meanwhile may have been deleted without being in a total",
        r->l->cfg->name, r->l->cfg->table, r->l->next_id, now.auto_increment);
}

static int note_late(struct run *r, struct err *e)
{
    int64_t now = clock_wall().ms;
    if (ledger_may_change(r->l, r->db, e) < 0)
        return -1;
    return db_execf(r->db, e,
                    "INSERT INTO %s VALUES ('late',%" PRId64 ",%" PRIu64
                    "+" DB_ONLY_0("%s") ") ON DUPLICATE KEY UPDATE at=%" PRId64 ",id=id+%" PRIu64,
                    r->mark.p, now, r->out->late, r->mark.p, now, r->out->late);
}

/* Changes the marker rows last: until then, the next run treats rows up to the rollup positions
 * as left over. */
static int run_all(struct run *r, struct err *e)
{
    bool dry_run = r->opt->dry_run;
    if (rollup_session(r, e) < 0 || ask_rollup(r, e) < 0 || ledger_find_end(r, e) < 0 ||
        ledger_limits_begin(r, e) < 0)
        return -1;
    ledger_next_piece(r, NULL);
    if ((r->l->cfg->keep && !dry_run ? ledger_keep_run : ledger_all_pieces)(r, e) < 0 ||
        ids_went_on(r, e) < 0)
        return -1;
    if (dry_run)
        return 0;
    if (r->l->request && ledger_request_expire(r->db, r->l, r->opt, e) < 0)
        return -1;
    return ledger_mark_closed(r, e) < 0 || note_late(r, e) < 0
               ? -1
               : ledger_mark_write(r, "ignored", clock_wall(), r->out->ignored, e);
}

int ledger_not_made(const struct ledger *l, struct err *e)
{
    err_set(e, ERR_REFUSED, 0, "[ledger %s]: table %s_rollup does not exist", l->cfg->name,
            l->cfg->name);
    return err_hint(e, "to create it: worldkeeper --init");
}

int ledger_rollup(struct db *db, struct ledger *l, const struct ledger_options *opt,
                  struct ledger_result *out, struct err *e)
{
    struct run r = {.db = db, .l = l, .opt = opt, .out = out};
    *out = (struct ledger_result){0};
    if (!l->made)
        return ledger_not_made(l, e);
    if (l->memory && !l->index) {
        SCOPED(buf_free) struct buf sql = {0};
        ledger_sql_index(&sql, l);
        err_set(e, ERR_REFUSED, 0, "[ledger %s]: table %s has no BTREE index of key and id",
                l->cfg->name, l->cfg->table);
        return err_hint(e, "%s", sql.p);
    }
    if (ledger_check_view(db, l, e) < 0 || ledger_check_trigger(db, l, NULL, e) < 0)
        return -1;
    sql_ident2(&r.table, l->schema, l->cfg->table);
    sql_ident2(&r.rollup, l->schema, LEDGER_OWN(l->cfg, "rollup"));
    sql_ident2(&r.mark, l->schema, LEDGER_OWN(l->cfg, "mark"));
    r.piece = fault_limit("ledger.piece", l->memory ? MEMORY_PIECE : INNODB_PIECE);
    int rc = run_all(&r, e);
    buf_free(&r.table);
    buf_free(&r.rollup);
    buf_free(&r.mark);
    buf_free(&r.until);
    buf_free(&r.newest);
    buf_free(&r.after);
    return rc;
}
