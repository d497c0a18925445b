#include "sql/double_format.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The digits are computed as in Raffaello Giulietti's "The Schubfach way to render doubles". The
 * number and the bounds of the interval that rounds to it are scaled by a power of ten, kept in
 * 128 bits. The shortest decimal in the interval is used. The powers are computed once, with big
 * integers. */
#define POWER_MIN (-292)
#define POWER_MAX 324
#define LIMBS 40 /* of 32 bits each: 10^324 takes 1077 bits, and 2^1278 / 10^292 still has 308 */

__extension__ typedef unsigned __int128 uint128;

static uint128 powers[POWER_MAX - POWER_MIN + 1];
static pthread_once_t powers_once = PTHREAD_ONCE_INIT;

/* Returns a bit. Bits below the number are zeros. */
static unsigned bit_at(const uint32_t n[LIMBS], int i)
{
    return i < 0 ? 0 : n[i / 32] >> (i % 32) & 1;
}

/* Returns the top 128 bits, beginning with the highest set bit, rounded up. */
static uint128 top_bits(const uint32_t n[LIMBS], bool more)
{
    int top = LIMBS * 32 - 1;
    while (!bit_at(n, top))
        top--;
    uint128 v = 0;
    for (int i = top; i > top - 128; i--)
        v = v << 1 | bit_at(n, i);
    for (int i = top - 128; i >= 0 && !more; i--)
        more = bit_at(n, i);
    return v + more;
}

/* Multiplies by ten, beginning with the lowest limb because of the carry. */
static void times_ten(uint32_t n[LIMBS])
{
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)n[i] * 10;
        n[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* Divides by ten, beginning with the highest limb because of the remainder. */
static void over_ten(uint32_t n[LIMBS])
{
    uint64_t rest = 0;
    for (int i = LIMBS - 1; i >= 0; i--) {
        rest = rest << 32 | n[i];
        n[i] = (uint32_t)(rest / 10);
        rest %= 10;
    }
}

static void make_powers(void)
{
    uint32_t n[LIMBS] = {1};
    for (int k = 0; k <= POWER_MAX; k++, times_ten(n))
        powers[k - POWER_MIN] = top_bits(n, false);
    memset(n, 0, sizeof n);
    n[LIMBS - 1] = 1u << 30;
    for (int k = -1; k >= POWER_MIN; k--) {
        over_ten(n);
        /* inexact, because no negative power of ten is exact in binary */
        powers[k - POWER_MIN] = top_bits(n, true);
    }
}

/* Multiplies by a rounded log2(10). The result is exact for all exponents that occur here. */
static int floor_log2_pow10(int e)
{
    return (e * 1741647) >> 19;
}

/* Returns the product divided by 2^128, with the lowest bit set if anything was truncated. */
static uint64_t double_format_scaled(uint128 g, uint64_t v)
{
    uint128 low = (uint128)(uint64_t)g * v;
    uint128 high = (uint128)(uint64_t)(g >> 64) * v + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

struct decimal {
    uint64_t digits;
    int exponent;
};

/* Returns the shortest decimal that reads back as c * 2^q, and of several the nearest one. */
static struct decimal double_format_shortest(uint64_t c, int q, bool lower_closer)
{
    const uint64_t odd = c & 1; /* if c is even, the interval includes its bounds */
    int k = (q * 1262611 - (lower_closer ? 524031 : 0)) >> 22;
    int h = q + floor_log2_pow10(-k) + 1;
    uint128 g = powers[-k - POWER_MIN];
    uint64_t lower = double_format_scaled(g, (4 * c - 2 + lower_closer) << h) + odd;
    uint64_t value = double_format_scaled(g, (4 * c) << h);
    uint64_t upper = double_format_scaled(g, (4 * c + 2) << h) - odd;
    uint64_t s = value / 4, tens = s / 10;
    if (s >= 10) {
        bool below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
        if (below != above)
            return (struct decimal){tens + above, k + 1};
    }
    bool below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    if (below != above)
        return (struct decimal){s + above, k};
    uint64_t middle = 4 * s + 2;
    return (struct decimal){s + (value > middle || (value == middle && (s & 1))), k};
}

static struct decimal decimal_of(uint64_t bits)
{
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent == 0)
        return double_format_shortest(fraction, -1074, false);
    uint64_t c = fraction | UINT64_C(1) << 52;
    int q = exponent - 1075;
    if (q <= 0 && q > -53 && (c & ((UINT64_C(1) << -q) - 1)) == 0)
        return (struct decimal){c >> -q, 0}; /* an integer */
    return double_format_shortest(c, q, fraction == 0 && exponent > 1);
}

static char *put_zeros(char *out, int n)
{
    memset(out, '0', (size_t)n);
    return out + n;
}

/* Places the decimal point. `point` is the number of digits before it. Like the server, uses an
 * exponent if the plain form would add more than 14 zeros. */
static char *double_format_place(char *out, const char *digits, int n, int point)
{
    if (point >= -14 && (point <= 15 || n > point)) {
        if (point <= 0) {
            out = put_zeros(mempcpy(out, "0.", 2), -point);
            return mempcpy(out, digits, (size_t)n);
        }
        if (point >= n)
            return put_zeros(mempcpy(out, digits, (size_t)n), point - n);
        out = mempcpy(out, digits, (size_t)point);
        *out++ = '.';
        return mempcpy(out, digits + point, (size_t)(n - point));
    }
    *out++ = digits[0];
    if (n > 1) {
        *out++ = '.';
        out = mempcpy(out, digits + 1, (size_t)(n - 1));
    }
    return out + snprintf(out, 6, "e%d", point - 1);
}

size_t double_text(double value, char out[REAL_MAX])
{
    pthread_once(&powers_once, make_powers);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    char *at = out;
    if (bits >> 63)
        *at++ = '-';
    /* the digits are those of the absolute value; the sign of "-0" is already written */
    bits &= ~(UINT64_C(1) << 63);
    if (bits == 0 || !isfinite(value)) {
        *at++ = '0';
    } else {
        struct decimal d = decimal_of(bits);
        while (d.digits > 9 && d.digits % 10 == 0) {
            d.digits /= 10;
            d.exponent++;
        }
        char text[20];
        int n = 0;
        do
            text[19 - n++] = (char)('0' + d.digits % 10);
        while (d.digits /= 10);
        at = double_format_place(at, text + 20 - n, n, n + d.exponent);
    }
    *at = '\0';
    return (size_t)(at - out);
}
