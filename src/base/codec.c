#include "base/codec.h"

#include <stdlib.h>
#define ZLIB_CONST /* makes zlib's input const */
#include <zlib.h>

#include "base/codec_int.h"

#define GZIP_WINDOW (15 + 16) /* zlib: 32 KiB window, gzip wrapper */
#define PIECE (1u << 30)      /* zlib counts in 32 bits */
#define ROOM 65536u
#define HEADER_READ 128 /* zlib's data_type: the header is complete, its data not yet begun */
/* Above this level zlib compresses better, and the admin chose size over speed. */
#define ISAL_LEVEL_MAX 3

static uInt codec_piece(size_t len)
{
    return len < PIECE ? (uInt)len : PIECE;
}

/* Each library reads the other's output, so the choice affects only speed and size. */
static const struct codec_isal *isal_for(int level)
{
    return level <= ISAL_LEVEL_MAX ? codec_isal() : NULL;
}

const char *codec_name(int level)
{
    return isal_for(level) ? "ISA-L" : "zlib";
}

uint32_t codec_crc32(uint32_t crc, const void *data, size_t len)
{
    const struct codec_isal *isal = codec_isal();
    return isal ? isal->crc(crc, data, len) : (uint32_t)crc32_z(crc, data, len);
}

/* ---- packing ---- */

struct packer {
    int level;
    void *isal; /* its state; NULL: zlib does it */
    z_stream z;
    bool set_up; /* `z` */
};

static int codec_set_up(struct packer *p)
{
    int rc = p->set_up
                 ? deflateReset(&p->z)
                 : deflateInit2(&p->z, p->level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY);
    p->set_up |= rc == Z_OK;
    return rc == Z_OK ? 0 : -1;
}

struct packer *packer_new(int level)
{
    if (level < 1 || level > 9)
        return NULL;
    struct packer *p = xcalloc(1, sizeof *p);
    p->level = level;
    p->isal = isal_for(level) ? codec_isal()->pack_new(level) : NULL;
    if (p->isal || codec_set_up(p) == 0)
        return p;
    free(p);
    return NULL;
}

int packer_pack(struct packer *p, const void *data, size_t len, struct buf *out)
{
    const unsigned char *at = data;
    int rc;
    /* A text longer than the library's limit is rare; zlib is set up only for it. */
    if (p->isal && len <= CODEC_ISAL_MAX)
        return codec_isal()->pack(p->isal, data, len, out);
    if (codec_set_up(p) < 0)
        return -1;
    do {
        uInt in = codec_piece(len);
        p->z.next_in = at;
        p->z.avail_in = in;
        buf_reserve(out, ROOM);
        uInt room = codec_piece(out->cap - out->len - 1);
        p->z.next_out = (unsigned char *)out->p + out->len;
        p->z.avail_out = room;
        rc = deflate(&p->z, len == in ? Z_FINISH : Z_NO_FLUSH);
        out->len += room - p->z.avail_out;
        at += in - p->z.avail_in;
        len -= in - p->z.avail_in;
    } while (rc == Z_OK);
    return rc == Z_STREAM_END ? 0 : -1;
}

void packer_free(struct packer *p)
{
    if (!p)
        return;
    if (p->set_up)
        deflateEnd(&p->z);
    free(p->isal);
    free(p);
}

/* ---- unpacking ---- */

/* zlib reads and checks the header of each member also for ISA-L, which loses a header's flags
 * when its bytes arrive in two calls, and accepts reserved flags. */
struct unpacker {
    z_stream z;
    void *isal;        /* its state; NULL: zlib does all of it */
    bool inside, body; /* of a member; of its data, which ISA-L decompresses */
};

struct unpacker *unpacker_new(void)
{
    const struct codec_isal *isal = codec_isal();
    struct unpacker *u = xcalloc(1, sizeof *u);
    if (inflateInit2(&u->z, GZIP_WINDOW) != Z_OK) {
        free(u);
        return NULL;
    }
    u->isal = isal ? isal->unpack_new() : NULL;
    return u;
}

static enum codec_step unpack_by_zlib(struct unpacker *u, struct codec_io *io)
{
    z_stream *z = &u->z;
    uInt in = codec_piece(io->in_len), out = codec_piece(io->out_len);
    if (!u->inside)
        inflateReset(z);
    u->inside = true;
    z->next_in = io->in;
    z->avail_in = in;
    z->next_out = io->out;
    z->avail_out = out;
    /* Z_BLOCK: returns before the first byte of the data, which is for the other library. */
    int rc = inflate(z, u->isal ? Z_BLOCK : Z_NO_FLUSH);
    io->in += in - z->avail_in;
    io->in_len -= in - z->avail_in;
    io->out += out - z->avail_out;
    io->out_len -= out - z->avail_out;
    if (rc == Z_STREAM_END)
        return CODEC_END;
    if (rc == Z_OK || rc == Z_BUF_ERROR)
        return CODEC_MORE;
    io->why = z->msg ? z->msg : "not gzip";
    return CODEC_BAD;
}

enum codec_step unpacker_run(struct unpacker *u, struct codec_io *io)
{
    enum codec_step step = CODEC_MORE;
    if (!u->body)
        step = unpack_by_zlib(u, io);
    if (step == CODEC_MORE && u->isal && !u->body && (u->z.data_type & HEADER_READ)) {
        codec_isal()->unpack_begin(u->isal);
        u->body = true;
    }
    if (u->body)
        step = codec_isal()->unpack(u->isal, io);
    if (step == CODEC_END)
        u->inside = u->body = false;
    return step;
}

void unpacker_free(struct unpacker *u)
{
    if (!u)
        return;
    inflateEnd(&u->z);
    free(u->isal);
    free(u);
}
