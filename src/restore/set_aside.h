/* A world that another machine keeps from now on. Its MEMORY tables and the tables of players'
 * progress are locked, so that the game's writes wait; their rows are saved to a conflict file, and
 * the tables get names under which no game finds them. The next restore's cleanup drops them. */
#ifndef WK_RESTORE_SET_ASIDE_H
#define WK_RESTORE_SET_ASIDE_H

#include "mysql/schema.h"
#include "restore/conflict.h"

struct job;

struct set_aside {
    const struct job *job;
    struct db *db; /* locks the MEMORY tables */
    /* Locks the InnoDB tables; NULL: there are none. With GTIDs MySQL refuses to lock both kinds in
     * one statement. */
    struct db *carried;
    /* Of the world (mysql/world_tables.h), without the sentinel. InnoDB tables of ledgers are
     * listed and stay as they are. */
    struct db_tables tables;
    char file[CONFLICT_NAME_MAX];
    uint64_t rows; /* rows in it; 0: there is none */
    size_t before; /* tables that were moved aside earlier and still exist */
};
/* Takes the lease of mysql/lease.h and the tables' locks. Waits for running statements, as long as
 * a restore does. */
int set_aside_lock(struct set_aside *s, const struct job *job, struct err *e);
int set_aside_save(struct set_aside *s, uint64_t generation, struct err *e);
/* Renames the tables. Waiting writes are refused afterwards, because the table does not exist. */
int set_aside_rename(struct set_aside *s, struct err *e);
/* Closes the session, which releases locks and lease. Tables not renamed are unchanged. */
void set_aside_end(struct set_aside *s);

#endif
