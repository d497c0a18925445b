/* An action with its options, as the command line gives it and as it goes over the control socket. */
#ifndef WK_ACTIONS_REQUEST_H
#define WK_ACTIONS_REQUEST_H

#include <jansson.h>
#include <stdint.h>

#include "actions/action.h"
#include "base/err.h"

/* Strings are owned; NULL if not given. */
struct request {
    enum action action; /* ACTION_NONE: an empty request */
    char *dump, *from, *into, *at, *tables, *until, *since, *charset;
    bool force, accept_cut, with_code, dry_run;
    bool verify;          /* rollup: compare only */
    bool by_hand;         /* promote: a person decides */
    bool grants;          /* check: only the statements for the account */
    bool unlock;          /* write-back: then all sessions are ended */
    bool apply, renumber; /* conflicts: of the file that `dump` names */
    bool automatic;       /* the supervisor's own: a client cannot ask for that */
    unsigned skip;        /* of the newest intact dumps */
    int64_t pause_ms;     /* 0: until --resume */
};
/* NULL: a string of it is not UTF-8. */
json_t *request_json(const struct request *r);
/* -1, with `out` empty: it has an unknown key or action, an option that its action does not take, or
 * a wrong type, which must not be ignored. */
int request_from_json(const json_t *o, struct request *out, struct err *e);
void request_free(struct request *r);
/* Does it write into the dump directory? (ACTION_WRITES, or --apply) */
bool request_writes(const struct request *r);
/* Does it swap tables into the world itself? */
bool request_swaps(const struct request *r);

#endif
