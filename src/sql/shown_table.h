/* The text of a table's definition as SHOW CREATE TABLE returns it, read by its tokens. What is in
 * a comment or a default is never taken for a clause. Pure. */
#ifndef WK_SQL_SHOWN_TABLE_H
#define WK_SQL_SHOWN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the table has a primary key. */
bool shown_table_has_primary_key(const char *create);
/* Returns true if the table is system-versioned. */
bool shown_table_is_versioned(const char *create);
/* Returns the text after columns and keys, with the table's options; NULL: there is none. */
const char *shown_table_options(const char *create);
/* Returns a copy of the definition of a MEMORY table with this AUTO_INCREMENT counter, right after
 * ENGINE, where the servers write it; without one if the counter is at most 1 or UINT64_MAX (all
 * numbers are used up). The definition of another table is copied unchanged. The caller frees
 * it. */
char *shown_table_with_counter(const char *create, uint64_t counter);

#endif
