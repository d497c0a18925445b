/* Players' progress: a worker sends what is unsent to the central store at intervals, after a restore and
 * at the start, ends sessions that close, and marks that this game server lives. Nothing else waits for
 * it. */
#ifndef WK_SUPERVISOR_WRITE_BACK_H
#define WK_SUPERVISOR_WRITE_BACK_H

#include <jansson.h>

#include "base/clock.h"

struct world;

struct write_backs *write_backs_new(struct world *w);
void write_backs_timers(struct world *w, mono_t now);
/* The next worker works with the config of now. */
void write_backs_restart(struct world *w);
void write_backs_stop(struct world *w);

json_t *write_backs_status_json(const struct world *w); /* null without [progress] */

#endif
