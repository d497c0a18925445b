/* Named locks of the server (GET_LOCK), held by a session until it gives them back or ends. On Galera
 * each node has its own. Errors as in conn.h. */
#ifndef WK_MYSQL_LOCK_H
#define WK_MYSQL_LOCK_H

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

#endif
