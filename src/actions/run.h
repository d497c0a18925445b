/* The actions of the command line, independent of terminals and sockets. Given a request, they
 * work, report progress, and return a JSON result. They are called by main.c, or by a worker of the
 * supervisor that got the same request through its control socket: one code path for both. */
#ifndef WK_ACTIONS_RUN_H
#define WK_ACTIONS_RUN_H

#include <errno.h>

#include "actions/context.h"

/* Error number (class CHANGED): [dump] dir now names another directory than the one that was
 * opened. The action has not begun, or its files are where they will not be found. */
#define ACTION_OTHER_DIR ESTALE
/* Executes the action that the request names. */
action_fn action_run;

#endif
