/* Which machine keeps the world ([standby]): --promote, --demote, --switch-over. Their order of
 * effects follows rules 1, 6, 7 and 10 of tests/models/README.md. */
#ifndef WK_ACTIONS_STANDBY_H
#define WK_ACTIONS_STANDBY_H

#include "actions/context.h"
#include "actions/request.h"

action_fn action_promote, action_demote, action_switch_over;
/* Checks that this action may run on a standby. ERR_REFUSED if not. */
int action_allowed(const struct action_context *a, const struct request *r, struct err *e);

#endif
