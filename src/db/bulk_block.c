/* Rows out of their literals into whole columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "db/bulk_int.h"

static unsigned width_of(enum bulk_kind kind)
{
    switch (kind) {
    case BULK_INT8:
        return 1;
    case BULK_INT16:
        return 2;
    case BULK_INT32:
        return 4;
    case BULK_INT64:
    case BULK_DOUBLE:
        return 8;
    case BULK_BYTES:
        break;
    }
    return 0;
}

void bulk_block_init(struct bulk_block *k, const struct bulk_column *columns, size_t count)
{
    *k = (struct bulk_block){.count = count, .columns = xcalloc(count, sizeof *k->columns)};
    for (size_t i = 0; i < count; i++)
        k->columns[i] = (struct bulk_cells){.kind = columns[i].kind,
                                            .is_unsigned = columns[i].is_unsigned,
                                            .width = width_of(columns[i].kind)};
}

void bulk_block_free(struct bulk_block *k)
{
    for (size_t i = 0; i < k->count; i++) {
        free(k->columns[i].null);
        free(k->columns[i].numbers);
        free(k->columns[i].bytes);
        free(k->columns[i].lengths);
    }
    free(k->columns);
    buf_free(&k->scratch);
    *k = (struct bulk_block){0};
}

static void grow(struct bulk_block *k)
{
    k->room = k->room ? 2 * k->room : 1024;
    for (size_t i = 0; i < k->count; i++) {
        struct bulk_cells *c = &k->columns[i];
        c->null = xrealloc(c->null, k->room);
        if (c->width) {
            c->numbers = xrealloc(c->numbers, k->room * c->width);
        } else {
            c->bytes = xrealloc(c->bytes, k->room * sizeof *c->bytes);
            c->lengths = xrealloc(c->lengths, k->room * sizeof *c->lengths);
        }
    }
}

/* What does not fit was never in such a column, and must not be narrowed in silence. */
static uint64_t largest(const struct bulk_cells *c, bool minus)
{
    uint64_t all = c->width == 1   ? UINT8_MAX
                   : c->width == 2 ? UINT16_MAX
                   : c->width == 4 ? UINT32_MAX
                                   : UINT64_MAX;
    return c->is_unsigned ? (minus ? 0 : all) : (all >> 1) + minus;
}

static const char *read_integer(const char *s, const char *end, struct bulk_cells *c, size_t row)
{
    bool minus = s < end && *s == '-';
    uint64_t v = 0;
    const char *from = s += minus;
    for (; s < end && (unsigned char)(*s - '0') < 10; s++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            return NULL;
    if (s == from || v > largest(c, minus))
        return NULL;
    if (minus)
        v = 0 - v;
    /* little endian and any other: the value is narrowed, not its bytes */
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;
    const void *value = c->width == 1   ? (const void *)&v8
                        : c->width == 2 ? (const void *)&v16
                        : c->width == 4 ? (const void *)&v32
                                        : (const void *)&v;
    memcpy((char *)c->numbers + row * c->width, value, c->width);
    return s;
}

static const char *read_double(const char *s, const char *end, struct bulk_cells *c, size_t row)
{
    char text[64];
    size_t n = 0;
    while (s + n < end && s[n] != ',' && s[n] != ')' && n < sizeof text - 1)
        n++;
    memcpy(text, s, n);
    text[n] = '\0';
    char *stop;
    /* no letters but an exponent's: strtod() knows more forms than SQL does */
    if (n == 0 || strspn(text, "0123456789+-.eE") != n)
        return NULL;
    double v = strtod(text, &stop);
    if (*stop || !isfinite(v))
        return NULL;
    memcpy((char *)c->numbers + row * sizeof v, &v, sizeof v);
    return s + n;
}

static const char *read_quoted(const char *s, const char *end, char **out)
{
    static const bool stop[256] = {['\''] = true, ['\\'] = true};
    char *o = *out;
    for (; s < end; s++) {
        while (!stop[(unsigned char)*s]) {
            *o++ = *s;
            if (++s == end)
                return NULL;
        }
        if (*s == '\'') {
            *out = o;
            return s + 1;
        }
        int c = ++s == end ? -1 : bulk_unescaped(*s);
        if (c < 0)
            return NULL;
        *o++ = (char)c;
    }
    return NULL;
}

static const char *read_hex(const char *s, const char *end, char **out)
{
    char *o = *out;
    int byte;
    for (; (byte = bulk_hex(s, end)) >= 0; s += 2)
        *o++ = (char)byte;
    const char *done = byte == BULK_HEX_END && o > *out ? s : NULL;
    *out = o;
    return done;
}

/* A decimal stays text: the server reads it as exactly as from a literal. */
static const char *read_decimal(const char *s, const char *end, char **out)
{
    char *o = *out;
    bool digits = false, point = false;
    if (s < end && *s == '-')
        *o++ = *s++;
    for (; s < end; s++) {
        bool digit = (unsigned char)(*s - '0') < 10;
        if (!digit && (*s != '.' || point))
            break;
        digits |= digit;
        point |= !digit;
        *o++ = *s;
    }
    *out = o;
    return digits ? s : NULL;
}

static const char *read_bytes(struct buf *scratch, enum bulk_literal is, const char *s,
                              const char *end, struct bulk_cells *c, size_t row)
{
    char *from = scratch->p + scratch->len, *out = from;
    s = is == BULK_IS_STRING ? read_quoted(s, end, &out)
        : is == BULK_IS_HEX  ? read_hex(s, end, &out)
                             : read_decimal(s, end, &out);
    c->bytes[row] = from;
    c->lengths[row] = (unsigned long)(out - from);
    scratch->len += (size_t)(out - from);
    return s;
}

static const char *set_null(struct bulk_block *k, struct bulk_cells *c, const char *s, size_t row)
{
    c->null[row] = BULK_NULL;
    if (!c->width) {
        c->bytes[row] = k->scratch.p;
        c->lengths[row] = 0;
    }
    return s;
}

static const char *read_value(struct bulk_block *k, struct bulk_cells *c, const char *s,
                              const char *end, size_t row)
{
    enum bulk_literal is = bulk_literal(&s, end);
    if (is == BULK_IS_NULL)
        return set_null(k, c, s, row);
    c->null[row] = BULK_GIVEN;
    if (c->kind == BULK_BYTES)
        return read_bytes(&k->scratch, is, s, end, c, row);
    if (is != BULK_IS_NUMBER)
        return NULL;
    return c->kind == BULK_DOUBLE ? read_double(s, end, c, row) : read_integer(s, end, c, row);
}

/* One tuple into row `row`; the place behind it. `bytes` grows by what it takes in a packet. */
static const char *read_tuple(struct bulk_block *k, const char *s, const char *end, size_t row,
                              size_t *bytes)
{
    if (s >= end || *s != '(')
        return NULL;
    for (size_t i = 0; i < k->count; i++) {
        struct bulk_cells *c = &k->columns[i];
        s = read_value(k, c, s + 1, end, row);
        if (!s || s >= end || *s != (i + 1 < k->count ? ',' : ')'))
            return NULL;
        *bytes += 1 + (c->width ? c->width : c->lengths[row] + 9);
    }
    return s + 1;
}

const char *bulk_block_read(struct bulk_block *k, const char *s, const char *end, size_t packet)
{
    size_t bytes = 0;
    k->rows = 0;
    k->bytes = 0;
    k->scratch.len = 0;
    buf_reserve(&k->scratch, (size_t)(end - s)); /* no value is longer than its literal */
    while (s < end && k->rows < BULK_BLOCK_ROWS) {
        if (k->rows == k->room)
            grow(k);
        const char *next = read_tuple(k, s, end, k->rows, &bytes);
        if (!next || (next != end && (end - next < 3 || next[0] != ',' || next[1] != '\n')))
            return NULL;
        if (bytes > packet && k->rows > 0)
            break; /* the next packet begins with it */
        k->rows++;
        k->bytes = bytes;
        s = next == end ? next : next + 2;
    }
    return s;
}
