/* Definitions that a dump omits, and definitions whose failure to be read ends the dump. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dump/definitions.h"
#include "scripted_server.h"

/* Of a schema with one function that the server answers so for. */
static int written(unsigned num, struct buf *out, struct err *e)
{
    const struct db_tables none = {0};
    const struct db_triggers no_triggers = {0};
    script_reset();
    scripted_server.version = "10.11.19-MariaDB";
    struct db *db = script_open();
    script("ROUTINE_TYPE='FUNCTION'", "f");
    script_error("SHOW CREATE FUNCTION", num);
    char hash[17];
    int rc = definitions_write(db, "w", &none, &no_triggers, out, hash, e);
    db_close(db);
    return rc;
}

/* One that nobody may read, or whose parts are gone, is left out. */
static void test_left_out(void **state)
{
    (void)state;
    static const unsigned nums[] = {1305, 1356, 1227};
    for (size_t i = 0; i < sizeof nums / sizeof *nums; i++) {
        struct buf b = {0};
        struct err e = {0};
        assert_int_equal(written(nums[i], &b, &e), 0);
        assert_int_equal(b.len, 0);
        buf_free(&b);
    }
}

/* That the asking was ended says nothing of the function: a dump without it would be half a dump.
 */
static void test_asked_in_vain(void **state)
{
    (void)state;
    static const unsigned nums[] = {1317, 1205, 1213, 1969, 3024, 1037, 1041, SCRIPT_LOST};
    for (size_t i = 0; i < sizeof nums / sizeof *nums; i++) {
        struct buf b = {0};
        struct err e = {0};
        assert_int_equal(written(nums[i], &b, &e), -1);
        assert_int_equal(e.num, nums[i]);
        buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_asked_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
