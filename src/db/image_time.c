/* Dates and times of row images. Three forms are in use: that of MySQL 5.6, which both servers
 * write; MariaDB's own with mysql56_temporal_format=OFF, without a fraction (decimal numbers, the
 * lowest byte first) and with one ("hires": a count of the smallest part, the highest byte first).
 */
#include "db/image_int.h"
#include "db/value.h"

static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

static char *put_ymd(char *o, uint64_t year, uint64_t month, uint64_t day)
{
    o = db_put_digits(o, year, 4);
    *o++ = '-';
    o = db_put_digits(o, month, 2);
    *o++ = '-';
    return db_put_digits(o, day, 2);
}

static char *put_hms(char *o, uint64_t hour, uint64_t minute, uint64_t second)
{
    o = db_put_digits(o, hour, 2);
    *o++ = ':';
    o = db_put_digits(o, minute, 2);
    *o++ = ':';
    return db_put_digits(o, second, 2);
}

/* `fraction` in units of the last digit. */
static char *put_fraction(char *o, const struct field *f, uint64_t fraction)
{
    if (f->decimals == 0)
        return o;
    *o++ = '.';
    return db_put_digits(o, fraction, f->decimals);
}

/* What two bytes hold for each four digits, in units of the last digit that is printed. */
static uint64_t whole_digits(const struct field *f, uint64_t pairs)
{
    return f->decimals % 2 ? pairs / 10 : pairs;
}

static char *quote(char *o)
{
    *o++ = '\'';
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

/* Three bytes and as many as the fraction needs are one number with an offset; a negative one's
 * fraction counts down. */
char *field_put_time(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    unsigned shift = 8 * (unsigned)(len - 3);
    int64_t n = (int64_t)high_first(v, len) - (INT64_C(0x800000) << shift);
    o = quote(o);
    if (n < 0) {
        n = -n;
        *o++ = '-';
    }
    uint64_t hms = (uint64_t)n >> shift, part = (uint64_t)n & ((UINT64_C(1) << shift) - 1);
    o = put_hms(o, hms >> 12 & 0x3ff, hms >> 6 & 63, hms & 63);
    return quote(put_fraction(o, f, whole_digits(f, part)));
}

char *field_put_time_old(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    (void)f;
    int64_t n = (int64_t)(low_first(v, len) << 40) >> 40;
    o = quote(o);
    if (n < 0) {
        n = -n;
        *o++ = '-';
    }
    uint64_t u = (uint64_t)n;
    return quote(put_hms(o, u / 10000, u / 100 % 100, u % 100));
}

char *field_put_time_hires(const struct field *f, char *o, const uint8_t *v, size_t len)
{
    const uint64_t unit = powers[f->decimals];
    int64_t n = (int64_t)high_first(v, len) - (int64_t)((838 * 3600 + 59 * 60 + 60) * unit);
    o = quote(o);
    if (n < 0) {
        n = -n;
        *o++ = '-';
    }
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
