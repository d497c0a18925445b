/* Reads what follows the columns: options from a list, and partitions. */
#ifndef WK_SQL_TABLE_OPTIONS_H
#define WK_SQL_TABLE_OPTIONS_H

#include "sql/reader.h"
#include "sql/table.h"

/* Reads DISK, MEMORY or DEFAULT. */
void options_storage(struct reader *r, struct buf *out);
/* Reads the value of an option of MariaDB's engines: a number or one of `words`. Versions differ in
 * which values they quote. */
void options_engine_value(struct reader *r, const char *words, struct buf *out);
/* Reads one option: "NAME = value". */
void options_one(struct reader *r, struct sql_table *t);
/* Reads everything after the columns. */
void options_read(struct reader *r, struct sql_table *t);

#endif
