/* Changes that are folded behind the caller's back. What a change costs are two halves of about the
 * same size: to read its key, and to fetch the row from a memory that is larger than the
 * processor's caches. The caller's thread does the first one, and a thread of the fold the other
 * one, for many rows at a time. */
#include <pthread.h>
#include <stdlib.h>

#include "core/thread.h"
#include "journal/fold_int.h"

#define BATCH 4096u
/* So far ahead the place of a row is fetched, and then the row. */
#define FAR 32u
#define NEAR 16u

struct later {
    struct fold_table *t;
    enum fold_op op;
    const char *tuple;
    size_t len;
    struct fold_key key;
    struct buf joined;
};

struct batch {
    struct later *list;
    size_t count;
};

/* One batch is filled by the caller while the thread folds the other one. */
struct fold_pipe {
    struct batch batches[2];
    unsigned filled;
    bool threaded, tried;
    pthread_t thread;

    pthread_mutex_t lock; /* for all below */
    pthread_cond_t changed;
    struct batch *work; /* NULL: the thread waits for some */
    bool ends, failed;
    struct err why;
};

static int fold_batch(const struct batch *b, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < b->count + FAR && rc == 0; i++) {
        if (i < b->count)
            fold_rows_ahead(b->list[i].t, &b->list[i].key);
        if (i >= FAR - NEAR && i - (FAR - NEAR) < b->count)
            fold_rows_near(b->list[i - (FAR - NEAR)].t, &b->list[i - (FAR - NEAR)].key);
        if (i < FAR)
            continue;
        const struct later *l = &b->list[i - FAR];
        rc = fold_change_row(l->t, l->op, &l->key, l->tuple, l->len, e);
    }
    return rc;
}

/* Behind a contradiction nothing is folded any more. */
static void work_on(struct fold_pipe *p, struct batch *b)
{
    struct err e;
    bool bad = !p->failed && fold_batch(b, &e) < 0;
    b->count = 0;
    if (bad) {
        p->failed = true;
        p->why = e;
    }
}

static void *run(void *arg)
{
    struct fold_pipe *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->ends) {
        struct batch *b = p->work;
        if (!b) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        pthread_mutex_unlock(&p->lock);
        work_on(p, b); /* nobody else looks at it or at `failed` before `work` is taken away */
        pthread_mutex_lock(&p->lock);
        p->work = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static struct fold_pipe *pipe_of(struct fold *f)
{
    if (f->pipe)
        return f->pipe;
    struct fold_pipe *p = f->pipe = xcalloc(1, sizeof *p);
    for (int i = 0; i < 2; i++)
        p->batches[i].list = xcalloc(BATCH, sizeof *p->batches[i].list);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    return p;
}

/* Where none can be started the caller's thread does everything. */
static bool have_thread(struct fold_pipe *p)
{
    if (!p->tried)
        p->threaded = thread_start(&p->thread, 0, run, p) == 0;
    p->tried = true;
    return p->threaded;
}

static void wait_for_work(struct fold_pipe *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->work)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static int tell(struct fold_pipe *p, struct err *e)
{
    if (!p->failed)
        return 0;
    *e = p->why;
    p->failed = false;
    for (int i = 0; i < 2; i++)
        p->batches[i].count = 0;
    return -1;
}

int fold_turn(struct fold *f, struct err *e)
{
    struct fold_pipe *p = f->pipe;
    if (!p)
        return 0;
    wait_for_work(p);
    struct batch *b = &p->batches[p->filled];
    if (p->failed || b->count == 0)
        return tell(p, e);
    p->filled = !p->filled;
    if (!have_thread(p)) {
        work_on(p, b);
        return tell(p, e);
    }
    pthread_mutex_lock(&p->lock);
    p->work = b;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

int fold_now(struct fold *f, struct err *e)
{
    if (!f->pipe)
        return 0;
    if (fold_turn(f, e) < 0)
        return -1;
    wait_for_work(f->pipe);
    return tell(f->pipe, e);
}

int fold_later(struct fold *f, struct fold_table *t, enum fold_op op, const char *tuple, size_t len,
               struct err *e)
{
    struct fold_pipe *p = pipe_of(f);
    struct batch *b = &p->batches[p->filled];
    struct later *l = &b->list[b->count];
    if (fold_read_key(t, tuple, len, &l->joined, &l->key, e) < 0)
        return -1;
    l->t = t;
    l->op = op;
    l->tuple = tuple;
    l->len = len;
    return ++b->count < BATCH ? 0 : fold_turn(f, e);
}

void fold_pipe_free(struct fold_pipe *p)
{
    if (!p)
        return;
    wait_for_work(p);
    if (p->threaded) {
        pthread_mutex_lock(&p->lock);
        p->ends = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        for (size_t n = 0; n < BATCH; n++)
            buf_free(&p->batches[i].list[n].joined);
        free(p->batches[i].list);
    }
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p);
}
