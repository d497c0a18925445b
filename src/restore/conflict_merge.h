/* Compares the rows of a conflict file with the current world: which are new, which exist already,
 * and which have a key that another row has taken. On request it inserts the new rows and, with new
 * AUTO_INCREMENT values, those whose key is taken.
 *
 *   the file  --reader, literals only-->  worldkeeper_tmp_rows (rows without an equal in the world)
 *   keys of the world's table          -->  worldkeeper_tmp_taken
 *   LOCK TABLES, one INSERT … SELECT   -->  the world's table
 *
 * The intermediate tables are temporary ones of one session. Rows inserted with new numbers are
 * recorded in a file (conflict-….numbers.tsv: table, column, old, new): a row whose new number is
 * in the world counts as equal, so that a second run does no harm. */
#ifndef WK_RESTORE_CONFLICT_MERGE_H
#define WK_RESTORE_CONFLICT_MERGE_H

#include <jansson.h>

#include "store/state.h"

struct job;

struct merge_options {
    bool renumber; /* also insert rows whose key is taken, with new AUTO_INCREMENT values */
    bool dry_run;
};

/* Returns true if it is the name of a conflict file. */
bool merge_is_name(const char *name);
/* Lists all of them, newest first, or only the one named: {"files":[…], "compared":bool, "why"}. If
 * the world is not up, nothing is compared, which is not a failure. */
int merge_list(const struct job *job, const char *only, const struct state *known, json_t **out,
               struct err *e);
/* Inserts the rows that do not collide. ERR_REFUSED with a result: some tables were skipped, which
 * the result names with the reason; the others are done. */
int merge_apply(const struct job *job, const char *name, const struct state *known,
                const struct merge_options *opt, json_t **out, struct err *e);

#endif
