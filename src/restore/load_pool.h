/* Loads r->file over several connections at once, one table per connection at a time, the largest
 * first. Another thread reads the rest (header, definitions, trailer) into r->code. The caller's
 * thread reports progress. If any part fails, the whole load fails.
 *
 * The first connection is r->db, which holds the lease; another thread uses it until
 * load_pool_run() returns. The others are opened and closed here. Each holds its own server lock
 * next to the lease (db_lease_slot), so that no restore starts loading while a stale connection of
 * an earlier one could still write. If the server grants fewer connections, the pool is smaller. */
#ifndef WK_RESTORE_LOAD_POOL_H
#define WK_RESTORE_LOAD_POOL_H

#include <stddef.h>

#include "base/err.h"

struct restore;

int load_pool_run(struct restore *r, struct err *e);
/* Only checks that the dump's definitions can be restored on this server, as load_pool_run()
 * does before it loads anything. Changes nothing. */
int load_pool_check(struct restore *r, struct err *e);
/* Returns the number of connections that load a dump. `configured` 0: as many as help with the
 * processors of this machine. */
unsigned restore_connections(unsigned configured, size_t tables);

#endif
