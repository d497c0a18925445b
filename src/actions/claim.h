/* What one world owns exclusively on this machine: its schema on its server, and its [status]
 * directory. Claims are kernel objects (an abstract socket name, a flock) that are released when
 * the supervisor exits, so they cannot be stale. A holder with the same world's name is no conflict
 * here: two supervisors of one world are kept apart by its lock, its lease and its sentinel. */
#ifndef WK_ACTIONS_CLAIM_H
#define WK_ACTIONS_CLAIM_H

#include "base/err.h"
#include "config/config.h"

struct claims {
    int schema, name, status; /* descriptors; -1: none */
};
#define CLAIMS_NONE ((struct claims){-1, -1, -1})

/* Takes the claims. ERR_REFUSED: another world holds one; the text names it. A claim that fails for
 * another reason (a status directory that cannot be opened) is ignored. */
int claims_take(const struct config *cfg, struct claims *out, struct err *e);
/* Accepts and closes connections of processes that look up the holder. Call it each second. */
void claims_drain(const struct claims *c);
void claims_drop(struct claims *c);

/* Returns the other world that now holds this world's schema, or status directory: "world w2 (pid
 * 12)" (malloc); NULL: none. */
char *claims_schema_holder(const struct config *cfg);
char *claims_status_holder(const struct config *cfg);
/* Returns true if both name the same server, as far as their configs show. */
bool claims_same_server(const struct config_mysql *a, const struct config_mysql *b);

#endif
