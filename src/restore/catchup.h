/* Which changes since a dump belong to a restore of it: whether the journal is used at all, up to
 * where, and what is told of it. */
#ifndef WK_RESTORE_CATCHUP_H
#define WK_RESTORE_CATCHUP_H

#include "journal/replay.h"
#include "restore/plan.h"
#include "restore/restore.h"

struct catchup {
    const struct job *job;
    const struct restore_options *opt;
    struct restore_result *out; /* .journal is filled */
    struct db *db;
    struct plan *plan; /* counters and sizes of its targets grow with the changes */
    bool off;          /* not this time: the changes did not fit the dump */
    struct replay journal;
};

/* Reads the changes since dump `m` into c->journal; its fold is NULL where the dump is restored
 * alone, and out->journal.gap says why that is less than could be expected. ERR_REFUSED: a moment
 * was asked for that cannot be had. */
int catchup_read(struct catchup *c, const struct manifest *m, struct err *e);
void catchup_free(struct catchup *c);
json_t *catchup_json(const struct restore_result *r);

#endif
