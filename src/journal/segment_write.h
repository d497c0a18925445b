/* Writes a segment (segment.h). */
#ifndef WK_JOURNAL_SEGMENT_WRITE_H
#define WK_JOURNAL_SEGMENT_WRITE_H

#include "journal/segment.h"
#include "journal/segment_int.h"

/* Creates the file. The file and its name are on the disk when this returns. */
struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e);
/* Writes a change; one that does not belong in a segment is skipped. If a transaction is cut off or
 * contains a gap, none of its changes is kept, and of several gaps in it only the first. Of
 * consecutive empty transactions only the last one is written, so that the position after them is
 * known. After an error only segment_close() may be called. */
int segment_put(struct segment_writer *w, const struct change *c, struct err *e);
/* Call this between transactions: no change follows up to `until`, by the server's clock, which
 * becomes the time of the end. Written but not synced: if a power cut removes it, the changes are
 * still there. */
int segment_quiet(struct segment_writer *w, wall_t until, struct err *e);
/* Syncs what was written so far, up to the last complete transaction. */
int segment_sync(struct segment_writer *w, struct err *e);
/* Returns true if segment_sync() would write anything to the disk. Urgent: more than the position
 * and time of the end. */
bool segment_dirty(const struct segment_writer *w);
bool segment_urgent(const struct segment_writer *w);
uint64_t segment_bytes(const struct segment_writer *w);
/* Call this between transactions: returns a summary of what was written. The position is that of
 * the last segment_sync(). */
const struct segment_sum *segment_written(struct segment_writer *w);
/* Finalizes the file. Always closes it. */
int segment_finalize(struct segment_writer *w, struct err *e);
void segment_close(struct segment_writer *w);

/* segment_write.c: truncates the file at `at` and finalizes it there. */
int segment_append_summary(const struct segment_file *f, uint64_t at, const struct segment_sum *sum,
                           struct err *e);

#endif
