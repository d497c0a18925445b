/* Work on the tables of the world itself, beside dumps and restores. */
#ifndef WK_ACTIONS_OWN_WORLD_H
#define WK_ACTIONS_OWN_WORLD_H

#include "actions/context.h"

/* A connection whose default schema is the world's, and whose changes stay on its node. */
struct db *action_connect_world(const struct action_context *a, struct err *e);
/* ERR_REFUSED: the server has forgotten the world, or holds another one. */
int action_check_world(const struct action_context *a, struct db *db, struct err *e);

#endif
