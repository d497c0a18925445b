/* The load pool: loads one of our dumps over several connections at once, one table each at a time,
 * the largest first, while another thread reads the rest (header, definitions, trailer). The
 * caller's thread reports progress. If any part fails, the whole load fails.
 *
 * The first connection is the caller's, which holds the lease; another thread uses it until
 * load_pool_run() returns. The others are opened and closed here. Each holds a lock of its own next to
 * the lease (db_lease_slot), so that no restore starts loading while a stale connection of an
 * earlier one could still write. If the server grants fewer connections, the pool is smaller. */
#ifndef WK_RESTORE_LOAD_POOL_H
#define WK_RESTORE_LOAD_POOL_H

#include "restore/load.h"

struct load_pool_work {
    const struct job *job;
    const char *schema;
    struct db *db; /* holds the lease if `leased` */
    bool leased;
    bool binlog; /* false: the sessions do not write to the binary log */
    struct plan *plan;
    const struct manifest *m;
    struct verify_file *file; /* the dump */
    struct delta *delta;      /* the changes since the dump; NULL: load the dump alone */
    bool content;             /* read all rows back and compare */
    verify_fn *rest;          /* receives the definitions, in the other thread; may be NULL */
    void *arg;
    unsigned connections; /* in: the maximum; out: those used */
    enum db_bulk_way way; /* out: how the rows were inserted */
};
int load_pool_run(struct load_pool_work *w, struct err *e);
/* Only checks that the dump's definitions can be restored on this server, as load_pool_run() does
 * before anything is loaded; changes nothing. */
int load_pool_check(struct load_pool_work *w, struct err *e);
/* The number of connections; for `auto` as many as help with the processors of this machine. */
unsigned load_pool_size(unsigned configured, size_t tables);

#endif
