#include "sql/literal.h"

#include <assert.h>
#include <string.h>

/* Appends a quoted name. Doubling the quote is the only escape in it, in every sql_mode. */
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

void sql_fill(struct buf *b, const char *sql, const char *const *args)
{
    for (; *sql; sql++) {
        if (*sql != '?' && *sql != '$') {
            buf_addc(b, *sql);
            continue;
        }
        assert(*args);
        if (*sql == '$') {
            buf_adds(b, *args);
        } else if (sql[1] == '?') {
            sql_ident(b, *args);
            sql++;
        } else {
            sql_string(b, *args, strlen(*args));
        }
        args++;
    }
    assert(!*args);
}

void sql_text_literal(struct buf *b, const char *s, size_t len)
{
    static const char escaped[256] = {
        ['\0'] = '0', ['\n'] = 'n', ['\r'] = 'r', ['\\'] = '\\', ['\''] = '\''};
    buf_addc(b, '\'');
    for (; len > 0; s++, len--) {
        char letter = escaped[(unsigned char)*s];
        if (letter)
            buf_addc(b, letter == '\'' ? '\'' : '\\');
        buf_addc(b, letter ? letter : *s);
    }
    buf_addc(b, '\'');
}

/* [byte] is the letter after the backslash, or 0 if the byte needs no escape. Bytes without an
 * escape are unchanged in our strings, and the reader skips over them. */
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

/* Appends a string. Space is reserved once, for the case that every byte is escaped. */
void sql_string(struct buf *b, const char *data, size_t len)
{
    buf_reserve(b, 2 * len + 2);
    char *o = sql_put_string(b->p + b->len, data, len);
    *o = '\0';
    b->len = (size_t)(o - b->p);
}

/* Appends a hex literal. Empty data is written as '', because 0x alone would be a name. */
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

/* Reads a quoted name. An empty name is rejected, because no server has one. */
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

/* [letter] is the byte for a letter that sql_put_string() writes after a backslash. It is 0 for
 * other letters and for '0' itself. */
static const char meant[256] = {
    ['n'] = '\n', ['r'] = '\r', ['\\'] = '\\', ['\''] = '\'', ['"'] = '"', ['Z'] = 26,
};

static bool is_escape(char letter)
{
    return letter == '0' || meant[(unsigned char)letter];
}

/* Inlined into the loops over a dump's rows, so that the compiler removes results that a loop
 * does not use. */
#define IN_LOOPS static inline __attribute__((always_inline))

/* Skips bytes that need no escape, four at a time, because most bytes of a dump are such bytes. */
IN_LOOPS const char *skip_plain(const char *s, const char *end)
{
    const unsigned char *u = (const unsigned char *)s, *last = (const unsigned char *)end;
    while (last - u >= 4 && !(escapes[u[0]] | escapes[u[1]] | escapes[u[2]] | escapes[u[3]]))
        u += 4;
    while (u < last && !escapes[*u])
        u++;
    return (const char *)u;
}

/* Reads a string. `s` is after the opening quote. */
IN_LOOPS const char *read_string(const char *s, const char *end, struct sql_literal *l)
{
    l->kind = SQL_IS_STRING;
    for (l->s = s; s < end; s++) {
        s = skip_plain(s, end);
        if (s == end)
            return NULL;
        if (*s == '\'') {
            l->len = (size_t)(s - l->s);
            return s + 1;
        }
        if (*s == '\\') {
            l->escaped = true;
            if (++s == end)
                return NULL;
            l->ours = l->ours && is_escape(*s);
        } else {
            l->ours = false;
        }
        if (*s == '\n') /* our strings contain no line end, so every truncated line is detected */
            return NULL;
    }
    return NULL;
}

static const char *skip_digits(const char *s, const char *end)
{
    while (s < end && text_is_digit(*s))
        s++;
    return s;
}

/* 1 for a digit of sql_put_hex(), 2 for a capital one */
static const unsigned char hex_class[256] = {
    ['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1,
    ['8'] = 1, ['9'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1,
    ['A'] = 2, ['B'] = 2, ['C'] = 2, ['D'] = 2, ['E'] = 2, ['F'] = 2};

/* Reads hex digits. `s` is after "0x". */
IN_LOOPS const char *read_hex(const char *s, const char *end, struct sql_literal *l)
{
    unsigned char class, seen = 0;
    l->kind = SQL_IS_HEX;
    l->s = s;
    for (; s < end && (class = hex_class[(unsigned char)*s]) != 0; s++)
        seen |= class;
    l->len = (size_t)(s - l->s);
    l->ours = seen == 1 && l->len % 2 == 0;
    return seen ? s : NULL;
}

/* Reads the rest of a number after its first digits. Our literals do not include .5, 5. and
 * 1E+5. */
IN_LOOPS const char *read_fraction(const char *s, const char *end, size_t digits, bool *ours)
{
    *ours = true;
    if (*s == '.') {
        const char *point = s++;
        s = skip_digits(s, end);
        *ours = digits && s > point + 1;
        digits += (size_t)(s - point) - 1;
    }
    if (digits == 0)
        return NULL;
    if (s < end && (*s == 'e' || *s == 'E')) {
        bool plus = end - s > 1 && s[1] == '+';
        *ours = *ours && *s == 'e' && !plus;
        s += 1 + (plus || (end - s > 1 && s[1] == '-'));
        const char *power = s;
        s = skip_digits(s, end);
        if (s == power)
            return NULL;
    }
    return s;
}

IN_LOOPS const char *read_number(const char *s, const char *end, struct sql_literal *l)
{
    bool ours = true;
    l->kind = SQL_IS_NUMBER;
    l->s = s;
    const char *from = s += *s == '-';
    s = skip_digits(s, end);
    if (s == end)
        s = s > from ? s : NULL;
    else if (s == from || *s == '.' || (*s | 0x20) == 'e')
        s = read_fraction(s, end, (size_t)(s - from), &ours);
    l->ours = ours;
    l->len = s ? (size_t)(s - l->s) : 0;
    return s;
}

IN_LOOPS const char *read_literal(const char *s, const char *end, struct sql_literal *l)
{
    size_t left = (size_t)(end - s);
    l->ours = true;
    l->escaped = false;
    if (left == 0)
        return NULL;
    if (*s > '0' && *s <= '9')
        return read_number(s, end, l);
    if (*s == '0' && left > 2 && s[1] == 'x')
        return read_hex(s + 2, end, l);
    if (*s == 'N' && left >= 4 && memcmp(s, "NULL", 4) == 0) {
        l->kind = SQL_IS_NULL;
        return s + 4;
    }
    if (*s == '_')
        s += left > 8 && memcmp(s, "_latin1'", 8) == 0    ? 7
             : left > 9 && memcmp(s, "_utf8mb4'", 9) == 0 ? 8
                                                          : 0;
    return *s == '\'' ? read_string(s + 1, end, l) : read_number(s, end, l);
}

const char *sql_read_literal(const char *s, const char *end, struct sql_literal *out)
{
    return read_literal(s, end, out);
}

char *sql_literal_bytes(const struct sql_literal *l, char *out)
{
    const char *s = l->s, *end = s + l->len;
    if (l->kind == SQL_IS_HEX) {
        for (; l->ours && s < end; s += 2)
            *out++ = (char)(text_hex_value(s[0]) << 4 | text_hex_value(s[1]));
        return l->ours ? out : NULL;
    }
    if (!l->escaped) {
        memcpy(out, s, l->len);
        return out + l->len;
    }
    for (; s < end; s++) {
        if (*s != '\\')
            *out++ = *s;
        else if (is_escape(*++s))
            *out++ = meant[(unsigned char)*s];
        else
            return NULL;
    }
    return out;
}

/* Implements sql_split_tuple(). With `any`, literals need not have our form. */
IN_LOOPS const char *read_tuple(const char *s, const char *end, size_t *ends, size_t want, bool any,
                                size_t *fields)
{
    struct sql_literal l;
    const char *tuple = s;
    size_t n = 0;
    *fields = 0;
    if (s >= end || *s != '(')
        return NULL;
    do {
        s = read_literal(s + 1, end, &l);
        if (!s || s >= end || !(any || l.ours))
            return NULL;
        if (n < want)
            ends[n] = (size_t)(s - tuple);
        n++;
    } while (*s == ',');
    *fields = n;
    return *s == ')' ? s + 1 : NULL;
}

const char *sql_read_tuple(const char *s, const char *end, unsigned *fields)
{
    size_t n;
    s = read_tuple(s, end, NULL, 0, true, &n);
    *fields = (unsigned)n;
    return s;
}

const char *sql_split_tuple(const char *s, const char *end, size_t *ends, size_t want,
                            size_t *fields)
{
    return read_tuple(s, end, ends, want, false, fields);
}

/* Finds a field. Literals have no fixed length, so the tuple is read from the front. Nothing
 * after the field is read. */
const char *sql_tuple_field(const char *tuple, size_t len, size_t n, size_t *field_len)
{
    struct sql_literal l;
    const char *end = tuple + len, *s = tuple;
    for (;; n--) {
        const char *from = s + 1;
        s = from < end ? sql_read_literal(from, end, &l) : NULL;
        if (!s || s == end || (*s != ',' && *s != ')'))
            return NULL;
        if (n == 0) {
            *field_len = (size_t)(s - from);
            return from;
        }
        if (*s == ')')
            return NULL;
    }
}

static uint64_t literal_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* Hashes a tuple, eight bytes at a time, because this runs over each byte of a world. The hash
 * need not resist deliberate collisions, because the SHA-256 of a dump protects it. */
uint64_t sql_tuple_hash(const char *s, size_t len)
{
    uint64_t h = 0x2545f4914f6cdd1du ^ len, v = 0;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&v, s, 8);
        h = literal_mix(h, v);
    }
    v = 0;
    memcpy(&v, s, len);
    h = literal_mix(h, v);
    return literal_mix(h, h >> 32);
}
