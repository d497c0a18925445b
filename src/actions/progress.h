/* Players' progress: --write-back, --locks, --release, and what --init creates for it. */
#ifndef WK_ACTIONS_PROGRESS_H
#define WK_ACTIONS_PROGRESS_H

#include "actions/context.h"

/* --write-back. {"sent","stolen","stale","released","first"}; `unlock`: then all sessions are ended. */
action_fn action_write_back;
/* --locks. {"locks":[…]} of central_locks(). */
action_fn action_locks;
/* --release, of the key that `dump` names. {"lock_key","outcome"}. A session of it is written back and ended first;
 * `force`: also another server's lock. */
action_fn action_release;
/* --init: creates the tables and routines of the world. */
int action_init_progress(struct action_context *a, struct err *e);

#endif
