/* Names of CHECK constraints. In MySQL no two tables of a schema have one of the same name, so that
 * the shadow of a table cannot bear the names of the table that it will replace: it gets made up
 * ones, and the real ones once the old table is gone. (In MariaDB they are each table's own
 * affair.)
 *
 * Pure text, of CREATE TABLE statements as SHOW CREATE TABLE prints them: a constraint a line. */
#ifndef WK_RESTORE_CONSTRAINTS_H
#define WK_RESTORE_CONSTRAINTS_H

#include <stddef.h>

#include "core/text.h"

/* The definition without these names: the server makes some up. */
void constraints_unnamed(struct buf *out, const char *create, size_t len);
/* Only the lines of `create` that hold constraints; "" of none. To be used as `was` below. */
void constraints_lines(struct buf *out, const char *create);
/* "DROP CHECK …, ADD CONSTRAINT …": what makes the constraints of `now` be called as in `was`.
 * Returns how many that are; with 0 nothing is added. */
size_t constraints_rename(struct buf *out, const char *was, const char *now);

#endif
