/* A standby's copy of its world ([standby] warm = yes): loaded from the newest dump into a separate
 * schema of the standby's server, and updated with the journal as it arrives. A promotion then
 * applies only the rest and moves the tables.
 *
 * The state of the copy is in the same schema, in MEMORY tables, and is lost together with its
 * rows: the position in the journal's segments up to which all changes are in it, the number of
 * rows of each table, and whether changes were being applied. After a kill those changes are
 * applied again: rows with the keys of all changed rows are deleted, then their current rows are
 * inserted.
 *
 * Rows are loaded by the normal restore code. A change that the journal cannot express, or a
 * journal that does not lead on, invalidates the copy until there is a newer dump: then the world
 * is loaded again in place of the copy, and a promotion meanwhile loads the dump. When a newer dump
 * arrives, its definitions are compared with the copy's, and at most once an hour all rows with the
 * result of loading it. A server lock allows one process at a time. */
#ifndef WK_RESTORE_WARM_H
#define WK_RESTORE_WARM_H

#include "store/manifest.h"
#include "store/state.h"

struct job;

#define WARM_WHY_MAX 640

/* Drops its schema, if it exists, under its lock. */
int warm_drop(const struct job *job, struct err *e);

#endif
