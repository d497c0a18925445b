/* When work that is done by the clock is due: pure functions of the config, the last time and now, in
 * the wall clock's time, which may be set, and in local time where the config names a time of day. */
#ifndef WK_SUPERVISOR_SCHEDULE_H
#define WK_SUPERVISOR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "config/config.h"
#include "store/state.h"

/* How late work may begin that has a time of day; after that it waits for the next such time. */
#define SCHEDULE_LATE_MS (4 * INT64_C(3600000))

/* Corrects a past that lies in the future, since the clock was set back, or that is not known: true if
 * it had to be. */
bool schedule_settle(struct state_work *past, wall_t now);
/* When it is due, in the past if it is overdue. `past` is settled, `c->interval` not 0. Without a time
 * of day it is due at once where it never ran. With one it is due at that time of the first day on
 * which the interval is over, give or take half a day; of a day that has no such time, or has it twice
 * (DST), once, at about that time. */
wall_t schedule_next(const struct config_work *c, const struct state_work *past, wall_t now);
/* Is there memory for a drill of a world that takes `in_memory` bytes in the server, on the same machine:
 * for its second copy, and for what the comparison reads? -1: `available` is not known. */
bool schedule_has_room(uint64_t in_memory, int64_t available);
/* Has nothing been done for so long that it is worth a word? */
bool schedule_overdue(const struct config_work *c, const struct state_work *past, wall_t now);

#endif
