/* The directory of a world's segments (segment.h): what they cover, where a replay begins in them,
 * what may be deleted. Rebuilt from the files at any time; there is no index.
 *
 * A segment that follows the one before it makes a run with it: all changes from the beginning of a
 * run to its end are there. Between two runs some may be missing. */
#ifndef WK_JOURNAL_ARCHIVE_H
#define WK_JOURNAL_ARCHIVE_H

#include "config/config.h"
#include "db/server.h"
#include "journal/segment.h"

struct archive_segment {
    char file[SEGMENT_NAME_MAX];
    uint64_t number, size;
    struct segment_head head;
    struct segment_sum sum; /* up to the damage, where there is any */
    bool sealed;
    char damage[512]; /* "": none known; sealed segments are not read for it */
};
struct archive {
    struct archive_segment *list; /* by number */
    size_t count;
    uint64_t number; /* the highest in any name */
};

/* The directory, -1 where it is not there; with `create` it is made (mode 0700). */
int archive_dir(const struct config *c, bool create, struct err *e);
int archive_load(int dirfd, const char *world, struct archive *out, struct err *e);
void archive_free(struct archive *a);
/* Seals what a killed writer left open, and loads. The damage it may find is in the list. Only for
 * who may write. */
int archive_recover(int dirfd, const char *world, struct archive *out, struct err *e);

/* Does segment i + 1 go on where segment i ends? */
bool archive_goes_on(const struct archive *a, size_t i);
/* The segment with what comes behind this place in the log of that server (its uid; the place was
 * its log's end when the process of that start wrote it, 0: any), in the file that was begun at
 * `born` (binlog_born(); 0: not known); -1: there is none. */
int archive_find(const struct archive *a, const struct db_point *from, uint32_t born,
                 const struct server_id *server);
/* How many of the oldest may go: those before the first one that the oldest dump needs, those older
 * than the rule says, those over the size it says; but none that the newest dump needs. Pure. */
size_t archive_spare(const struct archive *a, int oldest_need, int newest_need, int64_t keep,
                     uint64_t max_size, wall_t now);
/* Deletes that many of the oldest. */
int archive_drop(int dirfd, const struct archive *a, size_t n, struct err *e);

#endif
