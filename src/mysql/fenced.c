#include "mysql/fenced.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/thread_group.h"
#include "mysql/blockers.h"
#include "mysql/conn_int.h"
#include "mysql/server.h"
#include "mysql/session.h"

#define ASKING_MS 250 /* from the check of the fence to the statement */
#define SHORTEST_MS (1000 + ASKING_MS)
#define RENEWED_MS 20
#define WATCH_MS 250   /* a lock wait lasts at least one second */
#define LEAST_MS 1000  /* a shorter rest of a lock wait is not waited for */
#define SECOND_MS 5000 /* the second connection's wait for an answer */

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

/* ---- connections of which every statement asks ---- */

struct fenced {
    struct db_gate gate; /* the first member */
    const char *what;
    int64_t wait;
    unsigned long session;
    struct db *second; /* NULL: none */
    struct thread_group watcher;
    bool busy, ended; /* protected by the group's lock */
};

/* Ends the statement if it waits for a lock. */
static void fenced_end_wait(struct fenced *f)
{
    struct db_seen seen;
    struct err ignored;
    if (db_session_seen(f->second, f->session, &seen, &ignored) == 1 &&
        lock_wait_of(seen.state) != LOCK_WAIT_UNKNOWN)
        db_execf(f->second, &ignored, "KILL QUERY %lu", f->session);
}

/* Watches the statements. The lock is held during a KILL, so that it cannot end a later one. */
static void fenced_watch(void *arg)
{
    struct fenced *f = arg;
    db_thread_begin();
    pthread_mutex_lock(&f->watcher.lock);
    while (!f->ended) {
        thread_group_pause(&f->watcher, WATCH_MS);
        if (f->busy && !fence_open())
            fenced_end_wait(f);
    }
    pthread_mutex_unlock(&f->watcher.lock);
    db_thread_end();
}

static void fenced_set(struct fenced *f, bool *what, bool value)
{
    pthread_mutex_lock(&f->watcher.lock);
    *what = value;
    pthread_cond_broadcast(&f->watcher.changed);
    pthread_mutex_unlock(&f->watcher.lock);
}

/* Sends the statement once. The fence is the reason of an error if the watcher has ended it. */
static int fenced_attempt(struct fenced *f, struct db *db, const char *sql, size_t len,
                          struct err *e)
{
    if ((f->wait ? db_may_change(db, f->what, f->wait, e) : db_may_change_rows(db, f->what, e)) < 0)
        return -1;
    fenced_set(f, &f->busy, true);
    int rc = db_exec_now(db, sql, len, e);
    fenced_set(f, &f->busy, false);
    if (rc == 0 || e->num != DB_INTERRUPTED || fence_open())
        return rc;
    err_clear(e);
    return fence_check(f->what, e);
}

static int fenced_exec(struct db *db, const char *sql, size_t len, struct err *e)
{
    struct fenced *f = (struct fenced *)db->gate;
    mono_t began = clock_mono();
    struct err ignored = {0};
    int rc;
    e = e ? e : &ignored;
    do {
        err_clear(e);
        rc = fenced_attempt(f, db, sql, len, e);
    } while (rc < 0 && e->num == DB_LOCK_TIMEOUT &&
             mono_since(clock_mono(), began) + LEAST_MS < f->wait);
    return rc;
}

static void fenced_free(struct db *db)
{
    struct fenced *f = (struct fenced *)db->gate;
    db->gate = NULL;
    fenced_set(f, &f->ended, true);
    thread_group_wait(&f->watcher, WATCH_MS, NULL, NULL);
    thread_group_end(&f->watcher);
    db_close(f->second);
    free(f);
}

int db_fence(struct db *db, const struct db_params *second, const char *what, int64_t wait,
             struct err *e)
{
    if (!fence_made() || db->gate)
        return 0;
    struct fenced *f = xcalloc(1, sizeof *f);
    *f = (struct fenced){
        .gate = {fenced_exec, fenced_free}, .what = what, .wait = wait, .session = db_session(db)};
    thread_group_init(&f->watcher);
    db->gate = &f->gate;
    if (!second)
        return 0;
    struct db_params p = *second;
    p.read_timeout = SECOND_MS;
    f->second = db_open(&p, e);
    int failed = f->second ? thread_group_start(&f->watcher, fenced_watch, f) : 0;
    if (f->second && !failed)
        return 0;
    if (failed)
        err_sys(e, failed, "cannot start a thread");
    fenced_free(db);
    return err_step(e, "opening a second connection, which ends what waits when the lease ends");
}

void db_fence_end(struct db *db)
{
    struct err ignored;
    if (!db->gate)
        return;
    int64_t wait = ((struct fenced *)db->gate)->wait;
    fenced_free(db);
    if (wait)
        db_lock_wait(db, wait, &ignored);
}
