/* One value as it stands in a tuple of a dump. Every way of reading rows prints with this. Pure. */
#ifndef WK_DB_VALUE_H
#define WK_DB_VALUE_H

#include <stddef.h>

#include "db/query.h"

/* Room that any value may need beside twice its bytes: quotes, "_utf8mb4", and a comma. */
#define DB_VALUE_ROOM 16u

/* `v` as the server tells it, NULL for SQL NULL, into memory that the caller found large enough.
 * Returns the place behind. */
char *db_put_value(char *out, enum db_encoding enc, const char *v, size_t len);
/* A number in at least `pad` digits, 20 at most. Returns the place behind. */
char *db_put_digits(char *out, uint64_t v, unsigned pad);

#endif
