/* The history (store/history.h): the records that actions add, and --history. */
#ifndef WK_ACTIONS_HISTORY_H
#define WK_ACTIONS_HISTORY_H

#include "actions/context.h"
#include "actions/request.h"
#include "store/history.h"

/* --history. */
action_fn action_history;

/* Fills the record of an action that ended. Returns its kind, HISTORY_KINDS if it is not recorded.
 * `e` NULL: it succeeded. */
enum history_kind history_of(const struct request *r, const json_t *result, const struct err *e);
/* Returns whether a drill or a verify proves what a scheduled one does. Only such a one may be the
 * last drill or verify of the status, the history and the pages. */
bool history_counts(const struct config *cfg, const struct request *r);
/* Marks the record of a drill or a verify that does not count ("counts": false). */
void history_discount(json_t *o);
json_t *history_fields(const struct request *r, const json_t *result, const struct err *e);
/* Adds to a record of a restore the file of the rows that players wrote into the emptied tables,
 * if there is one, and the command that compares them with the world. */
void history_conflict(const struct config *cfg, const json_t *result, json_t *o);
/* Records an action that ran without a supervisor. A failure is only logged. */
void history_by_hand(struct action_context *a, const struct request *r, const json_t *result,
                     const struct err *e);

#endif
