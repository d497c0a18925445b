/* The actions of the command line, independent of terminals and sockets: given a request, they
 * work, report progress, and return a JSON result. Run directly by main.c, or in a worker of the
 * supervisor that got the same request through its control socket: one code path for both. */
#ifndef WK_ACTIONS_RUN_H
#define WK_ACTIONS_RUN_H

#include <errno.h>

#include "actions/context.h"
#include "actions/request.h"
#include "base/worker.h"
#include "ledger/ledger.h"
#include "offsite/fetch.h"
#include "restore/restore.h"
#include "standby/lease.h"
#include "standby/record.h"
#include "store/catalog.h"
#include "store/history.h"

/* Number of an error of class CHANGED: [dump] dir names another directory now than when it was
 * opened. The action has not begun, or what it stored lies where it will not be found. */
#define ACTION_OTHER_DIR ESTALE
/* The action that the request names, and those that have files of their own: list.c, conflicts.c; standby.c: who keeps
 * the world ([standby]); ledgers.c: rolls up the ledger that `dump` names, or all. */
action_fn action_run, action_list, action_conflicts, action_promote, action_demote,
    action_switch_over, action_rollup, action_history;

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

/* What --init makes beside ledgers. `made` gets the names of what was made, `skipped` the ledgers whose table does not
 * exist yet, also after an error. */
int action_init_ledgers(struct action_context *a, json_t **made, json_t **skipped, struct err *e);

/* ---- history.c ---- */

/* The record of an action that ended: its kind, HISTORY_KINDS if none is kept of it, and what is
 * known. `e` NULL: it went well. */
enum history_kind history_of(const struct request *r, const json_t *result, const struct err *e);
json_t *history_fields(const struct request *r, const json_t *result, const struct err *e);
/* Adds to a record of a restore the file of the rows that players wrote into the emptied tables, if there is one, and
 * the command that compares them with the world. */
void history_conflict(const struct config *cfg, const json_t *result, json_t *o);
/* Of an action that ran without a supervisor. A failure is only noted. */
void history_by_hand(struct action_context *a, const struct request *r, const json_t *result,
                     const struct err *e);

/* ---- ledgers.c ---- */

/* Plain data: the supervisor's worker sends it as it is. */
struct ledger_report {
    bool ok, ran;   /* ran: it was to be rolled up, not only marked */
    bool made;      /* rollup and marks exist: `figures` are known if ok */
    bool postponed; /* not ok, and no fault: another session rolls it up, or the world is not up */
    struct ledger_result result;
    struct ledger_figures figures;
    int64_t took_ms;
    struct err error; /* not ok */
};
/* `opt` NULL: only marked. `wait`: ms for another session's run. */
int action_ledger(struct action_context *a, const struct config_ledger *c, int64_t wait,
                  const struct ledger_options *opt, struct ledger_report *out);

/* ---- whose.c ---- */

/* By the record, as it is now. RECORD_UNKNOWN: `e` says why. */
enum record_says action_whose(struct action_context *a, struct lives *newest, struct err *e);
/* For an action of a primary with lease = none that no supervisor's fence covers: ERR_REFUSED where another machine has
 * the world. A record that cannot be read is only noted: nothing there would be a lock. */
int action_need_record(struct action_context *a, struct err *e);

struct lease_keep;
/* A promotion, between what it read first and the life that it begins. */
struct succession {
    struct action_context *a;
    const struct transfer *t; /* NULL: the store does not answer, and the record is written later */
    struct lives before;
    bool handed_over;
    const struct lease_keep *lease;
    char replaced[LIVES_HOLDER_MAX]; /* without the store: the machine that the record names */
};
/* Of `s`, `a`, `t` and `lease` are set. `newest`: the dump that is going to be restored. */
int succession_read(struct succession *s, const struct manifest *newest, struct err *e);
/* Swaps the record, unless it has changed since; before anything of the world is replaced. `arg`: struct succession. */
int succession_begin(void *arg, const struct state_made *made, uint64_t generation, struct err *e);

/* ---- lease_keep.c ---- */

struct lease_keep {
    struct action_context *a;
    struct lease_grant grant; /* the newest */
    struct lease_record had;  /* as it was before it was taken; holder "": that was not read */
    struct worker renewer;    /* while the action works */
};
/* Waits for one that is held and not renewed any more. ERR_REFUSED: another machine renews it. The fence is
 * open as long as the lease is ours. */
int lease_keep_take(struct lease_keep *k, struct action_context *a, struct err *e);
/* For a primary that nobody supervises, since nothing renews its lease: the same, but never one that another
 * machine has, or had last. Where a supervisor renews it: is it held now? `what` needs it. */
int lease_keep_own(struct lease_keep *k, struct action_context *a, const char *what, struct err *e);
/* For what only reads the world: -1 where another machine is known to have the lease, or to have had it last. */
int lease_keep_ask(struct action_context *a, struct err *e);
/* For games, in the world that was promoted; before anybody says that it is up. A failure is only noted. */
void lease_keep_publish(struct lease_keep *k);
/* Ends the renewals; whoever supervises goes on with them. */
void lease_keep_end(struct lease_keep *k);
/* Gives back what is ours, if it is; a failure is only noted, since the lease ends by itself. `kept`: this machine
 * was the primary, and games may have read so. */
void lease_keep_release(struct action_context *a, bool kept);

#endif
