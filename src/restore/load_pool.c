#include "restore/load_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread_group.h"
#include "bulk/bulk.h"
#include "mysql/galera.h"
#include "mysql/job.h"
#include "mysql/lease.h"
#include "restore/code.h"
#include "restore/load.h"
#include "restore/plan.h"
#include "restore/redefined.h"
#include "restore/running.h"
#include "restore/shadow_table.h"

/* More connections gain little: the server does not parallelize its work on one table. */
#define POOL_AUTO 4u
#define POOL_MAX 16u
#define REPORT_MS 100

/* The first connection holds the lease itself. */
_Static_assert(POOL_MAX - 1 <= DB_LEASE_SLOTS, "each additional connection needs its own slot");

struct load_pool {
    struct restore *r;
    struct arrival *arrival; /* NULL: all of the dump is here */
    size_t *order;           /* tables, largest first */
    _Atomic uint64_t rows;
    struct thread_group threads; /* its lock guards what follows */
    bool *taken;                 /* as `order` */
    size_t table;                /* the last one started */
    struct pool_member {
        struct load_pool *pool;
        struct db *db;
    } members[POOL_MAX];
    uint64_t reported, arrived; /* rows; bytes of a dump that is on its way */
};

unsigned restore_connections(unsigned configured, size_t tables)
{
    unsigned want = configured ? configured : thread_processors(POOL_AUTO);
    if (want > POOL_MAX)
        want = POOL_MAX;
    if (want > tables)
        want = (unsigned)tables;
    return want ? want : 1;
}

/* ---- the threads ---- */

static void pool_fail(struct load_pool *p, const struct err *e)
{
    pthread_mutex_lock(&p->threads.lock);
    thread_group_fail(&p->threads, e);
    pthread_mutex_unlock(&p->threads.lock);
    verify_give_up(p->r->file);
}

struct pool_table {
    const struct restore *r;
    struct loader *l;
    struct target *t; /* NULL: the plan does not have it */
    size_t table;
};

/* Reads, loads and counts a table in one thread, so that no table waits for another. */
static int load_once(void *arg, struct err *e)
{
    const struct pool_table *o = arg;
    struct verify_part *part = verify_part_open(o->r->file, o->table, e);
    if (!part)
        return -1;
    int rc = loader_part(o->l, part, e);
    verify_part_close(part);
    return rc == 0 && o->t ? loader_check(o->l, o->t, restore_is(o->r)->compares, e) : rc;
}

static int load_table(struct load_pool *p, struct loader *l, size_t table, struct err *e)
{
    const struct manifest_table *mt = &p->r->m->tables[table];
    struct pool_table o = {p->r, l, plan_find(&p->r->plan, mt->name), table};
    return redefined_load(l, o.t, mt->engine, load_once, &o, e);
}

/* Takes the largest table that is here or has begun to arrive. If there is none, takes the next one
 * that will arrive. Returns table_count if all are taken. The lock must be held. */
static size_t load_pool_take_table(struct load_pool *p)
{
    const struct manifest *m = p->r->m;
    uint64_t here = p->arrival ? arrival_here(p->arrival) : m->file_size;
    size_t next = m->table_count;
    for (size_t i = 0; i < m->table_count; i++) {
        uint64_t at = m->tables[p->order[i]].offset;
        bool first = next == m->table_count || at < m->tables[p->order[next]].offset;
        if (!p->taken[i] && (at < here || first))
            next = i;
        if (!p->taken[i] && at < here)
            break;
    }
    if (next == m->table_count)
        return next;
    p->taken[next] = true;
    return p->table = p->order[next];
}

/* Loads tables until none is left. A member that fails stops all of them, because a world must have
 * all of its tables. */
static void member_main(void *arg)
{
    struct pool_member *m = arg;
    struct load_pool *p = m->pool;
    struct loader l = {.s = {.db = m->db, .plan = &p->r->plan},
                       .delta = p->r->journal.delta,
                       .rows = &p->rows,
                       .stop = &p->threads.stop};
    struct err e = {0};
    db_thread_begin();
    int rc = loader_begin(&l, &e);
    while (rc == 0 && !p->threads.stop) {
        pthread_mutex_lock(&p->threads.lock);
        size_t table = load_pool_take_table(p);
        pthread_mutex_unlock(&p->threads.lock);
        if (table == p->r->m->table_count)
            break;
        rc = load_table(p, &l, table, &e);
    }
    if (rc < 0)
        pool_fail(p, &e);
    loader_end(&l);
    db_thread_end();
    pthread_mutex_lock(&p->threads.lock);
    p->r->out->way = db_bulk_way_name(l.way);
    pthread_mutex_unlock(&p->threads.lock);
}

/* Reads everything in the dump except the tables. */
static void rest_main(void *arg)
{
    struct load_pool *p = arg;
    struct err e = {0};
    if (verify_rest(p->r->file, code_see, &p->r->code, &e) < 0)
        pool_fail(p, &e);
}

/* Reports progress only if there was some: the supervisor treats silence as a stall. */
static void load_pool_report(void *arg)
{
    struct load_pool *p = arg;
    uint64_t rows = p->rows;
    pthread_mutex_lock(&p->threads.lock);
    size_t table = p->table;
    pthread_mutex_unlock(&p->threads.lock);
    uint64_t here = p->arrival ? arrival_here(p->arrival) : 0;
    if (rows == p->reported && here == p->arrived)
        return;
    p->reported = rows;
    p->arrived = here;
    progress_table(p->r->job->progress, p->r->m->tables[table].name);
    progress_at(p->r->job->progress, rows, 0);
}

/* Runs the threads. A single one is enough. The rest of the dump is checked at the same time if one
 * more can be started. */
static int run_threads(struct load_pool *p, unsigned n, struct err *e)
{
    int failed = 0;
    for (unsigned i = 0; i < n && !failed; i++)
        failed = thread_group_start(&p->threads, member_main, &p->members[i]);
    if (failed && p->threads.count == 0)
        return err_sys(e, failed, "cannot start a thread");
    if (failed || thread_group_start(&p->threads, rest_main, p) != 0)
        rest_main(p);
    thread_group_wait(&p->threads, REPORT_MS, load_pool_report, p);
    if (p->threads.stop)
        *e = p->threads.failed;
    return p->threads.stop ? -1 : 0;
}

/* ---- the connections ---- */

/* Gives a further session the settings of the caller's session, and a lock of its own. */
static int prepare_session(const struct restore *r, struct db *db, unsigned slot, struct err *e)
{
    if (galera_own_node(db, e) < 0)
        return -1;
    if (strcmp(galera_node(db), galera_node(r->db)) != 0) {
        err_set(e, ERR_REFUSED, 0,
                "an additional connection leads to node %s, but the first one to node %s",
                galera_node(db), galera_node(r->db));
        return err_hint(e, "[mysql] must name one node, not a proxy that chooses among several");
    }
    if (db_lock_wait(db, r->job->cfg->restore_lock_wait, e) < 0 ||
        (!r->binlog && db_exec(db, "SET SESSION sql_log_bin=0", e) < 0))
        return -1;
    return restore_is(r)->locks ? db_lease_slot(db, r->schema, slot, r->db, e) : 0;
}

/* Opens further connections. It is not a failure if the server has no free connection; any other
 * error is. */
static int open_members(struct load_pool *p, unsigned want, unsigned *got, struct err *e)
{
    struct db_params params = p->r->job->db;
    params.schema = p->r->schema;
    params.bulk = true;
    p->members[0] = (struct pool_member){p, p->r->db};
    for (*got = 1; *got < want;) { /* *got: those that the caller must close */
        struct db *db = db_open(&params, e);
        if (!db && db_no_connection(e)) {
            err_clear(e);
            return 0;
        }
        if (!db)
            return -1;
        unsigned slot = (*got)++;
        p->members[slot] = (struct pool_member){p, db};
        if (prepare_session(p->r, db, slot, e) < 0)
            return -1;
    }
    return 0;
}

/* ---- the definitions ---- */

/* Checks the definition of a durable table, which a restart does not empty. A refused one must not
 * stop the restore of the world. */
static int check_durable(const struct shadow_session *s, struct target *t, const struct buf *create,
                         struct err *e)
{
    SCOPED(sql_table_free) struct sql_table table = {0};
    int rc = shadow_definition(t, create->p, create->len, &table, e);
    if (rc == 0)
        return shadow_accepts(s, &table, e);
    if (e->cls != ERR_REFUSED)
        return -1;
    plan_leave_out(s->plan, t, SHADOW_NOT_ACCEPTED);
    if (!plan_wants_any(s->plan))
        return -1;
    err_clear(e);
    return 0;
}

/* Checks the definition of table `i`. With `prove`, the server is asked about MEMORY tables. */
static int check_definition(struct restore *r, const struct shadow_session *s, bool prove, size_t i,
                            struct err *e)
{
    struct target *t = plan_find(&r->plan, r->m->tables[i].name);
    SCOPED(buf_free) struct buf create = {0};
    if (!t || t->skip || (t->memory && !(prove && plan_defines(&r->plan, t))))
        return 0;
    if (verify_definition(r->file, i, &create, e) < 0)
        return -1;
    if (!create.len) /* the load reports it */
        return 0;
    return t->memory ? shadow_prove(s, t, create.p, create.len, e)
                     : check_durable(s, t, &create, e);
}

/* Checks the definitions in order, so that it is always the first refused one that is reported.
 * Definitions from a server of the same version are not tested on this one. */
int load_pool_check(struct restore *r, struct err *e)
{
    struct shadow_session s = {.db = r->db, .plan = &r->plan};
    SCOPED(xfree) char *here = db_variable(r->db, "version");
    const char *there = r->m->server.version;
    bool prove = !here || strcmp(here, there) != 0;
    int rc = prove ? shadow_session_begin(&s, e) : 0;
    for (size_t i = 0; i < r->m->table_count && rc == 0; i++)
        rc = check_definition(r, &s, prove, i, e);
    if (rc < 0 && e->cls == ERR_QUERY) {
        SCOPED(buf_free) struct buf from = {0}, to = {0};
        buf_shell(&from, there);
        buf_shell(&to, here ? here : "unknown");
        err_hint(e,
                 "the dump is from server version %s, this server is %s: create the table manually "
                 "with a definition that this server accepts, then restore again; rows are matched "
                 "by column name",
                 from.p, to.p);
    }
    return rc;
}

static void check_main(void *arg)
{
    struct load_pool *p = arg;
    struct err e = {0};
    db_thread_begin();
    if (load_pool_check(p->r, &e) < 0)
        pool_fail(p, &e);
    db_thread_end();
}

/* Checks the definitions. Those of an arriving dump are waited for, and progress is reported
 * meanwhile. */
static int load_pool_check_definitions(struct load_pool *p, struct err *e)
{
    if (!p->arrival)
        return load_pool_check(p->r, e);
    int failed = thread_group_start(&p->threads, check_main, p);
    if (failed)
        return err_sys(e, failed, "cannot start a thread");
    thread_group_wait(&p->threads, REPORT_MS, load_pool_report, p);
    return p->threads.stop ? err_pass(e, &p->threads.failed) : 0;
}

/* Largest first, so that the end is not spent waiting for a large table that was started late. */
static int larger_first(const void *a, const void *b, void *tables)
{
    const struct manifest_table *t = tables;
    uint64_t x = t[*(const size_t *)a].bytes, y = t[*(const size_t *)b].bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

int load_pool_run(struct restore *r, struct err *e)
{
    const struct config *cfg = r->job->cfg;
    size_t count = r->m->table_count;
    unsigned got = 1,
             want = restore_connections(r->opt->mode == RESTORE_DRILL ? cfg->drill_connections
                                                                      : cfg->restore_connections,
                                        count);
    SCOPED(xfree) struct load_pool *p = xcalloc(1, sizeof *p);
    *p = (struct load_pool){.r = r,
                            .arrival = verify_arrival(r->file),
                            .order = xcalloc(count, sizeof *p->order),
                            .taken = xcalloc(count, sizeof *p->taken)};
    thread_group_init(&p->threads);
    for (size_t i = 0; i < count; i++)
        p->order[i] = i;
    qsort_r(p->order, count, sizeof *p->order, larger_first, r->m->tables);
    int rc = load_pool_check_definitions(p, e);
    if (rc == 0)
        rc = open_members(p, want, &got, e);
    if (rc == 0)
        rc = run_threads(p, got, e);
    for (unsigned i = 1; i < got; i++)
        db_close(p->members[i].db);
    r->out->connections = got;
    thread_group_end(&p->threads);
    free(p->order);
    free(p->taken);
    return rc;
}
