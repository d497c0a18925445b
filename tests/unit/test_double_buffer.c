/* base/double_buffer: halves are worked on in the order they were filled in, each once; a
 * failure of the worker reaches the filler; what was not begun when the buffer is closed never
 * is. Seeds of the random pauses are fixed, and no result depends on how long they take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/double_buffer.h"
#include "base/text.h"

/* Where no thread can be started. */
static bool no_threads;
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return no_threads ? EAGAIN : real(thread, attr, run, arg);
}

struct sent {
    struct buf text;
    char halves[2][32];
    struct double_buffer *b;
    size_t units, fail_at; /* fails that unit, counted from 1; 0: none */
    unsigned pause;        /* microseconds at most */
    unsigned seed;
};

static void rest(unsigned *seed, unsigned most)
{
    if (most)
        usleep((useconds_t)((unsigned)rand_r(seed) % most));
}

static int take(void *arg, unsigned half, struct err *e)
{
    struct sent *s = arg;
    rest(&s->seed, s->pause);
    if (++s->units == s->fail_at)
        return err_set(e, ERR_QUERY, 1114, "the table is full");
    buf_adds(&s->text, s->halves[half]);
    return 0;
}

static int push(struct sent *s, unsigned n, struct err *e)
{
    snprintf(s->halves[double_buffer_half(s->b)], sizeof s->halves[0], "%u,", n);
    return double_buffer_turn(s->b, e);
}

static void expect_run(struct sent *s, unsigned n, unsigned filler_pause)
{
    struct buf want = {0};
    struct err e = {0};
    unsigned seed = n + 1;
    s->b = double_buffer_open(take, NULL, s);
    for (unsigned i = 0; i < n; i++) {
        rest(&seed, filler_pause);
        assert_int_equal(push(s, i, &e), 0);
        buf_printf(&want, "%u,", i);
    }
    assert_int_equal(double_buffer_drain(s->b, &e), 0);
    double_buffer_close(s->b);
    assert_int_equal(s->units, n);
    assert_int_equal(s->text.len, want.len);
    assert_true(n == 0 || memcmp(s->text.p, want.p, want.len) == 0);
    buf_free(&want);
    buf_free(&s->text);
}

static void run_all(void)
{
    static const unsigned counts[] = {0, 1, 2, 3, 4, 5, 64};
    static const unsigned pauses[][2] = {{0, 0}, {300, 0}, {0, 300}, {200, 200}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < 4; k++) {
            struct sent s = {.pause = pauses[k][0], .seed = (unsigned)i};
            expect_run(&s, counts[i], pauses[k][1]);
        }
}

static void test_order(void **state)
{
    (void)state;
    run_all();
}

static void test_without_threads(void **state)
{
    (void)state;
    struct sent s = {.fail_at = 3};
    struct err e = {0};
    no_threads = true;
    run_all();
    s.b = double_buffer_open(take, NULL, &s);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(push(&s, i, &e), 0);
    assert_int_equal(push(&s, 3, &e), -1);
    assert_int_equal(double_buffer_drain(s.b, &e), -1);
    assert_int_equal(s.units, 3);
    assert_int_equal(e.num, 1114);
    double_buffer_close(s.b);
    buf_free(&s.text);
    no_threads = false;
}

/* Whichever unit fails, the filler learns of it at one of the next two pushes or at the end, and
 * nothing behind it is sent. */
static void test_failure(void **state)
{
    (void)state;
    for (unsigned fail = 1; fail <= 6; fail++) {
        struct sent s = {.fail_at = fail, .pause = 100, .seed = fail};
        struct err e = {0};
        s.b = double_buffer_open(take, NULL, &s);
        int rc = 0;
        unsigned pushed = 0;
        while (rc == 0 && pushed < 6)
            rc = push(&s, pushed++, &e);
        if (rc == 0)
            rc = double_buffer_drain(s.b, &e);
        assert_int_equal(rc, -1);
        assert_int_equal(e.num, 1114);
        assert_true(pushed <= fail + 2);
        double_buffer_close(s.b);
        assert_int_equal(s.units, fail);
        buf_free(&s.text);
    }
}

/* Closed without an end: one may be with the server, the one behind it is not sent. */
static void test_dropped(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 6; n++) {
        struct sent s = {.pause = 100, .seed = n};
        struct err e = {0};
        s.b = double_buffer_open(take, NULL, &s);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(push(&s, i, &e), 0);
        double_buffer_close(s.b);
        assert_true(s.units <= n);
        assert_true(n < 2 || s.units >= n - 2);
        buf_free(&s.text);
    }
    double_buffer_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_without_threads),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
