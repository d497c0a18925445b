#include "dump/copies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/thread.h"
#include "db/copy.h"
#include "db/sql.h"

#define CONNECTIONS_MAX 4u
#define REPORT_MS 200
/* What a copy costs the server: fitted to measurements, good for shares of work, not for clocks. */
#define COST_TABLE 250000u /* ns */
#define COST_ROW 60u
#define COST_COLUMN 15u
/* Work that is worth one more connection, and one more part of a table. */
#define COST_WORTH 5000000u

/* A table or a part of it: rows from `offset` on, `rows` of them (0: all that follow). */
struct piece {
    size_t table;
    uint64_t offset, rows, cost, memory;
    enum { PIECE_TODO, PIECE_RUNNING, PIECE_DONE } state;
    bool holder_only;
    struct worker *by;
};

struct worker {
    struct copies *all;
    struct db *db;
    pthread_t thread;
    bool started, retired;
    struct db_copier copier;
};

struct copies {
    const struct db_tables *tables;
    struct piece *pieces; /* the most expensive first; the number is in the copy's name */
    size_t count;
    struct worker workers[CONNECTIONS_MAX]; /* [0]: the holder */
    unsigned connections;
    bool whole; /* no LIMIT: copies are written to the binary log */

    pthread_mutex_t lock; /* for all below, the pieces' state, and `retired` */
    pthread_cond_t changed;
    unsigned running;   /* threads */
    uint64_t rows_done; /* as planned */
    const char *latest; /* table begun last */
    bool stop;
    struct err err; /* the first */
};

/* ---- the plan ---- */

static uint64_t row_cost(const struct db_table *t)
{
    return COST_ROW + COST_COLUMN * t->column_count + t->row_length;
}

/* Engines whose tables the lock of another session keeps as they are. */
static bool plain_locks(const struct db_table *t)
{
    return t->memory || strcasecmp(t->engine, "Aria") == 0 || strcasecmp(t->engine, "MyISAM") == 0;
}

static void add_pieces(struct copies *c, size_t table, uint64_t parts)
{
    const struct db_table *t = &c->tables->list[table];
    uint64_t each = (t->rows + parts - 1) / parts;
    for (uint64_t i = 0; i < parts; i++) {
        c->pieces = xrealloc(c->pieces, (c->count + 1) * sizeof *c->pieces);
        c->pieces[c->count++] = (struct piece){.table = table,
                                               .offset = i * each,
                                               .rows = i + 1 < parts ? each : 0,
                                               .holder_only = !plain_locks(t),
                                               .cost = COST_TABLE + each * row_cost(t),
                                               /* the copy's rows may be aligned differently */
                                               .memory = each * (t->row_length + 32)};
    }
}

static int dearer(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->table != y->table ? (x->table > y->table) - (x->table < y->table)
                                : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Parts so small that the work can be shared out evenly. Rows of a MEMORY table come in the same
 * order at each reading while nothing is written, so LIMIT and OFFSET cut it cleanly. */
static uint64_t parts_of(const struct copies *c, const struct db_table *t, uint64_t total)
{
    uint64_t part = total / c->connections / 2, cost = t->rows * row_cost(t);
    if (c->whole || !t->memory || c->connections == 1)
        return 1;
    part = part < COST_WORTH ? COST_WORTH : part;
    uint64_t parts = (cost + part - 1) / part;
    return parts < 1 ? 1 : parts > c->connections ? c->connections : parts;
}

static uint64_t total_cost(const struct db_tables *tables)
{
    uint64_t total = 0;
    for (size_t i = 0; i < tables->count; i++)
        if (!tables->list[i].transactional)
            total += COST_TABLE + tables->list[i].rows * row_cost(&tables->list[i]);
    return total;
}

static int setup(struct copies *c, struct worker *w, struct db *db, struct err *e)
{
    *w = (struct worker){.all = c, .db = db};
    int rc = db_copier_begin(&w->copier, db, e);
    c->whole |= w->copier.logged;
    return rc;
}

static void open_helpers(struct copies *c, const struct db_params *p, uint64_t cost)
{
    unsigned most = thread_processors(CONNECTIONS_MAX);
    uint64_t want = 1 + cost / COST_WORTH;
    for (c->connections = 1; c->connections < want && c->connections < most; c->connections++) {
        struct worker *w = &c->workers[c->connections];
        struct err refused;
        struct db *db = db_open(p, &refused);
        if (!db || setup(c, w, db, &refused) < 0 ||
            db_exec(db, "SET SESSION lock_wait_timeout=0", &refused) < 0) {
            db_close(db);
            return;
        }
    }
}

struct copies *copies_plan(const struct db_params *p, struct db *holder,
                           const struct db_tables *tables, struct err *e)
{
    struct copies *c = xcalloc(1, sizeof *c);
    uint64_t total = total_cost(tables);
    c->tables = tables;
    pthread_mutex_init(&c->lock, NULL);
    thread_cond_init(&c->changed);
    if (setup(c, &c->workers[0], holder, e) < 0) {
        copies_end(c);
        return NULL;
    }
    open_helpers(c, p, total);
    for (size_t i = 0; i < tables->count; i++)
        if (!tables->list[i].transactional && !db_rows_elsewhere(&tables->list[i]))
            add_pieces(c, i, parts_of(c, &tables->list[i], total));
    if (c->count)
        qsort(c->pieces, c->count, sizeof *c->pieces, dearer);
    return c;
}

/* ---- the copying ---- */

static void copy_name(struct buf *b, const struct copies *c, const struct piece *p)
{
    buf_printf(b, "`%scopy_%06zu`", DB_OWN_PREFIX, (size_t)(p - c->pieces));
}

static int copy_piece(struct worker *w, const struct piece *p, struct err *e)
{
    const struct copies *c = w->all;
    struct buf name = {0}, rest = {0};
    copy_name(&name, c, p);
    buf_adds(&rest, "");
    if (!c->whole)
        buf_printf(&rest, " LIMIT %" PRIu64 " OFFSET %" PRIu64,
                   p->rows ? p->rows : (uint64_t)INT64_MAX, p->offset);
    int rc = db_copy_make(&w->copier,
                          &(struct db_copy){.name = name.p,
                                            .t = &c->tables->list[p->table],
                                            .rest = rest.p,
                                            .bytes = p->memory,
                                            .passes_by = w != c->workers},
                          e);
    buf_free(&name);
    buf_free(&rest);
    return rc;
}

/* The next piece for this worker, already marked as running; NULL: none now. */
static struct piece *take_piece(struct worker *w)
{
    struct copies *c = w->all;
    bool holder = w == c->workers;
    for (size_t i = 0; i < c->count && !c->stop && !w->retired; i++) {
        struct piece *p = &c->pieces[i];
        if (p->state == PIECE_TODO && (holder || !p->holder_only)) {
            p->state = PIECE_RUNNING;
            p->by = w;
            c->latest = c->tables->list[p->table].name;
            return p;
        }
    }
    return NULL;
}

static bool helpers_run(const struct copies *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->pieces[i].state == PIECE_RUNNING)
            return true;
    return false;
}

static void fail(struct copies *c, const struct piece *p, const struct err *why)
{
    if (!c->stop) {
        c->err = *why;
        err_step(&c->err, "copying table %s", c->tables->list[p->table].name);
    }
    c->stop = true;
}

/* What a helper could not have, the holder can: it has the locks already. But a connection that is
 * lost takes its copies with it. */
static void piece_ended(struct worker *w, struct piece *p, int rc, const struct err *why)
{
    struct copies *c = w->all;
    const struct db_table *t = &c->tables->list[p->table];
    if (rc == 0) {
        p->state = PIECE_DONE;
        c->rows_done += p->rows ? p->rows : t->rows - (p->offset < t->rows ? p->offset : t->rows);
    } else if (w == c->workers || why->cls == ERR_UNREACHABLE ||
               (why->cls == ERR_STALLED && why->num != DB_LOCK_TIMEOUT)) {
        fail(c, p, why);
    } else {
        p->state = PIECE_TODO;
        p->holder_only = true;
        w->retired = why->num != DB_LOCK_TIMEOUT;
    }
    pthread_cond_broadcast(&c->changed);
}

static void work(struct worker *w)
{
    struct copies *c = w->all;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        struct piece *p = take_piece(w);
        if (p) {
            struct err why = {0};
            pthread_mutex_unlock(&c->lock);
            int rc = copy_piece(w, p, &why);
            pthread_mutex_lock(&c->lock);
            piece_ended(w, p, rc, &why);
        } else if (w == c->workers && !c->stop && helpers_run(c)) {
            pthread_cond_wait(&c->changed, &c->lock); /* something may be left for the holder */
        } else {
            break;
        }
    }
    c->running--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void *work_aside(void *arg)
{
    db_thread_begin();
    work(arg);
    db_thread_end();
    return NULL;
}

void copies_start(struct copies *c)
{
    c->running = c->connections;
    for (unsigned i = c->connections; i-- > 0;) {
        struct worker *w = &c->workers[i];
        w->started = thread_start(&w->thread, 0, work_aside, w) == 0;
        if (w->started)
            continue;
        if (i == 0) {
            work(w); /* no thread: then before all else */
        } else {
            pthread_mutex_lock(&c->lock);
            c->running--;
            pthread_mutex_unlock(&c->lock);
        }
    }
}

/* Reports what the threads have done so far, as often as a report is wanted. */
static void wait_for_all(struct copies *c, struct progress *progress)
{
    uint64_t told = UINT64_MAX, total = 0;
    for (size_t i = 0; i < c->tables->count; i++)
        if (!c->tables->list[i].transactional)
            total += c->tables->list[i].rows;
    progress_phase(progress, "copying", total, 0);
    pthread_mutex_lock(&c->lock);
    while (c->running) {
        struct timespec until = thread_deadline(REPORT_MS);
        uint64_t rows = c->rows_done;
        const char *table = c->latest;
        if (rows != told) { /* a server that does not come forward is not reported as work */
            told = rows;
            pthread_mutex_unlock(&c->lock);
            progress_table(progress, table ? table : "");
            progress_at(progress, rows, 0);
            pthread_mutex_lock(&c->lock);
        }
        if (c->running)
            pthread_cond_timedwait(&c->changed, &c->lock, &until);
    }
    pthread_mutex_unlock(&c->lock);
}

int copies_finish(struct copies *c, bool give_up, struct progress *progress, struct err *e)
{
    pthread_mutex_lock(&c->lock);
    if (give_up && !c->stop) {
        err_set(&c->err, ERR_ABORTED, 0, "the copies were given up");
        c->stop = true;
    }
    pthread_mutex_unlock(&c->lock);
    wait_for_all(c, progress);
    for (unsigned i = 0; i < c->connections; i++)
        if (c->workers[i].started)
            pthread_join(c->workers[i].thread, NULL);
    if (c->stop && e)
        *e = c->err;
    return c->stop ? -1 : 0;
}

/* ---- afterwards ---- */

static int read_piece(struct copies *c, const struct piece *p, db_tuple_fn *fn, void *arg,
                      uint64_t *rows, struct err *e)
{
    struct buf name = {0};
    uint64_t n;
    copy_name(&name, c, p);
    int rc = db_read_rows(p->by->db, &c->tables->list[p->table], name.p, fn, arg, &n, e);
    *rows += n;
    buf_free(&name);
    return rc;
}

int copies_read(struct copies *c, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
                struct err *e)
{
    *rows = 0;
    /* Parts have the same cost and stand in their order. */
    for (size_t i = 0; i < c->count; i++)
        if (c->pieces[i].table == table && read_piece(c, &c->pieces[i], fn, arg, rows, e) < 0)
            return -1;
    return 0;
}

int copies_check(struct copies *c, struct err *e)
{
    for (unsigned i = 1; i < c->connections; i++)
        if (db_exec(c->workers[i].db, "DO 1", e) < 0)
            return -1;
    return 0;
}

void copies_end(struct copies *c)
{
    if (!c)
        return;
    for (unsigned i = 1; i < c->connections; i++)
        db_close(c->workers[i].db);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c->pieces);
    free(c);
}
