/* The cryptography of age v1 (c2sp.org/age). All primitives are libcrypto's; only their order is
 * ours. The format was chosen because a copy must be readable without worldkeeper: `age -d` reads
 * it.
 *
 * - X25519 agrees on a key with a recipient whose secret half is not on this machine, so the
 *   machine that writes cannot read.
 * - HKDF derives separate keys for wrapping, header and payload.
 * - ChaCha20-Poly1305 makes each chunk and its position tamper-proof. */
#ifndef WK_OFFSITE_AGE_CRYPTO_H
#define WK_OFFSITE_AGE_CRYPTO_H

#include <stdbool.h>

#include "base/text.h"
#include "offsite/age.h"

/* The format's texts and numbers. */
#define AGE_VERSION "age-encryption.org/v1\n"
#define AGE_STANZA "-> X25519 "
#define AGE_MAC "---"
#define AGE_FILE_KEY 16u
#define AGE_NONCE 16u
#define AGE_TAG 16u
#define AGE_CHUNK 65536u
#define AGE_B64 43u /* characters of 32 bytes, without padding */
/* Computes the key that wraps a file's key, from X25519 of two keys. `share` and `recipient`: the
 * public ones. */
struct age_wrap {
    unsigned char secret[AGE_KEY]; /* the caller's secret key */
    unsigned char peer[AGE_KEY];   /* the other's public key */
    unsigned char share[AGE_KEY], recipient[AGE_KEY];
};

/* sets the error for a failure of libcrypto; returns -1 */
int age_failed(const char *what, struct err *e);
/* Computes the public key of a secret one. */
int age_public(const unsigned char secret[AGE_KEY], unsigned char out[AGE_KEY], struct err *e);
int age_wrap_key(const struct age_wrap *w, unsigned char out[AGE_KEY], struct err *e);
/* HKDF-SHA-256 with one block of output; `salt` may be empty. */
int age_derive(const void *key, size_t len, const void *salt, size_t salt_len, const char *info,
               unsigned char out[AGE_KEY], struct err *e);
/* Computes the MAC of a header up to and including "---". */
int age_header_mac(const unsigned char file_key[AGE_FILE_KEY], const struct buf *header,
                   unsigned char out[AGE_KEY], struct err *e);
/* ChaCha20-Poly1305; the tag follows the text. */
int age_seal(const unsigned char key[AGE_KEY], const unsigned char nonce[12], const void *in,
             size_t len, unsigned char *out, struct err *e);
/* Returns false if it is not authentic, or libcrypto failed; `out` is wiped then. */
bool age_unseal(const unsigned char key[AGE_KEY], const unsigned char nonce[12], const void *in,
                size_t len, unsigned char *out);
/* Computes the nonce of the chunk with this number. */
void age_chunk_nonce(uint64_t number, bool last, unsigned char out[12]);
/* Encodes 32 bytes in Base64 without padding. */
void age_base64(const unsigned char in[AGE_KEY], char out[AGE_B64 + 1]);
bool age_unbase64(const char *in, size_t len, unsigned char out[AGE_KEY]);

#endif
