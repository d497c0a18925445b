/* The last step of a drill: has the world that was rebuilt in the scratch schema the rows of the living one? A table that
 * differs counts only if it stood still: nothing in the binary log has changed it since the moment that was rebuilt.
 * Reads the MEMORY tables of the living world as a dump does, so that the game goes on meanwhile. */
#ifndef WK_RESTORE_LIVE_H
#define WK_RESTORE_LIVE_H

#include "base/err.h"

struct restore;

/* -1 with ERR_QUERY: a table that stood still has other rows. */
int live_compare(struct restore *r, struct err *e);

#endif
