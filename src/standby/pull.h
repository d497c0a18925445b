/* A standby's copy of its world: dumps and segments are fetched from the store ([offsite]) into the
 * dump directory and the journal's as they are stored there. Each is checked before it counts
 * (offsite/fetch.h), and is deleted by [retention] and [journal]. For workers: everything here
 * blocks. */
#ifndef WK_STANDBY_PULL_H
#define WK_STANDBY_PULL_H

#include "offsite/fetch.h"
#include "offsite/record.h"

#define PULL_BAD_MAX                                                                               \
    32u /* dumps that proved damaged or unreadable, or are abandoned, and are not fetched */

struct pull {
    const struct config *cfg;
    int dirfd;                 /* the dump directory */
    struct progress *progress; /* NULL is allowed */
    struct fetch fetch;
    bool open; /* the store is open, and the lock is held: no other process fetches anything */
    int lock;
    bool trim_due;      /* [retention] is to be applied: in the first step, and after a failure */
    struct lives lives; /* the record, as read by the last step; number 0: there is none */
    char bad[PULL_BAD_MAX][DUMP_NAME_MAX];
    unsigned bad_count;
    struct err unread; /* why a dump among them cannot be read (FETCH_UNREADABLE); ERR_NONE: none */
    mono_t unread_at;

    /* What is here after a successful step. */
    struct manifest newest; /* without its tables (manifest_figures()); name "": there is none */
    wall_t moment; /* time of the newest change here, by the primary's clocks; ms 0: not known */
    /* A newer dump or a part of the journal that is damaged or cannot be read, or a file that
     * [retention] cannot delete; ERR_NONE: none. With fetch.unread the store may have newer data
     * that a later step can read. */
    struct err skipped;
};

/* Lists the store and fetches what is newer there. Connects if necessary; after an error call
 * pull_close() first. */
int pull_step(struct pull *p, struct err *e);
void pull_close(struct pull *p);

/* Without the store: finds what is already here. Closes what pull_step() opened; `lives` is what
 * this machine last knew of the record. */
int pull_here(struct pull *p, struct err *e);

/* The segments here may be of a world that ended differently from the one in the store. The next
 * step moves them into a separate directory, and fetches those of the store. */
int pull_set_aside(const struct config *c, struct err *e);

#endif
