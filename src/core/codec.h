/* Gzip members: one packed whole from memory, any number unpacked as a stream. Levels 1 to 3 and
 * all unpacking go through ISA-L where the program was built with it and the library is found when
 * it runs (it is several times faster), everything else through zlib; what comes out is the same
 * format, and what is refused is the same.
 *
 * A packer or an unpacker belongs to one thread at a time; different ones know nothing of each
 * other. */
#ifndef WK_CORE_CODEC_H
#define WK_CORE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "core/text.h"

struct packer;
/* NULL: no such level (1..9), or no memory. */
struct packer *packer_new(int level);
/* Adds one member that holds just these bytes to `out`. 0, or -1 (never seen; `out` is undefined
 * then). */
int packer_pack(struct packer *p, const void *data, size_t len, struct buf *out);
void packer_free(struct packer *p);

enum codec_step {
    CODEC_MORE, /* all of `in` was taken, or all of `out` was filled; the member has not ended */
    CODEC_END,  /* the member ended and is whole; `in` is what stands behind it */
    CODEC_BAD,  /* this is no member, or a damaged one: `why`. Of no use any more */
};
struct codec_io {
    const unsigned char *in;
    size_t in_len;
    unsigned char *out;
    size_t out_len;
    const char *why;
};
struct unpacker;
/* NULL: no memory. */
struct unpacker *unpacker_new(void);
/* Takes from `in`, fills `out` and moves both on. Behind the end of a member the next one begins.
 * Also without any `in` there may be something to come. */
enum codec_step unpacker_run(struct unpacker *u, struct codec_io *io);
void unpacker_free(struct unpacker *u);

/* gzip's CRC-32, of `data` behind what `crc` is of (0: nothing). Any thread. */
uint32_t codec_crc32(uint32_t crc, const void *data, size_t len);

/* What packs at this level, "ISA-L" or "zlib"; for level 1 also what unpacks. */
const char *codec_name(int level);

#endif
