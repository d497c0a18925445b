/* Checks that the rollup can still hold what the ledger's columns can. --init created its
 * columns from the ledger's. A column that was changed since is refused, because the server
 * would not report an error when it rounds a number, cuts fractions of a second or treats two
 * keys as one. */
#ifndef WK_LEDGER_COLUMNS_H
#define WK_LEDGER_COLUMNS_H

#include "ledger/ledger.h"

/* ERR_REFUSED with the statement to execute: the ledger's columns have changed, and the rollup's no
 * longer match (columns.c). */
int ledger_check_columns(struct db *db, const struct ledger *l, struct err *e);

#endif
