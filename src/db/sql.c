#include "db/sql.h"

#include <ctype.h>
#include <string.h>

void sql_ident(struct buf *b, const char *name)
{
    buf_addc(b, '`');
    for (; *name; name++) {
        if (*name == '`')
            buf_addc(b, '`');
        buf_addc(b, *name);
    }
    buf_addc(b, '`');
}

void sql_ident2(struct buf *b, const char *schema, const char *name)
{
    sql_ident(b, schema);
    buf_addc(b, '.');
    sql_ident(b, name);
}

/* The letter behind the backslash, or 0 for a byte that stands for itself. */
static const char escapes[256] = {
    ['\0'] = '0', ['\n'] = 'n', ['\r'] = 'r', ['\\'] = '\\', ['\''] = '\'', ['"'] = '"', [26] = 'Z',
};

char *sql_put_string(char *o, const char *data, size_t len)
{
    const char *end = data + len;
    *o++ = '\'';
    for (; data < end; data++) {
        char esc = escapes[(unsigned char)*data];
        if (esc) {
            *o++ = '\\';
            *o++ = esc;
        } else {
            *o++ = *data;
        }
    }
    *o++ = '\'';
    return o;
}

void sql_string(struct buf *b, const char *data, size_t len)
{
    buf_reserve(b, 2 * len + 2);
    char *o = sql_put_string(b->p + b->len, data, len);
    *o = '\0';
    b->len = (size_t)(o - b->p);
}

char *sql_put_hex(char *o, const char *data, size_t len)
{
    if (len == 0) {
        *o++ = '\'';
        *o++ = '\'';
        return o;
    }
    *o++ = '0';
    *o++ = 'x';
    text_hex((const unsigned char *)data, len, o);
    return o + 2 * len;
}

void sql_hex(struct buf *b, const char *data, size_t len)
{
    buf_reserve(b, 2 * len + 2);
    char *o = sql_put_hex(b->p + b->len, data, len);
    *o = '\0';
    b->len = (size_t)(o - b->p);
}

const char *sql_read_ident(const char *s, const char *end, struct buf *out)
{
    if (s >= end || *s != '`')
        return NULL;
    for (s++; s < end; s++) {
        if (*s != '`') {
            buf_addc(out, *s);
        } else if (s + 1 < end && s[1] == '`') {
            buf_addc(out, '`');
            s++;
        } else {
            return out->len ? s + 1 : NULL;
        }
    }
    return NULL;
}

/* Ends of a plain run inside a string. A raw line end is in no value of ours (sql_put_string), so
 * that a line that is cut off is known for one wherever the text is cut. */
static const bool quote_or_escape[256] = {['\''] = true, ['\\'] = true, ['\n'] = true};

static const char *read_string(const char *s, const char *end)
{
    for (s++; s < end; s++) {
        while (!quote_or_escape[(unsigned char)*s])
            if (++s == end)
                return NULL;
        if (*s == '\'')
            return s + 1;
        if (*s == '\n' || ++s == end || *s == '\n')
            return NULL;
    }
    return NULL;
}

/* Not isdigit(): this runs over each byte of a dump. */
static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static const char *read_number(const char *s, const char *end)
{
    if (s + 2 < end && s[0] == '0' && s[1] == 'x') {
        const char *from = s + 2;
        for (s = from; s < end && isxdigit((unsigned char)*s);)
            s++;
        return s > from ? s : NULL;
    }
    if (s < end && *s == '-')
        s++;
    unsigned digits = 0, dots = 0;
    for (; s < end && (is_digit(*s) || *s == '.'); s++)
        ++*(*s == '.' ? &dots : &digits);
    if (digits == 0 || dots > 1)
        return NULL;
    if (s < end && (*s == 'e' || *s == 'E')) {
        s++;
        if (s < end && (*s == '-' || *s == '+'))
            s++;
        if (s >= end || !is_digit(*s))
            return NULL;
        while (s < end && is_digit(*s))
            s++;
    }
    return s;
}

static const char *read_literal(const char *s, const char *end)
{
    size_t left = (size_t)(end - s);
    if (left == 0)
        return NULL;
    if (*s == '\'')
        return read_string(s, end);
    if (left >= 4 && memcmp(s, "NULL", 4) == 0)
        return s + 4;
    if (left > 8 && memcmp(s, "_latin1'", 8) == 0)
        return read_string(s + 7, end);
    if (left > 9 && memcmp(s, "_utf8mb4'", 9) == 0)
        return read_string(s + 8, end);
    return read_number(s, end);
}

const char *sql_read_tuple(const char *s, const char *end, unsigned *fields)
{
    *fields = 0;
    if (s >= end || *s != '(')
        return NULL;
    do {
        s = read_literal(s + 1, end);
        if (!s || s >= end)
            return NULL;
        ++*fields;
    } while (*s == ',');
    return *s == ')' ? s + 1 : NULL;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

uint64_t sql_tuple_hash(const char *s, size_t len)
{
    uint64_t h = 0x2545f4914f6cdd1du ^ len, v = 0;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&v, s, 8);
        h = mix(h, v);
    }
    v = 0;
    memcpy(&v, s, len);
    h = mix(h, v);
    return mix(h, h >> 32);
}

/* Inside quotes or a comment: how many bytes are judged now, 0 when too few of them are there. A
 * doubled quote closes and opens again, which comes to the same. */
static size_t scan_inside(struct sql_scan *st, const char *s, size_t left)
{
    if (st->escaped) {
        st->escaped = false;
    } else if (st->quote) {
        if (*s == '\\' && st->quote != '`' && !st->plain)
            st->escaped = true;
        else if (*s == st->quote)
            st->quote = 0;
    } else if (st->comment == '-') {
        if (*s == '\n')
            st->comment = 0;
    } else if (*s == '*' && (left < 2 || s[1] == '/')) {
        if (left < 2)
            return 0;
        st->comment = 0;
        return 2;
    }
    return 1;
}

/* Two dashes begin a comment only before white space: 5--3 is 8. */
static size_t scan_dash(struct sql_scan *st, const char *s, size_t left)
{
    if (left >= 2 && s[1] != '-')
        return 1;
    if (left < 3)
        return 0;
    if (!isspace((unsigned char)s[2]) && !iscntrl((unsigned char)s[2]))
        return 1;
    st->comment = '-';
    return 2;
}

/* What stands in a conditional comment is part of the statement. */
static size_t scan_slash(struct sql_scan *st, const char *s, size_t left)
{
    if (left >= 2 && s[1] != '*')
        return 1;
    if (left < 3 || (s[2] == 'M' && left < 4))
        return 0;
    if (s[2] == '!' || (s[2] == 'M' && s[3] == '!'))
        return 3;
    st->comment = '*';
    return 2;
}

static size_t scan_outside(struct sql_scan *st, const char *s, size_t left)
{
    switch (*s) {
    case '\'':
    case '"':
    case '`':
        st->quote = *s;
        return 1;
    case '#':
        st->comment = '-';
        return 1;
    case '-':
        return scan_dash(st, s, left);
    case '/':
        return scan_slash(st, s, left);
    default:
        return 1;
    }
}

const char *sql_find_end(const char *s, const char *end, const char *delimiter, struct sql_scan *st)
{
    size_t dl = strlen(delimiter);
    s -= st->waiting;
    while (s < end) {
        size_t left = (size_t)(end - s), judged;
        if (st->quote || st->comment)
            judged = scan_inside(st, s, left);
        else if (*s != *delimiter || memcmp(s, delimiter, left < dl ? left : dl) != 0)
            judged = scan_outside(st, s, left);
        else if (left >= dl)
            return s;
        else
            judged = 0;
        if (judged == 0)
            break;
        s += judged;
    }
    st->waiting = (size_t)(end - s);
    return NULL;
}
