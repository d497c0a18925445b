/* Shared memory in which one process publishes figures for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/board.h"

struct figures {
    uint64_t a, b[30], c;
};

static struct figures all(uint64_t n)
{
    struct figures f = {.a = n, .c = n};
    for (size_t i = 0; i < 30; i++)
        f.b[i] = n;
    return f;
}

static void test_newest_only(void **state)
{
    (void)state;
    struct err e;
    struct figures f, out;
    uint64_t seen = 0;
    struct board *b = board_new(sizeof f, &e);
    assert_non_null(b);
    assert_false(board_read(b, &seen, &out));
    for (uint64_t n = 1; n < 5; n++) {
        f = all(n);
        board_write(b, &f);
    }
    assert_true(board_read(b, &seen, &out));
    assert_memory_equal(&out, &f, sizeof f);
    assert_false(board_read(b, &seen, &out)); /* nothing new */
    board_clear(b);
    seen = 0;
    assert_false(board_read(b, &seen, &out));
}

/* A reader never has a part of one and a part of another, and none is older than the one before;
 * also when the writer is killed at any moment, and another one follows it. */
static void test_whole_while_it_is_written(void **state)
{
    (void)state;
    struct err e;
    struct figures out;
    struct board *b = board_new(sizeof out, &e);
    assert_non_null(b);
    for (int round = 0; round < 20; round++) {
        uint64_t seen = 0, last = 0;
        board_clear(b);
        pid_t pid = fork();
        if (pid == 0)
            for (uint64_t n = 1;; n++) {
                struct figures f = all(n);
                board_write(b, &f);
                /* else a reader that is interrupted in each round would never see a whole one */
                usleep(20);
            }
        for (int got = 0; got < 100;) {
            if (!board_read(b, &seen, &out))
                continue;
            assert_true(out.a > last);
            last = out.a;
            struct figures f = all(last);
            assert_memory_equal(&out, &f, sizeof f);
            got++;
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        board_read(b, &seen, &out); /* and does not hang */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newest_only),
        cmocka_unit_test(test_whole_while_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
