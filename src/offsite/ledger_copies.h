/* Files of rolled-up rows (ledger/files.h) in a world's store:
 *
 *   WORLD/ledgers/NAME.csv.gz[.age]   the file; NAME.2.csv.gz[.age] … if the name was taken by an
 *                                     upload that was not completed
 *   WORLD/ledgers/NAME.csv.json       its manifest, as it is beside the file: written last, it
 *                                     makes the file valid
 *
 * One list describes the dump directory as well. */
#ifndef WK_OFFSITE_LEDGER_COPIES_H
#define WK_OFFSITE_LEDGER_COPIES_H

#include "ledger/files.h"
#include "offsite/copies.h"
#include "offsite/transfer.h"

struct ledger_copy {
    struct ledger_file f; /* what its name says */
    const struct config_ledger *of;
    unsigned plain, sealed; /* bit N - 1: the data of the Nth attempt is there */
    bool manifest;
    bool undone; /* in the dump directory: it was moved aside */
};
struct ledger_copies {
    struct ledger_copy *list; /* sorted by name */
    size_t count;
};
/* Lists the files of all ledgers of the config in the store; in the dump directory. */
enum remote_result ledger_copies_load(struct remote *r, const struct config *c,
                                      struct ledger_copies *out, struct err *e);
int ledger_copies_here(const struct config *c, int dirfd, struct ledger_copies *out, struct err *e);
void ledger_copies_free(struct ledger_copies *c);
/* Adds what is known of a file to the list. */
void ledger_copies_put(struct ledger_copies *c, const struct ledger_copy *x);

/* Reads the name of a file, without its ending. Returns the ledger that it belongs to, or NULL if
 * the config has none of that name. */
const struct config_ledger *ledger_copy_of(const struct config *c, const char *name, size_t len,
                                           struct ledger_file *out);

/* Pure. A valid file has data and a manifest, and was not moved aside. */
bool ledger_copy_valid(const struct ledger_copy *x);
/* Returns NULL if there is none. */
struct ledger_copy *ledger_copies_find(const struct ledger_copies *c, const char *name);
/* Returns a valid file with the number of `x` and another name, which another life of the world
 * wrote; NULL: there is none. */
struct ledger_copy *ledger_copies_rival(const struct ledger_copies *c, const struct ledger_copy *x);
/* Returns the time that retention counts as now (store/retention.h: retention_now()), by dumps and
 * these files. `dates`: the dumps, with room for the files after them. `interval`: the time between
 * two dumps, in ms. Pure. */
wall_t ledger_copies_now(const struct ledger_copies *c, struct retention_item *dates, size_t dumps,
                         int64_t interval, wall_t wall);
/* Returns true if the file is older than [ledger] keep. */
bool ledger_copy_expired(const struct ledger_copy *x, wall_t now);

/* These write names. */
void ledger_copy_name(char out[COPY_NAME_MAX], const char *world, const char *name,
                      const char *ending);
void ledger_copy_data(char out[COPY_NAME_MAX], const char *world, const char *name,
                      unsigned attempt, bool sealed);

/* Reads the manifest of a file in the store; `text` receives it as it is there. Returns 1; 0 with
 * the reason in `why` if there is none, or if it is not valid; -1 on error. */
int ledger_copy_manifest(const struct transfer *t, const char *world, struct ledger_file *f,
                         struct buf *text, struct err *why, struct err *e);

#endif
