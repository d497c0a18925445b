/* Decides which dumps may be deleted. Pure. Never the newest intact one, one newer than it, or one
 * of the last `keep_last` intact ones. Ages are the wall times in the manifests relative to the
 * wall clock; a dump "from the future" (clock jump) is kept and does not count towards any limit.
 *
 * A wall clock that jumps forward is not believed for a day: it may be wrong, and the machine may
 * have been off. For that day a dump is deleted only if the rules allow it both at `wall` and at
 * retention_now().
 *
 * Hours, days and weeks (from Monday) are UTC buckets of a dump's wall time. The newest dump of a
 * bucket represents it, and the `keep_hourly`, `keep_daily` and `keep_weekly` newest buckets with
 * an intact dump are kept: a world that made no dumps for a month still has its seven days.
 *
 * An abandoned dump may be of a later generation than the world's own, but no restore chooses it.
 * So it is kept as long as if it were the world's, and takes no other dump's place. */
#ifndef WK_STORE_RETENTION_H
#define WK_STORE_RETENTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "config/config.h"

struct retention_item {
    uint64_t generation, sequence; /* order of the dumps; times are not used for it */
    wall_t at;
    bool intact;    /* has a manifest and was not found damaged */
    bool abandoned; /* by the world's record (lives.h) */
    bool pinned;    /* kept whatever the rules say (pin.h), if it is intact */
    bool keep;      /* the result */
};

/* Returns the time that counts as now for pins, for the journal and for dumps from before a jump:
 * `wall`, or less if the dumps prove less. Two dumps of following sequence numbers are about
 * `interval` (ms) apart, and the newest one is about as old; what is missing between them may be a
 * jump of the clock. A jump counts as time that has passed once the clock has run for a day since.
 * Dumps with a time of 0 or less are ignored.
 *
 * An item of generation and sequence 0 is not a dump, but another file that expires. Such files
 * show a jump that the dumps do not show, because no dump from before the jump is left. */
wall_t retention_now(struct retention_item *items, size_t n, int64_t interval, wall_t wall);

/* Sets `keep` of each of the `items`, which may be in any order. Items that are not intact are kept
 * unless an intact one of the world with a higher (generation, sequence) exists. Two intact ones
 * with the same (generation, sequence) count as one: both are kept or neither is. `now` is
 * retention_now(), at most `wall`. */
void retention_choose(struct retention_item *items, size_t n, const struct config_retention *rule,
                      wall_t now, wall_t wall);

#endif
