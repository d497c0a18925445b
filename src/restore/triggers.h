/* Moves triggers to shadow tables. A trigger belongs to a table, not to a name: before the swap
 * each is moved to the shadow table, and renamed with it. In tests/models/swap.pml a game's trigger
 * survives a kill at each step. */
#ifndef WK_RESTORE_TRIGGERS_H
#define WK_RESTORE_TRIGGERS_H

#include "mysql/objects.h"

struct job;
struct restore;

/* Lists the triggers of the tables that are replaced. */
int triggers_replaced(struct restore *r, struct db_triggers *out, struct err *e);
/* Creates every trigger once under a temporary name before the first real one is touched, because a
 * forbidden definer, or a body that no longer compiles, must not cost the game its trigger. A
 * trigger that does not fit the new definition of its table (redefined.h) is removed from the
 * list. */
int triggers_prove(struct restore *r, struct db_triggers *list, struct err *e);
int triggers_move(struct restore *r, const struct db_triggers *list, struct err *e);
/* Puts each trigger of `list` on the table it names; a missing one is created again. */
int triggers_put(struct db *db, const char *schema, const struct db_triggers *list, struct err *e);
/* Does the same after a crash. A trigger that cannot be put back must not keep the world down: its
 * text is kept in a file. */
int triggers_recover(struct db *db, const struct job *job, const struct db_triggers *list,
                     struct err *e);

#endif
