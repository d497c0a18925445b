/* Copies of tables inside the server, made by several connections at a time while one of them holds
 * the tables locked.
 *
 * The holder locks all tables in one statement, which the server does without deadlock whatever the
 * game locks. The other connections lock nothing: they read with HIGH_PRIORITY, which passes by
 * the writers that wait for the holder. What they cannot have at once (a waiting ALTER or TRUNCATE
 * bars new readers of its table) the holder copies itself. Big tables are copied in parts.
 *
 * All functions are called by one thread; the threads in between are the module's own. */
#ifndef WK_DUMP_COPIES_H
#define WK_DUMP_COPIES_H

#include "core/progress.h"
#include "db/rows.h"

struct copies;

/* Before the lock: plans the copies of all tables that are not transactional, and opens the other
 * connections, fewer where the server refuses them. `holder` (its default schema is the tables')
 * and `tables` are borrowed until the end. */
struct copies *copies_plan(const struct db_params *p, struct db *holder,
                           const struct db_tables *tables, struct err *e);
/* With the lock held: begins to copy, in the background. The holder is in use from now on. */
void copies_start(struct copies *c);
/* Waits for the end of it; then the lock may go. With `give_up` no further table is begun and the
 * copies are of no use. */
int copies_finish(struct copies *c, bool give_up, struct progress *progress, struct err *e);
/* The rows of tables->list[table], from its copy. */
int copies_read(struct copies *c, size_t table, db_tuple_fn *fn, void *arg, uint64_t *rows,
                struct err *e);
/* Fails when one of the other connections was lost. */
int copies_check(struct copies *c, struct err *e);
/* Drops the copies that the other connections hold. Never while copying goes on. */
void copies_end(struct copies *c);

#endif
