/* What base/codec.h needs from a compression library. */
#ifndef WK_BASE_CODEC_INT_H
#define WK_BASE_CODEC_INT_H

#include "base/codec.h"

struct codec_ops {
    const char *name;
    size_t pack_max; /* largest input of one `pack`, in bytes */
    void *(*pack_new)(int level);
    int (*pack)(void *state, const unsigned char *data, size_t len, struct buf *out);
    void (*pack_free)(void *state);
    void *(*unpack_new)(void);
    enum codec_step (*unpack)(void *state, struct codec_io *io);
    void (*unpack_free)(void *state);
    uint32_t (*crc)(uint32_t crc, const unsigned char *data, size_t len);
};

/* NULL: not built in, or not found on this machine. Loaded at the first call. Any thread. */
const struct codec_ops *codec_isal(void);

#endif
