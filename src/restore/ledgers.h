/* Ensures that ledger, rollup and rollup positions of a restored world are of one moment; otherwise
 * the restore is refused or that is reported. Also ensures that no new row gets an id that its
 * key's total counts as rolled up. */
#ifndef WK_RESTORE_LEDGERS_H
#define WK_RESTORE_LEDGERS_H

#include "config/config.h"
#include "mysql/conn.h"

struct restore;

/* Blocks runs of ledgers until this session ends, while tables are swapped. */
int ledgers_lock(struct db *db, const struct config *c, struct err *e);
/* Checks, before anything is changed, that --table and --at can restore the ledgers. ERR_REFUSED if
 * not. */
int ledgers_guard(struct restore *r, struct err *e);
/* Checks after plan_finish() that the ledgers may be restored in this way. ERR_REFUSED if not. */
int ledgers_plan(struct restore *r, struct err *e);
/* Checks them after the load, before the swap. */
int ledgers_loaded(struct restore *r, struct err *e);

#endif
