/* A gzip file being written, and one being read. Writing counts plain and packed bytes and hashes
 * the packed ones (SHA-256) in passing; reading checks the same and inflates any number of members.
 * Errors stick: after the first one every call fails with it. Not for several threads at once. */
#ifndef WK_CORE_GZIP_H
#define WK_CORE_GZIP_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define SHA256_HEX 65

struct gzip_writer;
/* Writes to `fd` (not owned) from its present place. level 1..9. `name` is for error texts. */
struct gzip_writer *gzip_open(int fd, const char *name, int level, struct err *e);
int gzip_write(struct gzip_writer *g, const void *data, size_t len, struct err *e);
/* Ends the present member; the next write starts a new one. Packed bytes so far are then exact. */
int gzip_member_end(struct gzip_writer *g, struct err *e);
uint64_t gzip_plain_bytes(const struct gzip_writer *g);
uint64_t gzip_packed_bytes(const struct gzip_writer *g);
/* Ends the member and tells the hash of the whole file. Frees `g` in every case. */
int gzip_close(struct gzip_writer *g, char sha256[SHA256_HEX], struct err *e);
void gzip_abort(struct gzip_writer *g);

struct gunzip;
/* Reads from `fd` (not owned). */
struct gunzip *gunzip_open(int fd, const char *name, struct err *e);
/* Like gunzip_open for a plain text file: no inflating, same counting. */
struct gunzip *gunzip_open_plain(int fd, const char *name, struct err *e);
/* Fills `data`; returns how many bytes (0: the end, all members were whole), or -1. Garbage behind
 * the last member, a cut member and a wrong checksum are ERR_DAMAGED. */
int64_t gunzip_read(struct gunzip *g, void *data, size_t len, struct err *e);
uint64_t gunzip_packed_bytes(const struct gunzip *g);
uint64_t gunzip_plain_bytes(const struct gunzip *g);
/* After the end was read. */
void gunzip_sha256(struct gunzip *g, char sha256[SHA256_HEX]);
void gunzip_close(struct gunzip *g);

#endif
