/* --from offsite: dumps in the store. */
#ifndef WK_ACTIONS_FROM_H
#define WK_ACTIONS_FROM_H

#include "actions/context.h"
#include "actions/request.h"
#include "offsite/fetch.h"
#include "restore/restore.h"
#include "store/catalog.h"

/* Lists the dumps in the store. */
int action_from_catalog(struct action_context *a, const struct request *r, struct catalog *out,
                        struct err *e);
/* --verify --from: reads dumps in the store. */
action_fn action_from_verify;
/* The requested dump while it is fetched, with its journal. */
struct action_from {
    char name[DUMP_NAME_MAX];         /* "": the newest one here */
    uint64_t round;                   /* the store's, if it is later than the one here; else 0 */
    struct restore_arriving arriving; /* m NULL: all of it is here */
    struct fetch fetch;
    struct catalog_entry dump;
    struct fetch_beside beside;
};
/* Fetches the requested dump. `until`: the newest one before that time; ms 0: the newest of all.
 * `beside`: the dump may be restored while it is still being fetched. Always call action_from_end()
 * afterwards. */
int action_from_begin(struct action_context *a, const struct request *r, wall_t until, bool beside,
                      struct action_from *from, struct err *e);
void action_from_end(struct action_from *from);
/* Records that the world was restored from there, so that this machine stores it from now on
 * (offsite/owner.h). Not earlier: a restore that is refused leaves the other machine's copies
 * alone. */
void action_adopt(struct action_context *a);

#endif
