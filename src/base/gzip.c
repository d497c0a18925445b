/* The writer of base/gzip.h: a ring of members, threads that compress them, and one write at a
 * time. */
#include "base/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/file.h"
#include "base/gzip_int.h"
#include "base/thread_group.h"

/* zlib takes four times the processor time of ISA-L (tests/bench/README.md). With ISA-L one thread
 * keeps up with the reader; more threads would only take processors from the server, which usually
 * runs on the same machine. */
#define THREADS_MAX 4
#define RING (2 * THREADS_MAX + 2) /* maximum members in flight, with all threads */
#define BYTES_MAX (32u << 20)      /* maximum bytes of their texts, unless a single one is longer */
#define KEEP_MAX (4u << 20)        /* a buffer that grew beyond this for one long row is freed */

struct member {
    struct buf text; /* between two members: an empty buffer for the next caller */
    uint64_t tag;
};

/* Members are numbered. given >= taken >= turn: members below `turn` are in the file, the next ones
 * are being compressed, and the rest wait in the ring. Only the thread that compressed member
 * `turn` writes, hashes and counts, until it increments `turn`. */
struct gzip_writer {
    int fd;
    char *name;
    int level;

    /* used by the caller's thread only */
    struct buf gathered;
    bool open; /* a member is being filled */
    uint64_t plain;
    unsigned ring_size;        /* 0: no member was given yet */
    gzip_member_fn *on_member; /* set before the threads start */
    void *member_arg;

    /* used only by the thread whose member is `turn` */
    EVP_MD_CTX *sha;

    /* The lock of `threads` protects all following fields. `changed`: a member was given, or `turn`
     * was incremented; `stop`: after an error, and at the end. */
    struct thread_group threads;
    struct member ring[RING];
    uint64_t given, taken, turn;
    size_t bytes; /* of the texts in flight */
    uint64_t packed;
};

void gzip_sha_hex(EVP_MD_CTX *sha, char out[SHA256_HEX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_DigestFinal_ex(sha, md, &len);
    text_hex(md, 32, out);
}

EVP_MD_CTX *gzip_sha_new(void)
{
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(sha);
        return NULL;
    }
    return sha;
}

/* Checks the level here, because the threads, which create their own compressors, start later. */
struct gzip_writer *gzip_open(int fd, const char *name, int level, struct err *e)
{
    struct packer *tried = packer_new(level);
    EVP_MD_CTX *sha = gzip_sha_new();
    bool works = tried && sha;
    packer_free(tried);
    if (!works) {
        EVP_MD_CTX_free(sha);
        err_set(e, ERR_SYSTEM, 0, "cannot set up compression of %s", name);
        return NULL;
    }
    struct gzip_writer *g = xcalloc(1, sizeof *g);
    g->fd = fd;
    g->name = xstrdup(name);
    g->level = level;
    g->sha = sha;
    thread_group_init(&g->threads);
    return g;
}

void gzip_on_member(struct gzip_writer *g, gzip_member_fn *fn, void *arg)
{
    g->on_member = fn;
    g->member_arg = arg;
}

static int gzip_failed(struct gzip_writer *g, struct err *e)
{
    pthread_mutex_lock(&g->threads.lock);
    int rc = g->threads.stop ? err_pass(e, &g->threads.failed) : 0;
    pthread_mutex_unlock(&g->threads.lock);
    return rc;
}

/* ---- packing threads ---- */

/* Called by the thread whose member is `turn`. */
static int gzip_put(struct gzip_writer *g, const struct member *m, const struct buf *out,
                    struct err *e)
{
    if (file_write_all(g->fd, out->p, out->len) < 0)
        return err_sys(e, errno, "cannot write %s", g->name);
    EVP_DigestUpdate(g->sha, out->p, out->len);
    pthread_mutex_lock(&g->threads.lock);
    uint64_t offset = g->packed;
    g->packed += out->len;
    pthread_mutex_unlock(&g->threads.lock);
    struct gzip_member member = {.tag = m->tag,
                                 .offset = offset,
                                 .plain = m->text.len,
                                 .packed = out->p,
                                 .packed_len = out->len};
    if (g->on_member)
        g->on_member(g->member_arg, &member);
    return 0;
}

/* Buffers are reused: a member costs no allocation after they have grown. */
static void gzip_give_back(struct buf *b)
{
    if (b->cap > KEEP_MAX)
        buf_free(b);
    else if (b->p)
        buf_clear(b);
}

/* Called with the lock held and a member given. Takes the member, compresses it, waits until it is
 * `turn`, writes it, and increments `turn`. Nothing is written after an error, so the file never
 * lacks a member in the middle. */
static void pack_next(struct gzip_writer *g, struct packer *p, struct buf *out)
{
    struct thread_group *t = &g->threads;
    struct err e = {0};
    uint64_t number = g->taken++;
    struct member *m = &g->ring[number % g->ring_size];
    pthread_mutex_unlock(&t->lock);
    buf_clear(out);
    if (!p || packer_pack(p, m->text.p, m->text.len, out) < 0)
        err_set(&e, ERR_SYSTEM, 0, "compression of %s failed", g->name);
    pthread_mutex_lock(&t->lock);
    while (!t->stop && g->turn != number)
        pthread_cond_wait(&t->changed, &t->lock);
    if (t->stop)
        return;
    pthread_mutex_unlock(&t->lock);
    if (e.cls == ERR_NONE)
        gzip_put(g, m, out, &e);
    gzip_give_back(out);
    pthread_mutex_lock(&t->lock);
    if (e.cls != ERR_NONE)
        thread_group_fail(t, &e);
    g->bytes -= m->text.len;
    gzip_give_back(&m->text);
    g->turn++;
    pthread_cond_broadcast(&t->changed);
}

static void packing_thread(void *arg)
{
    struct gzip_writer *g = arg;
    struct thread_group *t = &g->threads;
    struct packer *p = packer_new(g->level);
    SCOPED(buf_free) struct buf out = {0};
    pthread_mutex_lock(&t->lock);
    while (!t->stop)
        if (g->taken == g->given)
            pthread_cond_wait(&t->changed, &t->lock);
        else
            pack_next(g, p, &out);
    pthread_mutex_unlock(&t->lock);
    packer_free(p);
}

/* ---- the caller's thread ---- */

/* A member longer than BYTES_MAX is accepted when no other one is in flight. */
static bool gzip_room(const struct gzip_writer *g, size_t len)
{
    return g->given - g->turn < g->ring_size &&
           (g->given == g->turn || (len <= BYTES_MAX && g->bytes <= BYTES_MAX - len));
}

/* Puts the text into the ring, and returns the empty buffer from its place. If no thread could be
 * started, compresses and writes the member here. */
static int pass_on(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    struct thread_group *t = &g->threads;
    pthread_mutex_lock(&t->lock);
    while (!t->stop && !gzip_room(g, text->len))
        pthread_cond_wait(&t->changed, &t->lock);
    if (!t->stop) {
        struct member *m = &g->ring[g->given % g->ring_size];
        struct buf back = m->text;
        *m = (struct member){.text = *text, .tag = tag};
        *text = back;
        g->given++;
        g->bytes += m->text.len;
        pthread_cond_broadcast(&t->changed);
    }
    if (!t->stop && !t->count) {
        SCOPED(buf_free) struct buf out = {0};
        struct packer *p = packer_new(g->level);
        pack_next(g, p, &out);
        packer_free(p);
    }
    int rc = t->stop ? err_pass(e, &t->failed) : 0;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static int base_gzip_give(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    g->plain += text->len;
    if (!g->ring_size) { /* the first one */
        unsigned want = thread_processors(THREADS_MAX);
        g->ring_size = 2 * want + 2;
        while (g->threads.count < want && thread_group_start(&g->threads, packing_thread, g) == 0)
            ;
    }
    int rc = pass_on(g, tag, text, e);
    gzip_give_back(text);
    buf_reserve(text, GZIP_MEMBER);
    return rc;
}

/* Ends the member being filled, if there is one. */
static int member_end(struct gzip_writer *g, struct err *e)
{
    if (!g->open)
        return gzip_failed(g, e);
    g->open = false;
    return base_gzip_give(g, 0, &g->gathered, e);
}

int gzip_give(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    if (member_end(g, e) < 0) {
        buf_clear(text);
        return -1;
    }
    return base_gzip_give(g, tag, text, e);
}

int gzip_write(struct gzip_writer *g, const void *data, size_t len, struct err *e)
{
    const char *p = data;
    if (gzip_failed(g, e) < 0)
        return -1;
    g->open = true;
    while (len) {
        size_t n = GZIP_MEMBER - g->gathered.len;
        if (n > len)
            n = len;
        g->open = true;
        buf_add(&g->gathered, p, n);
        p += n;
        len -= n;
        if (g->gathered.len == GZIP_MEMBER && member_end(g, e) < 0)
            return -1;
    }
    return 0;
}

int gzip_flush(struct gzip_writer *g, struct err *e)
{
    pthread_mutex_lock(&g->threads.lock);
    while (!g->threads.stop && g->turn != g->given)
        pthread_cond_wait(&g->threads.changed, &g->threads.lock);
    pthread_mutex_unlock(&g->threads.lock);
    return gzip_failed(g, e);
}

uint64_t gzip_plain_bytes(const struct gzip_writer *g)
{
    return g->plain + g->gathered.len;
}

uint64_t gzip_packed_bytes(struct gzip_writer *g)
{
    pthread_mutex_lock(&g->threads.lock);
    uint64_t n = g->packed;
    pthread_mutex_unlock(&g->threads.lock);
    return n;
}

void gzip_abort(struct gzip_writer *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->threads.lock);
    g->threads.stop = true;
    pthread_cond_broadcast(&g->threads.changed);
    pthread_mutex_unlock(&g->threads.lock);
    thread_group_wait(&g->threads, 0, NULL, NULL);
    for (size_t i = 0; i < RING; i++)
        buf_free(&g->ring[i].text);
    buf_free(&g->gathered);
    thread_group_end(&g->threads);
    EVP_MD_CTX_free(g->sha);
    free(g->name);
    free(g);
}

int gzip_close(struct gzip_writer *g, char sha256[SHA256_HEX], struct err *e)
{
    int rc = member_end(g, e) < 0 || gzip_flush(g, e) < 0 ? -1 : 0;
    if (rc == 0)
        gzip_sha_hex(g->sha, sha256);
    gzip_abort(g);
    return rc;
}
