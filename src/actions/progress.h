/* --write-back, --locks, --release; and what --init makes for [progress]. */
#ifndef WK_ACTIONS_PROGRESS_H
#define WK_ACTIONS_PROGRESS_H

#include "actions/context.h"
#include "actions/request.h"

int action_init_progress(struct action_context *a, struct err *e);
/* {"sent","stolen","stale","released","first"}; `unlock`: then all sessions are ended. */
int action_write_back(struct action_context *a, const struct request *r, json_t **result,
                      struct err *e);
/* {"locks":[…]} of central_locks(). */
int action_locks(struct action_context *a, const struct request *r, json_t **result, struct err *e);
/* Of the key that `dump` names: {"lock_key","outcome"}. A session of it is written back and ended first;
 * `force`: also another server's lock. */
int action_release(struct action_context *a, const struct request *r, json_t **result,
                   struct err *e);

#endif
