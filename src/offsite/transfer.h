/* Transfers files to a store and back, encrypted on the way there if [offsite] has recipients, and
 * hashed both ways. About 1.5 MiB of memory with libcurl's buffers, regardless of size. */
#ifndef WK_OFFSITE_TRANSFER_H
#define WK_OFFSITE_TRANSFER_H

#include "base/arrival.h"
#include "base/gzip.h"
#include "offsite/age.h"
#include "offsite/remote.h"

struct transfer {
    struct remote *store;
    struct age_keys recipients; /* none: not encrypted */
    struct age_keys identities; /* for reading encrypted files; none: they cannot be read */
    /* Called at each piece; -1 ends the transfer. May be NULL. */
    int (*look)(void *arg, uint64_t bytes, struct err *e);
    void *look_arg;
    struct arrival *arrival; /* is notified of bytes written into a file; NULL: none */
};
/* Reads the keys that the config names. Returns -1 with ERR_CONFIG. */
int transfer_recipients(const struct config_offsite *c, struct age_keys *out, struct err *e);

struct transfer_stored {
    uint64_t size; /* of the object */
    char sha256[SHA256_HEX];
    char plain_sha256[SHA256_HEX]; /* for a put: of the bytes read */
};
/* These store bytes [from, to) of a file, or a text. */
enum remote_result transfer_put(const struct transfer *t, const char *name, int fd, uint64_t from,
                                uint64_t to, struct transfer_stored *out, struct err *e);
enum remote_result transfer_put_text(const struct transfer *t, const char *name, const char *text,
                                     struct transfer_stored *out, struct err *e);
/* Reads it all again. ERR_DAMAGED and REMOTE_REFUSED: the store's bytes differ. */
enum remote_result transfer_check(const struct transfer *t, const char *name,
                                  const struct transfer_stored *is, struct err *e);

/* Fetches into a file, from its current offset; decrypts if `sealed`. `is` describes the object in
 * the store, `plain` what was written. ERR_DAMAGED: it is not an age file, or has more than `most`
 * bytes. */
enum remote_result transfer_get(const struct transfer *t, const char *name, bool sealed,
                                uint64_t most, int fd, struct transfer_stored *is,
                                struct transfer_stored *plain, struct err *e);
enum remote_result transfer_get_text(const struct transfer *t, const char *name, size_t limit,
                                     struct buf *out, struct err *e);

#endif
