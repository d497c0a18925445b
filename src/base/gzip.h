/* Writer and reader of gzip files. A file is a sequence of members, each of which can be read on
 * its own. Both count plain and packed bytes and hash the packed ones (SHA-256) on the way; a
 * reader decompresses any number of members. Errors stick: after the first one every call fails
 * with it.
 *
 * Threads: a writer compresses in threads of its own, a reader has none. Each of the two is for one
 * caller's thread. */
#ifndef WK_BASE_GZIP_H
#define WK_BASE_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"

#define SHA256_HEX 65
#define SHA256_BYTES 32u
#define GZIP_MEMBER (1u << 20) /* plain bytes of a member that gzip_write() makes */

struct gzip_writer;
/* Writes to `fd` (not owned) from its current offset. level 1..9. `name` is for error texts. The
 * threads are started at the first member and end with the writer; if none can be started, the
 * caller's thread compresses. */
struct gzip_writer *gzip_open(int fd, const char *name, int level, struct err *e);
/* Called for each member once its bytes were passed to the kernel, in file order, one call at a
 * time, from a packing thread, or from the caller's thread if there are none: take no lock that the
 * caller holds. `offset` counts from where the writer began; `packed` is the member as it is in the
 * file, `plain` the number of bytes of its text. */
struct gzip_member {
    uint64_t tag, offset, plain;
    const void *packed;
    size_t packed_len;
};
typedef void gzip_member_fn(void *arg, const struct gzip_member *member);
void gzip_on_member(struct gzip_writer *g, gzip_member_fn *fn, void *arg);
/* Writes one member of exactly this text (not empty); a member being filled by gzip_write() is
 * ended first. *text is taken over and comes back as an empty buffer with capacity, so that nothing
 * is copied. Waits while too many members are in flight. `tag` is passed to the member function. An
 * error may be that of an earlier member. */
int gzip_give(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e);
/* Buffers; a member (tag 0) is written every GZIP_MEMBER bytes, before one of gzip_give(), and
 * at the end. */
int gzip_write(struct gzip_writer *g, const void *data, size_t len, struct err *e);
/* Waits until all members that are complete so far have been written to the file. */
int gzip_flush(struct gzip_writer *g, struct err *e);
uint64_t gzip_plain_bytes(const struct gzip_writer *g); /* plain bytes given so far */
/* Returns the bytes written to the file so far; exact after gzip_flush(). */
uint64_t gzip_packed_bytes(struct gzip_writer *g);
/* Ends the member, waits until everything is written, and returns the SHA-256 of the whole file.
 * Always frees `g`. */
int gzip_close(struct gzip_writer *g, char sha256[SHA256_HEX], struct err *e);
/* Discards what is not yet in the file and frees `g`. Waits only for a write in progress. */
void gzip_abort(struct gzip_writer *g);

struct gunzip;
/* A callback by which each part of a file is verified before any byte of it is decompressed or
 * returned: the file is then read in whole parts. Called before bytes from `from` on are read
 * (counted from where the reader began). Sets the length of the part there (at most
 * GUNZIP_PART_MAX bytes; 0: the end) and its expected SHA-256; another hash is ERR_DAMAGED. Set it
 * right after opening. */
#define GUNZIP_PART_MAX (16u << 20)

#endif
