/* Reads an age file in pieces of any length with the memory of one chunk. A dump is restored while
 * it is fetched, and may be larger than memory and disk. The file is not trusted, because the store
 * may send anything:
 *
 * - The header has a limit.
 * - Each length is checked before it is used.
 * - No chunk goes to the sink before its tag was checked.
 * - After an error nothing more is read. */
#ifndef WK_OFFSITE_AGE_READ_H
#define WK_OFFSITE_AGE_READ_H

#include "offsite/age.h"

struct age_reader;
struct age_reader *age_read_open(const struct age_keys *identities, age_sink_fn *sink, void *arg);
/* ERR_DAMAGED: not an age file, or changed since it was written; ERR_CONFIG: for none of the
 * identities. */
int age_read(struct age_reader *r, const void *data, size_t len, struct err *e);
/* Call this after the last byte. ERR_DAMAGED: bytes are missing. */
int age_read_end(struct age_reader *r, struct err *e);
void age_read_free(struct age_reader *r); /* NULL is allowed */

#endif
