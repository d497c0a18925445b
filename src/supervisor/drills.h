/* Drills and verifies by the schedule (schedule.h). */
#ifndef WK_SUPERVISOR_DRILLS_H
#define WK_SUPERVISOR_DRILLS_H

#include <jansson.h>
#include <stdbool.h>

#include "actions/request.h"
#include "base/clock.h"

struct part;
struct world;

extern const struct part drills_part;

/* Is a drill to be started now, as the job? Then drills_begun() follows where that was possible. */
bool drills_due(struct world *w, mono_t now);
void drills_begun(struct world *w);
/* A drill has ended that the supervisor carried out, by itself or by hand. `e`: NULL where it passed. */
void drills_ended(struct world *w, const struct request *r, const json_t *result,
                  const struct err *e);

/* Adds last_drill, next_drill, last_verify and next_verify to the status. */
void drills_status(const struct world *w, json_t *status);

#endif
