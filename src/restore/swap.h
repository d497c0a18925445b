/* The last steps of a restore, from loaded shadows to a living world, and the tidying up after a
 * restore that was cut off anywhere in them. */
#ifndef WK_RESTORE_SWAP_H
#define WK_RESTORE_SWAP_H

#include "restore/plan.h"
#include "store/state.h"

struct swap {
    struct db *db; /* holds the lease lock; its default schema is the world's */
    const struct job *job;
    struct plan *plan;
    const struct manifest
        *dumped; /* a dump just taken: what stands in it need not be saved again */
    uint64_t generation;
    char nonce[33];
    char dump[129];
    struct db_point upto;    /* the journal is in up to here; file "": the dump alone */
    bool unlogged;           /* the session keeps what it does out of the binary log */
    char conflict_file[128]; /* "" when the emptied tables held no rows */
    uint64_t conflict_rows;
};

/* Rows in the tables that are about to be replaced go to conflict-….sql.gz. */
int swap_save_conflicts(struct swap *s, struct err *e);
/* Shadow sentinel, triggers over, one RENAME TABLE. On failure everything is as before. */
int swap_in(struct swap *s, struct err *e);
/* Late rows saved, old tables dropped, generation raised. The world is in already: a failure here
 * is told, and mended by the next swap_recover. */
int swap_tidy(struct swap *s, struct err *e);

/* After a crash: puts triggers back where they belong, saves and drops old tables, drops shadows.
 * Does nothing where nothing is left over. *swapped tells that the pending restore had taken
 * effect. */
int swap_recover(struct db *db, const struct job *job, bool *swapped, struct err *e);

#endif
