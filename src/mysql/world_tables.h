/* Which tables belong to a world: its MEMORY tables, and worldkeeper's own (of ledgers and of players' progress), whatever
 * their engine. Those of a durable engine survive a restart of their server, but another machine does not have them: so dumps
 * contain them and the journal follows them, of the same moment as all others, and a restore leaves those that are there as
 * they are. tests/models/README.md: rule 9. */
#ifndef WK_MYSQL_WORLD_TABLES_H
#define WK_MYSQL_WORLD_TABLES_H

#include "config/config.h"
#include "mysql/schema.h"

/* Tables of players' progress; ended by NULL. */
extern const char *const world_progress_tables[];
/* Is it the name of one of worldkeeper's own tables, by this config? Pure. */
bool world_own(const struct config *c, const char *table);
/* The tables of the world in this schema, as db_tables() lists them. Own ones of InnoDB are `carried`. */
int world_tables(struct db *db, const struct config *c, const char *schema, struct db_tables *out,
                 struct err *e);

#endif
