/* The last steps of a restore, from loaded shadow tables to a living world, and the recovery after
 * a restore that was interrupted anywhere in them. */
#ifndef WK_RESTORE_SWAP_H
#define WK_RESTORE_SWAP_H

#include "restore/plan.h"
#include "store/pending.h"
#include "store/state.h"

struct swap {
    struct db *db; /* holds the lease lock; its default schema is the world's */
    const struct job *job;
    struct plan *plan;
    const struct manifest
        *dumped; /* a dump taken just before: rows in it need not be saved again */
    uint64_t generation;
    struct state_made made;  /* upto.file "": the dump alone, or some of its tables */
    bool unlogged;           /* the session does not write to the binary log */
    int64_t server_start;    /* seconds since 1970: no MEMORY row is older */
    char conflict_file[128]; /* for the rows of the replaced tables, if there are any */
    uint64_t conflict_rows;
    bool conflict_part; /* rows written shortly before the swap may be missing in it */
    wall_t conflict_from, conflict_to; /* they were written between these; ms 0: not known */
};

/* Saves the rows of the tables to be replaced to conflict-….sql.gz, because a server crash after
 * the swap would lose them. swap_tidy() completes the file. */
int swap_save_conflicts(struct swap *s, struct err *e);
/* Does the conflict file hold rows of this table? */
bool swap_saved(const struct swap *s, const struct target *t);
/* db_lease_claim() of the new generation, right before swap_in(). */
int swap_claim(const struct swap *s, uint64_t seen, struct err *e);
/* Creates the shadow sentinel, moves the triggers, runs the one RENAME TABLE. On failure everything
 * is as before. If an answer was lost, `db` is a new connection afterwards. */
int swap_in(struct swap *s, struct err *e);
/* One attempt at the RENAME (rename.c). It takes seconds for thousands of tables and minutes for more: as long
 * as the server works on it, that counts as progress. If its answer is lost, its outcome is looked up
 * before it is reported as failed; if it took place, `s->db` is a new connection, which holds the
 * lease. */
int rename_run(struct swap *s, const char *sql, size_t len, struct err *e);
/* Estimated milliseconds, fitted to measurements; players are blocked as long. Pure. */
int64_t rename_estimate(size_t tables, bool mariadb);
/* Saves all replaced rows, drops the old tables, raises the generation. The swap has already taken
 * place: a failure here is reported, and repaired by the next swap_recover(). */
int swap_tidy(struct swap *s, struct err *e);

/* After a crash: moves triggers back where they belong, saves and drops old tables, drops shadow
 * tables. Does nothing if nothing is left over. *swapped: the pending restore had taken effect. */
int swap_recover(struct db *db, const struct job *job, bool *swapped, struct err *e);
/* Drops the shadow tables alone, unless a swap may have begun: that is for swap_recover(). */
int swap_drop_shadows(struct db *db, const struct job *job, struct err *e);

#endif
