/* Rows that somebody wrote into the emptied tables, saved before they are replaced: a plain SQL
 * file. */
#ifndef WK_RESTORE_CONFLICT_H
#define WK_RESTORE_CONFLICT_H

#include "db/query.h"
#include "dump/job.h"

struct conflict_source {
    const char *table; /* the name it had for players */
    const char *from;  /* where the rows are now */
    const struct db_table *columns;
    uint64_t rows, hash; /* out */
};

/* Writes the rows of all sources. No file where there are no rows. `file` gets its name. */
int conflict_save(struct db *db, const struct job *job, struct conflict_source *list, size_t n,
                  uint64_t generation, const char *suffix, char file[128], uint64_t *rows,
                  struct err *e);
/* Counts and hashes only. */
int conflict_measure(struct db *db, struct conflict_source *s, struct err *e);

#endif
