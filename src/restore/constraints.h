/* Names of CHECK constraints. In MySQL they are unique in a schema, so a shadow table cannot have
 * the names of the table that it will replace. It gets generated names, and the real ones after the
 * old table was dropped. (In MariaDB they are unique only in a table.)
 *
 * Pure. Works on the text of SHOW CREATE TABLE (sql/shown_table.h). */
#ifndef WK_RESTORE_CONSTRAINTS_H
#define WK_RESTORE_CONSTRAINTS_H

#include <stddef.h>

#include "base/text.h"

/* Extracts the constraints of `create`, each on its own line; "": none. For `was` below. */
void constraints_lines(struct buf *out, const char *create);
/* Appends "DROP CHECK …, ADD CONSTRAINT …", which renames the constraints of `now` to their names
 * in `was`. Returns their number; nothing is appended if it is 0. */
size_t constraints_rename(struct buf *out, const char *was, const char *now);

#endif
