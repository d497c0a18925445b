/* Which moments of the past --restore --at can restore: from a dump on, as far as the journal goes
 * without a gap. For display; a restore finds out for itself. */
#ifndef WK_JOURNAL_RECOVERY_RANGE_H
#define WK_JOURNAL_RECOVERY_RANGE_H

#include "journal/archive.h"
#include "store/catalog.h"

struct recovery_range_span {
    wall_t from, to;
    bool open;     /* still growing */
    char why[160]; /* what ends it */
};
struct recovery_range {
    struct recovery_range_span *list; /* in order of time, without overlaps */
    size_t count;
};

/* From segments. */
void recovery_range_segments(const struct catalog *dumps, const struct archive *a, wall_t now,
                             struct recovery_range *out);
/* What the server says now; unknown where it was not asked. */
struct recovery_range_server {
    char oldest[256];             /* file of its log; "": unknown */
    const struct manifest *world; /* its MEMORY tables and generation as in a dump; NULL: unknown */
};
/* From the server's log, as far back as that is kept. `gaps`: those that were noticed while it was followed. */
void recovery_range_log(const struct catalog *dumps, const struct segment_mark *gaps, size_t count,
                        const struct recovery_range_server *server, struct recovery_range *out);
void recovery_range_free(struct recovery_range *c);

#endif
