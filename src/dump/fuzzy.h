/* Reads the world without locking it: the tables are scanned while the game writes (mysql/scan.h),
 * and the changes made meanwhile are read from the server's binary log and merged in
 * (journal/replay.h). The rows are then exactly those of the moment at which the scan ended. A
 * writer waits for at most one chunk of the scan; without HANDLER, a chunk is the copy of its
 * table, or of a part of it.
 *
 * Rows without a primary key cannot be matched with their later changes, so tables without one are
 * not scanned. The caller copies these under a lock (copies.h), and has the scan merged up to the
 * log's position under that lock: then all tables are of one moment.
 *
 * Until the changes are known, the scanned rows are kept in an unnamed file in the dump directory,
 * about as large as the dump's SQL. All functions are called by one thread. */
#ifndef WK_DUMP_FUZZY_H
#define WK_DUMP_FUZZY_H

#include "mysql/rows.h"
#include "mysql/scan.h"

/* Returns why these tables cannot be read this way, as a sentence (malloc); NULL: they can.
 * Pure. */
char *fuzzy_refusal(const struct db_tables *tables, const struct db_scan_facts *facts);
/* Returns which tables must be copied instead of scanned: [i] of tables->list[i] (malloc). Their
 * keys must have been read; the table `sentinel` is always scanned. Pure. */
bool *fuzzy_copied(const struct db_tables *tables, const char *sentinel);

/* The functions below return ERR_CHANGED if definitions changed before or during the scan, if the
 * server was restarted, or if its log does not contain all changes: another method may work. */
struct fuzzy;
struct job;
/* Scans all of `tables` except those with copied[i]. Both are borrowed until fuzzy_free(), and the
 * keys must have been read; `db` has their schema as its default. *start: where the scan began.
 * *wait_ms: the longest chunk, also on failure. */
struct fuzzy *fuzzy_scan(const struct job *job, struct db *db, const struct db_tables *tables,
                         const bool *copied, struct db_binlog_pos *start, int64_t *wait_ms,
                         struct err *e);
/* Reads the server's current position in its log, which is the moment of the rows. */
int fuzzy_position(struct db *db, struct db_binlog_pos *p, struct err *e);
/* Reads the changes from the scan's start up to `end`, a position after the scan. */
int fuzzy_merge(struct fuzzy *f, const struct db_binlog_pos *end, struct err *e);
/* Reads the rows of a scanned table; once for each table, after fuzzy_merge(). */
int fuzzy_read(struct fuzzy *f, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
               struct err *e);
/* Returns the table's AUTO_INCREMENT counter at that moment; 0: it has none. */
uint64_t fuzzy_counter(const struct fuzzy *f, size_t table);
void fuzzy_free(struct fuzzy *f);

#endif
