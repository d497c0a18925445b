/* Reads the rows of a table as byte-exact SQL tuples: "(1,'it\'s',NULL)". Only this file decides
 * how each column type is read and written (struct db_column.encoding), for dumps, comparisons and
 * conflict files. */
#ifndef WK_MYSQL_ROWS_H
#define WK_MYSQL_ROWS_H

#include "base/text.h"
#include "mysql/schema.h"

/* Appends "`a`,`b`" of all columns that are not generated. */
void db_column_list(struct buf *b, const struct db_table *t);

/* Appends the expressions that read these columns exactly, in the same order. */
void db_select_list(struct buf *b, const struct db_table *t);

/* Called with one tuple; -1 ends the reading. */
typedef int db_tuple_fn(void *arg, const char *tuple, size_t len, struct err *e);
/* Reads `from` (a quoted table name) with the columns of `t`, in binary form (binary.h), or as text
 * if the server does not prepare the statement. *rows counts the rows. */
int db_read_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e);
/* Counts the rows of a table (a raw name) and adds up the hashes of their tuples. */
int db_hash_rows(struct db *db, const struct db_table *t, const char *table, uint64_t *rows,
                 uint64_t *hash, struct err *e);
/* Like db_read_rows(), always as text: the reference for all other ways of reading. */
int db_text_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e);

#endif
