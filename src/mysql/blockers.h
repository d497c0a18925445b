/* Which sessions hold up a statement that waits for a lock, as far as the server tells this account.
 * Errors as in conn.h. */
#ifndef WK_MYSQL_BLOCKERS_H
#define WK_MYSQL_BLOCKERS_H

#include "mysql/conn.h"

/* What a waiting statement waits for, by the state that the list of processes shows. */
enum lock_wait { LOCK_WAIT_UNKNOWN, LOCK_WAIT_TABLE, LOCK_WAIT_BACKUP };
enum lock_wait lock_wait_of(const char *state);

enum blocker_why {
    BLOCKER_BACKUP, /* holds the lock of a backup, or of FLUSH TABLES WITH READ LOCK */
    BLOCKER_HOLDS,  /* holds a lock on one of the tables */
    /* Of a server that does not tell who holds locks, or not this account: */
    BLOCKER_OPEN, /* has a transaction open in InnoDB */
    BLOCKER_MAY,  /* has the schema as its default: nothing more is known */
};
struct blocker {
    unsigned long id;
    enum blocker_why why;
    bool idle;       /* executes no statement */
    bool here;       /* the schema is its default one */
    bool own;        /* is of our own account */
    int64_t seconds; /* idle, or at its statement; -1: this account may not see it */
    char account[160], schema[256], table[256];
    char statement[96]; /* the one it executes, or on MySQL the last one; "": not known */
};
struct blockers {
    struct blocker *list;
    size_t count;
    bool told; /* by the server's own list of locks: `list` has all that hold one, and no other */
};
void blockers_free(struct blockers *b);

/* On a connection whose default schema is the one that the tables are in; that connection and session `waiting` are
 * left out. `table` says whether a table of the schema is one of them; NULL: none is. */
int db_blockers(struct db *db, unsigned long waiting, bool (*table)(void *arg, const char *name),
                void *arg, struct blockers *out, struct err *e);

/* May the session be ended so that a statement goes on that has waited `waited_s` seconds for a table's lock? Pure.
 * Only idle sessions of the schema, and never a backup. Where the server does not tell who holds locks: those with an
 * open transaction, and only if there is none of them those of other accounts of which nothing more is known; each only
 * if it has been idle for all of the wait. */
bool blockers_may_end(const struct blockers *b, size_t i, enum lock_wait wait, int64_t waited_s);

#endif
