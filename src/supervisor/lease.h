/* Renews the lease: which machine has the world. Tells the fence (base/fence.h) and the guard. */
#ifndef WK_SUPERVISOR_LEASE_H
#define WK_SUPERVISOR_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct part;
struct world;

extern const struct part leases_part;

/* Call it before any child is started: with [standby] nothing is done until the lease is held. */
int leases_begin(struct world *w, struct err *e);
/* Checks by the fence whether this machine may act, and tells the guard of a change; first in each
 * iteration of the loop. Returns true if it may no longer act. Then uploads are ended, and the
 * status is published at once. */
bool leases_decide(struct world *w);
/* Limits `ms` to the end of the lease. */
int64_t leases_sleep(mono_t now, int64_t ms);

#endif
