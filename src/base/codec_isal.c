/* Loads and calls ISA-L for base/codec.c. */
#include "base/codec_int.h"

#ifndef WK_ISAL

const struct codec_isal *codec_isal(void)
{
    return NULL;
}

#else

#include <dlfcn.h>
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Loaded at its first use: linked, it would cost each supervisor 170 KB that it never uses. */
static struct {
    void (*deflate_init)(struct isal_zstream *);
    int (*deflate)(struct isal_zstream *);
    void (*inflate_init)(struct inflate_state *);
    void (*inflate_reset)(struct inflate_state *);
    int (*inflate)(struct inflate_state *);
    uint32_t (*crc)(uint32_t, const unsigned char *, uint64_t);
    bool avx; /* the processor has AVX */
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

/* ---- vector registers ---- */

/* Clears the upper parts of the vector registers. ISA-L leaves values there, and then each change
 * between its AVX instructions and the SSE instructions of compiled code takes the processor some
 * 70 cycles, for as long as the thread lives. It is called after each function of the library. */
#ifdef __x86_64__
__attribute__((target("avx"))) static void clear_avx(void)
{
    _mm256_zeroupper();
}

static void clear_upper(void)
{
    if (api.avx)
        clear_avx();
}

static bool has_avx(void)
{
    return __builtin_cpu_supports("avx");
}
#else
static void clear_upper(void)
{
}

static bool has_avx(void)
{
    return false;
}
#endif

/* ---- packing ---- */

struct packing {
    struct isal_zstream z;
    _Alignas(64) unsigned char work[]; /* memory that the level needs */
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

static int codec_isal_pack(void *state, const unsigned char *data, size_t len, struct buf *out)
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
    int rc = api.deflate(&p->z);
    clear_upper();
    if (rc != COMP_OK || p->z.avail_in)
        return -1;
    out->len += p->z.total_out;
    return 0;
}

/* ---- unpacking ---- */

static void *unpack_new(void)
{
    struct inflate_state *z = xcalloc(1, sizeof *z);
    api.inflate_init(z);
    return z;
}

static void unpack_begin(void *state)
{
    struct inflate_state *z = state;
    api.inflate_reset(z);
    z->crc_flag = ISAL_GZIP_NO_HDR_VER; /* checks both numbers of the trailer */
}

static const char *codec_isal_reason(int rc)
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

static enum codec_step codec_isal_unpack(void *state, struct codec_io *io)
{
    struct inflate_state *z = state;
    uint32_t in, out;
    do {
        in = io->in_len < UINT32_MAX ? (uint32_t)io->in_len : UINT32_MAX;
        out = io->out_len < UINT32_MAX ? (uint32_t)io->out_len : UINT32_MAX;
        memcpy(&z->next_in, &io->in, sizeof io->in);
        z->avail_in = in;
        z->next_out = io->out;
        z->avail_out = out;
        int rc = api.inflate(z);
        clear_upper();
        in -= z->avail_in; /* the bytes consumed and produced */
        out -= z->avail_out;
        io->in += in;
        io->in_len -= in;
        io->out += out;
        io->out_len -= out;
        if (rc < 0) {
            io->why = codec_isal_reason(rc);
            return CODEC_BAD;
        }
        if (z->block_state == ISAL_BLOCK_FINISH)
            return CODEC_END;
    } while (io->in_len && io->out_len && (in || out));
    if (!io->in_len || !io->out_len)
        return CODEC_MORE;
    io->why = "invalid data"; /* the library makes no progress on it */
    return CODEC_BAD;
}

static uint32_t codec_isal_crc(uint32_t before, const unsigned char *data, size_t len)
{
    uint32_t crc = api.crc(before, data, len);
    clear_upper();
    return crc;
}

/* ---- loading ---- */

static const struct codec_isal functions = {pack_new,     codec_isal_pack,   unpack_new,
                                            unpack_begin, codec_isal_unpack, codec_isal_crc};

static const struct codec_isal *found;

static void codec_isal_load(void)
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
    api.avx = has_avx();
    found = &functions;
}

const struct codec_isal *codec_isal(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, codec_isal_load);
    return found;
}

#endif
