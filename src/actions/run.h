/* The actions of the command line, independent of terminals and sockets: given a request, they
 * work, report progress, and return a JSON result. Run directly by main.c, or in a worker of the
 * supervisor that got the same request through its control socket: one code path for both. */
#ifndef WK_ACTIONS_RUN_H
#define WK_ACTIONS_RUN_H

#include <errno.h>

#include "actions/context.h"

/* Number of an error of class CHANGED: [dump] dir names another directory now than when it was
 * opened. The action has not begun, or what it stored lies where it will not be found. */
#define ACTION_OTHER_DIR ESTALE
/* Carries out the action that the request names. */
action_fn action_run;

#endif
