/* --write-back, --locks, --release; and what --init makes for [progress]. */
#ifndef WK_ACTIONS_PROGRESS_H
#define WK_ACTIONS_PROGRESS_H

#include "actions/context.h"
#include "actions/request.h"

int action_init_progress(struct action_context *a, struct err *e);
/* {"sent","stolen","stale","released","first"}; `unlock`: then all sessions are ended. */
action_fn action_write_back;
/* {"locks":[…]} of central_locks(). */
action_fn action_locks;
/* Of the key that `dump` names: {"lock_key","outcome"}. A session of it is written back and ended first;
 * `force`: also another server's lock. */
action_fn action_release;

#endif
