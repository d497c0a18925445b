/* Ledgers in a restore: ledger, rollup and marks of a restored world are of one moment, or it is refused
 * or said; and no new row gets an id that its key's total counts as rolled up. */
#ifndef WK_RESTORE_LEDGERS_H
#define WK_RESTORE_LEDGERS_H

#include "restore/plan.h"
#include "restore/restore.h"

/* In this session until it ends: no run of a ledger goes on while tables are swapped. */
int ledgers_lock(struct db *db, const struct config *c, struct err *e);
/* Before anything is changed: can --table and --at take the ledgers back as the world has them?
 * ERR_REFUSED. */
int ledgers_guard(struct db *db, const struct config *c, const struct restore_options *opt,
                  struct err *e);
/* After plan_finish(): may the ledgers be restored in this way? ERR_REFUSED. `m` NULL: the file is none
 * of our dumps. */
int ledgers_plan(struct plan *p, const struct config *c, const struct manifest *m,
                 const struct restore_options *opt, struct restore_result *out, struct err *e);
/* After the load, before the swap. */
int ledgers_loaded(struct db *db, const struct job *job, struct plan *p,
                   const struct restore_result *out, struct err *e);

#endif
