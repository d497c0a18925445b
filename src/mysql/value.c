#include "mysql/value.h"

#include <string.h>

#include "mysql/answer.h"
#include "sql/literal.h"

static char *put_bytes(char *o, const char *data, size_t len)
{
    memcpy(o, data, len);
    return o + len;
}

char *db_put_double(char *o, double v)
{
    char text[REAL_MAX];
    return db_put_value(o, DB_DOUBLE, text, double_text(v, text));
}

bool db_value_is(enum db_encoding enc, const char *v, size_t len)
{
    switch (enc) {
    case DB_RAW:
        return answer_is_decimal(v, len, true);
    case DB_INDEX:
        return !answer_wrong('u', v, len);
    case DB_DOUBLE:
        return answer_is_real(v, len);
    case DB_BITS:
        return len <= sizeof(uint64_t);
    case DB_BYTES:
    case DB_LATIN1:
    case DB_UTF8:
        break;
    }
    return true;
}

char *db_put_value(char *o, enum db_encoding enc, const char *v, size_t len)
{
    if (!v)
        return put_bytes(o, "NULL", 4);
    switch (enc) {
    case DB_RAW:
    case DB_INDEX:
        return put_bytes(o, v, len);
    case DB_DOUBLE:
        o = put_bytes(o, v, len);
        /* "-0" is an integer literal and would lose its sign */
        return len == 2 && memcmp(v, "-0", 2) == 0 ? put_bytes(o, "e0", 2) : o;
    case DB_BITS:
        return sql_put_hex(o, v, len);
    case DB_LATIN1:
        return sql_put_string(put_bytes(o, "_latin1", 7), v, len);
    case DB_UTF8:
        return sql_put_string(put_bytes(o, "_utf8mb4", 8), v, len);
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
