/* The actions of the command line, independent of terminals and sockets: given a request, they
 * work, report progress, and return a JSON result. Run directly by main.c, or in a worker of the
 * supervisor that got the same request through its control socket: one code path for both. */
#ifndef WK_ACTIONS_RUN_H
#define WK_ACTIONS_RUN_H

#include <errno.h>

#include "actions/context.h"
#include "actions/request.h"
#include "offsite/fetch.h"
#include "restore/restore.h"
#include "store/catalog.h"

/* Number of an error of class CHANGED: [dump] dir names another directory now than when it was
 * opened. The action has not begun, or what it stored lies where it will not be found. */
#define ACTION_OTHER_DIR ESTALE
/* The action that the request names, and those that have files of their own: list.c, conflicts.c; standby.c: who keeps
 * the world ([standby]); ledgers.c: rolls up the ledger that `dump` names, or all. */
action_fn action_run, action_list, action_conflicts, action_promote, action_demote,
    action_switch_over, action_rollup;

/* from.c: --from. The dumps in the store; they are read there. */
int action_from_catalog(struct action_context *a, const struct request *r, struct catalog *out,
                        struct err *e);
action_fn action_from_verify;
/* The one that is asked for comes here, with what the journal has after it. */
struct action_from {
    char name[DUMP_NAME_MAX];         /* "": it is the newest one here */
    struct restore_arriving arriving; /* m NULL: all of it is here */
    struct fetch fetch;
    struct catalog_entry dump;
    struct fetch_beside beside;
};
/* `until` ms 0: the newest; `beside`: it may come while it is restored. action_from_end() follows in any case. */
int action_from_begin(struct action_context *a, const struct request *r, wall_t until, bool beside,
                      struct action_from *from, struct err *e);
void action_from_end(struct action_from *from);
/* The world was restored from there: this machine stores it from now on (offsite/owner.h). Not before: a restore
 * that is refused leaves the other machine's copies alone. */
void action_adopt(struct action_context *a);

/* May this action run in a standby? ERR_REFUSED. */
int action_allowed(const struct action_context *a, const struct request *r, struct err *e);

/* progress.c. {"sent","stolen","stale","released","first"}; `unlock`: then all sessions are ended. */
action_fn action_write_back;
/* {"locks":[…]} of central_locks(). */
action_fn action_locks;
/* Of the key that `dump` names: {"lock_key","outcome"}. A session of it is written back and ended first;
 * `force`: also another server's lock. */
action_fn action_release;
int action_init_progress(struct action_context *a, struct err *e);

/* What --init makes beside ledgers. `made` gets the names of what was made, also after an error. */
int action_init_ledgers(struct action_context *a, json_t **made, struct err *e);

#endif
