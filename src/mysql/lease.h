/* The lease: a lock of the server that one restore of a world holds, and the durable table
 * <sentinel>_lease with the generation, where game servers can read it. Errors as in conn.h. */
#ifndef WK_MYSQL_LEASE_H
#define WK_MYSQL_LEASE_H

#include "mysql/conn.h"

/* GET_LOCK of the world's lease on this connection: 1: got it; 0: another session holds it or still
 * loads under it (*holder: its connection id); -1. */
int db_lease_lock(struct db *db, const char *schema, unsigned long *holder, struct err *e);
/* The same, tried for `patience` ms; ERR_BUSY names the session that holds it. */
int db_lease_take(struct db *db, const char *schema, int64_t patience, struct err *e);
/* As db_lease_lock(), for the supervisor of the world, on any machine; without `take` it is only queried. */
int db_watch_lock(struct db *db, const char *schema, bool take, unsigned long *holder,
                  struct err *e);
int db_watch_unlock(struct db *db, const char *schema, struct err *e);
/* Lets a further connection write under the lease that `lease` holds, slot 1 … DB_LEASE_SLOTS.
 * ERR_BUSY: the lease is lost or the slot is taken. */
#define DB_LEASE_SLOTS 15u
int db_lease_slot(struct db *db, const char *schema, unsigned slot, const struct db *lease,
                  struct err *e);

int db_lease_create(struct db *db, const char *schema, const char *sentinel, struct err *e);
/* *generation 0 when the table or its row is missing. ERR_REFUSED for one above DB_GENERATION_MAX,
 * which would have no successor: any account that may write into the world can set it. */
int db_lease_read(struct db *db, const char *schema, const char *sentinel, uint64_t *generation,
                  struct err *e);
/* On a node of a Galera cluster, where GET_LOCK is local to the node: raises the generation that
 * was `seen` in the whole cluster, ERR_BUSY if another node's restore was first. No effect on a
 * server that is not a node. */
int db_lease_claim(struct db *db, const char *schema, const char *sentinel, uint64_t seen,
                   uint64_t generation, const char *holder, struct err *e);
/* Never lowers it. */
int db_lease_raise(struct db *db, const char *schema, const char *sentinel, uint64_t generation,
                   const char *holder, struct err *e);

/* For games: DB_LEASE_TABLE, one row, of the durable engine. `until` is `left_ms` after `now_us`, the server's own
 * clock (db_lease_now()). Made if it is not there; not logged, where that is allowed. */
struct db_lease_word {
    uint64_t generation, number;
    const char *owner;
    int64_t now_us, left_ms;
};
int db_lease_now(struct db *db, int64_t *us, struct err *e);
int db_lease_publish(struct db *db, const char *schema, const struct db_lease_word *word,
                     struct err *e);
/* It is over, before its time. */
int db_lease_end(struct db *db, const char *schema, struct err *e);

#endif
