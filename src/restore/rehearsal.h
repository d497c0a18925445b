/* In the scratch schema of a drill: executes all kinds of statements that a restore of this world
 * would execute after the load, with the world's own definitions and triggers. */
#ifndef WK_RESTORE_REHEARSAL_H
#define WK_RESTORE_REHEARSAL_H

#include "base/err.h"

struct restore;

int rehearse(struct restore *r, struct err *e);

#endif
