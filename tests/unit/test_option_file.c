/* check/option_file: which line of the server's option files counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "check/option_file.h"

static void put(const char *dir, const char *name, const char *text)
{
    SCOPED(xfree) char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    chmod(path, 0644);
}

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

/* Groups of other programs are passed over; files of a directory are read in the order of their
 * names, *.cnf only. */
static void test_files(void **state)
{
    (void)state;
    char dir[] = "/tmp/wk-unit.XXXXXX";
    assert_non_null(mkdtemp(dir));
    SCOPED(xfree) char *parts = xasprintf("%s/conf.d", dir),
                       *main_file = xasprintf("%s/my.cnf", dir);
    SCOPED(xfree) char *text =
        xasprintf("read_only=1\n[client]\nread_only=1\n[mysqld_safe]\nread_only=1\n"
                  "[mariadb-dump]\nread_only=1\n!includedir %s\n",
                  parts);
    mkdir(parts, 0755);
    put(dir, "my.cnf", text);
    put(parts, "b.cnf", "[mariadb-10.11]\n# read_only=OFF\n  read-only = TWO  # until Monday\n");
    put(parts, "a.cnf", "[mysqld]\nread_only = ONE\n");
    put(parts, "c.txt", "[mysqld]\nread_only = THREE\n");
    SCOPED(option_search_free) struct option_search s = {.name = "read_only"};
    option_file(&s, main_file);
    assert_string_equal("TWO", s.value.p);
    assert_int_equal(3, s.looked_at);
    SCOPED(option_search_free) struct option_search none = {.name = "read_only"};
    option_file(&none, "/tmp/wk-unit.none/my.cnf");
    assert_int_equal(0, none.looked_at);
    SCOPED(xfree) char *remove = xasprintf("rm -r %s", dir);
    assert_int_equal(0, system(remove));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
