/* Consequences of a restore's end: for the state, the status (last_restore), the guard and the next
 * dump. */
#ifndef WK_SUPERVISOR_RESTORE_END_H
#define WK_SUPERVISOR_RESTORE_END_H

#include <jansson.h>
#include <stdbool.h>

#include "actions/request.h"
#include "base/clock.h"
#include "base/err.h"

struct state;
struct world;

/* Fills w->last_restore from the state, at the start of the supervisor. */
void restore_recall(struct world *w);
/* Returns the seconds for which the world has not been up, as a new reference; null: it is up. */
json_t *restore_outage_json(const struct world *w);
/* Takes over the changes that a job may have made to the saved state, so that ours does not
 * overwrite them. Everything else belongs to the supervisor, and may have changed while the job
 * worked. `began`: when the job did. */
void restore_adopt_state(struct world *w, enum action job, mono_t began, const struct state *saved);
/* `announced`: the guard knows of this restore. `result`: of the action, or NULL; `e`: its
 * error, or NULL. */
void restore_ended(struct world *w, const struct request *r, bool announced, const json_t *result,
                   const struct err *e);

#endif
