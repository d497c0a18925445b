/* Reader of gzip files (gzip.h): decompresses any number of members, counts plain and packed
 * bytes, and hashes the packed ones. Errors stick: after the first one every call fails with it.
 * For one thread. */
#ifndef WK_BASE_GUNZIP_H
#define WK_BASE_GUNZIP_H

#include "base/gzip.h"

/* Reads from `fd` (not owned), from its current offset to the end. */
struct gunzip *gunzip_open(int fd, const char *name, struct err *e);
/* Like gunzip_open() for a plain text file: no decompression, same counting. */
struct gunzip *gunzip_open_plain(int fd, const char *name, struct err *e);
/* Reads the members in [offset, offset+length) with pread(2): the offset of `fd` stays as it is,
 * and several readers may share it. A member that extends past the end is ERR_DAMAGED, and so is a
 * file that ends earlier. Not hashed. */
struct gunzip *gunzip_open_part(int fd, const char *name, uint64_t offset, uint64_t length,
                                struct err *e);
/* A callback for a file that is still being written. Called before bytes from `from` on are read
 * (counted from where the reader began). Sets *to to the offset (exclusive) up to which the file
 * may be read now, and waits if necessary; `from` itself means the end of the file. Promised bytes
 * that are missing are ERR_DAMAGED; -1 ends the reading with its error. Set it right after
 * opening. */
typedef int gunzip_wait_fn(void *arg, uint64_t from, uint64_t *to, struct err *e);
void gunzip_on_wait(struct gunzip *g, gunzip_wait_fn *fn, void *arg);
struct gunzip_part {
    uint32_t length;
    unsigned char sha256[SHA256_BYTES];
};
typedef void gunzip_prove_fn(void *arg, uint64_t from, struct gunzip_part *part);
void gunzip_prove(struct gunzip *g, gunzip_prove_fn *fn, void *arg);
/* Fills `data`; returns the number of bytes (0: the end, all members were intact), or -1. Garbage
 * after the last member, a truncated member and a wrong checksum are ERR_DAMAGED. */
int64_t gunzip_read(struct gunzip *g, void *data, size_t len, struct err *e);
uint64_t gunzip_packed_bytes(const struct gunzip *g);
uint64_t gunzip_plain_bytes(const struct gunzip *g);
/* Valid after the end was read; "" for gunzip_open_part(). */
void gunzip_sha256(struct gunzip *g, char sha256[SHA256_HEX]);
void gunzip_close(struct gunzip *g);

#endif
