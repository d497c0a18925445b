/* restore/redefine: the mode that newer servers do not know any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "restore/redefine.h"

static void expect_mode(const char *sql, const char *want)
{
    char *got = redefine_mode(sql);
    assert_string_equal(got, want);
    free(got);
}

static void test_mode(void **state)
{
    (void)state;
    expect_mode("SET sql_mode=''", "SET sql_mode=''");
    expect_mode("SET sql_mode='ANSI'", "SET sql_mode='ANSI'");
    expect_mode("SET sql_mode='NO_AUTO_CREATE_USER'", "SET sql_mode=''");
    expect_mode("SET sql_mode='A,NO_AUTO_CREATE_USER'", "SET sql_mode='A'");
    expect_mode("SET sql_mode='NO_AUTO_CREATE_USER,B'", "SET sql_mode='B'");
    expect_mode("SET sql_mode='A,NO_AUTO_CREATE_USER,B'", "SET sql_mode='A,B'");
    expect_mode("NO_AUTO_CREATE_USER", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
