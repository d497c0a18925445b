/* Frames of a segment: their checksums, their MACs, reading and writing one. */
#ifndef WK_JOURNAL_SEGMENT_FRAME_H
#define WK_JOURNAL_SEGMENT_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "journal/segment_int.h"

#define SEGMENT_FRAME 16u

/* segment_frame.c. The MAC of a frame is an HMAC-SHA256 (store/signature.h) of the segment's
 * number, the frame's offset, its length as it is written, the MAC of the frame before it (zeros
 * for the first) and the body before the MAC: no frame can be changed, omitted, moved, or
 * replaced by one from another segment or from a part that was cut off. The preceding MAC is
 * read from the file. */

struct segment_frame {
    uint32_t word; /* its length, as it is written */
    uint32_t len;  /* length of its body */
    bool within;   /* it ends within a transaction */
};
/* Returns the length written, or -1. */
int64_t segment_frame_write(const struct segment_file *f, uint64_t at, const char *body, size_t len,
                            bool within, struct err *e);
/* Returns 1 if the frame is complete, with its body in `body`; 0 if it is not; -1 if it could not
 * be read, or is complete but not ours. */
int segment_frame_read(const struct segment_file *f, uint64_t at, struct segment_frame *out,
                       struct buf *body, struct err *e);
/* Returns true if any frame of this segment begins after this offset. Data that did not reach the
 * disk is missing up to the end; after damage there is something intact. */
int segment_frame_follows(const struct segment_file *f, uint64_t at, struct err *e);
/* Verifies the MAC at the end of a body and removes it. Without a key it is not verified. */
int segment_mac_take(const struct segment_file *f, uint64_t at, uint32_t word, struct buf *body,
                     struct err *e);
/* CRC of a frame's first 12 bytes. */
uint32_t segment_frame_crc(uint64_t number, uint64_t at, const unsigned char head[SEGMENT_FRAME]);

#endif
