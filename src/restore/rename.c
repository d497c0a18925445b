#include "restore/rename.h"

#include <string.h>
#include <unistd.h>

#include "base/thread_group.h"
#include "mysql/blockers.h"
#include "mysql/fenced.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "mysql/sentinel.h"
#include "mysql/server.h"
#include "restore/blocked.h"
#include "restore/running.h"

#define POLL_MS 1000
#define WATCH_MS 500 /* a lock wait lasts at least one second */
#define POLL_TIMEOUT_MS 5000
#define SILENCE 20 /* consecutive polls that the server did not answer */
#define IDLE 10    /* polls that found the session idle: it may not have read the statement yet */
#define LEAST_MS 1000 /* a shorter rest of a lock wait is not waited for */

struct renaming {
    struct restore *restore;
    const char *sql;
    size_t len;
    unsigned long session;
    struct blocked *blocked; /* gets what the statement waits for; or NULL */
    struct db *side;         /* a second connection that polls the session; NULL: not open */
    struct thread_group thread;
    _Atomic bool done; /* then the members below are valid */
    int rc;
    struct err e;
};

int64_t restore_swap_estimate(size_t tables, bool mariadb)
{
    /* For each further table, MariaDB scans the list of those that were renamed already. */
    int64_t n = (int64_t)tables, each = 2 * n;
    return mariadb ? each + 2 * n * n / 1000 : each;
}

/* ---- the fence ---- */

int rename_fence(const struct restore *r, struct db *db, struct err *e)
{
    return restore_is(r)->passing
               ? 0
               : db_fence(db, &r->job->db, "swap", r->job->cfg->restore_lock_wait, e);
}

/* ---- the statement ---- */

static void statement_main(void *arg)
{
    struct renaming *r = arg;
    db_thread_begin();
    r->rc = db_exec_len(r->restore->db, r->sql, r->len, &r->e);
    db_thread_end();
    r->done = true;
}

static void close_side(struct renaming *r)
{
    db_close(r->side);
    r->side = NULL;
}

/* Opens `side`, and checks that the server was not restarted since the statement was sent. */
static bool rename_open_side(struct renaming *r, struct err *e)
{
    struct db_params p = r->restore->job->db;
    struct server_id id;
    p.read_timeout = POLL_TIMEOUT_MS;
    if (!r->side)
        r->side = db_open(&p, e);
    if (!r->side)
        return false;
    if (db_server_id(r->side, &id, e) == 0 && !server_restarted(&id, &r->restore->out->server))
        return true;
    err_set(e, ERR_UNREACHABLE, 0, "the server was restarted");
    close_side(r);
    return false;
}

/* What the second connection sees of the first one. */
enum session { GONE, IS_IDLE, AT_WORK, UNKNOWN };

/* Polls the session with a query on the second connection. If that query fails, it says nothing
 * about the statement. */
static enum session poll_session(struct renaming *r, struct err *e)
{
    struct db_seen seen;
    if (!rename_open_side(r, e))
        return UNKNOWN;
    err_clear(e);
    int rc = db_session_seen(r->side, r->session, &seen, e);
    enum session found = rc < 0                               ? UNKNOWN
                         : rc == 0                            ? GONE
                         : strcmp(seen.command, "Query") == 0 ? AT_WORK
                                                              : IS_IDLE;
    if (found == UNKNOWN)
        close_side(r);
    if (found == AT_WORK)
        progress_at(r->restore->job->progress, 0, 0);
    if (found == AT_WORK && r->blocked)
        r->blocked->wait = lock_wait_of(seen.state);
    return found;
}

static void rename_watch(void *arg)
{
    struct renaming *r = arg;
    struct err ignored;
    if (r->done)
        return;
    poll_session(r, &ignored);
}

/* Waits until the statement ends, because the server continues it even if its client is gone. */
static int wait_for_end(struct renaming *r)
{
    struct err why = {0};
    unsigned silent = 0, idle = 0;
    enum session found;
    while ((found = poll_session(r, &why)) != GONE && idle < IDLE) {
        silent = found == UNKNOWN ? silent + 1 : 0;
        idle += found == IS_IDLE;
        if (found == UNKNOWN && (why.cls == ERR_UNREACHABLE || silent > SILENCE))
            return -1;
        usleep(POLL_MS * 1000);
    }
    return 0;
}

/* Takes the lease on a new session, because the session that held it has ended with its
 * statement. */
static int rename_take_over(struct renaming *r, struct err *e)
{
    struct restore *s = r->restore;
    struct db *db = job_open(s->job, e);
    if (!db)
        return -1;
    if (galera_own_node(db, e) < 0 || db_lock_wait(db, s->job->cfg->restore_lock_wait, e) < 0 ||
        db_lease_take(db, s->job->cfg->schema, 0, e) < 0 ||
        (!s->binlog && db_exec(db, "SET SESSION sql_log_bin=0", e) < 0) ||
        rename_fence(s, db, e) < 0) {
        db_close(db);
        return -1;
    }
    db_close(s->db);
    s->db = db;
    job_note(s->job, "the world is in place: the server had completed the swap");
    return 0;
}

/* Finds out from the sentinel's row whether a swap without an answer took place. If it did not, `e`
 * keeps the error of the statement. */
static int find_outcome(struct renaming *r, struct err *e)
{
    const struct config *c = r->restore->job->cfg;
    struct db_sentinel now = {0};
    struct err why = {0};
    job_note(r->restore->job, "the server did not answer the swap; checking whether it took place");
    if (wait_for_end(r) < 0 || !rename_open_side(r, &why) ||
        db_sentinel_read(r->side, c->schema, c->sentinel, &now, &why) < 0 || now.rows != 1 ||
        strcmp(now.nonce, r->restore->made.nonce) != 0)
        return -1;
    if (rename_take_over(r, &why) == 0)
        return 0;
    return err_pass(e, &why);
}

/* Runs the statement. Its answer may be lost. */
static int restore_rename_run(struct renaming *r, struct err *e)
{
    r->done = false;
    thread_group_init(&r->thread);
    if (thread_group_start(&r->thread, statement_main, r) == 0)
        thread_group_wait(&r->thread, WATCH_MS, rename_watch, r);
    else /* no thread: not polled */
        r->rc = db_exec_len(r->restore->db, r->sql, r->len, &r->e);
    thread_group_end(&r->thread);
    return r->rc < 0 ? err_pass(e, &r->e) : 0;
}

/* Returns whether a statement that did not get its locks is attempted again. An attempt waits for
 * less than [restore] lock_wait if the client's wait for an answer is too short for it; several
 * attempts add up to it. */
static bool may_wait_on(const struct restore *s, mono_t began, const struct err *e)
{
    return e->num == DB_LOCK_TIMEOUT &&
           mono_since(clock_mono(), began) + LEAST_MS < s->job->cfg->restore_lock_wait;
}

static int rename_attempts(struct renaming *r, struct err *e)
{
    mono_t began = clock_mono();
    int rc;
    do {
        err_clear(e);
        rc = restore_rename_run(r, e);
    } while (rc < 0 && may_wait_on(r->restore, began, e));
    return rc;
}

int rename_exec(struct restore *s, const char *sql, size_t len, struct blocked *b, struct err *e)
{
    struct renaming r = {
        .restore = s, .sql = sql, .len = len, .session = db_session(s->db), .blocked = b};
    int rc = rename_attempts(&r, e);
    close_side(&r);
    return rc;
}

int rename_run(struct restore *s, const char *sql, size_t len, struct blocked *b, struct err *e)
{
    struct renaming r = {
        .restore = s, .sql = sql, .len = len, .session = db_session(s->db), .blocked = b};
    int rc = rename_attempts(&r, e);
    if (rc < 0 && db_unanswered(e) && e->num != DB_LOCK_TIMEOUT)
        rc = find_outcome(&r, e);
    close_side(&r);
    return rc;
}
