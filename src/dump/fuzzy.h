/* The world without a lock on it: its tables are scanned while the game writes (db/scan.h), and
 * what changed meanwhile is read from the server's binary log and folded in (journal/replay.h). The
 * rows are then exactly those of the moment at which the scan ended, whatever the game did; a
 * writer waits for one chunk of the scan at most, which is the copy of its table, or of a share of
 * it, where there is no HANDLER.
 *
 * The scanned rows wait in a file without a name in the dump directory, about as large as the
 * dump's SQL, until the changes are known. All functions are called by one thread. */
#ifndef WK_DUMP_FUZZY_H
#define WK_DUMP_FUZZY_H

#include "db/rows.h"
#include "db/scan.h"
#include "dump/job.h"

/* Why these tables cannot be read so, as a sentence (malloc); NULL: they can. `tables` with their
 * keys read; `sentinel` is not looked at. Pure. */
char *fuzzy_refusal(const struct db_tables *tables, const struct db_scan_facts *facts,
                    const char *sentinel);

struct fuzzy;
/* Scans all of `tables`, which are borrowed until the end; `db`'s default schema is theirs. Its
 * keys must have been read. ERR_CHANGED: definitions changed under it, the server was restarted, or
 * its log does not tell all: another way of reading may work. */
struct fuzzy *fuzzy_take(const struct job *job, struct db *db, const struct db_tables *tables,
                         struct err *e);
/* Where the scan began and where it ended, which is the moment of the rows. */
const struct db_point *fuzzy_start(const struct fuzzy *f);
const struct db_point *fuzzy_end_point(const struct fuzzy *f);
/* Each table once. */
int fuzzy_read(struct fuzzy *f, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
               struct err *e);
void fuzzy_free(struct fuzzy *f);

#endif
