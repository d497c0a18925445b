/* Columns FLOAT(M,D) and DOUBLE(M,D). The server rounds to D digits what a statement writes there,
 * and keeps as it is what comes from another column (MySQL) or by ALTER TABLE: no literal puts such
 * a value back, and two of them may become one in a key. So while rows are written such a column
 * has no digits; it gets them back by an ALTER that moves no row, which needs nothing else changed.
 *
 * Pure text, of CREATE TABLE statements as SHOW CREATE TABLE prints them: a column a line. */
#ifndef WK_DB_DIGITS_H
#define WK_DB_DIGITS_H

#include "db/query.h"

/* Has a table such columns? Generated ones are not counted: nobody writes them. */
bool db_digits_any(const struct db_table *t);
/* " MODIFY …, MODIFY …": what takes the digits of `t` off and what gives them back, both as behind
 * ALTER TABLE and its name; left as they are where there is nothing to do. `create` is its
 * definition, in UTF-8; `then` that of the table whose rows are coming: what was something else
 * than a FLOAT or DOUBLE there keeps its digits, and so do tables with system versioning. */
void db_digits(const struct db_table *t, const char *create, const char *then, struct buf *off,
               struct buf *on);
/* The type of a column in a definition, and what else stands behind it; NULL when not there. */
const char *db_digits_type(const char *create, const char *column);
/* The line behind the columns, with the table's options; NULL when not there. */
const char *db_digits_options(const char *create);

#endif
