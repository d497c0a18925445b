/* A world that another machine keeps from now on: its MEMORY tables are locked, so that the game's writes
 * wait, their rows are saved to a conflict file, and the tables get names under which no game finds them.
 * They go when the next restore tidies up. */
#ifndef WK_RESTORE_SET_ASIDE_H
#define WK_RESTORE_SET_ASIDE_H

#include "dump/job.h"
#include "mysql/schema.h"
#include "restore/conflict.h"

struct set_aside {
    const struct job *job;
    struct db *db;
    struct db_tables tables; /* MEMORY tables, those of the program left out */
    char file[CONFLICT_NAME_MAX];
    uint64_t rows; /* in it; 0: there is none */
    size_t before; /* tables that were set aside earlier and are there still */
};
/* Takes the lease of mysql/lease.h and the tables' locks; waits for statements that run, as long as a restore
 * does. */
int set_aside_lock(struct set_aside *s, const struct job *job, struct err *e);
int set_aside_save(struct set_aside *s, uint64_t generation, struct err *e);
/* After it the writes that waited are refused: there is no such table. */
int set_aside_rename(struct set_aside *s, struct err *e);
/* Whatever was not renamed is as it was. */
void set_aside_end(struct set_aside *s);

#endif
