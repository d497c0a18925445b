/* What a statement is and what it did, for messages. Pure. */
#ifndef WK_BINLOG_STATEMENT_SUMMARY_H
#define WK_BINLOG_STATEMENT_SUMMARY_H

#include "binlog/statement.h"

/* Writes a short form of the statement for a message: the whole text of a definition, else the text
 * before the first value; both without literals and comments. One line, at most `room` bytes with
 * the NUL. */
void statement_brief(const char *sql, size_t len, char *out, size_t room);
struct statement_summary {
    const char *verb; /* "dropped" … (static text) */
    const struct db_table *tables[STATEMENT_DEED_TABLES];
    size_t count; /* may exceed the number listed */
    bool schema;  /* the whole schema with all its tables; none is listed */
};
bool statement_summary(const struct statement_world *w, const char *from, const char *sql,
                       size_t len, struct statement_summary *out);

#endif
