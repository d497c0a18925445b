/* Requirements for values that a server returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mysql/answer.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        char form;
        const char *v;
        bool good;
    } cases[] = {
        {'n', "a", true},    {'n', "", false},         {'n', NULL, false},
        {'N', NULL, true},   {'N', "", false},         {'w', "utf8mb4_bin", true},
        {'w', "", true},     {'w', "a'b", false},      {'t', "", true},
        {'t', NULL, false},  {'T', NULL, true},        {'b', NULL, false},
        {'B', NULL, true},   {'u', "0", true},         {'u', "18446744073709551615", true},
        {'u', "", false},    {'u', "-1", false},       {'u', "18446744073709551616", false},
        {'u', "1.0", false}, {'u', "1x", false},       {'i', "-999999999999999", true},
        {'i', "-", false},   {'i', "+1", false},       {'i', "1000000000000000", false},
        {'s', "1.5", true},  {'s', "-1", false},       {'s', "123456789012", false},
        {'s', "nan", false}, {'d', "-1.5e-300", true}, {'d', "1e", false},
        {'d', "inf", false}, {'d', "0x10", false},     {'d', "1,2", false},
        {'d', ".5", false},  {'d', "1.", false},       {'d', "1e5e5", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *v = cases[i].v;
        const char *wrong = answer_wrong(cases[i].form, v, v ? strlen(v) : 0);
        if (!wrong != cases[i].good)
            fail_msg("%c '%s': %s", cases[i].form, v ? v : "NULL", wrong ? wrong : "good");
    }
    assert_non_null(answer_wrong('t', "a\0b", 3));
    assert_null(answer_wrong('b', "a\0b", 3));
    assert_null(answer_wrong('c', "a\0b", 3));
    char name[513];
    memset(name, 'a', sizeof name);
    assert_null(answer_wrong('n', name, 512));
    assert_non_null(answer_wrong('n', name, 513));
}

static void test_decimals(void **state)
{
    (void)state;
    assert_true(answer_is_decimal("-0012.50", 8, true));
    assert_false(answer_is_decimal("-0012.50", 8, false));
    assert_false(answer_is_decimal("", 0, true));
    assert_false(answer_is_decimal("0) UNION", 8, true));
    char long_one[256];
    memset(long_one, '1', sizeof long_one);
    assert_true(answer_is_decimal(long_one, 255, false));
    assert_false(answer_is_decimal(long_one, 256, false));
}

static bool is_time(enum answer_clock kind, const char *bytes, size_t len)
{
    struct answer_time t;
    return answer_time(kind, (const uint8_t *)bytes, len, &t);
}

static void test_times(void **state)
{
    (void)state;
    struct answer_time t;
    assert_true(answer_time(ANSWER_DATETIME,
                            (const uint8_t *)"\x0f\x27\x0c\x1f\x17\x3b\x3b\x3f\x42\x0f\0", 11, &t));
    assert_int_equal(t.year, 9999);
    assert_int_equal(t.micro, 999999);
    assert_true(is_time(ANSWER_DATETIME, "", 0));
    assert_true(is_time(ANSWER_DATE, "\0\0\0\0", 4));
    assert_false(is_time(ANSWER_DATETIME, "\x10\x27\x0c\x1f", 4));              /* year 10000 */
    assert_false(is_time(ANSWER_DATETIME, "\x0f\x27\x0d\x1f", 4));              /* month 13 */
    assert_false(is_time(ANSWER_DATETIME, "\x0f\x27\x0c\x20", 4));              /* day 32 */
    assert_false(is_time(ANSWER_DATETIME, "\0\0\0\0\x18\0\0", 7));              /* hour 24 */
    assert_false(is_time(ANSWER_DATETIME, "\0\0\0\0\0\x3c\0", 7));              /* minute 60 */
    assert_false(is_time(ANSWER_DATETIME, "\0\0\0\0\0\0\0\x40\x42\x0f\0", 11)); /* a million */
    assert_false(is_time(ANSWER_DATETIME, "\0\0\0\0\0\0", 6));
    assert_true(answer_time(ANSWER_TIME, (const uint8_t *)"\1\x22\0\0\0\x16\x3b\x3b", 8, &t));
    assert_int_equal(t.hour, 838);
    assert_true(t.negative);
    assert_false(is_time(ANSWER_TIME, "\1\x22\0\0\0\x17\x3b\x3b", 8)); /* 839 hours */
    assert_false(is_time(ANSWER_TIME, "\1\xff\xff\xff\xff\0\0\0", 8));
    assert_false(is_time(ANSWER_TIME, "\2\0\0\0\0\0\0\0", 8));
    assert_false(is_time(ANSWER_TIME, "\0\0\0\0", 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_decimals),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
