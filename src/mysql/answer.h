/* Checks the server's answers before any other code reads them. The server is not trusted with our
 * memory: conn.h and binary.h return only values that passed here. Pure; any thread.
 *
 * The form of a value is a letter; in upper case the value may also be NULL:
 *
 *   n  a name: 1 to 512 bytes
 *   w  words of the server, such as a character set: letters, digits, "_", ",", " "; up to 64
 *   t  text, up to 64 MiB, may be empty
 *   c  like t, but code written by people, in which servers accept a zero byte
 *   u  an integer, 0 to 2^64-1
 *   i  an integer of up to 15 digits: none of our sums and products overflows
 *   s  seconds since 1970, up to 11 digits, with or without a fraction
 *   d  a number in SQL: sign, digits, fraction, exponent
 *   b  any bytes
 *
 * Only b and c may contain a zero byte. */
#ifndef WK_MYSQL_ANSWER_H
#define WK_MYSQL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum rows, and bytes in them, of an answer other than a table of the game: enough for 10,000
 * tables with 100 columns each. */
#define ANSWER_ROWS 1000000u
#define ANSWER_BYTES (UINT64_C(256) << 20)

/* Returns what is wrong with the value, to complete "column … is "; NULL: nothing. `v` NULL: SQL
 * NULL. */
const char *answer_wrong(char form, const char *v, size_t len);
/* Returns true for "-12.50": sign, digits, and with `fraction` a point and digits; at most 255
 * bytes. */
bool answer_is_decimal(const char *v, size_t len, bool fraction);
/* Like answer_is_decimal(), with an exponent. */
bool answer_is_real(const char *v, size_t len);

/* A date or time of the binary protocol, each part within the range of the server's type. Years
 * from 0 to 9999; day 0 and days beyond the end of a month are allowed, as with
 * ALLOW_INVALID_DATES. */
struct answer_time {
    bool negative; /* TIME only */
    unsigned year, month, day;
    uint64_t hour; /* of a TIME, including its days */
    unsigned minute, second, micro;
};
enum answer_clock { ANSWER_DATE, ANSWER_DATETIME, ANSWER_TIME };
/* Decodes `len` bytes at `p`. Returns false if they are not a valid value. */
bool answer_time(enum answer_clock kind, const uint8_t *p, size_t len, struct answer_time *out);

#endif
