/* core/thread: signals stay with the thread that started the others; deadlines lie ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>

#include "core/thread.h"

static void *note_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void test_signals(void **state)
{
    (void)state;
    static const int told[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE};
    static const size_t stacks[] = {0, 256u << 10};
    sigset_t before, after, inside;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
        pthread_t t;
        assert_int_equal(thread_start(&t, stacks[i], note_mask, &inside), 0);
        assert_int_equal(pthread_join(t, NULL), 0);
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
            assert_int_equal(sigismember(&inside, told[k]), 1);
            assert_int_equal(sigismember(&after, told[k]), sigismember(&before, told[k]));
        }
    }
}

static int64_t ms_between(struct timespec from, struct timespec to)
{
    return (int64_t)(to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
}

static void test_deadline(void **state)
{
    (void)state;
    static const int64_t waits[] = {0, 1, 200, 999, 1000, 1001, 123456};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        struct timespec before, after, t;
        clock_gettime(CLOCK_MONOTONIC, &before);
        t = thread_deadline(waits[i]);
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_true(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
        assert_true(ms_between(before, t) >= waits[i] && ms_between(after, t) <= waits[i]);
    }
}

static void test_wait(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never;
    struct timespec until = thread_deadline(20), now;
    int rc = 0;
    thread_cond_init(&never);
    pthread_mutex_lock(&lock);
    while (rc == 0)
        rc = pthread_cond_timedwait(&never, &lock, &until);
    pthread_mutex_unlock(&lock);
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_int_equal(rc, ETIMEDOUT);
    assert_true(ms_between(until, now) >= 0);
    pthread_cond_destroy(&never);
}

static void test_processors(void **state)
{
    (void)state;
    unsigned all = thread_processors(UINT_MAX);
    assert_true(all >= 1);
    assert_int_equal(thread_processors(1), 1);
    assert_int_equal(thread_processors(all), all);
    assert_int_equal(thread_processors(all + 1), all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
