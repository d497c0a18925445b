/* The history (store/history.h): what actions leave in it, and --history. */
#ifndef WK_ACTIONS_HISTORY_H
#define WK_ACTIONS_HISTORY_H

#include "actions/context.h"
#include "actions/request.h"
#include "store/history.h"

/* The record of an action that ended: its kind, HISTORY_KINDS if none is kept of it, and what is
 * known. `e` NULL: it went well. */
enum history_kind history_of(const struct request *r);
json_t *history_fields(const struct request *r, const json_t *result, const struct err *e);
/* Of an action that ran without a supervisor. A failure is only noted. */
void history_by_hand(struct action_context *a, const struct request *r, const json_t *result,
                     const struct err *e);

int action_history(struct action_context *a, const struct request *r, json_t **result,
                   struct err *e);

#endif
