/* The parts of segments in the store that were not read back. A local file has the name of each
 * part, one in each line, from before it is sent until it was read back. So a part whose check
 * failed, or was interrupted by a kill, is not taken for good only because it exists in the store.
 * The uploader writes the file (upload_segments.c); a switch-over reads it. Not thread-safe. */
#ifndef WK_OFFSITE_DOUBTS_H
#define WK_OFFSITE_DOUBTS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/text.h"
#include "journal/segment.h"
#include "offsite/copies.h"

#define DOUBTS_MAX 65536 /* bytes of names; if there are more, nothing is sent */

struct doubts {
    struct buf names;
    /* Modification time of the journal's directory: it changes when the uploader writes or deletes
     * the file. */
    struct timespec changed;
};

/* Writes the name of the file in the journal's directory. */
void doubts_name(const char *world, char out[SEGMENT_NAME_MAX]);
/* Reads the file; `dirfd` is the journal's directory. Free it with doubts_free(). Returns 0, or -1.
 * Without a file there are no names. */
int doubts_read(int dirfd, const char *world, struct doubts *out, struct err *e);
void doubts_free(struct doubts *d);
/* Returns the line of a part, or NULL if its name is not there. */
char *doubts_find(const struct buf *names, const char *name);
/* Removes the doubted parts from the list. */
void doubts_drop(const struct doubts *d, struct copies *c);
/* Returns whether everything up to byte `at` of this segment was read back, if the list has it.
 * `before` and `after` were read before and after the store was listed; their parts are not in the
 * list. A part whose upload failed may be listed and be deleted after that, to be sent again. Parts
 * are sent in order, so if a later one is doubted, those before it were read back. If none is, no
 * upload may have begun and ended in between. Pure. */
bool doubts_allow(const struct doubts *before, const struct doubts *after, const char *world,
                  uint64_t number, uint64_t at);

#endif
