#include "restore/turn.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/text.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "restore/running.h"

#define TURNS fault_limit("turns", 2)
#define LOOK_US 100000
#define PATIENCE_MS fault_wait(300000)

/* Returns an SQL expression for the connection that a world of this priority must wait for, or 0 if
 * there is none. Worlds that load hold locks worldkeeper.turn.PRIORITY.N. One of the worlds that
 * wait holds worldkeeper.wait.PRIORITY. */
static char *turn_question(unsigned priority)
{
    SCOPED(buf_free) struct buf loading = {0}, free_ones = {0};
    struct buf b = {0};
    char lock[32];
    unsigned turns = 0;
    buf_adds(&b, "COALESCE(");
    for (unsigned p = priority; p <= CONFIG_PRIORITY_MAX; p++) {
        if (p > priority)
            buf_printf(&b, "IS_USED_LOCK('worldkeeper.wait.%u'),", p);
        for (unsigned i = 0; i < TURNS; i++, turns++) {
            snprintf(lock, sizeof lock, "'worldkeeper.turn.%u.%u'", p, i);
            buf_printf(&loading, ",IS_USED_LOCK(%s)", lock);
            buf_printf(&free_ones, "+IS_FREE_LOCK(%s)", lock);
        }
    }
    buf_printf(&b, "IF(0%s>%u,NULL,COALESCE(NULL%s)),0)", free_ones.p, turns - TURNS, loading.p);
    return b.p;
}

/* Tries to take a place among the worlds that load. Returns 1 if it is ours, 0 if another
 * connection is first, -1 on error. */
static int turn_take(struct db *db, unsigned priority, const char *sql, unsigned long *holder,
                     struct err *e)
{
    char lock[48];
    int rc = db_lock_ask(db, "SELECT $", DB_ARGS(sql), holder, e);
    if (rc != 1)
        return rc;
    rc = 0;
    for (unsigned i = 0; i < TURNS && rc == 0; i++) {
        snprintf(lock, sizeof lock, "'worldkeeper.turn.%u.%u'", priority, i);
        rc = db_lock(db, lock, 0, holder, e);
    }
    return rc;
}

int turn_wait(struct restore *r, struct err *e)
{
    struct db *db = r->db;
    const struct job *job = r->job;
    unsigned priority = job->cfg->restore_priority;
    unsigned long holder, other;
    char wait[48], t[TEXT_SHORT];
    SCOPED(xfree) char *sql = turn_question(priority);
    mono_t began = clock_mono(), deadline = mono_add(began, PATIENCE_MS);
    int got, announced = 0;
    bool waited = false;
    snprintf(wait, sizeof wait, "'worldkeeper.wait.%u'", priority);
    while ((got = turn_take(db, priority, sql, &holder, e)) == 0 &&
           !mono_reached(clock_mono(), deadline)) {
        if (!waited) {
            progress_phase(job->progress, "waiting for other worlds", 0, 0);
            job_note(job,
                     "other worlds of this server are restored first (connection %lu), for %s at "
                     "most",
                     holder, text_duration(PATIENCE_MS, t));
            fault_point("restore.waits");
        }
        waited = true;
        if (!announced) /* one of each priority is enough; a lock taken twice is held twice */
            announced = db_lock(db, wait, 0, &other, e);
        if (announced < 0)
            return -1;
        usleep(LOOK_US);
        progress_at(job->progress, 0, 0);
    }
    if (got < 0 || !waited)
        return got < 0 ? -1 : 0;
    text_duration(mono_since(clock_mono(), began), t);
    if (got)
        job_note(job, "the restore may start after waiting for other worlds for %s", t);
    else
        job_note(job, "the restore waited for other worlds for %s and now starts beside them", t);
    return announced ? db_unlock(db, wait, e) : 0;
}
