/* Threads that share one piece of work. All signals are blocked in them, so that only the main
 * thread gets signals. The thread that started them waits for all of them, with a periodic
 * callback, and gets the first failure. Data that they share is protected by `lock`. */
#ifndef WK_BASE_THREAD_GROUP_H
#define WK_BASE_THREAD_GROUP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define THREAD_GROUP_MAX 20u

struct thread_group {
    pthread_mutex_t lock;   /* protects the following fields and data shared by the threads */
    pthread_cond_t changed; /* signaled when a thread ends, and by callers */
    unsigned running, count;
    pthread_t threads[THREAD_GROUP_MAX];
    struct err failed; /* the first failure */
    _Atomic bool stop; /* set with `failed`; may be read without the lock */
};

void thread_group_init(struct thread_group *g);
/* Starts one thread, up to THREAD_GROUP_MAX. Returns 0 or an errno. */
int thread_group_start(struct thread_group *g, void (*run)(void *arg), void *arg);
/* Records a failure. Call it with the lock held. */
void thread_group_fail(struct thread_group *g, const struct err *e);
/* Returns when all threads have ended and are joined. Calls `look` without the lock, at least every
 * `ms` milliseconds and once after the end; NULL: no callback. */
void thread_group_wait(struct thread_group *g, int64_t ms, void (*look)(void *arg), void *arg);
/* Waits until `changed` is signaled, but at most `ms` milliseconds. Call it with the lock held. */
void thread_group_pause(struct thread_group *g, int64_t ms);
/* Frees the lock; no thread may be running. */
void thread_group_end(struct thread_group *g);

/* Returns the number of processors, 1 … max. */
unsigned thread_processors(unsigned max);

#endif
