/* Reads a dump from the disk and proves it whole: size, gzip, text, trailer, rows and content of
 * each table, SHA-256, all against its manifest.
 *
 * Either in one go (verify_dump), or in parts by several threads (verify_open): the part of each
 * table, the rest, and the hash of the file. A restore reads its rows through the parts, so that
 * what was checked is what is loaded. */
#ifndef WK_DUMP_VERIFY_H
#define WK_DUMP_VERIFY_H

#include "core/progress.h"
#include "dump/format.h"
#include "store/manifest.h"

/* `file` is the name inside dirfd (NAME.sql.gz or its .part). */
int verify_dump(int dirfd, const char *file, const struct manifest *m, struct progress *progress,
                struct err *e);

/* What a reading from start to end found; for a dump that is still being written its manifest does
 * not exist yet. */
struct verify_seen {
    struct verify_table {
        char *name;
        uint64_t rows, hash;
    } * tables;
    size_t count;
    uint64_t rows, bytes; /* bytes of SQL */
    char sha256[SHA256_HEX];
};
int verify_read(struct gunzip *in, const char *name, struct verify_seen *out,
                struct progress *progress, struct err *e);
/* Is it what the manifest says? ERR_DAMAGED with the first difference. */
int verify_compare(const struct verify_seen *seen, const char *name, const struct manifest *m,
                   struct err *e);
void verify_seen_free(struct verify_seen *seen);
/* Has the open file as many bytes as the manifest says? ERR_DAMAGED where not. */
int verify_size(int fd, const char *name, const struct manifest *m, struct err *e);

/* The parts. Any thread may read any part, each at its own pace; `m` must outlive it. The bytes of
 * the file belong to one part each, so that all parts and the hash together prove what verify_dump
 * does. */
struct verify_file;
struct verify_file *verify_open(int dirfd, const char *file, const struct manifest *m,
                                struct err *e);
/* One table's part, item after item: FORMAT_CREATE, FORMAT_ROWS …, FORMAT_END once all was as the
 * manifest says. */
struct verify_part;
struct verify_part *verify_part_open(struct verify_file *v, size_t table, struct err *e);
int verify_part_next(struct verify_part *p, struct format_item *item, struct err *e);
void verify_part_close(struct verify_part *p);
/* An error from it ends the reading. */
typedef int verify_fn(void *arg, const struct format_item *item, struct err *e);
/* Header, definitions, trailer. */
int verify_rest(struct verify_file *v, verify_fn *fn, void *arg, struct err *e);
/* SHA-256 of the file; `stop` (may be NULL) turning true ends it early, with -1 and ERR_NONE. */
int verify_hash(struct verify_file *v, const _Atomic bool *stop, struct err *e);
void verify_close(struct verify_file *v);

#endif
