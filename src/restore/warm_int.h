/* Private to src/restore: an open copy of a standby (warm.h). Files call each other only in this
 * order: warm.c, warm_apply.c, warm_compare.c, warm_catch_up.c; then warm_promote.c and
 * warm_keep.c. */
#ifndef WK_RESTORE_WARM_INT_H
#define WK_RESTORE_WARM_INT_H

#include "journal/replay.h"
#include "mysql/sentinel.h"
#include "restore/plan.h"
#include "restore/warm.h"
#include "store/catalog.h"

#define WARM_MARK DB_OWN_PREFIX "copy"     /* table with one row for the whole copy */
#define WARM_TABLES DB_OWN_PREFIX "tables" /* table with one row for each table */

enum warm_found {
    WARM_READY,  /* everything available here is in it */
    WARM_BEHIND, /* the newest dump is newer than the journal here */
    WARM_BROKEN, /* the following changes cannot be applied */
    WARM_GONE,   /* it was never loaded, or is no longer complete */
};

struct warm {
    const struct job *job;
    char schema[CONFIG_OWN_SCHEMA_MAX];
    struct db *db;            /* holds its server lock; NULL: not open */
    struct plan plan;         /* its tables */
    bool compare, compared;   /* compare its rows with a newer dump; they were compared */
    bool last;                /* for a promotion: no changes follow */
    bool redo;                /* changes were being applied when it was last used */
    char dump[DUMP_NAME_MAX]; /* the newest dump that its definitions were compared with */
    struct db_binlog_pos upto;
    struct replay_place place; /* segment of `upto`; number 0: `upto` is the dump's position */
    char why[WARM_WHY_MAX];    /* the reason for each result except WARM_READY */
};

/* Returns WARM_READY if there is one; else WARM_GONE; -1 on error. */
int warm_open(struct warm *w, const struct job *job, struct err *e);
void warm_close(struct warm *w);
/* Records that the tables of `p`, in the session's default schema, are a copy. */
int warm_note(struct db *db, const struct plan *p, const struct manifest *m,
              const struct replay *changes, struct err *e);

/* Sets up a session whose statements stay on this server, and out of the binary log if possible,
 * because replicas have no copy. The lock is that of a restore into this schema, so that no process
 * applies changes to tables that a promotion moves. */
int warm_session(struct db *db, const char *schema, int64_t lock_wait, struct err *e);
/* Returns `what`, with the reason in w->why. */
int warm_finding(struct warm *w, enum warm_found what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns `what` for an error about the copy; or -1 for one of the server or the system, which
 * proves nothing about it. */
int warm_judged(struct warm *w, enum warm_found what, const struct err *why, struct err *e);
/* Drops the mark of a copy whose tables are wrong, so that no process opens it again. Returns
 * `found`, with w->why unchanged; -1 if the mark is still there. Does nothing if `found` is -1. */
int warm_disprove(struct warm *w, int found, struct err *e);

#endif
