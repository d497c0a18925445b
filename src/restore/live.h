/* The last step of a drill: has the world that was rebuilt in the scratch schema the rows of the living
 * one? A table that differs counts only if it stood still: nothing in the binary log has changed it
 * since the moment that was rebuilt. */
#ifndef WK_RESTORE_LIVE_H
#define WK_RESTORE_LIVE_H

#include "dump/job.h"
#include "journal/replay.h"
#include "restore/plan.h"

struct live_report {
    bool read; /* the living world was compared */
    /* Tables: with the same rows; with others, and not known to have stood still; that could not be
     * read. */
    uint64_t same, moved, unread;
};

/* Reads the MEMORY tables of the living world as a dump does, so that the game goes on meanwhile.
 * `moment`: the end of the changes that were applied; NULL: the log proves nothing. -1 with ERR_QUERY:
 * a table that stood still has other rows. */
int live_compare(const struct job *job, const struct plan *plan, const struct db_binlog_pos *moment,
                 struct live_report *out, struct err *e);

#endif
