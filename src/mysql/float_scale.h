/* The scale of FLOAT(M,D) and DOUBLE(M,D) columns. The server rounds literals to D digits, but
 * values copied from another column (MySQL) or converted by ALTER TABLE are kept unrounded: no
 * literal can restore such a value, and two of them may collide in a key. So such a column has no
 * scale while rows are loaded; afterwards an ALTER that copies no rows sets it, which requires that
 * it changes nothing else.
 *
 * Pure. Works on the text of SHOW CREATE TABLE (sql/shown_table.h). */
#ifndef WK_MYSQL_FLOAT_SCALE_H
#define WK_MYSQL_FLOAT_SCALE_H

#include "mysql/schema.h"

/* Returns true if the table has such columns. Generated columns do not count, because they are not
 * written. */
bool db_float_scale_any(const struct db_table *t);
/* Sets *off and *on to the " MODIFY …, MODIFY …" clauses of ALTER TABLE that remove and restore the
 * scale of the columns of `t`; unchanged if there is nothing to do. `create` is its definition in
 * UTF-8, `then` that of the table whose rows are to be loaded: a column that was not FLOAT or
 * DOUBLE there keeps its scale, and so do tables with system versioning. */
void db_float_scale(const struct db_table *t, const char *create, const char *then, struct buf *off,
                    struct buf *on);
/* Returns the definition's text from a column's type on; NULL: no such column. */
const char *db_float_scale_type(const char *create, const char *column);

#endif
