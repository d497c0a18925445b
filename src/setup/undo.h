/* --undo: removes what setup made, the newest first. Dumps, and everything that was changed since,
 * stay. */
#ifndef WK_SETUP_UNDO_H
#define WK_SETUP_UNDO_H

#include "setup/setup.h"

/* Removes what was made for the world, but no dumps. */
int setup_undo(struct setup *s, const char *name, struct err *e);

#endif
