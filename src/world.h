/* The supervisor of one world: the one long-lived object and its loop. Timers, workers, the control
 * socket and signals become events; guard.h decides; workers act. The loop itself never waits for a
 * server, a disk or the network: whatever can block is done in a forked child (core/worker.h):
 *
 *   probe      lives as long as the supervisor; one question a second over one connection
 *   scribe     lives as long; writes status, state and the alert queue to the disk
 *   job        one at a time: dump, restore, drill, init, tidy
 *   smtp, webhook, heartbeat   one delivery each
 */
#ifndef WK_WORLD_H
#define WK_WORLD_H

#include "act.h"

/* Runs until SIGTERM/SIGINT. Returns 0, or -1 when it could not start. Takes over `a` (opened, not
 * yet locked) and its config; the caller frees neither. */
int world_run(struct act *a, struct config *cfg, struct err *e);

#endif
