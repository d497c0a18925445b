/* From loaded shadow tables to a living world, and the recovery after a restore that was
 * interrupted during that. The order of the steps is that of tests/models/swap.pml, which kills it
 * between any two of them. */
#ifndef WK_RESTORE_SWAP_H
#define WK_RESTORE_SWAP_H

#include "mysql/conn.h"

struct job;
struct restore;

/* Saves the rows of the tables to be replaced to conflict-….sql.gz, because a server crash after
 * the swap would lose them. swap_tidy() completes the file. */
int swap_save_conflicts(struct restore *r, struct err *e);
/* Calls db_lease_claim() for the new generation, right before swap_in(). */
int swap_claim(const struct restore *r, struct err *e);
/* Creates the shadow sentinel, moves the triggers, runs the one RENAME TABLE. On failure everything
 * is unchanged. If an answer was lost, r->db is a new connection afterwards. */
int swap_in(struct restore *r, struct err *e);
/* Saves all replaced rows, drops the old tables, raises the generation. The swap has already
 * taken place: a failure here is reported, and repaired by the next swap_recover(). */
int swap_tidy(struct restore *r, struct err *e);
/* Runs the same statements for a drill, in the scratch schema, where each loaded table is a shadow
 * table beside an empty copy of the living one (rehearsal.h). */
int swap_rehearse(struct restore *r, struct err *e);
/* Writes into the result where the rows are now that players wrote into the replaced tables. */
void swap_result(struct restore *r);
/* Recovers after a crash: moves triggers back, saves and drops old tables, drops shadow tables.
 * Does nothing if there are no remains. *swapped: the pending restore had taken effect. */
int swap_recover(struct db *db, const struct job *job, bool *swapped, struct err *e);
/* Drops only the shadow tables, unless a swap may have begun: that is for swap_recover(). */
int swap_drop_shadows(struct db *db, const struct job *job, struct err *e);

#endif
