/* Loads a dump of ours over several connections at once, one table each at a time, the biggest
 * first, while another thread reads what is not rows (header, definitions, trailer) and hashes the
 * file. The caller's thread tells the progress. All of it must be right, or none of it counts.
 *
 * The first connection is the caller's own, which holds the lease; it is used by another thread
 * until crew_load() returns. The others are opened here and closed here, each with a lock of its
 * own beside the lease (db_lease_slot), so that nobody begins to load while a stale one of an
 * earlier restore could still write. A server that gives fewer connections than asked for gets a
 * smaller crew. */
#ifndef WK_RESTORE_CREW_H
#define WK_RESTORE_CREW_H

#include "restore/load.h"

struct crew_work {
    const struct job *job;
    const char *schema;
    struct db *db; /* holds the lease where `leased` */
    bool leased;
    bool binlog; /* false: the sessions write no binary log */
    struct plan *plan;
    const struct manifest *m;
    struct fold *fold; /* what changed since the dump; NULL: the dump alone */
    bool content;      /* read all rows back and compare */
    verify_fn *rest;   /* sees the definitions, in that other thread; may be NULL */
    void *arg;
    unsigned connections; /* in: at most; out: used */
    enum db_bulk_way way; /* out: how rows went in */
};
int crew_load(struct crew_work *w, const char *file, struct err *e);
/* Only whether the server takes the dump's definitions, as crew_load() begins; changes nothing. */
int crew_look(struct crew_work *w, const char *file, struct err *e);
/* `auto`: as many as help on a machine with so many processors. */
unsigned crew_size(unsigned configured, size_t tables);

#endif
