/* Tables that a restore creates with the dump's definition, because the rows do not fit what has
 * their name now: a table whose definition changed since the dump, or something other than a table,
 * such as a view. What is replaced is kept: definitions, triggers that no longer fit and the logged
 * statements in a file of the dump directory, a view under another name. A table whose rows do fit
 * keeps its current definition. The definition of a table that is in no dump yet comes from the
 * journal. */
#ifndef WK_RESTORE_REDEFINED_H
#define WK_RESTORE_REDEFINED_H

#include "mysql/objects.h"
#include "restore/load.h"
#include "restore/plan.h"

struct restore;

/* Call it after plan_finish(): records the current definitions, which must still be there at the
 * swap, and what has the name of a table. ERR_REFUSED: with --into, where nothing is replaced. */
int redefined_note(struct restore *r, struct err *e);
/* Records the current definition of one table, which was added to the plan later. */
int redefined_note_table(struct restore *r, struct target *t, struct err *e);
/* Lists names in the schema that belong to no base table: views, sequences. */
int redefined_names(struct db *db, const char *schema, struct names *out, struct err *e);
/* Loads a table by `load`; again without its CHECKs if one of them refuses a row (checks.h); and
 * again with the dump's definition if its rows do not fit the present one. `t` NULL: the plan does
 * not have it. `engine`: that of the dump's definition. */
typedef int redefined_load_fn(void *arg, struct err *e);
int redefined_load(struct loader *l, struct target *t, const char *engine, redefined_load_fn *load,
                   void *arg, struct err *e);
/* Returns true if it gets another definition than it has, in a restore into the world. Pure. */
bool redefined(const struct plan *p, const struct target *t);
/* Handles a trigger of a redefined table that cannot be created on it: its text goes to the file,
 * and the restore continues. */
void redefined_without(struct restore *r, const struct db_trigger *t, const struct err *why);
/* Call it before the swap: writes the file, and chooses new names for objects that have a table's
 * name. */
int redefined_keep(struct restore *r, struct err *e);
/* Adds them to the result after the swap. */
void redefined_result(struct restore *r);

#endif
