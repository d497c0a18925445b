#include "core/codec.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/codec_int.h"

/* Above it zlib packs better, and who asks for it has the time. */
#define ISAL_LEVEL_MAX 3

struct packer {
    const struct codec_ops *ops;
    int level;
    void *state;
};

struct unpacker {
    const struct codec_ops *ops;
    void *state;
};

static const struct codec_ops *best(void)
{
    const struct codec_ops *isal = codec_isal();
    return isal ? isal : &codec_zlib;
}

static const struct codec_ops *of_level(int level)
{
    return level <= ISAL_LEVEL_MAX ? best() : &codec_zlib;
}

struct packer *packer_new(int level)
{
    if (level < 1 || level > 9)
        return NULL;
    struct packer *p = xcalloc(1, sizeof *p);
    p->ops = of_level(level);
    p->level = level;
    p->state = p->ops->pack_new(level);
    if (!p->state) {
        free(p);
        return NULL;
    }
    return p;
}

/* One text in a world's life may be too long for the library. */
static int pack_long(const struct packer *p, const void *data, size_t len, struct buf *out)
{
    void *state = codec_zlib.pack_new(p->level);
    int rc = state ? codec_zlib.pack(state, data, len, out) : -1;
    if (state)
        codec_zlib.pack_free(state);
    return rc;
}

int packer_pack(struct packer *p, const void *data, size_t len, struct buf *out)
{
    if (len > p->ops->pack_max)
        return pack_long(p, data, len, out);
    return p->ops->pack(p->state, data, len, out);
}

void packer_free(struct packer *p)
{
    if (!p)
        return;
    p->ops->pack_free(p->state);
    free(p);
}

struct unpacker *unpacker_new(void)
{
    struct unpacker *u = xcalloc(1, sizeof *u);
    u->ops = best();
    u->state = u->ops->unpack_new();
    if (!u->state) {
        free(u);
        return NULL;
    }
    return u;
}

enum codec_step unpacker_run(struct unpacker *u, struct codec_io *io)
{
    return u->ops->unpack(u->state, io);
}

void unpacker_free(struct unpacker *u)
{
    if (!u)
        return;
    u->ops->unpack_free(u->state);
    free(u);
}

uint32_t codec_crc32(uint32_t crc, const void *data, size_t len)
{
    return best()->crc(crc, data, len);
}

const char *codec_name(int level)
{
    return of_level(level)->name;
}
