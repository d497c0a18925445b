/* The last step of a drill: compares the rows of the world in the scratch schema with the living
 * world. A different table counts only if it stood still: nothing in the binary log has changed it
 * since the restored moment. Reads the MEMORY tables of the living world like a dump does, so that
 * the game continues meanwhile. */
#ifndef WK_RESTORE_LIVE_H
#define WK_RESTORE_LIVE_H

#include "base/err.h"

struct restore;

/* Returns -1 with ERR_QUERY if a table that stood still has other rows. */
int live_compare(struct restore *r, struct err *e);

#endif
