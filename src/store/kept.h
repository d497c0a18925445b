/* Small JSON files in the dump directory that outlive the process that wrote them. Written with
 * file_commit(). If an HMAC key is configured they are signed; the signature covers the file name
 * too, so that one file cannot be passed off as another. Each has a format number; a file of a version that wrote
 * none is of format 0, is read, and gets its number when it is written next. */
#ifndef WK_STORE_KEPT_H
#define WK_STORE_KEPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* The format that kept_save() writes. It is raised when older versions must not use such a file any longer. */
#define KEPT_FORMAT 1

/* 1: read, and correctly signed if a key is configured; 0: not there; -1: ERR_REFUSED for a file
 * without a valid signature or of a newer format, ERR_DAMAGED for malformed content, or ERR_SYSTEM. *out is NULL
 * unless the result is 1; the caller releases it. */
int kept_load(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* The same for a file that only we can have made (file_read_private()). */
int kept_load_private(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* Was the file refused because a newer version of worldkeeper wrote it? */
bool kept_is_newer(const struct err *e);
/* Refuses what a newer version wrote, in words: kept_is_newer() is true then. */
int kept_newer(struct err *e, const char *file, int64_t format, int64_t newest);
/* The same, whether or not it is signed, and in whatever format: for what does no harm if somebody else has written it. */
int kept_load_unsigned(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* Takes ownership of `o`, and adds the format where it has none. Content that kept_load() could not read again (longer than `limit`, not
 * UTF-8) is not written. */
int kept_save(int dirfd, const char *name, size_t limit, json_t *o, struct err *e);

/* When root has written a file, the service must still be able to read it: it gets the owner of its directory. */
int kept_give(int dirfd, const char *name, struct err *e);
/* Signs the file as it is, on the caller's word that it is ours; does nothing if it is missing. */
int kept_sign(int dirfd, const char *name, size_t limit, struct err *e);

#endif
