/* Reads a segment (segment.h). */
#ifndef WK_JOURNAL_SEGMENT_READ_H
#define WK_JOURNAL_SEGMENT_READ_H

#include "base/line.h"
#include "journal/segment.h"

struct segment_reader *segment_open(int dirfd, const char *file, struct err *e);
const struct segment_head *segment_head(const struct segment_reader *r);
/* Returns 1 with a change, whose table lives as long as the reader; 0 at the end, after a complete
 * transaction; or -1: the segment is damaged after what was returned so far. */
int segment_next(struct segment_reader *r, struct change *c, struct err *e);
/* Returns true if the last change ends its frame. A tuple stays in place until its own frame and
 * the following one have ended, and the next change is read. */
bool segment_frame_ends(const struct segment_reader *r);
const struct segment_sum *segment_sum(struct segment_reader *r); /* so far */
bool segment_finalized(const struct segment_reader *r);          /* its summary was read */
/* Returns the offset in the file at which complete transactions end. */
uint64_t segment_whole(const struct segment_reader *r);
void segment_reader_close(struct segment_reader *r);
/* Reads head and summary of a finalized segment, without the rest. Returns 1: both; 0: it is not
 * finalized; or -1. */
int segment_peek(int dirfd, const char *file, struct segment_head *h, struct segment_sum *sum,
                 struct err *e);
/* Finds where complete transactions end in a segment that may still be written, finalized or not.
 * Nothing before that changes, unless a power cut removes an end that was not synced. Frames before
 * `from`, an earlier result, are not read again; ERR_DAMAGED: the segment ends before it. */
int segment_settled(int dirfd, const char *file, uint64_t from, uint64_t *whole, struct err *e);
/* Returns 1 if it has no changes because its writer was killed right after creating it; else 0, or
 * -1. */
int segment_blank(int dirfd, const char *file, struct err *e);
/* Finalizes a segment that its writer left: everything after its last complete transaction is
 * truncated. Damage before that is described in `damage` ("" for none), and everything after the
 * damage is truncated too. */
int segment_recover(int dirfd, const char *file, char damage[LINE], struct err *e);

#endif
