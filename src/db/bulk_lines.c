/* The text that LOAD DATA reads is what the tuples of a dump come to without their quotes: fields
 * end in CR, lines in LF, and since sql_string() escapes both (and the backslash), values are
 * copied as they stand. */
#include <string.h>

#include "db/bulk_int.h"

/* Ends of a plain run inside a string. A raw field or line end would split the row. */
static const bool line_stop[256] = {['\''] = true, ['\\'] = true, ['\r'] = true, ['\n'] = true};
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
        if (*s != '\\' || ++s == end || bulk_unescaped(*s) < 0)
            return NULL;
        *o++ = '\\';
        *o++ = *s;
    }
    return NULL;
}

/* 0x…: the bytes themselves. */
static const char *line_hex(const char *s, const char *end, char **out)
{
    char *o = *out;
    const char *from = s;
    int value;
    for (; (value = bulk_hex(s, end)) >= 0; s += 2) {
        char byte = (char)value;
        if (byte == '\\' || byte == '\r' || byte == '\n' || byte == '\0') {
            *o++ = '\\';
            byte = byte == '\r' ? 'r' : byte == '\n' ? 'n' : byte == '\0' ? '0' : '\\';
        }
        *o++ = byte;
    }
    *out = o;
    return value == BULK_HEX_END && s > from ? s : NULL;
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
    switch (bulk_literal(&s, end)) {
    case BULK_IS_NULL:
        *(*out)++ = '\\';
        *(*out)++ = 'N';
        return s;
    case BULK_IS_STRING:
        return line_string(s, end, out);
    case BULK_IS_HEX:
        return line_hex(s, end, out);
    case BULK_IS_NUMBER:
        break;
    }
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
