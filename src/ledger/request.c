/* Request ids: a repeated insert is refused although the row of the first one was rolled up.
 *
 * As long as the row is in the ledger, the ledger's own unique key refuses it; afterwards NAME_request
 * does, by a trigger. The id is there before the row is deleted. In a MEMORY ledger a statement locks
 * both tables before its first row, so that nothing happens between the trigger's look and the
 * key's: the trigger can come before the insert, which could not be undone. In InnoDB it comes after
 * it: whoever waited for the row to be deleted sees the id that was added in the same transaction. */
#include <inttypes.h>

#include "ledger/run_int.h"
#include "sql/literal.h"

#define EXPIRED_AT_ONCE 1000

static void table_name(struct buf *b, const struct ledger *l)
{
    struct buf name = {0};
    buf_printf(&name, "%s_request", l->cfg->name);
    sql_ident2(b, l->schema, name.p);
    buf_free(&name);
}

int ledger_request_add(struct db *db, const struct ledger *l, const char *where, struct err *e)
{
    struct buf sql = {0}, to = {0}, column = {0};
    int64_t now;
    if (ledger_server_now(db, &now, e) < 0)
        return -1;
    table_name(&to, l);
    sql_ident(&column, l->request->name);
    buf_printf(&sql, "INSERT INTO %s SELECT %s,%" PRId64 " FROM ", to.p, column.p, now);
    sql_ident2(&sql, l->schema, l->cfg->table);
    if (l->memory) {
        buf_adds(&sql, " FORCE INDEX (");
        sql_ident(&sql, l->index);
        buf_addc(&sql, ')');
    }
    buf_printf(&sql, " WHERE %s AND %s IS NOT NULL ON DUPLICATE KEY UPDATE %s.at=%" PRId64, where,
               column.p, to.p, now);
    int rc = db_exec_len(db, sql.p, sql.len, e);
    if (rc < 0)
        err_step(e, "request ids of [ledger %s]", l->cfg->name);
    if (rc < 0 && db_table_missing(e))
        err_hint(e, "worldkeeper --init makes it");
    buf_free(&sql);
    buf_free(&to);
    buf_free(&column);
    return rc;
}

int ledger_request_expire(struct db *db, const struct ledger *l, struct err *e)
{
    struct buf name = {0};
    int64_t now;
    int rc = ledger_server_now(db, &now, e);
    table_name(&name, l);
    uint64_t gone = EXPIRED_AT_ONCE;
    while (rc == 0 && gone == EXPIRED_AT_ONCE) {
        rc = db_execf(db, e, "DELETE FROM %s WHERE at<%" PRId64 " LIMIT %d", name.p,
                      now - l->cfg->request_keep, EXPIRED_AT_ONCE);
        gone = rc == 0 ? db_affected(db) : 0;
    }
    buf_free(&name);
    return rc;
}
