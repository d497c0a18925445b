/* --conflicts: compares a file of replaced rows with the world, or merges it
 * (restore/conflict_merge.h). */
#ifndef WK_ACTIONS_CONFLICTS_H
#define WK_ACTIONS_CONFLICTS_H

#include "actions/context.h"

action_fn action_conflicts;

#endif
