/* Decides which changes since a dump are applied in a restore of it: whether the journal is used at
 * all, up to where, and what is reported about it. */
#ifndef WK_RESTORE_CATCHUP_H
#define WK_RESTORE_CATCHUP_H

#include "dump/verify.h"
#include "journal/replay.h"
#include "restore/plan.h"
#include "restore/restore.h"

struct catchup {
    const struct job *job;
    const struct restore_options *opt;
    struct restore_result *out; /* .journal is filled */
    struct db *db;
    struct plan *plan;        /* the changes raise counters and sizes of its targets */
    struct verify_file *file; /* the dump */
    bool off;                 /* do not use the journal: its changes did not fit the dump */
    struct replay journal;
};

/* Reads the changes since dump `m` into c->journal. Its delta is NULL if the dump is restored
 * without changes; out->journal.gap says why, if changes could be expected. ERR_REFUSED: the
 * requested moment cannot be restored. */
int catchup_read(struct catchup *c, const struct manifest *m, struct err *e);
/* Notes what of the journal is in what is restored. */
void catchup_figures(struct restore_result *out, const struct restore_options *opt,
                     const struct replay *j);
void catchup_free(struct catchup *c);

#endif
