/* Which machine has the world ([standby]): a worker renews its lease and moves the fence (base/fence.h) itself;
 * here is decided what that means, and the guard hears of it. A standby has no lease, and its fence is closed. */
#ifndef WK_SUPERVISOR_LEASE_H
#define WK_SUPERVISOR_LEASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/worker.h"

struct world;

struct leases *leases_new(struct world *w);
/* Before any child is started: with [standby] nothing is done until the lease is held. */
int leases_begin(struct world *w, struct err *e);
/* May this machine act? First in each turn of the loop. Both: true where it may not any more, which is to be published
 * at once. */
bool leases_decide(struct world *w);
bool leases_timers(struct world *w, mono_t now);
/* Not longer than until the lease ends. */
int64_t leases_sleep(const struct world *w, mono_t now, int64_t ms);
/* How long what is published may be believed. */
int64_t leases_valid_ms(const struct world *w, int64_t ms);
/* The next worker works with the config of now. */
void leases_restart(struct world *w);
void leases_stop(struct world *w);

json_t *leases_status_json(const struct world *w); /* null without a lease */

/* lease_table.c: worldkeeper_lease in the world's schema, until when this machine has the lease, for games that ask
 * their own server. A worker of its own writes it: a server that does not answer must not keep a renewal waiting. */
struct lease_table {
    struct worker worker;
};
/* After each renewal. */
void lease_table_write(struct world *w, struct lease_table *t, uint64_t number, mono_t until);
void lease_table_stop(struct lease_table *t);

#endif
