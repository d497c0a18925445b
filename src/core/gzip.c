#include "core/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/codec.h"
#include "core/file.h"
#include "core/gzip_int.h"
#include "core/thread.h"

#define THREADS_MAX 4
#define RING (2 * THREADS_MAX + 2) /* members on their way at most, with all threads */
#define BYTES_MAX (32u << 20)      /* of their texts, unless one alone is longer */
#define KEEP_MAX (4u << 20)        /* a buffer that one long row made larger is given back */
#define STACK (256u << 10)

struct member {
    struct buf text; /* between two members: an empty buffer that is handed to the next giver */
    uint64_t tag;
};

/* Members have numbers. given >= taken >= turn: those below `turn` are in the file, the next ones
 * are being packed, the rest waits in the ring. Who packed number `turn` has the turn: it alone
 * writes, hashes and counts, until it passes it on. */
struct gzip_writer {
    int fd;
    char *name;
    int level;

    /* the giving thread's own */
    struct buf gathered;
    bool open; /* a member is being gathered */
    uint64_t plain;
    bool started;
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
    unsigned ring_size;
    struct packer *here; /* where no thread could be started */
    struct buf here_out;

    /* of who has the turn */
    EVP_MD_CTX *sha;

    pthread_mutex_t lock; /* for all that follows */
    pthread_cond_t work;  /* a member was given, or the threads shall end */
    pthread_cond_t moved; /* the turn was passed on */
    struct member ring[RING];
    uint64_t given, taken, turn;
    size_t bytes; /* of the texts on their way */
    uint64_t packed;
    struct err failed;
    bool quit;
    gzip_member_fn *on_member;
    void *member_arg;
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

int gzip_stuck(const struct err *failed, struct err *e)
{
    if (e)
        *e = *failed;
    return -1;
}

struct gzip_writer *gzip_open(int fd, const char *name, int level, struct err *e)
{
    struct packer *tried = packer_new(level);
    EVP_MD_CTX *sha = gzip_sha_new();
    if (!tried || !sha) {
        err_set(e, ERR_SYSTEM, 0, "cannot set up compression of %s", name);
        packer_free(tried);
        EVP_MD_CTX_free(sha);
        return NULL;
    }
    packer_free(tried);
    struct gzip_writer *g = xcalloc(1, sizeof *g);
    g->fd = fd;
    g->name = xstrdup(name);
    g->level = level;
    g->sha = sha;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->work, NULL);
    pthread_cond_init(&g->moved, NULL);
    return g;
}

void gzip_on_member(struct gzip_writer *g, gzip_member_fn *fn, void *arg)
{
    pthread_mutex_lock(&g->lock);
    g->on_member = fn;
    g->member_arg = arg;
    pthread_mutex_unlock(&g->lock);
}

static int failed(struct gzip_writer *g, struct err *e)
{
    pthread_mutex_lock(&g->lock);
    int rc = g->failed.cls == ERR_NONE ? 0 : gzip_stuck(&g->failed, e);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

/* ---- who packs ---- */

static int pack(struct gzip_writer *g, struct packer *p, const struct buf *text, struct buf *out,
                struct err *e)
{
    buf_clear(out);
    if (!p || packer_pack(p, text->p, text->len, out) < 0)
        return err_set(e, ERR_SYSTEM, 0, "compression of %s failed", g->name);
    return 0;
}

/* By who has the turn. */
static int put(struct gzip_writer *g, const struct member *m, const struct buf *out, struct err *e)
{
    if (file_write_all(g->fd, out->p, out->len) < 0)
        return err_sys(e, errno, "cannot write %s", g->name);
    EVP_DigestUpdate(g->sha, out->p, out->len);
    pthread_mutex_lock(&g->lock);
    uint64_t offset = g->packed;
    g->packed += out->len;
    gzip_member_fn *fn = g->on_member;
    void *arg = g->member_arg;
    pthread_mutex_unlock(&g->lock);
    if (fn)
        fn(arg, m->tag, offset, out->len, m->text.len);
    return 0;
}

static void give_back(struct buf *b)
{
    if (b->cap > KEEP_MAX)
        buf_free(b);
    else if (b->p)
        buf_clear(b);
}

/* The next member for a packing thread; false: end. */
static bool take(struct gzip_writer *g, uint64_t *number, bool *pointless)
{
    pthread_mutex_lock(&g->lock);
    while (!g->quit && g->taken == g->given)
        pthread_cond_wait(&g->work, &g->lock);
    bool more = !g->quit;
    if (more)
        *number = g->taken++;
    *pointless = g->failed.cls != ERR_NONE;
    pthread_mutex_unlock(&g->lock);
    return more;
}

/* Waits for the turn, writes, passes the turn on. Nothing is written behind an error: members are
 * all there up to some place, or not there. */
static void hand_in(struct gzip_writer *g, uint64_t number, const struct buf *out, struct err *e)
{
    struct member *m = &g->ring[number % g->ring_size];
    pthread_mutex_lock(&g->lock);
    while (g->turn != number)
        pthread_cond_wait(&g->moved, &g->lock);
    bool go_on = e->cls == ERR_NONE && g->failed.cls == ERR_NONE && !g->quit;
    pthread_mutex_unlock(&g->lock);
    if (go_on)
        put(g, m, out, e);
    pthread_mutex_lock(&g->lock);
    if (e->cls != ERR_NONE && g->failed.cls == ERR_NONE)
        g->failed = *e;
    g->bytes -= m->text.len;
    give_back(&m->text);
    g->turn++;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

static void *packing_thread(void *arg)
{
    struct gzip_writer *g = arg;
    struct packer *p = packer_new(g->level);
    struct buf out = {0};
    uint64_t number;
    bool pointless;
    while (take(g, &number, &pointless)) {
        struct err e = {0};
        if (!pointless)
            pack(g, p, &g->ring[number % g->ring_size].text, &out, &e);
        hand_in(g, number, &out, &e);
        give_back(&out);
    }
    buf_free(&out);
    packer_free(p);
    return NULL;
}

static void start(struct gzip_writer *g)
{
    if (g->started)
        return;
    g->started = true;
    unsigned want = thread_processors(THREADS_MAX);
    g->ring_size = 2 * want + 2;
    for (; g->thread_count < want; g->thread_count++)
        if (thread_start(&g->threads[g->thread_count], STACK, packing_thread, g) != 0)
            break;
}

static void stop(struct gzip_writer *g)
{
    pthread_mutex_lock(&g->lock);
    g->quit = true;
    pthread_cond_broadcast(&g->work);
    pthread_mutex_unlock(&g->lock);
    for (unsigned i = 0; i < g->thread_count; i++)
        pthread_join(g->threads[i], NULL);
    g->thread_count = 0;
}

/* ---- who gives ---- */

static int pack_here(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    struct member m = {.text = *text, .tag = tag};
    struct err why = {0};
    if (failed(g, e) < 0)
        return -1;
    if (!g->here)
        g->here = packer_new(g->level);
    if (pack(g, g->here, text, &g->here_out, &why) < 0 || put(g, &m, &g->here_out, &why) < 0) {
        pthread_mutex_lock(&g->lock);
        g->failed = why;
        pthread_mutex_unlock(&g->lock);
    }
    give_back(&g->here_out);
    return failed(g, e);
}

static bool room(const struct gzip_writer *g, size_t len)
{
    return g->given - g->turn < g->ring_size &&
           (g->given == g->turn || (len <= BYTES_MAX && g->bytes <= BYTES_MAX - len));
}

static int pass_on(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&g->lock);
    while (g->failed.cls == ERR_NONE && !room(g, text->len))
        pthread_cond_wait(&g->moved, &g->lock);
    if (g->failed.cls != ERR_NONE) {
        rc = gzip_stuck(&g->failed, e);
    } else {
        struct member *m = &g->ring[g->given % g->ring_size];
        struct buf back = m->text;
        *m = (struct member){.text = *text, .tag = tag};
        *text = back;
        g->given++;
        g->bytes += m->text.len;
        pthread_cond_signal(&g->work);
    }
    pthread_mutex_unlock(&g->lock);
    return rc;
}

static int give(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    g->plain += text->len;
    start(g);
    int rc = g->thread_count ? pass_on(g, tag, text, e) : pack_here(g, tag, text, e);
    give_back(text);
    buf_reserve(text, GZIP_MEMBER);
    return rc;
}

int gzip_member_end(struct gzip_writer *g, struct err *e)
{
    if (!g->open)
        return failed(g, e);
    g->open = false;
    return give(g, 0, &g->gathered, e);
}

int gzip_give(struct gzip_writer *g, uint64_t tag, struct buf *text, struct err *e)
{
    if (gzip_member_end(g, e) < 0) {
        buf_clear(text);
        return -1;
    }
    return give(g, tag, text, e);
}

int gzip_write(struct gzip_writer *g, const void *data, size_t len, struct err *e)
{
    const char *p = data;
    if (failed(g, e) < 0)
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
        if (g->gathered.len == GZIP_MEMBER && gzip_member_end(g, e) < 0)
            return -1;
    }
    return 0;
}

int gzip_flush(struct gzip_writer *g, struct err *e)
{
    pthread_mutex_lock(&g->lock);
    while (g->failed.cls == ERR_NONE && g->turn != g->given)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return failed(g, e);
}

uint64_t gzip_plain_bytes(const struct gzip_writer *g)
{
    return g->plain + g->gathered.len;
}

uint64_t gzip_packed_bytes(struct gzip_writer *g)
{
    pthread_mutex_lock(&g->lock);
    uint64_t n = g->packed;
    pthread_mutex_unlock(&g->lock);
    return n;
}

void gzip_abort(struct gzip_writer *g)
{
    if (!g)
        return;
    stop(g);
    for (size_t i = 0; i < RING; i++)
        buf_free(&g->ring[i].text);
    buf_free(&g->gathered);
    buf_free(&g->here_out);
    packer_free(g->here);
    pthread_cond_destroy(&g->moved);
    pthread_cond_destroy(&g->work);
    pthread_mutex_destroy(&g->lock);
    EVP_MD_CTX_free(g->sha);
    free(g->name);
    free(g);
}

int gzip_close(struct gzip_writer *g, char sha256[SHA256_HEX], struct err *e)
{
    int rc = gzip_member_end(g, e) < 0 || gzip_flush(g, e) < 0 ? -1 : 0;
    if (rc == 0)
        gzip_sha_hex(g->sha, sha256);
    gzip_abort(g);
    return rc;
}
