/* A file that one thread fetches while other threads already read the part that has arrived.
 * Nothing is known about its bytes; the readers verify them. */
#ifndef WK_BASE_ARRIVAL_H
#define WK_BASE_ARRIVAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct arrival {
    int fd; /* owned by the creator; all threads read from it, each at its own offset */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Protected by the lock: */
    uint64_t here;     /* bytes that have arrived, from the file's start */
    bool ended;        /* nothing more will arrive */
    struct err failed; /* why it ended early; ERR_NONE: the file is complete */
    bool given_up;     /* no reader waits for the file any longer */
};
void arrival_init(struct arrival *a, int fd);
void arrival_free(struct arrival *a);

/* Called by the fetching thread after `here` bytes have arrived. Returns -1 if no reader waits any
 * longer. */
int arrival_grown(struct arrival *a, uint64_t here, struct err *e);
/* Called by the fetching thread at the end. `why` of class ERR_NONE: the file is complete. */
void arrival_end(struct arrival *a, const struct err *why);

/* Called by readers. Waits for bytes after offset `from` and sets *to to the end of what has
 * arrived; *to = `from` means the end of the file. Returns -1 with the reason if nothing more will
 * arrive, or if *stop was set and arrival_wake() called. */
int arrival_wait(struct arrival *a, uint64_t from, uint64_t *to, const _Atomic bool *stop,
                 struct err *e);
void arrival_wake(struct arrival *a);
uint64_t arrival_here(struct arrival *a);
bool arrival_ended(struct arrival *a);
/* Waits until the whole file has arrived. */
int arrival_whole(struct arrival *a, struct err *e);
void arrival_give_up(struct arrival *a);

#endif
