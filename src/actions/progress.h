/* Players' progress: --write-back, --locks, --release, and the objects that --init creates for
 * it. */
#ifndef WK_ACTIONS_PROGRESS_H
#define WK_ACTIONS_PROGRESS_H

#include "actions/context.h"

/* --write-back. Returns {"sent","stolen","stale","released","first"}; `unlock`: then ends all
 * sessions. */
action_fn action_write_back;
/* --locks. Returns {"locks":[…]} of central_locks(). */
action_fn action_locks;
/* --release, for the key in `dump`. Returns {"lock_key","outcome"}. A session with this key is
 * written back and ended first; `force`: also another server's lock. */
action_fn action_release;
/* --init: creates the tables and routines of the world. */
int action_init_progress(struct action_context *a, struct err *e);

#endif
