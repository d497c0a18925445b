/* A standby's copy of its world ([standby] warm = yes): loaded from the newest dump into a schema of its own of
 * the standby's server, and caught up with the journal as it comes, so that a promotion applies the rest and moves
 * the tables.
 *
 * What proves the copy is in the same schema, in MEMORY tables, and vanishes with its rows: up to where in which
 * segment of the journal all changes are in it, how many rows each table has, and whether changes were being
 * applied. Those are applied again after a kill: the keys of all changed rows are taken out, then the rows as they
 * are now go in.
 *
 * Rows are what a restore would load, by the same code. What the journal cannot express or does not lead up to ends
 * the copy, until a dump does that is newer: then the world is loaded once more, in place of the copy, and a
 * promotion meanwhile loads the dump. When a newer dump arrives, its definitions are compared with the copy's, and
 * at most once an hour all rows with what a load of it would give. Under a lock of the server: one process at a time. */
#ifndef WK_RESTORE_WARM_H
#define WK_RESTORE_WARM_H

#include "dump/job.h"
#include "journal/replay.h"
#include "restore/plan.h"
#include "store/catalog.h"
#include "store/state.h"

#define WARM_WHY_MAX 640

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
/* Applies what the journal has more; `out` is what was read. enum warm_found; -1: try again. */
int warm_catch_up(struct warm *w, const struct catalog *dumps, struct replay *out, struct err *e);
void warm_close(struct warm *w);
/* If it is there. */
int warm_drop(const struct job *job, struct err *e);
/* Notes that the tables of `p`, in the schema that is the session's default, are a copy. */
int warm_note(struct db *db, const struct plan *p, const struct manifest *m,
              const struct replay *changes, struct err *e);

#endif
