/* Sums up the rows of all files per key in a temporary table like the rollup, so that the server
 * decides which keys are the same. A key that has as many rows in files as in its total must
 * have the same sums in both. The manifests show which rows are missing from files: each says
 * how many rows were in totals when its file was begun. */
#ifndef WK_LEDGER_VERIFY_H
#define WK_LEDGER_VERIFY_H

#include "ledger/ledger.h"

/* --rollup --verify: compares rollup, files and ledger. */
struct ledger_verified {
    uint64_t rows, keys, rolled_up; /* rows in the ledger, keys in the rollup, rows in its totals */
    uint64_t files, file_rows;
    json_t *problems, *unknown; /* sentences: what is wrong, and what cannot be known */
};
/* Under ledger_lock(). Returns -1 if it could not be verified; findings are not errors. */
int ledger_verify(struct db *db, struct ledger *l, int dirfd, struct ledger_verified *out,
                  struct err *e);
void ledger_verified_free(struct ledger_verified *v);

#endif
