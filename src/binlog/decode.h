/* Converts events of the binary log into the changes of one world (change.h). It decides which
 * transactions are complete, which rows are the world's, what a statement means for the world, and
 * what cannot be followed. Within a transaction, changes of carried tables follow those of MEMORY
 * tables (held.h). It does not query the server; an event that cannot be used becomes a gap. One
 * thread. */
#ifndef WK_BINLOG_DECODE_H
#define WK_BINLOG_DECODE_H

#include "binlog/change.h"
#include "binlog/stream.h"

struct decode;

/* Returns a decoder. `world`, its texts and its tables (with their keys read) must outlive it.
 * `from`: where reading begins. `markers`: also report CHANGE_MARKER. */
struct decode *decode_new(const struct statement_world *world, const struct db_binlog_pos *from,
                          bool markers, change_fn *fn, void *arg);
/* Call this after the list of the world's tables was replaced: everything known about the old
 * tables is dropped, and their struct change_table are no longer valid. `fn` may call it at a
 * CHANGE_END. */
void decode_tables(struct decode *d);
/* Sets whether rows are reported. Transactions and statements always are. `fn` may call it. */
void decode_rows(struct decode *d, bool wanted);
/* Gives each update that keeps the row's primary key as CHANGE_REPLACE, without the old row, whose
 * values then need not be read. Otherwise all updates are CHANGE_UPDATE. */
void decode_replaces(struct decode *d);
/* Decodes the event that `log` returned last. Returns -1 if `fn` returned -1. */
int decode_event(struct decode *d, const struct binlog *log, const struct event *ev);
/* Ends the log here: an open transaction is cut off. */
int decode_end(struct decode *d, const struct binlog *log);
void decode_free(struct decode *d);

#endif
