#include "dump/copies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/thread_group.h"
#include "mysql/temp_copy.h"

#define CONNECTIONS_MAX 4u
#define REPORT_MS 200
/* Estimated cost of a copy for the server, fitted to measurements. It serves to divide the work
 * and does not predict durations. */
#define COST_TABLE 250000u /* ns */
#define COST_ROW 60u
#define COST_COLUMN 15u
/* The amount of work that justifies one more connection, or one more part of a table. */
#define COST_WORTH 5000000u

/* A table or a part of one: `rows` rows from offset `offset` on. If `rows` is 0, the piece ends
 * with the table. */
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
    bool retired;
    struct db_copier copier;
};

struct copies {
    const struct db_tables *tables;
    const bool *chosen; /* [i] is true if tables->list[i] is copied */
    /* sorted by cost, the most expensive first; the name of a copy contains the index */
    struct piece *pieces;
    size_t count;
    struct worker workers[CONNECTIONS_MAX]; /* [0] is the holder of the locks */
    unsigned connections;
    bool whole; /* tables are not cut with LIMIT, because copies are written to the binary log */

    /* its lock guards all fields below, the state of the pieces, and `retired` */
    struct thread_group threads;
    uint64_t rows_done; /* an estimate, from the plan */
    const char *latest; /* the table that was started last */

    struct progress *progress; /* belongs to the waiting caller */
    uint64_t reported;
};

/* ---- the plan ---- */

static uint64_t row_cost(const struct db_table *t)
{
    return COST_ROW + COST_COLUMN * t->column_count + t->row_length;
}

/* Adds equal shares of a table. The last share has no LIMIT, so it always ends with the table,
 * even if the row count was estimated. */
static void add_pieces(struct copies *c, size_t table, uint64_t parts)
{
    const struct db_table *t = &c->tables->list[table];
    uint64_t each = (t->rows + parts - 1) / parts;
    /* True for engines whose tables cannot change while another session holds a lock on them. */
    bool plain_locks =
        t->memory || strcasecmp(t->engine, "Aria") == 0 || strcasecmp(t->engine, "MyISAM") == 0;
    for (uint64_t i = 0; i < parts; i++) {
        c->pieces = xgrow(c->pieces, c->count, sizeof *c->pieces);
        c->pieces[c->count++] = (struct piece){.table = table,
                                               .offset = i * each,
                                               .rows = i + 1 < parts ? each : 0,
                                               .holder_only = !plain_locks,
                                               .cost = COST_TABLE + each * row_cost(t),
                                               /* the copy's rows may be aligned differently */
                                               .memory = each * (t->row_length + 32)};
    }
}

static int copies_dearer(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->table != y->table ? (x->table > y->table) - (x->table < y->table)
                                : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Returns the number of parts, enough to divide the work evenly. While nothing is written, the
 * server reads a MEMORY table in the same order each time, so LIMIT and OFFSET neither repeat
 * nor lose rows. */
static uint64_t parts_of(const struct copies *c, const struct db_table *t, uint64_t total)
{
    uint64_t part = total / c->connections / 2, cost = t->rows * row_cost(t);
    if (c->whole || !t->memory || c->connections == 1)
        return 1;
    part = part < COST_WORTH ? COST_WORTH : part;
    uint64_t parts = (cost + part - 1) / part;
    return parts < 1 ? 1 : parts > c->connections ? c->connections : parts;
}

static int copies_setup(struct copies *c, struct worker *w, struct db *db, struct err *e)
{
    *w = (struct worker){.all = c, .db = db};
    int rc = db_copier_begin(&w->copier, db, e);
    c->whole |= w->copier.logged;
    return rc;
}

/* Opens additional connections. If the server refuses one, this is not an error, because the
 * holder alone can copy everything. */
static void open_helpers(struct copies *c, const struct db_params *p, uint64_t cost)
{
    unsigned most = thread_processors(CONNECTIONS_MAX);
    uint64_t want = 1 + cost / COST_WORTH;
    for (c->connections = 1; c->connections < want && c->connections < most; c->connections++) {
        struct worker *w = &c->workers[c->connections];
        struct err refused;
        struct db *db = db_open(p, &refused);
        if (!db || copies_setup(c, w, db, &refused) < 0 || db_lock_wait(db, 0, &refused) < 0) {
            db_close(db);
            return;
        }
    }
}

struct copies *copies_plan(const struct db_params *p, struct db *holder,
                           const struct db_tables *tables, const bool *chosen, struct err *e)
{
    struct copies *c = xcalloc(1, sizeof *c);
    uint64_t total = 0;
    for (size_t i = 0; i < tables->count; i++)
        if (chosen[i])
            total = number_sum(total,
                               number_sum(COST_TABLE, number_product(tables->list[i].rows,
                                                                     row_cost(&tables->list[i]))));
    c->tables = tables;
    c->chosen = chosen;
    thread_group_init(&c->threads);
    if (copies_setup(c, &c->workers[0], holder, e) < 0) {
        copies_end(c);
        return NULL;
    }
    open_helpers(c, p, total);
    for (size_t i = 0; i < tables->count; i++)
        if (chosen[i] && !db_rows_elsewhere(&tables->list[i]))
            add_pieces(c, i, parts_of(c, &tables->list[i], total));
    if (c->count)
        qsort(c->pieces, c->count, sizeof *c->pieces, copies_dearer);
    return c;
}

/* ---- the copying ---- */

static void copies_copy_name(struct buf *b, const struct copies *c, const struct piece *p)
{
    buf_printf(b, "`%scopy_%06zu`", DB_OWN_PREFIX, (size_t)(p - c->pieces));
}

/* HIGH_PRIORITY is used only by connections that hold no lock themselves. */
static int copy_piece(struct worker *w, const struct piece *p, struct err *e)
{
    const struct copies *c = w->all;
    SCOPED(buf_free) struct buf name = {0}, rest = {0};
    copies_copy_name(&name, c, p);
    buf_adds(&rest, "");
    if (!c->whole)
        buf_printf(&rest, " LIMIT %" PRIu64 " OFFSET %" PRIu64,
                   p->rows ? p->rows : (uint64_t)INT64_MAX, p->offset);
    struct db_copy copy = {.name = name.p,
                           .t = &c->tables->list[p->table],
                           .rest = rest.p,
                           .bytes = p->memory,
                           .passes_by = w != c->workers};
    return db_copy_make(&w->copier, &copy, e);
}

/* Returns the next piece for this worker, already marked as running, or NULL if there is none at
 * the moment. */
static struct piece *take_piece(struct worker *w)
{
    struct copies *c = w->all;
    bool holder = w == c->workers;
    for (size_t i = 0; i < c->count && !c->threads.stop && !w->retired; i++) {
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

/* Records the end of a piece. If a helper could not copy it, the holder does, because it already
 * has the locks. If a connection is lost, its copies are lost, too. */
static void piece_ended(struct worker *w, struct piece *p, int rc, const struct err *why)
{
    struct copies *c = w->all;
    const struct db_table *t = &c->tables->list[p->table];
    if (rc == 0) {
        p->state = PIECE_DONE;
        c->rows_done += p->rows ? p->rows : t->rows - (p->offset < t->rows ? p->offset : t->rows);
    } else if (w == c->workers || why->cls == ERR_UNREACHABLE ||
               (why->cls == ERR_STALLED && why->num != DB_LOCK_TIMEOUT)) {
        struct err e = *why;
        err_step(&e, "copying table %s", t->name);
        thread_group_fail(&c->threads, &e);
    } else {
        p->state = PIECE_TODO;
        p->holder_only = true;
        w->retired = why->num != DB_LOCK_TIMEOUT;
    }
    pthread_cond_broadcast(&c->threads.changed);
}

/* Copies pieces until none is left. The lock is released while the server copies. */
static void copies_work(struct worker *w)
{
    struct copies *c = w->all;
    pthread_mutex_lock(&c->threads.lock);
    for (;;) {
        struct piece *p = take_piece(w);
        bool others = false;
        for (size_t i = 0; i < c->count; i++)
            others |= c->pieces[i].state == PIECE_RUNNING;
        if (p) {
            struct err why = {0};
            pthread_mutex_unlock(&c->threads.lock);
            int rc = copy_piece(w, p, &why);
            pthread_mutex_lock(&c->threads.lock);
            piece_ended(w, p, rc, &why);
        } else if (w == c->workers && !c->threads.stop && others) {
            pthread_cond_wait(&c->threads.changed,
                              &c->threads.lock); /* a failed piece may be left for the holder */
        } else {
            break;
        }
    }
    pthread_mutex_unlock(&c->threads.lock);
}

static void work_aside(void *arg)
{
    db_thread_begin();
    copies_work(arg);
    db_thread_end();
}

void copies_start(struct copies *c)
{
    for (unsigned i = c->connections; i-- > 0;) {
        struct worker *w = &c->workers[i];
        if (thread_group_start(&c->threads, work_aside, w) != 0 && i == 0)
            copies_work(w); /* no thread could be started: copy in this one */
    }
}

/* Reports progress only if rows were copied since the last report. */
static void copies_report(void *arg)
{
    struct copies *c = arg;
    pthread_mutex_lock(&c->threads.lock);
    uint64_t rows = c->rows_done;
    const char *table = c->latest;
    pthread_mutex_unlock(&c->threads.lock);
    if (rows == c->reported)
        return;
    c->reported = rows;
    progress_table(c->progress, table ? table : "");
    progress_at(c->progress, rows, 0);
}

int copies_finish(struct copies *c, bool give_up, struct progress *progress, struct err *e)
{
    struct err given_up;
    uint64_t total = 0;
    pthread_mutex_lock(&c->threads.lock);
    err_set(&given_up, ERR_ABORTED, 0, "the copies were abandoned");
    if (give_up)
        thread_group_fail(&c->threads, &given_up);
    pthread_mutex_unlock(&c->threads.lock);
    for (size_t i = 0; i < c->tables->count; i++)
        if (c->chosen[i])
            total += c->tables->list[i].rows;
    progress_phase(progress, "copying", total, 0);
    c->progress = progress;
    c->reported = UINT64_MAX;
    thread_group_wait(&c->threads, REPORT_MS, copies_report, c);
    if (c->threads.stop && e)
        *e = c->threads.failed;
    return c->threads.stop ? -1 : 0;
}

/* ---- reading the copies ---- */

int copies_read(struct copies *c, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
                struct err *e)
{
    *rows = 0;
    /* The parts of a table have the same cost, so they are adjacent and in order. */
    int rc = 0;
    for (size_t i = 0; i < c->count && rc == 0; i++) {
        const struct piece *p = &c->pieces[i];
        SCOPED(buf_free) struct buf name = {0};
        uint64_t n;
        if (p->table != table)
            continue;
        copies_copy_name(&name, c, p);
        rc = db_read_rows(p->by->db, &c->tables->list[table], name.p, fn, arg, &n, e);
        *rows += n;
    }
    return rc;
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
    thread_group_end(&c->threads);
    free(c->pieces);
    free(c);
}
