/* What a library has to do for core/codec.h. */
#ifndef WK_CORE_CODEC_INT_H
#define WK_CORE_CODEC_INT_H

#include "core/codec.h"

struct codec_ops {
    const char *name;
    size_t pack_max; /* bytes that it packs at most */
    void *(*pack_new)(int level);
    int (*pack)(void *state, const unsigned char *data, size_t len, struct buf *out);
    void (*pack_free)(void *state);
    void *(*unpack_new)(void);
    enum codec_step (*unpack)(void *state, struct codec_io *io);
    void (*unpack_free)(void *state);
    uint32_t (*crc)(uint32_t crc, const unsigned char *data, size_t len);
};

extern const struct codec_ops codec_zlib;
/* NULL: not built in, or not found on this machine. Loaded at the first call; for any thread. */
const struct codec_ops *codec_isal(void);

#endif
