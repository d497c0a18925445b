/* Applies the journal's changes to the tables of a standby's copy (warm.h). */
#ifndef WK_RESTORE_WARM_APPLY_H
#define WK_RESTORE_WARM_APPLY_H

#include "journal/replay.h"
#include "restore/warm_int.h"

/* Applies the changes to each table and notes its new figures. An error may leave a table half changed: whoever calls
 * marks the copy before (`redo`), and takes the mark away only after all of them. */
int warm_apply_tables(struct warm *w, const struct replay *changes, struct err *e);

#endif
