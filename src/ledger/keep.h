/* Writes rolled-up rows to files (files.h) before they are deleted.
 *
 * A run first writes all rows that it is going to roll up to one file. It then stores the file's
 * sequence as `file` in NAME_mark, rolls up exactly those rows, and stores the sequence as `filed`.
 * If a game has locked some of them, `filed` is instead the last file before the first one that
 * still has a row in the ledger.
 *
 * These marker rows are part of the world, so a restore takes them back together with rollup and
 * ledger. The rows of a file with a larger sequence than `file` are in the ledger again, or never
 * existed in this world; the file is set aside. So is a file of another life of the world, whatever
 * its sequence: row `file` has the time of the file that it names, and each manifest names the file
 * before it.
 *
 * A file after `filed` up to `file` was interrupted: its rows are not written again. In a MEMORY
 * ledger these are the rows with ids up to its `upto`, because ids become visible in their
 * order. In an InnoDB ledger they are the rows whose ids are in the file. In both, the rows must
 * still be the same, because ids may have begun again. */
#ifndef WK_LEDGER_KEEP_H
#define WK_LEDGER_KEEP_H

#include "ledger/files.h"
#include "ledger/run_int.h"

/* Adds and deletes all pieces; each row is written to a file first. */
int ledger_keep_run(struct run *r, struct err *e);
/* Reads what the marker rows say of files. */
int ledger_filed(struct db *db, const struct ledger *l, struct ledger_filed *out, struct err *e);
/* Settles the files here (ledger_files_settle()). Returns LEDGER_LACKS_OPEN if a file of an
 * interrupted run is not here, LEDGER_LACKS_ASIDE if one that was moved aside may count, which a
 * file that is not here would tell, else 0; -1 on error. `from`: the lowest number of these. */
#define LEDGER_LACKS_OPEN 1
#define LEDGER_LACKS_ASIDE 2
int ledger_lacks_files(const struct ledger_filed *m, const char *ledger, int dirfd, uint64_t *from,
                       struct err *e);

#endif
