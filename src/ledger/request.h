/* Request ids: a repeated insert is refused even after the row of the first insert was rolled up.
 *
 * While the row is in the ledger, the ledger's own unique key refuses the repeated insert.
 * Afterwards a trigger does, which looks the id up in NAME_request. The id is stored there before
 * the row is deleted.
 *
 * MEMORY: a statement locks both tables before its first row, so nothing happens between the checks
 * of the trigger and of the key. The trigger can run before the insert, which could not be undone.
 *
 * InnoDB: the trigger runs after the insert. A session that waited for the row's deletion sees
 * the id, which was added in the same transaction. */
#ifndef WK_LEDGER_REQUEST_H
#define WK_LEDGER_REQUEST_H

#include "ledger/rollup.h"

/* Records the request ids of rows that are about to be deleted: `where` is a condition for rows of
 * the ledger. */
int ledger_request_add(struct db *db, const struct ledger *l, const char *where, struct err *e);
/* Forgets request ids that were recorded longer ago than request_keep, by ledger_files_now(). */
int ledger_request_expire(struct db *db, const struct ledger *l, const struct ledger_options *opt,
                          struct err *e);

#endif
