/* The follower's segment store: creates, syncs, finalizes and deletes a world's segments, one after
 * the other. For one thread of the one process that writes the directory. */
#ifndef WK_JOURNAL_SEGMENT_STORE_H
#define WK_JOURNAL_SEGMENT_STORE_H

#include "base/line.h"
#include "journal/archive.h"

struct segment_store;

/* Opens the store and finalizes what a killed writer left. `server` is the one whose log is read.
 * Damage found is described in `damage` ("" for none): the contents of the segments end there. */
struct segment_store *segment_store_open(const struct config *c, int dump_dirfd,
                                         const struct server_id *server, const char *schema,
                                         char damage[LINE], struct err *e);
/* Returns where the segments end, in the log of this server; NULL: there is no such position. */
const struct segment_place *segment_store_end(const struct segment_store *k);
/* Returns true if they contain everything from this position to their end; also for a position
 * after their end. `created_at` is when its file was created, 0: unknown. *gap: the last gap in
 * between; `place.file` "": there is none. */
bool segment_store_reaches(const struct segment_store *k, const struct db_binlog_pos *from,
                           uint32_t created_at, struct segment_mark *gap);
/* Begins reading here; `why` is the reason if this is not segment_store_end(), else NULL. */
void segment_store_begin(struct segment_store *k, const struct segment_place *from,
                         const char *why);
int segment_store_put(struct segment_store *k, const struct change *c, struct err *e);
/* Like segment_quiet(); begins a segment if there is none. */
int segment_store_quiet(struct segment_store *k, wall_t until, struct err *e);
/* Syncs, if it is due, what was written, up to the last complete transaction. Without changes, only
 * the position of the end, if that is `wanted`. Returns 1: it is on the disk; 0: not due yet, or
 * nothing to sync; or -1. */
int segment_store_sync(struct segment_store *k, bool wanted, struct err *e);
/* Returns true if all changes that were written are on the disk. */
bool segment_store_synced(const struct segment_store *k);
/* Call this when a dump was stored: starts a new segment (within a transaction, with the next one)
 * and deletes segments that are no longer needed. */
int segment_store_dumped(struct segment_store *k, struct err *e);
/* Deletes the segments in a directory that no dump needs any longer, and those beyond the limits of
 * [journal]. */
int segment_store_trim(const struct config *cfg, int dirfd, int dump_dirfd, struct err *e);
/* Finalizes the segment. NULL is allowed. After an error of the functions above, the file stays
 * unchanged. */
int segment_store_close(struct segment_store *k, struct err *e);

#endif
