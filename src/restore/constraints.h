/* Names of CHECK constraints. In MySQL they are unique in a schema, so a shadow table cannot have
 * the names of the table that it will replace. It gets generated names, and the real ones after the
 * old table was dropped. (In MariaDB they are unique only in a table.)
 *
 * Pure. Works on the text of SHOW CREATE TABLE (sql/shown_table.h). */
#ifndef WK_RESTORE_CONSTRAINTS_H
#define WK_RESTORE_CONSTRAINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* Extracts the constraints of `create`, each on its own line; "": none. For `was` below. */
void constraints_lines(struct buf *out, const char *create);
/* Appends "DROP CHECK …, ADD CONSTRAINT …", which renames the constraints of `now` to their names
 * in `was`. Each stays enforced or not enforced as it is in `now`. With `enforced` no constraint of
 * the table stays enforced, also if it keeps its name, and the new names of those that were
 * enforced are added to it. Returns the number of renamed ones; nothing is appended if it is 0. */
size_t constraints_rename(struct buf *out, const char *was, const char *now,
                          struct names *enforced);
/* Appends to the changes of an ALTER TABLE that a constraint is enforced, or is not. */
void constraints_enforce(struct buf *out, const char *name, bool enforced);
/* Lists the enforced constraints of `now`. `named`: their names in `was`; a constraint that `was`
 * lacks has its own name there. */
void constraints_enforced(const char *now, const char *was, struct names *out, struct names *named);
/* Lists the constraints that are enforced in `was`, and not enforced under the same name in
 * `now`. */
void constraints_unenforced(const char *now, const char *was, struct names *out);
/* Returns true if `now` has an enforced CHECK, also one of a column, that `was` lacks, or if one of
 * the two cannot be parsed. */
bool constraints_added(const char *now, const char *was);

#endif
