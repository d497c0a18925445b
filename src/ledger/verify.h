/* --rollup --verify: do rollup, files and ledger agree? */
#ifndef WK_LEDGER_VERIFY_H
#define WK_LEDGER_VERIFY_H

#include "ledger/ledger.h"

struct ledger_verified {
    uint64_t rows, keys, rolled_up; /* in the ledger, in the rollup, in its totals */
    uint64_t files, file_rows;
    json_t *problems, *unknown; /* sentences: what is wrong, and what cannot be known */
};
/* Under ledger_lock(). -1: it could not be verified; what was found is no error. */
int ledger_verify(struct db *db, struct ledger *l, int dirfd, struct ledger_verified *out,
                  struct err *e);
void ledger_verified_free(struct ledger_verified *v);

#endif
