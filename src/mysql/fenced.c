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

int db_may_change(struct db *db, const char *what, int64_t wait, struct err *e)
{
    if (!fence_made())
        return 0;
    int64_t left = fenced_left();
    if (fence_check(what, e) < 0)
        return -1;
    left = (left - ASKING_MS) / 1000 * 1000;
    return db_lock_wait(db, wait < left ? wait : left, e);
}

int db_may_change_rows(struct db *db, const char *what, int64_t wait, struct err *e)
{
    if (db_may_change(db, what, wait, e) < 0)
        return -1;
    return fence_made() ? db_exec(db,
                                  "SET SESSION innodb_lock_wait_timeout="
                                  "LEAST(@@lock_wait_timeout," SESSION_ROW_WAIT ")",
                                  e)
                        : 0;
}
