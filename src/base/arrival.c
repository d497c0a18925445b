#include "base/arrival.h"

void arrival_init(struct arrival *a, int fd)
{
    *a = (struct arrival){.fd = fd};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
}

void arrival_free(struct arrival *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}

int arrival_grown(struct arrival *a, uint64_t here, struct err *e)
{
    pthread_mutex_lock(&a->lock);
    a->here = here;
    bool unwanted = a->given_up;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return unwanted ? err_set(e, ERR_CHANGED, 0, "it is no longer wanted") : 0;
}

void arrival_end(struct arrival *a, const struct err *why)
{
    pthread_mutex_lock(&a->lock);
    a->ended = true;
    a->failed = *why;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

int arrival_wait(struct arrival *a, uint64_t from, uint64_t *to, const _Atomic bool *stop,
                 struct err *e)
{
    pthread_mutex_lock(&a->lock);
    while (a->here <= from && !a->ended && !*stop)
        pthread_cond_wait(&a->changed, &a->lock);
    bool stopped = a->here <= from && !a->ended,
         failed = a->here <= from && a->failed.cls != ERR_NONE;
    *to = a->here > from ? a->here : from;
    pthread_mutex_unlock(&a->lock);
    if (stopped)
        return err_set(e, ERR_CHANGED, 0, "it is no longer read");
    return failed ? err_pass(e, &a->failed) : 0; /* an arrival does not change after its end */
}

void arrival_wake(struct arrival *a)
{
    pthread_mutex_lock(&a->lock);
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

uint64_t arrival_here(struct arrival *a)
{
    pthread_mutex_lock(&a->lock);
    uint64_t here = a->here;
    pthread_mutex_unlock(&a->lock);
    return here;
}

bool arrival_ended(struct arrival *a)
{
    pthread_mutex_lock(&a->lock);
    bool ended = a->ended;
    pthread_mutex_unlock(&a->lock);
    return ended;
}

int arrival_whole(struct arrival *a, struct err *e)
{
    pthread_mutex_lock(&a->lock);
    while (!a->ended)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return a->failed.cls != ERR_NONE ? err_pass(e, &a->failed) : 0;
}

void arrival_give_up(struct arrival *a)
{
    pthread_mutex_lock(&a->lock);
    a->given_up = true;
    pthread_mutex_unlock(&a->lock);
}
