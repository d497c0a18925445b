/* Literals of a tuple. */
#include <string.h>

#include "journal/fold_int.h"

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* One at least. */
static const char *read_digits(const char *s, const char *end)
{
    const char *from = s;
    while (s < end && is_digit(*s))
        s++;
    return s > from ? s : NULL;
}

static const char *read_number(const char *s, const char *end)
{
    s = read_digits(*s == '-' ? s + 1 : s, end);
    if (s && s < end && *s == '.')
        s = read_digits(s + 1, end);
    if (s && s < end && *s == 'e') {
        s++;
        s = read_digits(s < end && *s == '-' ? s + 1 : s, end);
    }
    return s;
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

static const char *read_hex(const char *s, const char *end)
{
    const char *from = s;
    while (end - s >= 2 && is_hex(s[0]) && is_hex(s[1]))
        s += 2;
    return s > from ? s : NULL;
}

/* What sql_put_string() escapes, and so stands in no string as itself. */
static const bool special[256] = {
    ['\0'] = true, ['\n'] = true, ['\r'] = true, ['\\'] = true,
    ['\''] = true, ['"'] = true,  [26] = true,
};
/* The letters that it puts behind a backslash. */
static const bool escapes[256] = {
    ['0'] = true,  ['n'] = true, ['r'] = true, ['\\'] = true,
    ['\''] = true, ['"'] = true, ['Z'] = true,
};

/* Behind its first quote. */
static const char *read_string(const char *s, const char *end)
{
    for (; s < end; s++) {
        while (!special[(unsigned char)*s])
            if (++s == end)
                return NULL;
        if (*s == '\'')
            return s + 1;
        if (*s != '\\' || ++s == end || !escapes[(unsigned char)*s])
            return NULL;
    }
    return NULL;
}

static bool starts(const char *s, const char *end, const char *with, size_t len)
{
    return (size_t)(end - s) >= len && memcmp(s, with, len) == 0;
}

/* At least one byte is there. */
static const char *read_literal(const char *s, const char *end)
{
    switch (*s) {
    case '\'':
        return read_string(s + 1, end);
    case 'N':
        return starts(s, end, "NULL", 4) ? s + 4 : NULL;
    case '_':
        return starts(s, end, "_latin1'", 8)    ? read_string(s + 8, end)
               : starts(s, end, "_utf8mb4'", 9) ? read_string(s + 9, end)
                                                : NULL;
    case '0':
        if (starts(s, end, "0x", 2))
            return read_hex(s + 2, end);
        return read_number(s, end);
    default:
        return read_number(s, end);
    }
}

/* Behind literal after literal, `most` at most. Returns the place behind the last one, NULL: it is
 * no tuple. */
static const char *split(const char *tuple, size_t len, size_t *ends, size_t want, size_t most,
                         size_t *count)
{
    const char *s = tuple, *end = tuple + len;
    size_t n = 0;
    *count = 0;
    if (len == 0 || *s != '(')
        return NULL;
    do {
        if (++s == end || !(s = read_literal(s, end)) || s == end)
            return NULL;
        if (n < want)
            ends[n] = (size_t)(s - tuple);
        *count = ++n;
    } while (*s == ',' && n < most);
    return s;
}

size_t fold_split_front(const char *text, size_t len, size_t *ends, size_t want, size_t *tuple_len)
{
    size_t n;
    const char *s = split(text, len, ends, want, SIZE_MAX, &n);
    if (!s || *s != ')')
        return 0;
    *tuple_len = (size_t)(s + 1 - text);
    return n;
}

size_t fold_split(const char *tuple, size_t len, size_t *ends, size_t want)
{
    size_t tuple_len, n = fold_split_front(tuple, len, ends, want, &tuple_len);
    return n && tuple_len == len ? n : 0;
}

size_t fold_split_first(const char *tuple, size_t len, size_t *ends, size_t want)
{
    size_t n = 0;
    if (want)
        split(tuple, len, ends, want, want, &n);
    return n;
}
