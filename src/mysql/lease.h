/* Named locks of the server (GET_LOCK). A session holds one until it releases it or ends; on Galera
 * each node has its own. Also the lease: such a lock that one restore of a world holds, together
 * with the durable table <sentinel>_lease, which has the generation and which game servers can
 * read. Errors as in conn.h. */
#ifndef WK_MYSQL_LEASE_H
#define WK_MYSQL_LEASE_H

#include "mysql/conn.h"

/* Returns the SQL expression for the name PREFIX.DIGEST of a lock on `what`, because a lock's name
 * has at most 64 characters, like a schema's name alone. `more`: further arguments of its CONCAT(),
 * or "". The caller frees it. */
char *db_lock_name(const char *prefix, const char *what, const char *more);

/* Returns 1 if this session has the lock; 0 if another one still has it after `wait` ms, rounded to
 * whole seconds (*holder: its connection id); or -1. It waits for less than the read timeout of
 * `db`. */
int db_lock(struct db *db, const char *name, int64_t wait, unsigned long *holder, struct err *e);
/* Executes a query that returns the connection id of a lock's holder, or 0. Returns 1 if it
 * returned 0; 0 with the id in *holder; or -1. */
int db_lock_ask(struct db *db, const char *sql, const char *const *args, unsigned long *holder,
                struct err *e);
int db_unlock(struct db *db, const char *name, struct err *e);

/* Takes the world's lease (GET_LOCK) on this connection. Returns 1 if taken; 0 if another session
 * holds it or still loads under it (*holder: its connection id); or -1. */
int db_lease_lock(struct db *db, const char *schema, unsigned long *holder, struct err *e);
/* Like db_lease_lock(), retried for `patience` ms; ERR_BUSY names the session that holds it. */
int db_lease_take(struct db *db, const char *schema, int64_t patience, struct err *e);
/* Like db_lease_lock(), for the lock of the world's supervisor, on any machine; without `take` it
 * is only queried. */
int db_watch_lock(struct db *db, const char *schema, bool take, unsigned long *holder,
                  struct err *e);
int db_watch_unlock(struct db *db, const char *schema, struct err *e);
/* Lets another connection write under the lease that `lease` holds, in slot 1 … DB_LEASE_SLOTS.
 * ERR_BUSY: the lease is lost or the slot is taken. */
#define DB_LEASE_SLOTS 15u
int db_lease_slot(struct db *db, const char *schema, unsigned slot, const struct db *lease,
                  struct err *e);

int db_lease_create(struct db *db, const char *schema, const char *sentinel, struct err *e);
/* Reads the generation, 0 if the table or its row is missing. ERR_REFUSED for one above
 * DB_GENERATION_MAX, which would have no successor: any account that may write into the world can
 * set it. */
int db_lease_read(struct db *db, const char *schema, const char *sentinel, uint64_t *generation,
                  struct err *e);
/* On a node of a Galera cluster, where GET_LOCK is local to the node: raises the generation from
 * `seen` in the whole cluster, ERR_BUSY if another node's restore was first. No effect on a server
 * that is not a node. The session must not have changed tables that it kept to its node. */
int db_lease_claim(struct db *db, const char *schema, const char *sentinel, uint64_t seen,
                   uint64_t generation, const char *holder, struct err *e);
/* Raises the generation; never lowers it. */
int db_lease_raise(struct db *db, const char *schema, const char *sentinel, uint64_t generation,
                   const char *holder, struct err *e);

/* For games: DB_LEASE_TABLE with one row, in a durable engine. `until` is `left_ms` after `now_us`,
 * by the server's own clock (db_lease_now()). The table is created if missing; not written to the
 * binary log if the account may do that. */
struct db_lease_word {
    uint64_t generation, number;
    const char *owner;
    int64_t now_us, left_ms;
};
int db_lease_now(struct db *db, int64_t *us, struct err *e);
int db_lease_publish(struct db *db, const char *schema, const struct db_lease_word *word,
                     struct err *e);
/* Ends it before its time. */
int db_lease_end(struct db *db, const char *schema, struct err *e);

#endif
