/* Lists the tables that belong to a world: its MEMORY tables, and worldkeeper's own tables (of
 * ledgers and of players' progress) of any engine. Own tables of a durable engine survive a restart
 * of their server, but another machine does not have them. So dumps contain them, of the same
 * moment as all other tables, and the journal follows them. A restore does not touch those that
 * exist.
 * tests/models/README.md: rule 9. */
#ifndef WK_MYSQL_WORLD_TABLES_H
#define WK_MYSQL_WORLD_TABLES_H

#include "config/config.h"
#include "mysql/schema.h"

/* The tables of players' progress; NULL ends the list. */
extern const char *const world_progress_tables[];
/* Returns the ledger whose rows are in this table, or the one for which worldkeeper made it (its
 * rollup, marks or request ids); NULL: none. The case of names is ignored, because servers may
 * change it. Pure. */
const struct config_ledger *world_ledger_of(const struct config *c, const char *table);
const struct config_ledger *world_ledger_own(const struct config *c, const char *table);
/* Returns true if `table` is one of worldkeeper's own tables under this config. Pure. */
bool world_own(const struct config *c, const char *table);
/* Reads the tables of the world in `schema`, as db_tables() lists them. Own InnoDB tables are
 * marked `carried`. Returns 0, or -1 with `e`. */
int world_tables(struct db *db, const struct config *c, const char *schema, struct db_tables *out,
                 struct err *e);

#endif
