/* Whether the columns of a table can take the rows of a dump, and keep their meaning. Names are
 * compared without regard to case, as the server does. Pure. */
#ifndef WK_RESTORE_COLUMN_MAP_H
#define WK_RESTORE_COLUMN_MAP_H

#include "restore/plan.h"

/* "(`a`,`b`)" becomes t->columns. */
void column_map_note(struct target *t, const char *columns);
/* A column of `t` that is none of these, and that an INSERT cannot leave out: it has no default; NULL: there is
 * none. */
const struct db_column *column_map_lacks(const struct db_table *t, char *const *columns,
                                         size_t count);
/* Can rows of a table whose columns changed be inserted by name without loss? ERR_REFUSED. */
int column_map_check(const struct target *t, struct err *e);
/* Do the text columns of an existing table have the character sets of the dump's definition? Bytes
 * are restored, and in another character set they mean other letters. ERR_REFUSED. */
int column_map_letters(const struct target *t, const char *create, size_t len, struct err *e);
/* Adds the hint for such errors; returns -1. */
int column_map_advise(struct err *e);

#endif
