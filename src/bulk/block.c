#include "bulk/block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "bulk/bulk_int.h"
#include "sql/literal.h"

void bulk_block_init(struct bulk_block *k, const struct bulk_column *columns, size_t count)
{
    static const unsigned widths[] = {[BULK_BYTES] = 0, [BULK_DOUBLE] = 8, [BULK_INT8] = 1,
                                      [BULK_INT16] = 2, [BULK_INT32] = 4,  [BULK_INT64] = 8};
    *k = (struct bulk_block){.count = count, .columns = xcalloc(count, sizeof *k->columns)};
    for (size_t i = 0; i < count; i++)
        k->columns[i] = (struct bulk_cells){.kind = columns[i].kind,
                                            .is_unsigned = columns[i].is_unsigned,
                                            .width = widths[columns[i].kind]};
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

/* Stores an integer. A value that does not fit cannot come from such a column and must not be
 * truncated silently. */
static bool put_integer(const struct sql_literal *l, struct bulk_cells *c, size_t row)
{
    bool minus = *l->s == '-';
    uint64_t v = 0, most = UINT64_MAX >> (64 - 8 * c->width);
    for (const char *s = l->s + minus; s < l->s + l->len; s++)
        if (!number_append(&v, *s))
            return false;
    if (v > (c->is_unsigned ? (minus ? 0 : most) : (most >> 1) + minus))
        return false;
    if (minus)
        v = 0 - v;
    /* Narrowing the value instead of its bytes works with either byte order. */
    uint8_t v8 = (uint8_t)v;
    uint16_t v16 = (uint16_t)v;
    uint32_t v32 = (uint32_t)v;
    const void *value = c->width == 1   ? (const void *)&v8
                        : c->width == 2 ? (const void *)&v16
                        : c->width == 4 ? (const void *)&v32
                                        : (const void *)&v;
    memcpy((char *)c->numbers + row * c->width, value, c->width);
    return true;
}

static bool put_double(const struct sql_literal *l, struct bulk_cells *c, size_t row)
{
    char text[64];
    if (l->len >= sizeof text)
        return false;
    memcpy(text, l->s, l->len);
    text[l->len] = '\0';
    double v = strtod(text, NULL);
    memcpy((char *)c->numbers + row * sizeof v, &v, sizeof v);
    return isfinite(v);
}

/* Stores a value as bytes. A decimal stays text, because the server parses it as exactly as a
 * literal. With an exponent the server would treat it as a double. */
static bool block_put_bytes(struct buf *scratch, const struct sql_literal *l, struct bulk_cells *c,
                            size_t row)
{
    char *from = scratch->p + scratch->len, *out = from;
    if (l->kind != SQL_IS_NUMBER) {
        out = sql_literal_bytes(l, from);
        if (!out)
            return false;
    } else {
        for (const char *s = l->s; s < l->s + l->len; s++)
            if ((*out++ = *s) == 'e' || *s == 'E')
                return false;
    }
    c->bytes[row] = from;
    c->lengths[row] = (unsigned long)(out - from);
    scratch->len += (size_t)(out - from);
    return true;
}

static bool block_put_value(struct bulk_block *k, struct bulk_cells *c, const struct sql_literal *l,
                            size_t row)
{
    c->null[row] = l->kind == SQL_IS_NULL ? BULK_NULL : BULK_GIVEN;
    if (l->kind == SQL_IS_NULL) {
        if (!c->width) { /* the library reads through the pointer even for NULL */
            c->bytes[row] = k->scratch.p;
            c->lengths[row] = 0;
        }
        return true;
    }
    if (c->kind == BULK_BYTES)
        return block_put_bytes(&k->scratch, l, c, row);
    if (l->kind != SQL_IS_NUMBER)
        return false;
    return c->kind == BULK_DOUBLE ? put_double(l, c, row) : put_integer(l, c, row);
}

/* Reads one tuple into row `row` and returns the position after it. Increases `bytes` by the
 * tuple's size in a packet. */
static const char *block_read_tuple(struct bulk_block *k, const char *s, const char *end,
                                    size_t row, size_t *bytes)
{
    struct sql_literal l;
    if (s >= end || *s != '(')
        return NULL;
    for (size_t i = 0; i < k->count; i++) {
        struct bulk_cells *c = &k->columns[i];
        s = sql_read_literal(s + 1, end, &l);
        if (!s || s >= end || *s != (i + 1 < k->count ? ',' : ')') ||
            !block_put_value(k, c, &l, row))
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
    buf_reserve(&k->scratch, (size_t)(end - s)); /* a value is never longer than its literal */
    while (s < end && k->rows < BULK_BLOCK_ROWS) {
        if (k->rows == k->room) {
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
        const char *next = block_read_tuple(k, s, end, k->rows, &bytes);
        if (!next || (next != end && (end - next < 3 || next[0] != ',' || next[1] != '\n')))
            return NULL;
        if (bytes > packet && k->rows > 0)
            break; /* this row becomes the first one of the next packet */
        k->rows++;
        k->bytes = bytes;
        s = next == end ? next : next + 2;
    }
    return s;
}

void bulk_expression(struct buf *b, enum db_encoding enc, const char *value)
{
    static const struct {
        const char *before, *after;
    } forms[] = {
        /* a string could be mistaken for a member's name */
        [DB_INDEX] = {"CAST(", " AS UNSIGNED)"},
        [DB_LATIN1] = {"CONVERT(", " USING latin1)"},
        [DB_UTF8] = {"CONVERT(", " USING utf8mb4)"},
    };
    const char *before = forms[enc].before;
    buf_printf(b, "%s%s%s", before ? before : "", value, before ? forms[enc].after : "");
}
