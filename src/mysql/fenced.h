/* Statements that change a world of which another machine may take the lease. Each of them is sent
 * only if this machine has the lease (base/fence.h) directly before, and what it waits for is
 * limited by the rest of the lease (tests/models/README.md, rule 2).
 *
 * The server limits each wait for a lock. A statement that waits for several locks in turn, and an
 * extended lease, are beyond such a limit: a second connection ends a statement that still waits
 * for a lock when the lease has ended. A statement that has its locks is not limited: it may take
 * longer than what is left, as the RENAME of thousands of tables does, while the lease is renewed;
 * and half of its effect may be worse than all of it. For this reason max_statement_time is not
 * used.
 *
 * These statements do not ask:
 * - what changes tables that no player uses: tables that a restore loads, temporary tables
 * - the renaming of tables by --demote and --switch-over, which takes the world away from the game
 *   after this machine has stepped back
 * - table worldkeeper_lease, which shows the lease, also its end
 * - --init and --new-round, whose lease is checked, if at all, when they begin */
#ifndef WK_MYSQL_FENCED_H
#define WK_MYSQL_FENCED_H

#include "mysql/conn.h"

/* Checks the fence right before a statement, and limits its wait for each lock to `wait` ms and to
 * the rest of the lease. If the lease is about to be renewed or to end, this waits for that, for
 * about a second. `what` names the work in the error. ERR_REFUSED: this machine may not act. Does
 * nothing without a lease. */
int db_may_change(struct db *db, const char *what, int64_t wait, struct err *e);
/* The same for a statement that may also wait for rows of InnoDB; without a lease it waits as long
 * as a new session. */
int db_may_change_rows(struct db *db, const char *what, struct err *e);

/* From now on, every statement of db_exec() and its variants on this connection passes
 * db_may_change(), except those that only affect the session, such as SET and ROLLBACK. An attempt
 * that did not get its locks before the lease's limit is repeated until `wait` ms are over. With
 * `wait` 0 it passes db_may_change_rows(), and is not repeated. `second`: how to open the second
 * connection, which lasts until db_fence_end(); NULL: none. `what` is borrowed. Does nothing
 * without a lease. Returns -1 if the second connection cannot be opened. */
int db_fence(struct db *db, const struct db_params *second, const char *what, int64_t wait,
             struct err *e);
/* Ends that, and lets statements wait for locks for `wait` ms again. db_close() includes it. */
void db_fence_end(struct db *db);

#endif
