/* A standby's copy of its world ([standby] warm = yes): loaded from the newest dump into a schema of its own of
 * the standby's server, and caught up with the journal as it comes, so that a promotion applies the rest and moves
 * the tables.
 *
 * What proves the copy is in the same schema, in MEMORY tables, and vanishes with its rows: up to where in which
 * segment of the journal all changes are in it, how many rows each table has, and whether changes were being
 * applied. Those are applied again after a kill: the keys of all changed rows are taken out, then the rows as they
 * are now go in.
 *
 * Rows are what a restore would load, by the same code. What the journal cannot express or does not lead up to ends
 * the copy, until a dump does that is newer: then the world is loaded once more, in place of the copy, and a
 * promotion meanwhile loads the dump. When a newer dump arrives, its definitions are compared with the copy's, and
 * at most once an hour all rows with what a load of it would give. Under a lock of the server: one process at a time. */
#ifndef WK_RESTORE_WARM_H
#define WK_RESTORE_WARM_H

#include "dump/job.h"
#include "store/manifest.h"
#include "store/state.h"

#define WARM_WHY_MAX 640

/* Drops its schema, if it is there, under its lock. */
int warm_drop(const struct job *job, struct err *e);

#endif
