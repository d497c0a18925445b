#include "base/codec.h"

#include <stdint.h>
#include <stdlib.h>
#define ZLIB_CONST /* makes zlib's input const */
#include <zlib.h>

#include "base/codec_int.h"

/* ---- zlib ---- */

#define GZIP_WINDOW (15 + 16) /* zlib: 32 KiB window, gzip wrapper */
#define PIECE (1u << 30)      /* zlib counts in 32 bits */
#define ROOM 65536u

struct unpacking {
    z_stream z;
    bool inside;
};

static uInt piece(size_t len)
{
    return len < PIECE ? (uInt)len : PIECE;
}

static void *pack_new(int level)
{
    z_stream *z = xcalloc(1, sizeof *z);
    if (deflateInit2(z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) == Z_OK)
        return z;
    free(z);
    return NULL;
}

static int pack(void *state, const unsigned char *data, size_t len, struct buf *out)
{
    z_stream *z = state;
    int rc;
    if (deflateReset(z) != Z_OK)
        return -1;
    do {
        z->next_in = data;
        z->avail_in = piece(len);
        buf_reserve(out, ROOM);
        uInt room = piece(out->cap - out->len - 1);
        z->next_out = (unsigned char *)out->p + out->len;
        z->avail_out = room;
        uInt before = z->avail_in;
        rc = deflate(z, len == before ? Z_FINISH : Z_NO_FLUSH);
        out->len += room - z->avail_out;
        data += before - z->avail_in;
        len -= before - z->avail_in;
    } while (rc == Z_OK);
    return rc == Z_STREAM_END ? 0 : -1;
}

static void pack_free(void *state)
{
    deflateEnd(state);
    free(state);
}

static void *unpack_new(void)
{
    struct unpacking *u = xcalloc(1, sizeof *u);
    if (inflateInit2(&u->z, GZIP_WINDOW) == Z_OK)
        return u;
    free(u);
    return NULL;
}

static enum codec_step unpack(void *state, struct codec_io *io)
{
    struct unpacking *u = state;
    if (!u->inside)
        inflateReset(&u->z);
    u->inside = true;
    uInt in = piece(io->in_len), out = piece(io->out_len);
    u->z.next_in = io->in;
    u->z.avail_in = in;
    u->z.next_out = io->out;
    u->z.avail_out = out;
    int rc = inflate(&u->z, Z_NO_FLUSH);
    io->in += in - u->z.avail_in;
    io->in_len -= in - u->z.avail_in;
    io->out += out - u->z.avail_out;
    io->out_len -= out - u->z.avail_out;
    if (rc == Z_STREAM_END) {
        u->inside = false;
        return CODEC_END;
    }
    if (rc == Z_OK || rc == Z_BUF_ERROR)
        return CODEC_MORE;
    io->why = u->z.msg ? u->z.msg : "not gzip";
    return CODEC_BAD;
}

static void unpack_free(void *state)
{
    struct unpacking *u = state;
    inflateEnd(&u->z);
    free(u);
}

static uint32_t crc(uint32_t before, const unsigned char *data, size_t len)
{
    return (uint32_t)crc32_z(before, data, len);
}

static const struct codec_ops zlib = {
    .name = "zlib",
    .pack_max = SIZE_MAX,
    .pack_new = pack_new,
    .pack = pack,
    .pack_free = pack_free,
    .unpack_new = unpack_new,
    .unpack = unpack,
    .unpack_free = unpack_free,
    .crc = crc,
};

/* ---- the choice ---- */

/* Above this level zlib compresses better, and speed was not asked for. */
#define ISAL_LEVEL_MAX 3

struct packer {
    const struct codec_ops *ops;
    int level;
    void *state;
};

static const struct codec_ops *best(void)
{
    const struct codec_ops *isal = codec_isal();
    return isal ? isal : &zlib;
}

/* Both read what the other wrote, so that the choice is one of speed and size alone. */
static const struct codec_ops *of_level(int level)
{
    return level <= ISAL_LEVEL_MAX ? best() : &zlib;
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

int packer_pack(struct packer *p, const void *data, size_t len, struct buf *out)
{
    if (len <= p->ops->pack_max)
        return p->ops->pack(p->state, data, len, out);
    /* A text longer than the library's limit is rare, so zlib is set up just for it. */
    void *state = zlib.pack_new(p->level);
    int rc = state ? zlib.pack(state, data, len, out) : -1;
    if (state)
        zlib.pack_free(state);
    return rc;
}

void packer_free(struct packer *p)
{
    if (!p)
        return;
    p->ops->pack_free(p->state);
    free(p);
}

/* The same library for all of them: a pointer to its state is the unpacker. */
struct unpacker *unpacker_new(void)
{
    return best()->unpack_new();
}

enum codec_step unpacker_run(struct unpacker *u, struct codec_io *io)
{
    return best()->unpack(u, io);
}

void unpacker_free(struct unpacker *u)
{
    if (u)
        best()->unpack_free(u);
}

uint32_t codec_crc32(uint32_t crc, const void *data, size_t len)
{
    return best()->crc(crc, data, len);
}

const char *codec_name(int level)
{
    return of_level(level)->name;
}
