/* The table worldkeeper_lease, in which games read how long the world is theirs. A child writes
 * it. */
#ifndef WK_SUPERVISOR_LEASE_TABLE_H
#define WK_SUPERVISOR_LEASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

struct world;

/* Registers the child. */
void lease_table_begin(struct world *w);
/* Returns true if the table was written, or could not be, since lease_table_expect(false). */
bool lease_table_tried(void);
void lease_table_expect(bool written);
/* Writes it after each renewal. `number`: of the lease; `until`: when it ends. */
void lease_table_write(struct world *w, uint64_t number, mono_t until);
void lease_table_stop(void);

#endif
