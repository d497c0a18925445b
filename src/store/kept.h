/* Small JSON files in the dump directory that outlive the process that wrote them. Written with
 * file_commit(). If an HMAC key is configured they are signed; the signature covers the file name
 * too, so that one file cannot be passed off as another. Each has a format number. A file without
 * one is of format 0; it is read, and gets a number when it is written next. */
#ifndef WK_STORE_KEPT_H
#define WK_STORE_KEPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/text.h"

/* The format that kept_save() writes. It is raised when older versions must no longer use such a
 * file. */
#define KEPT_FORMAT 1

/* Returns 1: read, and correctly signed if a key is configured; 0: the file does not exist; -1:
 * ERR_REFUSED for a file without a valid signature or of a newer format, ERR_DAMAGED for malformed
 * content, or ERR_SYSTEM. *out is NULL unless the result is 1; the caller releases it. */
int kept_load(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* Like kept_load(), for the text of such a file that came from elsewhere: 1, or -1. */
int kept_parse(const char *name, const struct buf *text, json_t **out, struct err *e);
/* Like kept_load(), for a file that only this user can have written (file_read_private()). */
int kept_load_private(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* Returns true if the file was refused because a newer version of worldkeeper wrote it. */
bool kept_is_newer(const struct err *e);
/* Sets the error for a file of a newer version, so that kept_is_newer() is true. Returns -1. */
int kept_newer(struct err *e, const char *file, int64_t format, int64_t newest);
/* Like kept_load(), in any format, signed or not: for data that does no harm if another user has
 * written it. */
int kept_load_unsigned(int dirfd, const char *name, size_t limit, json_t **out, struct err *e);
/* Takes ownership of `o`, and adds the format if it has none. Content that kept_load() could not
 * read again (longer than `limit`, not UTF-8) is not written. */
int kept_save(int dirfd, const char *name, size_t limit, json_t *o, struct err *e);

/* Gives the file to the owner of its directory, so that the service can read it after root has
 * written it. */
int kept_give(int dirfd, const char *name, struct err *e);
/* Signs the existing file, because the caller states that it is ours. Does nothing if it is
 * missing. ERR_REFUSED, and the file stays as it is, if its HMAC is wrong: then its content was
 * changed after it was signed. `changed`: such a file is signed, too. */
int kept_sign(int dirfd, const char *name, size_t limit, bool changed, struct err *e);

#endif
