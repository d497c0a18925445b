/* Transfers bytes to and from the store, with all processing on the way, in one pass and with the
 * memory of a few pieces.
 *
 * Upload: the file is read, hashed (is it still the dump that its manifest describes?),
 * encrypted, hashed again (what is in the store now) and sent. It is then read back from the
 * store and compared with that hash; only then is it stored. Download: hashed, decrypted,
 * hashed, written. Neither hash comes from what the store reports. */
#include "offsite/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fence.h"
#include "base/file.h"
#include "offsite/age_keys.h"
#include "offsite/age_read.h"
#include "offsite/age_write.h"

#define PIECE 65536u

int transfer_recipients(const struct config_offsite *c, struct age_keys *out, struct err *e)
{
    *out = (struct age_keys){0};
    if (c->plain)
        return 0;
    int rc = c->recipients_file ? age_recipients_file(c->recipients_file, out, e)
                                : age_recipients(c->recipient ? c->recipient : "", out, e);
    return rc < 0
               ? err_step(e, "[offsite] %s", c->recipients_file ? "recipients_file" : "recipient")
               : 0;
}

/* ---- hashing ---- */

struct hash {
    EVP_MD_CTX *md;
    uint64_t size;
    bool failed;
};

static void hash_begin(struct hash *h)
{
    *h = (struct hash){.md = EVP_MD_CTX_new()};
    h->failed = !h->md || EVP_DigestInit_ex(h->md, EVP_sha256(), NULL) != 1;
}

static void hash_add(struct hash *h, const void *p, size_t len)
{
    h->size += len;
    h->failed = h->failed || EVP_DigestUpdate(h->md, p, len) != 1;
}

/* Returns size and hash, and frees `h` in any case. */
static int hash_end(struct hash *h, struct transfer_stored *out, struct err *e)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    bool done = !h->failed && EVP_DigestFinal_ex(h->md, md, NULL) == 1;
    EVP_MD_CTX_free(h->md);
    h->md = NULL;
    *out = (struct transfer_stored){.size = h->size};
    if (!done)
        return err_set(e, ERR_SYSTEM, 0, "libcrypto cannot compute SHA-256");
    text_hex(md, SHA256_BYTES, out->sha256);
    return 0;
}

/* ---- upload ---- */

struct sending {
    const struct transfer *t;
    int fd; /* -1: `text` is sent */
    const char *text;
    uint64_t from, at, to;
    struct age_writer *age; /* NULL: not encrypted, or its end is in `out` */
    struct buf out;         /* bytes from `taken` on: not yet read by the store */
    size_t taken;
    struct hash hash, plain;
};

static int into_out(void *arg, const void *data, size_t len, struct err *e)
{
    (void)e;
    struct sending *s = arg;
    buf_add(&s->out, data, len);
    return 0;
}

static ssize_t read_plain(struct sending *s, char *piece, struct err *e)
{
    size_t n = s->to - s->at < PIECE ? (size_t)(s->to - s->at) : PIECE;
    if (n == 0)
        return 0;
    if (s->fd < 0) {
        memcpy(piece, s->text + s->at, n);
        s->at += n;
        return (ssize_t)n;
    }
    ssize_t got;
    do
        got = pread(s->fd, piece, n, (off_t)s->at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_sys(e, errno, "cannot read what is to be sent");
    if (got == 0)
        return err_set(e, ERR_CHANGED, 0, "the file became shorter while it was sent");
    s->at += (uint64_t)got;
    return got;
}

/* Puts the next bytes into `out`; returns 0 if there are none. */
static int transfer_fill(struct sending *s, struct err *e)
{
    char piece[PIECE];
    s->out.len = s->taken = 0;
    while (s->out.len == 0) {
        ssize_t n = read_plain(s, piece, e);
        if (n < 0)
            return -1;
        if (n > 0)
            hash_add(&s->plain, piece, (size_t)n);
        if (n > 0 && s->t->recipients.count == 0)
            buf_add(&s->out, piece, (size_t)n);
        else if (n > 0 && age_write(s->age, piece, (size_t)n, e) < 0)
            return -1;
        if (n > 0)
            continue;
        if (!s->age)
            return 0;
        int rc = age_write_end(s->age, e);
        age_write_free(s->age);
        s->age = NULL;
        if (rc < 0)
            return -1;
    }
    return 1;
}

static ssize_t send_piece(void *arg, void *data, size_t room, struct err *e)
{
    struct sending *s = arg;
    if (s->t->look && s->t->look(s->t->look_arg, s->hash.size, e) < 0)
        return -1;
    if (s->taken == s->out.len) {
        int got = transfer_fill(s, e);
        if (got <= 0)
            return got;
    }
    /* Another machine may have the world; what it stores is newer. */
    if (fence_check("upload", e) < 0)
        return -1;
    size_t n = s->out.len - s->taken < room ? s->out.len - s->taken : room;
    memcpy(data, s->out.p + s->taken, n);
    hash_add(&s->hash, data, n);
    s->taken += n;
    return (ssize_t)n;
}

/* Sends again from the beginning, with a new key if it is encrypted. */
static int send_from_start(void *arg, struct err *e)
{
    struct sending *s = arg;
    s->at = s->from;
    s->out.len = s->taken = 0;
    age_write_free(s->age);
    s->age = NULL;
    EVP_MD_CTX_free(s->hash.md);
    EVP_MD_CTX_free(s->plain.md);
    hash_begin(&s->hash);
    hash_begin(&s->plain);
    if (s->t->recipients.count)
        s->age = age_write_open(&s->t->recipients, into_out, s, e);
    return s->t->recipients.count && !s->age ? -1 : 0;
}

static enum remote_result offsite_transfer_put(struct sending *s, const char *name,
                                               struct transfer_stored *out, struct err *e)
{
    const struct age_keys *to = &s->t->recipients;
    uint64_t plain = s->to - s->from;
    struct remote_source from = {.read = send_piece,
                                 .arg = s,
                                 .again = send_from_start,
                                 .size = (int64_t)(to->count ? age_size(to->count, plain) : plain)};
    struct transfer_stored read;
    *out = (struct transfer_stored){.size = 0};
    enum remote_result got =
        send_from_start(s, e) < 0 ? REMOTE_STOPPED : remote_put(s->t->store, name, &from, e);
    bool failed = hash_end(&s->hash, out, NULL) < 0;
    failed |= hash_end(&s->plain, &read, NULL) < 0;
    memcpy(out->plain_sha256, read.sha256, sizeof read.sha256);
    if (failed && got == REMOTE_OK) {
        err_set(e, ERR_SYSTEM, 0, "libcrypto cannot compute SHA-256");
        got = REMOTE_STOPPED;
    }
    age_write_free(s->age);
    buf_free(&s->out);
    return got;
}

enum remote_result transfer_put(const struct transfer *t, const char *name, int fd, uint64_t from,
                                uint64_t to, struct transfer_stored *out, struct err *e)
{
    struct sending s = {.t = t, .fd = fd, .from = from, .to = to};
    return offsite_transfer_put(&s, name, out, e);
}

enum remote_result transfer_put_text(const struct transfer *t, const char *name, const char *text,
                                     struct transfer_stored *out, struct err *e)
{
    struct transfer plain = *t;
    plain.recipients.count = 0;
    struct sending s = {.t = &plain, .fd = -1, .text = text, .to = strlen(text)};
    return offsite_transfer_put(&s, name, out, e);
}

/* ---- download ---- */

struct receiving {
    const struct transfer *t;
    struct hash stored, plain;
    struct age_reader *age; /* NULL: not encrypted */
    int fd;                 /* -1: only to `text` */
    struct buf *text;
    uint64_t most; /* limit in bytes, because a store may send endlessly */
};

/* A restore that reads the file meanwhile learns of the new bytes only once they are in the
 * file. */
static int write_plain(void *arg, const void *data, size_t len, struct err *e)
{
    struct receiving *r = arg;
    hash_add(&r->plain, data, len);
    if (r->fd >= 0 && file_write_all(r->fd, data, len) < 0)
        return err_sys(e, errno, "cannot write what the store sends");
    if (r->text)
        buf_add(r->text, data, len);
    struct arrival *a = r->fd >= 0 ? r->t->arrival : NULL;
    return a ? arrival_grown(a, r->plain.size, e) : 0;
}

/* A store that sends more bytes than are possible has other contents, and is stopped at once. */
static int receive_piece(void *arg, const void *data, size_t len, struct err *e)
{
    struct receiving *r = arg;
    if (len > r->most - r->stored.size)
        return err_set(e, ERR_DAMAGED, 0, "longer than the %" PRIu64 " bytes that it may have",
                       r->most);
    hash_add(&r->stored, data, len);
    if (r->t->look && r->t->look(r->t->look_arg, r->stored.size, e) < 0)
        return -1;
    return r->age ? age_read(r->age, data, len, e) : write_plain(r, data, len, e);
}

static enum remote_result offsite_transfer_get(struct receiving *r, const char *name,
                                               struct transfer_stored *is,
                                               struct transfer_stored *plain, struct err *e)
{
    hash_begin(&r->stored);
    hash_begin(&r->plain);
    enum remote_result got = remote_get(r->t->store, name, 0,
                                        &(struct remote_sink){.write = receive_piece, .arg = r}, e);
    if (got == REMOTE_OK && r->age && age_read_end(r->age, e) < 0)
        got = REMOTE_STOPPED;
    age_read_free(r->age);
    bool failed = hash_end(&r->stored, is, NULL) < 0;
    failed |= hash_end(&r->plain, plain, NULL) < 0;
    if (failed && got == REMOTE_OK) {
        err_set(e, ERR_SYSTEM, 0, "libcrypto cannot compute SHA-256");
        return REMOTE_STOPPED;
    }
    if (got == REMOTE_STOPPED)
        err_step(e, "%s", name);
    return got;
}

/* Reads the copy back, because a store that reports success has proved nothing: it may have a
 * cache in front of it, or no disk behind it. This costs as much as the upload, once, for a copy
 * that can be relied on. */
enum remote_result transfer_check(const struct transfer *t, const char *name,
                                  const struct transfer_stored *is, struct err *e)
{
    struct receiving r = {.t = t, .fd = -1, .most = is->size};
    struct transfer_stored there, plain;
    enum remote_result got = offsite_transfer_get(&r, name, &there, &plain, e);
    if (got == REMOTE_MISSING)
        err_step(e, "the store accepted %s but does not have it", name);
    if (got != REMOTE_OK)
        return got == REMOTE_MISSING ? REMOTE_REFUSED : got;
    if (there.size == is->size && strcmp(there.sha256, is->sha256) == 0)
        return REMOTE_OK;
    err_set(e, ERR_DAMAGED, 0,
            "the store returns different contents for %s: %llu bytes with SHA-256 %.12s... instead "
            "of %llu with %.12s...",
            name, (unsigned long long)there.size, there.sha256, (unsigned long long)is->size,
            is->sha256);
    return REMOTE_REFUSED;
}

enum remote_result transfer_get(const struct transfer *t, const char *name, bool sealed,
                                uint64_t most, int fd, struct transfer_stored *is,
                                struct transfer_stored *plain, struct err *e)
{
    struct receiving r = {.t = t, .fd = fd, .most = most};
    if (sealed)
        r.age = age_read_open(&t->identities, write_plain, &r);
    return offsite_transfer_get(&r, name, is, plain, e);
}

enum remote_result transfer_get_text(const struct transfer *t, const char *name, size_t limit,
                                     struct buf *out, struct err *e)
{
    struct receiving r = {.t = t, .fd = -1, .text = out, .most = limit};
    struct transfer_stored is, plain;
    buf_adds(out, "");
    return offsite_transfer_get(&r, name, &is, &plain, e);
}
