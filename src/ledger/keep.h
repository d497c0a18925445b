/* Rolled-up rows are written to files (files.h) before they are deleted.
 *
 * A run first writes all rows that it is going to roll up to one file, then notes the file's sequence in
 * NAME_mark as `file`, then rolls up those rows and no others, then notes it as `filed`. Since the
 * notes are rows of the world, a restore takes them back together with rollup and ledger: a file with
 * a larger sequence than `file` holds rows that are in the ledger again, or that never came to be in
 * this world; it is set aside. A file between `filed` and `file` was interrupted: its rows are not
 * written once more. Which rows it holds: in a MEMORY ledger those with ids up to its `upto`, since
 * ids become visible in their order; in an InnoDB ledger those whose ids are in it; in both only as long as
 * the rows are the same, since ids may have begun again. */
#ifndef WK_LEDGER_KEEP_H
#define WK_LEDGER_KEEP_H

#include "ledger/run_int.h"

/* ledger_all_pieces() of a ledger with `keep`. */
int ledger_keep_run(struct run *r, struct err *e);
/* May this row be rolled up: is it in a file? */
bool ledger_keep_has(struct ledger_keep *k, uint64_t id);

#endif
