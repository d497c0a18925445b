/* The directory of a world's segments (segment.h): what they cover, where a replay begins in them,
 * which may be deleted. Built from the files each time; there is no index.
 *
 * Segments that continue one another form a run, which contains all changes from its beginning to
 * its end. Between two runs changes may be missing. */
#ifndef WK_JOURNAL_ARCHIVE_H
#define WK_JOURNAL_ARCHIVE_H

#include "base/line.h"
#include "config/config.h"
#include "journal/segment.h"
#include "journal/segment_read.h"
#include "mysql/server.h"

struct archive_segment {
    char file[SEGMENT_NAME_MAX];
    uint64_t number, size;
    struct segment_head head;
    struct segment_sum sum; /* up to the damage, if any */
    bool finalized;
    char damage[LINE]; /* "": none known; finalized segments are not read to find it */
};
struct archive {
    struct archive_segment *list; /* by number */
    size_t count;
    uint64_t number; /* highest number in any file name */
};

/* Opens the directory. Returns -1 if it does not exist. `create` creates it (mode 0700). */
int archive_dir(const struct config *c, bool create, struct err *e);
/* Loads the list. Empty segments at its end are left out: the writer creates the next segment while
 * others read, and until its head is written the journal ends before it. */
int archive_load(int dirfd, const char *world, struct archive *out, struct err *e);
void archive_free(struct archive *a);
/* Finalizes the segment that a killed writer left open, and loads the list, with any damage found.
 * Only the process that may write calls it. */
int archive_recover(int dirfd, const char *world, struct archive *out, struct err *e);

/* Returns true if segment i + 1 continues where segment i ends. */
bool archive_continues(const struct archive *a, size_t i);
/* Finds the segment with the changes after the binlog position `from` of that server. `server`
 * gives its uid; if its start is not 0, `from` was the end of the log of the process started then.
 * `created_at` is when that file was created, 0: unknown. It is required where the numbers of GTIDs
 * have no order, because several servers write into one domain of MariaDB. Returns -1 if there is
 * no such segment, or if it may be of another log with the same file names. The creation times of
 * files other than a segment's first and last one are only in its contents; replay.h compares
 * them. */
int archive_find(const struct archive *a, const struct db_binlog_pos *from, uint32_t created_at,
                 const struct server_id *server);
/* Finds the last known gap after `from`, in segment `i` or a later one; *out is unchanged if there
 * is none. Pure. */
void archive_gap(const struct archive *a, size_t i, const struct db_binlog_pos *from,
                 struct segment_mark *out);
/* Returns how many of the oldest segments may be deleted: those before the first one that the
 * oldest dump needs, those older than `keep`, and those in excess of `max_size`, but none that the
 * newest dump needs. Pure. */
size_t archive_spare(const struct archive *a, int oldest_need, int newest_need, int64_t keep,
                     uint64_t max_size, wall_t now);
/* Deletes the `n` oldest segments. */
int archive_drop(int dirfd, const struct archive *a, size_t n, struct err *e);

#endif
