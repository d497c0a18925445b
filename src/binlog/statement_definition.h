/* Statements that leave rows, columns and primary keys as they are: clauses of ALTER TABLE,
 * indexes, table maintenance. Pure. */
#ifndef WK_BINLOG_STATEMENT_DEFINITION_H
#define WK_BINLOG_STATEMENT_DEFINITION_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if the statement leaves the rows, the columns and the primary key of every table
 * unchanged; false in doubt. `sql` is masked (statement_words.h). */
bool statement_changes_nothing(const char *sql, size_t len);
/* Returns true if an ALTER has an ENGINE clause; also for a column or an index of that name. `sql`
 * is masked. */
bool statement_sets_engine(const char *sql, size_t len);

#endif
