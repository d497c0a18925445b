#include "offsite/age_read.h"

#include <openssl/crypto.h>
#include <string.h>

#include "offsite/age_crypto.h"
#include "offsite/age_keys.h"

enum stage { HEADER, NONCE, PAYLOAD };

struct age_reader {
    struct age_keys identities;
    age_sink_fn *sink;
    void *arg;
    enum stage stage;
    struct buf header;
    unsigned char file_key[AGE_FILE_KEY], nonce[AGE_NONCE], key[AGE_KEY];
    uint64_t number;
    size_t filled; /* bytes of the nonce or of the chunk */
    unsigned char sealed[AGE_CHUNK + AGE_TAG], plain[AGE_CHUNK];
    struct err failed; /* ERR_NONE: no error yet */
};

static int age_read_damaged(struct err *e, const char *what)
{
    return err_set(e, ERR_DAMAGED, 0, "not a valid age file: %s", what);
}

struct age_reader *age_read_open(const struct age_keys *identities, age_sink_fn *sink, void *arg)
{
    struct age_reader *r = xcalloc(1, sizeof *r);
    r->identities = *identities;
    r->sink = sink;
    r->arg = arg;
    return r;
}

/* ---- the header ---- */

/* Returns the line at *at without its end and moves *at to the next line; NULL if there is none. */
static const char *age_read_next_line(const struct buf *b, size_t *at, size_t *len)
{
    const char *line = b->p + *at, *nl = memchr(line, '\n', b->len - *at);
    if (!nl)
        return NULL;
    *len = (size_t)(nl - line);
    *at += *len + 1;
    return line;
}

/* Tries to open the stanza with each identity, because a stanza does not name its recipient.
 * Returns true if one of them gives the file's key. */
static bool age_read_unwrap(struct age_reader *r, const unsigned char share[AGE_KEY],
                            const unsigned char body[AGE_KEY])
{
    static const unsigned char nonce[12];
    unsigned char key[AGE_KEY];
    bool opened = false;
    for (size_t i = 0; i < r->identities.count && !opened; i++) {
        struct age_wrap w;
        memcpy(w.secret, r->identities.key[i], AGE_KEY);
        memcpy(w.peer, share, AGE_KEY);
        memcpy(w.share, share, AGE_KEY);
        opened = age_public(w.secret, w.recipient, NULL) == 0 && age_wrap_key(&w, key, NULL) == 0 &&
                 age_unseal(key, nonce, body, AGE_FILE_KEY + AGE_TAG, r->file_key);
        OPENSSL_cleanse(&w, sizeof w);
    }
    OPENSSL_cleanse(key, sizeof key);
    return opened;
}

/* Reads the body of a stanza: full lines of 64 characters, then a shorter line. */
static const char *stanza_body(const struct buf *b, size_t *at, size_t *len)
{
    size_t n, total = 0;
    const char *line, *first = NULL;
    do {
        line = age_read_next_line(b, at, &n);
        if (!line || n > 64)
            return NULL;
        first = first ? first : line;
        total += n;
    } while (n == 64);
    *len = total;
    return first;
}

static int read_stanza(struct age_reader *r, const char *line, size_t len, size_t *at, bool *opened,
                       struct err *e)
{
    unsigned char share[AGE_KEY], body[AGE_KEY];
    const size_t front = sizeof AGE_STANZA - 1;
    size_t body_len;
    const char *text = stanza_body(&r->header, at, &body_len);
    if (!text)
        return age_read_damaged(e, "a recipient stanza is not terminated");
    if (len < front || memcmp(line, AGE_STANZA, front) != 0)
        return 0; /* a stanza type that is not supported */
    if (!age_unbase64(line + front, len - front, share) || !age_unbase64(text, body_len, body))
        return age_read_damaged(e, "an X25519 recipient stanza is malformed");
    *opened = *opened || age_read_unwrap(r, share, body);
    return 0;
}

/* Checks the header's MAC, which needs the file's key. It proves that the writer of the
 * payload's key also wrote this header. The comparison takes constant time only as a precaution:
 * no attacker can ask twice. */
static int check_mac(struct age_reader *r, const char *line, size_t len, struct err *e)
{
    const size_t front = sizeof AGE_MAC - 1;
    unsigned char said[AGE_KEY], mac[AGE_KEY];
    if (len != front + 1 + AGE_B64 || line[front] != ' ' ||
        !age_unbase64(line + front + 1, AGE_B64, said))
        return age_read_damaged(e, "its header's last line is malformed");
    struct buf upto = {.p = r->header.p, .len = (size_t)(line - r->header.p) + front};
    if (age_header_mac(r->file_key, &upto, mac, e) < 0)
        return -1;
    return CRYPTO_memcmp(mac, said, AGE_KEY) == 0 ? 0
                                                  : age_read_damaged(e, "its header was changed");
}

static int read_header(struct age_reader *r, struct err *e)
{
    size_t at = 0, len;
    bool opened = false;
    const char *line;
    age_read_next_line(&r->header, &at, &len); /* skips the version */
    while ((line = age_read_next_line(&r->header, &at, &len))) {
        if (len >= 3 && memcmp(line, "-> ", 3) == 0) {
            if (read_stanza(r, line, len, &at, &opened, e) < 0)
                return -1;
            continue;
        }
        if (len < 3 || memcmp(line, AGE_MAC, 3) != 0 || at != r->header.len)
            return age_read_damaged(e, "its header has an invalid line");
        if (!opened) {
            err_set(e, ERR_CONFIG, 0, "it is not encrypted for any key in identity_file");
            return err_hint(e, "to list the recipients of an identity file: age-keygen -y FILE");
        }
        return check_mac(r, line, len, e);
    }
    return age_read_damaged(e, "its header is not terminated");
}

/* Reads the bytes that belong to the header, line by line; the last line begins with "---". */
static int64_t take_header(struct age_reader *r, const unsigned char *p, size_t len, struct err *e)
{
    const struct buf *h = &r->header;
    const size_t version = sizeof AGE_VERSION - 1;
    const unsigned char *nl = memchr(p, '\n', len);
    size_t n = nl ? (size_t)(nl - p) + 1 : len, before = h->len;
    if (before + n > AGE_HEADER_MAX)
        return age_read_damaged(e, "its header is too long");
    buf_add(&r->header, p, n);
    size_t seen = h->len < version ? h->len : version;
    if (memcmp(h->p, AGE_VERSION, seen) != 0)
        return age_read_damaged(e, "it does not begin with "
                                   "age-encryption.org/v1");
    if (!nl)
        return (int64_t)n;
    const char *line = h->p + h->len - 1;
    while (line > h->p && line[-1] != '\n')
        line--;
    if (strncmp(line, AGE_MAC, sizeof AGE_MAC - 1) != 0)
        return (int64_t)n;
    if (read_header(r, e) < 0)
        return -1;
    r->stage = NONCE;
    return (int64_t)n;
}

/* ---- nonce and payload ---- */

static size_t age_read_fill(unsigned char *to, size_t *filled, size_t size, const unsigned char *p,
                            size_t len)
{
    size_t n = size - *filled < len ? size - *filled : len;
    memcpy(to + *filled, p, n);
    *filled += n;
    return n;
}

/* Reads the nonce and derives the payload's key. The file's key is not needed after that and is
 * erased. */
static int64_t take_nonce(struct age_reader *r, const unsigned char *p, size_t len, struct err *e)
{
    size_t n = age_read_fill(r->nonce, &r->filled, AGE_NONCE, p, len);
    if (r->filled < AGE_NONCE)
        return (int64_t)n;
    r->filled = 0;
    r->stage = PAYLOAD;
    int rc = age_derive(r->file_key, AGE_FILE_KEY, r->nonce, AGE_NONCE, "payload", r->key, e);
    OPENSSL_cleanse(r->file_key, sizeof r->file_key);
    return rc < 0 ? -1 : (int64_t)n;
}

/* Decrypts a chunk. An empty last chunk is valid only in an empty file. Otherwise one plain text
 * would have two files, and an end could be added to a file that was cut off between two chunks. */
static int open_chunk(struct age_reader *r, bool last, struct err *e)
{
    unsigned char nonce[12];
    size_t n = r->filled;
    r->filled = 0;
    age_chunk_nonce(r->number, last, nonce);
    if (!age_unseal(r->key, nonce, r->sealed, n, r->plain))
        return age_read_damaged(e, last ? "it is truncated or was changed" : "it was changed");
    if (last && n == AGE_TAG && r->number > 0)
        return age_read_damaged(e, "its last chunk is empty");
    r->number++;
    return n == AGE_TAG ? 0 : r->sink(r->arg, r->plain, n - AGE_TAG, e);
}

/* A full chunk is opened only when another byte follows, which shows that it is not the last
 * one. */
static int64_t take_payload(struct age_reader *r, const unsigned char *p, size_t len, struct err *e)
{
    if (r->filled == sizeof r->sealed && open_chunk(r, false, e) < 0)
        return -1;
    return (int64_t)age_read_fill(r->sealed, &r->filled, sizeof r->sealed, p, len);
}

/* Stores the error, so that each later call returns it again instead of reading the bytes after
 * it. */
static int age_read_fail(struct age_reader *r, const struct err *why, struct err *e)
{
    r->failed = *why;
    return err_pass(e, why);
}

int age_read(struct age_reader *r, const void *data, size_t len, struct err *e)
{
    struct err why = {0};
    const unsigned char *p = data;
    if (r->failed.cls != ERR_NONE)
        return err_pass(e, &r->failed);
    while (len > 0) {
        int64_t n = r->stage == HEADER  ? take_header(r, p, len, &why)
                    : r->stage == NONCE ? take_nonce(r, p, len, &why)
                                        : take_payload(r, p, len, &why);
        if (n < 0)
            return age_read_fail(r, &why, e);
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int age_read_end(struct age_reader *r, struct err *e)
{
    struct err why = {0};
    if (r->failed.cls != ERR_NONE)
        return err_pass(e, &r->failed);
    if (r->stage == PAYLOAD && open_chunk(r, true, &why) == 0)
        return 0;
    if (r->stage != PAYLOAD)
        age_read_damaged(&why, "it ends in its header");
    return age_read_fail(r, &why, e);
}

void age_read_free(struct age_reader *r)
{
    if (!r)
        return;
    buf_free(&r->header);
    OPENSSL_cleanse(r, sizeof *r);
    free(r);
}
