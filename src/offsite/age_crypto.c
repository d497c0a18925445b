#include "offsite/age_crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

int age_failed(const char *what, struct err *e)
{
    return err_set(e, ERR_SYSTEM, 0, "libcrypto cannot %s", what);
}

int age_public(const unsigned char secret[AGE_KEY], unsigned char out[AGE_KEY], struct err *e)
{
    size_t len = AGE_KEY;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, secret, AGE_KEY);
    bool done = key && EVP_PKEY_get_raw_public_key(key, out, &len) == 1 && len == AGE_KEY;
    EVP_PKEY_free(key);
    return done ? 0 : age_failed("make an X25519 key", e);
}

/* Computes the X25519 shared secret. Fails for a peer value that makes every secret the same, as
 * X25519 requires. */
static bool age_crypto_agree(const struct age_wrap *w, unsigned char out[AGE_KEY])
{
    size_t len = AGE_KEY;
    EVP_PKEY *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, w->secret, AGE_KEY);
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, w->peer, AGE_KEY);
    EVP_PKEY_CTX *c = own ? EVP_PKEY_CTX_new(own, NULL) : NULL;
    bool done = c && peer && EVP_PKEY_derive_init(c) == 1 &&
                EVP_PKEY_derive_set_peer(c, peer) == 1 && EVP_PKEY_derive(c, out, &len) == 1 &&
                len == AGE_KEY;
    EVP_PKEY_CTX_free(c);
    EVP_PKEY_free(peer);
    EVP_PKEY_free(own);
    return done;
}

static bool age_crypto_hmac(const void *key, size_t key_len, const void *data, size_t len,
                            unsigned char out[AGE_KEY])
{
    unsigned got = 0;
    return HMAC(EVP_sha256(), key, (int)key_len, data, len, out, &got) && got == AGE_KEY;
}

/* HKDF-SHA-256 (RFC 5869) of one block, which is all that age needs. HMAC takes less code here
 * than libcrypto's HKDF. */
int age_derive(const void *key, size_t len, const void *salt, size_t salt_len, const char *info,
               unsigned char out[AGE_KEY], struct err *e)
{
    SCOPED(buf_free) struct buf last = {0};
    unsigned char prk[AGE_KEY];
    buf_adds(&last, info);
    buf_addc(&last, 1);
    bool done = age_crypto_hmac(salt, salt_len, key, len, prk) &&
                age_crypto_hmac(prk, sizeof prk, last.p, last.len, out);
    OPENSSL_cleanse(prk, sizeof prk);
    return done ? 0 : age_failed("derive a key", e);
}

/* Both public halves are part of the salt. A stanza that was made for another recipient, or with
 * another share, gives another key and cannot be opened. */
int age_wrap_key(const struct age_wrap *w, unsigned char out[AGE_KEY], struct err *e)
{
    unsigned char shared[AGE_KEY], salt[2 * AGE_KEY];
    memcpy(salt, w->share, AGE_KEY);
    memcpy(salt + AGE_KEY, w->recipient, AGE_KEY);
    int rc = age_crypto_agree(w, shared) ? age_derive(shared, sizeof shared, salt, sizeof salt,
                                                      "age-encryption.org/v1/X25519", out, e)
                                         : age_failed("agree on a key by X25519", e);
    OPENSSL_cleanse(shared, sizeof shared);
    return rc;
}

int age_header_mac(const unsigned char file_key[AGE_FILE_KEY], const struct buf *header,
                   unsigned char out[AGE_KEY], struct err *e)
{
    unsigned char key[AGE_KEY];
    if (age_derive(file_key, AGE_FILE_KEY, "", 0, "header", key, e) < 0)
        return -1;
    bool done = age_crypto_hmac(key, sizeof key, header->p, header->len, out);
    OPENSSL_cleanse(key, sizeof key);
    return done ? 0 : age_failed("compute an HMAC", e);
}

/* Encrypts `in` and appends the tag, as age requires. The caller chooses the nonce and must
 * never use one twice with the same key. */
int age_seal(const unsigned char key[AGE_KEY], const unsigned char nonce[12], const void *in,
             size_t len, unsigned char *out, struct err *e)
{
    int n = 0, rest = 0;
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool done = c && EVP_EncryptInit_ex(c, EVP_chacha20_poly1305(), NULL, key, nonce) == 1 &&
                (len == 0 || EVP_EncryptUpdate(c, out, &n, in, (int)len) == 1) &&
                EVP_EncryptFinal_ex(c, out + n, &rest) == 1 && (size_t)n == len && rest == 0 &&
                EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, (int)AGE_TAG, out + len) == 1;
    EVP_CIPHER_CTX_free(c);
    return done ? 0 : age_failed("encrypt with ChaCha20-Poly1305", e);
}

/* Decrypts `in` and checks its tag. If the tag does not match, the decrypted bytes are erased,
 * because they may be forged. */
bool age_unseal(const unsigned char key[AGE_KEY], const unsigned char nonce[12], const void *in,
                size_t len, unsigned char *out)
{
    unsigned char tag[AGE_TAG];
    int n = 0, rest = 0;
    if (len < AGE_TAG)
        return false;
    len -= AGE_TAG;
    memcpy(tag, (const unsigned char *)in + len, AGE_TAG);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool done = c && EVP_DecryptInit_ex(c, EVP_chacha20_poly1305(), NULL, key, nonce) == 1 &&
                (len == 0 || EVP_DecryptUpdate(c, out, &n, in, (int)len) == 1) &&
                EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, (int)AGE_TAG, tag) == 1 &&
                EVP_DecryptFinal_ex(c, out + n, &rest) == 1 && (size_t)n == len && rest == 0;
    EVP_CIPHER_CTX_free(c);
    if (!done)
        OPENSSL_cleanse(out, len);
    return done;
}

/* The nonce contains number and end, so reordered chunks and a file without its end cannot be
 * opened. */
void age_chunk_nonce(uint64_t number, bool last, unsigned char out[12])
{
    memset(out, 0, 12);
    for (unsigned i = 0; i < 8; i++)
        out[10 - i] = (unsigned char)(number >> (8 * i));
    out[11] = last;
}

void age_base64(const unsigned char in[AGE_KEY], char out[AGE_B64 + 1])
{
    unsigned char padded[AGE_B64 + 2];
    EVP_EncodeBlock(padded, in, (int)AGE_KEY);
    memcpy(out, padded, AGE_B64);
    out[AGE_B64] = 0;
}

/* Accepts only the canonical form: the unused bits of the last character must be 0. */
bool age_unbase64(const char *in, size_t len, unsigned char out[AGE_KEY])
{
    unsigned char padded[AGE_B64 + 1], got[AGE_KEY + 1];
    char again[AGE_B64 + 1];
    if (len != AGE_B64)
        return false;
    memcpy(padded, in, AGE_B64);
    padded[AGE_B64] = '=';
    if (EVP_DecodeBlock(got, padded, sizeof padded) != sizeof got)
        return false;
    age_base64(got, again);
    bool same = memcmp(again, in, AGE_B64) == 0;
    memcpy(out, got, same ? AGE_KEY : 0);
    OPENSSL_cleanse(got, sizeof got);
    return same;
}
