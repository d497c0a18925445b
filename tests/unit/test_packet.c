/* mysql/packet_limit: statements that are too long for a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "mysql/packet_limit.h"

#define MIB (1ull << 20)

static void room_is_never_negative(void **state)
{
    (void)state;
    assert_int_equal(db_packet_room(16384, 100, DB_PACKET_SPARE), 16384 - 100 - 1024);
    assert_int_equal(db_packet_room(1024, 100, DB_PACKET_SPARE), 0);
    assert_int_equal(db_packet_room(1124, 100, DB_PACKET_SPARE), 0);
    assert_int_equal(db_packet_room(0, 0, 0), 0);
}

static void the_way_out_is_enough(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *value, *file; /* NULL: no server takes it */
    } cases[] = {
        {0, "max_allowed_packet=16777216 ", "=16M "},
        {20000, "max_allowed_packet=16777216 ", "=16M "},
        {16 * MIB - 8192, "max_allowed_packet=16777216 ", "=16M "},
        {16 * MIB - 1024, "max_allowed_packet=33554432 ", "=32M "},
        {16 * MIB, "max_allowed_packet=33554432 ", "=32M "},
        {70 * MIB, "max_allowed_packet=134217728 ", "=128M "},
        {DB_PACKET_UNKNOWN, "max_allowed_packet=1073741824 ", "=1024M "},
        {1024 * MIB - 1025, "max_allowed_packet=1073741824 ", "=1024M "},
        {1024 * MIB - 1024, NULL, NULL},
        {UINT64_MAX / 2, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err e = {0};
        db_packet_hint(&e, cases[i].bytes);
        if (cases[i].value) {
            assert_non_null(strstr(e.hint, cases[i].value));
            assert_non_null(strstr(e.hint, cases[i].file));
            assert_non_null(strstr(e.hint, "SET GLOBAL"));
        } else {
            assert_non_null(strstr(e.hint, "servers accept statements"));
            assert_null(strstr(e.hint, "SET GLOBAL"));
        }
    }
}

static void what_is_too_long_is_named(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(db_packet_too_long(&e, "a row", "wide", 20 * MIB, 16 * MIB), -1);
    assert_int_equal(e.cls, ERR_QUERY);
    assert_non_null(strstr(e.text, "a row of table wide takes 20971520 bytes"));
    assert_non_null(strstr(e.text, "max_allowed_packet is 16777216"));
    assert_non_null(strstr(e.hint, "33554432"));
    db_packet_too_long(&e, "a row", NULL, 20 * MIB, 16 * MIB);
    assert_non_null(strstr(e.text, "a row takes 20971520 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_never_negative),
        cmocka_unit_test(the_way_out_is_enough),
        cmocka_unit_test(what_is_too_long_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
