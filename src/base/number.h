/* Arithmetic for numbers from outside: from files, servers, stores and other machines. Nothing
 * wraps: a number that is too large is refused (false); a sum or product that is too large becomes
 * the largest value, which exceeds every limit. */
#ifndef WK_BASE_NUMBER_H
#define WK_BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t number_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t number_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Doubles `from` until it is at least `want`, but not beyond `most`. */
static inline uint64_t number_doubled(uint64_t from, uint64_t want, uint64_t most)
{
    while (from < want && from <= most / 2)
        from *= 2;
    return from;
}

static inline int64_t number_signed(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* Appends a decimal digit. Returns false if it is not a digit or *n would be too large; *n is
 * undefined then. */
static inline bool number_append(uint64_t *n, char digit)
{
    return digit >= '0' && digit <= '9' && !__builtin_mul_overflow(*n, 10u, n) &&
           !__builtin_add_overflow(*n, (uint64_t)(digit - '0'), n);
}

/* Reads the decimal digits at *s, without a sign or a leading blank, and advances *s. Returns false
 * if there are none or the number exceeds `most`; *out is 0 then. */
static inline bool number_digits(const char **s, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;
    bool good = **s >= '0' && **s <= '9';
    for (; **s >= '0' && **s <= '9'; ++*s)
        good = good && number_append(&n, **s);
    good = good && n <= most;
    *out = good ? n : 0;
    return good;
}

/* Like number_digits(), for a whole text. */
static inline bool number_read(const char *s, uint64_t most, uint64_t *out)
{
    bool good = number_digits(&s, most, out) && !*s;
    *out = good ? *out : 0;
    return good;
}

#endif
