/* Threads, and what they wait by. They keep the monotonic clock, which nobody sets.
 *
 * Signals are for the thread that knows what to do with them: a thread that is started here has all
 * of them blocked, and a told end finds the first one. */
#ifndef WK_CORE_THREAD_H
#define WK_CORE_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* 0, or an errno. `stack` in bytes; 0: the system's default. */
int thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *arg);

/* For pthread_cond_timedwait() until a thread_deadline(). Ends with pthread_cond_destroy(). */
void thread_cond_init(pthread_cond_t *cond);
/* CLOCK_MONOTONIC in so many milliseconds. */
struct timespec thread_deadline(int64_t ms);

/* How many processors are there: 1 … max. */
unsigned thread_processors(unsigned max);

#endif
