/* Ledgers are marked and rolled up while the world is up, in a worker beside the jobs: a dump is of one
 * moment whatever runs meanwhile, and a restore must find no run. */
#ifndef WK_SUPERVISOR_ROLLUPS_H
#define WK_SUPERVISOR_ROLLUPS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/clock.h"

struct world;

struct rollups *rollups_new(struct world *w);
void rollups_free(struct rollups *r);
/* `swapping`: a job is about to replace tables, so that no run may begin or go on. */
void rollups_timers(struct world *w, mono_t now, bool swapping);
void rollups_stop(struct world *w);
/* After a reload of the config: ledgers that stay keep what is known of them. */
void rollups_config_changed(struct world *w);

/* `ledgers` of the status. What is not known is null there. */
json_t *rollups_status_json(const struct world *w);

#endif
