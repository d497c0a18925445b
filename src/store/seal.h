/* Seals: HMAC-SHA256 under a key that is not where the dumps are, over what is sealed behind a line
 * that says what kind of thing it is. Of a manifest, which holds the dump's own SHA-256, so that
 * both are proven to be ours, and unchanged; of the frames of a journal segment.
 *
 * A manifest's is taken over its content without its "hmac", as JSON without blanks and with sorted
 * keys: who copies or indents a manifest does not break it.
 *
 * A process works for one world and has one set of keys, set before the first manifest is read:
 * a caller that forgot to hand them on would take any dump. Not to be set while threads run. */
#ifndef WK_STORE_SEAL_H
#define WK_STORE_SEAL_H

#include <jansson.h>
#include <stdbool.h>

#include "config/config.h"
#include "core/gzip.h"

#define SEAL_KEY_MIN 32 /* characters */
#define SEAL_BYTES 32u  /* of a seal */

enum seal { SEAL_UNASKED /* no key is configured */, SEAL_GOOD, SEAL_MISSING, SEAL_WRONG };

/* Reads the keys that the config names, once for a config. 1: the present key is another one than
 * before. On failure (-1, ERR_CONFIG) those from before stay. */
int seal_open(const struct config *c, struct err *e);
bool seal_on(void);
/* By the present key, which there must be. -1 when libcrypto fails. */
int seal_make(const json_t *manifest, char hex[SHA256_HEX]);
/* By the present key or the old one. */
enum seal seal_check(const json_t *manifest);
/* The same of any bytes; `front` is their kind's line. */
int seal_bytes(const char *front, const void *p, size_t len, unsigned char seal[SEAL_BYTES]);
bool seal_bytes_good(const char *front, const void *p, size_t len,
                     const unsigned char seal[SEAL_BYTES]);

#endif
