/* Parses the part of an INSERT … VALUES of another tool's file after the table's name: column
 * names, and rows of literals only. Adminer's UNHEX('…') and CONVERT(b'…', UNSIGNED) become
 * literals. Only SQL that is written here from both goes to a server. Pure. */
#ifndef WK_SQL_INSERT_H
#define WK_SQL_INSERT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

struct sql_insert {
    char **columns; /* in the order listed */
    size_t column_count;
    bool listed;     /* there is a column list, possibly empty */
    bool empty;      /* its rows are "()": all columns have defaults */
    struct buf rows; /* "(1,'a'),(2,NULL)" */
    size_t row_count;
};

/* Parses column list and rows. Without a column list, a row of `count` values loses those that
 * `leave_out` marks (NULL: none). `ansi_quotes`: "…" is a name. Returns -1 for anything else;
 * nothing needs to be freed then. Strings may contain any bytes of an ASCII-safe character set
 * (sql_charset_safe()). */
int sql_insert_read(const char *s, size_t len, bool ansi_quotes, const bool *leave_out,
                    size_t count, struct sql_insert *out);
void sql_insert_free(struct sql_insert *i);

/* Returns true if each ASCII byte is that character in this character set, so that a quote byte is
 * always a quote. */
bool sql_charset_safe(const char *name, size_t len);

#endif
