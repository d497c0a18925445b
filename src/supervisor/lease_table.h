/* worldkeeper_lease in the world's schema: until when this machine has the lease, for games that ask their own
 * server. A worker of its own writes it: a server that does not answer must not keep a renewal waiting. */
#ifndef WK_SUPERVISOR_LEASE_TABLE_H
#define WK_SUPERVISOR_LEASE_TABLE_H

#include <stdint.h>

#include "base/clock.h"
#include "base/worker.h"

struct world;

struct lease_table {
    struct worker worker;
};
/* After each renewal. */
void lease_table_write(struct world *w, struct lease_table *t, uint64_t number, mono_t until);
void lease_table_stop(struct lease_table *t);

#endif
