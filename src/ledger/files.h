/* Files of rolled-up rows in the dump directory: NAME-SEQUENCE-FIRST-LAST-TIMEZ.csv.gz, FIRST and LAST
 * the least and the largest id in it, TIME when it was written. Beside each stands its manifest,
 * .csv.json, which is signed like everything in that directory (store/kept.h) and makes the file
 * count: it is written last, once the file was read back from the disk. */
#ifndef WK_LEDGER_FILES_H
#define WK_LEDGER_FILES_H

#include "base/gzip.h"
#include "ledger/csv.h"

#define LEDGER_FILE_NAME 160
#define LEDGER_FILES_PART ".csv.gz.part"
#define LEDGER_FILES_GZIP ".csv.gz"
#define LEDGER_FILES_MANIFEST ".csv.json"
#define LEDGER_FILES_UNDONE ".undone" /* after .csv.gz: of a moment that a restore took back */

struct ledger_file {
    char name[LEDGER_FILE_NAME]; /* without .csv.gz */
    uint64_t sequence, first, last;
    wall_t written;
    /* Of the manifest, once read: */
    uint64_t rows, size, upto;
    uint64_t before; /* rows that were in totals before this file was begun */
    char sha256[SHA256_HEX];
};
/* "xp-00000001-1-300-20260131T235959Z": fills in what the name says. False: not a file of `ledger`. */
bool ledger_file_parse(const char *name, size_t len, const char *ledger, struct ledger_file *out);

struct ledger_files {
    struct ledger_file *list; /* in order */
    size_t count;
    uint64_t highest; /* sequence of any name, .undone too */
};
/* Those with a manifest or without. */
int ledger_files_list(int dirfd, const char *ledger, struct ledger_files *out, struct err *e);
void ledger_files_free(struct ledger_files *f);
/* Removes what an interrupted run left: unfinished files. */
int ledger_files_sweep(int dirfd, const char *ledger, struct err *e);
/* Reads the manifest; ERR_DAMAGED, or ERR_REFUSED for one without a valid signature. */
int ledger_file_load(int dirfd, struct ledger_file *f, struct err *e);
/* Reads the header and all rows. Not a byte is unpacked before size and SHA-256 of the file were verified, nor a piece
 * that has changed since then. The number of rows can only be verified at the end. */
int ledger_file_read(int dirfd, const struct ledger_file *f, csv_row_fn *fn, void *arg,
                     struct err *e);
/* The manifest first: a file without one does not count. */
int ledger_file_remove(int dirfd, const struct ledger_file *f, struct err *e);
/* Set aside: it does not count any more. */
int ledger_file_undo(int dirfd, const struct ledger_file *f, struct err *e);

struct ledger_file_writer;
/* `header`: the first line. `sequence` is that of no other file. */
struct ledger_file_writer *ledger_file_begin(int dirfd, const char *ledger, uint64_t sequence,
                                             int level, const struct buf *header, struct err *e);
int ledger_file_write(struct ledger_file_writer *w, const struct buf *rows, struct err *e);
/* Synced, read back, renamed, and its manifest written. `f` has sequence, first, last, rows, upto and
 * before, and gets the rest. Frees `w` in any case. */
int ledger_file_commit(struct ledger_file_writer *w, struct ledger_file *f, struct err *e);
void ledger_file_abort(struct ledger_file_writer *w);

#endif
