/* Reads a dump back from the disk while it is still being written, in a thread of its own: what was
 * written is forced out and dropped from the page cache, then read, unpacked and parsed like any
 * dump. */
#ifndef WK_DUMP_READBACK_H
#define WK_DUMP_READBACK_H

#include "core/progress.h"
#include "store/manifest.h"

struct readback;
/* `file` inside dirfd is the one being written. NULL on failure. */
struct readback *readback_start(int dirfd, const char *file, struct err *e);
/* The file holds so many bytes now. From any thread. */
void readback_grown(struct readback *r, uint64_t size);
/* The file is whole and was synced: reads what is left and compares all of it with the manifest.
 * Frees `r` in every case. */
int readback_finish(struct readback *r, const struct manifest *m, struct progress *progress,
                    struct err *e);
void readback_abort(struct readback *r);

#endif
