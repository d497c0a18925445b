/* The server's option files: which line counts. */
#include "check/option_file.h"
#include "dir_kit.h"

#include <string.h>

static void expect(const char *const *lines, const char *name, const char *value)
{
    SCOPED(option_search_free) struct option_search s = {.name = name};
    for (; *lines; lines++)
        option_line(&s, *lines, strlen(*lines));
    assert_string_equal(value, s.value.p ? s.value.p : "(none)");
}

static void test_lines(void **state)
{
    (void)state;
    expect((const char *const[]){"read-only", NULL}, "read_only", "1");
    expect((const char *const[]){"skip_read-only", NULL}, "read_only", "0");
    expect((const char *const[]){"loose-read_only = ON ", NULL}, "read_only", "ON");
    expect((const char *const[]){"read_only_too=1", "read=1", "", NULL}, "read_only", "(none)");
    expect((const char *const[]){"binlog-format = 'ROW'", "binlog_format=\"MIXED\"", NULL},
           "binlog_format", "MIXED");
    expect((const char *const[]){"enforce_storage_engine=", NULL}, "enforce_storage_engine", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
