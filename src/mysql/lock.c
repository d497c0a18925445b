#include "mysql/lock.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sql/literal.h"

char *db_lock_name(const char *prefix, const char *what, const char *more)
{
    struct buf b = {0};
    buf_printf(&b, "CONCAT('%s.',LEFT(SHA2(", prefix);
    sql_string(&b, what, strlen(what));
    buf_printf(&b, ",256),32)%s)", more);
    return b.p;
}

int db_lock_ask(struct db *db, const char *sql, const char *const *args, unsigned long *holder,
                struct err *e)
{
    SCOPED(xfree) char *v = db_one_with(db, sql, args, e);
    if (!v)
        return e && e->cls == ERR_NONE ? err_set(e, ERR_QUERY, 0, "GET_LOCK gave no answer") : -1;
    *holder = strtoul(v, NULL, 10);
    return *holder == 0;
}

int db_lock(struct db *db, const char *name, int64_t wait, unsigned long *holder, struct err *e)
{
    /* whose session ended between the two calls has no id any more: 1, which no session of a user has */
    return db_lock_ask(db, "SELECT IF(GET_LOCK($,$)=1,0,IFNULL(IS_USED_LOCK($),1))",
                       DB_ARGS(name, DB_NUMBER((uint64_t)(wait / 1000)), name), holder, e);
}

int db_unlock(struct db *db, const char *name, struct err *e)
{
    return db_exec_with(db, "DO RELEASE_LOCK($)", DB_ARGS(name), e);
}
