#include "restore/crew.h"

#include <stdlib.h>
#include <string.h>

#include "core/thread.h"
#include "db/query.h"
#include "restore/allowed.h"

/* More than these gain little: the server's own work on one table is not divided. */
#define CREW_AUTO 4u
#define CREW_MAX 16u
#define TELL_MS 100

/* The first connection holds the lease itself. */
_Static_assert(CREW_MAX - 1 <= DB_LEASE_SLOTS, "each further connection needs a slot of its own");

struct crew;
struct member {
    struct crew *crew;
    struct db *db;
    pthread_t thread;
    bool running;
};

struct crew {
    struct crew_work *w;
    struct verify_file *file;
    size_t *order; /* tables, biggest first */
    size_t count;
    _Atomic size_t next;
    _Atomic uint64_t rows;
    _Atomic bool stop;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct err failed; /* the first failure */
    unsigned at_work;
    size_t table; /* last one begun */
    pthread_t checker;
    bool checking;
    struct member members[CREW_MAX];
};

unsigned crew_size(unsigned configured, size_t tables)
{
    unsigned want = configured ? configured : thread_processors(CREW_AUTO);
    if (want > CREW_MAX)
        want = CREW_MAX;
    if (want > tables)
        want = (unsigned)tables;
    return want ? want : 1;
}

static void crew_fail(struct crew *c, const struct err *e)
{
    pthread_mutex_lock(&c->lock);
    if (!c->stop)
        c->failed = *e;
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
}

static int load_table(struct crew *c, struct loader *l, size_t table, struct err *e)
{
    const struct manifest_table *mt = &c->w->m->tables[table];
    struct verify_part *part = verify_part_open(c->file, table, e);
    if (!part)
        return -1;
    l->target = NULL;
    int rc = loader_part(l, part, e);
    verify_part_close(part);
    if (rc < 0)
        return -1;
    const struct target *t = plan_find(c->w->plan, mt->name);
    return t ? loader_check(l, t, c->w->content, e) : 0;
}

static int next_table(struct crew *c, size_t *table)
{
    size_t i = c->next++;
    if (c->stop || i >= c->count)
        return 0;
    *table = c->order[i];
    pthread_mutex_lock(&c->lock);
    c->table = *table;
    pthread_mutex_unlock(&c->lock);
    return 1;
}

static void done(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    c->at_work--;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    struct loader l = {0};
    struct err e = {0};
    size_t table;
    db_thread_begin();
    int rc = loader_begin(&l, m->db, c->w->job, c->w->schema, c->w->plan, &c->rows, &e);
    l.stop = &c->stop;
    l.fold = c->w->fold;
    while (rc == 0 && next_table(c, &table))
        rc = load_table(c, &l, table, &e);
    if (rc < 0)
        crew_fail(c, &e);
    loader_end(&l);
    db_thread_end();
    pthread_mutex_lock(&c->lock);
    c->w->way = l.way;
    pthread_mutex_unlock(&c->lock);
    done(c);
    return NULL;
}

static int prepare_session(const struct crew_work *w, struct db *db, unsigned slot, struct err *e)
{
    int seconds = (int)((w->job->cfg->restore_lock_wait + 999) / 1000);
    if (db_execf(db, e, "SET SESSION lock_wait_timeout=%d", seconds) < 0 ||
        (!w->binlog && db_exec(db, "SET SESSION sql_log_bin=0", e) < 0))
        return -1;
    return w->leased ? db_lease_slot(db, w->schema, slot, w->db, e) : 0;
}

/* No free connection on the server is no failure, whatever else is. */
static int open_members(struct crew *c, unsigned want, unsigned *got, struct err *e)
{
    struct db_params p = c->w->job->db;
    p.schema = c->w->schema;
    p.bulk = true;
    c->members[0] = (struct member){.crew = c, .db = c->w->db};
    for (*got = 1; *got < want; ++*got) {
        struct db *db = db_open(&p, e);
        if (!db && db_no_connection(e)) {
            err_clear(e);
            return 0;
        }
        if (!db)
            return -1;
        c->members[*got] = (struct member){.crew = c, .db = db};
        if (prepare_session(c->w, db, *got, e) < 0) {
            ++*got; /* to be closed */
            return -1;
        }
    }
    return 0;
}

/* What is not rows, and the hash of all. */
static void check_file(struct crew *c)
{
    struct err e = {0};
    if (verify_rest(c->file, c->w->rest, c->w->arg, &e) < 0 ||
        verify_hash(c->file, &c->stop, &e) < 0)
        crew_fail(c, &e);
}

static void *checker_main(void *arg)
{
    check_file(arg);
    done(arg);
    return NULL;
}

/* 0, or an errno. */
static int start(struct crew *c, pthread_t *thread, void *(*run)(void *), void *arg)
{
    pthread_mutex_lock(&c->lock);
    c->at_work++;
    pthread_mutex_unlock(&c->lock);
    int failed = thread_start(thread, 0, run, arg);
    if (failed)
        done(c);
    return failed;
}

static int start_threads(struct crew *c, unsigned n, struct err *e)
{
    int failed = 0;
    for (unsigned i = 0; i < n && !failed; i++) {
        failed = start(c, &c->members[i].thread, member_main, &c->members[i]);
        c->members[i].running = failed == 0;
    }
    c->checking = !failed && start(c, &c->checker, checker_main, c) == 0;
    return failed && !c->members[0].running ? err_sys(e, failed, "cannot start a thread") : 0;
}

/* Progress is told only when there was some: who watches takes silence for a stall. */
static void tell(struct crew *c, uint64_t *told)
{
    uint64_t rows = c->rows;
    pthread_mutex_lock(&c->lock);
    size_t table = c->table;
    pthread_mutex_unlock(&c->lock);
    if (rows == *told)
        return;
    *told = rows;
    progress_table(c->w->job->progress, c->w->m->tables[table].name);
    progress_at(c->w->job->progress, rows, 0);
}

static void wait_for_all(struct crew *c)
{
    uint64_t told = 0;
    pthread_mutex_lock(&c->lock);
    while (c->at_work) {
        struct timespec until = thread_deadline(TELL_MS);
        pthread_cond_timedwait(&c->changed, &c->lock, &until);
        pthread_mutex_unlock(&c->lock);
        tell(c, &told);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

static void join_threads(struct crew *c, unsigned n)
{
    if (c->checking)
        pthread_join(c->checker, NULL);
    for (unsigned i = 0; i < n; i++) {
        if (c->members[i].running)
            pthread_join(c->members[i].thread, NULL);
        if (i)
            db_close(c->members[i].db);
    }
}

static int run_crew(struct crew *c, unsigned n, struct err *e)
{
    if (start_threads(c, n, e) < 0)
        return -1;
    if (!c->checking)
        check_file(c);
    wait_for_all(c);
    if (c->stop)
        *e = c->failed;
    return c->stop ? -1 : 0;
}

static int bigger_first(const void *a, const void *b, void *tables)
{
    const struct manifest_table *t = tables;
    uint64_t x = t[*(const size_t *)a].bytes, y = t[*(const size_t *)b].bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void make_order(struct crew *c)
{
    c->count = c->w->m->table_count;
    c->order = xcalloc(c->count, sizeof *c->order);
    for (size_t i = 0; i < c->count; i++)
        c->order[i] = i;
    qsort_r(c->order, c->count, sizeof *c->order, bigger_first, c->w->m->tables);
}

/* The world does not wait for a durable table, which a restart did not empty. */
static int look_at_durable(struct crew *c, struct target *t, const struct format_item *item,
                           struct err *e)
{
    const char *rest;
    if (loader_takes(c->w->plan, t->name, item->sql, item->sql_len, e) < 0)
        return -1;
    int rc = loader_reads(t, item->sql, item->sql_len, &rest, e);
    if (rc == 0 || e->cls != ERR_REFUSED)
        return rc;
    plan_leave_out(c->w->plan, t, ALLOWED_NOT_TABLE);
    if (!plan_wants_any(c->w->plan))
        return -1;
    err_clear(e);
    return 0;
}

/* `l` NULL: nothing is to be proven. */
static int look_at(struct crew *c, struct loader *l, size_t i, struct err *e)
{
    struct target *t = plan_find(c->w->plan, c->w->m->tables[i].name);
    struct format_item item;
    if (!t || t->skip || (t->memory && !(l && plan_defines(l->plan, t))))
        return 0;
    struct verify_part *part = verify_part_open(c->file, i, e);
    int rc = part ? verify_part_next(part, &item, e) : -1;
    if (rc == 0 && item.type == FORMAT_CREATE)
        rc = t->memory ? loader_prove(l, t, item.sql, item.sql_len, e)
                       : look_at_durable(c, t, &item, e);
    verify_part_close(part);
    return rc;
}

/* A definition that no restore can take is named before anything is loaded, always the first one.
 * One that this very server wrote needs no proof. */
static int check_definitions(struct crew *c, struct err *e)
{
    struct loader l;
    char *here = db_variable(c->w->db, "version");
    const char *there = c->w->m->server.version;
    bool prove = !here || strcmp(here, there) != 0;
    int rc =
        prove ? loader_begin(&l, c->w->db, c->w->job, c->w->schema, c->w->plan, &c->rows, e) : 0;
    for (size_t i = 0; i < c->count && rc == 0; i++)
        rc = look_at(c, prove ? &l : NULL, i, e);
    if (rc < 0 && e->cls == ERR_QUERY)
        err_hint(e,
                 "the dump is of a server of version %s, this one is %s: make that table by hand "
                 "as this server can have it, and restore again: rows go by the names of columns",
                 there, here ? here : "unknown");
    if (prove)
        loader_end(&l);
    free(here);
    return rc;
}

static void crew_init(struct crew *c, struct crew_work *w)
{
    *c = (struct crew){.w = w};
    pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->changed);
}

static void crew_end(struct crew *c)
{
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->order);
    free(c);
}

int crew_look(struct crew_work *w, const char *file, struct err *e)
{
    struct crew *c = xcalloc(1, sizeof *c);
    crew_init(c, w);
    c->count = w->m->table_count;
    c->file = verify_open(w->job->dirfd, file, w->m, e);
    int rc = c->file ? check_definitions(c, e) : -1;
    verify_close(c->file);
    crew_end(c);
    return rc;
}

int crew_load(struct crew_work *w, const char *file, struct err *e)
{
    struct crew *c = xcalloc(1, sizeof *c);
    unsigned want = w->connections, got = 1;
    crew_init(c, w);
    c->file = verify_open(w->job->dirfd, file, w->m, e);
    int rc = c->file ? 0 : -1;
    if (rc == 0) {
        make_order(c);
        rc = check_definitions(c, e) < 0 ? -1 : open_members(c, want, &got, e);
    }
    if (rc == 0)
        rc = run_crew(c, got, e);
    join_threads(c, c->file ? got : 0);
    w->connections = got;
    verify_close(c->file);
    crew_end(c);
    return rc;
}
