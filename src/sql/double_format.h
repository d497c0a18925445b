/* Formats floating-point numbers as the servers do. */
#ifndef WK_SQL_DOUBLE_FORMAT_H
#define WK_SQL_DOUBLE_FORMAT_H

#include <stddef.h>

/* Prints a floating-point number exactly as the server prints a DOUBLE: the shortest digits that
 * read back as the same number ("0.1", "1e23", "-0"), at most REAL_MAX bytes including the NUL.
 * For numbers that arrive in binary; about 50 ns each, where printf() and reading back takes a
 * microsecond. A NaN or an infinity, which no column can hold, is written as 0. Returns the
 * length. */
#define REAL_MAX 40
size_t double_text(double value, char out[REAL_MAX]);

#endif
