/* Named locks of the server (GET_LOCK), held by a session until it gives them back or ends, on Galera by each node for
 * itself. And the lease: such a lock that one restore of a world holds, and the durable table <sentinel>_lease with the
 * generation, where game servers can read it. Errors as in conn.h. */
#ifndef WK_MYSQL_LEASE_H
#define WK_MYSQL_LEASE_H

#include "mysql/conn.h"

/* The SQL expression for the name PREFIX.DIGEST of a lock on `what`: a name has at most 64 characters, as
 * a schema's name has already. `more`: further arguments of its CONCAT(), or "". To be freed. */
char *db_lock_name(const char *prefix, const char *what, const char *more);

/* 1: this session has it; 0: another one still has it after `wait` ms, of which the server counts whole
 * seconds (*holder: its connection id); -1. */
int db_lock(struct db *db, const char *name, int64_t wait, unsigned long *holder, struct err *e);
/* For other questions about locks, whose answer is 0 (returns 1) or a connection id (returns 0). */
int db_lock_ask(struct db *db, const char *sql, const char *const *args, unsigned long *holder,
                struct err *e);
int db_unlock(struct db *db, const char *name, struct err *e);

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
 * server that is not a node. The session must not have changed tables while it kept that to its node. */
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
