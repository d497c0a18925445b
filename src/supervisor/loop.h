/* The event loop of a supervisor: waits, passes messages from one part to another, starts and
 * ends everything. */
#ifndef WK_SUPERVISOR_LOOP_H
#define WK_SUPERVISOR_LOOP_H

#include "base/err.h"

struct action_context;
struct config;

/* Runs until SIGTERM/SIGINT. Returns 0, or -1 if it could not start. Closes `a` (opened, not yet
 * locked); a reload frees the config and continues with another. */
int world_run(struct action_context *a, struct config *cfg, struct err *e);

#endif
