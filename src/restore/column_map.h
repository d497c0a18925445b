/* Maps columns of a table to rows of a dump whose columns differ. Names are compared
 * case-insensitively, like the server does. Pure. */
#ifndef WK_RESTORE_COLUMN_MAP_H
#define WK_RESTORE_COLUMN_MAP_H

#include "mysql/schema.h"
#include "restore/plan.h"

/* Splits "(`a`,`b`)" into t->columns. */
void column_map_note(struct target *t, const char *columns);
/* Returns a column of `t` that is not in the list and that an INSERT cannot omit, because it has no
 * default; NULL: there is none. */
const struct db_column *column_map_lacks(const struct db_table *t, char *const *columns,
                                         size_t count);
/* Checks that rows of a table whose columns changed can be inserted by name without loss.
 * ERR_REFUSED if not. */
int column_map_check(const struct target *t, struct err *e);
/* Checks that the text columns of an existing table have the character sets of the dump's
 * definition. Bytes are restored, and in another character set they mean other letters. ERR_REFUSED
 * if not. */
int column_map_letters(const struct target *t, const char *create, size_t len, struct err *e);
/* Refuses (ERR_REFUSED) a TIMESTAMP or AUTO_INCREMENT column that is NOT NULL now and was not in
 * the dump's definition: the server would invent a value for a NULL. */
int column_map_nulls(const struct target *t, const char *create, size_t len, struct err *e);
/* Adds the hint for such errors; returns -1. */
int column_map_advise(struct err *e);

#endif
