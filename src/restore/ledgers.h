/* Ledger, rollup and rollup positions of a restored world are of one moment, or that is refused or reported; and no new
 * row gets an id that its key's total counts as rolled up. */
#ifndef WK_RESTORE_LEDGERS_H
#define WK_RESTORE_LEDGERS_H

#include "config/config.h"
#include "mysql/conn.h"

struct restore;

/* Keeps runs of ledgers out until this session ends, while tables are swapped. */
int ledgers_lock(struct db *db, const struct config *c, struct err *e);
/* Before anything is changed: can --table and --at restore the ledgers as the world has them? ERR_REFUSED. */
int ledgers_guard(struct restore *r, struct err *e);
/* After plan_finish(): may the ledgers be restored in this way? ERR_REFUSED. */
int ledgers_plan(struct restore *r, struct err *e);
/* Checks them after the load, before the swap. */
int ledgers_loaded(struct restore *r, struct err *e);

#endif
