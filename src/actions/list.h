/* --list: the dumps, and the times that --at can restore. */
#ifndef WK_ACTIONS_LIST_H
#define WK_ACTIONS_LIST_H

#include "actions/context.h"

/* Returns {"dumps":[…],"ranges":[…],…}. */
action_fn action_list;

#endif
