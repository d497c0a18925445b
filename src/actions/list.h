/* --list: the dumps, and which moments --at can restore. */
#ifndef WK_ACTIONS_LIST_H
#define WK_ACTIONS_LIST_H

#include "actions/context.h"

/* {"dumps":[…],"ranges":[…],…} */
action_fn action_list;

#endif
