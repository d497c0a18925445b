/* Formats one value for a tuple of a dump, for every way of reading rows. Pure. */
#ifndef WK_MYSQL_VALUE_H
#define WK_MYSQL_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include "mysql/schema.h"

/* Space that any value may need in addition to twice its bytes: quotes, "_utf8mb4", and a comma. */
#define DB_VALUE_ROOM 16u

/* Writes `v` as the server sent it, NULL for SQL NULL, to memory that the caller has checked to be
 * large enough. Returns the end. */
char *db_put_value(char *out, enum db_encoding enc, const char *v, size_t len);
/* Like db_put_value(), for a FLOAT or DOUBLE that arrived in binary. */
char *db_put_double(char *out, double v);
/* Returns the number in the bits of a FLOAT (`single`) or DOUBLE. */
double db_real(uint64_t bits, bool single);
/* Returns true if `v` is a valid value for a column with this encoding. Anything written without
 * quotes must be a number and nothing else. */
bool db_value_is(enum db_encoding enc, const char *v, size_t len);
/* Writes a number with at least `pad` digits (at most 20). Returns the end. */
char *db_put_digits(char *out, uint64_t v, unsigned pad);
/* Writes an integer column's value of 1 to 8 bytes, in the form of the protocol and the log: a
 * signed value is negative by its highest bit. `pad` (ZEROFILL) applies to unsigned values. Returns
 * the end. */
char *db_put_int(char *out, uint64_t v, unsigned bytes, bool is_unsigned, unsigned pad);
/* Writes parts of a date or a time of day: the first with at least `first` digits, the others with
 * two. */
char *db_put_three(char *out, uint64_t a, uint64_t b, uint64_t c, unsigned first, char between);

#endif
