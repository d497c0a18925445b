/* In the scratch schema of a drill: sends what a restore of this world would send after the load, all kinds of statements,
 * with the world's own definitions and triggers. */
#ifndef WK_RESTORE_REHEARSAL_H
#define WK_RESTORE_REHEARSAL_H

#include "base/err.h"

struct restore;

int rehearse(struct restore *r, struct err *e);

#endif
