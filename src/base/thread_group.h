/* Threads that share one piece of work. They have all signals blocked, so that only the main thread gets
 * them. The thread that started them waits for all of them, with a
 * periodic callback, and gets the first failure. They lock what they share with `lock`. */
#ifndef WK_BASE_THREAD_GROUP_H
#define WK_BASE_THREAD_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define THREAD_GROUP_MAX 20u

struct thread_group {
    pthread_mutex_t lock;   /* guards what follows, and what the threads share */
    pthread_cond_t changed; /* signalled when a thread ends, and by callers */
    unsigned running, count;
    pthread_t threads[THREAD_GROUP_MAX];
    struct err failed; /* the first failure */
    _Atomic bool stop; /* set with `failed`; may be read without the lock */
};

void thread_group_init(struct thread_group *g);
/* Starts one thread, up to THREAD_GROUP_MAX. 0, or an errno. */
int thread_group_start(struct thread_group *g, void (*run)(void *arg), void *arg);
/* Called with the lock held. */
void thread_group_fail(struct thread_group *g, const struct err *e);
/* Returns when all threads have ended and are joined. `look` is called without the lock, at least
 * every `ms` milliseconds and once after the end; NULL: nothing is called. */
void thread_group_wait(struct thread_group *g, int64_t ms, void (*look)(void *arg), void *arg);
/* Frees the lock; no thread may be running. */
void thread_group_end(struct thread_group *g);

/* Number of processors, 1 … max. */
unsigned thread_processors(unsigned max);

#endif
