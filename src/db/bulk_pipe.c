/* See bulk_int.h. Units take turns: 0, 1, 0, 1 … A unit is the filler's while it is not full, and
 * the sender's while it is; the lock is for handing over. */
#include <stdlib.h>

#include "core/thread.h"
#include "db/bulk_int.h"

struct bulk_pipe {
    bulk_send_fn *send;
    void *arg;
    struct bulk_unit units[2];
    unsigned filling; /* the filler's turn */
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, and of `full` */
    pthread_cond_t changed;
    bool quit, drop, bad;
    struct err failed;
};

struct bulk_pipe *bulk_pipe_open(const struct bulk_column *columns, size_t count,
                                 bulk_send_fn *send, void *arg)
{
    struct bulk_pipe *p = xcalloc(1, sizeof *p);
    p->send = send;
    p->arg = arg;
    for (size_t i = 0; i < 2; i++)
        bulk_block_init(&p->units[i].block, columns, count);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    return p;
}

struct bulk_unit *bulk_pipe_unit(struct bulk_pipe *p)
{
    return &p->units[p->filling];
}

/* Waits for unit `turn`; false: the end. */
static bool wait_full(struct bulk_pipe *p, unsigned turn)
{
    pthread_mutex_lock(&p->lock);
    while (!p->units[turn].full && !p->quit)
        pthread_cond_wait(&p->changed, &p->lock);
    bool full = p->units[turn].full && !p->drop;
    pthread_mutex_unlock(&p->lock);
    return full;
}

static void hand_back(struct bulk_pipe *p, unsigned turn, const struct err *failed)
{
    pthread_mutex_lock(&p->lock);
    p->units[turn].full = false;
    if (failed) {
        p->bad = true;
        p->failed = *failed;
    }
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void *sender_main(void *arg)
{
    struct bulk_pipe *p = arg;
    struct err e = {0};
    int rc = 0;
    db_thread_begin();
    for (unsigned turn = 0; rc == 0 && wait_full(p, turn); turn ^= 1) {
        rc = p->send(p->arg, &p->units[turn], &e);
        hand_back(p, turn, rc < 0 ? &e : NULL);
    }
    db_thread_end();
    return NULL;
}

static int send_here(struct bulk_pipe *p, struct bulk_unit *u, struct err *e)
{
    u->full = false;
    return p->send(p->arg, u, e);
}

/* The next unit to fill is empty again, or all is over. */
static int wait_empty(struct bulk_pipe *p, struct err *e)
{
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->changed);
    while (p->units[p->filling].full && !p->bad)
        pthread_cond_wait(&p->changed, &p->lock);
    bool bad = p->bad;
    if (bad)
        *e = p->failed;
    pthread_mutex_unlock(&p->lock);
    return bad ? -1 : 0;
}

int bulk_pipe_push(struct bulk_pipe *p, struct err *e)
{
    pthread_mutex_lock(&p->lock);
    p->units[p->filling].full = true;
    p->filling ^= 1;
    struct bulk_unit *next = &p->units[p->filling];
    bool begin = next->full && !p->started; /* small tables need no thread */
    pthread_mutex_unlock(&p->lock);
    if (begin)
        p->started = thread_start(&p->thread, 0, sender_main, p) == 0;
    return begin && !p->started ? send_here(p, next, e) : wait_empty(p, e);
}

static void end_thread(struct bulk_pipe *p, bool drop)
{
    if (!p->started)
        return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    p->drop = drop;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    p->started = false;
}

int bulk_pipe_finish(struct bulk_pipe *p, struct err *e)
{
    end_thread(p, false);
    if (p->bad) {
        *e = p->failed;
        return -1;
    }
    struct bulk_unit *last = &p->units[p->filling ^ 1];
    return last->full ? send_here(p, last, e) : 0;
}

void bulk_pipe_close(struct bulk_pipe *p)
{
    if (!p)
        return;
    end_thread(p, true);
    for (size_t i = 0; i < 2; i++) {
        bulk_block_free(&p->units[i].block);
        buf_free(&p->units[i].text);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
