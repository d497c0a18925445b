/* Events of the binary log into the changes of one world (change.h): which groups are whole, which
 * rows are the world's, what a statement means to it, what cannot be followed. Asks the server
 * nothing; what is wrong with an event is a gap in the changes. For one thread. */
#ifndef WK_JOURNAL_DECODE_H
#define WK_JOURNAL_DECODE_H

#include "db/binlog.h"
#include "journal/change.h"

struct decode;

/* `world`, its texts and its tables (with their keys read) must outlive it. `from`: where reading
 * begins. `beats`: CHANGE_BEAT too. */
struct decode *decode_new(const struct statement_world *world, const struct db_point *from,
                          bool beats, change_fn *fn, void *arg);
/* The tables of the world were listed anew: what was known of those before is forgotten, also by
 * who kept a struct change_table. `fn` may call it at a CHANGE_END. */
void decode_tables(struct decode *d, const struct db_tables *tables);
/* Are rows wanted? Without, groups and statements come all the same. May be called by `fn`. */
void decode_rows(struct decode *d, bool wanted);
/* The event that `log` gave out last. -1: `fn` said so. */
int decode_event(struct decode *d, const struct binlog *log, const struct event *ev);
/* The log ends here: a group that is open is cut. */
int decode_end(struct decode *d);
void decode_free(struct decode *d);

#endif
