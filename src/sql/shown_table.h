/* The text of a table's definition as SHOW CREATE TABLE returns it, read by its tokens. What is in
 * a comment or a default is never taken for a clause. Pure. */
#ifndef WK_SQL_SHOWN_TABLE_H
#define WK_SQL_SHOWN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/token.h"

/* A column, key or constraint of the definition. */
struct shown_item {
    struct sql_token first; /* a SQL_NAME: it is a column's */
    const char *rest;       /* what follows `first` */
    const char *end;        /* without the comma */
};
/* Returns the text of the items: what follows the first parenthesis of CREATE TABLE, or all of
 * `create` if it is a list of items alone. */
struct sql_text shown_table_items(const char *create);
/* Reads the next item. Returns false after the last one. */
bool shown_table_next(struct sql_text *items, struct shown_item *out);

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
