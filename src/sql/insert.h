/* Parses what follows the table's name in an INSERT … VALUES of a foreign file: column names, and
 * rows of literals only; with Adminer's UNHEX('…') and CONVERT(b'…', UNSIGNED), which become literals. Only SQL written here from both goes to a server. Pure. */
#ifndef WK_SQL_INSERT_H
#define WK_SQL_INSERT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

struct sql_insert {
    char **columns; /* in the order listed */
    size_t column_count;
    bool listed;     /* there is a column list, even an empty one */
    bool empty;      /* its rows are "()": only defaults */
    struct buf rows; /* "(1,'a'),(2,NULL)" */
    size_t row_count;
};

/* Without a column list, a row of `count` values loses those that `leave_out` marks (NULL: none).
 * `ansi_quotes`: "…" is a name. -1: anything else than such rows; nothing is to be freed then. Strings may contain any bytes of
 * an ASCII-safe character set (sql_charset_safe()). */
int sql_insert_read(const char *s, size_t len, bool ansi_quotes, const bool *leave_out,
                    size_t count, struct sql_insert *out);
void sql_insert_free(struct sql_insert *i);

/* Is each ASCII byte in this character set that character, so that a quote is a quote? */
bool sql_charset_safe(const char *name, size_t len);

#endif
