/* Tables that a restore puts in place as the dump defines them, because the rows do not fit what stands there now:
 * a definition that was changed since the dump, or something that is no table, such as a view. What stood there is kept:
 * definitions, triggers that do not fit any more and the logged statements in a file of the dump directory, a view under
 * another name. A table whose rows do fit keeps its present definition. */
#ifndef WK_RESTORE_REDEFINED_H
#define WK_RESTORE_REDEFINED_H

#include "mysql/objects.h"
#include "restore/load.h"
#include "restore/plan.h"

struct restore;

/* After plan_finish(): notes the present definitions, which must still be there at the swap, and what is in the way of
 * a table. ERR_REFUSED: with --into, where nothing is replaced. */
int redefined_note(struct restore *r, struct err *e);
/* Names in the schema that belong to no base table: views, sequences. */
int redefined_names(struct db *db, const char *schema, struct names *out, struct err *e);
/* Loading it failed with `e`: may the dump's definition help? Pure. */
bool redefined_helps(const struct plan *p, const struct target *t, const struct err *e);
/* Prepares it to be loaded once more, by the dump's definition. `why`: the failure. */
int redefined_begin(struct loader *l, struct target *t, const struct manifest_table *mt,
                    const struct err *why, struct err *e);
/* Does it get another definition than it has, in a restore into the world? Pure. */
bool redefined(const struct plan *p, const struct target *t);
/* A trigger of a redefined table that cannot be made on it: its text goes to the file, and the restore goes on. */
void redefined_without(struct restore *r, const struct db_trigger *t, const struct err *why);
/* Before the swap: writes the file, and chooses new names for what is in the way. */
int redefined_keep(struct restore *r, struct err *e);
/* After the swap: into the result. */
void redefined_result(struct restore *r);

#endif
