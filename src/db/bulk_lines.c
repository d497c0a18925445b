/* The text that LOAD DATA reads is what the tuples of a dump come to without their quotes: fields
 * end in CR, lines in LF, and since sql_string() escapes both (and the backslash), values are
 * copied as they stand. */
#include <string.h>

#include "db/bulk_int.h"

/* Ends of a plain run inside a string. A raw field or line end would split the row. */
static const bool line_stop[256] = {['\''] = true, ['\\'] = true, ['\r'] = true, ['\n'] = true};
/* What sql_string() puts behind a backslash. The others mean something else to LOAD DATA. */
static const bool line_escaped[256] = {['0'] = true,  ['n'] = true, ['r'] = true, ['\\'] = true,
                                       ['\''] = true, ['"'] = true, ['Z'] = true};

/* Copies a string's inside; `s` is behind the opening quote. Returns the place behind the closing
 * one.
 */
static const char *line_string(const char *s, const char *end, char **out)
{
    char *o = *out;
    for (; s < end; s++) {
        while (!line_stop[(unsigned char)*s]) {
            *o++ = *s;
            if (++s == end)
                return NULL;
        }
        if (*s == '\'') {
            *out = o;
            return s + 1;
        }
        if (*s != '\\' || ++s == end || !line_escaped[(unsigned char)*s])
            return NULL;
        *o++ = '\\';
        *o++ = *s;
    }
    return NULL;
}

static int line_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* 0x…: the bytes themselves. */
static const char *line_hex(const char *s, const char *end, char **out)
{
    char *o = *out;
    const char *from = s;
    int high, low;
    for (; end - s >= 2 && (high = line_digit(s[0])) >= 0; s += 2) {
        if ((low = line_digit(s[1])) < 0)
            return NULL;
        char byte = (char)(high << 4 | low);
        if (byte == '\\' || byte == '\r' || byte == '\n' || byte == '\0') {
            *o++ = '\\';
            byte = byte == '\r' ? 'r' : byte == '\n' ? 'n' : byte == '\0' ? '0' : '\\';
        }
        *o++ = byte;
    }
    *out = o;
    return s > from ? s : NULL;
}

static const char *line_number(const char *s, const char *end, char **out)
{
    char *o = *out;
    const char *from = s;
    while (s < end && *s != ',' && *s != ')') {
        bool part = (unsigned char)(*s - '0') < 10 || *s == '-' || *s == '.' || *s == 'e' ||
                    *s == 'E' || *s == '+';
        if (!part)
            return NULL;
        *o++ = *s++;
    }
    *out = o;
    return s > from ? s : NULL;
}

static const char *line_value(const char *s, const char *end, char **out)
{
    size_t left = (size_t)(end - s);
    if (left == 0)
        return NULL;
    if (*s == '\'')
        return line_string(s + 1, end, out);
    if (left > 2 && s[0] == '0' && s[1] == 'x')
        return line_hex(s + 2, end, out);
    if (left >= 4 && memcmp(s, "NULL", 4) == 0) {
        *(*out)++ = '\\';
        *(*out)++ = 'N';
        return s + 4;
    }
    if (left > 8 && memcmp(s, "_latin1'", 8) == 0)
        return line_string(s + 8, end, out);
    if (left > 9 && memcmp(s, "_utf8mb4'", 9) == 0)
        return line_string(s + 9, end, out);
    return line_number(s, end, out);
}

/* One tuple; the place behind its ")". */
static const char *line_line(const char *s, const char *end, char **out)
{
    if (s >= end || *s != '(')
        return NULL;
    for (;;) {
        s = line_value(s + 1, end, out);
        if (!s || s >= end)
            return NULL;
        if (*s != ',')
            break;
        *(*out)++ = '\r';
    }
    *(*out)++ = '\n';
    return *s == ')' ? s + 1 : NULL;
}

int bulk_lines(struct buf *out, const char *s, size_t len)
{
    const char *end = s + len;
    buf_reserve(out, len); /* no value and no row is longer as a line */
    char *o = out->p + out->len;
    for (;;) {
        s = line_line(s, end, &o);
        if (!s)
            return -1;
        if (s == end)
            break;
        if (end - s < 3 || s[0] != ',' || s[1] != '\n')
            return -1;
        s += 2;
    }
    out->len = (size_t)(o - out->p);
    *o = '\0';
    return 0;
}
