/* Files of rolled-up rows in the dump directory: NAME-SEQUENCE-FIRST-LAST-TIMEZ.csv.gz. FIRST and
 * LAST are the lowest and highest id in it, TIME is when it was written. Its manifest .csv.json
 * beside it is signed like everything in that directory (store/kept.h) and makes the file valid: it
 * is written last, after the file was read back from the disk. */
#ifndef WK_LEDGER_FILES_H
#define WK_LEDGER_FILES_H

#include "base/gzip.h"
#include "config/config.h"
#include "ledger/csv.h"

#define LEDGER_FILE_NAME 160
#define LEDGER_FILES_PART ".csv.gz.part"
#define LEDGER_FILES_GZIP ".csv.gz"
#define LEDGER_FILES_MANIFEST ".csv.json"
#define LEDGER_FILES_MANIFEST_MAX 65536 /* bytes; a manifest has a few hundred */
/* After both endings: the file was moved aside, because a restore went back to a time before it, or
 * another machine took the world over before the file was in the store. */
#define LEDGER_FILES_UNDONE ".undone"

/* Names a file that a world counts. Another life of the world may have written one with the same
 * number, at another time. */
struct ledger_ref {
    bool known;        /* false: which of the files up to `sequence` count is not known */
    uint64_t sequence; /* known and 0: there is none */
    wall_t written;
    uint64_t end; /* rows in totals when the next file was begun: its rows are among these */
};
struct ledger_file {
    char name[LEDGER_FILE_NAME]; /* without .csv.gz */
    uint64_t sequence, first, last;
    wall_t written;
    /* From the manifest, after it was read: */
    uint64_t rows, size, upto;
    uint64_t before; /* rows in totals before this file was begun */
    char sha256[SHA256_HEX];
    struct ledger_ref previous; /* the last file that counted when this one was begun */
};
/* Parses "xp-00000001-1-300-20260131T235959Z" and fills in the name's values. Returns false if it
 * is not a file of `ledger`. */
bool ledger_file_parse(const char *name, size_t len, const char *ledger, struct ledger_file *out);

/* Parses a file name that has this ending, like ledger_file_parse(). */
bool ledger_file_named(const char *file, const char *ending, const char *ledger,
                       struct ledger_file *out);

/* What a world's marker rows (keep.h) say of files. */
struct ledger_filed {
    uint64_t filed, file; /* files after `filed` up to `file` are of interrupted runs */
    /* In whole seconds if it is the time in the name of the last file. */
    wall_t written;
};
/* Pure. Returns the last file that the marker rows name. */
struct ledger_ref ledger_filed_last(const struct ledger_filed *m);

struct ledger_files {
    struct ledger_file *list; /* in order */
    size_t count;
    uint64_t highest; /* highest sequence of any name, including .undone */
};
/* Lists the files, with or without a manifest. */
int ledger_files_list(int dirfd, const char *ledger, struct ledger_files *out, struct err *e);
void ledger_files_free(struct ledger_files *f);
/* Removes the unfinished files of an interrupted run. */
int ledger_files_sweep(int dirfd, const char *ledger, struct err *e);
/* Reads the manifest. ERR_DAMAGED, or ERR_REFUSED without a valid signature. */
int ledger_file_load(int dirfd, struct ledger_file *f, struct err *e);
/* Like ledger_file_load(), for the text of a manifest that came from elsewhere. */
int ledger_file_take(const struct buf *manifest, struct ledger_file *f, struct err *e);
/* Reads the header and all rows. Nothing is unpacked before size and SHA-256 of the file were
 * verified, nor any piece that has changed since then. The number of rows can only be verified at
 * the end. */
int ledger_file_read(int dirfd, const struct ledger_file *f, csv_row_fn *fn, void *arg,
                     struct err *e);
/* Finds the time that retention counts as now (store/retention.h: retention_now()): `wall`, or less
 * if the dumps and the ledger's files in the dump directory prove less. */
int ledger_files_now(int dirfd, const struct config *c, const struct config_ledger *l, wall_t wall,
                     wall_t *out, struct err *e);
/* Removes the files that are older than `keep` by ledger_files_now(), including those that were
 * moved aside. The files of interrupted runs stay, because the next run needs them. */
int ledger_files_expire(int dirfd, const struct config *c, const struct config_ledger *l,
                        const struct ledger_filed *m, struct err *e);
/* Moves the file aside, so that it no longer counts. */
int ledger_file_undo(int dirfd, const struct ledger_file *f, struct err *e);
/* Moves aside the files that do not count, and moves back those that do. The marker row names the
 * last file that counts, and each manifest names the one before it. Begins with *at, which receives
 * the first file that is not here. `newer`: also looks at files after *at, which count if they were
 * begun after it. */
int ledger_files_settle(int dirfd, const char *ledger, bool newer, struct ledger_ref *at,
                        struct err *e);

struct ledger_file_writer;
/* Begins a file. `header`: the first line. No other file may have this `sequence`. */
struct ledger_file_writer *ledger_file_begin(int dirfd, const char *ledger, uint64_t sequence,
                                             int level, const struct buf *header, struct err *e);
int ledger_file_write(struct ledger_file_writer *w, const struct buf *rows, struct err *e);
/* Syncs the file, reads it back, renames it, and writes its manifest. `f` has sequence, first,
 * last, rows, upto, before and previous, and receives the rest. On error the file is removed.
 * Always frees `w`. */
int ledger_file_commit(struct ledger_file_writer *w, struct ledger_file *f, struct err *e);
void ledger_file_abort(struct ledger_file_writer *w);

#endif
