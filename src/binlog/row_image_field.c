#include "binlog/row_image_field.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "binlog/row_image_int.h"
#include "mysql/value.h"
#include "sql/enum_members.h"
#include "sql/literal.h"

/* Space for a number, date or time with its quotes, even if its bytes are invalid. */
#define ROOM 72u
#define DECIMAL_DIGITS 65u

/* ---- values ---- */

static char *put_int(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return db_put_int(o, low_first(v, len), (unsigned)len, f->is_unsigned, f->pad);
}

static char *row_image_field_put_real(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    double n = db_real(low_first(v, len), len == sizeof(float));
    return isfinite(n) ? db_put_double(o, n) : NULL; /* no column holds another number */
}

/* [n] is the number of bytes that store n digits, up to nine. */
static const uint8_t group_size[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
static const uint32_t group_limit[] = {1,      10,      100,      1000,      10000,
                                       100000, 1000000, 10000000, 100000000, 1000000000};

/* Returns the number of bytes of a DECIMAL. */
static unsigned decimal_size(unsigned precision, unsigned scale)
{
    unsigned whole = precision - scale;
    return whole / 9 * 4 + group_size[whole % 9] + scale / 9 * 4 + group_size[scale % 9];
}

/* Appends `digits` digits of a DECIMAL, read at *v. `flip` undoes the inversion of a negative
 * number. Returns NULL if the number is too large. */
static char *put_group(char *o, const uint8_t **v, unsigned digits, uint8_t flip)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < group_size[digits]; i++)
        n = n << 8 | (*(*v)++ ^ flip);
    return n < group_limit[digits] ? db_put_digits(o, n, digits) : NULL;
}

/* Appends a DECIMAL. Digits are stored in groups of nine on both sides of the point, with
 * incomplete groups at the outer ends. The first bit is the inverted sign. In a negative number
 * all bits are inverted. */
static char *put_decimal(const struct field *f, char *o, const uint8_t *v, size_t len)
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

/* Appends a text or BIT value. */
static char *put_text(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return db_put_value(o, f->encoding, (const char *)v, len);
}

/* Appends a BINARY value. The image omits its trailing zero bytes. */
static char *put_filled(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    o = sql_put_string(o, (const char *)v, len) - 1;
    for (; len < f->size; len++) {
        *o++ = '\\';
        *o++ = '0';
    }
    *o++ = '\'';
    return o;
}

static const uint8_t *row_image_field_fill(uint8_t *out, const struct field *f, const uint8_t *v,
                                           size_t len)
{
    memset(out, 0, f->size);
    memcpy(out, v, len);
    return out;
}

static char *put_dashed(const struct field *f, char *o, const uint8_t *v)
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

/* Appends a UUID that is stored with its most variable parts last, so that keys of the same
 * origin are adjacent. */
static char *put_swapped(const struct field *f, char *o, const uint8_t *v)
{
    static const uint8_t order[16] = {12, 13, 14, 15, 10, 11, 8, 9, 6, 7, 0, 1, 2, 3, 4, 5};
    uint8_t u[16];
    for (int i = 0; i < 16; i++)
        u[i] = v[order[i]];
    return put_dashed(f, o, u);
}

static char *put_uuid_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    return put_swapped(f, o, row_image_field_fill(u, f, v, len));
}

/* Appends a UUID. Versions 6 and later are already ordered and stored unchanged. The server
 * distinguishes the two forms by the bytes in which a swapped UUID has its variant and its
 * version. */
static char *put_uuid(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    row_image_field_fill(u, f, v, len);
    bool swapped = u[6] & 0x80 && u[8] >= 1 && u[8] <= 0x80;
    return swapped ? put_swapped(f, o, u) : put_dashed(f, o, u);
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

static char *put_inet4(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    char text[16];
    const char *end = put_dotted(text, row_image_field_fill(u, f, v, len));
    return db_put_value(o, f->encoding, text, (size_t)(end - text));
}

static char *put_hex(char *o, unsigned v)
{
    for (int shift = 12; shift >= 0; shift -= 4)
        if (v >> shift || shift == 0)
            *o++ = "0123456789abcdef"[v >> shift & 15];
    return o;
}

/* Appends an IPv6 address. The longest run of zeros (the first one of equal length) becomes
 * "::". An address that is or contains an IPv4 address ends with it. */
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

static char *put_inet6(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint8_t u[16];
    char text[48];
    const char *end = put_colons(text, row_image_field_fill(u, f, v, len));
    return db_put_value(o, f->encoding, text, (size_t)(end - text));
}

/* ---- dates and times ---- */

/* There are three formats: that of MySQL 5.6, which both servers write, and MariaDB's own two
 * formats with mysql56_temporal_format=OFF. Of these two, one is for types without a fraction
 * (decimal numbers, little endian), the other one for types with a fraction ("hires": a count of
 * the smallest unit, big endian). */

static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

static char *put_ymd(char *o, uint64_t year, uint64_t month, uint64_t day)
{
    return db_put_three(o, year, month, day, 4, '-');
}

static char *put_hms(char *o, uint64_t hour, uint64_t minute, uint64_t second)
{
    return db_put_three(o, hour, minute, second, 2, ':');
}

/* Appends `fraction`, which is in units of the last digit. */
static char *put_fraction(char *o, const struct field *f, uint64_t fraction)
{
    if (f->decimals == 0)
        return o;
    *o++ = '.';
    return db_put_digits(o, fraction, f->decimals);
}

/* Converts a fraction stored with one byte per two digits to units of the last digit that is
 * printed. */
static uint64_t whole_digits(const struct field *f, uint64_t pairs)
{
    return f->decimals % 2 ? pairs / 10 : pairs;
}

static char *row_image_field_quote(char *o)
{
    *o++ = '\'';
    return o;
}

/* Appends the quote and the sign of a TIME. Sets *n to its absolute value. */
static char *quote_signed(char *o, int64_t *n)
{
    o = row_image_field_quote(o);
    if (*n < 0) {
        *n = -*n;
        *o++ = '-';
    }
    return o;
}

static char *put_year(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)len;
    unsigned year = *v ? 1900u + *v : 0;
    return row_image_field_quote(f->size == 1 && f->pad == 2
                                     ? db_put_digits(row_image_field_quote(o), year % 100, 2)
                                     : db_put_digits(row_image_field_quote(o), year, 4));
}

static char *put_date(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    uint64_t n = low_first(v, len);
    return row_image_field_quote(put_ymd(row_image_field_quote(o), n >> 9, n >> 5 & 15, n & 31));
}

/* Appends a TIME. Its three bytes and those of the fraction form one number with an offset; the
 * fraction of a negative number counts down. */
static char *put_time(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    unsigned shift = 8 * (unsigned)(len - 3);
    int64_t n = (int64_t)high_first(v, len) - (INT64_C(0x800000) << shift);
    o = quote_signed(o, &n);
    uint64_t hms = (uint64_t)n >> shift, part = (uint64_t)n & ((UINT64_C(1) << shift) - 1);
    o = put_hms(o, hms >> 12 & 0x3ff, hms >> 6 & 63, hms & 63);
    return row_image_field_quote(put_fraction(o, f, whole_digits(f, part)));
}

static char *put_time_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    int64_t n = (int64_t)(low_first(v, len) << 40) >> 40;
    o = quote_signed(o, &n);
    uint64_t u = (uint64_t)n;
    return row_image_field_quote(put_hms(o, u / 10000, u / 100 % 100, u % 100));
}

static char *put_time_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    const uint64_t unit = powers[f->decimals];
    int64_t n = (int64_t)high_first(v, len) - (int64_t)((838 * 3600 + 59 * 60 + 60) * unit);
    o = quote_signed(o, &n);
    uint64_t u = (uint64_t)n, s = u / unit;
    o = put_hms(o, s / 3600, s / 60 % 60, s % 60);
    return row_image_field_quote(put_fraction(o, f, u % unit));
}

static char *put_datetime(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint64_t n = high_first(v, 5) & 0x7fffffffff, ymd = n >> 17, month = ymd >> 5;
    o = put_ymd(row_image_field_quote(o), month / 13, month % 13, ymd & 31);
    *o++ = ' ';
    o = put_hms(o, n >> 12 & 31, n >> 6 & 63, n & 63);
    return row_image_field_quote(put_fraction(o, f, whole_digits(f, high_first(v + 5, len - 5))));
}

static char *put_datetime_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    uint64_t n = low_first(v, len), date = n / 1000000, time = n % 1000000;
    o = put_ymd(row_image_field_quote(o), date / 10000, date / 100 % 100, date % 100);
    *o++ = ' ';
    return row_image_field_quote(put_hms(o, time / 10000, time / 100 % 100, time % 100));
}

static char *put_datetime_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint64_t n = high_first(v, len), s = n / powers[f->decimals], day = s / 86400;
    o = put_ymd(row_image_field_quote(o), day / 32 / 13, day / 32 % 13, day % 32);
    *o++ = ' ';
    o = put_hms(o, s / 3600 % 24, s / 60 % 60, s % 60);
    return row_image_field_quote(put_fraction(o, f, n % powers[f->decimals]));
}

/* Appends a time in UTC, which is the time zone of all our sessions. Years begin with March
 * here, so that a leap day is the last day, and all eras of 400 years are alike. */
static char *put_utc(const struct field *f, char *o, uint64_t seconds, uint64_t fraction)
{
    o = row_image_field_quote(o);
    if (seconds == 0 && fraction == 0) {
        o = put_ymd(o, 0, 0, 0);
    } else {
        uint64_t days = seconds / 86400 + 719468, day = days % 146097;
        uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
        day -= 365 * year + year / 4 - year / 100;
        uint64_t month = (5 * day + 2) / 153;
        day -= (153 * month + 2) / 5;
        month = month < 10 ? month + 3 : month - 9;
        o = put_ymd(o, days / 146097 * 400 + year + (month <= 2), month, day + 1);
    }
    *o++ = ' ';
    o = put_hms(o, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    return row_image_field_quote(put_fraction(o, f, fraction));
}

static char *put_timestamp(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return put_utc(f, o, high_first(v, 4), whole_digits(f, high_first(v + 4, len - 4)));
}

static char *put_timestamp_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return put_utc(f, o, low_first(v, len), 0);
}

static char *put_timestamp_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return put_utc(f, o, high_first(v, 4), high_first(v + 4, len - 4));
}

/* ---- types ---- */

/* A column of a map: its actual type, and its metadata bytes as a number. */
struct logged {
    unsigned type;
    unsigned meta; /* VARCHAR, STRING: bytes; DECIMAL: precision and, in the upper bits, scale … */
};

/* Column types of a map, with the number of their metadata bytes. */
static const struct {
    const char *name;
    unsigned meta;
} logged_types[256] = {
    [LOG_TINY] = {"TINYINT", 0},
    [LOG_SHORT] = {"SMALLINT", 0},
    [LOG_LONG] = {"INT", 0},
    [LOG_FLOAT] = {"FLOAT", 1},
    [LOG_DOUBLE] = {"DOUBLE", 1},
    [LOG_TIMESTAMP] = {"TIMESTAMP in MariaDB's own format", 0},
    [LOG_LONGLONG] = {"BIGINT", 0},
    [LOG_INT24] = {"MEDIUMINT", 0},
    [LOG_DATE] = {"DATE", 0},
    [LOG_TIME] = {"TIME in MariaDB's own format", 0},
    [LOG_DATETIME] = {"DATETIME in MariaDB's own format", 0},
    [LOG_YEAR] = {"YEAR", 0},
    [LOG_VARCHAR] = {"VARCHAR", 2},
    [LOG_BIT] = {"BIT", 2},
    [LOG_TIMESTAMP2] = {"TIMESTAMP", 1},
    [LOG_DATETIME2] = {"DATETIME", 1},
    [LOG_TIME2] = {"TIME", 1},
    [LOG_VARCHAR_COMPRESSED] = {"VARCHAR COMPRESSED", 2},
    [LOG_DECIMAL] = {"DECIMAL", 2},
    [LOG_ENUM] = {"ENUM", 2},
    [LOG_SET] = {"SET", 2},
    [LOG_BLOB] = {"BLOB", 1},
    [LOG_STRING] = {"CHAR", 2},
};

/* Decodes CHAR, ENUM and SET: the actual type is followed by the length, whose bits 8 and 9 are
 * stored inverted in the type. */
static void unfold_string(struct logged *l, const uint8_t *meta)
{
    unsigned type = meta[0], len = meta[1];
    if ((type & 0x30) != 0x30) {
        len |= ((type & 0x30) ^ 0x30) << 4;
        type |= 0x30;
    }
    l->type = type;
    l->meta = len;
}

static int logged_next(const uint8_t **types, const uint8_t **meta, const uint8_t *end,
                       struct logged *out, struct err *e)
{
    *out = (struct logged){.type = *(*types)++};
    if (!logged_types[out->type].name)
        return err_set(e, ERR_REFUSED, 0,
                       "a column has type %u, which MEMORY tables do not support", out->type);
    unsigned n = logged_types[out->type].meta;
    if ((size_t)(end - *meta) < n)
        return err_set(e, ERR_DAMAGED, 0, "the columns' metadata is truncated");
    out->meta = (unsigned)low_first(*meta, n);
    if (out->type == LOG_STRING)
        unfold_string(out, *meta);
    *meta += n;
    if (!logged_types[out->type].name)
        return err_set(e, ERR_DAMAGED, 0, "a CHAR column has type %u", out->type);
    return 0;
}

/* A parsed COLUMN_TYPE such as "decimal(10,3) unsigned zerofill". */
struct column_type {
    char name[16];
    unsigned args, first, second;
    bool is_unsigned, zerofill, compressed, old;
};

static void row_image_field_parse(const char *text, struct column_type *out)
{
    size_t n = strcspn(text, "( ");
    *out = (struct column_type){0};
    if (n >= sizeof out->name)
        return;
    memcpy(out->name, text, n);
    const char *rest = text + n;
    if (strcmp(out->name, "enum") == 0 || strcmp(out->name, "set") == 0)
        return; /* the parentheses contain members, not attributes */
    int got = sscanf(rest, "(%9u,%9u)", &out->first, &out->second);
    out->args = got > 0 ? (unsigned)got : 0;
    out->is_unsigned = strstr(rest, " unsigned");
    out->zerofill = strstr(rest, " zerofill");
    out->compressed = strstr(rest, "COMPRESSED");
    out->old = strstr(rest, "/* old */");
}

/* A type of column, and how its values are logged. */
struct column_kind {
    const char *name;
    bool (*fit)(struct field *f, const struct column_type *t, const struct logged *l,
                const struct column_kind *k); /* false if the column cannot be the logged one */
    unsigned type, size;                      /* the type in the log; the size in bytes */
    field_put *put;
    /* MariaDB's own format of types with a fraction, with sizes by the number of digits after
     * the point. */
    unsigned old_type;
    uint8_t old_size[7];
    field_put *put_old, *put_hires;
};

static bool row_image_field_fixed(struct field *f, field_put *put, size_t size)
{
    f->put = put;
    f->size = (uint32_t)size;
    return true;
}

static bool fit_fixed(struct field *f, const struct column_type *t, const struct logged *l,
                      const struct column_kind *k)
{
    f->is_unsigned = t->is_unsigned;
    f->pad = t->zerofill && t->first < 256 ? t->first : 0;
    if (k->type == LOG_YEAR)
        f->pad = t->first == 2 ? 2 : 4;
    bool real = k->type == LOG_FLOAT || k->type == LOG_DOUBLE; /* their metadata is their size */
    return l->type == k->type && (!real || l->meta == k->size) &&
           row_image_field_fixed(f, k->put, k->size);
}

static bool fit_decimal(struct field *f, const struct column_type *t, const struct logged *l,
                        const struct column_kind *k)
{
    unsigned precision = l->meta & 0xff, scale = l->meta >> 8;
    f->is_unsigned = t->is_unsigned;
    if (l->type != k->type || t->args == 0 || precision != t->first || scale != t->second ||
        precision == 0 || precision > DECIMAL_DIGITS || scale > precision)
        return false;
    f->precision = (uint8_t)precision;
    f->decimals = (uint8_t)scale;
    f->pad = t->zerofill ? precision - scale : 0;
    return row_image_field_fixed(f, k->put, decimal_size(precision, scale));
}

static bool fit_bit(struct field *f, const struct column_type *t, const struct logged *l,
                    const struct column_kind *k)
{
    unsigned bits = (l->meta >> 8) * 8 + (l->meta & 0xff);
    return l->type == k->type && bits == t->first && bits >= 1 && bits <= 64 &&
           row_image_field_fixed(f, k->put, (bits + 7) / 8);
}

static bool fit_clock(struct field *f, const struct column_type *t, const struct logged *l,
                      const struct column_kind *k)
{
    if (t->first > 6)
        return false;
    f->decimals = (uint8_t)t->first;
    if (l->type == k->type)
        return l->meta == t->first &&
               row_image_field_fixed(f, k->put, k->size + (t->first + 1) / 2);
    return l->type == k->old_type &&
           row_image_field_fixed(f, t->first ? k->put_hires : k->put_old, k->old_size[t->first]);
}

static bool row_image_field_prefixed(struct field *f, field_put *put, unsigned size)
{
    f->prefix = size > 255 ? 2 : 1;
    return row_image_field_fixed(f, put, size);
}

/* Returns whether the lengths match. `length` is in characters, the log's length in bytes. A
 * character takes one to five bytes, the same for all characters. */
static bool row_image_field_holds(unsigned bytes, unsigned length, bool binary)
{
    if (binary || length == 0)
        return bytes == length;
    return bytes % length == 0 && bytes / length >= 1 && bytes / length <= 5;
}

static bool fit_text(struct field *f, const struct column_type *t, const struct logged *l,
                     const struct column_kind *k)
{
    bool binary = strcmp(t->name, "binary") == 0 || strcmp(t->name, "varbinary") == 0;
    bool compressed = k->type == LOG_VARCHAR && t->compressed;
    unsigned before = compressed && l->meta > 0; /* one byte precedes a compressed value */
    f->compressed = compressed;
    return l->type == (compressed ? LOG_VARCHAR_COMPRESSED : k->type) &&
           row_image_field_holds(l->meta - before, t->first, binary) &&
           row_image_field_prefixed(f, k->put, l->meta);
}

/* Accepts a BLOB or TEXT, used for players' progress in InnoDB. The number of length bytes
 * distinguishes the sizes. */
static bool fit_blob(struct field *f, const struct column_type *t, const struct logged *l,
                     const struct column_kind *k)
{
    (void)t;
    f->prefix = (uint8_t)k->size;
    return l->type == k->type && l->meta == k->size &&
           row_image_field_fixed(f, k->put, (size_t)(UINT32_MAX >> (32 - 8 * k->size)));
}

/* Accepts MariaDB's VECTOR, which is logged with four bytes per number, as in memory. */
static bool fit_vector(struct field *f, const struct column_type *t, const struct logged *l,
                       const struct column_kind *k)
{
    return l->type == k->type && l->meta == 4 * t->first &&
           row_image_field_prefixed(f, k->put, l->meta);
}

static bool fit_fixed_binary(struct field *f, const struct column_type *t, const struct logged *l,
                             const struct column_kind *k)
{
    return l->type == k->type && l->meta == k->size && (!t->old || k->put_old) &&
           row_image_field_prefixed(f, t->old ? k->put_old : k->put, l->meta);
}

/* The size without a fraction in the format of MySQL 5.6, then the sizes of MariaDB's own format
 * by the number of digits. */
#define CLOCK(name, TYPE, size, ...)                                                               \
    {                                                                                              \
#name, fit_clock, LOG_##TYPE##2, size, put_##name, LOG_##TYPE,                             \
            {__VA_ARGS__ }, put_##name##_old, put_##name##_hires                                   \
    }
static const struct column_kind columns[] = {
    {"tinyint", fit_fixed, LOG_TINY, 1, .put = put_int},
    {"smallint", fit_fixed, LOG_SHORT, 2, .put = put_int},
    {"mediumint", fit_fixed, LOG_INT24, 3, .put = put_int},
    {"int", fit_fixed, LOG_LONG, 4, .put = put_int},
    {"bigint", fit_fixed, LOG_LONGLONG, 8, .put = put_int},
    {"float", fit_fixed, LOG_FLOAT, 4, .put = row_image_field_put_real},
    {"double", fit_fixed, LOG_DOUBLE, 8, .put = row_image_field_put_real},
    {"decimal", fit_decimal, LOG_DECIMAL, .put = put_decimal},
    {"bit", fit_bit, LOG_BIT, .put = put_text},
    {"year", fit_fixed, LOG_YEAR, 1, .put = put_year},
    {"date", fit_fixed, LOG_DATE, 3, .put = put_date},
    CLOCK(time, TIME, 3, 3, 4, 4, 5, 5, 5, 6),
    CLOCK(datetime, DATETIME, 5, 8, 6, 6, 7, 7, 7, 8),
    CLOCK(timestamp, TIMESTAMP, 4, 4, 5, 5, 6, 6, 7, 7),
    {"char", fit_text, LOG_STRING, .put = put_text},
    {"binary", fit_text, LOG_STRING, .put = put_filled},
    {"varchar", fit_text, LOG_VARCHAR, .put = put_text},
    {"varbinary", fit_text, LOG_VARCHAR, .put = put_text},
    {"tinyblob", fit_blob, LOG_BLOB, 1, .put = put_text},
    {"blob", fit_blob, LOG_BLOB, 2, .put = put_text},
    {"mediumblob", fit_blob, LOG_BLOB, 3, .put = put_text},
    {"longblob", fit_blob, LOG_BLOB, 4, .put = put_text},
    {"uuid", fit_fixed_binary, LOG_STRING, 16, put_uuid, .put_old = put_uuid_old},
    {"inet4", fit_fixed_binary, LOG_STRING, 4, .put = put_inet4},
    {"inet6", fit_fixed_binary, LOG_STRING, 16, .put = put_inet6},
    {"vector", fit_vector, LOG_VARCHAR, .put = put_text},
};

/* Accepts ENUM and SET. Only the number of members can be checked. It may have grown as long as
 * the number of bytes is the same. */
static bool fit_members(struct field *f, const char *type, const struct logged *l)
{
    SCOPED(enum_members_free) struct enum_members c = {0};
    size_t size = 0;
    /* number of bytes that servers use for this many members */
    if (enum_members_parse(type, &c) == 0)
        size = !c.set ? (c.count < 256 ? 1 : 2) : c.count > 32 ? 8 : (c.count + 7) / 8;
    bool same = l->type == (c.set ? LOG_SET : LOG_ENUM) && l->meta == size && size > 0;
    f->is_unsigned = true;
    return same && row_image_field_fixed(f, put_int, size);
}

/* Describes a logged type for a message, for instance "VARCHAR of 40 bytes" or "DECIMAL(10,3)". */
static void row_image_field_describe(const struct logged *l, char *out, size_t size)
{
    const char *name = logged_types[l->type].name;
    if (l->type == LOG_DECIMAL)
        snprintf(out, size, "%s(%u,%u)", name, l->meta & 0xff, l->meta >> 8);
    else if (l->type == LOG_BIT)
        snprintf(out, size, "%s(%u)", name, (l->meta >> 8) * 8 + (l->meta & 0xff));
    else if (l->type >= LOG_TIMESTAMP2 && l->type <= LOG_TIME2)
        snprintf(out, size, "%s(%u)", name, l->meta);
    else if (logged_types[l->type].meta)
        snprintf(out, size, "%s of %u bytes", name, l->meta);
    else
        snprintf(out, size, "%s", name);
}

int field_next(struct field *f, const struct db_column *c, const uint8_t **types,
               const uint8_t **meta, const uint8_t *end, struct err *e)
{
    char text[64];
    struct column_type t;
    struct logged logged, *l = &logged;
    const struct column_kind *k = NULL;
    *f = (struct field){.encoding = c->encoding, .skip = c->generated};
    if (logged_next(types, meta, end, l, e) < 0)
        return -1;
    row_image_field_parse(c->type, &t);
    for (size_t i = 0; i < sizeof columns / sizeof *columns && !k; i++)
        k = strcmp(columns[i].name, t.name) == 0 ? &columns[i] : NULL;
    bool members = c->encoding == DB_INDEX; /* true for ENUM and SET */
    if (!members && !k)
        return err_set(e, ERR_REFUSED, 0,
                       "column %s has type %s, which MEMORY tables do not support", c->name,
                       c->type);
    if (members ? !fit_members(f, c->type, l) : !k->fit(f, &t, l, k)) {
        row_image_field_describe(l, text, sizeof text);
        return err_set(e, ERR_CHANGED, 0, "column %s is %s now, but was %s when it was logged",
                       c->name, c->type, text);
    }
    f->name = xstrdup(c->name);
    f->has_sign = f->put == put_int || f->put == put_decimal;
    if (f->prefix) /* for texts, space is reserved when they are read */
        f->room = DB_VALUE_ROOM + 2 * (f->put == put_text ? 0 : f->size);
    else
        f->room = ROOM + f->pad;
    if (f->room < ROOM)
        f->room = ROOM;
    return 0;
}
