/* Reads a dump from the disk and proves it whole: size, gzip, text, trailer, rows and content of
 * each table, SHA-256, all against its manifest. Restore reads through the same code and sees the
 * rows in passing, so that what was checked is what is loaded. */
#ifndef WK_DUMP_VERIFY_H
#define WK_DUMP_VERIFY_H

#include "core/progress.h"
#include "dump/format.h"
#include "store/manifest.h"

/* Sees each item in order; an error from it ends the reading. */
typedef int verify_fn(void *arg, const struct format_item *item, struct err *e);

/* `file` is the name inside dirfd (NAME.sql.gz or its .part). fn may be NULL. */
int verify_dump(int dirfd, const char *file, const struct manifest *m, verify_fn *fn, void *arg,
                struct progress *progress, struct err *e);

#endif
