#include "store/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/js.h"
#include "core/text.h"

#define FRONT "worldkeeper manifest 1\n"
#define FIELD "hmac"

static struct {
    const struct config *from;
    struct buf key, old; /* empty: none */
} keys;

static void forget(struct buf *key)
{
    if (key->p)
        explicit_bzero(key->p, key->cap);
    buf_free(key);
}

static int read_key(const char *name, const char *file, struct buf *out, struct err *e)
{
    if (!file)
        return 0;
    int rc = file_read_secret(file, out, e);
    if (rc == 0 && out->len < SEAL_KEY_MIN) {
        rc = err_set(e, ERR_CONFIG, 0, "the key has %zu characters; allowed: at least %d", out->len,
                     SEAL_KEY_MIN);
        err_hint(e, "openssl rand -hex 32 makes one");
    }
    if (rc < 0)
        err_step(e, "[dump] %s", name);
    return rc;
}

int seal_open(const struct config *c, struct err *e)
{
    struct buf key = {0}, old = {0};
    if (keys.from == c)
        return 0;
    if (read_key("hmac_key_file", c->hmac_key_file, &key, e) < 0 ||
        read_key("hmac_old_key_file", c->hmac_old_key_file, &old, e) < 0) {
        forget(&key);
        forget(&old);
        return -1;
    }
    bool same =
        key.len == keys.key.len && (key.len == 0 || memcmp(key.p, keys.key.p, key.len) == 0);
    forget(&keys.key);
    forget(&keys.old);
    keys.from = c;
    keys.key = key;
    keys.old = old;
    return same ? 0 : 1;
}

bool seal_on(void)
{
    return keys.key.len > 0;
}

/* The bytes that are sealed; NULL for what is no manifest. */
static char *canonical(const json_t *manifest)
{
    static const char *const without[] = {FIELD, NULL};
    return js_canonical(manifest, without);
}

static int digest(const struct buf *key, const char *front, const void *p, size_t n,
                  unsigned char seal[SEAL_BYTES])
{
    struct buf b = {0};
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    buf_adds(&b, front);
    buf_add(&b, p, n);
    bool done = HMAC(EVP_sha256(), key->p, (int)key->len, (unsigned char *)b.p, b.len, md, &len);
    buf_free(&b);
    if (!done || len != SEAL_BYTES)
        return -1;
    memcpy(seal, md, SEAL_BYTES);
    return 0;
}

int seal_make(const json_t *manifest, char hex[SHA256_HEX])
{
    unsigned char seal[SEAL_BYTES];
    char *text = canonical(manifest);
    int rc = text && seal_on() ? digest(&keys.key, FRONT, text, strlen(text), seal) : -1;
    if (rc == 0)
        text_hex(seal, sizeof seal, hex);
    free(text);
    return rc;
}

/* Takes as long for a wrong one as for a right one. */
static bool made_by(const struct buf *key, const char *text, const char *hex)
{
    unsigned char seal[SEAL_BYTES];
    char made[SHA256_HEX];
    if (!key->len || digest(key, FRONT, text, strlen(text), seal) < 0)
        return false;
    text_hex(seal, sizeof seal, made);
    return CRYPTO_memcmp(made, hex, SHA256_HEX - 1) == 0;
}

enum seal seal_check(const json_t *manifest)
{
    const char *seal = js_text(manifest, FIELD);
    if (!seal_on())
        return SEAL_UNASKED;
    if (!json_object_get(manifest, FIELD))
        return SEAL_MISSING;
    char *text = strlen(seal) == SHA256_HEX - 1 ? canonical(manifest) : NULL;
    bool good = text && (made_by(&keys.key, text, seal) | made_by(&keys.old, text, seal));
    free(text);
    return good ? SEAL_GOOD : SEAL_WRONG;
}

int seal_bytes(const char *front, const void *p, size_t len, unsigned char seal[SEAL_BYTES])
{
    return seal_on() ? digest(&keys.key, front, p, len, seal) : -1;
}

static bool bytes_by(const struct buf *key, const char *front, const void *p, size_t len,
                     const unsigned char seal[SEAL_BYTES])
{
    unsigned char made[SEAL_BYTES];
    return key->len && digest(key, front, p, len, made) == 0 &&
           CRYPTO_memcmp(made, seal, SEAL_BYTES) == 0;
}

bool seal_bytes_good(const char *front, const void *p, size_t len,
                     const unsigned char seal[SEAL_BYTES])
{
    return bytes_by(&keys.key, front, p, len, seal) || bytes_by(&keys.old, front, p, len, seal);
}
