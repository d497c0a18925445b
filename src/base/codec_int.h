/* The functions of ISA-L that base/codec.h uses. */
#ifndef WK_BASE_CODEC_INT_H
#define WK_BASE_CODEC_INT_H

#include "base/codec.h"

#define CODEC_ISAL_MAX INT32_MAX /* maximum bytes of one `pack` */

struct codec_isal {
    /* levels 1..3; freed with free(), like the result of `unpack_new` */
    void *(*pack_new)(int level);
    /* Returns 0, or -1 if the library failed. */
    int (*pack)(void *state, const unsigned char *data, size_t len, struct buf *out);
    void *(*unpack_new)(void);
    /* Prepares for a member whose header was already read. */
    void (*unpack_begin)(void *state);
    enum codec_step (*unpack)(void *state, struct codec_io *io);
    uint32_t (*crc)(uint32_t crc, const unsigned char *data, size_t len);
};

/* Returns NULL if ISA-L is not built in or not found on this machine. Loaded at the first call. Any
 * thread may call it. */
const struct codec_isal *codec_isal(void);

#endif
