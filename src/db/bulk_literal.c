/* What lines and blocks have in common: the forms of a value in a dump, as sql.h writes them. */
#include <string.h>

#include "db/bulk_int.h"

static bool behind(const char **s, const char *end, const char *prefix, size_t len)
{
    if ((size_t)(end - *s) < len || memcmp(*s, prefix, len) != 0)
        return false;
    *s += len;
    return true;
}

enum bulk_literal bulk_literal(const char **s, const char *end)
{
    if (*s == end)
        return BULK_IS_NUMBER; /* an empty one, which none is */
    switch (**s) {
    case '\'':
        ++*s;
        return BULK_IS_STRING;
    case '_':
        return behind(s, end, "_latin1'", 8) || behind(s, end, "_utf8mb4'", 9) ? BULK_IS_STRING
                                                                               : BULK_IS_NUMBER;
    case '0':
        return behind(s, end, "0x", 2) ? BULK_IS_HEX : BULK_IS_NUMBER;
    case 'N':
        return behind(s, end, "NULL", 4) ? BULK_IS_NULL : BULK_IS_NUMBER;
    default:
        return BULK_IS_NUMBER;
    }
}

int bulk_unescaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case '0':
        return '\0';
    case 'Z':
        return 26;
    case '\\':
    case '\'':
    case '"':
        return c;
    default:
        return -1;
    }
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int bulk_hex(const char *s, const char *end)
{
    int high = s < end ? digit(*s) : -1;
    if (high < 0)
        return BULK_HEX_END;
    int low = end - s > 1 ? digit(s[1]) : -1;
    return low < 0 ? BULK_HEX_HALF : high << 4 | low;
}
