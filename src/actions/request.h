/* An action with its options, from the command line or over the control socket. */
#ifndef WK_ACTIONS_REQUEST_H
#define WK_ACTIONS_REQUEST_H

#include <jansson.h>
#include <stdint.h>

#include "actions/action.h"
#include "base/err.h"

/* Strings are owned; NULL if not given. */
struct request {
    enum action action; /* ACTION_NONE: an empty request */
    char *world;        /* the world that the client means; NULL: a client of an earlier version */
    char *dump, *from, *into, *at, *tables, *until, *since, *charset;
    bool force, accept_cut, with_code, dry_run;
    bool verify;          /* rollup: compare only */
    bool by_hand;         /* promote: an operator has decided it */
    bool grants;          /* check: only the statements for the account */
    bool unlock;          /* write-back: then end all sessions */
    bool apply, renumber; /* conflicts: for the file in `dump` */
    bool automatic;       /* only for the supervisor: a client cannot request it */
    unsigned skip;        /* number of newest intact dumps to skip */
    int64_t pause_ms;     /* 0: until --resume */
};
/* Returns NULL if a string in it is not UTF-8. */
json_t *request_json(const struct request *r);
/* Parses a request. Returns -1 with `out` empty for an unknown key or action, an option that the
 * action does not accept, or a wrong type: none of these may be ignored. */
int request_from_json(const json_t *o, struct request *out, struct err *e);
void request_free(struct request *r);
/* Returns true if it writes into the dump directory (ACTION_WRITES, or --apply). */
bool request_writes(const struct request *r);
/* Returns true if it swaps tables into the world itself. */
bool request_swaps(const struct request *r);

#endif
