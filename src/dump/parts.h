/* How the file of a dump is divided, so that each piece of it can be verified before it is used.
 *
 *   region   the members of one table, or what lies between two tables: region 2i lies before
 *            table i of the manifest (it may be empty), region 2i+1 is table i
 *   part     each region is cut into parts of the manifest's parts.bytes; its last one may be
 *            shorter
 *
 * The manifest lists the SHA-256 of all parts in file order. Their offsets follow from its tables:
 * every byte of the file is in exactly one part, and no part spans two tables. */
#ifndef WK_DUMP_PARTS_H
#define WK_DUMP_PARTS_H

#include "store/manifest.h"

struct parts_region {
    uint64_t from, to; /* bytes of the file, `to` exclusive */
};
/* For a manifest whose tables are in the file one after another (verify_open() checks that). */
size_t parts_regions(const struct manifest *m);
struct parts_region parts_region(const struct manifest *m, size_t i);
/* Returns the number of parts of `bytes` bytes in a region. */
uint64_t parts_count(struct parts_region r, uint32_t bytes);

/* Hashes a file while it is written or read: regions in order, each passed in pieces of any size.
 * The callback is called for each part once it is complete. One thread at a time. */
typedef void parts_fn(void *arg, uint32_t length, const unsigned char sha256[SHA256_BYTES]);
struct parts_hash;
/* Returns NULL if libcrypto failed. */
struct parts_hash *parts_hash_new(uint32_t bytes, parts_fn *fn, void *arg);
/* Adds data of region `region`; a number other than the last one ends the previous region. */
void parts_hash_add(struct parts_hash *h, uint64_t region, const void *data, size_t len);
/* Ends the last part. Returns -1 if libcrypto failed at some point, so that parts are missing. */
int parts_hash_end(struct parts_hash *h);
void parts_hash_free(struct parts_hash *h);

/* Appends one hash; for a parts_fn that keeps them all. */
void parts_keep(struct manifest_parts *list, const unsigned char sha256[SHA256_BYTES]);

#endif
