/* Private to src/restore: a standby's copy (warm.h) while it is open. Files use each other in this order only: warm.c,
 * warm_apply.c, warm_compare.c, warm_catch_up.c; then warm_promote.c and warm_keep.c. */
#ifndef WK_RESTORE_WARM_INT_H
#define WK_RESTORE_WARM_INT_H

#include "journal/replay.h"
#include "mysql/sentinel.h"
#include "restore/plan.h"
#include "restore/warm.h"
#include "store/catalog.h"

#define WARM_MARK DB_OWN_PREFIX "copy"     /* one row: the whole copy */
#define WARM_TABLES DB_OWN_PREFIX "tables" /* a row for each table */

enum warm_found {
    WARM_READY,  /* all that is here is in it */
    WARM_BEHIND, /* the newest dump is newer than the journal that is here */
    WARM_BROKEN, /* what came later cannot be applied */
    WARM_GONE,   /* it was never loaded, or is not whole any more */
};

struct warm {
    const struct job *job;
    char schema[CONFIG_OWN_SCHEMA_MAX];
    struct db *db;            /* holds its lock; NULL: not open */
    struct plan plan;         /* its tables */
    bool compare, compared;   /* its rows with a newer dump; they were */
    bool last;                /* for a promotion: nothing comes after it */
    bool redo;                /* changes were being applied */
    char dump[DUMP_NAME_MAX]; /* the newest that it was compared with by its definitions */
    struct db_binlog_pos upto;
    struct replay_place place; /* of `upto`; number 0: `upto` is where the dump ends */
    char why[WARM_WHY_MAX];    /* of all but WARM_READY */
};

/* WARM_READY: there is one; WARM_GONE; -1. */
int warm_open(struct warm *w, const struct job *job, struct err *e);
void warm_close(struct warm *w);
/* Notes that the tables of `p`, in the schema that is the session's default, are a copy. */
int warm_note(struct db *db, const struct plan *p, const struct manifest *m,
              const struct replay *changes, struct err *e);

/* Its statements stay on this server, and in no log where that can be chosen: replicas have no copy. The lock is that of a
 * restore into this schema, so that nobody applies changes to what a promotion moves. */
int warm_session(struct db *db, const char *schema, int64_t lock_wait, struct err *e);
/* `what`, with the reason in w->why. */
int warm_finding(struct warm *w, enum warm_found what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* An error that says something about the copy; or -1: one of the server or the system, which says nothing. */
int warm_judged(struct warm *w, enum warm_found what, const struct err *why, struct err *e);

#endif
