/* What a standby has of its world: dumps and segments come from the store ([offsite]) into the dump
 * directory and the journal's as they are stored there, each checked before it counts (offsite/fetch.h),
 * and go by [retention] and [journal]. For workers: everything here blocks. */
#ifndef WK_STANDBY_PULL_H
#define WK_STANDBY_PULL_H

#include "offsite/fetch.h"
#include "standby/record.h"

#define PULL_BAD_MAX                                                                               \
    32u /* dumps that proved damaged, or are abandoned, and are not fetched by this worker */

struct pull {
    const struct config *cfg;
    int dirfd;                 /* the dump directory */
    struct progress *progress; /* NULL is allowed */
    struct fetch fetch;
    bool open; /* also: the lock is held, so that nobody else brings anything meanwhile */
    int lock;
    struct lives lives; /* the record, as the last step has read it; number 0: there is none */
    char bad[PULL_BAD_MAX][DUMP_NAME_MAX];
    unsigned bad_count;

    /* What is here, once a step has succeeded. */
    struct manifest newest; /* without its tables (manifest_figures()); name "": there is none */
    wall_t moment; /* of the newest change that is here, by the primary's clocks; ms 0: not known */
    struct err
        skipped; /* a newer dump, or a part of the journal, that is no good; ERR_NONE: none */
};

/* Lists the store and fetches what is newer there. Connects where need be; after an error pull_close()
 * comes first. */
int pull_step(struct pull *p, struct err *e);
void pull_close(struct pull *p);

/* Without the store: what is here already. Closes what pull_step() opened; `lives` is what this machine last knew of the
 * record. */
int pull_here(struct pull *p, struct err *e);

/* The segments that are here may be of a world that ended otherwise than the one in the store: the next step
 * moves them into a directory of their own, and fetches what the store has. */
int pull_set_aside(const struct config *c, struct err *e);

#endif
