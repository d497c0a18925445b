/* Values of row images. */
#include <string.h>

#include "binlog/row_image_int.h"
#include "sql/literal.h"
#include "mysql/value.h"

char *field_put_int(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return db_put_int(o, low_first(v, len), (unsigned)len, f->is_unsigned, f->pad);
}

char *field_put_real(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    return db_put_double(o, db_real(low_first(v, len), len == sizeof(float)));
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

/* `digits` of a DECIMAL from *v on. `flip` undoes the inversion by the sign. NULL: too large a
 * number. */
static char *put_group(char *o, const uint8_t **v, unsigned digits, uint8_t flip)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < group_size[digits]; i++)
        n = n << 8 | (*(*v)++ ^ flip);
    return n < group_limit[digits] ? db_put_digits(o, n, digits) : NULL;
}

/* Groups of nine digits on both sides of the point, incomplete groups at the outer ends. The sign
 * is the first bit, inverted; of a negative number all bits are inverted. */
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

/* Texts, and BIT. */
char *field_put_text(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return db_put_value(o, f->encoding, (const char *)v, len);
}

/* BINARY: the image omits trailing zero bytes. */
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

/* Stored with the most variable parts last, so that keys from one origin are adjacent. */
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

/* Versions from 6 on are ordered already and stored unchanged. The server distinguishes the two by
 * the bytes where a swapped one has its variant and its version. */
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

/* The longest run of zeros, the first of equal ones, becomes "::"; an address that is or contains
 * an IPv4 address ends in it. */
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

/* ---- dates and times ---- */

/* Three formats exist: that of MySQL 5.6, which both servers write; MariaDB's own with
 * mysql56_temporal_format=OFF, without a fraction (decimal numbers, little endian) and with one
 * ("hires": a count of the smallest unit, big endian). */

static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

static char *put_ymd(char *o, uint64_t year, uint64_t month, uint64_t day)
{
    return db_put_three(o, year, month, day, 4, '-');
}

static char *put_hms(char *o, uint64_t hour, uint64_t minute, uint64_t second)
{
    return db_put_three(o, hour, minute, second, 2, ':');
}

/* `fraction` in units of the last digit. */
static char *put_fraction(char *o, const struct field *f, uint64_t fraction)
{
    if (f->decimals == 0)
        return o;
    *o++ = '.';
    return db_put_digits(o, fraction, f->decimals);
}

/* The value of two bytes per four digits, in units of the last digit that is printed. */
static uint64_t whole_digits(const struct field *f, uint64_t pairs)
{
    return f->decimals % 2 ? pairs / 10 : pairs;
}

static char *quote(char *o)
{
    *o++ = '\'';
    return o;
}

/* The quote and the sign of a TIME; *n becomes its amount. */
static char *quote_signed(char *o, int64_t *n)
{
    o = quote(o);
    if (*n < 0) {
        *n = -*n;
        *o++ = '-';
    }
    return o;
}

char *field_put_year(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)len;
    unsigned year = *v ? 1900u + *v : 0;
    return quote(f->size == 1 && f->pad == 2 ? db_put_digits(quote(o), year % 100, 2)
                                             : db_put_digits(quote(o), year, 4));
}

char *field_put_date(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    uint64_t n = low_first(v, len);
    return quote(put_ymd(quote(o), n >> 9, n >> 5 & 15, n & 31));
}

/* Three bytes and those of the fraction are one number with an offset; the fraction of a negative
 * one counts down. */
char *field_put_time(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    unsigned shift = 8 * (unsigned)(len - 3);
    int64_t n = (int64_t)high_first(v, len) - (INT64_C(0x800000) << shift);
    o = quote_signed(o, &n);
    uint64_t hms = (uint64_t)n >> shift, part = (uint64_t)n & ((UINT64_C(1) << shift) - 1);
    o = put_hms(o, hms >> 12 & 0x3ff, hms >> 6 & 63, hms & 63);
    return quote(put_fraction(o, f, whole_digits(f, part)));
}

char *field_put_time_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    int64_t n = (int64_t)(low_first(v, len) << 40) >> 40;
    o = quote_signed(o, &n);
    uint64_t u = (uint64_t)n;
    return quote(put_hms(o, u / 10000, u / 100 % 100, u % 100));
}

char *field_put_time_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    const uint64_t unit = powers[f->decimals];
    int64_t n = (int64_t)high_first(v, len) - (int64_t)((838 * 3600 + 59 * 60 + 60) * unit);
    o = quote_signed(o, &n);
    uint64_t u = (uint64_t)n, s = u / unit;
    o = put_hms(o, s / 3600, s / 60 % 60, s % 60);
    return quote(put_fraction(o, f, u % unit));
}

char *field_put_datetime(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint64_t n = high_first(v, 5) & 0x7fffffffff, ymd = n >> 17, month = ymd >> 5;
    o = put_ymd(quote(o), month / 13, month % 13, ymd & 31);
    *o++ = ' ';
    o = put_hms(o, n >> 12 & 31, n >> 6 & 63, n & 63);
    return quote(put_fraction(o, f, whole_digits(f, high_first(v + 5, len - 5))));
}

char *field_put_datetime_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    uint64_t n = low_first(v, len), date = n / 1000000, time = n % 1000000;
    o = put_ymd(quote(o), date / 10000, date / 100 % 100, date % 100);
    *o++ = ' ';
    return quote(put_hms(o, time / 10000, time / 100 % 100, time % 100));
}

char *field_put_datetime_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    uint64_t n = high_first(v, len), s = n / powers[f->decimals], day = s / 86400;
    o = put_ymd(quote(o), day / 32 / 13, day / 32 % 13, day % 32);
    *o++ = ' ';
    o = put_hms(o, s / 3600 % 24, s / 60 % 60, s % 60);
    return quote(put_fraction(o, f, n % powers[f->decimals]));
}

/* In UTC, which is every session's time zone. Years begin with March here, so that a leap day is
 * the last one, and eras of 400 years are all alike. */
static char *put_utc(const struct field *f, char *o, uint64_t seconds, uint64_t fraction)
{
    o = quote(o);
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
    return quote(put_fraction(o, f, fraction));
}

char *field_put_timestamp(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return put_utc(f, o, high_first(v, 4), whole_digits(f, high_first(v + 4, len - 4)));
}

char *field_put_timestamp_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return put_utc(f, o, low_first(v, len), 0);
}

char *field_put_timestamp_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    return put_utc(f, o, high_first(v, 4), high_first(v + 4, len - 4));
}
