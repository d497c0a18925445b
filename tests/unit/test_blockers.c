/* Which sessions a restore may end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mysql/blockers.h"

#define WAITED 10

static const struct blocker idle = {.id = 7, .idle = true, .here = true, .seconds = 60};

static struct blocker with(struct blocker b, enum blocker_why why)
{
    b.why = why;
    return b;
}

static bool ends(struct blocker b, bool told, enum lock_wait wait)
{
    struct blockers list = {&b, 1, told};
    return blockers_may_end(&list, 0, wait, WAITED);
}

static void test_by_the_list_of_locks(void **state)
{
    (void)state;
    struct blocker b = with(idle, BLOCKER_HOLDS);
    assert_true(ends(b, true, LOCK_WAIT_UNKNOWN));
    b.seconds = 0; /* it holds the lock: how long it idles does not matter */
    assert_true(ends(b, true, LOCK_WAIT_TABLE));
    b.idle = false;
    assert_false(ends(b, true, LOCK_WAIT_TABLE));
    b.idle = true;
    b.here = false;
    assert_false(ends(b, true, LOCK_WAIT_TABLE));
    assert_false(ends(with(idle, BLOCKER_BACKUP), true, LOCK_WAIT_TABLE));
}

static void test_without_it(void **state)
{
    (void)state;
    struct blocker b = with(idle, BLOCKER_OPEN);
    assert_true(ends(b, false, LOCK_WAIT_TABLE));
    assert_false(ends(b, false, LOCK_WAIT_BACKUP));
    assert_false(ends(b, false, LOCK_WAIT_UNKNOWN));
    b.seconds = WAITED - 1; /* it worked while the swap waited */
    assert_false(ends(b, false, LOCK_WAIT_TABLE));
    b = with(idle, BLOCKER_MAY);
    assert_true(ends(b, false, LOCK_WAIT_TABLE));
    b.own = true; /* perhaps one of our own processes */
    assert_false(ends(b, false, LOCK_WAIT_TABLE));
}

static void test_open_transactions_first(void **state)
{
    (void)state;
    struct blocker both[] = {with(idle, BLOCKER_MAY), with(idle, BLOCKER_OPEN)};
    struct blockers list = {both, 2, false};
    assert_false(blockers_may_end(&list, 0, LOCK_WAIT_TABLE, WAITED));
    assert_true(blockers_may_end(&list, 1, LOCK_WAIT_TABLE, WAITED));
    both[1].here = false; /* of another schema: it stays, and says nothing of the others */
    assert_true(blockers_may_end(&list, 0, LOCK_WAIT_TABLE, WAITED));
    assert_false(blockers_may_end(&list, 1, LOCK_WAIT_TABLE, WAITED));
}

static void test_what_is_waited_for(void **state)
{
    (void)state;
    assert_int_equal(lock_wait_of("Waiting for table metadata lock"), LOCK_WAIT_TABLE);
    assert_int_equal(lock_wait_of("Waiting for backup lock"), LOCK_WAIT_BACKUP);
    assert_int_equal(lock_wait_of("Waiting for global read lock"), LOCK_WAIT_BACKUP);
    assert_int_equal(lock_wait_of("Rename table"), LOCK_WAIT_UNKNOWN);
    assert_int_equal(lock_wait_of(""), LOCK_WAIT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_the_list_of_locks),
        cmocka_unit_test(test_without_it),
        cmocka_unit_test(test_open_transactions_first),
        cmocka_unit_test(test_what_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
