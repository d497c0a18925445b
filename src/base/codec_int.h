/* What base/codec.h needs from ISA-L. */
#ifndef WK_BASE_CODEC_INT_H
#define WK_BASE_CODEC_INT_H

#include "base/codec.h"

#define CODEC_ISAL_MAX INT32_MAX /* bytes of one `pack` */

struct codec_isal {
    void *(*pack_new)(int level); /* 1..3; freed with free(), as that of `unpack_new` is */
    /* 0; -1: the library failed. */
    int (*pack)(void *state, const unsigned char *data, size_t len, struct buf *out);
    void *(*unpack_new)(void);
    /* A member follows whose header was read. */
    void (*unpack_begin)(void *state);
    enum codec_step (*unpack)(void *state, struct codec_io *io);
    uint32_t (*crc)(uint32_t crc, const unsigned char *data, size_t len);
};

/* NULL: not built in, or not found on this machine. Loaded at the first call. Any thread. */
const struct codec_isal *codec_isal(void);

#endif
