/* A gzip file being written, and one being read. A file is a sequence of members, each of which can
 * be read on its own. Writing counts plain and packed bytes and hashes the packed ones (SHA-256) in
 * passing; reading checks the same and inflates any number of members.
 * Errors stick: after the first one every call fails with it.
 *
 * Threads: a writer packs in threads of its own, a reader has none. Each of the two is for one
 * caller's thread. */
#ifndef WK_CORE_GZIP_H
#define WK_CORE_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/text.h"

#define SHA256_HEX 65
#define GZIP_MEMBER (1u << 20) /* plain bytes of a member that gzip_write() makes */

struct gzip_writer;
/* Writes to `fd` (not owned) from its present place. level 1..9. `name` is for error texts. The
 * threads are started at the first member and are gone with the writer; where none can be started,
 * the calls themselves pack. */
struct gzip_writer *gzip_open(int fd, const char *name, int level, struct err *e);
/* Called for each member once its bytes were given to the kernel, in the order of the file, one
 * call at a time, from a packing thread (from the giving one where there is none: take no lock that
 * the giver holds). `offset` counts from the place where the writer began; `packed` and `plain` are
 * the member's bytes. */
typedef void gzip_member_fn(void *arg, uint64_t tag, uint64_t offset, uint64_t packed,
                            uint64_t plain);
void gzip_on_member(struct gzip_writer *g, gzip_member_fn *fn, void *arg);
/* One member made of exactly this text (not empty); what was gathered before is ended first. *text
 * is taken over and comes back as an empty buffer with room, so that nothing is copied. Waits while
 * too many members are on their way. `tag` is handed to the member function. An error may be that
 * of an earlier member. */
int gzip_give(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e);
/* Gathers; a member goes out each GZIP_MEMBER bytes and at gzip_member_end (tag 0). */
int gzip_write(struct gzip_writer *g, const void *data, size_t len, struct err *e);
/* Ends the member that is being gathered, if there is one. */
int gzip_member_end(struct gzip_writer *g, struct err *e);
/* Waits until all members that were given or ended are in the file. */
int gzip_flush(struct gzip_writer *g, struct err *e);
uint64_t gzip_plain_bytes(const struct gzip_writer *g); /* given so far */
/* In the file so far: exact after gzip_flush(). */
uint64_t gzip_packed_bytes(struct gzip_writer *g);
/* Ends the member, waits for all, and tells the hash of the whole file. Frees `g` in every case. */
int gzip_close(struct gzip_writer *g, char sha256[SHA256_HEX], struct err *e);
/* Gives up: what is not in the file yet does not get there. Waits for a write in progress only. */
void gzip_abort(struct gzip_writer *g);

struct gunzip;
/* Reads from `fd` (not owned), from its present place to the end. */
struct gunzip *gunzip_open(int fd, const char *name, struct err *e);
/* Like gunzip_open for a plain text file: no inflating, same counting. */
struct gunzip *gunzip_open_plain(int fd, const char *name, struct err *e);
/* The members in [offset, offset+length), by pread: the place of `fd` is not touched, several may
 * read one. A member that reaches over the end is ERR_DAMAGED, so is a file that ends before it.
 * Not hashed. */
struct gunzip *gunzip_open_part(int fd, const char *name, uint64_t offset, uint64_t length,
                                struct err *e);
/* For a file that is still being written. Called before bytes from `from` on are read (counted from
 * the place where the reader began); returns up to which place (exclusive) the file may be read
 * now, waiting if need be; a return of `from` is the end of the file. Bytes that were promised and
 * are not there are ERR_DAMAGED. Set right after gunzip_open(). */
typedef uint64_t gunzip_wait_fn(void *arg, uint64_t from);
void gunzip_on_wait(struct gunzip *g, gunzip_wait_fn *fn, void *arg);
/* Fills `data`; returns how many bytes (0: the end, all members were whole), or -1. Garbage behind
 * the last member, a cut member and a wrong checksum are ERR_DAMAGED. */
int64_t gunzip_read(struct gunzip *g, void *data, size_t len, struct err *e);
uint64_t gunzip_packed_bytes(const struct gunzip *g);
uint64_t gunzip_plain_bytes(const struct gunzip *g);
/* After the end was read; "" of a part. */
void gunzip_sha256(struct gunzip *g, char sha256[SHA256_HEX]);
void gunzip_close(struct gunzip *g);

#endif
