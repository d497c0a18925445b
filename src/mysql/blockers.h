/* Finds the sessions that block a statement waiting for a lock, as far as the server shows them to
 * this account. Errors as in conn.h. */
#ifndef WK_MYSQL_BLOCKERS_H
#define WK_MYSQL_BLOCKERS_H

#include "mysql/conn.h"

/* The lock that a waiting statement waits for, by the state in the process list. */
enum lock_wait { LOCK_WAIT_UNKNOWN, LOCK_WAIT_TABLE, LOCK_WAIT_BACKUP };
enum lock_wait lock_wait_of(const char *state);

enum blocker_why {
    BLOCKER_BACKUP, /* holds the lock of a backup, or of FLUSH TABLES WITH READ LOCK */
    BLOCKER_HOLDS,  /* holds a lock on one of the tables */
    /* If the server does not show this account which sessions hold locks: */
    BLOCKER_OPEN, /* has a transaction open in InnoDB */
    BLOCKER_MAY,  /* has the schema as its default; nothing more is known */
};
struct blocker {
    unsigned long id;
    enum blocker_why why;
    bool idle; /* executes no statement */
    bool here; /* the schema is its default one */
    bool own;  /* belongs to our own account */
    /* how long it has been idle or at its statement; -1: this account may not see it */
    int64_t seconds;
    char account[160], schema[256], table[256];
    char statement[96]; /* the statement it executes, or on MySQL the last one; "": not known */
};
struct blockers {
    struct blocker *list;
    size_t count;
    bool told; /* from the server's list of locks: `list` is then exact and complete */
};
void blockers_free(struct blockers *b);

/* Lists the blockers. `db` must have the schema of the tables as its default; its own session and
 * session `waiting` are omitted. `table` tells whether a table of the schema is one of the tables
 * in question; NULL: none is. */
int db_blockers(struct db *db, unsigned long waiting, bool (*table)(void *arg, const char *name),
                void *arg, struct blockers *out, struct err *e);

/* Decides whether the session may be ended, so that a statement that has waited `waited_s` seconds
 * for a table's lock continues. Pure. Only idle sessions of the schema qualify, never a backup. If
 * the server does not show who holds locks, the session must have been idle for the whole wait;
 * sessions with an open transaction qualify, and only if there is none, sessions of other accounts
 * of which nothing more is known. */
bool blockers_may_end(const struct blockers *b, size_t i, enum lock_wait wait, int64_t waited_s);

#endif
