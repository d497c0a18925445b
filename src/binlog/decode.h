/* Turns events of the binary log into the changes of one world (change.h): which groups are
 * complete, which rows are the world's, what a statement means to it, what cannot be followed. Asks
 * the server nothing; an event that cannot be used becomes a gap in the changes. One thread. */
#ifndef WK_BINLOG_DECODE_H
#define WK_BINLOG_DECODE_H

#include "binlog/stream.h"
#include "binlog/change.h"

struct decode;

/* `world`, its texts and its tables (with their keys read) must outlive it. `from`: where reading
 * begins. `markers`: report CHANGE_MARKER too. */
struct decode *decode_new(const struct statement_world *world, const struct db_binlog_pos *from,
                          bool markers, change_fn *fn, void *arg);
/* The list of the world's tables is another one: everything known of the previous ones is dropped, and
 * their struct change_table are no longer valid. `fn` may call it at a CHANGE_END. */
void decode_tables(struct decode *d);
/* Are rows wanted? If not, groups and statements are still reported. `fn` may call it. */
void decode_rows(struct decode *d, bool wanted);
/* The event that `log` returned last. -1: `fn` returned -1. */
int decode_event(struct decode *d, const struct binlog *log, const struct event *ev);
/* The log ends here: an open group is cut off. */
int decode_end(struct decode *d, const struct binlog *log);
void decode_free(struct decode *d);

#endif
