/* Signatures: HMAC-SHA256 under a key that is not stored with the dumps. The signed bytes follow a
 * line that names their kind, so that a signature of one kind is never valid for another. Three
 * things are signed:
 * - manifests, which hold the SHA-256 of their dump, so that both are proven to be ours and
 *   unchanged
 * - the frames of journal segments
 * - the small files that a restore or a takeover relies on (state, proof, pending, handover, files
 *   of ledgers)
 *
 * JSON is signed without its "hmac", without whitespace and with sorted keys: copying or indenting
 * a manifest does not invalidate its signature.
 *
 * A process works for one world and has one set of keys, set before the first manifest is read: if
 * the keys were a parameter, a caller that forgot them would accept any dump. Must not be set while
 * threads run. */
#ifndef WK_STORE_SIGNATURE_H
#define WK_STORE_SIGNATURE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/gzip.h"
#include "config/config.h"

#define SIGNATURE_KEY_MIN 32 /* minimum characters of a key */
#define SIGNATURE_BYTES 32u  /* length of a signature */

enum signature {
    SIGNATURE_UNASKED /* no key is configured */,
    SIGNATURE_GOOD,
    SIGNATURE_MISSING,
    SIGNATURE_WRONG
};

/* Loads the keys named by the config; does nothing if it was already called with this config.
 * Returns 1 if the current key differs from the previous one, else 0; on failure -1 (ERR_CONFIG),
 * and the previous keys stay. */
int signature_open(const struct config *c, struct err *e);
bool signature_on(void);
/* Computes the SHA-256 of an object without the listed keys (ended by NULL), independent of
 * whitespace and order. Returns false if that failed. */
bool signature_sum(const json_t *o, const char *const *without, char hex[SHA256_HEX]);
/* Adds "hmac" by the current key, if there is one. `front` is the line that names the kind. Returns
 * -1 if `o` is not UTF-8 or libcrypto failed. */
int signature_add(json_t *o, const char *front);
/* Checks a signature. Accepts the current key and the old one. */
enum signature signature_check(const json_t *o, const char *front);
/* Like signature_add(), for any bytes. Returns -1 also if there is no key. */
int signature_bytes(const char *front, const void *p, size_t len,
                    unsigned char signature[SIGNATURE_BYTES]);
bool signature_bytes_good(const char *front, const void *p, size_t len,
                          const unsigned char signature[SIGNATURE_BYTES]);

#endif
