/* The machine that may take the world over ([standby], role in state.json): its supervisor only watches.
 * A worker brings what the store has; nothing is restored, dumped or uploaded until a promotion. */
#ifndef WK_SUPERVISOR_STANDBY_H
#define WK_SUPERVISOR_STANDBY_H

#include <jansson.h>
#include <stdbool.h>

#include "base/clock.h"

struct world;

struct standby *standby_new(struct world *w);
/* Also keeps the guard's state in step with the role. */
void standby_timers(struct world *w, mono_t now);
/* The next worker works with the config and the dump directory of now. */
void standby_restart(struct world *w);
void standby_stop(struct world *w);

json_t *standby_status_json(const struct world *w); /* null without [standby] */

#endif
