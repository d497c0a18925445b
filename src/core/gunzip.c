#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/gzip_int.h"

#define CHUNK 131072u

struct gunzip {
    int fd;
    char *name;
    struct unpacker *unpacker; /* NULL: a plain file */
    bool part;
    uint64_t offset, length; /* of a part */
    gunzip_wait_fn *wait;
    void *wait_arg;
    uint64_t allowed; /* up to there it may be read */
    bool inside;      /* a member was begun and has not ended */
    bool eof;
    EVP_MD_CTX *sha; /* NULL: not hashed */
    uint64_t plain, packed;
    struct err failed;
    const unsigned char *next; /* in `in`: read, not unpacked yet */
    size_t left;
    unsigned char in[CHUNK];
};

static struct gunzip *open_as(int fd, const char *name, bool plain_file, bool hashed, struct err *e)
{
    struct gunzip *g = xcalloc(1, sizeof *g);
    g->fd = fd;
    g->name = xstrdup(name);
    g->next = g->in;
    g->unpacker = plain_file ? NULL : unpacker_new();
    g->sha = hashed ? gzip_sha_new() : NULL;
    if ((hashed && !g->sha) || (!plain_file && !g->unpacker)) {
        err_set(e, ERR_SYSTEM, 0, "cannot set up decompression of %s", name);
        gunzip_close(g);
        return NULL;
    }
    return g;
}

struct gunzip *gunzip_open(int fd, const char *name, struct err *e)
{
    return open_as(fd, name, false, true, e);
}

struct gunzip *gunzip_open_plain(int fd, const char *name, struct err *e)
{
    return open_as(fd, name, true, true, e);
}

struct gunzip *gunzip_open_part(int fd, const char *name, uint64_t offset, uint64_t length,
                                struct err *e)
{
    struct gunzip *g = open_as(fd, name, false, false, e);
    if (g) {
        g->part = true;
        g->offset = offset;
        g->length = length;
    }
    return g;
}

void gunzip_on_wait(struct gunzip *g, gunzip_wait_fn *fn, void *arg)
{
    g->wait = fn;
    g->wait_arg = arg;
}

static int damaged(struct gunzip *g, const char *why, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "%s: %s near byte %llu", g->name, why,
                   (unsigned long long)(g->offset + g->packed - g->left));
}

/* How many bytes may be read now; 0: the end. */
static size_t may_read(struct gunzip *g)
{
    uint64_t n = CHUNK;
    if (g->part)
        n = g->length - g->packed;
    if (g->wait) {
        if (g->allowed <= g->packed)
            g->allowed = g->wait(g->wait_arg, g->packed);
        n = g->allowed <= g->packed ? 0 : g->allowed - g->packed;
    }
    return n < CHUNK ? (size_t)n : CHUNK;
}

/* More packed bytes; 0 also at the end of the file. */
static int fill(struct gunzip *g, struct err *e)
{
    size_t want = may_read(g);
    ssize_t n = 0;
    if (want > 0)
        do
            n = g->part ? pread(g->fd, g->in, want, (off_t)(g->offset + g->packed))
                        : read(g->fd, g->in, want);
        while (n < 0 && errno == EINTR);
    if (n < 0) {
        err_sys(e, errno, "cannot read %s", g->name);
        if (e->num == EIO)
            e->cls = ERR_DAMAGED; /* the disk cannot give it back: as good as damaged */
        return -1;
    }
    if (n == 0 && want > 0 && (g->part || g->wait))
        return damaged(g, "cut short", e);
    if (g->sha)
        EVP_DigestUpdate(g->sha, g->in, (size_t)n);
    g->packed += (uint64_t)n;
    g->next = g->in;
    g->left = (size_t)n;
    g->eof = n == 0;
    return 0;
}

static int64_t read_plain(struct gunzip *g, unsigned char *data, size_t len, struct err *e)
{
    if (g->left == 0 && !g->eof && fill(g, e) < 0)
        return -1;
    size_t n = len < g->left ? len : g->left;
    memcpy(data, g->next, n);
    g->next += n;
    g->left -= n;
    g->plain += n;
    return (int64_t)n;
}

static int unpack(struct gunzip *g, unsigned char **out, size_t *room, struct err *e)
{
    struct codec_io io = {.in = g->next, .in_len = g->left, .out = *out, .out_len = *room};
    g->inside = true;
    enum codec_step step = unpacker_run(g->unpacker, &io);
    g->next = io.in;
    g->left = io.in_len;
    *out = io.out;
    *room = io.out_len;
    if (step == CODEC_BAD)
        return damaged(g, io.why, e);
    if (step == CODEC_END)
        g->inside = false;
    return 0;
}

static int64_t read_packed(struct gunzip *g, unsigned char *data, size_t len, struct err *e)
{
    unsigned char *out = data;
    size_t room = len;
    while (room > 0) {
        /* What was taken in before may still have something to come. */
        if ((g->inside || g->left) && unpack(g, &out, &room, e) < 0)
            return -1;
        if (room == 0 || g->left > 0)
            continue;
        if (!g->eof && fill(g, e) < 0)
            return -1;
        if (!g->eof)
            continue;
        if (g->inside)
            return damaged(g, g->part ? "a member reaches over the end" : "cut short", e);
        break;
    }
    int64_t n = (int64_t)(len - room);
    g->plain += (uint64_t)n;
    if (n == 0 && g->packed == 0 && !g->part)
        return err_set(e, ERR_DAMAGED, 0, "%s is empty", g->name);
    return n;
}

int64_t gunzip_read(struct gunzip *g, void *data, size_t len, struct err *e)
{
    if (g->failed.cls != ERR_NONE)
        return gzip_stuck(&g->failed, e);
    if (len > (1u << 30))
        len = 1u << 30;
    int64_t n =
        g->unpacker ? read_packed(g, data, len, &g->failed) : read_plain(g, data, len, &g->failed);
    return n < 0 ? gzip_stuck(&g->failed, e) : n;
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
    if (g->sha)
        gzip_sha_hex(g->sha, sha256);
    else
        sha256[0] = '\0';
}

void gunzip_close(struct gunzip *g)
{
    if (!g)
        return;
    unpacker_free(g->unpacker);
    EVP_MD_CTX_free(g->sha);
    free(g->name);
    free(g);
}
