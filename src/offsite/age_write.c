#include "offsite/age_write.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#include "offsite/age_crypto.h"
#include "offsite/age_keys.h"

#define STANZA_BYTES (sizeof AGE_STANZA - 1 + AGE_B64 + 1 + AGE_B64 + 1)
#define HEADER_END (sizeof AGE_MAC - 1 + 1 + AGE_B64 + 1)

struct age_writer {
    age_sink_fn *sink;
    void *arg;
    unsigned char key[AGE_KEY];
    uint64_t number;
    size_t filled;
    unsigned char plain[AGE_CHUNK], sealed[AGE_CHUNK + AGE_TAG];
    struct err failed; /* ERR_NONE: no error yet */
};

/* Appends the file's key for one recipient, encrypted with a key that follows only from the
 * recipient's secret or from ours. Our secret is made for this file alone and erased at once, so
 * that the constant nonce here is never used twice with one key. */
static int add_stanza(struct buf *out, const unsigned char recipient[AGE_KEY],
                      const unsigned char file_key[AGE_FILE_KEY], struct err *e)
{
    static const unsigned char nonce[12];
    struct age_wrap w;
    unsigned char key[AGE_KEY], body[AGE_FILE_KEY + AGE_TAG];
    char text[AGE_B64 + 1];
    memcpy(w.peer, recipient, AGE_KEY);
    memcpy(w.recipient, recipient, AGE_KEY);
    int rc = RAND_bytes(w.secret, AGE_KEY) == 1 ? 0 : age_failed("make random bytes", e);
    if (rc == 0)
        rc = age_public(w.secret, w.share, e) < 0 || age_wrap_key(&w, key, e) < 0 ||
                     age_seal(key, nonce, file_key, AGE_FILE_KEY, body, e) < 0
                 ? -1
                 : 0;
    OPENSSL_cleanse(&w.secret, sizeof w.secret);
    OPENSSL_cleanse(key, sizeof key);
    if (rc < 0)
        return -1;
    age_base64(w.share, text);
    buf_printf(out, AGE_STANZA "%s\n", text);
    age_base64(body, text);
    buf_printf(out, "%s\n", text);
    return 0;
}

/* The MAC covers all stanzas, so adding or removing a recipient requires the file's key. */
static int make_header(struct buf *out, const struct age_keys *recipients,
                       const unsigned char file_key[AGE_FILE_KEY], struct err *e)
{
    unsigned char mac[AGE_KEY];
    char text[AGE_B64 + 1];
    buf_adds(out, AGE_VERSION);
    for (size_t i = 0; i < recipients->count; i++)
        if (add_stanza(out, recipients->key[i], file_key, e) < 0)
            return -1;
    buf_adds(out, AGE_MAC);
    if (age_header_mac(file_key, out, mac, e) < 0)
        return -1;
    age_base64(mac, text);
    buf_printf(out, " %s\n", text);
    return 0;
}

static int age_write_begin(struct age_writer *w, const struct age_keys *recipients, struct err *e)
{
    SCOPED(buf_free) struct buf header = {0};
    unsigned char file_key[AGE_FILE_KEY], nonce[AGE_NONCE];
    int rc = RAND_bytes(file_key, AGE_FILE_KEY) == 1 && RAND_bytes(nonce, AGE_NONCE) == 1
                 ? make_header(&header, recipients, file_key, e)
                 : age_failed("make random bytes", e);
    if (rc == 0)
        rc = age_derive(file_key, AGE_FILE_KEY, nonce, AGE_NONCE, "payload", w->key, e);
    OPENSSL_cleanse(file_key, sizeof file_key); /* from here on, only recipients have it */
    if (rc < 0)
        return -1;
    buf_add(&header, nonce, AGE_NONCE);
    return w->sink(w->arg, header.p, header.len, e);
}

struct age_writer *age_write_open(const struct age_keys *recipients, age_sink_fn *sink, void *arg,
                                  struct err *e)
{
    if (recipients->count == 0) {
        err_set(e, ERR_CONFIG, 0, "no recipient is configured");
        return NULL;
    }
    struct age_writer *w = xcalloc(1, sizeof *w);
    w->sink = sink;
    w->arg = arg;
    if (age_write_begin(w, recipients, e) == 0)
        return w;
    age_write_free(w);
    return NULL;
}

static int put_chunk(struct age_writer *w, bool last, struct err *e)
{
    unsigned char nonce[12];
    age_chunk_nonce(w->number++, last, nonce);
    size_t n = w->filled;
    w->filled = 0;
    return age_seal(w->key, nonce, w->plain, n, w->sealed, e) < 0
               ? -1
               : w->sink(w->arg, w->sealed, n + AGE_TAG, e);
}

/* Stores the error: a file that lacks a chunk must not be ended, because a reader would accept
 * that end. */
static int age_write_fail(struct age_writer *w, const struct err *why, struct err *e)
{
    w->failed = *why;
    return err_pass(e, why);
}

/* A full chunk is written only when another byte follows, because the last chunk may be full,
 * but must not be empty after another one. */
int age_write(struct age_writer *w, const void *data, size_t len, struct err *e)
{
    struct err why = {0};
    const unsigned char *p = data;
    if (w->failed.cls != ERR_NONE)
        return err_pass(e, &w->failed);
    while (len > 0) {
        if (w->filled == AGE_CHUNK && put_chunk(w, false, &why) < 0)
            return age_write_fail(w, &why, e);
        size_t n = AGE_CHUNK - w->filled < len ? AGE_CHUNK - w->filled : len;
        memcpy(w->plain + w->filled, p, n);
        w->filled += n;
        p += n;
        len -= n;
    }
    return 0;
}

int age_write_end(struct age_writer *w, struct err *e)
{
    struct err why = {0};
    if (w->failed.cls != ERR_NONE)
        return err_pass(e, &w->failed);
    return put_chunk(w, true, &why) < 0 ? age_write_fail(w, &why, e) : 0;
}

void age_write_free(struct age_writer *w)
{
    if (w)
        OPENSSL_cleanse(w, sizeof *w);
    free(w);
}

/* Returns the size of the file, which is needed before the first byte is sent: some stores
 * require a length, and the size that they list is compared with it. */
uint64_t age_size(size_t recipients, uint64_t plain)
{
    uint64_t chunks = plain == 0 ? 1 : (plain - 1) / AGE_CHUNK + 1;
    return sizeof AGE_VERSION - 1 + recipients * STANZA_BYTES + HEADER_END + AGE_NONCE + plain +
           chunks * AGE_TAG;
}
