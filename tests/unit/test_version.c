/* check_version(): which servers are said to be tested. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "check/rule.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_versions(void **state)
{
    (void)state;
    static const struct {
        bool mariadb;
        const char *version;
        enum check_level level;
    } cases[] = {
        {true, "10.11.19-MariaDB-0+deb12u1-log", CHECK_OK},
        {true, "11.8.9-MariaDB", CHECK_NOTE},
        {true, "10.6.22-MariaDB", CHECK_WARN},
        {true, "11.4.2-MariaDB-log", CHECK_NOTE},
        {true, "12.3.1-MariaDB", CHECK_NOTE},
        {true, "10.1.48-MariaDB", CHECK_WARN},
        {false, "9.7.4-2", CHECK_OK},
        {false, "8.4.6", CHECK_NOTE},
        {false, "9.0.1-commercial", CHECK_NOTE},
        {false, "9.10.0", CHECK_NOTE},
        {false, "10.0.0", CHECK_NOTE},
        {false, "8.0.43", CHECK_WARN},
        {false, "5.7.44-log", CHECK_WARN},
        {false, "", CHECK_NOTE},
        {true, "dev", CHECK_NOTE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct check c = {.dirfd = -1, .mariadb = cases[i].mariadb};
        snprintf(c.server.version, sizeof c.server.version, "%s", cases[i].version);
        check_version(&c);
        enum check_level level = check_is(&c, "tested") ? CHECK_OK
                                 : check_is(&c, "old")  ? CHECK_WARN
                                                        : CHECK_NOTE;
        assert_int_equal(level, cases[i].level);
        check_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
