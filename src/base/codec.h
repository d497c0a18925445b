/* Gzip members: one is compressed whole from memory, any number are decompressed as a stream.
 * Levels 1 to 3 and all decompression use ISA-L (several times faster) where the program was built
 * with it and the library is found at run time; everything else uses zlib. Both write the same
 * format and refuse the same input.
 *
 * A packer or an unpacker belongs to one thread at a time; they share no state. */
#ifndef WK_BASE_CODEC_H
#define WK_BASE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

struct packer;
/* Returns NULL if there is no such level (1..9) or no memory. */
struct packer *packer_new(int level);
/* Appends one member with exactly these bytes to `out`. Returns 0, or -1 if the library failed;
 * `out` is undefined then. */
int packer_pack(struct packer *p, const void *data, size_t len, struct buf *out);
void packer_free(struct packer *p);

enum codec_step {
    CODEC_MORE, /* all of `in` was consumed or all of `out` filled; the member has not ended */
    CODEC_END,  /* the member ended and is intact; `in` is what follows it */
    CODEC_BAD,  /* not a member, or a damaged one: `why`. The unpacker can only be freed */
};
struct codec_io {
    const unsigned char *in;
    size_t in_len;
    unsigned char *out;
    size_t out_len;
    const char *why;
};
struct unpacker;
/* Returns NULL if there is no memory. */
struct unpacker *unpacker_new(void);
/* Reads from `in`, fills `out` and advances both. After the end of a member the next one begins.
 * There may be output left even when `in` is empty. */
enum codec_step unpacker_run(struct unpacker *u, struct codec_io *io);
void unpacker_free(struct unpacker *u);

/* Returns gzip's CRC-32 of `data`, continued from `crc` (0 at the start). Any thread may call
 * it. */
uint32_t codec_crc32(uint32_t crc, const void *data, size_t len);

/* Returns the name of the library that compresses at this level, "ISA-L" or "zlib". The library of
 * level 1 also decompresses. */
const char *codec_name(int level);

#endif
