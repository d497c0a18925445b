/* Applies the journal's changes to the tables of a standby's copy (warm.h). */
#ifndef WK_RESTORE_WARM_APPLY_H
#define WK_RESTORE_WARM_APPLY_H

#include "journal/replay.h"
#include "restore/warm_int.h"

/* Applies the changes to each table and records its new figures. An error may leave a table half
 * changed. Therefore the caller marks the copy before (`redo`), and removes the mark only after all
 * tables are done. */
int warm_apply_tables(struct warm *w, const struct replay *changes, struct err *e);

#endif
