/* db/bulk_pipe: units arrive in the order they were filled in, each once; a failure of the sender
 * reaches the filler; what was not sent when the pipe is closed never is. Seeds of the random
 * pauses are fixed, and no result depends on how long they take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/bulk_int.h"

struct sent {
    struct buf text;
    size_t units, fail_at; /* fails that unit, counted from 1; 0: none */
    unsigned pause;        /* microseconds at most */
    unsigned seed;
};

static void rest(unsigned *seed, unsigned most)
{
    if (most)
        usleep((useconds_t)((unsigned)rand_r(seed) % most));
}

static int take(void *arg, struct bulk_unit *u, struct err *e)
{
    struct sent *s = arg;
    rest(&s->seed, s->pause);
    if (++s->units == s->fail_at)
        return err_set(e, ERR_QUERY, 1114, "the table is full");
    buf_add(&s->text, u->text.p, u->text.len);
    return 0;
}

static struct bulk_pipe *open_pipe(struct sent *s)
{
    static const struct bulk_column column = {.name = "a", .kind = BULK_INT32};
    return bulk_pipe_open(&column, 1, take, s);
}

static int push(struct bulk_pipe *p, unsigned n, struct err *e)
{
    struct bulk_unit *u = bulk_pipe_unit(p);
    buf_clear(&u->text);
    buf_printf(&u->text, "%u,", n);
    return bulk_pipe_push(p, e);
}

static void expect_run(struct sent *s, unsigned n, unsigned filler_pause)
{
    struct buf want = {0};
    struct err e = {0};
    unsigned seed = n + 1;
    struct bulk_pipe *p = open_pipe(s);
    for (unsigned i = 0; i < n; i++) {
        rest(&seed, filler_pause);
        assert_int_equal(push(p, i, &e), 0);
        buf_printf(&want, "%u,", i);
    }
    assert_int_equal(bulk_pipe_finish(p, &e), 0);
    bulk_pipe_close(p);
    assert_int_equal(s->units, n);
    assert_int_equal(s->text.len, want.len);
    assert_true(n == 0 || memcmp(s->text.p, want.p, want.len) == 0);
    buf_free(&want);
    buf_free(&s->text);
}

static void test_order(void **state)
{
    (void)state;
    static const unsigned counts[] = {0, 1, 2, 3, 4, 5, 64};
    static const unsigned pauses[][2] = {{0, 0}, {300, 0}, {0, 300}, {200, 200}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t k = 0; k < 4; k++) {
            struct sent s = {.pause = pauses[k][0], .seed = (unsigned)i};
            expect_run(&s, counts[i], pauses[k][1]);
        }
}

/* Whichever unit fails, the filler learns of it at one of the next two pushes or at the end, and
 * nothing behind it is sent. */
static void test_failure(void **state)
{
    (void)state;
    for (unsigned fail = 1; fail <= 6; fail++) {
        struct sent s = {.fail_at = fail, .pause = 100, .seed = fail};
        struct err e = {0};
        struct bulk_pipe *p = open_pipe(&s);
        int rc = 0;
        unsigned pushed = 0;
        while (rc == 0 && pushed < 6)
            rc = push(p, pushed++, &e);
        if (rc == 0)
            rc = bulk_pipe_finish(p, &e);
        assert_int_equal(rc, -1);
        assert_int_equal(e.num, 1114);
        assert_true(pushed <= fail + 2);
        bulk_pipe_close(p);
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
        struct bulk_pipe *p = open_pipe(&s);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(push(p, i, &e), 0);
        bulk_pipe_close(p);
        assert_true(s.units <= n);
        assert_true(n < 2 || s.units >= n - 2);
        buf_free(&s.text);
    }
    bulk_pipe_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
