#include "mysql/fenced.h"

#include <unistd.h>

#include "base/fence.h"
#include "mysql/session.h"

#define ASKING_MS 250 /* from the check of the fence to the statement */
#define SHORTEST_MS (1000 + ASKING_MS)
#define RENEWED_MS 20

/* Returns the rest of the lease. A lock wait has whole seconds, so less than one is not used. */
static int64_t fenced_left(void)
{
    int64_t left;
    while ((left = mono_since(fence_until(), clock_mono())) > 0 && left < SHORTEST_MS)
        usleep(RENEWED_MS * 1000);
    return left;
}

/* Checks the fence. *limit: how long the statement may wait for a lock, in ms; 0: no lease limits
 * it. */
static int fenced_limit(const char *what, int64_t wait, int64_t *limit, struct err *e)
{
    *limit = 0;
    if (!fence_made())
        return 0;
    int64_t left = fenced_left();
    if (fence_check(what, e) < 0)
        return -1;
    left = (left - ASKING_MS) / 1000 * 1000;
    *limit = wait < left ? wait : left;
    return 0;
}

int db_may_change(struct db *db, const char *what, int64_t wait, struct err *e)
{
    int64_t limit;
    if (fenced_limit(what, wait, &limit, e) < 0)
        return -1;
    return limit ? db_lock_wait(db, limit, e) : 0;
}

int db_may_change_rows(struct db *db, const char *what, struct err *e)
{
    int64_t limit;
    if (fenced_limit(what, SESSION_LOCK_WAIT_MS, &limit, e) < 0)
        return -1;
    int64_t row = limit < SESSION_ROW_WAIT_MS ? limit : SESSION_ROW_WAIT_MS;
    return limit ? db_execf(db, e, "SET SESSION lock_wait_timeout=%d, innodb_lock_wait_timeout=%d",
                            (int)(limit / 1000), (int)(row / 1000))
                 : 0;
}
