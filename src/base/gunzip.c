#include "base/gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/gzip_int.h"

#define CHUNK 131072u

struct gunzip {
    int fd;
    char *name;
    struct unpacker *unpacker; /* NULL: a plain file */
    bool part;
    uint64_t offset, length; /* length of a part */
    gunzip_wait_fn *wait;
    void *wait_arg;
    uint64_t allowed; /* offset up to which it may be read */
    gunzip_prove_fn *prove;
    void *prove_arg;
    bool inside; /* in the middle of a member */
    bool eof;
    EVP_MD_CTX *sha; /* NULL: not hashed */
    uint64_t plain, packed;
    struct err failed;
    unsigned char *in;
    size_t room;               /* size of `in`: CHUNK, or the longest part so far */
    const unsigned char *next; /* data in `in` that was read but not yet decompressed */
    size_t left;
};

/* A plain file is read by the same calls, so that a restore need not distinguish. */
static struct gunzip *open_as(int fd, const char *name, bool plain_file, bool hashed, struct err *e)
{
    struct gunzip *g = xcalloc(1, sizeof *g);
    g->fd = fd;
    g->name = xstrdup(name);
    g->in = xrealloc(NULL, CHUNK);
    g->room = CHUNK;
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

void gunzip_prove(struct gunzip *g, gunzip_prove_fn *fn, void *arg)
{
    g->prove = fn;
    g->prove_arg = arg;
}

static int gunzip_damaged(struct gunzip *g, const char *why, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "%s: %s near byte %llu", g->name, why,
                   (unsigned long long)(g->offset + g->packed - g->left));
}

/* Returns how many bytes may be read now; 0: the end. */
static ssize_t may_read(struct gunzip *g, struct err *e)
{
    uint64_t n = g->part ? g->length - g->packed : CHUNK;
    if (n == 0 || !g->wait)
        return n < CHUNK ? (ssize_t)n : (ssize_t)CHUNK;
    if (g->allowed <= g->packed && g->wait(g->wait_arg, g->packed, &g->allowed, e) < 0)
        return -1;
    uint64_t there = g->allowed <= g->packed ? 0 : g->allowed - g->packed;
    n = there < n ? there : n;
    return n < CHUNK ? (ssize_t)n : (ssize_t)CHUNK;
}

/* Reads up to `room` more packed bytes. Returns 0 at the end of the file. */
static ssize_t read_some(struct gunzip *g, unsigned char *to, size_t room, struct err *e)
{
    ssize_t may = may_read(g, e), n = 0;
    if (may < 0)
        return -1;
    size_t want = (size_t)may < room ? (size_t)may : room;
    if (want > 0)
        do
            n = g->part ? pread(g->fd, to, want, (off_t)(g->offset + g->packed))
                        : read(g->fd, to, want);
        while (n < 0 && errno == EINTR);
    if (n < 0) {
        err_sys(e, errno, "cannot read %s", g->name);
        if (e->num == EIO)
            e->cls = ERR_DAMAGED; /* an unreadable disk block counts as damage */
        return -1;
    }
    if (n == 0 && want > 0 && (g->part || g->wait))
        return gunzip_damaged(g, "cut short", e);
    if (g->sha)
        EVP_DigestUpdate(g->sha, to, (size_t)n);
    g->packed += (uint64_t)n;
    return n;
}

/* Reads a whole part and compares its hash before any other code sees the data. */
static int gunzip_read_part(struct gunzip *g, const struct gunzip_part *part, struct err *e)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    ssize_t n = 1;
    size_t got = 0;
    if (g->room < part->length) {
        free(g->in);
        g->in = xrealloc(NULL, part->length);
        g->room = part->length;
    }
    for (; got < part->length && n > 0; got += n > 0 ? (size_t)n : 0)
        n = read_some(g, g->in + got, part->length - got, e);
    if (n <= 0)
        return n < 0 ? -1 : gunzip_damaged(g, "cut short", e);
    if (EVP_Digest(g->in, part->length, md, NULL, EVP_sha256(), NULL) != 1)
        return err_set(e, ERR_SYSTEM, 0, "cannot hash %s", g->name);
    if (memcmp(md, part->sha256, SHA256_BYTES) == 0)
        return 0;
    /* bytes within the file, as in the other errors of this reader */
    uint64_t end = g->offset + g->packed;
    return err_set(e, ERR_DAMAGED, 0,
                   "%s: its SHA-256 does not match the manifest between byte %llu and %llu",
                   g->name, (unsigned long long)(end - part->length), (unsigned long long)end);
}

/* Reads more packed bytes, verified if gunzip_prove() was called; leaves none at the end. */
static int gunzip_fill(struct gunzip *g, struct err *e)
{
    struct gunzip_part part = {0};
    ssize_t n;
    g->left = 0;
    if (g->prove)
        g->prove(g->prove_arg, g->packed, &part);
    if (part.length)
        n = gunzip_read_part(g, &part, e) < 0 ? -1 : (ssize_t)part.length;
    else
        n = g->prove ? 0 : read_some(g, g->in, CHUNK, e);
    if (n < 0)
        return -1;
    g->next = g->in;
    g->left = (size_t)n;
    g->eof = n == 0;
    return 0;
}

static int gunzip_unpack(struct gunzip *g, unsigned char **out, size_t *room, struct err *e)
{
    struct codec_io io = {.in = g->next, .in_len = g->left, .out = *out, .out_len = *room};
    g->inside = true;
    enum codec_step step = unpacker_run(g->unpacker, &io);
    g->next = io.in;
    g->left = io.in_len;
    *out = io.out;
    *room = io.out_len;
    if (step == CODEC_BAD)
        return gunzip_damaged(g, io.why, e);
    if (step == CODEC_END)
        g->inside = false;
    return 0;
}

static int64_t read_packed(struct gunzip *g, unsigned char *data, size_t len, struct err *e)
{
    unsigned char *out = data;
    size_t room = len;
    while (room > 0) {
        /* The unpacker may hold more output from bytes that it has consumed. */
        if ((g->inside || g->left) && gunzip_unpack(g, &out, &room, e) < 0)
            return -1;
        if (room == 0 || g->left > 0)
            continue;
        if (!g->eof && gunzip_fill(g, e) < 0)
            return -1;
        if (!g->eof)
            continue;
        if (g->inside)
            return gunzip_damaged(
                g, g->part ? "a gzip member extends beyond the end of the file" : "cut short", e);
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
        return err_pass(e, &g->failed);
    /* the libraries count in 32 bits */
    if (len > (1u << 30))
        len = 1u << 30;
    if (g->unpacker) {
        int64_t n = read_packed(g, data, len, &g->failed);
        return n < 0 ? err_pass(e, &g->failed) : n;
    }
    if (g->left == 0 && !g->eof && gunzip_fill(g, &g->failed) < 0)
        return err_pass(e, &g->failed);
    len = len < g->left ? len : g->left;
    memcpy(data, g->next, len);
    g->next += len;
    g->left -= len;
    g->plain += len;
    return (int64_t)len;
}

uint64_t gunzip_packed_bytes(const struct gunzip *g)
{
    return g->packed;
}

uint64_t gunzip_plain_bytes(const struct gunzip *g)
{
    return g->plain;
}

/* Readers of parts read pieces of the file in any order, so there is no hash of the whole. */
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
    free(g->in);
    free(g->name);
    free(g);
}
