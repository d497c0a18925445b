/* base/thread: signals go to the thread that started the others, and deadlines are in the future.
 * base/thread_group: all threads are waited for, and the first failure is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "base/thread_group.h"

static void note_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
}

static void test_signals(void **state)
{
    (void)state;
    static const int told[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE};
    sigset_t before, after, inside;
    struct thread_group g;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    thread_group_init(&g);
    assert_int_equal(thread_group_start(&g, note_mask, &inside), 0);
    thread_group_wait(&g, 0, NULL, NULL);
    thread_group_end(&g);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t k = 0; k < sizeof told / sizeof *told; k++) {
        assert_int_equal(sigismember(&inside, told[k]), 1);
        assert_int_equal(sigismember(&after, told[k]), sigismember(&before, told[k]));
    }
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

/* ---- thread_group ---- */

struct shared {
    struct thread_group group;
    unsigned ended, looks, seen_at_last_look;
    bool fails;
};

static void add_one(void *arg)
{
    struct shared *s = arg;
    struct err e = {.cls = ERR_QUERY};
    usleep(1000);
    pthread_mutex_lock(&s->group.lock);
    s->ended++;
    e.num = (int)s->ended;
    if (s->fails)
        thread_group_fail(&s->group, &e);
    pthread_mutex_unlock(&s->group.lock);
}

static void look_in(void *arg)
{
    struct shared *s = arg;
    pthread_mutex_lock(&s->group.lock); /* it is not held */
    s->looks++;
    s->seen_at_last_look = s->ended;
    pthread_mutex_unlock(&s->group.lock);
}

static void test_group(void **state)
{
    (void)state;
    for (unsigned n = 0; n <= THREAD_GROUP_MAX; n += 5) {
        struct shared s = {.fails = n == 10};
        thread_group_init(&s.group);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(thread_group_start(&s.group, add_one, &s), 0);
        if (n == THREAD_GROUP_MAX)
            assert_int_equal(thread_group_start(&s.group, add_one, &s), EAGAIN);
        thread_group_wait(&s.group, 1, look_in, &s);
        assert_int_equal(s.ended, n);
        assert_int_equal(s.seen_at_last_look, n);
        assert_true(n == 0 || s.looks > 0);
        assert_int_equal(s.group.stop, s.fails);
        assert_int_equal(s.group.failed.num, s.fails ? 1 : 0); /* the first one */
        thread_group_end(&s.group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_processors),
        cmocka_unit_test(test_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
