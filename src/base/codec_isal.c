/* base/codec.h with ISA-L; the headers of its members are zlib's work. */
#include "base/codec_int.h"

#ifndef WK_ISAL

const struct codec_ops *codec_isal(void)
{
    return NULL;
}

#else

#include <dlfcn.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST /* makes zlib's input const */
#include <zlib.h>

/* Loaded when first used: linked, it would cost each supervisor 170 KB that it never uses. */
static struct {
    void (*deflate_init)(struct isal_zstream *);
    int (*deflate)(struct isal_zstream *);
    void (*inflate_init)(struct inflate_state *);
    void (*inflate_reset)(struct inflate_state *);
    int (*inflate)(struct inflate_state *);
    uint32_t (*crc)(uint32_t, const unsigned char *, uint64_t);
} api;

static const struct {
    const char *name;
    void *to;
} symbols[] = {
    {"isal_deflate_stateless_init", &api.deflate_init},
    {"isal_deflate_stateless", &api.deflate},
    {"isal_inflate_init", &api.inflate_init},
    {"isal_inflate_reset", &api.inflate_reset},
    {"isal_inflate", &api.inflate},
    {"crc32_gzip_refl", &api.crc},
};

/* ---- packing ---- */

struct packing {
    struct isal_zstream z;
    _Alignas(64) unsigned char work[]; /* what the level needs */
};

static uint32_t work_size(int level)
{
    return level == 1   ? ISAL_DEF_LVL1_DEFAULT
           : level == 2 ? ISAL_DEF_LVL2_DEFAULT
                        : ISAL_DEF_LVL3_DEFAULT;
}

static void *pack_new(int level)
{
    struct packing *p = xcalloc(1, sizeof *p + work_size(level));
    p->z.level = (uint32_t)level;
    return p;
}

static int pack(void *state, const unsigned char *data, size_t len, struct buf *out)
{
    struct packing *p = state;
    uint32_t level = p->z.level;
    /* Incompressible data is stored: five more bytes per 65535, a header and a trailer. */
    size_t room = len + 5 * (len / 65535 + 1) + 64;
    buf_reserve(out, room);
    api.deflate_init(&p->z);
    p->z.level = level;
    p->z.level_buf = p->work;
    p->z.level_buf_size = work_size((int)level);
    p->z.gzip_flag = IGZIP_GZIP;
    p->z.end_of_stream = 1;
    memcpy(&p->z.next_in, &data, sizeof data); /* the library lacks const, but does not write */
    p->z.avail_in = (uint32_t)len;
    p->z.next_out = (unsigned char *)out->p + out->len;
    p->z.avail_out = (uint32_t)room;
    if (api.deflate(&p->z) != COMP_OK || p->z.avail_in)
        return -1;
    out->len += p->z.total_out;
    return 0;
}

/* ---- unpacking ---- */

#define GZIP_WINDOW (15 + 16) /* zlib: 32 KiB window, gzip wrapper */
#define HEADER_READ 128       /* zlib's data_type: the header is complete, its data not yet begun */

/* zlib reads and checks the header of each member: ISA-L loses a header's flags when its bytes
 * arrive in two calls, and accepts reserved flags. */
struct unpacking {
    z_stream header;
    bool inside; /* the header was read */
    struct inflate_state z;
};

static void *unpack_new(void)
{
    struct unpacking *u = xcalloc(1, sizeof *u);
    api.inflate_init(&u->z);
    if (inflateInit2(&u->header, GZIP_WINDOW) == Z_OK)
        return u;
    free(u);
    return NULL;
}

static void unpack_free(void *state)
{
    struct unpacking *u = state;
    inflateEnd(&u->header);
    free(u);
}

static const char *reason(int rc)
{
    switch (rc) {
    case ISAL_INVALID_BLOCK:
        return "invalid block";
    case ISAL_INVALID_SYMBOL:
        return "invalid code";
    case ISAL_INVALID_LOOKBACK:
        return "invalid distance";
    case ISAL_INCORRECT_CHECKSUM:
        return "wrong checksum or length";
    default:
        return "damaged data";
    }
}

static int inflate_some(struct inflate_state *z, struct codec_io *io)
{
    uint32_t in = io->in_len < UINT32_MAX ? (uint32_t)io->in_len : UINT32_MAX;
    uint32_t out = io->out_len < UINT32_MAX ? (uint32_t)io->out_len : UINT32_MAX;
    memcpy(&z->next_in, &io->in, sizeof io->in);
    z->avail_in = in;
    z->next_out = io->out;
    z->avail_out = out;
    int rc = api.inflate(z);
    io->in += in - z->avail_in;
    io->in_len -= in - z->avail_in;
    io->out += out - z->avail_out;
    io->out_len -= out - z->avail_out;
    return rc;
}

static enum codec_step unpack_body(struct unpacking *u, struct codec_io *io)
{
    size_t in, out;
    do {
        in = io->in_len;
        out = io->out_len;
        int rc = inflate_some(&u->z, io);
        if (rc < 0) {
            io->why = reason(rc);
            return CODEC_BAD;
        }
        if (u->z.block_state == ISAL_BLOCK_FINISH) {
            u->inside = false;
            return CODEC_END;
        }
    } while (io->in_len && io->out_len && (io->in_len != in || io->out_len != out));
    if (!io->in_len || !io->out_len)
        return CODEC_MORE;
    io->why = "invalid data"; /* the library makes no progress on it */
    return CODEC_BAD;
}

static enum codec_step unpack(void *state, struct codec_io *io)
{
    struct unpacking *u = state;
    if (!u->inside) {
        unsigned char none; /* zlib wants a place for output, and writes nothing there */
        uint32_t in = io->in_len < UINT32_MAX ? (uint32_t)io->in_len : UINT32_MAX;
        u->header.next_in = io->in;
        u->header.avail_in = in;
        u->header.next_out = &none;
        u->header.avail_out = 0;
        /* Z_BLOCK: returns before the first byte of the data, which is for the other library. */
        int rc = inflate(&u->header, Z_BLOCK);
        io->in += in - u->header.avail_in;
        io->in_len -= in - u->header.avail_in;
        if (rc != Z_OK && rc != Z_BUF_ERROR) {
            io->why = u->header.msg ? u->header.msg : "not gzip";
            return CODEC_BAD;
        }
        if (!(u->header.data_type & HEADER_READ))
            return CODEC_MORE;
        inflateReset(&u->header);
        api.inflate_reset(&u->z);
        u->z.crc_flag = ISAL_GZIP_NO_HDR_VER; /* checks both numbers of the trailer */
        u->inside = true;
    }
    return unpack_body(u, io);
}

static uint32_t crc(uint32_t before, const unsigned char *data, size_t len)
{
    return api.crc(before, data, len);
}

/* ---- loading ---- */

static const struct codec_ops ops = {
    .name = "ISA-L",
    .pack_max = INT32_MAX,
    .pack_new = pack_new,
    .pack = pack,
    .pack_free = free,
    .unpack_new = unpack_new,
    .unpack = unpack,
    .unpack_free = unpack_free,
    .crc = crc,
};

static const struct codec_ops *found;

static void load(void)
{
    void *lib = dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(lib, symbols[i].name);
        if (!p) {
            dlclose(lib);
            return;
        }
        /* ISO C has no cast from an object to a function pointer; POSIX makes them equivalent. */
        memcpy(symbols[i].to, &p, sizeof p);
    }
    found = &ops;
}

const struct codec_ops *codec_isal(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return found;
}

#endif
