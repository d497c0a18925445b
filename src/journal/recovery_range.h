/* The times that --restore --at can restore: from a dump on, as far as the journal continues
 * without a gap. They are for display only; a restore checks the journal itself. */
#ifndef WK_JOURNAL_RECOVERY_RANGE_H
#define WK_JOURNAL_RECOVERY_RANGE_H

#include "journal/archive.h"
#include "store/catalog.h"

struct recovery_range_span {
    wall_t from, to;
    bool open;     /* it still grows */
    char why[160]; /* the reason for its end */
};
struct recovery_range {
    struct recovery_range_span *list; /* in order of time, without overlaps */
    size_t count;
};

/* Computes the ranges from segments. */
void recovery_range_segments(const struct catalog *dumps, const struct archive *a, wall_t now,
                             struct recovery_range *out);
/* The server's current facts; unknown if it was not queried. */
struct recovery_range_file {
    char name[256];
    uint64_t size;
};
struct recovery_range_server {
    struct server_id id;
    struct recovery_range_file *files; /* its binary logs; none: unknown */
    size_t file_count;
    /* its current MEMORY tables and generation, in the form of a dump; NULL: unknown */
    const struct manifest *world;
};
/* Adds ranges from the server's log, as far back as it exists. If it is unknown, there are none.
 * `gaps`: those noticed while it was followed. */
void recovery_range_log(const struct catalog *dumps, const struct segment_mark *gaps, size_t count,
                        const struct recovery_range_server *server, struct recovery_range *out);
void recovery_range_free(struct recovery_range *c);

#endif
