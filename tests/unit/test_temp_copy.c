/* mysql/temp_copy: how large the session's limit becomes, whatever the server says about its tables
 * and however often it says that a copy does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "mysql/temp_copy.h"
#include "scripted_server.h"

#define TABLE_FULL 1114

static uint64_t limits[64];
static size_t limit_count;

static void see_limit(const char *sql)
{
    unsigned long long limit;
    if (sscanf(sql, "SET SESSION max_heap_table_size=%llu", &limit) != 1)
        return;
    if (limit_count == 64)
        fail_msg("a copy that never fits is tried without end; the last limit is %llu", limit);
    limits[limit_count++] = limit;
}

/* Makes a copy of a table of `bytes`, with a server to which each one is too large if `full`. */
static int make_copy(uint64_t bytes, bool full, struct err *e)
{
    char name[] = "t", type[] = "int(11)", id[] = "id";
    struct db_column column = {.name = id, .type = type, .encoding = DB_RAW};
    struct db_table t = {.name = name, .memory = true, .columns = &column, .column_count = 1};
    struct db_copy copy = {.name = "`c`", .t = &t, .rest = "", .bytes = bytes};
    script_reset();
    scripted_server.version = "10.11.6-MariaDB";
    if (full)
        script_error("CREATE TEMPORARY TABLE", TABLE_FULL);
    struct db_copier copier = {.db = script_open()};
    assert_non_null(copier.db);
    limit_count = 0;
    scripted_server.done = see_limit;
    int rc = db_copy_make(&copier, &copy, e);
    db_close(copier.db);
    return rc;
}

static void test_limits(void **state)
{
    static const struct {
        uint64_t bytes, limit;
    } cases[] = {
        {0, UINT64_C(1) << 20},
        {UINT64_C(1) << 20, UINT64_C(2) << 20},
        {UINT64_C(3) << 20, UINT64_C(4) << 20},
        {UINT64_C(1) << 40, UINT64_C(1) << 41},
        {UINT64_C(1) << 50, UINT64_C(1) << 50}, /* the largest limit, from here on */
        {UINT64_C(1) << 62, UINT64_C(1) << 50},
        {UINT64_C(15) << 60, UINT64_C(1) << 50},
        {UINT64_MAX, UINT64_C(1) << 50},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        assert_int_equal(make_copy(cases[i].bytes, false, &e), 0);
        assert_int_equal(limit_count, 1);
        assert_int_equal(limits[0], cases[i].limit);
    }
}

static void test_a_copy_that_never_fits(void **state)
{
    static const uint64_t sizes[] = {0, UINT64_C(1) << 30, UINT64_C(1) << 62, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct err e = {0};
        assert_int_equal(make_copy(sizes[i], true, &e), -1);
        assert_int_equal(e.num, TABLE_FULL);
        assert_true(limit_count >= 1 && limit_count <= 8);
        for (size_t k = 1; k < limit_count; k++)
            assert_true(limits[k] > limits[k - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_a_copy_that_never_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
