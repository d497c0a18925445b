/* The triggers of the tables that a restore replaces. A trigger belongs to a table, not to a name:
 * before the swap each is moved to the shadow table, and renamed with it. */
#ifndef WK_RESTORE_TRIGGERS_H
#define WK_RESTORE_TRIGGERS_H

#include "dump/job.h"
#include "restore/plan.h"

/* Those of the tables that will be replaced. */
int triggers_of_plan(struct db *db, const char *schema, const struct plan *plan,
                     struct db_triggers *out, struct err *e);
/* Creates every trigger once under a temporary name before the first real one is touched: a definer
 * that we may not use, or a body that no longer compiles, must not cost the game its trigger. */
int triggers_prove(struct db *db, const struct plan *plan, const struct db_triggers *list,
                   struct err *e);
/* To the shadow tables. */
int triggers_move(struct db *db, const struct plan *plan, const struct db_triggers *list,
                  struct err *e);
/* Puts each trigger of `list` on the table it names; one that is not there is created again. */
int triggers_put(struct db *db, const char *schema, const struct db_triggers *list, struct err *e);
/* The same after a crash. A trigger that cannot be put back must not keep the world down: its text
 * is kept in a file. */
int triggers_recover(struct db *db, const struct job *job, const struct db_triggers *list,
                     struct err *e);

#endif
