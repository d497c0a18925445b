/* The follower's segment store: creates, syncs, finalizes and deletes a world's segments, one after
 * the other. For one thread of the one process that writes the directory. */
#ifndef WK_JOURNAL_SEGMENT_STORE_H
#define WK_JOURNAL_SEGMENT_STORE_H

#include "journal/archive.h"

struct segment_store;

/* Finalizes what a killed writer left. `server` is the one whose log is read. Damage that was found
 * is described in `damage` ("" for none): what the segments hold ends there. */
struct segment_store *segment_store_open(const struct config *c, int dump_dirfd,
                                         const struct server_id *server, const char *schema,
                                         char damage[512], struct err *e);
/* Where the segments end, in the log of this server; NULL: there is no such position. */
const struct segment_place *segment_store_end(const struct segment_store *k);
/* Do they hold everything from this position to their end? Also true for a position after their
 * end. *gap: the last gap on the way; `place.file` "": there is none. */
bool segment_store_reaches(const struct segment_store *k, const struct db_binlog_pos *from,
                           struct segment_mark *gap);
/* Reading begins here; `why` says why it is not at segment_store_end(), NULL: it is. */
void segment_store_begin(struct segment_store *k, const struct segment_place *from,
                         const char *why);
int segment_store_put(struct segment_store *k, const struct change *c, struct err *e);
/* segment_quiet(), in a segment that it begins where there is none. */
int segment_store_quiet(struct segment_store *k, wall_t until, struct err *e);
/* When it is due, syncs what was put, as far as groups are complete; without changes, the place alone at which they
 * end, only where it is `wanted`. 1: it is on the disk; 0: not due yet, or nothing to sync; -1. */
int segment_store_sync(struct segment_store *k, bool wanted, struct err *e);
/* Are all changes on the disk that were put? */
bool segment_store_synced(const struct segment_store *k);
/* A dump was stored: starts a new segment, within a group with the next one, and deletes those no longer needed. */
int segment_store_dumped(struct segment_store *k, struct err *e);
/* Deletes the segments in a directory that no dump needs any more, and those beyond [journal]'s limits. */
int segment_store_trim(const struct config *cfg, int dirfd, int dump_dirfd, struct err *e);
/* Finalizes the segment. NULL is allowed. After an error of the above, what is on the disk stays as
 * it is. */
int segment_store_close(struct segment_store *k, struct err *e);

#endif
