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
#define AGE_TEXT 63u /* a recipient as text, with its NUL */

/* Recipients or identities: plain data. Starts as {0}; identities are wiped by their owner. */
struct age_keys {
    unsigned char key[AGE_KEYS_MAX][AGE_KEY];
    size_t count;
};
void age_keys_wipe(struct age_keys *k);
/* Adds "age1…", several separated by commas. ERR_CONFIG names the wrong one and the reason, but
 * never text that could be a secret key. */
int age_recipients(const char *text, struct age_keys *out, struct err *e);
/* Adds those of a file: one per line; empty lines and lines with # are skipped. */
int age_recipients_file(const char *path, struct age_keys *out, struct err *e);
/* Adds those of an identity file as age-keygen(1) writes it, a secret file (file_read_secret()). */
int age_identities_file(const char *path, struct age_keys *out, struct err *e);
/* Computes the recipient that belongs to an identity. */
int age_recipient_of(const unsigned char identity[AGE_KEY], char out[AGE_TEXT], struct err *e);

typedef int age_sink_fn(void *arg, const void *data, size_t len, struct err *e);

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

struct age_reader;
struct age_reader *age_read_open(const struct age_keys *identities, age_sink_fn *sink, void *arg);
/* ERR_DAMAGED: not an age file, or changed since it was written; ERR_CONFIG: for none of the
 * identities. */
int age_read(struct age_reader *r, const void *data, size_t len, struct err *e);
/* Call this after the last byte. ERR_DAMAGED: bytes are missing. */
int age_read_end(struct age_reader *r, struct err *e);
void age_read_free(struct age_reader *r); /* NULL is allowed */

#endif
