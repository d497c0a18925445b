/* Finds a total that would not fit its column before any row of its piece is changed. The server
 * would find it only in the middle of a statement, and a MEMORY table keeps the changes before the
 * error.
 *
 * Reading each key's total costs a statement. It is not needed while the largest total fits
 * together with everything that the run has added since: then every total fits. */
#ifndef WK_LEDGER_LIMITS_H
#define WK_LEDGER_LIMITS_H

#include "ledger/run_int.h"

int ledger_limits_begin(struct run *r, struct err *e);
int ledger_limits_check(struct run *r, const struct piece *p, struct err *e);

#endif
