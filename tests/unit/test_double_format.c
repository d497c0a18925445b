/* sql/double_format: the digits of floating-point numbers, against printf() and strtod(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/double_format.h"
#include "sql/literal.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* What the server answers to SELECT CAST(… AS DOUBLE). */
static void test_form(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {0.1f, "0.10000000149011612"},
        {16777215, "16777215"},
        {1e14, "100000000000000"},
        {1e15, "1e15"},
        {123456789012345678.0, "1.2345678901234568e17"},
        {1234567890123456.7, "1234567890123456.8"},
        {9007199254740993.0, "9.007199254740992e15"},
        {1e22, "1e22"},
        {1e23, "1e23"},
        {9.99999e-10, "0.000000000999999"},
        {1e-15, "0.000000000000001"},
        {1e-16, "1e-16"},
        {-1.4671676132504422e-13, "-0.00000000000014671676132504422"},
        {5e-324, "5e-324"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {-1.7976931348623157e308, "-1.7976931348623157e308"},
        {NAN, "0"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[REAL_MAX];
        assert_int_equal(double_text(cases[i].value, out), strlen(cases[i].text));
        assert_string_equal(out, cases[i].text);
    }
}

/* Significant digits, without the zeros at either end. */
static size_t digits_of(const char *s, char out[40])
{
    size_t n = 0;
    for (; *s && *s != 'e'; s++)
        if (*s >= '0' && *s <= '9' && (n || *s != '0'))
            out[n++] = *s;
    while (n && out[n - 1] == '0')
        n--;
    out[n] = '\0';
    return n;
}

/* It reads back as the same number, and with fewer digits it would not. */
static void check(double value)
{
    char out[REAL_MAX], shorter[40], ours[40], theirs[40];
    size_t len = double_text(value, out);
    assert_true(len < REAL_MAX && strlen(out) == len);
    assert_true(memcmp(&value, &(double){strtod(out, NULL)}, sizeof value) == 0);
    size_t n = digits_of(out, ours);
    for (int p = 0; p < 17; p++) {
        snprintf(shorter, sizeof shorter, "%.*e", p, value);
        if (strtod(shorter, NULL) != value)
            continue;
        /* printf() rounds to nearest, which at a power of two may miss a shorter one */
        assert_true(n <= digits_of(shorter, theirs));
        if (n == strlen(theirs))
            assert_string_equal(ours, theirs);
        break;
    }
}

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static void check_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value))
        check(value);
}

static void test_shortest(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (uint64_t bits = 1; bits < UINT64_C(1) << 52; bits <<= 1)
        check_bits(bits);
    for (uint64_t exponent = 1; exponent < 2047; exponent++) {
        check_bits(exponent << 52); /* a power of two, and its neighbours */
        check_bits((exponent << 52) - 1);
        check_bits(UINT64_C(1) << 63 | ((exponent << 52) + 1));
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next(&seed);
        float part;
        memcpy(&part, &bits, sizeof part);
        check_bits(bits);
        if (isfinite(part))
            check((double)part);
        check((double)(next(&seed) % 100000000) / 100);
        check((double)(next(&seed) >> next(&seed) % 64));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_shortest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
