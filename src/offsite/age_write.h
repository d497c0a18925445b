/* Writes an age file piece by piece. The file's key exists only while the header is made. The
 * payload's key is kept until the end of the file. A second attempt at the same upload makes new
 * keys (send_from_start() in transfer.c), so no nonce is ever used for other bytes. */
#ifndef WK_OFFSITE_AGE_WRITE_H
#define WK_OFFSITE_AGE_WRITE_H

#include "offsite/age.h"

struct age_writer;
/* Returns NULL with `e` on failure. */
struct age_writer *age_write_open(const struct age_keys *recipients, age_sink_fn *sink, void *arg,
                                  struct err *e);
int age_write(struct age_writer *w, const void *data, size_t len, struct err *e);
/* Writes the last chunk. Without it a reader considers the file truncated. */
int age_write_end(struct age_writer *w, struct err *e);
void age_write_free(struct age_writer *w); /* NULL is allowed */
/* Returns the size of the file for that many plain bytes. */
uint64_t age_size(size_t recipients, uint64_t plain);

#endif
