/* The changes since the dump: from which sources they are read, and whether they are used. */
#ifndef WK_RESTORE_CATCHUP_H
#define WK_RESTORE_CATCHUP_H

#include "base/err.h"

struct restore;

#define CATCHUP_BY_MOMENT                                                                          \
    "--restore --at without the name of a dump takes the newest one before that moment"
/* Reads the changes since r->m into r->journal. If changes are expected but not used,
 * out->journal.gap gives the reason. ERR_REFUSED: the requested time cannot be restored. */
int catchup_read(struct restore *r, struct err *e);
/* Copies the figures of r->journal into the result. */
void catchup_figures(struct restore *r);

#endif
