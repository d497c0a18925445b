/* What one world owns exclusively on this machine: its schema on its server, and its [status]
 * directory. The kernel holds both claims for as long as the supervisor lives (an abstract socket
 * name, a flock), so that none can be stale. A holder with the same world's name is no conflict
 * here: two supervisors of one world are kept apart by its lock, its lease and its sentinel. */
#ifndef WK_ACTIONS_CLAIM_H
#define WK_ACTIONS_CLAIM_H

#include "config/config.h"
#include "base/err.h"

struct claims {
    int schema, name, status; /* descriptors; -1: none */
};
#define CLAIMS_NONE ((struct claims){-1, -1, -1})

/* ERR_REFUSED: another world holds a claim; the text names it. A claim that fails otherwise (a
 * status directory that cannot be opened) is ignored. */
int claims_take(const struct config *cfg, struct claims *out, struct err *e);
/* Accepts and closes the connections by which others look up the holder. Call it each second. */
void claims_drain(const struct claims *c);
void claims_drop(struct claims *c);

/* The other world that holds this world's schema, or status directory, now: "world w2 (pid 12)",
 * malloc; NULL: nobody, or this world itself. */
char *claims_schema_holder(const struct config *cfg);
char *claims_status_holder(const struct config *cfg);
/* Do both name the same server, as far as their configs show? */
bool claims_same_server(const struct config_mysql *a, const struct config_mysql *b);

#endif
