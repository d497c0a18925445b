#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/codec_int.h"

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

/* zlib's interface is not const, its behaviour is. */
static void set_in(z_stream *z, const unsigned char *in, size_t len)
{
    memcpy(&z->next_in, &in, sizeof in);
    z->avail_in = piece(len);
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
    set_in(z, data, len);
    do {
        buf_reserve(out, ROOM);
        uInt room = piece(out->cap - out->len - 1);
        z->next_out = (unsigned char *)out->p + out->len;
        z->avail_out = room;
        uInt before = z->avail_in;
        rc = deflate(z, len == before ? Z_FINISH : Z_NO_FLUSH);
        out->len += room - z->avail_out;
        data += before - z->avail_in;
        len -= before - z->avail_in;
        set_in(z, data, len);
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
    set_in(&u->z, io->in, in);
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

const struct codec_ops codec_zlib = {
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
