/* The supervisor of one world and its event loop. Timers, workers, the control socket and signals
 * become events; guard.h decides; workers act. The loop itself never waits for a server, a disk or
 * the network: whatever can block is done in a forked child (base/worker.h):
 *
 *   probe        lives as long as the supervisor; queries the server once a second on one connection
 *   disk writer  lives as long; writes status, state and the alert queue
 *   follower     while the world is up: reads the binary log
 *   job          one at a time: dump, restore, drill, init, tidy
 *   rollup       marks ledgers, and rolls them up
 *   write-back   sends players' progress to the central store
 *   off-site     stores dumps on another machine, a second child the journal's segments
 *   lease, standby   with [standby]: renews the lease, fetches what the primary stores
 *   verify       reads the dumps back, by the clock
 *   check        the rules of --check, daily
 *   smtp, webhook, heartbeat   one process per delivery
 */
#ifndef WK_SUPERVISOR_LOOP_H
#define WK_SUPERVISOR_LOOP_H

#include "actions/run.h"

/* Runs until SIGTERM/SIGINT. 0, or -1 if it could not start. Takes ownership of `a` (opened, not
 * yet locked) and its config. */
int world_run(struct action_context *a, struct config *cfg, struct err *e);

#endif
