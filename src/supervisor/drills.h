/* Scheduled drills and verifies (schedule.h). */
#ifndef WK_SUPERVISOR_DRILLS_H
#define WK_SUPERVISOR_DRILLS_H

#include <jansson.h>
#include <stdbool.h>

#include "actions/request.h"
#include "base/clock.h"

struct part;
struct world;

extern const struct part drills_part;

/* Returns true if a drill must be started now, as the job. drills_begun() follows if that was
 * possible. */
bool drills_due(struct world *w, mono_t now);
void drills_begun(struct world *w);
/* Returns whether a drill that ended so counts as the last one; to be asked before
 * drills_ended(). */
bool drills_count(const struct world *w, const struct request *r, const struct err *e);
/* Handles the end of a drill of the supervisor, scheduled or requested. `e`: NULL if it passed. */
void drills_ended(struct world *w, const struct request *r, const json_t *result,
                  const struct err *e);

/* Adds last_drill, next_drill, last_verify and next_verify to the status. */
void drills_status(const struct world *w, json_t *status);

#endif
