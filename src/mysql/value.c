#include "mysql/value.h"

#include <assert.h>
#include <string.h>

#include "mysql/answer.h"
#include "sql/double_format.h"
#include "sql/literal.h"

double db_real(uint64_t bits, bool single)
{
    uint32_t half = (uint32_t)bits;
    float f;
    double d;
    memcpy(&f, &half, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return single ? (double)f : d;
}

char *db_put_double(char *o, double v)
{
    char text[REAL_MAX];
    return db_put_value(o, DB_DOUBLE, text, double_text(v, text));
}

bool db_value_is(enum db_encoding enc, const char *v, size_t len)
{
    return enc == DB_RAW      ? answer_is_decimal(v, len, true)
           : enc == DB_INDEX  ? !answer_wrong('u', v, len)
           : enc == DB_DOUBLE ? answer_is_real(v, len)
                              : enc != DB_BITS || len <= sizeof(uint64_t);
}

char *db_put_value(char *o, enum db_encoding enc, const char *v, size_t len)
{
    if (!v)
        return mempcpy(o, "NULL", 4);
    switch (enc) {
    case DB_RAW:
    case DB_INDEX:
        return mempcpy(o, v, len);
    case DB_DOUBLE:
        o = mempcpy(o, v, len);
        /* "-0" is an integer literal and would lose its sign */
        return len == 2 && memcmp(v, "-0", 2) == 0 ? mempcpy(o, "e0", 2) : o;
    case DB_BITS:
        return sql_put_hex(o, v, len);
    case DB_LATIN1:
        return sql_put_string(mempcpy(o, "_latin1", 7), v, len);
    case DB_UTF8:
        return sql_put_string(mempcpy(o, "_utf8mb4", 8), v, len);
    case DB_BYTES:
        break;
    }
    return sql_put_string(o, v, len);
}

char *db_put_digits(char *o, uint64_t v, unsigned pad)
{
    char digits[20];
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    for (; pad > n; pad--)
        *o++ = '0';
    while (n)
        *o++ = digits[--n];
    return o;
}

char *db_put_int(char *o, uint64_t v, unsigned bytes, bool is_unsigned, unsigned pad)
{
    assert(bytes > 0);
    unsigned unused = 64 - 8 * bytes;
    int64_t n = (int64_t)(v << unused) >> unused;
    if (is_unsigned)
        return db_put_digits(o, v, pad);
    if (n >= 0)
        return db_put_digits(o, (uint64_t)n, 0);
    *o++ = '-';
    return db_put_digits(o, -(uint64_t)n, 0); /* works for the smallest number, too */
}

char *db_put_three(char *o, uint64_t a, uint64_t b, uint64_t c, unsigned first, char between)
{
    o = db_put_digits(o, a, first);
    *o++ = between;
    o = db_put_digits(o, b, 2);
    *o++ = between;
    return db_put_digits(o, c, 2);
}
