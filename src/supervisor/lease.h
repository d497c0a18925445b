/* Which machine has the world ([standby]): a worker renews its lease and moves the fence (base/fence.h) itself;
 * here is decided what that means, and the guard hears of it. A standby has no lease, and its fence is closed. */
#ifndef WK_SUPERVISOR_LEASE_H
#define WK_SUPERVISOR_LEASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct world;

/* Before any child is started: with [standby] nothing is done until the lease is held. */
int leases_begin(struct world *w, struct err *e);
/* May this machine act? First in each turn of the loop: true where it may not any more, which is to be published
 * at once. */
bool leases_decide(struct world *w);
/* Not longer than until the lease ends. */
int64_t leases_sleep(mono_t now, int64_t ms);
/* How long what is published may be believed. */
int64_t leases_valid_ms(int64_t ms);

/* lease_table.c: worldkeeper_lease in the world's schema, until when this machine has the lease, for games that ask
 * their own server. A worker of its own writes it: a server that does not answer must not keep a renewal waiting. */
/* After each renewal. */
void lease_table_write(struct world *w, uint64_t number, mono_t until);
void lease_table_stop(void);

#endif
