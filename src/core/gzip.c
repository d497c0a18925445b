#include "core/gzip.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "core/file.h"
#include "core/text.h"

#define CHUNK 131072u
#define GZIP_WINDOW (15 + 16) /* zlib: 32 KiB window, gzip wrapper */

struct gzip_writer {
    int fd;
    char *name;
    int level;
    z_stream z;
    int open; /* a member is open */
    EVP_MD_CTX *sha;
    uint64_t plain, packed;
    struct err failed;
    unsigned char out[CHUNK];
};

static void sha_hex(EVP_MD_CTX *ctx, char out[SHA256_HEX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_DigestFinal_ex(ctx, md, &len);
    text_hex(md, 32, out);
}

static EVP_MD_CTX *sha_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

struct gzip_writer *gzip_open(int fd, const char *name, int level, struct err *e)
{
    struct gzip_writer *g = xcalloc(1, sizeof *g);
    g->fd = fd;
    g->name = xstrdup(name);
    g->level = level;
    g->sha = sha_new();
    if (!g->sha ||
        deflateInit2(&g->z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        err_set(e, ERR_SYSTEM, 0, "cannot set up compression of %s", name);
        EVP_MD_CTX_free(g->sha);
        free(g->name);
        free(g);
        return NULL;
    }
    return g;
}

static int stuck(const struct err *failed, struct err *e)
{
    if (e)
        *e = *failed;
    return -1;
}

static int flush_out(struct gzip_writer *g, struct err *e)
{
    size_t n = CHUNK - g->z.avail_out;
    if (n && file_write_all(g->fd, g->out, n) < 0) {
        err_sys(&g->failed, errno, "cannot write %s", g->name);
        return stuck(&g->failed, e);
    }
    EVP_DigestUpdate(g->sha, g->out, n);
    g->packed += n;
    g->z.next_out = g->out;
    g->z.avail_out = CHUNK;
    return 0;
}

static int run_deflate(struct gzip_writer *g, int how, struct err *e)
{
    int rc;
    do {
        rc = deflate(&g->z, how);
        if (rc == Z_STREAM_ERROR) {
            err_set(&g->failed, ERR_SYSTEM, 0, "compression of %s failed", g->name);
            return stuck(&g->failed, e);
        }
        if ((g->z.avail_out == 0 || rc == Z_STREAM_END) && flush_out(g, e) < 0)
            return -1;
    } while (how == Z_FINISH ? rc != Z_STREAM_END : g->z.avail_in > 0);
    return 0;
}

int gzip_write(struct gzip_writer *g, const void *data, size_t len, struct err *e)
{
    if (g->failed.cls != ERR_NONE)
        return stuck(&g->failed, e);
    if (!g->open) {
        deflateReset(&g->z);
        g->z.next_out = g->out;
        g->z.avail_out = CHUNK;
        g->open = 1;
    }
    g->plain += len;
    const unsigned char *p = data;
    while (len) {
        uInt n = len > (1u << 30) ? (1u << 30) : (uInt)len;
        /* zlib's interface is not const, its behaviour is */
        memcpy(&g->z.next_in, &p, sizeof p);
        g->z.avail_in = n;
        if (run_deflate(g, Z_NO_FLUSH, e) < 0)
            return -1;
        p += n;
        len -= n;
    }
    return 0;
}

int gzip_member_end(struct gzip_writer *g, struct err *e)
{
    if (g->failed.cls != ERR_NONE)
        return stuck(&g->failed, e);
    if (!g->open)
        return 0;
    g->open = 0;
    g->z.avail_in = 0;
    return run_deflate(g, Z_FINISH, e);
}

uint64_t gzip_plain_bytes(const struct gzip_writer *g)
{
    return g->plain;
}

uint64_t gzip_packed_bytes(const struct gzip_writer *g)
{
    return g->packed;
}

void gzip_abort(struct gzip_writer *g)
{
    if (!g)
        return;
    deflateEnd(&g->z);
    EVP_MD_CTX_free(g->sha);
    free(g->name);
    free(g);
}

int gzip_close(struct gzip_writer *g, char sha256[SHA256_HEX], struct err *e)
{
    int rc = gzip_member_end(g, e);
    if (rc == 0)
        sha_hex(g->sha, sha256);
    gzip_abort(g);
    return rc;
}

struct gunzip {
    int fd;
    char *name;
    int plain_file;
    z_stream z;
    int inside; /* a member was begun and has not ended */
    int eof;
    EVP_MD_CTX *sha;
    uint64_t plain, packed;
    struct err failed;
    unsigned char in[CHUNK];
};

struct gunzip *gunzip_open(int fd, const char *name, struct err *e)
{
    struct gunzip *g = xcalloc(1, sizeof *g);
    g->fd = fd;
    g->name = xstrdup(name);
    g->sha = sha_new();
    if (!g->sha || inflateInit2(&g->z, GZIP_WINDOW) != Z_OK) {
        err_set(e, ERR_SYSTEM, 0, "cannot set up decompression of %s", name);
        EVP_MD_CTX_free(g->sha);
        free(g->name);
        free(g);
        return NULL;
    }
    return g;
}

struct gunzip *gunzip_open_plain(int fd, const char *name, struct err *e)
{
    struct gunzip *g = gunzip_open(fd, name, e);
    if (g)
        g->plain_file = 1;
    return g;
}

/* More packed bytes; 0 at the end of the file. */
static int fill(struct gunzip *g, struct err *e)
{
    ssize_t n;
    do
        n = read(g->fd, g->in, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0) {
        err_sys(e, errno, "cannot read %s", g->name);
        if (e && e->num == EIO)
            e->cls = ERR_DAMAGED; /* the disk cannot give it back: as good as damaged */
        return -1;
    }
    EVP_DigestUpdate(g->sha, g->in, (size_t)n);
    g->packed += (uint64_t)n;
    g->z.next_in = g->in;
    g->z.avail_in = (uInt)n;
    if (n == 0)
        g->eof = 1;
    return 0;
}

static int damaged(const struct gunzip *g, const char *why, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "%s: %s near byte %llu", g->name, why,
                   (unsigned long long)(g->packed - g->z.avail_in));
}

static int64_t read_plain(struct gunzip *g, void *data, size_t len, struct err *e)
{
    if (g->z.avail_in == 0 && !g->eof && fill(g, e) < 0)
        return -1;
    size_t n = len < g->z.avail_in ? len : g->z.avail_in;
    memcpy(data, g->z.next_in, n);
    g->z.next_in += n;
    g->z.avail_in -= (uInt)n;
    g->plain += n;
    return (int64_t)n;
}

/* One step of inflate; 1 when the output is full or all is read, 0 to go on, -1. */
static int step(struct gunzip *g, struct err *e)
{
    if (g->z.avail_in == 0) {
        if (!g->eof && fill(g, e) < 0)
            return -1;
        if (g->eof)
            return g->inside ? damaged(g, "cut short", e) : 1;
    }
    if (!g->inside) {
        inflateReset(&g->z);
        g->inside = 1;
    }
    int rc = inflate(&g->z, Z_NO_FLUSH);
    if (rc == Z_STREAM_END)
        g->inside = 0;
    else if (rc != Z_OK && rc != Z_BUF_ERROR)
        return damaged(g, g->z.msg ? g->z.msg : "not gzip", e);
    return g->z.avail_out == 0;
}

static int64_t read_packed(struct gunzip *g, void *data, size_t len, struct err *e)
{
    g->z.next_out = data;
    g->z.avail_out = (uInt)len;
    int rc;
    while ((rc = step(g, e)) == 0)
        ;
    if (rc < 0)
        return -1;
    int64_t n = (int64_t)(len - g->z.avail_out);
    g->plain += (uint64_t)n;
    if (n == 0 && g->packed == 0)
        return err_set(e, ERR_DAMAGED, 0, "%s is empty", g->name);
    return n;
}

int64_t gunzip_read(struct gunzip *g, void *data, size_t len, struct err *e)
{
    if (g->failed.cls != ERR_NONE)
        return stuck(&g->failed, e);
    if (len > (1u << 30))
        len = 1u << 30;
    int64_t n = g->plain_file ? read_plain(g, data, len, &g->failed)
                              : read_packed(g, data, len, &g->failed);
    return n < 0 ? stuck(&g->failed, e) : n;
}

uint64_t gunzip_packed_bytes(const struct gunzip *g)
{
    return g->packed;
}

uint64_t gunzip_plain_bytes(const struct gunzip *g)
{
    return g->plain;
}

void gunzip_sha256(struct gunzip *g, char sha256[SHA256_HEX])
{
    sha_hex(g->sha, sha256);
}

void gunzip_close(struct gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->z);
    EVP_MD_CTX_free(g->sha);
    free(g->name);
    free(g);
}
