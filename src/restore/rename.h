/* The RENAME that swaps in the tables of a world. It takes seconds for thousands of tables and
 * minutes for more: as long as the server works on it, that counts as progress. If its answer is
 * lost, its outcome is looked up before it is reported as failed. */
#ifndef WK_RESTORE_RENAME_H
#define WK_RESTORE_RENAME_H

#include "restore/swap.h"

/* Estimated milliseconds, fitted to measurements; players are blocked as long. Pure. */
int64_t rename_estimate(size_t tables, bool mariadb);
/* One attempt. If the answer was lost but the swap took place, `s->db` is a new connection, which
 * holds the lease. */
int rename_run(struct swap *s, const char *sql, size_t len, struct err *e);

#endif
