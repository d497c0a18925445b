/* In a promotion the tables of the standby's copy (warm.h) become the shadow tables, instead of
 * a load. */
#ifndef WK_RESTORE_WARM_PROMOTE_H
#define WK_RESTORE_WARM_PROMOTE_H

#include <stdbool.h>

struct restore;

/* Returns false if they must be loaded. */
bool warm_take(struct restore *r);

#endif
