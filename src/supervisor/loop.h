/* The supervisor of one world and its event loop. Timers, workers, the control socket and signals
 * become events; guard.h decides; workers act. The loop itself never waits for a server, a disk or
 * the network: whatever can block is done in a forked child (base/worker.h); src/README.md lists them. */
#ifndef WK_SUPERVISOR_LOOP_H
#define WK_SUPERVISOR_LOOP_H

#include "actions/run.h"

/* Runs until SIGTERM/SIGINT. 0, or -1 if it could not start. Takes ownership of `a` (opened, not
 * yet locked) and its config. */
int world_run(struct action_context *a, struct config *cfg, struct err *e);

#endif
