#include "store/signature.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/file.h"
#include "base/js.h"
#include "base/text.h"

#define FIELD "hmac"

static struct {
    const struct config *from;
    struct buf key, old; /* empty: no key */
} keys;

/* Reads a key. A short one could be guessed from a dump and its signature, which are not secret. */
static int signature_read_key(const char *name, const char *file, struct buf *out, struct err *e)
{
    if (!file)
        return 0;
    int rc = file_read_secret(file, out, e);
    if (rc == 0 && out->len < SIGNATURE_KEY_MIN) {
        rc = err_set(e, ERR_CONFIG, 0, "the key has %zu characters; allowed: at least %d", out->len,
                     SIGNATURE_KEY_MIN);
        err_hint(e, "to create a key: openssl rand -hex 32");
    }
    if (rc < 0)
        err_step(e, "[dump] %s", name);
    return rc;
}

int signature_open(const struct config *c, struct err *e)
{
    struct buf key = {0}, old = {0};
    if (keys.from == c)
        return 0;
    if (signature_read_key("hmac_key_file", c->hmac_key_file, &key, e) < 0 ||
        signature_read_key("hmac_old_key_file", c->hmac_old_key_file, &old, e) < 0) {
        buf_free(&key);
        buf_free(&old);
        return -1;
    }
    bool same =
        key.len == keys.key.len && (key.len == 0 || memcmp(key.p, keys.key.p, key.len) == 0);
    buf_free(&keys.key);
    buf_free(&keys.old);
    keys.from = c;
    keys.key = key;
    keys.old = old;
    return same ? 0 : 1;
}

bool signature_on(void)
{
    return keys.key.len > 0;
}

/* Joins both in one buffer, because libcrypto's HMAC takes its input in one piece. */
static int signature_digest(const struct buf *key, const char *front, const void *p, size_t n,
                            unsigned char signature[SIGNATURE_BYTES])
{
    SCOPED(buf_free) struct buf b = {0};
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    buf_adds(&b, front);
    buf_add(&b, p, n);
    bool done = HMAC(EVP_sha256(), key->p, (int)key->len, (unsigned char *)b.p, b.len, md, &len);
    if (!done || len != SIGNATURE_BYTES)
        return -1;
    memcpy(signature, md, SIGNATURE_BYTES);
    return 0;
}

int signature_bytes(const char *front, const void *p, size_t len,
                    unsigned char signature[SIGNATURE_BYTES])
{
    return signature_on() ? signature_digest(&keys.key, front, p, len, signature) : -1;
}

/* Checks a signature in constant time. */
static bool made_by(const struct buf *key, const char *front, const void *p, size_t len,
                    const unsigned char signature[SIGNATURE_BYTES])
{
    unsigned char made[SIGNATURE_BYTES];
    return key->len && signature_digest(key, front, p, len, made) == 0 &&
           CRYPTO_memcmp(made, signature, SIGNATURE_BYTES) == 0;
}

bool signature_bytes_good(const char *front, const void *p, size_t len,
                          const unsigned char signature[SIGNATURE_BYTES])
{
    /* `|`, not `||`, so that both keys are always tried. */
    return made_by(&keys.key, front, p, len, signature) |
           made_by(&keys.old, front, p, len, signature);
}

bool signature_sum(const json_t *o, const char *const *without, char hex[SHA256_HEX])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    SCOPED(xfree) char *s = js_canonical(o, without);
    bool ok = s && EVP_Digest(s, strlen(s), md, NULL, EVP_sha256(), NULL) == 1;
    if (ok)
        text_hex(md, SHA256_BYTES, hex);
    return ok;
}

/* Returns the signed bytes of an object; NULL: not possible, for instance not UTF-8. */
static char *signature_canonical(const json_t *o)
{
    static const char *const without[] = {FIELD, NULL};
    return js_canonical(o, without);
}

int signature_add(json_t *o, const char *front)
{
    unsigned char signature[SIGNATURE_BYTES];
    char hex[SHA256_HEX];
    if (!signature_on())
        return 0;
    SCOPED(xfree) char *text = signature_canonical(o);
    if (!text || signature_bytes(front, text, strlen(text), signature) < 0)
        return -1;
    text_hex(signature, sizeof signature, hex);
    return json_object_set_new(o, FIELD, json_string(hex));
}

enum signature signature_check(const json_t *o, const char *front)
{
    unsigned char signature[SIGNATURE_BYTES];
    if (!signature_on())
        return SIGNATURE_UNASKED;
    if (!json_object_get(o, FIELD))
        return SIGNATURE_MISSING;
    SCOPED(xfree) char *text =
        text_unhex(js_text(o, FIELD), signature, sizeof signature) ? signature_canonical(o) : NULL;
    bool good = text && signature_bytes_good(front, text, strlen(text), signature);
    return good ? SIGNATURE_GOOD : SIGNATURE_WRONG;
}
