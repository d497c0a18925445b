/* When scheduled work is due: pure functions of the config, the last time and now. Times are
 * wall-clock times, which may be set, and local times if the config names a time of day. */
#ifndef WK_SUPERVISOR_SCHEDULE_H
#define WK_SUPERVISOR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "config/config.h"
#include "store/state.h"

/* How late work with a time of day may begin; after that it waits for the next such time. */
#define SCHEDULE_LATE_MS (4 * INT64_C(3600000))

/* Corrects a last time that is in the future, because the clock was set back, or unknown. Returns
 * true if it was corrected. */
bool schedule_settle(struct state_work *past, wall_t now);
/* Returns when it is due, in the past if it is overdue. `past` is settled, `c->interval` not 0.
 * Without a time of day, work that never ran is due at once. With one it is due at that time of the
 * first day on which the interval is over, give or take half a day. On a day that has no such time,
 * or has it twice (DST), it is due once, at about that time. */
wall_t schedule_next(const struct config_work *c, const struct state_work *past, wall_t now);
/* Returns true if there is memory for a drill of a world that takes `in_memory` bytes in the
 * server, on the same machine: for its second copy, and for the rows that the comparison reads.
 * `available` -1: not known, which is not enough. */
bool schedule_has_room(uint64_t in_memory, int64_t available);
/* Returns true if nothing has been done for so long that it must be reported. */
bool schedule_overdue(const struct config_work *c, const struct state_work *past, wall_t now);

#endif
