#include "base/thread_group.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

struct part {
    struct thread_group *group;
    void (*run)(void *arg);
    void *arg;
};

void thread_group_init(struct thread_group *g)
{
    pthread_condattr_t attr;
    *g = (struct thread_group){0};
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* a clock that cannot be set */
    pthread_cond_init(&g->changed, &attr);
    pthread_condattr_destroy(&attr);
}

/* The signal wakes thread_group_wait(), and threads that wait for space or work that this thread
 * held. */
static void one_less(struct thread_group *g)
{
    pthread_mutex_lock(&g->lock);
    g->running--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void *thread_main(void *arg)
{
    struct part p = *(struct part *)arg;
    free(arg);
    p.run(p.arg);
    one_less(p.group);
    return NULL;
}

int thread_group_start(struct thread_group *g, void (*run)(void *arg), void *arg)
{
    if (g->count == THREAD_GROUP_MAX)
        return EAGAIN;
    struct part *p = xcalloc(1, sizeof *p);
    *p = (struct part){g, run, arg};
    pthread_mutex_lock(&g->lock);
    g->running++;
    pthread_mutex_unlock(&g->lock);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread inherits its creator's mask */
    int failed = pthread_create(&g->threads[g->count], NULL, thread_main, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) {
        g->count++;
        return 0;
    }
    free(p);
    one_less(g);
    return failed;
}

void thread_group_fail(struct thread_group *g, const struct err *e)
{
    if (!g->stop)
        g->failed = *e;
    g->stop = true;
}

void thread_group_pause(struct thread_group *g, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&g->changed, &g->lock, &until);
}

void thread_group_wait(struct thread_group *g, int64_t ms, void (*look)(void *arg), void *arg)
{
    pthread_mutex_lock(&g->lock);
    for (bool more = look != NULL; more;) {
        if (g->running)
            thread_group_pause(g, ms);
        more = g->running > 0;          /* otherwise this call is the one after the end */
        pthread_mutex_unlock(&g->lock); /* look() may take long, and threads must not wait for it */
        look(arg);
        pthread_mutex_lock(&g->lock);
    }
    pthread_mutex_unlock(&g->lock);
    while (g->count)
        pthread_join(g->threads[--g->count], NULL);
}

void thread_group_end(struct thread_group *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

unsigned thread_processors(unsigned max)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (unsigned long)n > max ? max : (unsigned)n;
}
