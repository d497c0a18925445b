/* The RENAME of a swap, and other statements that take as long: while the server works on one, that
 * counts as progress. */
#ifndef WK_RESTORE_RENAME_H
#define WK_RESTORE_RENAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct blocked;
struct db;
struct restore;

/* Runs a statement on r->db, which waits for table locks for up to [restore] lock_wait; a second
 * connection watches whether the server works on it, and what it waits for. `b` may be NULL. */
int rename_exec(struct restore *r, const char *sql, size_t len, struct blocked *b, struct err *e);
/* Runs the RENAME, and waits for locks as rename_exec() does. It takes seconds for thousands of
 * tables and minutes for more. If its answer is lost, its outcome is looked up before it is
 * reported as failed; if it took place, r->db is a new connection, which holds the lease. */
int rename_run(struct restore *r, const char *sql, size_t len, struct blocked *b, struct err *e);
/* From now on, each statement of `db` that changes something asks for the world's lease first
 * (db_fence()). Does nothing in a drill. */
int rename_fence(const struct restore *r, struct db *db, struct err *e);
/* Returns how long players are blocked by a swap: estimated milliseconds, fitted to
 * measurements. Pure. */
int64_t restore_swap_estimate(size_t tables, bool mariadb);

#endif
