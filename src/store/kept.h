/* Small JSON files in the dump directory that outlive the process that wrote them. Written with
 * file_commit(). If an HMAC key is configured they are signed; the signature covers the file name
 * too, so that one file cannot be passed off as another. */
#ifndef WK_STORE_KEPT_H
#define WK_STORE_KEPT_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/* 1: read, and correctly signed if a key is configured; 0: not there; -1: ERR_REFUSED for a file
 * without a valid signature, ERR_DAMAGED for malformed content, or ERR_SYSTEM. *out is NULL unless
 * the result is 1; the caller releases it. */
int kept_load(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* The same for a file that only we can have made (file_read_private()). */
int kept_load_private(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* The same, whether or not it is signed: for what does no harm if somebody else has written it. */
int kept_load_unsigned(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* Takes ownership of `o`. Content that kept_load() could not read again (longer than `limit`, not
 * UTF-8) is not written. */
int kept_save(int dirfd, const char *name, size_t limit, json_t *o, struct err *e);

/* When root has written a file, the service must still be able to read it: it gets the owner of its directory. */
int kept_give(int dirfd, const char *name, struct err *e);
/* Signs the file as it is, on the caller's word that it is ours; does nothing if it is missing. */
int kept_sign(int dirfd, const char *name, size_t limit, struct err *e);

#endif
