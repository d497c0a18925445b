/* Reads the world without locking it: the tables are scanned while the game writes (mysql/scan.h), and
 * the changes made meanwhile are read from the server's binary log and merged in
 * (journal/replay.h). The rows are then exactly those of the moment at which the scan ended,
 * whatever the game did. A writer waits for one chunk of the scan at most; where there is no
 * HANDLER, a chunk is the copy of its table, or of a part of it.
 *
 * Until the changes are known, the scanned rows are kept in an unnamed file in the dump directory,
 * about as large as the dump's SQL. All functions are called by one thread. */
#ifndef WK_DUMP_FUZZY_H
#define WK_DUMP_FUZZY_H

#include "mysql/rows.h"
#include "mysql/scan.h"
#include "dump/job.h"

/* Why these tables cannot be read this way, as a sentence (malloc); NULL: they can. The keys of
 * `tables` must have been read; the table `sentinel` is ignored. Pure. */
char *fuzzy_refusal(const struct db_tables *tables, const struct db_scan_facts *facts,
                    const char *sentinel);

struct fuzzy;
/* Scans all of `tables`, which are borrowed until fuzzy_free() and whose keys must have been read;
 * `db` has their schema as its default. *start and *end: where the scan began, and where it ended, which
 * is the moment of the rows. *wait_ms: the longest chunk, also when it failed. ERR_CHANGED:
 * definitions changed before or during the scan, the server was restarted, or its log does not
 * contain all changes: another method may work. */
struct fuzzy *fuzzy_take(const struct job *job, struct db *db, const struct db_tables *tables,
                         struct db_binlog_pos *start, struct db_binlog_pos *end, int64_t *wait_ms,
                         struct err *e);
/* Reads the rows of a table; once for each table. */
int fuzzy_read(struct fuzzy *f, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
               struct err *e);
/* The table's AUTO_INCREMENT counter at that moment; 0: it has none. */
uint64_t fuzzy_counter(const struct fuzzy *f, size_t table);
void fuzzy_free(struct fuzzy *f);

#endif
