/* --dry-run: finds missing privileges and what the server would refuse, and changes nothing. */
#ifndef WK_RESTORE_REHEARSE_H
#define WK_RESTORE_REHEARSE_H

#include "restore/plan.h"
#include "restore/restore.h"

/* -1: the error with which the restore would end. What cannot be checked is not an error. */
int rehearse(struct db *db, const struct config *c, const struct restore_options *opt,
             const struct plan *plan, struct err *e);

#endif
