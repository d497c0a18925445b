/* Floating-point numbers as text, exactly as the server prints a DOUBLE: the shortest digits that
 * read back as the same number ("0.1", "1e23", "-0"), at most REAL_MAX bytes with the final NUL.
 * For numbers that arrive in binary; about 50 ns each, where printf and back takes a microsecond.
 * Any thread. */
#ifndef WK_DB_REAL_H
#define WK_DB_REAL_H

#include <stddef.h>

#define REAL_MAX 40

/* Returns the length. A NaN or an infinity, which no column can hold, is written as 0. */
size_t real_text(double value, char out[REAL_MAX]);

#endif
