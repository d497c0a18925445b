/* Copies tables inside the server over several connections at once, while one of them (the holder)
 * keeps the tables locked.
 *
 * The holder locks all of these tables in one statement, which the server does without deadlock
 * whatever the game locks. The other connections take no locks: they read with HIGH_PRIORITY, which
 * goes ahead of the writers waiting for the holder. Tables that they cannot read at once (a waiting
 * ALTER or TRUNCATE blocks new readers) are copied by the holder. Large tables are copied in parts.
 *
 * All functions are called by one thread; the module starts its own worker threads. */
#ifndef WK_DUMP_COPIES_H
#define WK_DUMP_COPIES_H

#include "base/progress.h"
#include "mysql/rows.h"

struct copies;

/* Call before locking: plans the copies of the tables with chosen[i], i as in tables->list, and
 * opens the other connections, fewer if the server refuses some. `holder` (whose default schema is
 * that of the tables), `tables` and `chosen` are borrowed until copies_end(). */
struct copies *copies_plan(const struct db_params *p, struct db *holder,
                           const struct db_tables *tables, const bool *chosen, struct err *e);
/* With the lock held: starts copying in the background. `holder` is busy until copies_finish(). */
void copies_start(struct copies *c);
/* Waits until copying has finished; then the lock can be released. With `give_up` no further copy
 * is started, and the copies must not be used. */
int copies_finish(struct copies *c, bool give_up, struct progress *progress, struct err *e);
/* Reads the rows of tables->list[table] from its copy. */
int copies_read(struct copies *c, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
                struct err *e);
/* Fails if one of the other connections was lost. */
int copies_check(struct copies *c, struct err *e);
/* Drops the copies held by the other connections. Must not be called while copying is running. */
void copies_end(struct copies *c);

#endif
