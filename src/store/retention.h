/* Which dumps may go. Pure. Never the newest intact one, never one newer than it, never one of the
 * last `keep_last` intact ones; ages count from the wall times in the manifests relative to `now`,
 * and a dump "from the future" (clock jump) is kept, and takes no place from others.
 *
 * An hour, a day, a week (from Monday) is a UTC bucket of a dump's wall time; the newest dump of a
 * bucket represents it, and the `keep_hourly`, `keep_daily`, `keep_weekly` newest buckets that hold
 * an intact dump are kept: a world that made no dumps for a month still has its seven days. */
#ifndef WK_STORE_RETENTION_H
#define WK_STORE_RETENTION_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "core/clock.h"

struct retention_item {
    uint64_t generation, sequence; /* the order; never the time */
    wall_t at;
    bool intact; /* has a manifest and was not found damaged */
    bool keep;   /* out */
};

/* `items` in any order; sets `keep` of each. Items that are not intact are kept unless an intact
 * one with a higher (generation, sequence) exists. Two intact ones with the same (generation,
 * sequence) count as one and share their fate. */
void retention_choose(struct retention_item *items, size_t n, const struct config_retention *rule,
                      wall_t now);

#endif
