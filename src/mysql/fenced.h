/* Statements that change a world of which another machine may take the lease (rule 2 of
 * tests/models/README.md). */
#ifndef WK_MYSQL_FENCED_H
#define WK_MYSQL_FENCED_H

#include "mysql/conn.h"

/* Checks the fence of the world's lease (base/fence.h) right before such a statement, and limits
 * the statement's wait for each lock to `wait` ms and to the rest of the lease. If the lease is
 * about to be renewed or to end, this waits for that, for about a second. `what` names the work in
 * the error. ERR_REFUSED: this machine may not act. Does nothing without a lease. */
int db_may_change(struct db *db, const char *what, int64_t wait, struct err *e);
/* The same for a statement that may also wait for rows of InnoDB; without a lease it waits as long
 * as a new session. */
int db_may_change_rows(struct db *db, const char *what, struct err *e);

#endif
