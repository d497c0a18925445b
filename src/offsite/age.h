/* Files of age v1 (c2sp.org/age): encrypted for one or several X25519 recipients, so that the
 * machine that writes cannot read. Compatible with age(1).
 *
 * Both directions are pushed: the caller passes bytes in, and a sink receives the output. A reader
 * passes only authenticated bytes to its sink; it is complete only when age_read_end() has returned
 * 0. Errors stick. About 130 KiB of memory each; for one thread at a time. Keys and plaintext are
 * overwritten before their memory is freed. */
#ifndef WK_OFFSITE_AGE_H
#define WK_OFFSITE_AGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define AGE_KEY 32u
#define AGE_KEYS_MAX 20u
#define AGE_PLAIN_MAX (UINT64_MAX / 2) /* bytes: age_size() of more would overflow */
/* bytes; for many recipients, and for unsupported kinds of recipients */
#define AGE_HEADER_MAX 65536u

/* Recipients or identities (age_keys.h): plain data. Starts as {0}; identities are wiped by their
 * owner. */
struct age_keys {
    unsigned char key[AGE_KEYS_MAX][AGE_KEY];
    size_t count;
};
/* Receives the output of age_write.h and age_read.h. */
typedef int age_sink_fn(void *arg, const void *data, size_t len, struct err *e);

#endif
