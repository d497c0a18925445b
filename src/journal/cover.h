/* Which moments of the past can be had (--restore --at): from a dump on, as far as the journal goes
 * without a gap. For people; a restore finds out for itself. */
#ifndef WK_JOURNAL_COVER_H
#define WK_JOURNAL_COVER_H

#include "journal/archive.h"
#include "store/catalog.h"

struct cover_span {
    wall_t from, to;
    bool open;     /* still growing */
    char why[160]; /* what ends it */
};
struct cover {
    struct cover_span *list; /* in the order of time; they do not overlap */
    size_t count;
};

/* What was noticed while the log was followed. */
struct cover_gap {
    wall_t at;
    struct db_point place;
    char why[160];
};

/* By segments. */
void cover_segments(const struct catalog *dumps, const struct archive *a, wall_t now,
                    struct cover *out);
/* By the server's log, as far back as it is kept: nobody is asked. */
void cover_log(const struct catalog *dumps, const struct cover_gap *gaps, size_t count,
               struct cover *out);
void cover_free(struct cover *c);

#endif
