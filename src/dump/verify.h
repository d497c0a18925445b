/* Reads a dump from the disk and verifies it against its manifest: size, SHA-256, gzip, text,
 * trailer, rows and content of each table.
 *
 * The file is opened once, and each part of it (dump/parts.h) is read into memory and verified by
 * its SHA-256 before any of it is decompressed: what is parsed, executed or loaded is what the
 * manifest describes and its HMAC covers, even if the file is changed meanwhile. Manifests of older
 * versions list no parts: such a file is first read as a whole, and if its SHA-256 matches, the
 * parts hashed during this pass serve to verify the following ones.
 *
 * Verification runs in one go (verify_dump, verify_whole), or in several threads: each table, and
 * the rest. A restore reads its rows the same way, so that what was checked is what is loaded. */
#ifndef WK_DUMP_VERIFY_H
#define WK_DUMP_VERIFY_H

#include "base/arrival.h"
#include "base/progress.h"
#include "dump/format.h"
#include "store/manifest.h"

/* Opens, reads everything, closes. `file` is a name in dirfd. */
int verify_dump(int dirfd, const char *file, const struct manifest *m, struct progress *progress,
                struct err *e);

/* Reads a file from start to end: its tables with their rows, the bytes of SQL and the SHA-256 are
 * stored in `out`. They are compared later, because a dump that is still being written has no
 * manifest yet (`m` is NULL). With a manifest, a table that it does not list at this place ends the
 * reading with ERR_DAMAGED, so that tables without end take no memory. */
int verify_read(struct gunzip *in, const char *name, const struct manifest *m, struct manifest *out,
                struct progress *progress, struct err *e);
/* Compares it with the manifest. ERR_DAMAGED with the first difference. */
int verify_compare(const struct manifest *seen, const char *name, const struct manifest *m,
                   struct err *e);
/* Compares the open file's size with the manifest. ERR_DAMAGED if it differs. */
int verify_size(int fd, const char *name, const struct manifest *m, struct err *e);

/* An open dump. Any thread may read any table, independently of the others; `m` must outlive it.
 * Reading all tables and the rest proves the same as verify_whole(). `progress` reports the first
 * pass, where one is needed. */
struct verify_file;
struct verify_file *verify_open(int dirfd, const char *file, const struct manifest *m,
                                struct progress *progress, struct err *e);
/* Opens a dump that is still being fetched: readers wait for missing bytes. Only with a manifest
 * that lists parts, each of which is verified as it is read. */
struct verify_file *verify_open_arriving(struct arrival *a, const char *file,
                                         const struct manifest *m, struct err *e);
/* Returns NULL if the file was complete when it was opened. */
struct arrival *verify_arrival(const struct verify_file *v);
/* Ends all waiting for missing bytes. Any thread may call it. */
void verify_give_up(struct verify_file *v);
/* Reads it from start to end. */
int verify_whole(struct verify_file *v, struct progress *progress, struct err *e);
/* One table, item by item: FORMAT_CREATE, FORMAT_ROWS …, and FORMAT_END if all of it matched the
 * manifest. */
struct verify_part;
struct verify_part *verify_part_open(struct verify_file *v, size_t table, struct err *e);
int verify_part_next(struct verify_part *p, struct format_item *item, struct err *e);
void verify_part_close(struct verify_part *p);
/* Appends only its CREATE TABLE to `create`; nothing if there is none. */
int verify_definition(struct verify_file *v, size_t table, struct buf *create, struct err *e);
/* Returns -1 to end the reading. */
typedef int verify_fn(void *arg, const struct format_item *item, struct err *e);
/* Reads header, definitions and trailer. */
int verify_rest(struct verify_file *v, verify_fn *fn, void *arg, struct err *e);
void verify_close(struct verify_file *v);

#endif
