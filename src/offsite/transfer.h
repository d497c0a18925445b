/* Files to a store and back, encrypted on the way there where [offsite] has recipients, hashed on both
 * ways. About 1.5 MiB of memory with libcurl's buffers, whatever their size. */
#ifndef WK_OFFSITE_TRANSFER_H
#define WK_OFFSITE_TRANSFER_H

#include "base/arrival.h"
#include "base/gzip.h"
#include "offsite/age.h"
#include "offsite/remote.h"

struct transfer {
    struct remote *store;
    struct age_keys recipients; /* none: not encrypted */
    struct age_keys identities; /* to read what is encrypted; none: it cannot be */
    /* Called at each piece: -1 ends it. May be NULL. */
    int (*look)(void *arg, uint64_t bytes, struct err *e);
    void *look_arg;
    struct arrival *arrival; /* is told of what was written into a file; NULL: nobody is */
};
/* Reads the keys that the config names. -1: ERR_CONFIG. */
int transfer_recipients(const struct config_offsite *c, struct age_keys *out, struct err *e);

struct transfer_stored {
    uint64_t size; /* of the object */
    char sha256[SHA256_HEX];
    char plain_sha256[SHA256_HEX]; /* of a put: of what was read */
};
/* Bytes [from, to) of a file, or a text. */
enum remote_result transfer_put(const struct transfer *t, const char *name, int fd, uint64_t from,
                                uint64_t to, struct transfer_stored *out, struct err *e);
enum remote_result transfer_put_text(const struct transfer *t, const char *name, const char *text,
                                     struct transfer_stored *out, struct err *e);
/* Reads it all again. ERR_DAMAGED and REMOTE_REFUSED: the store has other bytes. */
enum remote_result transfer_check(const struct transfer *t, const char *name,
                                  const struct transfer_stored *is, struct err *e);

/* Into a file, from where it is on; decrypted if `sealed`. `is` receives what lies in the store, `plain`
 * what was written. ERR_DAMAGED: it is no age file, or more than `most` bytes come. */
enum remote_result transfer_get(const struct transfer *t, const char *name, bool sealed,
                                uint64_t most, int fd, struct transfer_stored *is,
                                struct transfer_stored *plain, struct err *e);
enum remote_result transfer_get_text(const struct transfer *t, const char *name, size_t limit,
                                     struct buf *out, struct err *e);

#endif
