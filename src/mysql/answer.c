#include "mysql/answer.h"

#include <ctype.h>
#include <string.h>

#define NAME_MAX_BYTES 512u /* 64 characters of four bytes each, some doubled */
#define WORDS_MAX 64u
#define TEXT_MAX (UINT64_C(64) << 20)
#define DIGITS_MAX 255u /* the largest display width; a decimal has 65 digits and a point */
#define SAFE_DIGITS 15u
#define SECONDS_DIGITS 11u
#define HOURS_MAX 838u

static size_t answer_digits(const char *v, size_t len)
{
    size_t n = 0;
    while (n < len && v[n] >= '0' && v[n] <= '9')
        n++;
    return n;
}

/* Returns the number of bytes at `v` that are sign, digits and fraction, or 0 if this is not a
 * number. */
static size_t decimal_end(const char *v, size_t len, bool fraction)
{
    size_t sign = len && v[0] == '-', at = sign, n = answer_digits(v + at, len - at);
    at += n;
    if (n == 0)
        return 0;
    if (!fraction || at == len || v[at] != '.')
        return at;
    n = answer_digits(v + at + 1, len - at - 1);
    return n ? at + 1 + n : 0;
}

bool answer_is_decimal(const char *v, size_t len, bool fraction)
{
    return len > 0 && len <= DIGITS_MAX && decimal_end(v, len, fraction) == len;
}

bool answer_is_real(const char *v, size_t len)
{
    size_t at = len <= 2 * DIGITS_MAX ? decimal_end(v, len, true) : 0;
    if (at == 0 || at == len)
        return at > 0;
    if (v[at] != 'e' && v[at] != 'E')
        return false;
    at++;
    at += at < len && (v[at] == '-' || v[at] == '+');
    return at < len && at + answer_digits(v + at, len - at) == len;
}

/* Returns whether this is an unsigned number. 20 digits are compared as text, because servers
 * write no leading zeros. */
static bool is_unsigned(const char *v, size_t len)
{
    static const char largest[] = "18446744073709551615";
    return len > 0 && answer_digits(v, len) == len &&
           (len < sizeof largest - 1 ||
            (len == sizeof largest - 1 && memcmp(v, largest, len) <= 0));
}

static bool is_words(const char *v, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)v[i]) && !strchr("_, ", v[i]))
            return false;
    return len <= WORDS_MAX;
}

const char *answer_wrong(char form, const char *v, size_t len)
{
    bool may_be_null = isupper((unsigned char)form) != 0;
    char f = (char)tolower((unsigned char)form);
    bool good;
    if (!v)
        return may_be_null ? NULL : "NULL";
    if (f == 'b')
        return NULL;
    if (len > TEXT_MAX)
        return "longer than 64 MiB";
    if (f != 'c' && memchr(v, '\0', len))
        return "a text with a byte 0 in it";
    switch (f) {
    case 'n':
        return len == 0               ? "an empty name"
               : len > NAME_MAX_BYTES ? "a name of over 512 bytes"
                                      : NULL;
    case 'w':
        return is_words(v, len) ? NULL : "not a name that a server gives";
    case 'u':
        return is_unsigned(v, len) ? NULL : "not a whole number from 0 to 2^64-1";
    case 'i':
        good = len <= SAFE_DIGITS + (len && v[0] == '-') && answer_is_decimal(v, len, false);
        return good ? NULL : "not a whole number of up to 15 digits";
    case 's':
        good = answer_digits(v, len) <= SECONDS_DIGITS && answer_is_decimal(v, len, true) &&
               v[0] != '-';
        return good ? NULL : "not a time in seconds";
    case 'd':
        return answer_is_real(v, len) ? NULL : "no number";
    default:
        return NULL;
    }
}

static uint32_t low_first4(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Reads hours, minutes and seconds, and microseconds if there are bytes for them. */
static bool read_clock(const uint8_t *p, size_t len, struct answer_time *out)
{
    out->hour += p[0];
    out->minute = p[1];
    out->second = p[2];
    out->micro = len > 3 ? low_first4(p + 3) : 0;
    return p[0] < 24 && out->minute < 60 && out->second < 60 && out->micro < 1000000;
}

bool answer_time(enum answer_clock kind, const uint8_t *p, size_t len, struct answer_time *out)
{
    *out = (struct answer_time){0};
    if (len == 0)
        return true; /* all fields are zero */
    if (kind == ANSWER_TIME) {
        if (len != 8 && len != 12)
            return false;
        out->negative = p[0] != 0;
        out->hour = UINT64_C(24) * low_first4(p + 1);
        return p[0] <= 1 && read_clock(p + 5, len - 5, out) && out->hour <= HOURS_MAX;
    }
    if (len != 4 && len != 7 && len != 11)
        return false;
    out->year = p[0] | (unsigned)p[1] << 8;
    out->month = p[2];
    out->day = p[3];
    return out->year <= 9999 && out->month <= 12 && out->day <= 31 &&
           (len == 4 || read_clock(p + 4, len - 4, out));
}
