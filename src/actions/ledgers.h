/* Ledgers: --rollup, and the objects that --init creates for them. */
#ifndef WK_ACTIONS_LEDGERS_H
#define WK_ACTIONS_LEDGERS_H

#include "actions/context.h"
#include "ledger/age.h"
#include "ledger/ledger.h"
#include "ledger/rollup.h"

/* Rolls up the ledger that `dump` names, or all. */
action_fn action_rollup;
/* Creates the objects beside ledgers for --init. `made` gets the names of the new ones, `skipped`
 * the ledgers whose table does not exist yet, also after an error. */
int action_init_ledgers(struct action_context *a, json_t **made, json_t **skipped, struct err *e);

/* Result for one ledger. Plain data: the supervisor's worker sends it unchanged. */
struct ledger_report {
    bool ok, ran; /* ran: it was rolled up, not only marked */
    bool made;    /* rollup and marks exist: `figures` are known if ok */
    /* not ok, but not an error: another session rolls it up, or the world is not up */
    bool postponed;
    struct ledger_result result;
    struct ledger_figures figures;
    int64_t took_ms;
    struct err error; /* the error if not ok */
};
/* `opt` NULL: only record which ids exist (ledger_mark()). `wait`: ms for another session's run. */
int action_ledger(struct action_context *a, const struct config_ledger *c, int64_t wait,
                  const struct ledger_options *opt, struct ledger_report *out);

#endif
