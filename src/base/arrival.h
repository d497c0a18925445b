/* A file that one thread brings while others read what is there of it already. Nothing is known of its bytes:
 * readers verify them. */
#ifndef WK_BASE_ARRIVAL_H
#define WK_BASE_ARRIVAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct arrival {
    int fd; /* the maker's, from which all read; at offsets of their own */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock: */
    uint64_t here;     /* bytes from its start on */
    bool ended;        /* no more will come */
    struct err failed; /* why not; ERR_NONE: it is whole */
    bool given_up;     /* nobody waits for it any more */
};
void arrival_init(struct arrival *a, int fd);
void arrival_free(struct arrival *a);

/* For the thread that brings it. -1: nothing waits for it any more. */
int arrival_grown(struct arrival *a, uint64_t here, struct err *e);
/* `why` of class ERR_NONE: it is whole. */
void arrival_end(struct arrival *a, const struct err *why);

/* For readers. Waits for bytes after `from`, and returns in *to up to where there are some;
 * `from`: the end.
 * -1: no more will come, for this reason; or *stop was set, and arrival_wake() called. */
int arrival_wait(struct arrival *a, uint64_t from, uint64_t *to, const _Atomic bool *stop,
                 struct err *e);
void arrival_wake(struct arrival *a);
uint64_t arrival_here(struct arrival *a);
bool arrival_ended(struct arrival *a);
/* Waits for the end. */
int arrival_whole(struct arrival *a, struct err *e);
void arrival_give_up(struct arrival *a);

#endif
