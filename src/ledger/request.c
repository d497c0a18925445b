#include "ledger/request.h"

#include <inttypes.h>

#include "ledger/files.h"
#include "ledger/run_int.h"
#include "ledger/sql.h"
#include "sql/literal.h"

#define EXPIRED_AT_ONCE 1000

int ledger_request_add(struct db *db, const struct ledger *l, const char *where, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {0}, to = {0};
    const char *column = l->request->name, *at;
    int64_t now;
    if (ledger_server_now(db, &now, e) < 0)
        return -1;
    at = DB_NUMBER((uint64_t)now);
    sql_ident2(&to, l->schema, LEDGER_OWN(l->cfg, "request"));
    sql_fill(&sql, "INSERT INTO $ SELECT ??,$ FROM ??.??",
             DB_ARGS(to.p, column, at, l->schema, l->cfg->table));
    if (l->memory)
        sql_fill(&sql, " FORCE INDEX (?\?)", DB_ARGS(l->index));
    else
        buf_adds(&sql, " " DB_ONLY_TABLE);
    sql_fill(&sql,
             " WHERE $ AND ?? IS NOT NULL AND " DB_ONLY("$") " ON DUPLICATE KEY UPDATE $.at=$",
             DB_ARGS(where, column, to.p, to.p, at));
    if (ledger_may_change(l, db, e) < 0)
        return -1;
    if (db_exec_len(db, sql.p, sql.len, e) == 0)
        return 0;
    err_step(e, "request ids of [ledger %s]", l->cfg->name);
    return db_table_missing(e) ? err_hint(e, "to create it: worldkeeper --init") : -1;
}

/* Reads the dumps only if the server's clock says that an id expired. */
int ledger_request_expire(struct db *db, const struct ledger *l, const struct ledger_options *opt,
                          struct err *e)
{
    SCOPED(buf_free) struct buf name = {0};
    wall_t now;
    uint64_t oldest;
    sql_ident2(&name, l->schema, LEDGER_OWN(l->cfg, "request"));
    int rc = ledger_server_now(db, &now.ms, e);
    if (rc == 0)
        rc = ledger_ask(db, &oldest, e, "SELECT MIN(at) FROM %s " DB_ONLY_TABLE, name.p);
    if (rc == 0 && (oldest == 0 || (int64_t)oldest >= now.ms - l->cfg->request_keep))
        return 0;
    if (rc == 0)
        rc = ledger_files_now(opt->dirfd, opt->cfg, l->cfg, now, &now, e);
    /* Deletes in small batches, because the game's inserts wait for the table's lock, which a
     * long DELETE would hold. */
    for (uint64_t gone = EXPIRED_AT_ONCE; rc == 0 && gone == EXPIRED_AT_ONCE;) {
        rc = ledger_may_change(l, db, e);
        if (rc == 0)
            rc = db_execf(db, e,
                          "DELETE FROM %s WHERE at<%" PRId64 " AND " DB_ONLY("%s") " LIMIT %d",
                          name.p, now.ms - l->cfg->request_keep, name.p, EXPIRED_AT_ONCE);
        gone = rc == 0 ? db_affected(db) : 0;
    }
    return rc;
}
