/* Values of row images, except dates and times. */
#include <string.h>

#include "db/image_int.h"
#include "db/real.h"
#include "db/sql.h"
#include "db/value.h"

char *field_put_int(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint64_t n = low_first(v, len);
    if (f->is_unsigned)
        return db_put_digits(o, n, f->pad);
    unsigned unused = 64 - 8 * (unsigned)len;
    int64_t s = (int64_t)(n << unused) >> unused;
    if (s >= 0)
        return db_put_digits(o, (uint64_t)s, 0);
    *o++ = '-';
    return db_put_digits(o, -(uint64_t)s, 0);
}

char *field_put_number(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    return db_put_digits(o, low_first(v, len), 0);
}

static char *put_real(char *o, double value)
{
    char text[REAL_MAX];
    size_t len = real_text(value, text);
    return db_put_value(o, DB_DOUBLE, text, len);
}

char *field_put_float(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    uint32_t bits = (uint32_t)low_first(v, len);
    float value;
    memcpy(&value, &bits, sizeof value);
    return put_real(o, (double)value);
}

char *field_put_double(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    uint64_t bits = low_first(v, len);
    double value;
    memcpy(&value, &bits, sizeof value);
    return put_real(o, value);
}

/* Bytes of a group of up to nine digits. */
static const uint8_t group_size[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t group_limit[] = {1,      10,      100,      1000,      10000,
                                       100000, 1000000, 10000000, 100000000, 1000000000};

unsigned decimal_size(unsigned precision, unsigned scale)
{
    unsigned whole = precision - scale;
    return whole / 9 * 4 + group_size[whole % 9] + scale / 9 * 4 + group_size[scale % 9];
}

/* `digits` of a DECIMAL from *v on. `flip` undoes the sign's bits. NULL: more digits than that. */
static char *put_group(char *o, const uint8_t **v, unsigned digits, uint8_t flip)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < group_size[digits]; i++)
        n = n << 8 | (*(*v)++ ^ flip);
    return n < group_limit[digits] ? db_put_digits(o, n, digits) : NULL;
}

/* Groups of nine digits on both sides of the point, what is left over at the outer ends. The sign
 * is the first bit, turned around; all bits of a negative number are. */
char *field_put_decimal(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t bytes[32], flip = *v & 0x80 ? 0 : 0xff;
    char text[96], *t = text;
    const uint8_t *at = bytes;
    unsigned whole = f->precision - f->decimals;
    memcpy(bytes, v, len);
    bytes[0] ^= 0x80;
    if (whole % 9)
        t = put_group(t, &at, whole % 9, flip);
    for (unsigned i = 0; t && i < whole / 9; i++)
        t = put_group(t, &at, 9, flip);
    const char *first = text, *point = t;
    for (unsigned i = 0; t && i < f->decimals / 9u; i++)
        t = put_group(t, &at, 9, flip);
    if (t && f->decimals % 9)
        t = put_group(t, &at, f->decimals % 9, flip);
    if (!t)
        return NULL;
    while (first < point && *first == '0' && (size_t)(point - first) > f->pad)
        first++;
    if (flip)
        *o++ = '-';
    if (first == point)
        *o++ = '0';
    memcpy(o, first, (size_t)(point - first));
    o += point - first;
    if (f->decimals == 0)
        return o;
    *o++ = '.';
    memcpy(o, point, (size_t)(t - point));
    return o + (t - point);
}

char *field_put_bits(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return db_put_value(o, f->encoding, (const char *)v, len);
}

char *field_put_text(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return db_put_value(o, f->encoding, (const char *)v, len);
}

/* BINARY: the image leaves out the zeros at the end. */
char *field_put_filled(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    o = sql_put_string(o, (const char *)v, len) - 1;
    for (; len < f->size; len++) {
        *o++ = '\\';
        *o++ = '0';
    }
    *o++ = '\'';
    return o;
}

static const uint8_t *fill(uint8_t *out, const struct field *f, const uint8_t *v, size_t len)
{
    memset(out, 0, f->size);
    memcpy(out, v, len);
    return out;
}

static char *put_uuid(const struct field *f, char *o, const uint8_t *v)
{
    char hex[33], text[36], *t = text;
    text_hex(v, 16, hex);
    for (int i = 0; i < 32; i++) {
        if (i == 8 || i == 12 || i == 16 || i == 20)
            *t++ = '-';
        *t++ = hex[i];
    }
    return db_put_value(o, f->encoding, text, sizeof text);
}

/* Stored with the parts that change most behind, so that keys of one place lie together. */
static char *put_swapped(const struct field *f, char *o, const uint8_t *v)
{
    static const uint8_t order[16] = {12, 13, 14, 15, 10, 11, 8, 9, 6, 7, 0, 1, 2, 3, 4, 5};
    uint8_t u[16];
    for (int i = 0; i < 16; i++)
        u[i] = v[order[i]];
    return put_uuid(f, o, u);
}

char *field_put_uuid_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    return put_swapped(f, o, fill(u, f, v, len));
}

/* Versions from 6 on are in order themselves and are stored as they are. The server tells the two
 * apart by the places at which a swapped one has its variant and its version. */
char *field_put_uuid(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    fill(u, f, v, len);
    bool swapped = u[6] & 0x80 && u[8] >= 1 && u[8] <= 0x80;
    return swapped ? put_swapped(f, o, u) : put_uuid(f, o, u);
}

static char *put_dotted(char *o, const uint8_t *v)
{
    for (int i = 0; i < 4; i++) {
        if (i)
            *o++ = '.';
        o = db_put_digits(o, v[i], 0);
    }
    return o;
}

char *field_put_inet4(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    char text[16];
    const char *end = put_dotted(text, fill(u, f, v, len));
    return db_put_value(o, f->encoding, text, (size_t)(end - text));
}

static char *put_hex(char *o, unsigned v)
{
    for (int shift = 12; shift >= 0; shift -= 4)
        if (v >> shift || shift == 0)
            *o++ = "0123456789abcdef"[v >> shift & 15];
    return o;
}

/* The longest run of zeros, the first of those, becomes "::"; then what is or holds an IPv4 address
 * ends in one. */
static char *put_colons(char *o, const uint8_t *v)
{
    unsigned words[8];
    int gap = -1, length = 0;
    for (int i = 0; i < 8; i++)
        words[i] = 256u * v[2 * i] + v[2 * i + 1];
    for (int i = 0, run = 0; i < 8; i++) {
        run = words[i] ? 0 : run + 1;
        if (run > length) {
            length = run;
            gap = i - run + 1;
        }
    }
    bool ipv4 = gap == 0 && (length == 6 || (length == 5 && words[5] == 0xffff));
    for (int i = 0; i < 8; i++) {
        if (i == gap) {
            if (i == 0)
                *o++ = ':';
            *o++ = ':';
            i += length - 1;
        } else if (i == 6 && ipv4) {
            return put_dotted(o, v + 12);
        } else {
            o = put_hex(o, words[i]);
            if (i < 7)
                *o++ = ':';
        }
    }
    return o;
}

char *field_put_inet6(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    char text[48];
    const char *end = put_colons(text, fill(u, f, v, len));
    return db_put_value(o, f->encoding, text, (size_t)(end - text));
}
