/* CHECK constraints of MySQL whose outcome depends on the session, such as one that compares a
 * TIMESTAMP with a DATE. A row that the game's session accepted may violate them in ours, which has
 * another time zone and another SQL mode, and MySQL cannot switch the check off for a session. If a
 * row is refused, the constraints of its table are not enforced while the table is loaded. Those
 * that the rows violate even in the time zone and the SQL mode of the server stay so, and are
 * reported: they say nothing about the dump.
 *
 * MariaDB switches the check off for the session (WORD_CHECKS). */
#ifndef WK_RESTORE_CHECKS_H
#define WK_RESTORE_CHECKS_H

#include "restore/shadow_table.h"

struct restore;

/* Returns true if a CHECK may be the reason why the server refused a row. */
bool checks_refused(struct db *db, const struct err *e);
/* Makes the constraints of an empty shadow table not enforced; t->unchecked is set. `was`: the
 * definition with the names that they have in the world. */
int checks_off(const struct shadow_session *s, struct target *t, const char *was, struct err *e);
/* Enforces them again when the table is loaded. t->unenforced are those that stay not enforced. */
int checks_on(const struct shadow_session *s, struct target *t, struct err *e);
/* Sets the character set of the session for definitions, which are UTF-8, or back to that of rows.
 * Returns `rc`, or -1. */
int checks_utf8(struct db *db, bool on, int rc, struct err *e);
/* Executes an ALTER TABLE that checks all rows: in the time zone and with the SQL mode of the
 * server, and if it fails in those of the session. */
int checks_alter(struct db *db, const char *table, const char *change, struct err *e);
/* Enforces the constraints `list` of a table, and adds to `left` those that the server does not
 * enforce because rows violate them. `named`: their names in `left`. -1: any other error. */
int checks_enforce(struct db *db, const char *table, const struct names *list,
                   const struct names *named, struct names *left, struct err *e);
/* Appends a sentence about a constraint that is not enforced. */
void checks_describe(struct buf *out, const char *table, const char *name);
/* Appends the name that an ALTER TABLE for an operator needs: with the schema for --into. Returns
 * false if the tables of this restore do not stay, as those of a drill or of the warm copy. */
bool checks_table(const struct restore *r, const char *table, struct buf *out);
/* Adds that sentence to the result of the restore, unless checks_table() returns false. */
void checks_warn(struct restore *r, const char *table, const char *name);
/* The same for all that are not enforced after the load. */
void checks_warn_all(struct restore *r);

#endif
