/* Tables that were created after the dump, and are restored from their creation on. */
#ifndef WK_RESTORE_FRESH_H
#define WK_RESTORE_FRESH_H

#include "mysql/schema.h"

struct restore;

/* Finds the definition of each table after replay_read(); a table without one is given up. `now`:
 * the tables of the world. */
int fresh_define(struct restore *r, const char *schema, const struct db_tables *now, struct err *e);
/* Adds them to the plan. */
int fresh_plan(struct restore *r, struct err *e);
/* Loads them after load_pool_run(). A table that the server refuses is skipped and reported,
 * because no dump has it. */
int fresh_load(struct restore *r, struct err *e);

#endif
