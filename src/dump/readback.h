/* Reads a dump back from the disk in a separate thread while it is still being written: the data is
 * synced and dropped from the page cache, then read, decompressed and parsed like any dump. So a
 * stored dump has passed every check that a restore makes. */
#ifndef WK_DUMP_READBACK_H
#define WK_DUMP_READBACK_H

#include "base/progress.h"
#include "store/manifest.h"

struct readback;
/* Starts the reading. `file` in dirfd is the one being written. Returns NULL on failure. */
struct readback *readback_start(int dirfd, const char *file, struct err *e);
/* Announces the next part of the file (dump/parts.h), which is verified before it is decompressed:
 * all parts, in order. Any thread may call it, before or after its bytes are in the file. */
void readback_part(struct readback *r, uint32_t length, const unsigned char sha256[SHA256_BYTES]);
/* Tells that the file now has `size` bytes. Any thread may call it. */
void readback_grown(struct readback *r, uint64_t size);
/* Call this when the file is complete and synced: reads the rest and compares everything with the
 * manifest. Always frees `r`. */
int readback_finish(struct readback *r, const struct manifest *m, struct progress *progress,
                    struct err *e);
void readback_abort(struct readback *r);

#endif
