#include "base/double_buffer.h"

#include <stdlib.h>

#include "base/text.h"
#include "base/thread_group.h"

struct double_buffer {
    double_buffer_fn *work;
    void (*edge)(bool begins);
    void *arg;
    unsigned filling; /* the owner's half */

    struct thread_group threads; /* one thread; its lock is not held while a half is processed */
    unsigned next;               /* half to process next */
    bool full[2];                /* submitted and not yet processed */
    bool quit;
};

struct double_buffer *double_buffer_open(double_buffer_fn *work, void (*edge)(bool begins),
                                         void *arg)
{
    struct double_buffer *b = xcalloc(1, sizeof *b);
    b->work = work;
    b->edge = edge;
    b->arg = arg;
    thread_group_init(&b->threads);
    return b;
}

unsigned double_buffer_half(const struct double_buffer *b)
{
    return b->filling;
}

/* Called with the lock held; releases it while working. */
static void work_on_next(struct double_buffer *b)
{
    struct err e = {0};
    if (!b->threads.stop) {
        pthread_mutex_unlock(&b->threads.lock);
        int rc = b->work(b->arg, b->next, &e);
        pthread_mutex_lock(&b->threads.lock);
        if (rc < 0)
            thread_group_fail(&b->threads, &e);
    }
    b->full[b->next] = false;
    b->next ^= 1;
    pthread_cond_broadcast(&b->threads.changed);
}

static void double_buffer_process(void *arg)
{
    struct double_buffer *b = arg;
    if (b->edge)
        b->edge(true);
    pthread_mutex_lock(&b->threads.lock);
    while (!b->quit) {
        if (b->full[b->next])
            work_on_next(b);
        else
            pthread_cond_wait(&b->threads.changed, &b->threads.lock);
    }
    pthread_mutex_unlock(&b->threads.lock);
    if (b->edge)
        b->edge(false);
}

/* Waits until the half is free. Called with the lock held. */
static void double_buffer_wait_for(struct double_buffer *b, unsigned half)
{
    while (b->full[half]) {
        if (b->threads.count)
            pthread_cond_wait(&b->threads.changed, &b->threads.lock);
        else
            work_on_next(b);
    }
}

static int double_buffer_result(struct double_buffer *b, struct err *e)
{
    int rc = b->threads.stop ? err_pass(e, &b->threads.failed) : 0;
    pthread_mutex_unlock(&b->threads.lock);
    return rc;
}

int double_buffer_turn(struct double_buffer *b, struct err *e)
{
    pthread_mutex_lock(&b->threads.lock);
    b->full[b->filling] = true;
    b->filling ^= 1;
    pthread_cond_broadcast(&b->threads.changed);
    bool second = b->full[b->filling] && !b->threads.count;
    pthread_mutex_unlock(&b->threads.lock);
    if (second)
        thread_group_start(&b->threads, double_buffer_process, b);
    pthread_mutex_lock(&b->threads.lock);
    double_buffer_wait_for(b, b->filling);
    return double_buffer_result(b, e);
}

int double_buffer_drain(struct double_buffer *b, struct err *e)
{
    pthread_mutex_lock(&b->threads.lock);
    double_buffer_wait_for(b, b->filling ^ 1); /* the half submitted last */
    return double_buffer_result(b, e);
}

void double_buffer_close(struct double_buffer *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->threads.lock);
    b->quit = true;
    pthread_cond_broadcast(&b->threads.changed);
    pthread_mutex_unlock(&b->threads.lock);
    thread_group_wait(&b->threads, 0, NULL, NULL);
    thread_group_end(&b->threads);
    free(b);
}
