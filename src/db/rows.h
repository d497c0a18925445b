/* The rows of a table as SQL tuples, byte-exact: "(1,'it\'s',NULL)". One place decides how each
 * column type is read and written (struct db_column.encoding); dump, compare and conflict files
 * share it. */
#ifndef WK_DB_ROWS_H
#define WK_DB_ROWS_H

#include "core/text.h"
#include "db/query.h"

/* "`a`,`b`" of all columns that are not generated. */
void db_column_list(struct buf *b, const struct db_table *t);
/* The expressions that read them exactly, in the same order. */
void db_select_list(struct buf *b, const struct db_table *t);

/* One tuple; an error from it ends the reading. */
typedef int db_tuple_fn(void *arg, const char *tuple, size_t len, struct err *e);
/* Reads `from` (a table name, already quoted) with the columns of `t`: in binary form (binary.h),
 * as text where the server prepares no statement. *rows counts what was read. */
int db_read_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e);
/* The same always as text: what the other ways must agree with. */
int db_text_rows(struct db *db, const struct db_table *t, const char *from, db_tuple_fn *fn,
                 void *arg, uint64_t *rows, struct err *e);

#endif
