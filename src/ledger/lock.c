/* The lock of a ledger in the server: one rollup at a time, and none while a restore swaps tables. */
#include "ledger/ledger.h"
#include "mysql/lock.h"

int ledger_lock(struct db *db, const char *schema, const char *name, int64_t wait, struct err *e)
{
    SCOPED(xfree) char *what = xasprintf("%s.%s", schema, name);
    SCOPED(xfree) char *lock = db_lock_name("wk.ledger", what, "");
    unsigned long holder = 0;
    int got = db_lock(db, lock, wait, &holder, e);
    if (got != 0)
        return got < 0 ? -1 : 0;
    err_set(e, ERR_BUSY, 0, "[ledger %s]: it is being rolled up by connection %lu of the server",
            name, holder);
    return err_hint(e, "wait until it is done; if it hangs, in the server: KILL %lu;", holder);
}
