/* --table: only some tables of a dump, into another schema or swapped into the living world. */
#ifndef WK_RESTORE_CHOSEN_H
#define WK_RESTORE_CHOSEN_H

#include "mysql/sentinel.h"
#include "restore/plan.h"
#include "store/catalog.h"
#include "store/state.h"

/* "planet,`a, b`": names separated by commas; a name with a comma goes in backticks. ERR_USAGE. */
int chosen_parse(const char *text, struct db_names *out, struct err *e);
/* ERR_NOTHING if one of `tables` is in none of these dumps. */
int chosen_known(const struct db_names *tables, const struct catalog *dumps, struct err *e);
/* Is each of them in the plan, which was made from `dump`, and not skipped? If not, the error names
 * the dump of `dumps` that has the table (NULL: the file is not one of our dumps). */
int chosen_planned(const struct plan *plan, const char *dump, const struct catalog *dumps,
                   struct err *e);
/* May they be swapped into the world? It must be alive and ours, since the other tables stay as
 * they are; if the tables hold rows, `force` is required. Reads the sentinel's row into `s`.
 * ERR_REFUSED. */
int chosen_guard(struct db *db, const struct config *cfg, const struct state *state,
                 const struct db_names *tables, bool force, struct db_sentinel *s, struct err *e);

#endif
