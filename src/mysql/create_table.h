/* The columns of a table, read from its SHOW CREATE TABLE text: for a table that the server no
 * longer has, or has in another form. Pure. */
#ifndef WK_MYSQL_CREATE_TABLE_H
#define WK_MYSQL_CREATE_TABLE_H

#include "mysql/schema.h"

/* Columns and primary key, as db_tables() and db_table_keys() would report them, without character
 * sets and figures. -1: sql_table_read() refuses it, and nothing is to be freed. Comparing
 * db_columns_hash() proves that it was read exactly. */
int db_create_table_read(const char *create, size_t len, bool mariadb, struct db_table *out);

#endif
