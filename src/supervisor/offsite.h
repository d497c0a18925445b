/* Copies on another machine ([offsite]): a worker sends dumps, another the journal's segments, so that
 * a long dump does not keep the newest changes waiting. Nothing else waits for them. */
#ifndef WK_SUPERVISOR_OFFSITE_H
#define WK_SUPERVISOR_OFFSITE_H

#include <jansson.h>

#include "base/clock.h"

struct world;

struct offsite *offsite_new(struct world *w);
void offsite_free(struct offsite *o);
void offsite_timers(struct world *w, mono_t now);
/* The next workers work with the config and the dump directory of now. */
void offsite_restart(struct world *w);
void offsite_stop(struct world *w);

json_t *offsite_status_json(const struct world *w); /* null without [offsite] */

#endif
